"""Round as an imagined processor does: sums and exponentials end in other last places.

PYTHONPATH=tools/imagined ROUNDINGS=1 begins every Python so; ROUNDINGS=2 as another one.

Processors take sums in different orders and exponentials by different polynomials, and what they
get differs in the last places of a float. Here each number that comes from such an operation moves
by at most two units in its last place, as its digits and the seed decide. What was equal stays
equal, what was opposite opposite, and what has few digits (0, 1, 0.25, 12) is exact on every
processor and stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps

import torch
from torch import Tensor
from torch.nn.attention import flex_attention
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

ROUNDED = {"mm", "addmm", "_addmm_activation", "bmm", "baddbmm", "mv", "addmv", "dot"}
ROUNDED |= {"convolution", "mkldnn_rnn_layer", "_scaled_dot_product_flash_attention_for_cpu"}
ROUNDED |= {"sum", "mean", "var", "var_mean", "std", "cumsum", "linalg_vector_norm", "logsumexp"}
ROUNDED |= {"exp", "log", "log1p", "tanh", "sigmoid", "erf", "gelu", "pow", "sin", "cos"}
ROUNDED |= {"_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data"}
ROUNDED |= {"native_layer_norm", "native_layer_norm_backward", "embedding_dense_backward"}
PRODUCTS = {"mm", "addmm", "_addmm_activation", "bmm", "baddbmm"}
DIGITS = 2**23 - 1  # without sign and exponent: twice a sum, or minus a sum, ends as the sum does
LAST_BITS = 255  # of these 23; a number of few digits has none of them
SMALLEST = torch.finfo(torch.float32).tiny  # what is smaller some processors take for zero


def picks(args: tuple) -> bool:
    """Whether each sum in a product of two matrices has a single term: it is exact then."""
    a, b = [one for one in args if isinstance(one, Tensor)][-2:]
    return any(((x != 0).sum(axis) <= 1).all() for x, axis in ((a, -1), (b, -2)))


class Roundings(TorchDispatchMode):
    """Inside of it, float32 numbers on the CPU end as a seed decides. Float64 is left alone."""

    supports_higher_order_operators = True

    def __init__(self, seed: int):
        super().__init__()
        self.factor = 2654435761 + 2 * seed  # odd: it mixes what it multiplies

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        name = func.name().removeprefix("aten::").partition(".")
        if name[0] in ROUNDED and "out" not in name[2]:
            for one in found if isinstance(found, tuple | list) else [found]:
                if type(one) is Tensor and one.dtype == torch.float32 and one.device.type == "cpu":
                    if not (name[0] in PRODUCTS and picks(args)):
                        self.move(one)
        return found

    def move(self, numbers: Tensor) -> None:
        bits = numbers.view(torch.int32)
        steps = (((bits & DIGITS) * self.factor) >> 20) % 5 - 2
        size = numbers.abs()
        bits += steps * ((bits & LAST_BITS) != 0) * (size > SMALLEST) * size.isfinite()


def outside(function: Callable) -> Callable:
    """The function as it is without us: PyTorch compiles nothing inside of a mode."""

    @wraps(function)
    def call(*args, **kwargs):
        with _disable_current_modes():
            return function(*args, **kwargs)

    return call


if os.environ.get("ROUNDINGS"):
    flex_attention.flex_attention = outside(flex_attention.flex_attention)
    Roundings(int(os.environ["ROUNDINGS"])).__enter__()
