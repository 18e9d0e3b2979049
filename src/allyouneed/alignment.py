"""A recurrent translator that looks back at its source, and four scores that say where to look."""

# Made from notebooks/03_alignment.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from allyouneed.checks import (
    check_positive,
    check_score,
    check_sizes,
    check_source_mask,
    check_tokens,
    check_vectors,
)
from allyouneed.modes import eval_mode
from allyouneed.tokens import BOS, EOS, PAD

__all__ = [
    "Additive",
    "Dot",
    "General",
    "Kernel",
    "attend",
    "GRUEncoder",
    "GRUDecoder",
    "Translator",
    "translation_loss",
    "translate_greedily",
]


class Additive(nn.Module):
    """tanh(q W_q + k W_k) . v, the alignment model of Bahdanau et al.
    (2015), appendix A.1.2."""

    def __init__(self, d_query: int, d_key: int, d_hidden: int):
        super().__init__()
        self.w_q = nn.Linear(d_query, d_hidden, bias=False)
        self.w_k = nn.Linear(d_key, d_hidden, bias=False)
        self.v = nn.Linear(d_hidden, 1, bias=False)

    def forward(
        self, q: Float[Tensor, "B T Q"], k: Float[Tensor, "B S K"]
    ) -> Float[Tensor, "B T S"]:
        # (B, T, S, A)
        hidden = torch.tanh(self.w_q(q).unsqueeze(2) + self.w_k(k).unsqueeze(1))
        return self.v(hidden).squeeze(-1)


class Dot(nn.Module):
    """q . k, the dot score of Luong et al. (2015), section 3.1: nothing to learn."""

    def forward(
        self, q: Float[Tensor, "B T K"], k: Float[Tensor, "B S K"]
    ) -> Float[Tensor, "B T S"]:
        check_vectors(q, k)
        return q @ k.transpose(1, 2)


class General(nn.Module):
    """q W k^T, the general score of Luong et al. (2015), section 3.1."""

    def __init__(self, d_query: int, d_key: int):
        super().__init__()
        # its weight is W, (d_query, d_key)
        self.w = nn.Linear(d_key, d_query, bias=False)

    def forward(
        self, q: Float[Tensor, "B T Q"], k: Float[Tensor, "B S K"]
    ) -> Float[Tensor, "B T S"]:
        return q @ self.w(k).transpose(1, 2)


class Kernel(nn.Module):
    """-|q - k|^2 / (2 sigma^2): with softmax, the regression of
    Nadaraya and Watson (1964).

    Raises ValueError if sigma is not above 0, or if queries and keys differ in width.
    """

    def __init__(self, sigma: float):
        super().__init__()
        check_positive(sigma=sigma)
        self.sigma = sigma

    def forward(
        self, q: Float[Tensor, "B T K"], k: Float[Tensor, "B S K"]
    ) -> Float[Tensor, "B T S"]:
        check_vectors(q, k)
        squared = (q.unsqueeze(2) - k.unsqueeze(1)).pow(2).sum(-1)
        return -squared / (2 * self.sigma**2)


def attend(
    scores: Float[Tensor, "B T S"],
    values: Float[Tensor, "B S D"],
    mask: Bool[Tensor, "B S"],
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T S"]]:
    """Average the values with the softmax of the scores: Bahdanau et
    al. (2015), equations 5, 6.

    `mask` is True where the source has a token; where it has none at all, the
    result is zero. Returns the contexts and the weights. Raises ValueError if the
    mask does not fit the scores.
    """
    check_source_mask(mask, scores)
    hidden = ~mask.unsqueeze(1)  # (B, 1, S): hidden from all queries alike
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1).masked_fill(hidden, 0.0)
    return weights @ values, weights


class GRUEncoder(nn.Module):
    """Read a sentence in both directions: Bahdanau et al. (2015), section 3.2."""

    def __init__(self, d_model: int):
        super().__init__()
        self.gru = nn.GRU(d_model, d_model, batch_first=True, bidirectional=True)

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S 2*D"], Float[Tensor, "B 2*D"]]:
        """Return the memory, one state per token, and the
        summary, the two last states."""
        lengths = mask.sum(1).cpu()
        packed = pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=False
        )
        states, last = self.gru(packed)
        memory, _ = pad_packed_sequence(
            states, batch_first=True, total_length=x.shape[1]
        )
        return memory, torch.cat([last[0], last[1]], dim=-1)


class GRUDecoder(nn.Module):
    """A GRU whose state asks the memory; without a score, it has the summary alone."""

    def __init__(self, d_model: int, score: nn.Module | None):
        super().__init__()
        self.gru = nn.GRU(3 * d_model, d_model, batch_first=True)
        self.score = score
        self.combine = nn.Linear(3 * d_model, d_model)

    def forward(
        self,
        y: Float[Tensor, "B T D"],
        state: Float[Tensor, "1 B D"],
        memory: Float[Tensor, "B S 2*D"],
        summary: Float[Tensor, "B 2*D"],
        mask: Bool[Tensor, "B S"],
    ) -> tuple[
        Float[Tensor, "B T D"], Float[Tensor, "1 B D"], Float[Tensor, "B T S"] | None
    ]:
        """Return what to choose the next words from, the last
        state, and the weights."""
        summary = summary.unsqueeze(1).expand(-1, y.shape[1], -1)
        queries, state = self.gru(torch.cat([y, summary], dim=-1), state)
        context, weights = summary, None
        if self.score is not None:
            # keys and values
            context, weights = attend(self.score(queries, memory), memory, mask)
        return (
            torch.tanh(self.combine(torch.cat([queries, context], dim=-1))),
            state,
            weights,
        )


class Translator(nn.Module):
    """Encoder and decoder, with one embedding shared by source, target and output."""

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        score: nn.Module | None,
        dropout: float = 0.0,
    ):
        super().__init__()
        check_score(score)
        self.embedding = nn.Embedding(vocab_size, d_model, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.encoder = GRUEncoder(d_model)
        self.bridge = nn.Linear(2 * d_model, d_model)
        self.decoder = GRUDecoder(d_model, score)
        self.dropout = nn.Dropout(dropout)

    def encode(self, src: Int[Tensor, "B S"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return all that the decoder needs: first state, memory, summary and mask."""
        check_tokens("src", src, self.embedding.num_embeddings)
        mask = src != PAD
        memory, summary = self.encoder(self.dropout(self.embedding(src)), mask)
        return torch.tanh(self.bridge(summary)).unsqueeze(0), memory, summary, mask

    def decode(
        self, tgt: Int[Tensor, "B T"], state: Tensor, *source: Tensor
    ) -> tuple[Float[Tensor, "B T V"], Tensor, Tensor | None]:
        """Return the logits of the next words, the last state, and the weights.
        `source` is the rest of what `encode` returns: memory, summary and mask."""
        check_tokens("tgt", tgt, self.embedding.num_embeddings)
        y = self.dropout(self.embedding(tgt))
        y, state, weights = self.decoder(y, state, *source)
        return self.dropout(y) @ self.embedding.weight.T, state, weights

    def forward(
        self, src: Int[Tensor, "B S"], tgt: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Teacher forcing: the true words are read, and each next
        one is to be predicted."""
        return self.decode(tgt, *self.encode(src))[0]


def translation_loss(
    model: nn.Module,
    src: Int[Tensor, "B S"],
    tgt: Int[Tensor, "B T"],
    reduction: str = "mean",
) -> Float[Tensor, ""]:
    """Cross-entropy of each next token in nats; `reduction` is that of
    PyTorch's cross_entropy."""
    logits, labels = model(src, tgt[:, :-1]), tgt[:, 1:]
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, reduction=reduction
    )


def translate_greedily(
    model: Translator, src: Int[Tensor, "B S"], max_length: int = 60
) -> tuple[Int[Tensor, "B T"], Float[Tensor, "B T S"] | None]:
    """Write the likeliest token, one after the other, until EOS, in eval mode.

    Returns the tokens, without BOS and with PAD after EOS, and the weights with
    which each was written (None without attention). Raises ValueError if
    max_length is not at least 1.
    """
    check_sizes(max_length=max_length)
    tokens, looks = [], []
    with eval_mode(model):
        state, *rest = model.encode(src)
        token = torch.full((len(src), 1), BOS, device=src.device)
        done = torch.zeros_like(token, dtype=torch.bool)
        while len(tokens) < max_length and not done.all():
            logits, state, weights = model.decode(token, state, *rest)
            token = logits.argmax(-1).masked_fill(done, PAD)
            done |= token == EOS
            tokens.append(token)
            looks.append(weights)
    return torch.cat(tokens, dim=1), None if looks[0] is None else torch.cat(
        looks, dim=1
    )
