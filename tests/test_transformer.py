"""The Transformer: PyTorch's with the same weights, the paper's in shape, and honest about time."""

from __future__ import annotations

import math
import subprocess
import sys

import killed
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from allyouneed.masks import causal_mask, padding_mask
from allyouneed.positions import sinusoids
from allyouneed.tokens import BOS, EOS, PAD, pad
from allyouneed.transformer import BASE, BIG, Transformer, TransformerConfig

D, HEADS, WIDE, LAYERS, VOCABULARY = 8, 2, 16, 2, 17
SRC = torch.tensor([[5, 6, 7, 8, 3], [9, 10, 3, 0, 0], [11, 3, 0, 0, 0]])
TGT = torch.tensor([[2, 6, 0, 0], [2, 9, 5, 12], [2, 4, 4, 0]])


def tiny(norm_first: bool = False, dropout: float = 0.0, seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(
        TransformerConfig(VOCABULARY, D, WIDE, HEADS, LAYERS, dropout, norm_first)
    ).eval()


def twins(ours, theirs):
    """Our parameters, as a list, and PyTorch's one that holds them one below the other."""
    for stack, other in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        for layer, twin in zip(stack.layers, other.layers, strict=True):
            attentions = [(layer.self_attention, twin.self_attn)]
            if hasattr(layer, "cross_attention"):
                attentions.append((layer.cross_attention, twin.multihead_attn))
            for a, b in attentions:
                yield [a.w_q.weight, a.w_k.weight, a.w_v.weight], b.in_proj_weight
                yield [a.w_o.weight], b.out_proj.weight
            net = layer.feed_forward
            for a, b in ((net.w_1, twin.linear1), (net.w_2, twin.linear2)):
                yield [a.weight], b.weight
                yield [a.bias], b.bias
            for i, residual in enumerate(layer.residuals, 1):
                yield [residual.norm.gamma], getattr(twin, f"norm{i}").weight
                yield [residual.norm.beta], getattr(twin, f"norm{i}").bias
        if other.norm is not None:
            yield [stack.norm.gamma], other.norm.weight
            yield [stack.norm.beta], other.norm.bias


def both(norm_first: bool, dtype: torch.dtype) -> tuple[Transformer, nn.Transformer]:
    """Ours and PyTorch's with the same shaken weights. PyTorch's attention has biases, which stay
    at zero; its final norms are taken out in post-norm, which has none in the paper."""
    ours = tiny(norm_first).to(dtype).train()
    theirs = nn.Transformer(
        D, HEADS, LAYERS, LAYERS, WIDE, 0.0, batch_first=True, norm_first=norm_first, dtype=dtype
    )
    if not norm_first:
        theirs.encoder.norm = theirs.decoder.norm = None
    with torch.no_grad():
        for mine, other in twins(ours, theirs):
            other.add_(torch.randn_like(other) * 0.3)
            for parameter, rows in zip(mine, other.chunk(len(mine)), strict=True):
                parameter.copy_(rows)
    return ours, theirs


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("padding", ["none", "source", "target", "both"])
@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
def test_the_stacks_are_pytorchs(norm_first, padding, causal, dtype):
    """Outputs, and the gradients of both inputs and of every parameter."""
    ours, theirs = both(norm_first, dtype)
    x, y = (torch.randn(3, n, D, dtype=dtype, requires_grad=True) for n in (5, 4))
    u, v = (t.detach().clone().requires_grad_() for t in (x, y))
    src_mask = padding_mask(SRC, PAD) if padding in ("source", "both") else None
    tgt_mask = padding_mask(TGT, PAD) if padding in ("target", "both") else None
    hidden_src = None if src_mask is None else SRC == PAD
    hidden_tgt = None if tgt_mask is None else TGT == PAD
    if causal:
        triangle = causal_mask(4)
        tgt_mask = triangle if tgt_mask is None else tgt_mask & triangle
    out = ours.decoder(y, ours.encoder(x, src_mask), src_mask, tgt_mask)
    expected = theirs(
        u,
        v,
        tgt_mask=~causal_mask(4) if causal else None,
        src_key_padding_mask=hidden_src,
        tgt_key_padding_mask=hidden_tgt,
        memory_key_padding_mask=hidden_src,
    )
    close = {"rtol": 1e-3, "atol": 1e-3} if dtype == torch.float32 else {"rtol": 0, "atol": 1e-10}
    torch.testing.assert_close(out, expected, **close)
    wish = torch.randn_like(out)
    out.backward(wish)
    expected.backward(wish)
    torch.testing.assert_close(x.grad, u.grad, **close)
    torch.testing.assert_close(y.grad, v.grad, **close)
    seen = set()
    for mine, other in twins(ours, theirs):
        torch.testing.assert_close(torch.cat([p.grad for p in mine]), other.grad, **close)
        seen |= {id(p) for p in mine}
    every = {id(p) for p in ours.parameters()} - {id(ours.embedding.weight)}
    assert seen == every


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
def test_the_whole_is_pytorchs_between_embedding_and_logits(norm_first):
    ours, theirs = both(norm_first, torch.float64)
    E = ours.embedding.weight.detach().clone().requires_grad_()
    embed = lambda ids: E[ids] * math.sqrt(D) + sinusoids(ids.shape[1], D).double()  # noqa: E731
    states = theirs(
        embed(SRC),
        embed(TGT),
        tgt_mask=~causal_mask(4),
        src_key_padding_mask=SRC == PAD,
        tgt_key_padding_mask=TGT == PAD,
        memory_key_padding_mask=SRC == PAD,
    )
    real = TGT != PAD  # what stands at the padding's own places nobody reads
    expected = (states @ E.T)[real]
    logits = ours(SRC, TGT)[real]
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-9)
    labels = torch.randint(VOCABULARY, (len(logits),))
    for scores in (logits, expected):
        F.cross_entropy(scores, labels).backward()
    torch.testing.assert_close(ours.embedding.weight.grad, E.grad, rtol=0, atol=1e-9)


def formula(c: TransformerConfig) -> int:
    net = 2 * c.d_model * c.d_ff + c.d_ff + c.d_model
    layers = c.n_layers * (12 * c.d_model**2 + 2 * net + 10 * c.d_model)
    return c.vocab_size * c.d_model + layers + 4 * c.d_model * c.norm_first


def count(config: TransformerConfig) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in Transformer(config).parameters())


def test_parameters_of_the_papers_models():
    assert count(BASE) == formula(BASE) == 63_045_632  # the paper: 65 million
    assert count(BIG) == formula(BIG) == 214_171_648  # the paper: 213 million


@given(
    vocabulary=st.integers(4, 40),
    half=st.integers(1, 6),
    d_ff=st.integers(1, 20),
    n_layers=st.integers(1, 3),
    norm_first=st.booleans(),
)
@settings(max_examples=8)
def test_parameters_are_the_formulas(vocabulary, half, d_ff, n_layers, norm_first):
    config = TransformerConfig(vocabulary, 2 * half, d_ff, 2, n_layers, 0.0, norm_first)
    assert count(config) == formula(config)


sentences = st.lists(st.lists(st.integers(4, VOCABULARY - 1), max_size=6), min_size=1, max_size=4)


@given(sources=sentences, seed=st.integers(0, 9), norm_first=st.booleans(), data=st.data())
@settings(max_examples=8)
def test_a_sentence_is_the_same_alone_and_in_a_batch(sources, seed, norm_first, data):
    model = tiny(norm_first, seed=seed).double()
    same_number = st.lists(
        st.lists(st.integers(4, VOCABULARY - 1), max_size=6),
        min_size=len(sources),
        max_size=len(sources),
    )
    targets = data.draw(same_number)
    src, tgt = pad([[*s, EOS] for s in sources]), pad([[BOS, *t] for t in targets])
    together = model(src, tgt)
    assert together.isfinite().all()
    for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
        alone = model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]]))[0]
        torch.testing.assert_close(together[i, : len(alone)], alone)


@given(t=st.integers(0, 4), seed=st.integers(0, 9), norm_first=st.booleans())
@settings(max_examples=8)
def test_the_future_changes_nothing(t, seed, norm_first):
    model = tiny(norm_first, seed=seed).double()
    tgt = torch.randint(4, VOCABULARY, (3, 6))
    other = tgt.clone()
    other[:, t + 1 :] = torch.randint(4, VOCABULARY, (3, 5 - t))
    torch.testing.assert_close(model(SRC, tgt)[:, : t + 1], model(SRC, other)[:, : t + 1])


@pytest.mark.parametrize("norm_first", [False, True])
def test_no_gradient_from_the_future(norm_first):
    model = tiny(norm_first).double()
    tgt = torch.tensor([[BOS, 12, 13, 14, 15, 16]])  # tokens that are not in the source
    states = model.decode(tgt, *model.encode(SRC[:1]))[0]
    wish = torch.randn(D, dtype=torch.float64)
    for t, state in enumerate(states):
        (gradient,) = torch.autograd.grad(state @ wish, model.embedding.weight, retain_graph=True)
        reached = gradient[tgt[0]].abs().sum(-1) > 0
        assert reached.tolist() == [s <= t for s in range(6)]


def test_the_source_is_used_and_its_order_matters():
    model = tiny()
    out = model(SRC, TGT)
    assert (out - model(SRC.roll(1, 0), TGT)).abs().max() > 1e-2
    turned = SRC.clone()
    turned[0, :4] = SRC[0, :4].flip(0)
    assert (out - model(turned, TGT))[0].abs().max() > 1e-2


@pytest.mark.parametrize("norm_first", [False, True])
def test_gradients_reach_every_parameter(norm_first):
    model = tiny(norm_first)
    F.cross_entropy(model(SRC, TGT).flatten(0, 1), TGT.roll(-1, 1).flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_forward_is_the_logits_of_the_states():
    model = tiny()
    states = model.decode(TGT, *model.encode(SRC))
    assert torch.equal(model.states(SRC, TGT), states)
    assert torch.equal(model(SRC, TGT), model.logits(states))


def test_the_causal_mask_hides_the_targets_padding():
    """From every token: a mask of the padding besides changes nothing for them."""
    model = tiny()
    memory, src_mask = model.encode(SRC)
    assert torch.equal(src_mask, padding_mask(SRC, PAD))
    both_masks = padding_mask(TGT, PAD) & causal_mask(TGT.shape[1])
    expected = model.decoder(model.embed(TGT), memory, src_mask, both_masks)
    real = TGT != PAD
    torch.testing.assert_close(model.states(SRC, TGT)[real], expected[real])


def test_maps_have_a_row_for_each_query():
    model = tiny()
    logits, maps = model(SRC, TGT, return_weights=True)
    torch.testing.assert_close(logits, model(SRC, TGT), rtol=1e-4, atol=1e-4)
    shapes = {"encoder": (3, HEADS, 5, 5), "decoder": (3, HEADS, 4, 4), "cross": (3, HEADS, 4, 5)}
    for name, shape in shapes.items():
        layers = getattr(maps, name)
        assert [tuple(weights.shape) for weights in layers] == [shape] * LAYERS
        for weights in layers:
            torch.testing.assert_close(weights.sum(-1), torch.ones(shape[:-1]))
    hidden = ~padding_mask(SRC, PAD)
    assert all(w.mul(hidden).sum() == 0 for w in (*maps.encoder, *maps.cross))
    assert all(w.triu(1).sum() == 0 for w in maps.decoder)


def test_dropout_is_on_embeddings_and_sub_layers_only():
    model = tiny(dropout=0.5)
    kinds = [name for name, m in model.named_modules() if isinstance(m, nn.Dropout) and m.p]
    assert len(kinds) == 1 + LAYERS * (2 + 3)
    assert all(m.dropout == 0 for m in model.modules() if hasattr(m, "w_q"))
    assert torch.equal(model(SRC, TGT), model(SRC, TGT))
    model.train()
    assert not torch.equal(model(SRC, TGT), model(SRC, TGT))


def test_the_weights_it_starts_with():
    """Each matrix spread by its sides (Xavier), the embedding so that sqrt(d_model) E has entries
    of size 1. The bounds are six standard deviations."""
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(5000, 64, 256, 4, 1))
    for name, p in model.named_parameters():
        if p.dim() > 1:
            expected = 64**-0.5 if name == "embedding.weight" else (2 / sum(p.shape)) ** 0.5
            assert float(p.detach().std()) == pytest.approx(
                expected, rel=6 / (2 * p.numel()) ** 0.5
            )


def test_the_start_is_undecided():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(8000, 64, 128, 2, 2)).eval()
    src, tgt, labels = torch.randint(4, 8000, (3, 16, 9))
    loss = F.cross_entropy(model(src, tgt).flatten(0, 1), labels.flatten())
    assert 0 < loss - math.log(8000) < 1


def test_one_batch_is_learned_by_heart():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(VOCABULARY, 32, 64, 2, 1, 0.0))
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    tgt = torch.cat([TGT, torch.zeros(3, 1, dtype=torch.long)], 1)
    for _ in range(40):
        logits = model(SRC, tgt[:, :-1]).flatten(0, 1)
        loss = F.cross_entropy(logits, tgt[:, 1:].flatten(), ignore_index=PAD)
        adam.zero_grad()
        loss.backward()
        adam.step()
    assert loss < 0.1


MODEL = tiny()
BAD = [
    ("vocab_size: none", ValueError, "vocab_size", lambda: TransformerConfig(0)),
    ("d_model: odd", ValueError, "d_model", lambda: TransformerConfig(9, 7, 8, 7)),
    ("d_ff: negative", ValueError, "d_ff", lambda: TransformerConfig(9, 8, -1)),
    ("n_heads: no divisor", ValueError, "n_heads", lambda: TransformerConfig(9, 8, 8, 3)),
    ("n_layers: none", ValueError, "n_layers", lambda: TransformerConfig(9, 8, 8, 2, 0)),
    ("dropout: 1", ValueError, "dropout", lambda: TransformerConfig(dropout=1.0)),
    ("dropout: NaN", ValueError, "dropout", lambda: TransformerConfig(dropout=math.nan)),
    ("src: one axis", ValueError, "src", lambda: MODEL.encode(SRC[:, :0])),
    ("src: an id too large", ValueError, "src", lambda: MODEL(SRC + 20, TGT)),
    ("src: a negative id", ValueError, "src", lambda: MODEL(SRC - 1, TGT)),
    ("tgt: an id too large", ValueError, "tgt", lambda: MODEL(SRC, TGT + 9)),
]


@pytest.mark.parametrize("kind, name, call", [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_input_is_named(kind, name, call):
    with pytest.raises(kind, match=f"^{name}: expected .* got"):
        call()


def test_our_own_errors_speak_where_shapes_are_not_checked():
    """As readers see them: without jaxtyping's checks."""
    code = """
import torch
from allyouneed.transformer import Transformer, TransformerConfig
try:
    TransformerConfig(norm_first="no")
except TypeError as error:
    print(error)
model, src = Transformer(TransformerConfig(9, 8, 8, 2, 1)), torch.tensor([[4, 5, 3], [6, 3, 0]])
tgt = torch.tensor([[2, 7], [2, 8]])  # as many tokens as sentences: the mask would fit as (T, S)
try:
    model.decode(tgt, model.encode(src)[0], src != 0)
except ValueError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.splitlines() == [
        "norm_first: expected True or False, got 'no'",
        "src_mask: expected shape (B, 1, 1, S), got (2, 3)",
    ]


def test_a_config_does_not_change():
    with pytest.raises(AttributeError):
        BASE.d_model = 256


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_and_the_gradients_of_single_sentences():
    model, targets = tiny(), TGT[:, 1:]

    def loss(parameters, src, tgt, targets):
        logits = torch.func.functional_call(model, parameters, (src[None], tgt[None]))
        return F.cross_entropy(logits[0], targets)

    one_by_one = torch.func.vmap(lambda src, tgt: model(src[None], tgt[None])[0])(SRC, TGT)
    assert torch.allclose(one_by_one, model(SRC, TGT), atol=1e-5)
    parameters = {name: one.detach() for name, one in model.named_parameters()}
    each = torch.func.vmap(torch.func.grad(loss), (None, 0, 0, 0))
    found = each(parameters, SRC, TGT[:, :-1], targets)
    for i in range(len(SRC)):
        model.zero_grad()
        loss(dict(model.named_parameters()), SRC[i], TGT[i, :-1], targets[i]).backward()
        for name, one in model.named_parameters():
            assert torch.allclose(found[name][i], one.grad, atol=1e-5), name


EXPORT = """
import torch
from allyouneed.transformer import Transformer, TransformerConfig
model = Transformer(TransformerConfig(17, 8, 16, 2, 1)).eval()
draw = lambda *shape: torch.randint(17, shape)
some = [torch.export.Dim(name, min=2, max=50) for name in "bst"]
shapes = ({0: some[0], 1: some[1]}, {0: some[0], 1: some[2]})
graph = torch.export.export(model, (draw(3, 9), draw(3, 7)), dynamic_shapes=shapes).module()
for b, s, t in ((3, 9, 7), (5, 4, 12)):
    src, tgt = draw(b, s), draw(b, t)
    assert torch.allclose(graph(src, tgt), model(src, tgt), atol=1e-5)
"""


def test_an_exported_graph_takes_other_sizes():
    """In a process of its own: the tests' look at shapes would make the graph keep them."""
    killed.said(exec, EXPORT, {})
