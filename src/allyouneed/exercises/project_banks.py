"""The masks and the schedule: answers, cases and mistakes that only the project asks for."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .core import Exercise, mistakes


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


PADDING = Exercise(
    "project.padding", "padding mask", "Chapter 8", padding_mask, padding_cases, PADDING_MISTAKES
)
CAUSAL = Exercise(
    "project.causal", "causal mask", "Chapter 8", causal_mask, [(5,), (2,), (1,)], CAUSAL_MISTAKES
)
SCHEDULE = Exercise(
    "project.schedule", "schedule", "Chapter 12", rate, RATE_CASES, RATE_MISTAKES, atol=0.0
)
