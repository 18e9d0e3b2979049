"""Two processes under torchrun make the same weights as one that takes the same global batches."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import torch

from allyouneed import command
from allyouneed.checkpoints import checkpoint_files, load_checkpoint

# What each process runs: one training for each `accumulate`.
SCRIPT = """
import sys
import torch
from torch import distributed

sys.path.insert(0, {here!r})
from test_distributed import trained

distributed.init_process_group("gloo")
for accumulate in (1, 2):
    weights, records = trained(accumulate)
    if distributed.get_rank() == 0:
        torch.save((weights, records), "{folder}/" + str(accumulate))
distributed.destroy_process_group()
"""


def trained(accumulate: int) -> tuple[torch.Tensor, list[tuple]]:
    """Five batches an epoch, so that the last group of an epoch is uneven, or short for one."""
    from allyouneed.tokens import BOS, EOS, Batch, pad
    from allyouneed.training import train
    from allyouneed.transformer import Transformer, TransformerConfig

    draws = torch.Generator().manual_seed(0)

    def words(length: int) -> list[int]:
        return torch.randint(EOS + 1, 20, (length,), generator=draws).tolist()

    batches = [
        Batch(pad([[*words(n), EOS] for n in (2, m)]), pad([[BOS, *words(n), EOS] for n in (m, 1)]))
        for m in (3, 5, 4, 7, 2)
    ]
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(20, 8, 16, 2, 1, dropout=0.0))
    records = train(
        model, lambda epoch: batches, 7, schedule=lambda step: 1e-3, accumulate=accumulate,
        max_norm=1.0,
    )  # fmt: skip
    told = [(r.step, r.epoch, r.batch, r.tokens, r.loss, r.norm) for r in records]
    return torch.cat([p.detach().flatten() for p in model.parameters()]), told


def assert_close(one, other):
    torch.testing.assert_close(one[0], other[0], rtol=1e-3, atol=1e-5)
    assert [r[:4] for r in one[1]] == [r[:4] for r in other[1]]
    torch.testing.assert_close(
        torch.tensor([r[4:] for r in one[1]]), torch.tensor([r[4:] for r in other[1]]),
        rtol=1e-3, atol=1e-5,
    )  # fmt: skip


def torchrun(*words: object) -> str:
    """What two processes say; an error if one of them fails, or both wait for each other."""
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*run, *map(str, words)], env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_processes_are_as_one(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        SCRIPT.format(here=str(Path(__file__).parent), folder=tmp_path), encoding="utf-8"
    )
    torchrun(script)
    for accumulate in (1, 2):
        found = torch.load(tmp_path / str(accumulate), weights_only=True)
        assert_close(found, trained(2 * accumulate))


def test_two_processes_on_the_command_line(tmp_path):
    draw = random.Random(0)
    sentences = {" ".join(draw.choices("abcdefg", k=draw.randint(1, 5))) for _ in range(60)}
    (tmp_path / "pairs.tsv").write_text("".join(f"{s}\t{s[::-1]}\n" for s in sorted(sentences)))
    words = ["train", "--data", str(tmp_path / "pairs.tsv"), "--d-model", "8", "--d-ff", "8",
             "--heads", "2", "--layers", "1", "--vocabulary", "30", "--batch-tokens", "80",
             "--precision", "fp32", "--dropout", "0", "--steps", "9", "--validate-every", "4",
             "--average", "2"]  # fmt: skip
    two, one = tmp_path / "two", tmp_path / "one"
    said = torchrun("-m", "allyouneed", *words, "--out", two)
    assert said.count("Best: BLEU") == 1  # only the first process speaks
    assert command.main([*words, "--accumulate", "2", "--out", str(one)]) == 0
    a, b = (load_checkpoint(checkpoint_files(run / "checkpoints")[-1]) for run in (one, two))
    assert (a.record.step, a.record.batch, a.record.tokens) == (
        b.record.step, b.record.batch, b.record.tokens
    )  # fmt: skip
    for name in a.model:
        torch.testing.assert_close(a.model[name], b.model[name], rtol=1e-3, atol=1e-5)
    losses = [json.loads((run / "history.json").read_text())["losses"] for run in (one, two)]
    torch.testing.assert_close(*map(torch.tensor, losses), rtol=1e-3, atol=1e-3)
