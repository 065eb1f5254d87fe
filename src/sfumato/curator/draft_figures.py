"""Exact figures about rows that help an owner choose limits and bounds while a policy is drafted. PRIVATE.

They are shown to the owner who allowed the rows to be read, and stored nowhere. A limit or bound is proposed from a
fixed ladder of round numbers and becomes part of the policy only when the owner confirms it: chosen by exact figures,
it tells something of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal

from sfumato.engine.inspecting import count_file_cells_outside, open_inspector
from sfumato.errors import SfumatoError
from sfumato.policy import Policy, Table, Type
from sfumato.privacy import Budget, PrivacyUnit
from sfumato.quick_dataclass import dataclass

_MIN_ROW_SHARE = 0.99
"""The share of rows that a proposed limit keeps at least."""
_SHARES_BEYOND = (0.1, 0.01, 0.0)
"""The shares of cells that may be beyond the bounds that are shown, half of them on each side."""
_PROPOSED_SHARE_BEYOND = 0.01
_ROUND_NUMBERS = tuple(Decimal(digit).scaleb(power) for power in range(-3, 13) for digit in (1, 2, 5))
_ROUND_YEARS = range(1900, 2105, 5)

Bound = Decimal | date


@dataclass(frozen=True)
class RowSharesWithinLimits:
    """The share of a table's rows that each limit per unit keeps. PRIVATE."""

    share_by_row_limit: Mapping[int, float]

    @property
    def proposed_limit(self) -> int | None:
        """The smallest limit of the ladder that keeps nearly all rows; None if the largest does not."""
        return next((limit for limit, share in self.share_by_row_limit.items() if share >= _MIN_ROW_SHARE), None)


@dataclass(frozen=True)
class BoundsChoice:
    """Round bounds of a column, and the share of its cells beyond them. PRIVATE."""

    low: Bound
    high: Bound
    share_beyond: float

    @property
    def text(self) -> str:
        """The bounds as an owner types them."""
        return f"{_format_bound(self.low)} {_format_bound(self.high)}"


@dataclass(frozen=True)
class BoundsFigures:
    """Round bounds from tight to wide, of which one is proposed. PRIVATE."""

    choices: tuple[BoundsChoice, ...]
    proposed: BoundsChoice


def row_shares_within_limits(tables: Mapping[str, Table], unit: PrivacyUnit) -> dict[str, RowSharesWithinLimits]:
    """Count what limits per unit keep of each private table with units of several rows; {} if a file cannot be read.

    PRIVATE.
    """
    with suppress(SfumatoError), open_inspector(Policy(unit, Budget(1), dict(tables))) as inspector:
        inspections = {name: inspector.inspect(name) for name, table in tables.items() if not table.every_row}
        return {
            name: RowSharesWithinLimits({limit: 1 - lost for limit, lost in inspection.lost_by_row_limit.items()})
            for name, inspection in inspections.items()
            if inspection.units
        }
    return {}


@dataclass(frozen=True)
class UnreadCells:
    """How many cells of a column are not missing, and how many of them a declaration cannot read. PRIVATE."""

    cells: int
    unread: int


def count_unread_cells(table: Table, column: str) -> UnreadCells | None:
    """Count the cells of a column that become missing; None if the file cannot be read. PRIVATE."""
    with suppress(SfumatoError), open_inspector(_single_table_policy(table)) as inspector:
        inspection = inspector.inspect(table.name)
        cost = inspection.columns[column]
        return UnreadCells(round(inspection.rows * (1 - cost.missing)), round(inspection.rows * cost.nulled))
    return None


def _single_table_policy(table: Table) -> Policy:
    return Policy(PrivacyUnit("row", every_row=True), Budget(1), {table.name: table})


def propose_bounds(table: Table, column: str) -> BoundsFigures | None:
    """Propose round bounds of a column of numbers or dates; None if it has no cell or no round number fits. PRIVATE."""
    kind = table.columns[column].type
    ladder = _candidate_round_bounds(kind)
    with suppress(SfumatoError):
        cells, below, above = count_file_cells_outside(
            _single_table_policy(table), table.name, column, [_sql_literal(value) for value in ladder]
        )
        choices = {share: _tightest_bounds(ladder, cells, below, above, share / 2) for share in _SHARES_BEYOND if cells}
        proposed = choices.get(_PROPOSED_SHARE_BEYOND)
        if proposed is not None:
            return BoundsFigures(tuple(dict.fromkeys(choice for choice in choices.values() if choice)), proposed)
    return None


def _candidate_round_bounds(sql_type: Type) -> list[Bound]:
    if sql_type.temporal:
        return [date(year, 1, 1) for year in _ROUND_YEARS]
    numbers = [number for number in _ROUND_NUMBERS if sql_type is Type.REAL or number == number.to_integral_value()]
    return [*(-number for number in reversed(numbers)), Decimal(0), *numbers]


def _tightest_bounds(
    ladder: Sequence[Bound], cells: int, below: Sequence[int], above: Sequence[int], max_share_beyond: float
) -> BoundsChoice | None:
    """Return the tightest bounds of the ladder with at most this share of cells beyond each end."""
    lows = [index for index, count in enumerate(below) if count <= max_share_beyond * cells]
    highs = [index for index, count in enumerate(above) if count <= max_share_beyond * cells]
    if not lows or not highs:
        return None
    low, high = lows[-1], highs[0]
    if low == high:  # nearly all cells have one value, which is on the ladder
        high = min(high + 1, len(ladder) - 1)
        low = high - 1
    low, high = _extend_bounds_to_zero(ladder, low, high)
    return BoundsChoice(ladder[low], ladder[high], (below[low] + above[high]) / cells)


def _extend_bounds_to_zero(ladder: Sequence[Bound], low: int, high: int) -> tuple[int, int]:
    """Begin bounds of numbers at 0 unless that doubles their width: the noise of a sum grows with the larger end."""
    low_end, high_end = ladder[low], ladder[high]
    if isinstance(low_end, date) or isinstance(high_end, date):
        return low, high
    zero = ladder.index(Decimal(0))
    if zero < low and 2 * low_end < high_end:
        return zero, high
    return (low, zero) if high < zero and 2 * high_end > low_end else (low, high)


def _sql_literal(value: Bound) -> str:
    return f"DATE '{value.isoformat()}'" if isinstance(value, date) else _format_bound(value)


def _format_bound(value: Bound) -> str:
    return value.isoformat() if isinstance(value, date) else f"{value:f}"
