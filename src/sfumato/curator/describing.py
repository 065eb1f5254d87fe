"""Describe tables from the policy alone, with example questions and their prices.

No row, file or statistic of a private table is read: everything here is what the owner declared.

Prices are computed over empty tables, with an account that has spent nothing. They follow from the policy, so they
equal those of the curator of the data; and since no source is opened, nothing about anybody can be in them.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from sfumato.curator.context import Context
from sfumato.curator.described_tables import ExampleQuestion, TableDescription, Tables
from sfumato.curator.policy_account import PathOrText, read_policy
from sfumato.curator.previews.error_forecasts import Width
from sfumato.curator.previews.explaining import DEFAULT_DELTA
from sfumato.curator.proposals.questions import Question
from sfumato.engine.opening import open_engine
from sfumato.engine.public_tables import policy_over_empty_tables
from sfumato.errors import SfumatoError
from sfumato.ledger import Ledger
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.descriptions import count_with_noun, literal_sql
from sfumato.plan.quoting import quoted
from sfumato.policy import Domain, Policy, Type
from sfumato.policy.codings import describe_cells
from sfumato.privacy.numbers import format_exact
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.receipts import describe_guarantee
from sfumato.release.running_work import ignore_progress
from sfumato.untrusted import escape_unprintable


@dataclass(frozen=True)
class PolicyWithoutData:
    """Questions to a policy without data: their prices and errors are available, a release reads nothing."""

    context: Context
    catalog: Catalog

    def question(self, text: str) -> Question:
        """Parse a question in SQL."""
        from sfumato.plan.sql.statements import parse

        query = parse(text, self.catalog)
        if query.combined is not None:
            from sfumato.curator.proposals.combined_questions import CombinedQuestion

            return CombinedQuestion(self.context, text, query, query.plan.limits)
        if query.value_queries:
            from sfumato.curator.proposals.private_scalars import ScalarQuestion

            return ScalarQuestion(self.context, text, query, query.plan.limits)
        return Question(self.context, text, query, query.plan.limits)


@contextmanager
def open_without_data(policy: Policy) -> Iterator[PolicyWithoutData]:
    """Open a policy without opening its sources or its ledger."""
    empty = policy_over_empty_tables(policy)
    engine = open_engine(empty)
    try:
        with tempfile.TemporaryDirectory(prefix="sfumato-") as folder, Ledger.open(Path(folder) / "empty") as ledger:
            name, budget, per = policy.account_name, empty.account_budget, empty.per or ""
            account = ledger.account(name, unit=empty.unit, budget=budget, per=per)
            yield PolicyWithoutData(Context(empty, engine, account, ignore_progress, "no version"), engine.catalog())
    finally:
        engine.close()


_MAX_VALUES_WIDTH = 60
"""The largest number of characters for the values of one column."""
_MAX_GROUPS = 50
"""The largest number of groups of an example question."""
_YEARS = (1000, 2200)
"""Integers in this range may be years."""

Ask = Callable[[str], Question]
"""Parses a question in SQL."""


def describe_tables(policy: Policy, catalog: Catalog, ask: Ask | None = None) -> Tables:
    """Describe all tables of a policy; with ``ask``, example questions are forecast and refused ones dropped."""
    tables = {name: _describe_table(policy, table, ask) for name, table in catalog.tables.items()}
    hidden = {name: _describe_unread_public_table(name) for name in policy.tables if name not in tables}
    return Tables(_tables_heading(policy), tables | hidden)


def describe_policy(policy: Policy | PathOrText) -> Tables:
    """Describe a policy without opening its data, with the error of every example question."""
    parsed = read_policy(policy)
    with open_without_data(parsed) as alone:
        return describe_tables(parsed, alone.catalog, alone.question)


def _tables_heading(policy: Policy) -> str:
    return (
        f"{policy.account_name} protects {policy.unit}, {policy.neighbours.value} neighbours: "
        f"{describe_guarantee(policy)}"
    )


def _describe_unread_public_table(name: str) -> TableDescription:
    """Describe a public table whose columns are only known from its rows."""
    return TableDescription(name, "public; all its columns can be joined, and DESCRIBE lists them", {}, ())


def _describe_table(policy: Policy, table: CatalogTable, ask: Ask | None) -> TableDescription:
    if table.public:
        declared = {name: domain_words(domain) for name, domain in table.columns.items()}
        return TableDescription(
            table.name, "public; its columns can be joined to those of private tables", declared, ()
        )
    examples = [
        suggestion if ask is None else _with_forecast(suggestion, ask)
        for suggestion in example_questions(policy, table)
    ]
    return TableDescription(
        table.name, _describe_row_limits(policy, table), _describe_columns(policy, table), tuple(filter(None, examples))
    )


def _describe_row_limits(policy: Policy, table: CatalogTable) -> str:
    unit = policy.unit.name
    if table.every_row:
        return f"private; every row is one {unit}"
    limits = table.limits
    per_period = "" if table.period is None else f" in one {table.period.every}"
    limit_text = (
        f"private; at most {count_with_noun(limits.rows, 'row')} of one {unit}{per_period} "
        f"count{'s' if limits.rows == 1 else ''}"
    )
    limit_text += f", in at most {count_with_noun(limits.groups, 'group')}" if limits.groups < limits.rows else ""
    return f"{limit_text}; rows beyond that count less or not at all, and ± does not cover this"


def _describe_columns(policy: Policy, table: CatalogTable) -> dict[str, str]:
    descriptions = {}
    if table.id is not None:
        unit_count = f": COUNT(DISTINCT {quoted(table.id)}) counts each {policy.unit.name} once"
        descriptions[table.id] = f"identifies the {policy.unit.name} of a row" + (
            unit_count if table.period is None else ""
        )
    rules = policy.cell_rules(table.name)
    for name, domain in table.columns.items():
        cells = [*describe_cells(table.codings.get(name)), *(rules[name].describe() if name in rules else [])]
        descriptions[name] = "; ".join(
            [domain_words(domain), *cells, *_usage_obstacles(domain, account_has_delta=bool(policy.budget.delta))]
        )
    for name, list_column in table.lists.items():
        descriptions[name] = (
            f"list of at most {count_with_noun(list_column.max_items, 'item')}, for UNNEST: "
            f"{domain_words(list_column.items)}"
        )
    return descriptions


def _usage_obstacles(domain: Domain, *, account_has_delta: bool) -> Iterator[str]:
    """Describe what prevents an obvious use of a column, where something does."""
    if domain.type is Type.TEXT and domain.values is None:
        yield (
            "grouping by it needs a δ, since its values are not listed"
            if account_has_delta
            else "it cannot be a group key: its values are not listed, and this account has no δ to find them"
        )
    elif domain.type.numeric and domain.range is None:
        yield "it has no bounds: to sum it, write LEAST(GREATEST(…, low), high)"


def _with_forecast(suggestion: ExampleQuestion, ask: Ask) -> ExampleQuestion | None:
    """Return an example question with its error; None where the policy refuses it."""
    try:
        forecast = ask(suggestion.sql).error(epsilon=1, delta=suggestion.delta)
    except SfumatoError:
        return None
    error = "; ".join(replace(forecast, columns=_only_middle_group_size(forecast.columns)).parts())
    return replace(suggestion, error=error, price=forecast.price)


def _only_middle_group_size(columns: Mapping[str, Width]) -> dict[str, Width]:
    """Keep only the middle group size where a half-width depends on the size."""
    middle_sizes = {
        name: sorted(width)[len(width) // 2] for name, width in columns.items() if isinstance(width, Mapping)
    }
    return {
        name: {middle_sizes[name]: width[middle_sizes[name]]} if isinstance(width, Mapping) else width
        for name, width in columns.items()
    }


def example_questions(policy: Policy, table: CatalogTable) -> tuple[ExampleQuestion, ...]:
    """Return example questions that this policy answers, chosen by the declared domains of the columns."""
    table_name = quoted(table.name)
    if policy.per is not None and not _has_bounded_periods(policy, table):
        return (_one_month_question(table, table_name),)
    key_columns = [name for name, domain in table.columns.items() if 1 < _declared_group_count(domain) <= _MAX_GROUPS]
    keys = sorted(key_columns, key=lambda name: table.columns[name].type.numeric)  # text keys first: they read best
    summable = [name for name, domain in table.columns.items() if name not in key_columns and _is_summable(domain)]
    years = [name for name in summable if _holds_calendar_years(name, table.columns[name])]
    numbers = [name for name in summable if name not in years]
    dates = [name for name, domain in table.columns.items() if _has_listable_months(domain)]
    texts = [name for name, domain in table.columns.items() if domain.type is Type.TEXT and domain.values is None]
    return (
        ExampleQuestion("how many rows there are", f"SELECT COUNT(*) AS n FROM {table_name}"),
        *(_unit_count_question(policy, table, table_name) if table.id is not None and table.period is None else ()),
        *(_grouped_count_question(name, table_name) for name in keys[:1]),
        *(_average_question(name, keys, table_name) for name in numbers[:1]),
        *(_sum_question(name, table_name) for name in numbers[:1]),
        *(_median_question(name, table_name) for name in (*numbers, *years)[:1]),
        *(_count_by_decade_question(name, table_name) for name in years[:1]),
        *(_count_by_month_question(name, table_name) for name in dates[:1]),
        *(_filtered_count_question(name, table.columns[name], table_name) for name in keys[:1]),
        *(_discovered_groups_question(name, table_name) for name in texts[:1] if policy.budget.delta >= DEFAULT_DELTA),
    )


def _has_bounded_periods(policy: Policy, table: CatalogTable) -> bool:
    """Return whether the accounts of a table can be listed: its periods are bounded."""
    column = policy.period_column(table.name)
    return column is None or table.columns[column].bounds is not None


def _one_month_question(table: CatalogTable, table_name: str) -> ExampleQuestion:
    """Return an example question for a table with unbounded periods: it names those that it reads."""
    assert table.period is not None
    day = quoted(table.period.column)
    month = f"{day} >= DATE '2024-01-01' AND {day} < DATE '2024-02-01'"
    return ExampleQuestion(
        "how many rows there are in one month", f"SELECT COUNT(*) AS n FROM {table_name} WHERE {month}"
    )


def _unit_count_question(policy: Policy, table: CatalogTable, table_name: str) -> Iterator[ExampleQuestion]:
    sql = f"SELECT COUNT(DISTINCT {quoted(str(table.id))}) AS n FROM {table_name}"
    yield ExampleQuestion(f"how many units ({policy.unit.name}) have rows", sql)


def _grouped_count_question(name: str, table_name: str) -> ExampleQuestion:
    key = quoted(name)
    return ExampleQuestion(
        f"how many rows for each {name}", f"SELECT {key}, COUNT(*) AS n FROM {table_name} GROUP BY {key}"
    )


def _average_question(name: str, keys: list[str], table_name: str) -> ExampleQuestion:
    key = quoted(keys[0]) if keys else ""
    sql = f"SELECT {key}, AVG({quoted(name)}) AS average FROM {table_name} GROUP BY {key}" if keys else ""
    description = f"the average {name}" + (f" for each {keys[0]}" if keys else "")
    return ExampleQuestion(description, sql or f"SELECT AVG({quoted(name)}) AS average FROM {table_name}")


def _sum_question(name: str, table_name: str) -> ExampleQuestion:
    return ExampleQuestion(f"the sum of {name}", f"SELECT SUM({quoted(name)}) AS total FROM {table_name}")


def _median_question(name: str, table_name: str) -> ExampleQuestion:
    return ExampleQuestion(f"the median of {name}", f"SELECT MEDIAN({quoted(name)}) AS middle FROM {table_name}")


def _count_by_decade_question(name: str, table_name: str) -> ExampleQuestion:
    decade = f"{quoted(name)} - {quoted(name)} % 10"
    sql = f"SELECT {decade} AS decade, COUNT(*) AS n FROM {table_name} GROUP BY {decade}"
    return ExampleQuestion(f"how many rows in each decade of {name}", sql)


def _count_by_month_question(name: str, table_name: str) -> ExampleQuestion:
    month = f"DATE_TRUNC('month', {quoted(name)})"
    sql = f"SELECT {month} AS month, COUNT(*) AS n FROM {table_name} GROUP BY {month}"
    return ExampleQuestion(f"how many rows in each month of {name}", sql)


def _filtered_count_question(name: str, domain: Domain, table_name: str) -> ExampleQuestion:
    value = _first_value_sql(domain)
    sql = f"SELECT COUNT(*) AS n FROM {table_name} WHERE {quoted(name)} = {value}"
    return ExampleQuestion(f"how many rows have this {name}", sql)


def _discovered_groups_question(name: str, table_name: str) -> ExampleQuestion:
    key = quoted(name)
    sql = f"SELECT {key}, COUNT(*) AS n FROM {table_name} GROUP BY {key}"
    return ExampleQuestion(f"how many rows for each {name} that is frequent enough to show", sql, DEFAULT_DELTA)


def _first_value_sql(domain: Domain) -> str:
    if domain.type is Type.BOOLEAN:
        return "TRUE"
    value = domain.values[0] if domain.values is not None else domain.bounds[0]  # type: ignore[index]
    return f"{domain.type.value.upper()} " * domain.type.temporal + literal_sql(value, domain.type)


def _declared_group_count(domain: Domain) -> int:
    """Count the declared groups of a column; 0 where they are not listed."""
    if domain.values is not None:
        return len(domain.values)
    if domain.type is Type.BOOLEAN:
        return 2
    if domain.type is Type.INTEGER and domain.bounds is not None:
        low, high = domain.bounds
        return int(high) - int(low) + 1  # type: ignore[arg-type]
    return 0


def _is_summable(domain: Domain) -> bool:
    """Return whether a column holds numbers to sum: bounded, and not a list of codes."""
    return domain.type.numeric and domain.bounds is not None and domain.values is None


def _holds_calendar_years(name: str, domain: Domain) -> bool:
    """Return whether a column holds years, by its name or its bounds: nobody sums these."""
    if domain.type is not Type.INTEGER or domain.bounds is None:
        return False
    low, high = domain.bounds
    is_year_range = _YEARS[0] <= low <= high <= _YEARS[1]  # type: ignore[operator]
    return is_year_range and ("year" in name.lower() or _YEARS[0] + 500 <= low)  # type: ignore[operator]


def _has_listable_months(domain: Domain) -> bool:
    """Return whether the months of a date column can be listed."""
    if not domain.type.temporal or domain.bounds is None:
        return False
    low, high = domain.bounds
    assert isinstance(low, dt.date)
    assert isinstance(high, dt.date)
    return 12 * (high.year - low.year) + high.month - low.month < _MAX_GROUPS * 12


def domain_words(domain: Domain) -> str:
    """Describe a column's domain, and what happens to values outside it."""
    type_text = domain.type.value
    if domain.values is not None:
        type_text += f": {_format_values(domain.values)}"
    elif domain.bounds is not None:
        type_text += " from {} to {}".format(*map(_format_value, domain.bounds))
    details = [
        "" if domain.grid is None else f"in steps of {format_exact(domain.grid)}",
        "" if domain.max_length is None else f"shortened to {count_with_noun(domain.max_length, 'letter')}",
        "" if domain.other is None else f"any other value counts as {_format_value(domain.other)}",
        "NULL is a group of its own" if domain.nullable else "",
    ]
    return "; ".join([type_text, *filter(None, details)])


def _format_values(values: tuple[object, ...]) -> str:
    """Format as many values as fit on a line, and the number of the others."""
    texts = [_format_value(value) for value in values[:_MAX_VALUES_WIDTH]]
    while len(", ".join(texts)) > _MAX_VALUES_WIDTH and len(texts) > 1:
        texts.pop()
    more = len(values) - len(texts)
    return ", ".join(texts) + (f" and {more:,} more" if more else "")


def _format_value(value: object) -> str:
    words = format_exact(value) if isinstance(value, Fraction) else escape_unprintable(str(value))
    return words if len(words) <= _MAX_VALUES_WIDTH // 2 else words[: _MAX_VALUES_WIDTH // 2 - 1] + "…"
