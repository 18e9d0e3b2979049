"""The exercises of chapter 12, training: references, cases, mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from .core import Exercise, Invariant, mistakes

PAD, BOS, EOS = 0, 2, 3

# 12.1 inputs and labels out of lists of ids

Rows = list[list[int]]


def _padded(rows: Rows) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def inputs_and_labels(targets: Rows) -> tuple[Tensor, Tensor]:
    return _padded([[BOS, *ids] for ids in targets]), _padded([[*ids, EOS] for ids in targets])


def shift_cases() -> list[tuple]:
    return [([[7, 8, 9, 5], [6, 6], [4]],), ([[9, 4], [5, 7, 8]],), ([[5, 6, 7]],)]


def without_idle_inputs(pair: tuple) -> tuple:
    """Inputs whose label is padding are free: EOS or PAD may stand there."""
    inputs, labels = (torch.as_tensor(side) for side in pair)
    if inputs.shape != labels.shape:
        return inputs, labels
    return inputs.masked_fill((labels == PAD) & (inputs == EOS), PAD), labels


def _left(rows: Rows) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*[PAD] * (longest - len(row)), *row] for row in rows])


def _both(rows: Rows) -> tuple[Tensor, Tensor]:
    return _padded(rows), _padded(rows)


SHIFT_MISTAKES = mistakes(
    ("no shift", lambda targets: _both([[BOS, *ids] for ids in targets]),
     "Inputs and labels are the same, so the net is asked for the token it has just read. The "
     "labels are one place ahead."),
    ("no shift, and EOS for BOS", lambda targets: _both([[*ids, EOS] for ids in targets]),
     "Inputs and labels are the same. The inputs begin with BOS, the labels end in EOS."),
    ("the whole target twice", lambda targets: _both([[BOS, *ids, EOS] for ids in targets]),
     "The inputs are the target without EOS at its end, the labels the target without BOS."),
    ("the labels have BOS and EOS",
     lambda targets: (
         _padded([[BOS, *ids] for ids in targets]),
         _padded([[BOS, *ids, EOS] for ids in targets]),
     ),
     "BOS is never a label: at the first place the label is the first true token."),
    ("the inputs have BOS and EOS",
     lambda targets: (
         _padded([[BOS, *ids, EOS] for ids in targets]),
         _padded([[*ids, EOS] for ids in targets]),
     ),
     "After EOS nothing is asked: the inputs are one column too wide."),
    ("inputs and labels in each other's place", lambda targets: inputs_and_labels(targets)[::-1],
     "The first of the pair is what the decoder reads, and begins with BOS."),
    ("no EOS in the labels",
     lambda targets: (_padded([[BOS, *ids[:-1]] for ids in targets]), _padded(targets)),
     "The net is never asked for an end, so it will never learn to stop."),
    ("no EOS in the labels, which are padded instead",
     lambda targets: (inputs_and_labels(targets)[0], _padded([[*ids, PAD] for ids in targets])),
     "Behind its last token each sentence asks for EOS. PAD asks for nothing."),
    ("no EOS in the labels, which are one column short",
     lambda targets: (inputs_and_labels(targets)[0], _padded(targets)),
     "Behind its last token each sentence asks for EOS, or the net will never learn to stop."),
    ("no BOS in the inputs",
     lambda targets: (_padded(targets), _padded([[*ids[1:], EOS] for ids in targets])),
     "Without BOS nobody asks for the first token, and inference has nothing to begin with."),
    ("no BOS in the inputs, which are one column short",
     lambda targets: (_padded(targets), inputs_and_labels(targets)[1]),
     "Without BOS nobody asks for the first token, and inference has nothing to begin with."),
    ("the inputs alone returned", lambda targets: inputs_and_labels(targets)[0],
     "Return the pair: what the decoder reads, and what it is asked for."),
    ("EOS behind the padding",
     lambda targets: (
         inputs_and_labels(targets)[0],
         torch.cat([_padded(targets), torch.full((len(targets), 1), EOS)], dim=1),
     ),
     "EOS was put behind the padding. It belongs behind the last token of each sentence."),
    ("the longest sentence has lost its end",
     lambda targets: tuple(side[:, :-1] for side in inputs_and_labels(targets)),
     "One column too many was cut off: the longest sentence is never asked for EOS."),
    ("shifted twice",
     lambda targets: (
         _padded([[BOS, *ids] for ids in targets]),
         _padded([[*ids[1:], EOS, PAD] for ids in targets]),
     ),
     "At each place the label is the token after next. It should be the next one."),
    ("shifted to the other side",
     lambda targets: (
         _padded([[BOS, *ids] for ids in targets]),
         _padded([[BOS, BOS, *ids][: len(ids) + 1] for ids in targets]),
     ),
     "The label is the token read one place before. It should be the one that comes next."),
    ("padding on the left",
     lambda targets: (
         _left([[BOS, *ids] for ids in targets]),
         _left([[*ids, EOS] for ids in targets]),
     ),
     "Padding stands on the right, as in Chapter 1: the causal mask then hides it by itself."),
    ("padded with EOS",
     lambda targets: tuple(
         side.masked_fill(side == PAD, EOS) for side in inputs_and_labels(targets)
     ),
     "EOS in the labels asks the net to write EOS again and again. Fill up with PAD."),
    ("the labels padded with EOS",
     lambda targets: (
         inputs_and_labels(targets)[0],
         inputs_and_labels(targets)[1].masked_fill(inputs_and_labels(targets)[1] == PAD, EOS),
     ),
     "Each sentence has one EOS. What is behind it is PAD, which asks for nothing."),
    ("the labels padded with -100",
     lambda targets: (
         inputs_and_labels(targets)[0],
         inputs_and_labels(targets)[1].masked_fill(inputs_and_labels(targets)[1] == PAD, -100),
     ),
     "PyTorch's `cross_entropy` leaves -100 out unless told otherwise. Here PAD says that nothing "
     "is asked."),
    ("not padded",
     lambda targets: ([[BOS, *ids] for ids in targets], [[*ids, EOS] for ids in targets]),
     "The rows of a batch are equally long. Fill the shorter ones up with PAD."),
    ("BOS and EOS exchanged",
     lambda targets: (
         _padded([[EOS, *ids] for ids in targets]),
         _padded([[*ids, BOS] for ids in targets]),
     ),
     "BOS (2) begins the inputs, and EOS (3) ends the labels."),
)  # fmt: skip

# 12.2 the label-smoothed loss


def smoothed_loss(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    real = targets != PAD
    log_p = logits[real].log_softmax(-1)
    q = torch.full_like(log_p, smoothing / (log_p.shape[1] - 1))
    q.scatter_add_(1, targets[real][:, None], torch.full_like(log_p[:, :1], 1 - smoothing))
    q[:, PAD] = 0.0
    return -(q * log_p).sum()


def loss_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(122)
    logits = [torch.randn(2, 4, 6, generator=draw) * 2, torch.randn(3, 2, 9, generator=draw)]
    targets = [
        torch.tensor([[1, 5, 2, 3], [4, 3, PAD, PAD]]),
        torch.tensor([[8, 3], [3, PAD], [5, 3]]),
    ]
    return [(logits[0], targets[0], 0.1), (logits[1], targets[1], 0.3)]


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


def entropy(logits: Tensor, targets: Tensor, smoothing: float) -> float:
    right, other, _ = ours(smoothing, logits.shape[-1])
    each = -right * math.log(right) - (logits.shape[-1] - 2) * other * math.log(other)
    return each * float((targets != PAD).sum())


PAD_WHY = "PAD is never right, so it gets no mass: the share is spread over the other V - 1 tokens."
LOSS_MISTAKES = mistakes(
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
     lambda logits, targets, smoothing: (
         smoothed_loss(logits, targets, smoothing)
         + _loss(
             logits[targets == PAD],
             targets[targets == PAD],
             1 - smoothing,
             smoothing / (logits.shape[-1] - 1),
             padding=True,
         ).sum()
     ),
     "Places whose label is PAD count for nothing: there the whole row of q is zero."),
    ("a share of the same size for PAD, too",
     _variant(lambda e, v: (1 - e + e / (v - 1), e / (v - 1), e / (v - 1))),
     "The target distribution sums to more than 1. PAD gets no share; all others have it."),
    ("the sum of the logarithms in place of their mean", _variant(lambda e, v: (1.0, e, 0.0)),
     "Each of the V - 1 tokens gets smoothing / (V - 1), and not the whole of it."),
    ("sum and number returned", lambda *case: (smoothed_loss(*case), int((case[1] != PAD).sum())),
     "The sum is right. The chapter's function returns the number of tokens as well; here the sum "
     "alone is asked for."),
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
    ("smoothing and 1 - smoothing exchanged", _variant(lambda e, v: ours(1 - e, v)),
     "The right token keeps 1 - smoothing, and `smoothing` is spread."),
    ("the paper's 0.1 in place of smoothing",
     lambda logits, targets, smoothing: smoothed_loss(logits, targets, 0.1),
     "How much is spread is given: use the argument."),
    ("the wrong sign", _variant(ours, lambda losses: -losses.sum()),
     "Logarithms of probabilities are negative. The loss is minus their mean under q."),
    ("softmax twice", _variant(ours, log_softmax=lambda z: z.softmax(-1).log_softmax(-1)),
     "`log_softmax` and `cross_entropy` take logits, and do the softmax themselves."),
    ("no logarithm", _variant(ours, log_softmax=lambda z: z.softmax(-1)),
     "The loss is minus the logarithm of the probabilities, weighted with q."),
    ("the logits as they are", _variant(ours, log_softmax=lambda z: z),
     "Logits are not logarithms of probabilities before `log_softmax` made them so."),
    ("the logarithm to base 2",
     _variant(ours, log_softmax=lambda z: z.log_softmax(-1) / math.log(2)),
     "The loss is in nats: use the natural logarithm."),
    ("the Kullback-Leibler divergence",
     lambda logits, targets, smoothing: (
         smoothed_loss(logits, targets, smoothing) - entropy(logits, targets, smoothing)
     ),
     "`kl_div` takes the entropy of q off, so its lowest value is 0. Gradients are the same, but "
     "the task asks for the cross-entropy."),
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
)  # fmt: skip

# 12.3 the schedule


def rate(step: int, d_model: int, warmup_steps: int) -> float:
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


RATE_CASES = [(1, 512, 4000), (300, 512, 4000), (20_000, 512, 4000), (90, 64, 90), (7, 96, 3)]
RATE_MISTAKES = mistakes(
    ("max in place of min",
     lambda step, d_model, warmup_steps: (
         d_model**-0.5 * max(step**-0.5, step * warmup_steps**-1.5)
     ),
     "The larger of the two falls at first and then grows without end. Take the smaller one."),
    ("d_model forgotten",
     lambda step, d_model, warmup_steps: min(step**-0.5, step * warmup_steps**-1.5),
     "The whole is multiplied by d_model^-0.5: wider models get lower rates."),
    ("multiplied by the root of d_model",
     lambda step, d_model, warmup_steps: (
         d_model**0.5 * min(step**-0.5, step * warmup_steps**-1.5)
     ),
     "The exponent of d_model is -0.5."),
    ("divided by d_model",
     lambda step, d_model, warmup_steps: min(step**-0.5, step * warmup_steps**-1.5) / d_model,
     "The exponent of d_model is -0.5, not -1."),
    ("d_model on one side of the minimum only",
     lambda step, d_model, warmup_steps: min(d_model**-0.5 * step**-0.5, step * warmup_steps**-1.5),
     "d_model^-0.5 stands before the minimum, so it multiplies both of its entries."),
    ("exponents exchanged",
     lambda step, d_model, warmup_steps: (
         d_model**-0.5 * min(step**-1.5, step * warmup_steps**-0.5)
     ),
     "The step has the exponent -0.5, and warmup_steps has -1.5."),
    ("-0.5 for warmup_steps too",
     lambda step, d_model, warmup_steps: (
         d_model**-0.5 * min(step**-0.5, step * warmup_steps**-0.5)
     ),
     "With -0.5 the two entries meet long before the warm-up ends. The exponent is -1.5."),
    ("-1 for warmup_steps",
     lambda step, d_model, warmup_steps: d_model**-0.5 * min(step**-0.5, step / warmup_steps),
     "The two entries should meet at step = warmup_steps: there step^-0.5 is w^-0.5, and so w "
     "times w^-1.5."),
    ("no warm-up", lambda step, d_model, warmup_steps: (d_model * step) ** -0.5,
     "The second entry of the minimum, step * warmup_steps^-1.5, has no effect: it is missing, or "
     "its exponent has the wrong sign."),
    ("no fall after the warm-up",
     lambda step, d_model, warmup_steps: d_model**-0.5 * step * warmup_steps**-1.5,
     "The rate grows for ever. The first entry of the minimum, step^-0.5, is missing, or its "
     "exponent has the wrong sign."),
    ("the sum in place of the minimum",
     lambda step, d_model, warmup_steps: (d_model**-0.5 * (step**-0.5 + step * warmup_steps**-1.5)),
     "The smaller of the two is taken, not their sum."),
    ("the product in place of the minimum",
     lambda step, d_model, warmup_steps: d_model**-0.5 * step**0.5 * warmup_steps**-1.5,
     "The smaller of the two is taken, not their product."),
    ("one step ahead", lambda step, d_model, warmup_steps: rate(step + 1, d_model, warmup_steps),
     "Steps count from 1 already: use the step as it is given."),
    ("the warm-up counted from 0",
     lambda step, d_model, warmup_steps: (
         d_model**-0.5 * min(step**-0.5, (step - 1) * warmup_steps**-1.5)
     ),
     "The first update would have the rate zero. Steps count from 1 already."),
    ("d_model and warmup_steps in each other's place",
     lambda step, d_model, warmup_steps: rate(step, warmup_steps, d_model),
     "The order of the arguments is step, d_model, warmup_steps."),
    ("the paper's 4000 in place of warmup_steps",
     lambda step, d_model, warmup_steps: rate(step, d_model, 4000),
     "The length of the warm-up is given: use the argument."),
    ("level after the warm-up",
     lambda step, d_model, warmup_steps: (
         d_model**-0.5 * min(warmup_steps**-0.5, step * warmup_steps**-1.5)
     ),
     "After the warm-up the rate falls with the root of the step."),
    ("1 / step in place of its root",
     lambda step, d_model, warmup_steps: (d_model**-0.5 * min(1 / step, step * warmup_steps**-1.5)),
     "The exponent of the step is -0.5, not -1."),
    ("the step under the exponent of warmup_steps",
     lambda step, d_model, warmup_steps: (
         d_model**-0.5 * min(step**-0.5, (step * warmup_steps) ** -1.5)
     ),
     "Only warmup_steps has the exponent -1.5. The step itself is multiplied with it."),
    ("in proportion to 1 / step after the warm-up",
     lambda step, d_model, warmup_steps: (
         d_model**-0.5 * min(warmup_steps**0.5 / step, step * warmup_steps**-1.5)
     ),
     "After the warm-up the rate falls with the root of the step, not with the step itself."),
)  # fmt: skip

# 12.4 one update of Adam

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


def adam_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(124)
    cases = []
    for shape, t, numbers in (
        ((3,), 1, (0.1, 0.9, 0.98, 0.5)),
        ((2, 2), 2, (0.02, 0.7, 0.9, 0.3)),
        ((4,), 5, (0.3, 0.8, 0.95, 0.2)),
        ((1, 2), 3, (0.1, 0.6, 0.9, 0.4)),
    ):
        theta, g, m = (torch.randn(shape, generator=draw) for _ in range(3))
        v = torch.rand(shape, generator=draw) + 0.1
        if t == 1:
            m, v = torch.zeros(shape), torch.zeros(shape)
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


def _g_itself(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    _, m, v = adam_update(theta, g, m, v, t, rate, beta_1, beta_2, eps)
    return theta - rate * g / ((v / (1 - beta_2**t)).sqrt() + eps), m, v


def _rate_left_out(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    return adam_update(theta, g, m, v, t, 1.0, beta_1, beta_2, eps)


def _exchanged(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    return adam_update(theta, g, m, v, t, rate, beta_2, beta_1, eps)


def _previous(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    return adam_update(theta, g, m, v, t + 1, rate, beta_1, beta_2, eps)


def _order(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    theta, m, v = adam_update(theta, g, m, v, t, rate, beta_1, beta_2, eps)
    return theta, v, m


def _old_state(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    return adam_update(theta, g, m, v, t, rate, beta_1, beta_2, eps)[0], m, v


ADAM_MISTAKES = mistakes(
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
    ("no root", _adam(step=lambda m, v, eps: m / (v + eps)),
     "v is an average of squares: its root has the size of a gradient."),
    ("betas exchanged", _exchanged,
     "beta_1 belongs to m, the average of the gradients, and beta_2 to v."),
    ("the gradient not squared", _adam(new_v=lambda v, g, b: b * v + (1 - b) * g.abs()),
     "v is the average of the squares of the gradients, not of their sizes."),
    ("v an average of the gradients", _adam(new_v=lambda v, g, b: b * v + (1 - b) * g),
     "v is the average of the squares of the gradients."),
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
)  # fmt: skip

# 12.5 the gradient of several batches


def merged(gradients: list[Tensor], tokens: list[int]) -> Tensor:
    total = sum(g * n for g, n in zip(gradients, tokens, strict=True))
    return total / sum(tokens)


def merge_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(125)
    return [
        ([torch.randn(3, generator=draw) for _ in range(2)], [2, 8]),
        ([torch.randn(2, 2, generator=draw) for _ in range(3)], [5, 1, 3]),
        ([torch.randn(2, generator=draw)], [4]),
        ([torch.randn(1, 2, generator=draw) for _ in range(2)], [3, 5]),
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
    ("the first batch only", lambda gradients, tokens: gradients[0],
     "All batches make one update together."),
    ("divided by the largest number of tokens",
     lambda gradients, tokens: merged(gradients, tokens) * sum(tokens) / max(tokens),
     "The mean is over all tokens: divide by the sum of their numbers."),
    ("divided by the mean number of tokens twice",
     lambda gradients, tokens: merged(gradients, tokens) / (sum(tokens) / len(tokens)),
     "One division by the number of all tokens is enough."),
    ("weighed, and not added up",
     lambda gradients, tokens: [
         g * n / sum(tokens) for g, n in zip(gradients, tokens, strict=True)
     ],
     "Each batch has its right weight. Add them up: one gradient is asked for."),
    ("the sum of the means over the mean number of tokens",
     lambda gradients, tokens: sum(gradients) / (sum(tokens) / len(tokens)),
     "The gradients are those of means already. Multiply each by its tokens, and divide the sum by "
     "all tokens."),
    ("weighed with the tokens of the other batches",
     lambda gradients, tokens: (
         sum(g * (sum(tokens) - n) for g, n in zip(gradients, tokens, strict=True)) / sum(tokens)
     ),
     "A batch with more tokens weighs more. Here it is the other way round."),
)  # fmt: skip

# 12.6 clipping


def clipped(gradients: list[Tensor], max_norm: float) -> tuple[list[Tensor], float]:
    norm = math.sqrt(sum(float((g**2).sum()) for g in gradients))
    return [g * min(1.0, max_norm / norm) for g in gradients], norm


def clip_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(126)
    return [
        ([torch.randn(2, 3, generator=draw) * 3, torch.randn(3, generator=draw)], 1.5),
        ([torch.randn(2, generator=draw), torch.randn(2, 2, generator=draw) * 4], 2.0),
        ([torch.randn(3, generator=draw) * 0.2, torch.randn(1, 2, generator=draw) * 0.1], 0.9),
    ]


def whole_pair(output: tuple) -> tuple:
    """One flat list and a number: tuple or list, tensors or lists."""
    gradients, norm = output
    return [torch.as_tensor(g).tolist() for g in gradients], float(norm)


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


CLIP_MISTAKES = mistakes(
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

# 12.7 the mean of checkpoints

States = list[dict[str, Tensor]]


def averaged(states: States) -> dict[str, Tensor]:
    return {name: sum(state[name] for state in states) / len(states) for name in states[0]}


def state_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(127)

    def state() -> dict[str, Tensor]:
        return {
            "matrix": torch.randn(2, 3, generator=draw),
            "bias": torch.randn(3, generator=draw),
        }

    return [([state() for _ in range(n)],) for n in (3, 4, 1)]


def _entrywise(
    merge: Callable[[list[Tensor]], Tensor],
) -> Callable[[States], dict[str, Tensor]]:
    return lambda states: {name: merge([state[name] for state in states]) for name in states[0]}


def _halves(tensors: list[Tensor]) -> Tensor:
    mean = tensors[0]
    for tensor in tensors[1:]:
        mean = (mean + tensor) / 2
    return mean


STATE_MISTAKES = mistakes(
    ("not divided", _entrywise(sum),
     "The sum of n models has weights n times as large. Divide by their number."),
    ("the mean of the mean so far and the next", _entrywise(_halves),
     "Halving again and again gives the last checkpoint the weight 1/2, the one before 1/4. All "
     "should weigh the same."),
    ("the first counted twice",
     _entrywise(lambda tensors: (tensors[0] + sum(tensors)) / len(tensors)),
     "The sum began with the first checkpoint and then took it in once more."),
    ("the first counted twice, divided by one more",
     _entrywise(lambda tensors: (tensors[0] + sum(tensors)) / (len(tensors) + 1)),
     "The sum began with the first checkpoint and then took it in once more."),
    ("the first left out",
     _entrywise(lambda tensors: sum(tensors[1:], torch.zeros_like(tensors[0])) / len(tensors)),
     "The sum leaves the first checkpoint out."),
    ("the first left out, divided by one less",
     _entrywise(
         lambda tensors: sum(tensors[1:]) / (len(tensors) - 1) if tensors[1:] else tensors[0]
     ),
     "The mean leaves the first checkpoint out."),
    ("the last one", _entrywise(lambda tensors: tensors[-1]),
     "This is the last checkpoint. If you saved `state_dict()` without a copy, all of them are."),
    ("the first one", _entrywise(lambda tensors: tensors[0]),
     "This is the first checkpoint. All are to be averaged."),
    ("divided by one less", _entrywise(lambda tensors: sum(tensors) / max(1, len(tensors) - 1)),
     "A mean of n divides by n. (n - 1 is for variances.)"),
    ("divided by one more", _entrywise(lambda tensors: sum(tensors) / (len(tensors) + 1)),
     "A mean of n checkpoints divides by n, and not by n + 1."),
    ("divided by the paper's five", _entrywise(lambda tensors: sum(tensors) / 5),
     "Divide by the number of checkpoints that are given."),
    ("the mean of the first and the last",
     _entrywise(lambda tensors: (tensors[0] + tensors[-1]) / 2),
     "All checkpoints are to be averaged, those between as well."),
    ("divided by two", _entrywise(lambda tensors: sum(tensors) / 2),
     "Divide by the number of checkpoints."),
    ("the median", _entrywise(lambda tensors: torch.stack(tensors).median(0).values),
     "The mean is asked for: the sum divided by the number."),
    ("one number for each name", _entrywise(lambda tensors: torch.stack(tensors).mean()),
     "`mean()` without an axis runs over all entries. Average over the checkpoints only."),
    ("averaged along the rows", _entrywise(lambda tensors: torch.stack(tensors).mean(-1)),
     "The mean runs over the checkpoints, entry by entry; the shapes stay."),
    ("a list in place of a dict", lambda states: list(averaged(states).values()),
     "The result is to be loaded into a model: a dict with the same names."),
)  # fmt: skip


def _same_direction(clipped_ones: list, gradients: list[Tensor]) -> bool:
    after = torch.cat([torch.as_tensor(g).float().flatten() for g in clipped_ones])
    before = torch.cat([g.flatten() for g in gradients])
    return float(F.cosine_similarity(after, before, dim=0)) > 0.999


EXERCISES = [
    Exercise(
        number="12.1",
        title="inputs and labels",
        section="What is asked at each place",
        reference=inputs_and_labels,
        cases=shift_cases,
        canonical=without_idle_inputs,
        mistakes=SHIFT_MISTAKES,
    ),
    Exercise(
        number="12.2",
        title="label smoothing",
        section="Label smoothing",
        reference=smoothed_loss,
        cases=loss_cases,
        mistakes=LOSS_MISTAKES,
        invariants=[
            Invariant(
                "a cross-entropy is positive",
                lambda output, *case: float(output) > 0,
                "Logarithms of probabilities are negative, and the loss has a minus before them.",
            )
        ],
    ),
    Exercise(
        number="12.3",
        title="the schedule",
        section="The rate rises, then falls",
        reference=rate,
        cases=RATE_CASES,
        mistakes=RATE_MISTAKES,
        atol=0.0,
    ),
    Exercise(
        number="12.4",
        title="one update of Adam",
        section="Adam",
        reference=adam_update,
        cases=adam_cases,
        mistakes=ADAM_MISTAKES,
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
        title="clipping",
        section="Gradients that are too long",
        reference=clipped,
        cases=clip_cases,
        canonical=whole_pair,
        mistakes=CLIP_MISTAKES,
        invariants=[
            Invariant(
                "no gradient turns",
                lambda output, gradients, max_norm: _same_direction(output[0], gradients),
                "Clipping multiplies all entries by one factor, so the direction stays.",
            )
        ],
    ),
    Exercise(
        number="12.7",
        title="the mean of checkpoints",
        section="The mean of the last checkpoints",
        reference=averaged,
        cases=state_cases,
        mistakes=STATE_MISTAKES,
    ),
]
