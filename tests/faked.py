"""The second witness: PyTorch's FakeTensorMode, whose tensors have shapes and devices, no numbers.

`cuda:0` cannot be their device where PyTorch is built for CPUs: a slice asks for a device guard
that is not there, and a gradient ends the process. But PyTorch has one more device, whose guard may
be written in Python. It stays for good, so this needs a process of its own:

python tests/faked.py          makes updates there, then plants faults; prints what is seen
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import backend_registration

from allyouneed import masks, training, transformer

DEVICE = "other:0"


def a_model() -> transformer.Transformer:
    with torch.device(DEVICE):
        return transformer.Transformer(transformer.TransformerConfig(40, 16, 32, 2, 2))


def on_device(data, device=None, **options) -> Tensor:
    """`torch.tensor`, which would ask for memory of the device."""
    return torch.full((), data, device=device, **options)


def look(model: transformer.Transformer) -> str:
    """The shapes and the device of what a model says and where it looks."""
    src = torch.ones(2, 5, dtype=torch.long, device=DEVICE)
    logits, maps = model(src, src[:, :4], return_weights=True)
    cross = maps.cross[1]
    return f"{tuple(logits.shape)} {logits.device}, {tuple(cross.shape)} {cross.device}"


def update(model: transformer.Transformer, precision: str = "fp32") -> str:
    """Train for an update, in which no number can be read; the devices of all that it leaves."""
    src, places = torch.ones(2, 5, dtype=torch.long, device=DEVICE), torch.arange(8, device=DEVICE)
    batch, optimizer = training.SentBatch(src, src, places, 1 / 8), training.adam(model)
    given = ((0, 1, [batch], 8) for _ in "ab")
    with patch.multiple(training, sent_groups=lambda *_: given, ahead=lambda items, device: items):
        record = next(training.train(model, list, 2, optimizer, None, 0.1, precision, 1, 1.0))
    made = [x for p in model.parameters() for x in (p, p.grad, *optimizer.state[p].values())]
    made += [vars(record)[name] for name in ("loss", "norm", "skipped")]
    return f"{precision} {' '.join({str(x.device) for x in made})}"


def left_behind(model: transformer.Transformer) -> AbstractContextManager:
    return patch.object(model.positions, "table", torch.ones(9, 16))


def mask_on_cpu(model: transformer.Transformer) -> AbstractContextManager:
    return patch.object(transformer, "causal_mask", lambda length, _: masks.causal_mask(length))


def number_read(model: transformer.Transformer) -> AbstractContextManager:
    loss = training.Objective.loss
    return patch.object(training.Objective, "loss", lambda *x: loss(*x) / loss(*x).item())


def main() -> None:
    backend_registration._setup_privateuseone_for_python_backend("other")
    with FakeTensorMode(allow_non_fake_inputs=True), patch.object(torch, "tensor", on_device):
        print(look(a_model()))
        for precision in ("fp32", "bf16", "fp16"):
            print(update(a_model(), precision))
        for fault in (left_behind, mask_on_cpu, number_read):
            model = a_model()
            try:
                with fault(model):
                    print(update(model))
            except (RuntimeError, ValueError) as error:  # PyTorch's, or that of a check
                two = " devices" in str(error) or " device, " in str(error)
                print(f"{fault.__name__} {'two devices' if two else type(error).__name__}")


if __name__ == "__main__":
    main()
