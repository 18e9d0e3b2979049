"""Chapter 14's numbers: how good are the trained translators?

Train first, one command for each seed (runs/ is any folder; records always call it that):

    python -m allyouneed train --data multi30k-en-de --seed 0 --out runs/multi30k-0

then measure all seeds of a set together, and ship the one that is best on validation:

    python experiments/translation.py measure multi30k-en-de runs/multi30k-*
    python experiments/translation.py ship multi30k-en-de runs/multi30k-0

`measure` chooses beam and length penalty on the valid split, by the mean BLEU of the seeds, and
only then translates the test splits: once with the choice, and once with the paper's beam of 4 and
penalty of 0.6, and greedily. A record that is there is never measured again without --again.

    python experiments/translation.py search multi30k-en-de

measures the shipped model alone and anew, when the search has changed and not the weights. Of the
other seeds, whose weights are not kept, only the greedy scores stay in the record.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from record import record, without_places

from allyouneed import results, weights
from allyouneed.data import SPLITS, load_pairs
from allyouneed.decoding import translate
from allyouneed.evaluation import bleu, scores
from allyouneed.saving import load_model, pretrained, save_model

BEAMS = (4, 5, 8)
PENALTIES = (0.0, 0.6, 1.0, 1.2, 1.4, 1.6, 1.8)
CHOICE = 1014  # sentences of valid to choose on: all of Multi30k's, evenly spread ones of Tatoeba's
TERMS = {
    "multi30k-en-de": {
        "license": "LicenseRef-Flickr30K",
        "terms": "for non-commercial research and education, as the captions it was trained on "
        "(Multi30k, under the terms of Flickr30K)",
    },
    "tatoeba-en-fr": {
        "license": "LicenseRef-CC-BY-2.0-FR",
        "terms": "CC BY 2.0 FR, as the sentences it was trained on (Tatoeba, through "
        "ManyThings.org)",
    },
}


def measured(model, tokenizer, pairs, beam: int, penalty: float) -> dict[str, Any]:
    """Scores of one model on a split, each with its signature, and the translations."""
    start = time.process_time()
    written = translate(model, tokenizer, [s for s, _ in pairs], beam, penalty)
    seconds = time.process_time() - start
    found = scores(written, [t for _, t in pairs])
    return {
        "beam": beam,
        "length penalty": penalty,
        "scores": {s.name: round(s.value, 2) for s in found},
        "signatures": {s.name: s.signature for s in found},
        "processor seconds": round(seconds, 1),
        "translations": written,
    }


def chosen(models: list, data: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """BLEU on valid for every beam and penalty, and the row with the best mean."""
    valid = load_pairs(data, "valid")
    few = valid[:: max(1, len(valid) // CHOICE)][:CHOICE]
    sources, targets = [s for s, _ in few], [t for _, t in few]
    grid = []
    for beam in BEAMS:
        for penalty in PENALTIES:
            each = [bleu(translate(*m, sources, beam, penalty), targets) for m in models]
            grid.append(
                {
                    "beam": beam,
                    "length penalty": penalty,
                    "BLEU": [round(x, 2) for x in each],
                    "mean": round(sum(each) / len(each), 3),
                }
            )
            print(grid[-1], flush=True)
    return grid, max(grid, key=lambda row: row["mean"])


def tested(model, tokenizer, data: str, choice: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The scores of one model on every test split, read out in the three ways."""
    found = {}
    for split in (name for name in SPLITS[data] if name.startswith("test")):
        pairs = load_pairs(data, split)
        found[split] = {
            "chosen": measured(model, tokenizer, pairs, choice["beam"], choice["length penalty"]),
            "paper": measured(model, tokenizer, pairs, 4, 0.6),
            "greedy": measured(model, tokenizer, pairs, 1, 0.6),
        }
        print(split, {name: t["scores"] for name, t in found[split].items()}, flush=True)
    return found


def without_translations(found: dict[str, dict[str, Any]], keep: bool) -> dict[str, Any]:
    """Only the chosen translations of the first test split are kept, and of one run."""
    for split, ways in found.items():
        for way, row in ways.items():
            if not (keep and split == "test" and way == "chosen"):
                del row["translations"]
    return found


def search(data: str) -> None:
    """Choose beam and penalty anew, and measure anew, with the weights that ship."""
    model, tokenizer = pretrained(data)
    name = data.split("-")[0]
    body = results.load(name)["data"]
    card = json.loads((weights.FOLDER / f"{data}.json").read_text(encoding="utf-8"))
    seed = card["settings"]["seed"]
    body["grid"], body["choice"] = chosen([(model, tokenizer)], data)
    for run in body["runs"]:
        run["test"] = {"greedy": run["test"]["greedy"]}
        if run["seed"] == seed:
            run |= without_translations(tested(model, tokenizer, data, body["choice"]), True)
    record(name, body | {"search": "of the weights as shipped"})


def measure(data: str, folders: list[Path]) -> None:
    """Choose on valid, then look at the test sets, for all seeds; keep it in results/."""
    models = [load_model(folder / "model.safetensors") for folder in folders]
    grid, choice = chosen(models, data)
    runs = []
    for folder, (model, tokenizer) in zip(folders, models, strict=True):
        run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        history = json.loads((folder / "history.json").read_text(encoding="utf-8"))
        losses = history["losses"]
        step = max(1, len(losses) // 200)
        tests = without_translations(tested(model, tokenizer, data, choice), keep=not runs)
        runs.append(
            {
                "seed": run["settings"]["seed"],
                "settings": run["settings"],
                "starts": [
                    start | {"command": without_places(start["command"])} for start in run["starts"]
                ],
                "pairs": run["data"],
                "parameters": sum(p.numel() for p in model.parameters()),
                "history": history["rows"],
                "losses": [  # means of `every` updates
                    round(sum(losses[i : i + step]) / len(losses[i : i + step]), 4)
                    for i in range(0, len(losses), step)
                ],
                "every": step,
                "seconds": round(history["seconds"]),
            }
            | tests
        )
    body = {"data": data, "grid": grid, "choice": choice, "runs": runs}
    record(data.split("-")[0], body)


def ship(data: str, folder: Path) -> None:
    """Store a run's model in 16-bit numbers in weights/, with its card."""
    model, tokenizer = load_model(folder / "model.safetensors")
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    measured = results.load(data.split("-")[0])
    mine = next(r for r in measured["data"]["runs"] if r["seed"] == run["settings"]["seed"])
    best = mine["test"]["chosen"]
    card = {
        "what": f"a Transformer that translates, trained on {data} alone",
        **TERMS[data],
        "train": without_places(run["starts"][0]["command"]),
        "measure": measured["command"],
        "settings": run["settings"],
        "parameters": mine["parameters"],
        "stored as": "bfloat16",
        "commit": run["starts"][0]["commit"],
        "date": run["starts"][0]["date"],
        "machine": run["starts"][0]["machine"],
        "versions": run["starts"][0]["versions"],
        "bleu on test": {k: v for k, v in best.items() if k != "translations"},
        "signature": best["signatures"]["BLEU"],
        "kept in": "experiments/translation.py wrote this card",
    }
    file = weights.FOLDER / f"{data}.safetensors"
    save_model(file, model, tokenizer, card, torch.bfloat16)
    file.with_suffix(".json").write_text(
        json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["measure", "ship", "search"])
    parser.add_argument("data", choices=list(TERMS))
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--again", action="store_true", help="measure although a record is there")
    args = parser.parse_args()
    if args.what == "search":
        return search(args.data)
    if not args.folders:
        parser.error("folders: expected the folder of every run, got none")
    if args.what == "ship":
        return ship(args.data, args.folders[0])
    kept = results.FOLDER / f"{args.data.split('-')[0]}.json"
    if kept.exists() and not args.again:
        raise SystemExit(f"{kept} is there: the test set was looked at. --again measures anew")
    measure(args.data, args.folders)


if __name__ == "__main__":
    main()
