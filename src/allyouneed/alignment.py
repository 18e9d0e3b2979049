"""Attention as alignment: the recurrent translator, with and without a look at every source word."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from allyouneed.tokens import BOS, EOS, PAD


class Additive(nn.Module):
    """v . tanh(W_q q + W_k k), the alignment model of Bahdanau et al. (2015), appendix A.1.2."""

    def __init__(self, d_query: int, d_key: int, d_hidden: int) -> None:
        super().__init__()
        self.w_q = nn.Linear(d_query, d_hidden, bias=False)
        self.w_k = nn.Linear(d_key, d_hidden, bias=False)
        self.v = nn.Linear(d_hidden, 1, bias=False)

    def forward(self, q: Float[Tensor, "B T Q"], k: Float[Tensor, "B S K"]) -> Float[Tensor, "B T S"]:
        hidden = torch.tanh(self.w_q(q).unsqueeze(2) + self.w_k(k).unsqueeze(1))  # (B, T, S, hidden)
        return self.v(hidden).squeeze(-1)


class Dot(nn.Module):
    """q . k, the dot score of Luong et al. (2015), section 3.1. Nothing to learn."""

    def forward(self, q: Float[Tensor, "B T K"], k: Float[Tensor, "B S K"]) -> Float[Tensor, "B T S"]:
        return q @ k.transpose(1, 2)


class General(nn.Module):
    """q . W k, the general score of Luong et al. (2015), section 3.1."""

    def __init__(self, d_query: int, d_key: int) -> None:
        super().__init__()
        self.w = nn.Linear(d_key, d_query, bias=False)

    def forward(self, q: Float[Tensor, "B T Q"], k: Float[Tensor, "B S K"]) -> Float[Tensor, "B T S"]:
        return q @ self.w(k).transpose(1, 2)


class Kernel(nn.Module):
    """-|q - k|^2 / (2 sigma^2): with the softmax, the kernel regression of Nadaraya and Watson (1964)."""

    def __init__(self, sigma: float) -> None:
        super().__init__()
        if sigma <= 0:
            raise ValueError(f"sigma: expected a width above 0, got {sigma}")
        self.sigma = sigma

    def forward(self, q: Float[Tensor, "B T K"], k: Float[Tensor, "B S K"]) -> Float[Tensor, "B T S"]:
        squared = (q.unsqueeze(2) - k.unsqueeze(1)).pow(2).sum(-1)
        return -squared / (2 * self.sigma**2)


def attend(
    scores: Float[Tensor, "B T S"], values: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T S"]]:
    """Turn scores into weights over the keys, and average the values with them.

    `mask`: True where the key is a token. A sentence with no token at all gets zeros.
    Returns the contexts and the weights.
    """
    if mask.shape != (scores.shape[0], scores.shape[2]):
        expected = (scores.shape[0], scores.shape[2])
        raise ValueError(f"mask: expected shape (B, S) = {expected}, got {tuple(mask.shape)}")
    hidden = ~mask.unsqueeze(1)  # (B, 1, S): the same keys are hidden from all queries
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1).masked_fill(hidden, 0.0)
    return weights @ values, weights


class Encoder(nn.Module):
    """Read the source in both directions (Bahdanau et al. 2015, section 3.2): one state per token."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gru = nn.GRU(d_model, d_model, batch_first=True, bidirectional=True)

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S 2*D"], Float[Tensor, "B 2*D"]]:
        """Return the memory, one state per token, and the summary, the last state of each direction."""
        packed = pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        states, last = self.gru(packed)
        memory, _ = pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])
        return memory, torch.cat([last[0], last[1]], dim=-1)


class Decoder(nn.Module):
    """A GRU whose state asks the memory; with `score=None` it has the summary alone (Cho et al. 2014)."""

    def __init__(self, d_model: int, score: nn.Module | None) -> None:
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
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "1 B D"], Float[Tensor, "B T S"] | None]:
        """Return what the next words are chosen from, the last state, and the weights."""
        summary = summary.unsqueeze(1).expand(-1, y.shape[1], -1)
        queries, state = self.gru(torch.cat([y, summary], dim=-1), state)
        if self.score is None:
            context, weights = summary, None
        else:
            context, weights = attend(self.score(queries, memory), memory, mask)
        return torch.tanh(self.combine(torch.cat([queries, context], dim=-1))), state, weights


class Translator(nn.Module):
    """Encoder, decoder and one embedding shared by source, target and output."""

    def __init__(self, vocab_size: int, d_model: int, score: nn.Module | None, dropout: float = 0.0):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.encoder = Encoder(d_model)
        self.bridge = nn.Linear(2 * d_model, d_model)
        self.decoder = Decoder(d_model, score)
        self.dropout = nn.Dropout(dropout)

    def encode(self, src: Int[Tensor, "B S"]):
        """Return all that the decoder needs: its first state, memory, summary and mask."""
        mask = src != PAD
        memory, summary = self.encoder(self.dropout(self.embedding(src)), mask)
        return torch.tanh(self.bridge(summary)).unsqueeze(0), memory, summary, mask

    def decode(self, tgt: Int[Tensor, "B T"], state, memory, summary, mask):
        """Return the scores of every word at every position, the last state, and the weights."""
        y = self.dropout(self.embedding(tgt))
        h, state, weights = self.decoder(y, state, memory, summary, mask)
        return self.dropout(h) @ self.embedding.weight.T, state, weights

    def forward(self, src: Int[Tensor, "B S"], tgt: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Teacher forcing: position t of `tgt` is given, position t + 1 is to be foretold."""
        return self.decode(tgt, *self.encode(src))[0]


def translation_loss(
    model: Translator, src: Int[Tensor, "B S"], tgt: Int[Tensor, "B T"], reduction: str = "mean"
) -> Float[Tensor, ""]:
    """Cross-entropy of every next token, in nats; padding counts for nothing."""
    logits = model(src, tgt[:, :-1])
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD, reduction=reduction
    )


@torch.no_grad()
def greedy(model: Translator, src: Int[Tensor, "B S"], max_length: int = 60):
    """Write the likeliest token, one after the other, until EOS; in eval mode.

    Returns the tokens (B, T), without BOS and with PAD after EOS, and the weights (B, T, S) or None.
    """
    was_training = model.training
    model.eval()
    state, *rest = model.encode(src)
    token = torch.full((len(src), 1), BOS, device=src.device)
    done = torch.zeros(len(src), 1, dtype=torch.bool, device=src.device)
    tokens, weights = [], []
    while len(tokens) < max_length and not done.all():
        logits, state, looked = model.decode(token, state, *rest)
        token = logits.argmax(-1).masked_fill(done, PAD)
        done |= token == EOS
        tokens.append(token)
        weights.append(looked)
    model.train(was_training)
    return torch.cat(tokens, 1), None if weights[0] is None else torch.cat(weights, 1)
