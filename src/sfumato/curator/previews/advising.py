"""Advise which limit or bound causes an answer's error, and what a tighter one would give: from the policy alone.

Every figure is the forecast of the same question with one setting tightened. What a tighter limit or bound drops from
the data is bias, not noise: no interval covers it, and it is unknown here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.curator.previews.forecasts import Width, format_half_width
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.notebook_html import paragraphs
from sfumato.plan.aggregates.measures import Mean, Sum
from sfumato.plan.descriptions import expression_sql
from sfumato.plan.limits import Limits
from sfumato.plan.nodes import Query
from sfumato.plan.values.expressions import Column, Field
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Type, Value
from sfumato.privacy import codec
from sfumato.privacy.numbers import PROBABILITY, exact, format_exact, format_percent

_LIMIT_FACTOR, _BOUND_FACTOR = 4, 2
"""The factors by which limits and bounds are tightened in a trial."""
_MIN_SHARE = Fraction(1, 2)
"""The share of the error that a limit must cause to be reported."""
_MAX_RATIO = 0.75
"""The largest remaining share of the error for a change to be reported."""
_BIAS = "A tighter limit or bound drops data: this bias is not covered by ±."
_NONE = "No limit or bound per unit causes most of this error: a higher price or fewer columns would help."
_POLICY = {"rows": "max_rows", "groups": "max_groups", "rows_per_group": "max_rows_per_group"}
"""The names of the limits in a policy."""

Widths = Mapping[str, Width]
"""The half-widths of an answer's columns."""
Again = Callable[[Query, Limits], Widths]
"""Forecasts the question with other limits or bounds."""


@codec.serialisable("tip")
@dataclass(frozen=True)
class Tip:
    """One limit or bound of a question, and the effect of a tighter one."""

    cause: str
    """Such as "max_rows 20 causes 95 % of this error"."""
    share: Fraction
    """The share of the error removed by a limit of 1, or by the tried bound."""
    change: str
    """What to write, such as ".limit(rows=5)"."""
    column: str
    now: str
    then: str
    """The half-width now, and with the change."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        object.__setattr__(self, "share", exact(self.share, "share", PROBABILITY))

    def __str__(self) -> str:
        return f"{self.cause}; {self.change} gives {self.then} instead of {self.now}"


@codec.serialisable("advice")
@dataclass(frozen=True)
class Advice:
    """What causes most of a question's error, the largest share first."""

    question: str
    price: str
    tips: tuple[Tip, ...]

    def __post_init__(self) -> None:
        codec.check_fields(self)
        if type(self.tips) is not tuple or set(map(type, self.tips)) - {Tip}:
            raise InvalidParameter("tips", self.tips, "a tuple of Tip values")

    def to_json(self) -> str:
        """Serialize the advice as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Advice:
        """Parse what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    @property
    def lines(self) -> tuple[str, ...]:
        """Each tip as text, followed by the caveat about bias."""
        return (*map(str, self.tips), _BIAS) if self.tips else (_NONE,)

    def __str__(self) -> str:
        return "\n".join([f"at {self.price}:", *self.lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return paragraphs([f"at {self.price}:", *self.lines])


@dataclass(frozen=True)
class _TriedChange:
    """A change that was tried, with the forecast of the changed question."""

    cause: str
    share: Fraction
    change: str
    widths: Widths

    def helps(self, now: Widths) -> bool:
        """Return whether the change removes enough of the error to be reported."""
        return min(_ratios(now, self.widths).values(), default=1.0) <= _MAX_RATIO

    def tip(self, now: Widths, ranks: Collection[str], whole: Collection[str]) -> Tip:
        """Return the tip for the column that gains most."""
        ratios = _ratios(now, self.widths)
        column = min(ratios, key=lambda name: ratios[name])
        size = _size(now[column])
        group_text = "" if size is None else f" in a group of {size:,}"
        before, after = (
            f"{width:,.0f} rows" if column in ranks else format_half_width(width, whole=column in whole)
            for width in (_number(now[column]), _number(self.widths[column]))
        )
        return Tip(self.cause, self.share, self.change, column, before + group_text, after)


def advise(
    query: Query,
    limits: Limits,
    *,
    every_row: bool,
    again: Again,
    ranks: Collection[str],
    whole: Collection[str],
) -> tuple[Tip, ...]:
    """Forecast a question as it is, and with one limit or bound tightened at a time.

    ``again`` forecasts a changed question. A limit's share is what a limit of one row, or one group, per unit
    would remove. ``ranks`` names the columns whose half-width is in rows, and ``whole`` those of integers.
    """
    current = again(query, limits)
    limit_names = () if every_row else _tightenable_limits(query, limits)
    changes = [
        *(_try_limit(name, query, limits, current, again) for name in limit_names),
        *(_try_bound(index, query, limits, current, again) for index in range(len(query.plan.measures))),
    ]
    tips = {
        change.change: change.tip(current, ranks, whole)
        for change in changes
        if change is not None and change.helps(current)
    }
    return tuple(sorted(tips.values(), key=lambda tip: -tip.share))


def ladder(most: int) -> tuple[int, ...]:
    """List 1, 2, 5, 10, 20, 50, … up to a limit.

    >>> ladder(30)
    (1, 2, 5, 10, 20)
    """
    steps = (digit * 10**power for power in range(len(str(most))) for digit in (1, 2, 5))
    return tuple(step for step in steps if step <= most)


def _tightenable_limits(query: Query, limits: Limits) -> Iterator[str]:
    """Yield the limits that can be tightened by themselves: those of groups only where there are groups."""
    if limits.rows > 1:
        yield "rows"
    if query.plan.keys and 1 < limits.groups < limits.rows:
        yield "groups"
    if query.plan.keys and 1 < limits.rows_per_group < limits.rows:
        yield "rows_per_group"


def _try_limit(name: str, query: Query, limits: Limits, current: Widths, again: Again) -> _TriedChange | None:
    limit: int = getattr(limits, name)
    tried_limit = ladder(max(1, limit // _LIMIT_FACTOR))[-1]
    widths_at_one, widths = (
        _forecast_change(query, _tighten(limits, name, value), again) for value in (1, tried_limit)
    )
    share = _improvement(current, widths_at_one)
    if share < _MIN_SHARE:
        return None
    is_policy_limit = getattr(query.plan.limits, name) == limit
    limit_text = f"{_POLICY[name]} {limit:,}" if is_policy_limit else f".limit({name}={limit})"
    return _TriedChange(
        f"{limit_text} causes {format_percent(share)} of this error", share, f".limit({name}={tried_limit})", widths
    )


def _tighten(limits: Limits, name: str, value: int) -> Limits:
    rows, groups, rows_per_group = (value if limit_name == name else None for limit_name in _POLICY)
    return limits.tighten(rows, groups, rows_per_group)


def _try_bound(index: int, query: Query, limits: Limits, current: Widths, again: Again) -> _TriedChange | None:
    """Try a sum or a mean of the same value clamped to a narrower range."""
    measure = query.plan.measures[index]
    if not isinstance(measure, (Sum, Mean)) or (narrowed := _narrower_bound(measure)) is None:
        return None
    function, end, bound = narrowed
    value = call(function, measure.value, literal(measure.value.domain.type, bound))
    measures = (*query.plan.measures[:index], replace(measure, value=value), *query.plan.measures[index + 1 :])
    widths = _forecast_change(replace(query, plan=replace(query.plan, measures=measures)), limits, again)
    cause = (
        f"the {'upper' if function == 'LEAST' else 'lower'} bound {_format_bound(end)} of "
        f"{expression_sql(measure.value)}"
    )
    aggregate = "AVG" if isinstance(measure, Mean) else "SUM"
    return _TriedChange(
        f"{cause} sets this error", _improvement(current, widths), f"{aggregate}({expression_sql(value)})", widths
    )


def _narrower_bound(measure: Sum | Mean) -> tuple[str, Value, Value] | None:
    """Return which end of a value's range to move, from where to where.

    It is the end farther from 0; for a mean, whose error follows the width of the range, the upper one.
    """
    domain, value = measure.value.domain, measure.value
    if domain.range is None or not (isinstance(value, Column) and isinstance(value.reference, Field)):
        return None
    if not value.reference.table:  # a column of a subquery has no name that could be written
        return None
    low, high = (Fraction(bound) for bound in domain.range)  # type: ignore[arg-type]
    moves_upper = isinstance(measure, Mean) or abs(high) >= abs(low)
    base, end = low if isinstance(measure, Mean) else Fraction(0), high if moves_upper else low
    new_bound = _round_toward_zero(base + (end - base) / _BOUND_FACTOR, whole=domain.type is Type.INTEGER)
    if not low < new_bound < high:
        return None
    ends: list[Value] = [int(bound) if domain.type is Type.INTEGER else bound for bound in (end, new_bound)]
    return "LEAST" if moves_upper else "GREATEST", ends[0], ends[1]


def _round_toward_zero(value: Fraction, *, whole: bool) -> Fraction:
    """Round to two digits toward 0, as people would write a bound."""
    if not value:
        return value
    unit = Fraction(10) ** (math.floor(math.log10(abs(value))) - 1)
    return math.trunc(value / unit) * unit if unit >= 1 or not whole else Fraction(math.trunc(value))


def _format_bound(value: Value) -> str:
    if isinstance(value, (int, Fraction)) and value == int(value):
        return f"{int(value):,}"
    return format_exact(value) if isinstance(value, Fraction) else str(value)


def _forecast_change(query: Query, limits: Limits, again: Again) -> Widths:
    """Forecast a changed question; empty where it is refused, which gives no advice."""
    try:
        return again(query, limits)
    except (Unsupported, InvalidParameter):
        return {}


def _improvement(current: Widths, changed: Widths) -> Fraction:
    """Return the share of the error that would be removed, in percent steps, for the column that gains most."""
    return Fraction(round(100 * (1 - min([1.0, *_ratios(current, changed).values()]))), 100)


def _ratios(current: Widths, changed: Widths) -> dict[str, float]:
    """Return the ratio of changed to current half-width of every column with a finite error."""
    pairs = {name: (_number(current[name]), _number(changed[name])) for name in current if name in changed}
    return {name: after / before for name, (before, after) in pairs.items() if before and math.isfinite(before)}


def _size(width: Width) -> int | None:
    """Take one group size, the middle one, where there are several."""
    return sorted(width)[len(width) // 2] if isinstance(width, Mapping) else None


def _number(width: Width) -> float:
    return width[sorted(width)[len(width) // 2]] if isinstance(width, Mapping) else width
