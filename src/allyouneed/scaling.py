"""What a training costs, on one GPU or many: operations, memory, messages, time, price."""

# Made from notebooks/19_scaling.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from allyouneed.checks import (
    check_kind,
    check_machines,
    check_positive,
    check_projection,
    check_ring,
    check_sizes,
    check_stage,
)
from allyouneed.transformer import TransformerConfig

__all__ = [
    "P100",
    "V100",
    "A100",
    "H100",
    "pair_flops",
    "activation_bytes",
    "ring_all_reduce",
    "state_bytes",
    "sent_bytes",
    "Device",
    "update_launches",
    "translation_launches",
    "all_reduce_seconds",
    "parameter_count",
    "validation_seconds",
    "project",
    "steps_needed",
]

Number = int | float


def pair_flops(config: TransformerConfig, S: Number, T: Number) -> dict[str, Number]:
    """Operations of all matrix products in one forward pass of one pair of sentences.

    `S` source tokens with their EOS, `T` target tokens with their BOS. A training step
    takes three times as many: each product has two more in the backward pass.
    """
    d, f, N, v = config.d_model, config.d_ff, config.n_layers, config.vocab_size
    return {
        "encoder, attention matrices": N * 8 * S * d * d,
        "encoder, feed-forward": N * 4 * S * d * f,
        "decoder, attention matrices": N * (12 * T + 4 * S) * d * d,
        "decoder, feed-forward": N * 4 * T * d * f,
        "scores and weighted sums": N * 4 * d * (S * S + T * T + T * S),
        "logits": 2 * T * d * v,
    }


def activation_bytes(
    config: TransformerConfig, src_tokens: Number, tgt_tokens: Number, size: int = 4
) -> float:
    """Bytes that the forward pass keeps for the backward pass, `size` for each number.

    For attention that does not keep its weights and a loss that does not keep its
    logits, as `attention` and `Objective` have them; padding counts as tokens. With
    dropout, a byte more for each number it looks at. Token ids and masks are left out.
    """
    d, f, h, N = config.d_model, config.d_ff, config.n_heads, config.n_layers
    src = N * (10 * d + f + h + 4) + d
    tgt = N * (12 * d + f + 2 * h + 6) + d
    total = size * (src_tokens * src + tgt_tokens * tgt)
    if config.dropout:
        total += d * (src_tokens * (2 * N + 1) + tgt_tokens * (3 * N + 1))
    return float(total)


def ring_all_reduce(
    vectors: Sequence[Float[Tensor, " P"]],
) -> tuple[list[Tensor], list[int]]:
    """Add up the vectors of n pretended processes, in a ring.

    Returns the sum as each process has it in the end, and the bytes that each has sent.
    Raises ValueError for no vectors, or for vectors of several lengths.
    """
    check_ring(vectors)
    n = len(vectors)
    # pieces[process][number]
    pieces = [list(v.clone().tensor_split(n)) for v in vectors]
    sent = [0] * n
    for step in range(2 * (n - 1)):
        # process i passes on what it got in the step before: piece i - step
        on_the_way = [((i - step) % n, pieces[i][(i - step) % n]) for i in range(n)]
        for i, (number, piece) in enumerate(on_the_way):
            sent[i] += piece.numel() * piece.element_size()
            right = pieces[(i + 1) % n]
            right[number] = right[number] + piece if step < n - 1 else piece.clone()
    return [torch.cat(p) for p in pieces], sent


def state_bytes(parameters: Number, n: int = 1, stage: int = 0) -> dict[str, Number]:
    """Bytes that each of n processes holds for the state of a
    training in float32 with Adam.

    `stage`: of ZeRO (Rajbhandari et al. 2020): 0 shares nothing, 1 the moments, 2
    the gradients too, 3 the weights too, as `fully_shard` does. Raises ValueError
    for another stage or n < 1.
    """
    check_stage(n, stage)
    part = parameters / n
    return {
        "weights": 4 * (part if stage >= 3 else parameters),
        "gradients": 4 * (part if stage >= 2 else parameters),
        "moments": 8 * (part if stage >= 1 else parameters),
    }


def sent_bytes(size: Number, n: int, stage: int = 0) -> Number:
    """Bytes that each of n processes sends in an update, for a
    gradient of `size` bytes. Raises ValueError as `state_bytes` does."""
    check_stage(n, stage)
    return (3 if stage == 3 else 2) * (n - 1) / n * size


@dataclass(frozen=True)
class Device:
    """One GPU, by its data sheet: per second, in operations (R) and bytes (M).

    `link` and `network` are what it can send to others in its machine and in other
    machines, each way; `per_machine` share a machine. A message has a `delay`, however
    short it is. Its host needs `launch` seconds (c) for each kernel, and
    writes, hashes or adds up `host` bytes a second. These three are assumptions.
    `price` is what an hour costs, in whatever money; None is unknown.
    """

    name: str
    flops: Number
    memory: Number
    bandwidth: Number
    link: Number
    network: Number
    per_machine: int = 8
    delay: Number = 10e-6
    launch: Number = 10e-6
    host: Number = 1e9
    price: Number | None = None


P100 = Device("P100", 9.5e12, 16e9, 732e9, link=80e9, network=1.25e9)
V100 = Device("V100", 125e12, 16e9, 900e9, link=150e9, network=1.25e9)
A100 = Device("A100", 312e12, 40e9, 1555e9, link=300e9, network=6.25e9, price=1.844)
H100 = Device("H100", 989e12, 80e9, 3350e9, link=450e9, network=50e9, price=4.916)


def update_launches(config: TransformerConfig, parts: int = 1) -> int:
    """Kernels that a host launches for an update of `parts` batches, in 16 bits.

    Counted on a pretended GPU: tests/test_scaling.py holds that they are those of
    `train`. Raises ValueError for less than one part.
    """
    check_sizes(parts=parts)
    N = config.n_layers
    return 94 + 89 * N + (parts - 1) * (74 + 119 * N)


def translation_launches(config: TransformerConfig, tokens: int) -> int:
    """Kernels to write `tokens` tokens greedily, however many texts at a time."""
    N = config.n_layers
    return 45 + 16 * N + tokens * (12 + 16 * N)


def all_reduce_seconds(size: Number, device: Device, n: int) -> Number:
    """Seconds to add up `size` bytes over n devices, in and between
    machines: equation (19.8).

    Raises ValueError unless n is at least 1 and, if there are
    several machines, they are full.
    """
    check_machines(n, device.per_machine)
    inside = min(n, device.per_machine)
    machines = n // inside
    return (
        2 * (inside - 1) / inside * size / device.link
        + 2 * (machines - 1) / machines * size / inside / device.network
        + 2 * (inside + machines - 2) * device.delay
    )


def parameter_count(config: TransformerConfig) -> int:
    """The parameters of a `Transformer`, without building it. Raises
    TypeError for another config."""
    check_kind(TransformerConfig, config=config)
    d, f, N = config.d_model, config.d_ff, config.n_layers
    layers = N * (12 * d * d + 2 * (2 * d * f + f + d) + 5 * 2 * d)
    return config.vocab_size * d + layers + (4 * d if config.norm_first else 0)


def update_seconds(
    config: TransformerConfig,
    device: Device,
    n: int,
    tokens: Number,
    length: Number,
    utilisation: Number,
    sharded: bool,
    parts: int,
    loading: Number,
) -> tuple[Number, ...]:
    """Seconds of an update on n devices, equations (19.6) to (19.9):
    compute, host, talk, what of it is exposed, and the whole step."""
    P, last = parameter_count(config), config.vocab_size * config.d_model
    operations = 3 * sum(pair_flops(config, length, length).values()) / length * tokens
    products = operations / (n * utilisation * device.flops)
    products = max(products, 6 * P / device.bandwidth)
    compute = products + 28 * P / (n if sharded else 1) / device.bandwidth
    host = update_launches(config, parts) * device.launch + tokens / n / loading
    rounds = 1.5 if sharded else 1
    send = 4 * rounds * (P - last), 4 * rounds * last
    rest, end, at_end = (
        all_reduce_seconds(size, device, n) for size in (*send, sum(send))
    )
    # each bucket has its own delays, and the first is counted already
    rest += (-(-send[0] // 25e6) - 1) * all_reduce_seconds(0, device, n)
    backward = 2 / 3 * products / parts, 50 * config.n_layers * device.launch
    others = max(compute - backward[0], host - backward[1])
    beside = end + max(0.0, others + rest - max(compute, host))
    exposed = min(beside, at_end)
    talk = rest + end if beside <= at_end else at_end
    return compute, host, talk, exposed, max(compute, host) + exposed


@dataclass(frozen=True)
class Projection:
    """What a training would take: seconds of one update, of a
    validation, and of all of them hours and price.

    `compute` is the GPU's work and `host` its host's, beside each other; `talk` is the
    whole time of sending, `exposed` the part that no computing hides. `efficiency` is
    the step of one device, divided by n times the step of n.
    """

    compute: Number
    host: Number
    talk: Number
    exposed: Number
    step: Number
    validation: Number
    hours: Number
    efficiency: Number
    price: Number | None


def validation_seconds(
    config: TransformerConfig,
    device: Device,
    averaged: int = 5,
    sentences: int = 3_000,
    length: Number = 30,
) -> Number:
    """Seconds of a validation, for (19.10): it writes checkpoints and translates.

    `sentences` are translated greedily, 64 at a time, of which the longest gets
    `2 * length` tokens; 3,000 are newstest2013.
    """
    written = 28 * averaged * parameter_count(config) / device.host
    batches = -(-sentences // 64)
    return written + (
        batches * translation_launches(config, round(2 * length)) * device.launch
    )


def project(
    config: TransformerConfig,
    device: Device,
    n: int,
    steps: Number,
    tokens: Number = 25_000,
    length: Number = 30,
    utilisation: Number = 0.35,
    sharded: bool = False,
    parts: int = 1,
    loading: Number = 2.8e6,
    validations: int = 0,
    averaged: int = 5,
) -> Projection:
    """What `steps` updates of `tokens` target tokens each take on n
    devices: equations (19.6) to (19.10).

    As many source tokens come with them, in sentences of `length`. Products are
    in 16 bits, weights, gradients and moments in 32; `sharded` is stage 3 of ZeRO.
    `utilisation` is the share of the peak that products reach where memory is no
    limit. A device takes its share in `parts` batches; its host makes `loading`
    target tokens a second. An idealisation: all devices are always equally busy, and
    nothing fails. Raises TypeError or ValueError for numbers that cannot be.
    """
    check_projection(config, device, n, steps, tokens, length, utilisation, loading)
    how = tokens, length, utilisation, sharded, parts, loading
    *found, step = update_seconds(config, device, n, *how)
    alone = update_seconds(config, device, 1, *how)[-1]
    validation = validation_seconds(config, device, averaged, length=length)
    hours = (steps * step + validations * validation) / 3600
    price = None if device.price is None else n * hours * device.price
    return Projection(*found, step, validation, hours, alone / (n * step), price)


def steps_needed(tokens: Number, least: Number, noise: Number) -> Number:
    """Steps to reach a loss with batches of so many tokens: McCandlish
    et al. (2018), section 2.

    `least` are the steps that a batch without noise needs; `noise` is
    the noise scale, in tokens. Raises ValueError unless tokens are above 0.
    """
    check_positive(tokens=tokens)
    return least * (1 + noise / tokens)
