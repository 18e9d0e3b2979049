"""The pictures: one style, one colour map; drawing functions take arrays and return axes."""

from __future__ import annotations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

# Okabe and Ito's palette, safe for colour-blind readers. Q, K and V keep theirs in the whole book.
BLUE, ORANGE, GREEN, PINK, SKY, RED, YELLOW = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442",
)  # fmt: skip
INK = "#333333"
QUERY, KEY, VALUE = BLUE, ORANGE, GREEN
ATTENTION = "Blues"  # the one colour map of attention weights, always from 0 to 1

STYLE = {
    "figure.figsize": (6.4, 3.2),
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "axes.prop_cycle": mpl.cycler(color=[BLUE, ORANGE, GREEN, PINK, SKY, RED]),
    "svg.hashsalt": "allyouneed",
}


def use_style() -> None:
    """Set the book's figure style; in a notebook, make figures SVG of reproducible bytes."""
    mpl.rcParams.update(STYLE)
    try:
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("svg", metadata={"Date": None}, bbox_inches="tight")
    except (ImportError, AttributeError):  # plain Python: figures are saved by the caller
        pass


def checked(weights: ArrayLike, queries: list[str], keys: list[str]) -> np.ndarray:
    """The weights as an array, one row per query and one column per key, or a ValueError."""
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (len(queries), len(keys)):
        raise ValueError(
            f"weights: expected shape ({len(queries)} queries, {len(keys)} keys), "
            f"got {tuple(weights.shape)}"
        )
    return weights


def attention_map(
    weights: ArrayLike,
    queries: list[str],
    keys: list[str],
    ax: Axes | None = None,
    title: str = "",
) -> Axes:
    """Draw attention weights: rows are queries, columns keys; the fuller the blue, the nearer to 1.

    `weights`: array or tensor of shape (len(queries), len(keys)).
    Raises ValueError if the shape does not fit the tokens.
    """
    weights = checked(weights, queries, keys)
    if ax is None:
        _, ax = plt.subplots(figsize=(0.38 * len(keys) + 1.6, 0.32 * len(queries) + 1.2))
    ax.imshow(weights, cmap=ATTENTION, vmin=0, vmax=1, aspect="auto")
    ax.set_xticks(range(len(keys)), keys, rotation=60, ha="left", rotation_mode="anchor")
    ax.set_yticks(range(len(queries)), queries)
    ax.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.set_title(title)
    return ax


def alignment_ribbons(
    weights: ArrayLike, queries: list[str], keys: list[str], ax: Axes | None = None
) -> Axes:
    """Draw attention weights as ribbons between two sentences: keys above, queries below.

    `weights`: array or tensor of shape (len(queries), len(keys)); a ribbon is as wide and as dark
    as its weight. Raises ValueError if the shape does not fit the tokens.
    """
    weights = checked(weights, queries, keys)
    if ax is None:
        _, ax = plt.subplots(figsize=(0.78 * max(len(keys), len(queries)) + 0.6, 2.6))
    top, bottom = np.linspace(0, 1, len(keys)), np.linspace(0, 1, len(queries))
    down = np.linspace(0, 1, 40)
    for t, s in np.argwhere(weights > 0.02):  # fainter ones could not be seen
        middle = top[s] + (bottom[t] - top[s]) * (3 * down**2 - 2 * down**3)
        half = 0.03 * weights[t, s]
        shade = {"color": QUERY, "alpha": 0.12 + 0.7 * weights[t, s], "linewidth": 0}
        ax.fill_betweenx(1 - down, middle - half, middle + half, **shade)
    for words, places, height, side in (
        (keys, top, 1.06, "bottom"),
        (queries, bottom, -0.06, "top"),
    ):
        for word, place in zip(words, places, strict=True):
            ax.text(place, height, word, ha="center", va=side, fontsize=12)
    ax.set(xlim=(-0.06, 1.06), ylim=(-0.25, 1.25))
    ax.axis("off")
    return ax
