"""Tables of commands: what is written without a library equals what the library writes."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import given, strategies as st

from sfumato.cli.common.output import _CONSOLE_VARIABLES, _align_any_cells, _align_plain_cells

CELLS = st.text(st.sampled_from("ab1,.  ±εδ…─—'\"[]\xe9ß×≥≤中\u0301🙂"), max_size=9) | st.from_regex(
    r"[0-9,]{1,9} ± [0-9]{1,3}", fullmatch=True
)


@pytest.fixture(autouse=True)
def _plain_console(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _CONSOLE_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@given(st.data())
def test_plain_lines_equal_the_library_s(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    row = st.lists(CELLS, min_size=count, max_size=count)
    header, rows = data.draw(row), data.draw(st.lists(row, max_size=4))
    right_aligned = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    lines = _align_plain_cells(header, rows, right_aligned, 10_000)
    if lines:
        assert lines == _align_any_cells(header, rows, right_aligned, 10_000)


def test_wide_folded_and_forced_tables_are_the_library_s(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = (["n"], [["12 ± 3"]], [True])
    assert _align_plain_cells(*plain, 6) == ["     n", "──────", "12 ± 3"]
    assert not _align_plain_cells(*plain, 5)
    assert not _align_plain_cells(["n"], [["中"]], [False], 99)
    assert not _align_plain_cells([], [], [], 99)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not _align_plain_cells(*plain, 6)


def test_a_terminal_shows_the_header_bold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((6, 24)))
    monkeypatch.setenv("TERM", "xterm")
    assert _align_plain_cells(["n"], [["12 ± 3"]], [True], 1)[0] == "\x1b[1m     n\x1b[0m"
    assert not _align_plain_cells(["n"], [["123 ± 3"]], [True], 99)
    monkeypatch.setenv("TERM", "dumb")
    assert _align_plain_cells(["n"], [["12 ± 3"]], [True], 1)[0] == "     n"
