"""A GPT and a BERT of the same size, trained on WikiText-2: chapter 16.

    python experiments/language.py train gpt runs/language     # about an hour on one core
    python experiments/language.py train bert runs/language    # about 40 minutes on one core
    python experiments/language.py measure runs/language       # about 2 minutes

Both are the same machine; one has the causal mask and predicts the next token, the other has none
and restores masked ones. They share one vocabulary, made from the training articles, begin with
noise, and read as many tokens in as many updates. A masked model learns slowly. So the BERT reads
shorter windows, and has to restore 30 of 100 tokens (Wettig et al. 2023).

`train` keeps the weights that are best on the validation articles, in the folder that is named.
`measure` writes the two models in bfloat16 to src/allyouneed/weights/ and measures these files on
the test articles, once; it writes src/allyouneed/results/language.json.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from record import record
from torch import Tensor, nn

from allyouneed import weights
from allyouneed.data import load_wikitext2
from allyouneed.families import (
    LanguageModel,
    LanguageModelConfig,
    encode_text,
    load_language_model,
    mask_tokens,
    save_language_model,
)
from allyouneed.kernels import half_dtype, linear_cross_entropy
from allyouneed.provenance import commit
from allyouneed.saving import LANGUAGE_FORMAT, model_card
from allyouneed.tokens import EOS, Tokenizer

VOCABULARY = 4096  # the last of them is <mask>
LENGTH = {"gpt": 256, "bert": 64}  # tokens in a window,
BATCH = {"gpt": 4, "bert": 16}  # and windows in a step
STEPS, RATE, WARMUP = 14000, 1.5e-3, 300
COOLDOWN, DECAY = 0.5, 0.05  # the cool-down is a share of the steps
MASKED = 0.3  # the share of tokens that a BERT has to restore,
SHARE = 7  # and in measuring every seventh
EVERY, SOME = 500, 40_000  # steps between validations, and tokens that they look at


def make_tokenizer(articles: list[str]) -> Tokenizer:
    """One vocabulary for both models: BPE of the training articles, and <mask>."""
    lines = (line.split() for article in articles for line in article.split("\n"))
    known = (" ".join(word for word in line if word != "<unk>") for line in lines)
    bpe = Tokenizer.train(known, VOCABULARY - 1).bpe
    bpe.add_special_tokens(["<mask>"])
    return Tokenizer(bpe)


def config(name: str) -> LanguageModelConfig:
    """The same for both, but for the mask and the length."""
    return LanguageModelConfig(
        vocab_size=VOCABULARY,
        d_model=224,
        d_ff=896,
        n_heads=4,
        n_layers=4,
        dropout=0.05,
        attention_dropout=0.0,
        max_length=LENGTH[name],
        causal=name == "gpt",
        activation="gelu_tanh",
    )


def epochs(ids: Tensor, batch: int, seed: int, length: int) -> Iterator[Tensor]:
    """Windows, (batch, length + 1), for ever: each epoch is cut elsewhere and shuffled."""
    rng = random.Random(seed)
    while True:
        starts = list(range(rng.randrange(length), len(ids) - length, length))
        rng.shuffle(starts)
        for i in range(0, len(starts) - batch + 1, batch):
            yield torch.stack([ids[s : s + length + 1] for s in starts[i : i + batch]])


def loss(model: LanguageModel, windows: Tensor, generator: torch.Generator) -> tuple[Tensor, int]:
    """The sum of the losses of a batch of windows, in nats, and of how many tokens."""
    if model.config.causal:
        tokens, labels = windows[:, :-1], windows[:, 1:]
    else:
        labels = windows[:, :-1]
        everywhere = torch.ones_like(labels, dtype=torch.bool)
        tokens, chosen = mask_tokens(
            labels, everywhere, VOCABULARY - 1, VOCABULARY, MASKED, generator
        )
    device, half = windows.device.type, half_of(windows.device)
    with torch.autocast(device, half, enabled=half != torch.float32):
        states = model.states(tokens)
    if model.config.causal:
        states, labels = states.flatten(0, 1), labels.flatten()
    else:
        states, labels = states[chosen], labels[chosen]
    return linear_cross_entropy(states.to(half), model.embedding.weight, labels, 0.0), len(states)


def half_of(device: torch.device) -> torch.dtype:
    """bfloat16; float32 on a GPU without it, since nothing here scales the loss for float16."""
    old = device.type == "cuda" and half_dtype(device) != torch.bfloat16
    return torch.float32 if old else torch.bfloat16


Score = tuple[float, int, int]  # nats in total, tokens that were asked for, how many are right


@torch.inference_mode()
def next_tokens(model: LanguageModel, ids: Tensor, dtype: torch.dtype) -> Score:
    """Each token from as many before it as the model reads, and from at least half as many where
    there are."""
    half, total, right = model.config.max_length // 2, 0.0, 0
    ids = torch.cat([ids.new_tensor([EOS]), ids])
    for start in range(0, len(ids) - 1, half):
        begin = max(0, start - half)
        window = ids[begin : start + half + 1]
        with torch.autocast(ids.device.type, dtype, enabled=dtype != torch.float32):
            states = model.states(window[None, :-1])[0, start - begin :].to(dtype)
        labels = window[start - begin + 1 :]
        total += float(linear_cross_entropy(states, model.embedding.weight, labels, 0.0))
        right += int((model.logits(states.float()).argmax(-1) == labels).sum())
    return total, len(ids) - 1, right


@torch.inference_mode()
def masked_tokens(model: LanguageModel, ids: Tensor, dtype: torch.dtype) -> Score:
    """Every seventh token of each window that the model reads, all of them covered at once."""
    length, total, count, right = model.config.max_length, 0.0, 0, 0
    for start in range(0, len(ids), length):
        window = ids[start : start + length]
        hidden = torch.arange(len(window), device=ids.device) % SHARE == SHARE // 2
        with torch.autocast(ids.device.type, dtype, enabled=dtype != torch.float32):
            states = model.states(window.masked_fill(hidden, VOCABULARY - 1)[None])[0]
        states, labels = states[hidden].to(dtype), window[hidden]
        total += float(linear_cross_entropy(states, model.embedding.weight, labels, 0.0))
        count += len(labels)
        right += int((model.logits(states.float()).argmax(-1) == labels).sum())
    return total, count, right


def judged(model: LanguageModel, ids: Tensor, dtype: torch.dtype = torch.float32) -> Score:
    """Of the next tokens for a GPT, of masked ones for a BERT."""
    model.eval()
    score = (next_tokens if model.config.causal else masked_tokens)(model, ids, dtype)
    model.train()
    return score


def make_optimizer(model: LanguageModel) -> torch.optim.AdamW:
    """AdamW of matrices, Adam of the rest; its rate is set at every update."""
    parameters = list(model.parameters())
    return torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.dim() > 1], "weight_decay": DECAY},
            {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
        ],
        lr=0.0,
        betas=(0.9, 0.98),
        fused=True,
    )


def update(
    model: LanguageModel, optimizer: torch.optim.AdamW, windows: Tensor,
    generator: torch.Generator, rate: float,
) -> tuple[Tensor, int]:  # fmt: skip
    """One update; the sum of the losses before it, and of how many tokens."""
    nats, n = loss(model, windows, generator)
    optimizer.zero_grad()
    (nats / n).backward()
    nn.utils.clip_grad_norm_(list(model.parameters()), 1.0)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return nats.detach(), n


def train(name: str, folder: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(16)
    folder.mkdir(parents=True, exist_ok=True)
    articles = load_wikitext2("train")
    tokenizer = make_tokenizer(articles)
    ids = torch.tensor(encode_text(tokenizer, "\n".join(articles)))
    valid = torch.tensor(encode_text(tokenizer, "\n".join(load_wikitext2("valid"))))[:SOME]
    model = LanguageModel(config(name))
    optimizer = make_optimizer(model)
    best, curve = math.inf, []
    batches = epochs(ids, BATCH[name], 16, LENGTH[name])
    generator = torch.Generator().manual_seed(16)
    began, total, count = time.process_time(), 0.0, 0
    print(f"{len(ids)} tokens, {sum(p.numel() for p in model.parameters())} parameters", flush=True)
    for step in range(1, STEPS + 1):
        left = (STEPS - step + 1) / (COOLDOWN * STEPS)
        rate = RATE * min(1.0, step / WARMUP, left)
        nats, n = update(model, optimizer, next(batches), generator, rate)
        total, count = total + float(nats), count + n
        if step % EVERY == 0:
            nats, asked, _ = judged(model, valid, torch.bfloat16)
            found = nats / asked
            seconds = time.process_time() - began
            curve.append({"step": step, "train": total / count, "valid": found})
            print(
                f"{name} {step:6} train {total / count:.4f} valid {found:.4f} {seconds:.0f} s",
                flush=True,
            )
            total, count = 0.0, 0
            if found < best:
                best = found
                facts = {
                    "step": step,
                    "steps": STEPS,
                    "processor seconds": round(seconds),
                    "curve": curve,
                    "commit": commit(),
                }
                file = folder / f"language-{name}.safetensors"
                save_language_model(file, model, tokenizer, facts)


def measure(folder: Path) -> None:
    torch.set_num_threads(1)
    text = "\n".join(load_wikitext2("test"))
    words = len(text.split()) + len(text.split("\n"))  # published numbers count the ends of lines
    data = {"vocabulary": VOCABULARY, "words": words}
    for name in ("gpt", "bert"):
        source = folder / f"language-{name}.safetensors"
        model, tokenizer = load_language_model(source)
        facts = model_card(source, LANGUAGE_FORMAT)
        facts |= {"batch": BATCH[name], "length": LENGTH[name]}
        facts |= {"parameters": sum(p.numel() for p in model.parameters())}
        card = {
            "what": f"a small {name.upper()}, trained on WikiText-2 alone",
            "license": "CC-BY-SA-3.0",
            "terms": "CC BY-SA 3.0, as the articles of Wikipedia that it was trained on "
            "(WikiText-2)",
            "train": f"python experiments/language.py train {name} runs/language",
            "stored as": "bfloat16",
            **facts,
        }
        file = weights.FOLDER / source.name
        save_language_model(file, model, tokenizer, card, torch.bfloat16)
        model, tokenizer = load_language_model(file)  # as shipped
        ids = torch.tensor(encode_text(tokenizer, text))
        nats, asked, right = judged(model, ids)
        found = {"nats per token": nats / asked, "right": right / asked, "asked": asked}
        if name == "gpt":
            data["tokens"] = len(ids)
            found["perplexity per word"] = math.exp(nats / words)
        print(name, found, flush=True)
        data[name] = facts | {"test": found}
        text_of_card = json.dumps(card | {"test": found}, indent=1)
        file.with_suffix(".json").write_text(text_of_card + "\n", encoding="utf-8")
    record("language", data)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["train", "gpt" | "bert" as name, folder]:
            train(name, Path(folder))
        case ["measure", folder]:
            measure(Path(folder))
        case _:
            sys.exit(__doc__)
