"""The machine of the project, in our own words and in PyTorch's, right and with slips.

`faults` are the names of slips (project_slips.py), of which any number may be made together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .chapter_09 import sinusoids
from .project_reading import FF, D, H, K, N, V, Weights, signs, without_padding
from .project_runs import PAD, Faults
from .project_slips import BIASES, LAYER, NORMS

OF_NORMS = {slip for _, slip, _ in NORMS} - {"residual twice"}
OF_LAYERS = {slip for _, slip, _ in (*LAYER, *NORMS, *BIASES)} | {"first residual"}

# The reference, with slips


def masked(scores: Tensor, mask: Tensor | None, faults: Faults) -> Tensor:
    """Scores to weights."""
    axis = -2 if "axis" in faults else -3 if "heads axis" in faults else -1
    if mask is None or "ignored" in faults:
        mask = torch.ones_like(scores, dtype=torch.bool)
    if "inverted" in faults:
        mask = ~mask
    share = {"no softmax": lambda x: x, "sigmoid": torch.sigmoid}
    share = next((share[f] for f in faults if f in share), lambda x: x.softmax(axis))
    if "after" in faults:
        return share(scores) * mask
    if "multiplied" in faults:
        return share(scores * mask)
    if "added" in faults:
        return share(scores + mask)
    if "zero times infinity" in faults:
        return share(scores + (~mask).float() * -math.inf)
    lows = {"not low enough": -1.0, "nearly low enough": -10.0, "finite": -1e9}
    low = next((lows[f] for f in faults if f in lows), -math.inf)
    return share(scores.masked_fill(~mask, low))


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    faults: Faults = frozenset(),
    wide: int = 0,
) -> Tensor:
    """Equation (1); `wide` is d_model, for those who divide by its root."""
    roots = {
        "no scale": 1.0,
        "d_k": q.shape[-1],
        "multiplied by the root": q.shape[-1] ** -0.5,
        "root of d_model": (wide or q.shape[-1]) ** 0.5,
        "keys": k.shape[-2] ** 0.5,
        "queries": q.shape[-2] ** 0.5,
        "width of the values": v.shape[-1] ** 0.5,
    }
    root = next((roots[f] for f in faults if f in roots), q.shape[-1] ** 0.5)
    late = root if "scale after" in faults else 1.0
    weights = masked(q @ k.mT / (1.0 if "scale after" in faults else root), mask, faults) / late
    if "weights alone" in faults:
        return weights
    weights = weights.mT if "weights transposed" in faults else weights
    return weights @ (k if "keys for values" in faults else v)


class Given(dict):
    """The weights of a case, which a message does not write out."""

    def __repr__(self) -> str:
        return "weights that are copied into yours"


def heads(
    p: Weights, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, faults: Faults = frozenset()
) -> Tensor:
    asked = q
    if "keys of the queries" in faults:
        k = q
    if "values of the keys" in faults:
        v = k
    if "mask lost" in faults:
        mask = None
    if "as many keys" in faults and len(q[0]) != len(k[0]):
        raise RuntimeError("the keys are cut as the queries are")
    w_k = p["q"] if "one matrix" in faults else p["k"]
    w_v = p["k"] if "one matrix for both" in faults else p["v"]
    w_v = p["q"] if "one matrix for queries and values" in faults else w_v
    w_k, w_v = (p["q"], p["q"]) if "one matrix for all" in faults else (w_k, w_v)
    wide, h, d = p["q"].shape

    def split(x: Tensor, w: Tensor) -> Tensor:
        x = x @ w.flatten(1)
        if "view" in faults:
            return x.reshape(len(x), h, -1, d)
        if "interleaved" in faults:
            return x.unflatten(-1, (d, h)).permute(0, 3, 1, 2)
        return x.unflatten(-1, (h, d)).transpose(1, 2)

    if "one head" in faults:
        out = attention(*(x @ w.flatten(1) for x, w in ((q, p["q"]), (k, w_k), (v, w_v))),
                        None if mask is None else mask.squeeze(1), faults, wide)  # fmt: skip
    else:
        asks, keys = split(q, p["q"]), split(k, w_k)
        if "exchanged" in faults:
            asks, keys = keys, asks
        out = attention(asks, keys, split(v, w_v), mask, faults, wide)
        if "merge" in faults:
            out = out.reshape(len(q), -1, h * d)
        elif "merge interleaved" in faults:
            out = out.permute(0, 2, 3, 1).flatten(2)
        else:
            out = out.transpose(1, 2).flatten(2)
    if "no output" in faults:
        return out
    mixed = out @ p["o"].flatten(0, 1)
    if "residual inside" in faults:
        return mixed + asked
    return mixed + out if "past the output" in faults else mixed


def part(p: Weights, name: str) -> Weights:
    return {key.removeprefix(f"{name}."): x for key, x in p.items() if key.startswith(f"{name}.")}


def norm(p: Weights, name: str, x: Tensor, faults: Faults = frozenset()) -> Tensor:
    return normed(x, faults) * p[f"{name}.gamma"] + p[f"{name}.beta"]


def normed(x: Tensor, faults: Faults) -> Tensor:
    """LayerNorm before gamma and beta."""
    if not faults & OF_NORMS:
        return F.layer_norm(x, x.shape[-1:])
    axes = (-2, -1) if "over the sentence" in faults else (-1,)
    centred = x if "no mean" in faults else x - x.mean(axes, keepdim=True)
    if "no mean" in faults:
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    variance = x.var(axes, correction=int("unbiased" in faults), keepdim=True)
    return centred / (
        (variance + 1e-5) if "variance for root" in faults else (variance + 1e-5).sqrt()
    )


def feed_forward(p: Weights, x: Tensor, faults: Faults) -> Tensor:
    without = {"no biases": "b1 b2", "no first bias": "b1", "no second bias": "b2"}
    missing = " ".join(names for slip, names in without.items() if slip in faults)
    inside = x @ p["w1"] + (0 if "b1" in missing else p["b1"])
    if "gelu" in faults:
        inside = F.gelu(inside)
    elif "no relu" not in faults:
        inside = inside.relu()
    out = inside @ p["w2"] + (0 if "b2" in missing else p["b2"])
    return out.relu() if "relu at the end" in faults else out


def sublayers(
    p: Weights, x: Tensor, parts: list[Callable[[Tensor], Tensor]], faults: Faults
) -> Tensor:
    """Parts one after the other, each in a residual, with a norm."""
    start = x
    for i, each in enumerate(parts):
        name = "norm.0" if "one norm" in faults else f"norm.{i}"
        if "pre-norm" in faults:
            x = x + each(norm(p, name, x, faults))
        elif "norm of the part" in faults:
            x = x + norm(p, name, each(x), faults)
        elif "no residual" in faults:
            x = norm(p, name, each(x), faults)
        elif "residual of the normed" in faults:
            x = norm(p, name, x, faults)
            x = x + each(x)
        elif "residual from the start" in faults:
            x = norm(p, name, start + each(x), faults)
        elif "no norm" in faults or ("no last norm" in faults and i == len(parts) - 1):
            x = x + each(x)
        elif "first residual" in faults and i == 0:
            x = norm(p, name, each(x), faults)
        elif "middle residual" in faults and 0 < i < len(parts) - 1:
            x = norm(p, name, each(x), faults)
        elif "last residual" in faults and i == len(parts) - 1:
            x = norm(p, name, each(x), faults)
        elif "residual twice" in faults:
            x = x + norm(p, name, x + each(x), faults)
        else:
            x = norm(p, name, x + each(x), faults)
    return x


def encoder_layer(
    p: Weights, x: Tensor, mask: Tensor | None, faults: Faults = frozenset()
) -> Tensor:
    own = None if "no source mask" in faults else mask
    parts = [lambda x: heads(part(p, "self"), x, x, x, own, faults)]
    net = lambda x: feed_forward(p, x, faults)  # noqa: E731
    parts = [net, *parts] if "net first" in faults else [*parts, net]
    return sublayers(p, x, parts, faults)


def decoder_layer(
    p: Weights, x: Tensor, memory: Tensor, src_mask: Tensor | None, tgt_mask: Tensor | None,
    faults: Faults = frozenset(),
) -> Tensor:  # fmt: skip
    own = None if "no causal mask" in faults else tgt_mask
    other = None if "no memory mask" in faults else src_mask
    if "source mask for the target" in faults:
        own = src_mask
    if "target mask for the source" in faults:
        other = tgt_mask

    def cross(x: Tensor, name: str = "cross") -> Tensor:
        weights = part(p, name)
        if "memory asks" in faults:
            mask = other if "masked" in faults else None
            return heads(weights, memory, x, x, mask, faults)[:, : x.shape[1]]
        if "x for the memory" in faults:
            return heads(weights, x, x, x, tgt_mask, faults)
        if "values of its own" in faults:
            return heads(weights, x, memory, x, other, faults)
        if "keys of its own" in faults:
            return heads(weights, x, x, memory, other, faults)
        source = x if "memory ignored" in faults else memory
        mask = None if source is x and "masked" not in faults else other
        return heads(weights, x, source, source, mask, faults)

    def first(x: Tensor, name: str = "self") -> Tensor:
        return heads(part(p, name), x, x, x, own, faults)

    parts = [first, cross, lambda x: feed_forward(p, x, faults)]
    if "cross first" in faults:
        parts[:2] = [lambda x: cross(x, "self"), lambda x: first(x, "cross")]
    if "net second" in faults:
        parts[1:] = parts[:0:-1]
    if "no cross-attention" in faults:
        del parts[1]
    return sublayers(p, x, parts, faults)


def padding_mask(tokens: Tensor, pad: int = PAD) -> Tensor:
    return (tokens != pad)[:, None, None, :]


def causal_mask(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def spelled_out(
    p: Weights, src: Tensor, tgt: Tensor, faults: Faults = frozenset(),
    table: Callable = sinusoids, padding: Callable = padding_mask, causal: Callable = causal_mask,
) -> Tensor:  # fmt: skip
    """The machine in our own words: logits (B, T, V)."""
    layers = sum(key.startswith("encoder.") and key.endswith(".w1") for key in p)

    def embed(tokens: Tensor, side: str) -> Tensor:
        plain = "not scaled" in faults or f"not scaled in the {side}" in faults
        root = 1.0 if plain else p["E"].shape[1] ** 0.5
        root = p["E"].shape[1] if "whole width" in faults else root
        x = p["E"][tokens] * (1 / root if "divided" in faults else root)
        where = table(max(tokens.shape) + 1, x.shape[-1])
        if "no positions" in faults or f"no positions in the {side}" in faults:
            return x
        if "positions over the batch" in faults:
            return x + where[: len(tokens), None]
        if "scaled after" in faults:
            return p["E"][tokens] * root + where[: tokens.shape[1]] * root
        if "positions multiplied" in faults:
            return x * where[: tokens.shape[1]]
        begin = 1 if "positions from 1" in faults else 0
        return x + where[begin : tokens.shape[1] + begin]

    seen, ahead = padding(src, PAD), causal(tgt.shape[1])
    if "target padding as source's" in faults and src.shape == tgt.shape:
        seen = padding(tgt, PAD)
    if "no source mask" in faults:
        x_mask = None
    else:
        x_mask = seen
    if "padding for the future" in faults:
        ahead = padding(tgt, PAD)
    if "both masks" in faults:
        ahead = ahead & padding(tgt, PAD)
    if "causal mask for the encoder" in faults and src.shape == tgt.shape:
        x_mask = causal(src.shape[1])
    x = embed(src, "source")
    for i in range(0 if "encoder passed by" in faults else layers):
        mine = (
            faults - {"no source mask"} - (OF_LAYERS if "not in the encoder" in faults else set())
        )
        begin = embed(src, "source") if "encoder begun anew" in faults else x
        x = encoder_layer(part(p, f"encoder.{i}"), begin, x_mask, mine)
    memory = norm(p, "encoder.norm", x) if "last norms" in faults else x
    if "target encoded" in faults:
        memory, seen = embed(tgt, "target"), padding(tgt, PAD)
        for i in range(layers):
            memory = encoder_layer(part(p, f"encoder.{i}"), memory, seen, faults)
    x = embed(tgt, "target")
    for i in range(layers):
        mine = faults - (OF_LAYERS if "not in the decoder" in faults else set())
        begin = embed(tgt, "target") if "decoder begun anew" in faults else x
        x = decoder_layer(part(p, f"decoder.{i}"), begin, memory, seen, ahead, mine)
    if "last norms" in faults:
        x = norm(p, "decoder.norm", x)
    if "root at the end" in faults:
        x = x * p["E"].shape[1] ** 0.5
    logits = x @ p["E"].T
    if "softmax at the end" in faults:
        return logits.softmax(-1)
    if "log-softmax at the end" in faults:
        return logits.log_softmax(-1)
    if "logits scaled" in faults:
        return logits * p["E"].shape[1] ** -0.5
    return logits


def torchs_own(p: Weights, src: Tensor, tgt: Tensor) -> Tensor:
    """The same by `torch.nn.Transformer`, with the weights copied into it."""
    layers = sum(key.startswith("encoder.") and key.endswith(".w1") for key in p)
    wide, h, _ = p["encoder.0.self.q"].shape
    inner = p["encoder.0.w1"].shape[1]
    net = nn.Transformer(wide, h, layers, layers, inner, dropout=0.0, batch_first=True)
    net.encoder.norm = net.decoder.norm = None  # the paper's stacks have none at their ends
    copy = {}
    for side, names in (("encoder", ("self",)), ("decoder", ("self", "cross"))):
        for i in range(layers):
            at = f"{side}.{i}"
            for name in names:
                own = f"{side}.layers.{i}.{'self_attn' if name == 'self' else 'multihead_attn'}"
                three = [p[f"{at}.{name}.{x}"].flatten(1).T for x in "qkv"]
                copy[f"{own}.in_proj_weight"] = torch.cat(three)
                copy[f"{own}.in_proj_bias"] = torch.zeros(3 * wide)
                copy[f"{own}.out_proj.weight"] = p[f"{at}.{name}.o"].flatten(0, 1).T
                copy[f"{own}.out_proj.bias"] = torch.zeros(wide)
            for j in range(1 + len(names)):
                copy[f"{side}.layers.{i}.norm{j + 1}.weight"] = p[f"{at}.norm.{j}.gamma"]
                copy[f"{side}.layers.{i}.norm{j + 1}.bias"] = p[f"{at}.norm.{j}.beta"]
            for j in (1, 2):
                copy[f"{side}.layers.{i}.linear{j}.weight"] = p[f"{at}.w{j}"].T
                copy[f"{side}.layers.{i}.linear{j}.bias"] = p[f"{at}.b{j}"]
    x, y = (p["E"][tokens] * wide**0.5 + sinusoids(tokens.shape[1], wide) for tokens in (src, tgt))
    hidden = {"src_key_padding_mask": src == PAD, "memory_key_padding_mask": src == PAD}
    hidden["tgt_mask"] = ~causal_mask(tgt.shape[1])
    return torch.func.functional_call(net, copy, (x, y), hidden) @ p["E"].T


def with_slopes(compute: Callable[[Weights], Tensor], p: Weights) -> dict[str, Any]:
    """What a function of weights gives, and the gradients of its (weighted) sum."""
    leaves = {name: x.clone().requires_grad_() for name, x in p.items()}
    out = compute(leaves)
    loss = (out * signs(out)).sum()
    slopes = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    named = {name: g for name, g in zip(leaves, slopes, strict=True) if g is not None}
    return {"outputs": out.detach(), "gradients": without_padding(named)}


# The cases


def drawn(seed: int) -> Callable[..., Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return lambda *shape, size=1.0: torch.randn(*shape, generator=draw) * size


def attention_weights(new: Callable[..., Tensor]) -> Weights:
    p = {name: new(D, H, K, size=1.3 * D**-0.5) for name in "qkv"}
    return Given(p | {"o": new(H, K, D, size=D**-0.5)})


def layer_weights(new: Callable[..., Tensor], *attentions: str) -> Weights:
    p = Given()
    for name in attentions:
        p |= {f"{name}.{key}": x for key, x in attention_weights(new).items()}
    for i in range(len(attentions) + 1):
        p |= {f"norm.{i}.gamma": 1 + new(D, size=0.3), f"norm.{i}.beta": new(D, size=0.3)}
    p |= {"w1": new(D, FF, size=D**-0.5), "b1": new(FF, size=0.3)}
    return Given(p | {"w2": new(FF, D, size=FF**-0.5), "b2": new(D, size=0.3)})


def machine_weights(new: Callable[..., Tensor], layers: int = N) -> Weights:
    p = Given(E=new(V, D, size=0.5))
    for side, names in (("encoder", ("self",)), ("decoder", ("self", "cross"))):
        for i in range(layers):
            p |= {f"{side}.{i}.{key}": x for key, x in layer_weights(new, *names).items()}
        p |= {f"{side}.norm.gamma": 1 + new(D, size=0.3), f"{side}.norm.beta": new(D, size=0.3)}
    return Given(p)


def sentences(*lengths: int) -> Tensor:
    """Rows of ids between EOS and V, with padding on the right."""
    width, draw = max(lengths), torch.Generator().manual_seed(sum(lengths))
    rows = torch.randint(4, V, (len(lengths), width), generator=draw)
    return rows.masked_fill(torch.arange(width) >= torch.tensor(lengths)[:, None], PAD)


def chequered(*shape: int) -> Tensor:
    """A mask of which every row and every column has both, True and False."""
    places = torch.arange(shape[-1]) * 2 + torch.arange(shape[-2])[:, None] * 3
    return (places % 5 < 3).expand(shape)
