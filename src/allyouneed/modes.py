"""A model's mode: what computes without learning leaves it as it was.

This module is plumbing written by hand. Chapter 13 says what happens without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Without dropout and without gradients; afterwards every part is in the mode it was in."""
    modes = [(part, part.training) for part in model.modules()]
    if any(training for _, training in modes):
        model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for part, training in modes:
            if part.training != training:  # to set what a module holds takes its time
                part.training = training
