"""The aggregates of the Python query builder, and histograms: equal bins of a declared range, as a group key."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.aggregates.value_measures import MAX_DECIMALS, MOST_FREQUENT
from sfumato.policy import Type
from sfumato.privacy.numbers import INSIDE_UNIT, Number, exact, exact_integer, format_exact, format_number
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.plan.sql.fragments import Names, Tree
    from sfumato.plan.sql.row_sources import RowSource


_ROWS = "COUNT(*)"
_SQL = {
    "count": "COUNT(x)",
    "count_distinct": "COUNT(DISTINCT x)",
    "sum": "SUM(x)",
    "mean": "AVG(x)",
    "mode": "MODE(x)",
    "top_k": "APPROX_TOP_K(x, k)",
    "median": "MEDIAN(x)",
    "quantile": "QUANTILE_CONT(x, p)",
    "minimum": "MIN(x)",
    "maximum": "MAX(x)",
    "variance": "VAR_SAMP(x)",
    "stddev": "STDDEV_SAMP(x)",
    "variance_of_all": "VAR_POP(x)",
    "stddev_of_all": "STDDEV_POP(x)",
    "covariance": "COVAR_SAMP(x, y)",
    "covariance_of_all": "COVAR_POP(x, y)",
    "correlation": "CORR(x, y)",
    "slope": "REGR_SLOPE(x, y)",
    "intercept": "REGR_INTERCEPT(x, y)",
    "r_squared": "REGR_R2(x, y)",
}
"""Each aggregate as SQL, with x for its operand and y for the second one: a new one is one line here and one function
below."""
_PAIR_AGGREGATES = frozenset(name for name, sql in _SQL.items() if "(x, y)" in sql)


@dataclass(frozen=True)
class Aggregation:
    """An aggregate of the rows of every group, such as their number, sum or mean."""

    name: str
    of: str | None = None
    """The aggregated SQL expression over one row."""
    where: str | None = None
    """The SQL condition of the rows that count; None for every row."""
    beside: str | None = None
    """The second expression, for aggregates of two."""
    at: str | None = None
    """The probability of a quantile, or a list of them, as SQL."""
    k: int | None = None
    """The number of most frequent values."""

    def __post_init__(self) -> None:
        if self.name not in _SQL:
            raise InvalidParameter("name", self.name, f"one of {', '.join(_SQL)}")
        if self.of is None and self.name != "count":
            raise InvalidParameter("of", self.of, 'a column or an expression, such as "cost"')
        if (self.k is not None) != (self.name == "top_k"):
            rule = (
                "left out, since only top_k takes it" if self.name != "top_k" else "a whole number of values for top_k"
            )
            raise InvalidParameter("k", self.k, rule, fix="" if self.k is not None else 'write sf.top_k("drug", k=3)')
        if self.k is not None and exact_integer(self.k, "k", at_least=1) > MOST_FREQUENT:
            raise InvalidParameter("k", self.k, f"at most {MOST_FREQUENT}")
        if (self.at is None) is (self.name == "quantile"):
            rule = "a fraction such as 0.9" if self.at is None else "left out, since only quantiles take it"
            raise InvalidParameter("at", self.at, rule)
        if (self.beside is None) == (self.name in _PAIR_AGGREGATES):
            rule = (
                "a column or an expression, since this aggregate takes two"
                if self.beside is None
                else "left out, since this aggregate takes one expression"
            )
            raise InvalidParameter("beside", self.beside, rule)

    def tree(self, names: Names) -> Tree:
        """Return the aggregate as a tree in which these names are resolved."""
        from sfumato.plan.sql.fragments import (
            parse_expression,
            substitute_columns_in_place,
            substitute_names,
        )  # deferred: building an aggregation needs no parser

        sql = _ROWS if self.of is None else _SQL[self.name]
        fragments = {"x": self.of, "y": self.beside, "w": self.where, "p": self.at}
        fragments["k"] = None if self.k is None else str(int(self.k))
        arguments = {
            name: substitute_names(parse_expression(text, names), names)
            for name, text in fragments.items()
            if text is not None
        }
        return substitute_columns_in_place(
            parse_expression(sql if self.where is None else f"{sql} FILTER (WHERE w)"), arguments
        )

    def __str__(self) -> str:
        options = {"k=": self.k, "where ": self.where}
        arguments = [
            self.of,
            self.beside,
            self.at,
            *(f"{name}{value}" for name, value in options.items() if value is not None),
        ]
        return f"{self.name}({', '.join(argument for argument in arguments if argument is not None)})"


AggregateText = Aggregation | str
"""An aggregation, or any SQL over aggregates: ``100.0 * COUNT_IF(late) / COUNT(*)``."""


def aggregate_tree(aggregate: AggregateText, names: Names) -> Tree:
    """Return an aggregation or SQL over aggregates as a tree in which these names are resolved."""
    from sfumato.plan.sql.fragments import parse_expression, substitute_names

    if not isinstance(aggregate, (Aggregation, str)):
        raise InvalidParameter("agg", aggregate, "an aggregation, such as sf.count(), or SQL with aggregates")
    return (
        aggregate.tree(names)
        if isinstance(aggregate, Aggregation)
        else substitute_names(parse_expression(aggregate, names), names)
    )


def count(of: str | None = None, *, where: str | None = None) -> Aggregation:
    """Count rows, or the rows where an expression is not NULL."""
    return Aggregation("count", of, where)


def count_distinct(of: str, *, where: str | None = None) -> Aggregation:
    """Count the distinct values of an expression; for the id of the unit, count the units."""
    return Aggregation("count_distinct", of, where)


def sum(of: str, *, where: str | None = None) -> Aggregation:
    """Sum an expression over rows; it needs declared or derived bounds."""
    return Aggregation("sum", of, where)


def mean(of: str, *, where: str | None = None) -> Aggregation:
    """Average an expression over rows; it needs declared or derived bounds."""
    return Aggregation("mean", of, where)


def mode(of: str, *, where: str | None = None) -> Aggregation:
    """Return the most frequent value, selected from the values that the policy declares."""
    return Aggregation("mode", of, where)


def top_k(of: str, k: int, *, where: str | None = None) -> Aggregation:
    """Return the k most frequent values, best first; named ``top``, the columns are top_1 to top_k."""
    return Aggregation("top_k", of, where, k=k)


def variance(of: str, *, where: str | None = None, sample: bool = True) -> Aggregation:
    """Return the variance of an expression over rows, of a sample or of the population; it needs bounds."""
    return Aggregation("variance" if sample else "variance_of_all", of, where)


def stddev(of: str, *, where: str | None = None, sample: bool = True) -> Aggregation:
    """Return the standard deviation of an expression over rows, of a sample or of the population."""
    return Aggregation("stddev" if sample else "stddev_of_all", of, where)


def covariance(y: str, x: str, *, where: str | None = None, sample: bool = True) -> Aggregation:
    """Return the covariance of two expressions over the rows where neither is NULL."""
    return Aggregation("covariance" if sample else "covariance_of_all", y, where, x)


def correlation(y: str, x: str, *, where: str | None = None) -> Aggregation:
    """Return the correlation of two expressions over the rows where neither is NULL."""
    return Aggregation("correlation", y, where, x)


def slope(y: str, x: str, *, where: str | None = None) -> Aggregation:
    """Return the slope of the least-squares line of y over x."""
    return Aggregation("slope", y, where, x)


def intercept(y: str, x: str, *, where: str | None = None) -> Aggregation:
    """Return the intercept of the least-squares line of y over x: its value where x is 0."""
    return Aggregation("intercept", y, where, x)


def r_squared(y: str, x: str, *, where: str | None = None) -> Aggregation:
    """Return the fraction of the variance of y that the least-squares line over x explains."""
    return Aggregation("r_squared", y, where, x)


def median(of: str, *, where: str | None = None) -> Aggregation:
    """Return the median of an expression over rows; it needs declared or derived bounds."""
    return Aggregation("median", of, where)


def quantile(of: str, share: Number, *, where: str | None = None) -> Aggregation:
    """Return the value with this share of the rows below it, such as 0.9."""
    return Aggregation("quantile", of, where, at=_probability_text(share))


def quantiles(of: str, shares: Sequence[Number], *, where: str | None = None) -> Aggregation:
    """Return several quantiles at once, for less than separately: a column for each, named by its share."""
    if isinstance(shares, str) or not isinstance(shares, Sequence) or not shares:
        raise InvalidParameter("shares", shares, "a non-empty list of fractions, such as [0.25, 0.5, 0.75]")
    return Aggregation("quantile", of, where, at=f"[{', '.join(map(_probability_text, shares))}]")


def minimum(of: str, *, where: str | None = None) -> Aggregation:
    """Return about the least value: the value at the lowest rank that the price can resolve."""
    return Aggregation("minimum", of, where)


def maximum(of: str, *, where: str | None = None) -> Aggregation:
    """Return about the greatest value: the value at the highest rank that the price can resolve."""
    return Aggregation("maximum", of, where)


def _probability_text(share: Number) -> str:
    probability = exact(share, "share", INSIDE_UNIT)
    if not 0 < round(probability * MAX_DECIMALS) < MAX_DECIMALS:
        raise InvalidParameter("share", share, "strictly between 0 and 1 after rounding to six decimals")
    return f"{Decimal(round(probability * MAX_DECIMALS)) / MAX_DECIMALS:f}"


MAX_BINS = 500


@dataclass(frozen=True)
class Histogram:
    """A group key of equal bins over the range of a number."""

    of: str
    """The number, as an SQL expression over one row with a known range."""
    bins: int

    def __post_init__(self) -> None:
        if not isinstance(self.of, str):
            raise InvalidParameter("of", self.of, 'the name of a column of numbers, such as "cost"')
        if exact_integer(self.bins, "bins", at_least=1) > MAX_BINS:
            raise InvalidParameter("bins", self.bins, f"at most {MAX_BINS}")

    def bin_number_and_label(self, names: Names, rows: RowSource) -> tuple[Tree, Tree]:
        """Return the number of a row's bin, from 1 on, and the label of that bin; both are NULL where the value is.

        WIDTH_BUCKET puts the upper end of the range into a bin of its own; here it is in the last.
        """
        from sfumato.plan.sql.fragments import (
            parse_expression,
            substitute_columns_in_place,
            substitute_names,
        )  # who only says what to group by needs no parser

        column = substitute_names(parse_expression(self.of), names)
        edges = self._bin_edges(column, rows)
        arguments = {
            "x": column,
            "low": _number_tree(edges[0]),
            "high": _number_tree(edges[-1]),
            "n": parse_expression(str(self.bins)),
        }
        bucket = substitute_columns_in_place(parse_expression("WIDTH_BUCKET(x, low, high, n)"), arguments)
        bin_number = substitute_columns_in_place(
            parse_expression("CASE WHEN b > n THEN n ELSE b END"), {"b": bucket, "n": parse_expression(str(self.bins))}
        )
        labels = " ".join(f"WHEN {index} THEN '{label}'" for index, label in enumerate(_bin_labels(edges), start=1))
        return bin_number, substitute_columns_in_place(parse_expression(f"CASE b {labels} END"), {"b": bin_number})

    def _bin_edges(self, column: Tree, rows: RowSource) -> list[Fraction]:
        from sfumato.plan.sql.sql_expressions import lower_expression

        domain = lower_expression(column.copy(), rows.resolve).domain
        if domain.type not in (Type.INTEGER, Type.REAL):
            rule = f"a histogram needs a numeric column; '{self.of}' is {domain.type.value}"
            raise Unsupported("histogram", rule, fix="group by the values of the column, or use a numeric expression")
        if domain.range is None or domain.range[0] == domain.range[1]:
            lack = "no declared bounds" if domain.range is None else "only one possible value"
            rule = f"a histogram divides the range between declared bounds into equal bins, and '{self.of}' has {lack}"
            fix = f"declare {'' if domain.range is None else 'two different '}bounds for '{self.of}' in the policy"
            raise Unsupported("histogram", rule, fix=fix)
        low, high = (Fraction(end) for end in domain.range)  # type: ignore[arg-type]
        return [low + (high - low) * index / self.bins for index in range(self.bins + 1)]

    def __str__(self) -> str:
        return f'histogram("{self.of}", bins={self.bins})'


def histogram(of: str, bins: int = 20) -> Histogram:
    """Group by equal bins of a number: ``group_by(sf.histogram("cost", bins=20))``."""
    return Histogram(of, bins)


def _number_tree(value: Fraction) -> Tree:
    """Return an end of a range, which is a decimal, as a tree."""
    from sfumato.plan.sql.fragments import parse_expression

    return parse_expression(format_exact(value))


def _bin_labels(edges: list[Fraction]) -> list[str]:
    """Return the labels of bins by their ends: all but the last exclude their upper one."""
    end_texts = [_edge_text(edge) for edge in edges]
    pairs = list(pairwise(end_texts))
    return [f"[{low}, {high}{']' if index == len(pairs) else ')'}" for index, (low, high) in enumerate(pairs, start=1)]


def _edge_text(value: Fraction) -> str:
    exact_text = format_exact(value)
    return (
        exact_text
        if len(exact_text) <= 8 and "/" not in exact_text
        else format_number(float(value), 6).replace(",", "")
    )
