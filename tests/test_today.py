"""A model of today: parity with transformers and with the formulas, caches, files, recipe."""

from __future__ import annotations

import dataclasses
import math
import subprocess

import gguf
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from allyouneed import published, sources
from allyouneed.data import load_quantized
from allyouneed.masks import padding_mask
from allyouneed.published import llama_sizes, read_gguf
from allyouneed.sources import DataError
from allyouneed.today import (
    SMOLLM2,
    GatedFeedForward,
    Llama,
    LlamaConfig,
    RMSNorm,
    RollingCache,
    adamw,
    complete,
    cosine_rate,
    from_llama,
    in_sight,
    load_llama,
    rotary_angles,
    rotate,
)
from allyouneed.tokens import PAD

SMALL = LlamaConfig(
    vocab_size=40, d_model=24, d_ff=20, n_heads=4, n_groups=2, n_layers=2, d_k=6, theta=1e4
)
replace = dataclasses.replace


def shaken(model: nn.Module, seed: int = 0) -> nn.Module:
    g = torch.Generator().manual_seed(seed)
    for p in model.parameters():  # so that gammas and biases matter
        p.data += 0.1 * torch.randn(p.shape, generator=g)
    return model.eval()


def model_of(config: LlamaConfig = SMALL, seed: int = 0) -> Llama:
    torch.manual_seed(seed)
    return shaken(Llama(config), seed)


def ids(b: int = 2, t: int = 9, v: int = 40, seed: int = 0) -> torch.Tensor:
    return torch.randint(v, (b, t), generator=torch.Generator().manual_seed(seed))


def close(a, b, rtol=1e-4, atol=1e-5):
    torch.testing.assert_close(a, b, rtol=rtol, atol=atol)


# Parity with transformers


def their_model(kind: str, seed: int = 0, **changes):
    transformers = pytest.importorskip("transformers")
    sizes = dict(
        vocab_size=40, hidden_size=24, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        pad_token_id=None, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    config = getattr(transformers, f"{kind}Config")(**{**sizes, **changes})
    torch.manual_seed(seed)
    return shaken(getattr(transformers, f"{kind}ForCausalLM")(config), seed)


MODELS = [
    ("Llama", {}),
    ("Llama", {"num_key_value_heads": 1, "tie_word_embeddings": True, "rope_theta": 500.0}),
    ("Llama", {"num_key_value_heads": 4, "rms_norm_eps": 0.1, "num_hidden_layers": 1}),
    ("Llama", {"head_dim": 10, "hidden_size": 18, "num_attention_heads": 6}),
    ("Llama", {"vocab_size": 77, "intermediate_size": 5, "num_attention_heads": 6,
               "num_key_value_heads": 3, "rope_theta": 3e5}),
    ("Mistral", {"sliding_window": 4}),
    ("Mistral", {"sliding_window": None, "head_dim": 8}),
    ("Qwen2", {}),
    ("Qwen2", {"tie_word_embeddings": True, "num_key_value_heads": 1, "rope_theta": 1e6}),
    ("Qwen3", {"head_dim": 8}),
    ("Qwen3", {"head_dim": 16, "num_key_value_heads": 4, "rms_norm_eps": 0.01}),
]  # fmt: skip
each_model = pytest.mark.parametrize(
    "kind, changes", MODELS, ids=[f"{kind}{i}" for i, (kind, _) in enumerate(MODELS)]
)


def both(kind, changes):
    theirs = their_model(kind, **changes)
    return theirs, from_llama(theirs.state_dict(), theirs.config.to_dict())


@each_model
def test_same_logits_and_writing(kind, changes):
    theirs, ours = both(kind, changes)
    tokens = ids(3, 15, theirs.config.vocab_size)
    with torch.no_grad():
        close(ours(tokens), theirs(tokens).logits)
    written = theirs.generate(tokens[:1, :5], max_new_tokens=12, do_sample=False)
    assert torch.equal(complete(ours, tokens[:1, :5], 12), written)


@each_model
def test_same_gradients(kind, changes):
    theirs, ours = both(kind, changes)
    tokens = ids(3, 11, theirs.config.vocab_size)
    for logits in (theirs(tokens).logits, ours(tokens)):
        F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
    slopes = {name: p.grad for name, p in theirs.named_parameters()}
    back = from_llama(slopes, theirs.config.to_dict())
    for (name, p), (_, q) in zip(ours.named_parameters(), back.named_parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.data, rtol=1e-3, atol=1e-6, msg=name)


@each_model
def test_same_with_padding(kind, changes):
    theirs, ours = both(kind, changes)
    tokens = ids(2, 9, theirs.config.vocab_size).clamp(min=1)
    tokens[1, 6:] = PAD
    real = tokens != PAD
    with torch.no_grad():
        expected = theirs(tokens, attention_mask=real.long()).logits
        close(ours(tokens, padding_mask(tokens, PAD))[real], expected[real])


@each_model
def test_same_cache(kind, changes):
    """Theirs and ours read a text in the same pieces; keys and values of the first layer agree."""
    theirs, ours = both(kind, changes)
    tokens, cache, past = ids(2, 12, theirs.config.vocab_size), ours.new_cache(), None
    with torch.no_grad():
        for piece in tokens.split([6, 1, 3, 1, 1], dim=1):
            out = theirs(piece, past_key_values=past, use_cache=True)
            past = out.past_key_values
            close(ours(piece, cache=cache), out.logits)
    k, v, _ = cache[0].kept
    last = min(k.shape[2], past.layers[0].keys.shape[2])
    close(k[:, :, -last:], past.layers[0].keys[:, :, -last:])
    close(v[:, :, -last:], past.layers[0].values[:, :, -last:])


# Parity with the formulas, for where there is no transformers


def from_formulas(model: Llama, tokens: torch.Tensor) -> torch.Tensor:
    """One text, vector by vector, in float64, from equations (20.1) to (20.3) and (1)."""
    config, w = model.config, {n: p.double() for n, p in model.state_dict().items()}

    def norm(x, gamma):
        return x / torch.sqrt((x * x).sum() / len(x) + config.eps) * gamma

    def turned(x, place):
        out, half = x.clone(), len(x) // 2
        for i in range(half):
            angle = place * config.theta ** (-2 * i / len(x))
            c, s = math.cos(angle), math.sin(angle)
            out[i], out[i + half] = x[i] * c - x[i + half] * s, x[i + half] * c + x[i] * s
        return out

    def head(x, name, place=None):
        """All heads of one projection of one vector, turned if there is a place."""
        y = w[f"{name}.weight"] @ x + w.get(f"{name}.bias", 0)
        heads = list(y.split(config.d_k))
        if place is None:
            return heads
        gamma = w.get(f"{name.replace('w_', '')}_norm.gamma")
        heads = heads if gamma is None else [norm(h, gamma) for h in heads]
        return [turned(h, place) for h in heads]

    xs = [w["embedding.weight"][t] for t in tokens.tolist()]
    for i in range(config.n_layers):
        at = f"layers.{i}.self_attention"
        normed = [norm(x, w[f"layers.{i}.residuals.0.norm.gamma"]) for x in xs]
        q = [head(x, f"{at}.w_q", p) for p, x in enumerate(normed)]
        k = [head(x, f"{at}.w_k", p) for p, x in enumerate(normed)]
        v = [head(x, f"{at}.w_v") for x in normed]
        for t in range(len(xs)):
            seen = [
                s
                for s in range(t + 1)
                if config.window is None or t - s < config.window or s < config.sinks
            ]
            outs = []
            for h in range(config.n_heads):
                group = h * config.n_groups // config.n_heads
                scores = torch.stack([q[t][h] @ k[s][group] for s in seen]) / config.d_k**0.5
                weights = scores.softmax(0)
                outs.append(sum(a * v[s][group] for a, s in zip(weights, seen, strict=True)))
            xs[t] = xs[t] + w[f"{at}.w_o.weight"] @ torch.cat(outs)
        net = f"layers.{i}.feed_forward"
        for t, x in enumerate(xs):
            y = norm(x, w[f"layers.{i}.residuals.1.norm.gamma"])
            gate = w[f"{net}.w_1.weight"] @ y
            gate = gate / (1 + torch.exp(-gate)) * (w[f"{net}.w_3.weight"] @ y)
            xs[t] = x + w[f"{net}.w_2.weight"] @ gate
    output = w["embedding.weight" if config.tied else "output.weight"]
    return torch.stack([output @ norm(x, w["norm.gamma"]) for x in xs])


CONFIGS = st.builds(
    lambda groups, share, d_k, layers, d_model, theta, tied, bias, norm, window, sinks: LlamaConfig(
        vocab_size=20, d_model=d_model, d_ff=7, n_heads=groups * share, n_groups=groups,
        n_layers=layers, d_k=2 * d_k, theta=theta, eps=1e-3, tied=tied, qkv_bias=bias,
        qk_norm=norm, window=window, sinks=sinks,
    ),
    groups=st.integers(1, 3), share=st.integers(1, 3), d_k=st.integers(1, 4),
    layers=st.integers(1, 2), d_model=st.integers(3, 12), theta=st.sampled_from([50.0, 1e4, 1e6]),
    tied=st.booleans(), bias=st.booleans(), norm=st.booleans(),
    window=st.none() | st.integers(1, 9), sinks=st.integers(0, 3),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(CONFIGS, st.integers(0, 99))
def test_same_as_the_formulas(config, seed):
    model, tokens = model_of(config, seed), ids(1, 7, 20, seed)
    with torch.no_grad():
        close(model(tokens)[0].double(), from_formulas(model, tokens[0]), rtol=1e-3, atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(CONFIGS, st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 99))
def test_pieces_give_what_the_whole_gives(config, pieces, seed):
    model, tokens = model_of(config, seed), ids(2, sum(pieces), 20, seed)
    cache = model.new_cache()
    with torch.no_grad():
        found = [model(piece, cache=cache) for piece in tokens.split(pieces, dim=1)]
        close(torch.cat(found, dim=1), model(tokens), rtol=1e-3, atol=1e-4)
    if config.window:
        assert cache[0].kept[0].shape[2] <= config.sinks + config.window - 1
    assert cache[0].length == sum(pieces)


@pytest.mark.parametrize("window, sinks", [(None, 0), (4, 0), (4, 2)])
def test_a_mask_goes_along_with_the_cache(window, sinks):
    model, tokens = model_of(replace(SMALL, window=window, sinks=sinks)), ids(2, 12)
    mask = torch.rand(2, 1, 1, 12, generator=torch.Generator().manual_seed(0)) < 0.7
    cache, read = model.new_cache(), 0
    with torch.no_grad():
        whole = model(tokens, mask)
        for piece in tokens.split([5, 1, 3, 1, 2], dim=1):
            read += piece.shape[1]
            found = model(piece, mask[..., :read], cache)
            close(found, whole[:, read - piece.shape[1] : read])


# The parts


def test_rms_norm():
    x, norm = torch.randn(3, 5, 8) + 1, RMSNorm(8, 0.3)
    nn.init.normal_(norm.gamma)
    theirs = nn.RMSNorm(8, 0.3)
    theirs.weight.data = norm.gamma.data
    close(norm(x), theirs(x))
    assert [name for name, _ in norm.named_parameters()] == ["gamma"]
    with pytest.raises(ValueError, match="d_model = 8"):
        norm(torch.randn(3, 7))
    with pytest.raises(TypeError):
        norm(torch.ones(3, 8, dtype=torch.long))
    with pytest.raises(ValueError, match="eps"):
        RMSNorm(8, 0.0)


@given(st.integers(1, 6), st.integers(0, 5000), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_rotations(half, shift, seed):
    K, g = 2 * half, torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 3, 4, K, generator=g)
    near, far = (rotary_angles(torch.arange(4) + s, K) for s in (0, shift))
    order = torch.cat([torch.arange(0, K, 2), torch.arange(1, K, 2)])
    for interleaved in (True, False):
        close(rotate(q, near, interleaved).norm(dim=-1), q.norm(dim=-1))
        scores = [rotate(q, a, interleaved) @ rotate(k, a, interleaved).mT for a in (near, far)]
        close(scores[0], scores[1], rtol=1e-2, atol=2e-3)  # the distance alone counts
    close(rotate(q, near, True)[..., order], rotate(q[..., order], near))
    assert torch.equal(rotate(q, near)[:, 0], q[:, 0])


def test_rotations_refuse():
    with pytest.raises(ValueError, match="d_k: expected an even number"):
        rotary_angles(torch.arange(3), 5)
    for shape in ((2, 4, 6), (2, 3, 8)):  # jaxtyping, switched on in tests, may speak first
        with pytest.raises((TypeError, ValueError)):
            rotate(torch.randn(shape), rotary_angles(torch.arange(3), 6))


def test_gated():
    net, x = GatedFeedForward(6, 5), torch.randn(2, 3, 6)
    a, b = x @ net.w_1.weight.T, x @ net.w_3.weight.T
    close(net(x), (a * a.sigmoid() * b) @ net.w_2.weight.T)
    with pytest.raises(ValueError, match="d_ff: expected at least 1, got 0"):
        GatedFeedForward(6, 0)


def test_sight():
    places = torch.arange(6)
    assert torch.equal(in_sight(places, places), torch.ones(6, 6).tril().bool())
    row = in_sight(torch.tensor([5]), places, window=2, sinks=1)[0]
    assert row.tolist() == [True, False, False, False, True, True]


def test_a_cache_that_does_not_grow():
    cache = RollingCache(window=3, sinks=2)
    for place in range(9):
        k = torch.full((1, 1, 1, 4), float(place))
        seen, _, places = cache.add(k, k)
        assert seen[0, 0, :, 0].tolist() == places.tolist()
    assert places.tolist() == [0, 1, 6, 7, 8] and cache.kept[2].tolist() == [0, 1, 7, 8]


def test_the_future_is_hidden():
    tokens, other = ids(), ids()
    other[:, 4] = (other[:, 4] + 1) % 40
    model = model_of()
    moved = (model(tokens) - model(other)).abs().amax((0, 2))
    assert (moved[:4] == 0).all() and (moved[4:] > 0).all()


def test_the_weights_it_starts_with():
    """Of deviation d_model^-0.5, and no bias. The bounds are six deviations."""
    torch.manual_seed(0)
    model = Llama(LlamaConfig(500, 64, 160, 4, 2, 1, d_k=16, tied=False, qkv_bias=True))
    for name, p in model.named_parameters():
        if p.dim() > 1:
            assert float(p.detach().std()) == pytest.approx(1 / 8, rel=6 / (2 * p.numel()) ** 0.5)
        else:
            assert (p == name.endswith("gamma")).all(), name


def test_published_size():
    with torch.device("meta"):
        model = Llama(SMOLLM2)
    assert sum(p.numel() for p in model.parameters()) == 134_515_008  # as published


# Writing


@pytest.mark.parametrize("window, sinks", [(None, 0), (4, 0), (4, 2)])
def test_writes_as_without_a_cache(window, sinks):
    model, tokens = model_of(replace(SMALL, window=window, sinks=sinks)), ids(3, 4)
    anew = tokens
    with torch.no_grad():
        for _ in range(15):
            anew = torch.cat([anew, model(anew)[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(complete(model, tokens, 15), anew)
    assert torch.equal(complete(model, tokens, 0), tokens)
    draw = lambda: torch.Generator().manual_seed(1)  # noqa: E731
    one = complete(model, tokens, 9, 0.8, top_k=5, top_p=0.9, generator=draw())
    assert torch.equal(one, complete(model, tokens, 9, 0.8, 5, 0.9, draw()))


@pytest.mark.parametrize(
    "changes, says",
    [
        (dict(count=-1), "count: expected at least 0"),
        (dict(temperature=-1.0), "temperature"),
        (dict(temperature=math.nan), "temperature"),
        (dict(top_k=0), "top_k"),
        (dict(top_p=0.0), "top_p"),
        (dict(tokens=torch.zeros(1, 0, dtype=torch.long)), "tokens: expected shape"),
        (dict(tokens=torch.full((1, 3), 40)), "tokens"),
    ],
)
def test_complete_refuses(changes, says):
    with pytest.raises(ValueError, match=says):
        complete(model_of(), **{"tokens": ids(), "count": 2, **changes})


# Files

PUBLISHED = {  # as in SmolLM2's, but for the sizes
    "architectures": ["LlamaForCausalLM"], "attention_bias": False, "hidden_act": "silu",
    "hidden_size": 24, "intermediate_size": 20, "model_type": "llama", "num_attention_heads": 4,
    "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-05,
    "rope_interleaved": False, "rope_scaling": None, "rope_theta": 10000,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16", "vocab_size": 40,
}  # fmt: skip


def published_state(model: Llama) -> dict[str, torch.Tensor]:
    """Our weights under the published names."""
    state = {}
    for name, x in model.state_dict().items():
        for theirs, ours in reversed(published.LLAMA_NAMES.items()):
            if ours[0] == "." or name.startswith(ours) or ours == "norm.gamma":
                name = name.replace(ours, theirs)
        state[name] = x.clone()
    return state


def test_reads_what_is_published():
    assert LlamaConfig(**llama_sizes(PUBLISHED)) == SMALL
    model = model_of()
    state = published_state(model)
    assert "model.layers.1.post_attention_layernorm.weight" in state
    assert "model.norm.weight" in state and "model.layers.0.mlp.gate_proj.weight" in state
    close(from_llama(state, PUBLISHED)(ids()), model(ids()))
    tied = {**state, "lm_head.weight": state["model.embed_tokens.weight"]}
    close(from_llama(tied, PUBLISHED)(ids()), model(ids()))


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"model_type": "gemma"}, "model_type: expected llama.*'gemma'"),
        ({"model_type": None}, "model_type"),
        ({"hidden_act": "gelu"}, "hidden_act: expected 'silu', got 'gelu'"),
        ({"attention_bias": True}, "attention_bias"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "rope_scaling"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_type"),
        ({"model_type": "qwen2", "use_sliding_window": True}, "use_sliding_window"),
    ],
)
def test_what_is_not_built_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        llama_sizes({**PUBLISHED, **changes})


def test_a_size_that_is_missing_is_named():
    with pytest.raises(ValueError, match="hidden_size: expected it in the config, got none"):
        llama_sizes({name: x for name, x in PUBLISHED.items() if name != "hidden_size"})


def test_other_weights_are_refused():
    state = published_state(model_of())
    for wrong in (
        {n: x for n, x in state.items() if "up_proj" not in n},
        {**state, "model.extra": torch.ones(2)},
        {**state, "model.norm.weight": torch.ones(23)},
    ):
        with pytest.raises(ValueError, match="state: expected the weights"):
            from_llama(wrong, PUBLISHED)


def write_gguf(path, model, **changes):
    """A small Llama as llama.cpp writes it: other names, and neighbours as rotary pairs."""
    config, said = model.config, {"family": "llama", "pre": "smollm", "output": None} | changes
    writer = gguf.GGUFWriter(path, said["family"])
    writer.add_embedding_length(config.d_model)
    writer.add_feed_forward_length(config.d_ff)
    writer.add_block_count(config.n_layers)
    writer.add_head_count(config.n_heads)
    writer.add_head_count_kv(config.n_groups)
    writer.add_rope_dimension_count(config.d_k)
    writer.add_layer_norm_rms_eps(config.eps)
    writer.add_rope_freq_base(config.theta)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(64)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(said["pre"])
    letters = [chr(ord("!") + i) for i in range(config.vocab_size - 3)]
    writer.add_token_list(["<end>", *letters, "ab", "12"])
    writer.add_token_types([3] + [1] * (config.vocab_size - 1))
    writer.add_token_merges(["a b", "1 2"])
    theirs = {ours: name for name, ours in published.GGUF_NAMES.items()}
    for name, x in published_state(model).items():
        if "q_proj" in name or "k_proj" in name:
            x = x.unflatten(0, (-1, 2, config.d_k // 2)).transpose(1, 2).flatten(0, 2)
        for here, there in theirs.items():
            name = name.replace(here, there)
        writer.add_tensor(name, x.contiguous().numpy())
    if said["output"] is not None:
        writer.add_tensor("output.weight", said["output"].numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


@pytest.fixture(scope="module")
def wide():
    """A model whose vocabulary has all the letters of `write_gguf`."""
    return model_of(replace(SMALL, vocab_size=97, d_k=8, d_model=32))


def test_loader(monkeypatch, tmp_path, wide):
    content = write_gguf(tmp_path / "model.gguf", wide)
    monkeypatch.setattr(published, "load_quantized", lambda name: content)
    found, tokenizer = load_llama()
    assert not found.training and {p.dtype for p in found.parameters()} == {torch.float32}
    assert replace(found.config, eps=1e-5) == wide.config
    close(found(ids(v=97)), wide(ids(v=97)))
    encoded = tokenizer.encode("ab12<end>")  # digits stand alone, whatever was merged
    assert encoded.tokens == ["ab", "1", "2", "<end>"] and encoded.ids[-1] == 0
    assert tokenizer.decode(encoded.ids) == "ab12"


def their_reading(path):
    """The weights of a GGUF file by the code of transformers."""
    reading = pytest.importorskip("transformers.modeling_gguf_pytorch_utils")
    config = reading.load_gguf_checkpoint(path)["config"]
    transformers = pytest.importorskip("transformers")
    with torch.device("meta"):
        empty = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config))
    return reading.load_gguf_checkpoint(path, return_tensors=True, model_to_load=empty)["tensors"]


def test_gguf_weights_are_those_that_transformers_reads(tmp_path, wide):
    state, _, _ = read_gguf(write_gguf(tmp_path / "model.gguf", wide))
    theirs = their_reading(tmp_path / "model.gguf")
    assert state.keys() == theirs.keys()
    assert all(torch.equal(x, theirs[name]) for name, x in state.items())


def test_untied_gguf(tmp_path, wide):
    output = torch.randn(97, 32, generator=torch.Generator().manual_seed(1))
    state, config, _ = read_gguf(write_gguf(tmp_path / "model.gguf", wide, output=output))
    found = from_llama(state, config)
    assert not found.config.tied and torch.equal(found.output.weight, output)


def test_other_gguf_files_are_refused(tmp_path, wide):
    for wrong, name in (({"family": "qwen2"}, "general.architecture"), ({"pre": "qwen2"}, "pre")):
        content = write_gguf(tmp_path / "wrong.gguf", wide, **wrong)
        with pytest.raises(ValueError, match=rf"{name}: expected '\w+', got 'qwen2'"):
            read_gguf(content)
    with pytest.raises(ValueError, match="content: expected a GGUF file"):
        read_gguf(b"not this")
    content = write_gguf(tmp_path / "wrong.gguf", wide).replace(
        b".rope.freq_base", b".rope.freq_bass"
    )
    with pytest.raises(ValueError, match="llama.rope.freq_base: expected it in the file, got none"):
        read_gguf(content)


@pytest.mark.weekly
def test_the_published_model_is_what_transformers_reads(tmp_path):
    transformers = pytest.importorskip("transformers")
    content = load_quantized("smollm2")
    (tmp_path / "model.gguf").write_bytes(content)
    state, _, tokenizer = read_gguf(content)
    theirs = their_reading(tmp_path / "model.gguf")
    assert state.keys() == theirs.keys()
    assert all(torch.equal(x, theirs[name]) for name, x in state.items())
    text = "In 2017 the Transformer was new; in 2026 it's 9 years old.\n\n  <|im_end|>"
    read = transformers.AutoTokenizer.from_pretrained(tmp_path, gguf_file="model.gguf")
    assert read(text).input_ids == tokenizer.encode(text).ids


def test_without_network(monkeypatch, tmp_path):
    def nothing(*args, **kwargs):
        return subprocess.CompletedProcess(args, 1, stderr="ERROR: no network")

    monkeypatch.setattr(sources.subprocess, "run", nothing)
    monkeypatch.setenv("ALLYOUNEED_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ALLYOUNEED_DATA", raising=False)
    with pytest.raises(DataError, match="connect to the network"):
        load_llama()
    (tmp_path / "here" / "smollm2").mkdir(parents=True)
    (tmp_path / "here" / "smollm2" / "model.gguf").write_bytes(b"not this")
    monkeypatch.setenv("ALLYOUNEED_DATA", str(tmp_path / "here"))
    with pytest.raises(DataError, match="expected sha256 b179c952"):
        load_llama()
    with pytest.raises(ValueError, match="name: expected one of smollm2, got"):
        load_quantized("gpt2")


# Bad input, and the recipe


@pytest.mark.parametrize(
    "changes, error, says",
    [
        (dict(n_groups=3), ValueError, "n_groups: expected a divisor of n_heads = 4, got 3"),
        (dict(n_groups=0), ValueError, "n_groups: expected at least 1"),
        (dict(d_k=5), ValueError, "d_k: expected an even number"),
        (dict(d_model=2.0), TypeError, "d_model"),
        (dict(n_layers=True), TypeError, "n_layers: expected an integer"),
        (dict(window=0), ValueError, "window: expected at least 1"),
        (dict(window=-3), ValueError, "window: expected at least 1"),
        (dict(sinks=-1), ValueError, "sinks: expected at least 0"),
        (dict(theta=0.0), ValueError, "theta: expected a finite number above 0"),
        (dict(eps=-1.0), ValueError, "eps: expected a finite number above 0"),
    ],
)
def test_config_refuses(changes, error, says):
    with pytest.raises(error, match=says):
        replace(SMALL, **changes)


@pytest.mark.parametrize("name, value", [("tied", "no"), ("qkv_bias", 1), ("qk_norm", None)])
def test_a_switch_is_true_or_false(name, value):
    config = replace(SMALL)
    object.__setattr__(config, name, value)  # jaxtyping, which tests switch on, checks __init__
    with pytest.raises(TypeError, match=f"{name}: expected True or False, got {value!r}"):
        config.__post_init__()


def test_model_refuses():
    with pytest.raises(TypeError, match="config"):
        Llama({})
    with pytest.raises(ValueError, match="tokens"):
        model_of()(torch.full((1, 3), 40))
    with pytest.raises(TypeError, match="tokens"):
        model_of()(torch.ones(1, 3))


def test_adamw_spares_vectors():
    model = model_of(replace(SMALL, qkv_bias=True))
    matrices, vectors = adamw(model, 0.3).param_groups
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.3, 0.0)
    assert matrices["betas"] == vectors["betas"] == (0.9, 0.95)  # Llama's
    assert {p.dim() for p in matrices["params"]} == {2}
    assert {p.dim() for p in vectors["params"]} == {1}
    assert len(matrices["params"]) + len(vectors["params"]) == len(list(model.parameters()))
    with pytest.raises(ValueError, match="decay: expected a finite number of at least 0"):
        adamw(model, -0.1)


def test_cosine_rate():
    rate = [cosine_rate(step, 100, 2.0, 10) for step in range(1, 121)]
    assert rate[4] == pytest.approx(1.0) and max(rate) == rate[9] == pytest.approx(2.0)
    assert rate[54] == pytest.approx(1.1) and rate[99] == pytest.approx(0.2) == rate[119]
    assert rate[:10] == sorted(rate[:10]) and rate[9:] == sorted(rate[9:], reverse=True)
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 90, eta_min=0.2)
    for step in range(10, 100):
        assert cosine_rate(step, 100, 2.0, 10) == pytest.approx(theirs.get_last_lr()[0])
        optimizer.step()
        theirs.step()
    for wrong, says in (((0, 100, 1.0, 10), "step"), ((1, 100, 1.0, 0), "warmup_steps"),
                        ((1, 10, 1.0, 10), "steps: expected more than")):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            cosine_rate(*wrong)
