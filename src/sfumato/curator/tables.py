"""Questions built in Python: the rows of a table, step by step, then groups and aggregations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any

from sfumato.curator.context import Context
from sfumato.curator.frame_methods import (
    QUESTION_HINTS,
    AggregateMethods,
    ColumnSelection,
    NamedColumn,
    RowMethodAliases,
    validated_column_names,
)
from sfumato.curator.listings import Listing, list_columns_with_offers
from sfumato.curator.proposals.logistic import LogisticProposal, propose_logistic
from sfumato.curator.proposals.moment_proposals import ComponentsProposal, propose_components
from sfumato.curator.proposals.questions import FREE_METHODS, Question
from sfumato.curator.proposals.regressions import RegressionProposal, propose_regression
from sfumato.curator.proposals.selected_columns import FreeDeclaredValues
from sfumato.curator.proposals.survival import SurvivalColumns, SurvivalProposal, propose_survival
from sfumato.plan.sql import building
from sfumato.plan.sql.aggregations import AggregateText
from sfumato.plan.sql.building import Keys, On, OutputColumn, QuestionBuilder, RowSelection
from sfumato.plan.sql.fragments import identifier_sql
from sfumato.policy import Domain
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True, repr=False)
class ViewColumns:
    """The columns that a step can name. Tab completes them; ``columns.region`` is the name as SQL writes it."""

    _domains: dict[str, Domain]

    def __getattr__(self, name: str) -> str:
        if name.startswith("_") or name not in self._domains:
            raise AttributeError(f"no column is called {name}; the columns are {', '.join(self._domains)}")
        return self[name]

    def __getitem__(self, name: str) -> str:
        """Return the name as SQL writes it, quoted where necessary."""
        if name not in self._domains:
            raise KeyError(name)
        return identifier_sql(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._domains)

    def __len__(self) -> int:
        return len(self._domains)

    def __dir__(self) -> list[str]:
        return [name for name in self._domains if name.isidentifier()]

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._domains)

    def __repr__(self) -> str:
        width = max(map(len, self._domains), default=0)
        return "\n".join(f"{name:<{width}}  {domain!s}" for name, domain in self._domains.items())


@dataclass(frozen=True, repr=False)
class TableView(RowMethodAliases["TableQuestion", "TableView"]):
    """A view of a table's rows: each method returns a new view with one more step, and reads no data.

    Conditions and expressions are SQL, parsed like whole questions; a step that cannot be answered is refused at once.
    ``agg`` returns the question.
    """

    _context: Context = field(repr=False, compare=False)
    _rows: RowSelection

    @property
    def columns(self) -> ViewColumns:
        """The columns that can be named at this step, with types and ranges."""
        return ViewColumns(self._rows.columns)

    @property
    def _available_columns(self) -> dict[str, Domain]:
        return self._rows.columns

    def where(self, condition: str) -> TableView:
        """Keep the rows that meet a condition: ``where("year = 2024 AND age >= 18")``."""
        return replace(self, _rows=building.where(self._rows, condition))

    def derive(self, **expressions: str) -> TableView:
        """Add columns, each an expression over one row: ``derive(band="age // 10")``.

        Later ones may use earlier ones. A window function over one unit's rows is such a column too.
        """
        rows = self._rows
        for name, expression in expressions.items():
            rows = building.derive(rows, name, expression)
        return replace(self, _rows=rows)

    def join(self, other: TableView | str, on: On = None) -> TableView:
        """Join another table, or a view of one, where the named columns are equal or a condition holds.

        Without ``on`` two private tables are joined on the unit.
        """
        return self._join(other, on, left=False)

    def left_join(self, other: TableView | str, on: On = None) -> TableView:
        """Join as ``join`` does, and keep rows without a match."""
        return self._join(other, on, left=True)

    def union_all(self, other: TableView) -> TableView:
        """Append the rows of another view of the same units, with the columns that both have."""
        return replace(self, _rows=building.union_all(self._rows, other._rows))

    def per_unit(self, *keys: str, **aggregates: AggregateText) -> TableView:
        """Aggregate to one row per unit, or per unit and key: ``per_unit(visits=sf.count())``.

        The result has the keys and the aggregations as its only columns.
        """
        return replace(self, _rows=building.per_unit(self._rows, keys, aggregates))

    def group_by(self, *keys: OutputColumn, **expressions: OutputColumn) -> GroupedView:
        """Group by columns, and by expressions under a name: ``group_by("region", band="age // 10")``.

        A histogram of a column is a key too: ``group_by(sf.histogram("cost", bins=20))``.
        """
        return GroupedView(self, building.lower_keys(self._rows, keys, expressions))

    def agg(self, **aggregates: AggregateText) -> TableQuestion:
        """Aggregate all rows together: ``agg(n=sf.count(), cost=sf.mean("cost"))``."""
        return _build_question(self._context, building.start_question(self._rows, (), aggregates))

    def regress(
        self,
        formula: str | None = None,
        *,
        target: str | None = None,
        on: Sequence[str] | None = None,
        rows: int | None = None,
        robust: bool = False,
    ) -> RegressionProposal:
        """Propose a linear regression over these rows: ``regress("hours ~ age + sex")`` (``Curator.regress``)."""
        return propose_regression(
            self._context, self._rows, formula, target=target, on=on, row_limit=rows, robust=robust
        )

    def logistic(
        self,
        formula: str | None = None,
        *,
        target: str | None = None,
        on: Sequence[str] | None = None,
        event: str | None = None,
        rows: int | None = None,
    ) -> LogisticProposal:
        """Propose a logistic regression over these rows: ``logistic("died ~ age + sex")`` (``Curator.logistic``)."""
        return propose_logistic(self._context, self._rows, formula, target=target, on=on, event=event, row_limit=rows)

    def components(self, columns: Sequence[str], *, rows: int | None = None) -> ComponentsProposal:
        """Propose principal components of these rows: ``components(["age", "cost"])`` (``Curator.components``)."""
        return propose_components(self._context, self._rows, columns, rows)

    def survival(
        self, time: str, event: str, by: str | None = None, *, event_is: str | None = None, every: Number | None = None
    ) -> SurvivalProposal:
        """Propose survival curves of these rows: ``survival("months", "died", "arm")`` (``Curator.survival``)."""
        return propose_survival(self._context, self._rows, SurvivalColumns(time, event, by, event_is, every))

    def describe(self) -> Listing:
        """List the columns with what the policy declares, and a priced question about each. Free."""
        return list_columns_with_offers(" ".join(self._rows.steps), self._rows, self._context.policy)

    def __getitem__(self, columns: Any) -> Any:
        """Return a column's name as SQL writes it, with its aggregates as methods; a list of names selects several."""
        names = [NamedColumn(self.columns[name], self) for name in validated_column_names(columns)]
        return names[0] if isinstance(columns, str) else ColumnSelection(self, names)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.columns)

    def __repr__(self) -> str:
        columns = [f"    {line}" for line in repr(self.columns).splitlines()]
        return "\n".join([_indent_steps(self._rows.steps), "  columns", *columns])

    def _join(self, other: TableView | str, on: On, *, left: bool) -> TableView:
        side = other._rows if isinstance(other, TableView) else other  # noqa: SLF001
        return replace(self, _rows=building.join(self._rows, side, on, left=left))


@dataclass(frozen=True, repr=False)
class GroupedView(AggregateMethods["TableQuestion"]):
    """A view with its rows grouped; ``agg`` aggregates every group."""

    _view: TableView
    _keys: Keys

    @property
    def _available_columns(self) -> dict[str, Domain]:
        return self._view._available_columns  # noqa: SLF001

    def agg(self, **aggregates: AggregateText) -> TableQuestion:
        """Aggregate every group, with aggregations or SQL over aggregates."""
        view = self._view
        return _build_question(view._context, building.start_question(view._rows, self._keys, aggregates))  # noqa: SLF001

    def __repr__(self) -> str:
        return f"{self._view!r}\n  group by {', '.join(name for name, _, _ in self._keys)}"


@dataclass(frozen=True, repr=False)
class TableQuestion(Question):
    """A question built in Python, which further steps may extend.

    These steps work on the noisy numbers and are free.
    """

    _statement: QuestionBuilder = field(kw_only=True, repr=False)
    _hints = QUESTION_HINTS

    def having(self, condition: str) -> TableQuestion:
        """Keep the groups whose noisy numbers meet a condition: ``having("n > 100")``."""
        return self._with_statement(building.having(self._statement, condition))

    def order_by(self, *columns: str) -> TableQuestion:
        """Sort the groups: ``order_by("n DESC", "region")``."""
        return self._with_statement(building.order_by(self._statement, columns))

    def head(self, rows: int = 5, *, skip: int = 0) -> TableQuestion:
        """Keep the first ``rows`` groups after skipping ``skip``."""
        return self._with_statement(building.head(self._statement, rows, skip))

    def select(self, *columns: str, **expressions: str) -> TableQuestion:
        """Select the columns of the answer, and compute new ones: ``select("region", share="100.0 * late / n")``."""
        return self._with_statement(building.select(self._statement, columns, expressions))

    def _with_statement(self, statement: QuestionBuilder) -> TableQuestion:
        return replace(_build_question(self._context, statement), limits=self.limits, strategy=self.strategy)

    def __repr__(self) -> str:
        return f"{_indent_steps(self._statement.steps)}\n  {FREE_METHODS}"


@dataclass(frozen=True, repr=False)
class TableValues(TableQuestion, FreeDeclaredValues):
    """Groups without aggregations: the declared values, as in SQL, free."""


def _build_question(context: Context, statement: QuestionBuilder) -> TableQuestion:
    query = statement.query
    question = TableQuestion(context, statement.text, query, query.plan.limits, _statement=statement)
    if query.plan.measures or question.discovered_keys:
        return question
    return TableValues(context, statement.text, query, query.plan.limits, _statement=statement)


def _indent_steps(steps: tuple[str, ...]) -> str:
    first, *rest = steps
    return "\n".join([first, *(f"  {step}" for step in rest)])


def selected_rows(view: TableView) -> RowSelection:
    """Return the rows as a spec holds them. No attribute of a view does: they lead to the engine."""
    return view._rows  # noqa: SLF001 - its own module
