"""The exercises of chapter 13, decoding: references, cases, mistakes."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor, nn

from .core import Exercise, Invariant, mistakes

# 13.1 without dropout


def without_dropout(model: nn.Module, x: Tensor) -> Tensor:
    before = model.training
    model.eval()
    with torch.no_grad():
        y = model(x)
    model.train(before)
    return y


def dropout_cases() -> list[tuple]:
    with torch.random.fork_rng():
        torch.manual_seed(131)
        models = [
            nn.Sequential(nn.Linear(4, 6), nn.Dropout(p), nn.Linear(6, 3)) for p in (0.5, 0.3)
        ]
        nested = nn.Sequential(nn.Linear(4, 6), nn.Sequential(nn.Dropout(0.4), nn.Linear(6, 3)))
        return [
            (models[0].train(), torch.randn(2, 4)),
            (models[1].eval(), torch.randn(3, 4)),
            (nested.train(), torch.randn(2, 4)),
        ]


def _read(answer: Callable, model: nn.Module, x: Tensor) -> dict:
    """What the answer gives, and what it leaves behind; dropout is the same in every call."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        y = answer(model, x)
    found = {
        "output": y.detach() if isinstance(y, Tensor) else y,
        "gradients": isinstance(y, Tensor) and y.requires_grad,
        "training": [part.training for part in model.modules()],
        "dropout": [part.p for part in model.modules() if isinstance(part, nn.Dropout)],
        "learning": torch.is_grad_enabled() and all(w.requires_grad for w in model.parameters()),
    }
    torch.set_grad_enabled(True)
    return found


def _reader(mode: bool | None, after: str, gradients: bool = False) -> Callable:
    def wrong(model: nn.Module, x: Tensor) -> Tensor:
        before = model.training
        if mode is not None:
            model.train(mode)
        with torch.set_grad_enabled(gradients):
            y = model(x)
        if after == "alone":
            model.training = before
        elif after != "leave":
            modes = {"restore": before, "train": True, "opposite": not before, "eval": False}
            model.train(modes[after])
        return y

    return wrong


def _without_p(model: nn.Module, x: Tensor) -> Tensor:
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    with torch.no_grad():
        return model(x)


def _frozen(model: nn.Module, x: Tensor) -> Tensor:
    model.requires_grad_(False)
    return _reader(False, "restore", gradients=True)(model, x)


DROPOUT_MISTAKES = mistakes(
    ("the mode not changed", _reader(None, "leave"),
     "A model in training mode still drops numbers at random. `no_grad` does not change that: "
     "`model.eval()` does."),
    ("the mode not changed, and gradients kept", _reader(None, "leave", gradients=True),
     "This calls the model as it is. In training mode its dropout is on."),
    ("left in evaluation mode", _reader(False, "leave"),
     "The output is right, but who was training goes on without dropout and does not know it. Put "
     "the mode back."),
    ("left in evaluation mode, and gradients kept", _reader(False, "leave", gradients=True),
     "The mode is not put back, and `torch.no_grad()` is missing."),
    ("put into training mode at the end, whatever was before", _reader(False, "train"),
     "A model that was in evaluation mode should be in evaluation mode afterwards. Remember "
     "`model.training` before you change it."),
    ("put into training mode at the end, and gradients kept",
     _reader(False, "train", gradients=True),
     "Two things: put back the mode that was there before, and use `torch.no_grad()`."),
    ("gradients kept", _reader(False, "restore", gradients=True),
     "Output and mode are right. Without `torch.no_grad()` PyTorch keeps all that a backward pass "
     "would need."),
    ("training mode in place of evaluation mode", _reader(True, "restore"),
     "`model.train()` switches dropout on. `model.eval()` switches it off."),
    ("training mode, and left in it", _reader(True, "leave"),
     "`model.train()` switches dropout on. `model.eval()` switches it off."),
    ("the opposite of the mode that was before", _reader(False, "opposite"),
     "Afterwards the model should be in the mode it was in, not in the other one."),
    ("evaluation mode only after the call", _reader(None, "eval"),
     "When `model.eval()` comes, the output has been computed already, with dropout. And the mode "
     "is not put back."),
    ("the mode of the parts not put back", _reader(False, "alone"),
     "`model.eval()` changes the mode of every part, `model.training = ...` only that of the "
     "outermost. `model.train(mode)` reaches all."),
    ("dropout taken out for good", _without_p,
     "The output is right, but the model has lost its dropout and will train without it. A mode "
     "can be put back."),
    ("the weights frozen for good", _frozen,
     "Without `requires_grad` the model cannot learn any more. `torch.no_grad()` holds for the "
     "lines inside only."),
)  # fmt: skip

# 13.2 greedy with a state


class Speaker:
    """A decoder with a memory: log-probabilities that depend on all tokens it was handed."""

    def __init__(self, seed: int, size: int, eos: int, end: int | None):
        self.seed, self.size, self.eos, self.end = seed, size, eos, end

    def __call__(self, token: int, state: tuple | None) -> tuple[list[float], tuple]:
        seen = (*(state or ()), int(token))
        draw = random.Random(f"{self.seed}/{seen}")
        scores = [draw.random() * 3 for _ in range(self.size)]
        ends = self.end is not None and len(seen) > self.end and self.eos not in seen
        scores[self.eos] = 9.0 if ends else -1.0  # whoever asks on after the end hears more
        total = math.log(sum(map(math.exp, scores)))
        return [score - total for score in scores], seen


def greedy_cases() -> list[tuple]:
    return [
        (Speaker(1, 9, 3, 5), 2, 3, 12),
        (Speaker(2, 9, 6, None), 7, 6, 5),
        (Speaker(3, 8, 1, 0), 5, 1, 4),
        (Speaker(4, 10, 4, 3), 8, 4, 3),
        (Speaker(5, 10, 4, 3), 8, 4, 4),
    ]


def _greedy(
    first: str = "bos",
    pick: Callable = max,
    state: bool = True,
    token: bool = True,
    extra: int = 0,
    keep_eos: bool = False,
    keep_first: bool = False,
    stop: bool = True,
    end: int | None = None,
    once: bool = False,
    numbers: bool = False,
) -> Callable:
    def answer(step: Callable, bos: int, eos: int, max_length: int) -> list:
        begin = {"bos": bos, "eos": eos, "zero": 0, "chapter": 2}[first]
        eos = eos if end is None else end
        newest, memory, ids = begin, None, []
        for _ in range(max_length + extra):
            log_p, after = step(newest, memory)
            best = log_p.index(pick(log_p))
            if best == eos and stop:
                if keep_eos:
                    ids.append(best)
                break
            ids.append(max(log_p) if numbers else best)
            memory = after if state and (memory is None or not once) else memory
            newest = best if token else begin
        return [begin, *ids] if keep_first else ids

    return answer


def _strikes_eos(step: Callable, bos: int, eos: int, max_length: int) -> list[int]:
    ids = _greedy(stop=False)(step, bos, eos, max_length)
    return [i for i in ids if i != eos]


def _tokens(ids: object) -> list:
    """Numbers, whole ones as integers."""
    return [int(i) if float(i).is_integer() else float(i) for i in ids]


greedy_with_state = _greedy()
GREEDY_MISTAKES = mistakes(
    ("`eos` kept in the result", _greedy(keep_eos=True),
     "`eos` says that the sentence is over. It is no part of it."),
    ("`bos` kept in the result", _greedy(keep_first=True),
     "`bos` is what the decoder is begun with. It is no part of the sentence."),
    ("`bos` and `eos` kept in the result", _greedy(keep_first=True, keep_eos=True),
     "The result has the tokens between the two, and neither of them."),
    ("begun with eos", _greedy("eos"),
     "The decoder was trained to begin with `bos`. From another token it writes something else."),
    ("begun with token 0", _greedy("zero"),
     "The first token is `bos`, whose id is given. 0 is something else, often the padding."),
    ("the state thrown away", _greedy(state=False),
     "`step` returns a state, its key-value cache. Hand it back at the next call, or the decoder "
     "forgets all but the newest token."),
    ("`bos` handed in at every step", _greedy(token=False),
     "After the first step the decoder reads what it has said itself: hand the newest token in."),
    ("one token too many", _greedy(extra=1), "At most `max_length` tokens are returned."),
    ("one token too few", _greedy(extra=-1),
     "`max_length` tokens are allowed, `bos` and `eos` not counted."),
    ("the least likely token", _greedy(pick=min),
     "Greedy takes the largest of the log-probabilities, the one nearest to zero."),
    ("no stop at eos", _greedy(stop=False),
     "When the likeliest token is `eos`, the sentence is over."),
    ("what follows eos kept", _strikes_eos,
     "It is not enough to strike `eos` out: what a decoder says behind it belongs to no sentence. "
     "Stop there."),
    ("the state of the first step handed in again and again", _greedy(once=True),
     "Each call returns a new state. The next call needs the newest."),
    ("the chapter's `EOS` in place of `eos`", _greedy(end=3),
     "The sentence ends at the argument `eos`, which need not be 3."),
    ("the chapter's `BOS` in place of `bos`", _greedy("chapter"),
     "The first token is the argument `bos`, which need not be 2."),
    ("log-probabilities in place of tokens", _greedy(numbers=True),
     "The token is the place of the largest log-probability, not its value."),
)  # fmt: skip

# 13.3 the score of a translation


def translation_score(logits: Tensor, ids: Tensor, alpha: float) -> Tensor:
    log_p = logits.log_softmax(-1).gather(1, ids[:, None]).sum()
    return log_p / ((5 + len(ids)) / 6) ** alpha


def score_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(133)
    return [
        (
            2 * torch.randn(t, v, generator=draw),
            torch.randint(0, v, (t,), generator=draw),
            alpha,
        )
        for t, v, alpha in ((4, 6, 0.6), (7, 5, 1.0), (3, 4, 0.3), (6, 5, 0.0))
    ]


def _picked(logits: Tensor, ids: Tensor) -> Tensor:
    return logits.gather(1, torch.as_tensor(ids)[:, None])[:, 0]


def _log_p(logits: Tensor, ids: Tensor) -> Tensor:
    return _picked(logits.log_softmax(-1), ids).sum()


def _lp(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


SCORE_MISTAKES = mistakes(
    ("softmax twice",
     lambda logits, ids, a: (
         _picked(logits.softmax(-1).log_softmax(-1), ids).sum() / _lp(len(ids), a)
     ),
     "`log_softmax` takes logits. Of probabilities it makes something nearly flat."),
    ("logits in place of log-probabilities",
     lambda logits, ids, a: _picked(logits, ids).sum() / _lp(len(ids), a),
     "Logits are log-probabilities up to a number that differs from row to row: take `log_softmax` "
     "first."),
    ("probabilities added",
     lambda logits, ids, a: _picked(logits.softmax(-1), ids).sum() / _lp(len(ids), a),
     "Probabilities are multiplied. It is their logarithms that are added."),
    ("no logarithm", lambda logits, ids, a: _log_p(logits, ids).exp() / _lp(len(ids), a),
     "The score divides log P, not P."),
    ("the largest logits in place of the ids' own",
     lambda logits, ids, a: logits.log_softmax(-1).amax(-1).sum() / _lp(len(ids), a),
     "The score is that of the given `ids`, whether they are the likeliest or not."),
    ("the softmax over the positions",
     lambda logits, ids, a: _picked(logits.log_softmax(0), ids).sum() / _lp(len(ids), a),
     "The probabilities of one position sum to one over the vocabulary: the last axis."),
    ("multiplied by the penalty", lambda logits, ids, a: _log_p(logits, ids) * _lp(len(ids), a),
     "Log P is negative. To forgive length it is divided by the penalty, which is above 1."),
    ("no length penalty", lambda logits, ids, a: _log_p(logits, ids),
     "This is log P. Divide it by the length penalty."),
    ("the mean for each token", lambda logits, ids, a: _log_p(logits, ids) / len(ids),
     "The penalty is ((5 + length) / 6) to the power of alpha, not the length."),
    ("the mean for each token, and the penalty too",
     lambda logits, ids, a: _log_p(logits, ids) / len(ids) / _lp(len(ids), a),
     "Log P is the sum over the tokens, as in equation (13.1), and it is divided once, by the "
     "penalty."),
    ("0.6 whatever alpha is", lambda logits, ids, a: _log_p(logits, ids) / _lp(len(ids), 0.6),
     "The exponent is the argument `alpha`."),
    ("divided by 5 in place of 6",
     lambda logits, ids, a: _log_p(logits, ids) / ((5 + len(ids)) / 5) ** a,
     "The denominator is 5 + 1, so that a length of 1 has a penalty of 1."),
    ("the size of the vocabulary in place of the length",
     lambda logits, ids, a: _log_p(logits, ids) / _lp(logits.shape[1], a),
     "|Y| is the number of tokens, T: `logits` has T rows and V columns."),
    ("divided by the length to the power of alpha",
     lambda logits, ids, a: _log_p(logits, ids) / len(ids) ** a,
     "This is another penalty, that of some libraries. Wu and others have ((5 + length) / 6) to "
     "the power of alpha."),
    ("the 6 forgotten", lambda logits, ids, a: _log_p(logits, ids) / (5 + len(ids)) ** a,
     "(5 + length) is divided by 5 + 1, so that a length of 1 has a penalty of 1."),
    ("the 6 not raised to the power of alpha",
     lambda logits, ids, a: _log_p(logits, ids) / ((5 + len(ids)) ** a / 6),
     "Both numerator and denominator are raised to the power of alpha."),
    ("alpha as a factor", lambda logits, ids, a: _log_p(logits, ids) / ((5 + len(ids)) / 6 * a),
     "Alpha is an exponent: the quotient is raised to its power."),
    ("`<eos>` not counted in the length",
     lambda logits, ids, a: _log_p(logits, ids) / _lp(len(ids) - 1, a),
     "The last of the ids is `<eos>`, and it counts."),
    ("the length plus one", lambda logits, ids, a: _log_p(logits, ids) / _lp(len(ids) + 1, a),
     "`ids` already holds `<eos>` at its end: its length is |Y|."),
    ("the last token left out",
     lambda logits, ids, a: _log_p(logits[:-1], ids[:-1]) / _lp(len(ids), a),
     "The probability of `<eos>` belongs to the product: a sentence must also end."),
    ("the last token left out, in the length too",
     lambda logits, ids, a: _log_p(logits[:-1], ids[:-1]) / _lp(len(ids) - 1, a),
     "The probability of `<eos>` belongs to the product, and `<eos>` to the length."),
    ("shifted by one", lambda logits, ids, a: _log_p(logits[:-1], ids[1:]) / _lp(len(ids), a),
     "Row t of the logits already speaks of token t of the ids. Nothing is left to shift."),
    ("the sign turned", lambda logits, ids, a: -_log_p(logits, ids) / _lp(len(ids), a),
     "The score is log P over the penalty, below zero: the largest is the best."),
)  # fmt: skip

# 13.4 one step of beam search


def beam_step(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    return _step()(scores, log_p, eos)


def beam_cases() -> list[tuple]:
    """By the rank of the EOS candidates among all: within the first N, in the next N, later."""
    draw = torch.Generator().manual_seed(159)
    cases = []
    for n, v, eos, lift in (
        (3, 6, 2, 0.0),
        (2, 7, 5, 2.5),
        (3, 5, 0, 3.0),
        (4, 8, 3, 1.0),
        (2, 6, 1, -4.0),
        (3, 7, 6, 1.2),
    ):
        logits = 1.2 * torch.randn(n, v, generator=draw)
        logits[:, eos] += lift
        scores = -2 * torch.rand(n, generator=draw).sort().values - 0.5
        cases.append((scores, logits.log_softmax(-1), eos))
    return cases


def _step(
    total: Callable = lambda scores, log_p: scores[:, None] + log_p,
    looked: int = 1,
    eos_open: bool = False,
    among: int | None = None,
    descending: bool = True,
    change: Callable = lambda i, parent, token, score, own: (parent, token, score),
) -> Callable:
    """The step, and its wrong ways: `looked` times N candidates may end the sentence.

    `among`: this many times N are looked through for those that go on, and all of them do.
    `change(i, parent, token, score, own)`: what is returned of the i-th that goes on; of those
    that end, the score alone is changed.
    """

    def answer(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
        n, v = log_p.shape
        sums = total(scores, log_p)
        ranked = [
            (parent, token, sums[parent, token].item()) for parent in range(n) for token in range(v)
        ]
        ranked.sort(key=lambda c: c[2], reverse=descending)
        ended = [c for c in ranked[: n * looked] if c[1] == eos]
        near = ranked[: n * among] if among else ranked
        going = [c for c in near if eos_open or c[1] != eos]
        going = going if among else going[:n]
        told = [
            [change(i, *c, log_p[c[:2]].item()) for i, c in enumerate(some)]
            for some in (ended, going)
        ]
        return [(c[0], new[2]) for c, new in zip(ended, told[0], strict=True)], told[1]

    return answer


def _own_best(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    sums = scores[:, None] + log_p
    best = [(i, int(row.argmax()), row.max().item()) for i, row in enumerate(sums)]
    best.sort(key=lambda c: -c[2])
    return [(i, s) for i, t, s in best if t == eos], [c for c in best if c[1] != eos]


def _own_best_open(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    ended, _ = beam_step(scores, log_p, eos)
    sums = (scores[:, None] + log_p).clone()
    sums[:, eos] = -math.inf
    best = [(i, int(row.argmax()), row.max().item()) for i, row in enumerate(sums)]
    return ended, sorted(best, key=lambda c: -c[2])


def _only_best_parent(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    alone = torch.full_like(scores, -1e9)
    alone[scores.argmax()] = scores.max()
    return beam_step(alone, log_p, eos)


def _divided_by_n(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    n = len(scores)
    top, place = (scores[:, None] + log_p).flatten().topk(2 * n)
    found = [(i // n, i % n, s) for i, s in zip(place.tolist(), top.tolist(), strict=True)]
    ended = [(parent, s) for parent, token, s in found[:n] if token == eos]
    return ended, [c for c in found if c[1] != eos][:n]


def _best_end_only(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    ended, going = beam_step(scores, log_p, eos)
    return ended[:1], going


def _backwards(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    ended, going = beam_step(scores, log_p, eos)
    return ended, going[::-1]


def _in_order(output: object) -> list:
    """The finished in the order of their scores, and tuples, lists and numbers alike."""
    ended, going = output
    ended = sorted(([float(p), float(s)] for p, s in ended), key=lambda c: -c[1])
    return [ended, [[float(x) for x in c] for c in going]]


BEAM_MISTAKES = mistakes(
    ("the scores so far not added", _step(total=lambda scores, log_p: log_p.clone()),
     "A candidate is a whole sentence so far: its score is that of its hypothesis plus the "
     "log-probability of the new token."),
    ("scores multiplied", _step(total=lambda scores, log_p: scores[:, None] * log_p),
     "Logarithms of probabilities are added. (The product of two negative numbers is positive.)"),
    ("probabilities in place of log-probabilities",
     _step(total=lambda scores, log_p: scores[:, None] + log_p.exp()),
     "`log_p` holds logarithms already. Add them as they are."),
    ("softmax once more",
     _step(total=lambda scores, log_p: scores[:, None] + log_p.exp().log_softmax(-1)),
     "`log_p` holds log-probabilities already."),
    ("the worst in place of the best", _step(descending=False),
     "The best score is the largest, the one nearest to zero."),
    ("`eos` goes on", _step(eos_open=True),
     "A sentence that has said `eos` is finished. It must leave the open ones, or it says more "
     "after its end."),
    ("`eos` among the first 2N ends a sentence", _step(looked=2),
     "Only an `eos` among the best N candidates counts. Others would not have been kept either. "
     "Else a beam of 1 would no longer be greedy."),
    ("every eos ends a sentence", _step(looked=1000),
     "Only an `eos` among the best N candidates counts, however unlikely the others are."),
    ("the places of the finished not filled", _step(among=1),
     "N hypotheses go on. Where one of the best N has ended, the next open candidate moves up."),
    ("each hypothesis keeps its own best token", _own_best,
     "All N times V candidates compete. A good hypothesis may go on twice, and a bad one not at "
     "all."),
    ("each hypothesis keeps its own best open token", _own_best_open,
     "All N times V candidates compete. A good hypothesis may go on twice, and a bad one not at "
     "all."),
    ("only the best hypothesis goes on", _only_best_parent,
     "Every hypothesis has candidates, and the best of all candidates are kept."),
    ("parent and token in each other's place",
     _step(change=lambda i, parent, token, score, own: (token, parent, score)),
     "The candidate at the flat place i has the parent i // V and the token i % V, and the parent "
     "comes first."),
    ("the flat place divided by N", _divided_by_n,
     "The flat place i is parent * V + token, since each row has V entries: divide by V."),
    ("the new places in place of the parents",
     _step(change=lambda i, parent, token, score, own: (i, token, score)),
     "`parent` says which of the old hypotheses is continued. The place in the new list is another "
     "number."),
    ("the parent's score without the new token",
     _step(change=lambda i, parent, token, score, own: (parent, token, score - own)),
     "The score of what goes on includes the new token."),
    ("the score of the new token alone",
     _step(change=lambda i, parent, token, score, own: (parent, token, own)),
     "The score of what goes on is that of all its tokens: the parent's, and the new one's."),
    ("more than N go on", _step(among=2),
     "Of the best 2N candidates those without `eos` are N or more. The best N of them go on."),
    ("the worst of those that go on first", _backwards, "The second list begins with the best."),
    ("only the best of those that end", _best_end_only,
     "Every candidate with `eos` among the best N is a finished translation."),
)  # fmt: skip

# 13.5 top-p


def top_p(p: Tensor, threshold: float) -> Tensor:
    values, ids = p.sort(descending=True)
    keep = values.cumsum(0) - values < threshold
    result = torch.zeros_like(p)
    result[ids[keep]] = values[keep]
    return result / result.sum()


def top_p_cases() -> list[tuple]:
    """No partial sum is near the threshold, or all are exact: rounding decides nothing."""
    return [
        (torch.tensor([0.15, 0.5, 0.05, 0.3]), 0.7),
        (torch.tensor([0.06, 0.1, 0.34, 0.2, 0.3]), 0.6),
        (torch.tensor([0.02, 0.9, 0.08]), 0.4),
        (torch.tensor([0.21, 0.19, 0.2, 0.18, 0.22]), 0.95),
        (torch.tensor([0.4, 0.1, 0.26, 0.24]), 0.45),
        (torch.tensor([0.25, 0.125, 0.5, 0.0625, 0.0625]), 0.75),
        (torch.tensor([1.0]), 0.5),
    ]


def _nucleus(keep: Callable, normal: bool = True, descending: bool = True) -> Callable:
    def wrong(p: Tensor, threshold: float) -> Tensor:
        values, ids = p.sort(descending=descending)
        kept = keep(values, threshold)
        result = torch.zeros_like(p)
        result[ids[kept]] = values[kept]
        return result / result.sum() if normal else result

    return wrong


def _right_keep(values: Tensor, threshold: float) -> Tensor:
    return values.cumsum(0) - values < threshold


def _top_p_in_place(p: Tensor, threshold: float) -> Tensor:
    keep = p.cumsum(0) - p < threshold
    return torch.where(keep, p, torch.zeros_like(p)) / p[keep].sum()


def _top_p_unsorted(p: Tensor, threshold: float) -> Tensor:
    values, _ = p.sort(descending=True)
    result = torch.where(_right_keep(values, threshold), values, torch.zeros_like(values))
    return result / result.sum()


def _top_p_wrong_way_back(p: Tensor, threshold: float) -> Tensor:
    values, ids = p.sort(descending=True)
    kept = torch.where(_right_keep(values, threshold), values, torch.zeros_like(values))
    return kept[ids] / kept.sum()


def _one_more(values: Tensor, threshold: float) -> Tensor:
    keep = _right_keep(values, threshold)
    keep[: int(keep.sum()) + 1] = True
    return keep


def _only_first(values: Tensor, threshold: float) -> Tensor:
    keep = values.cumsum(0) <= threshold
    keep[0] = True
    return keep


def _softmaxed(p: Tensor, threshold: float) -> Tensor:
    values, ids = p.sort(descending=True)
    kept = values.clone()
    kept[~_right_keep(values, threshold)] = -math.inf
    return torch.zeros_like(p).scatter(0, ids, kept.softmax(0))


TOP_P_MISTAKES = mistakes(
    ("the token that crosses the line dropped", _nucleus(lambda v, t: v.cumsum(0) <= t),
     "What is kept must together have at least the threshold. The token that crosses it is still "
     "needed. Without it nothing may be left at all."),
    ("the token that reaches the line dropped", _nucleus(lambda v, t: v.cumsum(0) < t),
     "What is kept must together have at least the threshold. The token with which the sum reaches "
     "it is still needed. Without it nothing may be left at all."),
    ("the token that reaches the line dropped, except the first",
     _nucleus(lambda v, t: (v.cumsum(0) < t) | (torch.arange(len(v)) == 0)),
     "What is kept must together have at least the threshold. The token with which the sum reaches "
     "it is still needed, whichever it is."),
    ("more than the threshold, not at least", _nucleus(lambda v, t: v.cumsum(0) - v <= t),
     "Where the sum is exactly the threshold, it has been reached, and nothing more is kept."),
    ("one minus the threshold kept", _nucleus(lambda v, t: v.cumsum(0) - v < 1 - t),
     "What is kept has the threshold. What is dropped has at most the rest."),
    ("the token that crosses the line dropped, except the first", _nucleus(_only_first),
     "What is kept must together have at least the threshold. The token that crosses it is still "
     "needed, whichever it is."),
    ("one token too many", _nucleus(_one_more),
     "As few as possible: as soon as the sum has reached the threshold, no further token is kept."),
    ("not made to sum to one", _nucleus(_right_keep, normal=False),
     "The right tokens are kept. Divide by their sum, so that they are probabilities again."),
    ("each token compared with the threshold by itself", _nucleus(lambda v, t: v >= t),
     "The threshold is for the sum of the likeliest, not for each of them."),
    ("each token compared with one minus the threshold", _nucleus(lambda v, t: v >= 1 - t),
     "The threshold is for the sum of the likeliest, not for each of them."),
    ("summed from the unlikeliest up", _nucleus(_right_keep, descending=False),
     "`sort` goes from small to large unless told otherwise. The sum begins with the likeliest."),
    ("summed in the order of the vocabulary", _top_p_in_place,
     "Sort first: the sum begins with the likeliest, and goes down."),
    ("left in sorted order", _top_p_unsorted,
     "The result must have each probability at its own token. Put them back with the indices that "
     "`sort` returns."),
    ("put back the wrong way round", _top_p_wrong_way_back,
     "`ids[i]` says where the i-th largest came from: `result[ids] = values`. Indexing with "
     "`values[ids]` sorts once more."),
    ("softmax of probabilities", _softmaxed,
     "Softmax takes logits. Probabilities are divided by their sum."),
    ("nothing dropped", lambda p, threshold: p,
     "This is the whole distribution. Only the nucleus is kept."),
    ("the likeliest alone", _nucleus(lambda v, t: torch.arange(len(v)) == 0),
     "This is greedy. Further tokens are kept until the sum reaches the threshold."),
)  # fmt: skip


def _sums_to_one(output: object, p: Tensor, threshold: float) -> bool:
    return bool(abs(float(torch.as_tensor(output).double().sum()) - 1) < 1e-4)


# 13.6 a step with the cache


def cached_step(token, embedding, positions, w_q, w_k, w_v, keys, values):
    return _cached()(token, embedding, positions, w_q, w_k, w_v, keys, values)


def cache_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(136)
    cases = []
    for t, d, d_k, token in ((2, 4, 3, 5), (0, 4, 2, 1), (4, 6, 4, 0)):
        matrices = [torch.randn(d, d_k, generator=draw) / d for _ in range(3)]
        cases.append(
            (
                token,
                torch.randn(7, d, generator=draw),
                torch.randn(9, d, generator=draw),
                *matrices,
                torch.randn(t, d_k, generator=draw),
                torch.randn(t, d_k, generator=draw),
            )
        )
    return cases


def _cached(
    place: Callable | None = lambda t: t,
    scale_up: Callable = lambda d: d**0.5,
    add: bool = True,
    scale: Callable = lambda d, d_k: d_k**0.5,
    see: str = "all",
    store: str = "append",
    swap: bool = False,
    ask: str = "query",
    soft: str = "softmax",
    late: bool = False,
) -> Callable:
    def answer(token, embedding, positions, w_q, w_k, w_v, keys, values):
        d, d_k = w_q.shape
        x = embedding[token] * scale_up(d)
        if add:
            at = place(len(keys)) if place is not None else token
            x = x + positions[at] * (d**0.5 if late else 1)
        q, k, v = x @ w_q, x @ w_k, x @ w_v
        if swap:
            k, v = v, k
        old_keys, old_values = keys, values
        if store == "append":
            keys, values = torch.cat([keys, k[None]]), torch.cat([values, v[None]])
        elif store == "front":
            keys, values = torch.cat([k[None], keys]), torch.cat([v[None], values])
        seen_keys, seen_values = {
            "all": (torch.cat([old_keys, k[None]]), torch.cat([old_values, v[None]])),
            "itself": (k[None], v[None]),
            "old": (old_keys, old_values),
        }[see]
        asked = {"query": q, "key": k}[ask]
        scores = seen_keys @ asked / scale(d, d_k)
        weights = {
            "softmax": scores.softmax(0),
            "none": scores,
            "mean": torch.full_like(scores, 1 / max(1, len(scores))),
        }[soft]
        return weights @ seen_values, keys, values

    return answer


def _values_first(*inputs) -> tuple:
    output, keys, values = cached_step(*inputs)
    return output, values, keys


CACHE_MISTAKES = mistakes(
    ("position 0 for every token", _cached(place=lambda t: 0),
     "The decoder gets one token at a time, but it is not the first of its sentence. Its position "
     "is the number of tokens before it, `len(keys)`."),
    ("the position one too large", _cached(place=lambda t: t + 1),
     "Positions count from 0: with `len(keys)` tokens before it, the new one is at `len(keys)`."),
    ("the position one too small", _cached(place=lambda t: t - 1),
     "`len(keys) - 1` is the position of the last token in the cache. The new one comes after."),
    ("no position", _cached(add=False),
     "The position is added to the embedding, as it was in training."),
    ("the embedding not multiplied by the root of D", _cached(scale_up=lambda d: 1.0),
     "The embedding is multiplied by sqrt(D) before the position is added (section 3.4)."),
    ("the new token does not see itself", _cached(see="old"),
     "A token may attend to all up to itself. Put its key and value into the cache first."),
    ("the new token sees only itself", _cached(see="itself"),
     "The query looks at all keys of the cache and at the new one. This is what the cache is for."),
    ("the cache not extended", _cached(store="none"),
     "The new key and value must be in what is returned, or the next token will not see them."),
    ("the new ones put in front", _cached(store="front"),
     "The output is right, since attention does not mind the order. But the cache should keep the "
     "order of the sentence: row t belongs to token t."),
    ("no division by the root of d_k", _cached(scale=lambda d, d_k: 1.0),
     "Scores are divided by sqrt(d_k), as in equation (1)."),
    ("divided by d_k, not by its root", _cached(scale=lambda d, d_k: d_k),
     "Scores are divided by sqrt(d_k), as in equation (1)."),
    ("divided by the root of D", _cached(scale=lambda d, d_k: d**0.5),
     "Scores are divided by the root of d_k, the number of columns of W^Q, not of D."),
    ("keys and values swapped", _cached(swap=True),
     "Keys come from W^K, values from W^V, and each belongs to its own cache."),
    ("the key asks in place of the query", _cached(ask="key"),
     "What is compared with the keys is the query, x W^Q."),
    ("the plain mean of the values", _cached(soft="mean"),
     "The values are weighted by the softmax of the scores."),
    ("no softmax", _cached(soft="none"),
     "Scores become weights by the softmax: above zero, and their sum is one."),
    ("the position multiplied by the root of D as well", _cached(late=True),
     "Only the embedding is multiplied. The position is added afterwards."),
    ("the embedding multiplied by D, not by its root", _cached(scale_up=lambda d: d),
     "The embedding is multiplied by sqrt(D)."),
    ("the id of the token as its position", _cached(place=None),
     "`token` says which word it is. Where it stands is the number of tokens before it, "
     "`len(keys)`."),
    ("values returned before keys", _values_first, "The order is output, keys, values."),
)  # fmt: skip

# 13.7 BLEU


def ngrams(words: list[str], n: int) -> Counter:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def corpus_bleu(hypotheses: list, references: list) -> float:
    return _bleu()(hypotheses, references)


def bleu_cases() -> list[tuple]:
    first = "the small dog runs over the green grass today".split()
    second = "a man rides a brown horse on the beach".split()
    third = "two women are talking to each other in the park".split()
    return [
        (["a man rides a horse".split()], ["a man rides a brown horse".split()]),
        (
            [
                "the small dog runs over the the green grass".split(),
                "a man rides a brown horse on a beach".split(),
            ],
            [first, second],
        ),
        (
            [
                "two women are talking to each other in the park the park".split(),
                "the man rides a brown horse on a beach today now".split(),
            ],
            [third, second],
        ),
        (
            ["a man rides a brown horse".split(), "the dog runs over the green grass".split()],
            [second, first],
        ),
        (["a dog".split(), "no word of it".split()], [first, second]),
        (["a dog".split(), second[:8]], [first, second]),  # one too short for four words in a row
    ]


def _root(precisions: list[float]) -> float:
    return math.prod(precisions) ** (1 / len(precisions))


def _brevity(c: int, r: int) -> float:
    return 1.0 if c >= r else math.exp(1 - r / c)


def _bleu(
    orders: tuple = (1, 2, 3, 4),
    match: Callable = lambda said, true: sum((said & true).values()),
    size: Callable = lambda said, true: sum(said.values()),
    mean: Callable = _root,
    brevity: Callable = _brevity,
    factor: float = 100.0,
    grams: Callable = ngrams,
    more: int = 0,
) -> Callable:
    def answer(hypotheses: list, references: list) -> float:
        precisions = []
        for n in orders:
            counts = [
                (grams(h, n), grams(r, n)) for h, r in zip(hypotheses, references, strict=True)
            ]
            total = sum(size(*pair) for pair in counts) + more
            right = sum(match(*pair) for pair in counts) + more
            precisions.append(right / total if total else 0.0)
        c, r = sum(map(len, hypotheses)), sum(map(len, references))
        return factor * brevity(c, r) * mean(precisions)

    return answer


def _arithmetic(precisions: list[float]) -> float:
    return sum(precisions) / len(precisions) if all(precisions) else 0.0


def _mean_of_sentences(hypotheses: list, references: list) -> float:
    scores = [_bleu()([h], [r]) for h, r in zip(hypotheses, references, strict=True)]
    return sum(scores) / len(scores)


def _sentence_brevity(hypotheses: list, references: list) -> float:
    penalties = [_brevity(len(h), len(r)) for h, r in zip(hypotheses, references, strict=True)]
    plain = _bleu(brevity=lambda c, r: 1.0)(hypotheses, references)
    return plain * sum(penalties) / len(penalties)


def _mean_precisions(hypotheses: list, references: list) -> float:
    precisions = []
    for n in (1, 2, 3, 4):
        shares = []
        for h, r in zip(hypotheses, references, strict=True):
            said = ngrams(h, n)
            shares.append(sum((said & ngrams(r, n)).values()) / max(1, sum(said.values())))
        precisions.append(sum(shares) / len(shares))
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    return 100 * _brevity(c, r) * _root(precisions)


def _everywhere(hypotheses: list, references: list) -> float:
    """Compared with all references as one text."""
    precisions = []
    for n in (1, 2, 3, 4):
        said = sum((ngrams(h, n) for h in hypotheses), Counter())
        true = sum((ngrams(r, n) for r in references), Counter())
        total = sum(said.values())
        precisions.append(sum((said & true).values()) / total if total else 0.0)
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    return 100 * _brevity(c, r) * _root(precisions)


BLEU_MISTAKES = mistakes(
    ("not clipped",
     _bleu(match=lambda said, true: sum(k for gram, k in said.items() if gram in true)),
     "An n-gram counts at most as often as the reference has it, or repeating one word would be "
     "right every time."),
    ("each different n-gram counted once",
     _bleu(match=lambda said, true: len(said & true), size=lambda said, true: len(said)),
     "N-grams are counted as often as they occur, up to the number in the reference. A set forgets "
     "the number."),
    ("each different match counted once", _bleu(match=lambda said, true: len(said & true)),
     "An n-gram that stands twice in both counts twice."),
    ("recall in place of precision", _bleu(size=lambda said, true: sum(true.values())),
     "The matches are divided by the n-grams of the hypotheses, not by those of the references."),
    ("no brevity penalty", _bleu(brevity=lambda c, r: 1.0),
     "Precision alone rewards saying little: multiply by BP, where c and r are numbers of words, "
     "not of sentences."),
    ("the brevity penalty with r and c swapped", _bleu(brevity=lambda c, r: _brevity(r, c)),
     "It is the short hypothesis that is punished: exp(1 - r / c) if c < r, where c belongs to the "
     "hypotheses."),
    ("the exponential for long hypotheses too", _bleu(brevity=lambda c, r: math.exp(1 - r / c)),
     "BP is never above 1. What is too long is punished by its precisions already."),
    ("the quotient c / r in place of the exponential", _bleu(brevity=lambda c, r: min(1.0, c / r)),
     "The brevity penalty is exp(1 - r / c)."),
    ("the quotient c / r in the exponent",
     _bleu(brevity=lambda c, r: 1.0 if c >= r else math.exp(1 - c / r)),
     "The exponent is 1 - r / c, which is negative for what is too short."),
    ("the brevity penalty of each sentence, averaged", _sentence_brevity,
     "c and r are the lengths of all sentences together: one short sentence is made good by a long "
     "one."),
    ("the mean of the sentences' BLEU", _mean_of_sentences,
     "The counts of all sentences are added before anything is divided. One sentence without a "
     "group of four right would have no BLEU at all."),
    ("the mean of the sentences' precisions", _mean_precisions,
     "The counts of all sentences are added first: sum of matches over sum of n-grams."),
    ("all references put together", _everywhere,
     "Each hypothesis is compared with its own reference. Words of another sentence do not count."),
    ("the arithmetic mean of the precisions", _bleu(mean=_arithmetic),
     "The mean is geometric: the fourth root of the product."),
    ("the arithmetic mean, zeros and all", _bleu(mean=lambda p: sum(p) / len(p)),
     "The mean is geometric: the fourth root of the product. One zero makes it zero."),
    ("precisions of zero left out", _bleu(mean=lambda p: _root([q for q in p if q])),
     "If one of the four precisions is zero, so is the product, and BLEU is 0."),
    ("one added to every count", _bleu(more=1),
     "Equation (13.7) takes the counts as they are, without smoothing."),
    ("the last group of each sentence forgotten",
     _bleu(grams=lambda words, n: ngrams(words[:-1], n)),
     "m words have m - n + 1 groups of n: `range(len(words) - n + 1)`."),
    ("groups cut off at the end counted",
     _bleu(grams=lambda w, n: Counter(tuple(w[i : i + n]) for i in range(len(w)))),
     "A group of n has n words. The last one begins at word m - n + 1 of m, and slices that begin "
     "later are shorter."),
    ("hypotheses and references in each other's place",
     lambda hypotheses, references: _bleu()(references, hypotheses),
     "Precisions are shares of what the hypotheses said, and BP is below 1 where these are short. "
     "Check which of the two is divided by."),
    ("all sentences joined to one",
     lambda hypotheses, references: _bleu()([sum(hypotheses, [])], [sum(references, [])]),
     "Each hypothesis is compared with its own reference, and no group of words reaches from one "
     "sentence into the next."),
    ("the fourth root forgotten", _bleu(mean=math.prod),
     "The product of four precisions is raised to the power of 1/4."),
    ("single words only", _bleu(orders=(1,)),
     "BLEU takes groups of one, two, three and four words."),
    ("groups of up to three words", _bleu(orders=(1, 2, 3)),
     "BLEU takes groups of one, two, three and four words."),
    ("groups of four words only", _bleu(orders=(4,)),
     "BLEU takes groups of one, two, three and four words."),
    ("from 0 to 1", _bleu(factor=1.0), "Everything is right but the factor of 100."),
)  # fmt: skip


def _between_0_and_100(output: object, hypotheses: list, references: list) -> bool:
    return 0 <= float(output) <= 100 + 1e-6


EXERCISES = [
    Exercise(
        number="13.1",
        title="without dropout",
        section="Dropout left on",
        reference=without_dropout,
        cases=dropout_cases,
        mistakes=DROPOUT_MISTAKES,
        probe=_read,
    ),
    Exercise(
        number="13.2",
        title="greedy with a cache",
        section="One token at a time",
        reference=greedy_with_state,
        cases=greedy_cases,
        mistakes=GREEDY_MISTAKES,
        canonical=_tokens,
    ),
    Exercise(
        number="13.3",
        title="the score of a translation",
        section="Long sentences lose",
        reference=translation_score,
        cases=score_cases,
        mistakes=SCORE_MISTAKES,
    ),
    Exercise(
        number="13.4",
        title="one step of a beam",
        section="Beam search",
        reference=beam_step,
        cases=beam_cases,
        mistakes=BEAM_MISTAKES,
        canonical=_in_order,
    ),
    Exercise(
        number="13.5",
        title="top-p",
        section="Sampling",
        reference=top_p,
        cases=top_p_cases,
        mistakes=TOP_P_MISTAKES,
        invariants=[
            Invariant(
                "the probabilities sum to one",
                _sums_to_one,
                "What is kept is divided by its sum, so that one can draw from it.",
            )
        ],
    ),
    Exercise(
        number="13.6",
        title="a step with the cache",
        section="What is computed again and again",
        reference=cached_step,
        cases=cache_cases,
        mistakes=CACHE_MISTAKES,
    ),
    Exercise(
        number="13.7",
        title="BLEU",
        section="BLEU by hand",
        reference=corpus_bleu,
        cases=bleu_cases,
        mistakes=BLEU_MISTAKES,
        invariants=[
            Invariant(
                "a BLEU lies between 0 and 100",
                _between_0_and_100,
                "Precisions and the brevity penalty are at most 1.",
            )
        ],
    ),
]
