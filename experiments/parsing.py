"""How much data does a parser need: the learning curve of chapter 18, on the Penn Treebank sample.

    python experiments/parsing.py

trains one small Transformer on each of 1/16, 1/8, 1/4, 1/2 and all of the training trees, and
scores it as EVALB does. Each part holds the one before it. Every choice within a run (when to
stop) is made on validation; a run looks at the test trees once, when it is over. A quarter of the
trees is used twice: with words copied into the tree, and with XX in their places. The record is
written anew after every run, and a run that stands in it is not repeated. About an hour on one
core that has nothing else to do; needs the treebank (`load_treebank`).
"""

from __future__ import annotations

import copy
import json
import time

import torch
from record import FOLDER, record

from allyouneed.data import load_treebank
from allyouneed.decoding import greedy
from allyouneed.parsing import (
    BracketScore,
    Tree,
    Vocabulary,
    bracket_score,
    linearise,
    normalise_tree,
    parse,
    read_tree,
    rebuild,
    repair,
)
from allyouneed.tokens import EOS, pad, token_batches
from allyouneed.training import train, validation_loss
from allyouneed.transformer import Transformer, TransformerConfig

SIZES = {
    "d_model": 128,
    "d_ff": 512,
    "n_heads": 4,
    "n_layers": 3,
    "dropout": 0.2,
    "norm_first": True,
}
SETTINGS = {"max_tokens": 1500, "rate": 3e-3, "smoothing": 0.1, "min_count": 3}
STEPS = {16: 400, 8: 700, 4: 1200, 2: 2500, 1: 5000}  # updates, by share of the training trees
RUNS = [(16, True), (4, True), (1, True), (8, True), (2, True), (4, False)]  # share, copying
MARKS = 3  # how often a run is judged on validation


def rate(step: int, steps: int) -> float:
    """Up in a straight line for a third of the run, then down as one over the root, to zero."""
    warmup = steps / 3
    falls = min(1.0, (steps + 1 - step) / (0.3 * steps))
    return SETTINGS["rate"] * min(step / warmup, (warmup / step) ** 0.5) * falls


def in_numbers(score: BracketScore) -> dict[str, float]:
    return {
        "f1": round(100 * score.f1, 2),
        "precision": round(100 * score.precision, 2),
        "recall": round(100 * score.recall, 2),
        "exact": score.exact,
        "sentences": score.sentences,
    }


def pairs(vocabulary: Vocabulary, trees: list[Tree]) -> list[tuple[list[int], list[int]]]:
    return [(vocabulary.encode_words(t.words), vocabulary.encode_tree(t)) for t in trees]


def free(model: Transformer, vocabulary: Vocabulary, trees: list[Tree]) -> list[list[str]]:
    """What greedy decoding writes for each sentence when nothing holds it back."""
    order = sorted(range(len(trees)), key=lambda i: len(trees[i].leaves))
    written: dict[int, list[str]] = {}
    for start in range(0, len(order), 64):
        chosen = order[start : start + 64]
        src = pad([[*vocabulary.encode_words(trees[i].words), EOS] for i in chosen])
        rows = greedy(model, src, max_length=src.shape[1] + 300)  # the paper's limit for parsing
        written |= zip(chosen, map(vocabulary.decode_tree, rows), strict=True)
    return [written[i] for i in range(len(trees))]


def judged(model: Transformer, vocabulary: Vocabulary, trees: list[Tree]) -> dict:
    """All scores on some trees: constrained, free, and what to do with what is no tree."""
    bound = parse(model, vocabulary, [t.words for t in trees])
    written = free(model, vocabulary, trees)
    read: list[Tree | None] = []
    for symbols, tree in zip(written, trees, strict=True):
        try:
            read.append(rebuild(symbols, tree.leaves))
        except ValueError:
            read.append(None)
    whole = [i for i, tree in enumerate(read) if tree]
    patched = [
        rebuild(repair(symbols, len(t.leaves)), t.leaves)
        for symbols, t in zip(written, trees, strict=True)
    ]
    return {
        "constrained": in_numbers(bracket_score(trees, bound)),
        "constrained_40": in_numbers(bracket_score(trees, bound, max_words=40)),
        "malformed": len(trees) - len(whole),
        "wrong_words": sum(
            s.count("XX") != len(t.leaves) for s, t in zip(written, trees, strict=True)
        ),
        "free_skipped": in_numbers(
            bracket_score([trees[i] for i in whole], [read[i] for i in whole])
        ),
        "free_empty": in_numbers(bracket_score(trees, read)),
        "free_mended": in_numbers(bracket_score(trees, patched)),
    }


def right_branching(tree: Tree) -> Tree:
    """A parser that knows nothing: every bracket opens before a word and closes at the end."""
    *words, last = tree.leaves
    found: Tree = last
    for word in reversed(words):
        found = Tree("NP", (word, found))
    return Tree("S", (found,))


def run(
    share: int, copying: bool, train_trees: list[Tree], valid: list[Tree], test: list[Tree]
) -> dict:
    """Train on every `share`-th tree, choose on valid, score on test.

    `copying`: see `Vocabulary`.
    """
    trees = train_trees[::share]
    vocabulary = Vocabulary.learn(trees, SETTINGS["min_count"], copying)
    learn, held = pairs(vocabulary, trees), pairs(vocabulary, valid)
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(len(vocabulary), **SIZES))
    steps, began = STEPS[share], time.process_time()
    curve, best = [], None
    for r in train(
        model,
        lambda epoch: token_batches(learn, SETTINGS["max_tokens"], epoch=epoch),
        steps,
        schedule=lambda step: rate(step, steps),
        smoothing=SETTINGS["smoothing"],
        precision="bf16",
    ):
        if r.step % (steps // MARKS) == 0:
            score = bracket_score(valid, parse(model, vocabulary, [t.words for t in valid]))
            loss = validation_loss(model, token_batches(held, 1000))
            curve.append({"step": r.step, "epoch": r.epoch, "loss": round(loss, 4)})
            curve[-1]["f1"] = round(100 * score.f1, 2)
            print(share, curve[-1], f"{time.process_time() - began:.0f} s", flush=True)
            if best is None or score.f1 > best[0]:
                best = (score.f1, r.step, copy.deepcopy(model.state_dict()))
    seconds = time.process_time() - began
    model.load_state_dict(best[2])
    return {
        "trees": len(trees),
        "words": sum(len(t.leaves) for t in trees),
        "vocabulary": len(vocabulary),
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": steps,
        "chosen_step": best[1],
        "seconds": round(seconds),
        "curve": curve,
        "valid": judged(model, vocabulary, valid),
        "test": judged(model, vocabulary, test),
    }


def main() -> None:
    torch.set_num_threads(1)
    splits = {
        split: [tree for text in load_treebank(split) if (tree := normalise_tree(read_tree(text)))]
        for split in ("train", "valid", "test")
    }
    lengths = [(len(t.leaves), len(linearise(t))) for t in splits["train"]]
    data = {
        "model": SIZES,
        "settings": SETTINGS,
        "trees": {split: len(trees) for split, trees in splits.items()},
        "mean_words": round(sum(n for n, _ in lengths) / len(lengths), 2),
        "mean_symbols": round(sum(m for _, m in lengths) / len(lengths), 2),
        "right_branching": in_numbers(
            bracket_score(splits["test"], [right_branching(t) for t in splits["test"]])
        ),
        "runs": {},
    }
    if (FOLDER / "parsing.json").exists():
        done = json.loads((FOLDER / "parsing.json").read_text(encoding="utf-8"))["data"]
        if {**done, "runs": {}} == data:  # the same experiment
            data = done
    for share, copying in RUNS:
        name = f"{share} words" if copying else f"{share} XX"
        if name not in data["runs"]:
            data["runs"][name] = run(share, copying, *splits.values())
            record("parsing", data)


if __name__ == "__main__":
    main()
