"""The exercises of chapter 9, where am I: references, cases and known mistakes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .compare import kind, same
from .core import Case, Exercise, Family, Invariant, Mistake, Naming, mistakes
from .faults import changed
from .pairs import combined
from .predictions import SIGNS, items
from .suspects import Lack, Spoilt, each, rules, verdicts_on

# 9.1 a row by hand: position 10 for d_model = 8

HANDS = [10.0, 1.0, 0.1, 0.01]


def pairs(angles: list[float]) -> list[float]:
    return [f(angle) for angle in angles for f in (math.sin, math.cos)]


HAND_MISTAKES = mistakes(
    ("angles taken in degrees", pairs([math.radians(angle) for angle in HANDS]),
     "The angles are in radians: a whole turn is 2 pi, not 360. Set the calculator to RAD."),
    ("cosine before sine", [f(angle) for angle in HANDS for f in (math.cos, math.sin)],
     "The even entries, counted from 0, are the sines: each pair begins with its sine."),
    ("all sines first, then all cosines",
     [math.sin(angle) for angle in HANDS] + [math.cos(angle) for angle in HANDS],
     "The numbers are right, their order is not: entry 2i is a sine, entry 2i + 1 the cosine of "
     "the same angle. They take turns."),
    ("exponent i instead of 2i", pairs([10 / 10000 ** (i / 8) for i in range(4)]),
     "The position was divided by the powers of 10000^(1/8). The exponent is 2i / d_model, and "
     "10000^(2/8) = 10."),
    ("the number of the entry taken for i",
     [(math.sin, math.cos)[j % 2](10 / 10000 ** (2 * j / 8)) for j in range(8)],
     "i counts the pairs, from 0 to 3. Both entries of a pair have the same angle."),
    ("positions counted from 1", pairs([angle * 0.9 for angle in HANDS]),
     "This is the row of position 9. Positions count from 0, so that of 10 is the eleventh row."),
    ("the row of position 11", pairs([angle * 1.1 for angle in HANDS]),
     "Positions count from 0, and nothing is added to them: the first angle is 10, not 11."),
    ("the row of position 100", pairs([angle * 10 for angle in HANDS]),
     "The angles are those of position 10: 10, 1, 0.1 and 0.01."),
    ("angles without sine and cosine", [angle for angle in HANDS for _ in range(2)],
     "These are the angles. The entries are their sines and cosines."),
    ("multiplied instead of divided", pairs([10.0, 100.0, 1000.0, 10000.0]),
     "The position is divided by 10^i, so that each hand is slower than the last."),
    ("angles ten times too small", pairs([angle / 10 for angle in HANDS]),
     "These are the angles 1, 0.1, 0.01 and 0.001, ten times too small. Either this is position 1, "
     "or i was counted from 1: the first hand has i = 0, and 10^0 = 1."),
    ("base 1000", pairs([10 / 1000 ** (2 * i / 8) for i in range(4)]),
     "The base of the powers is 10000, with four zeros."),
    ("the cosines of small angles taken for 1",
     [1.0 if 0 < i and value > 0.99 else value for i, value in enumerate(pairs(HANDS))],
     "Three digits show the difference: cos 0.1 is 0.995."),
    ("cosines only", [math.cos(angle) for angle in HANDS for _ in range(2)],
     "The even entries, counted from 0, are sines of the same angles."),
    ("angles taken in degrees, and positions counted from 1",
     pairs([math.radians(0.9 * angle) for angle in HANDS]),
     "The angles are in radians, and positions count from 0: that of the row is 10."),
    ("the first angle taken in degrees",
     [*pairs([math.radians(10)]), *pairs(HANDS[1:])],
     "All angles are in radians, that of 10, too: more than a whole turn."),
    ("the row of position 1000", pairs([angle * 100 for angle in HANDS]),
     "The angles are those of position 10: 10, 1, 0.1 and 0.01."),
    ("the cosine of the next hand beside each sine",
     [f(angle / (10 if f is math.cos else 1)) for angle in HANDS for f in (math.sin, math.cos)],
     "Sine and cosine of a pair have the same angle."),
    ("the angle divided by 1, 2, 3 and 4", pairs([10 / (i + 1) for i in range(4)]),
     "The divisors are powers: 10 to the power of i, which is 1, 10, 100 and 1000."),
    ("four angles, and nothing else", HANDS,
     "These are the angles of the four hands. Each gives two entries, its sine and its cosine."),
    ("sines only", [math.sin(angle) for angle in HANDS for _ in range(2)],
     "The odd entries are cosines of the same angles."),
    ("the number of the entry taken for i, without the 2",
     [(math.sin, math.cos)[j % 2](10 / 10000 ** (j / 8)) for j in range(8)],
     "Each entry has an angle of its own here. Sine and cosine of a pair have the same: entry 2i + "
     "1 has the exponent 2i / d_model as well."),
    ("exponent 4i in place of 2i",
     pairs([10 / 10000 ** (4 * i / 8) for i in range(4)]),
     "The entries 0, 2, 4, 6 are 2i already, and the exponent is 2i / 8, not 2i / 4: the divisors "
     "are 1, 10, 100 and 1000, not 1, 100, 10000 and so on."),
    ("slowest hand first", pairs(HANDS[::-1]),
     "The numbers are right, their order is not: hand 0 is the quickest, with the angle 10."),
    ("the row for d_model = 4, twice", pairs([10.0, 0.1, 10.0, 0.1]),
     "With d_model = 8 there are four hands of four speeds: the divisors are 1, 10, 100 and 1000."),
    ("the signs of the first pair lost", [abs(value) for value in pairs(HANDS)],
     "An angle of 10 is a whole turn and 3.717 more, between pi and 3/2 pi. Which signs have sine "
     "and cosine there?"),
    ("two digits only", [round(value, 2) for value in pairs(HANDS)],
     "The digits you give are right. Please give three after the point."),
    ("angles taken in degrees, and cosine before sine",
     [f(math.radians(angle)) for angle in HANDS for f in (math.cos, math.sin)],
     "The angles are in radians, and each pair begins with its sine."),
    ("angles taken in degrees, all sines first",
     [f(math.radians(angle)) for f in (math.sin, math.cos) for angle in HANDS],
     "The angles are in radians, and sines and cosines take turns."),
    ("cosine before sine, all cosines first",
     [f(angle) for f in (math.cos, math.sin) for angle in HANDS],
     "Each pair has its sine first and its cosine beside it."),
    ("the sign of the first sine lost", [abs(pairs(HANDS)[0]), *pairs(HANDS)[1:]],
     "An angle of 10 lies between 3 pi and 7/2 pi. Which sign has the sine there?"),
    ("the sign of the first cosine lost",
     [pairs(HANDS)[0], abs(pairs(HANDS)[1]), *pairs(HANDS)[2:]],
     "An angle of 10 lies between 3 pi and 7/2 pi. Which sign has the cosine there?"),
    ("sines only, four of them", [math.sin(angle) for angle in HANDS],
     "Each hand gives two entries: its cosine stands beside its sine."),
    ("a sine for every entry, and an angle of its own",
     [math.sin(10 / 10 ** (i / 2)) for i in range(8)],
     "Sine and cosine stand side by side, and share one angle."),
    ("the row of position 0", [0, 1, 0, 1, 0, 1, 0, 1],
     "At position 0 all angles are 0. Here they are 10, 1, 0.1 and 0.01."),
    ("whole turns in place of angles",
     [f(2 * math.pi * angle) for angle in HANDS for f in (math.sin, math.cos)],
     "10, 1, 0.1 and 0.01 are the angles themselves, in radians: no 2 pi comes in."),
)  # fmt: skip

# the table, for 9.2 and what follows


def interleave(even: Tensor, odd: Tensor) -> Tensor:
    return torch.stack([even, odd], dim=-1).flatten(-2)


def angles(
    length: int,
    d_model: int,
    exponent: Callable[[Tensor, int], Tensor] = lambda i, d: 2 * i / d,
    base: float = 10000.0,
    start: int = 0,
) -> Tensor:
    i = torch.arange(d_model // 2, dtype=torch.float64)
    position = torch.arange(start, start + length, dtype=torch.float64)[:, None]
    return position / base ** exponent(i, d_model)


def waves(angle: Tensor) -> Tensor:
    return interleave(angle.sin(), angle.cos())


def sinusoids(length: int, d_model: int) -> Tensor:
    return waves(angles(length, d_model)).float()


# 9.2 read the clocks: which position is this?


def places_of(rows: Tensor) -> Tensor:
    return _nearest()(rows)


def places_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(92)
    printed = torch.tensor([[0.8, 0.5, 0.1, 1.0, 0.0, 1.0, 0.0, 1.0]])
    cases = [(printed,)]
    for d_model, some in ((8, [999, 0, 6, 628, 44]), (64, [500, 3, 7, 998]), (256, [871, 87])):
        places = torch.cat([torch.tensor(some), torch.randint(0, 1000, (25,), generator=draw)])
        noise = 0.098 * torch.rand(len(places), d_model, generator=draw) - 0.049
        cases.append((sinusoids(1000, d_model)[places] + noise,))
    noisy = sinusoids(1000, 8)[[866, 189]]  # the sines, or the cosines, like those of a neighbour
    noisy[0, 0::2], noisy[1, 1::2] = sinusoids(1000, 8)[865, 0::2], sinusoids(1000, 8)[188, 1::2]
    return [*cases, (noisy,)]


def _nearest(
    entries: slice = slice(None),
    table: Callable[[int, int], Tensor] = sinusoids,
    count: Callable[[Tensor], int] = lambda rows: 1000,
    read: Callable[[Tensor], Tensor] = lambda products: products.argmax(1),
) -> Callable[[Tensor], Tensor]:
    """The row of the table whose product is greatest, right by default."""

    def places(rows: Tensor) -> Tensor:
        whole = table(count(rows), rows.shape[1]).double()[:, entries]
        return read(rows.double()[:, entries] @ whole.T)

    return places


def _hands(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The angles of all hands, from 0 to a whole turn, and their speeds."""
    rows = rows.double()
    angle = torch.atan2(rows[:, 0::2], rows[:, 1::2]) % (2 * math.pi)
    return angle, angles(2, rows.shape[1])[1]


def _one_hand(which: int) -> Callable[[Tensor], Tensor]:
    def places(rows: Tensor) -> Tensor:
        angle, speed = _hands(rows)
        return (angle / speed)[:, which].round().long()

    return places


def _two_hands(rows: Tensor) -> Tensor:
    """The second hand tells how often the first has been round, and nobody how often itself."""
    angle, speed = _hands(rows)
    turns = (angle[:, 1] / speed[1] - angle[:, 0]) / (2 * math.pi)
    return (angle[:, 0] + 2 * math.pi * turns.round()).round().long()


def _in_halves(length: int, d_model: int) -> Tensor:
    angle = angles(length, d_model)
    return torch.cat([angle.sin(), angle.cos()], 1)


def _differences(rows: Tensor) -> Tensor:
    table = sinusoids(1000, rows.shape[1]).double()
    return (table - rows.double()[:, None]).sum(-1).abs().argmin(1)


def _nearest_half(first: int) -> Callable[[Tensor], Tensor]:
    """The row of the table that is nearest, by its sines or its cosines alone."""
    return lambda rows: torch.cdist(
        rows.double()[:, first::2], sinusoids(1000, rows.shape[1]).double()[:, first::2]
    ).argmin(1)


def _signed_hand(which: int) -> Callable[[Tensor], Tensor]:
    def places(rows: Tensor) -> Tensor:
        angle = torch.atan2(rows[:, 0::2], rows[:, 1::2]).double()
        return (angle / _hands(rows)[1])[:, which].round().long()

    return places


def _greatest_difference(size: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The row of the table of which no entry is far off, by the sizes of the differences."""

    def places(rows: Tensor) -> Tensor:
        table = sinusoids(1000, rows.shape[1]).double()
        return size(table - rows.double()[:, None]).amax(-1).argmin(1)

    return places


def _soft(products: Tensor) -> Tensor:
    return (products.softmax(1) @ torch.arange(1000).double()).round().long()


PLACES_MISTAKES = mistakes(
    ("the quickest hand alone", _one_hand(0),
     "The quickest hand is round after 6.28 positions, and says 0 to 6. The slower ones tell how "
     "often it has been round."),
    ("the slowest hand alone", _one_hand(-1),
     "The slowest hand is not round in 999 positions. But from one to the next it moves far less "
     "than the noise."),
    ("the mean of what the hands say",
     lambda rows: (lambda angle, speed: (angle / speed).mean(1).round().long())(*_hands(rows)),
     "A hand that has been round says less than the position, and a mean does not know how often."),
    ("the median of what the hands say",
     lambda rows: (lambda angle, speed: (angle / speed).median(1).values.round().long())(
         *_hands(rows)
     ),
     "A hand that has been round says less than the position, however many agree."),
    ("the first sine's angle", lambda rows: rows[:, 0].double().clamp(-1, 1).asin().round().long(),
     "A sine is reached twice in each turn, and the quickest hand turns every 6.28 positions."),
    ("the slowest sine's angle",
     lambda rows: (rows[:, -2].double().clamp(-1, 1).asin() / _hands(rows)[1][-1]).round().long(),
     "From one position to the next the slowest hand moves far less than the noise. Compare whole "
     "rows."),
    ("the first row whose first pair is within the noise",
     lambda rows: ((sinusoids(1000, rows.shape[1])[:, :2] - rows[:, None, :2]).abs() <= 0.0501)
     .all(-1).int().argmax(1),
     "The quickest hand stands alike every 6.28 positions. Compare whole rows."),
    ("position 0 left out", _nearest(read=lambda products: products[:, 1:].argmax(1) + 1),
     "Positions go from 0 to 999, and the first row of the table is that of 0."),
    ("the first pair looked up in the table", _nearest(slice(2)),
     "The quickest hand stands alike every 6.28 positions. Compare whole rows."),
    ("the first two pairs looked up in the table", _nearest(slice(4)),
     "With the noise the two quickest hands stand alike at several positions. Compare whole rows."),
    ("the last two pairs looked up in the table", _nearest(slice(-4, None)),
     "From one position to the next the slow hands move less than the noise. Compare whole rows."),
    ("the position that is farthest off",
     lambda rows: torch.cdist(
         rows.double(), sinusoids(1000, rows.shape[1]).double(), p=1
     ).argmax(1),
     "The least distance is that of two rows that are alike."),
    ("the two nearest positions",
     lambda rows: (
         rows.double() @ sinusoids(1000, rows.shape[1]).double().T
     ).topk(2).indices,
     "One position for each row: the nearest."),
    ("the first half of the entries looked up in the table",
     lambda rows: _nearest(slice(rows.shape[1] // 2))(rows),
     "The slow hands in the second half tell apart what the quick ones confuse. Compare whole "
     "rows."),
    ("the first three pairs looked up in the table", _nearest(slice(6)),
     "In a wide row the first three hands go round quickly, and with the noise they stand alike at "
     "several positions. Compare whole rows."),
    ("a table of width 8, whatever the width of the rows",
     lambda rows: _nearest()(rows[:, :8]),
     "In a wider row the hands have other speeds, and there are more of them."),
    ("for each position the nearest row",
     lambda rows: torch.cdist(
         rows.double(), sinusoids(1000, rows.shape[1]).double()
     ).argmin(0),
     "For each of the N rows the nearest of 1,000 positions: the minimum runs over the positions."),
    ("the last pair looked up in the table", _nearest(slice(-2, None)),
     "From one position to the next the slowest hand moves less than the noise. Compare whole "
     "rows."),
    ("the first entry looked up in the table",
     lambda rows: (
         sinusoids(1000, 2).double()[:, 0] - rows.double()[:, :1]
     ).abs().argmin(1),
     "One entry is reached again and again. Compare whole rows."),
    ("the sines alone", _nearest(slice(0, None, 2)),
     "A sine has one height twice in each turn. The cosine beside it tells the two apart."),
    ("the nearest row by its sines alone", _nearest_half(0),
     "A sine has one height twice in each turn. The cosine beside it tells the two apart."),
    ("the nearest row by its cosines alone", _nearest_half(1),
     "A cosine has one height twice in each turn. The sine beside it tells the two apart."),
    ("the quickest hand alone, its angle from -pi to pi", _signed_hand(0),
     "The quickest hand is round after 6.28 positions. The slower ones tell how often."),
    ("the slowest hand alone, its angle from -pi to pi", _signed_hand(-1),
     "The slowest hand moves far less from one position to the next than the noise."),
    *((f"a table of {rows} rows", _nearest(count=lambda _, rows=rows: rows),
       "Positions go up to 999.")
      for rows in (2, 10, 20, 30, 50, 64, 128, 200, 256, 400, 500, 512, 628, 800, 900)),
    ("the first row whose first entry is within the noise",
     lambda rows: ((sinusoids(1000, rows.shape[1])[:, 0] - rows[:, :1]).abs() <= 0.0501)
     .int().argmax(1),
     "One entry is reached again and again. Compare whole rows."),
    ("the cosines alone", _nearest(slice(1, None, 2)),
     "A cosine has one height twice in each turn. The sine beside it tells the two apart."),
    ("the least product, or the largest distance",
     _nearest(read=lambda products: products.argmin(1)),
     "A great dot product, or a small distance, is that of two positions that are alike (9.8)."),
    ("the least sum of the differences, with their signs",
     lambda rows: sinusoids(1000, rows.shape[1]).sum(1).argmax().expand(len(rows)),
     "Differences of either sign cancel. Add up their squares, or compare by the dot product."),
    ("counted from 1", _nearest(read=lambda products: products.argmax(1) + 1),
     "Positions count from 0, and so do the rows of the table."),
    ("a table with as many rows as are asked about", _nearest(count=len),
     "Positions go up to 999, however many rows there are."),
    ("a table with as many rows as entries", _nearest(count=lambda rows: rows.shape[1]),
     "Positions go up to 999, however wide the rows are."),
    ("a table of 999 rows", _nearest(count=lambda rows: 999),
     "From 0 to 999 there are 1,000 positions."),
    ("a table of 100 rows", _nearest(count=lambda rows: 100),
     "Positions go up to 999."),
    ("differences added up with their signs", _differences,
     "Differences of either sign cancel. Add up their squares, or compare by the dot product."),
    ("the greatest difference, with its sign", _greatest_difference(lambda d: d),
     "An entry that is far too low has a difference below zero. Take absolute values, or compare "
     "by the dot product."),
    ("the greatest difference, the other way round, with its sign",
     _greatest_difference(lambda d: -d),
     "An entry that is far too high has a difference below zero. Take absolute values, or compare "
     "by the dot product."),
    ("a table that begins with position 1",
     _nearest(table=lambda length, d_model: sinusoids(length + 1, d_model)[1:]),
     "Row 0 of the table is position 0. Begin it there, or add what you have left out."),
    ("the two quickest hands alone", _two_hands,
     "Together they are round after some sixty positions or fewer where D is large, and noise "
     "moves the second by more than a turn of the first where it is small. Use all hands."),
    ("the second hand alone", _one_hand(1),
     "It is round after some sixty positions or fewer, and says nothing of what went before."),
    ("the second hand alone, its angle from -pi to pi", _signed_hand(1),
     "It is round after some sixty positions or fewer, and says nothing of what went before."),
    ("0 for every row", lambda rows: torch.zeros(len(rows)).long(),
     "Is equality asked for? No row is equal to one of the table: there is noise. Take the one "
     "that is nearest. (Or is what you compare the same for all positions?)"),
    ("the products, not their place", _nearest(read=lambda products: products.amax(1)),
     "That is how alike the nearest row is. Where in the table does it stand?"),
    ("the rows, not their place",
     lambda rows: sinusoids(1000, rows.shape[1])[places_of(rows)],
     "These are the rows without their noise. Where in the table do they stand?"),
    ("the axes exchanged", _nearest(read=lambda products: products.argmax(0)),
     "For each of the N rows, the best of 1,000 positions: the maximum runs over the positions."),
    *((f"the axes exchanged, and {words}", wrong,
       "For each of the N rows, the best of 1,000 positions: the search runs over the positions, "
       "and gives N of them. There is nothing to cut off.")
      for words, wrong in (
          ("the first of what came", _nearest(read=lambda products: (
              products.argmax(0)[: len(products)]))),
          ("the first of the nearest", lambda rows: torch.cdist(
              rows.double(), sinusoids(1000, rows.shape[1]).double()).argmin(0)[: len(rows)]),
          ("the last of what came", _nearest(read=lambda products: (
              products.argmax(0)[-len(products) :]))))),
    ("the largest product of each position, and not where it stands",
     _nearest(read=lambda products: products.amax(0)),
     "That is how alike the nearest of the rows is. For each of the N rows, the place of the best "
     "of 1,000 positions is asked for."),
    ("all products", _nearest(read=lambda products: products),
     "Which of the products in each row is the greatest?"),
    ("one position for all", lambda rows: places_of(rows.mean(0, keepdim=True)).expand(len(rows)),
     "Each row has a position of its own."),
    ("the first row alone", lambda rows: places_of(rows[:1]), "Asked for are N positions."),
    ("the positions sorted", lambda rows: places_of(rows).sort().values,
     "The positions are right. They are asked for in the order of the rows."),
    ("a weighted average of positions", _nearest(read=_soft),
     "The softmax shares among several positions, and what lies between them is another one."),
    ("sines first in the table", _nearest(table=_in_halves),
     "In the paper's rows sine and cosine take turns. `sinusoids` has them so."),
    ("exponent i in the table",
     _nearest(table=lambda length, d_model: waves(angles(length, d_model, lambda i, d: i / d))),
     "Hand i has the speed 10000^(-2i / D). `sinusoids` has it so."),
    *(
        (f"the slowest hand alone, {words}",
         lambda rows, of=of: of(rows).clamp(0, 999),
         "The slowest hand is not round in 999 positions. But from one to the next it moves far "
         "less than the noise.")
        for words, of in (
            ("positions above 999 made 999", _one_hand(-1)),
            ("positions below 0 made 0", _signed_hand(-1)),
        )
    ),
    ("the second half of the entries looked up in the table",
     lambda rows: _nearest(slice(rows.shape[1] // 2, None))(rows),
     "From one position to the next the slow hands move less than the noise. Compare whole rows."),
    ("one place in all products", _nearest(read=lambda products: products.argmax()),
     "`argmax()` without an axis counts through the whole table of products. Each row has a "
     "position of its own: along which axis are the 1,000?"),
    ("one place in all distances", lambda rows: torch.cdist(
        rows.double(), sinusoids(1000, rows.shape[1]).double()).argmin(),
     "`argmin()` without an axis counts through the whole table of distances. Each row has a "
     "position of its own: along which axis are the 1,000?"),
    *(
        (f"the first row that is within {tolerance} everywhere",
         lambda rows, tolerance=tolerance: (
             (sinusoids(1000, rows.shape[1]) - rows[:, None]).abs() <= tolerance
         ).all(-1).int().argmax(1),
         "The noise is larger than that, and where no row is near enough, `argmax` gives 0. Take "
         "the nearest.")
        for tolerance in (0.01, 0.02)
    ),
)  # fmt: skip


def _too_few(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """Each row's nearest of the first few positions alone, however many they are."""
    if not all(isinstance(places, Tensor) and places.ndim == 1 for places in got):
        return None
    if any(places.ne(places.round()).any() for places in got):
        return (
            "numbers that are no positions",
            "Asked for are places in the table, whole numbers: `argmax` gives the place, `max` how "
            "alike the row there is.",
        )
    if len({place for places in got for place in places.tolist()}) < 4:
        return None
    for (rows,), places in zip(cases, got, strict=True):
        products = rows.double() @ sinusoids(1000, rows.shape[1]).double().T
        counts = range(int(places.max()) + 1, 1001)
        if not any(torch.equal(products[:, :n].argmax(1), places.long()) for n in counts):
            return None
    return "a table with too few rows", "Positions go up to 999, however many rows there are."


def _whole(output: Any) -> Tensor:
    """Whole numbers, if they are."""
    places = torch.as_tensor(output)
    if places.is_floating_point() and places.eq(places.round()).all():
        return places.long()
    return places


# 9.3 find the mistakes: words and sinusoids


def placed(x: Tensor) -> Tensor:
    return _placed()(x)


def _placed(
    axis: str = "words",
    own: bool | str = False,
    factor: str = "words",
    start: int = 0,
    share: bool = False,
    odd: str = "cos",
    halves: bool = False,
    power: float = 1.0,
    base: float = 10000.0,
) -> Callable[[Tensor], Tensor]:
    """sqrt(D) x + PE, right by default; each argument makes one mistake."""

    def place(x: Tensor) -> Tensor:
        B, T, D = x.shape
        length = {"words": T, "sentences": B}[axis]
        pos = start + torch.arange(length, dtype=torch.float64)[:, None]
        pos = pos / length if share else pos
        j = torch.arange(D, dtype=torch.float64)
        of = {False: j - j % 2, True: j, "odd": j - j % 2 + 1, "next": j + j % 2}[own]
        angle = pos / base ** (power * of / D)
        even, other = angle[:, 0::2].sin(), angle[:, 1::2]
        other = {"cos": other.cos(), "sin": other.sin(), "0": 0 * other}[odd]
        table = torch.cat([even, other], -1) if halves else interleave(even, other)
        table = (table[:, None] if axis == "sentences" else table).float()
        root = math.sqrt(D)
        a, b = {
            "words": (root, 1), "none": (1, 1), "sum": (root, root), "positions": (1, root),
            "divided": (1 / root, 1), "d_model": (D, 1), "length": (math.sqrt(T), 1),
            "product": (root, 1),
        }[factor]  # fmt: skip
        return a * x * table if factor == "product" else a * x + b * table

    return place


def placed_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(93)
    sizes = [(2, 3, 4), (3, 3, 6), (4, 1, 2), (1, 5, 8)]
    return [
        (torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]),),
        *((torch.randn(*size, generator=draw),) for size in sizes),
        (torch.zeros(1, 2, 2),),  # words of zeros have places, too
    ]


PLACED_FAULTS = {
    "axis": ("sentences", "the number of the sentence taken for the place",
        "Every word of a sentence got the same row. Places are counted by axis 1 of (B, T, D)."),
    "own": (True, "an angle of its own for each entry",
        "Sine and cosine of a pair share one angle: entry 2i + 1 has the exponent 2i / D, too."),
    "factor": ("sum", "the factor on the sum",
        "The root of D makes the words longer beside their places. On the sum it changes nothing "
        "of that."),
}  # fmt: skip

PLACED_SLIPS = [
    ("no factor", {"factor": "none"}, "The words are multiplied by the root of D (9.5)."),
    ("the factor on the positions", {"factor": "positions"},
     "It is the words that are multiplied, not their places."),
    ("divided by the root", {"factor": "divided"}, "Embeddings are multiplied by the root of D."),
    ("multiplied by D, without the root", {"factor": "d_model"}, "The factor is the root of D."),
    ("the root of the length", {"factor": "length"}, "The factor is the root of the width, D."),
    ("words and positions multiplied", {"factor": "product"}, "The positions are added."),
    ("positions counted from 1", {"start": 1}, "Positions count from 0."),
    ("exponent i instead of 2i", {"power": 0.5}, "i counts the pairs, and the exponent is 2i / D."),
    ("exponent 4i in place of 2i", {"power": 2.0},
     "The entries 0, 2, 4, ... already are 2i. (Or does D / 2 stand below the line?)"),
    ("multiplied by the power instead of divided", {"power": -1.0}, "Later hands are slower."),
    ("base 1000", {"base": 1000.0}, "The base of the powers is 10000, with four zeros."),
    ("the odd entry's angle for both", {"own": "odd"},
     "Sine and cosine of a pair share the angle of the even entry: the exponent is 2i / D."),
    ("the cosines left out", {"odd": "0"}, "The odd entries are cosines of the same angles."),
    ("sine twice", {"odd": "sin"}, "The odd entries are cosines."),
    ("all sines first", {"halves": True},
     "Sine and cosine of a hand are neighbours: entries 2i and 2i + 1."),
]  # fmt: skip
PLACED_LEFT = [(name, {key: value}, why) for key, (value, name, why) in PLACED_FAULTS.items()]
PLACED_BUT = [
    *itertools.combinations([name for name, _, _ in PLACED_LEFT], 2),  # by `changed`
    ("the cosines left out", "an angle of its own for each entry"),
]


def _with_angles(turned: Callable[[int, int], Tensor]) -> Callable[[Tensor], Tensor]:
    def wrong(x: Tensor) -> Tensor:
        theta, table = turned(*x.shape[1:]), sinusoids(*x.shape[1:])
        return placed(x) - table + interleave(theta.sin(), theta.cos())

    return wrong


PLACED_MISTAKES = mistakes(
    ("the cosine of the next hand's angle", _placed(own="next"),
     "Sine and cosine of a pair share one angle: entry 2i + 1 has the exponent 2i / D, too."),
    *changed(PLACED_FAULTS, _placed),
    *((name, _placed(**change), why) for name, change, why in PLACED_SLIPS),
    *combined(_placed, [*PLACED_SLIPS, *PLACED_LEFT], but=PLACED_BUT),
    ("multiplied by the power, not divided by it", lambda x: math.sqrt(x.shape[2]) * x + (
        lambda angle: interleave(angle.sin(), angle.cos()))(
            torch.arange(x.shape[1])[:, None]
            * 10000 ** (torch.arange(0, x.shape[2], 2) / x.shape[2])),
     "Later hands are slower: the position is divided by 10000^(2i / D)."),
    ("the cosines written over the sines", lambda x: math.sqrt(x.shape[2]) * x + (
        lambda pe: interleave(pe[:, 1::2], 0 * pe[:, 1::2]))(sinusoids(*x.shape[1:])),
     "The cosines go into the odd entries, 1::2, which are still 0."),
    ("positions divided by the length", _placed(share=True),
     "A step must be the same in every sentence: the position is not divided by the length."),
    ("cosine before sine", lambda x: placed(x) + sinusoids(*x.shape[1:]).unflatten(
        -1, (-1, 2)).flip(-1).flatten(-2) - sinusoids(*x.shape[1:]),
     "The even entries are sines."),
    ("positions counted from the end",
     lambda x: placed(x) + (lambda pe: pe.flip(0) - pe)(sinusoids(*x.shape[1:])),
     "The first word has position 0, the last one T - 1."),
    ("positions counted on from sentence to sentence",
     lambda x: math.sqrt(x.shape[-1]) * x
         + sinusoids(x.shape[0] * x.shape[1], x.shape[2]).view_as(x),
     "Each sentence begins with position 0."),
    ("put side by side instead of added",
     lambda x: torch.cat(
         [math.sqrt(x.shape[-1]) * x, sinusoids(*x.shape[1:]).expand_as(x)], dim=-1
     ),
     "The paper adds, so that the width stays D. Here it has doubled."),
    ("the positions alone", lambda x: sinusoids(*x.shape[1:]).expand_as(x),
     "They are to be added to the words."),
    ("the words alone", lambda x: math.sqrt(x.shape[-1]) * x, "The positions are missing."),
    ("the last hand 10000 times slower",
     _with_angles(lambda t, d: angles(t, d, lambda i, d: i / max(d / 2 - 1, 1))),
     "The exponent is 2i / D. It does not reach 1."),
    ("angles taken in degrees", _with_angles(lambda t, d: math.pi / 180 * angles(t, d)),
     "The angles are in radians: nothing is to be converted."),
    ("half of D as the factor", lambda x: placed(x) + (x.shape[-1] / 2 - x.shape[-1] ** 0.5) * x,
     "The factor is the root of D, not the half of it."),
    ("the positions subtracted", lambda x: placed(x) - 2 * sinusoids(*x.shape[1:]),
     "The positions are added to the words."),
    ("cosine twice", lambda x: placed(x) - sinusoids(*x.shape[1:]) + interleave(
        *2 * [angles(*x.shape[1:]).cos()]),
     "The even entries are sines."),
    ("the same angle for every pair", _with_angles(lambda t, d: angles(t, d, lambda i, d: 0 * i)),
     "Each pair has its own speed: the place is divided by 10000^(2i / D)."),
    ("the exponent not divided by D", _with_angles(lambda t, d: angles(t, d, lambda i, d: 2 * i)),
     "The exponent is 2i / D."),
    ("the exponent left out", _with_angles(lambda t, d: angles(t, d, lambda i, d: 0 * i + 1)),
     "The place is divided by 10000^(2i / D), for the first pair by 1."),
)  # fmt: skip

# 9.4 a test for what reaches the first layer, and the functions that it is put to


def embed(tokens: Tensor, embedding: Tensor, table: Tensor) -> Tensor:
    return embedding[tokens] * math.sqrt(embedding.shape[1]) + table[: tokens.shape[1]]


def _parts(tokens: Tensor, embedding: Tensor, table: Tensor) -> tuple[Tensor, Tensor, float]:
    return embedding[tokens], table[: tokens.shape[1]], math.sqrt(embedding.shape[1])


def mixed(mix: Callable[[Tensor, Tensor, float], Tensor]) -> Callable[..., Tensor]:
    return lambda tokens, embedding, table: mix(*_parts(tokens, embedding, table))


def _paper_rows(T: int, D: int) -> Tensor:
    """The rows of the paper's sinusoids, of odd width, too."""
    entry = torch.arange(D)
    angle = torch.arange(T)[:, None] / 10000 ** ((entry - entry % 2) / D)
    return torch.where(entry % 2 == 0, angle.sin(), angle.cos())


EMBED_MISTAKES = mistakes(
    ("no factor", mixed(lambda word, place, root: word + place),
     "The words must be multiplied by sqrt(d_model) before the positions are added, or the "
     "positions drown them."),
    ("the factor after the sum", mixed(lambda word, place, root: (word + place) * root),
     "Here both parts grow, and the positions are as long beside the words as before. Only the "
     "words get the factor."),
    ("the factor on the positions", mixed(lambda word, place, root: word + place * root),
     "It is the words that need to be longer, not the positions."),
    ("divided by the root", mixed(lambda word, place, root: word / root + place),
     "The division by a root belongs to the scores of attention. Embeddings are multiplied."),
    ("the sum divided by the root", mixed(lambda word, place, root: (word + place) / root),
     "The words are multiplied by the root, and the positions stay as they are."),
    ("multiplied by d_model, without the root",
     mixed(lambda word, place, root: word * root**2 + place),
     "The factor is the square root of d_model."),
    ("the root of the vocabulary's size",
     lambda tokens, embedding, table: (
         embedding[tokens] * len(embedding) ** 0.5 + table[: tokens.shape[1]]
     ),
     "len(embedding) is the number of words, V. The width D is embedding.shape[1]."),
    ("the root of the sentence's length",
     lambda tokens, embedding, table: (
         embedding[tokens] * tokens.shape[1] ** 0.5 + table[: tokens.shape[1]]
     ),
     "The factor is the root of the width D, not of the number of words T."),
    ("the root of the number of sentences",
     lambda tokens, embedding, table: (
         embedding[tokens] * len(tokens) ** 0.5 + table[: tokens.shape[1]]
     ),
     "The factor is the root of the width D, not of the number of sentences B."),
    ("the root of half the width",
     mixed(lambda word, place, root: word * root / math.sqrt(2) + place),
     "The root of D/2 is the length of a row of sinusoids. The factor is the root of D."),
    ("the row of the word's id, not of its position",
     lambda tokens, embedding, table: (
         embedding[tokens] * embedding.shape[1] ** 0.5 + table[tokens % len(table)]
     ),
     "The table is indexed with the place in the sentence, 0, 1, 2, ..., not with the token."),
    ("the row of the sentence, not of the word",
     lambda tokens, embedding, table: (
         embedding[tokens] * embedding.shape[1] ** 0.5 + table[: len(tokens), None]
     ),
     "The table was indexed with the batch: every word of a sentence got the same row. The words "
     "are counted by axis 1 of the tokens."),
    ("as many rows as sentences",
     lambda tokens, embedding, table: (
         embedding[tokens] * embedding.shape[1] ** 0.5 + table[: len(tokens)]
     ),
     "len(tokens) is the number of sentences, B. The length is tokens.shape[1]."),
    ("positions counted from 1",
     lambda tokens, embedding, table: (
         embedding[tokens] * embedding.shape[1] ** 0.5 + table[1 : tokens.shape[1] + 1]
     ),
     "Row 0 of the table belongs to the first word."),
    ("positions left out", mixed(lambda word, place, root: word * root),
     "The words have their factor. The rows of their positions are still to be added."),
    ("the positions divided by the root, and no factor on the words",
     mixed(lambda word, place, root: word + place / root),
     "The balance of the two is right, yet the sum is too small: the words are multiplied, and the "
     "positions stay as they are."),
    ("the words left out", mixed(lambda word, place, root: place + 0 * word),
     "These are the positions alone. Look up the words, multiply them, and add both."),
    ("the positions' entries in reverse",
     mixed(lambda word, place, root: word * root + place.flip(-1)),
     "Entry d of a position is added to entry d of the word."),
    ("the embeddings alone", mixed(lambda word, place, root: word),
     "The words are looked up. They still need the factor, and the rows of their positions."),
    ("the factor 2, whatever the width", mixed(lambda word, place, root: 2 * word + place),
     "The root of D is 2 in the example, where D = 4. Other widths have another."),
    ("the root cut to a whole number", mixed(lambda word, place, root: int(root) * word + place),
     "The root of D is seldom a whole number: leave it as it is."),
    ("the root of the number of rows in the table",
     lambda tokens, embedding, table: (
         embedding[tokens] * len(table) ** 0.5 + table[: tokens.shape[1]]
     ),
     "len(table) is the number of positions, M. The width D is embedding.shape[1]."),
    ("multiplied by the square of d_model", mixed(lambda word, place, root: word * root**4 + place),
     "The factor is the square root of d_model, d_model ** 0.5."),
    ("the logarithm in place of the root",
     mixed(lambda word, place, root: word * math.log(root**2) + place),
     "The factor is the square root of d_model."),
    ("the first row for all words", mixed(lambda word, place, root: word * root + place[0]),
     "table[0] is a single row, and was added to every word. Each position has its own."),
    ("the last rows of the table",
     lambda tokens, embedding, table: (
         embedding[tokens] * embedding.shape[1] ** 0.5 + table[-tokens.shape[1] :]
     ),
     "The first word stands at position 0 and gets the first row. These are the last T rows."),
    ("counted backwards", mixed(lambda word, place, root: word * root + place.flip(0)),
     "The first word got the row of the last. Positions grow from left to right."),
    ("the embedding indexed by the position",
     lambda tokens, embedding, table: (
         embedding[: tokens.shape[1]] * embedding.shape[1] ** 0.5 + table[: tokens.shape[1]]
     ).expand(len(tokens), -1, -1),
     "The table of embeddings is indexed with the ids, embedding[tokens]; only the table of "
     "positions goes by place."),
    ("ids counted from 1",
     lambda tokens, embedding, table: (
         embedding[tokens - 1] * embedding.shape[1] ** 0.5 + table[: tokens.shape[1]]
     ),
     "Ids count from 0: id 0 is the first row of the embedding."),
    ("the ids themselves for words",
     lambda tokens, embedding, table: (
         tokens[..., None] * embedding.shape[1] ** 0.5 + table[: tokens.shape[1]]
     ),
     "The number of the word was multiplied, not its vector. Look it up first: embedding[tokens]."),
    ("put side by side instead of added",
     mixed(lambda word, place, root: torch.cat([word * root, place.expand_as(word)], dim=-1)),
     "The paper adds, so that the width stays D. Here it has doubled."),
    ("multiplied instead of added", mixed(lambda word, place, root: word * root * place),
     "The positions are added to the words, with a plus sign."),
    ("subtracted instead of added", mixed(lambda word, place, root: word * root - place),
     "The positions are added to the words, with a plus sign."),
    ("the first sentence alone", mixed(lambda word, place, root: word[0] * root + place),
     "It is right for the first sentence, (T, D), and gives no other. It shows with two different "
     "sentences, and in the shape."),
    ("positions counted on through the batch",
     lambda tokens, embedding, table: (
         embedding[tokens] * embedding.shape[1] ** 0.5
         + table[torch.arange(tokens.numel()).view(tokens.shape) % len(table)]
     ),
     "Each sentence begins at position 0 again."),
    ("sinusoids of its own, whatever the table",
     mixed(lambda word, place, root: word * root + _paper_rows(*place.shape)),
     "The table is handed over: whatever stands in it has to be added, not only sinusoids."),
    ("the words of the first sentence in all",
     mixed(lambda word, place, root: (word[:1] * root + place).expand_as(word)),
     "Each sentence has words of its own."),
    ("the words of the last sentence in all",
     mixed(lambda word, place, root: (word[-1:] * root + place).expand_as(word)),
     "Each sentence has words of its own. Is one left over from a loop?"),
    ("the first word of a sentence for all of it",
     mixed(lambda word, place, root: word[:, :1] * root + place),
     "Each place has a word of its own."),
    ("the words in another order", mixed(lambda word, place, root: (
        (word * root + place).transpose(0, 1).reshape(word.shape))),
     "The words are right, and stand elsewhere: `reshape` does not exchange axes."),
    ("no position for the first word",
     mixed(lambda word, place, root: word * root + place * (torch.arange(len(place)) > 0)[:, None]),
     "Position 0 has a row in the table as well, and it is seldom zero."),
    ("the first entry of its row for all entries of a word",
     mixed(lambda word, place, root: word * root + place[:, :1]),
     "Entry d of a position is added to entry d of the word."),
    ("words brought to length one first",
     mixed(lambda word, place, root: torch.nn.functional.normalize(word, dim=-1) * root + place),
     "The embeddings are multiplied as they are; nothing is divided by their length."),
)  # fmt: skip


def _wrong(name: str) -> Callable:
    return next(mistake.wrong for mistake in EMBED_MISTAKES if mistake.name == name)


def _embed_in_double(tokens: Tensor, embedding: Tensor, table: Tensor) -> Tensor:
    """Right, by products with rows of zeros and a one, in float64."""
    words = torch.nn.functional.one_hot(tokens, len(embedding)).double() @ embedding.double()
    return words.shape[-1] ** 0.5 * words + table[: words.shape[1]].double()


def _embed_by_sentence(tokens: Tensor, embedding: Tensor, table: Tensor) -> Tensor:
    """Right, the factor on the table of embeddings, sentence by sentence."""
    longer = embedding * embedding.shape[1] ** 0.5
    return torch.stack([longer[sentence] + table[: len(sentence)] for sentence in tokens])


RIGHT_EMBEDS: dict[str, Callable] = {
    "right": embed,
    "right, in float64": lambda *given: _embed_in_double(*given).float(),
    "right, sentence by sentence": _embed_by_sentence,
}
ALL_EMBEDS: dict[str, Callable] = {
    **RIGHT_EMBEDS,
    **{mistake.name: mistake.wrong for mistake in EMBED_MISTAKES},
}


EMBEDS_WHY = {mistake.name: mistake.why for mistake in EMBED_MISTAKES}


def embed_right(embed: Callable) -> bool:
    return _embeds_compared()(embed)


def _given(
    B: int = 2, T: int = 3, D: int = 6, V: int = 10, M: int = 8,
    tokens: list[list[int]] | None = None,
    words: Callable[[Tensor], Tensor] = lambda words: words,
    places: Callable[[Tensor], Tensor] = lambda places: places,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """What a test hands to `embed`: no two sizes alike, and no id at its own place, by default."""
    draw = torch.Generator().manual_seed(94)
    ids = torch.tensor(tokens) if tokens else torch.arange(B * T).view(B, T).flip(0, 1) + 1
    ids = ids if tokens else ids % V
    embedding, table = (torch.randn(n, D, generator=draw) for n in (V, M))
    return ids, words(embedding), places(table)


def _embeds_compared(
    case: tuple[Tensor, Tensor, Tensor] | None = None,
    look: Callable = lambda x: x,
    right: Callable = embed,
    same: Callable = lambda a, b: a.shape == b.shape and torch.allclose(a, b, atol=1e-4),
) -> Callable:
    """A test by comparison: on which tensors, and what is compared with what."""
    case = _given() if case is None else case
    return lambda embed: bool(same(look(embed(*case)), look(right(*case))))


EMBED_LACKS: dict[str, Lack] = {
    "one sentence": each(lambda tokens, embedding, table: len(tokens) == 1),
    "one word in each sentence": each(lambda tokens, embedding, table: tokens.shape[1] == 1),
    "the same word everywhere": each(
        lambda tokens, embedding, table: bool((tokens == tokens[0, 0]).all())
    ),
    "every id at its own place": each(
        lambda tokens, embedding, table: bool((tokens == torch.arange(tokens.shape[1])).all())
    ),
    "equal sentences": each(lambda tokens, embedding, table: bool((tokens == tokens[:1]).all())),
    "words of zeros": each(lambda tokens, embedding, table: not embedding.any()),
    "a table of zeros": each(lambda tokens, embedding, table: not table.any()),
    "the same vector for all words": each(
        lambda tokens, embedding, table: bool((embedding == embedding[:1]).all())
    ),
    "a table with the same row everywhere": each(
        lambda tokens, embedding, table: bool((table == table[:1]).all())
    ),
    "a width whose root is a whole number": each(
        lambda tokens, embedding, table: math.isqrt(embedding.shape[1]) ** 2 == embedding.shape[1]
    ),
    "two sizes alike": each(
        lambda tokens, embedding, table: len({*tokens.shape, *embedding.shape, len(table)}) < 5
    ),
}


EMBED_TEST_MISTAKES = mistakes(
    ("everything passes", lambda embed: True,
     "A test that says yes to everything tests nothing."),
    ("nothing passes", lambda embed: False, "The right ones must pass, however they are written."),
    ("yes and no exchanged", lambda embed: not embed_right(embed),
     "True is for a function that is right, False for a wrong one."),
    ("whatever raises no error passes", lambda embed: embed(*_given()) is not None,
     "Most of the wrong ones run without an error. Compare what comes with what should come."),
    ("compared, and True in any case",
     _embeds_compared(same=lambda a, b: torch.allclose(a, b) in (True, False)),
     "What the comparison says must be returned, or asserted where nothing catches it."),
    ("the shape alone", _embeds_compared(look=lambda x: torch.tensor(x.shape)),
     "Most of the wrong ones return the right shape. Compare the numbers."),
    ("one sentence", _embeds_compared(_given(B=1)),
     "Whether the next sentence begins at position 0 again is not seen. Take two, and compare both."
     ),
    ("the sum alone", _embeds_compared(look=lambda x: x.sum(), same=lambda a, b: bool(
        torch.isclose(a, b, atol=1e-3))),
     "A sum is the same in any order. Compare the numbers."),
    ("two sizes alike", _embeds_compared(_given(B=3)),
     "Where two of B, T, D, V and M are the same number, one can stand for the other. Give every "
     "size a number of its own, and let the table be longer than the sentences."),
    ("one word in each sentence", _embeds_compared(_given(T=1)),
     "The only word stands at position 0. Take sentences of several words."),
    ("a width whose root is a whole number", _embeds_compared(_given(D=4)),
     "The root of 4 is 2 and that of 1 is 1: so is the factor of some that are wrong for other "
     "widths. And one of them cuts the root to a whole number."),
    ("every id at its own place", _embeds_compared(_given(tokens=[[0, 1, 2], [0, 1, 2]])),
     "Where token i stands at place i, nobody sees which of the two looks up the row. And the "
     "sentences are the same."),
    ("equal sentences", _embeds_compared(_given(tokens=[[4, 1, 7], [4, 1, 7]])),
     "Where all sentences are the same, one may stand for the others. Draw the ids."),
    ("a table of zeros", _embeds_compared(_given(places=torch.zeros_like)),
     "Positions of zeros are not seen, wherever they are added and whatever multiplies them."),
    ("words of zeros", _embeds_compared(_given(words=torch.zeros_like)),
     "Words of zeros do not show what they are multiplied by."),
    ("a table with the same row everywhere",
     _embeds_compared(_given(places=lambda places: places[:1].expand_as(places))),
     "Where all rows of the table are the same, nobody sees which of them a word gets."),
    ("the same vector for all words",
     _embeds_compared(_given(words=lambda words: words[:1].expand_as(words))),
     "Where all words have the same vector, nobody sees which of them was looked up."),
    ("the mean of all numbers alone", _embeds_compared(look=lambda x: x.double().mean(),
     same=lambda a, b: bool(torch.isclose(a, b, atol=1e-5))),
     "A mean is the same in any order. Compare the numbers."),
    ("one number of each vector alone", _embeds_compared(
        look=lambda x: x.mean(-1) if x.is_floating_point() else x.double().mean(-1)
     ),
     "Its mean is the same in any order, and its nearest entry says nothing of the others. Compare "
     "all the numbers."),
    ("the same word everywhere", _embeds_compared(_given(tokens=[[1, 1, 1], [1, 1, 1]])),
     "Where one word stands everywhere, nobody sees which of them was looked up. Draw the ids."),
    ("the last word alone", _embeds_compared(look=lambda x: x[:, -1:]),
     "Some that are wrong about the first words are right about the last. Compare all."),
    ("the first word alone", _embeds_compared(look=lambda x: x[:, :1]),
     "The first word gets row 0 from some that are wrong about the others. Compare all."),
    ("equal to the last digit", _embeds_compared(same=torch.equal),
     "A right one may round otherwise. `torch.allclose` forgives the last digits."),
    ("no factor asked for", _embeds_compared(right=_wrong("no factor")),
     "(9.5) multiplies the words by the root of D."),
    ("the factor on the sum asked for", _embeds_compared(right=_wrong("the factor after the sum")),
     "In (9.5) the words alone have the factor."),
    ("the factor on the positions asked for",
     _embeds_compared(right=_wrong("the factor on the positions")),
     "In (9.5) it is the words that have the factor."),
    ("positions from 1 asked for", _embeds_compared(right=_wrong("positions counted from 1")),
     "Positions count from 0: the first word gets the first row."),
    ("equal sentences, and the shape not compared", _embeds_compared(
        _given(tokens=[[4, 1, 7], [4, 1, 7]]), same=lambda a, b: torch.allclose(a, b, atol=1e-4)),
     "Where all sentences are the same, one may stand for the others, and broadcasting lets it. "
     "Draw the ids, and compare shapes, too."),
    ("one sentence, and the shape not compared", _embeds_compared(
        _given(B=1), same=lambda a, b: torch.allclose(a, b, atol=1e-4)),
     "Whether the next sentence begins at position 0 again is not seen. Take two, and compare "
     "shapes, too: broadcasting lets what has no axis for the sentences stand for them."),
)  # fmt: skip

# 9.5 the matrix of a step


def blocks(sin: Tensor, cos: Tensor, signs: tuple[int, int] = (-1, 1)) -> Tensor:
    """Blocks [[cos, -sin], [sin, cos]] along the diagonal."""
    above, below = signs
    return torch.block_diag(
        *(torch.tensor([[c, above * s], [below * s, c]]) for s, c in zip(sin, cos, strict=True))
    )


def step_angles(
    k: int, d_model: int, exponent: Callable = lambda i, d: 2 * i / d, base: float = 10000.0
) -> Tensor:
    return k / base ** exponent(torch.arange(d_model // 2, dtype=torch.float64), d_model)


def turned(angle: Tensor, signs: tuple[int, int] = (-1, 1)) -> Tensor:
    return blocks(angle.sin(), angle.cos(), signs).float()


def step_matrix(k: int, d_model: int) -> Tensor:
    return turned(step_angles(k, d_model))


def step_in_halves(k: int, d_model: int) -> Tensor:
    angle = step_angles(k, d_model)
    sin, cos = angle.sin().diag(), angle.cos().diag()
    return torch.cat([torch.cat([cos, -sin], dim=1), torch.cat([sin, cos], dim=1)])


STEP_CASES = [(1, 4), (3, 8), (-2, 6), (1, 2)]
NEIGHBOURS = mistakes(
    ("the transposed matrix, a step back", lambda k, d_model: step_matrix(k, d_model).T,
     "It rotates the other way and leads from p to p - k. With the row on the left, as in PE[p] R, "
     "the minus sign stands in the upper right quarter. (For columns, in the lower left. And with "
     "the cosines first, it would be the other one: here the sines come first.)"),
    ("exponent i instead of 2i",
     lambda k, d_model: turned(step_angles(k, d_model, lambda i, d: i / d)),
     "The hands turn at the speeds of the sinusoids, 10000^(-2i/d_model), with i counting hands."),
    ("exponent 4i in place of 2i",
     lambda k, d_model: turned(step_angles(k, d_model, lambda i, d: 4 * i / d)),
     "i counts hands. Either it was the number of an even column, which is 2i already, or d_model "
     "/ 2 stands below the line in place of d_model."),
    ("the same angle for every hand",
     lambda k, d_model: turned(step_angles(k, d_model, lambda i, d: 0 * i)),
     "Each hand has its own speed: hand i turns by k / 10000^(2i/d_model)."),
    ("base 1000", lambda k, d_model: turned(step_angles(k, d_model, base=1000.0)),
     "The base of the powers is 10000, with four zeros."),
    ("a mirror, not a rotation: both sines with a plus",
     lambda k, d_model: turned(step_angles(k, d_model), (1, 1)),
     "One of the two sines has a minus sign: cos(a + b) = cos a cos b - sin a sin b."),
    ("both sines with a minus", lambda k, d_model: turned(step_angles(k, d_model), (-1, -1)),
     "Only one of the two sines has a minus sign: sin(a + b) = sin a cos b + cos a sin b."),
    ("sine and cosine exchanged",
     lambda k, d_model: blocks(
         step_angles(k, d_model).cos(), step_angles(k, d_model).sin()
     ).float(),
     "The cosines stand on the diagonal. For k = 0 the matrix must be the identity."),
    *((name, lambda k, d_model, sin=sin, cos=cos: blocks(
        sin(step_angles(k, d_model)), cos(step_angles(k, d_model))).float(),
       "Cosines stand on the diagonal, sines beside it.")
      for name, sin, cos in (("cosines in place of sines", torch.cos, torch.cos),
                             ("sines in place of cosines", torch.sin, torch.sin),
                             ("the angles in place of their sines", torch.clone, torch.cos))),
    ("only the cosines, on the diagonal",
     lambda k, d_model: turned(step_angles(k, d_model), (0, 0)),
     "A new sine needs the old cosine as well: the sines, away from the diagonal, are missing."),
    ("angles taken in degrees", lambda k, d_model: turned(step_angles(k, d_model).deg2rad()),
     "The angles are in radians: nothing is to be converted."),
    ("multiplied by the power instead of divided",
     lambda k, d_model: turned(step_angles(k, d_model, lambda i, d: -2 * i / d)),
     "Hand i turns by k divided by 10000^(2i/d_model): later hands are slower."),
    ("the identity", lambda k, d_model: torch.eye(d_model),
     "This matrix leaves every position where it is. It is right for k = 0 alone."),
    ("the sign of k ignored", lambda k, d_model: step_matrix(abs(k), d_model),
     "A negative k is a step back, and turns the other way."),
    ("the lower cosine with a minus",
     lambda k, d_model: (
         turned(step_angles(k, d_model), (1, 1)) * torch.tensor([1.0, -1.0]).repeat(d_model // 2)
     ),
     "Both cosines have a plus. One of the two sines has the minus sign: the upper one."),
    ("the lower half with the wrong sign",
     lambda k, d_model: (
         torch.tensor([1.0, -1.0]).repeat(d_model // 2)[:, None] * step_matrix(k, d_model)
     ),
     "The lower half of the matrix makes cosines new: sin and cos, both with a plus there."),
    ("a mirror, the sines on the diagonal",
     lambda k, d_model: (
         turned(math.pi / 2 - step_angles(k, d_model))
         * torch.tensor([1.0, -1.0]).repeat(d_model // 2)
     ),
     "The cosines stand on the diagonal. For k = 0 the matrix must be the identity."),
    ("the logarithm to base 10 where the natural one belongs",
     lambda k, d_model: turned(step_angles(k, d_model, base=math.exp(4.0))),
     "exp(-x log 10000) is 10000^-x only for the natural logarithm. With log10 the base is e^4."),
    ("hands counted from 1",
     lambda k, d_model: turned(step_angles(k, d_model, lambda i, d: 2 * (i + 1) / d)),
     "i counts from 0: the first hand turns by k radians."),
    ("slowest hand first", lambda k, d_model: turned(step_angles(k, d_model).flip(0)),
     "The first entries of each half are those of the quickest hand."),
    ("only the first hand turned",
     lambda k, d_model: turned(step_angles(k, d_model) * (torch.arange(d_model // 2) == 0)),
     "Every hand turns, the later ones more slowly. Here the rest is the identity."),
    ("one hand alone", lambda k, d_model: turned(step_angles(k, 2)),
     "This is the rotation of the first hand. There are d_model / 2 hands."),
    ("the hands' matrices one after the other",
     lambda k, d_model: (
         torch.stack(list(turned(step_angles(k, d_model)).split(2)))
         .unflatten(2, (-1, 2))
         .diagonal(dim1=0, dim2=2)
         .permute(2, 0, 1)
     ),
     "These are the rotations, one for each hand. They belong into one (d_model, d_model) matrix, "
     "that of hand i into rows and columns i and i + d_model / 2."),
    ("a factor of 2 pi too much", lambda k, d_model: turned(2 * math.pi * step_angles(k, d_model)),
     "The first hand turns by one radian per position, not by a whole turn."),
    ("the matrix of one step, multiplied by k", lambda k, d_model: k * step_matrix(1, d_model),
     "k steps are k rotations one after the other: the angle grows, not the matrix."),
    ("the matrix of one step to the power k, entry by entry",
     lambda k, d_model: step_matrix(1, d_model) ** k,
     "** works entry by entry. The power of a matrix is torch.linalg.matrix_power; to multiply the "
     "angle by k is easier."),
    ("a shift of the entries", lambda k, d_model: torch.eye(d_model).roll(k, 1),
     "A step moves no entry to another place. It turns each pair, by an angle of its own."),
    ("angles in whole numbers", lambda k, d_model: turned(step_angles(k, d_model).floor()),
     "// cuts the angle to a whole number. Slow hands turn by fractions: divide with /."),
    ("only the sines",
     lambda k, d_model: step_matrix(k, d_model) - turned(step_angles(k, d_model), (0, 0)),
     "The diagonal is still zero: the cosines are missing."),
    ("both cosines with a minus", lambda k, d_model: -step_matrix(k, d_model).T,
     "Both cosines have a plus: for k = 0 the matrix must be the identity."),
)  # fmt: skip


def in_halves(of_neighbours: Callable[[int, int], Tensor]) -> Callable[[int, int], Tensor]:
    """A matrix for pairs of neighbours, brought to the order of all sines, then all cosines."""

    def of_halves(k: int, d_model: int) -> Tensor:
        R = of_neighbours(k, d_model)
        order = torch.arange(d_model).view(-1, 2).T.flatten()
        return R[order][:, order] if R.shape == (d_model, d_model) else R

    return of_halves


STEP_SLIPS = [
    ("the transposed matrix, a step back", {"signs": (1, -1)},
     "The minus sign stands in the upper right quarter."),
    ("both sines with a plus", {"signs": (1, 1)}, "One of the two sines has a minus sign."),
    ("both sines with a minus", {"signs": (-1, -1)}, "One of the two sines has a plus."),
    ("exponent i instead of 2i", {"exponent": lambda i, d: i / d},
     "The speeds are 10000^(-2i/d_model), with i counting hands."),
    ("exponent 4i in place of 2i", {"exponent": lambda i, d: 4 * i / d},
     "The columns 0, 2, 4, ... already are 2i. (Or does d_model / 2 stand below the line?)"),
    ("the same angle for every hand", {"exponent": lambda i, d: 0 * i},
     "Each hand has its own speed: hand i turns by k / 10000^(2i/d_model)."),
    ("hands counted from 1", {"exponent": lambda i, d: 2 * (i + 1) / d},
     "i counts from 0: the first hand turns by k radians."),
    ("the last hand 10000 times slower", {"exponent": lambda i, d: i / max(d / 2 - 1, 1)},
     "The exponent is 2i / d_model. It does not reach 1: the last hand has (d_model - 2) / "
     "d_model."),
    ("multiplied by the power instead of divided", {"exponent": lambda i, d: -2 * i / d},
     "Later hands are slower."),
    ("base 1000", {"base": 1000.0}, "The base of the powers is 10000, with four zeros."),
    ("neighbours paired, as in the paper", {"order": lambda of: of},
     "Entry i goes with entry i + d_model / 2."),
    ("the sign of k ignored", {"step": abs}, "A negative k turns the other way."),
    ("a step of 1, whatever k", {"step": lambda k: 1}, "A step of k turns k times as far."),
]  # fmt: skip


def _step(
    exponent: Callable = lambda i, d: 2 * i / d,
    signs: tuple[int, int] = (-1, 1),
    base: float = 10000.0,
    order: Callable = in_halves,
    step: Callable[[int], int] = lambda k: k,
) -> Callable[[int, int], Tensor]:
    """The matrix of a step, right by default; each argument makes one mistake."""
    return order(lambda k, d: turned(step_angles(step(k), d, exponent, base), signs))


def _full_quarters(k: int, d_model: int) -> Tensor:
    """Every row of a quarter has all the sines, or all the cosines."""
    angle = step_angles(k, d_model).expand(d_model // 2, -1)
    sin, cos = angle.sin(), angle.cos()
    return torch.cat([torch.cat([cos, -sin], dim=1), torch.cat([sin, cos], dim=1)]).float()


def _sines_across(k: int, d_model: int) -> Tensor:
    angle = step_angles(k, d_model)
    sin, cos = angle.sin().diag(), angle.cos().diag()
    halves = torch.cat([cos, -sin.flip(1)], dim=1), torch.cat([sin.flip(0), cos], dim=1)
    return torch.cat(halves).float()


STEP_BUT = [
    ("the transposed matrix, a step back", "neighbours paired, as in the paper"),
    ("the same angle for every hand", "base 1000"),
]
STEP_MISTAKES = [
    *(Mistake(one.name, in_halves(one.wrong), one.why) for one in NEIGHBOURS),
    *mistakes(
        ("neighbours paired, as in the paper", step_matrix,
         "That is the matrix of the paper's order. Here all sines come first: entry i goes with "
         "entry i + d_model / 2."),
        ("only the rows in the new order",
         lambda k, d_model: step_matrix(k, d_model)[
             torch.arange(d_model).view(-1, 2).T.flatten()
         ],
         "Rows and columns both have the new order: what goes in is in halves, as what comes out."),
        ("the lower half left at zero",
         lambda k, d_model: step_in_halves(k, d_model)
         * (torch.arange(d_model) < d_model // 2)[:, None],
         "The lower half multiplies the old cosines: each new sine needs one of them, and each new "
         "cosine, too."),
        ("1 for the cosine, and the angle for the sine",
         lambda k, d_model: in_halves(lambda k, d: blocks(
             step_angles(k, d), torch.ones(d // 2, dtype=torch.float64)
         ).float())(k, d_model),
         "That is nearly right for small angles. The first hand turns by whole radians: take the "
         "cosine and the sine."),
        ("the right half left at zero",
         lambda k, d_model: step_in_halves(k, d_model) * (torch.arange(d_model) < d_model // 2),
         "These are the new sines alone. The right half makes the new cosines."),
        ("no step back", lambda k, d_model: step_in_halves(max(k, 0), d_model),
         "A negative k turns the other way. (`range(k)` is empty there.)"),
        ("full quarters", _full_quarters,
         "A new sine is made of two old entries, its own hand's: each quarter is zero but for its "
         "diagonal."),
        ("only the columns in the new order",
         lambda k, d_model: step_matrix(k, d_model)[
             :, torch.arange(d_model).view(-1, 2).T.flatten()
         ],
         "Rows and columns both have the new order: what goes in is in halves, as what comes out."),
        ("the last hand 10000 times slower", _step(exponent=lambda i, d: i / max(d / 2 - 1, 1)),
         "The exponent is 2i / d_model. It does not reach 1."),
        ("the sines on the anti-diagonal", _sines_across,
         "Hand i has entries i and d_model / 2 + i. On the anti-diagonal i meets d_model - 1 - i, "
         "the cosine of another hand."),
        ("neighbours paired, and the order turned round", lambda k, d_model: (
            lambda order: step_matrix(k, d_model)[order][:, order])(
                torch.arange(d_model).view(2, -1).T.flatten()),
         "Row j of the new matrix is that of the paper's entry order[j]: the even entries come "
         "first, 0, 2, 4, ..., then the odd ones. The inverse order deals the halves out in "
         "turns."),
        *combined(_step, STEP_SLIPS, but=STEP_BUT),
    ),
]  # fmt: skip


def _too_quick(bank: Sequence[Mistake]) -> Naming:
    """The power on the wrong side, where large angles have lost their last digits."""
    known = next(m for m in bank if m.name.startswith("multiplied by the power"))

    def named(
        cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
    ) -> tuple[str, str] | None:
        for case, R in zip(cases, got, strict=True):
            wrong = known.wrong(*case)
            if not isinstance(R, Tensor) or R.shape != wrong.shape or not same(R, wrong, 0.0, 0.02):
                return None
        return known.name, known.why

    return named


def turns_and_nothing_else(output: Tensor, k: int, d_model: int) -> bool:
    R = torch.as_tensor(output).double()
    return bool(torch.allclose(R @ R.T, torch.eye(d_model).double(), atol=1e-3))


# 9.6 rotary positions


def turn(
    x: Tensor, theta: Tensor, signs: tuple[int, int] = (-1, 1), halves: bool = False
) -> Tensor:
    """Each pair (a, b) to (a cos - b sin, a sin + b cos); pairs are neighbours or halves."""
    above, below = signs
    a, b = x.chunk(2, dim=-1) if halves else (x[..., 0::2], x[..., 1::2])
    sin, cos = theta.sin(), theta.cos()
    pair = [a * cos + above * b * sin, below * a * sin + b * cos]
    return (torch.cat(pair, dim=-1) if halves else interleave(*pair)).to(x.dtype)


def rotate(x: Tensor) -> Tensor:
    return turn(x, angles(*x.shape[1:]))


def rotate_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(96)
    sizes = (2, 3, 4), (3, 5, 8), (3, 3, 6), (1, 2, 2), (2, 1, 4)
    printed = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    return [*((torch.randn(*size, generator=draw),) for size in sizes), (printed,)]


def overwritten(x: Tensor) -> Tensor:
    """Wrong: the second half is computed from the first one that is new already."""
    theta = angles(*x.shape[1:])
    a, b = x[..., 0::2], x[..., 1::2]
    first = a * theta.cos() - b * theta.sin()
    return interleave(first, first * theta.sin() + b * theta.cos())


def second_first(x: Tensor) -> Tensor:
    """Wrong: the first half is computed from the second one that is new already."""
    theta = angles(*x.shape[1:])
    a, b = x[..., 0::2], x[..., 1::2]
    second = a * theta.sin() + b * theta.cos()
    return interleave(a * theta.cos() - second * theta.sin(), second)


ROTATE_SLIPS = [
    ("turned the other way", {"signs": (1, -1)}, "The minus sign stands in a cos - b sin."),
    ("both signs plus", {"signs": (1, 1)}, "One of the two sines has a minus sign."),
    ("halves paired instead of neighbours", {"layout": "halves"},
     "The pairs are the entries 2i and 2i + 1."),
    ("the pairs put back as halves", {"layout": "back"}, "The pairs must stand side by side."),
    ("the entries of each pair exchanged", {"layout": "exchanged"},
     "a cos - b sin belongs first."),
    ("exponent i instead of 2i", {"exponent": lambda i, d: i / d}, "The exponent is 2i / D."),
    ("exponent 4i in place of 2i", {"exponent": lambda i, d: 4 * i / d},
     "The entries 0, 2, 4, ... already are 2i. (Or does D / 2 stand below the line?)"),
    ("the same angle for every pair", {"exponent": lambda i, d: 0 * i},
     "Each pair has its own speed."),
    ("pairs counted from 1", {"exponent": lambda i, d: 2 * (i + 1) / d}, "i counts from 0."),
    ("base 1000", {"base": 1000.0}, "The base of the powers is 10000, with four zeros."),
    ("positions counted from 1", {"start": 1}, "Positions count from 0."),
    ("turned by the number of the sentence", {"axis": 0}, "The positions are along axis 1."),
    ("the last pair 10000 times slower", {"exponent": lambda i, d: i / max(d / 2 - 1, 1)},
     "The exponent is 2i / D. It does not reach 1."),
    ("angles taken in degrees", {"unit": math.pi / 180}, "torch.sin takes radians."),
]  # fmt: skip
ROTATE_BUT = [
    ("the same angle for every pair", "base 1000"),
    ("turned the other way", "the entries of each pair exchanged"),  # a and b exchanged
]


def _rotated(
    signs: tuple[int, int] = (-1, 1), layout: str = "neighbours",
    exponent: Callable = lambda i, d: 2 * i / d, base: float = 10000.0, start: int = 0,
    axis: int = 1, unit: float = 1.0,
) -> Callable[[Tensor], Tensor]:  # fmt: skip
    """Rotary positions, right by default; each argument makes one mistake."""

    def rotated(x: Tensor) -> Tensor:
        theta = unit * angles(x.shape[axis], x.shape[2], exponent, base, start)
        y = turn(x, theta if axis else theta[:, None], signs, layout == "halves")
        if layout == "back":
            return torch.cat([y[..., 0::2], y[..., 1::2]], -1)
        return interleave(y[..., 1::2], y[..., 0::2]) if layout == "exchanged" else y

    return rotated


def _of_pairs(j: Tensor, d: int) -> Tensor:
    return (j - j % 2) / d


def _entrywise(x: Tensor, sin: Callable, cos: Callable, exponent: Callable) -> Tensor:
    """x cos + (-b, a) sin, entry by entry; each of the three makes one mistake."""
    j = torch.arange(x.shape[2], dtype=torch.float64)
    angle = torch.arange(x.shape[1])[:, None] / 10000 ** exponent(j, x.shape[2])
    return (x * cos(angle) + interleave(-x[..., 1::2], x[..., 0::2]) * sin(angle)).float()


ROTATE_MISTAKES = mistakes(
    ("the first of each pair alone", lambda x: rotate(x)[..., 0::2],
     "Each pair has two new entries: a sin + b cos stands beside a cos - b sin."),
    ("positions counted on from sentence to sentence",
     lambda x: turn(x, angles(x.shape[0] * x.shape[1], x.shape[2]).unflatten(0, x.shape[:2])),
     "Each sentence begins with position 0."),
    ("turned twice as far", lambda x: turn(x, 2 * angles(*x.shape[1:])),
     "Each pair is turned once, by p / 10000^(2i/D)."),
    ("positions counted from the end", lambda x: turn(x, angles(*x.shape[1:]).flip(0)),
     "The first word has position 0 and is not turned at all."),
    ("all turned by the last position",
     lambda x: turn(x, angles(*x.shape[1:])[-1:]),
     "Each word is turned by its own position. The angles have the shape (T, D / 2)."),
    *combined(_rotated, ROTATE_SLIPS, but=ROTATE_BUT),
    ("the second entry like the first: a cos + b sin",
     lambda x: interleave(rotate(x)[..., 0::2], turn(x, angles(*x.shape[1:]), (1, -1))[..., 0::2]),
     "The second entry is a sin + b cos."),
    ("turned the other way", lambda x: turn(x, angles(*x.shape[1:]), (1, -1)),
     "The minus sign stands with the first of each pair: a cos - b sin. If queries and keys are "
     "both turned so, the scores are the same, yet it is not what was asked for."),
    ("halves paired instead of neighbours", lambda x: turn(x, angles(*x.shape[1:]), halves=True),
     "Entry i was paired with entry i + D/2. Some models do so, and it serves as well, but the "
     "task pairs the entries 2i and 2i + 1."),
    ("the exponent not divided by D; or only the first pair turned",
     lambda x: turn(x, angles(*x.shape[1:], exponent=lambda i, d: 2 * i)),
     "The exponent is 2i / D, and every pair turns."),
    ("the exponent divided by the number of words",
     lambda x: turn(x, angles(*x.shape[1:], exponent=lambda i, d: 2 * i / x.shape[1])),
     "The exponent is 2i / D, and D is the width, the last axis of x."),
    ("the exponent of the odd entry",
     lambda x: turn(x, angles(*x.shape[1:], exponent=lambda i, d: (2 * i + 1) / d)),
     "The exponent is 2i / D: the number of the *even* entry of a pair, over D."),
    ("the exponent left out",
     lambda x: turn(x, angles(*x.shape[1:], exponent=lambda i, d: 0 * i + 1)),
     "The position is divided by 10000^(2i / D), for the first pair by 1."),
    ("the first of each pair with its sign turned",
     lambda x: interleave(-rotate(x)[..., 0::2], rotate(x)[..., 1::2]),
     "The first entry is a cos - b sin."),
    ("the pairs turned, then put back as halves",
     lambda x: torch.cat([rotate(x)[..., 0::2], rotate(x)[..., 1::2]], dim=-1),
     "The numbers are right. The pairs must stand side by side again: stack and flatten, where you "
     "have joined two halves."),
    ("the new first entry used for the second", overwritten,
     "The first half was overwritten before the second was computed. Both need the old a and b."),
    ("exponent i instead of 2i",
     lambda x: turn(x, angles(*x.shape[1:], exponent=lambda i, d: i / d)),
     "i counts the pairs, and the exponent is 2i / D."),
    ("exponent 4i in place of 2i",
     lambda x: turn(x, angles(*x.shape[1:], exponent=lambda i, d: 4 * i / d)),
     "i counts pairs. Either it was the number of an even entry, which is 2i already, or D / 2 "
     "stands below the line in place of D."),
    ("the same angle for every pair",
     lambda x: turn(x, angles(*x.shape[1:], exponent=lambda i, d: 0 * i)),
     "Each pair has its own speed: pair i turns by p / 10000^(2i/D)."),
    ("base 1000", lambda x: turn(x, angles(*x.shape[1:], base=1000.0)),
     "The base of the powers is 10000, with four zeros."),
    ("positions counted from 1", lambda x: turn(x, angles(*x.shape[1:], start=1)),
     "Positions count from 0: the first word is not turned at all."),
    ("turned by the number of the sentence",
     lambda x: turn(x, angles(x.shape[0], x.shape[2])[:, None]),
     "The positions are counted by axis 1 of (B, T, D). Axis 0 counts the sentences."),
    ("sinusoids added, nothing turned", lambda x: x + sinusoids(*x.shape[1:]),
     "This is the encoding of the paper. Rotary positions add nothing; they turn each pair."),
    ("multiplied by the sinusoids", lambda x: x * sinusoids(*x.shape[1:]),
     "Each new entry is a sum of two products: both a and b go into it."),
    ("a mirror, not a rotation: both signs plus", lambda x: turn(x, angles(*x.shape[1:]), (1, 1)),
     "One of the two sines has a minus sign: a cos - b sin."),
    ("both sines with a minus", lambda x: turn(x, angles(*x.shape[1:]), (-1, -1)),
     "Only the first sine has a minus sign; the second entry is a sin + b cos."),
    ("only the cosines", lambda x: turn(x, angles(*x.shape[1:]), (0, 0)),
     "Each entry must also take in its neighbour, times the sine."),
    ("angles taken in degrees", lambda x: turn(x, angles(*x.shape[1:]).deg2rad()),
     "torch.sin takes radians: nothing is to be converted."),
    ("the entries of each pair exchanged",
     lambda x: interleave(rotate(x)[..., 1::2], rotate(x)[..., 0::2]),
     "The numbers are right; a cos - b sin belongs first, in the entry 2i."),
    ("positions divided by the length", lambda x: turn(x, angles(*x.shape[1:]) / x.shape[1]),
     "A step must be the same in every sentence: the position is not divided by the length."),
    ("multiplied by the power instead of divided",
     lambda x: turn(x, angles(*x.shape[1:], exponent=lambda i, d: -2 * i / d)),
     "The position is divided by 10000^(2i/D): later pairs turn more slowly."),
    ("multiplied instead of divided",
     lambda x: turn(
         x,
         torch.arange(x.shape[1])[:, None]
         * 10000 ** (torch.arange(0, x.shape[2], 2) / x.shape[2]),
     ),
     "The position is divided by 10000^(2i/D): later pairs turn more slowly."),
    ("the cosine of the second entry with a minus",
     lambda x: interleave(
         rotate(x)[..., 0::2],
         -rotate(x * torch.tensor([-1.0, 1.0]).repeat(x.shape[2] // 2))[..., 1::2],
     ),
     "The second entry is a sin + b cos, with a plus. The only minus stands in the first."),
    ("nothing turned", lambda x: x.clone(),
     "x came back as it was. Every position but the first turns its pairs."),
    ("sine and cosine exchanged", lambda x: turn(x, math.pi / 2 - angles(*x.shape[1:])),
     "For an angle of zero nothing may change: the first entry is a cos - b sin, with the cosine "
     "at a."),
    ("the entries a and b exchanged",
     lambda x: rotate(x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)),
     "a is the even entry, x[..., 0::2], b the odd one, x[..., 1::2]."),
    ("the new second entry used for the first", second_first,
     "The second half was overwritten before the first was computed. Both need the old a and b."),
    ("halves taken apart, neighbours put together",
     lambda x: interleave(*turn(x, angles(*x.shape[1:]), halves=True).chunk(2, dim=-1)),
     "The pairs are the entries 2i and 2i + 1: take them apart with x[..., 0::2] and x[..., "
     "1::2]."),
    ("only the first of each pair turned", lambda x: interleave(rotate(x)[..., 0::2], x[..., 1::2]),
     "Both entries of a pair change. The second becomes a sin + b cos."),
    ("only the second of each pair turned",
     lambda x: interleave(x[..., 0::2], rotate(x)[..., 1::2]),
     "Both entries of a pair change. The first becomes a cos - b sin."),
    ("the logarithm to base 10 where the natural one belongs",
     lambda x: turn(x, angles(*x.shape[1:], base=math.exp(4.0))),
     "exp(-x log 10000) is 10000^-x only for the natural logarithm. With log10 the base is e^4."),
    ("pairs counted from 1",
     lambda x: turn(x, angles(*x.shape[1:], exponent=lambda i, d: 2 * (i + 1) / d)),
     "i counts from 0: the first pair turns by p radians."),
    ("every word turned by one step", lambda x: turn(x, angles(2, x.shape[2])[1:]),
     "The angle is p times the speed, with p the position of the word. Here p is 1 for all."),
    ("every word turned by the length", lambda x: turn(x, angles(x.shape[1] + 1, x.shape[2])[-1:]),
     "Each word is turned by its own position, not by T."),
    *((name, lambda x, sin=sin, cos=cos, exponent=exponent: _entrywise(x, sin, cos, exponent), why)
      for name, sin, cos, exponent, why in (
        ("an angle of its own for each entry", torch.sin, torch.cos, lambda j, d: j / d,
         "Entries 2i and 2i + 1 are turned by one angle, with the exponent 2i / D."),
        ("the number of the entry taken for i", torch.sin, torch.cos, lambda j, d: 2 * j / d,
         "Entries 2i and 2i + 1 are turned by one angle, with the exponent 2i / D."),
        ("cosines in place of sines", torch.cos, torch.cos, _of_pairs,
         "The new first entry is a cos - b sin, the second a sin + b cos."),
        ("sines in place of cosines", torch.sin, torch.sin, _of_pairs,
         "The new first entry is a cos - b sin, the second a sin + b cos."),
        ("only the sines", torch.sin, lambda angle: 0 * angle, _of_pairs,
         "Each entry stays in the result, too, times the cosine."),
        ("the entries themselves without their cosine", torch.sin, lambda angle: 0 * angle + 1,
         _of_pairs, "The new first entry is a cos - b sin, the second a sin + b cos."),
        ("the neighbours without their sine", lambda angle: 0 * angle + 1, torch.cos,
         _of_pairs, "The new first entry is a cos - b sin, the second a sin + b cos."),
        ("the angle in place of its sine", lambda angle: angle, torch.cos, _of_pairs,
         "The new first entry is a cos - b sin, with the sine of theta."),
        ("the angle in place of its cosine", torch.sin, lambda angle: angle, _of_pairs,
         "The new first entry is a cos - b sin, with the cosine of theta."),
    )),
    ("zeros for all", torch.zeros_like,
     "Every entry gets a new number. Is the line that fills them in missing?"),
    ("the angles repeated in halves",
     lambda x: (
         x * angles(*x.shape[1:]).repeat(1, 2).cos().float()
         + interleave(-x[..., 1::2], x[..., 0::2])
         * angles(*x.shape[1:]).repeat(1, 2).sin().float()
     ),
     "Entries 2i and 2i + 1 share an angle: repeat_interleave(2, dim=-1), where repeat puts the "
     "angles 0, 1, 2, ... side by side twice."),
    ("neighbours share an angle, halves are paired",
     lambda x: (
         x * angles(*x.shape[1:]).repeat_interleave(2, 1).cos().float()
         + torch.cat([-x[..., x.shape[2] // 2 :], x[..., : x.shape[2] // 2]], dim=-1)
         * angles(*x.shape[1:]).repeat_interleave(2, 1).sin().float()
     ),
     "The angles are right. The partner of entry 2i is entry 2i + 1, not the one half a width "
     "away."),
    ("the last pair 10000 times slower",
     _rotated(exponent=lambda i, d: i / max(d / 2 - 1, 1)),
     "The exponent is 2i / D. It does not reach 1."),
    ("the pairs turned, then dealt out anew",
     lambda x: rotate(x).unflatten(-1, (2, -1)).mT.flatten(-2),
     "The numbers are right, and stood side by side already: the pairs stay in the entries 2i and "
     "2i + 1."),
    ("the two entries of the pairs apart, as two results or along a first axis",
     lambda x: (rotate(x)[..., 0::2], rotate(x)[..., 1::2]),
     "The numbers are right. They stand side by side again, a pair in entries 2i and 2i + 1: one "
     "result as wide as x. (To stack them, take the last axis, and flatten.)"),
    ("the pairs in an axis of their own", lambda x: rotate(x).unflatten(-1, (-1, 2)),
     "The numbers are right. Flatten the last two axes: the result has the shape of x."),
    ("the second entry's angle that of the next pair", lambda x: _entrywise(
        x, torch.sin, torch.cos, lambda j, d: (j + j % 2) / d),
     "Entries 2i and 2i + 1 are turned by one angle, with the exponent 2i / D."),
)  # fmt: skip


def keeps_lengths(output: Tensor, x: Tensor) -> bool:
    lengths = torch.as_tensor(output).double().norm(dim=-1)
    return bool(torch.allclose(lengths, x.double().norm(dim=-1), atol=1e-3))


# 9.7 predict: which dot products are equal

COMPARED = {
    "first": ("equal", {
        "greater": "PE_3 . PE_5 and PE_10 . PE_12: both are two apart, and no more is in (9.8).",
        "smaller": "PE_3 . PE_5 and PE_10 . PE_12: both are two apart, and no row is longer than "
            "another, however far back.",
    }),
    "second": ("equal", {
        "greater": "PE_20 . PE_17 and PE_40 . PE_43: back or ahead, the cosine is the same.",
        "smaller": "PE_20 . PE_17 and PE_40 . PE_43: back or ahead, the cosine is the same.",
    }),
    "third": ("greater", {
        "equal": "PE_1 . PE_2 and PE_2 . PE_4: it is the difference that counts, not the ratio.",
        "smaller": "PE_1 . PE_2 and PE_2 . PE_4: the nearer two are the more alike.",
    }),
    "fourth": ("smaller", {
        "greater": "With D = 2 there is one hand, and PE_p . PE_q = cos(p - q). After six places "
            "it is nearly round, after three it points the other way.",
        "equal": "With D = 2 there is one hand, and PE_p . PE_q = cos(p - q): cos 3 is not cos 6.",
    }),
}  # fmt: skip


def _compared_mistakes() -> list[tuple[str, list[str], str]]:
    """Every other list of four words, with what is wrong about it."""
    rows = []
    for said in itertools.product(("equal", "greater", "smaller"), repeat=4):
        wrong = [
            (f'"{word}" for the {place}', why[word])
            for (place, (right, why)), word in zip(COMPARED.items(), said, strict=True)
            if word != right
        ]
        if wrong:
            names, reasons = zip(*wrong, strict=True)
            rows.append((", ".join(names), list(said), " ".join(reasons)))
    return rows


def _compared(output: Any) -> Any:
    """Words, which may also be signs, and other words for the same."""
    words = {"=": "equal", "<": "smaller", ">": "greater"}
    said = (one.strip().lower() for one in items(output))
    return [words.get(SIGNS.get(one, one), one) for one in said]


# 9.8 design: a head that finds the previous word; the first quarter of the entries is free of words


def previous_word(d_model: int) -> tuple[Tensor, Tensor]:
    return _looking()(d_model)


def _looking(
    k: int = -1, size: float = 100.0, kept: tuple[float, float] = (0, 0.25), turn: str = "queries",
    step: int = 1,
) -> Callable[[int], tuple[Tensor, Tensor]]:  # fmt: skip
    """W^Q = size P R_k and W^K = P, with P keeping a part of the entries."""

    def design(d_model: int) -> tuple[Tensor, Tensor]:
        keep = torch.zeros(d_model)
        first, last = (max(int(d_model * part), 0) for part in kept)
        keep[first : max(last, first + 2) : step] = 1.0
        still, turned = keep.diag(), keep.diag() @ step_matrix(k, d_model)
        return (size * turned, still) if turn == "queries" else (size * still, turned)

    return design


def looked_at(answer: Callable, d_model: int, start: int, length: int) -> Any:
    """At which word each word but the first looks most, and which of them give it 0.9 or less."""
    given = answer(d_model)
    if len(given) != 2:
        raise ValueError(f"expected a pair (w_q, w_k), got {kind(given)}")
    w_q, w_k = (torch.as_tensor(w, dtype=torch.float64).detach() for w in given)
    if w_q.ndim == w_k.ndim == 2 and w_q.shape[1] == w_k.shape[1] == d_model != w_q.shape[0]:
        raise ValueError(
            f"expected w_q and w_k of shape ({d_model}, d_k), got them transposed: "
            f"{tuple(w_q.shape)} and {tuple(w_k.shape)}"
        )
    for name, w in (("w_q", w_q), ("w_k", w_k)):
        if w.ndim != 2 or w.shape[0] != d_model or w.shape[1] != w_q.shape[1]:
            raise ValueError(
                f"expected {name} of shape ({d_model}, d_k), one d_k for both, got {tuple(w.shape)}"
            )
    draw = torch.Generator().manual_seed(start + length)
    words = 3 * torch.randn(2, length, d_model, generator=draw, dtype=torch.float64)
    words[:, :, : d_model // 4] = 0.0
    x = words + sinusoids(start + length, d_model)[start:]
    both = (x @ w_q) @ (x @ w_k).mT / w_q.shape[1] ** 0.5
    if w_q.isnan().any() or w_k.isnan().any():
        raise ValueError("expected numbers, got NaN among the entries of w_q and w_k")
    if not both.isfinite().all():
        raise ValueError("expected finite scores, got infinite ones: the numbers are too large")
    weights = both[0].softmax(-1)[1:]
    places, most = weights.argmax(-1).tolist(), weights.amax(-1).tolist()
    right = places == [*range(length - 1)] and min(most) > 0.9
    return {
        "looks at": places,
        "not sure": [t + 1 for t, weight in enumerate(most) if weight <= 0.9],
        "words are heard": not right and bool((both[0] - both[1]).abs().max() > 1e-6),
    }


def _where_it_looks(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """Most words look equally far: at which place, and how surely."""
    if any(found["words are heard"] for found in got):
        return PREVIOUS_MISTAKES[0].name, PREVIOUS_MISTAKES[0].why
    for known in PREVIOUS_MISTAKES:  # however long the queries are
        there = (looked_at(known.wrong, *case)["looks at"] for case in cases)
        if all(found["looks at"] == places for found, places in zip(got, there, strict=True)):
            return known.name, known.why
    seen = [
        (t, at, len(found["looks at"]))
        for found in got
        for t, at in enumerate(found["looks at"], 1)
    ]
    for step in (-1, 0, 1, *range(-9, -1), *range(2, 10)):
        there = [at == t + step for t, at, last in seen if 0 <= t + step <= last]
        if sum(there) >= 0.9 * len(there):
            break
    else:
        return None
    if step == -1 and not all(there):
        return None
    if step == -1:
        return (
            "not sure enough",
            "The right word has the highest score, and the softmax is too even: others come near. "
            "Keep all entries that are free of words, and make the queries longer.",
        )
    where = {0: "every word looks at itself", 1: "looking ahead"}
    name = where.get(step, f"looking {abs(step)} words {'back' if step < 0 else 'ahead'}")
    why = "R_{-1} turns a query one step back, and the keys stay as they are."
    if step == 0:
        why += " (Do its sines fall on entries that are struck out?)"
    return name, why


def _mirrored(d_model: int) -> tuple[Tensor, Tensor]:
    w_q, w_k = _looking()(d_model)
    return w_q * torch.tensor([1.0, -1.0]).repeat(d_model // 2), w_k


def _in_two_halves(d_model: int) -> tuple[Tensor, Tensor]:
    """Turns entries that are no pair, all in the first quarter."""
    free = d_model // 4
    keep = torch.eye(d_model)[:, :free]
    speeds = step_angles(-1, d_model)[: free // 2]
    sin, cos = speeds.sin().diag(), speeds.cos().diag()
    R = torch.cat([torch.cat([cos, -sin], dim=1), torch.cat([sin, cos], dim=1)]).float()
    return 100.0 * keep @ R, keep


PREVIOUS_MISTAKES = mistakes(
    ("the words are still in it", _looking(kept=(0, 1)),
     "The words have their say in the scores, too, and a word is most like itself. Keep only the "
     "entries in which words have nothing. (A table of positions in the place of a matrix keeps "
     "none.)"),
    ("entries of words among those that are kept", _looking(kept=(0, 0.5)),
     "Only the first quarter is free of words."),
    ("the last quarter of the entries", _looking(kept=(0.75, 1)),
     "The entries without words are the first quarter, not the last."),
    ("looking ahead, and not sure enough", _looking(1, size=2.0),
     "A rotation the other way finds the previous word, and longer queries make it sure."),
    ("three words back", _looking(-3), "One step back is R_{-1}."),
    ("looking ahead", _looking(1),
     "That finds the *next* word: a rotation the other way, or w_q and w_k returned in each "
     "other's place."),
    ("every word looks at itself", _looking(0),
     "Without a rotation, or with the same one on both sides, each word is most like itself; and "
     "so with one whose sines fall on entries that are struck out. The two entries of a hand are "
     "2i and 2i + 1 here."),
    ("two words back", _looking(-2), "One step back is R_{-1}."),
    ("not sure enough", _looking(size=2.0),
     "The right word has the highest score, and the softmax is too even. Nothing keeps you from "
     "making the queries longer. And several hands tell apart what one of them confuses after a "
     "turn."),
    ("the sines alone", _looking(step=2),
     "A rotation needs both entries of a hand, the sine and the cosine."),
    ("nothing in common", _looking(size=0.0), "All scores are equal."),
    ("the opposite sign", _looking(size=-100.0), "The previous word has the lowest score."),
    ("entry i paired with one half a quarter on", _in_two_halves,
     "The two entries of a hand are neighbours in the paper's table, 2i and 2i + 1."),
    ("a mirror in place of a rotation", _mirrored,
     "A rotation has a minus sign at one of its sines and plus signs at the cosines."),
    ("the keys turned two places back", _looking(-2, turn="keys"),
     "Turn the keys ahead, or the queries back, by one place."),
    ("a shift of the entries",
     lambda d_model: (30.0 * torch.eye(d_model).roll(-1, 1), torch.eye(d_model)),
     "A step along the sentence moves no entry to another place. It turns each hand (9.7)."),
)  # fmt: skip


EXERCISES = [
    Exercise(
        number="9.1",
        title="a row by hand",
        section="By hand",
        reference=pairs(HANDS),
        mistakes=HAND_MISTAKES,
        rtol=0.0,
        atol=2e-3,
    ),
    Exercise(
        number="9.2",
        title="read the clocks",
        section="Only the distance counts",
        reference=places_of,
        cases=places_cases,
        mistakes=PLACES_MISTAKES,
        invariants=Family(_too_few),
        canonical=_whole,
    ),
    Exercise(
        number="9.3",
        title="find the mistakes",
        section="Added to the words",
        reference=placed,
        cases=placed_cases,
        mistakes=PLACED_MISTAKES,
        invariants=Family(_too_quick(PLACED_MISTAKES)),
        atol=1e-5,
    ),
    Exercise(
        number="9.4",
        title="a test for what reaches the first layer",
        section="How long is a word beside its position?",
        reference=embed_right,
        cases=[()],
        mistakes=EMBED_TEST_MISTAKES,
        probe=verdicts_on(ALL_EMBEDS, EMBED_LACKS, spoilt=Spoilt(("sentence", "word", "entry"))),
        invariants=rules(RIGHT_EMBEDS, EMBEDS_WHY),
    ),
    Exercise(
        number="9.5",
        title="derive: the step in another order",
        section="A step is a rotation",
        reference=step_in_halves,
        cases=STEP_CASES,
        mistakes=STEP_MISTAKES,
        invariants=Family(
            _too_quick(STEP_MISTAKES),
            [
                Invariant(
                    "a rotation keeps lengths",
                    turns_and_nothing_else,
                    "R times its transpose must be the identity: a rotation changes no length.",
                )
            ],
        ),
        atol=1e-5,
    ),
    Exercise(
        number="9.6",
        title="rotary positions",
        section="Rotary positions: RoPE",
        reference=rotate,
        cases=rotate_cases,
        mistakes=ROTATE_MISTAKES,
        invariants=Family(
            _too_quick(ROTATE_MISTAKES),
            [
                Invariant(
                    "a rotation keeps lengths",
                    keeps_lengths,
                    "Turning a vector does not change its length, and here some lengths have "
                    "changed.",
                )
            ],
        ),
        atol=1e-5,
    ),
    Exercise(
        number="9.7",
        title="predict, then try: which places are equally alike",
        section="Only the distance counts",
        reference=[right for right, _ in COMPARED.values()],
        mistakes=mistakes(*_compared_mistakes()),
        canonical=_compared,
    ),
    Exercise(
        number="9.8",
        title="design: a head that finds the previous word",
        section="A head that looks back",
        reference=previous_word,
        cases=[(64, 0, 12), (32, 0, 40), (64, 500, 30)],
        mistakes=PREVIOUS_MISTAKES,
        probe=looked_at,
        invariants=Family(_where_it_looks),
    ),
]
