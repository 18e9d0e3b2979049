"""The command line: train a Transformer, translate with it, and say how good it is.

This module is plumbing written by hand. `python -m allyouneed --help` says how it is used. What
goes wrong ends in one line and exit code 2; a run that is asked to stop ends in 130.
"""

from __future__ import annotations

import argparse
import datetime
import errno
import hashlib
import io
import itertools
import json
import math
import os
import platform
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor, distributed
from tqdm import tqdm

from allyouneed.checkpoints import (
    Checkpoint,
    checkpoint_path,
    claim,
    forget_checkpoints,
    last_models,
    newest_checkpoint,
    save_checkpoint,
    stoppable,
)
from allyouneed.data import SPLITS, DataError, Pairs, load_pairs
from allyouneed.decoding import beam_search, sample, translate
from allyouneed.evaluation import bleu, scores
from allyouneed.saving import load_model, pretrained, save_model, write_file
from allyouneed.subwords import BPEDropout
from allyouneed.tokens import BOS, EOS, Batch, Tokenizer, token_batches
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
    "tatoeba": SMALL | dict(dropout=0.1, warmup=1000, epochs=7, average=5),
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
    lock = claim(out) if rank == 0 else None  # held until this function ends
    file, begun = find_run(out, args.resume, say)
    settings = settings_of(vars(args), begun, world)
    pairs, valid = training_pairs(settings["data"], say)
    run = begun.run if begun else {"history": {"rows": [], "losses": [], "seconds": 0.0}}
    data = {"name": settings["data"], "pairs": len(pairs), "sha256": fingerprint(pairs, valid)}
    if run.setdefault("data", data) != data:
        raise ValueError(f"--data: the pairs of {data['name']} are not those this run began with")
    run |= {"settings": settings, "starts": [*run.get("starts", []), circumstances()]}
    tokenizer = begun.tokenizer if begun else learn_tokenizer(pairs, settings["vocabulary"])

    torch.manual_seed(settings["seed"])
    sizes = [settings[name] for name in ("d_model", "d_ff", "heads", "layers", "dropout")]
    config = TransformerConfig(len(tokenizer), *sizes, settings["norm_first"])
    model, averaged = Transformer(config).to(device), Transformer(config).to(device)
    optimizer, record = adam(model), begun.record if begun else Record()
    states: deque[dict[str, Tensor]] = deque(maxlen=settings["average"])
    if begun:
        check_tokenizer(out / "tokenizer.json", tokenizer)
        model.load_state_dict(begun.model)
        optimizer.load_state_dict(begun.optimizer)
        models, troubles = last_models(out / "checkpoints", record.step, settings["average"])
        states += models
        for trouble in troubles:
            say(f"Left out of the average: {trouble}")
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
    say(
        f"{len(pairs):,} pairs, {len(tokenizer):,} tokens, "
        f"{sum(p.numel() for p in model.parameters()):,} parameters; {steps:,} steps, "
        f"{per_epoch:,} an epoch; {str(dtype).removeprefix('torch.')} on {device}"
    )

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
            card = {name: row[name] for name in ("step", "valid loss", "BLEU")}
            save_model(out / "model.safetensors", averaged, tokenizer, card | settings)
        write_json(out / "history.json", history)
        say(table([row], header=len(rows) == 1))

    if rank == 0:
        write_json(out / "run.json", {k: v for k, v in run.items() if k != "history"})
        write_file(out / "tokenizer.json", tokenizer.bpe.to_str(pretty=True).encode())
        if not begun:
            save("pause")
    updates = train(
        model, batches, steps, optimizer, schedule_of(settings), settings["smoothing"], dtype,
        settings["accumulate"], settings["max_norm"], settings["seed"], record,
    )  # fmt: skip
    try:
        with stoppable() as stop, progress(record.step, steps, rank) as bar:
            if file and file.stem.startswith("step") and rank == 0:
                stop["now"] = True
                validate()  # it may have been cut off
                stop["now"] = False
            clock = saved = began = time.monotonic()
            tokens = 0
            for record in updates:
                now = time.monotonic()
                history["seconds"] += now - clock
                history["losses"].append(round(record.loss, 4))
                tokens += record.tokens
                bar.set_postfix_str(
                    f"loss {record.loss:.3f}, rate {record.learning_rate:.1e}, "
                    f"{tokens / (now - began):,.0f} tokens/s",
                    refresh=False,
                )
                bar.update()
                asked = in_any_process(stop["asked"], device)
                due = record.step % every == 0 or record.step == steps
                if rank == 0 and due:
                    state = model.state_dict()
                    states.append({name: x.to("cpu", copy=True) for name, x in state.items()})
                if rank == 0 and (due or asked or now - saved > PAUSE):
                    save("step" if due else "pause")
                    saved = time.monotonic()
                if asked:
                    raise KeyboardInterrupt
                if rank == 0 and due:
                    stop["now"] = True  # all is on the disk
                    validate()
                    stop["now"] = False
                    tokens, began = 0, time.monotonic()
                clock = time.monotonic()
    except KeyboardInterrupt:
        say(
            f"Stopped after step {record.step:,}; all is kept. To go on:\n"
            f"  python -m allyouneed train --resume --out {out}"
        )
        return 130
    if rank == 0:
        row = best(history["rows"])
        print(f"\n{table(history['rows'])}")
        print(f"Best: BLEU {row['BLEU']} after step {row['step']:,}, in {out}/model.safetensors")
        draw_curves(out / "curves.svg", history)
        lock.release()
    if distributed.is_initialized():
        distributed.destroy_process_group()
    return 0


def place() -> tuple[int, int, torch.device]:
    """Which process this is, of how many, and what it computes on; alone outside of torchrun."""
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    if world > 1:
        engine = "nccl" if device.type == "cuda" else "gloo"
        patience = datetime.timedelta(hours=2)  # the others wait while the first one validates
        distributed.init_process_group(engine, timeout=patience)
    return rank, world, device


def find_run(
    out: Path, resume: bool, say: Callable[[str], None]
) -> tuple[Path | None, Checkpoint | None]:
    """The newest whole checkpoint of a folder, and its file; nothing for a run that begins."""
    file, begun, troubles = newest_checkpoint(out / "checkpoints")
    if distributed.is_initialized():
        distributed.barrier()  # all have looked before the first one writes
    model = (out / "model.safetensors").exists()
    if not resume and (file or troubles or model):
        raise ValueError(f"--out: {out} holds a run; go on with --resume or name another folder")
    for trouble in troubles:
        say(f"Passed over: {trouble}")
    if not file and (troubles or model):
        raise ValueError(f"--resume: expected a whole checkpoint in {out}/checkpoints, found none")
    if resume:
        say(f"Going on from {file}" if file else f"No checkpoint in {out} yet: from the beginning")
    return file, begun


def settings_of(given: dict[str, Any], begun: Checkpoint | None, world: int) -> dict[str, Any]:
    """The settings of a run: options, before its preset, before what is usual.

    A run that goes on has those it began with. Raises ValueError if others are given.
    """
    names = {"data", "preset", *USUAL, *SMALL}
    given = {k: v for k, v in given.items() if k in names and v is not None}
    preset = given.pop("preset", None)
    if not begun:
        if "data" not in given:
            raise ValueError("--data: expected a set of pairs or a file of pairs, got none")
        preset = preset or OWN.get(given["data"], "multi30k")
    chosen = {**(USUAL | PRESETS[preset] if preset else {}), **given, "processes": world}
    if "steps" in given or "epochs" in given:  # one takes the place of the other
        chosen |= {"steps": given.get("steps"), "epochs": given.get("epochs")}
    old = begun.run["settings"] if begun else chosen
    for name, value in chosen.items():
        if name not in MAY_CHANGE and value != old[name]:
            option = "--" + name.replace("_", "-")
            raise ValueError(f"{option}: this run began with {old[name]}, got {value}")
    return old | chosen


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


def check_tokenizer(path: Path, tokenizer: Tokenizer) -> None:
    """Raise ValueError if there is another tokenizer in the folder than the run's."""
    try:
        same = not path.exists() or Tokenizer.load(path).bpe.to_str() == tokenizer.bpe.to_str()
    except Exception:  # tokenizers raises plain Exception
        same = False
    if not same:
        raise ValueError(
            f"{path}: not the tokenizer this run began with; put that back, or remove the file "
            "(the checkpoint has it too)"
        )


def use_bf16(precision: str, device: torch.device) -> bool:
    """Whether to compute in bf16: as asked, or where the machine has instructions for it."""
    if precision != "auto":
        return precision == "bf16"
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return any(flag in processor() for flag in ("avx512_bf16", "amx_bf16"))


def processor() -> str:
    """What Linux tells about the processor; nothing elsewhere."""
    info = Path("/proc/cpuinfo")
    return info.read_text() if info.exists() else ""


def schedule_of(settings: dict[str, Any]) -> Callable[[int], float]:
    """The paper's schedule, equation (3), stretched to another peak if one is given."""
    d_model, warmup, peak = (settings[k] for k in ("d_model", "warmup", "learning_rate"))
    scale = peak / learning_rate(warmup, d_model, warmup) if peak else 1.0
    return lambda step: scale * learning_rate(step, d_model, warmup)


def in_any_process(flag: bool, device: torch.device) -> bool:
    """Whether a flag is set in any of the processes."""
    if not distributed.is_initialized():
        return flag
    flags = torch.tensor(float(flag), device=device)
    distributed.all_reduce(flags)
    return bool(flags > 0)


def progress(step: int, steps: int, rank: int) -> tqdm:
    """The bar of a run; in a log file it moves every half minute."""
    pace = 0.2 if sys.stderr.isatty() else 30.0
    return tqdm(
        total=steps, initial=step, disable=rank > 0, mininterval=pace, maxinterval=2 * pace,
        unit="step", dynamic_ncols=True,
    )  # fmt: skip


def best(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The first of the rows with the highest BLEU; among equals, the one with the lowest loss."""
    return max(rows, key=lambda row: (row["BLEU"], -row["valid loss"]))


def table(rows: list[dict[str, Any]], header: bool = True) -> str:
    """Rows of the history as lines of text."""
    lines = [[f"{name:>12}" for name in rows[0]]] if header else []
    for row in rows:
        lines.append([f"{x:>12,}" if isinstance(x, int) else f"{x:>12.2f}" for x in row.values()])
    return "\n".join(map("".join, lines))


def draw_curves(path: Path, history: dict[str, Any]) -> None:
    """The losses and BLEU over the steps, as a picture, if matplotlib is installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    rows, losses = history["rows"], history["losses"]
    step = [row["step"] for row in rows]
    size = math.ceil(len(losses) / 200)
    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    some = range(0, len(losses), size)
    means = [sum(losses[i : i + size]) / len(losses[i : i + size]) for i in some]
    left.plot([i + size / 2 for i in some], means, label="training, smoothed labels, dropout")
    left.plot(step, [row["valid loss"] for row in rows], "o-", ms=3, label="validation")
    left.set(xlabel="step", ylabel="loss (nats per token)")
    left.legend(frameon=False)
    right.plot(step, [row["BLEU"] for row in rows], "o-", ms=3)
    right.set(xlabel="step", ylabel="BLEU on validation (greedy)")
    picture = io.BytesIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    write_file(path, picture.getvalue())


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, whole or not at all."""
    write_file(path, json.dumps(value, indent=1, ensure_ascii=False).encode())


def fingerprint(*several: Pairs) -> str:
    """The sha256 of pairs."""
    return hashlib.sha256(json.dumps(several).encode()).hexdigest()


def circumstances() -> dict[str, Any]:
    """What a run's numbers depend on: command, machine, versions, date, commit."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", Path(__file__).parent, *words], capture_output=True, text=True
        )
        return done.stdout.strip()

    ours = shutil.which("git") and git("ls-files", Path(__file__).name)  # not another repository
    names = [line for line in processor().splitlines() if line.startswith("model name")]
    packages = ("allyouneed", "torch", "tokenizers", "sacrebleu")
    return {
        "command": " ".join(["python -m allyouneed", *map(shlex.quote, sys.argv[1:])]),
        "machine": {
            "processor": names[0].split(":")[1].strip() if names else platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "date": datetime.date.today().isoformat(),
        "commit": git("describe", "--always", "--dirty=-changed", "--exclude=*") if ours else None,
    }


# Translating


def translate_command(args: argparse.Namespace) -> int:
    """Translate a sentence, or standard input line by line, into as many lines."""
    _, _, device = place()
    model, tokenizer = find_model(args.model, device)
    generator = torch.Generator(device).manual_seed(args.seed)
    lines = [" ".join(args.sentence)] if args.sentence else sys.stdin
    at_once = 1 if args.sentence or args.show_attention or sys.stdin.isatty() else 256
    sound, lines = True, iter(lines)
    while some := list(itertools.islice(lines, at_once)):
        fits = [len(tokenizer.encode(line.strip())) < len(model.positions.table) for line in some]
        texts = [line.strip() if fit else "" for line, fit in zip(some, fits, strict=True)]
        if not all(fits):
            sound = False
            print(f"error: a sentence has {len(model.positions.table):,} tokens or more: "
                  "its line stays empty", file=sys.stderr)  # fmt: skip
        if not args.sample and not args.show_attention:
            print("\n".join(translated(model, tokenizer, texts, args)), flush=True)
            continue
        for text in texts:
            ids = tokenizer.encode(text)
            if not ids:
                print(flush=True)
                continue
            src = torch.tensor([[*ids, EOS]], device=device)
            if args.sample:
                (out,) = sample(
                    model, src, args.temperature, args.top_k, args.top_p, generator=generator
                )
            else:
                (out,) = beam_search(model, src, args.beam, args.length_penalty)
            print(tokenizer.decode(out), flush=True)
            if args.show_attention:
                print(attention_text(model, tokenizer, src, out, args.layer, args.head), flush=True)
    return 0 if sound else 2


def find_model(name: str, device: torch.device) -> tuple[Transformer, Tokenizer]:
    """A model from a file, from the folder of a run, or one that is shipped."""
    path = Path(name) / "model.safetensors" if Path(name).is_dir() else Path(name)
    if path.exists():
        model, tokenizer = load_model(path, device)
        if tokenizer is None:
            raise ValueError(f"--model: expected a model with its tokenizer, {path} has none")
        return model, tokenizer
    if Path(name).is_dir():
        raise ValueError(
            f"--model: no model.safetensors in {name}; a run's first validation writes it"
        )
    try:
        return pretrained(name, device)
    except ValueError as error:
        raise ValueError(
            f"--model: expected a file, the folder of a run or a name; {error}"
        ) from None


def translated(
    model: Transformer, tokenizer: Tokenizer, texts: Sequence[str], args: argparse.Namespace
) -> list[str]:
    """Translations by beam search, fewer at once when they are long."""
    longest = max((len(tokenizer.encode(text)) for text in texts), default=0)
    batch = max(1, min(64, 8192 // (longest + 1)))
    return translate(model, tokenizer, texts, args.beam, args.length_penalty, batch)


def attention_text(
    model: Transformer, tokenizer: Tokenizer, src: Tensor, out: list[int], layer: int | None,
    head: int | None,
) -> str:  # fmt: skip
    """Cross-attention in per cent: a row for each token written, a column for each token read."""
    with torch.inference_mode():
        tgt = torch.tensor([[BOS, *out]], device=src.device)
        maps = model(src, tgt, return_weights=True)[1].cross
    for name, value, count in (("layer", layer, len(maps)), ("head", head, maps[0].shape[1])):
        if value is not None and value > count:
            raise ValueError(f"--{name}: expected 1 to {count}, got {value}")
    weights = maps[(layer or len(maps)) - 1][0]  # (H, T, S)
    weights = weights.mean(0) if head is None else weights[head - 1]
    rows = [tokenizer.bpe.id_to_token(i) for i in [*out, EOS]]
    columns = [tokenizer.bpe.id_to_token(int(i)) for i in src[0]]
    first = max(map(len, rows))
    widths = [max(7, len(token) + 2) for token in columns]
    lines, start = [], 0
    while start < len(columns):  # as many columns as the terminal is wide
        end, room = start, shutil.get_terminal_size().columns - first
        while end < len(columns) and (end == start or widths[end] <= room):
            room -= widths[end]
            end += 1
        lines.append(
            "".join([" " * first, *(f"{columns[j]:>{widths[j]}}" for j in range(start, end))])
        )
        for token, row in zip(rows, weights.tolist(), strict=True):
            cells = [
                f"{SHADES[round(4 * row[j])] * 2}{round(100 * row[j]):4}" for j in range(start, end)
            ]
            lines.append(
                "".join(
                    [f"{token:>{first}}", *(f"{c:>{w}}" for c, w in zip(cells, widths[start:end]))]
                )
            )
        lines.append("")
        start = end
    return "\n".join(lines[:-1])


def evaluate_command(args: argparse.Namespace) -> int:
    """Translate a set of pairs and compare with its other side."""
    _, _, device = place()
    model, tokenizer = find_model(args.model, device)
    split = args.split or ("valid" if args.data in SPLITS else "all")
    pairs = read_pairs(args.data, split)
    longest, room = max(len(tokenizer.encode(s)) for s, _ in pairs), len(model.positions.table)
    if longest >= room:
        raise ValueError(f"--data: expected sentences of less than {room} tokens, got {longest}")
    start = time.monotonic()
    written = translated(model, tokenizer, [source for source, _ in pairs], args)
    seconds = time.monotonic() - start
    print(
        f"{args.data}, {split}: {len(pairs):,} sentences, beam {args.beam}, length penalty "
        f"{args.length_penalty:g}, {seconds:.1f} seconds on {device}"
    )
    for score in scores(written, [target for _, target in pairs]):
        print(f"{score.name:18} {score.value:6.2f}   {score.signature}")
    return 0


# The options


def number(kind: type, low: float, high: float = math.inf) -> Callable[[str], float]:
    """A reader of numbers of a kind, from low up to but without high."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if low <= value < high or value == high == math.inf:
            return value
        what = "a whole number" if kind is int else "a number"
        limit = f" and below {high:g}" if high < math.inf else ""
        raise argparse.ArgumentTypeError(
            f"expected {what} of at least {low:g}{limit}, got {text!r}"
        )

    return read


COUNT, SHARE, AMOUNT = number(int, 1), number(float, 0, 1), number(float, 0)
OPTIONS = {  # of `train`: what they take, and what they mean
    "epochs": (COUNT, "how often to go through the pairs"),
    "steps": (COUNT, "how many updates to make, instead of --epochs"),
    "d-model": (COUNT, "width of the model"),
    "d-ff": (COUNT, "width inside the feed-forward layers"),
    "heads": (COUNT, "attention heads in each layer"),
    "layers": (COUNT, "layers of the encoder, and as many of the decoder"),
    "vocabulary": (COUNT, "tokens of the vocabulary both languages share"),
    "dropout": (SHARE, "probability of dropout"),
    "bpe-dropout": (SHARE, "probability with which a merge is left out when words are cut (0)"),
    "smoothing": (SHARE, "label smoothing (0.1)"),
    "batch-tokens": (COUNT, "positions of a batch on each side, padding included"),
    "accumulate": (COUNT, "batches of one update (1)"),
    "learning-rate": (AMOUNT, "peak of the paper's schedule (the paper's own: (d_model warmup)^-0.5)"),
    "warmup": (COUNT, "steps in which the learning rate rises"),
    "max-norm": (AMOUNT, "shorten gradients that are longer than this (never)"),
    "seed": (number(int, 0), "another number, another run (0)"),
    "validate-every": (COUNT, "validate after so many steps (after every epoch)"),
    "average": (COUNT, "translate with the average of that many last checkpoints (section 6.1)"),
    "keep": (COUNT, "checkpoints to keep, at least 2 and those that are averaged"),
    "threads": (COUNT, "processor cores to use (all)"),
}  # fmt: skip
SHADES = " ░▒▓█"
EXAMPLES = """examples:
  python -m allyouneed train --data tatoeba-en-fr --out runs/first
  python -m allyouneed translate "A man rides a horse." --model runs/first
  python -m allyouneed evaluate --data tatoeba-en-fr --model runs/first"""
TRAIN_EXAMPLES = """examples:
  a small model in some minutes, to see how it goes:
    python -m allyouneed train --data tatoeba-en-fr --preset tiny --out runs/tiny
  stop it with Ctrl-C, and go on:
    python -m allyouneed train --resume --out runs/tiny
  on your own pairs (each line: a sentence, a tab, its translation), with less dropout:
    python -m allyouneed train --data pairs.tsv --dropout 0.1 --out runs/mine
  on two GPUs:
    torchrun --nproc-per-node 2 -m allyouneed train --data pairs.tsv --preset base --out runs/base"""
TRANSLATE_EXAMPLES = """examples:
  python -m allyouneed translate "A man rides a horse." --model multi30k-en-de
  python -m allyouneed translate "A man rides a horse." --model runs/first --show-attention
  python -m allyouneed translate --model runs/first < english.txt > french.txt"""


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    plain = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    top = argparse.ArgumentParser(
        "python -m allyouneed", description="Train a Transformer, translate with it, and say how "
        "good it is.", epilog=EXAMPLES, **plain,
    )  # fmt: skip
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    t = commands.add_parser(
        "train", help="train a model on pairs of sentences", epilog=TRAIN_EXAMPLES, **plain,
        usage="python -m allyouneed train --data DATA --out FOLDER [options]",
        description="Train a Transformer on pairs of sentences. What a run leaves is in its "
        "folder:\nmodel.safetensors (the best on validation), checkpoints, history and curves.",
    )  # fmt: skip
    t.set_defaults(run=train_command)
    t.add_argument("--data", help=f"{', '.join(SPLITS)}, or a file of pairs: a sentence, a tab, "
                   "its translation in each line")  # fmt: skip
    t.add_argument("--out", required=True, metavar="FOLDER", help="the folder of the run")
    t.add_argument("--preset", choices=PRESETS, help="named settings; every option below comes "
                   "before them (the data's own)")  # fmt: skip
    t.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
    for name, (kind, text) in OPTIONS.items():
        t.add_argument(f"--{name}", type=kind, metavar="N", help=text)
    t.add_argument("--norm-first", action="store_true", default=None, help="LayerNorm before each "
                   "sub-layer, instead of after it as in the paper")  # fmt: skip
    t.add_argument("--precision", choices=["auto", "bf16", "fp32"], help="bf16 is faster where the "
                   "machine has instructions for it (auto)")  # fmt: skip
    t.add_argument("--compile", action="store_true", default=None, help="use torch.compile: a "
                   "slow start, then faster on a GPU")  # fmt: skip

    for name, text, run, examples in (
        ("translate", "translate a sentence or lines", translate_command, TRANSLATE_EXAMPLES),
        ("evaluate", "score a model: BLEU and chrF", evaluate_command, EXAMPLES),
    ):
        c = commands.add_parser(name, help=text, epilog=examples, **plain)
        c.set_defaults(run=run)
        c.add_argument("--model", required=True, metavar="NAME|PATH", help="a shipped model "
                       "(multi30k-en-de, tatoeba-en-fr), a file, or the folder of a run")  # fmt: skip
        c.add_argument("--beam", type=COUNT, default=4, help="hypotheses kept (4); 1 is greedy")
        c.add_argument("--length-penalty", type=AMOUNT, default=0.6, help="alpha of the length "
                       "penalty (0.6): more favours longer translations")  # fmt: skip
        if name == "evaluate":
            c.add_argument("--data", required=True, help="as for train")
            c.add_argument("--split", help="train, valid, test; of a file train, valid, all "
                           "(valid, of a file all)")  # fmt: skip
            continue
        c.add_argument("sentence", nargs="*", help="what to translate (else: standard input, "
                       "line by line)")  # fmt: skip
        c.add_argument("--sample", action="store_true", help="draw each token by its probability, "
                       "instead of searching for the best")  # fmt: skip
        c.add_argument("--temperature", type=AMOUNT, default=1.0, help="below 1: bolder on the "
                       "likely ones (1)")  # fmt: skip
        c.add_argument("--top-k", type=COUNT, help="draw among the k likeliest only")
        c.add_argument("--top-p", type=SHARE, help="draw among the likeliest that have p together")
        c.add_argument("--seed", type=number(int, 0), default=0, help="of the draws (0)")
        c.add_argument("--show-attention", action="store_true", help="what each token written "
                       "attends to in the source, in per cent")  # fmt: skip
        c.add_argument("--layer", type=COUNT, help="of this decoder layer, from 1 (the last)")
        c.add_argument("--head", type=COUNT, help="of this head, from 1 (the mean of all)")
    return top


def main(words: list[str] | None = None) -> int:
    """Run one command, and say in one line what went wrong."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    args = parser().parse_args(words)
    try:
        return args.run(args)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = (
                "the disk is full. What was written before is whole: free some space and go on "
                "with --resume"
            )
    except (ValueError, TypeError, FloatingPointError, DataError) as error:
        message = str(error)
    if int(os.environ.get("RANK", 0)) == 0:
        print(f"error: {message}", file=sys.stderr)
    return 2
