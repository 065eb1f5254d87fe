"""Templates are questions that can be put to one policy: a grammar of what can be asked, filled in with its columns.

Every kind of aggregate, key, condition and join that the policy's columns allow occurs at least once, and so do
expressions that fail for some values, such as a division by what may be zero: whether they fail depends on nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.words import literal_words
from sfumato.plan.written_names import quoted
from sfumato.policy import Domain, Type

_FEW = 400
"""Groups that a template may have."""


def templates(catalog: Catalog) -> tuple[str, ...]:
    """Write questions about every private table, plain ones of each kind first."""
    private = [each for each in catalog.tables.values() if not each.public]
    found = [text for table in private for text in _of_table(table)]
    found += [text for table in private for text in _joins(table, catalog.tables)]
    found += [text for table in private for text in _failing(table)]
    return tuple(dict.fromkeys(found))


def _of_table(table: Described) -> Iterator[str]:
    of, columns = quoted(table.name), table.columns
    numbers = [quoted(name) for name, each in columns.items() if each.type.numeric and each.range is not None]
    few = sorted(
        (name for name, each in columns.items() if 1 < groups_by(each) <= _FEW), key=lambda n: groups_by(columns[n])
    )
    keys = [quoted(name) for name in few]
    dates = [quoted(name) for name, each in columns.items() if each.type.temporal and each.bounds is not None]
    yield f"SELECT COUNT(*) AS n FROM {of}"
    if table.id is not None and table.period is None:
        yield f"SELECT COUNT(DISTINCT {quoted(table.id)}) AS units FROM {of}"
    for key in keys[:3]:
        yield f"SELECT {key}, COUNT(*) AS n FROM {of} GROUP BY {key}"
    for number in numbers[:3]:
        yield f"SELECT SUM({number}) AS total FROM {of}"
    for number in numbers[:2]:
        yield f"SELECT AVG({number}) AS average, COUNT({number}) AS known FROM {of}"
        yield f"SELECT MEDIAN({number}) AS middle FROM {of}"
        yield f"SELECT STDDEV({number}) AS spread FROM {of}"
    yield from _grouped(of, keys, numbers, dates)
    yield from _conditions(of, columns, keys, numbers)
    for name, each in columns.items():
        if each.type is Type.TEXT and each.values is None:
            yield f"SELECT {quoted(name)}, COUNT(*) AS n FROM {of} GROUP BY {quoted(name)}"
    for name in table.lists:
        yield f"SELECT item, COUNT(*) AS n FROM {of}, UNNEST({quoted(name)}) AS t(item) GROUP BY item"


def literal(value: Any, kind: Type) -> str:
    """Write a value as SQL does, with its type where that is a date or a time."""
    words = literal_words(value, kind)
    return f"{kind.value.upper()} {words}" if kind.temporal else words


def groups_by(domain: Domain) -> int:
    """Count the groups by a column; 0 where its values are not known."""
    if domain.values is not None:
        return len(domain.values)
    if domain.type is Type.BOOLEAN:
        return 2
    if domain.bounds is None or domain.type in (Type.REAL, Type.TIMESTAMP):
        return 0
    bounds: tuple[Any, Any] = domain.bounds
    length = bounds[1] - bounds[0]
    return int(length.days if domain.type is Type.DATE else length) + 1


def _grouped(of: str, keys: list[str], numbers: list[str], dates: list[str]) -> Iterator[str]:
    """Write questions with one key and a number, with two keys, by months, with subtotals, and shown in part."""
    for key in keys[:1]:
        yield f"SELECT {key}, COUNT(DISTINCT {keys[-1]}) AS different FROM {of} GROUP BY {key}"
        yield f"SELECT MODE({key}) AS usual FROM {of}"
        yield f"SELECT {key}, COUNT(*) AS n FROM {of} GROUP BY {key} HAVING COUNT(*) > 1 ORDER BY n DESC LIMIT 2"
        yield f"SELECT {key}, COUNT(*) AS n FROM {of} GROUP BY ROLLUP ({key})"
        for number in numbers[:1]:
            yield f"SELECT {key}, SUM({number}) AS total, COUNT(*) AS n FROM {of} GROUP BY {key}"
            yield f"SELECT {key}, AVG({number}) AS average FROM {of} GROUP BY {key}"
    if len(keys) > 1:
        yield f"SELECT {keys[0]}, {keys[1]}, COUNT(*) AS n FROM {of} GROUP BY {keys[0]}, {keys[1]}"
    for date in dates[:1]:
        yield f"SELECT DATE_TRUNC('month', {date}) AS month, COUNT(*) AS n FROM {of} GROUP BY 1"


def _conditions(of: str, columns: Mapping[str, Domain], keys: list[str], numbers: list[str]) -> Iterator[str]:
    """Write questions about some of the rows, and about what is missing."""
    for name, each in columns.items():
        if each.values is not None:
            written = literal(each.values[0], each.type)
            yield f"SELECT COUNT(*) AS n FROM {of} WHERE {quoted(name)} = {written}"
            yield f"SELECT COUNT(*) FILTER (WHERE {quoted(name)} = {written}) AS some, COUNT(*) AS n FROM {of}"
            break
    for number in numbers[:1]:
        yield f"SELECT COUNT(*) AS n FROM {of} WHERE {number} IS NULL"
        yield f"SELECT SUM(CASE WHEN {number} > 0 THEN {number} END) AS total FROM {of} WHERE {number} <> 1"
    if len(numbers) > 1:
        yield f"SELECT CORR({numbers[0]}, {numbers[1]}) AS together FROM {of}"
    for key in keys[:1]:
        yield f"SELECT COUNT(*) AS n FROM (SELECT {key} AS k FROM {of}) AS t WHERE k IS NOT NULL"


def _joins(table: Described, tables: Mapping[str, Described]) -> Iterator[str]:
    """Join public tables by a column of the same name, and private ones by the unit."""
    of = quoted(table.name)
    for name, other in tables.items():
        shared = [each for each in table.columns if each in other.columns]
        if other.public and shared:
            yield f"SELECT COUNT(*) AS n FROM {of} JOIN {quoted(name)} USING ({quoted(shared[0])})"
        if not other.public and name != table.name and table.id == other.id and table.via is None and other.via is None:
            yield f"SELECT COUNT(*) AS n FROM {of} JOIN {quoted(name)} USING ({quoted(str(table.id))})"


def _failing(table: Described) -> Iterator[str]:
    """Write questions whose parts have no value for some rows, or that cannot be read at all."""
    of = quoted(table.name)
    for name, each in table.columns.items():
        if each.type.numeric and each.range is not None:
            number, (low, _) = quoted(name), each.range
            zero = literal_words(low, each.type)
            for value in (f"1 / ({number} - {zero})", f"SQRT({zero} - {number})", f"LN({number} - {zero})"):
                yield f"SELECT SUM(LEAST(GREATEST({value}, -9), 9)) AS total FROM {of}"
            break
    for name, each in table.columns.items():
        if each.type is Type.TEXT:
            yield f"SELECT COUNT(*) AS n FROM {of} WHERE CAST({quoted(name)} AS INTEGER) = 1"
            break
    yield f"SELECT * FROM {of}"
    yield f"SELECT COUNT(*) AS n FROM {of} WHERE nobody_declared_this = 1"
    yield f"SELECT MAX(*) FROM {of}"


def questions_of(source: Any) -> tuple[str, ...]:
    """Read the owner's own questions: a .sql file, or texts."""
    from pathlib import Path

    from sfumato.errors import SfumatoError
    from sfumato.plan.sql.question_files import questions

    if source is None:
        return ()
    if isinstance(source, (str, Path)):
        try:
            written = Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise SfumatoError(
                "questions are read from a file of SQL", place=str(source), fix="name a file that is there"
            ) from None
        return tuple(each.text for each in questions(written))
    return tuple(str(each) for each in source)
