"""What long runs left: complete, traceable, and small enough to travel with the package."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import safetensors

from allyouneed import results, weights

ROOT = Path(__file__).parents[1]
RECORDS = sorted(results.FOLDER.glob("*.json"))
MODELS = sorted(weights.FOLDER.glob("*.safetensors"))
CARDS = [file.with_suffix(".json") for file in MODELS]
DATA = {  # a model's licence is that of the data it was trained on
    "language": "CC-BY-SA-3.0",
    "multi30k": "LicenseRef-Flickr30K",
    "tatoeba": "LicenseRef-CC-BY-2.0-FR",
    "translator": "LicenseRef-CC-BY-2.0-FR",
}
sys.path.insert(0, str(ROOT / "experiments"))
import record as recording  # noqa: E402
from record import without_places  # noqa: E402


@pytest.mark.parametrize("file", RECORDS, ids=lambda file: file.stem)
def test_record_says_where_it_comes_from(file):
    record = results.load(file.stem)
    assert set(record) == {"command", "machine", "versions", "date", "commit", "data"}
    script = re.match(r"python (experiments/\w+\.py|benchmarks/\w+\.py)", record["command"])
    assert script and (ROOT / script[1]).exists(), record["command"]
    assert record["machine"]["processor"] and record["machine"]["cores"]
    assert {"python", "torch", "numpy"} <= set(record["versions"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", record["date"])
    assert re.match(r"[0-9a-f]{7,}", record["commit"])
    assert record["data"]
    assert file.stat().st_size < 300_000


def test_unknown_record_names_those_that_exist():
    with pytest.raises(FileNotFoundError, match=f"expected one of .*{RECORDS[0].stem}.*got 'tea'"):
        results.load("tea")


# True as long as nothing has been measured on a GPU; `make gpu` leaves records that make them false
NO_GPU = [
    ("book/intro.md", "We had none: what the book says of a GPU's speed is computed or quoted"),
    ("benchmarks/README.md", "Not measured, because no GPU was at hand"),
    ("notebooks/19_scaling.ipynb", "We had no GPU."),
    ("notebooks/19_scaling.ipynb", "So ten microseconds remain an assumption"),
    ("notebooks/19_scaling.ipynb", "No GPU has seen this code."),
]


def outdated(folder: Path) -> list[tuple[str, str]]:
    """The sentences that say that there was no GPU, if one has left a record."""
    said = [(file, words) for file, words in NO_GPU if words in (ROOT / file).read_text("utf-8")]
    return said if list(folder.glob("gpu_*.json")) else []


def test_what_is_said_of_a_gpu_is_true(tmp_path):
    assert not outdated(results.FOLDER), "measured on a GPU: say what it gave"
    if not list(results.FOLDER.glob("gpu_*.json")):
        (tmp_path / "gpu_training.json").touch()
        assert outdated(tmp_path) == NO_GPU  # every one is looked for as it stands


def texts(value: object) -> Iterator[str]:
    """Every text that stands anywhere in a record or a card."""
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts(one)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("file", [*RECORDS, *CARDS], ids=lambda file: file.stem)
def test_no_path_of_one_machine(file):
    found = list(texts(json.loads(file.read_text(encoding="utf-8"))))
    assert any("python " in text for text in found)
    assert found == [without_places(text) for text in found]


def test_places_of_one_machine_are_taken_out():
    typed = "python x.py ../C --out=/tmp/a/FR --log ~/b recipes/base.toml C:\\runs\\D 1/2"
    kept = "python x.py runs/C --out=runs/FR --log runs/b recipes/base.toml runs/D 1/2"
    assert without_places(typed) == kept


def test_a_command_can_be_typed_again(tmp_path, monkeypatch):
    """Words with spaces in them, too."""
    monkeypatch.setattr(recording, "FOLDER", tmp_path)
    script = ROOT / "experiments" / "reach.py"
    monkeypatch.setattr(sys, "argv", [str(script), "1", "301, 4 layers", "--out", "/tmp/a/b"])
    file = recording.record("reach", {"patterns": {}})
    command = json.loads(file.read_text(encoding="utf-8"))["command"]
    words = ["python", "experiments/reach.py", "1", "301, 4 layers", "--out", "runs/b"]
    assert shlex.split(command) == words


@pytest.mark.parametrize("file", MODELS, ids=lambda file: file.stem)
def test_model_is_small_and_has_a_card(file):
    assert file.stat().st_size <= 16e6
    text = file.with_suffix(".json").read_text(encoding="utf-8")
    scores = ("nats per token",) if file.stem.startswith("language") else ("bleu", "signature")
    for word in ("experiments/", *scores):
        assert word in text, f"the card of {file.stem} does not say: {word}"


@pytest.mark.parametrize("file", MODELS, ids=lambda file: file.stem)
def test_card_in_the_file_is_the_one_beside_it(file):
    with safetensors.safe_open(str(file), "pt") as model:
        inside = json.loads((model.metadata() or {}).get("card", "{}"))
    assert inside or file.stem.startswith("translator")  # of before cards were kept in files
    assert inside.items() <= json.loads(file.with_suffix(".json").read_text("utf-8")).items()


@pytest.mark.parametrize("file", MODELS, ids=lambda file: file.stem)
def test_model_has_the_licence_of_its_data(file):
    card = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    assert card["license"] == DATA[file.stem.split("-")[0]]
    assert file.stem in (ROOT / "LICENSES" / f"{card['license']}.txt").read_text(encoding="utf-8")


def sentences(file: Path) -> list[str]:
    data = results.load(file.stem)["data"]
    return [text for text in texts(data) if re.fullmatch(r"[A-ZÀ-Ý][^`:;/]{8,}[.!?]", text)]


def test_records_with_sentences_of_the_data_have_its_licence():
    """What our own remarks are, there is little of."""
    found = {file.stem for file in RECORDS if len(sentences(file)) > 9}
    assert {"multi30k", "tatoeba"} <= found
    for name in found:
        licence = (ROOT / "LICENSES" / f"{DATA[name]}.txt").read_text(encoding="utf-8")
        assert f"results/{name}.json" in licence


def test_metadata_name_every_licence():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == " AND ".join(["MIT", *sorted(set(DATA.values()))])
    files = {file.stem for file in (ROOT / "LICENSES").iterdir()}
    assert files == set(DATA.values())


def test_unknown_weights_name_those_that_exist():
    with pytest.raises(FileNotFoundError, match=f"expected one of .*{MODELS[0].name}.*got 'tea'"):
        weights.path("tea")


def test_nothing_is_pickled():
    assert not [p for p in weights.FOLDER.iterdir() if p.suffix in {".pt", ".pth", ".pkl", ".ckpt"}]
