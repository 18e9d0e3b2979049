"""The benchmarks' own parts are fair: the same tokens, dropout, smoothing and translations."""

import json
import math
import re
import signal
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import allyouneed
from allyouneed.decoding import beam_search
from allyouneed.tokens import PAD, Batch, pad
from allyouneed.transformer import Transformer, TransformerConfig

FOLDER = Path(__file__).parents[1] / "benchmarks"
SMALL = TransformerConfig(40, d_model=16, d_ff=32, n_heads=2, n_layers=2, dropout=0.1)


@pytest.fixture(scope="module", autouse=True)
def benchmarks():
    """The benchmarks' modules, and the path as it was afterwards."""
    path = sys.path[:]
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path[:] = path


@pytest.fixture
def batch():
    torch.manual_seed(0)
    src = pad([torch.randint(4, 40, (n,)).tolist() + [3] for n in (3, 7, 9)])
    tgt = pad([[2, *torch.randint(4, 40, (n,)).tolist(), 3] for n in (5, 2, 8)])
    return Batch(src, tgt)


def built(name, config=SMALL):
    """A peer of the training benchmark; the test is skipped if it is not installed."""
    import training

    try:
        torch.manual_seed(1)
        return training.PEERS[name].build(config)
    except ModuleNotFoundError as error:
        pytest.skip(f"{name} is not installed: {error.name}")


NAMES = [
    "torch.nn.Transformer",
    "the equations, plainly",
    "JoeyNMT",
    "Hugging Face Marian",
    "x-transformers",
]


@pytest.mark.parametrize("name", NAMES)
def test_padding_counts_for_nothing(name, batch):
    """More padding changes no peer's loss: everybody learns from the same tokens."""
    peer = built(name).eval()
    wider = Batch(*(nn.functional.pad(x, (0, 3), value=PAD) for x in (batch.src, batch.tgt)))
    torch.testing.assert_close(peer.loss(batch), peer.loss(wider), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_dropout_is_where_the_paper_has_it(name, batch):
    """On embeddings and sub-layer outputs: 2 + 2 n + 3 n times in a loss, and never elsewhere."""
    peer, seen = built(name).train(), []
    dropout = torch.nn.functional.dropout
    attention = torch.nn.functional.scaled_dot_product_attention

    def watch(x, p=0.5, training=True, inplace=False):
        if training and p:
            seen.append((p, x.shape[-1]))
        return dropout(x, p, training, inplace)

    def watch_attention(q, k, v, attn_mask=None, dropout_p=0.0, *args, **kwargs):
        assert dropout_p == 0
        return attention(q, k, v, attn_mask, dropout_p, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "dropout", watch)
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", watch_attention)
        peer.loss(batch).backward()
    assert seen == [(0.1, SMALL.d_model)] * (2 + 5 * SMALL.n_layers)


@pytest.mark.parametrize("name", NAMES)
def test_everybody_learns_the_same_from_the_same_tokens(name, batch):
    """The gradient of a loss by its logits is p - wanted: 0.9 for the label, 0.1 for the others."""
    peer, seen = built(name).eval(), []
    linear = nn.functional.linear

    def watch(x, weight, bias=None):
        y = linear(x, weight, bias)
        if len(weight) == SMALL.vocab_size:
            y.retain_grad()
            seen.append(y)
        return y

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.functional, "linear", watch)
        peer.loss(batch).backward()
    (logits,) = seen
    labels = batch.tgt[:, 1:]
    real = labels != PAD
    assert not logits.grad[~real].any()
    wanted = (logits.softmax(-1) - logits.grad)[real]
    right = wanted.gather(1, labels[real][:, None])
    torch.testing.assert_close(right, torch.full_like(right, 0.9), rtol=0, atol=0.1 / 40 + 1e-4)
    torch.testing.assert_close(wanted.sum(1), torch.ones(len(wanted)), rtol=0, atol=1e-4)


@pytest.fixture
def day(tmp_path, monkeypatch):
    """The GPU's day in small, with its records in a temporary folder."""
    import gpu

    monkeypatch.setattr(gpu.record, "FOLDER", tmp_path)
    return gpu.Day(True, torch.device("cpu"), tmp_path / "runs", "now", 1, "eager")


def test_every_part_has_a_small_size(day):
    import gpu

    large = gpu.Day(False, day.device, day.folder, "now")
    for name, part in gpu.PARTS.items():
        few, many = part(day, {}), part(large, {})
        assert few and len(few) <= len(many), name
    order = [name[:2] for name in gpu.notebooks(large, {})]
    assert order[:11] == ["te", "12", "14", "17", "16", "18", "03", "13", "15", "10", "02"]
    notebooks = list((gpu.ROOT / "notebooks").glob("*.ipynb"))
    assert len(order) == 1 + len(notebooks) == len(set(order))


def test_a_part_leaves_its_file(day, tmp_path, monkeypatch):
    """After each piece; the rest is done by the next call, and what failed once more."""
    import attention
    import gpu

    monkeypatch.setattr(attention, "flex", lambda *sizes: ("none", None))  # compiles for long
    monkeypatch.setattr(gpu, "time", SimpleNamespace(monotonic=iter([0, 0, 1, 2]).__next__))
    assert gpu.work_on("attention", day, until=1, keep=False) == 0
    body = json.loads((tmp_path / "gpu_attention.json").read_text(encoding="utf-8"))
    assert list(body["data"]["pieces"]) == ["64 positions"]
    monkeypatch.undo()
    monkeypatch.setattr(gpu.record, "FOLDER", tmp_path)

    asked, broken = [], [True]

    def piece(name):
        asked.append(name)
        if name == "b" and broken:
            raise ValueError("two lines\nof /some/where/else")
        return {"found": name}

    pieces = {name: lambda name=name: piece(name) for name in "abc"}
    monkeypatch.setitem(gpu.PARTS, "some", lambda day, done: pieces)
    assert gpu.work_on("some", day, math.inf, keep=False) == 1
    body = json.loads((tmp_path / "gpu_some.json").read_text(encoding="utf-8"))
    assert body["data"]["pieces"]["b"]["failed"] == "of runs/else"
    broken.clear()
    assert gpu.work_on("some", day, math.inf, keep=False) == 0 and asked == [*"abcb"]
    day.code = "later"
    assert gpu.work_on("some", day, math.inf, keep=True) == 0 and asked == [*"abcb"]
    assert gpu.work_on("some", day, math.inf, keep=False) == 0 and asked == [*"abcbabc"]


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no alarm on this system")
def test_what_is_at_work_stops_when_the_time_is_up(day, tmp_path, monkeypatch, capsys):
    """What was done before is kept, and the piece at work is not said to have failed."""
    import gpu

    pieces = {"short": lambda: {"found": 1}, "long": lambda: time.sleep(60)}
    monkeypatch.setitem(gpu.PARTS, "some", lambda day, done: pieces)
    made = {"machine": {"gpu": None}}
    monkeypatch.setattr(gpu.record, "circumstances", lambda command: made)  # in no time
    begun = time.monotonic()
    with gpu.stopping_at(begun + 3):
        gpu.work_on("some", day, begun + 60, keep=False)
    assert time.monotonic() - begun < 30
    assert capsys.readouterr().out.endswith("the same command goes on from here\n")
    body = json.loads((tmp_path / "gpu_some.json").read_text(encoding="utf-8"))
    assert list(body["data"]["pieces"]) == ["short"]


def test_without_an_alarm_what_is_at_work_is_finished(day, tmp_path, monkeypatch):
    import gpu

    monkeypatch.delattr(signal, "SIGALRM", raising=False)
    now = [0]
    monkeypatch.setattr(gpu, "time", SimpleNamespace(monotonic=lambda: now[-1]))
    pieces = {"first": lambda: now.append(9) or {"found": 1}, "second": lambda: {"found": 2}}
    monkeypatch.setitem(gpu.PARTS, "some", lambda day, done: pieces)
    with gpu.stopping_at(5):
        gpu.work_on("some", day, 5, keep=False)
    body = json.loads((tmp_path / "gpu_some.json").read_text(encoding="utf-8"))
    assert list(body["data"]["pieces"]) == ["first"]


def test_a_notebook_that_fails_names_its_cell(tmp_path):
    import gpu
    from nbformat import v4, write

    cells = [v4.new_code_cell(text, id=text[0]) for text in ("a = 1", "b = a / 0", "c = 1")]
    write(v4.new_notebook(cells=cells), tmp_path / "one.ipynb")
    found = gpu.run_notebook(tmp_path / "one.ipynb", tmp_path)
    assert found["failed"] == {"cell": "b", "error": "ZeroDivisionError: division by zero"}
    assert found["slowest cells"].keys() <= {"a", "b"}


def test_a_notebook_finds_nothing_of_the_run_before(tmp_path):
    """Chapter 14 goes on with a run that it finds, in fewer seconds than a reader needs."""
    import gpu
    from nbformat import v4, write

    text = 'import os\nassert not os.listdir()\nopen("left", "w").close()'
    write(v4.new_notebook(cells=[v4.new_code_cell(text)]), tmp_path / "one.ipynb")
    for _ in range(2):
        assert "failed" not in gpu.run_notebook(tmp_path / "one.ipynb", tmp_path / "kept")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["kept", "one.ipynb"]


def test_a_page_shows_what_its_cell_said_on_a_gpu(day, tmp_path, monkeypatch):
    """From a run on a GPU, by way of the record, to the page that is made on a CPU."""
    import gpu
    from nbformat import v4, write

    def run(name, there):
        cell = f'print("F1 70 / 2" if {there} else "no GPU: " + results.on_a_gpu("{name}"))'
        cells = [v4.new_code_cell(text) for text in ("from allyouneed import results", cell)]
        write(v4.new_notebook(cells=cells), tmp_path / f"{name}.ipynb")
        return gpu.run_notebook(tmp_path / f"{name}.ipynb", tmp_path / "kept")

    monkeypatch.setattr(gpu.results, "FOLDER", tmp_path)
    made = {"machine": {"gpu": "A GPU"}, "date": "2026-12-24"}
    monkeypatch.setattr(gpu.record, "circumstances", lambda command: made)
    pieces = {"one": partial(run, "one", True), "two": partial(run, "two", False)}
    monkeypatch.setitem(gpu.PARTS, "notebooks", lambda day, done: pieces)
    unmeasured = "left out here; on a GPU this cell measures it"
    assert gpu.results.on_a_gpu("one") == unmeasured
    assert gpu.work_on("notebooks", day, math.inf, keep=False) == 0
    assert gpu.results.on_a_gpu("two") == gpu.results.on_a_gpu("three") == unmeasured
    shown = r"left out here; on A GPU, 2026-12-24, [\d.]+ seconds:\nF1 70 runs/ 2"
    assert re.fullmatch(shown, gpu.results.on_a_gpu("one"))


def test_what_chapter_14_reads():
    import gpu

    runs = {
        f"captions, seed {i}": {"seconds": 60 + i, "BLEU": {"valid": 41, "test": 39 + i}}
        for i in range(2)
    }
    runs["captions, seed 2"] = runs["everyday, seed 0"] = {"failed": "a word"}
    short = gpu.trained_in_short(runs)
    assert short == {"trained": {"captions": {"seconds": 60.5, "BLEU": 39.5, "seeds": 2}}}


def test_every_notebook_ends_within_five_minutes_on_a_t4():
    """By estimate. Another size in a notebook, and README.md wants a new table."""
    import estimates

    names = [file.stem for file in sorted((estimates.ROOT / "notebooks").glob("*.ipynb"))]
    asking = [name for name in names if '"accelerator": "GPU"' in estimates.text(name)]
    assert list(estimates.seconds()) == asking
    alone = [name for name in names if '"cuda" in str(device)' in estimates.code(name)]
    assert sorted(estimates.ON_A_GPU) == alone
    slow = {name: s for name, s in estimates.seconds().items() if sum(s) > estimates.MOST}
    assert estimates.MOST == 300 and not slow
    readme = (estimates.ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert estimates.table() in readme, estimates.table()


def test_an_estimate_follows_the_sizes_in_the_notebook(monkeypatch):
    import estimates

    before, code = {name: work() for name, work in estimates.ON_A_GPU.items()}, estimates.code
    larger = {
        "00_overview": ("3000, 8000) if gpu", "6000, 8000) if gpu"),
        "14_translation": ('wanted = ["captions"]', 'wanted = ["captions", "everyday"]'),
        "16_families": ("updates, batch = 3000", "updates, batch = 6000"),
        "17_sparse": ("longer = 2048,", "longer = 2048, 65_536,"),
        "18_parsing": ("updates, part = 5000", "updates, part = 50_000"),
    }
    for name, (old, new) in larger.items():
        assert code(name).count(old) == 1, name
        monkeypatch.setattr(estimates, "code", lambda n, o=old, w=new: code(n).replace(o, w))
        assert estimates.ON_A_GPU[name]() > 1.5 * before[name], name


def test_what_a_cpu_does_is_measured(tmp_path, monkeypatch):
    import estimates
    from nbformat import v4, write

    (tmp_path / "notebooks").mkdir()
    for name, asking in (("one", {"accelerator": "GPU"}), ("two", {})):
        notebook = v4.new_notebook(cells=[v4.new_code_cell("sum(range(10**6))")], metadata=asking)
        write(notebook, tmp_path / "notebooks" / f"{name}.ipynb")
    kept = {}
    monkeypatch.setattr(estimates, "ROOT", tmp_path)
    monkeypatch.setattr(estimates, "record", lambda name, data: kept.update({name: data}))
    estimates.measure()
    assert list(kept["notebooks"]["seconds"]) == ["one"] and kept["notebooks"]["seconds"]["one"] > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu(monkeypatch, capsys):
    import gpu

    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    assert gpu.main() == 2
    said = capsys.readouterr().err
    assert said.startswith("error: a GPU is needed") and said.count("\n") == 1


def test_launches_and_waits_are_told_by_name():
    from measure import launches_and_waits

    names = ["cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cudaStreamSynchronize"]
    names += ["cudaDeviceSynchronize", "aten::mm", "Memcpy DtoH (Device -> Pageable)"]
    watched = SimpleNamespace(events=lambda: [SimpleNamespace(name=name) for name in names])
    assert launches_and_waits(watched) == {"launches": 3, "waits": 1, "copies to the host": 1}


def test_a_form_that_is_slow_or_does_not_fit_is_left_out(monkeypatch):
    import attention
    from measure import Clock

    monkeypatch.setattr(attention, "flex", lambda *sizes: ("none", None))
    monkeypatch.setattr(attention, "measure", lambda found, *rest: iter([set(found)]))
    right = attention.forms

    def forms(*sizes, **kind):
        return right(*sizes, **kind) | {"by hand": (attention.FULL, too_large)}

    def too_large(q, k, v):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(attention, "forms", forms)
    left_out = {"flash_attention": "was slow"}
    sizes = (64, 16, 2, 1, Clock(torch.device("cpu")), torch.float32, left_out)
    for (rows,) in attention.at_length(*sizes):
        assert "SDPA, is_causal" in rows and not {"by hand", "flash_attention"} & rows
    assert left_out["by hand"] == "does not fit from 64 positions on"
    list(attention.at_length(*sizes, most=0.0))
    assert left_out["windowed_attention"] == "takes more than 0 seconds from 64 positions on"
    assert "SDPA, is_causal" not in left_out  # beside which all are measured


def test_a_mask_that_does_not_fit_stops_no_other_form(monkeypatch):
    """On a small GPU: only the forms that need it are left out."""
    import attention
    from measure import Clock

    def too_large(*args, **kwargs):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(attention, "flex", lambda *sizes: ("none", None))  # compiles for long
    monkeypatch.setattr(attention, "windowed_mask", too_large)
    left_out = {}
    sizes = (64, 16, 2, 1, Clock(torch.device("cpu")), torch.float32, left_out)
    names = {row["form"] for rows in attention.at_length(*sizes) for row in rows}
    assert left_out == {"SDPA with the window's mask": "does not fit from 64 positions on"}
    assert {"SDPA, is_causal", "by hand", "windowed_attention", "dilated_attention"} <= names


def test_tokens_and_flops(batch):
    from measure import flops, target_tokens

    assert target_tokens(batch) == 6 + 3 + 9
    wider = Batch(batch.src, nn.functional.pad(batch.tgt, (0, 5), value=PAD))
    assert target_tokens(wider) == target_tokens(batch)
    assert flops(SMALL, wider) == flops(SMALL, batch)
    one = Batch(torch.tensor([[5, 3]]), torch.tensor([[2, 5, 6, 3]]))
    layers = 2 * (4 * 16 * 16 * 2 + 2 * 16 * 32 * 2 + 2 * 16 * 4)  # encoder: two tokens
    layers += 2 * (6 * 16 * 16 * 3 + 2 * 16 * 32 * 3 + 2 * 16 * 16 * 2 + 2 * 16 * (9 + 6))
    assert flops(SMALL, one) == 6 * (layers + 16 * 40 * 3)


def test_everybody_takes_every_turn(capsys):
    """Each round gives each item to each peer once, and each peer goes first equally often."""
    from measure import Clock, Peak, interleave

    class Still(Peak):
        def __init__(self):
            pass

        def measure(self):
            pass

    calls = []
    work = {name: lambda i, name=name: calls.append((name, i)) for name in "abc"}
    seconds = interleave(work, 3, 2, Clock(torch.device("cpu")), Still())
    assert {name: len(s) for name, s in seconds.items()} == dict.fromkeys("abc", 6)
    assert len(calls) == 27 and {calls.count(c) for c in calls} == {3}
    assert "27/27" in capsys.readouterr().err  # and one sees how far it is
    assert sorted(name for name, _ in calls[::3]) == list("aaabbbccc")


def test_ours_trains_on_the_given_batch(batch):
    """Ours is `train` itself: the same updates as a call of it."""
    import training

    from allyouneed.training import train

    torch.manual_seed(2)
    step = training.our_step(SMALL, torch.device("cpu"), torch.float32)
    model = next(c.cell_contents for c in step.__closure__ if hasattr(c.cell_contents, "gi_frame"))
    ours = model.gi_frame.f_locals["model"]
    torch.manual_seed(2)
    other = Transformer(SMALL)
    step(batch), step(batch)
    list(train(other, lambda epoch: [batch] * 2, steps=2, schedule=lambda step: 1e-4))
    for a, b in zip(ours.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b)


TRANSLATORS = ["without a cache", "generate", "JoeyNMT", "CTranslate2"]


def beside_ours(name, model, src, beam):
    """The translations of a peer and ours; the test is skipped if the peer is not installed."""
    import decoding

    (peer,) = (peer for full, peer in decoding.PEERS.items() if name in full)
    try:
        theirs = peer(model).translate(src, beam)
    except ModuleNotFoundError as error:
        pytest.skip(f"{name} is not installed: {error.name}")
    return theirs, decoding.PEERS["ours"](model).translate(src, beam)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("name", TRANSLATORS)
def test_all_give_our_tokens(name, norm_first, batch, monkeypatch):
    import decoding

    monkeypatch.setattr(decoding, "longest", lambda src: 8)  # random weights hardly come to an end
    torch.manual_seed(3)
    model = Transformer(TransformerConfig(40, 16, 32, 2, 2, norm_first=norm_first)).eval()
    theirs, ours = beside_ours(name, model, batch.src, beam=1)
    assert theirs == ours


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("name", TRANSLATORS)
def test_all_give_our_translations(name, beam):
    import decoding

    if name == "without a cache" and beam > 1:
        pytest.skip("the loop without a cache is greedy only")
    model, tokenizer = allyouneed.pretrained("tatoeba-en-fr")
    sentences = ["We want to go home.", "Tom has a dog.", "Where did you buy that old book?"]
    (src,) = decoding.source_batches(tokenizer, sentences, 3, torch.device("cpu"))
    theirs, ours = beside_ours(name, model, src, beam)
    assert decoding.require_the_same(name, model, [src], [theirs], [ours], 1) == 0


@pytest.mark.parametrize("alpha", [0.6, 1.4])
@pytest.mark.parametrize("name", ["generate", "CTranslate2"])
def test_all_search_to_the_bound(name, alpha, monkeypatch):
    """With everybody's penalty, length^alpha, our beam finds what programs find that go on as far:
    Hugging Face with `early_stopping="never"`, CTranslate2 with a `patience` that is never lost."""
    import decoding

    model, tokenizer = allyouneed.pretrained("tatoeba-en-fr")
    monkeypatch.setattr(allyouneed.decoding, "penalty", lambda length, alpha: length**alpha)
    (peer,) = (peer for full, peer in decoding.PEERS.items() if name in full)
    try:
        peer = peer(model)
    except ModuleNotFoundError as error:
        pytest.skip(f"{name} is not installed: {error.name}")
    counted = []  # translations that a count of the ended would have changed
    for sentence in ("Please turn off the TV.", "Everyone kept quiet.", "I like to sleep."):
        (src,) = decoding.source_batches(tokenizer, [sentence], 1, torch.device("cpu"))
        ours = beam_search(model, src, 4, alpha, decoding.longest(src))
        if name == "generate":
            theirs, other = (peer.translate(src, 4, alpha, rule) for rule in ("never", True))
            counted.append(other != ours)
        else:
            theirs = peer.translate(src, 4, alpha, patience=1e4)
        assert theirs == ours, sentence
    if name == "generate" and alpha > 1:
        assert any(counted)


def test_another_translation_is_an_error(batch):
    import decoding

    model = Transformer(SMALL).eval()
    ours = [[5, 6], [7], [8, 9, 10]]
    theirs = [ids + [5] for ids in ours]
    for beam in (1, 4):
        with pytest.raises(AssertionError, match="a peer: expected our translations, got 3 others"):
            decoding.require_the_same("a peer", model, [batch.src], [theirs], [ours], beam)
    one = [theirs[0], *ours[1:]]  # one in thirty is left to a beam, of all batches together
    many, found = [batch.src] * 10, [one, *[ours] * 9]
    assert decoding.require_the_same("a peer", model, many, found, [ours] * 10, 4) == 1
    with pytest.raises(AssertionError, match="got 1 others"):
        decoding.require_the_same("a peer", model, many, found, [ours] * 10, 1)
