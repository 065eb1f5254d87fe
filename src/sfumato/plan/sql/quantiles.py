"""MEDIAN, quantiles, MIN and MAX over private rows: the value, the probability, and what is ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from sqlglot import exp

from sfumato.plan.aggregates.value_measures import MAX_DECIMALS, Quantile, TimeQuantile
from sfumato.plan.sql.text_positions import node_text, refusal_at
from sfumato.plan.values import calendar
from sfumato.plan.values.expressions import Expression
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Type
from sfumato.privacy.numbers import format_exact

RANKED = (
    exp.Median,
    exp.PercentileCont,
    exp.PercentileDisc,
    exp.Quantile,
    exp.ApproxQuantile,
    exp.WithinGroup,
    exp.Min,
    exp.Max,
)
_QUANTILE_FIX = "write QUANTILE_CONT(x, 0.9), or PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)"


Reading = Callable[[exp.Expr], Expression]


def lower_quantile(node: exp.Expr, where: Expression | None, read: Reading, share: exp.Expr | None = None) -> Quantile:
    """Lower one quantile of a value, among the rows where a condition holds; of a list of probabilities, the
    given one.
    """
    if isinstance(node, exp.Min | exp.Max) and node.args.get("count"):
        rule = "MIN and MAX return one value: a list of the n smallest would reveal individual people's data"
        raise refusal_at(node, "several-extremes", rule, "use quantiles instead: QUANTILE_CONT(x, [0.01, 0.05])")
    value, probability_node, descending = _operand_probability_and_order(node)
    if isinstance(value, exp.Distinct):
        rule = "a quantile is taken over all rows, so DISTINCT is not supported"
        raise refusal_at(node, "distinct", rule, "leave out DISTINCT")
    operand, origin = _rank_number_and_origin(read(value), value)
    if isinstance(node, exp.Min | exp.Max | exp.Median):
        is_listed = not isinstance(node, exp.Median)
        return _make_quantile(operand, _FIXED_PROBABILITIES[type(node)], where, is_listed, origin)
    probability = _parse_probability(node, probability_node if share is None else share)
    is_discrete = isinstance(node.this if isinstance(node, exp.WithinGroup) else node, _DISCRETE_QUANTILES)
    return _make_quantile(operand, 1 - probability if descending else probability, where, is_discrete, origin)


def _make_quantile(
    operand: Expression, probability: Fraction, where: Expression | None, listed: bool, origin: str | None
) -> Quantile:
    if origin is None:
        return Quantile(operand, probability, where, listed)
    return TimeQuantile(operand, probability, where, listed, origin)


_FIXED_PROBABILITIES = {exp.Min: Fraction(0), exp.Median: Fraction(1, 2), exp.Max: Fraction(1)}
_DISCRETE_QUANTILES = (exp.PercentileDisc, exp.Quantile, exp.ApproxQuantile)


def _operand_probability_and_order(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None, bool]:
    """Return the operand of a quantile, its probability, and whether values are ordered descending."""
    if not isinstance(node, exp.WithinGroup):
        return node.this, node.args.get("expression") or node.args.get("quantile"), False
    order_terms = node.expression.expressions
    if (
        not isinstance(node.this, exp.PercentileCont | exp.PercentileDisc)
        or node.this.expression
        or len(order_terms) != 1
    ):
        raise refusal_at(node, "within-group", f"{node_text(node)} is not supported", _QUANTILE_FIX)
    (order_term,) = order_terms
    return order_term.this, node.this.this, bool(order_term.args.get("desc"))


def _parse_probability(node: exp.Expr, share: exp.Expr | None) -> Fraction:
    magnitude = share.this if isinstance(share, exp.Neg) else share
    if share is None or not isinstance(magnitude, exp.Literal) or magnitude.is_string:
        raise refusal_at(
            node, "quantile-share", "the fraction of a quantile must be a number written in the question", _QUANTILE_FIX
        )
    millionths = round(Fraction(magnitude.this) * MAX_DECIMALS)
    if isinstance(share, exp.Neg) or not 0 < millionths < MAX_DECIMALS:
        rule = (
            "the fraction of a quantile, rounded to six decimals, must lie strictly between 0 and 1; "
            f"{node_text(share)} does not"
        )
        raise refusal_at(
            share, "quantile-share", rule, "write a fraction such as 0.5; for 0 and 1 use MIN(x) and MAX(x)"
        )
    return Fraction(millionths, MAX_DECIMALS)


def _rank_number_and_origin(value: Expression, node: exp.Expr) -> tuple[Expression, str | None]:
    """Return the bounded number that a value is ranked by; of dates and times, days or seconds from an origin."""
    if not value.domain.type.temporal:
        return _require_bounded_number(value, node), None
    if value.domain.range is None:
        rule = f"a quantile is selected from the dates between declared bounds, and {node_text(node)} has none"
        fix = f"write LEAST(GREATEST({node_text(node)}, DATE '2024-01-01'), DATE '2024-12-31'), or declare bounds"
        raise refusal_at(node, "unbounded", rule, fix)
    kind, unit = value.domain.type, "day" if value.domain.type is Type.DATE else "second"
    low: Any = value.domain.range[0]
    origin = low if kind is Type.DATE else calendar.truncate("second", low)
    return call("DATE_DIFF", literal(Type.TEXT, unit), literal(kind, origin), value), origin.isoformat()


def _require_bounded_number(value: Expression, node: exp.Expr) -> Expression:
    if not value.domain.type.numeric:
        rule = f"quantiles, MIN and MAX need a number or a date; {node_text(node)} is {value.domain.type.value}"
        raise refusal_at(node, "type-mismatch", rule, "turn it into a number with CASE, LENGTH or EXTRACT")
    if value.domain.range is None:
        rule = f"a quantile is selected from the numbers between declared bounds, and {node_text(node)} has none"
        fix = f"declare bounds in the policy, or write LEAST(GREATEST({node_text(node)}, low), high)"
        raise refusal_at(node, "unbounded", rule, fix)
    return value


def lower_quantiles(node: exp.Expr, where: Expression | None, read: Reading) -> Iterator[tuple[str, Quantile]]:
    """Lower a quantile for each probability of a list, with the percentage that its column name ends in."""
    probabilities = probability_list(node)
    if probabilities is None or not probabilities.expressions:
        raise refusal_at(node, "list-of-quantiles", "a list of quantiles needs at least one fraction", _QUANTILE_FIX)
    for share in probabilities.expressions:
        quantile = lower_quantile(node, where, read, share)
        yield format_exact(100 * Fraction(share.this)).replace(".", "_"), quantile


def probability_list(node: exp.Expr) -> exp.Array | None:
    """Return the list of probabilities of a quantile, if it has one."""
    if not isinstance(node, RANKED) or isinstance(node, exp.Median | exp.Min | exp.Max):
        return None
    probability = node.this.this if isinstance(node, exp.WithinGroup) else _operand_probability_and_order(node)[1]
    return probability if isinstance(probability, exp.Array) else None
