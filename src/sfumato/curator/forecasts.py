"""How wrong an answer will be, before it is bought: free, from the policy alone."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction

import numpy as np

from sfumato.plan.nodes import Finish, Query
from sfumato.privacy.numbers import CONFIDENCE, Number, exact, shown as number, text
from sfumato.release.finishing import Numbers, finish, picks, simultaneous
from sfumato.release.measured import Measured, estimating, scales
from sfumato.release.preparing import Prepared

Width = float | Mapping[int, float]
"""Of a column: one number, or by group size."""

SIZES = (100, 1_000, 10_000)
"""Group sizes for which the error of a mean or a ratio is shown when none is declared."""


@dataclass(frozen=True)
class Forecast:
    """Half-widths of an answer's columns: a number, or by group size where it depends on that."""

    columns: Mapping[str, Width]
    confidence: Fraction
    price: str
    accepted: bool
    """Whether the account, and the analyst's share of it, would accept this release now."""
    warnings: tuple[str, ...] = ()
    """What the answer may miss because nobody declared it."""

    def __getitem__(self, name: str) -> Width:
        return self.columns[name]

    def to_json(self) -> str:
        return json.dumps({"version": 1, **asdict(self), "confidence": text(self.confidence)}, ensure_ascii=False)

    def __str__(self) -> str:
        widths = "; ".join(f"{name} {shown(width)}" for name, width in self.columns.items())
        return "\n".join([widths, *(f"warning: {each}" for each in self.warnings)])

    __repr__ = __str__


def half_widths(
    query: Query, prepared: Prepared, groups: int, confidence: Number, size: int | None
) -> dict[str, Width]:
    """Every numeric column's half-width at this confidence.

    A column whose width depends on what is in the group is evaluated as if a group held so many rows, spread evenly
    over the range of what is averaged, and added up at the middle of its range.
    """
    level = exact(confidence, "confidence", CONFIDENCE)
    sizes = (size,) if size is not None else SIZES
    found = [_widths(query, prepared, groups, level, each) for each in sizes]
    columns: dict[str, Width] = {}
    for name in found[0]:
        widths = [each[name] for each in found]
        plain = all(math.isclose(each, widths[0], rel_tol=1e-9) for each in widths)
        columns[name] = max(widths) if plain else dict(zip(sizes, widths, strict=True))
    return columns


def _widths(query: Query, prepared: Prepared, groups: int, level: Fraction, size: int) -> dict[str, float]:
    """On a stand-in for the data: one group of so many rows, with no noise; ranges are what noise would make them."""
    totals = tuple(int(size * total / each.worth) for each in prepared.bounded.measures for total in each.middle)
    measured = Measured(scales(prepared), tuple((total,) for total in totals))
    together = simultaneous(query.finish, groups) if picks(query.finish) else None
    key = (None,) * len(query.plan.keys)
    estimates = estimating(measured, level)
    made = finish(Finish(query.finish.outputs), [key], lambda parts: estimates(together or parts), joint=False)
    return {
        output.name: float(max((column.high - column.value)[0], (column.value - column.low)[0]))
        for output, column in zip(query.finish.outputs, made.columns, strict=True)
        if isinstance(column, Numbers) and not np.isnan(column.value[0])
    }


def shown(width: Width) -> str:
    if isinstance(width, Mapping):
        return ", ".join(f"±{number(value)} in a group of {size:,}" for size, value in width.items())
    return f"±{number(width)}"
