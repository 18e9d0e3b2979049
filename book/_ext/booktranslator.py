"""The translator's models, packed for the page that runs them in the browser.

    python book/_ext/booktranslator.py FOLDER     writes them there, as building the site does

From src/allyouneed/weights/NAME.safetensors, with nothing but the standard library:

    models/NAME.bin    what the page fetches: one zlib stream, see `pack`
    models/NAME.js     the same in base64, for a page that is opened as a file
    models.js          names, sizes and terms, which the page has from the start

A weight is a bfloat16, two bytes. The bytes with the signs and the exponents, of which few occur,
come first, then the bytes with the rest, which look random: that way short codes for frequent
bytes save a third. (There are no repeated strings to look for, as zlib usually does.) Nothing is
rounded. The stream ends in a checksum, which the browser verifies.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
WEIGHTS = ROOT / "src" / "allyouneed" / "weights"
PAGE, COVER = "book/translator", "cover"
MODELS = ["tatoeba-en-fr", "multi30k-en-de"]  # in the order of the page
SCRIPTS = [
    "models", "examples", "words", "tokenizer", "transformer", "decoding", "weights", "remarks",
    "ribbons", "page",
]  # fmt: skip


def read_safetensors(path: Path) -> tuple[dict[str, Any], bytes]:
    """The header and the data: 8 bytes with the header's length, the header in JSON, the data."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:start]), content[start:]


def pack(path: Path) -> bytes:
    """A model file as one zlib stream: header length (4 bytes), header, high bytes, low bytes.

    The header has the sizes, the vocabulary, and the tensors in the order of the file.
    Raises ValueError if a weight is not a bfloat16.
    """
    header, data = read_safetensors(path)
    texts = header.pop("__metadata__")
    tensors = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
    for name, tensor in tensors:
        if tensor["dtype"] != "BF16":
            raise ValueError(f"{path}: expected bfloat16 weights, got {tensor['dtype']}: {name}")
    bpe = json.loads(texts["tokenizer"])["model"]
    about = {
        "config": json.loads(texts["config"]),
        "tokens": sorted(bpe["vocab"], key=bpe["vocab"].get),
        "merges": [pair if isinstance(pair, str) else " ".join(pair) for pair in bpe["merges"]],
        "tensors": [[name, tensor["shape"]] for name, tensor in tensors],
    }
    head = json.dumps(about, ensure_ascii=False, separators=(",", ":")).encode()
    stream = zlib.compressobj(9, strategy=zlib.Z_HUFFMAN_ONLY)
    content = len(head).to_bytes(4, "little") + head + data[1::2] + data[::2]
    return stream.compress(content) + stream.flush()


def write(folder: Path) -> None:
    """Write all files into the folder, but not those that are there and newer than their source."""
    (folder / "models").mkdir(parents=True, exist_ok=True)
    models = {}
    for name in MODELS:
        source, packed = WEIGHTS / f"{name}.safetensors", folder / "models" / f"{name}.bin"
        made = [source.stat().st_mtime, Path(__file__).stat().st_mtime]
        if not packed.exists() or packed.stat().st_mtime < max(made):
            content = pack(source)
            text = base64.b64encode(content).decode()
            script = f"Translator.receive({json.dumps(name)}, {json.dumps(text)});\n"
            packed.with_suffix(".js").write_text(script, encoding="ascii")
            packed.write_bytes(content)
        content, texts = packed.read_bytes(), read_safetensors(source)[0]["__metadata__"]
        card = json.loads(texts["card"])
        models[name] = {
            "bytes": len(content),
            "version": f"{zlib.crc32(content):08x}",  # so that a browser keeps no old one
            "parameters": card["parameters"],
        }
    about = json.dumps(models, indent=2)
    script = f"globalThis.Translator ??= {{}};\nTranslator.models = {about};\n"
    (folder / "models.js").write_text(script, encoding="utf-8")


def on_page(app, pagename: str, templatename: str, context: dict, doctree) -> None:
    """The translator's page has its scripts; the first page has one, which asks for the others when
    the reader does."""
    scripts = {PAGE: SCRIPTS, app.config.root_doc: [COVER]}
    for name in scripts.get(pagename, []):
        app.add_js_file(f"translator/{name}.js", loading_method="defer")


def on_builder_inited(app) -> None:
    if app.builder.format == "html":
        write(Path(app.outdir) / "_static" / "translator")


def setup(app):
    app.connect("html-page-context", on_page)
    app.connect("builder-inited", on_builder_inited)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(Path(sys.argv[1]))
