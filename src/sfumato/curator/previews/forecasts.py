"""A forecast says how wrong an answer will be before it is bought: free, from the policy alone.

A forecast of marginals is read without the planner that made it.

The least price for a wanted accuracy is found by trying prices; what has no half-width cannot be asked for one.

The error of an answer is drawn against its price, before anything is spent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
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
from sfumato.plots.frame import INSIDE, Drawing, below, beside, framed
from sfumato.plots.lines import Panel, PlottedLine, heights, panel
from sfumato.plots.picture import Picture
from sfumato.plots.scales import LogScale
from sfumato.policy import Type
from sfumato.privacy import PrivacyUnit, codec
from sfumato.privacy.calibration import above, least_by
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, chance, exact, percent, shown as number, text, whole
from sfumato.release.answers.formatting import whole_reach
from sfumato.release.measured import Measured, by_column, estimating, rank_errors, results, scales
from sfumato.release.noisy_rows.finishing import finish, picks, simultaneous
from sfumato.release.noisy_rows.key_functions import answer_rows, one_row_per_set, parted
from sfumato.release.noisy_rows.noisy_columns import Numbers
from sfumato.release.preparing import Prepared
from sfumato.release.prices import rounded_up
from sfumato.release.requests import Within
from sfumato.untrusted import printable

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
    """Describe for which values half-widths of spreads and pairs were computed: others are known less well, or better."""
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
    """Return every numeric column's half-width at this confidence: of the widest row, where there are subtotals.

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
    """Return how far the number that is shown may lie from the one that was drawn.

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


SHOWN_PLAN = 24
"""How many marginals are listed."""


@codec.value("marginals-forecast")
@dataclass(frozen=True)
class MarginalsForecast:
    """A forecast of marginals gives the half-width of every cell of each of them, before they are bought."""

    sets: tuple[tuple[str, ...], ...]
    widths: tuple[float, ...]
    """In the order of the sets, in rows."""
    confidence: Fraction
    joint: bool
    """Whether all ranges hold together with this confidence, or each by itself."""
    price: str
    accepted: bool
    """Whether the account, and the analyst's share of it, would accept this release now."""
    stored: bool = False
    """Whether marginals that are as good were bought before: they are free, whatever is left."""
    counted: str = ""
    """What of one unit counts, where the rest is left out; empty where all rows count."""
    warnings: tuple[str, ...] = ()
    """What buying them would end."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        object.__setattr__(self, "confidence", exact(self.confidence, "confidence", CONFIDENCE))
        object.__setattr__(self, "widths", tuple(codec.real(each, "widths") for each in self.widths))
        named = all(type(each) is tuple and all(type(name) is str for name in each) for each in self.sets)
        if not named or not self.sets or len(self.sets) != len(self.widths):
            raise InvalidParameter("widths", len(self.widths), "one for each set of columns")

    @property
    def worst(self) -> float:
        """Return the half-width of the marginal that is known least well."""
        return max(self.widths)

    def __getitem__(self, columns: str | Sequence[str]) -> float:
        """Return the half-width of one marginal, named by its columns in any order."""
        wanted = frozenset((columns,) if isinstance(columns, str) else columns)
        for each, found in zip(self.sets, self.widths, strict=True):
            if wanted == frozenset(each):
                return found
        raise InvalidParameter("columns", columns, "those of one of the marginals")

    def to_json(self) -> str:
        """Write the forecast as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> MarginalsForecast:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def __str__(self) -> str:
        sure = f"{percent(self.confidence)} confidence{', all together' if self.joint else ''}"
        order = sorted(zip(self.widths, self.sets, strict=True), reverse=True)
        lines = [f"±{number(found)}  {name_of(each)}" for found, each in order[:SHOWN_PLAN]]
        more = [f"and {len(order) - SHOWN_PLAN:,} more"] if len(order) > SHOWN_PLAN else []
        noted = [f"warning: {each}" for each in self.warnings]
        return "\n".join([f"half-width of each cell at {self.price}, {sure}:", *lines, *more, *noted])

    __repr__ = __str__


def name_of(columns: Sequence[str]) -> str:
    """Name a marginal by its columns."""
    return " × ".join(columns)


_PRECISE = Fraction(1, 2**20)  # how exactly the least price is found, as a part of itself
Widths = Callable[[Fraction, int | None], Mapping[str, Width]]
"""The half-widths of every column at a price, for groups of one size, or of every size."""


def least_price(within: Within | None, names: Collection[str], widths: Widths) -> Fraction:
    """Find the least price at which the columns of an answer, which have these names, are within what is wanted."""
    goals = _goals(within, names, widths(Fraction(1), None))

    def short(price: Fraction, size: int | None = None) -> float:
        found = widths(price, size)
        wanted = ((found[name], goal) for name, goal in goals.items())
        return max(above(width, goal) if isinstance(width, float) else math.inf for width, goal in wanted)

    # What is enough for groups of every size is enough for one: the least for one is the least if it is for all.
    try:
        found = least_by(lambda price: short(price, SIZES[0]), "within", _PRECISE)
        return rounded_up(found if short(found) <= 0 else least_by(short, "within", _PRECISE))
    except InvalidParameter as refused:
        if refused.place not in ("guarantee", "price"):
            raise
        rule = "half-widths that the noise of some price has: no price has these"
        fix = "look at error(), which says what a price gives"
        raise InvalidParameter("within", within, rule, fix=fix) from None


def _goals(within: Within | None, names: Collection[str], known: Mapping[str, Width]) -> dict[str, Fraction]:
    """Read what is wanted of each column; refuse what no price could give."""
    if not known:
        raise _no_half_width(*names)
    wanted: Mapping[str, Any] = within if isinstance(within, Mapping) else dict.fromkeys(known, within)
    if not wanted:
        raise InvalidParameter("within", within, "half-widths by column, such as {'visits': 50}")
    goals = {name: exact(width, f"within {name}", POSITIVE) for name, width in wanted.items()}
    for name in goals:
        if name not in known and name in names:
            raise _no_half_width(name)
        if name not in known:
            raise InvalidParameter("within", name, "a column of numbers: " + ", ".join(known))
        if known[name] == math.inf:
            raise InvalidParameter(
                "within", name, "a column whose error is finite: a part of it may be divided by zero"
            )
        if isinstance(known[name], Mapping):
            raise InvalidParameter(
                "within",
                name,
                "a column with one half-width: that of a mean or a ratio depends on how many rows a group has",
                fix="add COUNT(*) AS n or a SUM to the question and name that one; or give epsilon (--epsilon) and "
                "look at error() (--dry-run), which shows this column's half-width by the size of a group",
            )
    return goals


def _no_half_width(*names: str) -> InvalidParameter:
    rule = "a column of noisy numbers: what is a key, or is chosen among values, has no half-width"
    fix = "give epsilon (--epsilon) and look at error() (--dry-run), which says how good a choice is"
    return InvalidParameter("within", ", ".join(names), rule, fix=fix)


_STEPS = 24
"""Prices at which the error is computed."""
_MOST_PANELS, _GAP = 6, 30.0
"""Columns on a page, and pixels between two of them."""
_ABOVE = 3.0
"""How far above the largest error a panel goes, so that what is left is written above the lines."""


def draw_terms(unit: PrivacyUnit, delta: Number, confidence: Number) -> list[str]:
    """Describe what the picture is of."""
    beside = f"beside δ = {chance(exact(delta, 'delta'))}" if exact(delta, "delta") else ""
    sure = f"half-widths at {percent(confidence)} confidence, for the noise alone"
    return [f"protects {unit}", beside, sure, "nothing was spent"]


def draw_errors(
    name: str,
    widths: Callable[[Fraction], Mapping[str, Width]],
    ends: tuple[Number, Number],
    left: Fraction,
    terms: Sequence[str],
) -> Picture:
    """Draw a panel for every column, since rows and minutes have no axis in common: its half-width at each ε, both by
    their logarithms.
    """
    least, most = (exact(end, each, POSITIVE) for end, each in zip(ends, ("least", "most"), strict=True))
    if least >= most:
        raise InvalidParameter("least", ends[0], f"below most = {text(most)}")
    ratio = (math.log(float(most)) - math.log(float(least))) / _STEPS
    epsilons = [Fraction(f"{float(least) * math.exp(ratio * step):.6g}") for step in range(_STEPS + 1)]
    every = [widths(epsilon) for epsilon in epsilons]
    columns = {
        column: _lines(column, epsilons, every) for column in dict.fromkeys(each for one in every for each in one)
    }
    drawn = {column: lines for column, lines in columns.items() if lines}
    if not drawn:
        raise InvalidParameter("question", "no half-widths", "one with a column of numbers whose error is finite")
    marked = ((float(left), f"left: ε = {number(float(left))}"),) if left else ()
    more = [f"drawn are the first {_MOST_PANELS} of {len(drawn)} columns"] if len(drawn) > _MOST_PANELS else []
    return framed(_panels(drawn, marked), f"How wrong: {name}", terms, more)


def _panels(drawn: Mapping[str, Sequence[PlottedLine]], marked: tuple[tuple[float, str], ...]) -> Drawing:
    """Draw one panel over the whole width, or several, two beside each other."""
    high, wide = (340.0, INSIDE) if len(drawn) == 1 else (240.0, (INSIDE - _GAP) / 2)
    found = []
    for column, lines in list(drawn.items())[:_MOST_PANELS]:
        low, top = heights(lines, log=True)
        ends = (low, top * (_ABOVE if marked else 1))
        of = Panel(f"{column}: half-width (±)", "ε", LogScale, LogScale, ends=ends, marked=marked)
        found.append(panel(lines, of, high, wide))
    return below([beside(found[at : at + 2], _GAP) for at in range(0, len(found), 2)])


def _lines(column: str, epsilons: Sequence[Fraction], every: Sequence[Mapping[str, Width]]) -> list[PlottedLine]:
    """Return the line of a column, or of a mean one for each size of a group; none where no error is finite."""
    widths = [each.get(column) for each in every]
    sizes = next((tuple(each) for each in widths if isinstance(each, Mapping)), (0,))
    found = []
    for size in sizes:
        halves = [each.get(size) if isinstance(each, Mapping) else each for each in widths]
        finite = [half if half is not None and 0 < half < math.inf else None for half in halves]
        if any(half is not None for half in finite):
            found.append(_line(f"group of {size:,}" if size else column, epsilons, finite))
    return found


def _line(name: str, epsilons: Sequence[Fraction], halves: Sequence[float | None]) -> PlottedLine:
    said = tuple(
        f"ε = {number(float(each))}: ±{'' if half is None else number(half)}"
        for each, half in zip(epsilons, halves, strict=True)
    )
    return PlottedLine(name, tuple(map(float, epsilons)), tuple(halves), said=said)
