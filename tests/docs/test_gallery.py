"""The gallery of mistakes: each is refused in words that lead to its fix, and the fix works."""

from __future__ import annotations

import re

import pytest

from docs.gallery import AREAS, INTRODUCTION, PAGE, Call, Mistake, example, section

MISTAKES = [(area, each) for area, mistakes in AREAS.items() for each in mistakes]
_PYTHON = re.compile(r"\.\w+\(|\w\(question|<\w+ \w+=|Traceback|\bmain\b")
"""What no command may print: calls, a repr of an internal value, a fault."""


@pytest.mark.parametrize(
    ("area", "mistake"),
    [
        pytest.param(area, each, id=f"{area}: {each.title}", marks=pytest.mark.long if place % 2 else ())
        for place, (area, each) in enumerate(MISTAKES)
    ],
)
def test_every_mistake_is_refused_and_its_fix_works(area: str, mistake: Mistake) -> None:
    with example() as folder:
        made = mistake.make()
    assert made.refused, mistake.wrong
    assert made.mended, f"{mistake.right}\n{made.after}"
    assert mistake.hint in made.message
    assert not mistake.named or mistake.hint in mistake.right
    if isinstance(mistake, Call):
        assert "\n  fix:   " in made.message
    else:
        assert re.search(r"^  fix:   |^Error: ", made.message, re.M)
        assert not _PYTHON.search(made.message), made.message
    shown = section(mistake, made, folder)
    assert shown in PAGE.read_text(), f"run .venv/bin/python tests/docs/gallery.py: {area}, {mistake.title}\n{shown}"


def test_the_page_has_fifty_and_no_others() -> None:
    assert len(MISTAKES) == 50
    written = PAGE.read_text()
    assert written.startswith(INTRODUCTION)
    titles = [title for area, mistakes in AREAS.items() for title in (area, *(each.title for each in mistakes))]
    assert re.findall(r"^##+ (.*)$", written, re.M) == titles
