"""Run notebooks and write them in one reproducible form: run twice, no difference.

python tools/execute.py [notebooks/01_tokens.ipynb ...]     all notebooks if none is named

Where a cell has not changed and says the same as before (tools/outputs.py), its output stays as it
was: so another processor changes nothing by itself.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
import sys
from collections import Counter
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from outputs import SAME, WIDGET, same_text

from allyouneed.files import write_file

ROOT = Path(__file__).parents[1]
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
MODEL_ID = re.compile(r"\b[0-9a-f]{32}\b")

# The chapters that train, decode or measure on `device`; for them Colab is asked for a GPU
ON_A_GPU = (0, 2, 3, 10, 12, 13, 14, 15, 16, 17, 18, 20, "project")


def chapter(file: Path) -> int | str:
    """The number that a notebook's name begins with, or the name of one that has none."""
    number = file.stem.split("_")[0]
    return int(number) if number.isdigit() else file.stem


def source_hash(notebook: NotebookNode) -> str:
    """A hash of all code, kept in the notebook: outputs of other code than this are stale."""
    code = "\0".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]


def cell_names(notebook: NotebookNode) -> list[str]:
    """A readable id for each cell: its section and its place there, or what it defines."""
    names, seen, section = [], Counter(), "start"
    for cell in notebook.cells:
        heading = re.match(r"#+ (.+)", cell.source) if cell.cell_type == "markdown" else None
        defined = (
            re.search(r"^(?:class|def) (\w+)", cell.source, re.M)
            if cell.cell_type == "code"
            else None
        )
        if heading:
            name = section = slug(heading[1])
        elif defined:
            name = slug(defined[1])
        else:
            name = f"{section}-{seen[section + ' cells'] + 1}"
            seen[section + " cells"] += 1
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}-again-{seen[name] - 1}")
    return names


def joined_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Printed text comes in pieces that depend on timing: join what belongs together."""
    joined: list[NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def needs_kernel(output: NotebookNode) -> bool:
    """A widget, which without a kernel does nothing: the still output beside it is kept."""
    return WIDGET in output.get("data", {})


def normalise(notebook: NotebookNode, file: Path) -> NotebookNode:
    """Take out all that differs from one run to the next without meaning anything."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    gpu = {"accelerator": "GPU", "colab": {"gpuType": "T4"}}
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": kernel,
            "language_info": {"name": "python"},
            "source_hash": source_hash(notebook),
            **(gpu if chapter(file) in ON_A_GPU else {}),
        }
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    count = 0
    for cell, name in zip(notebook.cells, cell_names(notebook), strict=True):
        cell.id = name
        cell.metadata.pop("execution", None)
        if cell.cell_type != "code":
            continue
        cell.execution_count = None
        if cell.source.strip():
            count += 1
            cell.execution_count = count
        cell.outputs = joined_streams([one for one in cell.outputs if not needs_kernel(one)])
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
    text = ADDRESS.sub("", json.dumps(notebook))
    ids = {
        old: f"{number:032x}" for number, old in enumerate(dict.fromkeys(MODEL_ID.findall(text)), 1)
    }
    text = MODEL_ID.sub(lambda match: ids[match[0]], text)
    return nbformat.reads(text, as_version=4)


def shown(output: NotebookNode) -> dict[str, str]:
    """What an output shows, by its kind."""
    return output.get("data") or {output.output_type: output.get("text", "")}


def says_the_same(new: NotebookNode, old: NotebookNode) -> bool:
    a, b = shown(new), shown(old)
    return a.keys() == b.keys() and all(SAME.get(kind, same_text)(a[kind], b[kind]) for kind in a)


def keep_what_says_the_same(notebook: NotebookNode, before: NotebookNode) -> None:
    """Put the outputs from before into the cells that have not changed and say the same."""
    known_outputs = {(cell.id, cell.source): cell.get("outputs", []) for cell in before.cells}
    for cell in notebook.cells:
        outputs, old = cell.get("outputs", []), known_outputs.get((cell.id, cell.source), [])
        if outputs and len(outputs) == len(old) and all(map(says_the_same, outputs, old)):
            for output, known in zip(outputs, old, strict=True):
                output.update({key: known[key] for key in ("data", "text") if key in known})


def execute(file: Path) -> None:
    """Run one notebook from top to bottom and write it back."""
    notebook = nbformat.read(file, as_version=4)
    before = copy.deepcopy(notebook)
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": file.parent}},
    )
    client.execute()
    notebook = normalise(notebook, file)
    keep_what_says_the_same(notebook, before)
    write_file(file, f"{nbformat.writes(notebook)}\n".encode())


def main(names: list[str]) -> None:
    for file in [Path(name) for name in names] or sorted((ROOT / "notebooks").glob("*.ipynb")):
        print(f"running {file.name} ...", flush=True)
        execute(file)


if __name__ == "__main__":
    main(sys.argv[1:])
