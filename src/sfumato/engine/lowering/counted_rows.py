"""Lower the rows that count: the unit, the keys, and a whole number of steps for each coordinate of each measure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sfumato.engine.lowering.cell_lowering import Cells, cells
from sfumato.engine.lowering.relation_lowering import Columns, RelationLowering, every, plain, same
from sfumato.engine.lowering.relational import Operation, Reference, Scalar, Select, apply, whole
from sfumato.engine.lowering.row_lowering import RowLowering, present
from sfumato.engine.lowering.step_lowering import steps
from sfumato.plan.aggregates.measures import Contribution
from sfumato.plan.bounding import Bounded, Scaled
from sfumato.plan.limits import Strategy
from sfumato.policy import Type


@dataclass(frozen=True)
class Rows:
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
        texts = {name: apply(Operation.CONVERT, Reference(name), detail=(Type.TEXT,)) for name in self.coded}
        return tuple((name, texts.get(name, Reference(name))) for name in self.keys)


def counted_rows(bounded: Bounded, relations: RelationLowering) -> Rows:
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
    return Rows(
        select,
        tuple(name for name, _ in named),
        tuple(each.domain.type for each in plan.keys),
        tuple(name for name, _ in flat),
        frozenset(name for name, value in flat if value == whole(1)),
        frozenset(name for (name, _), once in zip(flat, maximal, strict=True) if once),
        cells=cells(bounded, lowering.columns, [value for _, value in flat]),
    )


def computed_once(bounded: Bounded, rows: Rows, relations: RelationLowering) -> Rows:
    """Keep the rows where they cost more than reading a table: limiting reads them several times. What was computed is
    kept, and no longer the columns that tests read.
    """
    if plain(bounded.plan.source):
        return rows
    kept = relations.stage(rows.select)
    return replace(rows, select=Select(same(name for name, _ in rows.select.columns), kept), cells=())


def _row_values(scaled: Scaled, lowering: RowLowering) -> list[Scalar]:
    """Give what one row contributes to each coordinate: a whole number, 0 where the predicate or the value is
    missing.
    """
    where = scaled.measure.where
    tests = [] if where is None else [lowering.lower(where)]
    return [_row_value(each, tests, lowering) for each in scaled.contributions]


def _row_value(each: Contribution, tests: list[Scalar], lowering: RowLowering) -> Scalar:
    if each.value is None:
        return apply(Operation.CASE, tests[0], whole(1), whole(0)) if tests else whole(1)
    value = lowering.shared(lowering.lower(each.value))
    counted = lowering.shared(steps(each.value, value, each))  # of a mean and a sum: the same ones
    added = apply(Operation.SUBTRACT, whole(each.high), counted) if each.mirrored else counted
    return apply(Operation.CASE, every([*tests, present(value)]), added, whole(0))
