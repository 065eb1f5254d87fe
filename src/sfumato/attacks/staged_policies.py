"""A policy is staged over invented people: its own table, limits, neighbours and noise, and nobody's data.

Attackers are assumed to know everything but one thing about one unit. So everybody else is public here: a hundred
invented units of a row each, and a target with as many rows as one unit may have count, all alike but for the target's
value of one column. No source of the policy is opened, and its ledger is neither read nor written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.side_by_side import thrown_away
from sfumato.errors import InvalidParameter
from sfumato.plan import written_names
from sfumato.plan.words import literal_words
from sfumato.policy import Domain, InMemory, Policy, Table, Type, Via
from sfumato.privacy import Budget, Neighbours

if TYPE_CHECKING:
    import pyarrow

    from sfumato.curator import Curator

_OTHERS = 100
_MOST_CELLS = 512
"""Cells of what is known of people, at most: each is asked about."""


@dataclass(frozen=True)
class Stage:
    """A stage is one private table of a policy, with the column whose value is secret, if there is one to ask about."""

    policy: Policy
    table: Table
    column: str | None

    def __str__(self) -> str:
        return _written(self.table, self.column)

    @property
    def path(self) -> tuple[Table, ...]:
        """List the tables through which it is found whose a row is, the nearest first; none where a row says it."""
        found, table = [], self.table
        while isinstance(table.id, Via):
            table = self.policy.tables[table.id.via]
            found.append(table)
        return tuple(found)

    @property
    def moves(self) -> bool:
        """Tell whether the secret value says which account pays: a target whose value is replaced moves from the period
        of one account to that of another, and both tell (``ledger.period_accounts``).
        """
        halved = self.policy.per is not None and self.policy.neighbours is Neighbours.REPLACE
        return halved and self.column is not None and self.column == self.policy.period_column(self.table.name)

    @property
    def domain(self) -> Domain:
        """Give what is declared of the secret column."""
        assert self.column is not None
        return self.table.columns[self.column]

    @property
    def listed(self) -> bool:
        """Tell whether the values of the secret column are listed; otherwise it has bounds."""
        return bool(_listed(self.domain))

    @property
    def values(self) -> tuple[Any, Any]:
        """Give the two values of the column that are told apart: the first two, or both ends of the range."""
        first, second = _pair(self.domain)
        return first, second

    @property
    def key(self) -> str:
        """Write in SQL what rows are grouped by so that the two values fall apart."""
        name, ends = quoted(str(self.column)), self.domain.bounds
        return name if ends is None else f"{name} >= {literal_words(ends[1], self.domain.type)}"

    @property
    def keys(self) -> tuple[Any, Any]:
        """Give the groups that the two values fall into."""
        return self.values if self.listed else (False, True)

    def keyed(self, rows: pyarrow.Table) -> list[Any]:
        """Find the group of each row, as SQL does."""
        found, top = rows[str(self.column)].to_pylist(), self.values[1]
        return found if self.listed else [None if each is None else each >= top for each in found]

    @property
    def rows(self) -> int:
        """Say how many rows the target has: as many as count of one unit, in one group."""
        most = 1 if self.table.every_row else self.table.max_rows or 1
        return min(most, self.table.max_rows_per_group or most, self.table.row_ceiling - 1)

    def others(self, count: int = _OTHERS) -> pyarrow.Table:
        """Make up people of a row each: the same ones every time."""
        room = min([self.table.row_ceiling - self.rows, *(each.row_ceiling - 1 for each in self.path)])
        rows = self._alone().dummy(min(count, room))[self.table.name]
        return self.identified(rows, np.arange(rows.num_rows))

    def target(self, others: pyarrow.Table, value: Any = None) -> pyarrow.Table:
        """Make up the target: rows like somebody else's, with an id of its own and this value of the secret column."""
        rows = others.take([0] * self.rows)
        if self.column is not None and value is not None:
            rows = with_column(rows, self.column, [value] * self.rows)
        return self.identified(rows, np.full(self.rows, others.num_rows))

    def identified(self, rows: pyarrow.Table, numbers: NDArray[np.int64]) -> pyarrow.Table:
        """Write whose the rows are, where the table says so or names the row of another that does."""
        return rows if self.table.every_row else with_column(rows, _link(self.table), (numbers + 1).tolist())

    def _alone(self) -> Policy:
        """Give the policy of this table alone, and of those that say whose its rows are."""
        needed = {each.name: each for each in (self.table, *self.path)}
        return replace(self.policy, tables=needed, analysts={}, path=None, per=None, ledger=None)

    @contextmanager
    def curator(self, rows: pyarrow.Table, account: Budget) -> Iterator[Curator]:
        """Open the policy over these rows, with an account that is thrown away."""
        link = None if self.table.every_row else _link(self.table)
        units = rows.num_rows if link is None else len(rows[link].unique())
        held = {self.table.name: rows, **self._owners(units)}
        alone = self._alone()
        staged = replace(
            alone,
            budget=account,
            tables={
                name: replace(alone.tables[name], source=InMemory(own), relation=None) for name, own in held.items()
            },
            size=units if self.policy.size is not None else None,
            account="invented people",
        )
        with thrown_away(staged) as opened:
            yield opened

    def _owners(self, units: int) -> dict[str, pyarrow.Table]:
        """Make up a row for each unit in every table through which owners are found, and name it as rows do."""
        invented = self._alone().dummy(units)
        found, child = {}, self.table
        for each in self.path:
            rows = invented[each.name]
            for name in dict.fromkeys((child.id.key, _link(each))):
                rows = with_column(rows, name, list(range(1, units + 1)))
            found[each.name], child = rows, each
        return found

    def known(self) -> dict[str, tuple[Any, ...]]:
        """Choose columns that an attacker knows of everybody, with their values: as many cells as there is room for."""
        found: dict[str, tuple[Any, ...]] = {}
        cells = 1
        for name, domain in self.table.columns.items():
            values = () if name in (self.column, _link(self.table)) else _listed(domain)
            if len(values) > 1 and cells * len(values) <= _MOST_CELLS:
                found[name] = values
                cells *= len(values)
        return found


def stages(policy: Policy, columns: Sequence[str] = ()) -> tuple[Stage, ...]:
    """List what is attacked: every private table, with each of its columns that has two values or more, those whose
    values are listed first; or the ``columns`` that are named, as ``table.column`` or by their name alone, which may
    be that of several.
    """
    private = [each for each in policy.tables.values() if not each.public]
    pairs = [(table, name) for table in private for name in _secrets(policy, table)]
    if not columns:
        bare = [(table, None) for table in private if not _secrets(policy, table)]
        return tuple(Stage(policy, table, name) for table, name in [*pairs, *bare])
    known = ", ".join(_written(table, name) for table, name in pairs[:20]) or "none of this policy"
    found: dict[tuple[str, str], Stage] = {}
    for each in columns:
        named = [pair for pair in pairs if each in _names(*pair)]
        if not named:
            rule = f"a private column of two listed values or more, or with bounds: {known}"
            raise InvalidParameter("column", each, rule)
        found |= {(table.name, name): Stage(policy, table, name) for table, name in named}
    return tuple(found.values())


def undeclared(policy: Policy) -> tuple[str, ...]:
    """Name the columns of private tables that are not attacked: lists, and those without two values or a range. What
    says whose a row is, itself or by the row of another table, is no secret.
    """
    left = [
        (each, {*_secrets(policy, each), *_links(policy, each)}) for each in policy.tables.values() if not each.public
    ]
    return tuple(_written(each, name) for each, but in left for name in (*each.columns, *each.lists) if name not in but)


def _written(table: Table, column: str | None) -> str:
    """Write a column with its table as SQL does: no two of a policy are written alike, whatever their names hold."""
    return ".".join(written_names.quoted(each) for each in (table.name, column) if each is not None)


def _names(table: Table, column: str) -> tuple[str, ...]:
    """List the ways in which somebody may name a column."""
    return column, f"{table.name}.{column}", _written(table, column)


def _secrets(policy: Policy, table: Table) -> list[str]:
    """List the columns of a table that a person could wish to hide, those with listed values first."""
    links = _links(policy, table)
    found = [name for name, domain in table.columns.items() if name not in links and len(_pair(domain)) == 2]
    return sorted(found, key=lambda name: not _listed(table.columns[name]))


def _links(policy: Policy, table: Table) -> set[str]:
    """List the columns that say whose a row is, or which row of this table others belong to."""
    others = [each.id for each in policy.tables.values() if isinstance(each.id, Via)]
    return {_link(table), *(each.key for each in others if each.via == table.name)}


def _link(table: Table) -> str:
    """Name the column that says whose a row is, itself or by the row of another table."""
    return table.id.on if isinstance(table.id, Via) else str(table.id)


def _pair(domain: Domain) -> tuple[Any, ...]:
    """Give two values of a column that differ most, as its rows hold them; fewer where it has not as many."""
    if listed := _listed(domain):
        return listed[:2]
    if domain.bounds is None or domain.bounds[0] == domain.bounds[1]:
        return ()
    return tuple(float(each) if isinstance(each, Fraction) else each for each in domain.bounds)


def _listed(domain: Domain) -> tuple[Any, ...]:
    """List the values of a column, where it has them."""
    if domain.values is None:
        return (False, True) if domain.type is Type.BOOLEAN else ()
    return tuple(float(each) if isinstance(each, Fraction) else each for each in domain.values)


def with_column(rows: pyarrow.Table, name: str, values: list[Any]) -> pyarrow.Table:
    """Write other values into a column of the same type."""
    import pyarrow

    place = rows.schema.get_field_index(name)
    own = rows.schema.field(place).type
    text = pyarrow.types.is_string(own) and not isinstance(values[0], str)
    made = pyarrow.array([str(each) for each in values] if text else values, own)
    return rows.set_column(place, name, made)


def quoted(name: str) -> str:
    """Write a name in SQL, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'
