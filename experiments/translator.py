"""Train chapter 3's recurrent translator with and without attention, and keep what came of it.

    python experiments/translator.py                 # the tokenizer, both trainings, the report
    python experiments/translator.py none            # one training alone: none, additive ...
    python experiments/translator.py report          # ... and the report, once both are there

Writes src/allyouneed/weights/translator-* and src/allyouneed/results/translator.json. The test
split is translated once, by the report; what is chosen is chosen on the validation split.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import count, islice

import torch
from record import record
from sacrebleu.metrics import BLEU
from safetensors.torch import load_file, save_file
from torch import nn

from allyouneed.alignment import Additive, Translator, translate_greedily, translation_loss
from allyouneed.data import load_pairs
from allyouneed.tokens import EOS, PAD, Tokenizer, pad, token_batches
from allyouneed.weights import FOLDER

VOCAB_SIZE, D_MODEL, DROPOUT = 4000, 192, 0.2
MAX_TOKENS, PEAK_RATE, CLIP, SEED = 2048, 2e-3, 1.0, 0
WARMUP, UPDATES = 200, 4000  # the rate rises to its peak, then falls to zero in a line
LOOK_EVERY = 400  # updates between two looks at the validation split
BINS = [(1, 3), (4, 5), (6, 7), (8, 9), (10, 11), (12, 14), (15, 99)]  # source words, both ends in
TOKENIZER = FOLDER / "translator-tokenizer.json"
Pair = tuple[str, str]


def tokenizer() -> Tokenizer:
    """The joint tokenizer of both models: the shipped one, or a new one from the training split."""
    if not TOKENIZER.exists():
        sentences = (sentence for pair in load_pairs() for sentence in pair)
        Tokenizer.train(sentences, VOCAB_SIZE).save(TOKENIZER)
    return Tokenizer.load(TOKENIZER)


def build(name: str, dropout: float = 0.0) -> Translator:
    """Both start from the same weights; "additive" has the three matrices of its score besides."""
    score = {"none": None, "additive": Additive(D_MODEL, 2 * D_MODEL, D_MODEL)}[name]
    torch.manual_seed(SEED)
    return Translator(VOCAB_SIZE, D_MODEL, score, dropout)


def load(name: str) -> Translator:
    model = build(name)
    model.load_state_dict(load_file(FOLDER / f"translator-{name}.safetensors"))
    return model.eval()


@torch.no_grad()
def valid_loss(model: nn.Module, batches: list) -> float:
    """Nats per target token on the validation split."""
    model.eval()
    total = sum(translation_loss(model, b.src, b.tgt, reduction="sum").item() for b in batches)
    model.train()
    return total / sum(int((b.tgt[:, 1:] != PAD).sum()) for b in batches)


def learn(
    model: nn.Module, ids: dict[str, list], peak: float = PEAK_RATE, seed: int = SEED
) -> Iterator[dict[str, float]]:
    """Train on ids["train"]; at each look the losses (nats per target token) and what it took."""
    adam = torch.optim.Adam(model.parameters(), lr=peak)
    rate = torch.optim.lr_scheduler.LambdaLR(
        adam, lambda n: min((n + 1) / WARMUP, (UPDATES - n) / (UPDATES - WARMUP))
    )
    valid = list(token_batches(ids["valid"], MAX_TOKENS))
    batches = (b for epoch in count() for b in token_batches(ids["train"], MAX_TOKENS, seed, epoch))
    running, tokens, seconds = [], 0, 0.0
    for n, batch in enumerate(islice(batches, UPDATES), start=1):
        start = time.process_time()
        loss = translation_loss(model, batch.src, batch.tgt)
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        adam.step()
        rate.step()
        seconds += time.process_time() - start
        tokens += int((batch.tgt[:, 1:] != PAD).sum())
        running.append(loss.item())
        if n % LOOK_EVERY == 0:
            losses = {"train": sum(running) / len(running), "valid": valid_loss(model, valid)}
            yield {
                "updates": n, **{name: round(value, 4) for name, value in losses.items()},
                "tokens": tokens, "seconds": round(seconds),
            }  # fmt: skip
            running = []


def encoded(tok: Tokenizer) -> dict[str, list]:
    """The token ids of the pairs that are trained on, and of those that choose the weights."""
    return {
        split: [(tok.encode(en), tok.encode(fr)) for en, fr in load_pairs(split=split)]
        for split in ("train", "valid")
    }


def train(name: str) -> None:
    model, curve = build(name, DROPOUT), []
    for look in learn(model, encoded(tokenizer())):
        print(name, look, flush=True)
        tokens, seconds = look.pop("tokens"), look.pop("seconds")
        curve.append(look)
        if look["valid"] == min(each["valid"] for each in curve):
            weights = {key: value.half() for key, value in model.state_dict().items()}
            save_file(weights, FOLDER / f"translator-{name}.safetensors")
    card = {
        "data": "tatoeba-en-fr, split train",
        "license": "LicenseRef-CC-BY-2.0-FR",
        "terms": "CC BY 2.0 FR, as the sentences it was trained on (Tatoeba, through "
        "ManyThings.org)",
        "architecture": "bidirectional GRU encoder, GRU decoder, "
        + ("additive attention" if name == "additive" else "no attention"),
        "file": "float16 safetensors, state_dict of allyouneed.alignment.Translator",
        "tokenizer": TOKENIZER.name,
        "vocab_size": VOCAB_SIZE,
        "d_model": D_MODEL,
        "parameters": sum(p.numel() for p in model.parameters()),
        "command": f"python experiments/translator.py {name}",
        "updates": UPDATES,
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": round(tokens / seconds),
        "curve": curve,
    }
    write_card(name, card)


def write_card(name: str, card: dict) -> None:
    text = json.dumps(card, indent=1, ensure_ascii=False) + "\n"
    (FOLDER / f"translator-{name}.json").write_text(text, encoding="utf-8")


def translate(model: Translator, tok: Tokenizer, sentences: list[str]) -> list[str]:
    """Greedy translations, in batches of sentences of about the same length."""
    ids = [[*tok.encode(sentence), EOS] for sentence in sentences]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    out = [""] * len(ids)
    for some in (order[i : i + 128] for i in range(0, len(order), 128)):
        tokens, _ = translate_greedily(model, pad([ids[i] for i in some]))
        for i, row in zip(some, tokens.tolist(), strict=True):
            out[i] = tok.decode(row)
    return out


def by_length(pairs: list[Pair], out: list[str], bleu: BLEU) -> list[dict]:
    """BLEU of the sentences of each bin, with a 95 % bootstrap interval."""
    rows = []
    for low, high in BINS:
        here = [i for i, (en, _) in enumerate(pairs) if low <= len(en.split()) <= high]
        score = bleu.corpus_score(
            [out[i] for i in here], [[pairs[i][1] for i in here]], n_bootstrap=1000
        )
        around = [round(score._mean - score._ci, 1), round(score._mean + score._ci, 1)]
        row = {"low": low, "high": high, "sentences": len(here), "bleu": round(score.score, 2)}
        rows.append({**row, "interval": around})
    return rows


def all_references(pairs: list[Pair], out: list[str]) -> float:
    """BLEU of every different English sentence against all its French sentences in the split."""
    references, answer = defaultdict(list), {}
    for (en, fr), mine in zip(pairs, out, strict=True):
        references[en].append(fr)
        answer[en] = mine
    most = max(map(len, references.values()))
    columns = [[(refs + [None] * most)[i] for refs in references.values()] for i in range(most)]
    return round(BLEU().corpus_score([answer[en] for en in references], columns).score, 2)


def report() -> None:
    tok, valid, test = tokenizer(), load_pairs(split="valid"), load_pairs(split="test")
    chosen = random.Random(SEED).sample(range(len(test)), len(test))  # three of each bin, by lot
    chosen = [
        i
        for low, high in BINS[1:]
        for i in [i for i in chosen if low <= len(test[i][0].split()) <= high][:3]
    ]
    models, translations = {}, [{"source": test[i][0], "reference": test[i][1]} for i in chosen]
    for name in ("none", "additive"):
        card = json.loads((FOLDER / f"translator-{name}.json").read_text(encoding="utf-8"))
        model, bleu = load(name), BLEU()
        start = time.perf_counter()
        out = translate(model, tok, [en for en, _ in test])
        seconds = time.perf_counter() - start
        score = bleu.corpus_score(out, [[fr for _, fr in test]])
        first = valid[:200]
        valid_score = BLEU().corpus_score(
            translate(model, tok, [en for en, _ in first]), [[fr for _, fr in first]]
        )
        card |= {
            "bleu": round(score.score, 2),
            "signature": str(bleu.get_signature()),
            "valid_bleu_first_200": round(valid_score.score, 2),
        }
        write_card(name, card)
        models[name] = {
            **{key: card[key] for key in ("bleu", "signature", "parameters", "seconds")},
            **{key: card[key] for key in ("tokens", "tokens_per_second", "updates", "curve")},
            "bleu_all_references": all_references(test, out),
            "bleu_by_length": by_length(test, out, bleu),
            "decode_seconds": round(seconds, 1),
        }
        for row, i in zip(translations, chosen, strict=True):
            row[name] = out[i]
    settings = {
        "vocab_size": VOCAB_SIZE,
        "d_model": D_MODEL,
        "dropout": DROPOUT,
        "max_tokens": MAX_TOKENS,
        "peak_rate": PEAK_RATE,
        "warmup": WARMUP,
        "clip": CLIP,
        "seed": SEED,
        "test_pairs": len(test),
        "decoding": "greedy",
        "references": "one per pair (bleu); all of the test split (bleu_all_references)",
    }
    record("translator", {"settings": settings, "models": models, "translations": translations})


if __name__ == "__main__":
    torch.set_num_threads(1)
    tokenizer()
    for step in sys.argv[1:] or ["none", "additive", "report"]:
        report() if step == "report" else train(step)
