"""Advice on a question: which change helps most, before it is paid for and beside an answer that is mostly noise.

Before, it follows from the price and the policy; afterwards from released numbers too. Both are free.

Also here: the refusals that follow from a question's text and the policy alone.

And the δ that ``delta="default"`` takes: the one that is offered now, or that of a stored answer, which is free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.caching import defer_text
from sfumato.curator.context import Context
from sfumato.curator.previews.advising import Tip, find_tips
from sfumato.curator.previews.error_forecasts import Forecast, Width, forecast_rank_errors
from sfumato.curator.previews.explaining import discovery_warning, keys_sql, offered_delta_notes
from sfumato.errors import InvalidParameter, SfumatoError, Unsupported
from sfumato.plan.aggregates.value_measures import TimeQuantile
from sfumato.plan.descriptions import expression_sql
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.nodes import Query
from sfumato.plan.values.expressions import Expression
from sfumato.privacy.numbers import ACCEPT_DEFAULT
from sfumato.release.answers.answer import Answer, possible_ranges
from sfumato.release.measured import MAX_NUMBERS, notes_by_column
from sfumato.release.pricing import PricedRelease
from sfumato.release.proposal import ReleaseCall, is_stored
from sfumato.release.requests import PriceRequest, RequestedSeries
from sfumato.untrusted import escape_unprintable

if TYPE_CHECKING:
    from sfumato.policy import Table


_MAX_ADVISED_ROWS = 10_000
"""The most rows of an answer that are looked through for noise."""
_MAX_RANGE_SHARE = 0.25
"""The share of its possible range from which a forecast ± leaves little to learn."""
_MAX_COUNT_SHARE = 0.5
"""The share of the expected count from which a forecast ± is too wide to print."""
_MAX_BEST_TIPS = 64

BestTips = dict[tuple[str, ...], tuple[PricedRelease, PriceRequest, Tip | None]]
"""The last best tips of a question by the columns they help, each with the release that it holds for: whoever releases
a question again and again waits for its forecasts once.
"""


def question_tips(
    question: Any, request: PriceRequest, prepared: PricedRelease, only_columns: Sequence[str] | None = None
) -> tuple[Tip, ...]:
    """Forecast a question with one setting changed at a time; with ``only_columns``, for these columns. None for a
    sample: each curve of one takes seconds.
    """
    if request.sample is not None:
        return ()
    price = request.price if request.within is None else prepared.price
    query: Query = question.query
    table: Table = question.table

    def forecast_again(changed_query: Query, limits: ContributionLimits) -> Mapping[str, Width]:
        is_unchanged = changed_query is query and limits is question.limits  # it was priced already
        changed = question if is_unchanged else question.with_query(changed_query, limits)
        widths: Mapping[str, Width] = changed.widths(changed.price_release_at(price, request), request)
        return widths

    ranks = notes_by_column(query, forecast_rank_errors(prepared, question.shared_parts.requests, request.confidence))
    return find_tips(
        query,
        question.limits,
        every_row=table.every_row,
        reforecast=forecast_again,
        rank_columns=ranks,
        integer_columns=question.integer_columns,
        groups=() if question.discovered_keys else question.groups,
        unit_id=table.id if isinstance(table.id, str) else None,
        only_columns=only_columns,
    )


def discovery_warnings(question: Any, stated: PriceRequest, prepared: PricedRelease) -> tuple[str, ...]:
    """Warn, before the purchase, that discovered groups may be too small to be shown, and of a δ not given."""
    threshold = prepared.selection
    if threshold is None:
        return ()
    in_one_group = None
    if not question.table.every_row and question.limits.groups > 1:
        with suppress(InvalidParameter, Unsupported):  # a refused variant gives no advice
            limited_question = question.with_query(question.query, question.limits.tighten(None, 1, None))
            in_one_group = limited_question.price_release_at(prepared.price, stated).selection
    notes = offered_delta_notes(stated, prepared.price.delta)
    return (discovery_warning(threshold, in_one_group, question.declared_size), *notes)


def tips_from_bought_counts(question: Any) -> tuple[Tip, ...]:
    """Return what counts that were bought before advise about limits and bounds."""
    with suppress(Unsupported):
        tips = (count.bought_tip() for count in question.clipped().questions.values())
        return tuple(tip for tip in tips if tip is not None)
    return ()


def with_forecast_advice(forecast: Forecast, question: Any, request: PriceRequest, prepared: PricedRelease) -> Forecast:
    """Add the change that helps most, where the forecast error swamps what can be expected."""
    swamped = [name for name in forecast.columns if _is_mostly_noise(name, forecast, question)]
    tip = _best_tip(swamped, question, request, prepared)
    return (
        forecast
        if tip is None
        else replace(forecast, advice=f"{_columns_would_be_phrase(swamped)} mostly noise: {tip}")
    )


def with_answer_advice(
    answer: Answer, question: Any, request: PriceRequest, prepared: PricedRelease, best_tips: BestTips
) -> Answer:
    """Add the change that helps most, where half of the released numbers of a column are too noisy to rely on. It takes
    longer to find than many an answer, and is looked for when it is read.
    """
    if answer.is_preview or len(answer.rows) > _MAX_ADVISED_ROWS:
        return answer
    noisy = {name: count for name, count in answer.noisy_numbers().items() if 2 * count >= len(answer.rows)}
    if not noisy:
        return answer
    counts = ", ".join(
        f"{escape_unprintable(name)}: ± exceeds half of the number in {count:,} of {len(answer.rows):,}"
        for name, count in noisy.items()
    )

    def advise_late() -> str:
        tip = _cached_best_tip(tuple(noisy), question, request, prepared, best_tips)
        return "" if tip is None else f"{counts}; {tip}"

    advised = answer.changed(advice="")
    defer_text(advised, "advice", advise_late)
    return advised


def _cached_best_tip(
    columns: tuple[str, ...], question: Any, request: PriceRequest, prepared: PricedRelease, best_tips: BestTips
) -> Tip | None:
    """Return the best tip for these columns, from an earlier release on the same terms where there was one."""
    last_prepared, last_request, tip = best_tips.get(columns, (None, None, None))
    if last_prepared is not prepared or last_request != request:
        if len(best_tips) >= _MAX_BEST_TIPS:
            best_tips.clear()
        tip = _best_tip(columns, question, request, prepared)
        best_tips[columns] = prepared, request, tip
    return tip


def _best_tip(columns: Sequence[str], question: Any, request: PriceRequest, prepared: PricedRelease) -> Tip | None:
    """Return the tip with the largest factor for one of these columns."""
    if not columns:
        return None
    with suppress(Exception):  # the answer is charged and must be shown, whatever happens to advice about it
        return max(question_tips(question, request, prepared, columns), key=lambda tip: tip.factor, default=None)
    return None


def _is_mostly_noise(name: str, forecast: Forecast, question: Any) -> bool:
    """Return whether a forecast error is a large part of a column's range, or of the count that the size suggests."""
    expected = _expected_units_per_group(question)
    width = _width_at_expected_size(forecast.columns[name], expected)
    if math.isinf(width):
        return True
    possible = possible_ranges(question.query).get(name)
    if possible is not None and name not in forecast.ranks:
        return width >= _MAX_RANGE_SHARE * (possible[1] - possible[0])
    is_count = name in forecast.whole and name not in forecast.ranks
    return bool(is_count and expected is not None and width > _MAX_COUNT_SHARE * expected)


def _expected_units_per_group(question: Any) -> Fraction | None:
    """Return the units of a group, were they spread evenly; None where the policy declares no size."""
    size = question.declared_size
    return None if size is None or question.discovered_keys else Fraction(size, max(1, len(question.groups)))


def _width_at_expected_size(width: Width, expected: Fraction | None) -> float:
    """Return the half-width in a group of the expected size; where none is known, in the largest that is forecast."""
    if not isinstance(width, Mapping):
        return width
    sizes = sorted(width)
    at_most = [size for size in sizes if expected is None or size <= expected] or sizes[:1]
    return width[at_most[-1]]


def _columns_would_be_phrase(names: Sequence[str]) -> str:
    column_list = ", ".join(map(escape_unprintable, names))
    return f"{column_list} would be" if len(names) == 1 else f"{column_list} would each be"


def error_or_refusal_text(question: Any, epsilon: str) -> str:
    """Return the error of a question at a price in words, or the rule by which the price is refused."""
    try:
        return "; ".join(question.error(epsilon=epsilon).parts()) or "exact"
    except SfumatoError as refusal:
        return refusal.rule


def require_few_cells(groups: int, cells_per_group: int) -> None:
    """Refuse a table of groups and values that is too large to hold."""
    if groups * cells_per_group > MAX_NUMBERS:
        rule = f"values can be selected from at most {MAX_NUMBERS:,} pairs of a group and a value"
        count = f"this question has {groups:,} groups of {cells_per_group:,} values"
        fix = "group by fewer columns, or ask for a coarser value"
        raise Unsupported("too-many-cells", f"{rule}; {count}", fix=fix)


def require_no_subtotals(query: Query, discovered_keys: tuple[int, ...]) -> None:
    """Refuse subtotals over discovered groups: they would exclude the groups that are not shown."""
    if query.finish.sets:
        raise Unsupported(
            "unknown-subtotals",
            "subtotals need all groups to be known in advance, but the values of the key "
            f"{keys_sql(query, discovered_keys)} are found in the data",
            fix="ask for the totals in a separate question, or declare the values in the policy",
        )


def require_declared_groups(query: Query, discovered_keys: tuple[int, ...]) -> None:
    """Refuse to answer from a synopsis where groups must be discovered."""
    if discovered_keys:
        keys = keys_sql(query, discovered_keys)
        rule = f"the values of the key {keys} must be found in the data, and a synopsis cannot do that"
        raise Unsupported("no-synopsis", rule, fix="declare the values in the policy, or give a price to discover them")


def refuse_range_of_time_quantiles(query: Query, requested_range: str | None) -> None:
    """Refuse to buy intervals around quantiles of dates, which are shown without: half the price would buy nothing."""
    dates = next((measure for measure in query.plan.measures if isinstance(measure, TimeQuantile)), None)
    if requested_range is not None and dates is not None:
        rule = "left out, because a quantile of dates or times has no interval"
        fix = f"leave out range, or select the quantile of {expression_sql(dates.value)}, which has an interval"
        raise InvalidParameter("range", requested_range, rule, fix=fix)


def too_many_numbers_refusal() -> Unsupported:
    rule = f"an answer can have at most {MAX_NUMBERS:,} noisy numbers"
    return Unsupported("too-many-numbers", rule, fix="ask for fewer columns or coarser groups")


def unlisted_values_refusal(value: Expression) -> Unsupported:
    rule = f"the most frequent value is selected among declared values, and {expression_sql(value)} has none"
    fix = "declare its values in the policy; or group by it, count, and ORDER BY the count with a LIMIT"
    return Unsupported("unlisted-values", rule, fix=fix)


def slow_groups_refusal(seconds: float) -> Unsupported:
    return Unsupported(
        "slow-groups",
        f"listing the groups took more than {seconds:g} seconds, or more than the allowed memory",
        fix="group by fewer columns or coarser values, or ask the owner for more time",
    )


def with_offered_delta(question: Any, context: Context, request: PriceRequest, call: ReleaseCall) -> PriceRequest:
    """Return the request with the δ that a question offers; once none is left, only a stored answer is still offered
    one, which is not spent.
    """
    offered = request.accept_delta(question.default_delta)
    if request.delta != ACCEPT_DEFAULT or question.default_delta or not question.discovered_keys:
        return offered
    assumed = request.accept_delta(question.assumed_delta)
    if RequestedSeries(context, question.text, question.plan_key, call).find_stored() is not None:
        return assumed
    release = None if call.fresh else question.release_strategy(question.price_release(assumed))
    return offered if release is None or not is_stored(release, question.plan_key, context) else assumed
