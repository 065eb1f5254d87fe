"""SELECT over rows that were drawn from bought models, in a DuckDB of its own that holds these rows and nothing else.

The rows are post-processing of what was released (Dwork & Roth 2014, prop. 2.1): any statement about them is free, and
tells nothing that their buyer does not have. A client's text does not reach DuckDB: it is parsed, its tables and
functions are looked up, and SQL is generated anew, as for the catalog. The engine is locked before the first statement
and bounded in time, memory, rows and letters.

Ranges as columns that an outer SELECT can name: what dashboards need for error bars.

A dashboard asks ``SELECT region, MAX(n_low) FROM (SELECT region, COUNT(*) AS n …) AS t GROUP BY region`` of a data set
that is a question. The question knows no column n_low; its answer has one. In a free database such a statement is
taken apart: the inner question is answered with its ranges, and the outer SELECT is computed over those rows, which are
released already: post-processing.
"""

from __future__ import annotations

import datetime as dt
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlglot import exp

from sfumato.errors import TooManyRequests, Unsupported
from sfumato.quick_dataclass import dataclass
from sfumato.server.postgres import types
from sfumato.server.postgres.catalog import rewriting
from sfumato.server.postgres.catalog.answering import parse_query
from sfumato.server.postgres.catalog.engine import locked_engine
from sfumato.server.postgres.catalog.engine_process import StatementLimits
from sfumato.server.postgres.catalog.parsing import NODES, printable_name, table_references
from sfumato.server.postgres.catalog.relations import CatalogColumn, result_oid
from sfumato.server.postgres.results import ResultColumn, ResultColumns, StatementResult

TIME_LIMIT = 20.0
"""Seconds that one statement may take."""
MAX_ROWS, MAX_LETTERS = 200_000, 50_000_000
"""The most rows of one answer, and the most letters of its texts."""
_NO_ROW_NODES = (
    exp.Anonymous, exp.ArrayAgg, exp.ArraySize, exp.ArrayToString, exp.Bracket, exp.ByteString, exp.Collate,
    exp.CurrentCatalog, exp.CurrentDatabase, exp.CurrentRole, exp.CurrentSchema, exp.CurrentSchemas, exp.CurrentUser,
    exp.CurrentVersion, exp.Explode, exp.ExplodingGenerateSeries, exp.Format, exp.GenerateSeries, exp.GroupConcat,
    exp.Lateral, exp.ObjectIdentifier, exp.Operator, exp.SessionUser, exp.Slice, exp.Unnest,
)  # fmt: skip
"""What a catalog statement may contain and one about rows may not: the session, other functions, and arrays."""
_ROW_FUNCTIONS = (
    exp.Abs, exp.Avg, exp.Ceil, exp.Extract, exp.Floor, exp.Median, exp.PercentileCont, exp.PercentileDisc, exp.Rank,
    exp.Round, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.TimestampTrunc, exp.Variance, exp.VariancePop,
    exp.WithinGroup,
)  # fmt: skip
ROW_NODES: frozenset[type[exp.Expr]] = (NODES - {*_NO_ROW_NODES}) | {*_ROW_FUNCTIONS}
"""The constructs that a statement about rows may contain."""


@dataclass(frozen=True)
class RowsAnswer:
    """The columns and rows of a statement."""

    columns: tuple[CatalogColumn, ...]
    rows: Sequence[tuple[Any, ...]]


def synthetic_tables_read(sql: str, table_names: Collection[str], database: str) -> list[str] | None:
    """Return those of these tables that a SELECT reads, in lower case and once each; None if it reads none of them.

    Raises: Unsupported: It reads other tables beside them.
    """
    tree = parse_query(sql)
    read = [] if tree is None else [*table_references(tree)]
    others = [table for table in read if not _is_synthetic_table(table, table_names, database)]
    if len(others) == len(read):
        return None
    if others:
        other = printable_name(others[0].name)
        rule = f"{other} is not a synthetic table, and a synthetic table can only be joined with another one"
        raise _synthetic_refusal("join", rule, "query the two in separate statements")
    return list(dict.fromkeys(table.name.lower() for table in read))


def _is_synthetic_table(table: exp.Table, table_names: Collection[str], database: str) -> bool:
    is_public = table.db.lower() in ("", "public") and table.catalog.lower() in ("", database.lower())
    return is_public and table.name.lower() in table_names


class SyntheticRows:
    """Tables of drawn rows, each read from a Parquet file when the engine starts. Thread-safe: one statement at a
    time.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        """``files`` are by the tables' names in lower case."""
        self._names = {name: f"rows {number}" for number, name in enumerate(files)}
        self._lock = threading.Lock()
        self._engine = locked_engine(
            (f'CREATE TABLE main."{self._names[name]}" AS SELECT * FROM read_parquet($path)', {"path": str(path)})
            for name, path in files.items()
        )

    def describe(self, sql: str, parameters: Sequence[Any]) -> tuple[CatalogColumn, ...]:
        """Return the columns of a statement, which is bound but not run."""
        rows, _ = self._fetch_rows_and_letters(f"DESCRIBE {self._generate_duckdb_sql(sql, parameters)}")
        return tuple(CatalogColumn(name, result_oid(kind)) for name, kind, *_ in rows)

    def run(self, sql: str, parameters: Sequence[Any]) -> RowsAnswer:
        """Run a statement within the limits."""
        columns = self.describe(sql, parameters)
        rows, letters = self._fetch_rows_and_letters(self._generate_duckdb_sql(sql, parameters))
        if len(rows) > MAX_ROWS or letters > MAX_LETTERS:
            rule = f"one statement can return at most {MAX_ROWS:,} synthetic rows and {MAX_LETTERS:,} characters"
            raise _synthetic_refusal(
                "size", rule, "add LIMIT or WHERE, or download all rows with GET …/releases/LINE?form=csv"
            )
        return RowsAnswer(columns, rows)

    def interrupt(self) -> None:
        """End the statement that runs, from another thread."""
        self._engine.interrupt()

    def _fetch_rows_and_letters(self, statement: str) -> tuple[list[tuple[Any, ...]], int]:
        if not self._lock.acquire(timeout=TIME_LIMIT):
            raise TooManyRequests("another statement of this user over synthetic rows is still running", 5)
        try:
            answer = self._engine.run(statement, StatementLimits(TIME_LIMIT, MAX_ROWS, MAX_LETTERS))
        finally:
            self._lock.release()
        if answer is None:
            rule = f"this cannot be evaluated over synthetic rows, or takes over {TIME_LIMIT:g} seconds or 256 MB"
            raise _synthetic_refusal("statement", rule, "check the column names with \\d, or read fewer rows at once")
        return answer

    def _generate_duckdb_sql(self, sql: str, parameters: Sequence[Any]) -> str:
        tree = parse_query(sql)
        assert tree is not None, "table_names has parsed it"
        _refuse_constructs(tree)
        rewritten = tree.copy()
        _bind_parameters(rewritten, parameters)
        rewriting.fold_identifiers(rewritten)
        rewriting.alias_unnamed_columns(rewritten)
        for column in rewritten.find_all(exp.Column):
            column.set("db", None)
            column.set("catalog", None)
        self._replace_tables(rewritten)
        rewriting.rename_with_queries(rewritten)
        return rewritten.sql("duckdb", identify=True)

    def _replace_tables(self, tree: exp.Query) -> None:
        """Read each table under the alias it had; every other name was refused."""
        for table in [*table_references(tree)]:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
            table.set("this", exp.to_identifier(self._names[table.name.lower()], quoted=True))
            table.set("db", exp.to_identifier("main", quoted=True))
            table.set("catalog", None)


def _refuse_constructs(tree: exp.Query) -> None:
    """Refuse every construct and function that is not listed."""
    for node in tree.walk():
        if type(node) not in ROW_NODES:
            name = node.name if isinstance(node, exp.Anonymous) else node.key.upper()
            raise _synthetic_refusal(
                "construct", f"{printable_name(name)} is not supported over synthetic rows", "write a plain SELECT"
            )
        if isinstance(node, exp.With) and node.args.get("recursive"):
            raise _synthetic_refusal(
                "construct", "WITH RECURSIVE is not supported over synthetic rows", "write a plain SELECT"
            )


def _bind_parameters(tree: exp.Query, parameters: Sequence[Any]) -> None:
    for node in [*tree.find_all(exp.Parameter)]:
        if not node.name.isdigit() or not 1 <= int(node.name) <= len(parameters):
            raise _synthetic_refusal(
                "parameter", f"there is no parameter ${printable_name(node.name)}", "bind a value for each parameter"
            )
        value = parameters[int(node.name) - 1]
        is_count = isinstance(node.parent, (exp.Limit, exp.Offset)) and isinstance(value, str) and value.isdecimal()
        node.replace(_literal_expression(int(value) if is_count else value))


def _literal_expression(value: Any) -> exp.Expr:
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, (int, Decimal)):
        return exp.Literal.number(f"{value:f}" if isinstance(value, Decimal) else value)
    if isinstance(value, float):
        return exp.cast(exp.Literal.string(repr(value)), "DOUBLE", dialect="duckdb")
    if isinstance(value, (dt.date, dt.datetime)):
        kind = "TIMESTAMP" if isinstance(value, dt.datetime) else "DATE"
        return exp.cast(exp.Literal.string(value.isoformat()), kind, dialect="duckdb")
    return exp.Literal.string(str(value))


def _synthetic_refusal(code: str, rule: str, fix: str) -> Unsupported:
    return Unsupported(f"synthetic-{code}", rule, fix=fix, place="the statement")


def write_table_files(folder: Path, tables: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """Write Arrow tables to Parquet files; yield name and file of each."""
    from pyarrow import parquet

    for number, (name, rows) in enumerate(tables.items()):
        path = folder / f"{number}.parquet"
        parquet.write_table(rows, path)
        yield name, path


_ENDS = ("_low", "_high")
_TABLE = "answer"


@dataclass(frozen=True)
class OuterSelectOverAnswer:
    """A statement taken apart."""

    question_sql: str
    """The question."""
    outer_sql: str
    """The statement around it, which reads the answer as a table."""

    def describe(self, columns: ResultColumns) -> ResultColumns:
        """Return the columns of the statement, from those of the question's answer."""
        with tempfile.TemporaryDirectory(prefix="sfumato-answer-") as folder:
            described = _engine_over_answer(Path(folder), columns, ()).describe(self.outer_sql, ())
        return tuple(ResultColumn(column.name, column.oid) for column in described)

    def run_outer(self, answer: StatementResult) -> StatementResult:
        """Return the rows of the statement, from the question's answer."""
        with tempfile.TemporaryDirectory(prefix="sfumato-answer-") as folder:
            computed = _engine_over_answer(Path(folder), answer.columns, answer.rows).run(self.outer_sql, ())
        columns = tuple(ResultColumn(column.name, column.oid) for column in computed.columns)
        return StatementResult(columns, computed.rows, answer.notices, answer.warnings)


def may_name_range_column(sql: str) -> bool:
    """Return False for a text that surely names no range, without parsing it."""
    return any(end in sql.lower() for end in _ENDS)


def split_outer_select(sql: str) -> OuterSelectOverAnswer | None:
    """Return the parts of a SELECT from one subquery that names a range of a column of it; None for any other text."""
    tree = parse_query(sql)
    source = tree.args.get("from_") if isinstance(tree, exp.Select) else None
    subquery = None if source is None else source.this
    if not isinstance(subquery, exp.Subquery) or tree is None or tree.args.get("joins") or tree.find(exp.Parameter):
        return None
    inner = subquery.unnest()
    outputs = {name.lower() for name in inner.named_selects} if isinstance(inner, exp.Query) else set()
    names = {column.name.lower() for column in tree.find_all(exp.Column) if column.find_ancestor(exp.Subquery) is None}
    if not any(_is_range_column(name, outputs) for name in names - outputs):
        return None
    outer = tree.copy()
    alias = exp.TableAlias(this=exp.to_identifier(subquery.alias or _TABLE, quoted=True))
    outer.args["from_"].this.replace(exp.Table(this=exp.to_identifier(_TABLE), alias=alias))
    return OuterSelectOverAnswer(inner.sql("postgres"), outer.sql("postgres"))


def _is_range_column(name: str, outputs: set[str]) -> bool:
    return any(name.endswith(end) and name.removesuffix(end) in outputs for end in _ENDS)


def _engine_over_answer(folder: Path, columns: ResultColumns, rows: Sequence[Sequence[Any]]) -> SyntheticRows:
    import pyarrow

    kinds = {
        types.INT8: pyarrow.int64(),
        types.FLOAT8: pyarrow.float64(),
        types.BOOL: pyarrow.bool_(),
        types.DATE: pyarrow.date32(),
        types.TIMESTAMP: pyarrow.timestamp("us"),
    }
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = [
        pyarrow.array(part, kinds.get(column.oid, pyarrow.string()))
        for part, column in zip(cells, columns, strict=True)
    ]
    table = pyarrow.Table.from_arrays(arrays, [column.name for column in columns])
    return SyntheticRows(dict(write_table_files(folder, {_TABLE: table})))
