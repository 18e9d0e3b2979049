"""The language models: parity with transformers, masks, bad input, files."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import subprocess
from pathlib import Path

import pytest
import safetensors.torch
import tokenizers
import torch
from beside import python_with
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from allyouneed import published, saving, sources, weights
from allyouneed.data import load_published
from allyouneed.families import (
    BERT,
    GPT2,
    LanguageLayer,
    LanguageModel,
    LanguageModelConfig,
    decode_text,
    encode_text,
    from_bert,
    from_gpt2,
    generate,
    load_bert,
    load_gpt2,
    load_language_model,
    load_minilm,
    mask_tokens,
    save_language_model,
)
from allyouneed.masks import causal_mask, padding_mask
from allyouneed.saving import ModelFileError
from allyouneed.sources import DataError
from allyouneed.sublayers import FeedForward
from allyouneed.tokens import EOS, PAD, UNK, Tokenizer
from allyouneed.transformer import EncoderLayer

SMALL = LanguageModelConfig(
    vocab_size=40, d_model=16, d_ff=24, n_heads=4, n_layers=2, max_length=12, dropout=0.1
)
replace = dataclasses.replace


def model_of(config: LanguageModelConfig = SMALL, seed: int = 0) -> LanguageModel:
    torch.manual_seed(seed)
    model = LanguageModel(config).eval()
    for p in model.parameters():  # so that gammas, betas and biases matter
        p.data += 0.1 * torch.randn_like(p)
    return model


def ids(b: int = 2, t: int = 7, v: int = 40, seed: int = 0) -> torch.Tensor:
    return torch.randint(v, (b, t), generator=torch.Generator().manual_seed(seed))


def shaken(model, seed: int):
    g = torch.Generator().manual_seed(seed)
    for p in model.parameters():
        p.data += 0.1 * torch.randn(p.shape, generator=g)
    return model.eval()


# Parity with transformers


def their_gpt2(seed=0, **changes):
    transformers = pytest.importorskip("transformers")
    sizes = dict(vocab_size=40, n_embd=24, n_layer=2, n_head=4, n_positions=16)
    config = transformers.GPT2Config(
        **{**sizes, **changes}, bos_token_id=None, eos_token_id=None, tie_word_embeddings=True
    )
    return shaken(transformers.GPT2LMHeadModel(config), seed)


def their_bert(seed=0, **changes):
    transformers = pytest.importorskip("transformers")
    sizes = dict(
        vocab_size=40,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=16,
    )
    return shaken(
        transformers.BertForMaskedLM(transformers.BertConfig(**{**sizes, **changes})), seed
    )


ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu": "gelu", "relu": "relu"}
GPT2_SIZES = [
    {},
    {"n_head": 1, "n_layer": 1, "n_embd": 10},
    {"n_head": 3, "n_layer": 4, "n_inner": 30, "activation_function": "gelu"},
    {"vocab_size": 77, "n_positions": 9, "activation_function": "relu", "layer_norm_epsilon": 1e-3},
]
BERT_SIZES = [
    {},
    {"num_attention_heads": 1, "num_hidden_layers": 1, "hidden_size": 10},
    {"num_hidden_layers": 4, "intermediate_size": 24, "hidden_act": "relu"},
    {"vocab_size": 77, "type_vocab_size": 3, "layer_norm_eps": 1e-3, "hidden_act": "gelu_new"},
]
REAL = {  # True = a token, in rows of 7
    "none": [[1] * 7] * 3,
    "right": [[1] * 7, [1, 1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0]],
    "left": [[1] * 7, [0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1]],
    "holes": [[1, 0, 1, 1, 0, 1, 1], [1] * 7, [0, 1, 0, 1, 0, 1, 0]],
}


def ours_of_gpt2(theirs):
    config = replace(
        GPT2,
        activation=ACTIVATIONS[theirs.config.activation_function],
        eps=theirs.config.layer_norm_epsilon,
    )
    return from_gpt2(theirs.state_dict(), theirs.config.n_head, config)


def ours_of_bert(theirs):
    config = replace(
        BERT,
        activation=ACTIVATIONS[theirs.config.hidden_act],
        eps=theirs.config.layer_norm_eps,
    )
    return from_bert(theirs.state_dict(), theirs.config.num_attention_heads, config)


@pytest.mark.parametrize("padding", REAL)
@pytest.mark.parametrize("changes", GPT2_SIZES, ids=range(len(GPT2_SIZES)))
def test_same_logits_as_gpt2(changes, padding):
    theirs = their_gpt2(**changes)
    ours = ours_of_gpt2(theirs)
    tokens = ids(3, 7, theirs.config.vocab_size)
    real = torch.tensor(REAL[padding]).bool()
    with torch.no_grad():
        expected = theirs(tokens, attention_mask=real.long()).logits
        found = ours(tokens, real[:, None, None])
    torch.testing.assert_close(found[real], expected[real], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("padding", REAL)
@pytest.mark.parametrize("changes", BERT_SIZES, ids=range(len(BERT_SIZES)))
def test_same_logits_as_bert(changes, padding):
    theirs = their_bert(**changes)
    ours = ours_of_bert(theirs)
    tokens = ids(3, 7, theirs.config.vocab_size)
    segments = ids(3, 7, theirs.config.type_vocab_size, seed=1)
    real = torch.tensor(REAL[padding]).bool()
    with torch.no_grad():
        expected = theirs(tokens, attention_mask=real.long(), token_type_ids=segments).logits
        found = ours(tokens, real[:, None, None], segments)
        assert torch.equal(
            ours(tokens, real[:, None, None]),
            ours(tokens, real[:, None, None], torch.zeros_like(tokens)),
        )
    torch.testing.assert_close(found[real], expected[real], rtol=1e-4, atol=1e-5)


def test_same_gradients_as_gpt2():
    theirs = their_gpt2()
    ours = ours_of_gpt2(theirs)
    tokens = ids(3, 7)
    theirs(tokens, labels=tokens).loss.backward()  # the library shifts them itself
    F.cross_entropy(ours(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
    back = from_gpt2({name: p.grad for name, p in theirs.named_parameters()}, 4)
    for (name, p), (_, q) in zip(ours.named_parameters(), back.named_parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.data, rtol=1e-3, atol=1e-6, msg=name)


def test_same_gradients_as_bert():
    theirs = their_bert()
    ours = ours_of_bert(theirs)
    tokens, segments = ids(3, 7).clamp(min=1), ids(3, 7, 2, seed=1)  # theirs does not learn id 0
    chosen = ids(3, 7, 2, seed=2).bool()
    labels = tokens.masked_fill(~chosen, -100)
    theirs(tokens, token_type_ids=segments, labels=labels).loss.backward()
    F.cross_entropy(ours(tokens, segments=segments)[chosen], tokens[chosen]).backward()
    back = from_bert({name: p.grad for name, p in theirs.named_parameters()}, 4)
    for (name, p), (_, q) in zip(ours.named_parameters(), back.named_parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.data, rtol=1e-3, atol=1e-6, msg=name)


def test_old_names():
    """As published: GPT-2 without a prefix, BERT with gamma and beta; both with parts unused."""
    theirs = their_gpt2()
    state = {n.removeprefix("transformer."): x for n, x in theirs.state_dict().items()}
    del state["lm_head.weight"]
    for i in range(2):
        state[f"h.{i}.attn.bias"] = torch.ones(1, 1, 16, 16).tril()
        state[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    tokens = ids()
    torch.testing.assert_close(from_gpt2(state, 4)(tokens), theirs(tokens).logits)
    theirs = their_bert()
    state = {
        n.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): x
        for n, x in theirs.state_dict().items()
    }
    state |= {
        "bert.pooler.dense.weight": torch.ones(24, 24),
        "bert.pooler.dense.bias": torch.ones(24),
    }
    state |= {
        "cls.seq_relationship.weight": torch.ones(2, 24),
        "cls.seq_relationship.bias": torch.ones(2),
    }
    state["bert.embeddings.position_ids"] = torch.arange(16)[None]
    torch.testing.assert_close(from_bert(state, 4)(tokens), theirs(tokens).logits)


def test_other_weights_are_refused():
    state = their_gpt2().state_dict()
    with pytest.raises(ValueError, match="expected lm_head.weight to be equal to"):
        from_gpt2({**state, "lm_head.weight": state["lm_head.weight"] + 1}, 4)
    with pytest.raises(ValueError, match="positions.table"):
        from_gpt2({n: x for n, x in state.items() if "wpe" not in n}, 4)
    with pytest.raises(ValueError, match="Unexpected key"):
        from_gpt2({**state, "transformer.h.0.crossattention.q.weight": torch.ones(2, 2)}, 4)
    with pytest.raises(ValueError, match="n_heads: expected a divisor"):
        from_gpt2(state, 5)
    with pytest.raises(ValueError, match="state: expected"):
        from_bert(state, 4)


def test_published_sizes():
    with torch.device("meta"):
        gpt2, bert = LanguageModel(GPT2), LanguageModel(BERT)
    assert sum(p.numel() for p in gpt2.parameters()) == 124_439_808  # as published
    # 109,482,240 are published for BERT with its pooler (590,592) and without the head for words.
    head = 768 * 768 + 768 + 2 * 768 + 30_522
    assert sum(p.numel() for p in bert.parameters()) == 109_482_240 - 590_592 + head


def test_published_settings():
    """What sizes do not tell is as `transformers` has it."""
    transformers = pytest.importorskip("transformers")
    gpt2, bert = transformers.GPT2Config(), transformers.BertConfig()
    for ours, theirs in (
        (GPT2, (gpt2.resid_pdrop, gpt2.attn_pdrop, gpt2.layer_norm_epsilon)),
        (BERT, (bert.hidden_dropout_prob, bert.attention_probs_dropout_prob, bert.layer_norm_eps)),
    ):
        assert (ours.dropout, ours.attention_dropout, ours.eps) == theirs
    assert GPT2.activation == ACTIVATIONS[gpt2.activation_function]
    assert BERT.activation == ACTIVATIONS[bert.hidden_act]


# Published files


def test_loaders(monkeypatch):
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0}, [])).to_str().encode()
    theirs = {
        "gpt2": their_gpt2(n_embd=24, n_head=12),
        "bert": their_bert(num_attention_heads=12),
    }
    theirs["minilm"] = theirs["bert"].bert  # no more than the states

    def fake(name):
        state = {k: x.clone() for k, x in theirs[name].state_dict().items()}
        return safetensors.torch.save(state), bpe

    monkeypatch.setattr(published, "load_published", fake)
    for load, name in ((load_gpt2, "gpt2"), (load_bert, "bert")):
        model, tokenizer = load()
        assert not model.training and tokenizer.get_vocab_size() == 1
        torch.testing.assert_close(model(ids()), theirs[name](ids()).logits, rtol=1e-4, atol=1e-5)
    model, tokenizer = load_minilm()
    assert not model.training and tokenizer.padding is tokenizer.truncation is None
    expected = theirs["minilm"](ids()).last_hidden_state
    torch.testing.assert_close(model.states(ids()), expected, rtol=1e-4, atol=1e-5)


def test_without_network(monkeypatch, tmp_path):
    def nothing(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(sources, "urlopen", nothing)
    monkeypatch.setenv("ALLYOUNEED_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ALLYOUNEED_DATA", raising=False)
    for load in (load_gpt2, load_bert):
        with pytest.raises(DataError, match="connect to the network"):
            load()
    folder = tmp_path / "here"
    (folder / "gpt2").mkdir(parents=True)
    (folder / "gpt2" / "model.safetensors").write_bytes(b"not this")
    monkeypatch.setenv("ALLYOUNEED_DATA", str(folder))
    with pytest.raises(DataError, match="expected sha256 248dfc39"):
        load_gpt2()
    with pytest.raises(ValueError, match="name: expected one of"):
        load_published("gpt3")


# What the class promises


@pytest.mark.parametrize("norm_first", [True, False])
def test_causal_and_full(norm_first):
    tokens, other = ids(), ids()
    other[:, 4] = (other[:, 4] + 1) % 40
    gpt = model_of(replace(SMALL, norm_first=norm_first))
    bert = model_of(replace(SMALL, norm_first=norm_first, causal=False))
    moved = (gpt(tokens) - gpt(other)).abs().amax((0, 2))
    assert (moved[:4] == 0).all() and (moved[4:] > 0).all()
    assert ((bert(tokens) - bert(other)).abs().amax((0, 2)) > 0).all()
    bert.load_state_dict(gpt.state_dict())
    torch.testing.assert_close(bert(tokens, causal_mask(7)), gpt(tokens))


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 6), st.booleans(), st.integers(0, 99))
def test_padding_changes_nothing(length, causal, seed):
    model = model_of(replace(SMALL, causal=causal))
    tokens = ids(1, length, seed=seed).clamp(min=1)
    padded = F.pad(tokens, (0, 5))
    found = model(padded, padding_mask(padded, PAD))[:, :length]
    torch.testing.assert_close(found, model(tokens), rtol=1e-4, atol=1e-5)


def test_is_an_encoder_layer():
    """With biases of zero and ReLU, the layer is chapter 11's, to the last bit."""
    config = replace(SMALL, activation="relu", attention_dropout=0.0, norm_first=False)
    ours, plain = LanguageLayer(config).eval(), EncoderLayer(config).eval()
    plain.load_state_dict(ours.state_dict(), strict=False)
    for name, p in ours.named_parameters():
        if "self_attention" in name and name.endswith("bias"):
            torch.nn.init.zeros_(p)
    x = torch.randn(2, 5, 16)
    assert torch.equal(ours(x, causal_mask(5)), plain(x, causal_mask(5)))


def test_maps_and_states():
    model, maps = model_of(), []
    states = model.states(ids(), maps=maps)
    assert states.shape == (2, 7, 16) and [m.shape for m in maps] == [(2, 4, 7, 7)] * 2
    assert all((m.triu(1) == 0).all() for m in maps)
    torch.testing.assert_close(model.logits(states), model(ids()))


def test_the_weights_it_starts_with():
    """Of deviation 0.02 (Radford et al. 2018), and no bias. The bounds are six deviations."""
    torch.manual_seed(0)
    model = LanguageModel(
        LanguageModelConfig(500, 64, 256, 4, 1, max_length=80, n_segments=9, transform=True)
    )
    for name, p in model.named_parameters():
        if p.dim() > 1:
            assert float(p.detach().std()) == pytest.approx(0.02, rel=6 / (2 * p.numel()) ** 0.5)
        else:
            assert (p == name.endswith("gamma")).all(), name


def test_dropout_is_where_it_should_be():
    model = LanguageModel(replace(SMALL, dropout=0.5, attention_dropout=0.5))
    assert all(layer.self_attention.dropout == 0.5 for layer in model.layers)
    assert sum(isinstance(part, torch.nn.Dropout) for part in model.modules()) == 1 + 2 * 2
    assert not torch.equal(model(ids()), model(ids()))
    model.eval()
    assert torch.equal(model(ids()), model(ids()))


@pytest.mark.parametrize(
    "change, error, named",
    [
        ({"activation": "swish"}, ValueError, "activation: expected one of relu"),
        ({"max_length": 0}, ValueError, "max_length: expected at least 1"),
        ({"n_segments": -1}, ValueError, "n_segments: expected at least 0"),
        ({"max_length": True}, TypeError, "max_length: expected an integer"),
        ({"attention_dropout": 1.0}, ValueError, "attention_dropout: expected"),
        ({"eps": 0.0}, ValueError, "eps: expected"),
        ({"n_heads": 3}, ValueError, "n_heads: expected a divisor"),
        ({"vocab_size": 0}, ValueError, "vocab_size: expected"),
    ],
)
def test_bad_config(change, error, named):
    with pytest.raises(error, match=named):
        replace(SMALL, **change)


@pytest.mark.parametrize("name, value", [("causal", "no"), ("transform", 1), ("norm_first", None)])
def test_a_switch_is_true_or_false(name, value):
    config = replace(SMALL)
    object.__setattr__(config, name, value)  # jaxtyping, which tests switch on, checks __init__
    with pytest.raises(TypeError, match=f"{name}: expected True or False, got {value!r}"):
        config.__post_init__()


def test_bad_input():
    model, segmented = model_of(), model_of(replace(SMALL, n_segments=2))
    for tokens, error, named in (
        (ids().float(), TypeError, "tokens: expected integer"),
        (ids()[0], ValueError, "tokens: expected shape"),
        (ids() + 40, ValueError, "tokens: expected ids from 0 to 39"),
        (ids(1, 13), ValueError, "tokens: expected at most max_length = 12, got 13"),
    ):
        with pytest.raises(error, match=named):
            # as readers see it: without jaxtyping's checks, which tests switch on
            inspect.unwrap(LanguageModel.states)(model, tokens)
    with pytest.raises(ValueError, match="segments: expected ids from 0 to 1"):
        segmented(ids(), segments=ids() * 0 + 2)
    with pytest.raises(ValueError, match="segments: expected None"):
        model(ids(), segments=ids() * 0)
    with pytest.raises(TypeError, match="config: expected a LanguageModelConfig"):
        inspect.unwrap(LanguageModel.__init__)(LanguageModel.__new__(LanguageModel), "small")


def test_feed_forward_activation():
    torch.manual_seed(0)
    net, x = FeedForward(4, 6, torch.sin), torch.randn(2, 4)
    torch.testing.assert_close(net(x), net.w_2(net.w_1(x).sin()))
    assert FeedForward(4, 6).activation is F.relu


# Masking, writing, text, files


def test_mask_tokens():
    g = torch.Generator().manual_seed(0)
    tokens = torch.randint(100, (500, 60), generator=g)
    maskable = torch.rand(500, 60, generator=g) < 0.9
    spoilt, chosen = mask_tokens(tokens, maskable, 100, 100, generator=g)  # BERT's share: 0.15
    assert not (chosen & ~maskable).any() and torch.equal(spoilt[~chosen], tokens[~chosen])
    n = int(maskable.sum())
    assert abs(chosen.sum() / n - 0.15) < 4 * (0.15 * 0.85 / n) ** 0.5
    what = spoilt[chosen]
    m = len(what)
    assert abs((what == 100).float().mean() - 0.8) < 4 * (0.8 * 0.2 / m) ** 0.5
    other = (what != 100) & (what != tokens[chosen])
    assert abs(other.float().mean() - 0.1 * 99 / 100) < 4 * (0.1 * 0.9 / m) ** 0.5
    again = mask_tokens(tokens, maskable, 100, 100, 0.15, torch.Generator().manual_seed(1))
    same = mask_tokens(tokens, maskable, 100, 100, 0.15, torch.Generator().manual_seed(1))
    assert torch.equal(again[0], same[0]) and torch.equal(again[1], same[1])
    assert mask_tokens(tokens, maskable, 100, 100, 1.0)[1].equal(maskable)
    for share in (0.0, 1.1, math.nan):
        with pytest.raises(ValueError, match="share: expected"):
            mask_tokens(tokens, maskable, 100, 100, share)
    with pytest.raises(ValueError, match="maskable: expected shape"):
        inspect.unwrap(mask_tokens)(tokens, maskable[:, :5], 100, 100)


def test_write():
    model = model_of().train()
    tokens = ids(2, 3)
    out = generate(model, tokens, 15, temperature=0.0)
    assert model.training and out.shape == (2, 18) and torch.equal(out[:, :3], tokens)
    model.eval()
    for t in range(3, 18):  # each token is the likeliest after the last 12
        logits = model(out[:, max(0, t - 12) : t])[:, -1]
        assert torch.equal(logits.argmax(-1), out[:, t])
    one, two = (
        generate(model, tokens, 9, generator=torch.Generator().manual_seed(4)) for _ in "ab"
    )
    assert torch.equal(one, two)
    assert torch.equal(generate(model, tokens, 5, top_k=1), out[:, :8])
    assert torch.equal(generate(model, tokens, 0), tokens)
    for change, named in (
        ({"count": -1}, "count"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
    ):
        with pytest.raises(ValueError, match=f"{named}: expected"):
            generate(model, tokens, **{"count": 1, **change})
    with pytest.raises(ValueError, match="model: expected a causal one"):
        generate(model_of(replace(SMALL, causal=False)), tokens, 1)


def small_tokenizer() -> Tokenizer:
    bpe = Tokenizer.train(["the dog ran = the end =", "a <dog> , and"], 40).bpe
    bpe.add_special_tokens(["<mask>"])
    return Tokenizer(bpe)


def test_text():
    tokenizer = small_tokenizer()
    text = "\n= the end =\n\nthe <unk> dog , <unk> <unk> ran\nand"
    found = encode_text(tokenizer, text)
    assert found.count(EOS) == 5 and found.count(UNK) == 3
    assert decode_text(tokenizer, found) == text + "\n"
    assert decode_text(tokenizer, torch.tensor(found)) == text + "\n"
    signs = "a <dog> , a<d"  # no special tokens
    assert decode_text(tokenizer, encode_text(tokenizer, signs)) == signs + "\n"
    assert encode_text(tokenizer, "") == [EOS]
    mask = len(tokenizer) - 1
    assert decode_text(tokenizer, [*tokenizer.encode("the dog"), mask]) == "the dog <mask>"


def test_files(tmp_path):
    tokenizer = small_tokenizer()
    model = model_of(replace(SMALL, vocab_size=len(tokenizer)))
    path = tmp_path / "a.safetensors"
    save_language_model(path, model, tokenizer, {"what": "a test"})
    again, same = load_language_model(path)
    assert again.config == model.config and not again.training
    tokens = torch.tensor([same.encode("the dog ran")])
    assert torch.equal(again(tokens), model(tokens)) and len(same) == len(tokenizer)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelFileError, match="damaged"):
        load_language_model(path)
    with pytest.raises(ValueError, match="tokenizer: expected 40 tokens"):
        save_language_model(path, model_of(), tokenizer)
    with pytest.raises(FileNotFoundError):
        load_language_model(tmp_path / "b.safetensors")
    save_language_model(path, model)
    assert load_language_model(path)[1] is None


def test_files_are_checked_as_those_of_a_transformer(tmp_path):
    tokenizer = small_tokenizer()
    model = model_of(replace(SMALL, vocab_size=len(tokenizer)))
    path = tmp_path / "a.safetensors"
    with pytest.raises(TypeError, match="dtype: expected a floating-point dtype, got torch.int8"):
        save_language_model(path, model, tokenizer, dtype=torch.int8)
    save_language_model(path, model, tokenizer, {"what": "a test"})
    assert saving.model_card(path, saving.LANGUAGE_FORMAT) == {"what": "a test"}
    with pytest.raises(ModelFileError, match="expected 'allyouneed transformer 1'"):
        saving.load_model(path)
    metadata, tensors = saving.read_tensors(path, saving.LANGUAGE_FORMAT)
    del metadata["sha256"]
    sizes = json.loads(metadata["config"])
    metadata["config"] = json.dumps(sizes | {"vocab_size": 10**12})
    saving.write_tensors(path, tensors, metadata)
    with pytest.raises(ModelFileError, match="expected a model, got (?s:.*)1000000"):
        load_language_model(path)
    model.embedding.weight.data[0, 0] = float("nan")
    with pytest.raises(FloatingPointError, match="model: expected finite numbers"):
        save_language_model(path, model, tokenizer)


def test_shipped():
    """The two small models are one machine for two lengths, and fit their cards and sizes."""
    gpt, tokenizer = load_language_model("gpt")
    bert, _ = load_language_model("bert")
    assert replace(gpt.config, causal=False, max_length=64) == bert.config
    assert tokenizer.bpe.token_to_id("<mask>") == len(tokenizer) - 1
    for name, model in (("gpt", gpt), ("bert", bert)):
        file = weights.path(f"language-{name}.safetensors")
        card = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
        assert file.stat().st_size < 7.2e6
        assert card["parameters"] == sum(p.numel() for p in model.parameters())
    text = "The album was released <unk> 2007 ."
    assert decode_text(tokenizer, encode_text(tokenizer, text)) == text + "\n"


LOW_RANK = """
import copy
import peft, torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 5))
ours, theirs = copy.deepcopy(net).requires_grad_(False), copy.deepcopy(net)
for i in (0, 2):
    narrow = LowRank(*ours[i].weight.shape, 3)
    parametrize.register_parametrization(ours[i], "weight", narrow)
factor_1 = peft.LoraConfig(r=3, lora_alpha=3, lora_dropout=0.0, target_modules=["0", "2"])
theirs = peft.get_peft_model(theirs, factor_1)
with torch.no_grad():
    for i in (0, 2):
        mine, its = ours[i].parametrizations.weight[0], theirs.base_model.model[i]
        its.lora_A["default"].weight.copy_(mine.A)
        its.lora_B["default"].weight.copy_(mine.B)
models = ours, theirs
free = [[x for x in model.parameters() if x.requires_grad] for model in models]
assert sum(x.numel() for x in free[0]) == sum(x.numel() for x in free[1])
optimizers = [torch.optim.AdamW(x, 1e-2) for x in free]
for _ in range(200):
    x, y = torch.randn(32, 12), torch.randint(5, (32,))
    for model, optimizer in zip(models, optimizers):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
x = torch.randn(32, 12)
assert torch.allclose(ours(x), theirs(x), atol=1e-4)
assert (ours(x) - net(x)).abs().max() > 0.1
"""


@pytest.mark.weekly
def test_low_rank_is_what_a_library_does(tmp_path):
    """Chapter 16's `LowRank` and peft's, trained alike: the same outputs, which have moved."""
    (file,) = (Path(__file__).parents[1] / "notebooks").glob("16_*.ipynb")
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    (cell,) = [one for cell in cells if "class LowRank(" in (one := "".join(cell["source"]))]
    low_rank = "import torch\nfrom torch import nn\n\n\n" + cell.split("\n\n\ndef ")[0]
    python = python_with(tmp_path / "venv", "--no-deps", "peft", "accelerate")
    subprocess.run([python, "-c", low_rank + LOW_RANK], check=True)
