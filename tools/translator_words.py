"""How often the translators' training sentences have each word: what their page warns by.

    python tools/translator_words.py     writes book/_static/translator/words.js

A sentence is the stranger to a model, the rarer its words are in what the model has read: the mean
over its words of log2(all words / times this word occurs). The limit is what 98 of a hundred
held-out sentences of the model's own kind stay below. Counts are kept to a power of two.

`first` are the words, as written, with which at least LEAST sentences begin.

`written` says which words the translations have: a bit for each word, at the place that its letters
give. So a word that the model makes up is told, unless it falls upon the place of another's.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections import Counter
from pathlib import Path

from allyouneed.data import load_pairs

FILE = Path(__file__).parents[1] / "book" / "_static" / "translator" / "words.js"
NAMES = ["tatoeba-en-fr", "multi30k-en-de"]
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
FIRST = re.compile(r"[\W\d_]*([^\W\d_]+)")
LETTERS = re.compile(r"[^\W\d_]+")
LEAST, SHARE = 4, 0.98
PLACES = 262_139  # bits for the written words, a prime; a tenth of them are set


def words(sentence: str) -> list[str]:
    return WORD.findall(sentence.lower().replace("’", "'"))


def grouped(counts: Counter) -> list[list[str]]:
    """Group k has the words that occur 2^k to 2^(k+1) times, in alphabetical order."""
    groups = [[] for _ in range(max(counts.values()).bit_length())]
    for word, count in sorted(counts.items()):
        if count >= LEAST:
            groups[count.bit_length() - 1].append(word)
    return groups


def strangeness(sentence: str, total: int, level: dict[str, int]) -> float:
    """Bits a word, as the page computes them. A word that is not kept counts as one occurrence."""
    found = words(sentence)
    bits = [math.log2(total) - level.get(word, 0) for word in found]
    return sum(bits) / max(1, len(bits))


def place(word: str) -> int:
    """The bit of a word: its FNV-1a hash, taken over characters."""
    found = 2166136261
    for letter in word:
        found = (found ^ ord(letter)) * 16777619 % 2**32
    return found % PLACES


def bits(words: set[str]) -> str:
    """The places of all words, eight to a byte, in base64."""
    row = bytearray(-(-PLACES // 8))
    for word in words:
        row[place(word) // 8] |= 1 << place(word) % 8
    return base64.b64encode(row).decode()


def table(name: str) -> dict:
    counts = Counter(word for source, _ in load_pairs(name) for word in words(source))
    total, groups = counts.total(), grouped(counts)
    begun = Counter(found[1] for source, _ in load_pairs(name) if (found := FIRST.match(source)))
    level = {word: k for k, group in enumerate(groups) for word in group}
    own = sorted(strangeness(source, total, level) for source, _ in load_pairs(name, "valid"))
    limit = own[int(SHARE * len(own))]
    return {
        "total": total,
        "limit": round(limit, 2),
        "words": [" ".join(group) for group in groups],
        "first": " ".join(sorted(word for word, count in begun.items() if count >= LEAST)),
        "written": bits(
            {w for _, target in load_pairs(name) for w in LETTERS.findall(target.lower())}
        ),
    }


def script() -> str:
    """The content of words.js."""
    lines = ["// Made by tools/translator_words.py.", "globalThis.Translator ??= {};"]
    lines.append("Translator.words = {")
    for name in NAMES:
        lines.append(f"  {json.dumps(name)}: {json.dumps(table(name), ensure_ascii=False)},")
    return "\n".join([*lines, "};", ""])


if __name__ == "__main__":
    FILE.write_text(script(), encoding="utf-8")
