"""What fits passes, and every error names the argument, what was expected and what came."""

from __future__ import annotations

import inspect
import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from allyouneed import checks
from allyouneed.families import LanguageModelConfig
from allyouneed.transformer import TransformerConfig

TYPES = (
    "boolean", "floating-point", "integer", "a tensor", "a string", "one string", "got sentences",
    "True or False", "dtype", "lists of words", "a LanguageModelConfig", "several sentences",
    "a TransformerConfig",
    "got 'ab'", "got None for one", "a path", "JSON", "a dict, got", "with a config", "a Record",
    "an optimizer", "dicts", "a function", "a list, got", "a module", "a Tree",
    "torch.Generator", "several batches", "a Batch", "a LanguageModel", "one with 20", "a Device",
)  # fmt: skip
Q, K, V = torch.zeros(2, 3, 4), torch.zeros(2, 5, 4), torch.zeros(2, 5, 6)
X, TABLE, IDS = torch.zeros(2, 3, 4), torch.zeros(3, 4), torch.tensor([[1, 2, 0]])
HEADS = SimpleNamespace(d_model=4, w_o=torch.nn.Linear(4, 4))
SQUARE = torch.nn.Linear(4, 4)
META, YES = IDS.expand(2, 3).to("meta"), torch.ones(3, 5, dtype=torch.bool)
MODEL = torch.nn.Linear(4, 4)
CAUSAL = SimpleNamespace(vocab_size=3, max_length=3, n_heads=2, n_segments=0, causal=True)
SEGMENTED = SimpleNamespace(vocab_size=3, max_length=3, n_heads=2, n_segments=2, causal=False)
SIZES = {"d_model": 8, "d_ff": 8, "n_heads": 2, "n_layers": 1, "dropout": 0.0, "norm_first": False}
MINE = SimpleNamespace(**SIZES, vocab_size=9)  # a config, of no class of ours
OF_CONFIG, STEPS = SimpleNamespace(config=CAUSAL), SimpleNamespace(step=0)
OWN = SimpleNamespace(model=MODEL, smoothing=0.1, dtype=torch.float32)
WORD = SimpleNamespace(leaves=[None], inside="Jane")  # a tree over one word
GPU = SimpleNamespace(flops=1)

FITS = {
    "integers": lambda: checks.check_integers(count=0, top_k=Q.new_zeros(7).numel()),
    "numbers": lambda: checks.check_numbers(rate=0, max_norm=math.inf),
    "sizes": lambda: checks.check_sizes(length=1, window=9),
    "counts": lambda: checks.check_counts(sinks=0),
    "not negative": lambda: checks.check_not_negative(decay=0, temperature=0.1),
    "shares": lambda: checks.check_shares(top_p=1, share=0.1),
    "choice": lambda: checks.check_choice({"relu": 1}, activation="relu"),
    "kind": lambda: checks.check_kind(TransformerConfig, config=LanguageModelConfig(9)),
    "kind of a reader's own": lambda: checks.check_kind(TransformerConfig, config=MINE),
    "path": lambda: checks.check_path(path=Path("x"), other="y"),
    "place": lambda: checks.check_place("cpu"),
    "card": lambda: checks.check_card({"data": ["x"]}),
    "no card": lambda: checks.check_card(None),
    "device": lambda: checks.check_device("queries'", Q, k=K.double()),
    "cutting": lambda: checks.check_cutting(tokenizer(model={"vocab": 1}), tokenizer()),
    "tensors": lambda: checks.check_tensor(places=IDS),
    "one dtype": lambda: checks.check_one_dtype("queries'", Q, k=K, v=V),
    "even": lambda: checks.check_even(d_model=2),
    "positive": lambda: checks.check_positive(eps=1e-9),
    "probability": lambda: checks.check_probability(dropout=0.0),
    "booleans": lambda: checks.check_booleans(causal=True, tied=False),
    "module": lambda: checks.check_module(model=MODEL),
    "generator": lambda: checks.check_generator(torch.Generator()),
    "no generator": lambda: checks.check_generator(None),
    "list": lambda: checks.check_list(pairs=(), states=X),
    "score": lambda: checks.check_score(MODEL),
    "no score": lambda: checks.check_score(None),
    "squares": lambda: checks.check_squares(X[0, :, :3], X[1, :, :3]),
    "merge": lambda: checks.check_merge(X[None]),
    "batches": lambda: checks.check_batches([]),
    "batch": lambda: checks.check_batch(SimpleNamespace(src=IDS, tgt=IDS), 3),
    "tree": lambda: checks.check_tree(WORD),
    "graph": lambda: checks.check_graph(MODEL(X).sum()),
    "function": lambda: checks.check_function(activation=torch.relu, pattern=MODEL, batches=list),
    "text": lambda: checks.check_text(sentence=""),
    "sentences": lambda: checks.check_several(sentences=["one"]),
    "specials": lambda: checks.check_specials([0, 1], ["<pad>", "<unk>"]),
    "learnt": lambda: checks.check_learnt(5, 5, 4),
    "whole": lambda: checks.check_whole([-1, np.int32(2), torch.tensor(3)]),
    "known": lambda: checks.check_known([0, np.int64(4), torch.tensor(4)], 5),
    "some": lambda: checks.check_some(sequences=[[]]),
    "pairs": lambda: checks.check_pairs([([1], [2])]),
    "room": lambda: checks.check_room(7, 7),
    "heads": lambda: checks.check_heads(8, 4),
    "split": lambda: checks.check_split(X, 2),
    "floating": lambda: checks.check_floating(x=X.half()),
    "self-attention": lambda: checks.check_self_attention(Q, Q, Q[..., :1], YES[:1, :3]),
    "vectors": lambda: checks.check_vectors(X[0], TABLE),
    "attention": lambda: checks.check_attention(Q, K, V, 0.5),
    "boolean": lambda: checks.check_boolean(YES),
    "one row for all": lambda: checks.check_mask(YES[0], (2, 3, 5), Q.device),
    "source mask": lambda: checks.check_source_mask(YES[:2], Q.new_zeros(2, 7, 5)),
    "multihead": lambda: checks.check_multihead(HEADS, Q, K, K, YES),
    "embeddings": lambda: checks.check_embeddings(X, TABLE),
    "states": lambda: checks.check_states(X, TABLE[:2], SQUARE, SQUARE, "h"),
    "width": lambda: checks.check_width(X, TABLE),
    "rotation": lambda: checks.check_rotation(Q, Q[0, :, :2]),
    "sublayer": lambda: checks.check_sublayer(X, X + 1),
    "machine": lambda: checks.check_machine(TransformerConfig(9)),
    "decoding": lambda: checks.check_decoding(IDS, X[:1], YES[None, None]),
    "product": lambda: checks.check_product(TABLE, X[0]),
    "targets": lambda: checks.check_targets(X, IDS.expand(2, 3), 3),
    "logits": lambda: checks.check_logits(X, IDS.expand(2, 3)),
    "logits that are not seen": lambda: checks.check_logits((X + math.inf).to("meta"), META),
    "target tokens": lambda: checks.check_target_tokens(1),
    "epoch": lambda: checks.check_epoch(1, 0),
    "objective": lambda: checks.check_objective(OWN, MODEL, 0.1, torch.float32),
    "optimizer": lambda: checks.check_optimizer(sgd(MODEL.bias, X), MODEL),
    "rate": lambda: checks.check_rate(0, 1),
    "cosine": lambda: checks.check_cosine(1, 2, 0, 1, 0.1),
    "limits": lambda: checks.check_limits(torch.tensor([1, 2]), 5, 5),
    "beam": lambda: checks.check_beam(1, 10),
    "vocabulary": lambda: checks.check_vocabulary(3, tokenizer="abc"),
    "lengths": lambda: checks.check_lengths([[1, 2]], 2),
    "filter": lambda: checks.check_filter(0.0, 2.0, 1),
    "range": lambda: checks.check_range("targets", IDS[0], 3),
    "text ids": lambda: checks.check_text_ids(SEGMENTED, IDS, YES[:, :3], IDS * 0),
    "causal": lambda: checks.check_causal(SimpleNamespace(config=CAUSAL)),
    "masking": lambda: checks.check_masking(IDS, IDS > 0, 9, 9, 0.1),
    "groups": lambda: checks.check_groups(4, 2),
    "angles": lambda: checks.check_angles(X[0, 0], 2, 1),
    "sight": lambda: checks.check_sight(IDS[0], IDS[0, :2], None, 0),
    "parsing": lambda: checks.check_parsing(2, "ab", [["Jane"]], 1, 1),
    "trees": lambda: checks.check_trees([WORD, WORD], [WORD, None]),
    "ring": lambda: checks.check_ring([X[0, 0], X[0, 1]]),
    "stage": lambda: checks.check_stage(1, 3),
    "projection": lambda: checks.check_projection(MINE, GPU, 1, 0, 1, 1, 1, math.inf),
    "machines": lambda: checks.check_machines(16, 8),
    "run": lambda: checks.check_run(OF_CONFIG, len, 0, None, 1, math.inf, -1, STEPS),
    "completion": lambda: checks.check_completion(IDS, 0, 0.0, 1, 1.0),
    "same states": lambda: checks.check_same_states([{"w": X}, {"w": X + 1}]),
    "ids": lambda: checks.check_ids(IDS),
    "padding": lambda: checks.check_padding(IDS, 0),
    "tokens": lambda: checks.check_tokens("src", IDS, 3),
}  # fmt: skip


def tokenizer(**parts):
    """What `to_str` of a tokenizer gives, with these parts."""
    plain = {"version": "1.0", "model": {}, "normalizer": "NFC", "decoder": None}
    return SimpleNamespace(to_str=lambda: json.dumps(plain | parts))


def sgd(*weights):
    return torch.optim.SGD(weights, lr=0.1)


@pytest.mark.parametrize("name", FITS)
def test_what_fits_passes(name):
    assert FITS[name]() is None


REFUSED = [
    (lambda: checks.check_integers(steps=2.0), "steps: expected an integer, got 2.0"),
    (lambda: checks.check_integers(step=torch.tensor(2)),
     "step: expected an integer, got tensor(2)"),
    (lambda: checks.check_numbers(dropout=False),
     "dropout: expected an integer or a float, got False"),
    (lambda: checks.check_numbers(eps=torch.tensor(1)),
     "eps: expected an integer or a float, got tensor(1)"),
    (lambda: inspect.unwrap(checks.check_sizes)(length=math.nan),
     "length: expected an integer, got nan"),
    (lambda: inspect.unwrap(checks.check_even)(d_k=True), "d_k: expected an integer, got True"),
    (lambda: inspect.unwrap(checks.check_positive)(theta="1"),
     "theta: expected an integer or a float, got '1'"),
    (lambda: inspect.unwrap(checks.check_probability)(p=None),
     "p: expected an integer or a float, got None"),
    (lambda: inspect.unwrap(checks.check_heads)(8, 2.0), "n_heads: expected an integer, got 2.0"),
    (lambda: inspect.unwrap(checks.check_decoding)(IDS, (X, YES), None),
     "memory: expected a tensor, the first of the two that `encode` gives, got tuple"),
    (lambda: inspect.unwrap(checks.check_run)(OF_CONFIG, len, 2.0, None, 1, 1.0, 0, STEPS),
     "steps: expected an integer, got 2.0"),
    (lambda: inspect.unwrap(checks.check_run)(OF_CONFIG, len, 2, None, 1, True, 0, STEPS),
     "max_norm: expected an integer or a float, got True"),
    (lambda: inspect.unwrap(checks.check_completion)(IDS, 1.0, 1.0, None, None),
     "count: expected an integer, got 1.0"),
    (lambda: checks.check_sizes(length=1, window=0), "window: expected at least 1, got 0"),
    (lambda: checks.check_even(d_model=7), "d_model: expected an even number of at least 2, got 7"),
    (lambda: checks.check_even(d_model=0), "d_model: expected an even number of at least 2, got 0"),
    (lambda: checks.check_positive(eps=0.0), "eps: expected a finite number above 0, got 0.0"),
    (lambda: checks.check_positive(eps=math.nan), "eps: expected a finite number above 0, got nan"),
    (lambda: checks.check_positive(sigma=math.inf),
     "sigma: expected a finite number above 0, got inf"),
    (lambda: checks.check_probability(r=1.0), "r: expected a probability below 1, got 1.0"),
    (lambda: checks.check_probability(p=math.nan), "p: expected a probability below 1, got nan"),
    (lambda: checks.check_booleans(causal=True, tied="no"),
     "tied: expected True or False, got 'no'"),
    (lambda: checks.check_booleans(causal=1), "causal: expected True or False, got 1"),
    (lambda: checks.check_function(batches=[MODEL]), "batches: expected a function, got list"),
    (lambda: checks.check_function(activation=torch.nn.GELU),
     "activation: expected a function, got the class GELU"),
    (lambda: checks.check_score("dot"), "score: expected a function, got 'dot'"),
    (lambda: inspect.unwrap(checks.check_squares)([[True]]), "masks: expected a tensor, got list"),
    (lambda: checks.check_squares(X[0, :, :3], X[0]),
     "masks: expected squares of one size, at least one, got [(3, 3), (3, 4)]"),
    (lambda: checks.check_squares(),
     "masks: expected squares of one size, at least one, got []"),
    (lambda: checks.check_module(model=MODEL.parameters()),
     "model: expected a module of PyTorch, got generator"),
    (lambda: checks.check_generator(42),
     "generator: expected torch.Generator().manual_seed(...) or the like, got 42"),
    (lambda: checks.check_list(states=iter([])), "states: expected a list, got list_iterator"),
    (lambda: checks.check_merge(X), "x: expected shape (B, H, T, K), got (2, 3, 4)"),
    (lambda: checks.check_batches(len),
     "batches: expected several batches, got builtin_function_or_method"),
    (lambda: checks.check_batch((IDS, IDS), 3),
     "batches: expected a Batch for each, with src and tgt, got tuple"),
    (lambda: checks.check_batch(SimpleNamespace(src=IDS, tgt=IDS), 2),
     "src: expected ids from 0 to 1, got 2"),
    (lambda: checks.check_tree("(NN dog)"),
     "tree: expected a Tree, got a string: read it with `read_tree`"),
    (lambda: checks.check_tree(WORD, 3), "tree: expected a Tree, got int"),
    (lambda: checks.check_graph(X),
     "tensor: expected one with a graph (requires_grad), got one without"),
    (lambda: checks.check_function(activation="relu"),
     "activation: expected a function, got 'relu'"),
    (lambda: checks.check_text(sentence=["a"]), "sentence: expected a string, got list"),
    (lambda: checks.check_several(sentences="one"),
     "sentences: expected several sentences, got one string"),
    (lambda: inspect.unwrap(checks.check_several)(sentences=None),
     "sentences: expected several sentences, got NoneType"),
    (lambda: checks.check_specials([0, None], ["<pad>", "<unk>"]),
     "bpe: expected ['<pad>', '<unk>'] to have the ids 0 to 1, got [0, None]"),
    (lambda: checks.check_learnt(4, 9, 4), "sentences: expected text to learn from, got none"),
    (lambda: checks.check_learnt(9, 8, 4),
     "vocab_size: expected at least 9, room for the special tokens and every character of the "
     "text, got 8"),
    (lambda: checks.check_known([0, 5, 6], 5), "ids: expected numbers from 0 to 4, got 5"),
    (lambda: checks.check_known([4, 1.0], 5), "ids: expected an integer for each, got 1.0"),
    (lambda: checks.check_whole([4, "5"]), "ids: expected an integer for each, got '5'"),
    (lambda: checks.check_known([torch.tensor(1.0)], 5),
     "ids: expected an integer for each, got tensor(1.)"),
    (lambda: checks.check_some(sequences=[]),
     "sequences: expected at least one list of ids, got none"),
    (lambda: checks.check_some(sequences=[[1], "ab"]),
     "sequences: expected lists of ids, got 'ab' for one"),
    (lambda: checks.check_some(sequences=[[1], None]),
     "sequences: expected lists of ids, got None for one"),
    (lambda: checks.check_pairs([]), "pairs: expected at least one pair of id lists, got none"),
    (lambda: checks.check_some(sequences=[[4], [1.5]]),
     "ids: expected an integer for each, got 1.5"),
    (lambda: inspect.unwrap(checks.check_pairs)(iter([])),
     "pairs: expected a list, got list_iterator"),
    (lambda: checks.check_pairs([4, 5]), "pairs: expected two lists of ids in each, got 4"),
    (lambda: checks.check_pairs([([4], 5)]),
     "pairs: expected two lists of ids in each, got ([4], 5)"),
    (lambda: checks.check_pairs([[4, 5]]), "pairs: expected two lists of ids in each, got [4, 5]"),
    (lambda: checks.check_pairs([([4], [5], [6])]),
     "pairs: expected two lists of ids in each, got ([4], [5], [6])"),
    (lambda: checks.check_pairs([([1], [2]), ([1], "b")]),
     "pairs: expected lists of ids, got sentences; encode them first"),
    (lambda: inspect.unwrap(checks.check_room)(math.inf, 7),
     "max_tokens: expected an integer, got inf"),
    (lambda: checks.check_room(6, 7),
     "max_tokens: expected at least 7, the longest sentence with its BOS and EOS, got 6"),
    (lambda: inspect.unwrap(checks.check_states)(X, "h", SQUARE, SQUARE, "h"),
     "h: expected a tensor, got str"),
    (lambda: checks.check_states(X, None, torch.nn.Linear(5, 2), torch.nn.Linear(2, 2), "h"),
     "x: expected floats of shape (B, T, 5) with T >= 1, got torch.float32 of shape (2, 3, 4)"),
    (lambda: checks.check_states(X, X[0], SQUARE, SQUARE, "c"),
     "c: expected shape (B, hidden) = (2, 4), got (3, 4)"),
    (lambda: checks.check_states(X.double(), None, SQUARE, SQUARE, "h"),
     "x: expected the weights' dtype, torch.float32, got torch.float64"),
    (lambda: checks.check_states(X, X[:, 0].double(), SQUARE, SQUARE, "c"),
     "c: expected the words' dtype, torch.float32, got torch.float64"),
    (lambda: checks.check_source_mask(YES, Q.new_zeros(2, 7, 5)),
     "mask: expected shape (B, S) = (2, 5), got (3, 5)"),
    (lambda: inspect.unwrap(checks.check_self_attention)([1.0], Q, Q, None),
     "q: expected a tensor, got list"),
    (lambda: checks.check_self_attention(Q[0, 0], Q, Q, None),
     "q: expected at least one word, (..., T, K), got (4,)"),
    (lambda: checks.check_self_attention(Q, Q, V, None),
     "v: expected the queries' axes (2, 3, 6), got (2, 5, 6)"),
    (lambda: inspect.unwrap(checks.check_self_attention)(Q, Q, Q, [True]),
     "padding: expected a tensor, got list"),
    (lambda: checks.check_self_attention(Q, Q, Q, X),
     "padding: expected a boolean tensor, True = a token, got torch.float32"),
    (lambda: checks.check_self_attention(Q, Q, Q, YES[:, :3]),
     "padding: expected (..., 1, T = 3), got (3, 3)"),
    (lambda: checks.check_source_mask(YES.long(), Q),
     "mask: expected a boolean tensor, got torch.int64"),
    (lambda: checks.check_source_mask(YES[:2], IDS),
     "scores: expected floating-point vectors, got torch.int64"),
    (lambda: checks.check_source_mask(YES[:2], Q[0]),
     "scores: expected shape (B, T, S), got (3, 4)"),
    (lambda: checks.check_split(X[0], 2), "x: expected shape (B, T, D), got (3, 4)"),
    (lambda: inspect.unwrap(checks.check_split)([1.0], 2), "x: expected a tensor, got list"),
    (lambda: checks.check_heads(8, 3), "n_heads: expected a divisor of d_model = 8, got 3"),
    (lambda: checks.check_heads(8, 0), "n_heads: expected a divisor of d_model = 8, got 0"),
    (lambda: checks.check_counts(sinks=-1), "sinks: expected at least 0, got -1"),
    (lambda: checks.check_not_negative(decay=math.inf),
     "decay: expected a finite number of at least 0, got inf"),
    (lambda: checks.check_shares(share=0), "share: expected a share above 0 and at most 1, got 0"),
    (lambda: checks.check_shares(top_p=math.nan),
     "top_p: expected a share above 0 and at most 1, got nan"),
    (lambda: checks.check_choice({"bf16": 1, "fp32": 2}, precision=["half"]),
     "precision: expected one of bf16, fp32, got ['half']"),
    (lambda: checks.check_kind(LanguageModelConfig, config={}),
     "config: expected a LanguageModelConfig, got dict"),
    (lambda: checks.check_kind(TransformerConfig, config=TransformerConfig),
     "config: expected a TransformerConfig, got the class TransformerConfig"),
    (lambda: checks.check_kind(LanguageModelConfig, config=type("LanguageModelConfig", (), {})()),
     "config: expected a LanguageModelConfig, got one of test_checks"),
    (lambda: checks.check_kind(LanguageModelConfig, config=TransformerConfig(9)),
     "config: expected a LanguageModelConfig, got TransformerConfig"),
    (lambda: checks.check_path(path=3), "path: expected a path, got int"),
    (lambda: checks.check_place("gpu"), "device: expected one of this machine, got 'gpu'"),
    (lambda: checks.check_card("mine"), "card: expected a dict, got str"),
    (lambda: checks.check_card({"data": {1}}),
     "card: expected what JSON can hold, got: Object of type set is not JSON serializable"),
    (lambda: checks.check_device("table's", TABLE, x=X.to("meta")),
     "x: expected the table's device, cpu, got meta"),
    (lambda: checks.check_cutting(tokenizer(normalizer="NFKC"), tokenizer()),
     "bpe: expected the normalizer of this book, NFC, got NFKC"),
    (lambda: checks.check_tensor(places=[0, 1]), "places: expected a tensor, got list"),
    (lambda: checks.check_one_dtype("queries'", Q, k=K, v=V.half()),
     "v: expected the queries' dtype, torch.float32, got torch.float16"),
    (lambda: checks.check_vectors(Q, K.to("meta")),
     "k: expected the queries' device, cpu, got meta"),
    (lambda: checks.check_vectors(Q, K[:1].expand(3, 5, 4)),
     "k: expected leading axes that broadcast with the queries' (2,), got (3,)"),
    (lambda: checks.check_vectors(Q, K.double()),
     "k: expected the queries' dtype, torch.float32, got torch.float64"),
    (lambda: checks.check_attention(Q, K, V.double()),
     "v: expected the queries' dtype, torch.float32, got torch.float64"),
    (lambda: inspect.unwrap(checks.check_floating)(q=[[1.0]]), "q: expected a tensor, got list"),
    (lambda: inspect.unwrap(checks.check_boolean)([True]), "mask: expected a tensor, got list"),
    (lambda: inspect.unwrap(checks.check_mask)([True], (1,)), "mask: expected a tensor, got list"),
    (lambda: inspect.unwrap(checks.check_source_mask)([True], Q),
     "mask: expected a tensor, got list"),
    (lambda: inspect.unwrap(checks.check_multihead)(HEADS, Q, K, K, [[True]]),
     "mask: expected a tensor, got list"),
    (lambda: inspect.unwrap(checks.check_multihead)(HEADS, Q, [[1.0]], K, None),
     "k: expected a tensor, got list"),
    (lambda: inspect.unwrap(checks.check_embeddings)([1.0], TABLE),
     "x: expected a tensor, got list"),
    (lambda: inspect.unwrap(checks.check_states)([1.0], None, SQUARE, SQUARE, "h"),
     "x: expected a tensor, got list"),
    (lambda: inspect.unwrap(checks.check_ids)([[1]]), "tokens: expected a tensor, got list"),
    (lambda: inspect.unwrap(checks.check_completion)([[1]], 1, 1.0, None, None),
     "tokens: expected a tensor, got list"),
    (lambda: checks.check_rotation(Q, Q[0].long()),
     "angles: expected floating-point vectors, got torch.int64"),
    (lambda: checks.check_floating(v=IDS), "v: expected floating-point vectors, got torch.int64"),
    (lambda: checks.check_vectors(X, TABLE[0]),
     "k: expected at least 2 axes, (..., length, width), got (4,)"),
    (lambda: checks.check_vectors(X, TABLE[:, :3]),
     "k: expected keys as wide as the queries, 4, got 3"),
    (lambda: checks.check_attention(Q, K, V.long()),
     "v: expected floating-point vectors, got torch.int64"),
    (lambda: checks.check_attention(Q, K[:1], V[:1]),
     "k: expected the queries' leading axes (2,), got (1,)"),
    (lambda: checks.check_attention(Q, K, V[:, :4]),
     "v: expected one value for each key, (..., S) = (2, 5), got (2, 4)"),
    (lambda: checks.check_attention(Q, K, V, -0.5),
     "dropout: expected a probability below 1, got -0.5"),
    (lambda: checks.check_boolean(X), "mask: expected a boolean tensor, got torch.float32"),
    (lambda: checks.check_mask(YES.float(), (2, 3, 5)),
     "mask: expected a boolean tensor, True = may attend, got torch.float32. If 1 means may "
     "attend, pass mask.bool(); if 0 means may attend and -inf hidden, pass mask == 0"),
    (lambda: checks.check_mask(YES.T, (2, 3, 5)),
     "mask: expected a shape that broadcasts to (..., T, S) = (2, 3, 5), got (5, 3)"),
    (lambda: checks.check_mask(YES.to("meta"), (2, 3, 5), Q.device),
     "mask: expected the scores' device, cpu, got meta"),
    (lambda: checks.check_multihead(HEADS, Q, K, V, None),
     "v: expected shape (B, length, d_model = 4), got (2, 5, 6)"),
    (lambda: checks.check_multihead(HEADS, Q, K.long(), K, None),
     "k: expected floating-point vectors, got torch.int64"),
    (lambda: checks.check_multihead(HEADS, Q, K.double(), K, None),
     "k: expected the weights' dtype, torch.float32, got torch.float64"),
    (lambda: checks.check_multihead(HEADS, Q.to("meta"), K, K, None),
     "q: expected the weights' device, cpu, got meta"),
    (lambda: checks.check_multihead(HEADS, Q, K, K, YES[None]),
     "mask: expected 2 axes (T, S) or 4 axes (B, H, T, S), got (1, 3, 5)"),
    (lambda: checks.check_embeddings(IDS, TABLE),
     "x: expected embeddings, floating-point vectors, got torch.int64"),
    (lambda: checks.check_embeddings(X[0], TABLE),
     "x: expected shape (B, T, d_model = 4), got (3, 4)"),
    (lambda: checks.check_embeddings(X, TABLE[:2]),
     "x: expected at most max_length = 2 positions, got 3"),
    (lambda: checks.check_embeddings(X.to("meta"), TABLE),
     "x: expected the table's device, cpu, got meta"),
    (lambda: checks.check_width(X, V), "x: expected vectors of width d_model = 6, got (2, 3, 4)"),
    (lambda: checks.check_width(X.sum(), V), "x: expected vectors of width d_model = 6, got ()"),
    (lambda: checks.check_width(X.double(), TABLE),
     "x: expected the weights' dtype, torch.float32, got torch.float64"),
    (lambda: checks.check_width(X.to("meta"), TABLE),
     "x: expected the weights' device, cpu, got meta"),
    (lambda: checks.check_rotation(Q, Q[0, 0]),
     "x: expected shape (..., T, K) with one angle for each place and pair, (T, K / 2) = (4,), "
     "got (2, 3, 4)"),
    (lambda: checks.check_rotation(Q, Q[0]),
     "x: expected shape (..., T, K) with one angle for each place and pair, (T, K / 2) = (3, 4), "
     "got (2, 3, 4)"),
    (lambda: checks.check_sublayer(X[:, :1], X),
     "sublayer: expected an output of shape (2, 3, 4), got (2, 1, 4)"),
    (lambda: inspect.unwrap(checks.check_sublayer)(X, [1.0]), "x: expected a tensor, got list"),
    (lambda: inspect.unwrap(checks.check_sublayer)(None, X),
     "sublayer: expected a tensor, got NoneType"),
    (lambda: checks.check_machine(SimpleNamespace(**SIZES, vocab_size=True)),
     "vocab_size: expected an integer, got True"),
    (lambda: checks.check_machine(SimpleNamespace(**SIZES | {"d_model": 7}, vocab_size=9)),
     "d_model: expected an even number, got 7"),
    (lambda: checks.check_decoding(IDS, X, None), "tgt: expected 2 sentences as in src, got 1"),
    (lambda: checks.check_decoding(IDS, X[:1], YES),
     "src_mask: expected shape (B, 1, 1, S), got (3, 5)"),
    (lambda: inspect.unwrap(checks.check_decoding)(IDS, X[:1], [True]),
     "src_mask: expected a tensor, got list"),
    (lambda: checks.check_product(X[0], X[0, :, :2]),
     "x: expected (N, D) for a weight (V, D) = (3, 2), got (3, 4)"),
    (lambda: checks.check_product(X[0].to("meta"), TABLE),
     "x: expected the weight's device, cpu, got meta"),
    (lambda: checks.check_targets(X, META, 3),
     "targets: expected the predictions' device, cpu, got meta"),
    (lambda: checks.check_targets(X, IDS, 3), "targets: expected shape (2, 3), got (1, 3)"),
    (lambda: checks.check_targets(X, IDS.expand(2, 3), 2),
     "targets: expected ids from 0 to 1, got 2"),
    (lambda: checks.check_targets(X.long(), IDS.expand(2, 3), 3),
     "predictions: expected floating-point vectors, got torch.int64"),
    (lambda: checks.check_targets(X, X[..., 0], 3),
     "targets: expected integer ids, got torch.float32"),
    (lambda: inspect.unwrap(checks.check_logits)([[1.0]], IDS),
     "logits: expected a tensor, got list"),
    (lambda: checks.check_logits(X + math.nan, IDS.expand(2, 3)),
     "logits: expected finite numbers, got nan"),
    (lambda: checks.check_logits(X.log(), IDS.expand(2, 3)),
     "logits: expected finite numbers, got -inf"),
    (lambda: checks.check_logits(X, IDS.expand(2, 3) + 2),
     "targets: expected ids from 0 to 3, got 4"),
    (lambda: checks.check_target_tokens(0), "batches: expected target tokens after BOS, got none"),
    (lambda: checks.check_epoch(0, 2), "batches: expected at least one batch in epoch 2, got none"),
    (lambda: checks.check_objective(OWN, None, 0.1, torch.float32),
     "objective: expected that of this model, got that of another"),
    (lambda: checks.check_objective(OWN, MODEL, 0.2, torch.float32),
     "objective: expected smoothing 0.2, got 0.1"),
    (lambda: checks.check_objective(OWN, MODEL, 0.1, torch.half),
     "objective: expected torch.float16, got torch.float32"),
    (lambda: checks.check_objective(3, MODEL, 0.1, torch.float32),
     "objective: expected that of this model, got that of another"),
    (lambda: inspect.unwrap(checks.check_optimizer)("adam", MODEL),
     "optimizer: expected an optimizer of PyTorch, got str"),
    (lambda: checks.check_optimizer(sgd(X), MODEL),
     "optimizer: expected one of this model's weights, got one of others"),
    (lambda: checks.check_rate(math.nan, 3),
     "schedule: expected a rate of at least 0, got nan at step 3"),
    (lambda: checks.check_rate(None, 1),
     "schedule: expected a rate of at least 0, got None at step 1"),
    (lambda: inspect.unwrap(checks.check_cosine)(1, "9", 1.0, 4, 0.1),
     "steps: expected an integer or a float, got '9'"),
    (lambda: inspect.unwrap(checks.check_cosine)(1.0, 9, 1.0, 4, 0.1),
     "step: expected an integer, got 1.0"),
    (lambda: checks.check_cosine(1, 4, 1.0, 4, 0.1),
     "steps: expected more than warmup_steps = 4, got 4"),
    (lambda: inspect.unwrap(checks.check_cosine)(1, math.nan, 1.0, 4, 0.1),
     "steps: expected more than warmup_steps = 4, got nan"),
    (lambda: checks.check_cosine(1, 9, math.nan, 4, 0.1),
     "peak: expected a finite number of at least 0, got nan"),
    (lambda: checks.check_cosine(1, 9, 1.0, 4, -0.1),
     "floor: expected a finite number of at least 0, got -0.1"),
    (lambda: checks.check_run(None, len, 1, None, 1, 1.0, 0, STEPS),
     "model: expected one with a config, as a Transformer, got NoneType"),
    (lambda: checks.check_run(OF_CONFIG, [MODEL], 1, None, 1, 1.0, 0, STEPS),
     "batches: expected a function, got list"),
    (lambda: checks.check_run(OF_CONFIG, len, 1, 0.1, 1, 1.0, 0, STEPS),
     "schedule: expected a function, got float"),
    (lambda: inspect.unwrap(checks.check_run)(OF_CONFIG, len, 1, None, 1, 1.0, "a", STEPS),
     "seed: expected an integer, got 'a'"),
    (lambda: checks.check_run(OF_CONFIG, len, 1, None, 1, 1.0, 10**10, STEPS),
     "seed: expected less than 8589934592, got 10000000000"),
    (lambda: checks.check_run(OF_CONFIG, len, 1, None, 1, 1.0, 0, 3),
     "after: expected a Record, got int"),
    (lambda: checks.check_limits(torch.tensor([1, 0]), None, 5),
     "src: expected a token in every sentence, got one of padding alone"),
    (lambda: checks.check_limits(torch.tensor([1]), 6, 5),
     "max_length: expected 1 to 5 positions, got 6"),
    (lambda: checks.check_beam(0, 0.6), "beam: expected at least 1, got 0"),
    (lambda: checks.check_beam(4, -0.1),
     "length_penalty: expected a finite number of at least 0, got -0.1"),
    (lambda: checks.check_beam(4, 1000), "length_penalty: expected at most 10, got 1000"),
    (lambda: inspect.unwrap(checks.check_vocabulary)(20, tokenizer=None),
     "tokenizer: expected one with 20 tokens, got NoneType"),
    (lambda: checks.check_vocabulary(20, vocabulary=[1]),
     "vocabulary: expected 20 tokens as the model has, got 1"),
    (lambda: checks.check_lengths([[1], [1, 2, 3]], 2),
     "sentences: expected at most 1 tokens, the model's positions less EOS, got 2 in sentence 1"),
    (lambda: checks.check_filter(1.0, 1.5, None),
     "top_k: expected a whole number of at least 1, got 1.5"),
    (lambda: checks.check_filter(1.0, None, None, X),
     "logits: expected shape (B, V), got (2, 3, 4)"),
    (lambda: checks.check_filter(1.0, None, None, IDS),
     "logits: expected floating-point vectors, got torch.int64"),
    (lambda: checks.check_filter(1.0, True, None),
     "top_k: expected an integer or a float, got True"),
    (lambda: checks.check_range("targets", IDS, 2), "targets: expected ids from 0 to 1, got 2"),
    (lambda: checks.check_text_ids(CAUSAL, IDS.expand(1, 3).repeat(1, 2), None, None),
     "tokens: expected at most max_length = 3, got 6"),
    (lambda: checks.check_text_ids(CAUSAL, IDS, YES[:, :2], None),
     "mask: expected a shape that broadcasts to (..., T, S) = (1, 2, 3, 3), got (3, 2)"),
    (lambda: checks.check_text_ids(CAUSAL, IDS, None, IDS),
     "segments: expected None for a model without segment embeddings, got Tensor"),
    (lambda: checks.check_text_ids(SEGMENTED, IDS, None, IDS),
     "segments: expected ids from 0 to 1, got 2"),
    (lambda: checks.check_text_ids(SEGMENTED, IDS, None, IDS[:, :1]),
     "segments: expected shape (1, 3), got (1, 1)"),
    (lambda: checks.check_causal(SimpleNamespace(config=SEGMENTED)),
     "model: expected a causal one; a bidirectional one has no next token"),
    (lambda: checks.check_causal(SimpleNamespace(config=OF_CONFIG)),
     "model: expected a LanguageModel, got SimpleNamespace"),
    (lambda: checks.check_causal("gpt"), "model: expected a LanguageModel, got str"),
    (lambda: checks.check_masking(IDS.float(), IDS > 0, 9, 9, 0.1),
     "tokens: expected integer ids, got torch.float32"),
    (lambda: checks.check_masking(IDS, IDS, 9, 9, 0.1),
     "maskable: expected a boolean tensor, got torch.int64"),
    (lambda: checks.check_masking(IDS, IDS[:, :2] > 0, 9, 9, 0.1),
     "maskable: expected shape (1, 3), got (1, 2)"),
    (lambda: checks.check_masking(IDS, IDS > 0, -1, 9, 0.1),
     "mask_token: expected at least 0, got -1"),
    (lambda: checks.check_masking(IDS, IDS > 0, 0, 0, 0.1),
     "vocab_size: expected at least 1, got 0"),
    (lambda: checks.check_groups(4, 3), "n_groups: expected a divisor of n_heads = 4, got 3"),
    (lambda: inspect.unwrap(checks.check_angles)([0, 1], 4, 10.0),
     "places: expected a tensor, got list"),
    (lambda: checks.check_angles(IDS, 4, 10.0), "places: expected shape (T,), got (1, 3)"),
    (lambda: checks.check_angles(IDS[0], 3, 10.0),
     "d_k: expected an even number of at least 2, got 3"),
    (lambda: checks.check_angles(IDS[0], 4, 0.0),
     "theta: expected a finite number above 0, got 0.0"),
    (lambda: inspect.unwrap(checks.check_sight)(3, IDS[0], None, 0),
     "queries: expected a tensor, got int"),
    (lambda: checks.check_sight(IDS[0], IDS, None, 0),
     "keys: expected their places, one axis, got (1, 3)"),
    (lambda: checks.check_sight(IDS[0], IDS[0], 0, 0), "window: expected at least 1, got 0"),
    (lambda: checks.check_sight(IDS[0], IDS[0], 1, -1), "sinks: expected at least 0, got -1"),
    (lambda: checks.check_parsing(2, "ab", ["Jane"], 1, 9),
     "sentences: expected lists of words, got a string in place 0"),
    (lambda: checks.check_parsing(2, "ab", [None], 1, 9),
     "sentences: expected lists of words, got NoneType in place 0"),
    (lambda: checks.check_parsing(2, "ab", [["Jane"], []], 1, 9),
     "sentences: expected words in each, got none in place 1"),
    (lambda: checks.check_parsing(2, "ab", [["Jane", ""]], 1, 9),
     "sentences: expected words in each, got '' in place 0"),
    (lambda: checks.check_parsing(2, "ab", [["Jane", 3]], 1, 9),
     "sentences: expected words in each, got 3 in place 0"),
    (lambda: checks.check_parsing(2, "ab", [["Jane"] * 3], 1, 2),
     "sentences: expected at most 2 words, for whose tree the model has positions, got 3 in "
     "place 0"),
    (lambda: checks.check_trees([WORD], []), "given: expected 1 trees as in true, got 0"),
    (lambda: checks.check_trees([WORD], [SimpleNamespace(leaves=[], inside=())]),
     "given: expected 1 words in tree 0, got 0"),
    (lambda: checks.check_ring([X[0, 0], X[0]]),
     "vectors: expected one of shape (P,) for each process, got shapes [(4,), (3, 4)]"),
    (lambda: checks.check_stage(0, 1),
     "n and stage: expected n >= 1 and a stage from 0 to 3, got 0, 1"),
    (lambda: inspect.unwrap(checks.check_stage)("2", 1), "n: expected an integer, got '2'"),
    (lambda: inspect.unwrap(checks.check_machines)(1.5, 8), "n: expected an integer, got 1.5"),
    (lambda: checks.check_projection(MINE, "H100", 1, 1, 1, 1, 1, 1),
     "device: expected a Device, got str"),
    (lambda: checks.check_projection(MINE, GPU, 0, 1, 1, 1, 1, 1),
     "n: expected at least 1, got 0"),
    (lambda: checks.check_projection(MINE, GPU, 1, -1, 1, 1, 1, 1),
     "steps: expected a finite number of at least 0, got -1"),
    (lambda: checks.check_projection(MINE, GPU, 1, 1, 0, 1, 1, 1),
     "tokens: expected a finite number above 0, got 0"),
    (lambda: checks.check_projection(MINE, GPU, 1, 1, 1, 0, 1, 1),
     "length: expected a finite number above 0, got 0"),
    (lambda: checks.check_projection(MINE, GPU, 1, 1, 1, 1, 1.5, 1),
     "utilisation: expected a share above 0 and at most 1, got 1.5"),
    (lambda: checks.check_projection(MINE, GPU, 1, 1, 1, 1, 1, math.nan),
     "loading: expected tokens a second above 0, got nan"),
    (lambda: checks.check_machines(12, 8), "n: expected whole machines of 8 devices, got 12"),
    (lambda: checks.check_run(OF_CONFIG, len, 1, len, 0, 1.0, 0, STEPS),
     "accumulate and steps: expected at least 1 and 0, got 0 and 1"),
    (lambda: checks.check_run(OF_CONFIG, len, 1, len, 1, 0.0, 0, STEPS),
     "max_norm: expected a length above 0, got 0.0"),
    (lambda: checks.check_completion(IDS[:, :0], 1, 1.0, None, None),
     "tokens: expected shape (B, T), T at least 1, got (1, 0)"),
    (lambda: checks.check_completion(IDS[0], 1, 1.0, None, None),
     "tokens: expected shape (B, T), T at least 1, got (3,)"),
    (lambda: checks.check_completion(IDS, -1, 1.0, None, None),
     "count: expected at least 0, got -1"),
    (lambda: checks.check_completion(IDS, 1, math.nan, None, None),
     "temperature: expected a finite number of at least 0, got nan"),
    (lambda: checks.check_completion(IDS, 1, math.inf, None, None),
     "temperature: expected a finite number of at least 0, got inf"),
    (lambda: checks.check_completion(IDS, 1, 1.0, 0, None),
     "top_k: expected a whole number of at least 1, got 0"),
    (lambda: checks.check_completion(IDS, 1, 1.0, None, 0.0),
     "top_p: expected a share above 0 and at most 1, got 0.0"),
    (lambda: inspect.unwrap(checks.check_same_states)(iter([{}])),
     "states: expected a list, got list_iterator"),
    (lambda: checks.check_same_states([]), "states: expected at least one, got none"),
    (lambda: checks.check_same_states([{"w": X}, {"w": Q[0]}]),
     "states: expected shape (2, 3, 4) of w in each, got (3, 4)"),
    (lambda: checks.check_same_states([{"w": X}, {"w": X, "b": X}]),
     "states: expected shape None of b in each, got (2, 3, 4)"),
    (lambda: inspect.unwrap(checks.check_same_states)([MODEL, MODEL]),
     "states: expected dicts of tensors, got Linear"),
    (lambda: checks.check_ids(IDS.bool()), "tokens: expected integer ids, got torch.bool"),
    (lambda: checks.check_padding(IDS + 0.5, 0), "tokens: expected integer ids, got torch.float32"),
    (lambda: inspect.unwrap(checks.check_padding)(IDS, 0.5), "pad: expected an integer, got 0.5"),
    (lambda: checks.check_ids(IDS[0]), "tokens: expected shape (B, S), got (3,)"),
    # as readers see it: without jaxtyping's checks, which tests switch on
    (lambda: inspect.unwrap(checks.check_tokens)("src", [[1]], 3),
     "src: expected a tensor of ids, got list"),
    (lambda: checks.check_tokens("src", IDS.float(), 3),
     "src: expected integer ids, got torch.float32"),
    (lambda: checks.check_tokens("tgt", IDS[:, :0], 3),
     "tgt: expected shape (B, length), got (1, 0)"),
    (lambda: checks.check_tokens("src", IDS, 3, torch.device("meta")),
     "src: expected the model's device, meta, got cpu"),
    (lambda: checks.check_tokens("tgt", IDS, 2), "tgt: expected ids from 0 to 1, got 2"),
    (lambda: checks.check_tokens("tgt", -IDS, 3), "tgt: expected ids from 0 to 2, got -2"),
]  # fmt: skip


@pytest.mark.parametrize("call, message", REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_says_what_does_not_fit(call, message):
    of_type = any(word in message for word in TYPES)
    with pytest.raises(TypeError if of_type else ValueError) as error:
        call()
    assert str(error.value) == message


READERS = {
    "attention([[1.0]], K, K)": "TypeError: q: expected a tensor, got list",
    "attention(Q, K, K.half())":
        "TypeError: v: expected the queries' dtype, torch.float32, got torch.float16",
    "attention(Q, K.double(), K)":
        "TypeError: k: expected the queries' dtype, torch.float32, got torch.float64",
    "attention(Q, K, K, [[True]])": "TypeError: mask: expected a tensor, got list",
    "attention(Q, K, K, torch.ones(5, dtype=torch.bool, device='meta'))":
        "ValueError: mask: expected the scores' device, cpu, got meta",
    "masked_softmax(Q, torch.ones(4, dtype=torch.bool, device='meta'))":
        "ValueError: mask: expected the scores' device, cpu, got meta",
    "MultiHeadAttention(4, 2)(Q, K, K, [[True]])": "TypeError: mask: expected a tensor, got list",
    "MultiHeadAttention(4, 2)(Q, K, K.long())":
        "TypeError: v: expected floating-point vectors, got torch.int64",
    "padding_mask([[4, 0]], 0)": "TypeError: tokens: expected a tensor, got list",
    "flip_polarity([True])": "TypeError: mask: expected a tensor, got list",
    "rotary_angles([0, 1], 4)": "TypeError: places: expected a tensor, got list",
    "ring_all_reduce([[1.0], [2.0]])": "TypeError: vectors: expected a tensor, got list",
    "mask_tokens([[4]], IDS > 0, 1, 9)": "TypeError: tokens: expected a tensor, got list",
    "mask_tokens(IDS, IDS, 1, 9)":
        "TypeError: maskable: expected a boolean tensor, got torch.int64",
    "generate(gpt, [[4]], 1)": "TypeError: tokens: expected a tensor, got list",
    "gpt(IDS, torch.ones(3, 3))":
        "TypeError: mask: expected a boolean tensor, True = may attend, got torch.float32. If 1 "
        "means may attend, pass mask.bool(); if 0 means may attend and -inf hidden, pass mask == 0",
    "filter_logits(Q[0], top_k=0)":
        "ValueError: top_k: expected a whole number of at least 1, got 0",
    "filter_logits(Q[0], temperature=-1)":
        "ValueError: temperature: expected a finite number of at least 0, got -1",
    "label_smoothed_loss(torch.zeros(2, 5), torch.tensor([1, 7]))":
        "ValueError: targets: expected ids from 0 to 4, got 7",
    "linear_cross_entropy(torch.zeros(2, 4), torch.zeros(5, 4), torch.tensor([1, 7]))":
        "ValueError: targets: expected ids from 0 to 4, got 7",
    "next(train(model, lambda epoch: [], 1, adam(other)))":
        "ValueError: optimizer: expected one of this model's weights, got one of others",
    "parse(model, vocabulary, [['Jane'], []])":
        "ValueError: sentences: expected words in each, got none in place 1",
    "parse(model, vocabulary, 'Jane sleeps')":
        "TypeError: sentences: expected several sentences, got one string",
    "parse(model, vocabulary, ['Jane sleeps'])":
        "TypeError: sentences: expected lists of words, got a string in place 0",
    "parse(model, vocabulary, [['Jane']], batch=0)":
        "ValueError: batch: expected at least 1, got 0",
    "parse(other, vocabulary, [['Jane']])":
        "ValueError: vocabulary: expected 20 tokens as the model has, got 7",
    "parse(model, vocabulary, [['Jane'], ['Jane'] * 2600])":
        "ValueError: sentences: expected at most 998 words, for whose tree the model has "
        "positions, got 2600 in place 1",
    "label_smoothed_loss(torch.zeros(2, 5).log(), torch.tensor([1, 3]))":
        "ValueError: logits: expected finite numbers, got -inf",
    "label_smoothed_loss([[0.0, 1.0]], torch.tensor([1]))":
        "TypeError: logits: expected a tensor, got list",
    "mask_tokens(IDS, IDS > 0, 1.5, 9)":
        "TypeError: mask_token: expected an integer, got 1.5",
    "mask_tokens(IDS, IDS > 0, 1, 9.0)":
        "TypeError: vocab_size: expected an integer, got 9.0",
    "project(BASE, H100, 0, 1)": "ValueError: n: expected at least 1, got 0",
    "project(BASE, H100, 8, 1, length=0)":
        "ValueError: length: expected a finite number above 0, got 0",
    "sent_bytes(8, 0)":
        "ValueError: n and stage: expected n >= 1 and a stage from 0 to 3, got 0, 0",
    "steps_needed(0, 1, 1)": "ValueError: tokens: expected a finite number above 0, got 0",
    "rotary_angles(torch.arange(3), 4, theta=0)":
        "ValueError: theta: expected a finite number above 0, got 0",
    "in_sight(torch.arange(3), torch.arange(3), window=0)":
        "ValueError: window: expected at least 1, got 0",
    "cosine_rate(1, math.nan, 1.0, 1)":
        "ValueError: steps: expected more than warmup_steps = 1, got nan",
    "cosine_rate(1, 9, math.nan, 1)":
        "ValueError: peak: expected a finite number of at least 0, got nan",
    "padding_mask(IDS, 0.5)": "TypeError: pad: expected an integer, got 0.5",
    "padding_mask(IDS / 2, 0)": "TypeError: tokens: expected integer ids, got torch.float32",
    "translate(model, of_seven, [], beam=True)": "TypeError: beam: expected an integer, got True",
    "translate(model, of_seven, [], beam=1.0)": "TypeError: beam: expected an integer, got 1.0",
    "beam_search(model, IDS, length_penalty=1000)":
        "ValueError: length_penalty: expected at most 10, got 1000",
    "Cache(model, IDS, beams=0)": "ValueError: beams: expected at least 1, got 0",
    "tokenizer.decode([4, 1.7])": "TypeError: ids: expected an integer for each, got 1.7",
    "tokenizer.decode(torch.tensor([0.5]))":
        "TypeError: ids: expected an integer for each, got 0.5",
    "RNN(0, 3)": "ValueError: d_in: expected at least 1, got 0",
    "LSTM(3, 0)": "ValueError: d_hidden: expected at least 1, got 0",
    "GRU(3, 2.0)": "TypeError: d_hidden: expected an integer, got 2.0",
    "MultiHeadAttention(4, 2, bias='no')": "TypeError: bias: expected True or False, got 'no'",
    "Residual(4, norm_first='no')": "TypeError: norm_first: expected True or False, got 'no'",
    "FeedForward(4, 8, 'relu')": "TypeError: activation: expected a function, got 'relu'",
    "LanguageModelConfig(activation=torch.relu)":
        "ValueError: activation: expected one of relu, gelu, gelu_tanh, got <built-in method relu "
        "of type object>",
    "SparseAttention(4, 2, 'windowed')": "TypeError: pattern: expected a function, got 'windowed'",
    "Residual(4)(Q, Q)": "TypeError: sublayer: expected a function, got Tensor",
    "merge_heads(Q)": "ValueError: x: expected shape (B, H, T, K), got (1, 3, 4)",
    "masked_softmax(Q.long())":
        "TypeError: scores: expected floating-point vectors, got torch.int64",
    "adam(model.parameters())": "TypeError: model: expected a module of PyTorch, got generator",
    "next(train(model, [], 1))": "TypeError: batches: expected a function, got list",
    "next(train(model, lambda epoch: [(IDS, IDS)], 1))":
        "TypeError: batches: expected a Batch for each, with src and tgt, got tuple",
    "validation_loss(model, lambda epoch: [])":
        "TypeError: batches: expected several batches, got function",
    "sample(model, IDS, generator=1)":
        "TypeError: generator: expected torch.Generator().manual_seed(...) or the like, got 1",
    "generate(gpt, IDS, 1, generator=1)":
        "TypeError: generator: expected torch.Generator().manual_seed(...) or the like, got 1",
    "mask_tokens(IDS, IDS > 0, 1, 9, generator=1)":
        "TypeError: generator: expected torch.Generator().manual_seed(...) or the like, got 1",
    "complete(llama, IDS, 1, generator=1)":
        "TypeError: generator: expected torch.Generator().manual_seed(...) or the like, got 1",
    "recall_batch(3, 2, 1)":
        "TypeError: generator: expected torch.Generator().manual_seed(...) or the like, got 1",
    "sample(model, IDS, temperature=0, top_k=0)":
        "ValueError: top_k: expected a whole number of at least 1, got 0",
    "translate(model, None, ['Jane'])":
        "TypeError: tokenizer: expected a Tokenizer, got NoneType",
    "pad([[4, 5], [1.5]])": "TypeError: ids: expected an integer for each, got 1.5",
    "list(token_batches([[4, 5]], 9))":
        "ValueError: pairs: expected two lists of ids in each, got [4, 5]",
    "Translator(9, 8, 'dot')": "TypeError: score: expected a function, got 'dot'",
    "Translator(9, 8, None)(IDS + 9, IDS)": "ValueError: src: expected ids from 0 to 8, got 15",
    "Translator(9, 8, None)(IDS, IDS + 9)": "ValueError: tgt: expected ids from 0 to 8, got 15",
    "longest_chain(Q)":
        "ValueError: tensor: expected one with a graph (requires_grad), got one without",
    "generate(model, IDS, 1)":
        "TypeError: model: expected a LanguageModel, got Transformer",
    "complete(gpt, IDS, 1)": "TypeError: model: expected a Llama, got LanguageModel",
    "from_gpt2(gpt, 2)":
        "TypeError: state: expected a dict, such as state_dict() gives, got LanguageModel",
    "from_llama({}, gpt.config)":
        "TypeError: config: expected a dict, as config.json, got LanguageModelConfig",
    "encode_text(tokenizer, None)": "TypeError: text: expected a string, got NoneType",
    "decode_text(tokenizer, [99])": "ValueError: ids: expected numbers from 0 to 19, got 99",
    "linearise('(S (NN dog))')":
        "TypeError: tree: expected a Tree, got a string: read it with `read_tree`",
    "vocabulary.encode_words('Jane')": "TypeError: words: expected several words, got one string",
    "reach([[True]])": "TypeError: masks: expected a tensor, got list",
    "project(BASE, 'H100', 8, 1)": "TypeError: device: expected a Device, got str",
    "project('base', H100, 8, 1)": "TypeError: config: expected a TransformerConfig, got str",
    "save_model('nowhere', model.state_dict())":
        "TypeError: model: expected a Transformer, got OrderedDict",
    "save_model('nowhere', model, dtype='bf16')":
        "TypeError: dtype: expected a floating-point dtype, got 'bf16'",
    "bleu(iter(['a']), ['a'])": "TypeError: translations: expected a list, got list_iterator",
    "windowed_mask(3, 1, 'cpu')": "TypeError: causal: expected True or False, got 'cpu'",
    "global_mask(3, 1, 1, 'no')": "TypeError: causal: expected True or False, got 'no'",
    "greedy(gpt, IDS)": "TypeError: model: expected a Transformer, got LanguageModel",
    "greedy(IDS, model)": "TypeError: model: expected a Transformer, got Tensor",
    "greedy('multi30k-en-de', IDS)": "TypeError: model: expected a Transformer, got str",
    "greedy(rnn, IDS)": "TypeError: model: expected a Transformer, got Translator",
    "sample(gpt, IDS)": "TypeError: model: expected a Transformer, got LanguageModel",
    "beam_search(model.state_dict(), IDS)":
        "TypeError: model: expected a Transformer, got OrderedDict",
    "Cache(gpt, IDS)": "TypeError: model: expected a Transformer, got LanguageModel",
    "translate(tokenizer, other, ['Jane'])":
        "TypeError: model: expected a Transformer, got Tokenizer",
    "translate(gpt, tokenizer, ['Jane'])":
        "TypeError: model: expected a Transformer, got LanguageModel",
    "translate(other, tokenizer.bpe, ['Jane'])":
        "TypeError: tokenizer: expected a Tokenizer, got one of tokenizers",
    "greedy(Transformer, IDS)":
        "TypeError: model: expected a Transformer, got the class Transformer",
    "translate(other, ['a'] * 20, ['Jane'])":
        "TypeError: tokenizer: expected a Tokenizer, got list",
    "translate(other, tokenizer, [], length_penalty='a')":
        "TypeError: length_penalty: expected an integer or a float, got 'a'",
    "greedy(on_meta, IDS)": "ValueError: src: expected the model's device, meta, got cpu",
    "greedy(model, IDS.to('meta'))": "ValueError: src: expected the model's device, cpu, got meta",
    "model(IDS, IDS.to('meta'))": "ValueError: tgt: expected the model's device, cpu, got meta",
    "llama(IDS.to('meta'))": "ValueError: tokens: expected the model's device, cpu, got meta",
    "model.decode(IDS, MEMORY, None)":
        "TypeError: k: expected the weights' dtype, torch.float32, got torch.float64",
    "MultiHeadAttention(8, 2)(X.double(), X.double(), X.double())":
        "TypeError: q: expected the weights' dtype, torch.float32, got torch.float64",
    "SparseAttention(8, 2, abs)(X.to('meta'), X, X)":
        "ValueError: q: expected the weights' device, cpu, got meta",
    "LayerNorm(8)(X.double())":
        "TypeError: x: expected the weights' dtype, torch.float32, got torch.float64",
    "FeedForward(8, 8)(X.to('meta'))": "ValueError: x: expected the weights' device, cpu, got meta",
    "RMSNorm(8)(X.double())":
        "TypeError: x: expected the weights' dtype, torch.float32, got torch.float64",
    "SinusoidalPositions(8)(X.to('meta'))":
        "ValueError: x: expected the table's device, cpu, got meta",
    "label_smoothed_loss(X, IDS.to('meta'))":
        "ValueError: targets: expected the predictions' device, cpu, got meta",
    "Objective(gpt, 0.1)": "TypeError: model: expected a Transformer, got LanguageModel",
    "Objective(model, 2.0)": "ValueError: smoothing: expected a probability below 1, got 2.0",
    "validation_loss('model', [batch])": "TypeError: model: expected a Transformer, got str",
    "validation_loss(model, [IDS])":
        "TypeError: batches: expected a Batch for each, with src and tgt, got Tensor",
    "validation_loss(model, [Batch([1], IDS)])":
        "TypeError: src: expected a tensor of ids, got list",
    "next(train(None, lambda epoch: [batch], 1))":
        "TypeError: model: expected one with a config, as a Transformer, got NoneType",
    "next(train(gpt, lambda epoch: [batch], 1))":
        "TypeError: model: expected a Transformer, got LanguageModel",
    "next(train(model, lambda epoch: batch, 1))":
        "TypeError: batches: expected several batches, got Batch",
    "next(train(model, lambda epoch: [batch], 1, after=3))":
        "TypeError: after: expected a Record, got int",
    "next(train(model, lambda epoch: [batch], 1, seed=10**10))":
        "ValueError: seed: expected less than 8589934592, got 10000000000",
    "generate('gpt', IDS, 1)": "TypeError: model: expected a LanguageModel, got str",
    "complete(None, IDS, 1)": "TypeError: model: expected a Llama, got NoneType",
    "parse(gpt, vocabulary, [['Jane']])":
        "TypeError: model: expected a Transformer, got LanguageModel",
    "parse(other, tokenizer, [['Jane']])":
        "TypeError: vocabulary: expected a Vocabulary, got Tokenizer",
    "pad([[4], None])": "TypeError: sequences: expected lists of ids, got None for one",
    "list(token_batches([4, 5], 9))":
        "ValueError: pairs: expected two lists of ids in each, got 4",
    "list(token_batches([('Jane', 'Jean')], 9))":
        "TypeError: pairs: expected lists of ids, got sentences; encode them first",
    "save_model(path, gpt)": "TypeError: model: expected a Transformer, got LanguageModel",
    "save_model(model, path)": "TypeError: model: expected a Transformer, got str",
    "save_model(path, other, 'a' * 20)": "TypeError: tokenizer: expected a Tokenizer, got str",
    "save_model(path, model, card='mine')": "TypeError: card: expected a dict, got str",
    "save_model(path, model, card={'data': {1}})":
        "TypeError: card: expected what JSON can hold, got: Object of type set is not JSON "
        "serializable",
    "save_model(3, model)": "TypeError: path: expected a path, got int",
    "save_language_model(path, model)":
        "TypeError: model: expected a LanguageModel, got Transformer",
    "load_model(3)": "TypeError: path: expected a path, got int",
    "load_model(path, 'gpu')": "ValueError: device: expected one of this machine, got 'gpu'",
    "load_language_model('gpt', 'tpu')":
        "ValueError: device: expected one of this machine, got 'tpu'",
    "pretrained('tatoeba-en-fr', 3)": "ValueError: device: expected one of this machine, got 3",
    "normalise(3)": "TypeError: sentence: expected a string, got int",
    "plain_signs(3, 'ab')": "TypeError: sentence: expected a string, got int",
    "tokenised(3, 'de')": "TypeError: sentence: expected a string, got int",
    "BPEDropout('a', 0.1)": "TypeError: tokenizer: expected a Tokenizer, got str",
}  # fmt: skip
AS_READERS = """
import copy
import math
import re
import sys
import torch
from allyouneed.alignment import Translator
from allyouneed.attention import attention, masked_softmax
from allyouneed.decoding import Cache, beam_search, filter_logits, greedy, sample, translate
from allyouneed.data import normalise, plain_signs
from allyouneed.evaluation import bleu, tokenised
from allyouneed.families import (
    LanguageModel, LanguageModelConfig, decode_text, encode_text, from_gpt2, generate,
    load_language_model, mask_tokens, save_language_model,
)
from allyouneed.kernels import linear_cross_entropy
from allyouneed.masks import flip_polarity, padding_mask
from allyouneed.multihead import MultiHeadAttention, merge_heads
from allyouneed.parsing import Vocabulary, linearise, parse
from allyouneed.recurrent import GRU, LSTM, RNN, longest_chain, recall_batch
from allyouneed.positions import SinusoidalPositions
from allyouneed.saving import load_model, pretrained, save_model
from allyouneed.scaling import H100, project, ring_all_reduce, sent_bytes, steps_needed
from allyouneed.sparse import SparseAttention, global_mask, reach, windowed_mask
from allyouneed.sublayers import FeedForward, LayerNorm, Residual
from allyouneed.subwords import BPEDropout
from allyouneed.today import (
    Llama, LlamaConfig, RMSNorm, complete, cosine_rate, from_llama, in_sight, rotary_angles,
)
from allyouneed.tokens import Batch, Tokenizer, pad, token_batches
from allyouneed.training import Objective, adam, label_smoothed_loss, train, validation_loss
from allyouneed.transformer import BASE, Transformer, TransformerConfig

Q, K, IDS = torch.zeros(1, 3, 4), torch.zeros(1, 5, 4), torch.tensor([[4, 5, 6]])
gpt = LanguageModel(LanguageModelConfig(9, 8, 8, 2, 1, max_length=4))
llama, rnn = Llama(LlamaConfig(9, 8, 8, 2, 1, 1, d_k=4)), Translator(9, 8, None)
vocabulary = Vocabulary(["(S", ")S"], ["Jane"], [])
model, other = (Transformer(TransformerConfig(size, 8, 8, 2, 1)) for size in (7, 20))
tokenizer, of_seven = (Tokenizer.train([text], 20) for text in ("Jane sleeps", "a a a"))
on_meta = copy.deepcopy(model).to("meta")
X, MEMORY = torch.zeros(1, 3, 8), torch.zeros(1, 3, 8).double()
batch, path = Batch(IDS, IDS), sys.argv.pop(1)
for call in sys.argv[1:]:
    try:
        eval(call)
        print("nothing")
    except Exception as error:
        print(re.sub(" at 0x[0-9a-f]+", "", f"{type(error).__name__}: {error}"))
"""


def test_what_readers_hear(tmp_path):
    """In another process, without jaxtyping's checks, which tests switch on."""
    command = [sys.executable, "-c", AS_READERS, str(tmp_path / "x.safetensors"), *READERS]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    assert dict(zip(READERS, done.stdout.splitlines(), strict=True)) == READERS


def test_autocast_makes_one_dtype_of_several():
    with torch.autocast("cpu", torch.bfloat16):
        assert checks.check_attention(Q, K, V.bfloat16()) is None


def test_every_check_is_tested():
    named = {name for name in vars(checks) if name.startswith("check_")}
    used = {name for case in [*FITS.values()] for name in case.__code__.co_names}
    refused = {name for case, _ in REFUSED for name in case.__code__.co_names}
    assert named <= used and named <= refused
