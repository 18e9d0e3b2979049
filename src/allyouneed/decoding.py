"""Reading it out: greedy decoding, beam search and sampling, with a key-value cache."""

# Made from notebooks/13_decoding.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from allyouneed.data import clean
from allyouneed.masks import additive_mask, padding_mask
from allyouneed.sublayers import LayerNorm
from allyouneed.tokens import BOS, EOS, PAD, Tokenizer, pad
from allyouneed.transformer import DecoderLayer, Transformer, check_tokens

__all__ = [
    "GROUP",
    "penalty",
    "reading",
    "side_by_side",
    "normed",
    "attended",
    "FastLayer",
    "Cache",
    "limits",
    "until_eos",
    "likeliest",
    "token_by_token",
    "greedy",
    "Beam",
    "beam_search",
    "translate",
    "narrowed",
    "sample",
]


def penalty(length: Tensor | int, alpha: float) -> Tensor | float:
    """((5 + length) / 6)^alpha: Wu et al. (2016), equation 14.

    Log-probabilities are divided by it, so that long translations
    are not at a disadvantage.
    """
    return ((5 + length) / 6) ** alpha


GROUP = 64  # see `likeliest`


@contextmanager
def reading(model: nn.Module) -> Iterator[None]:
    """Without dropout and without gradients; afterwards every part is
    in the mode it was in."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for part, training in modes:
            part.training = training


def side_by_side(*layers: nn.Linear) -> tuple[Tensor, Tensor | None]:
    """One linear layer or several as the weight and bias of one,
    wide in memory, not tall."""
    weight = torch.cat([layer.weight.T for layer in layers], dim=1).T
    biases = [layer.bias for layer in layers]
    return weight, None if biases[0] is None else torch.cat(biases)


def normed(norm: LayerNorm, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
    """`norm(x)` without its checks."""
    return F.layer_norm(x, norm.gamma.shape, norm.gamma, norm.beta, norm.eps)


def attended(
    q: Float[Tensor, "B H N K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    mask: Tensor | None,
    w_o: nn.Linear,
) -> Float[Tensor, "B N D"]:
    """Attention in every head, the heads put side by side, and W^O."""
    heads = F.scaled_dot_product_attention(q, k, v, mask)
    return F.linear(heads.transpose(1, 2).flatten(2), w_o.weight, w_o.bias)


class FastLayer:
    """A decoder layer for new positions only; equal to `DecoderLayer` by test.

    Keys and values of earlier positions and of the memory come from outside.
    """

    def __init__(self, layer: DecoderLayer):
        own, cross = layer.self_attention, layer.cross_attention
        self.n_heads = own.n_heads
        self.norm_first = layer.residuals[0].norm_first
        self.norms = [residual.norm for residual in layer.residuals]
        self.qkv = side_by_side(own.w_q, own.w_k, own.w_v)
        self.cross_kv = side_by_side(cross.w_k, cross.w_v)
        self.own_o, self.cross_q, self.cross_o = own.w_o, cross.w_q, cross.w_o
        self.w_1, self.w_2 = (
            side_by_side(layer.feed_forward.w_1),
            layer.feed_forward.w_2,
        )

    def heads(
        self, x: Float[Tensor, "B N D3"], pieces: int
    ) -> Float[Tensor, "P B H N K"]:
        """Cut each vector into pieces (query, key, value), and
        each piece into heads."""
        return x.unflatten(-1, (pieces, self.n_heads, -1)).permute(2, 0, 3, 1, 4)

    def residual(
        self, i: int, x: Tensor, sublayer: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """The i-th sub-layer with its residual and norm, post-norm or pre-norm."""
        if self.norm_first:
            return x + sublayer(normed(self.norms[i], x))
        return normed(self.norms[i], x + sublayer(x))

    def __call__(
        self,
        x: Float[Tensor, "B N D"],
        own: Float[Tensor, "2 B H T K"],
        new: slice,
        own_mask: Tensor | None,
        cross: Float[Tensor, "2 B H S K"],
        cross_mask: Tensor | None,
    ) -> Float[Tensor, "B N D"]:
        """Write keys and values of x into `own` at the places `new`;
        attend to all up to there.

        `own` and `cross` hold the keys, then the values. The
        masks are numbers to be added.
        """

        def self_attention(x: Tensor) -> Tensor:
            qkv = self.heads(F.linear(x, *self.qkv), 3)
            own[:, :, :, new] = qkv[1:]
            return attended(qkv[0], *own[:, :, :, : new.stop], own_mask, self.own_o)

        def cross_attention(x: Tensor) -> Tensor:
            q = F.linear(x, self.cross_q.weight, self.cross_q.bias)
            return attended(self.heads(q, 1)[0], *cross, cross_mask, self.cross_o)

        def feed_forward(x: Tensor) -> Tensor:
            hidden = F.linear(x, *self.w_1).relu_()
            return F.linear(hidden, self.w_2.weight, self.w_2.bias)

        for i, sublayer in enumerate((self_attention, cross_attention, feed_forward)):
            x = self.residual(i, x, sublayer)
        return x


class Cache:
    """All that half-written translations need for their next token: keys and values.

    Those of the source are computed once for each sentence, those of the target once
    for each token, in memory that is set aside at the start. `beams` hypotheses of one
    sentence share it: each reads what its own ancestors wrote, and none is copied.
    """

    def __init__(
        self, model: Transformer, src: Int[Tensor, "B S"], beams: int, limit: int
    ):
        memory, vocab_size = model.encode(src), model.config.vocab_size
        self.layers = [FastLayer(layer) for layer in model.decoder.layers]
        self.final_norm, self.table = model.decoder.norm, model.positions.table
        self.embedding = model.embedding.weight
        # V up to a whole GROUP
        self.never = memory.new_zeros(vocab_size + -vocab_size % GROUP)
        self.never[[PAD, BOS, *range(vocab_size, len(self.never))]] = -math.inf
        self.output = memory.new_zeros(memory.shape[2], len(self.never))  # (D, V)
        self.output[:, :vocab_size] = self.embedding.T
        cross = [
            layer.heads(F.linear(memory, *layer.cross_kv), 2) for layer in self.layers
        ]
        self.cross = torch.stack(cross)  # (layers, 2, B, H, S, K)
        *axes, S, K = self.cross.shape
        self.own = self.cross.new_empty(*axes, limit * beams, K)
        padded = bool((src == PAD).any())
        self.src_mask = (
            additive_mask(padding_mask(src, PAD), memory.dtype) if padded else None
        )
        self.beams, self.length, self.ancestors = beams, 0, None
        if beams > 1:
            self.ancestors = memory.new_full(
                (len(src), 1, beams, limit * beams), -math.inf
            )
            self.itself = memory.new_full((beams, beams), -math.inf).fill_diagonal_(0)

    def step(self, tokens: Int[Tensor, "B N"]) -> Float[Tensor, "B N V"]:
        """The logits of what follows the newest token of each hypothesis.

        PAD and BOS have -inf, for they never follow, and so have the columns from V on.
        """
        new = slice(self.length * self.beams, (self.length + 1) * self.beams)
        x = F.embedding(tokens, self.embedding) * math.sqrt(self.embedding.shape[1])
        x += self.table[self.length].to(x.dtype)
        own_mask = None
        if self.ancestors is not None:
            self.ancestors[..., new] = self.itself
            own_mask = self.ancestors[..., : new.stop]
        for layer, own, cross in zip(self.layers, self.own, self.cross, strict=True):
            x = layer(x, own, new, own_mask, cross, self.src_mask)
        self.length += 1
        x = self.final_norm(x).flatten(0, 1)
        return torch.addmm(self.never, x, self.output).unflatten(0, tokens.shape)

    def descend(self, parents: Int[Tensor, "B N"]) -> None:
        """Hypothesis n goes on from hypothesis parents[:, n]: it
        takes over its ancestors."""
        if self.ancestors is not None:
            read = self.ancestors[..., : self.length * self.beams]
            read.copy_(read.gather(2, parents[:, None, :, None].expand_as(read)))

    def leave(self, done: Bool[Tensor, " B"]) -> Int[Tensor, " left"]:
        """Take out the sentences that are done; the last ones move into the gaps.

        Returns where each sentence that is left was before.
        """
        left = len(done) - int(done.sum())
        gaps, movers = (
            done[:left].nonzero()[:, 0],
            left + (~done[left:]).nonzero()[:, 0],
        )
        rows = torch.arange(left, device=done.device)
        rows[gaps] = movers
        written = self.own[..., : self.length * self.beams, :]
        for x in (written, self.cross):
            x[:, :, gaps] = x[:, :, movers]
        self.own, self.cross = self.own[:, :, :left], self.cross[:, :, :left]
        self.src_mask = None if self.src_mask is None else self.src_mask[rows]
        self.ancestors = None if self.ancestors is None else self.ancestors[rows]
        return rows


def limits(
    model: Transformer, src: Int[Tensor, "B S"], max_length: int | None
) -> Int[Tensor, " B"]:
    """How many tokens each translation may have, EOS included;
    checks src and max_length.

    By default the length of the source + 50, as in the paper (section 6.1). Raises
    TypeError or ValueError for a src or max_length that does not fit the model.
    """
    if not isinstance(src, Tensor):
        raise TypeError(f"src: expected a tensor of ids, got {type(src).__name__}")
    check_tokens("src", src, model.config.vocab_size)
    lengths, room = (src != PAD).sum(1), len(model.positions.table)
    if not lengths.all():
        raise ValueError(
            "src: expected a token in every sentence, got one of padding alone"
        )
    if max_length is None:
        return (lengths + 50).clamp(max=room)
    if not isinstance(max_length, int) or isinstance(max_length, bool):
        raise TypeError(f"max_length: expected an integer, got {max_length!r}")
    if not 1 <= max_length <= room:
        raise ValueError(
            f"max_length: expected 1 to {room} positions, got {max_length}"
        )
    return torch.full_like(lengths, max_length)


def until_eos(rows: Int[Tensor, "B T"]) -> list[list[int]]:
    """The ids of each row up to the first EOS or PAD."""
    ended = (rows == EOS) | (rows == PAD)
    ends = torch.where(ended.any(1), ended.int().argmax(1), rows.shape[1]).tolist()
    return [row[:end] for row, end in zip(rows.tolist(), ends, strict=True)]


def likeliest(
    logits: Float[Tensor, "R V"], k: int
) -> tuple[Float[Tensor, "R k"], Int[Tensor, "R k"]]:
    """`logits.topk(k)`, the values and their ids, in less time; V
    must be a multiple of GROUP.

    Deal the columns out to GROUP piles: the k largest lie in the k
    piles with the largest tops.
    """
    piles = logits.unflatten(1, (-1, GROUP))  # id = GROUP * row + pile
    n = min(k, GROUP)
    pile = piles.amax(1).topk(n).indices  # (R, n)
    few = piles.gather(2, pile[:, None].expand(-1, piles.shape[1], -1)).flatten(1)
    values, place = few.topk(k)
    return values, place // n * GROUP + pile.gather(1, place % n)


def token_by_token(
    model: Transformer,
    src: Int[Tensor, "B S"],
    max_length: int | None,
    choose: Callable[[Float[Tensor, "B V"]], Int[Tensor, " B"]],
) -> list[list[int]]:
    """Write one translation of each sentence; `choose` takes its next
    token from the logits."""
    if not len(limit := limits(model, src, max_length)):
        return []
    with reading(model):
        written = src.new_full((len(src), int(limit.max())), PAD)
        cache = Cache(model, src, 1, written.shape[1])
        sentence = torch.arange(len(src), device=src.device)
        tokens = src.new_full((len(src),), BOS)
        while len(sentence):
            tokens = choose(cache.step(tokens[:, None])[:, 0]).to(src.dtype)
            written[sentence, cache.length - 1] = tokens
            done = (tokens == EOS) | (limit == cache.length)
            if done.any():
                rows = cache.leave(done)
                sentence, tokens, limit = sentence[rows], tokens[rows], limit[rows]
        return until_eos(written)


def greedy(
    model: Transformer, src: Int[Tensor, "B S"], max_length: int | None = None
) -> list[list[int]]:
    """The likeliest token, again and again, until EOS.

    `src`: ids that end in EOS, padded. `max_length`: how many tokens a translation may
    have, EOS included; by default the length of its source + 50 (section 6.1). Returns
    the ids of each sentence, without BOS and EOS. Raises TypeError or ValueError for a
    src or max_length that does not fit the model.
    """
    return token_by_token(
        model, src, max_length, lambda logits: likeliest(logits, 1)[1][:, 0]
    )


class Beam:
    """The N open hypotheses of each sentence, and the best that has ended."""

    def __init__(
        self, src: Int[Tensor, "B S"], n: int, limit: Int[Tensor, " B"], alpha: float
    ):
        B, T = len(src), int(limit.max())
        self.n, self.limit, self.alpha, self.length = n, limit, alpha, 0
        self.scores = torch.full((B, n), -math.inf, device=src.device)
        self.scores[:, 0] = 0  # all begin with the same BOS: one of them is enough
        self.ids = src.new_full((B, n, T), PAD)
        # log P / penalty of what has ended
        self.best = self.scores.new_full((B,), -math.inf)
        self.best_ids = src.new_full((B, T), PAD)
        self.ended = src.new_zeros(B)

    def grow(
        self, logits: Float[Tensor, "B N V"]
    ) -> tuple[Int[Tensor, "B N"], Int[Tensor, "B N"]]:
        """One step: the parent of each hypothesis that goes on, and its new token."""
        n, T = self.n, self.ids.shape[2]
        self.length += 1
        log_p = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(
            -1
        )
        some = min(2 * n, logits.shape[2])  # of each hypothesis
        more, token = likeliest(log_p.flatten(0, 1), some)
        top, place = (
            (self.scores[..., None] + more.unflatten(0, (-1, n))).flatten(1).topk(2 * n)
        )
        token, parent = token.view(len(top), -1).gather(1, place), place // some
        eos = token == EOS
        # what ends, if it is among the best n
        final = top.masked_fill(~eos, -math.inf)[:, :n] / penalty(
            self.length, self.alpha
        )
        self.ended += final.isfinite().sum(1)
        value, which = final.max(1)
        from_ids = self.ids[
            torch.arange(len(top), device=top.device),
            parent.gather(1, which[:, None])[:, 0],
        ]
        self.best_ids = torch.where(
            (value > self.best)[:, None], from_ids, self.best_ids
        )
        self.best = torch.maximum(value, self.best)
        # what goes on: the best n of the others
        self.scores, go = top.masked_fill(eos, -math.inf).topk(n)
        parent = parent.gather(1, go)
        # room for more
        token = token.gather(1, go).masked_fill(self.scores == -math.inf, EOS)
        self.ids = self.ids.gather(1, parent[..., None].expand(-1, -1, T))
        self.ids[..., self.length - 1] = token
        return parent, token

    def done(self) -> Bool[Tensor, " B"]:
        """n have ended, or none that is open can become the best, or
        there is no more room."""
        reach = self.scores[:, 0] / penalty(self.limit, self.alpha)
        return (
            (self.ended >= self.n) | (self.best >= reach) | (self.limit == self.length)
        )

    def result(self) -> Int[Tensor, "B T"]:
        """The best that has ended, or if none has, the best that is open."""
        return torch.where(
            self.best[:, None] > -math.inf, self.best_ids, self.ids[:, 0]
        )

    def keep(self, rows: Int[Tensor, " left"]) -> None:
        """Go on with the sentences of these rows."""
        for name in ("limit", "scores", "ids", "best", "best_ids", "ended"):
            setattr(self, name, getattr(self, name)[rows])


def beam_search(
    model: Transformer,
    src: Int[Tensor, "B S"],
    beam: int = 4,
    length_penalty: float = 0.6,
    max_length: int | None = None,
) -> list[list[int]]:
    """The best translation that a beam finds, by log P / `penalty` (section 6.1).

    A sentence is done when `beam` hypotheses have ended, or none that is open can
    become better than the best that has. If none ends within the limit, the best
    that is open is taken. `src`, `max_length` and the result as in `greedy`; a
    beam of 1 gives what `greedy` gives. Raises TypeError or ValueError for
    arguments that do not fit.
    """
    if not isinstance(beam, int) or isinstance(beam, bool):
        raise TypeError(f"beam: expected an integer, got {beam!r}")
    if beam < 1:
        raise ValueError(f"beam: expected at least 1, got {beam}")
    if not 0 <= length_penalty < math.inf:
        raise ValueError(f"length_penalty: expected at least 0, got {length_penalty}")
    limit = limits(model, src, max_length)
    if not len(src):
        return []
    with reading(model):
        hypotheses = Beam(src, beam, limit, length_penalty)
        written = src.new_full((len(src), int(limit.max())), PAD)
        cache = Cache(model, src, beam, written.shape[1])
        sentence = torch.arange(len(src), device=src.device)
        tokens = src.new_full((len(src), beam), BOS)
        while len(sentence):
            parents, tokens = hypotheses.grow(cache.step(tokens))
            done = hypotheses.done()
            if done.any():
                written[sentence[done]] = hypotheses.result()[done]
                rows = cache.leave(done)
                hypotheses.keep(rows)
                sentence, parents, tokens = sentence[rows], parents[rows], tokens[rows]
            cache.descend(parents)
        return until_eos(written)


def translate(
    model: Transformer,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    beam: int = 4,
    length_penalty: float = 0.6,
    batch: int = 64,
) -> list[str]:
    """The translation of each sentence, in the order given; a beam of 1 is greedy.

    `batch`: how many are translated at a time. A blank sentence has a blank
    translation, and any white space counts as one space. Raises TypeError for one
    string or for what is not a string, ValueError for another model's tokenizer or a
    sentence that is longer than the model has positions.
    """
    if isinstance(sentences, str):
        raise TypeError("sentences: expected several sentences, got one string")
    if len(tokenizer) != model.config.vocab_size:
        raise ValueError(
            f"tokenizer: expected {model.config.vocab_size} tokens as the model has, "
            f"got {len(tokenizer)}"
        )
    if not isinstance(batch, int) or batch < 1:
        raise ValueError(
            f"batch: expected a number of sentences of at least 1, got {batch!r}"
        )
    ids = [[*tokenizer.encode(clean(sentence)), EOS] for sentence in sentences]
    room = len(model.positions.table)
    if too_long := [i for i, row in enumerate(ids) if len(row) > room]:
        raise ValueError(
            f"sentences: expected at most {room - 1} tokens, "
            "the model's positions less EOS, "
            f"got {len(ids[too_long[0]]) - 1} in sentence {too_long[0]}"
        )
    order = sorted(
        (i for i, row in enumerate(ids) if len(row) > 1), key=lambda i: len(ids[i])
    )
    translations = [""] * len(ids)
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        src = pad([ids[i] for i in chosen]).to(model.embedding.weight.device)
        found = (
            greedy(model, src)
            if beam == 1
            else beam_search(model, src, beam, length_penalty)
        )
        for i, row in zip(chosen, found, strict=True):
            translations[i] = tokenizer.decode(row)
    return translations


def narrowed(
    logits: Float[Tensor, "B V"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "B V"]:
    """The logits to sample from: divided by the temperature, -inf
    for all but the likeliest.

    `top_k` keeps that many. `top_p` then keeps the fewest of them that together have at
    least this probability (Holtzman et al. 2020).
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    tiny = torch.finfo(logits.dtype).tiny  # a temperature below it would be 0
    logits = (logits - logits.amax(-1, keepdim=True)) / max(temperature, tiny)
    if top_k is None and top_p is None:
        return logits
    ranked, ids = logits.sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        ranked[:, top_k:] = -math.inf
    if top_p is not None:
        p = ranked.softmax(-1)
        before = p.cumsum(-1) - p  # what all likelier ones have together
        ranked[:, 1:] = ranked[:, 1:].masked_fill(before[:, 1:] >= top_p, -math.inf)
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
    """Draw each token from the model's probabilities, narrowed by `narrowed`.

    A temperature of 0 is greedy. A generator in the same state gives the same
    translations. `src`, `max_length` and the result as in `greedy`. Raises TypeError or
    ValueError for arguments that do not fit.
    """
    for name, value in (
        ("temperature", temperature),
        ("top_k", top_k),
        ("top_p", top_p),
    ):
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float)
        ):
            raise TypeError(f"{name}: expected a number, got {value!r}")
    if temperature is None or not 0 <= temperature < math.inf:
        raise ValueError(f"temperature: expected at least 0, got {temperature}")
    if top_k is not None and not (1 <= top_k < math.inf and top_k == int(top_k)):
        raise ValueError(f"top_k: expected a whole number of at least 1, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p: expected a probability above 0, got {top_p}")
    if temperature == 0:
        return greedy(model, src, max_length)

    def choose(logits: Float[Tensor, "B V"]) -> Int[Tensor, " B"]:
        p = narrowed(
            logits, temperature, None if top_k is None else int(top_k), top_p
        ).softmax(-1)
        return p.multinomial(1, generator=generator)[:, 0]

    return token_by_token(model, src, max_length, choose)
