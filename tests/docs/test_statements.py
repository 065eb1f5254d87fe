"""Each statement of the course has a page, and the line of code beside it gives what the table says."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

import sfumato as sf

PAGE = Path(__file__).parent.parent.parent / "docs/reference/statements.md"
ROW = re.compile(r"^\| ([FWLAP][^|]*) \| ([^|]+) \| \[[^]]+\]\(([^)]+)\) \| `([^`]+)` \| `([^`]*)` \|$", re.M)
STATEMENTS = ROW.findall(PAGE.read_text())
NUMBERED = {
    *("F 1", "F 1.1", "F 2.1", "F 2.2", "F 2.3", "F 2.3.1", "F 2.3.2", "F 3.1", "W 1", "W 2", "W 3", "L 3"),
    *("L, Remark 1", "L, Remark 2", "L, Figure 1", *(f"L, Definition {number}" for number in (1, 2, 3, 4))),
    *("P 1.1.1", "P 1.1.2", "P 1.1.3", "P 1.2.1", "P 1.2.2", *(f"P, Definition 2.{number}" for number in (1, 2, 3))),
}
"""Every number that the notes give to a section with statements, to a definition, a remark or a figure."""


def test_every_row_of_the_table_is_read_and_every_number_is_there() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| number")]
    assert len(rows) == len(STATEMENTS) > 60
    assert {number for number, *_ in STATEMENTS} - {"A"} == NUMBERED


@pytest.mark.parametrize(("number", "statement", "page", "code", "shown"), STATEMENTS, ids=lambda each: each[:40])
@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
def test_its_page_exists_and_its_code_gives_what_is_shown(
    number: str, statement: str, page: str, code: str, shown: str
) -> None:
    assert (PAGE.parent / page).is_file(), (number, statement)
    assert "sf." in code
    assert str(eval(code, {"sf": sf, "math": math})) == shown
