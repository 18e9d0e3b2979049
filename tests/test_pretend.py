"""The pretended GPU behaves like one, the package runs on it as on a CPU, and faults are found."""

from __future__ import annotations

import copy
import io
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import faked
import killed
import nbformat
import numpy as np
import pretend
import pytest
import torch
from pretend import LIKE, ROOT, Pretended, pretended
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils import backend_registration
from torch.utils._pytree import tree_map
from torch.utils.data import DataLoader
from tqdm.auto import tqdm

import allyouneed

V = 40
MIX, NUMPY = "Expected all tensors to be on the same device", "can't convert cuda:0"
NO_PRODUCT, LATE = "not implemented for 'Long'", "read before the GPU"
STREAM = "made in another stream"
EARLY, ONLY_CPU = "written before the GPU", "only implemented on CPU"
GRADIENT, OTHER_GRAD = "invalid gradient at index 0", "assigned grad has data"
WRONG_GENERATOR, INDICES = "device type for generator", "indices should be either on cpu"


class Book:
    """The package, or a copy of it under another name, by its modules."""

    def __init__(self, name: str = "allyouneed"):
        self.name = name

    def __getattr__(self, module: str) -> Any:
        return import_module(f"{self.name}.{module}")


BOOK = Book()


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """So small are the tensors here that threads would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def gpu():
    with pretended() as gpu:
        yield gpu


# The device itself


def test_says_where_tensors_are(gpu):
    x, y = torch.ones(3).to("cuda"), torch.ones(3)
    assert x.is_cuda and not x.is_cpu and str(x.device) == "cuda:0" and "cuda:0" in repr(x)
    assert y.is_cpu and not y.is_cuda and y.device.type == "cpu"
    made = [
        y.cuda(), y.to(x), y.to("cuda", torch.float16), y.to(device=x.device), x + 1, x[1:],
        torch.zeros(2, device="cuda"), torch.zeros_like(x), torch.zeros_like(y, device="cuda"),
        x.new_tensor([1]), x.new_zeros(2), torch.tensor([1], device="cuda:0"),
        torch.as_tensor(y, device="cuda"), torch.stack([x, x]), x.sum(), x.detach(), x.clone(),
        F.one_hot(torch.tensor([1]).cuda(), 3), copy.deepcopy(x), nn.Parameter(x), x.data,
        torch.arange(3).cuda().float(), torch.randn(2, device="cuda"), x.cpu().type_as(x),
    ]  # fmt: skip
    with torch.device("cuda"):
        made += [torch.ones(2), torch.tensor([1.0]), nn.Linear(2, 2).weight]
    assert [i for i, x in enumerate(made) if not x.is_cuda] == []
    for here in (x.cpu(), x.to("cpu"), x.to(y), torch.zeros_like(x, device="cpu"), y + 1):
        assert here.device.type == "cpu" and here.numpy() is not None


def test_says_what_it_is(capsys):
    with pretended("H200", (9, 0), 141 << 30):
        cuda = torch.cuda
        assert cuda.is_available() and cuda.device_count() == 1
        assert cuda.get_device_name() == cuda.get_device_properties(0).name == "H200"
        assert cuda.get_device_capability("cuda") == (9, 0) and cuda.mem_get_info()[1] == 141 << 30
        cuda.synchronize(), cuda.reset_peak_memory_stats(), cuda.memory_allocated()
        assert allyouneed.start() == "cuda"
    said = capsys.readouterr().out  # in chapters that compute on the CPU all the same, too
    assert 'device = "cuda"' in said and "computing" not in said


def test_the_command_computes_on_the_current_gpu(gpu, monkeypatch):
    """Chapter 14 makes the reader's the current one; torchrun tells each process its own."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert Book().processes.choose_device() == torch.device("cuda:3")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert Book().processes.choose_device() == torch.device("cuda:1")


def test_all_is_undone_even_after_an_error():
    names = [(torch.cuda, "is_available"), (torch, "Generator"), (F, "dropout"), (torch, "ones")]
    names += [(torch.autocast, "__init__"), *((torch, name) for name in LIKE)]
    before, own = [getattr(*name) for name in names], set(vars(Tensor))
    with pytest.raises(ZeroDivisionError), pretended():
        x = torch.ones(2, device="cuda")
        raise ZeroDivisionError
    assert before == [getattr(*name) for name in names] and own == set(vars(Tensor))
    assert x.device.type == "cpu" and x.numpy().tolist() == [1, 1]
    with pretended():  # another one
        assert not x.is_cuda


def set_where(x, values):
    x[x > 0] = values


def overwritten(pinned, x):
    """A buffer of the host whose second content comes before the GPU has read the first."""
    pinned.fill_(1)
    x.copy_(pinned, non_blocking=True)
    pinned.fill_(2)


MEETINGS: dict[str, tuple[Callable, str]] = {
    "x + y": (lambda x, y, i: x + y, MIX),
    "y + x": (lambda x, y, i: y + x, MIX),
    "y + a number that the GPU has": (lambda x, y, i: y + x.sum(), MIX),
    "in place": (lambda x, y, i: y.mul_(x), MIX),
    "in place, no axes": (lambda x, y, i: y.sum().add_(x.sum()), MIX),
    "out": (lambda x, y, i: torch.add(x, x, out=y), MIX),
    "stack": (lambda x, y, i: torch.stack([x, y]), MIX),
    "stack, no axes": (lambda x, y, i: torch.stack([x.sum(), y.sum()]), MIX),
    "where": (lambda x, y, i: torch.where(y > 0, x, x), MIX),
    "masked_fill": (lambda x, y, i: x.masked_fill(y > 0, 1), MIX),
    "embedding": (lambda x, y, i: F.embedding(i.cpu(), torch.ones(3, 2, device="cuda")), MIX),
    "a table of the CPU": (lambda x, y, i: F.embedding(i, torch.ones(3, 2)), MIX),
    "an index of the GPU": (lambda x, y, i: y[i], INDICES),
    "gather": (lambda x, y, i: x.gather(0, i.cpu()), MIX),
    "values": (lambda x, y, i: set_where(x, y), MIX),
    "equal": (lambda x, y, i: torch.equal(x, y), MIX),
    "linear": (lambda x, y, i: nn.Linear(3, 3).cuda()(y), MIX),
    "numpy": (lambda x, y, i: x.numpy(), NUMPY),
    "asarray": (lambda x, y, i: np.asarray(x), NUMPY),
    "a list": (lambda x, y, i: np.array([x, x]), NUMPY),
    "dlpack": (lambda x, y, i: np.from_dlpack(x), "Unsupported device"),
    "a second GPU": (lambda x, y, i: y.to("cuda:1"), "invalid device ordinal"),
    "a second GPU by its number": (lambda x, y, i: y.cuda(1), "invalid device ordinal"),
    "a tensor of a second GPU": (lambda x, y, i: torch.ones(2, device="cuda:1"), "device ordinal"),
    "a gradient": (lambda x, y, i: (x.requires_grad_() * 2).backward(y), GRADIENT),
    "gradients": (lambda x, y, i: torch.autograd.grad(x.requires_grad_() * 2, x, y), GRADIENT),
    "a gradient assigned": (lambda x, y, i: setattr(x.requires_grad_(), "grad", y), OTHER_GRAD),
    "generator": (lambda x, y, i: x.uniform_(generator=torch.Generator()), WRONG_GENERATOR),
    "rand": (lambda x, y, i: torch.rand(2, generator=torch.Generator("cuda")), WRONG_GENERATOR),
    "multinomial": (lambda x, y, i: x.multinomial(1, generator=torch.Generator()), WRONG_GENERATOR),
    "lengths": (lambda x, y, i: pack_padded_sequence(x.view(3, 1, 1), i[1:]), "CPU int64 tensor"),
    "pin": (lambda x, y, i: x.pin_memory(), "cannot pin"),
    "pinned from the first": (
        lambda x, y, i: torch.zeros(2, device="cuda", pin_memory=True),
        "can be pinned",
    ),
    "a grid": (lambda x, y, i: torch.meshgrid(x, y, indexing="ij"), "torch.meshgrid expects"),
    "a state of the generator": (
        lambda x, y, i: torch.set_rng_state(torch.get_rng_state().cuda()),
        "RNG state",
    ),
    "a state of the GPU's generator": (
        lambda x, y, i: torch.cuda.set_rng_state(torch.get_rng_state().cuda()),
        "RNG state",
    ),
    "a state of one's own generator": (
        lambda x, y, i: torch.Generator().set_state(torch.get_rng_state().cuda()),
        "RNG state",
    ),
    "a class of tensors": (lambda x, y, i: x + x.type(torch.FloatTensor), MIX),
    "the legacy constructor": (lambda x, y, i: x + torch.Tensor([1, 2, 3]), MIX),
    "scatter": (lambda x, y, i: x.scatter_(0, i.cpu(), 1.0), MIX),
    "index_select": (lambda x, y, i: x.index_select(0, i.cpu()), MIX),
    "a mask of the GPU": (lambda x, y, i: y[x > 0], INDICES),
    "a mask of a list": (lambda x, y, i: x.masked_fill(torch.tensor([True] * 3), 0), MIX),
    "targets": (lambda x, y, i: F.cross_entropy(x[None], i[:1].cpu()), MIX),
    "attention": (
        lambda x, y, i: F.scaled_dot_product_attention(
            *[x.view(1, 1, 3, 1)] * 3, attn_mask=torch.ones(3, 3).tril() > 0
        ),
        MIX,
    ),
    "the state of a recurrent net": (
        lambda x, y, i: nn.GRU(3, 3).cuda()(x.view(1, 1, 3), y.view(1, 1, 3)),
        MIX,
    ),
    "a batch of a loader": (
        lambda x, y, i: next(iter(DataLoader([y, y], batch_size=2))) + x,
        MIX,
    ),
    "a loader's generator": (
        lambda x, y, i: [*DataLoader([y], shuffle=True, generator=torch.Generator("cuda"))],
        WRONG_GENERATOR,
    ),
    "an initialisation": (
        lambda x, y, i: nn.init.normal_(x, generator=torch.Generator()),
        WRONG_GENERATOR,
    ),
    "a ufunc of NumPy": (lambda x, y, i: np.exp(x), NUMPY),
    "a pickled one": (lambda x, y, i: pickle.loads(pickle.dumps(x)) + y, MIX),
    "whole numbers": (lambda x, y, i: i[:, None] @ i[None], NO_PRODUCT),
    "whole numbers in a batch": (lambda x, y, i: i.view(2, 1, 1) @ i.view(2, 1, 1), NO_PRODUCT),
    "autocast for a device": (lambda x, y, i: torch.autocast(x.device), "of type `str`"),
    "too early": (lambda x, y, i: x.to("cpu", non_blocking=True) + 1, LATE),
    "too early, numpy": (lambda x, y, i: x.to("cpu", non_blocking=True).numpy(), LATE),
    "too early, in place": (lambda x, y, i: y.copy_(x, non_blocking=True).tolist(), LATE),
    "overwritten too early": (lambda x, y, i: overwritten(y.pin_memory(), x), EARLY),
    "overwritten too early, after a copy": (
        lambda x, y, i: overwritten(y.pin_memory(), torch.zeros_like(x)),
        EARLY,
    ),
    "a function for each number": (lambda x, y, i: x.apply_(abs), ONLY_CPU),
    "a function for each two": (lambda x, y, i: x.map_(x, max), ONLY_CPU),
    "a histogram": (lambda x, y, i: torch.histogram(x, 3), "Could not run 'aten::histogram'"),
    "places to split at": (lambda x, y, i: torch.tensor_split(x, i), "to be on cpu"),
    "places to split at, a method": (lambda x, y, i: x.tensor_split(i), "to be on cpu"),
}


@pytest.mark.parametrize("name", MEETINGS)
def test_what_may_not_meet(gpu, name):
    work, words = MEETINGS[name]
    with pytest.raises((RuntimeError, TypeError, ValueError), match=words):
        work(torch.ones(3, device="cuda"), torch.ones(3), torch.tensor([0, 1], device="cuda"))


def test_what_may_meet(gpu):
    x, y = torch.ones(3, device="cuda"), torch.ones(3)
    assert (x + torch.tensor(1.0)).is_cuda and torch.where(x > 0, x, torch.tensor(0.0)).is_cuda
    assert x[torch.tensor([0, 1])].is_cuda and x[[0, 1]].is_cuda
    x[0:2], x[2] = y[:2], 5
    set_where(x, 7)
    x.copy_(y), y.copy_(x)
    assert x.is_cuda and y.is_cpu and y.tolist() == [1, 1, 1]
    g = torch.Generator("cuda").manual_seed(3)
    assert g.device.type == "cuda" and isinstance(g, torch.Generator)
    assert torch.rand(3, device="cuda", generator=g).is_cuda
    assert torch.rand(3, generator=torch.Generator().manual_seed(3)).is_cpu
    grid = torch.meshgrid([x, x], indexing="xy")
    assert all(one.is_cuda for one in grid) and x.new([1]).is_cuda and y.new([1]).is_cpu
    assert x.type() == "torch.cuda.FloatTensor" and y.type() == "torch.FloatTensor"
    assert x.type(torch.long).is_cuda and x.type(torch.LongTensor).is_cpu
    assert y.type("torch.cuda.HalfTensor").is_cuda and x.type("torch.cuda.FloatTensor") is x
    torch.set_rng_state(torch.get_rng_state()), torch.cuda.set_rng_state(torch.get_rng_state())
    assert y.pin_memory().is_pinned() and y.pin_memory().to("cuda", non_blocking=True).is_cuda
    assert torch.zeros(2, pin_memory=True).is_pinned() and not torch.zeros(2).is_pinned()
    assert [part.is_cuda for part in x.tensor_split(torch.tensor([1]))] == [True, True]
    pinned = y.pin_memory()
    pinned.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    assert pinned.fill_(2).tolist() == [2, 2, 2]


def test_gradients(gpu):
    w = torch.ones(3, requires_grad=True)
    (w.to("cuda") * 2).sum().backward()
    assert w.grad.is_cpu and w.grad.tolist() == [2, 2, 2]
    x = torch.ones(6, device="cuda", requires_grad=True)
    one, _, _ = x.chunk(3)  # PyTorch makes zeros for the rest
    one.sum().backward()
    assert x.grad.is_cuda and x.grad.tolist() == [1, 1, 0, 0, 0, 0]
    x.grad, y = None, torch.ones(3, requires_grad=True)
    (x.mean() * 2).backward(torch.tensor(3.0))  # a number goes where it is needed
    assert x.grad.is_cuda and x.grad.tolist() == [1] * 6
    x.grad, y.grad = torch.ones_like(x), torch.ones(3)
    del x.grad
    assert x.grad is None and y.grad.is_cpu
    jacobian = torch.func.jacfwd(lambda x: x * 2)(x.detach())
    assert jacobian.is_cuda and jacobian.trace() == 12


def test_parts_of_pytorch(gpu, tmp_path):
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.Dropout(0.1)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), 0.1, fused=True)
    scaler, ids = torch.amp.GradScaler("cuda"), torch.tensor([[1, 2]], device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        y = model(ids)
    assert y.dtype == torch.bfloat16
    scaler.scale(model(ids).sum()).backward()
    scaler.unscale_(optimizer)
    assert nn.utils.clip_grad_norm_(model.parameters(), 1.0).is_cuda
    scaler.step(optimizer), scaler.update()
    other = copy.deepcopy(model)
    again = torch.optim.Adam(other.parameters(), 0.1, fused=True)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert all(x.is_cuda for s in again.state.values() for x in s.values())
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    for location, here in ((None, True), ("cpu", False), ("cuda", True)):
        file.seek(0)
        state = torch.load(file, map_location=location)
        assert all(x.is_cuda == here for x in state.values())
    other.load_state_dict(state)
    gru = nn.GRU(4, 3, batch_first=True, bidirectional=True).cuda()
    packed = pack_padded_sequence(torch.ones(2, 3, 4).cuda(), torch.tensor([3, 2]), True)
    assert pad_packed_sequence(gru(packed)[0], True)[0].is_cuda and packed.batch_sizes.is_cpu
    assert model.cpu()[0].weight.is_cpu


def test_launches_and_waits_are_counted_where_they_are(gpu):
    x = torch.ones(4, 4, device="cuda")
    gpu.reset()
    y = (x @ x).relu().view(-1)[1:].detach().view(3, 5).T
    assert y.is_cuda and torch.empty(3, device="cuda").is_cuda
    names = {name.split(" at ")[0]: count for name, count in gpu.launches.items()}
    assert names == {"mm": 1, "relu": 1}
    assert all("at test_pretend.py:" in name for name in gpu.launches)
    F.dropout(x, 0.5)
    assert gpu.launches.total() == 3 and not gpu.waits
    waits = [
        lambda: float(x.sum()), lambda: bool((x > 0).all()), lambda: int(x[0, 0]), x.tolist, x.cpu,
        lambda: x.to("cpu"), x.nonzero, lambda: x[x > 0], lambda: torch.equal(x, x), x.unique,
        lambda: x.masked_select(x > 0), torch.cuda.synchronize, lambda: torch.ones(2).cuda(),
        lambda: torch.tensor([x.sum()]), lambda: x[[0, 1]], lambda: f"{x.sum():.1f}",
        lambda: torch.allclose(x, x), lambda: x.masked_fill(x > 0, x.sum()),
        lambda: x.index_fill(0, x[0].long(), x.sum()), lambda: torch.ones(2).to(x, True),
        lambda: x[0].copy_(torch.ones(4), True), lambda: torch.linalg.svdvals(x),
        lambda: torch.linalg.inv(x + torch.eye(4, device="cuda")), lambda: torch.histc(x, 3),
        lambda: torch.zeros(2).to(device="cuda", non_blocking=True),
    ]  # fmt: skip
    for mode in (torch.enable_grad, torch.inference_mode):
        for i, wait in enumerate(waits):
            gpu.reset()
            with mode():
                wait()
            assert gpu.waits.total() == 1, (i, mode)
    gpu.reset()
    set_where(x, 1.0), torch.ones(2).pin_memory().to("cuda", non_blocking=True)
    x.to("cpu", non_blocking=True), x.argmax(), x.masked_fill_(x > 0, 2)
    x.masked_fill(x > 0, torch.tensor(0.0)), torch.histc(x, 3, 0, 1)
    next(iter(DataLoader([torch.ones(2)], pin_memory=True))).to("cuda", non_blocking=True)
    assert not gpu.waits


def test_in_inference_mode_all_is_as_without(gpu):
    """There PyTorch shows an operation that is made of others as one."""
    x, i = torch.ones(2, 4, device="cuda"), torch.tensor([[0, 1]], device="cuda")

    def work():
        y = F.dropout(F.linear(x, x[:, :4]), 0.5, training=False).float().contiguous()
        return torch.where(y.flatten() > 0)[0].sum().item()

    found = []
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            gpu.reset()
            work()
            found.append((gpu.launches.copy(), gpu.waits.copy()))
            with pytest.raises(NotImplementedError, match=NO_PRODUCT):
                i @ i.T
    assert found[0] == found[1]


def test_a_thread_is_watched_too(gpu):
    sent = []
    work = lambda: sent.append(torch.ones(2).pin_memory().to("cuda", non_blocking=True))  # noqa: E731

    def in_a_thread(work):
        thread = threading.Thread(target=work)
        thread.start(), thread.join()

    in_a_thread(work)
    assert (sent[0] + 1).is_cuda and not gpu.waits
    in_a_thread(lambda: sent.append(sent[0] + 1))
    assert sent[1].is_cuda
    in_a_thread(lambda: sent.append(float(sent[0].sum())))
    assert sent[2] == 2 and gpu.waits.total() == 1


def test_streams_wait_for_each_other(gpu):
    """What one has made another takes only after a wait, be it the host's or its own."""
    cuda, stream, event = torch.cuda, torch.cuda.Stream(), torch.cuda.Event()
    assert cuda.current_stream() is cuda.default_stream() is not stream

    def there(x, work=lambda x: x + 1):
        with cuda.stream(stream):
            assert cuda.current_stream("cuda") is stream
            return work(x)

    def recorded():
        event.record()
        stream.wait_event(event)

    waits = [
        lambda x: stream.wait_stream(cuda.current_stream()), lambda x: recorded(),
        lambda x: cuda.synchronize(), lambda x: float(x.sum()),
        lambda x: cuda.current_stream().synchronize(),
    ]  # fmt: skip
    for wait in waits:
        for work in (lambda x: x + 1, lambda x: x.cpu(), lambda x: x[1:].mul_(2)):
            x = torch.ones(3).pin_memory().to("cuda", non_blocking=True)
            x.mul_(1)
            with pytest.raises(RuntimeError, match=STREAM):
                there(x, work)
            wait(x)
            there(x, work)
    y = there(x)
    with pytest.raises(RuntimeError, match=STREAM):
        y + 1
    there(y[0], float)
    assert (y + 1).is_cuda and there(torch.ones(2)).is_cpu


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_copy_of_the_process_has_no_gpu(gpu):
    """It may compute on the CPU."""
    x, found = torch.ones(2, device="cuda"), []
    for work in (lambda: x + 1, lambda: torch.ones(2).cuda(), lambda: torch.ones(2) + 1):
        here, there = os.pipe()
        if not (child := os.fork()):
            try:
                work()
            except BaseException as error:
                os.write(there, str(error).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0), os.close(there)
        with open(here, encoding="utf-8") as said:
            found.append(said.read()[:20])
    assert found == ["Cannot re-initialize", "Cannot re-initialize", ""]


def test_a_copy_is_there_when_the_host_has_waited(gpu):
    x = torch.ones(3, device="cuda")
    event = torch.cuda.Event()
    for wait in (torch.cuda.synchronize, event.synchronize, lambda: float(x.sum())):
        here = x.to("cpu", non_blocking=True)
        event.record()
        wait()
        assert here.tolist() == (here + 0).tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["perf_counter", "perf_counter_ns", "time", "time_ns"])
def test_a_clock_is_read_when_the_host_has_waited(gpu, name):
    read = lambda: getattr(time, name)()  # noqa: E731
    began = read()
    x = torch.ones(3, device="cuda")
    with pytest.raises(
        RuntimeError, match=rf"{name} is read .* at test_pretend.py:\d+, and no wait"
    ):
        read()
    for work in (torch.cuda.synchronize, lambda: float((x + 1).sum()), lambda: x.view(3, 1)):
        work()
        assert read() >= began
    y = x + 1
    deadline = time.monotonic()  # no measurement
    assert y.is_cuda and deadline > 0 and tqdm([]).format_dict["elapsed"] >= 0  # not our code


# What runs on it


def pairs(seed: int = 0, count: int = 12) -> list[tuple[list[int], list[int]]]:
    draw = random.Random(seed)
    return [([draw.randrange(4, V) for _ in range(draw.randint(1, 7))],) * 2 for _ in range(count)]


def batches(book: Book, epoch: int):
    return book.tokens.token_batches(pairs(), 40, 0, epoch)


def a_model(book: Book, device: str, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    module = book.transformer
    config = module.TransformerConfig(V, 16, 32, 2, 2, **{"dropout": 0.0, **options})
    return module.Transformer(config).to(device)


def the_source(book: Book, device: str) -> Tensor:
    return book.tokens.pad([[*src, 3] for src, _ in pairs(1)]).to(device)


def training(book: Book, device: str, **options: Any):
    model, train = a_model(book, device), book.training.train
    given = partial(batches, book)
    records = list(train(model, given, 4, accumulate=2, max_norm=0.3, **options))
    loss = book.training.validation_loss(model, given(0))
    return [r.loss for r in records], [r.norm for r in records], loss, model.state_dict()


def in_a_stream(book: Book, device: str):
    """Training in a stream of its own, which has waited for what was done before."""
    model, given = a_model(book, device), partial(batches, book)
    if device == "cpu":
        return [r.loss for r in book.training.train(model, given, 6)]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        return [r.loss for r in book.training.train(model, given, 6)]


def resuming(book: Book, device: str):
    """A run goes on from a checkpoint as if it had never stopped, to the last bit."""
    t, c, model = book.training, book.checkpoints, a_model(book, device)
    optimizer, given = t.adam(model), partial(batches, book)
    tokenizer = book.tokens.Tokenizer.train(["a b c"], 10)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "step-00000002.safetensors"
        for record in t.train(model, given, 4, optimizer):
            if record.step == 2:
                c.save_checkpoint(file, model, optimizer, record, tokenizer, {})
        found = c.load_checkpoint(file)
    other = a_model(book, device)
    other.load_state_dict(found.model)
    again = t.adam(other)
    c.load_optimizer(again, found.optimizer)
    last = list(t.train(other, given, 4, again, after=found.record))[-1]
    assert last.loss == record.loss
    one, two = model.state_dict(), other.state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    return one


def decoding(book: Book, device: str):
    d, model, src = book.decoding, a_model(book, device), the_source(book, device)
    generator = torch.Generator(device).manual_seed(0)
    drawn = d.sample(model, src, 1.3, top_k=20, top_p=0.9, max_length=9, generator=generator)
    return d.greedy(model, src), d.beam_search(model, src, 3), drawn


def saving(book: Book, device: str):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.safetensors"
        book.saving.save_model(file, a_model(book, device), dtype=torch.bfloat16)
        model, _ = book.saving.load_model(file, device)
    src = the_source(book, device)
    logits, maps = model(src, src, return_weights=True)
    return logits, maps.encoder, maps.cross


def gpt(book: Book, device: str):
    f = book.families
    torch.manual_seed(0)
    config = f.LanguageModelConfig(V, 16, 32, 2, 2, max_length=12, dropout=0.0)
    model = f.LanguageModel(config).to(device).eval()
    tokens = the_source(book, device)
    drawn = f.generate(model, tokens, 3, 0.9, 30, 0.9, torch.Generator(device).manual_seed(0))
    logits = model(tokens)
    F.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
    return f.generate(model, tokens, 3, 0.0), drawn, logits, model.embedding.weight.grad


def bert(book: Book, device: str):
    f = book.families
    torch.manual_seed(0)
    config = f.LanguageModelConfig(
        V, 16, 32, 2, 2, norm_first=False, max_length=12, causal=False, activation="gelu",
        n_segments=2, transform=True,
    )  # fmt: skip
    model, tokens = f.LanguageModel(config).to(device).eval(), the_source(book, device)
    generator = torch.Generator(device).manual_seed(0)
    spoilt, chosen = f.mask_tokens(tokens, tokens != 0, 1, V, 0.5, generator)
    mask = book.masks.padding_mask(tokens, 0)
    logits = model(spoilt, mask, torch.ones_like(spoilt))
    loss = F.cross_entropy(logits[chosen], tokens[chosen])
    loss.backward()
    return spoilt, chosen, logits, loss, model.positions.table.grad


def sparse(book: Book, device: str):
    s, n, found = book.sparse, 11, []
    torch.manual_seed(0)
    draws = [torch.randn(2, 3, n, 4) for _ in range(3)]
    real = (torch.arange(n) < torch.tensor([[n], [7]]))[:, None, None].to(device)
    forms = [
        lambda q, k, v, c: s.windowed_attention(q, k, v, 3, c, real),
        lambda q, k, v, c: s.dilated_attention(q, k, v, 2, 3, c, real),
        lambda q, k, v, c: s.global_attention(q, k, v, 3, 2, c, real),
        lambda q, k, v, c: s.flash_attention(q, k, v, real, 4),
        lambda q, k, v, c: s.flash_attention(q, k, v, s.global_mask(n, 3, 2, c, device), 4),
    ]
    for causal in (False, True):
        for form in forms:
            qkv = [x.clone().to(device).requires_grad_() for x in draws]
            y = form(*qkv, causal)
            y.square().sum().backward()
            found += [y, *(x.grad for x in qkv)]
        found.append(s.reach(s.windowed_mask(n, 2, causal, device)))
    pattern = partial(s.windowed_attention, window=2)
    layer, x = s.SparseAttention(12, 3, pattern).to(device), torch.randn(2, n, 12).to(device)
    return found, layer(x, x, x)


def parsing(book: Book, device: str):
    p, trees = book.parsing, []
    known = [p.read_tree("(S (NP (D the) (N dog)) (VP (V runs)))"), p.read_tree("(S (N it))")]
    for copying in (False, True):
        v = p.Vocabulary.learn(known, copying=copying)
        torch.manual_seed(0)
        config = book.transformer.TransformerConfig(len(v), 16, 32, 2, 1, 0.0)
        model = book.transformer.Transformer(config).to(device)
        trees += map(str, p.parse(model, v, [tree.words for tree in known]))
    return trees


def recurrent(book: Book, device: str):
    r, found = book.recurrent, []
    symbols, capitals = r.recall_batch(5, 4, torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    for kind in (r.RNN, r.LSTM, r.GRU):
        embed, net = nn.Embedding(17, 6).to(device), kind(6, 8).to(device)
        states, _ = net(embed(symbols.to(device)))
        F.cross_entropy(states[:, -1], capitals.to(device)).backward()
        found += [states, net.w.weight.grad, embed.weight.grad]
    net, x = r.RNN(6, 8).to(device), torch.randn(1, 4, 6).to(device)
    return found, r.gradient_norms(lambda h: net(x, h)[0], torch.zeros(1, 8, device=device))


def alignment(book: Book, device: str):
    a, found, src = book.alignment, [], the_source(book, device)
    q, k = (torch.ones(2, n, 4).to(device).cumsum(-1) / n for n in (3, 5))
    found += [a.Dot()(q, k), a.Kernel(2.0)(q, k)]
    for score in (lambda: None, lambda: a.Additive(8, 16, 8), lambda: a.General(8, 16)):
        torch.manual_seed(0)
        model = a.Translator(V, 8, score()).to(device)
        loss = a.translation_loss(model, src, src)
        loss.backward()
        found += [loss, model.embedding.weight.grad, *a.translate_greedily(model, src, 6)]
    return found


def losses(book: Book, device: str):
    """The two ways to the label-smoothed loss, with their gradients."""
    torch.manual_seed(0)
    x, w = torch.randn(9, 8).to(device).requires_grad_(), torch.randn(V, 8).to(device)
    targets = torch.arange(1, 10).to(device)
    fast = book.kernels.linear_cross_entropy(x, w, targets)
    plain, _ = book.training.label_smoothed_loss(x @ w.T, targets)
    return fast, plain, *torch.autograd.grad(fast + plain, x)


def today(book: Book, device: str):
    """A Llama: trained a little, read at once and from a cache, and written by."""
    t, tokens, found = book.today, the_source(book, device), []
    for options in ({}, {"window": 3, "sinks": 1, "qk_norm": True, "qkv_bias": True}):
        torch.manual_seed(0)
        config = t.LlamaConfig(V, 16, 24, 4, 2, 2, 4, tied=not options, **options)
        model = t.Llama(config).to(device)
        optimizer, mask = t.adamw(model), book.masks.padding_mask(tokens, 0)
        for step in (1, 2):
            loss = F.cross_entropy(model(tokens, mask).flatten(0, 1), tokens.flatten())
            optimizer.zero_grad()
            loss.backward()
            for group in optimizer.param_groups:
                group["lr"] = t.cosine_rate(step, 4, 1e-2, 1)
            optimizer.step()
        generator = torch.Generator(device).manual_seed(0)
        drawn = t.complete(model, tokens, 3, 0.9, 30, 0.9, generator)
        found += [loss, t.complete(model, tokens, 5), drawn, model.embedding.weight.grad]
    angles = t.rotary_angles(torch.arange(3, device=device), 4)
    x = torch.ones(2, 3, 4, device=device)
    return found, t.rotate(x, angles), t.rotate(x, angles, interleaved=True)


def parts(book: Book, device: str):
    """Small functions that the other works do without."""
    torch.manual_seed(0)
    x, y = (torch.randn(2, n, 4).to(device) for n in (3, 5))
    s, norm = book.similarity, book.sublayers.layer_norm
    states = [nn.Linear(2, 2).to(device).state_dict() for _ in range(2)]
    found = [f(x, y) for f in (s.dot_product, s.cosine, s.negative_distance)]
    logits, targets = y[:, :3], torch.tensor([[1, 2, 0], [3, 0, 0]], device=device)
    loss, tokens = book.training.label_smoothed_loss(logits, targets)
    chain = book.recurrent.longest_chain(nn.Linear(4, 4).to(device)(x) @ y.mT)
    scale, shift = torch.ones(2, 4, device=device).unbind()
    return found, norm(x, scale, shift, 1e-5), book.training.average(states), loss, tokens, chain


def models_that_ship(book: Book, device: str):
    model, tokenizer = allyouneed.pretrained("tatoeba-en-fr", device)
    sentences = ["A dog runs.", "", "I do not know where you are."]
    found = book.decoding.translate(model, tokenizer, sentences)
    score = book.evaluation.bleu(found, ["Un chien court.", "", "Je ne sais pas où vous êtes."])
    written = []
    for name in ("gpt", "bert"):
        model, tokenizer = book.families.load_language_model(name, device)
        ids = torch.tensor([book.families.encode_text(tokenizer, "the river is")], device=device)
        written.append(book.families.decode_text(tokenizer, model(ids).argmax(-1)[0]))
    return found, score, written


WORKS = [
    training, in_a_stream, resuming, decoding, saving, gpt, bert, sparse, parsing, recurrent,
    alignment, losses, today, parts, models_that_ship,
]  # fmt: skip


def on_cpu(result: Any) -> Any:
    """The same results with their tensors on the CPU."""
    return tree_map(lambda x: x.detach().cpu() if isinstance(x, Tensor) else x, result)


@pytest.mark.parametrize("work", WORKS)
def test_gives_what_a_cpu_gives(work):
    expected = on_cpu(work(Book(), "cpu"))
    with pretended() as gpu:
        found = on_cpu(work(Book(), "cuda"))
    assert gpu.launches.total() > 20
    torch.testing.assert_close(
        *(tree_map(lambda x: x if isinstance(x, Tensor | float) else 0, r) for r in
          (found, expected)), rtol=1e-4, atol=1e-5,
    )  # fmt: skip
    words = tree_map(lambda x: 0 if isinstance(x, Tensor | float) else x, found)
    assert words == tree_map(lambda x: 0 if isinstance(x, Tensor | float) else x, expected)


def test_training_in_half_precision():
    """On a GPU other operations are used; the losses are near those of float32."""
    expected = training(Book(), "cpu")
    with pretended("H200", (9, 0)):
        found = training(Book(), "cuda", precision="bf16")
    assert found[0] == pytest.approx(expected[0], rel=0.02)


def test_the_command(tmp_path, capsys, monkeypatch):
    """It takes the GPU that it finds: train, and translate with what was trained."""
    file = tmp_path / "pairs.tsv"
    words = ["ein", "Hund", "geht", "Mann", "im", "Haus"]
    lines = [f"{a} {b}\t{b} {a}\n" for a in words for b in words if a != b]
    file.write_text("".join(lines), encoding="utf-8")
    options = "--d-model 8 --d-ff 8 --heads 2 --layers 1 --vocabulary 40 --batch-tokens 80 "
    options += "--steps 4 --validate-every 2 --average 2 --threads 1"
    out, runs, waited = str(tmp_path / "run"), Book().runs, []
    read = runs.Run.read_losses

    def watched(run):
        before, updates = gpu.waits.total(), len(run.unread)
        read(run)
        waited.append((updates, gpu.waits.total() - before))

    monkeypatch.setattr(runs.Run, "read_losses", watched)
    with pretended() as gpu:
        main = import_module("allyouneed.command").main
        assert main(["train", "--data", str(file), "--out", out, *options.split()]) == 0
        assert main(["translate", "ein Hund", "--model", out]) == 0
    assert "float16 on cuda" in capsys.readouterr().out
    assert waited == [(2, 1), (2, 1)]  # one wait, of however many updates the losses are read


def test_pictures_want_arrays(gpu):
    from allyouneed.viz import attention_map

    weights = torch.eye(2, device="cuda")
    with pytest.raises(TypeError, match=NUMPY):
        attention_map(weights, ["a", "b"], ["c", "d"])
    attention_map(weights.cpu(), ["a", "b"], ["c", "d"])


def update(
    d_model: int,
    n_layers: int,
    precision: str,
    accumulate: int = 1,
    book: Book = BOOK,
) -> Pretended:
    """The second update of a model, on a GPU that has bfloat16."""
    with pretended("H200", (9, 0)) as gpu:
        config = book.transformer.TransformerConfig(V, d_model, 4 * d_model, 4, n_layers)
        model = book.transformer.Transformer(config).to("cuda")
        run = book.training.train(
            model, partial(batches, book), 9, precision=precision, accumulate=accumulate
        )
        next(run)
        gpu.reset()
        next(run)
        launches, waits = gpu.launches.copy(), gpu.waits.copy()
        run.close()
    gpu.launches, gpu.waits = launches, waits
    return gpu


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("size, n_layers, most", [("tiny", 3, 380), ("base", 6, 700)])
def test_an_update_launches_little_and_waits_for_nothing(size, n_layers, most, precision):
    """At a width of 64, not 256 and 512: how many operations there are, the layers decide."""
    gpu = update(64, n_layers, precision)
    assert gpu.launches.total() <= most, gpu.launches
    assert not gpu.waits, gpu.waits


# What it must find: faults put into copies of the package

LEFT = 'self.register_buffer("table", sinusoids(max_length, d_model), persistent=False)'
FAULTS = {
    "a mask made on the CPU": (
        training, "masks", "length, dtype=torch.bool, device=device)", "length).bool()", MIX),
    "a buffer left behind": (
        decoding, "positions", LEFT, "self.table = sinusoids(max_length, d_model)", MIX),
    "numpy of a result": (decoding, "decoding", "zip(rows.tolist()", "zip(rows.numpy()", NUMPY),
    "a generator of the CPU": (
        bert, "families", '"generator": generator}', '"generator": torch.Generator()}',
        WRONG_GENERATOR),
    "a generator of the GPU": (
        bert, "families", '{"device": tokens.device,', '{"device": "cpu",', WRONG_GENERATOR),
    "positions on the CPU": (
        sparse, "sparse", "place = torch.arange(length, device=device)",
        "place = torch.arange(length)", MIX),
    "a one-hot made on the CPU": (
        gpt, "families", "x = self.embedding(tokens)",
        "x = torch.eye(self.config.vocab_size)[tokens.cpu()] @ self.embedding.weight", MIX),
    "torch.equal across devices": (
        decoding, "checks", "if not lengths.all():",
        "if torch.equal(lengths, torch.zeros(len(lengths))):", MIX),
    "targets left on the CPU": (
        alignment, "alignment", "model(src, tgt[:, :-1]), tgt[:, 1:]",
        "model(src, tgt[:, :-1]), tgt[:, 1:].cpu()", MIX),
    "an index of the GPU into a table of the CPU": (
        alignment, "alignment", "self.dropout(self.embedding(tgt))",
        "self.dropout(self.embedding.weight.cpu()[tgt])", INDICES),
    "the optimiser's state on the CPU": (
        resuming, "checkpoints", 'optimizer.load_state_dict(state | {"state": parts})',
        "optimizer.state.update({parameters[i]: x for i, x in parts.items()})", MIX),
    "a sum on the CPU": (
        training, "training", "torch.zeros(2, device=device)", "torch.zeros(2)", MIX),
    "a model left behind": (
        saving, "saving", "model.to(device), tokenizer", "model, tokenizer", MIX),
    "a gradient on the CPU": (
        sparse, "sparse", "dq, dk, dv = torch.zeros_like(q)", "dq, dk, dv = torch.zeros(q.shape)",
        MIX),
    "a sum in the thread that sends batches": (
        training, "training", "x.pin_memory().to(device, non_blocking=True)",
        "x.to(device) + torch.zeros(1, dtype=x.dtype)", MIX),
    "batches sent in a stream that nobody waits for": (
        in_a_stream, "kernels", "with torch.cuda.stream(stream):", "with torch.cuda.stream(None):",
        STREAM),
    "a result read too early": (
        decoding, "decoding", "zip(rows.tolist()",
        "zip(rows.to('cpu', non_blocking=True).tolist()", LATE),
    "a product of whole numbers": (
        gpt, "families", "x = self.embedding(tokens)",
        "tokens @ tokens.T; x = self.embedding(tokens)", NO_PRODUCT),
    "a saved mask on the CPU": (
        losses, "kernels", "dx, dw = ctx.saved_tensors",
        "dx, dw = ctx.saved_tensors; dx = dx * torch.ones(dx.shape)", MIX),
    "a mask kept for all devices": (
        training, "masks", "return torch.ones(length, length, dtype=torch.bool, device=device)",
        "return causal_mask.__dict__.setdefault(length, torch.ones(length, length, "
        "dtype=torch.bool, device=device))", MIX),
    "layers in a plain list": (
        training, "transformer",
        "nn.ModuleList(\n            DecoderLayer(config) for _ in range(config.n_layers)\n",
        "list(\n            DecoderLayer(config) for _ in range(config.n_layers)\n", MIX),
    "memory set aside on the CPU": (
        decoding, "cache", "self.cross.new_empty(*axes, ROOM * beams, K)",
        "torch.empty(*axes, ROOM * beams, K)", MIX),
    "one buffer for all batches": (
        training, "training", "x.pin_memory().to(device, non_blocking=True)",
        "to_device.__dict__.setdefault('kept', torch.empty(999, dtype=torch.long).pin_memory())"
        "[: x.numel()].copy_(x.flatten()).to(device, non_blocking=True).view(x.shape)", EARLY),
    "a function for each number": (
        gpt, "families", "x = self.embedding(tokens)",
        "x = self.embedding(tokens.clone().apply_(int))", ONLY_CPU),
    "a histogram": (
        losses, "kernels", "ctx.save_for_backward(dx, dw)",
        "ctx.save_for_backward(dx, dw); torch.histogram(dx, 3)", "Could not run"),
    "a model that stays where it was": (
        training, "training", "objective = Objective(model, smoothing, dtype)",
        "objective = Objective(model.cpu(), smoothing, dtype)", MIX),
}  # fmt: skip


# These compute the right numbers; what they cost is that the host waits
SLOW = {
    "batches that are not pinned": (
        "training", "x.pin_memory().to(device, non_blocking=True)",
        "x.to(device, non_blocking=True)", "copy to cuda:0"),
    "a number filled in that the GPU has": (
        "training", "torch.where(bad | grown, 0, self.good + 1)",
        "(self.good + 1).masked_fill(bad | grown, 0 * self.good)", "masked_fill"),
    "a norm that PyTorch checks": (
        "training", "nn.utils.get_total_norm(grads)", "nn.utils.get_total_norm(grads, 2.0, True)",
        "_local_scalar_dense"),
    "what a singular value clips": (
        "training", "norm = nn.utils.get_total_norm(grads)",
        "norm = nn.utils.get_total_norm(grads) + 0 * torch.linalg.svdvals(grads[0])[0]",
        "_linalg_svd"),
}  # fmt: skip


@contextmanager
def faulty(module: str, old: str, new: str, folder: Path) -> Iterator[Book]:
    """A copy of the package under another name, one line of it changed."""
    name = f"faulty{abs(hash((module, old, new)))}"
    ignored = shutil.ignore_patterns("exercises", "pictures", "*.safetensors", "*.json")
    shutil.copytree(ROOT / "src" / "allyouneed", folder / name, ignore=ignored)
    for file in (folder / name).rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if file.stem == module:
            assert text.count(old) == 1, f"{old!r} is no longer in {module}.py, once"
            text = text.replace(old, new)
        file.write_text(text.replace("allyouneed", name), encoding="utf-8")
    sys.path.insert(0, str(folder))
    try:
        yield Book(name)
    finally:
        sys.path.remove(str(folder))
        for key in [key for key in sys.modules if key.split(".")[0] == name]:
            del sys.modules[key]


@pytest.mark.parametrize("fault", FAULTS)
def test_finds_a_fault(fault, tmp_path):
    """What works on a CPU only."""
    work, *change, words = FAULTS[fault]
    with faulty(*change, tmp_path) as book:
        work(book, "cpu")
        words = f"{words}|expected the .+ device, .+, got " if words == MIX else words
        with pretended(), pytest.raises((RuntimeError, TypeError, ValueError), match=words):
            work(book, "cuda")


@pytest.mark.parametrize("fault", SLOW)
def test_finds_a_wait(fault, tmp_path):
    """What a GPU does, and is waited for."""
    *change, name = SLOW[fault]
    with faulty(*change, tmp_path) as book:
        gpu = update(16, 1, "fp16", book=book)
    assert any(name in wait for wait in gpu.waits), gpu.waits


# The second witness


NO_GUARD = not hasattr(backend_registration, "_setup_privateuseone_for_python_backend")


@pytest.mark.skipif(NO_GUARD, reason="this PyTorch takes no device guard from Python")
@pytest.mark.skipif("ROUNDINGS" in os.environ, reason="here are no numbers to round")
def test_the_witness_agrees_with_the_shapes_and_devices():
    """It knows no numbers: an update that goes through reads none, so it waits for no GPU."""
    assert killed.said(faked.main).splitlines() == [
        f"(2, 4, {V}) other:0, (2, 2, 4, 5) other:0",
        *(f"{precision} other:0" for precision in ("fp32", "bf16", "fp16")),
        "left_behind two devices",
        "mask_on_cpu two devices",
        "number_read DataDependentOutputException",
    ]  # fmt: skip


# Notebooks


def test_notebooks_from_the_command_line(tmp_path):
    """What passes is counted, what fails is shown with its cell and its line."""
    start = "import allyouneed, torch\ndevice = allyouneed.start()\nx = torch.ones(3).to(device)"
    good = "%time x.sum().item()\ntorch.set_grad_enabled(False)\nx.cpu()"
    grad = "y = x.clone().requires_grad_()\ny.sum().backward()"
    for name, last in (("good", good), ("bad", "1\nx.numpy()"), ("grad", grad)):
        cells = [nbformat.v4.new_code_cell(source) for source in (start, last)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / f"{name}.ipynb")
    names = ("good.ipynb", "grad.ipynb", "bad.ipynb")
    command = [sys.executable, ROOT / "tests" / "pretend.py", *names]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=tmp_path)
    assert done.returncode == 1 and "tensor([1., 1., 1.])" in done.stdout
    assert "good.ipynb: passed, 3 launches, 3 waits" in done.stdout, done.stdout + done.stderr
    assert "grad.ipynb: passed" in done.stdout, done.stdout  # whatever the one before has set
    assert "bad.ipynb: failed in cell 2" in done.stdout and NUMPY in done.stdout
    assert 'File "cell 2", line 2' in done.stdout and "x.numpy()" in done.stdout


def test_notebooks_are_found_by_number_name_or_file(tmp_path, capsys):
    folder = ROOT / "notebooks"
    for name in ("12", "12_training", f"{folder / '12_training.ipynb'}"):
        assert pretend.notebook(name) == folder / "12_training.ipynb"
    assert pretend.notebook("0") == folder / "00_overview.ipynb"
    assert pretend.notebook("project") == folder / "project.ipynb"
    for name in ("99", "proyect", str(tmp_path)):
        with pytest.raises(SystemExit):
            pretend.main([name])
        said = capsys.readouterr().err
        assert "expected the number of a chapter, the name of a notebook or a file, got" in said


def test_a_notebook_that_does_not_take_the_readers_device(tmp_path):
    """What works with the name that `start` gives may fail with a device."""
    cells = ["import allyouneed, torch\ndevice = allyouneed.start()", "torch.autocast(device)"]
    cells = [nbformat.v4.new_code_cell(source) for source in cells]
    cells[0].metadata["tags"] = ["setup"]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "one.ipynb")
    assert "one.ipynb: passed" in killed.said(pretend.main, [f"{tmp_path}/one.ipynb"])
    said = killed.said(pretend.main, [f"{tmp_path}/one.ipynb", "--device", "cuda:0"], code=1)
    assert "failed in cell 2" in said and "of type `str`" in said


@pytest.mark.weekly
@pytest.mark.parametrize("device", [[], ["--device", "cuda:0"]], ids=["name", "device"])
@pytest.mark.parametrize("file", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda f: f.stem)
def test_a_notebook_runs_on_it(file, device):
    """`device` is what `start` gives, or what a reader writes after it."""
    command = [sys.executable, ROOT / "tests" / "pretend.py", file, *device]
    done = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LARGER = [file for file in NOTEBOOKS if "in str(device)" in file.read_text("utf-8")]


@pytest.mark.weekly
@pytest.mark.parametrize("file", LARGER, ids=lambda f: f.stem)
def test_a_reader_who_wants_the_cpu_computes_there(file):
    """Where a notebook does more on a GPU: nothing is moved there behind the reader's back."""
    command = [sys.executable, ROOT / "tests" / "pretend.py", file, "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert "passed, 0 launches, 0 waits" in done.stdout, done.stdout[-5000:] + done.stderr[-2000:]
