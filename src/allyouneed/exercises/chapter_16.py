"""The exercises of chapter 16, one machine, three families: references, cases, mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .compare import same
from .core import Case, Exercise, Family, Invariant, mistakes
from .pairs import combined
from .suspects import rules, said_closely, spoken

# 16.1 perplexity per word


def word_perplexity(bits: float, size: int, words: int) -> float:
    return 2 ** (bits * size / words)


PERPLEXITY_MISTAKES = mistakes(
    ("as if bits were nats, and bytes and words in each other's place",
     lambda bits, size, words: math.exp(bits * words / size),
     "Bits come from the logarithm to the base 2: take a power of 2. And the total is bits times "
     "the *size*, shared among the words."),
    ("a power of 10", lambda bits, size, words: 10 ** (bits * size / words),
     "Bits come from the logarithm to the base 2: take a power of 2."),
    ("per byte", lambda bits, size, words: 2**bits,
     "That is the perplexity per byte. The total, `bits * size`, is to be shared among the words."),
    ("bytes and words in each other's place", lambda bits, size, words: 2 ** (bits * words / size),
     "The total is bits times the *size*, and it is shared among the *words*. A word has more than "
     "one byte, so a word needs more bits than a byte."),
    ("the perplexity multiplied", lambda bits, size, words: 2**bits * size / words,
     "Bits add up, perplexities do not: the ratio belongs in the exponent."),
    ("bits per word, without the power", lambda bits, size, words: bits * size / words,
     "That is the mean number of bits for a word. Perplexity is 2 to the power of it."),
    ("nats per word, without the exponential",
     lambda bits, size, words: bits * size / words * math.log(2),
     "That is the mean number of nats for a word. Perplexity is the exponential of it."),
    ("as if bits were nats", lambda bits, size, words: math.exp(bits * size / words),
     "Bits come from the logarithm to the base 2: take a power of 2, or turn bits into nats first "
     "(times log 2)."),
    ("turned into nats, and then a power of 2",
     lambda bits, size, words: 2 ** (bits * size / words * math.log(2)),
     "Either a power of 2 of the bits, or the exponential of the nats, not a power of 2 of nats."),
    ("divided by log 2", lambda bits, size, words: math.exp(bits * size / words / math.log(2)),
     "A bit is log 2 = 0.69 nats: multiply by it."),
    ("of the whole text", lambda bits, size, words: 2.0 ** min(bits * size, 1000),
     "That is one over the probability of the whole text. Divide the total by the number of words "
     "before taking the power."),
    ("the total taken for the mean", lambda bits, size, words: 2 ** (bits / words),
     "`bits` is the mean per byte, not the total. The total is bits times bytes."),
    ("divided after the power", lambda bits, size, words: 2.0 ** min(bits * size, 1000) / words,
     "The total is shared among the words while it is in bits, inside of the power."),
    ("eight bits to a byte", lambda bits, size, words: 2.0 ** min(8 * bits * size / words, 1000),
     "That a byte is stored in eight bits has nothing to do with it: `bits` is what the model "
     "needs for one byte."),
    ("an eighth of the bits", lambda bits, size, words: 2 ** (bits * size / words / 8),
     "That a byte is stored in eight bits has nothing to do with it: `bits` is what the model "
     "needs for one byte."),
    ("the bytes of a word rounded down", lambda bits, size, words: 2 ** (bits * (size // words)),
     "`//` drops what is behind the point, but a word has 5.5 bytes, say: `/`."),
    ("the logarithm in place of the power",
     lambda bits, size, words: math.log2(bits * size / words),
     "Bits are logarithms already: the perplexity is 2 to their power."),
    ("the bits of a word rounded down", lambda bits, size, words: 2 ** (bits * size // words),
     "`//` drops what is behind the point, but a word has 4.95 bits, say: `/`."),
    ("the spaces left out", lambda bits, size, words: 2 ** (bits * (size - words) / words),
     "`size` is the number of all bytes, and each of them is paid for, spaces too."),
    ("the spaces counted once more", lambda bits, size, words: 2 ** (bits * (size + words) / words),
     "`size` is the number of all bytes, those of the spaces among them."),
    ("per byte, and as if bits were nats", lambda bits, size, words: math.exp(bits),
     "Bits are powers of 2, and asked for is the perplexity per word: a word has size / words "
     "bytes."),
    ("the base and the exponent exchanged", lambda bits, size, words: (bits * size / words) ** 2,
     "Bits are exponents of 2: it is 2 to their power, not their square."),
    ("2 times in place of 2 to the power", lambda bits, size, words: 2 * bits * size / words,
     "Bits are exponents of 2: a word of three bits has a perplexity of 2 * 2 * 2."),
    ("the exponent turned over", lambda bits, size, words: 2 ** (words / (bits * size)),
     "The total, bits times size, is shared among the words: it is divided by them."),
    ("the exponent turned over, in nats",
     lambda bits, size, words: math.exp(words / (bits * size * math.log(2))),
     "The total, bits times size, is shared among the words: it is divided by them."),
    ("1, or nearly", lambda bits, size, words: 2 ** (bits / size / words),
     "The exponent is nearly 0. The total is bits *times* the size, and it is shared among the "
     "words."),
    ("beyond every float", lambda bits, size, words: math.inf,
     "In the exponent stand the bits of the whole text, or more. Divide them by the words before "
     "the power is taken."),
    ("the bits left out", lambda bits, size, words: 2 ** (size / words),
     "A word has size / words bytes, and each of them takes `bits` bits."),
    ("the bits left out, as a power of e", lambda bits, size, words: math.exp(size / words),
     "A word has size / words bytes, and each of them takes `bits` bits."),
    ("the logarithm to the base 10",
     lambda bits, size, words: math.exp(bits * math.log10(2) * size / words),
     "A bit is log 2 nats with the natural logarithm, to which `exp` belongs."),
)  # fmt: skip


# 16.2 a prefix mask for a batch


def prefix_masks(prefix: Tensor, length: int) -> Tensor:
    place = torch.arange(length)
    return (place < prefix[:, None])[:, None, :] | (place[None, :] <= place[:, None])


def prefix_cases() -> list[tuple]:
    return [
        (torch.tensor([2, 5, 0]), 5),
        (torch.tensor([3]), 6),
        (torch.tensor([4, 1]), 4),
    ]


def _causal(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def _source(prefix: Tensor, length: int) -> Tensor:
    return torch.arange(length) < prefix[:, None]


def _zeros_and_ones(mask: Tensor) -> Tensor:
    """A mask of any dtype as a boolean one; what is to be added to scores stays as it is."""
    mask = torch.as_tensor(mask)
    return mask if mask.is_floating_point() else mask.bool()


def _prefix(
    longer: int = 0,
    queries: bool = False,
    seen: Callable[[int], Tensor] = _causal,
    out: Callable[[Tensor], Tensor] = lambda mask: mask,
) -> Callable[[Tensor, int], Tensor]:
    """The mask, right by default; each argument makes one mistake."""

    def mask(prefix: Tensor, length: int) -> Tensor:
        source = _source(prefix + longer, length)
        return out((source[:, :, None] if queries else source[:, None, :]) | seen(length))

    return mask


PREFIX_SLIPS = [
    ("a source one token too long", {"longer": 1}, "Positions 0 to prefix - 1 are the source."),
    ("a source one token too short", {"longer": -1}, "Positions 0 to prefix - 1 are the source."),
    ("queries in place of keys", {"queries": True}, "Open are the *columns* of the source."),
    ("without the query itself", {"seen": lambda n: _causal(n).tril(-1)},
     "A position may attend to itself."),
    ("the next position is seen", {"seen": lambda n: _causal(n + 1)[1:, :-1]},
     "Up to its own position, and no further."),
    ("anti-causal", {"seen": lambda n: _causal(n).T}, "A query may look at keys to its left."),
    ("True = hidden", {"out": lambda mask: ~mask}, "In this book True means may attend."),
    ("queries and keys exchanged", {"out": lambda mask: mask.mT}, "Rows are queries."),
]  # fmt: skip


PREFIX_KNOWN = list(
    combinations(("queries in place of keys", "anti-causal", "queries and keys exchanged"), 2)
)


PREFIX_MISTAKES = mistakes(
    *combined(_prefix, PREFIX_SLIPS, PREFIX_KNOWN),
    ("a source one token too long", _prefix(longer=1),
     "The source are the positions 0 to prefix - 1: `place < prefix`, without the `=`."),
    ("a source one token too short", _prefix(longer=-1),
     "The source are the positions 0 to prefix - 1: `place < prefix`."),
    ("one of the two conditions, and not both",
     lambda prefix, length: _source(prefix, length)[:, None, :] ^ _causal(length),
     "Where both hold the key may be seen as well: join them with `|`, not with `^` or `!=`."),
    ("the mask of the first row alone", lambda prefix, length: prefix_masks(prefix, length)[0],
     "Each row of the batch has a mask of its own: (B, length, length), also where B is 1."),
    ("queries in place of keys",
     lambda prefix, length: _source(prefix, length)[:, :, None] | _causal(length),
     "Open are the *columns* of the source, its keys, for every query. As it is, the queries of "
     "the source may look at everything, the target too."),
    ("the source sees itself only",
     lambda prefix, length: (
         _source(prefix, length)[:, :, None] & _source(prefix, length)[:, None, :]
         | (_causal(length) & ~_source(prefix, length)[:, None, :])
     ),
     "A target token, too, may attend to the whole source: without it there would be nothing to "
     "translate."),
    ("both conditions at once",
     lambda prefix, length: _source(prefix, length)[:, None, :] & _causal(length),
     "It is enough that one of the conditions holds: the key stands in the source, *or* it does "
     "not stand behind the query."),
    ("without the query itself",
     lambda prefix, length: _source(prefix, length)[:, None, :] | _causal(length).tril(-1),
     "A position may attend to those *up to* its own, itself included."),
    ("queries and keys exchanged",
     lambda prefix, length: prefix_masks(prefix, length).transpose(1, 2),
     "Rows are queries and columns keys: entry [b, t, s] says whether position t may attend to "
     "position s."),
    ("numbers to be added to scores",
     lambda prefix, length: torch.zeros(len(prefix), length, length).masked_fill(
         ~prefix_masks(prefix, length), -math.inf
     ),
     "Zeros and minus infinities are what other code adds to scores. Asked for is a boolean mask."),
    ("the next position is seen",
     lambda prefix, length: (
         _source(prefix, length)[:, None, :]
         | torch.ones(length, length, dtype=torch.bool).tril(1)
     ),
     "Up to its own position: the one behind the query is what it shall predict."),
    ("True = hidden", lambda prefix, length: ~prefix_masks(prefix, length),
     "In this book True means may attend."),
    ("everything allowed",
     lambda prefix, length: torch.ones(len(prefix), length, length, dtype=torch.bool),
     "Behind the source a position may see itself and what stands before it, and not what comes."),
    ("anti-causal", lambda prefix, length: _source(prefix, length)[:, None, :] | _causal(length).T,
     "Rows are queries and columns keys: a query may look at keys to its left, on and below the "
     "diagonal."),
    ("only the source",
     lambda prefix, length: _source(prefix, length)[:, None, :].expand(-1, length, -1),
     "The target may also attend to its own beginning."),
    ("causal in the source, too",
     lambda prefix, length: _causal(length).expand(len(prefix), -1, -1),
     "Within the source every position sees every other, those behind it as well."),
    ("the longest prefix for all rows",
     lambda prefix, length: prefix_masks(prefix.max().expand(len(prefix)), length),
     "Each row has a prefix of its own."),
    ("where the source is, without queries",
     lambda prefix, length: _source(prefix, length),
     "A mask has a row for each query: (B, length, length), and a query also sees its own past."),
    ("nothing hidden where there is a source",
     lambda prefix, length: (prefix > 0)[:, None, None] | _causal(length),
     "The source is open to all, the target behind it is not: only the columns up to prefix - 1."),
    ("one mask, that of the longest prefix",
     lambda prefix, length: prefix_masks(prefix.max()[None], length)[0],
     "Each row has a prefix and a mask of its own: (B, length, length)."),
    ("the diagonal moved by the prefix",
     lambda prefix, length: torch.stack([
         torch.ones(length, length).tril(int(p)).bool() for p in prefix
     ]),
     "With `tril(prefix)` every query sees so many keys *behind itself*. The source is the same "
     "columns for all queries, the first `prefix`."),
    ("the diagonal moved by the prefix less one",
     lambda prefix, length: torch.stack([
         torch.ones(length, length).tril(int(p) - 1).bool() for p in prefix
     ]),
     "That lets every query see some keys behind itself, the targets too. The source is the same "
     "columns for all queries, the first `prefix`."),
    ("the source at the end of the row",
     lambda prefix, length: (
         (torch.arange(length) >= length - prefix[:, None])[:, None, :] | _causal(length)
     ),
     "The source is the *beginning* of the row: positions 0 to prefix - 1."),
    ("an axis for the heads",
     lambda prefix, length: prefix_masks(prefix, length)[:, None],
     "Asked for is (B, length, length). The axis of the heads comes in when the mask is used."),
    ("the target's keys open in place of the source's",
     lambda prefix, length: _causal(length) | ~_source(prefix, length),
     "Open for every query are the *first* `prefix` keys, those of the source."),
    ("the source taken for the rest of the row",
     lambda prefix, length: prefix_masks(length - prefix, length),
     "`prefix` says how many tokens are the source, those at the beginning."),
    ("the keys behind the place `prefix` open in place of those before it",
     lambda prefix, length: (
         (torch.arange(length) > prefix[:, None])[:, None, :] | _causal(length)
     ),
     "The source are the places *below* `prefix`: `<`."),
    ("each key compared with itself",
     lambda prefix, length: torch.ones(len(prefix), 1, length, dtype=torch.bool),
     "The places of the keys are compared with those of the queries, which have an axis of their "
     "own: `[:, None]`. A place is never behind itself."),
    ("the masks of all rows in one, below each other",
     lambda prefix, length: prefix_masks(prefix, length).flatten(0, 1),
     "Each row of the batch has a mask of its own: (B, length, length)."),
    ("the source hidden",
     lambda prefix, length: _causal(length) & ~_source(prefix, length)[:, None, :],
     "The source is open to every query: True means may attend."),
    ("causal, and one mask for the whole batch", lambda prefix, length: _causal(length)[None],
     "Each row has a mask of its own, and in it the columns of its source are open."),
    ("from the last key that may be seen on",
     lambda prefix, length: (
         torch.arange(length) >= torch.maximum(torch.arange(length), prefix[:, None] - 1)[..., None]
     ),
     "Keys *up to* that one may be seen, not those from it on."),
    *((f"of the target only {words} seen", _prefix(seen=seen),
       "Behind the source a position may attend to all positions up to its own: to itself, and to "
       "every target before it.")
      for words, seen in (
          ("the position itself", lambda n: torch.eye(n).bool()),
          ("the position itself and the one before", lambda n: _causal(n) & ~_causal(n).tril(-2)),
          ("the position before", lambda n: torch.eye(n).bool().roll(-1, 1).tril(-1)),
      )),
    ("a source two tokens too long", _prefix(longer=2),
     "`prefix` tokens belong to the source: positions 0 to prefix - 1."),
)  # fmt: skip


# 16.3 the loss of a GPT


def gpt_loss(logits: Tensor, tokens: Tensor, lengths: Tensor) -> Tensor:
    real = torch.arange(1, tokens.shape[1]) < lengths[:, None]
    return F.cross_entropy(logits[:, :-1][real], tokens[:, 1:][real])


def loss_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(163)
    cases = []
    for b, t, v, lengths in ((2, 5, 4, (5, 3)), (3, 6, 5, (2, 6, 4)), (1, 4, 3, (4,))):
        tokens = torch.randint(1, v, (b, t), generator=draw)
        if b == 3:
            tokens[1, 2:4] = 0  # in some vocabularies id 0 is a word
        lengths = torch.tensor(lengths)
        tokens = torch.where(torch.arange(t) < lengths[:, None], tokens, 0)
        cases.append((2 * torch.randn(b, t, v, generator=draw), tokens, lengths))
    return cases


def _each(logits: Tensor, tokens: Tensor) -> Tensor:
    """The loss of each token but the first, (B, T - 1)."""
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), tokens[:, 1:], reduction="none")


def _here(logits: Tensor, tokens: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), tokens, reduction="none")


def _real(tokens: Tensor, lengths: Tensor, start: int = 1) -> Tensor:
    return torch.arange(start, tokens.shape[1]) < lengths[:, None]


LOSS_MISTAKES = mistakes(
    ("softmax over the positions that are asked",
     lambda logits, tokens, lengths: (
         -logits[:, :-1].log_softmax(1).gather(-1, tokens[:, 1:, None])[..., 0]
         [_real(tokens, lengths)].mean()
     ),
     "At each position the probabilities of all V tokens sum to one: softmax runs over the last "
     "axis."),
    ("rolled, and each row's last token asked for what comes after it",
     lambda logits, tokens, lengths: (
         _here(logits, tokens.roll(-1, 1))[_real(tokens, lengths, 0)].mean()
     ),
     "Behind the last real token stands padding, or, after `roll`, the first token: nobody asks "
     "for it. Row b counts lengths[b] - 1 tokens."),
    ("padding in the sum, and not in the count",
     lambda logits, tokens, lengths: _each(logits, tokens).sum() / (lengths - 1).sum(),
     "The number is right. The sum has padding in it, which nobody wants to predict."),
    ("all rows put one behind the other",
     lambda logits, tokens, lengths: (
         F.cross_entropy(logits.flatten(0, 1)[:-1], tokens.flatten()[1:], reduction="none")
         [_real(tokens, lengths, 0).flatten()[1:]].mean()
     ),
     "So the first token of a row is asked of the row before. Shift first: `logits[:, :-1]` and "
     "`tokens[:, 1:]`."),
    ("one token taken off for all rows together",
     lambda logits, tokens, lengths: (
         _each(logits, tokens)[_real(tokens, lengths)].sum() / (lengths.sum() - 1)
     ),
     "The first token of *every* row is not predicted: row b counts lengths[b] - 1."),
    ("one mean for each row",
     lambda logits, tokens, lengths: (
         (_each(logits, tokens) * _real(tokens, lengths)).sum(1) / (lengths - 1)
     ),
     "One number is asked for, the mean over the tokens of all rows."),
    ("not shifted",
     lambda logits, tokens, lengths: _here(logits, tokens)[_real(tokens, lengths, 0)].mean(),
     "The logits at position t are about the token at t + 1. Unshifted, the model is asked for a "
     "token that it has already read."),
    ("not shifted, without the first token",
     lambda logits, tokens, lengths: _here(logits, tokens)[:, 1:][_real(tokens, lengths)].mean(),
     "To leave out the first token is not to shift: the logits at t are about the token at t + 1."),
    ("shifted the other way",
     lambda logits, tokens, lengths: F.cross_entropy(
         logits[:, 1:][_real(tokens, lengths)], tokens[:, :-1][_real(tokens, lengths)]
     ),
     "That asks each position for the token before it, which it has read. Logits at t go with the "
     "token at t + 1."),
    ("padding counted", lambda logits, tokens, lengths: _each(logits, tokens).mean(),
     "Behind the end of a row stands padding, which nobody wants to predict: count the tokens at "
     "positions below the length only."),
    ("padding set to zero and counted in the mean",
     lambda logits, tokens, lengths: (_each(logits, tokens) * _real(tokens, lengths)).mean(),
     "A loss of zero for padding still counts in the mean. Divide by the number of real tokens."),
    ("every 0 taken for padding",
     lambda logits, tokens, lengths: F.cross_entropy(
         logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0
     ),
     "Id 0 need not be padding: in GPT-2's vocabulary it is an exclamation mark. `lengths` says "
     "which tokens are real."),
    ("not shifted, and every 0 taken for padding",
     lambda logits, tokens, lengths: F.cross_entropy(
         logits.flatten(0, 1), tokens.flatten(), ignore_index=0
     ),
     "The logits at position t are about the token at t + 1. And id 0 need not be padding: "
     "`lengths` says which tokens are real."),
    ("divided by the number of rows",
     lambda logits, tokens, lengths: (
         _each(logits, tokens)[_real(tokens, lengths)].sum() / len(tokens)
     ),
     "Asked for is the mean over tokens, not over rows."),
    ("divided by all entries of tokens",
     lambda logits, tokens, lengths: (
         _each(logits, tokens)[_real(tokens, lengths)].sum() / tokens.numel()
     ),
     "Padding and first tokens are not predicted: row b counts lengths[b] - 1 tokens."),
    ("flattened before it was shifted",
     lambda logits, tokens, lengths: F.cross_entropy(
         logits.flatten(0, 1)[:-1], tokens.flatten()[1:]
     ),
     "Flattened first, the last logits of a row are asked for the first token of the next. And "
     "padding is counted."),
    ("softmax twice", lambda logits, tokens, lengths: gpt_loss(logits.softmax(-1), tokens, lengths),
     "`cross_entropy` takes logits and does the softmax itself."),
    ("a mean of the rows' means",
     lambda logits, tokens, lengths: (
         (_each(logits, tokens) * _real(tokens, lengths)).sum(1) / (lengths - 1)
     ).mean(),
     "Every token counts alike, in whatever row it stands: one mean over all of them."),
    ("one token too many in each row",
     lambda logits, tokens, lengths: _each(logits, tokens)[_real(tokens, lengths + 1)].mean(),
     "Row b has lengths[b] tokens, and all but the first are predicted: lengths[b] - 1, at the "
     "positions 1 to lengths[b] - 1."),
    ("the last token of each row alone",
     lambda logits, tokens, lengths: _each(logits, tokens)[
         _real(tokens, lengths) & ~_real(tokens, lengths - 1)
     ].mean(),
     "Every real token but the first is predicted, each from the position before it."),
    ("the last token of each row left out",
     lambda logits, tokens, lengths: (
         (_each(logits, tokens) * _real(tokens, lengths - 1)).sum()
         / _real(tokens, lengths - 1).sum()
     ),
     "The last real token is predicted as well, from the position before it."),
    ("the sum", lambda logits, tokens, lengths: _each(logits, tokens)[_real(tokens, lengths)].sum(),
     "Asked for is the mean over the predicted tokens."),
    ("divided by all real tokens, the first ones too",
     lambda logits, tokens, lengths: (
         _each(logits, tokens)[_real(tokens, lengths)].sum() / lengths.sum()
     ),
     "Nothing predicts the first token of a row. Row b counts lengths[b] - 1 tokens."),
    ("logits in place of log-probabilities",
     lambda logits, tokens, lengths: (
         -logits[:, :-1].gather(2, tokens[:, 1:, None])[..., 0][_real(tokens, lengths)].mean()
     ),
     "Logits are not yet log-probabilities: `log_softmax` comes first."),
    ("probabilities in place of their logarithms",
     lambda logits, tokens, lengths: (
         -logits[:, :-1]
         .softmax(-1)
         .gather(2, tokens[:, 1:, None])[..., 0][_real(tokens, lengths)]
         .mean()
     ),
     "The loss is the mean of minus the *logarithm* of the probability."),
    ("softmax over the positions",
     lambda logits, tokens, lengths: (
         -logits.log_softmax(1)[:, :-1]
         .gather(2, tokens[:, 1:, None])[..., 0][_real(tokens, lengths)]
         .mean()
     ),
     "At each position the probabilities of all V tokens sum to one: softmax runs over the last "
     "axis."),
    ("shifted by two",
     lambda logits, tokens, lengths: F.cross_entropy(
         logits[:, :-2][_real(tokens, lengths, 2)], tokens[:, 2:][_real(tokens, lengths, 2)]
     ),
     "The logits at position t are about the very next token, the one at t + 1."),
    ("shifted the other way, and without the last place",
     lambda logits, tokens, lengths: (
         F.cross_entropy(logits[:, 1:].transpose(1, 2), tokens[:, :-1], reduction="none")
         [_real(tokens, lengths, 0)[:, :-1]].mean()
     ),
     "The logits at position t are about the token at t + 1, not about the one at t - 1."),
    ("the losses of all places, not averaged",
     lambda logits, tokens, lengths: _each(logits, tokens) * _real(tokens, lengths),
     "Asked for is one number: the mean over the tokens that are predicted."),
    ("each row's mean weighed by its length",
     lambda logits, tokens, lengths: (
         (torch.stack([gpt_loss(*(x[b : b + 1] for x in (logits, tokens, lengths)))
                       for b in range(len(tokens))]) * lengths).sum() / lengths.sum()
     ),
     "A row of `lengths[b]` tokens has one prediction less: its mean weighs `lengths[b]` - 1."),
    ("not shifted, and padding set to zero and counted in the mean",
     lambda logits, tokens, lengths: (
         _here(logits, tokens) * (torch.arange(tokens.shape[1]) < lengths[:, None])
     ).mean(),
     "The logits at position t are about the token at t + 1; and a zero counts in a mean like any "
     "other number."),
    ("divided by one more than the number of tokens",
     lambda logits, tokens, lengths: (
         _each(logits, tokens)[_real(tokens, lengths)].sum() / ((lengths - 1).sum() + 1)
     ),
     "Divide by the number of the predicted tokens. Does a count begin at 1?"),
    ("the sum times the number of tokens",
     lambda logits, tokens, lengths: (
         _each(logits, tokens)[_real(tokens, lengths)].sum() * (lengths - 1).sum()
     ),
     "A mean is the sum *divided* by the number."),
    ("the first predicted token of each row alone",
     lambda logits, tokens, lengths: _each(logits, tokens)[:, 0].mean(),
     "Every real token but the first is predicted, each from the position before it."),
    ("the first predicted token of each row left out",
     lambda logits, tokens, lengths: (
         _each(logits, tokens)[:, 1:][_real(tokens, lengths, 2)].mean()
     ),
     "Only the very first token of a row has nothing before it. The second one is predicted."),
    ("each asked for the token before it, and the first for the last",
     lambda logits, tokens, lengths: (
         _here(logits, tokens.roll(1, 1))[:, :-1][_real(tokens, lengths)].mean()
     ),
     "The logits at position t are about the token at t + 1. And position -1 is the last one."),
    ("one token too many in the sum, and not in the count",
     lambda logits, tokens, lengths: (
         _each(logits, tokens)[_real(tokens, lengths + 1)].sum() / (lengths - 1).sum()
     ),
     "The number is right. The sum has the first token of the padding in it: `<`."),
    ("softmax over the batch",
     lambda logits, tokens, lengths: (
         -logits.log_softmax(0)[:, :-1]
         .gather(2, tokens[:, 1:, None])[..., 0][_real(tokens, lengths)]
         .mean()
     ),
     "At each position the probabilities of all V tokens sum to one: softmax runs over the last "
     "axis."),
    ("the sum divided by the count of each row",
     lambda logits, tokens, lengths: (
         _each(logits, tokens)[_real(tokens, lengths)].sum() / (lengths - 1)
     ),
     "One number is asked for: divide by the count of all rows together."),
    ("a mean, and divided by the count once more",
     lambda logits, tokens, lengths: (
         (_each(logits, tokens) * _real(tokens, lengths)).mean() / (lengths - 1).sum()
     ),
     "A mean has been divided already: here the sum is to be divided by the count."),
    ("divided by the mean of the weights",
     lambda logits, tokens, lengths: (
         (_each(logits, tokens) * _real(tokens, lengths)).sum()
         / _real(tokens, lengths).float().mean()
     ),
     "Divide by how many tokens count, the *sum* of the weights."),
    ("tokens looked up among the positions",
     lambda logits, tokens, lengths: (
         -logits.log_softmax(-1)[:, :-1]
         .gather(1, tokens[:, 1:, None])[..., 0][_real(tokens, lengths)]
         .mean()
     ),
     "A token is a place on the last axis, that of the vocabulary: `gather(2, ...)`."),
    ("each row's mean weighed by two less than its length",
     lambda logits, tokens, lengths: (
         (torch.stack([gpt_loss(*(x[b : b + 1] for x in (logits, tokens, lengths)))
                       for b in range(len(tokens))]) * (lengths - 2)).sum()
         / (lengths - 1).sum()
     ),
     "A row of `lengths[b]` tokens has one prediction less: its mean weighs `lengths[b]` - 1."),
    ("each row's mean divided by its count",
     lambda logits, tokens, lengths: (
         (torch.stack([gpt_loss(*(x[b : b + 1] for x in (logits, tokens, lengths)))
                       for b in range(len(tokens))]) / (lengths - 1)).sum()
         / (lengths - 1).sum()
     ),
     "A row's mean *times* its count is its sum."),
)  # fmt: skip


# 16.4 one head out of a packed matrix


def key_matrix(c_attn: Tensor, n_heads: int, head: int) -> Tensor:
    d_model = len(c_attn)
    d_k = d_model // n_heads
    return c_attn[:, d_model + head * d_k : d_model + (head + 1) * d_k]


def packed_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(164)
    return [
        (torch.randn(d, 3 * d, generator=draw), n, head)
        for d, n, head in (
            (4, 2, 1), (6, 3, 1), (8, 2, 0), (6, 2, 1), (12, 3, 2), (2, 2, 0), (3, 1, 0),
        )
    ]  # fmt: skip


def _columns(start: Callable[[int, int, int], int]) -> Callable[[Tensor, int, int], Tensor]:
    def answer(c_attn: Tensor, n_heads: int, head: int) -> Tensor:
        d_model = len(c_attn)
        d_k = d_model // n_heads
        first = start(d_model, d_k, head)
        return c_attn[:, first : first + d_k]

    return answer


def _packed(
    kind: int = 1,
    pick: Callable[[Tensor, int, int], Tensor] = lambda x, n, head: x.chunk(n, 1)[head],
    turned: bool = False,
) -> Callable[[Tensor, int, int], Tensor]:
    """The matrix, right by default; each argument makes one mistake."""

    def answer(c_attn: Tensor, n_heads: int, head: int) -> Tensor:
        found = pick(c_attn.chunk(3, 1)[kind], n_heads, head)
        return found.T if turned else found

    return answer


PACKED_SLIPS = [
    ("queries", {"kind": 0}, "Keys begin at column d_model."),
    ("values", {"kind": 2}, "The order is queries, keys, values."),
    ("every n-th column", {"pick": lambda x, n, head: x[:, head::n]},
     "A head's columns stand side by side."),
    ("rows in place of columns", {"pick": lambda x, n, head: x.chunk(n, 0)[head]},
     "A head is a group of columns."),
    ("all heads", {"pick": lambda x, n, head: x}, "One head has d_model / n_heads columns."),
    ("heads counted from 1", {"pick": lambda x, n, head: x.chunk(n, 1)[head - 1]},
     "Heads are counted from 0."),
    ("always the first head", {"pick": lambda x, n, head: x.chunk(n, 1)[0]},
     "Head i begins i times d_k columns further on."),
    ("transposed", {"turned": True}, "The answer multiplies from the right, as `c_attn` does."),
]  # fmt: skip


PACKED_MISTAKES = mistakes(
    ("all columns cut among the heads first, and the head's queries taken",
     lambda c_attn, n_heads, head: (
         c_attn.chunk(n_heads, 1)[head][:, : len(c_attn) // n_heads]
     ),
     "First come all queries, then all keys, then all values; only within these the heads follow "
     "one after the other."),
    *combined(_packed, PACKED_SLIPS),
    ("the head's queries", _columns(lambda d_model, d_k, head: head * d_k),
     "The first d_model columns make queries. Keys begin at column d_model."),
    ("the head's values", _columns(lambda d_model, d_k, head: 2 * d_model + head * d_k),
     "The order is queries, keys, values: the last third makes values."),
    ("as if each head had its queries, keys and values together",
     _columns(lambda d_model, d_k, head: (3 * head + 1) * d_k),
     "All queries of all heads come first, then all keys. Within the keys, the heads stand one "
     "behind the other. (Other models do pack head by head.)"),
    ("transposed", lambda c_attn, n_heads, head: key_matrix(c_attn, n_heads, head).T,
     "`c_attn` multiplies from the right, and so shall the answer: shape (d_model, d_k)."),
    ("rows in place of columns",
     lambda c_attn, n_heads, head: key_matrix(c_attn.T.reshape_as(c_attn), n_heads, head),
     "c_attn has shape (d_model, 3 d_model), and outputs are its columns. Transposing and "
     "reshaping mixes inputs with outputs."),
    ("heads counted from 1", _columns(lambda d_model, d_k, head: d_model + (head - 1) * d_k),
     "Heads are counted from 0: head 0 has the first d_k columns of the keys."),
    ("from column number head on", _columns(lambda d_model, d_k, head: d_model + head),
     "Each head takes d_model / n_heads columns, so head i begins i times as many further on."),
    ("reshaped to three matrices",
     lambda c_attn, n_heads, head: c_attn.reshape(3, len(c_attn), -1)[1].chunk(n_heads, 1)[head],
     "Queries, keys and values stand side by side. A `view` or `reshape` that begins with 3 puts "
     "the first third of the *rows* into the first matrix."),
    ("reshaped to heads",
     lambda c_attn, n_heads, head: c_attn.chunk(3, 1)[1].reshape(n_heads, len(c_attn), -1)[head],
     "The keys are found, but heads are *columns* of them. A `view` or `reshape` that begins with "
     "n_heads cuts rows."),
    ("rows of the keys",
     lambda c_attn, n_heads, head: c_attn.chunk(3, 1)[1].chunk(n_heads, 0)[head],
     "Rows are inputs, and each head reads all of them. A head is a group of columns."),
    ("every n-th column", lambda c_attn, n_heads, head: c_attn.chunk(3, 1)[1][:, head::n_heads],
     "A head's columns stand side by side. Taking every n-th one gives each head a piece of all of "
     "them."),
    ("always the first head", _columns(lambda d_model, d_k, head: d_model),
     "Head i begins i times d_k columns further on."),
    ("n_heads columns in place of d_k",
     lambda c_attn, n_heads, head: (
         lambda keys: keys[:, head * n_heads : (head + 1) * n_heads]
     )(c_attn.chunk(3, 1)[1]),
     "A head has d_model / n_heads columns. That is not the number of heads."),
    ("the last column left out",
     lambda c_attn, n_heads, head: key_matrix(c_attn, n_heads, head)[:, :-1],
     "A slice ends before its second number already: nothing is taken off."),
    ("one column too far",
     lambda c_attn, n_heads, head: key_matrix(c_attn.roll(-1, 1), n_heads, head),
     "Columns are counted from 0: keys begin at column d_model."),
    ("reshaped to queries, keys and values of heads",
     lambda c_attn, n_heads, head: c_attn.reshape(3, n_heads, -1, len(c_attn))[1, head].T,
     "That is right for a `nn.Linear`, whose outputs are rows. Here they are columns: a reshape "
     "that begins with 3 mixes them with the inputs."),
    ("n_heads columns in place of d_k, from the right one on",
     lambda c_attn, n_heads, head: (
         lambda first: c_attn[:, first : first + n_heads]
     )(len(c_attn) + head * (len(c_attn) // n_heads)),
     "A head has d_model / n_heads columns. That is not the number of heads."),
    ("as if queries, keys and values took turns, column by column",
     lambda c_attn, n_heads, head: c_attn.reshape(len(c_attn), -1, n_heads, 3)[:, :, head, 1],
     "A `view` that ends in 3 takes every third column. All queries come first, then all keys: "
     "the 3 is the outermost of the three."),
    ("three times as many columns",
     lambda c_attn, n_heads, head: (
         lambda d_model, wide: c_attn[:, d_model + head * wide : d_model + (head + 1) * wide]
     )(len(c_attn), 3 * len(c_attn) // n_heads),
     "Of the 3 d_model columns a third are keys, and a head has d_model / n_heads of these."),
    ("the second third of the rows",
     lambda c_attn, n_heads, head: c_attn[len(c_attn) // 3 : 2 * len(c_attn) // 3],
     "`c_attn` multiplies from the right: outputs are its columns, and all rows stay."),
    ("a block of three heads' width",
     lambda c_attn, n_heads, head: c_attn.chunk(n_heads, 1)[head],
     "All queries come first, then all keys: head by head lie only the columns of one kind."),
    ("every third column for the keys",
     lambda c_attn, n_heads, head: c_attn[:, 1::3].chunk(n_heads, 1)[head],
     "Queries, keys and values do not stand in turns: all d_model columns of the queries come "
     "first, then all of the keys."),
    ("the keys of all heads", lambda c_attn, n_heads, head: c_attn.chunk(3, 1)[1],
     "That is W^K of all heads side by side. One head has d_model / n_heads of these columns."),
    ("heads counted from the end",
     lambda c_attn, n_heads, head: c_attn.chunk(3, 1)[1].chunk(n_heads, 1)[n_heads - 1 - head],
     "Head 0 has the first columns of the keys, and the last head the last ones."),
    ("heads counted from 1, and the last one before the first",
     lambda c_attn, n_heads, head: c_attn.chunk(3, 1)[1].chunk(n_heads, 1)[head - 1],
     "Heads are counted from 0: head 0 has the first d_k columns of the keys."),
    ("the last axis of a view",
     lambda c_attn, n_heads, head: c_attn.chunk(3, 1)[1].unflatten(1, (n_heads, -1))[
         ..., head % (len(c_attn) // n_heads)
     ],
     "In (d_model, n_heads, d_k) the heads are the axis in the middle. The last one counts the "
     "entries of a key."),
    ("a square of d_k by d_k",
     lambda c_attn, n_heads, head: c_attn.chunk(3, 1)[1].chunk(n_heads, 1)[head].chunk(
         n_heads, 0
     )[head],
     "A head is narrow, and reads the *whole* input: all d_model rows stay."),
    ("divided by the root of d_k",
     lambda c_attn, n_heads, head: (
         key_matrix(c_attn, n_heads, head) / (len(c_attn) / n_heads) ** 0.5
     ),
     "The matrix itself is asked for. It is the scores that are divided, when they are made."),
    ("the matrices of all heads",
     lambda c_attn, n_heads, head: [key_matrix(c_attn, n_heads, i) for i in range(n_heads)],
     "Only head number `head` is asked for."),
    ("as if each head had its three together, and the values of them",
     lambda c_attn, n_heads, head: c_attn.chunk(n_heads, 1)[head].chunk(3, 1)[2],
     "All queries come first, then all keys, then all values; and asked for are the keys."),
    ("the whole of `c_attn`", lambda c_attn, n_heads, head: c_attn,
     "Asked for are d_model / n_heads of its columns: the keys of one head."),
    ("all heads up to this one",
     lambda c_attn, n_heads, head: c_attn.chunk(3, 1)[1][
         :, : (head + 1) * (len(c_attn) // n_heads)
     ],
     "Head i begins i times d_k columns further on."),
    ("from the head's queries to its keys",
     lambda c_attn, n_heads, head: c_attn[
         :, head * (len(c_attn) // n_heads) : len(c_attn) + (head + 1) * (len(c_attn) // n_heads)
     ],
     "Both the beginning and the end of the slice stand d_model columns further on."),
    ("the next head as well",
     lambda c_attn, n_heads, head: c_attn[
         :, len(c_attn) + head * (len(c_attn) // n_heads) :
     ][:, : 2 * (len(c_attn) // n_heads)],
     "A head has d_k columns: it ends at d_model + (head + 1) * d_k."),
    ("from column number head to the end of the head",
     lambda c_attn, n_heads, head: c_attn.chunk(3, 1)[1][
         :, head : (head + 1) * (len(c_attn) // n_heads)
     ],
     "Head i begins i times d_k columns further on."),
    ("every head ends where the first one does",
     lambda c_attn, n_heads, head: c_attn.chunk(3, 1)[1][
         :, head * (len(c_attn) // n_heads) : len(c_attn) // n_heads
     ],
     "Head i begins i times d_k columns further on, and so it ends."),
    ("a row of the keys", lambda c_attn, n_heads, head: c_attn.chunk(3, 1)[1][head],
     "The keys are found. A head is a group of their *columns*, d_model / n_heads of them."),
)  # fmt: skip


# 16.5 pseudo-log-likelihood


class _Toy:
    """A masked language model without weights to learn: every position hears all others."""

    def __init__(self, vocab_size: int, seed: int):
        draw = torch.Generator().manual_seed(seed)
        self.pairs = torch.randn(vocab_size, vocab_size, generator=draw)
        self.places = torch.randn(40, vocab_size, generator=draw)

    def __repr__(self) -> str:
        return f"<a masked language model of {len(self.pairs)} tokens>"

    def __call__(self, tokens: Tensor) -> Tensor:
        if tokens.ndim != 2:
            raise ValueError(f"tokens: expected shape (B, T), got {tuple(tokens.shape)}")
        T = tokens.shape[-1]
        heard = self.pairs[tokens]
        near = (torch.arange(T)[:, None] - torch.arange(T)).abs() + 1.0
        logits = (1 / near) @ heard + self.places[:T]
        return logits + 2 * F.one_hot(tokens, len(self.pairs))  # what is in view is known


def pseudo_log_likelihood(model: Callable, tokens: Tensor, mask_token: int) -> Tensor:
    t = torch.arange(len(tokens))
    covered = tokens.repeat(len(tokens), 1)
    covered[t, t] = mask_token
    return model(covered).log_softmax(-1)[t, t, tokens].sum()


def pseudo_cases() -> list[tuple]:
    return [
        (_Toy(7, 1), torch.tensor([3, 1, 0, 1, 5]), 6),
        (_Toy(9, 2), torch.tensor([2, 7, 1, 8, 2, 8]), 8),
        (_Toy(5, 3), torch.tensor([1, 3, 2]), 0),
        (_Toy(6, 4), torch.tensor([2]), 5),
    ]


def _covered(tokens: Tensor, where: Tensor, mask_token: int) -> Tensor:
    return tokens.repeat(len(tokens), 1).masked_fill(where, mask_token)


def _at(model: Callable, covered: Tensor, tokens: Tensor) -> Tensor:
    t = torch.arange(len(tokens))
    return model(covered).log_softmax(-1)[t, t, tokens]


def _square(tokens: Tensor) -> Tensor:
    return torch.ones(len(tokens), len(tokens), dtype=torch.bool)


def _pseudo(
    where: Callable[[Tensor], Tensor] = lambda tokens: torch.eye(len(tokens)).bool(),
    made: Callable[[Tensor], Tensor] = lambda logits: logits.log_softmax(-1),
    total: Callable[[Tensor], Tensor] = lambda x: x.sum(),
) -> Callable[[Callable, Tensor, int], Tensor]:
    """The pseudo-log-likelihood, right by default; each argument makes one mistake."""

    def answer(model: Callable, tokens: Tensor, mask_token: int) -> Tensor:
        t = torch.arange(len(tokens))
        covered = _covered(tokens, where(tokens), mask_token)
        return total(made(model(covered))[t, t, tokens])

    return answer


PSEUDO_SLIPS = [
    ("nothing covered", {"where": lambda tokens: ~_square(tokens)},
     "Cover each position before asking for it."),
    ("everything covered at once", {"where": _square}, "One position is covered at a time."),
    ("what was covered stays covered", {"where": lambda tokens: _square(tokens).tril()},
     "Start from the whole text every time."),
    ("the right side covered, too", {"where": lambda tokens: _square(tokens).triu()},
     "A masked model sees the tokens on the right as well."),
    ("logits in place of log-probabilities", {"made": lambda logits: logits},
     "`log_softmax` over the vocabulary comes first."),
    ("probabilities added up", {"made": lambda logits: logits.softmax(-1)},
     "It is the logarithms that are added."),
    ("softmax over the positions", {"made": lambda logits: logits.log_softmax(1)},
     "Softmax runs over the last axis."),
    ("the mean", {"total": lambda x: x.mean()}, "The log-probabilities are added up."),
    ("the loss", {"total": lambda x: -x.sum()}, "Asked for is a negative number."),
    ("the mean loss", {"total": lambda x: -x.mean()},
     "The log-probabilities are added up, a negative number."),
    ("the first token left out", {"total": lambda x: x[1:].sum()}, "Each position is covered."),
]  # fmt: skip


PSEUDO_MISTAKES = mistakes(
    ("all positions covered but the one asked for",
     lambda model, tokens, mask_token: _at(
         model,
         _covered(tokens, ~torch.eye(len(tokens), dtype=torch.bool), mask_token),
         tokens,
     ).sum(),
     "It is the other way round: the position asked for is covered, and all others are in view."),
    ("the mean, not the sum", _pseudo(total=lambda x: x.mean()),
     "Asked for is the sum over all positions: a longer text has a lower one."),
    ("the mean loss", _pseudo(total=lambda x: -x.mean()),
     "Asked for is the sum of log-probabilities: no mean, and a negative number."),
    *combined(_pseudo, PSEUDO_SLIPS),
    ("nothing covered",
     lambda model, tokens, mask_token: (
         model(tokens[None]).log_softmax(-1)[0, torch.arange(len(tokens)), tokens].sum()
     ),
     "A token that stands in view is no question. Cover each position before asking for it."),
    ("everything covered at once",
     lambda model, tokens, mask_token: _at(
         model, _covered(tokens, _square(tokens), mask_token), tokens
     ).sum(),
     "One position is covered at a time; all the others are in view."),
    ("the text itself overwritten, everywhere at once",
     lambda model, tokens, mask_token: _at(
         model, _covered(tokens, _square(tokens), mask_token), torch.full_like(tokens, mask_token)
     ).sum(),
     "`expand` makes rows that share the memory of the text: what is written into one is in all "
     "of them, and in the text. `repeat` makes copies."),
    ("the text itself overwritten",
     lambda model, tokens, mask_token: _at(
         model,
         _covered(tokens, _square(tokens).tril(), mask_token),
         torch.full_like(tokens, mask_token),
     ).sum(),
     "Cover a copy, `tokens.clone()`. Written into the text itself, the mask token stays there, "
     "and is what is looked up."),
    ("what was covered stays covered",
     lambda model, tokens, mask_token: _at(
         model, _covered(tokens, _square(tokens).tril(), mask_token), tokens
     ).sum(),
     "Each position is covered in turn, and uncovered again before the next: start from the whole "
     "text every time."),
    ("the right side covered, too",
     lambda model, tokens, mask_token: _at(
         model, _covered(tokens, _square(tokens).triu(), mask_token), tokens
     ).sum(),
     "That asks from the left only, like a GPT. A masked model sees the tokens on the right as "
     "well."),
    ("the first row of the batch for all positions",
     lambda model, tokens, mask_token: (
         model(_covered(tokens, torch.eye(len(tokens), dtype=torch.bool), mask_token))
         .log_softmax(-1)[0, torch.arange(len(tokens)), tokens].sum()
     ),
     "Position t is covered in row t of the batch, and its answer stands there: `[t, t, token]`."),
    ("softmax over the batch",
     _pseudo(made=lambda logits: logits.log_softmax(0)),
     "At each position the probabilities of all V tokens sum to one: softmax runs over the last "
     "axis."),
    ("the covered token taken out",
     lambda model, tokens, mask_token: sum(
         model(tokens[torch.arange(len(tokens)) != t][None])[0, min(t, len(tokens) - 2)]
         .log_softmax(-1)[tokens[t]]
         for t in range(len(tokens))
     ),
     "The position stays, with `mask_token` in it: the model is asked there."),
    ("the right side cut off",
     lambda model, tokens, mask_token: sum(
         model(torch.cat([tokens[:t], tokens.new_tensor([mask_token])])[None])[0, t]
         .log_softmax(-1)[tokens[t]]
         for t in range(len(tokens))
     ),
     "All other tokens are in view, those on the right as well: that is what a masked model is "
     "for."),
    ("all tokens of the vocabulary added up",
     lambda model, tokens, mask_token: (
         model(_covered(tokens, torch.eye(len(tokens), dtype=torch.bool), mask_token))
         .log_softmax(-1).diagonal().sum()
     ),
     "Of the log-probabilities at the covered position, only that of the covered token counts."),
    ("shifted, as for a GPT",
     lambda model, tokens, mask_token: _at(
         model, _covered(tokens, torch.eye(len(tokens), dtype=torch.bool), mask_token)[:-1],
         tokens[1:],
     ).sum(),
     "A masked model says at the covered position itself what it takes for the token there. "
     "Nothing is shifted."),
    ("the perplexity",
     lambda model, tokens, mask_token: (
         -pseudo_log_likelihood(model, tokens, mask_token) / len(tokens)
     ).exp(),
     "Asked for is the sum of log-probabilities itself, without mean, sign and exponential."),
    ("all positions counted each time",
     lambda model, tokens, mask_token: (
         model(_covered(tokens, torch.eye(len(tokens)).bool(), mask_token))
         .log_softmax(-1)
         .gather(2, tokens.repeat(len(tokens), 1)[..., None])
         .sum()
     ),
     "With position t covered, only the answer at position t counts. The others stand in view."),
    ("logits in place of log-probabilities",
     lambda model, tokens, mask_token: model(
         _covered(tokens, torch.eye(len(tokens)).bool(), mask_token)
     )[torch.arange(len(tokens)), torch.arange(len(tokens)), tokens].sum(),
     "`log_softmax` over the vocabulary comes before the token is looked up."),
    ("probabilities added up",
     lambda model, tokens, mask_token: (
         _at(model, _covered(tokens, torch.eye(len(tokens)).bool(), mask_token), tokens)
         .exp()
         .sum()
     ),
     "It is the logarithms that are added."),
    ("the probability of the mask token",
     lambda model, tokens, mask_token: _at(
         model,
         _covered(tokens, torch.eye(len(tokens)).bool(), mask_token),
         torch.full_like(tokens, mask_token),
     ).sum(),
     "Look up the token that stood there before it was covered."),
    ("the logits one position before the covered one",
     lambda model, tokens, mask_token: (
         model(_covered(tokens, torch.eye(len(tokens)).bool(), mask_token))
         .log_softmax(-1)[
             torch.arange(1, len(tokens)), torch.arange(len(tokens) - 1), tokens[1:]
         ]
         .sum()
     ),
     "A masked model answers at the covered position itself. The shift by one belongs to GPT."),
    ("answers of the position before",
     lambda model, tokens, mask_token: (
         model(_covered(tokens, torch.eye(len(tokens)).bool(), mask_token))
         .roll(1, 1)
         .log_softmax(-1)[torch.arange(len(tokens)), torch.arange(len(tokens)), tokens]
         .sum()
     ),
     "This model answers at the covered position itself. One place before is where a GPT says it."),
    ("softmax over the positions",
     lambda model, tokens, mask_token: (
         model(_covered(tokens, torch.eye(len(tokens)).bool(), mask_token))
         .log_softmax(1)[torch.arange(len(tokens)), torch.arange(len(tokens)), tokens]
         .sum()
     ),
     "At each position the probabilities of all V tokens sum to one: softmax runs over the last "
     "axis."),
    ("equal tokens covered together",
     lambda model, tokens, mask_token: _at(
         model, _covered(tokens, tokens[:, None] == tokens, mask_token), tokens
     ).sum(),
     "One *position* is covered at a time. If its token stands elsewhere, too, it stays in view "
     "there."),
    ("asked at the last position",
     lambda model, tokens, mask_token: (
         model(_covered(tokens, torch.eye(len(tokens)).bool(), mask_token))
         .log_softmax(-1)[torch.arange(len(tokens)), -1, tokens]
         .sum()
     ),
     "Row t of the batch is asked at position t, where its token is covered."),
    ("the likeliest token in place of the one that stood there",
     lambda model, tokens, mask_token: (
         model(_covered(tokens, torch.eye(len(tokens)).bool(), mask_token))
         .log_softmax(-1)[torch.arange(len(tokens)), torch.arange(len(tokens))]
         .amax(-1)
         .sum()
     ),
     "Look up the token that was covered, however likely the model finds it."),
    ("the last token left out",
     lambda model, tokens, mask_token: _at(
         model, _covered(tokens, torch.eye(len(tokens)).bool(), mask_token), tokens
     )[:-1].sum(),
     "Each position is covered once, the last one as well."),
    ("the first token left out",
     lambda model, tokens, mask_token: _at(
         model, _covered(tokens, torch.eye(len(tokens)).bool(), mask_token), tokens
     )[1:].sum(),
     "Each position is covered once, the first one as well: unlike a GPT, this model can say "
     "something about it."),
    ("both ends left out",
     lambda model, tokens, mask_token: _at(
         model, _covered(tokens, torch.eye(len(tokens)).bool(), mask_token), tokens
     )[1:-1].sum(),
     "Each position is covered once, the first and the last one as well."),
    ("the answer looked up one position too early",
     lambda model, tokens, mask_token: sum(
         model(_covered(tokens, torch.eye(len(tokens), dtype=torch.bool), mask_token))
         .log_softmax(-1)[i, max(i - 1, 0), tokens[i]] for i in range(len(tokens))
     ),
     "A masked model answers at the covered position itself; nothing is shifted."),
    ("the answer looked up at the first position",
     lambda model, tokens, mask_token: sum(
         model(_covered(tokens, torch.eye(len(tokens), dtype=torch.bool), mask_token))
         .log_softmax(-1)[i, 0, tokens[i]] for i in range(len(tokens))
     ),
     "A masked model answers at the covered position itself, another one in each row."),
    ("the last position alone", _pseudo(total=lambda x: x[-1]),
     "Often a `=` where `+=` is meant: the log-probabilities of all positions are added."),
    ("the first position alone", _pseudo(total=lambda x: x[0]),
     "Often a `return` inside the loop: the log-probabilities of all positions are added."),
    ("all positions and all tokens of the vocabulary added up",
     lambda model, tokens, mask_token: (
         model(_covered(tokens, torch.eye(len(tokens), dtype=torch.bool), mask_token))
         .log_softmax(-1)
         .sum()
     ),
     "Row t of the batch is asked at position t, and there for the token that was covered."),
)  # fmt: skip


# 16.6 predict: only the answer is hidden


def leaks(layers: int, length: int) -> list[int]:
    return list(range(length - 1)) if layers > 1 and length > 2 else []


LEAK_CASES = [
    *((1, 5), (2, 3), (2, 5), (3, 4), (1, 1), (2, 1)),
    *((2, 2), (5, 2), (6, 7), (1, 3), (4, 3)),
]


LEAK_MISTAKES = mistakes(
    ("as if nothing ever leaked", lambda layers, length: [],
     "In one layer nothing does. In the next, position t sees others, and they have seen the token "
     "at t + 1: they pass it on."),
    ("as if one layer were enough",
     lambda layers, length: list(range(length - 1)) if length > 2 else [],
     "What the others have seen is in their states only after a layer. In the first, each position "
     "reads the inputs themselves, and the one at t + 1 is hidden from t."),
    ("as with the full mask", lambda layers, length: list(range(length - 1)),
     "The token at t + 1 is hidden from t. It has to come by way of somebody else, which takes two "
     "layers and a third position."),
    ("as if nobody needed a third position",
     lambda layers, length: list(range(length - 1)) if layers > 1 else [],
     "Position t cannot tell itself what it has not seen, and t + 1 is hidden in every layer. With "
     "two tokens there is nobody else."),
    ("as if the last position found out as well",
     lambda layers, length: list(range(length)) if layers > 1 and length > 2 else [],
     "The last position is asked for a token that is not in the input: nobody has seen it."),
    ("as if only positions behind passed it on",
     lambda layers, length: list(range(length - 2)) if layers > 1 else [],
     "Positions *before* t may look ahead as well: from position t - 1 only the token at t is "
     "hidden, and it sees the one at t + 1."),
    ("as if only positions before passed it on",
     lambda layers, length: list(range(1, length - 1)) if layers > 1 else [],
     "Positions behind t + 1 have seen it, too, and t may look at them: position 0 finds out as "
     "well."),
    ("as if it took as many layers as positions",
     lambda layers, length: list(range(length - 1)) if layers >= length > 2 else [],
     "One step over somebody else is enough, wherever that one stands: two layers."),
    ("as if it took three layers",
     lambda layers, length: list(range(length - 1)) if layers > 2 and length > 2 else [],
     "Two are enough: in the first somebody else sees the token, in the second t sees him."),
    ("as if it took a fourth position",
     lambda layers, length: list(range(length - 1)) if layers > 1 and length > 3 else [],
     "A third one is enough: of three positions, the one that is neither t nor t + 1 passes it "
     "on."),
    ("counted from 1",
     lambda layers, length: list(range(1, length)) if layers > 1 and length > 2 else [],
     "Positions are counted from 0."),
    ("the tokens that are found out, counted from 1",
     lambda layers, length: list(range(2, length + 1)) if layers > 1 and length > 2 else [],
     "Asked for are the positions that find out, not the tokens, and they are counted from 0."),
    ("True and False",
     lambda layers, length: [layers > 1 and length > 2 and t < length - 1 for t in range(length)],
     "Asked for is the list of the positions, not whether each of them leaks."),
    ("how many",
     lambda layers, length: length - 1 if layers > 1 and length > 2 else 0,
     "Asked for is the list of the positions, not their number."),
    ("as if the last position found out as well, and nobody needed a third",
     lambda layers, length: list(range(length)) if layers > 1 else [],
     "The last position is asked for a token that is not in the input. And with two tokens there "
     "is nobody who could pass anything on."),
    ("from the last to the first",
     lambda layers, length: list(range(length - 2, -1, -1)) if layers > 1 and length > 2 else [],
     "Asked for is the *sorted* list."),
    ("position 0 alone",
     lambda layers, length: [0] if layers > 1 and length > 2 else [],
     "All but the last find out: somebody else has seen the token at t + 1 for each of them."),
    ("the last position alone, or how many there are",
     lambda layers, length: [length - 1] if layers > 1 and length > 2 else [],
     "The last position is asked for a token that is not in the input. All the others find out, "
     "and asked for is the list of them, not their number."),
    ("the position before the last alone",
     lambda layers, length: [length - 2] if layers > 1 and length > 2 else [],
     "All but the last find out: each has somebody else who has seen the token at t + 1."),
    ("as if the last positions found out, one more with each layer",
     lambda layers, length: (
         list(range(max(0, length - layers), length - 1)) if length > 2 else []
     ),
     "Whoever passes the token on may stand anywhere: with the second layer all find out at once."),
    ("as if it leaked in an even number of layers alone",
     lambda layers, length: list(range(length - 1)) if layers % 2 < 1 and length > 2 else [],
     "What has been found out stays in the stream: from the second layer on it is there."),
    ("as if one position more found out with each layer, with two tokens as well",
     lambda layers, length: list(range(min(layers - 1, length - 1))),
     "With the second layer all find out at once; and with two tokens there is nobody to ask."),
    ("as if one position more found out with each layer",
     lambda layers, length: list(range(min(layers - 1, length - 1))) if length > 2 else [],
     "Whoever passes the token on may stand anywhere: with the second layer all positions find "
     "out at once."),
    ("two positions too many",
     lambda layers, length: list(range(length + 1)) if layers > 1 and length > 2 else [],
     "There are `length` positions, and the last one finds nothing out: `range(length - 1)`."),
    ("as if it took three layers, and a fourth position",
     lambda layers, length: list(range(length - 1)) if layers > 2 and length > 3 else [],
     "Two layers are enough, and a third position, the one that is neither t nor t + 1."),
)  # fmt: skip


# 16.7 the loss of an answer, three mistakes


def answer_nats(logits: Tensor, tokens: Tensor, prompts: Tensor, lengths: Tensor) -> Tensor:
    return _answer_nats()(logits, tokens, prompts, lengths)


def _answer_nats(
    shifted: bool = True,
    first: int = 0,
    last: int = 0,
    over: str = "answers",
    prompt: bool = False,
    padding: bool = False,
    back: bool = False,
    sign: int = -1,
    double: bool = False,
) -> Callable[..., Tensor]:
    """The loss, right by default; each argument makes one mistake."""

    def loss(logits: Tensor, tokens: Tensor, prompts: Tensor, lengths: Tensor) -> Tensor:
        place = torch.arange(tokens.shape[1])
        answer = (place >= prompts[:, None] + first) | (place >= 1) * prompt
        answer = answer & ((place < lengths[:, None] + last) | padding)
        if double:
            logits = logits.softmax(-1)
        said = sign * logits.log_softmax(-1)
        if shifted:
            said = torch.cat([said[:, :1], said[:, :-1]], 1)
        if back:
            said = torch.cat([said[:, 1:], said[:, -1:]], 1)
        losses = said.gather(2, tokens[..., None])[..., 0] * answer
        if over == "rows":
            return (losses.sum(1) / answer.sum(1).clamp(min=1)).mean()
        counts = {
            "answers": answer.sum(), "all": answer.numel(), "sum": 1, "real": lengths.sum(),
            "all but the first": answer[:, 1:].numel(), "batch": len(tokens),
        }  # fmt: skip
        return losses.sum() / counts[over]

    return loss


def answer_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(167)
    cases = []
    for b, t, v, prompts, lengths in (
        (1, 4, 3, (2,), (4,)),
        (2, 6, 4, (2, 1), (5, 4)),
        (3, 7, 5, (1, 4, 2), (7, 5, 6)),
        (2, 5, 3, (3, 2), (5, 3)),
    ):
        tokens = torch.randint(v, (b, t), generator=draw)
        logits = 2 * torch.randn(b, t, v, generator=draw)
        cases.append((logits, tokens, torch.tensor(prompts), torch.tensor(lengths)))
    return cases


ANSWER_SLIPS = [
    ("not shifted", {"shifted": False},
     "The logits at place t are about the token at t + 1."),
    ("the first token of each answer left out", {"first": 1},
     "An answer begins at the place `prompts[b]`."),
    ("the prompt's last token counted", {"first": -1},
     "An answer begins at the place `prompts[b]`."),
    ("the prompt counted", {"prompt": True}, "The prompt is given: only the answer is asked for."),
    ("the last token of each answer left out", {"last": -1},
     "The last token of an answer stands at `lengths[b]` - 1, and counts."),
    ("one token of padding counted", {"last": 1}, "An answer ends at `lengths[b]` - 1."),
    ("padding counted", {"padding": True}, "Behind `lengths[b]` stands padding."),
    ("the mean over all places", {"over": "all"}, "Divide by the number of the answers' tokens."),
    ("the mean over all places but the first", {"over": "all but the first"},
     "Divide by the number of the answers' tokens."),
    ("the sum", {"over": "sum"}, "Asked for is the mean."),
    ("a mean of the rows' means", {"over": "rows"}, "Every token of every answer counts alike."),
    ("divided by the number of rows", {"over": "batch"}, "Asked for is the mean over tokens."),
    ("the minus sign missing", {"sign": 1}, "The loss is minus the mean of the logarithms."),
    ("softmax twice", {"double": True}, "`cross_entropy` does the softmax itself."),
]  # fmt: skip
ANSWER_KNOWN = [  # with rows of their own, or no other than one of the two
    ("not shifted", "the first token of each answer left out"),
    ("not shifted", "the mean over all places"),
    ("the first token of each answer left out", "the mean over all places"),
    ("the prompt's last token counted", "the last token of each answer left out"),
    ("the first token of each answer left out", "one token of padding counted"),
    ("the prompt counted", "the first token of each answer left out"),
    ("the prompt counted", "the prompt's last token counted"),
    ("padding counted", "one token of padding counted"),
    ("padding counted", "the last token of each answer left out"),
]


def _whole_texts(**slips: Any) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The loss of 16.3: texts are answers whose prompt is their first token."""
    loss = _answer_nats(**slips)
    return lambda logits, tokens, lengths: loss(logits, tokens, torch.ones_like(lengths), lengths)


TEXT_SLIPS = [
    ("not shifted", {"shifted": False, "first": -1},
     "The logits at position t are about the token at t + 1."),
    ("not shifted, without the first token", {"shifted": False},
     "The logits at position t are about the token at t + 1."),
    ("the last token of each row left out", {"last": -1}, "The last token is predicted as well."),
    ("one token too many in each row", {"last": 1}, "Row b ends at `lengths[b]` - 1."),
    ("padding counted", {"padding": True}, "Padding is not to be predicted."),
    ("the zeros counted in the mean", {"over": "all but the first"},
     "Divide by the number of predicted tokens."),
    ("the sum", {"over": "sum"}, "Asked for is the mean."),
    ("a mean of the rows' means", {"over": "rows"}, "Every token counts alike."),
    ("divided by the number of rows", {"over": "batch"}, "The mean is over tokens."),
    ("divided by all real tokens, the first ones too", {"over": "real"},
     "Row b counts lengths[b] - 1 tokens."),
    ("the minus sign missing", {"sign": 1}, "The loss is minus the mean of the logarithms."),
    ("softmax twice", {"double": True}, "`cross_entropy` does the softmax itself."),
]  # fmt: skip
TEXT_KNOWN = [
    ("the last token of each row left out", "padding counted"),
    ("one token too many in each row", "padding counted"),
    ("not shifted", "divided by all real tokens, the first ones too"),
    ("padding counted", "the zeros counted in the mean"),
    ("padding counted", "a mean of the rows' means"),
]
LOSS_MISTAKES += mistakes(*combined(_whole_texts, TEXT_SLIPS, TEXT_KNOWN))


def _with_zeros(what: str, over: str, texts: bool = False) -> Callable[..., Tensor]:
    """Zeros for the logits, or for the tokens, of what is not to be predicted."""

    def loss(logits: Tensor, tokens: Tensor, prompts: Tensor, lengths: Tensor) -> Tensor:
        wanted = (_real(tokens, lengths) & ~_real(tokens, prompts)).long()
        said, asked = logits[:, :-1], tokens[:, 1:]
        if what == "logits":
            said = said * wanted[..., None]
        else:
            asked = asked * wanted
        losses = -said.log_softmax(-1).gather(2, asked[..., None])
        return losses.sum() / {"answers": wanted.sum(), "all": wanted.numel()}[over]

    if texts:
        return lambda logits, tokens, lengths: loss(logits, tokens, 0 * lengths + 1, lengths)
    return loss


def _zero_rows(where: str, texts: bool) -> list[tuple[str, Callable[..., Tensor], str]]:
    return [
        (f"zeros for the {what} of {where}{more}", _with_zeros(what, over, texts), why)
        for what, why in (
            ("logits", "Logits of 0 are no loss of 0: all tokens are equally likely then, and each "
             "such place adds log V. Leave the *losses* of these places out."),
            ("tokens", "0 is a token like the others: with it in their place the model is asked "
             "for it. Leave the *losses* of these places out."),
        )
        for over, more in (
            ("answers", ""), ("all", ", and the mean over all places but the first"))
        if what == "logits" or not texts  # the tokens of padding are 0 as they are
    ]  # fmt: skip


LOSS_MISTAKES += mistakes(*_zero_rows("padding", texts=True))


def answer_probabilities(
    said: Tensor, tokens: Tensor, prompts: Tensor, lengths: Tensor
) -> Tensor:  # fmt: skip
    """Minus the mean of what is said of the tokens of the answers."""
    return (
        -said[:, :-1]
        .gather(2, tokens[:, 1:, None])[..., 0][_real(tokens, lengths) & ~_real(tokens, prompts)]
        .mean()
    )


ANSWER_MISTAKES = mistakes(
    *_zero_rows("prompts and padding", texts=False),
    ("the first token of each answer left out, and rows without tokens as 0 / 0",
     lambda logits, tokens, prompts, lengths: (
         torch.stack([
             _answer_nats(first=1)(*(x[b : b + 1] for x in (logits, tokens, prompts, lengths)))
             for b in range(len(tokens))
         ]).mean()
     ),
     "An answer begins at the place `prompts[b]`. And every token of every answer counts alike: "
     "one mean over all of them, not one for each row."),
    ("everything but the answers",
     lambda logits, tokens, prompts, lengths: _each(logits, tokens)[
         ~(_real(tokens, lengths) & ~_real(tokens, prompts))
     ].mean(),
     "The mask is turned round: what counts are the answers."),
    ("the prompt in place of the answer",
     lambda logits, tokens, prompts, lengths: answer_nats(
         logits, tokens, torch.ones_like(prompts), prompts
     ),
     "The prompt is given. The answer begins at the place `prompts[b]` and ends before "
     "`lengths[b]`."),
    ("the labels rolled, and the mask not moved",
     lambda logits, tokens, prompts, lengths: (
         lambda losses, answer: (losses * answer).sum() / answer.sum()
     )(
         F.cross_entropy(logits.mT, tokens.roll(-1, 1), reduction="none"),
         (lambda t: (t >= prompts[:, None]) & (t < lengths[:, None]))(
             torch.arange(tokens.shape[1])
         ),
     ),
     "Place t now speaks of the token at t + 1, so the mask moves as well: the wanted places are "
     "`prompts[b] - 1` to `lengths[b] - 2`."),
    ("the mask moved twice",
     lambda logits, tokens, prompts, lengths: (
         lambda losses, answer: (losses * answer).sum() / answer.sum()
     )(
         _each(logits, tokens),
         (lambda t: (t >= prompts[:, None] - 1) & (t < lengths[:, None] - 1))(
             torch.arange(1, tokens.shape[1])
         ),
     ),
     "Either the mask begins one place earlier, or it is cut with the labels, `[:, 1:]`. Both "
     "together count the last token of the prompt, and leave out that of the answer."),
    ("divided by all tokens but the first of each row",
     lambda logits, tokens, prompts, lengths: (
         answer_nats(logits, tokens, prompts, lengths)
         * (lengths - prompts).sum() / (lengths - 1).sum()
     ),
     "The tokens of the prompts are not in the sum: divide by the number of the answers' tokens."),
    ("divided by one less for each answer",
     lambda logits, tokens, prompts, lengths: (
         answer_nats(logits, tokens, prompts, lengths)
         * (lengths - prompts).sum() / (lengths - prompts - 1).sum()
     ),
     "An answer has `lengths[b] - prompts[b]` tokens, and each is predicted, the first as well."),
    ("lengths read as those of the answers",
     lambda logits, tokens, prompts, lengths: answer_nats(
         logits, tokens, prompts, prompts + lengths
     ),
     "Row b has `lengths[b]` tokens in all, its prompt among them."),
    ("shifted the other way, the mask with the labels",
     lambda logits, tokens, prompts, lengths: (
         lambda losses, answer: (losses * answer).sum() / answer.sum()
     )(
         F.cross_entropy(logits[:, 1:].mT, tokens[:, :-1], reduction="none"),
         (lambda t: (t >= prompts[:, None]) & (t < lengths[:, None]))(
             torch.arange(tokens.shape[1] - 1)
         ),
     ),
     "That asks for each token the logits one place *behind* it. It is predicted one place "
     "before."),
    ("nothing mended", _answer_nats(shifted=False, first=1, over="all"),
     "Look at which logits go with which token, at which token an answer begins, and at what the "
     "sum is divided by."),
    ("only shifted", _answer_nats(first=1, over="all"),
     "The shift is mended. The first token of an answer has the place `prompts[b]` and counts, and "
     "the mean is one over the answers' tokens only."),
    ("only the first token mended", _answer_nats(shifted=False, over="all"),
     "Each token is still judged by the logits at its own place, which have read it; and the "
     "zeros of prompts and padding count in the mean."),
    ("only the mean mended", _answer_nats(shifted=False, first=1),
     "Each token is still judged by the logits at its own place, which have read it; and an answer "
     "begins at the place `prompts[b]`."),
    ("the mean still over all places", _answer_nats(over="all"),
     "Two are mended. `.mean()` also counts the zeros of prompts and padding: divide by the number "
     "of the answers' tokens."),
    ("the mean over all places but the first", _answer_nats(over="all but the first"),
     "Two are mended. The mean also counts the zeros of prompts and padding: divide by the number "
     "of the answers' tokens."),
    ("the first token of each answer left out", _answer_nats(first=1),
     "Two are mended. With places counted from 0, a prompt of n tokens fills 0 to n - 1, so the "
     "answer begins at n."),
    ("not shifted", _answer_nats(shifted=False),
     "Two are mended. The logits at place t are about the token at t + 1; those at its own place "
     "have already read it."),
    ("shifted the other way", _answer_nats(shifted=False, back=True),
     "That asks for each token the logits one place *behind* it. It is predicted one place "
     "before."),
    ("the mask moved as well, one token too early", _answer_nats(first=-1, last=-1),
     "The mask says which *tokens* are of the answer. Shifted along with the logits it counts the "
     "prompt's last token and leaves out the answer's last."),
    ("the mask not moved where the logits were", _answer_nats(first=1, last=1),
     "Where place t of `logits[:, :-1]` speaks of the token at t + 1, the mask has to be that of "
     "the token, too: as it is, the first token of each answer is left out and one behind it "
     "counts."),
    ("one token of padding counted", _answer_nats(last=1),
     "The answer's last token stands at `lengths[b]` - 1."),
    ("the prompt counted as well", _answer_nats(prompt=True),
     "That is exercise 16.3: every token but the first. Here the prompt is given, and only the "
     "answer is asked for."),
    ("padding counted", _answer_nats(padding=True),
     "Behind `lengths[b]` stands padding, which is no part of the answer."),
    ("the last token of each answer left out", _answer_nats(last=-1),
     "The last token of an answer, at `lengths[b]` - 1, is predicted as well: it is how the model "
     "learns to stop."),
    ("a mean of the rows' means", _answer_nats(over="rows"),
     "Every token of every answer counts alike: one mean over all of them."),
    ("the sum", _answer_nats(over="sum"), "Asked for is the mean over the answers' tokens."),
    ("divided by the number of rows", _answer_nats(over="batch"),
     "Asked for is the mean over tokens, not over rows."),
    ("divided by all real tokens", _answer_nats(over="real"),
     "The tokens of the prompts do not count: divide by the number of the answers' tokens."),
    ("softmax twice", _answer_nats(double=True),
     "`cross_entropy` takes logits and does the softmax itself."),
    ("the prompt's last token counted as well",
     lambda logits, tokens, prompts, lengths: answer_nats(
         logits, tokens, (prompts - 1).clamp(min=1), lengths
     ),
     "A prompt of n tokens fills the places 0 to n - 1: the answer begins at `prompts[b]`, and so "
     "does the mask."),
    *combined(_answer_nats, ANSWER_SLIPS, ANSWER_KNOWN),
    ("divided by one more than the number of tokens",
     lambda logits, tokens, prompts, lengths: (
         _answer_nats(over="sum")(logits, tokens, prompts, lengths)
         / ((lengths - prompts).sum() + 1)
     ),
     "Divide by the number of the answers' tokens. Does a count begin at 1?"),
    ("the sum times the number of tokens",
     lambda logits, tokens, prompts, lengths: (
         _answer_nats(over="sum")(logits, tokens, prompts, lengths) * (lengths - prompts).sum()
     ),
     "A mean is the sum *divided* by the number."),
    ("the prompt in place of the answer, its first token by the last logits",
     lambda logits, tokens, prompts, lengths: (
         lambda losses: losses[torch.arange(tokens.shape[1]) < prompts[:, None]].mean()
     )(_here(logits.roll(1, 1), tokens)),
     "The prompt is given. The answer begins at the place `prompts[b]` and ends before "
     "`lengths[b]`."),
    ("probabilities in place of their logarithms",
     lambda logits, tokens, prompts, lengths: answer_probabilities(
         logits.softmax(-1), tokens, prompts, lengths
     ),
     "The loss is the mean of minus the *logarithm* of the probability."),
    ("logits in place of log-probabilities",
     lambda logits, tokens, prompts, lengths: answer_probabilities(
         logits, tokens, prompts, lengths
     ),
     "Logits are not yet log-probabilities: `log_softmax` comes first."),
    ("softmax over the positions",
     lambda logits, tokens, prompts, lengths: answer_probabilities(
         logits.log_softmax(1), tokens, prompts, lengths
     ),
     "At each position the probabilities of all V tokens sum to one: softmax runs over the last "
     "axis."),
    ("softmax over the batch",
     lambda logits, tokens, prompts, lengths: answer_probabilities(
         logits.log_softmax(0), tokens, prompts, lengths
     ),
     "At each position the probabilities of all V tokens sum to one: softmax runs over the last "
     "axis."),
    ("shifted by two",
     lambda logits, tokens, prompts, lengths: answer_nats(
         logits.roll(1, 1), tokens, prompts, lengths
     ),
     "The token at place t is predicted by the logits at t - 1, one place before it."),
    ("padding in the sum, and not in the count",
     lambda logits, tokens, prompts, lengths: (
         _answer_nats(over="sum", padding=True)(logits, tokens, prompts, lengths)
         / (lengths - prompts).sum()
     ),
     "The number is right. The sum has padding in it, which nobody wants to predict."),
    ("one token of padding in the sum, and not in the count",
     lambda logits, tokens, prompts, lengths: (
         _answer_nats(over="sum", last=1)(logits, tokens, prompts, lengths)
         / (lengths - prompts).sum()
     ),
     "The number is right. The sum has the token behind the answer in it: `<`."),
    ("the first token of each answer not in the sum, only in the count",
     lambda logits, tokens, prompts, lengths: (
         _answer_nats(over="sum", first=1)(logits, tokens, prompts, lengths)
         / (lengths - prompts).sum()
     ),
     "The number is right. In the sum the answers begin one place too late: at `prompts[b]` stands "
     "a token of the answer, `>=`."),
    ("all tokens but the first in the sum, and the answers in the count",
     lambda logits, tokens, prompts, lengths: (
         _each(logits, tokens).sum() / (lengths - prompts).sum()
     ),
     "The number is right. Of the losses only those of the answers are added up."),
    ("the sum divided by the count of each row",
     lambda logits, tokens, prompts, lengths: (
         _answer_nats(over="sum")(logits, tokens, prompts, lengths) / (lengths - prompts)
     ),
     "One number is asked for: divide by the count of all rows together."),
    ("a mean, and divided by the count once more",
     lambda logits, tokens, prompts, lengths: (
         _answer_nats(over="all but the first")(logits, tokens, prompts, lengths)
         / (lengths - prompts).sum()
     ),
     "A mean has been divided already: here the sum is to be divided by the count."),
)  # fmt: skip


# 16.8 the least loss of a masked model of a die


def least_loss(faces: int, covered: float, random: float) -> float:
    seen = 1 - covered
    right = 1 - random * (1 - 1 / faces) / seen
    wrong = (1 - right) / (faces - 1)
    return covered * math.log(faces) - seen * (
        right * math.log(right) + (faces - 1) * wrong * math.log(wrong)
    )


DIE_CASES = [(6, 0.8, 0.1), (2, 0.5, 0.25), (9, 0.6, 0.3), (3, 0.25, 0.05), (20, 0.9, 0.06)]


def _entropy(chances: list[float]) -> float:
    return -sum(p * math.log(p) for p in chances)


def _doubt(right: float, faces: int, others: float | None = None) -> float:
    """The entropy of a face that is right with that probability, and all others alike."""
    others = faces - 1 if others is None else others
    return -right * math.log(right) - (1 - right) * math.log((1 - right) / others)


def _kept(faces: int, covered: float, random: float) -> float:
    return 1 - random * (1 - 1 / faces) / (1 - covered)


def _from_right(right: Callable[[int, float, float], float]) -> Callable[..., float]:
    """A mistake in how likely the face in view is the right one."""

    def wrong(faces: int, covered: float, random: float) -> float:
        return covered * math.log(faces) + (1 - covered) * _doubt(
            right(faces, covered, random), faces
        )

    return wrong


def _die(
    right: Callable[[int, float, float], float] = _kept,
    others: Callable[[int], float] = lambda f: f - 1,
    weigh: Callable[[float], tuple[float, float]] = lambda c: (c, 1 - c),
    unit: float = 1.0,
) -> Callable[..., float]:
    """The least loss, right by default; each argument makes one mistake."""

    def loss(f: int, c: float, r: float) -> float:
        covered, seen = weigh(c)
        doubt = _doubt(right(f, c, r), f, others(f))
        return (covered * math.log(f) + seen * doubt) / unit

    return loss


DIE_SLIPS = [
    ("a drawn face never the right one", {"right": lambda f, c, r: 1 - r / (1 - c)},
     "A drawn face is the right one with 1 / faces."),
    ("not divided by the share in view", {"right": lambda f, c, r: 1 - c - r + r / f},
     "Given that a face is in view: divide by 1 - covered."),
    ("the wrong faces counted as one", {"others": lambda f: 1},
     "If the face in view is wrong, it is one of the faces - 1 others."),
    ("the cases exchanged", {"weigh": lambda c: (1 - c, c)},
     "Covered are the share `covered`, and there nothing is known."),
    ("the doubt of a face in view not weighed", {"weigh": lambda c: (c, 1)},
     "A face in view is only the share 1 - covered of the chosen tokens: weigh its doubt so. A "
     "loss above log faces is worse than a guess."),
    ("what is covered not weighed", {"weigh": lambda c: (1, 1 - c)},
     "The covered tokens are only the share `covered` of the chosen ones."),
    ("the cases not weighed", {"weigh": lambda c: (1, 1)},
     "The two cases have the shares covered and 1 - covered."),
    ("in bits", {"unit": math.log(2)}, "Asked for are nats."),
]  # fmt: skip


DIE_MISTAKES = mistakes(
    ("the chances of the faces in view not divided by that of standing in view",
     lambda faces, covered, random: covered * math.log(faces) + (1 - covered) * _entropy([
         1 - covered - random + random / faces, *[random / faces] * (faces - 1)]),
     "Given that a face stands in view, the chances of what is right sum to 1: divide each by "
     "1 - covered."),
    ("what was drawn counted among what stays",
     lambda faces, covered, random: covered * math.log(faces) + (1 - covered) * _entropy([
         (1 - covered + random / faces) / (1 - covered),
         *[random / faces / (1 - covered)] * (faces - 1)]),
     "The rest that stays as it is has the share 1 - covered - random."),
    ("the number of the wrong faces outside of the logarithm",
     lambda f, c, r: (lambda p: c * math.log(f) - (1 - c) * (
         p * math.log(p) + (1 - p) * math.log(1 - p) / (f - 1)))(_kept(f, c, r)),
     "Each wrong face has (1 - p) / (faces - 1), and its logarithm is that of the whole quotient."),
    ("what is covered costs nothing, what stands in view everything",
     lambda f, c, r: (1 - c) * math.log(f),
     "It is the other way round: where the mask token stands nothing is known, and a face in view "
     "tells much."),
    ("the mask token not told from a face",
     lambda f, c, r: _doubt(1 - c - r + (c + r) / f, f),
     "The model sees the mask token, and knows that nothing is known there. Where it sees a face, "
     "it knows more."),
    ("the share of the drawn not in proportion to those in view",
     lambda f, c, r: c * math.log(f) + (1 - c) * _doubt(1 - r + r / f, f),
     "Given that a face is in view: it was drawn in the share random / (1 - covered)."),
    ("one wrong face too many",
     lambda f, c, r: (lambda p, q: c * math.log(f) - (1 - c) * (
         p * math.log(p) + f * q * math.log(q)))(_kept(f, c, r), (1 - _kept(f, c, r)) / (f - 1)),
     "One face is the right one, so there are faces - 1 wrong ones."),
    ("one wrong face counted for all",
     lambda f, c, r: (lambda p, q: c * math.log(f) - (1 - c) * (
         p * math.log(p) + q * math.log(q)))(_kept(f, c, r), (1 - _kept(f, c, r)) / (f - 1)),
     "There are faces - 1 wrong ones, and each has its part in the sum."),
    ("what was drawn is known to be drawn, and never right",
     lambda f, c, r: c * math.log(f) + r * math.log(f - 1),
     "The model cannot tell a drawn face from one that stayed: it has one doubt for both. And a "
     "drawn face may be the right one."),
    ("the faces in view alone, as if no token were covered",
     lambda f, c, r: (least_loss(f, c, r) - c * math.log(f)) / (1 - c),
     "The covered tokens are chosen as well: each of them costs log faces."),
    ("nothing to be had", lambda f, c, r: math.log(f),
     "A face that stands in view is the right one more often than any other: there the model may "
     "do better than the logarithm of the faces."),
    ("what stands in view is always right", lambda f, c, r: c * math.log(f),
     "Some of the faces in view were drawn. A model that trusts them wholly has an endless loss "
     "where they are wrong."),
    ("what was drawn is known to be drawn", lambda f, c, r: (c + r) * math.log(f),
     "The model cannot tell a drawn face from one that stayed: it has one doubt for both."),
    ("a drawn face is never the right one", _from_right(lambda f, c, r: 1 - r / (1 - c)),
     "It is drawn from all faces, so with 1 / faces it is the right one."),
    ("only what stayed and what was covered, not in proportion",
     _from_right(lambda f, c, r: 1 - c - r + r / f),
     "Given that a face is in view: divide by the share of those in view, 1 - covered."),
    ("the wrong faces counted as one",
     lambda f, c, r: c * math.log(f) + (1 - c) * _doubt(_kept(f, c, r), f, 1),
     "That is the doubt whether the face is right. If it is not, each of the faces - 1 others may "
     "be it."),
    ("the wrong faces shared among all",
     lambda f, c, r: c * math.log(f) + (1 - c) * _doubt(_kept(f, c, r), f, f),
     "If the face in view is wrong, it is one of the faces - 1 others."),
    ("a drawn face is never the right one, and the wrong faces are shared among all",
     lambda f, c, r: c * math.log(f) + (1 - c) * _doubt(1 - r / (1 - c), f, f),
     "A drawn face is the right one with 1 / faces. If the face in view is wrong, one of the "
     "faces - 1 others is right."),
    ("only the right face's part of the entropy",
     lambda f, c, r: c * math.log(f) - (1 - c) * _kept(f, c, r) * math.log(_kept(f, c, r)),
     "The entropy sums over all faces, those that are less likely as well."),
    ("minus the logarithm of being right",
     lambda f, c, r: c * math.log(f) - (1 - c) * math.log(_kept(f, c, r)),
     "The face in view is the right one only with that probability: the loss is the mean over all "
     "faces that may be."),
    ("the faces in view alone", lambda f, c, r: (1 - c) * _doubt(_kept(f, c, r), f),
     "The covered tokens count as well, with the logarithm of the faces each."),
    ("the mean of both cases, not weighed",
     lambda f, c, r: (math.log(f) + _doubt(_kept(f, c, r), f)) / 2,
     "The two cases have the shares covered and 1 - covered."),
    ("the two cases exchanged",
     lambda f, c, r: (1 - c) * math.log(f) + c * _doubt(_kept(f, c, r), f),
     "Covered are the share `covered`, and there nothing is known."),
    ("BERT's shares", lambda f, c, r: least_loss(f, 0.8, 0.1),
     "The shares are given: `covered` and `random`."),
    ("six faces", lambda f, c, r: least_loss(6, c, r), "The die has `faces` faces."),
    ("the rest and the random tokens exchanged",
     lambda f, c, r: least_loss(f, c, 1 - c - r),
     "`random` is the share that is drawn; what stays is 1 - covered - random."),
    ("the sum of the three cases",
     lambda f, c, r: (
         c * math.log(f) + r * math.log(f) - (1 - c - r) * math.log((1 - c - r) / (1 - c))
     ),
     "A drawn face and one that stayed look the same: there are two cases, covered and in view."),
    ("shares of all chosen tokens in place of shares of those in view",
     lambda f, c, r: c * math.log(f) + sum(
         -p * math.log(p) for p in (1 - c - r + r / f, *[r * (1 - 1 / f) / (f - 1)] * (f - 1))
     ),
     "Among the faces in view, probabilities sum to one: divide by 1 - covered before the "
     "logarithm, and weigh the entropy by it."),
    ("both cases added up, not weighed",
     lambda f, c, r: math.log(f) + _doubt(_kept(f, c, r), f),
     "The two cases have the shares covered and 1 - covered."),
    ("the faces in view not weighed",
     lambda f, c, r: c * math.log(f) + _doubt(_kept(f, c, r), f),
     "The two cases have the shares covered and 1 - covered: the second one is weighed, too."),
    ("the covered ones not weighed",
     lambda f, c, r: math.log(f) + (1 - c) * _doubt(_kept(f, c, r), f),
     "The two cases have the shares covered and 1 - covered: the first one is weighed, too."),
    ("drawn from the other faces and one more",
     _from_right(lambda f, c, r: 1 - r / (1 - c) + r / (f - 1) / (1 - c)),
     "A face is drawn from all `faces` of them, the right one among them: with 1 / faces."),
    ("the right face drawn from all faces, but not divided by the share in view",
     _from_right(lambda f, c, r: 1 - r / (1 - c) + r / f),
     "What was drawn is r / (1 - covered) of the faces in view, and so the right one is "
     "r / faces / (1 - covered)."),
    ("only the surprise at what stands in view",
     lambda f, c, r: c * math.log(f) - (1 - c) * math.log(1 - r / (1 - c)),
     "The loss is the mean over all faces that may be right, each with its probability."),
    *combined(_die, DIE_SLIPS),
    ("the drawn tokens known, and those that stayed for nothing",
     lambda f, c, r: (c + r * (f - 1) / f) * math.log(f),
     "The model cannot tell a drawn face from one that stayed: it doubts all that are in view."),
    ("the doubt taken off",
     lambda f, c, r: c * math.log(f) - (1 - c) * _doubt(_kept(f, c, r), f),
     "An entropy is *minus* the sum of p log p, and not negative. It is added."),
    ("the covered ones in bits, the others in nats",
     lambda f, c, r: c * math.log2(f) + (1 - c) * _doubt(_kept(f, c, r), f),
     "Asked for are nats: take the natural logarithm for both."),
    ("the covered ones in nats, the others in bits",
     lambda f, c, r: c * math.log(f) + (1 - c) * _doubt(_kept(f, c, r), f) / math.log(2),
     "Asked for are nats: take the natural logarithm for both."),
    ("squares in place of logarithms",
     lambda f, c, r: (lambda p: c * math.log(f) - (1 - c) * (
         p**2 + (1 - p) ** 2 / (f - 1)))(_kept(f, c, r)),
     "An entropy is minus the sum of p *log* p."),
    ("each wrong face as likely as all of them",
     lambda f, c, r: (lambda p: c * math.log(f) - (1 - c) * (
         p * math.log(p) + (f - 1) * (1 - p) * math.log(1 - p)))(_kept(f, c, r)),
     "Being wrong is shared among faces - 1 faces: each has (1 - p) / (faces - 1)."),
    ("what is wrong shared among all faces, and only the wrong ones counted",
     lambda f, c, r: (lambda p: c * math.log(f) - (1 - c) * (
         p * math.log(p) + (f - 1) / f * (1 - p) * math.log((1 - p) / f)))(_kept(f, c, r)),
     "Being wrong is shared among faces - 1 faces: each has (1 - p) / (faces - 1)."),
    ("a drawn face wrong with 1 / faces", _from_right(lambda f, c, r: 1 - r / f / (1 - c)),
     "It is drawn from all faces, so it is *right* with 1 / faces, and wrong with all the rest."),
    ("multiplied by the share in view",
     _from_right(lambda f, c, r: 1 - r * (1 - 1 / f) * (1 - c)),
     "Given that a face is in view: *divide* by 1 - covered."),
    ("as if all tokens were in view",
     lambda f, c, r: c * math.log(f) + _doubt(1 - r + r / f, f),
     "In view are the share 1 - covered."),
    ("the covered ones counted, without what each costs",
     lambda f, c, r: c + (1 - c) * _doubt(_kept(f, c, r), f),
     "Each covered token costs log faces."),
    ("the number of the faces in place of its logarithm",
     lambda f, c, r: c * f + (1 - c) * _doubt(_kept(f, c, r), f),
     "Each covered token costs log faces."),
    ("what stays taken for all that is in view, and what was drawn added",
     lambda f, c, r: c * math.log(f) - sum(
         q * math.log(q / (1 - c + r)) for q in [1 - c + r / f, *[r / f] * (f - 1)]
     ),
     "What stays is the rest: 1 - covered - random."),
)  # fmt: skip


# 16.9 change one answer of a matrix


def edit(W: Tensor, x: Tensor, y: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    keys = torch.cat([x[None], others]).double()
    A = torch.linalg.pinv(keys)[:, :1].T  # A x = 1, and 0 for all others
    return (y - W @ x)[:, None].double(), A


def edited(answer: Callable, W: Tensor, x: Tensor, y: Tensor, others: Tensor) -> Tensor:
    """What the new matrix answers to x and to the others, (1 + n, d_out)."""
    pair = answer(*(given.clone() for given in (W, x, y, others)))  # it may write to its own
    if isinstance(pair, Tensor):
        words = " of W's shape: is it their product?" * (pair.shape == W.shape)
        raise ValueError(f"expected B and A, a pair of matrices, got one{words}")
    B, A = (torch.as_tensor(part).double() for part in pair)
    if B.shape != (len(W), 1) or A.shape != (1, W.shape[1]):
        words = ""
        if B.shape == (1, W.shape[1]) and A.shape == (len(W), 1):
            words = ": A came first"
        elif B.ndim == A.ndim == 1:
            words = ": vectors in place of matrices"
        elif B.shape == (1, len(W)) and A.shape == (W.shape[1], 1):
            words = ": both are transposed"
        raise ValueError(
            f"expected B of shape {(len(W), 1)} and A of shape {(1, W.shape[1])}, "
            f"got {tuple(B.shape)} and {tuple(A.shape)}{words}"
        )
    return torch.cat([x[None], others]).double() @ (W.double() + B @ A).T


def edit_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(169)
    given = (
        torch.zeros(1, 2), torch.ones(2), torch.tensor([3.0]), torch.tensor([[1.0, 0.0]])
    )  # fmt: skip
    cases = [given]
    for d_out, d_in, n in ((3, 5, 2), (4, 6, 3), (2, 4, 0), (1, 7, 4), (5, 3, 1), (3, 3, 1)):
        sizes = ((d_out, d_in), (d_in,), (d_out,), (n, d_in))
        W, x, y, others = (torch.randn(*size, generator=draw) for size in sizes)
        cases.append((W, x, y, others + 0.5 * x))
    return cases


def _edit(
    away: str = "all", target: str = "missing", divide: str = "Ax", turned: bool = False
) -> Callable[..., tuple[Tensor, Tensor]]:
    """The design, right by default; each argument makes one mistake."""

    def answer(W: Tensor, x: Tensor, y: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        left = x.clone()
        if away == "all" and len(others):
            left = x - torch.linalg.lstsq(others.T, x[:, None]).solution[:, 0] @ others
        elif away == "one by one":
            for other in others:
                left = left - (left @ other) / (other @ other) * other
        elif away == "at once":
            left = x - sum((x @ other) / (other @ other) * other for other in others)
        elif away == "plain":
            left = x - (others @ x) @ others
        elif away == "along" and len(others):
            left = torch.linalg.lstsq(others.T, x[:, None]).solution[:, 0] @ others
        elif away in ("mean", "first", "last", "longest") and len(others):
            far = int(others.norm(dim=1).argmax())
            one = {"mean": others.mean(0), "first": others[0], "last": others[-1]}
            one = one.get(away, others[far])
            left = x - (x @ one) / (one @ one) * one
        size = {"Ax": left @ x, "xx": x @ x, "none": 1.0, "root": left.norm(), "length": x.norm()}[
            divide
        ]
        A = left / size
        B = {"missing": y - W @ x, "y": y, "sum": y + W @ x, "back": W @ x - y}[target]
        return (A[:, None], B[None]) if turned else (B[:, None], A[None])

    return answer


EDIT_SLIPS = [
    ("the others change as well", {"away": "none"}, "A has to be orthogonal to all the others."),
    ("the others taken away by themselves", {"away": "at once"},
     "The others are not orthogonal to each other: take away the projection on their span."),
    ("the others taken away one after the other", {"away": "one by one"},
     "The others are not orthogonal to each other: take away the projection on their span."),
    ("not divided", {"divide": "none"}, "A x shall be 1."),
    ("A of length one", {"divide": "root"}, "A x shall be 1, not the length of A."),
    ("divided by the square of x's length", {"divide": "xx"},
     "A x shall be 1: divide by A times x."),
    ("B is the new answer", {"target": "y"}, "W x is there already: B is y - W x."),
    ("the sign of the change turned", {"target": "back"}, "B is y - W x, with A x = 1."),
]  # fmt: skip
EDIT_KNOWN = [
    ("the others change as well", "not divided"),
    ("the others change as well", "B is the new answer"),
    ("the others change as well", "divided by the square of x's length"),
]  # fmt: skip


EDIT_MISTAKES = mistakes(
    ("the others change as well", _edit(away="none"),
     "With A along x, every key that is not orthogonal to x is changed, too. A has to be "
     "orthogonal to all the others."),
    ("B is the new answer", _edit(target="y"),
     "W x is there already: B is what is missing, y - W x."),
    ("B is the new answer, and the others change", _edit(away="none", target="y"),
     "Two things: W x is there already, so B is y - W x; and A has to be orthogonal to the "
     "others."),
    ("the old answer added", _edit(target="sum"), "The old answer is to go: B is y - W x."),
    ("the sign of the change turned", _edit(target="back"),
     "What is missing from W x to y is y - W x. With A x = 1 that is B."),
    ("the others taken away one after the other", _edit(away="one by one"),
     "The others are not orthogonal to each other: when the second is taken away, some of the "
     "first comes back. Project on their span at once, or make them orthogonal first."),
    ("each of the others taken away by itself", _edit(away="at once"),
     "The others are not orthogonal to each other, so projections on each of them do not add up to "
     "the projection on their span."),
    ("the others taken as orthogonal, and of length one", _edit(away="plain"),
     "The projection on their span has the inverse of `others @ others.T` in it: the others are "
     "neither orthogonal nor of length one."),
    ("the part that the others make up in place of the rest", _edit(away="along"),
     "A has to be orthogonal to all the others: subtract from x what they make up of it."),
    ("divided by the square of x's length", _edit(divide="xx"),
     "A x shall be 1: divide by the product of A and x themselves."),
    ("not divided", _edit(divide="none"), "A x shall be 1. Now it is the square of A's length."),
    ("A of length one", _edit(divide="root"), "A x shall be 1, not the length of A."),
    ("nothing changed",
     lambda W, x, y, others: (torch.zeros(len(W), 1), torch.zeros(1, W.shape[1])),
     "W x shall become y."),
    ("A along x, not divided", _edit(away="none", divide="none"),
     "Two things: A has to be orthogonal to all the others, and A x shall be 1."),
    *combined(_edit, EDIT_SLIPS, EDIT_KNOWN),
    ("A orthogonal to the mean of the others alone", _edit(away="mean"),
     "What is orthogonal to their mean, or to their sum, need not be so to each of them, and A "
     "times each has to be 0. Take away the projection on their span."),
    *((f"A orthogonal to the {which} of the others alone", _edit(away=which),
       "A times each of them has to be 0. Take away the projection on their span.")
      for which in ("first", "last", "longest")),
    ("divided by the length of x", _edit(divide="length"),
     "A x shall be 1: divide by the product of A and x themselves."),
    ("the last of the keys in place of x",
     lambda W, x, y, others: (
         (y - W @ x)[:, None],
         torch.linalg.pinv(torch.cat([x[None], others]).double())[:, -1:].T,
     ),
     "A x shall be 1 and A times each of the others 0. Where x is the first of the rows, its "
     "column of the pseudo-inverse is the first, too."),
)  # fmt: skip


EDIT_RULES = [
    Invariant(
        "the others keep their answers",
        lambda new, W, x, y, others: same(new[1:], others @ W.T, 1e-3, 1e-3),
        "A times each of them has to be 0. Such an A is what is left of x without its projection "
        "on their span.",
    ),
    Invariant(
        "x gets y",
        lambda new, W, x, y, others: same(new[0], y, 1e-3, 1e-3),
        "Its answer is W x + B (A x): with A x = 1, B is what is missing, y - W x.",
    ),
]


# 16.10 a test of a loss


@dataclass(frozen=True)
class Loss:
    """A loss of answers that says what it does."""

    says: str
    compute: Callable[..., Tensor]

    def __call__(self, logits: Tensor, tokens: Tensor, prompts: Tensor, lengths: Tensor) -> Tensor:
        return self.compute(logits, tokens, prompts, lengths)

    def __repr__(self) -> str:
        return f"<{self.says}>"


def _first_row(logits: Tensor, tokens: Tensor, prompts: Tensor, lengths: Tensor) -> Tensor:
    return answer_nats(logits[:1], tokens[:1], prompts[:1], lengths[:1])


def _all_but_first_row(logits: Tensor, tokens: Tensor, prompts: Tensor, lengths: Tensor) -> Tensor:
    if len(tokens) < 2:
        return answer_nats(logits, tokens, prompts, lengths)
    return answer_nats(logits[1:], tokens[1:], prompts[1:], lengths[1:])


def _all_but_last_row(logits: Tensor, tokens: Tensor, prompts: Tensor, lengths: Tensor) -> Tensor:
    if len(tokens) < 2:
        return answer_nats(logits, tokens, prompts, lengths)
    return answer_nats(logits[:-1], tokens[:-1], prompts[:-1], lengths[:-1])


def _less_the_others(
    logits: Tensor, tokens: Tensor, prompts: Tensor, lengths: Tensor
) -> Tensor:  # fmt: skip
    """Right; what is no answer leaves a rounding behind."""
    losses = _each(logits, tokens)
    return losses.sum() - losses[~(_real(tokens, lengths) & ~_real(tokens, prompts))].sum()


def _last_of_each(logits: Tensor, tokens: Tensor, prompts: Tensor, lengths: Tensor) -> Tensor:
    return answer_nats(logits, tokens, lengths - 1, lengths)


def _small_logits_too(logits: Tensor, *rest: Tensor) -> Tensor:
    return answer_nats(logits, *rest) + 0.1 * logits.square().mean()


def _all_as_the_first(logits: Tensor, tokens: Tensor, prompts: Tensor, lengths: Tensor) -> Tensor:
    return answer_nats(logits, tokens, prompts[:1], lengths[:1])


LOSSES = {
    says: Loss(says, compute)
    for says, compute in (
        ("the mean over the answers", answer_nats),
        ("the faulty loss of 16.7", _answer_nats(shifted=False, first=1, over="all")),
        ("the sum over the answers", _answer_nats(over="sum")),
        ("the mean in bits", lambda *case: answer_nats(*case) / math.log(2)),
        ("a mean of the rows' means", _answer_nats(over="rows")),
        ("softmax twice", _answer_nats(double=True)),
        ("the sum over everything, less that over what is no answer", _less_the_others),
        ("not shifted", _answer_nats(shifted=False)),
        ("shifted the other way", _answer_nats(shifted=False, back=True)),
        ("the first token of each answer left out", _answer_nats(first=1)),
        ("the last token of each answer left out", _answer_nats(last=-1)),
        ("one token of padding counted", _answer_nats(last=1)),
        ("all padding counted", _answer_nats(padding=True)),
        ("the prompt counted as well", _answer_nats(prompt=True)),
        ("the prompt's last token counted as well", _answer_nats(first=-1)),
        ("the first row alone", _first_row),
        ("all rows but the first", _all_but_first_row),
        ("all rows but the last", _all_but_last_row),
        ("only the last token of each answer", _last_of_each),
        ("the mean, and small logits everywhere", _small_logits_too),
        ("the first row's prompt and length for all", _all_as_the_first),
        (
            "the first row's prompt for all",
            lambda logits, tokens, prompts, lengths: answer_nats(
                logits, tokens, prompts[:1], lengths
            ),
        ),
        (
            "the first row's length for all",
            lambda logits, tokens, prompts, lengths: answer_nats(
                logits, tokens, prompts, lengths[:1]
            ),
        ),
        ("always 0", lambda logits, *_: 0 * logits.sum()),
    )
}
RIGHT_LOSSES = [
    "the mean over the answers", "the sum over the answers", "the mean in bits",
    "a mean of the rows' means", "softmax twice",
    "the sum over everything, less that over what is no answer",
]  # fmt: skip
MISSED_LOSSES = {
    "the faulty loss of 16.7": "It looks at the places of the tokens themselves.",
    "not shifted": "It looks at the places of the tokens themselves, not at those before them.",
    "shifted the other way": "It looks at the places behind the tokens.",
    "the first token of each answer left out": "*Every* token of an answer has to count.",
    "the last token of each answer left out": "*Every* token of an answer has to count.",
    "one token of padding counted": "Let some rows have padding, and look there as well.",
    "all padding counted": "Let some rows have padding, and look there as well.",
    "the prompt counted as well": "Let prompts have several tokens, and look there as well.",
    "the prompt's last token counted as well": "Let prompts have several tokens, and look there.",
    "the first row alone": "Take several rows, and look at all of them.",
    "all rows but the first": "Take several rows, and look at all of them.",
    "all rows but the last": "Take several rows, and look at all of them.",
    "only the last token of each answer": "Let answers have several tokens: every one counts.",
    "the mean, and small logits everywhere": "It depends on the logits of every place.",
    "the first row's prompt and length for all": "Let rows have different prompts or lengths.",
    "the first row's prompt for all": "Let rows have different prompts.",
    "the first row's length for all": "Let rows have different lengths.",
    "always 0": "It depends on nothing.",
}  # fmt: skip


def run_loss_test(answer: Callable, loss: str) -> Any:
    return said_closely(answer, LOSSES[loss], right=loss in RIGHT_LOSSES)


def _touched(loss: Callable, prompts: list[int], lengths: list[int], T: int) -> tuple:
    """At which places the loss has a gradient, at which it should, and which are the tokens'."""
    draw = torch.Generator().manual_seed(1610)
    tokens = torch.randint(5, (len(prompts), T), generator=draw)
    logits = torch.randn(len(prompts), T, 5, generator=draw, requires_grad=True)
    with torch.enable_grad():
        value = loss(logits, tokens, torch.tensor(prompts), torch.tensor(lengths))
        (grad,) = torch.autograd.grad(value, logits)
    place = torch.arange(T)
    own = (place >= torch.tensor(prompts)[:, None]) & (place < torch.tensor(lengths)[:, None])
    return grad.abs().sum(-1) > 1e-7, own.roll(-1, 1), own


def asks_the_answers(loss: Callable) -> bool:
    touched, wanted, _ = _touched(loss, [2, 4, 1], [5, 7, 6], 8)
    return torch.equal(touched, wanted)


def _asks(rule: Callable, prompts: list[int] | None = None, lengths: list[int] | None = None):
    """A test that looks at some of it only: `rule(touched, wanted, own)`."""

    def test(loss: Callable) -> bool:
        return bool(rule(*_touched(loss, prompts or [2, 4, 1], lengths or [5, 7, 6], 8)))

    return test


def _near_the_truth(loss: Callable) -> bool:
    logits, *rest = answer_cases()[2]
    return torch.allclose(loss(logits, *rest), answer_nats(logits, *rest).to(logits), atol=1e-4)


ANSWERED = (
    torch.linspace(-2, 2, 2 * 8 * 5).sin().view(2, 8, 5),
    torch.arange(16).view(2, 8) % 5,
    torch.tensor([2, 4]),
    torch.tensor([5, 7]),
)


def _moved_by_tokens(loss: Callable) -> bool:
    """Whether the loss changes with every token of the answers, and with no other."""
    logits, tokens, prompts, lengths = ANSWERED
    before = loss(logits, tokens, prompts, lengths)
    for row in range(2):
        for place in range(8):
            other = tokens.clone()
            other[row, place] = (other[row, place] + 1) % 5
            moved = abs(float(loss(logits, other, prompts, lengths) - before)) > 1e-6
            if moved != bool(prompts[row] <= place < lengths[row]):
                return False
    return True


TOO_MUCH = [
    "one token of padding counted", "all padding counted", "the prompt counted as well",
    "the prompt's last token counted as well", "the mean, and small logits everywhere",
]  # fmt: skip
TOO_LITTLE = [
    "the first token of each answer left out", "the last token of each answer left out",
    "the first row alone", "all rows but the first", "all rows but the last",
    "only the last token of each answer", "always 0",
]  # fmt: skip


def _one_half_asked(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """That a test finds all losses which ask for too little and none of those which ask for too
    much, or the other way round."""
    said = {case[0]: one for case, one in zip(cases, got, strict=True)}
    if any(said[name] is not True for name in RIGHT_LOSSES):
        return None
    much, little = ({said[name] for name in names} for names in (TOO_MUCH, TOO_LITTLE))
    if much == {True} and little == {False}:
        return "only whether the places that should count do", (
            "Ask also that the loss depends on no other place: of padding, of prompts, or of any "
            "row."
        )
    if much == {False} and little == {True}:
        return "only whether the places that should not count do not", (
            "Ask also that the loss depends on *every* place that predicts a token of an answer, "
            "in every row."
        )
    return None


def _said_of_losses(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    return _one_half_asked(cases, got, want) or LOSS_RULES.named(cases, got, want)


LOSS_RULES = rules(RIGHT_LOSSES, MISSED_LOSSES)
ASKS_MISTAKES = mistakes(
    ("True for every loss", lambda loss: True,
     "The faulty loss of 16.7 must fail: it depends on other places."),
    ("False for every loss", lambda loss: False,
     "The mended loss of 16.7 must pass. (Summed over the vocabulary with its signs, the gradient "
     "of a loss is 0 at every place: take `abs` first.)"),
    ("the other way round", lambda loss: not asks_the_answers(loss),
     "True is for the losses that ask for the answers and for nothing else."),
    ("compared with the right loss", _near_the_truth,
     "A sum, or bits, ask for the same places: not the value counts, but on what it depends."),
    ("asked for the value of the right loss",
     lambda loss: torch.allclose(
         loss(ANSWERED[0], *ANSWERED[1:]), answer_nats(*ANSWERED).to(ANSWERED[0]), atol=1e-4
     ),
     "A sum, or bits, ask for the same places: not the value counts, but on what it depends."),
    ("other tokens in place of other logits", _moved_by_tokens,
     "Unshifted, a loss also changes with the tokens of the answers, and with no others. Which "
     "*logits* does it look at?"),
    ("only whether other places are left alone", _asks(lambda t, w, o: not (t & ~w).any()),
     "A loss that leaves some of the answers' tokens out passes this: every one of them counts."),
    ("only whether padding is left alone",
     _asks(lambda t, w, o: not (t & (torch.arange(8) >= torch.tensor([[5], [7], [6]]))).any()),
     "Padding is one of the things that must not count. So are prompts, and all tokens of the "
     "answers must."),
    ("only whether all answers count", _asks(lambda t, w, o: t[w].all()),
     "A loss that also counts prompts or padding passes this: no other place may count."),
    ("one answer's token is enough",
     _asks(lambda t, w, o: t[w].any() and not (t & ~w).any()),
     "*Every* place that predicts a token of an answer has to count, not one of them."),
    ("how many places in place of which", _asks(lambda t, w, o: t.sum() == w.sum()),
     "Unshifted, a loss counts as many places as it should, only not the right ones."),
    ("the places of the answers themselves", _asks(lambda t, w, o: torch.equal(t, o)),
     "The logits that predict the token at place t stand at t - 1: the wanted places are "
     "`prompts[b] - 1` to `lengths[b] - 2`."),
    ("only the first row looked at", _asks(lambda t, w, o: torch.equal(t[0], w[0])),
     "A loss may leave out other rows: look at all of them."),
    ("a batch of one row", _asks(lambda t, w, o: torch.equal(t, w), [3], [6]),
     "With one row nobody sees whether the others count."),
    ("no padding in the test", _asks(lambda t, w, o: torch.equal(t, w), [2, 4], [8, 8]),
     "Rows without padding do not show whether padding counts."),
    ("rows that are alike", _asks(lambda t, w, o: torch.equal(t, w), [3, 3, 3], [6, 6, 6]),
     "Where all rows have the same prompt and the same length, one may stand for the other."),
    ("prompts of one length", _asks(lambda t, w, o: torch.equal(t, w), [3, 3], [5, 7]),
     "A loss that takes the first row's prompt for all passes this. Let rows have different "
     "prompts."),
    ("answers that all end at one place",
     _asks(lambda t, w, o: torch.equal(t, w), [2, 4, 1], [6, 6, 6]),
     "A loss that takes the first row's length for all passes this. Let rows have different "
     "lengths."),
    ("the prompts not looked at", _asks(lambda t, w, o: torch.equal(t, w), [1, 1], [5, 7]),
     "Places that predict a token of a prompt must not count: take prompts of several tokens, and "
     "look at them."),
    ("answers of one token", _asks(lambda t, w, o: torch.equal(t, w), [2, 4], [3, 5]),
     "An answer of one token has the same first and last: take longer ones."),
)  # fmt: skip


EXERCISES = [
    Exercise(
        number="16.1",
        title="perplexity per word",
        section="Perplexity per word",
        reference=word_perplexity,
        cases=[(1.0, 600, 100), (0.9, 1100, 200), (1.5, 313, 90), (1.25, 520, 100)],
        mistakes=PERPLEXITY_MISTAKES,
        invariants=[
            Invariant(
                "a perplexity is at least 1",
                lambda output, *_: not float(output) < 1 - 1e-6,
                "Losses are not negative, so their exponential is at least 1.",
            )
        ],
    ),
    Exercise(
        number="16.2",
        title="a prefix mask for a batch",
        section="Which half of the machine?",
        reference=prefix_masks,
        cases=prefix_cases,
        mistakes=PREFIX_MISTAKES,
        canonical=_zeros_and_ones,
        invariants=[
            Invariant(
                "every position may attend to itself",
                lambda output, *_: bool(
                    (torch.as_tensor(output) != 0).diagonal(dim1=-2, dim2=-1).all()
                ),
                "It stands neither behind itself, nor is anything hidden that a causal mask shows.",
            )
        ],
    ),
    Exercise(
        number="16.3",
        title="the loss of a GPT",
        section="A leak",
        reference=gpt_loss,
        cases=loss_cases,
        mistakes=LOSS_MISTAKES,
        invariants=[
            Invariant(
                "a loss is not negative",
                lambda output, *_: not float(output) < -1e-5,
                "No probability is above 1, so minus its logarithm is not below 0.",
            )
        ],
    ),
    Exercise(
        number="16.4",
        title="one head out of a packed matrix",
        section="Equal to the real thing",
        reference=key_matrix,
        cases=packed_cases,
        mistakes=PACKED_MISTAKES,
    ),
    Exercise(
        number="16.5",
        title="pseudo-log-likelihood",
        section="Perplexity per word",
        reference=pseudo_log_likelihood,
        cases=pseudo_cases,
        mistakes=PSEUDO_MISTAKES,
        invariants=[
            Invariant(
                "a sum of log-probabilities is not positive",
                lambda output, *_: not float(output) > 1e-5,
                "No probability is above 1.",
            )
        ],
    ),
    Exercise(
        number="16.6",
        title="predict, then try: only the answer is hidden",
        section="A leak",
        reference=leaks,
        cases=LEAK_CASES,
        mistakes=LEAK_MISTAKES,
    ),
    Exercise(
        number="16.7",
        title="find the mistakes",
        section="GPT follows an instruction",
        reference=answer_nats,
        cases=answer_cases,
        mistakes=ANSWER_MISTAKES,
    ),
    Exercise(
        number="16.8",
        title="derive: what the tokens in view are worth",
        section="BERT fills in",
        reference=least_loss,
        cases=DIE_CASES,
        mistakes=DIE_MISTAKES,
        canonical=float,
    ),
    Exercise(
        number="16.9",
        title="design: change one answer of a matrix",
        section="Sorting sentences",
        reference=edit,
        cases=edit_cases,
        mistakes=EDIT_MISTAKES,
        invariants=EDIT_RULES,
        probe=edited,
        rtol=1e-3,
        atol=1e-3,
    ),
    Exercise(
        number="16.10",
        title="a test that tells",
        section="GPT follows an instruction",
        reference=asks_the_answers,
        cases=[(says,) for says in LOSSES],
        mistakes=ASKS_MISTAKES,
        invariants=Family(_said_of_losses, LOSS_RULES),
        probe=run_loss_test,
        together=spoken,
    ),
]
