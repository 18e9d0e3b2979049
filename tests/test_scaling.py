"""The cost model: counts that agree with PyTorch's, and laws that projections must obey."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from pretend import pretended
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from allyouneed.decoding import greedy
from allyouneed.scaling import (
    A100,
    H100,
    P100,
    V100,
    Device,
    activation_bytes,
    all_reduce_seconds,
    pair_flops,
    parameter_count,
    project,
    ring_all_reduce,
    sent_bytes,
    state_bytes,
    steps_needed,
    translation_launches,
    update_launches,
    validation_seconds,
)
from allyouneed.tokens import Batch
from allyouneed.training import Objective, adam, train
from allyouneed.transformer import BASE, BIG, Transformer, TransformerConfig

ROOT = Path(__file__).parents[1]
CONFIGS = [
    TransformerConfig(50, 16, 24, 4, 1),
    TransformerConfig(90, 32, 16, 2, 3, dropout=0.0, norm_first=True),
    TransformerConfig(200, 48, 96, 6, 2, dropout=0.3),
]


# The ring


@given(n=st.integers(1, 7), size=st.integers(0, 23), seed=st.integers(0, 100))
@settings(max_examples=30)
def test_ring_adds_up_and_all_agree(n, size, seed):
    draw = torch.Generator().manual_seed(seed)
    vectors = [torch.randn(size, generator=draw) for _ in range(n)]
    before = [v.clone() for v in vectors]
    sums, sent = ring_all_reduce(vectors)
    assert len(sums) == len(sent) == n
    for found in sums:
        torch.testing.assert_close(found, torch.stack(vectors).sum(0), rtol=1e-5, atol=1e-5)
        assert torch.equal(found, sums[0])  # to the last bit: else copies of a model drift apart
    assert all(torch.equal(a, b) for a, b in zip(vectors, before, strict=True))
    assert sum(sent) == 2 * (n - 1) * size * 4  # every piece goes round once to add, once to tell
    if size % n == 0:
        assert sent == [sent_bytes(4 * size, n)] * n


def test_ring_sends_what_the_numbers_weigh():
    vectors = [torch.ones(6, dtype=torch.float64)] * 3
    assert ring_all_reduce(vectors)[1] == [2 * 2 * 2 * 8] * 3


def test_ring_refuses():
    for vectors in ([], [torch.ones(3), torch.ones(4)], [torch.ones(2, 2)]):
        with pytest.raises((ValueError, TypeCheckError)):  # jaxtyping, on in tests, may come first
            ring_all_reduce(vectors)
    with pytest.raises(ValueError, match="vectors: expected one of shape"):
        ring_all_reduce([])


# Counts


@pytest.mark.parametrize("config", [*CONFIGS, BASE, BIG], ids=str)
def test_parameters_are_counted(config):
    with torch.device("meta"):
        model = Transformer(config)
    assert parameter_count(config) == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    "config, shape", list(zip(CONFIGS, [(1, 1, 1), (3, 7, 5), (2, 4, 11)], strict=True)), ids=str
)
def test_operations_are_pytorchs(config, shape):
    B, S, T = shape
    src, tgt = (torch.randint(4, config.vocab_size, (B, n)) for n in (S, T))
    model = Transformer(config)
    forward = B * sum(pair_flops(config, S, T).values())
    with sdpa_kernel(SDPBackend.MATH):
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(src, tgt)
        assert counter.get_total_flops() == forward
        with FlopCounterMode(display=False) as counter:
            model(src, tgt).logsumexp(-1).sum().backward()
        assert counter.get_total_flops() == 3 * forward


def test_operations_part_as_they_should():
    c = TransformerConfig(100, 8, 16, 2, 3)
    one, two = pair_flops(c, 5, 7), pair_flops(c, 10, 14)
    for name in one:
        times = 4 if name == "scores and weighted sums" else 2
        assert two[name] == times * one[name], name


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_activations_are_those_that_autograd_keeps(config):
    B, S, T = 6, 12, 9
    model = Transformer(config)
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout) and part.p:  # a GPU keeps a byte for each
            part.forward = lambda x, p=part.p: torch.native_dropout(x, p, True)[0]
    own = {p.untyped_storage().data_ptr() for p in [*model.parameters(), *model.buffers()]}
    seen = {}

    def note(x):
        if x.untyped_storage().data_ptr() not in own and x.shape != model.embedding.weight.shape:
            seen[x.untyped_storage().data_ptr()] = x
        return x

    src, tgt = torch.randint(4, config.vocab_size, (B, S)), torch.randint(4, 40, (B, T + 1))
    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        Objective(model, 0.1, torch.float32)(src, tgt)
    kept = sum(x.untyped_storage().nbytes() for x in seen.values())
    counted = activation_bytes(config, B * S, B * T)
    rest = 40 * B * (S + T) + 4 * T * T  # ids, labels, masks
    extra = 8 * B * (S + T) * (config.d_model if config.norm_first else 0)  # the last norms'
    assert counted <= kept <= counted + rest + extra


def test_state_is_what_pytorch_holds():
    model = Transformer(CONFIGS[0])
    optimizer = adam(model)
    ids = torch.randint(4, 50, (2, 5))
    Objective(model, 0.1, torch.float32)(ids, ids).backward()
    optimizer.step()
    size = lambda tensors: sum(t.numel() * t.element_size() for t in tensors)  # noqa: E731
    moments = [s[name] for s in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    assert state_bytes(parameter_count(CONFIGS[0])) == {
        "weights": size(model.parameters()),
        "gradients": size(p.grad for p in model.parameters()),
        "moments": size(moments),
    }


@given(n=st.integers(1, 2000), stage=st.integers(0, 3))
def test_each_stage_holds_less_and_never_below_its_share(n, stage):
    held = [sum(state_bytes(1e9, n, s).values()) for s in range(4)]
    assert held == sorted(held, reverse=True)
    assert held[0] == 16e9 and math.isclose(held[3], 16e9 / n)
    assert math.isclose(sent_bytes(4e9, n, 3), 1.5 * sent_bytes(4e9, n, stage % 3))


def test_state_refuses():
    for n, stage in ((0, 0), (2, 4), (2, -1)):
        with pytest.raises(ValueError, match="n and stage: expected"):
            state_bytes(10, n, stage)


# Time and price


def test_all_reduce_by_hand():
    device = Device("d", 1e12, 1e9, 1e12, link=100.0, network=10.0, per_machine=4, delay=0.0)
    assert all_reduce_seconds(400, device, 1) == 0
    assert all_reduce_seconds(400, device, 4) == 2 * 3 / 4 * 400 / 100
    assert all_reduce_seconds(400, device, 8) == pytest.approx(6 + 2 * 1 / 2 * 100 / 10)
    late = replace(device, delay=1.0)
    assert all_reduce_seconds(0, late, 4) == 2 * 3 and all_reduce_seconds(0, late, 8) == 2 * 4
    for n in (0, 6):
        with pytest.raises(ValueError, match="n: expected whole machines of 4"):
            all_reduce_seconds(1, device, n)


@given(
    k=st.integers(0, 9), tokens=st.floats(1e3, 1e6), use=st.floats(0.05, 1.0),
    device=st.sampled_from([P100, V100, A100, H100]), sharded=st.booleans(),
)  # fmt: skip
def test_laws_of_projection(k, tokens, use, device, sharded):
    one, p = (project(BASE, device, n, 1000, tokens, 30, use, sharded) for n in (1, 2**k))
    assert p.step == max(p.compute, p.host) + p.exposed and p.hours == 1000 * p.step / 3600
    assert 0 <= p.exposed <= p.talk * (1 + 1e-9) and one.efficiency == 1 and one.talk == 0
    assert p.compute <= one.compute
    assert p.step >= update_launches(BASE) * device.launch  # the floor
    end = 4 * BASE.vocab_size * BASE.d_model  # the embedding's gradient hides behind nothing
    assert p.exposed >= all_reduce_seconds(end, device, 2**k)
    if not sharded:  # with sharding Adam's part is less, too
        assert p.efficiency <= 1 + 1e-9
    if device.price is None:
        assert p.price is None
    else:
        assert p.price == pytest.approx(2**k * p.hours * device.price)
    more = project(BASE, device, 2**k, 1000, 2 * tokens, 30, use, sharded)
    assert more.step >= p.step and more.efficiency >= p.efficiency - 1e-9


def test_what_is_sent_hides_behind_the_last_batch_alone():
    """Before, gradients are added up and not sent: `gradients` of chapter 12."""
    device = replace(H100, network=1e9)  # so slow that no backward pass hides all
    for parts in (1, 2, 4):
        p = project(BASE, device, 16, 1, tokens=400_000, parts=parts)
        products = p.compute - 28 * parameter_count(BASE) / device.bandwidth
        others = p.host - 50 * BASE.n_layers * device.launch
        others = max(others, p.compute - 2 / 3 * products / parts)
        assert p.talk - p.exposed == pytest.approx(max(p.compute, p.host) - others)


def test_the_papers_steps():
    """0.4 and 1.0 seconds (section 5.2), with nothing fitted: within a quarter."""
    for config, seconds in ((BASE, 0.4), (BIG, 1.0)):
        assert project(config, P100, 8, 1).step == pytest.approx(seconds, rel=0.25)


def test_what_was_not_fitted():
    """NVIDIA's README: two rows of one GPU are fitted, four and eight GPUs are not."""
    config, own = TransformerConfig(33_708, 1024, 4096, 16, 6), {1: 32_153, 2: 23_821}
    adams = 28 * parameter_count(config) / V100.bandwidth
    needed = 5_120 * sum(pair_flops(config, 30, 30).values()) / 10
    share = needed / (V100.flops * (5_120 / own[1] - adams))
    assert share == pytest.approx(0.35, abs=0.02)  # the one of all projections
    theirs = replace(V100, per_machine=16, launch=2_560 / own[2] / update_launches(config))

    def rate(n: int, each: int) -> float:
        p = project(config, theirs, n, 1, n * each, 30, share, loading=math.inf)
        return n * each / p.step

    assert rate(1, 5_120) == pytest.approx(own[1]) and rate(1, 2_560) == pytest.approx(own[2])
    for n, each, measured, off in (
        (4, 2_560, 92_514, 0.02), (8, 2_560, 186_442, 0.02), (8, 5_120, 235_077, 0.09),
        (16, 5_120, 476_585, 0.09),
    ):  # fmt: skip
        assert rate(n, each) == pytest.approx(measured, rel=off)
    assert rate(4, 5_120) > 1.6 * 75_574  # the row that contradicts the others
    for n, minutes, of_30, of_42 in ((8, 446, 0.64, 0.89), (4, 834, 0.68, 0.95)):
        projected = 32 * 4.5e6 / rate(n, 5_120) / 60 / minutes
        assert 30 * projected == pytest.approx(of_30, abs=0.01)
        assert 42 * projected == pytest.approx(of_42, abs=0.01)


@pytest.mark.parametrize("layers, parts", [(1, 1), (3, 1), (2, 3)])
def test_launches_are_those_of_an_update(layers, parts):
    ids = torch.randint(4, 40, (4, 7))
    with pretended("H200", (9, 0)) as gpu:
        config = TransformerConfig(40, 32, 64, 4, layers)
        model = Transformer(config).to("cuda")
        run = train(model, lambda epoch: [Batch(ids, ids)] * 9, 9, precision="bf16",
                    accumulate=parts)  # fmt: skip
        next(run), gpu.reset(), next(run)
        found = gpu.launches.total()
        run.close()
    assert found == update_launches(config, parts)
    with pytest.raises(ValueError, match="parts: expected at least 1, got 0"):
        update_launches(config, 0)


def test_launches_of_a_layer_are_those_of_the_chapter():
    """89 for an encoder and a decoder layer: 39 forward, 50 backward, asked for by `train`."""
    ids, found = torch.randint(4, 40, (4, 7)), []
    for layers in (1, 3):
        with pretended("H200", (9, 0)) as gpu:
            model = Transformer(TransformerConfig(40, 32, 64, 4, layers)).to("cuda")
            run = train(model, lambda epoch: [Batch(ids, ids)] * 9, 9, precision="bf16")
            next(run), gpu.reset(), next(run)
            backward = sum(n for what, n in gpu.launches.items() if "training.py:" in what)
            found.append((gpu.launches.total() - backward, backward))
            run.close()
    (forward, backward), (forward_of_3, backward_of_3) = found
    assert (forward_of_3 - forward, backward_of_3 - backward) == (2 * 39, 2 * 50)


@pytest.mark.parametrize("layers", [1, 3])
def test_launches_are_those_of_a_translation(layers):
    torch.manual_seed(0)
    with pretended("H200", (9, 0)) as gpu:
        config = TransformerConfig(40, 32, 64, 4, layers)
        model = Transformer(config).to("cuda").eval()
        src, found = torch.randint(4, 40, (4, 7)).to("cuda"), []
        for most in (10, 20):
            gpu.reset()
            assert {*map(len, greedy(model, src, most))} == {most}  # none ends before the others
            found.append(gpu.launches.total())
    for most, launched in zip((10, 20), found, strict=True):
        assert launched == pytest.approx(translation_launches(config, most), rel=0.02)


def test_a_validation_by_hand():
    device = Device("d", 1e12, 1e9, 1e12, link=1.0, network=1.0, launch=0.5, host=2.0)
    config = CONFIGS[0]
    written = 28 * 3 * parameter_count(config) / 2
    assert validation_seconds(config, device, 3, 65, 4) == written + 2 * (61 + 8 * 28) / 2
    with_two = project(config, device, 1, 10, validations=2, averaged=3)
    assert with_two.hours * 3600 == pytest.approx(
        10 * with_two.step + 2 * validation_seconds(config, device, 3)
    )


def test_projection_refuses():
    for share in (0, 1.2, -1):
        with pytest.raises(ValueError, match="utilisation: expected a share"):
            project(BASE, H100, 8, 1, utilisation=share)


@given(noise=st.floats(10, 1e6), tokens=st.floats(10, 1e7))
def test_batches_trade_steps_for_tokens(noise, tokens):
    steps = steps_needed(tokens, 100, noise)
    assert math.isclose((steps / 100 - 1) * (steps * tokens / (100 * noise) - 1), 1, rel_tol=1e-6)
    assert steps_needed(2 * tokens, 100, noise) < steps


# The recipes that the chapter explains


@pytest.mark.parametrize("size, pair", [(s, p) for s in ("base", "big") for p in ("de", "fr")])
def test_recipes_are_those_of_the_paper(size, pair):
    recipe = tomllib.loads((ROOT / "recipes" / f"{size}-en-{pair}.toml").read_text("utf-8"))
    config = BASE if size == "base" else BIG
    for name, value in (
        ("d-model", config.d_model), ("d-ff", config.d_ff), ("heads", config.n_heads),
        ("layers", config.n_layers), ("steps", 100_000 if size == "base" else 300_000),
        ("dropout", 0.3 if (size, pair) == ("big", "de") else 0.1), ("smoothing", 0.1),
        ("warmup", 4000), ("average", 5 if size == "base" else 20),
    ):  # fmt: skip
        assert recipe[name] == value, name
    assert recipe["batch-tokens"] * recipe["update-batches"] == 25_000
    # Validations and checkpoints cost a twentieth of the run on eight H100 at most
    every, apart, averaged = (recipe[k] for k in ("validate-every", "average-every", "average"))
    assert recipe["steps"] % every == every % apart == 0 and apart * averaged <= every
    validations = recipe["steps"] // every
    p = project(config, H100, 8, recipe["steps"], validations=validations, averaged=averaged)
    pause = 24 * parameter_count(config) / H100.host  # each ten minutes one, to go on from
    aside = validations * p.validation + p.hours * 6 * pause
    assert aside <= p.hours * 3600 / 20
    chapter = json.loads((ROOT / "notebooks" / "19_scaling.ipynb").read_text("utf-8"))
    text = "".join("".join(cell["source"]) for cell in chapter["cells"])
    assert "8 batches of 3,125 positions" in text
