"""Forecast the error of an answer before it is bought: free, from the policy alone.

The least price for an accuracy goal is found by search; a result without a half-width cannot have a goal. The error can
be plotted against the price. A forecast of marginals is read without the planner that made it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.curator.previews.previewing import ForecastRows
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.html_fragments import paragraphs, table
from sfumato.plan.aggregates.measures import TotalEstimate
from sfumato.plan.aggregates.spread import PairAggregate, Variance
from sfumato.plan.nodes import Query
from sfumato.plan.noisy_rows import Finish, OuterSelect, Output
from sfumato.plan.sharing import MeasuredRequest
from sfumato.plan.values.expressions import (
    Column,
    Expression,
    Key,
    NoisyColumn,
    Result,
    WindowResult,
    noise_count,
    walk,
)
from sfumato.plots.frame import (
    INNER_WIDTH,
    MARGIN,
    PAGE_WIDTH,
    Drawing,
    LogScale,
    framed_picture,
    side_by_side,
    stacked,
)
from sfumato.plots.lines import LineAxes, PlottedLine, line_chart, lines_y_range
from sfumato.plots.picture import Picture
from sfumato.policy import Type
from sfumato.privacy import PrivacyUnit, codec
from sfumato.privacy.calibration import log_excess
from sfumato.privacy.numbers import (
    CONFIDENCE,
    NONNEGATIVE,
    POSITIVE,
    Number,
    Range,
    exact,
    exact_integer,
    format_exact,
    format_number as number,
    format_percent,
    format_probability,
)
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.formatting import round_half_width_up
from sfumato.release.measured import (
    NoisyMeasurements,
    group_estimator,
    notes_by_column,
    rank_errors,
    result_estimators,
    scales_of_all_parts,
)
from sfumato.release.noisy_rows.finishing import FinishedRows, finish, selects_by_noise
from sfumato.release.noisy_rows.noisy_columns import NumberColumn
from sfumato.release.noisy_rows.window_functions import RANK_FUNCTIONS, RANK_NOTE
from sfumato.release.parts.scales import NoisyScale
from sfumato.release.prices import least_four_digit_price
from sfumato.release.pricing import PricedRelease
from sfumato.release.requests import Within
from sfumato.untrusted import escape_unprintable

Width = float | Mapping[int, float]
"""The half-width of a column: one number, or one per group size."""

SIZES = (100, 1_000, 10_000)
"""Group sizes for which the error of a mean or a ratio is shown when none is declared."""


@codec.serialisable("forecast")
@dataclass(frozen=True)
class Forecast:
    """The half-width of each column of an answer: one number, or one for each of several group sizes."""

    columns: Mapping[str, Width] = field(metadata=codec.MAPPING)
    confidence: Fraction
    price: str
    accepted: bool
    """Whether the account, and the analyst's share of it, would accept this release now."""
    warnings: tuple[str, ...]
    """What the answer may miss for lack of declarations."""
    stored: bool = False
    """Whether a stored answer is at least as accurate: it is free, whatever budget remains."""
    ranks: tuple[str, ...] = ()
    """The columns whose half-width is a rank error, in rows."""
    chosen: Mapping[str, str] = field(default_factory=dict, metadata=codec.MAPPING)
    """The quality, in words, of columns with selected values, which have no half-width."""
    free: str = ""
    """The free answer of a bought synopsis in words, and how to get it; empty if there is none."""
    counted: str = ""
    """The limits per unit in words; empty if all rows count."""
    left: str = ""
    """The remaining budget for ordinary answers after this release, in words; empty if it is refused."""
    whole: tuple[str, ...] = ()
    """The integer columns, whose half-width is shown as an integer."""
    assumed_delta: Fraction = Fraction(0)
    """The δ of this forecast where groups are found in the data and none was given: a release must name it."""
    advice: str = ""
    """The change that helps most, in words, where the error swamps what can be expected; empty elsewhere."""
    caveats: Mapping[str, str] | None = field(default=None, metadata=codec.MAPPING)
    """What can move each column and is not in its ±, as the answer will say it."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "confidence", exact(self.confidence, "confidence", CONFIDENCE))
        object.__setattr__(self, "assumed_delta", exact(self.assumed_delta, "assumed_delta", NONNEGATIVE))
        if not isinstance(self.columns, Mapping):
            raise InvalidParameter("columns", self.columns, "a mapping from columns to half-widths")
        object.__setattr__(self, "columns", {name: _decode_width(width, name) for name, width in self.columns.items()})
        for name in ("chosen", "caveats"):
            sentences = {} if getattr(self, name) is None else getattr(self, name)
            if not isinstance(sentences, Mapping) or set(map(type, sentences.values())) - {str}:
                raise InvalidParameter(name, sentences, "a mapping from columns to sentences")
            object.__setattr__(self, name, dict(sentences))

    def __getitem__(self, name: str) -> Width:
        return self.columns[name]

    def to_json(self) -> str:
        """Serialize the forecast as JSON text; an infinite half-width is "Infinity"."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Forecast:
        """Parse what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def parts(self) -> list[str]:
        """Return each column with its half-width, in its unit or in rows, or the quality of a selection, as text."""
        widths = [f"{escape_unprintable(name)} {self._width_text(name)}" for name in self.columns]
        return [*widths, *(f"{escape_unprintable(name)}: {quality}" for name, quality in self.chosen.items())]

    def rows(self) -> list[tuple[str, str]]:
        """Return each column beside its half-width, or the quality of a selection, as text."""
        return [*((name, self._width_text(name)) for name in self.columns), *self.chosen.items()]

    def _width_text(self, name: str) -> str:
        width = self.columns[name]
        is_rank_error = name in self.ranks and isinstance(width, float)
        return (
            f"within {width:,.0f} rows of its rank" if is_rank_error else format_width(width, whole=name in self.whole)
        )

    def __str__(self) -> str:
        parts = self.parts()
        lines = [*(["; ".join(parts)] if parts else []), *(line for line in (self.free, self.advice) if line)]
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = self.rows()
        verdict = "the account would accept it now" if self.accepted else "the account would REFUSE it now"
        verdict_text = "a stored answer is as accurate, and free" if self.stored else verdict
        summary = f"at {self.price}, with {format_percent(self.confidence)} confidence; {verdict_text}"
        warnings = (f"warning: {warning}" for warning in self.warnings)
        notes = [summary, *self.caveat_lines(), self.free, self.advice, *warnings]
        return table(("column", "error"), rows) + paragraphs(notes)

    def caveat_lines(self) -> list[str]:
        """Return what can move the numbers and is not in their ±, a line for each column."""
        return [
            f"{escape_unprintable(name)}: {escape_unprintable(line)}" for name, line in (self.caveats or {}).items()
        ]


def even_spread_note(query: Query) -> tuple[str, ...]:
    """State for which values the half-widths of spreads and pairs were computed."""
    if any(isinstance(measure, (Variance, PairAggregate)) for measure in query.plan.measures):
        return (
            "The half-widths of variances, correlations and regression lines assume values spread evenly over their "
            "declared range: where values lie closer together, as most do, expect several times as much, or declare "
            "narrower bounds.",
        )
    return ()


def _decode_width(width: Any, name: str) -> Width:
    if isinstance(width, Mapping):
        return {exact_integer(size, name, at_least=1): codec.parse_float(half, name) for size, half in width.items()}
    return codec.parse_float(width, name)


def half_widths(
    query: Query,
    rows: ForecastRows | None,
    prepared: PricedRelease,
    results: Sequence[MeasuredRequest],
    confidence: Number,
    group_size: int | None,
    *,
    joint: bool = False,
) -> dict[str, Width]:
    """Return every numeric column's half-width at this confidence, for each number or for all of the answer jointly: of
    the widest row, where there are subtotals.

    A column whose width depends on the group's content is evaluated for hypothetical groups of several sizes, with
    values spread evenly over the measured range, and sums at the middle of their range.
    """
    level = exact(confidence, "confidence", CONFIDENCE)
    measured = _measurements_without_groups(prepared, results)
    sizes = _sizes_to_evaluate(query, measured) if group_size is None else (group_size,)
    widths_by_size = (
        [_widths_at_size(query, rows, prepared, measured, level, size, joint) for size in sizes] if rows else []
    )
    ranks = notes_by_column(query, rank_errors(measured, level))
    columns = merge_widths_of_sizes(sizes, widths_by_size) if rows else {}
    return columns | {name: rank for name, rank in ranks.items() if name in columns}


def evaluated_sizes(
    query: Query, prepared: PricedRelease, results: Sequence[MeasuredRequest], group_size: int | None
) -> tuple[int, ...]:
    """Return the sizes of the hypothetical groups that half-widths are evaluated for: one where sizes do not matter."""
    if group_size is not None:
        return (group_size,)
    return _sizes_to_evaluate(query, _measurements_without_groups(prepared, results))


def _sizes_to_evaluate(query: Query, measured: NoisyMeasurements) -> tuple[int, ...]:
    return SIZES[:1] if _are_widths_constant(query, measured) else SIZES


def _are_widths_constant(query: Query, measured: NoisyMeasurements) -> bool:
    """Return whether no half-width depends on a group's size: every column shows a key, or a total with additive noise
    as it is.
    """
    references = [
        output.expression.reference if isinstance(output.expression, Column) else None for output in query.outputs
    ]
    return (
        all(type(reference) in (Key, Result) for reference in references)
        and all(isinstance(result.estimator, TotalEstimate) for result in measured.results)
        and all(type(scale) is NoisyScale for scale in measured.scales)
    )


def merge_widths_of_sizes(sizes: Sequence[int], widths_by_size: Sequence[Mapping[str, float]]) -> dict[str, Width]:
    """Return one half-width per column, or one per group size where they differ."""
    columns: dict[str, Width] = {}
    for name in dict.fromkeys(name for column_widths in widths_by_size for name in column_widths):
        # at some sizes a column may have no number, as CASE WHEN n > 100 has none in small groups
        defined_widths = {
            size: widths[name] for size, widths in zip(sizes, widths_by_size, strict=True) if name in widths
        }
        largest = max(defined_widths.values())
        is_constant = all(math.isclose(width, largest, rel_tol=1e-9) for width in defined_widths.values())
        columns[name] = largest if is_constant else defined_widths
    return columns


def noiseless_measurements_of_groups(
    prepared: PricedRelease, shared_results: Sequence[MeasuredRequest], group_size: int, group_count: int
) -> NoisyMeasurements:
    """Return the numbers of so many groups of so many rows each, without noise."""
    return _with_noiseless_groups(
        _measurements_without_groups(prepared, shared_results), prepared, group_size, group_count
    )


def _measurements_without_groups(
    prepared: PricedRelease, shared_results: Sequence[MeasuredRequest]
) -> NoisyMeasurements:
    return NoisyMeasurements(scales_of_all_parts(prepared), result_estimators(prepared, shared_results), ())


def _with_noiseless_groups(
    measured: NoisyMeasurements, prepared: PricedRelease, group_size: int, group_count: int
) -> NoisyMeasurements:
    numbers = (number for part in prepared.parts for number in part.numbers_of_hypothetical_group(group_size))
    totals = tuple((number,) * group_count for number in numbers)
    return NoisyMeasurements(measured.scales, measured.results, totals)


def forecast_rank_errors(
    prepared: PricedRelease, shared_results: Sequence[MeasuredRequest], confidence: Number
) -> tuple[float | None, ...]:
    """Bound the rank error of every result; None where nothing is selected by rank."""
    return rank_errors(_measurements_without_groups(prepared, shared_results), confidence)


def _widths_at_size(
    query: Query,
    rows: ForecastRows,
    prepared: PricedRelease,
    measured: NoisyMeasurements,
    level: Fraction,
    size: int,
    joint: bool,
) -> dict[str, float]:
    """Evaluate the question on hypothetical groups of so many rows, without noise but with its intervals."""
    estimates = group_estimator(_with_noiseless_groups(measured, prepared, size, rows.groups), level, rows.rows)
    is_joint = joint or selects_by_noise(query)
    finished = finish(rows.query, rows.rows, estimates, joint=is_joint, candidates=rows.candidates)
    return {
        # what has no noise, such as a rank of keys, is not rounded
        name: width
        and width + _max_rounding(expression, measured, 1 if _is_plain_result(query, expression) else rows.largest_sum)
        for name, (expression, width) in expression_and_width_by_column(query.outputs, finished).items()
    }


def _is_plain_result(query: Query, expression: Expression) -> bool:
    """Return whether a column shows a result of one group as it is, through any number of SELECTs."""
    for outer in reversed(query.outer):
        is_shown = isinstance(expression, Column) and isinstance(expression.reference, NoisyColumn)
        if outer.grouped or not is_shown:
            return False
        below = query.outer[query.outer.index(outer) - 1].finish if outer is not query.outer[0] else query.finish
        expression = below.outputs[expression.reference.index].expression  # type: ignore[union-attr]
    is_grouped_once = not query.finish.sets
    return is_grouped_once and isinstance(expression, Column) and type(expression.reference) is Result


def expression_and_width_by_column(
    outputs: Sequence[Output], finished: FinishedRows
) -> dict[str, tuple[Expression, float]]:
    """Return each column of numbers with the largest half-width of its rows."""
    return {
        output.name: (output.expression, _max_half_width(column))
        for output, column in zip(outputs, finished.columns, strict=True)
        if isinstance(column, NumberColumn) and not column.is_noisy_rank and not np.isnan(column.value).all()
    }


def _max_half_width(column: NumberColumn) -> float:
    """Return the largest half-width of the rows that have a number."""
    return float(np.fmax.reduce(np.fmax(column.high - column.value, column.value - column.low)))


def _max_rounding(expression: Expression, noisy_measurements: NoisyMeasurements, terms: int) -> float:
    """Return the largest rounding error between a drawn and a shown number.

    Weighted counts are drawn in fractions and shown as the nearest integer, which moves each by up to a half; a total
    is the sum of what is shown.
    """
    if expression.domain.type is not Type.INTEGER:
        return 0.0
    is_fractional_scale = [scale.unit_value.denominator > 1 for scale in noisy_measurements.scales]
    is_fractional = [
        any(is_fractional_scale[scale] for scale in result.scales) for result in noisy_measurements.results
    ]
    if not any(is_fractional):
        return 0.0
    if terms > 1:
        return terms / 2
    result_indices = [
        node.reference.index for node in walk(expression) if isinstance(node, Column) and type(node.reference) is Result
    ]
    return 0.5 if any(is_fractional[index] for index in result_indices) else 0.0


def format_width(width: Width, *, whole: bool) -> str:
    """Format a half-width, or one per group size; that of an integer column as in answers."""
    if isinstance(width, Mapping):
        return ", ".join(
            f"{format_half_width(value, whole=whole)} in a group of {size:,}" for size, value in width.items()
        )
    return format_half_width(width, whole=whole)


def format_half_width(width: float, *, whole: bool) -> str:
    """Format one half-width in a few digits; that of an integer is rounded up to an integer.

    >>> format_half_width(30.46, whole=True), format_half_width(30.46, whole=False)
    ('±31', '±30.46')
    """
    return f"±{number(float(round_half_width_up(width)) if whole and math.isfinite(width) else width)}"


_PICTURE_WIDTHS = Range("a width in pixels from 320 to 760", Fraction(320), Fraction(760))
MAX_MARGINAL_LINES = 24
"""The number of marginals that are listed."""


@codec.serialisable("marginals-forecast")
@dataclass(frozen=True)
class MarginalsForecast:
    """The half-width of every cell of each marginal, before they are bought."""

    sets: tuple[tuple[str, ...], ...]
    widths: tuple[float, ...]
    """Half-widths in rows, in the order of the sets."""
    confidence: Fraction
    joint: bool
    """Whether the confidence holds for all ranges jointly, or for each by itself."""
    price: str
    accepted: bool
    """Whether the account, and the analyst's share of it, would accept this release now."""
    stored: bool = False
    """Whether stored marginals are at least as accurate: they are free, whatever budget remains."""
    counted: str = ""
    """The limits per unit in words; empty if all rows count."""
    warnings: tuple[str, ...] = ()
    """Whether buying them closes the plain ε total."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "confidence", exact(self.confidence, "confidence", CONFIDENCE))
        object.__setattr__(self, "widths", tuple(codec.parse_float(width, "widths") for width in self.widths))
        are_column_sets = all(
            type(columns) is tuple and all(type(name) is str for name in columns) for columns in self.sets
        )
        if not are_column_sets or not self.sets or len(self.sets) != len(self.widths):
            raise InvalidParameter("widths", len(self.widths), "a list with one half-width for each set of columns")

    @property
    def worst(self) -> float:
        """The largest half-width of any marginal."""
        return max(self.widths)

    def __getitem__(self, columns: str | Sequence[str]) -> float:
        """Return the half-width of one marginal, given by its columns in any order."""
        column_set = frozenset((columns,) if isinstance(columns, str) else columns)
        for marginal, width in zip(self.sets, self.widths, strict=True):
            if column_set == frozenset(marginal):
                return width
        marginals = ", ".join(map(repr, self.sets[:_MAX_EXAMPLE_SETS])) + (
            ", …" if len(self.sets) > _MAX_EXAMPLE_SETS else ""
        )
        raise InvalidParameter("columns", columns, f"the columns of one marginal: {marginals}")

    def to_json(self) -> str:
        """Serialize the forecast as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> MarginalsForecast:
        """Parse what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def __str__(self) -> str:
        lines = [f"±{width}  {name}" for name, width in self._rows]
        return "\n".join([f"{self._heading}:", *lines, *self._notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(name, f"±{width}") for name, width in self._rows]
        return table(("marginal", "error"), rows, ("error",), self._heading) + paragraphs(self._notes)

    @property
    def _heading(self) -> str:
        coverage = f"{format_percent(self.confidence)} confidence{', all together' if self.joint else ''}"
        return f"half-width of each cell at {self.price}, {coverage}"

    @property
    def _rows(self) -> list[tuple[str, str]]:
        """The listed marginals by name with their half-widths, the widest first."""
        order = sorted(zip(self.widths, self.sets, strict=True), reverse=True)
        return [(marginal_name(columns), number(width)) for width, columns in order[:MAX_MARGINAL_LINES]]

    @property
    def _notes(self) -> list[str]:
        hidden = len(self.sets) - MAX_MARGINAL_LINES
        return [
            *([f"and {hidden:,} more"] if hidden > 0 else []),
            *(f"warning: {warning}" for warning in self.warnings),
        ]


def marginal_name(columns: Sequence[str]) -> str:
    """Name a marginal by its columns."""
    return " × ".join(columns)


_MAX_EXAMPLE_SETS = 6
Widths = Callable[[Fraction, int | None], Mapping[str, Width]]
"""The half-widths of every column at a price, for groups of one size, or of every size."""


def least_price(within: Within | None, names: Collection[str], widths: Widths) -> Fraction:
    """Return the least price at which the columns of an answer meet their accuracy goals."""
    goals = _parse_half_width_goals(within, names, widths(Fraction(1), None))

    def excess(price: Fraction, size: int | None = None) -> float:
        column_widths = widths(price, size)
        pairs = ((column_widths[name], goal) for name, goal in goals.items())
        return max(log_excess(width, goal) if isinstance(width, float) else math.inf for width, goal in pairs)

    # A price that suffices for every group size suffices for one: the least for one is the least if it does for all.
    try:
        price = least_four_digit_price(lambda price: excess(price, SIZES[0]))
        return price if excess(price) <= 0 else least_four_digit_price(excess)
    except InvalidParameter as refusal:
        if refusal.place not in ("guarantee", "price"):
            raise
        rule = "half-widths of a size that some price gives"
        fix = (
            "give epsilon (--epsilon) and call error() (--dry-run) to see half-widths at a price, then ask for "
            "similar ones"
        )
        raise InvalidParameter("within", within, rule, fix=fix) from None


def _parse_half_width_goals(
    within: Within | None, names: Collection[str], widths: Mapping[str, Width]
) -> dict[str, Fraction]:
    """Parse the accuracy goal of each column; refuse one that no price could meet."""
    if not widths:
        raise _no_half_width_error(*names)
    requested: Mapping[str, Any] = within if isinstance(within, Mapping) else dict.fromkeys(widths, within)
    if not requested:
        raise InvalidParameter("within", within, "a mapping from columns to half-widths, such as {'visits': 50}")
    goals = {name: exact(width, f"within for {name!r}", POSITIVE) for name, width in requested.items()}
    for name in goals:
        if name not in widths and name in names:
            raise _no_half_width_error(name)
        if name not in widths:
            raise unknown_column_error(name, widths)
        if widths[name] == math.inf:
            raise InvalidParameter(
                "within",
                name,
                "left out for columns that may divide by zero, whose error has no bound",
                fix=f"leave {name} out of within, or give epsilon (--epsilon) instead",
            )
        if isinstance(widths[name], Mapping):
            raise InvalidParameter(
                "within",
                name,
                "left out for means and ratios, whose error depends on the number of rows in a group",
                fix="bound the error of COUNT(*) or a SUM instead; or give epsilon (--epsilon) and call error() "
                "(--dry-run) to see this column's half-width by group size",
            )
    return goals


def unknown_column_error(name: str, columns: Iterable[str]) -> InvalidParameter:
    """Return the refusal of a half-width for a column that the question does not have."""
    choices = ", ".join(columns)
    rule = f"a mapping whose keys are columns of numbers ({choices})"
    return InvalidParameter("within", name, rule, fix=f"give a half-width for one or more of these columns: {choices}")


def _no_half_width_error(*names: str) -> InvalidParameter:
    rule = "left out for columns without noisy numbers, because group keys and selected values have no half-width"
    fix = "give epsilon (--epsilon) and call error() (--dry-run) to see how good a selection is"
    return InvalidParameter("within", ", ".join(names), rule, fix=fix)


FINE_STEPS, COARSE_STEPS = 24, 8
"""The number of prices at which the error is computed; few where each takes a search for the noise."""
_MAX_PANELS, _GAP = 6, 30.0
"""The largest number of panels, and the pixels between two of them."""
_HEADROOM = 3.0
"""The factor above the largest error that leaves room for the label of the remaining budget."""


def picture_footnotes(unit: PrivacyUnit, delta: Number, confidence: Number) -> list[str]:
    """Describe the terms below the picture."""
    delta_text = f"with δ = {format_probability(exact(delta, 'delta'))}" if exact(delta, "delta") else ""
    coverage = f"half-widths cover the noise with {format_percent(confidence)} confidence"
    return [f"protects {unit}", delta_text, coverage, "nothing was spent"]


def draw_error_by_price(
    name: str,
    widths_at_epsilon: Callable[[Fraction], Mapping[str, Width]],
    epsilon_ends: tuple[Number, Number],
    remaining: Fraction,
    footnotes: Sequence[str],
    width: Number = PAGE_WIDTH,
    steps: int = FINE_STEPS,
) -> Picture:
    """Draw the half-width at each ε in one log-log panel per column, since columns have different units."""
    inner_width = float(exact(width, "width", _PICTURE_WIDTHS)) - 2 * MARGIN
    least, most = (
        exact(end, end_name, POSITIVE) for end, end_name in zip(epsilon_ends, ("least", "most"), strict=True)
    )
    if least >= most:
        raise InvalidParameter(
            "least", epsilon_ends[0], f'below "most", which is {format_exact(most)}', fix='lower least, or raise "most"'
        )
    log_step = (math.log(float(most)) - math.log(float(least))) / steps
    epsilons = [Fraction(f"{float(least) * math.exp(log_step * step):.6g}") for step in range(steps + 1)]
    widths_by_price = [widths_at_epsilon(epsilon) for epsilon in epsilons]
    columns = {
        column: _plotted_lines_of_column(column, epsilons, widths_by_price)
        for column in dict.fromkeys(width_column for price_widths in widths_by_price for width_column in price_widths)
    }
    panel_lines = {column: lines for column, lines in columns.items() if lines}
    if not panel_lines:
        raise InvalidParameter(
            "question",
            ValueWords("a question without one"),
            "a question with a numeric column whose error is finite",
            fix="plot the errors of a question with COUNT, SUM or AVG",
        )
    markers = ((float(remaining), f"left: ε = {number(float(remaining))}"),) if remaining else ()
    note = (
        [f"only the first {_MAX_PANELS} of {len(panel_lines)} columns are shown"]
        if len(panel_lines) > _MAX_PANELS
        else []
    )
    drawing = _draw_panels(panel_lines, markers, inner_width)
    return framed_picture(drawing, f"Error by price: {name}", footnotes, note, inner_width)


def _draw_panels(
    panel_lines: Mapping[str, Sequence[PlottedLine]], markers: tuple[tuple[float, str], ...], inner_width: float
) -> Drawing:
    """Draw panels over the whole width of a narrow picture, or of a single panel; else two side by side."""
    per_row = 1 if len(panel_lines) == 1 or inner_width < INNER_WIDTH else 2
    height, width = 340.0 if len(panel_lines) == 1 else 240.0, (inner_width - _GAP * (per_row - 1)) / per_row
    panels = []
    for column, lines in list(panel_lines.items())[:_MAX_PANELS]:
        low, top = lines_y_range(lines, log=True)
        ends = (low, top * (_HEADROOM if markers else 1))
        settings = LineAxes(f"{column}: half-width (±)", "ε", LogScale, LogScale, y_range=ends, marks=markers)
        panels.append(line_chart(lines, settings, height, width))
    return stacked([side_by_side(panels[index : index + per_row], _GAP) for index in range(0, len(panels), per_row)])


def _plotted_lines_of_column(
    column: str, epsilons: Sequence[Fraction], widths_by_price: Sequence[Mapping[str, Width]]
) -> list[PlottedLine]:
    """Return the line of a column, or one per group size for a mean; none where no error is finite."""
    widths = [price_widths.get(column) for price_widths in widths_by_price]
    sizes = next((tuple(width) for width in widths if isinstance(width, Mapping)), (0,))
    lines = []
    for size in sizes:
        half_widths = [width.get(size) if isinstance(width, Mapping) else width for width in widths]
        finite = [half if half is not None and 0 < half < math.inf else None for half in half_widths]
        if any(half is not None for half in finite):
            lines.append(_plotted_line(f"group of {size:,}" if size else column, epsilons, finite))
    return lines


def _plotted_line(name: str, epsilons: Sequence[Fraction], half_widths: Sequence[float | None]) -> PlottedLine:
    labels = tuple(
        f"ε = {number(float(epsilon))}: ±{'' if half is None else number(half)}"
        for epsilon, half in zip(epsilons, half_widths, strict=True)
    )
    return PlottedLine(name, tuple(map(float, epsilons)), tuple(half_widths), tooltips=labels)


def quality_of_selected_columns(
    query: Query,
    prepared: PricedRelease,
    results: Sequence[MeasuredRequest],
    widths: Mapping[str, Width],
    confidence: Number,
) -> dict[str, str]:
    """Describe the quality of every selected column, and note ranks of noisy numbers: these have no half-width."""
    quality = {
        output.name: RANK_NOTE for output in query.outputs if _is_rank_window_over_noise(query, output.expression)
    }
    for output in query.outputs:
        match output.expression:
            case Column(Result(index)) if not query.outer and output.name not in widths:
                part_index = results[index].part
                if part_index:  # part 0 holds the totals
                    part = prepared.others[part_index - 1]
                    quality[output.name] = part.words(prepared.measurements[part_index], confidence)[1]
    return quality


def _is_rank_window_over_noise(query: Query, expression: Expression) -> bool:
    """Return whether a column shows a rank that noise can change, through any number of SELECTs: that of a noisy
    number, or one among rows that noisy numbers have selected.
    """
    selects = [OuterSelect(query.finish), *query.outer]
    while selects:
        select = selects.pop()
        match expression:
            case Column(WindowResult(index, noises)):
                conditions = [part for part in (select.where, select.finish.having) if part is not None]
                is_noisy = noises > 0 or any(map(noise_count, conditions))
                first, *others = selects or [OuterSelect(Finish(()))]
                below = replace(query, finish=first.finish, outer=tuple(others))
                is_noisy = is_noisy or selects_by_noise(below)
                return is_noisy and select.finish.windows[index].function in RANK_FUNCTIONS
            case Column(NoisyColumn(index)) if selects and not select.grouped:
                expression = selects[-1].finish.outputs[index].expression
            case _:
                return False
    return False
