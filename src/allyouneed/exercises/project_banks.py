"""Masks, positions and the schedule: answers, cases and mistakes that only the project asks for."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .chapter_09 import angles, interleave, sinusoids, waves
from .core import Exercise, Invariant, mistakes


def _square(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool)


def padding_mask(tokens: Tensor, pad: int) -> Tensor:
    return (tokens != pad)[:, None, None, :]


def padding_cases() -> list[tuple]:
    right = torch.tensor([[5, 9, 4, 3], [8, 3, 0, 0], [7, 6, 3, 0]])
    other_pad = torch.tensor([[0, 9, 1, 2, 3], [8, 0, 2, 7, 7]])
    left = torch.tensor([[1, 1, 5, 3], [1, 0, 4, 3], [4, 0, 4, 3]])
    whole = torch.tensor([[4, 5], [6, 3]])
    return [(right, 0), (other_pad, 7), (left, 1), (whole, 0), (torch.tensor([[5, 9, 0]]), 0)]


PADDING_MISTAKES = mistakes(
    ("polarity inverted", lambda tokens, pad: (tokens == pad)[:, None, None, :],
     "True means may attend, so it stands where there is a token, not where there is padding."),
    ("the mask along the queries", lambda tokens, pad: (tokens != pad)[:, None, :, None],
     "What is hidden is a key. The last axis of the scores is that of the keys."),
    ("the mask without its two new axes", lambda tokens, pad: tokens != pad,
     "A mask of shape (B, S) is taken for one of shape (T, S) as soon as it fits. It needs an axis "
     "for the heads and one for the queries."),
    ("one axis too few", lambda tokens, pad: (tokens != pad)[:, None, :],
     "(B, 1, S) broadcasts to (1, B, 1, S): the sentences are taken for heads."),
    ("the batch not in front", lambda tokens, pad: (tokens != pad)[None, None],
     "Broadcasting counts from the right: here the sentences are taken for queries."),
    ("the sentences taken for heads", lambda tokens, pad: (tokens != pad)[None, :, None, :],
     "The first axis of the scores is that of the sentences, the second that of the heads."),
    ("numbers 0 and 1 instead of true and false",
     lambda tokens, pad: (tokens != pad)[:, None, None, :].int(),
     "A mask of numbers is ambiguous, and is added to the scores by some functions. Return "
     "booleans."),
    ("numbers to be added, 0 and minus infinity",
     lambda tokens, pad: torch.zeros(tokens.shape).masked_fill(tokens == pad, -math.inf)[
         :, None, None, :
     ],
     "This is the mask M of equation (8.2). Asked for is the boolean one."),
    ("the id of the padding taken to be 0", lambda tokens, pad: (tokens != 0)[:, None, None, :],
     "The padding's id is an argument, `pad`. In another vocabulary it is another number."),
    ("ids above that of the padding only", lambda tokens, pad: (tokens > pad)[:, None, None, :],
     "Where the padding's id is not 0, there are tokens below it."),
    ("the padded queries hidden as well",
     lambda tokens, pad: (tokens != pad)[:, None, :, None] & (tokens != pad)[:, None, None, :],
     "Rows of padded queries would have nothing to look at. Nobody reads their outputs; only keys "
     "need hiding."),
    ("a row for each query",
     lambda tokens, pad: (tokens != pad)[:, None, None, :].repeat(1, 1, tokens.shape[1], 1),
     "The values are right. The keys are hidden from all queries alike, so one row is enough; and "
     "in cross-attention there are not as many queries as keys."),
    ("the mask along the queries, in full",
     lambda tokens, pad: (tokens != pad)[:, None, :, None].repeat(1, 1, 1, tokens.shape[1]),
     "What is hidden is a key. The last axis of the scores is that of the keys."),
    ("polarity inverted, and without its two new axes", lambda tokens, pad: tokens == pad,
     "Two things at once: True should stand where there is a token, and the mask needs an axis for "
     "the heads and one for the queries."),
    ("numbers, and without its two new axes", lambda tokens, pad: (tokens != pad).int(),
     "Two things at once: a mask should be boolean, and it needs an axis for the heads and one for "
     "the queries."),
    ("polarity inverted, along the queries",
     lambda tokens, pad: (tokens == pad)[:, None, :, None],
     "Two things at once: True should stand where there is a token, and the keys' axis is the "
     "last."),
    ("one mask for the whole batch", lambda tokens, pad: (tokens != pad).all(0)[None, None, None],
     "A place was hidden from all sentences as soon as one of them has padding there."),
    ("padding looked for at the end only",
     lambda tokens, pad: (torch.arange(tokens.shape[1]) < (tokens != pad).sum(1, keepdim=True))[
         :, None, None, :
     ],
     "The number of words is right, but padding may stand in front of them. Look at each id."),
    ("everything hidden from the first padding on",
     lambda tokens, pad: (tokens != pad).cumprod(1).bool()[:, None, None, :],
     "Padding may stand in front of the words. Look at each id by itself."),
    ("the causal mask as well",
     lambda tokens, pad: (tokens != pad)[:, None, None, :] & _square(tokens.shape[1]).tril(),
     "Only the padding is to be hidden here. The future has a mask of its own."),
    ("EOS hidden as well", lambda tokens, pad: ((tokens != pad) & (tokens != 3))[:, None, None, :],
     "EOS is a token like any other. Only `pad` is hidden."),
    ("BOS hidden as well", lambda tokens, pad: ((tokens != pad) & (tokens != 2))[:, None, None, :],
     "BOS is a token like any other. Only `pad` is hidden."),
    ("the special tokens hidden as well", lambda tokens, pad: (tokens > 3)[:, None, None, :],
     "BOS, EOS and UNK are tokens like any others. Only `pad` is hidden."),
)  # fmt: skip


def causal_mask(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


CAUSAL_MISTAKES = mistakes(
    ("the other triangle", lambda length: _square(length).triu(),
     "Row t is a query. It may see columns up to t, which lie to the left of the diagonal. This "
     "mask shows the future and hides the past."),
    ("polarity inverted", lambda length: _square(length).triu(1),
     "This mask is True where the future is. Here True means may attend."),
    ("a triangle without its diagonal", lambda length: _square(length).tril(-1),
     "A position sees itself, too. Without the diagonal the first row is empty."),
    ("one position too far", lambda length: _square(length).tril(1),
     "Each position sees the next one, which is the very token that it has to predict."),
    ("everything allowed", lambda length: _square(length),
     "No future is hidden: this table is True everywhere, and hides nothing from anyone."),
    ("only itself allowed", lambda length: torch.eye(length, dtype=torch.bool),
     "A position may see all that came before it, not only itself."),
    ("only itself and the one before",
     lambda length: _square(length).tril() & _square(length).triu(-1),
     "A position may see all that came before it, however far back."),
    ("numbers 0 and 1 instead of true and false", lambda length: _square(length).tril().int(),
     "A mask of numbers is ambiguous, and is added to the scores by some functions. Return "
     "booleans."),
    ("numbers 0 and 1 for the other triangle", lambda length: _square(length).triu().int(),
     "Two things at once: the triangle is the other one, and a mask should be boolean."),
    ("numbers 0 and 1 where 1 means hidden", lambda length: _square(length).triu(1).int(),
     "Two things at once: True should mean may attend, and a mask should be boolean."),
    ("numbers to be added, 0 and minus infinity",
     lambda length: torch.zeros(length, length).masked_fill(~_square(length).tril(), -math.inf),
     "This is the mask M of equation (8.2). Asked for is the boolean one."),
    ("axes for sentences and heads in front", lambda length: _square(length).tril()[None, None],
     "The values are right. Two axes are enough: broadcasting adds the others in front."),
    ("one axis too many", lambda length: _square(length).tril()[None],
     "The values are right, but asked for are two axes. Three are taken for (H, T, S)."),
    ("the columns in reverse order", lambda length: _square(length).tril().flip(1),
     "The triangle lies along the diagonal from the upper left to the lower right."),
    ("the rows in reverse order", lambda length: _square(length).tril().flip(0),
     "Row 0 belongs to the first position, which sees the fewest places."),
    ("nothing allowed", lambda length: ~_square(length),
     "This table is False everywhere. True means may attend."),
)  # fmt: skip


def columns(length: int, d_model: int, step: float) -> Tensor:
    """Wrong: each column has a speed of its own, 10000^(-step j / d_model)."""
    j = torch.arange(d_model, dtype=torch.float64)
    angle = torch.arange(length)[:, None] / 10000 ** (step * j / d_model)
    return torch.where(j % 2 == 0, angle.sin(), angle.cos())


def without_minus(length: int, d_model: int) -> Tensor:
    """Wrong: exp(+...), in float32 as it is mostly written."""
    power = torch.exp(torch.arange(0, d_model, 2) * (math.log(10000.0) / d_model))
    return waves(torch.arange(length)[:, None] * power)


def whole_exponents(length: int, d_model: int) -> Tensor:
    j = torch.arange(d_model)
    angle = torch.arange(length)[:, None] / 10000.0 ** (2 * j // d_model)
    return torch.where(j % 2 == 0, angle.sin(), angle.cos())


def to_the_end(length: int, d_model: int) -> Tensor:
    return angles(length, d_model, lambda i, d: i / max(d / 2 - 1, 1))


SINUSOID_CASES = [(2, 4), (7, 8), (5, 12), (1, 4)]
SINUSOID_MISTAKES = mistakes(
    ("exponent i instead of 2i",
     lambda length, d_model: waves(angles(length, d_model, lambda i, d: i / d)),
     "i counts the pairs, from 0 to d_model / 2 - 1, and the exponent is 2i / d_model. With i "
     "alone the largest wavelength is 100 times 2 pi or less."),
    ("exponent 4i in place of 2i",
     lambda length, d_model: waves(angles(length, d_model, lambda i, d: 4 * i / d)),
     "A loop over the columns 0, 2, 4, ... already counts 2i, and the exponent has d_model below "
     "the line, not the half of it. So most hands are so slow that they never move."),
    ("a speed of its own for every column, exponent j / d_model",
     lambda length, d_model: columns(length, d_model, 1.0),
     "The sine and the cosine of a pair need the same angle: column 2i + 1 has the exponent 2i / "
     "d_model, not (2i + 1) / d_model. An i // 2 or j - j % 2 is missing."),
    ("a speed of its own for every column, exponent 2j / d_model",
     lambda length, d_model: columns(length, d_model, 2.0),
     "In the formula i counts pairs of columns, not columns: j // 2 is missing. Sine and cosine of "
     "a pair have the same angle."),
    ("sine in both", lambda length, d_model: interleave(*[angles(length, d_model).sin()] * 2),
     "The odd columns are cosines. With sines alone a hand is seen from one side only, and a step "
     "is no rotation."),
    ("cosine in both", lambda length, d_model: interleave(*[angles(length, d_model).cos()] * 2),
     "The even columns are sines. With cosines alone a hand is seen from one side only."),
    ("cosine before sine",
     lambda length, d_model: interleave(
         angles(length, d_model).cos(), angles(length, d_model).sin()
     ),
     "The sine stands in column 2i, the cosine in column 2i + 1: row 0 is 0, 1, 0, 1."),
    ("all sines first, then all cosines",
     lambda length, d_model: torch.cat(
         [angles(length, d_model).sin(), angles(length, d_model).cos()], dim=1
     ),
     "The columns take turns in the paper: sine, cosine, sine, cosine. Two halves side by side "
     "hold the same numbers (some code does it so), but in another order than equation (9.3)."),
    ("the last wavelength exactly 10000 times 2 pi",
     lambda length, d_model: waves(to_the_end(length, d_model)),
     "The exponents run to 1 here, i / (d_model / 2 - 1), as in the authors' first code. Equation "
     "(9.3) has 2i / d_model, which stays below 1."),
    ("two halves, and the last wavelength exactly 10000 times 2 pi",
     lambda length, d_model: torch.cat(
         [to_the_end(length, d_model).sin(), to_the_end(length, d_model).cos()], dim=1
     ),
     "This is how the authors' first code had it. Equation (9.3) has the columns take turns, and "
     "the exponent 2i / d_model, which stays below 1."),
    ("base 1000", lambda length, d_model: waves(angles(length, d_model, base=1000.0)),
     "The base of the powers is 10000, with four zeros."),
    ("base 100000", lambda length, d_model: waves(angles(length, d_model, base=100000.0)),
     "The base of the powers is 10000, with four zeros."),
    ("the logarithm to base 10 where the natural one belongs",
     lambda length, d_model: waves(angles(length, d_model, base=math.exp(4.0))),
     "exp(-x log 10000) is 10000^-x only for the natural logarithm. With log10 the base is e^4."),
    ("the logarithm to base 2 where the natural one belongs",
     lambda length, d_model: waves(angles(length, d_model, base=math.exp(math.log2(10000)))),
     "exp(-x log 10000) is 10000^-x only for the natural logarithm."),
    ("positions divided by the length",
     lambda length, d_model: waves(angles(length, d_model) / length),
     "A step must be the same in every sentence. The position itself is divided by the powers of "
     "10000 and by nothing else."),
    ("positions divided by the length less one",
     lambda length, d_model: waves(angles(length, d_model) / max(length - 1, 1)),
     "A step must be the same in every sentence. The position itself is divided by the powers of "
     "10000 and by nothing else."),
    ("positions counted from 1", lambda length, d_model: waves(angles(length, d_model, start=1)),
     "Positions count from 0: the first row is 0, 1, 0, 1 and so on."),
    ("angles taken in degrees", lambda length, d_model: waves(angles(length, d_model).deg2rad()),
     "torch.sin takes radians, and so does the paper: nothing is to be converted."),
    ("a factor of 2 pi too much",
     lambda length, d_model: waves(2 * math.pi * angles(length, d_model)),
     "The first hand turns by one radian per position, not by a whole turn."),
    ("multiplied by the power instead of divided",
     lambda length, d_model: waves(angles(length, d_model, lambda i, d: -2 * i / d)),
     "The position is divided by 10000^(2i/d_model), or multiplied with its inverse: a minus sign "
     "in the exponent is missing."),
    ("the minus sign missing in exp", without_minus,
     "10000^-x is exp(-x ln 10000). Without the minus sign the hands grow quicker, not slower."),
    ("multiplied instead of divided",
     lambda length, d_model: waves(
         torch.arange(length)[:, None] * 10000 ** (torch.arange(0, d_model, 2) / d_model)
     ),
     "The position is divided by 10000^(2i/d_model). Here the hands grow quicker, not slower."),
    ("brackets missing around the exponent",
     lambda length, d_model: waves(
         torch.arange(length)[:, None] / 10000**2 * torch.arange(d_model // 2) / d_model
     ),
     "Python reads 10000 ** 2 * i / d_model as (10000 ** 2) * i / d_model. The exponent needs "
     "brackets."),
    ("the exponent in whole numbers", whole_exponents,
     "// cuts the exponent to a whole number, 0 or 1, so there are only two speeds. The exponent "
     "2i / d_model is a fraction."),
    ("the same speed for every hand",
     lambda length, d_model: waves(angles(length, d_model, lambda i, d: 0 * i)),
     "All pairs are alike. The exponent 2i / d_model must grow from pair to pair; in whole "
     "numbers, with //, it is always 0."),
    ("rows and columns exchanged", lambda length, d_model: sinusoids(length, d_model).T,
     "A row for each position, a column for each entry: the shape is (length, d_model)."),
    ("angles without sine and cosine",
     lambda length, d_model: interleave(*[angles(length, d_model)] * 2),
     "These are the angles. The entries are their sines and cosines."),
    ("multiplied by the root of d_model",
     lambda length, d_model: sinusoids(length, d_model) * math.sqrt(d_model),
     "The factor sqrt(d_model) belongs to the embeddings, not to the positions."),
    ("hands counted from 1",
     lambda length, d_model: waves(angles(length, d_model, lambda i, d: 2 * (i + 1) / d)),
     "i counts from 0: the first hand has the exponent 0, and turns by one radian per position."),
    ("slowest hand first", lambda length, d_model: waves(angles(length, d_model).flip(1)),
     "The exponent grows with the column: the quickest hand stands in columns 0 and 1."),
    ("the exponent divided by d_model - 1",
     lambda length, d_model: waves(angles(length, d_model, lambda i, d: 2 * i / (d - 1))),
     "The exponent is 2i / d_model, with nothing subtracted."),
    ("the exponent divided by the length",
     lambda length, d_model: waves(angles(length, d_model, lambda i, d: 2 * i / length)),
     "The exponent is 2i / d_model. The length of the table has no part in it."),
    ("angles in whole numbers", lambda length, d_model: waves(angles(length, d_model).floor()),
     "// cuts the angle to a whole number. Slow hands turn by fractions: divide with /."),
    ("sines only, the odd columns empty",
     lambda length, d_model: interleave(angles(length, d_model).sin(), 0 * angles(length, d_model)),
     "The odd columns are still zero: the cosines are missing."),
    ("cosines only, the even columns empty",
     lambda length, d_model: interleave(0 * angles(length, d_model), angles(length, d_model).cos()),
     "The even columns are still zero: the sines are missing."),
    ("sine and cosine stacked on the wrong axis",
     lambda length, d_model: (
         lambda a: torch.stack([a.sin(), a.cos()]).reshape(length, d_model)
     )(angles(length, d_model)),
     "reshape reads the numbers in the order in which they are stored, all sines first. Stack "
     "along the last axis, so that the pairs are neighbours."),
    ("the pairs not put side by side",
     lambda length, d_model: sinusoids(length, d_model).unflatten(1, (-1, 2)),
     "The numbers are right, with an axis too many: flatten the pairs into one row."),
    ("sine in even rows, cosine in odd ones",
     lambda length, d_model: torch.where(
         torch.arange(length)[:, None] % 2 == 0,
         interleave(*[angles(length, d_model).sin()] * 2),
         interleave(*[angles(length, d_model).cos()] * 2),
     ),
     "It is the columns that take turns, not the rows: every position has sines and cosines."),
    ("row 0 left at zero",
     lambda length, d_model: torch.cat([torch.zeros(1, d_model), sinusoids(length, d_model)[1:]]),
     "At position 0 all angles are zero, and the cosine of zero is 1."),
    ("a row too many", lambda length, d_model: sinusoids(length + 1, d_model),
     "The positions are 0 to length - 1: there are length rows."),
)  # fmt: skip


def pairs_on_circle(output: Tensor, length: int, d_model: int) -> bool:
    table = torch.as_tensor(output).double()
    squares = table[:, 0::2].square() + table[:, 1::2].square()
    return bool(torch.allclose(squares, torch.ones_like(squares), atol=1e-3))


def rate(step: int, d_model: int, warmup_steps: int) -> float:
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


RATE_CASES = [(1, 512, 4000), (300, 512, 4000), (20_000, 512, 4000), (90, 64, 90), (7, 96, 3)]
RATE_MISTAKES = mistakes(
    ("the warm-up's exponent -1 in place of -1.5",
     lambda step, d_model, warmup_steps: (
         d_model**-0.5 * (step / warmup_steps if step < warmup_steps else step**-0.5)
     ),
     "The two lines meet at `step = warmup_steps`: there step * warmup_steps^-1.5 is "
     "warmup_steps^-0.5."),
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
    ("-1.5 for the step behind the warm-up",
     lambda step, d_model, warmup_steps: d_model**-0.5 * (
         step * warmup_steps**-1.5 if step < warmup_steps else step**-1.5
     ),
     "The step has the exponent -0.5: the two lines meet at the end of the warm-up."),
    ("-1.5 for the step as well",
     lambda step, d_model, warmup_steps: (
         d_model**-0.5 * min(step**-1.5, step * warmup_steps**-1.5)
     ),
     "The step has the exponent -0.5, and only warmup_steps has -1.5."),
    ("d_model forgotten behind the warm-up",
     lambda step, d_model, warmup_steps: (
         d_model**-0.5 * step * warmup_steps**-1.5 if step < warmup_steps else step**-0.5
     ),
     "The whole is multiplied by d_model^-0.5, on both sides of the end of the warm-up."),
    ("the warm-up counted from 0, up to its end",
     lambda step, d_model, warmup_steps: d_model**-0.5 * (
         (step - 1) * warmup_steps**-1.5 if step < warmup_steps else step**-0.5
     ),
     "The first update would have the rate zero. Steps count from 1 already."),
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


PADDING = Exercise(
    "project.padding", "padding mask", "Chapter 8", padding_mask, padding_cases, PADDING_MISTAKES
)
CAUSAL = Exercise(
    "project.causal", "causal mask", "Chapter 8", causal_mask, [(5,), (2,), (1,)], CAUSAL_MISTAKES
)
POSITIONS = Exercise(
    "project.positions", "positions", "Chapter 9", sinusoids, SINUSOID_CASES, SINUSOID_MISTAKES,
    [
        Invariant(
            "the pairs lie on a circle",
            pairs_on_circle,
            "Entries 2i and 2i + 1 are sine and cosine of one angle, so their squares sum to one.",
        )
    ],
    atol=1e-5,
)  # fmt: skip
SCHEDULE = Exercise(
    "project.schedule", "schedule", "Chapter 12", rate, RATE_CASES, RATE_MISTAKES, atol=0.0
)
