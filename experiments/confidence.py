"""Chapter 12: is its small model as sure as it is right, and what is the mean of checkpoints worth?

    python experiments/confidence.py     # about three minutes on one core

The chapter's model learns the chapter's easy sentences with its schedule, from three beginnings,
with label smoothing and without. Each time the last five checkpoints, 20 updates apart, are kept.
For each two of the beginnings the mean of the last weights is judged, too.
What lies outside the 50 likeliest tokens is the tail that chapter 13 draws from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import torch
from record import record
from torch import Tensor

from allyouneed.data import load_pairs, normalise
from allyouneed.tokens import PAD, Batch, Tokenizer, token_batches
from allyouneed.training import average, learning_rate, train, validation_loss
from allyouneed.transformer import Transformer, TransformerConfig

SIZES = {"d_model": 128, "d_ff": 256, "n_heads": 4, "n_layers": 1}
STEPS, KEPT = 400, (320, 340, 360, 380, 400)
Ids = list[tuple[list[int], list[int]]]


def commonest(sentences: Iterable[str], n: int) -> set[str]:
    counts = Counter(word for sentence in sentences for word in normalise(sentence).split())
    return {word for word, _ in counts.most_common(n)}


def easy_sentences() -> tuple[Ids, Ids, int]:
    """Those to train on and those held out, as the chapter chooses them, and the vocabulary."""
    splits = [load_pairs("tatoeba-en-fr", split) for split in ("train", "valid")]
    english = commonest((en for en, _ in splits[0]), 300)
    french = commonest((fr for _, fr in splits[0]), 600)
    chosen = []
    for pairs in splits:
        words = [tuple(normalise(side).split() for side in pair) for pair in pairs]
        fits = [len(en) <= 7 and english >= set(en) and french >= set(fr) for en, fr in words]
        chosen.append([pair for pair, fit in zip(pairs, fits, strict=True) if fit])
    tokenizer = Tokenizer.train((side for pair in chosen[0] for side in pair), 1000)
    encode = tokenizer.encode
    ids = [[(encode(en), encode(fr)) for en, fr in pairs] for pairs in chosen]
    return ids[0], ids[1], len(tokenizer)


@torch.no_grad()
def sure_and_right(model: Transformer, held_out: list[Batch]) -> tuple[Tensor, Tensor, Tensor]:
    """The largest probability at each place, whether it is that of the right token, and what
    all but the 50 largest have together."""
    model.eval()
    sure, right, tail = [], [], []
    for batch in held_out:
        labels = batch.tgt[:, 1:]
        p, which = model(batch.src, batch.tgt[:, :-1]).softmax(-1).topk(50)
        sure.append(p[..., 0][labels != PAD])
        right.append((which[..., 0] == labels)[labels != PAD])
        tail.append(1 - p.sum(-1)[labels != PAD])
    return torch.cat(sure), torch.cat(right).float(), torch.cat(tail)


def one_run(
    seed: int, smoothing: float, ids: tuple[Ids, Ids, int]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What is kept of a run, and its last weights."""
    train_ids, valid_ids, vocab_size = ids
    held_out = list(token_batches(valid_ids, max_tokens=2000))
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(vocab_size, **SIZES))
    states = []
    for update in train(
        model,
        lambda epoch: token_batches(train_ids, max_tokens=700, seed=seed, epoch=epoch),
        STEPS,
        schedule=lambda step: 0.5 * learning_rate(step, d_model=128, warmup_steps=120),
        smoothing=smoothing,
        seed=seed,
    ):
        if update.step in KEPT:
            states.append({name: x.clone() for name, x in model.state_dict().items()})
    sure, right, tail = sure_and_right(model, held_out)
    each = [validation_loss(with_weights(model, state), held_out) for state in states]
    mean = validation_loss(with_weights(model, average(states)), held_out)
    row = {"seed": seed, "smoothing": smoothing, "places": len(sure)}
    row |= {"sure": sure.mean().item(), "right": right.mean().item()}
    row["tail"] = tail.mean().item()
    return row | {"each": each, "mean of the five": mean}, states[-1]


def with_weights(model: Transformer, state: dict[str, Tensor]) -> Transformer:
    model.load_state_dict(state)
    return model


def main() -> None:
    torch.set_num_threads(1)
    ids, rows, pairs = easy_sentences(), [], []
    held_out = list(token_batches(ids[1], max_tokens=2000))
    model = Transformer(TransformerConfig(ids[2], **SIZES))
    for smoothing in (0.1, 0.0):
        last = []
        for seed in range(3):
            row, state = one_run(seed, smoothing, ids)
            print(row, flush=True)
            rows.append(row)
            last.append(state)
        for a, b in combinations(range(3), 2):
            mean = validation_loss(with_weights(model, average([last[a], last[b]])), held_out)
            pairs.append({"smoothing": smoothing, "seeds": [a, b], "mean of the two": mean})
            print(pairs[-1], flush=True)
    record("confidence", {"steps": STEPS, "kept": KEPT, "rows": rows, "pairs": pairs})


if __name__ == "__main__":
    main()
