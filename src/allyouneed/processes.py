"""The processes that train one model together: how they meet, wait for each other, share it, stop.

This module is plumbing written by hand. `torchrun` starts the processes and tells each its number;
without it there is one.
"""

from __future__ import annotations

import datetime
import functools
import os
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import FrameType

import torch
from torch import distributed, nn

from allyouneed.training import Objective

PATIENCE = datetime.timedelta(minutes=10)  # with other processes, in the middle of an update
LONG_PATIENCE = datetime.timedelta(hours=2)  # with the first one, while it validates


@dataclass(frozen=True)
class Process:
    """One of the `world` processes of a run, and what it computes on."""

    rank: int = 0
    world: int = 1
    device: torch.device = torch.device("cpu")
    local_rank: int = 0  # its number on its machine

    @property
    def first(self) -> bool:
        """Whether this is the one that writes files, validates and speaks."""
        return self.rank == 0


def speaks() -> bool:
    """Whether this process will be the first one, asked before they have met."""
    return "WORLD_SIZE" not in os.environ or os.environ.get("RANK") == "0"


@contextmanager
def start_process_group() -> Iterator[Process]:
    """Join the processes that torchrun has started, and part from them on every way out.

    Outside of torchrun there is no group: the process is alone.
    """
    world, device = int(os.environ.get("WORLD_SIZE", 1)), choose_device()
    if world == 1:
        yield Process(device=device)
        return
    process = Process(int(os.environ["RANK"]), world, device, int(os.environ["LOCAL_RANK"]))
    # beside NCCL, which carries what the GPUs have, gloo for what their hosts tell each other
    engine = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    store = open_store(world)
    rank, size = (process.rank, world) if store else (-1, -1)  # else they come from torchrun, too
    distributed.init_process_group(
        engine, store=store, rank=rank, world_size=size, timeout=PATIENCE
    )
    try:
        yield process
    finally:
        patient_group.cache_clear()
        distributed.destroy_process_group()


def choose_device() -> torch.device:
    """The GPU that torchrun gives this process, which becomes the current one, or the one that is
    current already; without a GPU the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", torch.cuda.current_device())))
    torch.cuda.set_device(device)
    return device


def open_store(world: int) -> distributed.Store | None:
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


def wait_for_all() -> None:
    """Wait until every process has come here; alone, go on."""
    if distributed.is_initialized():
        distributed.barrier()


def wait_for_the_first() -> None:
    """Wait for the first process, which had work of its own; alone, go on."""
    if distributed.is_initialized():
        distributed.barrier(patient_group())


def in_any_process(flags: list[bool]) -> list[bool]:
    """Of each flag, whether it is set in any of the processes.

    Asked after every update, so it is the hosts that agree: no GPU is waited for.
    """
    if not distributed.is_initialized():
        return flags
    sums = torch.tensor(flags, dtype=torch.float32)
    distributed.all_reduce(sums)
    return (sums > 0).tolist()


@dataclass
class Stop:
    """What Ctrl-C, SIGTERM and SIGHUP ask of a loop, and whether they may break into it."""

    asked: bool = False
    at_once: bool = False


@contextmanager
def catch_signals(at_once: bool = False) -> Iterator[Stop]:
    """Ctrl-C, SIGTERM and SIGHUP set `asked`, for a loop to see, instead of breaking into it.

    With `at_once`, or while the loop has set it, they break into it all the same.
    """
    stop = Stop(at_once=at_once)

    def ask(number: int, frame: FrameType | None) -> None:
        stop.asked = True
        if stop.at_once:
            raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM, *filter(None, [getattr(signal, "SIGHUP", None)])]
    heard = [each for each in numbers if signal.getsignal(each) != signal.SIG_IGN]  # see nohup
    before = {number: signal.signal(number, ask) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
