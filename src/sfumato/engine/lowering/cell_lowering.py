"""Many counts over the same rows are added up from cells: rows that are equal in every column that a test reads.

A test gives the same on all rows of a cell, so the number of rows for which it holds is the sum of the sizes of the
cells for which it does: the same whole number, whatever is counted. A table is then read once for all counts. It is
done where declared values allow few cells, which the policy decides and not the rows.

Lower the rows that count: the unit, the keys, and a whole number of steps for each coordinate of each measure.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sfumato.engine.lowering.relation_lowering import Columns, RelationLowering, every, plain, same
from sfumato.engine.lowering.relational import (
    AggregateFunction,
    Apply,
    Constant,
    GroupTotal,
    Reference,
    Scalar,
    ScalarFunction,
    Select,
    apply,
    whole,
)
from sfumato.engine.lowering.row_lowering import RowLowering, present
from sfumato.engine.lowering.unit_lowering import steps
from sfumato.plan.aggregates.measures import Contribution
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure
from sfumato.plan.limits import Strategy
from sfumato.plan.values import expressions
from sfumato.policy import Domain, Type

FEWEST_COUNTS = 12
"""For fewer it is not worth the grouping."""
MOST_CELLS = 50_000
_MOST_CODES = 256

Cells = tuple[tuple[Reference, Domain], ...]
"""The columns that tests read, with what is declared of each."""


def cells(bounded: BoundedPlan, columns: Mapping[expressions.Reference, Scalar], values: Sequence[Scalar]) -> Cells:
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
        columns.append((name, apply(ScalarFunction.CODE, reference, detail=texts) if coded else reference))
        whole[reference] = (
            apply(ScalarFunction.CONVERT, Reference(name), detail=(Type.TEXT,)) if coded else Reference(name)
        )
    rows = replace(select, columns=tuple(columns))
    sized = Select((*same(_names(read)), ("n", GroupTotal(AggregateFunction.COUNT))), rows, grouped=_names(read))
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
    counted = GroupTotal(AggregateFunction.SUM, apply(ScalarFunction.MULTIPLY, Reference(name), Reference("n")))
    return apply(ScalarFunction.COALESCE, counted, Constant(0, Type.INTEGER))


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


@dataclass(frozen=True)
class CountedRows:
    """These are the rows that count, as (unit, key…, value…); without the unit where every row is one."""

    select: Select
    keys: tuple[str, ...]
    kinds: tuple[Type, ...]
    """Of the keys."""
    values: tuple[str, ...]
    """One whole number per row for each coordinate of each measure."""
    ones: frozenset[str]
    """The values that are 1 in every row."""
    maximal: frozenset[str]
    """The values that a unit contributes once per group: units are counted, not rows."""
    coded: frozenset[str] = frozenset()
    """The keys that are codes of their texts."""
    cells: Cells = ()
    """The columns by which many counts are added up at once."""
    apart: tuple[tuple[str, Type], ...] = ()
    """A column that tells rows of a group apart as the values do, with its type."""

    @property
    def telling(self) -> list[str]:
        """Give the columns that tell rows of a group apart."""
        return [*(name for name, _ in self.apart), *(name for name in self.values if name not in self.ones)]

    @property
    def exact(self) -> tuple[str, ...]:
        """Give columns for a unit's totals as they are, beside those that are clipped, where totals are corrected."""
        return () if not self.keys else tuple(f"w{name[1:]}" for name in self.values)

    @property
    def text_keys(self) -> Columns:
        """Give the keys, with codes as the texts they stand for."""
        texts = {name: apply(ScalarFunction.CONVERT, Reference(name), detail=(Type.TEXT,)) for name in self.coded}
        return tuple((name, texts.get(name, Reference(name))) for name in self.keys)


def counted_rows(bounded: BoundedPlan, relations: RelationLowering) -> CountedRows:
    """Select the rows of a plan that count, with what each of them contributes."""
    plan, unit = bounded.plan, bounded.strategy is not Strategy.WHOLE
    source = relations.flat(plan.source, plan.expressions, unit=unit)
    lowering = source.lowering
    keys = [lowering.lower(key) for key in plan.keys]
    keys = [key if each.domain.nullable else lowering.shared(key) for key, each in zip(keys, plan.keys, strict=True)]
    tests = [present(key) for key, each in zip(keys, plan.keys, strict=True) if not each.domain.nullable]
    values = [_row_values(measure, lowering) for measure in bounded.measures]
    flat = [(f"v{index}", value) for index, value in enumerate(value for found in values for value in found)]
    named = tuple((f"k{index}", key) for index, key in enumerate(keys))
    maximal = [each.measure.once_per_unit for each in bounded.measures for _ in range(each.coordinates)]
    select = source.selected((*(same("u") if unit else ()), *named, *flat), tests)
    return CountedRows(
        select,
        tuple(name for name, _ in named),
        tuple(each.domain.type for each in plan.keys),
        tuple(name for name, _ in flat),
        frozenset(name for name, value in flat if value == whole(1)),
        frozenset(name for (name, _), once in zip(flat, maximal, strict=True) if once),
        cells=cells(bounded, lowering.columns, [value for _, value in flat]),
    )


def computed_once(bounded: BoundedPlan, rows: CountedRows, relations: RelationLowering) -> CountedRows:
    """Keep the rows where they cost more than reading a table: limiting reads them several times. What was computed is
    kept, and no longer the columns that tests read.
    """
    if plain(bounded.plan.source):
        return rows
    kept = relations.stage(rows.select)
    return replace(rows, select=Select(same(name for name, _ in rows.select.columns), kept), cells=())


def _row_values(scaled: ScaledMeasure, lowering: RowLowering) -> list[Scalar]:
    """Give what one row contributes to each coordinate: a whole number, 0 where the predicate or the value is
    missing.
    """
    where = scaled.measure.where
    tests = [] if where is None else [lowering.lower(where)]
    return [_row_value(each, tests, lowering) for each in scaled.contributions]


def _row_value(each: Contribution, tests: list[Scalar], lowering: RowLowering) -> Scalar:
    if each.value is None:
        return apply(ScalarFunction.CASE, tests[0], whole(1), whole(0)) if tests else whole(1)
    value = lowering.shared(lowering.lower(each.value))
    counted = lowering.shared(steps(each.value, value, each))  # of a mean and a sum: the same ones
    added = apply(ScalarFunction.SUBTRACT, whole(each.high), counted) if each.mirrored else counted
    return apply(ScalarFunction.CASE, every([*tests, present(value)]), added, whole(0))
