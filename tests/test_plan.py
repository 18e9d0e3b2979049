"""The plan of the machine: its boxes, its chapters, its links."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from allyouneed import plan, viz

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
SVG = "{http://www.w3.org/2000/svg}"


def test_every_box_names_a_chapter_that_exists():
    there = {int(file.name[:2]) for file in NOTEBOOKS.glob("[0-9]*.ipynb")}
    assert {box.chapter for box in plan.BOXES + plan.FRAMES} <= there
    assert plan.CHAPTERS == sorted({box.chapter for box in plan.BOXES})


def test_its_colours_are_those_of_the_pictures():
    """It does without matplotlib, so it has its own copy of them."""
    for name in ("INK", "BLUE", "ORANGE", "GREEN", "PINK", "SKY"):
        assert getattr(plan, name) == getattr(viz, name)


def test_boxes_lie_apart_and_inside():
    for i, a in enumerate(plan.BOXES):
        assert 0 <= a.x and a.x + a.width <= plan.WIDTH
        assert 0 <= a.y and a.y + a.height <= plan.HEIGHT
        for b in plan.BOXES[:i]:
            across = a.x < b.x + b.width and b.x < a.x + a.width
            down = a.y < b.y + b.height and b.y < a.y + a.height
            assert not (across and down), (a, b)


def test_it_is_one_picture_with_words_for_those_who_cannot_see_it():
    svg = ET.fromstring(plan.drawing()._repr_svg_())
    assert svg.get("role") == "img" and len(svg.get("aria-label")) > 300
    assert not list(svg.iter(f"{SVG}a"))
    words = " ".join(one.text for one in svg.iter(f"{SVG}text"))
    for box in plan.BOXES + plan.FRAMES:
        assert all(line in words for line in box.words.split("|"))


def test_a_chapter_is_lit():
    faint = {
        lit: len(list(ET.fromstring(plan.drawing(*lit).svg).iterfind(f".//{SVG}g[@opacity]")))
        for lit in ((), (9,), (9, 10))
    }
    of = {n: sum(box.chapter == n for box in plan.BOXES) for n in (9, 10)}
    assert faint == {
        (): 0,
        (9,): len(plan.BOXES) - of[9],
        (9, 10): len(plan.BOXES) - of[9] - of[10],
    }
    with pytest.raises(ValueError, match=r"lit: expected chapters out of .*, got \[2\]"):
        plan.drawing(2)


def test_every_box_is_a_link_with_a_name_of_its_own():
    links = {n: (f"{n}.html?a=1&b", f'Title "{n}"') for n in (*plan.CHAPTERS, 99)}
    svg = ET.fromstring(plan.drawing(links=links).svg)
    found = [(a.get("href"), a.get("aria-label")) for a in svg.iter(f"{SVG}a")]
    assert svg.get("role") == "group" and len(found) == len(plan.BOXES) + len(plan.FRAMES)
    for box in plan.BOXES + plan.FRAMES:
        n = box.chapter
        name = f'{box.words.replace("|", " ")}: chapter {n}, Title "{n}"'
        assert (f"{n}.html?a=1&b", name) in found


def test_the_small_plan_lights_what_the_chapter_is_about():
    words = {box.words for box in plan.BOXES}
    assert {word for more in plan.MORE.values() for word in more} <= words
    assert not set(plan.MORE) & set(plan.CHAPTERS)
    for chapter in (2, 3, 10):
        svg = ET.fromstring(plan.small(chapter))
        lit = len([one for one in svg.iter(f"{SVG}rect") if one.get("class") == "lit"])
        assert lit == len(plan.parts(chapter)) and not list(svg.iter(f"{SVG}text"))
    assert len(plan.parts(10)) == 7 and not plan.parts(2)
