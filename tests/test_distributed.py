"""Several processes make the weights of one, whatever happens to them on the way.

Every launch costs seconds, so each tries several things. Nothing waits for ever.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import killed
import psutil
import pytest
import torch
from torch import distributed
from torch.distributed import run as launcher
from torch.distributed.distributed_c10d import BackendConfig

from allyouneed import __main__, command, runs
from allyouneed.checkpoints import Checkpoint, checkpoint_files, load_checkpoint
from allyouneed.processes import in_any_process, start_process_group
from allyouneed.settings import recorded_settings
from allyouneed.training import Record, dtype_of

MODULE = __main__.__file__


def trained(
    accumulate: int, precision: str = "fp32", shard: bool = False
) -> tuple[torch.Tensor, list[tuple]]:
    """Five batches an epoch, so that the last group of an epoch is uneven, or short for one."""
    from allyouneed.checkpoints import gather
    from allyouneed.processes import ShardedObjective
    from allyouneed.tokens import BOS, EOS, Batch, pad
    from allyouneed.training import train
    from allyouneed.transformer import Transformer, TransformerConfig

    draws = torch.Generator().manual_seed(0)

    def words(length: int) -> list[int]:
        return torch.randint(EOS + 1, 20, (length,), generator=draws).tolist()

    batches = [
        Batch(pad([[*words(n), EOS] for n in (2, m)]), pad([[BOS, *words(n), EOS] for n in (m, 1)]))
        for m in (3, 5, 4, 7, 2)
    ]
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(20, 8, 16, 2, 1, dropout=0.0))
    objective = None
    if shard:
        objective = ShardedObjective(model, 0.1, dtype_of(precision))
        objective.spread(torch.device("cpu"))
    records = train(
        model, lambda epoch: batches, 7, schedule=lambda step: 1e-3, precision=precision,
        accumulate=accumulate, max_norm=1.0, after=Record(scale=2.0**10), objective=objective,
    )  # fmt: skip
    told = [(r.step, r.epoch, r.batch, r.tokens, r.loss, r.norm) for r in records]
    return torch.cat([x.flatten() for _, x in gather(model.state_dict())]), told


def train_in_every_way(folder: Path) -> None:
    """For one of two processes: a training for each `accumulate`, and one with the model spread
    over both for each half precision."""
    distributed.init_process_group("gloo")
    ways = dict(two=(1,), four=(2,), bf16=(1, "bf16", True), fp16=(1, "fp16", True))
    for name, way in ways.items():
        found = trained(*way)
        if distributed.get_rank() == 0:
            torch.save(found, folder / name)
    distributed.destroy_process_group()


def assert_close(one, other):
    torch.testing.assert_close(one[0], other[0], rtol=1e-3, atol=1e-5)
    assert [r[:4] for r in one[1]] == [r[:4] for r in other[1]]
    torch.testing.assert_close(
        torch.tensor([r[4:] for r in one[1]]), torch.tensor([r[4:] for r in other[1]]),
        rtol=1e-3, atol=1e-5,
    )  # fmt: skip


def run_two(work: Callable, *args) -> str:
    """Run `work(*args)` in two processes, as torchrun does but without its seconds of imports;
    what both print. Both must come to the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, rank) for rank in "01"]
        processes = []
        for file in files:
            place = {"WORLD_SIZE": "2", "RANK": file.name, "LOCAL_RANK": file.name, **address}
            processes.append(killed.start(_one_of_two, place, work, args, says=file))
        for process in processes:
            assert not killed.was_killed(process)
        said = "".join(file.read_text(encoding="utf-8") for file in files)
    assert [process.exitcode for process in processes] == [0, 0], said
    return said


def _one_of_two(place: dict[str, str], work: Callable, args: tuple) -> None:
    os.environ.update(place)
    work(*args)


def torchrun(*words: object, processes: int = 2) -> subprocess.Popen:
    """Start processes; they have a limit on waiting of their own."""
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone",
           "--nproc-per-node", processes]  # fmt: skip
    return subprocess.Popen(
        list(map(str, [*run, *words])), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        encoding="utf-8", env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True,
    )  # fmt: skip


def ended(process: subprocess.Popen, code: int = 0) -> str:
    """What the processes say; an error if one of them fails, or all wait for each other."""
    try:
        said, _ = process.communicate(timeout=300)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == code, said
    return said


def test_two_processes_are_as_one(tmp_path):
    """Also in half precision, each with half of the model."""
    run_two(train_in_every_way, tmp_path)
    for name, accumulate in (("two", 2), ("four", 4)):
        assert_close(torch.load(tmp_path / name, weights_only=True), trained(accumulate))
    exact = trained(2)
    for precision in ("bf16", "fp16"):
        spread = torch.load(tmp_path / precision, weights_only=True)
        rounding = torch.finfo(dtype_of(precision)).eps
        numbers = [torch.tensor([r[4:] for r in one[1]]) for one in (spread, exact)]
        torch.testing.assert_close(*numbers, rtol=8 * rounding, atol=0)
        assert not torch.equal(*numbers)  # float32 would be closer
        way = 7 * 1e-3 * len(exact[0]) ** 0.5  # about as far as Adam has come
        assert (spread[0] - exact[0]).norm() < 0.1 * way


def update_on_pretended_gpus() -> None:
    """For one of two processes: an update, and what a run asks the others after it."""
    from pretend import pretended
    from test_pretend import Book, a_model, batches

    distributed.init_process_group("gloo")
    book = Book()
    with pretended("H200", (9, 0)) as gpu:
        updates = book.training.train(
            a_model(book, "cuda"), partial(batches, book), 9, precision="bf16"
        )
        next(updates), next(updates)
        gpu.reset()
        next(updates)
        assert in_any_process([distributed.get_rank() == 1, False]) == [True, False]
        launches, waits = gpu.launches.copy(), gpu.waits.copy()
        updates.close()
    sent = {name.split(" at ")[0] for name in launches if name.startswith("c10d")}
    assert sent == {"c10d::allreduce_"}, sent  # gradients and losses; no buffers
    assert not waits, waits
    distributed.destroy_process_group()


def test_an_update_of_two_processes_sends_gradients_and_waits_for_no_gpu():
    run_two(update_on_pretended_gpus)


def test_gpus_talk_by_nccl_and_their_hosts_by_gloo(monkeypatch):
    joined = []
    for name, value in dict(WORLD_SIZE="2", RANK="1", LOCAL_RANK="1").items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    monkeypatch.setattr(
        distributed, "init_process_group", lambda engine, **_: joined.append(engine)
    )
    monkeypatch.setattr(distributed, "destroy_process_group", lambda: None)
    for device in ("cuda", "cpu"):
        here = torch.device(device)
        monkeypatch.setattr("allyouneed.processes.choose_device", lambda here=here: here)
        with start_process_group() as process:
            assert (process.rank, process.world, process.device.type) == (1, 2, device)
    carriers = [BackendConfig(distributed.Backend(engine)).device_backend_map for engine in joined]
    assert carriers[0] == {"cpu": "gloo", "cuda": "nccl"} and carriers[1]["cpu"] == "gloo"


# On the command line: an update is always four batches, whoever computes them.


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> Path:
    """A folder of shards, prepared of sentences and the same words backwards."""
    from test_shards import published

    folder = tmp_path_factory.mktemp("distributed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALLYOUNEED_DATA", str(published(folder / "wmt", 400)))
        patch.setenv("HF_HUB_OFFLINE", "1")
        assert command.main(["prepare", "--data", "wmt14-en-de", "--out", f"{folder}/shards"]) == 0
    return folder / "shards"


@pytest.fixture(scope="module")
def config(shards) -> Path:
    """The settings of all runs."""
    file = shards.parent / "settings.toml"
    file.write_text(
        f'data = "{shards}"\nd-model = 8\nd-ff = 8\nheads = 2\nlayers = 1\ndropout = 0\n'
        "learning-rate = 0.002\nwarmup = 10\nbatch-tokens = 200\nupdate-batches = 4\n"
        'precision = "fp32"\nsteps = 32\n'
        "validate-every = 8\naverage = 2\nkeep = 9\nthreads = 1\nmax-norm = 1\n",
        "utf-8",
    )
    return file


@pytest.fixture(scope="module")
def alone(config, tmp_path_factory) -> Path:
    """The run of one process that nothing disturbs."""
    out, threads = tmp_path_factory.mktemp("alone") / "run", torch.get_num_threads()
    assert command.main(["train", "--config", str(config), "--out", str(out)]) == 0
    torch.set_num_threads(threads)
    return out


def newest(run: Path) -> Checkpoint:
    return load_checkpoint(checkpoint_files(run / "checkpoints")[-1])


def assert_same_run(one: Path, other: Path) -> None:
    """The same weights, state of Adam, losses and scores, but for rounding."""
    a, b = newest(one), newest(other)
    assert (a.record.step, a.record.epoch, a.record.batch, a.record.tokens) == (
        b.record.step, b.record.epoch, b.record.batch, b.record.tokens
    )  # fmt: skip
    close = {"rtol": 1e-3, "atol": 1e-5}
    assert a.model.keys() == b.model.keys()
    for name in a.model:
        torch.testing.assert_close(a.model[name], b.model[name], **close)
    for i, state in a.optimizer["state"].items():
        for name, x in state.items():
            torch.testing.assert_close(x, b.optimizer["state"][i][name], **close)
    histories = [json.loads((run / "history.json").read_text("utf-8")) for run in (one, other)]
    torch.testing.assert_close(*(torch.tensor(h["losses"]) for h in histories), rtol=0, atol=1e-3)
    rows = [[(row["step"], row["epoch"]) for row in h["rows"]] for h in histories]
    assert rows[0] == rows[1]


def workers(agent) -> list[int]:
    """The process ids of what an agent of torchrun has started, by rank."""
    return sorted(child.pid for child in psutil.Process(agent.pid).children())


def started_anew(agent, dead: set[int]) -> bool:
    """Whether both ranks run, in processes that are not those of before."""
    running = workers(agent)
    return len(running) == 2 and dead.isdisjoint(running)


def wait_for(agent, happens) -> None:
    """Wait until something happens, as long as the agent runs."""
    end = time.monotonic() + 240
    while not happens() and agent.is_alive() and time.monotonic() < end:
        time.sleep(0.02)


@pytest.mark.skipif(sys.platform != "linux", reason="forks processes that import much")
def test_killed_processes_are_started_again(config, alone, tmp_path):
    """First the second process dies, then the first; the last steps are of a third start.

    torchrun forks its processes, so that none of the six has its seconds of imports.
    """
    out, said, steps, dead = tmp_path / "run", tmp_path / "said", [], set()
    run = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "3"]
    run += ["--start-method", "fork", "--run-path", MODULE]
    # the same command begins and goes on
    run += ["train", "--config", str(config), "--out", str(out), "--resume"]
    agent = killed.start(launcher.main, run, says=said)
    for rank, step in ((1, 8), (0, 16)):
        file = out / "checkpoints" / f"step-{step:08}.safetensors"
        wait_for(agent, file.exists)
        wait_for(agent, lambda: started_anew(agent, dead))
        running = workers(agent)
        os.kill(running[rank], signal.SIGKILL)
        dead.update(running)
        steps.append(newest(out).record.step)
    assert not killed.was_killed(agent)
    said = said.read_text(encoding="utf-8")
    assert agent.exitcode == 0, said
    assert steps[-1] < 32 and said.count("Going on from") == 2 and said.count("Best: BLEU") == 1
    assert_same_run(out, alone)


@pytest.mark.weekly
def test_each_time_on_another_number_of_processes(config, alone, tmp_path):
    """Two sharded processes for 8 steps, then one, and four: the run of one."""
    out, threads = tmp_path / "run", torch.get_num_threads()
    words = ["train", "--config", str(config), "--out", str(out), "--resume", "--steps"]
    said = ended(torchrun("-m", "allyouneed", *words, 8, "--shard"))
    assert said.count("Best: BLEU") == 1  # only the first process speaks
    shares = [newest(out).run["settings"]["accumulate"]]
    assert command.main([*words, "16", "--no-shard"]) == 0
    torch.set_num_threads(threads)
    shares.append(newest(out).run["settings"]["accumulate"])
    ended(torchrun("-m", "allyouneed", *words, 32, processes=4))
    shares.append(newest(out).run["settings"]["accumulate"])
    assert shares == [2, 4, 1]
    assert_same_run(out, alone)


def train_and_part(code: int, words: list[str]) -> None:
    """For one of two processes: the command, which asks itself to stop after the second step."""
    real = runs.train

    def interrupted(*args, **kwargs):
        for record in real(*args, **kwargs):
            assert distributed.get_world_size() == 2
            if record.step == 2:
                signal.raise_signal(signal.SIGINT)
            yield record

    runs.train = interrupted
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    assert command.main(words) == code
    assert not distributed.is_initialized()


@pytest.mark.parametrize("code, words", [(2, ["--heads", 3]), (130, []), (0, ["--steps", 1])])
def test_the_process_group_is_left_on_every_way_out(config, tmp_path, code, words):
    """After an error, when asked to stop, at the end."""
    words = ["train", "--config", config, "--out", tmp_path / "run", *words]
    said = run_two(train_and_part, code, list(map(str, words)))
    known = {2: "--heads: expected a divisor", 130: "Stopped after step 2", 0: "Best: BLEU"}
    assert said.count(known[code]) == 1  # only the first process speaks


def test_who_takes_how_many_batches(alone):
    before = recorded_settings(newest(alone).run["settings"]).update_batches
    share = runs.share_batches
    assert share(2, update_batches=8) == {"update_batches": 8, "accumulate": 4}
    assert share(2, accumulate=3) == {"update_batches": 6, "accumulate": 3}
    assert share(1)["update_batches"] == 1
    old = recorded_settings({"processes": 3, "accumulate": 2})  # of an older version
    assert share(2, before=old.update_batches) == {"update_batches": 6, "accumulate": 3}
    for chosen, world, named in (
        ({}, 3, "update_batches: 3 processes cannot share the 4 batches of an update evenly"),
        ({"accumulate": 3}, 2, "accumulate: expected 2, the share of each of 2 processes"),
        ({"update_batches": 8}, 2, "update_batches: this run began with 4, got 8"),
    ):
        with pytest.raises(ValueError, match=named):
            share(world, **chosen, before=before)
