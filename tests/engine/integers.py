"""A second engine: integer tables in memory, added up by numpy. It proves that nothing above the seam needs SQL.

It counts, adds up and averages plain columns of whole numbers by plain columns, for rows that are units and for units
whose rows are reweighted; where rows are units it finds groups too. A plan with anything else is refused by ``check``,
before a charge.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.engine.protocols import DataIdentity, OpenReading, StatelessReading
from sfumato.errors import EngineClosed, Unsupported
from sfumato.plan.aggregates.measures import RowContribution
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.keys import ValueCombinations
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import BoundContributions, GroupValues, Scan, relations
from sfumato.plan.readings.total_readings import DiscoveredGroups, DiscoveredTotals, E, GroupTotals, PlanReading
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.policy import Policy

Whole = NDArray[np.int64]


class Integers:
    """Tables of whole numbers, copied when they are opened."""

    matches_values = False

    def __init__(self, policy: Policy, *_: str | int | None) -> None:  # it needs no disk, and no second thread
        self._policy, self._open = policy, True
        self._rows = {name: _copied(table.source.table) for name, table in policy.tables.items()}

    def catalog(self) -> Catalog:
        tables = {
            name: CatalogTable(
                name,
                table.columns,
                table.public,
                None if table.every_row else table.id,
                ContributionLimits.from_table(table),
            )
            for name, table in self._policy.tables.items()
        }
        return Catalog(tables, lambda *_: 1)

    def values(self, world: ValueCombinations) -> Sequence[GroupValues]:  # noqa: ARG002 - no expressions
        raise _unsupported()

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        for reading in readings:
            self._check(reading)
        return StatelessReading(self)

    def _check(self, reading: PlanReading[Any]) -> None:
        if not self._open:
            raise EngineClosed
        bounded = reading.bounded
        plain = all(isinstance(node, (Scan, BoundContributions)) for node in relations(bounded.plan.source))
        used = [*bounded.plan.keys, *(each.value for one in bounded.measures for each in one.contributions)]
        tests = any(each.measure.where is not None or each.measure.once_per_unit for each in bounded.measures)
        known = bounded.strategy in (Strategy.WHOLE, Strategy.REWEIGHT)
        if tests or not (plain and known and all(each is None or isinstance(each, Column) for each in used)):
            raise _unsupported()

    def read(self, reading: PlanReading[E], key: int) -> E:  # noqa: ARG002 - no samples
        if isinstance(reading, DiscoveredTotals):
            return cast("E", self._found(reading))
        assert isinstance(reading, GroupTotals)
        return cast("E", self._totals(reading.bounded, reading.groups))

    def _found(self, reading: DiscoveredTotals) -> DiscoveredGroups:
        """Every combination of values that rows have, of which those that are not declared count for nobody."""
        keys = [self._column(each) for each in reading.bounded.plan.keys]
        present = np.logical_and.reduce([each for _, each in keys])
        every = sorted({tuple(row) for row in np.column_stack([each for each, _ in keys])[present].tolist()})
        totals = self._totals(reading.bounded, every)
        own = [tuple(group[index] for index in reading.discovered_keys) for group in every]
        names = sorted(set(own))
        key = np.array([names.index(each) for each in own], np.intp)
        others = [tuple(group[index] for index in reading.declared_keys) for group in every]
        declared = np.array([reading.declared_groups.index(each) for each in others], np.intp)
        holders = np.bincount(key, totals[:, -1], len(names)).astype(np.int64)
        return DiscoveredGroups(
            holders, lambda places: [names[place] for place in places], key, declared, totals[:, :-1]
        )

    def _totals(self, bounded: BoundedPlan, groups: Sequence[GroupValues]) -> Whole:
        place = {group: index for index, group in enumerate(groups)}
        keys = [self._column(each)[0].tolist() for each in bounded.plan.keys]
        size = len(next(iter(self._rows[bounded.plan.table].values())))
        at = np.array([place.get(group, -1) for group in (zip(*keys, strict=True) if keys else [()] * size)], np.intp)
        found = np.zeros((len(groups), sum(each.coordinates for each in bounded.measures)), np.int64)
        columns = [self._weighted(bounded, one, each, at) for one in bounded.measures for each in one.contributions]
        for number, values in enumerate(columns):
            np.add.at(found[:, number], at[at >= 0], values[at >= 0])
        return found

    def _weighted(self, bounded: BoundedPlan, measure: ScaledMeasure, each: RowContribution, at: Whole) -> Whole:
        """What each row adds: reweighted, a row of a unit with R > m rows counts m/R, rounded toward zero."""
        values = self._steps(each, len(at))
        table = self._policy.tables[bounded.plan.table]
        if bounded.strategy is Strategy.WHOLE:
            return values
        _, unit = np.unique(self._rows[table.name][table.id], return_inverse=True)
        rows = np.maximum(np.bincount(unit[at >= 0], minlength=unit.max(initial=0) + 1)[unit], 1)
        most = bounded.limits.rows
        cut = np.sign(values) * (np.abs(values) * (most << measure.bits) // rows)
        return np.where(rows > most, cut, values << measure.bits)

    def _steps(self, each: RowContribution, size: int) -> Whole:
        if each.value is None:
            return np.ones(size, np.int64)
        values, present = self._column(each.value)
        steps = np.clip(np.rint(values / float(each.step)).astype(np.int64) - each.origin, each.low, each.high)
        return np.where(present, each.high - steps if each.mirrored else steps, 0)

    def _column(self, expression: Expression) -> tuple[Whole, NDArray[np.bool_]]:
        """A column as it is declared, and where it is there."""
        assert isinstance(expression, Column)
        assert isinstance(expression.reference, Field)
        domain = self._policy.tables[expression.reference.table].columns[expression.reference.name]
        values = self._rows[expression.reference.table][expression.reference.name]
        if domain.bounds is not None:
            values = np.clip(values, *domain.bounds)  # type: ignore[call-overload]
        return values, np.isin(values, domain.values) if domain.values is not None else np.ones(len(values), bool)

    def identity(self) -> str:
        return " ".join(self._seal(name) for name in self._policy.tables)

    def check_files(self) -> None:
        """The tables are copies: no file matters to them."""

    def data(self, *, public: bool) -> tuple[DataIdentity, ...]:
        chosen = [name for name, table in self._policy.tables.items() if table.public is public]
        return tuple(DataIdentity(f"memory://{self._seal(name)}", partial(self._seal, name)) for name in chosen)

    def _seal(self, name: str) -> str:
        return hashlib.sha256(b"".join(each.tobytes() for each in self._rows[name].values())).hexdigest()

    def hold(self) -> Held:
        """The tables are copies already: what is held is what was opened."""
        return Held(self)

    def interrupt(self, token: int | None = None) -> None:
        """Nothing here takes long."""

    def close(self) -> None:
        self._open = False


class Held:
    """A snapshot of tables that never change."""

    def __init__(self, engine: Integers) -> None:
        self._engine, self._open = engine, True

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        if not self._open:
            raise EngineClosed
        return self._engine.check(*readings)

    def read(self, reading: PlanReading[E], key: int) -> E:
        return self._engine.read(reading, key)

    def interrupt(self, token: int | None = None) -> None:
        """Nothing here takes long."""

    def close(self) -> None:
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _copied(table: object) -> dict[str, Whole]:
    return {name: np.array(column, np.int64) for name, column in dict(table.to_pydict()).items()}  # type: ignore[attr-defined]


def _unsupported() -> Unsupported:
    return Unsupported("engine-limits", "this engine reads plain columns of whole numbers", fix="ask for a column")
