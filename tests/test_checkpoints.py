"""Checkpoints: what goes in comes out, to the bit; and nothing else is taken for one."""

from __future__ import annotations

import errno
import os
import signal
import weakref
from pathlib import Path

import pytest
import torch
from test_distributed import run_two
from torch import distributed

from allyouneed import checkpoints
from allyouneed.checkpoints import (
    Checkpoint,
    checkpoint_files,
    checkpoint_path,
    forget_checkpoints,
    last_checkpoints,
    load_checkpoint,
    load_optimizer,
    newest_checkpoint,
    save_checkpoint,
    weights_of,
)
from allyouneed.processes import ShardedObjective, catch_signals
from allyouneed.runs import claim
from allyouneed.saving import ModelFileError, read_tensors, save_model, write_tensors
from allyouneed.tokens import Tokenizer, token_batches
from allyouneed.training import Record, adam, train
from allyouneed.transformer import Transformer, TransformerConfig

TOKENIZER = Tokenizer.train(["ein Mann, eine Frau", 'Größe "3" {} 😀'], 50)
RUN = {"settings": {"seed": 3, "data": "ä\t"}, "history": {"losses": [0.1, 2.5]}}
PAIRS = [([5, 6, 7], [8, 9]), ([9, 9], [4]), ([4], [5, 5, 5, 5])]


def model_of() -> Transformer:
    torch.manual_seed(0)
    return Transformer(TransformerConfig(len(TOKENIZER), 8, 8, 2, 1, 0.1))


def trained(steps: int):
    model = model_of()
    optimizer = adam(model)
    updates = train(model, lambda epoch: token_batches(PAIRS, 20, 0, epoch), steps, optimizer)
    return model, optimizer, [Record(), *updates][-1]


@pytest.fixture(scope="module")
def state():
    return trained(3)


def same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize("steps", [0, 3])
def test_round_trip(tmp_path, steps):
    model, optimizer, record = trained(steps)
    save_checkpoint(tmp_path / "c", model, optimizer, record, TOKENIZER, RUN)
    back = load_checkpoint(tmp_path / "c")
    assert same(back.model, dict(model.state_dict()))
    assert same(back.optimizer, optimizer.state_dict())
    assert repr(back.record) == repr(record)  # also where the loss is not yet a number
    assert back.config == model.config and back.run == RUN
    assert back.tokenizer.bpe.to_str() == TOKENIZER.bpe.to_str()
    fresh = model_of()
    fresh_optimizer = adam(fresh)
    fresh.load_state_dict(back.model)
    fresh_optimizer.load_state_dict(back.optimizer)
    assert same(fresh_optimizer.state_dict(), optimizer.state_dict())


def put_back(checkpoint: Checkpoint, shard: bool):
    """The model, optimiser and objective of a checkpoint, in one process or over all."""
    model, objective = model_of(), None
    model.load_state_dict(checkpoint.model)
    if shard:
        objective = ShardedObjective(model, 0.1, torch.float16)
        objective.spread(torch.device("cpu"))
    optimizer = adam(model)
    load_optimizer(optimizer, checkpoint.optimizer)
    return model, optimizer, objective


def train_sharded(folder: Path) -> None:
    """For one of two processes: six updates in float16, saved after three, and in two parts."""
    from torch.distributed.tensor import DTensor

    distributed.init_process_group("gloo")
    put_together, whole, alive = DTensor.full_tensor, weakref.WeakSet(), [0]

    def counted(x):
        whole.add(found := put_together(x))
        alive.append(len(whole))
        return found

    DTensor.full_tensor = counted
    for begin, ends in ((0, (0, 3, 6)), (0, (3,)), (3, (6,))):
        checkpoint = load_checkpoint(folder / f"{begin}")
        model, optimizer, objective = put_back(checkpoint, shard=True)
        record = checkpoint.record
        for end in ends:
            updates = train(
                model, lambda epoch: token_batches(PAIRS, 20, 0, epoch), end, optimizer,
                precision="fp16", after=record, objective=objective,
            )  # fmt: skip
            record = [record, *updates][-1]
            file = folder / f"{end} from {begin}"
            save_checkpoint(file, model, optimizer, record, TOKENIZER, RUN)
            if not (folder / f"{end}").exists() and distributed.get_rank() == 0:
                file.rename(folder / f"{end}")
            distributed.barrier()
    assert len(alive) > 200 and max(alive) <= 2  # the one just written, and the next
    distributed.destroy_process_group()


def test_a_sharded_run_has_the_checkpoints_of_any_other(tmp_path):
    """Whoever writes one, in however many parts the run has come so far, to the last byte."""
    model = model_of()
    save_checkpoint(tmp_path / "0", model, adam(model), Record(), TOKENIZER, RUN)
    run_two(train_sharded, tmp_path)
    for end in (0, 3, 6):
        files = [tmp_path / f"{end}", *tmp_path.glob(f"{end} from *")]
        checkpoint = load_checkpoint(files[0])
        assert len(files) == 2 and checkpoint.record.step == end
        assert checkpoint.record.skipped == (end > 0)  # the first scale is too large
        model, optimizer, _ = put_back(checkpoint, shard=False)
        save_checkpoint(tmp_path / "alone", model, optimizer, checkpoint.record, TOKENIZER, RUN)
        assert {file.read_bytes() for file in files} == {(tmp_path / "alone").read_bytes()}


def test_what_is_not_finite_is_not_written(tmp_path):
    model, optimizer, record = trained(3)
    save_checkpoint(tmp_path / "c", model, optimizer, record, TOKENIZER, RUN)
    before = (tmp_path / "c").read_bytes()
    weight = next(model.parameters())
    optimizer.state[weight]["exp_avg"].view(-1)[0] = torch.inf
    with pytest.raises(FloatingPointError, match="exp_avg: expected finite numbers after step 3"):
        save_checkpoint(tmp_path / "c", model, optimizer, record, TOKENIZER, RUN)
    assert (tmp_path / "c").read_bytes() == before


def test_a_model_is_no_checkpoint_and_the_other_way_round(tmp_path, state):
    save_model(tmp_path / "model", state[0], TOKENIZER)
    with pytest.raises(ModelFileError, match="expected 'allyouneed checkpoint 1' .* transformer 1"):
        load_checkpoint(tmp_path / "model")


def test_names_sort_by_step(tmp_path):
    for kind, step in (("step", 9), ("step", 100), ("pause", 20), ("pause", 123_456)):
        checkpoint_path(tmp_path, kind, step).touch()
    (tmp_path / "step-1.safetensors").touch()  # not one of ours
    (tmp_path / "step-00000300.safetensors.part").touch()
    steps = [int(f.stem.split("-")[1]) for f in checkpoint_files(tmp_path)]
    assert steps == [9, 20, 100, 123_456]
    assert [f.stem for f in checkpoint_files(tmp_path, "step")] == [
        "step-00000009",
        "step-00000100",
    ]


@pytest.mark.parametrize("damage", ["cut", "flip", "foreign", "empty"])
def test_the_one_before_a_damaged_one_is_taken(tmp_path, state, damage):
    model, optimizer, record = state
    for step in (1, 2):
        path = checkpoint_path(tmp_path, "step", step)
        save_checkpoint(path, model, optimizer, Record(step), TOKENIZER, RUN)
    whole = path.read_bytes()
    middle = len(whole) * 2 // 3
    path.write_bytes({
        "cut": whole[:middle],
        "flip": whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :],
        "foreign": b"PK\3\4 something else",
        "empty": b"",
    }[damage])  # fmt: skip
    file, checkpoint, troubles = newest_checkpoint(tmp_path)
    assert checkpoint.record.step == 1 and file.name == "step-00000001.safetensors"
    assert len(troubles) == 1 and "step-00000002.safetensors" in troubles[0]
    assert path.exists()  # nothing is thrown away
    files, troubles = last_checkpoints(tmp_path, 2, 5)
    assert files == [file] and len(troubles) == 1
    assert same(weights_of(file), dict(model.state_dict()))


def test_no_checkpoint(tmp_path):
    assert newest_checkpoint(tmp_path / "none") == (None, None, [])
    checkpoint_path(tmp_path, "step", 1).touch()
    assert newest_checkpoint(tmp_path)[:2] == (None, None)


def test_what_is_forgotten(tmp_path):
    def write(kind: str, step: int, keep: int) -> list[str]:
        path = checkpoint_path(tmp_path, kind, step)
        path.touch()
        forget_checkpoints(path, keep)
        return [f"{f.stem[0]}{int(f.stem.split('-')[1])}" for f in checkpoint_files(tmp_path)]

    assert write("pause", 0, 2) == ["p0"]
    assert write("step", 10, 2) == ["s10"]
    assert write("pause", 13, 2) == ["s10", "p13"]
    assert write("pause", 17, 2) == ["s10", "p17"]
    assert write("step", 20, 2) == ["s10", "s20"]
    assert write("step", 30, 2) == ["s20", "s30"]
    # gone back to 20 because 30 is damaged: what is written on the way is never removed
    assert write("pause", 25, 2) == ["s20", "p25", "s30"]
    assert write("step", 30, 2) == ["s20", "s30"]


def test_a_full_disk(tmp_path, state, monkeypatch):
    model, optimizer, record = state
    first, second = (checkpoint_path(tmp_path, "step", step) for step in (1, 2))
    save_checkpoint(first, model, optimizer, record, TOKENIZER, RUN)

    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(second, model, optimizer, record, TOKENIZER, RUN)
    assert os.listdir(tmp_path) == [first.name] and load_checkpoint(first).record == record


def test_one_run_in_a_folder(tmp_path):
    run = tmp_path / "run"
    with claim(run):
        with pytest.raises(ValueError, match="no other run is at work, got"), claim(run):
            pass
        (run / "run.json").touch()
        (run / "checkpoints" / "step-00000001.safetensors.part").touch()
    with claim(run):
        assert os.listdir(run / "checkpoints") == []


def test_nothing_is_left_of_a_run_that_wrote_nothing(tmp_path):
    with pytest.raises(KeyError), claim(tmp_path / "some" / "run"):
        raise KeyError
    assert os.listdir(tmp_path) == []
    (tmp_path / "run").mkdir()  # the reader's
    with claim(tmp_path / "run"):
        pass
    assert os.listdir(tmp_path) == ["run"] and os.listdir(tmp_path / "run") == []
    with pytest.raises(KeyError), claim(tmp_path / "run"):
        (tmp_path / "run" / "run.json").touch()
        raise KeyError
    assert {".lock", "run.json"} < set(os.listdir(tmp_path / "run"))


STOPS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


@pytest.mark.parametrize("number", STOPS)
def test_signals_wait(number, request):
    before = signal.signal(number, signal.default_int_handler)  # under nohup it is ignored
    request.addfinalizer(lambda: signal.signal(number, before))
    usual = signal.getsignal(number)
    with catch_signals() as stop:
        signal.raise_signal(number)
        signal.raise_signal(number)  # torchrun passes them on twice
        assert stop.asked
        stop.at_once = True
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is usual


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_before_the_first_checkpoint_leaves_nothing(tmp_path, number, request):
    before = signal.signal(number, lambda number, frame: None)
    request.addfinalizer(lambda: signal.signal(number, before))
    with pytest.raises(KeyboardInterrupt), claim(tmp_path / "run"):
        signal.raise_signal(number)
    assert os.listdir(tmp_path) == []


def test_nothing_is_unpickled():
    text = open(checkpoints.__file__, encoding="utf-8").read()
    assert "torch.load(" not in text and "pickle.load" not in text


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("model.embedding.weight", "model.embedding.weight"),
        ("optimizer.0.exp_avg", r"optimizer.0.exp_avg \(of embedding.weight\)"),
    ],
)
def test_a_shape_that_does_not_fit_is_named(tmp_path, name, told):
    tokenizer = Tokenizer.train(["some small text"], 40)
    model = Transformer(TransformerConfig(len(tokenizer), 8, 8, 2, 1))
    optimizer = adam(model)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    save_checkpoint(tmp_path / "whole", model, optimizer, Record(1), tokenizer, {})
    metadata, tensors = read_tensors(tmp_path / "whole", checkpoints.CHECKPOINT_FORMAT)
    V = len(tokenizer)
    write_tensors(tmp_path / "cut", tensors | {name: tensors[name][1:]}, metadata)
    with pytest.raises(
        ModelFileError, match=rf"{told}: expected shape \({V}, 8\), got \({V - 1}, 8"
    ):
        load_checkpoint(tmp_path / "cut")
    write_tensors(tmp_path / "less", {k: x for k, x in tensors.items() if k != name}, metadata)
    with pytest.raises(ModelFileError, match=f"{told}: expected it .*, got none"):
        load_checkpoint(tmp_path / "less")
