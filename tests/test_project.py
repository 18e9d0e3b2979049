"""The project: right in three styles, and each slip named, alone and with others."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import json
import re
import textwrap
from pathlib import Path

import pytest
import torch
from pretend import pretended

from allyouneed.exercises import check, diary, examine, progress, project, project_translation
from allyouneed.exercises.project_machine import machine_weights, spelled_out, torchs_own

ROOT = Path(__file__).parents[1]
STYLES = ["notebook", "project_closures", "project_einsum"]


def solution() -> str:
    """The file that the notebook's solution is."""
    cells = json.loads((ROOT / "notebooks" / "project.ipynb").read_text(encoding="utf-8"))["cells"]
    (cell,) = ["".join(c["source"]) for c in cells if "solution" in c["metadata"].get("tags", [])]
    inside = re.search(r"def project_solution\(\):\n(.*)\n    return locals\(\)", cell, re.S)[1]
    return textwrap.dedent(inside)


def namespace(text: str) -> dict:
    names: dict = {}
    exec(compile(text, "my_file.py", "exec"), names)
    return names


def answer(style: str) -> dict:
    if style == "notebook":
        return namespace(solution())
    return vars(importlib.import_module(f"right_answers.{style}"))


def changed(*changes: tuple[str, str]) -> dict:
    text = solution()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    if "self.out(x)" in text:
        init = "        for parameter in self.parameters():"
        text = text.replace(init, f"        self.out = nn.Linear(d_model, vocab_size)\n{init}")
    return namespace(text)


def test_our_own_words_are_pytorchs():
    weights = machine_weights(project.drawn(0))
    src, tgt = project.sentences(6, 4), project.sentences(3, 5)
    one, two = (
        project.with_slopes(lambda p, f=f: f(p, src, tgt), weights)
        for f in (spelled_out, torchs_own)
    )
    assert torch.allclose(one["outputs"], two["outputs"], atol=1e-5)
    assert one["gradients"].keys() == two["gradients"].keys()
    for name, slope in one["gradients"].items():
        assert torch.allclose(slope, two["gradients"][name], rtol=1e-3, atol=1e-3), name


@pytest.mark.parametrize("style", STYLES)
def test_right_in_every_style(style):
    verdict = examine("project", answer(style))
    assert verdict.status == "correct", verdict.message
    assert verdict.done == tuple(project.NUMBERS[:-1])


def test_the_solution_is_one_short_file_of_torch_alone():
    text = solution()
    assert len(text.splitlines()) <= 200
    imports = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Import | ast.ImportFrom)]
    assert {a.name for n in imports for a in n.names} == {"math", "torch", "nn"}


SCALE = " / math.sqrt(q.shape[-1])"
SPLIT = "x.view(B, T, self.n_heads, D // self.n_heads).transpose(1, 2)"
VIEW = "x.reshape(B, self.n_heads, T, D // self.n_heads)"
JOIN = "heads.transpose(1, 2).flatten(2)"
ROOT_OF_D = " * math.sqrt(self.embedding.embedding_dim)"
LOGITS = "return x @ self.embedding.weight.T"
DECODE = "x = layer(x, memory, src_mask, tgt_mask)"
CROSS = "self.cross(x, memory, memory, src_mask)"
OWN = "self.own(x, x, x, tgt_mask)"
AHEAD = "causal_mask(tgt.shape[1]).to(tgt.device)"
TABLE = "positions(*x.shape[1:])"
LOSS = "loss(model(src, tgt[:, :-1]), tgt[:, 1:], 0.1)"
TORCHS = (
    "nn.functional.cross_entropy(model(src, tgt[:, :-1]).flatten(0, 1), tgt[:, 1:].flatten(), "
    "label_smoothing=0.1)"
)
RATE = "= learning_rate(step, d_model"
BACK = "[[i for i in row if i not in (PAD, BOS, EOS)] for row in written.tolist()]"
PENALTY = "penalty = ((5 + length) / 6) ** alpha"
ENCODE = """x = self.norms[0](x + self.dropout(self.attention(x, x, x, mask)))
        return self.norms[1](x + self.dropout(self.feed_forward(x)))"""
PRE = """y = self.norms[0](x)
        x = x + self.dropout(self.attention(y, y, y, mask))
        return x + self.dropout(self.feed_forward(self.norms[1](x)))"""
ENCODED = "memory = self.embed(src)"
SUM = "return self.dropout(x + positions"
ENDED = """ended += [(p / penalty, ids) for p, ids in grown[:beam] if ids[-1] == EOS]
        going = [one for one in grown if one[1][-1] != EOS][:beam]"""
NO_EVAL = "def greedy(model, src, max_length):\n    model.eval()"
BROKEN = [
    ("attention", SCALE, "", "the scale forgotten"),
    ("attention", SCALE, " / q.shape[-1]", "divided by d_k, without the root"),
    ("attention", "softmax(dim=-1) @ v", "softmax(dim=-2) @ v", "the softmax over the queries"),
    ("attention", "fill(~mask, -math", "fill(mask, -math", "the mask inverted"),
    ("attention", "scores.masked_fill(~mask, -math.inf)", "scores + (~mask).float() * -math.inf",
     "nothing but NaN"),
    ("attention", "scores.masked_fill(~mask, -math.inf)",
     "scores.masked_fill(~mask, -math.inf).abs()", "nothing but NaN"),
    ("attention", "scores.softmax(dim=-1)", "scores.softmax(dim=-3)", "the softmax over the heads"),
    ("attention", "-math.inf", "1e-9", "the scores multiplied by the mask"),
    ("attention", "scores.softmax(dim=-1) @ v", "scores.softmax(dim=-1) @ k",
     "the keys averaged instead of the values"),
    ("attention", SCALE, " / math.sqrt(q.shape[-2])", "the root of the number of queries"),
    ("attention", "softmax(dim=-1) @ v", "softmax(dim=-1).mT @ v", "the weights transposed"),
    ("attention", "softmax(dim=-1) @ v", "softmax(dim=-1).mul(torch.rand(()) + 1) @ v",
     "something is drawn at random"),
    ("heads", JOIN, "heads.permute(0, 2, 3, 1).flatten(2)",
     "columns of the heads interleaved when they are joined"),
    ("heads", f"self.w_o({JOIN})", f"self.w_o({JOIN}) + {JOIN}",
     "what goes into the output matrix added to what comes out"),
    ("heads", "self.split(q), self.split(k)", "self.split(k), self.split(q)",
     "queries and keys exchanged"),
    ("heads", "self.split(k), self.split(v)", "*(self.split(x.view(len(q), -1, q.shape[2])"
     ".expand(q.shape)) for x in (k, v))", "right only for as many keys as queries"),
    ("heads", "self.w_v(v)", "self.w_q(v)", "one matrix for queries and values"),
    ("heads", "self.w_k(k), self.w_v(v)", "self.w_q(k), self.w_q(v)",
     "one matrix for queries, keys and values"),
    ("heads", "self.w_v(v)", "v.relu()", "never used: `w_v`"),
    ("heads", SPLIT, VIEW, "heads by view, without a transpose"),
    ("heads", JOIN, "heads.reshape(q.shape)", "heads joined without a transpose"),
    ("heads", f"self.w_o({JOIN})", JOIN, "no output matrix"),
    ("heads", "self.w_k(k)", "self.w_q(k)", "one matrix for queries and keys"),
    ("heads", "self.w_k(k)", "self.w_k(q)", "the keys made of the queries' input"),
    ("heads", "self.split(v), mask)", "self.split(v))", "the mask not handed on"),
    ("heads", "self.w_v(v)", "self.w_k(v)", "one matrix for keys and values"),
    ("masks", "tokens != pad", "tokens == pad", "polarity inverted"),
    ("masks", ".tril()", ".triu()", "the other triangle"),
    ("masks", "(tokens != pad)", "((tokens != pad) & (tokens != EOS))", "EOS hidden as well"),
    ("masks", "(tokens != pad)", "((tokens != pad) & (tokens != BOS))", "BOS hidden as well"),
    ("positions", "(0, d_model, 2) / d", "(d_model // 2) / d", "exponent i instead of 2i"),
    ("positions", "arange(length)[:", "arange(1, length + 1)[:", "positions counted from 1"),
    ("layers", ENCODE, PRE, "pre-norm for post-norm"),
    ("layers", ENCODE, ENCODE.replace("self.dropout(", "("), "no dropout"),
    ("layers", ENCODE, ENCODE.replace("self.feed_forward(x)", "self.dropout(self.feed_forward(x))"),
     "dropout twice in a row"),
    ("layers", ENCODE, ENCODE.replace("self.norms", "x + self.norms"),
     "the residual a second time, behind the norm"),
    ("layers", "self.dropout = nn.Dropout(dropout)", "self.dropout = nn.Dropout(0.1)",
     "dropout by a share of its own"),
    ("layers", "self.dropout = nn.Dropout(dropout)", "self.dropout = nn.Dropout(1 - dropout)",
     "the share dropout kept, and the rest dropped"),
    ("layers", "self.dropout = nn.Dropout(dropout)",
     "self.dropout = lambda x: x * (torch.rand_like(x) < dropout) / (1 - dropout) if self.training "
     "else x", "the share dropout kept, and the rest dropped"),
    ("layers", "self.dropout = nn.Dropout(dropout)",
     "self.dropout = lambda x: nn.functional.dropout(x, dropout)", "dropout in eval mode as well"),
    ("layers", ENCODE, ENCODE.replace("self.dropout(self.feed", "(self.feed"),
     "dropout in some sub-layers only"),
    ("layers", ENCODE, ENCODE.replace("(x + self.dropout(", "(self.dropout(x + "),
     "dropout over the residual as well"),
    ("layers", f"(x + self.dropout({CROSS}))", f"(x + {CROSS})", "dropout in some sub-layers only"),
    ("layers", CROSS, "self.cross(memory, x, x)[:, :x.shape[1]]", "the memory asks"),
    ("layers", CROSS, "self.cross(memory, x, x, src_mask)", "the memory asks"),
    ("layers", CROSS, "self.cross(x, x, memory, src_mask)", "keys from the decoder"),
    ("layers", CROSS, CROSS.replace("src", "tgt"), "cross-attention with the target mask"),
    ("layers", OWN, OWN.replace("tgt", "src"), "self-attention with the source mask"),
    ("layers", CROSS, CROSS[:-10] + ")", "cross-attention without the source mask"),
    ("layers", OWN, "self.own(x, x, x)", "self-attention without the target mask"),
    ("layers", "self.w_1(x).relu()", "self.w_1(x)", "no ReLU"),
    ("layers", "(d_model, d_ff), nn.Linear(d_ff, d_model)",
     "(d_model, d_ff, bias=False), nn.Linear(d_ff, d_model, bias=False)",
     "the feed-forward net without biases"),
    ("layers", "nn.Linear(d_ff, d_model)", "nn.Linear(d_ff, d_model, bias=False)",
     "the feed-forward net without its second bias"),
    ("machine", ROOT_OF_D, "", "embeddings not scaled"),
    ("machine", TABLE, "positions(*x.shape[::2])[:, None]", "positions over the batch axis"),
    ("machine", SUM, SUM.replace("+", "*"), "positions multiplied with the embeddings"),
    ("machine", ENCODED, "memory = self.dropout(self.embedding(src) + positions(src.shape[1], "
     "self.embedding.embedding_dim))", "the source's embeddings not scaled"),
    ("machine", "x = self.embed(tgt)", "x = self.dropout(self.embedding(tgt) + positions("
     "tgt.shape[1], self.embedding.embedding_dim))", "the target's embeddings not scaled"),
    ("machine", ENCODED, f"memory = self.embedding(src){ROOT_OF_D}",
     "no positions in the source"),
    ("machine", "x = self.embed(tgt)", f"x = self.embedding(tgt){ROOT_OF_D}",
     "neither positions nor dropout in the target"),
    ("machine", "layer(memory, src_mask)", "layer(self.embed(src), src_mask)",
     "each layer of the encoder begins with the embeddings"),
    ("machine", "layer(x, memory, src_mask", "layer(self.embed(tgt), memory, src_mask",
     "each layer of the decoder begins with the embeddings"),
    ("machine", LOGITS, LOGITS.replace("x @", f"x{ROOT_OF_D} @"),
     "the root of d_model at the end as well"),
    ("machine", "padding_mask(src)", "padding_mask(tgt)", "the source's mask made of the target"),
    ("machine", DECODE, DECODE.replace("src_mask", "tgt_mask"),
     "cross-attention with the target mask"),
    ("machine", DECODE, DECODE.replace("tgt_mask", "src_mask"),
     "self-attention with the source mask"),
    ("machine", DECODE, "x = layer(x, memory, tgt_mask, src_mask)", "the two masks exchanged"),
    ("machine", "layer(memory, src_mask)", "layer(memory, tgt_mask)",
     "the causal mask in the encoder"),
    ("machine", LOGITS, "return self.out(x)", "the logits with a matrix of their own"),
    ("machine", "return self.dropout(x + positions",
     "return nn.Dropout(0.2).train(self.training)(x + positions",
     "dropout on the embeddings by a share of its own"),
    ("machine", "return self.dropout(x + positions",
     "return nn.Dropout(1 - self.dropout.p).train(self.training)(x + positions",
     "of the embeddings the share dropout kept, and the rest dropped"),
    ("machine", "return self.dropout(x + positions", "return (x + positions",
     "no dropout on the embeddings"),
    ("machine", ROOT_OF_D, " * self.embedding.embedding_dim",
     "embeddings multiplied by d_model, without the root"),
    ("machine", LOGITS, f"return ({LOGITS[7:]}).softmax(-1)", "softmax at the end"),
    ("machine", DECODE, "x = layer(x, memory, src_mask)", "the future not hidden"),
    ("machine", AHEAD, "padding_mask(tgt)",
     "the future not hidden, the target's padding alone"),
    ("machine", DECODE, "x = layer(x, memory, None, tgt_mask)",
     "the source's padding not hidden in the decoder"),
    ("machine", "memory = layer(memory, src_mask)", "layer(memory, src_mask)",
     "the encoder's layers passed by"),
    ("machine", "layer(memory, src_mask)", "layer(memory)",
     "the source's padding not hidden in the encoder"),
    ("loss", "real = targets != pad", "real = targets >= 0",
     "padding counted, with 1 - smoothing on PAD"),
    ("loss", "(log_p.sum(1) - log_p[:, pad]).mean() / (log_p.shape[1] - 1)", "log_p.mean()",
     "mass on PAD"),
    ("loss", "return -(1 - smoothing) * right", "others += (logits[~real].log_softmax(-1)[:, 1:]"
     ".sum() / (log_p.shape[1] - 1) / len(log_p))\n    return -(1 - smoothing) * right",
     "the share of the places that are PAD counted"),
    ("loss", "(log_p.shape[1] - 1)", "(log_p.shape[1] - 2)",
     "the share spread over V - 2 tokens, the right one among them"),
    ("loss", "return -(1 - smoothing) * right - smoothing * others",
     "return (-(1 - smoothing) * right - smoothing * others).exp()", "the perplexity"),
    ("schedule", "min(step**-0.5", "max(step**-0.5", "max in place of min"),
    ("schedule", "step * warmup", "(step - 1) * warmup", "the warm-up counted from 0"),
    ("training", LOSS, "loss(model(src, tgt), tgt, 0.1)", "the label not shifted"),
    ("training", LOSS, "loss(model(src, tgt[:, 1:]), tgt[:, :-1], 0.1)",
     "what is read and the labels exchanged"),
    ("training", "        adam.zero_grad()\n", "", "gradients not set to zero"),
    ("training", RATE, "= learning_rate(step + 1, d_model",
     "the warm-up off by one, one step ahead"),
    ("training", RATE, "= learning_rate(1, d_model", "the rate of the first update for all"),
    ("training", RATE, "= learning_rate(max(step - 1, 1), d_model",
     "the warm-up off by one, and the first step twice"),
    ("training", "model(src, tgt[", "model(tgt[:, :-1], tgt[", "the target read as the source"),
    ("training", "    model.train()\n", "", "not in training mode"),
    ("training", "tgt[:, 1:], 0.1)", "tgt[:, 1:], 0.0)", "no label smoothing"),
    ("training", ", betas=(0.9, 0.98)", "", "Adam with PyTorch's betas"),
    ("training", "betas=(0.9, 0.98)", "betas=(0.98, 0.9)", "the betas exchanged"),
    ("training", RATE, "= 1e-3 * learning_rate(step, d_model", "a thousandth of the rate"),
    ("training", "optim.Adam(", "optim.AdamW(", "weight decay"),
    ("training", LOSS, "loss(model(src, tgt)[:, 1:], tgt[:, 1:], 0.1)",
     "the logits one place too late"),
    ("training", LOSS, TORCHS, "padding in the loss, and mass on PAD"),
    ("training", LOSS, TORCHS.replace("0.1)", "0.1, ignore_index=0)"),
     "PyTorch's smoothing, which gives PAD a share"),
    ("training", "eps=1e-9)", "eps=1e-9, weight_decay=0.1)",
     "the optimiser is Adam with weight decay"),
    ("training", 'adam.param_groups[0]["lr"] =', "rate =", "the rate of every update is 0"),
    ("training", RATE, "= 2 * learning_rate(step, d_model",
     "the rates of the updates are 0.0962, 0.192, 0.289, 0.25"),
    ("training", "betas=(0.9, 0.98)", "betas=(0.8, 0.98)", "betas (0.8, 0.98)"),
    ("training", LOSS, f"({LOSS} / len(src))", "the gradients are 0.333 times what they should be"),
    ("training", ".backward()\n",
     ".backward()\n        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
     "the gradients are 0.9 times what they should be"),
    ("training", ".backward()\n", ".backward()\n        adam.zero_grad()\n",
     "no gradients when the optimiser steps"),
    ("training", "        adam.step()", "        if step % 2:\n            adam.step()",
     "2 updates for 4 batches"),
    ("greedy", NO_EVAL, NO_EVAL.split("\n")[0], "no eval mode in decoding"),
    ("greedy", "        token[ended] = PAD\n", "", "goes on behind EOS, which is taken out"),
    ("greedy", "[:, -1].argmax", "[:, 0].argmax", "the logits of the first place"),
    ("greedy", "(len(src), 1), BOS", "(len(src), 1), EOS", "begins with EOS"),
    ("greedy", "[:, -1].argmax(dim=-1)", "[:, -1].softmax(-1).multinomial(1)[:, 0]",
     "words are drawn at random"),
    ("greedy", "[:, -1].argmax", "[:, max(-2, -written.shape[1])].argmax",
     "the logits of the place before the last"),
    ("greedy", "in range(max_length):", "in range(max_length + 1):", "one token too many"),
    ("greedy", "in range(max_length):", "in range(min(max_length, src.shape[1])):",
     "no longer than the source"),
    ("greedy", BACK, BACK.replace("EOS)] for", "EOS)][:-1] for"), "the last token cut off"),
    ("greedy", BACK, BACK.replace("EOS)] for", "EOS)][1:] for"), "the first token cut off"),
    ("greedy", BACK, BACK.replace("EOS)] for", "EOS)][: -1 if EOS in row else None] for"),
     "the token before EOS cut off"),
    ("beam", "best_of_beam(model, one, beam", "best_of_beam(model, src[0], beam",
     "the first sentence for all"),
    ("beam", ".log_softmax(dim=-1)\n        top", ".softmax(dim=-1)\n        top",
     "probabilities added up"),
    ("beam", PENALTY, "penalty = 1", "no length penalty"),
    ("beam", "p / penalty, ids", "p * penalty, ids", "multiplied by the penalty"),
    ("beam", PENALTY, "penalty = length", "divided by the length"),
    ("beam", PENALTY, "penalty = (length / 6) ** alpha", "the 5 forgotten"),
    ("beam", PENALTY, "penalty = (5 + length) / 6 * alpha", "alpha as a factor"),
    ("beam", PENALTY, PENALTY.replace("5", "4"), "EOS not counted in the length"),
    ("beam", PENALTY, PENALTY.replace("5", "6"), "BOS counted in the length"),
    ("beam", PENALTY, PENALTY.replace("alpha", "0.6"), "alpha fixed at 0.6"),
    ("beam", "going, ended = [", "beam = 1\n    going, ended = [", "a beam of one"),
    ("beam", "len(ended) >= beam", "ended", "the first that ends"),
    ("beam", "total + value", "value", "only the last log-probability"),
    ("beam", ".log_softmax(dim=-1)\n        top", "\n        top",
     "logits for log-probabilities"),
    ("beam", "best = max(ended", "best = min(ended", "the worst of the beam"),
    ("beam", "range(1, max_length + 1)", "range(1, max_length)", "one token too few"),
    ("beam", "range(1, max_length + 1)", "range(1, max_length + 2)", "one token too many"),
    ("beam", "[:, -1].log", "[:, 0].log", "the logits of the first place"),
    ("beam", PENALTY, "penalty = length**alpha", "the 5 forgotten"),
    ("beam", ENDED, ENDED.replace("[one for one in grown if one[1][-1] != EOS]", "grown"),
     "right with a beam of one, and not with 3"),
    ("beam", "(0.0, [BOS])", "(0.0, [EOS])", "begins with EOS"),
    ("beam", "(total + value, ids + [token])", "(total + value, going[0][1] + [token])",
     "right with a beam of one, and not with 3"),
]  # fmt: skip


@pytest.mark.parametrize(("stage", "old", "new", "name"), BROKEN)
def test_each_stage_broken_is_named(stage, old, new, name):
    verdict = examine(f"project.{stage}", changed((old, new)))
    assert (verdict.status, verdict.mistake) == ("wrong", name), verdict.message
    assert name.lower() in " ".join(verdict.message.lower().split())


NORM = """# Layers
class Norm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        centred, variance = x - x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
        return self.gamma * centred / (variance + 1e-5).sqrt() + self.beta

"""
CENTRED = "centred, variance = x - x.mean(-1, keepdim=True), x.var("
NORMS = [
    ("", "", None),
    ("correction=0", "correction=1", "the norm's variance divided by n - 1"),
    ("(variance + 1e-5).sqrt()", "(variance + 1e-6).sqrt()", None),
    ("(variance + 1e-5).sqrt()", "(variance + 1e-12).sqrt()", None),
    ("(variance + 1e-5).sqrt()", "(variance.sqrt() + 1e-5)", None),  # as far as another epsilon
    ("correction=0)\n        return self.gamma * centred / (variance + 1e-5).sqrt()",
     "correction=1)\n        return self.gamma * centred / (variance.sqrt() + 1e-6)",
     "the norm's variance divided by n - 1"),
    ("(variance + 1e-5).sqrt()", "(variance + 1e-5)", "the norm divided by the variance"),
    ("(-1, keep", "((-2, -1), keep", "the norm over the whole sentence"),
    (CENTRED, "centred, variance = x, x.square().mean(-1, keepdim=True)  # (",
     "the norm without its mean"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "name"), NORMS)
def test_a_norm_of_their_own(old, new, name):
    own = NORM.replace(old, new) if old else NORM
    assert not old or own != NORM
    answer = changed(("# Layers\n", own), ("nn.LayerNorm(d_model)", "Norm(d_model)"))
    verdict = examine("project.layers", answer)
    assert (verdict.status, verdict.mistake) == ("wrong" if name else "correct", name), (
        verdict.message
    )


KEPT = [  # which entries a dropout of one's own keeps
    "torch.rand_like(x) >= self.p",
    "torch.rand(x.shape) < 1 - self.p",
    "torch.bernoulli(torch.full_like(x, 1 - self.p))",
    "torch.empty_like(x).bernoulli_(1 - self.p)",
    "torch.empty_like(x).uniform_() > self.p",
]


@pytest.mark.parametrize("divided", [True, False])
@pytest.mark.parametrize("kept", KEPT)
def test_a_dropout_of_their_own(kept, divided):
    own = f"""# Layers
class Drop(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or not self.p:
            return x
        return x * ({kept}){" / (1 - self.p)" * divided}

"""
    answer = changed(("# Layers\n", own), ("nn.Dropout(dropout)", "Drop(dropout)"))
    verdict = examine("project.layers", answer)
    name = None if divided else "dropout without dividing by what is kept"
    assert (verdict.status, verdict.mistake) == ("correct" if divided else "wrong", name), (
        verdict.message
    )


CONVOLUTIONS = "nn.Conv1d(d_model, d_ff, 1), nn.Conv1d(d_ff, d_model, 1)"
RIGHT = [
    ("attention", [("mask=None):\n    scores", "mask=None, dropout=None):\n    scores"),
                   ("softmax(dim=-1) @ v", "softmax(dim=-1) @ (dropout(v) if dropout else v)")]),
    ("machine", [("nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)", CONVOLUTIONS),
                 ("self.w_2(self.w_1(x).relu())", "self.w_2(self.w_1(x.mT).relu()).mT")]),
    ("beam", [(ENDED, "left = grown[: beam - len(ended)]\n        " + ENDED
               .replace("grown[:beam]", "left").replace("grown", "left"))]),
]  # fmt: skip


@pytest.mark.parametrize(("stage", "changes"), RIGHT)
def test_right_otherwise(stage, changes):
    """An `attention` with an argument for a module, a net of convolutions, and a beam that has
    fewer places the more have ended."""
    verdict = examine(f"project.{stage}", changed(*changes))
    assert verdict.status == "correct", verdict.message


FOUR = """self.w_q, self.w_k, self.w_v, self.w_o = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(4)
        )"""
PROJECTED = "self.w_q(q), self.w_k(k), self.w_v(v)"
LAYOUTS = [  # what makes queries, keys and values, and how it comes to (3, D, D)
    ("3, D, D", "w"),
    ("3, D, D", "w.mT"),
    ("D, 3 * D", "w.view(D, 3, D).transpose(0, 1)"),
    ("3 * D, D", "w.view(3, D, D)"),
    ("D, 3, D", "w.transpose(0, 1)"),
    ("D, 3, H, K", "w.transpose(0, 1).flatten(2)"),
    ("3, H, D, K", "w.transpose(1, 2).flatten(2)"),
    ("H, 3, D, K", "w.permute(1, 2, 0, 3).flatten(2)"),
    ("H, D, 3 * K", "w.view(H, D, 3, K).permute(2, 1, 0, 3).flatten(2)"),
    ("D, H, K, 3", "w.permute(3, 0, 1, 2).flatten(2)"),
    ("D, 3 * D", "w.view(D, H, 3, K).permute(2, 0, 1, 3).flatten(2)"),
    ("D, 3 * D", "w.view(D, H, K, 3).permute(3, 0, 1, 2).flatten(2)"),
]


def laid(sizes: str, read: str, *changes: tuple[str, str]) -> dict:
    """The solution with queries, keys and values made by one tensor of these sizes."""
    made = (
        "D, H, K = d_model, n_heads, d_model // n_heads\n"
        f"        self.w = nn.Parameter(torch.randn({sizes}))\n"
        "        self.w_o = nn.Linear(D, D, bias=False)\n"
        f"        self.read = lambda w: {read}"
    )
    taken = "(x @ w for x, w in zip((q, k, v), self.read(self.w)))"
    return changed((FOUR, made), (PROJECTED, taken), *changes)


@pytest.mark.parametrize(("sizes", "read"), LAYOUTS)
def test_matrices_stand_as_they_like(sizes, read):
    for stage in ("heads", "layers"):
        verdict = examine(f"project.{stage}", laid(sizes, read))
        assert verdict.status == "correct", verdict.message


@pytest.mark.parametrize(
    ("sizes", "old", "new", "joined"),
    [
        ("4, D, D", "nn.Linear(D, D, bias=False)", "None", f"{JOIN} @ self.w[3]"),
        ("4, D, D", "nn.Linear(D, D, bias=False)", "None", f"{JOIN} @ self.w[3].T"),
        ("3, D, D", "nn.Linear(D, D, bias=False)",
         "nn.ModuleList(nn.Linear(K, D, bias=False) for _ in range(H))",
         "sum(w(x) for w, x in zip(self.w_o, heads.unbind(1)))"),
        ("3, D, D", "nn.Linear(D, D, bias=False)", "nn.Conv1d(D, D, 1, bias=False)",
         f"self.w_o({JOIN}.mT).mT"),
    ],
)  # fmt: skip
def test_the_outputs_matrix_stands_as_they_like(sizes, old, new, joined):
    for stage in ("heads", "layers", "machine"):
        answer = laid(sizes, "w", (old, new), (f"self.w_o({JOIN})", joined))
        verdict = examine(f"project.{stage}", answer)
        assert verdict.status == "correct", verdict.message


def test_a_matrix_of_two_is_told_as_such():
    one = examine("project.heads", laid("3, H, D, K", "w[[0, 2, 2]].transpose(1, 2).flatten(2)"))
    assert "makes the keys and the values: none" in " ".join(one.message.split()), one.message


UNREAD = [
    ([("nn.ModuleList(EncoderLayer(*sizes) for _ in range(n_layers))",
       "[EncoderLayer(*sizes) for _ in range(n_layers)]")],
     "machine", "does not know what is in `encoder`"),
    ([("self.norms[2]", "self.norms[1]")], "layers", "Never used: `norms.2`"),
    ([(CROSS, CROSS.replace("cross(", "own("))], "layers", "Never used: `cross.w_q`"),
    ([("nn.ModuleList(DecoderLayer(*sizes) for _ in range(n_layers))",
       "nn.ModuleList([DecoderLayer(*sizes)] * n_layers)")],
     "machine", "`decoder.0` and `decoder.1` are one and the same module"),
    ([("nn.ModuleList(DecoderLayer(*sizes) for _ in range(n_layers))",
       "nn.ModuleList([DecoderLayer(*sizes)])")], "machine", "each stack has `n_layers` layers"),
    ([(LOGITS, f"{LOGITS} + self.bias"), ("        for parameter in self.parameters():",
       "        self.bias = nn.Parameter(torch.zeros(vocab_size))\n"
       "        for parameter in self.parameters():")], "machine", "The logits have a bias"),
    ([(LOGITS, LOGITS.replace("x @", "x[:, -1] @"))],
     "machine", "each place of the target has a row of logits"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "stage", "said"), UNREAD)
def test_parts_that_are_not_seen_not_used_or_used_twice(changes, stage, said):
    verdict = examine(f"project.{stage}", changed(*changes))
    assert verdict.status == "wrong" and said in " ".join(verdict.message.split())


# Searches that call `encode` and `decode`: they are tried on the reader's own machine.
BY_PENALTY = " / ((4 + len(row)) / 6) ** alpha"
BEGIN = "        live, done = {(2,): 0.0}, {}\n"
UNTIL = " and len(done) < beam_size:"
RANK = "rank < beam_size:"
ON_THEIR_OWN = [
    (BY_PENALTY, "", "no length penalty"),
    (BY_PENALTY, BY_PENALTY.replace("4", "3"), "EOS not counted in the length"),
    (" + torch.tensor(list(live.values()))[:, None]", "", "only the last log-probability"),
    (BEGIN, f"{BEGIN}        beam_size = 1\n", "a beam of one"),
    ("max_length):\n    model.eval()\n    results", "max_length):\n    results",
     "no eval mode in decoding"),
    (UNTIL, ":", None),
    (RANK, "True:", None),
    ("logits[:, -1].log_softmax(-1)",
     "logits[:, -1].index_fill(1, torch.tensor([0, 1, 2]), -99).log_softmax(-1)", None),
]  # fmt: skip
MORE_ON_THEIR_OWN = [
    (BY_PENALTY, BY_PENALTY.replace(" / ((4", " * ((4"), "multiplied by the penalty"),
    (BY_PENALTY, " / (len(row) - 1)", "divided by the length"),
    (BY_PENALTY, BY_PENALTY.replace("4", "5"), "BOS counted in the length"),
    (BY_PENALTY, BY_PENALTY.replace("alpha", "0.6"), "alpha fixed at 0.6"),
    ("logits[:, -1].log_softmax(-1)", "logits[:, -1]", "logits for log-probabilities"),
    (UNTIL, " and not done:", "the first that ends"),
    ("best = max(pool", "best = min(pool", "the worst of the beam"),
]
ON_THEIR_OWN += [pytest.param(*one, marks=pytest.mark.weekly) for one in MORE_ON_THEIR_OWN]


@pytest.mark.parametrize(("old", "new", "name"), ON_THEIR_OWN)
def test_searches_over_a_machine_of_their_own(old, new, name):
    text = inspect.getsource(importlib.import_module("right_answers.project_einsum"))
    head, search = text.split("def beam_search", 1)
    assert old in search
    verdict = examine("project.beam", namespace(f"{head}def beam_search{search.replace(old, new)}"))
    assert (verdict.status, verdict.mistake) == ("wrong" if name else "correct", name), (
        verdict.message
    )


def test_what_fails_for_us_is_said_of_the_reader():
    """A padding mask or a loss that the others cannot use, in a file whose machine uses it."""
    for old, new in (
        ("(tokens != pad)[:, None, None, :]", "(tokens != pad)[:, None, :, None]"),
        ("real = targets != pad", "real = targets[:, 0] != pad"),
    ):
        verdict = examine("project", changed((old, new)))
        assert verdict.status == "wrong" and "raised" in verdict.message


def test_a_search_over_a_machine_that_is_wrong_waits_for_it():
    """What it writes on such a machine tells nothing of the search; what a machine keeps of its
    last call is no hindrance."""
    text = inspect.getsource(importlib.import_module("right_answers.project_einsum"))
    wrong = text.replace("* self.E.shape[1] ** 0.5", "")
    assert wrong != text
    for stage in ("greedy", "beam"):
        verdict = examine(f"project.{stage}", namespace(wrong))
        assert verdict.mistake is None
        assert "mend the machine first" in " ".join(verdict.message.split())
    kept = text.replace(
        "        return x, mask\n", "        self.kept = x\n        return x, mask\n"
    )
    assert kept != text
    assert examine("project.greedy", namespace(kept)).status == "correct"


def test_a_slip_that_stops_the_stages_behind_it_is_named():
    verdict = examine("project", changed(("scores.softmax(dim=-1) @ v", "scores.softmax(dim=-1)")))
    assert verdict.status == "wrong" and "the weights alone" in verdict.mistake


def test_a_search_over_a_machine_that_cannot_be_read_is_told_so():
    text = inspect.getsource(importlib.import_module("right_answers.project_einsum"))
    text = text.replace('self.register_buffer("table", table[None])',
                        "self.table = nn.Parameter(table[None])")  # fmt: skip
    message = examine("project.beam", namespace(text)).message
    assert "`model(src, tgt)`" in message and "not learned" in " ".join(message.split())


TOGETHER = [
    ([(SCALE, ""), (SPLIT, VIEW), (ROOT_OF_D, "")],
     ["the scale forgotten", "heads by view, without a transpose", "embeddings not scaled"]),
    ([("fill(~mask, -math", "fill(mask, -math"), (LOSS, "loss(model(src, tgt), tgt, 0.1)"),
      ("        token[ended] = PAD\n", "")],
     ["the mask inverted", "the label not shifted", "goes on behind EOS, which is taken out"]),
    ([("softmax(dim=-1) @ v", "softmax(dim=-2) @ v"), (PENALTY, "penalty = 1"),
      (TABLE, "positions(*x.shape[::2])[:, None]")],
     ["the softmax over the queries", "positions over the batch axis", "no length penalty"]),
    ([("(0, d_model, 2) / d", "(d_model // 2) / d"), ("layer(memory, src_mask)", "layer(memory)")],
     ["exponent i instead of 2i", "the source's padding not hidden in the encoder"]),
    ([("real = targets != pad", "real = targets >= 0"), ("        adam.zero_grad()\n", "")],
     ["padding counted, with 1 - smoothing on PAD", "gradients not set to zero"]),
    ([("tokens != pad", "tokens == pad"), (".tril()", ".triu()")],
     ["polarity inverted", "the other triangle"]),
    ([(SCALE, ""), ("softmax(dim=-1) @ v", "softmax(dim=-2) @ v")],
     ["the scale forgotten, and the softmax over the queries"]),
    ([("fill(~mask, -math.inf", "fill(mask, -1e9"), (ROOT_OF_D, "")],
     ["the mask inverted", "embeddings not scaled"]),
    ([("tokens != pad", "tokens == pad"), ("-math.inf", "-1e9")], ["polarity inverted"]),
    ([("self.dropout = nn.Dropout(dropout)", "self.dropout = nn.Dropout(0.1)")],
     ["dropout by a share of its own; dropout by a share of its own"]),
    ([("self.dropout = nn.Dropout(dropout)", "self.dropout = nn.Dropout(1 - dropout)")],
     ["; ".join(["the share dropout kept, and the rest dropped"] * 2)]),
    ([("norms[2](x + self.dropout(self.feed_forward(x)))",
       "norms[2](self.dropout(self.feed_forward(x)))")],
     ["the last residual missing"]),
    ([(".tril()", ".triu()"), ("-math.inf", "-1e9"), (AHEAD, f"{AHEAD} & padding_mask(tgt)")],
     ["the other triangle"]),
    ([(ENCODED, ENCODED.replace("src", "tgt")), ("padding_mask(src)", "padding_mask(tgt)")],
     ["the target encoded in place of the source"]),
    ([("        q, k, v = self.w_q(q)", "        asked = q\n        q, k, v = self.w_q(q)"),
      (f"self.w_o({JOIN})", f"self.w_o({JOIN}) + asked")],
     ["a residual within the heads"]),
    ([("(len(src), 1), BOS", "(len(src), 1), 1"),
      (BACK, BACK.replace("written", "written[:, 1:]"))],
     ["begins with UNK"]),
    ([("(0.0, [BOS])", "(0.0, [1])"), ("[i for i in best if", "[i for i in best[1:] if")],
     ["begins with UNK"]),
    ([("(0.0, [BOS])", "(0.0, [PAD])"), ("[i for i in best if", "[i for i in best[1:] if")],
     ["begins with PAD"]),
    ([(ROOT_OF_D, ""), (LOGITS, "return self.out(x)")],
     ["embeddings not scaled, and the logits with a matrix of their own"]),
    ([("    model.train()\n", ""), ("tgt[:, 1:], 0.1)", "tgt[:, 1:], 0.0)")],
     ["not in training mode, and no label smoothing"]),
    ([(NO_EVAL, NO_EVAL.split("\n")[0]), ("        token[ended] = PAD\n", "")],
     ["no eval mode in decoding, and goes on behind EOS, which is taken out"]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "names"), TOGETHER, ids=range(len(TOGETHER)))
def test_several_at_once_are_all_named_and_no_others(changes, names):
    verdict = examine("project", changed(*changes))
    assert verdict.status == "wrong" and verdict.mistake == "; ".join(names), verdict.message


def parts():
    given, own = (project.Project(answer(style)) for style in ("notebook", "project_einsum"))
    for stage in project.STAGES:
        for name, make in stage.parts.items():
            yield pytest.param(make(given, frozenset()), id=name)
    for name, make in (("greedy", project.greedy_exercise), ("beam", project.beam_exercise)):
        yield pytest.param(make(own, frozenset()), id=f"{name} over a machine of their own")


@pytest.mark.parametrize("exercise", list(parts()))
def test_no_two_mistakes_are_confused_and_none_is_right(exercise):
    single = [
        m for m in exercise.mistakes if hasattr(m.wrong, "of_the_book") and ", and " not in m.name
    ]
    cases = list(enumerate(exercise.all_cases()))
    outputs = {
        m and m.name: [exercise.known_output(m, i, case) for i, case in cases]
        for m in (None, *single)
    }
    for (name, one), (other, two) in itertools.combinations(outputs.items(), 2):
        alike = all(exercise.agree(a, b) for a, b in zip(one, two, strict=True))
        assert not alike, f"{name} = {other}"


def test_it_grows():
    text = solution()
    begun = namespace(text[: text.index("# Heads")])
    verdict = examine("project", begun)
    assert verdict.status == "not attempted" and verdict.done == ("project.attention",)
    assert "1 of 11 stages stand" in verdict.message
    assert examine("project.attention", begun["attention"]).status == "correct"
    assert examine("project.heads", begun).status == "not attempted"
    assert examine("project", {}).status == examine("project", ...).status == "not attempted"


def test_a_file_a_module_and_what_is_neither(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(solution(), encoding="utf-8")
    assert examine("project.masks", str(file)).status == "correct"
    assert examine("project.masks", file).status == "correct"
    file.write_text("import torch\ntorch.nothing\n", encoding="utf-8")
    assert "Line 2: `torch.nothing`" in examine("project", file).message
    assert "could not be run" in examine("project", tmp_path / "none.py").message
    assert "Hand over" in examine("project", print).message
    with pytest.raises(KeyError, match=r"project\.beam"):
        examine("project.beams", {})


OTHER_NAMES = [
    ("attention", "scaled_dot_product"),
    ("loss", "label_smoothing_loss"), ("loss", "LabelSmoothingLoss"), ("schedule", "noam_schedule"),
    ("masks", "make_src_mask"), ("training", "training_loop"), ("greedy", "greedy_translate"),
    ("beam", "beam_search_decode"),
]  # fmt: skip
OURS = {"attention": "attention", "loss": "loss", "schedule": "learning_rate",
        "masks": "padding_mask", "training": "train", "greedy": "greedy",
        "beam": "beam_search"}  # fmt: skip


@pytest.mark.parametrize(("stage", "name"), OTHER_NAMES)
def test_other_usual_names_are_found(stage, name):
    names = answer("notebook")
    names[name] = names.pop(OURS[stage])
    assert examine(f"project.{stage}", names).status == "correct"


def test_what_is_pytorchs_own_is_no_answer():
    own = {"Transformer": torch.nn.Transformer}
    assert "torch's own" in examine("project", own).message
    text = "from torch.nn import functional as F\n" + solution()
    start = text.index("    scores = q @ k"), text.index("# Heads")
    text = text[: start[0]] + "    return F.scaled_dot_product_attention(q, k, v, mask)\n\n"
    message = examine("project.attention", namespace(text)).message
    assert "scaled_dot_product_attention" in message and "write it out" in message


def test_what_stands_is_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ALLYOUNEED_HOME", str(tmp_path))
    monkeypatch.setattr(diary, "_memory", set())
    text = solution()
    check("project", namespace(text[: text.index("# Positions")]))
    assert diary.read()[0] == {"project.attention", "project.heads", "project.masks"}
    progress()
    assert "Project   : 3 of 12   [x] attention  [x] heads  [x] masks" in capsys.readouterr().out


PAIRS = [("Two dogs run.", "Zwei Hunde laufen."), ("A man sleeps.", "Ein Mann schläft.")] * 8


def test_it_is_trained_and_translates(monkeypatch):
    monkeypatch.setattr(project_translation, "load_pairs", lambda *_: PAIRS)
    monkeypatch.setattr(project_translation, "WARMUP", 20)
    given = project.Project(answer("notebook"))
    verdict = project_translation.translation(given, steps=60, bound=2.0, shown=4)
    assert verdict.status == "correct" and "BLEU" in verdict.message, verdict.message
    assert verdict.done == ("project.translation",)
    verdict = project_translation.translation(given, steps=2, bound=2.0, shown=4)
    assert verdict.status == "wrong" and "has to be reached" in verdict.message
    if torch.version.cuda is None:  # PyTorch for CUDA would look for its driver
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    # a reader who has a GPU and has chosen the CPU
    given.namespace = {**given.namespace, "device": torch.device("cpu")}
    verdict = project_translation.translation(given, steps=2, bound=2.0, shown=4)
    assert verdict.status == "wrong" and "has to be reached" in verdict.message


def test_it_is_trained_on_a_gpu(monkeypatch):
    """The notebook's own solution is, and one that leaves its positions behind hears of it."""
    monkeypatch.setattr(project_translation, "load_pairs", lambda *_: PAIRS)
    moved = "positions(*x.shape[1:]).to(x.device)"
    assert solution().count(moved) == 1
    left_behind = solution().replace(moved, "positions(*x.shape[1:])")
    for text, said in ((solution(), "has to be reached"), (left_behind, "on the same device")):
        with pretended() as gpu:
            given = project.Project({**namespace(text), "device": "cuda"})
            verdict = project_translation.translation(given, steps=1, bound=2.0, shown=4)
        assert verdict.status == "wrong" and said in verdict.message, verdict.message
        assert gpu.launches


@pytest.mark.weekly
@pytest.mark.parametrize("style", ["notebook", "project_einsum"])
def test_it_is_trained_in_full(style):
    """The whole training, some minutes: the bound is one that is reached."""
    verdict = examine("project.translation", answer(style))
    assert verdict.status == "correct", verdict.message
