"""Models as single files: weights, sizes, tokenizer and card in one safetensors file.

This module is plumbing written by hand. Nothing in such a file is code, and nothing is unpickled.
A file carries the sha256 of its own content, so that one changed or missing byte is noticed, and
is written whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors.torch
import tokenizers
import torch
from torch import Tensor, nn

from allyouneed import weights
from allyouneed.checks import (
    check_card,
    check_choice,
    check_kind,
    check_path,
    check_place,
    check_vocabulary,
)
from allyouneed.files import new_file
from allyouneed.tokens import Tokenizer
from allyouneed.transformer import Transformer, TransformerConfig

FORMAT = "allyouneed transformer 1"
LANGUAGE_FORMAT = "allyouneed language model 1"  # of a `families.LanguageModel`
SEAL = '"sha256":"'  # what stands before the sha256 of a file in its header,
UNSEALED = "0" * 64  # and what stands in the place of the sha256 while it is computed
DTYPES = {  # as safetensors names them
    **{torch.float64: "F64", torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"},
    **{torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8"},
    **{torch.uint8: "U8", torch.bool: "BOOL"},
}


class ModelFileError(ValueError):
    """A file is not one of ours, or is damaged; the message says which and what is wrong."""


def write_tensors(
    path: str | Path,
    tensors: dict[str, Tensor],
    metadata: dict[str, str],
    contents: Iterable[Tensor] | None = None,
) -> None:
    """Write tensors and texts as one safetensors file that carries its own sha256.

    The same tensors and texts always make the same file. Tensors go into it one by one, sorted by
    name. Where one cannot be read as it is, `contents` gives them in this order. Raises ValueError
    for a dtype that we do not write.
    """
    check_path(path=path)
    if other := {name: x.dtype for name, x in tensors.items() if x.dtype not in DTYPES}:
        raise ValueError(f"tensors: expected one of {', '.join(map(str, DTYPES))}, got {other}")
    names, end = sorted(tensors), 0
    header: dict[str, Any] = {"__metadata__": {**metadata, "sha256": UNSEALED}}
    for name in names:
        x, begin = tensors[name], end
        end += x.numel() * x.itemsize
        place = {"dtype": DTYPES[x.dtype], "shape": list(x.shape), "data_offsets": [begin, end]}
        header[name] = place
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    text = len(text).to_bytes(8, "little") + text
    seal = hashlib.sha256(text)
    with new_file(path) as file:
        file.write(text)
        for x in contents or (tensors[name] for name in names):
            content = x.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
            seal.update(content)
            file.write(content)
        file.seek(text.index(SEAL.encode()) + len(SEAL))
        file.write(seal.hexdigest().encode())


def read_tensors(path: str | Path, form: str) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Read what `write_tensors` wrote: the texts and the tensors.

    The tensors lie in the file, and fill no memory until they are used. Raises FileNotFoundError
    if there is no such file, ModelFileError if its metadata do not name the format `form`, or if
    it is not, to the last byte, what was written.
    """
    check_path(path=path)
    if not Path(path).is_file():
        raise FileNotFoundError(f"path: expected a file, found none at {path}")
    with open(path, "rb") as file:
        try:
            header = file.read(int.from_bytes(file.read(8), "little"))
            metadata = dict(json.loads(header).get("__metadata__", {}))
        except Exception as error:  # whatever a foreign file may bring about
            told = f"{path}: expected a safetensors file, got another or half"
            raise ModelFileError(told) from error
        if metadata.get("format") != form:
            raise ModelFileError(
                f"{path}: expected {form!r} in its metadata, got {metadata.get('format')!r}"
            )
        at = 8 + header.find(SEAL.encode()) + len(SEAL)
        file.seek(0)
        seal = hashlib.sha256(file.read(at) + UNSEALED.encode())
        file.seek(at + 64)
        hashlib.file_digest(file, lambda: seal)
    if seal.hexdigest() != metadata.get("sha256"):
        raise ModelFileError(f"{path}: damaged: its content is not what was written (sha256)")
    return metadata, safetensors.torch.load_file(path)


def write_model(
    path: str | Path,
    form: str,
    model: nn.Module,
    tokenizer: Tokenizer | None,
    card: dict[str, Any] | None,
    dtype: torch.dtype,
) -> None:
    """Write a model that has a `config` to one file of the format `form`: all of it, or nothing.

    Raises ValueError if the tokenizer has another size than the model's vocabulary, TypeError for
    what is no tokenizer, a card that JSON cannot hold and a dtype that cannot hold weights,
    FloatingPointError for weights that are no finite numbers in it.
    """
    if not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise TypeError(f"dtype: expected a floating-point dtype, got {dtype!r}")
    if tokenizer is not None:
        check_kind(Tokenizer, tokenizer=tokenizer)
        check_vocabulary(model.config.vocab_size, tokenizer=tokenizer)
    check_card(card)
    metadata = {
        "format": form,
        "config": json.dumps(asdict(model.config)),
        "card": json.dumps(card or {}, ensure_ascii=False),
    }
    if tokenizer is not None:
        metadata["tokenizer"] = tokenizer.bpe.to_str()
    tensors = {name: x.to(dtype) for name, x in model.state_dict().items()}
    for name, x in tensors.items():
        if not x.isfinite().all():
            raise FloatingPointError(f"model: expected finite numbers in {dtype}, not so in {name}")
    write_tensors(path, tensors, metadata)


def read_model(
    path: str | Path,
    form: str,
    config_class: type[TransformerConfig],
    model_class: Callable[[Any], nn.Module],
) -> tuple[Any, Tokenizer | None]:
    """Read what `write_model` wrote: the model, in float32 and eval mode; its tokenizer.

    Raises FileNotFoundError if there is no such file, ModelFileError if it holds something else.
    """
    metadata, tensors = read_tensors(path, form)
    try:
        config = config_class(**json.loads(metadata["config"]))
        if config.n_layers > len(tensors):
            raise ValueError(f"{len(tensors)} tensors for {config}")
        with torch.device("meta"):  # asks for no memory, however large the sizes
            model_class(config).load_state_dict({name: x.to("meta") for name, x in tensors.items()})
        model = model_class(config)
        model.load_state_dict(tensors)
        if not all(x.isfinite().all() for x in tensors.values()):
            raise ValueError("weights that are not finite numbers")
        tokenizer = None
        if "tokenizer" in metadata:
            tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(metadata["tokenizer"]))
            if len(tokenizer) != config.vocab_size:
                raise ValueError(f"a tokenizer of {len(tokenizer)} tokens for {config}")
    except Exception as error:  # tokenizers raises plain Exception
        raise ModelFileError(f"{path}: expected a model, got {error}") from error
    return model.eval(), tokenizer


def save_model(
    path: str | Path,
    model: Transformer,
    tokenizer: Tokenizer | None = None,
    card: dict[str, Any] | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write a Transformer to one file: all of it, or nothing.

    `card` is what a user of the model should know; `dtype` is what the weights are stored in, and
    bfloat16 halves the file. Raises as `write_model` does, and TypeError for another model: one of
    text is saved by `save_language_model`.
    """
    check_kind(Transformer, model=model)
    write_model(path, FORMAT, model, tokenizer, card, dtype)


def load_model(
    path: str | Path, device: str | torch.device = "cpu"
) -> tuple[Transformer, Tokenizer | None]:
    """Read what `save_model` wrote: the model, in float32 and eval mode, and its tokenizer.

    Raises FileNotFoundError if there is no such file, ModelFileError if it holds something else,
    ValueError for a device that this machine has not.
    """
    check_place(device)
    model, tokenizer = read_model(path, FORMAT, TransformerConfig, Transformer)
    return model.to(device), tokenizer


def model_card(path: str | Path, form: str = FORMAT) -> dict[str, Any]:
    """What a user of the model should know. Raises as `load_model` does."""
    return json.loads(read_tensors(path, form)[0]["card"])


def pretrained(name: str, device: str | torch.device = "cpu") -> tuple[Transformer, Tokenizer]:
    """A model that ships with the package, in eval mode, and its tokenizer.

    `name`: "multi30k-en-de" (captions, English to German; for non-commercial use, as its data) or
    "tatoeba-en-fr" (everyday sentences, English to French).
    Raises ValueError for another name.
    """
    check_choice(sorted(p.stem for p in weights.FOLDER.glob("*-*-*.safetensors")), name=name)
    return load_model(weights.path(f"{name}.safetensors"), device)
