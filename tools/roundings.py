"""Round as an imagined processor does: each sum and each exponential ends in other last places.

A program to begin with (PYTHONSTARTUP, see processors.py). Processors take a sum in different
orders, and exponentials by different polynomials: their results differ in the last places of a
float. Here a number from such an operation moves by so many units in the last place (ULP) as its
digits and a seed decide. What was equal stays equal; a number of few digits is exact on all
processors, and stays as it is.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

ROUNDED = {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "sum", "mean", "var", "var_mean"}
ROUNDED |= {"exp", "log", "tanh", "sigmoid", "gelu", "logsumexp", "linalg_vector_norm", "cumsum"}
ROUNDED |= {"_softmax", "_log_softmax", "native_layer_norm", "mkldnn_rnn_layer", "convolution"}
ROUNDED |= {"_softmax_backward_data", "_log_softmax_backward_data", "native_layer_norm_backward"}
ROUNDED |= {"_scaled_dot_product_flash_attention_for_cpu", "embedding_dense_backward", "sin", "cos"}
ROUNDED |= {"mkldnn_linear", "_addmm_activation", "erf", "pow", "log1p", "std", "einsum"}
FEW = 255  # the last bits of a number of few digits are zero


class Roundings(TorchDispatchMode):
    def __init__(self, seed: int):
        super().__init__()
        self.factor = 2654435761 + 2 * seed

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if func._schema.name.removeprefix("aten::") in ROUNDED:
            for one in found if isinstance(found, tuple | list) else (found,):
                if type(one) is Tensor and one.dtype == torch.float32 and one.device.type == "cpu":
                    self.move(one)
        return found

    def move(self, numbers: Tensor) -> None:
        """Move float32 numbers, in place, by -2 to 2 units in their last place."""
        bits = numbers.view(torch.int32)
        steps = ((bits * self.factor) >> 20) % 5 - 2
        steps.mul_((bits & FEW) != 0).mul_(numbers.isfinite())
        bits += steps


if seed := os.environ.get("ROUNDINGS"):
    Roundings(int(seed)).__enter__()
