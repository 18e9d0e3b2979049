"""What long runs left: complete, traceable, and small enough to travel with the package."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from allyouneed import results, weights

ROOT = Path(__file__).parents[1]
RECORDS = sorted(results.FOLDER.glob("*.json"))
MODELS = sorted(weights.FOLDER.glob("*.safetensors"))


@pytest.mark.parametrize("file", RECORDS, ids=lambda file: file.stem)
def test_record_says_where_it_comes_from(file):
    record = results.load(file.stem)
    assert set(record) == {"command", "machine", "versions", "date", "commit", "data"}
    script = re.match(r"python (experiments/\w+\.py|benchmarks/\w+\.py)", record["command"])
    assert script and (ROOT / script[1]).exists(), record["command"]
    assert not re.search(r"(^|[\s=])(/|~|[A-Z]:)", record["command"]), "a path of one machine"
    assert record["machine"]["processor"] and record["machine"]["cores"]
    assert {"python", "torch", "numpy"} <= set(record["versions"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", record["date"])
    assert re.match(r"[0-9a-f]{7,}", record["commit"])
    assert record["data"]
    assert file.stat().st_size < 300_000


def test_unknown_record_names_those_that_exist():
    with pytest.raises(FileNotFoundError, match=f"expected one of .*{RECORDS[0].stem}.*got 'tea'"):
        results.load("tea")


@pytest.mark.parametrize("file", MODELS, ids=lambda file: file.stem)
def test_model_is_small_and_has_a_card(file):
    assert file.stat().st_size <= 16e6
    card = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    text = json.dumps(card)
    scores = ("nats per token",) if file.stem.startswith("language") else ("bleu", "signature")
    for word in ("CC BY", "experiments/", *scores):
        assert word in text, f"the card of {file.stem} does not say: {word}"


def test_unknown_weights_name_those_that_exist():
    with pytest.raises(FileNotFoundError, match=f"expected one of .*{MODELS[0].name}.*got 'tea'"):
        weights.path("tea")


def test_nothing_is_pickled():
    assert not [p for p in weights.FOLDER.iterdir() if p.suffix in {".pt", ".pth", ".pkl", ".ckpt"}]
