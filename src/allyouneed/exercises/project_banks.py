"""The causal mask and the schedule: answers, cases and mistakes that only the project asks for."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .core import Exercise, mistakes


def causal_mask(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def _square(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool)


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


CAUSAL = Exercise(
    "project.causal", "causal mask", "Chapter 8", causal_mask, [(5,), (2,), (1,)], CAUSAL_MISTAKES
)
SCHEDULE = Exercise(
    "project.schedule", "schedule", "Chapter 12", rate, RATE_CASES, RATE_MISTAKES, atol=0.0
)
