"""The comparison of outputs forgives the last digit of a rounded number, and nothing else; an
imagined processor changes nothing but last digits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from allyouneed import pictures

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from outputs import WIDGET, forgive, same_data, same_html, same_text  # noqa: E402
from roundings import Roundings, outside  # noqa: E402


@pytest.mark.parametrize(
    "a, b",
    [
        ("loss 7.39", "loss 7.40"),
        ("  0   8.1e+00   -0.01   1.6e+05", "  0   8.1e+00   -0.01   1.5e+05"),
        ("smaller: 0.12% of 64,000 entries", "smaller: 0.13% of 64,000 entries"),
        ("right: 12 % of all", "right: 13 % of all"),
        ("[0.66, 0.5]", "[0.659, 0.5]"),
        ("9.9e-08", "1e-07"),
        ("9.9e+04", "1.0e+05"),
        ("1,234.56 nats", "1,235.11 nats"),
        ("-0.00 and −0.4", "0.00 and −0.5"),
        ("[ 0.50 -0.25]", "[0.50  -0.25]"),
        ("tensor([1., 0.])", "tensor([1., 0.])"),
        ("1 of 0.999", "0.999 of 1"),
        ("31,415.9", "31,390.0"),  # a thousandth
        ("[-0., 2000.]", "[0., 1999.9999]"),
    ],
)
def test_the_last_digit_is_forgiven(a, b):
    assert same_text(a, b) and same_text(b, a)


@pytest.mark.parametrize(
    "a, b",
    [
        ("loss 7.39", "loss 7.42"),
        ("loss 7.39", "gain 7.39"),
        ("8.1e+00 1.6e+05", "8.1e+00 1.6e+06"),
        ("1.6e-05", "1.6e-04"),
        ("0.12% of 64,000", "0.12% of 64,001"),
        ("12 % of all", "14 % of all"),
        ("4 of 5 right", "5 of 5 right"),
        ("2., 0.", "3., 0."),
        ("We have 29,000.", "We have 29,001."),
        ("[2000., 1.]", "[2001., 1.]"),
        ("commit 3e5abc", "commit 4e5abc"),
        ("[1, 2, 3]", "[1, 2, 4]"),
        ("[1,2,3]", "[1,2,4]"),
        ("0.5", "-0.5"),
        ("0.5 0.5", "0.5"),
        ("0.66", "0.64"),
        ("0.12 %", "0.12"),
        ("True", "False"),
        ("nan", "0.1"),
        ("torch.Size([9, 64])", "torch.Size([9, 65])"),
        ("version 2.13.0", "version 2.14.0"),
    ],
)
def test_all_else_is_not(a, b):
    assert not same_text(a, b) and not same_text(b, a)


def picture(**numbers) -> str:
    return pictures.interactive("attention-rows", **numbers)._repr_html_()


def test_pictures_are_compared_number_by_number():
    pictures.SHOWN.clear()
    first = picture(weights=[[0.3333, 0.6667], [1.0, 1e-9]], keys=["a", "b"], n=2)
    for numbers, same in [
        ({"weights": [[0.3334, 0.6666], [1.0, 2e-7]], "keys": ["a", "b"], "n": 2}, True),
        ({"weights": [[0.3343, 0.6666], [1.0, 1e-9]], "keys": ["a", "b"], "n": 2}, False),
        ({"weights": [[0.3333, 0.6667], [1.0, 1e-3]], "keys": ["a", "b"], "n": 2}, False),
        ({"weights": [[0.3333, 0.6667], [1.0]], "keys": ["a", "b"], "n": 2}, False),
        ({"weights": [[0.3333, 0.6667], [1.0, 1e-9]], "keys": ["a", "c"], "n": 2}, False),
        ({"weights": [[0.3333, 0.6667], [1.0, 1e-9]], "keys": ["a", "b"], "n": 3}, False),
        ({"weights": [[0.3333, 0.6667], [1.0, 1e-9]], "keys": ["a", "b"]}, False),
    ]:
        pictures.SHOWN.clear()
        assert same_html(first, picture(**numbers)) is same, numbers


def test_a_picture_has_the_id_of_its_place():
    """Not of its numbers, which differ in their last digits on another machine."""
    pictures.SHOWN.clear()
    assert 'id="attention-rows-1"' in picture(weights=[[1.0]], keys=["a"])
    second = picture(weights=[[1.0]], keys=["a"])
    assert 'id="attention-rows-2"' in second
    pictures.SHOWN.clear()
    assert not same_html(second, picture(weights=[[1.0]], keys=["a"]))


def test_a_script_that_has_changed_is_not_forgiven():
    pictures.SHOWN.clear()
    html = picture(weights=[[1.0]], keys=["a"])
    assert not same_html(html, html.replace("function", "funktion", 1))


def test_whole_numbers_and_fractions_are_told_apart():
    assert not same_data(*map(json.loads, ("[1]", "[2]")))
    assert not same_data(*map(json.loads, ("[1]", "[true]")))


def test_what_is_the_same_is_written_as_expected():
    def printed(text):
        return [{"output_type": "stream", "name": "stdout", "text": text}]

    def drawn(value, svg):
        data = {"image/svg+xml": svg, "text/plain": value}
        return [{"output_type": "execute_result", "data": data}]

    widget = [{"output_type": "display_data", "data": {WIDGET: {}, "text/plain": "VBox()"}}]
    shown = printed("a 0.31\n") + drawn("0.500", "<svg>") + widget + printed("3 of 4\n")
    expected = printed("a 0.32\n") + drawn("0.501", "") + printed("4 of 4\n")
    forgive(shown, expected)
    assert shown[:2] == expected[:2] and "image/svg+xml" not in shown[1]["data"]
    assert shown[2]["text"] == "3 of 4\n"


@outside  # of two imagined processors, one in the other, none is itself
def test_an_imagined_processor_ends_its_numbers_otherwise():
    """In the last two places, in every operation whose sums or curves processors take their way."""
    torch.manual_seed(0)
    a, b, tables = torch.randn(40, 40), torch.randn(40, 40), torch.randn(3, 2, 5, 4)
    linear, norm, net = nn.Linear(40, 8), nn.LayerNorm(40), nn.LSTM(40, 8, batch_first=True)

    def gradient():
        loss = F.cross_entropy(linear(norm(a)), torch.arange(40) % 8)
        return torch.autograd.grad(loss, linear.weight)[0]

    operations = {
        "product": lambda: a @ b,
        "batched": lambda: tables @ tables.mT,
        "sum": lambda: a.sum(dim=1),
        "softmax": lambda: a.softmax(dim=1),
        "exponential": lambda: a.exp(),
        "linear": lambda: linear(a),
        "norm": lambda: norm(a),
        "net": lambda: net(a)[0],
        "attention": lambda: F.scaled_dot_product_attention(tables, tables, tables),
        "gradient": gradient,
    }
    for name, operation in operations.items():
        own = operation()
        with Roundings(1):
            first, again = operation(), operation()
        with Roundings(2):
            second = operation()
        torch.testing.assert_close(first, own, rtol=1e-4, atol=1e-6)
        assert torch.equal(first, again), name
        assert min((first != own).float().mean(), (first != second).float().mean()) > 0.5, name
    places = (a @ b).view(torch.int32)
    with Roundings(1):
        assert set((places - (a @ b).view(torch.int32)).unique().tolist()) == {-2, -1, 0, 1, 2}


def test_what_is_exact_is_exact_on_an_imagined_processor():
    numbers = torch.tensor([[0.0, 1.0, -2.5], [3.0, 12.0, 0.25]])
    with Roundings(1):
        assert torch.equal(numbers @ torch.eye(3), numbers)
        assert numbers.sum(dim=1).tolist() == [-1.5, 15.25]
        many = torch.randn(40, 40)
        assert torch.equal((-2 * many) @ many, -2 * (many @ many))  # on every processor
        assert torch.tensor([-torch.inf, 0.0, 0.0]).softmax(0).tolist() == [0.0, 0.5, 0.5]
        assert torch.tensor([torch.inf, torch.nan]).sum().isnan()
        assert (torch.linspace(-104, -80, 1000).exp() >= 0).all()  # down to the smallest there are
        words, one_hot = torch.randn(3, 8), torch.eye(3)[[2, 0, 0, 1]]
        assert torch.equal(one_hot @ words, words[[2, 0, 0, 1]])
        assert torch.equal(words.mT @ one_hot.mT, words[[2, 0, 0, 1]].mT)
