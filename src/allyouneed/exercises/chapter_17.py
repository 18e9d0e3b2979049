"""The exercises of chapter 17, long inputs: references, cases, mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate, combinations, product
from operator import mul
from typing import Any

import torch
from torch import Tensor

from .compare import same, show
from .core import Case, Exercise, Family, Invariant, Mistake, Naming, mistakes
from .pairs import combined
from .predictions import words
from .suspects import moved, rules, said_closely, spoken

# 17.1 count the pairs


def count_pairs(length: int, window: int, causal: bool) -> int:
    one_side = sum(length - away for away in range(1, min(window, length)))
    return length + one_side * (1 if causal else 2)


COUNT_CASES = [
    (1_000_000, 3, True),
    (1_000_000, 50, False),
    (5, 2, True),
    (5, 2, False),
    (7, 3, False),
    (7, 3, True),
    (6, 1, True),
    (6, 1, False),
    (4, 9, True),
    (4, 9, False),
    (20, 6, True),
    (1000, 64, False),
]


def _keys(window: int, causal: bool) -> int:
    return window if causal else 2 * window - 1


def _one_side(length: int, window: int) -> int:
    return sum(length - away for away in range(1, window))


def _pairs(
    further: int = 0,
    sides: str = "given",
    itself: bool = True,
    ends: bool = True,
    cut: bool = True,
) -> Callable[[int, int, bool], int]:
    """The count, right by default; each argument makes one mistake."""

    def count(n: int, w: int, causal: bool) -> int:
        known = {"given": causal, "causal": True, "two": False, "exchanged": not causal}
        w = max((min(w, n) if cut else w) + further, 0)
        total = count_pairs(n, w, known[sides]) if ends else n * _keys(w, known[sides])
        if not cut:
            total = n + _one_side(n, w) * (1 if known[sides] else 2)
        return (total if w else 0) - n * (not itself)

    return count


COUNT_SLIPS = [
    ("one position too far", {"further": 1}, "The distance goes up to window - 1."),
    ("one position too few", {"further": -1}, "The distance goes up to window - 1."),
    ("always causal", {"sides": "causal"},
     "Two-sided, a query also sees the window - 1 positions behind it."),
    ("always two-sided", {"sides": "two"},
     "If `causal`, the pairs above the diagonal do not count."),
    ("causal and two-sided exchanged", {"sides": "exchanged"},
     "If `causal` is True, only one side of the diagonal counts."),
    ("positions do not see themselves", {"itself": False}, "The main diagonal counts."),
    ("the ends forgotten", {"ends": False}, "Queries near the ends have fewer keys."),
    ("a window wider than the input not cut", {"cut": False},
     "No two positions are further apart than length - 1: take the smaller of the two."),
]  # fmt: skip


COUNT_KNOWN = [("the ends forgotten", "a window wider than the input not cut")]


def _corner(length: int, window: int) -> int:
    """The causal pairs: a corner of 1 + 2 + ... + window, and full rows."""
    return window * (window + 1) // 2 + (length - window) * window


COUNT_MISTAKES = mistakes(
    ("all pairs, the future too, where the window is wider than the input",
     lambda n, w, causal: n * n if w >= n else count_pairs(n, w, causal),
     "A causal window, however wide, ends at the query: n (n + 1) / 2 pairs."),
    ("a window wider than the input in the two-sided case",
     lambda n, w, causal: count_pairs(n, w, True) if causal else n + 2 * _one_side(n, w),
     "Two-sided, too, no diagonal lies further away than length - 1."),
    ("the share of the pairs", lambda n, w, causal: count_pairs(n, w, causal) / n**2,
     "Asked for is their number."),
    ("the right end forgotten in the two-sided case",
     lambda n, w, causal: count_pairs(n, w, True) + (0 if causal else n * (w - 1)),
     "Two-sided, keys are missing at both ends: before the first position and behind the last."),
    ("two-sided taken as twice the causal number, and a window wider than the input",
     lambda n, w, causal: (n + _one_side(n, w)) * (1 if causal else 2),
     "The main diagonal lies in both halves and counts once. And no diagonal lies further away "
     "than length - 1."),
    ("a window of `window` keys in all, half of it on either side",
     lambda n, w, causal: count_pairs(n, w if causal else (w + 1) // 2, causal),
     "Two-sided, a query sees the positions less than `window` away on *either* side."),
    ("causal and two-sided exchanged", lambda n, w, causal: count_pairs(n, w, not causal),
     "If `causal` is True, a query sees one side only, and there are fewer pairs."),
    ("each side as far as the last whole window",
     lambda n, w, causal: (
         n + (min(w, n) - 1) * (n - min(w, n)) * (1 if causal else 2)
     ),
     "The diagonal at the distance a has n - a pairs: n - 1, n - 2, ..., n - (w - 1)."),
    ("twice the causal number, less one",
     lambda n, w, causal: (
         count_pairs(n, w, True) if causal else 2 * count_pairs(n, w, True) - 1
     ),
     "The main diagonal, all `length` pairs of it, lies in both halves and counts once."),
    ("length and window exchanged", lambda n, w, causal: count_pairs(w, n, causal),
     "The first argument is the length of the input, the second the window."),
    ("length and window exchanged, and a window wider than the input",
     lambda n, w, causal: w + _one_side(w, n) * (1 if causal else 2),
     "The first argument is the length of the input, the second the window."),
    ("one position too few, with the window cut to the input",
     lambda n, w, causal: (
         _corner(n, min(w - 1, n)) if causal else 2 * _corner(n, min(w - 1, n)) - n
     ),
     "The distance goes up to window - 1: a window of 1 is the position itself."),
    ("half of the two-sided number",
     lambda n, w, causal: count_pairs(n, w, False) // (2 if causal else 1),
     "The main diagonal lies in both halves: the causal number is half of it and half of `length` "
     "more."),
    ("the window cut to one less than the input",
     lambda n, w, causal: count_pairs(n, min(w, n - 1), causal),
     "A window as wide as the input, or wider, lets the last query see the first position."),
    ("one full row too many",
     lambda n, w, causal: (lambda pairs: pairs if causal else 2 * pairs - n)(
         _corner(n, min(w, n)) + min(w, n)
     ),
     "The first w rows are the corner, 1 + 2 + ... + w. Of rows with w keys length - w are left."),
    ("one position too few, and nothing for a window of 1", _pairs(further=-1),
     "The distance goes up to window - 1: a window of 1 is the position itself."),
    ("the ends forgotten", lambda n, w, causal: n * _keys(w, causal),
     "Queries near the ends have fewer keys: there is nothing before the first position and "
     "nothing behind the last."),
    ("the ends forgotten, with a window no wider than the input",
     lambda n, w, causal: n * min(n, _keys(w, causal)),
     "Queries near the ends have fewer keys: there is nothing before the first position and "
     "nothing behind the last."),
    ("the ends forgotten, with the window cut to the input",
     lambda n, w, causal: n * _keys(min(w, n), causal),
     "Queries near the ends have fewer keys: there is nothing before the first position and "
     "nothing behind the last."),
    ("the ends forgotten in the causal case",
     lambda n, w, causal: n * min(w, n) if causal else count_pairs(n, w, False),
     "The first queries have fewer keys, since there is nothing before the first position."),
    ("the ends forgotten in the two-sided case",
     lambda n, w, causal: count_pairs(n, w, True) if causal else n * _keys(min(w, n), False),
     "Queries near the ends have fewer keys: there is nothing before the first position and "
     "nothing behind the last."),
    ("one position too far in the two-sided case",
     lambda n, w, causal: count_pairs(n, w if causal else w + 1, causal),
     "Two-sided, too, the distance goes up to window - 1."),
    ("all pairs", lambda n, w, causal: n * n,
     "That is full attention. Only pairs that are fewer than `window` positions apart count."),
    ("all pairs that are not in the future",
     lambda n, w, causal: n * (n + 1) // 2 if causal else n * n,
     "That is attention without a window. Only pairs that are fewer than `window` positions apart "
     "count."),
    ("always causal", lambda n, w, causal: count_pairs(n, w, True),
     "Two-sided, a query also sees the window - 1 positions behind it."),
    ("always two-sided", lambda n, w, causal: count_pairs(n, w, False),
     "If `causal`, the pairs above the diagonal do not count."),
    ("two-sided taken as twice the causal number",
     lambda n, w, causal: count_pairs(n, w, True) * (1 if causal else 2),
     "The main diagonal, each position with itself, lies in both halves and counts once."),
    ("one position too far", lambda n, w, causal: count_pairs(n, w + 1, causal),
     "Fewer than `window` positions apart: the distance goes up to window - 1."),
    ("one position too few", lambda n, w, causal: count_pairs(n, max(w - 1, 1), causal),
     "The distance goes up to window - 1, which makes `window` keys with the position itself."),
    ("positions do not see themselves", lambda n, w, causal: count_pairs(n, w, causal) - n,
     "A distance of 0 is fewer than `window`: the main diagonal counts."),
    ("a window wider than the input not cut",
     lambda n, w, causal: n + _one_side(n, w) * (1 if causal else 2),
     "No two positions are further apart than length - 1. Beyond, diagonals have no pairs, and not "
     "a negative number of them."),
    ("the window in the middle",
     lambda n, w, causal: (
         count_pairs(n, w, True) if causal else count_pairs(n, w // 2 + 1, False)
     ),
     "Two-sided, `window` - 1 positions are seen on *either* side: 2 window - 1 keys, not `window` "
     "in all."),
    ("the past subtracted as well as the future",
     lambda n, w, causal: n + (0 if causal else 2 * _one_side(n, min(w, n))),
     "Causal, a query still sees the window - 1 positions before it."),
    ("only the first query's keys are fewer",
     lambda n, w, causal: n * min(n, _keys(w, causal)) - (min(w, n) - 1),
     "The first window - 1 queries lack keys, each by another number: one, two, three, ..."),
    ("only queries with a whole window",
     lambda n, w, causal: max(0, n - _keys(w, causal) + 1) * _keys(w, causal),
     "Queries near the ends have fewer keys, but they have some, and these count."),
    ("only one end missing",
     lambda n, w, causal: (
         count_pairs(n, w, True) + (0 if causal else n * (min(n, w) - 1))
     ),
     "Two-sided, keys are missing at both ends: before the first position and behind the last."),
    ("only one end missing, and a window wider than the input",
     lambda n, w, causal: n + _one_side(n, w) + (0 if causal else n * (w - 1)),
     "Two-sided, keys are missing at both ends: before the first position and behind the last. And "
     "no two positions are further apart than length - 1: take the smaller of the two."),
    ("a triangle one row too large, and a window wider than the input",
     lambda n, w, causal: n + _one_side(n, w) * (1 if causal else 2) - w * (1 if causal else 2),
     "The first queries miss w - 1, w - 2, ..., 1 keys: w (w - 1) / 2 in all. And no two positions "
     "are further apart than length - 1."),
    ("two-sided taken as twice the causal number, less one, and a window wider than the input",
     lambda n, w, causal: (n + _one_side(n, w)) * (1 if causal else 2) - (not causal),
     "The main diagonal, all `length` pairs of it, lies in both halves and counts once. And no two "
     "positions are further apart than length - 1."),
    ("a triangle one row too large",
     lambda n, w, causal: count_pairs(n, w, causal) - min(n, w) * (1 if causal else 2),
     "The first queries miss w - 1, w - 2, ..., 1 keys: w (w - 1) / 2 in all."),
    ("`length` added, not subtracted",
     lambda n, w, causal: count_pairs(n, w, True) * (1 if causal else 2) + (0 if causal else n),
     "The main diagonal lies in both halves and counts once: `length` is to be taken off."),
    ("the pairs that are hidden", lambda n, w, causal: n * n - count_pairs(n, w, causal),
     "Asked for is how many pairs are let through."),
    ("both numbers", lambda n, w, causal: (count_pairs(n, w, True), count_pairs(n, w, False)),
     "Asked for is one of them: that of `causal`."),
    ("the product of length and window", lambda n, w, causal: n * w,
     "The first queries have fewer keys than `window`: before the first position there is "
     "nothing. And two-sided the last ones have, too."),
    *combined(_pairs, COUNT_SLIPS, COUNT_KNOWN),
    ("the pairs to the side subtracted",
     lambda n, w, causal: 2 * n - count_pairs(n, w, causal),
     "The main diagonal has `length` pairs, and those beside it are added."),
    ("the distances added up, and not the pairs at each distance",
     lambda n, w, causal: n + sum(range(1, min(w, n))) * (1 if causal else 2),
     "At the distance a there are length - a pairs."),
    ("the main diagonal once more", lambda n, w, causal: count_pairs(n, w, causal) + n,
     "It counts once. Does a loop begin at the distance 0, or is 1 added once too often?"),
    ("the main diagonal once more for each side",
     lambda n, w, causal: count_pairs(n, w, causal) + n * (1 if causal else 2),
     "It counts once: beside it the distances begin at 1."),
    ("nearest neighbours left out",
     lambda n, w, causal: (
         count_pairs(n, w, causal) - (min(w, n) > 1) * (n - 1) * (1 if causal else 2)
     ),
     "A distance of 1 is fewer than `window`, from 2 on: the distances begin at 1."),
    ("two-sided, everything before the query",
     lambda n, w, causal: (
         count_pairs(n, w, True) + (0 if causal else n * (n + 1) // 2 - n)
     ),
     "Two-sided, the window ends on both sides."),
    ("two too few for each query", lambda n, w, causal: count_pairs(n, w, causal) - 2 * n,
     "From `first` to `last`, both included, there are last - first + 1 keys."),
    ("one position too far before the query",
     lambda n, w, causal: (
         count_pairs(n, w + 1, True) + (0 if causal else _one_side(n, min(w, n)))
     ),
     "The first key of a query at t is t - window + 1."),
    ("one position too far behind the query, or `window` taken off in place of `length`",
     lambda n, w, causal: (
         count_pairs(n, w, True) + (0 if causal else _one_side(n, min(w + 1, n)))
     ),
     "Two-sided, the last key of a query at t is t + window - 1. (Twice the causal number counts "
     "the main diagonal twice, which has `length` pairs.)"),
    ("one position too few before the query",
     lambda n, w, causal: (
         (count_pairs(n, w - 1, True) if w > 1 else 0)
         + (0 if causal else _one_side(n, min(w, n)))
     ),
     "The first key of a query at t is t - window + 1."),
    ("one position too few behind the query",
     lambda n, w, causal: (
         count_pairs(n, w, True)
         + (0 if causal else _one_side(n, min(w - 1, n)) if w > 1 else -n)
     ),
     "Two-sided, the last key of a query at t is t + window - 1."),
    ("two-sided, a position behind the last one",
     lambda n, w, causal: count_pairs(n, w, causal) + (0 if causal else min(w - 1, n)),
     "The last position is length - 1."),
    ("two-sided, the main diagonal left out, and one side",
     lambda n, w, causal: count_pairs(n, w, True) - (0 if causal else n),
     "Two-sided are both sides and the main diagonal: twice the causal number, less `length`."),
    ("a triangle one row too small",
     lambda n, w, causal: count_pairs(n, w, causal) - n * (1 if causal else 2),
     "1 + 2 + ... + n is n (n + 1) / 2."),
    ("the window cut to the input only for what the ends lack",
     lambda n, w, causal: (
         _keys(w, causal) * n - (n * min(w, n) - count_pairs(n, w, True)) * (1 if causal else 2)
     ),
     "Where the window is wider than the input no query has `window` keys: cut it in both terms."),
    ("half of the window squared for what an end lacks",
     lambda n, w, causal: (
         _keys(min(w, n), causal) * n - min(w, n) ** 2 // 2 * (1 if causal else 2)
     ),
     "The first queries lack w - 1, w - 2, ..., 1 keys: w (w - 1) / 2 in all."),
    ("the ends forgotten, and two-sided the query itself counted twice",
     lambda n, w, causal: n * w * (1 if causal else 2),
     "Queries near the ends have fewer keys; and two-sided a query has 2 window - 1, as it sees "
     "itself once."),
    ("two positions too far", _pairs(further=2),
     "Fewer than `window` positions apart: the distance goes up to window - 1."),
)  # fmt: skip

# 17.2 a summary behind each block


def fixed_mask(length: int, stride: int, n_summary: int) -> Tensor:
    t = torch.arange(length)[:, None]
    s = torch.arange(length)[None, :]
    block = t.div(stride, rounding_mode="floor") == s.div(stride, rounding_mode="floor")
    return (s <= t) & (block | (s.remainder(stride) >= stride - n_summary))


FIXED_CASES = [
    (5, 2, 1),
    (12, 4, 1),
    (11, 4, 2),
    (10, 3, 3),
    (9, 5, 2),
    (7, 1, 1),
    (4, 6, 2),
    (1, 2, 1),
]


def _fixed(length: int, stride: int, c: int, rule: str) -> Tensor:
    t, s = torch.arange(length)[:, None], torch.arange(length)
    past, block, summary = s <= t, t // stride == s // stride, s % stride >= stride - c
    forms = {
        "two-sided": lambda: block | summary,
        "block only": lambda: past & block,
        "summary only": lambda: past & summary,
        "both": lambda: past & block & summary,
        "first": lambda: past & (block | (s % stride < c)),
        "queries": lambda: past & (block | (t % stride >= stride - c)),
        "one more": lambda: past & (block | (s % stride >= stride - c - 1)),
        "one less": lambda: past & (block | (s % stride > stride - c)),
        "last one": lambda: past & (block | (s % stride == stride - 1)),
        "first one": lambda: past & (block | (s % stride == stride - c)),
        "window": lambda: past & ((t - s < stride) | summary),
        "stride": lambda: past & (block | ((t - s) % stride == 0)),
        "strict": lambda: (s < t) & (block | summary),
        "place": lambda: past & ((t % stride == s % stride) | summary),
        "turned": lambda: (past & (block | summary)).T,
        "multiples": lambda: past & (block | (s % stride == 0)),
        "from the end": lambda: past & (block | (s >= length - c)),
        "summary block": lambda: (past & block) | summary,
        "multiple": lambda: past & (block | ((s + 1) % stride == 0) & (s + 1 >= c)),
        "hidden": lambda: ~(past & (block | summary)),
        "one back": lambda: past & (block | (t // stride - s // stride == 1) & summary),
        "from one": lambda: (
            past & (((t + 1) // stride == (s + 1) // stride) | ((s + 1) % stride >= stride - c))
        ),
        "blocks from one": lambda: past & (((t + 1) // stride == (s + 1) // stride) | summary),
        "every": lambda: past & (block | (s % c == c - 1)),
        "strided": lambda: past & ((t - s < stride) | ((t - s) % stride == 0)),
        "future": lambda: (t <= s) & (block | summary),
        "one of both": lambda: past & (block ^ summary),
        "strides": lambda: past & (block | ((t - s) % stride < c)),
        "blocks from the end": lambda: (
            past & ((length - 1 - t) // stride == (length - 1 - s) // stride)
            | past & ((length - 1 - s) % stride >= stride - c)
        ),
        "all for summaries": lambda: past & (block | summary | (t % stride >= stride - c)),
        "other blocks": lambda: past & (~block | summary),
        "not rounded": lambda: past & ((t == s) | summary),
        "query not rounded": lambda: past & ((t / stride == s // stride) | summary),
        "key not rounded": lambda: past & ((t // stride == s / stride) | summary),
        "query not divided": lambda: past & ((t == s // stride) | summary),
        "key not divided": lambda: past & ((t // stride == s) | summary),
        "up to the first": lambda: past & (block | (s % stride <= stride - c)),
        "from the first on": lambda: past & (block | (s >= stride - c)),
        "without stride": lambda: past & (block | (s % stride >= c)),
        "all else": lambda: past & (block | (s % stride < stride - c)),
        "any": lambda: past | block | summary,
        "flat": lambda: (past & (block | summary)).flatten(),
    }
    return forms[rule]()


def _fixed_mistake(name: str, rule: str, why: str) -> Mistake:
    return Mistake(name, lambda n, stride, c: _fixed(n, stride, c, rule), why)


def _pattern(
    past: str = "causal", seen: str = "block or summary", out: str = "mask"
) -> Callable[[int, int, int], Tensor]:
    """The mask, right by default; each argument makes one mistake."""

    def mask(length: int, stride: int, c: int) -> Tensor:
        t, s = torch.arange(length)[:, None], torch.arange(length)
        block, summary = t // stride == s // stride, s % stride >= stride - c
        before = {"causal": s <= t, "two-sided": (s <= t) | True, "strict": s < t}[past]
        found = before & {
            "block or summary": block | summary, "block only": block, "summary only": summary,
            "both": block & summary, "first": block | (s % stride < c),
            "queries": block | (t % stride >= stride - c),
            "one more": block | (s % stride >= stride - c - 1),
            "one less": block | (s % stride > stride - c),
            "last one": block | (s % stride == stride - 1),
            "window": (t - s < stride) & (t - s > -stride) | summary,
        }[seen]  # fmt: skip
        return {"mask": found, "turned": found.T, "hidden": ~found}[out]

    return mask


FIXED_SLIPS = [
    ("the future is seen", {"past": "two-sided"}, "Keys do not lie ahead: s <= t."),
    ("positions do not see themselves", {"past": "strict"}, "s <= t includes s = t."),
    ("blocks without summaries", {"seen": "block only"},
     "The last positions of every earlier block are seen as well."),
    ("summaries without blocks", {"seen": "summary only"},
     "Within its own block a query sees all before."),
    ("both at once", {"seen": "both"}, "One of the two conditions is enough."),
    ("the first positions of a block", {"seen": "first"},
     "Summaries are the *last* positions of each block."),
    ("the queries are summaries", {"seen": "queries"},
     "It is the key that must be one of the last positions of its block."),
    ("one summary too many", {"seen": "one more"},
     "The last n_summary places of a block begin at stride - n_summary."),
    ("one summary too few", {"seen": "one less"},
     "The last n_summary places of a block begin at stride - n_summary."),
    ("always one summary", {"seen": "last one"}, "Each block has n_summary of them."),
    ("a window in place of blocks", {"seen": "window"}, "Blocks have fixed borders."),
    ("rows and columns swapped", {"out": "turned"}, "Rows are queries, columns keys."),
    ("True for hidden", {"out": "hidden"}, "In this book True means: may be seen."),
]  # fmt: skip


FIXED_KNOWN = [
    ("the future is seen", "rows and columns swapped"),
    ("the queries are summaries", "rows and columns swapped"),
]


FIXED_MISTAKES = [
    Mistake(
        "the block before seen as well",
        lambda n, stride, c: (
            fixed_mask(n, stride, c)
            | (torch.arange(n)[:, None] // stride - torch.arange(n) // stride == 1)
        ),
        "Of the blocks before, a query sees only the last `n_summary` positions.",
    ),
    _fixed_mistake(
        "only one of the two conditions",
        "one of both",
        "A summary of the query's own block is seen as well: one or both of the two hold, `|`, "
        "not `^`.",
    ),
    _fixed_mistake(
        "one summary for each block, the first of them",
        "first one",
        "A block has n_summary of them, from this place up to its end: `>=`, not `==`.",
    ),
    _fixed_mistake(
        "a stride back from the query",
        "strides",
        "That is the strided pattern, which moves along with the query. Summaries are fixed: the "
        "last positions of each block, the same for all queries.",
    ),
    _fixed_mistake(
        "the blocks cut from the end",
        "blocks from the end",
        "The first block begins at position 0; the last one may be shorter.",
    ),
    Mistake(
        "all that is not in the future",
        lambda n, stride, c: torch.ones(n, n).tril().bool(),
        "s <= t is one condition. The other: the same block, or one of the last `n_summary` "
        "positions of a block. (Are `stride` and `n_summary` exchanged, or blocks compared by "
        "size?)",
    ),
    Mistake(
        "the first positions of a block as well",
        lambda n, stride, c: (
            fixed_mask(n, stride, c)
            | (torch.arange(n) % stride < c) & torch.ones(n, n).tril().bool()
        ),
        "A summary stands behind what it sums up: only the *last* positions of each block.",
    ),
    _fixed_mistake(
        "the future is seen", "two-sided", "Both conditions stand under s <= t: keys lie not ahead."
    ),
    _fixed_mistake(
        "the future is seen through summaries",
        "summary block",
        "Summaries are seen by *later* queries only: s <= t holds for them too.",
    ),
    _fixed_mistake(
        "blocks without summaries",
        "block only",
        "The last positions of every earlier block are seen too; without them no block sees "
        "another.",
    ),
    _fixed_mistake(
        "summaries without blocks", "summary only", "Within its own block a query sees all before."
    ),
    _fixed_mistake(
        "both at once", "both", "One of the two conditions is enough: same block *or* summary."
    ),
    _fixed_mistake(
        "the first positions of a block",
        "first",
        "A summary stands behind what it sums up: the *last* positions of each block.",
    ),
    _fixed_mistake(
        "the queries are summaries",
        "queries",
        "It is the key that must be one of the last positions of its block.",
    ),
    _fixed_mistake(
        "one summary too many",
        "one more",
        "The last n_summary places of a block are stride - n_summary to stride - 1.",
    ),
    _fixed_mistake(
        "one summary too few",
        "one less",
        "The last n_summary places of a block are stride - n_summary to stride - 1, both included.",
    ),
    _fixed_mistake(
        "always one summary", "last one", "Each block has n_summary of them, not always one."
    ),
    _fixed_mistake(
        "a window in place of blocks",
        "window",
        "Blocks have fixed borders. A window moves along with the query; that is another pattern.",
    ),
    _fixed_mistake(
        "strides in place of summaries",
        "stride",
        "A stride counts back from the query. Summaries stand at fixed places, for all queries "
        "alike.",
    ),
    _fixed_mistake(
        "positions do not see themselves", "strict", "s <= t includes s = t: everybody sees itself."
    ),
    _fixed_mistake(
        "the same place in place of the same block",
        "place",
        "`%` gives the place in a block, `//` the block. Two positions of one block agree in `//`.",
    ),
    _fixed_mistake(
        "every multiple of the stride",
        "multiples",
        "Those are the first positions of the blocks. Summaries are the last `n_summary` of each.",
    ),
    _fixed_mistake("rows and columns swapped", "turned", "Rows are queries, columns keys."),
    _fixed_mistake(
        "summaries at the end of the input",
        "from the end",
        "Every block has summaries of its own, at its own end.",
    ),
    _fixed_mistake("True for hidden", "hidden", "In this book True means: may be seen."),
    _fixed_mistake(
        "only the summaries of one block",
        "one back",
        "The summaries of *every* earlier block are seen, not only those of the last one.",
    ),
    _fixed_mistake(
        "counted from 1",
        "from one",
        "Positions are counted from 0: the first block holds 0 to stride - 1.",
    ),
    _fixed_mistake(
        "blocks counted from 1",
        "blocks from one",
        "Positions are counted from 0: the first block holds 0 to stride - 1.",
    ),
    _fixed_mistake(
        "every n_summary-th position",
        "every",
        "`n_summary` is how many summaries a block has, not how far apart they are.",
    ),
    _fixed_mistake(
        "the strided pattern",
        "strided",
        "That counts back from the query. Blocks and summaries stand at fixed places.",
    ),
    _fixed_mistake("the future in place of the past", "future", "Keys do not lie ahead: s <= t."),
    _fixed_mistake(
        "summaries that see everything before them",
        "all for summaries",
        "Summaries are seen by all later queries. As queries they follow the same rule as others.",
    ),
    _fixed_mistake(
        "other blocks in place of its own",
        "other blocks",
        "Within its own block a query sees all before; of others only the summaries: `==`.",
    ),
    _fixed_mistake(
        "blocks not rounded down",
        "not rounded",
        "Two positions of one block agree only when the quotient is rounded down: `//`.",
    ),
    _fixed_mistake(
        "the block of the query not rounded down",
        "query not rounded",
        "Two positions of one block agree when *both* quotients are rounded down: `//`.",
    ),
    _fixed_mistake(
        "the block of the key not rounded down",
        "key not rounded",
        "Two positions of one block agree when *both* quotients are rounded down: `//`.",
    ),
    _fixed_mistake(
        "the query itself compared with a block",
        "query not divided",
        "Block with block: the query is divided as the key is.",
    ),
    _fixed_mistake(
        "the key itself compared with a block",
        "key not divided",
        "Block with block: the key is divided as the query is.",
    ),
    _fixed_mistake(
        "the places up to the first summary",
        "up to the first",
        "The summaries stand at the end of a block: `>=`.",
    ),
    _fixed_mistake(
        "all keys from the first summary of all on",
        "from the first on",
        "The place in the block is `s % stride`: every block has its own summaries.",
    ),
    _fixed_mistake(
        "the places from n_summary on",
        "without stride",
        "The last n_summary places of a block begin at stride - n_summary.",
    ),
    _fixed_mistake(
        "all that are no summaries",
        "all else",
        "The last n_summary places of a block are stride - n_summary to stride - 1.",
    ),
    _fixed_mistake(
        "any of the three conditions",
        "any",
        "s <= t must hold *and* one of the other two: `&`. Keys do not lie ahead.",
    ),
    _fixed_mistake(
        "all rows in one", "flat", "Asked for is (length, length): one row for each query."
    ),
    *mistakes(*combined(_pattern, FIXED_SLIPS, FIXED_KNOWN)),
]

# 17.3 after how many layers


def first_heard(masks: list[Tensor]) -> Tensor:
    return _first(_product)(masks)


def _while_written(masks: list[Tensor]) -> Tensor:
    """Rows that are changed in turn, and read by those that follow."""
    known = torch.eye(len(masks[0]), dtype=torch.bool)
    first = torch.where(known, 0, -1)
    for layer, mask in enumerate(masks, 1):
        for t, row in enumerate(mask):
            for s in row.nonzero().flatten().tolist():
                known[t] |= known[s]
        first[known & (first < 0)] = layer
    return first


def _stopped(masks: list[Tensor]) -> Tensor:
    """The layers from the first on that adds nothing are left out."""
    first = first_heard(masks)
    silent = (i for i in range(1, len(masks) + 1) if not (first == i).any())
    return first.where(first < next(silent, len(masks) + 1), -1)


def _numbered_from_the_top(masks: list[Tensor]) -> Tensor:
    first = first_heard(masks[::-1])
    return first.where(first < 1, len(masks) + 1 - first)


def heard_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(173)
    first = [torch.tensor([[0, 1], [0, 0]]).bool()]
    chain = [torch.tensor([[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]).bool()]
    chain.append(torch.tensor([[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]).bool())
    drawn = [
        [torch.rand(n, n, generator=draw) < share for _ in range(layers)]
        for n, layers, share in ((6, 3, 0.2), (7, 2, 0.25), (9, 4, 0.12))
    ]
    band = [torch.ones(8, 8).tril().triu(-w).bool() for w in (1, 3)]
    return [
        (first,),
        (chain,),
        (chain[::-1],),
        *((masks,) for masks in drawn),
        (band,),
        ([chain[0], chain[0], *chain],),  # the second layer adds nothing, the last one does
        ([torch.ones(1, 1).bool()],),
    ]


def _product(masks: list[Tensor], residual: bool = True) -> Tensor:
    eye = torch.eye(len(masks[0]))
    known = eye
    for mask in masks:
        known = (mask.float() + eye * residual) @ known
    return known


def _first(heard: Callable, layers: Callable | None = None) -> Callable[[list[Tensor]], Tensor]:
    """After how many layers `heard` is above zero; `layers(masks, i)`: the first i of them."""

    def answer(masks: list[Tensor]) -> Tensor:
        first = torch.eye(len(masks[0])).long() - 1
        for i in range(1, len(masks) + 1):
            known = heard(layers(masks, i) if layers else masks[:i]) > 0
            first[known & (first < 0)] = i
        return first

    return answer


def _cut(rule: Callable[[Tensor, int], Tensor]) -> Callable[[list[Tensor]], Tensor]:
    """A mistake in what is done with the right numbers: `rule(first, how many layers)`."""
    return lambda masks: rule(first_heard(masks), len(masks))


def _own_mask(masks: list[Tensor]) -> Tensor:
    return masks[-1].float()


def _last_own_mask(masks: list[Tensor]) -> Tensor:
    shown = torch.stack([i * mask.long() for i, mask in enumerate(masks, 1)]).amax(0)
    return shown.where(shown > 0, -1).fill_diagonal_(0)


def _union(masks: list[Tensor], i: int) -> list[Tensor]:
    return [torch.stack(masks).any(0)] * i


def _whole(output: Any) -> Tensor:
    """Whole floats as whole numbers."""
    numbers = torch.as_tensor(output)
    whole = numbers.is_floating_point() and bool((numbers == numbers.round()).all())
    return numbers.long() if whole else numbers


def _heard_when(
    residual: bool = True,
    side: int = 1,
    layers: Callable | None = None,
    written: Callable[[Tensor, int], Tensor] = lambda first, n: first,
) -> Callable[[list[Tensor]], Tensor]:
    """After how many layers, right by default; each argument makes one mistake."""
    heard = _first(lambda masks: _product(masks[::side], residual), layers)
    return lambda masks: written(heard(masks), len(masks))


HEARD_SLIPS = [
    ("no residual connections", {"residual": False}, "Every position keeps what it has."),
    ("the layers multiplied on the wrong side", {"side": -1},
     "The upper layer stands on the *left* of the product."),
    ("counted from the top", {"layers": lambda masks, i: masks[-i:]},
     "The first mask is the lowest layer."),
    ("the list read from its end", {"layers": lambda masks, i: masks[::-1][:i]},
     "The first mask is the lowest layer."),
    ("rows and columns swapped", {"written": lambda first, n: first.T}, "Rows are outputs."),
    ("layers counted from 0", {"written": lambda first, n: first.where(first < 1, first - 1)},
     "The lowest layer makes it 1."),
    ("0 for what is never heard", {"written": lambda first, n: first.clamp(min=0)},
     "What cannot be heard is -1."),
    ("a position has itself after one layer",
     {"written": lambda first, n: first.fill_diagonal_(1)}, "0 on the diagonal."),
    ("whether, not when", {"written": lambda first, n: first >= 0},
     "Asked for is after how many layers."),
]  # fmt: skip


HEARD_KNOWN = [
    ("the layers multiplied on the wrong side", "counted from the top"),
    ("the layers multiplied on the wrong side", "the list read from its end"),
    ("the layers multiplied on the wrong side", "rows and columns swapped"),
    ("counted from the top", "whether, not when"),
    ("the list read from its end", "whether, not when"),
]


HEARD_MISTAKES = mistakes(
    ("the number of layers whose own mask shows it",
     lambda masks: torch.stack(list(masks)).long().sum(0),
     "Asked for is after how many layers t can depend on s, also by way of others."),
    ("the layers multiplied on the wrong side", _first(lambda masks: _product(masks[::-1])),
     "The upper layer stands on the *left* of the product: t sees j above, and j has heard s "
     "below."),
    ("counted from the top", _first(_product, lambda masks, i: masks[-i:]),
     "The first mask is the lowest layer, next to the inputs, and layers are counted from it."),
    ("the list read from its end", _first(_product, lambda masks, i: masks[::-1][:i]),
     "The first mask of the list is the lowest layer, next to the inputs."),
    ("no residual connections", _first(lambda masks: _product(masks, residual=False)),
     "Every position keeps what it has, whether its mask says so or not: what has been heard in a "
     "lower layer stays."),
    ("the first layer whose own mask shows it", _first(_own_mask),
     "Information travels over several layers: t sees j above, and j has heard s below. That is a "
     "product of matrices."),
    ("the last layer whose own mask shows it", _last_own_mask,
     "Information travels over several layers: keep what has been heard, and multiply it with the "
     "next mask."),
    ("the last mask in all layers", _first(_product, lambda masks, i: [masks[-1]] * i),
     "Each layer has a mask of its own."),
    ("the last mask alone", lambda masks: first_heard(masks[-1:]),
     "Each layer has a mask of its own, and information travels over all of them."),
    ("the first mask in all layers", _first(_product, lambda masks, i: [masks[0]] * i),
     "Each layer has a mask of its own."),
    ("all masks in each layer", _first(_product, _union),
     "Each layer has its own mask, each once and in their order."),
    ("only two layers at a time", _first(lambda masks: _product(masks[-2:])),
     "A path may take steps in more than two layers: keep what was heard from all of them."),
    ("rows and columns swapped", _cut(lambda first, n: first.T),
     "Rows are outputs, columns inputs, as in each mask."),
    ("the masks turned", _first(lambda masks: _product([mask.T for mask in masks])),
     "Rows of a mask are queries, and a query hears of its keys: multiply the masks as they are."),
    ("layers counted from 0", _cut(lambda first, n: first.where(first < 1, first - 1)),
     "Asked for is after how many layers: the lowest one makes it 1."),
    ("0 for what is never heard", _cut(lambda first, n: first.clamp(min=0)),
     "What cannot be heard is -1. After 0 layers a position has itself, and nothing else."),
    ("one more than there are layers for what is never heard",
     _cut(lambda first, n: first.where(first >= 0, n + 1)), "What cannot be heard is -1."),
    ("a position has itself after one layer", _cut(lambda first, n: first.fill_diagonal_(1)),
     "Before any layer a position has itself: 0 on the diagonal."),
    ("-1 on the diagonal", _cut(lambda first, n: first.fill_diagonal_(-1)),
     "Before any layer a position has itself: 0 on the diagonal."),
    ("whether, not when", _cut(lambda first, n: first >= 0),
     "That is `reach`. Asked for is after how many layers."),
    ("how many layers are left", _cut(lambda first, n: first.where(first < 0, n - first)),
     "That is how many layers come above. Asked for is after how many it is heard."),
    ("the last layer in place of the first", _cut(lambda first, n: first.where(first < 1, n)),
     "What has been heard stays heard: write the number down once, when it is heard first."),
    ("one layer too many", _cut(lambda first, n: first + (first >= 0)),
     "A position has itself after 0 layers, and the lowest layer makes it 1."),
    ("0 for what is never heard, and all else one more", _cut(lambda first, n: first + 1),
     "What cannot be heard is -1, a position has itself after 0 layers."),
    ("two steps in each layer",
     lambda masks: first_heard([m | (m.float() @ m.float() > 0) for m in masks]),
     "In one layer a position hears of its own keys only, as they were before that layer."),
    ("0 for what is never heard, and a position has itself after one layer",
     _cut(lambda first, n: first.clamp(min=0) + torch.eye(len(first)).long()),
     "What cannot be heard is -1, and itself a position has after 0 layers."),
    ("the last layer in place of the first, a position's own input too",
     lambda masks: torch.where(first_heard(masks) < 0, -1, len(masks)),
     "Write the number of the layer only where none is written yet."),
    ("the first layer whose own mask shows it, and the lowest where none does",
     lambda masks: torch.stack([*masks]).float().argmax(0) + 1,
     "Information travels over several layers: t sees j above, and j has heard s below. And what "
     "cannot be heard is -1."),
    ("only what the lowest layer shows", _cut(lambda first, n: first.where(first < 2, -1)),
     "Information travels over several layers: what is not heard in the first may be heard later."),
    ("one layer too many, but on the diagonal",
     _cut(lambda first, n: first + (first > 0)), "The lowest layer makes it 1."),
    ("layers counted from 0, and 0 for what is never heard",
     _cut(lambda first, n: torch.where(first < 1, 0, first - 1)),
     "The lowest layer makes it 1. What cannot be heard is -1."),
    ("in how many layers it is heard, itself in all",
     _cut(lambda first, n: torch.where(first < 0, 0, n + 1 - first).fill_diagonal_(n)),
     "What has been heard stays, so that counts the layers from the first on. Asked for is the "
     "number of the first, and 0 for the position itself."),
    ("the layer read while it is being written", _while_written,
     "All positions of a layer hear what the others had *before* it: write into a copy."),
    ("stopped at a layer that adds nothing", _stopped,
     "A layer may add nothing, and one above it with another mask may: go through all of them."),
    ("the list read from its end, with the numbers that its masks have", _numbered_from_the_top,
     "The first mask of the list is the lowest layer, next to the inputs: begin with it."),
    ("infinity for what is never heard",
     _cut(lambda first, n: first.float().masked_fill(first < 0, math.inf)),
     "What cannot be heard is -1."),
    ("the top layer left out", _cut(lambda first, n: first.where(first < n, -1)),
     "All layers of the list count, the last of them too."),
    *combined(_heard_when, HEARD_SLIPS, HEARD_KNOWN),
    ("counted from the top of the stack",
     _cut(lambda first, n: first.where(first < 1, n + 1 - first)),
     "The layers are counted from the bottom: the lowest makes it 1."),
    ("in how many layers it is heard",
     _cut(lambda first, n: torch.where(first < 0, 0, n + 1 - first).fill_diagonal_(0)),
     "What has been heard stays, so that counts the layers from the first on. Asked for is the "
     "number of the first."),
    ("nothing heard from others", _cut(lambda first, n: first.where(first == 0, -1)),
     "Are all layers gone through, and is what they add kept and written down?"),
    ("1 for all that is heard", _cut(lambda first, n: first.clamp(max=1)),
     "After the layer i only the masks of the first i layers have been used: `masks[:i]`."),
    ("1 for everything but itself", _cut(lambda first, n: 1 - torch.eye(len(first)).long()),
     "Only what can be heard, a number *above* 0, is written down, and with the number of its "
     "layer."),
)  # fmt: skip

# 17.4 two halves

Half = tuple[Tensor, Tensor, Tensor]


def merge(one: Half, two: Half) -> Tensor:
    top = torch.stack([one[0], two[0]]).amax(0)
    fades = [(half[0] - top).exp() for half in (one, two)]
    total = fades[0] * one[1] + fades[1] * two[1]
    out = fades[0][:, None] * one[2] + fades[1][:, None] * two[2]
    return out / total[:, None]


def _faded_by_the_other(one: Half, two: Half) -> Tensor:
    top = torch.stack([one[0], two[0]]).amax(0)
    first, second = (one[0] - top).exp(), (two[0] - top).exp()
    out = second[:, None] * one[2] + first[:, None] * two[2]
    return out / (first * one[1] + second * two[1])[:, None]


def _half(scores: Tensor, values: Tensor) -> Half:
    m = scores.amax(-1)
    weights = (scores - m.clamp(min=-1e30)[:, None]).exp()
    return m, weights.sum(-1), weights @ values


def merge_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(174)
    first = tuple(torch.tensor(x) for x in ([0.0], [1.0], [[4.0]]))
    cases = [(first, tuple(torch.tensor(x) for x in ([0.0], [3.0], [[0.0]])))]
    for t, near, far, d_v, shift in ((3, 4, 5, 2, 0.0), (4, 2, 6, 4, 3.0), (2, 3, 3, 3, 200.0)):
        scores = torch.randn(t, near + far, generator=draw) * 2
        scores[:, near:] += shift
        values = torch.randn(near + far, d_v, generator=draw)
        one, two = _half(scores[:, :near], values[:near]), _half(scores[:, near:], values[near:])
        cases += [(one, two), (two, one)][: 1 + (t == 4)]
    scores, values = torch.randn(4, 6, generator=draw), torch.randn(6, 2, generator=draw)
    scores[0, :3] = scores[2, 3:] = -math.inf  # the last query saw something in both
    scores[1] += 300  # far from the maxima of the other queries
    cases.append((_half(scores[:, :3], values[:3]), _half(scores[:, 3:], values[3:])))
    scores, values = torch.randn(4, 4, generator=draw), torch.randn(4, 2, generator=draw)
    scores[0, :2] += 1000  # beyond what double precision can take to the power, in either half
    scores[1, 2:] += 1000
    scores[2], scores[3] = scores[2] - 1000, scores[3] - 1000
    scores[2, 2:] = scores[3, :2] = -math.inf
    cases.append((_half(scores[:, :2], values[:2]), _half(scores[:, 2:], values[2:])))
    return cases


def _merged(one: Half, two: Half, rule: str) -> Any:
    (m1, l1, o1), (m2, l2, o2) = one, two
    m = torch.maximum(m1, m2)
    f1, f2 = (m1 - m).exp(), (m2 - m).exp()
    total, out = f1 * l1 + f2 * l2, f1[:, None] * o1 + f2[:, None] * o2
    forms = {
        "plain": lambda: (o1 + o2) / (l1 + l2)[:, None],
        "mean": lambda: (o1 / l1[:, None] + o2 / l2[:, None]) / 2,
        "undivided": lambda: out,
        "out only": lambda: out / (l1 + l2)[:, None],
        "total only": lambda: (o1 + o2) / total[:, None],
        "upside down": lambda: (
            ((m - m1).exp()[:, None] * o1 + (m - m2).exp()[:, None] * o2)
            / ((m - m1).exp() * l1 + (m - m2).exp() * l2)[:, None]
        ),
        "swapped": lambda: (f2[:, None] * o1 + f1[:, None] * o2) / (f2 * l1 + f1 * l2)[:, None],
        "no maximum": lambda: (
            (m1.exp()[:, None] * o1 + m2.exp()[:, None] * o2)
            / (m1.exp() * l1 + m2.exp() * l2)[:, None]
        ),
        "least": lambda: (
            (
                (m1 - torch.minimum(m1, m2)).exp()[:, None] * o1
                + (m2 - torch.minimum(m1, m2)).exp()[:, None] * o2
            )
            / ((m1 - torch.minimum(m1, m2)).exp() * l1 + (m2 - torch.minimum(m1, m2)).exp() * l2)[
                :, None
            ]
        ),
        "divided first": lambda: (
            (f1[:, None] * o1 / l1[:, None] + f2[:, None] * o2 / l2[:, None]) / (f1 + f2)[:, None]
        ),
        "weights of halves": lambda: (
            ((f1 * l1)[:, None] * o1 / 1.0 + (f2 * l2)[:, None] * o2 / 1.0) / total[:, None]
        ),
        "one maximum": lambda: (
            ((m1 - m.max()).exp()[:, None] * o1 + (m2 - m.max()).exp()[:, None] * o2)
            / (l1 * (m1 - m.max()).exp() + l2 * (m2 - m.max()).exp())[:, None]
        ),
        "second to the greater": lambda: (o1 + f2[:, None] * o2) / (l1 + f2 * l2)[:, None],
        "normalised": lambda: (
            (f1[:, None] * o1 / l1[:, None] + f2[:, None] * o2 / l2[:, None]) / total[:, None]
        ),
        "second scaled": lambda: (
            (o1 + (m2 - m1).exp()[:, None] * o2) / (l1 + (m2 - m1).exp() * l2)[:, None]
        ),
        "greater half, ties to the second": lambda: torch.where(
            (m1 > m2)[:, None], o1 / l1[:, None], o2 / l2[:, None]
        ),
        "softmax of the maxima": lambda: (
            (f1 / (f1 + f2))[:, None] * (o1 / l1[:, None]).nan_to_num()
            + (f2 / (f1 + f2))[:, None] * (o2 / l2[:, None]).nan_to_num()
        ),
        "greater half": lambda: torch.where(
            (m1 >= m2)[:, None], o1 / l1[:, None], o2 / l2[:, None]
        ),
        "ratio": lambda: (
            ((m1 / m)[:, None] * o1 + (m2 / m)[:, None] * o2)
            / ((m1 / m) * l1 + (m2 / m) * l2)[:, None]
        ),
        "tuple": lambda: (m, total, out),
        "first scaled": lambda: (
            ((m1 - m2).exp()[:, None] * o1 + o2) / ((m1 - m2).exp() * l1 + l2)[:, None]
        ),
        "sums as weights": lambda: (l1[:, None] * o1 + l2[:, None] * o2) / (l1 + l2)[:, None],
        "outputs added": lambda: o1 / l1[:, None] + o2 / l2[:, None],
        "sums subtracted": lambda: out / (f1 * l1 - f2 * l2)[:, None],
        "values subtracted": lambda: (f1[:, None] * o1 - f2[:, None] * o2) / total[:, None],
        "first values": lambda: f1[:, None] * o1 / total[:, None],
        "second values": lambda: f2[:, None] * o2 / total[:, None],
        "multiplied": lambda: out * total[:, None],
        "l1 not faded": lambda: out / (l1 + f2 * l2)[:, None],
        "l2 not faded": lambda: out / (f1 * l1 + l2)[:, None],
        "o1 not faded": lambda: (o1 + f2[:, None] * o2) / total[:, None],
        "o2 not faded": lambda: (f1[:, None] * o1 + o2) / total[:, None],
        "no maximum, finely": lambda: (
            (m1.double().exp()[:, None] * o1 + m2.double().exp()[:, None] * o2)
            / (m1.double().exp() * l1 + m2.double().exp() * l2)[:, None]
        ),
        "base 2": lambda: sum(
            share[:, None] * (o / total[:, None]).nan_to_num()
            for share, o, total in zip(
                torch.stack([m1 + l1.log2(), m2 + l2.log2()]).softmax(0),
                (o1, o2),
                (l1, l2),
                strict=True,
            )
        ),
    }
    return forms[rule]()


def _merge_mistake(name: str, rule: str, why: str) -> Mistake:
    return Mistake(name, lambda one, two: _merged(one, two, rule), why)


def _merging(
    fade_o: bool = True,
    fade_l: bool = True,
    top: Callable[[Tensor, Tensor], Tensor] = torch.maximum,
    divided: bool = True,
) -> Callable[[Half, Half], Tensor]:
    """The merge, right by default; each argument makes one mistake."""

    def answer(one: Half, two: Half) -> Tensor:
        m, total, out = top(one[0], two[0]), 0, 0
        for own, weights, o in (one, two):
            fade = (own - m).exp()
            total = total + (fade * weights if fade_l else weights)
            out = out + (fade[:, None] * o if fade_o else o)
        return out / total[:, None] if divided else out

    return answer


MERGE_SLIPS = [
    ("the values not scaled", {"fade_o": False}, "The `o` need the factors as well."),
    ("the sums not scaled", {"fade_l": False}, "The sums `l` need the factors as well."),
    ("one maximum for all queries", {"top": lambda a, b: torch.maximum(a, b).max()},
     "Every query has a maximum of its own."),
    ("scaled to a maximum below the greater one", {"top": torch.minimum},
     "Scale to the greater one."),
    ("scaled to the first maximum", {"top": lambda a, b: a}, "Scale to the greater one."),
    ("scaled by the exponential of the maximum", {"top": lambda a, b: torch.zeros_like(a)},
     "Take the greater maximum off first."),
    ("not divided", {"divided": False}, "The output is `o / l`, with both merged."),
]  # fmt: skip
MERGE_KNOWN = [
    ("the values not scaled", "the sums not scaled"),
    ("the sums not scaled", "not divided"),
]


def _fades(one: Half, two: Half) -> Tensor:
    m = torch.stack([one[0], two[0]])
    return (m - m.amax(0)).exp()


def _taken_for_rows(one: Half, two: Half, factors: bool, sums: bool) -> Tensor:
    """Numbers for each query, (T,), beside (T, d_v), where they are taken for a row."""
    f = _fades(one, two)
    total = f[0] * one[1] + f[1] * two[1]
    f = f if factors else f[..., None]
    return (f[0] * one[2] + f[1] * two[2]) / (total if sums else total[:, None])


EMPTY_HALVES = mistakes(
    *((f"{what} taken for a row", partial(_taken_for_rows, factors=factors, sums=sums),
       "Each query has a number of its own, (T,): beside (T, d_v) it needs a second axis, "
       "`[:, None]`.")
      for what, factors, sums in (
          ("the factors", True, False), ("the sums", False, True),
          ("the factors and the sums", True, True),
      )),
    ("the first half alone", lambda one, two: torch.nan_to_num(one[2] / one[1][:, None]),
     "The keys of both halves count."),
    ("divided by the sum of the factors",
     lambda one, two: (
         lambda f: (f[0] * one[2] + f[1] * two[2]) / f.sum(0)
     )(torch.stack([one[0], two[0]]).softmax(0)[..., None]),
     "The output is `o / l`, and both are sums: scale the `l` as the `o`, and divide by that."),
    ("one sum for all queries",
     lambda one, two: (
         lambda f: (f[0, :, None] * one[2] + f[1, :, None] * two[2])
         / (f[0] * one[1] + f[1] * two[1]).sum()
     )(_fades(one, two)),
     "Each query has a sum of its own: divide row by row."),
    ("zeros where one half saw nothing",
     lambda one, two: merge(one, two) * ((one[1] > 0) & (two[1] > 0))[:, None],
     "What the other half saw is all that such a query sees: its output is that half's."),
    ("divided twice",
     lambda one, two: (
         lambda f: merge(one, two) / (f[0] * one[1] + f[1] * two[1])[:, None]
     )(_fades(one, two)),
     "The output is `o / l`, with both merged: divide once."),
    ("divided by the greater of the two sums",
     lambda one, two: (
         lambda f: (f[0, :, None] * one[2] + f[1, :, None] * two[2])
         / torch.maximum(one[1], two[1])[:, None]
     )(_fades(one, two)),
     "The sums `l` of both halves are scaled as the `o`, and added."),
    ("scaled by the exponential of the maximum, with zeros for NaN",
     lambda one, two: (
         (one[0].exp()[:, None] * one[2] + two[0].exp()[:, None] * two[2])
         / (one[0].exp() * one[1] + two[0].exp() * two[1])[:, None]
     ).nan_to_num(),
     "e to the power of 200 is not a number of 32 bits, and zeros in its place are no outputs. "
     "Take the greater maximum off first."),
    ("maxima below 0 taken for 0",
     lambda one, two: merge(*((m.clamp(min=0), *rest) for m, *rest in (one, two))),
     "All scores of a query may be below 0, and m is what has been subtracted. Minus infinity "
     "needs no care: e to the power of it is 0."),
    ("0 / 0 where a half saw nothing",
     lambda one, two: sum(
         torch.stack([h[0] + h[1].log() for h in (one, two)]).softmax(0)[i, :, None]
         * (h[2] / h[1][:, None])
         for i, h in enumerate((one, two))
     ),
     "The shares of the halves are right. Where a half saw nothing its `o / l` is 0 / 0, and 0 "
     "times that is no number: add the sums first, and divide at the end."),
)  # fmt: skip
MERGE_MISTAKES = [
    *(
        _merge_mistake(name, rule, why)
        for name, rule, why in (
            ("the second sum subtracted", "sums subtracted", "Both sums `l`, scaled, are added."),
            (
                "the second half's values subtracted",
                "values subtracted",
                "Both sums `o`, scaled, are added.",
            ),
            ("only the first half's values", "first values", "The `o` of both halves are added."),
            ("only the second half's values", "second values", "The `o` of both halves are added."),
            ("multiplied by the sum", "multiplied", "The output is `o / l`, with both merged."),
            (
                "the first sum not scaled",
                "l1 not faded",
                "Each half has subtracted its own maximum: the `l` of both are scaled.",
            ),
            (
                "the second sum not scaled",
                "l2 not faded",
                "Each half has subtracted its own maximum: the `l` of both are scaled.",
            ),
            (
                "the first half's values not scaled",
                "o1 not faded",
                "Each half has subtracted its own maximum: the `o` of both are scaled.",
            ),
            (
                "the second half's values not scaled",
                "o2 not faded",
                "Each half has subtracted its own maximum: the `o` of both are scaled.",
            ),
            (
                "the maxima not taken off, in double precision",
                "no maximum, finely",
                "e to the power of 1,000 overflows in double precision, too, and that of -1,000 is "
                "0. Take the greater maximum off both first.",
            ),
            (
                "the logarithm of the sums to the base 2",
                "base 2",
                "The greatest score plus the *natural* logarithm of `l` is that of all "
                "exponentials.",
            ),
        )
    ),
    _merge_mistake(
        "the halves weighed by their sums",
        "sums as weights",
        "`o` is a sum already: it is not multiplied by `l`. And the two sums have had different "
        "maxima subtracted: bring both to the same one.",
    ),
    *EMPTY_HALVES,
    *mistakes(*combined(_merging, MERGE_SLIPS, MERGE_KNOWN)),
    Mistake(
        "divided by the first half's sum alone",
        lambda one, two: (
            lambda m: (
                sum((h[0] - m).exp()[:, None] * h[2] for h in (one, two))
                / ((one[0] - m).exp() * one[1])[:, None]
            )
        )(torch.maximum(one[0], two[0])),
        "The weights of both halves together must sum to 1: divide by both sums, scaled.",
    ),
    Mistake(
        "each half with the other's factor",
        _faded_by_the_other,
        "Each half is scaled by its own maximum: e to the power of (its maximum - the new one).",
    ),
    Mistake(
        "powers of 2",
        lambda one, two: merge(*((half[0] * math.log(2), *half[1:]) for half in (one, two))),
        "The sums hold powers of e, and so do the factors: e to the power of (old maximum - new "
        "maximum).",
    ),
    Mistake(
        "the mean of both outputs, with 0 for a half in which nothing was seen",
        lambda one, two: sum(torch.nan_to_num(o / sums[:, None]) / 2 for _, sums, o in (one, two)),
        "A half with greater scores counts for more. Add the sums `o` and `l`, scaled, and divide "
        "at the end.",
    ),
    _merge_mistake(
        "added without scaling",
        "plain",
        "Each half has subtracted its own maximum. Before they are added, both must be "
        "brought to the same one.",
    ),
    _merge_mistake(
        "the mean of both outputs",
        "mean",
        "A half with greater scores counts for more. Add the sums `o` and `l`, scaled, and divide "
        "at the end.",
    ),
    _merge_mistake(
        "not divided", "undivided", "`o` is a sum. The output is `o / l`, with both merged."
    ),
    _merge_mistake(
        "only the values scaled", "out only", "The sums `l` need the same factors as the `o`."
    ),
    _merge_mistake(
        "only the sums scaled", "total only", "The `o` need the same factors as the sums `l`."
    ),
    _merge_mistake(
        "scaled the wrong way",
        "upside down",
        "The factor is e to the power of (old maximum - new maximum), at most 1: the old terms "
        "had too little subtracted.",
    ),
    _merge_mistake(
        "the factors swapped", "swapped", "Each half is scaled by the factor of its own maximum."
    ),
    _merge_mistake(
        "scaled by the exponential of the maximum",
        "no maximum",
        "That is right on paper and overflows for large scores: e to the power of 200 is not a "
        "number of 32 bits. Take the greater maximum off first.",
    ),
    _merge_mistake(
        "scaled to a maximum below the greater one",
        "least",
        "Right on paper, but the factor of the greater half overflows when the maxima lie far "
        "apart; and where a half saw nothing its maximum is minus infinity, and that less itself "
        "is NaN. Scale to the greater one.",
    ),
    _merge_mistake(
        "divided before they are added",
        "divided first",
        "A half's share depends on its sum `l`, and not on its maximum alone. Divide at the end.",
    ),
    _merge_mistake(
        "the sums counted twice",
        "weights of halves",
        "`o` is not divided by `l` yet, so it must not be multiplied by it.",
    ),
    _merge_mistake(
        "one maximum for all queries",
        "one maximum",
        "Every query has a maximum of its own. Beside one with large scores all terms of another "
        "one may underflow to 0.",
    ),
    _merge_mistake(
        "the first half not scaled to the greater maximum",
        "second to the greater",
        "Where the second maximum is greater, the first half has too little subtracted: both are "
        "scaled to the greater one.",
    ),
    _merge_mistake(
        "each output divided by its own sum, and by both again",
        "normalised",
        "A sum is divided once, at the end. (And a half that saw nothing has 0 / 0.)",
    ),
    _merge_mistake(
        "only the second half scaled",
        "second scaled",
        "Scaling to the first half's maximum overflows where the second's is much greater, and "
        "gives no number where the first saw nothing. Scale to the greater of the two.",
    ),
    _merge_mistake(
        "only the first half scaled",
        "first scaled",
        "Scaling to the second half's maximum overflows where the first's is much greater, and "
        "gives no number where the second saw nothing. Scale to the greater of the two.",
    ),
    _merge_mistake(
        "the two outputs added",
        "outputs added",
        "The weights of both halves together must sum to 1. Add the sums `o` and `l`, scaled, and "
        "divide at the end.",
    ),
    _merge_mistake(
        "the half with the greater maximum",
        "greater half",
        "The other half's keys count as well, if for less.",
    ),
    _merge_mistake(
        "the half with the greater maximum, of equal ones the second",
        "greater half, ties to the second",
        "The other half's keys count as well, if for less.",
    ),
    _merge_mistake(
        "weighted by a softmax of the maxima",
        "softmax of the maxima",
        "A half's share depends on its sum `l`, and not on its maximum alone. Add the sums, "
        "scaled, and divide at the end.",
    ),
    _merge_mistake(
        "maxima divided", "ratio", "The factor is the exponential of a *difference* of maxima."
    ),
    _merge_mistake(
        "a tuple in place of the output",
        "tuple",
        "Those are `m`, `l` and `o` of all keys. Asked for is the attention itself, `o / l`.",
    ),
]

# 17.5 windows that stop at a document's edge


def document_mask(documents: Tensor, window: int) -> Tensor:
    place = torch.arange(documents.shape[1])
    away = place[:, None] - place[None, :]
    near = (away >= 0) & (away < window)
    return (documents.unsqueeze(2) == documents.unsqueeze(1)) & near


DOCUMENT_CASES = [
    (torch.tensor([[7, 7, 7, 4, 4]]), 2),
    (torch.tensor([[1, 1, 1, 1, 2, 2, 2, 3], [5, 6, 6, 6, 6, 6, 9, 9]]), 3),
    (torch.tensor([[3, 3, 3, 3, 3, 3], [0, 0, 1, 1, 1, 2], [4, 4, 4, 4, 4, 1]]), 4),
    (torch.tensor([[2, 2, 1, 1]]), 1),
    (torch.tensor([[8, 8, 8, 2, 2, 5]]), 9),
]


def _document(documents: Tensor, window: int, rule: str) -> Tensor:
    T = documents.shape[1]
    place = torch.arange(T)
    away = place[:, None] - place
    same = documents[:, :, None] == documents[:, None, :]
    near = (away >= 0) & (away < window)
    step = documents[:, :, None] - documents[:, None, :]
    forms = {
        "no documents": lambda: near.expand(len(documents), T, T),
        "no window": lambda: same & (away >= 0),
        "two-sided": lambda: same & (away.abs() < window),
        "future": lambda: same & (away <= 0) & (away > -window),
        "around": lambda: same & (away.abs() <= window // 2),
        "or": lambda: same | near,
        "too far": lambda: same & (away >= 0) & (away <= window),
        "too near": lambda: same & (away >= 0) & (away < window - 1),
        "others": lambda: ~same & near,
        "strict": lambda: same & (away > 0) & (away < window),
        "all rows": lambda: (same.all(0) & near).expand(len(documents), T, T),
        "first row": lambda: (same[0] & near).expand(len(documents), T, T),
        "earlier": lambda: (step >= 0) & near,
        "later": lambda: (step <= 0) & near,
        "next": lambda: (step.abs() <= 1) & near,
        "blocks": lambda: same & (away >= 0) & (place[:, None] // window == place // window),
        "no batch": lambda: (same & near)[0],
        "neighbours": lambda: (
            near & (documents == documents.roll(1, 1))[:, :, None] | torch.eye(T, dtype=torch.bool)
        ),
        "heads": lambda: (same & near)[:, None],
        "hidden": lambda: ~(same & near),
        "neither": lambda: same,
        "or, causal": lambda: (same & (away >= 0)) | near,
        "not 0": lambda: same & near & (documents != 0)[:, None, :],
    }
    return forms[rule]()


def _document_mistake(name: str, rule: str, why: str) -> Mistake:
    return Mistake(name, lambda documents, window: _document(documents, window, rule), why)


def _near_and_same(
    near: Callable[[Tensor, int], Tensor] = lambda away, w: (away >= 0) & (away < w),
    same: Callable[[Tensor], Tensor] = lambda step: step == 0,
    row: bool = False,
    out: Callable[[Tensor], Tensor] = lambda mask: mask,
) -> Callable[[Tensor, int], Tensor]:
    """The mask, right by default; each argument makes one mistake."""

    def mask(documents: Tensor, window: int) -> Tensor:
        place = torch.arange(documents.shape[1])
        documents = documents[:1].expand_as(documents) if row else documents
        step = documents[:, :, None] - documents[:, None, :]
        return out(same(step) & near(place[:, None] - place, window))

    return mask


DOCUMENT_SLIPS = [
    ("the future is seen", {"near": lambda away, w: away.abs() < w},
     "The windows are causal: 0 <= t - s."),
    ("only the future is seen", {"near": lambda away, w: (away <= 0) & (away > -w)},
     "A query sees keys *before* it."),
    ("no window", {"near": lambda away, w: away >= 0}, "Only `window` keys are seen."),
    ("the future is seen, however far", {"near": lambda away, w: away < w},
     "The windows are causal: 0 <= t - s."),
    ("only the future is seen, however far", {"near": lambda away, w: away <= 0},
     "A query sees keys *before* it, fewer than `window` apart."),
    ("the future is seen, and one position too far", {"near": lambda away, w: away.abs() <= w},
     "The windows are causal, and t - s < window."),
    ("neither window nor order", {"near": lambda away, w: away == away},
     "The window and the order are a condition of their own."),
    ("one position too far", {"near": lambda away, w: (away >= 0) & (away <= w)},
     "t - s < window."),
    ("one position too few", {"near": lambda away, w: (away >= 0) & (away < w - 1)},
     "t - s goes up to window - 1."),
    ("half of the window", {"near": lambda away, w: (away >= 0) & (away <= w // 2)},
     "Causal, all `window` keys lie on one side: t - s < window."),
    ("positions do not see themselves", {"near": lambda away, w: (away > 0) & (away < w)},
     "t - s = 0 is allowed."),
    ("documents see each other", {"same": lambda step: step == step},
     "A window must stop at a document's edge."),
    ("numbers compared by size", {"same": lambda step: step >= 0},
     "The number of a document is a name: `==`."),
    ("only other documents are seen", {"same": lambda step: step != 0},
     "Positions of the *same* document are seen."),
    ("the first row's documents for all", {"row": True},
     "Each row of the batch has documents of its own."),
    ("True for hidden", {"out": lambda mask: ~mask}, "In this book True means: may be seen."),
]  # fmt: skip


DOCUMENT_KNOWN = [
    ("positions do not see themselves", "only other documents are seen"),
    ("neither window nor order", "True for hidden"),
    ("documents see each other", "the first row's documents for all"),
]


DOCUMENTS_OF_OTHERS = mistakes(
    ("all rows in one",
     lambda documents, window: document_mask(documents.reshape(1, -1), window)[0],
     "Each row of the batch is a text of its own: the result has the shape (B, T, T)."),
    ("compared with the documents of the first row",
     lambda documents, window: (
         (documents[:1, :, None] == documents[:, None])
         & _near_and_same(same=lambda step: step == step)(documents, window)
     ),
     "Each row of the batch has documents of its own: compare it with itself."),
    ("no window, and positions do not see themselves",
     lambda documents, window: (
         document_mask(documents, documents.shape[1]) & ~torch.eye(documents.shape[1]).bool()
     ),
     "Within a document, too, only `window` keys are seen, and t - s = 0 is one of them."),
    ("documents whose numbers are near",
     lambda documents, window: (
         document_mask(0 * documents, documents.shape[1])
         & ((documents[:, :, None] - documents[:, None]).abs() < window)
     ),
     "The window counts positions. The number of a document is a name, and must be the same."),
    ("how many keys are seen", lambda documents, window: document_mask(documents, window).sum(-1),
     "Asked for is the mask itself, (B, T, T)."),
    ("each key compared with the one before it",
     lambda documents, window: (
         _near_and_same()(documents.new_zeros(1, documents.shape[1]), window)
         & torch.cat(
             [documents[:, :1] == documents[:, :1], documents[:, 1:] == documents[:, :-1]], 1
         )[:, None]
     ),
     "Not each key with its neighbour: the document of the query is compared with the document "
     "of the key."),
    ("the documents of any row for all",
     lambda documents, window: (
         document_mask(documents, window).any(0).expand(len(documents), -1, -1)
     ),
     "Each row of the batch has documents of its own, and so a mask of its own."),
    ("numbers compared by what is left of a division by 2",
     lambda documents, window: document_mask(documents % 2, window),
     "The number of a document is a name, and all documents have another one: compare with "
     "`==`."),
    ("the first position of each document not seen",
     lambda documents, window: document_mask(documents, window) & (
         documents == torch.cat([documents[:, :1] - 1, documents[:, :-1]], 1)
     )[:, None, :],
     "A document begins with the first position that has its number: s >= start, not s > start."),
    ("each key compared with the one before it, and everybody sees itself",
     lambda documents, window: (
         _near_and_same()(documents.new_zeros(1, documents.shape[1]), window)
         & torch.cat(
             [documents[:, :1] == documents[:, :1], documents[:, 1:] == documents[:, :-1]], 1
         )[:, None]
         | torch.eye(documents.shape[1]).bool()
     ),
     "Not each key with its neighbour: the document of the query is compared with the document "
     "of the key."),
    ("positions do not see themselves, and one position too far",
     _near_and_same(near=lambda away, w: (away > 0) & (away <= w)),
     "The query itself is one of the `window` keys: 0 <= t - s < window."),
    ("one position ahead as well",
     _near_and_same(near=lambda away, w: (away >= -1) & (away < w)),
     "The windows are causal: 0 <= t - s."),
    ("from the end of the window on",
     _near_and_same(near=lambda away, w: (away >= 0) & (away > w)),
     "Seen is what lies *fewer* than `window` positions back: `<`."),
    ("from the last key of the window on",
     _near_and_same(near=lambda away, w: away >= w - 1),
     "Seen is what lies fewer than `window` positions back, not what lies further."),
    ("all that the window hides",
     _near_and_same(near=lambda away, w: away >= w),
     "Seen is what lies fewer than `window` positions back, not what lies further."),
    ("position 0 left out",
     lambda documents, window: (
         document_mask(documents, window) & (torch.arange(documents.shape[1]) > 0)
     ),
     "Positions are counted from 0."),
)  # fmt: skip
DOCUMENT_MISTAKES = [
    _document_mistake(
        "in the document or in the window",
        "or, causal",
        "Both must hold: a key is in the same document *and* in the window.",
    ),
    _document_mistake(
        "0 taken for padding",
        "not 0",
        "The number of a document is a name, and 0 is one of them. There is no padding here.",
    ),
    _document_mistake(
        "documents see each other",
        "no documents",
        "A window that reaches over an edge must stop there: same document *and* near.",
    ),
    _document_mistake(
        "no window", "no window", "Within a document, too, only `window` keys are seen."
    ),
    _document_mistake("the future is seen", "two-sided", "The windows are causal: 0 <= t - s."),
    _document_mistake(
        "the window laid around the query",
        "around",
        "The windows are causal: the query is the last of the `window` keys that it sees.",
    ),
    _document_mistake(
        "only the future is seen", "future", "Rows are queries. A query sees keys *before* it."
    ),
    _document_mistake("one condition is enough", "or", "Both must hold: same document *and* near."),
    _document_mistake(
        "one position too far", "too far", "Fewer than `window` apart: t - s < window."
    ),
    _document_mistake(
        "one position too few",
        "too near",
        "t - s goes up to window - 1, which makes `window` keys with the position itself.",
    ),
    _document_mistake(
        "only other documents are seen", "others", "Positions of the *same* document are seen."
    ),
    _document_mistake(
        "positions do not see themselves", "strict", "t - s = 0 is allowed: everybody sees itself."
    ),
    _document_mistake(
        "one mask for the whole batch",
        "all rows",
        "Each row of the batch has documents of its own, and so a mask of its own.",
    ),
    _document_mistake(
        "the first row's documents for all",
        "first row",
        "Each row of the batch has documents of its own, and so a mask of its own.",
    ),
    _document_mistake(
        "numbers compared by size",
        "earlier",
        "The number of a document is a name. Compare with `==`, not with `>=`.",
    ),
    _document_mistake(
        "numbers compared by size, the other way",
        "later",
        "The number of a document is a name. Compare with `==`, not with `<=`.",
    ),
    _document_mistake(
        "documents with neighbouring numbers taken for one",
        "next",
        "The number of a document is a name: 5 and 6 are two documents. Compare with `==`.",
    ),
    _document_mistake(
        "blocks in place of windows",
        "blocks",
        "A window moves along with the query: 0 <= t - s < window.",
    ),
    _document_mistake("the batch axis lost", "no batch", "The result has the shape (B, T, T)."),
    _document_mistake(
        "only compared with the neighbour",
        "neighbours",
        "It is not enough that the query's own neighbour is of its document: every key within the "
        "window must be.",
    ),
    _document_mistake(
        "an axis for the heads",
        "heads",
        "Asked for is (B, T, T). The axis of the heads comes in when the mask is used.",
    ),
    _document_mistake("True for hidden", "hidden", "In this book True means: may be seen."),
    _document_mistake(
        "neither window nor order",
        "neither",
        "Same document is one condition. The window and the order are the other one.",
    ),
    *mistakes(
        *(
            (name, _near_and_same(**slip), why)
            for name, slip, why in DOCUMENT_SLIPS
            if "however far" in name or "and one position" in name
        )
    ),
    Mistake(
        "half of the window",
        _near_and_same(lambda away, w: (away >= 0) & (away <= w // 2)),
        "Causal, all `window` keys lie on one side: t - s < window.",
    ),
    *DOCUMENTS_OF_OTHERS,
    *mistakes(*combined(_near_and_same, DOCUMENT_SLIPS, DOCUMENT_KNOWN)),
]

# 17.6 what the last position misses


def missed(length: int, window: int, dilations: list[int]) -> list[int]:
    known = {length - 1}
    for d in dilations:
        known |= {t - d * i for t in known for i in range(window) if d * i <= t}
    return [s for s in range(length) if s not in known]


MISSED_CASES = [
    (8, 2, [2, 4]),
    (8, 2, [1, 2, 5]),
    (8, 2, [1, 2, 4]),
    (12, 3, [2, 2]),
    (20, 3, [1, 5]),
    (16, 4, [3]),
    (10, 2, [4, 1]),
    (15, 1, [1, 2]),
    (30, 3, [9, 2, 4]),
    (9, 3, [4, 3]),
]


def _heard(length: int, window: int, dilations: list[int], step=None) -> set[int]:
    known = {length - 1}
    for d in dilations:
        steps = step(window, d) if step else range(0, window * d, d)
        known = {t - i for t in known for i in steps if t - i >= 0}
    return known


def _both_ways(length: int, window: int, dilations: list[int]) -> set[int]:
    known = {length - 1}
    for d in dilations:
        known = {t + i * d for t in known for i in range(1 - window, window)} & set(range(length))
    return known


def _rest(length: int, known: set[int]) -> list[int]:
    return sorted(set(range(length)) - known)


def _missing(
    wider: int = 0,
    layers: Callable[[list[int]], list[int]] = lambda ds: ds,
    write: Callable[[int, list[int]], Any] = lambda n, rest: rest,
) -> Callable[[int, int, list[int]], Any]:
    """What is missed, right by default; each argument makes one mistake."""
    return lambda n, w, ds: write(n, _rest(n, _heard(n, max(w + wider, 1), layers(ds))))


def _from(length: int, start: int, window: int, dilations: list[int]) -> list[int]:
    """What a position other than the last misses."""
    return _rest(length, _heard(start + 1, window, dilations))


def _farthest_goes_on(length: int, window: int, dilations: list[int]) -> list[int]:
    known = {length - 1}
    for d in dilations:
        known |= {min(known) - i * d for i in range(window) if min(known) - i * d >= 0}
    return _rest(length, known)


MISSED_SLIPS = [
    ("one key too many", {"wider": 1}, "A window of w keys takes 0 to w - 1 steps."),
    ("one key too few", {"wider": -1}, "A window of w keys takes 0 to w - 1 steps."),
    ("the dilation forgotten", {"layers": lambda ds: [1] * len(ds)},
     "With dilation d the keys stand d positions apart."),
    ("holes one too wide", {"layers": lambda ds: [d + 1 for d in ds]},
     "With dilation d the keys stand d positions apart: between them are d - 1."),
    ("one layer only", {"layers": lambda ds: ds[:1]}, "Information travels over all layers."),
    ("the top layer only", {"layers": lambda ds: ds[-1:]}, "Information travels over all layers."),
    ("what is reached", {"write": lambda n, rest: _rest(n, set(rest))},
     "Asked for are the positions that are missed."),
    ("counted from 1", {"write": lambda n, rest: [s + 1 for s in rest]},
     "Positions are counted from 0."),
    ("distances in place of positions", {"write": lambda n, rest: [n - 1 - s for s in rest[::-1]]},
     "Asked for are positions."),
    ("how many are missed", {"write": lambda n, rest: len(rest)}, "Asked for is the list."),
    ("from the last to the first", {"write": lambda n, rest: rest[::-1]},
     "Asked for is the *sorted* list."),
]  # fmt: skip


MISSED_MISTAKES = mistakes(
    ("one layer with the sum of the dilations", lambda n, w, ds: missed(n, w, [sum(ds)]),
     "A path may take a step in one layer and none in another: each has its own dilation."),
    ("the dilations multiplied", _missing(layers=lambda ds: [*accumulate(ds, mul)]),
     "Each layer has a dilation of its own: its keys stand `d` positions apart, whatever the "
     "layers below have."),
    ("nothing missed", lambda length, window, dilations: [],
     "Layers with holes may leave some out: follow the steps back from the last position."),
    ("all but the first position", lambda length, window, dilations: [*range(1, length)],
     "Asked is for the *last* position: on which of the others it does not depend."),
    ("what is reached, counted from 1",
     _missing(write=lambda n, rest: [s + 1 for s in _rest(n, set(rest))]),
     "Asked for are the positions that are missed, counted from 0."),
    ("distances from the last position, the largest first",
     _missing(write=lambda n, rest: [n - 1 - s for s in rest]),
     "Asked for are the positions themselves, from the first to the last."),
    ("holes one too wide", _missing(layers=lambda ds: [d + 1 for d in ds]),
     "With dilation d the keys stand d positions apart: between two of them lie d - 1 others."),
    ("what is reached", lambda n, w, ds: sorted(_heard(n, w, ds)),
     "Those are the positions that it depends on. Asked for are the others."),
    ("only as far as the formula",
     lambda n, w, ds: list(range(max(0, n - 1 - sum((w - 1) * d for d in ds)))),
     "That is how *far* the layers reach. Between there and the last position may be holes."),
    ("the dilation forgotten", lambda n, w, ds: _rest(n, _heard(n, w, [1] * len(ds))),
     "With dilation d the keys stand d positions apart."),
    ("one layer only", lambda n, w, ds: _rest(n, _heard(n, w, ds[:1])),
     "Information travels over all layers: start the next one from *every* one reached so far."),
    ("the top layer only", lambda n, w, ds: _rest(n, _heard(n, w, ds[-1:])),
     "Information travels over all layers: start the next one from *every* one reached so far."),
    ("all positions but the last", lambda n, w, ds: [*range(n - 1)],
     "The last position itself is all that is reached, as if no layer led back: each does, by up "
     "to w - 1 steps. (A column gives the same: who does not depend on the last position. Asked "
     "is on which positions the last one does not depend, a row.)"),
    ("the layer with the widest holes alone", lambda n, w, ds: missed(n, w, [max(ds)]),
     "Information travels over all layers: start the next one from *every* one reached so far."),
    ("layers of the same dilation taken for one", lambda n, w, ds: missed(n, w, sorted({*ds})),
     "Two layers of one dilation go further than one: each is a layer."),
    ("no more than w - 1 steps in all layers together",
     lambda n, w, ds: _rest(n, {
         n - 1 - sum(map(mul, steps, ds))
         for steps in product(range(w), repeat=len(ds)) if sum(steps) < w
     }),
     "Each layer may take up to w - 1 steps, whatever the others take."),
    ("two-sided layers", lambda n, w, ds: _missed_by(n, w, ds, causal=False),
     "The layers are causal: from position t only t and what lies before it is seen."),
    ("what any later position misses",
     lambda n, w, ds: [
         s for s in range(n) if any(s in missed(t + 1, w, ds) for t in range(s, n))
     ],
     "Asked is for what the *last* position misses, whatever the others do."),
    ("the dilations squared", lambda n, w, ds: missed(n, w, [d * d for d in ds]),
     "With dilation d the keys stand d positions apart."),
    ("what no step divides, and what lies beyond the reach",
     lambda n, w, ds: [
         s for s in range(n)
         if (n - 1 - s) % math.gcd(*ds) or n - 1 - s > (w - 1) * sum(ds)
     ],
     "Between multiples of what the steps have in common there may be holes as well: each layer "
     "takes up to w - 1 steps."),
    ("the number of the layer for its dilation",
     lambda n, w, ds: missed(n, w, [*range(1, len(ds) + 1)]),
     "The dilations are given: that of layer i is `dilations[i]`."),
    ("what is reached, without the last position",
     lambda n, w, ds: sorted(_heard(n, w, ds) - {n - 1}),
     "Those are positions that it depends on. Asked for are the others."),
    ("only the farthest position goes on to the next layer", _farthest_goes_on,
     "Each layer starts from *every* position that has been reached so far."),
    ("steps of 2 to the power of the layer",
     lambda n, w, ds: missed(n, w, [2**i for i in range(len(ds))]),
     "The dilations are given: that of layer i is `dilations[i]`."),
    ("the top layer left out", lambda n, w, ds: missed(n, w, ds[:-1]),
     "All layers count, the last of the list too."),
    ("the lowest layer left out", lambda n, w, ds: missed(n, w, ds[1:]),
     "All layers count, the first of the list too."),
    ("each layer by itself",
     lambda n, w, ds: _rest(n, set().union(*(_heard(n, w, [d]) for d in ds))),
     "A path may take steps in several layers: their lengths add up."),
    ("what is reached, from the last to the first",
     lambda n, w, ds: sorted(_heard(n, w, ds), reverse=True),
     "Those are the positions that it depends on. Asked for are the others, from the first on."),
    ("windows of 2, whatever is given", lambda n, w, ds: _rest(n, _heard(n, 2, ds)),
     "A window of w keys takes 0 to w - 1 steps."),
    ("True for what is missed", lambda n, w, ds: [s not in _heard(n, w, ds) for s in range(n)],
     "Asked for are the positions themselves, as numbers."),
    ("one key too many", lambda n, w, ds: _rest(n, _heard(n, w + 1, ds)),
     "A window of w keys takes 0 to w - 1 steps."),
    ("one key too few", lambda n, w, ds: _rest(n, _heard(n, max(w - 1, 1), ds)),
     "A window of w keys takes 0 to w - 1 steps, both included."),
    ("one key too few, and none in a window of 1",
     lambda n, w, ds: _rest(n, _heard(n, w - 1, ds)),
     "A window of w keys takes 0 to w - 1 steps, both included."),
    ("a window counted in positions",
     lambda n, w, ds: _rest(n, _heard(n, w, ds, lambda w, d: range(0, w, d))),
     "The window counts keys, holes not included: from t - (w - 1) d to t."),
    ("the holes filled", lambda n, w, ds: _rest(n, _heard(n, w, ds, lambda w, d: range(w * d))),
     "Between two keys of a window with dilation d lie d - 1 positions that it does not see."),
    ("only the far end of each window",
     lambda n, w, ds: _rest(n, _heard(n, w, ds, lambda w, d: (0, (w - 1) * d))),
     "A layer may take any number of steps from 0 to w - 1, not only none or all."),
    ("position 0 left out", lambda n, w, ds: _rest(n, _heard(n, w, ds) - {0}),
     "Position 0 can be heard as well: `>= 0`, not `> 0`."),
    ("both directions", lambda n, w, ds: _rest(n, _both_ways(n, w, ds)),
     "The layers are causal: from position t only t and what lies before it is seen."),
    ("the position itself left out",
     lambda n, w, ds: _rest(n, _heard(n, w, ds, lambda w, d: range(d, w * d, d))),
     "A window holds the position itself: zero steps are allowed in every layer."),
    ("zero steps left out, but the last position kept",
     lambda n, w, ds: _rest(n, _heard(n, w, ds, lambda w, d: range(d, w * d, d)) | {n - 1}),
     "A window holds the position itself: zero steps are allowed in every layer, not only in all "
     "at once."),
    ("steps of w to the power of the layer",
     lambda n, w, ds: _rest(n, _heard(n, w, [w**i for i in range(len(ds))])),
     "The dilations are given; they need not be powers of the window."),
    ("counted from 1", lambda n, w, ds: [s + 1 for s in missed(n, w, ds)],
     "Positions are counted from 0 in this task, as in Python."),
    ("distances in place of positions",
     lambda n, w, ds: sorted(n - 1 - s for s in missed(n, w, ds)),
     "Those are distances from the last position. Asked for are the positions themselves."),
    ("how many are missed", lambda n, w, ds: len(missed(n, w, ds)),
     "That is their number. Asked for is the list."),
    ("negative positions wrapped around",
     lambda n, w, ds: _rest(n, {(n - 1 - s) % n for s in _sums(w, ds)}),
     "Before position 0 there is nothing. In Python a negative index counts from the end."),
    ("negative positions moved to the first",
     lambda n, w, ds: _rest(n, {max(0, n - 1 - s) for s in _sums(w, ds)}),
     "Before position 0 there is nothing. A step beyond it leads nowhere, not to position 0."),
    ("begun at `length`", lambda n, w, ds: _rest(n, _heard(n + 1, w, ds)),
     "The last of `length` positions, counted from 0, is `length` - 1."),
    ("the last position itself missed", lambda n, w, ds: [*missed(n, w, ds), n - 1],
     "A position depends on itself: it is in its own window."),
    ("from the last to the first", lambda n, w, ds: missed(n, w, ds)[::-1],
     "Asked for is the *sorted* list, the first position first."),
    *combined(_missing, MISSED_SLIPS, [("the top layer only", "how many are missed")]),
    ("all positions", lambda n, w, ds: list(range(n)),
     "The last position depends on itself, and on what it reaches step by step."),
    ("the last position but one in place of the last",
     lambda n, w, ds: _from(n, n - 2, w, ds),
     "Positions are counted from 0: the last one is length - 1."),
    ("window and dilation exchanged",
     lambda n, w, ds: _rest(n, _heard(n, w, ds, lambda w, d: range(0, d * w, w))),
     "A window of w keys takes w - 1 steps, each as long as the dilation."),
)  # fmt: skip


def _missed_by(length: int, window: int, dilations: list[int], causal: bool = True) -> list[int]:
    """What the last position misses, by masks."""
    known = torch.eye(length)
    away = torch.arange(length)[:, None] - torch.arange(length)
    for d in dilations:
        near = (away % d == 0) & (away.abs() < window * d) & ((away >= 0) | (not causal))
        known = (near.float() @ known > 0).float()
    return (known[-1] == 0).nonzero().flatten().tolist()


def _sums(window: int, dilations: list[int]) -> set[int]:
    """All distances that can be gone with up to window - 1 steps in each layer."""
    sums = {0}
    for d in dilations:
        sums = {s + i * d for s in sums for i in range(window)}
    return sums


# 17.7 predict: does the order of layers matter?

ORDER = ["same", "same", "same", "differs", "differs", "differs"]


WHY_ORDER = {
    1: "back by 0 to 2 and by 0 to 4, the sum does not know which came first",
    2: "back by 0 or 1 and by 0 or 4, the sum does not know which came first",
    3: "windows without holes fill an interval in either order",
    4: "at the edges only one of the two orders stays inside",
    5: "position 0 sees 0 to 3 in one block and 0 and 1 in the other, and what is seen next "
    "depends on which comes first",
    6: "position 0 has seen all if the global layer is below, and only its neighbours if not",
}
ORDER_NAMED = ({4, 5}, {1, 2}, {1, 2, 4, 5, 6})  # with rows of their own


def several_orders() -> list[tuple[str, list[str], str]]:
    """Rows for several wrong words at once."""
    rows = []
    for n in (2, 3, 4, 5):
        for wrong in combinations(WHY_ORDER, n):
            if set(wrong) in ({4, 5, 6}, {1, 2, 3}, *ORDER_NAMED):
                continue
            words = [_OTHER[w] if i in wrong else w for i, w in enumerate(ORDER, 1)]
            why = "; ".join(f"{i}. {WHY_ORDER[i]}" for i in wrong)
            title = f"{', '.join(map(str, wrong[:-1]))} and {wrong[-1]} are wrong"
            rows.append((title, words, f"{why}."))
    return rows


_OTHER = {"same": "differs", "differs": "same"}
ORDER_MISTAKES = mistakes(
    ("as if the order never mattered", ["same"] * 6,
     "Products of matrices do not commute in general. From 0 to 3 by steps of 1 and 4: one order "
     "leads over position 4, the other over a position -1 that is not there."),
    ("as if the order always mattered", ["differs"] * 6,
     "Causal windows go back by a sum of steps, and a sum has no order. Between two positions that "
     "exist, all positions on the way exist as well."),
    ("as if causal masks did not commute",
     ["differs", "differs", "same", "differs", "differs", "differs"],
     "Causal windows go back by a sum of steps, with holes or without, and a sum has no order. No "
     "way goes back beyond where it ends."),
    ("as if causal dilations did not commute",
     ["same", "differs", "same", "differs", "differs", "differs"],
     "Causal, the ways go back by 0 or 1 and by 0 or 4. Their sum does not know which came first, "
     "and no way goes back beyond where it ends."),
    ("as if all commuted that is alike at every position",
     ["same", "same", "same", "same", "differs", "differs"],
     "In the middle the fourth pair is the same. At the edges it is not: from 0 to 3 by steps of 1 "
     "and 4, only one order stays inside."),
    ("as if only causal masks commuted",
     ["same", "same", "differs", "differs", "differs", "differs"],
     "Two-sided windows without holes fill an interval: whatever leads over a position outside has "
     "another way inside."),
    ("as if two-sided masks commuted, and causal ones did not",
     ["differs", "differs", "same", "same", "same", "same"],
     "Symmetric matrices do not commute either, unless their product is symmetric, too. Ask which "
     "steps are possible, and from where."),
    ("as if symmetric masks commuted", ["same", "same", "same", "same", "same", "differs"],
     "Blocks are symmetric, and so are shifted ones, and yet: from position 0 the upper layer "
     "leads to 0 to 3 in one order, to 0 and 1 in the other, and the lower goes on from there."),
    ("as if a global position commuted", ["same", "same", "same", "differs", "differs", "same"],
     "With the global layer above, a query sees what position 0 has seen below: its neighbours. "
     "With it below, position 0 has seen all, but only its neighbours look at it above."),
    ("as if blocks commuted", ["same", "same", "same", "differs", "same", "differs"],
     "Position 0 sees 0 to 3 in its block, 0 and 1 in the shifted one. Which of these go on, and "
     "how far, depends on the order."),
    ("the other way round", ["differs", "differs", "differs", "same", "same", "same"],
     "Look at the first pair: back by 0, 1 or 2, and back by 0 to 4. Does the sum know the order?"),
    ("as if causal windows of different widths did not commute",
     ["differs", "same", "same", "differs", "differs", "differs"],
     "Back by 0 to 2, and back by 0 to 4: either way the sum is all from 0 to 6, and no way goes "
     "back beyond where it ends."),
    *several_orders(),
)  # fmt: skip


# 17.8 one pass over tiles, three mistakes


def one_pass(q: Tensor, k: Tensor, v: Tensor, tile: int) -> Tensor:
    return (q @ k.T / k.shape[1] ** 0.5).softmax(-1) @ v


def _one_pass(
    begin: float = -math.inf,
    whole: bool = False,
    fade_l: bool = True,
    fade_o: bool = True,
    scale: str = "root",
    last: bool = False,
    no_max: bool = False,
    inside: bool = False,
    divided: bool = True,
    cut: bool = False,
    none_left: bool = False,
    back: bool = False,
    pooled: bool = False,
    guard: bool = False,
    forgets: bool = False,
    newest: str = "",
    early: bool = False,
    mean: bool = False,
    row: bool = False,
    new_fades: bool = False,
) -> Any:
    """The pass, right by default; each argument makes one mistake."""

    def answer(q: Tensor, k: Tensor, v: Tensor, tile: int) -> Tensor:
        m = torch.full((len(q), 1), begin)
        total, out = torch.zeros(len(q), 1), torch.zeros(len(q), v.shape[1])
        end = len(k) // tile * tile if cut and (len(k) >= tile or none_left) else len(k)
        for s in range(0, end, tile):
            by = {
                "root": k.shape[1] ** 0.5,
                "none": 1.0,
                "d": k.shape[1],
                "S": len(k) ** 0.5,
                "d_v": v.shape[1] ** 0.5,
                "times": k.shape[1] ** -0.5,
                "half": k.shape[1] / 2,
            }[scale]
            scores = q @ k[s : s + tile].T / by
            top = scores.amax() if whole else scores.amax(1, keepdim=True)
            new = top.expand_as(m) if last else torch.maximum(m, top.expand_as(m))
            new = scores.mean(1, keepdim=True) if mean else new
            new = torch.zeros_like(m) if no_max else new
            weights = (scores - new).exp()
            fade = torch.ones_like(m) if no_max else (new - m if back else m - new).exp()
            fade = torch.ones_like(m) if guard and s == 0 else fade
            if inside:
                out = out + weights @ v[s : s + tile] / weights.sum(1, keepdim=True)
                total = total + 1
            else:
                terms = weights.sum() if pooled else weights.sum(1, keepdim=not row)
                more = weights @ v[s : s + tile]
                if new_fades:
                    terms, more = fade * terms, fade * more
                total = (fade if fade_l else 1) * total * (newest != "l") + terms
                out = (fade if fade_o else 1) * out * (newest != "o") + more
            m = m if forgets else new
            out = out / total if early else out
        return out / total if divided else out

    return answer


def pass_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(178)
    cases = []
    for T, S, d_k, d_v, tile in (
        (3, 4, 2, 3, 9),
        (2, 7, 4, 3, 3),
        (1, 5, 3, 1, 1),
        (4, 6, 8, 2, 2),
    ):
        q, k = torch.randn(T, d_k, generator=draw), torch.randn(S, d_k, generator=draw)
        cases.append((2 * q, k, torch.randn(S, d_v, generator=draw), tile))
    q, k, v, tile = cases[1]
    one = torch.ones(1, k.shape[1])
    near = k.abs() + one
    cases += [
        (150 * one, near, v, tile),  # far above zero
        (-150 * one, near, v, tile),  # far below
        (torch.cat([150 * one, one / 2, -150 * one]), near, v, tile),  # each query another
        (150 * one, near.flip(0), v, tile),
        (torch.cat([400 * one, -400 * one]), near, v, tile),  # too far for double precision
        (-8192 * one, one + torch.arange(7.0)[:, None] / 2048, v, tile),  # below -16,000
        (one, torch.tensor([0.0, 150, 50, 0, 300, 100, 200])[:, None] * one, v, tile),  # spread
    ]
    return cases


def _with_top(
    q: Tensor, k: Tensor, v: Tensor, top: Callable, clamp: bool = False, little: float = 0.0
) -> Tensor:
    """Softmax over all keys, with another number than the maximum subtracted."""
    scores = q @ k.T / k.shape[1] ** 0.5
    scores = scores.clamp(-80, 80) if clamp else scores
    weights = (scores - top(scores)).exp()
    return weights @ v / (weights.sum(1, keepdim=True) + little)


def _shares(q: Tensor, k: Tensor) -> Tensor:
    """Which share of the sum of all queries is each one's own."""
    scores = q @ k.T / k.shape[1] ** 0.5
    own = (scores - scores.amax(1, keepdim=True)).exp().sum(1, keepdim=True)
    return own / own.sum()


PASS_SLIPS = [
    ("m begins too high", {"begin": 0.0}, "m begins at minus infinity."),
    ("one maximum for all queries", {"whole": True}, "The maximum is taken of each row."),
    ("the sum does not fade", {"fade_l": False}, "l is scaled as o is."),
    ("the output does not fade", {"fade_o": False}, "o is scaled as l is."),
    ("the maximum of the tile alone", {"last": True}, "Take the greater of old and new."),
    ("not scaled by the root", {"scale": "none"}, "Scores are divided by the root of d_k."),
    ("divided by d_k", {"scale": "d"}, "Scores are divided by the *root* of d_k."),
    ("divided by the root of the number of keys", {"scale": "S"},
     "Scores are divided by the root of the width of a key."),
    ("a tile that is not full left out", {"cut": True}, "The last tile may be shorter."),
    ("not divided", {"divided": False}, "The output is o / l."),
    ("the factor upside down", {"back": True, "guard": True},
     "Old sums are scaled by e to the power of (old maximum - new maximum), at most 1."),
]  # fmt: skip
PASS_KNOWN = [
    ("m begins too high", "the sum does not fade"),
    ("m begins too high", "one maximum for all queries"),
    ("one maximum for all queries", "the sum does not fade"),
    ("the sum does not fade", "the output does not fade"),
    ("the sum does not fade", "not divided"),
    ("the maximum of the tile alone", "a tile that is not full left out"),
]


PASS_MISTAKES = mistakes(
    ("divided by the root of the width of the values", _one_pass(scale="d_v"),
     "Scores are divided by the root of d_k, the width of queries and keys."),
    ("a tile that is not full left out, also if it is the only one",
     _one_pass(cut=True, none_left=True),
     "The last tile may be shorter, and the first may be the last: `range(0, len(k), tile)`."),
    ("the softmax over the queries",
     lambda q, k, v, tile: (q @ k.T / k.shape[1] ** 0.5).softmax(0) @ v,
     "Each query shares its attention among the keys."),
    ("only the first tile",
     lambda q, k, v, tile: one_pass(q, k[:tile], v[:tile], tile),
     "All tiles of keys count. Does the loop end too early?"),
    ("divided in each tile, and at the end once more", _one_pass(early=True),
     "Both sums go on growing as they are: one division, behind the last tile."),
    ("divided in each tile", _one_pass(early=True, divided=False),
     "The next tile adds to the sum `o`, not to a quotient: divide once, at the end."),
    ("only the last tile",
     lambda q, k, v, tile: one_pass(q, k.split(tile)[-1], v.split(tile)[-1], tile),
     "The sums of the tiles before are kept, scaled to the new maximum."),
    ("one sum for all queries", _one_pass(pooled=True),
     "Each query has a sum of its own: add up along the keys only, `sum(1, keepdim=True)`."),
    ("the scores not scaled, and no maximum",
     lambda q, k, v, tile: (
         (q @ k.T).exp() @ v / (q @ k.T).exp().sum(1, keepdim=True)
     ),
     "Scores are divided by the root of d_k; and e to the power of 200 overflows: keep the "
     "running maximum."),
    ("nothing mended", _one_pass(begin=0.0, whole=True, fade_l=False),
     "Look at where m begins, at whose maximum is taken, and at what becomes of the old sum l."),
    ("left: the sum does not fade, and m begins too high", _one_pass(begin=0.0, fade_l=False),
     "Each query has its own maximum now. l must be scaled as o is, and m may have to go below 0."),
    ("left: one maximum for all queries, and m begins too high",
     _one_pass(begin=0.0, whole=True),
     "The sum fades now. But beside a query with large scores all terms of another underflow: take "
     "the maximum of each row; and m may have to go below 0."),
    ("left: one maximum for all queries, and the sum does not fade",
     _one_pass(whole=True, fade_l=False),
     "m begins low enough now. The maximum is to be each query's own, and l is scaled as o is."),
    ("a first m of -10,000, and scores lie below", _one_pass(begin=-1e4),
     "Two are mended. Scores may be lower than any number that one thinks of: m begins at minus "
     "infinity."),
    ("the mean of the scores in place of their maximum", _one_pass(mean=True),
     "Where scores lie far above their mean the exponential overflows: take the maximum off."),
    ("left: m begins too high", _one_pass(begin=0.0),
     "Two are mended. If all scores of a query are far below 0, all terms underflow, and 0 / 0 is "
     "left. m begins at minus infinity."),
    ("left: one maximum for all queries", _one_pass(whole=True),
     "Two are mended. A query whose scores are far below those of another loses all its terms: the "
     "maximum is to be taken of each row."),
    ("left: the sum does not fade", _one_pass(fade_l=False),
     "Two are mended. The old terms of l had less subtracted than the new: l is scaled as o is."),
    ("neither sum fades", _one_pass(fade_l=False, fade_o=False),
     "With a new maximum both old sums are scaled by e to the power of (old - new). (Is m renewed "
     "before they are scaled? Then this factor is always 1.)"),
    ("the output does not fade", _one_pass(fade_o=False),
     "Both sums are scaled, o as well as l."),
    ("no maximum taken off", _one_pass(no_max=True),
     "Right for small scores; e to the power of 200 overflows. Keep the running maximum, and take "
     "it off: the least score will not do."),
    ("the maximum of the tile in place of the running one", _one_pass(last=True),
     "If a tile's maximum is lower, the factor e to the power of (old - new) is above 1 and may "
     "overflow. Take the greater of both."),
    ("no number anywhere", _one_pass(back=True),
     "It comes of 0 / 0, of infinite less infinite or of 0 times infinity. Before the first tile m "
     "is minus infinity, and the factor of the old sums, e to the power of (old maximum - new "
     "maximum), is 0: is the factor another one, or m, or is nothing added up?"),
    ("no maximum taken off, in double precision",
     lambda q, k, v, tile: (
         lambda weights: weights @ v.double() / weights.sum(1, keepdim=True)
     )((q.double() @ k.double().T / k.shape[1] ** 0.5).exp()),
     "e to the power of 800 overflows in double precision, too, and that of -800 is 0. Keep the "
     "running maximum, and take it off."),
    ("the old sums multiplied by what they should be divided by", _one_pass(back=True, guard=True),
     "The factor is e to the power of (old maximum - new maximum), at most 1."),
    ("left: m begins too high, and the factor is upside down", _one_pass(begin=0.0, back=True),
     "The factor is e to the power of (old maximum - new maximum), at most 1; and m may have to go "
     "below 0."),
    ("a first m of -10,000, and the factor is upside down",
     _one_pass(begin=-1e4, back=True, guard=True),
     "The factor is e to the power of (old maximum - new maximum), at most 1; and scores may lie "
     "below every number that one thinks of."),
    ("the sums taken for a row", _one_pass(row=True),
     "`sum(1)` has the shape (T,), which is a row beside (T, d_v): `keepdim=True` makes a column "
     "of it."),
    ("the running maximum never kept", _one_pass(begin=0.0, forgets=True),
     "`m = new` is missing: the next tile has to know what was subtracted before."),
    ("one sum for all queries, over all tiles",
     lambda q, k, v, tile: one_pass(q, k, v, tile) * _shares(q, k),
     "Each query has a sum of its own: add up along the keys only, `sum(1, keepdim=True)`."),
    ("a softmax for each tile", _one_pass(inside=True),
     "Tiles with greater scores weigh more: divide once, at the end."),
    ("not divided", _one_pass(divided=False), "The output is o / l."),
    ("not scaled by the root", _one_pass(scale="none"),
     "The scores are divided by the root of d_k, as in equation (1)."),
    ("divided by d_k", _one_pass(scale="d"), "The scores are divided by the *root* of d_k."),
    ("divided by the root of the number of keys", _one_pass(scale="S"),
     "The scores are divided by the root of the width of a key, `k.shape[1]`."),
    ("a tile that is not full left out", _one_pass(cut=True),
     "S need not be a multiple of `tile`: the last tile is shorter, and counts."),
    ("a causal mask",
     lambda q, k, v, tile: (
         (q @ k.T / k.shape[1] ** 0.5)
         .masked_fill(torch.ones(len(q), len(k)).triu(1).bool(), -math.inf)
         .softmax(-1)
         @ v
     ),
     "The task has no mask: every query attends to every key."),
    ("the maximum of the first tile for all",
     lambda q, k, v, tile: _with_top(q, k, v, lambda s: s[:, :tile].amax(1, keepdim=True)),
     "Later tiles may hold much greater scores, and their exponentials overflow. The maximum runs "
     "along."),
    ("scores clamped", lambda q, k, v, tile: _with_top(q, k, v, lambda s: 0.0, clamp=True),
     "Clamped scores are other scores: two that are both beyond the limit become equal."),
    ("the mean of the tiles",
     lambda q, k, v, tile: torch.stack([
         (q @ some.T / k.shape[1] ** 0.5).softmax(1) @ part
         for some, part in zip(k.split(tile), v.split(tile), strict=True)
     ]).mean(0),
     "Tiles with greater scores weigh more: add both sums, and divide once, at the end."),
    ("the maximum of each key in place of each query",
     lambda q, k, v, tile: _with_top(q, k, v, lambda s: s.amax(0, keepdim=True)),
     "What is subtracted must be the same for all keys of a query: the maximum of a row."),
    ("all tiles but the first",
     lambda q, k, v, tile: one_pass(q, k[tile:], v[tile:], tile) if len(k) > tile
     else one_pass(q, k, v, tile),
     "All tiles of keys count, the first as well."),
    ("the tiles' softmaxes added up",
     lambda q, k, v, tile: sum(
         (q @ some.T / k.shape[1] ** 0.5).softmax(1) @ part
         for some, part in zip(k.split(tile), v.split(tile), strict=True)
     ),
     "So the weights sum to one in every tile, and to the number of tiles in all: add both sums, "
     "and divide once, at the end."),
    ("one maximum for all queries, and a little added to the sum",
     lambda q, k, v, tile: _with_top(q, k, v, lambda s: s.amax(), little=1e-8),
     "A query whose scores are far below those of another loses all its terms, and what is added "
     "makes 0 of it. The maximum is to be taken of each row; then no sum is below 1."),
    *combined(_one_pass, PASS_SLIPS, PASS_KNOWN),
    ("multiplied by the root", _one_pass(scale="times"),
     "The scores are *divided* by the root of d_k."),
    ("divided by half of d_k", _one_pass(scale="half"),
     "The root is a power, `** 0.5`; `* 0.5` is a half."),
    ("no softmax", lambda q, k, v, tile: (q @ k.T / k.shape[1] ** 0.5) @ v,
     "The weights are the softmax of the scores."),
    ("what is new is scaled, too", _one_pass(new_fades=True),
     "Only the old sums had another maximum subtracted: `l = fade * l + weights.sum()`, without "
     "brackets around both, and o likewise."),
    ("the sum of the last tile alone", _one_pass(newest="l"),
     "l keeps what it has, scaled, and the new terms are added."),
    ("the output of the last tile alone", _one_pass(newest="o"),
     "o keeps what it has, scaled, and the new terms are added."),
    ("multiplied by the sum",
     lambda q, k, v, tile: (
         lambda weights: weights @ v * weights.sum(1, keepdim=True)
     )((s := q @ k.T / k.shape[1] ** 0.5).sub(s.amax(1, keepdim=True)).exp()),
     "The output is o / l."),
)  # fmt: skip


def as_far_as_finite(bank: Sequence[Mistake], *names: str) -> Naming:
    """The name of a mistake that an answer makes wherever the mistake gives numbers. Where it gives
    none, how an answer fails depends on how it is written."""
    rows = [mistake for mistake in bank if mistake.name in names]

    def finite(value: Any) -> bool:
        parts = value if isinstance(value, tuple) else (value,)
        return all(bool(torch.as_tensor(part).isfinite().all()) for part in parts)

    def named(
        cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
    ) -> tuple[str, str] | None:
        for mistake in rows:
            known = [mistake.wrong(*case) for case in cases]
            there = [i for i, value in enumerate(known) if finite(value)]
            shown = [i for i in there if not same(known[i], want[i], 1e-3, 1e-4)]
            if len(shown) > 2 and all(same(got[i], known[i], 1e-3, 1e-4) for i in there):
                return mistake.name, mistake.why
        return None

    return named


UPSIDE_DOWN = (
    "the old sums multiplied by what they should be divided by",
    "left: m begins too high, and the factor is upside down",
    "a first m of -10,000, and the factor is upside down",
)


# 17.9 a key leaves the window


def forget(out: Tensor, L: float, score: float, value: Tensor) -> tuple[Tensor, float]:
    p = math.exp(score - L)
    return (out - p * value) / (1 - p), L + math.log1p(-p)


def forget_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(179)
    cases = [(torch.tensor([4.0]), math.log(4), 0.0, torch.tensor([1.0]))]
    for n, d_v, shift, less in (
        (3, 2, 0.0, 0), (5, 4, 1.5, 0), (4, 3, 1000.0, 0), (2, 1, -2.0, 0), (3, 2, 1000.0, 900),
    ):  # fmt: skip
        scores = torch.randn(n, generator=draw).double() + shift
        scores[0] -= less  # its weight is 0, and its inverse beyond every float
        values = torch.randn(n, d_v, generator=draw).double()
        out = scores.softmax(0) @ values
        cases.append((out, float(scores.logsumexp(0)), float(scores[0]), values[0]))
    return cases


def _forget(out: str = "right", log: str = "right", weight: str = "right") -> Any:
    def answer(o: Tensor, L: float, score: float, value: Tensor) -> tuple[Tensor, float]:
        p = {
            "right": lambda: math.exp(score - L), "score": lambda: math.exp(min(score, 80.0)),
            "upside down": lambda: math.exp(L - score), "ratio": lambda: score / L,
            "two": lambda: 2 ** (score - L), "difference": lambda: score - L,
            "sigmoid": lambda: 1 / (1 + math.exp(min(L - score, 700.0))),
            "odds": lambda: 1 / math.expm1(min(L - score, 700.0)),
            "rest": lambda: 1 - math.exp(score - L),
        }[weight]()  # fmt: skip
        q = 1 - p if p != 1 else 1e-9
        new = {
            "right": (o - p * value) / q, "not divided": o - p * value, "no weight": o - value,
            "no weight, divided": (o - value) / q, "divided only": o / q, "as before": o,
            "added": (o + p * value) / (1 + p), "value only": (o - p * value) / p,
            "multiplied": (o - p * value) * q, "plus": (o + p * value) / q,
            "1 + p": (o - p * value) / (1 + p), "twice": (o - 2 * p * value) / q,
            "part": p * value / q, "p": (o - p) / q, "towards": o - p / q * (o - value),
            "one term": o + p * (o - value), "alone": o / q - p * value,
        }[out]  # fmt: skip
        logs = {
            "right": L + math.log(abs(q)), "as before": L, "minus": L - math.log(abs(q)),
            "score": L - score, "q": math.log(abs(q)),
            "p": L + (math.log(p) if p > 0 else -math.inf),
            "1 + p": L + math.log(1 + p),
            "sum": math.exp(min(L, 80.0)) * q, "base 2": L + math.log2(abs(q)), "- p": L - p,
            "base 10": L + math.log10(abs(q)),
        }[log]  # fmt: skip
        return new, logs

    return answer


FORGET_SLIPS = [
    ("not divided", {"out": "not divided"}, "The others' weights sum to 1 - p: divide."),
    ("the value subtracted without its weight", {"out": "no weight, divided"},
     "The output holds p times the value."),
    ("only divided", {"out": "divided only"}, "p times the value has to go."),
    ("nothing subtracted", {"out": "as before"}, "p times the value has to go."),
    ("the value added", {"out": "plus"}, "This key leaves: p times the value is subtracted."),
    ("divided by p", {"out": "value only"}, "What is left has the weight 1 - p."),
    ("multiplied by 1 - p", {"out": "multiplied"}, "Divide by 1 - p, do not multiply."),
    ("the logarithm as before", {"log": "as before"}, "A term of the sum is gone."),
    ("the logarithm grows", {"log": "minus"}, "A term of the sum is gone: log(1 - p) is added."),
    ("the score subtracted from the logarithm", {"log": "score"},
     "What goes is one term of the sum, not a factor."),
    ("the weight subtracted from the logarithm", {"log": "- p"},
     "The logarithm changes by log(1 - p)."),
    ("only the change of the logarithm", {"log": "q"}, "The new logarithm is L + log(1 - p)."),
]  # fmt: skip
FORGET_KNOWN = [("not divided", "the logarithm as before")]


def _alone(exp: Callable, out: bool = True, log: bool = True) -> Any:
    """With exponentials of scores themselves, which overflow: to an error or to infinity."""

    def answer(o: Tensor, L: float, score: float, value: Tensor) -> tuple[Tensor, Any]:
        new, logs = forget(o, L, score, value)
        whole, term = exp(L), exp(score)
        if out:
            new = (whole * o - term * value) / (whole - term)
        return new, torch.as_tensor(whole - term).log() if log else logs

    return answer


def _by_ratio(exp: Callable) -> Any:
    """With the sum as a multiple of the term that leaves, which may be beyond every float."""

    def answer(o: Tensor, L: float, score: float, value: Tensor) -> tuple[Tensor, Tensor]:
        times = torch.as_tensor(exp(L - score))
        return (times * o - value) / (times - 1), score + (times - 1).log()

    return answer


def _infinite(score: float) -> float:
    return math.exp(score) if score < 80 else math.inf


def _as_sum(exp: Callable, out: bool = True, log: str = "") -> Any:
    """With the logarithm taken for the sum itself."""

    def answer(o: Tensor, L: float, score: float, value: Tensor) -> tuple[Tensor, Any]:
        new, logs = forget(o, L, score, value)
        term = exp(score)
        if out:
            new = (o - term / L * value) / (1 - term / L)
        left = torch.as_tensor(L - term)
        return new, {"sum": left, "log": left.log()}.get(log, logs)

    return answer


IS_A_LOGARITHM = (
    "L is the logarithm of the sum: the weight of the key is e to the power of (score - L), and "
    "what is left has the logarithm L + log(1 - p)."
)
AS_SUM = [
    (f"L taken for the sum itself{where}{how}", _as_sum(exp, **slip), IS_A_LOGARITHM)
    for where, slip in (
        (", also where it is returned", {"log": "sum"}),
        (" in the output", {}),
        (" in the new logarithm, as which the sum is returned", {"out": False, "log": "sum"}),
        (" in the new logarithm", {"out": False, "log": "log"}),
        (", and its new logarithm", {"log": "log"}),
    )
    for how, exp in (("", _infinite), (", with an error for large scores", math.exp))
]


OF_ALL_KEYS = (
    "L is the logarithm of the sum over *all* keys, that of the one that leaves among them: its "
    "weight is e to the power of (score - L)."
)
FORGET_MISTAKES = mistakes(
    *AS_SUM,
    ("L taken for that of the other keys: a sigmoid in place of the weight",
     _forget(weight="sigmoid"), OF_ALL_KEYS),
    ("L taken for that of the other keys, and so left as it is",
     _forget(weight="sigmoid", log="as before"), OF_ALL_KEYS),
    ("divided by the sum over the other keys: p / (1 - p) in place of p", _forget(weight="odds"),
     OF_ALL_KEYS),
    ("the weight of the others in place of that of the key", _forget(weight="rest"),
     "1 - p is what the others weigh together. The key that leaves has p, e to the power of "
     "(score - L)."),
    ("the score in place of the logarithm",
     lambda out, L, score, value: (forget(out, L, score, value)[0], score),
     "Asked for is the new logarithm, L + log(1 - p), p the weight of the key that leaves."),
    *((f"the sum as a multiple of the term that leaves, which {words}", _by_ratio(exp),
       "That is right on paper. If the key that leaves weighs next to nothing, e to the power of "
       "(L - score) has no number: take the other quotient, p = e to the power of (score - L).")
      for words, exp in (("overflows", math.exp), ("becomes infinite", _infinite))),
    ("the output alone divided", _forget(out="alone"),
     "All of (o - p v) is divided by 1 - p. Are there brackets missing?"),
    ("only what is subtracted divided",
     lambda o, L, score, value: (
         lambda p: (o - p * value / (1 - p), L + math.log(1 - p))
     )(math.exp(score - L)),
     "All of (o - p v) is divided by 1 - p. Are there brackets missing?"),
    ("the weight squared",
     lambda o, L, score, value: (
         lambda p: ((o - p * value) / (1 - p * p), L + math.log(1 - p * p))
     )(math.exp(score - L)),
     "The weights of the others sum to 1 - p."),
    ("the new logarithm begun at the score",
     lambda o, L, score, value: (
         forget(o, L, score, value)[0], score + math.log(1 - math.exp(score - L))
     ),
     "What shrinks is the sum of all: L + log(1 - p), not score + log(1 - p)."),
    ("the weight as well",
     lambda o, L, score, value: (*forget(o, L, score, value), math.exp(score - L)),
     "Asked for are two: the output and the logarithm."),
    ("divided by 1 + p", _forget(out="1 + p"),
     "This key leaves: what is left has the weight 1 - p."),
    ("the logarithm of what a key that comes in makes", _forget(log="1 + p"),
     "This key leaves: log(1 - p) is added, which is below 0."),
    ("the value subtracted twice", _forget(out="twice"),
     "The output holds the value once, with the weight p."),
    ("the value added", _forget(out="plus"),
     "This key leaves: p times the value is subtracted from the output."),
    ("exponentials that stand alone, and become infinite", _alone(_infinite),
     "That is right on paper, and e to the power of 1,000 is infinite. Only differences of scores "
     "go into an exponential."),
    ("exponentials that stand alone in the logarithm, and become infinite",
     _alone(_infinite, out=False),
     "The output is right. Infinite less infinite is no number: L + log(1 - p), with "
     "p = e to the power of (score - L)."),
    ("exponentials that stand alone in the output, and become infinite",
     _alone(_infinite, log=False),
     "The logarithm is right. Infinite by infinite is no number: only the difference of score and "
     "L goes into an exponential."),
    ("the exponential of the score divided by the logarithm",
     lambda o, L, score, value: (
         (o - (p := math.exp(score) / L) * value) / (1 - p), L + math.log(1 - p)
     ),
     "The weight is e to the power of (score - L): L is a logarithm, and e to the power of 1,000 "
     "overflows."),
    ("the difference of the sums in place of its logarithm, with an error for large scores",
     lambda o, L, score, value: (
         forget(o, L, score, value)[0], math.exp(L) - math.exp(score)
     ),
     "Asked for is the logarithm of what is left; the exponentials themselves overflow for large "
     "scores."),
    ("the sum in place of its logarithm, which becomes infinite",
     lambda o, L, score, value: (
         forget(o, L, score, value)[0], _infinite(L) * (1 - math.exp(score - L))
     ),
     "Asked for is the logarithm of the sum; the sum itself overflows for large scores."),
    ("the difference of the sums in place of its logarithm, which becomes infinite",
     lambda o, L, score, value: (
         forget(o, L, score, value)[0], _infinite(L) - _infinite(score)
     ),
     "Asked for is the logarithm of what is left; the exponentials themselves overflow for large "
     "scores."),
    ("L taken for the sum itself", lambda o, L, score, value: (
         (o - math.exp(score) / L * value) / (1 - math.exp(score) / L),
         math.log(L - math.exp(score))),
     "L is the logarithm of the sum: the weight of the key is e to the power of (score - L)."),
    ("not divided", _forget(out="not divided"),
     "The weights of the others sum to 1 - p. For a mean they must sum to 1: divide."),
    ("not divided, and the logarithm as before", _forget(out="not divided", log="as before"),
     "The weights of the others sum to 1 - p: divide. And a term of the sum is gone, so its "
     "logarithm is smaller."),
    ("the logarithm as before", _forget(log="as before"),
     "A term of the sum is gone: its logarithm is smaller by -log(1 - p)."),
    ("the value subtracted without its weight", _forget(out="no weight, divided"),
     "The output holds p times the value, not the value."),
    ("the value subtracted without its weight, and nothing divided", _forget(out="no weight"),
     "The output is a mean, in which the value has the weight p; and the weights of the others are "
     "to sum to 1 again."),
    ("only divided", _forget(out="divided only"),
     "The key's own part, p times its value, has to go."),
    ("nothing subtracted", _forget(out="as before"),
     "The key's own part, p times its value, has to go, and the others weigh more."),
    ("a key that comes in", _forget(out="added"),
     "This key leaves: signs are minus."),
    ("divided by p", _forget(out="value only"), "What is left has the weight 1 - p."),
    ("multiplied by 1 - p", _forget(out="multiplied"),
     "The weights of the others sum to 1 - p: divide by it, do not multiply."),
    ("the logarithm grows", _forget(log="minus"),
     "A term of the sum is gone: its logarithm is smaller. log(1 - p) is below 0 already."),
    ("the score subtracted from the logarithm", _forget(log="score"),
     "That divides the sum by e to the power of the score. What goes is one term of the sum."),
    ("the weight subtracted from the logarithm", _forget(log="- p"),
     "The sum is multiplied by 1 - p: its logarithm changes by log(1 - p), which is not -p."),
    ("only the output", lambda o, L, score, value: _forget()(o, L, score, value)[0],
     "The next key that leaves needs the new logarithm as well: return both, as a tuple."),
    ("only the change of the logarithm", _forget(log="q"),
     "Asked for is the new logarithm, L + log(1 - p)."),
    ("the logarithm of what leaves", _forget(log="p"),
     "L + log p is the score itself. What is left has the share 1 - p."),
    ("the sum in place of its logarithm", _forget(log="sum"),
     "Asked for is the logarithm of the sum; the sum itself overflows for large scores."),
    ("a logarithm to the base 2", _forget(log="base 2"), "The exponentials are those of e."),
    ("the weight without the sum", _forget(weight="score"),
     "The weight is e to the power of the score, divided by the sum of all: e to the power of "
     "(score - L)."),
    ("the weight upside down", _forget(weight="upside down"),
     "The weight is e to the power of (score - L), below 1."),
    ("the score divided by the logarithm",
     lambda o, L, score, value: (
         (o - score / L * value) / (1 - score / L), L + math.log(1 - score / L)
     ),
     "The weight is e to the power of (score - L), not score / L: L is a logarithm."),
    ("a key that comes in, and its logarithm",
     lambda o, L, score, value: (
         _forget(out="added")(o, L, score, value)[0], L + math.log1p(math.exp(score - L))
     ),
     "This key leaves: signs are minus."),
    ("the sum that is left in place of its logarithm",
     lambda o, L, score, value: (
         _forget()(o, L, score, value)[0],
         math.exp(min(700, L)) - math.exp(min(700, score)),
     ),
     "Asked for is its logarithm, L + log(1 - p). The sum itself becomes infinite where scores are "
     "large."),
    ("the share that is left in place of the logarithm",
     lambda o, L, score, value: (
         _forget()(o, L, score, value)[0], 1 - math.exp(score - L)
     ),
     "Asked for is the new logarithm, L + log(1 - p)."),
    ("exponentials that stand alone",
     lambda o, L, score, value: (
         (math.exp(L) * o - math.exp(score) * value) / (math.exp(L) - math.exp(score)),
         math.log(math.exp(L) - math.exp(score)),
     ),
     "That is right on paper, and e to the power of 1,000 overflows. Only differences of scores go "
     "into an exponential."),
    *combined(_forget, FORGET_SLIPS, FORGET_KNOWN),
    ("a power of 2", _forget(weight="two"), "The exponentials are those of e."),
    ("no exponential", _forget(weight="difference"),
     "score - L is the logarithm of the weight: take the exponential."),
    ("the part of the key that leaves", _forget(out="part"),
     "That is what goes. Asked for is what is left: all of the output, less that."),
    ("the weight subtracted without the value", _forget(out="p"),
     "The output holds p times the value."),
    ("moved towards the value", _forget(out="towards"),
     "The key leaves: what is left moves away from its value, by p / (1 - p) (out - value)."),
    ("moved away by p times the difference", _forget(out="one term"),
     "What is left is out + p / (1 - p) (out - value): is the division by 1 - p missing?"),
    ("a logarithm to the base 10", _forget(log="base 10"), "The exponentials are those of e."),
)  # fmt: skip


# 17.10 the cheapest reach


def cheapest(length: int) -> list[tuple[int, int]]:
    best: dict[int, list[int]] = {1: []}  # the most positions that windows of this sum can reach
    for total in range(1, 10_000):
        for windows in list(best.values()):
            for w in range(2, 6):
                if sum(windows) + w == total:
                    product = math.prod(windows) * w
                    best.setdefault(product, [*windows, w])
        most = max(best)
        if most >= length:
            windows = best[min(p for p in best if p >= length)]
            return [(w, math.prod(windows[:i])) for i, w in enumerate(windows)]
    raise AssertionError


@cache
def least_cost(length: int) -> int:
    return sum(w for w, _ in cheapest(length))


def reach_and_cost(answer: Any, length: int) -> dict[str, Any] | None:
    """How many positions the last one misses, and the sum of the windows."""
    found = answer(length)
    if found is None:
        return None
    try:
        pairs = found if isinstance(found, dict) else list(found)
        numbers = [(float(w), float(d)) for w, d in pairs]
    except (TypeError, ValueError):  # a dict of windows has one layer for each width
        raise ValueError(
            f"expected a list of pairs (window, dilation), got {show(found)}"
        ) from None
    if not all(number.is_integer() for pair in numbers for number in pair):
        raise ValueError(f"expected whole numbers, got {show(pairs)}")
    layers = [(int(w), int(d)) for w, d in numbers]
    if any(w < 1 or d < 1 for w, d in layers):
        raise ValueError(f"expected windows and dilations of at least 1, got {layers}")
    result, turned = _reach_and_cost(layers, length), [(d, w) for w, d in layers]
    best = [0, least_cost(length)]
    if result != best == _reach_and_cost(turned, length):
        result = ["exchanged", "exchanged"]
    product = math.prod(w for w, _ in (turned if result[0] == "exchanged" else layers))
    said = dict(zip(("positions left out", "sum of the windows"), result, strict=True))
    return {**said, "windows that would do": product >= length}


def _reach_and_cost(layers: list[tuple[int, int]], length: int) -> list[int]:
    heard = {length - 1}
    for w, d in reversed(layers):
        if len(heard) == length:
            break  # there may be many more layers
        heard = {t - i * d for t in heard for i in range(min(w, length)) if t - i * d >= 0}
    return [length - len(heard), sum(w for w, _ in layers)]


def _stack_said(cases: Sequence[Case], got: Sequence, want: Sequence) -> tuple[str, str] | None:
    """What a stack lacks, and in how many cases."""
    if not all(isinstance(said, dict) for said in got):
        return None
    lacking = [
        (said, said["sum of the windows"] == best["sum of the windows"])
        for said, best in zip(got, want, strict=True)
        if said["positions left out"] not in (0, "exchanged")
    ]
    dear = sum(
        said["positions left out"] == 0 and said["sum of the windows"] > best["sum of the windows"]
        for said, best in zip(got, want, strict=True)
    )
    left_out = "positions are left out"
    because = (
        "A layer leads back by 0, d, 2d, ... up to (w - 1) d, and the sums of one step from each "
        "layer have to give every distance up to length - 1."
    )
    if lacking and all(said["windows that would do"] for said, _ in lacking):
        enough = "the cheapest" if all(least for _, least in lacking) else "wide enough"
        left_out = f"the windows are {enough}, and the dilations leave positions out"
        because = (
            "The dilation of a layer is the *product* of all windows below it, and that of the "
            "lowest is 1: then every distance is reached, and none twice."
        )
    elif lacking and not any(said["windows that would do"] for said, _ in lacking):
        left_out = "positions are left out, as the windows are too few or too narrow"
        because = (
            "The last position reaches no more than the product of the windows, itself among them."
        )
    names, reasons = [], []
    for number, name, why in (
        (len(lacking), left_out, because),
        (dear, "all is heard, and it could be cheaper",
         "With holes that fit, a stack reaches the product of its windows: which windows have the "
         "smallest sum for a product of at least `length`?"),
    ):  # fmt: skip
        if number:
            names.append(name + f" (in {number} of {len(got)} cases)" * (number < len(got)))
            reasons.append(why)
    return (", and ".join(names), " ".join(reasons)) if names else None


def _stack(windows: list[int]) -> list[tuple[int, int]]:
    return [(w, math.prod(windows[:i])) for i, w in enumerate(windows)]


def _of_width(w: int, length: int) -> list[int]:
    count = 1
    while w**count < length:
        count += 1
    return [w] * count


def _root(length: int) -> int:
    return math.isqrt(length - 1) + 1


def _cube_root(length: int) -> list[tuple[int, int]]:
    w = next(w for w in range(1, length + 1) if w**3 >= length)
    return _stack([w, w, -(-length // w**2)])


def _threes_first(length: int) -> list[int]:
    windows = []
    while length > 3:
        windows.append(3)
        length = -(-length // 3)
    return [*windows, length] if length > 1 else windows


CHEAPEST_MISTAKES = mistakes(
    ("one position too few", lambda n: cheapest(max(2, n - 1)),
     "The last position depends on itself and on `length` - 1 others: the product of the windows "
     "is at least `length`."),
    ("one position too many", lambda n: cheapest(n + 1),
     "The last position itself is one of the `length`: a product of the windows that is equal to "
     "`length` is enough."),
    ("one full layer", lambda n: [(n, 1)],
     "That reaches everything, at the price of everything. Several layers with holes that grow are "
     "far cheaper."),
    ("a window and a stride", lambda n: [(_root(n), 1), (_root(n), _root(n))],
     "Two layers cost about twice the root of the length. More layers with narrower windows cost "
     "less."),
    ("two layers, of about the square root",
     lambda n: _stack([_root(n), -(-n // _root(n))]),
     "Two layers cost about twice the root of the length. More layers with narrower windows cost "
     "less."),
    ("three layers, of about the cube root", _cube_root,
     "Three layers cost about three times the cube root of the length. For long inputs more layers "
     "with narrower windows cost less."),
    ("windows of 2 in all layers", lambda n: _stack(_of_width(2, n)),
     "That is ByteNet's way, and nearly the best. Three windows of 2 cost 6 and reach 8 positions; "
     "two of 3 cost 6 and reach 9."),
    ("windows of 3 in all layers", lambda n: _stack(_of_width(3, n)),
     "3 is the best width, but the last window may be wider than it needs to be: try 2 or 4 in one "
     "or two layers."),
    ("windows of 4 in all layers", lambda n: _stack(_of_width(4, n)),
     "4 reaches as far as 2 and 2, for the same price. Numbers of 3 have a larger product than "
     "numbers of 4 with the same sum."),
    ("windows of 3, and no holes", lambda n: [(w, 1) for w in _of_width(3, n)],
     "Without holes that grow, reach adds up by window - 1 a layer: positions are left out."),
    ("holes of the same width in all layers", lambda n: [(w, 3) for w in _of_width(3, n)],
     "With the same holes in every layer, positions in different groups never reach each other."),
    ("holes that double under windows of 3",
     lambda n: [(w, 2**i) for i, w in enumerate(_of_width(3, n))],
     "With windows of 3 the holes may grow by 3 from layer to layer; by 2, positions are reached "
     "twice, and the farthest not at all."),
    ("holes that begin too wide",
     lambda n: [(w, 3 ** (i + 1)) for i, w in enumerate(_of_width(3, n))],
     "The first layer has to have dilation 1: else the position before the last is never reached."),
    ("windows without holes, as deep as it takes", lambda n: [(2, 1)] * (n - 1),
     "That reaches everything: one position further with each layer, which costs 2 each."),
    ("one layer too few", lambda n: _stack(_of_width(3, n)[:-1]),
     "The product of the windows has to be at least the length."),
    ("dilation and window exchanged",
     lambda n: [(d, w) for w, d in cheapest(n)],
     "A layer is a pair (window, dilation), in this order."),
    ("the cheapest windows, and no holes", lambda n: [(w, 1) for w, _ in cheapest(n)],
     "The windows are right. Without holes that grow, reach adds up by window - 1 a layer."),
    ("the cheapest windows, with holes that grow by one",
     lambda n: [(w, i + 1) for i, (w, _) in enumerate(cheapest(n))],
     "The windows are right. A layer's dilation is the product of the windows below it."),
    ("the cheapest windows, each layer's own width in its holes",
     lambda n: [(w, d * w) for w, d in cheapest(n)],
     "The windows are right. A layer's dilation is the product of the windows *below* it, and the "
     "lowest has 1."),
    ("the example for every length", lambda n: [(2, 1), (3, 2)],
     "That reaches 6 positions. `length` may be any number."),
    ("no layers", lambda n: [], "Without a layer the last position depends on itself alone."),
    ("the threes first, and one window for what is left",
     lambda n: _stack(_threes_first(n)),
     "What is left behind the threes may be 4 for what 2 and 2 do, or 1 for nothing: the product "
     "counts, and it may be a little larger than the length."),
    ("all but the first position",
     lambda n: cheapest(n - 1) if n > 2 else [(1, 1)],
     "The product of the windows has to be at least the length: the last position itself is one of "
     "those that are reached."),
    ("holes that double",
     lambda n: [(w, 2**i) for i, (w, _) in enumerate(_stack(_threes_first(n)))],
     "Each layer's dilation is the product of all windows below it: where those are 3, holes grow "
     "by 3."),
)  # fmt: skip


# 17.11 a test of a pass over tiles


@dataclass(frozen=True)
class Pass:
    """An attention in tiles that says what it does."""

    says: str
    compute: Callable[..., Tensor]

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, tile: int) -> Tensor:
        return self.compute(q, k, v, tile)

    def __repr__(self) -> str:
        return f"<{self.says}>"


A_LITTLE_MORE = moved(one_pass, 0.05)
PLAIN_MEAN = "the plain mean of the values"
FAR_OFF = "numbers that are all far too large"
PASSES = {
    says: Pass(says, compute)
    for says, compute in (
        ("the mended function of 17.8", _one_pass()),
        ("the faulty function of 17.8", _one_pass(begin=0.0, whole=True, fade_l=False)),
        ("the softmax over all keys at once", one_pass),
        ("m begins at 0", _one_pass(begin=0.0)),
        ("one maximum for all queries", _one_pass(whole=True)),
        ("the sum does not fade", _one_pass(fade_l=False)),
        ("the output does not fade", _one_pass(fade_o=False)),
        ("no maximum taken off", _one_pass(no_max=True)),
        ("divided by d_k", _one_pass(scale="d")),
        ("divided by the root of the number of keys", _one_pass(scale="S")),
        ("a tile that is not full left out", _one_pass(cut=True)),
        ("a softmax for each tile", _one_pass(inside=True)),
        ("not divided", _one_pass(divided=False)),
        ("the queries in reverse order", lambda q, k, v, tile: one_pass(q.flip(0), k, v, tile)),
        ("no number anywhere", lambda *given: one_pass(*given) * math.nan),
        (FAR_OFF, lambda *given: one_pass(*given) + 1000),
        (PLAIN_MEAN, lambda q, k, v, tile: v.mean(0).expand(len(q), -1)),
        A_LITTLE_MORE[:2],
    )
}
RIGHT_PASSES = ["the mended function of 17.8", "the softmax over all keys at once"]
MISSED_PASSES = {
    "no number anywhere":
        "No comparison with NaN is true, `>` as little as `<`: ask whether the difference is "
        "*below* the tolerance, as `torch.allclose` does.",
    FAR_OFF:
        "That numbers are finite, of the right shape, or the same for every tile does not say that "
        "they are right: compare them with the attention over all keys.",
    A_LITTLE_MORE[0]: A_LITTLE_MORE[2],
    PLAIN_MEAN:
        "It does not look at the scores. That shows where neither the values nor the scores are "
        "all alike: every weighted mean of equal values is the same. Draw both.",
    "the faulty function of 17.8": "Take several tiles, and scores far above and far below zero.",
    "m begins at 0": "It shows where *all* scores of a query are far below zero.",
    "one maximum for all queries":
        "It shows where two queries of one call differ much, at the one whose scores are lower: "
        "compare the outputs of all queries, and all numbers of them.",
    "the sum does not fade": "It shows where a later tile has a greater maximum.",
    "the output does not fade": "It shows where a later tile has a greater maximum.",
    "no maximum taken off": "It shows where scores are far above zero.",
    "divided by d_k":
        "Compare with the attention of equation (1), for keys of several entries, and for small "
        "scores, too: beside a large one the others weigh nothing, whatever divides them.",
    "divided by the root of the number of keys": "Let the number of keys not be their width.",
    "a tile that is not full left out": "Let the number of keys be no multiple of `tile`.",
    "a softmax for each tile": "Take several tiles, and compare with attention over all keys.",
    "not divided": "Compare with the attention of equation (1).",
    "the queries in reverse order": "Let the queries differ, and compare their outputs one by one.",
}  # fmt: skip


def run_pass_test(answer: Callable, one: str) -> Any:
    return said_closely(answer, PASSES[one], right=one in RIGHT_PASSES)


def _passes(
    queries: list[list[float]],
    sizes: list[tuple[int, int]],
    order: str = "all",
    values: Callable[[Tensor], Tensor] = lambda v: v,
) -> Any:
    """A test that looks at some inputs only: factors of the queries, (S, tile), order of keys, and
    what it makes of the values."""

    def test(one_pass_: Callable) -> bool:
        draw = torch.Generator().manual_seed(1711)
        for factors in queries:
            for S, tile in sizes:
                k = torch.rand(S, 4, generator=draw) + 1
                v = values(torch.randn(S, 3, generator=draw))
                q = torch.tensor(factors)[:, None] * torch.ones(4)
                up = k[k.sum(1).argsort()]
                for keys in {"all": (k, up, up.flip(0)), "up": (up,), "down": (up.flip(0),)}[order]:
                    out = one_pass_(q, keys, v, tile)
                    if not torch.allclose(out, one_pass(q, keys, v, tile), atol=1e-3):
                        return False
        return True

    return test


EVERYWHERE = [[1.0, -1.0], [100.0], [-100.0], [100.0, 1.0, -100.0]]
MANY = [(7, 3), (6, 2), (5, 9)]

tells = _passes(EVERYWHERE, MANY)


def _reference_tells(one_pass: Callable) -> bool:
    return tells(one_pass)


_KEYS = torch.rand(7, 4, generator=torch.Generator().manual_seed(1712)) + 1


def _passes_random(one_pass: Callable, scale: float) -> bool:
    draw = torch.Generator().manual_seed(1711)
    q, k, v = (torch.randn(*size, generator=draw) for size in ((4, 4), (6, 4), (6, 3)))
    right = (scale * q @ k.T / 2).softmax(1) @ v
    return torch.allclose(one_pass(scale * q, k, v, 2), right, atol=1e-3)


def _agrees_with_itself(one_pass: Callable) -> bool:
    q = torch.tensor([30.0, -30.0, 1.0])[:, None] * torch.ones(4)
    k, v = _KEYS, _KEYS[:, :2]
    return torch.allclose(one_pass(q, k, v, 2), one_pass(q, k, v, len(k)), atol=1e-3)


TELLS_MISTAKES = mistakes(
    ("True for every function", lambda one_pass: True, "The faulty function of 17.8 must fail."),
    ("False for every function", lambda one_pass: False,
     "The mended function of 17.8 must pass. (Compared bit by bit nothing passes: the sums are "
     "taken in another order. Or does what you compare with lack the root of d_k, or see infinite "
     "scores?)"),
    ("several tiles of small scores", lambda one_pass: _passes_random(one_pass, 1),
     "Several tiles show whether both sums fade. Where m begins, and whose maximum is taken, shows "
     "where scores are large."),
    ("large scores of both signs for each query", lambda one_pass: _passes_random(one_pass, 100),
     "Random scores, however large, have both signs in each query: all of them far below zero, and "
     "one query far from another, have to be made."),
    ("tiles compared with one tile", _agrees_with_itself,
     "In one tile the function may be as wrong as in several: compare with the attention over all "
     "keys."),
    ("the other way round", lambda one_pass: not tells(one_pass),
     "True is for the functions that are right."),
    ("small scores in one tile", _passes([[1.0, -1.0]], [(5, 9)]),
     "This is what finds none of them: take several tiles, and large scores."),
    ("one tile only", _passes(EVERYWHERE, [(5, 9)]),
     "What is wrong in the second tile does not show in the first."),
    ("small scores only, or numbers of 64 bits", _passes([[1.0, -1.0]], MANY),
     "Scores near 200 and near -200 show what the maximum is for, in float32: among numbers of 64 "
     "bits e to the power of 700 is one."),
    ("no query with all its scores far below zero",
     _passes([[1.0, -1.0], [100.0], [100.0, 90.0]], MANY),
     "Where all scores of a query are far below 0, it shows where m begins."),
    ("one query at a time", _passes([[1.0], [100.0], [-100.0]], MANY),
     "One maximum for all queries shows only where two queries differ much."),
    ("only full tiles", _passes(EVERYWHERE, [(6, 2), (6, 3)]),
     "A last tile that is shorter may be left out: take an S that is no multiple of `tile`."),
    ("values that are all alike", _passes(EVERYWHERE, MANY, values=torch.ones_like),
     "The weighted mean of equal values is the same whatever the weights: what is wrong with these "
     "does not show. Draw the values."),
    ("values of zeros", _passes(EVERYWHERE, MANY, values=torch.zeros_like),
     "The output is zero then, whatever the weights. Draw the values."),
    ("only whether the numbers are finite",
     lambda one_pass: all(
         bool(one_pass(torch.tensor(f)[:, None] * torch.ones(4), _KEYS, _KEYS[:, :2], 3)
              .isfinite().all())
         for f in EVERYWHERE
     ),
     "A wrong sum is finite, too: compare with the attention over all keys."),
)  # fmt: skip


EXERCISES = [
    Exercise(
        number="17.1",
        title="count the pairs",
        section="Windows, as a mask",
        reference=count_pairs,
        cases=COUNT_CASES,
        mistakes=COUNT_MISTAKES,
    ),
    Exercise(
        number="17.2",
        title="a summary behind each block",
        section="Strides, and positions that everybody sees",
        reference=fixed_mask,
        cases=FIXED_CASES,
        mistakes=FIXED_MISTAKES,
        invariants=[
            Invariant(
                "nobody sees the future",
                lambda output, *_: bool((torch.as_tensor(output).int().triu(1) == 0).all()),
                "Above the diagonal everything is False, since s <= t.",
            )
        ],
    ),
    Exercise(
        number="17.3",
        title="after how many layers",
        section="How far layers see",
        reference=first_heard,
        cases=heard_cases,
        mistakes=HEARD_MISTAKES,
        canonical=_whole,
        invariants=[
            Invariant(
                "every position has itself after 0 layers",
                lambda output, *_: bool((torch.as_tensor(output).diagonal() == 0).all()),
                "Before the first layer each position holds its own input.",
            )
        ],
    ),
    Exercise(
        number="17.4",
        title="two halves",
        section="One pass over the keys",
        reference=merge,
        cases=merge_cases,
        mistakes=MERGE_MISTAKES,
        invariants=[
            Invariant(
                "the output is a number everywhere",
                lambda output, *_: bool(torch.as_tensor(output).isfinite().all()),
                "Every query has seen something in one half at least. But e to the power of 1,000 "
                "is infinite, and that of -1,000 is 0; where a half saw nothing, its `m` is minus "
                "infinity; and infinite less infinite, 0 times infinite and 0 / 0 are no numbers.",
            )
        ],
    ),
    Exercise(
        number="17.5",
        title="windows that stop at a document's edge",
        section="Windows, as a mask",
        reference=document_mask,
        cases=DOCUMENT_CASES,
        mistakes=DOCUMENT_MISTAKES,
        invariants=[
            Invariant(
                "nobody sees the future",
                lambda output, *_: bool((torch.as_tensor(output).int().triu(1) == 0).all()),
                "Above the diagonal everything is False: the windows are causal.",
            )
        ],
    ),
    Exercise(
        number="17.6",
        title="break it: what the last position misses",
        section="Windows with holes",
        reference=missed,
        cases=MISSED_CASES,
        mistakes=MISSED_MISTAKES,
    ),
    Exercise(
        number="17.7",
        title="predict, then try: does the order of layers matter",
        section="How far layers see",
        reference=ORDER,
        mistakes=ORDER_MISTAKES,
        canonical=words,
        invariants=[
            Invariant(
                'six words, each "same" or "differs"',
                lambda words: len(words) == 6 and {*words} <= {"same", "differs"},
                "Each of the six pairs has one of these two answers.",
            )
        ],
    ),
    Exercise(
        number="17.8",
        title="find the mistakes",
        section="One pass over the keys",
        reference=one_pass,
        cases=pass_cases,
        mistakes=PASS_MISTAKES,
        invariants=Family(as_far_as_finite(PASS_MISTAKES, *UPSIDE_DOWN)),
        rtol=1e-3,
        atol=1e-4,
    ),
    Exercise(
        number="17.9",
        title="derive: a key leaves the window",
        section="One pass over the keys",
        reference=forget,
        cases=forget_cases,
        mistakes=FORGET_MISTAKES,
        invariants=Family(as_far_as_finite(FORGET_MISTAKES, *(name for name, *_ in AS_SUM[::2]))),
        rtol=1e-3,
        atol=1e-4,
    ),
    Exercise(
        number="17.10",
        title="design: the cheapest reach",
        section="Windows with holes",
        reference=cheapest,
        cases=[(2,), (3,), (5,), (6,), (10,), (25,), (36,), (64,), (82,), (100,), (1000,)],
        mistakes=CHEAPEST_MISTAKES,
        probe=reach_and_cost,
        invariants=Family(_stack_said),
    ),
    Exercise(
        number="17.11",
        title="a test that tells",
        section="One pass over the keys",
        reference=_reference_tells,
        cases=[(says,) for says in PASSES],
        mistakes=TELLS_MISTAKES,
        invariants=rules(RIGHT_PASSES, MISSED_PASSES),
        probe=run_pass_test,
        together=spoken,
    ),
]
