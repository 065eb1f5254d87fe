"""These aggregates can be asked of the rows of a group in a question that is put together in Python."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.errors import InvalidParameter
from sfumato.plan.fragments import Names, Tree, filled, meant, read
from sfumato.plan.value_measures import MOST_FREQUENT
from sfumato.privacy.numbers import whole

_ROWS = "COUNT(*)"
_WRITTEN = {
    "count": "COUNT(x)",
    "count_distinct": "COUNT(DISTINCT x)",
    "sum": "SUM(x)",
    "mean": "AVG(x)",
    "mode": "MODE(x)",
    "top_k": "APPROX_TOP_K(x, k)",
}
"""Each aggregate as SQL, with x for what it is of: a new one is one line here and one function below."""


@dataclass(frozen=True)
class Aggregation:
    """An aggregation says what to ask of the rows of a group: how many there are, their sum, their mean."""

    name: str
    of: str | None = None
    """What it is of, as a SQL expression over one row."""
    where: str | None = None
    """The rows that count, as a SQL condition; every row if it is left out."""
    k: int | None = None
    """How many of the most frequent values are asked for."""

    def __post_init__(self) -> None:
        if self.name not in _WRITTEN:
            raise InvalidParameter("name", self.name, f"one of {', '.join(_WRITTEN)}")
        if self.of is None and self.name != "count":
            raise InvalidParameter("of", self.of, f'what to ask it of: sf.{self.name}("cost")')
        if (self.k is not None) != (self.name == "top_k"):
            raise InvalidParameter("k", self.k, 'how many of the most frequent values to give: sf.top_k("drug", k=3)')
        if self.k is not None and whole(self.k, "k", at_least=1) > MOST_FREQUENT:
            raise InvalidParameter("k", self.k, f"at most {MOST_FREQUENT}")

    def tree(self, names: Names) -> Tree:
        """Write the aggregate as a part of a statement in which these names are known."""
        written = _ROWS if self.of is None else _WRITTEN[self.name]
        given = {"x": self.of, "w": self.where, "k": None if self.k is None else str(int(self.k))}
        arguments = {name: meant(read(text), names) for name, text in given.items() if text is not None}
        return filled(read(written if self.where is None else f"{written} FILTER (WHERE w)"), arguments)

    def __str__(self) -> str:
        further = {"k=": self.k, "where ": self.where}
        told = [self.of, *(f"{name}{value}" for name, value in further.items() if value is not None)]
        return f"{self.name}({', '.join(each for each in told if each is not None)})"


Asked = Aggregation | str
"""An aggregation, or any SQL over aggregates: ``100.0 * COUNT_IF(late) / COUNT(*)``."""


def aggregate(asked: Asked, names: Names) -> Tree:
    """Write what is asked as a tree in which these names are known."""
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
    return Aggregation("top_k", of, where, k)
