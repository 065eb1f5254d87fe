"""A statement of the relational form becomes a Spark frame: SQL is written for its values, frames are put together.

A frame that somebody hands over has no name that a statement could select from, and giving it one would make a
temporary view in its session. So selects, joins and groups are those of the DataFrame interface, which classic Spark
and Connect share, and everything inside them is an expression that the one generator writes. A frame is a plan: nothing
is computed before its rows are collected.

The clean scan of a table is a frame: the declared columns as the policy says, and ``sf_unit``, whose row it is.

What is selected is what ``engine.clean_scans`` says for every server; here it becomes a frame over the
frames of the sources.

Public rows become frames: values of a plan, which are sent with each question that joins them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from sfumato.caching import cached_property
from sfumato.engine import proving
from sfumato.engine.carried_tables import Carried
from sfumato.engine.lowering.relational import (
    Apply,
    CleanTable,
    Exists,
    GroupTotal,
    IntegerSpan,
    Named,
    Reference,
    Relation,
    RelationalJoin,
    RelationalUnion,
    Scalar,
    Select,
    StagedSelect,
    ValueList,
)
from sfumato.engine.sources.clean_scans import CleanScan, CleanScans, InspectedCell, StoredTable
from sfumato.engine.spark.sessions import SparkConnection, quietly
from sfumato.engine.spark.sources import SparkCells, SparkSource
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.spark import TYPES, SparkSpelling, name
from sfumato.errors import InvalidPolicy
from sfumato.policy import Policy

Frame = Any
"""A DataFrame of either kind; pyspark is not imported to say so."""
Frames = Mapping[str, Frame]
_KEPT = "sf_kept"


@dataclass(frozen=True)
class FrameWriter:
    """A frame writer puts a statement together from the frames of clean scans."""

    scan: Callable[[str], Frame]
    """From a table's name to the frame of its clean rows."""
    expression: Callable[[str], Any]
    """From SQL to a column: ``expr`` of the kind of Spark that the frames are of."""

    def statement(self, statement: StagedSelect) -> Frame:
        """Give the frame of a whole statement, after those of the stages it names."""
        stages: dict[str, Frame] = {}
        for stage, select in statement.stages:
            stages[stage] = self.select(select, stages)
        return self.select(statement.result, stages)

    def select(self, select: Select, stages: Frames) -> Frame:
        frame = self._source(select.source, stages).alias(select.part)
        for join in select.joins:
            frame = self._joined(frame, join, stages)
        for test in select.where:
            frame = self._tested(frame, test, stages)
        if select.grouped or any(_totals(scalar) for _, scalar in select.columns):
            return self._grouped(frame, select)
        columns = [self._column(name, scalar) for name, scalar in select.columns]
        return frame.select(*([f"{select.part}.*"] if select.everything else []), *columns)

    def _source(self, source: Relation | Select, stages: Frames) -> Frame:
        match source:
            case Select():
                return self.select(source, stages)
            case CleanTable(name):
                return self.scan(name)
            case Named(name):
                return stages[name]
            case RelationalUnion(members):
                return reduce(lambda one, other: one.unionAll(other), (self.select(each, stages) for each in members))
            case ValueList() | IntegerSpan():  # a span is joined to rows (``_joined``)
                raise AssertionError("declared values are listed without a server")

    def _joined(self, frame: Frame, join: RelationalJoin, stages: Frames) -> Frame:
        if isinstance(join.relation, IntegerSpan):
            span = f"SELECT * FROM {Generator(SparkSpelling(), str).source(join.relation, join.part)}"
            return frame.crossJoin(frame.sparkSession.sql(span).alias(join.part))
        other = self._source(join.relation, stages).alias(join.part)
        if join.on is None:
            return frame.crossJoin(other)
        return frame.join(other, self._expression(join.on), "left" if join.outer else "inner")

    def _tested(self, frame: Frame, test: Scalar | Exists, stages: Frames) -> Frame:
        if not isinstance(test, Exists):
            return frame.filter(self._expression(test))
        other = self._source(test.relation, stages).alias(test.part)
        return frame.join(other, self._expression(test.on), "left_anti" if test.negated else "left_semi")

    def _grouped(self, frame: Frame, select: Select) -> Frame:
        """Group rows: a frame of groups has the keys first, then what is computed, under names that are no key's."""
        computed = [each for each in select.columns if _key(each[1], select) is None]
        made = [self._column(f"sf_{place}", scalar) for place, (_, scalar) in enumerate(computed)]
        kept = [] if select.having is None else [self._column(_KEPT, select.having)]
        # a frame without groups computes something, if nothing else is asked
        keys = [self._named(name) for name in select.grouped]
        groups = frame.groupBy(*keys).agg(*(made + kept or [self.expression("COUNT(*)").alias(_KEPT)]))
        if kept:
            groups = groups.filter(self._named(_KEPT))
        places = {name: f"sf_{place}" for place, (name, _) in enumerate(computed)}
        return groups.select(
            *(self._named(_key(scalar, select) or places[name]).alias(name) for name, scalar in select.columns)
        )

    def _named(self, name: str) -> Any:
        return self.expression(SparkSpelling().name(name))

    def _expression(self, scalar: Scalar) -> Any:
        return self.expression(Generator(SparkSpelling(), str).scalar(scalar))

    def _column(self, name: str, scalar: Scalar) -> Any:
        return self._expression(scalar).alias(name)


def _totals(scalar: Scalar) -> bool:
    """Tell whether a value is made from totals of a group."""
    return isinstance(scalar, GroupTotal) or (isinstance(scalar, Apply) and any(map(_totals, scalar.arguments)))


def _key(scalar: Scalar, select: Select) -> str | None:
    """Name the key that a column of a group is, if it is one as it stands."""
    return scalar.name if isinstance(scalar, Reference) and scalar.name in select.grouped else None


@dataclass(frozen=True)
class Scans:
    """This makes the clean scans of a policy's private tables."""

    policy: Policy
    sources: Mapping[str, SparkSource]
    expression: Callable[[str], Any]

    @cached_property
    def _clean(self) -> CleanScans:
        tables = {each: StoredTable(each, source.columns) for each, source in self.sources.items()}
        return CleanScans(self.policy, tables, SparkCells(), SparkSpelling())

    def scan(self, table: str) -> Frame:
        """Give the frame of a table's clean rows, each as often as it has owners."""
        return self._frame(self._clean.scan(table))

    def inspected(self, table: str) -> tuple[Frame, list[InspectedCell]]:
        """Give every row of a source once, beside ``k``: whether it is somebody's. For those who compare."""
        scan, cells = self._clean.inspected(table)
        return self._frame(scan), cells

    def _frame(self, scan: CleanScan) -> Frame:
        return FrameWriter(partial(self._cells, scan), self.expression).select(scan.select, {})

    def _cells(self, scan: CleanScan, table: str) -> Frame:
        cells = scan.cells.get(table) or {"1": "r0"}
        return self.sources[table].frame.select(*(self.expression(sql).alias(each) for sql, each in cells.items()))


_PROVED: set[tuple[str, str]] = set()
"""The Sparks whose new sessions were found to compute what spellings mean, each by its own id and its version."""


def carried(table: Carried, session: SparkConnection) -> Frame:
    """Make a frame of the clean rows of a public table."""
    columns = zip(table.names, table.kinds, strict=True)
    schema = ", ".join(f"{name(each)} {TYPES[kind]}" for each, kind in columns)
    rows = list(zip(*table.columns, strict=True))
    return quietly(lambda: session.spark.createDataFrame(rows, schema))


def prove(session: SparkConnection, place: str) -> None:
    """Refuse a Spark that computes something else than our spellings mean.

    A Spark that runs stays as it is, and so do all new sessions of it; a clone of a user's session is proved by itself.
    """
    known = str(quietly(lambda: session.spark.conf.get("spark.app.id"))), str(session.spark.version)
    if known in _PROVED and not session.cloned:
        return
    spelling = SparkSpelling()

    dialect = _dialect(session, spelling)
    proving.prove(dialect, place)
    for function in proving.wrong_letters(spelling, _scan, dialect.run):
        raise InvalidPolicy(
            f"this server computes {function} in another way than questions mean it",
            place=place,
            fix="read the tables with a Spark whose version and settings are known to work",
        )
    if not session.cloned:
        _PROVED.add(known)


def _dialect(session: SparkConnection, spelling: SparkSpelling) -> proving.Dialect:
    """Say how this Spark computes: rows from SQL, and whole statements from frames, as those of questions are."""

    def run(statement: str, _: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in quietly(lambda: session.spark.sql(statement).collect())]

    def compute(statement: StagedSelect, source: Callable[[str], str]) -> list[tuple[Any, ...]]:
        frames = FrameWriter(lambda table: session.spark.sql(f"SELECT * FROM {source(table)}"), session.expression)
        return [tuple(row) for row in quietly(lambda: frames.statement(statement).collect())]

    return proving.Dialect(spelling, _scan, run, "array({})", compute)


def _scan(table: Carried, _: list[object]) -> str:
    """Write rows as values, beside those of a range: Spark itself computes what depends on written values alone."""
    spelling = SparkSpelling()
    rows = (
        ", ".join(spelling.constant(value, kind) for value, kind in zip(row, table.kinds, strict=True))
        for row in zip(*table.columns, strict=True)
    )
    values = ", ".join(f"({row})" for row in rows)
    return f"(SELECT v.* FROM VALUES {values} AS v({', '.join(map(name, table.names))}) CROSS JOIN range(0, 1))"
