"""Training: label smoothing, the learning-rate schedule, and the loop."""

# Made from notebooks/12_training.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice

import torch
from jaxtyping import Float, Int
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from allyouneed.fast import linear_cross_entropy, use_fast_dropout
from allyouneed.masks import causal_mask, padding_mask
from allyouneed.tokens import PAD, Batch
from allyouneed.transformer import Transformer, check_tokens

__all__ = [
    "label_smoothed_loss",
    "adam",
    "learning_rate",
    "Objective",
    "to_device",
    "gradients",
    "check_finite",
    "Record",
    "groups",
    "train",
    "validation_loss",
    "average",
]


def label_smoothed_loss(
    logits: Float[Tensor, "*N V"], targets: Int[Tensor, "*N"], smoothing: float = 0.1
) -> tuple[Float[Tensor, ""], int]:
    """The sum of the losses in nats, and the number of targets
    they stand for (section 5.4).

    Cross-entropy between softmax(logits) and a distribution with 1 - smoothing on the
    target and smoothing spread evenly over the V - 1 tokens that are not PAD. Targets
    that are PAD count for nothing. Raises ValueError for shapes that do not fit or a
    smoothing that is not in [0, 1).
    """
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"targets: expected shape {tuple(logits.shape[:-1])}, "
            f"got {tuple(targets.shape)}"
        )
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing: expected a number in [0, 1), got {smoothing}")
    real = targets != PAD
    log_p = logits[real].float().log_softmax(dim=-1)  # (tokens, V)
    right = log_p.gather(1, targets[real][:, None]).sum()
    others = (log_p.sum() - log_p[:, PAD].sum()) / (log_p.shape[1] - 1)
    return -(1 - smoothing) * right - smoothing * others, int(real.sum())


def adam(model: nn.Module) -> torch.optim.Adam:
    """Adam with the paper's beta_1 = 0.9, beta_2 = 0.98 and
    epsilon = 1e-9 (section 5.3).

    Its learning rate is set anew at every step by `train`. The update
    of all parameters is fused.
    """
    return torch.optim.Adam(
        model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True
    )


def learning_rate(step: int, d_model: int, warmup_steps: int = 4000) -> float:
    """d_model^-0.5 min(step^-0.5, step warmup_steps^-1.5): Vaswani et
    al. (2017), equation (3).

    Steps count from 1. Raises ValueError for a step, width or warm-up below 1.
    """
    for name, value in (
        ("step", step),
        ("d_model", d_model),
        ("warmup_steps", warmup_steps),
    ):
        if value < 1:
            raise ValueError(f"{name}: expected at least 1, got {value}")
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


class Objective(nn.Module):
    """A Transformer and its loss as one module, which computes in `dtype` what can be.

    With bfloat16, weights stay in float32; matrix products and what lies between the
    layers are in bfloat16 (autocast), softmax and loss in float32.
    """

    def __init__(self, model: Transformer, smoothing: float, dtype: torch.dtype):
        super().__init__()
        self.model, self.smoothing, self.dtype = model, smoothing, dtype

    def forward(
        self, src: Int[Tensor, "B S"], tgt: Int[Tensor, "B T"]
    ) -> Float[Tensor, ""]:
        """The sum of the label-smoothed losses of all target
        tokens but BOS, in nats."""
        model, device = self.model, src.device.type
        inputs, labels = tgt[:, :-1], tgt[:, 1:]
        src_mask = padding_mask(src, PAD)
        tgt_mask = causal_mask(inputs.shape[1], src.device)
        # Padding stands on the right of every token, where the
        # causal mask hides it already.
        with torch.autocast(device, self.dtype, enabled=self.dtype != torch.float32):
            memory = model.encoder(model.embed(src).to(self.dtype), src_mask)
            states = model.decoder(
                model.embed(inputs).to(self.dtype), memory, src_mask, tgt_mask
            )
        real = labels != PAD
        return linear_cross_entropy(
            states[real].to(self.dtype),
            model.embedding.weight,
            labels[real],
            self.smoothing,
        )


def to_device(x: Tensor, device: torch.device) -> Tensor:
    """A copy on the device; to a GPU it is made while the GPU still
    computes the batch before."""
    return (
        x.pin_memory().to(device, non_blocking=True)
        if device.type == "cuda"
        else x.to(device)
    )


def gradients(
    objective: nn.Module,
    group: Sequence[Batch],
    device: torch.device,
    rank: int,
    world: int,
) -> tuple[Float[Tensor, ""], int]:
    """Add to every weight's gradient that of the mean loss over all
    target tokens of the group.

    Each of `world` processes takes its share of the batches. Returns the mean
    loss, and the number of tokens, of the whole group. Raises ValueError for a
    group without target tokens.
    """
    tokens = sum(int(batch.tgt_mask[:, 1:].sum()) for batch in group)
    if not tokens:
        raise ValueError(
            "batches: expected target tokens after BOS, got none in one update"
        )
    weight = world / tokens  # the mean over processes takes `world` away
    mine = [(batch, weight) for batch in group[rank::world]]
    # the others wait for one more gradient: zero
    if len(mine) < math.ceil(len(group) / world):
        mine.append((group[0], 0.0))
    total = torch.zeros((), device=device)
    for i, (batch, weight) in enumerate(mine, 1):
        # else gradients are sent round after the last batch
        alone = world == 1 or i == len(mine)
        with nullcontext() if alone else objective.no_sync():
            loss = (
                objective(to_device(batch.src, device), to_device(batch.tgt, device))
                * weight
            )
            loss.backward()
        total += loss.detach()
    if world > 1:
        distributed.all_reduce(total)  # the sum over the processes
    return total / world, tokens


def check_finite(step: int, **values: Tensor) -> None:
    """Raise FloatingPointError unless all values of an update are finite numbers."""
    for name, value in values.items():
        if not math.isfinite(value):
            raise FloatingPointError(
                f"{name}: expected a finite number, "
                f"got {float(value)} at step {step}; the weights "
                "are those of the step before. A lower learning rate, "
                "a longer warm-up or max_norm "
                "may help"
            )


@dataclass(frozen=True)
class Record:
    """Where a run stands after an update, and how that update went.

    `step` updates are done, `batch` batches of epoch `epoch` are used up. `loss` is in
    nats per target token, smoothing included; `tokens` are the target tokens of the
    update, padding not counted; `norm` is the length of the gradient before clipping.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    loss: float = math.nan
    learning_rate: float = 0.0
    tokens: int = 0
    norm: float = math.nan


def groups(
    batches: Callable[[int], Iterable[Batch]], size: int, after: Record
) -> Iterator[tuple[int, int, list[Batch]]]:
    """The batches of epoch after epoch, `size` for each update,
    from where `after` stands.

    With them come the epoch, and how many of its batches are used up when
    they are. The last group of an epoch may be smaller. Raises ValueError for
    an epoch without batches.
    """
    epoch, used = after.epoch, after.batch
    while True:
        rest = islice(batches(epoch), used, None)
        while group := list(islice(rest, size)):
            used += len(group)
            yield epoch, used, group
        if not used:
            raise ValueError(
                f"batches: expected at least one batch in epoch {epoch}, got none"
            )
        epoch, used = epoch + 1, 0


def train(
    model: Transformer,
    batches: Callable[[int], Iterable[Batch]],
    steps: int,
    optimizer: torch.optim.Optimizer | None = None,
    schedule: Callable[[int], float] | None = None,
    smoothing: float = 0.1,
    dtype: torch.dtype = torch.float32,
    accumulate: int = 1,
    max_norm: float = math.inf,
    seed: int = 0,
    after: Record = Record(),
    objective: nn.Module | None = None,
) -> Iterator[Record]:
    """Train until `steps` updates are done, and yield a record after each of them.

    `batches(epoch)` gives the batches of an epoch, always the same ones for the same
    number; `schedule(step)` the learning rate, by default the paper's; `accumulate`
    batches make one update; gradients longer than `max_norm` are shortened to it. All
    that is random follows from `seed` and the step: with the model and the optimiser of
    a record put back and `after` that record, the run goes on as if it had never
    stopped. Inside `torchrun`, every process takes its share of the batches, and an
    update takes `accumulate` batches of each process. `objective` is the model's
    `Objective` if it is spread over the processes already; else
    `DistributedDataParallel` does it.

    PyTorch's generator is seeded before every update, and on a CPU `FastDropout`
    takes the place of the model's dropout. Raises ValueError for an id that is not
    in the vocabulary, for an update without target tokens and for arguments that do
    not fit, FloatingPointError when a loss or a gradient is not finite; either way
    before the weights change.
    """
    if accumulate < 1 or steps < 0:
        raise ValueError(
            "accumulate and steps: expected at least 1 and 0, "
            f"got {accumulate} and {steps}"
        )
    if not max_norm > 0:
        raise ValueError(f"max_norm: expected a length above 0, got {max_norm}")
    device = next(model.parameters()).device
    rank, world = 0, 1
    if distributed.is_initialized():
        rank, world = distributed.get_rank(), distributed.get_world_size()
    if device.type == "cpu":
        use_fast_dropout(model)
    if objective is None:
        objective = Objective(model, smoothing, dtype)
        objective = DistributedDataParallel(objective) if world > 1 else objective
    optimizer = optimizer or adam(model)
    schedule = schedule or (lambda step: learning_rate(step, model.config.d_model))
    updates = groups(batches, world * accumulate, after)

    for step in range(after.step + 1, steps + 1):
        epoch, batch, group = next(updates)
        for each in group:  # while it is on the CPU: a GPU does not survive a wrong id
            check_tokens("src", each.src, model.config.vocab_size)
            check_tokens("tgt", each.tgt, model.config.vocab_size)
        model.train()
        optimizer.zero_grad()
        # the dropout of this step
        torch.manual_seed((seed * 1_000_003 + step - 1) * 1_000 + rank)
        loss, tokens = gradients(objective, group, device, rank, world)
        norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        # of gradients that are spread over the processes
        if hasattr(norm, "full_tensor"):
            norm = norm.full_tensor()
        check_finite(step, loss=loss, gradient=norm)
        rate = schedule(step)
        if not 0 <= rate < math.inf:
            raise ValueError(
                f"schedule: expected a rate of at least 0, got {rate} at step {step}"
            )
        for settings in optimizer.param_groups:
            settings["lr"] = rate
        optimizer.step()
        yield Record(step, epoch, batch, float(loss), rate, tokens, float(norm))


@torch.inference_mode()
def validation_loss(
    model: Transformer, batches: Iterable[Batch], dtype: torch.dtype = torch.float32
) -> float:
    """The mean loss in nats per target token, without smoothing; its
    exponential is perplexity.

    Every token counts alike, in whatever batch it stands. The model's mode is as it was
    before. Raises ValueError for no batches.
    """
    device, training = next(model.parameters()).device, model.training
    objective = Objective(model.eval(), 0.0, dtype)
    total = tokens = 0
    for batch in batches:
        total += float(objective(batch.src.to(device), batch.tgt.to(device)))
        tokens += int(batch.tgt_mask[:, 1:].sum())
    model.train(training)
    if not tokens:
        raise ValueError("batches: expected at least one batch, got none")
    return total / tokens


def average(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several checkpoints of one model, entry by entry (section 6.1).

    Raises ValueError for no states, or for states with other names or shapes.
    """
    if not states:
        raise ValueError("states: expected at least one, got none")
    first = states[0]
    for state in states[1:]:
        if {k: v.shape for k, v in state.items()} != {
            k: v.shape for k, v in first.items()
        }:
            raise ValueError(
                "states: expected the same names and shapes in all of them"
            )
    return {
        k: torch.stack([s[k].float() for s in states]).mean(0).to(first[k].dtype)
        for k in first
    }
