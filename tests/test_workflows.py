"""The workflows in .github: of the form that GitHub reads, and with commands that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "tools"))
import processors

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEXT = {file.name: file.read_text(encoding="utf-8") for file in WORKFLOWS}
ENDS = ("timeout-minutes", "runs-on")
each_workflow = pytest.mark.parametrize("name", TEXT)


def test_of_the_form_that_github_reads():
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema=vendor.github-workflows"]
    done = subprocess.run([*check, *WORKFLOWS], capture_output=True, encoding="utf-8")
    assert WORKFLOWS and done.returncode == 0, done.stdout + done.stderr


@each_workflow
def test_actions_have_a_version(name):
    used = re.findall(r"uses: (\S+)", TEXT[name])
    known = rf"[\w/-]+@(release/)?v\d+|\./\.github/workflows/({'|'.join(TEXT)})"
    assert used and all(re.fullmatch(known, action) for action in used), used


@each_workflow
def test_no_token_may_write_what_it_need_not(name):
    """All may read; a job that writes says so itself, and none writes into the repository."""
    assert "\npermissions:\n  contents: read\n\n" in TEXT[name]
    assert "contents: write" not in TEXT[name] and "pull-requests" not in TEXT[name]


@each_workflow
def test_every_job_has_an_end(name):
    """Of its own: that of a step ends nothing but the step."""
    ends, machines = (re.findall(rf"^    {key}:", TEXT[name], re.M) for key in ENDS)
    assert len(ends) == len(machines) > 0


def test_nothing_is_published_untested():
    assert "    uses: ./.github/workflows/tests.yml" in job_of("release.yml", "tests")
    assert "    needs: [tests, build]\n" in job_of("release.yml", "publish")


def test_the_site_does_not_wait_for_its_pdfs():
    (step,) = re.findall(r"make pdf.*\n((?:        .+\n)+)", job_of("pages.yml", "build"))
    assert "continue-on-error: true" in step and "timeout-minutes: 20" in step


@each_workflow
def test_what_is_named_exists(name):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([a-z][\w-]*)", TEXT[name]):
        assert re.search(rf"^[\w -]*\b{target}\b[\w -]*:", makefile, re.M), target
    for path in re.findall(r"(?:tests|tools)/[\w./]+\w", TEXT[name]):
        assert (ROOT / path).exists(), path


def test_the_two_halves_of_the_notebooks_are_all():
    """What `make test` runs as this machine, and what it runs as another."""
    own, other = processors.halves()
    files = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert sorted(own + other) == files and abs(len(own) - len(other)) <= 1


def test_a_clone_without_a_past_has_its_turns(tmp_path, monkeypatch):
    """As GitHub checks out: its one commit is the first, whichever it is."""
    past, clone, seen = tmp_path / "past", tmp_path / "clone", set()
    monkeypatch.setattr(processors, "ROOT", clone)
    git = ("git", "-c", "user.name=test", "-c", "user.email=test@localhost", "-C", past)
    subprocess.run(["git", "init", "-q", past], check=True)
    (past / "notebooks").mkdir()
    for name in ("1.ipynb", "2.ipynb"):
        (past / "notebooks" / name).touch()
    for turn in range(20):  # as one tosses a coin, until both sides were up
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", str(turn)], check=True)
        shutil.rmtree(clone, ignore_errors=True)
        subprocess.run(["git", "clone", "-q", "--depth", "1", past.as_uri(), clone], check=True)
        seen.add(processors.halves()[0][0].name)
        if len(seen) == 2:
            break
    assert seen == {"1.ipynb", "2.ipynb"}


@pytest.mark.parametrize("own", ["AVX512", "AVX2", "DEFAULT", "NO AVX", "SVE256"])
def test_no_processor_is_told_to_use_what_it_may_lack(own, monkeypatch):
    """torch does what ATEN_CPU_CAPABILITY says; all other switches say the most it may use."""
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: own)
    told = processors.SETTINGS[processors.another()]["ATEN_CPU_CAPABILITY"]
    assert told == ("avx2" if own == "AVX512" else "default")


FILES = {file.stem.removeprefix("test_"): file for file in (ROOT / "tests").glob("test_*.py")}


def that_import(*modules: str) -> set[str]:
    needs = re.compile(rf"^(from|import) ({'|'.join(modules)})\b", re.M)
    return {name for name, file in FILES.items() if needs.search(file.read_text(encoding="utf-8"))}


def job_of(workflow: str, name: str) -> str:
    """The text of one job."""
    return re.search(rf"\n  {name}:\n(.*?)(?=\n  \w+:\n|\Z)", TEXT[workflow], re.S)[1]


def left_out(job: str) -> set[str]:
    return set(re.findall(r"--ignore=tests/test_(\w+)\.py", job))


def test_no_version_or_processor_is_asked_for_pages():
    """The environments of `make matrix` have nothing that builds or opens a page."""
    opens = that_import("chromium", "docutils", "pages")
    assert {"site", "references"} <= opens <= set(processors.ELSEWHERE) <= set(FILES)


def test_with_colabs_list_of_today_the_same_tests_run():
    """What `make matrix` leaves out, its environment has nothing for, either."""
    job = job_of("weekly.yml", "colab")
    assert left_out(job) == set(processors.ELSEWHERE)
    assert re.search(r"-m pytest tests/test_alone\.py -m \"\"", job)


def test_all_that_is_marked_weekly_is_run_every_week():
    """Whatever file it stands in, and with a browser."""
    (command,) = re.findall(r"-m pytest (.+)", job_of("weekly.yml", "long"))
    assert command == "tests -m weekly -q -rs"
    assert 'cron: "17 4 * * 1"' in TEXT["weekly.yml"]


def test_macos_and_windows_open_no_page():
    """Their machines have no Chromium of a name that tests/chromium.py knows, and CI needs one."""
    opens = that_import("chromium", "pages")
    assert {"site", "search"} <= opens
    assert left_out(job_of("tests.yml", "elsewhere")) == opens | {"alone", "commands"}
