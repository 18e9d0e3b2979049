"""The exercises of chapter 18, parsing: references, cases, mistakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations

from .core import Exercise, Invariant, mistakes

Span = tuple[str, int, int]


# 18.1 a score by hand: true are S 0-5, NP 0-1, VP 1-5, ADVP 2-3, NP 3-5 and NP 3-4,
# and all but the last are given

BY_HAND_MISTAKES = mistakes(
    ("the full stop counted as a word", 6 / 11,
     "The full stop is deleted before spans are counted. With it, VP and the longer NP end in "
     "different places in the two trees; without it, they agree."),
    ("ADVP and PRT taken for different labels", 8 / 11,
     "By EVALB's settings the two count as the same label."),
    ("the full stop counted, and ADVP and PRT taken for different labels", 4 / 11,
     "Two of the rules are left out: punctuation is deleted first, and ADVP and PRT are the same "
     "label."),
    ("the precision", 1.0,
     "All that the parser gives is true, but F1 also asks how much of what is true was given."),
    ("the recall, or the common brackets as a share of all", 5 / 6,
     "Five of six true brackets are found. F1 is 2 both / (true + given)."),
    ("the plain mean of precision and recall", 11 / 12,
     "F1 is the harmonic mean: 2 both / (true + given)."),
    ("tags counted as brackets", 20 / 21,
     "The five words have tags, and both trees have them at the same places. Tags do not count."),
    ("tags counted as brackets, that of the full stop too", 22 / 23,
     "Tags do not count, and punctuation is deleted altogether."),
    ("tags counted as brackets, and the full stop as a word", 18 / 23,
     "Tags do not count, and the full stop is deleted before spans are counted."),
    ("the outermost S left out", 8 / 9,
     "Only a bracket called TOP is left out. S is a label like the others."),
    ("in percent", 1000 / 11, "The task asks for a number between 0 and 1."),
    ("the factor 2 forgotten", 5 / 11,
     "A bracket that both have counts in both sums: 2 both / (true + given)."),
    ("whether the trees are the same", 0.0, "They are not, but F1 gives credit for each bracket."),
)  # fmt: skip


# 18.2 spans


def spans(symbols: list[str]) -> list[Span]:
    found, opened, words = [], [], 0
    for symbol in symbols:
        if symbol == "XX":
            words += 1
        elif symbol[0] == "(":
            opened.append((symbol[1:], words))
        else:
            found.append((*opened.pop(), words))
    return found


SENTENCES = [
    "(S (NP XX )NP XX )S",
    "(S (NP XX XX )NP (VP XX (NP (NP XX XX )NP (PP XX (NP XX )NP )PP )NP )VP XX )S",
    "(S XX (NP (NP XX )NP )NP (VP XX )VP )S",
    "(S (SBAR XX (S (NP XX )NP (VP XX XX )VP )S )SBAR XX (NP XX XX )NP (VP XX )VP XX )S",
    "(NP (NP (NP XX XX )NP XX (NP XX )NP )NP (PP XX (NP XX XX XX )NP )PP )NP",
    "(S (VP XX (ADVP (ADVP XX )ADVP )ADVP )VP )S",
    "(TOP (S (VP XX (PRT XX )PRT )VP (NP XX XX XX XX XX XX XX XX XX XX XX )NP XX )S )TOP",
]


def span_cases() -> list[tuple]:
    return [(text.split(),) for text in SENTENCES]


def _first_opened(symbols: list[str]) -> list[Span]:
    found, opened, words = [], [], 0
    for symbol in symbols:
        if symbol == "XX":
            words += 1
        elif symbol[0] == "(":
            opened.append((symbol[1:], words))
        else:
            found.append((*opened.pop(0), words))
    return found


def _next_of_its_label(symbols: list[str]) -> list[Span]:
    found = []
    for i, symbol in enumerate(symbols):
        if symbol[0] == "(":
            end = symbols.index(")" + symbol[1:], i)
            found.append((symbol[1:], symbols[:i].count("XX"), symbols[:end].count("XX")))
    return found


def _places(symbols: list[str]) -> list[Span]:
    found, opened = [], []
    for i, symbol in enumerate(symbols):
        if symbol[0] == "(":
            opened.append((symbol[1:], i))
        elif symbol != "XX":
            found.append((*opened.pop(), i))
    return found


def _last_of_its_label(symbols: list[str]) -> list[Span]:
    found, starts, words = [], {}, 0
    for symbol in symbols:
        if symbol == "XX":
            words += 1
        elif symbol[0] == "(":
            starts[symbol[1:]] = words
        else:
            found.append((symbol[1:], starts[symbol[1:]], words))
    return found


def _words_as_brackets(symbols: list[str]) -> list[Span]:
    return [*spans(symbols), *(("XX", i, i + 1) for i in range(symbols.count("XX")))]


SPAN_MISTAKES = mistakes(
    ("the end is the last word inside", lambda s: [(label, a, b - 1) for label, a, b in spans(s)],
     "`end` is the number of the first word after the bracket, so that end - start is how many "
     "words are in it."),
    ("words counted from 1", lambda s: [(label, a + 1, b + 1) for label, a, b in spans(s)],
     "Words are counted from 0: the first word has the number 0."),
    ("words counted from 1, and the end is the last word inside",
     lambda s: [(label, a + 1, b) for label, a, b in spans(s)],
     "The first word has the number 0, and `end` is the number of the first word after the "
     "bracket."),
    ("symbols counted in place of words", _places,
     "Spans are counted in words: brackets take up no room."),
    ("repeated brackets lost", lambda s: list(dict.fromkeys(spans(s))),
     "An NP around an NP of the same words is there twice. A set keeps it once."),
    ("one bracket for each span",
     lambda s: [(label, a, b) for (a, b), label in {x[1:]: x[0] for x in spans(s)}.items()],
     "Several brackets may be around the same words; a dictionary by spans keeps one of them."),
    ("one bracket for each label", lambda s: list({x[0]: x for x in spans(s)}.values()),
     "A tree may have many brackets with one label; a dictionary by labels keeps one of them."),
    ("the bracket opened first closes first", _first_opened,
     "Brackets are nested: what closes is the one opened last, `opened.pop()`."),
    ("closed by the next bracket of its label", _next_of_its_label,
     "Inside of an NP there may be another NP. The next )NP then belongs to that one."),
    ("the bracket left in the label", lambda s: [("(" + label, a, b) for label, a, b in spans(s)],
     'The label of "(NP" is "NP", without the bracket.'),
    ("the closing bracket left in the label",
     lambda s: [(")" + label, a, b) for label, a, b in spans(s)],
     'The label of ")NP" is "NP", without the bracket.'),
    ("the outermost bracket left out", lambda s: spans(s)[:-1],
     "All brackets count, the outermost one too."),
    ("words taken for brackets", _words_as_brackets,
     "XX is a word, not a bracket, and has no span of its own."),
    ("the number of words in place of the end",
     lambda s: [(label, a, b - a) for label, a, b in spans(s)],
     "The third entry is where the bracket ends, not how long it is."),
    ("brackets around one word left out", lambda s: [x for x in spans(s) if x[2] - x[1] > 1],
     "A bracket may hold a single word, and counts all the same."),
    ("TOP left out", lambda s: [x for x in spans(s) if x[0] != "TOP"],
     "EVALB leaves TOP out; here all brackets count."),
    ("PRT renamed", lambda s: [(label.replace("PRT", "ADVP"), a, b) for label, a, b in spans(s)],
     "EVALB takes PRT for ADVP; here every label stays as it is."),
    ("the start of the last bracket with the same label", _last_of_its_label,
     "A bracket may be inside of another one with its label. One place for each label is not "
     "enough: keep a list of the open brackets."),
    ("the end before the start", lambda s: [(label, b, a) for label, a, b in spans(s)],
     "The order in a tuple is label, start, end."),
    ("the label behind the span", lambda s: [(a, b, label) for label, a, b in spans(s)],
     "The order in a tuple is label, start, end."),
)  # fmt: skip


def sorted_spans(output: object) -> object:
    return sorted(tuple(span) for span in output)  # type: ignore[union-attr]


# 18.3 is it a tree


def well_formed(
    symbols: list[str],
    n_words: int,
    empty: bool = False,  # what is let through
    labels: bool = False,
    outside: bool = False,
    forest: bool = False,
    unclosed: bool = False,
    nothing: bool = False,
) -> bool:
    opened, before, trees = [], "", 0
    if not symbols:
        return nothing and not n_words
    for symbol in symbols:
        if symbol[0] == "(":
            if not opened:
                trees += 1
            opened.append(symbol[1:])
        elif symbol == "XX":
            if not opened and not outside:
                return False
        else:
            if not opened or before[0] == "(" and not empty:
                return False
            if opened.pop() != symbol[1:] and not labels:
                return False
        before = symbol
    if opened and not unclosed or trees != 1 and not forest:
        return False
    return symbols.count("XX") == n_words


TREES = [
    ("(S (NP XX )NP XX )S", 2, True),
    ("(S (NP XX )NP XX )S", 3, False),
    ("(S (NP XX )NP XX )S", 1, False),
    ("(NP (NP (NP XX )NP )NP )NP", 1, True),
    ("(S (NP XX XX )NP (VP XX (NP XX )NP )VP XX )S", 5, True),
    ("(VP XX (NP XX XX )NP )VP", 3, True),
    ("(S (NP XX )VP (VP XX )NP )S", 2, False),  # labels crossed
    ("(S (NP XX )S )NP", 1, False),  # the same labels, but crossed
    ("(S (NP )NP XX )S", 1, False),  # empty
    ("(S )S", 0, False),
    ("(S XX )S (S XX )S", 2, False),  # two trees
    ("(S XX )S (NP )NP", 1, False),  # two trees, one of them empty
    ("(S XX )S XX", 2, False),  # a word outside
    ("XX (S XX )S", 2, False),
    ("XX", 1, False),
    ("(S (NP XX )NP", 1, False),  # not closed
    ("(S XX", 1, False),
    ("(S XX )S )S", 1, False),  # closed too often
    (")S (S XX )S", 1, False),
    (")S XX (S", 1, False),
    ("", 0, False),
    ("(S (NP XX )VP )S", 1, False),
    ("(S (NP XX )NP XX (VP XX )VP )S", 3, True),
    ("(S (NP XX (VP XX )NP )VP )S", 2, False),  # closed in the wrong order
    ("(S XX (NP XX )NP )S", 2, True),
]


def tree_cases() -> list[tuple]:
    return [(text.split(), n) for text, n, _ in TREES]


def _balanced(s: list[str], n: int) -> bool:
    depth = sum((x[0] == "(") - (x[0] == ")") for x in s)
    return depth == 0 and s.count("XX") == n


def _each_label_balanced(s: list[str], n: int) -> bool:
    opened = Counter(x[1:] for x in s if x[0] == "(")
    return opened == Counter(x[1:] for x in s if x[0] == ")") and s.count("XX") == n


def _queue(s: list[str], n: int) -> bool:
    opened, before = [], ""
    for i, symbol in enumerate(s):
        if i and not opened:
            return False
        if symbol[0] == "(":
            opened.append(symbol[1:])
        elif symbol == "XX":
            if not opened:
                return False
        elif before[0:1] == "(" or not opened or opened.pop(0) != symbol[1:]:
            return False
        before = symbol
    return bool(s) and not opened and s.count("XX") == n


def _closing_ignored(s: list[str], n: int) -> bool:
    """A closing bracket without an open one is passed over."""
    depth, kept = 0, []
    for symbol in s:
        depth += (symbol[0] == "(") - (symbol[0] == ")")
        if depth < 0:
            depth = 0
        else:
            kept.append(symbol)
    return well_formed(kept, n)


TREE_MISTAKES = mistakes(
    ("empty brackets let through", lambda s, n: well_formed(s, n, empty=True),
     "A bracket must hold something: it may not close right after it opened."),
    ("labels not compared", lambda s, n: well_formed(s, n, labels=True),
     "A bracket closes with its own label: after (NP comes )NP, not )VP."),
    ("words not counted", lambda s, n: well_formed(s, s.count("XX")),
     "XX must stand there exactly `n_words` times."),
    ("too few words let through", lambda s, n: s.count("XX") <= n and well_formed(s, s.count("XX")),
     "Exactly `n_words` words, not at most so many."),
    ("too many words let through",
     lambda s, n: s.count("XX") >= n and well_formed(s, s.count("XX")),
     "Exactly `n_words` words, not at least so many."),
    ("several trees let through", lambda s, n: well_formed(s, n, forest=True),
     "There is one outermost bracket, and everything is in it."),
    ("words outside of all brackets let through",
     lambda s, n: bool(s) and s != ["XX"] and well_formed(s, n, outside=True),
     "Every word stands inside of the outermost bracket."),
    ("words and trees side by side let through",
     lambda s, n: well_formed(s, n, outside=True, forest=True),
     "There is one outermost bracket, and all words are in it."),
    ("open brackets at the end let through", lambda s, n: well_formed(s, n, unclosed=True),
     "At the end every bracket must be closed."),
    ("no symbols taken for a tree", lambda s, n: well_formed(s, n, nothing=True),
     "A tree has an outermost bracket. No symbols are no tree, even of no words."),
    ("closing brackets without an open one let through", _closing_ignored,
     "What closes must have been opened before."),
    ("only as many closing brackets as opening ones", _balanced,
     "Equal numbers are not enough: order, labels, and what is inside matter as well."),
    ("only as many closing brackets as opening ones of each label", _each_label_balanced,
     "Equal numbers are not enough: brackets must be nested."),
    ("the bracket opened first closes first", _queue,
     "Brackets are nested: the one opened last closes first."),
    ("the outermost bracket must be S", lambda s, n: s[:1] == ["(S"] and well_formed(s, n),
     "A tree may have any label at its top: headlines are often an NP."),
    ("a bracket around one bracket refused",
     lambda s, n: (
         well_formed(s, n)
         and not any(a[0] == b[0] == "(" for a, b in zip(s, s[1:], strict=False))
     ),
     "A bracket may begin with another bracket."),
    ("True for everything", lambda s, n: True, "There are sequences that are no trees."),
    ("the other way round", lambda s, n: not well_formed(s, n),
     "True means that it is a tree, False that it is none."),
)  # fmt: skip


# 18.4 F1 of a corpus


def corpus_f1(true: list, given: list) -> float | int:
    both = total = 0
    for a, b in zip(true, given, strict=True):
        x, y = Counter(a), Counter(b or ())
        both += (x & y).total()
        total += x.total() + y.total()
    return 2 * both / total if total else 0.0


def corpus_cases() -> list[tuple]:
    a = [("S", 0, 5), ("NP", 0, 1), ("VP", 1, 5), ("NP", 2, 5), ("NP", 2, 5)]
    b = [("S", 0, 5), ("NP", 0, 1), ("VP", 1, 4), ("NP", 2, 5), ("PP", 3, 5), ("S", 0, 5)]
    c = [("S", 0, 3), ("NP", 0, 2), ("VP", 2, 3)]
    d = [("S", 0, 3), ("VP", 0, 2), ("VP", 2, 3), ("VP", 2, 3)]
    e = [("S", 0, 7), ("NP", 0, 3), ("VP", 3, 7), ("NP", 4, 7), ("PP", 1, 3), ("NP", 2, 3)]
    f = [("TOP", 0, 6), ("S", 0, 6), ("VP", 2, 6), ("PRT", 3, 4)]
    return [
        ([a, c], [b, None]),
        ([[("S", 0, 2), ("NP", 0, 1)], [("S", 0, 3)]], [[("S", 0, 2), ("VP", 0, 1)], None]),
        ([c], [c]),
        ([a, c, e, c], [b, d, None, [("S", 0, 3), ("NP", 0, 2)]]),
        ([e, c, a], [e[:3], d, a]),
        ([a, c], [c, a]),
        ([f], [[*f[:3], ("ADVP", 3, 4)]]),
        ([c], [None]),
        ([[], c], [[], d]),
        ([[]], [None]),
        ([e], [e[::-1]]),  # in another order
        ([c, e], [c[1:] + c[:1], e[3:] + e[:2]]),
    ]


def _counts(true: list, given: list, form=Counter) -> tuple[int, ...]:
    """How many brackets are true, given, and both; `form` collects those of a sentence."""
    total = [0, 0, 0]
    for a, b in zip(true, given, strict=True):
        x, y = form(a), form(b or ())
        for i, found in enumerate((x, y, x & y)):
            total[i] += sum(found.values()) if isinstance(found, Counter) else len(found)
    return tuple(total)


def _ratio(a: float | int, b: float | int) -> float | int:
    return a / b if b else 0.0


def _f(counts: tuple[int, ...]) -> float | int:
    return _ratio(2 * counts[2], counts[0] + counts[1])


def _read(true: list, given: list) -> list:
    return [(a, b) for a, b in zip(true, given, strict=True) if b is not None]


def _skipped(true: list, given: list) -> float | int:
    pairs = _read(true, given)
    return corpus_f1([a for a, _ in pairs], [b for _, b in pairs])


def _mean(values: list) -> float | int:
    return _ratio(sum(values), len(values))


def _each(true: list, given: list) -> list:
    return [corpus_f1([a], [b]) for a, b in zip(true, given, strict=True)]


def _parts(true: list, given: list) -> tuple:
    t, g, both = _counts(true, given)
    return _ratio(both, g), _ratio(both, t)


def _cut(spans: list, part: slice) -> list:
    return [None if s is None else [x[part] for x in s] for s in spans]  # type: ignore[misc]


def _without_top(spans: list) -> list:
    return [None if s is None else [x for x in s if x[0] != "TOP"] for s in spans]


def _renamed(spans: list) -> list:
    return [
        None if s is None else [(x[0].replace("PRT", "ADVP"), *x[1:]) for x in s] for s in spans
    ]


def _reused(true: list, given: list) -> float | int:
    """Every true bracket that is somewhere in the given ones, however often it was used."""
    both = sum(x in (b or []) for a, b in zip(true, given, strict=True) for x in a)
    t, g, _ = _counts(true, given)
    return _ratio(2 * both, t + g)


def _reused_given(true: list, given: list) -> float | int:
    both = sum(x in a for a, b in zip(true, given, strict=True) for x in b or [])
    t, g, _ = _counts(true, given)
    return _ratio(2 * both, t + g)


def _pooled(true: list, given: list) -> float | int:
    return corpus_f1([[x for a in true for x in a]], [[x for b in given for x in b or []]])


CORPUS_MISTAKES = mistakes(
    ("outputs that are no trees left out", _skipped,
     "None counts as no brackets: the true ones of that sentence are all missed. Left out, the "
     "sentence counts nowhere, and the score is about other sentences."),
    ("outputs that are no trees left out, and a mean of the sentences' F1",
     lambda t, g: _mean(_each(*zip(*_read(t, g), strict=True))) if _read(t, g) else 0.0,
     "None counts as no brackets; and the counts of all sentences are added up before dividing."),
    ("a mean of the sentences' F1", lambda t, g: _mean(_each(t, g)),
     "The counts of all sentences are added up first, and divided once. Otherwise a sentence of "
     "two brackets weighs as much as one of thirty."),
    ("repeated brackets lost", lambda t, g: _f(_counts(t, g, set)),
     "A bracket that stands there twice counts twice. A set keeps it once."),
    ("common brackets counted once, all others as often as they occur",
     lambda t, g: _f((*_counts(t, g)[:2], _counts(t, g, lambda x: Counter(set(x)))[2])),
     "A bracket that both have twice is common twice."),
    ("TOP left out", lambda t, g: corpus_f1(_without_top(t), _without_top(g)),
     "EVALB leaves TOP out; here all brackets count."),
    ("PRT taken for ADVP", lambda t, g: corpus_f1(_renamed(t), _renamed(g)),
     "EVALB takes PRT for ADVP; here every label is taken as it stands."),
    ("a given bracket used several times", _reused,
     "If a true bracket stands there twice and the parser gives it once, one of the two is "
     "missed."),
    ("a true bracket used several times", _reused_given,
     "If the parser gives a bracket twice and it is true once, one of the two is wrong."),
    ("the precision", lambda t, g: _parts(t, g)[0],
     "That is the share of what was given that is true. F1 also asks for what was missed."),
    ("the recall", lambda t, g: _parts(t, g)[1],
     "That is the share of the true brackets that was given. F1 also asks for what was given "
     "wrongly."),
    ("the plain mean of precision and recall", lambda t, g: sum(_parts(t, g)) / 2,
     "F1 is the harmonic mean: 2 both / (true + given)."),
    ("labels not compared", lambda t, g: corpus_f1(_cut(t, slice(1, 3)), _cut(g, slice(1, 3))),
     "A bracket is right if label, start and end are."),
    ("spans not compared", lambda t, g: corpus_f1(_cut(t, slice(0, 1)), _cut(g, slice(0, 1))),
     "A bracket is right if label, start and end are."),
    ("the end not compared", lambda t, g: corpus_f1(_cut(t, slice(0, 2)), _cut(g, slice(0, 2))),
     "A bracket is right if label, start and end are."),
    ("the factor 2 forgotten", lambda t, g: corpus_f1(t, g) / 2,
     "A bracket that both have counts in both sums: 2 both / (true + given)."),
    ("common brackets as a share of all",
     lambda t, g: _ratio(_counts(t, g)[2], sum(_counts(t, g)[:2]) - _counts(t, g)[2]),
     "Both over either is Jaccard's index. F1 is 2 both / (true + given)."),
    ("all sentences in one heap", _pooled,
     "Brackets are compared sentence by sentence: S 0-3 of one sentence is not that of another."),
    ("in percent", lambda t, g: 100 * corpus_f1(t, g),
     "The task asks for a number between 0 and 1."),
    ("the share of sentences without a mistake",
     lambda t, g: _mean([float(x == 1) for x in _each(t, g)]),
     "F1 gives credit for each bracket."),
    ("1 for no brackets at all", lambda t, g: corpus_f1(t, g) if sum(_counts(t, g)[:2]) else 1.0,
     "The task asks for 0 when there is nothing to count."),
    ("one list of scores", _each, "One number is asked for, over all sentences together."),
)  # fmt: skip


# 18.5 bottom up


def bottom_up(symbols: list[str]) -> list[str]:
    found, counts = [], [0]
    for symbol in symbols:
        if symbol[0] == "(":
            counts.append(0)
            continue
        found.append("XX" if symbol == "XX" else f"{symbol[1:]}/{counts.pop()}")
        counts[-1] += 1
    return found


def _walk(symbols: list[str], count, form="{label}/{n}".format, after=True) -> list[str]:
    """As asked for, with another count of what is in a bracket, or another way to write it.

    `count(words, brackets, all_words, all_brackets)`: of the parts, and of all that is inside.
    """

    def tree(place: int) -> tuple[list[str], tuple[int, int, int, int], int]:
        """The bracket that opens there: what is written, its counts, the place after it."""
        written, words, brackets, all_words, all_brackets = [], 0, 0, 0, 0
        label, i = symbols[place][1:], place + 1
        while symbols[i][0] != ")":
            if symbols[i] == "XX":
                written, words, all_words, i = [*written, "XX"], words + 1, all_words + 1, i + 1
            else:
                more, (_, _, w, b), i = tree(i)
                written, brackets = written + more, brackets + 1
                all_words, all_brackets = all_words + w, all_brackets + b + 1
        counts = (words, brackets, all_words, all_brackets)
        own = form(label=label, n=count(*counts))
        own = [own] if isinstance(own, str) else own
        return written + own if after else own + written, counts, i + 1

    return tree(0)[0]


def _parts_of(w: int, b: int, all_w: int, all_b: int) -> int:
    return w + b


def _one_count_a_label(symbols: list[str]) -> list[str]:
    found, opened, counts = [], [""], {"": 0}
    for symbol in symbols:
        if symbol[0] == "(":
            opened.append(symbol[1:])
            counts[symbol[1:]] = 0
            continue
        found.append("XX" if symbol == "XX" else f"{symbol[1:]}/{counts[opened.pop()]}")
        counts[opened[-1]] += 1
    return found


BOTTOM_UP_MISTAKES = mistakes(
    ("all words inside counted", lambda s: _walk(s, lambda w, b, aw, ab: aw),
     "The parts of a bracket are what stands in it directly: a smaller bracket is one part, "
     "however many words it has."),
    ("everything inside counted", lambda s: _walk(s, lambda w, b, aw, ab: aw + ab),
     "The parts of a bracket are what stands in it directly: what is inside of a smaller bracket "
     "belongs to that one."),
    ("only smaller brackets counted", lambda s: _walk(s, lambda w, b, aw, ab: b),
     "A word that stands in the bracket directly is a part as well."),
    ("only words counted", lambda s: _walk(s, lambda w, b, aw, ab: w),
     "A bracket that closes is a part of the one around it: add one to the count there."),
    ("all smaller brackets counted, at any depth, and the words in it directly",
     lambda s: _walk(s, lambda w, b, aw, ab: w + ab),
     "Of the smaller brackets only those count that stand in the bracket directly."),
    ("one part too many", lambda s: _walk(s, lambda w, b, aw, ab: w + b + 1),
     "The count begins at 0 when the bracket opens; the bracket is no part of itself."),
    ("one part too few", lambda s: _walk(s, lambda w, b, aw, ab: w + b - 1),
     "Every word and every smaller bracket that stands in it directly is a part."),
    ("one count for each label", _one_count_a_label,
     "An NP may hold another NP, and each has its own count: keep a list of counts."),
    ("no numbers", lambda s: _walk(s, _parts_of, "{label}".format),
     "Without the number nobody knows how many parts belong to the bracket."),
    ("written where the bracket begins", lambda s: _walk(s, _parts_of, after=False),
     "The symbol of a bracket stands after its parts."),
    ("from right to left", lambda s: bottom_up(s)[::-1],
     "The words stay in their order, and a bracket comes after its parts."),
    ("the bracket left in the label", lambda s: _walk(s, _parts_of, "){label}/{n}".format),
     'The label of ")NP" is "NP", without the bracket.'),
    ("the number before the label", lambda s: _walk(s, _parts_of, "{n}/{label}".format),
     'First comes the label, then the number: "NP/2".'),
    ("label and number as two symbols",
     lambda s: _walk(s, _parts_of, lambda label, n: [label, str(n)]),
     'A bracket is written as one symbol: "NP/2".'),
    ("words left out", lambda s: [x for x in bottom_up(s) if x != "XX"],
     "Each word is written as XX, where it stands."),
    ("words with a number", lambda s: [x + "/1" * (x == "XX") for x in bottom_up(s)],
     'A word is "XX", without a number.'),
    ("brackets with one part left out", lambda s: [x for x in bottom_up(s) if not x.endswith("/1")],
     "A bracket around one part is written as well."),
    ("opening brackets left in",
     lambda s: [y for x in s for y in ([x] if x[0] == "(" else [])] + bottom_up(s),
     "Only words and the ends of brackets are written."),
    ("one text in place of a list", lambda s: " ".join(bottom_up(s)),
     "The result is a list of symbols, as the input is."),
)  # fmt: skip


# 18.6 predict: what costs a point

CHANGES = ["same", "same", "fall", "same", "same", "fall", "same", "fall"]


def _with(**others: str) -> list[str]:
    """The right words, but for those that are named by their number: _3="same"."""
    return [others.get(f"_{i}", word) for i, word in enumerate(CHANGES, 1)]


CHANGE_MISTAKES = mistakes(
    ("everything costs", ["fall"] * 8,
     "Read EVALB's five rules again: most of these changes are about what they take out."),
    ("nothing costs", ["same"] * 8,
     "A bracket that the true tree does not have costs precision, and a sentence without brackets "
     "costs recall."),
    ("PRT is another label", _with(_1="fall"), "By rule 4, ADVP and PRT are the same label."),
    ("TOP counts", _with(_2="fall"), "By rule 3, a bracket TOP around everything does not count."),
    ("TOP and PRT count", _with(_1="fall", _2="fall"),
     "By rules 3 and 4, TOP does not count, and PRT is ADVP."),
    ("S is left out as TOP is", _with(_3="same"),
     "Only TOP is left out. A second S is one bracket more that is not in the true tree."),
    ("a bracket more is free", _with(_3="same", _8="same"),
     "All true brackets are found, so the recall stays. The precision falls, and F1 with it."),
    ("the full stop counts", _with(_4="fall"),
     "By rule 2 punctuation is deleted first, and FRAG around nothing else goes with it. S then "
     "ends where it always did."),
    ("punctuation and TOP count", _with(_2="fall", _4="fall"),
     "By rules 2 and 3, TOP does not count, and neither does a bracket around punctuation only."),
    ("left out is lost", _with(_5="fall"),
     "Left out means that the sentence counts nowhere. What is left is perfect."),
    ("what is unreadable costs nothing", _with(_6="same"),
     "Counted as empty, the sentence's true brackets are all missed: the recall is about a half."),
    ("left out and empty exchanged", _with(_5="fall", _6="same"),
     "Left out, a sentence counts nowhere. Counted as empty, its true brackets are all missed."),
    ("tags count", _with(_7="fall"),
     "By rule 1 tags are no brackets; and punctuation is known by the true tree's tags."),
    ("tags and PRT count", _with(_1="fall", _7="fall"),
     "By rule 1 tags are no brackets, and by rule 4 PRT is ADVP."),
    ("brackets around one word are tags", _with(_8="same"),
     "X is a bracket around a tag with its word, and counts as any other: the precision falls."),
    ("the other way round", ["fall", "fall", "same", "fall", "fall", "same", "fall", "same"],
     "Asked is whether F1 stays the same or falls below 100."),
)  # fmt: skip


# 18.7 which symbols may come next, four mistakes


def next_symbols(written: list[str], n_words: int, openings: set[str]) -> set[str]:
    return _next()(written, n_words, openings)


def _next(
    first: bool = False,  # the bracket opened first closes
    late: bool = False,  # brackets open when no word is left
    outside: bool = False,  # words outside of all brackets
    early: bool = False,  # the outermost bracket closes too early
    empty: bool = False,
    never: bool = False,
    end: str = "<eos>",
    label: bool = False,
    inside: bool = False,
) -> Callable[..., set[str]]:
    """The rule, right by default; each argument makes one mistake."""

    def rule(written: list[str], n_words: int, openings: set[str]) -> set[str]:
        opened, words = [], 0
        for symbol in written:
            if symbol == "XX":
                words += 1
            elif symbol[0] == "(":
                opened.append(symbol[1:])
            else:
                opened.pop(0 if first else -1)
        if written and not opened:
            return {end} if end else set()
        left = words < n_words
        following = set(openings) if left or late else set()
        if left and (opened or outside):
            following.add("XX")
        fresh = bool(written) and written[-1][0] == "("
        only = len(opened) == 1 and left
        if opened and (empty or not fresh) and (early or not only):
            following.add(")" + opened[-1])
            if label:
                following |= {")" + name[1:] for name in openings}
        if never and left:
            following = {symbol for symbol in following if symbol[0] != ")"}
        if inside and opened and left:
            following -= set(openings)
        return following

    return rule


def next_cases() -> list[tuple]:
    whole = [
        "(S (NP XX )NP (VP XX (NP (NP XX )NP XX )NP )VP XX )S",
        "(S (NP (NP XX )NP XX )NP )S",
        "(NP XX )NP",
        "(S XX (VP (NP XX )NP )VP )S",
    ]
    cases: list[tuple] = [(["(S"], 1, {"(S"})]
    for text in whole:
        symbols = text.split()
        n = symbols.count("XX")
        cases += [(symbols[:i], n, {"(S", "(NP", "(VP"}) for i in range(len(symbols) + 1)]
    return cases


def _sorted_symbols(output: object) -> list[str]:
    return sorted(map(str, set(output)))  # type: ignore[call-overload]


FOUR = {
    "first": ("the bracket opened first closes",
              "Brackets are nested: the one opened last closes first, `opened.pop()`."),
    "late": ("brackets open when no word is left",
             "A bracket that opens has to get a word, or it can never close: as long as words are "
             "left."),
    "outside": ("words outside of all brackets",
                "The first symbol opens the outermost bracket; every word is in it."),
    "early": ("the outermost bracket closes while words are left",
              "Behind it only the end may come, and the words that are left stand nowhere."),
}  # fmt: skip


def still_wrong(names: tuple[str, ...]) -> tuple[str, Callable[..., set[str]], str]:
    """A row of the bank in which these of the four mistakes are left."""
    known = " and ".join(FOUR[name][0] for name in names)
    left = (
        f"{len(FOUR) - len(names)} mended, left is" if len(names) < len(FOUR) else "nothing mended"
    )
    title = f"{left}: {known}" if len(names) < len(FOUR) else "nothing mended"
    why = FOUR[names[0]][1] if len(names) < len(FOUR) else (
        "Read the four rules and look for the line of each: two conditions are missing, one is too "
        "weak, and one pop takes the wrong end."
    )  # fmt: skip
    return title, _next(**dict.fromkeys(names, True)), why


NEXT_MISTAKES = mistakes(
    *[still_wrong(names) for n in (4, 3, 2, 1) for names in combinations(FOUR, n)],
    ("empty brackets close", _next(empty=True),
     "A bracket must hold something: it may not close right after it opened."),
    ("no bracket closes while words are left", _next(never=True),
     "Only the *outermost* bracket waits for the last word. Others may close before."),
    ("no end", _next(end=""),
     "When the outermost bracket has closed, <eos> may come, and only that."),
    ("another sign for the end", _next(end="</s>"), 'The end is "<eos>".'),
    ("any label closes", _next(label=True),
     "A bracket closes with its own label, that of the bracket opened last."),
    ("no bracket opens in a bracket", _next(inside=True),
     "A smaller bracket may open wherever a word may stand."),
)  # fmt: skip


# 18.8 a case in which two means disagree


def disagreement(paradox: object) -> list[bool]:
    """Whether the three lists are fit to be compared, and whether each method prefers its own."""
    true, first, second = (
        [[tuple(span) for span in brackets] for brackets in trees] for trees in paradox
    )  # type: ignore[attr-defined]
    every = [brackets for trees in (true, first, second) for brackets in trees]
    fit = all(len(trees) == 2 for trees in (true, first, second)) and all(
        brackets
        and len(set(brackets)) == len(brackets)
        and all(len(span) == 3 and span[1] < span[2] for span in brackets)
        for brackets in every
    )
    pooled = [corpus_f1(true, given) for given in (first, second)]
    means = [_mean(_each(true, given)) for given in (first, second)]
    return [bool(fit), pooled[0] > pooled[1] + 1e-9, means[0] < means[1] - 1e-9]


_LARGE = [("NP", i, i + 1) for i in range(8)]
_WRONG = [("X", i, i + 1) for i in range(8)]
_SMALL, _OFF = [("S", 0, 2)], [("VP", 0, 2)]
PARADOX = ([_LARGE, _SMALL], [_LARGE, _OFF], [_LARGE[:4] + _WRONG[4:], _SMALL])

PARADOX_MISTAKES = mistakes(
    ("both methods prefer the first", ([_LARGE, _SMALL], [_LARGE, _SMALL], [_WRONG, _SMALL]),
     "The mean of the sentences prefers the first as well. Let the second parser be right in a "
     "small sentence, which weighs as much as a large one in a mean of sentences."),
    ("both methods prefer the second", ([_LARGE, _SMALL], [_WRONG, _SMALL], [_LARGE, _SMALL]),
     "The sum of the counts prefers the second as well: let the first have more brackets right in "
     "all."),
    ("neither method prefers its own parser", (PARADOX[0], PARADOX[2], PARADOX[1]),
     "Over all brackets together `first` is to have the greater F1, in the mean of the sentences "
     "`second`. Are the two exchanged, or equal?"),
    ("a sentence without brackets", ([_LARGE, _SMALL], [_LARGE, []], [_LARGE[:4], _SMALL]),
     "Two sentences each, every list with at least one bracket, none of them twice, start below "
     "end."),
)  # fmt: skip


# 18.9 how many trees


def count_trees(n: int, labels: int) -> int:
    return _counted(n, labels)


def _counted(
    n: int,
    labels: int,
    least: int = 2,
    binary: bool = False,
    of_part: bool = False,
    chosen: bool = True,
) -> int:
    """Trees over n words; each argument makes one mistake."""
    parts, rows = [0, labels if of_part else 1], [1, labels if of_part else 1]
    for k in range(2, n + 1):
        if binary:
            several = sum(parts[i] * parts[k - i] for i in range(1, k))
        else:
            several = sum(parts[i] * rows[k - i] for i in range(1, k))
        parts.append((labels if chosen else 1) * several)
        rows.append(several + parts[k])
    return parts[n]


TREE_COUNT_CASES = [
    (2, 1),
    (3, 1),
    (3, 2),
    (2, 5),
    (4, 1),
    (4, 3),
    (5, 1),
    (6, 2),
    (9, 4),
    (200, 3),
]

COUNT_TREE_MISTAKES = mistakes(
    ("two parts each", lambda n, labels: _counted(n, labels, binary=True),
     "A bracket may have more than two parts: `(S XX XX XX )S` is a tree."),
    ("two parts each, without labels", lambda n, labels: _counted(n, 1, binary=True),
     "Those are Catalan's numbers. A bracket may have more than two parts, and has a label."),
    ("labels not counted", lambda n, labels: _counted(n, 1),
     "Each bracket has one of `labels` labels, and trees with other labels are others."),
    ("one label for the whole tree", lambda n, labels: labels * _counted(n, 1),
     "Each bracket has a label of its own."),
    ("as many labels as a tree of pairs has", lambda n, labels: labels ** (n - 1) * _counted(n, 1),
     "A tree has n - 1 brackets only if each has two parts. Others have fewer, and fewer labels."),
    ("words have labels as well", lambda n, labels: _counted(n, labels, of_part=True),
     "A word is a part as it is, without a label."),
    ("only one level", lambda n, labels: labels * 2 ** (n - 1) - labels,
     "Brackets may hold brackets, to any depth."),
    ("rows of parts in place of trees",
     lambda n, labels: _counted(n, labels) + _counted(n, labels) // labels,
     "That is s(n), in which a row may stand without a bracket around all of it. There is one "
     "outermost bracket."),
    ("one word more", lambda n, labels: _counted(n + 1, labels), "`n` is the number of words."),
    ("one word fewer", lambda n, labels: _counted(n - 1, labels) if n > 2 else 1,
     "`n` is the number of words."),
    ("the outermost label forgotten", lambda n, labels: _counted(n, labels) // labels,
     "The outermost bracket has a label, too."),
    ("a float", lambda n, labels: float(min(_counted(n, labels), 10**15)),
     "The numbers are whole, and soon too large for a float: add and multiply whole numbers."),
    ("powers of three", lambda n, labels: labels * 3 ** (n - 2),
     "1, 3, and then 11, not 9: the row does not go on as its first two numbers suggest."),
)  # fmt: skip


EXERCISES = [
    Exercise(
        number="18.1",
        title="a score by hand",
        section="How a tree is scored",
        reference=10 / 11,
        mistakes=BY_HAND_MISTAKES,
        rtol=2e-3,
    ),
    Exercise(
        number="18.2",
        title="spans",
        section="How a tree is scored",
        reference=spans,
        cases=span_cases,
        mistakes=SPAN_MISTAKES,
        canonical=sorted_spans,
        invariants=[
            Invariant(
                "as many spans as brackets",
                lambda output, symbols: len(output) == sum(x[0] == "(" for x in symbols),
                "Every bracket of the tree gives one tuple.",
            )
        ],
    ),
    Exercise(
        number="18.3",
        title="is it a tree",
        section="Which sequences are trees",
        reference=lambda s, n: well_formed(s, n),
        cases=tree_cases,
        mistakes=TREE_MISTAKES,
        canonical=bool,
    ),
    Exercise(
        number="18.4",
        title="a score for a corpus",
        section="How a tree is scored",
        reference=corpus_f1,
        cases=corpus_cases,
        mistakes=CORPUS_MISTAKES,
        invariants=[
            Invariant(
                "a share",
                lambda output, *_: 0 <= float(output) <= 1,
                "F1 lies between 0 and 1: the common brackets cannot be more than those of either.",
            )
        ],
    ),
    Exercise(
        number="18.5",
        title="another way to write a tree",
        section="A tree as a sequence",
        reference=bottom_up,
        cases=span_cases,
        mistakes=BOTTOM_UP_MISTAKES,
        canonical=lambda output: output if isinstance(output, str) else list(output),
        invariants=[
            Invariant(
                "as many symbols as words and brackets",
                lambda output, symbols: (
                    len(output) == len(symbols) - sum(x[0] == "(" for x in symbols)
                ),
                "Each word and each bracket gives one symbol.",
            )
        ],
    ),
    Exercise(
        number="18.6",
        title="predict, then try: what costs a point",
        section="How a tree is scored",
        reference=CHANGES,
        mistakes=CHANGE_MISTAKES,
        canonical=lambda output: [str(word).strip().lower().removesuffix("s") for word in output],
    ),
    Exercise(
        number="18.7",
        title="find the mistakes",
        section="Which sequences are trees",
        reference=next_symbols,
        cases=next_cases,
        mistakes=NEXT_MISTAKES,
        canonical=_sorted_symbols,
    ),
    Exercise(
        number="18.8",
        title="design: which parser is better",
        section="How a tree is scored",
        reference=PARADOX,
        mistakes=PARADOX_MISTAKES,
        canonical=disagreement,
    ),
    Exercise(
        number="18.9",
        title="derive: how many trees",
        section="A tree as a sequence",
        reference=count_trees,
        cases=TREE_COUNT_CASES,
        mistakes=COUNT_TREE_MISTAKES,
        canonical=str,
    ),
]
