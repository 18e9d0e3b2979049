"""Models as single files: weights, sizes, tokenizer and card in one safetensors file.

This module is plumbing written by hand. Nothing in such a file is code, and nothing is unpickled.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import tokenizers
import torch

from allyouneed import weights
from allyouneed.tokens import Tokenizer
from allyouneed.transformer import Transformer, TransformerConfig

FORMAT = "allyouneed transformer 1"


class ModelFileError(ValueError):
    """A file is not a model of ours, or is damaged; the message says which and what to do."""


def save_model(
    path: str | Path,
    model: Transformer,
    tokenizer: Tokenizer | None = None,
    card: dict[str, Any] | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write a model to one file: all of it, or nothing.

    `card` is what a user of the model should know; `dtype` is what the weights are stored in, and
    bfloat16 halves the file. Raises ValueError if the tokenizer has another size than the model's
    vocabulary.
    """
    if tokenizer is not None and len(tokenizer) != model.config.vocab_size:
        raise ValueError(
            f"tokenizer: expected {model.config.vocab_size} tokens as the model has, "
            f"got {len(tokenizer)}"
        )
    metadata = {
        "format": FORMAT,
        "config": json.dumps(asdict(model.config)),
        "card": json.dumps(card or {}, ensure_ascii=False),
    }
    if tokenizer is not None:
        metadata["tokenizer"] = tokenizer.bpe.to_str()
    tensors = {k: v.detach().to("cpu", dtype).contiguous() for k, v in model.state_dict().items()}
    path = Path(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            file.write(safetensors.torch.save(tensors, metadata))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def load_model(
    path: str | Path, device: str | torch.device = "cpu"
) -> tuple[Transformer, Tokenizer | None]:
    """Read what `save_model` wrote: the model, in float32 and eval mode, and its tokenizer.

    Raises FileNotFoundError if there is no such file, ModelFileError if it holds something else.
    """
    metadata, tensors = _read(path)
    try:
        model = Transformer(TransformerConfig(**json.loads(metadata["config"])))
        model.load_state_dict(tensors)
        tokenizer = None
        if "tokenizer" in metadata:
            tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(metadata["tokenizer"]))
    except Exception as error:  # tokenizers raises plain Exception
        raise ModelFileError(
            f"{path}: expected a whole model, got a damaged one ({error})"
        ) from error
    return model.to(device).eval(), tokenizer


def model_card(path: str | Path) -> dict[str, Any]:
    """What a user of the model should know. Raises as `load_model` does."""
    return json.loads(_read(path)[0]["card"])


def pretrained(name: str, device: str | torch.device = "cpu") -> tuple[Transformer, Tokenizer]:
    """A model that ships with the package, in eval mode, and its tokenizer.

    `name`: "multi30k-en-de" (captions, English to German; for non-commercial use, as its data) or
    "tatoeba-en-fr" (everyday sentences, English to French).
    Raises ValueError for another name.
    """
    names = sorted(p.stem for p in weights.FOLDER.glob("*-*-*.safetensors"))
    if name not in names:
        raise ValueError(f"name: expected one of {', '.join(map(repr, names))}, got {name!r}")
    return load_model(weights.path(f"{name}.safetensors"), device)


def _read(path: str | Path) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    if not Path(path).is_file():
        raise FileNotFoundError(f"path: expected a model file, found none at {path}")
    try:
        with safetensors.safe_open(str(path), "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except Exception as error:
        raise ModelFileError(f"{path}: expected a safetensors file, got {error}") from error
    if metadata.get("format") != FORMAT:
        raise ModelFileError(
            f"{path}: expected {FORMAT!r} in its metadata, got {metadata.get('format')!r}"
        )
    return metadata, tensors
