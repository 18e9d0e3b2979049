"""The exercises of chapter 3, attention as alignment: references, cases and known mistakes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .core import Exercise, Invariant, mistakes

# 3.1 one look by hand: three weights, then the two entries of the context


def look_by_hand(weights: list[float]) -> list[float]:
    return [*weights, weights[1] * math.log(2), weights[2] * math.log(5)]


LOG_SUM = math.log(2) + math.log(5)
HAND_MISTAKES = mistakes(
    ("exponentials that were not divided by their sum", look_by_hand([1.0, 2.0, 5.0]),
     "These are the exponentials of the scores. Weights must sum to one: divide by 1 + 2 + 5."),
    ("scores divided by their sum, without the exponential",
     look_by_hand([0.0, math.log(2) / LOG_SUM, math.log(5) / LOG_SUM]),
     "The softmax takes the exponential of each score first, then divides by the sum."),
    ("a hard look-up", look_by_hand([0.0, 0.0, 1.0]),
     "All weight went to the best state. A soft look-up gives every state its share."),
    ("the same weight for every state", look_by_hand([1 / 3, 1 / 3, 1 / 3]),
     "The scores differ, so the weights do. They would all be 1/3 if the query were zero."),
    ("the context not weighted", [1 / 8, 2 / 8, 5 / 8, math.log(2), math.log(5)],
     "The weights are right. The context is the sum of the states, each times its weight."),
    ("the softmax of the scores with the sign turned", look_by_hand([10 / 17, 5 / 17, 2 / 17]),
     "A higher score must give a higher weight: the exponential is that of e, not of -e."),
    ("the entries of the context exchanged",
     [1 / 8, 2 / 8, 5 / 8, 5 / 8 * math.log(5), 2 / 8 * math.log(2)],
     "The first entry of the context comes from the first entries of the states. Only the second "
     "state has one that is not zero."),
    ("the context before the weights",
     [2 / 8 * math.log(2), 5 / 8 * math.log(5), 1 / 8, 2 / 8, 5 / 8],
     "All five numbers are right. The task asks for the three weights first."),
    ("the weights in percent", [12.5, 25.0, 62.5, 2 / 8 * math.log(2), 5 / 8 * math.log(5)],
     "Weights are shares of one, not of a hundred: they sum to one."),
)  # fmt: skip

# 3.2 general score


def general_score(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
    return q @ w @ k.transpose(1, 2)


def general_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(32)
    sizes = [(2, 3, 4, 3), (3, 2, 5, 4), (1, 1, 3, 2), (2, 3, 1, 1)]  # B, T, S, width
    return [
        tuple(torch.randn(*shape, generator=draw) for shape in ((b, t, d), (b, s, d), (d, d)))
        for b, t, s, d in sizes
    ]


GENERAL_MISTAKES = mistakes(
    ("W transposed", lambda q, k, w: q @ w.T @ k.transpose(1, 2),
     "W stands between query and key as q W k: its rows belong to the query, its columns to the "
     "key. Where query and key have different widths, W transposed would not even fit."),
    ("the dot score", lambda q, k, w: q @ k.transpose(1, 2),
     "W is missing. The general score is the dot score with a learned matrix in between."),
    ("both query and key multiplied by W", lambda q, k, w: q @ w @ (k @ w).transpose(1, 2),
     "One matrix stands between the two. Here it is used twice, once on each side."),
    ("entries of W that are not on its diagonal left out",
     lambda q, k, w: (q * w.diagonal()) @ k.transpose(1, 2),
     "q W is a product of matrices, in which each entry of the result mixes all entries of q."),
    ("queries and keys exchanged", lambda q, k, w: (q @ w @ k.transpose(1, 2)).transpose(1, 2),
     "Rows are queries and columns are keys: the shape is (B, T, S), not (B, S, T)."),
    ("weights instead of scores", lambda q, k, w: (q @ w @ k.transpose(1, 2)).softmax(-1),
     "The softmax comes later. A score may be any number, also below zero."),
    ("keys reshaped, not transposed",
     lambda q, k, w: q @ w @ k.reshape(k.shape[0], k.shape[2], k.shape[1]),
     "A reshape gives the right shape and the wrong numbers: it cuts the same row of numbers anew, "
     "so that each column holds pieces of several keys. A transpose exchanges the axes."),
    ("scores divided by the root of the width",
     lambda q, k, w: q @ w @ k.transpose(1, 2) / k.shape[-1] ** 0.5,
     "The division by a root belongs to the Transformer. Luong's score has none."),
)  # fmt: skip

# 3.3 additive score


def additive_score(q: Tensor, k: Tensor, w_q: Tensor, w_k: Tensor, v: Tensor) -> Tensor:
    return torch.tanh((q @ w_q).unsqueeze(2) + (k @ w_k).unsqueeze(1)) @ v


def additive_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(33)
    cases = []
    for b, t, s, d, a in ((2, 3, 4, 3, 5), (3, 4, 2, 2, 3), (1, 1, 3, 2, 4), (2, 3, 1, 1, 1)):
        shapes = (b, t, d), (b, s, d), (d, a), (d, a), (a,)
        cases.append(tuple(torch.randn(*shape, generator=draw) for shape in shapes))
    return cases


def _sums(q: Tensor, k: Tensor, w_q: Tensor, w_k: Tensor) -> Tensor:
    return (q @ w_q).unsqueeze(2) + (k @ w_k).unsqueeze(1)


ADDITIVE_MISTAKES = mistakes(
    ("no tanh", lambda q, k, w_q, w_k, v: _sums(q, k, w_q, w_k) @ v,
     "Without the tanh the score is one number for the query plus one for the key, and the query's "
     "number cancels in the softmax: every query would look at the same place."),
    ("tanh of the score instead of tanh of the hidden layer",
     lambda q, k, w_q, w_k, v: torch.tanh(_sums(q, k, w_q, w_k) @ v),
     "The tanh belongs inside, on the sum of the two projections; v comes after it."),
    ("tanh on each projection, before the sum",
     lambda q, k, w_q, w_k, v: (
         (torch.tanh(q @ w_q).unsqueeze(2) + torch.tanh(k @ w_k).unsqueeze(1)) @ v
     ),
     "The tanh comes after the sum. Before it, query and key never meet under one tanh, and the "
     "query's part cancels in the softmax."),
    ("projections multiplied instead of added",
     lambda q, k, w_q, w_k, v: torch.tanh((q @ w_q).unsqueeze(2) * (k @ w_k).unsqueeze(1)) @ v,
     "The additive score owes its name to the sum of q W_q and k W_k."),
    ("v left out", lambda q, k, w_q, w_k, v: torch.tanh(_sums(q, k, w_q, w_k)).sum(-1),
     "The hidden layer was summed as it is. Its entries must be weighted with v."),
    ("the two matrices exchanged", lambda q, k, w_q, w_k, v: torch.tanh(_sums(q, k, w_k, w_q)) @ v,
     "W_q belongs to the query and W_k to the key."),
    ("another function than tanh: the sigmoid",
     lambda q, k, w_q, w_k, v: torch.sigmoid(_sums(q, k, w_q, w_k)) @ v,
     "Bahdanau's hidden layer has tanh, which runs from -1 to 1."),
    ("another function than tanh: the ReLU",
     lambda q, k, w_q, w_k, v: torch.relu(_sums(q, k, w_q, w_k)) @ v,
     "Bahdanau's hidden layer has tanh, which runs from -1 to 1."),
    ("queries and keys exchanged",
     lambda q, k, w_q, w_k, v: (torch.tanh(_sums(q, k, w_q, w_k)) @ v).transpose(1, 2),
     "Rows are queries and columns are keys: the shape is (B, T, S), not (B, S, T)."),
    ("weights instead of scores",
     lambda q, k, w_q, w_k, v: (torch.tanh(_sums(q, k, w_q, w_k)) @ v).softmax(-1),
     "The softmax comes later. A score may be any number, also below zero."),
)  # fmt: skip

# 3.4 kernel weights


def _squared(q: Tensor, k: Tensor) -> Tensor:
    return (q.unsqueeze(2) - k.unsqueeze(1)).pow(2).sum(-1)


def kernel_weights(q: Tensor, k: Tensor, sigma: float) -> Tensor:
    return (-_squared(q, k) / (2 * sigma**2)).softmax(-1)


def kernel_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(34)
    cases = []
    for (b, t, s, d), sigma in (
        ((2, 3, 4, 3), 0.7),
        ((1, 2, 5, 2), 1.6),
        ((2, 1, 3, 2), 1.1),
        ((1, 2, 1, 1), 0.9),
    ):
        q, k = torch.randn(b, t, d, generator=draw), torch.randn(b, s, d, generator=draw)
        cases.append((q, k, sigma))
    return cases


def _sums_to_one(output: Tensor, *_: Tensor) -> bool:
    sums = torch.as_tensor(output).double().sum(-1)
    return bool(torch.allclose(sums, torch.ones_like(sums), atol=1e-4))


KERNEL_MISTAKES = mistakes(
    ("the distance not squared",
     lambda q, k, sigma: (-_squared(q, k).sqrt() / (2 * sigma**2)).softmax(-1),
     "The Gaussian bell falls with the square of the distance."),
    ("the minus sign missing", lambda q, k, sigma: (_squared(q, k) / (2 * sigma**2)).softmax(-1),
     "The farthest key got the highest weight. Distance must make a key less alike."),
    ("sigma not squared", lambda q, k, sigma: (-_squared(q, k) / (2 * sigma)).softmax(-1),
     "The squared distance is divided by 2 sigma squared, so that a distance is measured in units "
     "of sigma."),
    ("the 2 below the line missing", lambda q, k, sigma: (-_squared(q, k) / sigma**2).softmax(-1),
     "Equation (3.6) divides by 2 sigma squared. Without the 2 the bell is too narrow."),
    ("weights that were not divided by their sum",
     lambda q, k, sigma: (-_squared(q, k) / (2 * sigma**2)).exp(),
     "These are the heights of the bells. Weights must sum to one for each query."),
    ("scores instead of weights", lambda q, k, sigma: -_squared(q, k) / (2 * sigma**2),
     "The scores are right. What is asked for are the weights: the softmax is missing."),
    ("the softmax over the queries",
     lambda q, k, sigma: (-_squared(q, k) / (2 * sigma**2)).softmax(1),
     "Each query must share its attention among the keys: the softmax runs over the last axis."),
    ("the mean over the entries instead of the sum",
     lambda q, k, sigma: (-_squared(q, k) / q.shape[-1] / (2 * sigma**2)).softmax(-1),
     "The squared distance of two vectors is the sum of the squared differences."),
    ("multiplied by sigma squared instead of divided",
     lambda q, k, sigma: (-_squared(q, k) / 2 * sigma**2).softmax(-1),
     "Python reads x / 2 * y as (x / 2) * y. What stands below the line needs brackets."),
    ("the 2 squared as well", lambda q, k, sigma: (-_squared(q, k) / (2 * sigma) ** 2).softmax(-1),
     "Only sigma is squared: the distance is divided by 2 sigma squared, not by 4."),
    ("the softmax of the exponentials",
     lambda q, k, sigma: (-_squared(q, k) / (2 * sigma**2)).exp().softmax(-1),
     "The softmax takes the exponential itself. Here it is taken twice."),
    ("sigma ignored", lambda q, k, sigma: (-_squared(q, k) / 2).softmax(-1),
     "This is the kernel of width 1. The width sigma says how near is near."),
)  # fmt: skip

# 3.5 masked softmax


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    hidden = ~mask.unsqueeze(1)
    return scores.masked_fill(hidden, -math.inf).softmax(-1).masked_fill(hidden, 0.0)


def masked_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(35)
    scores = torch.randn(2, 3, 4, generator=draw)
    some = torch.tensor([[True, True, True, False], [True, False, True, False]])
    more = torch.randn(3, 2, 4, generator=draw)
    none_in_one = torch.tensor(
        [[True, True, False, False], [False, False, False, False], [True, True, True, True]]
    )
    last_hidden = torch.tensor([[True, True, False]])
    far = ([-200.0, -201.0, 300.0], [100.0, 101.0, 5.0], [1.0, 2.0, 300.0])
    extreme = [(torch.tensor([[row]]), last_hidden) for row in far]
    return [(scores, some), (more, none_in_one), *extreme]


def _shares(parts: Tensor, least: float) -> Tensor:
    return parts / parts.sum(-1, keepdim=True).clamp(min=least)


def _renormalised(scores: Tensor, mask: Tensor, least: float) -> Tensor:
    return _shares(scores.softmax(-1) * mask.unsqueeze(1), least)


MASKED_MISTAKES = mistakes(
    ("the mask applied after the softmax",
     lambda scores, mask: scores.softmax(-1) * mask.unsqueeze(1),
     "The padding had its share before it was struck out, so what is left sums to less than one. "
     "Hide the scores before the softmax."),
    ("zero instead of minus infinity",
     lambda scores, mask: (scores * mask.unsqueeze(1)).softmax(-1),
     "A score of 0 is not nothing: its exponential is 1. Only minus infinity becomes 0."),
    ("the mask turned round", lambda scores, mask: masked_softmax(scores, ~mask),
     "True means that the key is a token and may be looked at. Here the padding is looked at."),
    ("the softmax over the queries",
     lambda scores, mask: torch.nan_to_num(
         scores.masked_fill(~mask.unsqueeze(1), -math.inf).softmax(1)
     ),
     "Each query must share its attention among the keys: the softmax runs over the last axis."),
    ("the softmax over the whole table",
     lambda scores, mask: torch.nan_to_num(
         scores.masked_fill(~mask.unsqueeze(1), -math.inf).flatten(1).softmax(-1)
     ).view_as(scores),
     "All queries of a sentence together sum to one. Each of them should."),
    ("the softmax over the queries, and NaN in the columns of padding",
     lambda scores, mask: scores.masked_fill(~mask.unsqueeze(1), -math.inf).softmax(1),
     "Each query must share its attention among the keys: the softmax runs over the last axis. "
     "Along the queries, a column of padding is minus infinity alone, and gives 0/0."),
    ("NaN where there is nothing to look at",
     lambda scores, mask: scores.masked_fill(~mask.unsqueeze(1), -math.inf).softmax(-1),
     "A sentence of padding alone has no score above minus infinity, and its softmax is 0/0. Its "
     "weights should be zero."),
    ("a large negative number instead of minus infinity",
     lambda scores, mask: scores.masked_fill(~mask.unsqueeze(1), -1e9).softmax(-1),
     "It works until a sentence is padding alone: then all its scores are the same large negative "
     "number, and the padding gets equal weights that sum to one."),
    ("a negative number that is not low enough",
     lambda scores, mask: scores.masked_fill(~mask.unsqueeze(1), -100.0).softmax(-1),
     "It hides only while the real scores are larger. Next to scores of -200 the padding, at -20 "
     "or -100, takes all the weight. No number is below every score, minus infinity is."),
    ("a finite number in place of minus infinity",
     lambda scores, mask: (
         scores.masked_fill(~mask.unsqueeze(1), -100.0)
         .softmax(-1)
         .masked_fill(~mask.unsqueeze(1), 0.0)
     ),
     "It hides only while the real scores are larger. Next to scores of -200 the padding, at -20 "
     "or -100, takes all the weight, and after it is struck out nothing is left."),
    ("the softmax over all keys, divided again by what is left",
     lambda scores, mask: _renormalised(scores, mask, least=1e-9),
     "With a pencil this is right. In floating point a high score on the padding takes all the "
     "weight, and what is left is zero. Hide the scores before the softmax."),
    ("the softmax over all keys, divided again by what is left, and 0/0",
     lambda scores, mask: _renormalised(scores, mask, least=0.0),
     "With a pencil this is right where there is a word. In floating point a high score on the "
     "padding takes all the weight, and what is left is zero. Hide the scores first."),
    ("exponentials without care overflow",
     lambda scores, mask: _shares(scores.exp() * mask.unsqueeze(1), least=1e-9),
     "The exponential of 100 is infinite in 32 bits, and that of -200 is zero. A softmax takes the "
     "highest score off all scores first, which changes no weight."),
    ("exponentials without care overflow, and 0/0 where there is nothing to look at",
     lambda scores, mask: _shares(scores.exp() * mask.unsqueeze(1), least=0.0),
     "The exponential of 100 is infinite in 32 bits, and that of -200 is zero. A softmax takes the "
     "highest score off all scores first. A sentence of padding alone needs care, too."),
    ("exponentials of hidden scores, with the highest not taken off first",
     lambda scores, mask: _shares(
         scores.masked_fill(~mask.unsqueeze(1), -math.inf).exp(), least=1e-9
     ),
     "The padding is hidden well. But the exponential of 100 is infinite in 32 bits, and that of "
     "-200 is zero: take the highest score off all scores first, or use softmax."),
    ("exponentials of hidden scores, with the highest not taken off first, and 0/0",
     lambda scores, mask: _shares(
         scores.masked_fill(~mask.unsqueeze(1), -math.inf).exp(), least=0.0
     ),
     "The padding is hidden well. But the exponential of 100 is infinite in 32 bits, and that of "
     "-200 is zero. A sentence of padding alone needs care, too."),
    ("the mask left out", lambda scores, mask: scores.softmax(-1),
     "The padding is looked at like a word."),
)  # fmt: skip


def _hides_padding(output: Tensor, scores: Tensor, mask: Tensor) -> bool:
    return bool(torch.as_tensor(output).masked_select(~mask.unsqueeze(1)).eq(0).all())


# 3.6 greedy decoding


LONGEST = 24  # more than any answer needs


class Step:
    """A decoder made of a table: the next word depends on sentence, position and last word."""

    def __init__(self, stops: list[int], vocab_size: int, eos: int, seed: int):
        draw = torch.Generator().manual_seed(seed)
        size = (len(stops), LONGEST, vocab_size, vocab_size)
        self.table = torch.randn(*size, generator=draw)
        self.table[..., eos] = -10.0
        for sentence, stop in enumerate(stops):  # how many words each sentence gets
            self.table[sentence, stop, :, eos] = 10.0

    def __call__(self, tokens: Tensor) -> Tensor:
        """(B, t) tokens, the first word included, to (B, t, V) logits of the words after each.

        Raises ValueError unless all rows come at once, and if they are longer than any answer.
        """
        tokens = torch.as_tensor(tokens)
        rows, longest = self.table.shape[:2]
        if tokens.ndim != 2 or tokens.shape[0] != rows or tokens.shape[1] > longest:
            raise ValueError(
                f"tokens: expected all {rows} rows at once, shape ({rows}, t) with t of at most "
                f"{longest}, got shape {tuple(tokens.shape)}"
            )
        sentences = torch.arange(rows).unsqueeze(1)
        return self.table[sentences, torch.arange(tokens.shape[1]).unsqueeze(0), tokens]


def greedy_cases() -> list[tuple]:
    again = Step([2, 6], 9, 3, seed=39)
    again.table[0, 4, :, 3] = 20.0  # the first ends, and then ends once more
    return [
        (Step([3, 5, 0], 9, 3, seed=36), 3, 2, 3, 8),  # step, batch_size, bos, eos, max_length
        (Step([2, 20], 7, 1, seed=37), 2, 0, 1, 5),  # the second never ends by itself
        (Step([3], 9, 3, seed=38), 1, 2, 3, 8),
        (again, 2, 2, 3, 8),
    ]


def _write(step, batch_size, first, max_length, choose) -> Tensor:
    tokens = torch.full((batch_size, 1), first)
    for _ in range(max_length):
        tokens = torch.cat([tokens, choose(step(tokens)).reshape(batch_size, 1)], dim=1)
    return tokens


def _cut(row: list[int], eos: int) -> list[int]:
    return row[: row.index(eos)] if eos in row else row


def _likeliest(logits: Tensor) -> Tensor:
    return logits[:, -1].argmax(-1)


def greedy_decode(step, batch_size: int, bos: int, eos: int, max_length: int) -> list[list[int]]:
    tokens = _write(step, batch_size, bos, max_length, _likeliest)
    return [_cut(row, eos) for row in tokens[:, 1:].tolist()]


def _stop_with_the_first(step, batch_size, bos, eos, max_length):
    rows = _write(step, batch_size, bos, max_length, _likeliest)[:, 1:].tolist()
    shortest = min(len(_cut(row, eos)) for row in rows)
    return [row[:shortest] for row in rows]


def _stop_early(step, batch_size, bos, eos, max_length, over, keep_last):
    """Write until `over(what was chosen)`, with or without the words that were chosen last."""
    tokens = torch.full((batch_size, 1), bos)
    for _ in range(max_length):
        best = _likeliest(step(tokens))
        stop = over(best == eos)
        if keep_last or not stop:
            tokens = torch.cat([tokens, best.unsqueeze(1)], dim=1)
        if stop:
            break
    return [_cut(row, eos) for row in tokens[:, 1:].tolist()]


def _only_last_token(step, batch_size, bos, eos, max_length):
    tokens = torch.full((batch_size, 1), bos)
    for _ in range(max_length):
        best = _likeliest(step(tokens[:, -1:]))
        tokens = torch.cat([tokens, best.unsqueeze(1)], dim=1)
    return [_cut(row, eos) for row in tokens[:, 1:].tolist()]


def _with_eos(step, batch_size, bos, eos, max_length):
    rows = _write(step, batch_size, bos, max_length, _likeliest)[:, 1:].tolist()
    return [row[: row.index(eos) + 1] if eos in row else row for row in rows]


GREEDY_MISTAKES = mistakes(
    ("does not stop at the end of a sentence",
     lambda step, batch_size, bos, eos, max_length: _write(
         step, batch_size, bos, max_length, _likeliest
     )[:, 1:].tolist(),
     "What comes after EOS is no part of the translation: cut each sentence there."),
    ("BOS kept in the answer",
     lambda step, batch_size, bos, eos, max_length: [
         [bos, *row] for row in greedy_decode(step, batch_size, bos, eos, max_length)
     ],
     "BOS is what the decoder reads first. It was not written by it."),
    ("EOS kept in the answer", _with_eos,
     "EOS says that the translation is over, and is no word of it."),
    ("starts from EOS",
     lambda step, batch_size, bos, eos, max_length: [
         _cut(row, eos)
         for row in _write(step, batch_size, eos, max_length, _likeliest)[:, 1:].tolist()
     ],
     "In training the first word read was BOS. Started from another one, the decoder is lost."),
    ("takes the first position of the logits",
     lambda step, batch_size, bos, eos, max_length: [
         _cut(row, eos)
         for row in _write(
             step, batch_size, bos, max_length, lambda logits: logits[:, 0].argmax(-1)
         )[:, 1:].tolist()
     ],
     "The next word follows from the last position, logits[:, -1]. The first position always says "
     "what comes after BOS."),
    ("stops all sentences when the first one ends", _stop_with_the_first,
     "The sentences of a batch end at different places. Go on until all have ended."),
    ("stops as soon as any sentence ends",
     lambda *task: _stop_early(*task, over=lambda ended: ended.any(), keep_last=True),
     "The sentences of a batch end at different places. Go on until all have ended."),
    ("stops when the first sentence of the batch ends",
     lambda *task: _stop_early(*task, over=lambda ended: ended[0], keep_last=True),
     "Only the first row is asked whether it has ended. Go on until all rows have."),
    ("stops when the first sentence of the batch ends, without the last words of the others",
     lambda *task: _stop_early(*task, over=lambda ended: ended[0], keep_last=False),
     "Only the first row is asked whether it has ended. Go on until all rows have."),
    ("only the last token passed to step", _only_last_token,
     "`step` has no memory of earlier calls: give it all tokens so far."),
    ("EOS deleted, what follows it kept",
     lambda step, batch_size, bos, eos, max_length: [
         [token for token in row if token != eos]
         for row in _write(step, batch_size, bos, max_length, _likeliest)[:, 1:].tolist()
     ],
     "A translation ends at EOS. What comes after it is no part of it, so cut there."),
    ("max_length ignored",
     lambda step, batch_size, bos, eos, max_length: greedy_decode(
         step, batch_size, bos, eos, LONGEST
     ),
     "A sentence that does not end by itself is cut after max_length tokens."),
    ("takes the choice of the first sentence for all",
     lambda step, batch_size, bos, eos, max_length: [
         _cut(row, eos)
         for row in _write(
             step,
             batch_size,
             bos,
             max_length,
             lambda logits: _likeliest(logits)[:1].expand(batch_size),
         )[:, 1:].tolist()
     ],
     "Each sentence of the batch chooses its own word: the argmax runs over the last axis."),
    ("takes the least likely word",
     lambda step, batch_size, bos, eos, max_length: [
         _cut(row, eos)
         for row in _write(
             step, batch_size, bos, max_length, lambda logits: logits[:, -1].argmin(-1)
         )[:, 1:].tolist()
     ],
     "The highest logit belongs to the likeliest word: argmax, not argmin."),
    ("one word too few",
     lambda step, batch_size, bos, eos, max_length: [
         row[: max_length - 1] for row in greedy_decode(step, batch_size, bos, eos, max_length)
     ],
     "A sentence that does not end by itself has max_length tokens. BOS does not count."),
    ("one word too many",
     lambda step, batch_size, bos, eos, max_length: greedy_decode(
         step, batch_size, bos, eos, max_length + 1
     ),
     "A sentence that does not end by itself is cut after max_length tokens."),
)  # fmt: skip


def _lists(output: list) -> list[list[int]]:
    return [[int(token) for token in row] for row in output]


EXERCISES = [
    Exercise(
        number="3.1",
        title="one look by hand",
        section="Keep every state, and let the decoder look",
        reference=look_by_hand([1 / 8, 2 / 8, 5 / 8]),
        cases=[()],
        mistakes=HAND_MISTAKES,
        invariants=[],
        rtol=5e-3,
        atol=2e-3,
    ),
    Exercise(
        number="3.2",
        title="general score",
        section="Dot and general",
        reference=general_score,
        cases=general_cases,
        mistakes=GENERAL_MISTAKES,
        invariants=[],
    ),
    Exercise(
        number="3.3",
        title="additive score",
        section="Additive",
        reference=additive_score,
        cases=additive_cases,
        mistakes=ADDITIVE_MISTAKES,
        invariants=[],
    ),
    Exercise(
        number="3.4",
        title="kernel weights",
        section="A kernel, and attention fifty years before",
        reference=kernel_weights,
        cases=kernel_cases,
        mistakes=KERNEL_MISTAKES,
        invariants=[
            Invariant(
                "rows sum to one",
                _sums_to_one,
                "The weights of one query over all keys must sum to one: they are shares.",
            )
        ],
    ),
    Exercise(
        number="3.5",
        title="masked softmax",
        section="Padding",
        reference=masked_softmax,
        cases=masked_cases,
        mistakes=MASKED_MISTAKES,
        invariants=[
            Invariant(
                "padding gets no weight",
                _hides_padding,
                "Where the mask is False there is no word, and the weight must be exactly zero.",
            )
        ],
    ),
    Exercise(
        number="3.6",
        title="greedy decoding",
        section="Writing",
        reference=greedy_decode,
        cases=greedy_cases,
        mistakes=GREEDY_MISTAKES,
        invariants=[],
        canonical=_lists,
    ),
]
