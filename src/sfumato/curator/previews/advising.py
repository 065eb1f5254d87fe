"""Advise which change of a question lowers its error most: from the policy alone.

Every figure is the forecast of the same question with one setting changed: a tighter limit or bound, one key less,
units instead of rows, or one column alone. What a tighter limit or bound drops from the data is bias, not noise: no
interval covers it, and it is unknown here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import cast

from sfumato.curator.previews.error_forecasts import Width, format_half_width
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.html_fragments import paragraphs
from sfumato.plan.aggregates.measures import Count, DistinctUnits, Mean, Sum, value_range
from sfumato.plan.aggregates.spread import Variance
from sfumato.plan.aggregates.value_measures import narrow_range
from sfumato.plan.descriptions import typed_sql
from sfumato.plan.keys import conditions_met_by_rows
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.nodes import GroupValues, Query, Scan
from sfumato.plan.noisy_rows import Finish, Output
from sfumato.plan.quoting import quoted
from sfumato.plan.values.expressions import Call, Column, Expression, Field, GroupingFlag, Key, Result, columns
from sfumato.plan.values.functions import call, literal
from sfumato.plan.values.narrowing import as_comparison
from sfumato.policy import Type, Value
from sfumato.privacy import codec
from sfumato.privacy.numbers import PROBABILITY, exact, format_exact, format_percent
from sfumato.quick_dataclass import dataclass

_LIMIT_FACTOR, _BOUND_FACTOR = 4, 2
"""The factors by which limits and bounds are tightened in a trial."""
_MIN_SHARE = Fraction(1, 2)
"""The share of the error that a limit must cause to be reported."""
_MAX_RATIO = 0.75
"""The largest remaining share of the error for a change to be reported."""
_MAX_ALONE = 10
"""The most columns that are each tried by themselves."""
_BIAS = "A tighter limit or bound drops data: this bias is not covered by ±."
_NONE = "Most of this error does not come from a limit or a bound: a higher price or fewer columns would help."
_POLICY = {"rows": "max_rows", "groups": "max_groups", "rows_per_group": "max_rows_per_group"}
"""The names of the limits in a policy."""

Widths = Mapping[str, Width]
"""The half-widths of an answer's columns."""
Reforecast = Callable[[Query, ContributionLimits], Widths]
"""Forecasts the question with other limits or bounds."""


_SAME = "the same "
"""How a half-width begins that stays as it is, beside larger numbers."""


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
    gain: str = ""
    """The factor, such as "4 times less error"."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "share", exact(self.share, "share", PROBABILITY))

    def __str__(self) -> str:
        if self.then.startswith(_SAME):
            return f"{self.cause}; {self.change} gives {self.then}"
        gain = f": {self.gain}" if self.gain else ""
        return f"{self.cause}; {self.change} gives {self.then} instead of {self.now}{gain}"

    @property
    def factor(self) -> float:
        """How many times less error the change leaves; 1 where that is not known."""
        number = self.gain.partition(" ")[0].replace(",", "")
        return float(number) if number else 1.0


@codec.serialisable("advice")
@dataclass(frozen=True)
class Advice:
    """What causes most of a question's error, the largest share first."""

    question: str
    price: str
    tips: tuple[Tip, ...]

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        if type(self.tips) is not tuple or set(map(type, self.tips)) - {Tip}:
            raise InvalidParameter("tips", self.tips, "a tuple of Tip objects")

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
    group_growth: int = 1
    """How many times larger each group becomes, and with it the numbers beside the error."""

    def reduces_error(self, current: Widths) -> bool:
        """Return whether the change removes enough of the error to be reported."""
        return min(_error_ratios(current, self.widths, self.group_growth).values(), default=1.0) <= _MAX_RATIO

    def as_tip(self, current: Widths, rank_columns: Collection[str], integer_columns: Collection[str]) -> Tip:
        """Return the tip for the column that gains most."""
        ratios = _error_ratios(current, self.widths, self.group_growth)
        column = min(ratios, key=lambda name: ratios[name])
        before, after, size = _width_before_and_after_with_size(current[column], self.widths[column], self.group_growth)
        group_text = "" if size is None else f" in a group of {size:,}"
        now_text, then_text = (
            f"{width:,.0f} rows" if column in rank_columns else _format_width(width, whole=column in integer_columns)
            for width in (before, after)
        )
        grown = f", on groups {self.group_growth:,} times larger" if self.group_growth > 1 else ""
        then_text = f"{_SAME}{then_text}" if self.group_growth > 1 and then_text == now_text else then_text
        gain = (
            ""
            if math.isinf(before)
            else _gain_phrase(1 / ratios[column], is_relative=size is None and self.group_growth > 1)
        )
        return Tip(self.cause, self.share, self.change, column, now_text + group_text, then_text + grown, gain)


def find_tips(
    query: Query,
    limits: ContributionLimits,
    *,
    every_row: bool,
    reforecast: Reforecast,
    rank_columns: Collection[str],
    integer_columns: Collection[str],
    groups: Sequence[GroupValues] = (),
    unit_id: str | None = None,
    only_columns: Collection[str] | None = None,
) -> tuple[Tip, ...]:
    """Forecast a question as it is, and with one setting changed at a time.

    ``reforecast`` forecasts a changed question. A limit's share is what a limit of one row, or one group, per unit
    would remove. ``rank_columns`` names the columns whose half-width is in rows, and ``integer_columns`` those of
    integers. ``groups`` are the declared groups, and ``unit_id`` names the column of the unit. With ``only_columns``,
    the gain is that of these columns.
    """
    current = {
        name: width for name, width in reforecast(query, limits).items() if only_columns is None or name in only_columns
    }
    limit_names = () if every_row else _names_of_tightenable_limits(query, limits)
    changes = [
        *(_try_limit(name, query, limits, current, reforecast) for name in limit_names),
        *(_try_narrower_bound(index, query, limits, current, reforecast) for index in range(len(query.plan.measures))),
        *(_try_without_key(index, query, limits, groups, current, reforecast) for index in range(len(query.plan.keys))),
        *([] if every_row or unit_id is None else [_try_counting_units(query, limits, unit_id, current, reforecast)]),
        _try_column_alone(query, limits, current, reforecast),
        _try_synopsis(query, limits, current, reforecast),
    ]
    tips = {
        change.change: change.as_tip(current, rank_columns, integer_columns)
        for change in changes
        if change is not None and change.reduces_error(current)
    }
    return tuple(sorted(tips.values(), key=lambda tip: -tip.share))


def round_number_limits(largest: int) -> tuple[int, ...]:
    """List 1, 2, 5, 10, 20, 50, … up to a limit.

    >>> round_number_limits(30)
    (1, 2, 5, 10, 20)
    """
    steps = (digit * 10**power for power in range(len(str(largest))) for digit in (1, 2, 5))
    return tuple(step for step in steps if step <= largest)


def _names_of_tightenable_limits(query: Query, limits: ContributionLimits) -> Iterator[str]:
    """Yield the limits that can be tightened by themselves: those of groups only where there are groups."""
    if limits.rows > 1:
        yield "rows"
    if query.plan.keys and 1 < limits.groups < limits.rows:
        yield "groups"
    if query.plan.keys and 1 < limits.rows_per_group < limits.rows:
        yield "rows_per_group"


def _try_limit(
    name: str, query: Query, limits: ContributionLimits, current: Widths, reforecast: Reforecast
) -> _TriedChange | None:
    limit: int = getattr(limits, name)
    tried_limit = round_number_limits(max(1, limit // _LIMIT_FACTOR))[-1]
    widths_by_limit = {
        value: _forecast_or_empty(query, _with_tightened_limit(limits, name, value), reforecast)
        for value in {1, tried_limit}
    }
    widths_at_one, widths = widths_by_limit[1], widths_by_limit[tried_limit]
    has_no_range = any(isinstance(width, Mapping) or math.isinf(width) for width in current.values())
    if has_no_range and min(_error_ratios(current, widths).values(), default=1.0) > _MAX_RATIO:
        tried_limit, widths = 1, widths_at_one
    share = _removed_error_share(current, widths_at_one)
    if share < _MIN_SHARE:
        return None
    is_policy_limit = getattr(query.plan.limits, name) == limit
    limit_text = f"{_POLICY[name]} {limit:,}" if is_policy_limit else f".limit({name}={limit})"
    return _TriedChange(
        f"{limit_text} causes {format_percent(share)} of this error", share, f".limit({name}={tried_limit})", widths
    )


def _with_tightened_limit(limits: ContributionLimits, name: str, value: int) -> ContributionLimits:
    rows, groups, rows_per_group = (value if limit_name == name else None for limit_name in _POLICY)
    return limits.tighten(rows, groups, rows_per_group)


def _try_narrower_bound(
    index: int, query: Query, limits: ContributionLimits, current: Widths, reforecast: Reforecast
) -> _TriedChange | None:
    """Try a sum or a mean of the same value clamped to a narrower range."""
    measure = query.plan.measures[index]
    if (
        not isinstance(measure, (Sum, Mean, Variance))
        or (narrowed := _clamp_function_and_old_and_new_bound(measure, conditions_met_by_rows(query.plan.source)))
        is None
    ):
        return None
    function, end, bound = narrowed
    value = call(function, measure.value, literal(measure.value.domain.type, bound))
    measures = (*query.plan.measures[:index], replace(measure, value=value), *query.plan.measures[index + 1 :])
    widths = _forecast_or_empty(replace(query, plan=replace(query.plan, measures=measures)), limits, reforecast)
    cause = (
        f"the {'upper' if function == 'LEAST' else 'lower'} bound {_format_bound(end)} of {typed_sql(measure.value)}"
    )
    aggregate = _aggregate_function_name(measure)
    return _TriedChange(
        f"{cause} determines this error",
        _removed_error_share(current, widths),
        f"{aggregate}({typed_sql(value)})",
        widths,
    )


def _aggregate_function_name(measure: Sum | Mean | Variance) -> str:
    if isinstance(measure, Variance):
        return "STDDEV" if measure.root else "VARIANCE"
    return "AVG" if isinstance(measure, Mean) else "SUM"


def _try_without_key(
    index: int,
    query: Query,
    limits: ContributionLimits,
    groups: Sequence[GroupValues],
    current: Widths,
    reforecast: Reforecast,
) -> _TriedChange | None:
    """Try the question with one key less: every group then holds the rows of several."""
    larger = len({group[index] for group in groups})
    if larger < 2 or query.outer or query.finish.sets or query.finish.windows:
        return None
    widths = _forecast_or_empty(_without_key(query, index), limits, reforecast)
    ratio = min([1.0, *_error_ratios(current, widths, larger).values()])
    cause = f"{len(groups):,} groups share the rows"
    change = f"leaving out {_key_output_name(query, index)}"
    return _TriedChange(cause, Fraction(round(100 * (1 - ratio)), 100), change, widths, larger) if widths else None


def _key_output_name(query: Query, index: int) -> str:
    """Return the name of the answer's column that shows a key, or the key as it was typed."""
    output_names = (output.name for output in query.finish.outputs if _is_key(output.expression, index))
    return next(output_names, typed_sql(query.plan.keys[index]))


def _is_key(expression: Expression, index: int) -> bool:
    return isinstance(expression, Column) and expression.reference == Key(index)


def _without_key(query: Query, index: int) -> Query:
    """Return the question without a key, and without the columns, conditions and order that read it."""
    remaining_outputs = [output for output in query.finish.outputs if not _reads_key(output.expression, index)]
    outputs = tuple(Output(output.name, _renumber_keys_above(output.expression, index)) for output in remaining_outputs)
    keys = (*query.plan.keys[:index], *query.plan.keys[index + 1 :])
    return replace(query, plan=replace(query.plan, keys=keys), finish=Finish(outputs))


def _reads_key(expression: Expression, index: int) -> bool:
    return any(
        isinstance(reference, (Key, GroupingFlag)) and reference.index == index for reference in columns(expression)
    )


def _renumber_keys_above(expression: Expression, removed_index: int) -> Expression:
    if (
        isinstance(expression, Column)
        and isinstance(expression.reference, Key)
        and expression.reference.index > removed_index
    ):
        return replace(expression, reference=Key(expression.reference.index - 1))
    if not isinstance(expression, Call):
        return expression
    return replace(
        expression, arguments=tuple(_renumber_keys_above(argument, removed_index) for argument in expression.arguments)
    )


def _try_counting_units(
    query: Query, limits: ContributionLimits, unit_id: str, current: Widths, reforecast: Reforecast
) -> _TriedChange | None:
    """Try to count units instead of rows."""
    measures = tuple(
        DistinctUnits(measure.where) if type(measure) is Count else measure for measure in query.plan.measures
    )
    if measures == query.plan.measures or limits.rows == 1:
        return None
    widths = _forecast_or_empty(replace(query, plan=replace(query.plan, measures=measures)), limits, reforecast)
    cause = f"a count of rows moves by up to {limits.rows:,} with one unit"
    return _TriedChange(cause, _removed_error_share(current, widths), f"COUNT(DISTINCT {quoted(unit_id)})", widths)


def _try_column_alone(
    query: Query, limits: ContributionLimits, current: Widths, reforecast: Reforecast
) -> _TriedChange | None:
    """Try each result of a question by itself, for the whole price; return the one that gains most."""
    results = [
        output
        for output in query.finish.outputs
        if _is_plain_result_column(output.expression) and output.name in current
    ]
    if len(query.plan.measures) < 2 or not 0 < len(results) <= _MAX_ALONE or query.outer or query.finish.windows:
        return None
    cause = f"{len(query.plan.measures):,} results share the price"
    changes = []
    for output in results:
        widths = _forecast_or_empty(_only_result(query, output), limits, reforecast)
        change = f"asking for {output.name} alone"
        changes.append(_TriedChange(cause, _removed_error_share(current, widths), change, widths))
    return max(changes, key=lambda change: change.share)


def _only_result(query: Query, output: Output) -> Query:
    column = cast("Column", output.expression)
    measure = query.plan.measures[cast("Result", column.reference).index]
    alone = Output(output.name, replace(column, reference=Result(0, measure.noise_count)))
    return replace(query, plan=replace(query.plan, measures=(measure,)), finish=Finish((alone,)))


def _try_synopsis(
    query: Query, limits: ContributionLimits, current: Widths, reforecast: Reforecast
) -> _TriedChange | None:
    """Try one histogram instead of several counts of declared values, which share the price."""
    plan = query.plan
    conditions = [measure.where for measure in plan.measures if type(measure) is Count]
    if len(conditions) < 2 or len(conditions) < len(plan.measures) or not isinstance(plan.source, Scan):
        return None
    compared = [_equated_operand(condition) for condition in conditions if condition is not None]
    attributes = list(dict.fromkeys((*plan.keys, *(column for column in compared if column is not None))))
    if None in compared or not all(map(_is_column_with_listed_values, attributes)):
        return None
    count = Output("count", Column(Result(0), Count().result))
    histogram = replace(query, plan=replace(plan, keys=tuple(attributes), measures=(Count(),)), finish=Finish((count,)))
    cell_widths = _forecast_or_empty(histogram, limits, reforecast)
    widths = dict.fromkeys(current, cell_widths["count"]) if cell_widths else {}
    names = ", ".join(f'"{typed_sql(attribute)}"' for attribute in attributes)
    cause = f"{len(conditions):,} counts share the price"
    change = f'curator.histogram("{plan.table}", [{names}])'
    return _TriedChange(cause, _removed_error_share(current, widths), change, widths)


def _equated_operand(condition: Expression) -> Expression | None:
    """Return the column that a condition compares with one of its declared values."""
    comparison = as_comparison(condition) if isinstance(condition, Call) else None
    return comparison.operand if comparison is not None and comparison.operator == "=" else None


def _is_column_with_listed_values(expression: Expression) -> bool:
    return isinstance(expression, Column) and expression.domain.values is not None


def _is_plain_result_column(expression: Expression) -> bool:
    return isinstance(expression, Column) and isinstance(expression.reference, Result)


def _clamp_function_and_old_and_new_bound(
    measure: Sum | Mean | Variance, predicates: Sequence[Expression]
) -> tuple[str, Value, Value] | None:
    """Return which end of a value's range, in the rows that meet the predicates, to move, from where to where.

    It is the end farther from 0; for a mean or spread, whose error follows the width of the range, the upper one.
    """
    domain, value = measure.value.domain, measure.value
    if domain.range is None or not (isinstance(value, Column) and isinstance(value.reference, Field)):
        return None
    if not value.reference.table:  # a column of a subquery has no name that could be written
        return None
    low, high = value_range(value)
    if not isinstance(measure, Variance):
        low, high = cast("Sum | Mean", narrow_range(measure, predicates)).clamp_range
    follows_width = not isinstance(measure, Sum)
    moves_upper = follows_width or abs(high) >= abs(low)
    base, end = low if follows_width else Fraction(0), high if moves_upper else low
    new_bound = _two_digits_toward_zero(base + (end - base) / _BOUND_FACTOR, whole=domain.type is Type.INTEGER)
    if not low < new_bound < high:
        return None
    ends: list[Value] = [int(bound) if domain.type is Type.INTEGER else bound for bound in (end, new_bound)]
    return "LEAST" if moves_upper else "GREATEST", ends[0], ends[1]


def _two_digits_toward_zero(value: Fraction, *, whole: bool) -> Fraction:
    """Round to two digits toward 0, as people would write a bound."""
    if not value:
        return value
    unit = Fraction(10) ** (math.floor(math.log10(abs(value))) - 1)
    return math.trunc(value / unit) * unit if unit >= 1 or not whole else Fraction(math.trunc(value))


def _format_bound(value: Value) -> str:
    if isinstance(value, (int, Fraction)) and value == int(value):
        return f"{int(value):,}"
    return format_exact(value) if isinstance(value, Fraction) else str(value)


def _forecast_or_empty(query: Query, limits: ContributionLimits, reforecast: Reforecast) -> Widths:
    """Forecast a changed question; empty where it is refused, which gives no advice."""
    try:
        return reforecast(query, limits)
    except (Unsupported, InvalidParameter):
        return {}


def _removed_error_share(current: Widths, changed: Widths) -> Fraction:
    """Return the share of the error that would be removed, in percent steps, for the column that gains most."""
    return Fraction(round(100 * (1 - min([1.0, *_error_ratios(current, changed).values()]))), 100)


def _error_ratios(current: Widths, changed: Widths, group_growth: int = 1) -> dict[str, float]:
    """Return the ratio of changed to current half-width of every column with a finite error after the change; 0 where
    there was no range before. In groups ``group_growth`` times larger, counts and sums are larger too: their ratio is
    that of the errors beside the numbers.
    """
    pairs = {
        name: _width_before_and_after_with_size(current[name], changed[name], group_growth)
        for name in current
        if name in changed
    }
    return {
        name: after / before / (group_growth if size is None else 1)
        for name, (before, after, size) in pairs.items()
        if before and math.isfinite(after)
    }


def _width_before_and_after_with_size(
    before: Width, after: Width, group_growth: int = 1
) -> tuple[float, float, int | None]:
    """Return two half-widths at a group size and at one so many times larger, as far as sizes are forecast: the middle
    size, or the largest where the middle one has no range; None where the half-width depends on no size.
    """
    sizes = sorted(before if isinstance(before, Mapping) else after if isinstance(after, Mapping) else ())
    if not sizes:
        return _width_at_size(before, 0), _width_at_size(after, 0), None
    middle, largest = sizes[len(sizes) // 2], sizes[-1]
    size = (
        middle
        if math.isfinite(_width_at_size(before, middle)) or math.isfinite(_width_at_size(after, middle))
        else largest
    )
    grown = max(forecast_size for forecast_size in sizes if forecast_size <= size * group_growth)
    return _width_at_size(before, size), _width_at_size(after, grown), size


def _width_at_size(width: Width, size: int) -> float:
    return width.get(size, math.inf) if isinstance(width, Mapping) else width


def _format_width(width: float, *, whole: bool) -> str:
    return format_half_width(width, whole=whole) if math.isfinite(width) else "no range at all"


def _gain_phrase(factor: float, *, is_relative: bool) -> str:
    number = f"{factor:,.0f}" if factor >= 10 else f"{factor:.2g}"
    return f"{number} times less error{' relative to the number' if is_relative else ''}"
