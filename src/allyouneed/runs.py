"""A run of training: what `python -m allyouneed train` does, and leaves in a folder.

This module is plumbing written by hand. A folder has, of a run: model.safetensors, the average of
the last checkpoints that was best on validation; tokenizer.json; history.json, a row for each
validation and the loss of each step; run.json, the settings and what the numbers depend on;
curves.svg; and checkpoints/. Each file is written whole or not at all.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import io
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
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor, distributed, nn
from tqdm import tqdm

from allyouneed import __version__
from allyouneed.checkpoints import (
    Checkpoint,
    checkpoint_path,
    claimed,
    forget_checkpoints,
    gathered,
    last_models,
    newest_checkpoint,
    put_back,
    save_checkpoint,
    stoppable,
)
from allyouneed.data import SPLITS, Pairs, clean, load_pairs
from allyouneed.decoding import translate
from allyouneed.evaluation import bleu
from allyouneed.fast import processor
from allyouneed.saving import save_model, write_file
from allyouneed.shards import CORPORA, ShardBatches, Shards, newstest
from allyouneed.subwords import BPEDropout
from allyouneed.tokens import Batch, Tokenizer, token_batches
from allyouneed.training import (
    Objective,
    Record,
    adam,
    average,
    check_finite,
    dtype_of,
    learning_rate,
    train,
    validation_loss,
)
from allyouneed.transformer import Transformer, TransformerConfig

MAY_CHANGE = {
    "data",  # to another place, where it must be the same
    "steps",
    "epochs",
    "cooldown",
    "validate_every",
    "average_every",
    "average",
    "keep",
    "compile",
    "shard",
    "processes",  # `share` sees to it that an update stays what it is
    "accumulate",
    "update_batches",
}  # on resuming
NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
UNREAD = 50  # updates after which a GPU is asked for their losses
PAUSE = 600  # seconds after which a run writes a checkpoint of its own accord
PATIENCE = datetime.timedelta(minutes=10)  # with other processes, in the middle of an update
LONG_PATIENCE = datetime.timedelta(hours=2)  # with the first one, while it validates


def train_run(
    out: Path, given: dict[str, Any], usual: dict[str, Any], resume: bool, words: list[str]
) -> int:
    """Train to the end, or until asked to stop; all that a run leaves is in its folder `out`.

    The settings `given` come before what is `usual`, and must be those the run began with if it
    goes on; `words` are those of the command, for the record. Returns the exit code: 0, or 130 if
    the run was asked to stop. Raises ValueError for settings or a folder that do not fit,
    FloatingPointError for a loss that is not finite.
    """
    rank, world, device = place()
    with claimed(out) if rank == 0 else nullcontext():
        return train_there(out, given, usual, resume, words, rank, world, device)


def train_there(
    out: Path, given: dict[str, Any], usual: dict[str, Any], resume: bool, words: list[str],
    rank: int, world: int, device: torch.device,
) -> int:  # fmt: skip
    """What `train_run` does in its folder, as one of `world` processes, on the device."""
    say = tqdm.write if rank == 0 else lambda text: None
    file, begun = find_run(out, resume, "data" in given, say)
    settings = settings_of(given | {"processes": world}, usual, begun)
    settings |= share(given, settings, begun)
    dtype = dtype_of(settings["precision"], device)
    settings["precision"] = NAMES[dtype]  # "auto" might be another on the machine that goes on
    pairs, valid = training_pairs(settings["data"], say)
    run = begun.run if begun else {"history": {"rows": [], "losses": [], "seconds": 0.0}}
    data = {"name": settings["data"], "pairs": len(pairs), "sha256": fingerprint(pairs, valid)}
    if run.setdefault("data", data) | {"name": data["name"]} != data:  # it may have been moved
        raise ValueError(f"--data: the pairs of {data['name']} are not those this run began with")
    run |= {"data": data, "settings": settings}
    run["starts"] = [*run.get("starts", []), circumstances(words)]
    tokenizer = begun.tokenizer if begun else learn_tokenizer(pairs, settings["vocabulary"])
    settings["vocabulary"] = len(tokenizer) if isinstance(pairs, Shards) else settings["vocabulary"]

    torch.manual_seed(settings["seed"])
    sizes = [settings[name] for name in ("d_model", "d_ff", "heads", "layers", "dropout")]
    try:
        config = TransformerConfig(len(tokenizer), *sizes, settings["norm_first"])
    except ValueError as error:  # n_heads is the option --heads, d_model is --d-model
        raise ValueError("--" + str(error).removeprefix("n_").replace("_", "-")) from None
    model, record = Transformer(config), begun.record if begun else Record()
    states: deque[dict[str, Tensor]] = deque(maxlen=settings["average"])
    if begun:
        check_tokenizer(out / "tokenizer.json", tokenizer)
        model.load_state_dict(begun.model)
    objective = None
    if settings["shard"] and world > 1:
        objective = ShardedObjective(model, settings["smoothing"], dtype)
        objective.spread(device)
    optimizer = adam(model.to(device))
    if begun:
        put_back(optimizer, begun.optimizer)
    if begun and rank == 0:  # who validates
        models, troubles = last_models(out / "checkpoints", record.step, settings["average"])
        states += models
        for trouble in troubles:
            say(f"Left out of the average: {trouble}")
    if settings["compile"]:
        model.encoder.compile(dynamic=True)
        model.decoder.compile(dynamic=True)

    longest = len(model.positions.table)
    if isinstance(pairs, Shards):
        batches = shard_batches(pairs, settings, longest, rank, world, say)
        number = len(batches)
    else:
        pairs, batches = prepare(pairs, tokenizer, settings, longest, "training", say)
        number = sum(1 for _ in batches(0))
    valid, valid_batches = prepare(valid, tokenizer, settings, longest, "validation", say)
    per_epoch = math.ceil(number / settings["update_batches"])
    steps = settings["steps"] or settings["epochs"] * per_epoch
    every = settings["validate_every"] or per_epoch
    apart = settings.get("average_every") or every

    def left(step: int) -> int:
        """Steps to the next validation."""
        return min(math.ceil(step / every) * every, steps) - step

    history = run["history"]
    unseen = steps == record.step > 0 and not history["rows"] and file.stem.startswith("pause")
    if steps < record.step or unseen:  # nothing is left to do, and nothing to judge
        option = "--steps" if settings["steps"] else "--epochs"
        raise ValueError(
            f"{option}: expected more than the {record.step:,} steps that are done, got {steps:,}"
        )
    say(
        f"{len(pairs):,} pairs, {len(tokenizer):,} tokens, "
        f"{sum(p.numel() for p in model.parameters()):,} parameters; {steps:,} steps, "
        f"{per_epoch:,} an epoch; {str(dtype).removeprefix('torch.')} on {device}"
    )

    def save(kind: str) -> None:
        path = checkpoint_path(out / "checkpoints", kind, record.step)
        save_checkpoint(path, model, optimizer, record, tokenizer, run)
        # one more than is averaged: if the newest is damaged, the one before it is validated alike
        if rank == 0:
            forget_checkpoints(path, max(settings["keep"], settings["average"]) + 1)

    def validate() -> None:
        """Add a row to the history: how good is the average of the last checkpoints?"""
        averaged = Transformer(config)
        averaged.load_state_dict(average(list(states)))
        averaged.to(device)
        rows, losses = history["rows"], history["losses"]
        recent = list(filter(math.isfinite, losses[rows[-1]["step"] if rows else 0 :]))
        loss = validation_loss(averaged, valid_batches(0), settings["precision"])
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"valid loss: expected a finite number, got {loss} after step {record.step:,}. "
                "A new run with a lower --learning-rate or a longer --warmup may help"
            )
        written = translate(averaged, tokenizer, [source for source, _ in valid], beam=1)
        row = {
            "epoch": round(record.step / per_epoch, 2),
            "step": record.step,
            "train loss": round(sum(recent) / max(len(recent), 1), 4),
            "valid loss": round(loss, 4),
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
        model, batches, steps, optimizer, schedule_of(settings, steps), settings["smoothing"],
        settings["precision"], settings["accumulate"], settings["max_norm"] or math.inf,
        settings["seed"], record, objective,
    )  # fmt: skip
    try:
        with stoppable() as stop, progress(record.step, steps, rank) as bar:
            if file and file.stem.startswith("step") and not left(record.step) and rank == 0:
                stop["now"] = True
                validate()  # it may have been cut off
                stop["now"] = False
            wait_for_the_first()
            clock = saved = began = time.monotonic()
            tokens, unread = 0, []  # to read a loss is to wait for the device
            for record in updates:
                unread.append(record)
                tokens += record.tokens
                pause = time.monotonic() - saved > PAUSE
                asked, pause = in_any_process([stop["asked"], pause], device)
                due = left(record.step) == 0
                kept = left(record.step) % apart == 0  # its weights will be averaged
                kept &= left(record.step) < apart * settings["average"]
                bar.update()
                if kept or asked or pause or device.type == "cpu" or len(unread) == UNREAD:
                    history["losses"] += [round(one.loss, 4) for one in unread]
                    if dtype != torch.float16:  # in which an update that overflows is skipped
                        check_finite(record.step, loss=record.loss, gradient=record.norm)
                    unread.clear()
                    now = time.monotonic()
                    history["seconds"] += now - clock
                    clock = now
                    bar.set_postfix_str(
                        f"loss {record.loss:.3f}, rate {record.learning_rate:.1e}, "
                        f"{tokens / (now - began):,.0f} tokens/s",
                        refresh=False,
                    )
                if kept and (state := gathered(model.state_dict())):
                    states.append({name: x.to("cpu", copy=True) for name, x in state.items()})
                if kept or asked or pause:
                    save("step" if kept else "pause")
                    saved = time.monotonic()
                if asked:
                    raise KeyboardInterrupt
                if rank == 0 and due:
                    stop["now"] = True  # all is on the disk
                    validate()
                    stop["now"] = False
                    tokens, began = 0, time.monotonic()
                if due:
                    wait_for_the_first()
                if kept or pause:
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
    if distributed.is_initialized():
        distributed.destroy_process_group()
    return 0


def place() -> tuple[int, int, torch.device]:
    """Which process this is, of how many, and what it computes on; alone outside of torchrun."""
    world = int(os.environ.get("WORLD_SIZE", 1))
    rank = int(os.environ["RANK"]) if world > 1 else 0
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    if world > 1:
        engine = "nccl" if device.type == "cuda" else "gloo"
        store = meeting_place(world)
        distributed.init_process_group(
            engine, store=store, rank=rank if store else -1, world_size=world if store else -1,
            timeout=PATIENCE,
        )  # fmt: skip
    return rank, world, device


def meeting_place(world: int) -> distributed.Store | None:
    """Where the processes of this start find each other; nothing if the usual place will do.

    torchrun may keep one store for all its starts. Processes that it starts again would find the
    addresses of the dead there, and call them, so each start gets a part of its own. Several
    machines may count starts differently: there set `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1` for
    torchrun, which then makes a new store each time.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = distributed.TCPStore(host, port, world, False, PATIENCE)
    return distributed.PrefixStore(f"start {os.environ['TORCHELASTIC_RESTART_COUNT']}", store)


@functools.cache
def patient_group() -> distributed.ProcessGroup:
    """All processes once more, for waits that may be long. A lost one is noticed late in it."""
    return distributed.new_group(timeout=LONG_PATIENCE, backend="gloo")


def wait_for_the_first() -> None:
    """Wait for the first process, which had work of its own; alone, go on."""
    if distributed.is_initialized():
        distributed.barrier(patient_group())


class ShardedObjective(Objective):
    """An Objective whose weights, gradients and Adam's state are spread over all processes.

    Each process keeps a part of every matrix. The layers are put together when they compute, one
    at a time, and taken apart again: Zhao et al. (2023), https://arxiv.org/abs/2304.11277.
    """

    def spread(self, device: torch.device) -> None:
        """Take the model apart, in place; make the optimiser afterwards."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        mesh = init_device_mesh(device.type, (distributed.get_world_size(),))
        half = None if self.dtype == torch.float32 else self.dtype
        policy = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=torch.float32)
        for layer in [*self.model.encoder.layers, *self.model.decoder.layers]:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(self, mesh=mesh, mp_policy=policy)  # what is left: embedding and norms

    def half(self, part: nn.Module) -> AbstractContextManager[None]:
        """Nothing to do: the weights of a part are cast when they are put together."""
        return nullcontext()

    def no_sync(self) -> AbstractContextManager:
        """Gradients go round after every batch, for no process has room for all of them."""
        return nullcontext()


def find_run(
    out: Path, resume: bool, may_begin: bool, say: Callable[[str], None]
) -> tuple[Path | None, Checkpoint | None]:
    """The newest whole checkpoint of a folder, and its file; nothing for a run that begins.

    Raises ValueError for a run that is there unasked for, has no whole checkpoint, or is not there
    and may not begin.
    """
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
    if resume and not (file or may_begin):
        raise ValueError(f"--resume: expected the folder of a run, {out} holds none")
    if resume:
        say(f"Going on from {file}" if file else f"No checkpoint in {out} yet: from the beginning")
    return file, begun


def settings_of(
    given: dict[str, Any], usual: dict[str, Any], begun: Checkpoint | None
) -> dict[str, Any]:
    """The settings of a run, those of its checkpoint if it goes on.

    Raises ValueError if others are given that may not change on the way.
    """
    if begun and given.get("precision") == "auto":
        given = {name: value for name, value in given.items() if name != "precision"}
    old = usual | (begun.run["settings"] if begun else given)
    if "data" not in old:
        raise ValueError("--data: expected a set of pairs or a file of pairs, got none")
    own = {"vocabulary"} if Path(old["data"]).is_dir() else set()  # that of the shards
    for name, value in given.items():
        if name not in MAY_CHANGE | own and value != old.get(name):
            option = "--" + name.replace("_", "-")
            raise ValueError(f"{option}: this run began with {old.get(name)}, got {value}")
    return old | given


def share(
    given: dict[str, Any], settings: dict[str, Any], begun: Checkpoint | None
) -> dict[str, int]:
    """How many batches an update has, and how many of them each process takes.

    The first number never changes in a run, so the second follows from the number of processes.
    Raises ValueError if they cannot share evenly, or if something else was asked for.
    """
    world, total = settings["processes"], given.get("update_batches")
    if begun:
        old = begun.run["settings"]
        before = old.get("update_batches") or old["processes"] * old["accumulate"]
        if total not in (None, before):
            raise ValueError(f"--update-batches: this run began with {before}, got {total}")
        total = before
    total = total or world * (settings["accumulate"] or 1)
    if total % world:
        raise ValueError(
            f"--update-batches: {world} processes cannot share the {total} batches of an update "
            f"evenly; expected a number of processes that divides {total}"
        )
    if given.get("accumulate") not in (None, total // world):
        raise ValueError(
            f"--accumulate: expected {total // world}, the share of each of {world} processes of "
            f"the {total} batches of an update, got {given['accumulate']}"
        )
    return {"update_batches": total, "accumulate": total // world}


def read_pairs(data: str, split: str) -> Pairs:
    """The pairs of a set, or of a file with a sentence, a tab and its translation in each line.

    Of a file, `split` may be "all"; "valid" are about 5 % of it, at most about 2,000 pairs,
    chosen by the source sentence, and "train" the others. Of WMT 2014, by name or by its folder
    of shards, there are "valid" and "test". Raises ValueError for what is no set or file of pairs,
    and for a split it has not.
    """
    if data in SPLITS:
        return load_pairs(data, split)
    if data in CORPORA:
        return newstest(data, split)
    if Path(data).is_dir():
        if split not in ("valid", "test"):
            raise ValueError(f"--split: expected valid or test of {data}, got {split!r}")
        return Shards(data).pairs(split)
    if not Path(data).is_file():
        known = ", ".join([*SPLITS, *CORPORA])
        raise ValueError(
            f"--data: expected {known}, a folder of shards or a file of pairs, got {data!r}"
        )
    try:
        lines = Path(data).read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{data}: expected text in UTF-8, got {error}") from None
    pairs = []
    for number, line in enumerate(lines, 1):
        source, _, rest = line.partition("\t")
        pair = tuple(clean(sentence) for sentence in (source, rest.partition("\t")[0]))
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


def training_pairs(data: str, say: Callable[[str], None]) -> tuple[Pairs | Shards, Pairs]:
    """The pairs to train on, and those to validate on.

    Raises ValueError for what holds no such pairs, DataError for what cannot be read or, of
    shards, is not to the last bit what was prepared.
    """
    if data in CORPORA:
        raise ValueError(
            f"--data: {data} does not fit into memory. Prepare it: python -m allyouneed prepare "
            f"--data {data} --out FOLDER, and train with --data FOLDER"
        )
    if Path(data).is_dir():
        shards = Shards(data)
        if int(os.environ.get("LOCAL_RANK", 0)) == 0:  # one process of each machine
            shards.verify()
        return shards, shards.pairs("valid")
    pairs, valid = read_pairs(data, "train"), read_pairs(data, "valid")
    if not pairs or not valid:
        say(f"{data} is too small to hold pairs out: validating on those it is trained on")
        pairs = valid = read_pairs(data, "all")
    return pairs, valid


def shard_batches(
    shards: Shards, settings: dict[str, Any], longest: int, rank: int, world: int,
    say: Callable[[str], None],
) -> ShardBatches:  # fmt: skip
    """The batches of each epoch of a folder of shards.

    Raises ValueError for BPE-dropout, and if no pair fits into a batch.
    """
    if settings["bpe_dropout"]:
        raise ValueError(
            f"--bpe-dropout: shards hold words that are cut already: expected 0, "
            f"got {settings['bpe_dropout']}"
        )
    size = settings["batch_tokens"]
    batches = ShardBatches(shards, size, settings["seed"], longest, rank, world)
    if batches.left_out:
        message = (
            f"{batches.left_out:,} of {len(shards):,} training pairs have more than "
            f"{min(size, longest):,} tokens (--batch-tokens)"
        )
        if not len(batches):
            raise ValueError(message)
        say(f"Left out: {message}")
    return batches


def prepare(
    pairs: Pairs, tokenizer: Tokenizer, settings: dict[str, Any], longest: int, what: str,
    say: Callable[[str], None],
) -> tuple[Pairs, Callable[[int], Iterator[Batch]]]:  # fmt: skip
    """The pairs that fit into a batch and the model, and the batches of each epoch of them.

    Raises ValueError if none fits.
    """
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


def learn_tokenizer(pairs: Pairs | Shards, vocabulary: int) -> Tokenizer:
    """One vocabulary for both languages; inside torchrun, the first process's for all.

    Shards have theirs already. Raises ValueError for a vocabulary smaller than the characters.
    """
    if isinstance(pairs, Shards):
        return pairs.tokenizer
    text = [""]
    if int(os.environ.get("RANK", 0)) == 0:
        try:
            text = [Tokenizer.train((s for p in pairs for s in p), vocabulary).bpe.to_str()]
        except ValueError as error:
            raise ValueError(f"--vocabulary: {error}") from None
    wait_for_the_first()
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


def schedule_of(settings: dict[str, Any], steps: int) -> Callable[[int], float]:
    """The paper's schedule, equation (3), stretched to another peak if one is given.

    In the last part of the run, `cooldown` of its steps, the rate falls linearly to zero; the
    paper's does not (cooldown = 0).
    """
    d_model, warmup, peak = (settings[k] for k in ("d_model", "warmup", "learning_rate"))
    scale = peak / learning_rate(warmup, d_model, warmup) if peak else 1.0
    last = settings["cooldown"] * steps
    return lambda step: (
        scale * learning_rate(step, d_model, warmup) * min(1.0, (steps - step + 1) / (last + 1))
    )


def in_any_process(flags: list[bool], device: torch.device) -> list[bool]:
    """Of each flag, whether it is set in any of the processes."""
    if not distributed.is_initialized():
        return flags
    sums = torch.tensor(flags, dtype=torch.float32, device=device)
    distributed.all_reduce(sums)
    return (sums > 0).tolist()


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


def fingerprint(*several: Pairs | Shards) -> str:
    """The sha256 of pairs, or of what a folder of shards says about all its files."""
    if isinstance(several[0], Shards):
        return several[0].sha256
    return hashlib.sha256(json.dumps(several).encode()).hexdigest()


def circumstances(words: list[str]) -> dict[str, Any]:
    """What a run's numbers depend on: command, machine, versions, date, commit."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", Path(__file__).parent, *words], capture_output=True, encoding="utf-8"
        )
        return done.stdout.strip()

    ours = shutil.which("git") and git("ls-files", Path(__file__).name)  # not another repository
    names = [line for line in processor().splitlines() if line.startswith("model name")]
    packages = ("torch", "tokenizers", "sacrebleu")
    return {
        "command": " ".join(["python -m allyouneed", *map(shlex.quote, words)]),
        "machine": {
            "processor": names[0].split(":")[1].strip() if names else platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
        "versions": {
            "python": platform.python_version(),
            "allyouneed": __version__,
            **{p: version(p) for p in packages},
        },
        "date": datetime.date.today().isoformat(),
        "commit": git("describe", "--always", "--dirty=-changed", "--exclude=*") if ours else None,
    }
