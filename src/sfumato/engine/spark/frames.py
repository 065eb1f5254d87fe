"""Build Spark DataFrames from statements of the relational form: values are SQL expressions, the rest is DataFrame
calls.

A DataFrame that a user passes has no name that a statement could select from, and naming it would create a temporary
view in the user's session. So selects, joins and groups use the DataFrame interface, which classic Spark and Connect
share, and everything inside them is an expression written by the common generator. A DataFrame is a plan: nothing is
computed before its rows are collected.

The clean scan of a table is a DataFrame of the declared columns, cleaned as the policy says, and ``sf_unit``, the unit
of each row. What is selected is defined by ``engine.clean_scans`` for every server.

Public rows become DataFrames of literal values, which are sent with each query that joins them. So does the key of a
secret sample: event logs and web pages keep the text of plans, which shows literals but no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from sfumato.caching import cached_property
from sfumato.engine import self_test
from sfumato.engine.lowering.relational_form import (
    AnyOf,
    Apply,
    CleanTable,
    Exists,
    GroupTotal,
    IntegerSpan,
    Reference,
    Relation,
    RelationalJoin,
    RelationalUnion,
    Scalar,
    ScalarFunction,
    SecretConstant,
    Select,
    StagedSelect,
    StageReference,
    ValueList,
    apply,
)
from sfumato.engine.public_tables import PublicRows
from sfumato.engine.sources.clean_scans import CleanScan, CleanScans, InspectedCell, StoredTable
from sfumato.engine.spark.sessions import SparkConnection, without_cause
from sfumato.engine.spark.sources import SparkCells, SparkSource
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.spark import TYPES, SparkSpelling, quote_identifier
from sfumato.errors import InvalidPolicy
from sfumato.policy import Policy
from sfumato.quick_dataclass import dataclass

Frame = Any
"""A DataFrame of either kind; pyspark is not imported for the annotation."""
Frames = Mapping[str, Frame]
_HAVING_COLUMN = "sf_kept"
_SECRET_COLUMN = "sf_secret"


@dataclass(frozen=True)
class FrameWriter:
    """Builds the DataFrame of a statement from those of clean scans."""

    scan: Callable[[str], Frame]
    """From a table's name to the DataFrame of its clean rows."""
    expression: Callable[[str], Any]
    """From SQL to a Column: ``expr`` of the kind of Spark that the DataFrames belong to."""

    def statement(self, statement: StagedSelect) -> Frame:
        """Return the DataFrame of a whole statement, built after those of the stages it names."""
        stages: dict[str, Frame] = {}
        for stage, select in statement.stages:
            stages[stage] = self.select(select, stages)
        return self.select(statement.result, stages)

    def select(self, select: Select, stages: Frames) -> Frame:
        frame = self._source(select.source, stages).alias(select.alias)
        for join in select.joins:
            frame = self._join(frame, join, stages)
        for test in select.where:
            frame = self._filter(frame, test, stages)
            frame = frame.alias(select.alias) if isinstance(test, AnyOf) else frame  # a union of frames has no alias
        if select.group_by or any(_uses_group_totals(scalar) for _, scalar in select.columns):
            return self._group(frame, select)
        columns = [self._column(name, scalar) for name, scalar in select.columns]
        return frame.select(*([f"{select.alias}.*"] if select.all_columns else []), *columns)

    def _source(self, source: Relation | Select, stages: Frames) -> Frame:
        match source:
            case Select():
                return self.select(source, stages)
            case CleanTable(name):
                return self.scan(name)
            case StageReference(name):
                return stages[name]
            case RelationalUnion(members):
                return reduce(
                    lambda one, other: one.unionAll(other), (self.select(member, stages) for member in members)
                )
            case ValueList() | IntegerSpan():  # a span is joined to rows (``_join``)
                raise AssertionError("declared values are listed without a server")

    def _join(self, frame: Frame, join: RelationalJoin, stages: Frames) -> Frame:
        if isinstance(join.relation, IntegerSpan):
            span = f"SELECT * FROM {Generator(SparkSpelling(), str).source(join.relation, join.alias)}"
            return frame.crossJoin(frame.sparkSession.sql(span).alias(join.alias))
        other = self._source(join.relation, stages).alias(join.alias)
        if join.on is None:
            return frame.crossJoin(other)
        return frame.join(other, self._expression(join.on), "left" if join.outer else "inner")

    def _filter(self, frame: Frame, test: Scalar | Exists | AnyOf, stages: Frames) -> Frame:
        if isinstance(test, AnyOf):
            return self._filter_disjunction(frame, test, stages)
        if not isinstance(test, Exists):
            secret = next(_secret_constants(test), None)
            return frame.filter(self._expression(test)) if secret is None else self._join_secret(frame, test, secret)
        other = self._source(test.relation, stages).alias(test.alias)
        return frame.join(other, self._expression(test.on), "left_anti" if test.negated else "left_semi")

    def _join_secret(self, frame: Frame, test: Scalar, secret: SecretConstant) -> Frame:
        """Keep the rows that pass a filter with a secret, which is the only row of another DataFrame."""
        key = frame.sparkSession.createDataFrame([(secret.value,)], f"{_SECRET_COLUMN} STRING")
        return frame.join(key, self._expression(_with_reference(test, secret, Reference(_SECRET_COLUMN))), "left_semi")

    def _filter_disjunction(self, frame: Frame, test: AnyOf, stages: Frames) -> Frame:
        """Keep the rows for which one predicate holds: those of the first, and of each other among the rest."""
        branches, rest = [], frame
        for predicate in test.predicates:
            branches.append(self._filter(rest, predicate, stages))
            rest = self._filter(rest, _negated(predicate), stages)
        return reduce(lambda one, other: one.unionAll(other), branches)

    def _group(self, frame: Frame, select: Select) -> Frame:
        """Group rows: the grouped DataFrame has the keys first, then the computed columns, under names that no key
        has.
        """
        computed = [column for column in select.columns if _key_name(column[1], select) is None]
        aggregates = [self._column(f"sf_{index}", scalar) for index, (_, scalar) in enumerate(computed)]
        having = [] if select.having is None else [self._column(_HAVING_COLUMN, select.having)]
        # agg() needs at least one aggregate
        keys = [self._column_reference(name) for name in select.group_by]
        groups = frame.groupBy(*keys).agg(*(aggregates + having or [self.expression("COUNT(*)").alias(_HAVING_COLUMN)]))
        if having:
            groups = groups.filter(self._column_reference(_HAVING_COLUMN))
        computed_names = {name: f"sf_{index}" for index, (name, _) in enumerate(computed)}
        return groups.select(
            *(
                self._column_reference(_key_name(scalar, select) or computed_names[name]).alias(name)
                for name, scalar in select.columns
            )
        )

    def _column_reference(self, name: str) -> Any:
        return self.expression(SparkSpelling().name(name))

    def _expression(self, scalar: Scalar) -> Any:
        return self.expression(Generator(SparkSpelling(), str).scalar(scalar))

    def _column(self, name: str, scalar: Scalar) -> Any:
        return self._expression(scalar).alias(name)


def _secret_constants(scalar: Scalar) -> Iterator[SecretConstant]:
    if isinstance(scalar, SecretConstant):
        yield scalar
    elif isinstance(scalar, Apply):
        for argument in scalar.arguments:
            yield from _secret_constants(argument)


def _with_reference(scalar: Scalar, secret: SecretConstant, reference: Reference) -> Scalar:
    """Replace a secret by a reference to the column that holds it."""
    if scalar == secret:
        return reference
    if isinstance(scalar, Apply):
        return replace(
            scalar, arguments=tuple(_with_reference(argument, secret, reference) for argument in scalar.arguments)
        )
    return scalar


def _uses_group_totals(scalar: Scalar) -> bool:
    """Return whether a value is computed from totals of a group."""
    return isinstance(scalar, GroupTotal) or (
        isinstance(scalar, Apply) and any(map(_uses_group_totals, scalar.arguments))
    )


def _key_name(scalar: Scalar, select: Select) -> str | None:
    """Return the name of the group key that a column is, None if it is not a plain key."""
    return scalar.name if isinstance(scalar, Reference) and scalar.name in select.group_by else None


@dataclass(frozen=True)
class SparkScans:
    """Builds the clean scans of a policy's private tables."""

    policy: Policy
    sources: Mapping[str, SparkSource]
    expression: Callable[[str], Any]

    @cached_property
    def _clean_scans(self) -> CleanScans:
        tables = {table: StoredTable(table, source.columns) for table, source in self.sources.items()}
        return CleanScans(self.policy, tables, SparkCells(), SparkSpelling())

    def scan(self, table: str, unclamped: tuple[str, ...] = ()) -> Frame:
        """Return the DataFrame of a table's clean rows, each row once per owner, with further ``unclamped`` columns."""
        declared = self.policy.tables[table]
        return self._frame(self._clean_scans.scan(table, only=(*declared.columns, *declared.lists, *unclamped)))

    def inspected(self, table: str) -> tuple[Frame, list[InspectedCell]]:
        """Return every row of a source once, with ``k``: whether it has an owner. For the owner's inspection."""
        scan, cells = self._clean_scans.inspected(table)
        return self._frame(scan), cells

    def _frame(self, scan: CleanScan) -> Frame:
        return FrameWriter(partial(self._source_cells, scan), self.expression).select(scan.select, {})

    def _source_cells(self, scan: CleanScan, table: str) -> Frame:
        cells = scan.cells.get(table) or {"1": "r0"}
        return self.sources[table].frame.select(*(self.expression(sql).alias(cell) for sql, cell in cells.items()))


_PROVED_SERVERS: set[tuple[str, str]] = set()
"""The Sparks, by application id and version, whose new sessions were proved to compute what spellings mean."""


def public_frame(table: PublicRows, session: SparkConnection) -> Frame:
    """Return a DataFrame of the clean rows of a public table."""
    columns = zip(table.names, table.kinds, strict=True)
    schema = ", ".join(f"{quote_identifier(column)} {TYPES[kind]}" for column, kind in columns)
    rows = list(zip(*table.columns, strict=True))
    return without_cause(lambda: session.spark.createDataFrame(rows, schema))


def require_correct_results(session: SparkConnection, policy_path: str) -> None:
    """Refuse a Spark that does not compute what our spellings mean.

    A running Spark does not change, nor do its new sessions; a clone of a user's session is proved each time.
    """
    server_version = str(without_cause(lambda: session.spark.conf.get("spark.app.id"))), str(session.spark.version)
    if server_version in _PROVED_SERVERS and not session.cloned:
        return
    spelling = SparkSpelling()

    dialect = _dialect(session, spelling)
    self_test.require_correct_results(dialect, policy_path)
    for function in self_test.wrong_case_functions(spelling, _values_scan, dialect.run):
        raise InvalidPolicy(
            f"this server computes {function} differently from Sfumato's SQL",
            place=policy_path,
            fix="use a tested version of Spark with default settings: see sfumato docs spark",
        )
    if not session.cloned:
        _PROVED_SERVERS.add(server_version)


def _dialect(session: SparkConnection, spelling: SparkSpelling) -> self_test.Dialect:
    """Return how this Spark computes: rows from SQL, and whole statements from DataFrames, as for queries."""

    def run(statement: str, _: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in without_cause(lambda: session.spark.sql(statement).collect())]

    def compute(statement: StagedSelect, source: Callable[[str], str]) -> list[tuple[Any, ...]]:
        frames = FrameWriter(lambda table: session.spark.sql(f"SELECT * FROM {source(table)}"), session.expression)
        return [tuple(row) for row in without_cause(lambda: frames.statement(statement).collect())]

    return self_test.Dialect(spelling, _values_scan, run, "array({})", compute)


def _values_scan(table: PublicRows, _: list[object]) -> str:
    """Write rows as VALUES joined with a range, since the optimiser would fold expressions over literals alone."""
    spelling = SparkSpelling()
    rows = (
        ", ".join(spelling.constant(value, kind) for value, kind in zip(row, table.kinds, strict=True))
        for row in zip(*table.columns, strict=True)
    )
    values = ", ".join(f"({row})" for row in rows)
    return (
        f"(SELECT v.* FROM VALUES {values} AS v({', '.join(map(quote_identifier, table.names))}) "
        "CROSS JOIN range(0, 1))"
    )


def _negated(predicate: Scalar | Exists) -> Scalar | Exists:
    """Return the predicate that holds where this one, which is never NULL, does not."""
    if isinstance(predicate, Exists):
        return replace(predicate, negated=not predicate.negated)
    return apply(ScalarFunction.NOT, predicate)
