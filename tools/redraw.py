"""Put today's style and script of the interactive pictures into the notebooks' committed outputs.

python tools/redraw.py        after a change in src/allyouneed/pictures/; nothing is run again

The numbers in the outputs stay as they are: they come from the cells, and change only with them.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat

from allyouneed import pictures

ROOT = Path(__file__).parents[1]
PICTURE = re.compile(
    r'(<div class="moving (?P<kind>[\w-]+)" id="(?P<name>[\w-]+)">\n'
    r'<script type="application/json">.*?</script>\n)<style>.*</script>(?=\n</div>)',
    re.S,
)


def redrawn(html: str) -> str:
    """The output of a cell with the style and the script of today."""
    return PICTURE.sub(lambda found: found[1] + pictures.script(found["kind"], found["name"]), html)


def main() -> None:
    for file in sorted((ROOT / "notebooks").glob("*.ipynb")):
        before = file.read_text(encoding="utf-8")
        notebook = nbformat.reads(before, as_version=4)
        for cell in notebook.cells:
            for output in cell.get("outputs", []):
                if html := output.get("data", {}).get("text/html"):
                    output["data"]["text/html"] = redrawn(html)
        after = nbformat.writes(notebook) + "\n"
        if after != before:
            print(f"redrawn: {file.name}")
            file.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
