"""The exercises of chapter 10, layer norm, residuals, feed-forward: references, cases, mistakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import permutations, product
from typing import Any

import torch
from torch import Tensor

from .compare import kind
from .core import Case, Exercise, Family, Invariant, mistakes
from .faults import still_there
from .pairs import combined
from .predictions import no_signs
from .suspects import ANY, LOOSE, SLIPS, Lack, Spoilt, each, rules, said_of, verdicts_on

# 10.1 layer norm by hand: mean, variance, and the four entries


def by_hand(mean: float, variance: float, entries: list[float]) -> list[float]:
    return [mean, variance, *entries]


def _normed_by_hand(
    named: float = 0.25, square: float = 0.25, gamma: float = 2.0, beta: float = 1.0,
    mean: float = 0.5, sign: float = 1.0,
) -> list[float]:  # fmt: skip
    """The answer, right by default; each argument makes one mistake."""
    below, above = ((sign * (entry - mean)) / square**0.5 for entry in (0.0, 1.0))
    return by_hand(0.5, named, [below, above, gamma * below, gamma * above + beta])


HAND_SLIPS = [
    ("the variance divided by 3, not by 4", {"named": 1 / 3, "square": 1 / 3}, "D is 4."),
    ("the variance without its root", {"square": 0.0625}, "Divide by the root of the variance."),
    ("the standard deviation in place of the variance", {"named": 0.5},
     "The second number should be the variance, before its root."),
    ("the sum of squares in place of the variance", {"named": 1.0, "square": 1.0},
     "The variance is the mean of the squared differences."),
    ("the differences not divided", {"square": 1.0}, "Divide by the root of the variance."),
    ("gamma forgotten", {"gamma": 1.0}, "Each normalised entry is multiplied by its gamma."),
    ("beta forgotten", {"beta": 0.0}, "After gamma, beta is added."),
    ("beta added before gamma multiplies", {"beta": 2.0}, "Beta comes after gamma."),
    ("beta subtracted", {"beta": -1.0}, "Beta is added."),
    ("divided by gamma", {"gamma": 0.5}, "Each normalised entry is multiplied by its gamma."),
    ("the mean not subtracted", {"mean": 0.0}, "The mean is subtracted from each entry first."),
    ("the mean minus the entry", {"sign": -1.0}, "It is the entry minus the mean."),
]  # fmt: skip
HAND_BUT = [
    ("gamma forgotten", "beta forgotten"),
    ("the variance without its root", "gamma forgotten"),  # gamma 2 for every entry
    ("gamma forgotten", "beta added before gamma multiplies"),  # gamma of the third forgotten
    ("beta subtracted", "the mean not subtracted"),  # gamma forgotten as well
    ("the mean not subtracted", "the mean minus the entry"),  # each says the other is not so
]
HAND_MISTAKES = mistakes(  # of "very", (0, 1, 0, 1)
    ("the variance divided by 3, not by 4",
     by_hand(0.5, 1 / 3, [-(0.75**0.5), 0.75**0.5, -(3**0.5), 3**0.5 + 1]),
     "Layer norm divides the sum of the squared differences by D, the number of entries."),
    ("the variance without its root", by_hand(0.5, 0.25, [-2.0, 2.0, -4.0, 5.0]),
     "The differences are divided by the root of the variance. Without it, the variance of the "
     "result is not 1."),
    ("gamma and beta forgotten", by_hand(0.5, 0.25, [-1.0, 1.0, -1.0, 1.0]),
     "The normalised entries are right. Each is still to be multiplied by its gamma, and its beta "
     "added."),
    ("beta forgotten", by_hand(0.5, 0.25, [-1.0, 1.0, -2.0, 2.0]),
     "After the multiplication by gamma, beta is added: here it changes the last entry."),
    ("gamma forgotten", by_hand(0.5, 0.25, [-1.0, 1.0, -1.0, 2.0]),
     "Each normalised entry is multiplied by its gamma before beta is added."),
    ("beta added before gamma multiplies", by_hand(0.5, 0.25, [-1.0, 1.0, -2.0, 4.0]),
     "Gamma multiplies the normalised entry alone; beta comes after it."),
    ("the mean not subtracted", by_hand(0.5, 0.25, [0.0, 2.0, 0.0, 5.0]),
     "The mean is subtracted from each entry first, so that the normalised entries have mean 0."),
    ("the mean of the squares in place of the variance",
     by_hand(0.5, 0.5, [-(0.5**0.5), 0.5**0.5, -(2**0.5), 2**0.5 + 1]),
     "The squares are those of the differences from the mean, not of the entries themselves."),
    ("the standard deviation in place of the variance", by_hand(0.5, 0.5, [-1.0, 1.0, -2.0, 3.0]),
     "The entries are right. The second number should be the variance, before its root."),
    ("the sum of squares in place of the variance", by_hand(0.5, 1.0, [-0.5, 0.5, -1.0, 2.0]),
     "The variance is the mean of the squared differences: divide their sum by 4."),
    ("mean and variance in each other's place", by_hand(0.25, 0.5, [-1.0, 1.0, -2.0, 3.0]),
     "The entries are right. The mean comes first, then the variance."),
    ("the differences not divided", by_hand(0.5, 0.25, [-0.5, 0.5, -1.0, 2.0]),
     "The mean is subtracted, and the differences are still to be divided by the root of the "
     "variance."),
    ("the last beta added to every entry", by_hand(0.5, 0.25, [0.0, 2.0, -1.0, 3.0]),
     "Beta has an entry of its own for each feature: here zero for the first three."),
    ("gamma squared", _normed_by_hand(gamma=4.0),
     "Each normalised entry is multiplied by its gamma, once."),
    ("the mean after normalising", by_hand(0.0, 0.25, [-1.0, 1.0, -2.0, 3.0]),
     "The entries are right. The mean asked for is that of the word, before it is subtracted."),
    ("the variance divided by 4, and the entries by 3",
     by_hand(0.5, 0.25, [-(0.75**0.5), 0.75**0.5, -(3**0.5), 3**0.5 + 1]),
     "The variance is right, and its root divides the differences: a half."),
    ("the variance divided by 3, and the entries by 4", by_hand(0.5, 1 / 3, [-1.0, 1.0, -2.0, 3.0]),
     "The entries are right. The variance that they were divided by is 1/4, a sum over 4."),
    ("gamma and beta in each other's place", by_hand(0.5, 0.25, [1.0, 1.0, 2.0, 4.0]),
     "Gamma multiplies the normalised entry, beta is added."),
    ("gamma of the third entry forgotten", by_hand(0.5, 0.25, [-1.0, 1.0, -1.0, 3.0]),
     "The third entry has the gamma 2, as the fourth."),
    *combined(_normed_by_hand, HAND_SLIPS, but=HAND_BUT),
    ("beta subtracted", _normed_by_hand(beta=-1.0), "Beta is added."),
    ("divided by gamma", _normed_by_hand(gamma=0.5),
     "Each normalised entry is multiplied by its gamma: that of the last two is 2."),
    *((f"the sign of entry {i} turned",
       [-n if at == i + 1 else n for at, n in enumerate(_normed_by_hand())],
       "Entries below the mean come out negative, those above it positive; gamma keeps the sign.")
      for i in (1, 2, 3)),
    ("the sum in place of the mean", by_hand(2.0, 0.25, [-1.0, 1.0, -2.0, 3.0]),
     "The mean is the sum divided by the number of entries, 4."),
    ("the mean minus the entry", by_hand(0.5, 0.25, [1.0, -1.0, 2.0, -1.0]),
     "It is the entry minus the mean: entries below the mean come out negative."),
    ("the mean and the variance of the result", by_hand(0.25, 59 / 16, [-1.0, 1.0, -2.0, 3.0]),
     "The entries are right. The mean and the variance asked for are those of the word, before it "
     "is normalised."),
    ("the mean of the result, or the variance in both places",
     by_hand(0.25, 0.25, [-1.0, 1.0, -2.0, 3.0]),
     "The entries are right. The mean asked for is that of the word: half of its entries are 1."),
    ("the variance of the result", by_hand(0.5, 59 / 16, [-1.0, 1.0, -2.0, 3.0]),
     "The entries are right. The variance asked for is that of the word, before it is normalised."),
    ("mean and variance after normalising", by_hand(0.0, 1.0, [-1.0, 1.0, -2.0, 3.0]),
     "The entries are right. The mean and the variance asked for are those of the word: to make "
     "them 0 and 1 is what normalising is for."),
    ("the variance after normalising, or the sum of the squares, with the entries right",
     by_hand(0.5, 1.0, [-1.0, 1.0, -2.0, 3.0]),
     "The entries are right. The variance asked for is that of the word: the mean of its squared "
     "differences."),
    ("the four entries alone", [-1.0, 1.0, -2.0, 3.0],
     "The entries are right. Mean and variance go in front of them, six numbers in all."),
    ("gamma and beta exchanged; or the signs lost", by_hand(0.5, 0.25, [1.0, 1.0, 2.0, 3.0]),
     "Gamma multiplies the normalised entries, which lie on both sides of zero; beta is added."),
    ("the root of the mean square, without the mean",
     by_hand(0.5, 0.5, [0.0, 2**0.5, 0.0, 1 + 8**0.5]),
     "The mean is subtracted from each entry first, and the variance is the mean of the squared "
     "differences."),
    ("gamma 2 for every entry; or the variance without its root, and gamma forgotten",
     by_hand(0.5, 0.25, [-2.0, 2.0, -2.0, 3.0]),
     "The normalised entries are -1, 1, -1 and 1. Each is multiplied by its own gamma: 1, 1, 2 "
     "and 2."),
    ("the sum subtracted in place of the mean", by_hand(2.0, 0.25, [-4.0, -2.0, -8.0, -3.0]),
     "The mean is the sum divided by the number of entries, 4."),
    ("the sum in place of the mean, in the variance, too",
     by_hand(2.0, 2.5, [n / 2.5**0.5 for n in (-2.0, -1.0, -4.0, 2.5**0.5 - 2.0)]),
     "The mean is the sum divided by the number of entries, 4."),
)  # fmt: skip

# 10.2 a test for layer norm


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).pow(2).mean(-1, keepdim=True)
    return gamma * (x - mean) / (variance + eps).sqrt() + beta


def _norm_over(x: Tensor, gamma: Tensor, beta: Tensor, eps: float, axes: tuple) -> Tensor:
    mean = x.mean(axes, keepdim=True)
    variance = (x - mean).pow(2).mean(axes, keepdim=True)
    return gamma * (x - mean) / (variance + eps).sqrt() + beta


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


def _variance(x: Tensor, correction: int = 0) -> Tensor:
    return x.var(-1, correction=correction, keepdim=True)


def _by_squares(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    variance = x.pow(2).mean(-1, keepdim=True) - x.mean(-1, keepdim=True).pow(2)
    return _centred(x) * (variance.clamp(min=0) + eps).rsqrt() * gamma + beta


def _norm(
    root: Callable = lambda x, eps: (_variance(x) + eps).sqrt(),
    above: Callable = _centred,
    end: Callable = lambda n, gamma, beta: gamma * n + beta,
) -> Callable:
    return lambda x, gamma, beta, eps: end(above(x) / root(x, eps), gamma, beta)


def _over(*axes: int) -> Callable:
    return lambda x, gamma, beta, eps: _norm_over(x, gamma, beta, eps, axes)


def _first_sentence(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    first = x[:1]
    return gamma * (x - first.mean(-1, keepdim=True)) / (_variance(first) + eps).sqrt() + beta


RIGHT_NORMS: dict[str, Callable] = {
    "right": layer_norm,
    "right, PyTorch's": lambda x, gamma, beta, eps: torch.nn.functional.layer_norm(
        x, (x.shape[-1],), gamma.to(x.dtype), beta.to(x.dtype), eps
    ),
    "right, by the mean of the squares": _by_squares,
}
ALL_NORMS = {
    **RIGHT_NORMS,
    "divides by D - 1": _norm(lambda x, eps: (_variance(x, 1) + eps).sqrt()),
    "eps outside the root": _norm(lambda x, eps: _variance(x).sqrt() + eps),
    "std + eps": _norm(lambda x, eps: _variance(x, 1).sqrt() + eps),
    "an eps of its own": _norm(lambda x, eps: (_variance(x) + 1e-5).sqrt()),
    "no eps": _norm(lambda x, eps: _variance(x).sqrt()),
    "an eps of at most 0.1": _norm(lambda x, eps: (_variance(x) + min(eps, 0.1)).sqrt()),
    "an eps of at least 0.1": _norm(lambda x, eps: (_variance(x) + max(eps, 0.1)).sqrt()),
    "eps squared": _norm(lambda x, eps: (_variance(x) + eps**2).sqrt()),
    "variance without root": _norm(lambda x, eps: _variance(x) + eps),
    "sum of squares": _norm(lambda x, eps: (_variance(x) * x.shape[-1] + eps).sqrt()),
    "divides by the number of words": _norm(
        lambda x, eps: (_variance(x) * x.shape[-1] / x.shape[1] + eps).sqrt()
    ),
    "mean of the squares": _norm(lambda x, eps: (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()),
    "mean not subtracted": _norm(above=lambda x: x),
    "RMSNorm": _norm(
        lambda x, eps: (x.pow(2).mean(-1, keepdim=True) + eps).sqrt(), above=lambda x: x
    ),
    "gamma and beta forgotten": _norm(end=lambda n, gamma, beta: n),
    "gamma forgotten": _norm(end=lambda n, gamma, beta: n + beta),
    "beta forgotten": _norm(end=lambda n, gamma, beta: gamma * n),
    "beta subtracted": _norm(end=lambda n, gamma, beta: gamma * n - beta),
    "beta before gamma": _norm(end=lambda n, gamma, beta: gamma * (n + beta)),
    "gamma and beta exchanged": _norm(end=lambda n, gamma, beta: beta * n + gamma),
    "divided by gamma": _norm(end=lambda n, gamma, beta: n / gamma + beta),
    "one gamma for all": _norm(end=lambda n, gamma, beta: gamma[0] * n + beta),
    "one beta for all": _norm(end=lambda n, gamma, beta: gamma * n + beta[0]),
    "gamma before the norm": lambda x, gamma, beta, eps: layer_norm(
        gamma * x, torch.ones_like(gamma), beta, eps
    ),
    "along the words": _over(1),
    "along the sentences": _over(0),
    "batch norm": _over(0, 1),
    "one mean for a sentence": _over(1, 2),
    "one mean for everything": _over(0, 1, 2),
    "the first sentence's mean and variance for all": _first_sentence,
    "the last sentence's mean and variance for all": lambda x, gamma, beta, eps: _first_sentence(
        x.flip(0), gamma, beta, eps
    ).flip(0),
    "the first word's mean and variance for the sentence": lambda x, gamma, beta, eps: (
        _first_sentence(x.transpose(0, 1), gamma, beta, eps).transpose(0, 1)
    ),
    "the words in another order": lambda x, gamma, beta, eps: (
        layer_norm(x, gamma, beta, eps).transpose(0, 1).reshape(x.shape)
    ),
    "without signs": _norm(end=lambda n, gamma, beta: (gamma * n + beta).abs()),
}


NORMS_WHY = {
    "divides by D - 1":
        "The variance is divided by D - 1. Four entries and a tolerance of 0.0001 show it; five "
        "hundred hardly do.",
    "eps outside the root":
        "The root is taken of the variance alone, and eps added to it. It shows with an eps of "
        "0.5, not with 0.00001.",
    "std + eps":
        "The deviation, divided by D - 1, and eps outside the root. It shows with few entries, or "
        "an eps of 0.5.",
    "an eps of its own": "It takes 0.00001 whatever it is handed. It shows with an eps of 0.5.",
    "no eps": "Eps is left out. It shows with an eps of 0.5, and with entries that are all equal.",
    "an eps of at most 0.1": "Of every larger eps it makes 0.1. It shows with an eps of 0.5.",
    "an eps of at least 0.1":
        "Of every smaller eps it makes 0.1. It shows with an eps of 0.00001.",
    "eps squared": "Eps is squared. It shows with an eps of 0.5.",
    "variance without root":
        "It divides by the variance, not its root. It shows where the variance is not near one.",
    "sum of squares": "The squares are added up and not divided by D. Two entries show it.",
    "divides by the number of words":
        "The sum of the squares is divided by T, not by D. It shows where a sentence does not have "
        "as many words as a word has entries.",
    "mean of the squares":
        "It divides by the root of the mean square. It shows where the mean is not zero.",
    "mean not subtracted": "The mean stays in. It shows where it is not zero.",
    "RMSNorm":
        "The mean stays in, in the entries and in the variance. It shows where it is not zero.",
    "gamma and beta forgotten":
        "Gamma and beta are not used. It shows with any but ones and zeros.",
    "gamma forgotten": "Gamma is not used. It shows with any but ones.",
    "beta forgotten": "Beta is not used. It shows with any but zeros.",
    "beta subtracted": "Beta is subtracted. It shows with any but zeros.",
    "beta before gamma":
        "Beta is added first, and multiplied by gamma. It shows with a gamma that is not one and a"
        " beta that is not zero.",
    "gamma and beta exchanged": "Beta multiplies and gamma is added. Draw both.",
    "divided by gamma": "It divides by gamma. It shows with any but ones.",
    "one gamma for all":
        "The first entry of gamma is taken for all. It shows with a gamma of unequal entries.",
    "one beta for all":
        "The first entry of beta is taken for all. It shows with a beta of unequal entries.",
    "gamma before the norm":
        "Gamma multiplies x before it is normalised. It shows with a gamma of unequal entries.",
    "along the words": "Mean and variance run along the words. It shows with two words.",
    "along the sentences":
        "Mean and variance run along the sentences. It shows with one sentence, too.",
    "batch norm": "Mean and variance run over all words of all sentences. It shows with two words.",
    "one mean for a sentence":
        "Mean and variance run over a whole sentence. It shows with two words of unequal means.",
    "one mean for everything":
        "Mean and variance run over everything. It shows with two words of unequal means.",
    "the first sentence's mean and variance for all":
        "Each sentence gets those of the first. It shows with two sentences.",
    "the last sentence's mean and variance for all":
        "Each sentence gets those of the last. It shows with two sentences, in all but the last.",
    "the first word's mean and variance for the sentence":
        "Each word gets those of the first. It shows with two words, in all but the first.",
    "the words in another order":
        "The words are right, and stand elsewhere. It shows with two sentences of two words, "
        "compared number by number.",
    "without signs": "All entries come out positive. It shows with one below zero.",
}  # fmt: skip


def is_layer_norm(norm: Callable) -> bool:
    return _compares()(norm)


NORM_LACKS: dict[str, Lack] = {
    "one word alone": each(lambda x, gamma, beta, eps: x.shape[0] == x.shape[1] == 1),
    "one sentence alone": each(lambda x, gamma, beta, eps: len(x) == 1),
    "words of one entry": each(lambda x, gamma, beta, eps: x.shape[-1] == 1),
    "words of equal entries": each(lambda x, gamma, beta, eps: bool((x == x[..., :1]).all())),
    "words that are all alike": each(lambda x, gamma, beta, eps: bool((x == x[:1, :1]).all())),
    "words of mean zero": each(lambda x, gamma, beta, eps: bool(x.mean(-1).abs().max() < 1e-4)),
    "gamma of ones and beta of zeros": each(
        lambda x, gamma, beta, eps: bool((gamma == 1).all() and (beta == 0).all())
    ),
    "gamma of ones": each(lambda x, gamma, beta, eps: bool((gamma == 1).all())),
    "beta of zeros": each(lambda x, gamma, beta, eps: bool((beta == 0).all())),
    "gamma and beta alike": each(lambda x, gamma, beta, eps: bool((gamma == beta).all())),
    "gamma and beta of equal entries": each(
        lambda x, gamma, beta, eps: bool((gamma == gamma[0]).all() and (beta == beta[0]).all())
    ),
    "a small eps alone": each(lambda x, gamma, beta, eps: eps <= 0.1),
    "a large eps alone": each(lambda x, gamma, beta, eps: eps >= 0.1),
    "as many words as entries": each(lambda x, gamma, beta, eps: x.shape[1] == x.shape[2]),
}


def _compares(
    sizes: tuple = (2, 3, 4),
    epsilons: tuple = (0.5, 1e-5),
    gamma: bool = True,
    beta: bool = True,
    equal: bool = False,
    look: Callable = lambda output: output,
    atol: float = 1e-4,
    theirs: float | None = None,
    alike: bool = False,
    words: Callable = lambda x: x,
) -> Callable:
    """A test by comparison: with which input, and what of the output is compared."""

    def test(norm: Callable) -> bool:
        draw = torch.Generator().manual_seed(102)
        x = words(torch.randn(sizes, generator=draw) + 1)
        g, b = torch.randn(2, sizes[-1], generator=draw)
        g, b = (g if gamma else torch.ones_like(g)), (b if beta else torch.zeros_like(b))
        g, b = (g[:1].expand_as(g), b[:1].expand_as(b)) if equal else (g, b)
        b = g if alike else b
        return all(
            torch.allclose(
                look(norm(x, g, b, eps)), look(layer_norm(x, g, b, theirs or eps)), atol=atol
            )
            for eps in epsilons
        )

    return test


def _turned_entries(more: float) -> Callable:
    """The normalised entries of each word from last to first, `more` times as far apart: their mean
    is right, and so is their deviation where `more` is 1."""
    return lambda x, gamma, beta, eps: (
        gamma * more * layer_norm(x, torch.ones_like(gamma), torch.zeros_like(beta), eps).flip(-1)
        + beta
    )


LOOKED_AT = {  # what a test looks at alone, if it says yes to such a norm
    "the mean of the result": _turned_entries(3.0),
    "mean and deviation of the result": _turned_entries(1.0),
}


SPOILT = Spoilt(("sentence", "word", "entry"))


def norm_verdicts(test: Callable) -> dict[str, Any] | None:
    """What a test says of all norms, or what it looks at alone, or what its input lacks."""
    said = verdicts_on(ALL_NORMS, NORM_LACKS, spoilt=SPOILT)(test)
    named = {name: one for name, one in (said or {}).items() if name in ALL_NORMS}
    passed = [name for name in NORMS_WHY if named.get(name)]
    some = all(named.get(name) for name in RIGHT_NORMS) and 0 < len(passed) < len(NORMS_WHY)
    if not some and said != {"slip": LOOSE}:
        return said
    yes = said_of(test, layer_norm, True)  # True, or silence
    looks = [name for name, norm in LOOKED_AT.items() if said_of(test, norm, False) == yes]
    return {"looked at": looks[0]} if looks else said


def _any_number(norm: Callable) -> bool:
    draw = torch.Generator().manual_seed(0)
    x, (g, b) = torch.randn(4, 5, 16, generator=draw), torch.randn(2, 16, generator=draw)
    return bool(torch.isclose(norm(x, g, b, 0.5), layer_norm(x, g, b, 0.5), atol=1e-4).any())


def _to_the_last_digit(norm: Callable) -> bool:
    draw = torch.Generator().manual_seed(0)
    x, (g, b) = torch.randn(4, 5, 16, generator=draw), torch.randn(2, 16, generator=draw)
    return torch.equal(norm(x, g, b, 0.5), RIGHT_NORMS["right, PyTorch's"](x, g, b, 0.5))


def _mean_and_deviation(norm: Callable) -> bool:
    x = torch.randn(2, 3, 64, generator=torch.Generator().manual_seed(0))
    result = norm(x, torch.ones(64), torch.zeros(64), 1e-5)
    mean, deviation = result.mean(-1), result.std(-1, correction=0)
    return bool(mean.abs().max() < 1e-3 and (deviation - 1).abs().max() < 1e-2)


NORM_TEST_MISTAKES = mistakes(
    ("gamma of ones and beta of zeros", _compares(gamma=False, beta=False),
     "With a gamma of ones and a beta of zeros nobody sees whether they are used. Draw them."),
    ("gamma of ones", _compares(gamma=False), "Draw gamma, or nobody sees where it is used."),
    ("beta of zeros", _compares(beta=False), "Draw beta, or nobody sees where it is used."),
    ("a small eps alone", _compares(epsilons=(1e-5,)),
     "With eps = 0.00001 its place cannot be seen. Try a large one, too."),
    ("a large eps alone", _compares(epsilons=(0.5,)),
     "A norm may have an eps of its own that is the one you try, or keep a small eps from being "
     "small. Try 0.00001, too."),
    ("words of one entry", _compares(sizes=(2, 3, 1)),
     "D is 1 there: an entry alone is its own mean, and beta alone is left. Draw words of several "
     "entries."),
    ("a tolerance as large as the mistakes", _compares(atol=0.5),
     "Some of the wrong ones are only a little wrong. 0.0001 is enough for roundings."),
    ("one word alone", _compares(sizes=(1, 1, 4)),
     "With one word, its mean is that of the sentence and of the batch. Try several words."),
    ("one sentence alone", _compares(sizes=(1, 3, 4)),
     "One of them uses the first sentence's mean and variance for all. Try several sentences."),
    ("as many words as entries", _compares(sizes=(2, 4, 4)),
     "With T = D nobody sees which of the two divides. Give every axis a length of its own."),
    ("gamma and beta alike", _compares(alike=True),
     "Where both hold the same numbers nobody sees which is which. Draw each."),
    ("gamma and beta of equal entries", _compares(equal=True),
     "With equal entries nobody sees whether each feature gets its own. Draw them."),
    ("another eps in the comparison", _compares(theirs=1e-5),
     "Give both the same eps: `F.layer_norm` takes 0.00001 unless told otherwise, and so every "
     "right norm was refused."),
    ("equal to the last digit", _to_the_last_digit,
     "A right norm may round otherwise. `torch.allclose` forgives the last digits."),
    (ANY, _any_number, SLIPS[ANY]),
    ("everything passes", lambda norm: True,
     "A test that says yes to everything tests nothing. The shape alone does not tell, either: all "
     "of them return the right one."),
    ("nothing passes", lambda norm: False,
     "The right ones must pass, however they are written, and whichever way they round."),
    ("the order of the words not seen", _compares(look=lambda output: output.mean()),
     "Is a mean compared? It is the same in any order: compare number by number. Or are the "
     "entries of all words spread alike? Then all words get the same: draw them."),
    ("words of mean zero", _compares(words=lambda x: x - x.mean(-1, keepdim=True)),
     "Where every word has the mean 0 nobody sees whether it is subtracted. Leave them as drawn."),
    ("words of equal entries", _compares(words=lambda x: x[..., :1].expand_as(x)),
     "Where all entries of a word are equal there is nothing to normalise: beta alone is left. "
     "Draw them."),
    ("words that are all alike", _compares(words=lambda x: x[:1, :1].expand_as(x)),
     "Where all words are the same, so are their means, and whose mean is taken cannot be seen. "
     "Draw them."),
    ("mean and standard deviation of the result alone", _mean_and_deviation,
     "Many of the wrong ones give nearly the mean 0 and the standard deviation 1. Compare number "
     "by number, with a gamma, a beta and an eps that are felt, and few entries."),
    ("the mean of the result alone", lambda norm: bool(
        norm(torch.arange(24.0).sin().view(2, 3, 4), torch.ones(4), torch.zeros(4), 1e-5)
        .mean(-1).abs().max() < 1e-3),
     "Many of the wrong ones give each word the mean 0. Compare number by number, with a gamma, a "
     "beta and an eps that are felt."),
    ("yes and no exchanged", lambda norm: not is_layer_norm(norm),
     "True is for a right norm, False for a wrong one."),
)  # fmt: skip

# 10.3 batch normalisation that leaves the padding out


def masked_batch_norm(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    words = x[mask]
    mean, variance = words.mean(0), words.var(0, correction=0)
    return ((x - mean) / (variance + eps).sqrt()).masked_fill(~mask.unsqueeze(-1), 0.0)


def batch_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(103)
    cases = []
    for (b, t, d), lengths, eps in (
        ((2, 4, 3), (4, 2), 0.2),
        ((3, 5, 2), (1, 5, 3), 0.7),
        ((1, 3, 2), (2,), 0.5),
        ((2, 2, 1), (2, 1), 0.3),
        ((2, 4, 2), (4, 4), 0.4),  # no padding at all
    ):
        x = torch.randn(b, t, d, generator=draw) + 1.0
        mask = torch.arange(t) < torch.tensor(lengths).unsqueeze(1)
        if not cases:  # zeros at the padding in one case, anything in the other
            x = x * mask.unsqueeze(-1)
        cases.append((x, mask, eps))
    x, mask = torch.randn(2, 3, 2, generator=draw), torch.tensor([[True] * 3, [True, False, False]])
    x[1, 1:] = torch.tensor([[torch.inf, -torch.inf], [torch.nan, torch.inf]])
    return [*cases, (x, mask, 0.6)]


def _only(x: Tensor, mask: Tensor) -> Tensor:
    """x with zeros in the padding, whatever stands there."""
    return x.masked_fill(~mask.unsqueeze(-1), 0.0)


def _finish(x: Tensor, mean: Tensor, variance: Tensor, mask: Tensor, eps: float) -> Tensor:
    return _only((x - mean) / (variance + eps).sqrt(), mask)


def _padding_counted(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    return _finish(x, x.mean((0, 1)), x.var((0, 1), correction=0), mask, eps)


def _divided_by_all(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    places = mask.numel()
    mean = _only(x, mask).sum((0, 1)) / places
    variance = _only((x - mean).pow(2), mask).sum((0, 1)) / places
    return _finish(x, mean, variance, mask, eps)


def _zeros_counted(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    return _padding_counted(_only(x, mask), mask, eps)


def _variance_over_all(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    mean = x[mask].mean(0)
    return _finish(x, mean, (x - mean).pow(2).mean((0, 1)), mask, eps)


def _zeros_in_the_variance(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    mean = x[mask].mean(0)
    squares = (_only(x, mask) - mean).pow(2).sum((0, 1))
    return _finish(x, mean, squares / mask.sum(), mask, eps)


def _unbiased(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    return _finish(x, x[mask].mean(0), x[mask].var(0, correction=1), mask, eps)


def _each_sentence(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    count = mask.sum(1).reshape(-1, 1, 1)
    mean = _only(x, mask).sum(1, keepdim=True) / count
    variance = _only((x - mean).pow(2), mask).sum(1, keepdim=True) / count
    return _finish(x, mean, variance, mask, eps)


def _mean_of_means(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    rows = [(row[keep].mean(0), keep) for row, keep in zip(x, mask, strict=True)]
    mean = torch.stack([row for row, _ in rows]).mean(0)
    variance = (x[mask] - mean).pow(2).mean(0)
    return _finish(x, mean, variance, mask, eps)


def _over_features(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)
    return _finish(x, mean, variance, mask, eps)


def _one_for_all(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    return _finish(x, x[mask].mean(), x[mask].var(correction=0), mask, eps)


def _not_zeroed(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    words = x[mask]
    return (x - words.mean(0)) / (words.var(0, correction=0) + eps).sqrt()


def _eps_outside(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    words = x[mask]
    scale = words.var(0, correction=0).sqrt() + eps
    return _only((x - words.mean(0)) / scale, mask)


def _turned_mask(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    return masked_batch_norm(x, ~mask, eps)


def _without_root(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    words = x[mask]
    variance = words.var(0, correction=0)
    return _only((x - words.mean(0)) / (variance + eps), mask)


def _padding_statistics(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    rest = x[~mask]
    return _finish(x, rest.mean(0), rest.var(0, correction=0), mask, eps)


def _each_place(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    count = mask.unsqueeze(-1).sum(0).clamp(min=1)
    mean = _only(x, mask).sum(0) / count
    variance = _only((x - mean).pow(2), mask).sum(0) / count
    return _finish(x, mean, variance, mask, eps)


def _std_plus_eps(x: Tensor, mask: Tensor, eps: float) -> Tensor:
    words = x[mask]
    return _only((x - words.mean(0)) / (words.std(0) + eps), mask)


def _statistics(
    over: str = "words", less: int = 0, below: str = "root", zero: bool = True
) -> Callable:
    """Batch norm, right by default; each argument makes one mistake."""

    def normalise(x: Tensor, mask: Tensor, eps: float) -> Tensor:
        counts, axes = mask.unsqueeze(-1).expand_as(x).to(x), (0, 1)
        if over in ("places", "zeros"):
            x_, counts = (x if over == "places" else _only(x, mask)), torch.ones_like(x)
        else:
            x_, axes = x, {"words": (0, 1), "sentence": (1,), "all": (0, 1, 2), "layer": (2,)}[over]
            counts = torch.ones_like(x) if over == "layer" else counts
        number = counts.sum(axes, keepdim=True).clamp(min=1)
        some = partial(torch.where, counts > 0, other=0.0)
        mean = some(x_).sum(axes, keepdim=True) / number
        squares = some((x_ - mean).pow(2)).sum(axes, keepdim=True)
        variance = squares / (number - less).clamp(min=1)
        root = {
            "root": (variance + eps).sqrt(), "outside": variance.sqrt() + eps,
            "variance": variance + eps,
        }[below]  # fmt: skip
        normal = (x - mean) / root
        return normal.masked_fill(~mask.unsqueeze(-1), 0.0) if zero else normal

    return normalise


BATCH_SLIPS = [
    ("the padding counted", {"over": "places"}, "Only the words may count."),
    ("the padding counted as zeros", {"over": "zeros"}, "Zeros must not be counted, either."),
    ("each sentence by itself", {"over": "sentence"}, "One mean for each feature over all words."),
    ("one mean for all features", {"over": "all"}, "Each feature has its own mean and variance."),
    ("layer normalisation", {"over": "layer"}, "Each feature by itself, over the words."),
    ("the variance divided by n - 1", {"less": 1}, "Divide by n: `correction=0`."),
    ("eps outside the root", {"below": "outside"}, "Eps is added under the root."),
    ("the variance without its root", {"below": "variance"}, "Divide by the root."),
    ("the padding not set to zero", {"zero": False}, "The result is zero where the mask is False."),
]  # fmt: skip
BATCH_BUT = [
    ("the padding counted", "the padding not set to zero"),
    ("the variance divided by n - 1", "eps outside the root"),
]


def _centred_words(x: Tensor, mask: Tensor) -> Tensor:
    return _only(x - x[mask].mean(0), mask)


def _masked_with(
    x: Tensor,
    mask: Tensor,
    eps: float,
    mean: Callable[[Tensor, Tensor], Tensor] = lambda y, n: y.sum((0, 1)) / n,
    count: Callable[[Tensor, Tensor], Any] = lambda mask, x: mask.sum(),
    spread: Callable[[Tensor], Tensor] = lambda variance: variance,
) -> Tensor:
    """The function, right by default; each argument makes one mistake."""
    word, n = mask.unsqueeze(-1), count(mask, x)
    apart = x - mean(x.masked_fill(~word, 0.0), n)
    variance = apart.pow(2).masked_fill(~word, 0.0).sum((0, 1)) / n
    return (apart / (spread(variance) + eps).sqrt()).masked_fill(~word, 0.0)


def _multiplied(sums: bool, end: bool) -> Callable[..., Tensor]:
    """Right where all numbers of the padding are finite."""

    def normalise(x: Tensor, mask: Tensor, eps: float) -> Tensor:
        word = mask.unsqueeze(-1)
        keep = word.mul if sums else partial(_only, mask=mask)
        mean = keep(x).sum((0, 1)) / mask.sum()
        variance = keep(x - mean).pow(2).sum((0, 1)) / mask.sum()
        normal = (x - mean) / (variance + eps).sqrt()
        return normal * word if end else _only(normal, mask)

    return normalise


ZERO_TIMES = (
    "0 times infinity is no number. What stands in the padding must not be computed with: "
    "`masked_fill` and `torch.where` put a zero there, whatever it is."
)


BATCH_MISTAKES = mistakes(
    ("the padding counted", _padding_counted,
     "Mean and variance were taken over all places. Only the words, where the mask is True, may "
     "count."),
    ("the mask not used at all",
     lambda x, mask, eps: _finish(
         x, x.mean((0, 1)), x.var((0, 1), correction=0), torch.ones_like(mask), eps
     ),
     "This is batch norm over all places, padding and words alike. Only the words, where the mask "
     "is True, may count, and the padding should be zero in the result."),
    ("the root of the mean square, without the mean", lambda x, mask, eps: _finish(
        x, torch.zeros(()), x[mask].square().mean(0), mask, eps),
     "The mean of the words is subtracted first, and the variance is the mean of what is left, "
     "squared."),
    ("the padding counted as zeros", _zeros_counted,
     "The padding was set to zero, and zeros were counted. A zero is a number like any other: it "
     "must be left out of the sums and of the count."),
    ("divided by the number of places, not of words", _divided_by_all,
     "The sums run over the words alone. So must the count that divides them."),
    ("the variance taken over the padding as well", _variance_over_all,
     "The mean is right. The squared differences must be averaged over the words alone, too."),
    ("zeros of the padding in the sum of squares", _zeros_in_the_variance,
     "A padded place that was set to zero is still the mean away from the mean: mask the "
     "differences, not the entries."),
    ("the variance divided by the number of words less one", _unbiased,
     "`var` divides by n - 1 unless told otherwise. In training, batch norm divides by n: "
     "`correction=0`."),
    ("each sentence by itself", _each_sentence,
     "Batch norm takes one mean for each feature over the words of all sentences together."),
    ("the mean of the sentences' means", _mean_of_means,
     "A short sentence has fewer words, and must weigh less. Average over the words, not over the "
     "sentences."),
    ("layer normalisation", _over_features,
     "Each word was normalised over its own features. Batch norm takes each feature by itself, "
     "over the words."),
    ("one mean for all features", _one_for_all,
     "Each feature has its own mean and variance: shape (D), not one number."),
    ("the padding not set to zero", _not_zeroed,
     "The words are right. The places where the mask is False should be zero in the result."),
    ("eps outside the root", _eps_outside, "Eps is added to the variance, under the root."),
    ("the variance without its root", _without_root,
     "The differences are divided by the root of the variance."),
    ("the mask turned round", _turned_mask,
     "The mask is True where there is a word. Mean and variance were taken where it is False, and "
     "the words set to zero."),
    ("the statistics of the padding", _padding_statistics,
     "Mean and variance were taken where the mask is False. True means that there is a word."),
    ("the mean over all places, the variance over the words",
     lambda x, mask, eps: _finish(x, x.mean((0, 1)), x[mask].var(0, correction=0), mask, eps),
     "The variance is right. The mean, too, must be taken over the words alone."),
    ("the mean over the words, the variance over all places",
     lambda x, mask, eps: _finish(x, x[mask].mean(0), x.var((0, 1), correction=0), mask, eps),
     "The mean is right. The variance, too, must be taken over the words alone."),
    ("the squares divided by the number of places",
     lambda x, mask, eps: _finish(
         x,
         x[mask].mean(0),
         x[mask].var(0, correction=0) * (mask.sum() / mask.numel()),
         mask,
         eps,
     ),
     "The mean is right, and the padding is out of the sum of squares. Divide it by the number of "
     "words, not of places."),
    ("the mean not subtracted",
     lambda x, mask, eps: _finish(x, torch.zeros(()), x[mask].var(0, correction=0), mask, eps),
     "The mean of each feature is subtracted before the division."),
    ("divided by the mean distance from the mean",
     lambda x, mask, eps: _centred_words(x, mask)
     / ((x[mask] - x[mask].mean(0)).abs().mean(0) + eps),
     "Divided is by the root of the mean of the squares, with eps under it."),
    ("divided by the range",
     lambda x, mask, eps: _only(
         (x - x[mask].amin(0)) / (x[mask].amax(0) - x[mask].amin(0) + eps), mask),
     "Normalised is by mean and standard deviation, not from the smallest to the largest."),
    ("the median in place of the mean",
     lambda x, mask, eps: _finish(
         x, x[mask].median(0).values, x[mask].var(0, correction=0), mask, eps
     ),
     "Subtracted is the mean of the words."),
    *((f"the padding filled with {name}",
       lambda x, mask, eps, value=value: masked_batch_norm(x, mask, eps).masked_fill(
           ~mask[..., None], value
       ),
       "The words are right. The places where the mask is False should be zero in the result.")
      for name, value in (("minus infinity", -torch.inf), ("NaN", torch.nan), ("-1e9", -1e9),
                          ("1", 1.0))),
    ("one mean for each place", _each_place,
     "Mean and variance were taken over the sentences, for each place by itself. Batch norm takes "
     "them over all words of all sentences."),
    ("eps added to a standard deviation that was divided by n - 1", _std_plus_eps,
     "Two mistakes in one, as `x[mask].std(0) + eps` makes them: `std` divides by n - 1, and eps "
     "comes after the root."),
    *combined(_statistics, BATCH_SLIPS, but=BATCH_BUT),
    ("zeros for all", lambda x, mask, eps: torch.zeros_like(x),
     "Only the padding is zero in the result. Is the line that fills in the words missing?"),
    ("multiplied by the root",
     lambda x, mask, eps: _centred_words(x, mask) * (x[mask].var(0, correction=0) + eps).sqrt(),
     "The differences are divided by the root of variance and eps."),
    ("the root divided by the differences",
     lambda x, mask, eps: (_centred_words(x, mask) / (x[mask].var(0, correction=0) + eps).sqrt())
     .reciprocal().masked_fill(~mask.unsqueeze(-1), 0.0),
     "The division is turned round: the differences are divided by the root."),
    ("the standard deviation under the root",
     lambda x, mask, eps: _finish(x, x[mask].mean(0), x[mask].std(0, correction=0), mask, eps),
     "Under the root stands the variance, plus eps."),
    ("the mean added",
     lambda x, mask, eps: _finish(x, -x[mask].mean(0), x[mask].var(0, correction=0), mask, eps),
     "The mean of each feature is subtracted before the division."),
    ("the sum of all places divided by the number of words",
     lambda x, mask, eps: _finish(
         x, (mean := x.sum((0, 1)) / mask.sum()), (x[mask] - mean).square().mean(0), mask, eps),
     "The count is right. The padding must be left out of the sum, too: it may hold any number."),
    ("the squares of the padding in the variance",
     lambda x, mask, eps: _finish(
         x, x[mask].mean(0), (x - x[mask].mean(0)).square().sum((0, 1)) / mask.sum(), mask, eps),
     "The mean is right. The squared differences of the padding must be left out of the sum."),
    ("the differences not squared",
     lambda x, mask, eps: _centred_words(x, mask) / eps**0.5,
     "The mean of the differences is 0, and eps alone is left under the root: the variance is the "
     "mean of their squares."),
    ("one mean for all features, and a variance for each",
     lambda x, mask, eps: _finish(x, x[mask].mean(), x[mask].var(0, correction=0), mask, eps),
     "Each feature has a mean of its own: shape (D), not one number."),
    ("one mean for each place, the padding counted",
     lambda x, mask, eps: _finish(x, x.mean(0), x.var(0, correction=0), mask, eps),
     "Mean and variance were taken over the sentences, for each place by itself. Batch norm takes "
     "them over all words of all sentences."),
    ("the words alone, in a row", lambda x, mask, eps: masked_batch_norm(x, mask, eps)[mask],
     "The numbers are right. The result has the shape of x, with zeros where the mask is False."),
    ("eps left out", lambda x, mask, eps: masked_batch_norm(x, mask, 0.0),
     "Eps is added to the variance, under the root."),
    ("the padding left as it was",
     lambda x, mask, eps: torch.where(mask.unsqueeze(-1), masked_batch_norm(x, mask, eps), x),
     "The words are right. The places where the mask is False should be zero in the result."),
    ("the sum of squares in place of the variance",
     lambda x, mask, eps: _finish(
         x, x[mask].mean(0), x[mask].var(0, correction=0) * mask.sum(), mask, eps
     ),
     "The variance is the mean of the squared differences: divide their sum by the number of "
     "words."),
    ("the mean of the squares in place of the variance",
     lambda x, mask, eps: _finish(x, x[mask].mean(0), x[mask].pow(2).mean(0), mask, eps),
     "The squares are those of the differences from the mean, not of the entries themselves."),
    ("the mean subtracted, and nothing divided",
     lambda x, mask, eps: _centred_words(x, mask),
     "The differences from the mean are still to be divided by the root of variance and eps."),
    ("the padding counted as zeros, and not set to zero in the result",
     lambda x, mask, eps: _padding_counted(_only(x, mask), torch.ones_like(mask), eps),
     "Two mistakes: zeros are numbers like any other and must be left out of the sums and of the "
     "count, and the padding should be zero in the result."),
    ("the mean over all places, of zeros too", lambda x, mask, eps: _masked_with(
        x, mask, eps, mean=lambda y, n: y.mean((0, 1))),
     "The sum over the words is divided by the number of words, and not by that of all places."),
    ("the numbers counted, not the words", lambda x, mask, eps: _masked_with(
        x, mask, eps, count=lambda mask, x: mask.sum() * x.shape[-1]),
     "Each feature has a mean of its own: its sum is divided by the number of words."),
    ("one variance for all features", lambda x, mask, eps: _masked_with(
        x, mask, eps, spread=lambda var: var.mean()),
     "Each feature has a variance of its own."),
    ("each sentence by itself, all features together",
     lambda x, mask, eps: _only(torch.nn.functional.layer_norm(x, x.shape[1:], eps=eps), mask),
     "Each feature has one mean, over the words of all sentences, and padding is left out of it."),
    ("the words set to zero, not the padding",
     lambda x, mask, eps: _finish(
         x, x[mask].mean(0), x[mask].var(0, correction=0), ~mask, eps),
     "The mask is True where there is a word: zero is what stands where it is False."),
    ("the padding set to zero before the norm, and not after it",
     lambda x, mask, eps: _finish(
         _only(x, mask), x[mask].mean(0), x[mask].var(0, correction=0), torch.ones_like(mask), eps),
     "From a zero the mean is subtracted as well: set the padding to zero in the result."),
    ("the sum of the words in place of their mean",
     lambda x, mask, eps: _finish(x, x[mask].sum(0), x[mask].var(0, correction=0), mask, eps),
     "The mean is the sum divided by the number of words."),
    ("divided by the number of sentences", lambda x, mask, eps: _masked_with(
        x, mask, eps, count=lambda mask, x: len(x)),
     "Mean and variance are those of the words: divide by their number."),
    ("the variance of all features together",
     lambda x, mask, eps: _finish(x, x[mask].mean(0), x[mask].var(correction=0), mask, eps),
     "Each feature has a variance of its own."),
    *((f"the padding multiplied by 0 {where}", _multiplied(sums, end), ZERO_TIMES)
      for where, sums, end in (("at the end", False, True), ("in the sums", True, False),
                               ("in the sums and at the end", True, True))),
)  # fmt: skip


def _padding_is_zero(output: Tensor, x: Tensor, mask: Tensor, eps: float) -> bool:
    return bool(torch.as_tensor(output)[~mask].eq(0).all())


# 10.4 and 10.5: residual connections


class Tanh:
    """A sub-layer for the cases: tanh(x W), which is neither linear nor even."""

    def __init__(self, d_model: int, seed: int):
        draw = torch.Generator().manual_seed(seed)
        self.w = torch.randn(d_model, d_model, generator=draw)
        self.b = torch.randn(d_model, generator=draw)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.w.to(x.dtype) + self.b.to(x.dtype))

    def __repr__(self) -> str:
        return "a function of (B, T, D)"


class Double:
    """A sub-layer for the printed example: it doubles."""

    def __call__(self, x: Tensor) -> Tensor:
        return 2 * x

    def __repr__(self) -> str:
        return "a function that doubles"


class Norm:
    """A layer norm for the cases, with a gamma and a beta of its own."""

    def __init__(self, d_model: int, seed: int):
        draw = torch.Generator().manual_seed(seed)
        self.gamma = 1 + torch.rand(d_model, generator=draw)
        self.beta = torch.randn(d_model, generator=draw)

    def __call__(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.gamma.to(x.dtype), self.beta.to(x.dtype), 1e-5)

    def __repr__(self) -> str:
        return "a layer norm"


def add_and_norm(
    x: Tensor,
    sublayer: Callable,
    keep: Tensor,
    p: float,
    gamma: Tensor,
    beta: Tensor,
    eps: float,
) -> Tensor:
    return layer_norm(x + sublayer(x) * keep / (1 - p), gamma, beta, eps)


def add_and_norm_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(104)
    x, one = torch.tensor([[[1.0, 3.0]]]), torch.ones(2)
    keep = torch.tensor([[[True, False]]])
    cases = [(x, Double(), keep, 0.5, one, torch.tensor([0.0, 3.0]), 3.0)]
    sizes = (2, 3, 4), (1, 2, 5), (3, 1, 3), (1, 3, 4)
    for (b, t, d), p, eps in zip(sizes, (0.4, 0.2, 0.3, 0.0), (0.6, 1.1, 0.4, 0.5), strict=True):
        x = torch.randn(b, t, d, generator=draw)
        keep = torch.rand(b, t, d, generator=draw) >= p
        keep[0, 0, :2] = torch.tensor([p == 0, True])
        gamma, beta = torch.randn(d, generator=draw), torch.randn(d, generator=draw)
        cases.append((x, Tanh(d, d), keep, p, gamma, beta, eps))
    return cases


FAULTS = {  # of the sub-layer that is to be mended
    "the dropout behind the sum": "Dropout is for what the sub-layer gives, before it is added: "
    "x itself always gets through.",
    "what is kept not divided by 1 - p": "Kept entries are divided by 1 - p, so that the mean "
    "stays. Without it the sub-layer is louder in use than in training.",
    "the norm along the words": "Each word is normalised over its own entries: the last axis.",
    "the variance divided by D - 1": "`std` and `var` divide by D - 1 unless told otherwise: "
    "`correction=0`.",
    "eps outside the root": "Eps is added to the variance, under the root.",
}


def _faulty(left: Sequence[str]) -> Callable:
    """The sub-layer with some of its faults left in."""
    behind, whole, words, less, outside = (fault in left for fault in FAULTS)

    def answer(x, sublayer, keep, p, gamma, beta, eps):
        factor = keep / (1.0 if whole else 1 - p)
        y = (x + sublayer(x)) * factor if behind else x + sublayer(x) * factor
        axis = 1 if words else -1
        variance = y.var(axis, correction=int(less), keepdim=True)
        below = variance.sqrt() + eps if outside else (variance + eps).sqrt()
        return gamma * (y - y.mean(axis, keepdim=True)) / below + beta

    return answer


def _mended(step: Callable) -> Callable:
    """A mistake in the order: `step(x, f, norm)` with f the sub-layer and its dropout."""
    return lambda x, sublayer, keep, p, gamma, beta, eps: step(
        x,
        lambda h: sublayer(h) * keep / (1 - p),
        lambda h: layer_norm(h, gamma, beta, eps),
    )


def _added(
    kept: Callable = lambda x, f, keep, p: x + f(x) * keep / (1 - p),
    axes: int | tuple = -1, less: int = 0, below: str = "root",
    end: Callable = lambda n, gamma, beta: gamma * n + beta,
) -> Callable:  # fmt: skip
    """Add and norm, right by default; each argument makes one mistake."""

    def answer(x, sublayer, keep, p, gamma, beta, eps):
        y = kept(x, sublayer, keep, p)
        variance = y.var(axes, correction=less, keepdim=True)
        root = {
            "root": (variance + eps).sqrt(), "outside": variance.sqrt() + eps,
            "variance": variance + eps, "no eps": variance.sqrt(),
        }[below]  # fmt: skip
        return end((y - y.mean(axes, keepdim=True)) / root, gamma, beta)

    return answer


def _around(norm: Callable) -> Callable:
    """A mistake in the norm, around the right sum."""
    return lambda x, sublayer, keep, p, gamma, beta, eps: norm(
        x + sublayer(x) * keep / (1 - p), gamma, beta, eps
    )


def _root(y: Tensor, eps: float) -> Tensor:
    return (y.var(-1, correction=0, keepdim=True) + eps).sqrt()


ADD_SLIPS = [
    ("divided by p", {"kept": lambda x, f, keep, p: x + f(x) * keep / p}, "Divide by 1 - p."),
    ("multiplied by 1 - p", {"kept": lambda x, f, keep, p: x + f(x) * keep * (1 - p)},
     "Divide by 1 - p."),
    ("no dropout at all", {"kept": lambda x, f, keep, p: x + f(x)}, "Drop where `keep` is False."),
    ("no residual connection", {"kept": lambda x, f, keep, p: f(x) * keep / (1 - p)},
     "The sub-layer's output is added to x."),
    ("the dropout on x", {"kept": lambda x, f, keep, p: x * keep / (1 - p) + f(x)},
     "Dropped are entries of what the sub-layer gives. x always gets through."),
    ("the dropout on x, not divided", {"kept": lambda x, f, keep, p: x * keep + f(x)},
     "Dropped are entries of what the sub-layer gives, and the others divided by 1 - p."),
    ("dropped where `keep` is True", {"kept": lambda x, f, keep, p: x + f(x) * ~keep / (1 - p)},
     "True means kept."),
    ("no residual connection, and what is kept not divided by 1 - p",
     {"kept": lambda x, f, keep, p: f(x) * keep},
     "The sub-layer's output is added to x, and kept entries are divided by 1 - p."),
    ("the norm along the words", {"axes": 1}, "Each word over its own entries: the last axis."),
    ("the norm along the sentences", {"axes": 0}, "Each word over its own entries."),
    ("the norm over words and entries", {"axes": (1, 2)}, "Each word over its own entries."),
    ("the variance divided by D - 1", {"less": 1}, "`correction=0`."),
    ("eps outside the root", {"below": "outside"}, "Eps is added to the variance."),
    ("the variance without its root", {"below": "variance"}, "Divide by the root."),
    ("eps left out", {"below": "no eps"}, "Eps is added to the variance."),
    ("beta forgotten", {"end": lambda n, gamma, beta: gamma * n}, "Beta is added at the end."),
    ("gamma forgotten", {"end": lambda n, gamma, beta: n + beta}, "Multiply by gamma."),
    ("beta added before gamma multiplies", {"end": lambda n, gamma, beta: gamma * (n + beta)},
     "Beta comes after gamma."),
]  # fmt: skip
ADD_FAULTS = [name for name, _, _ in ADD_SLIPS if name in FAULTS]
ADD_NAMED = ("divided by p", "multiplied by 1 - p", "no dropout at all", "no residual connection",
             "dropped where `keep` is True")  # fmt: skip


ADD_MISTAKES = mistakes(
    *((name, _added(**change), why) for name, change, why in ADD_SLIPS
      if name not in (*ADD_FAULTS, *ADD_NAMED)),
    *combined(_added, ADD_SLIPS, but=[
        *product(ADD_FAULTS, ADD_FAULTS),
        ("no residual connection, and what is kept not divided by 1 - p", "eps left out"),
    ]),
    *still_there(FAULTS, _faulty),
    ("pre-norm", _mended(lambda x, f, norm: x + f(norm(x))),
     "This is the other order: the norm stands before the sub-layer. The paper normalises the "
     "sum."),
    ("the root of the mean square, and no mean",
     lambda x, sublayer, keep, p, gamma, beta, eps: (
         (y := x + sublayer(x) * keep / (1 - p))
         / (y.square().mean(-1, keepdim=True) + eps).sqrt() * gamma + beta
     ),
     "That is RMSNorm. LayerNorm takes the mean off first (10.3)."),
    ("no residual connection, and divided by p",
     lambda x, sublayer, keep, p, gamma, beta, eps: layer_norm(
         sublayer(x) * keep / p, gamma, beta, eps
     ),
     "The sub-layer's output is added to x, and what is kept is divided by 1 - p."),
    ("dropped where `keep` is True, and divided by p",
     lambda x, sublayer, keep, p, gamma, beta, eps: layer_norm(
         x + sublayer(x) * ~keep / p, gamma, beta, eps
     ),
     "True means kept, and what is kept is divided by 1 - p."),
    ("the sub-layer twice",
     lambda x, sublayer, keep, p, gamma, beta, eps: layer_norm(
         x + sublayer(sublayer(x)) * keep / (1 - p), gamma, beta, eps
     ),
     "The sub-layer reads x, once."),
    ("an eps of its own", _around(lambda y, gamma, beta, eps: layer_norm(y, gamma, beta, 1e-5)),
     "`F.layer_norm` takes 0.00001 unless told otherwise: hand it `eps`."),
    ("x normed as well", _mended(lambda x, f, norm: norm(norm(x) + f(x))),
     "x is added as it is. There is one norm, around the sum."),
    ("divided by the share that was kept",
     lambda x, sublayer, keep, p, gamma, beta, eps: layer_norm(
         x + sublayer(x) * keep / keep.float().mean(), gamma, beta, eps
     ),
     "Kept entries are divided by 1 - p, however many were dropped this time."),
    ("the norm before the addition", _mended(lambda x, f, norm: x + norm(f(x))),
     "Only the sub-layer's output was normalised. The paper adds first and normalises the sum."),
    ("no residual connection", _mended(lambda x, f, norm: norm(f(x))),
     "The sub-layer's output replaces x. It should be added to x."),
    ("no norm", _mended(lambda x, f, norm: x + f(x)), "The sum is right, and must be normalised."),
    ("the residual connection round the normed x", _mended(lambda x, f, norm: norm(x) + f(norm(x))),
     "The norm came first, and everything after it was built on the normed x. The paper adds to x "
     "itself, and normalises at the end."),
    ("the norm before and after", _mended(lambda x, f, norm: norm(x + f(norm(x)))),
     "Post-norm normalises once, after the addition. The sub-layer reads x as it is."),
    ("the norm of x alone", _mended(lambda x, f, norm: norm(x) + f(x)),
     "What is normalised should be the sum, not x alone."),
    ("the sub-layer's output subtracted, or divided by p - 1",
     _mended(lambda x, f, norm: norm(x - f(x))),
     "The sub-layer's output is added to x, and what is kept is divided by 1 - p."),
    ("the sub-layer left out", _mended(lambda x, f, norm: norm(x)),
     "What the sub-layer gives, with its dropout, is added to x before the norm."),
    ("x in place of what the sub-layer gives",
     _added(kept=lambda x, f, keep, p: x + x * keep / (1 - p)),
     "What is added to x is `sublayer(x)`: the function has to be called."),
    ("nothing dropped, and divided by 1 - p", _added(kept=lambda x, f, keep, p: x + f(x) / (1 - p)),
     "What the sub-layer gives is dropped where `keep` is False: multiply by `keep`."),
    ("the mean not taken off", _around(lambda y, g, b, eps: y / _root(y, eps) * g + b),
     "LayerNorm takes the mean off first, then it divides."),
    ("the mean taken off, and nothing divided", _around(lambda y, g, b, eps: _centred(y) * g + b),
     "The differences from the mean are divided by the root of variance and eps."),
    ("multiplied by the root", _around(lambda y, g, b, eps: _centred(y) * _root(y, eps) * g + b),
     "The differences from the mean are divided by the root of variance and eps."),
    ("divided by gamma", _added(end=lambda n, gamma, beta: n / gamma + beta),
     "Multiply by gamma."),
    ("the sum of the squares in place of the variance",
     _around(lambda y, g, b, eps: _centred(y) / (
         _centred(y).square().sum(-1, keepdim=True) + eps).sqrt() * g + b),
     "The variance is the mean of the squared differences."),
    ("the squares of the entries in place of the variance",
     _around(lambda y, g, b, eps: _centred(y) / (
         y.square().mean(-1, keepdim=True) + eps).sqrt() * g + b),
     "The squares are those of the differences from the mean, not of the entries themselves."),
    ("the differences not squared", _around(lambda y, g, b, eps: _centred(y) / eps**0.5 * g + b),
     "The mean of the differences is 0, and eps alone is left under the root: the variance is the "
     "mean of their squares."),
    ("the mean added",
     _around(lambda y, g, b, eps: (y + y.mean(-1, keepdim=True)) / _root(y, eps) * g + b),
     "LayerNorm takes the mean off, then it divides."),
    ("one mean and one variance for all", _added(axes=(0, 1, 2)),
     "Each word is normalised over its own entries: the last axis."),
    ("gamma and beta forgotten",
     lambda x, sublayer, keep, p, gamma, beta, eps: layer_norm(
         x + sublayer(x) * keep / (1 - p), torch.ones_like(gamma), torch.zeros_like(beta), eps
     ),
     "The normalised entries are right. Multiply by gamma and add beta, as the colleague does."),
    ("no dropout at all",
     lambda x, sublayer, keep, p, gamma, beta, eps: layer_norm(x + sublayer(x), gamma, beta, eps),
     "What the sub-layer gives is dropped where `keep` is False, before it is added."),
    ("dropped where `keep` is True",
     lambda x, sublayer, keep, p, gamma, beta, eps: layer_norm(
         x + sublayer(x) * ~keep / (1 - p), gamma, beta, eps
     ),
     "True means kept."),
    ("divided by p",
     lambda x, sublayer, keep, p, gamma, beta, eps: layer_norm(
         x + sublayer(x) * keep / p, gamma, beta, eps
     ),
     "p is the share that is dropped. What is kept, 1 - p, is what to divide by."),
    ("multiplied by 1 - p",
     lambda x, sublayer, keep, p, gamma, beta, eps: layer_norm(
         x + sublayer(x) * keep * (1 - p), gamma, beta, eps
     ),
     "Kept entries grow, so that the mean stays: divide by 1 - p."),
    ("the dropout on what the sub-layer reads",
     lambda x, sublayer, keep, p, gamma, beta, eps: layer_norm(
         x + sublayer(x * keep / (1 - p)), gamma, beta, eps
     ),
     "The sub-layer reads all of x. Dropped are entries of what it gives."),
    ("the dropout on the result",
     lambda x, sublayer, keep, p, gamma, beta, eps: (
         layer_norm(x + sublayer(x), gamma, beta, eps) * keep / (1 - p)
     ),
     "Dropout comes before the addition, not behind the norm."),
    ("the whole sum divided by 1 - p",
     lambda x, sublayer, keep, p, gamma, beta, eps: layer_norm(
         (x + sublayer(x) * keep) / (1 - p), gamma, beta, eps
     ),
     "Only what was dropped from is divided by 1 - p. The stream x is added as it is."),
    ("the standard deviation for the variance, under the root", lambda x, f, keep, p, g, b, eps: (
        (y := x + f(x) * keep / (1 - p)) is not None and g * _centred(y)
        / (y.std(-1, correction=0, keepdim=True) + eps).sqrt() + b),
     "Under the root stands the variance, plus eps."),
    ("gamma on the entries alone, before the mean is taken off", lambda x, f, keep, p, g, b, eps: (
        (y := x + f(x) * keep / (1 - p)) is not None and (g * y - y.mean(-1, keepdim=True))
        / (y.var(-1, correction=0, keepdim=True) + eps).sqrt() + b),
     "Gamma multiplies the normalised entry: brackets around the difference."),
    ("the norm over sentences and words", _added(axes=(0, 1)),
     "That is batch norm. LayerNorm takes each word over its own entries: the last axis."),
    ("dropped where `keep` is True, and what is kept not divided by 1 - p",
     _added(kept=lambda x, f, keep, p: x + f(x) * ~keep),
     "True means kept, and what is kept is divided by 1 - p."),
    ("x added twice", _added(kept=lambda x, f, keep, p: 2 * x + f(x) * keep / (1 - p)),
     "x is added once."),
)  # fmt: skip


def pre_norm_stack(x: Tensor, sublayers: list, norms: list, final_norm: Callable) -> Tensor:
    for sublayer, norm in zip(sublayers, norms, strict=True):
        x = x + sublayer(norm(x))
    return final_norm(x)


def stack_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(105)
    cases = []
    for b, t, d, n in ((2, 3, 4, 3), (1, 2, 5, 2), (1, 2, 3, 0)):
        x = torch.randn(b, t, d, generator=draw)
        sublayers, norms = [Tanh(d, i) for i in range(n)], [Norm(d, 10 + i) for i in range(n)]
        cases.append((x, sublayers, norms, Norm(d, 20)))
    return cases


def _own_norm(h: Tensor) -> Tensor:
    """A norm without gamma and beta."""
    return torch.nn.functional.layer_norm(h, h.shape[-1:])


def _through(step: Callable, end: Callable | None = None) -> Callable:
    """A wrong stack: h = step(h, sublayer, norm, first x) layer by layer, then the end."""

    def stack(x, sublayers, norms, final_norm):
        h = x
        for sublayer, norm in zip(sublayers, norms, strict=True):
            h = step(h, sublayer, norm, x)
        return final_norm(h) if end is None else end(h, norms, final_norm)

    return stack


def _pre(h, sublayer, norm, first):
    return h + sublayer(norm(h))


def _final_everywhere(x, sublayers, norms, final_norm):
    for sublayer, norm in zip(sublayers, norms, strict=True):
        x = final_norm(x + sublayer(norm(x)))
    return x


def _norm_before(x: Tensor, sublayers: list, norms: list, final_norm: Callable) -> Tensor:
    for i, sublayer in enumerate(sublayers):
        x = x + sublayer(norms[i - 1](x))
    return final_norm(x)


def _all_streams(x: Tensor, sublayers: list, norms: list, final_norm: Callable) -> Tensor:
    total = x
    for sublayer, norm in zip(sublayers, norms, strict=True):
        x = x + sublayer(norm(x))
        total = total + x
    return final_norm(total)


def _final_inside(x: Tensor, sublayers: list, norms: list, final_norm: Callable) -> Tensor:
    for i, (sublayer, norm) in enumerate(zip(sublayers, norms, strict=True), 1):
        new = sublayer(norm(x))
        x = x + (final_norm(new) if i == len(sublayers) else new)
    return x


def _only_normed(x: Tensor, sublayers: list, norms: list, final_norm: Callable) -> Tensor:
    return final_norm(reduce(lambda x, norm: norm(x), norms, x))


def _norm_for_all(i: int, safe: bool) -> Callable:
    """One of the norms for all layers; unless `safe`, it is an error where there is none."""

    def stack(x, sublayers, norms, final_norm):
        one = norms[i] if norms or not safe else None
        return pre_norm_stack(x, sublayers, [one] * len(norms), final_norm)

    return stack


def _next_norm(safe: bool) -> Callable:
    """Each layer with the norm of the next; unless `safe`, it is an error where there is none."""

    def stack(x, sublayers, norms, final_norm):
        return pre_norm_stack(
            x, sublayers, norms[1:] + (norms[:1] if safe else [norms[0]]), final_norm
        )

    return stack


def _returns_in_the_loop(normed: bool) -> Callable:
    def stack(x, sublayers, norms, final_norm):
        for sublayer, norm in zip(sublayers, norms, strict=True):
            x = x + sublayer(norm(x))
            return final_norm(x) if normed else x

    return stack


def _shifted_norms(x, sublayers, norms, final_norm):
    x = norms[0](x) if norms else x
    for sublayer, norm in zip(sublayers, [*norms[1:], final_norm], strict=False):
        x = norm(x + sublayer(x))
    return x


def _every_norm(x, sublayers, norms, final_norm, outer: bool = True):
    pairs = product(sublayers, norms) if outer else ((f, n) for n, f in product(norms, sublayers))
    for sublayer, norm in pairs:
        x = x + sublayer(norm(x))
    return final_norm(x)


def _normed_once(x, sublayers, norms, final_norm):
    h = reduce(lambda h, norm: norm(h), norms, x)
    return final_norm(sum((sublayer(h) for sublayer in sublayers), x))


def _own_norms(layers: bool, end: bool) -> Callable:
    """A norm of one's own in place of those that are given."""
    return lambda x, sublayers, norms, final_norm: pre_norm_stack(
        x,
        sublayers,
        [_own_norm] * len(norms) if layers else norms,
        _own_norm if end else final_norm,
    )


def _backwards(x, sublayers, norms, final_norm):
    return pre_norm_stack(x, sublayers[::-1], norms[::-1], final_norm)


def _side_by_side(x, sublayers, norms, final_norm):
    added = [f(norm(x)) for f, norm in zip(sublayers, norms, strict=True)]
    return final_norm(x + sum(added))


def _final_first(x, sublayers, norms, final_norm):
    return pre_norm_stack(final_norm(x), sublayers, norms, lambda h: h)


def _last_only(x, sublayers, norms, final_norm):
    return final_norm(x + sublayers[-1](norms[-1](x)))


def _returned_early(x, sublayers, norms, final_norm):
    return final_norm(x + sublayers[0](norms[0](x)))


NO_LAYERS = (  # what a loop over no layers never asks for
    ("", ""),
    (", and an error where there is none", " And the lists may be empty."),
)
STACK_MISTAKES = mistakes(
    ("the first layer alone, and no final norm",
     lambda x, sublayers, norms, final_norm: x + sublayers[0](norms[0](x)),
     "Is the `return` inside the loop? All layers come first, and then the final norm."),
    ("all norms first, then all sub-layers",
     lambda x, sublayers, norms, final_norm: pre_norm_stack(
         reduce(lambda h, norm: norm(h), norms, x),
         sublayers,
         [lambda h: h] * len(norms),
         final_norm,
     ),
     "Each norm stands before its own sub-layer, and the stream itself is not normed."),
    ("the final norm missing", _through(_pre, lambda h, norms, final_norm: h),
     "In pre-norm the stream is never normalised, so what leaves the stack has no fixed size. One "
     "more norm comes after the last layer."),
    ("post-norm",
     _through(lambda h, f, norm, first: norm(h + f(h)), lambda h, norms, final_norm: h),
     "This is the paper's order, without a final norm. In pre-norm, each sub-layer reads the "
     "normed stream, and the stream itself is left alone."),
    ("post-norm with a final norm", _through(lambda h, f, norm, first: norm(h + f(h))),
     "This is the paper's order, which needs no final norm. In pre-norm, each sub-layer reads the "
     "normed stream, and the stream itself is left alone."),
    ("the sub-layers left out", lambda x, sublayers, norms, final_norm: final_norm(x),
     "Each sub-layer reads the stream through its norm, and what it gives is added. Does the loop "
     "change `x`?"),
    ("the normed stream added, the sub-layer not called",
     _through(lambda h, f, norm, first: h + norm(h)),
     "What is added is what the sub-layer gives: `sublayer(norm(x))`."),
    ("the residual connection round the normed x",
     _through(lambda h, f, norm, first: norm(h) + f(norm(h))),
     "Often written as `x = norm(x)` and then `x + sublayer(x)`: the stream was lost. What is "
     "added to must be x before the norm."),
    ("the residual connection round the normed x, and no final norm",
     _through(lambda h, f, norm, first: norm(h) + f(norm(h)), lambda h, norms, final_norm: h),
     "Two mistakes: what is added to must be x before the norm, and one more norm comes after the "
     "last layer."),
    ("the norm before the addition", _through(lambda h, f, norm, first: h + norm(f(h))),
     "The sub-layer's output was normalised. In pre-norm it is the sub-layer's input."),
    ("no residual connection", _through(lambda h, f, norm, first: f(norm(h))),
     "Each sub-layer's output replaces the stream. It should be added to it."),
    ("no norm before the sub-layers", _through(lambda h, f, norm, first: h + f(h)),
     "Each sub-layer reads the stream through a norm of its own."),
    ("the final norm after every layer", _final_everywhere,
     "The final norm stands once, behind the last layer. Inside the loop it cuts the stream."),
    ("the final norm first", _final_first,
     "The final norm stands behind the last layer, not before the first."),
    ("the last layer's norm as final norm",
     _through(_pre, lambda h, norms, final_norm: norms[-1](h)),
     "The final norm is one of its own, with its own gamma and beta: `final_norm`."),
    ("the norm of the layer before", _norm_before,
     "`norms[i]` belongs to `sublayers[i]`. Python takes `norms[-1]` for the last one."),
    ("the norm before and behind each sub-layer",
     _through(lambda h, f, norm, first: h + norm(f(norm(h)))),
     "In pre-norm what the sub-layer gives is added as it is."),
    ("each norm twice", _through(lambda h, f, norm, first: h + f(norm(norm(h)))),
     "Each sub-layer reads the stream through its norm, once."),
    ("the mean of the stream and the sub-layer", _through(
        lambda h, f, norm, first: (h + f(norm(h))) / 2),
     "The two are added, and nothing is divided."),
    ("the streams of all layers added", _all_streams,
     "Only the last stream leaves the stack: it holds what every layer has written already."),
    ("the final norm round the last sub-layer", _final_inside,
     "The final norm is for the stream, behind the last addition."),
    ("the stream normed, and what the sub-layers give lost", _only_normed,
     "`x` must be the stream itself plus what the sub-layer gives. Here it is the normed stream, "
     "and nothing was added to it."),
    *((f"the {which} norm for all layers{more}", _norm_for_all(i, not more),
       "Each layer has its own norm: `norms[i]` belongs to `sublayers[i]`." + also)
      for which, i in (("first", 0), ("last", -1)) for more, also in NO_LAYERS),
    ("from the last layer to the first", _backwards,
     "The first sub-layer of the list comes first."),
    ("all sub-layers read the first x", _side_by_side,
     "The layers stand on each other: the second reads what the first has added."),
    ("each layer added to the first x", _through(lambda h, f, norm, first: first + f(norm(h))),
     "The stream must keep what every layer wrote. Here each layer's output is added to the input "
     "of the whole stack, and what the layers before it wrote is lost."),
    ("only the last layer", _last_only,
     "Often the sign of a loop that starts anew from x each time. Every layer must go on from what "
     "the one before it left."),
    ("only the first layer", _returned_early,
     "A `return` inside the loop ends it after the first layer."),
    ("the norms in reverse order",
     lambda x, sublayers, norms, final_norm: pre_norm_stack(x, sublayers, norms[::-1], final_norm),
     "`norms[i]` belongs to `sublayers[i]`."),
    ("the norm before and after", _through(lambda h, f, norm, first: norm(h + f(norm(h)))),
     "In pre-norm the sum is not normalised: the stream is left alone."),
    ("the final norm in place of the layers' own",
     lambda x, sublayers, norms, final_norm: pre_norm_stack(
         x, sublayers, [final_norm] * len(sublayers), final_norm
     ),
     "Each layer has its own norm: `norms[i]`. The final norm stands behind the last layer."),
    ("the final norm at both ends",
     lambda x, sublayers, norms, final_norm: pre_norm_stack(
         final_norm(x), sublayers, norms, final_norm
     ),
     "The final norm stands behind the last layer only. The stream begins with x itself."),
    ("the final norm after every layer and at the end",
     lambda x, sublayers, norms, final_norm: final_norm(
         _final_everywhere(x, sublayers, norms, final_norm)
     ),
     "The final norm stands once, behind the last layer. Inside the loop it cuts the stream."),
    ("the final norm added to the stream",
     _through(_pre, lambda h, norms, final_norm: h + final_norm(h)),
     "What leaves the stack is the final norm of the stream. Nothing is added to it."),
    ("the first layer left out",
     lambda x, sublayers, norms, final_norm: pre_norm_stack(
         x, sublayers[1:], norms[1:], final_norm
     ),
     "Every layer of the list takes part. A loop over positions begins at 0."),
    ("the last layer left out",
     lambda x, sublayers, norms, final_norm: pre_norm_stack(
         x, sublayers[:-1], norms[:-1], final_norm
     ),
     "Every layer of the list takes part: `range(n)` ends at n - 1 by itself."),
    ("no norm at all", _through(lambda h, f, norm, first: h + f(h), lambda h, norms, final_norm: h),
     "Each sub-layer reads the stream through its norm, and the final norm closes the stack."),
    ("no residual connection, and no final norm",
     _through(lambda h, f, norm, first: f(norm(h)), lambda h, norms, final_norm: h),
     "Two mistakes: each sub-layer's output is added to the stream, and the final norm closes the "
     "stack."),
    ("the norm before the addition, and no final norm",
     _through(lambda h, f, norm, first: h + norm(f(h)), lambda h, norms, final_norm: h),
     "Two mistakes: the norm is that of the sub-layer's input, and the final norm closes the "
     "stack."),
    ("the residual of the normed x, with the sub-layer on x",
     _through(lambda h, f, norm, first: norm(h) + f(h)),
     "It is the sub-layer that reads the normed x. The stream is left alone."),
    ("the sub-layers' outputs subtracted", _through(lambda h, f, norm, first: h - f(norm(h))),
     "Each sub-layer's output is added to the stream, not subtracted."),
    ("the stream added twice", _through(lambda h, f, norm, first: h + h + f(norm(h))),
     "The stream is what each sub-layer's output is added to, once."),
    ("one residual connection round the whole stack",
     lambda x, sublayers, norms, final_norm: _through(
         lambda h, f, norm, first: f(norm(h)),
         lambda h, norms, final_norm: final_norm(x + h),
     )(x, sublayers, norms, final_norm),
     "Each layer has a residual connection of its own."),
    ("the final norm twice",
     _through(_pre, lambda h, norms, final_norm: final_norm(final_norm(h))),
     "The final norm stands once, behind the last layer."),
    *((f"the norm of the next layer{more}", _next_norm(not more),
       "Each layer has its own norm: `norms[i]` belongs to `sublayers[i]`." + also)
      for more, also in NO_LAYERS),
    ("a `return` in the loop", _returns_in_the_loop(normed=True),
     "So only the first layer runs, and with no layers nothing is returned. The `return` stands "
     "behind the loop, as far to the left as `for`."),
    ("a `return` in the loop, and no final norm", _returns_in_the_loop(normed=False),
     "So only the first layer runs, and with no layers nothing is returned. All layers come first, "
     "and then the final norm."),
    ("each sum normed with the norm of the next layer", _shifted_norms,
     "So it is post-norm, with a norm in front: the stream itself is normed. In pre-norm only what "
     "a sub-layer reads is, and the sums are left alone."),
    ("every norm with every sub-layer", _every_norm,
     "Of two loops, one in the other, each sub-layer runs once for each norm. `zip` goes through "
     "both lists together."),
    ("every sub-layer with every norm, the norms in the outer loop",
     partial(_every_norm, outer=False),
     "Of two loops, one in the other, each sub-layer runs once for each norm. `zip` goes through "
     "both lists together."),
    ("the normed x added as well", _through(lambda h, f, norm, first: h + norm(h) + f(norm(h))),
     "To the stream is added what the sub-layer gives, and not what it reads."),
    ("all norms one after the other, and what they leave read by all sub-layers", _normed_once,
     "Each sub-layer reads the stream as it is then, through its own norm: `norms[i]` stands in "
     "the loop."),
    *((f"a norm of your own in place of {names}", _own_norms(layers, end),
       "The norms are given, with gammas and betas of their own: call `norms[i]` and `final_norm`.")
      for names, layers, end in (("those of the layers", True, False),
                                 ("the final one", False, True), ("those given", True, True))),
    ("x added once more before the final norm",
     lambda x, sublayers, norms, final_norm: pre_norm_stack(
         x, sublayers, norms, lambda h: final_norm(h + x)),
     "x is in the stream already: each layer has added to it."),
)  # fmt: skip

# 10.6 two feed-forward nets in one


def feed_forward(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return (x @ w_1 + b_1).clamp(min=0) @ w_2 + b_2


Net = tuple[Tensor, Tensor, Tensor, Tensor]


def _joined(
    w_1: Callable = lambda a, b: torch.cat([a, b], 1),
    b_1: Callable = lambda a, b: torch.cat([a, b]),
    w_2: Callable = lambda a, b: torch.cat([a, b]),
    b_2: Callable = lambda a, b: a + b,
) -> Callable:
    makes = (w_1, b_1, w_2, b_2)
    return lambda first, second: tuple(
        make(a, b) for make, a, b in zip(makes, first, second, strict=True)
    )


def two_in_one(first: Net, second: Net) -> Net:
    return _joined()(first, second)


def two_nets() -> list[tuple]:
    first, second = (
        tuple(torch.tensor(w) for w in ([[sign]], [0.0], [[2.0]], [b_2]))
        for sign, b_2 in ((1.0, 3.0), (-1.0, 4.0))
    )
    cases = [(first, second)]
    draw = torch.Generator().manual_seed(106)
    for d, widths in ((3, (4, 4)), (2, (5, 3)), (4, (1, 2)), (3, (3, 3))):
        shapes = [((d, f), (f,), (f, d), (d,)) for f in widths]
        cases.append(
            tuple(tuple(torch.randn(one, generator=draw) for one in shape) for shape in shapes)
        )
    return cases


def _told(shapes: list[tuple]) -> str:
    return f"w_1 {shapes[0]}, b_1 {shapes[1]}, w_2 {shapes[2]}, b_2 {shapes[3]}"


STACKED = "an axis more"


def joined_output(answer: Callable, first: Net, second: Net) -> Any:
    """What the one net makes of some words, or the shapes that do not fit."""
    try:
        given = answer(first, second)
    except RuntimeError as error:
        if "stack expects" in str(error):
            return STACKED
        raise
    if given is None:
        return None
    if not isinstance(given, list | tuple) or len(given) != 4:
        raise ValueError("expected four tensors: w_1, b_1, w_2 and b_2")
    for name, one in zip(("w_1", "b_1", "w_2", "b_2"), given, strict=True):
        if isinstance(one, list | tuple) and any(isinstance(part, Tensor) for part in one):
            raise ValueError(f"{name}: expected one tensor, got {kind(one)}: put them together")
    w_1, b_1, w_2, b_2 = (torch.as_tensor(one, dtype=torch.float64) for one in given)
    d, hidden = first[0].shape[0], b_1.shape[0] if b_1.dim() == 1 else -1
    shapes = [tuple(one.shape) for one in (w_1, b_1, w_2, b_2)]
    more = [len(one) - axes for one, axes in zip(shapes, (2, 1, 2, 1), strict=True)]
    if {*more} in ({0, 1}, {1}) and all(2 in one for one, n in zip(shapes, more, strict=True) if n):
        return STACKED
    if shapes != [(d, hidden), (hidden,), (hidden, d), (d,)]:
        return _told(shapes)
    words = torch.randn(7, d, generator=torch.Generator().manual_seed(6)).double()
    return feed_forward(words, w_1, b_1, w_2, b_2)


def _twice(axis: int, i: int, *both: Tensor) -> Tensor:
    return torch.cat([both[i]] * 2, axis)


BY_COLUMNS = "w_1 is (D, F): a hidden unit is a column, and the columns stand side by side."
FEED_MISTAKES = mistakes(
    ("the numbers added", lambda first, second: tuple(
        a + b for a, b in zip(first, second, strict=True)),
     "A sum of the weights is no sum of the nets: the ReLU stands between. Keep all hidden units, "
     "side by side."),
    ("the numbers averaged", lambda first, second: tuple(
        (a + b) / 2 for a, b in zip(first, second, strict=True)),
     "A mean of the weights is no sum of the nets: keep all hidden units, side by side."),
    ("the second b_2 forgotten", _joined(b_2=lambda a, b: a),
     "Both nets add their b_2, so the one net adds the sum of the two."),
    ("the first b_2 forgotten", _joined(b_2=lambda a, b: b),
     "Both nets add their b_2, so the one net adds the sum of the two."),
    ("no b_2", _joined(b_2=lambda a, b: 0 * a),
     "Both nets add their b_2, so the one net adds the sum of the two."),
    ("the mean of the two b_2", _joined(b_2=lambda a, b: (a + b) / 2),
     "The outputs are added, and so are the two b_2."),
    ("b_2 of both, one behind the other", _joined(b_2=lambda a, b: torch.cat([a, b])),
     "b_2 belongs to the output, which has D entries in both nets: the two are added."),
    ("w_1 one below the other", _joined(w_1=lambda a, b: torch.cat([a, b])), BY_COLUMNS),
    ("w_2 side by side", _joined(w_2=lambda a, b: torch.cat([a, b], 1)),
     "w_2 is (F, D): a hidden unit is a row, and the rows stand one below the other."),
    ("w_1 and w_2 along the wrong axes",
     _joined(w_1=lambda a, b: torch.cat([a, b]), w_2=lambda a, b: torch.cat([a, b], 1)),
     BY_COLUMNS + " In w_2, (F, D), it is a row."),
    ("the rows of w_2 in another order", _joined(w_2=lambda a, b: torch.cat([b, a])),
     "Each hidden unit must keep its own row of w_2: the same order in w_1, b_1 and w_2."),
    ("the entries of b_1 in another order", _joined(b_1=lambda a, b: torch.cat([b, a])),
     "Each hidden unit must keep its own entry of b_1: the same order in w_1, b_1 and w_2."),
    ("the second w_1 subtracted", _joined(w_1=lambda a, b: torch.cat([a, -b], 1)),
     "Each hidden unit keeps its column of w_1 as it is."),
    ("the second w_2 subtracted", _joined(w_2=lambda a, b: torch.cat([a, -b])),
     "Both outputs are added."),
    ("the second b_1 zero", _joined(b_1=lambda a, b: torch.cat([a, 0 * b])),
     "Each hidden unit keeps its entry of b_1."),
    ("the first b_1 zero", _joined(b_1=lambda a, b: torch.cat([0 * a, b])),
     "Each hidden unit keeps its entry of b_1."),
    ("the first b_2 twice", _joined(b_2=lambda a, b: 2 * a), "Add the two b_2."),
    ("the second b_2 twice", _joined(b_2=lambda a, b: 2 * b), "Add the two b_2."),
    ("the difference of the two b_2", _joined(b_2=lambda a, b: a - b), "Add the two b_2."),
    ("the two b_2 multiplied", _joined(b_2=lambda a, b: a * b), "The two b_2 are added."),
    *combined(_joined, [
        ("the entries of b_1 in another order", {"b_1": lambda a, b: torch.cat([b, a])},
         "Each hidden unit must keep its own entry of b_1."),
        ("no b_1", {"b_1": lambda a, b: 0 * torch.cat([a, b])},
         "Each hidden unit keeps its entry of b_1."),
        ("the rows of w_2 in another order", {"w_2": lambda a, b: torch.cat([b, a])},
         "Each hidden unit must keep its own row of w_2."),
        ("w_2 halved", {"w_2": lambda a, b: torch.cat([a, b]) / 2}, "Asked for is the sum."),
        ("the second b_2 forgotten", {"b_2": lambda a, b: a}, "The two b_2 are added."),
        ("the first b_2 forgotten", {"b_2": lambda a, b: b}, "The two b_2 are added."),
        ("no b_2", {"b_2": lambda a, b: 0 * a}, "The two b_2 are added."),
        ("the mean of the two b_2", {"b_2": lambda a, b: (a + b) / 2}, "The two b_2 are added."),
        ("the first b_1 zero", {"b_1": lambda a, b: torch.cat([0 * a, b])},
         "Each hidden unit keeps its entry of b_1."),
        ("the second b_1 zero", {"b_1": lambda a, b: torch.cat([a, 0 * b])},
         "Each hidden unit keeps its entry of b_1."),
        ("the second w_1 subtracted", {"w_1": lambda a, b: torch.cat([a, -b], 1)},
         "Each hidden unit keeps its column of w_1 as it is."),
        ("the second w_2 subtracted", {"w_2": lambda a, b: torch.cat([a, -b])},
         "Both outputs are added."),
        ("the difference of the two b_2", {"b_2": lambda a, b: a - b}, "The two b_2 are added."),
        ("the first b_2 twice", {"b_2": lambda a, b: 2 * a}, "The two b_2 are added."),
        ("the second b_2 twice", {"b_2": lambda a, b: 2 * b}, "The two b_2 are added."),
    ], but=[("w_2 halved", "the mean of the two b_2"),
            ("the second w_2 subtracted", "the difference of the two b_2")]),
    *combined(_joined, [
        ("w_1 one below the other", {"w_1": lambda a, b: torch.cat([a, b])}, BY_COLUMNS),
        ("w_2 side by side", {"w_2": lambda a, b: torch.cat([a, b], 1)},
         "w_2 is (F, D): a hidden unit is a row, and the rows stand one below the other."),
        ("b_1 added", {"b_1": lambda a, b: a + b if len(a) == len(b) else a},
         "b_1 has an entry for each hidden unit, and there are as many as in both together."),
        ("b_2 of both, one behind the other", {"b_2": lambda a, b: torch.cat([a, b])},
         "b_2 belongs to the output, which has D entries in both nets: the two are added."),
    ], but=[("w_1 one below the other", "w_2 side by side")]),
    ("no b_1", _joined(b_1=lambda a, b: 0 * torch.cat([a, b])),
     "Each hidden unit keeps its entry of b_1."),
    ("b_1 added", _joined(b_1=lambda a, b: a + b),
     "b_1 has an entry for each hidden unit, and there are as many as in both together."),
    ("w_2 doubled", _joined(w_2=lambda a, b: 2 * torch.cat([a, b])),
     "Each hidden unit keeps its row of w_2: the outputs are added by it already."),
    ("the second w_2 zero", _joined(w_2=lambda a, b: torch.cat([a, 0 * b])),
     "Then the hidden units of the second net write nothing. They keep their rows of w_2."),
    ("the ReLU of b_1", _joined(b_1=lambda a, b: torch.cat([a, b]).clamp(min=0)),
     "Each hidden unit keeps its entry of b_1. The ReLU comes when the net is used."),
    ("the larger of the two b_2", _joined(b_2=torch.maximum), "Add the two b_2."),
    ("one net behind the other", lambda first, second: (
        first[0], first[1], first[2] @ second[0] @ second[2],
        first[3] @ second[0] @ second[2] + second[3]),
     "Both nets read the word itself, and what they give is added. Here the second reads what the "
     "first has given."),
    ("the first alone", lambda first, second: first, "The second net is missing."),
    ("the second alone", lambda first, second: second, "The first net is missing."),
    ("the first twice", lambda first, second: two_in_one(first, first),
     "The hidden units of the second net are missing."),
    ("the second twice", lambda first, second: two_in_one(second, second),
     "The hidden units of the first net are missing."),
    ("the difference", _joined(w_2=lambda a, b: torch.cat([a, -b]), b_2=lambda a, b: a - b),
     "Asked for is the sum of what the two give."),
    ("the sum of the two b_2, twice",
     lambda first, second: (
         *two_in_one(first, second)[:3], 2 * (first[3] + second[3])
     ),
     "The two b_2 are added, once."),
    ("the mean of what the two nets give",
     _joined(w_2=lambda a, b: torch.cat([a, b]) / 2, b_2=lambda a, b: (a + b) / 2),
     "Asked for is their sum: the rows of w_2 stay as they are, and the two b_2 are added."),
    ("twice the sum", _joined(w_2=lambda a, b: 2 * torch.cat([a, b]), b_2=lambda a, b: 2 * (a + b)),
     "Asked for is the sum, once: the rows of w_2 stay as they are, and the two b_2 are added."),
    ("w_2 halved", _joined(w_2=lambda a, b: torch.cat([a, b]) / 2),
     "The outputs are added, not averaged: the rows of w_2 stay as they are."),
    *((f"{name} of the {which} net twice", _joined(**{name: partial(_twice, axis, i)}),
       f"The hidden units of the {other} net need their part of {name}: look at the names in your "
       "line.")
      for name, axis in (("w_1", 1), ("b_1", 0), ("w_2", 0))
      for i, (which, other) in enumerate((("first", "second"), ("second", "first")))),
    ("the numbers of w_1 one behind the other, and reshaped",
     _joined(w_1=lambda a, b: torch.cat([a.flatten(), b.flatten()]).reshape(len(a), -1)),
     BY_COLUMNS + " A reshape mixes them: put them together along the last axis."),
    ("w_1 one below the other, and reshaped, where that can be done",
     _joined(w_1=lambda a, b: (
         torch.cat([a, b]).reshape(len(a), -1) if a.shape == b.shape else torch.cat([a, b], 1))),
     BY_COLUMNS + " A reshape mixes them: put them together along the last axis."),
    ("w_1 with its columns in turn from each net, and the rest one behind the other",
     _joined(w_1=lambda a, b: (
         torch.stack([a, b], -1).reshape(len(a), -1) if a.shape == b.shape
         else torch.cat([a, b], 1))),
     "Each hidden unit must keep its own entry of b_1 and its own row of w_2: the same order in "
     "w_1, b_1 and w_2."),
)  # fmt: skip


def _shapes(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """What shapes came that do not fit."""
    i = next((i for i, one in enumerate(got) if isinstance(one, str)), None)
    if STACKED in [*filter(lambda one: isinstance(one, str), got)]:
        return (
            "an axis too many",
            "`torch.stack` makes a new axis. `torch.cat` puts tensors together along one that is "
            "there: hidden units stand side by side in w_1 and one below the other in w_2.",
        )
    if i is None:
        return None
    d, first, second = cases[i][0][0].shape[0], *(len(net[1]) for net in cases[i])
    both = first + second
    if got[i] == _told([(both, d), (both,), (d, both), (d,)]):
        return "w_1 and w_2 transposed", "w_1 is (D, F) and w_2 (F, D), as in equation (2)."
    if got[i] == _told([(d, both), (both, d), (both,), (d,)]):
        return "b_1 and w_2 in each other's place", "The order is (w_1, b_1, w_2, b_2)."
    if got[i] == _told([(d, both), (d,), (both, d), (both,)]):
        return "b_1 and b_2 in each other's place", "The order is (w_1, b_1, w_2, b_2)."
    if got[i] == _told([(both, d), (both,), (d, both), (d,)][::-1]):
        return "all four in reverse order", "The order is (w_1, b_1, w_2, b_2)."
    if got[i] == _told([(2 * d, both), (both,), (both, 2 * d), (2 * d,)]):
        return (
            "blocks along the diagonal",
            "Both nets read the same word and write to the same entries: hidden units stand side "
            "by side in w_1 and one below the other in w_2, and the two b_2 are added.",
        )
    return (
        "shapes that do not fit",
        f"Where D = {d} and the two nets have {first} and {second} hidden units, came {got[i]}. "
        "They should be (D, F), (F), (F, D) and (D), with one F.",
    )


# 10.7 parameters of one encoder layer of the big model

BIG_D, BIG_F, BIG_H = 1024, 4096, 16


def parts_and_total(attention: int, feed: int, norms: int) -> list[int]:
    return [attention, feed, norms, attention + feed + norms]


ATTENTION = 4 * BIG_D**2
FEED = 2 * BIG_D * BIG_F + BIG_F + BIG_D
NORMS = 2 * 2 * BIG_D
COUNT_SLIPS = [
    ("three matrices in the attention", {"attention": 3 * BIG_D**2}, "There is W^O, too."),
    ("biases in the attention", {"attention": ATTENTION + 4 * BIG_D}, "It has no biases."),
    ("the matrices counted once for each head", {"attention": ATTENTION * BIG_H},
     "All heads together make one square."),
    ("no biases in the feed-forward net", {"feed": FEED - BIG_F - BIG_D}, "It has two biases."),
    ("b_2 forgotten", {"feed": FEED - BIG_D}, "The feed-forward net has two biases."),
    ("b_1 forgotten", {"feed": FEED - BIG_F}, "The feed-forward net has two biases."),
    ("one matrix in the feed-forward net", {"feed": BIG_D * BIG_F + BIG_F}, "It has two matrices."),
    ("half of the norms", {"norms": NORMS // 2}, "Two norms, each with a gamma and a beta."),
    ("three norms", {"norms": 6 * BIG_D}, "An encoder layer has two norms."),
    ("the norms left out", {"norms": 0}, "Each of the two norms learns a gamma and a beta."),
]  # fmt: skip
COUNT_BUT = [
    ("three matrices in the attention", "no biases in the feed-forward net"),
    ("biases in the attention", "no biases in the feed-forward net"),
]


def parts_and_total_of(
    attention: int = ATTENTION, feed: int = FEED, norms: int = NORMS
) -> list[int]:
    return parts_and_total(attention, feed, norms)


COUNT_MISTAKES = mistakes(
    ("the biases of the feed-forward net forgotten",
     parts_and_total(ATTENTION, FEED - BIG_F - BIG_D, NORMS),
     "The feed-forward net has b_1 with d_ff entries and b_2 with d_model."),
    ("biases in the attention", parts_and_total(ATTENTION + 4 * BIG_D, FEED, NORMS),
     "The paper's projections are matrices without biases."),
    ("biases in the attention, and none in the feed-forward net",
     parts_and_total(ATTENTION + 4 * BIG_D, FEED - BIG_F - BIG_D, NORMS),
     "It is the other way round: the attention has no biases, the feed-forward net has two."),
    ("three matrices of attention in place of four", parts_and_total(3 * BIG_D**2, FEED, NORMS),
     "There are W^Q, W^K and W^V, and behind the heads W^O."),
    ("the matrices of attention counted once for each head",
     parts_and_total(ATTENTION * BIG_H, FEED, NORMS),
     "A head's matrices are d_model times d_model / h. All heads together make one square."),
    ("half of the norms", parts_and_total(ATTENTION, FEED, NORMS // 2),
     "An encoder layer has two sub-layers, and each has a LayerNorm of its own, with a gamma and a "
     "beta of d_model entries each."),
    ("the base model", parts_and_total(4 * 512**2, 8 * 512**2 + 2048 + 512, 2048),
     "These are the numbers of the chapter, for d_model = 512. The big model has 1024."),
    ("d_ff of the base model", parts_and_total(ATTENTION, 2 * BIG_D * 2048 + 2048 + BIG_D, NORMS),
     "In the big model d_ff is 4096, again four times d_model."),
    ("one matrix in the feed-forward net", parts_and_total(ATTENTION, BIG_D * BIG_F + BIG_F, NORMS),
     "The feed-forward net has two matrices, out of the stream and back into it."),
    ("b_2 forgotten", parts_and_total(ATTENTION, FEED - BIG_D, NORMS),
     "The feed-forward net has two biases: b_1 with d_ff entries and b_2 with d_model."),
    ("b_1 forgotten", parts_and_total(ATTENTION, FEED - BIG_F, NORMS),
     "The feed-forward net has two biases: b_1 with d_ff entries and b_2 with d_model."),
    ("both biases as wide as d_ff", parts_and_total(ATTENTION, FEED - BIG_D + BIG_F, NORMS),
     "b_2 stands behind W_2, back in the stream: it has d_model entries."),
    ("a layer of the decoder", parts_and_total(2 * ATTENTION, FEED, 3 * NORMS // 2),
     "This is a decoder layer, with two attentions and three norms. The task asks for the "
     "encoder."),
    ("three biases in the attention",
     parts_and_total(ATTENTION + 3 * BIG_D, FEED, NORMS),
     "The paper's projections are matrices without biases."),
    ("the embeddings in the sum",
     [ATTENTION, FEED, NORMS, ATTENTION + FEED + NORMS + 37_000 * BIG_D],
     "The parts are right. The embeddings are no part of a layer."),
    ("the norms missing from the sum", [ATTENTION, FEED, NORMS, ATTENTION + FEED],
     "The parts are right. The sum is that of all three."),
    ("one head", parts_and_total(ATTENTION // BIG_H, FEED, NORMS),
     "These are the matrices of one head. A layer has 16."),
    ("one matrix in the feed-forward net, with both biases",
     parts_and_total(ATTENTION, BIG_D * BIG_F + BIG_F + BIG_D, NORMS),
     "The feed-forward net has two matrices, out of the stream and back into it."),
    ("two attentions", parts_and_total(2 * ATTENTION, FEED, NORMS),
     "An encoder layer has one attention. The decoder's has two."),
    ("three norms", parts_and_total(ATTENTION, FEED, 3 * 2 * BIG_D),
     "An encoder layer has two sub-layers, each with one norm. The decoder's has three."),
    ("two numbers for each norm", parts_and_total(ATTENTION, FEED, 4),
     "Gamma and beta have an entry for each of the d_model features."),
    ("norms of width d_ff", parts_and_total(ATTENTION, FEED, 4 * BIG_F),
     "The norms stand round the sub-layers, where a word has the width d_model."),
    ("both biases of width d_model",
     parts_and_total(ATTENTION, FEED - BIG_F + BIG_D, NORMS),
     "b_1 is added to the hidden units, of which there are d_ff."),
    ("three matrices in the attention, no biases in the feed-forward net",
     parts_and_total(3 * BIG_D**2, FEED - BIG_F - BIG_D, NORMS),
     "Beside queries, keys and values there is W^O, and the feed-forward net has two biases."),
    *combined(parts_and_total_of, COUNT_SLIPS, but=COUNT_BUT),
    ("three small matrices, as if for one head", parts_and_total(3 * BIG_D * 64, FEED, NORMS),
     "A head's matrices are d_model times 64, and there are 16 heads, and W^O behind them."),
    *((f"all {number} layers", parts_and_total(n * ATTENTION, n * FEED, n * NORMS),
       "The task asks for one layer.") for number, n in (("six", 6), ("twelve", 12))),
    ("six layers of the base model",
     parts_and_total(24 * 512**2, 6 * (8 * 512**2 + 2048 + 512), 6 * 2048),
     "The task asks for one layer, and for the big model: d_model is 1024."),
    ("a layer of the encoder and one of the decoder",
     parts_and_total(3 * ATTENTION, 2 * FEED, 5 * NORMS // 2),
     "The task asks for one layer of the encoder, which has one attention and two norms."),
    ("the sum of six layers", [ATTENTION, FEED, NORMS, 6 * (ATTENTION + FEED + NORMS)],
     "The parts are right. The task asks for one layer."),
    ("in millions", [n / 1e6 for n in parts_and_total(ATTENTION, FEED, NORMS)],
     "The numbers are right. Give them whole, not in millions."),
    ("one norm of width d_ff", parts_and_total(ATTENTION, FEED, 2 * BIG_D + 2 * BIG_F),
     "Both norms stand round the sub-layers, where a word has the width d_model."),
    ("the norms left out", parts_and_total(ATTENTION, FEED, 0),
     "Each of the two norms learns a gamma and a beta."),
    *((f"{names} counted once for each head",
       parts_and_total((4 - n + n * BIG_H) * BIG_D**2, FEED, NORMS),
       "All heads together have one square of each kind: W^Q, W^K and W^V are cut into heads, and "
       "W^O takes all heads side by side.")
      for names, n in (("W^O", 1), ("keys and values", 2), ("queries, keys and values", 3))),
    ("W^O of one head", parts_and_total(3 * BIG_D**2 + BIG_D**2 // BIG_H, FEED, NORMS),
     "W^O takes all heads side by side, as many numbers as the model is wide."),
)  # fmt: skip


def _other_units(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """Shares in place of numbers, or numbers in thousands or millions, and rounded."""
    said, right = got[0], want[0]
    if not isinstance(said, list) or len(said) != 4 or isinstance(said[0], str):
        return None
    near = lambda unit: all(  # noqa: E731
        abs(a - b / unit) <= max(0.01, 0.005 * b / unit) for a, b in zip(said, right, strict=True)
    )
    for unit, words in ((1e3, "in thousands"), (1e6, "in millions")):
        if near(unit):
            return f"{words}, rounded", "Give the numbers whole."
    for whole_is, words in ((100, "shares in percent"), (1, "shares")):
        shares = [whole_is * b / right[-1] for b in right]
        if all(abs(a - b) <= 0.02 * whole_is for a, b in zip(said, shares, strict=True)):
            return (
                f"{words} in place of numbers",
                "The shares are right. Asked for are the numbers.",
            )
    return None


# 10.8 prediction: what columns of zeros do to the spread of the words

GROWS, SHRINKS, STAYS = 1, -1, 0
PREDICTION_MISTAKES = mistakes(
    ("BatchNorm of both features grows", [1, 1, 0, 0],
     "Zeros dilute the variance, that is right, and where the mean is 0 that is all they do. But a "
     "zero is three standard deviations away from words with mean 3: it adds variance."),
    ("BatchNorm of both features shrinks", [-1, -1, 0, 0],
     "Zeros far from the words add variance, that is right for mean 3. Where the words' mean is 0, "
     "zeros stand in the middle of them: the variance falls, and what is divided by it grows."),
    ("the two features in each other's place", [-1, 1, 0, 0],
     "The zeros stand in the middle of the words whose mean is 0, and far from those whose mean is "
     "3. Which of the two variances grows?"),
    ("padding changes nothing", [0, 0, 0, 0],
     "BatchNorm takes its variance over all places, and the zeros are among them."),
    ("the feature with mean 0 stays", [0, -1, 0, 0],
     "Zeros do not move a mean of 0. The variance is another matter: half of the squares are 0."),
    ("the feature with mean 3 stays", [1, 0, 0, 0],
     "Half of the places are now 3 away from the words' mean: the variance cannot stay."),
    ("only the feature with mean 0 moves, and shrinks", [-1, 0, 0, 0],
     "With zeros in the middle of the words the variance falls; and zeros far from words with mean "
     "3 add variance."),
    ("only the feature with mean 3 moves, and grows", [0, 1, 0, 0],
     "Half of the squares are 0 where the mean is 0, and with mean 3 the zeros add variance, by "
     "which is divided."),
    ("LayerNorm grows, too", [1, -1, 1, 0],
     "LayerNorm asks the features of one word. It never sees a padding."),
    ("LayerNorm shrinks, too", [1, -1, -1, 0],
     "LayerNorm asks the features of one word. It never sees a padding."),
    ("the masked BatchNorm grows, too", [1, -1, 0, 1],
     "Its mean and variance are those of the words alone. What stands elsewhere has no say."),
    ("the masked BatchNorm shrinks, too", [1, -1, 0, -1],
     "Its mean and variance are those of the words alone. What stands elsewhere has no say."),
    ("everything grows", [1, 1, 1, 1],
     "LayerNorm and the masked BatchNorm never see a padding. And zeros add variance to words with "
     "mean 3."),
    ("everything shrinks", [-1, -1, -1, -1],
     "LayerNorm and the masked BatchNorm never see a padding. And zeros take variance from words "
     "with mean 0."),
    ("LayerNorm and the masked BatchNorm move as BatchNorm does", [1, -1, 1, -1],
     "The first two are right. LayerNorm and the masked BatchNorm never see a padding."),
    ("both BatchNorms of mean 3 grow", [1, 1, 0, 1],
     "The masked BatchNorm never sees a padding, and zeros add variance to words with mean 3."),
)  # fmt: skip
PARTS = {  # the right sign, and what holds
    "BatchNorm, mean 0": (GROWS, "Zeros amid the words take variance, by which is divided."),
    "BatchNorm, mean 3": (SHRINKS, "Zeros far from the words add variance, by which is divided."),
    "LayerNorm": (STAYS, "LayerNorm asks the features of one word. It never sees a padding."),
    "masked BatchNorm": (STAYS, "Its mean and variance are those of the words alone."),
}
NAMED = [mistake.wrong for mistake in PREDICTION_MISTAKES]
for said in product((GROWS, SHRINKS, STAYS), repeat=4):
    wrong = [
        (f"{name} {'stays grows shrinks'.split()[sign]}", why)
        for sign, (name, (right, why)) in zip(said, PARTS.items(), strict=True)
        if sign != right
    ]
    if wrong and [*said] not in NAMED:
        names, reasons = zip(*wrong, strict=True)
        PREDICTION_MISTAKES += mistakes(("; ".join(names), [*said], " ".join(reasons)))


def in_signs(output: Any) -> Any:
    """Numbers, also for words."""
    signs = {"grows": GROWS, "shrinks": SHRINKS, "stays": STAYS}
    if any(isinstance(said, bool) for said in output):
        return output
    return whole([signs.get(said, said) if isinstance(said, str) else said for said in output])


# 10.9 design: exclusive or


def xor_net() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _net([[1, 1], [1, 1]], [0, -1], [1, -2])


def _net(units: list, b_1: list, out: list, to: int = 3, b_2: float = 0.0) -> tuple:
    """A net whose hidden units read entries 0 and 1 by `units`, and write to one entry by `out`."""
    w_1, w_2, last = torch.zeros(4, len(b_1)), torch.zeros(len(b_1), 4), torch.zeros(4)
    w_1[:2] = torch.tensor(units, dtype=torch.float32).reshape(2, -1)
    w_2[:, to], last[to] = torch.tensor(out, dtype=torch.float32), b_2
    return w_1, torch.tensor(b_1, dtype=torch.float32), w_2, last


def _on_and_off() -> Tensor:
    """All four choices of entries 0 and 1, each with four of the others: (16, 4)."""
    x = torch.tensor([[a, b, 0.0, 0.0] for a in (0.0, 1.0) for b in (0.0, 1.0)])
    x = x.repeat_interleave(4, dim=0)
    x[:, 2:] = 3 * torch.randn(16, 2, generator=torch.Generator().manual_seed(109))
    return x


PARTS_OF_A_NET = ("w_1", "b_1", "w_2", "b_2")


def what_it_writes(answer: Callable) -> Tensor | None:
    given = answer()
    if given is None:
        return None
    if not isinstance(given, list | tuple) or len(given) != 4:
        raise ValueError("expected four things: w_1, b_1, w_2 and b_2")
    w_1, b_1, w_2, b_2 = (torch.as_tensor(one, dtype=torch.float32) for one in given)
    F = b_1.shape[0] if b_1.dim() == 1 else -1
    shapes = [tuple(one.shape) for one in (w_1, b_1, w_2, b_2)]
    for places in permutations(range(4)):  # of right ones, in another order
        moved = [shapes[i] for i in places]
        units = moved[0][-1] if moved[0] else 0
        if moved == [(4, units), (units,), (units, 4), (4,)] != shapes and shapes[0] != (units, 4):
            came = [PARTS_OF_A_NET[places.index(i)] for i in range(4)]
            raise ValueError(
                f"expected the order (w_1, b_1, w_2, b_2): by their shapes, "
                f"({', '.join(came)}) came"
            )
    if (w_1.shape, w_2.shape) == ((F, 4), (4, F)) and F != 4:
        raise ValueError(
            f"expected w_1 and w_2 of the shapes (4, F) and (F, 4), got them transposed: "
            f"{tuple(w_1.shape)} and {tuple(w_2.shape)}"
        )
    for name, one, shape in (
        ("w_1", w_1, (4, F)), ("b_1", b_1, (F,)), ("w_2", w_2, (F, 4)), ("b_2", b_2, (4,))
    ):  # fmt: skip
        if tuple(one.shape) != shape:
            raise ValueError(
                f"expected {name} of the shape {str(shape).replace('-1', 'F')}, "
                f"got {tuple(one.shape)}"
            )
    return feed_forward(_on_and_off(), w_1, b_1, w_2, b_2)


def _what_is_wrong(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """What a net does that writes something else."""
    written = torch.as_tensor(got[0])
    if written.shape != (16, 4) or not written.isfinite().all():
        return None
    off, both, one, other = (written[i : i + 4, 3] for i in (0, 12, 8, 4))
    names, reasons = [], []
    if entries := [i for i in range(3) if written[:, i].abs().max() > 1e-3]:
        names.append(f"something written to entry {' and '.join(map(str, entries))}")
        reasons.append("Columns 0, 1 and 2 of w_2 and of b_2 should be zero.")
    if any(said.max() - said.min() > 1e-3 for said in (off, both, one, other)):
        names.append("entry 2 or 3 read")
        reasons.append("They hold any numbers: rows 2 and 3 of w_1 should be zero.")
    else:
        rows = (("none", off, 0), ("entry 0", one, 1), ("entry 1", other, 1), ("both", both, 0))
        bad = [
            f"{said[0]:.4g} with {name} on"
            for name, said, is_ in rows
            if (said - is_).abs().max() > 1e-3
        ]
        names += [", ".join(bad)] * bool(bad)
        reasons += [
            "It should be 0, 1, 1 and 0 with none, entry 0, entry 1 and both on. Go through the "
            "hidden units with these words by hand."
        ] * bool(bad)
    return ("; ".join(names), " ".join(reasons)) if names else None


def _reads(rows: int | slice, weight: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The right net, which reads other entries of the word as well."""
    w_1, *rest = _net([[1, 1], [1, 1]], [0, -1], [1, -2])
    w_1[rows] = torch.tensor([weight, 0.0]) if weight < 0 else weight
    return w_1, *rest


XOR_MISTAKES = mistakes(
    ("an or", lambda: _net([[1, 1], [1, 1]], [0, -1], [1, -1]),
     "With both on it should write 0. Where one unit counts and another fires for both, that one "
     "takes away two, one for each that was counted. Where each entry has a unit of its own, each "
     "must be put out by the other entry."),
    ("an and", lambda: _net([1, 1], [-1], [1]),
     "It writes 1 where both are on. Asked for is exactly one."),
    ("the sum", lambda: _net([1, 1], [0], [1]),
     "With both on it writes 2. A second unit that fires only then can take it away: one that is "
     "above 0 with both on, bias and all, and else not."),
    *((f"{name}, twice", lambda sign=sign: _net(
           [[sign, sign], [-sign, -sign]], [0, 0], [1, 1]),
       f"Both units fire when entry {on} alone is on. One of them should read the two with the "
       "signs turned.")
      for name, sign, on in (("the first without the second", 1, 0),
                             ("the second without the first", -1, 1))),
    ("the sum, twice", lambda: _net([[1, 1], [1, 1]], [0, 0], [1, 1]),
     "Both units are above 0 as soon as one entry is on. One of them needs a bias with which it "
     "fires for both only, to take away what is too much."),
    ("the sum, with a second unit that adds", lambda: _net([[1, 1], [1, 1]], [0, -1], [1, 2]),
     "With both on the second unit fires: it should take away two, not add them."),
    ("a difference", lambda: _net([[1, -1], [-1, 1]], [0, 0], [1, -1]),
     "When the second one alone is on it writes -1. Both units should be added."),
    ("the first without the second", lambda: _net([1, -1], [0], [1]),
     "It writes 1 when entry 0 alone is on. Another unit is needed for entry 1 alone."),
    ("the second without the first", lambda: _net([-1, 1], [0], [1]),
     "It writes 1 when entry 1 alone is on. Another unit is needed for entry 0 alone."),
    ("the opposite", lambda: _net([[1, 1], [1, 1]], [0, -1], [-1, 2], b_2=1.0),
     "It writes 1 where the two are alike. Asked for is 1 where they differ."),
    ("the opposite of an and", lambda: _net([1, 1], [-1], [-1], b_2=1.0),
     "It writes 1 with both off, too."),
    ("the sign turned", lambda: _net([[1, 1], [1, 1]], [0, -1], [-1, 2]),
     "It writes -1 where it should write 1."),
    ("no bias for the unit of both", lambda: _net([[1, 1], [1, 1]], [0, 0], [1, -2]),
     "Without a bias both units fire for one that is on. With -1 the second one fires for both "
     "only."),
    ("written to entry 2", lambda: _net([[1, 1], [1, 1]], [0, -1], [1, -2], to=2),
     "The function is right. It should be written to entry 3."),
    ("written to entry 0", lambda: _net([[1, 1], [1, 1]], [0, -1], [1, -2], to=0),
     "The function is right. It should be written to entry 3."),
    ("written to every entry",
     lambda: tuple(
         w.sum(-1, keepdim=True).repeat(1, 4) if i == 2 else w
         for i, w in enumerate(_net([[1, 1], [1, 1]], [0, -1], [1, -2]))
     ),
     "The function is right. Only entry 3 should get it: the other columns of w_2 are zero."),
    ("1 too high everywhere", lambda: _net([[1, 1], [1, 1]], [0, -1], [1, -2], b_2=1.0),
     "With both entries off 0 should come out. Look at b_2, and at the biases of the hidden "
     "units."),
    ("nothing is written", lambda: _net([0, 0], [0], [0]),
     "Entry 3 is 0, whatever is on. One unit may count how many are on; what corrects it where "
     "both are?"),
    ("neither", lambda: _net([-1, -1], [1], [1]),
     "It writes 1 with both off. Asked for is 1 where exactly one is on."),
    ("entry 3 read as well",
     lambda: _reads(3, -1.0), "Entry 3 holds any number: its row of w_1 should be zero."),
    ("entry 3 read as well, with a weight above 0",
     lambda: _reads(3, 1.0), "Entry 3 holds any number: its row of w_1 should be zero."),
    ("all entries read", lambda: _reads(slice(2, 4), 1.0),
     "Entries 2 and 3 hold any numbers: their rows of w_1 should be zero."),
    ("entry 2 read as well", lambda: _reads(2, 1.0),
     "Entry 2 holds any number: its row of w_1 should be zero."),
    ("entries 1 and 2 read", lambda: tuple(
        w.roll(1, 0) if i == 0 else w
        for i, w in enumerate(_net([[1, 1], [1, 1]], [0, -1], [1, -2]))
     ),
     "The two are entries 0 and 1, counted from 0: rows 0 and 1 of w_1."),
    ("three taken away", lambda: _net([[1, 1], [1, 1]], [0, -1], [1, -3]),
     "With both on, the first unit has counted two: take away two."),
    ("both biases one half lower", lambda: _net([[1, 1], [1, 1]], [-0.5, -1.5], [1, -2]),
     "A ReLU is no step: what is above the threshold counts with its size. With one on, the first "
     "unit gives one half."),
    ("twice as much", lambda: _net([[2, 2], [2, 2]], [0, -2], [1, -2]),
     "The function is right, but it writes 2 in place of 1."),
    ("half as much", lambda: _net([[1, 1], [1, 1]], [0, -1], [0.5, -1]),
     "The function is right, but it writes one half in place of 1."),
)  # fmt: skip

# 10.10 the backward pass of layer norm


def layer_norm_backward(
    x: Tensor, gamma: Tensor, eps: float, above: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return _backward(x, gamma, eps, above)


def _backward(
    x: Tensor, gamma: Tensor, eps: float, above: Tensor, change: Callable | None = None
) -> tuple:
    """dx, dgamma and dbeta; `change(g, n, root)` computes another dx."""
    root = (_variance(x) + eps).sqrt()
    normal, g = _centred(x) / root, above * gamma
    dx = (g - g.mean(-1, keepdim=True) - normal * (g * normal).mean(-1, keepdim=True)) / root
    if change:
        dx = change(g, normal, root)
    return dx, (above * normal).sum((0, 1)), above.sum((0, 1))


def backward_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(110)
    example = torch.tensor([[[0.0, 2.0]]]), torch.ones(2), 3.0, torch.tensor([[[1.0, 0.0]]])
    cases = [example]
    for (b, t, d), eps in (((2, 3, 4), 0.3), ((1, 2, 5), 0.8), ((3, 1, 3), 0.2), ((2, 2, 1), 0.6)):
        x, above = torch.randn(2, b, t, d, generator=draw)
        cases.append((x + 0.5, 0.5 + torch.rand(d, generator=draw), eps, above))
    return cases


def _other_dx(change: Callable) -> Callable:
    return lambda x, gamma, eps, above: _backward(x, gamma, eps, above, change)


def _m(x: Tensor) -> Tensor:
    return x.mean(-1, keepdim=True)


def _back(
    dx: Callable = lambda g, n, root: (g - _m(g) - n * _m(g * n)) / root,
    less: int = 0, below: str = "root", gamma_in: bool = True,
    made_of: Callable = lambda above, n, x, gamma: (above * n, above),
    summed: Callable = lambda h: h.sum((0, 1)),
) -> Callable:  # fmt: skip
    """The way back, right by default; each argument makes one mistake."""

    def backward(x: Tensor, gamma: Tensor, eps: float, above: Tensor) -> tuple:
        variance = _variance(x, less)
        root = {
            "root": (variance + eps).sqrt(), "outside": variance.sqrt() + eps,
            "no eps": variance.sqrt(),
        }[below]  # fmt: skip
        n, g = _centred(x) / root, above * gamma if gamma_in else above
        return dx(g, n, root), *map(summed, made_of(above, n, x, gamma))

    return backward


BACK_SLIPS = [
    ("mean and variance taken for constants", {"dx": lambda g, n, root: g / root},
     "x also moves the mean and the variance."),
    ("the variance taken for a constant", {"dx": lambda g, n, root: (g - _m(g)) / root},
     "x also moves the variance."),
    ("the mean taken for a constant", {"dx": lambda g, n, root: (g - n * _m(g * n)) / root},
     "x also moves the mean."),
    ("the term of the variance added",
     {"dx": lambda g, n, root: (g - _m(g) + n * _m(g * n)) / root}, "Both terms are subtracted."),
    ("not divided", {"dx": lambda g, n, root: g - _m(g) - n * _m(g * n)}, "Divide by the root."),
    ("not divided, and the variance taken for a constant",
     {"dx": lambda g, n, root: g - _m(g)}, "Divide by the root; and x also moves the variance."),
    ("gamma left out of dx", {"gamma_in": False}, "Begin with g = above * gamma."),
    ("the variance divided by D - 1", {"less": 1}, "Layer norm divides by D."),
    ("eps outside the root", {"below": "outside"}, "Eps stands under the root."),
    ("eps left out", {"below": "no eps"}, "Eps stands under the root."),
    ("dgamma from x itself", {"made_of": lambda above, n, x, gamma: (above * x, above)},
     "Gamma multiplies the normalised x."),
    ("dgamma with gamma in it", {"made_of": lambda above, n, x, gamma: (above * gamma * n, above)},
     "The result grows with gamma by the normalised entry: gamma is no part of it."),
    ("dbeta with gamma in it", {"made_of": lambda above, n, x, gamma: (above * n, above * gamma)},
     "Beta is added behind gamma: what arrives is its gradient."),
    ("dgamma and dbeta with gamma in them",
     {"made_of": lambda above, n, x, gamma: (above * gamma * n, above * gamma)},
     "Take `above` itself for these two, not g = above * gamma."),
    ("dgamma and dbeta in each other's place",
     {"made_of": lambda above, n, x, gamma: (above, above * n)}, "(dx, dgamma, dbeta)."),
    ("means in place of sums for gamma and beta", {"summed": lambda h: h.mean((0, 1))},
     "What every word asks for is added up."),
    ("dgamma and dbeta not summed", {"summed": lambda h: h}, "Sum over both axes."),
]  # fmt: skip
BACK_NEW = [slip for slip in BACK_SLIPS if "with gamma in" in slip[0]]


def _not_centred(x: Tensor, gamma: Tensor, eps: float, above: Tensor) -> tuple[Tensor, ...]:
    g, root = above * gamma, (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    n = x / root
    dx = (g - _m(g) - n * _m(g * n)) / root
    return dx, (above * n).sum((0, 1)), above.sum((0, 1))


def _with_x(x: Tensor, gamma: Tensor, eps: float, above: Tensor) -> tuple[Tensor, ...]:
    g, root = above * gamma, (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    dx = (g - _m(g) - x * _m(g * x)) / root
    return (dx, *layer_norm_backward(x, gamma, eps, above)[1:])


def _along(axis: int | tuple[int, ...]) -> Callable[..., tuple]:
    """The gradients of a norm along other axes than the last."""

    def answer(x: Tensor, gamma: Tensor, eps: float, above: Tensor) -> tuple:
        mean = partial(torch.mean, dim=axis, keepdim=True)
        centred, g = x - mean(x), above * gamma
        root = (mean(centred**2) + eps).sqrt()
        n = centred / root
        dx = (g - mean(g) - n * mean(g * n)) / root
        return dx, (above * n).sum((0, 1)), above.sum((0, 1))

    return answer


BACKWARD_MISTAKES = mistakes(
    ("along the words", _along(1),
     "Mean and variance are those of each word's own entries: the last axis."),
    ("along the sentences", _along(0),
     "Mean and variance are those of each word's own entries: the last axis."),
    ("over words and sentences", _along((0, 1)),
     "Mean and variance are those of each word's own entries: the last axis."),
    ("one mean and one variance for all", _along((0, 1, 2)),
     "Mean and variance are those of each word's own entries: the last axis."),
    *((name, _back(**change), why) for name, change, why in BACK_NEW),
    ("not divided, and the variance taken for a constant",
     _back(dx=lambda g, n, root: g - _m(g)), "Divide by the root; and x also moves the variance."),
    *combined(_back, BACK_SLIPS),
    ("mean and variance taken for constants", _other_dx(lambda g, n, root: g / root),
     "Each entry of x also moves the mean and the variance, and through them every other entry of "
     "the result: two terms are missing."),
    ("the variance taken for a constant", _other_dx(lambda g, n, root: (g - _m(g)) / root),
     "The way through the mean is there. x also moves the variance: a term along the normalised x "
     "is missing, or is zero. (The mean of a product is no product of means, and that of the "
     "normalised x is 0.)"),
    ("the mean taken for a constant", _other_dx(lambda g, n, root: (g - n * _m(g * n)) / root),
     "The way through the variance is there. x also moves the mean: subtract the mean of the "
     "gradient."),
    ("the term of the variance added",
     _other_dx(lambda g, n, root: (g - _m(g) + n * _m(g * n)) / root),
     "Both terms are subtracted: a larger variance makes the result smaller."),
    ("the normalised x left out of the second term",
     _other_dx(lambda g, n, root: (g - _m(g) - _m(g * n)) / root),
     "The variance moves along the normalised x: its term is n times the mean of g n."),
    ("what is not divided in the place of the normalised x",
     _other_dx(lambda g, n, root: (g - _m(g) - n * root * _m(g * n)) / root),
     "The variance moves along the normalised x, which is divided by the root as well."),
    ("the means over the words", _other_dx(lambda g, n, root: (
        g - g.mean(1, keepdim=True) - n * (g * n).mean(1, keepdim=True)) / root),
     "LayerNorm takes its means over the entries of a word, the last axis, and so do both terms."),
    ("the term of the mean added", _other_dx(lambda g, n, root: (g + _m(g) - n * _m(g * n)) / root),
     "Both terms are subtracted: x minus its mean."),
    ("sums in place of means",
     _other_dx(lambda g, n, root: (g - g.sum(-1, keepdim=True) - n * (g * n).sum(-1, keepdim=True))
               / root),
     "The mean of D numbers has the slope 1 / D in each, and so has the variance: both terms are "
     "means over the entries."),
    ("gamma left out of the term of the variance",
     lambda x, gamma, eps, above: _backward(
         x, gamma, eps, above,
         lambda g, n, root: (g - _m(g) - n * _m(above * n)) / root,
     ),
     "Both means are of g = above * gamma, and the second of g times the normalised x."),
    ("both terms added",
     _other_dx(lambda g, n, root: (g + _m(g) + n * _m(g * n)) / root),
     "Both terms are subtracted."),
    ("both means divided by D once more",
     _other_dx(lambda g, n, root: (
         g - _m(g) / g.shape[-1] - n * _m(g * n) / g.shape[-1]) / root),
     "A mean is a sum divided by D, once."),
    ("dgamma and dbeta summed over the entries",
     lambda x, gamma, eps, above: (
         _backward(x, gamma, eps, above)[0],
         (above * _centred(x) / (_variance(x) + eps).sqrt()).sum(-1),
         above.sum(-1),
     ),
     "Each feature has a gamma and a beta of its own: sum over sentences and words, (D) is left."),
    ("eps left out of the term of the variance",
     lambda x, gamma, eps, above: _backward(
         x, gamma, eps, above,
         lambda g, n, root: (g - _m(g) - n * _m(g * n) * root**2 / _variance(x)) / root,
     ),
     "The normalised x is divided by the root of variance and eps, twice in this term."),
    ("divided by the root three times",
     _other_dx(lambda g, n, root: (g - _m(g) - n * _m(g * n)) / root**3),
     "Divide by the root of variance and eps, once."),
    ("the means over sentences and words", _other_dx(lambda g, n, root: (
        g - g.mean((0, 1)) - n * (g * n).mean((0, 1))) / root),
     "LayerNorm takes its means over the entries of a word, the last axis, and so do both terms."),
    ("divided by the variance", _other_dx(lambda g, n, root: (g - _m(g) - n * _m(g * n)) / root**2),
     "Divide by the root of variance and eps, once."),
    ("not divided", _other_dx(lambda g, n, root: g - _m(g) - n * _m(g * n)),
     "What is left is divided by the root of variance and eps."),
    ("multiplied by the root", _other_dx(lambda g, n, root: (g - _m(g) - n * _m(g * n)) * root),
     "The normalised x is x divided by the root, and so is the gradient."),
    ("half of the term of the variance",
     _other_dx(lambda g, n, root: (g - _m(g) - n * _m(g * n) / 2) / root),
     "The 1/2 from the root and the 2 from the square cancel."),
    ("twice the term of the variance",
     _other_dx(lambda g, n, root: (g - _m(g) - 2 * n * _m(g * n)) / root),
     "The 2 from the square and the 1/2 from the root cancel."),
    ("the mean of g in the term of the variance",
     _other_dx(lambda g, n, root: (g - _m(g) - n * _m(g)) / root),
     "How much the variance matters depends on how g and the normalised x agree: the mean of "
     "their product."),
    ("the differences in place of the normalised x, in the term of the variance",
     _other_dx(lambda g, n, root: (g - _m(g) - n * root * _m(g * n * root)) / root),
     "In the term of the variance both are the normalised x: the differences divided by the "
     "root."),
    ("gamma left out of dx",
     lambda x, gamma, eps, above: _backward(x, torch.ones_like(gamma), eps, above),
     "Between `above` and the normalised x stands gamma: begin with g = above * gamma, before any "
     "mean is taken."),
    ("gamma multiplied at the end",
     lambda x, gamma, eps, above: (
         gamma * _backward(x, torch.ones_like(gamma), eps, above)[0],
         *_backward(x, gamma, eps, above)[1:],
     ),
     "Gamma stands between `above` and the means: begin with g = above * gamma."),
    ("eps left out", lambda x, gamma, eps, above: _backward(x, gamma, 0.0, above),
     "The root is that of variance and eps, as on the way forward."),
    ("eps outside the root",
     lambda x, gamma, eps, above: _backward(
         x, gamma, (_variance(x).sqrt() + eps).pow(2) - _variance(x), above
     ),
     "Eps stands under the root, as on the way forward."),
    ("the variance divided by D - 1",
     lambda x, gamma, eps, above: _backward(
         x, gamma, eps + _variance(x, 1) - _variance(x), above
     ),
     "Layer norm divides by D: `correction=0`."),
    ("dgamma from x itself",
     lambda x, gamma, eps, above: (
         _backward(x, gamma, eps, above)[0], (above * x).sum((0, 1)), above.sum((0, 1))
     ),
     "Gamma multiplies the normalised x, so that is what its gradient is made of."),
    ("dgamma and dbeta in each other's place",
     lambda x, gamma, eps, above: tuple(_backward(x, gamma, eps, above)[i] for i in (0, 2, 1)),
     "dx is right. The triple is (dx, dgamma, dbeta)."),
    ("means in place of sums for gamma and beta",
     lambda x, gamma, eps, above: (
         _backward(x, gamma, eps, above)[0],
         (above * _centred(x) / (_variance(x) + eps).sqrt()).mean((0, 1)),
         above.mean((0, 1)),
     ),
     "One gamma serves every word of every sentence: what they ask for is added up."),
    ("dgamma and dbeta not summed",
     lambda x, gamma, eps, above: (
         _backward(x, gamma, eps, above)[0],
         above * _centred(x) / (_variance(x) + eps).sqrt(),
         above,
     ),
     "One gamma serves every word of every sentence: its gradient, (D), is the sum over both "
     "axes."),
    ("dgamma from what is not divided",
     lambda x, gamma, eps, above: (
         _backward(x, gamma, eps, above)[0],
         (above * _centred(x)).sum((0, 1)),
         above.sum((0, 1)),
     ),
     "Gamma multiplies the normalised entry, which is divided by the root as well."),
    ("dgamma and dbeta summed over the sentences alone",
     lambda x, gamma, eps, above: (
         _backward(x, gamma, eps, above)[0],
         (above * _centred(x) / (_variance(x) + eps).sqrt()).sum(0),
         above.sum(0),
     ),
     "One gamma and one beta serve all words of all sentences: sum over both axes."),
    ("dgamma and dbeta summed over the words alone",
     lambda x, gamma, eps, above: (
         _backward(x, gamma, eps, above)[0],
         (above * _centred(x) / (_variance(x) + eps).sqrt()).sum(1),
         above.sum(1),
     ),
     "One gamma and one beta serve all words of all sentences: sum over both axes."),
    ("dbeta twice",
     lambda x, gamma, eps, above: (
         _backward(x, gamma, eps, above)[0], above.sum((0, 1)), above.sum((0, 1))
     ),
     "The result grows with gamma by the normalised entry: that multiplies what arrives."),
    ("dx alone", lambda x, gamma, eps, above: _backward(x, gamma, eps, above)[0],
     "dx is right. Return dgamma and dbeta with it, three in all."),
    ("the sum of g n in place of its mean", _other_dx(
        lambda g, n, root: (g - _m(g) - n * (g * n).sum(-1, keepdim=True)) / root),
     "Both are means over the entries of a word."),
    *((name, lambda x, gamma, eps, above, below=below: _backward(
        x, gamma, below(_variance(x), eps, x.shape[-1]) - _variance(x), above), why)
      for name, below, why in (
        ("the variance without its root", lambda variance, eps, d: (variance + eps) ** 2,
         "The normalised x is divided by the *root* of variance and eps, as on the way forward."),
        ("the sum of the squares in place of the variance",
         lambda variance, eps, d: d * variance + eps,
         "The variance is the mean of the squared differences, as on the way forward."),
        ("the differences not squared", lambda variance, eps, d: eps + 0 * variance,
         "The mean of the differences is 0, and eps alone is left under the root: the variance is "
         "the mean of their squares."),
        ("the standard deviation under the root", lambda variance, eps, d: variance.sqrt() + eps,
         "Under the root stands the variance, plus eps, as on the way forward."),
    )),
    ("the sum of g in place of its mean", _other_dx(
        lambda g, n, root: (g - g.sum(-1, keepdim=True) - n * _m(g * n)) / root),
     "Both are means over the entries of a word."),
    ("what arrives left out of dgamma", lambda x, gamma, eps, above: (
        _backward(x, gamma, eps, above)[0], _backward(x, gamma, eps, torch.ones_like(above))[1],
        above.sum((0, 1))),
     "By the chain rule the normalised x meets `above`, entry by entry, before it is added up."),
    ("x itself in the term of the variance", _with_x,
     "In the term of the variance both are the normalised x: the mean taken off, and divided by "
     "the root."),
    ("x divided by the root in place of the normalised x", _not_centred,
     "The normalised x is x less its mean, divided by the root."),
)  # fmt: skip


def whole(numbers: list) -> list:
    """Numbers such as 4096.0, which a division makes, as whole ones."""
    values = [float(number) for number in numbers]
    return [int(v) for v in values] if all(v.is_integer() for v in values) else values


EXERCISES = [
    Exercise(
        number="10.1",
        title="layer norm by hand",
        section="LayerNorm by hand",
        reference=by_hand(0.5, 0.25, [-1.0, 1.0, -2.0, 3.0]),
        mistakes=HAND_MISTAKES,
        rtol=5e-3,
        atol=2e-3,
    ),
    Exercise(
        number="10.2",
        title="a test for LayerNorm",
        section="Five ways to get it wrong",
        reference=is_layer_norm,
        cases=[()],
        mistakes=NORM_TEST_MISTAKES,
        invariants=rules(RIGHT_NORMS, NORMS_WHY),
        probe=norm_verdicts,
    ),
    Exercise(
        number="10.3",
        title="batch norm without the padding",
        section="Neighbours and padding",
        reference=masked_batch_norm,
        cases=batch_cases,
        mistakes=BATCH_MISTAKES,
        invariants=[
            Invariant(
                "the padding is zero in the result",
                _padding_is_zero,
                "The task asks for zeros where the mask is False.",
            )
        ],
    ),
    Exercise(
        number="10.4",
        title="find the mistakes",
        section="Add and norm",
        reference=add_and_norm,
        cases=add_and_norm_cases,
        mistakes=ADD_MISTAKES,
    ),
    Exercise(
        number="10.5",
        title="a pre-norm stack",
        section="Where the norm stands",
        reference=pre_norm_stack,
        cases=stack_cases,
        mistakes=STACK_MISTAKES,
    ),
    Exercise(
        number="10.6",
        title="two nets in one",
        section="Position-wise feed-forward",
        reference=two_in_one,
        cases=two_nets,
        mistakes=FEED_MISTAKES,
        probe=joined_output,
        invariants=Family(_shapes),
    ),
    Exercise(
        number="10.7",
        title="where the parameters sit",
        section="Where the parameters sit",
        reference=parts_and_total(ATTENTION, FEED, NORMS),
        canonical=whole,
        mistakes=COUNT_MISTAKES,
        invariants=Family(_other_units),
    ),
    Exercise(
        number="10.8",
        title="predict, then try: what padding does",
        section="Which numbers share a mean?",
        reference=[GROWS, SHRINKS, STAYS, STAYS],
        canonical=in_signs,
        mistakes=PREDICTION_MISTAKES,
        invariants=Family(no_signs),
    ),
    Exercise(
        number="10.9",
        title="one or the other",
        section="Two hidden units by hand",
        reference=xor_net,
        cases=[()],
        probe=what_it_writes,
        mistakes=XOR_MISTAKES,
        invariants=Family(_what_is_wrong),
        rtol=1e-3,
        atol=1e-3,
    ),
    Exercise(
        number="10.10",
        title="the way back through LayerNorm",
        section="Layer normalisation",
        reference=layer_norm_backward,
        cases=backward_cases,
        mistakes=BACKWARD_MISTAKES,
        parts=("dx", "dgamma", "dbeta"),
        rtol=1e-3,
        atol=1e-5,
    ),
]
