"""The settings of a run of training: each is declared once, with all that is said about it.

This module is plumbing written by hand. A field of `Settings` has a default and, in its
metadata, a help text, the group it stands in, what it may be, what None means, and whether it may
change when a run goes on. From there come the options of `python -m allyouneed train`, the names
in a TOML file, all checks, and what a checkpoint records. To add a setting, add a field.
"""

from __future__ import annotations

import difflib
import math
import sys
import tomllib
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

# What a setting may be


@dataclass(frozen=True)
class Number:
    """A number of a kind, not outside of its bounds."""

    kind: type[int] | type[float]
    least: int | float = -math.inf
    above: int | float = -math.inf
    below: int | float = math.inf
    most: int | float = sys.float_info.max

    def read(self, text: str) -> int | float:
        """The number that a text says. Raises ValueError as `check` does."""
        try:
            value = self.kind(text)
        except ValueError:
            value = text
        return self.check(value)

    def check(self, value: Any) -> int | float:
        """The value, as a number of the kind. Raises ValueError if it is none, or out of bounds."""
        kinds = int if self.kind is int else (int, float)
        number = isinstance(value, kinds) and not isinstance(value, bool)
        if number and self.least <= value <= self.most and self.above < value < self.below:
            return self.kind(value)
        what = "a whole number" if self.kind is int else "a number"
        if number and math.isinf(value):
            what = "a finite number"
        low = f"above {self.above:g}" if self.least < self.above else f"of at least {self.least:g}"
        high = ""
        if self.below <= 1 or (number and value >= self.below < math.inf):
            high = f" and below {self.below:,}"
        if self.most < sys.float_info.max:
            high = f" and at most {self.most:g}"
        raise ValueError(f"expected {what} {low}{high}, got {value!r}")


@dataclass(frozen=True)
class Word:
    """One of some words, or any text."""

    choices: tuple[str, ...] = ()

    def check(self, value: Any) -> str:
        """The value. Raises ValueError for another, and for an empty text."""
        if self.choices and value not in self.choices:
            raise ValueError(f"expected one of {', '.join(self.choices)}, got {value!r}")
        if not isinstance(value, str):
            raise ValueError(f"expected a name in quotes, got {value!r}")
        if not value:  # which as a path would be the current folder
            raise ValueError("expected a name, got ''")
        return value


@dataclass(frozen=True)
class Switch:
    """True or false."""

    def check(self, value: Any) -> bool:
        """The value. Raises ValueError for another."""
        if not isinstance(value, bool):
            raise ValueError(f"expected true or false, got {value!r}")
        return value


COUNT, SEED = Number(int, least=1, below=10**9), Number(int, least=0, below=10**9)
SHARE, POSITIVE = Number(float, least=0, below=1), Number(float, above=0)


# The settings


def setting(
    default: Any, may: Number | Word | Switch, group: str, text: str, *, unset: str = "",
    resuming: Literal["fixed", "free", "anew"] = "fixed",
) -> Any:  # fmt: skip
    """A field of `Settings`.

    Args:
        default: its value where nothing else is chosen.
        may: what its value may be; beside that None, if this is the default.
        group: the heading under which `--help` shows it.
        text: what it means.
        unset: what None means, in words.
        resuming: "fixed" for what must stay when a run goes on, "free" for what may change, "anew"
            for what each start decides for itself; it is not recorded.
    """
    about = {"may": may, "group": group, "help": text, "unset": unset, "resuming": resuming}
    return field(default=default, metadata=about)


@dataclass(frozen=True)
class Settings:
    """All that is decided about a run; usual is the paper's base model.

    Raises ValueError, with the setting's name, for a value that it may not have.
    """

    data: str | None = setting(
        None, Word(), "data",
        "tatoeba-en-fr, multi30k-en-de; a file of pairs: a sentence, a tab, its translation in "
        "each line; or a folder of shards (see prepare)",
        resuming="free",  # to another place, where it must be the same
    )  # fmt: skip
    vocabulary: int = setting(
        37_000,
        Number(int, least=1, below=10**6),
        "data",
        "tokens of the vocabulary of both languages; shards have their own",
    )
    bpe_dropout: float = setting(
        0.0, SHARE, "data", "probability with which a merge is left out when words are cut"
    )
    d_model: int = setting(512, COUNT, "model", "width of the model")
    d_ff: int = setting(2048, COUNT, "model", "width inside the feed-forward layers")
    heads: int = setting(8, COUNT, "model", "attention heads in each layer")
    layers: int = setting(
        6, Number(int, least=1, below=1000), "model",
        "layers of the encoder, and as many of the decoder",
    )  # fmt: skip
    norm_first: bool = setting(
        False, Switch(), "model", "LayerNorm before each sub-layer; the paper has it after"
    )
    dropout: float = setting(0.1, SHARE, "model", "probability of dropout")
    steps: int | None = setting(
        100_000, COUNT, "length of the run", "how many updates to make, instead of epochs",
        resuming="free",
    )  # fmt: skip
    epochs: int | None = setting(
        None, COUNT, "length of the run", "how often to go through the pairs", resuming="free"
    )
    batch_tokens: int = setting(
        25_000, COUNT, "updates", "positions of a batch on each side, padding included"
    )
    accumulate: int | None = setting(
        None, COUNT, "updates", "batches of one update, of each process",
        unset="1", resuming="free",  # with the number of processes; the update stays what it is
    )  # fmt: skip
    update_batches: int | None = setting(
        None, COUNT, "updates",
        "batches of one update, of all processes together; instead of accumulate, for the same "
        "updates on any number of processes",
        resuming="free",  # as above
    )  # fmt: skip
    smoothing: float = setting(0.1, SHARE, "updates", "label smoothing")
    max_norm: float | None = setting(
        None, POSITIVE, "updates", "shorten gradients that are longer than this", unset="never"
    )
    seed: int = setting(0, SEED, "updates", "another number, another run")
    learning_rate: float | None = setting(
        None, POSITIVE, "learning rate", "its peak", unset="the paper's, (d_model warmup)^-0.5"
    )
    warmup: int = setting(4000, COUNT, "learning rate", "steps in which it rises")
    cooldown: float = setting(
        0.0, SHARE, "learning rate", "last share of the steps, in which it falls to zero",
        resuming="free",
    )  # fmt: skip
    validate_every: int | None = setting(
        2000, COUNT, "validation and checkpoints", "steps from one validation to the next",
        unset="an epoch", resuming="free",
    )  # fmt: skip
    average: int = setting(
        5, COUNT, "validation and checkpoints",
        "translate with the average of that many last checkpoints (section 6.1)", resuming="free",
    )  # fmt: skip
    average_every: int | None = setting(
        None, COUNT, "validation and checkpoints",
        "steps from one checkpoint of an average to the next, the last of which is validated",
        unset="as many as from one validation to the next", resuming="free",
    )  # fmt: skip
    keep: int = setting(
        2, COUNT, "validation and checkpoints",
        "checkpoints to keep, besides the newest; at least those that are averaged",
        resuming="free",
    )  # fmt: skip
    precision: str = setting(
        "auto", Word(("auto", "bf16", "fp16", "fp32")), "machine",
        "of most products; auto is the half precision that the machine has units for, bf16 before "
        "fp16, else fp32",
    )  # fmt: skip
    compile: bool = setting(
        False, Switch(), "machine", "use torch.compile: a slow start, then faster on a GPU",
        resuming="free",
    )  # fmt: skip
    shard: bool = setting(
        False, Switch(), "machine",
        "spread weights, gradients and Adam's state over the processes of torchrun, where a model "
        "does not fit into each",
        resuming="free",
    )  # fmt: skip
    threads: int | None = setting(
        None, Number(int, least=1, below=10**4), "machine", "processor cores to use",
        unset="all", resuming="anew",
    )  # fmt: skip

    def __post_init__(self):
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None and each.type.endswith("None"):
                continue
            try:
                each.metadata["may"].check(value)
            except ValueError as error:
                raise ValueError(f"{each.name}: {error}") from None

    def record(self, processes: int) -> dict[str, Any]:
        """The settings as a checkpoint of a run of so many processes keeps them."""
        anew = {name for name, about in ABOUT.items() if about["resuming"] == "anew"}
        return {k: v for k, v in asdict(self).items() if k not in anew} | {"processes": processes}


ABOUT = {each.name: each.metadata for each in fields(Settings)}
# Whoever chooses one of two chooses against the other
ALTERNATIVES = (("steps", "epochs"), ("accumulate", "update_batches"))


# Named settings

BASE_RUN = Settings()
SMALL_RUN = Settings(
    d_model=256, d_ff=512, heads=4, layers=3, vocabulary=4000, dropout=0.3, norm_first=True,
    batch_tokens=2048, learning_rate=2e-3, warmup=400, steps=None, epochs=30, cooldown=0.3,
    validate_every=None, average=8,
)  # fmt: skip
PRESETS = {
    "tiny": replace(
        SMALL_RUN, d_model=64, d_ff=128, layers=2, vocabulary=1000, dropout=0.1, epochs=3
    ),
    "multi30k": replace(
        SMALL_RUN, d_model=128, d_ff=256, layers=4, vocabulary=8000, batch_tokens=4096,
        learning_rate=5e-3, warmup=2000, epochs=48, cooldown=0.5,
    ),
    "tatoeba": replace(
        SMALL_RUN, dropout=0.1, batch_tokens=4096, learning_rate=3e-3, warmup=1500, epochs=20,
        cooldown=0.6, average=5,
    ),
    "base": BASE_RUN,
    "big": replace(
        BASE_RUN, d_model=1024, d_ff=4096, heads=16, dropout=0.3, steps=300_000, average=20
    ),
}  # fmt: skip
PRESET = Word(tuple(PRESETS))


def preset_for(data: str | None) -> str:
    """The preset that is usual for a set of pairs, a file or a folder of shards."""
    if data and Path(data).is_dir():
        return "base"
    return "tatoeba" if data == "tatoeba-en-fr" else "multi30k"


def values_in_presets(name: str) -> str:
    """A setting's usual value in words: one, or that of each preset."""
    unset, words = ABOUT[name]["unset"], {}
    for preset, settings in PRESETS.items():
        value = getattr(settings, name)
        if isinstance(value, bool):
            value = "yes" if value else "no"
        elif isinstance(value, int | float):
            value = f"{value:,}" if isinstance(value, int) else f"{value:g}"
        if value := value or unset:
            words.setdefault(value, []).append(preset)
    if [*words.values()] == [[*PRESETS]]:
        return next(iter(words))
    return "; ".join(f"{', '.join(presets)}: {value}" for value, presets in words.items())


# Choosing


def unset_alternatives(chosen: dict[str, Any]) -> dict[str, Any]:
    """Some settings, and None for those that they take the place of.

    Raises ValueError for both steps and epochs.
    """
    if {"steps", "epochs"} <= chosen.keys():
        raise ValueError("steps: expected steps or epochs, got both")
    for either in ALTERNATIVES:
        if chosen.keys() & set(either):
            chosen = dict.fromkeys(either) | chosen
    return chosen


def read_settings(config: Path) -> dict[str, Any]:
    """The settings of a TOML file, under the names of the options: d-model = 512.

    Beside those of `Settings` it may name a preset. Raises ValueError for a file or a value that
    does not fit.
    """
    try:
        table = tomllib.loads(config.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ValueError(f"config: expected a file of settings, found none at {config}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{config}: expected TOML (name = value), got: {error}") from None
    may = {name.replace("_", "-"): about["may"] for name, about in ABOUT.items()}
    may["preset"] = PRESET
    settings = {}
    for key, value in table.items():
        if key not in may:
            near = difflib.get_close_matches(key, may, 1)
            hint = f"; did you mean {near[0]}?" if near else f" ({', '.join(may)})"
            raise ValueError(f"{config}: expected options of train, got {key!r}{hint}")
        try:
            settings[key.replace("-", "_")] = may[key].check(value)
        except ValueError as error:
            raise ValueError(f"{config}, {key}: {error}") from None
    try:
        return unset_alternatives(settings)
    except ValueError as error:
        raise ValueError(f"{config}, {error}") from None


def recorded_settings(record: dict[str, Any]) -> Settings:
    """What `Settings.record` kept; an older record lacks settings, which then are what is usual.

    Raises ValueError for a setting that is not known.
    """
    known = {name: value for name, value in record.items() if name != "processes"}
    if others := known.keys() - ABOUT.keys():
        raise ValueError(f"{min(others)}: expected a setting of this version, got one of another")
    settings = Settings(**known)
    if settings.update_batches is None:  # of an older version
        number = record.get("processes", 1) * (settings.accumulate or 1)
        settings = replace(settings, update_batches=number)
    return settings


def change_settings(old: Settings, chosen: dict[str, Any]) -> Settings:
    """The settings of a run that goes on, with those that are chosen in place of the old ones.

    Raises ValueError for another value of a setting that may not change.
    """
    for name, value in chosen.items():
        if ABOUT[name]["resuming"] == "fixed" and value != getattr(old, name):
            raise ValueError(f"{name}: this run began with {getattr(old, name)}, got {value}")
    return replace(old, **chosen)
