"""Tables of texts are made of answers and of descriptions, short enough for a page."""

from __future__ import annotations

from typing import Any

from sfumato.curator.described_tables import TableDescription, Tables
from sfumato.release.answers.answer import Answer
from sfumato.server.pages.page_contexts import Grid, ShownTable, Suggested

_LETTERS, _ROWS = 20_000, 500
"""What of an answer is on a page at most; all of it is in its files."""
_LISTED, _LONGEST = 12_000, 300
"""Letters of all columns that are listed on a page, and of one of them."""


def grid(answer: Any) -> Grid:
    """Write an answer's rows as texts: each number with ± its half-width."""
    cells, letters = answer.cells(), 0
    rows: list[tuple[str, ...]] = []
    for row in cells[:_ROWS]:
        letters += sum(map(len, row)) + 20 * len(row)
        if letters > _LETTERS and rows:
            break
        rows.append(tuple(row))
    numbers = tuple(isinstance(answer, Answer) and name in answer.intervals for name in answer.columns)
    return Grid(tuple(answer.columns), tuple(rows), numbers, len(cells) - len(rows))


def tables(found: Tables, *, questions: bool) -> tuple[ShownTable, ...]:
    """Show every table as it is described."""
    return tuple(_table(each, questions) for each in found.values())


def _table(table: TableDescription, questions: bool) -> ShownTable:
    columns: list[tuple[str, str]] = []
    letters = 0
    for name, words in table.columns.items():
        letters += len(name) + min(len(words), _LONGEST)
        if letters > _LISTED:
            columns.append(("…", f"and {len(table.columns) - len(columns)} more: DESCRIBE lists them"))
            break
        columns.append((name, words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"))
    copied = tuple(Suggested(each.tells, each.sql, each.error, each.price) for each in table.questions)
    return ShownTable(table.name, table.about, tuple(columns), copied if questions else ())
