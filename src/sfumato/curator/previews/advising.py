"""Advice says which limit or bound makes the error of an answer, and what a tighter one would give: from the policy
alone.

Every figure is the forecast of the same question with one thing tightened, so it is what the question would really be
told. What a tighter limit or bound leaves out of the data is bias, not noise: no range shows it, and nothing here knows
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.curator.previews.forecasts import Width, half_width
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.notebook_html import paragraphs
from sfumato.plan.aggregates.measures import Mean, Sum
from sfumato.plan.limits import Limits
from sfumato.plan.nodes import Query
from sfumato.plan.values.expressions import Column, Field
from sfumato.plan.values.functions import call, literal
from sfumato.plan.words import words
from sfumato.policy import Type, Value
from sfumato.privacy import codec
from sfumato.privacy.numbers import PROBABILITY, exact, percent, text

_FEWER, _NARROWER = 4, 2
"""How many times tighter the limit is that is tried, and the bound."""
_WORTH = Fraction(1, 2)
"""The share of the error that a limit must make to be spoken of."""
_LEFT = 0.75
"""At most this part of the error may be left for a change to be worth telling."""
_BIAS = "What a tighter limit or bound leaves out of the data is bias, which no ± shows."
_NONE = "No limit or bound of one unit makes most of this error: a higher price or fewer columns would help."
_POLICY = {"rows": "max_rows", "groups": "max_groups", "rows_per_group": "max_rows_per_group"}
"""What the limits are called in a policy."""

Widths = Mapping[str, Width]
"""The half-widths of an answer's columns."""
Again = Callable[[Query, Limits], Widths]
"""What forecasts a question that differs in one limit or bound."""


@codec.value("tip")
@dataclass(frozen=True)
class Tip:
    """A tip names one limit or bound of a question, and what a tighter one gives."""

    cause: str
    """Such as "max_rows 20 makes 95 % of this error"."""
    share: Fraction
    """Of the error: what would be gone with a limit of 1, or with the bound that is tried."""
    change: str
    """What to write, such as ".limit(rows=5)"."""
    column: str
    now: str
    then: str
    """Its half-width as the question is, and with the change."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        object.__setattr__(self, "share", exact(self.share, "share", PROBABILITY))

    def __str__(self) -> str:
        return f"{self.cause}; {self.change} gives {self.then} instead of {self.now}"


@codec.value("advice")
@dataclass(frozen=True)
class Advice:
    """Advice lists what makes most of a question's error, the largest share first."""

    question: str
    price: str
    tips: tuple[Tip, ...]

    def __post_init__(self) -> None:
        codec.check_fields(self)
        if type(self.tips) is not tuple or set(map(type, self.tips)) - {Tip}:
            raise InvalidParameter("tips", self.tips, "a list of tips")

    def to_json(self) -> str:
        """Write the advice as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Advice:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    @property
    def lines(self) -> tuple[str, ...]:
        """Write each tip, and below them what they do not say."""
        return (*map(str, self.tips), _BIAS) if self.tips else (_NONE,)

    def __str__(self) -> str:
        return "\n".join([f"at {self.price}:", *self.lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return paragraphs([f"at {self.price}:", *self.lines])


@dataclass(frozen=True)
class _Tried:
    """One change that was tried, with what the question would be told."""

    cause: str
    share: Fraction
    change: str
    widths: Widths

    def helps(self, now: Widths) -> bool:
        """Return whether it is worth telling: whether much of the error would be gone."""
        return min(_ratios(now, self.widths).values(), default=1.0) <= _LEFT

    def tip(self, now: Widths, ranks: Collection[str], whole: Collection[str]) -> Tip:
        """Tell of the column that gains most."""
        ratios = _ratios(now, self.widths)
        column = min(ratios, key=lambda each: ratios[each])
        size = _size(now[column])
        of = "" if size is None else f" in a group of {size:,}"
        before, after = (
            f"{width:,.0f} rows" if column in ranks else half_width(width, whole=column in whole)
            for width in (_number(now[column]), _number(self.widths[column]))
        )
        return Tip(self.cause, self.share, self.change, column, before + of, after)


def advise(
    query: Query,
    limits: Limits,
    *,
    every_row: bool,
    again: Again,
    ranks: Collection[str],
    whole: Collection[str],
) -> tuple[Tip, ...]:
    """Compute the errors of a question as it is and with one limit or bound tightened at a time.

    ``again`` forecasts such a question. Of a limit it is also found what one row, or one group, of a unit would give:
    what is gone then is its share. ``ranks`` names the columns whose half-width is in rows, and ``whole`` those of
    whole numbers.
    """
    now = again(query, limits)
    of_limits = () if every_row else _tightenable(query, limits)
    found = [
        *(_of_limit(name, query, limits, now, again) for name in of_limits),
        *(_of_bound(place, query, limits, now, again) for place in range(len(query.plan.measures))),
    ]
    tips = {each.change: each.tip(now, ranks, whole) for each in found if each is not None and each.helps(now)}
    return tuple(sorted(tips.values(), key=lambda each: -each.share))


def ladder(most: int) -> tuple[int, ...]:
    """List 1, 2, 5, 10, 20, 50, … as far as a limit goes.

    >>> ladder(30)
    (1, 2, 5, 10, 20)
    """
    steps = (digit * 10**power for power in range(len(str(most))) for digit in (1, 2, 5))
    return tuple(each for each in steps if each <= most)


def _tightenable(query: Query, limits: Limits) -> Iterator[str]:
    """Name the limits that can be tightened by themselves: those of groups only where there are groups."""
    if limits.rows > 1:
        yield "rows"
    if query.plan.keys and 1 < limits.groups < limits.rows:
        yield "groups"
    if query.plan.keys and 1 < limits.rows_per_group < limits.rows:
        yield "rows_per_group"


def _of_limit(name: str, query: Query, limits: Limits, now: Widths, again: Again) -> _Tried | None:
    most: int = getattr(limits, name)
    to = ladder(max(1, most // _FEWER))[-1]
    least, tighter = (_tried(query, _tightened(limits, name, value), again) for value in (1, to))
    share = _gone(now, least)
    if share < _WORTH:
        return None
    policys = getattr(query.plan.limits, name) == most
    called = f"{_POLICY[name]} {most:,}" if policys else f".limit({name}={most})"
    return _Tried(f"{called} makes {percent(share)} of this error", share, f".limit({name}={to})", tighter)


def _tightened(limits: Limits, name: str, value: int) -> Limits:
    rows, groups, rows_per_group = (value if each == name else None for each in _POLICY)
    return limits.tighten(rows, groups, rows_per_group)


def _of_bound(place: int, query: Query, limits: Limits, now: Widths, again: Again) -> _Tried | None:
    """Try a sum or a mean of the same value held within a narrower range."""
    measure = query.plan.measures[place]
    if not isinstance(measure, (Sum, Mean)) or (narrow := _narrower(measure)) is None:
        return None
    function, end, to = narrow
    value = call(function, measure.value, literal(measure.value.domain.type, to))
    measures = (*query.plan.measures[:place], replace(measure, value=value), *query.plan.measures[place + 1 :])
    tighter = _tried(replace(query, plan=replace(query.plan, measures=measures)), limits, again)
    cause = f"the {'upper' if function == 'LEAST' else 'lower'} bound {_written(end)} of {words(measure.value)}"
    asked = "AVG" if isinstance(measure, Mean) else "SUM"
    return _Tried(f"{cause} sets this error", _gone(now, tighter), f"{asked}({words(value)})", tighter)


def _narrower(measure: Sum | Mean) -> tuple[str, Value, Value] | None:
    """Describe which end of a value's range to move, from where to where: the one that is farther from 0, or for a mean,
    whose error follows the width of the range, the upper one.
    """
    domain, value = measure.value.domain, measure.value
    if domain.range is None or not (isinstance(value, Column) and isinstance(value.reference, Field)):
        return None
    if not value.reference.table:  # found in a subquery, where it has no name that could be written
        return None
    low, high = (Fraction(each) for each in domain.range)  # type: ignore[arg-type]
    upper = isinstance(measure, Mean) or abs(high) >= abs(low)
    base, end = low if isinstance(measure, Mean) else Fraction(0), high if upper else low
    to = _rounded(base + (end - base) / _NARROWER, whole=domain.type is Type.INTEGER)
    if not low < to < high:
        return None
    ends: list[Value] = [int(each) if domain.type is Type.INTEGER else each for each in (end, to)]
    return "LEAST" if upper else "GREATEST", ends[0], ends[1]


def _rounded(value: Fraction, *, whole: bool) -> Fraction:
    """Round to two digits, toward 0: a bound that people would write."""
    if not value:
        return value
    unit = Fraction(10) ** (math.floor(math.log10(abs(value))) - 1)
    return math.trunc(value / unit) * unit if unit >= 1 or not whole else Fraction(math.trunc(value))


def _written(value: Value) -> str:
    if isinstance(value, (int, Fraction)) and value == int(value):
        return f"{int(value):,}"
    return text(value) if isinstance(value, Fraction) else str(value)


def _tried(query: Query, limits: Limits, again: Again) -> Widths:
    """Compute its errors, or none where that way of asking is refused: it is no advice then."""
    try:
        return again(query, limits)
    except (Unsupported, InvalidParameter):
        return {}


def _gone(now: Widths, then: Widths) -> Fraction:
    """Return which part of the error would be gone, in whole hundredths, for the column that gains most."""
    return Fraction(round(100 * (1 - min([1.0, *_ratios(now, then).values()]))), 100)


def _ratios(now: Widths, then: Widths) -> dict[str, float]:
    """Return for every column with a finite error how many times its error it would have."""
    found = {name: (_number(now[name]), _number(then[name])) for name in now if name in then}
    return {name: after / before for name, (before, after) in found.items() if before and math.isfinite(before)}


def _size(width: Width) -> int | None:
    """Take one group size, the middle one, where there are several."""
    return sorted(width)[len(width) // 2] if isinstance(width, Mapping) else None


def _number(width: Width) -> float:
    return width[sorted(width)[len(width) // 2]] if isinstance(width, Mapping) else width
