"""Methods that users of pandas, Polars and dplyr type from habit, each defined by a step of the builder.

A method whose meaning is clear here is that step under another name. Any other name is refused with the step to type.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.quoting import quoted
from sfumato.plan.sql import aggregations as aggregates
from sfumato.plan.sql.aggregations import AggregateText, Aggregation
from sfumato.policy import Domain

Q = TypeVar("Q")
V = TypeVar("V")
COUNT_COLUMN = "count"
"""The column of ``count``, ``size`` and ``value_counts``, as in pandas."""

_IDENTIFIER = re.compile(r'[^\W\d]\w*|"(?:[^"]|"")+"')
_NO_ROWS = "the rows of a private table are never shown"
_SEE_COLUMNS = (
    "call describe() for the columns, value_counts(…) or agg(…) for noisy numbers, or preview() for an invented answer"
)
_PRIVATE_ROWS_HINT = f"{_NO_ROWS}: {_SEE_COLUMNS}"
_ROW_HINTS = {
    **dict.fromkeys(
        ("iloc", "loc", "tail", "sample", "take", "collect", "show", "iterrows", "to_dict"), _PRIVATE_ROWS_HINT
    ),
    **dict.fromkeys(("to_pandas", "to_arrow", "to_polars", "to_csv", "values", "toPandas"), _PRIVATE_ROWS_HINT),
    **dict.fromkeys(("merge", "inner_join"), 'did you mean join("airlines", on="carrier")?'),
    **dict.fromkeys(("mutate", "with_columns", "withColumn"), 'did you mean derive(hours="delay / 60.0")?'),
    **dict.fromkeys(("concat", "append", "union", "bind_rows"), "did you mean union_all(other)?"),
    **dict.fromkeys(("summarise", "summarize", "aggregate"), "did you mean agg(n=sf.count())?"),
    **dict.fromkeys(("apply", "map", "pipe"), 'write the expression as SQL: derive(hours="delay / 60.0")'),
    **dict.fromkeys(
        ("sort_values", "arrange", "sort", "order_by", "having", "select", "limit"),
        'aggregate first: agg(n=sf.count()), then order_by("n DESC"), having("n > 100") or head(10)',
    ),
    **dict.fromkeys(("explain", "error", "price", "release"), "aggregate first: agg(n=sf.count())"),
    **dict.fromkeys(
        ("shape", "info", "dtypes"), "call describe() for the columns, or count() for the noisy number of rows"
    ),
    "pivot_table": 'did you mean group_by("region", "year").agg(n=sf.count())?',
    "nlargest": 'did you mean agg(n=sf.count()).order_by("n DESC").head(10)?',
}
_ANSWER_HINTS = dict.fromkeys(
    ("to_pandas", "to_arrow", "to_polars", "to_csv", "to_json", "save", "rows", "intervals", "receipt", "collect"),
    "release the question first, answer = question.release(epsilon=0.5), and use the answer",
)
_SQL_HINTS = {
    **_ANSWER_HINTS,
    **dict.fromkeys(("filter", "where", "query", "having"), "write HAVING in the SQL: it filters the noisy numbers"),
    **dict.fromkeys(("sort_values", "arrange", "sort", "order_by"), "write ORDER BY in the SQL"),
    **dict.fromkeys(("head", "tail", "nlargest"), "write ORDER BY … LIMIT 10 in the SQL"),
    **dict.fromkeys(("group_by", "groupby", "agg"), "write GROUP BY in the SQL, or start with curator.table(…)"),
}
QUESTION_HINTS = {
    **_ANSWER_HINTS,
    **dict.fromkeys(
        ("filter", "where", "query"), 'did you mean having("n > 100")? It filters the noisy numbers and is free'
    ),
    **dict.fromkeys(("sort_values", "arrange", "sort"), 'did you mean order_by("n DESC")?'),
    **dict.fromkeys(("mutate", "assign", "derive"), 'did you mean select("region", share="100.0 * late / n")?'),
    **dict.fromkeys(("group_by", "groupby"), "group before you aggregate: group_by(…).agg(…)"),
}
"""What to type instead on a question that was built in Python."""


class SuggestsNames:
    """An object whose unknown attributes are refused with the name that works here."""

    _kind = "question"
    _hints: Mapping[str, str] = _SQL_HINTS

    if not TYPE_CHECKING:  # a type checker must not take every name for an attribute

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(self._unknown_attribute_message(name), name=name)

    def _unknown_attribute_message(self, name: str) -> str:
        rule = f"a {self._kind} has no attribute {name[:60]}"
        public_names = [attribute for attribute in dir(type(self)) if not attribute.startswith("_")]
        close_names = difflib.get_close_matches(name[:60], public_names, n=1)
        hint = self._attribute_hint(name) or (f"did you mean {close_names[0]}?" if close_names else "")
        return f"{rule}: {hint}" if hint else f"{rule}; it has {', '.join(public_names)}"

    def _attribute_hint(self, name: str) -> str:
        """Return what to type instead of a name of another library; empty for an unknown one."""
        return self._hints.get(name, "")


class AggregateMethods(SuggestsNames, Generic[Q]):
    """Aggregates of all rows or of every group as methods: ``mean("delay")`` is ``agg(delay=sf.mean("delay"))``."""

    _kind = "view of rows"
    _hints = _ROW_HINTS

    if TYPE_CHECKING:

        def agg(self, **aggregations: AggregateText) -> Q: ...

    @property
    def _available_columns(self) -> Mapping[str, Domain]:
        """The columns that can be named, as far as they are known here."""
        return {}

    def _attribute_hint(self, name: str) -> str:
        return f'did you mean ["{name}"]?' if name in self._available_columns else super()._attribute_hint(name)

    def count(self, *columns: str) -> Q:
        """Count the rows, in a column ``count``; or, of each column, the rows where it is not NULL."""
        if not self._columns_to_aggregate(columns):
            return self.agg(**{COUNT_COLUMN: aggregates.count()})
        return self._aggregate("count", aggregates.count, columns)

    def size(self) -> Q:
        """Count the rows, in a column ``count``."""
        return self.agg(**{COUNT_COLUMN: aggregates.count()})

    def mean(self, *columns: str) -> Q:
        """Average each column: ``group_by("origin").mean("delay")``."""
        return self._aggregate("mean", aggregates.mean, columns)

    def sum(self, *columns: str) -> Q:
        """Sum each column."""
        return self._aggregate("sum", aggregates.sum, columns)

    def median(self, *columns: str) -> Q:
        """Return the median of each column."""
        return self._aggregate("median", aggregates.median, columns)

    def min(self, *columns: str) -> Q:
        """Return about the least value of each column, as ``sf.minimum`` does."""
        return self._aggregate("min", aggregates.minimum, columns)

    def max(self, *columns: str) -> Q:
        """Return about the greatest value of each column, as ``sf.maximum`` does."""
        return self._aggregate("max", aggregates.maximum, columns)

    def std(self, *columns: str) -> Q:
        """Return the standard deviation of each column."""
        return self._aggregate("std", aggregates.stddev, columns)

    def var(self, *columns: str) -> Q:
        """Return the variance of each column."""
        return self._aggregate("var", aggregates.variance, columns)

    def nunique(self, *columns: str) -> Q:
        """Count the distinct values of each column."""
        return self._aggregate("nunique", aggregates.count_distinct, columns)

    def __getitem__(self, columns: Any) -> Any:
        """Select columns to aggregate: ``group_by("origin")["delay"].mean()``, or a list of columns."""
        return ColumnSelection(self, map(quoted, validated_column_names(columns)))

    def _columns_to_aggregate(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns to aggregate: those given."""
        return columns

    def _aggregate(self, method: str, function: Callable[[str], Aggregation], columns: tuple[str, ...]) -> Q:
        selected = self._columns_to_aggregate(columns)
        if not selected:
            rule = f".{method}() needs the names of the columns, since each column takes a part of the price"
            raise Unsupported(
                "unnamed-columns", rule, fix=f"name the columns, as in .{method}({self._numeric_columns_as_example()})"
            )
        return self.agg(**{_validated_unquoted_name(text, method): function(text) for text in selected})

    def _numeric_columns_as_example(self) -> str:
        """Return columns that can be measured, as arguments of a call."""
        names = [name for name, domain in self._available_columns.items() if domain.type.numeric and domain.range]
        return (
            ", ".join(f'"{quoted(name)}"' if quoted(name) == name else f"{quoted(name)!r}" for name in names)
            or '"cost"'
        )


class ColumnSelection(AggregateMethods[Q]):
    """Some columns of a view or of its groups: ``view.group_by("origin")["delay"].mean()``."""

    def __init__(self, source: AggregateMethods[Q], columns: Iterable[str]) -> None:
        self._source, self._columns = source, tuple(columns)

    @property
    def _available_columns(self) -> Mapping[str, Domain]:
        return self._source._available_columns  # noqa: SLF001

    def agg(self, **aggregations: AggregateText) -> Q:
        """Aggregate the rows or groups that the columns belong to."""
        return self._source.agg(**aggregations)

    def value_counts(self) -> Q:
        """Count the rows for each value of the columns, most frequent first."""
        source: Any = self._source
        question: Q = source.value_counts(*self._columns)
        return question

    def _columns_to_aggregate(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        return columns or self._columns

    def __repr__(self) -> str:
        return f"{self._source!r}\n  columns {', '.join(self._columns)}"


class NamedColumn(str):
    """A column's name as SQL writes it, which can also be aggregated: ``view["delay"].mean()``."""

    _source: AggregateMethods[Any] | None

    def __new__(cls, text: str, source: AggregateMethods[Any] | None = None) -> Self:
        column = super().__new__(cls, text)
        column._source = source
        return column

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if self._source is None or name.startswith("_"):
                raise AttributeError(f"a column has no attribute {name[:60]}", name=name)
            return getattr(ColumnSelection(self._source, [str(self)]), name)


class RowMethodAliases(AggregateMethods[Q], Generic[Q, V]):
    """Steps of a view of rows under the names that other libraries give them."""

    if TYPE_CHECKING:

        def where(self, condition: str) -> V: ...
        def derive(self, **expressions: str) -> V: ...
        def group_by(self, *keys: Any, **expressions: Any) -> Any: ...

    def filter(self, condition: str) -> V:
        """Keep the rows that meet a condition, as ``where`` does."""
        return self.where(_validated_condition("filter", condition))

    def query(self, condition: str) -> V:
        """Keep the rows that meet a condition, as ``where`` does."""
        return self.where(_validated_condition("query", condition))

    def assign(self, **expressions: str) -> V:
        """Add columns, as ``derive`` does: ``assign(hours="delay / 60.0")``."""
        for name, expression in expressions.items():
            if not isinstance(expression, str):
                raise InvalidParameter(
                    name, expression, "an SQL expression as a string", fix='write assign(hours="delay / 60.0")'
                )
        return self.derive(**expressions)

    def groupby(self, *keys: Any, **expressions: Any) -> Any:
        """Group by columns, as ``group_by`` does; a list of columns is accepted too."""
        columns = keys[0] if len(keys) == 1 and isinstance(keys[0], (list, tuple)) else keys
        return self.group_by(*columns, **expressions)

    def value_counts(self, *columns: str) -> Q:
        """Count the rows for each value of the columns, most frequent first: ``value_counts("origin")``."""
        if not columns:
            raise Unsupported(
                "unnamed-columns", "value_counts() needs a column", fix='name one, as in value_counts("origin")'
            )
        question: Q = self.group_by(*columns).size().order_by(f"{COUNT_COLUMN} DESC")
        return question

    def head(self, rows: int = 5) -> NoReturn:
        """Refuse: rows of people are never shown."""
        raise Unsupported("rows-shown", f"{_NO_ROWS}, not even the first {rows}", fix=_SEE_COLUMNS)


def validated_column_names(columns: object) -> tuple[str, ...]:
    """Return the names in ``view["delay"]`` or ``view[["delay", "distance"]]``."""
    names = (columns,) if isinstance(columns, str) else tuple(columns) if isinstance(columns, (list, tuple)) else ()
    if not names or not all(isinstance(name, str) for name in names):
        fix = 'write view["delay"] or view[["delay", "distance"]]; a condition goes into where("delay > 15")'
        raise InvalidParameter("columns", columns, "the name of a column, or a list of names", fix=fix)
    return names


def _validated_condition(method: str, condition: object) -> str:
    """Refuse what other libraries take for a condition, such as a comparison of columns."""
    if not isinstance(condition, str):
        fix = f'write .{method}("delay > 15")'
        raise InvalidParameter(method, condition, "given an SQL condition as a string", fix=fix)
    return condition


def _validated_unquoted_name(text: object, method: str) -> str:
    """Return the name of a column that is written in SQL; an expression has none."""
    if not isinstance(text, str):
        raise InvalidParameter(method, text, "given the names of columns", fix=f'write .{method}("delay", "distance")')
    if not _IDENTIFIER.fullmatch(text.strip()):
        fix = (
            'derive a column first, as in derive(hours="delay / 60.0"), or write the expression in '
            'agg(hours="AVG(delay / 60.0)")'
        )
        raise Unsupported("unnamed-column", f".{method}() takes columns, not expressions", fix=fix)
    name = text.strip()
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
