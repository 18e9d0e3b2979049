"""How the benchmarks measure: data, clock, matrix-multiply peak, interleaved runs, tables."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from statistics import median

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from tqdm import tqdm

from allyouneed.data import load_pairs
from allyouneed.scaling import pair_flops
from allyouneed.tokens import PAD, Batch, Tokenizer, token_batches
from allyouneed.transformer import TransformerConfig

SIZES = {
    "tiny": TransformerConfig(8_000, d_model=256, d_ff=1024, n_heads=4, n_layers=3),
    "base": TransformerConfig(8_000, d_model=512, d_ff=2048, n_heads=8, n_layers=6),
    "big": TransformerConfig(8_000, d_model=1024, d_ff=4096, n_heads=16, n_layers=6),
}


def real_batches(data: str, vocab_size: int, max_tokens: int, number: int) -> list[Batch]:
    """Batches of real lengths, evenly spread over the first epoch of `data`'s training pairs."""
    print(f"Cutting the pairs of {data} into batches ...", file=sys.stderr, flush=True)
    pairs = load_pairs(data)
    tokenizer = Tokenizer.train((sentence for pair in pairs for sentence in pair), vocab_size)
    ids = [(tokenizer.encode(src), tokenizer.encode(tgt)) for src, tgt in pairs]
    batches = list(token_batches(ids, max_tokens))
    return [batches[i * len(batches) // number] for i in range(min(number, len(batches)))]


def target_tokens(batch: Batch) -> int:
    """The labels of a batch that are not padding: what a step learns to predict."""
    return int((batch.tgt[:, 1:] != PAD).sum())


def flops(config: TransformerConfig, batch: Batch) -> float:
    """The multiplications and additions of a training step: three times those of a forward pass.

    Counted for tokens, not for padding: filling a batch with padding earns nothing.
    """
    lengths = zip(
        (batch.src != PAD).sum(1).tolist(), (batch.tgt[:, 1:] != PAD).sum(1).tolist(), strict=True
    )
    return float(3 * sum(sum(pair_flops(config, *pair).values()) for pair in lengths))


class Clock:
    """Seconds of work: of the process's own time on one CPU thread, of the wall otherwise.

    On a machine that is shared, the process's own time is the steadier one by far.
    """

    def __init__(self, device: torch.device):
        self.device = device
        self.own = device.type == "cpu" and torch.get_num_threads() == 1
        self.name = "process time, one thread" if self.own else "wall time"

    def __call__(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.process_time() if self.own else time.perf_counter()

    def time(self, work: Callable[[], object]) -> float:
        start = self()
        work()
        return self() - start


class Peak:
    """The fastest that this device multiplies matrices, measured again and again in a run; with
    `small` ones, to try a script where half precision takes hundreds of times as long."""

    def __init__(self, clock: Clock, half: torch.dtype = torch.bfloat16, small: bool = False):
        gpu = clock.device.type == "cuda"
        rows, inner, columns = (8192, 8192, 8192) if gpu else (2048, 1024, 2048)
        if small:
            rows, inner, columns = 128, 64, 128
        self.flops, self.clock, self.repeat = 2 * rows * inner * columns, clock, 20 if gpu else 4
        self.pairs = {
            dtype: (
                torch.randn(rows, inner, device=clock.device).to(dtype),
                torch.randn(inner, columns, device=clock.device).to(dtype),
            )
            for dtype in (torch.float32, half)
        }
        self.seen: dict[torch.dtype, list[float]] = {dtype: [] for dtype in self.pairs}
        self.measure(), self.forget()  # the first one warms up

    def forget(self) -> None:
        for seen in self.seen.values():
            seen.clear()

    def measure(self) -> None:
        for dtype, (a, b) in self.pairs.items():
            seconds = self.clock.time(lambda a=a, b=b: [a @ b for _ in range(self.repeat)])
            self.seen[dtype].append(self.repeat * self.flops / seconds)

    def __getitem__(self, dtype: torch.dtype) -> float:
        """Multiplications and additions per second: the median of all measurements."""
        return median(self.seen[dtype])

    def data(self) -> dict[str, float | str]:
        """The peaks in GFLOP/s, by type, and a line that tells them."""
        peaks = {str(d).removeprefix("torch."): self[d] / 1e9 for d in self.pairs}
        told = ", ".join(f"{name} {peak:,.0f} GFLOP/s" for name, peak in peaks.items())
        return {**peaks, "line": f"matrix-multiply peak of this run: {told}"}


def profiled(work: Callable[[], object], device: torch.device) -> profile:
    """What PyTorch's profiler saw of a piece of work, to its end on the device."""
    kinds = [ProfilerActivity.CPU, *[ProfilerActivity.CUDA] * (device.type == "cuda")]
    with profile(activities=kinds) as watched:
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    return watched


def launches_and_waits(watched: profile) -> dict[str, int]:
    """How often the host launched work on a GPU, and how often it waited for it."""
    names = Counter(event.name for event in watched.events())
    kinds = {
        "launches": ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch"),
        "waits": ("cudaStreamSynchronize", "cudaEventSynchronize"),
        "copies to the host": ("Memcpy DtoH",),
    }
    return {
        what: sum(n for name, n in names.items() if name.startswith(starts))
        for what, starts in kinds.items()
    }


def rotated(names: Sequence[str], start: int) -> list[str]:
    """The same names in the same circle, beginning elsewhere: no one always goes first."""
    start %= len(names)
    return [*names[start:], *names[:start]]


def interleave(
    work: dict[str, Callable[[int], object]], items: int, rounds: int, clock: Clock, peak: Peak
) -> dict[str, list[float]]:
    """Seconds of every worker on every item, in every round: {name: [seconds, ...]}, in step.

    Item by item all workers take their turn, in an order that rotates; so the k-th entries of
    all lists are of the same item at nearly the same time, and their ratios can be paired. A
    first round over all items warms up and is not counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in work}
    turns = [(r, item) for r in range(-1, rounds) for item in range(items)]
    pace = 0.2 if sys.stderr.isatty() else 30.0
    # with `miniters` the bar is drawn between two measurements alone, by no thread of its own
    with tqdm(total=len(turns) * len(work), unit="turn", miniters=1, mininterval=pace) as bar:
        for turn, (r, item) in enumerate(turns):
            for name in rotated(list(work), turn):
                s = clock.time(lambda name=name, item=item: work[name](item))
                if r >= 0:
                    seconds[name].append(s)
                bar.update()
            if r >= 0:
                peak.measure()
    return seconds


def ratio(slow: list[float], fast: list[float]) -> float:
    """How many times as fast: the median of the paired ratios."""
    return median(s / f for s, f in zip(slow, fast, strict=True))


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Lines of a Markdown table; numbers to the right."""
    cells = [list(map(str, head)), *(list(map(str, row)) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for n, row in enumerate(cells):
        first, *rest = (
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        yield "| " + " | ".join([first, *rest]) + " |"
        if n == 0:
            yield (
                "|"
                + "|".join(("-" * (w + 1) + (":" if i else "-")) for i, w in enumerate(widths))
                + "|"
            )


def to(batch: Batch, device: torch.device) -> Batch:
    """The batch on another device."""
    return Batch(batch.src.to(device), batch.tgt.to(device))


def smoothed_loss(logits: Tensor, labels: Tensor, smoothing: float = 0.1) -> Tensor:
    """The peers' loss: PyTorch's own cross-entropy, in float32, summed over tokens."""
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1).float(),
        labels.flatten(),
        ignore_index=PAD,
        label_smoothing=smoothing,
        reduction="sum",
    )


def versions() -> dict[str, str]:
    """The versions of the peers that are installed."""
    found = {}
    for name in ("joeynmt", "transformers", "x-transformers", "ctranslate2"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            pass
    return found
