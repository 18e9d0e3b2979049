"""The key-value cache of chapter 13 in less time: what `greedy` and `beam_search` use.

This module is plumbing written by hand. `FastCache` gives the logits that the chapter's `Cache`
gives, and a test holds the two equal. It saves time in four ways: memory for keys and values is
set aside in large pieces and not copied at every step; the hypotheses of one sentence share keys
and values, and each reads those that its own ancestors wrote; matrices that multiply the same
vectors are put together once, so that a step makes half as many calls; and a step computes with
the weights, without a call of the modules that hold them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from allyouneed.checks import check_kind, check_sizes
from allyouneed.masks import additive_mask
from allyouneed.multihead import fused_weights, merge_heads
from allyouneed.sublayers import FeedForward, LayerNorm
from allyouneed.tokens import BOS, PAD
from allyouneed.transformer import DecoderLayer, Transformer

ROOM = 32  # positions for which memory is set aside at first; each time it is full, it is doubled


class FastLayer:
    """A decoder layer for new positions, whose keys and values of other positions are given.

    It calls none of the layer's linear layers and norms, nor their hooks: for a sentence by itself,
    a module's call and checks take about as long as its product. A reader's own module in the place
    of one is called, save where weights are put together: own queries, and all keys and values.
    """

    def __init__(self, layer: DecoderLayer):
        own, cross = layer.self_attention, layer.cross_attention
        self.n_heads, self.norm_first = own.n_heads, layer.residuals[0].norm_first
        self.norms = [without_call(residual.norm) for residual in layer.residuals]
        self.qkv = fused_weights(own.w_q, own.w_k, own.w_v)
        self.cross_kv = fused_weights(cross.w_k, cross.w_v)
        others = (own.w_o, cross.w_q, cross.w_o, layer.feed_forward)
        self.own_o, self.q, self.cross_o, self.feed_forward = map(without_call, others)

    def heads(self, x: Float[Tensor, "B N PD"], pieces: int) -> Float[Tensor, "P B H N K"]:
        """Cut each vector into pieces (query, key, value), and each piece into heads."""
        return x.unflatten(-1, (pieces, self.n_heads, -1)).permute(2, 0, 3, 1, 4)

    def __call__(
        self,
        x: Float[Tensor, "B N D"],
        own: Float[Tensor, "2 B H T K"],
        own_mask: Tensor | None,
        cross: Float[Tensor, "2 B H S K"],
        cross_mask: Tensor | None,
    ) -> Float[Tensor, "B N D"]:
        """Write keys and values of x into `own`, at its last places; attend to all that it holds.

        `own` and `cross` hold keys, then values. The masks are numbers to be added to the scores.
        """

        def self_attention(x: Tensor) -> Tensor:
            qkv = self.heads(F.linear(x, *self.qkv), 3)
            own[..., -x.shape[1] :, :] = qkv[1:]
            heads = F.scaled_dot_product_attention(qkv[0], *own, own_mask)
            return self.own_o(merge_heads(heads))

        def cross_attention(x: Tensor) -> Tensor:
            q = self.heads(self.q(x), 1)[0]
            heads = F.scaled_dot_product_attention(q, *cross, cross_mask)
            return self.cross_o(merge_heads(heads))

        sublayers = (self_attention, cross_attention, self.feed_forward)
        for norm, sublayer in zip(self.norms, sublayers, strict=True):
            if self.norm_first:
                x = x + sublayer(norm(x))
            else:
                x = norm(x + sublayer(x))
        return x


def without_call(part: nn.Module) -> Callable[[Tensor], Tensor]:
    """What a linear layer, a LayerNorm or a feed-forward net does, as a function of x alone; any
    other part itself."""
    if type(part) is nn.Linear:
        return partial(F.linear, weight=part.weight, bias=part.bias)
    if type(part) is LayerNorm:
        weights = part.gamma.shape, part.gamma, part.beta, part.eps
        return lambda x: torch.layer_norm(x, *weights)
    if type(part) is FeedForward:
        w_1, w_2 = without_call(part.w_1), without_call(part.w_2)
        return lambda x: w_2(part.activation(w_1(x)))
    return part


class FastCache:
    """What `decoding.Cache` is, in less time.

    A row is a half-written translation. Of each sentence in `src` there are `beams` rows, one after
    the other; `select` keeps them together.
    """

    def __init__(self, model: Transformer, src: Int[Tensor, "B S"], beams: int = 1):
        check_kind(Transformer, model=model)
        check_sizes(beams=beams)
        memory, src_mask = model.encode(src)
        self.model, self.beams, self.length = model, beams, 0
        self.layers = [FastLayer(layer) for layer in model.decoder.layers]
        cross = [layer.heads(F.linear(memory, *layer.cross_kv), 2) for layer in self.layers]
        self.cross = torch.stack(cross)  # (layers, 2, B, H, S, K)
        *axes, _, K = self.cross.shape
        self.own = self.cross.new_empty(*axes, ROOM * beams, K)
        self.src_mask = None
        if (src == PAD).any():
            self.src_mask = additive_mask(src_mask, memory.dtype)
        # (B, 1, N, places): 0 where a row's own ancestors wrote, else -inf
        self.ancestors = memory.new_full((len(src), 1, beams, ROOM * beams), -math.inf)
        self.itself = memory.new_full((beams, beams), -math.inf).fill_diagonal_(0)

    def step(self, tokens: Int[Tensor, " R"]) -> Float[Tensor, "R V"]:
        """The logits of what follows the newest token of each row, as in `decoding.Cache`."""
        model, beams = self.model, self.beams
        new = slice(self.length * beams, (self.length + 1) * beams)
        if new.stop > self.own.shape[-2]:
            full = self.own.shape[-2]
            self.own = F.pad(self.own, (0, 0, 0, full))
            self.ancestors = F.pad(self.ancestors, (0, full), value=-math.inf)
        x = model.embedding(tokens.view(-1, beams))
        x = x * math.sqrt(model.config.d_model) + model.positions.table[self.length].to(x.dtype)
        x = x.to(self.own.dtype)  # the layers' may be a half precision
        own_mask = None
        if beams > 1:
            self.ancestors[..., new] = self.itself
            own_mask = self.ancestors[..., : new.stop]
        kept = zip(self.layers, self.own[..., : new.stop, :], self.cross, strict=True)
        for layer, own, cross in kept:
            x = layer(x, own, own_mask, cross, self.src_mask)
        self.length += 1
        x = model.decoder.norm(x).to(model.embedding.weight.dtype)
        logits = model.logits(x).flatten(0, 1)
        logits[:, PAD] = logits[:, BOS] = -math.inf
        return logits

    def select(self, rows: Int[Tensor, " left"]) -> None:
        """Row i goes on from row rows[i]; of a sentence, all rows or none.

        As long as no sentence is left out, they keep their order, and nothing is copied but whose
        ancestors wrote what. Otherwise those that change their place are copied.
        """
        rows = rows.view(len(rows) // self.beams, self.beams)
        sentences, written = rows[:, 0] // self.beams, self.length * self.beams
        if (left := len(sentences)) < len(self.ancestors):
            moved = (sentences != torch.arange(left, device=rows.device)).nonzero()[:, 0]
            for kept in (self.own[..., :written, :], self.cross):
                kept[:, :, moved] = kept[:, :, sentences[moved]]
            self.own, self.cross = self.own[:, :, :left], self.cross[:, :, :left]
            self.ancestors = self.ancestors[sentences]
            if self.src_mask is not None:
                self.src_mask = self.src_mask[sentences]
        if self.beams > 1:
            read = self.ancestors[..., :written]
            parents = (rows % self.beams)[:, None, :, None]
            read.copy_(read.gather(2, parents.expand_as(read)))
