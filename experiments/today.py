"""What each change since 2017 gains, alone and together: `python experiments/today.py`.

A small decoder-only model of letters is trained on WikiText-2 with the parts of 2017, with one of
them changed at a time, and with all changed. Every run sees the same windows of text in the same
order for a seed, takes the same number of steps, and has the same peak learning rate, the one that
suits the parts of 2017 best of those tried. What is recorded is the loss on text not seen, nats per
letter, with the parameters and the operations for one letter. A quarter of an hour on one core.
With `longer`, four of the variants are trained once more from each seed, for four times as many
steps: twenty minutes. With `positions`, three more variants take apart what rotary positions
change: rotary in the first layer only, the sinusoids added in front of every layer, and no
positions at all; four minutes. Chapter 20 shows all three.
"""

from __future__ import annotations

import sys
import time

import torch
from record import record
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from allyouneed import results
from allyouneed.attention import attention
from allyouneed.data import load_wikitext2
from allyouneed.masks import causal_mask
from allyouneed.multihead import merge_heads, split_heads
from allyouneed.positions import SinusoidalPositions
from allyouneed.sublayers import FeedForward, Residual
from allyouneed.today import (
    GatedFeedForward,
    Llama,
    LlamaConfig,
    RMSNorm,
    adamw,
    cosine_rate,
    in_sight,
    rotary_angles,
    rotate,
)
from allyouneed.training import adam
from allyouneed.transformer import EncoderLayer, TransformerConfig

D, HEADS, LAYERS, LENGTH, BATCH = 96, 4, 3, 128, 16
STEPS, WARMUP, SEEDS, RATES = 250, 25, 3, (2e-3, 4e-3, 8e-3)
PARTS = (
    "pre-norm",
    "RMSNorm",
    "rotary",
    "SwiGLU",
    "grouped heads",
    "no biases",
    "untied",
    "window",
)
RECIPE = ("cosine", "AdamW")
TODAY = frozenset({"pre-norm", "RMSNorm", "rotary", "SwiGLU", "grouped heads", "no biases"})
FIRST, EVERY = "rotary in the first layer", "sinusoids in every layer"
NONE = "no positions"
VARIANTS = {
    "2017": frozenset(),
    **{change: frozenset({change}) for change in (*PARTS, *RECIPE)},
    "all parts": TODAY,
    "all parts and recipe": TODAY | set(RECIPE),
}


class Attention(nn.Module):
    """Multi-head attention of a causal model, with what may change in it."""

    def __init__(self, changes: frozenset[str]):
        super().__init__()
        self.changes, self.groups = changes, HEADS // 2 if "grouped heads" in changes else HEADS
        self.w_q, self.w_o = nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)
        narrow = D // HEADS * self.groups
        self.w_k, self.w_v = nn.Linear(D, narrow, bias=False), nn.Linear(D, narrow, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q = split_heads(self.w_q(x), HEADS)
        k, v = split_heads(self.w_k(x), self.groups), split_heads(self.w_v(x), self.groups)
        places = torch.arange(x.shape[1])
        if "rotary" in self.changes:
            angles = rotary_angles(places, D // HEADS)
            q, k = rotate(q, angles), rotate(k, angles)
        k, v = (x.repeat_interleave(HEADS // self.groups, dim=1) for x in (k, v))
        seen = in_sight(places, places, 32 if "window" in self.changes else None)
        return self.w_o(merge_heads(attention(q, k, v, seen)))


class Layer(nn.Module):
    """Attention, then feed-forward. What grouped heads save goes to the feed-forward net."""

    def __init__(self, changes: frozenset[str]):
        super().__init__()
        self.self_attention = Attention(changes)
        self.feed_forward = feed_forward(changes)
        pre_norm = "pre-norm" in changes
        self.residuals = nn.ModuleList(Residual(D, norm_first=pre_norm) for _ in range(2))
        if "RMSNorm" in changes:
            for residual in self.residuals:
                residual.norm = RMSNorm(D)

    def forward(self, x: Tensor) -> Tensor:
        x = self.residuals[0](x, self.self_attention)
        return self.residuals[1](x, self.feed_forward)


def feed_forward(changes: frozenset[str]) -> nn.Module:
    saved = D // 2 if "grouped heads" in changes else 0  # 2 * D * D / 2 parameters
    if "SwiGLU" in changes:
        return GatedFeedForward(D, (4 * D + saved) * 2 // 3)
    net = FeedForward(D, 4 * D + saved)
    if "no biases" in changes:
        net.w_1.bias = net.w_2.bias = None
    return net


class Model(nn.Module):
    """A decoder-only model with the parts of 2017, but for `changes`."""

    def __init__(self, letters: int, changes: frozenset[str]):
        super().__init__()
        self.changes = changes
        self.embedding = nn.Embedding(letters, D)
        rotary = {"rotary"} if FIRST in changes else set()
        added = not rotary and not changes & {"rotary", NONE}
        self.positions = SinusoidalPositions(D, LENGTH) if added else nn.Identity()
        each = [changes | rotary, *[changes] * (LAYERS - 1)]
        self.layers = nn.ModuleList(Layer(some) for some in each)
        norm = RMSNorm(D) if "RMSNorm" in changes else nn.LayerNorm(D)
        self.norm = norm if "pre-norm" in changes else nn.Identity()
        self.output = nn.Linear(D, letters, bias=False) if "untied" in changes else None
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=D**-0.5)
            if isinstance(part, nn.Linear) and part.bias is not None:
                nn.init.zeros_(part.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.positions(self.embedding(tokens) * D**0.5)
        for i, layer in enumerate(self.layers):
            x = layer(self.positions(x) if i > 0 and EVERY in self.changes else x)
        return F.linear(self.norm(x), (self.output or self.embedding).weight)


def check_ends(letters: int) -> None:
    """The first variant is made of chapter 11's layers, and all parts changed are a Llama."""
    torch.manual_seed(0)
    tokens = torch.randint(letters, (2, LENGTH))
    old = Model(letters, frozenset()).eval()
    x = old.positions(old.embedding(tokens) * D**0.5)
    for layer in old.layers:
        theirs = EncoderLayer(TransformerConfig(letters, D, 4 * D, HEADS, LAYERS)).eval()
        theirs.load_state_dict(layer.state_dict())
        x = theirs(x, causal_mask(LENGTH))
    torch.testing.assert_close(F.linear(x, old.embedding.weight), old(tokens))
    new = Model(letters, TODAY)
    llama = Llama(
        LlamaConfig(
            letters, D, (4 * D + D // 2) * 2 // 3, HEADS, HEADS // 2, LAYERS, D // HEADS, 10_000.0
        )
    )
    llama.load_state_dict(new.state_dict())
    llama.embedding.weight.data *= D**0.5  # what the norms undo, but not in the logits
    torch.testing.assert_close(llama(tokens), new(tokens) * D**0.5, rtol=1e-3, atol=1e-3)


def stream(split: str, number: dict[str, int]) -> Tensor:
    text = "\n".join(load_wikitext2(split))
    return torch.tensor([number[letter] for letter in text if letter in number])


def rate(step: int, steps: int, peak: float, changes: frozenset[str]) -> float:
    if "cosine" in changes:
        return cosine_rate(step, steps, peak, WARMUP)
    return peak * min(step / WARMUP, (WARMUP / step) ** 0.5)  # as in the paper's equation (3)


def train(
    changes: frozenset[str], seed: int, peak: float, text: Tensor, test: Tensor, steps: int = STEPS
) -> dict:
    torch.manual_seed(seed)
    model = Model(int(text.max()) + 1, changes)
    optimizer = adamw(model) if "AdamW" in changes else adam(model)
    draw, begun = torch.Generator().manual_seed(seed), time.process_time()
    for step in range(1, steps + 1):
        starts = torch.randint(len(text) - LENGTH, (BATCH, 1), generator=draw)
        window = text[starts + torch.arange(LENGTH + 1)]
        loss = F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps, peak, changes)
        optimizer.step()
    seconds = time.process_time() - begun
    with torch.no_grad():
        window = test[torch.arange(200)[:, None] * LENGTH + torch.arange(LENGTH + 1)]
        losses = [
            F.cross_entropy(model(some[:, :-1]).flatten(0, 1), some[:, 1:].flatten())
            for some in window.split(25)
        ]
    return {"loss": torch.stack(losses).mean().item(), "seconds": seconds}


def operations(letters: int, changes: frozenset[str]) -> int:
    """Multiplications and additions of a forward pass, for one letter of a window."""
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        Model(letters, changes)(torch.zeros(1, LENGTH, dtype=torch.long))
    hidden = 1 - in_sight(*[torch.arange(LENGTH)] * 2, 32).float().mean().item()
    saved = 4 * LAYERS * LENGTH * D * (hidden - 1 / 2) if "window" in changes else 0
    return round(counter.get_total_flops() / LENGTH - 2 * LAYERS * LENGTH * D - saved)


def longer(text: Tensor, test: Tensor) -> None:
    """Four variants for four times as many steps, with the peak rate that was found."""
    steps, peak, losses = 4 * STEPS, results.load("today")["data"]["peak"], {}
    for name in ("2017", "rotary", "all parts", "all parts and recipe"):
        runs = (train(VARIANTS[name], seed, peak, text, test, steps) for seed in range(SEEDS))
        losses[name] = [run["loss"] for run in runs]
        print(name, [round(loss, 3) for loss in losses[name]], flush=True)
    record("today_longer", {"steps": steps, "peak": peak, "losses": losses})


def where(text: Tensor, test: Tensor) -> None:
    """Rotary in one layer, sinusoids in all, and neither, with the peak rate that was found."""
    peak, losses = results.load("today")["data"]["peak"], {}
    for name in (FIRST, EVERY, NONE):
        runs = (train(frozenset({name}), seed, peak, text, test) for seed in range(SEEDS))
        losses[name] = [run["loss"] for run in runs]
        print(name, [round(loss, 3) for loss in losses[name]], flush=True)
    record("today_positions", {"steps": STEPS, "peak": peak, "losses": losses})


def main() -> None:
    torch.set_num_threads(1)
    letters = sorted(set("\n".join(load_wikitext2("train")[:40])))
    number = {letter: i for i, letter in enumerate(letters)}
    text, test = stream("train", number), stream("valid", number)
    check_ends(len(letters))
    if "longer" in sys.argv:
        return longer(text, test)
    if "positions" in sys.argv:
        return where(text, test)
    tried = {str(peak): train(frozenset(), 0, peak, text, test)["loss"] for peak in RATES}
    print("2017 by peak rate:", {peak: round(loss, 3) for peak, loss in tried.items()})
    peak = float(min(tried, key=tried.get))
    rows = []
    for name, changes in VARIANTS.items():
        runs = [train(changes, seed, peak, text, test) for seed in range(SEEDS)]
        model = Model(len(letters), changes)
        rows.append(
            {
                "variant": name,
                "parameters": sum(p.numel() for p in model.parameters()),
                "operations": operations(len(letters), changes),
                "losses": [run["loss"] for run in runs],
                "seconds": sum(run["seconds"] for run in runs) / SEEDS,
            }
        )
        print(name, [round(run["loss"], 3) for run in runs], round(rows[-1]["seconds"], 1))
    sizes = {"d_model": D, "heads": HEADS, "layers": LAYERS, "length": LENGTH, "batch": BATCH}
    data = {**sizes, "letters": len(letters), "steps": STEPS, "warmup": WARMUP, "peak": peak}
    record("today", {**data, "peaks tried with 2017": tried, "rows": rows})


if __name__ == "__main__":
    main()
