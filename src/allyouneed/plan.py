"""The plan of the machine, after figures 1 and 2 of the paper: each box with its chapter.

Written by hand. `plan.drawing()` is the last line of a cell; `plan.drawing(8)` lights the boxes of
chapter 8. The first page of the book shows it with links, and each chapter a small one, without
words, `plan.small(8)`. Nothing but the standard library is needed, so that the pages can be built
without PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 694  # units: pixels, where a page has room for them
POINTS = 0.75  # of a unit; a page takes a figure's size from them, as it does of matplotlib's
INK, PAPER = "#333333", "#ffffff"
BLUE, ORANGE, GREEN, PINK, SKY, GREY = (  # Okabe and Ito's, as in `viz`
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#7a7a7a",
)  # fmt: skip
FONT = "'Source Sans 3', 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif"
ALT = (
    "The Transformer, from below. Left: inputs, embedding, positions, then the encoder, N layers "
    "of self-attention and feed-forward, each followed by add and norm. Right: outputs so far, "
    "embedding, positions, then the decoder, N layers of masked self-attention, cross-attention to "
    "what the encoder gives, and feed-forward, each followed by add and norm; above it linear, "
    "softmax, the next word. Top left, what is inside every attention: linear layers for queries, "
    "keys and values; then in each head scores, scale, mask, softmax, and the sum of the values; "
    "then concatenation and a linear layer."
)


@dataclass(frozen=True)
class Box:
    """A part of the machine: where it stands, what it is called, and who takes it apart."""

    x: int
    y: int
    width: int
    height: int
    words: str  # lines are parted by "|"
    chapter: int
    colour: str = INK


E, D = 38, 270  # the left edges of the encoder's boxes and of the decoder's
COLUMN = 148
FRAMES = [
    Box(8, 8, 226, 248, "Inside every attention", 7, GREY),
    Box(14, 272, 186, 246, "Encoder, N ×", 11, GREY),
    Box(256, 172, 186, 346, "Decoder, N ×", 11, GREY),
]
BOXES = [
    Box(20, 34, 202, 28, "concat, linear", 7, BLUE),
    Box(40, 70, 162, 25, "weighted sum of V", 4, GREEN),
    Box(40, 98, 162, 25, "softmax", 4, BLUE),
    Box(40, 126, 162, 25, "mask", 8, BLUE),
    Box(40, 154, 162, 25, "divide by √dₖ", 6, BLUE),
    Box(40, 182, 162, 25, "scores: Q Kᵀ", 4, ORANGE),
    Box(20, 217, 202, 28, "linear: to Q, K and V", 5, BLUE),
    Box(E, 298, COLUMN, 25, "add & norm", 10, GREY),
    Box(E, 329, COLUMN, 40, "feed-forward", 10, GREEN),
    Box(E, 398, COLUMN, 25, "add & norm", 10, GREY),
    Box(E, 429, COLUMN, 46, "multi-head|self-attention", 7, BLUE),
    Box(D, 8, COLUMN, 28, "the next word", 13, INK),
    Box(D, 60, COLUMN, 30, "softmax, loss", 12, PINK),
    Box(D, 114, COLUMN, 30, "linear", 11, PINK),
    Box(D, 198, COLUMN, 25, "add & norm", 10, GREY),
    Box(D, 229, COLUMN, 40, "feed-forward", 10, GREEN),
    Box(D, 298, COLUMN, 25, "add & norm", 10, GREY),
    Box(D, 329, COLUMN, 46, "multi-head|cross-attention", 8, ORANGE),
    Box(D, 398, COLUMN, 25, "add & norm", 10, GREY),
    Box(D, 429, COLUMN, 46, "masked multi-head|self-attention", 8, BLUE),
    Box(E, 538, COLUMN, 30, "+ positions", 9, SKY),
    Box(D, 538, COLUMN, 30, "+ positions", 9, SKY),
    Box(E, 588, COLUMN, 30, "embedding", 1, PINK),
    Box(D, 588, COLUMN, 30, "embedding", 1, PINK),
    Box(E, 648, COLUMN, 34, "inputs", 1, INK),
    Box(D, 648, COLUMN, 34, "outputs so far|(shifted right)", 8, INK),
]
CHAPTERS = sorted({box.chapter for box in BOXES})
ATTENTION = [
    "multi-head|self-attention",
    "multi-head|cross-attention",
    "masked multi-head|self-attention",
]
MORE = {  # what chapters without a box are about, by the words of boxes
    3: ["multi-head|cross-attention"],
    15: ATTENTION,
    16: ["masked multi-head|self-attention", "multi-head|self-attention"],
    17: ["scores: Q Kᵀ", "mask", "softmax", "weighted sum of V"],
    20: ["add & norm", "feed-forward", "+ positions", *ATTENTION],
}  # fmt: skip
ARROWS = [  # the stream upwards, the branches round each sub-layer, the memory; points x,y
    *(f"{x},{y} {x},{to}" for x in (112, 344) for y, to in ((648, 619), (588, 569), (538, 476))),
    "112,398 112,370", "344,398 344,376", "344,298 344,270", "344,198 344,145", "344,114 344,91",
    "344,60 344,37", "112,507 26,507 26,410 37,410", "112,386 26,386 26,310 37,310",
    "344,507 430,507 430,410 419,410", "344,386 430,386 430,310 419,310",
    "344,286 430,286 430,210 419,210", "112,298 112,264 228,264 228,352 269,352",
    "121,217 121,208", "121,70 121,63",
]  # fmt: skip


def text(
    x: float | int,
    y: float | int,
    words: str,
    size: float | int,
    anchor: str = "middle",
    more: str = "",
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}" fill="{INK}"'
        f"{more}>{escape(words)}</text>"
    )


def badge(box: Box, x: float | int, y: float | int) -> str:
    """The number of a chapter in a small disc."""
    disc = f'<circle cx="{x:g}" cy="{y:g}" r="9.5" fill="{PAPER}" stroke="{INK}"/>'
    return disc + text(x, y + 4, str(box.chapter), 11.5, more=' font-weight="600"')


def linked(box: Box, marks: str, links: Mapping[int, tuple[str, str]]) -> str:
    if box.chapter not in links:
        return f"<g>{marks}</g>"
    url, title = links[box.chapter]
    name = escape(f"{box.words.replace('|', ' ')}: chapter {box.chapter}, {title}", quote=True)
    return f'<a href="{escape(url, quote=True)}" aria-label="{name}">{marks}</a>'


def framed(box: Box, links: Mapping[int, tuple[str, str]]) -> str:
    """A frame of dashes with its title at the top, on the left."""
    size = f'width="{box.width:g}" height="{box.height:g}" rx="8"'
    frame = (
        f'<rect x="{box.x:g}" y="{box.y:g}" {size} fill="none" stroke="{box.colour}" '
        'stroke-dasharray="5 3"/>'
    )
    title = text(box.x + 8, box.y + 18, box.words, 13, "start", ' font-weight="600"')
    return frame + linked(box, title + badge(box, box.x + box.width - 16, box.y + 14), links)


def boxed(box: Box, lit: tuple[int, ...], links: Mapping[int, tuple[str, str]]) -> str:
    """A box with its words and its chapter; if others are lit and it is not, it is faint."""
    bright = box.chapter in lit
    lines, middle = box.words.split("|"), box.y + box.height / 2
    place = (
        f'x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="5" '
        f'stroke="{box.colour}" stroke-width="{3 if bright else 1.5}"'
    )
    shade = 0.1 + 0.3 * bright * (box.colour not in (INK, GREY)) + 0.15 * bright
    marks = f'<rect {place} fill="{PAPER}"/>'
    marks += f'<rect {place} fill="{box.colour}" fill-opacity="{shade:g}"/>'
    size = 14.5 if len(lines) == 1 else 13
    for i, line in enumerate(lines):
        at = middle + 4.5 + 15 * (i - (len(lines) - 1) / 2)
        marks += text(box.x + (box.width - 22) / 2, at, line, size)
    drawn = linked(box, marks + badge(box, box.x + box.width - 14, middle), links)
    return f'<g opacity="0.4">{drawn}</g>' if lit and not bright else drawn


class Drawing:
    """A drawing as SVG; a notebook shows it."""

    def __init__(self, svg: str):
        self.svg = svg

    def __repr__(self) -> str:
        return "the plan of the machine"

    def _repr_svg_(self) -> str:
        return self.svg


def drawing(*lit: int, links: Mapping[int, tuple[str, str]] | None = None) -> Drawing:
    """The whole machine: Vaswani et al. (2017), figures 1 and 2, with a chapter for each box.

    `lit`: chapters whose boxes are lit, the others are faint then. `links`: of chapters, address
    and title; with them each box is a link. Raises ValueError for a chapter that has no box.
    """
    if unknown := set(lit) - set(CHAPTERS):
        raise ValueError(f"lit: expected chapters out of {CHAPTERS}, got {sorted(unknown)}")
    links = links or {}
    role = "group" if links else "img"
    across, down = POINTS * WIDTH, POINTS * HEIGHT
    size = f'width="{across:g}pt" height="{down:g}pt" viewBox="0 0 {across:g} {down:g}"'
    tip = f'<path d="M0 0L8 4L0 8z" fill="{INK}"/>'
    marker = 'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plan" {size} role="{role}" '
        f'aria-label="{escape(ALT, quote=True)}" font-family="{FONT}">',
        f'<g transform="scale({POINTS})">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{PAPER}"/>',
        f'<defs><marker id="plan-tip" {marker}>{tip}</marker></defs>',
        *(framed(frame, links) for frame in FRAMES),
        f'<g fill="none" stroke="{INK}" stroke-width="1.3" marker-end="url(#plan-tip)">',
        *(f'<polyline points="{points}"/>' for points in ARROWS),
        "</g>",
        text(226, 368, "memory", 11),
        *(boxed(box, lit, links) for box in BOXES),
        "</g></svg>",
    ]
    return Drawing("\n".join(parts))


def parts(chapter: int) -> list[Box]:
    """The boxes that a chapter is about; none for one that is about all of it, or about others."""
    return [box for box in BOXES if box.chapter == chapter or box.words in MORE.get(chapter, ())]


def small(chapter: int) -> str:
    """The plan without words, in the colours of the page (class "lit" where the chapter is): for a
    place where words would be too small to read. What is lit is to be said beside it."""
    lit = parts(chapter)
    size = 'rx="8" fill="none" stroke="currentColor"'
    rows = [
        f'<rect x="{one.x}" y="{one.y}" width="{one.width}" height="{one.height}" {size} '
        'stroke-dasharray="8 6" stroke-width="2" opacity=".5"/>'
        for one in FRAMES
    ]
    lines = "".join(f"M{points.replace(' ', 'L')}" for points in ARROWS)
    rows.append(
        f'<path d="{lines}" fill="none" stroke="currentColor" stroke-width="3" opacity=".4"/>'
    )
    rows += [
        f'<rect x="{one.x}" y="{one.y}" width="{one.width}" height="{one.height}" rx="7"'
        + (' class="lit"/>' if one in lit else ' fill="currentColor" opacity=".3"/>')
        for one in BOXES
    ]
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{"".join(rows)}</svg>'
