"""What makes a training step fast and is not what the step is about.

This module is plumbing written by hand. `linear_cross_entropy` gives what chapter 12's
`label_smoothed_loss` gives for `x @ weight.T`, but never holds all logits: it goes through the
positions in chunks that stay in the processor's cache, and computes the gradients on the way.
`in_dtype` lets a module compute in half precision, its weights cast in one operation. `few_bits`
lets its dropout draw fewer random bits. `any_shape` keeps attention from a kernel that is planned
for one shape. `ahead` makes the batches that come while a GPU is at work on this one. Tests hold
each equal to what it replaces; `few_bits` drops other entries, but as many, and as much by chance.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from allyouneed.checks import check_probability, check_product, check_targets
from allyouneed.provenance import processor
from allyouneed.tokens import PAD

CHUNK = {"cpu": 512}  # positions whose logits are held at a time; elsewhere 8192
ROWS = {"cpu": 32}  # of them in float32 at a time: what the cache of one core holds
TINY = torch.finfo(torch.float32).tiny  # so that no loss is above 87 nats


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, targets, smoothing, learn):
        vocab_size = len(weight)
        share = smoothing / (vocab_size - 1)  # of every token but PAD
        w = weight.to(x.dtype)
        away = w.sum(0, dtype=torch.float32).sub_(w[PAD]).to(x.dtype)  # the sum of w without PAD
        # The gradient of the logits is p, minus `share` for all tokens but PAD, minus 1 - smoothing
        # for the right one. Of `share` no matrix is made: times w it is `away`, times x the same
        # for each of these tokens, with which dw begins.
        dx, dw = torch.empty_like(x), (-share * x.sum(0, dtype=torch.float32)).to(x.dtype)
        dw = dw.repeat(len(w), 1)
        dw[PAD] = 0
        total = x.new_zeros((), dtype=torch.float32)
        size = CHUNK.get(x.device.type, 8192)
        rows = ROWS.get(x.device.type, size)
        for some in (slice(i, i + size) for i in range(0, len(x), size)):
            right = targets[some, None]
            z = x[some] @ w.T
            z_right = z.gather(1, right).float()
            p_right = torch.empty_like(z_right)
            for few in (slice(i, i + rows) for i in range(0, len(z), rows)):
                p = z[few].softmax(-1, dtype=torch.float32)
                torch.gather(p, 1, right[few], out=p_right[few])
                if learn:
                    p.scatter_(1, right[few], smoothing - 1, reduce="add")
                    z[few] = p  # rounded now: a p that was has lost the small differences
            # -log p(right) is logsumexp(z) - z_right
            log_sum = z_right - p_right.clamp_min(TINY).log()
            total += (log_sum - (1 - smoothing) * z_right).sum()
            total -= share * (x[some] @ away).sum(dtype=torch.float32)
            if learn:
                torch.sub(z @ w, away, alpha=share, out=dx[some])
                dw.addmm_(z.T, x[some])
        ctx.save_for_backward(dx, dw)
        ctx.dtype = weight.dtype
        return total

    @staticmethod
    def backward(ctx, grad):
        dx, dw = ctx.saved_tensors
        return dx * grad.to(dx.dtype), dw.to(ctx.dtype) * grad, None, None, None


def linear_cross_entropy(
    x: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    targets: Int[Tensor, " N"],
    smoothing: float = 0.1,
) -> Float[Tensor, ""]:
    """The sum of the label-smoothed losses, in nats, of the logits `x @ weight.T`.

    Section 5.4, with the smoothed distribution of `label_smoothed_loss`. Computed in the dtype of
    x, the softmax and the sum in float32; no token's loss comes out above 87 nats, the logarithm of
    float32's smallest probability. No target may be PAD: leave these positions out before.
    Gradients reach x and weight; they are computed at once, so the result backs up once only.
    Raises ValueError for shapes that do not fit, a target that is no token, or a smoothing that is
    not in [0, 1).
    """
    check_product(x, weight)
    check_targets(x, targets, len(weight))
    check_probability(smoothing=smoothing)
    learn = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    return _LinearCrossEntropy.apply(x, weight, targets, smoothing, learn)


def _like(tensors: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """Empty tensors of these shapes in `dtype`, all in one piece of memory."""
    sizes = [-(-x.numel() // 64) * 64 for x in tensors]  # each begins where products like it
    pieces = tensors[0].new_empty(sum(sizes), dtype=dtype).split(sizes)
    return [p[: x.numel()].view(x.shape) for p, x in zip(pieces, tensors, strict=True)]


class _Copies(torch.autograd.Function):
    @staticmethod
    def forward(ctx, copies, *weights):
        ctx.dtype = weights[0].dtype
        # The backward pass takes first what was made last, and this is made before all layers: with
        # its own number it would come after all of them. With a high one it comes when it can.
        ctx._set_sequence_nr(2**62)
        return tuple(copies)

    @staticmethod
    def backward(ctx, *grads):
        wide = _like(grads, ctx.dtype)
        torch._foreach_copy_(wide, list(grads))
        return None, *wide


def _layers(module: nn.Module) -> Iterator[list[nn.Module]]:
    """All parts of a module, in groups: those of each of its layers together, and itself alone."""
    yield [module]
    for child in module.children():
        several = isinstance(child, nn.ModuleList | nn.Sequential)
        yield from (list(layer.modules()) for layer in (child if several else [child]))


@contextmanager
def in_dtype(module: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """While it lasts, the module computes with copies of its weights in `dtype`.

    The copies are made at the beginning, all in one operation, and gradients that reach them go on
    to the weights, in the weights' own type, which is one for all. They do so layer by layer, so
    that those of the last layer can be sent to other processes while the first is still to come.
    Of a module in `dtype`, nothing is copied.
    """
    layers = [
        [
            (part._parameters, name, w)
            for part in layer
            for name, w in part._parameters.items()
            if w is not None
        ]
        for layer in _layers(module)
    ]
    held = [each for layer in layers for each in layer]
    if all(w.dtype == dtype for *_, w in held):
        yield
        return
    copies = _like([w for *_, w in held], dtype)
    with torch.no_grad():
        torch._foreach_copy_(copies, [w for *_, w in held])
    rest = iter(copies)
    try:
        for layer in filter(None, layers):
            own_copies = list(islice(rest, len(layer)))
            attached = _Copies.apply(own_copies, *(w for *_, w in layer))
            for (own, name, _), copy in zip(layer, attached, strict=True):
                own[name] = copy
        yield
    finally:
        for own, name, w in held:
            own[name] = w


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, p):
        bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        bits = bits.view(torch.int16)[: x.numel()].view(x.shape)  # from -2**15 to 2**15 - 1
        dropped = min(round(p * 2**16), 2**16 - 1)  # of 2**16 numbers
        kept = torch.ge(bits, dropped - 2**15, out=torch.empty_like(x))
        kept *= 2**16 / (2**16 - dropped)
        ctx.save_for_backward(kept)
        return x * kept

    @staticmethod
    def backward(ctx, grad):
        (kept,) = ctx.saved_tensors
        return grad * kept, None


class _FewBits(nn.Dropout):
    def forward(self, x):
        here = self.training and 0 < self.p < 1 and x.device.type == "cpu"
        return _Dropped.apply(x, self.p) if here else super().forward(x)


@contextmanager
def few_bits(module: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """While it lasts, the dropout of a module that computes in half precision draws 16 random bits
    for each entry on a CPU, where PyTorch's draws 64.

    They are drawn one after the other, on one core, which takes from 6 to 22 % of an update
    (benchmarks/README.md). The share that is dropped is p to the nearest 65,536th. In float32, and
    on other devices, nothing changes.
    """
    parts = [part for part in module.modules() if type(part) is nn.Dropout]
    if dtype == torch.float32:
        parts = []
    for part in parts:
        part.__class__ = _FewBits
    try:
        yield
    finally:
        for part in parts:
            part.__class__ = nn.Dropout


@contextmanager
def any_shape() -> Iterator[None]:
    """While it lasts, attention is not given to cuDNN, which plans anew for each shape.

    PyTorch does that on some GPUs in half precision, and there are hundreds of shapes in an epoch
    of sentences. On a B200 a plan took half a second, and a second one for the backward pass, which
    is cuDNN's where the forward pass was: https://github.com/modelscope/FunASR/pull/3705.
    """
    flags = torch.backends.cuda
    before = flags.cudnn_sdp_enabled()
    flags.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        flags.enable_cudnn_sdp(before)


def half_dtype(device: torch.device) -> torch.dtype:
    """The half precision that a device has units for; float32 where it has none.

    bfloat16 on GPUs of compute capability 8.0 and above and on processors with AVX512-BF16 or AMX,
    float16 on older GPUs.
    """
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        return torch.bfloat16 if capability >= (8, 0) else torch.float16
    has_units = any(flag in processor() for flag in ("avx512_bf16", "amx_bf16"))
    return torch.bfloat16 if device.type == "cpu" and has_units else torch.float32


Item = TypeVar("Item")
AHEAD = 2  # items that are ready before they are asked for


def ahead(items: Iterable[Item], device: torch.device) -> Iterator[Item]:
    """The items, the same ones in the same order, made by a thread before they are asked for.

    What goes wrong in the thread is raised where the item would have come. The thread ends with the
    items, or when the iterator is closed or let go. On a GPU it works in the stream in which the
    first item is asked for: what it sends is there when those who ask compute with it.
    """
    stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
    ready: queue.Queue[Any] = queue.Queue(AHEAD)
    closed, end = threading.Event(), object()

    def put(item: Any) -> bool:
        while not closed.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                pass
        return False

    def make() -> None:
        try:
            with torch.cuda.stream(stream):  # None changes nothing
                for item in items:
                    if not put((item, None)):
                        return
            put((end, None))
        except BaseException as error:  # the reader's thread is to hear of it
            put((end, error))

    maker = threading.Thread(target=make, name="batches ahead", daemon=True)
    maker.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is end:
                return
            yield item
    finally:
        closed.set()
        maker.join(timeout=10)  # it may itself be waiting for somebody
