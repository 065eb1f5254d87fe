"""Labels of cells, and of the parts that a level joins cells to."""

from __future__ import annotations

from fractions import Fraction

from sfumato.privacy.numbers import format_exact
from sfumato.publish.marginals.attributes import Attribute, Cell, GroupCell, ListedCell, RangeCell


def level_labels(attribute: Attribute, level: int) -> list[str | None]:
    """Return the label of the part that every cell is in at a level: the policy's, or that of its first and last cell;
    None for missing values.
    """
    parts = attribute.levels[level]
    if attribute.labels and attribute.labels[level]:
        return [*(attribute.labels[level][part] for part in parts[:-1]), None]
    members: dict[int, list[Cell]] = {}
    for part, cell in zip(parts[:-1], attribute.cells[:-1], strict=True):
        members.setdefault(part, []).append(cell)
    names = {part: _part_name(cells) for part, cells in members.items()}
    return [*(names[part] for part in parts[:-1]), None]


def _part_name(cells: list[Cell]) -> str:
    bins = [cell for cell in cells if isinstance(cell, RangeCell)]
    if bins:  # a value with a cell of its own belongs to the bin that it lies in
        return describe_cell(RangeCell(bins[0].low, bins[-1].high, bins[-1].closed))
    first, last = cells[0], cells[-1]
    return describe_cell(first) if len(cells) == 1 else f"{describe_cell(first)} … {describe_cell(last)}"


def describe_cell(cell: Cell) -> str:
    """Describe a cell: its value, the ends of its bin, or the first and last value of its group."""
    if isinstance(cell, ListedCell):
        return _format_value(cell.value)
    if isinstance(cell, RangeCell):
        return f"{_format_value(cell.low)} to {'' if cell.closed else 'below '}{_format_value(cell.high)}"
    if isinstance(cell, GroupCell):
        first, last = _format_value(cell.values[0]), _format_value(cell.values[-1])
        return f"one of {len(cell.values):,} values from {first} to {last}"
    return "missing or in no bin"


def _format_value(value: object) -> str:
    return format_exact(value) if isinstance(value, Fraction) else str(value)
