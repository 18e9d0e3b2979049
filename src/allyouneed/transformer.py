"""The Transformer of Vaswani et al. (2017): encoder, decoder, and the whole machine."""

# Made from notebooks/11_transformer.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

import math
from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from allyouneed.checks import check_decoding, check_kind, check_machine, check_tokens
from allyouneed.masks import causal_mask, padding_mask
from allyouneed.multihead import MultiHeadAttention
from allyouneed.positions import SinusoidalPositions
from allyouneed.sublayers import FeedForward, LayerNorm, Residual
from allyouneed.tokens import PAD

__all__ = [
    "BASE",
    "BIG",
    "TransformerConfig",
    "attend_to",
    "EncoderLayer",
    "Encoder",
    "DecoderLayer",
    "Decoder",
    "AttentionMaps",
    "Transformer",
]


@dataclass(frozen=True)
class TransformerConfig:
    """The sizes of a Transformer, in the paper's Table 3
    d_model, d_ff, h, N and P_drop.

    The defaults are BASE.

    `vocab_size` counts the tokens of one vocabulary for both languages (sections 3.4
    and 5.1). `norm_first` puts LayerNorm before each sub-layer; the paper puts it
    after. Raises TypeError for a size that is not an integer and a norm_first that is
    not a bool; ValueError for a size below 1, for n_heads that do not divide d_model,
    for an odd d_model, and for a dropout that is not a probability below 1.
    """

    vocab_size: int = 37_000
    d_model: int = 512
    d_ff: int = 2048
    n_heads: int = 8
    n_layers: int = 6
    dropout: float = 0.1
    norm_first: bool = False

    def __post_init__(self):
        check_machine(self)


BASE = TransformerConfig()
BIG = TransformerConfig(d_model=1024, d_ff=4096, n_heads=16, dropout=0.3)


def attend_to(
    attention: MultiHeadAttention,
    x: Float[Tensor, "B T D"],
    memory: Float[Tensor, "B S D"],
    mask: Tensor | None,
    maps: list[Tensor] | None,
) -> Float[Tensor, "B T D"]:
    """Let x ask memory; if `maps` is a list, add the weights of all
    heads, (B, H, T, S), to it."""
    if maps is None:
        return attention(x, memory, memory, mask)
    y, weights = attention(x, memory, memory, mask, return_weights=True)
    maps.append(weights)
    return y


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each in a residual: figure 1, left half."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        d_model, dropout, norm_first = config.d_model, config.dropout, config.norm_first
        self.self_attention = MultiHeadAttention(d_model, config.n_heads)
        self.feed_forward = FeedForward(d_model, config.d_ff)
        self.residuals = nn.ModuleList(
            Residual(d_model, dropout, norm_first) for _ in range(2)
        )

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        src_mask: Tensor | None = None,
        maps: list[Tensor] | None = None,
    ) -> Float[Tensor, "B S D"]:
        """`src_mask`: which source positions may be attended to,
        broadcastable to (B, H, S, S)."""
        x = self.residuals[0](
            x, lambda x: attend_to(self.self_attention, x, x, src_mask, maps)
        )
        return self.residuals[1](x, self.feed_forward)


class Encoder(nn.Module):
    """A stack of N encoder layers (section 3.1); with pre-norm, one
    more LayerNorm at its end."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderLayer(config) for _ in range(config.n_layers)
        )
        self.norm = LayerNorm(config.d_model) if config.norm_first else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        src_mask: Tensor | None = None,
        maps: list[Tensor] | None = None,
    ) -> Float[Tensor, "B S D"]:
        """From the embedded source to the memory; masks and maps
        as in `EncoderLayer`."""
        for layer in self.layers:
            x = layer(x, src_mask, maps)
        return self.norm(x)


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention to the memory,
    feed-forward: figure 1, right half."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        d_model, dropout, norm_first = config.d_model, config.dropout, config.norm_first
        self.self_attention = MultiHeadAttention(d_model, config.n_heads)
        self.cross_attention = MultiHeadAttention(d_model, config.n_heads)
        self.feed_forward = FeedForward(d_model, config.d_ff)
        self.residuals = nn.ModuleList(
            Residual(d_model, dropout, norm_first) for _ in range(3)
        )

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"],
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        self_maps: list[Tensor] | None = None,
        cross_maps: list[Tensor] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """`tgt_mask`, for self-attention, broadcasts to (B, H, T, T); `src_mask`, for
        cross-attention, to (B, H, T, S)."""
        own, cross = self.self_attention, self.cross_attention
        x = self.residuals[0](x, lambda x: attend_to(own, x, x, tgt_mask, self_maps))
        x = self.residuals[1](
            x, lambda x: attend_to(cross, x, memory, src_mask, cross_maps)
        )
        return self.residuals[2](x, self.feed_forward)


class Decoder(nn.Module):
    """A stack of N decoder layers (section 3.1); with pre-norm, one
    more LayerNorm at its end."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(config) for _ in range(config.n_layers)
        )
        self.norm = LayerNorm(config.d_model) if config.norm_first else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"],
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        self_maps: list[Tensor] | None = None,
        cross_maps: list[Tensor] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """From the embedded target to the states that predict; as in `DecoderLayer`."""
        for layer in self.layers:
            x = layer(x, memory, src_mask, tgt_mask, self_maps, cross_maps)
        return self.norm(x)


@dataclass(frozen=True)
class AttentionMaps:
    """The attention weights of every head, one tensor per layer, lowest layer first."""

    encoder: list[Float[Tensor, "B H S S"]]
    decoder: list[Float[Tensor, "B H T T"]]
    cross: list[Float[Tensor, "B H T S"]]


class Transformer(nn.Module):
    """The whole machine: Vaswani et al. (2017), section 3 and figure 1.

    One matrix, `embedding`, embeds source and target tokens and gives the logits
    (section 3.4). Raises TypeError unless config is a TransformerConfig.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        check_kind(TransformerConfig, config=config)
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = SinusoidalPositions(config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)

    def embed(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Dropout(sqrt(d_model) E[token] + PE[position]): sections 3.4, 3.5 and 5.4.

        In the type of the layers' weights, which is another in half precision.
        """
        x = self.embedding(tokens) * math.sqrt(self.config.d_model)
        x = self.dropout(self.positions(x))
        return x.to(next(self.encoder.parameters()).dtype)

    def encode(
        self, src: Int[Tensor, "B S"], maps: list[Tensor] | None = None
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B 1 1 S"]]:
        """The memory of source tokens, and the mask that hides their padding."""
        check_tokens("src", src, self.config.vocab_size, self.embedding.weight.device)
        src_mask = padding_mask(src, PAD)
        return self.encoder(self.embed(src), src_mask, maps), src_mask

    def decode(
        self,
        tgt: Int[Tensor, "B T"],
        memory: Float[Tensor, "B S D"],
        src_mask: Bool[Tensor, "B 1 1 S"] | None,
        self_maps: list[Tensor] | None = None,
        cross_maps: list[Tensor] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """The states from which each next target token is
        predicted, given those up to it.

        `memory` and `src_mask` are what `encode` gives; None hides nothing. Raises
        TypeError or ValueError for tokens, a memory or a mask that do not fit.
        """
        check_tokens("tgt", tgt, self.config.vocab_size, self.embedding.weight.device)
        check_decoding(tgt, memory, src_mask)
        # padding stands on the right of every token: hidden with the future
        tgt_mask = causal_mask(tgt.shape[1], tgt.device)
        return self.decoder(
            self.embed(tgt), memory, src_mask, tgt_mask, self_maps, cross_maps
        )

    def states(
        self,
        src: Int[Tensor, "B S"],
        tgt: Int[Tensor, "B T"],
        maps: AttentionMaps | None = None,
    ) -> Float[Tensor, "B T D"]:
        """What the logits are made of: `decode` after `encode`.

        Adds the attention weights of all heads to `maps`.
        """
        memory, src_mask = self.encode(src, maps and maps.encoder)
        return self.decode(
            tgt, memory, src_mask, maps and maps.decoder, maps and maps.cross
        )

    def logits(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """The states times the embedding matrix: what softmax
        makes probabilities of."""
        return F.linear(x, self.embedding.weight)

    def forward(
        self,
        src: Int[Tensor, "B S"],
        tgt: Int[Tensor, "B T"],
        return_weights: bool = False,
    ) -> Float[Tensor, "B T V"] | tuple[Float[Tensor, "B T V"], AttentionMaps]:
        """The logits of the token that follows each target token.

        `src` ends in EOS, `tgt` begins with BOS; padding stands on the right.

        Returns the logits, and if asked for the attention weights of all layers and
        heads. Raises TypeError unless the tokens are integers, ValueError for other
        axes than (B, length), for ids outside of the vocabulary (on the CPU) and for
        another number of sentences.
        """
        maps = AttentionMaps([], [], []) if return_weights else None
        logits = self.logits(self.states(src, tgt, maps))
        return (logits, maps) if maps else logits
