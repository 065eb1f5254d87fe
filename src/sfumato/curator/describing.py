"""Descriptions say what there is to ask, in words, from the policy alone, with questions that can be copied.

No row, file or statistic of a private table is looked at: what stands here is what the owner wrote down.

A policy alone is asked what questions would cost: over empty tables, with an account that nobody has spent from.

Prices and errors follow from the policy, so they are what the curator of the data would tell; and since no source is
opened, nothing about anybody can be in them.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from sfumato.curator.context import Context
from sfumato.curator.described_tables import Suggestion, TableDescription, Tables
from sfumato.curator.policy_account import PathOrText, read_policy
from sfumato.curator.previews.forecasts import Width
from sfumato.curator.proposals.questions import SMALL_DELTA, Question
from sfumato.engine.carried_tables import without_data
from sfumato.engine.opening import open_engine
from sfumato.errors import SfumatoError
from sfumato.ledger import Ledger
from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.sql.statements import parse
from sfumato.plan.words import literal_words, many
from sfumato.plan.written_names import quoted
from sfumato.policy import Domain, Policy, Type
from sfumato.policy.codings import cell_words
from sfumato.privacy.numbers import text
from sfumato.release.answers.receipts import for_life
from sfumato.release.releasing import quietly
from sfumato.untrusted import printable


@dataclass(frozen=True)
class PolicyAlone:
    """This understands questions to a policy, whose prices and errors can be asked for; a release is of no data."""

    context: Context
    catalog: Catalog

    def question(self, text: str) -> Question:
        """Understand a question in SQL."""
        query = parse(text, self.catalog)
        return Question(self.context, text, query, query.plan.limits)


@contextmanager
def policy_alone(policy: Policy) -> Iterator[PolicyAlone]:
    """Open a policy without opening its sources or its ledger."""
    empty = without_data(policy)
    engine = open_engine(empty)
    try:
        with tempfile.TemporaryDirectory(prefix="sfumato-") as folder, Ledger.open(Path(folder) / "empty") as ledger:
            name, budget, per = policy.account_name, empty.account_budget, empty.per or ""
            account = ledger.account(name, unit=empty.unit, budget=budget, per=per)
            yield PolicyAlone(Context(empty, engine, account, quietly, "no version"), engine.catalog())
    finally:
        engine.close()


_LONGEST = 60
"""Letters that the values of one column may take on a line."""
_FEW = 50
"""Groups that a question to copy may have."""
_YEARS = (1000, 2200)
"""Whole numbers between these may be years."""

Ask = Callable[[str], Question]
"""What understands a question in SQL."""


def describe(policy: Policy, catalog: Catalog, ask: Ask | None = None) -> Tables:
    """Describe all tables of a policy; with ``ask``, every question to copy is told its error, and none that is refused
    is left.
    """
    tables = {name: _described(policy, each, ask) for name, each in catalog.tables.items()}
    hidden = {name: _unread(name) for name in policy.tables if name not in tables}
    return Tables(_heading(policy), tables | hidden)


def describe_policy(policy: Policy | PathOrText) -> Tables:
    """Describe a policy without opening its data: every question to copy is told its error, from the policy alone."""
    declared = read_policy(policy)
    with policy_alone(declared) as alone:
        return describe(declared, alone.catalog, alone.question)


def _heading(policy: Policy) -> str:
    return f"{policy.account_name} protects {policy.unit}, {policy.neighbours.value} neighbours: {for_life(policy)}"


def _unread(name: str) -> TableDescription:
    """Describe a public table whose columns only its rows tell."""
    return TableDescription(name, "public; all its columns can be joined: DESCRIBE lists them", {}, ())


def _described(policy: Policy, table: Described, ask: Ask | None) -> TableDescription:
    if table.public:
        declared = {name: domain_words(each) for name, each in table.columns.items()}
        return TableDescription(
            table.name, "public; its columns can be joined to those of private tables", declared, ()
        )
    tried = [each if ask is None else _forecast(each, ask) for each in suggestions(policy, table)]
    return TableDescription(table.name, _whose(policy, table), _columns(policy, table), tuple(filter(None, tried)))


def _whose(policy: Policy, table: Described) -> str:
    unit = policy.unit.name
    if table.every_row:
        return f"private; every row is one {unit}"
    limits = table.limits
    within = "" if table.period is None else f" in one {table.period.every}"
    counted = (
        f"private; of one {unit}{within} at most {many(limits.rows, 'row')} count{'s' if limits.rows == 1 else ''}"
    )
    counted += f", in at most {many(limits.groups, 'group')}" if limits.groups < limits.rows else ""
    return f"{counted}; what one {unit} has beyond is left out, and no range tells how much that is"


def _columns(policy: Policy, table: Described) -> dict[str, str]:
    found = {}
    if table.id is not None:
        counted = f": COUNT(DISTINCT {quoted(table.id)}) counts each {policy.unit.name} once"
        found[table.id] = "says whose a row is" + (counted if table.period is None else "")
    for name, domain in table.columns.items():
        cells = cell_words(table.codings.get(name))
        found[name] = "; ".join([domain_words(domain), *cells, *_uses(domain, grouped=bool(policy.budget.delta))])
    for name, each in table.lists.items():
        found[name] = f"list of at most {many(each.most_items, 'item')}, for UNNEST: {domain_words(each.items)}"
    return found


def _uses(domain: Domain, *, grouped: bool) -> Iterator[str]:
    """Return what a column is good for, where that is not plain: what stands in the way of it."""
    if domain.type is Type.TEXT and domain.values is None:
        yield (
            "to group by it takes a δ, since its values are not listed"
            if grouped
            else "it cannot be grouped by: its values are not listed, and this account has no δ to find them with"
        )
    elif domain.type.numeric and domain.range is None:
        yield "it has no bounds, so write LEAST(GREATEST(…, low), high) to add it up"


def _forecast(asked: Suggestion, ask: Ask) -> Suggestion | None:
    """Assign a question to copy with its error, or nothing where the policy does not allow it."""
    try:
        found = ask(asked.sql).error(epsilon=1, delta=asked.delta)
    except SfumatoError:
        return None
    error = "; ".join(replace(found, columns=_typical(found.columns)).parts())
    return replace(asked, error=error, price=found.price)


def _typical(columns: Mapping[str, Width]) -> dict[str, Width]:
    """Keep one group size, the middle one, where a half-width depends on it."""
    sized = {name: sorted(each)[len(each) // 2] for name, each in columns.items() if isinstance(each, Mapping)}
    return {
        name: {sized[name]: each[sized[name]]} if isinstance(each, Mapping) else each for name, each in columns.items()
    }


def suggestions(policy: Policy, table: Described) -> tuple[Suggestion, ...]:
    """Write questions that this policy answers: each by what its columns are declared to hold."""
    of = quoted(table.name)
    if policy.per is not None and not _ends(policy, table):
        return (_one_month(table, of),)
    few = [name for name, domain in table.columns.items() if 1 < _groups(domain) <= _FEW]
    keys = sorted(few, key=lambda name: table.columns[name].type.numeric)  # codes that are words read best
    measured = [name for name, domain in table.columns.items() if name not in few and _measured(domain)]
    years = [name for name in measured if _of_years(name, table.columns[name])]
    numbers = [name for name in measured if name not in years]
    dates = [name for name, domain in table.columns.items() if _spanned(domain)]
    texts = [name for name, domain in table.columns.items() if domain.type is Type.TEXT and domain.values is None]
    return (
        Suggestion("how many rows there are", f"SELECT COUNT(*) AS n FROM {of}"),
        *(_units(policy, table, of) if table.id is not None and table.period is None else ()),
        *(_by(name, of) for name in keys[:1]),
        *(_average(name, keys, of) for name in numbers[:1]),
        *(_total(name, of) for name in numbers[:1]),
        *(_median(name, of) for name in (*numbers, *years)[:1]),
        *(_decades(name, of) for name in years[:1]),
        *(_monthly(name, of) for name in dates[:1]),
        *(_where(name, table.columns[name], of) for name in keys[:1]),
        *(_found(name, of) for name in texts[:1] if policy.budget.delta >= SMALL_DELTA),
    )


def _ends(policy: Policy, table: Described) -> bool:
    """Return whether the accounts of a table can be listed: its periods have bounds."""
    column = policy.period_column(table.name)
    return column is None or table.columns[column].bounds is not None


def _one_month(table: Described, of: str) -> Suggestion:
    """Write a question to a table whose periods have no end: it names those that it reads."""
    assert table.period is not None
    day = quoted(table.period.column)
    month = f"{day} >= DATE '2024-01-01' AND {day} < DATE '2024-02-01'"
    return Suggestion("how many rows there are in one month", f"SELECT COUNT(*) AS n FROM {of} WHERE {month}")


def _units(policy: Policy, table: Described, of: str) -> Iterator[Suggestion]:
    sql = f"SELECT COUNT(DISTINCT {quoted(str(table.id))}) AS n FROM {of}"
    yield Suggestion(f"of how many units ({policy.unit.name}) there are rows", sql)


def _by(name: str, of: str) -> Suggestion:
    key = quoted(name)
    return Suggestion(f"how many rows for each {name}", f"SELECT {key}, COUNT(*) AS n FROM {of} GROUP BY {key}")


def _average(name: str, keys: list[str], of: str) -> Suggestion:
    by = quoted(keys[0]) if keys else ""
    sql = f"SELECT {by}, AVG({quoted(name)}) AS average FROM {of} GROUP BY {by}" if keys else ""
    told = f"the average {name}" + (f" for each {keys[0]}" if keys else "")
    return Suggestion(told, sql or f"SELECT AVG({quoted(name)}) AS average FROM {of}")


def _total(name: str, of: str) -> Suggestion:
    return Suggestion(f"the sum of {name}", f"SELECT SUM({quoted(name)}) AS total FROM {of}")


def _median(name: str, of: str) -> Suggestion:
    return Suggestion(f"the median of {name}", f"SELECT MEDIAN({quoted(name)}) AS middle FROM {of}")


def _decades(name: str, of: str) -> Suggestion:
    decade = f"{quoted(name)} - {quoted(name)} % 10"
    sql = f"SELECT {decade} AS decade, COUNT(*) AS n FROM {of} GROUP BY {decade}"
    return Suggestion(f"how many rows in each decade of {name}", sql)


def _monthly(name: str, of: str) -> Suggestion:
    month = f"DATE_TRUNC('month', {quoted(name)})"
    sql = f"SELECT {month} AS month, COUNT(*) AS n FROM {of} GROUP BY {month}"
    return Suggestion(f"how many rows in each month of {name}", sql)


def _where(name: str, domain: Domain, of: str) -> Suggestion:
    value = _first(domain)
    sql = f"SELECT COUNT(*) AS n FROM {of} WHERE {quoted(name)} = {value}"
    return Suggestion(f"how many rows have this {name}", sql)


def _found(name: str, of: str) -> Suggestion:
    key = quoted(name)
    sql = f"SELECT {key}, COUNT(*) AS n FROM {of} GROUP BY {key}"
    return Suggestion(f"how many rows for each {name} that is frequent enough to show", sql, SMALL_DELTA)


def _first(domain: Domain) -> str:
    if domain.type is Type.BOOLEAN:
        return "TRUE"
    value = domain.values[0] if domain.values is not None else domain.bounds[0]  # type: ignore[index]
    return f"{domain.type.value.upper()} " * domain.type.temporal + literal_words(value, domain.type)


def _groups(domain: Domain) -> int:
    """Count what a column can be grouped by, from what is declared; 0 where that is not listed."""
    if domain.values is not None:
        return len(domain.values)
    if domain.type is Type.BOOLEAN:
        return 2
    if domain.type is Type.INTEGER and domain.bounds is not None:
        low, high = domain.bounds
        return int(high) - int(low) + 1  # type: ignore[arg-type]
    return 0


def _measured(domain: Domain) -> bool:
    """Return whether a column is one of numbers that people add up: with bounds, and no list of codes."""
    return domain.type.numeric and domain.bounds is not None and domain.values is None


def _of_years(name: str, domain: Domain) -> bool:
    """Return whether a column holds years, by its name or its bounds: nobody adds these up."""
    if domain.type is not Type.INTEGER or domain.bounds is None:
        return False
    low, high = domain.bounds
    dated = _YEARS[0] <= low <= high <= _YEARS[1]  # type: ignore[operator]
    return dated and ("year" in name.lower() or _YEARS[0] + 500 <= low)  # type: ignore[operator]


def _spanned(domain: Domain) -> bool:
    """Return whether the months of a column of dates can be listed."""
    if not domain.type.temporal or domain.bounds is None:
        return False
    low, high = domain.bounds
    assert isinstance(low, dt.date)
    assert isinstance(high, dt.date)
    return 12 * (high.year - low.year) + high.month - low.month < _FEW * 12


def domain_words(domain: Domain) -> str:
    """Describe what may be in a column, and what happens to anything else."""
    kind = domain.type.value
    if domain.values is not None:
        kind += f": {_listed(domain.values)}"
    elif domain.bounds is not None:
        kind += " from {} to {}".format(*map(_value, domain.bounds))
    parts = [
        "" if domain.grid is None else f"in steps of {text(domain.grid)}",
        "" if domain.max_length is None else f"cut at {many(domain.max_length, 'letter')}",
        "" if domain.other is None else f"anything else counts as {_value(domain.other)}",
        "a missing value is a group of its own" if domain.nullable else "",
    ]
    return "; ".join([kind, *filter(None, parts)])


def _listed(values: tuple[object, ...]) -> str:
    """Name as many values as fit on a line, and say how many more there are."""
    words = [_value(each) for each in values[:_LONGEST]]
    while len(", ".join(words)) > _LONGEST and len(words) > 1:
        words.pop()
    more = len(values) - len(words)
    return ", ".join(words) + (f" and {more:,} more" if more else "")


def _value(value: object) -> str:
    words = text(value) if isinstance(value, Fraction) else printable(str(value))
    return words if len(words) <= _LONGEST // 2 else words[: _LONGEST // 2 - 1] + "…"
