"""Answers to several questions are put below each other, as one: a table that other programs read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sfumato.plots.chart_data import Interval
from sfumato.policy import Type
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.receipts import Receipt


def stacked(names: Sequence[str], answers: Sequence[Answer], receipt: Receipt, warnings: tuple[str, ...]) -> Answer:
    """Put answers below each other, with the name of its question in every row. Columns of one name are one column
    where their types are equal; what a question does not ask is missing in its rows.
    """
    called = [_called(name, each, answers) for name, each in zip(names, answers, strict=True)]
    types = {
        column: kind
        for each, own in zip(answers, called, strict=True)
        for column, kind in zip(own.values(), each.types, strict=True)
    }
    first = free("question", types)
    rows = []
    intervals: dict[str, list[Interval]] = {column: [] for column in _of(answers, called, "intervals")}
    for name, each, own in zip(names, answers, called, strict=True):
        for place, row in enumerate(each.rows):
            cells = dict(zip(own.values(), row, strict=True))
            rows.append((name, *(cells.get(column) for column in types)))
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
    )


def free(name: str, taken: Iterable[str]) -> str:
    """Give a name that none of these has."""
    while name in taken:
        name += "_"
    return name


def _called(name: str, answer: Answer, answers: Sequence[Answer]) -> dict[str, str]:
    """Say how each column of an answer is called beside the others: also by its question, where types differ."""
    known = {column for each in answers for column in each.columns}
    return {
        column: column if _is_one(column, answers) else free(f"{name}: {column}", known) for column in answer.columns
    }


def _is_one(column: str, answers: Sequence[Answer]) -> bool:
    return len({each.types[each.columns.index(column)] for each in answers if column in each.columns}) == 1


def _of(answers: Sequence[Answer], called: Sequence[Mapping[str, str]], what: str) -> list[str]:
    """List the columns that are keys of some answer, or have ranges there, once each."""
    found = (own[column] for each, own in zip(answers, called, strict=True) for column in getattr(each, what))
    return list(dict.fromkeys(found))
