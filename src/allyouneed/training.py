"""Training: label smoothing, the learning-rate schedule, and the loop."""

# Made from notebooks/12_training.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from allyouneed.checks import (
    check_batch,
    check_batches,
    check_choice,
    check_epoch,
    check_kind,
    check_logits,
    check_module,
    check_objective,
    check_optimizer,
    check_probability,
    check_rate,
    check_run,
    check_same_states,
    check_sizes,
    check_target_tokens,
)
from allyouneed.kernels import (
    ahead,
    any_shape,
    few_bits,
    half_dtype,
    in_dtype,
    linear_cross_entropy,
)
from allyouneed.modes import eval_mode
from allyouneed.tokens import PAD, Batch
from allyouneed.transformer import Transformer

__all__ = [
    "label_smoothed_loss",
    "adam",
    "learning_rate",
    "average",
    "check_finite",
    "Guard",
    "Record",
    "groups",
    "Objective",
    "gradients",
    "dtype_of",
    "validation_loss",
    "train",
]


def label_smoothed_loss(
    logits: Float[Tensor, "*N V"], targets: Int[Tensor, "*N"], smoothing: float = 0.1
) -> tuple[Float[Tensor, ""], int]:
    """The sum of the losses in nats, and the number of targets
    they stand for (section 5.4).

    Cross-entropy between softmax(logits) and a distribution with 1 - smoothing on the
    target and smoothing spread evenly over the V - 1 tokens that are not PAD. Targets
    that are PAD count for nothing. Raises ValueError for shapes that do not fit, a
    target that is no token, logits that are not finite (on the CPU), or a smoothing
    that is not in [0, 1).
    """
    check_logits(logits, targets)
    check_probability(smoothing=smoothing)
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
    check_module(model=model)
    return torch.optim.Adam(
        model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True
    )


def learning_rate(step: int, d_model: int, warmup_steps: int = 4000) -> float:
    """d_model^-0.5 min(step^-0.5, step warmup_steps^-1.5): Vaswani et
    al. (2017), equation (3).

    Steps count from 1. Raises ValueError for a step, width or warm-up below 1.
    """
    check_sizes(step=step, d_model=d_model, warmup_steps=warmup_steps)
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def average(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several checkpoints of one model, entry by entry (section 6.1).

    Raises ValueError for no states, or for states with other names or shapes.
    """
    check_same_states(states)
    return {
        k: torch.stack([s[k].float() for s in states]).mean(0).to(states[0][k].dtype)
        for k in states[0]
    }


def clip_gradients(
    model: nn.Module, max_norm: float, scale: Tensor | float = 1.0
) -> Float[Tensor, ""]:
    """Divide all gradients by `scale`, and shorten them if they
    are then longer than `max_norm`, all together.

    Returns the length they had: Pascanu et al. (2013), section 3.2.
    """
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = nn.utils.get_total_norm(grads) / scale
    if isinstance(scale, Tensor) or max_norm < math.inf:
        torch._foreach_mul_(grads, (max_norm / norm).clamp(max=1) / scale)
    # of gradients that are spread over the processes
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


def check_finite(step: int, **values: Tensor | float) -> None:
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


class Guard:
    """Keeps an update that is not finite away from the
    weights, and does not wait for a GPU.

    With float16 it also sets the loss scale of Micikevicius et al. (2018), section 3.2,
    by the rule of PyTorch's `GradScaler`: an update that overflows is skipped and
    halves the scale; 2,000 good ones in a row double it.
    """

    def __init__(
        self, after: Record, dtype: torch.dtype, device: torch.device | str = "cpu"
    ):
        self.scaled, self.first = dtype == torch.float16, after.step + 1
        self.scale = torch.tensor(after.scale, device=device)
        self.good = torch.tensor(after.good, device=device)
        self.skipped = torch.tensor(after.skipped, device=device)
        self.failed = torch.tensor(False, device=device)
        self.steps = torch.tensor(0, device=device)  # before one that failed
        self.values = torch.zeros(2, device=device)  # loss and norm of the last of them

    def step(
        self, optimizer: torch.optim.Optimizer, loss: Tensor, norm: Tensor
    ) -> None:
        """Let the optimiser step if loss and norm are finite, and were so before."""
        values = torch.stack([loss, norm])
        fatal = bad = ~values.isfinite().all()
        if self.scaled:
            grown = self.good + 1 == 2000
            factor = torch.where(bad, 0.5, torch.where(grown, 2.0, 1.0))
            self.scale = self.scale * factor
            self.good = torch.where(bad | grown, 0, self.good + 1)
            self.skipped = self.skipped + bad
            fatal = bad & (self.scale < 1)
        self.values = torch.where(self.failed, self.values, values)
        self.failed = self.failed | fatal
        self.steps = self.steps + ~self.failed
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            optimizer.found_inf = (bad | self.failed).float()
            optimizer.step()
        elif not bad | self.failed:  # another optimiser: wait for the answer
            optimizer.step()

    def record(
        self, step: int, epoch: int, batch: int, rate: float, tokens: int
    ) -> Record:
        """The record of the update that `step` was told of last."""
        loss, norm = self.values
        state = self.scale, self.good, self.skipped
        return Record(step, epoch, batch, loss, rate, tokens, norm, *state)

    def raise_if_failed(self) -> None:
        """Raise FloatingPointError if an update failed; a GPU is waited for."""
        if self.failed:
            loss, norm = self.values.tolist()
            check_finite(self.first + int(self.steps), loss=loss, gradient=norm)


@dataclass(frozen=True)
class Record:
    """Where a run stands after an update, and how that update went.

    `step` updates are done, `batch` batches of epoch `epoch` are used up. `loss` is in
    nats per target token, smoothing included; `tokens` are the target tokens of the
    update, padding not counted; `norm` is the length of the gradient before clipping.
    With float16, `scale` is the loss scale, `good` the updates since it last changed,
    and `skipped` those that were skipped because a gradient overflowed.

    A GPU may still be at work on `loss`, `norm`, `scale`, `good` and `skipped`:
    whoever asks for one of them waits for it.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    loss: float | Tensor = math.nan
    learning_rate: float = 0.0
    tokens: int = 0
    norm: float | Tensor = math.nan
    scale: float | Tensor = 2.0**16
    good: int | Tensor = 0
    skipped: int | Tensor = 0

    def __getattribute__(self, name: str):
        value = object.__getattribute__(self, name)
        return value.item() if isinstance(value, Tensor) else value


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
        those = batches(epoch)
        check_batches(those)
        rest = islice(those, used, None)
        while group := list(islice(rest, size)):
            used += len(group)
            yield epoch, used, group
        check_epoch(used, epoch)
        epoch, used = epoch + 1, 0


def target_places(tgt: Int[Tensor, "B T"]) -> Int[Tensor, " N"]:
    """Where the target tokens but BOS are in `tgt[:, 1:]` when it
    is one row after the other."""
    return (tgt[:, 1:] != PAD).flatten().nonzero()[:, 0]


def to_device(x: Tensor, device: torch.device) -> Tensor:
    """A copy on the device; to a GPU it is made while the GPU still
    computes the batch before."""
    return (
        x.pin_memory().to(device, non_blocking=True)
        if device.type == "cuda"
        else x.to(device)
    )


class SentBatch(NamedTuple):
    """A batch on its device: source, target, the places of the
    target tokens as `Objective` takes them, and the factor that
    makes of the sums of all batches and processes one mean."""

    src: Int[Tensor, "B S"]
    tgt: Int[Tensor, "B T"]
    places: Int[Tensor, " N"]
    weight: float


def send_batches(
    group: Sequence[Batch], device: torch.device, rank: int = 0, world: int = 1
) -> tuple[list[SentBatch], int]:
    """The batches that one of `world` processes computes of an update, and
    the target tokens of the whole group.

    Raises ValueError for a group without target tokens.
    """
    tokens = sum(int((batch.tgt[:, 1:] != PAD).sum()) for batch in group)
    check_target_tokens(tokens)
    weight = world / tokens  # the mean over processes takes `world` away
    mine = [(batch, weight) for batch in group[rank::world]]
    # the others wait for one more gradient: zero
    if len(mine) < math.ceil(len(group) / world):
        mine.append((group[0], 0.0))
    sent = []
    for batch, weight in mine:
        places = target_places(batch.tgt)
        tensors = (to_device(x, device) for x in (batch.src, batch.tgt, places))
        sent.append(SentBatch(*tensors, weight))
    return sent, tokens


def shared_objective(
    objective: nn.Module | None,
    model: Transformer,
    smoothing: float,
    dtype: torch.dtype,
    world: int,
) -> nn.Module:
    """The objective of a run, spread over its `world` processes.

    Raises ValueError for one that is given and is of another model or other settings.
    """
    if objective is None:
        objective = Objective(model, smoothing, dtype)
        if world > 1:
            objective = DistributedDataParallel(objective, gradient_as_bucket_view=True)
            # the one buffer, the table of positions, never changes: never send it
            objective.broadcast_buffers = False
    else:
        check_objective(objective, model, smoothing, dtype)
    return objective


def sent_groups(
    model: Transformer,
    grouped: Iterable[tuple[int, int, list[Batch]]],
    rank: int,
    world: int,
) -> Iterator[tuple[int, int, list[SentBatch], int]]:
    """What `groups` gives, with `send_batches` of each group in its place."""
    device = next(model.parameters()).device
    for epoch, batch, group in grouped:
        # while they are on the CPU: a GPU does not survive a wrong id
        for each in group:
            check_batch(each, model.config.vocab_size)
        yield epoch, batch, *send_batches(group, device, rank, world)


def set_rate(
    optimizer: torch.optim.Optimizer, schedule: Callable[[int], float], step: int
) -> float:
    """Give the optimiser the learning rate of a step, and return it."""
    rate = schedule(step)
    check_rate(rate, step)
    for settings in optimizer.param_groups:
        settings["lr"] = rate
    return rate


class Objective(nn.Module):
    """A Transformer and its loss as one module, which computes in `dtype` what can be.

    In half precision, the weights that learn stay in float32. Encoder and decoder
    compute with copies of them in `dtype`, made anew at each call; the embedding, the
    softmax and the loss are in float32.
    """

    def __init__(
        self, model: Transformer, smoothing: float, dtype: torch.dtype = torch.float32
    ):
        super().__init__()
        check_kind(Transformer, model=model)
        check_probability(smoothing=smoothing)
        self.model, self.smoothing, self.dtype = model, smoothing, dtype

    def forward(
        self,
        src: Int[Tensor, "B S"],
        tgt: Int[Tensor, "B T"],
        places: Int[Tensor, " N"] | None = None,
    ) -> Float[Tensor, ""]:
        """The sum of the label-smoothed losses of all target
        tokens but BOS, in nats.

        `places`: where these tokens are in `tgt[:, 1:]` when it is one row after the
        other. Where they are not given they are looked up, and then a GPU has to be
        waited for.
        """
        if places is None:
            places = target_places(tgt)
        with (
            any_shape(),
            few_bits(self.model, self.dtype),
            self.half(self.model.encoder),
            self.half(self.model.decoder),
        ):
            states = self.model.states(src, tgt[:, :-1])
        states = states.flatten(0, 1).index_select(0, places)
        return self.loss(states, tgt[:, 1:].take(places))

    def loss(
        self, states: Float[Tensor, "N D"], targets: Int[Tensor, " N"]
    ) -> Float[Tensor, ""]:
        """The sum that `label_smoothed_loss` gives of
        `model.logits(states)`, without ever holding all logits."""
        E = self.model.embedding.weight
        return linear_cross_entropy(states, E, targets, self.smoothing)

    def half(self, part: nn.Module) -> AbstractContextManager[None]:
        """While it lasts, a part of the model computes in `dtype`."""
        return in_dtype(part, self.dtype)


def gradients(
    objective: nn.Module,
    batches: Sequence[SentBatch],
    world: int = 1,
    scale: Tensor | float = 1.0,
) -> Float[Tensor, ""]:
    """Add to every weight's gradient that of the mean loss
    over all target tokens of an update, times `scale`.

    `batches` are this process's share. Returns the mean loss of all processes.
    """
    total = 0.0
    for i, (src, tgt, places, weight) in enumerate(batches, 1):
        # else gradients are sent round after the last batch
        alone = world == 1 or i == len(batches)
        with nullcontext() if alone else objective.no_sync():
            loss = objective(src, tgt, places) * weight
            (loss * scale).backward()
        total = total + loss.detach()
    if world > 1:
        distributed.all_reduce(total)  # the sum over the processes
    return total / world


def dtype_of(precision: str, device: torch.device | str = "cpu") -> torch.dtype:
    """The type of "fp32", "bf16" or "fp16"; of "auto", the half
    precision that the device has units for, else float32.

    Raises ValueError for another precision.
    """
    types = {
        "auto": half_dtype(torch.device(device)),
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "fp32": torch.float32,
    }
    check_choice(types, precision=precision)
    return types[precision]


def validation_loss(
    model: Transformer, batches: Iterable[Batch], precision: str = "fp32"
) -> float:
    """The mean loss in nats per target token, without smoothing; its
    exponential is perplexity.

    Every token counts alike, in whatever batch it stands; `precision` is as in
    `dtype_of`. The model's mode is as it was before. Raises ValueError for no
    target tokens.
    """
    check_kind(Transformer, model=model)
    check_batches(batches)
    device = next(model.parameters()).device
    objective = Objective(model, 0.0, dtype_of(precision, device))
    total, tokens = 0.0, 0
    with eval_mode(model):
        for batch in batches:
            check_batch(batch, model.config.vocab_size)
            places = target_places(batch.tgt)
            tensors = (to_device(x, device) for x in (batch.src, batch.tgt, places))
            if len(places):
                total = total + objective(*tensors).double()
                tokens += len(places)
    check_target_tokens(tokens)
    return float(total) / tokens


def train(
    model: Transformer,
    batches: Callable[[int], Iterable[Batch]],
    steps: int,
    optimizer: torch.optim.Optimizer | None = None,
    schedule: Callable[[int], float] | None = None,
    smoothing: float = 0.1,
    precision: str = "fp32",
    accumulate: int = 1,
    max_norm: float = math.inf,
    seed: int = 0,
    after: Record = Record(),
    objective: Objective | None = None,
) -> Iterator[Record]:
    """Train until `steps` updates are done, and yield a record after each of them.

    `batches(epoch)` gives the batches of an epoch, always the same ones for the same
    number; `schedule(step)` the learning rate, by default the paper's; `precision` is
    as in `dtype_of`; `accumulate` batches make one update; gradients longer than
    `max_norm` are shortened to it. All that is random follows from `seed` and the step:
    with the model and the optimiser of a record put back and `after` that record, the
    run goes on as if it had never stopped. Inside `torchrun`, every process takes its
    share of the batches, and an update takes `accumulate` batches of each process.
    `objective` is the model's `Objective`, of this smoothing and precision, if it is
    spread over the processes already; else `DistributedDataParallel` does it.

    The model trains where its weights are. PyTorch's generator is seeded before every
    update; unless the device is a CPU, a thread makes the batches ahead. Raises
    ValueError for an id that is not in the vocabulary, for an update without target
    tokens and for arguments that do not fit, FloatingPointError when a loss or a
    gradient is not finite: on a CPU at once, elsewhere at the next hundredth update or
    the last. No such update changes the weights, and none after it does. With float16
    it is skipped, and the error comes when the loss scale has fallen below 1.
    """
    check_run(model, batches, steps, schedule, accumulate, max_norm, seed, after)
    device = next(model.parameters()).device
    dtype = dtype_of(precision, device)
    rank, world = 0, 1
    if distributed.is_initialized():
        rank, world = distributed.get_rank(), distributed.get_world_size()
    objective = shared_objective(objective, model, smoothing, dtype, world)
    optimizer = optimizer or adam(model)
    check_optimizer(optimizer, model)
    schedule = schedule or (lambda step: learning_rate(step, model.config.d_model))
    guard = Guard(after, dtype, device)
    grouped = groups(batches, world * accumulate, after)
    updates = sent_groups(model, grouped, rank, world)
    if device.type != "cpu":
        updates = ahead(updates, device)
    try:
        for step in range(after.step + 1, steps + 1):
            epoch, batch, mine, tokens = next(updates)
            model.train()
            optimizer.zero_grad()
            # the dropout of this step
            torch.manual_seed((seed * 1_000_003 + step - 1) * 1_000 + rank)
            scale = guard.scale if guard.scaled else 1.0
            loss = gradients(objective, mine, world, scale)
            norm = clip_gradients(model, max_norm, scale)
            rate = set_rate(optimizer, schedule, step)
            guard.step(optimizer, loss, norm)
            if device.type == "cpu" or step % 100 == 0 or step == steps:
                guard.raise_if_failed()
            yield guard.record(step, epoch, batch, rate, tokens)
    finally:
        updates.close()
        if world > 1:
            # DistributedDataParallel is in a reference cycle; if it is collected
            # only when Python exits, it aborts the process
            del objective
            gc.collect()
