"""Stack answers to several questions into one table for other programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.plots.frame import Interval
from sfumato.policy import Type
from sfumato.release.answers.receipts import Receipt

if TYPE_CHECKING:
    pass
from sfumato.release.answers.answer import Answer

MAX_CELLS = 1_000_000
"""The most cells of a stacked table, including empty ones: every column of every question may be separate."""


def stack_answers(
    names: Sequence[str], answers: Sequence[Answer], receipt: Receipt, warnings: tuple[str, ...]
) -> Answer:
    """Stack answers into one table, with the name of its question in every row.

    Columns of one name and type become one column; a column that a question lacks is NULL in its rows.
    """
    column_names = _stacked_names(names, answers)
    types = {
        column: column_type
        for single, renamed in zip(answers, column_names, strict=True)
        for column, column_type in zip(renamed.values(), single.types, strict=True)
    }
    cell_count = len(types) * sum(len(single.rows) for single in answers)
    if cell_count > MAX_CELLS:
        fix = "give columns of the same meaning the same name, or use the answers one by one"
        raise InvalidParameter(
            "answers",
            ValueWords(f"{cell_count:,} cells"),
            f"small enough for one table of at most {MAX_CELLS:,} cells",
            fix=fix,
        )
    question_column = unused_name("question", types)
    rows = []
    intervals: dict[str, list[Interval]] = {
        column: [] for column in _union_of_columns(answers, column_names, "intervals")
    }
    for name, single, renamed in zip(names, answers, column_names, strict=True):
        for row_index, row in enumerate(single.rows):
            row_cells = dict(zip(renamed.values(), row, strict=True))
            rows.append((name, *(row_cells.get(column) for column in types)))
            row_intervals = {
                renamed[column]: column_intervals[row_index] for column, column_intervals in single.intervals.items()
            }
            for column, stacked_intervals in intervals.items():
                stacked_intervals.append(row_intervals.get(column))
    return Answer(
        (question_column, *types),
        (Type.TEXT, *types.values()),
        tuple(rows),
        {column: tuple(stacked_intervals) for column, stacked_intervals in intervals.items()},
        (question_column, *_union_of_columns(answers, column_names, "keys")),
        receipt,
        warnings,
        _merge_by_column(answers, column_names, "possible"),
        _merge_by_column(answers, column_names, "ranks"),
        caveats=_merge_by_column(answers, column_names, "caveats"),
    )


def unused_name(name: str, taken: Iterable[str]) -> str:
    """Return the name, with underscores appended until it is not taken."""
    while name in taken:
        name += "_"
    return name


def _stacked_names(names: Sequence[str], answers: Sequence[Answer]) -> list[dict[str, str]]:
    """Map each answer's columns to their names in the stacked table: prefixed by the question where types differ."""
    taken_names = {column for single in answers for column in single.columns}
    shared_columns = {column for column in taken_names if _has_one_meaning(column, answers)}
    renamings = []
    for name, single in zip(names, answers, strict=True):
        renaming = {
            column: column if column in shared_columns else unused_name(f"{name}: {column}", taken_names)
            for column in single.columns
        }
        taken_names |= set(renaming.values())
        renamings.append(renaming)
    return renamings


def _has_one_meaning(column: str, answers: Sequence[Answer]) -> bool:
    """Return whether a column means the same in all answers: equal type, rank error and possible range."""
    meanings = {
        (single.types[single.columns.index(column)], single.ranks.get(column), single.possible.get(column))
        for single in answers
        if column in single.columns
    }
    return len(meanings) == 1


def _merge_by_column(
    answers: Sequence[Answer], column_names: Sequence[Mapping[str, str]], field_name: str
) -> dict[str, Any]:
    """Merge a per-column mapping of all answers, under the stacked names."""
    return {
        renamed[column]: entry
        for single, renamed in zip(answers, column_names, strict=True)
        for column, entry in (getattr(single, field_name) or {}).items()
    }


def _union_of_columns(
    answers: Sequence[Answer], column_names: Sequence[Mapping[str, str]], field_name: str
) -> list[str]:
    """List the stacked names of columns that are keys, or have intervals, in some answer; each once."""
    names = (
        renamed[column]
        for single, renamed in zip(answers, column_names, strict=True)
        for column in getattr(single, field_name)
    )
    return list(dict.fromkeys(names))
