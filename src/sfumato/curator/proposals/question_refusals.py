"""What a question is refused for, from its text and the policy alone."""

from __future__ import annotations

from sfumato.curator.previews.explaining import keys_sql
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.aggregates.value_measures import TimeQuantile
from sfumato.plan.descriptions import expression_sql
from sfumato.plan.nodes import Query
from sfumato.plan.values.expressions import Expression
from sfumato.release.measured import MAX_NUMBERS


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
            "subtotals need all groups to be known in advance, but the groups of "
            f"{keys_sql(query, discovered_keys)} are found in the data",
            fix="ask for the totals in a separate question, or declare the values in the policy",
        )


def require_declared_groups(query: Query, discovered_keys: tuple[int, ...]) -> None:
    """Refuse to answer from a synopsis where groups must be discovered."""
    if discovered_keys:
        keys = keys_sql(query, discovered_keys)
        rule = f"the groups of {keys} must be found in the data, and a synopsis cannot do that"
        raise Unsupported("no-synopsis", rule, fix="declare the values in the policy, or give a price to discover them")


def refuse_range_of_time_quantiles(query: Query, requested_range: str | None) -> None:
    """Refuse to buy intervals around quantiles of dates, which are shown without: half the price would buy nothing."""
    dates = next((measure for measure in query.plan.measures if isinstance(measure, TimeQuantile)), None)
    if requested_range is not None and dates is not None:
        rule = "left out: a quantile of dates or times is shown without an interval"
        fix = f"leave it out, or ask for the quantile of {expression_sql(dates.value)}, which has one"
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
