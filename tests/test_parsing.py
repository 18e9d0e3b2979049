"""Trees, their sequences, their score, and a decoder that writes nothing else."""

from __future__ import annotations

import itertools
import math
import random

import pytest
import torch

from allyouneed.data import load_treebank
from allyouneed.decoding import greedy
from allyouneed.parsing import (
    END,
    WORD,
    Tree,
    Vocabulary,
    bracket_score,
    brackets,
    linearise,
    may_follow,
    most_brackets,
    most_words,
    normalise_tree,
    parse,
    read_tree,
    rebuild,
    repair,
    word_shape,
    write_trees,
)
from allyouneed.sources import DataError
from allyouneed.tokens import BOS, EOS, SPECIALS, UNK, pad
from allyouneed.transformer import Transformer, TransformerConfig

LABELS = ["S", "NP", "VP", "PP", "ADVP", "PRT"]
TAGS = ["NN", "VB", "IN", ",", ".", "``", "''", ":", "-LRB-", "$"]


def a_tree(draw: random.Random, n: int, labels=LABELS, tags=TAGS) -> Tree:
    """A random tree over n words."""
    if n == 1 and draw.random() < 0.7:
        return Tree(draw.choice(tags), draw.choice("abcdefgh"))
    cuts = sorted(draw.sample(range(1, n), draw.randint(0, min(3, n - 1)))) if n > 1 else []
    sizes = [b - a for a, b in itertools.pairwise([0, *cuts, n])]
    return Tree(draw.choice(labels), tuple(a_tree(draw, size, labels, tags) for size in sizes))


def trees(count: int, seed: int, **kind) -> list[Tree]:
    draw = random.Random(seed)
    inside = [a_tree(draw, draw.randint(1, 12), **kind) for _ in range(count)]
    return [Tree("S", (tree,)) for tree in inside]


def a_parser(vocabulary: Vocabulary, seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(TransformerConfig(len(vocabulary), 16, 32, 2, 1, dropout=0.5)).eval()


# trees as text


def test_reading_gives_back_what_was_written():
    for tree in trees(200, 0):
        assert read_tree(str(tree)) == tree
        assert len(tree.words) == len(tree.leaves)


def test_reading_does_not_mind_white_space():
    assert read_tree("\n ( (S\t(NP(NN dog))\n))") == Tree(
        "", (Tree("S", (Tree("NP", (Tree("NN", "dog"),)),)),)
    )


@pytest.mark.parametrize(
    "text",
    ["", "dog", "(", ")", "(S", "(S )", "()", "(NN dog) )", "(NN dog) (NN dog)", "(NN dog dog)",
     "(NP the (NN dog))", "(NP (NN dog) the)", "((NN dog)", "(S (NN dog)) dog", "((NN dog))("],
)  # fmt: skip
def test_what_is_no_tree_is_refused(text):
    with pytest.raises(ValueError, match="text: expected"):
        read_tree(text)


# what is left out


@pytest.mark.parametrize(
    ("raw", "rest"),
    [
        ("( (S (NP-SBJ-1 (NN a)) (VP=2 (VB b))))", "(S (NP (NN a)) (VP (VB b)))"),
        ("( (S (NP-SBJ (-NONE- *-1)) (VP (VB b))))", "(S (VP (VB b)))"),
        ("(S (VP (VB b) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))))", "(S (VP (VB b)))"),
        ("(S (PRT|ADVP (RP up)))", "(S (PRT (RP up)))"),
        ("(S (-LRB- -LRB-) (PRP$ my) (-RRB- -RRB-))", "(S (-LRB- -LRB-) (PRP$ my) (-RRB- -RRB-))"),
        ("( (NP (NN a)) (. .))", "(TOP (NP (NN a)) (. .))"),
        ("( (S (NP (NP (NN a)))))", "(S (NP (NP (NN a))))"),
    ],
)
def test_normalised_by_the_rule(raw, rest):
    assert str(normalise_tree(read_tree(raw))) == rest
    assert normalise_tree(read_tree(rest)) == read_tree(rest)


def test_nothing_is_left_of_traces_alone():
    assert normalise_tree(read_tree("( (S (NP (-NONE- *))))")) is None


# trees as sequences


def test_linearised_as_published():
    tree = read_tree("(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))")
    form = "(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S"  # Vinyals et al. 2015, with XX for tags
    assert linearise(tree) == form.split()


def test_rebuilt_is_the_way_back():
    for tree in trees(300, 1):
        symbols = linearise(tree)
        assert rebuild(symbols, tree.leaves) == tree
        assert len(symbols) == len(tree.words) + 2 * sum(s[0] == "(" for s in symbols)


@pytest.mark.parametrize(
    "form",
    ["", "XX XX", "(S", "(S XX XX", "(S XX )S", "(S XX XX XX )S", "(S XX XX )NP",
     "(S (NP )NP XX XX )S", "(S XX )S XX", "(S XX )S (S XX )S", ")S (S XX XX )S",
     "(S (NP XX )S XX )NP", "(S XX XX )S )S",
     "(S XX XX )S <eos>", "(S XX dog )S", "<unk>"],
)  # fmt: skip
def test_malformed_sequences_are_refused(form):
    leaves = [Tree("NN", "a"), Tree("NN", "b")]
    with pytest.raises(ValueError, match="symbols: expected a tree over 2 words"):
        rebuild(form.split(), leaves)


def well_formed(symbols, n_words) -> bool:
    """By replacing brackets around words with one word, until nothing changes."""
    text = " ".join(symbols)
    if not text.startswith("(") or symbols.count(WORD) != n_words:
        return False
    for _ in symbols:
        for label in ("A", "B"):
            for n in range(1, len(symbols)):
                text = text.replace(f"({label} {' '.join(['XX'] * n)} ){label}", "XX")
    return text == "XX"


@pytest.mark.parametrize("n_words", [1, 2])
def test_may_follow_allows_trees_and_only_trees(n_words):
    """A sequence of up to 7 symbols is allowed, symbol by symbol, if and only if it is a tree."""
    symbols, openings = ["(A", "(B", ")A", ")B", WORD], {"(A", "(B"}
    grown, complete = [[]], set()
    for _ in range(8):
        following = [(s, may_follow(s, n_words, openings)) for s in grown]
        assert all(allowed for _, allowed in following)
        complete |= {tuple(s) for s, allowed in following if END in allowed}
        assert all(allowed == {END} for _, allowed in following if END in allowed)
        grown = [[*s, symbol] for s, allowed in following for symbol in sorted(allowed - {END})]
    for length in range(1, 8):
        if length <= 5:  # all sequences
            every = itertools.product(symbols, repeat=length)
        else:  # what is complete, and what is one symbol away from it
            every = {(*s[:i], x, *s[i + 1 :]) for s in complete if len(s) == length
                     for i in range(length) for x in symbols}  # fmt: skip
        for s in every:
            assert (s in complete) == well_formed(list(s), n_words), s


def test_may_follow_limits_brackets():
    assert may_follow(["(S", "(NP"], 3, {"(S", "(NP"}, most=2) == {WORD}
    assert may_follow(["(S", "(NP", WORD], 1, {"(S"}) == {")NP"}


def test_mended_makes_a_tree_of_anything():
    draw = random.Random(2)
    symbols = ["(S", "(NP", "(VP", ")S", ")NP", ")VP", WORD, "dog", END, "<unk>"]
    for _ in range(500):
        junk, n = draw.choices(symbols, k=draw.randint(0, 25)), draw.randint(1, 8)
        leaves = [Tree("NN", "a")] * n
        assert len(rebuild(repair(junk, n), leaves).leaves) == n


def test_mended_leaves_trees_alone():
    for tree in trees(100, 3):
        assert repair(linearise(tree), len(tree.words)) == linearise(tree)


# EVALB's rules, by hand


def f1(true: str, given: str):
    score = bracket_score([read_tree(true)], [read_tree(given)])
    return score.both, score.true, score.given


def test_label_and_span_count():
    true = "(S (NP (DT a) (NN b)) (VP (VB c)))"
    assert f1(true, true) == (3, 3, 3)
    assert f1(true, "(S (NP (DT a) (NN b)) (NP (VB c)))") == (2, 3, 3)  # label
    assert f1(true, "(S (NP (DT a)) (VP (NN b) (VB c)))") == (1, 3, 3)  # spans
    assert f1(true, "(S (DT a) (NN b) (VB c))") == (1, 3, 1)


def test_tags_do_not_count():
    assert f1("(S (DT a) (NN b))", "(S (XX a) (XX b))") == (1, 1, 1)


def test_punctuation_is_deleted_by_the_true_tags():
    true = "(S (NP (DT a) (, ,) (NN b)) (VP (VB c)) (. .))"
    assert f1(true, "(S (NP (DT a) (, ,) (NN b)) (VP (VB c) (. .)))") == (3, 3, 3)
    assert f1(true, "(S (NP (XX a) (XX ,) (XX b)) (VP (XX c) (XX .)))") == (3, 3, 3)
    assert f1(true, "(S (NP (DT a)) (, ,) (NP (NN b)) (VP (VB c)) (. .))") == (2, 3, 4)
    for tag in (",", ":", "``", "''", "."):
        assert f1(f"(S (NN a) ({tag} x))", "(S (NP (NN a)) (NP (XX x)))") == (1, 1, 2)
    for tag in ("-LRB-", "$", "#", "NN"):  # these are words
        assert f1(f"(S (NN a) ({tag} x))", "(S (NP (NN a)) (NP (XX x)))") == (1, 1, 3)


def test_brackets_around_punctuation_alone_do_not_count():
    assert f1("(S (NP (NN a)) (PRN (, ,)))", "(S (NP (NN a)) (, ,))") == (2, 2, 2)


def test_top_does_not_count_and_s_does():
    assert f1("(TOP (S (NN a)))", "(TOP (S (NN a)))") == (1, 1, 1)
    assert f1("(TOP (S (NN a)))", "(S (NN a))") == (1, 1, 1)


def test_advp_and_prt_are_one_label():
    assert f1("(S (VB a) (PRT (RP b)))", "(S (VB a) (ADVP (RP b)))") == (2, 2, 2)


def test_repeated_brackets_count_once_each():
    assert f1("(S (NP (NP (NN a))))", "(S (NP (NN a)))") == (2, 3, 2)
    assert f1("(S (NP (NN a)))", "(S (NP (NP (NP (NN a)))))") == (2, 2, 4)


def test_counts_are_added_up_over_sentences():
    a, b = read_tree("(S (NP (NN a)) (VP (VB b)))"), read_tree("(S (NN a))")
    wrong = read_tree("(S (VP (NN a)) (NP (VB b)))")
    score = bracket_score([a, b], [wrong, b])
    assert (score.both, score.true, score.given) == (2, 4, 4)
    assert (score.exact, score.sentences, score.f1) == (1, 2, 0.5)


def test_what_is_no_tree_has_no_brackets():
    a = read_tree("(S (NP (NN a)) (VP (VB b)))")
    score = bracket_score([a, a], [a, None])
    assert (score.recall, score.precision, score.exact) == (0.5, 1.0, 1)
    assert score.f1 == pytest.approx(2 / 3)
    nothing = bracket_score([a], [None])
    assert (nothing.f1, nothing.recall, nothing.precision) == (0, 0, 0)


def test_length_counts_punctuation():
    short, long = (Tree("S", (Tree("NN", "a"),) * n + (Tree(".", "."),)) for n in (39, 40))
    assert bracket_score([short, long], [short, long], max_words=40).sentences == 1
    assert bracket_score([], []).f1 == bracket_score([long], [long], max_words=40).f1 == 0


def test_scores_refuse_other_sentences():
    a, b = read_tree("(S (NN a))"), read_tree("(S (NN a) (NN b))")
    with pytest.raises(ValueError, match="given: expected 1 words in tree 0, got 2"):
        bracket_score([a], [b])
    with pytest.raises(ValueError, match="given: expected 2 trees"):
        bracket_score([a, b], [a])


def test_equal_to_pyevalb():
    """On trees without the fine print, which that evaluator of PyPI leaves out."""
    scorer = pytest.importorskip("PYEVALB.scorer", reason="PYEVALB is not installed").Scorer()
    from PYEVALB.parser import create_from_bracket_string

    draw = random.Random(4)
    compared = 0
    for true in trees(400, 5, labels=["S", "NP", "VP", "PP"], tags=["NN"]):
        given = Tree("S", (a_tree(draw, len(true.words), ["S", "NP", "VP"], ["NN"]),))
        words = iter(true.words)
        given = rebuild(linearise(given), [Tree("NN", next(words)) for _ in given.leaves])
        pair = [brackets(tree, ["NN"] * len(true.words)) for tree in (true, given)]
        if all(count == 1 for found in pair for count in found.values()):  # it compares sets
            theirs = scorer.score_trees(
                *(create_from_bracket_string(str(t)) for t in (true, given))
            )
            ours = bracket_score([true], [given])
            assert (ours.both, ours.true, ours.given) == (
                theirs.matched_brackets,
                theirs.gold_brackets,
                theirs.test_brackets,
            )
            compared += 1
    assert compared > 50


# the vocabulary


@pytest.mark.parametrize(
    ("word", "kind"),
    [("1987", "0"), ("Mr", "A"), ("Haag", "Aag"), ("of", "a"), ("quietly", "aly"),
     ("U.S.-led", "A-ed")],
)  # fmt: skip
def test_looks(word, kind):
    assert word_shape(word) == kind


@pytest.mark.parametrize("copying", [False, True])
def test_vocabulary(copying):
    known = trees(50, 6)
    v = Vocabulary.learn(known, copying=copying)
    assert v.table[: len(SPECIALS)] == SPECIALS and len(v) == len(v.table)
    for tree in known:
        assert v.decode_tree(v.encode_tree(tree)) == linearise(tree)
        assert [v.table[i] for i in v.encode_words(tree.words)] == tree.words
    assert v.encode_tree(read_tree("(NEW (NN a))"))[0] == UNK
    assert v.encode_words(["@@@@"]) == [UNK]


def test_rare_words_are_known_by_their_looks():
    text = "(S (NN cat) (NN cat) (VB walking) (VB talking) (NN zebra))"
    v = Vocabulary.learn([read_tree(text)], min_count=2)
    assert set(v.word_ids) == {"cat"} and set(v.kind_ids) == {"ang"}
    ids = v.encode_words(["cat", "walking", "sleeping", "zebra", "cats"])
    assert [v.table[i] for i in ids] == ["cat", "ang", "ang", "<unk>", "<unk>"]


def test_a_word_may_look_like_a_symbol():
    v = Vocabulary.learn([read_tree("(S (NN XX) (NN <eos>))")])
    assert v.encode_words(["XX"]) != [v.symbol_ids["XX"]]
    assert v.encode_words(["<eos>"]) != [EOS]


# the decoder


def test_every_tree_has_room():
    """Of the longest sentence that is taken, and of no longer one: words, brackets, EOS."""

    def symbols(n_words: int) -> int:
        return n_words + 2 * most_brackets(n_words) + 1

    for room in range(14, 60):
        assert symbols(most_words(room)) <= room < symbols(most_words(room) + 1)


@pytest.mark.parametrize("copying", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_noise_writes_trees(copying, seed):
    known = trees(10, 10 + seed)
    v = Vocabulary.learn(known, copying=copying)
    sentences = [tree.words for tree in known] + [["unseen"], ["never", "12", "Heard-of"] * 5]
    model = a_parser(v, seed)
    with torch.no_grad():
        model.embedding.weight.mul_(10 ** (seed - 1))  # from undecided to very sure
    for words, symbols in zip(sentences, write_trees(model, v, sentences), strict=True):
        rebuild(symbols, [Tree("NN", word) for word in words])
        assert sum(s[0] == "(" for s in symbols) <= most_brackets(len(words))
    assert [tree.words for tree in parse(model, v, sentences, batch=7)] == sentences


def by_hand(model: Transformer, v: Vocabulary, words: list[str]) -> list[str]:
    """The same choice without cache and batch: the whole prefix is read again at every step."""
    ids, written = v.encode_words(words), []
    src = torch.tensor([[*ids, EOS]])
    tgt = [BOS]
    while True:
        states = model.decode(torch.tensor([tgt]), *model.encode(src))
        p = model.logits(states)[0, -1].double().softmax(-1)
        best, choice = -math.inf, None
        for s in may_follow(written, len(words), v.openings, most_brackets(len(words))):
            copied = v.copying and s == WORD
            i = ids[written.count(WORD)] if copied else v.symbol_ids[s]
            value = float(p[v.word_places].sum() if copied else p[i])
            if value > best:
                best, choice = value, (s, i)
        if choice[0] == END:
            return written
        written.append(choice[0])
        tgt.append(choice[1])


@pytest.mark.parametrize("copying", [False, True])
@torch.no_grad()
def test_equal_to_decoding_by_hand(copying):
    known = trees(6, 20)
    v = Vocabulary.learn(known, copying=copying)
    model = a_parser(v, 3)
    sentences = [tree.words for tree in known]
    assert write_trees(model, v, sentences) == [by_hand(model, v, words) for words in sentences]


def test_a_tree_written_freely_is_the_tree_written_under_the_rule():
    """With XX, where greedy decoding gives a tree by itself, the rule changes nothing."""
    known = [read_tree("(S (NP (NN a)) (VP (VB b)))")]
    v = Vocabulary.learn(known)
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(len(v), 32, 64, 2, 1, dropout=0.0))
    src = pad([[*v.encode_words(known[0].words), EOS]])
    tgt = pad([[BOS, *v.encode_tree(known[0]), EOS]])
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(100):
        optimizer.zero_grad()
        logits = model(src, tgt[:, :-1])
        torch.nn.functional.cross_entropy(logits[0], tgt[0, 1:]).backward()
        optimizer.step()
    free = v.decode_tree(greedy(model, src, 30)[0])
    assert free == linearise(known[0]) == write_trees(model, v, [known[0].words])[0]


def test_parsing_leaves_the_model_in_its_mode():
    known = trees(3, 30)
    v = Vocabulary.learn(known)
    model = a_parser(v).train()
    parse(model, v, [known[0].words])
    assert model.training and parse(model, v, []) == []


# the treebank


def test_the_treebank_fits_all_of_it():
    try:
        texts = load_treebank("valid")
    except DataError:
        pytest.skip("the treebank is not here")
    for text in texts:
        tree = normalise_tree(read_tree(text))
        symbols = linearise(tree)
        assert rebuild(symbols, tree.leaves) == tree == normalise_tree(tree)
        assert sum(s[0] == "(" for s in symbols) <= most_brackets(len(tree.words))
        assert not any(tag == "-NONE-" for tag in (leaf.label for leaf in tree.leaves))
