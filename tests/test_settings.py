"""Settings: what is said of each in its one place holds everywhere."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from allyouneed import command
from allyouneed.settings import (
    ABOUT,
    COUNT,
    PRESETS,
    SHARE,
    Number,
    Settings,
    change_settings,
    preset_for,
    read_settings,
    recorded_settings,
    setting,
    unset_alternatives,
    values_in_presets,
)


def test_every_setting_has_a_help_and_is_an_option(capsys):
    with pytest.raises(SystemExit):
        command.main(["train", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for name, about in ABOUT.items():
        assert about["help"] and f"--{name.replace('_', '-')} " in shown.replace(",", " ")
        assert about["help"] in shown and f" {about['group']}: " in shown
        assert values_in_presets(name) in shown


def test_usual_values_in_words():
    assert values_in_presets("smoothing") == "0.1"
    assert values_in_presets("heads") == "tiny, multi30k, tatoeba: 4; base: 8; big: 16"
    assert values_in_presets("threads") == "all" and values_in_presets("data") == ""


def test_a_usual_value_out_of_its_own_bounds():
    @dataclass(frozen=True)
    class Wrong(Settings):
        dropout: float = setting(1.5, SHARE, "model", "probability of dropout")

    with pytest.raises(ValueError, match="dropout: expected a number of .* below 1, got 1.5"):
        Wrong()


@pytest.mark.parametrize(
    "name, value, named",
    [
        ("heads", 0, "heads: expected a whole number of at least 1, got 0"),
        (
            "layers",
            10**9,
            "expected a whole number of at least 1 and below 1,000, got 1000000000",
        ),
        ("vocabulary", 10**9, "at least 1 and below 1,000,000, got 1000000000"),
        ("steps", 0, "steps: expected a whole number of at least 1, got 0"),
        ("heads", True, "heads: expected a whole number"),
        ("steps", 10**9, "steps: .* and below 1,000,000,000, got"),
        ("max_norm", 0.0, "max_norm: expected a number above 0, got 0.0"),
        ("dropout", float("nan"), "dropout: expected a number of at least 0 and below 1"),
        ("precision", "fp8", "precision: expected one of auto, bf16, fp16, fp32, got 'fp8'"),
        ("data", "", "data: expected a name, got ''"),
    ],
)
def test_values_that_do_not_fit(name, value, named):
    with pytest.raises(ValueError, match=named):
        Settings(**{name: value})


def test_values_of_another_kind():
    for name, value, named in (
        ("heads", 2.0, "expected a whole number of at least 1, got 2.0"),
        ("heads", None, "expected a whole number of at least 1, got None"),
        ("compile", 1, "expected true or false, got 1"),
        ("data", 3, "expected a name in quotes, got 3"),
    ):
        with pytest.raises(ValueError, match=named):
            ABOUT[name]["may"].check(value)


def test_numbers_and_their_bounds():
    assert Number(float, above=0, most=1).read("1") == 1.0
    with pytest.raises(ValueError, match="above 0 and at most 1, got 1.1"):
        Number(float, above=0, most=1).read("1.1")
    assert COUNT.read("3") == 3 and SHARE.check(0) == 0.0
    with pytest.raises(ValueError, match="expected a whole number"):
        COUNT.check("3")


def test_one_of_two_takes_the_place_of_the_other(tmp_path):
    assert unset_alternatives({"steps": 3}) == {"steps": 3, "epochs": None}
    assert unset_alternatives({"accumulate": 3, "update_batches": 6}) == {
        "accumulate": 3,
        "update_batches": 6,
    }
    (tmp_path / "x.toml").write_text("epochs = 3\nupdate-batches = 4\n", "utf-8")
    chosen = read_settings(tmp_path / "x.toml") | unset_alternatives({"steps": 5, "accumulate": 2})
    settings = replace(PRESETS["tiny"], **chosen)
    assert (settings.steps, settings.epochs) == (5, None)
    assert (settings.accumulate, settings.update_batches) == (2, None)


def test_what_a_run_records_comes_back():
    settings = replace(PRESETS["big"], data="x", update_batches=8, accumulate=4, threads=3)
    record = settings.record(2)
    assert record["processes"] == 2 and "threads" not in record
    assert recorded_settings(record) == replace(settings, threads=None)
    assert recorded_settings({"accumulate": 3, "processes": 2}).update_batches == 6
    with pytest.raises(ValueError, match="colour: expected a setting of this version"):
        recorded_settings(record | {"colour": "red"})


def test_what_may_change_when_a_run_goes_on():
    old = replace(PRESETS["tiny"], data="x")
    assert change_settings(old, {"data": "y", "average": 3, "dropout": 0.1}).data == "y"
    with pytest.raises(ValueError, match="dropout: this run began with 0.1, got 0.2"):
        change_settings(old, {"dropout": 0.2})


def test_presets_for_data(tmp_path):
    assert preset_for("tatoeba-en-fr") == "tatoeba" and preset_for("multi30k-en-de") == "multi30k"
    assert preset_for(str(tmp_path)) == "base" and preset_for("x.tsv") == preset_for(None)
    assert preset_for(None) == "multi30k"
    assert all(preset.steps or preset.epochs for preset in PRESETS.values())
