"""Chapter 16: a GPT and a BERT that learn from noise for as long as each other.

    python experiments/sides.py     # about eight minutes on one core

Both read the same everyday English sentences in the same batches: one learns to say what comes
next, the other what stood under 15 tokens of 100, at the place itself. A second GPT learns in each
batch from the very tokens that the BERT is asked for, and from no others. All are asked for each
token of held-out sentences, one at a time. Three beginnings.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import torch
from record import record
from torch import Tensor, nn
from torch.nn import functional as F

from allyouneed.data import load_pairs, normalise
from allyouneed.families import LanguageModel, LanguageModelConfig, mask_tokens
from allyouneed.masks import padding_mask
from allyouneed.tokens import BOS, EOS, PAD, Tokenizer, pad

STEPS, BATCH, RATE, SHARE = 1000, 64, 3e-3, 0.15
COMMON, TOKENS = 400, 600  # words that may occur, and tokens they are cut into


def sentences() -> tuple[list[str], list[str]]:
    """English of four to eight common words, to train on and held out."""
    train, valid = (
        sorted({english for english, _ in load_pairs("tatoeba-en-fr", split)})
        for split in ("train", "valid")
    )
    counts = Counter(word for sentence in train for word in normalise(sentence).split())
    common = {word for word, _ in counts.most_common(COMMON)}

    def fits(sentence: str) -> bool:
        words = normalise(sentence).split()
        return 4 <= len(words) <= 8 and common.issuperset(words)

    train = [sentence for sentence in train if fits(sentence)]
    return train, sorted({sentence for sentence in valid if fits(sentence)} - set(train))


def loss(model: LanguageModel, rows: Tensor, mask_token: int, share: float) -> Tensor:
    """Nats for each token that a batch asks for: this share of them, drawn; the first is given."""
    maskable = (rows != PAD) & (rows != BOS)
    spoilt, chosen = mask_tokens(rows, maskable, mask_token, mask_token, share)
    if model.config.causal:
        logits = model(rows[:, :-1])[chosen[:, 1:]]
    else:
        logits = model.logits(model.states(spoilt, padding_mask(rows, PAD))[chosen])
    return F.cross_entropy(logits, rows[chosen])


def learned(config: LanguageModelConfig, ids: list[list[int]], share: float, seed: int):
    """A model that began as noise; whatever it is, it gets the same batches in the same order."""
    torch.manual_seed(seed)
    model, draw = LanguageModel(config), random.Random(seed)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for step in range(STEPS):
        rows = pad(draw.sample(ids, BATCH))
        optimizer.param_groups[0]["lr"] = RATE * min(1, (step + 1) / 50, 2 * (1 - step / STEPS))
        optimizer.zero_grad()
        loss(model, rows, config.vocab_size - 1, share).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


@torch.no_grad()
def nats(model: LanguageModel, ids: list[int]) -> Tensor:
    """The loss of each token between BOS and EOS, asked one at a time."""
    tokens, place = torch.tensor(ids), torch.arange(1, len(ids) - 1)
    if model.config.causal:
        logits = model(tokens[None])[0, place - 1]
    else:
        each = torch.arange(len(place))
        rows = tokens.repeat(len(place), 1)
        rows[each, place] = model.config.vocab_size - 1
        logits = model(rows)[each, place]
    return F.cross_entropy(logits, tokens[place], reduction="none")


def by_place(model: LanguageModel, ids: list[list[int]]) -> list[float]:
    """The mean loss of the first token, of the second, ..., of the seventh, and of all."""
    found = [nats(model, row) for row in ids]
    at = [torch.stack([x[k] for x in found if len(x) > k]).mean() for k in range(7)]
    return [x.item() for x in (*at, torch.cat(found).mean())]


def main() -> None:
    torch.set_num_threads(1)
    train, valid = sentences()
    tokenizer = Tokenizer.train(train, TOKENS)
    ids = [[[BOS, *tokenizer.encode(s), EOS] for s in some] for some in (train, valid)]
    longest = max(len(row) for some in ids for row in some)
    config = LanguageModelConfig(
        vocab_size=len(tokenizer) + 1,  # the last is <mask>
        d_model=64, d_ff=256, n_heads=4, n_layers=2, dropout=0.0, attention_dropout=0.0,
        max_length=longest,
    )  # fmt: skip
    bert = replace(config, causal=False)
    models = {
        "GPT": (config, 1.0),
        "BERT": (bert, SHARE),
        "GPT, told as much": (config, SHARE),
    }
    rows: list[dict[str, Any]] = []
    for seed in range(3):
        for name, (sizes, share) in models.items():
            found = by_place(learned(sizes, ids[0], share, seed), ids[1])
            rows.append({"model": name, "seed": seed, "share": share, "nats": found})
            print(rows[-1], flush=True)
    sizes = {"train": len(train), "held out": len(valid), "batch": BATCH, "steps": STEPS}
    record("sides", {**sizes, "rows": rows})


if __name__ == "__main__":
    main()
