"""Sliders over the reader's own code, in a kernel that lives: moved as a front end moves them, and
every week in JupyterLab, by the keyboard and the mouse."""

from __future__ import annotations

import importlib.util
import os
import queue
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import matplotlib
import matplotlib.pyplot as plt
import nbformat
import pytest
from beside import python_with
from jupyter_client.manager import start_new_kernel

from allyouneed import live
from allyouneed.exercises import check, diary

matplotlib.use("agg")
pytestmark = pytest.mark.skipif(
    not importlib.util.find_spec("ipywidgets"), reason="ipywidgets is not installed"
)


def cosine(a, b):
    return a @ b.mT / (a.norm(dim=-1, keepdim=True) * b.norm(dim=-1)[None])


def test_the_readers_function_is_taken_once_it_is_right(monkeypatch, tmp_path, capsys):
    from allyouneed.exercises import core

    monkeypatch.setenv("ALLYOUNEED_HOME", str(tmp_path))
    monkeypatch.setattr(diary, "ANSWERS", {})
    assert live.yours("4.2", cosine) is cosine
    mine = core.find("4.2").reference
    check("4.2", lambda *case: None)
    assert live.yours("4.2", cosine) is cosine
    check("4.2", mine)
    assert live.yours("4.2", cosine) is mine
    assert capsys.readouterr().out.endswith("drawn with your own function\n")


def test_the_solution_is_not_the_readers(monkeypatch, tmp_path):
    from allyouneed.exercises import core

    monkeypatch.setenv("ALLYOUNEED_HOME", str(tmp_path))
    monkeypatch.setattr(diary, "ANSWERS", {})

    def cosines_solution(*case):
        return core.find("4.2").reference(*case)

    check("4.2", cosines_solution)
    assert not diary.ANSWERS


@pytest.mark.parametrize("choice", [(3, 4, 9), (3.0, 0.0, 2.0, 0.1), (1, 2), [], "abc"])
def test_a_first_value_out_of_its_range(choice):
    with pytest.raises(ValueError, match="n: expected .* with least <= first <= most, or .*, got"):
        live.explore(lambda n: plt.figure(), n=choice)


def test_it_is_imported_where_there_is_no_ipython():
    code = "import sys; sys.modules['IPython'] = None; import allyouneed.live"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr


CELL = """
import matplotlib.pyplot as plt
from allyouneed import live

def draw(n, kind):
    if n == 9:
        raise ValueError("nine is too many")
    plt.subplots(figsize=(1, 1))[1].set(title=f"{kind} {n}")
    print("drawn", n, kind)

live.explore(draw, n=(3, 1, 9), kind=["a", "b"])
"""
TRAIN = """
state = {"x": 4.0}

def update(rate):
    state["x"] -= rate * 2 * state["x"]
    return state["x"] ** 2

training = live.Training(update, rate=0.01, first=5, every=2)
"""


class Kernel:
    """A kernel, and what its widgets are called."""

    def __init__(self):
        self.manager, self.client = start_new_kernel(kernel_name="python3")
        self.widgets = {}  # model ids by the words they bear

    def heard(self, ends: str | None, seconds: float = 60) -> list[dict]:
        """Messages until the kernel is idle again after the request `ends`."""
        found = []
        while True:
            message = self.client.get_iopub_msg(timeout=seconds)
            content = message["content"]
            if message["msg_type"] == "comm_open":
                state = content["data"].get("state", {})
                self.widgets[state.get("description") or content["comm_id"]] = content["comm_id"]
            found.append(message)
            idle = message["msg_type"] == "status" and content["execution_state"] == "idle"
            if idle and message["parent_header"].get("msg_id") == ends:
                return found

    def run(self, code: str) -> list[dict]:
        return self.heard(self.client.execute(code))

    def move(self, name: str, **state) -> list[dict]:
        """Tell a widget what the reader has done to it."""
        data = {"method": "update", "state": state, "buffer_paths": []}
        content = {"comm_id": self.widgets[name], "data": data}
        message = self.client.session.msg("comm_msg", content)
        self.client.shell_channel.send(message)
        return self.heard(message["header"]["msg_id"])

    def printed(self, code: str) -> str:
        words = [m["content"] for m in self.run(code) if m["msg_type"] in ("stream", "error")]
        return "".join(
            w.get("text", "") or "\n".join(w.get("traceback", [])) for w in words
        ).strip()


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel()
    yield kernel
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=True)


def types(messages: list[dict]) -> list[str]:
    return [message["msg_type"] for message in messages]


def text(messages: list[dict]) -> str:
    return "".join(m["content"]["text"] for m in messages if m["msg_type"] == "stream")


def test_a_slider_draws_anew_in_the_same_place(kernel):
    first = kernel.run(CELL)
    assert "drawn 3 a" in text(first) and types(first).count("display_data") == 2
    picture = next(m for m in first if m["msg_type"] == "display_data")
    moved = kernel.move("n", value=5)
    anew = next(m for m in moved if m["msg_type"] == "update_display_data")
    place = lambda message: message["content"]["transient"]["display_id"]  # noqa: E731
    assert place(anew) == place(picture)
    assert "drawn 5 a" in text(moved)
    assert "drawn 5 b" in text(kernel.move("kind", index=1))


def test_a_function_that_fails_says_so_and_the_picture_stays(kernel):
    moved = kernel.move("n", value=9)
    assert "update_display_data" not in types(moved)
    said = [m["content"]["data"]["state"] for m in moved if m["msg_type"] == "comm_msg"]
    assert {"value": "ValueError: nine is too many"} in said
    assert "drawn 2 b" in text(kernel.move("n", value=2))


def test_a_training_is_paused_and_its_rate_moved(kernel):
    kernel.run(TRAIN)
    assert kernel.printed("print(len(training.losses))") == "5"
    kernel.move("go on", value=True)
    for _ in range(100):
        try:
            if kernel.client.get_iopub_msg(timeout=1)["msg_type"] == "update_display_data":
                break
        except queue.Empty:
            pass
    kernel.move("learning rate", value=0.1)
    kernel.move("go on", value=False)
    made = int(kernel.printed("print(len(training.losses))"))
    assert made > 5 and (made - 5) % 2 == 0
    assert kernel.printed("print(training.rates[0], training.rate)") == "0.01 0.1"
    assert int(kernel.printed("print(len(training.losses))")) == made  # it has stopped
    assert kernel.printed("print(training.losses[-1] < training.losses[0])") == "True"


@pytest.fixture
def lab(tmp_path):
    """The address of a notebook of both cells in a JupyterLab, installed beside what is here."""
    code = nbformat.v4.new_code_cell
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook = nbformat.v4.new_notebook(cells=[code(CELL), code(TRAIN)], metadata=kernel)
    nbformat.write(notebook, tmp_path / "live.ipynb")
    python = python_with(tmp_path / "venv", "jupyterlab>=4")
    home = {"HOME": str(tmp_path), "JUPYTER_PATH": str(Path(sys.prefix) / "share" / "jupyter")}
    arguments = {"root_dir": tmp_path, "token": "", "password": "", "port": 8931, "port_retries": 0}
    command = [python, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--ServerApp.{name}={value}" for name, value in arguments.items()]
    with open(tmp_path / "lab.log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(command, env=os.environ | home, stdout=log, stderr=log)
        for _ in range(60):
            try:
                urlopen("http://127.0.0.1:8931/api").close()
                break
            except OSError:
                time.sleep(1)
        yield "http://127.0.0.1:8931/lab/tree/live.ipynb"
        server.terminate()
        server.wait(30)


ANEW = "([i, was]) => document.querySelectorAll('.jp-OutputArea-output img')[i].src != was"


@pytest.mark.weekly
def test_in_jupyterlab(browser, lab):
    tab = browser.new_page()
    tab.set_default_timeout(120_000)  # the kernel imports torch, and matplotlib lists its fonts
    tab.goto(lab)
    tab.get_by_text("| Idle").wait_for()  # the kernel: before, one is asked which to take
    tab.get_by_role("menuitem", name="Run", exact=True).click()
    tab.get_by_text("Run All Cells", exact=True).click()
    picture, curve = (tab.locator(".jp-OutputArea-output img").nth(i) for i in range(2))
    before, begun = picture.get_attribute("src"), curve.get_attribute("src")
    tab.locator(".noUi-handle").first.press("ArrowRight")
    tab.wait_for_function(ANEW, arg=[0, before])
    assert tab.locator(".widget-readout").first.inner_text() == "4"
    tab.get_by_role("button", name="go on").click()
    tab.wait_for_function(ANEW, arg=[1, begun])
    tab.get_by_role("button", name="pause").click()
    tab.get_by_role("button", name="go on").wait_for()
    tab.close()
