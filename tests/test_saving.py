"""Models as files: what comes back, and what is said about files that are not ours."""

from __future__ import annotations

import filecmp
import json
import os
import pickle

import pytest
import safetensors.torch
import torch

from allyouneed import saving
from allyouneed.saving import (
    ModelFileError,
    load_model,
    model_card,
    pretrained,
    save_model,
)
from allyouneed.tokens import Tokenizer
from allyouneed.transformer import Transformer, TransformerConfig

TEXT = ['Ein "Mann" reitet.', "Größe & 😀 \\ {}", "sha256 000"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXT, 60)


def model_of(size: int, **options) -> Transformer:
    torch.manual_seed(0)
    return Transformer(TransformerConfig(size, 8, 8, 2, 1, **options))


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "dropout": 0.3}])
def test_round_trip(tmp_path, tokenizer, options):
    model = model_of(len(tokenizer), **options)
    card = {"BLEU": 41.0, "data": 'captions "ä"'}
    save_model(tmp_path / "m", model, tokenizer, card)
    again, same = load_model(tmp_path / "m")
    assert again.config == model.config and not again.training
    for name, x in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], x)
    assert same.bpe.to_str() == tokenizer.bpe.to_str()
    assert [same.encode(s) for s in TEXT] == [tokenizer.encode(s) for s in TEXT]
    assert model_card(tmp_path / "m") == card
    assert os.listdir(tmp_path) == ["m"]  # nothing half written is left


def test_other_readers_can_read_it(tmp_path, tokenizer):
    save_model(tmp_path / "m", model_of(len(tokenizer)), tokenizer)
    with safetensors.safe_open(str(tmp_path / "m"), "pt") as file:
        assert json.loads(file.metadata()["config"])["d_model"] == 8
        assert file.get_tensor("embedding.weight").shape == (len(tokenizer), 8)


def test_same_model_same_file(tmp_path, tokenizer):
    for name in "ab":
        save_model(tmp_path / name, model_of(len(tokenizer)), tokenizer, {"x": 1})
    assert filecmp.cmp(tmp_path / "a", tmp_path / "b", shallow=False)


def test_every_dtype_comes_back(tmp_path):
    """Side by side, and of odd sizes, so that they begin anywhere in the file."""
    tensors = {str(dtype): (torch.randn(3, 1) * 9).to(dtype) for dtype in saving.DTYPES}
    tensors["turned"], tensors["empty"] = torch.randn(2, 3).T, torch.empty(0)
    saving.write_tensors(tmp_path / "x", tensors, {"format": "f"})
    back = saving.read_tensors(tmp_path / "x", "f")[1]
    assert back.keys() == tensors.keys() and len(back) == 12
    for name, x in tensors.items():
        assert back[name].dtype == x.dtype and torch.equal(back[name], x), name
    with pytest.raises(ValueError, match="tensors: expected .* got .*complex64"):
        saving.write_tensors(tmp_path / "y", {"z": torch.randn(2, dtype=torch.complex64)}, {})
    assert not (tmp_path / "y").exists()


def test_half_precision_halves_the_file(tmp_path):
    model = model_of(5000)
    save_model(tmp_path / "32", model)
    save_model(tmp_path / "16", model, dtype=torch.bfloat16)
    sizes = [(tmp_path / name).stat().st_size for name in ("32", "16")]
    assert sizes[1] < 0.55 * sizes[0]
    again, tokenizer = load_model(tmp_path / "16")
    assert tokenizer is None and again.embedding.weight.dtype == torch.float32
    torch.testing.assert_close(again.embedding.weight, model.embedding.weight, rtol=0.01, atol=0)


def test_weights_are_no_integers(tmp_path):
    with pytest.raises(TypeError, match="dtype: expected a floating-point dtype, got torch.int8"):
        save_model(tmp_path / "m", model_of(99), dtype=torch.int8)
    assert not (tmp_path / "m").exists()


def test_weights_are_finite(tmp_path, monkeypatch):
    model, file = model_of(9), tmp_path / "model.safetensors"
    with torch.no_grad():
        model.encoder.layers[0].feed_forward.w_1.weight[0, 0] = 1e6
    save_model(file, model)
    with pytest.raises(FloatingPointError, match=r"model: expected finite .*float16.*w_1"):
        save_model(file, model, dtype=torch.float16)
    assert load_model(file)[0]
    write_tensors = saving.write_tensors

    def spoiled(path, tensors, metadata):
        write_tensors(path, {k: x * float("nan") for k, x in tensors.items()}, metadata)

    monkeypatch.setattr(saving, "write_tensors", spoiled)
    save_model(file, model)
    with pytest.raises(ModelFileError, match="not finite"):
        load_model(file)


def test_wrong_tokenizer(tmp_path, tokenizer):
    with pytest.raises(ValueError, match="tokenizer: expected 99 tokens"):
        save_model(tmp_path / "m", model_of(99), tokenizer)
    save_model(tmp_path / "m", model_of(99))
    metadata, tensors = saving.read_tensors(tmp_path / "m", saving.FORMAT)
    del metadata["sha256"]
    metadata["tokenizer"] = tokenizer.bpe.to_str()
    saving.write_tensors(tmp_path / "m", tensors, metadata)
    with pytest.raises(ModelFileError, match="tokenizer"):
        load_model(tmp_path / "m")


@pytest.mark.parametrize("size", ["n_layers", "vocab_size", "d_ff"])
def test_sizes_that_the_weights_do_not_have(tmp_path, size):
    """They are found without a model of ten million layers, or of a petabyte."""
    save_model(tmp_path / "m", model_of(99))
    metadata, tensors = saving.read_tensors(tmp_path / "m", saving.FORMAT)
    del metadata["sha256"]
    sizes = json.loads(metadata["config"])
    metadata["config"] = json.dumps(sizes | {size: 10**7 if size == "n_layers" else 10**12})
    saving.write_tensors(tmp_path / "m", tensors, metadata)
    with pytest.raises(ModelFileError, match="m: expected a model, got (?s:.*)1000000"):
        load_model(tmp_path / "m")


def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path, tokenizer):
    file = tmp_path / "m"
    save_model(file, model_of(len(tokenizer)), tokenizer)
    whole = file.read_bytes()
    places = [*range(0, 40), *range(40, len(whole), 97), len(whole) - 1]
    for place in places:
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ModelFileError, match="m: "):
            load_model(file)
    for length in (0, 7, 8, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match="m: "):
            load_model(file)
    file.write_bytes(whole + b"\0")
    with pytest.raises(ModelFileError, match="m: "):
        load_model(file)


def test_foreign_files(tmp_path):
    file = tmp_path / "m"
    with pytest.raises(FileNotFoundError, match="found none at"):
        load_model(file)
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path)
    bomb = pickle.dumps({"a": 1})
    strange = [b"", b"hello", bomb, b"\xff" * 99, safetensors.torch.save({"x": torch.ones(2)})]
    strange += [b"\x02" + b"\0" * 7 + b"[]", b"\x13" + b"\0" * 7 + b'{"__metadata__": 5}']
    for content in strange:
        file.write_bytes(content)
        with pytest.raises(ModelFileError, match="m: expected"):
            load_model(file)


def test_pretrained_names():
    with pytest.raises(ValueError, match="name: expected .* got 'klingon'"):
        pretrained("klingon")
