"""The long runs of chapters 6 to 10: what each part of the Transformer is worth.

    python experiments/parts.py scale        # chapter 6: with and without 1 / sqrt(d_k)
    python experiments/parts.py cost         # chapter 6: additive against dot-product attention
    python experiments/parts.py heads        # chapter 7: one head and many
    python experiments/parts.py positions    # chapter 9: none, sinusoids, a learned table
    python experiments/parts.py norms        # chapter 10: LayerNorm, BatchNorm, neither
    python experiments/parts.py no_norm      # chapter 10: without a norm, at high rates
    python experiments/parts.py warmup 1200  # chapter 10: post-norm and pre-norm, with and without
    python experiments/parts.py taken_out    # chapter 10: without residuals, without feed-forward

Each writes src/allyouneed/results/NAME.json. All but cost train one small encoder, built of the
chapters' own parts, to fill gaps in English sentences. Every variant tries several rates with
seed 0; the rate with the lowest held-out loss is then taken for the seeds 1 and 2 (not in
no_norm and warmup, which train with each of their rates and seeds).
A number after the name is that of the steps (of the repeats, for cost).
"""

from __future__ import annotations

import math
import os
import random
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate, product
from multiprocessing import Pool
from typing import Any

import torch
from record import record
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from allyouneed.alignment import Additive
from allyouneed.attention import masked_softmax
from allyouneed.data import load_pairs
from allyouneed.masks import padding_mask
from allyouneed.multihead import MultiHeadAttention
from allyouneed.positions import LearnedPositions, SinusoidalPositions
from allyouneed.similarity import dot_product
from allyouneed.sublayers import FeedForward, LayerNorm, Residual
from allyouneed.tokens import PAD, UNK, pad

GAP, WORDS = 2, 500  # the id of a gap; this many words are known, the others are all UNK
HIDDEN = 0.25  # each known word is hidden with this probability
SHORTEST, LONGEST = 3, 10  # words of a sentence
SHORT, LOOKED_AT = 8, 400  # in positions: words, and sentences of each length
BATCH, STEPS, LOOKS, WARMUP, HELD_OUT = 64, 400, 8, 100, 1600
SEEDS, RATES = (0, 1, 2), (1e-3, 2e-3, 4e-3)
TASK = (
    "Fill the gaps: each word of an English sentence of tatoeba-en-fr that is among the "
    f"{WORDS} commonest is replaced by a gap with probability {HIDDEN}, and predicted from what is "
    "left. Held-out sentences come from the validation split; losses are nats per gap."
)


@dataclass(frozen=True)
class Setting:
    """One variant of the encoder and of its training."""

    variant: str
    d_model: int = 64
    n_heads: int = 4
    n_layers: int = 2
    scaled: bool = True
    positions: str = "sinusoids"
    norm: str = "LayerNorm"
    norm_first: bool = False
    warmup: int = WARMUP
    residual: bool = True
    feed_forward: bool = True


# The task


class Gaps:
    """Sentences as ids, for training and held out, and the words that the ids stand for."""

    def __init__(self, longest: int = LONGEST):
        train, valid = (
            [
                re.findall(r"[a-z]+(?:'[a-z]+)?", sentence.lower())
                for sentence in sorted({en for en, _ in load_pairs(split=split)})
            ]
            for split in ("train", "valid")
        )
        for sentences in (train, valid):
            random.Random(0).shuffle(sentences)
        counts = Counter(word for sentence in train for word in sentence).most_common(WORDS)
        self.ids = {word: i for i, (word, _) in enumerate(counts, start=GAP + 1)}
        self.size = len(self.ids) + GAP + 1
        self.train = self.encode([s for s in train if SHORTEST <= len(s) <= longest])
        self.longer = self.encode([s for s in train if longest < len(s) <= 2 * longest])
        self.valid = self.encode([s for s in valid if SHORTEST <= len(s) <= longest][:HELD_OUT])
        frequency = torch.tensor([0.0] * (GAP + 1) + [float(count) for _, count in counts])
        self.guess = (frequency / frequency.sum()).log()

    def unigram_loss(self, words: Tensor) -> float:
        """The loss of who foretells every word by its frequency, without looking at the others."""
        _, answers = hide(words, torch.Generator().manual_seed(0))
        return round(float(-self.guess[answers].mean()), 4)

    def encode(self, sentences: list[list[str]]) -> Tensor:
        return pad([[self.ids.get(word, UNK) for word in words] for words in sentences])


def hide(words: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sentences with gaps, without columns that are all padding, and the words behind the gaps."""
    words = words[:, : int((words != PAD).sum(1).max())]
    hidden = (torch.rand(words.shape, generator=generator) < HIDDEN) & (words > GAP)
    return words.masked_fill(hidden, GAP), words[hidden]


# The encoder


class BatchNorm(nn.BatchNorm1d):
    """Each entry normalised over all positions of the batch, or over those in `real` alone."""

    real: Tensor | None = None  # (B, T), True = a word; None = padding is counted too

    def forward(self, x: Tensor) -> Tensor:
        if self.real is None:
            return super().forward(x.transpose(1, 2)).transpose(1, 2)
        return torch.zeros_like(x).masked_scatter(
            self.real.unsqueeze(-1), super().forward(x[self.real])
        )


class Encoder(nn.Module):
    """Embedding, positions, layers of attention and feed-forward, and the embedding again."""

    def __init__(self, size: int, setting: Setting, longest: int):
        super().__init__()
        self.setting, d_model = setting, setting.d_model
        self.embedding = nn.Embedding(size, d_model, padding_idx=PAD)
        self.positions = {
            "none": nn.Identity,
            "sinusoids": lambda: SinusoidalPositions(d_model),
            "learned": lambda: LearnedPositions(d_model, longest),
        }[setting.positions]()
        self.attentions, self.feeds, self.residuals = (nn.ModuleList() for _ in range(3))
        for _ in range(setting.n_layers):
            self.attentions.append(MultiHeadAttention(d_model, setting.n_heads))
            self.feeds.append(FeedForward(d_model, 2 * d_model))
            for _ in range(2):
                self.residuals.append(Residual(d_model, norm_first=setting.norm_first))
        self.last_norm = LayerNorm(d_model) if setting.norm_first else nn.Identity()
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        nn.init.zeros_(self.embedding.weight[PAD])
        if setting.positions == "learned":
            nn.init.normal_(self.positions.table, std=d_model**-0.5)
        if setting.norm != "LayerNorm":
            other = BatchNorm if setting.norm.startswith("BatchNorm") else nn.Identity
            for residual in self.residuals:
                residual.norm = other(d_model)
            if setting.norm_first:
                self.last_norm = other(d_model)
        if not setting.scaled:  # attention divides by sqrt(d_k): undone beforehand, in the queries
            factor = math.sqrt(d_model // setting.n_heads)
            for attention in self.attentions:
                attention.w_q.register_forward_hook(lambda module, x, q: q * factor)

    def forward(self, words: Tensor, looks: list[Tensor] | None = None) -> Tensor:
        """Logits of the word behind each gap, (gaps, V); weights go to `looks`, if there is one."""
        mask = padding_mask(words, PAD)

        def attend(attention: MultiHeadAttention, y: Tensor) -> Tensor:
            if looks is None:
                return attention(y, y, y, mask)
            y, weights = attention(y, y, y, mask, return_weights=True)
            looks.append(weights)
            return y

        if self.setting.norm == "BatchNorm, masked":
            for module in self.modules():
                if isinstance(module, BatchNorm):
                    module.real = words != PAD
        x = self.positions(self.embedding(words) * math.sqrt(self.setting.d_model))
        for i, (attention, feed) in enumerate(zip(self.attentions, self.feeds, strict=True)):
            x = self.add(x, self.residuals[2 * i], partial(attend, attention))
            if self.setting.feed_forward:
                x = self.add(x, self.residuals[2 * i + 1], feed)
        return self.last_norm(x)[words == GAP] @ self.embedding.weight.T

    def add(self, x: Tensor, residual: Residual, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """What the sub-layer found, added to x; in its place, if the setting has no residual."""
        return residual(x, sublayer) if self.setting.residual else sublayer(residual.norm(x))


# Training and looking


def looks_at(steps: int) -> list[int]:
    """The steps after which the held-out sentences are looked at: the first, the last, between."""
    return [round(i * steps / LOOKS) for i in range(LOOKS + 1)]


@torch.no_grad()
def evaluate(
    model: Encoder, words: Tensor, padding: int = 0, batch_statistics: bool = False
) -> tuple[float | None, float]:
    """Loss and accuracy on sentences with the same gaps each time; None if the loss is not finite.

    `padding` more columns of it are put to each sentence's right. With `batch_statistics`,
    BatchNorm takes mean and variance from the batch at hand, not its running averages, which it
    moves: for a model whose training is over.
    """
    model.train(batch_statistics)
    generator, loss, found, count = torch.Generator().manual_seed(0), 0.0, 0, 0
    for some in words.split(256):
        gaps, answers = hide(some, generator)
        logits = model(F.pad(gaps, (0, padding), value=PAD))
        loss += F.cross_entropy(logits, answers, reduction="sum").item()
        found += int((logits.argmax(-1) == answers).sum())
        count += len(answers)
    model.train()
    return round(loss / count, 4) if math.isfinite(loss) else None, round(found / count, 4)


@torch.no_grad()
def largest_weight(model: Encoder, words: Tensor) -> float | None:
    """The largest attention weight of each row, averaged over words, heads and layers."""
    words, _ = hide(words, torch.Generator().manual_seed(0))
    looks: list[Tensor] = []
    model.eval()(words, looks)
    model.train()
    weights = torch.stack(looks, dim=-1).amax(dim=3)  # (B, H, T, layers)
    mean = weights.transpose(1, 2)[words != PAD].mean().item()
    return round(mean, 4) if math.isfinite(mean) else None


def train(gaps: Gaps, setting: Setting, rate: float, seed: int, steps: int) -> tuple[dict, Encoder]:
    """One training. Of two lines the rate is the lower: one rises to `rate`, one falls to zero.

    So with a warm-up it turns a little below `rate`: at 0.8 of it for 400 steps, 0.92 for 1200.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = Encoder(gaps.size, setting, longest=2 * LONGEST)
    adam = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9)
    run: dict[str, Any] = {**asdict(setting), "d_k": setting.d_model // setting.n_heads}
    run |= {"seed": seed, "rate": rate, "loss": [], "accuracy": [], "largest_weight": []}
    begin = time.process_time()
    for step in range(steps + 1):
        if step in looks_at(steps):
            loss, accuracy = evaluate(model, gaps.valid)
            run["loss"].append(loss)
            run["accuracy"].append(accuracy)
            run["largest_weight"].append(largest_weight(model, gaps.valid[:256]))
        if step < steps:
            rows = torch.randint(len(gaps.train), (BATCH,), generator=generator)
            words, answers = hide(gaps.train[rows], generator)
            loss = F.cross_entropy(model(words), answers)
            adam.zero_grad()
            loss.backward()
            rising = (step + 1) / setting.warmup if setting.warmup else 1.0
            adam.param_groups[0]["lr"] = rate * min(rising, 1 - step / steps)
            adam.step()
    run["seconds"] = round(time.process_time() - begin, 1)
    shown = {k: run[k] for k in ("variant", "n_heads", "n_layers", "seed", "rate", "seconds")}
    print(shown, run["loss"], run["largest_weight"][:: len(run["loss"]) - 1], flush=True)
    return run, model


def compare(
    settings: list[Setting],
    steps: int,
    gaps: Gaps,
    rates: tuple[float, ...] = (),
    among: tuple[float, ...] = (),
    after: Callable[[Encoder, Gaps], dict[str, Any]] = lambda model, gaps: {},
) -> dict[str, Any]:
    """Train every setting with each seed, at all of `rates` or else at its best (`among` some)."""
    runs, sweep = [], []
    for setting in settings:
        if rates:
            done = [train(gaps, setting, rate, seed, steps) for rate in rates for seed in SEEDS]
        else:
            first = at_best_rate(gaps, setting, steps, sweep, among)
            rate = first[0]["rate"]
            done = [first, *(train(gaps, setting, rate, seed, steps) for seed in SEEDS[1:])]
        runs += [run | after(model, gaps) for run, model in done]
    _, answers = hide(gaps.valid, torch.Generator().manual_seed(0))
    return {
        "task": TASK,
        "words": WORDS,
        "hidden": HIDDEN,
        "batch": BATCH,
        "train_sentences": len(gaps.train),
        "valid_sentences": len(gaps.valid),
        "valid_gaps": len(answers),
        "unigram_loss": gaps.unigram_loss(gaps.valid),
        "padding_share": round(float((gaps.valid == PAD).float().mean()), 3),
        "optimizer": "Adam, betas (0.9, 0.98); the rate is the lower of two lines, one "
        "that rises for `warmup` steps and one that falls to zero; no dropout, no clipping",
        "steps": looks_at(steps),
        "sweep": sweep,
        "runs": runs,
    }


def at_best_rate(
    gaps: Gaps,
    setting: Setting,
    steps: int,
    sweep: list[dict[str, Any]],
    among: tuple[float, ...] = (),
) -> tuple[dict, Encoder]:
    """The training with the first seed at the rate that ends with the lowest held-out loss.

    As long as the best is the lowest or the highest tried, half or twice of it is tried besides;
    not so if the rates to choose `among` are given.
    """
    tried: dict[float, tuple[dict, Encoder]] = {}
    losses: dict[float, float] = {}
    todo = list(among or RATES)
    while todo:
        rate = todo.pop()
        tried[rate] = train(gaps, setting, rate, SEEDS[0], steps)
        loss = tried[rate][0]["loss"][-1]
        losses[rate] = math.inf if loss is None else loss
        sizes = {"n_heads": setting.n_heads, "n_layers": setting.n_layers}
        sweep.append({"variant": setting.variant, **sizes, "rate": rate, "loss": loss})
        best = min(losses, key=losses.__getitem__)
        if not among and not todo and best in (min(losses), max(losses)) and len(losses) < 6:
            todo = [best / 2 if best == min(losses) else best * 2]
    return tried[best]


# The experiments


def scale(steps: int = STEPS) -> None:
    """Queries and keys of 8 entries and of 128, with their products divided by sqrt(d_k) or not."""
    settings = [
        Setting("scaled" if scaled else "unscaled", d_model=128, n_heads=n_heads, scaled=scaled)
        for n_heads, scaled in product((16, 1), (True, False))
    ]
    record("scale", compare(settings, steps, Gaps()))


def heads(steps: int = 600) -> None:
    """From one head of 64 entries to 16 heads of 4: the same number of parameters."""
    settings = [Setting(f"{n} heads" if n > 1 else "1 head", n_heads=n) for n in (1, 2, 4, 8, 16)]
    record("heads", compare(settings, steps, Gaps()))


def positions(steps: int = 600) -> None:
    """Trained on sentences up to SHORT words, looked at by length up to twice that.

    Then, to compare, trained on such longer sentences too: those that are not looked at.
    """
    gaps = Gaps(SHORT)
    bins = [(low, low + 1) for low in range(SHORTEST, 2 * SHORT, 2)]
    words = torch.cat([F.pad(gaps.valid, (0, SHORT)), gaps.longer])
    lengths = (words != PAD).sum(1)
    binned = [words[(low <= lengths) & (lengths <= high)] for low, high in bins]
    rest = torch.cat([some[LOOKED_AT:] for some in binned if len(some[0].nonzero()) > SHORT])
    binned = [some[:LOOKED_AT] for some in binned]

    def by_length(model: Encoder, gaps: Gaps) -> dict[str, Any]:
        losses, accuracies = zip(*(evaluate(model, some) for some in binned), strict=True)
        return {"loss_by_length": losses, "accuracy_by_length": accuracies}

    settings = [Setting(kind, positions=kind) for kind in ("none", "sinusoids", "learned")]
    data = compare(settings, steps, gaps, after=by_length)
    data["longest"] = SHORT
    data["lengths"] = [
        {"low": low, "high": high, "sentences": len(some), "trained": high <= SHORT}
        | {"unigram_loss": gaps.unigram_loss(some)}
        for (low, high), some in zip(bins, binned, strict=True)
    ]
    gaps.train = torch.cat([F.pad(gaps.train, (0, SHORT)), rest])
    more = compare(settings, steps, gaps, after=by_length)
    data["train_sentences_all_lengths"] = more["train_sentences"]
    data |= {f"{key}_all_lengths": more[key] for key in ("sweep", "runs")}
    record("positions", data)


def norms(steps: int = STEPS) -> None:
    """What stands in the place of LayerNorm, in 2 narrow layers and in 6, with more padding.

    Each norm stands after the addition, and then before the sub-layer.
    """

    def looks(model: Encoder, gaps: Gaps) -> dict[str, Any]:
        loss = {
            f"{padding} more": evaluate(model, gaps.valid, padding, batch_statistics=True)[0]
            for padding in (0, 10, 40)
        }
        return {"loss_with_batch_statistics": loss}

    kinds = ("LayerNorm", "BatchNorm", "BatchNorm, masked", "none")
    orders = [(kind, False) for kind in kinds] + [(kind, True) for kind in kinds[:-1]]
    settings = [
        Setting(f"{kind}, first" if first else kind, 32, 4, depth, norm=kind, norm_first=first)
        for depth, (kind, first) in product((2, 6), orders)
    ]
    record("norms", compare(settings, steps, Gaps(), after=looks))


def no_norm(steps: int = STEPS) -> None:
    """Without a norm in 2 narrow layers and in 6: with each seed at the high rates, twice as
    high as the sweep of `norms` goes, and none of them chosen by its outcome.
    """
    settings = [Setting("none", 32, 4, depth, norm="none") for depth in (2, 6)]
    record("no_norm", compare(settings, steps, Gaps(), rates=(1.6e-2, 3.2e-2, 6.4e-2)))


def warmup(steps: int = STEPS) -> None:
    """Six narrow layers, normalised after or before, with and without warming up."""
    settings = [
        Setting(
            f"{'pre' if first else 'post'}-norm, {'warm-up' if warm else 'no warm-up'}",
            d_model=32,
            n_layers=6,
            norm_first=first,
            warmup=warm,
        )
        for first, warm in product((False, True), (WARMUP, 0))
    ]
    record("warmup", compare(settings, steps, Gaps(), rates=(1e-3, 3e-3)))


def taken_out(steps: int = STEPS) -> None:
    """Six narrow pre-norm layers without the additions or without the feed-forward nets, each at
    the better of two rates, and the whole at rates as high as the highest of `no_norm`.
    """
    whole = Setting("pre-norm", 32, n_layers=6, norm_first=True)
    no_residual = replace(whole, variant="no residual", residual=False)
    no_feed_forward = replace(whole, variant="no feed-forward", feed_forward=False)
    gaps = Gaps()
    with Pool(4, torch.set_num_threads, (1,)) as pool:  # side by side
        todo = [
            pool.apply_async(compare, ([setting], steps, gaps), rates)
            for setting, rates in (
                (no_residual, {"among": (4e-3, 1.6e-2)}),
                (no_feed_forward, {"among": (4e-3, 1.6e-2)}),
                (whole, {"rates": (3.2e-2,)}),
                (whole, {"rates": (6.4e-2,)}),
            )
        ]
        data, *others = (one.get() for one in todo)
    for other in others:
        data["sweep"] += other["sweep"]
        data["runs"] += other["runs"]
    record("taken_out", data)


# What attention costs


def peak_megabytes(call: Callable[[], Any]) -> float:
    """The most that tensors of one call take at a time, as PyTorch's profiler counts them."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        call()
    events = [e for e in watched.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return max(accumulate(event.nbytes() for event in events)) / 1e6


def cost(repeats: int = 11, d_k: int = 64) -> None:
    """Seconds and megabytes of one call, from 16 words to 512: one sentence, one head."""
    torch.manual_seed(0)
    additive, root, rows = Additive(d_k, d_k, d_k), math.sqrt(d_k), []
    kinds = {
        "additive": lambda q, k, v: masked_softmax(additive(q, k)) @ v,
        "dot": lambda q, k, v: masked_softmax(dot_product(q, k) / root) @ v,
        "fused": lambda *qkv: F.scaled_dot_product_attention(*(x.unsqueeze(1) for x in qkv)),
    }
    for length in (16, 32, 64, 128, 256, 512):
        qkv = [torch.randn(1, length, d_k, requires_grad=True) for _ in range(3)]

        def forward(attend: Callable[..., Tensor], qkv: list[Tensor] = qkv) -> None:
            with torch.no_grad():
                attend(*qkv)

        def both(attend: Callable[..., Tensor], qkv: list[Tensor] = qkv) -> None:
            torch.autograd.grad(attend(*qkv).sum(), qkv)

        for name, call in (("forward", forward), ("forward and backward", both)):
            seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
            calls = max(1, 2048 // length)  # in one measurement
            for _ in range(1 + repeats):  # the first is not counted
                for kind, attend in kinds.items():
                    begin = time.process_time()
                    for _ in range(calls):
                        call(attend)
                    seconds[kind].append((time.process_time() - begin) / calls)
            median = {kind: statistics.median(taken[1:]) for kind, taken in seconds.items()}
            for kind, attend in kinds.items():
                row = {"length": length, "kind": kind, "pass": name}
                row |= {"seconds": float(f"{median[kind]:.4g}")}
                row |= {"ratio": float(f"{median[kind] / median['dot']:.4g}")}
                row |= {"megabytes": float(f"{peak_megabytes(partial(call, attend)):.4g}")}
                rows.append(row)
                print(row, flush=True)
    note = (
        "Median process CPU time of one call, the kinds by turns, on one thread; other processes "
        f"ran beside (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores), so trust the "
        "ratios more than the seconds. Megabytes: the peak of the tensors that a call allocates, "
        "counted by PyTorch's profiler, without queries, keys and values themselves."
    )
    record("cost", {"note": note, "d_k": d_k, "repeats": repeats, "rows": rows})


if __name__ == "__main__":
    torch.set_num_threads(1)
    experiments = (scale, heads, positions, norms, no_norm, warmup, taken_out, cost)
    {one.__name__: one for one in experiments}[sys.argv[1]](*map(int, sys.argv[2:]))
