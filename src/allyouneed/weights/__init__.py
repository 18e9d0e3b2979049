"""Small trained models that the chapters load, each beside its card and its tokenizer."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def path(filename: str) -> Path:
    """Return where a shipped file lies. Raises FileNotFoundError, naming the files that exist."""
    file = FOLDER / filename
    if not file.is_file():
        known = ", ".join(
            sorted(p.name for p in FOLDER.iterdir() if p.suffix in {".safetensors", ".json"})
        )
        raise FileNotFoundError(f"filename: expected one of {known}; got {filename!r}")
    return file
