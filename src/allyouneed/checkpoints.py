"""Checkpoints: all that a run needs to go on, in files that survive whatever stops it.

This module is plumbing written by hand. A checkpoint is one safetensors file: the model, the state
of Adam, the record of the last update, sizes, tokenizer and settings. It is written whole or not at
all, carries the sha256 of its own content, and nothing in it is unpickled.

A folder holds two kinds: step-00001200.safetensors, of which the last ones are kept, to be averaged
(section 6.1) and to fall back on; and pause-00001234.safetensors, only to go on from, which goes
when a later checkpoint is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import tokenizers
import torch
from torch import Tensor, distributed

from allyouneed.saving import ModelFileError, read_tensors, write_tensors
from allyouneed.tokens import Tokenizer
from allyouneed.training import Record
from allyouneed.transformer import Transformer, TransformerConfig

CHECKPOINT_FORMAT = "allyouneed checkpoint 1"


@dataclass(frozen=True)
class Checkpoint:
    """A run as it stood after an update: `run` are its settings, as JSON can hold them."""

    model: dict[str, Tensor]
    optimizer: dict[str, Any]
    record: Record
    config: TransformerConfig
    tokenizer: Tokenizer
    run: dict[str, Any]


def save_checkpoint(
    path: str | Path,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    record: Record,
    tokenizer: Tokenizer,
    run: dict[str, Any],
) -> None:
    """Write a checkpoint to one file: all of it, or nothing.

    The first process writes. If the model is sharded, all must call, for each has a part of it;
    the file is the same as of a model that is not. No process ever holds more than its part and
    two whole tensors. Raises OSError if the file does not fit, and FloatingPointError if there is
    a number that is not finite.
    """
    state = optimizer.state_dict()
    tensors = {f"model.{name}": x for name, x in model.state_dict().items()}
    for i, entries in state["state"].items():
        tensors |= {f"optimizer.{i}.{name}": x for name, x in entries.items()}

    def contents() -> Iterator[Tensor]:
        for name, x in gather(tensors):
            low, high = x.aminmax()  # one pass without a copy; NaN is both
            if not (low.isfinite() and high.isfinite()):
                raise FloatingPointError(
                    f"{name}: expected finite numbers after step {record.step}; this checkpoint is "
                    "not written, those before are kept"
                )
            yield x

    if distributed.is_initialized() and distributed.get_rank() > 0:
        for _ in contents():  # lend our parts
            pass
        return
    texts = {
        "optimizer": state["param_groups"],
        "record": asdict(record),
        "config": asdict(model.config),
        "run": run,
    }
    metadata = {name: json.dumps(value, ensure_ascii=False) for name, value in texts.items()}
    metadata |= {"format": CHECKPOINT_FORMAT, "tokenizer": tokenizer.bpe.to_str()}
    write_tensors(path, tensors, metadata, contents())


# `torch.distributed.checkpoint` lets each process write its own part. But then a checkpoint is
# several files, one of them a pickle, and none tells whether it is damaged. Its `get_state_dict`
# makes whole tensors, but all at once, in the first of the processes: of two that share a model of
# 33 million parameters, it needs 187 MB above its part for that. One by one takes 20.


def is_sharded(x: Tensor) -> bool:
    """Whether a tensor is a DTensor, without the 1.6 seconds that importing this class takes."""
    return hasattr(x, "full_tensor")


def gather(tensors: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Put together tensors that are sharded over processes, one after another, sorted by name.

    All processes must go through them together. Others than sharded ones stay as they are.
    """
    for name in sorted(tensors):
        x = tensors[name]
        yield name, x.full_tensor() if is_sharded(x) else x


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Put a checkpoint's state back; of tensors whose parameter is sharded, this process's part."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    parts = {}
    for i, entries in sorted(state["state"].items()):  # all processes in one order
        p, parts[i] = parameters[i], {name: x.clone() for name, x in entries.items()}
        if is_sharded(p):
            from torch.distributed.tensor import distribute_tensor

            for name, x in sorted(entries.items()):
                if x.shape == p.shape:
                    parts[i][name] = distribute_tensor(x.to(p.device), p.device_mesh, p.placements)
    optimizer.load_state_dict(state | {"state": parts})


def check_tensors(config: TransformerConfig, tensors: dict[str, Tensor], step: int) -> None:
    """The tensors of a checkpoint are those of a model of these sizes and, after a first step, of
    its Adam; and they have their shapes.

    Raises ValueError that names the first that is missing or has not. Asks for no memory.
    """
    if config.n_layers > len(tensors):
        raise ValueError(f"tensors: expected those of {config.n_layers} layers, got {len(tensors)}")
    with torch.device("meta"):
        model = Transformer(config)
    weights = {f"model.{name}": x.shape for name, x in model.state_dict().items()}
    if odd := weights.keys() ^ {name for name in tensors if name.startswith("model.")}:
        told = ("it", "none") if min(odd) in weights else ("none", "it")
        raise ValueError(f"{min(odd)}: expected {told[0]} in a model of {config}, got {told[1]}")
    parameters = [(name, x.shape) for name, x in model.named_parameters()]
    for i, (of, _) in enumerate(parameters if step else []):
        for entry in ("step", "exp_avg", "exp_avg_sq"):
            if (name := f"optimizer.{i}.{entry}") not in tensors:
                raise ValueError(f"{name} (of {of}): expected it after step {step}, got none")
    for name, x in tensors.items():
        what, expected = name, weights.get(name, x.shape)
        if name.startswith("optimizer.") and x.dim():  # else a count of steps
            of, expected = parameters[int(name.split(".")[1])]
            what = f"{name} (of {of})"
        if x.shape != expected:
            raise ValueError(f"{what}: expected shape {tuple(expected)}, got {tuple(x.shape)}")


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint. Raises FileNotFoundError, or ModelFileError for another or damaged file,
    and for tensors that do not fit the sizes it names.

    Put it back with `model.load_state_dict` and `load_optimizer`, which copy; its own tensors lie
    in the file.
    """
    metadata, tensors = read_tensors(path, CHECKPOINT_FORMAT)
    model, state = {}, {}
    for name, x in tensors.items():
        owner, _, rest = name.partition(".")
        if owner == "model":
            model[rest] = x
        else:
            i, entry = rest.split(".")
            state.setdefault(int(i), {})[entry] = x
    config = TransformerConfig(**json.loads(metadata["config"]))
    record = Record(**json.loads(metadata["record"]))
    try:
        check_tensors(config, tensors, record.step)
    except (ValueError, IndexError) as error:
        raise ModelFileError(f"{path}: {error}") from error
    groups = json.loads(metadata["optimizer"])
    return Checkpoint(
        model,
        {"state": state, "param_groups": [g | {"betas": tuple(g["betas"])} for g in groups]},
        record,
        config,
        Tokenizer(tokenizers.Tokenizer.from_str(metadata["tokenizer"])),
        json.loads(metadata["run"]),
    )


def checkpoint_path(folder: str | Path, kind: str, step: int) -> Path:
    """Where a checkpoint of the kind "step" or "pause" belongs."""
    return Path(folder) / f"{kind}-{step:08}.safetensors"


def checkpoint_files(folder: str | Path, kind: str = "*") -> list[Path]:
    """The checkpoints of a folder, of one kind or of both, the newest last."""
    files = Path(folder).glob(f"{kind}-{'[0-9]' * 8}.safetensors")
    return sorted(files, key=lambda file: file.stem.split("-")[1])


def newest_checkpoint(folder: str | Path) -> tuple[Path | None, Checkpoint | None, list[str]]:
    """The newest whole checkpoint of a folder, if any, and what is wrong with newer ones."""
    troubles = []
    for file in reversed(checkpoint_files(folder)):
        try:
            return file, load_checkpoint(file), troubles
        except (ModelFileError, OSError) as error:
            troubles.append(str(error))
    return None, None, troubles


def last_checkpoints(folder: str | Path, step: int, count: int) -> tuple[list[Path], list[str]]:
    """The last `count` checkpoints of the kind "step" up to a step, the newest last.

    Returns with them what is wrong with files that had to be left out.
    """
    last = checkpoint_path(folder, "step", step).name
    files, troubles = [], []
    for file in [f for f in checkpoint_files(folder, "step") if f.name <= last][-count:]:
        try:
            load_checkpoint(file)
            files.append(file)
        except (ModelFileError, OSError) as error:
            troubles.append(str(error))
    return files, troubles


def weights_of(path: str | Path) -> dict[str, Tensor]:
    """The weights alone of a checkpoint that is known to be whole.

    They lie in the file, and fill no memory until they are used.
    """
    tensors = safetensors.torch.load_file(path)
    return {k.removeprefix("model."): x for k, x in tensors.items() if k.startswith("model.")}


def forget_checkpoints(written: Path, keep: int) -> None:
    """Remove what the checkpoint just written makes needless.

    That is every other one of the kind "pause", and all of the kind "step" up to it but the last
    `keep`.
    """
    pauses = checkpoint_files(written.parent, "pause")
    steps = checkpoint_files(written.parent, "step")
    step = written.stem.split("-")[1]
    for file in pauses + [file for file in steps if file.stem.split("-")[1] <= step][:-keep]:
        if file != written:
            file.unlink(missing_ok=True)
