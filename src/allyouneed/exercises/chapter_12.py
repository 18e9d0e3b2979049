"""The exercises of chapter 12, training: references, cases, mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from operator import mul
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from allyouneed.tokens import EOS, PAD
from allyouneed.transformer import Transformer, TransformerConfig

from .compare import kind, show
from .core import Case, Exercise, Family, Invariant, Mistake, mistakes
from .faults import still_there
from .pairs import combined
from .predictions import no_signs
from .suspects import LOOSE, SLIPS, Lack, each, listed, rules, said_of, verdicts_on

# 12.1 prediction: the best loss that label smoothing leaves

QUESTIONS = (
    (1, {
        0: ("the lowest loss held to be zero",
            "With smoothing the wrong tokens are asked for, too, and no model gives 0.9 and 1 to "
            "the same token: the lowest loss is the entropy of what is asked for."),
        -1: ("smoothing held to make the task easier",
             "Without smoothing the lowest loss is 0. With it, something is asked of every wrong "
             "token, and the lowest loss is an entropy."),
    }),
    (1, {
        0: ("the loss without smoothing held to stay",
            "The model that is best with smoothing gives the right token 0.9 or 0.8 and a little, "
            "and not 1. Minus the logarithm of that is what we see when we validate."),
        -1: ("the loss without smoothing held to fall",
             "Smoothing asks for less of the right token. What the right token gets less of makes "
             "the loss without smoothing higher."),
    }),
    (0, {
        1: ("more tokens held to cost something without smoothing",
            "ln V is the loss of a model that guesses. Without smoothing the best one gives the "
            "right token everything, and its loss is 0, whatever V is."),
        -1: ("more tokens held to help without smoothing",
             "Without smoothing the lowest loss is 0, whatever V is."),
    }),
)  # fmt: skip


def _guesses() -> Iterator[tuple[str, list[int], str]]:
    """Every wrong answer, with what is wrong in it."""
    for guess in product((1, 0, -1), repeat=len(QUESTIONS)):
        pairs = zip(QUESTIONS, guess, strict=True)
        told = [wrong[one] for (truth, wrong), one in pairs if one != truth]
        if told:
            names, reasons = zip(*told, strict=True)
            yield ", and ".join(names), list(guess), " ".join(reasons)


# 12.2 the label-smoothed loss


def smoothed_loss(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    real = targets != PAD
    log_p = logits[real].log_softmax(-1)
    q = torch.full_like(log_p, smoothing / (log_p.shape[1] - 1))
    q.scatter_add_(1, targets[real][:, None], torch.full_like(log_p[:, :1], 1 - smoothing))
    q[:, PAD] = 0.0
    return -(q * log_p).sum()


LARGE = ([-900.0, 0.0, -1000.0, 1.0], [0.0, 900.0, 1000.0, -1000.0])  # in the second e^z overflows


def loss_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(122)
    logits = [torch.randn(2, 4, 6, generator=draw) * 2, torch.randn(3, 2, 9, generator=draw)]
    targets = [
        torch.tensor([[1, 5, 2, 3], [4, 3, PAD, PAD]]),
        torch.tensor([[8, 3], [3, PAD], [5, 3]]),
    ]
    printed = [torch.tensor([[[0.0, 0.0, last]]]) for last in (0.0, 1.0)]
    return [
        *((z, torch.tensor([[2]]), 0.2) for z in printed),
        (logits[0], targets[0], 0.1),
        (logits[1], targets[1], 0.3),
        *((torch.tensor([[z]]), torch.tensor([[2]]), 0.1) for z in LARGE),
        (torch.tensor([LARGE]), torch.tensor([[2, 2]]), 0.1),
        (logits[1], targets[1], 0.0),
    ]


def _no_number(loss: Any) -> Any:
    """Infinite what is no number: which of the two comes depends on the order of the sums."""
    if isinstance(loss, float):
        return loss if math.isfinite(loss) else math.inf
    return loss.nan_to_num(math.inf, math.inf, math.inf) if isinstance(loss, Tensor) else loss


def _mean_logit(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    real = targets != PAD
    right = F.cross_entropy(logits[real], targets[real], reduction="sum")
    return (1 - smoothing) * right - smoothing * logits[real][:, 1:].mean(1).sum()


def _loss(
    logits: Tensor,
    targets: Tensor,
    right: float,
    other: float,
    pad: float = 0.0,
    padding: bool = False,
    log_softmax: Callable[[Tensor], Tensor] = lambda z: z.log_softmax(-1),
) -> Tensor:
    """Cross-entropy with any amounts on the right token, on the others and on PAD, by token."""
    some = torch.ones_like(targets, dtype=torch.bool) if padding else targets != PAD
    log_p, y = log_softmax(logits[some]), targets[some]
    q = torch.full_like(log_p, other)
    q[:, PAD] = pad
    q.scatter_(1, y[:, None], torch.full_like(log_p[:, :1], right))
    return -(q * log_p).sum(-1)


def _variant(
    amounts: Callable[[float, int], tuple[float, float, float]],
    reduce: Callable[[Tensor], Tensor] = torch.sum,
    **how: object,
) -> Callable[[Tensor, Tensor, float], Tensor]:
    def wrong(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        right, other, pad = amounts(smoothing, logits.shape[-1])
        return reduce(_loss(logits, targets, right, other, pad, **how))

    return wrong


def ours(e: float, v: int) -> tuple[float, float, float]:
    return 1 - e + e / (v - 1), e / (v - 1), 0.0


def on_pad(e: float, v: int) -> tuple[float, float, float]:
    return 1 - e + e / v, e / v, e / v


def _p_log_p(p: float) -> float:
    return p * math.log(p) if p else 0.0


def entropy(logits: Tensor, targets: Tensor, smoothing: float) -> float:
    right, other, _ = ours(smoothing, logits.shape[-1])
    each = -_p_log_p(right) - (logits.shape[-1] - 2) * _p_log_p(other)
    return each * float((targets != PAD).sum())


def _mixed_with(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    real, share = targets != PAD, smoothing / (logits.shape[-1] - 1)
    p = (1 - smoothing) * logits[real].softmax(-1) + share
    return -p.gather(1, targets[real][:, None]).log().sum()


def _as_annotated(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    right, other = 1 - smoothing, smoothing / max(logits.shape[-1] - 2, 1)
    many = logits.shape[-1] - 2
    entropy = -_p_log_p(right) - many * _p_log_p(other)
    return (_loss(logits, targets, right, other) - entropy).sum()


def _counting_padding(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    padding, share = targets == PAD, smoothing / (logits.shape[-1] - 1)
    more = _loss(logits[padding], targets[padding], 1 - smoothing, share, padding=True)
    return smoothed_loss(logits, targets, smoothing) + more.sum()


PAD_WHY = "PAD is never right, so it gets no mass: the share is spread over the other V - 1 tokens."
RAW_LOGS = [
    ("the logarithm of probabilities that may be zero", lambda z: z.softmax(-1).log()),
    ("exponentials that overflow", lambda z: z - z.exp().sum(-1, keepdim=True).log()),
]
LOSS_MISTAKES = mistakes(
    *((f"{name}, and {logs}", _variant(amounts, log_softmax=log_p),
       f"{why} And large logits have probabilities and exponentials that no float holds: "
       "`log_softmax` needs neither.")
      for name, amounts, why in (
          ("mass on PAD", on_pad, PAD_WHY),
          ("the right token left out of the share", lambda e, v: (1 - e, e / (v - 2), 0.0),
           "The right token gets its part of the share, too, on top of 1 - smoothing."),
          ("1 - smoothing on the right token, without its part of the share",
           lambda e, v: (1 - e, e / (v - 1), 0.0),
           "q does not sum to 1: the right token has 1 - smoothing *and* its part of the share."),
          ("divided by V, and nothing on PAD", lambda e, v: (1 - e + e / v, e / v, 0.0),
           "q does not sum to 1: divide by V - 1."),
          ("no smoothing", lambda e, v: (1.0, 0.0, 0.0),
           "The share `smoothing` is spread over all tokens but PAD."),
      )
      for logs, log_p in RAW_LOGS),
    ("mass on PAD", _variant(on_pad), PAD_WHY),
    ("mass on PAD, and the mean in place of the sum", _variant(on_pad, torch.mean),
     "This is PyTorch's `label_smoothing` as it comes. PAD should get no mass, and the task asks "
     "for the sum."),
    ("mass on PAD, and padding counted", _variant(on_pad, padding=True),
     "Two mistakes: PAD should get no mass, and places whose label is PAD count for nothing."),
    ("the share spread over V - 1 tokens, PAD among them",
     _variant(lambda e, v: (1 - e, e / (v - 1), e / (v - 1))),
     "These V - 1 tokens are all but the right one. They should be all but PAD, the right one "
     "among them."),
    ("the right token left out of the share", _variant(lambda e, v: (1 - e, e / (v - 2), 0.0)),
     "The share is spread over all tokens but PAD. The right one gets its part of it too, on top "
     "of 1 - smoothing."),
    ("divided by V, and nothing on PAD", _variant(lambda e, v: (1 - e + e / v, e / v, 0.0)),
     "The target distribution does not sum to 1: what would have been PAD's part is lost. Divide "
     "by V - 1."),
    ("1 - smoothing on the right token, without its part of the share",
     _variant(lambda e, v: (1 - e, e / (v - 1), 0.0)),
     "The target distribution does not sum to 1. The right token has 1 - smoothing and its part of "
     "the share."),
    ("all of the mass on the right token, and the share besides",
     _variant(lambda e, v: (1 + e / (v - 1), e / (v - 1), 0.0)),
     "The target distribution sums to more than 1: the right token keeps 1 - smoothing only."),
    ("padding counted", _variant(ours, padding=True),
     "Places whose label is PAD count for nothing. Leave them out before you sum."),
    ("padding counted, with its share of the smoothing",
     lambda logits, targets, smoothing: (
         smoothed_loss(logits, targets, smoothing)
         - smoothing * logits[targets == PAD].log_softmax(-1)[:, 1:].mean(-1).sum()
     ),
     "Where the label is PAD the whole row of q is zero, the shares of the smoothing too."),
    ("padding counted, with 1 - smoothing on PAD",
     _counting_padding,
     "Places whose label is PAD count for nothing: there the whole row of q is zero."),
    ("a share of the same size for PAD, too",
     _variant(lambda e, v: (1 - e + e / (v - 1), e / (v - 1), e / (v - 1))),
     "The target distribution sums to more than 1. PAD gets no share; all others have it."),
    ("the sum of the logarithms in place of their mean", _variant(lambda e, v: (1.0, e, 0.0)),
     "Each of the V - 1 tokens gets smoothing / (V - 1), and not the whole of it."),
    ("the mean in place of the sum", _variant(ours, torch.mean),
     "The task asks for the sum over tokens. Means of batches cannot be put together."),
    ("divided by all places, padding too",
     lambda logits, targets, smoothing: (
         smoothed_loss(logits, targets, smoothing) / targets.numel()
     ),
     "The sum is asked for. Divided by all places, it would depend on how much padding there is."),
    ("divided by the number of sentences",
     lambda logits, targets, smoothing: smoothed_loss(logits, targets, smoothing) / len(targets),
     "The sum over all tokens is asked for, with no division."),
    ("no smoothing", _variant(lambda e, v: (1.0, 0.0, 0.0)),
     "This is the plain cross-entropy. The share `smoothing` is to be spread over all tokens but "
     "PAD."),
    ("smoothing in place of 1 - smoothing on the right token",
     _variant(lambda e, v: (e + e / (v - 1), e / (v - 1), 0.0)),
     "The right token keeps 1 - smoothing, and has its part of the share besides."),
    ("nothing spread", _variant(lambda e, v: (1 - e, 0.0, 0.0)),
     "What the right token gives up is spread over all tokens but PAD."),
    ("smoothing and 1 - smoothing exchanged", _variant(lambda e, v: ours(1 - e, v)),
     "The right token keeps 1 - smoothing, and `smoothing` is spread."),
    ("the paper's 0.1 in place of smoothing",
     lambda logits, targets, smoothing: smoothed_loss(logits, targets, 0.1),
     "How much is spread is given: use the argument."),
    ("the mean of the logits for the share, not of their logarithms", _mean_logit,
     "Both parts are logarithms of probabilities: a log-softmax of the logits comes first."),
    ("softmax twice", _variant(ours, log_softmax=lambda z: z.softmax(-1).log_softmax(-1)),
     "`log_softmax` and `cross_entropy` take logits, and do the softmax themselves."),
    ("no logarithm", _variant(ours, log_softmax=lambda z: z.softmax(-1)),
     "The loss is minus the logarithm of the probabilities, weighted with q."),
    ("the logarithm of probabilities that have become zero",
     _variant(ours, log_softmax=lambda z: z.softmax(-1).log()),
     "That is right on paper. A probability of e to the power of -1,000 is rounded to zero, and "
     "its logarithm is minus infinity: `log_softmax` needs no probabilities."),
    ("exponentials that stand alone, and become infinite",
     _variant(ours, log_softmax=lambda z: z - z.exp().sum(-1, keepdim=True).log()),
     "That is right on paper. e to the power of 1,000 overflows: take the largest logit off "
     "before, as `logsumexp` and `log_softmax` do."),
    ("the largest logit of the whole batch taken off",
     _variant(ours, log_softmax=lambda z: (
         (below := z - z.max()) - below.exp().sum(-1, keepdim=True).log())),
     "Each place has a largest logit of its own. Far below that of another, all become zero."),
    ("the logits as they are", _variant(ours, log_softmax=lambda z: z),
     "Logits are not logarithms of probabilities before `log_softmax` made them so."),
    ("the Kullback-Leibler divergence",
     lambda logits, targets, smoothing: (
         smoothed_loss(logits, targets, smoothing) - entropy(logits, targets, smoothing)
     ),
     "`kl_div` takes the entropy of q off, so its lowest value is 0. Gradients are the same, but "
     "the task asks for the cross-entropy."),
    ("the Kullback-Leibler divergence, and the right token left out of the share", _as_annotated,
     "This is the loss of the Annotated Transformer: `KLDivLoss` takes the entropy of q off, and q "
     "spreads its share over V - 2 tokens. Asked for is the cross-entropy, and (12.1) spreads over "
     "V - 1, the right token among them."),
    ("the Kullback-Leibler divergence, and the mean over the tokens",
     lambda z, y, e: (smoothed_loss(z, y, e) - entropy(z, y, e)) / (y != PAD).sum(),
     "`kl_div` takes the entropy of q off, and the task asks for the sum."),
    ("the mean of each sentence, added up",
     lambda z, y, e: sum(
         smoothed_loss(one[None], those[None], e) / (those != PAD).sum().clamp(min=1)
         for one, those in zip(z, y, strict=True)
     ),
     "The sum over all tokens is asked for, with no division."),
    ("the model's probabilities smoothed", _mixed_with,
     "What is smoothed is q, what the model should say, and not p, what it says."),
    *((f"{little:g} beneath the logarithm",
       _variant(ours, log_softmax=lambda z, little=little: (z.softmax(-1) + little).log()),
       "That is right where no probability is small. One of e to the power of -1,000 has the "
       "logarithm -1,000, and here gets that of a number of yours: `log_softmax` needs none.")
      for little in (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 1e-15, 1e-20)),
    ("PAD taken out of the softmax",
     _variant(
         ours,
         log_softmax=lambda z: torch.cat(
             [torch.zeros_like(z[:, :1]), z[:, 1:].log_softmax(-1)], dim=1
         ),
     ),
     "The model's probabilities are over all V tokens, PAD among them. Only q leaves PAD out."),
    ("softmax along the wrong axis",
     lambda logits, targets, smoothing: _loss(
         logits.log_softmax(1),
         targets,
         *ours(smoothing, logits.shape[-1]),
         log_softmax=lambda z: z,
     ).sum(),
     "The softmax runs over the vocabulary, the last axis."),
    ("the share of the smoothing alone, without 1 - smoothing on the right token",
     _variant(lambda e, v: (e / (v - 1), e / (v - 1), 0.0)),
     "The right token has 1 - smoothing besides its part of the share."),
    *((f"{names} left out, too",
       lambda z, y, e, ids=ids: smoothed_loss(
           z, y.masked_fill(torch.isin(y, torch.tensor(ids)), PAD), e),
       "Only places whose label is PAD count for nothing. All other ids are to be learned, and EOS "
       "above all: else the model never stops.")
      for names, ids in (("EOS", [3]), ("UNK", [1]), ("UNK and BOS", [1, 2]),
                         ("UNK, BOS and EOS", [1, 2, 3]))),
    ("the share spread over all tokens but the last", lambda z, y, e: (
        _variant(lambda e, v: (1 - e, 0.0, 0.0))(z, y, e)
        - e * z[y != PAD].log_softmax(-1)[:, :-1].mean(1).sum()),
     "PAD is token 0, the first: `[:, 1:]` leaves it out, and `[:, :-1]` the last of the words."),
    *((f"the logits of the padding set to zero, and their losses {which}",
       lambda z, y, e, on=on: smoothed_loss(z, y, e)
       + (y == PAD).sum() * math.log(z.shape[-1]) * on(e),
       "Logits of zero give every token the same probability, and a loss of their own, ln V. Leave "
       "out the losses, or the rows of q.")
      for which, on in (("counted", lambda e: 1.0), ("counted with their share", lambda e: e))),
    ("the smoothing alone", _variant(lambda e, v: (1 / (v - 1), 1 / (v - 1), 0.0)),
     "The right token has 1 - smoothing, and only the share `smoothing` is spread over all."),
    ("the logits made smaller in place of a share for all",
     lambda z, y, e: _variant(lambda e, v: (1.0, 0.0, 0.0))((1 - e) * z, y, e),
     "What is smoothed is q, what the model should say, and not the logits."),
    ("divided by V - 2", _variant(lambda e, v: (1 - e + e / (v - 2), e / (v - 2), 0.0)),
     "Only PAD gets nothing: the share is spread over V - 1 tokens, the right one among them."),
    ("padding counted, with 1 - smoothing on PAD, and the mean over all places",
     lambda z, y, e: _counting_padding(z, y, e) / y.numel(),
     "Places without a token ask for nothing, and the sum over the others is asked for."),
)  # fmt: skip

# Two slips at once: a wrong share, and what else becomes of the losses.
SHARES = {
    "mass on PAD": on_pad,
    "the share spread over V - 1 tokens, PAD among them":
        lambda e, v: (1 - e, e / (v - 1), e / (v - 1)),
    "the right token left out of the share": lambda e, v: (1 - e, e / (v - 2), 0.0),
    "no smoothing": lambda e, v: (1.0, 0.0, 0.0),
    "a share of the same size for PAD, too":
        lambda e, v: (1 - e + e / (v - 1), e / (v - 1), e / (v - 1)),
    "smoothing and 1 - smoothing exchanged": lambda e, v: ours(1 - e, v),
}  # fmt: skip
FURTHER = {
    "padding counted": {"padding": True},
    "the mean in place of the sum": {"reduce": torch.mean},
    "no logarithm": {"log_softmax": lambda z: z.softmax(-1)},
    "the logits as they are": {"log_softmax": lambda z: z},
}
_TOLD = {mistake.name: mistake.why for mistake in LOSS_MISTAKES}
LOSS_MISTAKES += mistakes(
    *(
        (f"{one}, and {two}", _variant(amounts, **how), f"Two mistakes. {_TOLD[one]} {_TOLD[two]}")
        for one, amounts in SHARES.items()
        for two, how in FURTHER.items()
        if f"{one}, and {two}" not in _TOLD
    ),
    ("the share without its factor, smoothing",
     _variant(lambda e, v: (1 - e + 1 / (v - 1), 1 / (v - 1), 0.0)),
     "The share of each token is smoothing / (V - 1)."),
    ("the share divided by V - 1 twice",
     _variant(lambda e, v: (1 - e + e / (v - 1) ** 2, e / (v - 1) ** 2, 0.0)),
     "The share of each token is smoothing / (V - 1): a mean over the tokens has divided already."),
    ("the share divided by V + 1", _variant(lambda e, v: (1 - e + e / (v + 1), e / (v + 1), 0.0)),
     "The share is spread over V - 1 tokens: all but PAD."),
    ("the share taken off", _variant(lambda e, v: (1 - e - e / (v - 1), -e / (v - 1), 0.0)),
     "Both parts of the loss have a minus before them: the share is added to 1 - smoothing."),
    ("the part of the right token with the wrong sign",
     _variant(lambda e, v: (e - 1 + e / (v - 1), e / (v - 1), 0.0)),
     "The right token has 1 - smoothing, and both parts of the loss have a minus before them."),
    ("1 + smoothing on the right token",
     _variant(lambda e, v: (1 + e + e / (v - 1), e / (v - 1), 0.0)),
     "The right token has 1 - smoothing, and its part of the share."),
    ("the losses of the padding alone", lambda z, y, e: smoothed_loss(
        z, torch.where(y == PAD, 1, PAD), e) - (1 - e) * smoothed_loss(
        z, torch.where(y == PAD, 1, PAD), 0.0),
     "Left out are the targets that are PAD, and not the others: the mask is `targets != PAD`."),
    ("the losses of the padding alone, with 1 - smoothing on PAD",
     lambda z, y, e: smoothed_loss(z, torch.where(y == PAD, 1, PAD), e) - (1 - e) * (
         z.log_softmax(-1)[..., 0] - z.log_softmax(-1)[..., 1])[y == PAD].sum(),
     "Left out are the targets that are PAD, and not the others: the mask is `targets != PAD`."),
    ("the right token's part averaged over the tokens, the share's added up",
     lambda z, y, e: _variant(lambda e, v: (1 - e, 0.0, 0.0), torch.mean)(z, y, e)
     + _variant(lambda e, v: (e / (v - 1), e / (v - 1), 0.0))(z, y, e),
     "Both parts are added up over all tokens: `reduction=\"sum\"`."),
    ("the share's part averaged over the tokens, the right token's added up",
     lambda z, y, e: _variant(lambda e, v: (1 - e, 0.0, 0.0))(z, y, e)
     + _variant(lambda e, v: (e / (v - 1), e / (v - 1), 0.0), torch.mean)(z, y, e),
     "Both parts are added up over all tokens."),
    ("softmax over the tokens", _variant(ours, log_softmax=lambda z: z.log_softmax(0)),
     "The softmax runs over the vocabulary, the last axis."),
    ("softmax over the sentences",
     lambda z, y, e: _variant(ours, log_softmax=lambda z: z)(z.log_softmax(0), y, e),
     "The softmax runs over the vocabulary, the last axis."),
    ("mass on PAD, and 1 - smoothing without its part of the share",
     _variant(lambda e, v: (1 - e, e / v, e / v)),
     "The target distribution does not sum to 1: the right token has 1 - smoothing and its part "
     "of the share. And PAD should get no mass: divide by V - 1."),
    ("mass on PAD, and smoothing and 1 - smoothing exchanged",
     _variant(lambda e, v: on_pad(1 - e, v)),
     f"Two mistakes. {PAD_WHY} And the right token keeps 1 - smoothing."),
    ("mass on PAD, and divided by all places, padding too",
     lambda z, y, e: _variant(on_pad)(z, y, e) / y.numel(),
     f"Two mistakes. {PAD_WHY} And the sum is asked for."),
    ("mass on PAD, and divided by the number of sentences",
     lambda z, y, e: _variant(on_pad)(z, y, e) / len(y),
     f"Two mistakes. {PAD_WHY} And the sum over all tokens is asked for, with no division."),
)  # fmt: skip

# 12.3 design: a schedule with given properties


def rate(step: int, steps: int, warmup_steps: int, highest: float) -> float:
    return _line(step, steps, warmup_steps, highest)


SCHEDULE_CASES = [("1 to 10000", 10_000, 1_000, 0.001), ("1 to 500", 500, 100, 0.02)]


class Rates(dict):
    """Which of the wanted properties the rates of a run have, the rates as shares of the highest,
    and, for each property that they have not, the first step that shows it."""

    shares: Tensor
    shown: dict[str, int]


def rates_of(
    answer: Callable, every: str, steps: int, warmup_steps: int, highest: float
) -> Rates | None:
    if isinstance(first := answer(1, steps, warmup_steps, highest), list | tuple):
        raise ValueError(f"expected the rate of one step, a number, got {kind(first)}")
    rates = [answer(step, steps, warmup_steps, highest) for step in range(1, steps + 1)]
    if None in rates:
        return None
    shares = torch.tensor([float(one) for one in rates], dtype=torch.float64) / highest
    return properties(shares, warmup_steps)


def properties(r: Tensor, w: int) -> Rates:
    """Of the shares `r` of the highest rate, with `w` steps of warm-up."""
    change, near, steps, step = r.diff(), 1e-6, len(r), torch.arange(len(r)) + 1
    middle = (w + steps) // 2
    before = step[:-1]  # of each change, the step in front of it
    bad = {
        "above 0 before the last step": step[(r < 0) | ((r <= 0) & (step < steps))],
        "rises at each step of the warm-up": before[(change <= 0) & (before < w)],
        "highest at the end of the warm-up": step[
            (r > 1 + near) | (((r - 1).abs() >= near) & (step == w))
        ],
        "never rises after it": before[(change > near) & (before >= w)],
        "at least half of the highest half-way down": step[
            (r < 0.5 - near) & (step >= w) & (step <= middle)
        ],
        "at most a hundredth at the last step": step[(r > 0.01 + near) & (step == steps)],
        "no leap where the fall begins": before[(change.abs() > 2 / w + near) & (before == w)],
        "no leap": before[change.abs() > 2 / w + near],
        "the first rate at most 2 / warmup_steps of the highest": step[
            (r > 2 / w + near) & (step == 1)
        ],
    }
    finite = bool(r.isfinite().all())
    found = Rates({name: finite and not len(steps) for name, steps in bad.items()})
    found.shares, found.shown = r, {name: int(one[0]) for name, one in bad.items() if len(one)}
    return found


OTHERWISE: list[tuple[str, Callable[[Tensor, int, float], Tensor], str]] = [
    ("without the highest rate", lambda r, w, highest: r * highest,
     "The shape is right. Multiply it by `highest`."),
    ("multiplied by the highest rate twice", lambda r, w, highest: r / highest,
     "The shape is right. Multiply it by `highest`, once."),
    ("the warm-up not divided by its number of steps",
     lambda r, w, highest: torch.cat([r[:w] / w, r[w:]]),
     "During the warm-up the rate is the share step / warmup_steps of `highest`."),
    ("the warm-up without the highest rate",
     lambda r, w, highest: torch.cat([r[:w] * highest, r[w:]]),
     "The shape is right. Multiply by `highest` during the warm-up, too."),
    ("the fall without the highest rate",
     lambda r, w, highest: torch.cat([r[:w], r[w:] * highest]),
     "The shape is right. Multiply by `highest` after the warm-up, too."),
    ("the top reached one step early", lambda r, w, highest: torch.cat([r[:1] / 2, r[:-1]]),
     "Steps are counted from 1: the first rate is 1 / warmup_steps of the highest, and the highest "
     "comes at step `warmup_steps`."),
]  # fmt: skip


def _how_it_runs(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """What would mend all, or where the properties that are missing show."""
    if not all(isinstance(one, Rates) and one.shares.isfinite().all() for one in got):
        return None
    for name, change, why in OTHERWISE:
        mended = (
            properties(change(one.shares, w, highest), w)
            for one, (_, _, w, highest) in zip(got, cases, strict=True)
        )
        if all(all(one.values()) for one in mended):
            return name, why
    case, one = next((c, g) for c, g in zip(cases, got, strict=True) if not all(g.values()))
    lacks = [name for name in one if not one[name]]
    places = []
    for name in lacks[:3]:
        at = one.shown[name]
        said = f"at step {at} the rate is {one.shares[at - 1]:.4g} of the highest"
        if "rise" in name or "leap" in name:
            said += f", one step later {one.shares[at]:.4g}"
        places += [said] * (said not in places)
    if one.shown == {"above 0 before the last step": 1}:
        return "0 at the first step", "Steps are counted from 1, and the first rate is above 0."
    steps, w = case[1:3]
    if {*lacks} <= {"no leap", "no leap where the fall begins"}:
        changes = one.shares.diff().abs()
        at = int(changes.argmax())
        size, where = float(changes[at]) * w, "during" if at + 2 <= w else "after"
        return (
            "a leap" if size > 10 else f"too steep {where} the warm-up",
            f"Of {steps:,} steps: from step {at + 1:,} to step {at + 2:,} the rate changes by "
            f"{round(size, 2):,g} / warmup_steps of the highest. It may change by 2 / warmup_steps "
            "at most.",
        )
    if lacks == ["at most a hundredth at the last step"]:
        last = float(one.shares[-1])
        why = f"After {steps:,} steps the rate is {last:.3g} of the highest: too much."
        wave = abs(last - (1 + math.cos(1)) / 2) < 1e-3
        return "too high at the last step", why + wave * " Half a wave ends at pi, and not at 1."
    told = "; ".join(places)
    listed = ", ".join(f'"{name}"' for name in lacks)
    return f"asked for, and not so: {listed}", f"Of {case[1]:,} steps: {told}."


def _falls(shape: Callable[[float], float], rise: Callable | None = None) -> Callable:
    """A warm-up, then `shape` of the share of the fall that is done, 0 to 1."""
    rise = rise or (lambda share: share)

    def answer(step, steps, warmup_steps, highest):
        if step <= warmup_steps:
            return highest * rise(step / warmup_steps)
        return highest * shape((step - warmup_steps) / (steps - warmup_steps))

    return answer


_line = _falls(lambda share: 1 - share)
_wave = _falls(lambda share: (1 + math.cos(math.pi * share)) / 2)

SCHEDULE_MISTAKES = mistakes(
    ("a leap behind the warm-up, and too low half-way down, as if the fall began at the first step",
     lambda step, steps, w, highest: highest * (step / w if step <= w else 1 - step / steps),
     "At step `warmup_steps` nothing of the fall is done: its share is (step - warmup_steps) / "
     "(steps - warmup_steps)."),
    ("a leap behind the warm-up, as if the fall began at the first step",
     lambda step, steps, w, highest: highest * (
         step / w if step <= w else math.cos(math.pi / 2 * step / steps)),
     "At step `warmup_steps` nothing of the fall is done: its share is (step - warmup_steps) / "
     "(steps - warmup_steps)."),
    ("nothing during the warm-up", _falls(lambda share: 1 - share, lambda share: share // 1),
     "The rate is 0 until the warm-up ends. `//` gives whole numbers: `step / warmup_steps`."),
    ("the paper's schedule, put to 0 at the last step",
     lambda step, steps, w, highest: highest * min(step / w, (w / step) ** 0.5) * (step < steps),
     "The inverse root falls too fast at first and too little at the end, and the last step is a "
     "leap."),
    ("too low half-way down, and too high at the last step, as one over the step is",
     lambda step, steps, w, highest: highest * min(step / w, w / step),
     "One over the step falls fast at first and hardly at the end: it is a hundredth only after a "
     "hundred times the warm-up."),
    ("rising after the warm-up", _falls(lambda share: 1 + share),
     "At step `warmup_steps` it is the highest, and from there on it comes down."),
    ("10,000 and 1,000 written into it",
     lambda step, steps, w, highest: _line(step, 10_000, 1_000, highest),
     "They are the numbers of one run: `steps` and `warmup_steps` are arguments."),
    ("the paper's schedule",
     lambda step, steps, w, highest: highest * min((w / step) ** 0.5, step / w),
     "The inverse root falls to half at four times the warm-up, and then takes for ever: at the "
     "last step it is far above a hundredth."),
    ("no warm-up",
     lambda step, steps, w, highest: highest * (1 - step / steps),
     "The first rates are the highest. It should rise for `warmup_steps` steps."),
    ("the highest rate from the first step",
     lambda step, steps, w, highest: _wave(max(step, w), steps, w, highest),
     "During the warm-up the rate should rise at each step, from near 0."),
    ("too low half-way down, as an exponential fall is", _falls(lambda share: 0.01**share),
     "It comes down far enough, but too early: half-way down, half of the highest should be left."),
    ("zero or below before the end", _falls(lambda share: math.cos(math.pi * share)),
     "A rate of 0 learns nothing, and one below climbs the loss. A cosine over half a wave goes "
     "from 1 to -1: add 1 and divide by 2. A line reaches 0 at the last step, and not before."),
    ("a whole wave", _falls(lambda share: (1 + math.cos(2 * math.pi * share)) / 2),
     "A whole wave rises again. Half a wave comes down once."),
    ("counted from 0",
     lambda step, steps, w, highest: _line(step - 1, steps, w, highest),
     "Steps count from 1: the first rate is above 0, and the highest comes at step warmup_steps."),
    ("the highest rate not reached",
     lambda step, steps, w, highest: highest * (
         step / (w + 1) if step <= w else 1 - (step - w) / (steps - w)
     ),
     "At step `warmup_steps` the highest rate should be reached."),
    ("half a sine, highest in the middle of the run",
     lambda step, steps, w, highest: highest * math.sin(math.pi * step / steps),
     "The highest rate should come at step `warmup_steps`, not in the middle. Rise and fall are "
     "two pieces, with an `if` between."),
    ("0 long before the end, as if the fall began at the first step and took fewer",
     lambda step, steps, w, highest: highest * (
         step / w if step <= w else max(0.0, 1 - step / (steps - w))),
     "At step `warmup_steps` nothing of the fall is done: its share is (step - warmup_steps) / "
     "(steps - warmup_steps)."),
    ("highest in the middle of the run",
     lambda step, steps, w, highest: highest * (1 - abs(2 * step / steps - 1)),
     "The highest rate should come at step `warmup_steps`, not in the middle."),
    ("the share of the fall counted from the first step",
     lambda step, steps, w, highest: highest * (
         step / w if step < w else (1 + math.cos(math.pi * step / steps)) / 2
     ),
     "At step `warmup_steps` nothing of the fall is done: its share is (step - warmup_steps) / "
     "(steps - warmup_steps)."),
    ("too low at the end of the warm-up and half-way down, as if the fall began at the first step",
     lambda step, steps, w, highest: highest * min(1, step / w) * (1 - step / steps),
     "At step `warmup_steps` the rate is `highest`, half-way down still half of it. If the fall "
     "begins at the first step, a part of it is done by then."),
)  # fmt: skip

# 12.4 one update of AdamW

State = tuple[Tensor, Tensor, Tensor]


def adam_update(
    theta: Tensor,
    g: Tensor,
    m: Tensor,
    v: Tensor,
    t: int,
    rate: float,
    beta_1: float,
    beta_2: float,
    eps: float,
) -> State:
    m = beta_1 * m + (1 - beta_1) * g
    v = beta_2 * v + (1 - beta_2) * g**2
    m_hat, v_hat = m / (1 - beta_1**t), v / (1 - beta_2**t)
    return theta - rate * m_hat / (v_hat.sqrt() + eps), m, v


def adamw_update(
    theta: Tensor,
    g: Tensor,
    m: Tensor,
    v: Tensor,
    t: int,
    rate: float,
    beta_1: float,
    beta_2: float,
    eps: float,
    decay: float,
) -> State:
    return adam_update((1 - rate * decay) * theta, g, m, v, t, rate, beta_1, beta_2, eps)


def adam_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(124)
    one, zero = torch.tensor([1.0]), torch.tensor([0.0])
    cases = [(one, 2 * one, zero, zero.clone(), 1, 0.1, 0.9, 0.98, 2.0, 0.5)]
    for shape, t, numbers in (
        ((3,), 1, (0.1, 0.9, 0.98, 0.5, 0.4)),
        ((2, 2), 2, (0.02, 0.7, 0.9, 0.3, 3.0)),
        ((4,), 5, (0.3, 0.8, 0.95, 0.2, 0.7)),
        ((1, 2), 3, (0.1, 0.6, 0.9, 0.4, 1.5)),
    ):
        theta, g, m = (torch.randn(shape, generator=draw) for _ in range(3))
        v = torch.rand(shape, generator=draw) + 0.1
        if t == 1:
            m, v = torch.zeros(shape), torch.zeros(shape)
            g[2] = 0.0  # a weight that never had a gradient
        if t == 5:
            g[1] = 0.0  # m still moves this weight
        cases.append((theta, g, m, v, t, *numbers))
    return cases


def _adam(
    new_m: Callable = lambda m, g, b: b * m + (1 - b) * g,
    new_v: Callable = lambda v, g, b: b * v + (1 - b) * g**2,
    m_hat: Callable = lambda m, b, t: m / (1 - b**t),
    v_hat: Callable = lambda v, b, t: v / (1 - b**t),
    step: Callable = lambda m, v, eps: m / (v.sqrt() + eps),
    sign: float = -1.0,
) -> Callable[..., State]:
    """An update with some of its parts bent."""

    def wrong(theta, g, m, v, t, rate, beta_1, beta_2, eps):
        m, v = new_m(m, g, beta_1), new_v(v, g, beta_2)
        move = step(m_hat(m, beta_1, t), v_hat(v, beta_2, t), eps)
        return theta + sign * rate * move, m, v

    return wrong


def _returns_corrected(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    theta, m, v = adam_update(theta, g, m, v, t, rate, beta_1, beta_2, eps)
    return theta, m / (1 - beta_1**t), v / (1 - beta_2**t)


def _old_moments(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    new = adam_update(theta, g, m, v, t, rate, beta_1, beta_2, eps)
    old = m / (1 - beta_1**t) / ((v / (1 - beta_2**t)).sqrt() + eps)
    return theta - rate * old, new[1], new[2]


def _old_m(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    new = adam_update(theta, g, m, v, t, rate, beta_1, beta_2, eps)
    step = m / (1 - beta_1**t) / ((new[2] / (1 - beta_2**t)).sqrt() + eps)
    return theta - rate * step, new[1], new[2]


def _v_from_m(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    m = beta_1 * m + (1 - beta_1) * g
    v = beta_2 * v + (1 - beta_2) * m**2
    step = m / (1 - beta_1**t) / ((v / (1 - beta_2**t)).sqrt() + eps)
    return theta - rate * step, m, v


def _g_corrected(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    _, m, v = adam_update(theta, g, m, v, t, rate, beta_1, beta_2, eps)
    step = g / (1 - beta_1**t) / ((v / (1 - beta_2**t)).sqrt() + eps)
    return theta - rate * step, m, v


def _g_itself(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    _, m, v = adam_update(theta, g, m, v, t, rate, beta_1, beta_2, eps)
    return theta - rate * g / ((v / (1 - beta_2**t)).sqrt() + eps), m, v


def _rate_left_out(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    return adam_update(theta, g, m, v, t, 1.0, beta_1, beta_2, eps)


def _exchanged_in_the_averages(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    m, v = beta_2 * m + (1 - beta_2) * g, beta_1 * v + (1 - beta_1) * g**2
    step = m / (1 - beta_1**t) / ((v / (1 - beta_2**t)).sqrt() + eps)
    return theta - rate * step, m, v


def _surprise(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    m = beta_1 * m + (1 - beta_1) * g
    v = beta_2 * v + (1 - beta_2) * (g - m) ** 2
    step = m / (1 - beta_1**t) / ((v / (1 - beta_2**t)).sqrt() + eps)
    return theta - rate * step, m, v


def _exchanged(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    return adam_update(theta, g, m, v, t, rate, beta_2, beta_1, eps)


def _previous(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    return adam_update(theta, g, m, v, t + 1, rate, beta_1, beta_2, eps)


def _order(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    theta, m, v = adam_update(theta, g, m, v, t, rate, beta_1, beta_2, eps)
    return theta, v, m


def _old_state(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    return adam_update(theta, g, m, v, t, rate, beta_1, beta_2, eps)[0], m, v


def _decayed(wrong: Callable) -> Callable:
    """A mistake of Adam's, with the decay as it should be: no step depends on theta."""
    return lambda theta, g, m, v, t, rate, beta_1, beta_2, eps, decay: wrong(
        (1 - rate * decay) * theta, g, m, v, t, rate, beta_1, beta_2, eps
    )


def _decay(
    before: Callable = lambda theta, rate, decay: theta,
    gradient: Callable = lambda g, theta, decay: g,
    after: Callable = lambda new, theta, rate, decay: new,
    late: bool = False,
) -> Callable[..., State]:
    """The decay in another place."""

    def wrong(theta, g, m, v, t, rate, beta_1, beta_2, eps, decay):
        start = before(theta, rate, decay)
        g = gradient(g, start if late else theta, decay)
        new, m, v = adam_update(start, g, m, v, t, rate, beta_1, beta_2, eps)
        return after(new, theta, rate, decay), m, v

    return wrong


def _in_the_quotient(theta, g, m, v, t, rate, beta_1, beta_2, eps, decay):
    _, m, v = adam_update(theta, g, m, v, t, rate, beta_1, beta_2, eps)
    above = m / (1 - beta_1**t) + decay * theta
    return theta - rate * above / ((v / (1 - beta_2**t)).sqrt() + eps), m, v


def _decay_in(average: str) -> Callable[..., State]:
    """The decay added to the gradient that goes into one of the averages."""

    def wrong(theta, g, m, v, t, rate, beta_1, beta_2, eps, decay):
        more = g + decay * theta
        m = beta_1 * m + (1 - beta_1) * (more if average == "m" else g)
        v = beta_2 * v + (1 - beta_2) * (more if average == "v" else g) ** 2
        step = m / (1 - beta_1**t) / ((v / (1 - beta_2**t)).sqrt() + eps)
        return theta - rate * step, m, v

    return wrong


DECAY_MISTAKES = mistakes(
    ("no decay", _decay(),
     "This is Adam. The weights are multiplied by 1 - rate * decay besides."),
    ("the decay added to the gradient",
     _decay(gradient=lambda g, theta, decay: g + decay * theta),
     "Then it goes through m, v and the division, and weights with large gradients are hardly "
     "pulled at all. AdamW keeps it apart."),
    *((f"the decay added to the gradient in {x} alone", _decay_in(x),
       "AdamW keeps the decay out of both averages: the weights are multiplied by "
       "1 - rate * decay.")
      for x in "mv"),
    ("what is taken off returned in place of theta", lambda theta, *case: (
        theta - (new := adamw_update(theta, *case))[0], *new[1:]),
     "It is right, decay and all. Return what the weights are after it: theta minus that."),
    ("the decay added to the gradient, and to the weights as well",
     _decay(lambda theta, rate, decay: (1 - rate * decay) * theta,
            lambda g, theta, decay: g + decay * theta),
     "The decay takes one way only: the weights are multiplied by 1 - rate * decay."),
    ("the decayed weights added to the gradient, too",
     _decay(lambda theta, rate, decay: (1 - rate * decay) * theta,
            lambda g, theta, decay: g + decay * theta, late=True),
     "The decay takes one way only: the weights are multiplied by 1 - rate * decay."),
    ("the decay inside the division", _in_the_quotient,
     "What is added to m goes through the division by the root of v. AdamW keeps the decay out of "
     "it."),
    ("the decay without the rate", _decay(lambda theta, rate, decay: (1 - decay) * theta),
     "The decay, too, is multiplied by the rate: 1 - rate * decay."),
    ("the weights made larger", _decay(lambda theta, rate, decay: (1 + rate * decay) * theta),
     "The decay pulls towards zero: 1 - rate * decay."),
    ("the step decayed as well",
     _decay(after=lambda new, theta, rate, decay: (1 - rate * decay) * new),
     "The old weights are multiplied, and then comes the step. Here the step is multiplied, too."),
    ("decayed twice",
     _decay(lambda theta, rate, decay: (1 - rate * decay) ** 2 * theta),
     "Once is enough: before the step, or taken off with it."),
    ("the weights multiplied by rate * decay",
     _decay(lambda theta, rate, decay: rate * decay * theta),
     "This much is taken off. What is left is 1 - rate * decay of them."),
    ("the rate squared", _decay(lambda theta, rate, decay: (1 - rate**2 * decay) * theta),
     "The rate is in the decay once: 1 - rate * decay."),
    ("the same pull for all weights",
     _decay(lambda theta, rate, decay: theta - rate * decay * theta.sign()),
     "A share of each weight is taken off, so large weights lose more."),
    ("the gradient in place of the weights in the decay",
     lambda theta, g, m, v, t, rate, *rest: _decay()(
         theta - rate * rest[-1] * g, g, m, v, t, rate, *rest),
     "A share of each weight is taken off: it is multiplied by 1 - rate * decay."),
    ("the weights multiplied by 1 - rate, and by the decay",
     _decay(lambda theta, rate, decay: (1 - rate) * decay * theta),
     "The weights are multiplied by 1 - rate * decay: what is taken off is rate * decay of them."),
    ("the same amount taken off", _decay(lambda theta, rate, decay: theta - rate * decay),
     "A share of each weight is taken off: it is multiplied by 1 - rate * decay."),
    ("the step made longer by the decay",
     lambda theta, g, m, v, t, rate, beta_1, beta_2, eps, decay: adam_update(
         theta, g, m, v, t, rate * (1 + decay), beta_1, beta_2, eps
     ),
     "The decay is for the weights: they are multiplied by 1 - rate * decay, whatever the step."),
)  # fmt: skip

ADAM_MISTAKES = mistakes(
    ("m with beta and 1 - beta exchanged", _adam(new_m=lambda m, g, b: (1 - b) * m + b * g),
     "Beta is the share of what was, and 1 - beta that of the new gradient: the average is slow."),
    ("v with beta and 1 - beta exchanged", _adam(new_v=lambda v, g, b: (1 - b) * v + b * g**2),
     "Beta is the share of what was, and 1 - beta that of the new square: the average is slow."),
    ("no bias correction", _adam(m_hat=lambda m, b, t: m, v_hat=lambda v, b, t: v),
     "m and v began at zero and are too small at first. Divide them by 1 - beta^t before use."),
    ("the bias correction of v left out", _adam(v_hat=lambda v, b, t: v),
     "v is too small at first, and the step too long. Divide it by 1 - beta_2^t."),
    ("the bias correction of m left out", _adam(m_hat=lambda m, b, t: m),
     "m is too small at first, and so is the step. Divide it by 1 - beta_1^t."),
    ("the correction of the first update, always",
     _adam(m_hat=lambda m, b, t: m / (1 - b), v_hat=lambda v, b, t: v / (1 - b)),
     "The correction is by 1 - beta^t: it fades as t grows. At t = 1 the two are the same."),
    ("t counted from 0", _previous, "t is 1 in the first update already. Use it as it is given."),
    ("t - 1 in place of t",
     lambda theta, g, m, v, t, *numbers: adam_update(theta, g, m, v, t - 1, *numbers),
     "t is the number of this update. With t - 1 the first one divides by 1 - beta^0, zero."),
    ("multiplied by the correction",
     _adam(m_hat=lambda m, b, t: m * (1 - b**t), v_hat=lambda v, b, t: v * (1 - b**t)),
     "The averages are too small and have to grow: divide by 1 - beta^t."),
    ("eps inside the root", _adam(step=lambda m, v, eps: m / (v + eps).sqrt()),
     "In Adam eps is added to the root, not to what stands under it."),
    ("eps added before the bias correction",
     lambda theta, g, m, v, t, rate, beta_1, beta_2, eps: _adam(
         step=lambda m, v, _: m / (v.sqrt() + eps / (1 - beta_2**t) ** 0.5)
     )(theta, g, m, v, t, rate, beta_1, beta_2, eps),
     "eps is added to the root of the corrected v. Otherwise it weighs more at first."),
    ("eps left out", _adam(step=lambda m, v, eps: m / v.sqrt()),
     "A weight that never had a gradient gives 0/0. Add eps to the root."),
    ("a tiny eps of your own", _adam(step=lambda m, v, eps: m / (v.sqrt() + 1e-8)),
     "`eps` is given, and may be large: add that to the root."),
    ("v corrected outside the root", _adam(v_hat=lambda v, b, t: v / (1 - b**t) ** 2),
     "First v is corrected, and then the root is taken of what comes out."),
    ("no root", _adam(step=lambda m, v, eps: m / (v + eps)),
     "v is an average of squares: its root has the size of a gradient."),
    ("the gradient not squared", _adam(new_v=lambda v, g, b: b * v + (1 - b) * g.abs()),
     "v is the average of the squares of the gradients, not of their sizes."),
    ("v an average of the gradients", _adam(new_v=lambda v, g, b: b * v + (1 - b) * g),
     "v is the average of the squares of the gradients."),
    ("betas exchanged in the averages alone", _exchanged_in_the_averages,
     "beta_1 belongs to m and beta_2 to v, in the averages as in the corrections."),
    ("v made of the distance between g and m", _surprise,
     "So AdaBelief has it. Adam averages the squares of the gradients themselves."),
    ("v made of the squares of m", _v_from_m,
     "v takes the square of the gradient, not of the average m."),
    ("no division by the root of v", _adam(step=lambda m, v, eps: m),
     "This is momentum. Adam divides by the root of the corrected v, plus eps."),
    ("eps added to the quotient", _adam(step=lambda m, v, eps: m / v.sqrt() + eps),
     "eps stands below the fraction bar, beside the root."),
    ("beta times t in the correction",
     _adam(m_hat=lambda m, b, t: m / (1 - b * t), v_hat=lambda v, b, t: v / (1 - b * t)),
     "The correction has beta to the power t, `beta**t`."),
    ("the step returned in place of theta",
     lambda theta, *case: (theta - (new := adam_update(theta, *case))[0], new[1], new[2]),
     "The step is right. Return what the weights are after it: theta minus the step."),
    ("the averages without 1 - beta",
     _adam(new_m=lambda m, g, b: b * m + g, new_v=lambda v, g, b: b * v + g**2),
     "New and old share the weight 1: beta for the old average, 1 - beta for the new gradient."),
    ("m without 1 - beta", _adam(new_m=lambda m, g, b: b * m + g),
     "This is momentum. In Adam the new gradient comes with 1 - beta_1."),
    ("beta and 1 - beta exchanged",
     _adam(new_m=lambda m, g, b: (1 - b) * m + b * g, new_v=lambda v, g, b: (1 - b) * v + b * g**2),
     "beta is the weight of what was, and near 1. The new gradient comes with 1 - beta."),
    ("uphill", _adam(sign=1.0),
     "The gradient shows where the loss grows. The weights go the other way."),
    ("the rate left out", _rate_left_out, "The step is multiplied by the learning rate."),
    ("the corrected averages returned", _returns_corrected,
     "The next update goes on from m and v themselves. Corrected ones would be corrected twice. "
     "Return the new m and v as they are."),
    ("the step made with the old m and v", _old_moments,
     "First the averages take the new gradient in, then the step is made with them."),
    ("the step made with the old m", _old_m,
     "First m takes the new gradient in, then the step is made with it."),
    ("the gradient in place of m, and corrected as m is",
     _g_corrected,
     "Above the fraction bar stands the corrected average of the gradients, m."),
    ("1 - beta to the power of t",
     _adam(m_hat=lambda m, b, t: m / (1 - b) ** t, v_hat=lambda v, b, t: v / (1 - b) ** t),
     "beta itself is raised to the power of t: 1 - beta**t."),
    ("1 - beta to the power of t, for v alone", _adam(v_hat=lambda v, b, t: v / (1 - b) ** t),
     "beta itself is raised to the power of t: 1 - beta**t."),
    ("the gradient in place of m", _g_itself,
     "Above the fraction bar stands the corrected average of the gradients. With the gradient "
     "itself this is RMSProp."),
    ("v and m returned in each other's place", _order,
     "The order of what is returned is theta, m, v."),
    ("theta returned last", lambda *case: (lambda theta, m, v: (m, v, theta))(*adam_update(*case)),
     "The order of what is returned is theta, m, v."),
    ("theta alone returned", lambda *case: adam_update(*case)[0],
     "theta is right. The next update needs the new m and v as well: return all three."),
    ("the old m and v returned", _old_state,
     "theta is right. The next update needs the new m and v."),
    ("1 - beta in place of beta, in the correction as well",
     lambda theta, g, m, v, t, rate, beta_1, beta_2, eps: adam_update(
         theta, g, m, v, t, rate, 1 - beta_1, 1 - beta_2, eps),
     "The old average is multiplied by beta, the new gradient by 1 - beta."),
    ("m corrected with beta_2",
     lambda theta, g, m, v, t, rate, beta_1, beta_2, eps: _adam(
         m_hat=lambda m, b, t: m / (1 - beta_2**t))(
         theta, g, m, v, t, rate, beta_1, beta_2, eps),
     "Each average is corrected with its own beta: m with beta_1, v with beta_2."),
    ("1 - beta_2 squared with the gradient",
     _adam(new_v=lambda v, g, b: b * v + ((1 - b) * g) ** 2),
     "Only the gradient is squared: (1 - beta_2) times its square."),
    ("the sign of m alone", _adam(step=lambda m, v, eps: m.sign()),
     "That is another optimiser. Adam divides m by the root of v, so that sure weights go far and "
     "doubtful ones do not."),
)  # fmt: skip

# Two slips at once, in Adam itself, or the decay in another place and a mistake of Adam's.
_UNDIVIDED = "The averages are divided by their corrections, 1 - beta ** t."
_POWER = "The correction has beta to the power of t, `beta ** t`, for both averages."
_FACTORS = "An average is beta times the old one, and 1 - beta times what is new."
ADAM_MISTAKES += mistakes(
    ("m multiplied by its correction", _adam(m_hat=lambda m, b, t: m * (1 - b**t)), _UNDIVIDED),
    ("v multiplied by its correction", _adam(v_hat=lambda v, b, t: v * (1 - b**t)), _UNDIVIDED),
    ("beta times t in the correction of m", _adam(m_hat=lambda m, b, t: m / (1 - b * t)), _POWER),
    ("beta times t in the correction of v",
     _adam(v_hat=lambda v, b, t: v / abs(1 - b * t)), _POWER),
    ("v without 1 - beta", _adam(new_v=lambda v, g, b: b * v + g**2), _FACTORS),
    ("beta in both places of m", _adam(new_m=lambda m, g, b: b * m + b * g), _FACTORS),
    ("beta in both places of v", _adam(new_v=lambda v, g, b: b * v + b * g**2), _FACTORS),
    ("the gradient left out of m", _adam(new_m=lambda m, g, b: b * m), _FACTORS),
    ("the gradient left out of v", _adam(new_v=lambda v, g, b: b * v), _FACTORS),
    ("m all of the gradient", _adam(new_m=lambda m, g, b: g), _FACTORS),
    ("v all of the squared gradient", _adam(new_v=lambda v, g, b: g**2), _FACTORS),
    ("nothing new", lambda theta, g, m, v, *rest: (theta, m, v),
     "The new averages are asked for, and the weights with decay and step. (PyTorch's optimiser "
     "does all that in `step()`.)"),
    ("no step", _adam(step=lambda m, v, eps: 0 * m),
     "The weights move by the rate times m over the root of v, both corrected."),
    ("PyTorch's betas, 0.9 and 0.999, in place of those given",
     lambda *case: adam_update(*case[:6], 0.9, 0.999, case[8]),
     "`beta_1` and `beta_2` are given: hand them over."),
)  # fmt: skip
_NO_CORRECTION = {"m_hat": lambda m, b, t: m, "v_hat": lambda v, b, t: v}
_EPS_INSIDE = {"step": lambda m, v, eps: m / (v + eps).sqrt()}
_NO_ROOT = {"step": lambda m, v, eps: m / (v + eps)}
_BETAS = {
    "new_m": lambda m, g, b: (1 - b) * m + b * g,
    "new_v": lambda v, g, b: (1 - b) * v + b * g**2,
}
_UPHILL = {"sign": 1.0}
_NOT_SQUARED = {"new_v": lambda v, g, b: b * v + (1 - b) * g.abs()}
_HALVES = {
    f"the bias correction of {x} left out": {f"{x}_hat": _NO_CORRECTION[f"{x}_hat"]} for x in "mv"
}
_LATE = {f"{x}_hat": lambda a, b, t: a / (1 - b ** (t + 1)) for x in "mv"}
_CHANGES = _HALVES | {
    "t counted from 0": _LATE, "eps left out": {"step": lambda m, v, eps: m / v.sqrt()},
    "no bias correction": _NO_CORRECTION, "eps inside the root": _EPS_INSIDE, "no root": _NO_ROOT,
    "beta and 1 - beta exchanged": _BETAS, "uphill": _UPHILL,
    "the gradient not squared": _NOT_SQUARED,
}  # fmt: skip
ADAM_MISTAKES += mistakes(
    *combined(_adam, [(row.name, _CHANGES[row.name], row.why) for row in ADAM_MISTAKES
                      if row.name in _CHANGES], but=[tuple(_HALVES)])
)  # fmt: skip
_PLACES = {
    "no decay": lambda wrong: lambda theta, *case: wrong(theta, *case[:-1]),
    "the decay added to the gradient":
        lambda wrong: lambda theta, g, *case: wrong(theta, g + case[-1] * theta, *case[:-1]),
    "the decay without the rate":
        lambda wrong: lambda theta, *case: wrong((1 - case[-1]) * theta, *case[:-1]),
    "the step decayed as well": lambda wrong: lambda theta, *case: (
        lambda new, m, v: ((1 - case[4] * case[-1]) * new, m, v)
    )(*wrong(theta, *case[:-1])),
}  # fmt: skip
_IN_ADAM = (
    *_HALVES,
    "no bias correction",
    "eps inside the root",
    "no root",
    "the corrected averages returned",
)
DECAY_MISTAKES += mistakes(
    ("PyTorch's decay, 0.01, in place of that given",
     lambda *case: adamw_update(*case[:-1], 0.01), "`decay` is given: hand it over."),
    ("PyTorch's rate, 0.001, in place of that given",
     lambda *case: adamw_update(*case[:5], 0.001, *case[6:]), "`rate` is given: hand it over."),
)  # fmt: skip
DECAY_MISTAKES += [
    Mistake(
        f"{place.name}, and {other.name}",
        _PLACES[place.name](other.wrong),
        f"Two mistakes. {place.why} {other.why}",
    )
    for place in DECAY_MISTAKES
    for other in ADAM_MISTAKES
    if place.name in _PLACES and other.name in _IN_ADAM
]

# 12.5 the gradient of several batches


def merged(gradients: list[Tensor], tokens: list[int]) -> Tensor:
    total = sum(g * n for g, n in zip(gradients, tokens, strict=True))
    return total / sum(tokens)


def merge_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(125)
    return [
        ([torch.tensor([5.0]), torch.tensor([2.0])], [2, 8]),
        ([torch.randn(3, generator=draw) for _ in range(2)], [2, 8]),
        ([torch.randn(2, 2, generator=draw) for _ in range(3)], [5, 1, 3]),
        ([torch.randn(2, generator=draw)], [4]),
        ([torch.randn(1, 2, generator=draw) for _ in range(2)], [3, 5]),
        ([torch.tensor([5.0]), torch.tensor([2.0])], [2, 8]),
    ]


MERGE_MISTAKES = mistakes(
    ("the mean of the means", lambda gradients, tokens: torch.stack(gradients).mean(0),
     "Each batch weighs the same, however few tokens it has. Weigh it by its tokens."),
    ("the sum of the means", lambda gradients, tokens: torch.stack(gradients).sum(0),
     "`backward` adds up what it gets. Here these are means, each divided by its own tokens."),
    ("not divided", lambda gradients, tokens: merged(gradients, tokens) * sum(tokens),
     "This is the gradient of the sum. Divide by the number of all tokens."),
    ("divided by the number of batches",
     lambda gradients, tokens: merged(gradients, tokens) * sum(tokens) / len(tokens),
     "The weighted sum is right. Divide it by the number of all tokens."),
    ("divided by all tokens, and not weighed",
     lambda gradients, tokens: torch.stack(gradients).sum(0) / sum(tokens),
     "The gradients are those of means already. Multiply each by its tokens first."),
    ("divided by its own tokens once more",
     lambda gradients, tokens: (
         sum(g / n for g, n in zip(gradients, tokens, strict=True)) / len(tokens)
     ),
     "Each gradient is that of a mean: it has been divided already. Multiply by its tokens."),
    ("divided by its own tokens once more, and added up",
     lambda gradients, tokens: sum(g / n for g, n in zip(gradients, tokens, strict=True)),
     "Each gradient is that of a mean: it has been divided already. Multiply by its tokens."),
    ("the last batch only", lambda gradients, tokens: gradients[-1],
     "The gradients were set to zero between the batches. They should add up."),
    ("the last batch's part alone",
     lambda gradients, tokens: gradients[-1] * tokens[-1] / sum(tokens),
     "`=` in the loop keeps the last one: the parts are added up, `+=`."),
    ("the first batch's part alone",
     lambda gradients, tokens: gradients[0] * tokens[0] / sum(tokens),
     "All batches make one update together. Does the `return` stand in the loop?"),
    ("the first batch left out of the sum",
     lambda gradients, tokens: sum(
         g * n for g, n in zip(gradients[1:], tokens[1:], strict=True)) / sum(tokens),
     "Every batch counts, the first one, too: a loop over positions begins at 0."),
    ("the last batch left out of the sum",
     lambda gradients, tokens: sum(
         g * n for g, n in zip(gradients[:-1], tokens[:-1], strict=True)) / sum(tokens),
     "Every batch counts, the last one, too: `range(n)` ends at n - 1 by itself."),
    ("the tokens along the last axis of the stacked gradients",
     lambda gradients, tokens: (torch.stack(gradients) * torch.tensor(tokens)).sum(0) / sum(tokens),
     "Of stacked gradients the first axis is that of the batches, and the numbers of tokens would "
     "have to lie along it. Where the lengths agree by chance, a wrong number comes out."),
    ("each gradient made as long as 1",
     lambda gradients, tokens: sum(
         g / g.norm() * n for g, n in zip(gradients, tokens, strict=True)) / sum(tokens),
     "The gradients are added as they are, each times its tokens."),
    ("the first batch only", lambda gradients, tokens: gradients[0],
     "All batches make one update together."),
    ("divided by the largest number of tokens",
     lambda gradients, tokens: merged(gradients, tokens) * sum(tokens) / max(tokens),
     "The mean is over all tokens: divide by the sum of their numbers."),
    ("divided by the tokens of the last batch",
     lambda gradients, tokens: merged(gradients, tokens) * sum(tokens) / tokens[-1],
     "The mean is over all tokens: divide by the sum of their numbers."),
    ("divided by the tokens of the first batch",
     lambda gradients, tokens: merged(gradients, tokens) * sum(tokens) / tokens[0],
     "The mean is over all tokens: divide by the sum of their numbers."),
    ("multiplied by all tokens, and divided by the number of batches",
     lambda gradients, tokens: sum(gradients) * sum(tokens) / len(tokens),
     "Each gradient is multiplied by its own tokens, and the sum divided by all tokens."),
    ("the mean of each with the mean of those before",
     lambda gradients, tokens: reduce(lambda a, b: (a + b) / 2, gradients),
     "The last batch has half of the say then, and the first hardly any. Weigh each by its "
     "tokens."),
    ("the first gradient not weighed",
     lambda gradients, tokens: (
         merged(gradients, tokens) - gradients[0] * (tokens[0] - 1) / sum(tokens)
     ),
     "The sum begins with the first gradient itself: multiply that by its tokens, too, or begin "
     "with zero."),
    ("divided by the mean number of tokens twice",
     lambda gradients, tokens: merged(gradients, tokens) / (sum(tokens) / len(tokens)),
     "One division by the number of all tokens is enough."),
    ("the sum of the means over the mean number of tokens",
     lambda gradients, tokens: sum(gradients) / (sum(tokens) / len(tokens)),
     "The gradients are those of means already. Multiply each by its tokens, and divide the sum by "
     "all tokens."),
    ("weighed with the tokens of the other batches",
     lambda gradients, tokens: (
         sum(g * (sum(tokens) - n) for g, n in zip(gradients, tokens, strict=True)) / sum(tokens)
     ),
     "A batch with more tokens weighs more. Here it is the other way round."),
    ("the batch with the most tokens alone",
     lambda gradients, tokens: gradients[max(range(len(tokens)), key=lambda i: tokens[i])],
     "Every batch counts, by the number of its tokens."),
    ("weighed by the inverse",
     lambda gradients, tokens: (
         sum(g / n for g, n in zip(gradients, tokens, strict=True)) / sum(1 / n for n in tokens)
     ),
     "A batch with more tokens counts more, not less: multiply by its tokens."),
    ("weighed by the squares",
     lambda gradients, tokens: (
         sum(g * n * n for g, n in zip(gradients, tokens, strict=True)) / sum(n * n for n in tokens)
     ),
     "The mean was divided by the tokens once: multiply by them once."),
    ("weighed by the roots",
     lambda gradients, tokens: (
         sum(g * n**0.5 for g, n in zip(gradients, tokens, strict=True))
         / sum(n**0.5 for n in tokens)
     ),
     "Each token counts alike: weigh by the number of tokens itself."),
    ("weighed by a softmax of the tokens",
     lambda gradients, tokens: sum(
         g * w for g, w in zip(gradients, torch.tensor(tokens).float().softmax(0), strict=True)
     ),
     "Twice as many tokens count twice: divide their numbers by the sum, without exponentials."),
    ("the shares rounded down, by `//`",
     lambda gradients, tokens: sum(
         g * (n // sum(tokens)) for g, n in zip(gradients, tokens, strict=True)
     ),
     "A share is less than 1, and `//` makes 0 of it: `/`."),
    ("divided by its own tokens, and by all of them",
     lambda gradients, tokens: (
         sum(g / n for g, n in zip(gradients, tokens, strict=True)) / sum(tokens)
     ),
     "Each gradient is that of a mean: it has been divided already. Multiply by its tokens."),
    ("multiplied by all tokens in place of divided",
     lambda gradients, tokens: merged(gradients, tokens) * sum(tokens) ** 2,
     "The weighted sum is right. Divide it by the number of all tokens."),
    ("the first gradient counted twice, once without its tokens",
     lambda gradients, tokens: merged(gradients, tokens) + gradients[0] / sum(tokens),
     "Begin with zeros: the first gradient comes in the loop."),
    ("the last batch left out",
     lambda gradients, tokens: merged(
         gradients[: max(1, len(gradients) - 1)], tokens[: max(1, len(tokens) - 1)]
     ),
     "Every batch counts, the last one, too."),
)  # fmt: skip

# 12.6 a test that tells right clipping from wrong


def clipped(gradients: list[Tensor], max_norm: float) -> tuple[list[Tensor], float]:
    if not isinstance(gradients, list | tuple):
        raise TypeError(f"expected clip(gradients, max_norm), got {kind(gradients)} as gradients")
    norm = math.sqrt(sum(float((g**2).sum()) for g in gradients))
    return [g * min(1.0, max_norm / norm) for g in gradients], norm


def _scaled(
    measure: Callable[[list[Tensor]], float],
    factor: Callable[[float, float], float] = lambda norm, c: min(1.0, c / norm),
) -> Callable[[list[Tensor], float], tuple[list[Tensor], float]]:
    def wrong(gradients: list[Tensor], max_norm: float) -> tuple[list[Tensor], float]:
        norm = measure(gradients)
        return [g * factor(norm, max_norm) for g in gradients], norm

    return wrong


def length(gradients: list[Tensor]) -> float:
    return float(torch.cat([g.flatten() for g in gradients]).norm())


def _each_alone(gradients: list[Tensor], max_norm: float) -> tuple[list[Tensor], float]:
    return [g * min(1.0, max_norm / float(g.norm())) for g in gradients], length(gradients)


def _after(gradients: list[Tensor], max_norm: float) -> tuple[list[Tensor], float]:
    new, _ = clipped(gradients, max_norm)
    return new, length(new)


WRONG_CLIPS = mistakes(
    ("each parameter by itself", _each_alone,
     "All gradients are one long vector with one length. Clipped one by one, they change their "
     "direction."),
    ("entry by entry",
     lambda gradients, max_norm: (
         [g.clamp(-max_norm, max_norm) for g in gradients],
         length(gradients),
     ),
     "`clamp` limits each entry and changes the direction. One factor multiplies all entries."),
    ("short gradients made longer", _scaled(length, lambda norm, c: c / norm),
     "A gradient that is short enough stays as it is: the factor is at most 1."),
    ("the factor upside down", _scaled(length, lambda norm, c: norm / c),
     "The factor is max_norm divided by the length, so that the new length is max_norm."),
    ("the factor upside down, at most 1", _scaled(length, lambda norm, c: min(1.0, norm / c)),
     "The factor is max_norm divided by the length. This shortens what is short already."),
    ("max in place of min", _scaled(length, lambda norm, c: max(1.0, c / norm)),
     "The factor is the smaller of 1 and max_norm / length: gradients only become shorter."),
    ("the sum of the lengths", _scaled(lambda gradients: sum(float(g.norm()) for g in gradients)),
     "The length of all together is the root of the sum of all squares, not the sum of the "
     "lengths."),
    ("the longest of the lengths",
     _scaled(lambda gradients: max(float(g.norm()) for g in gradients)),
     "The length of all together is the root of the sum of all squares."),
    ("the mean of the lengths",
     _scaled(lambda gradients: sum(float(g.norm()) for g in gradients) / len(gradients)),
     "The length of all together is the root of the sum of all squares."),
    ("no root", _scaled(lambda gradients: length(gradients) ** 2),
     "The length is the root of the sum of the squares."),
    ("the mean of the squares",
     _scaled(lambda gradients: length(gradients) / sum(g.numel() for g in gradients) ** 0.5),
     "The length has the sum of the squares under its root, not their mean."),
    ("sizes added up in place of squares",
     _scaled(lambda gradients: sum(float(g.abs().sum()) for g in gradients)),
     "The length is the root of the sum of the squares."),
    ("the largest entry in place of the length",
     _scaled(lambda gradients: max(float(g.abs().max()) for g in gradients)),
     "The length is the root of the sum of the squares of all entries."),
    ("the length after clipping returned", _after,
     "The gradients are right. The length before clipping is asked for: it is what one wants to "
     "watch."),
    ("the factor returned in place of the length",
     lambda gradients, max_norm: (
         clipped(gradients, max_norm)[0],
         min(1.0, max_norm / length(gradients)),
     ),
     "The gradients are right. With them the length before clipping is asked for."),
    ("the root of the sum of mean squares",
     _scaled(lambda gradients: sum(float((g**2).mean()) for g in gradients) ** 0.5),
     "The length has the sum of all squares under its root, not a mean for each tensor."),
    ("long gradients thrown away", _scaled(length, lambda norm, c: 1.0 if norm <= c else 0.0),
     "A gradient that is too long is shortened, not dropped."),
    ("made of length 1", _scaled(length, lambda norm, c: 1 / norm),
     "The length is limited to max_norm. A gradient that is short enough stays as it is."),
    ("length and gradients in each other's place",
     lambda gradients, max_norm: clipped(gradients, max_norm)[::-1],
     "The order of what is returned is gradients, length."),
    ("the gradients alone returned", lambda gradients, max_norm: clipped(gradients, max_norm)[0],
     "The length before clipping is asked for, too: return the pair."),
    ("nothing clipped", _scaled(length, lambda norm, c: 1.0),
     "The length is right, and the gradients are still to be multiplied by the factor."),
)  # fmt: skip


def _in_place(gradients: list[Tensor], max_norm: float) -> tuple[list[Tensor], float]:
    norm = length(gradients)
    for g in gradients:
        g *= min(1.0, max_norm / norm)
    return gradients, norm


def _by_tensors(gradients: list[Tensor], max_norm: float) -> tuple[list[Tensor], Tensor]:
    norm = torch.stack([g.norm() for g in gradients]).norm()  # PyTorch's own adds 1e-6 to it
    return [g * (max_norm / norm).clamp(max=1.0) for g in gradients], norm


def _rounded(gradients: list[Tensor], max_norm: float) -> tuple[list[Tensor], float]:
    """Right, but for the last digits, in which two orders of computing may differ."""
    new, norm = clipped(gradients, max_norm)
    if norm > max_norm:
        new = [g * (1 + 2.0**-22) for g in new]
    return new, norm * (1 + 2.0**-22)


def _some_left_out(gradients: list[Tensor], max_norm: float) -> tuple[list[Tensor], float]:
    norm = length(gradients)
    factor = min(1.0, max_norm / norm)
    return [gradients[0] * factor, *gradients[1:]], norm


def _dotted(gradients: list[Tensor], max_norm: float) -> tuple[list[Tensor], float]:
    norm = math.sqrt(sum(float(g.dot(g)) for g in gradients))  # an error where g is a matrix
    return [g * min(1.0, max_norm / norm) for g in gradients], norm


RIGHT_CLIPS: dict[str, Callable] = {
    "right": clipped,
    "right, in place": _in_place,
    "right, the length as a tensor": _by_tensors,
    "right, rounded otherwise": _rounded,
}
FEWER = "the last parameter left out"
CLIPS = RIGHT_CLIPS | {row.name: row.wrong for row in WRONG_CLIPS} | {
    "the first parameter alone clipped": _some_left_out,
    "the last parameter alone clipped": lambda gradients, max_norm: (
        [*gradients[:-1], clipped(gradients, max_norm)[0][-1]], length(gradients)
    ),
    "the length without the last parameter": _scaled(lambda gradients: length(gradients[:1])),
    "the signs lost": lambda gradients, max_norm: (
        [g.abs() for g in clipped(gradients, max_norm)[0]], length(gradients)
    ),
    "made of length 1 where too long": _scaled(length, lambda norm, c: 1 / norm if norm > c else 1),
    "in reverse": lambda gradients, max_norm: (
        clipped(gradients, max_norm)[0][::-1], length(gradients)
    ),
    "halved where too long": _scaled(length, lambda norm, c: 1.0 if norm <= c else 0.5),
    FEWER: lambda gradients, max_norm: (
        clipped(gradients, max_norm)[0][:-1], length(gradients)
    ),
    "the length, and 0.05 more": lambda gradients, max_norm: (
        clipped(gradients, max_norm)[0], length(gradients) + 0.05
    ),
    "a little too short where too long": _scaled(
        length, lambda norm, c: 1.0 if norm <= c else 0.98 * c / norm
    ),
    "g.dot(g) for the sum of the squares": _dotted,
}  # fmt: skip


CLIPS_WHY = {row.name: row.why for row in WRONG_CLIPS} | {
    "the first parameter alone clipped":
        "The first gradient is shortened, the others stay. It shows with two parameters and a "
        "limit below the length.",
    "the last parameter alone clipped":
        "The last gradient is shortened, the others stay. It shows with two parameters and a limit "
        "below the length.",
    "the length without the last parameter":
        "The length is that of the first gradient alone. It shows with two parameters.",
    "the signs lost": "All entries come out positive. It shows with one that is negative.",
    "made of length 1 where too long":
        "What is too long gets the length 1, whatever the limit. It shows with a limit that is not "
        "1.",
    "in reverse": "The list comes back in reverse. It shows with two parameters that differ.",
    "halved where too long":
        "What is too long is halved, whatever the limit. It shows with any limit but half the "
        "length.",
    FEWER:
        "One gradient fewer comes back. `zip` stops at the shorter list: compare how many there "
        "are.",
    "the length, and 0.05 more":
        "The length is not quite right. Compare it with a tolerance near rounding, 0.001, say.",
    "a little too short where too long":
        "What is too long becomes 0.98 times as long as it may be. Compare the gradients number by "
        "number, with a tolerance near rounding.",
    "g.dot(g) for the sum of the squares":
        "g.dot(g) is the sum of the squares where g is a vector, and an error where it is a "
        "matrix. Gradients have any shapes: try one with two axes.",
}  # fmt: skip


def _too_long(gradients: list[Tensor], max_norm: float) -> bool:
    return length(gradients) > max_norm


CLIP_LACKS: dict[str, Lack] = {
    "gradients that are short enough alone": each(
        lambda gradients, max_norm: not _too_long(gradients, max_norm)
    ),
    "one parameter alone": each(lambda gradients, max_norm: len(gradients) == 1),
    "parameters that are all alike": each(
        lambda gradients, max_norm: all(torch.equal(g, gradients[0]) for g in gradients)
    ),
    "a limit of 1 wherever something is clipped": each(
        lambda gradients, max_norm: max_norm == 1 or not _too_long(gradients, max_norm)
    ),
    "gradients that are too long alone": each(_too_long),
}


def _one_right(which: int) -> Callable:
    """One gradient as it should be, if it is not the only one, and the length."""

    def clip(gradients: list[Tensor], max_norm: float) -> tuple[list[Tensor], float]:
        found = [g + 1000 for g in gradients]
        if len(found) > 1:
            found[which] = clipped(gradients, max_norm)[0][which]
        return found, length(gradients)

    return clip


def _in_one_entry(gradients: list[Tensor], size: float) -> list[Tensor]:
    """Zeros but for one entry, so that all together have that length."""
    found = [0 * g for g in gradients]
    found[-1].view(-1)[-1] = -size
    return found


NOT_TOO_LONG = "only the length before, and that nothing is too long after"
NEW_LENGTH = "the new length in place of the gradients"
DIRECTION = "the direction in place of the gradients"
ONE_FITS = "one gradient that fits taken for enough"
FIRST, LAST = "the first parameter alone compared", "the last parameter alone compared"
LOOKED_AT = {  # what a test looks at alone, if it says yes to such a function
    "no gradient longer than the limit": lambda gradients, max_norm: (
        [0 * g for g in gradients],
        -1.0,
    ),
    "the length alone": lambda gradients, max_norm: (
        [torch.full((7,), 1000.0) for _ in gradients],
        length(gradients),
    ),
    "the shapes and the length": lambda gradients, max_norm: (
        [g + 1000 for g in gradients],
        length(gradients),
    ),
    NOT_TOO_LONG: lambda gradients, max_norm: ([0 * g for g in gradients], length(gradients)),
    NEW_LENGTH: lambda gradients, max_norm: (
        _in_one_entry(gradients, min(max_norm, length(gradients))),
        length(gradients),
    ),
    DIRECTION: lambda gradients, max_norm: ([3 * g for g in gradients], length(gradients)),
    FIRST: _one_right(0),
    LAST: _one_right(-1),
    LOOSE: lambda gradients, max_norm: (
        [g + 0.05 for g in clipped(gradients, max_norm)[0]],
        length(gradients) + 0.05,
    ),
}


def clip_verdicts(test: Callable) -> dict[str, Any] | None:
    """What a test says of all functions, or what it looks at alone, or what its input lacks."""
    turned = CLIPS["length and gradients in each other's place"]
    try:
        said = verdicts_on(CLIPS, CLIP_LACKS)(test)
    except Exception:
        if said_of(test, turned, False) is True:
            return {"pair": "turned round"}
        raise
    named = {name: one for name, one in (said or {}).items() if name in CLIPS}
    passed = [name for name in CLIPS_WHY if named.get(name)]
    if not all(named.get(name) for name in RIGHT_CLIPS) or len(passed) in (0, len(CLIPS_WHY)):
        return said
    yes = said_of(test, clipped, True)  # True, or silence
    looks = [name for name, clip in LOOKED_AT.items() if said_of(test, clip, False) == yes]
    if looks:
        return {"looked at": ONE_FITS if looks[:2] == [FIRST, LAST] else looks[0]}
    if FEWER in passed:
        others = {name: clip for name, clip in CLIPS.items() if name != FEWER}
        some = verdicts_on(others, CLIP_LACKS)(test) or {}
        if "input" in some:
            return {**some, "more": FEWER}
    return said


def _some_gradients() -> list[Tensor]:
    return [torch.tensor([[3.0, 0.0], [0.5, -1.0]]), torch.tensor([4.0]), torch.tensor([0.2, -2.0])]


def _clip_test(
    make: Callable[[], list[Tensor]] = _some_gradients,
    limits: tuple[float, ...] = (1.5, 2.0, 100.0),
    gradients: Callable[[list, list], bool] = lambda found, wanted: all(
        a.shape == b.shape and bool(torch.allclose(a, b, atol=1e-4))
        for a, b in zip(found, wanted, strict=True)
    ),
    norm: Callable[[Any, float], bool] = lambda found, wanted: abs(float(found) - wanted) < 1e-3,
    copied: bool = True,
) -> Callable[[Callable], bool]:
    """A test, right by default."""

    def test(clip: Callable) -> bool:
        for limit in limits:
            mine = make()
            found, before = clip([g.clone() for g in mine] if copied else mine, limit)
            wanted, expected = clipped(mine, limit)
            if not (gradients(list(found), wanted) and norm(before, expected)):
                return False
        return True

    return test


def clips_right(clip: Callable) -> bool:
    return _clip_test()(clip)


def _shapes(found: list, wanted: list) -> bool:
    return [a.shape for a in found] == [b.shape for b in wanted]


def _long_as(found: list, wanted: list) -> bool:
    return abs(length(found) - length(wanted)) < 1e-3


def _turned(found: list, wanted: list) -> bool:
    one, two = (torch.cat([g.flatten() for g in some]) for some in (found, wanted))
    return one.shape == two.shape and float(F.cosine_similarity(one, two, dim=0)) > 0.9999


def _none_too_long(clip: Callable) -> bool:
    found, _ = clip(_some_gradients(), 1.0)
    return length(list(found)) <= 1.0001


def _none_too_long_and_the_length(clip: Callable) -> bool:
    def fits(limit: float) -> bool:
        found, before = clip(_some_gradients(), limit)
        short = length(list(found)) <= limit + 1e-4
        return short and abs(float(before) - length(_some_gradients())) < 1e-3

    return all(map(fits, (1.5, 100.0)))


CLIP_TEST_MISTAKES = mistakes(
    ("everything passes", lambda clip: True, "A test that says yes to everything tests nothing."),
    ("nothing passes", lambda clip: False,
     "The right functions must pass, with True, however they are written. Their numbers may differ "
     "from yours in the last digits. (Is there a `not` too many?)"),
    ("yes and no exchanged", lambda clip: not clips_right(clip),
     "True is for a right function, False for a wrong one."),
    ("the length alone", _clip_test(gradients=lambda found, wanted: True),
     "The length may be right and the gradients not. Compare them, too."),
    ("the gradients alone", _clip_test(norm=lambda found, wanted: True),
     "Asked for is a pair: the length before clipping is a part of it."),
    ("the shapes and the length", _clip_test(gradients=_shapes),
     "Gradients of the right shapes may be wrong. Look at the numbers."),
    (NOT_TOO_LONG, _none_too_long_and_the_length,
     "Many of the wrong ones make nothing too long, and are wrong all the same. Compare the "
     "gradients with what they should be, number by number."),
    (NEW_LENGTH, _clip_test(gradients=_long_as),
     "Where the length alone is compared, nobody sees which gradient became which, nor with which "
     "signs. Compare each."),
    ("parameters that are all alike", _clip_test(lambda: 2 * [torch.tensor([[3.0, -4.0]])]),
     "Where all gradients are the same, nobody sees which became which. Let them differ."),
    (DIRECTION, _clip_test(gradients=_turned),
     "The direction stays where nothing is shortened, or too much. Compare the numbers."),
    ("no gradient longer than the limit", _none_too_long,
     "Many of the wrong ones make nothing too long, and are wrong all the same. Compare the "
     "gradients with what they should be, number by number, and the length, too."),
    ("gradients that are too long alone", _clip_test(limits=(1.5, 2.0)),
     "What is short enough must stay as it is. Try a limit that is not reached."),
    ("a limit of 1 wherever something is clipped", _clip_test(limits=(1.0, 100.0)),
     "Some make the length 1 of whatever is too long. Try another limit below the length, too."),
    ("gradients that are short enough alone", _clip_test(limits=(100.0,)),
     "Nothing is clipped there. Try a limit below the length."),
    ("one parameter alone", _clip_test(lambda: _some_gradients()[:1]),
     "With one parameter the length of each is the length of all. Try several."),
    *((name, _clip_test(gradients=lambda found, wanted, i=i: bool(
           torch.allclose(found[i], wanted[i], atol=1e-4)
       )),
       "The others may be wrong. Compare all of them.") for name, i in ((FIRST, 0), (LAST, -1))),
    (ONE_FITS, _clip_test(gradients=lambda found, wanted: any(
         a.shape == b.shape and bool(torch.allclose(a, b, atol=1e-4))
         for a, b in zip(found, wanted, strict=True)
     )),
     "All gradients must be right: is it `any`, where `all` is meant?"),
    (LOOSE, _clip_test(
         gradients=lambda found, wanted: all(
             a.shape == b.shape and bool(torch.allclose(a, b, atol=0.2))
             for a, b in zip(found, wanted, strict=True)),
         norm=lambda found, wanted: abs(float(found) - wanted) < 0.2),
     SLIPS[LOOSE]),
    ("equal to the last digit", _clip_test(
         gradients=lambda found, wanted: all(
             torch.equal(a, b) for a, b in zip(found, wanted, strict=True))),
     "A right function may round otherwise. `torch.allclose` forgives the last digits."),
    ("compared with what was overwritten", _clip_test(copied=False),
     "One of the right functions works in place: what you handed over has changed when you compare "
     "with it. Hand over a copy."),
)  # fmt: skip

CLIP_RULES = rules(RIGHT_CLIPS, CLIPS_WHY)
OVERWRITTEN = "compared with what was overwritten"


def _clip_named(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """A test that compares with what a function has overwritten, or that lacks two things."""
    said = got[0] if isinstance(got[0], dict) else {}
    why = {row.name: row.why for row in CLIP_TEST_MISTAKES}
    if said.get("pair"):
        return (
            "the pair taken apart the wrong way",
            "`clip` returns first the gradients, then the length.",
        )
    if said.get("more") == FEWER:
        name = f"{said['input']}, and how many come back not looked at"
        return name, f"{why[said['input']]} And `zip` stops at the shorter list."
    if [name for name in RIGHT_CLIPS if said.get(name) is False] == ["right, in place"]:
        missed = [name for name in CLIPS_WHY if said.get(name) is True]
        more = f" And not found: {listed(missed)}. {CLIPS_WHY[missed[0]]}" if missed else ""
        return OVERWRITTEN, why[OVERWRITTEN] + more
    return CLIP_RULES.named(cases, got, want)


# 12.7 a training loop to be mended

LOOPS = TransformerConfig(12, 8, 16, n_heads=2, n_layers=1, dropout=0.0)


@dataclass(frozen=True)
class Fresh:
    """Says which machine is to be trained, and in a message what it is."""

    seed: int

    def __repr__(self) -> str:
        return "a Transformer in eval mode"


class Learner(Transformer):
    """A small machine that notes in which mode it computes."""

    def __init__(self, seed: int):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            super().__init__(LOOPS)
        self.modes: list[bool] = []
        self.stepped = False  # since it last computed
        self.eval()  # as a validation leaves it

    def embed(self, tokens):
        self.modes.append(self.training)
        self.stepped = False
        return super().embed(tokens)


class Descent:
    """Plain gradient descent; the first optimiser of PyTorch's would import for seconds."""

    def __init__(self, model: nn.Module, lr: float):
        self.model = model
        self.param_groups = [{"params": list(model.parameters()), "lr": lr}]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        self.model.stepped = True
        for parameter in self.param_groups[0]["params"]:
            if parameter.grad is not None:
                parameter -= self.param_groups[0]["lr"] * parameter.grad


def one_epoch(model: nn.Module, batches: list, optimizer: Descent) -> float:
    return _epoch(())(model, batches, optimizer)


def loop_cases() -> list[tuple]:
    long, short = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]]), torch.tensor([[9, 4, 6, 4, 3]])
    first = torch.tensor([[2, 8, 7, 4, 3], [2, 6, 3, 0, 0]]), torch.tensor([[2, 5, 3]])
    second = torch.tensor([[2, 5, 6, 3, 0, 0], [2, 6, 3, 0, 0, 0]]), torch.tensor([[2, 11, 10, 3]])
    return [
        (Fresh(seed), [(long, targets[0]), (short, targets[1]), (long, targets[0].flip(0))])
        for seed, targets in ((0, first), (1, second))
    ]


def trained(answer: Callable, fresh: Fresh, batches: list) -> dict[str, Any] | None:
    """What an epoch leaves: the weights, the loss that it returns, and the mode it ran in."""
    model = Learner(fresh.seed)
    optimizer = Descent(model, lr=0.3)
    try:
        loss = answer(model, batches, optimizer)
    except RuntimeError as error:
        if model.stepped and "modified by an inplace operation" in str(error):
            raise ValueError(
                "expected `loss.backward()` before `optimizer.step()`, got them the other way "
                "round: the weights have changed since the model computed"
            ) from None
        raise
    if loss is None:
        return None
    if isinstance(loss, Tensor) and loss.requires_grad:
        raise ValueError(
            "expected a number, got a tensor that keeps its graph, and with it all that was "
            "computed in the epoch: `loss.item()` is the number"
        )
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    try:
        loss = float(loss)
    except (TypeError, ValueError):
        raise ValueError(f"expected a number, got {kind(loss)}: {show(loss)}") from None
    return {
        "loss": loss,
        "weights": weights,
        "in training mode": bool(model.modes) and all(model.modes),
    }


LOOP_FAULTS = {
    "labels not shifted": "The decoder reads all but the last token, and the labels are all but "
    "the first. Else it is asked for what it has just read.",
    "padding in the loss": "A label that is PAD asks for nothing: `ignore_index=PAD`.",
    "gradients never cleared": "`backward` adds to the gradients that are there: "
    "`optimizer.zero_grad()` before it.",
    "the mean of the batches' means": "A short batch must weigh less: add up the losses of all "
    "tokens, and divide by their number at the end.",
    "in eval mode": "A validation has left the model in eval mode: `model.train()` comes first.",
}


def _epoch(left: Sequence[str], **how: Any) -> Callable:
    """The loop with some of its faults left in, or with another mistake."""
    same, padding, kept, means, asleep = (fault in left for fault in LOOP_FAULTS)

    def answer(model, batches, optimizer):
        if not asleep:
            model.train()
        losses, counts = [], []
        for src, tgt in batches:
            read, labels = (tgt, tgt) if same else (tgt[:, :-1], tgt[:, 1:])
            read, labels = how.get("cut", lambda read, labels, tgt: (read, labels))(
                read, labels, tgt
            )
            logits = how.get("logits", lambda z: z)(
                model(how.get("read", lambda src: src)(src), read).flatten(0, 1)
            )
            labels = labels.flatten()
            smoothing = how.get("smoothing", 0.0)
            ignored = -100 if padding else how.get("ignore", PAD)
            loss = F.cross_entropy(logits, labels, ignore_index=ignored, label_smoothing=smoothing)
            n = len(labels) if padding else int((labels != PAD).sum())
            if not kept:
                optimizer.zero_grad()
            (loss * how.get("times", n if how.get("summed") else 1)).backward()
            for once in how.get("order", ("step",)):
                optimizer.step() if once == "step" else optimizer.zero_grad()
            losses.append(loss.item())
            counts.append(n)
        if "end" in how:
            return how["end"](losses, counts)
        if means:
            return sum(losses) / len(losses)
        return sum(x * n for x, n in zip(losses, counts, strict=True)) / sum(counts)

    return answer


def _weighed_by_source(model, batches, optimizer):
    counts = [int((src != PAD).sum()) for src, _ in batches]
    losses = []
    _epoch((), end=lambda found, _: losses.extend(found))(model, batches, optimizer)
    return sum(map(mul, losses, counts)) / sum(counts)


def _without_eos(model, batches, optimizer):
    counts = [int((tgt[:, 1:] != PAD).sum()) for _, tgt in batches]
    losses = []
    hidden = lambda read, labels, tgt: (read, labels.masked_fill(labels == EOS, PAD))  # noqa: E731
    _epoch((), cut=hidden, end=lambda found, _: losses.extend(found))(model, batches, optimizer)
    return sum(map(mul, losses, counts)) / sum(counts)


def _by_sentences(model, batches, optimizer):
    """Each loss divided once more, before `backward`."""
    model.train()
    losses, counts = [], []
    for src, tgt in batches:
        logits, labels = model(src, tgt[:, :-1]).flatten(0, 1), tgt[:, 1:].flatten()
        optimizer.zero_grad()
        loss = F.cross_entropy(logits, labels, ignore_index=PAD) / len(src)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        counts.append(int((labels != PAD).sum()))
    return sum(map(mul, losses, counts)) / sum(counts)


def _weighed(count: Callable[[Tensor], int]) -> Callable:
    """The loop with other weights of the batches' losses."""

    def answer(model, batches, optimizer):
        counts = [count(tgt) for _, tgt in batches]
        losses = []
        _epoch((), end=lambda found, _: losses.extend(found))(model, batches, optimizer)
        return sum(map(mul, losses, counts)) / sum(counts)

    return answer


def _divided_with_bos(model, batches, optimizer):
    tokens = sum(int((tgt[:, 1:] != PAD).sum()) for _, tgt in batches)
    sentences = sum(len(tgt) for _, tgt in batches)
    return one_epoch(model, batches, optimizer) * tokens / (tokens + sentences)


def _divided_by_batches(model, batches, optimizer):
    return _epoch((), times=1 / len(batches))(model, batches, optimizer)


def _step_at_the_end(model, batches, optimizer):
    loss = _epoch((), order=())(model, batches, optimizer)
    optimizer.step()
    return loss


def _one_update(model, batches, optimizer):
    """All batches of the epoch in one update."""
    model.train()
    optimizer.zero_grad()
    total = tokens = 0
    for src, tgt in batches:
        logits, labels = model(src, tgt[:, :-1]).flatten(0, 1), tgt[:, 1:].flatten()
        loss = F.cross_entropy(logits, labels, ignore_index=PAD, reduction="sum")
        total, tokens = total + loss, tokens + int((labels != PAD).sum())
    (total / tokens).backward()
    optimizer.step()
    return total.item() / tokens


def _one_step(model, batches, optimizer):
    """All gradients added up, and one step at the end of the epoch."""
    loss = _epoch(("gradients never cleared",), order=())(model, batches, optimizer)
    optimizer.step()
    return loss


def _at_the_end(left: Sequence[str] = (), **how: Any) -> Callable:
    """One step at the end of the epoch, and another mistake."""

    def answer(model, batches, optimizer):
        loss = _epoch(left, order=(), **how)(model, batches, optimizer)
        optimizer.step()
        return loss

    return answer


_kept, _means = "gradients never cleared", "the mean of the batches' means"
_one_step_of_means, _last_step_of_means = _at_the_end((_kept, _means)), _at_the_end((_means,))
_one_step_of_sums = _at_the_end((_kept,), summed=True)


def _one_step_of_mean(model, batches, optimizer):
    return _at_the_end((_kept,), times=1 / len(batches))(model, batches, optimizer)


def _asked(which: Callable[..., Tensor]) -> Callable:
    """The labels at some places alone: `which(real, place, n)`, n how many a sentence has."""

    def cut(read: Tensor, labels: Tensor, tgt: Tensor) -> tuple[Tensor, Tensor]:
        real, place = labels != PAD, torch.arange(labels.shape[1]).expand_as(labels)
        return read, labels * which(real, place, real.sum(1, keepdim=True))

    return cut


def _last_place(model, batches, optimizer):
    model.train()
    total = tokens = 0
    for src, tgt in batches:
        logits, labels = model(src, tgt[:, :-1])[:, -1], tgt[:, -1]
        loss = F.cross_entropy(logits, labels, ignore_index=PAD, reduction="sum")
        n = int((labels != PAD).sum())
        optimizer.zero_grad()
        (loss / torch.tensor(n)).backward()
        optimizer.step()
        total, tokens = total + loss.item(), tokens + n
    return total / tokens


def _by_hand(
    score: Callable = lambda z: z.log_softmax(-1),
    slope: Callable = lambda loss, n: loss,
    add: Callable = lambda loss, n: loss * n,
) -> Callable:
    """The loop with a loss made of `score`, by hand."""

    def answer(model, batches, optimizer):
        model.train()
        total = tokens = 0
        for src, tgt in batches:
            labels = tgt[:, 1:].flatten()
            some = score(model(src, tgt[:, :-1])).flatten(0, 1)
            loss = F.nll_loss(some, labels, ignore_index=PAD)
            n = int((labels != PAD).sum())
            optimizer.zero_grad()
            slope(loss, n).backward()
            optimizer.step()
            total, tokens = total + add(loss.item(), n), tokens + n
        return total / tokens

    return answer


def _over_sentences(model, batches, optimizer):
    """Each update by the mean over the sentences of the sum over their tokens."""
    model.train()
    total = tokens = 0
    for src, tgt in batches:
        logits, labels = model(src, tgt[:, :-1]).flatten(0, 1), tgt[:, 1:].flatten()
        optimizer.zero_grad()
        loss = F.cross_entropy(logits, labels, ignore_index=PAD, reduction="sum")
        (loss / len(src)).backward()
        optimizer.step()
        total, tokens = total + loss.item(), tokens + int((labels != PAD).sum())
    return total / tokens


def _clipped_to(limit: float) -> Callable:
    """The loop with the gradients clipped."""

    def answer(model, batches, optimizer):
        step = optimizer.step

        def clips():
            torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
            step()

        optimizer.step = clips
        return one_epoch(model, batches, optimizer)

    return answer


def _mean_loss(model, batches) -> tuple[float, int]:
    """The sum of the losses of some batches, and how many tokens they have."""
    total = tokens = 0
    with torch.no_grad():
        for src, tgt in batches:
            logits, labels = model(src, tgt[:, :-1]).flatten(0, 1), tgt[:, 1:].flatten()
            total += F.cross_entropy(logits, labels, ignore_index=PAD, reduction="sum").item()
            tokens += int((labels != PAD).sum())
    return total, tokens


def _measured_after(model, batches, optimizer):
    total = tokens = 0
    for batch in batches:
        one_epoch(model, [batch], optimizer)
        more, n = _mean_loss(model, [batch])
        total, tokens = total + more, tokens + n
    return total / tokens


def _measured_at_the_end(model, batches, optimizer):
    one_epoch(model, batches, optimizer)
    total, tokens = _mean_loss(model, batches)
    return total / tokens


LOOP_MISTAKES = mistakes(
    *still_there(LOOP_FAULTS, _epoch),
    ("the logits in place of their logarithms", _by_hand(lambda z: z),
     "`nll_loss` takes the logarithms of the probabilities: `log_softmax` comes before it."),
    ("the probabilities in place of their logarithms", _by_hand(lambda z: z.softmax(-1)),
     "`nll_loss` takes the logarithms of the probabilities: `log_softmax`, not `softmax`."),
    ("the softmax over the places", _by_hand(lambda z: z.log_softmax(1)),
     "The softmax runs over the vocabulary, the last axis."),
    ("the softmax over the sentences", _by_hand(lambda z: z.log_softmax(0)),
     "The softmax runs over the vocabulary, the last axis."),
    ("the minus before the logarithms forgotten", _by_hand(lambda z: -z.log_softmax(-1)),
     "The loss is minus the logarithm: without the minus each step makes it larger."),
    ("the mean divided by the tokens once more",
     _by_hand(slope=lambda loss, n: loss / n, add=lambda loss, n: loss),
     "`cross_entropy` has divided by the batch's tokens already, if it is not told otherwise."),
    ("the means added up, and divided by all tokens", _by_hand(add=lambda loss, n: loss),
     "A batch's loss is a mean: multiply it by its tokens before you add it up."),
    ("the gradients reach no step", _epoch((), order=("zero", "step")),
     "Nothing is learned: there is no `optimizer.step()`, or the gradients were cleared between "
     "`backward` and `step`."),
    ("shifted the wrong way",
     _epoch((), cut=lambda read, labels, tgt: (tgt[:, 1:], tgt[:, :-1])),
     "The decoder is asked for the token before the one it reads. The labels are one place ahead, "
     "`tgt[:, 1:]`."),
    ("the last place alone", _last_place,
     "Each place is asked for its next token, not the last one alone."),
    ("the last place alone, and NaN where it is padding",
     _epoch((), cut=_asked(lambda real, place, n: place == place.max())),
     "Each place is asked for its next token, not the last one alone."),
    ("the last token of each sentence alone",
     _epoch((), cut=_asked(lambda real, place, n: place == n - 1)),
     "Each place is asked for its next token, not the last one alone."),
    ("the first place alone",
     _epoch((), cut=_asked(lambda real, place, n: place == 0)),
     "Each place is asked for its next token, not the first one alone."),
    ("all places but the last", _epoch((), cut=_asked(lambda real, place, n: place < place.max())),
     "The last place is asked for its next token as well."),
    ("all tokens but the last of each sentence",
     _epoch((), cut=_asked(lambda real, place, n: place < n - 1)),
     "The last place of a sentence is asked as well, for `EOS`: else the model never stops."),
    ("all places but the first", _epoch((), cut=_asked(lambda real, place, n: place > 0)),
     "What follows `BOS` is asked for, too: else the model cannot begin."),
    ("the first batch alone",
     lambda model, batches, optimizer: one_epoch(model, batches[:1], optimizer),
     "An epoch goes through all batches. Does the `return` stand in the loop?"),
    ("the first batch alone, and its loss divided by the number of batches",
     lambda model, batches, optimizer: (
         one_epoch(model, batches[:1], optimizer) / len(batches)),
     "An epoch goes through all batches. Does the `return` stand in the loop?"),
    ("the decoder reads what it is asked for",
     _epoch((), cut=lambda read, labels, tgt: (tgt[:, 1:], tgt[:, 1:])),
     "It reads `tgt[:, :-1]`, with `BOS` in front, and is asked for `tgt[:, 1:]`."),
    ("shifted twice", _epoch((), cut=lambda read, labels, tgt: (tgt[:, :-2], tgt[:, 2:])),
     "The labels are one place ahead, not two."),
    ("the sum of the losses in place of their mean", _epoch((), summed=True),
     "The step grows with the number of tokens of a batch. Each update takes the gradient of the "
     "mean over the tokens of its batch."),
    ("a softmax before the loss", _epoch((), logits=lambda z: z.softmax(-1)),
     "`cross_entropy` takes logits: the softmax is in it."),
    ("uphill", _epoch((), times=-1),
     "`backward` is for the loss itself: the optimiser goes down by its own minus sign."),
    ("the source without its last token",
     _epoch((), read=lambda src: src[:, :-1]),
     "Only the target is read by one and asked for by the other. The encoder reads all of the "
     "source."),
    ("smoothed labels", _epoch((), smoothing=0.1), "Nobody asked for smoothing here."),
    ("the last batch's loss", _epoch((), end=lambda losses, counts: losses[-1]),
     "The weights are right. Return the mean over all tokens of the epoch."),
    ("the sum of the batches' losses", _epoch((), end=lambda losses, counts: sum(losses)),
     "The weights are right. Return the mean over all tokens of the epoch."),
    ("each gradient divided by the number of batches", _divided_by_batches,
     "That is for several batches in one update. Here each batch is an update of its own."),
    ("one step, behind the last batch", _step_at_the_end,
     "Each batch is an update of its own: `optimizer.step()` stands in the loop."),
    ("the sum over all tokens, divided by the number of batches",
     _epoch((), end=lambda losses, counts: sum(map(mul, losses, counts)) / len(losses)),
     "The weights are right. Divide by the number of tokens."),
    ("the sum over all tokens",
     _epoch((), end=lambda losses, counts: sum(
         x * n for x, n in zip(losses, counts, strict=True)
     )),
     "The weights are right. Divide by the number of tokens."),
    ("one update for all batches", _one_update,
     "Each batch is an update of its own, as in the colleague's loop."),
    ("one update for all batches, and the mean of their means", _one_step_of_means,
     "Each batch is an update of its own: `optimizer.step()` stands in the loop. And in the mean a "
     "batch counts with its tokens."),
    ("one update for all batches, by the mean of their means", _one_step_of_mean,
     "Each batch is an update of its own, as in the colleague's loop."),
    ("one update for all batches, by the sum over their tokens", _one_step_of_sums,
     "Each batch is an update of its own, by the mean over its tokens."),
    ("one step behind the last batch, and the mean of the batches' means", _last_step_of_means,
     "Each batch is an update of its own: `optimizer.step()` stands in the loop. And in the mean a "
     "batch counts with its tokens."),
    ("one update for all batches, by the sum of their means", _one_step,
     "Each batch is an update of its own, as in the colleague's loop."),
    ("weighed by all places, padding too", _weighed(lambda tgt: tgt[:, 1:].numel()),
     "The weights are right. A batch counts with its target tokens that are not PAD."),
    ("weighed by the tokens with `BOS`", _weighed(lambda tgt: int((tgt != PAD).sum())),
     "The weights are right. `BOS` is not predicted, so it does not count among the tokens."),
    ("divided by the tokens with `BOS`", _divided_with_bos,
     "The weights are right. `BOS` is not predicted, so it does not count among the tokens."),
    ("weighed by the tokens of the source", _weighed_by_source,
     "The weights are right. A batch counts with its target tokens: they are what is asked for."),
    ("`EOS` left out of the loss, too", _without_eos,
     "`EOS` is to be learned as well. Only labels that are PAD count for nothing."),
    ("weighed by the sentences", _weighed(len),
     "The weights are right. A batch counts with its target tokens, not with its sentences."),
    ("asked for what it reads",
     _epoch((), cut=lambda read, labels, tgt: (tgt[:, :-1], tgt[:, :-1])),
     "The labels are one place ahead, `tgt[:, 1:]`: else the decoder is asked to copy."),
    ("`EOS` ignored in place of the padding",
     _epoch((), cut=lambda read, labels, tgt: (
         read, labels.masked_fill(labels == EOS, -100)), ignore=-100),
     "`ignore_index` is PAD. `EOS` is a label, or the model never learns to stop."),
    ("padding in the loss, and the mean of the epoch weighed by the tokens alone",
     _epoch((), ignore=-100),
     "Labels that are PAD count for nothing in the loss, either: `ignore_index=PAD`."),
    ("the exponential of the mean of the batches' means",
     lambda model, batches, optimizer: math.exp(
         _epoch(("the mean of the batches' means",))(model, batches, optimizer)
     ),
     "That is a perplexity, and of a mean in which short batches weigh as much as long ones. The "
     "mean loss over all tokens is asked for."),
    ("the mean loss in bits",
     lambda model, batches, optimizer: one_epoch(model, batches, optimizer) / math.log(2),
     "The loss is in nats, as `cross_entropy` gives it."),
    ("the loss divided by the number of sentences as well", _by_sentences,
     "`cross_entropy` has taken the mean over the tokens already."),
    ("the exponential of the mean loss",
     lambda model, batches, optimizer: math.exp(one_epoch(model, batches, optimizer)),
     "That is the perplexity. The mean loss is asked for."),
    ("the whole target read, and each token asked for where it was read",
     _epoch((), cut=lambda read, labels, tgt: (
         tgt, torch.cat([torch.full_like(tgt[:, :1], PAD), tgt[:, 1:]], 1))),
     "At each place the model has read the very token that it is asked for. It reads `tgt[:, :-1]` "
     "and is asked for `tgt[:, 1:]`."),
    *((f"{fault}; and padding in the loss, and the mean weighed by the tokens alone",
       _epoch((fault,), ignore=-100),
       f"{LOOP_FAULTS[fault]} And labels that are PAD count for nothing in the loss, either.")
      for fault in ("labels not shifted", "gradients never cleared", "in eval mode")),
    ("source and target in each other's place",
     lambda model, batches, optimizer: one_epoch(
         model, [(tgt, src) for src, tgt in batches], optimizer),
     "A pair is source first, then target, and the model is called as `model(src, tgt)`."),
    *((f"the gradients clipped to a length of {limit}", _clipped_to(limit),
       "Nobody asked for clipping here: the step goes by the gradient as it is.")
      for limit in (0.1, 0.5)),
    ("the loss of each batch measured after its update", _measured_after,
     "The weights are right. The loss is the one that `backward` was called on, before each "
     "update."),
    ("the loss of all batches measured after the epoch", _measured_at_the_end,
     "The weights are right. The loss is the one that `backward` was called on, before each "
     "update."),
    ("the sum of the losses divided by the number of sentences", _over_sentences,
     "Each update takes the gradient of the mean over the target tokens of its batch."),
)  # fmt: skip

# 12.8 the gradient of the label-smoothed loss


def loss_gradient(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    return _minus(logits, targets, _asked(logits, targets, smoothing))


def _asked(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """q of equation (12.1), (N, V)."""
    V = logits.shape[-1]
    q = torch.full_like(logits, smoothing / (V - 1))
    q[:, PAD] = 0.0
    return q + (1 - smoothing) * F.one_hot(targets, V)


def _minus(logits: Tensor, targets: Tensor, q: Tensor) -> Tensor:
    return (logits.softmax(-1) - q) * (targets != PAD)[:, None]


def gradient_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(128)
    cases = [(torch.zeros(1, 3), torch.tensor([2]), 0.2)]
    for targets, V, smoothing in (([3, 1, 0, 4], 6, 0.1), ([2, 0, 1], 3, 0.3), ([1], 4, 0.0)):
        logits = 2 * torch.randn(len(targets), V, generator=draw)
        cases.append((logits, torch.tensor(targets), smoothing))
    large = torch.tensor([[1000.0, 998.0, 1001.0, 999.0], [-1000.0, -1001.0, -998.0, -1002.0]])
    return [*cases, (large, torch.tensor([3, 1]), 0.1)]


def _q(change: Callable) -> Callable:
    """A mistake in what is asked for: `change(one_hot, smoothing, V)`."""
    return lambda logits, targets, smoothing: _minus(
        logits,
        targets,
        change(F.one_hot(targets, logits.shape[-1]).float(), smoothing, logits.shape[-1]),
    )


def _not_pad(one: Tensor) -> Tensor:
    return (torch.arange(one.shape[-1]) != PAD).float()


def _graded(
    q: Callable[[Tensor, float, int], Tensor] = lambda one, e, V: (
        (1 - e) * one + e / (V - 1) * _not_pad(one)
    ),
    p: Callable[[Tensor], Tensor] = lambda z: z.softmax(-1),
    rows: Callable[[Tensor], Tensor] = lambda targets: (targets != PAD)[:, None],
    end: Callable[[Tensor, Tensor], Tensor] = lambda slope, targets: slope,
) -> Callable[..., Tensor]:
    """The gradient, right by default; each argument makes one mistake."""

    def gradient(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        V = logits.shape[-1]
        asked = q(F.one_hot(targets, V).float(), smoothing, V)
        return end((p(logits) - asked) * rows(targets), targets)

    return gradient


GRADIENT_SLIPS = [
    ("no smoothing", {"q": lambda one, e, V: one}, "q has a share for every token but PAD."),
    ("a share for padding", {"q": lambda one, e, V: (1 - e) * one + e / V},
     "PAD gets no share: it is spread over the other V - 1 tokens."),
    ("a share for padding, of V - 1", {"q": lambda one, e, V: (1 - e) * one + e / (V - 1)},
     "PAD gets no share."),
    ("divided by V", {"q": lambda one, e, V: (1 - e) * one + e / V * _not_pad(one)},
     "The share is spread over V - 1 tokens."),
    ("the right token without its share",
     {"q": lambda one, e, V: (1 - e) * one + e / (V - 1) * _not_pad(one) * (1 - one)},
     "The right token gets a share, too."),
    ("the share spread over the wrong tokens",
     {"q": lambda one, e, V: (1 - e) * one + e / max(1, V - 2) * _not_pad(one) * (1 - one)},
     "The right token gets a share, too: epsilon / (V - 1)."),
    ("the softmax over the rows", {"p": lambda z: z.softmax(0)},
     "The softmax runs over the last axis."),
    ("logarithms in place of probabilities", {"p": lambda z: z.log_softmax(-1)},
     "It is p itself, not its logarithm."),
    ("the padding not left out", {"rows": lambda targets: torch.ones(len(targets), 1)},
     "A row whose target is PAD has no gradient."),
    ("the padding not left out, where nothing is asked for on PAD",
     {"q": lambda one, e, V: ((1 - e) * one + e / (V - 1)) * _not_pad(one),
      "rows": lambda targets: torch.ones(len(targets), 1)},
     "A row whose target is PAD has no gradient."),
    ("the mean over the rows", {"end": lambda slope, targets: slope / len(targets)},
     "The loss is the sum over the targets."),
    ("the mean over the tokens",
     {"end": lambda slope, targets: slope / max(1, int((targets != PAD).sum()))},
     "The loss is the sum over the targets."),
    ("the sign turned", {"end": lambda slope, targets: -slope}, "It is p - q."),
]  # fmt: skip


def _by_loss(
    q: Callable[[Tensor, float, int], Tensor],
    rows: Callable[[Tensor], Tensor] = lambda targets: (targets != PAD)[:, None],
) -> Callable:
    """The gradient of a loss with another q, which need not sum to 1."""

    def gradient(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        asked = q(F.one_hot(targets, logits.shape[-1]).float(), smoothing, logits.shape[-1])
        slope = logits.softmax(-1) * asked.sum(-1, keepdim=True) - asked
        return slope * rows(targets)

    return gradient


def _along(everywhere: bool, zero: bool) -> Callable[..., Tensor]:
    """The mask along the wrong axis, wherever it fits or always."""

    def gradient(z: Tensor, y: Tensor, e: float) -> Tensor:
        q = _asked(z, y, e) * (_not_pad(z) if zero else 1)
        wrong = everywhere or len(y) == z.shape[1]
        return (z.softmax(-1) - q) * ((y != PAD) if wrong else (y != PAD)[:, None])

    return gradient


def _p_alone(q: Callable[[Tensor, float, int], Tensor]) -> Callable[..., Tensor]:
    """The padding left out of p and not of q."""
    return lambda z, y, e: (
        z.softmax(-1) * (y != PAD)[:, None] - q(F.one_hot(y, z.shape[-1]).float(), e, z.shape[-1])
    )


Q_SLIPS = [
    ("1 - epsilon left out at the right token",
     lambda one, e, V: e / (V - 1) * _not_pad(one) + 0 * one,
     "The right token has 1 - epsilon besides its share."),
    ("epsilon in place of 1 - epsilon at the right token",
     lambda one, e, V: e * one + e / (V - 1) * _not_pad(one),
     "The right token has 1 - epsilon besides its share."),
    ("1 in place of 1 - epsilon at the right token",
     lambda one, e, V: one + e / (V - 1) * _not_pad(one),
     "The right token has 1 - epsilon besides its share."),
    ("1 + epsilon at the right token",
     lambda one, e, V: (1 + e) * one + e / (V - 1) * _not_pad(one),
     "The right token has 1 - epsilon besides its share."),
    ("1 - epsilon with the wrong sign",
     lambda one, e, V: (e - 1) * one + e / (V - 1) * _not_pad(one),
     "q is taken off as a whole, 1 - epsilon at the right token as well as the shares."),
    ("the share not divided", lambda one, e, V: (1 - e) * one + e * _not_pad(one),
     "The smoothing is spread over V - 1 tokens: each has epsilon / (V - 1)."),
    ("the share multiplied by V - 1",
     lambda one, e, V: (1 - e) * one + e * (V - 1) * _not_pad(one),
     "The smoothing is spread over V - 1 tokens: each has epsilon / (V - 1)."),
    *((f"divided by V {'+' if more > 0 else '-'} {abs(more)}",
       lambda one, e, V, more=more: (1 - e) * one + e / (V + more) * _not_pad(one),
       "The share is spread over V - 1 tokens, those that are not PAD.") for more in (1, -2)),
]  # fmt: skip


GRADIENT_MISTAKES = mistakes(
    *combined(_graded, GRADIENT_SLIPS),
    *((name, _graded(q), why) for name, q, why in Q_SLIPS if not name.startswith("1 in place")),
    *((f"in the loss, {name}", _by_loss(q), why) for name, q, why in (
        *Q_SLIPS,
        *((name, how["q"], why) for name, how, why in GRADIENT_SLIPS
          if name in ("a share for padding, of V - 1", "divided by V",
                      "the right token without its share")))),
    ("in the loss, the share taken off",
     _by_loss(lambda one, e, V: (1 - e) * one - e / (V - 1) * _not_pad(one)),
     "q is taken off as a whole: 1 - epsilon at the right token, and the share at every token but "
     "PAD."),
    *((f"rows whose target is {names} set to zero as well",
       lambda z, y, e, ids=ids: (
           loss_gradient(z, y, e) * ~torch.isin(y, torch.tensor(ids))[:, None]),
       "Only a row whose target is PAD has no gradient: all other ids are to be learned.")
      for names, ids in (("EOS", [3]), ("UNK", [1]), ("UNK or BOS", [1, 2]),
                         ("UNK, BOS or EOS", [1, 2, 3]))),
    *((f"q left in the rows of the padding{more}", _p_alone(q),
       "Where the target is PAD there is no loss, and no gradient: the whole row is zero, p and q.")
      for more, q in ((", with 1 - smoothing on PAD", lambda one, e, V: (
                          (1 - e) * one + e / (V - 1) * _not_pad(one))),
                      ("", lambda one, e, V: ((1 - e) * one + e / (V - 1)) * _not_pad(one)))),
    ("1 on the right token, and the share on the others",
     _q(lambda one, e, V: one + e / (V - 1) * _not_pad(one) * (1 - one)),
     "q should sum to one: the right token has 1 - smoothing and its part of the share."),
    ("the share spread over all tokens but the last",
     _q(lambda one, e, V: (1 - e) * one + e / (V - 1) * _not_pad(one.flip(-1)).flip(-1)),
     "PAD is token 0, the first, and it is the one that gets nothing."),
    *((f"the mask along the tokens of the vocabulary{where}{more}", _along(everywhere, zero),
       "The mask has one entry for each row: `[:, None]` lays it along them. Where there are as "
       "many rows as tokens, it hides columns without an error.")
      for where, everywhere in (("", True), (" where there are as many of them as rows", False))
      for more, zero in (("", False), (", and nothing asked for PAD", True))),
    ("the rows of the padding alone", _graded(rows=lambda targets: (targets == PAD)[:, None]),
     "It is the other way round: a row whose target is PAD has no gradient."),
    *((f"in the loss, {name}", _by_loss(lambda one, e, V: (
           (1 - e) * one + e / (V - 1)) * _not_pad(one), rows),
       "A row whose target is PAD has no gradient: it is left out of the sum.")
      for name, rows in (("the padding not left out", lambda y: torch.ones(len(y), 1)),
                         ("the padding alone", lambda y: (y == PAD)[:, None]))),
    ("in the loss, probabilities in place of their logarithms",
     lambda z, y, e: (lambda p, q: p * ((q * p).sum(-1, keepdim=True) - q))(
         z.softmax(-1), _asked(z, y, e)) * (y != PAD)[:, None],
     "The loss has the logarithms of the probabilities: `log_softmax`."),
    ("each logarithm's slope in its own logit alone",
     lambda z, y, e: -_asked(z, y, e) * (1 - z.softmax(-1)) * (y != PAD)[:, None],
     "Each logarithm moves with every logit, for each is in the denominator of the softmax: "
     "-q_i (delta_ik - p_k), summed over i."),
    ("the sign turned", lambda *case: -loss_gradient(*case),
     "What the model says minus what it should say: p - q. Where the model says too much, the loss "
     "grows with the logit."),
    ("a sigmoid in place of the softmax",
     lambda z, y, e: (z.sigmoid() - _asked(z, y, e)) * (y != PAD)[:, None],
     "p is the softmax of the logits: the tokens share one probability."),
    ("the share with the wrong sign",
     lambda z, y, e: loss_gradient(z, y, e) + 2 * e / (z.shape[1] - 1) * (
         (y != PAD)[:, None] & (torch.arange(z.shape[1]) != PAD)
     ),
     "q is taken off as a whole: 1 - epsilon at the right token, and the share at every token but "
     "PAD."),
    ("PAD's column set to zero, and not the rows of the padding",
     lambda z, y, e: (z.softmax(-1) - _asked(z, y, e)) * (torch.arange(z.shape[1]) != PAD),
     "PAD is a token that the model may say, and p pushes it down. What has no gradient are the "
     "rows whose target is PAD."),
    ("the rows of the padding left out", lambda z, y, e: loss_gradient(z, y, e)[y != PAD],
     "They stay, and their gradient is zero: (N, V)."),
    ("no smoothing", _q(lambda one, e, V: one),
     "This is the gradient without smoothing. q has a share for every token but PAD."),
    ("a share for padding", _q(lambda one, e, V: (1 - e) * one + e / V),
     "PAD gets nothing: the share is spread over the other V - 1 tokens."),
    ("a share for padding, of V - 1", _q(lambda one, e, V: (1 - e) * one + e / (V - 1)),
     "The shares are right, but PAD gets none of them."),
    ("divided by V", _q(lambda one, e, V: (1 - e) * one + e / V * _not_pad(one)),
     "The share is spread over V - 1 tokens, those that are not PAD."),
    ("the right token without its share",
     _q(lambda one, e, V: (1 - e) * one + e / (V - 1) * _not_pad(one) * (1 - one)),
     "The right token is among those that get a share of the smoothing, on top of 1 - epsilon."),
    ("the share spread over the wrong tokens",
     _q(lambda one, e, V: (1 - e) * one + e / max(1, V - 2) * _not_pad(one) * (1 - one)),
     "By equation (12.1) the right token gets a share, too: epsilon / (V - 1) for every token but "
     "PAD."),
    ("exponentials that stand alone, and become infinite",
     lambda z, y, e: (
         (z.exp() / z.exp().sum(-1, keepdim=True) - _asked(z, y, e)) * (y != PAD)[:, None]
     ),
     "That is right on paper, and e to the power of 1,000 is infinite. Take the largest logit off "
     "first, as `softmax` does."),
    ("the largest logit of the whole batch taken off",
     lambda z, y, e: (
         ((p := (z - z.max()).exp()) / p.sum(-1, keepdim=True) - _asked(z, y, e))
         * (y != PAD)[:, None]
     ),
     "Each row has a largest logit of its own. Far below that of another, all become zero."),
    ("at the right token alone, with its share",
     lambda z, y, e: F.one_hot(y, z.shape[-1]) * loss_gradient(z, y, e),
     "Every logit moves the loss, for each is in the denominator of the softmax."),
    ("q left out", _q(lambda one, e, V: 0 * one),
     "That is p alone. What the model should say is subtracted."),
    ("the padding not left out",
     lambda logits, targets, smoothing: logits.softmax(-1) - _asked(logits, targets, smoothing),
     "A row whose target is PAD asks for nothing: its gradient is zero."),
    ("the mean over the tokens",
     lambda logits, targets, smoothing: (
         loss_gradient(logits, targets, smoothing) / max(1, int((targets != PAD).sum()))
     ),
     "The loss is the sum over the targets."),
    ("logarithms in place of probabilities",
     lambda logits, targets, smoothing: (
         (logits.log_softmax(-1) - _asked(logits, targets, smoothing)) * (targets != PAD)[:, None]
     ),
     "The slope of the logarithm has been taken already: p itself, not its logarithm."),
    ("the softmax over the rows",
     lambda logits, targets, smoothing: (
         (logits.softmax(0) - _asked(logits, targets, smoothing)) * (targets != PAD)[:, None]
     ),
     "Each row is a distribution over the tokens: the softmax runs over the last axis."),
    ("the logits in place of p",
     lambda logits, targets, smoothing: (
         (logits - _asked(logits, targets, smoothing)) * (targets != PAD)[:, None]
     ),
     "p is the softmax of the logits."),
    ("q over p",
     lambda logits, targets, smoothing: (
         -_asked(logits, targets, smoothing) / logits.softmax(-1) * (targets != PAD)[:, None]
     ),
     "That is the slope in p. The logits come one step earlier: go on through the softmax."),
    ("padding left out of the softmax",
     lambda logits, targets, smoothing: (
         (
             logits.masked_fill(torch.arange(logits.shape[-1]) == PAD, -math.inf).softmax(-1)
             - _asked(logits, targets, smoothing)
         )
         * (targets != PAD)[:, None]
     ),
     "The model gives PAD a probability like any token, and the gradient pushes it down."),
    ("the gradient without smoothing times 1 - smoothing",
     lambda z, y, e: (1 - e) * loss_gradient(z, y, 0.0),
     "q has a share for each token but PAD: add it, do not only make the rest smaller."),
    ("q without the share of the others", _q(lambda one, e, V: (1 - e) * one),
     "The right token has 1 - smoothing in q. The smoothing itself is spread over all but PAD."),
    ("smoothing and 1 - smoothing exchanged",
     _q(lambda one, e, V: e * one + (1 - e) / (V - 1) * _not_pad(one)),
     "The right token keeps 1 - smoothing, and smoothing is what is spread."),
    ("smoothing for all but the right token, PAD among them",
     _q(lambda one, e, V: (1 - e) * one + (1 - one) * e / (V - 1)),
     "Of the V tokens PAD gets nothing, and the right one gets a part of the smoothing, too."),
    ("smoothing added, and nothing taken from the right token",
     _q(lambda one, e, V: one + e / V),
     "The shares should sum to one: the right token has 1 - smoothing and its part of the rest."),
    ("at the right token alone", lambda z, y, e: (
         F.one_hot(y, z.shape[-1]) * (z.softmax(-1) - 1) * (y != PAD)[:, None]
     ),
     "Every logit moves the loss, for each is in the denominator of the softmax."),
    ("the padding not left out, where nothing is asked for on PAD",
     lambda z, y, e: z.softmax(-1) - _asked(z, y, e) * _not_pad(z),
     "A row whose target is PAD asks for nothing: its gradient is zero."),
    ("smoothing added, and nothing taken from the right token, and nothing on PAD",
     _q(lambda one, e, V: one + e / (V - 1) * _not_pad(one)),
     "q should sum to one: the right token has 1 - smoothing and its part of the rest."),
    ("q alone, with a minus",
     lambda z, y, e: -_asked(z, y, e) * (y != PAD)[:, None],
     "That is the slope in the logarithms. Each of them has the sum of all exponentials in it, "
     "which adds p."),
    ("the loss in place of its gradient",
     lambda z, y, e: smoothed_loss(z[None], y[None], e),
     "Asked for is the slope of the loss in each logit, (N, V)."),
    ("nothing for PAD's logit", lambda z, y, e: loss_gradient(z, y, e) * _not_pad(z),
     "q has nothing for PAD, but p has: the gradient pushes its logit down."),
    ("times p", lambda z, y, e: loss_gradient(z, y, e) * z.softmax(-1),
     "p - q is the slope in the logits already. Nothing more is multiplied."),
    ("times p times 1 - p",
     lambda z, y, e: loss_gradient(z, y, e) * z.softmax(-1) * (1 - z.softmax(-1)),
     "p - q is the slope in the logits already. Nothing more is multiplied."),
    ("through the softmax once more",
     lambda z, y, e: (lambda p, g: p * (g - (p * g).sum(-1, keepdim=True)))(
         z.softmax(-1), loss_gradient(z, y, e)),
     "p - q is the slope in the logits already: the softmax is behind it."),
    ("the probabilities left at padding",
     lambda logits, targets, smoothing: (
         logits.softmax(-1) - _asked(logits, targets, smoothing) * (targets != PAD)[:, None]
     ),
     "Where the target is PAD there is no loss, and no gradient: the whole row is zero."),
)  # fmt: skip


def whole(numbers: list) -> list:
    """Numbers such as 1.0 as whole ones."""
    if any(isinstance(n, bool) for n in numbers):
        return numbers
    return [int(n) if float(n).is_integer() else float(n) for n in numbers]


EXERCISES = [
    Exercise(
        number="12.1",
        title="predict, then try: the best loss",
        section="The loss that cannot reach zero",
        reference=[truth for truth, _ in QUESTIONS],
        canonical=whole,
        mistakes=mistakes(*_guesses()),
        invariants=Family(no_signs),
    ),
    Exercise(
        number="12.2",
        title="label smoothing",
        section="Label smoothing",
        reference=smoothed_loss,
        canonical=_no_number,
        cases=loss_cases,
        mistakes=LOSS_MISTAKES,
        invariants=[
            Invariant(
                "a cross-entropy is not below zero",
                lambda output, *case: float(output) >= 0,
                "Logarithms of probabilities are negative, and the loss has a minus before them.",
            )
        ],
    ),
    Exercise(
        number="12.3",
        title="a schedule with given properties",
        section="What came later",
        reference=rate,
        cases=SCHEDULE_CASES,
        probe=rates_of,
        mistakes=SCHEDULE_MISTAKES,
        invariants=Family(_how_it_runs),
    ),
    Exercise(
        number="12.4",
        title="one update of AdamW",
        section="What came later",
        reference=adamw_update,
        cases=adam_cases,
        mistakes=[
            *DECAY_MISTAKES,
            *(replace(mistake, wrong=_decayed(mistake.wrong)) for mistake in ADAM_MISTAKES),
        ],
        parts=("theta", "m", "v"),
        seconds=30.0,  # the first optimiser of PyTorch takes some to import
    ),
    Exercise(
        number="12.5",
        title="one gradient from several",
        section="Several batches, one update",
        reference=merged,
        cases=merge_cases,
        mistakes=MERGE_MISTAKES,
    ),
    Exercise(
        number="12.6",
        title="a test for clipping",
        section="One bad gradient",
        reference=clips_right,
        cases=[()],
        mistakes=CLIP_TEST_MISTAKES,
        probe=clip_verdicts,
        invariants=Family(_clip_named, CLIP_RULES),
    ),
    Exercise(
        number="12.7",
        title="find the mistakes",
        section="The loop",
        reference=one_epoch,
        cases=loop_cases,
        probe=trained,
        mistakes=LOOP_MISTAKES,
    ),
    Exercise(
        number="12.8",
        title="the gradient of the loss",
        section="Label smoothing",
        reference=loss_gradient,
        cases=gradient_cases,
        mistakes=GRADIENT_MISTAKES,
    ),
]
