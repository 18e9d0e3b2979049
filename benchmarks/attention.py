"""Attention over long inputs, form beside form: `python benchmarks/attention.py --device cpu`.

Everybody is causal and gets the same queries, keys and values; see README.md in this folder.
"""

from __future__ import annotations

import argparse
import math
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from allyouneed.attention import attention
from allyouneed.masks import causal_mask
from allyouneed.sparse import (
    dilated_attention,
    dilated_mask,
    flash_attention,
    windowed_attention,
    windowed_mask,
)

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "experiments")]
from measure import Clock, ratio, rotated, table  # noqa: E402
from record import record  # noqa: E402

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
DILATION = 4
FULL, WINDOW, HOLES = "all keys", "window", "window with holes"


def flex(
    length: int, window: int, device: torch.device, dtype: torch.dtype
) -> tuple[str, Attend | None]:
    """`flex_attention` with the same window: compiled if that works here, else as it is."""
    try:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    except ImportError:
        return "flex_attention is not in this PyTorch", None
    torch.compiler.reset()  # each length is compiled anew: after eight, PyTorch would give up
    try:
        blocks = create_block_mask(
            lambda b, h, q, k: (q >= k) & (q - k < window), None, None, length, length, device
        )
    except torch.OutOfMemoryError:  # not compiled, it makes tables of numbers
        return "flex_attention: its blocks do not fit into the memory", None
    try:
        compiled = partial(torch.compile(flex_attention), block_mask=blocks)
        compiled(*torch.randn(3, 1, 4, length, 64, device=device, dtype=dtype).unbind(0))
        return "flex_attention, compiled", compiled
    except Exception as error:  # no compiler, or one that this PyTorch cannot use
        print(f"flex_attention is not compiled here: {type(error).__name__}")
        return "flex_attention, not compiled", partial(flex_attention, block_mask=blocks)


def forms(
    length: int, window: int, device: torch.device, dtype: torch.dtype
) -> dict[str, tuple[str, Attend]]:
    """What is measured: the name, which keys a query sees, and a function of q, k and v.

    A mask is made at the first call that needs it: where it does not fit, the others go on.
    """
    causal = cache(partial(causal_mask, length, device))
    near = cache(partial(windowed_mask, length, window, True, device))
    holes = {"window": window, "dilation": DILATION, "causal": True}
    sdpa = F.scaled_dot_product_attention
    found = {
        "SDPA, is_causal": (FULL, partial(sdpa, is_causal=True)),
        "by hand": (FULL, lambda q, k, v: attention(q, k, v, causal(), return_weights=True)[0]),
        "flash_attention": (FULL, lambda q, k, v: flash_attention(q, k, v, causal())),
        "SDPA with the window's mask": (WINDOW, lambda q, k, v: sdpa(q, k, v, near())),
        "windowed_attention": (WINDOW, partial(windowed_attention, window=window, causal=True)),
        "dilated_attention": (HOLES, partial(dilated_attention, **holes)),
    }
    name, attend = flex(length, window, device, dtype)
    if attend is None:
        print(name)
    return found | ({name: (WINDOW, attend)} if attend else {})


def require_equal(found: dict[str, tuple[str, Attend]], window: int, qkv: list[Tensor]) -> None:
    """An error unless everybody gives what `attention` gives with the mask of its pattern."""
    length, device = qkv[0].shape[-2], qkv[0].device
    masks = {
        FULL: causal_mask(length, device),
        WINDOW: windowed_mask(length, window, True, device),
        HOLES: dilated_mask(length, window, DILATION, True, device),
    }
    right = {sees: attention(*qkv, mask) for sees, mask in masks.items()}
    for name, (sees, attend) in found.items():
        off = (attend(*qkv) - right[sees]).abs().max().item()
        if off > (1e-3 if qkv[0].dtype == torch.float32 else 5e-2):
            raise AssertionError(f"{name}: expected attention with its mask, got {off} off")


def forward(attend: Attend, qkv: list[Tensor]) -> None:
    attend(*(x.detach() for x in qkv))


def both(attend: Attend, qkv: list[Tensor]) -> None:
    out = attend(*qkv)
    torch.autograd.grad(out, qkv, torch.ones_like(out))


def peak_megabytes(work: Callable[[], object], device: torch.device) -> float:
    """The most that tensors allocated by a call take at a time, q, k and v themselves left out."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return (torch.cuda.max_memory_allocated(device) - before) / 1e6
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        work()
    events = [e for e in watched.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return max(accumulate(event.nbytes() for event in events)) / 1e6


def measure(
    found: dict[str, tuple[str, Attend]],
    call: Callable[[Attend, list[Tensor]], None],
    qkv: list[Tensor],
    rounds: int,
    clock: Clock,
) -> Iterator[dict]:
    """A row for each form; they take turns, in an order that rotates, after one warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in found}
    for turn in range(rounds + 1):
        for name in rotated(list(found), turn):
            s = clock.time(lambda name=name: call(found[name][1], qkv))
            seconds[name] += [s] * (turn > 0)
    for name, (sees, attend) in found.items():
        yield {
            "form": name,
            "sees": sees,
            "length": qkv[0].shape[-2],
            "pass": "forward" if call is forward else "forward and backward",
            "seconds": float(f"{median(seconds[name]):.4g}"),
            "times SDPA": float(f"{ratio(seconds[name], seconds['SDPA, is_causal']):.4g}"),
            "megabytes": float(f"{peak_megabytes(partial(call, attend, qkv), clock.device):.4g}"),
        }


def at_length(
    length: int, window: int, heads: int, rounds: int, clock: Clock, dtype: torch.dtype,
    left_out: dict[str, str], most: float = math.inf,
) -> Iterator[list[dict]]:  # fmt: skip
    """The rows of one length: of all forward passes, then of forward and backward passes.

    A form that fails, that does not fit into a GPU's memory, or of which one call takes more than
    `most` seconds, is named in `left_out` with the reason, and is not asked any more, at no longer
    length.
    """
    kind = {"device": clock.device, "dtype": dtype}
    qkv = [torch.randn((1, heads, length, 64), requires_grad=True, **kind) for _ in range(3)]
    found = forms(length, window, **kind)
    for name in [name for name in found if name not in {"SDPA, is_causal", *left_out}]:
        work = partial(able_calls(name, clock)[-1], found[name][1], qkv)
        try:
            slow = clock.time(work) > most and clock.time(work) > most  # the first may compile
        except torch.OutOfMemoryError:
            left_out[name] = f"does not fit from {length} positions on"
        except Exception as error:  # one form may fail on a new kind of GPU: the others go on
            left_out[name] = f"fails from {length} positions on: {type(error).__name__}"
            traceback.print_exc()
        else:
            if slow:
                left_out[name] = f"takes more than {most:g} seconds from {length} positions on"
    found = {name: form for name, form in found.items() if name not in left_out}
    try:
        require_equal(found, window, [x.detach() for x in qkv])
    except torch.OutOfMemoryError:
        print(f"{length} positions: not compared, the whole table does not fit into the memory")
    for call in (forward, both):
        able = {name: form for name, form in found.items() if call in able_calls(name, clock)}
        yield list(measure(able, call, qkv, rounds, clock))


def able_calls(name: str, clock: Clock) -> list[Callable[[Attend, list[Tensor]], None]]:
    """What a form can do: flex_attention has no backward pass on a CPU when compiled."""
    one_way = clock.device.type == "cpu" and name.startswith("flex")
    return [forward] if one_way else [forward, both]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = options.add_argument
    add("--device", default="cpu", help="cpu or cuda")
    add("--dtype", default="float32", help="or bfloat16, with which a GPU has its fast forms")
    add("--threads", type=int, default=1, help="of the CPU; with 1 its own time is measured")
    add("--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096, 8192])
    add("--window", type=int, default=256, help="keys that a query sees")
    add("--heads", type=int, default=4, help="of 64 entries each; one sequence")
    add("--rounds", type=int, default=5, help="how often everybody takes a turn")
    add("--record", action="store_true", help="write the table to the package's results")
    wanted = options.parse_args()

    torch.set_num_threads(wanted.threads)
    torch.manual_seed(0)
    warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
    clock, rows, left_out = Clock(torch.device(wanted.device)), [], {}
    sizes = wanted.window, wanted.heads, wanted.rounds, clock, getattr(torch, wanted.dtype)
    for length in wanted.lengths:
        for new in at_length(length, *sizes, left_out):
            rows += new
            print(f"\n{length} positions, {new[0]['pass']}, {wanted.device}, {clock.name}")
            print(*in_print(new), sep="\n", flush=True)
        if wanted.record:  # after each length: a long one may not fit into the memory
            conditions = {**vars(wanted), "time": clock.name, "dilation": DILATION}
            name = "attention_cost" + "_gpu" * (clock.device.type == "cuda")
            record(name, {**conditions, "rows": rows})
    for name, why in left_out.items():
        print(f"left out: {name} {why}")


def in_print(rows: list[dict]) -> Iterator[str]:
    """The lines of a table."""
    head = ["", "sees", "milliseconds", "times SDPA", "megabytes"]
    yield from table(
        head,
        [
            [
                row["form"],
                row["sees"],
                f"{1e3 * row['seconds']:.2f}",
                f"{row['times SDPA']:.2f}",
                f"{row['megabytes']:.1f}",
            ]
            for row in rows
        ],
    )


if __name__ == "__main__":
    main()
