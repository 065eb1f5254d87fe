"""The diagrams are up to date and can be read: on light and dark paper, on a phone, and no text outside its box."""

from __future__ import annotations

import importlib.util
import re
from itertools import combinations, product
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from docs.test_site import _luminance
from sfumato.plots.picture import text_width

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SVG = "{http://www.w3.org/2000/svg}"
PHONE = 360 - 2 * 16
"""The room for a picture on a phone: 360 px less the margins of the page."""


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("diagrams", PICTURES / "diagrams.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


diagrams = _load()


class Area(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, other: Area) -> bool:
        return (
            self.left <= other.left
            and self.top <= other.top
            and other.right <= self.right
            and other.bottom <= self.bottom
        )

    def overlaps(self, other: Area) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def text_areas(root: ElementTree.Element) -> dict[Area, str]:
    """Return where each text lies, with an upper estimate of its width."""
    areas = {}
    for node in root.iter(f"{SVG}text"):
        x, y, size = (float(node.attrib[name]) for name in ("x", "y", "font-size"))
        assert node.text
        areas[Area(x, y - 0.75 * size, x + text_width(node.text, size), y + 0.2 * size)] = node.text
    return areas


def rectangles(root: ElementTree.Element) -> list[Area]:
    areas = []
    for node in root.iter(f"{SVG}rect"):
        x, y, width, height = (float(node.get(name, "0")) for name in ("x", "y", "width", "height"))
        areas.append(Area(x, y, x + width, y + height))
    return areas


@pytest.fixture(params=diagrams.DRAWINGS)
def root(request: pytest.FixtureRequest) -> ElementTree.Element:
    return ElementTree.fromstring(diagrams.DRAWINGS[request.param]())


@pytest.mark.parametrize("name", diagrams.DRAWINGS)
def test_a_diagram_is_up_to_date(name: str) -> None:
    written = (PICTURES / f"{name}.svg").read_text(encoding="utf-8")
    assert written == diagrams.DRAWINGS[name](), "run .venv/bin/python docs/pictures/diagrams.py"


def test_no_text_leaves_its_box_or_lies_over_another(root: ElementTree.Element) -> None:
    texts, boxes = text_areas(root), rectangles(root)
    for area, text in texts.items():
        around = [box for box in boxes if box.overlaps(area)]
        assert around, text
        assert all(box.holds(area) for box in around), text
    for one, other in combinations(texts, 2):
        assert not one.overlaps(other), (texts[one], texts[other])


def test_letters_are_large_enough_on_a_phone(root: ElementTree.Element) -> None:
    shrunk = PHONE / float(root.attrib["width"])
    assert min(float(node.attrib["font-size"]) for node in root.iter(f"{SVG}text")) * shrunk >= 11


@pytest.mark.parametrize("colours", [diagrams.LIGHT, diagrams.DARK], ids=["light", "dark"])
def test_every_ink_stands_out_from_every_paper(colours: dict[str, str]) -> None:
    """The contrast that WCAG 2.1 asks of texts."""
    for ink, paper in product(("ink", "quiet", "strong", "warn"), ("paper", "card", "money", "out")):
        low, high = sorted(_luminance(colours[role]) for role in (ink, paper))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, paper)


def test_every_class_has_a_colour_for_both_kinds_of_readers(root: ElementTree.Element) -> None:
    style = root.findtext(f"{SVG}style") or ""
    light, dark = style.split("@media(prefers-color-scheme:dark)")
    used = {node.attrib["class"] for node in root.iter() if "class" in node.attrib}
    for rules in (light, dark):
        assert used <= set(re.findall(r"\.(\w+)\{", rules))
