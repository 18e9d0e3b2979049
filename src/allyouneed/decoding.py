"""Decoding: greedy, beam search and sampling, with a key-value cache."""

# Made from notebooks/13_decoding.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from allyouneed.attention import attention
from allyouneed.cache import FastCache
from allyouneed.checks import (
    check_beam,
    check_filter,
    check_generator,
    check_kind,
    check_lengths,
    check_limits,
    check_several,
    check_sizes,
    check_tokens,
    check_vocabulary,
)
from allyouneed.data import plain_signs
from allyouneed.modes import eval_mode
from allyouneed.multihead import MultiHeadAttention, merge_heads, split_heads
from allyouneed.tokens import BOS, EOS, PAD, Tokenizer, pad
from allyouneed.transformer import DecoderLayer, Transformer

__all__ = [
    "penalty",
    "Hypotheses",
    "Beam",
    "filter_logits",
    "Cache",
    "unfinished",
    "greedy",
    "sample",
    "beam_search",
    "translate",
]


def penalty(length: Tensor | int, alpha: float) -> Tensor | float:
    """((5 + length) / 6)^alpha: Wu et al. (2016), equation 14.

    Log-probabilities are divided by it, so that long translations
    are not at a disadvantage.
    """
    return ((5 + length) / 6) ** alpha


class Hypotheses:
    """The N open hypotheses of each sentence."""

    def __init__(self, src: Int[Tensor, "B S"], n: int, room: int):
        self.n, self.length = n, 0
        self.scores = torch.full((len(src), n), -math.inf, device=src.device)
        self.scores[:, 0] = 0  # all begin with the same BOS: one of them is enough
        self.ids = src.new_full((len(src), n, room), PAD)

    def candidates(
        self, logits: Float[Tensor, "B N V"]
    ) -> tuple[Float[Tensor, "B C"], Int[Tensor, "B C"], Int[Tensor, "B C"]]:
        """The best C = 2N continuations: log P, parent and token."""
        V, dtype = logits.shape[2], torch.promote_types(logits.dtype, torch.float32)
        log_p = self.scores[..., None] + logits.to(dtype).log_softmax(-1)  # (B, N, V)
        top, place = log_p.flatten(1).topk(2 * self.n)
        return top, place // V, place % V

    def grow(
        self, logits: Float[Tensor, "B N V"]
    ) -> tuple[Int[Tensor, "B N"], Int[Tensor, "B N"]]:
        """One step: the parent of each hypothesis that goes on, and its new token."""
        self.length += 1
        log_p, parent, token = self.candidates(logits)
        eos = token == EOS
        self.finish(log_p.masked_fill(~eos, -math.inf)[:, : self.n], parent)
        # what goes on: the best N of the others
        self.scores, go = log_p.masked_fill(eos, -math.inf).topk(self.n)
        parent, token = parent.gather(1, go), token.gather(1, go)
        self.ids = self.ids.gather(1, parent[..., None].expand_as(self.ids))
        self.ids[..., self.length - 1] = token
        return parent, token


class Beam(Hypotheses):
    """The open hypotheses of each sentence, and the best that has ended."""

    def __init__(
        self, src: Int[Tensor, "B S"], n: int, limit: Int[Tensor, " B"], alpha: float
    ):
        super().__init__(src, n, int(limit.max()))
        self.limit, self.alpha = limit, alpha
        # log P / penalty of what has ended
        self.best = self.scores.new_full((len(src),), -math.inf)
        self.best_ids = torch.full_like(self.ids[:, 0], PAD)

    def finish(
        self, log_p: Float[Tensor, "B N"], parent: Int[Tensor, "B more"]
    ) -> None:
        """Of the candidates that end (the others have -inf), keep the best so far."""
        value, which = (log_p / penalty(self.length, self.alpha)).max(1)
        rows = torch.arange(len(value), device=value.device)
        ids = self.ids[rows, parent[rows, which]]
        better = value > self.best
        self.best_ids = torch.where(better[:, None], ids, self.best_ids)
        self.best = torch.where(better, value, self.best)

    def done(self) -> Bool[Tensor, " B"]:
        """Nothing open can overtake the best that has ended, or there is no room."""
        reach = self.scores[:, 0] / penalty(self.limit, self.alpha)
        return (self.best >= reach) | (self.limit == self.length)

    def result(self) -> Int[Tensor, "B T"]:
        """The best that has ended, or if none has, the best that is open."""
        ended = self.best[:, None] > -math.inf
        return torch.where(ended, self.best_ids, self.ids[:, 0])

    def select(self, sentences: Int[Tensor, " left"]) -> None:
        """Go on with these sentences."""
        for name in ("limit", "scores", "ids", "best", "best_ids"):
            setattr(self, name, getattr(self, name)[sentences])


def filter_logits(
    logits: Float[Tensor, "B V"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "B V"]:
    """The logits to sample from: divided by the temperature, -inf
    for all but the likeliest.

    `top_k` keeps that many. `top_p` then keeps the fewest of them that together have at
    least this probability (Holtzman et al. 2020). Raises TypeError or ValueError for
    what cannot be followed.
    """
    check_filter(temperature, top_k, top_p, logits)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    tiny = torch.finfo(logits.dtype).tiny  # a temperature below it would be 0
    logits = (logits - logits.amax(-1, keepdim=True)) / max(temperature, tiny)
    if top_k is None and top_p is None:
        return logits
    ranked, ids = logits.sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        ranked[:, int(top_k) :] = -math.inf
    if top_p is not None:
        p = ranked.softmax(-1)
        before = p.cumsum(-1) - p  # what all likelier ones have together
        ranked[:, 1:] = ranked[:, 1:].masked_fill(before[:, 1:] >= top_p, -math.inf)
    return torch.empty_like(logits).scatter(-1, ids, ranked)


def draw_tokens(
    logits: Float[Tensor, "B V"],
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    generator: torch.Generator | None,
) -> Int[Tensor, " B"]:
    """A token for each row, out of what `filter_logits` leaves; the
    likeliest for a temperature of 0."""
    if temperature == 0:
        return logits.argmax(-1)
    p = filter_logits(logits, temperature, top_k, top_p).softmax(-1)
    return p.multinomial(1, generator=generator)[:, 0]


def keys_and_values(
    multihead: MultiHeadAttention, x: Float[Tensor, "R T D"]
) -> Float[Tensor, "2 R H T K"]:
    """The keys and the values of x in every head."""
    both = (multihead.w_k(x), multihead.w_v(x))
    return torch.stack([split_heads(one, multihead.n_heads) for one in both])


def attend_to_cached(
    multihead: MultiHeadAttention,
    x: Float[Tensor, "R T D"],
    kept: Float[Tensor, "2 R H S K"],
    mask: Tensor | None = None,
) -> Float[Tensor, "R T D"]:
    """Multi-head attention of x to keys and values that are there already."""
    q = split_heads(multihead.w_q(x), multihead.n_heads)
    return multihead.w_o(merge_heads(attention(q, *kept, mask)))


class CachedLayer:
    """A decoder layer, with keys and values of the source and of what is written."""

    def __init__(self, layer: DecoderLayer, memory: Float[Tensor, "R S D"]):
        self.layer = layer
        self.cross = keys_and_values(layer.cross_attention, memory)
        self.own = self.cross[..., :0, :]  # nothing is written yet

    def __call__(
        self, x: Float[Tensor, "R 1 D"], src_mask: Tensor
    ) -> Float[Tensor, "R 1 D"]:
        """The newest position through the layer, which keeps its key and value."""
        layer = self.layer

        def self_attention(x: Tensor) -> Tensor:
            new = keys_and_values(layer.self_attention, x)
            self.own = torch.cat([self.own, new], dim=-2)  # equation (13.7)
            return attend_to_cached(layer.self_attention, x, self.own)

        def cross_attention(x: Tensor) -> Tensor:
            return attend_to_cached(layer.cross_attention, x, self.cross, src_mask)

        x = layer.residuals[0](x, self_attention)
        x = layer.residuals[1](x, cross_attention)
        return layer.residuals[2](x, layer.feed_forward)


class Cache:
    """The keys and values of all decoder layers: those of the source,
    and those of each token written.

    A row is a half-written translation; of each sentence in `src` there are `beams`.
    """

    def __init__(self, model: Transformer, src: Int[Tensor, "B S"], beams: int = 1):
        check_kind(Transformer, model=model)
        check_sizes(beams=beams)
        source = model.encode(src)
        memory, self.src_mask = (x.repeat_interleave(beams, 0) for x in source)
        self.layers = [CachedLayer(layer, memory) for layer in model.decoder.layers]
        self.model, self.length = model, 0

    def step(self, tokens: Int[Tensor, " R"]) -> Float[Tensor, "R V"]:
        """The logits of what follows the newest token of each row.

        PAD and BOS have -inf, for they never follow.
        """
        model = self.model
        x = model.embedding(tokens[:, None]) * math.sqrt(model.config.d_model)
        x = x + model.positions.table[self.length].to(x.dtype)
        for layer in self.layers:
            x = layer(x, self.src_mask)
        self.length += 1
        logits = model.logits(model.decoder.norm(x))[:, 0]
        logits[:, [PAD, BOS]] = -math.inf
        return logits

    def select(self, rows: Int[Tensor, " left"]) -> None:
        """Row i goes on from row rows[i]: rows are left out, change
        places or go on twice."""
        for layer in self.layers:
            layer.own, layer.cross = layer.own[:, rows], layer.cross[:, rows]
        self.src_mask = self.src_mask[rows]


def unfinished(done: Bool[Tensor, " B"]) -> Int[Tensor, " left"]:
    """Which sentences are left; the last ones take the places of those
    that are done, so that few are moved."""
    left = len(done) - int(done.sum())
    rows = torch.arange(left, device=done.device)
    rows[done[:left]] = left + (~done[left:]).nonzero()[:, 0]
    return rows


def length_limits(
    model: Transformer, src: Int[Tensor, "B S"], max_length: int | None
) -> Int[Tensor, " B"]:
    """How many tokens each translation may have, EOS included.

    By default the length of the source + 50, as in the paper (section 6.1). Raises
    TypeError or ValueError for a src or max_length that does not fit the model.
    """
    check_kind(Transformer, model=model)
    check_tokens("src", src, model.config.vocab_size, model.embedding.weight.device)
    lengths, room = (src != PAD).sum(1), len(model.positions.table)
    check_limits(lengths, max_length, room)
    if max_length is None:
        return (lengths + 50).clamp(max=room)
    return torch.full_like(lengths, max_length)


def cut_at_eos(rows: Int[Tensor, "B T"]) -> list[list[int]]:
    """The ids of each row up to the first EOS or PAD."""
    ended = (rows == EOS) | (rows == PAD)
    ends = torch.where(ended.any(1), ended.int().argmax(1), rows.shape[1]).tolist()
    return [row[:end] for row, end in zip(rows.tolist(), ends, strict=True)]


def token_by_token(
    model: Transformer,
    src: Int[Tensor, "B S"],
    max_length: int | None,
    choose: Callable[[Float[Tensor, "B V"]], Int[Tensor, " B"]],
) -> list[list[int]]:
    """Write one translation of each sentence; `choose` takes its next
    token from the logits."""
    if not len(limit := length_limits(model, src, max_length)):
        return []
    with eval_mode(model):
        written = src.new_full((len(src), int(limit.max())), PAD)
        cache = FastCache(model, src)  # `Cache` gives the same, in more time
        sentence = torch.arange(len(src), device=src.device)
        tokens = src.new_full((len(src),), BOS)
        while len(sentence):
            tokens = choose(cache.step(tokens)).to(src.dtype)
            written[sentence, cache.length - 1] = tokens
            done = (tokens == EOS) | (limit == cache.length)
            if done.any():
                left = unfinished(done)
                cache.select(left)
                sentence, tokens, limit = sentence[left], tokens[left], limit[left]
        return cut_at_eos(written)


def greedy(
    model: Transformer, src: Int[Tensor, "B S"], max_length: int | None = None
) -> list[list[int]]:
    """The likeliest token, again and again, until EOS.

    `src`: ids that end in EOS, padded. `max_length`: how many tokens a translation may
    have, EOS included; by default the length of its source + 50 (section 6.1). Returns
    the ids of each sentence, without BOS and EOS. Raises TypeError or ValueError for a
    src or max_length that does not fit the model.
    """

    def likeliest(logits: Float[Tensor, "B V"]) -> Int[Tensor, " B"]:
        return logits.max(dim=-1).indices  # on a CPU faster than argmax

    return token_by_token(model, src, max_length, likeliest)


def sample(
    model: Transformer,
    src: Int[Tensor, "B S"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    max_length: int | None = None,
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """Draw each token from the model's probabilities, filtered by `filter_logits`.

    A temperature of 0 is greedy. A generator in the same state gives the same
    translations. `src`, `max_length` and the result as in `greedy`. Raises TypeError or
    ValueError for arguments that do not fit.
    """
    check_filter(temperature, top_k, top_p)
    check_generator(generator)

    def choose(logits: Float[Tensor, "B V"]) -> Int[Tensor, " B"]:
        return draw_tokens(logits, temperature, top_k, top_p, generator)

    return token_by_token(model, src, max_length, choose)


def beam_search(
    model: Transformer,
    src: Int[Tensor, "B S"],
    beam: int = 4,
    length_penalty: float = 0.6,
    max_length: int | None = None,
) -> list[list[int]]:
    """The best translation that a beam finds, by log P / `penalty` (section 6.1).

    A sentence is done when no open hypothesis can become better than the best that has
    ended. If none ends within the limit, the best that is open is taken. `src`,
    `max_length` and the result as in `greedy`, which a beam of 1 without length penalty
    is. Raises TypeError or ValueError for arguments that do not fit.
    """
    check_beam(beam, length_penalty)
    limit = length_limits(model, src, max_length)
    if not len(src):
        return []
    with eval_mode(model):
        hypotheses = Beam(src, beam, limit, length_penalty)
        written = src.new_full((len(src), int(limit.max())), PAD)
        cache = FastCache(model, src, beam)  # `Cache` gives the same, in more time
        sentence = torch.arange(len(src), device=src.device)
        tokens = src.new_full((len(src), beam), BOS)
        while len(sentence):
            logits = cache.step(tokens.flatten()).unflatten(0, (-1, beam))
            parents, tokens = hypotheses.grow(logits)
            first = torch.arange(len(parents), device=src.device) * beam
            rows = first[:, None] + parents  # of the cache
            done = hypotheses.done()
            if done.any():
                written[sentence[done]] = hypotheses.result()[done]
                left = unfinished(done)
                hypotheses.select(left)
                sentence, rows, tokens = sentence[left], rows[left], tokens[left]
            cache.select(rows.flatten())
        return cut_at_eos(written)


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
    translation, any white space counts as one space, and curly quotes and their like
    are read as plain ones (`plain_signs`). Raises TypeError for one string, for what is
    not a string and for what is no model or tokenizer, ValueError for another model's
    tokenizer or a sentence that is longer than the model has positions.
    """
    check_kind(Transformer, model=model)
    check_kind(Tokenizer, tokenizer=tokenizer)
    check_several(sentences=sentences)
    check_sizes(batch=batch)
    check_beam(beam, length_penalty)
    check_vocabulary(model.config.vocab_size, tokenizer=tokenizer)
    known = tokenizer.bpe.get_vocab()
    texts = [plain_signs(sentence, known) for sentence in sentences]
    ids = [[*tokenizer.encode(text), EOS] for text in texts]
    check_lengths(ids, len(model.positions.table))
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    order = [i for i in order if len(ids[i]) > 1]  # a blank one stays blank
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
