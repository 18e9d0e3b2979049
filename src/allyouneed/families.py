"""GPT and BERT: the encoder's layer with another mask and another loss."""

# Made from notebooks/16_families.ipynb by `make export`: edit the notebook, not this file.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from allyouneed.decoding import narrowed, reading
from allyouneed.masks import causal_mask
from allyouneed.multihead import MultiHeadAttention
from allyouneed.positions import LearnedPositions
from allyouneed.sublayers import FeedForward, LayerNorm
from allyouneed.tokens import EOS, UNK, Tokenizer
from allyouneed.transformer import EncoderLayer, TransformerConfig, check_tokens

__all__ = [
    "ACTIVATIONS",
    "GPT2",
    "BERT",
    "LanguageModelConfig",
    "LanguageLayer",
    "LanguageModel",
    "encode_text",
    "decode_text",
    "mask_tokens",
    "write",
]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}


@dataclass(frozen=True)
class LanguageModelConfig(TransformerConfig):
    """The sizes of a language model, and the choices by which GPT and BERT differ.

    `causal`: each position may attend to those up to it; else to all. `norm_first`: LayerNorm
    before each sub-layer and once more at the end; else after each, and once before the first.
    `activation`: a key of `ACTIVATIONS`. `n_segments`: kinds of segment, 0 for no segment
    embeddings. `transform`: one more layer, and a bias for each token, before the logits. `eps`:
    that of every LayerNorm. The defaults are GPT-2's (Radford et al. 2019, the smallest).
    Raises TypeError or ValueError as `TransformerConfig` does, and for other activations.
    """

    vocab_size: int = 50_257
    d_model: int = 768
    d_ff: int = 3072
    n_heads: int = 12
    n_layers: int = 12
    norm_first: bool = True
    max_length: int = 1024
    causal: bool = True
    activation: str = "gelu_tanh"
    attention_dropout: float = 0.1
    n_segments: int = 0
    transform: bool = False
    eps: float = 1e-5

    def __post_init__(self):
        super().__post_init__()
        for name, least in (("max_length", 1), ("n_segments", 0)):
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool):
                raise TypeError(f"{name}: expected an integer, got {size!r}")
            if size < least:
                raise ValueError(f"{name}: expected at least {least}, got {size}")
        if self.activation not in ACTIVATIONS:
            raise ValueError(
                f"activation: expected one of {', '.join(ACTIVATIONS)}, got {self.activation!r}"
            )
        if not 0 <= self.attention_dropout < 1:
            raise ValueError(
                f"attention_dropout: expected a probability below 1, got {self.attention_dropout}"
            )
        if not self.eps > 0:
            raise ValueError(f"eps: expected a number above 0, got {self.eps}")


GPT2 = LanguageModelConfig()
BERT = LanguageModelConfig(
    vocab_size=30_522,
    norm_first=False,
    max_length=512,
    causal=False,
    activation="gelu",
    n_segments=2,
    transform=True,
    eps=1e-12,
)


class LanguageLayer(EncoderLayer):
    """An encoder layer with two parts exchanged, so that they have biases and any activation."""

    def __init__(self, config: LanguageModelConfig):
        super().__init__(config)
        self.self_attention = MultiHeadAttention(
            config.d_model, config.n_heads, config.attention_dropout, bias=True
        )
        self.feed_forward = FeedForward(config.d_model, config.d_ff, ACTIVATIONS[config.activation])


class LanguageModel(nn.Module):
    """A stack of encoder layers that gives logits for tokens: GPT, BERT, and what lies between.

    With `config.causal` the logits at each position are for the next token, as in GPT (Radford et
    al. 2018, 2019); without, for the token at this place itself, as in BERT (Devlin et al. 2019).
    The same weights fit both. Embeddings and logits share one matrix.
    Raises TypeError unless config is a LanguageModelConfig.
    """

    def __init__(self, config: LanguageModelConfig):
        super().__init__()
        if not isinstance(config, LanguageModelConfig):
            raise TypeError(f"config: expected a LanguageModelConfig, got {type(config).__name__}")
        self.config, d_model = config, config.d_model
        self.embedding = nn.Embedding(config.vocab_size, d_model)
        self.positions = LearnedPositions(d_model, config.max_length)
        self.segments = nn.Embedding(config.n_segments, d_model) if config.n_segments else None
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(LanguageLayer(config) for _ in range(config.n_layers))
        self.norm = LayerNorm(d_model)  # behind the layers, or in front of them with post-norm
        if config.transform:
            self.transform = nn.Linear(d_model, d_model)
            self.transform_norm = LayerNorm(d_model)
            self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=0.02)
            if isinstance(part, nn.Linear):
                nn.init.zeros_(part.bias)
            if isinstance(part, LayerNorm):
                part.eps = config.eps
        nn.init.normal_(self.positions.table, std=0.02)

    def embed(
        self, tokens: Int[Tensor, "B T"], segments: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T D"]:
        """What goes into the first layer: token, position and, where there are any, segment."""
        x = self.embedding(tokens)
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(tokens) if segments is None else segments)
        x = self.positions(x)
        return self.dropout(x if self.config.norm_first else self.norm(x))

    def states(
        self,
        tokens: Int[Tensor, "B T"],
        mask: Tensor | None = None,
        segments: Int[Tensor, "B T"] | None = None,
        maps: list[Tensor] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """What the last layer says at each position.

        `mask`: boolean, True = may attend, of shape (T, T) or one that broadcasts to (B, H, T, T),
        such as `padding_mask` makes; what `config.causal` hides is hidden as well. If `maps` is a
        list, the weights of all heads are added to it, layer after layer.
        Raises TypeError or ValueError for tokens or segments that do not fit.
        """
        check_tokens("tokens", tokens, self.config.vocab_size)
        if (length := tokens.shape[1]) > self.config.max_length:
            raise ValueError(
                f"tokens: expected at most max_length = {self.config.max_length}, got {length}"
            )
        if segments is not None:
            check_tokens("segments", segments, self.config.n_segments)
            if segments.shape != tokens.shape:
                raise ValueError(
                    f"segments: expected shape {tuple(tokens.shape)}, got {tuple(segments.shape)}"
                )
        if self.config.causal:
            own = causal_mask(length, tokens.device)
            mask = own if mask is None else mask & own
        x = self.embed(tokens, segments)
        for layer in self.layers:
            x = layer(x, mask, maps)
        return self.norm(x) if self.config.norm_first else x

    def logits(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... V"]:
        """From states to what softmax makes probabilities of."""
        if not self.config.transform:
            return F.linear(x, self.embedding.weight)
        x = self.transform_norm(ACTIVATIONS[self.config.activation](self.transform(x)))
        return F.linear(x, self.embedding.weight, self.bias)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        mask: Tensor | None = None,
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """The logits at each position; arguments as in `states`."""
        return self.logits(self.states(tokens, mask, segments))


def encode_text(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text whose words are parted by spaces: EOS ends each line, <unk> is UNK."""
    ids = []
    for line in text.split("\n"):
        for unknown, words in groupby(line.split(), key=lambda word: word == "<unk>"):
            words = list(words)
            ids += [UNK] * len(words) if unknown else tokenizer.encode(" ".join(words))
        ids.append(EOS)
    return ids


def decode_text(tokenizer: Tokenizer, ids: list[int] | Int[Tensor, " T"]) -> str:
    """The text of ids, as `encode_text` read it; other special tokens are shown as well."""
    pieces = (
        " " + t if t[0] == "<" and t[-1] == ">" else t
        for t in (tokenizer.bpe.id_to_token(int(i)) for i in ids)
    )
    lines = "".join(pieces).replace(" <eos>", "\n").replace("▁", " ").split("\n")
    return "\n".join(line.strip() for line in lines)


def mask_tokens(
    tokens: Int[Tensor, "B T"],
    maskable: Bool[Tensor, "B T"],
    mask_token: int,
    vocab_size: int,
    share: float = 0.15,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """Spoil some tokens for a model to restore: Devlin et al. (2019), section 3.1.

    Each token that is `maskable` is chosen with probability `share`. Of the chosen, 80 in 100
    become the mask token, 10 a token drawn from the whole vocabulary, and 10 stay as they are.
    Returns the spoilt tokens, and which were chosen: the loss counts these, and no others.
    Raises ValueError for a share that is not in (0, 1] or for shapes that differ.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share: expected a number above 0, up to 1, got {share}")
    if maskable.shape != tokens.shape:
        raise ValueError(
            f"maskable: expected shape {tuple(tokens.shape)}, got {tuple(maskable.shape)}"
        )
    where = {"device": tokens.device, "generator": generator}
    chosen = (torch.rand(tokens.shape, **where) < share) & maskable
    what = torch.rand(tokens.shape, **where)
    random = torch.randint(vocab_size, tokens.shape, dtype=tokens.dtype, **where)
    spoilt = tokens.masked_fill(chosen & (what < 0.8), mask_token)
    return torch.where(chosen & (what >= 0.9), random, spoilt), chosen


def write(
    model: LanguageModel,
    tokens: Int[Tensor, "B T"],
    count: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "B T+count"]:
    """Append `count` tokens, each drawn from the model's probabilities, narrowed by `narrowed`.

    A temperature of 0 takes the likeliest. When there are more than max_length tokens, the model
    reads the last max_length of them. Everything is computed anew for each token; chapter 13's
    cache would spare that.
    Raises ValueError for a model that is not causal, a count below 0, or settings out of range.
    """
    if not model.config.causal:
        raise ValueError("model: expected a causal one; a bidirectional one has no next token")
    if count < 0:
        raise ValueError(f"count: expected at least 0, got {count}")
    if not temperature >= 0:
        raise ValueError(f"temperature: expected at least 0, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k: expected at least 1, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p: expected a probability above 0, got {top_p}")
    with reading(model):
        for _ in range(count):
            logits = model.logits(model.states(tokens[:, -model.config.max_length :])[:, -1])
            if temperature == 0:
                new = logits.argmax(-1, keepdim=True)
            else:
                p = narrowed(logits, temperature, top_k, top_p).softmax(-1)
                new = p.multinomial(1, generator=generator)
            tokens = torch.cat([tokens, new], dim=1)
    return tokens
