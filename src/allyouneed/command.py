"""The command line: train a Transformer, translate with it, and say how good it is.

This module is plumbing written by hand. `allyouneed --help` says how it is used. What goes wrong
ends in one line and exit code 2; a run that is asked to stop ends in 130.
"""

from __future__ import annotations

import argparse
import errno
import itertools
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from allyouneed import __version__
from allyouneed.data import SPLITS, plain_signs
from allyouneed.decoding import beam_search, sample, translate
from allyouneed.evaluation import papers_bleu, scores
from allyouneed.history import progress_bar
from allyouneed.pairs import read_pairs
from allyouneed.processes import choose_device, speaks
from allyouneed.runs import train_run
from allyouneed.saving import load_model, pretrained
from allyouneed.settings import (
    ABOUT,
    COUNT,
    PRESETS,
    SEED,
    Number,
    Switch,
    preset_for,
    read_settings,
    unset_alternatives,
    values_in_presets,
)
from allyouneed.shards import read_manifest
from allyouneed.sources import DataError
from allyouneed.tokens import BOS, EOS, Tokenizer
from allyouneed.transformer import Transformer
from allyouneed.wmt import CORPORA, prepare_shards

LOST = ("closed by peer", "reset by peer", "broken pipe", "timed out")  # of other processes
SHADES = " ░▒▓█"
LONG = 500  # tokens of a sentence that takes seconds


def prepare_command(args: argparse.Namespace) -> int:
    """Make the shards of a set, or go on with it; a finished folder is verified."""
    prepare_shards(args.data, args.out, lambda text: print(text, flush=True))
    return 0


def train_command(args: argparse.Namespace) -> int:
    """Train a model: options, before a file of settings, before a preset, before what is usual."""
    options = {name: getattr(args, name) for name in (*ABOUT, "preset")}
    options = {name: value for name, value in options.items() if value is not None}
    file = {} if args.config is None else read_settings(Path(args.config))
    chosen = file | unset_alternatives(options)
    preset = chosen.pop("preset", None)
    if preset:  # all of it is chosen, but no data
        chosen = asdict(replace(PRESETS[preset], **chosen))
        if chosen["data"] is None:
            del chosen["data"]
    defaults = PRESETS[preset or preset_for(chosen.get("data"))]
    command = shlex.join(["python", "-m", "allyouneed", *args.words])
    if train_run(Path(args.out), chosen, defaults, args.resume, command):
        return 0
    if speaks():
        print(as_called(f"To go on:\n  python -m allyouneed train --resume --out {args.out}"))
    return 130


def translate_command(args: argparse.Namespace) -> int:
    """Translate a sentence, or standard input line by line, into as many lines."""
    device = choose_device()
    model, tokenizer = find_model(args.model, device)
    check_options(args, model)
    generator = torch.Generator(device).manual_seed(args.seed or 0)
    all_fit = True
    for lines in lines_asked(args):
        texts, fit = texts_that_fit(lines, model, tokenizer)
        all_fit = all_fit and fit
        if args.sample or args.show_attention:
            for text in texts:
                print(translation_alone(model, tokenizer, text, args, generator), flush=True)
        else:
            print("\n".join(translate_texts(model, tokenizer, texts, args)), flush=True)
    return 0 if all_fit else 2


def lines_asked(args: argparse.Namespace) -> Iterator[list[str]]:
    """The sentence of the command, or the lines of standard input, several at a time.

    Raises ValueError for the name of a file.
    """
    words = os.fsencode(" ".join(args.sentence)).decode(errors="replace")
    if len(args.sentence) == 1 and os.path.isfile(words):
        raise ValueError(f"sentence: {words} is a file; to translate its lines, write < {words}")
    lines = iter([words] if args.sentence else sys.stdin)
    at_once = 1 if args.sentence or args.show_attention or sys.stdin.isatty() else 256
    while some := list(itertools.islice(lines, at_once)):
        yield some


def texts_that_fit(
    lines: Sequence[str], model: Transformer, tokenizer: Tokenizer
) -> tuple[list[str], bool]:
    """The lines as the model reads them, "" for one that is too long; and whether all fit.

    Says so where a line is no text, too long or slow.
    """
    known, room = tokenizer.bpe.get_vocab(), len(model.positions.table)
    texts = [plain_signs(line.strip("\ufeff"), known) for line in lines]
    if odd := [text for text in texts if "\ufffd" in text]:  # in the place of what is no text
        print(f"A line is not text in UTF-8: {odd[0][:40]!r} ...", file=sys.stderr)
    lengths = [len(tokenizer.encode(text)) for text in texts]
    if max(lengths) >= room:
        print(f"error: a sentence has {room:,} tokens or more: its line stays empty",
              file=sys.stderr)  # fmt: skip
    if long := [n for n in lengths if LONG <= n < room]:
        print(f"A sentence of {max(long):,} tokens takes its time ...", file=sys.stderr)
    texts = [text if n < room else "" for text, n in zip(texts, lengths, strict=True)]
    return texts, max(lengths) < room


def translation_alone(
    model: Transformer, tokenizer: Tokenizer, text: str, args: argparse.Namespace,
    generator: torch.Generator,
) -> str:  # fmt: skip
    """The translation of one sentence, drawn or searched for, and what it attends to if asked."""
    ids = tokenizer.encode(text)
    if not ids:
        return ""
    src = torch.tensor([[*ids, EOS]], device=generator.device)
    if args.sample:
        heat = 1.0 if args.temperature is None else args.temperature
        (out,) = sample(model, src, heat, args.top_k, args.top_p, generator=generator)
    else:
        (out,) = beam_search(model, src, args.beam, args.length_penalty)
    lines = [tokenizer.decode(out)]
    if args.show_attention:
        lines.append(attention_text(model, tokenizer, src, out, args.layer, args.head))
    return "\n".join(lines)


def check_options(args: argparse.Namespace, model: Transformer) -> None:
    """Raise ValueError for options of `translate` that this model or the other options rule out."""
    if not args.sentence and sys.stdin is None:
        raise ValueError("sentence: expected one, or lines on standard input, got neither")
    for name in ("temperature", "top_k", "top_p", "seed"):
        if getattr(args, name) is not None and not args.sample:
            raise ValueError(f"--{name.replace('_', '-')}: expected --sample beside it")
    for name, usual in (("beam", BEAM), ("length_penalty", ALPHA)):
        if getattr(args, name) != usual and args.sample:
            raise ValueError(f"--{name.replace('_', '-')}: expected no --sample beside it")
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


def translate_texts(
    model: Transformer, tokenizer: Tokenizer, texts: Sequence[str], args: argparse.Namespace,
    shown: bool = False,
) -> list[str]:  # fmt: skip
    """Translations by beam search, short texts first, as `translate` does; with a bar for many."""
    lengths = [len(tokenizer.encode(text)) for text in texts]
    order = sorted(range(len(texts)), key=lengths.__getitem__)
    batch = max(1, min(64, 8192 // (max(lengths, default=0) + 1)))  # fewer when they are long
    translations = [""] * len(texts)
    with progress_bar(0, len(order), "sentence", shown) as bar:
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            some = [texts[i] for i in chosen]
            found = translate(model, tokenizer, some, args.beam, args.length_penalty, batch)
            for i, translation in zip(chosen, found, strict=True):
                translations[i] = translation
            bar.update(len(chosen))
    return translations


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
    print(f"Reading {args.model} and the pairs of {args.data} ...", file=sys.stderr, flush=True)
    device = choose_device()
    model, tokenizer = find_model(args.model, device)
    named = args.data in [*SPLITS, *CORPORA] or Path(args.data).is_dir()
    split = args.split or ("valid" if named else "all")
    pairs = read_pairs(args.data, split)
    if not pairs:
        raise ValueError(f"--split: expected pairs in {split} of {args.data}, got none")
    known, room = tokenizer.bpe.get_vocab(), len(model.positions.table)
    longest = max(len(tokenizer.encode(plain_signs(source, known))) for source, _ in pairs)
    if longest >= room:
        raise ValueError(f"--data: expected sentences of less than {room} tokens, got {longest}")
    start = time.monotonic()
    written = translate_texts(model, tokenizer, [source for source, _ in pairs], args, True)
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


BEAM, ALPHA = 4, 0.6  # of a search of which nothing is said
WIDTH, PENALTY = Number(int, least=1, below=1001), Number(float, least=0, most=10)
HEAT, PROBABILITY = Number(float, least=0, below=1000), Number(float, above=0, most=1)
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
      --config recipes/base-en-de.toml --data shards/en-de --out runs/base
  on several machines that all see the folders, the same line on each, begun with:
    TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --nnodes 2 --rdzv-backend c10d \\
      --rdzv-endpoint FIRST:29500 --nproc-per-node 8 --max-restarts 3 ...
  When a process dies, torchrun ends the others and starts all anew; with --resume they find
  the newest checkpoint. The number of processes may change then, so long as it divides
  --update-batches. --shard spreads the model over the processes."""
PREPARE_EXAMPLES = """examples:
  python -m allyouneed prepare --data wmt14-en-de --out shards/en-de
  python -m allyouneed train --config recipes/base-en-de.toml --data shards/en-de --out runs/base
  python -m allyouneed evaluate --data shards/en-de --split test --model runs/base"""
TRANSLATE_EXAMPLES = """examples:
  python -m allyouneed translate "A man rides a horse." --model multi30k-en-de
  python -m allyouneed translate "A man rides a horse." --model runs/first --show-attention
  python -m allyouneed translate --model runs/first < english.txt > french.txt"""


def as_called(text: str) -> str:
    """Commands as the reader can type them, where they have `python -m allyouneed` or `torchrun`.

    These are right where an environment is active. Where it is not, they are called by a path, and
    stand beside each other: `.venv/bin/allyouneed`, or `.venv/bin/python -m allyouneed`.
    """
    script = Path(sys.argv[0]).stem == "allyouneed"
    called = sys.argv[0] if script else sys.orig_argv[0]
    name = os.path.basename(called)
    # if it is where the name alone leads to, the shell has written out the path
    folder = "" if shutil.which(name) == called else called.removesuffix(name)
    words, beside = (f'"{x}"' if " " in x else x for x in (folder + name, folder + "torchrun"))
    words += " -m allyouneed" * (not script)
    return text.replace("python -m allyouneed", words).replace("torchrun --", f"{beside} --")


COMMON = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(
        as_called("python -m allyouneed"), epilog=as_called(EXAMPLES), **COMMON,
        description="Train a Transformer, translate with it, and say how good it is.",
    )  # fmt: skip
    top.add_argument("--version", action="version", version=f"allyouneed {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for add_command in (add_prepare, add_train, add_translate, add_evaluate):
        add_command(commands)
    return top


def add_prepare(commands: argparse._SubParsersAction) -> None:
    """The command that makes shards."""
    prepare = commands.add_parser(
        "prepare", help="fetch WMT 2014 and write it as shards, to train on", **COMMON,
        epilog=as_called(PREPARE_EXAMPLES),
        description="Read millions of pairs from the Hugging Face hub, learn a vocabulary, and\n"
        "write them as token ids: 0.6 GB with German, 5 GB with French. If it is broken off, give\n"
        "the same command again: it goes on. In a finished folder it looks whether all is sound.",
    )  # fmt: skip
    prepare.set_defaults(run=prepare_command)
    add = prepare.add_argument
    add("--data", required=True, choices=CORPORA, help="the set, from English to German or to "
        "French")  # fmt: skip
    add("--out", required=True, metavar="FOLDER", help="the folder of the shards")


def add_train(commands: argparse._SubParsersAction) -> None:
    """The command that trains, with an option for each setting."""
    train = commands.add_parser(
        "train", help="train a model on pairs of sentences", epilog=as_called(TRAIN_EXAMPLES),
        usage=as_called("python -m allyouneed train --data DATA --out FOLDER [options]"), **COMMON,
        description="Train a Transformer on pairs of sentences. What a run leaves is in its "
        "folder:\nmodel.safetensors (the best on validation), checkpoints, history and curves.",
    )  # fmt: skip
    train.set_defaults(run=train_command)
    add = train.add_argument
    add("--out", required=True, metavar="FOLDER", help="the folder of the run")
    add("--resume", action="store_true", help="go on from the newest checkpoint, if there is one")
    add("--preset", choices=PRESETS, help="named settings, which the options below change: tiny "
        "(a quick try), multi30k and tatoeba (small models for these data, in about two hours of "
        "one core; the usual choice), base and big (the paper's; base is usual for "
        "shards)")  # fmt: skip
    add("--config", metavar="FILE", help="settings from a file, as those in recipes/: lines such "
        "as d-model = 512, with the names of the options below (TOML); options given here come "
        "first")  # fmt: skip
    add_settings(train)


def add_translate(commands: argparse._SubParsersAction) -> None:
    """The command that translates."""
    translate = commands.add_parser(
        "translate", help="translate a sentence or lines", epilog=as_called(TRANSLATE_EXAMPLES),
        **COMMON,
    )  # fmt: skip
    translate.set_defaults(run=translate_command)
    add_model_and_search(translate)
    add = translate.add_argument
    add("sentence", nargs="*", help="what to translate (else: standard input, line by line)")
    add("--sample", action="store_true", help="draw each token by its probability, instead of "
        "searching for the best")  # fmt: skip
    add("--temperature", type=reader(HEAT), help="below 1: bolder on the likely ones (1)")
    add("--top-k", type=reader(COUNT), help="draw among the k likeliest only")
    add("--top-p", type=reader(PROBABILITY), help="draw among the likeliest that have p together")
    add("--seed", type=reader(SEED), help="of the draws (0)")
    add("--show-attention", action="store_true", help="what each token written attends to in the "
        "source, in per cent")  # fmt: skip
    add("--layer", type=reader(COUNT), help="of this decoder layer, from 1 (the last)")
    add("--head", type=reader(COUNT), help="of this head, from 1 (the mean of all)")


def add_evaluate(commands: argparse._SubParsersAction) -> None:
    """The command that scores."""
    evaluate = commands.add_parser(
        "evaluate", help="score a model: BLEU and chrF", epilog=as_called(EXAMPLES), **COMMON
    )
    evaluate.set_defaults(run=evaluate_command)
    add_model_and_search(evaluate)
    add = evaluate.add_argument
    add("--data", required=True, help="as for train; or wmt14-en-de, wmt14-en-fr")
    add("--split", help="train, valid, test; of a file train, valid, all (valid, of a file all)")
    add("--tokenised", choices=["de", "fr"], help="also BLEU of tokenised text in this language, "
        "as in papers before 2018 (WMT 2014: always)")  # fmt: skip


def add_model_and_search(command: argparse.ArgumentParser) -> None:
    """What `translate` and `evaluate` have in common: which model, and how it searches."""
    add = command.add_argument
    add("--model", required=True, metavar="NAME|PATH", help="a shipped model: multi30k-en-de, "
        "tatoeba-en-fr; a file; the folder of a run")  # fmt: skip
    add("--beam", type=reader(WIDTH), default=BEAM,
        help=f"hypotheses kept ({BEAM}); 1 is greedy")  # fmt: skip
    add("--length-penalty", type=reader(PENALTY), default=ALPHA, help="alpha of the length "
        f"penalty ({ALPHA}): more favours longer translations")  # fmt: skip


def add_settings(command: argparse.ArgumentParser) -> None:
    """An option for each field of `Settings`, under the heading of its group."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for name, about in ABOUT.items():
        group = about["group"]
        groups[group] = groups.get(group) or command.add_argument_group(group)
        default, may = values_in_presets(name), about["may"]
        kind: dict[str, Any] = {"help": about["help"] + f" ({default})" * bool(default)}
        if isinstance(may, Switch):
            kind["action"] = argparse.BooleanOptionalAction
        elif isinstance(may, Number):
            kind |= {"type": reader(may), "metavar": "N"}
        elif may.choices:
            kind["choices"] = may.choices
        groups[group].add_argument("--" + name.replace("_", "-"), **kind)


def reader(number: Number) -> Callable[[str], int | float]:
    """What argparse calls to read a number; of other errors it would not show the words."""

    def read(text: str) -> int | float:
        try:
            return number.read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


# What the package calls otherwise than the command
OPTIONS = {
    "n_heads": "heads", "n_layers": "layers", "vocab_size": "vocabulary", "folder": "out",
}  # fmt: skip
CALL = r"`prepare_shards\('(.*?)', '(.*?)'\)`"


def in_options(message: str, args: argparse.Namespace) -> str:
    """An error of the package in words of the command: options in the place of arguments.

    "n_heads: expected a divisor of d_model = 8" is "--heads: expected a divisor of d-model = 8".
    """
    options = vars(args).keys() - {"sentence", "run", "words"}  # which are none
    name, colon, rest = message.partition(": ")
    name = OPTIONS.get(name, name)
    if colon and name in options:
        message = f"--{name.replace('_', '-')}: {rest}"
    names = "|".join(option for option in options if "_" in option)
    pattern = rf"(?<![\w'/\\.-])({names})(?![\w'/\\-]|\.\w)"  # no part of a path or a quotation
    if names:
        message = re.sub(pattern, lambda found: found[0].replace("_", "-"), message)
    told = as_called("python -m allyouneed prepare")
    message = re.sub(CALL, lambda call: f"`{told} --data {call[1]} --out '{call[2]}'`", message)
    return message.replace("`prepare_shards`", "`prepare`")


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
        if blank := [name for name, value in vars(args).items() if value == ""]:
            raise ValueError(f"{blank[0]}: expected a name or a path, got ''")
        code = args.run(args)
        sys.stdout.flush()  # here, where it is known what to say if nobody listens any more
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if args.run is not train_command:
            return 0
        message = "standard output was closed. All checkpoints are kept: go on with --resume"
    except Exception as error:
        if (message := in_one_line(error, args)) is None:
            raise
    if speaks():
        print(f"error: {message}", file=sys.stderr)
    return 2


def in_one_line(error: Exception, args: argparse.Namespace) -> str | None:
    """What went wrong, for the reader; None for what is no fault of theirs or of the machine's."""
    text = str(error)
    match error:
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return (
                "the disk is full. What was written before is whole: free some space and go on "
                "with the same command; `train` with --resume"
            )
        case FileExistsError() if error.filename:
            return f"{error.filename}: expected a folder, got a file"
        case OSError():
            return f"{error.filename}: {error.strerror}" if error.filename else text
        case UnicodeEncodeError():
            return f"a name: expected UTF-8, got {error.object[error.start : error.end]!r} in it"
        case ValueError() | TypeError() | FloatingPointError() | DataError():
            return in_options(text, args)
        case MemoryError() | OverflowError():
            return f"a number is too large: {text}"
        case RuntimeError() if "WORLD_SIZE" in os.environ and any(x in text.lower() for x in LOST):
            return (
                f"another process was lost ({text.splitlines()[0][:100]}). All checkpoints "
                "are kept: go on with --resume; torchrun does with --max-restarts"
            )
        case RuntimeError() if "allocate memory" in text or "out of memory" in text:
            return "not enough memory: a smaller --beam, --batch-tokens or model may fit"
        case RuntimeError() if "InvalidCxxCompiler" in text:
            return "--compile: expected a working C++ compiler, found none"
    return None
