"""How fast batches come from shards: `python benchmarks/loader.py`; see README.md."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from allyouneed.scaling import H100, pair_flops
from allyouneed.shards import LONGEST, SHARDS_FORMAT, ShardBatches, Shards
from allyouneed.tokens import EOS, Tokenizer, token_batches
from allyouneed.transformer import BASE, BIG

sys.path.append(str(Path(__file__).parents[1] / "experiments"))
from record import record  # noqa: E402

# Target tokens a second of one H100 on the paper's models, by chapter 19: 35 % of the data sheet's
# peak, sentences of 30 tokens. An assumption: no H100 has run this code.
NEEDS = {
    name: 0.35 * H100.flops * 10 / sum(pair_flops(config, 30, 30).values())
    for name, config in (("base", BASE), ("big", BIG))
}


def synthetic(folder: Path, pairs: int, rows: int = 500_000) -> Path:
    """A folder of shards of random ids, with lengths about as in WMT 2014: 29 tokens, up to 250."""
    draw = np.random.default_rng(0)
    folder.mkdir(parents=True)
    tokenizer = Tokenizer.train(["the quick brown fox jumps over the lazy dog"] * 2, 200)
    files, shards = {}, []

    def store(name: str, content: bytes) -> None:
        (folder / name).write_bytes(content)
        files[name] = [len(content), hashlib.sha256(content).hexdigest()]

    store("tokenizer.json", tokenizer.bpe.to_str().encode())
    store("valid.tsv", b"the dog\tthe fox\n")
    store("test.tsv", b"the fox\tthe dog\n")
    for number, first in enumerate(range(0, pairs, rows)):
        size = min(rows, pairs - first)
        lengths = draw.gamma(2.2, 13.0, (size, 1)) * draw.normal(1, 0.15, (size, 2))
        lengths = lengths.clip(1, LONGEST).astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(lengths.ravel())]).astype("<u4")
        tokens = draw.integers(EOS + 1, len(tokenizer), int(starts[-1]), np.uint16)
        store(f"train-{number:05}.tokens", tokens.astype("<u2").tobytes())
        store(f"train-{number:05}.starts", starts.tobytes())
        shards.append({"rows": size, "pairs": size})
    manifest = {"format": SHARDS_FORMAT, "set": "wmt14-en-de", "source": "random ids", "rule": "",
                "vocabulary": "", "rows": rows, "complete": True, "files": files,
                "shards": shards}  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def megabytes() -> float:
    """The most memory that this process has had."""
    import resource  # Windows has none, and can make the shards all the same

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(shards: Shards, size: int, number: int, world: int = 1) -> dict[str, float]:
    """Seconds of the process for the first `number` batches of an epoch, and what they hold.

    Each of `world` processes goes through all batches, and builds its own.
    """
    clock, before = time.process_time, megabytes()
    start = clock()
    batches = ShardBatches(shards, size, world=world)
    opened = clock()
    stream = batches(0)
    next(stream)
    begun, held = clock(), megabytes() - before  # later, pages of the files are counted too
    source = target = 0
    for batch in islice(stream, number):
        target += int(batch.tgt_mask[:, 1:].sum())
        source += int(batch.src_mask.sum())
    seconds = clock() - begun
    counting = clock()  # the sums above are the benchmark's own
    for _ in range(number):
        batch.tgt_mask[:, 1:].sum(), batch.src_mask.sum()
    seconds -= clock() - counting
    rate = target / (seconds + (begun - opened) * number / len(batches))
    return {
        "batch positions": size,
        "processes": world,
        "batches measured": number,
        "grouping, s": round(opened - start, 2),
        "beginning an epoch, s": round(begun - opened, 2),
        "batches of an epoch, s": round(seconds / number * len(batches), 1),
        "target tokens a second and process": round(rate / world),
        "padding": round(1 - (source + target) / (2 * size * number), 3) if world == 1 else None,
        "memory, MB": round(held),
    }  # fmt: skip


def plainly(shards: Shards, size: int, pairs: int) -> int:
    """Target tokens a second of `token_batches`, whose pairs are Python lists."""
    tokens, starts = shards.tokens[0], shards.starts[0].tolist()
    parts = [tokens[a:b].tolist() for a, b in zip(starts, starts[1 : 2 * pairs + 1], strict=False)]
    ids = list(zip(parts[::2], parts[1::2], strict=True))
    start = time.process_time()
    target = sum(int(batch.tgt_mask[:, 1:].sum()) for batch in token_batches(ids, size))
    return round(target / (time.process_time() - start))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--pairs", type=int, default=4_500_000, help="as many as German has")
    options.add_argument("--record", action="store_true", help="write the package's results")
    wanted = options.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shards"
        make = get_context("spawn").Process(target=synthetic, args=(path, wanted.pairs))
        make.start()  # what it needs is not counted as ours
        make.join()
        shards = Shards(path)
        rows = [measured(shards, 25_000, 400), measured(shards, 3_125, 3_000),
                measured(shards, 3_125, 3_000, world=8)]  # fmt: skip
        plain = plainly(shards, 3_125, 100_000)
        disk = sum(size for size, _ in shards.manifest["files"].values())
    for row in rows:
        print(
            "\n".join(f"{name:>28}  {value:,}" for name, value in row.items() if value is not None)
        )
        print()
    print(f"{plain:,} target tokens a second by token_batches, of lists")
    worst = min(row["target tokens a second and process"] for row in rows)
    print(", ".join(f"an H100 takes {need:,.0f} of {name}" for name, need in NEEDS.items()))
    print(f"one core loads at least {worst / max(NEEDS.values()):.1f} times as many")
    if wanted.record:
        data = {"pairs": wanted.pairs, "on disk, GB": round(disk / 1e9, 2), "rows": rows,
                "lists, target tokens a second": plain,
                "clock": "process time, one thread"}  # fmt: skip
        record("loader", data)


if __name__ == "__main__":
    main()
