"""The role `measured`: a number of a long run in a page without code, from its record in
src/allyouneed/results when the pages are built: {measured}`everyday BLEU`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxRole

RESULTS = Path(__file__).parents[2] / "src" / "allyouneed" / "results"
RECORDS = {"everyday": "tatoeba", "captions": "multi30k"}  # the translator's models
NUMBERS = {  # of the run whose weights ship
    "pairs": lambda run: f"{run['pairs']['pairs']:,}",
    "weights": lambda run: f"{run['parameters'] / 1e6:.1f} million",
    "hours": lambda run: f"{run['seconds'] / 3600:.1f}",
    "BLEU": lambda run: f"{run['test']['chosen']['scores']['BLEU']:.1f}",
    "BLEU, lower-cased": lambda run: f"{run['test']['chosen']['scores']['BLEU, lower-cased']:.1f}",
    "sentences of test": lambda run: f"{len(run['test']['chosen']['translations']):,}",
}


def record_of(name: str) -> Path:
    return RESULTS / f"{RECORDS[name]}.json"


def shipped(name: str) -> dict[str, Any]:
    """The run whose model is in the package: it alone is decoded in the way that was chosen."""
    runs = json.loads(record_of(name).read_text(encoding="utf-8"))["data"]["runs"]
    return next(run for run in runs if "chosen" in run["test"])


def measured(what: str) -> str:
    """A model and what is measured of it, "everyday BLEU", as a page says it.

    Raises KeyError if there is no such model or number.
    """
    name, number = what.split(" ", 1)
    return NUMBERS[number](shipped(name))


class Measured(SphinxRole):
    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        try:
            says = measured(self.text)
        except (KeyError, ValueError):
            known = ", ".join(f"{name} {number}" for name in RECORDS for number in NUMBERS)
            error = self.inliner.reporter.error(
                f"measured: expected one of {known}; got {self.text!r}", line=self.lineno
            )
            return [self.inliner.problematic(self.rawtext, self.rawtext, error)], [error]
        self.env.note_dependency(str(record_of(self.text.split(" ")[0])))
        return [nodes.Text(says)], []


def setup(app):
    app.add_role("measured", Measured())
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
