"""The aggregates of the Python query builder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.ranked import MOST_DECIMALS
from sfumato.plan.aggregates.value_measures import MOST_FREQUENT
from sfumato.privacy.numbers import INSIDE_UNIT, Number, exact, whole

if TYPE_CHECKING:
    from sfumato.plan.sql.fragments import Names, Tree

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
    """An aggregation says what to ask of the rows of a group: how many there are, their sum, their mean."""

    name: str
    of: str | None = None
    """What it is of, as a SQL expression over one row."""
    where: str | None = None
    """The rows that count, as a SQL condition; every row if it is left out."""
    beside: str | None = None
    """The other value, for what is asked of two."""
    at: str | None = None
    """Which quantile, or a list of them, as SQL."""
    k: int | None = None
    """How many of the most frequent values are asked for."""

    def __post_init__(self) -> None:
        if self.name not in _SQL:
            raise InvalidParameter("name", self.name, f"one of {', '.join(_SQL)}")
        if self.of is None and self.name != "count":
            raise InvalidParameter("of", self.of, f'a column or an expression: sf.{self.name}("cost")')
        if (self.k is not None) != (self.name == "top_k"):
            raise InvalidParameter("k", self.k, 'the number of most frequent values: sf.top_k("drug", k=3)')
        if self.k is not None and whole(self.k, "k", at_least=1) > MOST_FREQUENT:
            raise InvalidParameter("k", self.k, f"at most {MOST_FREQUENT}")
        if (self.at is None) is (self.name == "quantile"):
            raise InvalidParameter("at", self.at, "a share such as 0.9, given for quantiles only")
        if (self.beside is None) == (self.name in _PAIR_AGGREGATES):
            rule = (
                "given: this aggregate takes two expressions"
                if self.beside is None
                else "left out: this aggregate takes one expression"
            )
            raise InvalidParameter("beside", self.beside, rule)

    def tree(self, names: Names) -> Tree:
        """Return the aggregate as a tree in which these names are resolved."""
        from sfumato.plan.sql.fragments import filled, meant, read  # who only says what to ask needs no parser

        sql = _ROWS if self.of is None else _SQL[self.name]
        fragments = {"x": self.of, "y": self.beside, "w": self.where, "p": self.at}
        fragments["k"] = None if self.k is None else str(int(self.k))
        arguments = {name: meant(read(text), names) for name, text in fragments.items() if text is not None}
        return filled(read(sql if self.where is None else f"{sql} FILTER (WHERE w)"), arguments)

    def __str__(self) -> str:
        options = {"k=": self.k, "where ": self.where}
        arguments = [
            self.of,
            self.beside,
            self.at,
            *(f"{name}{value}" for name, value in options.items() if value is not None),
        ]
        return f"{self.name}({', '.join(argument for argument in arguments if argument is not None)})"


Asked = Aggregation | str
"""An aggregation, or any SQL over aggregates: ``100.0 * COUNT_IF(late) / COUNT(*)``."""


def aggregate(asked: Asked, names: Names) -> Tree:
    """Return an aggregation or SQL over aggregates as a tree in which these names are resolved."""
    from sfumato.plan.sql.fragments import meant, read

    if not isinstance(asked, (Aggregation, str)):
        raise InvalidParameter("agg", asked, "aggregations, such as sf.count(), or SQL over aggregates")
    return asked.tree(names) if isinstance(asked, Aggregation) else meant(read(asked), names)


def count(of: str | None = None, *, where: str | None = None) -> Aggregation:
    """Count rows; of an expression, those where it is not missing."""
    return Aggregation("count", of, where)


def count_distinct(of: str, *, where: str | None = None) -> Aggregation:
    """Count units, each once: of the column that says whose row it is. Of anything else, count its different values."""
    return Aggregation("count_distinct", of, where)


def sum(of: str, *, where: str | None = None) -> Aggregation:
    """Add up an expression over rows; it has known bounds."""
    return Aggregation("sum", of, where)


def mean(of: str, *, where: str | None = None) -> Aggregation:
    """Ask for the average of an expression over rows; it has known bounds."""
    return Aggregation("mean", of, where)


def mode(of: str, *, where: str | None = None) -> Aggregation:
    """Ask for the most frequent value: it is chosen among those that the policy lists."""
    return Aggregation("mode", of, where)


def top_k(of: str, k: int, *, where: str | None = None) -> Aggregation:
    """Ask for the k most frequent values, best first: as top it is the columns top_1 to top_k."""
    return Aggregation("top_k", of, where, k=k)


def variance(of: str, *, where: str | None = None, sample: bool = True) -> Aggregation:
    """Ask for the variance of an expression over rows: of a sample, or of all there are; it has known bounds."""
    return Aggregation("variance" if sample else "variance_of_all", of, where)


def stddev(of: str, *, where: str | None = None, sample: bool = True) -> Aggregation:
    """Ask for the standard deviation of an expression over rows: of a sample, or of all there are."""
    return Aggregation("stddev" if sample else "stddev_of_all", of, where)


def covariance(y: str, x: str, *, where: str | None = None, sample: bool = True) -> Aggregation:
    """Ask how two expressions vary together over the rows where both are there."""
    return Aggregation("covariance" if sample else "covariance_of_all", y, where, x)


def correlation(y: str, x: str, *, where: str | None = None) -> Aggregation:
    """Ask for the correlation of two expressions over the rows where both are there."""
    return Aggregation("correlation", y, where, x)


def slope(y: str, x: str, *, where: str | None = None) -> Aggregation:
    """Ask for the slope of the line of least squares: how much y rises as x rises by one."""
    return Aggregation("slope", y, where, x)


def intercept(y: str, x: str, *, where: str | None = None) -> Aggregation:
    """Ask for the intercept of the line of least squares: where it is when x is zero."""
    return Aggregation("intercept", y, where, x)


def r_squared(y: str, x: str, *, where: str | None = None) -> Aggregation:
    """Ask for the share of the variance of y that the line of least squares over x explains."""
    return Aggregation("r_squared", y, where, x)


def median(of: str, *, where: str | None = None) -> Aggregation:
    """Ask for the median of an expression over rows; it has known bounds."""
    return Aggregation("median", of, where)


def quantile(of: str, share: Number, *, where: str | None = None) -> Aggregation:
    """Ask for the value with this share of the rows below it, such as 0.9."""
    return Aggregation("quantile", of, where, at=_probability_text(share))


def quantiles(of: str, shares: Sequence[Number], *, where: str | None = None) -> Aggregation:
    """Ask for several quantiles at once, for less than each on its own: a column for each, named by its share."""
    if isinstance(shares, str) or not isinstance(shares, Sequence) or not shares:
        raise InvalidParameter("shares", shares, "a non-empty list of shares, such as [0.25, 0.5, 0.75]")
    return Aggregation("quantile", of, where, at=f"[{', '.join(map(_probability_text, shares))}]")


def minimum(of: str, *, where: str | None = None) -> Aggregation:
    """Ask for the least value, aimed at from within: at the rank that the price allows."""
    return Aggregation("minimum", of, where)


def maximum(of: str, *, where: str | None = None) -> Aggregation:
    """Ask for the greatest value, aimed at from within: at the rank that the price allows."""
    return Aggregation("maximum", of, where)


def _probability_text(share: Number) -> str:
    probability = exact(share, "share", INSIDE_UNIT)
    if not 0 < round(probability * MOST_DECIMALS) < MOST_DECIMALS:
        raise InvalidParameter("share", share, "strictly between 0 and 1 after rounding to six decimals")
    return f"{Decimal(round(probability * MOST_DECIMALS)) / MOST_DECIMALS:f}"
