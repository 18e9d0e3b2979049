"""Attention as alignment: the scores, the masks, the translator, and the two shipped models."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

from allyouneed import results, weights
from allyouneed.alignment import (
    Additive,
    Dot,
    General,
    GRUDecoder,
    GRUEncoder,
    Kernel,
    Translator,
    attend,
    translate_greedily,
    translation_loss,
)
from allyouneed.tokens import BOS, EOS, PAD, Tokenizer, pad

B, T, S, Q, K = 2, 4, 5, 3, 6
SCORES = {"additive": (Q, K), "dot": (K, K), "general": (Q, K), "kernel": (K, K)}


def scorer(name):
    torch.manual_seed(1)
    return {
        "additive": lambda: Additive(Q, K, 7),
        "dot": Dot,
        "general": lambda: General(Q, K),
        "kernel": lambda: Kernel(0.8),
    }[name]()


def one_score(name, score, q, k):
    """The score of one query and one key, as the papers write it."""
    if name == "additive":
        return torch.tanh(score.w_q.weight @ q + score.w_k.weight @ k) @ score.v.weight[0]
    if name == "general":
        return q @ score.w.weight @ k
    return q @ k if name == "dot" else -(q - k).square().sum() / (2 * 0.8**2)


def translator(attention=True, dropout=0.0):
    torch.manual_seed(2)
    return Translator(30, 8, Additive(8, 16, 8) if attention else None, dropout)


def batch(*lengths):
    torch.manual_seed(3)
    return pad([[*torch.randint(4, 30, (n,)).tolist(), EOS] for n in lengths])


@pytest.mark.parametrize("name", SCORES)
def test_matrix_form_equals_loops(name):
    score, (d_q, d_k) = scorer(name), SCORES[name]
    q, k = torch.randn(B, T, d_q), torch.randn(B, S, d_k)
    table = score(q, k)
    for b, t, s in torch.cartesian_prod(*map(torch.arange, (B, T, S))).tolist():
        assert torch.allclose(table[b, t, s], one_score(name, score, q[b, t], k[b, s]), atol=1e-5)


@pytest.mark.parametrize("name", SCORES)
def test_gradients_reach_queries_keys_and_parameters(name):
    score, (d_q, d_k) = scorer(name), SCORES[name]
    q, k = torch.randn(B, T, d_q, requires_grad=True), torch.randn(B, S, d_k, requires_grad=True)
    score(q, k).square().sum().backward()
    for tensor in (q, k, *score.parameters()):
        assert tensor.grad.abs().sum() > 0


def test_weights_are_shares_and_padding_gets_none():
    scores, values = torch.randn(B, T, S), torch.randn(B, S, K)
    mask = torch.tensor([[True, False, True, True, False], [True] * 5])
    context, alpha = attend(scores, values, mask)
    assert torch.allclose(alpha.sum(-1), torch.ones(B, T))
    assert alpha[0, :, ~mask[0]].eq(0).all()
    values[0, ~mask[0]] = 1e6  # what stands in padding cannot matter
    assert torch.allclose(attend(scores, values, mask)[0], context)


def test_one_key_left_gives_its_value():
    values = torch.randn(1, 4, 3)
    mask = torch.tensor([[False, False, True, False]])
    context, _ = attend(torch.randn(1, 2, 4), values, mask)
    assert torch.allclose(context, values[:, 2:3].expand(1, 2, 3))


def test_nothing_to_look_at_gives_zeros_and_finite_gradients():
    scores = torch.randn(2, 3, 4, requires_grad=True)
    values = torch.randn(2, 4, 5, requires_grad=True)
    mask = torch.tensor([[False] * 4, [True] * 4])
    context, alpha = attend(scores, values, mask)
    assert context[0].eq(0).all() and alpha[0].eq(0).all()
    context.square().sum().backward()
    assert scores.grad.isfinite().all() and values.grad.isfinite().all()
    assert scores.grad[1].abs().sum() > 0


def test_encoder_reads_each_sentence_as_if_alone():
    encoder, x = GRUEncoder(6), torch.randn(2, 5, 6)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    memory, summary = encoder(x, mask)
    alone, alone_summary = encoder(x[1:, :3], mask[1:, :3])
    assert memory.shape == (2, 5, 12)
    assert torch.allclose(memory[1, :3], alone[0], atol=1e-6)
    assert torch.allclose(summary[1], alone_summary[0], atol=1e-6)


@pytest.mark.parametrize("attention", [True, False])
def test_more_padding_changes_nothing(attention):
    model, src = translator(attention), batch(3, 6, 1)
    tgt = pad([[BOS, 7, 8, EOS], [BOS, 9, 10, 11, 12, EOS], [BOS, EOS]])
    more_src, more_tgt = (torch.nn.functional.pad(x, (0, 4), value=PAD) for x in (src, tgt))
    logits, more = model(src, tgt), model(more_src, more_tgt)
    assert torch.allclose(logits, more[:, : tgt.shape[1]], atol=1e-5)
    loss = translation_loss(model, src, tgt)
    assert torch.allclose(loss, translation_loss(model, more_src, more_tgt), atol=1e-6)
    words = (tgt[:, 1:] != PAD).sum()
    assert torch.allclose(loss, translation_loss(model, src, tgt, reduction="sum") / words)


def test_dropout_is_on_both_embeddings_and_on_what_words_are_chosen_from():
    model, src, tgt = translator(dropout=0.5).train(), batch(4, 2), torch.full((2, 3), 7)
    seen = []
    model.dropout.register_forward_hook(lambda part, x, y: seen.append((x[0], y)))
    logits = model(src, tgt)
    assert [tuple(x.shape) for x, _ in seen] == [(2, 5, 8), (2, 3, 8), (2, 3, 8)]
    for x, ids in ((seen[0][0], src), (seen[1][0], tgt)):
        assert torch.equal(x, model.embedding(ids))
    torch.testing.assert_close(logits, seen[2][1] @ model.embedding.weight.T)
    assert not torch.equal(logits, model(src, tgt))
    model.eval()
    assert torch.equal(model(src, tgt), model(src, tgt))


def test_the_embedding_starts_with_vectors_of_length_one():
    torch.manual_seed(0)
    lengths = Translator(500, 64, None).embedding.weight.detach().norm(dim=1)
    assert float(lengths.pow(2).mean()) == pytest.approx(1, rel=6 * (2 / (500 * 64)) ** 0.5)


def test_the_future_is_not_read():
    model, src = translator(), batch(4)
    tgt = torch.tensor([[BOS, 5, 6, 7, 8]])
    changed = tgt.clone()
    changed[0, 3] = 20
    assert torch.allclose(model(src, tgt)[:, :3], model(src, changed)[:, :3], atol=1e-6)
    assert not torch.allclose(model(src, tgt)[:, 3], model(src, changed)[:, 3])


def test_only_attention_sees_the_memory():
    torch.manual_seed(4)
    y, state, memory = torch.randn(1, 3, 8), torch.randn(1, 1, 8), torch.randn(1, 5, 16)
    summary, mask = torch.randn(1, 16), torch.ones(1, 5, dtype=torch.bool)
    for score, same in ((None, True), (Additive(8, 16, 8), False)):
        decoder = GRUDecoder(8, score)
        one = decoder(y, state, memory, summary, mask)[0]
        two = decoder(y, state, memory + 1, summary, mask)[0]
        assert torch.allclose(one, two) == same


def test_all_steps_at_once_equal_one_by_one():
    model, src = translator(), batch(4, 2)
    tgt = torch.tensor([[BOS, 5, 6, 7], [BOS, 8, 9, 10]])
    state, *rest = model.encode(src)
    steps = []
    for t in range(tgt.shape[1]):
        logits, state, _ = model.decode(tgt[:, t : t + 1], state, *rest)
        steps.append(logits)
    assert torch.allclose(torch.cat(steps, 1), model(src, tgt), atol=1e-5)


@pytest.mark.parametrize("attention", [True, False])
def test_greedy_in_a_batch_equals_one_by_one(attention):
    model, src = translator(attention, dropout=0.5).train(), batch(3, 7, 1, 5)
    together, alpha = translate_greedily(model, src, max_length=12)
    assert model.training  # put back as it was, though decoding is done in eval mode
    for row, ids in zip(together, src, strict=True):
        alone, _ = translate_greedily(model, ids[ids != PAD].unsqueeze(0), max_length=12)
        assert row[: alone.shape[1]].tolist() == alone[0].tolist()
        assert row[alone.shape[1] :].eq(PAD).all()
    assert (alpha is None) != attention
    if attention:
        assert alpha.shape == (*together.shape, src.shape[1])


def test_greedy_leaves_every_part_in_its_mode():
    """Also where some learn and some do not, and after an error."""
    model = translator().train()
    model.encoder.eval()
    modes = [part.training for part in model.modules()]
    _, alpha = translate_greedily(model, batch(2, 3), max_length=2)
    assert modes == [part.training for part in model.modules()] and not alpha.is_inference()
    with pytest.raises(ValueError, match="src: expected ids from 0 to"):
        translate_greedily(model, batch(2) + 1000)
    assert modes == [part.training for part in model.modules()]


def test_greedy_stops_at_eos():
    model = translator()
    with torch.no_grad():
        model.embedding.weight.zero_()
        model.embedding.weight[EOS] = 1.0
        model.decoder.combine.weight.zero_()
        model.decoder.combine.bias.fill_(1.0)  # EOS is always the likeliest
    tokens, _ = translate_greedily(model, batch(2, 3))
    assert tokens.tolist() == [[EOS], [EOS]]


def test_it_can_learn_three_sentences():
    model, src = translator(), batch(3, 2, 4)
    tgt = pad([[BOS, 5, 6, EOS], [BOS, 7, EOS], [BOS, 8, 9, 10, EOS]])
    adam = torch.optim.Adam(model.parameters(), lr=3e-2)
    for _ in range(100):
        adam.zero_grad()
        translation_loss(model, src, tgt).backward()
        adam.step()
    assert translate_greedily(model, src)[0].tolist() == tgt[:, 1:].tolist()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("sigma", lambda: Kernel(0.0)),
        ("k", lambda: Dot()(torch.randn(1, 2, 3), torch.randn(1, 2, 4))),
        ("k", lambda: Kernel(1.0)(torch.randn(1, 2, 3), torch.randn(1, 2, 1))),
        ("mask", lambda: attend(torch.randn(1, 2, 3), torch.randn(1, 3, 4), torch.ones(1, 2) > 0)),
        ("max_length", lambda: translate_greedily(translator(), batch(2), max_length=0)),
    ],
)
def test_errors_name_the_argument(name, call):
    """Under the tests' shape checks the annotations may speak first; they name it, too."""
    with pytest.raises((ValueError, TypeError), match=rf"^{name}: expected|parameter '{name}'"):
        call()


# The shipped models


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.load(weights.path("translator-tokenizer.json"))


def shipped(name, tokenizer):
    card = json.loads(weights.path(f"translator-{name}.json").read_text(encoding="utf-8"))
    d = card["d_model"]
    model = Translator(len(tokenizer), d, Additive(d, 2 * d, d) if name == "additive" else None)
    model.load_state_dict(load_file(weights.path(f"translator-{name}.safetensors")))
    return model.eval(), card


@pytest.mark.parametrize("name", ["none", "additive"])
def test_shipped_weights_fit_their_cards(name, tokenizer):
    model, card = shipped(name, tokenizer)
    assert len(tokenizer) == card["vocab_size"]
    assert sum(p.numel() for p in model.parameters()) == card["parameters"]
    assert weights.path(f"translator-{name}.safetensors").stat().st_size < 5e6
    assert card["command"].endswith(name)
    told = results.load("translator")["data"]["models"][name]
    assert (told["bleu"], told["signature"]) == (card["bleu"], card["signature"])


def test_shipped_tokenizer_round_trips(tokenizer):
    sentence = "L'homme qui n'aime pas le café s'en va, n'est-ce pas ?"
    assert tokenizer.decode(tokenizer.encode(sentence)) == sentence


def test_shipped_models_reach_their_recorded_bleu(tokenizer):
    from sacrebleu.metrics import BLEU

    from allyouneed.data import load_pairs

    pairs = load_pairs(split="valid")[:200]
    src = pad([[*tokenizer.encode(en), EOS] for en, _ in pairs])
    for name in ("none", "additive"):
        model, card = shipped(name, tokenizer)
        out = [tokenizer.decode(row) for row in translate_greedily(model, src)[0].tolist()]
        bleu = BLEU().corpus_score(out, [[fr for _, fr in pairs]]).score
        assert abs(bleu - card["valid_bleu_first_200"]) < 1.0


def test_attention_wins_where_sentences_are_long():
    models = results.load("translator")["data"]["models"]
    none, additive = (models[name]["bleu_by_length"] for name in ("none", "additive"))
    assert models["additive"]["bleu"] > models["none"]["bleu"]
    for row, other in zip(none, additive, strict=True):
        assert (row["low"], row["sentences"]) == (other["low"], other["sentences"])
        assert row["low"] < 8 or other["bleu"] > row["bleu"] + 3


def test_shipped_model_aligns_adjective_and_noun(tokenizer):
    """In French the adjective follows the noun, and so must the eyes."""
    model, _ = shipped("additive", tokenizer)
    read = tokenizer.encode("I have a black dog.")
    written, alpha = translate_greedily(model, pad([[*read, EOS]]))
    words = [tokenizer.bpe.id_to_token(int(i)) for i in written[0]]
    keys = [tokenizer.bpe.id_to_token(i) for i in read]
    looked = {word: keys[alpha[0, t, :-1].argmax()] for t, word in enumerate(words)}
    assert looked["▁chien"] == "▁dog" and looked["▁noir"] == "▁black"
