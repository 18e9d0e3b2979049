"""The exercises of chapter 15, looking inside: references, cases, mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .core import Exercise, Invariant, mistakes
from .faults import some
from .pairs import combined
from .predictions import booleans
from .suspects import moved, rules, said_closely, spoken

# 15.1 how much heads disagree


def entropy(weights: Tensor) -> Tensor:
    return torch.special.entr(weights).sum(-1)


def disagreement(weights: Tensor) -> Tensor:
    return entropy(weights.mean(1)) - entropy(weights).mean(1)


def disagreement_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(151)
    plain = torch.randn(2, 3, 4, 5, generator=draw).softmax(-1)
    future = torch.ones(4, 4).triu(1).bool()
    masked = (2 * torch.randn(3, 2, 4, 4, generator=draw)).masked_fill(future, -math.inf)
    example = torch.tensor([[[[1.0, 0.0]], [[0.0, 1.0]]]])
    mixed = torch.tensor([[[[0.5, 0.5, 0.0]], [[0.0, 0.25, 0.75]], [[0.0, 0.0, 1.0]]]])
    return [(example,), (plain,), (masked.softmax(-1),), (mixed,), (plain[:, :1, :1],)]


def _plainly(weights: Tensor) -> Tensor:
    """The entropy without care for zeros."""
    return -(weights * weights.log()).sum(-1)


def _lifted(w: Tensor, by: float) -> Tensor:
    each = [-(one * (one + by).log()).sum(-1) for one in (w.mean(1), w)]
    return each[0] - each[1].mean(1)


DISAGREEMENT_MISTAKES = mistakes(
    ("the first two heads alone", lambda w: disagreement(w[:, :2]), "All heads are averaged."),
    ("the heads' entropies along the heads",
     lambda w: entropy(w.mean(1)) - torch.special.entr(w).sum(1).mean(-1),
     "An entropy is a sum over the keys, the last axis. The heads are averaged after that."),
    ("numbers of words in place of entropies",
     lambda w: entropy(w.mean(1)).exp() - entropy(w).exp().mean(1),
     "Asked for are the entropies themselves, not e to their power."),
    ("the variance of the weights over the heads", lambda w: w.var(1).sum(-1),
     "That, too, says how much heads differ. Asked for is the difference of entropies."),
    ("the mean of the maps over the queries as well",
     lambda w: entropy(w.mean((1, 2)))[:, None] - entropy(w).mean(1),
     "Average each query's rows over the heads alone: another query looks elsewhere anyway."),
    ("zero times the logarithm of zero",
     lambda w: _plainly(w.mean(1)) - _plainly(w).mean(1),
     "The logarithm of 0 is minus infinity, and 0 times it is not a number. A weight of 0 adds 0 "
     "to an entropy: `torch.special.entr` or `torch.xlogy` know it."),
    ("rows that hold a zero set to 0",
     lambda w: _plainly(w.mean(1)).nan_to_num(0.0) - _plainly(w).nan_to_num(0.0).mean(1),
     "One weight of 0 makes the sum of its row not a number. It is the single product that has to "
     "become 0, before the sum is taken."),
    ("the difference turned round", lambda w: -disagreement(w),
     "The mean of some rows is at least as even as they are on average: its entropy comes first, "
     "and the difference is never negative. (Or has the entropy itself lost its minus?)"),
    ("the entropy of the mean map alone", lambda w: entropy(w.mean(1)),
     "That is large, too, where each head is wide by itself. Take off what the heads have on "
     "average."),
    ("the mean of the entropies alone", lambda w: entropy(w).mean(1),
     "That says how wide heads are, not whether they attend to different keys."),
    ("the sum of the heads in place of their mean",
     lambda w: entropy(w.sum(1)) - entropy(w).mean(1),
     "The sum of the rows is no distribution: divide by the number of heads."),
    ("the sum of the entropies taken off", lambda w: entropy(w.mean(1)) - entropy(w).sum(1),
     "Take off the mean of the heads' entropies, not their sum."),
    ("the widest head taken off", lambda w: entropy(w.mean(1)) - entropy(w).amax(1),
     "All heads count alike: take off the mean of their entropies."),
    ("the spread of the entropies", lambda w: entropy(w).amax(1) - entropy(w).amin(1),
     "Two sharp heads on different keys have the same entropy, and still disagree. Average the "
     "maps first."),
    ("in bits", lambda w: disagreement(w) / math.log(2),
     "The chapter's entropy is in nats, with the natural logarithm."),
    ("divided by the logarithm of the number of heads",
     lambda w: disagreement(w) / math.log(max(2, w.shape[1])),
     "That is the share of the greatest disagreement. The task asks for the difference itself."),
    ("averaged over the queries", lambda w: disagreement(w).mean(-1),
     "Each query has its own number: the shape is (B, T)."),
    ("one number for everything", lambda w: disagreement(w).mean(),
     "Each query of each sentence has its own number: the shape is (B, T)."),
    ("the sentences averaged in place of the heads",
     lambda w: entropy(w.mean(0)) - entropy(w).mean(0),
     "Heads are the second axis of (B, H, T, S)."),
    ("entropy over the queries",
     lambda w: torch.special.entr(w.mean(1)).sum(-2) - torch.special.entr(w).sum(-2).mean(1),
     "A row of weights belongs to one query. The sum runs over its keys, the last axis."),
    ("the quotient of both", lambda w: entropy(w.mean(1)) / entropy(w).mean(1),
     "Sharp heads have an entropy of 0: take the difference."),
    ("the sum over the heads", lambda w: disagreement(w) * w.shape[1],
     "How far each head is from the mean map, added up. Asked for is the mean over the heads."),
    ("the exponential of the difference", lambda w: disagreement(w).exp(),
     "That reads as a number of groups of heads. The task asks for the difference in nats."),
    ("the variance of the weights", lambda w: w.var(1, unbiased=False).sum(-1),
     "That is another measure of how much heads differ. Asked for is the difference of entropies."),
    ("a small number added under the logarithm",
     lambda w: (lambda e: e(w.mean(1)) - e(w).mean(1))(lambda x: -(x * (x + 1e-3).log()).sum(-1)),
     "That keeps the zeros out and changes all other weights a little. `torch.special.entr` knows "
     "that 0 log 0 is 0."),
    ("bits less nats",
     lambda w: entropy(w.mean(1)) / math.log(2) - entropy(w).mean(1),
     "Both entropies are in nats, with the natural logarithm."),
    ("nats less bits",
     lambda w: entropy(w.mean(1)) - entropy(w).mean(1) / math.log(2),
     "Both entropies are in nats, with the natural logarithm."),
    ("the difference of the numbers of words",
     lambda w: entropy(w.mean(1)).exp() - entropy(w).mean(1).exp(),
     "Asked for is the difference of the entropies themselves, in nats."),
    ("divided by the number of heads once more", lambda w: disagreement(w) / w.shape[1],
     "The means over the heads are taken already, of the maps and of the entropies."),
    ("divided by the logarithm of the number of keys",
     lambda w: disagreement(w) / math.log(w.shape[-1]),
     "That makes it a share of the greatest entropy. The task asks for the difference itself."),
    ("the sharpest head taken off", lambda w: entropy(w.mean(1)) - entropy(w).amin(1),
     "All heads count alike: take off the mean of their entropies."),
    ("the two entropies added", lambda w: entropy(w.mean(1)) + entropy(w).mean(1),
     "The entropy that each head has by itself is to be taken off, not added."),
    ("each head by itself", lambda w: entropy(w.mean(1, keepdim=True)) - entropy(w),
     "The heads' entropies are averaged, too: one number for each query, (B, T)."),
    ("averaged over the keys in place of added up",
     lambda w: disagreement(w) / w.shape[-1],
     "An entropy is the sum over the keys, the last axis."),
    ("the queries averaged in place of the heads",
     lambda w: entropy(w.mean(2)) - entropy(w).mean(2),
     "Heads are the axis 1, of (B, H, T, S)."),
    ("a hundredth added under the logarithm", lambda w: _lifted(w, 1e-2),
     "Zeros are left out by themselves: 0 log 0 = 0. What is added changes all the others."),
    ("the standard deviation of the entropies", lambda w: entropy(w).std(1, unbiased=False),
     "Two heads may be equally sharp, and look elsewhere: compare the entropy of the mean map with "
     "the mean of the entropies."),
    ("the largest weight of any head in place of the mean",
     lambda w: entropy(w.amax(1)) - entropy(w).mean(1),
     "The heads' maps are averaged: the mean over axis 1."),
    ("the maps multiplied in place of averaged",
     lambda w: entropy(w.prod(1)) - entropy(w).mean(1),
     "The heads' maps are averaged: the mean over axis 1."),
    ("heads and sentences averaged together",
     lambda w: entropy(w.mean((0, 1))) - entropy(w).mean((0, 1)),
     "Heads are the axis 1. The sentences stay apart: the shape is (B, T)."),
    ("the first head's entropy taken off", lambda w: entropy(w.mean(1)) - entropy(w)[:, 0],
     "All heads count alike: take off the mean of their entropies."),
    ("the median of the entropies taken off",
     lambda w: entropy(w.mean(1)) - entropy(w).median(1).values,
     "Take off the mean of the heads' entropies, not the one in the middle."),
    *((f"in bits, and {name}", lambda w, number=number: number(w) / math.log(2),
       f"{why} And entropies are in nats, with the natural logarithm.")
      for name, number, why in (
          ("the sum of the entropies taken off",
           lambda w: entropy(w.mean(1)) - entropy(w).sum(1),
           "Take off the mean of the heads' entropies, not their sum."),
          ("the sum of the heads in place of their mean",
           lambda w: entropy(w.sum(1)) - entropy(w).mean(1),
           "The sum of the rows is no distribution: divide by the number of heads."),
          ("the entropy of the mean map alone", lambda w: entropy(w.mean(1)),
           "Take off what the heads have on average."),
          ("the mean of the entropies alone", lambda w: entropy(w).mean(1),
           "It is taken off the entropy of the mean map."),
          ("the widest head taken off", lambda w: entropy(w.mean(1)) - entropy(w).amax(1),
           "Take off the mean of the heads' entropies."),
      )),
    ("in bits, and the difference turned round", lambda w: -disagreement(w) / math.log(2),
     "The entropy of the mean comes first, and both are in nats, with the natural logarithm."),
    ("what is not a number set to 0 at the end",
     lambda w: (_plainly(w.mean(1)) - _plainly(w).mean(1)).nan_to_num(0.0),
     "One weight of 0 makes the whole sum not a number. It is the single product that has to "
     "become 0, before the sum is taken."),
    ("only what differs between each head's entropy and that of the mean, without its sign",
     lambda w: (entropy(w) - entropy(w.mean(1, keepdim=True))).abs().mean(1),
     "One head may be wider than the mean map. Take the means first, and no absolute value."),
    ("1 added under the logarithm", lambda w: _lifted(w, 1.0),
     "That is another sum. 0 log 0 is 0: `torch.special.entr` knows it."),
    ("the mean of the entropies less that of the summed maps, divided by the heads",
     lambda w: entropy(w).mean(1) - entropy(w.sum(1)) / w.shape[1],
     "The mean of the maps has an entropy of its own: divide the maps first, and take off the mean "
     "of the entropies."),
    ("the sums of both over the heads", lambda w: entropy(w.sum(1)) - entropy(w).sum(1),
     "Both are means over the heads: of the maps, and of their entropies."),
    ("the last query alone", lambda w: disagreement(w)[:, -1],
     "Each query has its own number: the shape is (B, T)."),
    ("how far the mean map is from the heads, seen from the mean",
     lambda w: (lambda m: (torch.xlogy(m, m) - torch.xlogy(m, w.clamp(min=1e-9))).sum(-1).mean(1))(
         w.mean(1, keepdim=True)),
     "Each logarithm is weighed by the head itself: the entropy of the mean, less the mean of the "
     "entropies."),
)  # fmt: skip


# 15.2 what an even map scores


def even_scores(lengths: list[int]) -> tuple[float, float]:
    return _even()(lengths)


EVEN_CASES = [
    ([3],), ([2, 5],), ([1, 4, 4],), ([7, 3, 2],), ([2],), ([6, 1, 9],), ([2, 5, 2],),
]  # fmt: skip


def _even(
    source: Callable[[int, int], float] = lambda t, n: 1 / n,
    target: Callable[[int, int], float] = lambda t, n: 1 / (t + 1),
    first: int = 1,
) -> Callable[..., tuple]:
    """Both scores, right by default: what query t of n puts on the one before, counted from 0."""

    def answer(lengths: list[int]) -> tuple[float, float]:
        asked = [(t, n) for n in lengths for t in range(first, n)]
        count = len(asked)
        return sum(source(*q) for q in asked) / count, sum(target(*q) for q in asked) / count

    return answer


def _each_sentence(lengths: list[int]) -> tuple[float, float]:
    scores = [even_scores([n]) for n in lengths if n > 1]
    return tuple(sum(column) / len(scores) for column in zip(*scores, strict=True))


def _mean_length(lengths: list[int]) -> tuple[float, float]:
    return len(lengths) / sum(lengths), even_scores(lengths)[1]


def _mean_length_asked(lengths: list[int]) -> tuple[float, float]:
    asked = [n for n in lengths if n > 1]
    return len(asked) / sum(asked), even_scores(lengths)[1]


def _last_not_asked(lengths: list[int]) -> tuple[float, float]:
    asked = [(t, n) for n in lengths for t in range(2, n)]
    count = max(1, len(asked))
    return sum(1 / n for _, n in asked) / count, sum(1 / t for t, _ in asked) / count


def _decoder(first: int, last: int, count: int) -> Callable[[list[int]], tuple[float, float]]:
    """The decoder's mean over queries `first` to n + `last`, divided by those or, with `count`, by
    the right number."""

    def answer(lengths: list[int]) -> tuple[float, float]:
        asked = [1 / t for n in lengths for t in range(first, n + last + 1)]
        number = sum(n - 1 for n in lengths) if count else len(asked)
        return even_scores(lengths)[0], sum(asked) / number if number else math.nan

    return answer


EVEN_MISTAKES = mistakes(
    ("the decoder's last query not asked", _decoder(2, -1, 0),
     "The last token has one before it as well: t goes up to n, `range(2, n + 1)`."),
    ("the decoder's second query not asked", _decoder(3, 0, 0),
     "The second token is the first that has one before it: t begins with 2."),
    ("the decoder's second query left out of the sum, not of the count", _decoder(3, 0, 1),
     "The second token is the first that has one before it: t begins with 2."),
    *((f"a query behind the decoder's last{words}", _decoder(2, 1, count),
       "A sentence has n tokens: t goes up to n, `range(2, n + 1)`.")
      for words, count in ((" asked", 0), (" in the sum, not in the count", 1))),
    ("the first query of the encoder in the sum, not in the count",
     lambda lengths: (sum(1 for _ in lengths) / sum(n - 1 for n in lengths),
                      even_scores(lengths)[1]),
     "The first token has none before it: n - 1 queries of a sentence are asked."),
    ("the last query of each sentence not asked", _last_not_asked,
     "`range(2, n)` ends at n - 1. The last token has one before it as well: t goes up to n."),
    ("the sentences taken for one", lambda lengths: even_scores([sum(lengths)]),
     "Nobody sees another sentence: each has its own even weights."),
    ("a list for each sentence",
     lambda lengths: (
         [1 / n for n in lengths],
         [sum(1 / t for t in range(2, n + 1)) / max(1, n - 1) for n in lengths],
     ),
     "Asked for are two numbers: means over the queries of all sentences."),
    ("one over the mean length, and twice that",
     lambda lengths: (len(lengths) / sum(lengths), 2 * len(lengths) / sum(lengths)),
     "Long sentences ask more queries, and a decoder's query number t sees t tokens: take the "
     "mean over all queries that have a token before them."),
    ("one sentence of the mean length",
     lambda lengths: even_scores([round(sum(lengths) / len(lengths))]),
     "1/n is no straight line, and long sentences ask more queries: go through all of them."),
    ("the decoder's query sees half of the sentence", _even(target=lambda t, n: 2 / (n + 1)),
     "Take the mean of what each query gives, 1/t, not one over the mean of what they see."),
    ("a mean of the sentences' means", _each_sentence,
     "In (15.1) every query counts the same, so a long sentence counts more. Add up first, divide "
     "once."),
    ("one over the mean length, or the first queries counted in the encoder", _mean_length,
     "Each query has one over the length of its own sentence. The first of each sentence does not "
     "count; with it, the mean over all queries is one over the mean length."),
    ("one over the mean length of the sentences that have two words", _mean_length_asked,
     "The encoder's score is a mean of 1/n, not one over the mean of n; and it is taken over the "
     "queries, of which a long sentence has more."),
    ("the first query counted, with nothing",
     _even(lambda t, n: (t > 0) / n, lambda t, n: (t > 0) / (t + 1), first=0),
     "The first token has none before it. In (15.1) its query does not count, not even as 0."),
    ("the first query counted with a weight", _even(first=0),
     "The first token has none before it: its query is not asked."),
    ("the decoder like the encoder", _even(target=lambda t, n: 1 / n),
     "The decoder's rows are masked: a query sees itself and what stands before it, and shares "
     "its weight among these."),
    ("the encoder like the decoder", _even(source=lambda t, n: 1 / (t + 1)),
     "In the encoder every query sees the whole sentence."),
    ("the two exchanged", lambda lengths: even_scores(lengths)[::-1], "The encoder comes first."),
    ("a query that does not see itself",
     _even(lambda t, n: 1 / (n - 1), lambda t, n: 1 / t),
     "A query sees its own token, too, in the encoder and in the decoder."),
    ("one key too few for each of the decoder's queries, as if it did not see itself",
     _even(target=lambda t, n: 1 / t),
     "The causal mask lets a query see itself: the second token has two keys. (Whoever divides a "
     "map by its rows' sums needs `keepdim=True`.)"),
    ("one key too many in the encoder", _even(lambda t, n: 1 / (n + 1)),
     "`lengths` counts all tokens of a sentence: each has n keys."),
    ("a decoder's query that sees the next token", _even(target=lambda t, n: 1 / min(n, t + 2)),
     "The second token has two keys, the third three: itself and those before."),
    ("padding among the keys",
     lambda lengths: (1 / max(lengths), even_scores(lengths)[1]),
     "Padding is masked: a query of a short sentence shares its weight among its own tokens."),
    ("the last query of the decoder forgotten",
     _even(target=lambda t, n: (t < n - 1) / (t + 1)),
     "The last token has one before it as well: the sum runs up to the length of the sentence."),
    ("a mean over the sentences, and in each over its queries",
     lambda lengths: (sum(1 / n for n in lengths) / len(lengths), _each_sentence(lengths)[1]),
     "In (15.1) every query counts the same, so a long sentence counts more. Add up first, divide "
     "once."),
    ("sums in place of means",
     lambda lengths: tuple(
         x * sum(n - 1 for n in lengths) for x in even_scores(lengths)
     ),
     "Divide by the number of queries that have a token before them."),
    ("the encoder's alone, twice", lambda lengths: (even_scores(lengths)[0] / 2,) * 2,
     "A mask does not halve the weights. Ask how many keys each query has."),
    ("the last query for all", lambda lengths: (even_scores(lengths)[0], _mean_length(lengths)[0]),
     "Early queries of the decoder have fewer keys, and more weight on each."),
    ("an encoder's query that does not see itself", _even(lambda t, n: 1 / (n - 1)),
     "In the encoder a query sees all n tokens of its sentence, itself included."),
    ("the first query of the decoder counted with a weight",
     lambda lengths: (even_scores(lengths)[0], _even(first=0)(lengths)[1]),
     "The first token has none before it: its query is not asked."),
    ("the decoder twice the encoder",
     lambda lengths: (even_scores(lengths)[0], 2 * even_scores(lengths)[0]),
     "That it is about twice is what happens for these lengths. Query t of the decoder sees t "
     "tokens: add up 1 / t."),
    ("the logarithm of the length in place of the sum",
     lambda lengths: (
         even_scores(lengths)[0],
         sum(math.log(n) for n in lengths) / sum(n - 1 for n in lengths),
     ),
     "The sum of 1/2, 1/3, ..., 1/n is only near the logarithm of n: add up the fractions."),
    ("the decoder's first query in the sum, but not in the count",
     lambda lengths: (
         even_scores(lengths)[0],
         even_scores(lengths)[1] + len(lengths) / sum(n - 1 for n in lengths),
     ),
     "The first token has none before it: the sum begins with the second query, with 1/2."),
    ("divided by the number of sentences",
     lambda lengths: tuple(x * (sum(lengths) - len(lengths)) / len(lengths)
                           for x in even_scores(lengths)),
     "Each query that has a token before it counts once: divide by their number."),
    ("one token too many in the decoder", _even(target=lambda t, n: 1 / (t + 2)),
     "The t-th token sees itself and those before it, t in all."),
    ("one over all tokens of all sentences",
     lambda lengths: (1 / sum(lengths), even_scores(lengths)[1]),
     "A query of the encoder sees the tokens of its own sentence, and no others."),
    ("a mean of the sentences' means, the first query counted with a weight",
     lambda lengths: tuple(
         sum(column) / len(lengths)
         for column in zip(*(_even(first=0)([n]) for n in lengths), strict=True)),
     "The first token has none before it and is no such query. And each query counts once, "
     "whatever its sentence."),
    ("in the encoder each sentence counted once",
     lambda lengths: (sum(1 / n for n in lengths if n > 1) / sum(n > 1 for n in lengths),
                      even_scores(lengths)[1]),
     "Each query counts once: a long sentence has more of them than a short one."),
    ("from the mean length, in the decoder one over the mean number of keys",
     lambda lengths: (lambda mean: (1 / mean, 2 / (mean + 1)))(sum(lengths) / len(lengths)),
     "1/n is no straight line, and long sentences ask more queries: go through all of them, and "
     "take the mean of what each query gives."),
    ("one over the mean number of keys, in the encoder",
     lambda lengths: (sum(n - 1 for n in lengths) / sum(n * (n - 1) for n in lengths),
                      even_scores(lengths)[1]),
     "Each query has one over its own number of keys. Take the mean of these, not one over the "
     "mean of the numbers."),
    ("a mean over the sentences, those of one token among them",
     lambda lengths: (sum(1 / n for n in lengths) / len(lengths),
                      sum(even_scores([n])[1] for n in lengths if n > 1) / len(lengths)),
     "In (15.1) every query that has a token before it counts the same, so a long sentence counts "
     "more, and one of one token not at all."),
    ("a mean of the sentences' means, with 0 for those of one token",
     lambda lengths: tuple(
         sum(n > 1 for n in lengths) * mean / len(lengths) for mean in _each_sentence(lengths)
     ),
     "In (15.1) every query that has a token before it counts the same, so a long sentence counts "
     "more, and one of one token not at all."),
    ("the lengths less one", lambda lengths: even_scores([n - 1 for n in lengths if n > 2] or [2]),
     "A query of the encoder sees all tokens of its sentence, the last as well."),
    ("sentences of one length taken for one", lambda lengths: even_scores([*set(lengths)]),
     "Two sentences may be equally long. Each of them has queries of its own."),
    ("a query counted for each sentence of one token",
     lambda lengths: tuple(
         x * (n := sum(lengths) - len(lengths)) / (n + lengths.count(1))
         for x in even_scores(lengths)),
     "The only token of a sentence has none before it: nothing is asked there."),
    ("one over the mean number of keys, in the decoder",
     lambda lengths: (even_scores(lengths)[0], sum(n - 1 for n in lengths)
                      / sum(t for n in lengths for t in range(2, n + 1))),
     "Each query has one over its own number of keys. Take the mean of these, not one over the "
     "mean of the numbers."),
    ("every sentence counted as if it were the longest",
     lambda lengths: tuple(
         x * (sum(lengths) - len(lengths)) / (len(lengths) * (max(lengths) - 1))
         for x in even_scores(lengths)),
     "A sentence of n tokens has n - 1 such queries. What is padding asks nothing."),
    ("the first sentence alone that has two tokens",
     lambda lengths: even_scores([n for n in lengths if n > 1][:1]),
     "The mean is over the queries of all sentences."),
    ("the next token in the decoder", lambda lengths: (even_scores(lengths)[0], 0.0),
     "That is hidden by the mask. The pattern is the token *before* the query's own."),
    *((f"{name}, and the two exchanged", lambda lengths, slip=slip: slip(lengths)[::-1],
       f"{why} And the encoder comes first: `(encoder, decoder)`.")
      for name, slip, why in (
          ("the first query counted, with nothing",
           _even(lambda t, n: (t > 0) / n, lambda t, n: (t > 0) / (t + 1), first=0),
           "The first token has none before it. In (15.1) its query does not count, not even as "
           "0."),
          ("the first query counted with a weight", _even(first=0),
           "The first token has none before it: its query is not asked."),
          ("a mean of the sentences' means", _each_sentence,
           "In (15.1) every query counts the same, so a long sentence counts more."),
          ("a query that does not see itself", _even(lambda t, n: 1 / (n - 1), lambda t, n: 1 / t),
           "A query sees its own token, too."),
          ("one token too many in the decoder", _even(target=lambda t, n: 1 / (t + 2)),
           "The t-th token sees itself and those before it, t in all."),
      )),
    ("one token more in each sentence", lambda lengths: even_scores([n + 1 for n in lengths]),
     "`lengths` counts all tokens of a sentence, its `<eos>` as well."),
)  # fmt: skip


# 15.3 a gentler ablation


def gentle(weight: Tensor, n_heads: int, head: int, outputs: Tensor) -> tuple[Tensor, Tensor]:
    return _gentle()(weight, n_heads, head, outputs)


def gentle_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(153)
    sizes = ((6, 6, 2, 1, 5), (8, 12, 4, 2, 3), (6, 12, 3, 0, 4), (9, 9, 3, 2, 2), (1, 2, 2, 1, 1))
    example = (
        torch.tensor([[1.0, 2.0, 3.0, 4.0]]), 2, 1,
        torch.tensor([[5.0, 0.0, 1.0, 0.0], [7.0, 0.0, 3.0, 1.0]]),
    )  # fmt: skip
    return [
        example,
        *(
            (torch.randn(d, hv, generator=draw), h, i, torch.randn(n, hv, generator=draw))
            for d, hv, h, i, n in sizes
        ),
    ]


def _columns(width: int, n_heads: int, head: int) -> slice:
    size = width // n_heads
    return slice(head * size, (head + 1) * size)


def _gentle(
    columns: Callable[..., slice] = _columns,
    average: Callable[[Tensor], Tensor] = lambda x: x.mean(0),
    others: bool = False,
    zeroed: bool = True,
    scale: float = 1.0,
) -> Callable[..., tuple]:
    """Weight and bias, right by default; each argument makes one mistake."""

    def answer(weight: Tensor, n_heads: int, head: int, outputs: Tensor) -> tuple[Tensor, Tensor]:
        there = torch.zeros(weight.shape[1], dtype=torch.bool)
        there[columns(weight.shape[1], n_heads, head)] = True
        if others:
            there = ~there
        left = weight * ~there if zeroed else weight
        return left, scale * (weight[:, there] @ average(outputs)[there])

    return answer


def _rows_emptied(w: Tensor, n: int, i: int, x: Tensor) -> tuple[Tensor, Tensor]:
    left = w.clone()
    left[_columns(w.shape[1], n, i)] = 0
    return left, gentle(w, n, i, x)[1]


def _all_by_rows(w: Tensor, n: int, i: int, x: Tensor) -> tuple[Tensor, Tensor]:
    left = w.clone()
    left[_columns(w.shape[0], n, i)] = 0
    return left, (w - left) @ x.mean(0)


GENTLE_SLIPS = [
    ("heads counted from 1", {"columns": lambda width, n, i: _columns(width, n, (i - 1) % n)},
     "Heads are counted from 0."),
    ("every n_heads-th column", {"columns": lambda width, n, i: slice(i, None, n)},
     "The heads stand side by side: the d_v columns of one head are neighbours."),
    ("a bias of zeros", {"scale": 0.0}, "The head adds the mean of what it added, as a bias."),
    ("the bias taken off", {"scale": -1.0}, "The layer *adds* its bias."),
    ("the sum in place of the mean", {"average": lambda x: x.sum(0)},
     "Divide by the number of places."),
]  # fmt: skip


GENTLE_KNOWN = [
    ("a bias of zeros", "the sum in place of the mean"),
    ("every n_heads-th column", "the sum in place of the mean"),
]


GENTLE_MISTAKES = mistakes(
    ("a mean over the vector in place of the places",
     lambda w, n, i, x: (
         gentle(w, n, i, x)[0],
         (x[:, _columns(w.shape[1], n, i)] @ w[:, _columns(w.shape[1], n, i)].T).mean(1),
     ),
     "The mean is over the N places, the first axis: a bias has d_model numbers."),
    ("the columns from the head's number on, up to its last",
     _gentle(lambda width, n, i: slice(i, (i + 1) * (width // n))),
     "The first column of a head is its number times d_v."),
    ("as many columns as a head has, from its number on",
     _gentle(lambda width, n, i: slice(i, i + width // n)),
     "The first column of a head is its number times d_v."),
    ("the head and the one behind it",
     _gentle(lambda width, n, i: slice(i * (width // n), (i + 2) * (width // n))),
     "A head has d_v columns, from `head * d_v` up to `(head + 1) * d_v`."),
    ("as many columns as d_model / n_heads",
     lambda w, n, i, x: _gentle(lambda width, n, i: _columns(len(w), n, i))(w, n, i, x),
     "`weight` has d_model rows and h d_v columns, and a head has d_v of these: `weight.shape[1] "
     "// n_heads`, not `weight.shape[0] // n_heads`."),
    ("the head behind the one that is meant",
     _gentle(lambda width, n, i: _columns(width, n, (i + 1) % n)),
     "Heads are counted from 0: head number i has the columns from i d_v on."),
    ("heads counted from 1, and the first for number 0",
     _gentle(lambda width, n, i: _columns(width, n, max(i - 1, 0))), "Heads are counted from 0."),
    *combined(_gentle, GENTLE_SLIPS, GENTLE_KNOWN),
    ("as many rows as heads have columns emptied",
     lambda w, n, i, x: (
         w * (torch.arange(len(w)) // max(1, len(w) // n) != i)[:, None], w @ x.mean(0)
     ),
     "W^O multiplies heads that stand side by side: a head has columns of its weight, not rows."),
    ("one mean for the whole head, and one for each row of its weight",
     lambda w, n, i, x: (
         gentle(w, n, i, x)[0],
         w[:, _columns(w.shape[1], n, i)].mean(1) * x[:, _columns(w.shape[1], n, i)].mean(),
     ),
     "Each entry of the head has its own mean over the places, and meets its own column."),
    ("a bias of zeros", _gentle(scale=0.0),
     "So the head adds nothing, as in the chapter. Here it adds the same vector everywhere, the "
     "mean of what it added. (Does the bias come from columns that are zero already?)"),
    ("the bias from all heads",
     lambda w, n, i, x: (gentle(w, n, i, x)[0], w @ x.mean(0)),
     "The other heads go on as before. Only what this one adds is replaced by its mean."),
    ("one mean of everything that was given",
     lambda w, n, i, x: gentle(w, n, i, x.mean().expand_as(x)),
     "Each column has a mean of its own, over the N places."),
    ("the bias of the other heads",
     lambda w, n, i, x: (gentle(w, n, i, x)[0], _gentle(others=True)(w, n, i, x)[1]),
     "The other heads go on as before. It is this head's mean that goes into the bias."),
    ("the mean of all its numbers",
     lambda w, n, i, x: (
         gentle(w, n, i, x)[0],
         w[:, _columns(w.shape[1], n, i)].sum(1) * x[:, _columns(w.shape[1], n, i)].mean(),
     ),
     "The mean is taken over the places, for each of the d_v numbers by itself."),
    ("a bias for each place",
     lambda w, n, i, x: (
         gentle(w, n, i, x)[0],
         x[:, _columns(w.shape[1], n, i)] @ w[:, _columns(w.shape[1], n, i)].T,
     ),
     "A bias is one vector, the same everywhere: take the mean over the places."),
    ("the head's mean output as bias",
     lambda w, n, i, x: (gentle(w, n, i, x)[0], x[:, _columns(w.shape[1], n, i)].mean(0)),
     "What the head *adds* is its output times its columns of W^O, a vector of d_model numbers."),
    ("the columns left as they are", _gentle(zeroed=False),
     "Now the head adds its mean, and itself besides. Its columns are to be zero."),
    ("the other heads taken out", _gentle(others=True), "The one head goes, and the others stay."),
    ("the sum in place of the mean", _gentle(average=lambda x: x.sum(0)),
     "Divide by the number of places."),
    ("the first place for all", _gentle(average=lambda x: x[0]),
     "The mean runs over all places."),
    ("the median in place of the mean", _gentle(average=lambda x: x.quantile(0.5, dim=0)),
     "Asked for is the mean over the places."),
    ("the bias taken off", _gentle(scale=-1.0),
     "The layer *adds* its bias: it brings back on average what the zeros take away."),
    ("every n_heads-th column", _gentle(lambda width, n, i: slice(i, None, n)),
     "The heads stand side by side: the d_v columns of one head are neighbours."),
    ("heads counted from 1, and no columns for number 0",
     _gentle(lambda width, n, i: slice((i - 1) * (width // n), i * (width // n))),
     "Heads are counted from 0."),
    ("heads counted from 1", _gentle(lambda width, n, i: _columns(width, n, (i - 1) % n)),
     "Heads are counted from 0: head 0 has the first d_v columns."),
    ("heads counted from the right", _gentle(lambda width, n, i: _columns(width, n, n - 1 - i)),
     "Head 0 has the first d_v columns, those on the left."),
    ("only one column", _gentle(lambda width, n, i: slice(i, i + 1)),
     "A head has d_v = (number of columns) / n_heads columns, not one."),
    ("every column from this head on",
     _gentle(lambda width, n, i: slice(i * (width // n), None)),
     "The slice has an end: (head + 1) d_v."),
    ("rows in place of columns, for the bias as well", _all_by_rows,
     "`nn.Linear` multiplies by the transposed weight: each column belongs to one *input*, and the "
     "inputs of W^O are the heads. So d_v is the number of columns by that of the heads."),
    ("rows of the matrix emptied, for the bias as well",
     lambda w, n, i, x: (
         _rows_emptied(w, n, i, x)[0], (w - _rows_emptied(w, n, i, x)[0]) @ x.mean(0)),
     "The weight of an `nn.Linear` is (out, in): what comes from the heads are its columns, and "
     "the bias is what these make of the mean."),
    ("rows in place of columns, and no bias",
     lambda w, n, i, x: (_all_by_rows(w, n, i, x)[0], torch.zeros(len(w))),
     "The weight of an `nn.Linear` is (out, in): the columns belong to the heads. And what the "
     "head added on average is the bias."),
    ("rows in place of columns",
     lambda w, n, i, x: (
         w * (torch.arange(len(w)) // max(1, len(w) // n) != i)[:, None], gentle(w, n, i, x)[1]
     ),
     "`nn.Linear` multiplies by the transposed weight: each column belongs to one *input*, and the "
     "inputs of W^O are the heads."),
    ("bias and weight exchanged", lambda w, n, i, x: gentle(w, n, i, x)[::-1],
     "The weight comes first."),
    ("the weight alone", lambda w, n, i, x: gentle(w, n, i, x)[0],
     "Return both, the weight and the bias."),
    ("the other heads emptied",
     lambda w, n, i, x: (w - gentle(w, n, i, x)[0], gentle(w, n, i, x)[1]),
     "The one head goes, and the others stay."),
    ("the bias alone", lambda w, n, i, x: gentle(w, n, i, x)[1],
     "Return both, the weight and the bias."),
    ("the next head", _gentle(lambda width, n, i: _columns(width, n, min(i + 1, n - 1))),
     "Heads are counted from 0: head i has the columns from i d_v to (i + 1) d_v."),
    ("the columns taken out of the matrix",
     lambda w, n, i, x: (w[:, [k not in range(w.shape[1])[_columns(w.shape[1], n, i)]
                               for k in range(w.shape[1])]], gentle(w, n, i, x)[1]),
     "The layer goes on being multiplied with all heads: its columns stay, and are zero."),
    ("the lower median in place of the mean", _gentle(average=lambda x: x.median(0).values),
     "Taken out is what differs from the mean, so the mean is what stays."),
    ("the mean of the sizes", _gentle(average=lambda x: x.abs().mean(0)),
     "The mean of the outputs as they are, with their signs."),
    ("the mean of the columns as bias",
     lambda w, n, i, x: (gentle(w, n, i, x)[0], w[:, _columns(w.shape[1], n, i)].mean(1)),
     "The bias is what the columns make of the head's mean output: their product."),
    ("columns of the width n_heads", _gentle(lambda width, n, i: slice(i * n, (i + 1) * n)),
     "A head has `weight.shape[1] // n_heads` columns: its width, not the number of heads."),
    ("every n_heads-th column, and the sum in place of the mean",
     _gentle(lambda width, n, i: slice(i, None, n), lambda x: x.sum(0)),
     "The heads stand side by side: a block of columns each. And the bias is made of the mean."),
    ("the head's columns set to their mean",
     lambda w, n, i, x: (w.index_fill(
         1, torch.arange(w.shape[1])[_columns(w.shape[1], n, i)],
         float(w[:, _columns(w.shape[1], n, i)].mean())), gentle(w, n, i, x)[1]),
     "What stays of the head is in the bias. Its columns are zero."),
    ("rows of the matrix emptied", _rows_emptied,
     "The weight of an `nn.Linear` is (out, in): what comes from the heads are its columns."),
    ("the other heads made louder",
     lambda w, n, i, x: (gentle(w, n, i, x)[0] * n / max(1, n - 1), gentle(w, n, i, x)[1]),
     "The other heads bring what they brought before."),
    ("every column up to the end of this head",
     _gentle(columns=lambda width, n, i: slice(0, (i + 1) * (width // n))),
     "The slice has a beginning: head number `head` has the columns from head d_v on."),
    ("the first column of the head alone",
     _gentle(columns=lambda width, n, i: slice(i * (width // n), i * (width // n) + 1)),
     "A head has d_v columns side by side: `weight.shape[1] // n_heads` of them."),
    ("the sum divided by N - 1",
     _gentle(average=lambda x: x.sum(0) / max(1, len(x) - 1)),
     "That is for variances. The mean over N places is their sum divided by N."),
    ("the columns set to their mean, and no bias",
     lambda w, n, i, x: (
         w.index_copy(1, (c := torch.arange(w.shape[1])[_columns(w.shape[1], n, i)]),
                      w[:, c].mean(1, keepdim=True).expand(-1, len(c))), 0 * w[:, 0]),
     "The mean is taken over the places, of what the head gave, and goes through its columns into "
     "the bias. Its columns are then zero."),
    ("the head's last column left out",
     _gentle(columns=lambda width, n, i: slice(i * (width // n), (i + 1) * (width // n) - 1)),
     "A slice ends before its second number: `head * d_v : (head + 1) * d_v`."),
    ("a column of the next head as well",
     _gentle(columns=lambda width, n, i: slice(i * (width // n), (i + 1) * (width // n) + 1)),
     "A slice ends before its second number: `head * d_v : (head + 1) * d_v`."),
)  # fmt: skip


# 15.4 links that both sides want


def agreed(weights: Tensor) -> list[tuple[int, int]]:
    return _agreed()(weights)


def agreed_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(154)
    cases = [(torch.tensor([[0.5, 0.2, 0.3], [0.6, 0.15, 0.25], [0.3, 0.1, 0.6]]),)]
    for T, S, likes_eos in ((5, 4, 1.0), (4, 6, 0.0), (6, 6, 1.5), (3, 3, 2.0), (7, 5, 0.5)):
        scores = 2 * torch.randn(T, S, generator=draw)
        scores[:, -1] += likes_eos
        cases.append((scores.softmax(-1),))
    return cases


def _agreed(
    rows: slice = slice(None, -1),
    columns: slice = slice(None, -1),
    want: Callable[..., bool] = lambda by_row, by_column: by_row and by_column,
    best: Callable[..., Tensor] = torch.argmax,
    step: tuple[int, int] = (0, 0),
) -> Callable[[Tensor], list]:
    """The pairs, right by default; each argument makes one mistake."""

    def answer(weights: Tensor) -> list[tuple[int, int]]:
        some = weights[rows, columns]
        by_row, by_column = best(some, 1).tolist(), best(some, 0).tolist()
        return [
            (t + step[0], s + step[1])
            for t, s in product(range(some.shape[0]), range(some.shape[1]))
            if want(by_row[t] == s, by_column[s] == t)
        ]

    return answer


def _pairs(output: object) -> object:
    """In order, each once; a set or a tensor is as good as a list."""
    output = output.tolist() if isinstance(output, Tensor | np.ndarray) else output
    if not isinstance(output, list | tuple | set | frozenset):
        return output
    if any(len(pair) != 2 for pair in output):
        return output
    return sorted({tuple(int(x) for x in pair) for pair in output})


def _one_by_one(weights: Tensor) -> list[tuple[int, int]]:
    left, links = weights[:-1, :-1].clone(), []
    for _ in range(min(left.shape)):
        t, s = divmod(int(left.argmax()), left.shape[1])
        links.append((t, s))
        left[t], left[:, s] = -1, -1
    return links


def _first_come(weights: Tensor) -> list[tuple[int, int]]:
    links: dict[int, int] = {}
    for t, s in enumerate(weights[:-1, :-1].argmax(1).tolist()):
        links.setdefault(s, t)
    return [(t, s) for s, t in links.items()]


def _looked_up_wrong(weights: Tensor) -> list[tuple[int, int]]:
    by_row, by_column = (weights[:-1, :-1].argmax(axis).tolist() for axis in (1, 0))
    return [(t, s) for t, s in enumerate(by_row) if t < len(by_column) and by_column[t] == s]


AGREED_MISTAKES = mistakes(
    ("a column given to the first row that wants it", _first_come,
     "The source word chooses as well: of its column the largest weight, wherever it stands."),
    ("the last source token left out, too", _agreed(columns=slice(None, -2)),
     "Only the end of the source, the last column, is left out."),
    ("the last target token left out, too", _agreed(rows=slice(None, -2)),
     "Only the row that reads the last token, and writes the end, is left out."),
    ("the place that each target word wants",
     lambda weights: weights[:-1, :-1].argmax(1).tolist(),
     "Asked for are pairs, (of y, of x), where both want each other."),
    ("what the rows want, the last row among them",
     _agreed(rows=slice(None), want=lambda by_row, by_column: by_row),
     "The last row writes `<eos>`, and the source word must want the target word as well."),
    ("columns made to sum to one again",
     lambda weights: _agreed()(
         torch.nn.functional.pad(weights[:-1, :-1] / weights[:-1, :-1].sum(0), (0, 1, 0, 1))
     ),
     "Compare the weights as they are: divided by the columns' sums, other ones are the largest of "
     "their rows."),
    ("a dictionary", lambda weights: dict(agreed(weights)),
     "The links are right. Return them as pairs, `list(links.items())`."),
    ("how many links there are", lambda weights: len(agreed(weights)),
     "Asked for are the links themselves, as pairs."),
    ("rows made to sum to one again",
     lambda weights: _agreed()(
         torch.nn.functional.pad(
             weights[:-1, :-1] / weights[:-1, :-1].sum(1, keepdim=True), (0, 1, 0, 1)
         )
     ),
     "Divided by its sum, a row may win a column that it does not win. Take the weights as they "
     "are."),
    ("the numbers of row and column exchanged in the second look", _looked_up_wrong,
     "What y wants is a column, and what this column wants must be that row."),
    ("-1 where there is no link",
     lambda weights: [(t, dict(agreed(weights)).get(t, -1)) for t in range(len(weights) - 1)],
     "A word without a link is left out of the list."),
    ("the row that reads the token, not the one that writes it", _agreed(rows=slice(1, None)),
     "Off by one: y_1 is written by the row of `<bos>`, the first. The last row writes `<eos>`."),
    ("the end of the source allowed", _agreed(columns=slice(None)),
     "The last column is that of `<eos>`, which is not a word. Leave it out before any largest "
     "weight is looked for."),
    ("the last row allowed", _agreed(rows=slice(None)),
     "The last row writes `<eos>`. Leave it out before any largest weight is looked for."),
    ("the last row and the end of the source allowed", _agreed(slice(None), slice(None)),
     "The last row writes `<eos>`, and the last column is that of `<eos>`. Both are to be left "
     "out."),
    ("the wrong row, and the end of the source allowed", _agreed(slice(1, None), slice(None)),
     "Two mistakes: y_1 is written by the row of `<bos>`, and the last column is to be left out."),
    ("the end of the source left out too late", lambda weights: [
        (t, s) for t, s in enumerate(weights[:-1].argmax(1).tolist())
        if s < weights.shape[1] - 1 and weights[:-1, :-1].argmax(0)[s] == t
     ],
     "A word that attends most to `<eos>` has a largest weight among the words as well. Leave the "
     "column out before you look."),
    ("the last row left out too late", lambda weights: [
        (t, s) for t, s in enumerate(weights[:-1, :-1].argmax(1).tolist())
        if weights[:, :-1].argmax(0)[s] == t
     ],
     "The last row writes `<eos>`, and must not win a column. Leave it out before you look."),
    ("the row that reads the token, and its number in the map",
     _agreed(rows=slice(1, None), step=(1, 0)),
     "Off by one, twice: y_1 is written by the row of `<bos>`, the first, and its index is 0."),
    ("the first source token left out, and the rest counted from 0",
     _agreed(columns=slice(1, None)),
     "The source has no `<bos>`. What is to be left out is its `<eos>`, the last column."),
    ("both left out too late", lambda weights: [
        (t, s) for t, s in enumerate(weights[:-1].argmax(1).tolist())
        if s < weights.shape[1] - 1 and weights.argmax(0)[s] == t
     ],
     "The row and the column that do not count must not win anything either. Leave them out before "
     "you look."),
    ("links of both sides that are above one half",
     lambda weights: [(t, s) for t, s in agreed(weights) if weights[t, s] > 0.5],
     "How large the weight is does not matter, only that none in its row or column is larger."),
    ("the first source token left out", _agreed(columns=slice(1, None), step=(0, 1)),
     "The source has no `<bos>`. What is to be left out is its `<eos>`, the last column."),
    ("what the rows want alone", _agreed(want=lambda by_row, by_column: by_row),
     "That is the chapter's alignment. Here the source word must want the target word as well."),
    ("what the columns want alone", _agreed(want=lambda by_row, by_column: by_column),
     "The target word must want the source word as well."),
    ("what either side wants", _agreed(want=lambda by_row, by_column: by_row or by_column),
     "That is the union. A link needs both."),
    ("what one side wants and the other does not",
     _agreed(want=lambda by_row, by_column: by_row != by_column),
     "A link needs both sides."),
    ("the smallest weights", _agreed(best=torch.argmin),
     "A word is linked where its weight is largest."),
    ("counted from 1", _agreed(step=(1, 1)), "Both indices begin at 0."),
    ("source words counted from 1", _agreed(step=(0, 1)), "Both indices begin at 0."),
    ("rows of the map in place of target words", _agreed(step=(1, 0)),
     "Row 0 writes y_1, whose index is 0."),
    ("the pairs turned round", lambda weights: [pair[::-1] for pair in agreed(weights)],
     "The target word comes first: (t, s)."),
    ("all weights above one half",
     lambda weights: [tuple(x) for x in (weights[:-1, :-1] > 0.5).nonzero().tolist()],
     "How large the weight is does not matter, only that none in its row or column is larger."),
    ("the row that reads the token, and the first source token left out",
     _agreed(slice(1, None), slice(1, None)),
     "The row of `<bos>` writes the first word, and the last column is `<eos>`: the last of both "
     "are left out."),
    ("the first and the last row left out", _agreed(rows=slice(1, -1)),
     "The row of `<bos>` writes the first target word: it stays. Only the last row goes."),
    ("the row that reads the token, and the pairs turned round",
     lambda weights: [pair[::-1] for pair in _agreed(slice(1, None))(weights)],
     "The row of `<bos>` writes the first word. And a pair is (of y, of x)."),
    ("the largest of all alone", lambda weights: [
         divmod(int(weights[:-1, :-1].argmax()), weights.shape[1] - 1)],
     "Every pair counts in which both sides want each other."),
    ("one after the other, the largest of what is left", _one_by_one,
     "A word that is wanted by nobody stays without a link: it takes no second choice."),
    ("all weights above the mean",
     lambda weights: (weights[:-1, :-1] > weights[:-1, :-1].mean()).nonzero().tolist(),
     "A link needs the largest weight of its row and of its column."),
    ("a table of True and False",
     lambda weights: [[(t, s) in agreed(weights) for s in range(weights.shape[1] - 1)]
                      for t in range(weights.shape[0] - 1)],
     "Asked for are the places of the links, as pairs."),
    ("the largest shares of each column", lambda weights: list(enumerate(
         (weights[:-1, :-1] / weights[:-1, :-1].sum(0)).argmax(1).tolist())),
     "Two questions are asked of the weights as they are: largest of the row, and largest of the "
     "column."),
    ("the links with their weights",
     lambda weights: [(t, s, float(weights[t, s])) for t, s in agreed(weights)],
     "The links are right. Return them as pairs of places, without the weight."),
    ("one list of the places of y, and one of x",
     lambda weights: [list(column) for column in zip(*agreed(weights), strict=True)],
     "The places are right. Return them link by link: `zip` makes pairs of two lists."),
    ("counted from 1, and the pairs turned round",
     lambda weights: [(s + 1, t + 1) for t, s in agreed(weights)],
     "The target word comes first, and both indices begin at 0."),
    ("the row that reads the token, and counted from 1", _agreed(slice(1, None), step=(1, 1)),
     "y_1 is written by the row of `<bos>`, the first. And both indices begin at 0."),
    ("what the rows want alone, the end of the source among it",
     _agreed(columns=slice(None), want=lambda by_row, by_column: by_row),
     "The last column is that of `<eos>`, and is left out; and the source word must want the "
     "target word as well."),
    ("the first source token and the end of the source left out", _agreed(columns=slice(1, -1)),
     "The source has no `<bos>`: only its `<eos>`, the last column, is left out."),
)  # fmt: skip


# 15.5 what stays if all maps are even


def stays(layers: int, tokens: int, own: float) -> float:
    kept = own**layers
    return kept + (1 - kept) / tokens


STAYS_CASES = [(2, 2, 0.5), (1, 4, 0.5), (3, 5, 0.3), (6, 3, 0.8), (4, 1, 0.2), (2, 7, 0.65)]
STAYS_SLIPS = [
    ("own and mixed exchanged", {"share": lambda c: 1 - c},
     "`own` is the share of what was there before the layer."),
    ("always one half", {"share": lambda c: 0.5}, "The share is `own` here, not one half."),
    ("one layer too few", {"deep": -1}, "The first layer mixes, too."),
    ("one layer too many", {"deep": 1}, "Each layer mixes once."),
    ("layers and tokens exchanged", {"turned": True}, "The arguments are layers, tokens, own."),
    ("the mixed part without its share", {"mixed": lambda kept: 1.0},
     "Only what was mixed is spread: 1 less what never left."),
    ("what was mixed spread over the others", {"others": 1},
     "An even map puts weight on the own place as well: a T-th."),
    ("what was mixed not divided", {"divided": False}, "The own place is one of T: a T-th."),
]  # fmt: skip


def _stays(
    share: Callable[[float], float] = lambda own: own,
    deep: int = 0,
    turned: bool = False,
    mixed: Callable[[float], float] = lambda kept: 1 - kept,
    others: int = 0,
    divided: bool = True,
) -> Callable[[int, int, float], float]:
    def answer(layers: int, tokens: int, own: float) -> float:
        layers, tokens = (tokens, layers) if turned else (layers, tokens)
        kept = share(own) ** (layers + deep)
        return kept + mixed(kept) / (max(1, tokens - others) if divided else 1)

    return answer


STAYS_BUT = [
    *((name, "what was mixed not divided") for name in (
        "own and mixed exchanged", "always one half", "one layer too few", "one layer too many",
        "layers and tokens exchanged", "what was mixed spread over the others",
    )),
]  # fmt: skip


def _layer_by_layer(new: Callable[[float, int], float]) -> Callable[[int, int, float], float]:
    """The share at the own place, layer by layer, with another part for what is mixed."""

    def answer(layers: int, tokens: int, own: float) -> float:
        share = 1.0
        for _ in range(layers):
            share = own * share + new(own, tokens)
        return share

    return answer


STAYS_MISTAKES = mistakes(
    ("a map of ones",
     lambda layers, tokens, own: (
         (own**layers * (tokens - 1) + (own + (1 - own) * tokens) ** layers) / tokens
     ),
     "A row of an even map sums to one: each of its weights is 1 / T."),
    *combined(_stays, STAYS_SLIPS, but=STAYS_BUT),
    ("what was mixed spread over the others, of which one token has none",
     lambda n, t, c: c**n + (1 - c**n) / (t - 1),
     "An even map puts weight on the own place as well: it is one of the T, and with one token the "
     "only one."),
    ("the mixed part without 1 - own, layer by layer", _layer_by_layer(lambda c, t: 1 / t),
     "A layer mixes by own I + (1 - own) A: what it mixes has the share 1 - own."),
    ("own in place of 1 - own for the mixed part, layer by layer",
     _layer_by_layer(lambda c, t: c / t),
     "A layer mixes by own I + (1 - own) A: what it mixes has the share 1 - own."),
    ("own in place of 1 - own for the mixed part, as matrices",
     lambda n, t, c: c**n + ((2 * c) ** n - c**n) / t,
     "A layer mixes by own I + (1 - own) A: what it mixes has the share 1 - own."),
    ("1 in place of 1 - own for the mixed part, as matrices",
     lambda n, t, c: c**n + ((1 + c) ** n - c**n) / t,
     "A layer mixes by own I + (1 - own) A: what it mixes has the share 1 - own."),
    ("1 + own in place of 1 - own for the mixed part, layer by layer",
     _layer_by_layer(lambda c, t: (1 + c) / t),
     "A layer mixes by own I + (1 - own) A: what it mixes has the share 1 - own."),
    ("what never left taken off the even share", lambda n, t, c: 1 / t - c**n * (1 - 1 / t),
     "What never left is more than the even share: it is added."),
    ("what never left, and a T-th of it", lambda n, t, c: c**n + c**n / t,
     "What is spread is what was mixed: 1 less what never left, a T-th of that."),
    ("what never left added under the fraction as well", lambda n, t, c: c**n + (1 + c**n) / t,
     "Only what was mixed is spread: 1 less what never left, a T-th of that."),
    ("only what never left", lambda n, t, c: c**n,
     "That is the part that went through every residual connection. Some of what was mixed away "
     "comes back: an even map puts 1 / T at the own place, too."),
    ("what never left, and one T-th of all besides", lambda n, t, c: c**n + 1 / t,
     "Only what was mixed is spread: 1 less what never left, a T-th of that."),
    ("what never left, shared among all", lambda n, t, c: c**n / t,
     "What never left is at its own place, undivided. What was mixed is shared."),
    ("kept and mixed exchanged under the power", lambda n, t, c: 1 - (1 - c) ** n * (1 - 1 / t),
     "What never left has gone through *every* residual connection: own to the power of the "
     "layers."),
    ("as if all were mixed once", lambda n, t, c: c + (1 - c) / t,
     "That is one layer. Each further one mixes again what it finds."),
    ("one layer's diagonal to the power", lambda n, t, c: (c + (1 - c) / t) ** n,
     "The diagonal of a product is not the product of the diagonals: what went to other places "
     "partly comes back."),
    ("1, the sum of a row", lambda n, t, c: 1.0,
     "Asked for is its entry on the diagonal: what was mixed is divided by the tokens."),
    ("completely even", lambda n, t, c: 1 / t,
     "So it would be without residual connections, or after very many layers."),
    ("what was mixed spread over the others",
     lambda n, t, c: c**n + (1 - c**n) / max(1, t - 1),
     "An even map puts weight on the own place as well: a T-th."),
    ("off the diagonal", lambda n, t, c: (1 - c**n) / t,
     "That is an entry beside the diagonal. On it comes what never left, own to the power of the "
     "layers."),
    ("own and mixed exchanged", lambda n, t, c: stays(n, t, 1 - c),
     "`own` is the share of what was there before the layer."),
    ("own times the layers", lambda n, t, c: max(0.0, n * c) + (1 - n * c) / t,
     "Shares of shares are multiplied: own to the power of the layers."),
    ("always one half", lambda n, t, c: stays(n, t, 0.5),
     "The share of the residual connection is `own` here, not one half as in (15.7)."),
    ("mixed parts to the power of the layers", lambda n, t, c: c**n + (1 - c) ** n / t,
     "What has been mixed once stays mixed: 1 less what never left."),
    ("the mixed part without its power", lambda n, t, c: c**n + (1 - c) / t,
     "With each layer more is mixed: 1 - own to the power of the layers."),
    ("one layer too many", lambda n, t, c: stays(n + 1, t, c), "Each layer mixes once."),
    ("one layer too few", lambda n, t, c: stays(n - 1, t, c),
     "The first layer mixes, too."),
    ("always two layers", lambda n, t, c: stays(2, t, c),
     "The example has two. Here it is own to the power of `layers`."),
    ("layers and tokens exchanged", lambda n, t, c: stays(t, n, c),
     "The arguments are layers, tokens, own."),
    ("mixed in every layer anew", lambda n, t, c: c**n + (1 - c**n) / t**n,
     "An even map of an even map is the same even map: what has been mixed is shared among T "
     "places, however often."),
    ("the whole matrix",
     lambda n, t, c: c**n * torch.eye(t) + (1 - c**n) / t,
     "Asked for is what stands on its diagonal, one number."),
    ("the mixed part once for each layer", lambda n, t, c: c**n + n * (1 - c) / t,
     "What a layer mixes is a part of what the layers before it left. All parts sum to one, so "
     "1 - own to the power of the layers is mixed in the end."),
    ("the diagonal as a list", lambda n, t, c: [stays(n, t, c)] * t,
     "All places keep the same share: one number is asked for."),
    ("own to the power of the tokens", lambda n, t, c: stays(t, t, c),
     "A layer mixes once: the power is the number of layers."),
    ("1 + own in each layer", lambda n, t, c: (1 + c) ** n,
     "A layer mixes by c I + (1 - c) A: its shares sum to one."),
    ("the mean of the layers' diagonals", lambda n, t, c: (c + (1 - c) / t) / n,
     "The layers are multiplied."),
    ("each share to the power of the layers",
     lambda layers, tokens, own: own**layers + ((1 - own) / tokens) ** layers,
     "An even map of an even map is the same even map, 1 / T everywhere. And what never left goes "
     "on being mixed: 1 less it is mixed in the end."),
    ("what was mixed in every layer, alone",
     lambda layers, tokens, own: (1 - own) ** layers,
     "`own` is what stays, 1 - own what is mixed. And a T-th of what is mixed is at the own place "
     "again."),
    ("what never left divided by the tokens, in place of what was mixed",
     lambda layers, tokens, own: own**layers / tokens + 1 - own**layers,
     "What never left is at its place, all of it. What was mixed is spread over the T places."),
    ("mixed by the last layer alone",
     lambda layers, tokens, own: own**layers + own ** (layers - 1) * (1 - own) / tokens,
     "What an earlier layer has mixed counts as well: a T-th of it is at the own place."),
    ("both shares to the power of the layers, not divided",
     lambda layers, tokens, own: own**layers + (1 - own) ** layers,
     "What is not left of the own is mixed, 1 - own to the power of the layers; and a T-th of it "
     "is at the own place."),
    ("own and a T-th, to the power of the layers",
     lambda layers, tokens, own: (own + 1 / tokens) ** layers,
     "The even map has the share 1 - own. And a diagonal of a product is not the product of the "
     "diagonals."),
    ("own once, and the tokens to the power of the layers",
     lambda layers, tokens, own: own + (1 - own) / tokens**layers,
     "What never left is own to the power of the layers. An even map of an even map is the same "
     "even map."),
)  # fmt: skip


# 15.6 rank correlation with ties


def ranks(x: Tensor) -> Tensor:
    """From 0; equal numbers share the mean of their ranks."""
    below, equal = x[:, None] > x, x[:, None] == x
    return below.sum(1).double() + (equal.sum(1).double() - 1) / 2


def _pearson(a: Tensor, b: Tensor) -> Tensor:
    a, b = a.double() - a.double().mean(), b.double() - b.double().mean()
    return (a * b).sum() / (a.norm() * b.norm())


def rank_correlation(a: Tensor, b: Tensor) -> Tensor:
    return _pearson(ranks(a), ranks(b))


def rank_cases() -> list[tuple]:
    pairs = [
        ([0.1, 0.7, 0.1], [5, 6, 1]),
        ([0.1, 0.5, 0.2, 0.15, 0.05], [0.3, 9, -1, 2, 0]),
        ([3, 1, 3, 2, 3, 0.5], [2, 2, 8, 0, 8, 1]),
        ([0, 0, 0, 7, 1], [4, 1, 1, 3, 9]),
        ([5, 1, 1, 4, 2, 5, 5], [0.2, 0.1, 0.4, 0.4, 30, 0.3, 0.4]),
        ([4, 3, 2, 2], [1, 3, 2, 9]),
        ([1, 2], [4, 3]),
    ]
    return [(torch.tensor(a).double(), torch.tensor(b).double()) for a, b in pairs]


def _broken(x: Tensor) -> Tensor:
    """Ranks without care for ties: the one that comes first has the lower."""
    return x.argsort(stable=True).argsort().double()


def _short(rank: Callable[[Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    n = len(a)
    return 1 - 6 * (rank(a) - rank(b)).pow(2).sum() / (n * (n**2 - 1))


def _kendall(a: Tensor, b: Tensor) -> Tensor:
    i, j = torch.triu_indices(len(a), len(a), 1)
    return ((a[i] - a[j]).sign() * (b[i] - b[j]).sign()).double().mean()


def _kendall_b(a: Tensor, b: Tensor) -> Tensor:
    x, y = (a[:, None] - a).sign(), (b[:, None] - b).sign()
    return (x * y).sum() / (x.square().sum() * y.square().sum()).sqrt()


def _ranked(rank: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda a, b: _pearson(rank(a), rank(b))


def _without_doubles(a: Tensor, b: Tensor) -> float:
    alone = ((a[:, None] == a).sum(1) == 1) & ((b[:, None] == b).sum(1) == 1)
    return float(rank_correlation(a[alone], b[alone])) if alone.sum() > 1 else 0.0


def _neighbours(x: Tensor) -> Tensor:
    """Ranks by place, shared where two neighbours of the list are equal."""
    rank = _broken(x)
    for i in range(1, len(x)):
        if x[i] == x[i - 1]:
            rank[i - 1 : i + 1] = rank[i - 1 : i + 1].mean()
    return rank


def _middle(x: Tensor) -> Tensor:
    return (x[:, None] > x).sum(1) + ((x[:, None] == x).sum(1) - 1) / 2


def _correlated(a: Tensor, b: Tensor) -> float:
    a, b = a - a.mean(), b - b.mean()
    return float((a * b).sum() / (a.norm() * b.norm()))


def _rank_way(
    rank: Callable[[Tensor], Tensor] = ranks, by: Callable[[Tensor, Tensor], Tensor] = _pearson
) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda a, b: by(rank(a).double(), rank(b).double())


RANK_SLIPS = [
    ("argsort once", {"rank": lambda x: x.argsort(stable=True)},
     "`argsort` tells which value comes first, not in which place a value comes."),
    ("ties broken by place", {"rank": _broken}, "Equal numbers share the mean of their ranks."),
    ("the lowest rank for all that are equal", {"rank": lambda x: (x[:, None] > x).sum(1)},
     "Equal numbers share the *mean* of the ranks they take up together."),
    ("the highest rank for all that are equal", {"rank": lambda x: (x[:, None] >= x).sum(1)},
     "Equal numbers share the *mean* of the ranks they take up together."),
    ("no rank left out behind equal numbers",
     {"rank": lambda x: torch.unique(x, return_inverse=True)[1]},
     "Equal numbers share the mean of the ranks they take up together."),
    ("the values in place of their ranks", {"rank": lambda x: x},
     "Put the rank in the place of each value first."),
    ("sorted values in place of ranks", {"rank": lambda x: x.sort().values},
     "Sorting forgets which entry stood where."),
    ("the mean not taken off", {"by": lambda x, y: (x * y).sum() / (x.norm() * y.norm())},
     "A correlation is the cosine of the *differences from the mean*: take it off both lists."),
    ("the covariance in place of the correlation",
     {"by": lambda x, y: ((x - x.mean()) * (y - y.mean())).mean()},
     "Divide by the spread of both."),
    ("divided by n once and by n - 1 once",
     {"by": lambda x, y: ((x - x.mean()) * (y - y.mean())).mean() / (x.std() * y.std())},
     "`mean` divides by n and `std` by n - 1: use the same number in both places."),
    ("the square of the correlation", {"by": lambda x, y: _pearson(x, y) ** 2},
     "The square hides the sign."),
]  # fmt: skip
RANK_BUT = [("no rank left out behind equal numbers", "the mean not taken off")]


RANK_MISTAKES = mistakes(
    *combined(_rank_way, RANK_SLIPS, but=RANK_BUT),
    ("the first with itself", lambda a, b: 1.0,
     "Asked for is the correlation of the two: off the diagonal of such a matrix."),
    ("products divided by n - 1, deviations by n",
     lambda a, b: (
         lambda x, y: float(
             ((x - x.mean()) * (y - y.mean())).sum() / (len(a) - 1)
             / (x.std(unbiased=False) * y.std(unbiased=False))
         )
     )(_middle(a), _middle(b)),
     "Divide both by n, or both by n - 1: equal orders must give 1."),
    ("argsort once, from the other end",
     _ranked(lambda x: x.argsort(descending=True, stable=True).double()),
     "`argsort` tells which value comes first, not in which place a value comes. And equal numbers "
     "share the mean of their ranks."),
    ("the shared ranks rounded up",
     lambda a, b: _correlated(_middle(a).ceil(), _middle(b).ceil()),
     "The mean of two ranks may be a half: (0 + 1) / 2 = 0.5."),
    ("the shared ranks rounded down",
     lambda a, b: _correlated(_middle(a).floor(), _middle(b).floor()),
     "The mean of two ranks may be a half: (0 + 1) / 2 = 0.5."),
    ("the sum of the ranks that are shared",
     lambda a, b: _correlated(*(_middle(x) * (x[:, None] == x).sum(1) for x in (a, b))),
     "Numbers that are equal share the *mean* of their ranks."),
    ("the whole matrix of correlations",
     lambda a, b: torch.corrcoef(torch.stack([ranks(a), ranks(b)]).double()),
     "`corrcoef` gives each with each. Asked for is the one number [0, 1]."),
    ("6 forgotten",
     lambda a, b: 1 - (1 - _short(ranks, a, b)) / 6,
     "The short form has a factor 6, and holds without ties only. With them take the correlation "
     "of the ranks itself."),
    ("ties broken by place", _ranked(_broken),
     "As in the chapter: of equal numbers the first gets the lower rank, which is an order that "
     "nobody has given. Let them share the mean of their ranks."),
    ("ties broken by place, from the other end",
     _ranked(lambda x: (-x).argsort(stable=True).argsort().double()),
     "Of equal numbers the first comes first in both lists, which is an order that nobody has "
     "given. Let them share the mean of their ranks."),
    ("ties shared in the first list alone", lambda a, b: _pearson(ranks(a), _broken(b)),
     "Both lists may have ties."),
    ("ties shared in the second list alone", lambda a, b: _pearson(_broken(a), ranks(b)),
     "Both lists may have ties."),
    ("the lowest rank for all that are equal",
     _ranked(lambda x: (x[:, None] > x).sum(1).double()),
     "Equal numbers share the *mean* of the ranks they take up together."),
    ("the highest rank for all that are equal",
     _ranked(lambda x: (x[:, None] >= x).sum(1).double()),
     "Equal numbers share the *mean* of the ranks they take up together."),
    ("no rank left out behind equal numbers",
     _ranked(lambda x: torch.unique(x, return_inverse=True)[1].double()),
     "Two that are equal take up two ranks, and share their mean. The next number's rank counts "
     "both."),
    ("the short form", lambda a, b: _short(ranks, a, b),
     "1 - 6 (sum of squared differences) / (n (n^2 - 1)) holds without ties only. With them take "
     "the correlation of the ranks itself."),
    ("the values in place of their ranks", _pearson,
     "That is the ordinary correlation, in which one large value decides. Put the rank in the "
     "place of each value first."),
    ("argsort once", _ranked(lambda x: x.argsort(stable=True).double()),
     "`argsort` tells which value comes first, not in which place a value comes. And equal numbers "
     "share the mean of their ranks."),
    ("one of the two ranked from the other end", lambda a, b: -rank_correlation(a, b),
     "Both are to be ranked in the same direction. As it is, equal orders give -1."),
    ("only the first ranked", lambda a, b: _pearson(ranks(a), b),
     "Both lists are to be replaced by their ranks."),
    ("only the second ranked", lambda a, b: _pearson(a, ranks(b)),
     "Both lists are to be replaced by their ranks."),
    ("the mean not taken off",
     lambda a, b: (ranks(a) * ranks(b)).sum() / (ranks(a).norm() * ranks(b).norm()),
     "A correlation is the cosine of the *differences from the mean*. Ranks that are all positive "
     "always look alike without it."),
    ("the mean not taken off, with ranks from 1",
     lambda a, b: (
         ((ranks(a) + 1) * (ranks(b) + 1)).sum()
         / ((ranks(a) + 1).norm() * (ranks(b) + 1).norm())
     ),
     "A correlation is the cosine of the *differences from the mean*. Ranks that are all positive "
     "always look alike without it."),
    ("divided by the spread of ranks without ties",
     lambda a, b: (
         ((ranks(a) - ranks(a).mean()) * (ranks(b) - ranks(b).mean())).mean()
         * 12 / (len(a) ** 2 - 1)
     ),
     "With ties the ranks spread less: divide by the lengths of the two lists of differences, as "
     "they are."),
    ("sorted values in place of ranks", _ranked(lambda x: x.sort().values),
     "Sorting forgets which entry stood where. Each entry keeps its place, and its rank takes the "
     "place of its value."),
    ("divided by n once and by n - 1 once",
     lambda a, b: (
         ((ranks(a) - ranks(a).mean()) * (ranks(b) - ranks(b).mean())).mean()
         / (ranks(a).std() * ranks(b).std())
     ),
     "`mean` divides by n and `std` by n - 1: equal orders then give less than 1. Use the same "
     "number in both places."),
    ("pairs in the same order, minus pairs in the other", _kendall,
     "That is Kendall's rank correlation, another one. Asked for is Spearman's, the correlation of "
     "the ranks."),
    ("the square of the correlation", lambda a, b: rank_correlation(a, b) ** 2,
     "The square hides the sign: opposite orders would look like equal ones."),
    ("without its sign", lambda a, b: rank_correlation(a, b).abs(),
     "Opposite orders have the correlation -1. The sign says so."),
    ("Kendall's correlation, with its care for ties", _kendall_b,
     "That compares pairs, concordant and discordant. Spearman's correlates the ranks."),
    ("the covariance of the ranks",
     lambda a, b: ((ranks(a) - ranks(a).mean()) * (ranks(b) - ranks(b).mean())).mean(),
     "Divide by the spread of both: a correlation is a covariance of what has spread 1."),
    ("the sum of the products alone",
     lambda a, b: ((ranks(a) - ranks(a).mean()) * (ranks(b) - ranks(b).mean())).sum(),
     "A correlation is a cosine: divide by the lengths of both."),
    ("divided by the first length twice",
     lambda a, b: (lambda x, y: (x * y).sum() / x.norm() ** 2)(
         ranks(a) - ranks(a).mean(), ranks(b) - ranks(b).mean()),
     "That is a slope. A correlation is divided by both lengths."),
    ("divided by the squares of the lengths",
     lambda a, b: (lambda x, y: (x * y).sum() / (x.norm() * y.norm()) ** 2)(
         ranks(a) - ranks(a).mean(), ranks(b) - ranks(b).mean()),
     "A correlation is divided by both lengths, not by their squares."),
    ("the short form, with differences not squared",
     lambda a, b: 1 - 6 * (ranks(a) - ranks(b)).abs().sum() / (len(a) * (len(a) ** 2 - 1)),
     "The short form has squares, and does not hold with ties: take the cosine."),
    ("the covariance divided by the variances",
     lambda a, b: (
         ((ranks(a) - ranks(a).mean()) * (ranks(b) - ranks(b).mean())).mean()
         / (ranks(a).var() * ranks(b).var())
     ),
     "Divide by the standard deviations, the roots of the variances (and by n, or by n - 1, in "
     "all three)."),
    ("the ranks themselves", lambda a, b: torch.stack([ranks(a), ranks(b)]),
     "The ranks are right. Asked for is their correlation, one number."),
    ("no rank left out behind equal numbers, and the mean not taken off",
     lambda a, b: (lambda x, y: (x * y).sum() / (x.norm() * y.norm()))(*(
         x.unique(return_inverse=True)[1].double() for x in (a, b))),
     "Equal numbers share the mean of the ranks that they take up. And the mean is taken off both "
     "lists of ranks."),
    ("half of the ties taken off in place of added", _ranked(
         lambda x: (x[:, None] > x).sum(1) - ((x[:, None] == x).sum(1) - 1) / 2),
     "The smaller ones are below all that are equal, and the mean of their ranks lies above the "
     "lowest of them: add."),
    ("the short form without its 1 -", lambda a, b: 1 - _short(ranks, a, b),
     "That grows as the orders part. And the short form holds without ties only: take the "
     "correlation of the ranks."),
    ("half of 1 less the correlation", lambda a, b: (1 - rank_correlation(a, b)) / 2,
     "That goes from 0 to 1. Asked for is the correlation itself."),
    ("only neighbours in the list taken for equal", _ranked(_neighbours),
     "Equal numbers may stand anywhere in the list: compare each with each."),
    ("the lowest rank for equal ones in the first list, the highest in the second",
     lambda a, b: _pearson((a[:, None] > a).sum(1), (b[:, None] >= b).sum(1)),
     "Equal numbers share the *mean* of the ranks they take up together, in both lists."),
    ("the second list put in the order of the first before it is ranked",
     lambda a, b: rank_correlation(a, b[a.argsort()]),
     "Then the pairs are torn apart: each entry of `b` belongs to the one of `a` at its place."),
    ("the share of the pairs in the same order",
     lambda a, b: ((a[:, None] - a) * (b[:, None] - b) > 0).double().sum() / (
         len(a) * (len(a) - 1)),
     "That counts pairs. Asked for is the ordinary correlation of the ranks."),
    ("entries with a double left out", _without_doubles,
     "They belong to the list, and share the mean of their ranks."),
)  # fmt: skip


# 15.7 what heads are worth

GUESSES = (
    (False, "loss and BLEU taken for one judge",
     "1: the loss asks for the probability of the true words, BLEU for what is written. The "
     "dearest head in nats is one of the decoder's first layer, in BLEU one of the encoder's "
     "second."),
    (True, "every head held to be useful",
     "2: nothing in training makes each head help in greedy BLEU. Without a few of them it is "
     "higher by some tenths, which is within the luck of 300 sentences."),
    (True, "heads of one kind held to be worth no more than any",
     "3: heads of one kind stand in for each other, and nobody stands in for the whole kind. "
     "Twelve at random leave something of each."),
    (False, "the loss taken for BLEU, step by step",
     "4: the order was chosen by the loss on other sentences. BLEU goes down with it, and up again "
     "at some steps."),
    (False, "one kind held to be all that counts",
     "5: the twelve that are left belong to all three kinds: no kind can be done without."),
)  # fmt: skip
true_of_heads = [truth for truth, _, _ in GUESSES]


def _misjudged() -> Iterator[tuple[str, list[bool], str]]:
    """Every wrong answer, with what is wrong in it."""
    yield (
        "all five the other way round",
        [not truth for truth in true_of_heads],
        "True is for what is true in the record. Is your list turned round?",
    )
    for wrong in product((False, True), repeat=len(GUESSES)):
        if any(wrong) and not all(wrong):
            told = [guess for guess, is_wrong in zip(GUESSES, wrong, strict=True) if is_wrong]
            answer = [
                truth != is_wrong for truth, is_wrong in zip(true_of_heads, wrong, strict=True)
            ]
            name = ", and ".join(name for _, name, _ in told)
            yield name, answer, " ".join(why for _, _, why in told)


# 15.8 a rollout without some heads, three mistakes


def mixed_without(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
    return _mixed()(maps, removed)


def mixed_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(158)

    def layers(n: int, h: int, t: int) -> list[Tensor]:
        return [(1.5 * torch.randn(h, t, t, generator=draw)).softmax(-1) for _ in range(n)]

    turn = torch.tensor([[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])
    return [
        ([turn], [(0, 1)]),
        (layers(3, 2, 4), [(0, 1), (2, 0)]),
        (layers(2, 3, 3), [(1, 0), (1, 2), (0, 1)]),
        (layers(2, 2, 3), [(0, 0), (0, 1)]),  # a whole layer
        (layers(3, 3, 5), []),
        (layers(2, 1, 1), [(1, 0)]),
    ]


def _mixed(
    share: str = "all",
    residual: bool = True,
    above: bool = True,
    gone: str = "removed",
    halved: bool = True,
    total: bool = False,
    empty: bool = True,
    again: bool = False,
) -> Callable[..., Tensor]:
    """The rollout, right by default; each argument makes one mistake."""

    def answer(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
        T = maps[0].shape[-1]
        removed = {tuple(int(x) for x in one) for one in removed}
        mixed = torch.eye(T)
        for i, layer in enumerate(maps):
            heads = range(len(layer))
            out = {
                "removed": [(i, h) in removed for h in heads],
                "turned": [(h, i) in removed for h in heads],
                "kept": [(i, h) not in removed for h in heads],
                "from 1": [(i + 1, h + 1) in removed for h in heads],
                "any layer": [any(h == head for _, head in removed) for h in heads],
                "none": [False for _ in heads],
            }[gone]
            left = [layer[h] for h in heads if not out[h]]
            weights = sum(left, torch.zeros(T, T))
            if not left and not empty:
                continue
            if share == "left":
                weights = weights / len(left)
            elif share == "left, or zeros":
                weights = weights / max(1, len(left))
            elif not total:
                weights = weights / len(layer)
            if residual:
                weights = (weights + torch.eye(T)) / (2 if halved else 1)
            if again:
                weights = weights / weights.sum(-1, keepdim=True)
            mixed = weights @ mixed if above else mixed @ weights
        return mixed

    return answer


def _guarded(answer: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same, where a layer without heads counts as zeros, not as an error."""

    def wrong(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
        try:
            return answer(maps, removed)
        except ZeroDivisionError:
            return torch.full_like(maps[0][0], math.nan)

    return wrong


def _added(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
    """Map and residual added, not halved, and the layers in the other order."""
    mixed = torch.eye(maps[0].shape[-1])
    for i, layer in enumerate(maps):
        here = [(0, h) for k, h in removed if k == i]
        mixed = mixed @ (2 * mixed_without([layer], here))
    return mixed


def _own_residuals(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
    """Every head brings its part of the residual, and takes it away when it goes."""
    mixed = itself = torch.eye(maps[0].shape[-1])
    for i, layer in enumerate(maps):
        kept = [(w + itself) / 2 for h, w in enumerate(layer) if (i, h) not in removed]
        mixed = sum(kept, torch.zeros_like(itself)) / len(layer) @ mixed
    return mixed


def _divided_by(number: Callable[[list[Tensor]], int]) -> Callable[..., Tensor]:
    """The sum of the maps divided by another number."""

    def answer(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
        mixed = itself = torch.eye(maps[0].shape[-1])
        for i, layer in enumerate(maps):
            left = [head for h, head in enumerate(layer) if (i, h) not in removed]
            mixed = (sum(left, 0 * itself) / number(maps) + itself) / 2 @ mixed
        return mixed

    return answer


MIXED_MISTAKES = mistakes(
    ("map and residual added, not halved, and the other order", _added,
     "A layer mixes by half of its map and half of what it was; and the lowest layer acts first, "
     "so it stands on the right."),
    ("a head that is taken out takes its part of the residual with it", _own_residuals,
     "The residual connection is there once, whatever heads are left: it keeps its half."),
    *((name, _divided_by(number),
       "The map of a layer is the sum of the maps that are left, divided by all its *heads*.")
      for name, number in (
          ("divided by the number of layers", len),
          ("divided by the heads of all layers", lambda maps: sum(map(len, maps))),
      )),
    ("the first layer's maps in every layer",
     lambda maps, removed: mixed_without(maps[:1] * len(maps), removed),
     "Each layer has maps of its own."),
    ("the mean over what is left, and a layer without heads left out", _mixed("left", empty=False),
     "A head that is taken out adds nothing, and the others do not grow: divide by all heads. A "
     "layer without heads brings zeros, and halves the stream all the same."),
    ("nothing mended", _guarded(_mixed("left", residual=False, above=False)),
     "Look at what the weights are divided by, at what a layer leaves in the stream, and at which "
     "side a higher layer stands."),
    ("the mean over what is left, and no residual", _guarded(_mixed("left", residual=False)),
     "The order is right. A head that is taken out adds nothing, and the others do not grow; and "
     "the stream keeps what was there before the layer."),
    ("the mean over what is left, and the other order", _guarded(_mixed("left", above=False)),
     "The residual is there. A head that is taken out adds nothing, and the others do not grow; a "
     "higher layer works on what the lower ones made, from the left."),
    ("no residual, and the other order", _mixed(residual=False, above=False),
     "The heads are right. Half of each layer is what stood in the stream before, and a higher "
     "layer is multiplied from the left."),
    ("the mean over the heads that are left", _guarded(_mixed("left")),
     "Two are mended. That renormalises: it lets the others bring more than they did. Taken out, a "
     "head adds zero, and the sum is divided by all heads as before."),
    ("no residual", _mixed(residual=False),
     "Two are mended. What was in the stream before the layer is still there: (A + I) / 2."),
    ("the layers in the other order", _mixed(above=False),
     "Two are mended. Row s says what is at place s in the end: a higher layer stands on the "
     "left."),
    ("not divided by the number of heads", _mixed(total=True),
     "The map of a layer is the mean over its heads: the sum divided by how many it has."),
    ("the mean over what is left, and zeros where none is",
     lambda maps, removed: _mixed("left, or zeros")(maps, removed),
     "Two are mended, and a layer without heads brings nothing. But the mean over what is left "
     "lets the others bring more than they did: divide by all heads."),
    ("a layer without heads left out", _mixed(empty=False),
     "A layer whose heads are all gone brings zeros, and its stream is halved all the same by "
     "(A + I) / 2."),
    ("rows made to sum to one again", _mixed(again=True),
     "What a head does not bring is missing: rows then sum to less than one. To divide by their "
     "sums lets the rest grow."),
    ("rows and columns in each other's place",
     lambda maps, removed: mixed_without(maps, removed).T,
     "Row s says what is at place s in the end, as in each map."),
    ("not halved", _mixed(halved=False),
     "The stream and what the layer brings count one half each."),
    ("halved once, at the end",
     lambda maps, removed: _mixed(halved=False)(maps, removed) / 2,
     "Each layer's factor is halved, not their product once."),
    ("a removed head that looks at itself",
     lambda maps, removed: mixed_without(
         [
             torch.stack([
                 torch.eye(layer.shape[-1]) if (i, h) in removed else layer[h]
                 for h in range(len(layer))
             ])
             for i, layer in enumerate(maps)
         ],
         [],
     ),
     "A head that is taken out brings nothing, not what stands at its own place."),
    ("layer and head exchanged", _mixed(gone="turned"),
     "A pair is (layer, head), both counted from 0."),
    ("counted from 1", _mixed(gone="from 1"), "Layers and heads are counted from 0."),
    ("the other heads taken out", _mixed(gone="kept"), "The pairs name the heads that go."),
    ("taken out of every layer", _mixed(gone="any layer"),
     "A pair names one head of one layer."),
    ("nothing taken out", _mixed(gone="none"), "The heads in `removed` bring nothing."),
    ("nothing mended, but zeros where no head is left",
     _mixed("left, or zeros", residual=False, above=False),
     "Look at what the weights are divided by, at what a layer leaves in the stream, and at which "
     "side a higher layer stands."),
    ("the mean over what is left, zeros where none is, and no residual",
     _mixed("left, or zeros", residual=False),
     "The order is right. A head that is taken out adds nothing, and the others do not grow; and "
     "the stream keeps what was there before the layer."),
    ("the mean over what is left, zeros where none is, and the other order",
     _mixed("left, or zeros", above=False),
     "The residual is there. A head that is taken out adds nothing, and the others do not grow; a "
     "higher layer works on what the lower ones made, from the left."),
    ("the residual added once, at the end",
     lambda maps, removed: (
         _mixed(residual=False)(maps, removed) + torch.eye(maps[0].shape[-1])
     ) / 2,
     "Every layer has its residual connection: (A + I) / 2 stands in each factor."),
)  # fmt: skip


def _without_layers(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
    gone = {i for i, _ in removed}
    return mixed_without(maps, [(i, h) for i in gone for h in range(len(maps[i]))])


def _other_product(together: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """The layers put together in another way."""

    def answer(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
        one = [
            mixed_without(maps[i : i + 1], [(0, h) for j, h in removed if j == i])
            for i in range(len(maps))
        ]
        return reduce(together, one, torch.eye(maps[0].shape[-1]))

    return answer


def _in_its_place(stand_in: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """Another map in place of each one that is removed."""

    def answer(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
        maps = [layer.clone() for layer in maps]
        for i, h in removed:
            maps[i][h] = stand_in(maps[i][h])
        return mixed_without(maps, [])

    return answer


def _product(factor: Callable[[list[Tensor], int, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Another factor for a layer, made of the heads that are left, their number before, and I."""

    def answer(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
        mixed = itself = torch.eye(maps[0].shape[-1])
        for i, layer in enumerate(maps):
            left = [head for h, head in enumerate(layer) if (i, h) not in removed]
            mixed = factor(left, len(layer), itself) @ mixed
        return mixed

    return answer


def _head_by_head(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
    """The mean of the rollouts of single heads."""
    itself = torch.eye(maps[0].shape[-1])
    rolled = []
    for h in range(len(maps[0])):
        mixed = itself
        for i, layer in enumerate(maps):
            head = 0 * itself if (i, h) in removed else layer[h]
            mixed = (head + itself) / 2 @ mixed
        rolled.append(mixed)
    return sum(rolled) / len(rolled)


def _parts_mixed(combine: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """The layers' matrices made of the map and of the identity in another way."""

    def answer(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
        itself = torch.eye(maps[0].shape[-1])
        mixed = itself
        for i, layer in enumerate(maps):
            left = [one for h, one in enumerate(layer) if (i, h) not in removed]
            mixed = combine(sum(left, torch.zeros_like(itself)) / len(layer), itself) @ mixed
        return mixed

    return answer


HALVES = "A layer mixes by half of its map and half of the identity."


def _as_given(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
    """What the task prints: a layer without heads is divided by zero."""
    mixed = torch.eye(maps[0].shape[-1])
    for i, layer in enumerate(maps):
        kept = [layer[h] for h in range(len(layer)) if (i, h) not in removed]
        mixed = mixed @ (sum(kept) / len(kept))
    return mixed


def _from_the_beginning(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
    mixed = itself = torch.eye(maps[0].shape[-1])
    for i, layer in enumerate(maps):
        alone = mixed_without([layer], [(0, h) for k, h in removed if k == i])
        mixed = ((2 * alone - itself) @ mixed + itself) / 2
    return mixed


def _some_layers(first: int, last: int | None) -> Callable[..., Tensor]:
    """A rollout over some of the layers, counted with their own numbers."""

    def answer(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
        some = maps[first:last]
        if not some:
            return torch.eye(maps[0].shape[-1])
        return mixed_without(some, [(i - first, h) for i, h in removed])

    return answer


OTHER_SLIPS = [
    ({"residual": False}, "no residual", "Half of each layer is what stood in the stream before."),
    ({"above": False}, "the other order", "A higher layer is multiplied from the left."),
    ({"share": "left, or zeros"}, "the mean over what is left", "The sum is divided by all heads."),
]
LEFT_OUT = [
    (
        ", and ".join(["a layer without heads left out", *(name for _, name, _ in others)]),
        _mixed(empty=False, **{key: x for slip, _, _ in others for key, x in slip.items()}),
        " ".join([
            "A layer whose heads are all gone brings zeros, and halves the stream all the same.",
            *(why for _, _, why in others),
        ]),
    )
    for others in some(OTHER_SLIPS)
    if [name for _, name, _ in others] != ["the mean over what is left"]
]  # fmt: skip


MORE_MIXED_MISTAKES = mistakes(
    *LEFT_OUT,
    ("the map not halved", _parts_mixed(lambda a, one: a + one / 2), HALVES),
    ("the residual added everywhere, and not on the diagonal alone",
     _parts_mixed(lambda a, one: a / 2 + 0.5), HALVES),
    ("the residual taken off", _parts_mixed(lambda a, one: (a - one) / 2), HALVES),
    ("the map taken off", _parts_mixed(lambda a, one: (one - a) / 2), HALVES),
    ("the residual alone", _parts_mixed(lambda a, one: one / 2), HALVES),
    ("no layers at all", lambda maps, removed: torch.eye(maps[0].shape[-1]),
     "Each layer's matrix is multiplied to what the lower ones made."),
    ("each head taken out of all layers but its own",
     lambda maps, removed: mixed_without(maps, [
         (i, h) for k, h in removed for i in range(len(maps)) if i != k]),
     "`removed` holds pairs (layer, head): the head is taken out of that layer alone."),
    ("the largest of the heads in place of their mean",
     _product(lambda left, heads, one: (
         torch.stack([*left, *[0 * one] * (heads - len(left))]).amax(0) + one
     ) / 2),
     "The map of a layer is the mean over its heads: the sum divided by how many it has."),
    ("each head rolled out by itself, and the results averaged", _head_by_head,
     "Behind each layer the stream holds what all heads brought. So average the heads of a layer "
     "first, and multiply the layers after that."),
    ("each map transposed",
     lambda maps, removed: mixed_without([layer.mT for layer in maps], removed),
     "Row t of a map says where t looks. It is used as it is."),
    ("half of the map, and all of the residual",
     _product(lambda left, heads, one: sum(left, 0 * one) / heads / 2 + one),
     "The stream and what the layer brings count one half each: (A + I) / 2."),
    ("nothing at all behind a layer without heads",
     _product(lambda left, heads, one: (sum(left) / heads + one) / 2 if left else 0 * one),
     "A layer whose heads are all gone brings zeros. What was in the stream before it is still "
     "there, by its half."),
    ("the residual counted as one more head",
     lambda maps, removed: reduce(
         lambda below, layer: layer @ below,
         [
             (2 * mixed_without([layer], [(0, h) for k, h in removed if k == i]) * len(layer)
              - torch.eye(layer.shape[-1]) * (len(layer) - 1)) / (len(layer) + 1)
             for i, layer in enumerate(maps)
         ],
         torch.eye(maps[0].shape[-1]),
     ),
     "The residual connection has a half of the layer, however many heads there are, and all heads "
     "together the other half."),
    ("layers counted from 1", lambda maps, removed: mixed_without(
         maps, [(i - 1, h) for i, h in removed]),
     "Layers and heads are counted from 0."),
    ("all heads of a layer taken out with one", _without_layers,
     "Only the head of the pair is taken out. The others of its layer stay."),
    ("multiplied entry by entry", _other_product(lambda mixed, layer: layer * mixed),
     "The layers are multiplied as matrices, with `@`."),
    ("the layers added up", _other_product(lambda mixed, layer: layer + mixed),
     "The layers are multiplied as matrices: each works on what the lower ones made."),
    ("the last layer alone", _other_product(lambda mixed, layer: layer),
     "All layers are multiplied, each on the left of what the lower ones made."),
    ("the first layer alone",
     lambda maps, removed: mixed_without(maps[:1], [(0, h) for i, h in removed if i == 0]),
     "All layers are multiplied, each on the left of what the lower ones made."),
    ("the first pair alone taken out",
     lambda maps, removed: mixed_without(maps, removed[:1]),
     "Every pair in `removed` takes a head out."),
    ("an even map where no head is left",
     lambda maps, removed: _in_its_place(torch.zeros_like)([
         torch.stack([torch.full_like(layer[0], 1 / layer.shape[-1])] * len(layer))
         if all((i, h) in removed for h in range(len(layer))) else layer
         for i, layer in enumerate(maps)],
         [(i, h) for i, h in removed
          if not all((i, k) in removed for k in range(len(maps[i])))]),
     "A layer without heads brings nothing: its map is zero, and what was in the stream stays."),
    ("an even map for each head that is removed",
     _in_its_place(lambda one: torch.full_like(one, 1 / one.shape[-1])),
     "A head that is taken out brings nothing: zeros."),
    ("the layers one by one", lambda maps, removed: torch.stack([
         mixed_without(maps[i : i + 1], [(0, h) for j, h in removed if j == i])
         for i in range(len(maps))]),
     "The layers are right. Multiply them, a higher one on the left."),
    ("nothing mended, and an error where no head is left", _as_given,
     "Look at what the weights are divided by, at what a layer leaves in the stream, and at which "
     "side a higher layer stands."),
    ("begun with zeros", lambda maps, removed: torch.zeros_like(maps[0][0]),
     "Whatever is multiplied with zeros is zero. Before the first layer every place holds itself "
     "alone: the identity, `torch.eye`."),
    ("begun with ones",
     lambda maps, removed: mixed_without(maps, removed) @ torch.ones_like(maps[0][0]),
     "Before the first layer every place holds itself alone: the identity, `torch.eye`."),
    ("the first layer left out", _some_layers(1, None),
     "All layers are multiplied, the lowest as well. Its number is 0."),
    ("the last layer left out", _some_layers(0, -1),
     "All layers are multiplied, the highest as well."),
    ("divided by one head less than there are",
     _product(lambda left, heads, one: (sum(left, 0 * one) / max(1, heads - 1) + one) / 2),
     "The sum is divided by all heads of the layer, however many are taken out."),
    ("the last of the heads that are left, alone",
     _product(lambda left, heads, one: ((left[-1] if left else 0 * one) + one) / 2),
     "Does each head overwrite the one before? Add them up, and divide by all heads."),
    ("what was there at the beginning in each layer", _from_the_beginning,
     "The residual connection passes on what stood in the stream before *this* layer."),
    ("the diagonal alone", lambda maps, removed: mixed_without(maps, removed).diag(),
     "Asked for is the whole of it, (T, T)."),
)  # fmt: skip

# 15.9 between which bounds an entropy lies


def entropy_range(largest: float, keys: int) -> tuple[float, float]:
    return _least(largest), _most(largest, keys)


RANGE_CASES = [(0.6, 3), (0.5, 2), (0.3, 5), (0.45, 7), (0.24, 8), (1.0, 4), (0.25, 4), (0.7, 2)]


def _part(weight: float) -> float:
    return -weight * math.log(weight) if weight > 1e-12 else 0.0


def _least(largest: float) -> float:
    whole = math.floor(1 / largest + 1e-9)
    return whole * _part(largest) + _part(1 - whole * largest)


def _most(largest: float, keys: int) -> float:
    others = keys - 1
    rest = (1 - largest) / others if others else 0.0
    return _part(largest) + others * _part(rest)


def _careless(weight: float) -> float:
    return float(-weight * torch.tensor(weight).log())


RANGE_MISTAKES = mistakes(
    ("as many keys with the largest weight as cover all",
     lambda a, n: (math.ceil(1 / a - 1e-9) * _part(a), _most(a, n)),
     "So many sum to more than one: the last of them has only what is left over."),
    ("one key more with the largest weight than fit, always",
     lambda a, n: ((math.floor(1 / a + 1e-9) + 1) * _part(a), _most(a, n)),
     "As many as fit have the largest weight, rounded down, and only what is left over lies on one "
     "more."),
    ("the keys with the largest weight taken together for the rest",
     lambda a, n: (lambda k: (k * _part(a) + _part(k * a), _most(a, n)))(math.floor(1 / a + 1e-9)),
     "On one more key lies what is left over: 1 less what those keys have together."),
    ("1 less the largest for the rest, behind as many as fit",
     lambda a, n: (math.floor(1 / a + 1e-9) * _part(a) + _part(1 - a), _most(a, n)),
     "On one more key lies what is left over: 1 less what all those keys have together."),
    ("the rest divided by the number of all keys",
     lambda a, n: (_least(a), _part(a) + (n - 1) * _part((1 - a) / n)),
     "The rest is spread over the n - 1 others."),
    ("a key too many with a share of the rest",
     lambda a, n: (_least(a), _part(a) + n * _part((1 - a) / (n - 1))),
     "One key has `largest`, and n - 1 share the rest."),
    ("every key with a share of the rest, none with the largest",
     lambda a, n: (_least(a), n * _part((1 - a) / (n - 1))),
     "One key has `largest`, and n - 1 share the rest."),
    ("the largest in place of the rest before the logarithm",
     lambda a, n: (_least(a), _part(a) + _part(1 - a) + a * math.log(n - 1)),
     "What is spread over the n - 1 others is the rest, 1 - largest."),
    ("one key more with the largest weight than fit",
     lambda a, n: (lambda k: (k * _part(a) + _part(max(0.0, 1 - (k - 1) * a)), _most(a, n)))(
         math.ceil(1 / a - 1e-9)),
     "So many weights of `largest` sum to more than one: as many as fit, rounded down, and the "
     "rest on one more."),
    ("the logarithm of n - 1 as the greatest",
     lambda a, n: (_least(a), math.log(n - 1)),
     "Only the rest is even over n - 1 keys, and only 1 - largest of the weight: the largest has "
     "its part as well."),
    ("the rest on two keys at most",
     lambda a, n: (
         _part(a) + (_part(1 - a) if 1 - a <= a else _part(a) + _part(max(0.0, 1 - 2 * a))),
         _most(a, n),
     ),
     "None of the other keys has more than `largest`: as many as fit have `largest` itself, and "
     "what is left over lies on one more."),
    ("log 2 as the least where the rest is more than the largest",
     lambda a, n: (_part(a) + _part(1 - a) if a > 0.5 else math.log(2), _most(a, n)),
     "Two keys with a half each have more than `largest`. As many as fit have `largest` itself, "
     "and the rest lies on one more."),
    ("the rows in place of their entropies",
     lambda a, n: ([a, 1 - a], [a] + [(1 - a) / (n - 1)] * (n - 1)),
     "Asked for are two numbers, the entropies of such rows."),
    ("zero times the logarithm of zero, in the greatest",
     lambda a, n: (_least(a), _part(a) + (n - 1) * _careless((1 - a) / (n - 1))),
     "The logarithm of 0 is minus infinity, and 0 times it is not a number. A weight of 0 adds "
     "nothing."),
    ("the rest on one other key, and the two exchanged",
     lambda a, n: (_most(a, n), _part(a) + _part(1 - a)),
     "The least comes first; and no other weight may be larger than the largest."),
    ("the least entropy without a rest",
     lambda a, n: (math.floor(1 / a + 1e-9) * _part(a), _most(a, n)),
     "As many keys as fit have the largest weight, and what is left over lies on one more."),
    ("the rest on one other key", lambda a, n: (_part(a) + _part(1 - a), _most(a, n)),
     "That is least only if the rest is not more than the largest weight. Else it would be the "
     "largest itself."),
    ("always 0 at least", lambda a, n: (0.0, _most(a, n)),
     "0 needs all weight on one key, and none has more than `largest`."),
    ("the logarithm of the largest", lambda a, n: (-math.log(a), _most(a, n)),
     "That is a bound, and it is reached only where 1 / largest is whole."),
    ("as many even keys as fit", lambda a, n: (math.log(math.floor(1 / a + 1e-9)), _most(a, n)),
     "The keys that have `largest` do not hold all the weight: the rest lies on one more, and "
     "counts."),
    ("one even key more than fit", lambda a, n: (math.log(math.ceil(1 / a - 1e-9)), _most(a, n)),
     "Even shares would be less than `largest`. As many keys as fit have `largest` itself, and "
     "one more has the rest."),
    ("the largest weight's part alone", lambda a, n: (_part(a), _most(a, n)),
     "The rest lies somewhere, and counts."),
    ("the part of the largest forgotten",
     lambda a, n: (_least(a), _most(a, n) - _part(a)),
     "The largest weight has its part, - a log a, beside the even others."),
    ("two keys at most", lambda a, n: (_least(a), _part(a) + _part(1 - a)),
     "The greatest entropy spreads the rest over all n - 1 other keys."),
    ("log n at most", lambda a, n: (_least(a), math.log(n)),
     "That needs all weights equal. One of them is `largest`; spread the others evenly."),
    ("the rest spread over all keys",
     lambda a, n: (_least(a), _part(a) + n * _part((1 - a) / n)),
     "n - 1 keys are left for the rest."),
    ("the entropy of the rest, not weighted",
     lambda a, n: (_least(a), _part(a) + (math.log(n - 1) if n > 1 else 0.0)),
     "The other n - 1 keys share 1 - largest, and count by that much."),
    ("the choice between the largest and the rest forgotten",
     lambda a, n: (_least(a), (1 - a) * math.log(n - 1) if n > 1 else 0.0),
     "The entropy of a choice in two steps is that of the first, plus that of the second times how "
     "often it is made."),
    ("the bounds of any row", lambda a, n: (0.0, math.log(n)),
     "That is where the entropy of any row of n weights lies. Here the largest is known."),
    ("the two exchanged", lambda a, n: (_most(a, n), _least(a)), "The least comes first."),
    ("in bits", lambda a, n: tuple(x / math.log(2) for x in entropy_range(a, n)),
     "The chapter's entropy is in nats, with the natural logarithm."),
    *((f"in bits, and {name}",
       lambda a, n, bounds=bounds: tuple(x / math.log(2) for x in bounds(a, n)),
       f"{why} And entropies are in nats, with the natural logarithm.")
      for name, bounds, why in (
          ("the rest spread over all keys",
           lambda a, n: (_least(a), _part(a) + n * _part((1 - a) / n)),
           "n - 1 keys are left for the rest."),
          ("the rest on one other key", lambda a, n: (_part(a) + _part(1 - a), _most(a, n)),
           "That is least only if the rest is not more than the largest weight."),
          ("the least entropy without a rest",
           lambda a, n: (math.floor(1 / a + 1e-9) * _part(a), _most(a, n)),
           "What is left over lies on one key more."),
          ("log n at most", lambda a, n: (_least(a), math.log(n)),
           "One of the weights is `largest`; the others share the rest evenly."),
          ("always 0 at least", lambda a, n: (0.0, _most(a, n)),
           "0 needs all weight on one key, and none has more than `largest`."),
          ("the two exchanged", lambda a, n: (_most(a, n), _least(a)), "The least comes first."),
      )),
    ("the sign turned", lambda a, n: tuple(-x for x in entropy_range(a, n)),
     "Entropy is never negative."),
    ("numbers of words", lambda a, n: tuple(math.exp(x) for x in entropy_range(a, n)),
     "Asked for are the entropies themselves, not e to their power."),
    ("the same twice", lambda a, n: (_most(a, n),) * 2,
     "The rest can lie on few keys or on many: two bounds."),
    ("as many keys as fit, rounded",
     lambda a, n: (
         (k := round(1 / a)) * _part(a) + _part(max(1 - k * a, 0.0)), _most(a, n)
     ),
     "As many keys as *fit* have the largest weight: 1 / largest is rounded down."),
    ("the least alone", lambda a, n: _least(a), "Return both, `(least, greatest)`."),
    ("the choice among the others counted in full",
     lambda a, n: (_least(a), _part(a) + _part(1 - a) + math.log(n - 1)),
     "One of the others is chosen only with 1 - largest: the entropy of this choice counts by "
     "that much."),
    ("the rest on one other key, and log n at most",
     lambda a, n: (_part(a) + _part(1 - a), math.log(n)),
     "The rest may be more than the largest weight, and then it needs more keys; and log n needs "
     "all weights equal, but one of them is `largest`."),
    ("an error where the rest is 0",
     lambda a, n: (_least(a), _part(a) - (1 - a) * math.log((1 - a) / (n - 1))),
     "With `largest = 1` nothing is left for the others, and 0 has no logarithm. A weight of 0 "
     "adds nothing."),
    ("one share of the rest counted for all",
     lambda a, n: (_least(a), _part(a) + _part((1 - a) / (n - 1))),
     "n - 1 keys share the rest, and each of them has its part in the sum."),
    ("the even shares forgotten under their logarithm",
     lambda a, n: (_least(a), _part(a) + (1 - a) * math.log(n - 1)),
     "A share of (1 - a) / (n - 1) has the logarithm of both: log(1 - a) - log(n - 1)."),
    ("one key less than fit",
     lambda a, n: (lambda k: (k * _part(a) + _part(1 - k * a), _most(a, n)))(
         max(1, math.floor(1 / a + 1e-9) - 1)),
     "As many keys as fit have the whole of `largest`: the whole part of 1 / largest."),
    ("0 log 0", lambda a, n: tuple(
         math.nan if x else y for x, y in zip(
             (abs(1 / a - round(1 / a)) < 1e-9, a == 1), entropy_range(a, n), strict=True)),
     "A weight of 0 adds nothing, though its logarithm is minus infinity: leave it out."),
    ("divided by the logarithm of n",
     lambda a, n: tuple(x / math.log(n) for x in entropy_range(a, n)),
     "The entropy is asked for in nats, as it is."),
    ("the least twice", lambda a, n: (_least(a), _least(a)),
     "The rest can lie on few keys or on many: two bounds. It is most even where the n - 1 other "
     "keys share it."),
    ("one over n for each of the others, in the greatest",
     lambda a, n: (_least(a), _part(a) + (n - 1) * _part(1 / n)),
     "The others share what is left: (1 - largest) / (n - 1) each."),
    ("the rest spread over all keys that are left, in the least",
     lambda a, n: (
         (k := math.floor(1 / a + 1e-9)) * _part(a)
         + (n - k) * _part((1 - k * a) / max(1, n - k)), _most(a, n)),
     "To spread makes an entropy greater. It is least with the whole rest on one more key."),
    ("the rest on two keys, in the greatest",
     lambda a, n: (_least(a), _part(a) + 2 * _part((1 - a) / 2)),
     "It is greatest where all n - 1 other keys share the rest."),
    ("the rest on two keys, in the least",
     lambda a, n: (_part(a) + 2 * _part((1 - a) / 2), _most(a, n)),
     "As many keys as fit have `largest` itself, and what is left over lies on one more."),
    ("the greatest less the least", lambda a, n: _most(a, n) - _least(a),
     "Return both, `(least, greatest)`."),
    ("1 less the largest times the logarithm of n, as the greatest",
     lambda a, n: (_least(a), (1 - a) * math.log(n)),
     "The entropy of a choice in two steps: that between the largest and the rest, and 1 - largest "
     "times that among the n - 1 others."),
    ("1 less the largest, as the least", lambda a, n: (1 - a, _most(a, n)),
     "That is a weight, not an entropy: each weight counts with its logarithm."),
)  # fmt: skip


# 15.10 three opinions on one row


def three_opinions(width: int) -> tuple[list, list]:
    return _opinions()(width)


THREE = (
    "weights above 0 that sum to one",
    "each view has one key on top",
    "weight and length disagree",
    "weight and effect disagree",
    "length and effect disagree",
)


def _asked(answer: Callable, width: int) -> dict[str, bool]:
    """Which key has most weight, which brings the longest vector, which is missed most."""
    found = answer(width)
    if not isinstance(found, list | tuple) or len(found) != 2:
        raise ValueError("expected two, (weights, vectors), of your function")
    depths = [np.ndim([[*row] if np.ndim(row) else row for row in each]) for each in found]
    if depths != [1, 2]:
        raise ValueError(
            "expected (weights, vectors), a list of numbers and a list of as many vectors, each "
            f"of `width` numbers, got lists of {depths[0]} and {depths[1]} axes"
        )
    weights, vectors = found
    a = torch.tensor([float(x) for x in weights], dtype=torch.float64)
    f = torch.tensor([[float(x) for x in row] for row in vectors], dtype=torch.float64)
    if f.shape != (len(a), width):
        raise ValueError(
            f"vectors: expected one of {width} numbers for each of the {len(a)} weights, got "
            f"{len(f)} of {f.shape[1]}"
        )
    if len(a) < 3:
        raise ValueError(f"expected three keys at least, one for each view, got {len(a)}")
    proper = bool((a > 0).all() and (a < 1).all() and abs(a.sum() - 1) < 1e-5)
    if not proper:  # what such weights would do is not asked
        return {name: name != THREE[0] for name in THREE}
    said = _three_views(a, f)
    if not all(said) and all(_three_views(a, f / a[:, None])):
        raise ValueError(
            "expected the f_s beside their weights, and these would do as the a_s f_s: divide each "
            "by its weight"
        )
    return dict(zip(THREE, (proper, *said), strict=True))


def _three_views(a: Tensor, f: Tensor) -> tuple[bool, ...]:
    output = a @ f
    views = [a, (a[:, None] * f).norm(dim=1), a / (1 - a) * (output - f).norm(dim=1)]
    one, two, three = (int(view.argmax()) for view in views)
    gaps = [float(view.topk(2).values.diff().abs()) for view in views]
    return min(gaps) > 1e-3, one != two, one != three, two != three


def _opinions(
    numbers: str = "right", factor: float = 1.0, wide: int | None = None
) -> Callable[..., tuple[list, list]]:
    """In one dimension; the others are filled with zeros."""
    weights, along = {
        "right": ([0.45, 0.35, 0.2], [0.7, 1.0, -1.7]),
        "equal vectors": ([0.5, 0.3, 0.2], [1.0, 1.0, 1.0]),
        "one short": ([0.6, 0.3, 0.1], [0.1, 1.0, 0.5]),
        "one far": ([0.5, 0.3, 0.2], [0.2, 0.3, -3.0]),
        "level": ([0.5, 0.25, 0.25], [0.4, 1.0, -1.0]),
        "no effect": ([0.6, 0.3, 0.1], [1.0, 1.9, -1.7]),
    }[numbers]

    def answer(width: int) -> tuple[list, list]:
        more = [0.0] * ((wide or width) - 1)
        return [factor * w for w in weights], [[x, *more] for x in along]

    return answer


OPINIONS_MISTAKES = mistakes(
    ("two keys are level", _opinions("level"),
     "The three views disagree. But in one of them the first is ahead of the second by 0.001 at "
     "most."),
    ("a tie, and the longest is the heaviest", _opinions("equal vectors"),
     "In one of the views no key is ahead by more than 0.001. (With equal vectors the output stays "
     "where it is, whichever key is hidden.) And the key with most weight also brings the longest "
     "vector: make its vector shorter."),
    ("the heaviest is missed most", _opinions("one short"),
     "Weight and length disagree now. But the key with most weight is also the one that is missed "
     "most: the output lies too far from its vector."),
    ("the longest is missed most", _opinions("one far"),
     "The key that is missed most also brings the longest vector. What is hidden matters by its "
     "distance from the *output*, not by its length."),
    ("the longest is the heaviest", _opinions("no effect"),
     "The third view has a key of its own now. But the key with most weight also brings the "
     "longest vector: make its vector shorter."),
    ("not a row of weights", _opinions(factor=2.0), "Weights are above 0 and sum to one."),
    *((f"vectors of {number}, whatever `width` is", _opinions(wide=wide),
       "The row is right. Its vectors are to be as long as `width` says.")
      for number, wide in (("one number", 1), ("two numbers", 2), ("three numbers", 3))),
)  # fmt: skip


# 15.11 a test for a rollout, which is put to those of 15.8


def _with_zeros(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
    """Right, with zeros in the place of the heads, and from the uppermost layer downwards."""
    itself = torch.eye(maps[0].shape[-1])
    mixed = itself
    for i, layer in reversed(list(enumerate(maps))):
        gone = [h for at, h in removed if at == i]
        mixed = mixed @ (layer.index_fill(0, torch.tensor(gone).long(), 0.0).mean(0) + itself)
    return mixed / 2 ** len(maps)


def _by_parts(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
    """Right, each head's part by itself."""
    mixed = torch.eye(maps[0].shape[-1])
    for i, layer in enumerate(maps):
        parts = [head @ mixed / len(layer) for h, head in enumerate(layer) if (i, h) not in removed]
        mixed = 0.5 * mixed + 0.5 * sum(parts, torch.zeros_like(mixed))
    return mixed


RIGHT_ROLLOUTS: dict[str, Callable] = {
    "right": mixed_without,
    "right, with zeros for the heads": _with_zeros,
    "right, head by head": _by_parts,
}


def _last_row_kept(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
    mixed = mixed_without(maps, removed)
    return torch.cat([mixed[:-1], torch.eye(len(mixed))[-1:]])


A_LITTLE_MORE = moved(mixed_without, 0.02)
ALL_ROLLOUTS: dict[str, Callable] = {
    **RIGHT_ROLLOUTS,
    A_LITTLE_MORE[0]: A_LITTLE_MORE[1],
    "the first map": lambda maps, removed: maps[0][0],
    **{mistake.name: mistake.wrong for mistake in MIXED_MISTAKES},
    "the last row of its own": _last_row_kept,
}


ROLLOUTS_WHY = (
    {
        A_LITTLE_MORE[0]: A_LITTLE_MORE[2],
        "the first map": "Nothing is mixed.",
        "the last row of its own": "The last row is the identity's. It shows in the last row.",
    }
    | {mistake.name: "It is one of the mistakes of Exercise 15.8." for mistake in MIXED_MISTAKES}
    | {
        "divided by the heads of all layers": "Take several layers.",
        "the first layer's maps in every layer": "Let each layer have maps of its own.",
    }
)


def rollout_right(mixed: Callable) -> bool:
    return _rollouts_compared()(mixed)


def run_rollout_test(answer: Callable, mixed: str) -> Any:
    return said_closely(answer, ALL_ROLLOUTS[mixed], right=mixed in RIGHT_ROLLOUTS)


def _maps(layers: int = 3, heads: int = 2, tokens: int = 4) -> list[Tensor]:
    draw = torch.Generator().manual_seed(1511)
    scores = 1.5 * torch.randn(layers, heads, tokens, tokens, generator=draw)
    return list(scores.softmax(-1))


def _rollouts_compared(
    cases: Sequence[tuple] = (
        (_maps(), [(0, 1), (2, 0)]),
        (_maps(), [(1, 0), (1, 1)]),
        (_maps(2, 3), [(0, 2)]),
    ),
    look: Callable = lambda mixed: mixed,
    right: Callable = mixed_without,
    same: Callable = torch.allclose,
) -> Callable:
    """A test by comparison: on which maps, and what is compared with what."""
    return lambda mixed: all(same(look(mixed(*case)), look(right(*case))) for case in cases)


ROLLOUT_TEST_MISTAKES = mistakes(
    ("only whether rows sum to one",
     lambda mixed: torch.allclose(mixed(_maps(), [(0, 1)]).sum(-1), torch.ones(4), atol=1e-4),
     "What a head does not bring is missing: rows then sum to less than one. And rows that sum to "
     "the right number may have the wrong shares."),
    ("compared with the faulty rollout",
     _rollouts_compared([(_maps(), [(0, 1), (2, 0)])], right=_mixed("left", False, False)),
     "That one is to fail. Compare with your answer to Exercise 15.8."),
    ("everything passes", lambda mixed: True,
     "A test that says yes to everything tests nothing. The shape does not tell, either: all of "
     "them return the right one."),
    ("nothing passes", lambda mixed: False,
     "The right ones must pass, however they are written. Do you compare to the last digit, as "
     "`torch.equal` does? Each rounds in its own way: `torch.allclose` forgives that. And is what "
     "you compare with right?"),
    ("only the shape, and whether rows sum to one where no head is taken out",
     lambda mixed: torch.allclose(mixed(_maps(), []).sum(-1), torch.ones(4), atol=1e-4),
     "Shape and row sums are right in most of the wrong ones. Take heads out, and compare every "
     "entry with what it should be."),
    ("only whether the numbers are shares",
     lambda mixed: bool((mixed(_maps(), [(0, 1)]) >= 0).all() and (
         mixed(_maps(), [(0, 1)]).sum(-1) < 1 + 1e-4).all()),
     "Numbers from 0 to 1 come out of most of the wrong ones. Compare every entry with what it "
     "should be."),
    ("yes and no exchanged", lambda mixed: not rollout_right(mixed),
     "True is for a right rollout, False for a wrong one."),
    ("no head taken out", _rollouts_compared([(_maps(), [])]),
     "Where all heads stay, nobody sees how they are taken out. (Or is it enough for your test if "
     "one of several maps comes out right? All must: `all`, not `any`.)"),
    ("as many heads as layers", _rollouts_compared([
        (_maps(2, 2), [(0, 1)]), (_maps(2, 2), [(1, 0)]), (_maps(2, 2), [(1, 0), (1, 1)]),
        (_maps(2, 2), [])]),
     "Where a layer has as many heads as there are layers, nobody sees which number the sum is "
     "divided by."),
    ("one layer", _rollouts_compared([(_maps(1, 3), [(0, 1)])]),
     "With one layer there is no order of layers. Take several, and take heads out of some."),
    *((f"one layer, {what}", _rollouts_compared([(_maps(1, heads), gone) for gone in removed]),
       "With one layer there is no order of layers, and nothing to mix with. Take several, and "
       "take heads out of some.")
      for what, heads, removed in (
          ("and all of its heads taken out as well", 3, ([], [(0, 1)], [(0, 0), (0, 1), (0, 2)])),
          ("with no head taken out", 3, ([],)),
      )),
    ("no layer without heads", _rollouts_compared([(_maps(), [(0, 1), (2, 0)])]),
     "One of them goes wrong where all heads of a layer are gone. Try that, too."),
    ("whole layers alone", _rollouts_compared([(_maps(), [(1, 0), (1, 1)])]),
     "Where a whole layer is gone, nobody sees what becomes of the heads that stay."),
    ("pairs that stay the same if layer and head are exchanged",
     _rollouts_compared([(_maps(2, 3), [(0, 0)])]),
     "So does (0, 0) alone, and (0, 1) together with (1, 0). Take out others."),
    ("one token, or the identity for all maps",
     _rollouts_compared([(_maps(3, 2, 1), [(0, 1), (2, 0)])]),
     "With one token every map is the number 1, and where all maps are the identity each word "
     "stays where it is: all orders are alike."),
    ("even maps, or only the sum of all entries", _rollouts_compared([
        ([torch.full((2, 4, 4), 0.25)] * 3, [(0, 1), (2, 0)]),
        ([torch.full((2, 4, 4), 0.25)] * 3, [(1, 0), (1, 1)]),
     ]),
     "Where all maps are the same, or all entries are added up, nobody sees which stands where. "
     "Draw the maps, and compare every entry."),
    ("the sums of the rows alone", _rollouts_compared(look=lambda mixed: mixed.sum(-1)),
     "Rows can sum to the right number with the wrong shares. Compare every entry."),
    ("the diagonal alone", _rollouts_compared(look=lambda mixed: mixed.diagonal()),
     "A matrix and its transpose have one diagonal. Compare every entry."),
    ("equal to the last digit", _rollouts_compared(same=torch.equal),
     "A right one may round otherwise. `torch.allclose` forgives the last digits."),
    ("rows that sum to one asked for", _rollouts_compared(right=_mixed(again=True)),
     "What a head does not bring is missing: rows then sum to less than one."),
    ("the mean over what is left asked for",
     _rollouts_compared([(_maps(), [(0, 1), (2, 0)])], right=_mixed("left, or zeros")),
     "That lets the others bring more than they did. The sum is divided by *all* heads."),
    ("no residual asked for", _rollouts_compared(right=_mixed(residual=False)),
     "What was in the stream before the layer is still there: (A + I) / 2."),
    ("the lowest layer on the left asked for", _rollouts_compared(right=_mixed(above=False)),
     "A higher layer works on what the lower ones made: it stands on the left (15.7)."),
    ("the first row alone", _rollouts_compared(look=lambda mixed: mixed[0]),
     "One of them is wrong in the last row only. Compare every entry."),
    ("the statement's example alone", lambda mixed: torch.allclose(
         torch.as_tensor(mixed([torch.tensor([[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])],
                               [(0, 1)])),
         torch.tensor([[0.5, 0.25], [0.25, 0.5]])),
     "One layer and two maps that are their own mirrors: much passes that is wrong elsewhere."),
    ("one head in each layer", _rollouts_compared([
        (_maps(3, 1), [(0, 0)]), (_maps(3, 1), [(2, 0)]), (_maps(3, 1), [])]),
     "With one head in a layer nobody sees by how many the sum is divided."),
)  # fmt: skip


EXERCISES = [
    Exercise(
        number="15.1",
        title="how much heads disagree",
        section="How many words does a head attend to?",
        reference=disagreement,
        cases=disagreement_cases,
        mistakes=DISAGREEMENT_MISTAKES,
        atol=1e-5,
        invariants=[
            Invariant(
                "the difference lies between 0 and the logarithm of the number of heads",
                lambda output, weights: bool(
                    (torch.as_tensor(output) > -1e-4).all()
                    and (torch.as_tensor(output) < math.log(weights.shape[1]) + 1e-4).all()
                ),
                "It is 0 where all heads have the same row, and log H where no two share a key.",
            )
        ],
    ),
    Exercise(
        number="15.2",
        title="what an even map scores",
        section="Scores in place of pictures",
        reference=even_scores,
        cases=EVEN_CASES,
        mistakes=EVEN_MISTAKES,
    ),
    Exercise(
        number="15.3",
        title="a gentler ablation",
        section="Taking heads out",
        reference=gentle,
        cases=gentle_cases,
        mistakes=GENTLE_MISTAKES,
    ),
    Exercise(
        number="15.4",
        title="links that both sides want",
        section="Which row writes a word?",
        reference=agreed,
        cases=agreed_cases,
        mistakes=AGREED_MISTAKES,
        canonical=_pairs,
    ),
    Exercise(
        number="15.5",
        title="what stays if all maps are even",
        section="Mixed before it is looked at",
        reference=stays,
        cases=STAYS_CASES,
        mistakes=STAYS_MISTAKES,
        canonical=float,
    ),
    Exercise(
        number="15.6",
        title="rank correlation with ties",
        section="Taking words out",
        reference=rank_correlation,
        cases=rank_cases,
        mistakes=RANK_MISTAKES,
        invariants=[
            Invariant(
                "a correlation lies between -1 and 1",
                lambda output, *_: bool(abs(float(output)) <= 1 + 1e-4),
                "It is a cosine: of the ranks, less their mean.",
            )
        ],
    ),
    Exercise(
        number="15.7",
        title="predict, then try: what heads are worth",
        section="Taking heads out",
        reference=true_of_heads,
        mistakes=mistakes(
            *_misjudged(),
            (
                "the numbers of statements",
                [2, 3],
                "Asked for are five booleans, one for each statement: [True, ...].",
            ),
        ),  # fmt: skip
        canonical=booleans,
    ),
    Exercise(
        number="15.8",
        title="find the mistakes in a rollout",
        section="Mixed before it is looked at",
        reference=mixed_without,
        cases=mixed_cases,
        mistakes=MIXED_MISTAKES + MORE_MIXED_MISTAKES,
    ),
    Exercise(
        number="15.9",
        title="how wide, if so much lies on one",
        section="How many words does a head attend to?",
        reference=entropy_range,
        cases=RANGE_CASES,
        mistakes=RANGE_MISTAKES,
        atol=1e-5,
    ),
    Exercise(
        number="15.10",
        title="three opinions on one row",
        section="A weight and what it weighs",
        reference=three_opinions,
        cases=[(1,), (2,), (3,), (5,)],
        mistakes=OPINIONS_MISTAKES,
        probe=_asked,
    ),
    Exercise(
        number="15.11",
        title="a test for a rollout",
        section="Mixed before it is looked at",
        reference=rollout_right,
        cases=[(name,) for name in ALL_ROLLOUTS],
        mistakes=ROLLOUT_TEST_MISTAKES,
        invariants=rules(RIGHT_ROLLOUTS, ROLLOUTS_WHY),
        probe=run_rollout_test,
        together=spoken,
    ),
]
