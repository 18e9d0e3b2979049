"""Reading it out: greedy, beam search and sampling, with a key-value cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from allyouneed.masks import additive_mask, padding_mask
from allyouneed.sublayers import LayerNorm
from allyouneed.tokens import BOS, EOS, PAD, Tokenizer, pad
from allyouneed.transformer import DecoderLayer, Transformer, check_tokens


@contextmanager
def reading(model: nn.Module) -> Iterator[None]:
    """Without dropout and without gradients; afterwards every part is in the mode it was in."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for part, training in modes:
            part.training = training


def side_by_side(*layers: nn.Linear) -> tuple[Tensor, Tensor | None]:
    """Several linear layers as the weight and bias of one."""
    biases = [layer.bias for layer in layers]
    return torch.cat([layer.weight for layer in layers]), None if biases[0] is None else torch.cat(
        biases
    )


class FastLayer:
    """A decoder layer for a few new positions at a time; equal to `DecoderLayer` by test.

    Queries, keys and values come from one matrix. The keys and values of earlier positions and of
    the memory come from the cache.
    """

    def __init__(self, layer: DecoderLayer):
        own, cross = layer.self_attention, layer.cross_attention
        self.n_heads = own.n_heads
        self.norm_first = layer.residuals[0].norm_first
        self.norms = [residual.norm for residual in layer.residuals]
        self.qkv = side_by_side(own.w_q, own.w_k, own.w_v)
        self.cross_kv = side_by_side(cross.w_k, cross.w_v)
        self.own_o, self.cross_q, self.cross_o = own.w_o, cross.w_q, cross.w_o
        self.feed_forward = layer.feed_forward

    def heads(self, x: Float[Tensor, "B N D3"], pieces: int) -> Float[Tensor, "P B H N K"]:
        """Cut each vector into its pieces (query, key, value), and each piece into heads."""
        return x.unflatten(-1, (pieces, self.n_heads, -1)).permute(2, 0, 3, 1, 4)

    def residual(self, i: int, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        norm = self.norms[i]
        if self.norm_first:
            return x + sublayer(normed(norm, x))
        return normed(norm, x + sublayer(x))

    def __call__(
        self,
        x: Float[Tensor, "B N D"],
        own: Float[Tensor, "2 B H T K"],
        new: slice,
        own_mask: Tensor | None,
        cross: Float[Tensor, "2 B H S K"],
        cross_mask: Tensor | None,
    ) -> Float[Tensor, "B N D"]:
        """Write the keys and values of x into `own` at the places `new`, and attend up to there."""

        def self_attention(x: Tensor) -> Tensor:
            qkv = self.heads(F.linear(x, *self.qkv), 3)
            own[:, :, :, new] = qkv[1:]
            keys, values = own[:, :, :, : new.stop]
            return attended(qkv[0], keys, values, own_mask, self.own_o)

        def cross_attention(x: Tensor) -> Tensor:
            q = F.linear(x, self.cross_q.weight, self.cross_q.bias)
            return attended(self.heads(q, 1)[0], *cross, cross_mask, self.cross_o)

        def feed_forward(x: Tensor) -> Tensor:
            w_1, w_2 = self.feed_forward.w_1, self.feed_forward.w_2
            return F.linear(F.linear(x, w_1.weight, w_1.bias).relu_(), w_2.weight, w_2.bias)

        for i, sublayer in enumerate((self_attention, cross_attention, feed_forward)):
            x = self.residual(i, x, sublayer)
        return x


def normed(norm: LayerNorm, x: Tensor) -> Tensor:
    """`norm(x)` without its checks."""
    return F.layer_norm(x, norm.gamma.shape, norm.gamma, norm.beta, norm.eps)


def attended(
    q: Float[Tensor, "B H N K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    mask: Tensor | None,
    w_o: nn.Linear,
) -> Float[Tensor, "B N D"]:
    """Attention in every head, the heads side by side, and W^O."""
    heads = F.scaled_dot_product_attention(q, k, v, mask)
    return F.linear(heads.transpose(1, 2).flatten(2), w_o.weight, w_o.bias)


class Cache:
    """All that half-written translations need for their next token: keys and values.

    Those of the source are computed once for each sentence. Those of the target are added one
    position at a time, in memory that is set aside at the start. `beams` hypotheses of one sentence
    share it: each reads only what its own ancestors wrote, so none is ever copied.
    """

    def __init__(self, model: Transformer, src: Int[Tensor, "B S"], beams: int, limit: int):
        memory = model.encode(src)
        B, S, D = memory.shape
        self.beams, self.length = beams, 0
        self.layers = [FastLayer(layer) for layer in model.decoder.layers]
        self.final_norm = model.decoder.norm
        self.embedding = model.embedding.weight
        self.table = model.positions.table
        self.never = torch.zeros(len(self.embedding), dtype=memory.dtype, device=memory.device)
        self.never[[PAD, BOS]] = -math.inf  # a translation contains neither
        self.cross = torch.stack(
            [layer.heads(F.linear(memory, *layer.cross_kv), 2) for layer in self.layers]
        )
        H, K = self.cross.shape[3], self.cross.shape[5]
        self.own = memory.new_empty(len(self.layers), 2, B, H, limit * beams, K)
        padded = (src == PAD).any()
        self.src_mask = additive_mask(padding_mask(src, PAD), memory.dtype) if padded else None
        self.ancestors = None
        if beams > 1:
            self.ancestors = memory.new_full((B, 1, beams, limit * beams), -math.inf)
            self.itself = memory.new_full((beams, beams), -math.inf).fill_diagonal_(0)

    def step(self, tokens: Int[Tensor, "B N"]) -> Float[Tensor, "B N V"]:
        """The logits of what follows the newest token of each hypothesis; PAD and BOS never do."""
        N = tokens.shape[1]
        new = slice(self.length * N, (self.length + 1) * N)
        x = F.embedding(tokens, self.embedding) * math.sqrt(self.embedding.shape[1])
        x += self.table[self.length].to(x.dtype)
        own_mask = None
        if self.ancestors is not None:
            self.ancestors[..., new] = self.itself
            own_mask = self.ancestors[..., : new.stop]
        for layer, own, cross in zip(self.layers, self.own, self.cross, strict=True):
            x = layer(x, own, new, own_mask, cross, self.src_mask)
        self.length += 1
        return F.linear(self.final_norm(x), self.embedding, self.never)

    def descend(self, parents: Int[Tensor, "B N"]) -> None:
        """Hypothesis n goes on from hypothesis parents[:, n]: it inherits the ancestors."""
        seen = self.ancestors[..., : self.length * parents.shape[1]]
        seen.copy_(seen.gather(2, parents[:, None, :, None].expand_as(seen)))

    def leave(self, done: Bool[Tensor, " B"]) -> Int[Tensor, " left"]:
        """Take out sentences that are done; the last ones move into the gaps.

        Returns where each sentence that is left was before.
        """
        left = len(done) - int(done.sum())
        rows = torch.arange(left, device=done.device)
        gaps, movers = done[:left].nonzero()[:, 0], left + (~done[left:]).nonzero()[:, 0]
        rows[gaps] = movers
        used = self.own[..., : self.length * self.beams, :]
        for x in (used, self.cross):
            x[:, :, gaps] = x[:, :, movers]
        self.own, self.cross = self.own[:, :, :left], self.cross[:, :, :left]
        self.src_mask = None if self.src_mask is None else self.src_mask[rows]
        self.ancestors = None if self.ancestors is None else self.ancestors[rows]
        return rows


def limits(model: Transformer, src: Int[Tensor, "B S"], max_length: int | None) -> Tensor:
    """How many tokens each translation may have, EOS included: (B).

    By default the length of its source + 50, as in the paper (section 6.1).
    """
    check_tokens("src", src, model.config.vocab_size)
    lengths = (src != PAD).sum(1)
    if len(src) and not lengths.all():
        raise ValueError("src: expected every sentence to have a token, got one of padding alone")
    room = len(model.positions.table)
    if max_length is None:
        return (lengths + 50).clamp(max=room)
    if not isinstance(max_length, int) or isinstance(max_length, bool):
        raise TypeError(f"max_length: expected an integer, got {max_length!r}")
    if not 1 <= max_length <= room:
        raise ValueError(
            f"max_length: expected 1 to {room}, the positions of the model, got {max_length}"
        )
    return torch.full_like(lengths, max_length)


def until_eos(rows: Int[Tensor, "B T"]) -> list[list[int]]:
    """The ids of each row up to EOS or padding."""
    ends = ((rows == EOS) | (rows == PAD)).int()
    ends = torch.where(ends.any(1), ends.argmax(1), rows.shape[1]).tolist()
    return [row[:end] for row, end in zip(rows.tolist(), ends, strict=True)]


def token_by_token(
    model: Transformer,
    src: Int[Tensor, "B S"],
    max_length: int | None,
    choose: Callable[[Float[Tensor, "B V"]], Int[Tensor, " B"]],
) -> list[list[int]]:
    """Write one translation of each sentence; `choose` takes its next token from the logits."""
    limit = limits(model, src, max_length)
    if not len(src):
        return []
    with reading(model):
        written = src.new_full((len(src), int(limit.max())), PAD)
        cache = Cache(model, src, 1, written.shape[1])
        sentence = torch.arange(len(src), device=src.device)
        tokens = src.new_full((len(src),), BOS)
        while len(sentence):
            tokens = choose(cache.step(tokens[:, None])[:, 0])
            written[sentence, cache.length - 1] = tokens
            done = (tokens == EOS) | (limit == cache.length)
            if done.any():
                rows = cache.leave(done)
                tokens, sentence, limit = tokens[rows], sentence[rows], limit[rows]
        return until_eos(written)


def greedy(
    model: Transformer, src: Int[Tensor, "B S"], max_length: int | None = None
) -> list[list[int]]:
    """The most probable token, again and again, until EOS.

    `src`: padded ids, each sentence ends in EOS. `max_length`: the most tokens of a translation,
    EOS included; by default source length + 50 (section 6.1).
    Returns the ids of each sentence, without BOS and EOS.
    """
    return token_by_token(model, src, max_length, lambda logits: logits.argmax(-1))


def penalty(length: Tensor | int, alpha: float) -> Tensor | float:
    """((5 + length) / 6)^alpha: Wu et al. (2016), equation 14. Log-probabilities are divided by it."""
    return ((5 + length) / 6) ** alpha


def beam_search(
    model: Transformer,
    src: Int[Tensor, "B S"],
    beam: int = 4,
    length_penalty: float = 0.6,
    max_length: int | None = None,
) -> list[list[int]]:
    """The best translation that a beam finds, by log P / `penalty` (section 6.1).

    A sentence is done when `beam` hypotheses have ended, or when no open one can become better than
    the best that has. If none has ended within `max_length` tokens, the best open one is taken.
    """
    if not isinstance(beam, int) or isinstance(beam, bool):
        raise TypeError(f"beam: expected an integer, got {beam!r}")
    if beam < 1:
        raise ValueError(f"beam: expected at least 1, got {beam}")
    if not length_penalty >= 0:
        raise ValueError(f"length_penalty: expected at least 0, got {length_penalty}")
    limit = limits(model, src, max_length)
    if not len(src):
        return []
    with reading(model):
        B, N, T = len(src), beam, int(limit.max())
        cache = Cache(model, src, N, T)
        written = src.new_full((B, T), PAD)  # the results
        sentence = torch.arange(B, device=src.device)
        ids = src.new_full((B, N, T), PAD)  # the open hypotheses
        scores = torch.full((B, N), -math.inf, device=src.device)
        scores[:, 0] = 0  # all start from the same BOS: one of them is enough
        best_ids = src.new_full((B, T), PAD)
        best = scores.new_full((B,), -math.inf)
        ended = src.new_zeros(B)
        tokens = src.new_full((B, N), BOS)
        while len(sentence):
            logits = cache.step(tokens).float()
            total = scores[:, :, None] + logits.log_softmax(-1)
            top, place = total.flatten(1).topk(min(2 * N, total[0].numel()))
            parent, token = place // logits.shape[-1], place % logits.shape[-1]
            ends = token == EOS
            t = cache.length
            # what ended: the best of it, if it is among the first N
            final = (top / penalty(t, length_penalty)).masked_fill(~ends, -math.inf)[:, :N]
            value, which = final.max(1)
            better = value > best
            best = torch.where(better, value, best)
            origin = parent.gather(1, which[:, None])[..., None].expand(-1, 1, T)
            best_ids = torch.where(better[:, None], ids.gather(1, origin)[:, 0], best_ids)
            ended += final.isfinite().sum(1)
            # what goes on: the first N that did not end
            scores, go = top.masked_fill(ends, -math.inf).topk(N)
            parent, tokens = parent.gather(1, go), token.gather(1, go)
            ids = ids.gather(1, parent[..., None].expand(-1, -1, T))
            ids[:, :, t - 1] = tokens
            reach = scores[:, 0] / penalty(limit, length_penalty)
            done = (ended >= N) | (best >= reach) | (limit == t)
            if done.any():
                found = torch.where(best[:, None] > -math.inf, best_ids, ids[:, 0])
                written[sentence[done]] = found[done]
                rows = cache.leave(done)
                sentence, limit, ended, best = (x[rows] for x in (sentence, limit, ended, best))
                scores, tokens, parent, ids, best_ids = (
                    x[rows] for x in (scores, tokens, parent, ids, best_ids)
                )
            if N > 1:
                cache.descend(parent)
        return until_eos(written)


def narrowed(
    logits: Float[Tensor, "B V"], temperature: float, top_k: int | None, top_p: float | None
) -> Float[Tensor, "B V"]:
    """The logits to sample from: divided by the temperature, and -inf for all but the likeliest.

    `top_k` keeps that many; `top_p` keeps the fewest whose probabilities reach it together.
    """
    logits = logits.float()
    logits = (logits - logits.amax(-1, keepdim=True)) / temperature
    ranked, ids = logits.sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        ranked[:, top_k:] = -math.inf
    if top_p is not None:
        probabilities = ranked.softmax(-1)
        before = probabilities.cumsum(-1) - probabilities  # what the likelier ones have together
        ranked[before >= top_p] = -math.inf
    return torch.empty_like(logits).scatter(-1, ids, ranked)


def sample(
    model: Transformer,
    src: Int[Tensor, "B S"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    max_length: int | None = None,
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """Draw each token from the model's probabilities: another translation each time.

    `temperature` sharpens (below 1) or flattens (above 1) them; 0 is greedy. `top_k` and `top_p`
    as in `narrowed`. The same generator state gives the same translations.
    """
    for name, value in (("temperature", temperature), ("top_p", top_p), ("top_k", top_k)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise TypeError(f"{name}: expected a number, got {value!r}")
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature: expected at least 0, got {temperature}")
    if top_k is not None and (top_k < 1 or top_k != int(top_k)):
        raise ValueError(f"top_k: expected a whole number of at least 1, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p: expected a probability above 0, got {top_p}")
    if temperature == 0:
        return greedy(model, src, max_length)

    def choose(logits: Float[Tensor, "B V"]) -> Int[Tensor, " B"]:
        probabilities = narrowed(logits, temperature, top_k, top_p).softmax(-1)
        return probabilities.multinomial(1, generator=generator)[:, 0]

    return token_by_token(model, src, max_length, choose)


def translate(
    model: Transformer,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    beam: int = 4,
    length_penalty: float = 0.6,
    batch: int = 64,
) -> list[str]:
    """The translation of each sentence, in the order given; a beam of 1 is greedy.

    Sentences of similar length are translated together. A blank sentence gives a blank one.
    """
    if isinstance(sentences, str):
        raise TypeError("sentences: expected several sentences, got one string")
    ids = [tokenizer.encode(sentence) for sentence in sentences]
    order = sorted((i for i in range(len(ids)) if ids[i]), key=lambda i: len(ids[i]))
    device = model.embedding.weight.device
    translations = [""] * len(ids)
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        src = pad([[*ids[i], EOS] for i in chosen]).to(device)
        for i, found in zip(chosen, beam_search(model, src, beam, length_penalty), strict=True):
            translations[i] = tokenizer.decode(found)
    return translations
