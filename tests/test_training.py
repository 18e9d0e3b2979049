"""Training: the loss, the schedule, the loop, and that padding changes none of them."""

from __future__ import annotations

import inspect
import itertools
import math
import random
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from allyouneed import training
from allyouneed.decoding import greedy
from allyouneed.kernels import linear_cross_entropy
from allyouneed.runs import schedule_of
from allyouneed.settings import PRESETS
from allyouneed.tokens import BOS, EOS, PAD, Batch, pad, token_batches
from allyouneed.training import (
    Guard,
    Objective,
    Record,
    adam,
    average,
    clip_gradients,
    dtype_of,
    label_smoothed_loss,
    learning_rate,
    train,
    validation_loss,
)
from allyouneed.transformer import Transformer, TransformerConfig

V = 30
DRAWS = torch.Generator().manual_seed(1)
LENGTHS = [1, 9, 2, 7, 3, 3, 8, 1, 5, 4, 6, 2, 10]


def words(length: int) -> list[int]:
    return torch.randint(EOS + 1, V, (length,), generator=DRAWS).tolist()


PAIRS = [(words(n), words(m)) for n, m in zip(LENGTHS, reversed(LENGTHS), strict=True)]


def model_of(**options) -> Transformer:
    torch.manual_seed(0)
    return Transformer(
        TransformerConfig(V, 16, 32, 2, **{"n_layers": 1, "dropout": 0.0, **options})
    )


def batches(epoch: int):
    return token_batches(PAIRS, 40, 0, epoch)


def wider(batch: Batch, columns: int) -> Batch:
    """The same pairs with more padding on both sides of the batch."""
    return Batch(F.pad(batch.src, (0, columns)), F.pad(batch.tgt, (0, columns + 1)))


def weights(model) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


# The loss


def by_hand(logits, target, smoothing):
    """-sum_k q_k log p_k, one target, q spelled out."""
    p = [math.exp(z) for z in logits]
    q = [0.0 if k == PAD else smoothing / (len(p) - 1) for k in range(len(p))]
    q[target] += 1 - smoothing
    return -sum(qk * math.log(pk / sum(p)) for qk, pk in zip(q, p, strict=True))


def test_smoothing_by_hand():
    logits = torch.tensor([[0.1, 0.2, 0.3, 2.0], [1.0, -1.0, 0.0, 0.5], [9.0, 9.0, 9.0, 9.0]])
    loss, tokens = label_smoothed_loss(logits, torch.tensor([3, 2, PAD]), 0.3)
    assert tokens == 2
    expected = by_hand(logits[0].tolist(), 3, 0.3) + by_hand(logits[1].tolist(), 2, 0.3)
    assert float(loss) == pytest.approx(expected, rel=1e-5)


@settings(max_examples=30)
@given(st.integers(1, 20), st.integers(3, 20), st.floats(0, 0.9), st.integers(0, 99))
def test_smoothing_is_that_of_pytorch_without_padding(n, v, smoothing, seed):
    """F.cross_entropy smooths over all classes: without PAD among them, the two are the same."""
    g = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, v, generator=g)
    targets = torch.randint(1, v, (n,), generator=g)
    loss, _ = label_smoothed_loss(logits, targets, 0.0)
    torch.testing.assert_close(loss, F.cross_entropy(logits, targets, reduction="sum"))
    logits[:, PAD] = -1e2  # PAD is out of the game: v - 1 classes are left, for both
    ours = -(1 - smoothing) * logits.log_softmax(-1).gather(1, targets[:, None]).sum()
    ours -= smoothing / (v - 1) * logits.log_softmax(-1)[:, 1:].sum()
    theirs = F.cross_entropy(logits[:, 1:], targets - 1, reduction="sum", label_smoothing=smoothing)
    loss, _ = label_smoothed_loss(logits, targets, smoothing)
    torch.testing.assert_close(loss, theirs, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(loss, ours, rtol=1e-4, atol=1e-4)


def test_smoothing_gives_padding_no_mass():
    logits = torch.zeros(4, 5, requires_grad=True)
    loss, _ = label_smoothed_loss(logits, torch.tensor([1, 2, 3, PAD]), 0.4)
    loss.backward()
    p = 1 / 5
    assert torch.allclose(logits.grad[:3, PAD], torch.tensor(p))  # p - 0
    assert torch.allclose(logits.grad[0, 2], torch.tensor(p - 0.1))  # p - eps / (V - 1)
    assert torch.allclose(logits.grad[0, 1], torch.tensor(p - 0.6 - 0.1))
    assert (logits.grad[3] == 0).all()


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, math.nan])
def test_bad_smoothing(smoothing):
    with pytest.raises(ValueError, match="smoothing: expected"):
        label_smoothed_loss(torch.zeros(2, 5), torch.ones(2, dtype=torch.long), smoothing)


def test_bad_shapes():
    with pytest.raises(ValueError, match="targets: expected"):
        inspect.unwrap(label_smoothed_loss)(torch.zeros(2, 5), torch.ones(3, dtype=torch.long))


@pytest.mark.parametrize("norm_first", [False, True])
def test_objective_is_the_model_and_the_loss(norm_first):
    """The fast step gives what the spelled-out one gives: loss and every gradient."""
    batch = Batch(pad([[*s, EOS] for s, _ in PAIRS]), pad([[BOS, *t, EOS] for _, t in PAIRS]))
    model = model_of(norm_first=norm_first)
    parameters = list(model.parameters())
    fast = Objective(model, 0.1, torch.float32)(batch.src, batch.tgt)
    grads = torch.autograd.grad(fast, parameters)
    loss, tokens = label_smoothed_loss(model(batch.src, batch.tgt[:, :-1]), batch.tgt[:, 1:], 0.1)
    assert tokens == sum(len(t) + 1 for _, t in PAIRS)
    torch.testing.assert_close(fast, loss, rtol=1e-5, atol=1e-4)
    for a, b in zip(grads, torch.autograd.grad(loss, parameters), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
    half = Objective(model, 0.1, torch.bfloat16)(batch.src, batch.tgt)
    torch.testing.assert_close(half, loss, rtol=0.02, atol=0.0)
    for a, b in zip(torch.autograd.grad(half, parameters), grads, strict=True):
        assert (a - b).norm() < 0.25 * b.norm() + 1e-3


class AllLogits(Objective):
    """The chapter's loss, to the letter."""

    def loss(self, states, targets):
        return label_smoothed_loss(self.model.logits(states[None])[0], targets, self.smoothing)[0]


def test_the_loss_is_the_chapters():
    batch, model = next(iter(batches(0))), model_of()
    losses = [kind(model, 0.1)(batch.src, batch.tgt) for kind in (Objective, AllLogits)]
    torch.testing.assert_close(*losses, rtol=1e-5, atol=1e-4)
    for a, b in zip(
        *(torch.autograd.grad(x, list(model.parameters())) for x in losses), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_training_goes_through_the_models_own_forward(precision):
    """A model that computes otherwise is trained as it computes."""

    class Turned(Transformer):
        def states(self, src, tgt, maps=None):
            return -super().states(src, tgt, maps)

    turned, model = (kind(model_of().config) for kind in (Turned, Transformer))
    model.load_state_dict(turned.state_dict())
    batch = next(iter(batches(0)))
    losses = [Objective(m, 0.1, dtype_of(precision))(batch.src, batch.tgt) for m in (turned, model)]
    assert abs(losses[0] - losses[1]) > 1
    logits = turned(batch.src, batch.tgt[:, :-1])
    expected, _ = label_smoothed_loss(logits, batch.tgt[:, 1:], 0.1)
    torch.testing.assert_close(losses[0], expected, rtol=0.02, atol=0.0)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_gradients_of_a_layer_are_there_before_the_one_below_begins(precision, norm_first):
    """So that several processes can exchange them while the rest is computed."""
    model, there, missing = model_of(n_layers=3, norm_first=norm_first), set(), []
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(there.add)

    def begins(above):
        missing.append([name for name, p in above.named_parameters() if p not in there])

    for below, above in itertools.pairwise([*model.encoder.layers, *model.decoder.layers]):
        below.register_full_backward_pre_hook(lambda *_, above=above: begins(above))
    batch = next(iter(batches(0)))
    Objective(model, 0.1, dtype_of(precision))(batch.src, batch.tgt).backward()
    assert missing == [[]] * 5 and there == set(model.parameters())


@pytest.mark.parametrize(
    "other",
    [{"smoothing": 0.2}, {"precision": "bf16"}, {"model": model_of()}],
    ids=["smoothing", "precision", "model"],
)
def test_an_objective_that_is_not_the_one_asked_for(other):
    model = model_of()
    objective = Objective(model, 0.1)
    with pytest.raises(ValueError, match="objective: expected"):
        next(train(**{"model": model} | other, batches=batches, steps=1, objective=objective))
    (record,) = train(model, batches, 1, objective=objective)
    assert record.loss == next(train(model_of(), batches, 1)).loss


# Padding


def test_padding_changes_neither_loss_nor_gradient():
    objective = Objective(model_of(), 0.1, torch.float32)
    for batch in batches(0):
        losses = [objective(b.src, b.tgt) for b in (batch, wider(batch, 5))]
        torch.testing.assert_close(*losses, rtol=1e-5, atol=1e-4)
        for a, b in zip(
            *(torch.autograd.grad(x, objective.parameters()) for x in losses), strict=True
        ):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


@pytest.fixture
def cudnn_asked(monkeypatch):
    """Of each call of attention, whether PyTorch may give it to cuDNN."""
    asked, attend = [], F.scaled_dot_product_attention

    def watched(*inputs, **options):
        asked.append(torch.backends.cuda.cudnn_sdp_enabled())
        return attend(*inputs, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", watched)
    return asked


@pytest.mark.parametrize("as_it_was", [True, False])
def test_attention_is_planned_for_no_shape(cudnn_asked, as_it_was):
    """Neither in an update nor in a validation; between them and afterwards all is as it was."""
    flags, model = torch.backends.cuda, model_of()
    flags.enable_cudnn_sdp(as_it_was)
    try:
        for _ in train(model, batches, 2):
            assert flags.cudnn_sdp_enabled() == as_it_was
        validation_loss(model, batches(0))
        with pytest.raises(FloatingPointError):
            model.embedding.weight.data.fill_(math.nan)
            next(train(model, batches, 1))
        assert flags.cudnn_sdp_enabled() == as_it_was
    finally:
        flags.enable_cudnn_sdp(True)
    assert len(cudnn_asked) >= 3 * (2 + len(list(batches(0))) + 1) and not any(cudnn_asked)


def test_batching_changes_neither_validation_loss_nor_translations():
    model = model_of()
    one_by_one = [token_batches([pair], 40) for pair in PAIRS]
    ways = [batches(0), batches(3), [wider(b, 4) for b in batches(0)], itertools.chain(*one_by_one)]
    nothing = Batch(pad([[5, EOS]]), pad([[BOS]]))
    ways.append([nothing, *batches(0)])  # a batch without target tokens counts for nothing
    losses = [validation_loss(model, way) for way in ways]
    assert losses == pytest.approx([losses[0]] * 5, rel=1e-5)
    sums = [label_smoothed_loss(model(b.src, b.tgt[:, :-1]), b.tgt[:, 1:], 0.0) for b in batches(0)]
    loss, tokens = map(sum, zip(*sums, strict=True))
    assert losses[0] == pytest.approx(float(loss.detach()) / tokens, rel=1e-5)
    sources = [[*source, EOS] for source, _ in PAIRS]
    together = greedy(model, F.pad(pad(sources), (0, 6)), 12)
    assert together == [greedy(model, pad([source]), 12)[0] for source in sources]


def test_validation_leaves_every_part_in_its_mode():
    """Also where some learn and some do not, and after an error."""
    model = model_of().train()
    model.encoder.eval()
    modes = [part.training for part in model.modules()]
    validation_loss(model, batches(0))
    assert modes == [part.training for part in model.modules()]
    with pytest.raises(ValueError, match="src: expected ids"):
        validation_loss(model, [Batch(torch.tensor([[V]]), torch.tensor([[BOS, 4, EOS]]))])
    assert modes == [part.training for part in model.modules()]


def test_update_does_not_depend_on_padding_or_on_how_pairs_are_batched():
    """An update by three batches is the update by their pairs in one batch, or padded wider."""
    few = list(itertools.islice(batches(0), 3))
    rows = [
        (s[s != PAD].tolist(), t[t != PAD].tolist())
        for b in few
        for s, t in zip(b.src, b.tgt, strict=True)
    ]
    one = Batch(pad([s for s, _ in rows]), pad([t for _, t in rows]))
    found = []
    for group in (few, [one], [wider(b, 3) for b in few]):
        model = model_of()
        (record,) = train(model, lambda epoch, g=group: g, 1, accumulate=len(group))
        found.append((weights(model), record.loss, record.tokens, record.norm))
    for other in found[1:]:
        torch.testing.assert_close(other[0], found[0][0], rtol=1e-3, atol=1e-5)
        assert other[1:] == pytest.approx(found[0][1:], rel=1e-4)


# The schedule


@pytest.mark.parametrize(
    "step, d_model, warmup, expected",
    [
        (1, 512, 4000, 512**-0.5 * 4000**-1.5),  # 1.75e-7
        (2000, 512, 4000, 3.493856e-4),  # half way up: half of the peak
        (4000, 512, 4000, 6.987712e-4),  # the peak: 1 / sqrt(512 * 4000)
        (16000, 512, 4000, 3.493856e-4),  # four times as far: half of the peak again
        (100, 256, 100, 1 / 160),
        (1, 4, 1, 0.5),
    ],
)
def test_equation_3(step, d_model, warmup, expected):
    assert learning_rate(step, d_model, warmup) == pytest.approx(expected, rel=1e-6)


def test_the_papers_settings_are_those_one_gets():
    """Sections 5.3 and 5.4: Adam's, 4,000 updates of warm-up, and smoothing of 0.1."""
    settings = adam(model_of()).defaults
    assert (settings["betas"], settings["eps"]) == ((0.9, 0.98), 1e-9)
    assert not settings["weight_decay"] and not settings["amsgrad"]
    rates = [learning_rate(step, 512) for step in (3999, 4000, 4001)]
    assert max(rates) == rates[1] == pytest.approx(6.987712e-4, rel=1e-6)
    logits, targets = torch.randn(5, V), torch.arange(1, 6)
    assert label_smoothed_loss(logits, targets) == label_smoothed_loss(logits, targets, 0.1)
    x, weight = torch.randn(5, 8), torch.randn(V, 8)
    fast = [linear_cross_entropy(x, weight, targets, *given) for given in ((), (0.1,))]
    assert fast[0] == fast[1]


def test_schedule_rises_then_falls():
    rates = [learning_rate(step, 64, 50) for step in range(1, 300)]
    assert rates.index(max(rates)) == 49
    assert rates[:50] == sorted(rates[:50]) and rates[49:] == sorted(rates[49:], reverse=True)
    with pytest.raises(ValueError, match="step: expected at least 1, got 0"):
        learning_rate(0, 64)


@pytest.mark.parametrize("scale", [1.0, torch.tensor(8.0)], ids=["plain", "scaled"])
@pytest.mark.parametrize("max_norm", [0.5, 1e6, math.inf])
def test_gradients_are_clipped_together(max_norm, scale):
    """As PyTorch does it; with a scale, they are divided by it first. The length is that before."""
    model, other = model_of(), model_of()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        a.grad = torch.randn_like(a)
        b.grad = a.grad / scale
    length = clip_gradients(model, max_norm, scale)
    expected = torch.nn.utils.clip_grad_norm_(other.parameters(), max_norm)
    torch.testing.assert_close(length, expected)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-7)
    before = [p.grad.clone() for p in other.parameters()]
    clip_gradients(other, math.inf)  # no limit and no scale: nothing changes
    assert all(torch.equal(p.grad, g) for p, g in zip(other.parameters(), before, strict=True))


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_an_update_is_as_long_as_max_norm_allows(precision):
    """By the plainest optimiser, with a rate of 1; the record has the length before."""
    model = model_of()
    before, sgd = weights(model), torch.optim.SGD(model.parameters(), lr=1.0)
    options = {"schedule": lambda step: 1.0, "precision": precision, "max_norm": 0.1}
    (record,) = train(model, batches, 1, sgd, **options)
    assert float((weights(model) - before).norm()) == pytest.approx(0.1, rel=1e-3)
    assert record.norm > 0.2


# The loop


def test_records_tell_what_happened():
    records = list(train(model_of(), batches, 9, accumulate=3, max_norm=1.0))
    count = sum(1 for _ in batches(0))
    per_epoch = math.ceil(count / 3)
    assert count % 3  # the last update of an epoch has fewer batches
    assert [r.step for r in records] == list(range(1, 10))
    assert [r.epoch for r in records] == [i // per_epoch for i in range(9)]
    assert sum(r.tokens for r in records[:per_epoch]) == sum(len(t) + 1 for _, t in PAIRS)
    assert [r.batch for r in records[:per_epoch]][-1] == count
    assert [r.learning_rate for r in records] == [learning_rate(s, 16) for s in range(1, 10)]


def test_it_learns():
    model = model_of()
    records = list(train(model, batches, 150, schedule=lambda step: 3e-3, smoothing=0.0))
    assert records[0].loss == pytest.approx(math.log(V), rel=0.3)
    assert validation_loss(model, batches(0)) < 0.5 < records[0].loss


@pytest.mark.parametrize("stop", [1, 4, 5, 6])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_resumed_is_the_same_bit_for_bit(stop, precision):
    settings = dict(precision=precision, accumulate=2, max_norm=0.5, seed=3)
    whole = model_of(dropout=0.3)
    optimizer = adam(whole)
    losses = [r.loss for r in train(whole, batches, 11, optimizer, **settings)]
    first = model_of(dropout=0.3)
    first_optimizer = adam(first)
    for record in train(first, batches, 11, first_optimizer, **settings):
        torch.rand(3)  # what others draw meanwhile does not matter
        if record.step == stop:
            break
    second = model_of(dropout=0.3)
    second.load_state_dict(first.state_dict())
    second_optimizer = adam(second)
    second_optimizer.load_state_dict(first_optimizer.state_dict())
    rest = train(second, batches, 11, second_optimizer, after=record, **settings)
    assert [r.loss for r in rest] == losses[stop:]
    assert torch.equal(weights(second), weights(whole))
    assert not torch.equal(weights(first), weights(whole))


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_half_precision_draws_fewer_random_bits(precision):
    """On a CPU, in every dropout of the model; afterwards each is PyTorch's again."""
    asked = []

    class Asked(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, inputs=(), options=None):
            asked.append(operation.overloadpacket.__name__)
            return operation(*inputs, **(options or {}))

    model = model_of(dropout=0.1).train()
    dropouts = sum(type(part) is nn.Dropout for part in model.modules())
    batch = next(iter(batches(0)))
    with Asked():
        Objective(model, 0.1, dtype_of(precision))(batch.src, batch.tgt)
    few, many = (sum(name.startswith(kind) for name in asked) for kind in ("random", "bernoulli"))
    expected = dropouts + 1  # that of the embeddings falls on both sides
    assert (few, many) == ((0, expected) if precision == "fp32" else (expected, 0))
    assert sum(type(part) is nn.Dropout for part in model.modules()) == dropouts


def test_float16_learns_as_float32_does():
    model, half = model_of(), model_of()
    schedule = lambda step: 3e-3  # noqa: E731
    list(train(model, batches, 150, schedule=schedule, smoothing=0.0))
    *_, record = train(half, batches, 150, schedule=schedule, smoothing=0.0, precision="fp16")
    assert record.skipped == 0 and record.scale == 2.0**16
    loss = validation_loss(model, batches(0))
    assert validation_loss(half, batches(0), "fp16") == pytest.approx(loss, abs=0.05)
    assert loss < 0.5


def test_float16_is_nearer_to_float32_than_other_seeds_are(monkeypatch):
    """The preset tiny's model, which learns to copy: ten times nearer, on the CPU."""
    monkeypatch.setattr(training, "few_bits", lambda *_: nullcontext())  # it drops other entries
    preset, steps, draw = PRESETS["tiny"], 80, random.Random(0)
    sentences = [[draw.randrange(4, 44) for _ in range(draw.randint(2, 8))] for _ in range(400)]
    pairs = [(words, words) for words in sentences]
    held_out = list(token_batches(pairs[340:], 160))

    def reached(seed: int, precision: str) -> float:
        torch.manual_seed(seed)
        model = Transformer(
            TransformerConfig(
                preset.vocabulary, preset.d_model, preset.d_ff, preset.heads, preset.layers,
                preset.dropout, preset.norm_first,
            )
        )  # fmt: skip
        given = lambda epoch: token_batches(pairs[:340], 160, seed, epoch)  # noqa: E731
        rates = schedule_of(replace(preset, warmup=20), steps)
        for record in train(model, given, steps, schedule=rates, precision=precision, seed=seed):
            assert record.skipped == 0
        return validation_loss(model, held_out, precision)

    exact = [reached(seed, "fp32") for seed in range(3)]
    assert max(exact) < math.log(40)  # it copies: 40 words, drawn alike
    assert abs(reached(0, "fp16") - exact[0]) < (max(exact) - min(exact)) / 10


def test_what_overflows_is_skipped_and_the_rest_is_learned():
    """From a scale that is a thousand times too large. Where a gradient is large later on, one more
    may be skipped: that is for the processor's last places to decide."""
    model, begin = model_of(), Record(scale=2.0**26)
    records = list(
        train(model, batches, 150, schedule=lambda step: 3e-3, precision="fp16", after=begin)
    )
    skipped = [record.skipped for record in records]
    good = 0
    for before, record in zip([0, *skipped], records, strict=False):
        good = good + 1 if record.skipped == before else 0
        assert (record.good, record.scale) == (good, 2.0 ** (26 - record.skipped))
        assert math.isfinite(record.norm) == (record.skipped == before)
    assert skipped[:3] == [1, 2, 3] and skipped[-1] < 20
    assert validation_loss(model, batches(0)) < 1 < math.log(V)


def test_an_update_that_overflows_changes_nothing_but_the_scale():
    model = model_of()
    optimizer = adam(model)
    begin = Record(scale=2.0**120)
    before = weights(model)
    (record,) = train(model, batches, 1, optimizer, precision="fp16", after=begin)
    assert (record.scale, record.good, record.skipped) == (2.0**119, 0, 1)
    assert torch.equal(weights(model), before)
    assert all(float(state["step"]) == 0 for state in optimizer.state.values())


def test_the_scale_grows_after_two_thousand_good_updates():
    *_, record = train(model_of(), batches, 2, precision="fp16", after=Record(good=1998))
    assert (record.scale, record.good, record.skipped) == (2.0**17, 0, 0)


def test_float16_gives_up_on_what_no_scale_mends():
    model = model_of()
    with torch.no_grad():
        model.encoder.layers[0].feed_forward.w_1.weight[0, 0] = math.nan
    updates = train(model, batches, 9, precision="fp16", after=Record(scale=4.0))
    with pytest.raises(FloatingPointError, match="expected a finite number, got nan at step 3"):
        list(updates)


def test_a_row_that_is_hidden_whole_is_no_nan_in_float16():
    """A sentence of padding alone, beside a real one."""
    src, tgt = pad([[5, EOS], []]), pad([[BOS, 6, EOS], [BOS, 7, EOS]])
    model = model_of()
    loss = Objective(model, 0.1, torch.float16)(src, tgt)
    loss.backward()
    assert loss.isfinite() and all(p.grad.isfinite().all() for p in model.parameters())


def test_precisions():
    types = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    assert {name: dtype_of(name) for name in types} == types
    assert dtype_of("auto") in types.values()
    with pytest.raises(ValueError, match="precision: expected one of auto, bf16, fp16, fp32, got"):
        next(train(model_of(), batches, 1, precision="half"))


def test_another_optimiser_is_kept_from_what_is_not_finite():
    """One that does not know the flag of the fused Adam."""
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    next(train(model, batches, 2, optimizer, schedule=lambda step: 0.1))
    with torch.no_grad():
        model.encoder.layers[0].feed_forward.w_1.weight[0, 0] = math.nan
    before = weights(model)
    with pytest.raises(FloatingPointError, match="got nan at step 1"):
        next(train(model, batches, 2, optimizer, schedule=lambda step: 0.1))
    after = weights(model)
    assert ((after == before) | after.isnan()).all() and after.isnan().sum() == 1


def test_seed_matters_and_nothing_else():
    def run(seed: int) -> torch.Tensor:
        model = model_of(dropout=0.3)
        list(train(model, batches, 3, seed=seed))
        return weights(model)

    assert torch.equal(run(1), run(1)) and not torch.equal(run(1), run(2))


def test_no_two_updates_draw_alike():
    """Of one run, nor of runs of neighbouring seeds."""
    seeds = range(3)
    drawn = [torch.rand(3).tolist() for s in seeds for _ in train(model_of(), batches, 4, seed=s)]
    assert len({tuple(each) for each in drawn}) == 4 * len(seeds)


def test_every_process_draws_for_itself(monkeypatch):
    drawn = []
    for rank in range(2):
        one_of_two = SimpleNamespace(
            is_initialized=lambda: True,
            get_rank=lambda rank=rank: rank,
            get_world_size=lambda: 2,
            all_reduce=lambda total: None,
        )
        monkeypatch.setattr(training, "distributed", one_of_two)
        model = model_of()
        updates = train(model, batches, 3, objective=Objective(model, 0.1))
        drawn += [tuple(torch.rand(3).tolist()) for _ in updates]
    assert len(set(drawn)) == len(drawn) == 6


def test_a_loss_that_is_no_number_stops_before_the_weights_change():
    model = model_of()
    updates = train(model, batches, 5, schedule=lambda step: 1e-3)
    next(updates)
    before = weights(model)
    with torch.no_grad():
        model.encoder.layers[0].feed_forward.w_1.weight[0, 0] = math.nan
    with pytest.raises(FloatingPointError, match="expected a finite number, got nan at step 2"):
        next(updates)
    after = weights(model)
    assert ((after == before) | after.isnan()).all() and after.isnan().sum() == 1


def test_no_update_after_a_failed_one_changes_the_weights():
    """Also where nobody looks for a while, as on a GPU."""
    model = model_of()
    optimizer, guard = adam(model), Guard(Record(step=6), torch.float32)
    optimizer.param_groups[0]["lr"] = 0.1

    def update(loss: float, gradient: float) -> torch.Tensor:
        for p in model.parameters():
            p.grad = torch.full_like(p, gradient)
        guard.step(optimizer, torch.tensor(loss), torch.tensor(gradient))
        return weights(model)

    begin, good = weights(model), update(1.0, 1.0)
    assert not torch.equal(begin, good)
    for loss, gradient in ((1.0, math.inf), (1.0, 1.0), (math.nan, 1.0), (1.0, 1.0)):
        assert torch.equal(update(loss, gradient), good)
    with pytest.raises(FloatingPointError, match="gradient: .*, got inf at step 8;"):
        guard.raise_if_failed()


def test_ids_outside_of_the_vocabulary():
    good = torch.tensor([[BOS, 4, EOS]])
    for bad in (V, V + 5, -1):
        wrong = torch.tensor([[4, bad, EOS]])
        for name, batch in (("src", Batch(wrong, good)), ("tgt", Batch(good, wrong))):
            model = model_of()
            before = weights(model)
            expected = f"{name}: expected ids from 0 to {V - 1}, got {bad}"
            with pytest.raises(ValueError, match=expected):
                next(train(model, lambda epoch, b=batch: [b], 1))
            assert (weights(model) == before).all()


def test_bad_settings():
    with pytest.raises(ValueError, match="at least 1 and 0, got 0 and 1"):
        next(train(model_of(), batches, 1, accumulate=0))
    with pytest.raises(ValueError, match="at least 1 and 0, got 1 and -1"):
        next(train(model_of(), batches, -1))
    with pytest.raises(ValueError, match="expected at least one batch in epoch 0"):
        next(train(model_of(), lambda epoch: [], 1))
    for limit in (-1.0, 0.0, math.nan):
        with pytest.raises(ValueError, match="max_norm: expected a length above 0"):
            next(train(model_of(), batches, 1, max_norm=limit))
    for rate in (-1.0, math.nan, math.inf):
        model = model_of()
        before = weights(model).clone()
        with pytest.raises(ValueError, match="schedule: expected a rate of at least 0, got .* 1"):
            next(train(model, batches, 1, schedule=lambda step, rate=rate: rate))
        assert (weights(model) == before).all()
    nothing = Batch(pad([[5, EOS]]), pad([[BOS]]))
    with pytest.raises(ValueError, match="batches: expected target tokens after BOS"):
        next(train(model_of(), lambda epoch: [nothing], 1))
    for empty in ([], [nothing]):
        with pytest.raises(ValueError, match="batches: expected target tokens after BOS"):
            validation_loss(model_of(), empty)
    assert list(train(model_of(), batches, 0)) == []
    assert list(train(model_of(), batches, 3, after=Record(step=3))) == []


# Averages


def test_average():
    states = [
        {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor(1.0)},
        {"a": torch.tensor([3.0, 6.0]), "b": torch.tensor(2.0)},
    ]
    mean = average(states)
    assert mean["a"].tolist() == [2.0, 4.0] and mean["b"] == 1.5
    assert states[0]["a"].tolist() == [1.0, 2.0]  # unchanged
    assert torch.equal(average(states[:1])["a"], states[0]["a"])
    half = average([{"a": torch.ones(1, dtype=torch.bfloat16)}] * 3)["a"]
    assert half.dtype == torch.bfloat16 and half == 1


def test_average_of_what_does_not_fit():
    with pytest.raises(ValueError, match="at least one"):
        average([])
    with pytest.raises(ValueError, match=r"expected shape \(2,\) of a in each, got \(3,\)"):
        average([{"a": torch.ones(2)}, {"a": torch.ones(3)}])
    with pytest.raises(ValueError, match=r"expected shape \(2,\) of a in each, got None"):
        average([{"a": torch.ones(2)}, {"b": torch.ones(2)}])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_on_a_gpu_as_on_a_cpu(precision):
    losses = []
    for device in ("cpu", "cuda"):
        model = model_of().to(device)
        records = train(model, batches, 20, schedule=lambda step: 1e-2, precision=precision)
        losses.append([record.loss for record in records])
    close = 1e-3 if precision == "fp32" else 5e-2
    assert losses[1] == pytest.approx(losses[0], rel=close)
    assert losses[1][-1] < losses[1][0]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("precision", ["fp32", "auto"])
@pytest.mark.parametrize("larger", [False, True])
def test_no_update_waits_for_the_gpu(precision, larger):
    """Between two reports the host never waits: PyTorch raises where it would.

    Above 3,072 ids the gradient of the embedding comes from another kernel.
    """
    draw = torch.Generator().manual_seed(0)
    src, tgt = (torch.randint(EOS + 1, V, (80, n), generator=draw) for n in (41, 47))
    tgt[:, 0], given = BOS, (lambda epoch: [Batch(src, tgt)]) if larger else batches
    assert not larger or min(src.numel(), tgt[:, :-1].numel()) > 3072
    model = model_of(dropout=0.1).cuda()
    records = train(model, given, 30, schedule=lambda step: 1e-3, precision=precision)
    for _ in range(5):  # the first ones set things up
        next(records)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(10):
            next(records)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert math.isfinite(list(records)[-1].loss)
