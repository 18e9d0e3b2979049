"""The exercises of chapter 13, decoding: references, cases, mistakes."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise, product
from typing import Any

import torch
from torch import Tensor

from .compare import kind
from .core import Case, Exercise, Family, Invariant, lacking, mistakes
from .pairs import combined
from .predictions import booleans
from .suspects import Lack, each, rules, verdicts_on

# 13.1 what greedy decoding notices

CHANGES = (
    (True, "a temperature held to matter",
     "1: divided by 3, the largest logit is still the largest, and greedy decoding asks for "
     "nothing else. Sampling would notice."),
    (True, "padding held to matter",
     "2: the mask gives the columns of padding a weight of exactly zero in every attention to the "
     "source, so that nothing is left of them."),
    (False, "the causal mask held to be idle",
     "3: the last position sees the same with and without the mask. But those before it look at "
     "what came after them, their states in the first layer change, and the last position reads "
     "these in the second."),
    (False, "positions held to be relative",
     "4: a position is a vector that is added, and the decoder has learned that `<bos>` stands at "
     "the first of them. Begun elsewhere it is another input."),
    (True, "the causal mask held to matter in one layer",
     "5: in a single layer keys and values are made of embeddings and positions, which no "
     "attention has touched. What the other positions make of them is read by nobody."),
)  # fmt: skip
unnoticed = [truth for truth, _, _ in CHANGES]


def _doubts(claims: tuple, true_for: str) -> Iterator[tuple[str, list, str]]:
    """Every wrong answer, with what is wrong in it; `true_for`: what True is for."""
    truths = [truth for truth, _, _ in claims]
    turned = "all five the other way round"
    yield turned, [not truth for truth in truths], f"{true_for} Is your list turned round?"
    for wrong in product((False, True), repeat=len(claims)):
        if any(wrong) and not all(wrong):
            told = [claim for claim, is_wrong in zip(claims, wrong, strict=True) if is_wrong]
            answer = [
                truth != is_wrong for (truth, _, _), is_wrong in zip(claims, wrong, strict=True)
            ]
            name = ", and ".join(name for _, name, _ in told)
            yield name, answer, " ".join(why for _, _, why in told)
    numbers = [number for number, truth in enumerate(truths, 1) if truth]
    yield (
        "the numbers of those that are true",
        numbers,
        "The numbers are right. Asked for are five booleans, one for each: [True, ...].",
    )


# 13.2 greedy with a state


class Speaker:
    """A decoder with a memory: log-probabilities that depend on all tokens it was handed."""

    def __init__(self, seed: int, size: int, eos: int, end: int | None):
        self.seed, self.size, self.eos, self.end = seed, size, eos, end

    def __repr__(self) -> str:
        return f"a decoder with a cache, of {self.size} tokens"

    def __call__(self, token: int, state: tuple | None) -> tuple[list[float], tuple]:
        if isinstance(token, list | tuple):
            raise TypeError("step reads one token, the newest, and was handed several of them")
        begun = () if state is None else state or ("nothing",)  # an empty one is no None
        seen = (*begun, int(token))
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
        (Speaker(6, 9, 3, None), 2, 3, 1),
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
    refed: bool = False,
    blank: bool = False,
    pad: bool = False,
    eos_out: bool = False,
    out: Callable = lambda bos, ids: [],
) -> Callable:
    """Greedy decoding, right by default. `out(bos, ids)`: the tokens that may not be said."""

    def answer(step: Callable, bos: int, eos: int, max_length: int) -> list:
        begin = {"bos": bos, "eos": eos, "zero": 0, "one": 1, "chapter": 2}[first]
        eos = eos if end is None else end
        newest, memory, ids = begin, () if blank else None, []
        for _ in range(max_length + extra):
            log_p, after = step(newest, memory)
            if eos_out:
                log_p = [*log_p[:eos], -math.inf, *log_p[eos + 1 :]]
            shut = out(bos, ids)
            log_p = [-math.inf if i in shut else one for i, one in enumerate(log_p)]
            best = log_p.index(pick(log_p))
            if (best == eos and stop) or (pad and best == 0):
                if keep_eos:
                    ids.append(best)
                break
            ids.append(max(log_p) if numbers else best)
            memory = after if state and (memory is None or not once) else memory
            newest = ids[0] if refed else best if token else begin
        return [begin, *ids] if keep_first else ids

    return answer


def _strikes_eos(step: Callable, bos: int, eos: int, max_length: int) -> list[int]:
    ids = _greedy(stop=False)(step, bos, eos, max_length)
    return [i for i in ids if i != eos]


def _drawn_at_random(step: Callable, bos: int, eos: int, max_length: int) -> list[int]:
    newest, memory, ids, draw = bos, None, [], random.Random(0)
    while len(ids) < max_length:
        log_p, memory = step(newest, memory)
        (newest,) = draw.choices(range(len(log_p)), map(math.exp, log_p))
        if newest == eos:
            break
        ids.append(newest)
    return ids


def _all_read_again(step: Callable, bos: int, eos: int, max_length: int) -> list[int]:
    memory, ids = None, [bos]
    for _ in range(max_length):
        for token in ids:
            log_p, memory = step(token, memory)
        best = log_p.index(max(log_p))
        if best == eos:
            break
        ids.append(best)
    return ids[1:]


def _with_numbers(step: Callable, bos: int, eos: int, max_length: int) -> list:
    ids = greedy_with_state(step, bos, eos, max_length)
    memory, told = None, []
    for before, token in zip([bos, *ids], ids, strict=False):
        log_p, memory = step(before, memory)
        told.append((token, log_p[token]))
    return told


def _read_twice(step: Callable, bos: int, eos: int, max_length: int) -> list[int]:
    begun = step(bos, None)[1]
    return greedy_with_state(
        lambda token, state: step(token, begun if state is None else state), bos, eos, max_length
    )


def _one_behind(step: Callable, bos: int, eos: int, max_length: int) -> list[int]:
    newest, memory, before, ids = bos, None, None, []
    for _ in range(max_length):
        log_p, after = step(newest, before)
        before, memory = memory, after
        newest = log_p.index(max(log_p))
        if newest == eos:
            break
        ids.append(newest)
    return ids


def _no_repeat(step: Callable, bos: int, eos: int, max_length: int) -> list[int]:
    ids = greedy_with_state(step, bos, eos, max_length)
    again = [i for i, one in enumerate(ids) if one in ids[:i]]
    return ids[: again[0]] if again else ids


NOT_FORBIDDEN = (
    "Here no token is forbidden, as one is in the chapter: the likeliest is taken, whichever it is."
)
GREEDY_SLIPS = [
    ("`eos` kept in the result", {"keep_eos": True}, "`eos` is no part of the sentence."),
    ("`bos` kept in the result", {"keep_first": True}, "`bos` is no part of the sentence."),
    ("begun with eos", {"first": "eos"}, "The first token is `bos`."),
    ("begun with token 0", {"first": "zero"}, "The first token is `bos`."),
    ("the state thrown away", {"state": False}, "Hand the newest state back at the next call."),
    ("`bos` handed in at every step", {"token": False}, "The newest token goes in."),
    ("one token too many", {"extra": 1}, "At most `max_length` tokens are returned."),
    ("one token too few", {"extra": -1}, "`max_length` tokens are allowed."),
    ("the least likely token", {"pick": min}, "Greedy takes the largest."),
    ("no stop at eos", {"stop": False}, "At `eos` the sentence is over."),
    ("`bos` passed over", {"out": lambda bos, ids: [bos]}, NOT_FORBIDDEN),
]  # fmt: skip
GREEDY_BUT = [
    ("`eos` kept in the result", "`bos` kept in the result"),
    ("`bos` kept in the result", "one token too few"),
    ("`eos` kept in the result", "no stop at eos"),
    ("`eos` kept in the result", "begun with eos"),
    ("begun with eos", "no stop at eos"),
    ("begun with eos", "the least likely token"),  # nothing comes
    ("the state thrown away", "`bos` passed over"),
]


def _tokens(ids: object) -> list:
    """Numbers, whole ones as integers."""
    if any(isinstance(i, list | tuple) for i in ids):
        return ids
    return [int(i) if float(i).is_integer() else float(i) for i in ids]


greedy_with_state = _greedy()


def _never_empty(step: Callable, bos: int, eos: int, max_length: int) -> list[int]:
    found: list[int] = []
    token, state = bos, None
    while len(found) < max_length:
        scores, state = step(token, state)
        ids = [i for i in range(len(scores)) if found or i != eos]
        token = max(ids, key=lambda i: scores[i])
        if token == eos:
            break
        found.append(token)
    return found


def _one_token_late(step: Callable, bos: int, eos: int, max_length: int) -> list[int]:
    ids, token, state = [], bos, None
    for _ in range(max_length):
        log_p, state = step(token, state)
        token = ids[-1] if ids else bos
        newest = log_p.index(max(log_p))
        if newest == eos:
            break
        ids.append(newest)
    return ids


GREEDY_MISTAKES = mistakes(
    ("nothing written", lambda step, bos, eos, max_length: [],
     "Each step gives the scores of the next token: take the highest and go on, up to `eos` or "
     "max_length."),
    ("`eos` kept in the result", _greedy(keep_eos=True),
     "`eos` says that the sentence is over. It is no part of it."),
    ("`bos` kept in the result", _greedy(keep_first=True),
     "`bos` is what the decoder is begun with. It is no part of the sentence."),
    ("the last token dropped",
     lambda step, bos, eos, max_length: greedy_with_state(step, bos, eos, max_length)[:-1],
     "The last token is dropped although it is not `eos`. Only `eos` stays out."),
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
    ("a stop at bos in place of eos",
     lambda step, bos, eos, max_length: greedy_with_state(step, bos, bos, max_length),
     "`eos` says that the sentence is over; `bos` only begins it."),
    ("one token too many", _greedy(extra=1), "At most `max_length` tokens are returned."),
    ("one token too few", _greedy(extra=-1),
     "`max_length` tokens are allowed, `bos` and `eos` not counted. (Where the limit ends the "
     "sentence, the last token is no `eos`, and stays.)"),
    ("`bos` kept in the result, and counted", _greedy(keep_first=True, extra=-1),
     "`bos` is no part of the sentence, and `max_length` counts without it."),
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
    ("the first state, and `bos`, handed in again and again", _greedy(once=True, token=False),
     "Each call needs the newest token and the newest state."),
    ("tokens with their log-probabilities", _with_numbers,
     "The tokens are right. They alone are asked for, a list of numbers."),
    ("`bos` read twice", _read_twice,
     "`bos` was read before the loop, and goes in once more at its first step."),
    ("begun with token 1", _greedy("one"),
     "The first token is `bos`, whose id is given. 1 is something else here."),
    ("a stop at token 2", _greedy(end=2),
     "The sentence ends at the argument `eos`, which need not be 2."),
    ("a stop at token 1", _greedy(end=1),
     "The sentence ends at the argument `eos`, which need not be 1."),
    ("log-probabilities in place of tokens", _greedy(numbers=True),
     "The token is the place of the largest log-probability, not its value."),
    ("the first token handed in again and again", _greedy(refed=True),
     "The newest token goes in, not the first that was written."),
    ("the second best token", _greedy(pick=lambda log_p: sorted(log_p)[-2]),
     "Greedy takes the largest of the log-probabilities, the one nearest to zero."),
    ("begun with an empty state", _greedy(blank=True),
     "At the first call the state is `None`, as the task says. What a decoder makes of another one "
     "is its own affair."),
    ("the first token alone",
     lambda step, bos, eos, max_length: greedy_with_state(step, bos, eos, max_length)[:1],
     "Go on until `eos`, or until there are `max_length` tokens."),
    ("all that was written read again at each step", _all_read_again,
     "The state holds what was read. Hand in the newest token alone."),
    ("the state one step behind", _one_behind,
     "Each call returns a new state. The next call needs that one, not the one before."),
    ("a stop at a token that was said before", _no_repeat,
     "Only `eos` ends the sentence. A token may come again."),
    ("a stop at token 0, too", _greedy(pad=True),
     "Only `eos` ends the sentence. Which token 0 is, nobody has said."),
    ("`eos` passed over", _greedy(eos_out=True),
     "When the likeliest token is `eos`, the sentence is over: it is not to be passed over."),
    *(
        (f"{name} passed over", _greedy(out=out), NOT_FORBIDDEN)
        for name, out in (
            ("`bos`", lambda bos, ids: [bos]),
            ("token 0", lambda bos, ids: [0]),
            ("the chapter's `BOS`", lambda bos, ids: [2]),
            ("token 0 and `bos`", lambda bos, ids: [0, bos]),
            ("what was said before", lambda bos, ids: ids),
            ("the newest token", lambda bos, ids: ids[-1:]),
        )
    ),
    ("the first log-probabilities", lambda step, bos, eos, max_length: step(bos, None)[0],
     "The likeliest of them is the first token. Go on with it until `eos`."),
    *combined(_greedy, GREEDY_SLIPS, but=GREEDY_BUT),
    ("drawn, not the likeliest", _drawn_at_random,
     "Greedy decoding draws nothing: it takes the largest of the log-probabilities."),
    ("no `eos` as the first token", _never_empty,
     "If the likeliest token is `eos` at once, the sentence is empty."),
    ("the token before the newest handed in", _one_token_late,
     "Each step reads the newest token, the one that the step before has chosen."),
    ("filled up to the limit with `eos`",
     lambda step, bos, eos, max_length: (
         (ids := greedy_with_state(step, bos, eos, max_length)) + [eos] * (max_length - len(ids))
     ),
     "The list ends where the sentence ends, and `eos` is not in it."),
)  # fmt: skip


def _lp(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


# 13.4 one step of beam search


def beam_step(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    return _step()(scores, log_p, eos)


def beam_cases() -> list[tuple]:
    """By the rank of the EOS candidates among all: within the first N, in the next N, later."""
    draw = torch.Generator().manual_seed(159)
    far = torch.tensor([[0.4, 0.3, 0.2, 0.1], [0.12, 0.2, 0.6, 0.08]]).log()
    cases = [
        (torch.tensor([-1.0, -2.0]), torch.tensor([[-0.5, -1.0], [-3.0, -0.1]]), 0),
        (torch.tensor([-0.7, -4.0]), far, 1),  # all that is kept has one parent
        # EOS is number N + 1
        (torch.tensor([-1.0, -2.0]), torch.tensor([[0.5, 0.3, 0.2], [0.4, 0.35, 0.25]]).log(), 2),
    ]
    cases.append((torch.tensor([-0.5]), torch.tensor([[0.6, 0.3, 0.1]]).log(), 0))
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


def _best_may_end(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    ended, going = beam_step(scores, log_p, eos)
    return [one for one in ended if one[1] >= float((scores[:, None] + log_p).max()) - 1e-9], going


def _as_they_come(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    n, sums = len(scores), (scores[:, None] + log_p).tolist()
    found = [(i, k, score) for i, row in enumerate(sums) for k, score in enumerate(row)]
    ended = [(i, score) for i, k, score in found[:n] if k == eos]
    return ended, [each for each in found if each[1] != eos][:n]


def _twice_as_many(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    both = scores.repeat(2) - 1e4 * (torch.arange(2 * len(scores)) >= len(scores))
    return beam_step(scores, log_p, eos)[0], beam_step(both, log_p.repeat(2, 1), eos)[1]


def _own_few(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    n = len(scores)
    sums = scores[:, None] + log_p
    own = [(i, k, sums[i, k].item()) for i in range(n) for k in log_p[i].topk(n).indices.tolist()]
    own.sort(key=lambda c: -c[2])
    return [(i, s) for i, k, s in own[:n] if k == eos], [c for c in own if c[1] != eos][:n]


def _normed_again(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    others = log_p.index_fill(1, torch.tensor([eos]), -1e9).log_softmax(-1)
    return beam_step(scores, log_p, eos)[0], beam_step(scores, others, eos)[1]


def _in_order(output: object) -> list:
    """The finished in the order of their scores, and tuples, lists and numbers alike."""
    ended, going = output
    ended = sorted(([float(p), float(s)] for p, s in ended), key=lambda c: -c[1])
    return [ended, [[float(x) for x in c] for c in going]]


def _modulo_n(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    n = len(scores)
    top, place = (scores[:, None] + log_p).flatten().topk(2 * n)
    found = [(i % n, i // n, s) for i, s in zip(place.tolist(), top.tolist(), strict=True)]
    ended = [(parent, s) for parent, token, s in found[:n] if token == eos]
    return ended, [c for c in found if c[1] != eos][:n]


def _quotient_for_the_token(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    (n, v), sums = log_p.shape, (scores[:, None] + log_p).flatten()
    place = sums.argsort(descending=True, stable=True).tolist()
    found = [(i % v, i // v, sums[i].item()) for i in place]
    ended = [(parent, s) for parent, token, s in found[:n] if token == eos]
    return ended, [c for c in found if c[1] != eos][:n]


def _better_than_the_last(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    _, going = beam_step(scores, log_p, eos)
    ends = (scores + log_p[:, eos]).tolist()
    return [(i, s) for i, s in enumerate(ends) if s >= going[-1][2]], going


def _second_n(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    near, going = beam_step(scores, log_p, eos)
    return [c for c in _step(looked=2)(scores, log_p, eos)[0] if c not in near], going


def _quotient_of_2n(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    (n, v), sums = log_p.shape, (scores[:, None] + log_p).flatten()
    top, place = sums.topk(min(2 * n, len(sums)))
    found = [(i % v, i // v, s) for i, s in zip(place.tolist(), top.tolist(), strict=True)]
    ended = [(parent, s) for parent, token, s in found[:n] if token == eos]
    return ended, [c for c in found if c[1] != eos][:n]


def _own_ends(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    n, sums = len(scores), scores[:, None] + log_p
    own = [
        (i, k, sums[i, k].item())
        for i in range(n)
        for k in sums[i].topk(min(n, len(sums[i]))).indices.tolist()
    ]
    going = sorted((c for c in own if c[1] != eos), key=lambda c: -c[2])[:n]
    return [(i, s) for i, k, s in own if k == eos], going


def _each_token_once(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    ended, going = _step(among=1000)(scores, log_p, eos)
    first = {token: one for one in reversed(going) for token in [one[1]]}
    once = sorted(first.values(), key=lambda c: -c[2])
    return beam_step(scores, log_p, eos)[0], once[: len(scores)]


def _as_many_fewer(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    ended, _ = _step(looked=2)(scores, log_p, eos)
    return ended, beam_step(scores, log_p, eos)[1][: len(scores) - len(ended)]


BEAM_SLIPS = [
    ("the scores so far not added", {"total": lambda scores, log_p: log_p.clone()},
     "A score is that of the hypothesis plus that of the new token."),
    ("scores multiplied", {"total": lambda scores, log_p: scores[:, None] * log_p},
     "Logarithms are added."),
    ("the mean of both log-probabilities",
     {"total": lambda scores, log_p: (scores[:, None] + log_p) / 2}, "They are added."),
    ("probabilities added",
     {"total": lambda scores, log_p: torch.logaddexp(scores[:, None], log_p)},
     "Probabilities are multiplied, and so their logarithms added."),
    ("`eos` among the first 2N ends a sentence", {"looked": 2},
     "Only an `eos` among the best N counts."),
    ("every eos ends a sentence", {"looked": 1000}, "Only an `eos` among the best N counts."),
    ("`eos` goes on", {"eos_open": True}, "A sentence that has said `eos` is finished."),
    ("the places of the finished not filled", {"among": 1}, "N hypotheses go on."),
    ("more than N go on", {"among": 2}, "N hypotheses go on."),
    ("the worst in place of the best", {"descending": False}, "The largest score is the best."),
    ("parent and token in each other's place",
     {"change": lambda i, parent, token, score, own: (token, parent, score)},
     "The parent comes first."),
    ("the parent's score without the new token",
     {"change": lambda i, parent, token, score, own: (parent, token, score - own)},
     "The score includes the new token."),
    ("the score of the new token alone",
     {"change": lambda i, parent, token, score, own: (parent, token, own)},
     "The score includes the parent's."),
]  # fmt: skip
BEAM_BUT = [
    ("the scores so far not added", "the score of the new token alone"),
    ("`eos` goes on", "the places of the finished not filled"),
    ("the mean of both log-probabilities", "the score of the new token alone"),
]


def _where_it_is_likeliest(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    sums = scores[:, None] + log_p
    ended = [(i, row[eos].item()) for i, row in enumerate(sums) if int(row.argmax()) == eos]
    return ended, beam_step(scores, log_p, eos)[1]


def _all_open(scores: Tensor, log_p: Tensor, eos: int) -> list[tuple]:
    total = (scores[:, None] + log_p).tolist()
    some = [(i, j, x) for i, row in enumerate(total) for j, x in enumerate(row) if j != eos]
    return sorted(some, key=lambda one: one[2], reverse=True)


def _score_first(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    ended, still_open = beam_step(scores, log_p, eos)
    return ended, [(score, *rest) for *rest, score in still_open]


def _ends_before_the_last(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    ended, going = beam_step(scores, log_p, eos)
    line = float((scores[:, None] + log_p).flatten().topk(len(scores)).values[-1])
    return [one for one in ended if one[1] > line + 1e-9], going


def _all_of_the_best_end(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    n, v = log_p.shape
    top, place = (scores[:, None] + log_p).flatten().topk(n)
    ended = [(i // v, s) for i, s in zip(place.tolist(), top.tolist(), strict=True)]
    return ended, beam_step(scores, log_p, eos)[1]


def _others_end(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    n, v = log_p.shape
    top, place = (scores[:, None] + log_p).flatten().topk(n)
    ended = [(i // v, s) for i, s in zip(place.tolist(), top.tolist(), strict=True) if i % v != eos]
    return ended, beam_step(scores, log_p, eos)[1]


def _overwritten_ends(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    ended, going = beam_step(scores, log_p, eos)
    return [(parent, -math.inf) for parent, _ in ended], going


def _ends_changed(change: Callable[[int, float], tuple]) -> Callable:
    """What is returned of those that end in another form."""

    def answer(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
        ended, going = beam_step(scores, log_p, eos)
        return [change(*one) for one in ended], going

    return answer


def _added_along(scores: Tensor, log_p: Tensor) -> Tensor:
    """Without an axis for the tokens: an error, unless there are as many of both."""
    return scores + log_p


def _one_more_may_end(scores: Tensor, log_p: Tensor, eos: int) -> tuple[list, list]:
    sums = scores[:, None] + log_p
    line = sums.flatten().topk(len(scores) + 1).values[-1]
    ended = [(i, row[eos].item()) for i, row in enumerate(sums) if row[eos] >= line]
    return ended, beam_step(scores, log_p, eos)[1]


BEAM_MISTAKES = mistakes(
    ("`eos` among the first N + 1 ends a sentence", _one_more_may_end,
     "Only an `eos` among the best N candidates counts."),
    ("each score added to a token in place of a row", _step(total=_added_along),
     "`scores` has one number for each hypothesis, a row of `log_p`, and so it needs an axis for "
     "the tokens: shape (N, 1). As it is, it is laid along the tokens, which raises an error, or, "
     "with as many tokens as hypotheses, adds the wrong scores."),
    ("the scores repeated in the order of the tokens", _step(
         total=lambda scores, log_p: scores.repeat(log_p.shape[1]).view(log_p.shape) + log_p),
     "Each score is that of a row, and the same for all its tokens. `repeat` writes all scores one "
     "after the other, and the next row begins somewhere among them."),
    ("the scores of another hypothesis added, in reverse order",
     _step(total=lambda scores, log_p: scores.flip(0)[:, None] + log_p),
     "Row i of `log_p` is what follows hypothesis i: its score is `scores[i]`."),
    ("`eos` taken out before the best N are found",
     lambda scores, log_p, eos: ([], beam_step(scores, log_p, eos)[1]),
     "Those that go on are right, and nothing ever ends. Look among the best N of *all* candidates "
     "for those with `eos`, and take it out after that."),
    ("those that end told as (score, parent)", _ends_changed(lambda parent, score: (score, parent)),
     "The pair is turned round: a candidate that ends is `(parent, score)`."),
    ("the score first in both lists",
     lambda scores, log_p, eos: (
         [(score, parent) for parent, score in beam_step(scores, log_p, eos)[0]],
         [(score, *rest) for *rest, score in beam_step(scores, log_p, eos)[1]]),
     "Pairs are `(parent, score)`, triples `(parent, token, score)`: the score comes last."),
    ("those that end told as (token, score)",
     lambda scores, log_p, eos: (
         [(eos, score) for _, score in beam_step(scores, log_p, eos)[0]],
         beam_step(scores, log_p, eos)[1]),
     "A candidate that ends is `(parent, score)`: its token is known, and its parent not."),
    ("those that end told by their own log-probability of `eos`",
     lambda scores, log_p, eos: (
         [(parent, log_p[parent, eos].item()) for parent, _ in beam_step(scores, log_p, eos)[0]],
         beam_step(scores, log_p, eos)[1]),
     "The score of a candidate is that of its hypothesis plus that of the new token, `eos` too."),
    ("`eos` in the last of the N places does not end", _ends_before_the_last,
     "The best N count, the last of them too: compare with `>=`."),
    ("all of the best N end", _all_of_the_best_end,
     "Of the best N those end that have the token `eos`."),
    ("the others of the best N end, and not those with `eos`", _others_end,
     "Of the best N those end that have the token `eos`: compare with `==`."),
    ("minus infinity as the score of those that end", _overwritten_ends,
     "An entry of a tensor is a view of it: it changes when you set the column of `eos` to minus "
     "infinity afterwards. Take the number out with `.item()` first."),
    ("`eos` ends a hypothesis where it is the likeliest there", _where_it_is_likeliest,
     "What counts is the place among all candidates: the best N of them, whichever hypothesis they "
     "belong to."),
    ("probabilities added",
     _step(total=lambda scores, log_p: torch.logaddexp(scores[:, None], log_p)),
     "Probabilities are multiplied, and so their logarithms added."),
    ("the quotient taken for the token, and the rest for the parent", _quotient_for_the_token,
     "The flat place i is parent * V + token: the parent is i // V, the token i % V."),
    ("`eos` among the first 2N ends a sentence, and as many fewer go on", _as_many_fewer,
     "Only an `eos` among the best N counts, and N hypotheses go on, however many have ended."),
    *combined(_step, BEAM_SLIPS, but=BEAM_BUT),
    ("the scores so far not added", _step(total=lambda scores, log_p: log_p.clone()),
     "A candidate is a whole sentence so far: its score is that of its hypothesis plus the "
     "log-probability of the new token."),
    ("one hypothesis too few goes on",
     lambda scores, log_p, eos: (lambda ended, going: (ended, going[: len(scores) - 1]))(
         *beam_step(scores, log_p, eos)),
     "As many go on as there are now, N, however many have ended."),
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
    ("0 taken for `eos`", lambda scores, log_p, eos: beam_step(scores, log_p, 0),
     "Which token ends a sentence is said by the argument `eos`."),
    ("the worst of those that go on first", _backwards, "The second list begins with the best."),
    ("those that go on in the order of their parents",
     lambda scores, log_p, eos: (
         beam_step(scores, log_p, eos)[0], sorted(beam_step(scores, log_p, eos)[1])
     ),
     "The second list begins with the best, whichever parent it has."),
    ("the log-probability of the next token alone as the score of those that go on",
     lambda scores, log_p, eos: (
         beam_step(scores, log_p, eos)[0],
         [(i, k, float(log_p[i][k])) for i, k, _ in beam_step(scores, log_p, eos)[1]],
     ),
     "The candidates are right. The score of each is the parent's plus that of the new token."),
    ("only the best of those that end", _best_end_only,
     "Every candidate with `eos` among the best N is a finished translation."),
    ("the flat place taken modulo N for the parent", _modulo_n,
     "The flat place i is parent * V + token: the parent is i // V, the token i % V."),
    ("those that end told with their token",
     lambda scores, log_p, eos: (
         [(parent, eos, score) for parent, score in beam_step(scores, log_p, eos)[0]],
         beam_step(scores, log_p, eos)[1],
     ),
     "A candidate that ends is a pair, `(parent, score)`: its token is known."),
    ("softmax of the log-probabilities",
     _step(total=lambda scores, log_p: scores[:, None] + log_p.softmax(-1)),
     "`log_p` holds logarithms already. Add them as they are."),
    ("only the best candidate may end", _best_may_end,
     "Each candidate with `eos` among the best N ends the sentence, not only the very best."),
    ("not sorted", _as_they_come,
     "All N times V candidates are put in order, the best first."),
    ("the two lists in each other's place",
     lambda scores, log_p, eos: beam_step(scores, log_p, eos)[::-1],
     "First come those that end, then those that go on."),
    ("probabilities as the scores of the result",
     lambda scores, log_p, eos: tuple(
         [(*rest, math.exp(score)) for *rest, score in some]
         for some in beam_step(scores, log_p, eos)),
     "The scores are log-probabilities, and stay so."),
    ("the column of `eos` taken out, and the tokens counted without it",
     lambda scores, log_p, eos: (
         beam_step(scores, log_p, eos)[0],
         [(i, k - (k > eos), score) for i, k, score in beam_step(scores, log_p, eos)[1]]),
     "Without the column all tokens behind `eos` move up by one. Set its scores to minus infinity "
     "in place of taking it out."),
    ("`eos` ends where it is better than the last that goes on", _better_than_the_last,
     "Only an `eos` among the best N of *all* candidates counts, those with `eos` among them."),
    ("probabilities added, without logarithms",
     _step(total=lambda scores, log_p: scores.exp()[:, None] + log_p.exp()),
     "Probabilities are multiplied, and so their logarithms added. The scores are logarithms."),
    ("the worst in place of the best, and the two lists in each other's place",
     lambda scores, log_p, eos: _step(descending=False)(scores, log_p, eos)[::-1],
     "The largest score is the best; and those that end come first."),
    ("those with `eos` among the second N end", _second_n,
     "An `eos` among the best N ends the sentence. What comes after the N-th counts for nothing."),
    ("softmax over all candidates",
     _step(total=lambda scores, log_p: (scores[:, None] + log_p).flatten().log_softmax(0)
           .view(log_p.shape)),
     "The sums are log-probabilities already. Nothing is to be normalised."),
    ("the first hypothesis alone",
     lambda scores, log_p, eos: (
         [(p, s) for p, s in _step()(scores[:1], log_p[:1], eos)[0]],
         _step(among=1000)(scores[:1], log_p[:1], eos)[1][: len(scores)],
     ),
     "Every hypothesis has candidates, and the best of all candidates are kept."),
    ("all go on", _step(among=1000), "The N best with another token go on, and no more."),
    ("the quotient taken for the token, among the best 2N", _quotient_of_2n,
     "The flat place i is parent * V + token: the parent is i // V, the token i % V."),
    ("`eos` among the best N of its own hypothesis ends a sentence", _own_ends,
     "What counts is the place among all candidates: the best N of them, whichever hypothesis they "
     "belong to."),
    ("each token once", _each_token_once,
     "Two hypotheses may go on with the same token: they are two sentences."),
    ("2N go on", _twice_as_many,
     "The N best with another token go on. Of the 2N that are looked at, some are left over."),
    ("each hypothesis grown by its own N best, `eos` among them", _own_few,
     "The N best of one hypothesis may hold its `eos`, and then one too few is left of it. Let "
     "all candidates compete, or keep N + 1 of each."),
    ("the mean of both log-probabilities",
     lambda scores, log_p, eos: beam_step(scores / 2, log_p / 2, eos),
     "The log-probabilities of a sentence's tokens are added."),
    ("`eos` made impossible, and the rest normed again", _normed_again,
     "`log_p` is left as it is: only the candidates with `eos` leave the second list."),
    ("the score in front of those that go on", _score_first,
     "The order is parent, token, score."),
    ("one too many goes on",
     lambda scores, log_p, eos: (
         beam_step(scores, log_p, eos)[0],
         _all_open(scores, log_p, eos)[: len(scores) + 1],
     ),
     "N hypotheses go on, as many as there were."),
    ("twice as many go on",
     lambda scores, log_p, eos: (
         beam_step(scores, log_p, eos)[0],
         _all_open(scores, log_p, eos)[: 2 * len(scores)],
     ),
     "N hypotheses go on, as many as there were."),
)  # fmt: skip

# 13.5 typical sampling


def _from_typical(p: Tensor) -> Tensor:
    """The tokens in the order of their distance from the entropy, the nearest first."""
    return _distance(p).argsort(stable=True)


def _distance(p: Tensor) -> Tensor:
    information = -p.log()
    return (information - (p * information).sum()).abs()


def _right_keep(values: Tensor, threshold: float) -> Tensor:
    return values.cumsum(0) - values < threshold


def _typical(
    keep: Callable = _right_keep, order: Callable = _from_typical, normal: bool = True
) -> Callable:
    def answer(p: Tensor, threshold: float) -> Tensor:
        ids = order(p)
        kept = ids[keep(p[ids], threshold)]
        result = torch.zeros_like(p)
        result[kept] = p[kept]
        return result / result.sum() if normal else result

    return answer


def typical(p: Tensor, threshold: float) -> Tensor:
    return _typical()(p, threshold)


def _added_up_unsorted(p: Tensor, threshold: float) -> Tensor:
    distances = (-p.log() + (p * p.log()).sum()).abs()
    kept = distances.argsort()[: int((p.cumsum(0) < threshold).sum()) + 1]
    result = torch.zeros_like(p).index_copy(0, kept, p[kept])
    return result / result.sum()


def typical_cases() -> list[tuple]:
    """No partial sum is near the threshold, or all are exact: rounding decides nothing."""
    return [
        (torch.tensor(p), threshold)
        for p, threshold in (
            ([0.15, 0.5, 0.05, 0.3], 0.25),
            ([0.15, 0.5, 0.05, 0.3], 0.7),
            ([0.06, 0.1, 0.34, 0.2, 0.3], 0.6),
            ([0.02, 0.9, 0.08], 0.4),
            ([0.21, 0.19, 0.2, 0.18, 0.22], 0.95),
            ([0.25, 0.125, 0.5, 0.0625, 0.0625], 0.75),
            ([0.45, 0.11, 0.1, 0.09, 0.08, 0.07, 0.06, 0.04], 0.19),
            ([0.04, 0.09, 0.52, 0.14, 0.03, 0.12, 0.06], 0.33),
            ([1.0], 0.5),
            ([0.25, 0.25, 0.25, 0.25], 0.9),  # all tell as much as is expected
        )
    ]


def _unsorted(p: Tensor, threshold: float) -> Tensor:
    values = p[_from_typical(p)]
    result = torch.where(_right_keep(values, threshold), values, torch.zeros_like(values))
    return result / result.sum()


def _wrong_way_back(p: Tensor, threshold: float) -> Tensor:
    ids = _from_typical(p)
    kept = torch.where(_right_keep(p[ids], threshold), p[ids], torch.zeros_like(p))
    return kept[ids] / kept.sum()


def _one_more(values: Tensor, threshold: float) -> Tensor:
    keep = _right_keep(values, threshold)
    keep[: int(keep.sum()) + 1] = True
    return keep


def _dropped_by_place(p: Tensor, threshold: float) -> Tensor:
    kept = p * _right_keep(p[_from_typical(p)], threshold)
    return kept / kept.sum()


def _only_first(values: Tensor, threshold: float) -> Tensor:
    keep = values.cumsum(0) <= threshold
    keep[0] = True
    return keep


def _softmaxed(p: Tensor, threshold: float) -> Tensor:
    ids = _from_typical(p)
    kept = p[ids].clone()
    kept[~_right_keep(kept, threshold)] = -math.inf
    return torch.zeros_like(p).scatter(0, ids, kept.softmax(0))


def _with_entropy(entropy: Callable) -> Callable:
    """Another number in the place of H, or of the distance from it."""
    return _typical(order=lambda p: (-p.log() - entropy(p)).abs().argsort(stable=True))


TYPICAL_SLIPS = [
    ("the token that crosses the line dropped", {"keep": lambda v, t: v.cumsum(0) <= t},
     "The token that crosses the threshold is needed."),
    ("the token that reaches the line dropped", {"keep": lambda v, t: v.cumsum(0) < t},
     "The token with which the sum reaches the threshold is needed."),
    ("the token that crosses the line dropped, except the first", {"keep": _only_first},
     "The token that crosses the threshold is needed, whichever it is."),
    ("one token too many", {"keep": _one_more}, "As few as reach the threshold are kept."),
    ("top-p: the likeliest first",
     {"order": lambda p: p.argsort(descending=True, stable=True)},
     "The token comes first whose -ln p is nearest to H."),
    ("the unlikeliest first", {"order": lambda p: p.argsort(stable=True)},
     "The token comes first whose -ln p is nearest to H."),
    ("the least typical first", {"order": lambda p: _from_typical(p).flip(0)},
     "The nearest to H comes first."),
    ("H without weights",
     {"order": lambda p: (-p.log() + p.log().mean()).abs().argsort(stable=True)},
     "H is the mean under p itself."),
    ("not made to sum to one", {"normal": False}, "What is kept is divided by its sum."),
]  # fmt: skip
TYPICAL_BUT = [
    ("top-p: the likeliest first", "not made to sum to one"),
    ("the token that crosses the line dropped", "the unlikeliest first"),
    # in that order no sum of the cases is exactly the threshold
    ("the token that reaches the line dropped", "H without weights"),
]


def _first_few(p: Tensor, n: int) -> Tensor:
    ids = _distance(p).argsort(stable=True)[:n]
    kept = torch.zeros_like(p).index_put((ids,), p[ids])
    return kept / kept.sum()


TYPICAL_MISTAKES = mistakes(
    ("added up in the order of the tokens", _added_up_unsorted,
     "The sum runs over the probabilities in the order of their distance from H: `p[order]` before "
     "`cumsum`."),
    ("top-p: the likeliest first",
     _typical(order=lambda p: p.argsort(descending=True, stable=True)),
     "Here the order is another: that token comes first whose -ln p is nearest to H. (Without the "
     "minus before the logarithm, without absolute values, or with a smaller number in the place "
     "of H, such as the mean of -p ln p, it is top-p again.)"),
    ("-p ln p compared with H",
     _typical(order=lambda p: (
         (-p * p.log() + (p * p.log()).sum()).abs().argsort(stable=True)
     )),
     "What a token tells is -ln p. Its part of H, -p ln p, is something else."),
    ("the unlikeliest first", _typical(order=lambda p: p.argsort(stable=True)),
     "The order goes by the distance from H, which has no sign: take absolute values, and the "
     "smallest first. (With a number in the place of H that is too large, such as the sum of all "
     "-ln p, the unlikeliest come first as well.)"),
    ("e to the power of H in the place of H", _with_entropy(lambda p: (-(p * p.log()).sum()).exp()),
     "That is the perplexity. What is compared with -ln p is H itself, in nats."),
    ("all that tell no more than is expected",
     lambda p, threshold: (lambda kept: kept / kept.sum())(
         torch.where(-p.log() <= -(p * p.log()).sum(), p, 0.0)),
     "Tokens on both sides of H count by their distance, until the sum reaches the threshold."),
    ("what is dropped looked up in the order of the vocabulary", _dropped_by_place,
     "The i-th of the sorted tokens is `ids[i]`: drop `ids[...]`, not the i-th of the vocabulary."),
    ("the places of what is kept, the nearest to H first",
     lambda p, threshold: (ids := _from_typical(p))[_right_keep(p[ids], threshold)],
     "Asked for are the probabilities of all V tokens: zero for what is dropped."),
    ("the least typical first", _typical(order=lambda p: _from_typical(p).flip(0)),
     "The nearest to H comes first: sort the distances from small to large."),
    ("H without weights", _with_entropy(lambda p: (-p.log()).mean()),
     "H is the mean under p itself: each -ln p is weighted with its p."),
    ("H to base 2, and natural logarithms", _with_entropy(lambda p: -(p * p.log2()).sum()),
     "What a token tells and what is expected need one unit: natural logarithms for both."),
    ("the probabilities compared with H",
     _typical(order=lambda p: (p + (p * p.log()).sum()).abs().argsort(stable=True)),
     "What is compared with H is -ln p, and not p."),
    ("the distance between probabilities",
     _typical(order=lambda p: (p - (p * p.log()).sum().exp()).abs().argsort(stable=True)),
     "exp(-H) is the typical probability, but the distance is taken between logarithms."),
    ("nearest to the mean probability",
     _typical(order=lambda p: (p - 1 / len(p)).abs().argsort(stable=True)),
     "What is expected is H, the mean of -ln p under p."),
    ("only the distance compared with the threshold",
     lambda p, threshold: (kept := p * (_distance(p) < threshold)) / kept.sum(),
     "The threshold is for the sum of the probabilities, not for the distance."),
    ("the token that crosses the line dropped", _typical(lambda v, t: v.cumsum(0) <= t),
     "What is kept must together have at least the threshold. The token that crosses it is still "
     "needed. Without it nothing may be left at all."),
    ("the token that crosses the line dropped, and zeros where nothing is left",
     lambda p, threshold: (
         _typical(lambda v, t: v.cumsum(0) <= t)(p, threshold).nan_to_num(0.0)
     ),
     "What is kept must together have at least the threshold: the token that crosses it is still "
     "needed."),
    ("the token that reaches the line dropped", _typical(lambda v, t: v.cumsum(0) < t),
     "What is kept must together have at least the threshold. The token with which the sum reaches "
     "it is still needed. Without it nothing may be left at all."),
    ("the token that reaches the line dropped, except the first",
     _typical(lambda v, t: (v.cumsum(0) < t) | (torch.arange(len(v)) == 0)),
     "What is kept must together have at least the threshold. The token with which the sum reaches "
     "it is still needed, whichever it is."),
    ("more than the threshold, not at least", _typical(lambda v, t: v.cumsum(0) - v <= t),
     "Where the sum is exactly the threshold, it has been reached, and nothing more is kept."),
    ("one minus the threshold kept", _typical(lambda v, t: v.cumsum(0) - v < 1 - t),
     "What is kept has the threshold. What is dropped has at most the rest."),
    ("the token that crosses the line dropped, except the first", _typical(_only_first),
     "What is kept must together have at least the threshold. The token that crosses it is still "
     "needed, whichever it is."),
    ("one token too many", _typical(_one_more),
     "As few as possible: as soon as the sum has reached the threshold, no further token is kept."),
    ("not made to sum to one", _typical(normal=False),
     "The right tokens are kept. Divide by their sum, so that they are probabilities again."),
    ("each token compared with the threshold by itself",
     lambda p, threshold: (kept := p * (p >= threshold)) / kept.sum(),
     "The threshold is for the sum of what is kept, not for each token."),
    ("summed in the order of the vocabulary", _typical(order=lambda p: torch.arange(len(p))),
     "Sort first: the sum begins with the token that is nearest to H."),
    ("left in sorted order, and not made to sum to one",
     lambda p, threshold: torch.where(
         _right_keep(p[_from_typical(p)], threshold), p[_from_typical(p)], torch.zeros_like(p)),
     "Each probability belongs to its own token, and what is kept is divided by its sum."),
    ("left in sorted order", _unsorted,
     "The result must have each probability at its own token. Put them back with the indices that "
     "`argsort` returns."),
    ("put back the wrong way round", _wrong_way_back,
     "`ids[i]` says where the i-th came from: `result[ids] = values`. Indexing with `values[ids]` "
     "sorts once more."),
    ("softmax of probabilities", _softmaxed,
     "Softmax takes logits. Probabilities are divided by their sum."),
    ("nothing dropped", lambda p, threshold: p,
     "This is the whole distribution. As few tokens as reach the threshold are kept."),
    ("the most typical alone", _typical(lambda v, t: torch.arange(len(v)) == 0),
     "Further tokens are kept until the sum reaches the threshold."),
    ("the logarithm of the number of tokens for H", _with_entropy(lambda p: math.log(len(p))),
     "log V is the entropy of V tokens that are all equally likely. H is that of `p`."),
    ("the likeliest kept as well",
     lambda p, threshold: (
         (kept := _typical(normal=False)(p, threshold).index_fill(0, p.argmax()[None], p.max()))
         / kept.sum()
     ),
     "The likeliest token is no exception here: it is kept only if it is near enough to H."),
    ("softmax of what is kept, when it sums to one already",
     lambda p, threshold: (lambda kept: kept.masked_fill(kept == 0, -math.inf).softmax(0))(
         typical(p, threshold)),
     "What is kept is divided by its sum, and that is all."),
    ("softmax of the logarithms, with 0 for what is dropped",
     lambda p, threshold: (lambda kept: torch.where(kept > 0, p.log(), 0.0).softmax(0))(
         typical(p, threshold)),
     "The exponential of 0 is 1, and takes the most. What is dropped has the logarithm minus "
     "infinity."),
    *combined(_typical, TYPICAL_SLIPS, but=TYPICAL_BUT),
    ("softmax of what is kept and of the zeros",
     lambda p, threshold: _typical(normal=False)(p, threshold).softmax(0),
     "Softmax takes logits, and makes something of every zero. Probabilities are divided by their "
     "sum."),
    ("the token that reaches the line dropped, and zeros where nothing is left",
     lambda p, threshold: _typical(lambda v, t: v.cumsum(0) < t)(p, threshold).nan_to_num(0.0),
     "What is kept must together have at least the threshold: the token with which the sum reaches "
     "it is still needed."),
    ("all within the threshold of H",
     lambda p, threshold: (lambda kept: kept / kept.sum().clamp(min=1e-9))(
         p * (_distance(p) <= threshold)),
     "The threshold is one for the sum of the probabilities, not for the distance from H."),
    ("all alike that are kept",
     lambda p, threshold: (lambda kept: kept / kept.sum())((typical(p, threshold) > 0).float()),
     "What is kept keeps its own probability, divided by the sum of what is kept."),
    ("1 where a token is kept", lambda p, threshold: (typical(p, threshold) > 0).float(),
     "Asked for are the probabilities of what is kept, divided by their sum."),
    ("the places of what is kept", lambda p, threshold: typical(p, threshold).nonzero()[:, 0],
     "Asked for are the probabilities of all V tokens: zero for what is dropped."),
    ("top-p, and not made to sum to one",
     lambda p, threshold: (lambda at: p * torch.zeros_like(p).index_fill(
         0, at[p[at].cumsum(0) - p[at] < threshold], 1.0))(p.argsort(descending=True)),
     "Two mistakes: those first that are nearest to H, not the likeliest; and what is kept is "
     "divided by its sum."),
    ("a share of the tokens, not of their probabilities",
     _typical(lambda v, t: torch.arange(len(v)) < math.ceil(t * len(v))),
     "The threshold is for the sum of the probabilities, however many tokens that takes."),
    ("as a temperature", lambda p, threshold: (p.double().log() / threshold).softmax(0),
     "The threshold is no temperature: it says how much probability is kept, and the rest is "
     "zero."),
    ("all that are as likely as the threshold",
     lambda p, threshold: (lambda kept: kept / kept.sum().clamp(min=1e-9))(p * (p >= threshold)),
     "The threshold is one for the sum of what is kept, not for each."),
    ("a share of the tokens in place of a share of the probability",
     lambda p, threshold: _first_few(p, max(1, round(threshold * len(p)))),
     "Tokens are taken until their *probabilities* sum to the threshold, however few or many."),
    ("what is kept alone, without the zeros",
     lambda p, threshold: (kept := typical(p, threshold))[kept > 0],
     "The result has the shape of p, (V): zero for what is dropped."),
    ("the logarithms of what is kept", lambda p, threshold: typical(p, threshold).log(),
     "Asked for are the probabilities: zero for what is dropped."),
    ("the likeliest token alone", lambda p, threshold: (p == p.max()).float(),
     "Typical are the tokens that tell about as much as one expects, taken until they have the "
     "threshold together."),
)  # fmt: skip


def _sums_to_one(output: object, p: Tensor, threshold: float) -> bool:
    return bool(abs(float(torch.as_tensor(output).double().sum()) - 1) < 1e-4)


# 13.6 several tokens into the cache


def read_on(tokens, embedding, positions, w_q, w_k, w_v, keys, values):
    return _read_on()(tokens, embedding, positions, w_q, w_k, w_v, keys, values)


def cache_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(136)
    one, places = torch.tensor([[1.0]]), torch.tensor([[0.0], [0.0], [1.0], [4.0]])
    printed = (torch.tensor([0, 0]), one, places, one, one, one, one, 5 * one)
    cases = [printed]
    for t, d, d_k, tokens in (
        (2, 4, 3, [5, 1, 5]),
        (0, 4, 2, [1, 6]),
        (4, 6, 4, [0]),
        (3, 5, 1, [2, 4]),
    ):
        matrices = [torch.randn(d, d_k, generator=draw) / d for _ in range(3)]
        cases.append(
            (
                torch.tensor(tokens),
                torch.randn(7, d, generator=draw),
                torch.randn(9, d, generator=draw),
                *matrices,
                torch.randn(t, d_k, generator=draw),
                torch.randn(t, d_k, generator=draw),
            )
        )
    return cases


def _past(n: int, t: int) -> Tensor:
    return torch.ones(n, t + n).tril(t).bool()


def _read_on(
    place: Callable | None = lambda t, n: torch.arange(t, t + n),
    scale_up: Callable = lambda d: d**0.5,
    add: bool = True,
    scale: Callable = lambda d, d_k: d_k**0.5,
    see: Callable[[int, int], Tensor] = _past,
    store: str = "append",
    swap: bool = False,
    ask: str = "query",
    soft: str = "softmax",
    late: bool = False,
    last: bool = False,
    **swapped: str,
) -> Callable:
    """A head that reads on, right by default; `see(n, t)` are the keys that each may look at."""

    def answer(tokens, embedding, positions, w_q, w_k, w_v, keys, values):
        (d, d_k), n, t = w_q.shape, len(tokens), len(keys)
        x = embedding[tokens] * scale_up(d)
        if add:
            at = place(t, n) if place is not None else tokens
            x = x + positions[at] * (d**0.5 if late else 1)
        w_k = w_q if swapped.get("keys") else w_k
        w_v = w_k if swapped.get("values") else w_v
        q, k, v = x @ w_q, x @ w_k, x @ w_v
        if swap:
            k, v = v, k
        seen, there = torch.cat([keys, k]), torch.cat([values, v])
        if store == "append":
            keys, values = seen, there
        elif store == "front":
            keys, values = torch.cat([k, keys]), torch.cat([v, values])
        elif store == "new":
            keys, values = k, v
        scores = {"query": q, "key": k}[ask] @ seen.T / scale(d, d_k)
        may = see(n, t)
        weights = {
            "softmax": scores.masked_fill(~may, -math.inf).softmax(-1),
            "over queries": scores.masked_fill(~may, -math.inf).softmax(0).nan_to_num(),
            "none": scores * may,
            "ones": may * 1.0,
            "exp alone": scores.exp() * may,
            "no exp": scores * may / (scores * may).sum(-1, keepdim=True),
            "mean": may / may.sum(-1, keepdim=True),
            "hidden after": scores.softmax(-1) * may,
            "hidden by 0": (scores * may).softmax(-1),
        }[soft]
        output = weights @ there
        return output[-1] if last else output, keys, values

    return answer


def _not_itself(n: int, t: int) -> Tensor:
    """The keys before each token; the very first, which has none, sees itself."""
    return torch.ones(n, t + n).tril(t - 1).bool() | (torch.arange(n)[:, None] + t == 0)


def _keys_without_positions(tokens, embedding, positions, w_q, w_k, w_v, keys, values) -> tuple:
    (d, d_k), n, t = w_q.shape, len(tokens), len(keys)
    bare = embedding[tokens] * d**0.5
    x = bare + positions[t : t + n]
    keys, values = torch.cat([keys, bare @ w_k]), torch.cat([values, x @ w_v])
    scores = (x @ w_q @ keys.T / d_k**0.5).masked_fill(~_past(n, t), -math.inf)
    return scores.softmax(-1) @ values, keys, values


CACHE_SLIPS = [
    ("no root of D", {"scale_up": lambda d: 1},
     "The embedding is multiplied by the root of D."),
    ("positions from 0", {"place": lambda t, n: torch.arange(n)},
     "The new tokens stand behind t others: their positions begin with t."),
    ("no position", {"add": False}, "The position is added to the embedding."),
    ("all keys seen", {"see": lambda n, t: torch.ones(n, t + n).bool()},
     "The first of the new tokens does not see the second."),
    ("multiplied by the root of d_k", {"scale": lambda d, d_k: d_k**-0.5},
     "The scores are divided by the root of d_k."),
    ("one position for all of them", {"place": lambda t, n: torch.full((n,), t)},
     "Each new token stands one place further."),
    ("no division", {"scale": lambda d, d_k: 1}, "The scores are divided by the root of d_k."),
    ("the new keys and values in front", {"store": "front"},
     "Keys and values are returned in the order of the sentence."),
    ("the new ones in place of the old", {"store": "new"}, "All are returned, (t + n, K)."),
    ("the positions one too small", {"place": lambda t, n: torch.arange(t - 1, t + n - 1)},
     "The first of the new ones has the position t."),
    ("the positions one too large", {"place": lambda t, n: torch.arange(t + 1, t + n + 1)},
     "The first of the new ones has the position t."),
    ("the causal mask begins at the first key",
     {"see": lambda n, t: torch.ones(n, t + n).tril().bool()}, "New token i sees t + i + 1 keys."),
    ("the causal mask one place too wide",
     {"see": lambda n, t: torch.ones(n, t + n).tril(t + 1).bool()},
     "This lets each new token look at the one behind it: new token i sees t + i + 1 keys."),
    ("the causal mask one place too narrow",
     {"see": lambda n, t: torch.ones(n, t + n).tril(t - 1).bool()},
     "A token may look at itself: new token i sees t + i + 1 keys."),
    ("what is behind is hidden, and what comes after is seen",
     {"see": lambda n, t: ~_past(n, t)},
     "Where the lower triangle is 1 a token may look: fill in where it is 0."),
    ("new tokens see each other only",
     {"see": lambda n, t: torch.cat([torch.zeros(n, t), torch.ones(n, n).tril()], 1).bool()},
     "The keys of the cache are seen, too."),
    ("the root of D on the position as well", {"late": True}, "The embedding alone is multiplied."),
    ("hidden after the softmax", {"soft": "hidden after"}, "Hide the scores."),
    ("scores hidden by 0", {"soft": "hidden by 0"}, "The exponential of 0 is 1."),
    ("the softmax over the queries", {"soft": "over queries"}, "It runs over the last axis."),
    ("divided by the root of D", {"scale": lambda d, d_k: d**0.5},
     "It is the root of d_k, the width of the queries."),
]  # fmt: skip


CACHE_BUT = [
    *((place, "no position") for place in (
        "positions from 0", "the positions one too small", "the positions one too large",
        "one position for all of them",
    )),
    ("all keys seen", "one position for all of them"),
    ("positions from 0", "all keys seen"),
    ("no position", "the root of D on the position as well"),
    ("all keys seen", "hidden after the softmax"),
    ("all keys seen", "scores hidden by 0"),
]  # fmt: skip


def _values_first(*inputs) -> tuple:
    output, keys, values = read_on(*inputs)
    return output, values, keys


def _front_first(tokens, embedding, positions, w_q, w_k, w_v, keys, values) -> tuple:
    (d, d_k), n, t = w_q.shape, len(tokens), len(keys)
    x = embedding[tokens] * d**0.5 + positions[t : t + n]
    keys, values = torch.cat([x @ w_k, keys]), torch.cat([x @ w_v, values])
    scores = (x @ w_q @ keys.T / d_k**0.5).masked_fill(~_past(n, t), -math.inf)
    return scores.softmax(-1) @ values, keys, values


def _bare(what: str) -> Callable:
    """Some of the three are made of the embeddings alone."""

    def answer(tokens, embedding, positions, w_q, w_k, w_v, keys, values):
        (d, d_k), n, t = w_q.shape, len(tokens), len(keys)
        bare = embedding[tokens] * d**0.5
        x = bare + positions[t : t + n]
        q, k, v = (bare if name in what else x for name in ("queries", "keys", "values"))
        keys, values = torch.cat([keys, k @ w_k]), torch.cat([values, v @ w_v])
        scores = (q @ w_q @ keys.T / d_k**0.5).masked_fill(~_past(n, t), -math.inf)
        return scores.softmax(-1) @ values, keys, values

    return answer


def _start_before(tokens, embedding, positions, w_q, w_k, w_v, keys, values) -> tuple:
    """A slice of the positions that begins one too early: at no token before it there is none."""
    (d, d_k), n, t = w_q.shape, len(tokens), len(keys)
    x = embedding[tokens] * d**0.5 + positions[t - 1 : t - 1 + n]
    keys, values = torch.cat([keys, x @ w_k]), torch.cat([values, x @ w_v])
    scores = (x @ w_q @ keys.T / d_k**0.5).masked_fill(~_past(n, t), -math.inf)
    return scores.softmax(-1) @ values, keys, values


CACHE_MISTAKES = mistakes(
    ("the causal mask one place too narrow, and zeros where there is nothing to see",
     lambda *case: (lambda y, *rest: (y.nan_to_num(), *rest))(
         *_read_on(see=lambda n, t: torch.ones(n, t + n).tril(t - 1).bool())(*case)),
     "A token sees those before it and itself: `<=`, not `<`."),
    ("the values added up", _read_on(soft="ones"),
     "The softmax runs over all keys that a query sees, the last axis. Over an axis of length 1 "
     "all weights are 1."),
    ("the exponentials not divided by their sum", _read_on(soft="exp alone"),
     "The weights of a query sum to 1."),
    ("the scores divided by their sum, without exponentials", _read_on(soft="no exp"),
     "The weights are a softmax: the exponentials of the scores, divided by their sum."),
    ("half of D in place of its root", _read_on(scale_up=lambda d: d / 2),
     "The embedding is multiplied by the root of D: `D ** 0.5`."),
    ("half of d_k in place of its root", _read_on(scale=lambda d, d_k: d_k / 2),
     "The scores are divided by the root of d_k: `d_k ** 0.5`."),
    ("the root of the number of words in place of that of D",
     lambda tokens, embedding, *rest: _read_on(
         scale_up=lambda d: len(embedding) ** 0.5)(tokens, embedding, *rest),
     "`embedding` is (V, D), and the root is that of D, the second."),
    ("the positions one too small, as a slice", _start_before,
     "The new tokens stand behind `len(keys)` others, so they begin at `len(keys)`. One less is "
     "the place of the last in the cache, and with an empty cache it is no place at all."),
    ("the positions one too small, and from 0 where there is no token",
     _read_on(place=lambda t, n: torch.arange(n) + max(t - 1, 0)),
     "`len(keys) - 1` is the position of the last token in the cache. The new ones come after."),
    ("new tokens see those behind them", _read_on(see=lambda n, t: torch.ones(n, t + n).bool()),
     "One after the other, the first of them would not have seen the second. Among the new tokens "
     "the causal mask is needed after all."),
    ("new tokens see those behind them, and positions from 0",
     _read_on(see=lambda n, t: torch.ones(n, t + n).bool(), place=lambda t, n: torch.arange(n)),
     "Two things: among the new tokens the causal mask is needed, and their positions begin at "
     "`len(keys)`."),
    ("new tokens see those behind them, and one position for all of them",
     _read_on(see=lambda n, t: torch.ones(n, t + n).bool(), place=lambda t, n: torch.full((n,), t)),
     "Two things: among the new tokens the causal mask is needed, and each stands one place behind "
     "the one before it."),
    ("the causal mask begins at the first key",
     _read_on(see=lambda n, t: torch.ones(n, t + n).tril().bool()),
     "New token i stands at place t + i, so it may look at the first t + i + 1 keys: `tril(t)`."),
    ("the causal mask one place too narrow",
     _read_on(see=lambda n, t: torch.ones(n, t + n).tril(t - 1).bool()),
     "A token may look at itself: of the new ones, i may look at t + i + 1 keys."),
    ("the causal mask one place too wide",
     _read_on(see=lambda n, t: torch.ones(n, t + n).tril(t + 1).bool()),
     "This lets each new token look at the one behind it."),
    ("the causal mask turned round",
     _read_on(see=lambda n, t: torch.ones(n, t + n).triu(t).bool()),
     "That is the future. What is before may be seen."),
    ("what is behind is hidden, and what comes after is seen",
     _read_on(see=lambda n, t: ~_past(n, t)),
     "The mask is the wrong way round. Where the lower triangle is 1 a token may look: fill in "
     "minus infinity where it is 0. (As it is, the last token sees nothing at all.)"),
    ("new tokens see the old ones and themselves",
     _read_on(see=lambda n, t: torch.cat([torch.ones(n, t), torch.eye(n)], 1).bool()),
     "The second of the new tokens also sees the first: it stands before it."),
    ("new tokens see the old ones only",
     _read_on(see=lambda n, t: torch.cat([torch.ones(n, t), torch.zeros(n, n)], 1).bool()),
     "A token may attend to all up to itself: to the new ones before it, and to itself."),
    ("new tokens see each other only",
     _read_on(see=lambda n, t: torch.cat([torch.zeros(n, t), torch.ones(n, n).tril()], 1).bool()),
     "The queries look at all keys of the cache, too. This is what the cache is for."),
    ("new tokens see themselves only",
     _read_on(see=lambda n, t: torch.cat([torch.zeros(n, t), torch.eye(n)], 1).bool()),
     "The queries look at all keys of the cache, and at the new ones before them."),
    ("new tokens see each other only, and all of them",
     _read_on(see=lambda n, t: torch.cat([torch.zeros(n, t), torch.ones(n, n)], 1).bool()),
     "The queries look at all keys of the cache, and no new token sees one behind it."),
    ("hidden after the softmax", _read_on(soft="hidden after"),
     "What is hidden had its share by then, and the rest sums to less than one. Hide the scores."),
    ("scores hidden by 0", _read_on(soft="hidden by 0"),
     "The exponential of 0 is 1. What is hidden has the score minus infinity."),
    ("position 0 for every token", _read_on(place=lambda t, n: torch.zeros(n, dtype=torch.long)),
     "The first of the new tokens is at `len(keys)`, and each one after it a place further."),
    ("positions from 0", _read_on(place=lambda t, n: torch.arange(n)),
     "There are `len(keys)` tokens before them: their positions begin there."),
    ("one position for all of them", _read_on(place=lambda t, n: torch.full((n,), t)),
     "Each new token stands one place behind the one before it."),
    ("the positions one too large", _read_on(place=lambda t, n: torch.arange(t + 1, t + n + 1)),
     "Positions count from 0: with `len(keys)` tokens before it, the first is at `len(keys)`."),
    ("the positions one too small", _read_on(place=lambda t, n: torch.arange(t - 1, t + n - 1)),
     "`len(keys) - 1` is the position of the last token in the cache. The new ones come after."),
    ("the ids of the tokens as their positions", _read_on(place=None),
     "`tokens` says which words they are. Where they stand follows from `len(keys)`."),
    ("no position", _read_on(add=False),
     "The position is added to the embedding, as it was in training."),
    ("the embedding not multiplied by the root of D", _read_on(scale_up=lambda d: 1.0),
     "The embedding is multiplied by sqrt(D) before the position is added (section 3.4)."),
    ("the embedding multiplied by D, not by its root", _read_on(scale_up=lambda d: d),
     "The embedding is multiplied by sqrt(D)."),
    ("the position multiplied by the root of D as well", _read_on(late=True),
     "Only the embedding is multiplied. The position is added afterwards."),
    ("multiplied by the root of d_k", _read_on(scale=lambda d, d_k: d_k**-0.5),
     "Scores are divided by sqrt(d_k), so that they become smaller."),
    *((f"{what} without positions", _bare(what), "Queries, keys and values are all made of the "
       "same input: the embedding times the root of D, plus the position.")
      for what in ("queries", "values", "queries and keys")),
    ("the cache not extended", _read_on(store="none"),
     "The new keys and values must be in what is returned, or the next tokens will not see them."),
    ("the new ones in place of the old", _read_on(store="new"),
     "Keys and values of all tokens are returned, (t + n, K): the old ones, and the new behind."),
    ("the new ones put in front", _read_on(store="front"),
     "The output is right, since attention does not mind the order. But the cache should keep the "
     "order of the sentence: row t belongs to token t."),
    ("the last output alone", _read_on(last=True),
     "Every new token has its output: (n, K)."),
    ("no division by the root of d_k", _read_on(scale=lambda d, d_k: 1.0),
     "Scores are divided by sqrt(d_k), as in equation (1)."),
    ("divided by d_k, not by its root", _read_on(scale=lambda d, d_k: d_k),
     "Scores are divided by sqrt(d_k), as in equation (1)."),
    ("divided by the root of D", _read_on(scale=lambda d, d_k: d**0.5),
     "Scores are divided by the root of d_k, the number of columns of W^Q, not of D."),
    ("the keys ask in place of the queries", _read_on(ask="key"),
     "What is compared with the keys are the queries, x W^Q."),
    ("the softmax over the queries", _read_on(soft="over queries"),
     "Each query shares its attention among the keys: the softmax runs over the last axis."),
    ("the plain mean of the values", _read_on(soft="mean"),
     "The values are weighted by the softmax of the scores."),
    ("no softmax", _read_on(soft="none"),
     "Scores become weights by the softmax: above zero, and their sum is one."),
    ("values returned before keys", _values_first, "The order is outputs, keys, values."),
    ("only the old keys are looked at",
     lambda tokens, embedding, positions, w_q, w_k, w_v, keys, values: (
         (lambda new: (
             ((embedding[tokens] * w_q.shape[0] ** 0.5
               + positions[len(keys) : len(keys) + len(tokens)]) @ w_q @ keys.T
              / w_q.shape[1] ** 0.5).softmax(-1) @ values, *new[1:]
         ))(read_on(tokens, embedding, positions, w_q, w_k, w_v, keys, values))
     ),
     "A new token attends to itself, too, and to the new ones before it."),
    ("the new ones put in front, before the attention", _front_first,
     "The cache keeps the order of the sentence, the new ones behind. In front, the mask that "
     "hides the future hides old tokens in place of new ones."),
    ("the root of d_k in place of that of D",
     lambda *inputs: _read_on(scale_up=lambda d: inputs[3].shape[1] ** 0.5)(*inputs),
     "The embedding is multiplied by the root of its own width, D."),
    ("the positions one too small, and none below 0",
     _read_on(place=lambda t, n: (torch.arange(t, t + n) - 1).clamp(min=0)),
     "The first token had position 0, so the first of the new ones, behind t tokens, has t."),
    ("divided by the root of D in place of multiplied", _read_on(scale_up=lambda d: d**-0.5),
     "The embedding is multiplied by the root of D."),
    ("no token sees itself", _read_on(see=_not_itself),
     "New token i sees the first t + i + 1 keys, its own among them."),
    ("the last of the outputs alone, as a row",
     lambda *inputs: (lambda output, *cache: (output[-1:], *cache))(*read_on(*inputs)),
     "Each of the n new tokens has an output: (n, K)."),
    ("the keys without their positions", _keys_without_positions,
     "Queries, keys and values are all made of the same input: the embedding times the root of D, "
     "plus the position."),
    ("the outputs behind the old values",
     lambda *inputs: (lambda output, *cache: (torch.cat([inputs[-1], output]), *cache))(
         *read_on(*inputs)),
     "The outputs are those of the n new tokens: (n, K)."),
    *combined(_read_on, CACHE_SLIPS, but=CACHE_BUT),
    ("the keys averaged in place of the values",
     lambda tokens, table, places, w_q, w_k, w_v, keys, values: (
         read_on(tokens, table, places, w_q, w_k, w_k, keys, keys)[0],
         *read_on(tokens, table, places, w_q, w_k, w_v, keys, values)[1:],
     ),
     "Keys are there to be compared with the queries. What is averaged are the values."),
    ("the new tokens see the old ones alone",
     _read_on(see=lambda n, t: (torch.arange(t + n) < t).expand(n, -1) if t else _past(n, t)),
     "Each new token sees itself, too, and the new ones before it."),
)  # fmt: skip

# 13.7 tables that turn


def _bleu(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    """Equation (13.1), and 0 where a precision is."""
    score = 1.0
    for n in (1, 2, 3, 4):
        matches = total = 0
        for said, true in zip(hypotheses, references, strict=True):
            grams, most = (
                Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
                for words in (said, true)
            )
            matches, total = matches + (grams & most).total(), total + grams.total()
        score *= (matches / max(1, total)) ** 0.25
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    return 100 * score * math.exp(min(0.0, 1 - r / c)) if score else 0.0


def turned(n: int) -> tuple[list, list, list]:
    return _turned()(n)


def _words(sentence: object) -> list[str]:
    return sentence.split() if isinstance(sentence, str) else [str(word) for word in sentence]


class Table(dict):
    """What BLEU says of two systems, and by how many points."""

    lead = least = 0.0


ASKED = {
    "as many sentences as asked for": True,
    "A is ahead by a point on every sentence": True,
    "by at least 5 points": True,
}
ORDERS = {
    "rba": "the references, B, A",
    "abr": "A, B, the references",
    "bar": "B, A, the references",
    "arb": "A, the references, B",
    "bra": "B, the references, A",
}


def _table(answer: Callable, n: int) -> dict[str, bool] | dict[str, str]:
    """What BLEU says of two systems on the sentences that an answer gives."""
    given = answer(n)
    if len(given) != 3:
        raise ValueError(
            f"expected three lists of sentences, the references, A's and B's, got {len(given)}"
        )
    lists = [[_words(sentence) for sentence in some] for some in given]
    table = _compared(*lists, n)
    if all(table[name] == right for name, right in ASKED.items()):
        return table
    for order, names in ORDERS.items():  # as it is meant, perhaps
        other = _compared(*(lists[order.index(name)] for name in "rab"), n)
        if all(other[name] == right for name, right in ASKED.items()):
            return Table({"the order": names})
    return table


def _compared(references: list, a: list, b: list, n: int) -> Table:
    """What BLEU says of two systems by these references."""
    some = list(zip(references, a, b, strict=True))
    ahead = [_bleu([one], [true]) - _bleu([other], [true]) for true, one, other in some]
    whole = _bleu(b, references) - _bleu(a, references)
    table = Table({
        "as many sentences as asked for": len(some) == n,
        "A is ahead on one sentence": any(lead >= 1 - 1e-9 for lead in ahead),
        "A is ahead by a point on every sentence": all(lead >= 1 - 1e-9 for lead in ahead),
        "some BLEU is above 0": any(
            _bleu([one], [true]) > 0 for true, *both in some for one in both
        ),
        "B is ahead on the whole set": whole > 1e-9,
        "by at least 5 points": whole >= 5 - 1e-9,
        "A is ahead on the whole set": whole < -1e-9,
    })  # fmt: skip
    table.lead, table.least = whole, min(ahead, default=0.0)
    return table


def _by_how_much(cases: Sequence[Case], got: Sequence, want: Sequence) -> tuple[str, str] | None:
    """What is asked for and not so, and by how many points A and B are ahead."""
    bad = [i for i, (g, w) in enumerate(zip(got, want, strict=True)) if g != w]
    if not bad or not all(isinstance(got[i], Table) for i in bad):
        return None
    turned = [i for i in bad if "the order" in got[i]]
    bad = [i for i in bad if i not in turned]
    if not bad:
        some = f" (in {len(turned)} of {len(got)} cases)" * (len(turned) < len(got))
        found = " or ".join(dict.fromkeys(got[i]["the order"] for i in turned))
        if found == ORDERS["rba"]:
            return f"the two systems in each other's place{some}", A_THEN_B
        return f"as asked only if the three lists are read as {found}{some}", IN_ORDER
    said, i = got[bad[0]], bad[0]
    told = [f"With n = {cases[i][0]} B is ahead by {said.lead:.1f} points on the whole set"]
    told += [f"A by {said.least:.1f} on the sentence where it is least."]
    lack = lacking(said, want[i])
    if not lack:
        return None
    if not said["as many sentences as asked for"]:
        return lack, "The set is to have `n` sentences, in each of the three lists."
    right = [str(case[0]) for case, g, w in zip(cases, got, want, strict=True) if g == w]
    if not right:
        return lack, ", and ".join(told)
    more = (
        " What one sentence makes up for is made by all the others together, and those are n - 1. "
        "Does it grow with them?"
    )
    return f"{lack} (right with n = {' and '.join(right)})", ", and ".join(told) + more


def _spoilt(words: list[str], every: int) -> list[str]:
    return [word if i % every < every - 1 else "no" for i, word in enumerate(words)]


def _turned(
    size: int = 40, cut: float = 0.3, every: int = 9, last: int = 12, fixed: int = 0,
    order: str = "rab", b_ahead: bool = False, same: bool = False, ends: bool = False,
    better: bool = False,
) -> Callable:  # fmt: skip
    """All of B's sentences but the last are cut short, and the last is too long by as much."""

    def answer(n: int) -> tuple[list, list, list]:
        n = fixed or n
        sizes = [size] * (n - 1) + [size * (n - 1)]
        references = [[f"{i}/{k}" for k in range(length)] for i, length in enumerate(sizes)]
        a = [_spoilt(true, every) for true in references[:-1]] + [_spoilt(references[-1], last)]
        off = round(cut * size)
        b = [true[: len(true) - off] for true in references[:-1]]
        b.append(references[-1] + ["oh"] * (off * (n - 1)))
        if ends:
            a[-1] = _spoilt(references[-1], 6)
        if same:
            a = b
        if better:
            a = references
        if b_ahead:
            a = [_spoilt(true, 5) for true in references]
        lists = {"r": references, "a": a, "b": b}
        return tuple(lists[name] for name in order)

    return answer


A_THEN_B = (
    "Second comes A, which is better on each sentence; third B, which is better on the whole."
)
IN_ORDER = (
    "Read in another order your lists are as asked for. First come the references, then what A "
    "says, which is better on each sentence, then what B says, which is better on the whole."
)
TURNED_MISTAKES = mistakes(
    ("every BLEU is 0", lambda n: ([["a", "b", "c"]] * n,) * 3,
     "Where no four words in a row are right, one of the precisions is zero, and BLEU is 0. Take "
     "longer sentences, of which A and B have some fours."),
    ("two sentences, whatever was asked for", _turned(fixed=2),
     "The set is to have `n` sentences."),
    ("A is ahead everywhere", _turned(better=True),
     "A is better on every sentence, and on the whole set as well. Let B do something that costs "
     "it much where it stands alone, and nothing in the sum."),
    ("B is ahead everywhere", _turned(b_ahead=True),
     "B is better on the whole set, and on the sentences, too. On each sentence A is to be ahead: "
     "let A make fewer mistakes, or B lose more where a sentence stands alone."),
    ("the two systems in each other's place", _turned(order="rba"), A_THEN_B),
    *(
        (f"as asked only if the three lists are read as {names}", _turned(order=order), IN_ORDER)
        for order, names in ORDERS.items()
        if order != "rba"
    ),
    ("two equal systems", _turned(same=True), "Neither of the two is ahead anywhere."),
    ("A behind on one sentence", _turned(ends=True),
     "A is ahead on some sentences only. It is to be ahead on every one, by a point at least."),
    ("too small a lead of B", _turned(every=13, last=16),
     "All is as it should be but for the lead of B on the whole set, which is below 5 points. Let "
     "A make a few more mistakes, as many as its lead on each sentence allows."),
)  # fmt: skip

# 13.8 what is certain about a beam

CLAIMS = (
    (False, "a wider beam held to be safe",
     "1: a beam never sees again what it has dropped, and with more beginnings in the race another "
     "one is dropped. On average the wider one is ahead, and not in every sentence."),
    (True, "the bound doubted",
     "2: by either rule the search is the same until it ends, and what has ended stays. Where the "
     "bound ends it, nothing open could have come to more."),
    (True, "the widest beam doubted",
     "3: where nothing is dropped, every sentence within the limit is tried, or stands behind an "
     "open one that cannot overtake the best any more."),
    (False, "the score taken for BLEU",
     "4: the score is the model's own opinion. BLEU asks a reference, which the model has not "
     "seen: with the bound and a large penalty the scores rise, and BLEU falls."),
    (True, "a beam of one doubted",
     "5: one hypothesis goes on with its likeliest token, and ends where this is `<eos>`: without "
     "a penalty no longer one can overtake it."),
)  # fmt: skip
certain = [truth for truth, _, _ in CLAIMS]


# 13.9 a beam with three mistakes


class Teller:
    """A decoder with a memory, like `Speaker`, that is often near its end."""

    def __init__(self, seed: int, size: int, eos: int, sharp: float, lift: float):
        self.seed, self.size, self.eos, self.sharp, self.lift = seed, size, eos, sharp, lift

    def __repr__(self) -> str:
        return f"a decoder with a cache, of {self.size} tokens"

    def __call__(self, token: int, state: tuple | None) -> tuple[list[float], tuple]:
        seen = (*(state or ()), int(token))
        draw = random.Random(f"{self.seed}/{seen}")
        scores = [draw.random() * self.sharp for _ in range(self.size)]
        scores[self.eos] += self.lift
        total = math.log(sum(map(math.exp, scores)))
        return [score - total for score in scores], seen


def search_cases() -> list[tuple]:
    return [
        (Teller(seed, size, eos, sharp, lift), bos, eos, beam, longest, alpha)
        for seed, size, eos, sharp, lift, bos, beam, longest, alpha in (
            (623, 5, 0, 4.0, 0.0, 4, 2, 5, 1.4),
            (914, 3, 0, 4.0, 0.5, 1, 2, 4, 1.4),
            (27, 3, 2, 6.0, -0.5, 0, 3, 5, 1.4),
            (340, 5, 3, 6.0, 0.5, 0, 2, 5, 0.6),
            (66, 3, 0, 4.0, -0.5, 2, 2, 6, 1.0),
            (5, 5, 2, 3.0, -9.0, 1, 2, 3, 0.6),
            (6, 5, 4, 3.0, -0.5, 0, 1, 5, 0.6),
        )
    ]


def more_search_cases() -> list[tuple]:
    """Where a little in the penalty decides who wins."""
    return search_cases() + [
        (Teller(seed, size, eos, sharp, lift), bos, eos, beam, longest, alpha)
        for seed, size, eos, sharp, lift, bos, beam, longest, alpha in (
            (235, 5, 2, 3.0, 0.5, 3, 2, 6, 3.0),
            (724, 4, 2, 6.0, -0.5, 1, 3, 6, 3.0),
            (747, 3, 2, 3.0, 0.0, 0, 3, 4, 2.0),
            (49, 3, 2, 6.0, 0.0, 0, 3, 5, 2.0),
            (110, 3, 2, 4.0, 0.0, 1, 3, 4, 3.0),
        )
    ]


def _search(
    states: str = "parent",
    ended_goes_on: bool = False,
    score: Callable = lambda log_p, length, alpha: log_p / _lp(length, alpha),
    looked: int = 1,
    among: int | None = None,
    keep_eos: bool = False,
    pick: str = "best",
    at_start: bool = False,
    stop: bool = False,
    alone: bool = False,
    or_open: bool = True,
    bound: bool = False,
    with_open: bool = False,
    shrink: int | None = None,
    only_open: bool = False,
    window: int | None = None,
    ends: int | None = None,
    downwards: bool = True,
    counted_from: int = 1,
    open_one: int = 0,
    wide: int = 1,
) -> Callable:
    """Beam search in lists, right by default; each argument makes one mistake."""

    def answer(step, bos, eos, beam, max_length, alpha):
        still_open, finished = [(0.0, [], None)], []
        for length in range(counted_from, max_length + 1):
            new, candidates = [], []
            for parent, (log_p, ids, state) in enumerate(still_open):
                token = ids[-1] if ids and not at_start else bos
                more, after = step(token, state)
                new.append(after)
                for word, q in enumerate(more):
                    candidates.append((q if alone else log_p + q, parent, [*ids, word]))
            candidates.sort(key=lambda c: c[0], reverse=downwards)
            ended = [c for c in candidates[: ends or looked * beam] if c[2][-1] == eos]
            finished += [(score(c[0], length, alpha), c[2], c[0]) for c in ended]
            near = candidates[: among * beam] if among else candidates
            near = candidates[: beam + window] if window else near
            on = [c for c in near if ended_goes_on or c[2][-1] != eos]
            on = on[: max(beam - len(finished), shrink) if shrink is not None else wide * beam]
            owners = {
                "parent": [new[c[1]] for c in on],
                "place": [new[i % len(new)] for i in range(len(on))],
                "first": [new[0]] * len(on),
                "last": [new[-1]] * len(on),
                "none": [None] * len(on),
            }[states]
            still_open = [(c[0], c[2], state) for c, state in zip(on, owners, strict=True)]
            if not still_open or (stop and len(finished) >= beam):
                break
            if bound and finished and max(f[0] for f in finished) >= still_open[0][0]:
                break
        if with_open:
            finished += [
                (score(log_p, max_length, alpha), [*ids, eos], log_p)
                for log_p, ids, _ in still_open
            ]
        if (only_open and still_open) or not finished:
            return still_open[open_one][1] if still_open and or_open else []
        chosen = {
            "best": max(finished, key=lambda f: f[0]),
            "likeliest": max(finished, key=lambda f: f[2]),
            "worst": min(finished, key=lambda f: f[0]),
            "first": finished[0],
            "last": finished[-1],
            "longest": max(finished, key=lambda f: len(f[1])),
            "by its ids": max(finished, key=lambda f: f[1]),
        }[pick]
        ids = chosen[1]
        return ids if keep_eos else ids[:-1]

    return answer


LENGTH_ALONE = "the length to the power of alpha as the penalty, without the 5"
SEARCH_SLIPS = [
    ("the states as they were", {"states": "place"}, "A state comes from the parent."),
    ("ended ones still go on", {"ended_goes_on": True, "among": 1}, "What has ended stays."),
    ("the places of the ended ones left empty", {"among": 1}, "N hypotheses go on."),
    ("`eos` behind the first N ends a sentence", {"looked": 2},
     "Only an `eos` among the best N ends a translation."),
    ("no penalty at all", {"score": lambda log_p, length, alpha: log_p},
     "Log P is divided by the penalty."),
    (LENGTH_ALONE,
     {"score": lambda log_p, length, alpha: log_p / length**alpha},
     "The penalty is ((5 + |Y|) / 6) to the power of alpha."),
    ("`eos` kept in the result", {"keep_eos": True}, "The list is returned without `eos`."),
    ("the worst of the finished", {"pick": "worst"}, "The best score is the largest."),
]  # fmt: skip
SEARCH_BUT = [
    ("ended ones still go on", "no penalty at all"),
    ("the places of the ended ones left empty", "no penalty at all"),
    (LENGTH_ALONE, "the worst of the finished"),
    ("the states as they were", "ended ones still go on"),
    ("the states as they were", "the places of the ended ones left empty"),
]


def search(step, bos, eos, beam, max_length, alpha):
    return _search()(step, bos, eos, beam, max_length, alpha)


def _upside_down(log_p: float, length: int, alpha: float) -> float:
    return log_p * _lp(length, alpha)


# 13.3 a test for a beam, which is put to the searches of 13.9


def _without_states(step, bos, eos, beam, max_length, alpha):
    """Right, and keeps no state: what was written is read anew each time."""

    def told(ids: list[int]) -> list[float]:
        more, state = step(bos, None)
        for token in ids:
            more, state = step(token, state)
        return more

    still_open, best = [(0.0, [])], (-math.inf, None)
    for length in range(1, max_length + 1):
        grown = [
            (log_p + q, [*ids, i]) for log_p, ids in still_open for i, q in enumerate(told(ids))
        ]
        grown.sort(key=lambda one: -one[0])
        for log_p, ids in grown[:beam]:
            if ids[-1] == eos and log_p / _lp(length, alpha) > best[0]:
                best = log_p / _lp(length, alpha), ids[:-1]
        still_open = [one for one in grown[: 2 * beam] if one[1][-1] != eos][:beam]
    return still_open[0][1] if best[1] is None else best[1]


def _as_tuple(*case):
    return tuple(search(*case))


def _four_times_as_wide(step, bos, eos, beam, max_length, alpha):
    return search(step, bos, eos, 4 * beam, max_length, alpha)


def _greedy_search(step, bos, eos, beam, max_length, alpha):
    return search(step, bos, eos, 1, max_length, alpha)


RIGHT_SEARCHES: dict[str, Callable] = {
    "right": search,
    "right, without states": _without_states,
    "right, as a tuple": _as_tuple,
}
ALL_SEARCHES: dict[str, Callable] = {
    **RIGHT_SEARCHES,
    "nothing written": lambda *case: [],
    "the state of another hypothesis": _search("place"),
    "the first one's state for all": _search("first"),
    "no state handed on": _search("none"),
    "`bos` at every step": _search(at_start=True),
    "ended ones go on": _search(ended_goes_on=True, among=1),
    "the places of ended ones left empty": _search(among=1),
    "ends among the best 2N": _search(looked=2),
    "multiplied by the penalty": _search(score=_upside_down),
    "no penalty": _search(score=lambda log_p, length, alpha: log_p),
    "divided by the length": _search(score=lambda log_p, length, alpha: log_p / length),
    "`eos` not counted": _search(score=lambda log_p, length, a: log_p / _lp(length - 1, a)),
    "`eos` in the result": _search(keep_eos=True),
    "the worst of the finished": _search(pick="worst"),
    "the first that ends": _search(pick="first"),
    "the last that ends": _search(pick="last"),
    "stops when N have ended": _search(stop=True),
    "the newest token's probability alone": _search(alone=True),
    "nothing where none has ended": _search(or_open=False),
    "the ids in reverse": lambda *case: search(*case)[::-1],
    "a beam of one": _greedy_search,
    "a wider beam": _four_times_as_wide,
}


SEARCHES_WHY = {
    "nothing written":
        "It always gives an empty list. Any case shows it whose best translation has a word.",
    "the state of another hypothesis":
        "A hypothesis goes on with the state that stands at its own new place. It shows with a "
        "beam of two and decoders that depend on all that was read.",
    "the first one's state for all":
        "All go on with the first one's state. It shows with a beam of two and decoders that "
        "depend on all that was read.",
    "no state handed on":
        "`step` gets no state after the first. It shows with decoders that depend on more than the"
        " newest token.",
    "`bos` at every step": "`step` reads `bos` in place of the newest token. Two steps show it.",
    "ended ones go on":
        "What has said `eos` is grown further. It shows where a sentence ends before the last "
        "step.",
    "the places of ended ones left empty":
        "The beam gets narrower with each one that ends. It shows where one ends early and the "
        "best ends late.",
    "ends among the best 2N":
        "An `eos` outside the best N candidates ends a translation, too. It shows where such a one"
        " wins.",
    "multiplied by the penalty":
        "Log P is multiplied by the penalty. It shows with an alpha near 1 and two ends of unequal"
        " lengths.",
    "no penalty":
        "Alpha is not used. It shows with an alpha near 1 and two ends of unequal lengths.",
    "divided by the length":
        "The length itself is the penalty. It shows with ends of unequal lengths.",
    "`eos` not counted":
        "The length in the penalty is one too small. It shows where two ends have nearly equal "
        "scores: try several alphas.",
    "`eos` in the result": "The list ends with `eos`. Any case that ends shows it.",
    "the worst of the finished": "It gives the lowest score. It shows where two have ended.",
    "the first that ends": "It gives what ended first. It shows where a later one is better.",
    "the last that ends": "It gives what ended last. It shows where an earlier one is better.",
    "stops when N have ended":
        "It stops with the N-th end. It shows where a later one would be better: many steps.",
    "the newest token's probability alone": "Log P is that of the newest token. Two steps show it.",
    "nothing where none has ended":
        "It gives an empty list where nothing ends within the steps. A decoder that never says "
        "`eos` shows it.",
    "the ids in reverse":
        "It gives the ids from the last to the first. Compare the ids, not how many there are.",
    "a beam of one":
        "It decodes greedily. It shows where the likeliest first token leads to a worse "
        "translation.",
    "a wider beam":
        "It keeps four times as many. It shows where the best is found by those alone: a narrow "
        "beam, many tokens.",
}  # fmt: skip


def beam_right(search: Callable) -> bool:
    return _searches_compared()(search)


def _newest_alone(step: Callable, bos: int, *_: Any) -> bool:
    """Whether what a decoder says depends on the newest token only."""
    log_p, begun = step(bos, None)
    said = [
        step(bos, state)[0]
        for state in (None, begun, *(step(i, begun)[1] for i in range(min(3, len(log_p)))))
    ]
    return all(one == said[0] for one in said)


def _one_decoder(calls: list[tuple]) -> bool:
    """Whether all calls are made with the same decoder, or with equal ones."""
    try:
        return len({tuple(map(float, step(bos, None)[0])) for step, bos, *_ in calls}) == 1
    except Exception:  # not the arguments of the task
        return False


def _both(one: Lack, other: Lack, calls: list[tuple]) -> bool:
    return one(calls) and other(calls)


BEAM_LACKS: dict[str, Lack] = {
    "a beam of one": each(lambda step, bos, eos, beam, *_: beam == 1),
    "one step": each(lambda step, bos, eos, beam, max_length, alpha: max_length == 1),
    "decoders that know the newest token alone": each(_newest_alone),
    "no penalty in any case": each(lambda step, bos, eos, beam, max_length, alpha: alpha == 0),
    "one decoder": _one_decoder,
    "two steps": each(lambda step, bos, eos, beam, max_length, alpha: max_length <= 2),
}
BEAM_LACKS = {
    **{
        f"one decoder, and {name}": partial(_both, _one_decoder, lack)
        for name, lack in BEAM_LACKS.items()
        if name != "one decoder"
    },
    **BEAM_LACKS,
}


class Forgetful(Teller):
    """Knows the newest token alone."""

    def __call__(self, token: int, state: tuple | None) -> tuple[list[float], tuple]:
        return super().__call__(token, None)


def _searches_compared(
    right: Callable = search, look: Callable = list, kind: type = Teller, lift: float | None = None,
    beam: int | None = None, steps: int | None = None, alpha: float | None = None,
    some: slice = slice(None),
) -> Callable:  # fmt: skip
    """A test by comparison: with what, what of the ids is compared, and what is always the same."""
    cases = []
    for tells, bos, eos, n, longest, a in search_cases()[some]:
        ends = tells.lift if lift is None else lift
        step = kind(tells.seed, tells.size, tells.eos, tells.sharp, ends)
        cases.append((step, bos, eos, beam or n, steps or longest, a if alpha is None else alpha))
    return lambda given: all(look(given(*case)) == look(right(*case)) for case in cases)


BEAM_TEST_MISTAKES = mistakes(
    ("everything passes", lambda search: True,
     "A test that says yes to everything tests nothing."),
    ("nothing passes", lambda search: False, "The right ones must pass, however they are written."),
    ("yes and no exchanged", lambda search: not beam_right(search),
     "True is for a right search, False for a wrong one."),
    ("one decoder", _searches_compared(some=slice(1, 2)),
     "Most of the wrong ones are right with most decoders. Draw many, with several beams, lengths "
     "and alphas."),
    ("two steps", _searches_compared(steps=2),
     "After two steps little has gone on, and a state was handed on once. Take several."),
    ("a beam of one", _searches_compared(beam=1),
     "With one hypothesis there is nobody to be mixed up with. Try two and three."),
    ("no penalty in any case", _searches_compared(alpha=0.0),
     "Where alpha is 0 all lengths count the same, and nobody sees what the penalty does."),
    ("decoders that know the newest token alone", _searches_compared(kind=Forgetful),
     "If `step` does not use its state, nobody sees whose state it gets. Let what it says depend "
     "on all that was read."),
    ("decoders that never end", _searches_compared(lift=-9.0),
     "Where no translation ends, nothing is compared by its score, and nothing leaves the beam."),
    ("decoders that always end", _searches_compared(lift=3.0),
     "Sometimes nothing has ended when the steps are over: then the best open one is asked for."),
    ("one step", _searches_compared(steps=1),
     "After one step nothing has gone on yet. Take several."),
    *(
        (f"one decoder, and {name}", _searches_compared(some=slice(1, 2), **always),
         f"Most of the wrong ones are right with most decoders: draw many. And {why}")
        for name, always, why in (
            ("a beam of one", {"beam": 1},
             "with one hypothesis there is nobody to be mixed up with: try two and three."),
            ("one step", {"steps": 1}, "after one step nothing has gone on yet: take several."),
            ("two steps", {"steps": 2}, "after two steps little has gone on: take several."),
            ("no penalty in any case", {"alpha": 0.0},
             "where alpha is 0 all lengths count the same: take several alphas."),
            ("decoders that know the newest token alone", {"kind": Forgetful},
             "if `step` does not use its state, nobody sees whose state it gets."),
        )
    ),
    ("the first token alone", _searches_compared(look=lambda ids: list(ids)[:1]),
     "Searches that begin alike may part later. Compare all ids."),
    ("a list asked for", _searches_compared(look=lambda ids: ids),
     "A tuple of the right ids is right as well: `list(...)` makes one kind of both."),
    ("greedy decoding asked for", _searches_compared(right=_greedy_search),
     "A beam may find what greedy decoding misses: that is what it is for."),
    ("a wider beam asked for", _searches_compared(right=_four_times_as_wide),
     "A wider beam may find what this one has to drop. `beam` hypotheses go on, no more."),
    ("the likeliest asked for, without the penalty",
     _searches_compared(right=_search(score=lambda log_p, length, alpha: log_p)),
     "Of the finished ones the best *score* wins: log P divided by the penalty (13.5)."),
    ("ended ones asked to go on",
     _searches_compared(right=_search(ended_goes_on=True, among=1)),
     "What has ended leaves the beam, and the next open one takes its place."),
    ("an early stop asked for", _searches_compared(right=_search(stop=True)),
     "The search takes all its steps: what ends later may be better."),
    ("`eos` asked for in the result", _searches_compared(right=_search(keep_eos=True)),
     "The ids come without `eos`."),
)  # fmt: skip


def _one_dropped(*case):
    return search(*case)[:-1] if _search(keep_eos=True, or_open=False)(*case) else search(*case)


SEARCH_MISTAKES = mistakes(
    ("none of the three is mended", _search("place", True, _upside_down, among=1),
     "Look at whose state a hypothesis takes along, at what goes on, and at which side of the "
     "penalty a negative number wants to be. (While it is multiplied by the penalty, nobody can "
     "see whether ended ones go on: they lose.)"),
    ("the states and the penalty as they were", _search("place", score=_upside_down),
     "What has ended goes on no more. Two are left: whose state a hypothesis takes along, and the "
     "penalty."),
    ("the states as they were", _search("place"),
     "Two are mended. A hypothesis goes on from its parent, and so does its state: "
     "`states[parent]`, whatever its own place is now."),
    ("the penalty as it was", _search(score=_upside_down),
     "The states are right. Log P is negative: multiplied by the penalty, long translations lose "
     "still more. It is divided. (Until then nobody can see whether ended ones go on: they lose.)"),
    ("ended ones still go on", _search(ended_goes_on=True, among=1),
     "Two are mended. A hypothesis that has said `eos` leaves the beam, and the next open one "
     "takes its place."),
    ("ended ones still go on, with the states as they were",
     _search("place", True, among=1),
     "The penalty is right. Two are left: whose state a hypothesis takes along, and what goes on."),
    ("the places of the ended ones left empty", _search(among=1),
     "N hypotheses always go on. Look through 2N candidates, of which at most N end."),
    ("the places of the ended ones left empty, with the states as they were",
     _search("place", among=1),
     "N hypotheses always go on, each with the state of its own parent."),
    ("`eos` behind the first N ends a sentence", _search(looked=2),
     "Only an `eos` among the best N candidates ends a translation, as before."),
    ("everybody takes the first one's state", _search("first"),
     "Each hypothesis goes on from its own parent, with that parent's state."),
    ("the state of the last hypothesis for all", _search(states="last"),
     "Each hypothesis that goes on takes the state of its own parent."),
    ("the worst candidates kept", _search(downwards=False),
     "Logarithms of probabilities are below zero: the best is the largest, so sort downwards."),
    ("no state is handed on", _search("none"),
     "`step` gets the state that its parent's call returned, or it forgets what was written."),
    ("`eos` kept in the result", _search(keep_eos=True),
     "The list is returned without `eos`."),
    ("no penalty at all", _search(score=lambda log_p, length, alpha: log_p),
     "Finished translations are compared by log P divided by the penalty."),
    ("divided by the length", _search(score=lambda log_p, length, alpha: log_p / length),
     "The penalty is ((5 + length) / 6) to the power of alpha."),
    ("`eos` not counted in the length",
     _search(score=lambda log_p, length, alpha: log_p / _lp(length - 1, alpha)),
     "|Y| counts `eos`, too: it is the number of the step."),
    ("nothing where none has finished", _search(or_open=False),
     "If none has finished within the limit, the best that is open is returned."),
    ("the worst of the finished", _search(pick="worst"),
     "Scores are below zero: the largest, the nearest to zero, is the best."),
    ("the first that ends wins", _search(pick="first"),
     "Of all that have ended, the best score wins."),
    ("the last that ends wins", _search(pick="last"),
     "Of all that have ended, the best score wins."),
    ("`bos` handed in at every step", _search(at_start=True),
     "After the first step the newest token goes in."),
    ("stopped when N have ended", _search(stop=True),
     "All `max_length` steps are taken: what ends later may be better."),
    ("the new token's probability alone", _search(alone=True),
     "A candidate has the log-probability of its parent and that of the new token."),
    ("stopped as soon as the best that is open has the lower log P", _search(bound=True),
     "With a penalty an open one may be forgiven more, and overtake. The task takes all "
     "`max_length` steps."),
    ("the open ones compared with the finished", _search(with_open=True),
     "Those that are open at the end count only if nothing has finished."),
    ("every `eos` ends a translation", _search(looked=1000),
     "Only an `eos` among the best N candidates ends a translation, as before."),
    ("6 in place of 5 in the penalty",
     _search(score=lambda log_p, length, alpha: log_p / _lp(length + 1, alpha)),
     "The penalty is ((5 + |Y|) / 6) to the power of alpha, and |Y| is the number of the step."),
    ("the penalty without its power, or with a power of the 6 alone",
     _search(score=lambda log_p, length, alpha: log_p / _lp(length, 1.0)),
     "The whole fraction (5 + |Y|) / 6 is taken to the power of alpha. Without brackets around it "
     "the power is one of the 6, and that changes no order."),
    ("5 + |Y| / 6, with the power on the 6, in the penalty",
     _search(score=lambda log_p, length, alpha: log_p / (5 + length / 6**alpha)),
     "The whole fraction (5 + |Y|) / 6 is taken to the power of alpha: both need brackets."),
    ("5 + |Y| / 6 in the penalty",
     _search(score=lambda log_p, length, alpha: log_p / (5 + length / 6) ** alpha),
     "The whole sum is divided by 6: ((5 + |Y|) / 6) to the power of alpha."),
    (LENGTH_ALONE,
     _search(score=lambda log_p, length, alpha: log_p / length**alpha),
     "The penalty is ((5 + |Y|) / 6) to the power of alpha."),
    ("a beam of one", lambda step, bos, eos, beam, max_length, alpha: search(
         step, bos, eos, 1, max_length, alpha),
     "`beam` hypotheses go on, not only the best."),
    ("as many fewer go on as have ended, and always one", _search(shrink=1),
     "N hypotheses always go on. What has ended takes no place."),
    ("as many fewer go on as have ended", _search(shrink=0),
     "N hypotheses always go on: what has ended does not count among them."),
    ("the best open one, whatever has finished", _search(only_open=True),
     "Of those that have ended the best score wins. Open ones count only if nothing has finished."),
    ("stopped when N have ended, and `eos` kept in the result", _search(stop=True, keep_eos=True),
     "All `max_length` steps are taken, and the list is returned without `eos`."),
    ("only the best candidate may end", _search(ends=1),
     "Each candidate with `eos` among the best N ends a translation, not only the very best."),
    ("N + 1 candidates looked through", _search(window=1),
     "Of the best N all may end: look through 2N, so that N go on."),
    *combined(_search, SEARCH_SLIPS, but=SEARCH_BUT),
    ("the last token dropped, too", _one_dropped,
     "`eos` alone is taken off the end."),
    ("lengths counted from 0, and one step too many", _search(counted_from=0),
     "After the first step a hypothesis has one token: the lengths go from 1 to max_length."),
    ("lengths counted from 2, and one step too few", _search(counted_from=2),
     "After the first step a hypothesis has one token: the lengths go from 1 to max_length."),
    ("all of the best 2N that have not ended go on", _search(wide=2, among=2),
     "N hypotheses go on: of the best 2N candidates the first N that have not ended."),
    ("all candidates that have not ended go on", _search(wide=1000),
     "N hypotheses go on: the best that have not ended."),
    ("the finished compared by their ids", _search(pick="by its ids"),
     "The best score wins: compare the first of each pair."),
    ("the worst of the open ones where none has finished", _search(open_one=-1),
     "The best is returned: the open ones are sorted, the best first."),
    ("one step too many", lambda step, bos, eos, beam, max_length, alpha: search(
         step, bos, eos, beam, max_length + 1, alpha),
     "The search takes `max_length` steps, and `eos` counts as one of the tokens."),
    ("one step too few", lambda step, bos, eos, beam, max_length, alpha: search(
         step, bos, eos, beam, max_length - 1, alpha),
     "All `max_length` steps are taken."),
    ("the longest of the finished", _search(pick="longest"),
     "The best score wins, whatever the length."),
)  # fmt: skip


# 13.10 what an open hypothesis can come to


def highest_score(log_p: float, length: int, max_length: int, alpha: float, top: float) -> float:
    return _highest()(log_p, length, max_length, alpha, top)


HIGHEST_CASES = [
    (-2.0, 2, 4, 1.0, 0.5),
    (-2.0, 2, 4, 1.0, 1.0),
    (-6.5, 4, 30, 0.6, 0.8),
    (-9.0, 3, 12, 0.6, 0.8),
    (-1.2, 5, 6, 0.6, 0.7),
    (-3.3, 0, 9, 1.4, 0.6),
    (-0.4, 1, 8, 0.0, 0.95),
    (-5.0, 7, 20, 0.6, 1.0),
    (-0.1, 1, 40, 3.0, 0.5),  # falls, and then rises
]


def _highest(
    first: int = 1,
    last: int = 0,
    best: Callable = max,
    gain: Callable = lambda k, top: k * math.log(top),
    score: Callable = lambda total, k, alpha: total / _lp(k, alpha),
    ends: str = "all",
) -> Callable:
    def answer(log_p, length, max_length, alpha, top):
        lengths = list(range(length + first, max_length + 1 + last))
        lengths = {"all": lengths, "last": lengths[-1:], "first": lengths[:1],
                   "ends": [lengths[0], lengths[-1]]}[ends]  # fmt: skip
        return best(score(log_p + gain(k - length, top), k, alpha) for k in lengths)

    return answer


HIGHEST_SLIPS = [
    ("always the longest", {"ends": "last"}, "The highest may lie between the ends."),
    ("`eos` for nothing", {"gain": lambda k, top: (k - 1) * math.log(top)}, "`eos` costs, too."),
    ("the probability itself is added", {"gain": lambda k, top: k * top}, "Logarithms are added."),
    ("one token's cost too many", {"gain": lambda k, top: (k + 1) * math.log(top)},
     "k - `length` are to come."),
    ("the tokens gain", {"gain": lambda k, top: -k * math.log(top)}, "Each token costs."),
    ("the logarithm to base 2", {"gain": lambda k, top: k * math.log2(top)},
     "log P is the natural logarithm."),
    ("the logarithm to base 10", {"gain": lambda k, top: k * math.log10(top)},
     "log P is the natural logarithm."),
    ("multiplied by the penalty", {"score": lambda total, k, alpha: total * _lp(k, alpha)},
     "The score divides by the penalty."),
    ("no penalty", {"score": lambda total, k, alpha: total}, "Divide by the penalty."),
    ("the length to the power of alpha as the penalty",
     {"score": lambda total, k, alpha: total / k**alpha},
     "The penalty is ((5 + |Y|) / 6) to the power of alpha."),
    ("the penalty of one token fewer",
     {"score": lambda total, k, alpha: total / _lp(k - 1, alpha)}, "`eos` is counted."),
]  # fmt: skip
HIGHEST_BUT = [  # the longest is the highest
    ("always the longest", "the probability itself is added"),
    ("always the longest", "the tokens gain"),
]


def _to_the_first_fall(log_p, length, max_length, alpha, top):
    scores = [
        (log_p + (k - length) * math.log(top)) / _lp(k, alpha)
        for k in range(length + 1, max_length + 1)
    ]
    return next((a for a, b in pairwise(scores) if b < a), scores[-1])


HIGHEST_MISTAKES = mistakes(
    ("the cost of as many tokens as there are, and not of those to come",
     lambda log_p, length, *rest: _highest(gain=lambda k, top: length * math.log(top))(
         log_p, length, *rest),
     "Each token that is to come costs, and there are k - `length` of them."),
    ("both lengths added for the tokens to come",
     lambda log_p, length, *rest: _highest(
         gain=lambda k, top: (k + 2 * length) * math.log(top))(log_p, length, *rest),
     "k - `length` tokens are to come."),
    ("5 in place of the 6 in the penalty",
     _highest(score=lambda total, k, alpha: total / ((5 + k) / 5) ** alpha),
     "The penalty is ((5 + |Y|) / 6) to the power of alpha."),
    ("the penalty without the 5",
     _highest(score=lambda total, k, alpha: total / (k / 6) ** alpha),
     "The penalty is ((5 + |Y|) / 6) to the power of alpha."),
    ("the penalty without the length",
     _highest(score=lambda total, k, alpha: total / (5 / 6) ** alpha),
     "The penalty is ((5 + |Y|) / 6) to the power of alpha."),
    ("the limit left out", lambda log_p, length, max_length, alpha, top: max(
         ((log_p + (k - length) * math.log(top)) / _lp(k, alpha)
          for k in range(length + 1, max_length)), default=-math.inf),
     "At most `max_length` tokens, `eos` among them: that many are allowed."),
    *combined(_highest, HIGHEST_SLIPS, but=HIGHEST_BUT),
    ("the chapter's bound", _highest(gain=lambda k, top: 0.0, ends="last"),
     "That is the bound for `top` = 1: nothing is lost on the way, and the longest is forgiven "
     "most. Here every further token costs at least -ln(top)."),
    ("always the longest", _highest(ends="last"),
     "A longer one is forgiven more, and loses more on the way. Where the two balance lies between "
     "the ends, or at one of them."),
    ("always the shortest", _highest(ends="first"),
     "The next token may be `eos`. But if tokens are likely, a longer translation can "
     "come to more."),
    ("only the two ends", _highest(ends="ends"),
     "For small alpha the highest score can lie between the ends: try all lengths, or set the "
     "derivative to zero."),
    ("no further than to the first fall", _to_the_first_fall,
     "With an alpha above 1 it may fall first, and rise again: try all lengths."),
    ("it may end where it stands", _highest(first=0),
     "It is open: at least `eos` is still to come."),
    ("one token too many", _highest(last=1), "At most `max_length` tokens, `eos` among them."),
    ("one token too few", lambda log_p, length, max_length, alpha, top: highest_score(
         log_p, length, max(max_length - 1, length + 1), alpha, top),
     "At most `max_length` tokens, `eos` among them: that many are allowed."),
    ("`eos` for nothing", _highest(gain=lambda k, top: (k - 1) * math.log(top)),
     "`eos` is a token like the others and has a probability of at most `top`, too."),
    ("the logarithm to base 10, and the lowest score",
     _highest(gain=lambda k, top: k * math.log10(top), best=min),
     "log P is the natural logarithm, and the most is asked for."),
    ("the lowest score", _highest(best=min), "Asked for is the most that it can come to."),
    ("the probability of all further tokens is added", _highest(gain=lambda k, top: top**k),
     "Logarithms are added: k tokens of probability `top` add k ln(top), below zero."),
    ("the probability itself is added", _highest(gain=lambda k, top: k * top),
     "Logarithms are added: a token of probability `top` adds ln(top), below zero."),
    ("`max_length` further tokens",
     lambda log_p, length, max_length, alpha, top: highest_score(
         log_p, length, length + max_length, alpha, top
     ),
     "`max_length` counts all tokens, those that are there among them."),
    ("one further token's cost for all", _highest(gain=lambda k, top: math.log(top)),
     "Each further token costs -ln(top): with k of them, k times that."),
    ("the cost of all tokens, of the old ones too",
     lambda log_p, length, max_length, alpha, top: max(
         (log_p + k * math.log(top)) / _lp(k, alpha) for k in range(length + 1, max_length + 1)),
     "`log_p` has the old tokens already. Only the further ones cost."),
    ("the tokens gain", _highest(gain=lambda k, top: -k * math.log(top)),
     "A probability below 1 lowers log P."),
    ("multiplied by the penalty",
     _highest(score=lambda total, k, alpha: total * _lp(k, alpha)),
     "The score divides log P by the penalty."),
    ("the penalty of the length so far",
     lambda log_p, length, max_length, alpha, top: log_p / _lp(length, alpha),
     "This is the score if it stopped here. It goes on, and is compared when it has ended."),
    ("no penalty", _highest(score=lambda total, k, alpha: total),
     "What is compared is log P divided by the penalty of the final length."),
    ("the length to the power of alpha as the penalty",
     _highest(score=lambda total, k, alpha: total / k**alpha),
     "The penalty of score (13.5) is ((5 + |Y|) / 6) to the power of alpha, not |Y| to it."),
    ("the length as the penalty", _highest(score=lambda total, k, alpha: total / k),
     "The penalty of score (13.5) is ((5 + |Y|) / 6) to the power of alpha, not |Y|."),
    *(
        (f"the power on the 6 alone{more}", _highest(
            score=lambda total, k, alpha, by=by: total / by(k, alpha)),
         "The whole fraction (5 + |Y|) / 6 is taken to the power of alpha. In Python `**` comes "
         "before `/`, and `/` before `+`: brackets say what belongs together.")
        for more, by in (
            ("", lambda k, alpha: (5 + k) / 6**alpha),
            (", and |Y| alone divided by it", lambda k, alpha: 5 + k / 6**alpha),
        )
    ),
    ("the penalty without its power",
     _highest(score=lambda total, k, alpha: total * 6 / (5 + k)),
     "(5 + |Y|) / 6 is taken to the power of alpha."),
    ("the 6 outside of the power",
     _highest(score=lambda total, k, alpha: total * 6 / (5 + k) ** alpha),
     "The whole fraction (5 + |Y|) / 6 is taken to the power of alpha, the 6 as well."),
    ("the penalty without the 6",
     _highest(score=lambda total, k, alpha: total / (5 + k) ** alpha),
     "The penalty is ((5 + |Y|) / 6) to the power of alpha: for one token it is 1."),
    ("alpha times the fraction in place of its power",
     _highest(score=lambda total, k, alpha: total / (alpha * (5 + k) / 6) if alpha else -math.inf),
     "alpha is the exponent of (5 + |Y|) / 6. With alpha = 0 the penalty is 1."),
    ("6 in place of 5 in the penalty",
     _highest(score=lambda total, k, alpha: total / _lp(k + 1, alpha)),
     "The penalty is ((5 + |Y|) / 6) to the power of alpha, and |Y| counts each token once."),
    ("the penalty of one token fewer",
     _highest(score=lambda total, k, alpha: total / _lp(k - 1, alpha)),
     "The penalty is that of the final length, and `eos` is counted in it."),
    ("the penalty of the further tokens alone",
     lambda log_p, length, max_length, alpha, top: max(
         (log_p + k * math.log(top)) / _lp(k, alpha) for k in range(1, max_length - length + 1)),
     "|Y| counts all tokens, those that are there and those to come."),
    ("the logarithm to base 10", _highest(gain=lambda k, top: k * math.log10(top)),
     "log P is the natural logarithm."),
    ("log P multiplied by the probability of the further tokens",
     lambda log_p, length, max_length, alpha, top: max(
         log_p * top ** (k - length) / _lp(k, alpha) for k in range(length + 1, max_length + 1)),
     "Probabilities are multiplied, and their logarithms added: with k further tokens log P "
     "becomes log P + k ln(top)."),
    ("one token more, with the penalty of the length so far",
     lambda log_p, length, max_length, alpha, top: (log_p + math.log(top)) / _lp(length, alpha),
     "The penalty is that of the final length, at least `length` + 1; and a longer one may come to "
     "more."),
    ("the logarithm to base 2", _highest(gain=lambda k, top: k * math.log2(top)),
     "log P is the natural logarithm."),
    ("the best length",
     lambda log_p, length, max_length, alpha, top: max(
         range(length + 1, max_length + 1),
         key=lambda k: (log_p + (k - length) * math.log(top)) / _lp(k, alpha)),
     "That is the length at which the score is highest. Asked for is the score."),
    ("one token's cost too many", _highest(gain=lambda k, top: (k + 1) * math.log(top)),
     "With k tokens in the end, k - `length` are still to come, `eos` among them."),
    ("the scores of all lengths", lambda log_p, length, max_length, alpha, top: [
         (log_p + (k - length) * math.log(top)) / _lp(k, alpha)
         for k in range(length + 1, max_length + 1)],
     "Asked for is the highest of them, one number."),
    ("5 + |Y| / 6 in the penalty",
     _highest(score=lambda total, k, alpha: total / (5 + k / 6) ** alpha),
     "The whole sum is divided by 6: ((5 + |Y|) / 6) to the power of alpha."),
    ("alpha on the length alone",
     _highest(score=lambda total, k, alpha: total / ((5 + k**alpha) / 6**alpha)),
     "The whole of (5 + |Y|) / 6 is taken to the power of alpha."),
    ("alpha on the length alone, and the 6 as it is",
     _highest(score=lambda total, k, alpha: total / ((5 + k**alpha) / 6)),
     "The whole of (5 + |Y|) / 6 is taken to the power of alpha."),
    ("lengths that it has passed already, too",
     lambda log_p, length, max_length, alpha, top: max(
         (log_p + (k - length) * math.log(top)) / _lp(k, alpha) for k in range(1, max_length + 1)),
     "It has `length` tokens already: it ends with `length` + 1 of them, or more."),
)  # fmt: skip


# 13.11 a trap for a beam


def trap(beam: int) -> tuple[list, list]:
    return _trap()(beam)


class Trapped(dict):
    """What a beam makes of a trap, and why no second word can make it one."""

    hopeless = ""


def _trapped(answer: Callable, beam: int) -> dict[str, bool]:
    """What a beam of that width, and one less, make of the probabilities that an answer gives."""
    given = answer(beam)
    if not (isinstance(given, list | tuple) and len(given) == 2):
        raise ValueError(f"expected a pair, (first, second), got {kind(given)}")
    first, second = given
    if any(not isinstance(x, str) and kind(x) != "a number" and len(x) > 1 for x in first):
        raise ValueError("first: expected V numbers, got rows of numbers")
    p = torch.tensor([float(x) for x in first], dtype=torch.float64)
    if any(kind(row) == "a number" for row in second):
        raise ValueError("expected V rows of V probabilities for second, got one row of numbers")
    q = torch.tensor([[float(x) for x in row] for row in second], dtype=torch.float64)
    if q.shape != (len(p), len(p)):
        raise ValueError(f"second: expected {len(p)} rows of {len(p)}, got {tuple(q.shape)}")
    rows = torch.cat([p[None], q])
    if rows.min() < -0.01:
        raise ValueError("expected probabilities, got numbers below 0, as logarithms are")
    if (q.sum(1) - 1).abs().max() > 1e-5 > (q.sum(0) - 1).abs().max():
        raise ValueError(
            "expected rows of second that sum to one, got columns that do: second[i][j] is the "
            "probability of word j behind word i"
        )
    proper = bool((rows >= 0).all() and (rows.sum(1) - 1).abs().max() < 1e-5)
    both = p[:, None] * q
    best = both.flatten().argmax().item() // len(p)
    top = both.flatten().topk(min(2, both.numel())).values
    ranked = p.sort(descending=True)
    edges = ranked.values[:-1] - ranked.values[1:]
    place = ranked.indices.tolist().index(best)
    found = Trapped({
        "all rows are probabilities": proper,
        "one sentence is the best": bool(len(top) > 1 and top[0] - top[1] > 1e-6),
        "no two first words are equal": bool((edges[:beam] > 1e-6).all()),
        "the beam finds the best": place < beam,
        "a beam of one less misses it": place >= beam - 1,
    })  # fmt: skip
    if beam <= len(p):
        last, before = ranked.values[beam - 1], both[ranked.indices[: beam - 1]].max()
        if last <= before:
            found.hopeless = (
                f"With beam = {beam} the {beam}{'nd' if beam == 2 else 'rd' if beam == 3 else 'th'}"
                f" likeliest first word has {last:.2g}: even with a sure word behind it, that is no"
                f" more than the {before:.2g} of a sentence with a likelier one. Let the first "
                "words be nearly alike, and many words share behind the likelier ones."
            )
    return found


def _trap(
    width: int = 0, factor: float = 1.0, even: bool = False, tie: bool = False,
    same: bool = False, flat: bool = False, last: bool = False,
) -> Callable:  # fmt: skip
    """`beam` first words that fall slowly; the last of them alone has a sure next word."""

    def answer(beam: int) -> tuple[list, list]:
        n = max(1, (width or beam) + (1 if last else 0))
        V = max(beam, n) + 4
        weights = [100.0 - i if i < n else 0.1 - 0.01 * i for i in range(V)]
        if same:
            weights = [100.0] * n + weights[n:]
        if flat:
            weights = [100.0 - i for i in range(V)]
        p = [w / sum(weights) for w in weights]
        even_row = [(1.0 + 0.001 * j) / sum(1.0 + 0.001 * k for k in range(V)) for j in range(V)]
        sure = [1.0 if j == 1 else 0.0 for j in range(V)]
        if tie:
            sure = [0.5 if j in (1, 2) else 0.0 for j in range(V)]
        q = [list(sure) if i == n - 1 and not even else list(even_row) for i in range(V)]
        return [factor * x for x in p], q

    return answer


TRAP_WHY = {
    "all rows are probabilities":
        "`first` and each row of `second` is to have numbers of at least 0 that sum to one.",
    "one sentence is the best":
        "Two sentences are level at the top. Behind the first word of the best one a single word "
        "must be ahead of all others.",
    "no two first words are equal":
        "Of two first words that are equally likely a beam keeps one by chance. Let all those that "
        "count fall.",
    "the beam finds the best":
        "The best sentence begins with a word that even the beam of `beam` has dropped.",
    "a beam of one less misses it":
        "The best sentence begins with a word that the narrower beam keeps, too. Behind the "
        "`beam`-th word one word must be nearly certain, and behind the likelier ones many must "
        "share.",
}  # fmt: skip


def _not_so(cases: Sequence[Case], got: Sequence, want: Sequence) -> tuple[str, str] | None:
    """What is asked of a trap and not so, with the reasons."""
    bad = [(g, w) for g, w in zip(got, want, strict=True) if g != w]
    if not bad or not (lack := lacking(*bad[0])):
        return None
    given, asked = bad[0]
    if not given["a beam of one less misses it"] and getattr(given, "hopeless", ""):
        improper = TRAP_WHY["all rows are probabilities"]
        return lack, given.hopeless + f" {improper}" * (not given["all rows are probabilities"])
    return lack, " ".join(why for name, why in TRAP_WHY.items() if given[name] != asked[name])


TRAP_MISTAKES = mistakes(
    ("the same trap for every beam", _trap(width=2),
     "It holds greedy decoding and nobody else. For a beam of N the best sentence begins with the "
     "word that is N-th among the first ones."),
    ("a beam of one less finds it as well", _trap(even=True),
     "The best sentence begins with a word that the narrower beam keeps, too. It must begin with "
     "the word that is N-th among the first ones, with something so much better behind it that its "
     "sentence wins."),
    ("everything equally likely",
     lambda beam: ([0.1] * 10, [[0.1] * 10 for _ in range(10)]),
     "Then a search has nothing to choose. Let the first words fall, and one of them alone have a "
     "sure word behind it."),
    ("too deep for the beam itself", _trap(last=True),
     "A beam of N drops the word that is N + 1-st among the first ones, too."),
    ("not probabilities", _trap(factor=2.0), "Each row sums to one, and the first words do too."),
    ("two sentences are the best", _trap(tie=True),
     "With two equal sentences it is chance which of them a search finds. One must be the best."),
    ("first words of equal probability", _trap(same=True),
     "Which of two equal words a beam keeps is chance. Let one be ahead."),
)  # fmt: skip


EXERCISES = [
    Exercise(
        number="13.1",
        title="predict, then try: what greedy decoding notices",
        section="One token at a time",
        reference=unnoticed,
        mistakes=mistakes(
            *_doubts(CHANGES, "True is for a change that leaves every translation as it was.")
        ),
        canonical=booleans,
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
        title="a test for a beam",
        section="Beam search",
        reference=beam_right,
        cases=[()],
        mistakes=BEAM_TEST_MISTAKES,
        probe=verdicts_on(ALL_SEARCHES, BEAM_LACKS),
        invariants=rules(RIGHT_SEARCHES, SEARCHES_WHY),
        seconds=60.0,
    ),
    Exercise(
        number="13.4",
        title="one step of a beam",
        section="The search in tensors",
        reference=beam_step,
        cases=beam_cases,
        mistakes=BEAM_MISTAKES,
        canonical=_in_order,
    ),
    Exercise(
        number="13.5",
        title="typical sampling",
        section="Sampling",
        reference=typical,
        cases=typical_cases,
        mistakes=TYPICAL_MISTAKES,
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
        title="several tokens into the cache",
        section="What is computed again and again",
        reference=read_on,
        cases=cache_cases,
        mistakes=CACHE_MISTAKES,
    ),
    Exercise(
        number="13.7",
        title="tables that turn",
        section="BLEU by hand",
        reference=turned,
        cases=[(2,), (3,), (6,)],
        mistakes=TURNED_MISTAKES,
        probe=_table,
        invariants=Family(_by_how_much),
    ),
    Exercise(
        number="13.8",
        title="predict, then try: what is certain",
        section="How wide a beam?",
        reference=certain,
        mistakes=mistakes(*_doubts(CLAIMS, "True is for what is certain.")),
        canonical=booleans,
    ),
    Exercise(
        number="13.9",
        title="find the mistakes in a beam",
        section="Beam search",
        reference=search,
        cases=more_search_cases,
        mistakes=SEARCH_MISTAKES,
        canonical=_tokens,
    ),
    Exercise(
        number="13.10",
        title="what an open one can come to",
        section="The search in tensors",
        reference=highest_score,
        cases=HIGHEST_CASES,
        mistakes=HIGHEST_MISTAKES,
        canonical=float,
    ),
    Exercise(
        number="13.11",
        title="a trap for a beam",
        section="The likeliest word is not in the likeliest sentence",
        reference=trap,
        cases=[(2,), (3,), (5,)],
        mistakes=TRAP_MISTAKES,
        probe=_trapped,
        invariants=Family(_not_so),
    ),
]
