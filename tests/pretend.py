"""A GPU for tests that computes on the CPU, and minds where its tensors are.

Inside of `pretended()`, `torch.cuda` finds a GPU. What is moved to it stays in the CPU's memory, but
its storage carries a tag, and the tag follows it: a view has the same storage, and a dispatch mode,
which sees every operation, those of the backward pass too, tags what comes of tagged tensors. A
tagged tensor says `cuda:0`, cannot become a NumPy array, and does not meet one of the CPU. Launches
and waits of the host are counted, each with the line of our code that it comes from.

python tests/pretend.py 6 9        run the cells of chapters 6 and 9 on it
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, serialization
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.utils._device import DeviceContext, _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ROOT = Path(__file__).parents[1]
GPU = torch.device("cuda", 0)
# What PyTorch makes for itself, inside of an operation: it goes where it is used first
EITHER = object()
MIXED = (
    "Expected all tensors to be on the same device, but found at least two devices, "
    "cuda:0 and cpu! (in {})"
)
INDEX = "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
NUMPY = (
    "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
    "host memory first."
)
LENGTHS = "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor"
GENERATOR = "Expected a '{}' device type for generator but found '{}'"

# Operations that launch nothing: they set memory aside, or look at what is there
FREE = {"_unsafe_view", "_local_scalar_dense", "lift_fresh", "lift", "set_"}
ALLOCATE = ("empty", "new_empty")
# Operations whose result the host needs before it goes on
WAIT = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "bincount", "multinomial"}
WAIT |= {"_unique", "_unique2", "unique_dim", "unique_consecutive"}
CROSS = {"copy_", "fill_", "_foreach_copy_", "set_", "_pack_padded_sequence"}  # from CPU to GPU
INDEXING = {"index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_"}
# Operations that forgive not even a CPU tensor without axes
STRICT = {"cat", "stack", "gather", "index_select", "embedding", "mm", "bmm", "addmm", "equal"}
STRICT |= {"_fused_adam_", "_fused_adamw_", "scatter", "scatter_", "scatter_add_", "index_add_"}

# Files that are not ours: Python's, and those of installed packages
THEIRS = tuple(str(Path(file).parent) for file in (os.__file__, torch.__path__[0]))
FACTORIES = "zeros_like ones_like full_like empty_like rand_like randn_like randint_like".split()
NEW = "new_tensor new_zeros new_ones new_full new_empty new_empty_strided".split()
READ = {"tensor", "as_tensor", "asarray", "new_tensor"}  # they copy what the host has


def place() -> str:
    """The file and line of our code that is at work."""
    frame = sys._getframe(1)
    while frame and (frame.f_code.co_filename.startswith((*THEIRS, __file__, "<"))):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else "?"


def on_gpu(device: Any) -> bool:
    """Whether a device, or its name or number, is the GPU."""
    return isinstance(device, int) or torch.device(device).type == "cuda"


class State(threading.local):
    """What a thread is about: making tensors, on the GPU, or something that does not count."""

    asked = making = quiet = False


class Move(torch.autograd.Function):
    """From one device to the other; the gradient goes back."""

    @staticmethod
    def forward(ctx, x, gpu, here, non_blocking):
        ctx.rest = gpu, not here, non_blocking
        return gpu.moved(x, here, non_blocking)

    @staticmethod
    def backward(ctx, grad):
        return Move.apply(grad, *ctx.rest), None, None, None


class Pretended(TorchDispatchMode):
    """The GPU: which tensors it holds, and what it was asked to do.

    `launches` and `waits` count operations and waits of the host by name and place.
    """

    def __init__(self, name: str, capability: tuple[int, int], memory: int):
        super().__init__()
        self.name, self.capability, self.memory = name, capability, memory
        self.launches: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.generators: dict[int, torch.Generator] = {}  # its own, by address
        self.state = State()

    def reset(self) -> None:
        """Count anew."""
        self.launches.clear()
        self.waits.clear()

    def wait(self, why: str) -> None:
        """The host waits."""
        self.waits[f"{why} at {place()}"] += 1

    @contextmanager
    def now(self, **state: bool) -> Iterator[None]:
        """A piece of work in which `making` or `quiet` is so."""
        before = {key: getattr(self.state, key) for key in state}
        self.state.__dict__.update(state)
        try:
            yield
        finally:
            self.state.__dict__.update(before)

    def tag(self, x: Any) -> Any:
        """The GPU if a tensor is on it, EITHER, or something else."""
        try:
            return getattr(x.untyped_storage(), "pretended", None)
        except (AttributeError, NotImplementedError, RuntimeError):  # no tensor, or no storage
            return None

    def holds(self, x: Any) -> bool:
        """Whether a tensor is on the GPU."""
        return self.tag(x) is self

    def put(self, x: Tensor, here: Any) -> Tensor:
        """The tensor itself, from now on the GPU's, the CPU's or EITHER's."""
        if here or self.holds(x):
            x.untyped_storage().pretended = self if here is True else here
        return x

    def moved(self, x: Tensor, here: bool, non_blocking: bool) -> Tensor:
        """A copy on the GPU or on the CPU, without a gradient."""
        with self.now(quiet=True):
            copy = x.detach().clone()
        where = "to cuda:0" if here else "to cpu"
        self.launches[f"copy {where} at {place()}"] += 1
        if not non_blocking:
            self.wait(f"copy {where}")
        return self.put(copy, here)

    def move(self, x: Tensor, here: bool, non_blocking: bool = False) -> Tensor:
        """The tensor if it is there already, else a copy."""
        if self.holds(x) == here:
            return x
        if x.requires_grad and torch.is_grad_enabled():
            return Move.apply(x, self, here, non_blocking)
        return self.moved(x, here, non_blocking)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.state.quiet:
            return func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        here = any(map(self.holds, given))
        free = [x for x in given if self.tag(x) is EITHER]
        if here:
            for x in free:
                self.put(x, True)
            self.check(name, func, args, given)
        here |= self.state.making
        self.check_generator(kwargs.get("generator"), here)
        if here:
            self.count(name, func, args, kwargs)
        out = func(*args, **kwargs)
        if here or len(free) == len(given) and not self.state.asked:
            fresh = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
            if name == "_pack_padded_sequence":  # its second result stays on the CPU
                fresh = fresh[:1]
            for x in fresh:
                if not any(x is one for one in given):
                    self.put(x, here or EITHER)
        return out

    def check(self, name: str, func: Any, args: tuple, given: list[Tensor]) -> None:
        """Raise RuntimeError if an operation meets tensors of both devices that may not meet."""
        if name == "_pack_padded_sequence" and self.holds(args[1]):
            raise RuntimeError(LENGTHS)
        if name in CROSS:
            return
        if name in INDEXING:
            if not self.holds(args[0]) and any(map(self.holds, args[1])):
                raise RuntimeError(INDEX)
            given = [args[0], *args[2:3]]  # the GPU takes indices from the CPU
            if not self.holds(args[0]) and args[2].dim() == 0:
                return
        pairs = zip(func._schema.arguments, args, strict=False)
        written = [x for one, x in pairs if one.alias_info and one.alias_info.is_write]
        strict = name in STRICT
        for x in given:
            if not self.holds(x) and (strict or x.dim() or any(x is w for w in written)):
                raise RuntimeError(MIXED.format(name))

    def check_generator(self, generator: torch.Generator | None, here: bool) -> None:
        """Raise RuntimeError if a generator is that of the other device."""
        if generator is not None and (generator._cdata in self.generators) != here:
            raise RuntimeError(GENERATOR.format(*(("cuda", "cpu") if here else ("cpu", "cuda"))))

    def count(self, name: str, func: Any, args: tuple, kwargs: dict) -> None:
        """Note a launch, and whether the host waits for it."""
        view = any(r.alias_info and not r.alias_info.is_write for r in func._schema.returns)
        where = f"{name} at {place()}"
        if not (view or name in FREE or name.startswith(ALLOCATE)):
            self.launches[where] += 1
        waits = name in WAIT or name == "repeat_interleave" and not kwargs.get("output_size")
        if name in INDEXING:
            flags = any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1])
            one = len(args) > 2 and args[2].dim() == 0 and not self.holds(args[2])
            waits = flags and not one  # one number is filled in where the mask is True
            waits |= self.holds(args[0]) and any(
                i is not None and not self.holds(i) and i.dim() for i in args[1]
            )
        if name == "copy_" and self.holds(args[0]) != self.holds(args[1]):
            waits = not (args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        if name == "fill_" and isinstance(args[1], Tensor):
            waits = self.holds(args[1]) and not self.holds(args[0])
        if waits:
            self.waits[where] += 1


def of_tensors(gpu: Pretended) -> dict[str, Any]:
    """What `torch.Tensor` says and does about devices."""
    real = {name: getattr(Tensor, name) for name in [*NEW, "to", "numpy", "tolist", "__deepcopy__"]}
    real_device = torch._C.TensorBase.device

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

    def device(x):
        return GPU if gpu.holds(x) else real_device.__get__(x)

    def numpy(x, *, force=False):
        if gpu.holds(x) and not force:
            raise TypeError(NUMPY)
        return real["numpy"](gpu.move(x, False) if force else x, force=force)

    def tolist(x):
        if gpu.holds(x):
            gpu.wait("tolist")
        with gpu.now(quiet=True):
            return real["tolist"](x)

    def pin_memory(x, device=None):
        if gpu.holds(x):
            raise RuntimeError("cannot pin a tensor of cuda:0, only dense CPU tensors can be pinned")
        pinned = x.clone()
        pinned.untyped_storage().pinned = True
        return pinned

    return {
        **{name: factory(gpu, real[name]) for name in NEW},
        "device": property(device),
        "is_cuda": property(gpu.holds),
        "is_cpu": property(lambda x: device(x).type == "cpu"),
        "get_device": lambda x: 0 if gpu.holds(x) else -1,
        "to": to,
        "type_as": lambda x, other: to(x, other),
        "cuda": lambda x, device=None, non_blocking=False, **_: gpu.move(x, True, non_blocking),
        "cpu": lambda x, **_: gpu.move(x, False),
        "numpy": numpy,
        "tolist": tolist,
        "pin_memory": pin_memory,
        "is_pinned": lambda x, device=None: hasattr(x.untyped_storage(), "pinned"),
        "record_stream": lambda x, stream: None,
        "__deepcopy__": lambda x, memo: gpu.put(real["__deepcopy__"](x, memo), gpu.holds(x)),
    }


def factory(gpu: Pretended, real: Callable[..., Tensor]) -> Callable:
    """A function that makes tensors, on the GPU too."""

    @wraps(real)
    def make(*args, device=None, pin_memory=False, **kwargs):
        read = args[-1] if args and real.__name__ in READ else None
        if isinstance(read, Tensor) and real.__name__ != "tensor":
            where = device or args[0].device
            return read.to(where, kwargs.get("dtype") or read.dtype)
        for x in tree_leaves(read):
            if gpu.holds(x) and x is not read:  # a list of numbers that the GPU has
                gpu.wait("item")
        if device is None and isinstance(read, Tensor):
            device = read.device
        if device is None or torch.device(device).type not in ("cuda", "cpu"):
            with gpu.now(asked=True):
                return real(*args, **kwargs, **({} if device is None else {"device": device}))
        here = on_gpu(device)
        if read is not None and here and not gpu.holds(read):
            gpu.wait("copy to cuda:0")
        with gpu.now(asked=True, making=here):
            return gpu.put(real(*args, device="cpu", **kwargs), here)

    return make


class Done:
    """A stream or an event: all that it stands for is done already."""

    def __init__(self, *args: Any, **kwargs: Any):
        pass

    def __getattr__(self, name: str) -> Callable:
        return {"query": lambda: True, "elapsed_time": lambda end: 1.0}.get(name, lambda *_: None)


def of_cuda(gpu: Pretended) -> dict[str, Any]:
    """What `torch.cuda` says."""
    major, minor = gpu.capability
    properties = SimpleNamespace(
        name=gpu.name, total_memory=gpu.memory, major=major, minor=minor, multi_processor_count=40
    )
    nothing = "set_device empty_cache reset_peak_memory_stats init ipc_collect".split()
    bytes_ = "memory_allocated max_memory_allocated memory_reserved max_memory_reserved".split()
    return {
        **{name: lambda *_, **__: None for name in nothing},
        **{name: lambda *_, **__: 1 << 20 for name in bytes_},
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: gpu.name,
        "get_device_capability": lambda device=None: gpu.capability,
        "get_device_properties": lambda device=None: properties,
        "mem_get_info": lambda device=None: (gpu.memory, gpu.memory),
        # a GPU of before 8.0 computes in bf16 too, slowly
        "is_bf16_supported": lambda including_emulation=True: including_emulation or major >= 8,
        "synchronize": lambda device=None: gpu.wait("synchronize"),
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
        "Stream": Done,
        "Event": Done,
        "current_stream": Done,
        "default_stream": Done,
        "stream": lambda stream: nullcontext(),
        "device": lambda device: nullcontext(),
    }


def generators(gpu: Pretended) -> type:
    """`torch.Generator`, of the GPU too; all numbers are those of the CPU."""
    real = torch.Generator

    class Either(type(real)):
        def __instancecheck__(cls, one: Any) -> bool:
            return isinstance(one, real)

    class Generator(real, metaclass=Either):
        def __new__(cls, device="cpu"):
            generator = super().__new__(cls)
            if on_gpu(device):
                gpu.generators[generator._cdata] = generator
            return generator

        @property
        def device(self) -> torch.device:
            return GPU if self._cdata in gpu.generators else torch.device("cpu")

    return Generator


def of_torch(gpu: Pretended) -> list[tuple[Any, str, Any]]:
    """Everything else: where it stands, its name, and what takes its place."""
    grouped = torch._C._group_tensors_by_device_and_dtype
    autocast, dropout, one_hot = torch.autocast.__init__, F.dropout, F.one_hot

    def group(lists, with_indices=False):
        """The groups of an optimiser, by the devices that tensors say."""
        found = {}
        for here in (True, False):
            some = [i for i, x in enumerate(lists[0]) if gpu.holds(x) == here]
            parts = [[one[i] for i in some] if one else one for one in lists]
            if some:
                for (_, dtype), (members, indices) in grouped(parts, with_indices).items():
                    where = GPU if here else torch.device("cpu")
                    found[where, dtype] = members, [some[i] for i in indices]
        return found

    def cast(self, device_type, dtype=None, *args, **kwargs):
        if on_gpu(device_type):
            device_type, dtype = "cpu", dtype or torch.float16
        autocast(self, device_type, dtype, *args, **kwargs)

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

    makers = [f for f in _device_constructors() if f is getattr(torch, f.__name__, None)]
    makers = {f: factory(gpu, f) for f in [*makers, *(getattr(torch, name) for name in FACTORIES)]}
    default = DeviceContext.__torch_function__

    def context(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _device_constructors() and on_gpu(self.device) and not kwargs.get("device"):
            return makers[func](*args, **kwargs | {"device": self.device})
        return default(self, func, types, args, kwargs)

    return [
        *[(torch, f.__name__, make) for f, make in makers.items()],
        (DeviceContext, "__torch_function__", context),
        (torch, "Generator", generators(gpu)),
        (torch, "compile", lambda f=None, **_: f or (lambda f: f)),
        (torch.autocast, "__init__", cast),
        (torch._C, "_group_tensors_by_device_and_dtype", group),
        (F, "dropout", drop),
        (F, "one_hot", hot),
    ]


@contextmanager
def pretended(
    name: str = "Pretended T4", capability: tuple[int, int] = (7, 5), memory: int = 15 << 30
) -> Iterator[Pretended]:
    """Inside of it the process has one GPU; afterwards all is as before, after an error too."""
    gpu = Pretended(name, capability, memory)
    forward_ad._maybe_load_decompositions()  # it reads PyTorch's functions, before we replace some

    def load(storage, location):
        if location.startswith("cuda"):
            storage.pretended = gpu
            return storage

    def tag(storage):
        return "cuda:0" if getattr(storage, "pretended", None) is gpu else None

    with ExitStack() as stack:
        for owner, attribute, new in of_torch(gpu):
            stack.enter_context(patch.object(owner, attribute, new))
        for attribute, new in of_cuda(gpu).items():
            stack.enter_context(patch.object(torch.cuda, attribute, new))
        for attribute, new in of_tensors(gpu).items():
            stack.enter_context(patch.object(Tensor, attribute, new))
        before = list(serialization._package_registry)
        stack.callback(serialization._package_registry.__setitem__, slice(None), before)
        serialization.register_package(5, tag, load)
        stack.enter_context(gpu)
        yield gpu


def run_notebook(file: Path, **device: Any) -> Pretended:
    """Execute the cells of a notebook, in one namespace, on a pretended GPU.

    Raises RuntimeError for the first cell that fails, with its traceback.
    """
    import nbformat
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    shell.reset()
    cells = [c for c in nbformat.read(file, as_version=4).cells if c.cell_type == "code"]
    with pretended(**device) as gpu:
        for i, cell in enumerate(cells, 1):
            shell.compile.get_code_name = lambda *_, i=i: f"cell {i}"
            shell.showtraceback = lambda *_, **__: None
            result = shell.run_cell(cell.source)
            error = result.error_before_exec or result.error_in_exec
            if error and "raises-exception" not in cell.metadata.get("tags", []):
                lines = "".join(traceback.format_exception(error))
                raise RuntimeError(f"cell {i}\n\n{cell.source}\n\n{lines}")
    return gpu


def main(notebooks: list[str]) -> int:
    """Run notebooks, chapters by their number, and say how each went; 1 if one fails."""
    os.environ.setdefault("MPLBACKEND", "agg")
    failed = 0
    for name in notebooks:
        chapter = name.isdigit() and next((ROOT / "notebooks").glob(f"{int(name):02}_*.ipynb"))
        try:
            gpu = run_notebook(chapter or Path(name))
        except RuntimeError as error:
            failed = 1
            print(f"{name}: failed in {error}")
        else:
            print(f"{name}: passed, {gpu.launches.total()} launches, {gpu.waits.total()} waits")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
