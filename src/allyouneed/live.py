"""Where a kernel lives: sliders that drive the reader's own code, and a training to be paused.

Written by hand. `explore(draw, ...)` draws a picture; in JupyterLab and in Colab there are sliders
below it, and each move draws anew. What is drawn may be made by the reader: `yours("7.3", book)` is
the answer that `check` has found right, or the book's function. On the book's pages, and where
`ipywidgets` is not installed, the first picture stands alone.
"""

from __future__ import annotations

import asyncio
import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from allyouneed.exercises import diary

from . import viz


def yours(number: str, book: Callable) -> Callable:
    """The reader's answer to an exercise, if `check` has found it right; else the book's.

    Says which of the two it is.
    """
    answer = diary.ANSWERS.get(number)
    whose = f"the book's {book.__name__}" if answer is None else "your own function"
    print(f"drawn with {whose}" + ("" if answer else f"; with yours once {number} is right"))
    return book if answer is None else answer


def display(thing: Any, **options: Any) -> Any:
    """IPython's, which a notebook has, and which nothing brings that the package needs."""
    from IPython.display import display

    return display(thing, **options)


def drawn(draw: Callable[..., Any], values: dict[str, Any]) -> Figure:
    """The figure that `draw` leaves, which nobody else shows."""
    draw(**values)
    figure = plt.gcf()
    plt.close(figure)
    return figure


def shown(make: Callable[[], Figure]) -> Callable[[], None]:
    """Show a figure; what comes back shows a new one in its place."""
    handle = display(make(), display_id=True)
    return lambda: handle.update(make())


def controls(choices: dict[str, Any]) -> dict[str, Any]:
    """A slider for (first, least, most[, step]), a menu for a list, whose first is chosen."""
    import ipywidgets

    made = {}
    for name, choice in choices.items():
        style: dict[str, Any] = {"description": name, "style": {"description_width": "9em"}}
        if isinstance(choice, list):
            made[name] = ipywidgets.Dropdown(options=choice, value=choice[0], **style)
            continue
        whole = all(isinstance(x, int) for x in choice)
        kind = ipywidgets.IntSlider if whole else ipywidgets.FloatSlider
        first, least, most, *step = choice
        step = {"step": step[0]} if step else {}
        made[name] = kind(
            value=first, min=least, max=most, continuous_update=False, **step, **style
        )
    return made


def explore(draw: Callable[..., Any], **choices: Sequence) -> None:
    """Draw a picture, and draw it anew whenever a slider is moved.

    `draw` takes each choice by its name and draws with matplotlib. A choice is
    (first, least, most) or (first, least, most, step) for a slider, of whole numbers if all are, or
    a list for a menu. What `draw` raises for the first values is raised; later it is printed, and
    the picture stays. Raises ValueError for a first value out of its range, and
    for what is no choice.
    """
    for name, choice in choices.items():
        slider = isinstance(choice, tuple) and len(choice) in (3, 4)
        menu = isinstance(choice, list) and choice
        if not (slider and choice[1] <= choice[0] <= choice[2] or menu):
            raise ValueError(
                f"{name}: expected (first, least, most) with least <= first <= most, or a list of "
                f"choices, got {choice!r}"
            )
    values = {name: choice[0] for name, choice in choices.items()}
    redraw = shown(lambda: drawn(draw, values))
    if not importlib.util.find_spec("ipywidgets"):
        return
    import ipywidgets

    bars, trouble = controls(choices), ipywidgets.HTML()

    def moved(change: Any) -> None:
        values.update({name: bar.value for name, bar in bars.items()})
        try:
            redraw()
            trouble.value = ""
        except Exception as error:  # a reader's function may fail for some values
            trouble.value = f"{type(error).__name__}: {error}"

    for bar in bars.values():
        bar.observe(moved, "value")
    display(ipywidgets.VBox([*bars.values(), trouble]))


class Training:
    """A training that goes on for as long as one likes: pause it, move its learning rate.

    `update(rate)` makes one update and returns its loss. The first updates are made at once and
    drawn; then there are a button and a slider, where a kernel lives.
    """

    def __init__(
        self, update: Callable[[float], float], rate: float, first: int = 50, every: int = 10
    ):
        if not rate > 0:
            raise ValueError(f"rate: expected above 0, got {rate}")
        self.update, self.rate, self.every = update, rate, every
        self.losses, self.rates, self.task = [], [], None
        self.go(first)
        self.redraw = shown(lambda: drawn(self.draw, {}))
        if importlib.util.find_spec("ipywidgets"):
            self.offer()

    def go(self, updates: int) -> None:
        for _ in range(updates):
            self.losses.append(float(self.update(self.rate)))
            self.rates.append(self.rate)

    def draw(self) -> None:
        _, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.4), width_ratios=(2, 1))
        left.plot(self.losses, color=viz.SKY, lw=0.9)
        left.set(xlabel="update", ylabel="loss")
        right.plot(self.rates, color=viz.ORANGE)
        right.set(xlabel="update", ylabel="learning rate", yscale="log")

    def offer(self) -> None:
        import ipywidgets

        self.button = ipywidgets.ToggleButton(value=False, description="go on", icon="play")
        low, high = math.floor(math.log10(self.rate)) - 2, math.ceil(math.log10(self.rate)) + 2
        self.slider = ipywidgets.FloatLogSlider(
            value=self.rate, min=low, max=high, step=0.1, description="learning rate",
            style={"description_width": "9em"},
        )  # fmt: skip
        self.slider.observe(self.turn, "value")
        self.button.observe(self.press, "value")
        display(ipywidgets.HBox([self.button, self.slider]))

    def turn(self, change: Any) -> None:
        self.rate = change["new"]

    def press(self, change: Any) -> None:
        self.button.description = "pause" if change["new"] else "go on"
        self.button.icon = "pause" if change["new"] else "play"
        if change["new"] and (self.task is None or self.task.done()):
            self.task = asyncio.get_event_loop().create_task(self.run())

    async def run(self) -> None:
        """Some updates, then a look at what the reader wants, until the button is up again."""
        while self.button.value:
            self.go(self.every)
            self.redraw()
            if not math.isfinite(self.losses[-1]):
                self.button.value = False
            await asyncio.sleep(0.02)  # the kernel hears of buttons and sliders meanwhile
