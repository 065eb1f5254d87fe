"""The same readings on DuckDB and on Spark: many plans are added up in one Spark job, and compared as whole numbers.

A Spark job costs seconds whatever it reads, most of it for planning and for code. So the rows of many statements are
put one below the other, each as its number and the texts of its cells, and read back as what they are.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow.parquet

from engines.spark.conftest import Cluster
from safety import worlds
from safety.found import reading as found_reading, rows
from safety.strange_rows import found_question
from safety.tree_questions import tree
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.lowering.reading_statements import arrays_from_rows, server_key_types, server_statement
from sfumato.engine.spark.driver import Spark
from sfumato.errors import Unsupported
from sfumato.plan.bounding import bound_for_discovery, candidate_bounded_plans
from sfumato.plan.readings.total_readings import DiscoveredTotals, GroupTotals, PlanReading
from sfumato.plan.sharing import with_requests_as_measures
from sfumato.policy import Policy, Type

FOUND = "found keys"
"""How readings are counted whose keys nobody declared, beside the strategies of others."""
Scan = Callable[[str], Any]
"""From a table's name to the frame of its clean rows."""
Given = Callable[[Path], dict[str, Any]]
"""From a Parquet file to what a table's source is, and what is said beside it."""


def in_frames(cluster: Cluster) -> Given:
    """A frame of classic Spark."""
    return lambda path: {"source": cluster.classic.read.parquet(str(path))}


def in_files(cluster: Cluster) -> Given:
    """Files, read over Connect."""
    return lambda path: {"source": cluster.address, "path": str(path), "format": "parquet"}


@dataclass(frozen=True)
class Asked:
    """One question about one policy, bounded in one way."""

    words: str
    reading: PlanReading[Any]
    inexact: bool
    """Whether functions are in it whose last digit engines may differ in."""


def on_spark(policy: Policy, folder: Path, given: Given) -> Spark:
    return Spark(kept_by_spark(policy, folder, given))


def kept_by_spark(policy: Policy, folder: Path, given: Given) -> Policy:
    """The same policy, with its private tables where Spark reads them."""
    tables = dict(policy.tables)
    for name, table in policy.tables.items():
        if not table.public:
            path = folder / f"{name}.parquet"
            pyarrow.parquet.write_table(table.source.table, path)
            tables[name] = replace(table, relation=None, **given(path))
    return replace(policy, tables=tables)


def of_found_keys(question: Asked) -> bool:
    return isinstance(question.reading, DiscoveredTotals)


def asked(engine: DuckDB, words: str) -> Iterator[Asked]:
    """A question in every bounding; nothing where its ranges or groups are refused."""
    try:
        question = worlds.question(engine, engine._policy, words)
        groups = question.groups
    except Unsupported:
        return
    totals = with_requests_as_measures(question.query.plan)
    inexact = any(each in words for each in ("EXP(", "LN(", "POW("))
    if question.discovered_keys:
        yield Asked(words, found_reading(question, bound_for_discovery(totals, question.limits)), inexact)
        return
    for bounded in candidate_bounded_plans(totals, question.limits, len(groups)):
        yield Asked(words, GroupTotals(bounded, tuple(groups)), inexact)


def compare(
    duckdb: DuckDB, spark: Spark, questions: Sequence[Asked], key: int, size: int = 40, scan: Scan | None = None
) -> Counter[str]:
    """How many were compared in each bounding: all of them, or this fails at the first that differs."""
    for start in range(0, len(questions), size):
        batch = questions[start : start + size]
        for question, found in zip(batch, totals(spark, [each.reading for each in batch], key, scan), strict=True):
            wanted = duckdb.read(question.reading, key)
            same = _same(question, wanted, found, _most_rows(duckdb._policy, question.words))
            assert same, (question.words, question.reading.bounded.strategy, wanted, found)
    return Counter(FOUND if of_found_keys(each) else each.reading.bounded.strategy.value for each in questions)


_QUICK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def quickly(spark: Spark) -> Scan:
    """Copies of the clean rows, made once as a snapshot makes them, for statements without code of their own.

    What a statement costs is its planning and its code, and most of the former is the planning of its scans.
    """
    copies = {name: spark.tables.copy(name) for name in spark.tables._sources}
    for name, value in _QUICK.items():
        spark.tables.session.spark.conf.set(name, value)
    return lambda table: copies.get(table) or spark._scan(table, unclamped={})


def _most_rows(policy: Policy, words: str) -> int:
    """How many rows a question adds up at most: those of the private tables, each beside all that it meets in the
    public tables of the question's text.
    """
    most = sum(table.source.table.num_rows for table in policy.tables.values() if not table.public)
    for name, table in policy.tables.items():
        if table.public and f"JOIN {name} " in f"{words} ":
            most *= max(Counter(table.source.table.column(0).to_pylist()).values(), default=1)
    return most


def _same(question: Asked, wanted: Any, found: Any, most: int) -> bool:
    """Equal; with a function whose last digit may differ, within one step of 2^bits for each row."""
    if isinstance(question.reading, DiscoveredTotals):
        declared = len(question.reading.declared_groups)
        return rows(wanted, declared) == rows(found, declared)
    if not question.inexact:
        return bool(np.array_equal(wanted, found))
    steps = sum(1 << max(0, each.bits) for each in question.reading.bounded.measures) * most
    return bool((np.abs(wanted.astype(object) - found.astype(object)) <= steps).all())


def totals(spark: Spark, readings: Sequence[PlanReading[Any]], key: int, scan: Scan | None = None) -> list[Any]:
    """What the readings give, computed by one job, of the clean rows or of copies of them."""
    expression, frames = spark.tables.session.expression, []
    for number, reading in enumerate(readings):
        statement = server_statement(reading, key)
        frame = spark._frame(statement, scan or (lambda table: spark._scan(table, unclamped={})))
        cells = ", ".join(f"CAST({name} AS STRING)" for name, _ in statement.result.columns)
        frames.append(frame.select(expression(f"{number} AS number"), expression(f"array({cells}) AS cells")))
    made: list[list[tuple[Any, ...]]] = [[] for _ in readings]
    for number, cells in spark.tables.run(lambda: reduce(lambda one, other: one.unionAll(other), frames)):
        kinds = server_key_types(readings[number])
        made[number].append(tuple(_read(cell, place, kinds) for place, cell in enumerate(cells)))
    return [arrays_from_rows(each, reading) for each, reading in zip(made, readings, strict=True)]


def _read(cell: str | None, place: int, kinds: Sequence[Type]) -> Any:
    if cell is None:
        return None
    return _READ[kinds[place]](cell) if place < len(kinds) else int(cell)


_READ: dict[Type, Callable[[str], Any]] = {
    Type.INTEGER: int,
    Type.REAL: float,
    Type.TEXT: str,
    Type.BOOLEAN: lambda cell: cell == "true",
    Type.DATE: dt.date.fromisoformat,
    Type.TIMESTAMP: dt.datetime.fromisoformat,
}


def world_questions(seed: int, plans: int, found: int = 0) -> tuple[worlds.World, list[str]]:
    """A population with hostile cells, and questions about its rows and about what is found of a unit's; after them so
    many with keys that nobody declared.
    """
    random = Random(seed)
    made = worlds.world(random)
    ask = (worlds.text, tree) if made.units else (worlds.text,)
    words = [random.choice(ask)(random, made) for _ in range(plans)]
    return made, words + [found_question(random, made) for _ in range(found)]
