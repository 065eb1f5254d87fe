"""A policy is staged over invented people: its own table, limits, neighbours and noise, and nobody's data.

Attackers are assumed to know everything but one thing about one unit. So everybody else is public here: a hundred
invented units of a row each, and a target with as many rows as one unit may have count, all alike but for the target's
value of one column. No source of the policy is opened, and its ledger is neither read nor written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.side_by_side import thrown_away
from sfumato.errors import InvalidParameter
from sfumato.policy import Domain, InMemory, Policy, Table, Type, Via
from sfumato.privacy import Budget

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

    @property
    def epsilon(self) -> Fraction:
        """Give the whole budget of one account: what an analyst could spend on one question."""
        return self.policy.account_budget.epsilon

    @property
    def values(self) -> tuple[Any, Any]:
        """Give the two values of the column that are told apart."""
        assert self.column is not None
        return _listed(self.table.columns[self.column])[:2]

    @property
    def rows(self) -> int:
        """Say how many rows the target has: as many as count of one unit, in one group."""
        most = 1 if self.table.every_row else self.table.max_rows or 1
        return min(most, self.table.max_rows_per_group or most, self.table.row_ceiling - 1)

    def others(self, count: int = _OTHERS) -> pyarrow.Table:
        """Make up people of a row each: the same ones every time."""
        alone = replace(self.policy, tables={self.table.name: self.table}, analysts={}, path=None, per=None)
        rows = alone.dummy(min(count, self.table.row_ceiling - self.rows))[self.table.name]
        return self.identified(rows, np.arange(rows.num_rows))

    def target(self, others: pyarrow.Table, value: Any = None) -> pyarrow.Table:
        """Make up the target: rows like somebody else's, with an id of its own and this value of the secret column."""
        rows = others.take([0] * self.rows)
        if self.column is not None and value is not None:
            rows = with_column(rows, self.column, [value] * self.rows)
        return self.identified(rows, np.full(self.rows, others.num_rows))

    def identified(self, rows: pyarrow.Table, numbers: NDArray[np.int64]) -> pyarrow.Table:
        """Write whose the rows are, where the table says so."""
        return rows if self.table.every_row else with_column(rows, str(self.table.id), (numbers + 1).tolist())

    @contextmanager
    def curator(self, rows: pyarrow.Table, questions: int) -> Iterator[Curator]:
        """Open the policy over these rows, with an account that pays the whole budget for each of so many questions."""
        whole = Budget(self.epsilon * questions, neighbours=self.policy.neighbours)
        table = replace(self.table, source=InMemory(rows), relation=None)
        units = rows.num_rows if self.table.every_row else len(rows[str(self.table.id)].unique())
        staged = replace(
            self.policy,
            budget=whole,
            tables={table.name: table},
            size=units if self.policy.size is not None else None,
            analysts={},
            path=None,
            per=None,
            account="invented people",
        )
        with thrown_away(staged) as opened:
            yield opened

    def known(self) -> dict[str, tuple[Any, ...]]:
        """Choose columns that an attacker knows of everybody, with their values: as many cells as there is room for."""
        found: dict[str, tuple[Any, ...]] = {}
        cells = 1
        for name, domain in self.table.columns.items():
            values = () if name in (self.column, self.table.id) else _listed(domain)
            if len(values) > 1 and cells * len(values) <= _MOST_CELLS:
                found[name] = values
                cells *= len(values)
        return found


def stage(policy: Policy, column: str | None = None) -> Stage:
    """Choose what is attacked: ``table.column``, or the first column of listed values in a table that has ids."""
    direct = [each for each in policy.tables.values() if not each.public and not isinstance(each.id, Via)]
    pairs = [(table, name) for table in direct for name in table.columns if _secret(table, name)]
    if column is None:
        table, name = pairs[0] if pairs else (direct[0], None)
        return Stage(policy, table, name)
    for table, name in pairs:
        if column in (name, f"{table.name}.{name}"):
            return Stage(policy, table, name)
    known = ", ".join(f"{table.name}.{name}" for table, name in pairs[:20]) or "none of this policy"
    raise InvalidParameter("column", column, f"a private column of two listed values or more: {known}")


def _secret(table: Table, name: str) -> bool:
    return name != table.id and len(_listed(table.columns[name])) > 1


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
