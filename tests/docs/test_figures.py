"""Measured figures in the prose are those of ``bench/figures.json``, which is edited after a bench was run.

On a page that names a bench, every time, such as 12 ms, must be a figure of the file. A line may say which one it
quotes, with ``<!-- figure: ledger.verify -->``: then all its times, multiples (2 times, 2×) and counts of questions
must stand under that name. A failure says page, line and figure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^( *)(```+).*?^\1\2", re.M | re.S)
NUMBER = r"\d(?:[\d.,]*\d)?"
SEVERAL = rf"({NUMBER}(?:(?: to |–| / ){NUMBER})*)"
TIME = rf"{SEVERAL}( (?:ns|µs|ms|s)\b)"
TIME_OR_MULTIPLE = rf"{SEVERAL}( (?:ns|µs|ms|s|times|questions)\b)"
MARKER = re.compile(r"<!-- figure: ([\w.-]+) -->")


def quoted(pattern: str, line: str) -> list[str]:
    """Return each figure of a line with its unit: ``3 to 4 ms`` are ``3 ms`` and ``4 ms``."""
    found = re.findall(pattern, line.replace("\u00a0", " ").replace("×", " times"))
    return [f"{number}{unit}" for several, unit in found for number in re.findall(NUMBER, several)]


@cache
def figures() -> dict[str, set[str]]:
    """By group and name, such as ``ledger.verify``: what was measured."""
    return {
        f"{group}.{name}": set(measured)
        for group, entry in written().items()
        for name, measured in entry["figures"].items()
    }


def written() -> dict[str, dict[str, Any]]:
    groups: dict[str, dict[str, Any]] = json.loads((ROOT / "bench/figures.json").read_text())
    return groups


def problems(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield the line and what is wrong with a figure, for each that is not in the file."""
    prose = FENCE.sub(lambda block: "\n" * block[0].count("\n"), markdown)
    names_a_bench = "bench/" in prose
    everything = set().union(*figures().values())
    for number, line in enumerate(prose.splitlines(), start=1):
        marker = MARKER.search(line)
        if marker and marker[1] not in figures():
            yield number, f"there is no key {marker[1]}"
        elif marker:
            found = quoted(TIME_OR_MULTIPLE, line)
            yield from ((number, f"{each} is not in {marker[1]}") for each in found if each not in figures()[marker[1]])
            yield from [] if found else [(number, "a marker without a figure")]
        elif names_a_bench:
            yield from ((number, f"{each} is nowhere") for each in quoted(TIME, line) if each not in everything)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_are_those_that_were_measured(page: Path) -> None:
    wrong = [f"{page.relative_to(ROOT)}:{line}: {what}" for line, what in problems(page.read_text())]
    assert not wrong, "bench/figures.json has other figures:\n" + "\n".join(wrong)


def test_every_group_says_how_it_was_measured() -> None:
    for group, entry in written().items():
        assert entry["measured"], group
        assert all((ROOT / bench).is_file() for bench in entry.get("bench", ())), group
    for name, measured in figures().items():
        assert measured, name
        assert all(quoted(TIME_OR_MULTIPLE, figure) == [figure] for figure in measured), name


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("It takes 13 s (`bench/ledger.py`).", []),
        ("It takes 14 s (`bench/ledger.py`).", [(1, "14 s is nowhere")]),
        ("It takes 13 to 14 s (`bench/ledger.py`).", [(1, "14 s is nowhere")]),
        ("It waits 14 s.", []),
        ("It takes 13 s. <!-- figure: ledger.verify -->", []),
        ("It takes 14 s. <!-- figure: ledger.verify -->", [(1, "14 s is not in ledger.verify")]),
        ("It takes 12 times. <!-- figure: ledger.verify -->", [(1, "12 times is not in ledger.verify")]),
        ("It takes 13 s. <!-- figure: ledger.verified -->", [(1, "there is no key ledger.verified")]),
        ("It takes long. <!-- figure: ledger.verify -->", [(1, "a marker without a figure")]),
        ("```\n14 s, bench/\n```", []),
    ],
)
def test_a_figure_that_nobody_measured_is_noticed(line: str, wrong: list[tuple[int, str]]) -> None:
    assert list(problems(line)) == wrong
