"""The exercises of chapter 2, "What recurrence costs", and the mistakes they know."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import torch
from torch import Tensor

from .core import Exercise, Invariant, mistakes
from .pairs import combined, pairs
from .predictions import signs, wrong_predictions
from .suspects import Lack, Spoilt, each, rules, verdicts_on

# 2.1: one step by hand

X, H, B = torch.tensor([1.0, 2.0]), torch.tensor([0.5, -1.0]), torch.tensor([0.1, -0.2])
W, U = torch.tensor([[0.3, -0.2], [0.1, 0.4]]), torch.tensor([[0.5, -0.3], [0.2, 0.6]])


def step_by_hand() -> dict[str, list[float]]:
    """The right state, and what each slip makes of it."""
    x, h, b, w, u = X, H, B, W, U
    states = {
        "right": torch.tanh(x @ w + h @ u + b),
        "no tanh": x @ w + h @ u + b,
        "no bias": torch.tanh(x @ w + h @ u),
        "no old state": torch.tanh(x @ w + b),
        "no word": torch.tanh(h @ u + b),
        "U transposed": torch.tanh(x @ w + h @ u.T + b),
        "W transposed": torch.tanh(x @ w.T + h @ u + b),
        "both transposed": torch.tanh(x @ w.T + h @ u.T + b),
        "no U": torch.tanh(x @ w + h + b),
        "no W": torch.tanh(x + h @ u + b),
        "tanh of the word": torch.tanh(x @ w) + h @ u + b,
        "tanh of the state": x @ w + torch.tanh(h @ u) + b,
        "sinh": torch.sinh(x @ w + h @ u + b),
        "sigmoid": torch.sigmoid(x @ w + h @ u + b),
        "exchanged": torch.tanh(h @ w + x @ u + b),
        "bias subtracted": torch.tanh(x @ w + h @ u - b),
        "h positive": torch.tanh(x @ w + h.abs() @ u + b),
        "bias outside": torch.tanh(x @ w + h @ u) + b,
        "each alone": torch.tanh(x @ w) + torch.tanh(h @ u) + torch.tanh(b),
        "only the word": x @ w,
        "x reversed": torch.tanh(x.flip(0) @ w + h @ u + b),
        "h reversed": torch.tanh(x @ w + h.flip(0) @ u + b),
        "h U subtracted": torch.tanh(x @ w - h @ u + b),
        "U positive": torch.tanh(x @ w + h @ u.abs() + b),
        "b positive": torch.tanh(x @ w + h @ u + b.abs()),
        "all positive": torch.tanh(x @ w.abs() + h.abs() @ u.abs() + b.abs()),
        "diagonals": torch.tanh(x * w.diag() + h * u.diag() + b),
        "tan": torch.tan(x @ w + h @ u + b),
        "relu": torch.relu(x @ w + h @ u + b),
        "only the state": h @ u,
        "entries exchanged": torch.tanh(x @ w + h @ u + b).flip(0),
        "h added": torch.tanh(x @ w + h @ u + b) + h,
        "bias twice": torch.tanh(x @ w + h @ u + 2 * b),
        "h kept": torch.tanh(x @ w + b) + h,
        "tanh twice": torch.tanh(torch.tanh(x @ w + h @ u + b)),
        "all crossed": torch.tanh((x + h) @ (w + u) + b),
        "word subtracted": torch.tanh(h @ u + b - x @ w),
        "no signs": torch.tanh(x @ w + h @ u + b).abs(),
        "halved": torch.tanh(x @ w + h @ u + b) / 2,
        "h U outside": torch.tanh(x @ w + b) + h @ u,
        "one tanh": torch.stack([torch.tanh(x @ w + h @ u + b)[0], (x @ w + h @ u + b)[1]]),
        "minus in one": torch.tanh(x @ w + h @ u + b + torch.tensor([0.0, 1.2])),
        "minus in the first": torch.tanh(x @ w + h @ u + b + torch.tensor([0.4, 0.0])),
        "averaged": (h + torch.tanh(x @ w + h @ u + b)) / 2,
        "two tanhs": torch.tanh(x @ w) + torch.tanh(h @ u) + b,
        "word twice": torch.tanh(x @ w + x @ u + b),
        "state twice": torch.tanh(h @ w + h @ u + b),
    }
    return {name: state.tolist() for name, state in states.items()}


BY_HAND = step_by_hand()


def step_way(x=X, h=H, w=W, u=U, b=B, end=torch.tanh) -> list[float]:
    """The step, right by default; each argument makes one slip."""
    return end(x @ w + h @ u + b).tolist()


STEP_SLIPS = [
    ("tanh is missing", {"end": lambda total: total}, "The state is the tanh of the sum."),
    ("a sigmoid in place of tanh", {"end": torch.sigmoid}, "The sigmoid is for gates."),
    ("the bias is missing", {"b": 0 * B}, "Equation (2.1) adds b before tanh is taken."),
    ("the old state is missing", {"h": 0 * H}, "h U belongs to the sum."),
    ("the word is missing", {"x": 0 * X}, "x W belongs to the sum."),
    ("the word and the old state are exchanged", {"x": H, "h": X}, "W belongs to x, U to h."),
    ("U is transposed", {"u": U.T}, "Entry j of h U comes from column j of U."),
    ("W is transposed", {"w": W.T}, "Entry j of x W comes from column j of W."),
    ("both matrices are transposed", {"w": W.T, "u": U.T}, "Vectors are rows: x W and h U."),
    ("the old state does not pass through U", {"u": torch.eye(2)}, "The state is multiplied by U."),
    ("a lost minus sign in h", {"h": H.abs()}, "The second entry of h is -1."),
    ("a lost minus sign in U", {"u": U.abs()}, "The first row of U is (0.5, -0.3)."),
    ("a lost minus sign in W", {"w": W.abs()}, "The first row of W is (0.3, -0.2)."),
    ("a lost minus sign in b", {"b": B.abs()}, "The second entry of b is -0.2."),
    ("the bias added twice", {"b": 2 * B}, "Equation (2.1) has one bias."),
]  # fmt: skip

STEP_MISTAKES = mistakes(
    ("tanh is missing", BY_HAND["no tanh"],
     "The sum is right, but the state is its hyperbolic tangent, between -1 and 1."),
    ("the bias is missing", BY_HAND["no bias"], "Equation (2.1) adds b before tanh is taken."),
    ("the old state is missing", BY_HAND["no old state"],
     "Without h U the net forgets all it has read before this word."),
    ("the word is missing", BY_HAND["no word"], "Without x W the net does not read the new word."),
    ("the diagonal of U alone", [0.6911, -0.1974],
     "h U is a product with a matrix: each entry of h goes into both entries of the sum."),
    ("the tanh of the old state taken again", [0.5907, -0.1931],
     "The old state has been through tanh already: h U, with h as it is."),
    ("U is transposed", BY_HAND["U transposed"],
     "h is a row and stands on the left: entry j of h U comes from column j of U."),
    ("W is transposed", BY_HAND["W transposed"],
     "x is a row and stands on the left: entry j of x W comes from column j of W."),
    ("both matrices are transposed", BY_HAND["both transposed"],
     "Vectors are rows in this book: x W and h U, not W x and U h."),
    ("the word does not pass through W", BY_HAND["no W"],
     "The word is multiplied by W before it is added."),
    *((f"tanh of {part} alone, the rest added behind", BY_HAND[f"tanh of {name}"],
       "Add the three vectors first. The tanh is taken of their sum.")
      for part, name in (("x W", "the word"), ("h U", "the state"))),
    ("sinh in place of tanh", BY_HAND["sinh"],
     "The hyperbolic sine is not divided by the cosine: tanh stays between -1 and 1."),
    ("the old state does not pass through U", BY_HAND["no U"],
     "The state is multiplied by U before it is added."),
    ("the word and the old state are exchanged", BY_HAND["exchanged"],
     "W belongs to the word x, U to the old state h."),
    ("the bias is subtracted", BY_HAND["bias subtracted"], "Equation (2.1) adds b."),
    ("a lost minus sign in h", BY_HAND["h positive"], "The second entry of h is -1."),
    ("a sigmoid in place of tanh", BY_HAND["sigmoid"],
     "The plain net uses tanh, which maps to (-1, 1). The sigmoid is for gates."),
    ("the bias added behind the tanh", BY_HAND["bias outside"],
     "Equation (2.1) adds b inside, and takes the tanh of the whole sum."),
    ("three tanhs in place of one", BY_HAND["each alone"],
     "Add the three vectors first. The tanh is taken of their sum."),
    ("the word's part alone", BY_HAND["only the word"],
     "This is x W. The old state's part h U and the bias are added, and the tanh is taken of the "
     "sum."),
    ("the entries of the word exchanged", BY_HAND["x reversed"],
     "The first entry of x, 1, multiplies the first row of W."),
    ("the entries of the state exchanged", BY_HAND["h reversed"],
     "The first entry of h, 0.5, multiplies the first row of U."),
    ("the old state's part is subtracted", BY_HAND["h U subtracted"],
     "Equation (2.1) adds h U. Keep its sign as it comes out."),
    ("a lost minus sign in U", BY_HAND["U positive"], "The first row of U is (0.5, -0.3)."),
    ("a lost minus sign in W or in b", BY_HAND["b positive"],
     "The first row of W is (0.3, -0.2), and the second entry of b is -0.2."),
    ("all minus signs lost", BY_HAND["all positive"],
     "h, W, U and b have a negative entry each: -1, -0.2, -0.3, -0.2."),
    ("only the diagonals of the matrices", BY_HAND["diagonals"],
     "Entry j of x W takes all entries of x, each times its entry of column j of W."),
    ("tan in place of tanh", BY_HAND["tan"],
     "The tangent of an angle, tan, is another function than the hyperbolic one, tanh."),
    ("a ReLU in place of tanh", BY_HAND["relu"],
     "The plain net uses tanh, which keeps negative numbers negative."),
    ("the old state's part alone", BY_HAND["only the state"],
     "This is h U. The word's part x W and the bias are added before the tanh is taken."),
    ("the two entries of the state exchanged", BY_HAND["entries exchanged"],
     "Both numbers are right. The first comes from the first columns of W and U."),
    ("the old state added behind the tanh", BY_HAND["h added"],
     "The new state takes the old one's place. The old one counts through h U alone."),
    ("the bias added twice", BY_HAND["bias twice"],
     "Equation (2.1) has one bias, for the word's part and the state's together."),
    ("one decimal", [round(number, 1) for number in BY_HAND["right"]],
     "The way is right. Give three decimals."),
    ("two decimals", [round(number, 2) for number in BY_HAND["right"]],
     "The way is right. Give three decimals."),
    ("the old state added behind the tanh, and not multiplied by U", BY_HAND["h kept"],
     "The old state counts through h U, inside the tanh, and nowhere else."),
    ("tanh of the first entry alone", BY_HAND["one tanh"],
     "The tanh is taken of every entry."),
    ("the minus sign of h lost in the second entry", BY_HAND["minus in one"],
     "The second entry of h is -1, and takes its part of 0.6 off the second sum."),
    ("the minus sign of h lost in the first entry", BY_HAND["minus in the first"],
     "The second entry of h is -1, and takes its part of 0.2 off the first sum."),
    ("tanh taken twice", BY_HAND["tanh twice"], "The tanh of the sum is the state."),
    ("word and state added, and W and U, before they are multiplied", BY_HAND["all crossed"],
     "x meets W and h meets U, and nothing else: two products, then their sum."),
    ("the new state halved", BY_HAND["halved"], "The two parts are added, and not averaged."),
    ("the old state's part added behind the tanh", BY_HAND["h U outside"],
     "The tanh is taken of the whole sum: x W, h U and b."),
    ("the word's part subtracted", BY_HAND["word subtracted"], "Equation (2.1) adds x W."),
    ("the mean of the old state and the new one", BY_HAND["averaged"],
     "The new state takes the old one's place. The old one counts through h U alone."),
    ("a tanh of each part, and the bias behind", BY_HAND["two tanhs"],
     "Add the three vectors first. The tanh is taken of their sum."),
    ("the word in the place of the old state, too", BY_HAND["word twice"],
     "U belongs to the old state h."),
    ("the old state in the place of the word, too", BY_HAND["state twice"],
     "W belongs to the word x."),
    ("minus signs lost, in the result or in two of the matrices", BY_HAND["no signs"],
     "The second entry of the new state is below 0: 0.6 - 0.75 - 0.2 inside the tanh."),
)  # fmt: skip

# 2.2: the state after the last word, three mistakes

Step = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def right_step(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor) -> Tensor:
    return torch.tanh(x @ w + h @ u + b)


def transposed_step(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor) -> Tensor:
    return torch.tanh(x @ w + h @ u.T + b)


def last_word(states: Tensor, lengths: Tensor) -> Tensor:
    return states[torch.arange(len(states)), lengths - 1]


def last_place(states: Tensor, lengths: Tensor) -> Tensor:
    return states[:, -1]


def last_states_with(
    step: Step = right_step,
    carried: bool = True,
    pick: Callable[[Tensor, Tensor], Tensor] = last_word,
    begin: Callable[[Tensor], Tensor] = lambda h: h,
) -> Callable[..., Tensor]:
    """The function, right by default; each argument makes one mistake."""

    def last_states(
        x: Tensor, lengths: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor
    ) -> Tensor:
        h, states = begin(h), []
        for t in range(x.shape[1]):
            states.append(step(x[:, t], h, w, u, b))
            h = states[-1] if carried else h
        return pick(torch.stack(states, dim=1), lengths)

    return last_states


def last_states(x: Tensor, lengths: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor) -> Tensor:
    return last_states_with()(x, lengths, h, w, u, b)


def last_cases() -> list[tuple[Tensor, ...]]:
    g = torch.Generator().manual_seed(22)
    one = [[[1.0], [0.0], [5.0]]], [2], [[0.0]], [[1.0]], [[2.0]], [0.0]
    cases = [tuple(map(torch.tensor, one))]
    for lengths, t, d, s in (
        ([4, 2, 3], 5, 3, 5), ([2, 5], 5, 4, 2), ([1], 2, 2, 3), ([3, 1], 4, 1, 1),
        ([1, 3], 3, 2, 2),
    ):  # fmt: skip
        shapes = (len(lengths), t, d), (len(lengths), s), (d, s), (s, s), (s,)
        x, h, w, u, b = (0.6 * torch.randn(shape, generator=g) for shape in shapes)
        cases.append((3 * x, torch.tensor(lengths), h, w, u, b))
    return cases


def _real(x: Tensor, lengths: Tensor) -> Tensor:
    """Where there is a word: (B, T, 1)."""
    return (torch.arange(x.shape[1]) < lengths.unsqueeze(1)).unsqueeze(2)


def _padding_zeroed(x: Tensor, lengths: Tensor, *others: Tensor) -> Tensor:
    return last_states_with(pick=last_place)(x * _real(x, lengths), lengths, *others)


def _zero_at_padding(
    x: Tensor, lengths: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor
) -> Tensor:
    for word, real in zip(x.unbind(1), _real(x, lengths).unbind(1), strict=True):
        h = right_step(word, h, w, u, b) * real
    return h


def _before_the_last(begin: Callable[[Tensor], Tensor] = lambda h: h) -> Callable[..., Tensor]:
    """The state before the last word, which for a single word is the first of all."""

    def last_states(x: Tensor, n: Tensor, h: Tensor, *weights: Tensor) -> Tensor:
        earlier = last_states_with(begin=begin)(x, (n - 1).clamp(min=1), h, *weights)
        return torch.where((n > 1).unsqueeze(1), earlier, begin(h))

    return last_states


def _backwards(words: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor) -> Tensor:
    for word in words.flip(0):
        h = torch.tanh(word @ w + h @ u + b)
    return h


def _one_after_the_other(x: Tensor, lengths: Tensor, h: Tensor, *weights: Tensor) -> Tensor:
    """Each sentence begins in the state in which the one before it has ended."""
    state, found = h[:1], []
    for words, n in zip(x, lengths, strict=True):
        state = last_states(words[None], n[None], state, *weights)
        found.append(state)
    return torch.cat(found)


def _without_the_first_word(x: Tensor, n: Tensor, h: Tensor, *weights: Tensor) -> Tensor:
    later = last_states(x[:, 1:], (n - 1).clamp(min=1), h, *weights)
    return torch.where((n > 1).unsqueeze(1), later, h)


def _told_by_numbers(x: Tensor, lengths: Tensor, *others: Tensor) -> Tensor:
    return last_states(x, x.any(-1).sum(1).clamp(min=1), *others)


LAST_MISTAKES = mistakes(
    ("each sentence begun where the one before it has ended", _one_after_the_other,
     "Each sentence begins in its own row of h. Does one name hold the state of all of them?"),
    ("the first word left out", _without_the_first_word,
     "Every word is read, the first one, too."),
    ("nothing mended",
     last_states_with(transposed_step, carried=False, pick=last_place),
     "Look at which state the next word meets, at how U is multiplied, and at which state is "
     "returned for a short sentence."),
    ("two are left: the old state is not carried on, and the last position is taken",
     last_states_with(carried=False, pick=last_place),
     "The product is right. Does the third word meet the state after the second? And what stands "
     "at the last position of a short sentence?"),
    ("two are left: the old state is not carried on, and U is transposed",
     last_states_with(transposed_step, carried=False),
     "The right state is picked. Does the third word meet the state after the second? And vectors "
     "are rows: h @ u."),
    ("two are left: U is transposed, and the last position is taken",
     last_states_with(transposed_step, pick=last_place),
     "The state is carried on. Vectors are rows: h @ u. And what stands at the last position of a "
     "short sentence?"),
    ("every word meets the first state still",
     last_states_with(carried=False),
     "Two are mended. `new` must become the old state of the next step; here each word is read "
     "alone."),
    ("U is transposed still",
     last_states_with(transposed_step),
     "Two are mended. States are rows: h @ u. (It is nn.Linear that keeps matrices transposed.)"),
    ("the state at the end of the row, padding read",
     last_states_with(pick=last_place),
     "Two are mended. Behind the last word of a short sentence the net has read padding. The state "
     "after the last word stands at `lengths - 1`. (You take that place? Then a list holds one "
     "tensor many times, if it is changed in place.)"),
    ("the last sentence's state in every row",
     lambda x, *others: last_states(x, *others)[-1:].expand(len(x), -1),
     "Each sentence has its own state. Does a list hold one tensor many times, which is changed in "
     "place?"),
    ("words told from padding by their numbers", _told_by_numbers,
     "Padding may be any numbers, and a word may be all zeros: `lengths` says how many are real."),
    ("the position `lengths`, which may lie past the end",
     last_states_with(pick=lambda states, n: states[torch.arange(len(n)), n]),
     "Positions count from 0: the last word stands at lengths - 1."),
    ("the axes of sentences and places exchanged",
     last_states_with(
         pick=lambda states, n: states.transpose(0, 1)[torch.arange(len(n)), n - 1]
     ),
     "`torch.stack(states)` has the places in front, (T, B, hidden): stack along dim=1."),
    ("the position `lengths`",
     last_states_with(
         pick=lambda states, n: states[torch.arange(len(n)), n.clamp(max=states.shape[1] - 1)]
     ),
     "Positions count from 0: the last word stands at lengths - 1."),
    ("one word too early",
     last_states_with(pick=lambda states, n: states[torch.arange(len(n)), (n - 2).clamp(min=0)]),
     "Positions count from 0: the last of n words stands at n - 1."),
    ("the states of all positions",
     last_states_with(pick=lambda states, n: states),
     "Asked for is one state for each sentence, (B, hidden)."),
    ("every sentence paired with every length",
     last_states_with(pick=lambda states, n: states[:, n - 1]),
     "`states[:, lengths - 1]` takes all those positions of each sentence, (B, B, hidden). Pair "
     "them: `states[torch.arange(B), lengths - 1]`."),
    ("the mean of the states",
     last_states_with(pick=lambda states, n: states.mean(1)),
     "Asked for is the state after the last word."),
    ("padding counted by the longest sentence",
     last_states_with(pick=lambda states, n: states[:, int(n.max()) - 1]),
     "Each sentence has its own last word, at its own length - 1."),
    ("starts from zeros",
     last_states_with(begin=torch.zeros_like),
     "The state to start from is given as h."),
    ("tanh is missing",
     last_states_with(lambda x, h, w, u, b: x @ w + h @ u + b),
     "The new state is the tanh of the sum."),
    ("tanh is taken of the word alone",
     last_states_with(lambda x, h, w, u, b: torch.tanh(x @ w + b) + h @ u),
     "Take tanh of the whole sum: word, state and bias."),
    ("the bias is missing",
     last_states_with(lambda x, h, w, u, b: torch.tanh(x @ w + h @ u)),
     "b is added at every step, before tanh."),
    ("the old state does not pass through U",
     last_states_with(lambda x, h, w, u, b: torch.tanh(x @ w + h + b)),
     "The old state is multiplied by U."),
    ("all stop with the shortest sentence",
     last_states_with(pick=lambda states, n: states[:, int(n.min()) - 1]),
     "Each sentence has its own last word, at its own length - 1."),
    ("all stop where the first sentence does",
     last_states_with(pick=lambda states, n: states[:, int(n[0]) - 1]),
     "Each sentence has its own last word, at its own length - 1."),
    ("the first word's state", last_states_with(pick=lambda states, n: states[:, 0]),
     "Asked for is the state after the last word."),
    ("counted from the end of the padding",
     last_states_with(pick=lambda states, n: states[torch.arange(len(n)), -n]),
     "`-lengths` counts from the last position, which is padding. The last word stands at "
     "lengths - 1."),
    ("the mean over the real words",
     last_states_with(pick=lambda states, n: torch.stack(
         [row[:k].mean(0) for row, k in zip(states, n.tolist(), strict=True)])),
     "Asked for is the state after the last word, not the mean of the states."),
    ("the sum of the states", last_states_with(pick=lambda states, n: states.sum(1)),
     "Asked for is the state after the last word. It has seen the others already."),
    ("the largest entry of all states", last_states_with(pick=lambda states, n: states.amax(1)),
     "Asked for is the state after the last word."),
    ("the padding read as words of zeros", _padding_zeroed,
     "A word of zeros is read, too: the state goes on through U and the bias. Stop at the last "
     "word, or keep the old state there."),
    ("the state set to zero at the padding", _zero_at_padding,
     "Where a sentence has ended its state must stay as it is, not become zero."),
    ("the old state added to the new one",
     last_states_with(lambda x, h, w, u, b: h + torch.tanh(x @ w + h @ u + b)),
     "The new state takes the place of the old one, equation (2.1)."),
    ("the word multiplied by U as well",
     last_states_with(lambda x, h, w, u, b: torch.tanh((x @ w + h) @ u + b)),
     "U multiplies the old state alone."),
    ("the bias added behind the tanh",
     last_states_with(lambda x, h, w, u, b: torch.tanh(x @ w + h @ u) + b),
     "b is added at every step, before tanh."),
    ("the sum of the real states",
     last_states_with(pick=lambda states, n: torch.stack(
         [row[:k].sum(0) for row, k in zip(states, n.tolist(), strict=True)])),
     "Asked for is the state after the last word. It has seen the others already."),
    ("the largest entry of the real states",
     last_states_with(pick=lambda states, n: torch.stack(
         [row[:k].amax(0) for row, k in zip(states, n.tolist(), strict=True)])),
     "Asked for is the state after the last word."),
    ("the bias added twice",
     last_states_with(lambda x, h, w, u, b: torch.tanh(x @ w + h @ u + 2 * b)),
     "Equation (2.1) has one bias."),
    ("the bias subtracted",
     last_states_with(lambda x, h, w, u, b: torch.tanh(x @ w + h @ u - b)),
     "Equation (2.1) adds b."),
    ("the mean of the first states for all",
     last_states_with(begin=lambda h: h.mean(0, keepdim=True).expand_as(h)),
     "Each sentence has its own state to start from."),
    ("read from the last place to the first",
     lambda x, *rest: last_states_with()(x.flip(1), *rest),
     "The words are read in their order, from the first on."),
    ("the words left out", last_states_with(lambda x, h, w, u, b: torch.tanh(h @ u + b)),
     "Each step reads its word: x W belongs to the sum."),
    ("tanh of each part alone",
     last_states_with(lambda x, h, w, u, b: torch.tanh(x @ w) + torch.tanh(h @ u) + b),
     "Take tanh of the whole sum: word, state and bias."),
    ("a sigmoid in place of tanh",
     last_states_with(lambda x, h, w, u, b: torch.sigmoid(x @ w + h @ u + b)),
     "The new state is the tanh of the sum."),
    ("a ReLU in place of tanh",
     last_states_with(lambda x, h, w, u, b: torch.relu(x @ w + h @ u + b)),
     "The new state is the tanh of the sum."),
    ("one word too early, and the last place for a single word",
     last_states_with(pick=lambda states, n: states[torch.arange(len(n)), n - 2]),
     "Positions count from 0: the last of n words stands at n - 1."),
    ("the first sentence's states for all",
     last_states_with(pick=lambda states, n: states[0, n - 1]),
     "`states[0, lengths - 1]` looks into the first sentence alone. Pair each sentence with its "
     "length: `states[torch.arange(B), lengths - 1]`."),
    ("the first sentence's first state for all",
     last_states_with(begin=lambda h: h[:1].expand_as(h)),
     "Each sentence has its own state to start from."),
    ("the states stacked by words, and read as stacked by sentences",
     last_states_with(pick=lambda states, n: (
         states.transpose(0, 1).reshape(states.shape)[torch.arange(len(n)), n - 1])),
     "A reshape moves no numbers: stack along axis 1, or exchange the two axes."),
    *combined(last_states_with, [
        ("U is transposed", {"step": transposed_step}, "Vectors are rows: h @ u."),
        ("tanh is missing", {"step": lambda x, h, w, u, b: x @ w + h @ u + b},
         "The new state is the tanh of the sum."),
        ("the bias is missing", {"step": lambda x, h, w, u, b: torch.tanh(x @ w + h @ u)},
         "b is added at every step."),
        ("the old state is not carried on", {"carried": False},
         "The new state is the old one of the next step."),
        ("starts from zeros", {"begin": torch.zeros_like}, "The first state is given as h."),
        ("the last position is taken", {"pick": last_place},
         "Behind the last word of a short sentence stands padding."),
        ("the position `lengths` is taken",
         {"pick": lambda states, n: (
             states[torch.arange(len(n)), n.clamp(max=states.shape[1] - 1)])},
         "The last of n words stands at n - 1."),
        ("all stop with the longest sentence",
         {"pick": lambda states, n: states[:, int(n.max()) - 1]},
         "Each sentence has its own last word."),
        ("the mean over the real words is taken",
         {"pick": lambda states, n: torch.stack(
             [row[:k].mean(0) for row, k in zip(states, n.tolist(), strict=True)])},
         "Asked for is the state after the last word."),
    ], but=[
        ("the old state is not carried on", "the last position is taken"),
        ("U is transposed", "the old state is not carried on"),
        ("U is transposed", "the last position is taken"),
    ]),
    ("one word too early, and the first state for a single word", _before_the_last(),
     "The last real word is not read. A loop over range(n - 1) leaves it out; and a list of states "
     "that begins with h has the state after n words at place n."),
    ("one word too early, and starts from zeros", _before_the_last(torch.zeros_like),
     "A list of states that begins with the first one has the state after n words at place n; and "
     "the first state is given as h."),
    ("from the last position to the first", lambda x, n, *rest: last_states_with(pick=last_place)(
        x.flip(1), n + x.shape[1] - n, *rest),
     "A sentence is read from its first word to its last."),
    ("from the last word to the first", lambda x, n, h, w, u, b: torch.stack([
        _backwards(x[i, : n[i]], h[i], w, u, b) for i in range(len(x))]),
     "A sentence is read from its first word to its last."),
    ("padding read, and words passed over", lambda x, n, h, w, u, b: torch.stack([
        _backwards(x[i, n[i] :].flip(0), h[i], w, u, b) for i in range(len(x))]),
     "The new state is for places with a word, the old one for padding: here the two are "
     "exchanged."),
    ("the first states as they were given", lambda x, n, h, *weights: h,
     "No word is read here: go through the words of each sentence."),
    ("states of zeros", lambda x, n, h, *weights: 0 * h,
     "Nothing is put into the result: the state after the last word of each sentence belongs "
     "there."),
    ("an empty list", lambda *case: [],
     "Nothing is put into the list: the state after the last word of each sentence belongs there."),
    ("the bias alone", last_states_with(lambda x, h, w, u, b: torch.tanh(b + 0 * h)),
     "Each step adds word, state and bias: x W + h U + b."),
    ("the old state's part subtracted",
     last_states_with(lambda x, h, w, u, b: torch.tanh(x @ w - h @ u + b)),
     "Equation (2.1) adds h U."),
    ("one word too late, where there is one",
     lambda x, lengths, *rest: last_states(x, (lengths + 1).clamp(max=lengths.max()), *rest),
     "Positions count from 0: the last of n words stands at n - 1."),
)  # fmt: skip


# 2.3: one step of the GRU as published, with the reset before the product


def gates(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor) -> tuple[Tensor, Tensor, int]:
    """Reset and update gates (B, hidden), and the column where the candidate's part begins."""
    last = 2 * h.shape[1]
    r, z = torch.sigmoid(x @ w[:, :last] + h @ u[:, :last] + b[:last]).chunk(2, dim=1)
    return r, z, last


def gru_step(x, h, w, u, b):
    r, z, n = gates(x, h, w, u, b)
    candidate = torch.tanh(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])
    return z * h + (1 - z) * candidate


def gru_reset_after(x, h, w, u, b):
    r, z, n = gates(x, h, w, u, b)
    candidate = torch.tanh(x @ w[:, n:] + r * (h @ u[:, n:]) + b[n:])
    return z * h + (1 - z) * candidate


def gru_update_swapped(x, h, w, u, b):
    r, z, n = gates(x, h, w, u, b)
    candidate = torch.tanh(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])
    return (1 - z) * h + z * candidate


def gru_gates_swapped(x, h, w, u, b):
    z, r, n = gates(x, h, w, u, b)
    candidate = torch.tanh(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])
    return z * h + (1 - z) * candidate


def gru_candidate_sigmoid(x, h, w, u, b):
    r, z, n = gates(x, h, w, u, b)
    candidate = torch.sigmoid(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])
    return z * h + (1 - z) * candidate


def gru_no_reset(x, h, w, u, b):
    _, z, n = gates(x, h, w, u, b)
    return z * h + (1 - z) * torch.tanh(x @ w[:, n:] + h @ u[:, n:] + b[n:])


def gru_no_bias(x, h, w, u, b):
    return gru_step(x, h, w, u, torch.zeros_like(b))


def gru_gates_tanh(x, h, w, u, b):
    n = 2 * h.shape[1]
    r, z = torch.tanh(x @ w[:, :n] + h @ u[:, :n] + b[:n]).chunk(2, dim=1)
    candidate = torch.tanh(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])
    return z * h + (1 - z) * candidate


def gru_only_candidate(x, h, w, u, b):
    r, _, n = gates(x, h, w, u, b)
    return torch.tanh(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])


def gru_plain_candidate(x, h, w, u, b):
    r, z, n = gates(x, h, w, u, b)
    return z * h + (1 - z) * (x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])


def gru_raw_gates(x, h, w, u, b):
    n = 2 * h.shape[1]
    r, z = (x @ w[:, :n] + h @ u[:, :n] + b[:n]).chunk(2, dim=1)
    candidate = torch.tanh(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])
    return z * h + (1 - z) * candidate


def gru_reset_on_word(x, h, w, u, b):
    r, z, n = gates(x, h, w, u, b)
    candidate = torch.tanh(r * (x @ w[:, n:] + h @ u[:, n:] + b[n:]))
    return z * h + (1 - z) * candidate


def gru_forgets(x, h, w, u, b):
    r, z, n = gates(x, h, w, u, b)
    return (1 - z) * torch.tanh(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])


def gru_adds(x, h, w, u, b):
    r, z, n = gates(x, h, w, u, b)
    return h + (1 - z) * torch.tanh(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])


def gru_reset_kept(x, h, w, u, b):
    r, z, n = gates(x, h, w, u, b)
    candidate = torch.tanh(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])
    return z * (r * h) + (1 - z) * candidate


def gru_cut(*order: int) -> Callable[..., Tensor]:
    """The three parts of w, u and b taken in another order."""

    def step(x, h, w, u, b):
        w, u, b = (torch.cat([a.chunk(3, -1)[i] for i in order], -1) for a in (w, u, b))
        return gru_step(x, h, w, u, b)

    return step


def gru_with(
    candidate: Callable[..., Tensor] = lambda x, r, h, u, b: torch.tanh(x + (r * h) @ u + b),
    mix: Callable[..., Tensor] = lambda r, z, h, new: z * h + (1 - z) * new,
) -> Callable[..., Tensor]:
    """The step with another candidate, of x W_n and the rest, or another mixture."""

    def step(x, h, w, u, b):
        r, z, n = gates(x, h, w, u, b)
        return mix(r, z, h, candidate(x @ w[:, n:], r, h, u[:, n:], b[n:]))

    return step


def gru_with_gates(
    gate: Callable[..., Tensor] = torch.sigmoid,
    sums: Callable[..., Tensor] = lambda x, h, w, u, b: x @ w + h @ u + b,
    cut: tuple[int, ...] = (0, 1, 2),
    candidate: Callable[..., Tensor] = lambda x, r, h, u, b: torch.tanh(x + (r * h) @ u + b),
    mix: Callable[..., Tensor] = lambda r, z, h, new: z * h + (1 - z) * new,
    part: Callable[[Tensor], tuple] = lambda a: a.chunk(3, -1),
) -> Callable[..., Tensor]:
    """The step, right by default; each argument makes one slip."""

    def step(x, h, w, u, b):
        (w_r, u_r, b_r), (w_z, u_z, b_z), (w_n, u_n, b_n) = (
            tuple(part(a)[i] for a in (w, u, b)) for i in cut
        )
        r, z = gate(sums(x, h, w_r, u_r, b_r)), gate(sums(x, h, w_z, u_z, b_z))
        return mix(r, z, h, candidate(x @ w_n, r, h, u_n, b_n))

    return step


def _no_sigmoid_on_update(x, h, w, u, b):
    (w_r, w_z, w_n), (u_r, u_z, u_n) = w.chunk(3, 1), u.chunk(3, 1)
    b_r, b_z, b_n = b.chunk(3)
    z = x @ w_z + h @ u_z + b_z
    kept = torch.sigmoid(x @ w_r + h @ u_r + b_r) * h
    return z * h + (1 - z) * torch.tanh(x @ w_n + kept @ u_n + b_n)


def _update_from_reset(x, h, w, u, b):
    (w_r, w_z, w_n), (u_r, u_z, u_n) = w.chunk(3, 1), u.chunk(3, 1)
    b_r, b_z, b_n = b.chunk(3)
    kept = torch.sigmoid(x @ w_r + h @ u_r + b_r) * h
    z = torch.sigmoid(x @ w_z + kept @ u_z + b_z)
    return z * h + (1 - z) * torch.tanh(x @ w_n + kept @ u_n + b_n)


GRU_SLIPS = [
    ("the reset gate acts after the product",
     {"candidate": lambda x, r, h, u, b: torch.tanh(x + r * (h @ u) + b)},
     "The published GRU resets the state first."),
    ("the reset gate is not used",
     {"candidate": lambda x, r, h, u, b: torch.tanh(x + h @ u + b)},
     "The candidate sees r * h in place of h."),
    ("the candidate has no tanh", {"candidate": lambda x, r, h, u, b: x + (r * h) @ u + b},
     "The candidate is the tanh of its sum."),
    ("the candidate is a sigmoid",
     {"candidate": lambda x, r, h, u, b: torch.sigmoid(x + (r * h) @ u + b)},
     "The candidate is a tanh."),
    ("the parts of z and 1 - z are swapped",
     {"mix": lambda r, z, h, new: (1 - z) * h + z * new}, "z keeps the old state."),
    ("the candidate is added in full", {"mix": lambda r, z, h, new: z * h + new},
     "1 - z of the candidate is let in."),
    ("the candidate is returned alone", {"mix": lambda r, z, h, new: new},
     "The new state is a mixture of the old one and the candidate."),
    ("reset and update gates are swapped", {"cut": (1, 0, 2)},
     "The columns come in the order reset, update, candidate."),
    ("the candidate's columns are taken first", {"cut": (1, 2, 0)},
     "The columns come in the order reset, update, candidate."),
    ("the gates are made with tanh", {"gate": torch.tanh}, "A gate is a sigmoid."),
    ("the gates have no bias", {"sums": lambda x, h, w, u, b: x @ w + h @ u},
     "b has a part for each gate."),
]  # fmt: skip


def _gate_without_bias(part: int) -> Callable[..., Tensor]:
    def step(x, h, w, u, b):
        parts = [*b.chunk(3)]
        parts[part] = torch.zeros_like(parts[part])
        return gru_step(x, h, w, u, torch.cat(parts))

    return step


GRU_MORE = mistakes(
    ("the reset gate acts after the product, and on the bias of the candidate",
     gru_with_gates(candidate=lambda x, r, h, u, b: torch.tanh(x + r * (h @ u + b))),
     "The published GRU resets the state first, before it meets U, and the bias not at all."),
    ("the reset gate acts after the product, and on the word",
     gru_with_gates(candidate=lambda x, r, h, u, b: torch.tanh(r * (x + h @ u) + b)),
     "Only the old state is reset, and before it meets U. The word enters in full."),
    ("the candidate does not see the word",
     gru_with_gates(candidate=lambda x, r, h, u, b: torch.tanh((r * h) @ u + b)),
     "The candidate is made from the word, too: x W_n."),
    ("the gates do not see the old state", gru_with_gates(sums=lambda x, h, w, u, b: x @ w + b),
     "Gates (2.5) are made from the word and from the old state."),
    ("the gates do not see the word", gru_with_gates(sums=lambda x, h, w, u, b: h @ u + b),
     "Gates (2.5) are made from the word and from the old state."),
    ("the gates have no bias", gru_with_gates(sums=lambda x, h, w, u, b: x @ w + h @ u),
     "b has three parts, and the first two belong to the gates."),
    ("the gates are made with a softmax", gru_with_gates(gate=lambda a: a.softmax(-1)),
     "Each entry has a gate of its own, a sigmoid: gates share out nothing among the entries."),
    ("the columns taken in turns",
     gru_with_gates(part=lambda a: tuple(a[..., i::3] for i in range(3))),
     "The three parts stand side by side: the first third of the columns is the reset gate's."),
    ("the old state added to the mixture",
     gru_with_gates(mix=lambda r, z, h, new: h + z * h + (1 - z) * new),
     "Equation (2.7) has two parts: z times the old state, and 1 - z of the candidate."),
    ("the update gate without its sigmoid", _no_sigmoid_on_update,
     "A gate is a share between 0 and 1: the sum goes through a sigmoid."),
    ("the update gate sees the reset state", _update_from_reset,
     "Both gates (2.5) are made from the word and from the old state as it is."),
    ("tanh of the mixture", lambda *case: torch.tanh(gru_step(*case)),
     "The mixture (2.7) is the new state as it is: tanh is the candidate's."),
    ("halves of both in the mixture", gru_with_gates(mix=lambda r, z, h, new: (h + new) / 2),
     "The update gate decides the shares: z h + (1 - z) n."),
    ("all three parts of U transposed",
     lambda x, h, w, u, b: gru_step(x, h, w, torch.cat([p.T for p in u.chunk(3, 1)], 1), b),
     "Vectors are rows: h @ U_r, h @ U_z, (r * h) @ U_n."),
    ("the biases left out, and reset and update gates swapped",
     lambda x, h, w, u, b: gru_gates_swapped(x, h, w, u, 0 * b),
     "b has three parts; and the columns come in the order reset, update, candidate."),
    ("the biases left out, and the parts of z and 1 - z swapped",
     lambda x, h, w, u, b: gru_update_swapped(x, h, w, u, 0 * b),
     "b has three parts; and z keeps the old state."),
    ("the biases left out, and the reset gate after the product",
     lambda x, h, w, u, b: gru_reset_after(x, h, w, u, 0 * b),
     "b has three parts; and the published GRU resets the state first."),
    ("the reset gate in both shares of the mixture",
     gru_with_gates(mix=lambda r, z, h, new: (1 - r) * h + r * new),
     "Equation (2.7) mixes with z, the update gate."),
    *combined(gru_with_gates, GRU_SLIPS, but=[
        ("the reset gate is not used", "reset and update gates are swapped"),
    ]),
    ("the reset gate acts on the word, and not on the state",
     gru_with_gates(candidate=lambda x, r, h, u, b: torch.tanh(r * x + h @ u + b)),
     "It is the old state that is reset, before it meets U. The word enters in full."),
    ("the old state kept in full, and z of the candidate",
     gru_with_gates(mix=lambda r, z, h, new: h + z * new),
     "Equation (2.7) is a mixture: z times the old state, and 1 - z of the candidate."),
    ("the reset gate has no bias",
     _gate_without_bias(0),
     "b has three parts: for reset, update and candidate."),
    ("the update gate has no bias", _gate_without_bias(1),
     "b has three parts: for reset, update and candidate."),
    ("two gates of their own in the mixture, as in an LSTM",
     gru_with_gates(mix=lambda r, z, h, new: z * h + r * new),
     "Equation (2.7) has one gate for both: z of the old state, 1 - z of the candidate."),
    ("the update gate resets as well",
     lambda x, h, w, u, b: (
         (g := gates(x, h, w, u, b)) and g[1] * h + (1 - g[1]) * torch.tanh(
             x @ w[:, g[2]:] + (g[0] * g[1] * h) @ u[:, g[2]:] + b[g[2]:])),
     "The candidate sees r * h. z belongs to the mixture alone."),
    ("tanh of the candidate twice",
     gru_with_gates(mix=lambda r, z, h, new: z * h + (1 - z) * torch.tanh(new)),
     "The candidate is the tanh of its sum, once."),
    ("the reset gate on the word's part and the bias, in place of the old state",
     gru_with_gates(candidate=lambda x, r, h, u, b: torch.tanh(r * (x + b) + h @ u)),
     "Only the old state is reset: tanh(x W_n + (r * h) U_n + b_n)."),
    ("the reset gate acts on x W as well",
     gru_with_gates(candidate=lambda x, r, h, u, b: torch.tanh(r * x + (r * h) @ u + b)),
     "Only the old state is reset. The word enters in full."),
)  # fmt: skip


Sum = Callable[..., Tensor]  # of the word's part x W, of h, and of a third of U and of b
SUMS: dict[str, tuple[str, Sum]] = {
    "without the word": ("x W is missing.", lambda xw, h, u, b: h @ u + b),
    "without the old state": ("h U is missing.", lambda xw, h, u, b: xw + b),
    "of the bias alone": ("x W and h U are missing.", lambda xw, h, u, b: 0 * xw + b),
    "with the old state's part subtracted": ("All are added.", lambda xw, h, u, b: xw - h @ u + b),
    "with the bias subtracted": ("All are added.", lambda xw, h, u, b: xw + h @ u - b),
    "with the old state not multiplied by U": (
        "The old state passes through U.", lambda xw, h, u, b: xw + h + b),
}  # fmt: skip
PARTS = {
    "the reset gate": "It is the sigmoid of x W_r + h U_r + b_r.",
    "the update gate": "It is the sigmoid of x W_z + h U_z + b_z.",
    "the candidate": "It is the tanh of x W_n + (r * h) U_n + b_n.",
}
PARTS_SHORT = ("reset gate", "update gate", "candidate")
MIXTURES: dict[str, Callable[..., Tensor]] = {
    "the candidate subtracted": lambda r, z, h, new: z * h - (1 - z) * new,
    "the candidate left out": lambda r, z, h, new: z * h,
    "1 - z in place of the candidate": lambda r, z, h, new: z * h + (1 - z),
    "z in place of the old state's part": lambda r, z, h, new: z + (1 - z) * new,
    "1 - z of both": lambda r, z, h, new: (1 - z) * (h + new),
    "1 + z of the candidate": lambda r, z, h, new: z * h + (1 + z) * new,
    "2 - z of the candidate": lambda r, z, h, new: z * h + (2 - z) * new,
    "z of the candidate, subtracted": lambda r, z, h, new: z * (h - new),
    "the difference taken the other way": lambda r, z, h, new: new + z * (new - h),
    "z added to the candidate": lambda r, z, h, new: new + z,
    "1 + z of the candidate alone": lambda r, z, h, new: new + z * new,
    "the old state for the gate, and the gate for it": lambda r, z, h, new: new + h * (z - new),
    "divided by the old state": lambda r, z, h, new: z / h + (1 - z) * new,
}


def gru_of(
    sums: dict[int, Sum] | None = None,
    ends: tuple[Callable[[Tensor], Tensor], ...] = (torch.sigmoid, torch.sigmoid, torch.tanh),
) -> Callable[..., Tensor]:
    """The step with another sum in one of its three parts, or with other functions of them."""

    def step(x, h, w, u, b):
        thirds = [*zip(*(a.chunk(3, -1) for a in (w, u, b)), strict=True)]

        def part(i, h):
            w, u, b = thirds[i]
            one = (sums or {}).get(i, lambda xw, h, u, b: xw + h @ u + b)
            return ends[i](one(x @ w, h, u, b))

        r, z = part(0, h), part(1, h)
        return z * h + (1 - z) * part(2, r * h)

    return step


def gru_exchanged_in(place: int) -> Callable[..., Tensor]:
    """Reset and update exchanged in one of w, u and b alone."""

    def step(x, h, *weights):
        r, z, n = weights[place].chunk(3, -1)
        one = {place: torch.cat([z, r, n], -1)}
        return gru_step(x, h, *(one.get(i, a) for i, a in enumerate(weights)))

    return step


def gru_part_for(place: int, part: int, other: int) -> Callable[..., Tensor]:
    """In one of w, u and b the columns of another part in place of a part's own."""

    def step(x, h, *weights):
        parts = [*weights[place].chunk(3, -1)]
        parts[part] = parts[other]
        one = {place: torch.cat(parts, -1)}
        return gru_step(x, h, *(one.get(i, a) for i, a in enumerate(weights)))

    return step


def gru_recut(*which: str, thirds: bool = False) -> Callable[..., Tensor]:
    """Some of w, u and b cut otherwise: by a reshape to three parts, or to every third column."""

    def step(x, h, *weights):
        cut = [
            a
            if name not in which
            else torch.cat([a[..., i::3] for i in range(3)], -1)
            if thirds
            else torch.cat([*a.reshape(3, len(a), -1)], -1)
            for name, a in zip("wub", weights, strict=True)
        ]
        return gru_step(x, h, *cut)

    return step


def gru_reset_in_place(x, h, w, u, b):
    r, _, s = gates(x, h, w, u, b)
    z = gates(x, r * h, w, u, b)[1]
    new = torch.tanh(x @ w[:, s:] + (r * h) @ u[:, s:] + b[s:])
    return z * r * h + (1 - z) * new


GRU_PARTS = mistakes(
    *((f"the {PARTS_SHORT[part]} made with the {PARTS_SHORT[other]}'s part of {name}",
       gru_part_for(i, part, other),
       "Each of the three has its own third of w, of u and of b.")
      for i, name in enumerate("wub") for part in range(3) for other in range(3)
      if part != other),
    *((f"{' and '.join(which)} cut anew by a `reshape` or a `view`", gru_recut(*which),
       "The three parts stand side by side: each is a third of the columns, in every row. "
       "`reshape` goes on along the rows, and makes parts of rows that belong to all three.")
      for which in (("u",), ("w",), ("w", "u"))),
    *((f"every third column of {name} alone taken for a part", gru_recut(name, thirds=True),
       "The columns of a part stand side by side, in u as in w and b.") for name in "wub"),
    ("the old state reset for good", gru_reset_in_place,
     "The reset state is for the candidate alone. The update gate and the mixture need h as it "
     "was: is it changed in place?"),
    ("the reset gate added to the old state", gru_with_gates(
        candidate=lambda x, r, h, u, b: torch.tanh(x + (r + h) @ u + b)),
     "The reset gate is multiplied with the old state, number by number."),
    *((f"reset and update gates are swapped in {name} alone", gru_exchanged_in(i),
       "The columns come in the order reset, update, candidate, in all three.")
      for i, name in enumerate("wub")),
    *(
        (f"{which} {how}", gru_of({i: one}), f"{why} {whole}")
        for i, (which, whole) in enumerate(PARTS.items())
        for how, (why, one) in SUMS.items()
        if which != "the candidate" or how not in ("without the word", "without the old state")
    ),
    *(
        (f"the mixture: {how}", gru_with_gates(mix=mix),
         "Equation (2.7) has z times the old state and 1 - z times the candidate, added.")
        for how, mix in MIXTURES.items()
    ),
    ("the reset gate made with tanh", gru_of(ends=(torch.tanh, torch.sigmoid, torch.tanh)),
     "A gate is a share between 0 and 1: the sigmoid makes it one."),
    ("the update gate made with tanh", gru_of(ends=(torch.sigmoid, torch.tanh, torch.tanh)),
     "A gate is a share between 0 and 1: the sigmoid makes it one."),
    ("the reset gate without its sigmoid", gru_of(ends=(lambda a: a, torch.sigmoid, torch.tanh)),
     "A gate is a share between 0 and 1: the sum goes through a sigmoid."),
    ("the reset gate in place of the old state that it resets", gru_with_gates(
        candidate=lambda x, r, h, u, b: torch.tanh(x + r @ u + b)),
     "The candidate sees r * h, the old state with its gate."),
    ("the reset gate divided by the old state", gru_with_gates(
        candidate=lambda x, r, h, u, b: torch.tanh(x + (r / h) @ u + b)),
     "The reset gate is multiplied with the old state, number by number."),
)  # fmt: skip


def gru_reset_by_update(x, h, w, u, b):
    _, z, n = gates(x, h, w, u, b)
    candidate = torch.tanh(x @ w[:, n:] + (z * h) @ u[:, n:] + b[n:])
    return z * h + (1 - z) * candidate


def gru_cases() -> list[tuple[Tensor, ...]]:
    g = torch.Generator().manual_seed(23)
    nothing = [torch.zeros(shape) for shape in ((2, 6), (2, 6), (6,))]
    halved = (torch.tensor([[1.0, 2.0]]), torch.tensor([[0.4, -0.8]]), *nothing)
    return [
        halved,
        *(
            tuple(
                0.8 * torch.randn(shape, generator=g)
                for shape in ((batch, d), (batch, s), (d, 3 * s), (s, 3 * s), (3 * s,))
            )
            for batch, d, s in ((2, 3, 4), (3, 4, 2), (1, 2, 3), (2, 1, 1))
        ),
    ]


GRU_MISTAKES = mistakes(
    ("the reset gate acts after the product", gru_reset_after,
     "That is PyTorch's GRU, equation (2.6). The published one resets the state first and "
     "multiplies the result by U."),
    ("the parts of z and 1 - z are swapped", gru_update_swapped,
     "In equation (2.7) z keeps the old state and 1 - z lets the candidate in."),
    ("reset and update gates are swapped", gru_gates_swapped,
     "The columns come in the order reset, update, candidate."),
    ("the candidate is a sigmoid", gru_candidate_sigmoid,
     "Gates are sigmoids. The candidate is a new state, so it is a tanh."),
    ("the reset gate is not used", gru_no_reset, "The candidate sees r * h in place of h."),
    ("the reset gate acts on the word as well", gru_reset_on_word,
     "Only the old state is reset. The word and the bias enter the candidate in full."),
    ("the gates are made with tanh", gru_gates_tanh,
     "A gate is a share between 0 and 1, so it is a sigmoid."),
    ("the biases are missing", gru_no_bias,
     "b has three parts too, one for each gate and one for the candidate."),
    ("nothing of the old state is kept", gru_forgets,
     "Equation (2.7) has two parts: z times the old state, and 1 - z of the candidate."),
    ("the reset gate's share of the old state in the mixture",
     gru_with_gates(mix=lambda r, z, h, new: r * h + (1 - z) * new),
     "The two shares of the mixture (2.7) are z and 1 - z, of one gate: update."),
    ("the old state is kept in full", gru_adds,
     "The old state is kept in part: z times h, equation (2.7)."),
    ("the old state is reset in the mixture, too", gru_reset_kept,
     "The reset gate decides what the candidate sees. What z keeps is h itself."),
    ("the candidate has no tanh", gru_plain_candidate,
     "The candidate is a new state: the tanh of its sum."),
    ("the gates have no sigmoid", gru_raw_gates,
     "A gate is a share between 0 and 1. The sigmoid makes it one."),
    ("returns the candidate alone", gru_only_candidate,
     "The new state is a mixture of the old one and the candidate, equation (2.7)."),
    ("the gate 1 - r in place of r",
     gru_with(lambda x, r, h, u, b: torch.tanh(x + ((1 - r) * h) @ u + b)),
     "What the reset gate lets through is r times the old state."),
    ("the candidate's part taken for that of the reset gate", gru_cut(2, 0, 1),
     "The columns come in the order reset, update, candidate."),
    ("the candidate's part taken first, then update and reset", gru_cut(2, 1, 0),
     "The columns come in the order reset, update, candidate."),
    ("the columns in the order of reset, candidate, update", gru_cut(0, 2, 1),
     "The columns come in the order reset, update, candidate."),
    ("the columns in the order of candidate, reset, update", gru_cut(1, 2, 0),
     "The columns come in the order reset, update, candidate."),
    ("the bias of the candidate reset as well",
     gru_with(lambda x, r, h, u, b: torch.tanh(x + (r * h) @ u + r * b)),
     "Only the old state is reset. The bias enters the candidate in full."),
    ("the candidate's matrix transposed",
     gru_with(lambda x, r, h, u, b: torch.tanh(x + (r * h) @ u.T + b)),
     "Vectors are rows: (r * h) @ U_n."),
    ("z for both parts", gru_with(mix=lambda r, z, h, new: z * h + z * new),
     "In equation (2.7) z keeps the old state and 1 - z lets the candidate in: the two are shares "
     "of one."),
    ("the reset gate in the mixture, in place of z",
     gru_with(mix=lambda r, z, h, new: r * h + (1 - r) * new),
     "Equation (2.7) mixes with z, the update gate."),
    ("the candidate does not see the old state", gru_with(lambda x, r, h, u, b: torch.tanh(x + b)),
     "The candidate is made from the word and from the old state, r * h."),
    ("the candidate has no bias", gru_with(lambda x, r, h, u, b: torch.tanh(x + (r * h) @ u)),
     "The third part of b belongs to the candidate."),
    ("the update gate in the candidate, in place of r", gru_reset_by_update,
     "The candidate sees r * h, the state behind the reset gate. z belongs to the mixture alone."),
    ("the candidate added in full, not 1 - z of it", gru_with(mix=lambda r, z, h, new: z * h + new),
     "In equation (2.7) z keeps the old state and 1 - z lets the candidate in: the two are shares "
     "of one."),
    ("a ReLU in place of the candidate's tanh",
     gru_with(lambda x, r, h, u, b: torch.relu(x + (r * h) @ u + b)),
     "The candidate is a tanh, as the new state of the plain net is."),
    ("the old state twice in the mixture", gru_with_gates(mix=lambda r, z, h, new: h),
     "z of the old state and 1 - z of the *candidate*: so nothing is ever read."),
    ("the reset gate twice", gru_with_gates(
        candidate=lambda x, r, h, u, b: torch.tanh(x + (r * r * h) @ u + b)),
     "The candidate sees r * h, with the gate once."),
    ("the reset gate on the candidate itself", gru_with_gates(
        candidate=lambda x, r, h, u, b: torch.tanh(x + h @ u + b) * r),
     "The reset gate acts on the old state, before it meets U."),
)  # fmt: skip

# 2.4: a test that tells right functions of 2.2 from wrong ones

Reader = Callable[..., Tensor]


def backwards_in_time(
    x: Tensor, lengths: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor
) -> Tensor:
    """Right as well: the short sentences wait, and join in so that all end together."""
    longest = int(lengths.max())
    for t in range(longest):
        place = t - longest + lengths
        new = right_step(x[torch.arange(len(x)), place.clamp(min=0)], h, w, u, b)
        h = torch.where((place >= 0).unsqueeze(1), new, h)
    return h


def in_double(*arguments: Tensor) -> Tensor:
    x, lengths, *others = arguments
    return last_states(x.double(), lengths, *(a.double() for a in others)).float()


READERS: dict[str, Reader] = {
    "right": last_states,
    "right, in double precision": in_double,
    "right, all sentences ending together": backwards_in_time,
    "the faulty one of 2.2": last_states_with(transposed_step, carried=False, pick=last_place),
    "the old state not carried on": last_states_with(carried=False),
    "U transposed": last_states_with(transposed_step),
    "the last position": last_states_with(pick=last_place),
    "the position behind the last word": last_states_with(
        pick=lambda states, n: states[torch.arange(len(n)), n.clamp(max=states.shape[1] - 1)]
    ),
    "one word too early": last_states_with(
        pick=lambda states, n: states[torch.arange(len(n)), (n - 2).clamp(min=0)]
    ),
    "the first state": last_states_with(pick=lambda states, n: states[:, 0]),
    "the longest sentence's position for all": last_states_with(
        pick=lambda states, n: states[:, int(n.max()) - 1]
    ),
    "the first sentence's position for all": last_states_with(
        pick=lambda states, n: states[:, n[0] - 1]
    ),
    "the last sentence's position for all": last_states_with(
        pick=lambda states, n: states[:, n[-1] - 1]
    ),
    "words told from padding by their numbers": _told_by_numbers,
    "the words read from behind": lambda x, n, h, *weights: torch.stack(
        [_backwards(words[:k], one, *weights) for words, k, one in zip(x, n, h, strict=True)]
    ),
    "the mean of the states": last_states_with(pick=lambda states, n: states.mean(1)),
    "started from zeros": last_states_with(begin=torch.zeros_like),
    "the first sentence's state for all": last_states_with(begin=lambda h: h[:1].expand_as(h)),
    "no bias": last_states_with(lambda x, h, w, u, b: torch.tanh(x @ w + h @ u)),
    "the first sentence's words for all": lambda x, *others: last_states(
        x[:1].expand_as(x), *others
    ),
    "the words of the sentences in reverse order": lambda x, *others: last_states(
        x.flip(0), *others
    ),
    "no tanh": last_states_with(lambda x, h, w, u, b: x @ w + h @ u + b),
    "a sigmoid": last_states_with(lambda x, h, w, u, b: torch.sigmoid(x @ w + h @ u + b)),
    "no U": last_states_with(lambda x, h, w, u, b: torch.tanh(x @ w + h + b)),
    "the words left out": last_states_with(lambda x, h, w, u, b: torch.tanh(h @ u + b)),
    "the states of all positions": last_states_with(pick=lambda states, n: states),
    "the sentences in reverse order": lambda *case: last_states(*case).flip(0),
    "all numbers too high": lambda *case: last_states(*case) + 0.3,
    "all numbers too low": lambda *case: last_states(*case) - 0.3,
}


def is_right(reader: Reader) -> bool:
    return _reads_right(reader, _sentences())


def _sentences(lengths: tuple[int, ...] = (2, 4, 3), behind: int = 1) -> list[Tensor]:
    g = torch.Generator().manual_seed(24)
    B, D, H = len(lengths), 3, 4
    shapes = (B, max(lengths) + behind, D), (B, H), (D, H), (H, H), (H,)
    x, *others = (0.6 * torch.randn(shape, generator=g) for shape in shapes)
    return [3 * x, torch.tensor(lengths), *others]


def _reads_right(reader: Reader, case: list[Tensor], expected: Reader = last_states) -> bool:
    got, want = reader(*(a.clone() for a in case)), expected(*case)
    return got.shape == want.shape and torch.allclose(got, want, atol=1e-5)


def _without(place: int, changed: Callable[[Tensor], Tensor]) -> Callable[[Reader], bool]:
    """A test whose input lacks something: argument number `place` is not as various as it was."""

    def test(reader: Reader) -> bool:
        case = _sentences()
        case[place] = changed(case[place])
        return _reads_right(reader, case)

    return test


def _padding_is_nothing(reader: Reader) -> bool:
    x, lengths, *others = _sentences()
    other = x.masked_fill(~_real(x, lengths), 9.0)
    one, two = reader(x, lengths, *others), reader(other, lengths, *others)
    return torch.allclose(one, two, atol=1e-5)


def _alone_as_together(reader: Reader) -> bool:
    x, lengths, h, w, u, b = _sentences()
    alone = [
        reader(x[i : i + 1, :n], lengths[i : i + 1], h[i : i + 1], w, u, b)
        for i, n in enumerate(lengths)
    ]
    return torch.allclose(reader(x, lengths, h, w, u, b), torch.cat(alone), atol=1e-5)


PRINTED = last_cases()[0]


def _step_by_step(reader: Reader) -> bool:
    x, lengths, h, *weights = _sentences((3, 3, 3), behind=0)
    whole = reader(x, lengths, h, *weights)
    for t in range(3):
        h = reader(x[:, t : t + 1], torch.ones_like(lengths), h, *weights)
    return torch.allclose(whole, h, atol=1e-5)


READER_RULES = rules(
    [name for name in READERS if name.startswith("right")],
    {
        "the faulty one of 2.2": "Several words, a U that is not its own transpose, and lengths "
        "that differ show what is wrong with it.",
        "the old state not carried on": "It shows where a second word is read and U is not zero.",
        "U transposed": "It shows where U is not its own transpose.",
        "the last position": "It shows where a sentence is shorter than its row.",
        "the position behind the last word": "It shows where a sentence is shorter than its row.",
        "one word too early": "It shows where a sentence has several words.",
        "the first state": "It shows where a sentence has several words.",
        "the longest sentence's position for all": "It shows where lengths differ.",
        "the first sentence's position for all": "It shows where lengths differ.",
        "the last sentence's position for all": "It shows where lengths differ.",
        "words told from padding by their numbers": "It takes zeros for padding, and shows where "
        "padding is anything else.",
        "the words read from behind": "It shows where a sentence has several words, which differ.",
        "the mean of the states": "It shows where a sentence has several words.",
        "started from zeros": "It shows where the first state is not zero, and sentences short.",
        "the first sentence's state for all": "It shows where the first states differ.",
        "the first sentence's words for all": "It shows where each sentence has other words.",
        "the words of the sentences in reverse order": "It shows where each sentence has other "
        "words.",
        "no bias": "It shows where the bias is not zero.",
        "no tanh": "It shows in the numbers.",
        "a sigmoid": "It shows in the numbers.",
        "no U": "It shows where the state is not zero and U is not the identity.",
        "the words left out": "It shows where the words are not zero.",
        "the states of all positions": "It shows in the shape.",
        "the sentences in reverse order": "It shows in each sentence's numbers, not in their sum.",
        "all numbers too high": "It shows in the numbers: look at differences of both signs.",
        "all numbers too low": "It shows in the numbers: look at differences of both signs.",
    },
)
READER_LACKS: dict[str, Lack] = {  # by the arguments of 2.2: x, lengths, h, w, u, b
    "the printed example": each(
        lambda *case: all(torch.equal(a, b) for a, b in zip(case, PRINTED, strict=True))
    ),
    "one word, nothing behind": each(lambda x, *_: x.shape[1] == 1),
    "one word": each(lambda x, lengths, *_: bool((lengths == 1).all())),
    "one sentence, no padding": each(
        lambda x, lengths, *_: len(x) == 1 and bool((lengths == x.shape[1]).all())
    ),
    "one sentence": each(lambda x, *_: len(x) == 1),
    "no padding": each(lambda x, lengths, *_: bool((lengths == x.shape[1]).all())),
    "equal lengths": each(lambda x, lengths, *_: len(set(lengths.tolist())) == 1),
    "no words": each(lambda x, *_: not x.any()),
    "one word, repeated": each(lambda x, *_: bool((x == x[:, :1]).all())),
    "one sentence's words": each(lambda x, *_: bool((x == x[:1]).all())),
    "padding of zeros": each(lambda x, lengths, *_: not (x * ~_real(x, lengths)).any()),
    "no U": each(lambda x, n, h, w, u, b: not u.any()),
    "identity": each(lambda x, n, h, w, u, b: torch.equal(u, torch.eye(len(u)))),
    "symmetric": each(lambda x, n, h, w, u, b: torch.equal(u, u.T)),
    "no state, no bias": each(lambda x, n, h, w, u, b: not h.any() and not b.any()),
    "no state": each(lambda x, n, h, w, u, b: not h.any()),
    "one state": each(lambda x, n, h, w, u, b: bool((h == h[:1]).all())),
    "no bias": each(lambda x, n, h, w, u, b: not b.any()),
    "saturated": each(lambda *case: bool((last_states(*case).abs() > 0.999).float().mean() > 0.5)),
}
READER_TESTS = mistakes(
    ("everything passes", lambda reader: True,
     "A test must be able to fail. Nearly all of the wrong ones give the right shape and raise "
     "nothing: compare the numbers that come out."),
    ("nothing passes", lambda reader: False,
     "The right ones must pass, in whatever style they are written. Compare with allclose: sums "
     "that are taken in another order differ in their last bits. Are the numbers right that you "
     "compare with?"),
    ("right and wrong exchanged", lambda reader: not is_right(reader),
     "True means that the function is right."),
    ("only the shape", lambda reader: reader(*_sentences()).shape == (3, 4),
     "Nearly all of the wrong ones give the right shape. Compare numbers."),
    ("only shape and range",
     lambda reader: (
         reader(*_sentences()).shape == (3, 4) and bool((reader(*_sentences()).abs() <= 1).all())
     ),
     "Whatever comes out of a tanh lies between -1 and 1. Compare with numbers that you know to be "
     "right."),
    ("only the printed example", lambda reader: _reads_right(reader, list(PRINTED)),
     "There U is a single number, its own transpose, state and bias are zero, and there is one "
     "sentence: most mistakes do not show. Take larger input, of different numbers."),
    ("one sentence alone", lambda reader: _reads_right(reader, _sentences((3,))),
     "With one sentence nobody sees whether each has its own length and its own first state."),
    ("one sentence alone, without padding",
     lambda reader: _reads_right(reader, _sentences((3,), behind=0)),
     "Without padding the last position is the last word. And with one sentence nobody sees "
     "whether each has its own length and its own first state."),
    ("no padding in the input", lambda reader: _reads_right(reader, _sentences((4, 4, 4), 0)),
     "Where all sentences fill their rows, the last position is the last word. Let the lengths "
     "differ."),
    ("all sentences of one length", lambda reader: _reads_right(reader, _sentences((3, 3, 3))),
     "Let the lengths differ: else one position may serve for all."),
    ("only sentences of one word", lambda reader: _reads_right(reader, _sentences((1, 1, 1))),
     "A single word meets the first state alone: whether a state is carried on, and which place is "
     "taken, shows with more."),
    ("a first state of zeros", _without(2, torch.zeros_like),
     "Let the first state differ from zero, and from sentence to sentence: otherwise nobody sees "
     "who starts from where."),
    ("one first state for all", _without(2, lambda h: h[:1].expand_as(h)),
     "Let the first states of the sentences differ: otherwise nobody sees whose is whose."),
    ("first states of zeros, and no bias",
     lambda reader: _reads_right(
         reader, [a * (i not in (2, 5)) for i, a in enumerate(_sentences())]
     ),
     "What is zero in the input cannot be missed: let states and bias differ from zero."),
    ("a bias of zeros", _without(5, torch.zeros_like),
     "A bias of zeros is not missed by anybody. Let it differ from zero."),
    ("a U that is its own transpose", _without(4, lambda u: u + u.T),
     "Which way U is multiplied shows only if it is not its own transpose."),
    ("U is the identity", _without(4, lambda u: torch.eye(len(u))),
     "Whether the state passes through U, and which way, shows only with a U of various numbers."),
    ("one word, repeated", _without(0, lambda x: x[:, :1].expand_as(x).clone()),
     "Let the words of a sentence differ: else nobody sees in which order they are read."),
    ("the same words in every sentence", _without(0, lambda x: x[:1].expand_as(x).clone()),
     "Let the sentences differ in their words: else nobody sees whose are read."),
    ("numbers so large that tanh saturates",
     lambda reader: _reads_right(
         reader, [a if i == 1 else 30 * a for i, a in enumerate(_sentences())]
     ),
     "A state of 1 or -1 forgets what it came from: take numbers near 1 or below, so that states "
     "lie between."),
    ("only the sum of all numbers",
     lambda reader: torch.allclose(
         reader(*_sentences()).sum(), last_states(*_sentences()).sum(), atol=1e-4
     ),
     "Numbers in another order, or of another shape, can have the same sum. Compare them one by "
     "one."),
    ("a padding of zeros", lambda reader: _reads_right(
        reader, [x * _real(x, n) if i == 0 else a
                 for case in [_sentences()] for x, n in [case[:2]] for i, a in enumerate(case)]),
     "What stands behind the words means nothing, and may be any numbers. Let it differ from "
     "zero."),
    ("words of zeros", _without(0, torch.zeros_like),
     "The words are zero here, so nobody sees whether they are read."),
    ("only whether padding counts", _padding_is_nothing,
     "That finds who reads the padding. It does not find what is wrong with the real words."),
    ("only whether sentences together are as alone", _alone_as_together,
     "That finds who takes the wrong place, or another's state. What is wrong with a single "
     "sentence is wrong both times: compare with numbers that you know to be right."),
    ("only the range", lambda reader: bool((reader(*_sentences()).abs() <= 1).all()),
     "Whatever comes out of a tanh lies between -1 and 1. Compare with numbers that you know to be "
     "right."),
    ("equal to the last bit",
     lambda reader: torch.equal(reader(*_sentences()), last_states(*_sentences())),
     "Sums that are taken in another order differ in their last bits, and are as right. Compare "
     "with allclose."),
    ("compared too loosely",
     lambda reader: (
         reader(*_sentences()).shape == (3, 4)
         and torch.allclose(reader(*_sentences()), last_states(*_sentences()), atol=1.0)
     ),
     "All states lie between -1 and 1: differences below 1 say nothing. Allow for rounding alone."),
    ("only sentences of one word, without padding",
     lambda reader: _reads_right(reader, _sentences((1, 1, 1), 0)),
     "A single word meets the first state alone: whether a state is carried on, and which place is "
     "taken, shows with more."),
    ("only whether word by word is as all at once", _step_by_step,
     "What is wrong in every step is wrong both times: compare with numbers that you know to be "
     "right."),
    ("U is zero", _without(4, torch.zeros_like),
     "With a U of zeros nobody sees whether the old state is carried on, nor which way U is "
     "multiplied."),
    ("only whether the faulty one gives something else",
     lambda reader: not torch.allclose(
         reader(*_sentences()), READERS["the faulty one of 2.2"](*_sentences()), atol=1e-5
     ),
     "What differs from the faulty one may be wrong in another way. Compare with what is right."),
    *((f"differences without their size taken, {what} is right",
       lambda reader, sign=sign: (
           reader(*_sentences()).shape == (3, 4)
           and bool((sign * (reader(*_sentences()) - last_states(*_sentences())) < 1e-5).all())
       ),
       "A number may be wrong in both directions: take the size of the difference, `.abs()`.")
      for sign, what in ((1, "so that what is too low"), (-1, "so that what is too high"))),
    *((f"compared with the last position, where the {which} sentence fills its row",
       lambda reader, lengths=lengths: _reads_right(
           reader, _sentences(lengths, behind=0), last_states_with(pick=last_place)
       ),
       "At the last position of a short sentence the net has read padding. What you compare with "
       "must be the state after the last word.")
      for which, lengths in (("first", (4, 2, 3)), ("last", (2, 3, 4)))),
    ("only the last sentence looked at",
     lambda reader: torch.allclose(
         reader(*_sentences())[-1:], last_states(*_sentences())[-1:], atol=1e-5
     ),
     "What belongs to the last sentence may have been taken for all. Compare all of them."),
    ("only the first sentence looked at",
     lambda reader: torch.allclose(
         reader(*_sentences())[:1], last_states(*_sentences())[:1], atol=1e-5
     ),
     "What belongs to the first sentence may have been taken for all. Compare all of them."),
)  # fmt: skip

# 2.5: layers until the first word is seen


def layers_needed(n: int, k: int, dilated: bool) -> int:
    if k <= 1:  # `check` tries other input, too: the loop would not end
        raise ValueError(f"k: expected at least 2, got {k}")
    if not dilated:
        return -(-(n - 1) // (k - 1))
    layers = 0
    while k**layers < n:
        layers += 1
    return layers


def layers_with(
    contiguous: Callable[[int, int], float], dilated: Callable[[int, int], float]
) -> Callable[[int, int, bool], int]:
    return lambda n, k, holes: int(dilated(n, k) if holes else contiguous(n, k))


def right_contiguous(n: int, k: int) -> int:
    return layers_needed(n, k, False)


def right_dilated(n: int, k: int) -> int:
    return layers_needed(n, k, True)


def doubled(n: int, k: int) -> int:
    """Layers needed when the gaps are 1, 2, 4, ..."""
    layers = 0
    while 1 + (k - 1) * (2**layers - 1) < n:
        layers += 1
    return layers


def added_gaps(n: int, k: int) -> int:
    """Layers needed when the gaps are 1, 2, 3, ..."""
    layers = 0
    while 1 + (k - 1) * layers * (layers + 1) // 2 < n:
        layers += 1
    return layers


def added_k(n: int, k: int) -> int:
    """Layers needed when the gaps are 1, k, 2 k, 3 k, ..."""
    layers, reach = 0, 1
    while reach < n:
        reach += (k - 1) * max(1, layers * k)
        layers += 1
    return layers


def _more_than(n: int, k: int) -> int:
    """Layers until more than n words are seen."""
    return right_dilated(n + 1, k)


def halves(n: int, k: int) -> int:
    """Layers needed when half of each window looks back, with gaps of 1, k, k**2, ..."""
    layers, reach = 0, 0
    while reach < n - 1:
        reach += max((k - 1) // 2, 1) * k**layers
        layers += 1
    return layers


DEPTH_PAIRS = mistakes(
    ("windows around the word, of which half looks back",
     layers_with(lambda n, k: math.ceil((n - 1) / max((k - 1) // 2, 1)), halves),
     "These windows end at the word: all k - 1 others stand before it."),
    *combined(lambda contiguous=right_contiguous, dilated=right_dilated: (
        layers_with(contiguous, dilated)), [
        ("n words to cross, not n - 1", {"contiguous": lambda n, k: math.ceil(n / (k - 1))},
         "The last word sees itself for nothing."),
        ("each layer adds k words", {"contiguous": lambda n, k: math.ceil((n - 1) / k)},
         "A window of k words holds the word itself and k - 1 new ones."),
        ("windows side by side", {"contiguous": lambda n, k: math.ceil(n / k)},
         "Each layer adds k - 1 words."),
        ("rounded down where contiguous", {"contiguous": lambda n, k: (n - 1) // (k - 1)},
         "If words are left over, one more layer is needed."),
        ("one too many where contiguous", {"contiguous": lambda n, k: right_contiguous(n, k) + 1},
         "1 + L (k - 1) words are seen after L layers."),
        ("a rounded logarithm",
         {"dilated": lambda n, k: math.ceil(math.log(n) / math.log(k))},
         "Logarithms are not exact: count up in whole numbers."),
        ("the logarithm rounded down",
         {"dilated": lambda n, k: int(math.log(n) / math.log(k))},
         "If words are left over, one more layer is needed. And logarithms are not exact."),
        ("the logarithm to base 2", {"dilated": lambda n, k: (n - 1).bit_length()},
         "Each layer multiplies the reach by k."),
        ("gaps that double", {"dilated": doubled}, "The gaps grow by the factor k."),
        ("the dilation ignored", {"dilated": right_contiguous},
         "With dilations the reach is multiplied by k at every layer."),
    ], but=[
        ("rounded down where contiguous", "the logarithm rounded down"),
        ("n words to cross, not n - 1", "a rounded logarithm"),
    ]),
    ("one layer too many where n words are reached exactly", layers_with(
        lambda n, k: (n - 1) // (k - 1) + (n > 1), lambda n, k: _more_than(n, k) * (n > 1)),
     "It is enough that the layers reach n words: `< n` in the loop, and not `<= n`."),
    ("one layer too many where n words are reached exactly, for contiguous windows",
     layers_with(lambda n, k: (n - 1) // (k - 1) + (n > 1), right_dilated),
     "It is enough that the layers reach n words: the last one sees itself for nothing, so that "
     "n - 1 are divided by k - 1, and rounded up."),
    ("one layer too many where n words are reached exactly, with dilations",
     layers_with(right_contiguous, lambda n, k: _more_than(n, k) * (n > 1)),
     "It is enough that the layers reach n words: `< n` in the loop, and not `<= n`."),
    ("n - 1 words counted where the reach is multiplied",
     layers_with(right_contiguous, lambda n, k: right_dilated(n - 1, k)),
     "After L layers k^L words are seen, the last one among them: it is n that must be reached."),
    ("gaps of 1, k, 2 k, 3 k", layers_with(right_contiguous, added_k),
     "Here the gaps grow by the factor k from layer to layer: 1, k, k**2, ..."),
    ("each layer adds k words, and rounded down where contiguous",
     layers_with(lambda n, k: (n - 1) // k, right_dilated),
     "A window of k words holds the word itself and k - 1 new ones; and if words are left over, "
     "one more layer is needed."),
    ("one layer too many with dilations", layers_with(
        right_contiguous, lambda n, k: right_dilated(n, k) + (n > 1)),
     "After L layers k^L words are seen: the smallest L for which that reaches n."),
    ("the logarithm rounded down, and one added",
     layers_with(right_contiguous, lambda n, k: int(math.log(n, k)) + 1),
     "Where n is a power of k, nothing is left over, and one more layer is one too many."),
)  # fmt: skip


def whole(output: object) -> object:
    return int(output) if isinstance(output, float) and output.is_integer() else output


def _first_layers(enough: Callable[[int], bool]) -> int:
    """The smallest number of layers that is enough."""
    return next(i for i in range(2000) if enough(i))


DEPTH_MISTAKES = mistakes(
    ("dilations for contiguous windows as well", layers_with(right_dilated, right_dilated),
     "With `dilated` false all gaps are 1, and each layer adds k - 1 words."),
    ("at least one layer where windows are dilated",
     layers_with(right_contiguous, lambda n, k: max(1, right_dilated(n, k))),
     "A single word sees itself without any layer."),
    ("one more than the logarithm rounded down",
     layers_with(right_contiguous, lambda n, k: int(math.log(n, k)) + 1 if n > 1 else 0),
     "L layers see k ** L words, so that L are enough for just as many: round up, and do not add "
     "1 to what was rounded down."),
    ("k times the number of layers in place of the power",
     layers_with(right_contiguous, lambda n, k: -(-n // k)),
     "Each dilated layer multiplies the reach by k: k ** layers."),
    ("the layers to the power of k",
     layers_with(right_contiguous, lambda n, k: _first_layers(lambda i: i**k >= n)),
     "Each dilated layer multiplies the reach by k: k ** layers, and not layers ** k."),
    ("the natural logarithm",
     layers_with(right_contiguous, lambda n, k: math.ceil(math.log(n) - 1e-9)),
     "Each dilated layer multiplies the reach by k: the logarithm has the base k."),
    ("each layer adds one word", layers_with(lambda n, k: n - 1, right_dilated),
     "A window of k words adds k - 1 words: divide n - 1 by that."),
    ("each layer adds one word, or one for each place of its gap", layers_with(
        lambda n, k: n - 1,
        lambda n, k: _first_layers(lambda i: 1 + sum(k**j for j in range(i)) >= n)),
     "A window of k words adds k - 1 words, or k - 1 gaps."),
    ("each layer adds k + 1 words", layers_with(lambda n, k: -(-(n - 1) // (k + 1)), right_dilated),
     "A window of k words holds the word itself and k - 1 new ones."),
    ("each layer adds k + 1 words, or k + 1 gaps", layers_with(
        lambda n, k: -(-(n - 1) // (k + 1)),
        lambda n, k: _first_layers(lambda i: 1 + sum((k + 1) * k**j for j in range(i)) >= n)),
     "A window of k words holds the word itself and k - 1 new ones."),
    ("n + 1 words to cross", layers_with(lambda n, k: -(-(n + 1) // (k - 1)), right_dilated),
     "The last word sees itself for nothing: n - 1 others are left."),
    ("multiplied by k - 1, not divided",
     layers_with(lambda n, k: (n - 1) * (k - 1), right_dilated),
     "Each layer adds k - 1 words: n - 1 are *divided* by that."),
    ("no layers at all", lambda n, k, dilated: 0,
     "Are the layers counted, and does the loop go on as long as fewer than n words are seen?"),
    ("no layers where windows are dilated", layers_with(right_contiguous, lambda n, k: 0),
     "Are the layers counted, and does the loop go on as long as fewer than n words are seen?"),
    ("one layer for all but a single word", lambda n, k, dilated: int(n > 1),
     "Each time round the loop there is one layer *more*."),
    ("gaps of 1 and then of k alone", layers_with(right_contiguous, lambda n, k: _first_layers(
        lambda i: 1 + (k - 1) * sum(k if j else 1 for j in range(i)) >= n)),
     "The gaps grow by the factor k at every layer: 1, k, k**2, ..."),
    ("counts n words to cross, not n - 1",
     layers_with(lambda n, k: math.ceil(n / (k - 1)), right_dilated),
     "The last word sees itself for nothing: n - 1 others are left."),
    ("each layer adds k words", layers_with(lambda n, k: math.ceil((n - 1) / k), right_dilated),
     "A window of k words holds the word itself and k - 1 new ones."),
    ("windows side by side", layers_with(lambda n, k: math.ceil(n / k), right_dilated),
     "Windows of stacked layers overlap by one word, so each layer adds k - 1 words."),
    ("rounds down",
     layers_with(lambda n, k: (n - 1) // (k - 1), lambda n, k: right_dilated(n + 1, k) - 1),
     "If words are left over, one more layer is needed: round up."),
    ("trusts a rounded logarithm",
     layers_with(right_contiguous, lambda n, k: math.ceil(math.log(n) / math.log(k))),
     "log(125) / log(5) comes out a little above 3, and rounding up makes 4. Multiply whole "
     "numbers until n is reached."),
    ("rounds down and adds one, and a rounded logarithm",
     layers_with(lambda n, k: (n - 1) // (k - 1) + 1, lambda n, k: math.ceil(math.log(n, k))),
     "Where n - 1 is a multiple of k - 1 that is one layer too many: round up. And logarithms are "
     "not exact: count up in whole numbers."),
    ("takes the logarithm to base 2",
     layers_with(right_contiguous, lambda n, k: (n - 1).bit_length()),
     "With dilations 1, k, k**2, ... each layer multiplies the reach by k: base k."),
    ("gaps that double", layers_with(right_contiguous, doubled),
     "Here the gaps grow by the factor k from layer to layer: 1, k, k**2, ..."),
    ("goes on until more than n words are seen",
     layers_with(lambda n, k: right_contiguous(n + 1, k), lambda n, k: right_dilated(n + 1, k)),
     "n words are enough: compare with < n, not with <= n."),
    ("one layer for a single word where windows are contiguous",
     layers_with(lambda n, k: max(1, right_contiguous(n, k)), right_dilated),
     "A single word sees itself without any layer."),
    ("one layer too few", lambda n, k, dilated: layers_needed(n, k, dilated) - 1,
     "After so many layers the last word does not see the first yet."),
    ("one layer too few, and none below 0",
     lambda n, k, dilated: max(0, layers_needed(n, k, dilated) - 1),
     "After so many layers the last word does not see the first yet."),
    ("goes on until n - 1 words are seen",
     lambda n, k, dilated: layers_needed(max(n - 1, 1), k, dilated),
     "All n words are to be seen: compare with < n."),
    ("a whole window seen before the first layer",
     layers_with(lambda n, k: max(0, right_contiguous(n, k) - 1), lambda n, k: _first_layers(
         lambda i: k - 1 + k**i >= n)),
     "Before the first layer a word sees itself alone: begin with 1, not with k."),
    ("windows to both sides",
     layers_with(lambda n, k: -(-(n - 1) // (2 * (k - 1))), lambda n, k: _first_layers(
         lambda i: 1 + 2 * (k**i - 1) >= n)),
     "A layer adds k - 1 words, all of them before the word."),
    ("windows to both sides, where they are contiguous",
     layers_with(lambda n, k: -(-(n - 1) // (2 * (k - 1))), right_dilated),
     "A window holds k words in all: the word itself and k - 1 new ones."),
    ("the logarithm rounded down",
     layers_with(right_contiguous, lambda n, k: right_dilated(n + 1, k) - 1),
     "If words are left over, one more layer is needed: round up."),
    ("one layer for a single word", lambda n, k, dilated: max(1, layers_needed(n, k, dilated)),
     "A single word sees itself without any layer."),
    ("the two cases are swapped", lambda n, k, dilated: layers_needed(n, k, not dilated),
     "With `dilated` true the reach is multiplied, with false it is added to."),
    ("ignores the dilation", layers_with(right_contiguous, right_contiguous),
     "With dilations the reach is multiplied by k at every layer."),
    ("one layer too many",
     layers_with(lambda n, k: right_contiguous(n, k) + 1, lambda n, k: right_dilated(n, k) + 1),
     "A single word needs no layer at all to see itself; k words need one."),
    ("rounds to the nearest whole number",
     layers_with(
         lambda n, k: round((n - 1) / (k - 1)),
         lambda n, k: round(math.log(n) / math.log(k)),
     ),
     "If words are left over, one more layer is needed: round up."),
    ("rounds to the nearest whole number where windows are dilated",
     layers_with(right_contiguous, lambda n, k: round(math.log(n) / math.log(k))),
     "If words are left over, one more layer is needed: round up, or count layers until k**layers "
     "is at least n."),
    ("rounds to the nearest whole number where windows are contiguous",
     layers_with(lambda n, k: round((n - 1) / (k - 1)), right_dilated),
     "If words are left over, one more layer is needed: round up."),
    ("rounds down where windows are contiguous",
     layers_with(lambda n, k: (n - 1) // (k - 1), right_dilated),
     "If words are left over, one more layer is needed: round up."),
    ("gaps of 1, 2, 3", layers_with(right_contiguous, added_gaps),
     "Here the gaps grow by the factor k from layer to layer: 1, k, k**2, ..."),
    ("rounds down, with a rounded logarithm",
     layers_with(lambda n, k: (n - 1) // (k - 1), lambda n, k: int(math.log(n) / math.log(k))),
     "If words are left over, one more layer is needed: round up. And logarithms are not exact: "
     "count up in whole numbers."),
    ("half a window", layers_with(lambda n, k: math.ceil((n - 1) / (k // 2)), right_dilated),
     "Counted is how far back the whole window reaches, k - 1 words: here every layer was given "
     "half of it."),
    ("goes on until more than n words are seen, where windows are dilated",
     layers_with(right_contiguous, lambda n, k: right_dilated(n + 1, k)),
     "n words are enough: compare with < n, not with <= n."),
    ("each layer adds k words, counted from the first",
     layers_with(lambda n, k: math.ceil((n - 1) / k), lambda n, k: next(
         i for i in range(99) if 1 + sum(k * k**j for j in range(i)) >= n)),
     "A window of k words holds the word itself and k - 1 new ones."),
    ("how far is seen, in place of the number of layers",
     layers_with(lambda n, k: 1 + (k - 1) * right_contiguous(n, k),
                 lambda n, k: k ** right_dilated(n, k)),
     "Asked for is how many layers it takes, not how many words they see."),
    ("not rounded", lambda n, k, dilated: math.log(n, k) if dilated else (n - 1) / (k - 1),
     "There is no part of a layer: if words are left over, one more is needed."),
    ("gaps that grow by the factor k - 1", layers_with(right_contiguous, lambda n, k: next(
        i for i in range(9999) if 1 + (k - 1) * sum((k - 1) ** j for j in range(i)) >= n)),
     "Here the gaps grow by the factor k from layer to layer: 1, k, k**2, ..."),
    ("a first gap of k", layers_with(right_contiguous, lambda n, k: next(
        i for i in range(99) if 1 + (k - 1) * sum(k ** (j + 1) for j in range(i)) >= n)),
     "The first layer has the dilation 1: its words stand side by side."),
    ("half of each contiguous window looks ahead", layers_with(
        lambda n, k: math.ceil(2 * (n - 1) / (k - 1)), right_dilated),
     "The windows reach to one side only: each layer adds k - 1 words, as in the example."),
    ("too few dilated layers where n is little above a power of k", layers_with(
        right_contiguous, lambda n, k: _first_layers(lambda i: n // k**i <= 1)),
     "L dilated layers see k ** L words, and no more. (Is it n // k, which forgets the words left "
     "over? Or a sum such as 1 + k + k**2, which counts more words than are seen?)"),
    ("whole windows counted", layers_with(lambda n, k: n // k, right_dilated),
     "Windows of stacked layers overlap, so each layer adds k - 1 words; and what is left over "
     "takes one more."),
)  # fmt: skip

# 2.6: what a layer multiplies


def multiply_adds(layer: str, n: int, d: int, k: int) -> int:
    counts = {"self-attention": 2 * n * n * d, "recurrent": 2 * n * d * d}
    return {**counts, "convolutional": k * n * d * d}[layer]


def counting(**wrong: Callable[[int, int, int], int]) -> Callable[[str, int, int, int], int]:
    """As `multiply_adds`, but for the layers named: self_attention, recurrent, convolutional."""

    def count(layer: str, n: int, d: int, k: int) -> int:
        formula = wrong.get(layer.replace("-", "_"))
        return formula(n, d, k) if formula else multiply_adds(layer, n, d, k)

    return count


COUNTS = {
    "self_attention": ("self-attention", "Its two products are of n x n pairs and d entries."),
    "recurrent": ("the recurrent layer", "Each of n steps makes two products, of d x d."),
    "convolutional": ("the convolution", "Each of n windows of k words meets a matrix for each."),
}
COUNT_PAIRS = mistakes(
    *((name, counting(self_attention=count),
       "The second product mixes the rows: each of n * n weights multiplies a row of d numbers.")
      for name, count in (
          ("mixing the rows taken to be one multiplication for each pair",
           lambda n, d, k: n * n * d + n * n),
          ("mixing the rows taken to be one multiplication for each word",
           lambda n, d, k: n * n * d + n),
      )),
    ("the softmax counted", counting(self_attention=lambda n, d, k: 2 * n * n * d + n * n),
     "Only products are counted; softmax, tanh and biases are not."),
    ("d squared for self-attention", counting(self_attention=lambda n, d, k: 2 * n * n * d * d),
     "A dot product of two words has d products, and not d * d: no matrix stands between them."),
    ("pairs of different words alone", counting(self_attention=lambda n, d, k: 2 * n * (n - 1) * d),
     "A word is compared with itself, too: n * n pairs."),
    ("each pair of words once", counting(self_attention=lambda n, d, k: n * (n - 1) * d),
     "Every word looks at all n words, and there are two products: 2 * n * n * d."),
    ("three products of all pairs", counting(self_attention=lambda n, d, k: 3 * n * n * d),
     "There are two: all pairs are compared, and all rows are mixed."),
    ("one product with the square of n, one with that of d",
     counting(self_attention=lambda n, d, k: n * n * d + n * d * d),
     "Both products are of n x n pairs and d entries."),
    ("the width taken to be n where rows are mixed",
     counting(self_attention=lambda n, d, k: n * n * d + n**3),
     "The weights, (n, n), meet values of (n, d): the second product costs n * n * d as well."),
    ("the word's product at every step, the state's once",
     counting(recurrent=lambda n, d, k: n * d * d + d * d),
     "Each of n steps makes both products, x W and h U."),
    ("a separable convolution", counting(convolutional=lambda n, d, k: n * (k * d + d * d)),
     "Every output channel reads every input channel at each of the k words: k * d * d."),
    *(("multiplications and additions counted apart, for "
       + " and ".join(COUNTS[layer][0] for layer in layers),
       counting(**{layer: lambda n, d, k, layer=layer: (
           2 * multiply_adds(layer.replace("_", "-"), n, d, k)) for layer in layers}),
       "A multiplication and the addition behind it are *one* multiply-add. (Or is a product "
       f"counted twice?) {' '.join(COUNTS[layer][1] for layer in layers)}")
      for layers in (("self_attention",), ("self_attention", "recurrent"),
                     ("self_attention", "convolutional"), ("recurrent", "convolutional"))),
    ("self-attention without pairs", counting(self_attention=lambda n, d, k: 2 * n * d),
     "Every word is compared with every other: n * n pairs."),
    ("self-attention without the width", counting(self_attention=lambda n, d, k: 2 * n * n),
     "Each pair costs d multiplications, in each of two products."),
    ("the recurrent layer without matrices", counting(recurrent=lambda n, d, k: 2 * n * d),
     "A row of d times a matrix of d x d takes d * d multiply-adds."),
    ("the convolution doubled", counting(convolutional=lambda n, d, k: 2 * n * k * d * d),
     "Each of n windows costs k * d * d multiply-adds, once."),
    ("one position fewer for each layer of the window",
     counting(convolutional=lambda n, d, k: k * (n - k) * d * d),
     "The layer gives n words for n words; where the window sticks out, it is padded."),
    *combined(lambda **wrong: counting(**wrong), [
        ("self-attention with one product", {"self_attention": lambda n, d, k: n * n * d},
         "All pairs are compared, and then all rows are mixed."),
        ("self-attention with the square of d", {"self_attention": lambda n, d, k: 2 * n * d * d},
         "Each of n * n pairs costs d multiplications, twice."),
        ("projections counted", {"self_attention": lambda n, d, k: 2 * n * n * d + 4 * n * d * d},
         "Only what mixes the words is counted."),
        ("three projections counted",
         {"self_attention": lambda n, d, k: 2 * n * n * d + 3 * n * d * d},
         "Only what mixes the words is counted."),
        ("the recurrent layer with one product", {"recurrent": lambda n, d, k: n * d * d},
         "Each step makes two: x W and h U."),
        ("one step of the recurrent layer", {"recurrent": lambda n, d, k: 2 * d * d},
         "The layer reads n words."),
        ("the recurrent layer with four gates", {"recurrent": lambda n, d, k: 8 * n * d * d},
         "The plain net has one W and one U."),
        ("the convolution's width missing", {"convolutional": lambda n, d, k: n * d * d},
         "Each output word is made from k input words."),
        ("the convolution channel by channel", {"convolutional": lambda n, d, k: k * n * d},
         "Every channel reads every channel: d * d."),
        ("only the positions where the window fits",
         {"convolutional": lambda n, d, k: k * (n - k + 1) * d * d},
         "The layer gives n words for n words."),
        ("one position of the convolution", {"convolutional": lambda n, d, k: k * d * d},
         "The layer makes n words."),
    ], but=[("self-attention with one product", "the recurrent layer with one product")]),
    ("the window counted in the recurrent layer",
     counting(recurrent=lambda n, d, k: 2 * n * k * d * d),
     "A recurrent layer has no window: each step reads one word and one state."),
    ("the numbers that a layer learns", counting(
        self_attention=lambda n, d, k: 0, recurrent=lambda n, d, k: 2 * d * d,
        convolutional=lambda n, d, k: k * d * d),
     "Those are the parameters. They are used at each of the n words; and self-attention "
     "multiplies words with each other, though it learns nothing here."),
)  # fmt: skip

COUNT_MISTAKES = mistakes(
    *(
        (f"{right} counted as {COUNTS[other][0]}", counting(**{
            layer: lambda n, d, k, other=other: (
                multiply_adds(other.replace("_", "-"), n, d, k))}),
         f"Each layer has its own count: is the right branch taken? {why}")
        for layer, (right, why) in COUNTS.items()
        for other in COUNTS if other != layer and "convolutional" in (layer, other)
    ),
    *(
        (f"{COUNTS[one][0]} and {COUNTS[two][0]} exchanged", counting(**{
            a: lambda n, d, k, b=b: multiply_adds(b.replace("_", "-"), n, d, k)
            for a, b in ((one, two), (two, one))}),
         f"Is the right branch taken? {COUNTS[one][1]} {COUNTS[two][1]}")
        for one, two in combinations(COUNTS, 2)
    ),
    ("every layer counted as self-attention", lambda layer, n, d, k: 2 * n * n * d,
     "Each layer has its own count: is the right branch taken?"),
    ("every layer counted as the recurrent one", lambda layer, n, d, k: 2 * n * d * d,
     "Each layer has its own count: is the right branch taken?"),
    ("every layer counted as the convolution", lambda layer, n, d, k: k * n * d * d,
     "Each layer has its own count: is the right branch taken?"),
    ("one matrix alone, for the recurrent layer", counting(recurrent=lambda n, d, k: d * d),
     "Each of n steps makes two products: x W and h U."),
    ("one matrix alone, for the convolution", counting(convolutional=lambda n, d, k: d * d),
     "Each of n windows has k words, and a matrix for each."),
    ("the pairs alone, for self-attention", counting(self_attention=lambda n, d, k: n * n),
     "For each pair of words d numbers are multiplied, in each of the two products."),
    ("one projection counted, for self-attention",
     counting(self_attention=lambda n, d, k: 2 * n * n * d + n * d * d),
     "`mix` has two products and no projection: queries, keys and values are the words."),
    ("the words alone, for self-attention", counting(self_attention=lambda n, d, k: n * d),
     "Every word is compared with every other: n * n pairs, each of d products, and twice."),
    ("d doubled, not squared, for the recurrent layer",
     counting(recurrent=lambda n, d, k: 4 * n * d), "`d ** 2` squares, `d * 2` doubles."),
    ("d doubled, not squared, for the convolution",
     counting(convolutional=lambda n, d, k: 2 * k * n * d), "`d ** 2` squares, `d * 2` doubles."),
    ("n doubled, not squared, for self-attention",
     counting(self_attention=lambda n, d, k: 4 * n * d), "`n ** 2` squares, `n * 2` doubles."),
    ("the two products of self-attention subtracted", counting(self_attention=lambda n, d, k: 0),
     "There are two products, and both are counted: they are added."),
    ("the two products of the recurrent layer subtracted", counting(recurrent=lambda n, d, k: 0),
     "There are two products, and both are counted: they are added."),
    ("the entries of Table 1, without their constants",
     counting(self_attention=lambda n, d, k: n * n * d, recurrent=lambda n, d, k: n * d * d),
     "O(...) hides constants. Self-attention and recurrence make two products each."),
    ("only the positions where the window fits",
     counting(convolutional=lambda n, d, k: k * (n - k + 1) * d * d),
     "The layer gives n words for n words; where the window sticks out, it is padded."),
    ("one step of the recurrent layer", counting(recurrent=lambda n, d, k: 2 * d * d),
     "The layer reads n words, and each costs two products."),
    ("self-attention counted with one product", counting(self_attention=lambda n, d, k: n * n * d),
     "There are two: all pairs of words are compared, and then all rows are mixed."),
    ("self-attention grows with the square of d",
     counting(self_attention=lambda n, d, k: 2 * n * d * d),
     "Each of n * n pairs of words costs d multiplications, in each of two products."),
    ("the recurrent layer counted with one product", counting(recurrent=lambda n, d, k: n * d * d),
     "Each step makes two: x W and h U."),
    ("the recurrent layer grows with the square of n",
     counting(recurrent=lambda n, d, k: 2 * n * n * d),
     "Each of n steps multiplies two vectors of width d by d x d matrices."),
    ("the convolution's width is missing", counting(convolutional=lambda n, d, k: n * d * d),
     "Each output word is made from k input words."),
    ("the convolution counted channel by channel",
     counting(convolutional=lambda n, d, k: k * n * d),
     "Every output channel reads every input channel, which makes d * d. (One that does not is "
     "called separable.)"),
    ("multiplications and additions counted apart",
     lambda layer, n, d, k: 2 * multiply_adds(layer, n, d, k),
     "A multiplication together with its addition counts as one here."),
    ("projections are counted too",
     counting(self_attention=lambda n, d, k: 2 * n * n * d + 4 * n * d * d),
     "A real attention layer has them. Here only what mixes the words is counted."),
    ("three projections are counted too",
     counting(self_attention=lambda n, d, k: 2 * n * n * d + 3 * n * d * d),
     "A real attention layer has them. Here only what mixes the words is counted."),
    ("one position of the convolution", counting(convolutional=lambda n, d, k: k * d * d),
     "The layer makes n words, and each costs k * d * d."),
    ("the convolution's width squared", counting(convolutional=lambda n, d, k: k * k * n * d * d),
     "A sentence has one direction: the window is k words, not k times k."),
    ("the recurrent layer with three gates", counting(recurrent=lambda n, d, k: 6 * n * d * d),
     "That is a GRU. The plain net has one W and one U."),
    ("the recurrent layer with four gates", counting(recurrent=lambda n, d, k: 8 * n * d * d),
     "That is an LSTM. The plain net has one W and one U."),
    ("the first word's state not multiplied",
     counting(recurrent=lambda n, d, k: (2 * n - 1) * d * d),
     "The first word meets a state as well, and the layer multiplies it."),
    ("self-attention in a window", counting(self_attention=lambda n, d, k: 2 * n * k * d),
     "Every word looks at all n words. The window k belongs to the convolution."),
    ("the biases counted", counting(recurrent=lambda n, d, k: n * (2 * d * d + d)),
     "Biases are not counted."),
    ("only earlier words looked at, or mixing the rows taken to be one multiplication for each "
     "number", counting(self_attention=lambda n, d, k: n * (n + 1) * d),
     "In this layer every word looks at all n words, those behind it, too. And mixing the rows "
     "costs n * n * d again: each of n * n weights multiplies a row of d numbers."),
    ("biases counted", counting(
        recurrent=lambda n, d, k: 2 * n * d * d + n * d,
        convolutional=lambda n, d, k: k * n * d * d + n * d),
     "Biases are not counted."),
    ("two biases of the recurrent layer counted",
     counting(recurrent=lambda n, d, k: 2 * n * d * d + 2 * n * d), "Biases are not counted."),
    ("the bias of the convolution counted",
     counting(convolutional=lambda n, d, k: k * n * d * d + n * d), "Biases are not counted."),
    ("half of the scores, since they are symmetric",
     counting(self_attention=lambda n, d, k: n * (n + 1) // 2 * d + n * n * d),
     "Scores of words with themselves are symmetric, and could be had for half; counted is the "
     "product as `mix` does it, all n x n pairs."),
    ("one step fewer than words", counting(recurrent=lambda n, d, k: 2 * (n - 1) * d * d),
     "Every word is read, the first one, too: n steps."),
    ("one matrix for word and state side by side, and as wide",
     counting(recurrent=lambda n, d, k: 4 * n * d * d),
     "[x; h] has 2 d entries, and the new state d: a matrix of 2 d x d. (Or are multiplications "
     "and additions counted apart? The two are one multiply-add.)"),
    ("the recurrent layer with the squares of both",
     counting(recurrent=lambda n, d, k: 2 * n * n * d * d),
     "Each of n steps makes two products of a row and a d x d matrix: n d^2, twice."),
)  # fmt: skip

# 2.7: three norms, to be predicted

PREDICTED = [">", "=", "<"]
WRONG_PICTURES = [
    {
        "=": ("the gain left out",
              "(a) An orthogonal matrix keeps every length, and 1.1 times it does not. Without a "
              "tanh every step stretches by 1.1, and fifty steps by 1.1 to the power of 50."),
        "<": ("shrinking without a tanh",
              "(a) Only the slopes of tanh make a gradient vanish at a gain of 1.1. This net has "
              "none, and every step stretches by 1.1."),
    },
    {
        "<": ("tanh taken to shrink always",
              "(b) The slope of tanh is 1 - h^2. With nothing to read the state stays 0, where "
              "the slope is 1, and an orthogonal U keeps every length."),
        ">": ("growth without a cause",
              "(b) The bound (2.9) is 1 here: nothing can grow."),
    },
    {
        ">": ("a large gain taken to be enough",
              "(c) Large inputs drive the states close to 1 and -1, where the slope 1 - h^2 is "
              "nearly 0. The gain is the same in every step, but the slopes win."),
        "=": ("a balance of gain and slopes, which nothing keeps",
              "(c) To balance a gain of 1.5 every slope would have to be 1 / 1.5. The states are "
              "made of the words: large ones drive them close to 1 and -1, where the slope is far "
              "smaller."),
    },
]  # fmt: skip


# 2.8: the far gradient of a gated net of one number


def far_gradient(x: Tensor, h: float, w: float, u: float, z: float) -> float:
    return gated_gradient(lambda n, h, w, u, z: z + (1 - z) * u * (1 - n**2))(x, h, w, u, z)


def gated_gradient(
    factor: Callable[[float, float, float, float, float], float],
    join: Callable[[list[float]], float] = math.prod,
    carried: bool = True,
) -> Callable[..., float]:
    """The factors of all steps, `factor(candidate, new state, w, u, z)`, joined."""

    def gradient(x: Tensor, h: float, w: float, u: float, z: float) -> float:
        factors = []
        for word in x.tolist():
            n = math.tanh(w * word + u * h)
            new = z * h + (1 - z) * n
            factors.append(factor(n, new, w, u, z))
            h = new if carried else h
        return join(factors)

    return gradient


def far_cases() -> list[tuple]:
    g = torch.Generator().manual_seed(28)
    cases = [(torch.tensor([0.0]), 0.0, 1.0, 0.5, 0.8)]
    for T, h, w, u, z in (
        (4, 0.3, 0.7, 1.3, 0.6), (7, -0.5, 1.2, -0.8, 0.9), (3, 0.8, 0.5, 1.6, 0.0),
        (6, 0.1, -0.9, 2.0, 0.25), (3, 0.2, 0.3, -2.5, 0.1), (1, -0.7, 0.4, 0.9, 0.5),
    ):  # fmt: skip
        cases.append((torch.randn(T, generator=g), h, w, u, z))
    return cases


def _at_the_old_state(x: Tensor, h: float, w: float, u: float, z: float) -> float:
    slope = 1.0
    for word in x.tolist():
        slope *= z + (1 - z) * u * (1 - h**2)
        h = z * h + (1 - z) * math.tanh(w * word + u * h)
    return slope


def _gate_turned(x: Tensor, h: float, w: float, u: float, z: float) -> float:
    return far_gradient(x, h, w, u, 1 - z)


def _turned_in_the_state(x: Tensor, h: float, w: float, u: float, z: float) -> float:
    slope = 1.0
    for word in x.tolist():
        n = math.tanh(w * word + u * h)
        slope *= z + (1 - z) * u * (1 - n**2)
        h = (1 - z) * h + z * n
    return slope


def _moved_on(x: Tensor, h: float, w: float, u: float, z: float) -> float:
    slope = 1.0
    for word in x.tolist():
        h = z * h + (1 - z) * math.tanh(w * word + u * h)
        slope *= z + (1 - z) * u * (1 - math.tanh(w * word + u * h) ** 2)
    return slope


def _of_words_alone(x: Tensor, h: float, w: float, u: float, z: float) -> float:
    return math.prod(z + (1 - z) * u * (1 - math.tanh(w * word) ** 2) for word in x.tolist())


def _candidate_carried(x: Tensor, h: float, w: float, u: float, z: float) -> float:
    slope = 1.0
    for word in x.tolist():
        h = math.tanh(w * word + u * h)
        slope *= z + (1 - z) * u * (1 - h**2)
    return slope


def _last_state(x: Tensor, h: float, w: float, u: float, z: float) -> float:
    for word in x.tolist():
        h = z * h + (1 - z) * math.tanh(w * word + u * h)
    return h


def _at_the_sum(x: Tensor, h: float, w: float, u: float, z: float) -> float:
    gradient = 1.0
    for word in x.tolist():
        inside = w * word + u * h
        gradient *= z + (1 - z) * u * (1 - inside**2)
        h = z * h + (1 - z) * math.tanh(inside)
    return gradient


def _whole_state_dropped(x: Tensor, h: float, w: float, u: float, z: float) -> float:
    factor = 1.0
    for word in x.tolist():
        n = math.tanh(w * word + u * h)
        factor *= z + (1 - z) * u * (1 - n**2)
        h = h + (1 - z) * n
    return factor


Inside = Callable[[float, float, float, float], float]


def _inside(w: float, word: float, u: float, h: float) -> float:
    return w * word + u * h


def far_of(
    move: Callable[[float, float, float], float] = lambda z, h, n: z * h + (1 - z) * n,
    in_state: Inside = _inside,
    in_slope: Inside = _inside,
    grow: Callable[..., float] = lambda d, z, u, n: d * (z + (1 - z) * u * (1 - n**2)),
) -> Callable[..., float]:
    """The derivative, with another state, another sum inside tanh, or another step of it."""

    def gradient(x: Tensor, h: float, w: float, u: float, z: float) -> float:
        d = 1.0
        for word in x.tolist():
            d = grow(d, z, u, math.tanh(in_slope(w, word, u, h)))
            h = move(z, h, math.tanh(in_state(w, word, u, h)))
        return d

    return gradient


FAR_STATES: dict[str, Callable[[float, float, float], float]] = {
    "the candidate subtracted": lambda z, h, n: z * h - (1 - z) * n,
    "the candidate left out": lambda z, h, n: z * h,
    "the old one left out": lambda z, h, n: (1 - z) * n,
    "the candidate in full": lambda z, h, n: z * h + n,
    "z of both": lambda z, h, n: z * h + z * n,
    "1 + z of the candidate": lambda z, h, n: z * h + (1 + z) * n,
    "2 - z of the candidate": lambda z, h, n: z * h + (2 - z) * n,
    "z in place of the old one's part": lambda z, h, n: z + (1 - z) * n,
    "1 - z in place of the candidate's part": lambda z, h, n: z * h + (1 - z),
    "no tanh": lambda z, h, n: z * h + (1 - z) * math.atanh(n),
}
FAR_SUMS: dict[str, Inside] = {
    "u h subtracted": lambda w, word, u, h: w * word - u * h,
    "the word left out": lambda w, word, u, h: u * h,
    "the old state left out": lambda w, word, u, h: w * word,
    "w left out": lambda w, word, u, h: word + u * h,
    "u left out": lambda w, word, u, h: w * word + h,
    "w without its word": lambda w, word, u, h: w + u * h,
    "u without the old state": lambda w, word, u, h: w * word + u,
}
FAR_STEPS: dict[str, Callable[..., float]] = {
    "1 + z of the road through the candidate": lambda d, z, u, n: (
        d * (z + (1 + z) * u * (1 - n**2))
    ),
    "2 - z of the road through the candidate": lambda d, z, u, n: (
        d * (z + (2 - z) * u * (1 - n**2))
    ),
    "z of the road through the candidate, subtracted": lambda d, z, u, n: (
        d * (z - z * u * (1 - n**2))
    ),
    "divided by u": lambda d, z, u, n: d * (z + (1 - z) / u * (1 - n**2)),
    "divided by the slope of tanh": lambda d, z, u, n: d * (z + (1 - z) * u / (1 - n**2)),
    "2 - n squared": lambda d, z, u, n: d * (z + (1 - z) * u * (2 - n**2)),
    "minus n squared": lambda d, z, u, n: d * (z - (1 - z) * u * n**2),
    "1 - 2 n": lambda d, z, u, n: d * (z + (1 - z) * u * (1 - 2 * n)),
    "twice cosh, not its square": lambda d, z, u, n: d * (z + (1 - z) * u * (1 - n**2) ** 0.5 / 2),
    "z not multiplied by the steps before": lambda d, z, u, n: z + (1 - z) * u * (1 - n**2) * d,
    "the road through the candidate not multiplied by the steps before": lambda d, z, u, n: (
        z * d + (1 - z) * u * (1 - n**2)
    ),
    "the slope of tanh on both roads": lambda d, z, u, n: d * (z + (1 - z) * u) * (1 - n**2),
    "the slope of tanh squared": lambda d, z, u, n: d * (z + (1 - z) * u * (1 - n**2) ** 2),
    "nothing but 1": lambda d, z, u, n: 1.0,
    "1 in place of the road through the candidate": lambda d, z, u, n: z * d + d,
}


def _far_by_autograd(move: Callable[[Any, Any, Any], Any]) -> Callable[..., float]:
    """What autograd gives where the state moves on otherwise."""

    def gradient(x: Tensor, h: float, w: float, u: float, z: float) -> float:
        first = torch.tensor(h, dtype=torch.float64, requires_grad=True)
        state = first
        for word in x.tolist():
            state = move(z, state, torch.tanh(w * word + u * state))
        return float(torch.autograd.grad(state, first)[0])

    return gradient


FAR_MORE = mistakes(
    *(
        (f"by autograd, the state goes on with {how}", _far_by_autograd(move),
         "The state moves on as h_t = z h_(t-1) + (1 - z) n_t.")
        for how, move in FAR_STATES.items()
        if how not in ("no tanh", "1 - z in place of the candidate's part",
                       "the candidate left out", "the old one left out",
                       "z in place of the old one's part")
    ),
    *(
        (f"the state goes on with {how}", far_of(move=move),
         "The factors depend on the states: h_t = z h_(t-1) + (1 - z) n_t.")
        for how, move in FAR_STATES.items()
    ),
    *(
        (f"inside tanh {how}{where}", far_of(**dict.fromkeys(places, inside)),
         "The candidate is n_t = tanh(w x_t + u h_(t-1)), in the state and in its slope.")
        for how, inside in FAR_SUMS.items()
        for where, places in (("", ("in_state", "in_slope")),
                              (", where the state moves on", ("in_state",)),
                              (", in the slope", ("in_slope",)))
        if (how != "the old state left out" or where == ", where the state moves on")
        and (how, where) != ("u without the old state", ", in the slope")  # which is all it does
    ),
    *(
        (f"in the factor {how}", far_of(grow=grow),
         "The factor of a step is z + (1 - z) u (1 - n_t^2), and the factors are multiplied.")
        for how, grow in FAR_STEPS.items()
    ),
)  # fmt: skip
FAR_MISTAKES = mistakes(
    ("the derivatives of all states, added",
     lambda x, h, w, u, z: sum(far_gradient(x[: t + 1], h, w, u, z) for t in range(len(x))),
     "Only the last state is asked for: dh_T / dh_0."),
    ("the road through the gate left out", gated_gradient(
        lambda n, h, w, u, z: (1 - z) * u * (1 - n**2)),
     "h_(t-1) enters h_t in two places: kept, z times, and through the candidate. Both count."),
    ("the road through the candidate left out", gated_gradient(lambda n, h, w, u, z: z),
     "That is the main road. The candidate also depends on h_(t-1)."),
    ("1 - z left out", gated_gradient(lambda n, h, w, u, z: z + u * (1 - n**2)),
     "The candidate enters the state (1 - z) times, and so does its derivative."),
    ("u left out", gated_gradient(lambda n, h, w, u, z: z + (1 - z) * (1 - n**2)),
     "h_(t-1) is multiplied by u before tanh: the inner derivative is u."),
    ("the slope of tanh left out", gated_gradient(lambda n, h, w, u, z: z + (1 - z) * u),
     "The derivative of tanh is 1 - tanh^2, here 1 - n_t^2."),
    ("the slope at the state, not at the candidate", gated_gradient(
        lambda n, h, w, u, z: z + (1 - z) * u * (1 - h**2)),
     "What passed through tanh is the candidate n_t; the state h_t is a mixture. The slope is "
     "1 - n_t^2."),
    ("1 - n in place of 1 - n squared", gated_gradient(
        lambda n, h, w, u, z: z + (1 - z) * u * (1 - n)),
     "The derivative of tanh is 1 - tanh^2."),
    ("tanh taken twice in the slope", gated_gradient(
        lambda n, h, w, u, z: z + (1 - z) * u * (1 - math.tanh(n) ** 2)),
     "n_t is what tanh has given already: the slope is 1 - n_t^2."),
    ("the two roads multiplied each by itself, and then added",
     lambda x, h, w, u, z: z ** len(x) + gated_gradient(
        lambda n, h, w, u, z: (1 - z) * u * (1 - n**2))(x, h, w, u, z),
     "In every step the two roads are added. The sums are multiplied: a way may change roads."),
    ("u once, outside the product", lambda x, h, w, u, z: u * gated_gradient(
        lambda n, h, w, u, z: z + (1 - z) * (1 - n**2))(x, h, w, u, z),
     "u belongs to the road through the candidate, in every step."),
    ("the slope of a sigmoid", gated_gradient(
        lambda n, h, w, u, z: z + (1 - z) * u * n * (1 - n)),
     "n (1 - n) belongs to the sigmoid. For tanh it is 1 - n^2."),
    ("w in place of u", gated_gradient(lambda n, h, w, u, z: z + (1 - z) * w * (1 - n**2)),
     "w multiplies the word. The old state is multiplied by u."),
    ("z and 1 - z exchanged", gated_gradient(
        lambda n, h, w, u, z: (1 - z) + z * u * (1 - n**2)),
     "z keeps the old state, 1 - z lets the candidate in."),
    ("a sum in place of the product", gated_gradient(
        lambda n, h, w, u, z: z + (1 - z) * u * (1 - n**2), join=sum),
     "One step follows the other: by the chain rule their derivatives are multiplied."),
    ("the last step alone", gated_gradient(
        lambda n, h, w, u, z: z + (1 - z) * u * (1 - n**2), join=lambda f: f[-1]),
     "That is dh_T / dh_(T-1). Multiply over all steps."),
    ("the first step alone", gated_gradient(
        lambda n, h, w, u, z: z + (1 - z) * u * (1 - n**2), join=lambda f: f[0]),
     "That is dh_1 / dh_0. Multiply over all steps."),
    ("one factor taken for all steps", gated_gradient(
        lambda n, h, w, u, z: z + (1 - z) * u * (1 - n**2), join=lambda f: f[-1] ** len(f)),
     "The slope differs from step to step, since the candidates do."),
    ("the first state at every step", gated_gradient(
        lambda n, h, w, u, z: z + (1 - z) * u * (1 - n**2), carried=False),
     "The candidate of step t is made from h_(t-1). Read on with the new state."),
    ("the size without its sign", lambda x, h, w, u, z: abs(far_gradient(x, h, w, u, z)),
     "A derivative may be below zero: with a negative u a nudge can turn over."),
    ("the slope at the old state", _at_the_old_state,
     "What passes through tanh is w x + u h. The slope there is 1 minus the square of its tanh, "
     "the candidate n_t."),
    ("the candidate taken for the new state", _candidate_carried,
     "The next step starts from the mixture, z times the old state and 1 - z of the candidate."),
    ("the first factor taken for all steps", gated_gradient(
        lambda n, h, w, u, z: z + (1 - z) * u * (1 - n**2), join=lambda f: f[0] ** len(f)),
     "The slope differs from step to step, since the candidates do."),
    ("1 - n, squared, in place of 1 - n squared", gated_gradient(
        lambda n, h, w, u, z: z + (1 - z) * u * (1 - n) ** 2),
     "The derivative of tanh is 1 - tanh^2: n is squared first, then taken from 1."),
    ("the plain net's factor, without the gate", gated_gradient(
        lambda n, h, w, u, z: u * (1 - n**2)),
     "That is the net with z = 0. With the gate h_(t-1) is kept z times, and the candidate enters "
     "1 - z times."),
    *(
        (name, gated_gradient(factor), f"{why} One factor is z + (1 - z) u (1 - n^2).")
        for name, factor, why in (
            ("u on the road through the gate as well",
             lambda n, h, w, u, z: z * u + (1 - z) * u * (1 - n**2),
             "What is kept does not pass through u."),
            ("u on the wrong road", lambda n, h, w, u, z: z * u + (1 - z) * (1 - n**2),
             "It is the candidate that is made with u."),
            ("w in the inner derivative, beside u",
             lambda n, h, w, u, z: z + (1 - z) * u * w * (1 - n**2),
             "w multiplies the word, which does not depend on the old state."),
            ("u squared", lambda n, h, w, u, z: z + (1 - z) * u * u * (1 - n**2),
             "The inner derivative is u, once."),
            ("1 + n squared", lambda n, h, w, u, z: z + (1 - z) * u * (1 + n**2),
             "The slope of tanh is 1 - tanh^2."),
            ("n squared in place of 1 - n squared", lambda n, h, w, u, z: z + (1 - z) * u * n**2,
             "The slope of tanh is 1 - tanh^2."),
            ("n in place of its slope", lambda n, h, w, u, z: z + (1 - z) * u * n,
             "The slope of tanh is 1 - tanh^2."),
            ("z (1 - z) on the side road",
             lambda n, h, w, u, z: z + z * (1 - z) * u * (1 - n**2),
             "The candidate enters 1 - z times."),
            ("1 - z twice", lambda n, h, w, u, z: z + (1 - z) ** 2 * u * (1 - n**2),
             "The candidate enters 1 - z times, once."),
            ("z on the side road", lambda n, h, w, u, z: z + z * u * (1 - n**2),
             "The candidate enters 1 - z times."),
            ("one in place of z", lambda n, h, w, u, z: 1 + (1 - z) * u * (1 - n**2),
             "The old state is kept z times."),
            ("the roads subtracted", lambda n, h, w, u, z: z - (1 - z) * u * (1 - n**2),
             "The two roads are added."),
            ("the roads multiplied", lambda n, h, w, u, z: z * (1 - z) * u * (1 - n**2),
             "The two roads are added."),
            ("the slope of tanh alone", lambda n, h, w, u, z: 1 - n**2,
             "That is one part of the road through the candidate."),
            ("z and u added", lambda n, h, w, u, z: z + u, "The candidate enters 1 - z times, and "
             "through a tanh."),
        )
    ),
    ("a product that begins at 0", lambda x, h, w, u, z: 0.0,
     "A product begins at 1, a sum at 0."),
    ("z to the power of the number of words, plus u to it",
     lambda x, h, w, u, z: z ** len(x) + ((1 - z) * u) ** len(x),
     "At each step both roads are open: the factors are sums, and the sums are multiplied."),
    ("z times the number of words", lambda x, h, w, u, z: z * len(x),
     "At each step there is a factor z + (1 - z) u (1 - n^2), and the factors are multiplied."),
    ("the last word left out", lambda x, h, w, u, z: far_gradient(x[:-1], h, w, u, z),
     "There is one factor for each word, for the last one, too."),
    ("the first word left out",
     lambda x, h, w, u, z: gated_gradient(
         lambda n, h, w, u, z: z + (1 - z) * u * (1 - n**2), join=lambda f: math.prod(f[1:])
     )(x, h, w, u, z),
     "There is one factor for each word, for the first one, too."),
    ("the gate turned round, in the state as well", _gate_turned,
     "z keeps the old state, 1 - z lets the candidate in."),
    ("z and 1 - z exchanged where the state moves on", _turned_in_the_state,
     "The factors are right. The next state is z times the old one and 1 - z times the candidate."),
    ("the slope after the state has moved on", _moved_on,
     "The slope is that of the candidate n_t, made from h_(t-1): take it before the state moves "
     "on."),
    ("the old state left out of the candidate's slope", _of_words_alone,
     "What stands inside tanh is w x + u h, and the slope is 1 minus the square of its tanh."),
    *combined(
        lambda factor=lambda n, h, w, u, z: z + (1 - z) * u * (1 - n**2), **rest: (
            gated_gradient(factor, **rest)),
        [
            ("the road through the gate left out",
             {"factor": lambda n, h, w, u, z: (1 - z) * u * (1 - n**2)}, "h is kept z times."),
            ("1 - z left out", {"factor": lambda n, h, w, u, z: z + u * (1 - n**2)},
             "The candidate enters 1 - z times."),
            ("u left out", {"factor": lambda n, h, w, u, z: z + (1 - z) * (1 - n**2)},
             "The inner derivative is u."),
            ("the slope of tanh left out", {"factor": lambda n, h, w, u, z: z + (1 - z) * u},
             "The slope of tanh is 1 - n^2."),
            ("w in place of u", {"factor": lambda n, h, w, u, z: z + (1 - z) * w * (1 - n**2)},
             "The old state is multiplied by u."),
            ("1 - n in place of 1 - n squared",
             {"factor": lambda n, h, w, u, z: z + (1 - z) * u * (1 - n)},
             "The slope of tanh is 1 - n^2."),
            ("the slope at the state",
             {"factor": lambda n, h, w, u, z: z + (1 - z) * u * (1 - h**2)},
             "What passed through tanh is the candidate."),
            ("a sum in place of the product", {"join": sum}, "The chain rule multiplies."),
            ("the last step alone", {"join": lambda f: f[-1]}, "Multiply over all steps."),
            ("the first state at every step", {"carried": False}, "Read on with the new state."),
        ],
        but=[("the slope of tanh left out", "the first state at every step")],
    ),
    ("a sum in place of the product, begun at 1", gated_gradient(
        lambda n, h, w, u, z: z + (1 - z) * u * (1 - n**2), join=lambda f: 1 + sum(f)),
     "One step follows the other: by the chain rule their derivatives are multiplied."),
    ("the last state itself", lambda x, h, w, u, z: _last_state(x, h, w, u, z),
     "Asked for is the derivative of the last state with respect to the first."),
    ("the logarithm of the derivative", lambda *case: math.log(abs(far_gradient(*case))),
     "The factors are multiplied; the logarithm of their product is not asked for."),
    ("one over cosh, not squared", gated_gradient(
        lambda n, h, w, u, z: z + (1 - z) * u * (1 - n**2) ** 0.5),
     "The derivative of tanh is 1 - tanh^2, which is one over the *square* of cosh."),
    ("1 - z of the old state", gated_gradient(
        lambda n, h, w, u, z: (1 - z) + (1 - z) * u * (1 - n**2)),
     "z keeps the old state, 1 - z lets the candidate in."),
    ("the derivative with respect to the words", gated_gradient(
        lambda n, h, w, u, z: (1 - z) * w * (1 - n**2)),
     "Asked for is the one with respect to the state: z + (1 - z) u (1 - n^2) at each step."),
    ("z in place of 1 - z, and the road through the gate left out", gated_gradient(
        lambda n, h, w, u, z: z * u * (1 - n**2)),
     "1 - z lets the candidate in, and z keeps the old state: both roads count."),
    ("1 less the square of what stands inside tanh", _at_the_sum,
     "The derivative of tanh is 1 less the square of tanh itself, n_t."),
    ("a product that begins with h", lambda x, h, w, u, z: h * far_gradient(x, h, w, u, z),
     "dh_0 / dh_0 is 1: the product of the slopes begins there."),
    ("the old state carried on without its z", _whole_state_dropped,
     "h_t = z h_(t-1) + (1 - z) n_t: the state that goes on keeps z of the old one."),
)  # fmt: skip


# 2.9: weights that remember

PLACES = ("always high", "always low", "up and down")


def remembering(noise: float) -> tuple[float, float, float]:
    return 1.0, 3.0, 0.0


def what_is_left(answer: Callable[[float], object], noise: float) -> dict[str, str]:
    """Where the state stands after a first word of 1 or -1 and two hundred of noise."""
    numbers = [float(number) for number in answer(noise)]
    if len(numbers) != 3:
        raise ValueError(f"expected three numbers, w, u and b, got {len(numbers)}")
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"expected numbers that are finite, got {numbers}")
    w, u, b = numbers
    read = math.tanh(w + b) - math.tanh(b - w)
    found = {
        "the first word makes a difference": "no" if read == 0 else "yes",
        "the old state is read": "no" if u == 0 else "yes",
    }
    for first, kind in product((1, -1), PLACES):
        for steps in (200, 201):
            h = math.tanh(w * first + b)
            for t in range(steps):
                sign = {"always high": 1, "always low": -1, "up and down": (-1) ** t}[kind]
                h = math.tanh(w * noise * sign + u * h + b)
            name = f"first word {first}, then {kind}, {steps} times"
            found[name] = "kept" if first * h >= 0.5 else "faded" if abs(h) < 0.5 else "turned"
    return found


def weights(w: float, u: float, b: float = 0.0) -> Callable[[float], tuple[float, float, float]]:
    return lambda noise: (w, u, b)


KEEP_MISTAKES = mistakes(
    ("u not well above 1", weights(1.0, 1.0),
     "There must be a value, above one half, that tanh(u h) gives back. With u up to 1 there is "
     "none but 0: tanh(h) is nearer to 0 than h, and two hundred steps of it leave nothing."),
    ("u of 0", weights(1.0, 0.0),
     "Without u nothing of the old state is left: the net shows the last word."),
    ("u too small, whatever comes", weights(0.1, 0.9),
     "There must be a value, above one half, that tanh(u h) gives back. With u up to 1 there is "
     "none but 0, and with u little above 1 it is near to 0."),
    ("a negative u", weights(1.0, -3.0),
     "The state changes sides at every step: after an even number it is right, after an odd one "
     "wrong."),
    ("a negative u, and words that overrule the state", weights(3.0, -3.0),
     "With a u below 0 the state changes sides at every step. And keep w times the noise well "
     "below u."),
    ("a word that is not read", weights(0.0, 3.0),
     "With w = 0 the first word leaves the state at 0, whichever it was."),
    ("the sides exchanged", weights(-1.0, 3.0),
     "It remembers, but 1 as -1: w must be above 0."),
    ("the sides exchanged, and words that overrule the state", weights(-3.0, 3.0),
     "It remembers 1 as -1: w must be above 0. And keep w times the noise well below u."),
    ("a bias that decides where there is noise", weights(3.0, 3.0, 1.0),
     "Without noise it is kept. With noise the bias pulls to its side in every step, and after two "
     "hundred of them it has won."),
    ("a bias that decides", weights(1.0, 3.0, 3.0),
     "The bias pulls to its side in every step. After two hundred of them it has won."),
    ("a bias that decides for the other side", weights(1.0, 3.0, -3.0),
     "The bias pulls to its side in every step. After two hundred of them it has won."),
    ("words that overrule the state", weights(10.0, 3.0),
     "w makes the noise as strong as the first word. The state must outvote it: keep w times the "
     "noise well below u."),
    ("words that overrule the state, even small ones", weights(20.0, 2.0),
     "w makes every noise stronger than the state. The state must outvote it: keep w times the "
     "noise well below u."),
    ("a u of 1 or less beside a large w, or weights in the order u, w, b", weights(3.0, 1.0),
     "The order is w, u, b. Or is u too small? It must be above 1, by as much as the noise asks "
     "for."),
    ("u too small for the noise", weights(1.0, 1.5),
     "Without noise it is kept. With noise w x is taken off in every step, and what is left of "
     "u h - w x must still come back."),
    ("weights for a world without noise", weights(3.0, 2.0),
     "Without noise it is kept. With noise w x is taken off in every step, and what is left of "
     "u h - w x must still come back: let u be larger, or w smaller."),
    ("words as strong as the state", weights(10.0, 2.0),
     "Without noise it is kept. Every noisy word takes w times the noise off the sum, and what is "
     "left of u h must still come back: let w be smaller, or u larger."),
    ("faded in every case", weights(1.0, 0.5),
     "There must be a value, above one half, that tanh(u h) gives back: let u be well above 1."),
    ("a w of 0 where there is no noise", lambda noise: (noise, 3.0, 0.0),
     "w multiplies the first word as well. Where the noise is 0, nothing is read."),
    ("a bias below 0 that decides where there is noise", weights(2.0, 3.0, -1.0),
     "Without noise it is kept. With noise the bias pulls to its side in every step, and after two "
     "hundred of them it has won."),
    ("u near to 1", weights(0.3, 1.1),
     "tanh(u h) must give back a value above one half, and do so still when w times the noise is "
     "taken off: let u be well above 1."),
    ("a bias that leaves one side alone", weights(1.0, 2.0, 0.5),
     "Then h = tanh(u h + b) has one answer above 1/2, and none below -1/2: let b be 0."),
)  # fmt: skip


def both_alike(found: dict[str, str], noise: float) -> bool:
    """Without a bias, what becomes of -1 is the mirror image of what becomes of 1."""
    if found["the old state is read"] == "no" or found["the first word makes a difference"] == "no":
        return True
    return all(
        (found[f"first word 1, then always {one}, {steps} times"] == "kept")
        == (found[f"first word -1, then always {other}, {steps} times"] == "kept")
        for one, other in (("high", "low"), ("low", "high"))
        for steps in (200, 201)
    )


KEEP_RULES = [
    Invariant("1 and -1 are kept alike, or lost alike", both_alike,
              "One of the two is lost, and the other kept: b draws to one side. With b = 0 what "
              "becomes of -1 is the mirror image of what becomes of 1."),
    Invariant("kept where there is no noise",
              lambda found, noise: noise > 0 or not {"faded", "turned"} & {*found.values()},
              "Then h = tanh(u h + b) must give back one value above 1/2 and one below -1/2: let u "
              "be well above 1, and b near 0."),
    Invariant("kept in spite of the noise",
              lambda found, noise: noise == 0 or not {"faded", "turned"} & {*found.values()},
              "Without noise it is kept. Every noisy word takes w times the noise off the sum, and "
              "what is left of u h must still come back: let w be smaller, or u larger, and b "
              "near 0."),
]  # fmt: skip


# 2.10: backpropagation through time


def as_list(output: object) -> object:
    return list(output) if isinstance(output, tuple) else output


Four = tuple[Tensor, Tensor, Tensor, Tensor]


def through_time(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor, g: Tensor) -> Four:
    return through_time_with()(x, h, w, u, b, g)


def through_time_with(
    slope: Callable[[Tensor, Tensor], Tensor] = lambda before, now: 1 - now**2,
    old: Callable[[Tensor, Tensor], Tensor] = lambda before, now: before,
    back: Callable[[Tensor, Tensor], Tensor] = lambda a, u: a @ u.T,
    steps: int | None = None,
    keep: Callable[[Tensor, Tensor], Tensor] = lambda total, new: total + new,
    outer: Callable[[Tensor, Tensor], Tensor] = torch.outer,
    zeros: bool = False,
    late: bool = False,
    forwards: bool = False,
    pass_on: Callable[[Tensor, Tensor], Tensor] = lambda a, d: a,
    give: Callable[[Four], object] = lambda four: four,
    read: Callable[..., Tensor] = right_step,
    mean: bool = False,
) -> Callable[..., object]:
    """The backward pass, right by default; each argument makes one mistake."""

    def backward(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor, g: Tensor) -> object:
        states = [torch.zeros_like(h) if zeros else h]
        for word in x:
            states.append(read(word, states[-1], w, u, b))
        grad_w, grad_u, grad_b, d = (torch.zeros_like(a) for a in (w, u, b, g))
        d = g
        order = range(len(x) - 1, -1 if steps is None else max(len(x) - 1 - steps, -1), -1)
        for t in reversed(order) if forwards else order:
            a = d * slope(states[t], states[t + 1])
            grad_w = keep(grad_w, torch.outer(x[min(t + late, len(x) - 1)], a))
            grad_u = keep(grad_u, outer(old(states[t], states[t + 1]), a))
            grad_b = keep(grad_b, a)
            d = back(pass_on(a, d), u)
        divisor = len(x) if mean else 1
        return give((grad_w / divisor, grad_u / divisor, grad_b / divisor, d))

    return backward


def time_cases() -> list[tuple[Tensor, ...]]:
    g = torch.Generator().manual_seed(210)
    one = [[1.0]], [0.5], [[0.0]], [[2.0]], [-1.0], [1.0]
    cases = [tuple(map(torch.tensor, one))]
    for T, d, s in ((4, 3, 2), (6, 2, 4), (1, 3, 5), (3, 1, 1), (5, 4, 3)):
        shapes = (T, d), (s,), (d, s), (s, s), (s,), (s,)
        cases.append(tuple(0.7 * torch.randn(shape, generator=g) for shape in shapes))
    return cases


def _at_the_first_sum(four: Four, *case: Tensor) -> Tensor:
    """The gradient of b has one part for each step; the first step's is what all others leave."""
    x, h, w, u, b, g = case
    later = through_time(x[1:], torch.tanh(x[0] @ w + h @ u + b), w, u, b, g)
    return four[2] - later[2]


def _at_every_step(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor, g: Tensor) -> Four:
    states = [h]
    for word in x:
        states.append(torch.tanh(word @ w + states[-1] @ u + b))
    before, after = torch.stack(states[:-1]), torch.stack(states[1:])
    a = g * (1 - after**2)
    return x.T @ a, before.T @ a, a.sum(0), u @ a[0]


def _arriving(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor, g: Tensor) -> Tensor:
    """The sum of the gradients with respect to the states, before they pass tanh."""
    states = [h]
    for word in x:
        states.append(torch.tanh(word @ w + states[-1] @ u + b))
    total = torch.zeros_like(g)
    for state in reversed(states[1:]):
        total, g = total + g, u @ (g * (1 - state**2))
    return total


def _of_w(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor, g: Tensor) -> Tensor:
    """The gradient of W without the slope of tanh."""
    states = [h]
    for word in x:
        states.append(torch.tanh(word @ w + states[-1] @ u + b))
    total = torch.zeros_like(w)
    for word, state in zip(x.flip(0), reversed(states[1:]), strict=True):
        total, g = total + torch.outer(word, g), u @ (g * (1 - state**2))
    return total


def _of_u(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor, g: Tensor) -> Tensor:
    """The gradient of U without the slope of tanh."""
    before = torch.stack([h, *_states(x, h, w, u, b)[:-1]])
    total = torch.zeros_like(u)
    for old, state in zip(before.flip(0), reversed(_states(x, h, w, u, b)), strict=True):
        total, g = total + torch.outer(old, g), u @ (g * (1 - state**2))
    return total


def _states(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor) -> list[Tensor]:
    states = [h]
    for word in x:
        states.append(right_step(word, states[-1], w, u, b))
    return states[1:]


def _first_at_the_end(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor, g: Tensor) -> Four:
    """A list of states without the given one: states[t - 1] is the last of all for t = 0."""
    grad_w, grad_u, grad_b, d = four = through_time(x, h, w, u, b, g)
    a = _at_the_first_sum(four, x, h, w, u, b, g)
    return grad_w, grad_u + torch.outer(_states(x, h, w, u, b)[-1] - h, a), grad_b, d


def _slopes_by(slope: Callable[[list[Tensor], int], Tensor | float]) -> Callable[..., Four]:
    """With another slope at step t, made of all states, of which the given one is the first."""

    def backward(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor, g: Tensor) -> Four:
        states, rows = [h, *_states(x, h, w, u, b)], []
        for t in reversed(range(len(x))):
            rows.insert(0, g * slope(states, t))
            g = u @ rows[0]
        a = torch.stack(rows)
        return x.T @ a, torch.stack(states[:-1]).T @ a, a.sum(0), g

    return backward


def with_autograd(read: Callable[..., Tensor]) -> Callable[..., object]:
    """What autograd gives for a net that reads otherwise."""

    def backward(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor, g: Tensor) -> object:
        leaves = [a.detach().requires_grad_() for a in (w, u, b, h)]
        state = leaves[3]
        for word in x:
            state = read(word, state, *leaves[:3])
        grads = torch.autograd.grad(state @ g, leaves, allow_unused=True)
        return [torch.zeros_like(a) if d is None else d for a, d in zip(leaves, grads, strict=True)]

    return backward


def _cut_off(first: bool, none: bool) -> Callable[..., object]:
    """What autograd gives where each old state is a constant, but for the `first` of them: for h
    zeros or, if `none`, None."""

    def backward(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor, g: Tensor) -> object:
        parts = [*through_time(x[-1:], [h, *_states(x, h, w, u, b)][-2], w, u, b, g)]
        if len(x) > 1 or not first:
            parts[3] = None if none else torch.zeros_like(h)
        return parts

    return backward


TIME_READS: dict[str, Callable[..., Tensor]] = {
    "without tanh": lambda x, h, w, u, b: x @ w + h @ u + b,
    "with a sigmoid in place of tanh": lambda x, h, w, u, b: torch.sigmoid(x @ w + h @ u + b),
    "with the bias subtracted": lambda x, h, w, u, b: torch.tanh(x @ w + h @ u - b),
    "without the bias": lambda x, h, w, u, b: torch.tanh(x @ w + h @ u),
    "with h U subtracted": lambda x, h, w, u, b: torch.tanh(x @ w - h @ u + b),
    "with U transposed": lambda x, h, w, u, b: torch.tanh(x @ w + u @ h + b),
    "without U, with h as it is": lambda x, h, w, u, b: torch.tanh(x @ w + h + b),
    "without the old state": lambda x, h, w, u, b: torch.tanh(x @ w + b),
    "without the word": lambda x, h, w, u, b: torch.tanh(h @ u + b),
    "by the bias alone": lambda x, h, w, u, b: torch.tanh(b),
}
TIME_SLOPES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "1 + h squared": lambda before, now: 1 + now**2,
    "h squared - 1": lambda before, now: now**2 - 1,
    "h squared": lambda before, now: now**2,
    "2 - h squared": lambda before, now: 2 - now**2,
    "1 - 2 h": lambda before, now: 1 - 2 * now,
    "1 over 1 - h squared": lambda before, now: 1 / (1 - now**2),
}


def _through_time_by(
    parts: Callable[[Tensor], Tensor] = lambda now: 1 - now**2,
    way: Callable[[Tensor], Tensor] = lambda now: 1 - now**2,
    mirrored: bool = False,
    met: Callable[[Tensor], Tensor] = lambda steps: steps,
) -> Callable[..., object]:
    """With one slope in the parts of W, U and b, and another on the way to the state before."""

    def backward(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor, g: Tensor) -> Four:
        states = [h]
        for word in x:
            states.append(right_step(word, states[-1], w, u, b))
        rows: list[Tensor] = []
        for t in reversed(range(len(x))):
            state = states[len(x) - t] if mirrored else states[t + 1]
            rows.insert(0, g * parts(state))
            g = u @ (g * way(state))
        a = met(torch.stack(rows))
        return x.T @ a, torch.stack(states[:-1]).T @ a, a.sum(0), g

    return backward


TIME_MORE = mistakes(
    ("the slopes taken from the first step to the last", _through_time_by(mirrored=True),
     "The way goes back: the slope of the last step comes first."),
    ("the parts of the steps met with the words from the other end",
     _through_time_by(met=lambda steps: steps.flip(0)),
     "What comes back first belongs to the last word: put the parts in the order of the words."),
    ("the slope left out in the parts of W, U and b alone",
     _through_time_by(parts=torch.ones_like),
     "W, U and b stand inside tanh: their parts are multiplied by 1 - h_t^2, too."),
    *(
        (f"{how} in place of the slope of tanh, {where}", _through_time_by(**{which: slope}),
         "The derivative of tanh is 1 - tanh^2, here 1 - h_t^2, in both places.")
        for how, slope in {"1 - h": lambda now: 1 - now, "1 + h squared": lambda now: 1 + now**2,
                           "h squared": lambda now: now**2, "1 - 2 h": lambda now: 1 - 2 * now,
                           "2 - h squared": lambda now: 2 - now**2,
                           "minus h squared": lambda now: -(now**2)}.items()
        for where, which in (("in the parts of W, U and b alone", "parts"),
                             ("on the way to the state before alone", "way"))
    ),
    ("minus h squared in place of the slope of tanh",
     through_time_with(slope=lambda before, now: -(now**2)),
     "The derivative of tanh is 1 - tanh^2, here 1 - h_t^2."),
    *(
        (f"the words read {how}", through_time_with(read=read),
         "The states are made as in (2.1), h_t = tanh(x_t W + h_(t-1) U + b).")
        for how, read in TIME_READS.items()
    ),
    *(
        (f"by autograd, the words read {how}", with_autograd(read),
         "The states are made as in (2.1), h_t = tanh(x_t W + h_(t-1) U + b).")
        for how, read in TIME_READS.items()
    ),
    *(
        (f"{how} in place of the slope of tanh", through_time_with(slope=slope),
         "The derivative of tanh is 1 - tanh^2, here 1 - h_t^2.")
        for how, slope in TIME_SLOPES.items()
    ),
    ("the sums begun with W, U and b themselves", lambda x, h, w, u, b, g: tuple(
        a + d for a, d in zip(
            (w, u, b, 0 * h), through_time(x, h, w, u, b, g), strict=True)),
     "The gradients are summed up from zeros."),
    ("zeros for W, U and b", lambda *case: (
        *(0 * part for part in through_time(*case)[:3]), through_time(*case)[3]),
     "Nothing is added to the zeros: each step has its part in all three."),
    ("zeros for W, U and b, and the given gradient for h", lambda x, h, w, u, b, g: (
        0 * w, 0 * u, 0 * b, g),
     "The loop over the steps is never entered: it goes back from the last word to the first."),
    ("the state times g, in place of its gradients", lambda x, h, w, u, b, g: (
        last_states(x[None], torch.tensor([len(x)]), h[None], w, u, b)[0] @ g),
     "Of this number the gradients are asked for, with respect to W, U, b and h."),
)  # fmt: skip
TIME_MISTAKES = mistakes(
    ("the last state in place of the given one, in the gradient of U", _first_at_the_end,
     "At the first word it was the given h that met U. Does the list of states begin with it? In "
     "one that does not, states[t - 1] is the last of all for t = 0."),
    ("the last step alone", through_time_with(steps=1),
     "W, U and b serve at every step, and each use has its part in the gradient. Go back through "
     "all of them."),
    ("the parts of earlier steps written over", through_time_with(keep=lambda total, new: new),
     "The same W, U and b are used at every step: the parts of all steps are added up (+=)."),
    ("the mean over the steps",
     lambda x, *rest: tuple(
         part / len(x) if i < 3 else part for i, part in enumerate(through_time(x, *rest))
     ),
     "The parts of all steps are added. Nothing divides by T."),
    ("the slope of tanh left out", through_time_with(slope=lambda before, now: 1 + 0 * now),
     "On its way back through tanh a gradient is multiplied by 1 - h_t^2."),
    ("the slope at the state before", through_time_with(slope=lambda before, now: 1 - before**2),
     "What left tanh at step t is h_t. The slope there is 1 - h_t^2."),
    ("1 - h in place of 1 - h squared", through_time_with(slope=lambda before, now: 1 - now),
     "The derivative of tanh is 1 - tanh^2."),
    ("the slope of a sigmoid", through_time_with(slope=lambda before, now: now * (1 - now)),
     "h (1 - h) belongs to the sigmoid. For tanh it is 1 - h^2."),
    ("the slope twice", through_time_with(slope=lambda before, now: (1 - now**2) ** 2),
     "The slope belongs to the step once."),
    ("U not transposed on the way back", through_time_with(back=lambda a, u: a @ u),
     "Forwards a row h becomes h U. Backwards a row a becomes a U^T: entry i of h_(t-1) has gone "
     "into every entry j through U_ij."),
    ("U left out on the way back", through_time_with(back=lambda a, u: a),
     "From step to step the gradient passes through U^T."),
    ("the new state in the gradient of U", through_time_with(old=lambda before, now: now),
     "At step t it was h_(t-1) that met U."),
    ("the gradient of U transposed", through_time_with(outer=lambda h, a: torch.outer(a, h)),
     "Entry (i, j) of U takes entry i of h_(t-1) to entry j of h_t: rows belong to the old state."),
    ("the words one step late", through_time_with(late=True),
     "At step t it was x_t that met W."),
    ("reading starts from zeros", through_time_with(zeros=True),
     "The states come from reading, beginning with the given h."),
    ("the sign of a step downhill",
     through_time_with(give=lambda four: tuple(-part for part in four)),
     "Asked for is the gradient itself. The optimizer takes the step against it."),
    ("the gradient of h first",
     through_time_with(give=lambda four: (four[3], *four[:3])),
     "The order is that of W, U, b and then h."),
    ("the gradient of h left out", through_time_with(give=lambda four: four[:3]),
     "Four are asked for: with respect to W, U, b and the first state h."),
    ("the given gradient in the place of that of h",
     lambda x, h, w, u, b, g: (*through_time(x, h, w, u, b, g)[:3], g),
     "The last of the four is what has arrived at the first state, after all steps."),
    ("gradients within the last two steps", through_time_with(steps=2),
     "That is truncated backpropagation. Here the way goes back to the first word."),
    ("the gradients of U and W exchanged",
     through_time_with(give=lambda four: (four[1], four[0], *four[2:])),
     "The order is that of W, U, b and then h."),
    ("for h the gradient inside the first tanh",
     lambda x, h, w, u, b, g: (
         *through_time(x, h, w, u, b, g)[:3],
         _at_the_first_sum(through_time(x, h, w, u, b, g), x, h, w, u, b, g),
     ),
     "That is the gradient with respect to what stands inside the first tanh. From there to h it "
     "goes through U once more."),
    ("from the first word to the last", through_time_with(forwards=True),
     "The given gradient belongs to the *last* state: go back from there, word by word."),
    ("the slope left out on the way to the state before",
     through_time_with(pass_on=lambda a, d: d),
     "What passes through U is the gradient inside tanh: it has met the slope 1 - h_t^2."),
    ("the slope at h itself put on the gradient of h",
     lambda x, h, w, u, b, g: (
         *through_time(x, h, w, u, b, g)[:3],
         through_time(x, h, w, u, b, g)[3] * (1 - h**2),
     ),
     "The first state is given: it has come out of no tanh."),
    ("the first state left out of the gradient of U",
     lambda x, h, *rest: tuple(
         part - (torch.outer(h, _at_the_first_sum(through_time(x, h, *rest), x, h, *rest))
                 if i == 1 else 0)
         for i, part in enumerate(through_time(x, h, *rest))
     ),
     "The first word met the given state, through U: that step has its part, too."),
    *combined(through_time_with, [
        ("the slope of tanh left out", {"slope": lambda before, now: 1 + 0 * now},
         "Back through tanh a gradient is multiplied by 1 - h_t^2."),
        ("the slope at the state before", {"slope": lambda before, now: 1 - before**2},
         "The slope is that at h_t."),
        ("1 - h in place of 1 - h squared", {"slope": lambda before, now: 1 - now},
         "The slope is 1 - h_t^2."),
        ("U not transposed on the way back", {"back": lambda a, u: a @ u},
         "Backwards a row a becomes a U^T."),
        ("the new state in the gradient of U", {"old": lambda before, now: now},
         "At step t it was h_(t-1) that met U."),
        ("the gradient of U transposed", {"outer": lambda h, a: torch.outer(a, h)},
         "Rows of U belong to the old state."),
        ("the last step alone", {"steps": 1}, "Go back through all steps."),
        ("the parts of earlier steps written over", {"keep": lambda total, new: new},
         "The parts of all steps are added up (+=)."),
        ("the gradient of h left out", {"give": lambda four: four[:3]}, "Four are asked for."),
        ("the gradient of h first", {"give": lambda four: (four[3], *four[:3])},
         "The order is that of W, U, b and then h."),
        ("the mean over the steps", {"mean": True}, "The parts of all steps are added."),
    ], but=[("the last step alone", "the parts of earlier steps written over")]),
    ("the gradient of h one step too early",
     lambda x, h, w, u, b, g: (
         *through_time(x, h, w, u, b, g)[:3],
         through_time(x[1:], torch.tanh(x[0] @ w + h @ u + b), w, u, b, g)[3],
     ),
     "That is the gradient with respect to the state after the first word. One step is left."),
    ("the given gradient at every step", _at_every_step,
     "g belongs to the last state. To the state before it comes through that step: g_(t-1) = "
     "(g_t (1 - h_t^2)) U^T."),
    ("the gradient of b without the slope of tanh",
     lambda x, h, w, u, b, g: tuple(
         _arriving(x, h, w, u, b, g) if i == 2 else part
         for i, part in enumerate(through_time(x, h, w, u, b, g))
     ),
     "b stands inside tanh, as x W and h U do: its part is multiplied by 1 - h_t^2, too."),
    ("the gradient at the state in that of W", lambda x, h, w, u, b, g: (
        _of_w(x, h, w, u, b, g), *through_time(x, h, w, u, b, g)[1:]),
     "The word stands inside tanh: what meets it is the gradient times the slope, 1 - h_t^2."),
    ("the gradient at the state in that of U", lambda x, h, w, u, b, g: (
        (four := through_time(x, h, w, u, b, g)) and (
            four[0], _of_u(x, h, w, u, b, g), *four[2:])),
     "The old state stands inside tanh: what meets it is the gradient times the slope, 1 - h_t^2."),
    ("the last word in the gradient of W at every step", lambda x, h, w, u, b, g: (
        (four := through_time(x, h, w, u, b, g)) and (
            torch.outer(x[-1], four[2]), *four[1:])),
     "At step t it was x_t that met W, and that changes from step to step."),
    ("the last state in the gradient of U at every step", lambda x, h, w, u, b, g: (
        (four := through_time(x, h, w, u, b, g)) and (
            four[0], torch.outer(_states(x, h, w, u, b)[-1], four[2]), *four[2:])),
     "At step t it was h_(t-1) that met U, and that changes from step to step."),
    ("ones in place of the given gradient", lambda x, h, w, u, b, g: through_time(
        x, h, w, u, b, torch.ones_like(g)),
     "g is the gradient at the last state: the way back begins with it."),
    ("the given gradient taken for that inside the last tanh", _slopes_by(
        lambda states, t: 1.0 if t == len(states) - 2 else 1 - states[t + 1] ** 2),
     "g is the gradient at the last state, behind tanh: the slope belongs to that step, too."),
    ("the slope of the last state at every step", _slopes_by(
        lambda states, t: 1 - states[-1] ** 2),
     "The slope changes from step to step: at step t it is 1 - h_t^2."),
    ("all three transposed that can be", lambda *case: tuple(
        part.T if part.ndim > 1 else part for part in through_time(*case)),
     "Each gradient has the shape of what it belongs to: rows are what goes in."),
    ("the first state in the gradient of U at every step", lambda x, h, w, u, b, g: (
        (four := through_time(x, h, w, u, b, g)) and (
            four[0], torch.outer(h, four[2]), four[2], four[3])),
     "At step t it was h_(t-1) that met U, and that changes from step to step."),
    ("the first word left out", lambda x, h, w, u, b, g: (
        (four := through_time(x[1:], torch.tanh(x[0] @ w + h @ u + b), w, u, b, g)) and (
            four if len(x) > 1 else (0 * w, 0 * u, 0 * b, g))),
     "The way back ends at the first word, t = 0: `range(1, T)` leaves it out."),
    *(
        (f"the old state taken for a constant{where}", _cut_off(first, none),
         "So nothing goes back past the last step. The old state depends on W, U, b and h itself: "
         "each step has its part in the gradients. (`detach` cuts the way back.)")
        for where, first, none in (
            (", but for the given one", True, False), ("", False, False),
            (", so that h has no gradient", False, True),
        )
    ),
    ("the given gradient added at every step", lambda x, h, w, u, b, g: tuple(
        sum(parts) for parts in zip(*(
            through_time(x[: n + 1], h, w, u, b, g) for n in range(len(x))), strict=True)),
     "The loss depends on the last state alone: g comes in once, at the end."),
    ("the given gradient added at every step, and to that of h, too",
     lambda x, h, w, u, b, g: tuple(
         sum(parts) + g * (i == 3) for i, parts in enumerate(zip(*(
             through_time(x[: n + 1], h, w, u, b, g) for n in range(len(x))), strict=True))),
     "The loss depends on the last state alone: g comes in once, at the end."),
)  # fmt: skip


EXERCISES = [
    Exercise(
        number="2.1",
        title="one step by hand",
        section="A net that reads",
        reference=BY_HAND["right"],
        cases=[()],
        mistakes=[
            *STEP_MISTAKES,
            *pairs(step_way, STEP_SLIPS, list(BY_HAND.values()), rtol=1e-4, atol=2e-3),
        ],
        atol=2e-3,
    ),
    Exercise(
        number="2.2",
        title="find the mistakes: the state after the last word",
        section="The plain recurrent net",
        reference=last_states,
        cases=last_cases,
        mistakes=LAST_MISTAKES,
        invariants=[
            Invariant(
                "states lie between -1 and 1",
                lambda output, *case: bool((torch.as_tensor(output).abs() <= 1).all()),
                "They come out of a hyperbolic tangent.",
            )
        ],
    ),
    Exercise(
        number="2.3",
        title="the GRU as published",
        section="Gates: the GRU",
        reference=gru_step,
        cases=gru_cases,
        raised=[
            (
                r"chunk\(3\)|split\([^,()]+\)|(not enough|too many) values to unpack",
                "`chunk` and `split` cut along the rows, unless `dim=1` is given. The three parts "
                "stand side by side, so it is the columns that are cut.",
            )
        ],
        mistakes=[*GRU_MISTAKES, *GRU_MORE, *GRU_PARTS],
    ),
    Exercise(
        number="2.4",
        title="a test that finds it",
        section="The plain recurrent net",
        reference=is_right,
        cases=[()],
        mistakes=READER_TESTS,
        invariants=READER_RULES,
        probe=verdicts_on(
            READERS,
            READER_LACKS,
            spoilt=Spoilt(("sentence", "entry"), quiet=lambda out, *given: out + 0.3 * out.sign()),
        ),
    ),
    Exercise(
        number="2.5",
        title="how deep to see all",
        section="Convolutions must be deep to see far",
        reference=layers_needed,
        cases=[
            (n, k, dilated)
            for n, k in (
                (1, 3),
                (2, 3),
                (9, 3),
                (10, 3),
                (25, 5),
                (26, 5),
                (125, 5),
                (126, 5),
                (243, 3),
                (12, 5),
            )
            for dilated in (False, True)
        ]
        + [(100, 2, False), (100, 2, True), (1000, 10, True), (1001, 10, True)],
        canonical=whole,
        mistakes=[*DEPTH_MISTAKES, *DEPTH_PAIRS],
    ),
    Exercise(
        number="2.6",
        title="what a layer multiplies",
        section="Trouble three: one word after another",
        reference=multiply_adds,
        cases=[
            (layer, n, d, k)
            for layer in ("self-attention", "recurrent", "convolutional")
            for n, d, k in ((10, 64, 3), (100, 16, 5), (7, 11, 4), (10, 4, 3))
        ],
        canonical=whole,
        mistakes=[*COUNT_MISTAKES, *COUNT_PAIRS],
    ),
    Exercise(
        number="2.7",
        title="predict, then try: three far gradients",
        section="Trouble two: gradients vanish or explode",
        reference=PREDICTED,
        mistakes=wrong_predictions(PREDICTED, WRONG_PICTURES),
        canonical=signs,
    ),
    Exercise(
        number="2.8",
        title="derive: the far gradient through a gate",
        section="Trouble two: gradients vanish or explode",
        reference=far_gradient,
        cases=far_cases,
        mistakes=[*FAR_MISTAKES, *FAR_MORE],
        canonical=float,
    ),
    Exercise(
        number="2.9",
        title="design: weights that remember",
        section="Trouble one: far things are lost",
        reference=remembering,
        cases=[(0.0,), (0.2,), (0.5,)],
        mistakes=KEEP_MISTAKES,
        invariants=KEEP_RULES,
        probe=what_is_left,
        raised=[("ZeroDivisionError", "`noise` may be 0: then nothing can be divided by it.")],
    ),
    Exercise(
        number="2.10",
        title="derive: backpropagation through time",
        section="Trouble two: gradients vanish or explode",
        reference=through_time,
        cases=time_cases,
        mistakes=[*TIME_MISTAKES, *TIME_MORE],
        canonical=as_list,
        rtol=1e-3,
        atol=1e-5,
    ),
]
