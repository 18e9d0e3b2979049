"""The command line: train a Transformer, translate with it, and say how good it is.

This module is plumbing written by hand. `python -m allyouneed --help` says how it is used. What
goes wrong ends in one line and exit code 2; a run that is asked to stop ends in 130.
"""

from __future__ import annotations

import argparse
import datetime
import errno
import hashlib
import json
import math
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tokenizers
import torch
from filelock import FileLock, Timeout
from torch import Tensor, distributed
from tqdm import tqdm

from allyouneed import weights
from allyouneed.checkpoints import (
    Checkpoint,
    checkpoint_files,
    checkpoint_path,
    forget_checkpoints,
    load_checkpoint,
    newest_checkpoint,
    save_checkpoint,
)
from allyouneed.data import SPLITS, DataError, Pairs, load_pairs
from allyouneed.decoding import sample, translate
from allyouneed.evaluation import bleu, scores
from allyouneed.saving import ModelFileError, load_model, pretrained, save_model, write_file
from allyouneed.subwords import BPEDropout
from allyouneed.tokens import BOS, EOS, Batch, Tokenizer, pad, token_batches
from allyouneed.training import Record, adam, average, learning_rate, train, validation_loss
from allyouneed.transformer import Transformer, TransformerConfig

# Named settings. Options come before them. Without a learning rate it is the paper's.
SMALL = dict(d_model=256, d_ff=512, heads=4, layers=3, vocabulary=4000, dropout=0.3,
             norm_first=True, batch_tokens=2048, learning_rate=2e-3, warmup=400, epochs=30,
             average=8)  # fmt: skip
PAPER = dict(layers=6, vocabulary=37_000, batch_tokens=25_000, warmup=4000, validate_every=2000)
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": SMALL | dict(d_model=64, d_ff=128, layers=2, vocabulary=1000, dropout=0.1, epochs=3),
    "multi30k": SMALL,
    "tatoeba": SMALL | dict(dropout=0.1, warmup=1000, epochs=10, average=5),
    "base": PAPER | dict(d_model=512, d_ff=2048, heads=8, dropout=0.1, steps=100_000, average=5),
    "big": PAPER | dict(d_model=1024, d_ff=4096, heads=16, dropout=0.3, steps=300_000, average=20),
}
USUAL = dict(learning_rate=None, smoothing=0.1, bpe_dropout=0.0, accumulate=1, max_norm=math.inf,
             seed=0, norm_first=False, precision="auto", compile=False, steps=None, epochs=None,
             validate_every=None, keep=2)  # fmt: skip
OWN = {"multi30k-en-de": "multi30k", "tatoeba-en-fr": "tatoeba"}  # the preset of a set of pairs
MAY_CHANGE = {"steps", "epochs", "validate_every", "average", "keep", "compile"}  # on resuming
PAUSE = 600  # seconds after which a run writes a checkpoint of its own accord


# Training


def train_command(args: argparse.Namespace) -> int:
    """Train to the end, or until asked to stop; all that a run leaves is in its folder."""
    rank, world, device = place()
    say = tqdm.write if rank == 0 else lambda text: None
    if args.threads:
        torch.set_num_threads(args.threads)
    out = Path(args.out)
    lock = take(out) if rank == 0 else None  # held until this function ends
    file, begun = find_run(out, args.resume, say)
    settings = settings_of(vars(args), begun, world)
    pairs, valid = training_pairs(settings["data"], say)
    run = begun.run if begun else {"history": {"rows": [], "losses": [], "seconds": 0.0}}
    data = {"name": settings["data"], "pairs": len(pairs), "sha256": fingerprint(pairs, valid)}
    if run.setdefault("data", data) != data:
        raise ValueError(f"--data: the pairs of {data['name']} are not those this run began with")
    run |= {"settings": settings, "starts": [*run.get("starts", []), circumstances()]}
    tokenizer = begun.tokenizer if begun else learn_tokenizer(pairs, settings["vocabulary"])
    check_tokenizer(out / "tokenizer.json", tokenizer, begun)

    torch.manual_seed(settings["seed"])
    sizes = [settings[name] for name in ("d_model", "d_ff", "heads", "layers", "dropout")]
    config = TransformerConfig(len(tokenizer), *sizes, settings["norm_first"])
    model, averaged = Transformer(config).to(device), Transformer(config).to(device)
    optimizer, record = adam(model), Record()
    states: deque[dict[str, Tensor]] = deque(maxlen=settings["average"])
    if begun:
        model.load_state_dict(begun.model)
        optimizer.load_state_dict(begun.optimizer)
        record = begun.record
        states += earlier_states(out, record.step, settings["average"], say)
    if settings["compile"]:
        model.encoder.compile(dynamic=True)
        model.decoder.compile(dynamic=True)
    dtype = torch.bfloat16 if use_bf16(settings["precision"], device) else torch.float32

    longest = len(model.positions.table)
    pairs, batches = prepare(pairs, tokenizer, settings, longest, "training", say)
    valid, valid_batches = prepare(valid, tokenizer, settings, longest, "validation", say)
    per_epoch = math.ceil(sum(1 for _ in batches(0)) / (world * settings["accumulate"]))
    steps = settings["steps"] or settings["epochs"] * per_epoch
    every = settings["validate_every"] or per_epoch
    history = run["history"]

    def save(kind: str) -> None:
        path = checkpoint_path(out / "checkpoints", kind, record.step)
        save_checkpoint(path, model, optimizer, record, tokenizer, run)
        forget_checkpoints(path, max(2, settings["keep"], settings["average"]))

    def validate() -> None:
        """Add a row to the history: how good is the average of the last checkpoints?"""
        averaged.load_state_dict(average(list(states)))
        rows, losses = history["rows"], history["losses"]
        recent = losses[rows[-1]["step"] if rows else 0 :]
        written = translate(averaged, tokenizer, [source for source, _ in valid], beam=1)
        row = {
            "epoch": round(record.step / per_epoch, 2),
            "step": record.step,
            "train loss": round(sum(recent) / len(recent), 4),
            "valid loss": round(validation_loss(averaged, valid_batches(0), dtype), 4),
            "BLEU": round(bleu(written, [target for _, target in valid]), 2),
            "minutes": round(history["seconds"] / 60, 2),
        }
        rows.append(row)
        if row is best(rows):
            save_model(out / "model.safetensors", averaged, tokenizer, {**row, **settings})
        write_json(out / "history.json", history)
        say(table([row], header=len(rows) == 1))

    say(
        f"{len(pairs):,} pairs, {len(tokenizer):,} tokens, "
        f"{sum(p.numel() for p in model.parameters()):,} parameters; {steps:,} steps, {per_epoch:,} "
        f"an epoch; {str(dtype).removeprefix('torch.')} on {device}"
    )
    if rank == 0:
        if not begun:
            save("pause")
        write_json(out / "run.json", {k: v for k, v in run.items() if k != "history"})
    try:
        if rank == 0 and file and file.stem.startswith("step"):
            validate()  # what may have been cut off
        updates = train(
            model, batches, steps, optimizer, schedule_of(settings), settings["smoothing"], dtype,
            settings["accumulate"], settings["max_norm"], settings["seed"], record,
        )  # fmt: skip
        with stoppable() as stop, progress(record.step, steps, rank) as bar:
            clock = saved = began = time.monotonic()
            tokens = 0
            for record in updates:
                now = time.monotonic()
                history["seconds"] += now - clock
                history["losses"].append(round(record.loss, 4))
                tokens += record.tokens
                bar.set_postfix_str(
                    f"loss {record.loss:.3f}, rate {record.learning_rate:.1e}, "
                    f"{tokens / (now - began):,.0f} tokens/s", refresh=False,
                )  # fmt: skip
                bar.update()
                asked = in_any_process(stop["asked"], device)
                due = record.step % every == 0 or record.step == steps
                if due and rank == 0:
                    states.append(
                        {k: x.to("cpu", copy=True) for k, x in model.state_dict().items()}
                    )
                if rank == 0 and (due or asked or now - saved > PAUSE):
                    save("step" if due else "pause")
                    saved = time.monotonic()
                if asked:
                    raise KeyboardInterrupt
                if due and rank == 0:
                    stop["now"] = True  # all is on the disk
                    validate()
                    stop["now"] = False
                    tokens, began = 0, time.monotonic()
                clock = time.monotonic()
    except KeyboardInterrupt:
        say(f"Stopped after step {record.step:,}. To go on: train --resume --out {out}")
        return 130
    if rank == 0 and history["rows"]:
        report(out, history)
    if distributed.is_initialized():
        distributed.destroy_process_group()
    if lock:
        lock.release()
    return 0


def place() -> tuple[int, int, torch.device]:
    """Which process this is, of how many, and what it computes on; alone outside of torchrun."""
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    if world > 1:
        patience = datetime.timedelta(hours=2)  # the others wait while the first one validates
        distributed.init_process_group(
            "nccl" if device.type == "cuda" else "gloo", timeout=patience
        )
    return rank, world, device


def take(out: Path) -> FileLock:
    """Make the folder of a run, and keep other runs out of it; what a killed one left half goes."""
    (out / "checkpoints").mkdir(parents=True, exist_ok=True)
    lock = FileLock(out / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(f"--out: another run is at work in {out}") from None
    for part in [*out.glob("*.part"), *out.glob("checkpoints/*.part")]:
        part.unlink()
    return lock


def find_run(
    out: Path, resume: bool, say: Callable[[str], None]
) -> tuple[Path | None, Checkpoint | None]:
    """The newest whole checkpoint of a folder, named; nothing for a run that begins."""
    file, begun, troubles = newest_checkpoint(out / "checkpoints")
    if not resume and (file or troubles or (out / "model.safetensors").exists()):
        raise ValueError(f"--out: {out} holds a run; go on with --resume or name another folder")
    for trouble in troubles:
        say(f"Passed over: {trouble}")
    if troubles and not file:
        raise ValueError(f"--resume: no checkpoint in {out} is whole")
    if resume:
        say(f"Going on from {file}" if file else f"No checkpoint in {out} yet: from the beginning")
    if distributed.is_initialized():
        distributed.barrier()  # all have looked before the first one writes
    return file, begun


def settings_of(given: dict[str, Any], begun: Checkpoint | None, world: int) -> dict[str, Any]:
    """The settings of a run: options, before its preset, before what is usual.

    A run that goes on has those it began with. Raises ValueError if others are given.
    """
    names = {"data", *USUAL, *SMALL}
    given = {k: v for k, v in given.items() if k in {"preset", *names} and v is not None}
    if not begun and "data" not in given:
        raise ValueError("--data: expected a set of pairs or a file of pairs, got none")
    preset = given.pop("preset", None)
    if not begun and not preset:
        preset = OWN.get(given["data"], "multi30k")
    chosen = {**(USUAL | PRESETS[preset] if preset else {}), **given}
    if "steps" in given or "epochs" in given:  # one takes the place of the other
        chosen |= {"steps": given.get("steps"), "epochs": given.get("epochs")}
    if not begun:
        return chosen | {"processes": world}
    old = begun.run["settings"]
    for name, value in (chosen | {"processes": world}).items():
        if name not in MAY_CHANGE and value != old[name]:
            option = "--" + name.replace("_", "-")
            raise ValueError(f"{option}: this run began with {old[name]}, got {value}")
    return old | {k: v for k, v in chosen.items() if k in MAY_CHANGE}


def read_pairs(data: str, split: str) -> Pairs:
    """The pairs of a set, or of a file with a sentence, a tab and its translation in each line.

    Of a file, `split` may be "all"; "valid" are about 5 % of it, at most about 2,000 pairs,
    chosen by the source sentence, and "train" the others.
    """
    if data in SPLITS:
        return load_pairs(data, split)
    if not Path(data).is_file():
        known = ", ".join(SPLITS)
        raise ValueError(f"--data: expected {known} or a file of pairs, got {data!r}")
    try:
        lines = Path(data).read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{data}: expected text in UTF-8, got {error}") from None
    pairs = []
    for number, line in enumerate(lines, 1):
        source, _, rest = line.partition("\t")
        pair = tuple(" ".join(sentence.split()) for sentence in (source, rest.partition("\t")[0]))
        if all(pair):
            pairs.append(pair)
        elif line.strip():
            raise ValueError(
                f"{data}, line {number}: expected a sentence, a tab and its translation, "
                f"got {line[:60]!r}"
            )
    if not pairs:
        raise ValueError(f"{data}: expected at least one pair of sentences, got none")
    if split == "all":
        return pairs
    if split not in ("train", "valid"):
        raise ValueError(f"--split: expected train, valid or all of a file, got {split!r}")
    share = max(20, len(pairs) // 2000)
    held = [int(hashlib.sha256(s.encode()).hexdigest()[:8], 16) % share == 0 for s, _ in pairs]
    return [p for p, out in zip(pairs, held, strict=True) if out == (split == "valid")]


def training_pairs(data: str, say: Callable[[str], None]) -> tuple[Pairs, Pairs]:
    """The pairs to train on, and those to validate on."""
    pairs, valid = read_pairs(data, "train"), read_pairs(data, "valid")
    if not pairs or not valid:
        say(f"{data} is too small to hold pairs out: validating on those it is trained on")
        pairs = valid = read_pairs(data, "all")
    return pairs, valid


def prepare(
    pairs: Pairs, tokenizer: Tokenizer, settings: dict[str, Any], longest: int, what: str,
    say: Callable[[str], None],
) -> tuple[Pairs, Callable[[int], Iterator[Batch]]]:  # fmt: skip
    """The pairs that fit into a batch and the model, and the batches of each epoch of them."""
    limit = min(settings["batch_tokens"], longest)
    ids = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
    lengths = [max(len(source) + 1, len(target) + 2) for source, target in ids]
    fits = [i for i, length in enumerate(lengths) if length <= limit]
    if len(fits) < len(ids):
        i = next(i for i, length in enumerate(lengths) if length > limit)
        message = (
            f"{len(ids) - len(fits):,} of {len(ids):,} {what} pairs have more than {limit:,} "
            f"tokens (--batch-tokens), the first is pair {i + 1}: {pairs[i][0][:40]!r}"
        )
        if not fits:
            raise ValueError(message)
        say(f"Left out: {message}")
    ids, pairs = [ids[i] for i in fits], [pairs[i] for i in fits]
    size, seed = settings["batch_tokens"], settings["seed"]
    if what != "training" or not settings["bpe_dropout"]:
        return pairs, lambda epoch: token_batches(ids, size, seed, epoch)
    cutter = BPEDropout(tokenizer, settings["bpe_dropout"], seed)

    def batches(epoch: int) -> Iterator[Batch]:
        draws = random.Random(f"{seed}/{epoch}")
        cut = [tuple(cutter.encode(sentence, draws) for sentence in pair) for pair in pairs]
        fit = [
            new if max(map(len, new)) + 2 <= limit else old
            for new, old in zip(cut, ids, strict=True)
        ]
        return token_batches(fit, size, seed, epoch)

    return pairs, batches


def learn_tokenizer(pairs: Pairs, vocabulary: int) -> Tokenizer:
    """One vocabulary for both languages; inside torchrun, the first process's for all."""
    text = [""]
    if int(os.environ.get("RANK", 0)) == 0:
        try:
            text = [Tokenizer.train((s for p in pairs for s in p), vocabulary).bpe.to_str()]
        except ValueError as error:
            raise ValueError(f"--vocabulary: {error}") from None
    if distributed.is_initialized():
        distributed.broadcast_object_list(text)
    return Tokenizer(tokenizers.Tokenizer.from_str(text[0]))


def check_tokenizer(path: Path, tokenizer: Tokenizer, begun: Checkpoint | None) -> None:
    """Keep the tokenizer in the folder; raise ValueError if a run goes on and another is there."""
    if begun and path.exists():
        try:
            same = Tokenizer.load(path).bpe.to_str() == tokenizer.bpe.to_str()
        except Exception:  # tokenizers raises plain Exception
            same = False
        if not same:
            raise ValueError(
                f"{path} is not the tokenizer this run was trained with; put that one back, or "
                "remove the file: the checkpoint has it too"
            )
    elif int(os.environ.get("RANK", 0)) == 0:
        write_file(path, tokenizer.bpe.to_str(pretty=True).encode())


def earlier_states(
    out: Path, step: int, count: int, say: Callable[[str], None]
) -> list[dict[str, Tensor]]:
    """The weights of the last checkpoints up to a step, which are averaged."""
    last = checkpoint_path(out, "step", step).name
    states = []
    for file in [f for f in checkpoint_files(out / "checkpoints", "step") if f.name <= last][
        -count:
    ]:
        try:
            states.append(load_checkpoint(file).model)
        except ModelFileError as error:
            say(f"Left out of the average: {error}")
    return states


def use_bf16(precision: str, device: torch.device) -> bool:
    """Whether to compute in bf16: as asked, or where the machine has instructions for it."""
    if precision != "auto":
        return precision == "bf16"
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    info = Path("/proc/cpuinfo")
    flags = info.read_text() if info.exists() else ""
    return "avx512_bf16" in flags or "amx_bf16" in flags


def schedule_of(settings: dict[str, Any]) -> Callable[[int], float]:
    """The paper's schedule, equation (3), stretched to another peak if one is given."""
    d_model, warmup, peak = (settings[k] for k in ("d_model", "warmup", "learning_rate"))
    scale = peak / learning_rate(warmup, d_model, warmup) if peak else 1.0
    return lambda step: scale * learning_rate(step, d_model, warmup)


@contextmanager
def stoppable() -> Iterator[dict[str, bool]]:
    """Ctrl-C and SIGTERM only set "asked", for the loop to see, unless "now" is set."""
    stop = {"asked": False, "now": False}

    def ask(number: int, frame: Any) -> None:
        stop["asked"] = True
        if stop["now"]:
            raise KeyboardInterrupt

    usual = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def in_any_process(flag: bool, device: torch.device) -> bool:
    """Whether a flag is set in any of the processes."""
    if not distributed.is_initialized():
        return flag
    flags = torch.tensor(float(flag), device=device)
    distributed.all_reduce(flags)
    return bool(flags > 0)


def progress(step: int, steps: int, rank: int) -> tqdm:
    """The bar of a run; a log file gets a line every half minute."""
    pace = 0.2 if sys.stderr.isatty() else 30.0
    return tqdm(
        total=steps, initial=step, disable=rank > 0, mininterval=pace, maxinterval=2 * pace,
        unit="step", dynamic_ncols=True,
    )  # fmt: skip


def best(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The first of the rows with the highest BLEU; among equals, the lowest loss."""
    return max(rows, key=lambda row: (row["BLEU"], -row["valid loss"]))


def table(rows: list[dict[str, Any]], header: bool = True) -> str:
    """Rows of the history as lines of text."""
    lines = ["".join(f"{name:>12}" for name in rows[0])] if header else []
    for row in rows:
        lines.append(
            "".join(f"{x:>12,}" if isinstance(x, int) else f"{x:>12.2f}" for x in row.values())
        )
    return "\n".join(lines)


def report(out: Path, history: dict[str, Any]) -> None:
    """The table of a run that has ended, and its curves where matplotlib is installed."""
    row = best(history["rows"])
    print(table(history["rows"]))
    print(f"Best: BLEU {row['BLEU']} after step {row['step']:,}, in {out / 'model.safetensors'}")


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, whole or not at all."""
    write_file(path, json.dumps(value, indent=1, ensure_ascii=False).encode())


def fingerprint(*several: Pairs) -> str:
    """The sha256 of pairs."""
    digest = hashlib.sha256()
    for pairs in several:
        digest.update(json.dumps(pairs).encode())
    return digest.hexdigest()


def circumstances() -> dict[str, Any]:
    """What a run's numbers depend on: command, machine, versions, date, commit."""
    folder = str(Path(__file__).parent)
    git = [
        "git",
        "-C",
        folder,
        "describe",
        "--always",
        "--abbrev=12",
        "--dirty=-changed",
        "--exclude=*",
    ]
    info = Path("/proc/cpuinfo")
    names = [x for x in info.read_text().splitlines() if "model name" in x] if info.exists() else []
    tracked = subprocess.run(
        [*git[:3], "ls-files", "--error-unmatch", __file__], capture_output=True
    )
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    return {
        "command": " ".join(["python -m allyouneed", *sys.argv[1:]]),
        "machine": {
            "processor": names[0].split(":")[1].strip() if names else platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("allyouneed", "torch", "tokenizers", "sacrebleu")},
        },
        "date": datetime.date.today().isoformat(),
        "commit": None if tracked.returncode else commit,
    }


# The parser


def number(kind: type, low: float, high: float = math.inf) -> Callable[[str], float]:
    """A reader of numbers of a kind, from low up to but without high."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not low <= value or (value >= high and high < math.inf):
            whole = "a whole number" if kind is int else "a number"
            limit = f" and below {high:g}" if high < math.inf else ""
            raise argparse.ArgumentTypeError(
                f"expected {whole} of at least {low:g}{limit}, got {text!r}"
            )
        return value

    return read


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m allyouneed")
    commands = top.add_subparsers(required=True)
    t = commands.add_parser("train", allow_abbrev=False)
    t.set_defaults(run=train_command)
    t.add_argument("--data")
    t.add_argument("--preset", choices=PRESETS)
    t.add_argument("--out", required=True)
    t.add_argument("--resume", action="store_true")
    for name in ("d-model", "d-ff", "heads", "layers", "vocabulary", "batch-tokens", "warmup",
                 "accumulate", "steps", "epochs", "validate-every", "average", "keep", "threads"):  # fmt: skip
        t.add_argument(f"--{name}", type=number(int, 1))
    t.add_argument("--seed", type=number(int, 0))
    t.add_argument("--dropout", type=number(float, 0, 1))
    t.add_argument("--smoothing", type=number(float, 0, 1))
    t.add_argument("--bpe-dropout", type=number(float, 0, 1))
    t.add_argument("--learning-rate", type=number(float, 0))
    t.add_argument("--max-norm", type=number(float, 0))
    t.add_argument("--norm-first", action="store_true", default=None)
    t.add_argument("--compile", action="store_true", default=None)
    t.add_argument("--precision", choices=["auto", "bf16", "fp32"])
    return top


def main(words: list[str] | None = None) -> int:
    """Run one command, and say what went wrong in one line."""
    args = parser().parse_args(words)
    try:
        return args.run(args)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        message = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = (
                "the disk is full. What was written before is whole: free some space, and go on "
                "with --resume"
            )
    except (ValueError, TypeError, FloatingPointError, DataError) as error:
        message = str(error)
    if int(os.environ.get("RANK", 0)) == 0:
        print(f"error: {message}", file=sys.stderr)
    return 2
