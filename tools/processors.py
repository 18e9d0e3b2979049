"""Run the tests and the notebooks as other processors would, by the libraries' own switches.

python tools/processors.py                 every setting below; one table at the end
python tools/processors.py avx2 oldest     these

A run of all tests does every second notebook in one of them (`pytest --halves`, see conftest.py).

A setting leaves out instructions that this processor has, takes sums in another order, multiplies
in another precision, works with another number of threads, or ends its numbers in other last places
(roundings.py). What holds in all of them will hold on machines that we do not have.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from matrix import ELSEWHERE

ROOT = Path(__file__).parents[1]
# A thread that waits for its like gives up the core: it may be the one that the other needs.
TWO_THREADS = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
PLACES = [str(ROOT / "tools" / "imagined"), os.environ.get("PYTHONPATH")]
IMAGINED = {"PYTHONPATH": os.pathsep.join(filter(None, PLACES))}
SETTINGS = {
    "own": {},
    "no-amx": {
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
        **TWO_THREADS,
    },
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "avx": {  # no fused multiply-add: as of 2011
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "AVX",
        "MKL_ENABLE_INSTRUCTIONS": "AVX",  # heard by Intel's processors; the next one by all
        "MKL_CBWR": "AVX",
        "OPENBLAS_CORETYPE": "Sandybridge",
        **TWO_THREADS,
    },
    "oldest": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "MKL_CBWR": "COMPATIBLE",
        "OPENBLAS_CORETYPE": "Prescott",
        **TWO_THREADS,
    },
    "bf16-products": {"ONEDNN_DEFAULT_FPMATH_MODE": "BF16", "DNNL_DEFAULT_FPMATH_MODE": "BF16"},
    # none that exists: its numbers end in last places of their own
    **{f"imagined-{seed}": {"ROUNDINGS": str(seed), **IMAGINED} for seed in (1, 2, 3)},
}


def run(name: str, *places: str) -> tuple[bool, str]:
    """Run pytest in one setting; whether all passed, and its last line."""
    print(f"\n{name}: {SETTINGS[name] or 'this machine as it is'}", flush=True)
    command = [sys.executable, "-m", "pytest", *places, "--nbval", "--nbval-cell-timeout", "600"]
    command += ["--nbval-kernel-startup-timeout", "300"]  # a busy machine is slow to begin
    command += [f"--ignore=tests/test_{one}.py" for one in ELSEWHERE] + ["--ignore=tests/pictures"]
    settings = {"OMP_NUM_THREADS": "1"} | SETTINGS[name]
    command += ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-q", "-rs"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | settings, stdout=subprocess.PIPE, encoding="utf-8"
    )
    last = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        last = line.strip() or last
    return process.wait() == 0, re.sub(r"^=+ | =+$", "", last)


def another() -> str:
    """A setting that this machine's is not, and in which products take no longer.

    Only a processor that has more than AVX2 can be told to use AVX2: to an older one it would be
    given all the same, and torch for ARM warns that it does not know the word.
    """
    import torch  # takes seconds: not where workers are only started

    return "avx2" if torch.backends.cpu.get_cpu_capability() == "AVX512" else "avx"


def halves() -> tuple[list[Path], list[Path]]:
    """The notebooks to run as this machine would, and as another: every second one. The commit's
    name says which, as if by the toss of a coin; so each is seen in both ways, commit by commit."""
    command = ["git", "rev-parse", "HEAD"]
    name = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8").stdout
    turn = int(name.strip(), 16) % 2 if re.fullmatch(r"[0-9a-f]+\s*", name) else 0
    every = sorted((ROOT / "notebooks").glob("*.ipynb"))
    return every[turn::2], every[1 - turn :: 2]


def main(words: list[str]) -> int:
    if unknown := set(words) - set(SETTINGS):
        sys.exit(f"expected some of {', '.join(SETTINGS)}, got {', '.join(sorted(unknown))}")
    found = {name: run(name, "tests", "notebooks") for name in words or SETTINGS}
    print()
    for name, (passed, last) in found.items():
        print(f"{name:14} {'passed' if passed else 'FAILED'}   {last}")
    return not all(passed for passed, _ in found.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
