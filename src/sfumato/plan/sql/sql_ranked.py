"""Medians, quantiles, MIN and MAX are read here, in every spelling; a list of shares becomes several columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from sqlglot import exp

from sfumato.plan.aggregates.ranked import MOST_DECIMALS, Quantile
from sfumato.plan.sql.text_positions import refuse, shown
from sfumato.plan.values.expressions import Expression
from sfumato.privacy.numbers import text

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
_WRITTEN = "write QUANTILE_CONT(x, 0.9), or PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)"


Reading = Callable[[exp.Expr], Expression]


def ranked(node: exp.Expr, where: Expression | None, read: Reading, share: exp.Expr | None = None) -> Quantile:
    """Read one quantile of a value, among the rows where a condition holds; of a list of shares the one at this."""
    if isinstance(node, exp.Min | exp.Max) and node.args.get("count"):
        rule = "MIN and MAX give one value: the several least are rows of people"
        raise refuse(node, "several-extremes", rule, "ask for quantiles: QUANTILE_CONT(x, [0.01, 0.05])")
    value, only, descending = _parts(node)
    if isinstance(value, exp.Distinct):
        rule = "ranks are those of rows, and DISTINCT leaves rows out"
        raise refuse(node, "distinct", rule, "leave DISTINCT out")
    made = _bounded(read(value), value)
    if isinstance(node, exp.Min | exp.Max | exp.Median):
        return Quantile(made, _FIXED[type(node)], where, listed=not isinstance(node, exp.Median))
    chance = _share(node, only if share is None else share)
    listed = isinstance(node.this if isinstance(node, exp.WithinGroup) else node, _LISTED)
    return Quantile(made, 1 - chance if descending else chance, where, listed)


_FIXED = {exp.Min: Fraction(0), exp.Median: Fraction(1, 2), exp.Max: Fraction(1)}
_LISTED = (exp.PercentileDisc, exp.Quantile, exp.ApproxQuantile)


def _parts(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None, bool]:
    """Take apart what it is a quantile of, the share, and whether values are ordered from the greatest."""
    if not isinstance(node, exp.WithinGroup):
        return node.this, node.args.get("expression") or node.args.get("quantile"), False
    order = node.expression.expressions
    if not isinstance(node.this, exp.PercentileCont | exp.PercentileDisc) or node.this.expression or len(order) != 1:
        raise refuse(node, "within-group", f"{shown(node)} is not answered", _WRITTEN)
    (ordered,) = order
    return ordered.this, node.this.this, bool(ordered.args.get("desc"))


def _share(node: exp.Expr, share: exp.Expr | None) -> Fraction:
    number = share.this if isinstance(share, exp.Neg) else share
    if share is None or not isinstance(number, exp.Literal) or number.is_string:
        raise refuse(node, "quantile-share", "the share of a quantile is a number that is written out", _WRITTEN)
    rounded = round(Fraction(number.this) * MOST_DECIMALS)
    if isinstance(share, exp.Neg) or not 0 < rounded < MOST_DECIMALS:
        rule = f"a quantile's share lies between 0 and 1, and not at an end, to six decimals; {shown(share)} does not"
        raise refuse(share, "quantile-share", rule, "write a share such as 0.5; for the ends use MIN(x) and MAX(x)")
    return Fraction(rounded, MOST_DECIMALS)


def _bounded(value: Expression, node: exp.Expr) -> Expression:
    if not value.domain.type.numeric:
        rule = f"only numbers have quantiles here; {shown(node)} is {value.domain.type.value}"
        raise refuse(node, "type-mismatch", rule, "turn it into a number, with CASE, DATE_DIFF or EXTRACT")
    if value.domain.range is None:
        rule = f"{shown(node)} has no declared bounds, and a quantile is chosen among the numbers within them"
        fix = f"declare bounds in the policy, or write LEAST(GREATEST({shown(node)}, low), high)"
        raise refuse(node, "unbounded", rule, fix)
    return value


def quantiles(node: exp.Expr, where: Expression | None, read: Reading) -> Iterator[tuple[str, Quantile]]:
    """Read a quantile for each share of a list, with the share in hundredths, in which the name of its column ends."""
    listed = shares(node)
    if listed is None or not listed.expressions:
        raise refuse(node, "list-of-quantiles", "a list of shares has at least one", _WRITTEN)
    for share in listed.expressions:
        found = ranked(node, where, read, share)
        yield text(100 * Fraction(share.this)).replace(".", "_"), found


def shares(node: exp.Expr) -> exp.Array | None:
    """Find the list of shares of a quantile, if it has one."""
    if not isinstance(node, RANKED) or isinstance(node, exp.Median | exp.Min | exp.Max):
        return None
    share = node.this.this if isinstance(node, exp.WithinGroup) else _parts(node)[1]
    return share if isinstance(share, exp.Array) else None
