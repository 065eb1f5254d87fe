"""Queries for auditing one policy: templates of every kind, and random queries from the supported SQL grammar.

Templates cover every kind of aggregate, key, condition and join that the policy's columns allow at least once, and
expressions that are undefined for some values, such as a division by zero: an error must not depend on the rows.

A random query is about one private table, a join, or aggregates per unit. It has one to three aggregates of columns or
expressions, possibly with FILTER, and may have conditions, keys, HAVING and LIMIT, tighter limits per unit, another
bounding strategy, and Gaussian noise. Some are refused; then the refusals are compared. A seed determines the queries,
so a finding can be reproduced; it determines nothing else, and no noise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import count
from typing import Any, TypeVar

from sfumato.curator import Curator
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.descriptions import literal_sql
from sfumato.plan.limits import Strategy
from sfumato.plan.quoting import quoted
from sfumato.policy import Domain, Type
from sfumato.quick_dataclass import dataclass

_MAX_TEMPLATE_GROUPS = 400
"""The most groups of a template."""


def query_templates(catalog: Catalog) -> tuple[str, ...]:
    """Return queries about every private table, simple ones first."""
    private = [table for table in catalog.tables.values() if not table.public]
    queries = [text for table in private for text in _table_templates(table)]
    queries += [text for table in private for text in _join_templates(table, catalog.tables)]
    queries += [text for table in private for text in _undefined_templates(table)]
    return tuple(dict.fromkeys(queries))


def _table_templates(table: CatalogTable) -> Iterator[str]:
    table_name, columns = quoted(table.name), table.columns
    numbers = [quoted(name) for name, domain in columns.items() if domain.type.numeric and domain.range is not None]
    key_columns = sorted(
        (name for name, domain in columns.items() if 1 < count_declared_values(domain) <= _MAX_TEMPLATE_GROUPS),
        key=lambda name: count_declared_values(columns[name]),
    )
    keys = [quoted(name) for name in key_columns]
    dates = [quoted(name) for name, domain in columns.items() if domain.type.temporal and domain.bounds is not None]
    yield f"SELECT COUNT(*) AS n FROM {table_name}"
    if table.id is not None and table.period is None:
        yield f"SELECT COUNT(DISTINCT {quoted(table.id)}) AS units FROM {table_name}"
    for key in keys[:3]:
        yield f"SELECT {key}, COUNT(*) AS n FROM {table_name} GROUP BY {key}"
    for number in numbers[:3]:
        yield f"SELECT SUM({number}) AS total FROM {table_name}"
    for number in numbers[:2]:
        yield f"SELECT AVG({number}) AS average, COUNT({number}) AS known FROM {table_name}"
        yield f"SELECT MEDIAN({number}) AS middle FROM {table_name}"
        yield f"SELECT STDDEV({number}) AS spread FROM {table_name}"
    yield from _group_templates(table_name, keys, numbers, dates)
    yield from _filter_templates(table_name, columns, keys, numbers)
    for name, domain in columns.items():
        if domain.type is Type.TEXT and domain.values is None:
            yield f"SELECT {quoted(name)}, COUNT(*) AS n FROM {table_name} GROUP BY {quoted(name)}"
    for name in table.lists:
        yield f"SELECT item, COUNT(*) AS n FROM {table_name}, UNNEST({quoted(name)}) AS t(item) GROUP BY item"


def typed_literal_sql(value: Any, sql_type: Type) -> str:
    """Return a value as a SQL literal, with its type keyword for dates and timestamps."""
    text = literal_sql(value, sql_type)
    return f"{sql_type.value.upper()} {text}" if sql_type.temporal else text


def count_declared_values(domain: Domain) -> int:
    """Return the number of groups by a column; 0 if its values are not enumerable."""
    if domain.values is not None:
        return len(domain.values)
    if domain.type is Type.BOOLEAN:
        return 2
    if domain.bounds is None or domain.type in (Type.REAL, Type.TIMESTAMP):
        return 0
    bounds: tuple[Any, Any] = domain.bounds
    length = bounds[1] - bounds[0]
    return int(length.days if domain.type is Type.DATE else length) + 1


def _group_templates(table_name: str, keys: list[str], numbers: list[str], dates: list[str]) -> Iterator[str]:
    """Yield queries with one key and a number, two keys, months, subtotals, HAVING and LIMIT."""
    for key in keys[:1]:
        yield f"SELECT {key}, COUNT(DISTINCT {keys[-1]}) AS different FROM {table_name} GROUP BY {key}"
        yield f"SELECT MODE({key}) AS usual FROM {table_name}"
        by_key = f"SELECT {key}, COUNT(*) AS n FROM {table_name} GROUP BY {key}"
        yield f"{by_key} HAVING COUNT(*) > 1 ORDER BY n DESC LIMIT 2"
        yield f"SELECT {key}, COUNT(*) AS n FROM {table_name} GROUP BY ROLLUP ({key})"
        for number in numbers[:1]:
            yield f"SELECT {key}, SUM({number}) AS total, COUNT(*) AS n FROM {table_name} GROUP BY {key}"
            yield f"SELECT {key}, AVG({number}) AS average FROM {table_name} GROUP BY {key}"
    if len(keys) > 1:
        yield f"SELECT {keys[0]}, {keys[1]}, COUNT(*) AS n FROM {table_name} GROUP BY {keys[0]}, {keys[1]}"
    for date in dates[:1]:
        yield f"SELECT DATE_TRUNC('month', {date}) AS month, COUNT(*) AS n FROM {table_name} GROUP BY 1"


def _filter_templates(
    table_name: str, columns: Mapping[str, Domain], keys: list[str], numbers: list[str]
) -> Iterator[str]:
    """Yield queries with WHERE and FILTER conditions, NULL tests and correlations."""
    for name, domain in columns.items():
        if domain.values is not None:
            value = typed_literal_sql(domain.values[0], domain.type)
            yield f"SELECT COUNT(*) AS n FROM {table_name} WHERE {quoted(name)} = {value}"
            yield f"SELECT COUNT(*) FILTER (WHERE {quoted(name)} = {value}) AS some, COUNT(*) AS n FROM {table_name}"
            break
    for number in numbers[:1]:
        yield f"SELECT COUNT(*) AS n FROM {table_name} WHERE {number} IS NULL"
        yield f"SELECT SUM(CASE WHEN {number} > 0 THEN {number} END) AS total FROM {table_name} WHERE {number} <> 1"
    if len(numbers) > 1:
        yield f"SELECT CORR({numbers[0]}, {numbers[1]}) AS together FROM {table_name}"
    for key in keys[:1]:
        yield f"SELECT COUNT(*) AS n FROM (SELECT {key} AS k FROM {table_name}) AS t WHERE k IS NOT NULL"


def _join_templates(table: CatalogTable, tables: Mapping[str, CatalogTable]) -> Iterator[str]:
    """Join public tables by a shared column name, and private ones by the unit's id."""
    table_name = quoted(table.name)
    for name, other in tables.items():
        shared = [column for column in table.columns if column in other.columns]
        if other.public and shared:
            yield f"SELECT COUNT(*) AS n FROM {table_name} JOIN {quoted(name)} USING ({quoted(shared[0])})"
        if not other.public and name != table.name and table.id == other.id and table.via is None and other.via is None:
            yield f"SELECT COUNT(*) AS n FROM {table_name} JOIN {quoted(name)} USING ({quoted(str(table.id))})"


def _undefined_templates(table: CatalogTable) -> Iterator[str]:
    """Yield queries with expressions undefined for some rows, and queries that are refused."""
    table_name = quoted(table.name)
    for name, domain in table.columns.items():
        if domain.type.numeric and domain.range is not None:
            number, (low, _) = quoted(name), domain.range
            low_literal = literal_sql(low, domain.type)
            for expression in (
                f"1 / ({number} - {low_literal})",
                f"SQRT({low_literal} - {number})",
                f"LN({number} - {low_literal})",
            ):
                yield f"SELECT SUM(LEAST(GREATEST({expression}, -9), 9)) AS total FROM {table_name}"
            break
    for name, domain in table.columns.items():
        if domain.type is Type.TEXT:
            yield f"SELECT COUNT(*) AS n FROM {table_name} WHERE CAST({quoted(name)} AS INTEGER) = 1"
            break
    yield f"SELECT * FROM {table_name}"
    yield f"SELECT COUNT(*) AS n FROM {table_name} WHERE nobody_declared_this = 1"
    yield f"SELECT MAX(*) FROM {table_name}"


def read_questions(source: Any) -> tuple[str, ...]:
    """Read the owner's queries from a .sql file or from texts."""
    from pathlib import Path

    from sfumato.errors import SfumatoError
    from sfumato.plan.sql.text import split_questions

    if source is None:
        return ()
    if isinstance(source, (str, Path)):
        try:
            sql = Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise SfumatoError(
                "the file of questions cannot be read", place=str(source), fix="pass the path of a .sql file in UTF-8"
            ) from None
        return tuple(entry.text for entry in split_questions(sql))
    return tuple(str(text) for text in source)


T = TypeVar("T")
_MAX_KEY_GROUPS = 50
"""The most groups of a random key."""
_COLUMN_TESTS: Mapping[str, Callable[[Domain], bool]] = {
    "numbers": lambda domain: domain.type.numeric and domain.range is not None,
    "keys": lambda domain: 1 < count_declared_values(domain) <= _MAX_KEY_GROUPS,
    "dates": lambda domain: domain.type.temporal and domain.bounds is not None,
}
"""Which columns can be numbers, keys or dates in a query."""


@dataclass(frozen=True)
class RandomQuestion:
    """A random query, which can be put to any curator."""

    text: str
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of ``limit``, if they differ from the policy's."""
    gaussian: bool = False
    """Whether it is also released with Gaussian noise."""

    def __call__(self, curator: Curator) -> Any:
        question: Any = curator.sql(self.text)
        return question.limit(**self.limits) if self.limits else question

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={limit!r}" for name, limit in self.limits.items())
        return f"{self.text} .limit({arguments})" if arguments else self.text


def random_questions(catalog: Catalog, seed: int) -> Iterator[RandomQuestion]:
    """Yield distinct random queries; stops once 1,000 draws in a row repeat earlier ones."""
    choices, drawn_before, repeats = _SeededChoices(seed), set[str](), 0
    private = [table for table in catalog.tables.values() if not table.public]
    while private and repeats < 1000:
        question = _RandomQueryWriter(choices, choices.choose_one(private), catalog.tables).draw_question()
        repeats = repeats + 1 if str(question) in drawn_before else 0
        if not repeats:
            drawn_before.add(str(question))
            yield question


class _SeededChoices:
    """Choices by hashes of a seed and a counter, equal on every machine; no noise depends on them."""

    def __init__(self, seed: int) -> None:
        self._seed, self._counter = seed, count()

    def integer_below(self, end: int) -> int:
        digest = hashlib.blake2b(f"{self._seed} {next(self._counter)}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % end

    def choose_one(self, options: Sequence[T]) -> T:
        return options[self.integer_below(len(options))]

    def happens(self, one_in: int) -> bool:
        """Return True with probability 1/``one_in``."""
        return self.integer_below(one_in) == 0


@dataclass(frozen=True)
class _RandomQueryWriter:
    """Writes random queries about one table."""

    dice: _SeededChoices
    table: CatalogTable
    tables: Mapping[str, CatalogTable]

    def draw_question(self) -> RandomQuestion:
        text = self._per_unit_query() if self._has_unit_id and self.dice.happens(6) else self._row_query()
        return RandomQuestion(text, self._draw_limits(), self.dice.happens(4))

    @property
    def _has_unit_id(self) -> bool:
        return self.table.id is not None and self.table.period is None

    def _columns_of(self, kind: str) -> list[str]:
        """Return the columns that can be numbers, keys or dates."""
        return [name for name, domain in self.table.columns.items() if _COLUMN_TESTS[kind](domain)]

    def _row_query(self) -> str:
        keys = [self._key_expression()] if self._columns_of("keys") and self.dice.happens(2) else []
        keys += [self._key_expression()] if keys and self.dice.happens(4) else []
        keys = list(dict.fromkeys(keys))
        select_list = [f"{key} AS k{index}" for index, key in enumerate(keys)]
        aggregate_count = 1 + self.dice.integer_below(3)
        select_list += [f"{self._aggregate_expression()} AS a{index}" for index in range(aggregate_count)]
        where = f" WHERE {self._condition(2)}" if self.dice.happens(2) else ""
        from_and_where = f"FROM {self._table_with_joins()}{where}"
        return f"SELECT {', '.join(select_list)} {from_and_where}{self._group_by_having_and_limit(keys)}"

    def _per_unit_query(self) -> str:
        """Return a query over one aggregate per unit."""
        table_name, unit = quoted(self.table.name), quoted(str(self.table.id))
        numbers = self._columns_of("numbers")
        inner = (
            f"{self.dice.choose_one(('SUM', 'MAX', 'MIN'))}({quoted(self.dice.choose_one(numbers))})"
            if numbers
            else "COUNT(*)"
        )
        inner = "COUNT(*)" if self.dice.happens(2) else inner
        inner_where = f" WHERE {self._condition(1)}" if self.dice.happens(3) else ""
        where = f" WHERE m > {self.dice.integer_below(3)}" if self.dice.happens(2) else ""
        outer = self.dice.choose_one(("COUNT(*)", "SUM(m)", "AVG(m)"))
        per_unit = f"SELECT {unit}, {inner} AS m FROM {table_name}{inner_where} GROUP BY {unit}"
        return f"SELECT {outer} AS a0 FROM ({per_unit}) AS t{where}"

    def _table_with_joins(self) -> str:
        table_name = quoted(self.table.name)
        clauses = [self._join_clause(other) for other in self.tables.values()] if self.dice.happens(4) else []
        joins = [clause for clause in clauses if clause]
        return f"{table_name} {self.dice.choose_one(joins)}" if joins else table_name

    def _join_clause(self, other: CatalogTable) -> str:
        """Join a public table by a shared column, or a private one by the unit's id; empty if neither is possible."""
        shared = [column for column in self.table.columns if column in other.columns]
        if other.public and shared:
            return f"JOIN {quoted(other.name)} USING ({quoted(self.dice.choose_one(shared))})"
        same_unit = self.table.via is None and other.via is None and self._has_unit_id and other.id == self.table.id
        if same_unit and other.name != self.table.name:
            return f"JOIN {quoted(other.name)} USING ({quoted(str(self.table.id))})"
        return ""

    def _group_by_having_and_limit(self, keys: list[str]) -> str:
        if not keys:
            return ""
        key_list = ", ".join(f"k{index}" for index in range(len(keys)))
        group_by = f" GROUP BY ROLLUP ({key_list})" if self.dice.happens(8) else f" GROUP BY {key_list}"
        having = f" HAVING COUNT(*) > {self.dice.integer_below(3)}" if self.dice.happens(6) else ""
        return f"{group_by}{having}{' ORDER BY a0 DESC LIMIT 2' if self.dice.happens(6) else ''}"

    def _key_expression(self) -> str:
        """Return a key: a column of few values, a condition, or the month of a date."""
        dates = self._columns_of("dates")
        if dates and self.dice.happens(5):
            return f"DATE_TRUNC('month', {quoted(self.dice.choose_one(dates))})"
        if self.dice.happens(5):
            return f"CASE WHEN {self._condition(1)} THEN 'yes' ELSE 'no' END"
        return quoted(self.dice.choose_one(self._columns_of("keys")))

    def _aggregate_expression(self) -> str:
        filter_clause = f" FILTER (WHERE {self._condition(1)})" if self.dice.happens(5) else ""
        choices = ["COUNT(*)"]
        if self._has_unit_id:
            choices.append(f"COUNT(DISTINCT {quoted(str(self.table.id))})")
        if self._columns_of("keys"):
            key = quoted(self.dice.choose_one(self._columns_of("keys")))
            choices += [f"COUNT(DISTINCT {key})", f"MODE({key})"]
        if numbers := self._columns_of("numbers"):
            value, column = self._number_expression(2), quoted(self.dice.choose_one(numbers))
            choices += [f"{function}({value})" for function in ("SUM", "SUM", "AVG", "AVG", "COUNT", "STDDEV", "MAX")]
            choices += [f"MEDIAN({column})", f"QUANTILE_CONT({column}, 0.9)"]
        return f"{self.dice.choose_one(choices)}{filter_clause}"

    def _number_expression(self, depth: int) -> str:
        """Return an expression of bounded columns: its range follows from theirs."""
        column = quoted(self.dice.choose_one(self._columns_of("numbers")))
        if not depth or self.dice.happens(2):
            return column
        inner, constants = self._number_expression(depth - 1), (0, 1, 2, 10)
        forms: tuple[Callable[[], str], ...] = (
            lambda: f"({inner} + {self._number_expression(depth - 1)})",
            lambda: f"({inner} - {self.dice.choose_one(constants)})",
            lambda: f"({inner} * {self.dice.choose_one((2, 3))})",
            lambda: f"ABS({inner})",
            lambda: f"COALESCE({inner}, {self.dice.choose_one(constants)})",
            lambda: f"LEAST(GREATEST({inner}, {self.dice.choose_one(constants)}), 10)",
            lambda: f"CASE WHEN {self._condition(0)} THEN {inner} ELSE {self.dice.choose_one(constants)} END",
            lambda: f"LEAST(GREATEST(1 / NULLIF({inner}, 0), -9), 9)",
        )
        return self.dice.choose_one(forms)()

    def _condition(self, depth: int) -> str:
        if depth and self.dice.happens(3):
            first, second = self._condition(depth - 1), self._condition(depth - 1)
            return self.dice.choose_one((f"({first} AND {second})", f"({first} OR {second})", f"NOT ({first})"))
        tests = [self._column_test(name, domain) for name, domain in self.table.columns.items()]
        return self.dice.choose_one(tests) if tests else "1 = 1"

    def _column_test(self, name: str, domain: Domain) -> str:
        """Return a test of one column."""
        column = quoted(name)
        if self.dice.happens(4):
            return f"{column} IS {self.dice.choose_one(('NULL', 'NOT NULL'))}"
        if domain.values is not None:
            operator = self.dice.choose_one(("=", "<>"))
            return f"{column} {operator} {typed_literal_sql(self.dice.choose_one(domain.values), domain.type)}"
        if domain.bounds is not None:
            end = typed_literal_sql(self.dice.choose_one(domain.bounds), domain.type)
            return f"{column} {self.dice.choose_one(('<', '<=', '=', '>=', '>'))} {end}"
        return f"{column} = 'a'" if domain.type is Type.TEXT else f"{column} IS NOT NULL"

    def _draw_limits(self) -> dict[str, Any]:
        """Draw limits per unit and a bounding strategy; mostly the policy's own."""
        if self.table.every_row or not self.dice.happens(3):
            return {}
        limits: dict[str, Any] = {"rows": 1 + self.dice.integer_below(self.table.limits.rows)}
        if self.dice.happens(2):
            limits["strategy"] = self.dice.choose_one(
                [strategy.value for strategy in Strategy if strategy.is_selectable]
            )
        return limits
