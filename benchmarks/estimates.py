"""How long "Run all" takes on Colab's T4, by estimate: `python benchmarks/estimates.py`.

What a notebook does on a CPU too was measured (`--record`), in seconds of one core. Colab's is
taken to be slower, and a GPU to gain nothing there, for the nets are small. What only a GPU is
given is counted, with the sizes that stand in the notebook, by the cost model of chapter 19.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import v4

from allyouneed import results
from allyouneed.scaling import Device, project, translation_launches
from allyouneed.transformer import TransformerConfig

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "experiments")]
from record import record  # noqa: E402

MOST = 300  # seconds that a notebook may take
SLOWER = 1.7  # Colab's core beside that of the record; the slowest that ran them took as long
SHARE = 0.1  # of the T4's peak in half precision: the products are narrow
SINGLE = 4e12  # operations a second in float32: half of the data sheet's
PAIR = 5e-5  # seconds to learn a vocabulary from a pair of sentences and to cut it
CUT = 5.9  # seconds to cut WikiText-2 into tokens on that core
SYMBOL = 1.4e-4  # seconds to see on that core which of 10,700 symbols may follow, and to choose
COMPILER = 30  # seconds for flex_attention at one length, forward, backward and its mask


def text(notebook: str) -> str:
    """A notebook as it stands in its file."""
    return (ROOT / "notebooks" / f"{notebook}.ipynb").read_text(encoding="utf-8")


def code(notebook: str) -> str:
    """All code of a notebook."""
    cells = [cell for cell in json.loads(text(notebook))["cells"] if cell["cell_type"] == "code"]
    return "\n".join("".join(cell["source"]) for cell in cells)


def chosen(notebook: str, names: str) -> Any:
    """What a notebook gives to these names where there is a GPU: it has one such line."""
    (value,) = re.findall(rf"^{re.escape(names)} = (.*)$", code(notebook), re.M)
    return eval(value, {"gpu": True, "Device": Device})


T4 = Device("T4", 65e12, 16e9, 320e9, link=16e9, network=1.25e9, launch=20e-6)


def clock() -> float:
    """Chapter 2's loops: 31 calls of two nets for three lengths, six launches for each word."""
    return 31 * 2 * (8 + 64 + 512) * 6 * T4.launch


def full_run(name: str) -> float:
    """One of the runs of chapter 14."""
    run = results.load(name)["data"]["runs"][0]
    s, steps = run["settings"], run["history"][-1]["step"]
    config = TransformerConfig(s["vocabulary"], s["d_model"], s["d_ff"], s["heads"], s["layers"])
    looks = {"validations": s["epochs"], "averaged": s["average"]}
    kind = {"length": 15, "utilisation": SHARE, **looks}
    trained = 3600 * project(config, T4, 1, steps, s["batch_tokens"], **kind).hours
    return trained + PAIR * run["pairs"]["pairs"]


def overview() -> float:
    """The longer training of chapter 0, which is in float32."""
    names = "width, layers, updates, batch_tokens"
    width, layers, updates, tokens = chosen("00_overview", names)
    vocabulary = chosen("00_overview", "longest, commonest, vocabulary")[-1]
    config = TransformerConfig(vocabulary, width, 2 * width, 4, layers)
    slow, pairs = replace(T4, flops=SINGLE), results.load("tatoeba")["data"]["runs"][0]["pairs"]
    trained = 3600 * project(config, slow, 1, updates, tokens, length=9, utilisation=1).hours
    return trained + PAIR * pairs["pairs"]


def own_models() -> float:
    """Chapter 14's runs, those that are wanted unless somebody asks for more."""
    runs = {"captions": "multi30k", "everyday": "tatoeba"}
    return sum(full_run(runs[name]) for name in chosen("14_translation", "wanted"))


def gpt() -> float:
    """The longer reading of chapter 16: the text is cut, and read with six operations for each
    parameter and token."""
    updates, batch = chosen("16_families", "updates, batch")
    past = results.load("language")["data"]
    operations = 6 * past["gpt"]["parameters"] * batch * past["gpt"]["length"]
    return SLOWER * CUT + updates * max(operations / (SHARE * T4.flops), 500 * T4.launch)


def long_inputs() -> float:
    """Chapter 17: four calls of each of seven forms, with four heads of 64 entries."""
    seconds = 0.0
    for n in chosen("17_sparse", "longer"):
        multiplied = 3.5 * 2 * 2 * n * n * 4 * 64 / (SHARE * T4.flops)  # forward and backward
        moved = 40 * 4 * n * n * 2 / T4.bandwidth  # tables in 16 bits, or tiles of them
        seconds += 4 * 7 * (multiplied + moved) + COMPILER
    return seconds


def parser() -> float:
    """The longest run of chapter 18, with three validations and a test of constrained writing."""
    updates, part = chosen("18_parsing", "updates, part")
    past = results.load("parsing")["data"]
    config = TransformerConfig(1000, **past["model"])
    tokens, length = past["settings"]["max_tokens"], past["mean_symbols"]
    kind = {"length": length, "utilisation": SHARE}
    trained = 3600 * project(config, T4, 1, updates, tokens, **kind).hours
    trees = 3 * past["trees"]["valid"] + past["trees"]["test"]
    steps = trees / 64 * 4 * length  # the longest of 64 trees is a few times the mean
    choices = SLOWER * SYMBOL * trees * length
    return trained + choices + T4.launch * steps * translation_launches(config, 1)


ON_A_GPU = {
    "00_overview": overview,
    "02_recurrent": clock,
    "14_translation": own_models,
    "16_families": gpt,
    "17_sparse": long_inputs,
    "18_parsing": parser,
}


def seconds() -> dict[str, tuple[float, float]]:
    """For each notebook that asks for a GPU: what a CPU does too, and what only a GPU does."""
    on_cpu = results.load("notebooks")["data"]["seconds"]
    return {
        name: (SLOWER * each, ON_A_GPU[name]() if name in ON_A_GPU else 0.0)
        for name, each in on_cpu.items()
    }


def table() -> str:
    """The estimates, as README.md has them."""
    rows = ["| notebook | as on a CPU | only on a GPU | together |", "|---|---:|---:|---:|"]
    for name, (cpu, gpu) in seconds().items():
        rows.append(f"| `{name}` | {cpu:.0f} | {gpu:.0f} | {cpu + gpu:.0f} |")
    return "\n".join(rows)


def measure() -> None:
    """Run each notebook that asks for a GPU on this CPU, and keep the seconds of its core."""
    found = {}
    for file in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(file, as_version=4)
        if "accelerator" not in notebook.metadata:
            continue
        notebook.cells.append(v4.new_code_cell("import time; print(time.process_time())"))
        with tempfile.TemporaryDirectory() as folder:
            kind = {"kernel_name": "python3", "resources": {"metadata": {"path": folder}}}
            NotebookClient(notebook, timeout=1800, **kind).execute()
        found[file.stem] = round(float(notebook.cells[-1].outputs[0].text), 1)
        print(file.stem, found[file.stem], flush=True)
    record("notebooks", {"unit": "seconds of one core", "seconds": found})


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--record", action="store_true", help="run all of them on this CPU first")
    if options.parse_args().record:
        measure()
    print(table())


if __name__ == "__main__":
    main()
