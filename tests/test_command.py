"""The command line: runs that are killed, stopped, damaged; and odd input to every command."""

from __future__ import annotations

import errno
import filecmp
import functools
import io
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import killed
import pytest
import torch

from allyouneed import command, runs, training
from allyouneed.checkpoints import CHECKPOINT_FORMAT, checkpoint_files, load_checkpoint
from allyouneed.data import load_pairs
from allyouneed.decoding import translate
from allyouneed.pairs import read_pairs
from allyouneed.saving import load_model, pretrained, read_tensors, save_model, write_tensors
from allyouneed.settings import PRESETS, Settings, read_settings
from allyouneed.transformer import Transformer

ROOT = Path(__file__).parents[1]
WORDS = "der ein Mann Frau Hund geht läuft sieht groß klein und im auf Haus Ball".split()
SMALL = ["--d-model", "8", "--d-ff", "8", "--heads", "2", "--layers", "1", "--vocabulary", "60",
         "--batch-tokens", "160", "--warmup", "10", "--average", "3", "--precision", "fp32",
         "--dropout", "0.2", "--threads", "1"]  # fmt: skip
RUN = [*SMALL, "--steps", "36", "--validate-every", "6", "--cooldown", "0.5",
       "--bpe-dropout", "0.1"]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def ctrl_c_is_heard():
    """Also where pytest was started with `&` by a script, which ignores it for the command."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module", autouse=True)
def threads() -> Iterator[None]:
    """What a sum comes to, to the last bit, depends on how many threads add it up: always one."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", autouse=True)
def an_active_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "orig_argv", ["python", "-m", "allyouneed"])
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Sentences and the same words backwards."""
    draw = random.Random(0)
    sentences = {" ".join(draw.choices(WORDS, k=draw.randint(1, 6))) for _ in range(150)}
    file = tmp_path_factory.mktemp("data") / "pairs.tsv"
    lines = [f"{s}\t{' '.join(reversed(s.split()))}\n" for s in sorted(sentences)]
    file.write_text("".join(lines), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory) -> Path:
    """A run that nothing disturbed."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert command.main(["train", "--data", str(data), "--out", str(out), *RUN]) == 0
    return out


@pytest.fixture
def copy(whole, tmp_path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def said(capsys, *words: object) -> tuple[int, str, str]:
    """The exit code of a command, and what it wrote to standard output and to standard error."""
    capsys.readouterr()
    try:
        code = command.main(list(map(str, words)))
    except SystemExit as end:  # argparse
        code = end.code
    return code, *capsys.readouterr()


def refused(capsys, *words: object) -> str:
    """The one line of an error, and nothing else but what was being done till then."""
    code, _, error = said(capsys, *words)
    lines = [line.strip() for line in error.splitlines()]  # the bar's among them
    lines = [x for x in lines if x and "step/s" not in x and not x.startswith("usage:")]
    lines = [x for x in lines if not re.fullmatch("(Reading|Learning|Cutting) .+ [.]{3}", x)]
    assert code == 2 and len(lines) == 1 and "error: " in lines[0], error
    return lines[0]


def assert_same_run(one: Path, other: Path) -> None:
    """The same to the last bit: model kept, weights, Adam's state, losses, validations."""
    assert filecmp.cmp(one / "model.safetensors", other / "model.safetensors", shallow=False)
    a, b = (load_checkpoint(checkpoint_files(run / "checkpoints")[-1]) for run in (one, other))
    assert a.record == b.record
    assert all(torch.equal(a.model[name], b.model[name]) for name in a.model)
    for i, state in a.optimizer["state"].items():
        assert all(torch.equal(x, b.optimizer["state"][i][name]) for name, x in state.items())
    first, second = (json.loads((run / "history.json").read_text("utf-8")) for run in (one, other))
    assert first["losses"] == second["losses"]
    for row in first["rows"] + second["rows"]:
        del row["minutes"]
    assert first["rows"] == second["rows"]


# A run, and what stops it


def test_what_a_run_leaves(whole):
    assert {"model.safetensors", "tokenizer.json", "history.json", "run.json"} <= set(
        os.listdir(whole)
    )
    assert "<svg" in (whole / "curves.svg").read_text("utf-8")
    history = json.loads((whole / "history.json").read_text("utf-8"))
    assert [row["step"] for row in history["rows"]] == [6, 12, 18, 24, 30, 36]
    assert len(history["losses"]) == 36 and history["losses"][-1] < history["losses"][0]
    run = json.loads((whole / "run.json").read_text("utf-8"), parse_constant=pytest.fail)
    assert run["settings"]["d_model"] == 8 and run["data"]["pairs"] > 100
    assert {"command", "machine", "versions", "date", "commit"} == set(run["starts"][0])
    assert run["starts"][0]["command"].startswith("python -m allyouneed train --data ")
    steps = [f.stem for f in checkpoint_files(whole / "checkpoints")]
    assert steps == ["step-00000018", "step-00000024", "step-00000030", "step-00000036"]
    model, tokenizer = load_model(whole / "model.safetensors")
    assert len(tokenizer) == model.config.vocab_size


def test_cooldown_is_the_papers_schedule_to_its_half_and_then_a_line_to_zero():
    some = Settings(d_model=8, warmup=10, learning_rate=2e-3)
    rate, plain = (runs.schedule_of(replace(some, cooldown=c), 36) for c in (0.5, 0.0))
    assert rate(10) == pytest.approx(2e-3) == plain(10)
    assert all(rate(step) == plain(step) for step in range(1, 19))
    share = [rate(step) / plain(step) for step in range(19, 37)]
    assert share == pytest.approx([1 - i / 19 for i in range(1, 19)])


def steps_of(run: Path) -> list[Path]:
    return checkpoint_files(run / "checkpoints", "step")


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_and_resumed_is_the_same_bit_for_bit(whole, data, tmp_path, seed):
    """Killed again and again, at random moments and in the middle of writing files.

    No moment is later than the next checkpoint, or a fast machine would be at the end before it.
    """
    draw, out, times = random.Random(seed), tmp_path / "run", 0
    words = ["train", "--data", str(data), "--out", str(out), "--resume", *RUN]
    for i in range(6):
        if i % 2:  # in the middle of writing some file: before it is safe, or before it is moved
            dies = draw.choice(["fsync", "replace"]), draw.randint(0, 9)
            process = killed.start(command.main, words, dies=dies)
        else:
            end, known = time.monotonic() + draw.uniform(0.05, 0.6), steps_of(out)
            process = killed.start(command.main, words)
            while time.monotonic() < end and steps_of(out) == known:
                time.sleep(0.01)
            process.kill()
        times += killed.was_killed(process)
    assert times >= 3
    assert command.main(words) == 0
    assert_same_run(out, whole)
    assert not list(out.rglob("*.part"))


def test_a_real_process_is_killed_and_resumed(whole, data, tmp_path):
    out = tmp_path / "run"
    words = [sys.executable, "-m", "allyouneed", "train", "--data", str(data), "--out", str(out)]
    process = subprocess.Popen([*words, *RUN], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not steps_of(out) and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert command.main(["train", "--resume", "--out", str(out)]) == 0
    assert_same_run(out, whole)


def test_float16_stopped_and_resumed_is_the_same_bit_for_bit(data, tmp_path):
    """The loss scale and what was skipped are part of the checkpoint."""
    ends = {}
    for name, stops in {"whole": [12], "in parts": [5, 9, 12]}.items():
        out = tmp_path / name
        for steps in stops:
            words = ["train", "--resume", "--data", str(data), "--out", str(out), *SMALL]
            words += ["--precision", "fp16", "--validate-every", "4", "--cooldown", "0"]
            words += ["--steps", str(steps)]
            assert command.main(words) == 0
        ends[name] = load_checkpoint(checkpoint_files(out / "checkpoints")[-1])
    whole, parts = ends.values()
    assert whole.record == parts.record and whole.record.good == 12 and whole.record.scale == 2**16
    assert all(torch.equal(x, parts.model[name]) for name, x in whole.model.items())
    assert whole.run["settings"]["precision"] == "fp16"


def train_from_a_large_scale(words: list[str]) -> None:
    """The command; a run that begins has a loss scale at which gradients overflow."""
    runs.Record = functools.partial(training.Record, scale=2.0**30)
    command.main(words)


def test_float16_killed_and_resumed_is_the_same_bit_for_bit(data, tmp_path):
    """Also while the loss scale is on its way down."""
    common = ["train", "--data", str(data), *SMALL, "--precision", "fp16", "--steps", "18",
              "--validate-every", "3"]  # fmt: skip
    assert not killed.was_killed(
        killed.start(train_from_a_large_scale, [*common, "--out", str(tmp_path / "whole")])
    )
    words, scales = [*common, "--resume", "--out", str(tmp_path / "run")], [2.0**30]
    files = tmp_path / "run" / "checkpoints"
    for _ in range(3):
        dies = ("fsync", 9)  # in the middle of writing files
        assert killed.was_killed(killed.start(train_from_a_large_scale, words, dies=dies))
        scales.append(load_checkpoint(checkpoint_files(files)[-1]).record.scale)
    assert not killed.was_killed(killed.start(train_from_a_large_scale, words))
    end = load_checkpoint(checkpoint_files(files)[-1]).record
    scales.append(end.scale)
    assert scales == sorted(set(scales), reverse=True)  # each start found another, and left another
    assert end.good > 0  # with the last of them it learned
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_float16_goes_on_where_gradients_overflow(data, tmp_path, monkeypatch):
    """From a loss scale that is far too large, as after it was doubled."""
    monkeypatch.setattr(runs, "Record", functools.partial(runs.Record, scale=2.0**30))
    words = ["train", "--data", str(data), "--out", str(tmp_path), *SMALL, "--precision", "fp16"]
    assert command.main([*words, "--steps", "24", "--validate-every", "12"]) == 0
    record = load_checkpoint(checkpoint_files(tmp_path / "checkpoints")[-1]).record
    assert 3 < record.skipped < 24 and 0 < record.good <= 24 - record.skipped
    assert record.scale == 2.0 ** (30 - record.skipped)


def test_asked_to_stop(whole, data, tmp_path, capsys, monkeypatch):
    """The step is finished, a checkpoint written, and the way to go on is told."""
    real, asked = runs.train, {15: signal.SIGINT, 20: signal.SIGTERM}

    def interrupted(*args, **kwargs):
        for record in real(*args, **kwargs):
            if record.step in asked:
                signal.raise_signal(asked[record.step])
            yield record

    monkeypatch.setattr(runs, "train", interrupted)
    out = tmp_path / "run"
    for step in asked:
        words = ["train", "--data", data, "--out", out, "--resume", *RUN]
        code, text, _ = said(capsys, *words)
        assert code == 130 and f"train --resume --out {out}" in text
        assert f"after step {step}" in text
        assert checkpoint_files(out / "checkpoints")[-1].stem == f"pause-{step:08}"
    assert said(capsys, "train", "--resume", "--out", out)[0] == 0
    assert_same_run(out, whole)


def test_every_ten_minutes_a_checkpoint(data, tmp_path, monkeypatch):
    """And not, from the tenth minute on, after every update."""
    now, saves, train, save = 0.0, [], runs.train, runs.Run.save

    def slow(*args, **kwargs):
        nonlocal now
        for record in train(*args, **kwargs):
            now += 100
            yield record

    def noted(run: runs.Run, kind: str) -> None:
        saves.append((kind, run.record.step))
        save(run, kind)

    monkeypatch.setattr(runs, "train", slow)
    monkeypatch.setattr(runs.Run, "save", noted)
    monkeypatch.setattr(runs, "time", SimpleNamespace(monotonic=lambda: now))
    words = ["train", "--data", str(data), "--out", str(tmp_path / "run"), *SMALL]
    assert command.main([*words, "--steps", "20", "--validate-every", "20"]) == 0
    assert saves == [("pause", 0), ("pause", 7), ("pause", 14), ("step", 20)]


def test_stopped_while_it_validates(whole, data, tmp_path, capsys, monkeypatch):
    def interrupted(*args, **kwargs):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(runs, "translate", interrupted)
    out = tmp_path / "run"
    assert said(capsys, "train", "--data", data, "--out", out, *RUN)[0] == 130
    monkeypatch.undo()
    assert said(capsys, "train", "--resume", "--out", out)[0] == 0
    assert_same_run(out, whole)


def test_validation_plans_attention_for_no_shape(data, tmp_path, capsys, monkeypatch):
    """What `any_shape` is for: each word that is written is a new shape."""
    flags, translate, asked = torch.backends.cuda, runs.translate, []

    def watched(*args, **kwargs):
        asked.append(flags.cudnn_sdp_enabled())
        return translate(*args, **kwargs)

    monkeypatch.setattr(runs, "translate", watched)
    words = ["train", "--data", data, "--out", tmp_path / "run", *SMALL, "--steps", "1"]
    assert said(capsys, *words)[0] == 0
    assert asked == [False] and flags.cudnn_sdp_enabled()


def steps(folder: Path) -> list[int]:
    return [
        int(file.stem.split("-")[1]) for file in checkpoint_files(folder / "checkpoints", "step")
    ]


def test_only_the_checkpoints_of_an_average_are_written(data, tmp_path, capsys):
    """Three of them, two steps apart, before each validation, on resuming too."""
    words = ["train", "--data", data, "--out", tmp_path / "once", *RUN, "--keep", "99"]
    words += ["--validate-every", "18", "--average-every", "2", "--steps"]
    assert said(capsys, *words, "33")[0] == 0
    assert steps(tmp_path / "once") == [14, 16, 18, 29, 31, 33]
    rows = json.loads((tmp_path / "once" / "history.json").read_text("utf-8"))["rows"]
    assert [row["step"] for row in rows] == [18, 33]
    shutil.copytree(tmp_path / "once", tmp_path / "twice")
    for file in checkpoint_files(tmp_path / "twice" / "checkpoints")[-2:]:
        file.unlink()  # as if it had been killed after step 29, which is averaged, not validated
    assert said(capsys, "train", "--resume", "--out", tmp_path / "twice")[0] == 0
    assert_same_run(tmp_path / "twice", tmp_path / "once")


def test_the_newest_checkpoint_is_damaged(whole, copy, capsys):
    newest = checkpoint_files(copy / "checkpoints")[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    code, text, _ = said(capsys, "train", "--resume", "--out", copy)
    assert code == 0 and f"Passed over: {newest}" in text and "step-00000030" in text
    assert_same_run(copy, whole)


def test_all_checkpoints_are_damaged(copy, capsys):
    for file in checkpoint_files(copy / "checkpoints"):
        file.write_bytes(b"")
    before = hash((copy / "model.safetensors").read_bytes())
    assert "expected a whole checkpoint" in refused(capsys, "train", "--resume", "--out", copy)
    assert hash((copy / "model.safetensors").read_bytes()) == before


def test_a_full_disk(whole, data, tmp_path, capsys, monkeypatch):
    """At once, and twice again on the way."""
    real, out = os.fsync, tmp_path / "run"
    words = ["train", "--data", data, "--out", out, "--resume", *RUN]
    for calls in (0, 5, 9):
        left = iter(range(calls))

        def full(number, left=left):
            if next(left, None) is None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(number)

        monkeypatch.setattr(os, "fsync", full)
        assert "the disk is full" in refused(capsys, *words)
    monkeypatch.undo()
    assert said(capsys, *words)[0] == 0
    assert_same_run(out, whole)


def test_a_loss_that_is_no_number(data, tmp_path, capsys):
    out = tmp_path / "run"
    words = ["train", "--data", data, "--out", out, *RUN, "--learning-rate", "1e30"]
    assert "expected a finite number" in refused(capsys, *words)
    assert load_checkpoint(checkpoint_files(out / "checkpoints")[-1])


def test_other_settings_on_resuming(copy, data, tmp_path, capsys):
    before = {f: hash(f.read_bytes()) for f in copy.rglob("*.safetensors")}
    resume = ["train", "--resume", "--out", copy]
    assert "--dropout: this run began with 0.2" in refused(capsys, *resume, "--dropout", "0.5")
    assert "this run began with" in refused(capsys, *resume, "--preset", "tiny")
    other = tmp_path / "other.tsv"
    other.write_text("".join(f"a{i}\tb\n" for i in range(60)), "utf-8")
    assert "expected the pairs this run began with" in refused(capsys, *resume, "--data", other)
    text = data.read_text(encoding="utf-8")
    try:
        data.write_text(text + "Mann\tMann\n", encoding="utf-8")
        assert "expected the pairs this run began with" in refused(capsys, *resume)
    finally:
        data.write_text(text, encoding="utf-8")
    (copy / "tokenizer.json").write_text("{}", "utf-8")
    assert "tokenizer.json: not the tokenizer" in refused(capsys, *resume)
    assert {f: hash(f.read_bytes()) for f in copy.rglob("*.safetensors")} == before
    (copy / "tokenizer.json").unlink()
    moved = Path(shutil.copy(data, tmp_path / "moved.tsv"))
    words = ["--steps", 38, "--data", moved, "--precision", "auto"]  # longer and elsewhere is fine
    assert said(capsys, *resume, *words)[0] == 0
    run = json.loads((copy / "run.json").read_text("utf-8"))
    assert run["data"]["name"] == str(moved) and run["settings"]["precision"] == "fp32"
    assert load_checkpoint(checkpoint_files(copy / "checkpoints")[-1]).record.step == 38


def test_a_precision_is_decided_once(data, tmp_path, monkeypatch):
    """What "auto" was on the machine that began is what the run goes on with."""
    words = ["train", "--data", str(data), "--out", str(tmp_path), *SMALL, "--precision", "auto"]
    written_in, really = [], runs.translate

    def translate(model, *arguments, **options):
        written_in.extend({weight.dtype for weight in model.decoder.parameters()})
        return really(model, *arguments, **options)

    monkeypatch.setattr(runs, "translate", translate)
    for half, steps in ((torch.bfloat16, "2"), (torch.float32, "3")):
        monkeypatch.setattr(training, "half_dtype", lambda device, half=half: half)
        assert command.main([*words, "--resume", "--steps", steps]) == 0
        run = json.loads((tmp_path / "run.json").read_text("utf-8"))
        assert run["settings"]["precision"] == "bf16"
    assert written_in and set(written_in) == {torch.bfloat16}  # what is validated, too


def test_going_on_where_no_run_is(tmp_path, capsys):
    error = refused(capsys, "train", "--resume", "--out", tmp_path / "mistyped" / "run")
    assert "--resume: expected the folder of a run" in error and os.listdir(tmp_path) == []


def test_nothing_is_left_of_a_start_that_failed(data, tmp_path, capsys):
    out = tmp_path / "run"
    assert "--heads" in refused(capsys, "train", "--data", data, "--out", out, *RUN, "--heads", 3)
    assert os.listdir(tmp_path) == []


def test_a_setting_that_an_older_run_had_not(copy, capsys):
    """It is what is usual."""
    for file in checkpoint_files(copy / "checkpoints"):
        metadata, tensors = read_tensors(file, CHECKPOINT_FORMAT)
        run = json.loads(metadata["run"])
        del run["settings"]["average_every"], run["settings"]["max_norm"], metadata["sha256"]
        write_tensors(file, tensors, metadata | {"run": json.dumps(run)})
    assert said(capsys, "train", "--resume", "--out", copy, "--steps", 38)[0] == 0


def test_a_folder_that_holds_a_run(copy, data, capsys):
    assert "holds a run" in refused(capsys, "train", "--data", data, "--out", copy, *RUN)


def test_a_folder_that_holds_something_else(data, tmp_path, capsys):
    film = tmp_path / "film.mp4.part"
    film.write_text("x", "utf-8")
    error = refused(capsys, "train", "--data", data, "--out", tmp_path, *RUN)
    assert "--out: expected a new or empty folder" in error
    assert [file.name for file in tmp_path.iterdir()] == [film.name]
    assert film.read_text("utf-8") == "x"


def test_a_folder_with_the_names_of_a_run(data, tmp_path, capsys):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "history.json").write_text("x", "utf-8")
    error = refused(capsys, "train", "--data", data, "--out", tmp_path, *RUN)
    assert "--out: expected a new or empty folder" in error
    assert (tmp_path / "history.json").read_text("utf-8") == "x"


def test_a_run_that_ends_in_nan(data, tmp_path, capsys):
    """Its weights are finite, and too large for what is computed with them."""
    words = ["--learning-rate", "1e20", "--warmup", "1", "--steps", "1"]
    _, _, error = said(capsys, "train", "--data", data, "--out", tmp_path, *SMALL, *words)
    assert "valid loss: expected a finite number, got nan after step 1" in error
    assert not (tmp_path / "model.safetensors").exists()


def test_a_link_to_nowhere_among_checkpoints(copy, data, capsys):
    (copy / "checkpoints/step-00000099.safetensors").symlink_to("nowhere")
    words = ["train", "--resume", "--data", data, "--out", copy, *RUN]
    code, text, _ = said(capsys, *words)
    assert code == 0 and "Passed over: " in text


def test_both_steps_and_epochs_in_a_file(data, tmp_path, capsys):
    file = tmp_path / "both.toml"
    file.write_text("steps = 1\nepochs = 3\n", "utf-8")
    words = ["train", "--data", data, "--out", tmp_path / "run"]
    assert "expected steps or epochs, got both" in refused(capsys, *words, "--config", file)
    words += ["--config", tmp_path]
    assert re.search("Is a directory|Permission denied", refused(capsys, *words))  # Windows: this


def test_closed_streams(data, tmp_path, capsys, monkeypatch):
    words = ["train", "--data", data, "--out", tmp_path / "run", *SMALL, "--steps", 2]
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stderr", None)
        assert command.main(list(map(str, words))) == 0
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdout", None)
        assert command.main(["translate", "--model", str(tmp_path / "run"), "ein"]) == 2
    assert "standard output: expected an open one" in capsys.readouterr().err


def test_what_takes_a_while_is_said(data, tmp_path, capsys):
    """Before it is done, beside the bars."""
    words = ["train", "--data", data, "--out", tmp_path / "run", *SMALL, "--steps", 1]
    code, out, error = said(capsys, *words)
    assert code == 0 and "Learning" not in out
    begun = re.findall(r"^(\w+) .* \.\.\.$", error, re.MULTILINE)
    assert begun == ["Reading", "Learning", "Cutting"] and error.startswith("Reading")
    assert "validating ..." in error
    code, out, error = said(capsys, "evaluate", "--data", data, "--model", tmp_path / "run")
    assert code == 0 and "sentence/s" not in out and error.startswith("Reading ")
    assert "100%" in error and "sentence/s" in error


def test_translations_do_not_depend_on_the_pieces_of_a_bar():
    """Nor on blank lines among them: they are those of `translate`, in its batches."""
    model, tokenizer = pretrained("multi30k-en-de")
    captions = [source for source, _ in load_pairs("multi30k-en-de", "valid")[:68]]
    texts = [captions[0], "", *captions[1:], ""]
    args = Namespace(beam=2, length_penalty=0.6)
    found = command.translate_texts(model, tokenizer, texts, args, shown=True)
    assert found == translate(model, tokenizer, texts, 2, 0.6, batch=64)
    assert found[1] == found[-1] == "" and len(set(found)) == 69


def test_what_is_in_a_runs_folder_and_is_not_its_own_stays(copy, capsys):
    film, left = copy / "film.mp4.part", copy / "run.json.part"
    film.write_text("x", "utf-8")
    left.write_text("x", "utf-8")
    assert said(capsys, "train", "--resume", "--out", copy)[0] == 0
    assert film.exists() and not left.exists()


def test_fewer_steps_than_are_done(copy, capsys):
    error = refused(capsys, "train", "--resume", "--out", copy, "--steps", 5)
    assert "--steps: expected more than the" in error and "got 5" in error
    error = refused(capsys, "train", "--resume", "--out", copy, "--epochs", 1)
    assert "--epochs: expected more than the" in error


def test_a_reader_who_has_had_enough(data, tmp_path):
    """Of `train ... | head -1`: the run is kept, and says so."""
    words = ["train", "--data", str(data), "--out", str(tmp_path / "run"), *RUN]
    words += ["--steps", "36000"]  # far from its end, whenever this process is next awake
    command_line = [sys.executable, "-m", "allyouneed", *words]
    process = subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for line in process.stdout:
        if b"pairs" in line:
            break
    process.stdout.close()
    error = process.stderr.read().decode()
    assert process.wait() == 2 and "standard output was closed" in error and "--resume" in error
    assert "Traceback" not in error and checkpoint_files(tmp_path / "run" / "checkpoints")


def test_a_line_that_is_no_text_is_named(tmp_path, capsys):
    (tmp_path / "x.tsv").write_bytes(b"\xef\xbb\xbfa\tb\r\nc\td\xe9\n")
    words = ["train", "--data", tmp_path / "x.tsv", "--out", tmp_path / "run", *RUN]
    assert "x.tsv, line 2: expected text in UTF-8" in refused(capsys, *words)


@pytest.mark.parametrize(
    "text, named",
    [
        ("", "expected at least one pair"),
        ("\n \n", "expected at least one pair"),
        ("ein Mann\n", "line 1: expected a sentence, a tab and its translation, got 'ein Mann'"),
        ("a\tb\n\tb\n", "line 2: expected"),
        (
            f"a\tb\na {'b' * 10_001}\tc\n",
            "line 2: expected words of at most 10,000 letters, got one",
        ),
    ],
)
def test_pairs_that_are_none(tmp_path, capsys, text, named):
    (tmp_path / "x.tsv").write_text(text, "utf-8")
    words = ["train", "--data", tmp_path / "x.tsv", "--out", tmp_path / "run", *RUN]
    assert named in refused(capsys, *words)


def test_bad_train_options(tmp_path, data, capsys):
    def error(*words: object) -> str:
        return refused(capsys, "train", "--out", tmp_path / "run", *words)

    assert "--data: expected" in error()
    assert "--data: expected" in error("--data", "nowhere.tsv")
    (tmp_path / "x").write_bytes(b"\xff\xfe\0\t\0")
    assert "expected text in UTF-8" in error("--data", tmp_path / "x")
    assert "--vocabulary: expected at least" in error("--data", data, "--vocabulary", 5)
    assert "--heads: expected a divisor of d-model" in error("--data", data, *RUN, "--heads", 3)
    assert "--d-model: expected an even" in error("--data", data, *RUN, "--d-model", 7)
    assert "more than 2 tokens" in error("--data", data, *RUN, "--batch-tokens", 2)
    for option, value in (("--dropout", "1"), ("--epochs", "0"), ("--steps", "x"), ("--seed", "-1"),
                          ("--learning-rate", "nan"), ("--learning-rate", "0"),
                          ("--learning-rate", "inf"), ("--max-norm", "0"), ("--preset", "huge"),
                          ("--vocabulary", "9" * 23), ("--seed", "9" * 20), ("--threads", "99999"),
                          ("--hands", "3")):  # fmt: skip
        assert option in error("--data", data, option, value)
    assert "got both" in error("--data", data, "--steps", 3, "--epochs", 2)


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--data", "", "--out", "x"],
        ["train", "--resume", "--out", ""],
        ["evaluate", "--data", "", "--model", "."],
        ["evaluate", "--data", "x.tsv", "--model", ""],
        ["evaluate", "--data", "x.tsv", "--model", ".", "--split", ""],
        ["translate", "Hund", "--model", ""],
        ["prepare", "--data", "wmt14-en-de", "--out", ""],
    ],
)
def test_an_empty_name_is_not_the_current_folder(words, copy, capsys, monkeypatch):
    monkeypatch.chdir(copy)  # which would do as a folder of a run
    option = words[words.index("") - 1]
    assert refused(capsys, *words) == f"error: {option}: expected a name or a path, got ''"


def test_no_pairs_are_read_from_the_current_folder():
    with pytest.raises(ValueError, match="data: expected .* got ''"):
        read_pairs("", "valid")


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or not os.geteuid(), reason="root may write anywhere"
)
def test_a_folder_that_cannot_be_written(tmp_path, data, capsys):
    tmp_path.chmod(0o500)
    assert "Permission denied" in refused(capsys, "train", "--data", data, "--out", tmp_path / "r")


def test_a_folder_that_is_a_file(tmp_path, data, capsys):
    (tmp_path / "file").touch()
    error = refused(capsys, "train", "--data", data, "--out", tmp_path / "file" / "run", *RUN)
    assert "file" in error


def test_pairs_are_read_as_sentences_are_translated(tmp_path):
    """Spaces of any kind, soft hyphens and the like are the same to both."""
    file = tmp_path / "x.tsv"
    file.write_text("ein\u00a0Hund \tun\u00ad chien\u200b\n", encoding="utf-8")
    assert read_pairs(str(file), "all") == [("ein Hund", "un chien")]


def test_one_pair_windows_lines_and_a_long_one(tmp_path, capsys):
    file, out = tmp_path / "x.tsv", tmp_path / "run"
    long = " ".join(["Hund"] * 300)
    file.write_bytes(f"\ufeffGröße 😀\tsize 😀\tnote\r\n\r\n{long}\t{long}\r\n".encode())
    words = ["train", "--data", file, "--out", out, *SMALL, "--steps", 2]
    code, text, _ = said(capsys, *words)
    assert code == 0 and "too small to hold pairs out" in text and "1 of 2 training pairs" in text
    tokenizer = load_model(out / "model.safetensors")[1]
    assert tokenizer.decode(tokenizer.encode("Größe 😀")) == "Größe 😀"


def test_a_lost_process_is_told_in_one_line(monkeypatch, capsys):
    """However gloo and NCCL spell it; alone, such an error is a fault of the program's own."""
    for words in (
        "Connection closed by peer",
        "recv: Broken pipe",
        "Timed out waiting",
        "TIMED OUT",
    ):
        error = RuntimeError(f"[1] {words}\nmore")
        monkeypatch.setenv("WORLD_SIZE", "2")
        assert command.in_one_line(error, Namespace()).startswith(
            f"another process was lost ([1] {words})"
        )
        monkeypatch.delenv("WORLD_SIZE")
        assert command.in_one_line(error, Namespace()) is None


def test_errors_are_in_words_of_the_command():
    """The package names its arguments, the command its options; paths and quotations stay."""
    args = command.parser().parse_args(["train", "--out", "x"])
    for said, told in (
        (
            "n_heads: expected a divisor of d_model = 8",
            "--heads: expected a divisor of d-model = 8",
        ),
        ("folder: expected one, got x", "--out: expected one, got x"),
        ("update_batches: expected 4", "--update-batches: expected 4"),
        ("a longer warmup or max_norm may help.", "a longer warmup or max-norm may help."),
        ("a/batch_tokens/d_model.tsv: expected", "a/batch_tokens/d_model.tsv: expected"),
        ("expected no 'd_model'", "expected no 'd_model'"),
        ("valid loss: expected a finite number", "valid loss: expected a finite number"),
        (
            "go on with `prepare_shards('wmt14-en-de', 'd_model')`",
            "go on with `python -m allyouneed prepare --data wmt14-en-de --out 'd_model'`",
        ),
        ("`prepare_shards` with the same set", "`prepare` with the same set"),
    ):
        assert command.in_options(said, args) == told
    args = command.parser().parse_args(["translate", "ein", "--model", "x"])
    assert command.in_options("sentence: expected one", args) == "sentence: expected one"


# Settings from a file


def test_a_file_of_settings_is_as_options(whole, data, tmp_path):
    """What the fixture `whole` gives as options; the command line comes first."""
    file, out = tmp_path / "settings.toml", tmp_path / "run"
    pairs = zip(RUN[::2], RUN[1::2], strict=True)
    lines = [f"{name.removeprefix('--')} = {value}" for name, value in pairs]
    text = "\n".join(lines).replace("fp32", '"fp32"').replace("steps = 36", "steps = 9")
    file.write_text(f'# as in RUN\ndata = "{data}"\n{text}\n', encoding="utf-8")
    run = ["train", "--config", str(file), "--out", str(out), "--steps"]
    assert command.main([*run, "36"]) == 0
    assert_same_run(out, whole)
    assert command.main([*run, "36", "--resume"]) == 0


@pytest.mark.parametrize(
    "text, named",
    [
        ("d_model = 8", "expected options of train, got 'd_model'; did you mean d-model?"),
        ("out = 'x'", "expected options of train, got 'out'"),
        ("[model]\nheads = 2", "expected options of train, got 'model'"),
        ("d-model = '8'", "d-model: expected a whole number of at least 1, got"),
        ("d-model = 8.5", "d-model: expected a whole number of at least 1, got 8.5"),
        ("d-model = true", "d-model: expected a whole number of at least 1, got True"),
        ("dropout = 1.5", "dropout: expected a number of at least 0 and below 1, got 1.5"),
        ("norm-first = 1", "norm-first: expected true or false, got 1"),
        ("precision = 'fp8'", "precision: expected one of auto, bf16, fp16, fp32, got 'fp8'"),
        ("preset = 3", "preset: expected one of tiny"),
        ("data = 3", "data: expected a name in quotes, got 3"),
        ("data = ''", "data: expected a name, got ''"),
        ("d-model 8", "expected TOML (name = value), got:"),
        ("d-model = " + "[" * 5000, "expected TOML (name = value), got:"),
        ("heads = 2\nheads = 3", "expected TOML (name = value), got:"),
    ],
)
def test_bad_files_of_settings(tmp_path, data, capsys, text, named):
    file = tmp_path / "settings.toml"
    file.write_text(text, "utf-8")
    words = ["train", "--config", file, "--data", data, "--out", tmp_path / "run"]
    error = refused(capsys, *words)
    assert error.startswith(f"error: {file}") and named in error


def test_no_file_of_settings(tmp_path, data, capsys):
    words = ["train", "--data", data, "--out", tmp_path / "run", "--config"]
    assert "--config: expected a file of settings" in refused(capsys, *words, "nowhere.toml")
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    assert "expected TOML" in refused(capsys, *words, tmp_path / "x")


@pytest.mark.parametrize("name", ["base-en-de", "big-en-de", "base-en-fr", "big-en-fr"])
def test_recipes_are_the_papers(name):
    settings = read_settings(ROOT / "recipes" / f"{name}.toml")
    preset = PRESETS[name.partition("-")[0]]
    told = {"dropout", "batch_tokens", "update_batches", "validate_every", "average_every"}
    assert replace(preset, **{k: v for k, v in settings.items() if k not in told}) == preset
    assert {"d_model", "d_ff", "heads", "layers", "steps", "warmup", "average"} < settings.keys()
    assert settings["batch_tokens"] * settings["update_batches"] == 25_000
    assert settings["dropout"] == (0.3 if name == "big-en-de" else 0.1)
    assert settings["steps"] % settings["validate_every"] == 0
    assert all(
        "#" in line or not line.partition("=")[2] or line.startswith("seed")
        for line in (ROOT / "recipes" / f"{name}.toml").read_text("utf-8").splitlines()
    )


def test_update_batches_take_the_place_of_accumulate(data, tmp_path, capsys):
    file = tmp_path / "settings.toml"
    file.write_text("update-batches = 4\n", "utf-8")
    words = ["train", "--config", file, "--data", data, *SMALL, "--steps", 1, "--out"]
    assert said(capsys, *words, tmp_path / "one")[0] == 0
    assert said(capsys, *words, tmp_path / "two", "--accumulate", 3)[0] == 0
    for run, number in (("one", 4), ("two", 3)):
        settings = json.loads((tmp_path / run / "run.json").read_text("utf-8"))["settings"]
        assert settings["update_batches"] == settings["accumulate"] == number
    words = ["train", "--resume", "--steps", 2, "--out", tmp_path / "one"]
    assert "--accumulate: expected 4" in refused(capsys, *words, "--accumulate", 2)
    assert "--update-batches: this run began with 4, got 8" in refused(
        capsys, *words, "--update-batches", 8
    )


# Translating and scoring


def test_translate_a_sentence(whole, capsys):
    code, text, error = said(capsys, "translate", "ein Mann geht", "--model", whole)
    assert code == 0 and text.count("\n") == 1 and not error
    same = said(capsys, "translate", "ein", "Mann", "geht", "--model", whole / "model.safetensors")
    assert same == (code, text, error)


@pytest.mark.parametrize(
    "name, sentence, word",
    [("multi30k-en-de", "A man rides a horse.", "Pferd"), ("tatoeba-en-fr", "Thanks.", "Merci")],
)
def test_translate_with_a_shipped_model(name, sentence, word, capsys):
    code, text, _ = said(capsys, "translate", "--model", name, sentence)
    assert code == 0 and word in text and text.count("\n") == 1


def test_curly_quotes_are_translated_as_plain_ones(capsys, monkeypatch):
    words = ["translate", "--model", "tatoeba-en-fr", "--beam", 1]
    plain, typed = """I don't know... "Stop," he said.""", "I don’t know… “Stop,” he said."
    expected = said(capsys, *words, plain)
    assert expected[0] == 0 and said(capsys, *words, typed) == expected
    assert said(capsys, *words, "--show-attention", typed)[1].startswith(expected[1])
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{typed}\n{plain}\n"))
    assert said(capsys, *words)[1] == 2 * expected[1]


def test_a_file_in_the_place_of_a_folder(data, capsys):
    told = f"{data}: expected a folder, got a file"
    assert told in refused(capsys, "train", "--data", data, "--out", data, *SMALL)
    assert told in refused(capsys, "prepare", "--data", "wmt14-en-de", "--out", data)
    error = said(capsys, "train", "--data", data, "--out", "x", "--max-norm", "inf")[2]
    assert "argument --max-norm: expected a finite number above 0, got inf" in error


def test_translate_lines(whole, capsys, monkeypatch):
    lines = ["ein Mann", "", "  ", "漢字 😀 \0 <eos>", "ein Mann\r", "x" * 200, "der Hund"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
    code, text, error = said(capsys, "translate", "--model", whole, "--beam", 2)
    found = text.split("\n")
    assert code == 0 and len(found) == len(lines) + 1 and not error
    assert found[1] == found[2] == "" and found[0] == found[4]
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert said(capsys, "translate", "--model", whole) == (0, "", "")
    monkeypatch.setattr(sys, "stdin", None)  # as with <&-
    assert "sentence: expected one" in refused(capsys, "translate", "--model", whole)
    file = whole / "run.json"
    error = refused(capsys, "translate", "--model", whole, file)
    assert f"sentence: {file} is a file; to translate its lines" in error


def test_lines_in_another_encoding_are_told(whole):
    """They are translated all the same, as far as they can be read."""
    words = [sys.executable, "-m", "allyouneed", "translate", "--model", whole, "--beam", "1"]
    lines = "ein Mann\nMann läuft\n"
    for encoding, told in (
        ("utf-8", ""),
        ("latin-1", "A line is not text in UTF-8: 'Mann l\ufffduft'"),
    ):
        done = subprocess.run(words, input=lines.encode(encoding), capture_output=True)
        assert done.returncode == 0 and done.stdout.count(b"\n") == 2
        assert done.stderr.decode().startswith(told) and bool(done.stderr) == bool(told)


def test_spaces_of_other_kinds_are_spaces(capsys, monkeypatch):
    """Training text has single spaces only."""
    lines = ["I am here.", "I am\u00a0here.", " I\tam here. ", "I am \u3000 here.", "\u00a0"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
    found = said(capsys, "translate", "--model", "tatoeba-en-fr")[1].split("\n")
    assert found[0] and found[:4] == [found[0]] * 4 and found[4:] == ["", ""]


def test_options_that_do_not_go_together(whole, capsys):
    words = ["translate", "ein Mann", "--model", whole]
    assert "--sample beside it" in refused(capsys, *words, "--top-k", 3)
    assert "--sample beside it" in refused(capsys, *words, "--top-p", 0.5)
    assert "--temperature: expected --sample" in refused(capsys, *words, "--temperature", 0.5)
    assert "--seed: expected --sample beside it" in refused(capsys, *words, "--seed", 3)
    assert "--beam: expected no --sample beside it" in refused(
        capsys, *words, "--sample", "--beam", 2
    )
    assert "--show-attention beside it" in refused(capsys, *words, "--head", 1)
    assert "--layer: expected 1 to" in refused(capsys, *words, "--show-attention", "--layer", 99)
    for option, value in (
        ("--beam", "9" * 23),
        ("--length-penalty", 1000),
        ("--temperature", 1e300),
        ("--top-p", 0),
        ("--top-p", 1.1),
    ):
        code, _, error = said(capsys, *words, option, value)
        assert code == 2 and f"argument {option}: expected" in error


def test_translate_more_than_the_model_takes(whole, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("Mann\n" + "Hund " * 6000 + "\nMann\n"))
    code, text, error = said(capsys, "translate", "--model", whole, "--beam", 1)
    first, empty, last, _ = text.split("\n")
    assert code == 2 and first == last and empty == "" and "its line stays empty" in error


def test_what_takes_long_to_translate_is_said(whole, capsys, monkeypatch):
    monkeypatch.setattr(command, "LONG", 3)
    monkeypatch.setattr(sys, "stdin", io.StringIO("Mann\nein Mann geht im Haus\n" + "a " * 9000))
    code, text, error = said(capsys, "translate", "--model", whole, "--beam", 1)
    told = [line for line in error.splitlines() if line.startswith("A sentence of ")]
    assert code == 2 and len(told) == 1 and re.search(r" of \d{1,2} tokens takes its time", told[0])
    monkeypatch.setattr(command, "LONG", 30)
    monkeypatch.setattr(sys, "stdin", io.StringIO("Mann\nein Mann geht im Haus\n"))
    assert said(capsys, "translate", "--model", whole, "--beam", 1)[2] == ""


def test_sample(whole, capsys):
    words = ["translate", "ein Mann geht", "--model", whole, "--sample", "--temperature", "2"]
    texts = [said(capsys, *words, "--seed", seed)[1] for seed in (0, 0, 1, 2)]
    assert texts[0] == texts[1] and len(set(texts)) > 1
    assert said(capsys, *words, "--top-k", 3, "--top-p", 0.5)[0] == 0


def test_show_attention(whole, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    words = ["translate", "ein Mann", "--model", whole, "--show-attention"]
    code, text, _ = said(capsys, *words)
    first, header, *rows = text.rstrip("\n").split("\n")
    assert code == 0 and header.split()[-1] == "<eos>" and rows[-1].split()[0] == "<eos>"
    assert max(map(len, text.split("\n")[1:])) <= 60
    if not any(line == "" for line in rows):  # all columns fit: the rows sum to one
        for row in rows:
            numbers = [int(word) for word in row.split() if word.isdigit()]
            assert abs(sum(numbers) - 100) <= len(numbers)
    assert said(capsys, *words, "--layer", 1, "--head", 2)[0] == 0
    assert "--head: expected 1 to 2, got 3" in refused(capsys, *words, "--head", 3)
    assert said(capsys, "translate", "", "--model", whole, "--show-attention")[1] == "\n"


def test_evaluate(whole, data, capsys, tmp_path):
    code, text, _ = said(capsys, "evaluate", "--data", data, "--split", "valid", "--model", whole)
    assert code == 0 and "case:mixed" in text and "case:lc" in text and "chrF2" in text
    assert "tokenised" not in text
    text = said(capsys, "evaluate", "--data", data, "--model", whole, "--tokenised", "fr")[1]
    assert "BLEU, tokenised" in text and "tok:moses-like-fr|smooth:none" in text
    (tmp_path / "one.tsv").write_bytes("Hund\tHund 😀\r\n".encode())
    code, text, _ = said(capsys, "evaluate", "--data", tmp_path / "one.tsv", "--model", whole)
    assert code == 0 and "1 sentences" in text
    assert "--split: expected" in refused(
        capsys, "evaluate", "--data", data, "--split", "test", "--model", whole
    )
    words = ["--data", "tatoeba-en-fr", "--split", "foo", "--model", whole]
    assert "--split: expected one of train, " in refused(capsys, "evaluate", *words)
    (tmp_path / "two.tsv").write_text("a\tb\nc\td\n", "utf-8")
    empty = ["--data", tmp_path / "two.tsv", "--split", "valid"]
    assert "--split: expected" in refused(capsys, "evaluate", *empty, "--model", whole)


@pytest.mark.parametrize("name", ["translate", "evaluate"])
def test_models_that_are_none(name, data, tmp_path, capsys, whole):
    words = [name, *(["ein"] if name == "translate" else ["--data", data]), "--model"]
    assert "--model: expected a file" in refused(capsys, *words, "klingon")
    assert "no model.safetensors in" in refused(capsys, *words, tmp_path)
    assert "expected a safetensors file" in refused(capsys, *words, data)
    (checkpoint,) = checkpoint_files(whole / "checkpoints")[-1:]
    assert "allyouneed checkpoint 1" in refused(capsys, *words, checkpoint)
    bare = tmp_path / "bare"
    save_model(bare, Transformer(load_model(whole / "model.safetensors")[0].config))
    assert "tokenizer" in refused(capsys, *words, bare)


def test_help(capsys):
    for words in ([], ["prepare"], ["train"], ["translate"], ["evaluate"]):
        code, text, _ = said(capsys, *words, "--help")
        command_line = " ".join(["python -m allyouneed", *(words or ["train"])])
        assert code == 0 and command_line in text.partition("examples:")[2]
        assert max(map(len, text.splitlines())) <= 100
    assert said(capsys)[0] == 2


@pytest.mark.parametrize(
    "script, python, called, torchrun",
    [
        (".venv/bin/allyouneed", ".venv/bin/python", ".venv/bin/allyouneed", ".venv/bin/torchrun"),
        ("a/__main__.py", "my env/python", '"my env/python" -m allyouneed', '"my env/torchrun"'),
        ("a/__main__.py", "python3", "python3 -m allyouneed", "torchrun"),
        ("/bin/allyouneed", "/bin/python", "allyouneed", "torchrun"),
    ],
)
def test_commands_are_told_as_the_reader_calls_them(
    script, python, called, torchrun, tmp_path, monkeypatch, capsys
):
    """With `make` alone no environment is active, and nothing but its path leads to the command."""
    monkeypatch.setattr(command.shutil, "which", "/bin/{}".format)
    monkeypatch.setattr(sys, "argv", [script, "train"])
    monkeypatch.setattr(sys, "orig_argv", [python, "..."])
    text = said(capsys, "train", "--help")[1]
    assert text.startswith(f"usage: {called} train --data DATA")
    lines = [line.strip() for line in text.splitlines()]
    assert f"{called} train --resume --out runs/tiny" in lines
    assert any(line.startswith(f"{torchrun} --nproc-per-node 2 -m allyouneed") for line in lines)
    error = refused(capsys, "train", "--data", "wmt14-en-de", "--out", tmp_path / "run")
    assert f"`{called} prepare --data wmt14-en-de" in error


@pytest.mark.weekly
@pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_compiled_is_the_same(data, tmp_path, precision):
    """In processes of their own, for our checks of shapes cannot be compiled."""
    losses = []
    for name in ("--no-compile", "--compile"):
        out = tmp_path / name[2:]
        words = ["train", "--data", str(data), "--out", str(out), *SMALL, "--precision", precision]
        words += [name, "--steps", "6", "--dropout", "0"]
        subprocess.run([sys.executable, "-m", "allyouneed", *words], check=True)
        losses.append(json.loads((out / "history.json").read_text("utf-8"))["losses"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3 if precision == "fp32" else 1e-2)


def test_the_step_that_failed_is_named_though_it_is_looked_at_later():
    """On a GPU the losses of many updates are read together."""
    unread = [
        training.Record(step=step, loss=math.nan if step > 2 else 1.0, norm=1.0)
        for step in range(6)
    ]
    run = SimpleNamespace(
        unread=unread, record=unread[-1], history=runs.History(), dtype=torch.bfloat16
    )
    with pytest.raises(FloatingPointError, match="loss: .* got nan at step 3;"):
        runs.Run.read_losses(run)
