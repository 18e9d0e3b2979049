"""The long runs of chapter 2, "What recurrence costs". Each takes one core for minutes.

python experiments/recurrence.py recall       accuracy and training steps against distance
python experiments/recurrence.py bottleneck   repeating a sequence through one fixed vector
python experiments/recurrence.py longer       the largest state, with four times the training
python experiments/recurrence.py waiting      reading step by step and at once: seconds
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from multiprocessing import Pool

import torch
from record import record
from torch import Tensor, nn
from torch.nn import functional as F

from allyouneed.recurrent import RNN, recall_batch

# ---- recall: the first symbol, asked for at the end ----

SYMBOLS, WIDTH, BATCH = 17, 32, 32
DISTANCES = [5, 10, 15, 20, 30, 40, 80, 160]
RATES = [1e-3, 3e-3, 1e-2, 3e-2]
SEEDS, BUDGET = 5, 2000


class Recurrent(nn.Module):
    """Embed, read with a recurrent net, answer from the last state."""

    def __init__(self, net: type[nn.Module]):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, WIDTH)
        self.net = net(WIDTH, WIDTH, batch_first=True)
        self.answer = nn.Linear(WIDTH, 8)

    def forward(self, symbols: Tensor) -> Tensor:
        return self.answer(self.net(self.embed(symbols))[0][:, -1])


class LookUp(nn.Module):
    """Embed, let the last position look at every position once, answer from what it finds."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, WIDTH)
        self.w_q, self.w_k, self.w_v = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.answer = nn.Linear(WIDTH, 8)

    def forward(self, symbols: Tensor) -> Tensor:
        x = self.embed(symbols)
        scores = self.w_q(x[:, -1:]) @ self.w_k(x).mT / WIDTH**0.5
        return self.answer((scores.softmax(-1) @ self.w_v(x))[:, 0])


def build(name: str, seed: int) -> nn.Module:
    """PyTorch's initial weights; "LSTM, open gate": forget bias 1 (Jozefowicz et al., 2015)."""
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
    """Train on fresh examples, tested every 25 steps on 1000 others; stops at 99 %."""
    model = build(name, seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(seed)
    test_symbols, test_capitals = recall_batch(distance, 1000, torch.Generator().manual_seed(999))
    reached = None
    for step in range(1, budget + 1):
        symbols, capitals = recall_batch(distance, BATCH, generator)
        optimizer.zero_grad()
        F.cross_entropy(model(symbols), capitals).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 25 == 0:
            with torch.no_grad():
                right = (model(test_symbols).argmax(1) == test_capitals).float().mean().item()
            if right >= 0.95 and reached is None:
                reached = step
            if right >= 0.99:
                break
    return {"seed": seed, "steps_to_95": reached, "steps": step, "accuracy": round(right, 4)}


def scout(name: str) -> dict[float, list[int | None]]:
    """Steps to 95 % with each rate, at distances 5, 10 and 40, on seeds not used again."""
    tries = [(distance, 100 + seed) for distance in (5, 10, 40) for seed in range(SEEDS)]
    return {r: [train(name, d, s, r, 1000)["steps_to_95"] for d, s in tries] for r in RATES}


def recall() -> None:
    """Each model gets the rate with the fewest failures in scouting, then the fewest steps."""
    models = {}
    for name in ("look-up", "GRU", "LSTM, open gate", "LSTM", "RNN"):
        tried = scout(name)
        rate = min(
            RATES, key=lambda r, tried=tried: (tried[r].count(None), sum(n or 0 for n in tried[r]))
        )
        print(name, rate, tried, flush=True)
        distances: dict[str, list[dict]] = {}
        for distance in DISTANCES:
            runs = [train(name, distance, seed, rate, BUDGET) for seed in range(SEEDS)]
            distances[str(distance)] = runs
            print(name, distance, [run["steps_to_95"] for run in runs], flush=True)
            learned = [any(run["steps_to_95"] for run in runs) for runs in distances.values()]
            if learned[-2:] == [False, False]:
                break  # two distances in a row that no seed learned: no use going further
        scouting = {str(r): steps for r, steps in tried.items()}
        models[name] = {"learning_rate": rate, "scouting": scouting, "distances": distances}
    data = {"width": WIDTH, "batch": BATCH, "budget": BUDGET, "chance": 1 / 8, "models": models}
    record("recurrence_recall", data)


# ---- bottleneck: read a sequence into one state, then say it again ----

DIGITS, LONGEST, STEPS = 10, 20, 1500
START, END = 10, 11


class Repeat(nn.Module):
    """Encoder and decoder, both GRUs: all that the decoder gets of the source is one state."""

    def __init__(self, d_hidden: int):
        super().__init__()
        self.embed = nn.Embedding(12, 32)
        self.encoder = nn.GRU(32, d_hidden, batch_first=True)
        self.decoder = nn.GRU(32, d_hidden, batch_first=True)
        self.out = nn.Linear(d_hidden, 12)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        _, state = self.encoder(self.embed(source))
        return self.out(self.decoder(self.embed(target), state)[0])

    @torch.no_grad()
    def say(self, source: Tensor) -> Tensor:
        """Greedy decoding, as many digits as were read."""
        _, state = self.encoder(self.embed(source))
        digit, said = torch.full((len(source), 1), START), []
        for _ in range(source.shape[1]):
            states, state = self.decoder(self.embed(digit), state)
            digit = self.out(states)[..., :10].argmax(-1)
            said.append(digit)
        return torch.cat(said, 1)


def repeat(d_hidden: int, backwards: bool, seed: int, steps: int = STEPS) -> dict:
    """Train on random digits of lengths 1 to LONGEST; test each length on 300 sequences."""
    torch.manual_seed(seed)
    model = Repeat(d_hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, steps)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        length = int(torch.randint(1, LONGEST + 1, (), generator=generator))
        digits = torch.randint(0, 10, (64, length), generator=generator)
        source = digits.flip(1) if backwards else digits
        start, end = digits.new_full((64, 1), START), digits.new_full((64, 1), END)
        scores = model(source, torch.cat([start, digits], 1))
        loss = F.cross_entropy(scores.flatten(0, 1), torch.cat([digits, end], 1).flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    test = torch.Generator().manual_seed(999)
    accuracy = {}
    for length in range(1, LONGEST + 1):
        digits = torch.randint(0, 10, (300, length), generator=test)
        said = model.say(digits.flip(1) if backwards else digits)
        accuracy[str(length)] = round((said == digits).float().mean().item(), 4)
    return {"seed": seed, "accuracy": accuracy}


def bottleneck(seeds: int = 3) -> None:
    """Three state sizes with the source reversed (Sutskever et al., 2014), one also unreversed."""
    runs = []
    for d_hidden, backwards in ((16, True), (32, True), (64, True), (64, False)):
        for seed in range(seeds):
            run = repeat(d_hidden, backwards, seed)
            runs.append({"hidden": d_hidden, "backwards": backwards, **run})
            print(d_hidden, backwards, list(run["accuracy"].values())[3::4], flush=True)
    data = {"lengths": [1, LONGEST], "digits": DIGITS, "steps": STEPS, "runs": runs}
    record("recurrence_bottleneck", data)


def longer(seeds: int = 3) -> None:
    """The state of 64 with the source reversed, 6000 steps in place of 1500; a process a seed."""
    steps = 4 * STEPS
    with Pool(seeds, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        done = pool.starmap(repeat, [(64, True, seed, steps) for seed in range(seeds)])
    runs = [{"hidden": 64, "backwards": True, **run} for run in done]
    data = {"lengths": [1, LONGEST], "digits": DIGITS, "steps": steps, "runs": runs}
    record("recurrence_longer", data)


# ---- waiting: a step for each word, or one product for all ----

WIDE = 512


def shortest(work: Callable[[], object]) -> float:
    """The least milliseconds of thirty calls on one core, after one that warms up; what other
    processes take of the core is not counted."""
    times = []
    for _ in range(31):
        began = time.process_time()
        work()
        times.append(1e3 * (time.process_time() - began))
    return min(times[1:])


@torch.no_grad()
def waiting() -> None:
    """Milliseconds of one sentence, and of one out of 32 that are read together."""
    ours, theirs = RNN(WIDE, WIDE), nn.RNN(WIDE, WIDE, batch_first=True)
    weight, rows = torch.randn(WIDE, 2 * WIDE), []  # as many multiplications as W and U
    for sentences, words in ((1, 8), (1, 64), (32, 64), (1, 512)):
        x = torch.randn(sentences, words, WIDE)
        calls = {
            "our RNN": lambda x=x: ours(x),
            "nn.RNN": lambda x=x: theirs(x),
            "one product": lambda x=x: x @ weight,
        }
        times = {name: round(shortest(call) / sentences, 3) for name, call in calls.items()}
        rows.append({"sentences": sentences, "words": words, **times})
        print(rows[-1], flush=True)
    record("recurrence_waiting", {"unit": "milliseconds per sentence", "width": WIDE, "rows": rows})


if __name__ == "__main__":
    torch.set_num_threads(1)
    runs = {"recall": recall, "bottleneck": bottleneck, "longer": longer, "waiting": waiting}
    runs[sys.argv[1]]()
