"""Many counts over the same rows are added up from cells: rows that are equal in every column that a test reads.

A test gives the same on all rows of a cell, so the number of rows for which it holds is the sum of the sizes of the
cells for which it does: the same whole number, whatever is counted. A table is then read once for all counts. It is
done where declared values allow few cells, which the policy decides and not the rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sfumato.engine.lowering.relation_lowering import same
from sfumato.engine.lowering.relational import (
    Aggregation,
    Apply,
    Constant,
    Operation,
    Reference,
    Scalar,
    Select,
    Total,
    apply,
)
from sfumato.plan.bounding import Bounded
from sfumato.plan.values import expressions
from sfumato.policy import Domain, Type

FEWEST_COUNTS = 12
"""For fewer it is not worth the grouping."""
MOST_CELLS = 50_000
_MOST_CODES = 256

Cells = tuple[tuple[Reference, Domain], ...]
"""The columns that tests read, with what is declared of each."""


def cells(bounded: Bounded, columns: Mapping[expressions.Reference, Scalar], values: Sequence[Scalar]) -> Cells:
    """List the columns that the tests of many counts read; none where there are few counts, or may be many cells."""
    measures = [each.measure for each in bounded.measures]
    if bounded.plan.keys or len(measures) < FEWEST_COUNTS or any(each.value or each.once_per_unit for each in measures):
        return ()
    declared, found, size = bounded.bound.input.columns, {}, 1
    for reference in dict.fromkeys(one for each in measures if each.where for one in expressions.columns(each.where)):
        domain, scalar = declared.get(reference), columns.get(reference)  # type: ignore[arg-type]
        different = None if domain is None else _different(domain)
        if not isinstance(scalar, Reference) or domain is None or different is None:
            return ()
        size *= different + 1  # NULL is one more
        found[scalar] = domain
    read = {each for value in values for each in _references(value)}
    return tuple(found.items()) if found and size <= MOST_CELLS and read <= set(found) else ()


def by_cells(select: Select, names: Sequence[str], read: Cells) -> tuple[Select, dict[str, Scalar]]:
    """Give cells with what one row of each counts, and each total over them."""
    columns, whole = [], {}
    for name, (reference, domain) in zip(_names(read), read, strict=True):
        texts = tuple(sorted(map(str, domain.values or ()))) if domain.type is Type.TEXT else ()
        coded = 0 < len(texts) <= _MOST_CODES  # a code is grouped by faster than its text
        columns.append((name, apply(Operation.CODE, reference, detail=texts) if coded else reference))
        whole[reference] = apply(Operation.CONVERT, Reference(name), detail=(Type.TEXT,)) if coded else Reference(name)
    rows = replace(select, columns=tuple(columns))
    sized = Select((*same(_names(read)), ("n", Total(Aggregation.COUNT))), rows, grouped=_names(read))
    values = dict(select.columns)
    counted = Select((*same("n"), *((name, _placed(values[name], whole)) for name in names)), sized)
    return counted, {name: _total(name) for name in names}


def unvalued(select: Select, read: Cells) -> tuple[Select, tuple[str, ...]]:
    """Give rows with their unit and the columns that tests read, and no test evaluated."""
    columns = zip(_names(read), (reference for reference, _ in read), strict=True)
    return replace(select, columns=(("u", dict(select.columns)["u"]), *columns)), ("u", *_names(read))


def valued(rows: Select, select: Select, names: Sequence[str], read: Cells) -> Select:
    """Evaluate on such rows, beside how many their unit has, what each of them counts."""
    values, whole = (
        dict(select.columns),
        {each: Reference(name) for name, (each, _) in zip(_names(read), read, strict=True)},
    )
    return Select((*same("un"), *((name, _placed(values[name], whole)) for name in names)), rows)


def _names(read: Cells) -> tuple[str, ...]:
    return tuple(f"c{number}" for number in range(len(read)))


def _total(name: str) -> Scalar:
    counted = Total(Aggregation.SUM, apply(Operation.MULTIPLY, Reference(name), Reference("n")))
    return apply(Operation.COALESCE, counted, Constant(0, Type.INTEGER))


def _different(domain: Domain) -> int | None:
    """Count the values that a column may hold; None where there is no saying."""
    if domain.values:
        return len(domain.values)
    if domain.type is Type.BOOLEAN:
        return 2
    low, high = domain.range or (None, None)
    if isinstance(low, dt.date) and isinstance(high, dt.date) and domain.type is Type.DATE:
        return (high - low).days + 1
    return high - low + 1 if isinstance(low, int) and isinstance(high, int) else None


def _references(scalar: Scalar) -> Iterator[Reference]:
    if isinstance(scalar, Reference):
        yield scalar
    elif isinstance(scalar, Apply):
        for argument in scalar.arguments:
            yield from _references(argument)


def _placed(scalar: Scalar, columns: Mapping[Reference, Scalar]) -> Scalar:
    """Write a value of a row over the columns of its cell."""
    if isinstance(scalar, Reference):
        return columns[scalar]
    if isinstance(scalar, Apply):
        return replace(scalar, arguments=tuple(_placed(each, columns) for each in scalar.arguments))
    return scalar
