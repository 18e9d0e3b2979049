"""The long runs of chapter 2, "What recurrence costs". One thread; each part ends within minutes.

python experiments/recurrence.py recall       accuracy and training steps against distance
python experiments/recurrence.py bottleneck   saying a sequence again through one fixed vector
python experiments/recurrence.py clock        time against length: a loop, and one matrix product
"""

from __future__ import annotations

import sys
import time

import torch
from record import record
from torch import Tensor, nn
from torch.nn import functional as F

from allyouneed.recurrent import RNN, recall_batch

SYMBOLS, WIDTH, BATCH = 17, 32, 32
DISTANCES = [5, 10, 20, 40, 80, 160]
SEEDS = 5
BUDGET = 3000
RATES = [1e-3, 3e-3, 1e-2, 3e-2]


class Recurrent(nn.Module):
    """Embed, read with a recurrent net, answer from the last state."""

    def __init__(self, net: type[nn.Module]):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, WIDTH)
        self.net = net(WIDTH, WIDTH, batch_first=True)
        self.answer = nn.Linear(WIDTH, 8)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.answer(self.net(self.embed(tokens))[0][:, -1])


class LookUp(nn.Module):
    """Embed, let the last position look at every position once, answer from what it finds."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, WIDTH)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.answer = nn.Linear(WIDTH, 8)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        scores = self.k(x) @ self.q(x[:, -1:]).mT / WIDTH**0.5
        return self.answer((scores.softmax(1) * self.v(x)).sum(1))


def build(name: str, seed: int) -> nn.Module:
    """PyTorch's own initial weights; "LSTM, open gate" starts with a forget bias of 1 (Jozefowicz et al. 2015)."""
    torch.manual_seed(seed)
    if name == "look-up":
        return LookUp()
    model = Recurrent(getattr(nn, name.split(",")[0]))
    if name == "LSTM, open gate":
        with torch.no_grad():
            model.net.bias_ih_l0[WIDTH : 2 * WIDTH] = 1
            model.net.bias_hh_l0[WIDTH : 2 * WIDTH] = 0
    return model


def train(name: str, distance: int, seed: int, rate: float, budget: int) -> dict:
    """Train on fresh examples; tested every 25 steps on 1000 others; stops at 99 %."""
    model = build(name, seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(seed)
    test_tokens, test_targets = recall_batch(distance, 1000, torch.Generator().manual_seed(999))
    run: dict = {"seed": seed, "distance": distance, "steps_to_95": None}
    for step in range(1, budget + 1):
        tokens, targets = recall_batch(distance, BATCH, generator)
        optimizer.zero_grad()
        F.cross_entropy(model(tokens), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 25 == 0:
            with torch.no_grad():
                accuracy = (model(test_tokens).argmax(1) == test_targets).float().mean().item()
            if accuracy >= 0.95 and run["steps_to_95"] is None:
                run["steps_to_95"] = step
            if accuracy >= 0.99:
                break
    return run | {"steps": step, "accuracy": round(accuracy, 4)}


def recall() -> None:
    """Every model gets the learning rate with which it is quickest at distance 20."""
    models = {}
    for name in ("RNN", "GRU", "LSTM", "look-up"):
        scout = {}
        for rate in RATES:
            runs = [train(name, 20, 100 + seed, rate, 1500) for seed in range(3)]
            scout[rate] = sum(run["steps_to_95"] or 1500 for run in runs) / 3
        rate = min(RATES, key=scout.__getitem__)
        print(name, "rate", rate, scout, flush=True)
        runs = []
        for distance in DISTANCES:
            for seed in range(SEEDS):
                runs.append(train(name, distance, seed, rate, BUDGET))
            print(name, distance, [(r["steps_to_95"], r["accuracy"]) for r in runs[-SEEDS:]], flush=True)
        models[name] = {"learning_rate": rate, "runs": runs}
    record(
        "recurrence_recall",
        {
            "task": "name the first symbol (one of 8) after reading distance - 1 distractors and a question mark",
            "width": WIDTH,
            "batch": BATCH,
            "budget": BUDGET,
            "chance": 1 / 8,
            "distances": DISTANCES,
            "models": models,
        },
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"recall": recall}[sys.argv[1]]()
