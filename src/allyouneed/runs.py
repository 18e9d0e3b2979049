"""A run of training: what `python -m allyouneed train` does, and leaves in a folder.

This module is plumbing written by hand. A folder has, of a run: model.safetensors, the average of
the last checkpoints that was best on validation; tokenizer.json; history.json, a row for each
validation and the loss of each step; run.json, the settings and what the numbers depend on;
curves.svg; and checkpoints/. Each file is written whole or not at all.
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import torch
from tqdm import tqdm

from allyouneed.checkpoints import (
    Checkpoint,
    checkpoint_path,
    forget_checkpoints,
    last_checkpoints,
    load_optimizer,
    newest_checkpoint,
    save_checkpoint,
    weights_of,
)
from allyouneed.data import Pairs
from allyouneed.decoding import translate
from allyouneed.evaluation import bleu
from allyouneed.files import lock_folder, write_file, write_json
from allyouneed.history import History, Row, progress_bar, table
from allyouneed.kernels import any_shape, in_dtype
from allyouneed.pairs import (
    check_tokenizer,
    fingerprint,
    learn_tokenizer,
    make_batches,
    make_shard_batches,
    training_pairs,
)
from allyouneed.processes import (
    Process,
    ShardedObjective,
    Stop,
    catch_signals,
    in_any_process,
    start_process_group,
    wait_for_all,
    wait_for_the_first,
)
from allyouneed.provenance import circumstances
from allyouneed.saving import save_model
from allyouneed.settings import Settings, change_settings, recorded_settings
from allyouneed.shards import Shards
from allyouneed.tokens import Batch, Tokenizer
from allyouneed.training import (
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

# What a run writes in its folder, beside checkpoints
WRITTEN = ("model.safetensors", "tokenizer.json", "run.json", "history.json", "curves.svg")
NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
UNREAD = 50  # updates after which a GPU is asked for their losses
PAUSE = 600  # seconds after which a run writes a checkpoint of its own accord


def train_run(
    out: Path, chosen: dict[str, Any], preset: Settings, resume: bool = False, command: str = ""
) -> bool:
    """Train to the end, or until asked to stop; all that a run leaves is in its folder `out`.

    The settings `chosen` come before those of a preset. If the run goes on they come before those
    it began with, and only some may differ. `command` is kept in the run's record. Returns whether
    the run has come to its end. Raises ValueError for settings or a folder that do not fit,
    DataError for data that cannot be read, FloatingPointError for a loss that is not finite.
    """
    with start_process_group() as process:
        with claim(out) if process.first else nullcontext():
            run = Run(out, process)
            run.begin(chosen, preset, resume, command)
            return run.make_updates()


@contextmanager
def claim(folder: Path) -> Iterator[None]:
    """Make the folder of a run, and keep other runs out of it meanwhile.

    What a killed run left half written goes; if a run ends before it has written anything, or is
    told to by a signal, so does the folder. Raises ValueError if another run is at work there, or
    if the folder holds something else.
    """
    ours = (folder / ".lock").exists() or any(folder.glob("checkpoints/*.safetensors"))
    if folder.is_dir() and not ours and any(folder.iterdir()):
        raise ValueError(f"folder: expected a new or empty folder, or that of a run, got {folder}")
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    lock = lock_folder(folder)
    (folder / "checkpoints").mkdir(exist_ok=True)
    own = [folder / f"{name}.part" for name in WRITTEN]
    for part in [*own, *folder.glob("checkpoints/*.part")]:
        part.unlink(missing_ok=True)
    try:
        with catch_signals(at_once=True):  # a SIGTERM alone would leave what `finally` takes away
            yield
    finally:
        lock.release()
        if {file.name for file in folder.rglob("*")} <= {".lock", "checkpoints"}:
            (folder / ".lock").unlink(missing_ok=True)
            for each in (folder / "checkpoints", *made):
                each.rmdir()


class DataRecord(TypedDict):
    """What a run keeps of its data: where they were, how many pairs to train on, and of all the
    sha256, by which they are known again."""

    name: str
    pairs: int
    sha256: str


class Run:
    """One run of training in its folder, as one of its processes sees it.

    `begin` makes all that it needs, or puts it back as it was; then come the updates: after each,
    `step` does what is due, that is to `save` or to `validate`, and after the last `finish`.
    """

    # What it is
    file: Path | None  # the checkpoint that it goes on from
    settings: Settings
    dtype: torch.dtype
    data: DataRecord
    starts: list[dict[str, Any]]  # the circumstances of each
    # What it learns from, and is judged by
    tokenizer: Tokenizer
    batches: Callable[[int], Iterable[Batch]]  # of an epoch
    valid: Pairs  # those that fit into a batch
    valid_batches: Callable[[int], Iterable[Batch]]
    # What learns
    config: TransformerConfig
    model: Transformer
    objective: ShardedObjective | None
    optimizer: torch.optim.Optimizer
    # How far it is to go
    steps: int  # of the whole run
    per_epoch: int
    validate_every: int  # steps from one validation to the next
    average_every: int  # steps from one checkpoint of an average to the next
    # Where it stands
    record: Record  # of the last update
    history: History
    to_average: deque[Path]  # checkpoints
    # While updates are made
    stop: Stop
    bar: tqdm
    unread: list[Record]  # whose losses a GPU has not been asked for yet
    saved: float  # when the last checkpoint was written; this and the next two on one clock
    clock: float  # up to when the seconds of training are counted
    speed_from: float  # since when tokens are counted, for the bar
    tokens: int

    def __init__(self, out: Path, process: Process):
        self.out, self.process = out, process
        self.say = tqdm.write if process.first else lambda text: None

    def announce(self, text: str) -> None:
        """Say what takes a while now, where the bars are drawn."""
        if self.process.first:
            tqdm.write(text, file=sys.stderr)

    # Beginning, or going on

    def begin(self, chosen: dict[str, Any], preset: Settings, resume: bool, command: str) -> None:
        """Make all that the run needs, or put it back from the newest checkpoint of its folder."""
        may_begin = chosen.get("data") is not None
        self.file, begun = find_run(self.out, resume, may_begin, self.say)
        self.settings = choose_settings(chosen, preset, begun, self.process)
        if self.settings.threads:
            torch.set_num_threads(self.settings.threads)
        self.dtype = dtype_of(self.settings.precision, self.process.device)
        # "auto" might be another on the machine that goes on
        self.settings = replace(self.settings, precision=NAMES[self.dtype])
        self.record = begun.record if begun else Record()
        self.history = History(**begun.run["history"]) if begun else History()
        self.starts = [*(begun.run.get("starts", []) if begun else []), circumstances(command)]
        # what cannot be is refused before anything is read
        self.model_config(self.settings.vocabulary)
        pairs, valid = self.read_data(begun)
        self.build_model(begun)
        number = self.cut_batches(pairs, valid)
        self.count_steps()
        parameters = sum(p.numel() for p in self.model.parameters())
        self.say(
            f"{number:,} pairs, {len(self.tokenizer):,} tokens, "
            f"{parameters:,} parameters; {self.steps:,} steps, {self.per_epoch:,} an epoch; "
            f"{str(self.dtype).removeprefix('torch.')} on {self.process.device}"
        )
        if self.process.first:
            write_json(self.out / "run.json", self.account())
            text = self.tokenizer.bpe.to_str(pretty=True)
            write_file(self.out / "tokenizer.json", text.encode())
        if not begun:
            self.save("pause")

    def read_data(self, begun: Checkpoint | None) -> tuple[Pairs | Shards, Pairs]:
        """Read the pairs, which must be those the run began with, and learn their vocabulary."""
        self.announce(f"Reading the pairs of {self.settings.data} ...")
        pairs, valid = training_pairs(self.settings.data, self.process, self.say)
        self.data = {
            "name": self.settings.data,
            "pairs": len(pairs),
            "sha256": fingerprint(pairs, valid),
        }
        known = begun.run.get("data", self.data) if begun else self.data
        if known | {"name": self.data["name"]} != self.data:  # it may have been moved
            raise ValueError(
                f"data: expected the pairs this run began with, got others in {self.data['name']}"
            )
        if begun:
            self.tokenizer = begun.tokenizer
        else:
            if not isinstance(pairs, Shards):
                self.announce(f"Learning a vocabulary of {self.settings.vocabulary:,} tokens ...")
            self.tokenizer = learn_tokenizer(pairs, self.settings.vocabulary, self.process)
        if isinstance(pairs, Shards):
            self.settings = replace(self.settings, vocabulary=len(self.tokenizer))
        return pairs, valid

    def model_config(self, vocabulary: int) -> TransformerConfig:
        """The sizes of the model. Raises ValueError for such that cannot be."""
        s = self.settings
        return TransformerConfig(
            vocab_size=vocabulary, d_model=s.d_model, d_ff=s.d_ff, n_heads=s.heads,
            n_layers=s.layers, dropout=s.dropout, norm_first=s.norm_first,
        )  # fmt: skip

    def build_model(self, begun: Checkpoint | None) -> None:
        """Make the model and its optimiser, and put them back as they were."""
        s, device = self.settings, self.process.device
        torch.manual_seed(s.seed)
        self.config = self.model_config(len(self.tokenizer))
        self.model = Transformer(self.config)
        self.to_average = deque(maxlen=s.average)
        if begun:
            check_tokenizer(self.out / "tokenizer.json", self.tokenizer)
            self.model.load_state_dict(begun.model)
        self.objective = None
        if s.shard and self.process.world > 1:
            self.objective = ShardedObjective(self.model, s.smoothing, self.dtype)
            self.objective.spread(device)
        self.optimizer = adam(self.model.to(device))
        if begun:
            load_optimizer(self.optimizer, begun.optimizer)
        if begun and self.process.first:  # who validates
            folder = self.out / "checkpoints"
            files, troubles = last_checkpoints(folder, self.record.step, s.average)
            self.to_average += files
            for trouble in troubles:
                self.say(f"Left out of the average: {trouble}")
        if s.compile:
            self.model.encoder.compile(dynamic=True)
            self.model.decoder.compile(dynamic=True)

    def cut_batches(self, pairs: Pairs | Shards, valid: Pairs) -> int:
        """Cut the pairs into tokens and batches; pairs that are too long are left out.

        Returns the number of pairs to train on.
        """
        self.announce("Cutting the pairs into tokens and batches ...")
        longest = len(self.model.positions.table)
        if isinstance(pairs, Shards):
            shards = make_shard_batches(pairs, self.settings, longest, self.process, self.say)
            self.batches, number = shards, len(shards)
        else:
            pairs, self.batches = make_batches(
                pairs, self.tokenizer, self.settings, longest, "training", self.say
            )
            number = sum(1 for _ in self.batches(0))
        self.valid, self.valid_batches = make_batches(
            valid, self.tokenizer, self.settings, longest, "validation", self.say
        )
        self.per_epoch = math.ceil(number / self.settings.update_batches)
        return len(pairs)

    def count_steps(self) -> None:
        """Count the steps. Raises ValueError if nothing is left to do, and nothing to judge."""
        s, done = self.settings, self.record.step
        self.steps = s.steps or s.epochs * self.per_epoch
        self.validate_every = s.validate_every or self.per_epoch
        self.average_every = s.average_every or self.validate_every
        seen = self.history.rows or not (self.file and self.file.stem.startswith("pause"))
        if self.steps < done or self.steps == done > 0 and not seen:
            name = "steps" if s.steps else "epochs"
            raise ValueError(
                f"{name}: expected more than the {done:,} steps that are done, got {self.steps:,}"
            )

    def account(self) -> dict[str, Any]:
        """What a reader should know about the run, as JSON can hold it."""
        settings = self.settings.record(self.process.world)
        return {"data": self.data, "settings": settings, "starts": self.starts}

    # Going through the updates

    def make_updates(self) -> bool:
        """Make all updates that are left. Returns False if asked to stop before."""
        bar = progress_bar(self.record.step, self.steps, "step", self.process.first)
        try:
            with catch_signals() as self.stop, bar as self.bar, closing(self.updates()) as updates:
                if self.file and self.file.stem.startswith("step") and not self.steps_to_validation:
                    self.validate()  # it may have been cut off
                wait_for_the_first()
                self.unread = []  # to read a loss is to wait for the device
                self.saved = self.clock = time.monotonic()
                self.speed_from, self.tokens = self.clock, 0
                for record in updates:
                    self.record = record
                    self.step()
        except KeyboardInterrupt:
            self.say(f"Stopped after step {self.record.step:,}; all is kept.")
            return False
        if self.process.first:
            self.finish()
        return True

    def updates(self) -> Iterator[Record]:
        """The updates that are left, each made when it is asked for."""
        s = self.settings
        return train(
            self.model, self.batches, self.steps, self.optimizer,
            schedule=schedule_of(s, self.steps), smoothing=s.smoothing, precision=s.precision,
            accumulate=s.accumulate, max_norm=s.max_norm or math.inf, seed=s.seed,
            after=self.record, objective=self.objective,
        )  # fmt: skip

    @property
    def steps_to_validation(self) -> int:
        """Steps to the next validation."""
        step = self.record.step
        return min(math.ceil(step / self.validate_every) * self.validate_every, self.steps) - step

    def step(self) -> None:
        """Do what is due after an update. Raises KeyboardInterrupt if asked to stop."""
        self.bar.update()
        self.unread.append(self.record)
        device, pause = self.process.device, time.monotonic() - self.saved > PAUSE
        asked, pause = in_any_process([self.stop.asked, pause])
        left, apart = self.steps_to_validation, self.average_every
        kept = left % apart == 0 and left < apart * self.settings.average  # it will be averaged
        if kept or asked or pause or device.type == "cpu" or len(self.unread) == UNREAD:
            self.read_losses()
        if kept or asked or pause:
            self.save("step" if kept else "pause")
        if asked:
            raise KeyboardInterrupt
        if left == 0:
            self.validate()
            wait_for_the_first()
            self.speed_from, self.tokens = time.monotonic(), 0
        if kept or pause:
            self.clock = time.monotonic()  # none of this was training

    def read_losses(self) -> None:
        """Note the losses of the last updates, which a GPU is waited for, and show how it goes."""
        record, history = self.record, self.history
        # `vars`: as they are kept. Asked for one by one, each would be waited for.
        found = [vars(one)[name] for one in self.unread for name in ("loss", "norm")]
        found = torch.stack(list(map(torch.as_tensor, found))).view(-1, 2).tolist()
        history.losses += [round(loss, 4) for loss, _ in found]
        if self.dtype != torch.float16:  # in which an update that overflows is skipped
            for one, (loss, norm) in zip(self.unread, found, strict=True):
                check_finite(one.step, loss=loss, gradient=norm)  # after the first, none changed
        self.tokens += sum(one.tokens for one in self.unread)
        self.unread.clear()
        now = time.monotonic()
        history.seconds += now - self.clock
        self.clock = now
        self.bar.set_postfix_str(
            f"loss {found[-1][0]:.3f}, rate {record.learning_rate:.1e}, "
            f"{self.tokens / (now - self.speed_from):,.0f} tokens/s",
            refresh=False,
        )

    def save(self, kind: str) -> None:
        """Write a checkpoint of a kind, "step" or "pause", and remove those it makes needless."""
        path = checkpoint_path(self.out / "checkpoints", kind, self.record.step)
        run = {"history": asdict(self.history), **self.account()}
        save_checkpoint(path, self.model, self.optimizer, self.record, self.tokenizer, run)
        if kind == "step":
            self.to_average.append(path)
        if self.process.first:
            # one more than is averaged: if the newest is damaged, the one before is validated alike
            forget_checkpoints(path, max(self.settings.keep, self.settings.average) + 1)
        self.saved = time.monotonic()

    def validate(self) -> None:
        """Let the first process score the average of the last checkpoints, and keep the best."""
        if not self.process.first:
            return
        shown = self.bar.postfix or ""
        self.bar.set_postfix_str("validating ...")
        self.stop.at_once = True  # all is on the disk
        averaged = Transformer(self.config)
        averaged.load_state_dict(average([weights_of(file) for file in self.to_average]))
        averaged.to(self.process.device)
        row = self.score(averaged)
        rows = self.history.rows
        rows.append(row)
        if row is self.history.best():
            card = {name: row[name] for name in ("step", "valid loss", "BLEU")}
            card |= self.account()["settings"]
            save_model(self.out / "model.safetensors", averaged, self.tokenizer, card)
        write_json(self.out / "history.json", asdict(self.history))
        self.bar.set_postfix_str(shown, refresh=False)
        self.say(table([row], header=len(rows) == 1))
        self.stop.at_once = False

    def score(self, model: Transformer) -> Row:
        """A row of the history: the loss of a model on validation, and BLEU of what it writes, both
        in the precision of the run.

        Raises FloatingPointError for a loss that is not finite.
        """
        step = self.record.step
        loss = validation_loss(model, self.valid_batches(0), self.settings.precision)
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"valid loss: expected a finite number, got {loss} after step {step:,}. "
                "A new run with a lower learning_rate or a longer warmup may help"
            )
        sources = [source for source, _ in self.valid]
        half = partial(in_dtype, dtype=self.dtype)
        with any_shape(), half(model.encoder), half(model.decoder):
            written = translate(model, self.tokenizer, sources, beam=1)
        return {
            "epoch": round(step / self.per_epoch, 2),
            "step": step,
            "train loss": round(self.history.recent_loss(), 4),
            "valid loss": round(loss, 4),
            "BLEU": round(bleu(written, [target for _, target in self.valid]), 2),
            "minutes": round(self.history.seconds / 60, 2),
        }

    def finish(self) -> None:
        """Show how the run went."""
        row = self.history.best()
        print(f"\n{table(self.history.rows)}")
        print(
            f"Best: BLEU {row['BLEU']} after step {row['step']:,}, in {self.out}/model.safetensors"
        )
        self.history.draw(self.out / "curves.svg")


def find_run(
    out: Path, resume: bool, may_begin: bool, say: Callable[[str], None]
) -> tuple[Path | None, Checkpoint | None]:
    """The newest whole checkpoint of a folder, and its file; nothing for a run that begins.

    Raises ValueError for a run that is there unasked for, has no whole checkpoint, or is not there
    and may not begin.
    """
    file, begun, troubles = newest_checkpoint(out / "checkpoints")
    wait_for_all()  # all have looked before the first one writes
    model = (out / "model.safetensors").exists()
    if not resume and (file or troubles or model):
        raise ValueError(f"resume: expected it, or another folder, for {out} holds a run")
    for trouble in troubles:
        say(f"Passed over: {trouble}")
    if not file and (troubles or model):
        raise ValueError(f"resume: expected a whole checkpoint in {out}/checkpoints, found none")
    if resume and not (file or may_begin):
        raise ValueError(f"resume: expected the folder of a run, {out} holds none")
    if resume:
        say(f"Going on from {file}" if file else f"No checkpoint in {out} yet: from the beginning")
    return file, begun


def choose_settings(
    chosen: dict[str, Any], preset: Settings, begun: Checkpoint | None, process: Process
) -> Settings:
    """The settings of a run: those it began with or those of a preset, and what is chosen.

    Raises ValueError for no data, for what may not change, and for batches that the processes
    cannot share.
    """
    if begun:
        old = recorded_settings(begun.run["settings"])
        same = {"precision"} if chosen.get("precision") == "auto" else set()  # as it was decided
        if Path(chosen.get("data") or old.data).is_dir():
            same.add("vocabulary")  # that of the shards
        chosen = {name: value for name, value in chosen.items() if name not in same}
        settings, asked = change_settings(old, chosen), chosen
    else:
        settings = replace(preset, **chosen)
        old, asked = None, asdict(settings)
    if settings.data is None:
        raise ValueError("data: expected a set of pairs or a file of pairs, got none")
    batches = share_batches(
        process.world, asked.get("update_batches"), asked.get("accumulate"),
        old.update_batches if old else None,
    )  # fmt: skip
    return replace(settings, **batches)


def share_batches(
    world: int, update_batches: int | None = None, accumulate: int | None = None,
    before: int | None = None,
) -> dict[str, int]:  # fmt: skip
    """How many batches an update has, and how many of them each of `world` processes takes.

    The first number never changes in a run, where it was `before`, so the second follows from the
    number of processes. Raises ValueError if they cannot share evenly, or if something else was
    asked for.
    """
    if before and update_batches not in (None, before):
        raise ValueError(f"update_batches: this run began with {before}, got {update_batches}")
    total = before or update_batches or world * (accumulate or 1)
    if total % world:
        raise ValueError(
            f"update_batches: {world} processes cannot share the {total} batches of an update "
            f"evenly; expected a number of processes that divides {total}"
        )
    if accumulate not in (None, total // world):
        raise ValueError(
            f"accumulate: expected {total // world}, the share of each of {world} processes of "
            f"the {total} batches of an update, got {accumulate}"
        )
    return {"update_batches": total, "accumulate": total // world}


def schedule_of(settings: Settings, steps: int) -> Callable[[int], float]:
    """The paper's schedule, equation (3), stretched to another peak if one is given.

    In the last part of the run, `cooldown` of its steps, the rate falls linearly to zero; the
    paper's does not (cooldown = 0).
    """
    d_model, warmup, peak = settings.d_model, settings.warmup, settings.learning_rate
    scale = peak / learning_rate(warmup, d_model, warmup) if peak else 1.0
    last = settings.cooldown * steps
    return lambda step: (
        scale * learning_rate(step, d_model, warmup) * min(1.0, (steps - step + 1) / (last + 1))
    )
