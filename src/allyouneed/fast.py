"""The two operations of a training step that PyTorch computes slowly on a CPU, in a faster way.

This module is plumbing written by hand. `linear_cross_entropy` gives what chapter 12's
`label_smoothed_loss` gives for `x @ weight.T`, but never holds all logits: it goes through the
positions in chunks that stay in the processor's cache, and computes the gradients on the way.
`FastDropout` does what `nn.Dropout` does with a quarter of the random numbers. Tests hold both
equal to what they replace.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from allyouneed.tokens import PAD

CHUNK = {"cpu": 512}  # positions whose logits are held at a time; elsewhere 8192
TINY = torch.finfo(torch.float32).tiny  # so that no loss is above 87 nats


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, targets, smoothing, learn):
        vocab_size = len(weight)
        share = smoothing / (vocab_size - 1)  # of every token but PAD
        w = weight.to(x.dtype)
        away = w.sum(0, dtype=torch.float32).sub_(w[PAD]).to(x.dtype)  # the sum of w without PAD
        dx, dw = torch.empty_like(x), torch.zeros_like(w)
        total = x.new_zeros((), dtype=torch.float32)
        size = CHUNK.get(x.device.type, 8192)
        for some in (slice(i, i + size) for i in range(0, len(x), size)):
            right = targets[some, None]
            z = x[some] @ w.T
            p = z.softmax(-1, dtype=torch.float32)
            z_right = z.gather(1, right).float()
            # -log p(right) is logsumexp(z) - z_right
            log_sum = z_right - p.gather(1, right).clamp_min(TINY).log()
            total += (log_sum - (1 - smoothing) * z_right).sum()
            total -= share * (x[some] @ away).sum(dtype=torch.float32)
            if not learn:
                continue
            p = p.to(x.dtype)
            p -= share  # from here on the gradient of the logits
            p[:, PAD] += share
            p.scatter_add_(1, right, p.new_full(right.shape, smoothing - 1))
            dx[some] = p @ w
            dw.addmm_(p.T, x[some])
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
    Raises ValueError for shapes that do not fit or a smoothing that is not in [0, 1).
    """
    if x.dim() != 2 or weight.dim() != 2 or x.shape[1] != weight.shape[1]:
        raise ValueError(
            f"x: expected (N, D) for a weight (V, D) = {tuple(weight.shape)}, got {tuple(x.shape)}"
        )
    if targets.shape != x.shape[:1]:
        raise ValueError(f"targets: expected shape ({len(x)},), got {tuple(targets.shape)}")
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing: expected a number in [0, 1), got {smoothing}")
    learn = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    return _LinearCrossEntropy.apply(x, weight, targets, smoothing, learn)


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, p):
        threshold = round(p * 65536)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        keep = draws.view(torch.int16)[: x.numel()].view(x.shape) >= threshold - 32768
        ctx.save_for_backward(keep)
        ctx.scale = 65536 / (65536 - threshold)
        return x * keep.to(x.dtype).mul_(ctx.scale)

    @staticmethod
    def backward(ctx, grad):
        (keep,) = ctx.saved_tensors
        return grad * keep.to(grad.dtype).mul_(ctx.scale), None


class FastDropout(nn.Dropout):
    """`nn.Dropout`, with four decisions out of each random number: p in steps of 1 / 65536.

    On the CPU only, and for p that is not rounded to 0 or 1; else it is `nn.Dropout`.
    """

    def forward(self, x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
        """x, its entries set to 0 with probability p and else divided by 1 - p, while training."""
        if not self.training or x.device.type != "cpu" or round(self.p * 65536) in (0, 65536):
            return super().forward(x)
        return _Drop.apply(x, self.p)


def use_fast_dropout(model: nn.Module) -> None:
    """Put `FastDropout` in place of every `nn.Dropout` of a model; parameters stay as they are."""
    for module in model.modules():
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, FastDropout(child.p))
