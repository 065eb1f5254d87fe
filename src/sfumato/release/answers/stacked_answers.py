"""Answers to several questions are put below each other, as one: a table that other programs read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.plots.chart_data import Interval
from sfumato.policy import Type
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.receipts import Receipt

MOST_CELLS = 1_000_000
"""Cells of one table, present or missing, that answers are put into: each column of each question may be its own."""


def stacked(names: Sequence[str], answers: Sequence[Answer], receipt: Receipt, warnings: tuple[str, ...]) -> Answer:
    """Put answers below each other, with the name of its question in every row. Columns of one name are one column
    where their types are equal; what a question does not ask is missing in its rows.
    """
    called = _called(names, answers)
    types = {
        column: kind
        for each, own in zip(answers, called, strict=True)
        for column, kind in zip(own.values(), each.types, strict=True)
    }
    cells = len(types) * sum(len(each.rows) for each in answers)
    if cells > MOST_CELLS:
        fix = "name columns of the same meaning alike, or take the answers one by one"
        raise InvalidParameter("answers", f"{cells:,} cells", f"at most {MOST_CELLS:,} cells as one table", fix=fix)
    first = free("question", types)
    rows = []
    intervals: dict[str, list[Interval]] = {column: [] for column in _of(answers, called, "intervals")}
    for name, each, own in zip(names, answers, called, strict=True):
        for place, row in enumerate(each.rows):
            given = dict(zip(own.values(), row, strict=True))
            rows.append((name, *(given.get(column) for column in types)))
            ranges = {own[column]: found[place] for column, found in each.intervals.items()}
            for column, found in intervals.items():
                found.append(ranges.get(column))
    return Answer(
        (first, *types),
        (Type.TEXT, *types.values()),
        tuple(rows),
        {column: tuple(found) for column, found in intervals.items()},
        (first, *_of(answers, called, "keys")),
        receipt,
        warnings,
        _merged(answers, called, "possible"),
        _merged(answers, called, "ranks"),
    )


def free(name: str, taken: Iterable[str]) -> str:
    """Give a name that none of these has."""
    while name in taken:
        name += "_"
    return name


def _called(names: Sequence[str], answers: Sequence[Answer]) -> list[dict[str, str]]:
    """Say how each column of each answer is called beside the others: also by its question, where they differ."""
    known = {column for each in answers for column in each.columns}
    alike = {column for column in known if _is_one(column, answers)}
    found = []
    for name, each in zip(names, answers, strict=True):
        own = {column: column if column in alike else free(f"{name}: {column}", known) for column in each.columns}
        known |= set(own.values())
        found.append(own)
    return found


def _is_one(column: str, answers: Sequence[Answer]) -> bool:
    """Tell whether a column means the same wherever it is: of one type, and a number at the same rank, if at any."""
    kinds = {
        (each.types[each.columns.index(column)], each.ranks.get(column), each.possible.get(column))
        for each in answers
        if column in each.columns
    }
    return len(kinds) == 1


def _merged(answers: Sequence[Answer], called: Sequence[Mapping[str, str]], what: str) -> dict[str, Any]:
    """Give what answers say of their columns, under the names that these have here."""
    return {
        own[column]: said
        for each, own in zip(answers, called, strict=True)
        for column, said in getattr(each, what).items()
    }


def _of(answers: Sequence[Answer], called: Sequence[Mapping[str, str]], what: str) -> list[str]:
    """List the columns that are keys of some answer, or have ranges there, once each."""
    found = (own[column] for each, own in zip(answers, called, strict=True) for column in getattr(each, what))
    return list(dict.fromkeys(found))
