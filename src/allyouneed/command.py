"""The command line: train a Transformer, translate with it, and say how good it is.

This module is plumbing written by hand. `allyouneed --help` says how it is used. What goes wrong
ends in one line and exit code 2; a run that is asked to stop ends in 130.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import functools
import itertools
import math
import os
import shutil
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

from allyouneed import __version__
from allyouneed.data import SPLITS, DataError, clean
from allyouneed.decoding import beam_search, sample, translate
from allyouneed.evaluation import papers_bleu, scores
from allyouneed.runs import place, read_pairs, train_run
from allyouneed.saving import load_model, pretrained
from allyouneed.shards import CORPORA, prepare_shards, read_manifest
from allyouneed.tokens import BOS, EOS, Tokenizer
from allyouneed.transformer import Transformer

# Named settings. Options come before them. Without a learning rate it is the paper's.
SMALL = dict(d_model=256, d_ff=512, heads=4, layers=3, vocabulary=4000, dropout=0.3,
             norm_first=True, batch_tokens=2048, learning_rate=2e-3, warmup=400, epochs=30,
             cooldown=0.3, average=8)  # fmt: skip
CAPTIONS = SMALL | dict(d_model=128, d_ff=256, layers=4, vocabulary=8000, batch_tokens=4096,
                        learning_rate=5e-3, warmup=2000, epochs=48, cooldown=0.5)  # fmt: skip
EVERYDAY = SMALL | dict(dropout=0.1, batch_tokens=4096, learning_rate=3e-3, warmup=1500, epochs=20,
                        cooldown=0.6, average=5)  # fmt: skip
PAPER = dict(layers=6, vocabulary=37_000, batch_tokens=25_000, warmup=4000, validate_every=2000)
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": SMALL | dict(d_model=64, d_ff=128, layers=2, vocabulary=1000, dropout=0.1, epochs=3),
    "multi30k": CAPTIONS,
    "tatoeba": EVERYDAY,
    "base": PAPER | dict(d_model=512, d_ff=2048, heads=8, dropout=0.1, steps=100_000, average=5),
    "big": PAPER | dict(d_model=1024, d_ff=4096, heads=16, dropout=0.3, steps=300_000, average=20),
}
USUAL = dict(learning_rate=None, smoothing=0.1, bpe_dropout=0.0, cooldown=0.0, accumulate=None,
             update_batches=None, max_norm=None, seed=0, norm_first=False, precision="auto",
             compile=False, shard=False, steps=None, epochs=None, validate_every=None,
             average_every=None, keep=2)  # fmt: skip
OWN = {"multi30k-en-de": "multi30k", "tatoeba-en-fr": "tatoeba"}  # the preset of a set of pairs


def prepare_command(args: argparse.Namespace) -> int:
    """Make the shards of a set, or go on with it; a finished folder is verified."""
    prepare_shards(args.data, args.out, lambda text: print(text, flush=True))
    return 0


def train_command(args: argparse.Namespace) -> int:
    """Train a model: options, before a file of settings, before a preset, before what is usual."""
    names = {"data", "preset", "threads", *USUAL, *SMALL}
    options = {k: v for k, v in vars(args).items() if k in names and v is not None}
    if {"steps", "epochs"} <= options.keys():
        raise ValueError("--steps: expected it or --epochs, got both")
    settings = {} if args.config is None else read_settings(Path(args.config))
    if {"steps", "epochs"} <= settings.keys():
        raise ValueError(f"{args.config}: expected steps or epochs, got both")
    for either in ({"steps", "epochs"}, {"accumulate", "update_batches"}):
        if options.keys() & either:  # one takes the place of the other
            settings = {k: v for k, v in settings.items() if k not in either}
    given = settings | options
    if threads := given.pop("threads", None):
        torch.set_num_threads(threads)
    if given.keys() & {"steps", "epochs"}:
        given = {"steps": None, "epochs": None} | given
    preset, data = given.pop("preset", None), given.get("data", "")
    own = OWN.get(data, "base" if Path(data or "file").is_dir() else "multi30k")
    usual = USUAL | PRESETS[preset or own]
    given = usual | given if preset else given
    return train_run(Path(args.out), given, usual, args.resume, args.words)


def read_settings(path: Path) -> dict[str, Any]:
    """The settings of a TOML file, whose names are those of the options of `train`."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ValueError(f"--config: expected a file of settings, found none at {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: expected TOML (name = value), got: {error}") from None
    known, settings = [*OPTIONS, *SWITCHES, *CHOICES, "data"], {}
    for key, value in table.items():
        try:
            if key in OPTIONS:
                value = OPTIONS[key][0](repr(value))  # of a word, with its quotes: no number
            elif key in SWITCHES and not isinstance(value, bool):
                raise argparse.ArgumentTypeError(f"expected true or false, got {value!r}")
            elif key in CHOICES and value not in CHOICES[key][0]:
                names = ", ".join(CHOICES[key][0])
                raise argparse.ArgumentTypeError(f"expected one of {names}, got {value!r}")
            elif key == "data" and not isinstance(value, str):
                raise argparse.ArgumentTypeError(f"expected a name in quotes, got {value!r}")
        except argparse.ArgumentTypeError as error:
            raise ValueError(f"{path}, {key}: {error}") from None
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]}?" if near else f" ({', '.join(known)})"
            raise ValueError(f"{path}: expected options of train, got {key!r}{hint}")
        settings[key.replace("-", "_")] = value
    return settings


def translate_command(args: argparse.Namespace) -> int:
    """Translate a sentence, or standard input line by line, into as many lines."""
    _, _, device = place()
    model, tokenizer = find_model(args.model, device)
    check_options(args, model)
    generator = torch.Generator(device).manual_seed(args.seed)
    words = os.fsencode(" ".join(args.sentence)).decode(errors="replace")
    if len(args.sentence) == 1 and os.path.isfile(words):
        raise ValueError(f"sentence: {words} is a file; to translate its lines, write < {words}")
    lines = [words] if args.sentence else sys.stdin
    at_once = 1 if args.sentence or args.show_attention or sys.stdin.isatty() else 256
    sound, lines = True, iter(lines)
    while some := list(itertools.islice(lines, at_once)):
        some = [clean(line.strip("\ufeff")) for line in some]
        fits = [len(tokenizer.encode(line)) < len(model.positions.table) for line in some]
        texts = [line if fit else "" for line, fit in zip(some, fits, strict=True)]
        if not all(fits):
            sound = False
            print(f"error: a sentence has {len(model.positions.table):,} tokens or more: "
                  "its line stays empty", file=sys.stderr)  # fmt: skip
        if not args.sample and not args.show_attention:
            print("\n".join(translated(model, tokenizer, texts, args)), flush=True)
            continue
        for text in texts:
            ids = tokenizer.encode(text)
            if not ids:
                print(flush=True)
                continue
            src = torch.tensor([[*ids, EOS]], device=device)
            if args.sample:
                heat = 1.0 if args.temperature is None else args.temperature
                (out,) = sample(model, src, heat, args.top_k, args.top_p, generator=generator)
            else:
                (out,) = beam_search(model, src, args.beam, args.length_penalty)
            print(tokenizer.decode(out), flush=True)
            if args.show_attention:
                print(attention_text(model, tokenizer, src, out, args.layer, args.head), flush=True)
    return 0 if sound else 2


def check_options(args: argparse.Namespace, model: Transformer) -> None:
    """Raise ValueError for options of `translate` that this model or the other options rule out."""
    if not args.sentence and sys.stdin is None:
        raise ValueError("sentence: expected one, or lines on standard input, got neither")
    for name in ("temperature", "top_k", "top_p"):
        if getattr(args, name) is not None and not args.sample:
            raise ValueError(f"--{name.replace('_', '-')}: expected --sample beside it")
    for name, count in (("layer", len(model.decoder.layers)), ("head", model.config.n_heads)):
        value = getattr(args, name)
        if value is not None and not args.show_attention:
            raise ValueError(f"--{name}: expected --show-attention beside it")
        if value is not None and value > count:
            raise ValueError(f"--{name}: expected 1 to {count}, got {value}")


def find_model(name: str, device: torch.device) -> tuple[Transformer, Tokenizer]:
    """A model from a file, from the folder of a run, or one that is shipped."""
    path = Path(name) / "model.safetensors" if Path(name).is_dir() else Path(name)
    if path.exists():
        model, tokenizer = load_model(path, device)
        if tokenizer is None:
            raise ValueError(f"--model: expected a model with its tokenizer, {path} has none")
        return model, tokenizer
    if Path(name).is_dir():
        raise ValueError(
            f"--model: no model.safetensors in {name}; a run's first validation writes it"
        )
    try:
        return pretrained(name, device)
    except ValueError as error:
        raise ValueError(
            f"--model: expected a file, the folder of a run or a name; {error}"
        ) from None


def translated(
    model: Transformer, tokenizer: Tokenizer, texts: Sequence[str], args: argparse.Namespace
) -> list[str]:
    """Translations by beam search, fewer at once when they are long."""
    longest = max((len(tokenizer.encode(text)) for text in texts), default=0)
    batch = max(1, min(64, 8192 // (longest + 1)))
    return translate(model, tokenizer, texts, args.beam, args.length_penalty, batch)


def attention_text(
    model: Transformer, tokenizer: Tokenizer, src: Tensor, out: list[int], layer: int | None,
    head: int | None,
) -> str:  # fmt: skip
    """Cross-attention in per cent: a row for each token written, a column for each token read."""
    with torch.inference_mode():
        tgt = torch.tensor([[BOS, *out]], device=src.device)
        maps = model(src, tgt, return_weights=True)[1].cross
    weights = maps[(layer or len(maps)) - 1][0]  # (H, T, S)
    weights = weights.mean(0) if head is None else weights[head - 1]
    rows = [tokenizer.bpe.id_to_token(i) for i in [*out, EOS]]
    columns = [tokenizer.bpe.id_to_token(int(i)) for i in src[0]]
    cells = [[f"{SHADES[round(4 * w)] * 2}{100 * w:4.0f}" for w in row] for row in weights.tolist()]
    first, width = max(map(len, rows)), max(7, *(len(token) + 2 for token in columns))
    fit = max(1, (shutil.get_terminal_size().columns - first) // width)
    lines = []
    for start in range(0, len(columns), fit):  # as many columns as the terminal is wide
        for token, row in zip(["", *rows], [columns, *cells], strict=True):
            lines.append(f"{token:>{first}}" + "".join(f"{x:>{width}}" for x in row[start:][:fit]))
        lines.append("")
    return "\n".join(lines[:-1])


def evaluate_command(args: argparse.Namespace) -> int:
    """Translate a set of pairs and compare with its other side."""
    _, _, device = place()
    model, tokenizer = find_model(args.model, device)
    named = args.data in [*SPLITS, *CORPORA] or Path(args.data).is_dir()
    split = args.split or ("valid" if named else "all")
    pairs = read_pairs(args.data, split)
    if not pairs:
        raise ValueError(f"--split: expected pairs in {split} of {args.data}, got none")
    longest, room = max(len(tokenizer.encode(s)) for s, _ in pairs), len(model.positions.table)
    if longest >= room:
        raise ValueError(f"--data: expected sentences of less than {room} tokens, got {longest}")
    start = time.monotonic()
    written = translated(model, tokenizer, [source for source, _ in pairs], args)
    seconds = time.monotonic() - start
    print(
        f"{args.data}, {split}: {len(pairs):,} sentences, beam {args.beam}, length penalty "
        f"{args.length_penalty:g}, {seconds:.1f} seconds on {device}"
    )
    references = [target for _, target in pairs]
    found, language = scores(written, references), args.tokenised
    name = read_manifest(Path(args.data))["set"] if Path(args.data).is_dir() else args.data
    if language is None and name in CORPORA:
        language = CORPORA[name].target
    if language:
        found.append(papers_bleu(written, references, language))
    for score in found:
        print(f"{score.name:18} {score.value:6.2f}   {score.signature}")
    return 0


def number(kind: type, low: int, high: int | float = math.inf) -> Callable[[str], int | float]:
    """A reader of numbers of a kind, from low up to but without high."""

    def read(text: str) -> int | float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if low <= value < high or value == high == math.inf:
            return value
        what = "a whole number" if kind is int else "a number"
        limit = f" and below {high:,}" if high <= 1 or value >= high < math.inf else ""
        raise argparse.ArgumentTypeError(
            f"expected {what} of at least {low:g}{limit}, got {text!r}"
        )

    return read


def above_zero(text: str, most: float = sys.float_info.max) -> float:
    """A number that may be as small as one likes, but not zero, and no more than `most`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if 0 < value <= most:
        return value
    limit = f" and at most {most:g}" if most < sys.float_info.max else ""
    raise argparse.ArgumentTypeError(f"expected a number above 0{limit}, got {text!r}")


COUNT, SHARE, SEED = number(int, 1, 10**9), number(float, 0, 1), number(int, 0, 10**9)
WIDTH, PENALTY, HEAT = number(int, 1, 1001), number(float, 0, 100), number(float, 0, 1000)
OPTIONS = {  # of `train`: what they take, and what they mean
    "epochs": (COUNT, "how often to go through the pairs"),
    "steps": (COUNT, "how many updates to make, instead of --epochs"),
    "d-model": (COUNT, "width of the model"),
    "d-ff": (COUNT, "width inside the feed-forward layers"),
    "heads": (COUNT, "attention heads in each layer"),
    "layers": (COUNT, "layers of the encoder, and as many of the decoder"),
    "vocabulary": (COUNT, "tokens of the vocabulary both languages share"),
    "dropout": (SHARE, "probability of dropout"),
    "bpe-dropout": (SHARE, "probability with which a merge is left out when words are cut (0)"),
    "smoothing": (SHARE, "label smoothing (0.1)"),
    "batch-tokens": (COUNT, "positions of a batch on each side, padding included"),
    "accumulate": (COUNT, "batches of one update, of each process (1)"),
    "update-batches": (COUNT, "batches of one update, of all processes together; instead of "
                       "--accumulate, for the same updates on any number of processes"),
    "learning-rate": (above_zero, "peak of the learning rate (the paper's: (d_model warmup)^-0.5)"),
    "warmup": (COUNT, "steps in which the learning rate rises"),
    "cooldown": (SHARE, "last share of the steps, in which the learning rate falls to zero (0)"),
    "max-norm": (above_zero, "shorten gradients that are longer than this (never)"),
    "seed": (SEED, "another number, another run (0)"),
    "validate-every": (COUNT, "validate after so many steps (after every epoch)"),
    "average-every": (COUNT, "steps from one checkpoint of an average to the next, the last of "
                      "which is validated (as many as from one validation to the next)"),
    "average": (COUNT, "translate with the average of that many last checkpoints (section 6.1)"),
    "keep": (COUNT, "checkpoints to keep, besides the newest; at least those that are averaged"),
    "threads": (number(int, 1, 10**4), "processor cores to use (all)"),
}  # fmt: skip
SWITCHES = {
    "norm-first": "LayerNorm before each sub-layer; the paper has it after",
    "compile": "use torch.compile: a slow start, then faster on a GPU",
    "shard": "spread weights, gradients and Adam's state over the processes of torchrun, where a "
    "model does not fit into each",
}
CHOICES = {
    "preset": (list(PRESETS), "named settings, which the options below change: tiny (a quick try), "
               "multi30k and tatoeba (small models for these data, in about two hours of one "
               "core; the usual choice), base and big (the paper's; base is usual for shards)"),
    "precision": (["auto", "bf16", "fp16", "fp32"], "the half precision that the machine has units "
                  "for, bf16 before fp16, else fp32 (auto)"),
}  # fmt: skip
LOST = ("closed by peer", "reset by peer", "Broken pipe", "imed out")  # of other processes
SHADES = " ░▒▓█"
EXAMPLES = """examples:
  python -m allyouneed train --data tatoeba-en-fr --out runs/first
  python -m allyouneed translate "A man rides a horse." --model runs/first
  python -m allyouneed evaluate --data tatoeba-en-fr --model runs/first"""
TRAIN_EXAMPLES = """examples:
  a small model in some minutes, to see how it goes:
    python -m allyouneed train --data tatoeba-en-fr --preset tiny --out runs/tiny
  stop it with Ctrl-C, and go on:
    python -m allyouneed train --resume --out runs/tiny
  on your own pairs (each line: a sentence, a tab, its translation), with less dropout:
    python -m allyouneed train --data pairs.tsv --dropout 0.1 --out runs/mine
  on two GPUs:
    torchrun --nproc-per-node 2 -m allyouneed train --data pairs.tsv --preset base --out runs/b
  the paper's base model, on eight GPUs; a process that dies is started again, up to three times:
    torchrun --nproc-per-node 8 --max-restarts 3 -m allyouneed train --resume \\
      --config recipes/base-en-de.toml --data shards/en-de --out runs/base"""
PREPARE_EXAMPLES = """examples:
  python -m allyouneed prepare --data wmt14-en-de --out shards/en-de
  python -m allyouneed train --config recipes/base-en-de.toml --data shards/en-de --out runs/base
  python -m allyouneed evaluate --data shards/en-de --split test --model runs/base"""
TRANSLATE_EXAMPLES = """examples:
  python -m allyouneed translate "A man rides a horse." --model multi30k-en-de
  python -m allyouneed translate "A man rides a horse." --model runs/first --show-attention
  python -m allyouneed translate --model runs/first < english.txt > french.txt"""


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    plain = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    top = argparse.ArgumentParser(
        "python -m allyouneed", description="Train a Transformer, translate with it, and say how "
        "good it is.", epilog=EXAMPLES, **plain,
    )  # fmt: skip
    top.add_argument("--version", action="version", version=f"allyouneed {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    p = commands.add_parser(
        "prepare", help="fetch WMT 2014 and write it as shards, to train on", **plain,
        epilog=PREPARE_EXAMPLES,
        description="Read millions of pairs from the Hugging Face hub, learn a vocabulary, and\n"
        "write them as token ids: 0.6 GB with German, 5 GB with French. If it is broken off, give\n"
        "the same command again: it goes on. In a finished folder it looks whether all is sound.",
    )  # fmt: skip
    p.set_defaults(run=prepare_command)
    p.add_argument("--data", required=True, choices=CORPORA, help="the set, from English to German "
                   "or to French")  # fmt: skip
    p.add_argument("--out", required=True, metavar="FOLDER", help="the folder of the shards")
    t = commands.add_parser(
        "train", help="train a model on pairs of sentences", epilog=TRAIN_EXAMPLES, **plain,
        usage="python -m allyouneed train --data DATA --out FOLDER [options]",
        description="Train a Transformer on pairs of sentences. What a run leaves is in its "
        "folder:\nmodel.safetensors (the best on validation), checkpoints, history and curves.",
    )  # fmt: skip
    t.set_defaults(run=train_command)
    t.add_argument("--data", help=f"{', '.join(SPLITS)}; a file of pairs: a sentence, a tab, its "
                   "translation in each line; or a folder of shards (see prepare)")  # fmt: skip
    t.add_argument("--out", required=True, metavar="FOLDER", help="the folder of the run")
    t.add_argument("--config", metavar="FILE", help="settings from a file, as those in recipes/: "
                   "lines such as d-model = 512, with the names of the options below (TOML); "
                   "options given here come first")  # fmt: skip
    for name, (names, text) in CHOICES.items():
        t.add_argument(f"--{name}", choices=names, help=text)
    t.add_argument("--resume", action="store_true", help="go on from the newest checkpoint, if "
                   "there is one")  # fmt: skip
    for name, (kind, text) in OPTIONS.items():
        t.add_argument(f"--{name}", type=kind, metavar="N", help=text)
    for name, text in SWITCHES.items():
        t.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, help=text)

    for name, text, run, examples in (
        ("translate", "translate a sentence or lines", translate_command, TRANSLATE_EXAMPLES),
        ("evaluate", "score a model: BLEU and chrF", evaluate_command, EXAMPLES),
    ):
        c = commands.add_parser(name, help=text, epilog=examples, **plain)
        c.set_defaults(run=run)
        c.add_argument("--model", required=True, metavar="NAME|PATH", help="a shipped model: "
                       "multi30k-en-de, tatoeba-en-fr; a file; the folder of a run")  # fmt: skip
        c.add_argument("--beam", type=WIDTH, default=4, help="hypotheses kept (4); 1 is greedy")
        c.add_argument("--length-penalty", type=PENALTY, default=0.6, help="alpha of the length "
                       "penalty (0.6): more favours longer translations")  # fmt: skip
        if name == "evaluate":
            c.add_argument(
                "--data", required=True, help="as for train; or wmt14-en-de, wmt14-en-fr"
            )
            c.add_argument("--split", help="train, valid, test; of a file train, valid, all "
                           "(valid, of a file all)")  # fmt: skip
            c.add_argument("--tokenised", choices=["de", "fr"], help="also BLEU of tokenised "
                           "text in this language, as in papers before 2018 (WMT 2014: always)",
                           )  # fmt: skip
            continue
        c.add_argument("sentence", nargs="*", help="what to translate (else: standard input, "
                       "line by line)")  # fmt: skip
        c.add_argument("--sample", action="store_true", help="draw each token by its probability, "
                       "instead of searching for the best")  # fmt: skip
        c.add_argument("--temperature", type=HEAT, help="below 1: bolder on the "
                       "likely ones (1)")  # fmt: skip
        c.add_argument("--top-k", type=COUNT, help="draw among the k likeliest only")
        c.add_argument("--top-p", type=functools.partial(above_zero, most=1.0), help="draw among "
                       "the likeliest that have p together")  # fmt: skip
        c.add_argument("--seed", type=SEED, default=0, help="of the draws (0)")
        c.add_argument("--show-attention", action="store_true", help="what each token written "
                       "attends to in the source, in per cent")  # fmt: skip
        c.add_argument("--layer", type=COUNT, help="of this decoder layer, from 1 (the last)")
        c.add_argument("--head", type=COUNT, help="of this head, from 1 (the mean of all)")
    return top


def main(words: list[str] | None = None) -> int:
    """Run one command, and say in one line what went wrong."""
    if sys.stderr is None:  # as with 2>&-
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    args = parser().parse_args(words)
    args.words = sys.argv[1:] if words is None else words
    try:
        if sys.stdout is None:  # as with >&-
            raise ValueError("standard output: expected an open one, got a closed one")
        return args.run(args)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if args.run is not train_command:
            return 0
        message = "standard output was closed. All checkpoints are kept: go on with --resume"
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = (
                "the disk is full. What was written before is whole: free some space and go on "
                "with the same command; `train` with --resume"
            )
    except UnicodeEncodeError as error:
        message = f"a name: expected UTF-8, got {error.object[error.start : error.end]!r} in it"
    except (ValueError, TypeError, FloatingPointError, DataError) as error:
        message = str(error)
    except (MemoryError, OverflowError) as error:
        message = f"a number is too large: {error}"
    except RuntimeError as error:
        if distributed.is_initialized() and any(word in str(error) for word in LOST):
            message = (
                f"another process was lost ({str(error).splitlines()[0][:100]}). All checkpoints "
                "are kept: go on with --resume; torchrun does with --max-restarts"
            )
        elif "allocate memory" in str(error) or "out of memory" in str(error):
            message = "not enough memory: a smaller --beam, --batch-tokens or model may fit"
        elif "InvalidCxxCompiler" in str(error):
            message = "--compile: expected a working C++ compiler, found none"
        else:
            raise
    if "WORLD_SIZE" not in os.environ or os.environ.get("RANK") == "0":  # torchrun sets both
        print(f"error: {message}", file=sys.stderr)
    return 2
