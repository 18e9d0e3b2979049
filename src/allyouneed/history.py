"""How a run of training goes: what is kept of it, and how it is shown.

This module is plumbing written by hand.
"""

from __future__ import annotations

import io
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tqdm import tqdm

from allyouneed.files import write_file

Row = dict[str, int | float]


@dataclass
class History:
    """A row for each validation, the loss of each step in nats per token, seconds of training."""

    rows: list[Row] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def recent_loss(self) -> float:
        """The mean loss of the steps since the last validation, but of those that overflowed."""
        start = int(self.rows[-1]["step"]) if self.rows else 0
        recent = list(filter(math.isfinite, self.losses[start:]))
        return sum(recent) / max(len(recent), 1)

    def best(self) -> Row:
        """The first of the rows with the highest BLEU; among equals, that of the lowest loss."""
        return max(self.rows, key=lambda row: (row["BLEU"], -row["valid loss"]))

    def draw(self, path: Path) -> None:
        """The losses and BLEU over the steps, as a picture, if matplotlib is installed."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            return
        rows, losses = self.rows, self.losses
        step = [row["step"] for row in rows]
        size = math.ceil(len(losses) / 200)
        figure = Figure(figsize=(8, 3))
        margins = {"left": 0.09, "right": 0.98, "bottom": 0.17, "top": 0.95, "wspace": 0.24}
        left, right = figure.subplots(1, 2, gridspec_kw=margins)
        some = range(0, len(losses), size)
        means = [sum(losses[i : i + size]) / len(losses[i : i + size]) for i in some]
        left.plot([i + size / 2 for i in some], means, label="training, smoothed labels, dropout")
        left.plot(step, [row["valid loss"] for row in rows], "o-", ms=3, label="validation")
        left.set(xlabel="step", ylabel="loss (nats per token)")
        left.legend(frameon=False)
        right.plot(step, [row["BLEU"] for row in rows], "o-", ms=3)
        right.set(xlabel="step", ylabel="BLEU on validation (greedy)")
        picture = io.BytesIO()
        figure.savefig(picture, format="svg", metadata={"Date": None})
        write_file(path, picture.getvalue())


def table(rows: list[Row], header: bool = True) -> str:
    """Rows of the history as lines of text."""
    lines = [[f"{name:>12}" for name in rows[0]]] if header else []
    for row in rows:
        lines.append([f"{x:>12,}" if isinstance(x, int) else f"{x:>12.2f}" for x in row.values()])
    return "\n".join(map("".join, lines))


def progress_bar(done: int, of: int, unit: str, shown: bool = True) -> tqdm:
    """The bar of what takes long; in a log file it moves every half minute."""
    pace = 0.2 if sys.stderr.isatty() else 30.0
    return tqdm(
        total=of, initial=done, disable=not shown, mininterval=pace, maxinterval=2 * pace,
        unit=unit, dynamic_ncols=True,
    )  # fmt: skip
