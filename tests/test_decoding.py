"""Decoding: the fast way equals the plain one, and every search finds what it should."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from allyouneed import decoding
from allyouneed.cache import ROOM, FastCache
from allyouneed.decoding import (
    Beam,
    Cache,
    beam_search,
    eval_mode,
    filter_logits,
    greedy,
    penalty,
    sample,
    translate,
)
from allyouneed.kernels import in_dtype
from allyouneed.sublayers import FeedForward
from allyouneed.tokens import BOS, EOS, PAD, Tokenizer, pad
from allyouneed.transformer import Transformer, TransformerConfig

V = 12
quick = settings(deadline=None, max_examples=4)
each_norm = pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])


def a_model(norm_first: bool = False, seed: int = 0, dtype=torch.float64) -> Transformer:
    """Untrained, with weights so large that it is sure of itself, and that says EOS at times."""
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(V, 16, 32, 4, 2, 0.3, norm_first)).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def sources(count: int = 9, seed: int = 0) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 7, (count,), generator=draw).tolist()
    return pad([[*torch.randint(4, V, (n,), generator=draw).tolist(), EOS] for n in lengths])


@torch.no_grad()
def log_p(model: Transformer, src: torch.Tensor, rows: list[list[int]]) -> torch.Tensor:
    """Of every next token, without a cache; PAD and BOS are not allowed. One source, equal rows."""
    memory, mask = (x.expand(len(rows), *x.shape[1:]) for x in model.encode(src))
    logits = model.logits(model.decode(torch.tensor([[BOS, *r] for r in rows]), memory, mask))
    logits[..., [PAD, BOS]] = -math.inf
    return logits.log_softmax(-1)


def plain_greedy(model: Transformer, src: torch.Tensor, max_length: int) -> list[int]:
    ids: list[int] = []
    while len(ids) < max_length:
        best = int(log_p(model, src, [ids])[0, -1].argmax())
        if best == EOS:
            break
        ids.append(best)
    return ids


def plain_beam(model, src, beam, alpha, max_length) -> list[int]:
    """To the longest translation allowed, without stopping earlier."""
    still_open, finished = [(0.0, [])], []
    for length in range(1, max_length + 1):
        table = log_p(model, src, [ids for _, ids in still_open])[:, -1].tolist()
        candidates = [
            (score + more, [*ids, token])
            for (score, ids), row in zip(still_open, table, strict=True)
            for token, more in enumerate(row)
            if more > -math.inf
        ]
        candidates = sorted(candidates, reverse=True)[: 2 * beam]
        ended = [c for c in candidates[:beam] if c[1][-1] == EOS]
        finished += [(s / ((5 + length) / 6) ** alpha, ids[:-1]) for s, ids in ended]
        still_open = [c for c in candidates if c[1][-1] != EOS][:beam]
    return max(finished)[1] if finished else still_open[0][1]


def one_by_one(src: torch.Tensor) -> list[torch.Tensor]:
    return [row[row != PAD][None] for row in src]


both = pytest.mark.parametrize("kind", [Cache, FastCache])


@each_norm
@both
@pytest.mark.parametrize("beams", [1, 3])
def test_a_step_with_the_cache_is_the_decoders(norm_first, kind, beams):
    """Hypotheses change places and go on twice, sentences leave: each reads its own past."""
    model, src, steps = a_model(norm_first), sources(6), ROOM + 3
    draw = torch.Generator().manual_seed(0)
    with eval_mode(model):
        cache, sentence = kind(model, src, beams), torch.arange(6)
        past = torch.full((6, beams, 1), BOS)
        for step in range(steps):
            logits = cache.step(past[:, :, -1].flatten()).unflatten(0, (-1, beams))
            assert logits.shape[2] == V and (logits[..., [PAD, BOS]] == -math.inf).all()
            if step % 7 == 0 or step > ROOM - 2:
                memory, mask = model.encode(src[sentence])
                for n in range(beams):
                    states = model.decode(past[:, n], memory, mask)[:, -1:]
                    expected = model.logits(states)[:, 0]
                    others = [1, *range(EOS, V)]
                    torch.testing.assert_close(logits[:, n, others], expected[:, others])
            left = (torch.rand(len(sentence), generator=draw) > 0.03).nonzero()[:, 0]
            left = left if len(left) else torch.arange(len(sentence))
            sentence, past = sentence[left], past[left]
            parents = torch.randint(0, beams, past.shape[:2], generator=draw)
            cache.select((left[:, None] * beams + parents).flatten())
            past = past.gather(1, parents[..., None].expand_as(past))
            new = torch.randint(EOS, V, (*past.shape[:2], 1), generator=draw)
            past = torch.cat([past, new], 2)
        assert cache.length == steps and len(sentence) < 6


@each_norm
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layers_in_half_precision_decode(norm_first, dtype):
    """As a run does that trains so: states in half precision, logits in float32."""
    model, src, tokens = a_model(norm_first).float(), sources(6), torch.full((6, 1), BOS)
    with eval_mode(model), in_dtype(model.encoder, dtype), in_dtype(model.decoder, dtype):
        cache = FastCache(model, src)
        for _ in range(4):
            logits = cache.step(tokens[:, -1])
            states = model.decode(tokens, *model.encode(src))[:, -1:]
            assert logits.dtype == torch.float32 and cache.own.dtype == states.dtype == dtype
            expected = model.logits(states.float())[:, 0]
            close = 16 * torch.finfo(dtype).eps * expected.abs().max()
            assert ((logits - expected)[:, EOS:].abs() < close).all()
            tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], 1)


@quick
@given(seed=st.integers(0, 99), beam=st.integers(1, 4))
def test_the_plain_cache_in_the_place_of_the_fast_one(seed, beam):
    model, src = a_model(seed=seed), sources(5, seed)
    found = greedy(model, src, 6), beam_search(model, src, beam, max_length=6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "FastCache", Cache)
        assert (greedy(model, src, 6), beam_search(model, src, beam, max_length=6)) == found


class LowRank(nn.Linear):
    """A linear layer with a change of rank one beside its weight."""

    def __init__(self, layer: nn.Linear):
        n, m = layer.in_features, layer.out_features
        super().__init__(n, m, layer.bias is not None)
        self.load_state_dict(layer.state_dict())
        self.a, self.b = (nn.Parameter(torch.randn(k, 1)) for k in (n, m))
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + x @ self.a @ self.b.T


@each_norm
def test_parts_that_a_reader_has_put_in_are_called(norm_first):
    model, src = a_model(norm_first), sources()
    for layer in model.decoder.layers:
        own, cross, feed = layer.self_attention, layer.cross_attention, layer.feed_forward
        for part, name in [
            (own, "w_o"),
            (cross, "w_q"),
            (cross, "w_o"),
            (feed, "w_1"),
            (feed, "w_2"),
        ]:
            setattr(part, name, LowRank(getattr(part, name)))
        layer.residuals[1].norm = nn.RMSNorm(16).double()
    found = greedy(model, src, 6)
    assert found == [plain_greedy(model, one, 6) for one in one_by_one(src)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "FastCache", Cache)
        assert greedy(model, src, 6) == found


def test_a_model_that_computes_otherwise_is_decoded_as_it_computes():
    """Another activation, another feed-forward net with weights of the same names, other logits,
    another embedding."""

    class Gated(FeedForward):
        def forward(self, x):
            return super().forward(x) * x.sigmoid()

    class Other(nn.Embedding):
        def forward(self, ids):
            return super().forward(ids).flip(-1)

    class Turned(Transformer):
        def logits(self, x):
            return super().logits(x.flip(-1))

    src = sources()
    usual = greedy(a_model(), src, 6)
    for change in ("activation", "net", "logits", "embedding"):
        model = a_model()
        for layer in model.decoder.layers:
            if change == "activation":
                layer.feed_forward.activation = torch.sin
            if change == "net":
                layer.feed_forward.__class__ = Gated
        if change == "logits":
            model.__class__ = Turned
        if change == "embedding":
            model.embedding.__class__ = Other
        found = greedy(model, src, 6)
        assert found == [plain_greedy(model, one, 6) for one in one_by_one(src)] != usual


@each_norm
def test_biases_in_attention(norm_first):
    model, src = a_model(norm_first), sources()
    for part in model.modules():
        for name, linear in list(part.named_children()):
            if isinstance(linear, nn.Linear) and linear.bias is None:
                with_bias = nn.Linear(linear.in_features, linear.out_features).double()
                with_bias.weight = linear.weight
                setattr(part, name, with_bias)
    found = greedy(model, src, 6)
    assert found == [plain_greedy(model, one, 6) for one in one_by_one(src)]


@quick
@given(seed=st.integers(0, 99), norm_first=st.booleans())
def test_greedy_is_the_plain_one(seed, norm_first):
    model, src = a_model(norm_first, seed), sources(3, seed)
    expected = [plain_greedy(model, one, 6) for one in one_by_one(src)]
    assert greedy(model, src, 6) == expected
    assert beam_search(model, src, 1, length_penalty=0.0, max_length=6) == expected
    assert [greedy(model, one, 6)[0] for one in one_by_one(src)] == expected


@quick
@given(seed=st.integers(0, 99), beam=st.integers(2, 5), alpha=st.sampled_from([0.0, 0.6, 1.0]))
def test_beam_search_is_the_plain_one(seed, beam, alpha):
    model, src = a_model(seed=seed), sources(3, seed)
    found = beam_search(model, src, beam, alpha, max_length=6)
    assert found == [plain_beam(model, one, beam, alpha, 6) for one in one_by_one(src)]
    assert found == [beam_search(model, one, beam, alpha, 6)[0] for one in one_by_one(src)]


@quick
@given(seed=st.integers(0, 99), beam=st.integers(1, 5), alpha=st.sampled_from([0.6, 1.0, 2.0]))
def test_stopping_by_the_bound_never_scores_worse_than_by_the_count(seed, beam, alpha):
    class Counted(Beam):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.ended = torch.zeros_like(self.limit)

        def finish(self, log_p, parent):
            self.ended += log_p.isfinite().sum(1)
            super().finish(log_p, parent)

        def done(self):
            return super().done() | (self.ended >= self.n)

        def select(self, sentences):
            super().select(sentences)
            self.ended = self.ended[sentences]

    model, src = a_model(seed=seed), sources(8, seed)

    def scores(rows):
        for one, ids in zip(one_by_one(src), rows, strict=True):
            if len(ids) < 10:
                each = log_p(model, one, [ids])[0].gather(1, torch.tensor([[*ids, EOS]]).T)
                yield each.sum().item() / penalty(len(ids) + 1, alpha)
            else:  # none has ended
                yield -math.inf

    bound = list(scores(beam_search(model, src, beam, alpha, max_length=10)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "Beam", Counted)
        count = list(scores(beam_search(model, src, beam, alpha, max_length=10)))
    assert all(b >= c - 1e-9 for b, c in zip(bound, count, strict=True))


@pytest.mark.parametrize("seed", range(2))
def test_a_wide_beam_finds_the_best_of_all(seed):
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(7, 16, 32, 2, 1)).double().eval()
    with torch.no_grad():
        model.embedding.weight.mul_(2)
    src, alpha = torch.tensor([[4, 5, 6, EOS]]), 0.6
    scores = {}
    for length in range(1, 5):
        for ids in product([1, 4, 5, 6], repeat=length - 1):
            each = log_p(model, src, [list(ids)])[0].gather(1, torch.tensor([[*ids, EOS]]).T)
            scores[ids] = each.sum().item() / ((5 + length) / 6) ** alpha
    best = max(scores, key=scores.__getitem__)
    assert beam_search(model, src, 500, alpha, max_length=4) == [list(best)]


def test_sentences_end_by_themselves_and_leave(monkeypatch):
    model, src = a_model(seed=3), sources(40)
    sizes = []
    step = FastCache.step

    def counted(self, tokens):
        sizes.append(len(tokens))
        return step(self, tokens)

    monkeypatch.setattr(FastCache, "step", counted)
    rows = greedy(model, src, 20)
    lengths = [len(row) + (len(row) < 20) for row in rows]  # with EOS
    assert len(set(lengths)) > 2 and not any({EOS, PAD, BOS} & set(row) for row in rows)
    assert sizes == [sum(n > t for n in lengths) for t in range(max(lengths))]


def test_the_papers_beam_is_the_one_one_gets(monkeypatch, tokenizer):
    """Section 6.1: four hypotheses and a length penalty of 0.6."""
    asked = []

    class Asked(Beam):
        def __init__(self, src, n, limit, alpha):
            asked.append((n, alpha))
            super().__init__(src, n, limit, alpha)

    monkeypatch.setattr(decoding, "Beam", Asked)
    beam_search(a_model(), sources(2), max_length=3)
    model = Transformer(TransformerConfig(len(tokenizer), 16, 32, 4, 1))
    model.positions.table = model.positions.table[:20]
    translate(model, tokenizer, ["a man"])
    assert asked == [(4, 0.6)] * 2


def test_length_penalty_is_that_of_wu_et_al():
    assert penalty(1, 0.6) == 1 and penalty(7, 0.0) == 1 and penalty(7, 1.0) == 2
    assert penalty(10, 0.6) == pytest.approx((5 + 10) ** 0.6 / (5 + 1) ** 0.6)


def test_a_larger_length_penalty_gives_longer_translations():
    model, src = a_model(seed=1), sources(40)
    totals = [sum(map(len, beam_search(model, src, 4, a, 12))) for a in (0.0, 0.6, 2.0)]
    assert totals[0] <= totals[1] <= totals[2] and totals[0] < totals[2]


def test_the_limit_is_the_source_and_fifty_more(monkeypatch):
    model, src = a_model(), sources(3)
    never = FastCache.step

    def step(self, tokens):
        logits = never(self, tokens)
        logits[..., EOS] = -math.inf
        return logits

    monkeypatch.setattr(FastCache, "step", step)
    expected = ((src != PAD).sum(1) + 50).tolist()
    for rows in (greedy(model, src), beam_search(model, src, 2), sample(model, src)):
        assert [len(row) for row in rows] == expected
    assert [len(row) for row in greedy(model, src, 3)] == [3] * len(src)
    model.positions.table = model.positions.table[:20]
    assert {len(row) for row in greedy(model, src)} == {20}


@pytest.mark.parametrize("decode", [greedy, beam_search, sample])
def test_dropout_is_off_and_every_mode_restored(decode):
    model, src = a_model(), sources()
    expected = greedy(model, src, 6)
    model.train()
    model.encoder.layers[0].eval()
    modes = [part.training for part in model.modules()]
    found = decode(model, src, max_length=6)
    assert modes == [part.training for part in model.modules()]
    if decode is greedy:
        assert found == expected
    with pytest.raises(RuntimeError), eval_mode(model):
        raise RuntimeError
    assert modes == [part.training for part in model.modules()]
    assert all(p.grad is None and not p.is_inference() for p in model.parameters())


def test_sampling_can_be_repeated_and_reaches_greedy():
    model, src = a_model(seed=2), sources(20)
    draw = torch.Generator()
    first = sample(model, src, 1.5, max_length=8, generator=draw.manual_seed(1))
    assert first == sample(model, src, 1.5, max_length=8, generator=draw.manual_seed(1))
    assert first != sample(model, src, 1.5, max_length=8, generator=draw.manual_seed(2))
    state = torch.random.get_rng_state()
    sample(model, src, generator=draw)
    assert torch.equal(state, torch.random.get_rng_state())
    expected = greedy(model, src, 8)
    cold = [{"temperature": t} for t in (0.0, 1e-30, 1e-300)]
    for wish in (*cold, {"top_k": 1}, {"top_p": 1e-9}):
        assert sample(model, src, max_length=8, **wish) == expected


def test_samples_have_the_models_probabilities():
    model, src = a_model(seed=2), torch.tensor([[5, 6, EOS]])
    p = log_p(model, src, [[]])[0, 0].exp()
    rows = sample(model, src.repeat(6000, 1), max_length=1, generator=torch.Generator())
    drawn = torch.tensor([row[0] if row else EOS for row in rows]).bincount(minlength=V) / 6000
    assert (drawn - p).abs().max() < 0.03
    rows = sample(model, src.repeat(6000, 1), 0.7, 3, 0.9, 1, torch.Generator())
    drawn = torch.tensor([row[0] if row else EOS for row in rows]).bincount(minlength=V) / 6000
    sharp = p.pow(1 / 0.7) * (p >= p.topk(3).values[-1])
    sharp /= sharp.sum()
    ranked = sharp.sort(descending=True).values
    kept = int((ranked.cumsum(0) - ranked < 0.9).sum())
    sharp *= sharp >= ranked[kept - 1]
    assert (drawn - sharp / sharp.sum()).abs().max() < 0.03


def test_top_k_and_top_p_keep_the_right_tokens():
    p = torch.tensor([[0.15, 0.5, 0.05, 0.3], [0.25, 0.25, 0.25, 0.25]]).double()

    def kept(**wish):
        return (filter_logits(p.log(), **wish) > -math.inf).tolist()

    assert kept(top_p=0.7)[0] == [False, True, False, True]
    assert kept(top_p=0.49)[0] == [False, True, False, False]
    assert kept(top_p=0.81)[0] == [True, True, False, True]
    assert kept(top_k=3)[0] == [True, True, False, True]
    assert kept(top_k=2)[1].count(True) == 2 and kept(top_k=9) == [[True] * 4] * 2
    assert kept(top_p=1.0) == [[True] * 4] * 2
    torch.testing.assert_close(filter_logits(p.log()).softmax(-1), p)
    torch.testing.assert_close(
        filter_logits(p.log(), 0.5).softmax(-1)[0], p[0] ** 2 / (p[0] ** 2).sum()
    )
    torch.testing.assert_close(
        filter_logits(p.log(), top_k=2).softmax(-1)[0], torch.tensor([0, 0.625, 0, 0.375]).double()
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_dtypes(dtype):
    model, src = a_model().to(dtype), sources()
    for decode in (greedy, beam_search, sample):
        rows = decode(model, src, max_length=5)
        assert len(rows) == len(src) and all(len(row) <= 5 for row in rows)
    if dtype == torch.float32:
        assert greedy(model, src, 5) == greedy(a_model(), src, 5)
    assert greedy(model, src.int(), 5) == greedy(model, src, 5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_a_gpu():
    model, src = a_model(), sources(20)
    expected = greedy(model, src, 8), beam_search(model, src, 3, max_length=8)
    model, src = model.cuda(), src.cuda()
    assert (greedy(model, src, 8), beam_search(model, src, 3, max_length=8)) == expected
    sample(model, src, top_p=0.9, generator=torch.Generator("cuda"))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["a man rides a horse", "two dogs run in the snow"] * 3, 40)


def test_translate_keeps_the_order(tokenizer):
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(len(tokenizer), 16, 32, 4, 1)).double()
    texts = ["two dogs", "", "a man rides a horse", "a", " ", "dogs run"]
    model.positions.table = model.positions.table[:20]  # shorter translations
    found = translate(model, tokenizer, texts, beam=3, batch=2)
    alone = [translate(model, tokenizer, [text], beam=3)[0] for text in texts]
    assert found == alone and found[1] == ""
    assert translate(model, tokenizer, texts, beam=1) == translate(model, tokenizer, texts, 1, 0.0)
    assert translate(model, tokenizer, []) == []
    assert translate(model, tokenizer, tuple(texts[:1])) == found[:1]
    assert translate(model, tokenizer, ["\ttwo  dogs\n"], beam=3) == found[:1]  # as it was learned


def test_translate_reads_curly_quotes_as_plain_ones():
    torch.manual_seed(0)
    plain = """the man's "dog" ..."""
    tokenizer = Tokenizer.train([plain], 40)
    model = Transformer(TransformerConfig(len(tokenizer), 16, 32, 4, 1))
    model.positions.table = model.positions.table[:40]
    expected = translate(model, tokenizer, [plain], beam=1)
    assert translate(model, tokenizer, ["the man’s “dog” …"], beam=1) == expected
    curly = Tokenizer.train(["the man’s “dog” …"], 40)  # knows no others
    model = Transformer(TransformerConfig(len(curly), 16, 32, 4, 1))
    seen = []
    curly.encode = lambda sentence: seen.append(sentence) or [4]
    translate(model, curly, ["the man’s “dog” …"], beam=1)
    assert seen == ["the man’s “dog” …"]


def test_no_sentences():
    model, none = a_model(), torch.empty(0, 4, dtype=torch.long)
    assert greedy(model, none) == beam_search(model, none) == sample(model, none) == []


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"src": [[4, EOS]]}, TypeError, "src"),
        ({"src": torch.full((2, 3), 0.5)}, TypeError, "src"),
        ({"src": torch.tensor([4, EOS])}, ValueError, "src"),
        ({"src": torch.tensor([[4, V]])}, ValueError, "src"),
        ({"src": torch.tensor([[4, EOS], [PAD, PAD]])}, ValueError, "padding"),
        ({"src": torch.full((1, 5001), 4)}, ValueError, "5000"),
        ({"max_length": 0}, ValueError, "max_length"),
        ({"max_length": 5001}, ValueError, "max_length"),
        ({"max_length": 2.5}, TypeError, "max_length"),
        ({"max_length": True}, TypeError, "max_length"),
        ({"beam": 0}, ValueError, "beam"),
        ({"beam": 1.5}, TypeError, "beam"),
        ({"length_penalty": -0.1}, ValueError, "length_penalty"),
        ({"length_penalty": math.nan}, ValueError, "length_penalty"),
        ({"temperature": -1.0}, ValueError, "temperature"),
        ({"temperature": math.nan}, ValueError, "temperature"),
        ({"temperature": "hot"}, TypeError, "temperature"),
        ({"top_k": 0}, ValueError, "top_k"),
        ({"top_k": math.inf}, ValueError, "top_k"),
        ({"top_k": math.nan}, ValueError, "top_k"),
        ({"src": [[5, 6, EOS]]}, TypeError, "src"),
        ({"top_p": 0.0}, ValueError, "top_p"),
        ({"top_p": 1.5}, ValueError, "top_p"),
    ],
    ids=str,
)
def test_wrong_arguments_are_named(wrong, error, words):
    name = next(iter(wrong))
    decode = {"beam": beam_search, "length_penalty": beam_search}.get(name, sample)
    decode = greedy if name in ("src", "max_length") else decode
    decode = getattr(decode, "__wrapped__", decode)  # without the type checks of the tests
    arguments = {"src": sources(2), **wrong}
    with pytest.raises(Exception, match=words) as caught:
        decode(a_model(), **arguments)
    if type(caught.value).__module__.startswith("jaxtyping"):
        pytest.skip("the type checks of the tests were first")
    assert isinstance(caught.value, error)


def test_translate_names_what_is_wrong(tokenizer):
    model = Transformer(TransformerConfig(len(tokenizer), 16, 32, 4, 1))
    plain = getattr(translate, "__wrapped__", translate)
    with pytest.raises(TypeError, match="sentences"):
        plain(model, tokenizer, "a man")
    with pytest.raises(TypeError, match="sentence"):
        plain(model, tokenizer, ["a man", 3])
    with pytest.raises(ValueError, match="tokenizer"):
        plain(a_model(), tokenizer, ["a man"])
    with pytest.raises(ValueError, match="batch"):
        plain(model, tokenizer, ["a man"], batch=0)
    model.positions.table = model.positions.table[:5]
    with pytest.raises(ValueError, match="sentence 1"):
        plain(model, tokenizer, ["a", "a man rides a horse in the snow"])


def test_the_module_says_what_it_exports():
    assert {"greedy", "beam_search", "sample", "translate"} <= set(decoding.__all__)
