"""What benchmarks/gpu.py measures of models: training, the paper's, decoding, attention, a GPT."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import torch
from torch.profiler import profile

from allyouneed.data import load_wikitext2
from allyouneed.families import LanguageModel, encode_text
from allyouneed.kernels import half_dtype
from allyouneed.settings import PRESETS
from allyouneed.tokens import EOS, Batch, token_batches
from allyouneed.transformer import TransformerConfig

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "experiments")]
import attention  # noqa: E402
import decoding  # noqa: E402
import language  # noqa: E402
import training  # noqa: E402
from measure import (  # noqa: E402
    SIZES,
    Clock,
    Peak,
    flops,
    launches_and_waits,
    profiled,
    real_batches,
    target_tokens,
    versions,
)
from record import without_places  # noqa: E402

SMALL = TransformerConfig(600, d_model=16, d_ff=32, n_heads=2, n_layers=1)


@dataclass
class Day:
    """What all parts share: where they compute, where long runs are kept, and how much is done."""

    small: bool  # everything in small
    device: torch.device
    folder: Path
    code: str
    rounds: int = 8
    backend: str = "inductor"

    @property
    def clock(self) -> Clock:
        return Clock(self.device)

    @property
    def half(self) -> torch.dtype:
        return half_dtype(self.device) if self.device.type == "cuda" else torch.bfloat16


Pieces = dict[str, Callable[[], dict[str, Any]]]  # of a part: what to call, in order
Done = dict[str, dict[str, Any]]  # what they gave


def speed(day: Day, done: Done) -> Pieces:
    """Updates a second beside torch.nn.Transformer, eager and compiled; launches, waits, memory."""

    def one(size: str, tokens: int) -> dict[str, Any]:
        torch.manual_seed(0)
        config = SMALL if day.small else SIZES[size]
        batches = real_batches("multi30k-en-de", config.vocab_size, tokens, 2 if day.small else 8)

        def observe(work: Callable[[], None]) -> dict[str, float]:
            calls = launches_and_waits(profiled(work, day.device))
            memory = attention.peak_megabytes(work, day.device)
            each = {name: round(n / len(batches), 1) for name, n in calls.items()}
            return {**each, "megabytes above weights and moments": round(memory, 1)}

        names, rounds = [training.FIRST + ", bf16"], day.rounds
        given = (day.clock, day.backend, observe, day.small)
        return training.run(config, batches, names, rounds, *given)

    runs = [("tiny", 4096), ("base", 25_000), ("big", 25_000), ("base", 4096)]
    runs = [(size, 512 if day.small else tokens) for size, tokens in runs]
    return {f"{size}, {n} positions": functools.partial(one, size, n) for size, n in runs}


def paper(day: Day, done: Done) -> Pieces:
    """The paper's two models at 25,000 tokens on each side: speed, profile, and the whole run."""
    pieces = {}
    for how, backend in (("", None), (", compiled", day.backend)):
        for size in ("base", "big"):
            pieces[size + how] = functools.partial(papers_model, day, size, backend)
    return pieces


def papers_model(day: Day, size: str, backend: str | None) -> dict[str, Any]:
    """A few hundred updates of one of the paper's models."""
    preset, clock = PRESETS[size], day.clock
    names = ("vocabulary", "d_model", "d_ff", "heads", "layers", "dropout")
    config = SMALL if day.small else TransformerConfig(*(getattr(preset, name) for name in names))
    wanted = 200 if day.small else preset.batch_tokens
    torch.compiler.reset()
    batches = random_batches(config.vocab_size, wanted, 2 if day.small else 20)
    step, peak = (
        training.our_step(config, day.device, day.half, backend),
        Peak(clock, day.half, day.small),
    )
    step(*batches)  # warms up
    laps = []
    for _ in range(2 if day.small else 15):
        laps.append(clock.time(lambda: step(*batches)))
        peak.measure()
    memory = attention.peak_megabytes(lambda: step(*batches), day.device)
    watched = profiled(lambda: step(*batches[:2]), day.device)
    step()  # the end
    seconds, tokens = median(laps) / len(batches), fmean(map(target_tokens, batches))
    return {
        "data": "random ids, for speed only; lengths as benchmarks/loader.py draws them",
        "updates": len(laps) * len(batches),
        "seconds of an update": seconds,
        "target tokens of an update": tokens,
        "target tokens per second": tokens / seconds,
        "of the peak": fmean(flops(config, batch) for batch in batches) / seconds / peak[day.half],
        "peak": peak.data(),
        "megabytes above weights and moments": round(memory, 1),
        "an update": {name: n / 2 for name, n in launches_and_waits(watched).items()},
        "profile of 2 updates": top(watched, day.device),
        "the paper's run": {
            "steps": preset.steps,
            "hours": preset.steps * seconds / 3600,
            f"hours, if an update had {preset.batch_tokens} target tokens": (
                preset.steps * preset.batch_tokens * seconds / tokens / 3600
            ),
            "left out": "validation, checkpoints",
        },
    }


def random_batches(vocabulary: int, positions: int, number: int) -> list[Batch]:
    """Batches of random ids, with lengths about as in WMT 2014, evenly spread over all lengths."""
    draw = np.random.default_rng(0)
    pairs = max(200, 60 * positions * number // 1000)
    lengths = draw.gamma(2.2, 13.0, (pairs, 1)) * draw.normal(1, 0.15, (pairs, 2))
    lengths = lengths.clip(1, min(250, positions - 2)).astype(int)
    ids = [[draw.integers(EOS + 1, vocabulary, n).tolist() for n in pair] for pair in lengths]
    batches = list(token_batches([tuple(pair) for pair in ids], positions))
    return [batches[i * len(batches) // number] for i in range(number)]


def top(watched: profile, device: torch.device, number: int = 15) -> dict[str, list[dict]]:
    """The operations, and on a GPU the kernels, that took the most of the device's time."""
    gpu, tables = device.type == "cuda", {}
    events = [e for e in watched.key_averages() if not getattr(e, "is_user_annotation", False)]
    for kind, on_device in (("operations", False), ("kernels", True)):
        rows = [event for event in events if (event.device_type.name != "CPU") == on_device]
        own = {id(e): e.self_device_time_total if gpu else e.self_cpu_time_total for e in rows}
        whole = sum(own.values()) or 1.0
        rows = sorted(rows, key=lambda event: -own[id(event)])[:number]
        tables[kind] = [
            {
                "name": without_places(event.key)[:100],
                "calls": event.count,
                "milliseconds": round(own[id(event)] / 1000, 3),
                "share": round(own[id(event)] / whole, 3),
            }
            for event in rows
        ]
    return tables


def decoding_speed(day: Day, done: Done) -> Pieces:
    """A shipped model: ours beside our loop without a cache, and beside all who are installed."""

    def one(only: list[str]) -> dict[str, Any]:
        peak = Peak(day.clock, day.half, day.small)
        sizes = (4, 2, 1) if day.small else (512, 32, 3)
        name = "multi30k-en-de"
        tables = dict(decoding.measured(name, name, *sizes, only, day.clock, peak))
        return {"tables": tables, "peak": peak.data(), "peers": versions()}

    alone, all_of_them = ["without a cache"], [""]
    return {
        "beside no peer": functools.partial(one, alone),
        "beside peers": functools.partial(one, all_of_them),
    }


def long_inputs(day: Day, done: Done) -> Pieces:
    """Attention in half precision, to 32,768 positions."""
    warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
    left_out: dict[str, str] = {}
    for piece in done.values():
        left_out |= piece.get("left out", {})

    def one(length: int) -> dict[str, Any]:
        torch.manual_seed(0)
        window, rounds = (16, 1) if day.small else (256, 5)
        kind = (length, window, 4, rounds, day.clock, day.half, left_out, 2.0)
        rows = [row for some in attention.at_length(*kind) for row in some]
        return {"rows": rows, "dtype": str(day.half), "window": window, "left out": dict(left_out)}

    lengths = [64, 128] if day.small else [2**n for n in range(9, 16)]
    return {f"{length} positions": functools.partial(one, length) for length in lengths}


def gpt(day: Day, done: Done) -> Pieces:
    """Chapter 16's GPT as its recipe has it, then eight minutes with more windows in an update."""
    minutes, minute = (2, 2.0) if day.small else (8, 60.0)

    @functools.cache
    def texts() -> tuple[torch.Tensor, torch.Tensor]:
        some, asked = (60, 600) if day.small else (None, language.SOME)
        articles = load_wikitext2("train")[:some]
        tokenizer = language.make_tokenizer(articles)
        valid = "\n".join(load_wikitext2("valid")[:some])
        train, valid = (encode_text(tokenizer, t) for t in ("\n".join(articles), valid))
        return torch.tensor(train, device=day.device), torch.tensor(
            valid[:asked], device=day.device
        )

    def begin(dropout: float) -> tuple[LanguageModel, torch.optim.AdamW]:
        torch.manual_seed(16)
        model = LanguageModel(replace(language.config("gpt"), dropout=dropout)).to(day.device)
        return model, language.make_optimizer(model)

    def row(model: LanguageModel, step: int, seconds: float, nats: Any, n: int) -> dict[str, float]:
        found, asked, _ = language.judged(model, texts()[1], language.half_of(day.device))
        return {
            "step": step,
            "seconds": round(seconds, 2),
            "train": round(float(nats) / n, 4),
            "valid": round(found / asked, 4),
        }

    def learn(model, optimizer, batches, step: int, part: float) -> tuple[torch.Tensor, int]:
        """One update; `part` of 1 is what is left of the cool-down, or more before it."""
        rate = language.RATE * max(0.0, min(1.0, step / language.WARMUP, part))
        generator = torch.Generator(day.device)  # of a BERT's masks
        return language.update(model, optimizer, next(batches), generator, rate)

    def recipe() -> dict[str, Any]:
        (model, optimizer), clock = begin(language.config("gpt").dropout), day.clock
        steps, every = (4, 2) if day.small else (language.STEPS, language.EVERY)
        batch, length, seconds, curve = language.BATCH["gpt"], language.LENGTH["gpt"], 0.0, []
        batches = language.epochs(texts()[0], batch, 16, length)
        for first in range(1, steps + 1, every):
            start, nats, count = clock(), 0.0, 0
            for step in range(first, first + every):
                part = (steps - step + 1) / (language.COOLDOWN * steps)
                found, n = learn(model, optimizer, batches, step, part)
                nats, count = nats + found, count + n
            seconds += clock() - start
            curve.append(row(model, step, seconds, nats, count))
            print(curve[-1], flush=True)
        return {"windows": batch, "tokens": len(texts()[0]), "curve": curve}

    def one(number: int) -> dict[str, Any]:
        file, batch = day.folder / f"gpt-{day.code}.pt", 16
        model, optimizer = begin(0.2)
        step = 0
        if number > 1:
            state = torch.load(file, map_location=day.device, weights_only=True)
            model.load_state_dict(state["model"]), optimizer.load_state_dict(state["optimizer"])
            step = state["step"]
        batches = language.epochs(texts()[0], batch, number, language.LENGTH["gpt"])
        nats, count, clock = 0.0, 0, Clock(day.device)
        start = clock()
        while (spent := clock() - start) < minute:
            part = (1 - (number - 1 + spent / minute) / minutes) / language.COOLDOWN
            for _ in range(1 if day.small else 20):
                step += 1
                found, n = learn(model, optimizer, batches, step, part)
                nats, count = nats + found, count + n
        found = row(model, step, (number - 1) * minute + spent, nats, count)
        day.folder.mkdir(parents=True, exist_ok=True)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, file)
        return {"windows": batch, "dropout": 0.2, **found}

    longer = {f"minute {n}": functools.partial(one, n) for n in range(1, minutes + 1)}
    return {"recipe": recipe, **longer}
