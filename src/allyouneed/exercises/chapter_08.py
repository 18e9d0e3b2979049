"""The exercises of chapter 8, masks: references, cases and known mistakes."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .compare import plain
from .core import Case, Exercise, Family, Invariant, mistakes
from .faults import OPENED, changed
from .pairs import combined
from .pairs import pairs as two_slips
from .suspects import rules, said_closely, spoken

# 8.1 by hand: five weights of the third place, the first hidden by padding, causal mask

HAND_MISTAKES = mistakes(
    ("no mask at all", [2 / 20, 1 / 20, 3 / 20, 4 / 20, 10 / 20],
     "These are the weights of a place that sees all five. It may see two of them."),
    ("the padding mask forgotten", [2 / 6, 1 / 6, 3 / 6, 0.0, 0.0],
     "The future is hidden, and that is right. The first place is padding: hide it as well."),
    ("the causal mask forgotten", [0.0, 1 / 18, 3 / 18, 4 / 18, 10 / 18],
     "The padding is hidden, and that is right. The fourth and fifth places are the future."),
    ("zero instead of minus infinity", [1 / 7, 1 / 7, 3 / 7, 1 / 7, 1 / 7],
     "A hidden score of 0 has the exponential 1, and takes its share. Minus infinity has 0."),
    ("zero instead of minus infinity, for the padding", [1 / 5, 1 / 5, 3 / 5, 0.0, 0.0],
     "The future is hidden, and that is right. A score of 0 has the exponential 1, and takes its "
     "share: the padding's has to be minus infinity, too."),
    ("zero instead of minus infinity, for the future", [0.0, 1 / 6, 3 / 6, 1 / 6, 1 / 6],
     "The padding is hidden, and that is right. A score of 0 has the exponential 1, and takes its "
     "share: those of the future have to be minus infinity, too."),
    ("the mask after the softmax", [0.0, 1 / 20, 3 / 20, 0.0, 0.0],
     "The hidden places were struck out in the numerator and left in the denominator, so the "
     "weights do not sum to one."),
    ("the other triangle", [0.0, 0.0, 3 / 17, 4 / 17, 10 / 17],
     "A word sees itself and what comes before it. Here it sees itself and what comes after."),
    ("a triangle without its diagonal", [0.0, 1.0, 0.0, 0.0, 0.0],
     "A word may see itself: up to and including that position. (Or is that the row of the second "
     "place?)"),
    ("one word of the future seen", [0.0, 1 / 8, 3 / 8, 4 / 8, 0.0],
     "The third place, which holds the second word, sees up to itself. The fourth is the future. "
     "(Were places counted from 0, or words without the padding?)"),
    ("polarity inverted", [2 / 16, 0.0, 0.0, 4 / 16, 10 / 16],
     "These are the weights of what should be hidden."),
    ("exponentials that were not divided by their sum", [0.0, 1.0, 3.0, 0.0, 0.0],
     "The right two places are left. Weights sum to one: divide by 1 + 3."),
    ("all to the word itself, or scores shared out without the exponential",
     [0.0, 0.0, 1.0, 0.0, 0.0],
     "The second place may be seen, too. Its score is 0, and the exponential of that is 1, not 0."),
    ("the padding struck out after the softmax", [0.0, 1 / 6, 3 / 6, 0.0, 0.0],
     "The padding was left in the denominator, so the weights do not sum to one."),
    ("the look shared evenly", [0.0, 1 / 2, 1 / 2, 0.0, 0.0],
     "The right two places are left. Their shares go by the exponentials of their scores."),
    ("the mask, not the weights", [0.0, 1.0, 1.0, 0.0, 0.0],
     "These are the places that the third may see. Asked for is how much it looks at each."),
    ("only the places that are seen", [1 / 4, 3 / 4],
     "Asked for are five weights: a hidden place has one, too."),
    ("one word of the future seen, and the padding", [2 / 10, 1 / 10, 3 / 10, 4 / 10, 0.0],
     "The third place sees up to itself, and no padding."),
    ("a triangle without its diagonal, and the padding seen", [2 / 3, 1 / 3, 0.0, 0.0, 0.0],
     "A word may see itself, and it may see no padding."),
    ("the places the other way round", [0.0, 3 / 4, 1 / 4, 0.0, 0.0],
     "The two that are seen have the right weights between them, in the wrong places: the second "
     "has the score 0, the third ln 3."),
    ("the row from the last place to the first", [0.0, 0.0, 3 / 4, 1 / 4, 0.0],
     "The first weight belongs to the first place, the padding."),
    ("the row from the last place to the first, and the padding seen",
     [0.0, 0.0, 3 / 6, 1 / 6, 2 / 6],
     "The first weight belongs to the first place, and that is padding."),
    ("the logarithms of the weights",
     [-math.inf, math.log(1 / 4), math.log(3 / 4), -math.inf, -math.inf],
     "Asked for are the weights themselves, shares of one."),
    ("the logarithms of the weights, and zeros", [0.0, math.log(1 / 4), math.log(3 / 4), 0.0, 0.0],
     "Asked for are the weights themselves, shares of one."),
    ("minus infinity among the weights", [-math.inf, 1 / 4, 3 / 4, -math.inf, -math.inf],
     "Minus infinity is a score, of which the softmax makes 0. As a weight it is no share."),
    ("in per cent", [0.0, 25.0, 75.0, 0.0, 0.0], "Weights sum to one."),
    ("scores, not weights", [0.0, 0.0, math.log(3), 0.0, 0.0],
     "Asked for are the weights: the softmax of what may be seen."),
    ("all scores but the future's, not weights", [math.log(2), 0.0, math.log(3), 0.0, 0.0],
     "Asked for are the weights: the softmax of what may be seen. And the first place is padding."),
    ("hidden scores, not weights", [-math.inf, 0.0, math.log(3), -math.inf, -math.inf],
     "The hiding is right. The softmax is missing."),
    *((f"divided by the root of {n} once more", [0.0, 1 / (1 + w), w / (1 + w), 0.0, 0.0],
       "The scores are divided by the root of d_k already.")
      for n in (2, 4, 5) for w in [3 ** n**-0.5]),
    ("the masks turned, and the future seen alone", [0.0, 0.0, 0.0, 4 / 14, 10 / 14],
     "The third place sees what stands up to it, itself too, and no later place."),
)  # fmt: skip


def _row(seen: tuple[int, ...] = (1, 2), share: str = "of what is seen") -> list[float]:
    """The row by hand, right by default: which places are seen, and how the rest is left out."""
    parts = [2.0, 1.0, 3.0, 4.0, 10.0]
    mine = [part if s in seen else 0.0 for s, part in enumerate(parts)]
    if share == "of all":
        return [part / sum(parts) for part in mine]
    if share == "with zeros":
        mine = [part or 1.0 for part in mine]
    if share == "of one":
        return mine
    if share == "alike":
        mine = [float(part > 0) for part in mine]
    return [part / sum(mine) for part in mine]


HAND_SLIPS = [
    ("the padding seen", {"seen": (0, 1, 2)}, "The first place is padding."),
    ("the future seen", {"seen": (1, 2, 3, 4)}, "The fourth and fifth places are the future."),
    ("one word of the future seen", {"seen": (1, 2, 3)}, "The third place sees up to itself."),
    ("the other triangle", {"seen": (2, 3, 4)}, "The past is seen, not the future."),
    ("a triangle without its diagonal", {"seen": (1,)}, "A word sees itself."),
    ("the mask after the softmax", {"share": "of all"},
     "What is struck out must be out of the denominator, too."),
    ("zero instead of minus infinity", {"share": "with zeros"}, "A score of 0 weighs 1."),
    ("exponentials that were not divided by their sum", {"share": "of one"},
     "Weights sum to one."),
    ("the look shared evenly", {"share": "alike"}, "Shares go by the exponentials."),
]  # fmt: skip
HAND_MISTAKES += two_slips(
    _row,
    HAND_SLIPS,
    [mistake.wrong for mistake in HAND_MISTAKES] + [_row()],
    rtol=5e-3,
    atol=2e-3,
)


def _numbers(weights: list | tuple | Tensor) -> Tensor:
    return torch.as_tensor(weights).double()


# 8.2 a mask for sentences packed in one row


def packed_mask(tokens: Tensor, eos: int, pad: int) -> Tensor:
    return _packed()(tokens, eos, pad)


def _packed(
    number: Callable[[Tensor], Tensor] = lambda ends: ends.cumsum(1) - ends.int(),
    same: Callable[[Tensor, Tensor], Tensor] = torch.eq,
    keys: bool = True,
    queries: bool = True,
    ids: Callable[[int, int], tuple[int, int]] = lambda eos, pad: (eos, pad),
    word: Callable[[Tensor, int], Tensor] = torch.ne,
) -> Callable[..., Tensor]:
    """The mask, right by default: how sentences are numbered, which may see which, what hides."""

    def mask(tokens: Tensor, eos: int, pad: int) -> Tensor:
        eos, pad = ids(eos, pad)
        which, real = number(tokens == eos), word(tokens, pad)
        may = same(which[:, None, :, None], which[:, None, None, :])
        if keys:
            may = may & real[:, None, None, :]
        if queries:
            may = may & real[:, None, :, None]
        return may

    return mask


def packed_cases() -> list[tuple]:
    return [
        (torch.tensor([[5, 3, 6, 3]]), 3, 0),
        (torch.tensor([[5, 5, 3, 6, 7, 3, 0], [8, 3, 5, 3, 6, 3, 0], [4, 4, 6, 5, 9, 7, 3]]), 3, 0),
        (torch.tensor([[4, 0, 9, 3, 9, 1, 1, 1], [3, 3, 5, 9, 0, 6, 6, 9]]), 9, 1),
        (torch.tensor([[0, 6, 9, 4, 9, 1, 1]]), 9, 1),
    ]


def _overlapping(tokens: Tensor, eos: int, pad: int) -> Tensor:
    """Each EOS counted to the sentence that it ends and to the next one."""
    ends = tokens == eos
    behind, own = ends.cumsum(1), ends.cumsum(1) - ends.int()
    pairs = [(q[:, None, :, None], k[:, None, None, :]) for q in (own, behind)
             for k in (own, behind)]  # fmt: skip
    same = torch.stack([q == k for q, k in pairs]).any(0)
    return same & (tokens != pad)[:, None, None, :] & (tokens != pad)[:, None, :, None]


def _start_kept(tokens: Tensor, eos: int, pad: int) -> Tensor:
    """The place where a sentence starts, set to 0 for the first row only."""
    mask = torch.zeros(len(tokens), 1, *2 * tokens.shape[1:], dtype=torch.bool)
    start = 0
    for b, t in (tokens == eos).nonzero().tolist():
        mask[b, 0, start : t + 1, start : t + 1] = True
        start = t + 1
    return mask


PACKED_SLIPS = [
    ("EOS counted to the next sentence", {"number": lambda ends: ends.cumsum(1)},
     "The number of the sentence has to grow behind an EOS, not at it."),
    ("sentences counted down the batch", {"number": lambda ends: ends.cumsum(0) - ends.int()},
     "The sentences stand one behind another along the second axis."),
    ("the sentences before it seen as well", {"same": torch.ge}, "The numbers have to be equal."),
    ("the sentences behind it seen as well", {"same": torch.le}, "The numbers have to be equal."),
    ("the other sentences seen, its own not", {"same": torch.ne}, "The numbers have to be equal."),
    ("the rows of paddings not hidden", {"queries": False}, "A padding attends to nothing."),
    ("the paddings not hidden as keys", {"keys": False}, "Nothing attends to a padding."),
    ("the ids taken to be 3 and 0", {"ids": lambda eos, pad: (3, 0)}, "They are arguments."),
    ("the running count shifted with roll", {"number": lambda ends: ends.cumsum(1).roll(1, 1)},
     "roll puts the last count in front, where nothing has ended yet."),
    ("ids below the padding's taken for padding", {"word": torch.gt},
     "Only the id `pad` is padding: compare with `!=`."),
]  # fmt: skip
PACKED_BUT = [  # the other slip hides it
    ("the sentences before it seen as well", "the paddings not hidden as keys"),
    ("the sentences behind it seen as well", "the rows of paddings not hidden"),
    ("the rows of paddings not hidden", "the paddings not hidden as keys"),
    ("the ids taken to be 3 and 0", "ids below the padding's taken for padding"),
    ("the rows of paddings not hidden", "ids below the padding's taken for padding"),
]
PACKED_MISTAKES = mistakes(
    ("EOS counted to the next sentence", _packed(lambda ends: ends.cumsum(1)),
     "The number of the sentence has to grow *behind* an EOS. At the EOS itself the sum has grown "
     "already, so that it is taken for the first token of the next sentence."),
    ("the sentences not kept apart", _packed(same=lambda q, k: (q >= 0) & (k >= 0)),
     "Only the padding is hidden. A token may see its own sentence, and not its neighbours."),
    ("the padding mask", lambda tokens, eos, pad: (tokens != pad)[:, None, None, :],
     "This hides the padding from all queries alike. Which sentence a key belongs to is another "
     "question for each query: the mask has a row for each."),
    ("paddings see each other", _packed(keys=False, queries=False),
     "What stands behind the last EOS is no sentence. A padding sees nothing, not even itself."),
    ("the causal mask as well, and polarity inverted",
     lambda tokens, eos, pad: ~packed_mask(tokens, eos, pad).tril(),
     "True means may attend. And this is an encoder: a token sees what follows in its sentence."),
    ("only the first sentence told from the rest",
     _packed(lambda ends: (ends.cumsum(1) - ends.int()).clamp(max=1)),
     "There may be many sentences in a row: number all of them."),
    ("paddings see themselves",
     lambda tokens, eos, pad: packed_mask(tokens, eos, pad) | torch.eye(tokens.shape[1]).bool(),
     "A padding attends to nothing, not even to itself."),
    ("EOS counted to the next sentence, and paddings see each other",
     _packed(lambda ends: ends.cumsum(1), keys=False, queries=False),
     "The number of the sentence has to grow behind an EOS, not at it. And what stands behind the "
     "last EOS is no sentence: a padding sees nothing."),
    ("the causal mask as well",
     lambda tokens, eos, pad: packed_mask(tokens, eos, pad) & _square(tokens.shape[1]).tril(),
     "The sentences are read by an encoder: a token sees what comes behind it in its sentence."),
    ("the causal mask alone",
     lambda tokens, eos, pad: _square(tokens.shape[1]).tril().expand(len(tokens), 1, -1, -1),
     "The causal mask hides the future. Here the other sentences are to be hidden."),
    ("the sentences before it seen as well", _packed(same=torch.ge),
     "A token may see its own sentence alone: the numbers have to be equal."),
    ("the sentences behind it seen as well", _packed(same=torch.le),
     "A token may see its own sentence alone: the numbers have to be equal."),
    ("polarity inverted", lambda tokens, eos, pad: ~packed_mask(tokens, eos, pad),
     "True means may attend, as everywhere in this book."),
    ("the same token in place of the same sentence",
     lambda tokens, eos, pad: (tokens[:, None, :, None] == tokens[:, None, None, :])
        & (tokens != pad)[:, None, None, :],
     "Each token sees those with the same id. Compare the numbers of the sentences, not the ids."),
    ("only itself", lambda tokens, eos, pad: torch.eye(tokens.shape[1]).bool()
        & (tokens != pad)[:, None, None, :],
     "A token sees its whole sentence, not only itself."),
    ("EOS hidden",
     lambda tokens, eos, pad: packed_mask(tokens, eos, pad) & (tokens != eos)[:, None, None, :],
     "EOS is a token of its sentence like any other, and may be seen."),
    ("EOS sees nothing",
     lambda tokens, eos, pad: packed_mask(tokens, eos, pad) & (tokens != eos)[:, None, :, None],
     "EOS is a token of its sentence like any other, and sees it."),
    ("EOS without a row",
     lambda tokens, eos, pad: packed_mask(tokens, eos, pad)
        & ((tokens != eos)[:, None, None, :] & (tokens != eos)[:, None, :, None]),
     "EOS is a token of its sentence like any other: it sees, and may be seen."),
    ("the first row's sentences for all",
     lambda tokens, eos, pad: packed_mask(tokens[:1], eos, pad).expand(len(tokens), -1, -1, -1),
     "Every row is packed in its own way."),
    ("sentences counted down the batch", _packed(lambda ends: ends.cumsum(0) - ends.int()),
     "The sentences stand one behind another along the second axis."),
    ("no running count of the sentences", _packed(lambda ends: ends.cumsum(1)[:, -1:] - ends.int()),
     "All words of a row have one number here, and all EOS another. A running sum along the row "
     "gives each sentence its own."),
    ("the id of EOS taken to be 3", lambda tokens, eos, pad: packed_mask(tokens, 3, pad),
     "The id of EOS is an argument, `eos`."),
    ("the id of the padding taken to be 0", lambda tokens, eos, pad: packed_mask(tokens, eos, 0),
     "The padding's id is an argument, `pad`."),
    ("the ids taken to be 3 and 0", lambda tokens, eos, pad: packed_mask(tokens, 3, 0),
     "The ids of EOS and of the padding are arguments, `eos` and `pad`."),
    ("without an axis for the heads", lambda tokens, eos, pad: packed_mask(tokens, eos, pad)[:, 0],
     "The values are right. (B, T, T) is taken for (H, T, T): it needs an axis for the heads."),
    ("the axis for the heads in front",
     lambda tokens, eos, pad: packed_mask(tokens, eos, pad).transpose(0, 1),
     "The axis of the heads comes second, behind that of the batch."),
    ("numbers 0 and 1 instead of true and false",
     lambda tokens, eos, pad: packed_mask(tokens, eos, pad).int(),
     "A mask of numbers is ambiguous, and is added to the scores by some functions. Return "
     "booleans."),
    ("numbers to be added, 0 and minus infinity",
     lambda tokens, eos, pad: torch.zeros(len(tokens), 1, 1, 1).masked_fill(
         ~packed_mask(tokens, eos, pad), -math.inf
     ),
     "This is the mask M of equation (8.2). Asked for is the boolean one."),
    ("EOS counted to the next sentence, and the causal mask as well",
     lambda tokens, eos, pad: (
         _packed(lambda ends: ends.cumsum(1))(tokens, eos, pad)
         & _square(tokens.shape[1]).tril()
     ),
     "The number of the sentence has to grow behind an EOS, not at it. And this is an encoder: a "
     "token sees what follows in its sentence, too."),
    *combined(_packed, PACKED_SLIPS, but=PACKED_BUT),
    ("EOS as a sentence of its own",
     lambda tokens, eos, pad: (
         packed_mask(tokens, eos, pad)
         & ((tokens == eos)[:, None, :, None] == (tokens == eos)[:, None, None, :])
     ),
     "The EOS belongs to the sentence that it ends: both see each other."),
    ("the sentences of the first row for all", lambda tokens, eos, pad: (
        packed_mask(torch.where(tokens[:1] == pad, pad - 1, tokens[:1]), eos, pad)
        & (tokens != pad)[:, None, :, None] & (tokens != pad)[:, None, None, :]),
     "Each row is packed in its own way."),
    ("the tokens counted in place of the ends",
     _packed(lambda ends: (~ends).cumsum(1) - (~ends).int()),
     "The number of the sentence grows behind an EOS, and behind no other token."),
    ("an EOS in the next sentence as well", _overlapping,
     "An EOS belongs to the sentence that it ends: the next one begins a place behind it."),
    ("or in place of and",
     lambda tokens, eos, pad: _packed(keys=False, queries=False)(tokens, eos, pad)
         | (tokens != pad)[:, None, None, :],
     "A key has to be of the same sentence *and* no padding: `&`."),
    ("the padding mask, repeated for every query",
     lambda tokens, eos, pad: (tokens != pad)[:, None, None, :].expand(-1, -1, tokens.shape[1], -1),
     "This hides the padding from all queries alike. Which sentence a key belongs to is another "
     "question for each query."),
    ("only the rows of paddings hidden",
     lambda tokens, eos, pad: (tokens != pad)[:, None, :, None].expand(-1, -1, -1, tokens.shape[1]),
     "Each word sees everything. It may see its own sentence alone."),
    ("the ends before each place, not their running sum",
     _packed(lambda ends: torch.cat([0 * ends[:, :1], ends[:, :-1]], 1).int()),
     "Every sentence needs a number of its own: add up the ends, along the row."),
    ("only the paddings see each other",
     lambda tokens, eos, pad: (tokens == pad)[:, None, None, :] & (tokens == pad)[:, None, :, None],
     "The paddings are what is hidden: a token is seen where it is *not* `pad`."),
    ("EOS sees all sentences",
     lambda tokens, eos, pad: packed_mask(tokens, eos, pad)
         | ((tokens == eos)[:, None, :, None] & (tokens != pad)[:, None, None, :]),
     "EOS is a token of its sentence like any other, and sees that one alone."),
    ("every EOS seen by all sentences",
     lambda tokens, eos, pad: packed_mask(tokens, eos, pad)
         | ((tokens == eos)[:, None, None, :] & (tokens != pad)[:, None, :, None]),
     "EOS is a token of its sentence like any other, and seen from that one alone."),
    ("the first sentence of a row alone", lambda tokens, eos, pad: packed_mask(tokens, eos, pad)
        & ((tokens == eos).cumsum(1) - (tokens == eos).int() == 0)[:, None, :, None],
     "There may be many sentences in a row, and each sees itself. Does the loop end with the first "
     "EOS?"),
    ("only the rows of EOS", lambda tokens, eos, pad: packed_mask(tokens, eos, pad)
        & (tokens == eos)[:, None, :, None],
     "Every token sees its sentence, not the last of it alone: fill a square, not a row."),
    ("a row begun where the one before it has ended", _start_kept,
     "Each row begins anew: the first sentence of every row starts at place 0."),
    ("a token does not see itself",
     lambda tokens, eos, pad: packed_mask(tokens, eos, pad) & ~torch.eye(tokens.shape[1]).bool(),
     "A token sees all of its sentence, itself as well."),
    ("the sentences not kept apart, nor paddings from each other",
     lambda tokens, eos, pad: _packed(keys=False, queries=False)(tokens, eos, pad)
         | ((tokens != pad)[:, None, None, :] & (tokens != pad)[:, None, :, None]),
     "A key has to be of the same sentence *and* no padding: `&`, not `|`."),
    ("the running count shifted with roll", _packed(lambda ends: ends.cumsum(1).roll(1, 1)),
     "`roll` puts the last count in front: the first token of each row gets the number of the last "
     "sentence. Put a 0 there, where nothing has ended yet, or shift the ends and then count."),
    ("the running count shifted with roll, without an axis",
     _packed(lambda ends: ends.cumsum(1).roll(1)),
     "Without an axis `roll` counts through the whole table: the first token of each row gets the "
     "last count of another row. Put a 0 there, where nothing has ended yet."),
    ("the running count shifted the other way", _packed(lambda ends: ends.cumsum(1).roll(-1, 1)),
     "The number of the sentence grows behind an EOS. Here each token has the count of the next "
     "place, so that it grows a place before it."),
    ("ids below the padding's taken for padding", _packed(word=torch.gt),
     "Only the id `pad` is padding, and words may have lower ids than that: compare with `!=`."),
    ("ids below the padding's hidden as keys alone",
     lambda tokens, eos, pad: packed_mask(tokens, eos, pad) & (tokens > pad)[:, None, None, :],
     "Only the id `pad` is padding, and words may have lower ids than that: compare with `!=`."),
    ("ids above the padding's taken for padding", _packed(word=torch.lt),
     "Only the id `pad` is padding, and words may have higher ids than that: compare with `!=`."),
    ("ids below the padding's taken for padding, and that one not", _packed(word=torch.ge),
     "Only the id `pad` is padding, and words may have lower ids than that: compare with `!=`."),
    ("ids up to that of EOS hidden, and EOS kept",
     lambda tokens, eos, pad: packed_mask(tokens, eos, pad)
         & ((w := tokens >= eos)[:, None, None, :] & w[:, None, :, None]),
     "Words may have lower ids than EOS. Only the id `pad` is padding: compare with `!=`."),
    ("nothing allowed",
     lambda tokens, eos, pad: torch.zeros(len(tokens), 1, *2 * tokens.shape[1:]).bool(),
     "This table is False everywhere. True means may attend."),
)  # fmt: skip

# 8.3 a mask over a buffer


def buffer_mask(filled: int, new: int, size: int) -> Tensor:
    return torch.arange(size) <= filled + torch.arange(new)[:, None]


def _square(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool)


def _in_buffer(rule: Callable[[Tensor, Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """A mistake in which places are seen: `rule(s, i, filled)`, i counts the new queries."""

    def wrong(filled: int, new: int, size: int) -> Tensor:
        return rule(torch.arange(size), torch.arange(new)[:, None], filled)

    return wrong


def _buffered(
    since: Callable[[int, int], int] = lambda filled, new: 0,
    until: Callable[[Tensor, int], Tensor] = lambda i, filled: filled + i,
    turned: bool = False,
) -> Callable[..., Tensor]:
    """The mask, right by default: from which place on, up to which, and which of both is True."""

    def mask(filled: int, new: int, size: int) -> Tensor:
        s, i = torch.arange(size), torch.arange(new)[:, None]
        seen = (s >= since(filled, new)) & (s <= until(i, filled))
        return ~seen if turned else seen

    return mask


BUFFER_SLIPS = [
    ("the kept places hidden", {"since": lambda filled, new: filled}, "They may be seen."),
    ("a token does not see itself", {"until": lambda i, filled: filled + i - 1},
     "A new token sees itself."),
    ("one place too far", {"until": lambda i, filled: filled + i + 1},
     "The place behind a token may not be seen."),
    ("the triangle from the upper left corner", {"until": lambda i, filled: i},
     "The first new query stands at place `filled`."),
    ("the new tokens see each other", {"until": lambda i, filled: filled + len(i) - 1 + 0 * i},
     "A new token comes before those behind it."),
    ("polarity inverted", {"turned": True}, "True means may attend."),
]  # fmt: skip
BUFFER_BUT = [
    ("the kept places hidden", "a token does not see itself"),
    ("the kept places hidden", "one place too far"),
    ("the kept places hidden", "the triangle from the upper left corner"),
    ("a token does not see itself", "polarity inverted"),
]


BUFFER_MISTAKES = mistakes(
    *combined(_buffered, BUFFER_SLIPS, but=BUFFER_BUT),
    ("the first places hidden, as many as there are new tokens",
     _buffered(since=lambda filled, new: new),
     "All that is kept may be seen, from place 0 on."),
    ("the triangle from the upper left corner", _in_buffer(lambda s, i, filled: s <= i),
     "The first new query does not stand at place 0 but at place `filled`: the kept places before "
     "it may be seen, too. (`is_causal=True` makes this mistake.)"),
    ("the new tokens' own square", lambda filled, new, size: _square(new).tril(),
     "The queries look at the whole buffer: the mask has a column for each of its `size` places."),
    ("rows for the kept places as well",
     lambda filled, new, size: _square(size).tril()[: filled + new],
     "Only the new tokens ask: the mask has `new` rows, those from place `filled` on."),
    ("the triangle from the lower right corner",
     lambda filled, new, size: _square(size).tril()[size - new :],
     "That would be right if the new tokens filled the buffer to its end."),
    ("the kept places alone", _in_buffer(lambda s, i, filled: (s < filled) & (i >= 0)),
     "A new token may see itself, too, and the new ones before it."),
    ("a token does not see itself", _in_buffer(lambda s, i, filled: s < filled + i),
     "Up to and including that position: a new token sees itself."),
    ("one place too far", _in_buffer(lambda s, i, filled: s <= filled + i + 1),
     "The place behind a token is the one that it has to predict, or is not filled at all."),
    ("the new tokens see each other", _in_buffer(
        lambda s, i, filled: (s < filled + len(i)) & (i >= 0)
     ),
     "All that is filled may be seen, but a new token comes before those behind it."),
    ("the whole buffer", _in_buffer(lambda s, i, filled: (s >= 0) & (i >= 0)),
     "The places that are not filled hold an earlier text's numbers. They must be hidden."),
    ("itself alone", _in_buffer(lambda s, i, filled: s == filled + i),
     "A token may see all that came before it, not only itself."),
    ("the new tokens alone", _in_buffer(lambda s, i, filled: (s >= filled) & (s <= filled + i)),
     "The places before `filled` hold the tokens so far, which may be seen."),
    ("polarity inverted", _in_buffer(lambda s, i, filled: s > filled + i),
     "True means may attend, as everywhere in this book."),
    ("counted from the end of the new", _in_buffer(lambda s, i, filled: s <= filled - i),
     "The second new token stands one place *behind* the first: filled + i."),
    ("the rows in reverse", _in_buffer(lambda s, i, filled: s <= filled + len(i) - 1 - i),
     "The first new token sees the fewest places, the last one the most."),
    ("transposed", lambda filled, new, size: buffer_mask(filled, new, size).T,
     "Rows are queries, columns are keys: (new, size)."),
    ("only the filled part", lambda filled, new, size: buffer_mask(filled, new, filled + new),
     "The mask covers the whole buffer: its shape is (new, size)."),
    ("a square", lambda filled, new, size: _square(size).tril(),
     "There are `new` queries and not `size`: the shape is (new, size)."),
    ("numbers 0 and 1 instead of true and false",
     lambda filled, new, size: buffer_mask(filled, new, size).int(),
     "A mask of numbers is ambiguous, and is added to the scores by some functions. Return "
     "booleans."),
    ("numbers to be added, 0 and minus infinity",
     lambda filled, new, size: torch.zeros(new, size).masked_fill(
         ~buffer_mask(filled, new, size), -math.inf
     ),
     "This is the mask M of equation (8.2). Asked for is the boolean one."),
    ("axes for sentences and heads in front",
     lambda filled, new, size: buffer_mask(filled, new, size)[None, None],
     "The values are right. Two axes are enough: broadcasting adds the others in front."),
    ("`filled` taken for the last filled place", _in_buffer(lambda s, i, filled: s <= filled + i - 1
        + 2 * (filled == 0)),
     "`filled` places are filled, 0 to filled - 1. The first new token stands at place `filled`."),
    ("the triangle moved by the free places",
     lambda filled, new, size: torch.ones(new, size).tril(size - filled).bool(),
     "The kept places are what moves it: `tril(filled)`."),
    ("the triangle moved by the new places, less one",
     lambda filled, new, size: torch.ones(new, size).tril(new - 1).bool(),
     "The kept places are what moves it: `tril(filled)`."),
    ("nothing allowed", _in_buffer(lambda s, i, filled: (s < 0) & (i < 0)),
     "This table is False everywhere. True means may attend."),
    ("the upper triangle", _in_buffer(lambda s, i, filled: s >= filled + i),
     "Rows look back: what stands at or before a token is seen, what follows is not."),
    ("what is not filled seen as well",
     lambda filled, new, size: (
         buffer_mask(filled, new, size) | (torch.arange(size) >= filled + new)
     ),
     "The kept tokens and the new ones are right. The places behind them hold no keys yet."),
    ("the kept places and itself",
     _in_buffer(lambda s, i, filled: (s < filled) | (s == filled + i)),
     "A new token sees the new ones before it, too."),
    ("the triangle moved the other way", _in_buffer(lambda s, i, filled: s <= i - filled),
     "The new tokens stand behind the kept ones: `tril(filled)`, with a plus."),
    ("the kept places hidden, the triangle in the corner right",
     _in_buffer(lambda s, i, filled: (s >= filled) & (s < filled + i)),
     "The kept places may be seen, and each new token sees itself."),
    ("one place too far, without what is kept",
     _in_buffer(lambda s, i, filled: (s >= filled) & (s <= filled + i + 1)),
     "The kept places may be seen, and the place behind a token may not."),
    ("the first new token's row for all",
     lambda filled, new, size: (torch.arange(size) <= filled).expand(new, size),
     "Each new token sees one more than the one before it: itself."),
    ("the triangle from the upper left corner, without its diagonal",
     _in_buffer(lambda s, i, filled: s < i),
     "The first new query does not stand at place 0 but at place `filled`, and it sees itself."),
    ("the new tokens see each other, and the place behind them",
     _in_buffer(lambda s, i, filled: (s <= filled + len(i)) & (i >= 0)),
     "A new token sees what is kept, the new ones before it, and itself."),
    ("the new tokens in front of the kept ones",
     _in_buffer(lambda s, i, filled: (s <= i) | ((s >= len(i)) & (s < filled + len(i)))),
     "The keys of the new tokens are put behind the kept ones, at `filled` and on."),
    ("the triangle moved back by the new tokens",
     _in_buffer(lambda s, i, filled: s <= filled - len(i) + i),
     "`filled` counts the places filled before: the first new token stands behind them, at place "
     "`filled`."),
    ("the free places in front", lambda filled, new, size: (
        buffer_mask(filled, new, size).roll(size - filled - new, 1)),
     "The buffer is filled from its first place on. What is free stands at its end."),
    ("two places too few", _in_buffer(lambda s, i, filled: s < filled + i - 1),
     "Up to and including its own position, `filled` + i: a new token sees itself."),
    ("rows for all places of the buffer, columns for the filled ones",
     lambda filled, new, size: _square(size).tril()[:, : filled + new],
     "A row for each *new* token, a column for each place of the buffer: (new, size)."),
    ("a square of the filled part", lambda filled, new, size: _square(filled + new).tril(),
     "Only the new tokens ask, and they look at the whole buffer: (new, size)."),
    ("rows for the free places as well",
     lambda filled, new, size: _square(size).tril()[filled:],
     "There are `new` rows, from place `filled` on: behind them nobody asks."),
)  # fmt: skip

# 8.4 weights under a mask, four axes


def masked_weights(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0.0)


def weights_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(84)
    scores = torch.randn(2, 3, 4, 4, generator=draw)  # T = S: a wrong axis runs through
    lengths = torch.tensor([4, 2])
    padding = (torch.arange(4) < lengths[:, None])[:, None, None, :]
    causal = _square(4).tril()
    cross = torch.randn(3, 2, 2, 5, generator=draw)
    with_empty = torch.tensor([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0], [1, 0, 1, 1, 1]]).bool()
    towering = torch.zeros(1, 1, 2, 3)
    towering[..., 2], towering[..., 0] = 300.0, -1.0
    deep = torch.tensor([[[[-200.0, -201.0, 5.0], [-20000.0, -20100.0, 5.0]]]])
    last_hidden = torch.tensor([[True, True, False]])
    in_one_head = (padding & causal).repeat(1, 3, 1, 1)
    in_one_head[0, 1, 2] = in_one_head[1, 2, 0] = False  # sees nothing in this head alone
    return [
        (scores, padding & causal),
        (scores, causal),
        (cross, with_empty[:, None, None, :]),
        (towering, last_hidden),
        (deep, last_hidden),
        (scores, in_one_head),
        (torch.tensor([[[[90.0, 91.0, 5.0], [300.0, 299.0, 5.0]]]]), last_hidden),
        (scores, in_one_head[0]),
        (torch.tensor([[[[1.0, 1.0, 5.0]]]]), last_hidden[0]),
    ]


def _hidden(scores: Tensor, mask: Tensor, low: float) -> Tensor:
    return scores.masked_fill(~mask, low)


def _shares(parts: Tensor, least: float) -> Tensor:
    return parts / parts.sum(-1, keepdim=True).clamp(min=least)


WEIGHTS_MISTAKES = mistakes(
    ("NaN where there is nothing to look at",
     lambda scores, mask: _hidden(scores, mask, -math.inf).softmax(-1),
     "A row with every score at minus infinity is 0/0. Its weights should be zero."),
    ("the mask after the softmax", lambda scores, mask: scores.softmax(-1) * mask,
     "What is hidden had its share before it was struck out, so that the rest sums to less than "
     "one. Hide the scores before the softmax."),
    ("zero instead of minus infinity", lambda scores, mask: (scores * mask).softmax(-1),
     "A score of 0 is not nothing: its exponential is 1. Only minus infinity becomes 0."),
    ("zero instead of minus infinity, and struck out afterwards",
     lambda scores, mask: (scores * mask).softmax(-1) * mask,
     "The hidden keys get nothing now, but each had added e^0 = 1 to the sum of its row, so that "
     "the rest sums to less than one."),
    ("the mask after the softmax, or after the exponentials, then shares of what is left",
     lambda scores, mask: (
         (scores.softmax(-1) * mask) / (scores.softmax(-1) * mask).sum(-1, keepdim=True)
     ),
     "On paper this is right, save for empty rows, which are 0/0. In floating point it also fails "
     "when a hidden score towers over the rest. Hide the scores first, and turn to exponentials "
     "then."),
    ("the mask after the softmax, or after the exponentials, then shares of what is left, and "
     "zeros where nothing is; or -100, or the like, added, and struck out",
     lambda scores, mask: (
         (scores.softmax(-1) * mask) / ((scores.softmax(-1) * mask).sum(-1, keepdim=True) + 1e-9)
     ),
     "On paper shares of what is left are right. In floating point they fail when a hidden score "
     "towers over the rest: next to it, what may be seen is rounded to 0 (and without a softmax "
     "its exponential is infinite). Hide the scores first, and with minus infinity."),
    ("scores multiplied by the mask, and minus infinity wherever 0 came out",
     lambda scores, mask: (s := scores * mask).masked_fill(s == 0, -math.inf).softmax(
         -1).nan_to_num(),
     "A score that may be seen can be 0, too. Put minus infinity in where the mask is False."),
    ("exponentials of all scores, the highest not subtracted",
     lambda scores, mask: _shares(scores.exp() * mask, 1e-30),
     "The exponential of a large score is infinite, and of a very low one zero. Subtract the "
     "highest score that may be seen from each row first, or use softmax, which does so."),
    *((f"exponentials of all scores, the highest not subtracted, and {words}", wrong,
       "The exponential of a large score is infinite, and of a very low one zero: infinity over "
       "infinity, infinity times 0 and 0/0 are NaN. Subtract the highest score that may be seen "
       "from each row first, or use softmax, which does so.")
      for words, wrong in (
          ("NaN made 0", lambda scores, mask: _shares(scores.exp() * mask, 0.0).nan_to_num(0.0)),
          ("NaN left", lambda scores, mask: _shares(scores.exp() * mask, 0.0)),
          ("what is hidden set to 0", lambda scores, mask: _shares(
              scores.exp().masked_fill(~mask, 0.0), 1e-30)),
          ("what is hidden set to 0, NaN as well", lambda scores, mask: _shares(
              scores.exp().masked_fill(~mask, 0.0), 0.0).nan_to_num(0.0)))),
    ("exponentials of what is hidden, and times 0 then", lambda scores, mask: (
        e := (scores - _hidden(scores, mask, -math.inf).amax(-1, True).nan_to_num(neginf=0.0)
     ).exp() * mask) / e.sum(-1, keepdim=True).clamp(min=1e-30),
     "The exponential of a hidden score far above the others is infinite, and infinity times 0 is "
     "NaN. Hide the scores first: the exponential of minus infinity is 0."),
    *((f"the first {whose} mask for all", wrong,
       "The mask broadcasts to (B, H, T, S), and may be another one for each sentence and head.")
      for whose, wrong in (
          ("sentence's", lambda scores, mask: masked_weights(
              scores, mask[:1] if mask.dim() == 4 else mask)),
          ("head's", lambda scores, mask: masked_weights(
              scores, mask[..., :1, :, :] if mask.dim() > 2 else mask)))),
    ("rows and columns of the mask exchanged", lambda scores, mask: masked_weights(
        scores, mask.mT if mask.dim() > 1 and mask.shape[-1] == mask.shape[-2] else mask),
     "Rows are queries and columns are keys, in the mask as in the scores."),
    *((f"the lowest score in place of minus infinity{how}",
       lambda scores, mask, struck=struck: _hidden(
           scores, mask, float(scores.min())).softmax(-1) * (mask | ~torch.tensor(struck)),
       "The lowest of all scores has a weight, too, and where all scores are alike a full one. "
       "Only minus infinity has none.")
      for how, struck in ((", and struck out afterwards", True), ("", False))),
    ("the sigmoid in place of the softmax", lambda scores, mask: scores.sigmoid() * mask,
     "The sigmoid judges each key by itself, so the weights of a query do not sum to one."),
    ("the mean of the row subtracted in place of the highest", lambda scores, mask: (
        (e := (scores - scores.mean(-1, keepdim=True)).exp() * mask) / e.sum(-1, keepdim=True)
     ).nan_to_num(0.0),
     "A score far above the mean still has an infinite exponential. Subtract the highest score "
     "that may be seen, or use softmax."),
    ("the highest of the whole table subtracted", lambda scores, mask: (
        (e := (scores - scores.max()).exp() * mask) / e.sum(-1, keepdim=True)).nan_to_num(0.0),
     "In a row far below the highest score of all, every exponential is rounded to 0. Each row "
     "needs its own highest, of the scores that may be seen."),
    ("scores divided by their sum, without the exponential", lambda scores, mask: (
        (scores * mask) / (scores * mask).sum(-1, keepdim=True)).nan_to_num(0.0),
     "Scores may be negative, and so may their sum. The softmax shares out exponentials."),
    ("equal shares where there is nothing to look at",
     lambda scores, mask: _hidden(scores, mask, -1e9).softmax(-1),
     "A row with nothing to look at has an even share for all that is hidden, and its weights "
     "should be zero. (Where all keys are hidden by the same large negative number, they get equal "
     "weights.)"),
    ("a negative number that is not low enough",
     lambda scores, mask: _hidden(scores, mask, -100.0).softmax(-1),
     "It hides only while the real scores are larger. Next to scores of -200, what is hidden wins "
     "with -100."),
    ("polarity inverted", lambda scores, mask: _hidden(scores, ~mask, -math.inf).softmax(-1),
     "True means may attend. Here the weights went to what is hidden."),
    ("polarity inverted, with a large negative number",
     lambda scores, mask: _hidden(scores, ~mask, -1e9).softmax(-1),
     "True means may attend. Here what may be seen was hidden."),
    ("polarity inverted, with zeros in empty rows",
     lambda scores, mask: masked_weights(scores, ~mask),
     "True means may attend. Here the weights went to what is hidden."),
    ("the softmax over the queries",
     lambda scores, mask: torch.nan_to_num(_hidden(scores, mask, -math.inf).softmax(-2)),
     "Each query shares its attention among the keys: the softmax runs over the last axis."),
    ("the softmax over the queries, with NaN in hidden columns",
     lambda scores, mask: _hidden(scores, mask, -math.inf).softmax(-2),
     "Each query shares its attention among the keys: the softmax runs over the last axis."),
    ("the softmax over the queries, with a large negative number for what is hidden",
     lambda scores, mask: _hidden(scores, mask, -1e9).softmax(-2),
     "Each query shares its attention among the keys: the softmax runs over the last axis."),
    ("the softmax over the heads, with NaN where all of them are hidden",
     lambda scores, mask: _hidden(scores, mask, -math.inf).softmax(1),
     "Heads do not share anything: each has a row of weights of its own for every query."),
    ("minus infinity after the softmax",
     lambda scores, mask: _hidden(scores.softmax(-1), mask, -math.inf),
     "Minus infinity is a score that the softmax turns into 0. As a weight it is no share."),
    ("the softmax over the heads",
     lambda scores, mask: torch.nan_to_num(_hidden(scores, mask, -math.inf).softmax(1)),
     "Heads do not share anything: each has a row of weights of its own for every query."),
    ("the mask ignored", lambda scores, mask: scores.softmax(-1),
     "What is hidden is looked at like any other key."),
    ("one added to the scores that may be seen", lambda scores, mask: (scores + mask).softmax(-1),
     "A mask of 0 and 1 that is added hides nothing. What is added must be 0 and minus infinity."),
    ("the logarithms of the weights",
     lambda scores, mask: _hidden(scores, mask, -math.inf).log_softmax(-1),
     "Weights are shares of one: softmax, without a logarithm. And empty rows get zeros."),
    ("hidden scores, not weights", lambda scores, mask: _hidden(scores, mask, -math.inf),
     "The hiding is right. The softmax is missing."),
    ("zero times minus infinity", lambda scores, mask: (scores + ~mask * -math.inf).softmax(-1),
     "Zero times infinity is NaN, not 0, so what may be seen is lost. Put minus infinity in where "
     "the mask is False, and leave the rest alone."),
    ("zero times minus infinity, and struck out afterwards",
     lambda scores, mask: (scores + ~mask * -math.inf).softmax(-1).masked_fill(~mask, 0.0),
     "Zero times infinity is NaN, not 0, so what may be seen is lost. Put minus infinity in where "
     "the mask is False, and leave the rest alone."),
    ("zeros for all", lambda scores, mask: torch.zeros_like(scores),
     "No weight is left. Is the line that fills them missing? Or was the mask multiplied by minus "
     "infinity? Zero times infinity is NaN, not 0, and NaN was made 0 then. Put minus infinity in "
     "where the mask is False, and leave the rest alone."),
    ("polarity inverted before the softmax alone",
     lambda scores, mask: _hidden(scores, ~mask, -math.inf).softmax(-1).masked_fill(~mask, 0.0),
     "True means may attend. What is hidden before the softmax, where the mask is False, is what "
     "gets 0 after it."),
    ("polarity inverted after the softmax alone",
     lambda scores, mask: _hidden(scores, mask, -math.inf).softmax(-1).masked_fill(mask, 0.0),
     "True means may attend. What is hidden before the softmax, where the mask is False, is what "
     "gets 0 after it."),
    ("plus infinity in place of minus infinity",
     lambda scores, mask: _hidden(scores, mask, math.inf).softmax(-1).masked_fill(~mask, 0.0),
     "Plus infinity is the highest of all scores. What is hidden needs the lowest."),
    ("zeros for a query that may not look at all",
     lambda scores, mask: masked_weights(scores, mask) * mask.all(-1, keepdim=True),
     "A query gets zeros only if it may attend to nothing: is `all` taken for `any`? Or plus "
     "infinity for minus infinity, and NaN made 0?"),
    ("the scores, with zeros for what is hidden", lambda scores, mask: _hidden(scores, mask, 0.0),
     "The softmax is missing: weights are shares of one."),
    ("exponentials that were not divided by their sum",
     lambda scores, mask: (w := masked_weights(scores, mask))
         / w.amax(-1, keepdim=True).clamp(min=1e-30),
     "The weights of a query sum to one: divide by the sum of its row."),
    ("the softmax over the sentences",
     lambda scores, mask: torch.nan_to_num(_hidden(scores, mask, -math.inf).softmax(0)),
     "Sentences have nothing to do with each other: the softmax runs over the last axis."),
    ("a negative number that is not low enough, and struck out afterwards",
     lambda scores, mask: _hidden(scores, mask, -1e4).softmax(-1) * mask,
     "It hides only while the scores that may be seen are larger, and they may be -20000. Next to "
     "lower ones, what is hidden takes the look, and then it is struck out."),
    *((f"{words} in place of minus infinity, and struck out afterwards",
       lambda scores, mask, low=low: _hidden(scores, mask, low).softmax(-1) * mask,
       "It hides only while the real scores are larger. Next to lower ones, what is hidden takes "
       "the look, and then it is struck out. (So does a highest score, to be subtracted, that may "
       "not be below 0.)")
      for words, low in (("-1", -1.0), ("-10", -10.0), ("a finite score", -100.0))),
    *((f"{words} in place of minus infinity",
       lambda scores, mask, low=low: _hidden(scores, mask, low).softmax(-1),
       "It hides only while the real scores are larger. Next to lower ones, what is hidden takes "
       "the look. And a row with nothing to look at should get zeros.")
      for words, low in (("-1", -1.0), ("-10", -10.0), ("-1000, or the like,", -1e3))),
    ("a large negative number among the weights",
     lambda scores, mask: _hidden(scores.softmax(-1), mask, -1e9),
     "That is a score, of which the softmax makes 0. As a weight it is no share."),
    *((f"-{n}, or the like, added in place of minus infinity",
       lambda scores, mask, n=n: (scores - n * ~mask).softmax(-1),
       "What is added is finite: it hides only where the scores that may be seen are not so much "
       "lower than what is hidden. And a query that may attend to nothing gets zeros.")
      for n in (100, 1000, 10000)),
    ("empty rows opened to all keys", lambda scores, mask: _hidden(
        scores, mask | ~mask.any(-1, keepdim=True), -math.inf).softmax(-1),
     "A query that may attend to nothing then looks at the hidden keys, and should find zeros. "
     "What is opened against NaN has to be closed again, in the weights."),
    ("empty rows opened to the query's own place", lambda scores, mask: _hidden(
        scores, mask | ~mask.any(-1, keepdim=True) & torch.eye(*scores.shape[-2:]).bool(),
        -math.inf).softmax(-1).nan_to_num(0.0),
     "A query that may attend to nothing gets zeros, at its own place as well."),
    ("the first key where there is nothing to look at", lambda scores, mask: (
        masked_weights(scores, mask) + ~mask.any(-1, keepdim=True) * (
            torch.arange(scores.shape[-1]) == 0)),
     "A query that may attend to nothing gets zeros, in the first place as well."),
    ("a number added that is not low enough",
     lambda scores, mask: (scores + (mask + 1e-9).log()).softmax(-1),
     "Is it -100, or the logarithm of a small number? The logarithm of 1e-9 is -21. Whatever is "
     "finite hides only while the scores that may be seen are not much lower."),
    ("the softmax over the whole table",
     lambda scores, mask: _hidden(scores, mask, -math.inf).flatten(1).softmax(-1).view_as(scores),
     "The weights of each query sum to one: the softmax runs over the last axis alone."),
    ("the softmax taken twice",
     lambda scores, mask: masked_weights(masked_weights(scores, mask), mask),
     "The weights went through a second softmax, which makes them nearly equal."),
    ("the mask after the softmax, then shares along the queries",
     lambda scores, mask: torch.nan_to_num(
         (scores.softmax(-1) * mask) / (scores.softmax(-1) * mask).sum(-2, keepdim=True)
     ),
     "Hide the scores before the softmax. And it is the keys that share a query's attention."),
    ("divided by a root once more, and the mask after the softmax",
     lambda scores, mask: (scores / scores.shape[-1] ** 0.5).softmax(-1) * mask,
     "The scores are scaled already. And they are to be hidden before the softmax."),
    ("divided by a root once more, and NaN where there is nothing to look at",
     lambda scores, mask: _hidden(
         scores / scores.shape[-1] ** 0.5, mask, -math.inf
     ).softmax(-1),
     "The scores are scaled already. And a row with nothing to look at should get zeros."),
    ("polarity inverted, and the mask after the softmax",
     lambda scores, mask: scores.softmax(-1) * ~mask,
     "True means may attend. And scores are to be hidden before the softmax."),
    ("one softmax for all queries",
     lambda scores, mask: torch.nan_to_num(
         _hidden(scores, mask, -math.inf).flatten(-2).softmax(-1).view_as(scores)
     ),
     "The weights of the whole table sum to one. Each row should, by itself."),
    ("divided by a root once more",
     lambda scores, mask: masked_weights(scores / scores.shape[-1] ** 0.5, mask),
     "The scores are scaled already. And their last axis is that of the keys, not d_k long."),
    ("large scores cut off", lambda scores, mask: masked_weights(scores.clamp(max=50.0), mask),
     "Two scores of 90 and 91 would be alike then. Subtract the highest of each row instead, or "
     "let softmax do so."),
    ("large scores cut off, and very low ones",
     lambda scores, mask: masked_weights(scores.clamp(-50.0, 50.0), mask),
     "Two scores of 90 and 91 would be alike then. Subtract the highest of each row instead, or "
     "let softmax do so."),
    ("the future hidden as well",
     lambda scores, mask: masked_weights(
         scores, mask & _square(scores.shape[-1]).tril()[: scores.shape[-2]]
     ),
     "Which keys may be seen is for the given mask to say. Here a causal one was added."),
    *(
        (f"an axis put into the mask, {words}", wrong,
         "The mask broadcasts as it is: (T, S) holds for all sentences and heads, and (B, 1, 1, S) "
         "has its axes. With another in it, T meets B or H.")
        for words, wrong in (
            ("behind the first", lambda scores, mask: masked_weights(scores, mask.unsqueeze(1))),
            ("with [:, None, :]", lambda scores, mask: masked_weights(scores, mask[:, None, :])),
            ("two behind the first",
             lambda scores, mask: masked_weights(scores, mask[:, None, None])),
            ("in front", lambda scores, mask: masked_weights(scores, mask[None])),
            ("two in front", lambda scores, mask: masked_weights(scores, mask[None, None])),
        )
    ),
    *(
        (f"the logarithms of the weights{words}",
         lambda scores, mask, end=end: end(
             _hidden(scores, mask, -math.inf).log_softmax(-1), mask),
         "Weights are shares of one: `softmax`, not `log_softmax`, and no logarithm behind it.")
        for words, end in (
            (", NaN and minus infinity made numbers", lambda logs, mask: logs.nan_to_num(0.0)),
            (", zeros for what is hidden", lambda logs, mask: logs.masked_fill(~mask, 0.0)),
        )
    ),
    ("zeros for all where one query may look at nothing",
     lambda scores, mask: masked_weights(scores, mask) * mask.any(-1).all(),
     "Each query is asked for itself: one row is empty, and the others have their weights."),
    ("zeros for all queries of a table where one may look at nothing",
     lambda scores, mask: masked_weights(scores, mask)
        * mask.any(-1, keepdim=True).expand(*scores.shape[:-1], 1).all(-2, keepdim=True),
     "Each query is asked for itself: one row is empty, and the others have their weights."),
)  # fmt: skip


def _weights_of(output: object) -> Tensor:
    return torch.as_tensor(output).double()


def _hides(output: object, scores: Tensor, mask: Tensor) -> bool:
    mask = mask.expand(scores.shape)
    return bool(_weights_of(output)[~mask].eq(0).all())


def _rows_sum(output: object, scores: Tensor, mask: Tensor) -> bool:
    sums = mask.expand(scores.shape).any(-1).double()
    return bool(torch.allclose(_weights_of(output).sum(-1), sums, atol=1e-4))


# 8.5 a test for the weights of a decoder


def decoder_weights(scores: Tensor, tokens: Tensor, pad: int) -> Tensor:
    return _decoder()(scores, tokens, pad)


def _decoder(
    along: str = "keys", diagonal: int = 0, hide: str = "fill", turned: bool = False
) -> Callable[..., Tensor]:
    """Weights under both masks, right by default; each argument makes one mistake."""

    def weigh(scores: Tensor, tokens: Tensor, pad: int) -> Tensor:
        real = tokens != pad
        number = real.sum(1, keepdim=True)
        places = {
            "keys": real[:, None, None, :],
            "queries": real[:, None, :, None],
            "both": real[:, None, None, :] & real[:, None, :, None],
            "none": torch.ones_like(real)[:, None, None, :],
            "first": real[:1, None, None, :],
            "or": real[:, None, None, :],
            "0": (tokens != 0)[:, None, None, :],
            "above": (tokens > pad)[:, None, None, :],
            "below": (tokens < pad)[:, None, None, :],
            "paddings": ~real[:, None, None, :],
            "right": (torch.arange(real.shape[1]) < number)[:, None, None, :],
        }[along]
        past = _square(tokens.shape[1])
        past = past.triu(diagonal - 10) if diagonal > 5 else past.tril(diagonal)
        mask = places | past if along == "or" else places & past
        mask = (~mask if turned else mask).expand(scores.shape)
        if hide == "multiply":
            return (scores * mask).softmax(-1)
        if hide == "after":
            return scores.softmax(-1) * mask
        if hide == "add":
            return (scores + mask).softmax(-1)
        if hide == "again":
            left = scores.softmax(-1) * mask
            return left / left.sum(-1, keepdim=True).clamp(min=1e-30)
        if hide == "low":
            return scores.masked_fill(~mask, -1e9).softmax(-1)
        if hide == "not low enough":
            return scores.masked_fill(~mask, -100.0).softmax(-1).masked_fill(~mask.any(-1, True), 0)
        filled = scores.masked_fill(~mask, -math.inf)
        if hide.startswith("no softmax"):
            return scores.masked_fill(~mask, 0.0) if "zeros" in hide else filled
        weights = filled.softmax({"queries": -2, "sentences": 0}.get(hide, -1))
        return weights if hide == "nan" else weights.masked_fill(~mask, 0.0).nan_to_num(0.0)

    return weigh


def _by_exponentials(scores: Tensor, tokens: Tensor, pad: int) -> Tensor:
    mask = (tokens != pad)[:, None, None, :] & _square(tokens.shape[1]).tril()
    highest = scores.masked_fill(~mask, -math.inf).amax(-1, keepdim=True).nan_to_num(0.0)
    parts = (scores - highest).clamp(max=0.0).exp().masked_fill(~mask, 0.0)
    return parts / parts.sum(-1, keepdim=True).clamp(min=1e-30)


def _two_steps(scores: Tensor, tokens: Tensor, pad: int) -> Tensor:
    scores = torch.where((tokens == pad)[:, None, None, :], -math.inf, scores)
    return scores.masked_fill(_square(tokens.shape[1]).triu(1), -math.inf).softmax(-1).nan_to_num()


def _window(scores: Tensor, tokens: Tensor, pad: int) -> Tensor:
    scores = scores.masked_fill(~_square(tokens.shape[1]).triu(-1), -math.inf)
    return _two_steps(scores, tokens, pad)


def _hardly(scores: Tensor, tokens: Tensor, pad: int) -> Tensor:
    """All to the highest of the scores that may be seen."""
    weights = decoder_weights(scores, tokens, pad)
    first = nn.functional.one_hot(weights.argmax(-1), weights.shape[-1])
    return first * (weights.sum(-1, keepdim=True) > 0).to(scores.dtype)


RIGHT_WEIGHTS: dict[str, Callable] = {
    "right": decoder_weights,
    "right, hidden in two steps": _two_steps,
    "right, by the exponentials": _by_exponentials,
}
ALL_WEIGHTS = {
    **RIGHT_WEIGHTS,
    "no mask at all": lambda scores, tokens, pad: scores.softmax(-1),
    "no padding mask": _decoder("none"),
    "no causal mask": _decoder(diagonal=5),
    "the other triangle": _decoder(diagonal=10),
    "the triangle one place too far": _decoder(diagonal=1),
    "the triangle without its diagonal": _decoder(diagonal=-1),
    "itself and the place before alone": _window,
    "the padding hidden along the queries": _decoder("queries"),
    "the rows of paddings hidden as well": _decoder("both"),
    "the first sentence's padding for all": _decoder("first"),
    "or in place of and": _decoder("or"),
    "True for hidden": _decoder(turned=True),
    "the padding taken to be 0": _decoder("0"),
    "all ids up to that of the padding hidden": _decoder("above"),
    "all ids from that of the padding on hidden": _decoder("below"),
    "padding looked for at the end alone": _decoder("right"),
    "scores multiplied by the mask": _decoder(hide="multiply"),
    "the mask after the softmax": _decoder(hide="after"),
    "the mask after the softmax, then shares of what is left": _decoder(hide="again"),
    "-1e9 in place of minus infinity": _decoder(hide="low"),
    "-100 in place of minus infinity": _decoder(hide="not low enough"),
    "NaN where nothing may be seen": _decoder(hide="nan"),
    "the softmax over the queries": _decoder(hide="queries"),
    "all to the highest score": lambda scores, tokens, pad: _hardly(scores, tokens, pad),
    "equal shares where all scores are below ten": lambda scores, tokens, pad: decoder_weights(
        scores * (scores.abs().max() >= 10), tokens, pad
    ),
    "scores divided once more": lambda scores, tokens, pad: decoder_weights(
        scores / scores.shape[-1] ** 0.5, tokens, pad
    ),
    "zeros where all scores are below ten": lambda scores, tokens, pad: (
        decoder_weights(scores, tokens, pad) * (scores.abs().max() >= 10)
    ),
    "what is right, and 0.05 more": lambda scores, tokens, pad: (
        decoder_weights(scores, tokens, pad) + 0.05
    ),
    "the first head's weights for all": lambda scores, tokens, pad: decoder_weights(
        scores[:, :1].expand_as(scores), tokens, pad
    ),
}


WEIGHTS_WHY = {
    "no mask at all":
        "Every place sees every other. Two words are enough: the first may not look at the second.",
    "no padding mask":
        "Paddings get weight. It shows with one word and one padding in front of it.",
    "no causal mask": "The future gets weight. It shows with two words: the first sees the second.",
    "the other triangle": "Row t sees the places from t on. It shows with two words.",
    "the triangle one place too far":
        "Row t sees place t + 1. It shows with two words: the first sees the second.",
    "the triangle without its diagonal":
        "No word sees itself. One word is enough: its row has nothing left.",
    "itself and the place before alone":
        "Row t sees t - 1 and t, nothing before. It shows from the third word on.",
    "the padding hidden along the queries":
        "Rows of paddings are emptied, and words see the paddings. It shows with a word behind a "
        "padding.",
    "the rows of paddings hidden as well":
        "Rows of paddings get zeros, where they should share among the words. It shows with a "
        "padding behind a word.",
    "the first sentence's padding for all":
        "All sentences hide what is padding in the first. It shows with two sentences that are "
        "padded at different places.",
    "or in place of and":
        "A place is seen if it is past, or no padding. It shows with two words: the first sees the"
        " second.",
    "True for hidden": "What may be seen is hidden, and the rest seen. One word is enough.",
    "the padding taken to be 0":
        "It hides id 0 whatever `pad` is. It shows with pad = 1 and a padding in front.",
    "all ids up to that of the padding hidden":
        "It hides every id up to `pad`. It shows with pad = 1 and a word of id 0.",
    "all ids from that of the padding on hidden":
        "It hides every id from `pad` on. It shows with pad = 1 and a word of id 2.",
    "padding looked for at the end alone":
        "It counts the words and hides what stands behind so many places. It shows with padding in"
        " front.",
    "scores multiplied by the mask":
        "What is hidden gets the score 0, and so a weight. It shows with two words.",
    "the mask after the softmax":
        "The weights are right up to a factor: rows do not sum to one. It shows with two words.",
    "the mask after the softmax, then shares of what is left":
        "It is right until what is hidden has nearly all the weight: rounding leaves nothing. It "
        "shows where a hidden score is some hundreds above the others.",
    "-1e9 in place of minus infinity":
        "A row with nothing to see gets equal weights, not zeros. It shows with a padding in "
        "front.",
    "-100 in place of minus infinity":
        "What is hidden is -100, and wins over scores of some hundreds below zero. Try scores as "
        "large.",
    "NaN where nothing may be seen":
        "A row with nothing to see gets NaN. It shows with a padding in front.",
    "the softmax over the queries": "Columns sum to one in place of rows. It shows with two words.",
    "all to the highest score":
        "The highest score gets everything, as with scores that are hundreds apart. It shows where "
        "scores differ by about 1.",
    "equal shares where all scores are below ten":
        "Small scores count as equal. It shows where scores differ by about 1, and none is large.",
    "scores divided once more":
        "Scores are divided by the root of T. It shows with two words whose scores differ by "
        "about 1.",
    "zeros where all scores are below ten":
        "Small scores are taken for nothing. It shows where scores differ by about 1, and none is "
        "large.",
    "what is right, and 0.05 more":
        "Compare all numbers with what is right, and let rounding pass alone: 0.05 is far more.",
    "the first head's weights for all":
        "All heads get the weights of head 0. It shows with two heads of different scores.",
}  # fmt: skip


def masks_right(weigh: Callable) -> bool:
    return _masks_compared()(weigh)


def run_masks_test(answer: Callable, weigh: str) -> Any:
    return said_closely(answer, ALL_WEIGHTS[weigh], right=weigh in RIGHT_WEIGHTS)


TEST_TOKENS = [[1, 1, 5, 3, 6], [2, 7, 0, 3, 9], [4, 6, 3, 1, 1]]


def _masks_compared(
    tokens: list[list[int]] = TEST_TOKENS,
    pad: int = 1,
    heads: int = 2,
    sizes: tuple = (1.0, 300.0),
    look: Callable = lambda weights, tokens: weights,
    right: Callable = decoder_weights,
    same: Callable = torch.allclose,
) -> Callable:
    """A test by comparison: with which sentences and scores, and what is compared with what."""
    ids = torch.tensor(tokens)

    def test(weigh: Callable) -> bool:
        draw = torch.Generator().manual_seed(85)
        scores = torch.randn(len(ids), heads, *2 * ids.shape[1:], generator=draw)
        given = [(size * scores, ids, pad) for size in sizes]
        return all(same(look(weigh(*case), ids), look(right(*case), ids)) for case in given)

    return test


def _future(weights: Tensor, tokens: Tensor) -> Tensor:
    return weights.triu(1)


def _padding(weights: Tensor, tokens: Tensor) -> Tensor:
    return weights * (tokens == 1)[:, None, None, :]


def _words(weights: Tensor, tokens: Tensor) -> Tensor:
    return weights * (tokens != 1)[:, None, :, None]


ZEROS_AND_SUMS = "only zeros and the sums of the rows"
SUMS_OF_SMALL = "the sums of the rows, with zeros or without, and small scores"


def _zeros_and_sums(sizes: tuple) -> Callable:
    """A test that asks for zeros where they belong and for rows that sum to what they should."""

    def nearly(found: Tensor, right: Tensor) -> bool:
        return bool((found[right == 0].abs() < 1e-6).all()) and torch.allclose(
            found.sum(-1), right.sum(-1), atol=1e-5
        )

    return _masks_compared(sizes=sizes, same=nearly)


MASKS_TEST_MISTAKES = mistakes(
    ("everything passes", lambda weigh: True,
     "A test that says yes to everything tests nothing. The shape does not tell, either: all of "
     "them return the right one."),
    ("nothing passes", lambda weigh: False, "The right ones must pass, however they are written."),
    ("yes and no exchanged", lambda weigh: not masks_right(weigh),
     "True is for right weights, False for wrong ones."),
    ("no padding", _masks_compared([[5, 9, 4, 3], [0, 7, 6, 3]]),
     "Without a padding, nobody sees what becomes of it."),
    ("padding behind the words alone", _masks_compared(TEST_TOKENS[1:]),
     "Padding may also stand in front. Then a row may have nothing to look at, and there some of "
     "them go wrong."),
    ("padding in front alone", _masks_compared([[1, 1, 5, 3, 6], [2, 7, 0, 3, 9]]),
     "Padding may also stand behind the words. Its rows are like any others, and one of them hides "
     "these as well."),
    ("paddings of 0 alone", _masks_compared([[0, 0, 5, 3, 6], [2, 7, 8, 3, 9], [4, 6, 3, 0, 0]], 0),
     "The padding's id is an argument. Try one that is not 0, with ids above it and below."),
    ("paddings of 0 alone, and small scores",
     _masks_compared([[0, 0, 5, 3, 6], [2, 7, 8, 3, 9], [4, 6, 3, 0, 0]], 0, sizes=(1.0,)),
     "The padding's id is an argument: try one that is not 0, with ids above it and below. And "
     "try scores of some hundreds, beside which -100 is not low."),
    ("no padding, and small scores",
     _masks_compared([[5, 9, 4, 3], [0, 7, 6, 3]], sizes=(1.0,)),
     "Without a padding, nobody sees what becomes of it. And try scores of some hundreds."),
    ("paddings of 0 in front alone, and small scores",
     _masks_compared([[2, 7, 8, 3, 9], [0, 0, 5, 3, 6]], 0, sizes=(1.0,)),
     "Padding may stand behind the words; its id may be another than 0; and scores may be some "
     "hundreds."),
    ("paddings of 0 in front alone",
     _masks_compared([[2, 7, 8, 3, 9], [0, 0, 5, 3, 6]], 0),
     "Padding may also stand behind the words, and its id may be another than 0."),
    ("paddings of 0 behind the words",
     _masks_compared([[2, 7, 8, 3, 9], [4, 6, 3, 0, 0]], 0),
     "Padding may stand in front, so that a row has nothing to look at; and its id may be another "
     "than 0."),
    ("one sentence with paddings of 0 in front, and small scores",
     _masks_compared([[0, 0, 5, 3, 6]], 0, sizes=(1.0,)),
     "Take several sentences, with padding on either side, an id that is not 0, and larger "
     "scores."),
    ("one sentence and one head, paddings of 0 in front, and small scores",
     _masks_compared([[0, 0, 5, 3, 6]], 0, heads=1, sizes=(1.0,)),
     "Take several sentences and heads, padding on either side, an id that is not 0, and larger "
     "scores."),
    ("rows asked to sum to one",
     lambda weigh: (
         lambda w: torch.allclose(w.sum(-1), torch.ones_like(w.sum(-1)))
     )(weigh(torch.zeros(3, 2, 5, 5), torch.tensor(TEST_TOKENS), 1)),
     "A row that may see nothing sums to zero. And a row can sum to one and look at the wrong "
     "places."),
    ("paddings of 0, and the hidden places and the sums alone",
     _masks_compared([[2, 7, 8, 3, 9], [4, 6, 3, 0, 0]], 0, sizes=(1.0,),
         look=lambda w, tokens: torch.cat([
             w.triu(1) + w * (tokens == 0)[:, None, None, :], w.sum(-1, keepdim=True)
         ], -1)),
     "The places that may be seen can share the one in a wrong way. Padding may stand in front, "
     "and its id may be another than 0."),
    ("paddings of 0 behind the words, and small scores",
     _masks_compared([[2, 7, 8, 3, 9], [4, 6, 3, 0, 0]], 0, sizes=(1.0,)),
     "Padding may stand in front, so that a row has nothing to look at; its id is an argument, and "
     "may be another than 0; and scores may be some hundreds."),
    ("no id below that of the padding",
     _masks_compared([[1, 1, 5, 3, 6], [2, 7, 8, 3, 9], [4, 6, 3, 1, 1]]),
     "One of them hides every id up to that of the padding. Put a lower one into a sentence."),
    ("one sentence, or all padded alike", _masks_compared([[1, 5, 0, 3, 1]]),
     "One of them hides the first sentence's padding in all. Try several sentences at once, padded "
     "at different places."),
    ("one head", _masks_compared(heads=1), "Heads may be mixed up: try more than one."),
    ("sentences of two places",
     _masks_compared([[1, 5], [2, 0], [4, 1]]),
     "One of them sees itself and the place before alone. With two places that is all there is."),
    ("small scores alone", _masks_compared(sizes=(1.0,)),
     "With small scores -100 is as good as minus infinity, and what is struck out after the "
     "softmax has left something to share. Try scores of some hundreds."),
    ("small scores, and heads that cannot be told apart", _masks_compared(sizes=(0.0,)),
     "Heads are alike where there is one, where all scores are equal, and in the sums of the rows. "
     "Draw scores for several, some of them large, and compare all weights."),
    ("a tolerance as large as the mistakes",
     _masks_compared(same=lambda a, b: torch.allclose(a, b, atol=0.5)),
     "Some of the wrong ones are only a little wrong. 0.0001 is enough for roundings."),
    ("equal to the last digit", _masks_compared(same=torch.equal),
     "Right weights may be rounded otherwise. `torch.allclose` forgives the last digits."),
    ("the future alone", _masks_compared(look=_future),
     "That the future gets nothing is one thing. What of the padding, and of the words?"),
    ("the padding alone", _masks_compared(look=_padding),
     "That the padding gets nothing is one thing. What of the future, and of the words?"),
    ("the hidden places alone",
     _masks_compared(look=lambda w, tokens: _future(w, tokens) + _padding(w, tokens)),
     "What is hidden gets nothing: good. But what do the others get?"),
    (ZEROS_AND_SUMS, _zeros_and_sums((1.0, 300.0)),
     "The places that may be seen can share the one in a wrong way. Compare every weight with what "
     "it should be, also where scores are of about 1."),
    (SUMS_OF_SMALL, _zeros_and_sums((1.0,)),
     "The places that may be seen can share the one in a wrong way: compare every weight with what "
     "it should be. And try scores of some hundreds, beside which -100 is not low."),
    ("the sums of the rows alone", _masks_compared(look=lambda w, tokens: w.sum(-1)),
     "A row can sum to one and look at the wrong places."),
    ("one head, or no more than the hidden places and the sums of the rows",
     _masks_compared(look=lambda w, tokens: torch.cat(
         [_future(w, tokens) + _padding(w, tokens), w.sum(-1, keepdim=True)], -1
     )),
     "Each head has scores of its own; and the places that may be seen can share the one in a "
     "wrong way. Take several heads, and compare all numbers."),
    ("the last row alone", _masks_compared(look=lambda w, tokens: w[:, :, -1]),
     "The last row sees all of its past: there the causal mask hides nothing. Compare all rows."),
    ("the rows of paddings left out", _masks_compared(look=_words),
     "The rows of paddings are like any others here. Compare them, too."),
    ("NaN asked for where nothing may be seen",
     _masks_compared(
         right=_decoder(hide="nan"), same=lambda a, b: torch.allclose(a, b, equal_nan=True)
     ),
     "A row that may see nothing is a row of zeros, not of NaN."),
    ("an even look asked for where nothing may be seen",
     _masks_compared(right=_decoder(hide="low")),
     "A row that may see nothing is a row of zeros. With -1e9 it looks at all that is hidden."),
    ("padded queries asked to be hidden", _masks_compared(right=_decoder("both")),
     "The rows of paddings are like any others: they look at the words before them."),
    ("no causal mask asked for", _masks_compared(right=_decoder(diagonal=5)),
     "A decoder sees no future: right weights have both masks."),
    ("no scores of about 1", _masks_compared(sizes=(300.0,)),
     "Where scores are hundreds apart, the highest takes all, and nobody sees how the rest is "
     "shared. Try scores of about 1 as well."),
    ("the last row alone, and small scores",
     _masks_compared(sizes=(1.0,), look=lambda w, tokens: w[:, :, -1]),
     "The last row sees all of its past: there the causal mask hides nothing. Compare all rows, "
     "and try scores of some hundreds."),
    ("the first row alone", _masks_compared(look=lambda w, tokens: w[:, :, :1]),
     "The first row sees itself alone. Compare all rows."),
    ("the hidden places alone, and NaN let through",
     _masks_compared(look=lambda w, tokens: _future(w, tokens) + _padding(w, tokens),
                     same=lambda a, b: not (a - b).abs().sum() > 1e-6),
     "What is hidden gets nothing: good. But what do the others get? And NaN is not greater than "
     "anything: ask whether all is near, not whether something is off."),
    *(
        (f"the sums of the rows alone, of one sentence without padding{words}",
         _masks_compared([[1, 2, 3, 4]], 0, heads=heads, sizes=sizes,
                         look=lambda w, tokens: w.sum(-1)),
         "A row can sum to one and look at the wrong places. And take sentences with padding.")
        for words, heads, sizes in (
            ("", 2, (1.0, 300.0)),
            (", and small scores", 2, (1.0,)),
        )
    ),
)  # fmt: skip


def _kind_of_test(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """Tests that have a name whatever they have drawn: what compares numbers, and lets pass all
    that goes wrong above the last row; and what lets pass only what small scores show."""
    said = {name: one for (name,), one in zip(cases, got, strict=True)}
    above = "no causal mask", "the triangle one place too far"
    numbers = "no padding mask", "scores divided once more", "the first head's weights for all"
    small = "equal shares where all scores are below ten"
    never = "zeros where all scores are below ten"  # passes where none of the scores are small
    shared = {small, "scores divided once more", "all to the highest score"}
    large = {"-100 in place of minus infinity",
             "the mask after the softmax, then shares of what is left"}  # fmt: skip
    passed = {name for name, one in said.items() if one is True}
    if not passed >= {*RIGHT_WEIGHTS}:
        return None
    if passed >= {*above} and not passed & {*numbers}:
        name = "the last row alone"
    elif never in passed and passed <= {*RIGHT_WEIGHTS, never, *shared}:
        name = "no scores of about 1"
    elif passed - large - {numbers[-1]} == {*RIGHT_WEIGHTS, *shared}:
        heads = "one head, or no more than the hidden places and the sums of the rows"
        alone = heads if numbers[-1] in passed else ZEROS_AND_SUMS
        name = SUMS_OF_SMALL if passed & large else alone
    else:
        return None
    return next((known.name, known.why) for known in MASKS_TEST_MISTAKES if known.name == name)


WEIGHTS_RULES = rules(RIGHT_WEIGHTS, WEIGHTS_WHY)
WEIGHTS_JUDGED = WEIGHTS_RULES.named


# 8.6 predict: which test finds which mistake

NO_PART = "Labels are no part of the layer. It is right, and is asked for the wrong thing."
FOUND: dict[str, tuple[str, dict[str, str]]] = {
    "no causal mask": ("future", {
        "source": "The source is felt as it should be: its mask and the memory are right.",
        "padding": "What is hidden of the source is as it was.",
        "none": "The earlier places see the word that was replaced, and move.",
    }),
    "no padding mask in the target": ("none", {
        "future": "The causal mask still hides all that comes later, words and paddings alike.",
        "source": "Nothing has changed in how the target looks at the source.",
        "padding": "That test changes paddings of the source. And those of the target lie behind "
        "its words, where the causal mask hides them.",
    }),
    "keys and values from the target": ("source", {
        "future": "The target looks at itself once more, under its own causal mask: no future.",
        "padding": "The source is not looked at, its padding no more than its words. That is what "
        "this test asks for.",
        "none": "The source is not felt at all: another last word moves nothing.",
    }),
    "the target's padding mask for the source": ("padding", {
        "future": "Nothing has changed in how the target looks at itself.",
        "source": "The mask hides the sixth place alone, so that all four words of the source are "
        "seen, the last one, too.",
        "none": "The target has one padding and the source two: the fifth place is shown.",
    }),
    "a causal mask on the memory": ("none", {
        "future": "The target's own mask is right.",
        "source": "The first three places of the target do not see the fourth row of the memory. "
        "But in the encoder every word has looked at the last one, so that all rows move with it.",
        "padding": "The source's padding is hidden as before.",
    }),
    "a causal mask on the memory and in the encoder": ("source", {
        "future": "The target's own mask is right. The encoder does not read the target.",
        "padding": "Padding behind the words is hidden as before.",
        "none": "In the encoder the first three words no longer see the fourth, and the first "
        "three places of the target see no other rows than theirs.",
    }),
    "labels that are not shifted": ("none", {
        "future": NO_PART,
        "source": NO_PART,
        "padding": NO_PART,
    }),
}  # fmt: skip
TEMPTING = ("none", "padding", "none", "source", "source", "none", "future")


def _found_mistakes() -> list[tuple[str, list[str], str]]:
    """One wrong word of seven, or two, any; three, the tempting ones."""
    right = [test for test, _ in FOUND.values()]
    some = [{i: word} for i, (_, why) in enumerate(FOUND.values()) for word in why]
    some += [one | two for one, two in itertools.combinations(some, 2) if not one.keys() & two]
    some += [{i: TEMPTING[i] for i in at} for at in itertools.combinations(range(7), 3)]
    some += [{i: "none" for i, word in enumerate(right) if word != "none"}]
    rows = []
    for wrong in some:
        at = [list(FOUND.items())[i] for i in wrong]
        names = [f"{word} for {name}" for (name, _), word in zip(at, wrong.values(), strict=True)]
        whys = [why[word] for (_, (_, why)), word in zip(at, wrong.values(), strict=True)]
        said = [wrong.get(i, word) for i, word in enumerate(right)]
        rows.append((", ".join(names), said, " ".join(dict.fromkeys(whys))))
    return rows


def _test_names(output: Any) -> list[str]:
    items = output.values() if isinstance(output, dict) else output
    items = re.findall(r"\w+", items) if isinstance(items, str) else items
    words = [str(word).strip().lower() for word in items]
    return ["none" if word in ("no", "nothing", "-", "no test") else word for word in words]


# 8.7 masked multi-head attention, from an empty file


class MaskedMultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(4)
        )

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def scale(self, q: Tensor) -> float:
        return q.shape[-1] ** 0.5

    def share(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0.0)

    def merge(self, heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).flatten(2)

    def project(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(q), self.w_k(k), self.w_v(v)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (self.split(x) for x in self.project(q, k, v))
        weights = self.share(q @ k.transpose(-2, -1) / self.scale(q), mask)
        return self.w_o(self.merge(weights @ v))


def run_module(
    answer: type,
    d_model: int,
    n_heads: int,
    _matrices: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor,
) -> dict[str, Any] | None:
    """Build the class, give it these matrices, and run it forwards and backwards."""
    net = answer(d_model, n_heads)
    for name, matrix in zip(("w_q", "w_k", "w_v", "w_o"), _matrices, strict=True):
        layer = getattr(net, name, None)
        weight = getattr(layer, "weight", None)
        biased = getattr(layer, "bias", None) is not None
        if weight is None or biased or tuple(weight.shape) != tuple(matrix.shape):
            raise AttributeError(
                f"expected an attribute {name}, nn.Linear({d_model}, {d_model}, bias=False), got "
                f"{layer if layer is not None else 'none'}"
            )
        with torch.no_grad():
            weight.copy_(matrix)
    dtype = net.w_q.weight.dtype
    q, k, v = (x.to(dtype).requires_grad_() for x in (q, k, v))
    output = net(q, k, v, mask)
    if output is None:
        return None
    if not isinstance(output, Tensor):
        raise TypeError(f"forward: expected a tensor (B, T, D), got a {type(output).__name__}")
    learned = [getattr(net, name).weight for name in ("w_q", "w_k", "w_v", "w_o")]
    try:
        slopes = torch.autograd.grad(output.pow(2).sum(), (q, k, v, *learned), allow_unused=True)
    except RuntimeError as error:
        raise RuntimeError(f"it runs forwards, but gradients cannot be computed: {error}") from None
    finite = all(slope.isfinite().all() for slope in slopes if slope is not None)
    names = ("w_q", "w_k", "w_v", "w_o")
    unreached = [name for name, slope in zip(names, slopes[3:], strict=True) if slope is None]
    return {
        "output": output.detach(),
        "gradients are finite": finite,
        "layers that no gradient reaches": unreached,
    }


def module_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(87)

    def case(d_model, n_heads, t, s, mask, same=False, large=1.0):
        matrices = torch.randn(4, d_model, d_model, generator=draw) * 0.6
        q = torch.randn(2, t, d_model, generator=draw)
        k, v = (torch.randn(2, s, d_model, generator=draw) for _ in range(2))
        return d_model, n_heads, matrices, q, *((q, q) if same else (k * large, v)), mask

    def low():
        """The first sees itself alone, with a score of -297.6; hidden ones are at 0."""
        d_model, n_heads, matrices, q, k, v, mask = case(4, 1, 4, 4, causal)
        matrices[:2] = torch.eye(4)
        q[:, 0], k[:, :, 0] = torch.tensor([-24.0, 0.0, 0.0, 0.0]), 0.0
        k[:, 0, 0] = 24.8
        return d_model, n_heads, matrices, q, k, v, mask

    def apart():
        """As `low`, and hidden ones are at 297.6."""
        d_model, n_heads, matrices, q, k, v, mask = low()
        k[:, 1:, 0] = -24.8
        return d_model, n_heads, matrices, q, k, v, mask

    def quiet():
        """The second asks for nothing: all its scores are 0."""
        d_model, n_heads, matrices, q, k, v, mask = case(4, 1, 3, 3, _square(3).tril())
        q[:, 1] = 0.0
        return d_model, n_heads, matrices, q, k, v, mask

    padding = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]]).bool()[:, None, None, :]
    empty = torch.tensor([[1, 1, 0], [0, 0, 0]]).bool()[:, None, None, :]
    heads = torch.rand(2, 3, 4, 5, generator=draw) > 0.3
    heads[..., 0] = True
    in_one_head = heads.clone()
    in_one_head[0, 1, 2] = in_one_head[1, 2, 0] = False  # sees nothing in this head alone
    causal = _square(4).tril()
    return [
        case(8, 2, 4, 4, causal),
        case(6, 3, 4, 5, padding),
        case(4, 2, 4, 3, empty),
        case(6, 3, 4, 5, heads),
        case(8, 4, 5, 5, padding & _square(5).tril(), same=True),
        case(4, 1, 4, 4, causal, large=90.0),
        case(6, 3, 4, 5, in_one_head),
        low(),
        quiet(),
        apart(),
    ]


def _changed_module(**change: Callable) -> type:
    return type("Changed", (MaskedMultiHeadAttention,), change)


class _NoScale(MaskedMultiHeadAttention):
    def scale(self, q):
        return 1.0


class _ScaleByModel(MaskedMultiHeadAttention):
    def scale(self, q):
        return (q.shape[-1] * self.n_heads) ** 0.5


class _ScaleWithoutRoot(MaskedMultiHeadAttention):
    def scale(self, q):
        return q.shape[-1]


class _ScaleByHeads(MaskedMultiHeadAttention):
    def scale(self, q):
        return self.n_heads**0.5


class _ScaleByLength(MaskedMultiHeadAttention):
    def forward(self, q, k, v, mask):
        self.length = k.shape[1]
        return super().forward(q, k, v, mask)

    def scale(self, q):
        return self.length**0.5


class _ScaleTurned(MaskedMultiHeadAttention):
    def scale(self, q):
        return q.shape[-1] ** -0.5


class _ScaleAfter(MaskedMultiHeadAttention):
    def scale(self, q):
        return 1.0

    def share(self, scores, mask):
        return super().share(scores, mask) / (self.w_q.weight.shape[0] / self.n_heads) ** 0.5


class _ViewSplit(MaskedMultiHeadAttention):
    def split(self, x):
        return x.reshape(x.shape[0], self.n_heads, x.shape[1], -1)


class _ViewMerge(MaskedMultiHeadAttention):
    def merge(self, heads):
        return heads.reshape(heads.shape[0], heads.shape[2], -1)


class _MergeOtherAxes(MaskedMultiHeadAttention):
    def merge(self, heads):
        return heads.transpose(2, 3).reshape(heads.shape[0], heads.shape[2], -1)


class _MergeInTurn(MaskedMultiHeadAttention):
    def merge(self, heads):
        return heads.permute(0, 2, 3, 1).flatten(2)


class _ViewBoth(_ViewSplit):
    merge = _ViewMerge.merge


class _HeadsInnermost(MaskedMultiHeadAttention):
    def split(self, x):
        return x.unflatten(-1, (-1, self.n_heads)).permute(0, 3, 1, 2)


class _HeadsInnermostThroughout(_HeadsInnermost):
    def merge(self, heads):
        return heads.permute(0, 2, 3, 1).flatten(2)


class _Polarity(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        hidden = ~mask
        return super().share(scores, hidden)


class _PolarityPlain(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return scores.masked_fill(mask, -math.inf).softmax(-1)


class _MaskAfter(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return scores.softmax(-1) * mask


class _Zero(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return (scores * mask).softmax(-1)


class _ZeroTimesInfinity(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return (scores + ~mask * -math.inf).softmax(-1)


class _ZeroTakenForHidden(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        s = scores * mask
        return s.masked_fill(s == 0, -math.inf).softmax(-1).masked_fill(s == 0, 0.0)


class _NoHighest(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return _shares(scores.exp() * mask, 1e-30)


class _CausalInstead(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        future = torch.ones(scores.shape[-2:]).triu(1).bool()
        return scores.masked_fill(future, -math.inf).softmax(-1)


class _FirstHeadsMask(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return super().share(scores, mask if mask.dim() < 4 else mask[:, :1])


class _Detached(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return super().share(scores, mask).detach()


class _NaN(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return scores.masked_fill(~mask, -math.inf).softmax(-1)


class _LateNaN(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return torch.nan_to_num((scores + torch.where(mask, 0.0, -math.inf)).softmax(-1))


class _Low(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return scores.masked_fill(~mask, -100.0).softmax(-1)


class _LowStruck(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return scores.masked_fill(~mask, -100.0).softmax(-1) * mask


class _LowestStruck(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return scores.masked_fill(~mask, -300.0).softmax(-1) * mask


class _LowNoEmpty(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return scores.masked_fill(~mask, -100.0).softmax(-1) * mask.any(-1, keepdim=True)


class _OneLength(MaskedMultiHeadAttention):
    def forward(self, q, k, v, mask):
        if q.shape[1] != k.shape[1]:
            raise RuntimeError("as `view` or `@` says it")
        return super().forward(q, k, v, mask)


def _adding(number: float) -> type:
    return _changed_module(share=lambda self, scores, mask: (scores - number * ~mask).softmax(-1))


def _only_on(**where: int) -> type:
    """The module that hides in one head or in one sentence alone."""
    axis, place = (1, where["head"]) if "head" in where else (0, where["sentence"])

    def share(self, scores, mask):
        full = torch.ones_like(scores).bool()
        full.select(axis, place).copy_(mask.expand_as(scores).select(axis, place))
        return MaskedMultiHeadAttention.share(self, scores, full)

    return _changed_module(share=share)


def _none_if_one_is_empty(among: Callable[[Tensor], Tensor]) -> type:
    def share(self, scores, mask):
        some = mask.expand_as(scores).any(-1, keepdim=True)
        return MaskedMultiHeadAttention.share(self, scores, mask) * among(some)

    return _changed_module(share=share)


class _ByHeads(MaskedMultiHeadAttention):
    def scale(self, q):
        return self.n_heads


class _KeysByValues(MaskedMultiHeadAttention):
    def project(self, q, k, v):
        return self.w_q(q), self.w_v(k), self.w_v(v)


class _Hard(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        hidden = scores.masked_fill(~mask, -math.inf)
        return nn.functional.one_hot(hidden.argmax(-1), hidden.shape[-1]) * 1.0 * mask


class _Finite(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return scores.masked_fill(~mask, -1e9).softmax(-1)


class _FinitePolarity(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return scores.masked_fill(mask, -1e9).softmax(-1)


class _ZeroStruck(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return (scores * mask).softmax(-1) * mask


class _Added(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return (scores + mask).softmax(-1)


class _AddedAndStruckOut(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return (scores + mask).softmax(-1) * mask


class _SharesAgain(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        weights = scores.softmax(-1) * mask
        return weights / weights.sum(-1, keepdim=True)


class _SharesAgainGuarded(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        weights = scores.softmax(-1) * mask
        return weights / (weights.sum(-1, keepdim=True) + 1e-9)


class _OverQueries(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return torch.nan_to_num(scores.masked_fill(~mask, -math.inf).softmax(-2))


class _OverQueriesPlain(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return scores.masked_fill(~mask, -math.inf).softmax(-2)


class _OverQueriesFinite(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return scores.masked_fill(~mask, -1e9).softmax(-2)


class _OverHeads(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return torch.nan_to_num(scores.masked_fill(~mask, -math.inf).softmax(1))


class _NoSoftmax(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return scores.masked_fill(~mask, 0.0)


class _NoOutput(MaskedMultiHeadAttention):
    def forward(self, q, k, v, mask):
        self_o, self.w_o = self.w_o, nn.Identity()
        try:
            return super().forward(q, k, v, mask)
        finally:
            self.w_o = self_o


class _MaskIgnored(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        return scores.softmax(-1)


class _OneHead(MaskedMultiHeadAttention):
    def __init__(self, d_model, n_heads):
        n_heads = 1
        super().__init__(d_model, n_heads)

    def share(self, scores, mask):
        return super().share(scores, mask if mask.dim() == 2 else mask[:, :1])


class _ValuesAreKeys(MaskedMultiHeadAttention):
    def project(self, q, k, v):
        return self.w_q(q), self.w_k(k), self.w_v(k)


class _ValuesByKeys(MaskedMultiHeadAttention):
    def project(self, q, k, v):
        return self.w_q(q), self.w_k(k), self.w_k(v)


class _QueriesByKeys(MaskedMultiHeadAttention):
    def project(self, q, k, v):
        return self.w_k(q), self.w_q(k), self.w_v(v)


class _NoValues(MaskedMultiHeadAttention):
    def project(self, q, k, v):
        return self.w_q(q), self.w_k(k), v


class _NoProjections(MaskedMultiHeadAttention):
    def project(self, q, k, v):
        return q, k, v


class _OneProjection(MaskedMultiHeadAttention):
    def project(self, q, k, v):
        return self.w_q(q), self.w_q(k), self.w_q(v)


class _PolarityStruckOut(MaskedMultiHeadAttention):
    def share(self, scores, mask):
        low = torch.finfo(scores.dtype).min
        return scores.masked_fill(mask, low).softmax(-1).masked_fill(~mask, 0.0)


class _QueriesAsTheyAre(MaskedMultiHeadAttention):
    def project(self, q, k, v):
        return q, self.w_k(k), self.w_v(v)


class _KeysByQueries(MaskedMultiHeadAttention):
    def project(self, q, k, v):
        return self.w_q(q), self.w_q(k), self.w_v(v)


class _Transposed(MaskedMultiHeadAttention):
    def project(self, q, k, v):
        return tuple(
            x @ w.weight for x, w in zip((q, k, v), (self.w_q, self.w_k, self.w_v), strict=True)
        )


class _SelfOnly(MaskedMultiHeadAttention):
    def project(self, q, k, v):
        return self.w_q(q), self.w_k(q), self.w_v(q)


class _SourceOnly(MaskedMultiHeadAttention):
    def project(self, q, k, v):
        return self.w_q(k), self.w_k(k), self.w_v(v)


class _Residual(MaskedMultiHeadAttention):
    def forward(self, q, k, v, mask):
        found = super().forward(q, k, v, mask)
        return q + found


class _MeanOfHeads(MaskedMultiHeadAttention):
    def merge(self, heads):
        return heads.mean(1).repeat(1, 1, self.n_heads)


class _SumOfHeads(MaskedMultiHeadAttention):
    def merge(self, heads):
        return heads.sum(1).repeat(1, 1, self.n_heads)


class _ReversedHeads(MaskedMultiHeadAttention):
    def merge(self, heads):
        heads = heads.flip(1)
        return super().merge(heads)


class _KeysAndValuesExchanged(MaskedMultiHeadAttention):
    def project(self, q, k, v):
        return self.w_q(q), self.w_k(v), self.w_v(k)


def _both(**steps: type) -> type:
    """A class with the mistakes of two others, in different steps."""
    return type("Both", (*steps.values(), MaskedMultiHeadAttention), {})


class _NaNMadeZeroInTheEnd(_NaN):
    def forward(self, q, k, v, mask):
        return super().forward(q, k, v, mask).nan_to_num(0.0)


MODULE_SLIPS = [
    ("no scale", {"scale": _NoScale}, "Divide the scores by the root of d_k."),
    ("divided by the root of d_model", {"scale": _ScaleByModel}, "Divide by the root of d_k."),
    ("divided by d_k, without the root", {"scale": _ScaleWithoutRoot}, "Divide by the root."),
    ("heads split by a view, without a transpose", {"split": _ViewSplit},
     "View to (B, T, H, K), then exchange T and H."),
    ("the heads' columns taken in turn", {"split": _HeadsInnermost},
     "Head 1 takes the first d_k columns."),
    ("heads merged by a view, without a transpose", {"merge": _ViewMerge},
     "Exchange H and T before the heads are put side by side."),
    ("keys and values exchanged", {"project": _KeysAndValuesExchanged},
     "Keys come from k, values from v."),
    ("the mask after the softmax", {"share": _MaskAfter}, "Hide the scores before the softmax."),
    ("equal shares where there is nothing to look at", {"share": _Finite},
     "A query that sees nothing gets zeros."),
    ("NaN where there is nothing to look at", {"share": _NaN},
     "A query that sees nothing gets zeros."),
    ("polarity inverted", {"share": _Polarity}, "True means may attend."),
    ("the mask ignored", {"share": _MaskIgnored}, "What is hidden must get no weight."),
    ("the softmax over the queries", {"share": _OverQueries}, "It runs over the last axis."),
    ("zero instead of minus infinity", {"share": _Zero}, "The exponential of 0 is 1."),
    ("the heads' entries in turn when merged", {"merge": _MergeInTurn},
     "The heads stand side by side: (B, T, H, K)."),
    ("the mean of the heads", {"merge": _MeanOfHeads}, "The heads stand side by side."),
    ("one matrix for all three", {"project": _OneProjection}, "Each has a matrix of its own."),
    ("keys projected with w_q", {"project": _KeysByQueries}, "The keys' matrix is w_k."),
    ("values projected with w_k", {"project": _ValuesByKeys}, "The values' matrix is w_v."),
    ("w_o forgotten", {"forward": _NoOutput}, "The heads, side by side, go through w_o."),
]  # fmt: skip
MODULE_BUT = [
    ("heads split by a view, without a transpose", "heads merged by a view, without a transpose"),
    ("the heads' columns taken in turn", "the heads' entries in turn when merged"),
]


MODULE_MISTAKES = mistakes(
    ("the first sentence's mask for all", _changed_module(share=lambda self, scores, mask: (
        MaskedMultiHeadAttention.share(self, scores, mask[:1] if mask.dim() == 4 else mask))),
     "The mask broadcasts to (B, H, T, S), and may be another one for each sentence."),
    ("the softmax taken twice", _changed_module(share=lambda self, scores, mask: (
        MaskedMultiHeadAttention.share(
            self, MaskedMultiHeadAttention.share(self, scores, mask), mask))),
     "The weights went through a second softmax, which makes them nearly equal."),
    ("NaN where there is nothing to look at, made 0 in the output", _NaNMadeZeroInTheEnd,
     "Make the empty rows zero in the weights, right after the softmax. Behind w_o NaN has spoilt "
     "what other heads have seen, and backwards it comes again: 0 times NaN is NaN."),
    ("scores multiplied by the mask, and minus infinity wherever 0 came out", _ZeroTakenForHidden,
     "A score that may be seen can be 0, too. Put minus infinity in where the mask is False."),
    ("keys and values exchanged", _KeysAndValuesExchanged, "Keys come from k, values from v."),
    *combined(_both, MODULE_SLIPS, but=MODULE_BUT),
    ("no scale", _NoScale,
     "The scores are divided by the root of d_k before the softmax. Without it the softmax "
     "saturates as d_k grows."),
    ("divided by the root of d_model", _ScaleByModel,
     "Each head's queries and keys have d_k = d_model / n_heads entries, and it is the root of d_k "
     "that keeps the variance at one."),
    ("divided by d_k, without the root", _ScaleWithoutRoot,
     "The standard deviation of q . k grows with the root of d_k. Divided by d_k the weights are "
     "too even."),
    ("divided by the root of the number of heads", _ScaleByHeads,
     "The scale is the root of d_k, the width of a head, not of how many heads there are."),
    ("divided by the root of the number of keys", _ScaleByLength,
     "The scale is the root of d_k, the width of a head, however many keys there are."),
    ("multiplied by the root of d_k", _ScaleTurned,
     "The scores must be divided by the root, so that they become smaller."),
    ("divided by half of d_k", _changed_module(scale=lambda self, q: q.shape[-1] / 2),
     "The square root of d_k is meant, not the half of it."),
    ("divided by the root of the number of queries",
     _changed_module(scale=lambda self, q: q.shape[-2] ** 0.5),
     "The scale is the root of d_k, the width of a head, however many queries there are."),
    ("the softmax over the sentences", _changed_module(
        share=lambda self, scores, mask: torch.nan_to_num(
            scores.masked_fill(~mask, -math.inf).softmax(0))),
     "Sentences have nothing to do with each other: the softmax runs over the last axis."),
    ("polarity inverted before the softmax alone", _changed_module(
        share=lambda self, scores, mask: scores.masked_fill(mask, -math.inf).softmax(-1)
        .masked_fill(~mask, 0.0)),
     "True means may attend. What is hidden before the softmax, where the mask is False, is what "
     "gets 0 after it."),
    ("polarity inverted after the softmax alone", _changed_module(
        share=lambda self, scores, mask: scores.masked_fill(~mask, -math.inf).softmax(-1)
        .masked_fill(mask, 0.0)),
     "True means may attend. What is hidden before the softmax, where the mask is False, is what "
     "gets 0 after it."),
    ("plus infinity in place of minus infinity", _changed_module(
        share=lambda self, scores, mask: scores.masked_fill(~mask, math.inf).softmax(-1)
        .masked_fill(~mask, 0.0)),
     "Plus infinity is the highest of all scores. What is hidden needs the lowest."),
    ("zeros for all", _changed_module(share=lambda self, scores, mask: torch.zeros_like(scores)),
     "No weight is left. True means may attend: is what may be seen hidden, before the softmax or "
     "after it? Or was the mask multiplied by minus infinity? Zero times infinity is NaN, not 0, "
     "and NaN was made 0 then. Leave what may be seen alone."),
    ("keys and values exchanged behind their layers",
     _changed_module(project=lambda self, q, k, v: (self.w_q(q), self.w_v(v), self.w_k(k))),
     "The keys, w_k(k), are compared with the queries, and the values, w_v(v), are averaged."),
    ("the scale after the softmax", _ScaleAfter,
     "Divide the scores, not the weights: after the softmax the rows no longer sum to one."),
    ("heads split by a view, without a transpose", _ViewSplit,
     "A view to (B, H, T, K) cuts the rows anew, so that a head gets pieces of other positions. "
     "View to (B, T, H, K), then exchange T and H."),
    ("heads merged by a view, without a transpose", _ViewMerge,
     "Before the heads are put side by side, H and T must change places again, back to (B, T, H, "
     "K)."),
    ("heads merged after the wrong transpose", _MergeOtherAxes,
     "Undo the split: H and T change places again, so that the heads of one position stand side by "
     "side. Here T and K changed places."),
    ("heads merged entry by entry in turn", _MergeInTurn,
     "The heads stand side by side, all entries of head 1 first: (B, T, H, K), not (B, T, K, H)."),
    ("heads split and merged by views, without transposes", _ViewBoth,
     "Without a transpose a head gets pieces of other positions, and positions are mixed. Split to "
     "(B, T, H, K) and exchange T and H; before merging, exchange them back."),
    ("the heads' columns taken in turn", _HeadsInnermost,
     "Head 1 owns the first d_k columns, head 2 the next, as they stand side by side: (B, T, H, "
     "K), not (B, T, K, H)."),
    ("the heads' columns taken in turn, and put back so", _HeadsInnermostThroughout,
     "Head 1 owns the first d_k columns, head 2 the next: (B, T, H, K), not (B, T, K, H). This net "
     "could be trained as well, but its weights mean something else."),
    ("polarity inverted", _Polarity,
     "True means may attend. Here each query looks at what should be hidden."),
    ("polarity inverted, with NaN in rows that are free", _PolarityPlain,
     "True means may attend. Here what may be seen was set to minus infinity."),
    ("polarity inverted, with a large negative number", _FinitePolarity,
     "True means may attend. Here what may be seen was hidden."),
    ("the mask added to the scores as 0 and 1, and struck out afterwards", _AddedAndStruckOut,
     "What is added must be 0 where the query may look and minus infinity where it may not. What "
     "is hidden has had its share of the softmax."),
    ("the mask added to the scores as 0 and 1", _Added,
     "That hides nothing. What is added must be 0 where the query may look and minus infinity "
     "where it may not."),
    ("the mask after the softmax, or after the exponentials, then shares of what is left",
     _SharesAgain,
     "On paper this is right, save for empty rows, which are 0/0. In floating point it also fails "
     "when a hidden score towers over the rest. Hide the scores first, and turn to exponentials "
     "then."),
    ("the mask after the softmax, or after the exponentials, then shares of what is left, and "
     "zeros where nothing is; or -100, or the like, added, and struck out",
     _SharesAgainGuarded,
     "On paper shares of what is left are right. In floating point they fail when a hidden score "
     "towers over the rest: next to it, what may be seen is rounded to 0. Hide the scores first, "
     "and with minus infinity."),
    ("the mask after the softmax", _MaskAfter,
     "What is hidden had its share before it was struck out, so that the rest sums to less than "
     "one. Hide the scores before the softmax."),
    ("zero instead of minus infinity", _Zero,
     "A score of 0 is not nothing: its exponential is 1. Only minus infinity becomes 0."),
    ("zero instead of minus infinity, and struck out afterwards", _ZeroStruck,
     "The hidden keys get nothing now, but each had added e^0 = 1 to the sum of its row, so that "
     "the rest sums to less than one."),
    ("NaN where there is nothing to look at", _NaN,
     "A row with every score at minus infinity is 0/0. Set its weights to zero after the softmax."),
    ("NaN in the gradient of a row with nothing to look at", _LateNaN,
     "The output is right, but backwards the NaN comes again: 0 times NaN is NaN. Put minus "
     "infinity in with masked_fill or where, not by adding, and make the empty rows zero in the "
     "weights, right after the softmax, not later."),
    ("equal shares where there is nothing to look at", _Finite,
     "A query with nothing to look at attends to all that is hidden, and should get zeros. (Where "
     "all keys are hidden by the same large negative number, they get equal weights.)"),
    ("the softmax over the queries", _OverQueries,
     "Each query shares its attention among the keys: the softmax runs over the last axis."),
    ("the softmax over the queries, with NaN in hidden columns", _OverQueriesPlain,
     "Each query shares its attention among the keys: the softmax runs over the last axis."),
    ("the softmax over the queries, with a large negative number for what is hidden",
     _OverQueriesFinite,
     "Each query shares its attention among the keys: the softmax runs over the last axis."),
    ("the softmax over the heads", _OverHeads,
     "Heads do not share anything: each has a row of weights of its own for every query."),
    ("no softmax", _NoSoftmax,
     "The values were added up with the scores themselves. Weights are their softmax."),
    ("w_o forgotten", _NoOutput,
     "The heads stand side by side; the last projection, which mixes them, is missing."),
    ("the mask ignored", _MaskIgnored, "What is hidden is looked at like any other key."),
    ("one wide head", _OneHead,
     "The vectors were not split: there is one softmax over d_model entries where n_heads are "
     "asked for."),
    ("values made from the keys' input", _ValuesAreKeys,
     "w_v is applied to v. In self-attention k and v are the same; in general they are not."),
    ("values projected with w_k", _ValuesByKeys,
     "Each of the three has a matrix of its own: the values' is w_v."),
    ("queries and keys by each other's matrices", _QueriesByKeys,
     "Queries are w_q(q), keys w_k(k)."),
    ("values not projected", _NoValues, "w_v is missing: the values are projected, too."),
    ("no projections", _NoProjections,
     "w_q, w_k and w_v are missing: without them all heads look in the given coordinates."),
    ("one matrix for all three", _OneProjection,
     "Queries, keys and values each have a matrix of their own."),
    ("matrices transposed", _Transposed,
     "nn.Linear keeps its matrix transposed: call the layer, or multiply by weight.T."),
    ("keys and values made from q", _SelfOnly,
     "The three arguments may be three different things. Only in self-attention are they one."),
    ("queries made from k", _SourceOnly,
     "w_q is applied to q. The output has one row for each query."),
    ("the input added to the output", _Residual,
     "The residual connection comes around this module, in Chapter 10. It is no part of it."),
    ("the mean of the heads", _MeanOfHeads,
     "The heads are put side by side, not averaged: that would undo what they are for."),
    ("the heads in reverse order", _ReversedHeads,
     "Head 1 comes first: its d_k entries are the first that w_o sees."),
    ("zero times minus infinity", _ZeroTimesInfinity,
     "Zero times infinity is NaN, not 0, so what may be seen is lost. Put minus infinity in where "
     "the mask is False, and leave the rest alone."),
    ("exponentials of all scores, the highest not subtracted", _NoHighest,
     "The exponential of a large score is infinite, and of a very low one zero. Use softmax, which "
     "subtracts the highest score first."),
    ("-100, or the like, in place of minus infinity", _Low,
     "Scores may be as low as -300 themselves: then what is hidden takes its share. And a query "
     "that sees nothing finds equal shares, not zeros. Take minus infinity."),
    ("-100, or the like, in place of minus infinity, and the mask once more after the softmax",
     _LowStruck,
     "Scores may be as low as -300 themselves: then what is hidden takes nearly all, and what is "
     "left sums to less than one. Take minus infinity."),
    ("-300 in place of minus infinity, and the mask once more after the softmax", _LowestStruck,
     "Scores may be as low as -300 themselves: next to those, what is hidden takes a share. Take "
     "minus infinity."),
    ("-200 in place of minus infinity, and the mask once more after the softmax",
     _changed_module(share=lambda self, scores, mask: scores.masked_fill(
         ~mask, -200.0).softmax(-1) * mask),
     "Scores may be as low as -300 themselves: next to those, what is hidden takes nearly all. "
     "Take minus infinity."),
    *((f"-{n} added in place of minus infinity, and the mask once more after the softmax",
       _changed_module(share=lambda self, scores, mask, n=n: (
           scores - n * ~mask).softmax(-1) * mask),
       "Scores may be 600 apart: what is hidden takes its share, and then it is struck out. Take "
       "minus infinity.")
      for n in (300, 500)),
    ("-100, or the like, in place of minus infinity, and zeros for who sees nothing", _LowNoEmpty,
     "Scores may be as low as -300 themselves: then what is hidden takes its share. Take minus "
     "infinity."),
    ("a causal mask in place of the given one", _CausalInstead,
     "Which keys may be seen is for the given mask to say."),
    ("the first head's mask for all heads", _FirstHeadsMask,
     "The mask broadcasts to (B, H, T, S), and may be another one for each head."),
    ("weights cut off from the gradients", _Detached,
     "The output is right, but no gradient comes to w_q and w_k, so they would never learn."),
    ("values cut off from the gradients", _changed_module(project=lambda self, q, k, v: (
        *MaskedMultiHeadAttention.project(self, q, k, v)[:2],
        MaskedMultiHeadAttention.project(self, q, k, v)[2].detach())),
     "The output is right, but no gradient comes to w_v, so it would never learn."),
    ("a causal mask besides the given one", _changed_module(share=lambda self, scores, mask: (
        MaskedMultiHeadAttention.share(
            self, scores, mask & torch.ones(scores.shape[-2:], dtype=torch.bool).tril()))),
     "Which keys may be seen is for the given mask to say."),
    ("keys made from the queries' input", _changed_module(project=lambda self, q, k, v: (
        self.w_q(q), self.w_k(q), self.w_v(v))),
     "w_k is applied to k. In self-attention q and k are the same; in general they are not."),
    ("keys projected with w_q", _KeysByQueries,
     "Each of the three has a matrix of its own: the keys' is w_k."),
    ("the sum of the heads", _SumOfHeads,
     "The heads are put side by side, not added up: that would undo what they are for."),
    ("queries that are not projected", _QueriesAsTheyAre,
     "Queries are w_q(q), as keys are w_k(k)."),
    ("polarity inverted, and the mask once more after the softmax", _PolarityStruckOut,
     "True means may attend: what is False is hidden before the softmax, and struck out after it."),
    ("divided by the number of heads", _ByHeads,
     "Divide by the root of d_k, the width of one head's queries and keys."),
    ("keys projected with w_v", _KeysByValues,
     "Each of the three has a matrix of its own: the keys' is w_k."),
    ("the best key alone", _Hard,
     "A hard choice: the best key gets all. A softmax gives every key that may be seen its share, "
     "and has a gradient."),
    ("an axis put into the mask, in front", _changed_module(forward=lambda self, q, k, v, mask: (
        MaskedMultiHeadAttention.forward(self, q, k, v, mask[None]))),
     "The mask broadcasts as it is: (T, S) holds for all sentences and heads, and one of four axes "
     "has all of them."),
    ("one length for queries and keys", _OneLength,
     "It raises an error wherever T and S differ: `q` has T words, `k` and `v` have S. Whose "
     "length does each `view` and `reshape` name?"),
    ("the mask on the first head alone", _only_on(head=0), "The mask holds for all heads."),
    ("the mask on the last head alone", _only_on(head=-1), "The mask holds for all heads."),
    ("the mask on the first sentence alone", _only_on(sentence=0),
     "The mask holds for all sentences."),
    *(
        (f"zeros for all{words} where one query may look at nothing", _none_if_one_is_empty(among),
         "Each query is asked for itself, in each head: one row is empty, and the others have "
         "their weights.")
        for words, among in (
            ("", lambda some: some.all()),
            (" queries of a head", lambda some: some.all(2, keepdim=True)),
            (" heads of a query", lambda some: some.all(1, keepdim=True)),
        )
    ),
    *(
        (f"-{n}, or the like, added in place of minus infinity", _adding(n),
         "What is added is finite: a query that may attend to nothing then looks at the hidden "
         "keys, and should find zeros." + " And scores may be 600 apart." * (n < 1000))
        for n in (100, 300, 500, 10000)
    ),
    *(
        (f"-{n}, or the like, added in place of minus infinity", _adding(n),
         "What is added is finite: a query that may attend to nothing then looks at the hidden "
         "keys, and should find zeros. (It has few digits left, besides, for the scores that it is "
         "added to.)")
        for n in (100000, 1000000)
    ),
    *(
        (name, _changed_module(share=lambda self, scores, mask, opened=opened: scores.masked_fill(
            ~(mask | ~mask.any(-1, keepdim=True) & opened(scores)), -math.inf).softmax(-1)), why)
        for name, opened, why in OPENED
    ),
)  # fmt: skip


def _blind(output: dict, d_model, n_heads, matrices, q, k, v, mask) -> bool:
    """Whether the rows that may attend to nothing are zero."""
    rows = ~mask.expand(q.shape[0], n_heads, q.shape[1], k.shape[1]).any(-1).any(1)
    return bool(torch.as_tensor(output["output"])[rows].eq(0).all())


# 8.8 predict: does the last word feel in which order the others came?

ORDERS = {
    "one layer without a mask": (False,
        "One layer without a mask: the last word's query meets the same keys and values, in "
        "another order, and a sum does not care."),
    "one causal layer": (False,
        "One causal layer: the last row of the triangle is full. The last word sees the same bag "
        "of words in any order."),
    "two layers without a mask": (False,
        "Two layers without a mask: what the first gives is shuffled like the words, and otherwise "
        "the same, so that the second sees a bag again."),
    "two causal layers": (True,
        "Two causal layers: in the first each word sees only those before itself, so that its "
        "output depends on its place. The last word of the second layer sees these outputs."),
    "causal only in the first": (True,
        "Causal only in the first: that is where each word's output comes to depend on its place, "
        "and the second sees it, mask or not."),
    "causal only in the second": (False,
        "Causal only in the second: without a mask the first gives each word the same in any "
        "order, and in the second the last word sees all of them."),
}  # fmt: skip


def yes_or_no(output: Any) -> list:
    """True and False, which may be 1 and 0 or words; what is neither stays as it is."""
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    return [words.get(str(plain(one, whole=True)).strip().lower(), one) for one in output]


def _order_mistakes() -> list[tuple[str, list[bool], str]]:
    """Every other list of six answers, with what is wrong about it."""
    rows = []
    for said in itertools.product((False, True), repeat=6):
        wrong = [
            (name, why)
            for (name, (moves, why)), one in zip(ORDERS.items(), said, strict=True)
            if one != moves
        ]
        if len(wrong) == len(ORDERS):
            why = "True is for an output that moves, False for one that stays. Did you ask whether "
            rows.append(("all six the other way round", list(said), why + "it stays the same?"))
        elif wrong:
            rows.append(
                (
                    ", and ".join(name for name, _ in wrong),
                    list(said),
                    " ".join(w for _, w in wrong),
                )
            )
    return rows


# 8.9 find the mistakes: weights in a decoder


def decoder_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(89)
    right = torch.tensor([[5, 9, 4, 3], [8, 3, 0, 0], [7, 6, 3, 0]])
    left = torch.tensor([[1, 1, 5, 3, 6], [2, 7, 4, 3, 9]])
    small = torch.tensor([[4, 7, 7]])
    cases = [(right, 2, 0, 1), (left, 3, 1, 100), (small, 1, 7, 1)]
    drawn = [
        (size * torch.randn(*t.shape[:1], h, *2 * t.shape[1:], generator=draw), t, pad)
        for t, h, pad, size in cases
    ]
    drawn[0][0][0, 0, 3, 1] = 0.0  # a score, like any other
    lowest = torch.rand(1, 1, 3, 3, generator=draw) - 1000.0  # as low as scores may be
    apart = torch.full((1, 1, 3, 3), 999.0)  # as far apart as they may be
    apart[..., 0] = -999.0
    return [*drawn, (lowest, small, 7), (apart, small, 7)]


DECODER_FAULTS = {
    "along": ("queries", "the padding hidden along the queries",
        "What is hidden is a key: the padding mask lies along the last axis."),
    "diagonal": (1, "the triangle one place too far",
        "`tril(1)` shows each place the next one, which is the very token that it has to predict."),
    "hide": ("multiply", "the scores multiplied by the mask",
        "A score of 0 is not nothing: its exponential is 1. Only minus infinity becomes 0."),
}  # fmt: skip


DECODER_SLIPS = [
    ("the padding hidden along the queries", {"along": "queries"}, "What is hidden is a key."),
    ("padded queries hidden as well", {"along": "both"}, "The rows of paddings need no hiding."),
    ("the padding mask left out", {"along": "none"}, "The paddings are keys, and must be hidden."),
    ("the first sentence's padding for all", {"along": "first"}, "Each has its own padding."),
    ("or in place of and", {"along": "or"}, "A key may be seen if *both* masks say so: `&`."),
    ("the triangle one place too far", {"diagonal": 1}, "`tril(1)` shows each place the next one."),
    ("a triangle without its diagonal", {"diagonal": -1}, "A position sees itself, too."),
    ("the other triangle", {"diagonal": 10}, "Row t may see the columns up to t: `tril`."),
    ("no causal mask", {"diagonal": 5}, "The future must be hidden."),
    ("the scores multiplied by the mask", {"hide": "multiply"}, "Only minus infinity becomes 0."),
    ("the mask after the softmax", {"hide": "after"}, "Hide the scores before the softmax."),
    ("equal shares where there is nothing to look at", {"hide": "low"},
     "A row with nothing to look at should get zeros."),
    ("NaN where nothing may be seen", {"hide": "nan"},
     "A row with nothing to look at should get zeros."),
]  # fmt: skip
DECODER_BUT = [
    ("the padding hidden along the queries", "the triangle one place too far"),
    ("the padding hidden along the queries", "the scores multiplied by the mask"),
    ("the triangle one place too far", "the scores multiplied by the mask"),
    ("the padding hidden along the queries", "NaN where nothing may be seen"),
    ("the triangle one place too far", "NaN where nothing may be seen"),
    ("or in place of and", "no causal mask"),  # the padding mask left out does the same
    *itertools.product(
        ("the padding mask left out", "or in place of and", "no causal mask"),  # no row is empty
        ("equal shares where there is nothing to look at", "NaN where nothing may be seen"),
    ),
]


def _seen(tokens: Tensor, pad: int) -> Tensor:
    return (tokens != pad)[:, None, None, :] & _square(tokens.shape[1]).tril()


def _as_they_are(scores: Tensor, tokens: Tensor, pad: int) -> Tensor:
    """The mask from the tokens' two axes, or from three: it fits where one meets the heads."""
    if len(tokens) != 1:
        raise RuntimeError("as broadcasting says it")
    return decoder_weights(scores, tokens, pad)


DECODER_MISTAKES = mistakes(
    *changed(DECODER_FAULTS, _decoder),
    ("NaN where there is nothing to look at", _decoder(hide="nan"),
     "The three mistakes are mended. With padding in front the first rows may see nothing: their "
     "weights should be zeros."),
    ("equal shares where there is nothing to look at", _decoder(hide="low"),
     "The three mistakes are mended. But a row with nothing to look at spreads its attention over "
     "all that is hidden."),
    ("the mask after the softmax", _decoder(hide="after"),
     "What is hidden had its share before it was struck out, so that the rest sums to less than "
     "one."),
    ("polarity inverted", _decoder(turned=True), "True means may attend."),
    ("padded queries hidden as well", _decoder(along="both"),
     "Nobody reads the rows of paddings; they need no hiding, and a test compares them here."),
    ("the mask added to the scores as 0 and 1", _decoder(hide="add"),
     "That hides nothing. What is added must be 0 where a place may be seen and minus infinity "
     "where it may not."),
    ("the future alone", _decoder(diagonal=11),
     "`tril` is True where a place may be seen. It is not to be turned round."),
    ("the padding mask left out", _decoder(along="none"),
     "The paddings are keys, and must be hidden."),
    ("the first sentence's padding for all", _decoder(along="first"),
     "Every sentence has its own padding."),
    ("or in place of and", _decoder(along="or"), "A key may be seen if *both* masks say so: `&`."),
    ("a triangle without its diagonal", _decoder(diagonal=-1), "A position sees itself, too."),
    ("the other triangle", _decoder(diagonal=10), "Row t may see the columns up to t: `tril`."),
    ("no causal mask", _decoder(diagonal=5), "The padding is hidden, and the future is not."),
    ("the softmax over the queries", _decoder(hide="queries"),
     "Each query shares its attention among the keys: the softmax runs over the last axis."),
    ("the padding taken to be 0", lambda scores, tokens, pad: decoder_weights(scores, tokens, 0),
     "The padding's id is an argument, `pad`."),
    ("a negative number that is not low enough",
     lambda scores, tokens, pad: scores.masked_fill(
         ~((tokens != pad)[:, None, None, :] & _square(tokens.shape[1]).tril()), -100.0
     ).softmax(-1) * ((tokens != pad)[:, None, None, :] & _square(tokens.shape[1]).tril()),
     "Scores may lie between -1,000 and 1,000: next to one of -200, a hidden one of -100 takes "
     "nearly everything. Only minus infinity is below all of them."),
    ("zero instead of minus infinity, and struck out afterwards",
     lambda scores, tokens, pad: (
         _decoder(hide="multiply")(scores, tokens, pad)
         * ((tokens != pad)[:, None, None, :] & _square(tokens.shape[1]).tril())
     ),
     "A hidden score of 0 takes its share, and what is struck out then is lost: the rest no longer "
     "sums to one. Hide with minus infinity."),
    ("the padding hidden along the queries, and NaN where nothing may be seen",
     _decoder(along="queries", hide="nan"),
     "What is hidden is a key: the padding mask lies along the last axis. And a row with nothing "
     "to look at should get zeros."),
    ("the triangle one place too far, and NaN where nothing may be seen",
     _decoder(diagonal=1, hide="nan"),
     "`tril(1)` shows each place the next one. And a row with nothing to look at should get "
     "zeros."),
    ("the padding along the queries, the triangle one place too far, and NaN",
     _decoder(along="queries", diagonal=1, hide="nan"),
     "Minus infinity is right. But what is hidden is a key, along the last axis; `tril(1)` shows "
     "each place the next one; and a row with nothing to look at should get zeros."),
    *((f"the mask after the softmax, then shares{how}",
       lambda scores, tokens, pad, least=least: (
           _shares(_decoder(hide="after")(scores, tokens, pad), least)),
       "In floating point it fails when a hidden score towers over the rest: next to it, what may "
       "be seen is rounded to 0. Hide the scores first.")
      for how, least in ((" of what is left", 1e-30), (", and zeros where little is left", 1e-9),
                         (", and NaN where nothing is left", 0.0))),
    ("exponentials of all scores, the highest not subtracted",
     lambda scores, tokens, pad: _shares(scores.exp() * (
         (tokens != pad)[:, None, None, :] & _square(tokens.shape[1]).tril()), 1e-30),
     "Scores may lie between -1,000 and 1,000, and their exponentials are 0 or infinite. "
     "`softmax` takes care of that."),
    ("padding looked for at the end alone", _decoder(along="right"),
     "Padding may also stand in front. Compare each token with `pad`, and do not count."),
    ("itself seen where there is nothing to look at", lambda scores, tokens, pad: (
        decoder_weights(scores, tokens, pad)
        + torch.eye(tokens.shape[1])
        * ~(tokens != pad).cumsum(1).bool()[:, None, :, None]),
     "A query that may attend to nothing gets zeros, itself included."),
    *((f"{-low:g}, or the like, in place of minus infinity, and struck out afterwards",
       lambda scores, tokens, pad, low=low: (lambda mask: (
           scores.masked_fill(~mask, -low).softmax(-1) * mask
       ))((tokens != pad)[:, None, None, :] & _square(tokens.shape[1]).tril()),
       "Scores may be as low as -1,000, and then what is hidden takes its share. Only minus "
       "infinity is below all of them.")
      for low in (500.0, 1000.0)),
    *((f"{-low:g}, or the like, in place of minus infinity",
       lambda scores, tokens, pad, low=low: scores.masked_fill(
           ~((tokens != pad)[:, None, None, :] & _square(tokens.shape[1]).tril()), -low
       ).softmax(-1),
       "Scores may be as low as -1,000, and then what is hidden takes its share; a row with "
       "nothing to look at should get zeros. Only minus infinity is below all scores.")
      for low in (10.0, 100.0, 1000.0)),
    *((f"-{n}, or the like, added in place of minus infinity{how}",
       lambda scores, tokens, pad, n=n, struck=struck: (
           scores - n * ~_seen(tokens, pad)
       ).softmax(-1) * (_seen(tokens, pad) | ~torch.tensor(struck)),
       "What is added is finite, and scores may be 2,000 apart: what is hidden keeps a share, or "
       f"all.{more}")
      for how, struck, more in (
          ("", False, " And a row with nothing to look at should get zeros."),
          (", and struck out afterwards", True, ""))
      for n in (100, 1000)),
    ("-1000000000 added in place of minus infinity",
     lambda scores, tokens, pad: (scores - 1e9 * ~_seen(tokens, pad)).softmax(-1),
     "What is added is finite: a row with nothing to look at shares among all that is hidden, and "
     "should get zeros."),
    *((name, lambda scores, tokens, pad, opened=opened: scores.masked_fill(
        ~((s := _seen(tokens, pad)) | ~s.any(-1, keepdim=True) & opened(scores)), -math.inf
      ).softmax(-1), why)
      for name, opened, why in OPENED[:2]),
    *combined(_decoder, DECODER_SLIPS, but=DECODER_BUT),
    ("ids below the padding's hidden as well", _decoder(along="above"),
     "Only the id `pad` itself is padding, and it may be any: compare with `!=`."),
    ("the words hidden, not the paddings", _decoder(along="paddings"),
     "The paddings are what is hidden: a key is seen where its token is *not* `pad`."),
    ("hidden scores, not weights", _decoder(hide="no softmax"),
     "The hiding is right. The softmax is missing."),
    ("the scores, with zeros for what is hidden", _decoder(hide="no softmax, zeros"),
     "The softmax is missing: weights are shares of one."),
    ("the softmax over the sentences", _decoder(hide="sentences"),
     "Sentences have nothing to do with each other: the softmax runs over the last axis."),
    ("zeros for all", lambda scores, tokens, pad: torch.zeros_like(scores),
     "No weight is left. Is what may be seen hidden, before the softmax or after it? Or is the "
     "line that fills the weights missing?"),
    *((f"scores multiplied by the mask, and minus infinity wherever 0 came out{words}",
       lambda scores, tokens, pad, nan=nan: (
           s := scores * _seen(tokens, pad)
       ).masked_fill(s == 0, -math.inf).softmax(-1).nan_to_num(nan),
       "A score that may be seen can be 0, too. Put minus infinity in where the mask is False.")
      for words, nan in (("", 0.0), (", and NaN where no other did", math.nan))),
    *((f"zero times minus infinity{words}",
       lambda scores, tokens, pad, struck=struck: (
           scores + ~_seen(tokens, pad) * -math.inf
       ).softmax(-1).masked_fill(~_seen(tokens, pad) & struck, 0.0),
       "Zero times infinity is NaN, not 0, so what may be seen is lost. Put minus infinity in "
       "where the mask is False, and leave the rest alone.")
      for words, struck in (("", False), (", and struck out afterwards", True))),
    ("the mask added to the scores as 0 and 1, and struck out afterwards",
     lambda scores, tokens, pad: (
         _decoder(hide="add")(scores, tokens, pad) * _seen(tokens, pad)),
     "What is hidden had its share before it was struck out. What is added must be minus infinity "
     "where a place may not be seen, and 0 elsewhere."),
    ("exponentials of all scores, the highest not subtracted, and NaN left among what is seen",
     lambda scores, tokens, pad: _shares(
         scores.exp().masked_fill(~_seen(tokens, pad), 0.0), 0.0
     ).masked_fill(~_seen(tokens, pad), 0.0),
     "Scores may lie between -1,000 and 1,000, and their exponentials are 0 or infinite. "
     "`softmax` takes care of that."),
    *((f"the lowest score in place of minus infinity{how}",
       lambda scores, tokens, pad, struck=struck: scores.masked_fill(
           ~_seen(tokens, pad), float(scores.min())
       ).softmax(-1) * (_seen(tokens, pad) | ~torch.tensor(struck)),
       "The lowest of all scores has a weight, too. Only minus infinity has none.")
      for how, struck in ((", and struck out afterwards", True), ("", False))),
    ("the softmax over the heads",
     lambda scores, tokens, pad: scores.masked_fill(~_seen(tokens, pad), -math.inf).softmax(
         1).nan_to_num(0.0),
     "Heads do not share anything: each has a row of weights of its own for every query."),
    ("what stands behind a padding hidden as well",
     lambda scores, tokens, pad: masked_weights(
         scores, _seen(tokens, pad) & (tokens != pad).cumprod(1).bool()[:, None, None, :]),
     "Padding may also stand in front: a loop has to pass over it, and not to end there."),
    ("the first head's weights for all",
     lambda scores, tokens, pad: decoder_weights(scores[:, :1].expand_as(scores), tokens, pad),
     "Each head has scores of its own."),
    ("exponentials of all scores, the highest not subtracted, and NaN made 0",
     lambda scores, tokens, pad: (
         (e := scores.exp() * _seen(tokens, pad)) / e.sum(-1, keepdim=True)).nan_to_num(0.0),
     "Scores may lie between -1,000 and 1,000, and their exponentials are 0 or infinite. "
     "`softmax` takes care of that."),
    ("a position sees neither itself nor the one before it", _decoder(diagonal=-2),
     "`range(t + 1)`, or `tril()`: up to the position itself."),
    ("too few axes in the padding mask",
     lambda scores, tokens, pad: _as_they_are(scores, tokens, pad),
     "Shapes are broadcast from the right: without an axis for the heads and one for the queries "
     "B meets T or H. That is an error where they differ, and hides other words where they agree."),
    ("zeros for all where one query may look at nothing",
     lambda scores, tokens, pad: decoder_weights(scores, tokens, pad)
        * _seen(tokens, pad).any(-1).all(),
     "Each query is asked for itself: one row is empty, and the others have their weights."),
)  # fmt: skip


# 8.10 derive: how many paddings


def paddings_for(scores: Tensor, share: float) -> int:
    return math.ceil(share / (1 - share) * scores.double().exp().sum().item() - 1e-9)


PADDING_NUMBERS = [
    (torch.tensor([0.0, 0.0, 0.0]), 0.5),
    (torch.tensor([1.0, 2.0]), 0.3),
    (torch.tensor([-1.0, 0.5, 3.0, -2.0]), 0.75),
    (torch.tensor([-3.0]), 0.2),
    (torch.tensor([4.0, 1.0]), 0.9),
    (torch.tensor([4.9, 3.7, 4.4]), 0.85),
    (torch.tensor([2.0, 3.0, 4.6, -5.0, 1.0]), 0.6),
    (torch.tensor([0.0, 0.0]), 0.6003),  # 3.0038: four
]


def _paddings_with(
    factor: Callable[[float], float] = lambda p: p / (1 - p),
    words: Callable[[Tensor], Tensor] = lambda a: a.exp().sum(),
    whole: Callable[[float], int] = lambda n: math.ceil(n - 1e-9),
) -> Callable[[Tensor, float], int]:
    """Right by default; each argument makes one slip."""
    return lambda scores, share: whole(factor(share) * float(words(scores.double())))


PADDING_SLIPS = [
    ("rounded down", {"whole": lambda n: math.floor(n + 1e-9)},
     "The share has to be reached: round up."),
    ("rounded to the nearest", {"whole": round}, "The share has to be reached: round up."),
    ("not rounded", {"whole": lambda n: n}, "The number of paddings is whole: round up."),
    ("the share of the words alone", {"factor": lambda p: p},
     "The paddings belong to the sum in the denominator, too: n / (n + sum)."),
    ("the share inverted", {"factor": lambda p: (1 - p) / p},
     "n / (n + sum) = share: solve it for n."),
    ("divided by the share", {"factor": lambda p: 1 / p},
     "n / (n + sum) = share: solve it for n."),
    ("the share of the rest alone", {"factor": lambda p: 1 - p},
     "n / (n + sum) = share: solve it for n."),
    ("divided by 1 + share", {"factor": lambda p: p / (1 + p)},
     "n / (n + sum) = share: what is taken to the other side changes its sign."),
    ("divided by the rest alone", {"factor": lambda p: 1 / (1 - p)},
     "That is words and paddings together."),
    ("words taken to have the score 0", {"words": lambda a: torch.tensor(len(a))},
     "A word weighs the exponential of its score."),
    ("the exponential of the sum", {"words": lambda a: a.sum().exp()},
     "The sum of exponentials is not the exponential of the sum."),
    ("the highest score alone", {"words": lambda a: a.max().exp()},
     "All words are in the denominator, not the best alone."),
    ("the mean of the exponentials", {"words": lambda a: a.exp().mean()},
     "The denominator of the softmax is a sum, not a mean."),
    ("powers of 2", {"words": lambda a: (2**a).sum()},
     "Softmax takes the exponential, with base e."),
]  # fmt: skip


def _paddings(count: Callable[[Tensor, float], float]) -> Callable[[Tensor, float], int]:
    return lambda scores, share: int(count(scores.double(), share))


PADDING_NUMBER_MISTAKES = mistakes(
    ("rounded down",
     _paddings(lambda a, p: math.floor(p / (1 - p) * a.exp().sum())),
     "The share has to be reached: round up."),
    ("rounded to the nearest",
     _paddings(lambda a, p: round(float(p / (1 - p) * a.exp().sum()))),
     "The share has to be reached: round up."),
    ("one more than needed",
     _paddings(lambda a, p: math.floor(p / (1 - p) * a.exp().sum()) + 1),
     "At least the share is asked for: where it is reached exactly, that is enough."),
    ("the share of the words alone",
     _paddings(lambda a, p: math.ceil(p * a.exp().sum() - 1e-9)),
     "The paddings belong to the sum in the denominator, too: n / (n + sum)."),
    ("the share inverted",
     _paddings(lambda a, p: math.ceil((1 - p) / p * a.exp().sum() - 1e-9)),
     "n / (n + sum) = share: solve it for n."),
    ("divided by the rest alone",
     _paddings(lambda a, p: math.ceil(a.exp().sum() / (1 - p) - 1e-9)),
     "That is words and paddings together. How much of it is padding?"),
    ("words taken to have the score 0",
     _paddings(lambda a, p: math.ceil(p / (1 - p) * len(a) - 1e-9)),
     "A word weighs the exponential of its score; 1 is what a *padding* weighs."),
    ("the scores added, not their exponentials",
     _paddings(lambda a, p: math.ceil(max(float(p / (1 - p) * a.sum()), 0) - 1e-9)),
     "The softmax adds exponentials."),
    ("the exponential of the sum",
     _paddings(lambda a, p: math.ceil(p / (1 - p) * a.sum().exp() - 1e-9)),
     "The sum of exponentials is not the exponential of the sum."),
    ("the logarithm of the sum", _paddings(
        lambda a, p: math.ceil(float(p / (1 - p) * a.exp().sum().log()) - 1e-9)),
     "The words weigh the sum of their exponentials, and no logarithm of it."),
    ("the highest score alone",
     _paddings(lambda a, p: math.ceil(p / (1 - p) * a.max().exp() - 1e-9)),
     "All words are in the denominator, not the best alone."),
    ("none at all", _paddings(lambda a, p: 0),
     "A padding has the score 0, and the exponential of 0 is 1: it weighs something, and some are "
     "needed. (Does a loop end before it begins?)"),
    ("divided by share - 1",
     _paddings(lambda a, p: math.ceil(p / (p - 1) * a.exp().sum() - 1e-9)),
     "n / (n + sum) = share: n - share n is what is left, (1 - share) n."),
    ("multiplied by 1 - share",
     _paddings(lambda a, p: math.ceil(p * (1 - p) * a.exp().sum() - 1e-9)),
     "n / (n + sum) = share: (1 - share) n = share sum. Divide by 1 - share."),
    ("divided by the sum of the words",
     _paddings(lambda a, p: math.ceil(p / (1 - p) / a.exp().sum() - 1e-9)),
     "n / (n + sum) = share: (1 - share) n = share sum. The more the words weigh, the more "
     "paddings it takes."),
    ("a number for each word",
     lambda scores, share: (share / (1 - share) * scores.double().exp() - 1e-9).ceil(),
     "The words are in the sum together: add their exponentials."),
    ("the share times the words' number",
     _paddings(lambda a, p: math.ceil(p * len(a) - 1e-9)),
     "A word weighs the exponential of its score, and the paddings belong to the sum, too."),
    ("the paddings and the words together",
     _paddings(lambda a, p: len(a) + math.ceil(p / (1 - p) * a.exp().sum() - 1e-9)),
     "Asked for are the paddings alone."),
    ("the mean of the exponentials",
     _paddings(lambda a, p: math.ceil(p / (1 - p) * a.exp().mean() - 1e-9)),
     "The denominator of the softmax is a sum, not a mean."),
    ("the factor in place of the number of paddings",
     _paddings(lambda a, p: math.ceil(p / (1 - p) - 1e-9)),
     "That is for words that weigh 1 in sum. Multiply by the sum of their exponentials."),
    ("one more than the smallest", lambda scores, share: paddings_for(scores, share) + 1,
     "With one padding fewer the share is reached already."),
    ("one fewer than the smallest", lambda scores, share: paddings_for(scores, share) - 1,
     "That many do not reach the share yet."),
    ("a hundredth taken off before rounding up",
     _paddings(lambda a, p: math.ceil(p / (1 - p) * a.exp().sum() - 1e-2)),
     "A slack is there for the last bits of a float, 1e-9 say. A hundredth of a padding may be "
     "what is missing."),
    ("not rounded", lambda scores, share: float(share / (1 - share) * scores.double().exp().sum()),
     "The number of paddings is whole, and the share has to be reached: round up."),
    ("the highest score subtracted",
     _paddings(lambda a, p: math.ceil(p / (1 - p) * (a - a.max()).exp().sum() - 1e-9)),
     "Then a padding has no longer the score 0: all are shifted, or none."),
    ("a padding counted e times",
     _paddings(lambda a, p: math.ceil(p / (1 - p) * a.exp().sum() / math.e - 1e-9)),
     "A padding has the score 0, and the exponential of 0 is 1, not e."),
    ("powers of 2",
     _paddings(lambda a, p: math.ceil(p / (1 - p) * (2**a).sum() - 1e-9)),
     "Softmax takes the exponential, with base e."),
    ("the exponential of the mean",
     _paddings(lambda a, p: math.ceil(p / (1 - p) * len(a) * a.mean().exp() - 1e-9)),
     "Take the exponential of each score, and add these: the exponential of a mean is smaller."),
    ("one padding counted among the words",
     _paddings(lambda a, p: math.ceil(p / (1 - p) * (a.exp().sum() + 1) - 1e-9)),
     "The sum of the words' exponentials has no padding in it: the paddings are the n."),
    ("divided by the share",
     _paddings(lambda a, p: math.ceil(a.exp().sum() / p - 1e-9)),
     "Let n be the number of paddings and Z the sum of the words: n / (n + Z) has to be the share. "
     "Solve that for n."),
    ("the share of the rest alone",
     _paddings(lambda a, p: math.ceil((1 - p) * a.exp().sum() - 1e-9)),
     "n / (n + sum) = share: solve it for n."),
    ("divided by 1 + share",
     _paddings(lambda a, p: math.ceil(p / (1 + p) * a.exp().sum() - 1e-9)),
     "n / (n + sum) = share: n - share n is what is left, (1 - share) n."),
    ("the words counted once more",
     _paddings(lambda a, p: math.ceil(p / (1 - p) * (a.exp().sum() + len(a)) - 1e-9)),
     "A word weighs the exponential of its score, and nothing else."),
    ("the scores with the sign turned",
     _paddings(lambda a, p: math.ceil(p / (1 - p) * (-a).exp().sum() - 1e-9)),
     "A word of a high score weighs much: the exponential of the score as it is."),
    ("scores divided by a root once more",
     _paddings(lambda a, p: math.ceil(p / (1 - p) * (a / len(a) ** 0.5).exp().sum() - 1e-9)),
     "They are divided by the root of the width already, and the number of words is no width."),
    *combined(_paddings_with, PADDING_SLIPS, but=[
        ("the share of the words alone", "words taken to have the score 0"),
    ]),
    ("the exponentials of weights",
     _paddings(lambda a, p: math.ceil(p / (1 - p) * a.softmax(0).exp().sum() - 1e-9)),
     "What is summed are the exponentials of the scores themselves: no softmax comes before."),
    ("the logarithm of the number",
     _paddings(lambda a, p: math.ceil(float((p / (1 - p) * a.exp().sum()).log()) - 1e-9)),
     "That is its logarithm. Asked for is the number of paddings."),
)  # fmt: skip


# 8.11 design: a mask that makes a decoder copy


def copying_mask(n: int) -> Tensor:
    return _copying(lambda j, n: [j], lambda j, n: [n - 1 - j])(n)


def _copying(
    there: Callable[[int, int], list[int]],
    back: Callable[[int, int], list[int]],
    first: Callable[[int], list[int]] = lambda t: list(range(t + 1)),
) -> Callable[[int], Tensor]:
    """The keys seen by the rows of words, of the copy and of the copy backwards."""

    def design(n: int) -> Tensor:
        mask = torch.zeros(3 * n, 3 * n, dtype=torch.bool)
        rows = [first(t) for t in range(n)]
        rows += [there(j, n) for j in range(n)] + [back(j, n) for j in range(n)]
        for t, keys in enumerate(rows):
            for key in keys:
                if 0 <= key < 3 * n:
                    mask[t, key] = True
        return mask

    return design


def what_is_written(answer: Callable, n: int) -> Any:
    """Does the mask leak, which rows are empty, which words does each row mix?"""
    found = answer(n)
    if isinstance(found, list) and len({len(row) for row in found if type(row) is list}) > 1:
        raise ValueError(f"expected rows of {3 * n} values each, got rows of different lengths")
    mask = torch.as_tensor(found)
    if mask.shape != (3 * n, 3 * n) or mask.dtype != torch.bool:
        raise ValueError(
            f"expected a boolean mask of shape ({3 * n}, {3 * n}), got {tuple(mask.shape)}, "
            f"{str(mask.dtype).removeprefix('torch.')}"
        )
    kinds = [*range(n), n, *range(n), *range(n - 1, -1, -1)][: 3 * n]  # n is the separator
    written = []
    for row in mask[n:].tolist():
        seen = sorted({kinds[s] for s, may in enumerate(row) if may})
        written.append(seen[0] if len(seen) == 1 else seen)
    return {
        "rows that see the future": mask.triu(1).any(-1).nonzero().flatten().tolist(),
        "empty rows": (~mask.any(-1)).nonzero().flatten().tolist(),
        "words written": written,
    }


def _first_wrong_place(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str]:
    """What is wrong at one place, and what is asked for there, in a case of several words."""
    (n,), found, right = next(
        each
        for each in zip(cases, got, want, strict=True)
        if each[0] != (1,) and each[1] != each[2]
    )
    both = zip(found["words written"], right["words written"], strict=True)
    place, seen, word = next(
        ((n + i, *pair) for i, pair in enumerate(both) if pair[0] != pair[1]), (None, None, None)
    )
    said, more = [], []
    if place is not None:
        some = [seen] if isinstance(seen, int) else seen
        names = ["the separator" if k == n else f"word {k}" for k in some]
        what = (
            f"mixes {' and '.join(names)}"
            if len(names) > 1
            else f"writes {names[0]}"
            if names
            else "sees nothing"
        )
        said.append("other words than those asked for")
        more.append(f"With n = {n}, place {place} {what}. It has to write word {word}.")
    if found["rows that see the future"]:
        said.append("the future seen")
        more.append(f"With n = {n}, place {found['rows that see the future'][0]} sees what comes "
                    "after it.")  # fmt: skip
    if set(found["empty rows"]) - {place}:
        said.append("empty rows")
        more.append(f"With n = {n}, row {min({*found['empty rows']} - {place})} is empty.")
    return "; ".join(said), " ".join(more)


def _beside_the_words(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """What is wrong with a mask that writes the right words."""
    leaks, empty, mixed = [], [], False
    for (n,), found, right in zip(cases, got, want, strict=True):
        for seen, word in zip(found["words written"], right["words written"], strict=True):
            if seen != word and not (isinstance(seen, list) and word in seen):
                return _first_wrong_place(cases, got, want)
            mixed = mixed or seen != word
        leaks += [t < n for t in found["rows that see the future"]]
        empty += found["empty rows"]
    if mixed + bool(leaks) + bool(empty) > 1:
        return _first_wrong_place(cases, got, want)
    if mixed:
        return (
            "more than the one word seen",
            "What is seen is mixed. Some rows see another word, or the separator, beside the one "
            "that they write.",
        )
    if empty:
        return (
            "empty rows for the words",
            "The rows of the words themselves may see what you like of their past, but each must "
            "see something.",
        )
    if all(leaks):
        return (
            "the future seen by the words",
            "Every row has to keep to the past and itself, those of the words, too.",
        )
    return (
        "the future seen by what writes",
        "The words are right, and some of them are taken from a place that is still to come: it "
        "is not there yet when one writes. Look for the word where it stood at first.",
    )


COPY_MISTAKES = mistakes(
    ("each place writes its own word", _copying(lambda j, n: [n + j], lambda j, n: [2 * n + j]),
     "That writes again what was read last: a place has to write the word that comes behind it. "
     "The first to be written, at the separator, is word 0."),
    ("the label seen", _copying(lambda j, n: [n + j + 1], lambda j, n: [2 * n + j + 1]),
     "The place to the right is the one that is asked for: it is not there yet when one writes. "
     "Look for the word where it stood before."),
    ("the whole past", _copying(
        lambda j, n: list(range(n + j + 1)), lambda j, n: list(range(2 * n + j + 1))
     ),
     "A causal mask alone leaves the choice to the scores, and here the scores are any. Each row "
     "must see copies of one word, and nothing else."),
    ("copied forwards twice", _copying(lambda j, n: [j], lambda j, n: [j]),
     "The copy is right. The second part gives the words backwards: the last one first."),
    ("backwards first", _copying(lambda j, n: [n - 1 - j], lambda j, n: [j]),
     "First comes the copy, from word 0 on, then the words backwards."),
    ("backwards twice", _copying(lambda j, n: [n - 1 - j], lambda j, n: [n - 1 - j]),
     "The second part is right. The first gives the words in their order."),
    ("the copy one word too late, from the separator on",
     _copying(lambda j, n: [j - 1 if j else n], lambda j, n: [n - 1 - j]),
     "The way back is right. At place n + j word j is to be written: the row of the separator "
     "writes word 0."),
    ("one word too late",
     _copying(lambda j, n: [j - 1 if j else n], lambda j, n: [n - j if j else 0]),
     "At place n + j word j is to be written, not the one before: the row of the separator already "
     "writes word 0."),
    ("one word too early", _copying(
        lambda j, n: [min(j + 1, n)], lambda j, n: [max(n - 2 - j, 0)]
     ),
     "At place n, the separator's, word 0 is to be written, not word 1."),
    ("the separator seen by the copy", _copying(lambda j, n: [j, n], lambda j, n: [n - 1 - j]),
     "What is seen is mixed. A row that writes word j may see word j alone, or copies of it."),
    ("all words seen", _copying(lambda j, n: list(range(n)), lambda j, n: list(range(n))),
     "What is seen is mixed. Each row must see its one word alone."),
    ("all words seen by the copy", _copying(
        lambda j, n: list(range(n)), lambda j, n: [n - 1 - j]
     ),
     "What is seen is mixed. Each row must see its one word alone."),
    ("backwards through the copy, one place late", _copying(
        lambda j, n: [j], lambda j, n: [2 * n - 1 - j]
     ),
     "Word k stands at place n + 1 + k of the copy, behind the separator: place 2n - j holds word "
     "n - 1 - j."),
    ("the separator seen as well", _copying(lambda j, n: [j, n], lambda j, n: [n - 1 - j, n]),
     "What is seen is mixed. A row that writes word j may see word j alone, or copies of it."),
    ("the word read last seen as well", _copying(
        lambda j, n: [j, n + j], lambda j, n: [n - 1 - j, 2 * n + j]
     ),
     "What is seen is mixed. A row that writes word j may see word j alone, or copies of it: its "
     "own place holds another."),
    ("empty rows for the words", _copying(lambda j, n: [j], lambda j, n: [n - 1 - j], lambda t: []),
     "The rows of the words themselves may see what you like of their past, but each must see "
     "something."),
    ("the future seen by the words", _copying(
        lambda j, n: [j], lambda j, n: [n - 1 - j], lambda t: [t, t + 1]
     ),
     "Every row has to keep to the past and itself, those of the words, too."),
    ("the copy's own next word seen", _copying(lambda j, n: [n + j + 1], lambda j, n: [n - 1 - j]),
     "The place to the right is the one that is asked for: it is not there yet when one writes. "
     "Look for the word where it stood at first."),
    ("the separator seen by all that follow", _copying(lambda j, n: [n], lambda j, n: [n]),
     "The separator is no word. Row n + j writes word j, and sees it where it stood at first."),
    ("one word too late, the first one twice",
     _copying(lambda j, n: [max(j - 1, 0)], lambda j, n: [min(n - j, n - 1)]),
     "The row of the separator writes word 0 already, row n + j word j, and row 2n + j word "
     "n - 1 - j."),
    ("the way back one word too late",
     _copying(lambda j, n: [j], lambda j, n: [min(n - j, n - 1)]),
     "The copy is right. Row 2n writes word n - 1, and row 2n + j already word n - 1 - j."),
    ("copied forwards twice, one word too late", _copying(
        lambda j, n: [max(j - 1, 0)], lambda j, n: [max(j - 1, 0)]
     ),
     "Row n + j writes word j. The second part gives the words backwards."),
    ("backwards through the copy, one place early", _copying(
        lambda j, n: [j], lambda j, n: [2 * n + 1 - j]
     ),
     "Word k stands at place n + 1 + k of the copy: place 2n - j holds word n - 1 - j."),
    ("the way back from the separator on",
     _copying(lambda j, n: [j], lambda j, n: [n - j]),
     "Row 2n writes word n - 1, and row 2n + j word n - 1 - j."),
    ("the right words and their whole past",
     _copying(lambda j, n: list(range(j + 1)), lambda j, n: list(range(n - j))),
     "What is seen is mixed. A row that writes word j may see word j alone, or copies of it."),
    ("the copy alone", _copying(lambda j, n: [j], lambda j, n: []),
     "The first part is right. The rows from 2n on write the words backwards."),
    ("the words backwards alone", _copying(lambda j, n: [], lambda j, n: [n - 1 - j]),
     "The second part is right. The rows from n to 2n - 1 write the words in their order."),
    ("queries and keys exchanged", lambda n: copying_mask(n).T,
     "Rows are the places that look, columns those that are looked at. Transpose it."),
    ("polarity inverted", lambda n: ~copying_mask(n), "True means may attend."),
    ("the copy one word too late", _copying(
        lambda j, n: [max(j - 1, 0)], lambda j, n: [n - 1 - j]
     ),
     "At place n + j word j is to be written, not the one before: the row of the separator already "
     "writes word 0."),
    ("the copy one word too early", _copying(lambda j, n: [j + 1], lambda j, n: [n - 1 - j]),
     "At place n, the separator's, word 0 is to be written, not word 1."),
    ("the way back one word too early", _copying(
        lambda j, n: [j], lambda j, n: [max(n - 2 - j, 0)]
     ),
     "Place 2n writes word n - 1 once more, and place 2n + j word n - 1 - j."),
    ("each place sees the one before it", _copying(
        lambda j, n: [n + j - 1], lambda j, n: [2 * n + j - 1]
     ),
     "That is the place to the left, not the place where the word stands that comes next."),
    ("the copy one word too early, the last one twice", _copying(
        lambda j, n: [min(j + 1, n - 1)], lambda j, n: [n - 1 - j]
     ),
     "At place n, the separator's, word 0 is to be written, not word 1."),
)  # fmt: skip


EXERCISES = [
    Exercise(
        number="8.1",
        title="a row by hand",
        section="Both masks at once",
        reference=[0.0, 1 / 4, 3 / 4, 0.0, 0.0],
        mistakes=HAND_MISTAKES,
        canonical=_numbers,
        rtol=5e-3,
        atol=2e-3,
    ),
    Exercise(
        number="8.2",
        title="several sentences in a row",
        section="The mask lies along the keys",
        reference=packed_mask,
        cases=packed_cases,
        mistakes=PACKED_MISTAKES,
    ),
    Exercise(
        number="8.3",
        title="a mask over a buffer",
        section="A buffer that is not full",
        reference=buffer_mask,
        cases=[(2, 2, 5), (0, 3, 3), (3, 1, 6), (4, 3, 7), (0, 2, 4)],
        mistakes=BUFFER_MISTAKES,
    ),
    Exercise(
        number="8.4",
        title="weights under a mask",
        section="Minus infinity",
        reference=masked_weights,
        cases=weights_cases,
        mistakes=WEIGHTS_MISTAKES,
        atol=1e-9,
        invariants=[
            Invariant(
                "what is hidden gets no weight",
                _hides,
                "Where the mask is False the weight must be exactly zero.",
            ),
            Invariant(
                "rows sum to one, or to zero if they are empty",
                _rows_sum,
                "The weights of a query are shares of one, unless there is nothing to share.",
            ),
        ],
    ),
    Exercise(
        number="8.5",
        title="a test for a decoder's weights",
        section="Both masks at once",
        reference=masks_right,
        cases=[(name,) for name in ALL_WEIGHTS],
        mistakes=MASKS_TEST_MISTAKES,
        probe=run_masks_test,
        together=spoken,
        invariants=Family(
            lambda *case: _kind_of_test(*case) or WEIGHTS_JUDGED(*case), WEIGHTS_RULES
        ),
    ),
    Exercise(
        number="8.6",
        title="predict, then try: which test finds it",
        section="The wrong mask, and the wrong memory",
        reference=[test for test, _ in FOUND.values()],
        mistakes=mistakes(*_found_mistakes()),
        canonical=_test_names,
    ),
    Exercise(
        number="8.7",
        title="masked multi-head attention, from an empty file",
        section="The whole in six lines",
        reference=MaskedMultiHeadAttention,
        cases=module_cases,
        mistakes=MODULE_MISTAKES,
        invariants=[
            Invariant(
                "a query that sees nothing gets zeros",
                _blind,
                "Where every key is hidden, the row before w_o is zero, and so it is after it.",
            )
        ],
        probe=run_module,
    ),
    Exercise(
        number="8.8",
        title="predict, then try: who feels the order",
        section="What a mask does not say",
        reference=[moves for moves, _ in ORDERS.values()],
        mistakes=mistakes(*_order_mistakes()),
        canonical=yes_or_no,
    ),
    Exercise(
        number="8.9",
        title="find the mistakes",
        section="Both masks at once",
        reference=decoder_weights,
        cases=decoder_cases,
        mistakes=DECODER_MISTAKES,
    ),
    Exercise(
        number="8.10",
        title="derive: how many paddings drown a sentence",
        section="Padding",
        reference=paddings_for,
        cases=PADDING_NUMBERS,
        mistakes=PADDING_NUMBER_MISTAKES,
    ),
    Exercise(
        number="8.11",
        title="design: a mask that copies",
        section="Teacher forcing, and the shift",
        reference=copying_mask,
        cases=[(3,), (1,), (5,)],
        mistakes=COPY_MISTAKES,
        probe=what_is_written,
        invariants=Family(_beside_the_words),
    ),
]
