"""A GPU for tests that computes on the CPU, and minds where its tensors are.

Inside of `pretended()`, `torch.cuda` finds a GPU. What is moved to it stays in the CPU's memory,
but its storage carries a tag. Views share the storage, and a dispatch mode, which sees every
operation, those of the backward pass too, tags what comes of tagged tensors. They say `cuda:0`,
become no NumPy array, and do not meet tensors of the CPU. Launches and waits of the host are
counted, each with the line of our code that it comes from, in threads that begin inside of it too.
What is copied from the GPU without waiting cannot be read before the host has waited for something,
and what is copied to it from pinned memory not be overwritten; other memory has to be waited for.
A clock that measures cannot be read while the GPU has work that the host has not waited for.
What was made in one stream is used in another one only after a wait for the first.
Not so as on a GPU: autocast follows the CPU's list, `torch.compile` does nothing, and attention
with dropout is many launches.

python tests/pretend.py 6 project  runs the cells of chapter 6 and of the project on it
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, contextmanager, nullcontext
from dataclasses import replace
from functools import cache, wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, serialization
from torch._C import _functorch as functorch
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.nn.attention import flex_attention
from torch.utils._device import DeviceContext, _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ROOT = Path(__file__).parents[1]
SMALL = dict(d_model=16, d_ff=16, heads=2, layers=1, vocabulary=300, batch_tokens=200_000, epochs=1)
CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
# The tag of what PyTorch makes for itself, inside of an operation: it goes where it is used first
EITHER = object()

MIXED = "Expected all tensors to be on the same device, but found at least two devices, "
MIXED += "cuda:0 and cpu! (in {})"
INDEX = "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
NUMPY = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
NUMPY += "host memory first."
LENGTHS = "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor"
PINNED = "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned"
NO_PINS = "Only dense CPU tensors can be pinned"
GRID = "torch.meshgrid expects all tensors to have the same device"
NO_STATE = "RNG state must be a torch.ByteTensor"
DLPACK = "Unsupported device in DLTensor."
OTHER_GRAD = "assigned grad has data located on a different device"
GRADIENT = "invalid gradient at index {} - expected device {} but got {}"
ORDINAL = "CUDA error: invalid device ordinal"
GENERATOR = "Expected a '{}' device type for generator but found '{}'"
NO_PRODUCT = "\"{}_cuda\" not implemented for '{}'"
ONLY_CPU = "{} is only implemented on CPU tensors"
NO_KERNEL = "Could not run 'aten::{}' with arguments from the 'CUDA' backend."
SPLIT = "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on cuda:0"
FORKED = "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
FORKED += "must use the 'spawn' start method"
LATE = "read before the GPU has written it: a copy with non_blocking=True, and no wait since"
EARLY = "written before the GPU has read it: a copy with non_blocking=True, and no wait since"
STREAM = "made in another stream, which nobody has waited for since"
BUSY = "{} is read while the GPU may still be at work (launched at {}, and no wait since)"

COMPOSITE = "CompositeImplicitAutograd"  # how PyTorch calls an operation that is made of others
# Operations that launch nothing; that the host waits for; that may go from one device to the other
FREE = {"_unsafe_view", "_local_scalar_dense", "lift_fresh", "lift", "set_"}
WAIT = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "bincount", "multinomial"}
WAIT |= {"_unique", "_unique2", "unique_dim", "unique_consecutive", "repeat_interleave"}
WAIT |= {"allclose", "_linalg_check_errors", "_linalg_svd", "linalg_eig", "linalg_lstsq"}
FILL = {"masked_fill", "masked_fill_", "index_fill", "index_fill_"}  # they read what they fill in
CROSS = {"copy_", "fill_", "_foreach_copy_", "set_", "_pack_padded_sequence"}
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot"}  # of floating-point numbers only
INDEXING = {"index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_"}
# Operations that forgive not even a CPU tensor without axes
STRICT = {"cat", "stack", "gather", "index_select", "embedding", "equal", "scatter", "scatter_"}
STRICT |= {"_fused_adam_", "_fused_adamw_", "scatter_add_", "index_add_", "mm", "bmm", "addmm"}

CLOCKS = ["perf_counter", "perf_counter_ns", "time", "time_ns"]
LIKE = "zeros_like ones_like full_like empty_like rand_like randn_like randint_like".split()
NEW = "new new_tensor new_zeros new_ones new_full new_empty new_empty_strided".split()
READ = {"tensor", "as_tensor", "asarray", "new_tensor"}  # they copy what the host has
# Files that are not ours: Python's, and those of installed packages
THEIRS = (*(str(Path(file).parent) for file in (os.__file__, torch.__path__[0])), __file__, "<")


@cache
def ours(file: str) -> str:
    """The name of a file of our code, without its folders; nothing for others."""
    return "" if file.startswith(THEIRS) else Path(file).name


def place() -> str:
    """The file and line of our code that is at work."""
    frame = sys._getframe(1)
    while frame and not ours(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{ours(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else "?"


def tensors(found: Any) -> Iterator[Tensor]:
    """The tensors among the arguments or the results of an operation, also those in lists."""
    if isinstance(found, Tensor):
        yield found
    elif isinstance(found, list | tuple):
        for one in found:
            yield from tensors(one)


class Operation:
    """What the schema of an operation says."""

    def __init__(self, func: Any):
        schema = func._schema
        self.name = schema.name.removeprefix("aten::")
        self.composite = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), COMPOSITE)
        # the arguments that it writes into, by place and by name
        self.writes = [(i, a.name) for i, a in enumerate(schema.arguments) if a.is_write]
        self.view = any(r.alias_info and not r.alias_info.is_write for r in schema.returns)
        self.free = self.view or self.name in FREE
        self.free |= self.name.startswith(("empty", "new_empty"))  # launches nothing

    def written(self, args: tuple, kwargs: dict) -> list[Tensor]:
        """The tensors that it writes into."""
        found = [args[i] if i < len(args) else kwargs.get(name) for i, name in self.writes]
        return list(tensors(found))


described = cache(Operation)


def on_gpu(device: Any) -> bool:
    """Whether a device, or its name or number, is the GPU. RuntimeError for a second one."""
    device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if device.type == "cuda" and device.index:
        raise RuntimeError(ORDINAL)
    return device.type == "cuda"


class State(threading.local):
    """What a thread is doing: making tensors as asked, on the GPU, or what is not to be counted."""

    asked = making = quiet = False
    stream: Done | None = None  # its current stream; None is the default one


class Move(torch.autograd.Function):
    """From one device to the other; the gradient goes back."""

    @staticmethod
    def forward(ctx, x, gpu, here, non_blocking):
        ctx.back = gpu, not here, non_blocking
        return gpu.copied(x, here, non_blocking)

    @staticmethod
    def backward(ctx, grad):
        return Move.apply(grad, *ctx.back), None, None, None


class Pretended(TorchDispatchMode):
    """The GPU: which tensors it holds, and what it was asked to do.

    `launches` and `waits` count operations, and waits of the host, by name and place.
    """

    def __init__(self, name: str, capability: tuple[int, int], memory: int):
        super().__init__()
        self.name, self.capability, self.memory = name, capability, memory
        self.launches: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.generators: dict[int, torch.Generator] = {}  # its own, by address
        self.late: list[torch.UntypedStorage] = []  # of the CPU, not written yet
        self.early: list[torch.UntypedStorage] = []  # of the CPU, not read yet
        self.busy = ""  # where it was last given work, if the host has not waited since
        self.process = os.getpid()
        self.done = type("Done", (Done,), {"gpu": self})  # its streams and events
        self.default = self.done()
        self.waited = 0  # times that the host has waited for all streams
        self.state = State()

    def reset(self) -> None:
        """Count anew."""
        self.launches.clear(), self.waits.clear()

    @property
    def stream(self) -> Done:
        """The current stream of the thread."""
        return self.state.stream or self.default

    @contextmanager
    def in_stream(self, stream: Done | None) -> Iterator[None]:
        """Work in a stream; None changes nothing."""
        with self.now(stream=stream or self.state.stream):
            yield

    def set_stream(self, stream: Done) -> None:
        self.state.stream = stream

    def made(self, x: Tensor) -> None:
        """A tensor of the GPU comes from the current stream."""
        stream = self.stream
        x.untyped_storage().made = stream, stream.waited, self.waited

    def check_stream(self, x: Tensor) -> None:
        """Raise RuntimeError for a tensor of another stream, if nobody has waited for that."""
        stream, waited, for_all = getattr(x.untyped_storage(), "made", (self.stream, 0, 0))
        if stream is not self.stream and (waited, for_all) == (stream.waited, self.waited):
            raise RuntimeError(STREAM)

    def synchronize(self, device: Any = None) -> None:
        """The host waits for all streams."""
        self.waited += 1
        self.wait("synchronize")

    def wait(self, why: str) -> None:
        """The host waits, after which all that was on its way is there."""
        self.stream.waited += 1
        self.waits[f"{why} at {place()}"] += 1
        self.busy = ""
        for storage in self.late:
            storage.late = False
        for storage in self.early:
            storage.early = False
        self.late.clear(), self.early.clear()

    def launch(self, what: str) -> None:
        """The GPU is given work."""
        self.busy = place()
        self.launches[f"{what} at {self.busy}"] += 1

    def clock(self, name: str, real: Callable[[], float]) -> Callable[[], float]:
        """A clock that our code may read when the GPU has nothing to do."""

        def read():
            if self.busy and ours(sys._getframe(1).f_code.co_filename):
                raise RuntimeError(BUSY.format(name, self.busy))
            return real()

        return read

    def send(self, x: Tensor) -> bool:
        """Whether the host must wait until a tensor of the CPU is on its way.

        Memory that is pinned is read later: what is there may not change before the host waits.
        """
        if not x.is_pinned():
            return True
        self.early.append(x.untyped_storage())
        self.early[-1].early = True
        return False

    def leave(self, x: Tensor) -> None:
        """A tensor of the CPU is not written before the host waits."""
        self.late.append(x.untyped_storage())
        self.late[-1].late = True

    def read(self, *tensors: Tensor) -> None:
        """Raise RuntimeError if one of them is not written yet."""
        if self.late and any(getattr(x.untyped_storage(), "late", False) for x in tensors):
            raise RuntimeError(LATE)

    def write(self, tensors: list[Tensor]) -> None:
        """Raise RuntimeError if one of them is still to be read by the GPU."""
        if any(getattr(x.untyped_storage(), "early", False) for x in tensors):
            raise RuntimeError(EARLY)

    def check_process(self) -> None:
        """Raise RuntimeError in a copy of the process that has begun to use the GPU."""
        if os.getpid() != self.process:
            raise RuntimeError(FORKED)

    @contextmanager
    def now(self, **state: bool) -> Iterator[None]:
        """A piece of work during which the thread's state is so."""
        before = {key: getattr(self.state, key) for key in state}
        vars(self.state).update(state)
        try:
            yield
        finally:
            vars(self.state).update(before)

    def tag(self, x: Any) -> Any:
        """The GPU if a tensor is on it, EITHER, or something else."""
        while isinstance(x, Tensor) and functorch.is_functorch_wrapped_tensor(x):
            x = functorch.get_unwrapped(x)  # what torch.func wraps lies where its inside lies
        try:
            return getattr(x.untyped_storage(), "pretended", None)
        except (AttributeError, NotImplementedError, RuntimeError):  # no tensor, or no storage
            return None

    def holds(self, x: Any) -> bool:
        """Whether a tensor is on the GPU."""
        return self.tag(x) is self

    def put(self, x: Tensor, here: Any) -> Tensor:
        """The tensor itself, from now on the GPU's, the CPU's or EITHER's."""
        if here is True and not self.holds(x):  # else it may be a view
            self.made(x)
        if here or self.holds(x):
            x.untyped_storage().pretended = self if here is True else here
        return x

    def copied(self, x: Tensor, here: bool, non_blocking: bool) -> Tensor:
        """A copy on the GPU or on the CPU, without a gradient."""
        self.check_process()
        if not here:
            self.check_stream(x)
        with self.now(quiet=True):
            copy = x.detach().clone()
        what = f"copy to {GPU if here else CPU}"
        self.launch(what)
        if not non_blocking or here and self.send(x):
            self.wait(what)
        elif not here:
            self.leave(copy)
        return self.put(copy, here)

    def move(self, x: Tensor, here: bool, non_blocking: bool = False) -> Tensor:
        """The tensor if it is there already, else a copy."""
        if self.holds(x) == here:
            return x
        if x.requires_grad and torch.is_grad_enabled():
            return Move.apply(x, self, here, non_blocking)
        return self.copied(x, here, non_blocking)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.state.quiet:
            return func(*args, **kwargs)
        if (operation := described(func)).composite:
            with self:  # in inference mode it comes whole; outside, those that it is made of come
                return func._op_dk(getattr(torch._C.DispatchKey, COMPOSITE), *args, **kwargs)
        name, given = operation.name, [*tensors(args), *tensors([*kwargs.values()])]
        written = operation.written(args, kwargs)
        self.read(*given)
        free = [x for x in given if self.tag(x) is EITHER]
        here = any(map(self.holds, given))
        if here:
            self.check_process()
            for x in free:
                self.put(x, True)
            self.check(name, args, given, written)
            for x in filter(self.holds, given):
                if not operation.view:
                    self.check_stream(x)
        if self.early:
            self.write(written)
        here |= self.state.making
        generator = kwargs.get("generator")
        if generator is not None and (generator._cdata in self.generators) != here:
            raise RuntimeError(GENERATOR.format(*(("cuda", "cpu") if here else ("cpu", "cuda"))))
        if here:
            self.count(operation, args, kwargs)
        out = func(*args, **kwargs)
        if here:
            for x in filter(self.holds, written):
                self.made(x)
        if here or len(free) == len(given) and not self.state.asked:
            fresh = [*tensors(out)]
            # the second result of this one stays on the CPU
            for x in fresh[:1] if name == "_pack_padded_sequence" else fresh:
                if not any(x is one for one in given):
                    self.put(x, here or EITHER)
        return out

    def check(self, name: str, args: tuple, given: list[Tensor], written: list[Tensor]) -> None:
        """Raise RuntimeError if an operation meets tensors of both devices that may not meet."""
        if name == "_pack_padded_sequence" and self.holds(args[1]):
            raise RuntimeError(LENGTHS)
        if name in CROSS:
            return
        if name.startswith(("histogram", "_histogramdd")):
            raise NotImplementedError(NO_KERNEL.format(name))
        if name in PRODUCTS and not given[0].is_floating_point():
            kind = str(given[0].dtype).removeprefix("torch.")
            kind = {"int64": "Long", "int32": "Int"}.get(kind, kind.capitalize())
            raise NotImplementedError(NO_PRODUCT.format(name, kind))
        if name in INDEXING:
            if not self.holds(args[0]) and any(map(self.holds, args[1])):
                raise RuntimeError(INDEX)
            given = [args[0], *args[2:3]]  # the GPU takes indices from the CPU
            if not self.holds(args[0]) and args[2].dim() == 0:
                return
        for x in given:
            strict = name in STRICT or x.dim() or any(x is w for w in written)
            if strict and not self.holds(x):
                raise RuntimeError(MIXED.format(name))

    def count(self, operation: Operation, args: tuple, kwargs: dict) -> None:
        """Note a launch, if it is none of views or of memory, and whether the host waits for it."""
        name = operation.name
        if not operation.free:
            self.launch(name)
        waits = name in WAIT and kwargs.get("output_size") is None
        if name in INDEXING:
            indices = [i for i in args[1] if i is not None]
            one = len(args) > 2 and args[2].dim() == 0 and not self.holds(args[2])
            # a number is filled in where a mask is True; other masks become indices
            waits = not one and any(i.dtype in (torch.bool, torch.uint8) for i in indices)
            waits |= self.holds(args[0]) and any(i.dim() and not self.holds(i) for i in indices)
        elif name == "copy_" and self.holds(args[0]) != self.holds(args[1]):
            waits = not (args[2] if len(args) > 2 else kwargs.get("non_blocking"))
            if not waits and self.holds(args[1]):
                self.leave(args[0])
            elif not waits:
                waits = self.send(args[1])
        elif name == "fill_":
            waits = self.holds(args[1]) and not self.holds(args[0])
        elif name in FILL:
            waits = self.holds(args[-1])
        elif name == "histc":
            waits = len(set(args[2:])) < 2  # it looks for the bounds itself
        if waits:
            self.wait(name)


def of_tensors(gpu: Pretended) -> dict[str, Any]:
    """What `torch.Tensor` says and does about devices."""
    names = [*NEW, "to", "type", "numpy", "tolist", "__deepcopy__", "__dlpack__", "apply_", "map_"]
    real, real_device = {name: getattr(Tensor, name) for name in names}, Tensor.device
    real_grad = Tensor.grad

    def device(x):
        return GPU if gpu.holds(x) else real_device.__get__(x)

    def to(x, *args, copy=False, **kwargs):
        other = args[0] if args else kwargs.pop("other", None)
        if isinstance(other, Tensor):
            args = (device(other), other.dtype, *args[1:])
        where, dtype, non_blocking, form = torch._C._nn._parse_to(*args, **kwargs)
        if where is not None and where.type not in ("cuda", "cpu"):
            return real["to"](x, *args, copy=copy, **kwargs)
        y = x if where is None else gpu.move(x, on_gpu(where), non_blocking)
        options = {} if form is None else {"memory_format": form}
        return real["to"](y, dtype or y.dtype, copy=copy and y is x, **options)

    def kind(x, dtype=None, non_blocking=False):
        if dtype is None:
            name = real["type"](x)
            return name.replace("torch.", "torch.cuda.") if gpu.holds(x) else name
        if isinstance(dtype, torch.dtype):
            return to(x, dtype)
        name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
        y = gpu.move(x, "cuda." in name, non_blocking)
        return real["type"](y, name.replace("cuda.", ""))

    def numpy(x, *, force=False):
        if gpu.holds(x) and not force:
            raise TypeError(NUMPY)
        gpu.read(x)
        return real["numpy"](gpu.move(x.detach(), False) if force else x)

    def tolist(x):
        gpu.read(x)
        if gpu.holds(x):
            gpu.wait("tolist")
        with gpu.now(quiet=True):
            return real["tolist"](x)

    def dlpack(x, **kwargs):
        if gpu.holds(x):
            raise RuntimeError(DLPACK)
        return real["__dlpack__"](x, **kwargs)

    def set_grad(x, grad):
        if grad is not None and gpu.holds(x) != gpu.holds(grad):
            raise RuntimeError(OTHER_GRAD)
        real_grad.__set__(x, grad)

    def pin_memory(x, device=None):
        if gpu.holds(x):
            raise RuntimeError(PINNED)
        pinned = x.clone()
        pinned.untyped_storage().pinned = True
        return pinned

    def on_cpu_only(name):
        def work(x, *args):
            if gpu.holds(x):
                raise TypeError(ONLY_CPU.format(name))
            return real[name](x, *args)

        return work

    return {
        **{name: factory(gpu, real[name]) for name in NEW},
        **{name: on_cpu_only(name) for name in ("apply_", "map_")},
        "tensor_split": splitter(gpu, Tensor.tensor_split),
        "device": property(device),
        "grad": property(real_grad.__get__, set_grad, real_grad.__delete__),
        "is_cuda": property(gpu.holds),
        "is_cpu": property(lambda x: device(x) == CPU),
        "get_device": lambda x: 0 if gpu.holds(x) else -1,
        "to": to,
        "type": kind,
        "type_as": to,
        "cuda": lambda x, device=None, non_blocking=False, **_: gpu.move(
            x, on_gpu(GPU if device is None else device), non_blocking
        ),
        "cpu": lambda x, **_: gpu.move(x, False),
        "numpy": numpy,
        "tolist": tolist,
        "__dlpack__": dlpack,
        "pin_memory": pin_memory,
        "is_pinned": lambda x, device=None: hasattr(x.untyped_storage(), "pinned"),
        "record_stream": lambda x, stream: None,
        "__deepcopy__": lambda x, memo: gpu.put(real["__deepcopy__"](x, memo), gpu.holds(x)),
    }


def factory(gpu: Pretended, real: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function that makes tensors, on the GPU too."""
    name = real.__name__

    @wraps(real)
    def make(*args, device=None, pin_memory=False, **kwargs):
        read = args[-1] if args and name in READ else None
        if device is None and args and isinstance(args[0], Tensor) and name in {*READ, *NEW}:
            device = args[0].device
        if isinstance(read, Tensor) and name != "tensor":
            return read.to(device, kwargs.get("dtype") or read.dtype)
        for x in tree_leaves(read):
            if gpu.holds(x) and x is not read:  # a list of numbers that the GPU has
                gpu.wait("item")
        where = None if device is None else torch.device(device)
        if pin_memory and (where is None or where == CPU):
            return make(*args, device=device, **kwargs).pin_memory()
        if where is None or where.type not in ("cuda", "cpu"):
            with gpu.now(asked=True):
                return real(*args, **kwargs, **({} if where is None else {"device": where}))
        here = on_gpu(where)
        if here and pin_memory:
            raise RuntimeError(NO_PINS)
        if here and read is not None and not gpu.holds(read):
            gpu.wait(f"copy to {GPU}")
        with gpu.now(asked=True, making=here):
            return gpu.put(real(*args, device=CPU, **kwargs), here)

    return make


def splitter(gpu: Pretended, real: Callable[..., Any]) -> Callable[..., Any]:
    """`tensor_split`, which wants its places on the CPU."""

    @wraps(real)
    def split(x, *args, **kwargs):
        if any(map(gpu.holds, (*args, *kwargs.values()))):
            raise RuntimeError(SPLIT)
        return real(x, *args, **kwargs)

    return split


class Thread(TorchDispatchMode):
    """The GPU in a thread of its own."""

    def __init__(self, gpu: Pretended):
        super().__init__()
        self.gpu = gpu

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.gpu.__torch_dispatch__(func, types, args, kwargs)


class Done:
    """A stream or an event: all that it stands for is done already.

    `waited`: how often somebody has waited for it, the host or another stream.
    """

    gpu: Pretended

    def __init__(self, *args: Any, **kwargs: Any):
        self.waited = 0
        self.of = self  # the stream of an event

    def synchronize(self) -> None:
        self.of.waited += 1
        self.gpu.wait("synchronize")

    def record(self, stream: Done | None = None) -> None:
        self.of = stream or self.gpu.stream

    def record_event(self, event: Done | None = None) -> Done:
        event = event or self.gpu.done()
        event.record(self)
        return event

    def wait_stream(self, other: Done) -> None:
        other.of.waited += 1

    wait_event = wait_stream

    def wait(self, stream: Done | None = None) -> None:
        self.of.waited += 1

    def __getattr__(self, name: str) -> Callable:
        return {"query": lambda: True, "elapsed_time": lambda end: 1.0}.get(name, lambda *_: None)


def of_cuda(gpu: Pretended) -> dict[str, Any]:
    """What `torch.cuda` says."""
    major, minor = gpu.capability
    properties = SimpleNamespace(
        name=gpu.name, total_memory=gpu.memory, major=major, minor=minor, multi_processor_count=40
    )
    nothing = "set_device empty_cache reset_peak_memory_stats init".split()
    used = "memory_allocated max_memory_allocated memory_reserved max_memory_reserved".split()
    answers = dict.fromkeys(nothing) | dict.fromkeys(used, 1 << 20) | {
        "is_available": True, "is_initialized": True, "is_current_stream_capturing": False,
        "device_count": 1, "current_device": 0,
        "get_device_name": gpu.name, "get_device_capability": gpu.capability,
        "get_device_properties": properties, "mem_get_info": (gpu.memory, gpu.memory),
    }  # fmt: skip
    return {
        **{name: lambda *_, _answer=answer, **__: _answer for name, answer in answers.items()},
        # a GPU of before 8.0 computes in bf16 too, slowly
        "is_bf16_supported": lambda including_emulation=True: including_emulation or major >= 8,
        "synchronize": gpu.synchronize,
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
        **dict.fromkeys(["Stream", "Event"], gpu.done),
        "current_stream": lambda device=None: gpu.stream,
        "default_stream": lambda device=None: gpu.default,
        "stream": gpu.in_stream,
        "set_stream": gpu.set_stream,
        "device": nullcontext,
    }


def generators(gpu: Pretended) -> type:
    """`torch.Generator`, of the GPU too; all numbers are those of the CPU."""
    real = torch.Generator

    class Either(type(real)):
        def __instancecheck__(cls, one: Any) -> bool:
            return isinstance(one, real)

    class Generator(real, metaclass=Either):
        def __new__(cls, device=CPU):
            generator = super().__new__(cls)
            if on_gpu(device):
                gpu.generators[generator._cdata] = generator
            return generator

        def set_state(self, new_state: Tensor) -> torch.Generator:
            if gpu.holds(new_state):
                raise TypeError(NO_STATE)
            return super().set_state(new_state)

        @property
        def device(self) -> torch.device:
            return GPU if self._cdata in gpu.generators else CPU

    return Generator


def of_torch(gpu: Pretended) -> list[tuple[Any, str, Any]]:
    """Everything else: where it stands, its name, and what takes its place."""
    grouped, autocast = torch._C._group_tensors_by_device_and_dtype, torch.autocast.__init__
    begin, make_grads = threading.Thread.run, torch.autograd._make_grads
    dropout, one_hot, default = F.dropout, F.one_hot, DeviceContext.__torch_function__
    meshgrid, set_state = torch.meshgrid, torch.set_rng_state

    def group(lists, with_indices=False):
        """The groups of an optimiser, by the devices that tensors say."""
        found = {}
        for here in (True, False):
            some = [i for i, x in enumerate(lists[0]) if gpu.holds(x) == here]
            if not some:
                continue
            parts = [[one[i] for i in some] if one else one for one in lists]
            for (_, dtype), (members, places) in grouped(parts, with_indices).items():
                found[GPU if here else CPU, dtype] = members, [some[i] for i in places]
        return found

    def cast(self, device_type, dtype=None, *args, **kwargs):
        if isinstance(device_type, str) and on_gpu(device_type):  # devices are refused
            device_type, dtype = "cpu", dtype or torch.float16
        autocast(self, device_type, dtype, *args, **kwargs)

    def run(thread):
        with Thread(gpu):
            begin(thread)

    def given(outputs, grads, is_grads_batched):
        """The gradients that a backward pass begins with; numbers go where they are needed."""
        grads = list(grads)
        for i, (y, grad) in enumerate(zip(outputs, grads, strict=False)):
            if not (isinstance(y, Tensor) and isinstance(grad, Tensor)):
                continue
            if gpu.holds(y) != gpu.holds(grad):
                if grad.dim():
                    raise RuntimeError(GRADIENT.format(i, y.device, grad.device))
                grads[i] = gpu.move(grad, gpu.holds(y))
        return make_grads(outputs, grads, is_grads_batched)

    def drop(input, p=0.5, training=True, inplace=False):
        if training and 0 < p < 1 and not inplace and gpu.holds(input):
            return torch.native_dropout(input, p, True)[0]  # one launch, as on a GPU
        return dropout(input, p, training, inplace)

    def hot(tensor, num_classes=-1):
        if not gpu.holds(tensor):
            return one_hot(tensor, num_classes)
        if num_classes < 0:
            gpu.wait("one_hot")
        with gpu.now(quiet=True):  # else its checks wait, which a GPU leaves out
            return gpu.put(one_hot(tensor, num_classes), True)

    def grid(*tensors, indexing=None):
        given = tensors[0] if isinstance(tensors[0], list | tuple) else tensors
        if len({x.device for x in given}) > 1:
            raise RuntimeError(GRID)
        return meshgrid(*tensors, indexing=indexing)

    def state(new_state):
        if gpu.holds(new_state):
            raise TypeError(NO_STATE)
        set_state(new_state)

    def context(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in makers and on_gpu(self.device) and not kwargs.get("device"):
            return makers[func](*args, **kwargs | {"device": self.device})
        return default(self, func, types, args, kwargs)

    def flex(query, key, value, score_mod=None, block_mask=None, **_):
        """By hand: PyTorch's own, not compiled, takes no mode of ours, and has no backward pass."""
        sizes = (*query.shape[:3], key.shape[2])
        places = [torch.arange(n, device=query.device) for n in sizes]
        places = [x.view(-1, *[1] * (3 - axis)) for axis, x in enumerate(places)]
        scores = query @ key.mT / query.shape[-1] ** 0.5
        if score_mod:
            scores = score_mod(scores, *places)
        if block_mask:
            if block_mask.kv_indices.device != query.device:
                raise RuntimeError(MIXED.format("flex_attention"))
            scores = scores.masked_fill(~block_mask.mask_mod(*places), -torch.inf)
        return scores.softmax(-1) @ value

    makers = [f for f in _device_constructors() if f is getattr(torch, f.__name__, None)]
    makers = {f: factory(gpu, f) for f in makers}
    like = {getattr(torch, name): factory(gpu, getattr(torch, name)) for name in LIKE}
    return [
        *[(torch, f.__name__, make) for f, make in (makers | like).items()],
        (torch, "Generator", generators(gpu)),
        (torch, "meshgrid", grid),
        (torch, "tensor_split", splitter(gpu, torch.tensor_split)),
        *[(owner, "set_rng_state", state) for owner in (torch, torch.random)],
        (flex_attention, "flex_attention", flex),
        (torch, "compile", lambda f=None, **_: f or (lambda f: f)),
        (torch._C, "_group_tensors_by_device_and_dtype", group),
        (threading.Thread, "run", run),
        (torch.accelerator, "current_stream", lambda device=None: gpu.stream),
        (torch.accelerator, "is_available", lambda: True),
        (torch.accelerator, "current_accelerator", lambda check_available=False: GPU),
        (torch.autocast, "__init__", cast),
        (torch.autograd, "_make_grads", given),
        (torch.backends.cudnn, "is_acceptable", lambda x: False),
        (DeviceContext, "__torch_function__", context),
        (F, "dropout", drop),
        (F, "one_hot", hot),
    ]


@contextmanager
def pretended(
    name: str = "Pretended T4", capability: tuple[int, int] = (7, 5), memory: int = 15 << 30
) -> Iterator[Pretended]:
    """Inside of it the process has one GPU; afterwards all is as before, after an error too."""
    gpu, packages = Pretended(name, capability, memory), serialization._package_registry
    with warnings.catch_warnings(action="ignore"):
        forward_ad._maybe_load_decompositions()  # reads functions before some are ours

    def load(storage, location):
        if location.startswith("cuda"):
            storage.pretended = gpu
            return storage

    def tag(storage):
        return str(GPU) if getattr(storage, "pretended", None) is gpu else None

    with ExitStack() as stack:
        stack.callback(packages.__setitem__, slice(None), list(packages))
        serialization.register_package(5, tag, load)  # how files are read and written
        cuda, tensors = of_cuda(gpu), of_tensors(gpu)
        patches = [*of_torch(gpu), *((torch.cuda, *item) for item in cuda.items())]
        # others, such as `monotonic`, are for deadlines
        patches += [(time, name, gpu.clock(name, getattr(time, name))) for name in CLOCKS]
        for owner, attribute, new in [*patches, *((Tensor, *item) for item in tensors.items())]:
            stack.enter_context(patch.object(owner, attribute, new))
        stack.enter_context(gpu)
        yield gpu


def run_notebook(file: Path, device: torch.device | str = "cuda") -> Pretended:
    """Execute the cells of a notebook, in one namespace and an empty folder, on a pretended GPU.

    `device`: the reader's. What is trained in full where there is a GPU is trained in small here.
    Raises RuntimeError for the first cell that fails, with its traceback.
    """
    import nbformat
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from allyouneed.settings import PRESETS

    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    shell.reset()
    shell.showtraceback = lambda *_, **__: None
    cells = [c for c in nbformat.read(file, as_version=4).cells if c.cell_type == "code"]
    small = dict.fromkeys(("multi30k", "tatoeba"), replace(PRESETS["tiny"], **SMALL))
    with (
        patch.dict(PRESETS, small),
        TemporaryDirectory() as folder,
        chdir(folder),
        torch.enable_grad(),  # and as it was for the next one
        pretended() as gpu,
    ):
        for i, cell in enumerate(cells, 1):
            shell.compile.get_code_name = lambda *_, i=i: f"cell {i}"
            source = cell.source
            if "small" in cell.metadata:  # what takes long on a GPU has its sizes in the first line
                source = cell.metadata["small"] + source[source.index("\n") :]
            result = shell.run_cell(source)
            if "setup" in cell.metadata.get("tags", []):
                shell.user_ns["device"] = device
            error = result.error_before_exec or result.error_in_exec
            if error and "raises-exception" not in cell.metadata.get("tags", []):
                lines = "".join(traceback.format_exception(error))
                raise RuntimeError(f"cell {i}\n\n{cell.source}\n\n{lines}")
    return gpu


def notebook(name: str) -> Path:
    """The notebook of a chapter's number, of a name as "project" or "12_training", or a file."""
    folder = ROOT / "notebooks"
    found = folder.glob(f"{int(name):02}_*.ipynb") if name.isdecimal() else []
    for file in (*found, folder / f"{name}.ipynb", Path(name)):
        if file.is_file():
            return file
    raise argparse.ArgumentTypeError(
        f"expected the number of a chapter, the name of a notebook or a file, got {name!r}"
    )


def main(words: list[str] | None = None) -> int:
    """Run notebooks and say how each went; 1 if one fails."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument(
        "notebooks", nargs="+", type=notebook,
        help="chapters by their number, others by their name (project), or files",
    )  # fmt: skip
    options.add_argument("--device", type=torch.device, help="the reader's, as a torch.device")
    wanted = options.parse_args(words)
    os.environ.setdefault("MPLBACKEND", "agg")
    failed = 0
    importlib.import_module("torch._dynamo")  # it looks at `Tensor` as it is
    for file in wanted.notebooks:
        try:
            gpu = run_notebook(file, wanted.device or "cuda")
        except RuntimeError as error:
            failed = 1
            print(f"{file.name}: failed in {error}")
        else:
            launches, waits = gpu.launches.total(), gpu.waits.total()
            print(f"{file.name}: passed, {launches} launches, {waits} waits")
    return failed


if __name__ == "__main__":
    sys.exit(main())
