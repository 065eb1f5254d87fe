"""Every function on hostile values in every place: what engines are compared on, value by value."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import duckdb

from engine.lowered import TYPES, constant
from engine.lowering.test_row_lowering import ARGUMENTS, DOMAINS, HOSTILE, SLOTS, made, scanned
from sfumato.plan.values.expressions import Column, Expression, columns
from sfumato.plan.values.functions import FUNCTIONS, null_literal
from sfumato.policy import Domain, Type

NEAR = ("LN", "EXP", "POW")
"""Functions that libraries round in their own ways: within a step of a double."""
LETTERS = ["ΑΣ ας İıßẞ 😀", "  7 ", "2024-02-29", "TRUE", "1e-3", "\t5"]
Named = tuple[str, Expression]
"""A function's name, and one expression with it."""


def hostile_values(duck: duckdb.DuckDBPyConnection, domain: Domain) -> list[Any]:
    """The hostile values of a type as a scan gives them; dates outside the calendar are NULL."""
    kind, x = TYPES[domain.type], scanned(domain)
    if domain.type.temporal:
        ends = (dt.date.min, dt.date.max) if domain.type is Type.DATE else (dt.datetime.min, dt.datetime.max)
        low, high = (constant(each, domain.type) for each in ends)
        x = f"CASE WHEN {x} BETWEEN {low} AND {high} THEN {x} END"
    raw = [None if each is None else str(each) for each in HOSTILE[domain.type]]
    texts = "(SELECT unnest(?::VARCHAR[]) AS t)"
    duck.execute(f"CREATE OR REPLACE TABLE raw AS SELECT CAST(t AS {kind}) AS x FROM {texts}", [raw])
    more = LETTERS if domain == Domain("text") else []
    return [*(row[0] for row in duck.execute(f"SELECT {x} FROM raw").fetchall()), *more]


def hostile_columns(duck: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, Domain, list[Any]]]:
    """One column of hostile values each, in as many slots as a function has arguments, made on DuckDB as it is given:
    its table has its name.
    """
    for each, domain in DOMAINS.items():
        values = hostile_values(duck, domain)
        duck.execute(f"CREATE OR REPLACE TABLE raw (x {TYPES[domain.type]})")
        duck.executemany("INSERT INTO raw VALUES (?)", [[value] for value in values])
        for slot in range(SLOTS):
            column = f"{each}{slot}"
            duck.execute(f'CREATE TABLE "{column}" AS SELECT x AS "{column}" FROM raw')
            yield column, domain, values


def _expressions() -> dict[tuple[str, ...], list[Named]]:
    """Every function on columns and literals in every place, by the tables that it reads."""
    found: dict[tuple[str, ...], list[Named]] = defaultdict(list)
    for name in FUNCTIONS:
        for choices in ARGUMENTS[name]:
            missing = [[*each, null_literal()] if isinstance(each[0], str) else each for each in choices]
            for chosen in product(*missing):
                one = made(name, chosen)
                if one is not None:
                    found[tuple(one[1])].append((name, one[0]))
    return found


def batches(most_tables: int, share: int, size: int) -> Iterator[tuple[tuple[str, ...], list[Named]]]:
    """So many expressions at a time, with the tables that they read; of several tables one in so many."""
    for place, (tables, own) in enumerate(_expressions().items()):
        if len(tables) <= most_tables and (len(tables) <= 1 or place % share == 0):
            for at in range(0, len(own), size):
                yield tables, own[at : at + size]


def with_columns(part: Sequence[Named]) -> list[Expression]:
    """The expressions, and after them the columns that they read, by which rows are told apart."""
    read = dict.fromkeys(Column(each, domain) for _, node in part for each, domain in columns(node).items())
    return [*(node for _, node in part), *read]


def compared_rows(part: Sequence[Named], ours: Sequence[tuple[Any, ...]], theirs: Sequence[tuple[Any, ...]]) -> int:
    """How many values were compared, of rows in any order."""
    first, second = (sorted(each, key=lambda row: _order(row[len(part) :])) for each in (ours, theirs))
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        for index, (name, node) in enumerate(part):
            assert _same(one[index], other[index], near=name in NEAR), (name, node, one, other[index])
    return len(first) * len(part)


def _order(row: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(repr(0.0 if isinstance(each, float) and each == 0 else each) for each in row)


def _same(one: Any, other: Any, *, near: bool) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one):
            return math.isnan(other)
        return abs(one - other) <= 2 * math.ulp(one) if near else one == other
    return bool(one == other) and type(one) is type(other)
