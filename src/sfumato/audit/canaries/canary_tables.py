"""Canaries are invented units that are put among invented rows of a policy's table, each by a coin.

Nothing is read of the policy's own sources, and nothing is charged to its account: its schema alone says what rows may
look like, and a release runs in the policy's own curator over them, on a ledger that is thrown away. Under add-remove a
canary is there or is not; under replace another unit stands in its place, so that the number of units stays.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.canaries.canary_guesses import Present, Release
from sfumato.errors import InvalidParameter
from sfumato.policy import InMemory, Policy, Type
from sfumato.policy.dummies import dummies
from sfumato.privacy import Neighbours
from sfumato.privacy.numbers import whole

if TYPE_CHECKING:
    import pyarrow

    from sfumato.curator.curators import Curator

_MOST = 5_000
_RIDGE = 0.1
_NULL = object()
"""What stands for a missing value among keys that are compared."""


@dataclass(frozen=True)
class Planted:
    """A policy is held over invented rows, beside canaries of one row and one unit each."""

    policy: Policy
    table: str
    columns: tuple[str, ...]
    """Those that canaries are looked for by."""
    rows: pyarrow.Table
    canaries: pyarrow.Table
    others: pyarrow.Table | None
    """Under replace, who stands in the place of each canary that is not there."""

    @property
    def count(self) -> int:
        """Say how many canaries there are."""
        return int(self.canaries.num_rows)

    def holding(self, present: Present) -> Policy:
        """Give the policy over the invented rows and the canaries that are present."""
        import pyarrow

        parts = [self.rows, self.canaries.filter(pyarrow.array(present))]
        if self.others is not None:
            parts.append(self.others.filter(pyarrow.array(~present)))
        table = replace(self.policy.tables[self.table], source=InMemory(pyarrow.concat_tables(parts)), relation=None)
        return replace(self.policy, tables={**self.policy.tables, self.table: table})

    def release(self, ask: Callable[[Curator], Any]) -> Release:
        """Give a function that lets a curator over these rows release once, and scores each canary by what came out.

        ``ask`` releases marginals or a synthetic table of the planted table, and returns them.
        """
        from sfumato.curator.curators import Curator

        def run(present: Present) -> NDArray[np.float64]:
            with (
                tempfile.TemporaryDirectory(prefix="sfumato-") as folder,
                Curator(self.holding(present), Path(folder) / "canaries.ledger") as curator,
            ):
                return self.scores(ask(curator))

        return run

    def scores(self, released: Any) -> NDArray[np.float64]:
        """Estimate from what was released whether each canary is among the rows: 1 where it seems to be, else 0.

        Rows are counted by every two columns, as the released marginals or model say. What a cell holds beyond the
        rows that are known to be there is the sum of the canaries in it, and least squares find who they are.
        """
        seen = [name for name in self.columns if name in released.columns]
        if not seen:
            rule = f"marginals or a synthetic table of {self.table}, with one of its columns {', '.join(self.columns)}"
            raise InvalidParameter("ask", tuple(released.columns), rule)
        square, right = _RIDGE * np.eye(self.count), np.full(self.count, _RIDGE / 2)
        for columns in combinations(seen, min(2, len(seen))):
            shown = _counted(released, self.table, columns)
            moved, excess = self._equations(shown, columns)
            square += moved.T @ moved
            right += moved.T @ excess
        return np.linalg.solve(square, right)

    def _equations(self, shown: _Shown, columns: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Say of each cell which canaries are counted in it, and how many rows it holds beyond those that are known."""
        own, known = (_cells(each.select(columns), shown) for each in (self.canaries, self.rows))
        others = [] if self.others is None else _cells(self.others.select(columns), shown)
        place = {cell: row for row, cell in enumerate(dict.fromkeys([*shown.counts, *own, *known, *others]))}
        excess = np.array([shown.counts.get(cell, 0.0) for cell in place])
        moved = np.zeros((len(place), self.count))
        np.subtract.at(excess, [place[cell] for cell in [*known, *others]], 1.0)
        moved[[place[cell] for cell in own], np.arange(self.count)] += 1.0
        if others:  # whoever stands in a canary's place leaves when it comes
            moved[[place[cell] for cell in others], np.arange(self.count)] -= 1.0
        return moved, excess


def plant(
    policy: Policy, table: str, canaries: int = 200, *, rows: int = 200, columns: Sequence[str] | None = None
) -> Planted:
    """Make invented rows for a policy's table, and canaries to put among them; no source of the policy is opened."""
    own = policy.tables.get(table) if isinstance(table, str) else None
    if own is None or own.public:
        raise InvalidParameter("table", table, "the name of a private table of the policy")
    if not (own.every_row or isinstance(own.id, str)):
        raise InvalidParameter("table", table, "a table that has the id of a unit in its rows, or whose rows are units")
    many, base = whole(canaries, "canaries", at_least=1), whole(rows, "rows", at_least=1)
    if many > _MOST or base > _MOST:
        raise InvalidParameter("canaries", canaries, f"at most {_MOST:,} canaries and rows")
    seen = tuple(columns if columns is not None else (name for name in own.columns if name != own.id))
    if not seen or not set(seen) <= set(own.columns):
        raise InvalidParameter("columns", columns, "names of declared columns of the table")
    ids = policy.id_type or (None if policy.unit.every_row else Type.TEXT)
    private = {name: each for name, each in policy.tables.items() if not each.public}
    made = dummies(private, base + 2 * many, ids)
    tables = {
        name: replace(each, source=InMemory(made[name]), relation=None) if name in made else each
        for name, each in policy.tables.items()
    }
    invented = _with_ids(made[table], own, base)
    others = invented.slice(base + many, many) if policy.budget.neighbours is Neighbours.REPLACE else None
    held = replace(policy, tables=tables, id_type=ids, path=None, account=policy.account_name)
    return Planted(held, table, seen, invented.slice(0, base), invented.slice(base, many), others)


def _with_ids(made: pyarrow.Table, table: Any, base: int) -> pyarrow.Table:
    """Give every canary, and everybody who may stand in its place, an id of its own."""
    import pyarrow

    if table.every_row or table.id not in made.column_names:
        return made
    column = made.column_names.index(table.id)
    kind = made.schema.field(column).type
    fresh = pyarrow.array(np.arange(made.num_rows - base) + 1 + made.num_rows).cast(kind)
    kept = made.column(column).slice(0, base).combine_chunks()
    return made.set_column(column, table.id, pyarrow.concat_arrays([kept, fresh]))


@dataclass(frozen=True)
class _Shown:
    """This is what was released of some columns: a count for each cell, and where the cells of numbers begin."""

    counts: dict[tuple[Any, ...], float]
    starts: tuple[list[Any], ...]
    """For each column its keys in order, where all are numbers; else none."""


def _counted(released: Any, table: str, columns: Sequence[str]) -> _Shown:
    listed = ", ".join(f'"{name}"' for name in columns)
    answer = released.sql(f'SELECT {listed}, COUNT(*) AS n FROM "{table}" GROUP BY {listed}')
    counts = {tuple(map(_key, row[:-1])): float(row[-1]) for row in answer.rows}
    keys = [sorted({row[i] for row in counts if _is_number(row[i])}) for i in range(len(columns))]
    return _Shown(counts, tuple(keys))


def _key(value: Any) -> Any:
    return _NULL if value is None else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cells(rows: pyarrow.Table, shown: _Shown) -> list[tuple[Any, ...]]:
    """Find the cell of each row: a number lies in the cell that begins at it or next below."""
    columns = [
        [_begins(value, starts) for value in column.to_pylist()]
        for column, starts in zip(rows.columns, shown.starts, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _begins(value: Any, starts: list[Any]) -> Any:
    if not _is_number(value) or not starts:
        return _key(value)
    return starts[max(0, bisect_right(starts, value) - 1)]
