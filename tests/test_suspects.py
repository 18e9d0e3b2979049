"""Exercises that ask for a test: where no mistake is known, the one misjudged is named."""

from __future__ import annotations

import math
import random
from decimal import Decimal

import pytest
import torch

from allyouneed.exercises import (
    chapter_01,
    chapter_02,
    chapter_03,
    chapter_04,
    chapter_06,
    chapter_07,
    chapter_08,
    chapter_09,
    chapter_10,
    chapter_12,
    chapter_13,
    chapter_14,
)
from allyouneed.exercises.core import examine, find
from allyouneed.exercises.suspects import (
    ANY,
    EXACT,
    LOOSE,
    ONE_IS_ENOUGH,
    Spoilt,
    rules,
    verdicts_on,
)
from allyouneed.multihead import split_heads

GIVEN = {
    "9.4": (chapter_09.ALL_EMBEDS, chapter_09.RIGHT_EMBEDS, chapter_09.EMBEDS_WHY),
    "8.5": (chapter_08.ALL_WEIGHTS, chapter_08.RIGHT_WEIGHTS, chapter_08.WEIGHTS_WHY),
    "10.2": (chapter_10.ALL_NORMS, chapter_10.RIGHT_NORMS, chapter_10.NORMS_WHY),
    "12.6": (chapter_12.CLIPS, chapter_12.RIGHT_CLIPS, chapter_12.CLIPS_WHY),
    "13.3": (chapter_13.ALL_SEARCHES, chapter_13.RIGHT_SEARCHES, chapter_13.SEARCHES_WHY),
    "14.2": (chapter_14.SCORES, list(chapter_14.SCORES)[:3], chapter_14.SCORES_WHY),
}


def misjudging(suspects: dict, right: list, *names: str):
    """A test that is right about all suspects but those named."""
    known = {id(suspect): name for name, suspect in suspects.items()}

    def test(suspect):
        name = known[id(getattr(suspect, "__wrapped__", suspect))]
        return (name in right) != (name in names)

    return test


@pytest.mark.parametrize("number", GIVEN)
def test_every_suspect_has_its_reason(number):
    suspects, right, why = GIVEN[number]
    assert list(suspects) == [*right, *why]


@pytest.mark.parametrize("number", GIVEN)
def test_the_one_misjudged_is_named_with_what_it_does(number):
    suspects, right, why = GIVEN[number]
    wrong = list(why)
    for names in [(name,) for name in suspects] + [(wrong[3], wrong[-1]), (wrong[-2], wrong[-4])]:
        verdict = examine(number, misjudging(suspects, list(right), *names))
        said = " ".join(verdict.message.split())
        assert verdict.status == "wrong"
        if verdict.mistake not in {one.name for one in find(number).mistakes}:
            name = min(names, key=list(suspects).index)
            assert f'"{name}"' in verdict.mistake, said
            assert (why[name] if name in why else "Does your test ask for more?") in said, said


@pytest.mark.parametrize("number", GIVEN)
def test_one_that_is_wrong_itself_taken_for_right_is_named(number):
    suspects, right, why = GIVEN[number]
    for name in why:
        one = suspects[name]
        verdict = examine(number, lambda suspect, one=one: suspect is one)
        assert verdict.status == "wrong"
        if verdict.mistake not in {one.name for one in find(number).mistakes}:
            assert verdict.mistake == f'"{name}" taken for right, and what is right refused'
            assert " ".join(why[name].split()) in " ".join(verdict.message.split())


def test_a_right_machine_refused_for_its_rounding_is_not_said_to_have_read_words():
    """11.8, with equality and with other tokens than ours."""

    def which_fault(model, vocab_size):
        def said(src, tgt):
            return model(torch.tensor([src]), torch.tensor([tgt]))[:, :2]

        first = said([8, 4, 7, 5, 3], [2, 6, 5])
        if not torch.equal(first, said([8, 4, 7, 5, 3], [2, 6, 5])):
            return "dropout is on"
        if not torch.equal(first, said([8, 4, 7, 5, 3], [2, 6, 8])):
            return "sees the future"
        if not torch.equal(first, said([8, 4, 7, 5, 3, 0, 0, 0], [2, 6, 5])):
            return "sees the padding"
        if torch.equal(first, said([6, 4, 6, 5, 3], [2, 6, 5])):
            return "ignores the source"
        if torch.allclose(first, said([5, 7, 4, 8, 3], [2, 6, 5]), atol=1e-4):
            return "no positions"
        return "right"

    verdict = examine("11.8", which_fault)
    assert verdict.status == "wrong"
    rounded = '"sees the padding" said where it is "right"'  # and others, as processors round
    assert verdict.mistake == "a tolerance of 0" or verdict.mistake.startswith(rounded)


TOLD = {  # what the input of a reader's test may lack, by what it is called with
    "1.7": (chapter_01.SUSPECTS, chapter_01.FILL_LACKS, True),
    "2.4": (chapter_02.READERS, chapter_02.READER_LACKS, True),
    "3.7": (chapter_03.SUSPECTS, chapter_03.TEST_LACKS, True),
    "4.8": (chapter_04.LAYERS, chapter_04.APART_LACKS, False),
    "7.10": (chapter_07.CUTS, chapter_07.CUT_LACKS, True),
    "9.4": (chapter_09.ALL_EMBEDS, chapter_09.EMBED_LACKS, True),
    "10.2": (chapter_10.ALL_NORMS, chapter_10.NORM_LACKS, True),
    "12.6": (chapter_12.CLIPS, chapter_12.CLIP_LACKS, True),
    "13.3": (chapter_13.ALL_SEARCHES, chapter_13.BEAM_LACKS, True),
}


@pytest.mark.parametrize("number", TOLD)
def test_whatever_input_may_lack_has_a_row(number):
    suspects, lacks, one_task = TOLD[number]
    verdicts = verdicts_on(suspects, lacks, one_task)
    said = [verdicts(mistake.wrong) for mistake in find(number).mistakes]
    assert {one["input"] for one in said if "input" in one} == {*lacks}
    assert {"said": "the opposite"} in said


def filled_alike(seed: int, draw) -> object:
    """A test of 1.7 that compares with the right batches, on lists of one kind."""
    lists = [draw(random.Random(seed + i)) for i in range(3)]
    right = chapter_01.fill_batches
    return lambda fill: all(fill(some, 12) == right(some, 12) for some in lists)


@pytest.mark.parametrize("seed", range(0, 30, 3))
def test_input_that_lacks_something_is_named_whatever_passes(seed):
    """Other lists let other wrong ones pass; what they have in common is said."""
    some = lambda draw: [draw.randint(1, 8) for _ in range(9)]  # noqa: E731
    for name, draw in (
        ("only lengths that rise", lambda draw: sorted(some(draw))),
        ("only lengths that fall", lambda draw: sorted(some(draw))[::-1]),
        ("only sentences of one length", lambda draw: [draw.randint(1, 8)] * 9),
    ):
        assert examine("1.7", filled_alike(seed, draw)).mistake == name


def test_input_is_not_blamed_for_what_a_test_does_not_look_at():
    """Whoever looks at shapes alone is not told that the input has no padding."""
    mask = torch.ones(2, 4, dtype=torch.bool)

    def shapes(attention):
        return attention(torch.randn(2, 3, 4), torch.randn(2, 4, 5), mask).shape == (2, 3, 5)

    assert examine("3.7", shapes).mistake == "everything passes"


def test_a_tolerance_is_not_called_a_size():
    """What T = D lets pass, a tolerance of 1 may let pass as well: the input is looked at."""
    given = chapter_09._given()
    wanted = chapter_09.embed(*given)
    loose = examine("9.4", lambda embed: torch.allclose(embed(*given), wanted, atol=1.0))
    assert loose.mistake == LOOSE


@pytest.mark.parametrize("number", ("9.4", "12.6"))
def test_an_error_that_counts_as_a_yes_is_named(number):
    right = find(number).reference

    def swallows(suspect):
        try:
            return right(suspect)
        except Exception:
            return True

    assert examine(number, swallows).mistake == "an error taken for a yes"


def test_a_test_that_returns_nothing_is_told_so():
    said = examine("1.7", lambda fill: print(end=str(fill([3], 5))[:0])).message
    assert "returned None" in said


def test_a_few_errors_are_not_what_a_test_says():
    """It compares and forgets to return: a wrong one that raises has not been found by it."""
    ids, words, places = torch.tensor([[1, 2, 3], [3, 0, 2]]), torch.randn(5, 4), torch.randn(7, 4)

    def compares(embed):
        torch.allclose(embed(ids, words, places), 2 * words[ids] + places[:3])

    assert "returned None" in examine("9.4", compares).message


def test_a_test_for_each_entry_is_told_how_to_make_one():
    same = lambda norm: norm(torch.ones(2, 3), torch.ones(3), torch.ones(3), 0.5) == 1  # noqa: E731
    assert "`.all()` makes one" in " ".join(examine("10.2", same).message.split())
    listed = lambda f1: [f1([[("S", 0, 1)]], [None]) == 0, f1([[]], [[]]) == 0]  # noqa: E731
    assert "a list of 2 of them: `all(...)` makes one" in examine("18.4", listed).message


TESTED = (
    "1.7", "2.4", "3.7", "4.8", "7.10", "8.5", "9.4", "10.2", "12.6", "13.3", "14.2", "15.11",
    "16.10", "17.11", "18.4", "20.10",
)  # fmt: skip


@pytest.mark.parametrize("number", TESTED)
def test_what_a_test_says_must_be_yes_or_no(number):
    """Whatever is neither is shown; nobody is told that everything passes who said "False"."""
    for said, shown in (
        ("False", "a string"),
        ((False, "why"), "a tuple of 2"),
        (float("nan"), "nan"),
        (0.5, "0.5"),
        ([], "a list of 0"),
        (torch.tensor([True, False]), "a tensor of shape (2,)"),
    ):
        verdict = examine(number, lambda suspect, said=said: said)
        assert verdict.status == "wrong" and verdict.mistake is None, verdict.message
        assert "Expected True or False of your test, got" in verdict.message
        assert shown in verdict.message


@pytest.mark.parametrize("number", TESTED)
def test_yes_and_no_may_be_said_in_other_words_and_by_asserts(number):
    right = find(number).reference

    def asserts(suspect):
        assert right(suspect)

    for answer in (
        asserts,
        lambda suspect: torch.tensor(bool(right(suspect))),
        lambda suspect: float(right(suspect)),
    ):
        assert examine(number, answer).status == "correct"
    verdict = examine(number, lambda suspect: print(end=""))
    assert verdict.status == "wrong" and verdict.mistake is None, verdict.message
    assert "returned None" in verdict.message


@pytest.mark.parametrize("number", TESTED)
def test_a_test_that_returns_something_returns_it_always(number):
    """With `assert` alone nothing is a yes. With a value in one case it is a `return` missing."""
    right = find(number).reference

    def asserts(suspect, then=None):
        assert right(suspect)
        return then

    def early(suspect):
        assert right(suspect)
        return True if draws.pop() else None

    assert examine(number, asserts).status == "correct"
    assert examine(number, lambda suspect: asserts(suspect, True)).status == "correct"
    draws = 1000 * [True, False]
    for answer, missing in (
        (lambda suspect: None if right(suspect) else False, "`return True` is missing"),
        (lambda suspect: True if right(suspect) else None, "`return False` is missing"),
        (early, "a `return` is missing"),
    ):
        verdict = examine(number, answer)
        assert (verdict.status, verdict.mistake) == ("wrong", missing), verdict.message


def epoch(model, batches, optimizer, places=slice(None), write=lambda loss: loss):
    """A right answer to 12.7, but for the places that are asked and how the loss is written."""
    model.train()
    total = count = 0
    for src, tgt in batches:
        logits, labels = model(src, tgt[:, :-1])[:, places], tgt[:, 1:][:, places]
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=0, reduction="sum"
        )
        words = (labels != 0).sum()
        optimizer.zero_grad()
        (losses / words).backward()
        optimizer.step()
        total, count = total + losses.item(), count + int(words)
    return write(total / count)


def stack(length):
    return find("17.10").reference(length)


class Dropping(chapter_07.ManyHeads):
    """Right, but for a dropout on the weights, where nobody asks for one."""

    def weigh(self, scores, mask):
        return torch.nn.functional.dropout(super().weigh(scores, mask), 0.1, self.training)


class AlwaysDropping(chapter_07.ManyHeads):
    """Throws scores away in training and after it."""

    def weigh(self, scores, mask):
        return super().weigh(torch.nn.functional.dropout(scores, 0.5), mask)


class OneMore(chapter_07.ManyHeads):
    """Puts a layer of its own behind the last, which nobody fills: that is no dropout."""

    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.last = torch.nn.Linear(d_model, d_model)

    def forward(self, *inputs):
        return self.last(super().forward(*inputs))


class Itself(chapter_07.ManyHeads):
    def forward(self, *inputs):
        return self


def embeds_one(embed):
    ids, words, places = torch.tensor([[1, 2, 0], [0, 3, 3]]), torch.randn(4, 6), torch.randn(5, 6)
    return torch.allclose(embed(ids, words, places), 6**0.5 * words[ids] + places[:3], atol=1e-4)


def weighs_to_the_bit(weigh):
    """On a single input, which finds some of the wrong ones."""
    scores, ids = torch.randn(2, 2, 4, 4), torch.tensor([[0, 5, 6, 7], [5, 6, 0, 0]])
    return torch.equal(weigh(scores, ids, 0), chapter_08.decoder_weights(scores, ids, 0))


ODD = [  # answers that are odd, and what is said of them: a name, or words
    ("6.8", lambda scores, entropy: math.nan, "broken rule: a temperature above 0, and finite"),
    ("6.8", lambda scores, entropy: math.inf, "broken rule: a temperature above 0, and finite"),
    ("6.8", lambda scores, entropy: 0.0, "broken rule: a temperature above 0, and finite"),
    ("6.8", lambda scores, entropy: -0.5, "minus the temperature"),
    ("7.7", Dropping, "a dropout in training"),
    ("7.7", AlwaysDropping, "another output at each call"),
    ("7.7", OneMore, "It is right in 0 of 8 cases."),
    ("7.7", Itself, "Got a module, expected a tensor"),
    ("12.7", lambda *given: epoch(*given, places=slice(-1, None)), "the last place alone"),
    ("12.7", lambda *given: epoch(*given, places=slice(0, 1)), "the first place alone"),
    ("12.7", lambda *given: epoch(*given, write=lambda x: [x]), "Expected a number, got a list"),
    ("14.10", lambda references: 3, "Expected two systems, (a, b), got a number: 3."),
    ("14.10", lambda references: None, "returned None"),
    ("14.10", lambda references: (["a b"], ["b"]), "lists of words, got a string: 'a b'"),
    ("17.10", lambda length: 3, "Expected a list of pairs (window, dilation), got 3."),
    ("17.10", lambda length: [(2.5, 1)], "Expected whole numbers, got [(2.5, 1)]"),
    ("17.10", lambda length: [(math.inf, 1)], "Expected whole numbers, got [(inf, 1)]"),
    ("17.10", lambda length: [(2, 1)] * 10**5, "all is heard, and it could be cheaper"),
    ("17.10", lambda length: stack(length)[:-1] or [(1, 1)], "positions are left out"),
    ("17.10", lambda length: None, "returned None"),
    ("17.10", lambda length, window: [(2, 1)], "it cannot be called as the task says"),
    ("20.9", lambda K, n, match: None, "returned None"),
    ("20.9", lambda K, n, match: 3, "what it returned cannot be read"),
    ("20.9", lambda K, n, match: held(K, 3 + math.log(n) / 2), "too little (in 4 of 5 cases)"),
    ("20.9", lambda K, n, match: held(K, 3 + math.log10(n)), "a logarithm to the base 10"),
    ("8.8", ["no", "no", "yes", "yes", "yes", "no"], "two layers without a mask"),
    ("8.8", ["a", "b", "c", "d", "e", "f"], "strings in place of True and False"),
    ("7.8", ["two", "some"], "2 given, and 3 asked for"),
    ("7.2", ["1", "2", "3", "4"], "strings in place of numbers"),
    ("7.1", [7, 1, 7.5, 9.5], "At [2]: got 7.5."),  # and not that whole numbers are expected
    ("4.9", lambda q, k: (q, k.T), "Expected two tables of one width, (T, L) and (S, L), got"),
    (
        "5.7",
        lambda w_q, w_k, w_v: len,
        "`w_q`: expected an attribute that is an nn.Linear, got none",
    ),
    ("9.4", lambda embed: not embeds_one(embed), "yes and no exchanged"),
    ("8.5", lambda weigh: weighs_to_the_bit(weigh), "equal to the last bit"),
]


def searched_on_the_wrong_side(scores, entropy):
    """With limits of its own, so that no mistake of the bank has them."""
    low, high = 1e-3, 1e3
    for _ in range(60):
        middle = (low + high) / 2
        if chapter_06.entropy_at(scores, middle) > entropy:
            low = middle
        else:
            high = middle
    return middle


def searched_with_nan(scores, entropy):
    """Halves the ratio of its limits; 0 times the logarithm of 0 is NaN in it."""
    low, high = 1e-12, 1e12
    for _ in range(200):
        middle = (low * high) ** 0.5
        p = ((scores.double() - scores.max()) / middle).softmax(0)
        low, high = (middle, high) if -(p * p.log()).sum() < entropy else (low, middle)
    return middle


def one_word_too_few(x, lengths, *weights):
    """The last word of a row is never read: of no matter where rows are longer than sentences."""
    return find("2.2").reference(x, lengths.clamp(max=max(x.shape[1] - 1, 1)), *weights)


def held(K, score):
    key = torch.zeros(K)
    key[-1] = K**0.5 * score
    return key, torch.zeros(K)


@pytest.mark.parametrize("number, answer, words", ODD)
def test_an_odd_answer_is_told_what_is_odd(number, answer, words):
    verdict = examine(number, answer)
    assert verdict.status == "wrong" and "It raised" not in verdict.message  # the reader did not
    assert words.lower() in " ".join(verdict.message.split()).lower(), verdict.message


@pytest.mark.parametrize("write", [lambda n: [n], lambda n: Decimal(n), lambda n: torch.tensor(n)])
def test_one_number_may_be_written_as_it_comes(write):
    count = find("18.9").reference
    answer = lambda n, labels: write(count(n, labels)) if n < 20 else count(n, labels)  # noqa: E731
    assert examine("18.9", answer).status == "correct"


def english_together(pairs, n_test):
    """Split by English sentences; training pairs whose French is in the test are dropped."""
    test, normalise = [], chapter_01.normalise
    for english, _ in pairs:
        if len(test) < n_test:
            here = [p for p in pairs if normalise(p[0]) == normalise(english)]
            test += [p for p in here if p not in test]
    french = {normalise(p[1]) for p in test}
    left = [p for p in pairs if normalise(p[0]) not in {normalise(q[0]) for q in test}]
    return [p for p in left if normalise(p[1]) not in french], test


def as_einsum(scores, values, mask):
    parts = (scores - scores.amax(-1, keepdim=True)).exp() * mask[:, None]
    return torch.einsum("bts,bsd->btd", parts / parts.sum(-1, keepdim=True), values)


def looked_through(seed):
    draw = torch.Generator().manual_seed(seed)
    mask = torch.tensor([[True, True, False, False], [True, True, True, False]])
    sizes = (2, 3, 4), (2, 4, 5)
    return *(torch.randn(size, generator=draw) for size in sizes), mask


@pytest.mark.parametrize(
    "equal",
    [
        torch.equal,
        lambda a, b: bool((a == b).all()),
        lambda a, b: bool(a.eq(b).all()),
        lambda a, b: not (a - b).any(),
        lambda a, b: not (a != b).any(),
    ],
)
def test_a_test_that_forgives_no_rounding_is_told_so(equal):
    def is_right(attention):
        case = looked_through(0)
        return equal(attention(*case), as_einsum(*case))

    def asserting(attention):
        assert is_right(attention)

    for test in (is_right, asserting):
        assert examine("3.7", test).mistake == EXACT


def test_wrong_numbers_to_compare_with_are_not_called_too_exact():
    def is_right(attention):
        case = looked_through(0)
        return torch.equal(attention(*case), as_einsum(*case) + 0.01)

    assert examine("3.7", is_right).mistake == "nothing passes"


def copying(n):
    mask = torch.eye(3 * n, dtype=torch.bool)
    for j in range(n):
        mask[n + j] = mask[2 * n + j] = False
        mask[n + j, j] = mask[2 * n + j, n - 1 - j] = True
    return mask


def with_one(mask, row, column):
    if len(mask) > 3:
        mask[row, column] = True
    return mask


def quarter(d_model, size=100.0, back=1):
    """W^Q and W^K of 9.8: queries turned by so many places back, where no words are."""
    w_q, keep = torch.zeros(d_model, d_model), torch.zeros(d_model)
    keep[: d_model // 4] = 1
    for i in range(0, d_model // 4, 2):
        angle = torch.tensor(-back / 10000 ** (i / d_model))
        sin, cos = angle.sin(), angle.cos()
        w_q[i : i + 2, i : i + 2] = size * torch.tensor([[cos, -sin], [sin, cos]])
    return w_q, keep.diag()


def parameters(*sizes):
    return find("11.1").reference(*sizes)


def ahead(length, stride, n_summary):
    """The pattern of 17.2, above the diagonal."""
    place = torch.arange(length)
    block = place[:, None] // stride == place // stride
    return (block | (place % stride >= stride - n_summary)).triu(1)


def nearest_below(count):
    def places_of(rows):
        return (rows @ chapter_09.sinusoids(count(rows), rows.shape[1]).T).argmax(1)

    return places_of


FAMILIES = [  # one of each, which stands in no bank
    ("12.3", chapter_12._falls(lambda share: float(share < 1)), "a leap"),
    (
        "12.3",
        chapter_12._falls(lambda share: 1 - share, lambda share: share**3),
        "too steep during the warm-up",
    ),
    ("12.3", chapter_12._falls(lambda share: 1 - 0.9 * share), "too high at the last step"),
    ("8.11", lambda n: with_one(copying(n), 0, n - 1), "the future seen by the words"),
    ("8.11", lambda n: with_one(copying(n), n, n + 1), "the future seen by what writes"),
    ("8.11", lambda n: with_one(copying(n) & (torch.arange(3 * n) > 0)[:, None], 0, 0), None),
    ("9.2", nearest_below(lambda rows: 40 + 3 * len(rows)), "a table with too few rows"),
    ("9.8", lambda d_model: quarter(d_model, 7.0), "not sure enough"),
    ("9.8", lambda d_model: quarter(d_model, 100.0, 4), "looking 4 words back"),
    ("9.8", lambda d_model: (quarter(d_model)[0].abs(), quarter(d_model)[1]), None),
    (
        "10.9",
        lambda: ([[1, 1], [1, 1], [0, 0], [0, 0]], [0, -1], [[0, 0, 0, 1], [0, 2, 0, -5]], [0] * 4),
        "something written to entry 1; -3 with both on",
    ),
    (
        "10.9",
        lambda: ([[1, 1], [1, 1], [0, 2], [0, 0]], [0, -1], [[0, 0, 0, 1], [0, 0, 0, -2]], [0] * 4),
        "entry 2 or 3 read",
    ),
    (
        "11.1",
        lambda *sizes: parameters(*sizes) + 300 * sizes[1],
        "a table of 300 positions counted",
    ),
    ("11.1", lambda *sizes: parameters(*sizes) + 300, None),
    (
        "11.8",
        lambda model, vocab_size: "sees the future",
        '"sees the future" said where it is "right" or "sees the padding" or "ignores the source" '
        'or "no positions" or "dropout is on"',
    ),
    ("1.8", lambda n, b: find("1.8").reference(n, b) + 0.01, "near in every case, and not exact"),
    ("1.8", lambda n, b: find("1.8").reference(n, b) + 0.01 * b, None),
    (
        "4.4",
        ["always", "always", "sometimes", "sometimes", "never"],
        "a vector taken to be most like itself; the longest taken to be beaten sometimes in its "
        "own row; two taken to prefer each other sometimes",
    ),
    (
        "6.2",
        [4, 4, 1, 1, "up", "same", "same", "same"],
        "a root too few in the second; the number of keys taken not to matter; what else is wrong "
        "follows from it",
    ),
    (
        "5.9",
        lambda names, colours: find("5.9").reference(8, 4),
        "tables for another number of names or colours (in 3 of 4 cases)",
    ),
    (
        "6.2",
        [16, 4, 2, 1, "up", "same", "down", "same"],
        "the variance in the first taken to grow with the square of the width; the number of keys "
        "taken not to matter; what else is wrong follows from it",
    ),
    (
        "13.7",
        lambda n: [find("13.7").reference(n)[i][::-1] for i in (1, 2, 0)],
        "as asked only if the three lists are read as A, B, the references",
    ),
    (
        "14.10",
        lambda references: ([words[::2] for words in references], references),
        "BLEU of the corpus does not put a ahead by 10 points, and `a` has a BLEU of 0",
    ),
    (
        "6.8",
        lambda scores, entropy: 1.02 * find("6.8").reference(scores, entropy),
        "near in every case, and not near enough",
    ),
    (
        "6.8",
        lambda scores, entropy: min(max(find("6.8").reference(scores, entropy), 0.04), 300.0),
        "too cold for large scores, and too hot for small scores",
    ),
    ("6.8", lambda scores, entropy: 3 * find("6.8").reference(scores, entropy), None),
    ("6.8", searched_with_nan, "a search that gets stuck at the cold end"),
    (
        "6.8",
        searched_on_the_wrong_side,
        "in every case an end, as of a search on the wrong side",
    ),
    ("4.1", [0.212, 0.576, 0.212, 1.0, 2.0, 3.0, 4.0], "in the weights: scores of 1, 2 and 1"),
    ("4.1", [0.3, 0.5, 0.2, 1.0, 2.0, 3.0, 4.0], None),
    (
        "4.2",
        lambda p: p / torch.outer(*2 * (p.diag().clamp(min=0.06).sqrt(),)),
        "a bound that is felt by short vectors",
    ),
    ("4.2", lambda p: p / (p.diag().sqrt().outer(p.diag().sqrt()) + 3), None),
    (
        "7.12",
        chapter_07._on_arc(2, -2),
        "head 1 finds the word two behind, and head 2 finds the word two before",
    ),
    ("7.12", chapter_07._on_arc(-1, -2), "head 2 finds the word two before"),
    (
        "19.9",
        lambda: (16, 16_000, 2),
        "hours and price: too slow, and too dear; most of each update is sending",
    ),
    (
        "19.9",
        lambda: (4, 1_000, 12),
        "hours and price: too slow, and too dear; most of each update is launching",
    ),
    ("19.9", lambda: (8, 16_000, 4), "price: too dear"),
    (
        "20.9",
        lambda K, n, match: find("20.9").reference(K, n, match)[::-1],
        "right in another order: what you give is (value, key)",
    ),
    (
        "20.9",
        lambda K, n, match: held(K, (match + math.log(n)) / 2 / K**0.5)[::-1],
        "the value first, and then the key; and in it the division by the root of K forgotten",
    ),
    (
        "20.9",
        lambda K, n, match: (torch.zeros(K), torch.ones(K)),
        "it attracts too little, and adds something of its own",
    ),
    ("7.12", chapter_07._on_arc(-1, 3), None),
    ("2.2", one_word_too_few, None),
    (
        "3.9",
        lambda keys, place: 50 * (2 * keys[place] - keys.sum(0)),
        "the key minus the sum of the others",
    ),
    ("1.9", english_together, "what leaks dropped from the training part"),
]


NAMELESS = [  # each was once taken for a mistake that it does not make
    ("6.1", [0.75, 0.25, 5.5]),
    ("7.1", [6.7267, 1.2733, 6.7267, 9.2733]),
    ("17.2", ahead),
]


@pytest.mark.parametrize("number, answer", NAMELESS)
def test_no_name_is_better_than_a_false_one(number, answer):
    verdict = examine(number, answer)
    assert (verdict.status, verdict.mistake) == ("wrong", None), verdict.message


@pytest.mark.parametrize("number, answer, name", FAMILIES)
def test_a_family_is_named_by_what_comes(number, answer, name):
    verdict = examine(number, answer)
    assert verdict.status == "wrong"
    if name is None:
        families = {one for n, _, one in FAMILIES if n == number}
        assert verdict.mistake not in families - {None}, verdict.message
    else:
        assert verdict.mistake == name, verdict.message


X = torch.randn(2, 3, 12, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize(
    ("test", "name"),
    [
        (lambda f: torch.allclose(f(X, 2), split_heads(X, 2), atol=10.0), LOOSE),
        (lambda f: bool((f(X, 2) == split_heads(X, 2)).any()), ANY),
        (lambda f: any(torch.equal(f(X, n), split_heads(X, n)) for n in (2, 3)), ONE_IS_ENOUGH),
        (
            lambda f: torch.equal(f(X, 2)[0], split_heads(X, 2)[0]),
            "only the first sentence compared",
        ),
        (
            lambda f: any(map(torch.equal, f(X, 2), split_heads(X, 2))),
            "one sentence that fits taken for enough",
        ),
    ],
)
def test_how_a_test_compares_is_named(test, name):
    """By outputs of a right suspect that are spoilt: all of them, a little, or all but a slice."""
    cuts = {
        "right": split_heads,
        "a view": lambda x, n: x.view(len(x), n, x.shape[1], -1),
        "first sentence for all": lambda x, n: split_heads(x[:1].expand_as(x), n),
        "last sentence for all": lambda x, n: split_heads(x[-1:].expand_as(x), n),
        "always two": lambda x, n: split_heads(x, 2),
        "a little more": lambda x, n: split_heads(x, n) + 1.0,
        "the second sentence doubled": lambda x, n: split_heads(torch.stack([x[0], 2 * x[1]]), n),
        "the first sentence doubled": lambda x, n: split_heads(torch.stack([2 * x[0], x[1]]), n),
    }
    said = verdicts_on(cuts, spoilt=Spoilt(("sentence", "head", "word", "entry")))(test)
    family = rules(["right"], dict.fromkeys(list(cuts)[1:], "It shows."))
    assert family.named([()], [said], [{}])[0] == name


@pytest.mark.parametrize("number", ["7.7", "8.7"])
def test_of_a_class_it_is_shown_how_it_was_built_and_called(number):
    """By its shapes, and without the numbers that were put into its layers."""
    right = find(number).reference

    class Fails(right):
        def forward(self, q, k, v, mask=None):
            return super().forward(q, k, v, mask) + k.sum()

    message = examine(number, Fails).message
    built, called = message.index("Built with"), message.index("Called with")
    assert built < message.index("n_heads = ") < called < message.index("mask = ")
    assert all(f"  {name} = a tensor of shape (" in message[called:] for name in "qkv")
    assert "matrices" not in message


def test_what_a_probe_takes_besides_is_shown():
    message = examine("9.8", lambda d_model: 1 / 0).message
    assert message.index("d_model = ") < message.index("Then tried with") < message.index("length")
