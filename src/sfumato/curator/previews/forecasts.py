"""A forecast says how wrong an answer will be before it is bought: free, from the policy alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.notebook_html import paragraphs, table
from sfumato.plan.aggregates.spread import Pairs, Variance
from sfumato.plan.nodes import GroupKey, Query
from sfumato.plan.noisy_rows import Finish
from sfumato.plan.sharing import Made
from sfumato.plan.values.expressions import Column, Expression, Result, walk
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import CONFIDENCE, Number, exact, percent, shown as number, whole
from sfumato.release.answers.formatting import whole_reach
from sfumato.release.measured import Measured, by_column, estimating, rank_errors, results, scales
from sfumato.release.noisy_rows.answer_rows import answer_rows, one_row_per_set
from sfumato.release.noisy_rows.finishing import finish, picks, simultaneous
from sfumato.release.noisy_rows.key_functions import parted
from sfumato.release.noisy_rows.noisy_columns import Numbers
from sfumato.release.preparing import Prepared
from sfumato.safe_text import printable

Width = float | Mapping[int, float]
"""Of a column: one number, or by group size."""

SIZES = (100, 1_000, 10_000)
"""Group sizes for which the error of a mean or a ratio is shown when none is declared."""


@codec.value("forecast")
@dataclass(frozen=True)
class Forecast:
    """A forecast gives the half-width of each column of an answer: a number, or one for each of several group sizes."""

    columns: Mapping[str, Width] = field(metadata=codec.MAPPING)
    confidence: Fraction
    price: str
    accepted: bool
    """Whether the account, and the analyst's share of it, would accept this release now."""
    warnings: tuple[str, ...]
    """What the answer may miss because nobody declared it."""
    stored: bool = False
    """Whether an answer that is as good was bought before: it is free, whatever is left."""
    ranks: tuple[str, ...] = ()
    """The columns whose half-width is in rows, between what is released and what it stands for."""
    chosen: Mapping[str, str] = field(default_factory=dict, metadata=codec.MAPPING)
    """For a column of values that are chosen, how good a choice is, in words: it has no half-width."""
    free: str = ""
    """What a synopsis that was bought says of it for nothing, and how to take that; empty where none answers it."""
    counted: str = ""
    """What of one unit counts, where the rest is left out; empty where all rows count."""
    left: str = ""
    """What would be left for ordinary answers after this release, in words; empty where it is not accepted."""
    whole: tuple[str, ...] = ()
    """The columns of whole numbers, whose half-width is written as one."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        object.__setattr__(self, "confidence", exact(self.confidence, "confidence", CONFIDENCE))
        if not isinstance(self.columns, Mapping):
            raise InvalidParameter("columns", self.columns, "half-widths by column")
        object.__setattr__(self, "columns", {name: _width(each, name) for name, each in self.columns.items()})
        if not isinstance(self.chosen, Mapping) or set(map(type, self.chosen.values())) - {str}:
            raise InvalidParameter("chosen", self.chosen, "sentences by column")
        object.__setattr__(self, "chosen", dict(self.chosen))

    def __getitem__(self, name: str) -> Width:
        return self.columns[name]

    def to_json(self) -> str:
        """Write the forecast as JSON text; a half-width without an end is "Infinity"."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Forecast:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def parts(self) -> list[str]:
        """Write each column with its half-width, in its own terms or in rows, or how good a choice is, as text."""
        widths = [f"{printable(name)} {self._width(name)}" for name in self.columns]
        return [*widths, *(f"{printable(name)}: {said}" for name, said in self.chosen.items())]

    def rows(self) -> list[tuple[str, str]]:
        """Write each column beside its half-width, or how good a choice is, in words."""
        return [*((name, self._width(name)) for name in self.columns), *self.chosen.items()]

    def _width(self, name: str) -> str:
        width = self.columns[name]
        ranked = name in self.ranks and isinstance(width, float)
        return f"within {width:,.0f} rows of its rank" if ranked else shown(width, whole=name in self.whole)

    def __str__(self) -> str:
        parts = self.parts()
        said = [*(["; ".join(parts)] if parts else []), *([self.free] if self.free else [])]
        return "\n".join([*said, *(f"warning: {each}" for each in self.warnings)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = self.rows()
        verdict = "the account would accept it now" if self.accepted else "the account would REFUSE it now"
        told = "an answer as good was bought before: it is free" if self.stored else verdict
        sure = f"at {self.price}, with {percent(self.confidence)} confidence; {told}"
        warnings = (f"warning: {each}" for each in self.warnings)
        return table(("column", "error"), rows) + paragraphs([sure, self.free, *warnings])


def supposed(query: Query) -> tuple[str, ...]:
    """Say for which values half-widths of spreads and pairs were computed: others are known less well, or better."""
    if any(isinstance(each, (Variance, Pairs)) for each in query.plan.measures):
        return (
            "The half-widths of spreads, correlations and lines are of values spread evenly over their declared range: "
            "where values lie closer together, as most do, expect several times as much, or declare narrower bounds.",
        )
    return ()


def _width(found: Any, name: str) -> Width:
    if isinstance(found, Mapping):
        return {whole(size, name, at_least=1): codec.real(each, name) for size, each in found.items()}
    return codec.real(found, name)


def half_widths(
    query: Query,
    prepared: Prepared,
    made: Sequence[Made],
    groups: Sequence[GroupKey],
    most: int,
    confidence: Number,
    size: int | None,
) -> dict[str, Width]:
    """Give every numeric column's half-width at this confidence: of the widest row, where there are subtotals.

    A column whose width depends on what is in the group is evaluated as if a group held so many rows, spread evenly
    over the range of what is averaged, and added up at the middle of its range.
    """
    level = exact(confidence, "confidence", CONFIDENCE)
    sizes = (size,) if size is not None else SIZES
    found = [_widths(query, prepared, made, groups, most, level, each) for each in sizes]
    ranks = by_column(query, forecast_ranks(prepared, made, level))
    columns: dict[str, Width] = {}
    for name in found[0]:
        widths = [each[name] for each in found]
        plain = all(math.isclose(each, widths[0], rel_tol=1e-9) for each in widths)
        columns[name] = max(widths) if plain else dict(zip(sizes, widths, strict=True))
    return columns | {name: rows for name, rows in ranks.items() if name in columns}


def forecast_ranks(prepared: Prepared, made: Sequence[Made], confidence: Number) -> tuple[float | None, ...]:
    """Bound for everything that is asked how many rows its rank is off; None where nothing is chosen by ranks."""
    return rank_errors(Measured(scales(prepared), results(prepared, made), ()), confidence)


def _widths(
    query: Query,
    prepared: Prepared,
    made: Sequence[Made],
    groups: Sequence[GroupKey],
    most: int,
    level: Fraction,
    size: int,
) -> dict[str, float]:
    """Measure a stand-in for the data: groups of so many rows, without noise, with the ranges of noise.

    One group is enough, or one for each grouping set, unless rows are put together by windows or an outer SELECT. How
    wide these are is not known where groups are found in the data: it depends on how many are shown.
    """
    sets, apart, width = query.finish.sets, not (query.finish.windows or query.outer), len(query.plan.keys)
    if not apart and most > len(groups):
        return {}
    rows = one_row_per_set(sets, groups, width) if apart else answer_rows(sets, groups, width)
    count = 1 if apart else len(groups)
    numbers = (number for part in prepared.parts for number in part.supposed(size))
    drawn = tuple((number,) * count for number in numbers)
    measured = Measured(scales(prepared), results(prepared, made), drawn)
    every = len(answer_rows(sets, groups, width).keys) if sets else most
    together = simultaneous(query, every) if picks(query) else None
    estimates = estimating(measured, level, rows)
    shown, parts = parted(replace(query, finish=Finish(query.finish.outputs)) if apart else query)
    rows = replace(rows, keys=[(*key, *(None,) * len(parts)) for key in rows.keys], width=width + len(parts))
    finished = finish(shown, rows, lambda parts: estimates(together or parts), joint=False)
    return {
        output.name: float(np.nanmax([column.high - column.value, column.value - column.low]))
        + _rounding(output.expression, measured, int(rows.terms.max() if apart else 1 + len(rows.keys)))
        for output, column in zip(query.outputs, finished.columns, strict=True)
        if isinstance(column, Numbers) and not np.isnan(column.value).all()
    }


def _rounding(expression: Expression, measured: Measured, terms: int) -> float:
    """Say how far the number that is shown may lie from the one that was drawn.

    Weighted counts are drawn in parts of one and shown as the nearest whole number, which moves each by up to a half; a
    total is the sum of what is shown.
    """
    parted = [each.unit_value.denominator > 1 for each in measured.scales]
    fractional = [any(parted[scale] for scale in each.scales) for each in measured.results]
    read = [
        node.reference.index for node in walk(expression) if isinstance(node, Column) and type(node.reference) is Result
    ]
    if expression.domain.type is not Type.INTEGER or not any(fractional):
        return 0.0
    if terms > 1:
        return terms / 2
    return 0.5 if any(fractional[index] for index in read) else 0.0


def shown(width: Width, *, whole: bool) -> str:
    """Write a half-width, or one for each group size: of a column of whole numbers as answers have it."""
    if isinstance(width, Mapping):
        return ", ".join(f"{half_width(value, whole=whole)} in a group of {size:,}" for size, value in width.items())
    return half_width(width, whole=whole)


def half_width(width: float, *, whole: bool) -> str:
    """Write one half-width in a few digits; that of a whole number is whole, and rounded up.

    >>> half_width(30.46, whole=True), half_width(30.46, whole=False)
    ('±31', '±30.46')
    """
    return f"±{number(float(whole_reach(width)) if whole and math.isfinite(width) else width)}"
