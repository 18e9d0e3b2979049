"""All that waits for a GPU, in order of worth: `python benchmarks/gpu.py`; see README.md.

Each part leaves its file src/allyouneed/results/gpu_<part>.json after each of its pieces, and goes
on from there: what was done by this code on this GPU is left out.
"""

from __future__ import annotations

import argparse
import functools
import gc
import hashlib
import json
import math
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from allyouneed import results
from allyouneed.data import SPLITS, load_pairs, load_treebank, load_wikitext2
from allyouneed.decoding import translate
from allyouneed.evaluation import bleu
from allyouneed.saving import load_model

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "experiments")]
import gpu_parts  # noqa: E402
import record  # noqa: E402
from gpu_parts import Day, Done, Pieces  # noqa: E402

FIRST = ("12", "14", "17", "16", "18", "03", "13", "15", "10", "02")  # the others follow
GOAL = 39.0  # BLEU on validation


class TimeIsUpError(BaseException):
    """Raised by the alarm in the middle of a piece; no `except Exception` keeps it."""


@contextmanager
def stopping_at(until: float) -> Iterator[None]:
    """Work that ends at that time, by the clock of `time.monotonic`, done or not.

    Windows has no alarm: there the piece at work is finished, and no other begun.
    """

    def alarm(*_: Any) -> None:
        raise TimeIsUpError

    if until == math.inf or not hasattr(signal, "SIGALRM"):
        yield
        return
    signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, max(1e-3, until - time.monotonic()))
    try:
        yield
    except TimeIsUpError:
        print("the time is used up; the same command goes on from here", flush=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def notebooks(day: Day, done: Done) -> Pieces:
    """The tests that need a GPU, and every notebook from top to bottom."""

    def tests() -> dict[str, Any]:
        where = "tests/test_decoding.py" if day.small else "tests"
        words = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", where]
        ran = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8")
        lines = ran.stdout.strip().splitlines() or [""]
        bad = [line for line in lines if line.startswith(("FAILED", "ERROR"))] or lines[-1:]
        return {"said": lines[-1]} | (
            {"failed": [last_line(line) for line in bad[:20]]} if ran.returncode else {}
        )

    files = {file.name[:2]: file for file in sorted((ROOT / "notebooks").glob("*.ipynb"))}
    order = ["05"] if day.small else [*FIRST, *(n for n in files if n not in FIRST)]
    each = {files[n].stem: functools.partial(run_notebook, files[n], day.folder) for n in order}
    return {"tests": tests, **each}


def run_notebook(file: Path, folder: Path, timeout: int = 600) -> dict[str, Any]:
    """Execute a notebook in a kernel of its own, and keep what it gave in `folder`.

    It works in an empty folder: a run that it left earlier it would go on with, in less time.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(file, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in cells:
        cell.outputs, cell.execution_count = [], None
    found, start = {}, time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as empty:
            kind = {"kernel_name": "python3", "resources": {"metadata": {"path": empty}}}
            NotebookClient(notebook, timeout=timeout, **kind).execute()
    except Exception as error:
        line = getattr(error, "ename", type(error).__name__), getattr(error, "evalue", str(error))
        reached = [cell.id for cell in cells if cell.execution_count is not None]
        found["failed"] = {"cell": [None, *reached][-1], "error": last_line(": ".join(line))}
    found["seconds"] = round(time.monotonic() - start, 1)
    times = {}
    for cell in cells:
        marks = cell.metadata.get("execution", {})
        if {"iopub.execute_input", "shell.execute_reply"} <= marks.keys():
            ends = ("iopub.execute_input", "shell.execute_reply")
            began, ended = (datetime.fromisoformat(marks[end]) for end in ends)
            times[cell.id] = round((ended - began).total_seconds(), 1)
            text = "".join(o.text for o in cell.outputs if o.get("name") == "stdout")
            if "results.on_a_gpu(" in cell.source and results.LEFT_OUT not in text:
                found["said"] = {
                    "seconds": times[cell.id],
                    "text": record.without_places(text.strip()),
                }
    found["slowest cells"] = dict(sorted(times.items(), key=lambda pair: -pair[1])[:3])
    (folder / "notebooks").mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, folder / "notebooks" / file.name)
    return found


def trained(day: Day, done: Done) -> Pieces:
    """The captions with three seeds and everyday sentences, from raw text to BLEU on test."""
    captions = {
        f"captions, seed {seed}": functools.partial(train_one, day, "multi30k-en-de", seed)
        for seed in range(3)
    }
    return {**captions, "everyday, seed 0": functools.partial(train_one, day, "tatoeba-en-fr", 0)}


def train_one(day: Day, data: str, seed: int) -> dict[str, Any]:
    """One run of the command, or the rest of it; seconds are those on the wall, validation and
    all, and BLEU is that of the beam and the penalty that the book chose."""
    choice = results.load(data.split("-")[0])["data"]["choice"]
    folder = day.folder / f"{data}-{seed}-{day.code}"
    folder.mkdir(parents=True, exist_ok=True)
    out, file, given = folder / "run", folder / "seconds.json", ["--data", data]
    pairs = {split: load_pairs(data, split)[: 8 if day.small else None] for split in SPLITS[data]}
    if day.small:
        few = "\n".join(map("\t".join, pairs["train"] * 40))
        (folder / "few.tsv").write_text(few, encoding="utf-8")
        given = ["--data", str(folder / "few.tsv"), "--preset", "tiny", "--vocabulary", "300"]
    kept = {"rows": [], "spent": 0.0, "ended": False, "starts": 0}
    kept |= json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    kept["ended"] |= (out / "curves.svg").exists()  # the last that a run writes
    words = [sys.executable, "-um", "allyouneed", "train", *given, "--seed", str(seed)]
    words += ["--out", str(out), "--resume"]
    start, before = time.monotonic(), kept["spent"]
    kept["starts"] += not kept["ended"]

    def note() -> None:
        kept["spent"] = round(before + time.monotonic() - start, 2)
        file.write_text(json.dumps(kept), encoding="utf-8")

    if not kept["ended"]:
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8") as run:
            try:
                for line in run.stdout:
                    print(line, end="", flush=True)
                    history = out / "history.json"
                    if not history.exists():
                        continue
                    rows = json.loads(history.read_text(encoding="utf-8"))["rows"]
                    if new := rows[len(kept["rows"]) :]:
                        note()
                        kept["rows"] += [row | {"seconds": kept["spent"]} for row in new]
            except TimeIsUpError:
                run.terminate()  # it writes a checkpoint, with which the next call begins
                note()
                raise
        if run.returncode:
            raise RuntimeError(f"training ended with code {run.returncode}")
        kept["ended"] = True
        note()
    model, tokenizer = load_model(out / "model.safetensors", day.device)
    scores = {}
    for split in ("valid", "test"):
        sources, targets = zip(*pairs[split], strict=True)
        found = translate(model, tokenizer, sources, choice["beam"], choice["length penalty"])
        scores[split] = round(bleu(found, targets), 2)
    goal = next((row["seconds"] for row in kept["rows"] if row["BLEU"] >= GOAL), None)
    return {
        "seconds": kept["spent"],
        f"seconds to {GOAL} on validation": goal if data.startswith("multi30k") else None,
        "BLEU": scores,
        "beam": choice["beam"],
        "length penalty": choice["length penalty"],
        "starts": kept["starts"],
        "rows": kept["rows"],
    }


def trained_in_short(done: Done) -> dict[str, Any]:
    """What chapter 14 reads: means over the seeds."""
    short = {}
    for kind in ("captions", "everyday"):
        runs = [run for name, run in done.items() if name.startswith(kind) and "failed" not in run]
        if runs:
            score, seconds = (
                fmean(run["BLEU"]["test"] for run in runs),
                [r["seconds"] for r in runs],
            )
            short[kind] = {"seconds": fmean(seconds), "BLEU": score, "seeds": len(runs)}
    return {"trained": short}


def last_line(text: str) -> str:
    """The last line of an error, without places of one machine."""
    return record.without_places((text.strip().splitlines() or [""])[-1])[:300]


PARTS: dict[str, Callable[[Day, Done], Pieces]] = {
    "notebooks": notebooks,
    "training": gpu_parts.speed,
    "trained": trained,
    "paper": gpu_parts.paper,
    "decoding": gpu_parts.decoding_speed,
    "attention": gpu_parts.long_inputs,
    "language": gpu_parts.gpt,
}
SHORT: dict[str, Callable[[Done], dict[str, Any]]] = {"trained": trained_in_short}


def code_of(part: str) -> str:
    """A hash of the code that a part runs: records that are committed do not change it."""
    folders = ["src", "benchmarks", "experiments"] + ["notebooks", "tests"] * (part == "notebooks")
    found = hashlib.sha256()
    for file in sorted(f for name in folders for f in (ROOT / name).rglob("*.*")):
        if file.suffix in (".py", ".ipynb") and ".ipynb_checkpoints" not in file.parts:
            found.update(file.relative_to(ROOT).as_posix().encode() + file.read_bytes())
    return found.hexdigest()[:12]


def work_on(part: str, day: Day, until: float, keep: bool) -> int:
    """Do what is not done yet of a part, while there is time; how many pieces failed."""
    gpu = torch.cuda.get_device_name() if day.device.type == "cuda" else None
    file, done, failed = record.FOLDER / f"gpu_{part}.json", {}, 0
    if file.exists():
        body = json.loads(file.read_text(encoding="utf-8"))
        pieces = body["data"]["pieces"] if body["machine"]["gpu"] == gpu else {}
        done = {n: p for n, p in pieces.items() if keep or p["code"] == day.code}
    for name, work in PARTS[part](day, done).items():
        if "failed" not in done.get(name, {"failed": ""}):
            print(f"{part}, {name}: done already", flush=True)
            continue
        if time.monotonic() > until:
            print(f"{part}: the time is used up before {name!r}", flush=True)
            break
        print(f"{part}, {name} ...", flush=True)
        start = time.monotonic()
        try:
            found = work()
        except Exception as error:
            traceback.print_exc()
            found = {"failed": last_line(f"{type(error).__name__}: {error}")}
        failed += "failed" in found
        if "failed" in found:
            print(f"{part}, {name}: failed: {found['failed']}", flush=True)
        else:
            print(json.dumps(found, ensure_ascii=False)[:600], flush=True)
        whole = round(time.monotonic() - start, 1)
        done[name] = {"code": day.code, "seconds of the piece": whole, **found}
        short = SHORT[part](done) if part in SHORT else {}
        record.record(file.stem, {**short, "small": day.small, "pieces": done})
        gc.collect()
        torch.cuda.empty_cache()  # nothing, where there is no GPU
    return failed


def fetch() -> None:
    """Get all texts into the cache, on a machine that has a network."""
    for name, splits in SPLITS.items():
        for split in splits:
            load_pairs(name, split)
    for split in ("train", "valid", "test"):
        load_wikitext2(split)
        load_treebank(split)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = options.add_argument
    add("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all, if none is named")
    add("--minutes", type=float, default=math.inf, help="stop after so many")
    add("--keep", action="store_true", help="what other code has done well counts as done")
    add("--smoke", action="store_true", help="all in small on a CPU, into a temporary folder")
    add("--fetch", action="store_true", help="only get the texts, for a machine without a network")
    wanted = options.parse_args()
    if unknown := set(wanted.parts) - set(PARTS):
        options.error(f"part: expected {', '.join(PARTS)}; got {', '.join(sorted(unknown))}")
    if wanted.fetch:
        fetch()
        return 0
    if not wanted.smoke and not torch.cuda.is_available():
        why = "this PyTorch finds none" if torch.version.cuda else "this PyTorch is for CPUs only"
        print(f"error: a GPU is needed, and {why}; --smoke tries all on a CPU", file=sys.stderr)
        return 2
    until = time.monotonic() + 60 * wanted.minutes
    parts = wanted.parts or list(PARTS)
    if len(parts) > 1:  # each in a process of its own: what breaks a GPU's state breaks one part
        flags = ["--keep"] * wanted.keep + ["--smoke"] * wanted.smoke
        codes = []
        for part in parts:
            left = (until - time.monotonic()) / 60
            if left < 0:
                print(f"{part}: the time is used up")
                continue
            limit = [] if left == math.inf else ["--minutes", f"{left:.2f}"]
            words = [sys.executable, __file__, part, *limit, *flags]
            codes.append(subprocess.run(words, cwd=ROOT).returncode)
        return max(codes, key=abs, default=0)
    if not wanted.smoke:
        day = Day(False, torch.device("cuda"), ROOT / "runs" / "gpu", code_of(parts[0]))
        with stopping_at(until):
            return int(work_on(parts[0], day, until, wanted.keep) > 0)
        return 0
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, stopping_at(until):
        record.FOLDER = Path(folder)
        code = code_of(parts[0])
        day = Day(True, torch.device("cpu"), Path(folder) / "runs", code, 1, "eager")
        return int(work_on(parts[0], day, until, wanted.keep) > 0)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
