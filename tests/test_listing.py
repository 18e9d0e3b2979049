"""The package's source as chapters show it: what is left out, and that the rest is as it was."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from allyouneed import attention as attention_module
from allyouneed import listing, masks, multihead, positions, sublayers, transformer
from allyouneed.attention import attention
from allyouneed.positions import LearnedPositions
from allyouneed.tokens import BOS, EOS, PAD
from allyouneed.transformer import TransformerConfig

SOURCE = '''\
    class A(B):
        """Words.

        More words.
        """

        size: int = 3

        def __post_init__(self):
            """Only checks."""
            for name in ("a", "b"):
                value = getattr(self, name)
                if value < 1:
                    raise ValueError(f"{name}: {value}")

        def f(self, x):
            """Words."""
            check_vectors(x)
            if x < 0:
                raise ValueError("x")
            elif x > 3:
                x = 3
            if x is None:
                check_more(x)
                x = 1  # a comment
            for y in x:
                self.z = y
            return """not a docstring"""
'''
LEFT = '''class A(B):
    size: int = 3

    def f(self, x):
        if x < 0:
            raise ValueError("x")
        elif x > 3:
            x = 3
        if x is None:
            x = 1  # a comment
        for y in x:
            self.z = y
        return """not a docstring"""'''


def test_docstrings_and_checks_are_left_out_and_counted():
    text, count = listing.shortened(SOURCE)
    assert text == LEFT
    assert count == {"docstrings": 5, "checks": 8}


@pytest.mark.parametrize("thing", [attention, LearnedPositions, TransformerConfig])
def test_every_line_is_the_packages(thing):
    lines = inspect.getsource(inspect.unwrap(thing)).splitlines()
    shown = listing.of(thing).code.splitlines()
    places = iter(lines)
    assert len(shown) < len(lines) and all(line in places for line in shown)  # and in its order
    assert "Raises" not in "".join(shown) and "expected" not in "".join(shown)


@dataclass(frozen=True)
class Sizes:
    """Words."""

    width: int = 8


def test_what_a_notebook_gets():
    # of a class of the package, the check of shapes can hide the decorator
    both = listing.of(attention, Sizes)
    text = both._repr_markdown_()
    assert repr(both) == "source of attention, Sizes"
    assert text.startswith("```python\n# allyouneed/attention.py, test_listing.py, without")
    assert text.endswith("\n```") and "lines of checks" in text
    assert "\n\n\n@dataclass(frozen=True)\nclass Sizes:\n    width: int = 8\n" in text


def test_what_has_no_source():
    with pytest.raises(TypeError, match="things: expected functions or classes, got builtin"):
        listing.of(len)


MACHINE = [
    positions.sinusoids, positions.SinusoidalPositions, attention_module.masked_softmax, attention,
    multihead.split_heads, multihead.merge_heads, multihead.MultiHeadAttention,
    masks.padding_mask, masks.causal_mask, sublayers.FeedForward, sublayers.LayerNorm,
    sublayers.Residual, TransformerConfig, transformer.EncoderLayer, transformer.Encoder,
    transformer.DecoderLayer, transformer.Decoder, transformer.Transformer,
]  # fmt: skip


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_plain_machine_computes_the_same(norm_first):
    code = listing.plainly(*MACHINE).code
    room = {
        "__name__": "__main__",
        "math": math,
        "torch": torch,
        "nn": nn,
        "F": F,
        "Tensor": Tensor,
    }
    room |= {"Callable": Callable, "dataclass": dataclass, "PAD": PAD}
    exec("from __future__ import annotations\n" + code, room)
    config = TransformerConfig(20, 16, 32, 2, 2, 0.0, norm_first)
    torch.manual_seed(0)
    model = transformer.Transformer(config)
    torch.manual_seed(0)
    plain = room["Transformer"](room["TransformerConfig"](**vars(config)))
    for a, b in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(a, b)  # it begins with the same numbers
    src = torch.tensor([[5, 6, 7, EOS], [8, EOS, PAD, PAD]])
    tgt = torch.tensor([[BOS, 9, 10], [BOS, 11, PAD]])
    for one in (model, plain):
        one(src, tgt).square().sum().backward()
    assert torch.allclose(model(src, tgt), plain(src, tgt), atol=1e-5)
    for a, b in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-3)


def test_what_a_plain_listing_leaves_out():
    code = listing.plainly(*MACHINE).code
    for name in (*listing.PLAIN, *listing.WRITTEN_OUT, "AttentionMaps", "fused", ".to("):
        assert name not in code, name
    assert max(map(len, code.splitlines())) <= listing.WIDTH
    text = listing.plainly(attention)._repr_markdown_()
    assert "attention.py, without returned weights and the fast path\n\ndef" in text
    assert listing.plainly(sublayers.Residual).code == listing.of(sublayers.Residual).code


OPTIONS = """\
def f(x, y: int = 1, maps=None) -> int | tuple[int, int]:
    # of the first
    if maps is None:
        # of the inner one
        a = g(x, maps and maps[0])

    half_on_cpu = x
    for y in x:
        z = "w" if not maps else y
    if maps and x:
        return 0
    return x.to(3), z
    return 1


def untouched(x):
    return [x,
            'x']"""
WITHOUT = """\
def f(
    x, y: int = 1
) -> int:
    # of the inner one
    a = g(x)
    for y in x:
        z = "w"
    return x, z


def untouched(x):
    return [x,
            'x']"""


def test_options_of_every_form():
    assert listing.plain_text(OPTIONS, {}) == WITHOUT
