"""An in-memory DuckDB, locked down, that holds the tables of one policy: it can read the named files and nothing else.

Only generated statements may run here. The connection has no file access beyond the sources, no settings, no extensions
and no other databases. Each call uses its own cursor, so the class is safe to use from several threads.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from threading import Lock, RLock, get_ident
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sfumato.caching import cached_property
from sfumato.engine.duckdb import files, memory, owners
from sfumato.engine.duckdb.memory import SpillFolder
from sfumato.engine.duckdb.owners import OpenedRelation, RowOwners
from sfumato.engine.duckdb.scan import Cell, TableScan, count_with_copies_sql
from sfumato.engine.protocols import DataIdentity, FetchedTable
from sfumato.engine.sources.clean_cells import fold_name
from sfumato.engine.sources.inspected_tables import identify_file
from sfumato.engine.spellings.duckdb import literal, literal_list, quote_identifier
from sfumato.errors import EngineClosed, EngineFailed, InvalidParameter, InvalidPolicy, SourceChanged, Unsupported
from sfumato.garbage import collection_paused
from sfumato.policy import Domain, InMemory, ListColumn, Policy, Table, Type, Via
from sfumato.privacy.numbers import exact_integer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import pyarrow

T = TypeVar("T")
_ARROW_SOURCE = "sf arriving"  # no view has a space after sf
_LOGGED_STATEMENTS = 10_000
"""How many statements the log keeps."""
_MAX_PARSED = 1 << 20
"""How many characters of statements are kept as parsed, which take 20 times as many bytes."""
_FEW_VALUES = 32
"""How many values of a column are written into statements: binding one takes as long as joining a hundred rows."""
_SIZE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})? ?[KMGT]i?B")


class Sources:
    """The tables of a policy behind one connection that runs generated statements only."""

    def __init__(self, policy: Policy, *, memory_limit: str | None = None, threads: int | None = None) -> None:
        import duckdb

        self.policy = policy
        self.statements: deque[str] = deque(maxlen=_LOGGED_STATEMENTS)
        self._lock, self._view_lock = Lock(), RLock()
        self._process = os.getpid()
        self._has_failed = False
        self._spill = SpillFolder()
        settings = _opening_settings(self._spill.path, memory_limit, threads)
        self._connection = _without_cause(lambda: duckdb.connect(":memory:", config={**settings}))
        self._running_cursors: dict[duckdb.DuckDBPyConnection, int] = {}
        self._files: dict[str, files.Files] = {}
        self._fingerprints: dict[str, tuple[tuple[files.Stamp, ...], str]] = {}
        self._row_counts: dict[str, int] = {}
        self._databases: dict[str, str] = {}
        self._scans: dict[str, TableScan] = {}
        self._columns: dict[str, dict[str, Domain]] = {}
        self._copy_numbers = count()
        self._enum_count = 0
        self._multiplicities: dict[tuple[str, tuple[str, ...]], int] = {}
        self._overlaps: dict[tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]], int] = {}
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    def columns(self, table: str) -> Mapping[str, Domain]:
        """Return the columns that queries may use: the declared ones or, for an undeclared public table, those of its
        data.
        """
        self._ensure_view(table)
        return self._columns[table]

    def scan(self, table: str) -> str:
        """Return the name of the view with the cleaned, declared columns, and ``sf_unit`` where rows have ids."""
        self._ensure_view(table)
        return quote_identifier(f"sf_{table}")

    def narrow_scan(self, table: str, columns: Sequence[str]) -> str:
        """Return the subquery with the same rows as ``scan`` and only these columns beside ``sf_unit``: the time to
        bind a view grows with its width.
        """
        self._ensure_view(table)
        return f"({self._scans[table].select(columns)})"

    def table_scan(self, table: str) -> TableScan:
        """Return how the view of a table is built from its source, for the owner's inspection."""
        self._ensure_view(table)
        return self._scans[table]

    def max_rows_per_value(self, table: str, columns: Sequence[str]) -> int:
        """Return the maximum number of rows of a public table that share one value of these columns (of all rows,
        without columns); at least 1.
        """
        table_policy = self._declared_table(table)
        if not table_policy.public:
            raise InvalidParameter(
                "table",
                table,
                "a public table, because counting the rows of a private one is never free",
                fix="pass the name of a public table",
            )
        key = (table, tuple(columns))
        if key not in self._multiplicities:
            quoted = [quote_identifier(column) for column in columns]
            not_null = " AND ".join(f"{column} IS NOT NULL" for column in quoted) or "TRUE"
            group_by = f" GROUP BY {', '.join(quoted)}" if quoted else ""
            group_sizes = f"SELECT count(*) AS n FROM {self.scan(table)} WHERE {not_null}{group_by}"
            self._multiplicities[key] = max(1, self.run(f"SELECT coalesce(max(n), 1) FROM ({group_sizes})")[0][0])
        return self._multiplicities[key]

    def max_rows_matched(self, table: str, columns: Sequence[str], comparisons: Sequence[tuple[str, str]]) -> int:
        """Return the maximum number of rows of a public table that one value can match in a join by comparisons; at
        least 1.

        Rows count together when they share one value of ``columns``; ``comparisons`` are pairs of an operator and the
        column that the value is compared with.
        """
        from sfumato.plan.values.countable import MAX_ROWS, max_band_matches

        key = (table, tuple(columns), tuple(comparisons))
        if key not in self._overlaps:
            if self.max_rows_per_value(table, ()) > MAX_ROWS:
                rule = (
                    f"a public table that is joined by comparisons can have at most {MAX_ROWS:,} rows; {table} has more"
                )
                raise Unsupported(
                    "bands-too-large",
                    rule,
                    fix="join with =, such as ON a.code = b.code, or use a public table with fewer rows",
                )
            compared = [column for _, column in comparisons]
            quoted = [quote_identifier(column) for column in (*columns, *compared)]
            not_null = " AND ".join(f"{column} IS NOT NULL" for column in quoted)
            rows = self.run(f"SELECT {', '.join(quoted)} FROM {self.scan(table)} WHERE {not_null}")
            split_rows = ((row[: len(columns)], row[len(columns) :]) for row in rows)
            self._overlaps[key] = max(1, max_band_matches(split_rows, [operator for operator, _ in comparisons]))
        return self._overlaps[key]

    def run(self, statement: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of one generated SELECT, integers exact. Raise ``EngineFailed`` on any failure."""

        def run_and_fetch() -> list[tuple[Any, ...]]:
            executed = cursor.execute(self._parse_cached(cursor, statement), parameters)
            with collection_paused():
                return executed.fetchall()

        with self._cursor() as cursor:
            return self._log_and_run(statement, run_and_fetch)

    def arrow(self, statement: str) -> pyarrow.Table:
        """Return the rows as an Arrow table, for large results. HUGEINT is not exact there: cast it to BIGINT first."""
        with self._cursor() as cursor:
            return self._log_and_run(
                statement, lambda: cursor.sql(self._parse_cached(cursor, statement)).to_arrow_table()
            )

    def stream(self, statement: str, batch_rows: int, consume: Callable[[Iterator[pyarrow.RecordBatch]], T]) -> T:
        """Return ``taken(batches)`` over Arrow batches of about ``rows`` rows, so that the whole result is never in
        memory.
        """
        with self._cursor() as cursor:
            return self._log_and_run(
                statement,
                lambda: consume(iter(cursor.sql(self._parse_cached(cursor, statement)).to_arrow_reader(batch_rows))),
            )

    def check_running(self) -> None:
        """Raise unless the engine runs statements: it does unless it was closed, or the last statement broke it."""
        if self._has_failed:
            self._has_failed = False  # first: a failure meanwhile, of the statement below too, sets it again
            self.bind("SELECT 1")
        with self._cursor():
            pass

    def bind(self, statement: str) -> None:
        """Check that the engine accepts the statement, without reading a row: a relation is bound when it is made, as
        by PREPARE, and runs when its rows are fetched. One with side effects would run at once: none is generated.
        """
        with self._cursor() as cursor:
            self._log_and_run(statement, lambda: cursor.sql(self._parse_cached(cursor, statement)))

    def copy(self, table: str) -> str:
        """Copy a table's cleaned rows now and return the copy's name; it does not change until it is dropped."""
        copy = quote_identifier(f"sf copy {next(self._copy_numbers)} of {table}")  # no view has a space after sf
        self._execute(f"CREATE TABLE {copy} AS SELECT * FROM {self.scan(table)}")
        return copy

    def drop(self, copy: str) -> None:
        """Drop a copy; when the engine is closed, it is gone already."""
        with suppress(EngineClosed):
            self._execute(f"DROP TABLE {copy}")

    def identity(self) -> str:
        """Return the version of the data: a digest over every source's identity, as opened."""
        return self._identity

    @cached_property
    def _identity(self) -> str:
        return files.digest(
            {table: table_files.stamps for table, table_files in self._files.items()},
            {table: table_files for table, (stamps, table_files) in self._fingerprints.items() if not stamps},
        )

    def check_unchanged(self) -> None:
        """Raise ``SourceChanged`` unless every file is still the one that was opened and is readable."""
        self._check_process()
        for table, table_files in self._files.items():
            if not table_files.is_unchanged():
                raise SourceChanged(table)

    def fingerprint(self, table: str) -> str:
        """Hash the table's content, for its owner; reads the whole source once per version."""
        self._declared_table(table)
        table_files = self._files.get(table)
        if table_files is None:
            return self._fingerprints[table][1]
        if not table_files.is_unchanged():
            raise SourceChanged(table)
        if self._fingerprints.get(table, ((), ""))[0] != table_files.stamps:
            self._fingerprints[table] = table_files.stamps, files.hash_content(table_files)
        return self._fingerprints[table][1]

    def data(self, table: str) -> tuple[DataIdentity, ...]:
        """Identify the files a table is read from, or the server it was fetched from; a table in memory is identified
        by its content.
        """
        if isinstance(source := self.policy.tables[table].source, FetchedTable):
            return source.data
        table_files = self._files.get(table)
        if table_files is not None:
            part = owners.qualified_stored_table(self.policy.tables[table], self._databases, self.run)
            return tuple(replace(identify_file(path), table=part) for path in table_files.paths)
        content_hash = self.fingerprint(table)
        return (DataIdentity(f"memory://{content_hash}", lambda: content_hash, table=table),)

    def interrupt(self, thread: int | None = None) -> None:
        """Interrupt every running statement, or those of one thread: they fail as ``EngineFailed``."""
        if os.getpid() == self._process:
            with self._lock:
                for cursor, owner in self._running_cursors.items():
                    if thread in (None, owner):
                        cursor.interrupt()

    def close(self) -> None:
        """Interrupt what is running and forget the data. A forked process leaves its parent's connection alone."""
        if os.getpid() == self._process:
            self.interrupt()
            with self._lock:
                self._process = 0
                self._connection.close()
            self._spill.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _set_up(self) -> None:
        for setting in _EXTENSION_SETTINGS:
            self._execute(f"SET GLOBAL {setting}")
        self._relations = {key: self._open_source(table) for key, table in self.policy.tables.items()}
        paths = [path for table_files in self._files.values() for path in table_files.paths]
        for setting in (f"allowed_paths = [{literal_list(paths)}]", *_LOCKDOWN):
            self._execute(f"SET GLOBAL {setting}")
        for table in self.policy.tables.values():
            if table.has_columns:
                self._define_view(table, table.columns)
            self._check_ceiling(table)

    def _check_ceiling(self, table: Table) -> None:
        """Refuse a source with more rows than declared when its owner opens it, never in a query.

        Rows are not truncated to the ceiling: which rows remain would depend on other units' rows.
        """
        if self._count_rows_with_copies(table) > table.row_ceiling:
            raise InvalidPolicy(
                f"the source of {table.name} has more rows than row_ceiling allows",
                place=f"tables.{table.name}.row_ceiling",
                fix="raise row_ceiling if queries may take longer, or use a source with fewer rows",
            )

    def _count_rows_with_copies(self, table: Table) -> int:
        """Count the rows of a source: the lines of CSV files and tables in memory were counted when they were read,
        most other formats store the number.

        Where rows belong to units through another table, the count includes one copy per owner; no copy is made.
        """
        relation, scan = self._relations[table.name], self._scans.get(table.name)
        if scan is not None and scan.owner is not None and scan.owner.links is not None:
            return int(self.run(count_with_copies_sql(relation.sql, scan.owner))[0][0])
        if table.name in self._row_counts or not relation.columns:
            return self._row_counts.get(table.name, 0)
        return int(self.run(f"SELECT count(*) FROM {relation.sql}")[0][0])

    def _open_source(self, table: Table) -> OpenedRelation:
        if isinstance(table.source, InMemory):
            return self._copy_into_engine(table, memory.wrap_table(table.source.table, f"tables.{table.name}.source"))
        table_files, relation = owners.open_relation(table, self._databases, self._execute)
        if table_files.kind == "csv":
            self._row_counts[table.name] = files.count_csv_records(table_files, f"tables.{table.name}.source")
        self._files[table.name] = table_files
        return relation

    def _copy_into_engine(self, table: Table, source: memory.MemoryTable) -> OpenedRelation:
        """Copy the columns in use into a table of the engine, so that later changes to the original have no effect."""
        policy_columns = {*table.columns, *table.lists, *_id_columns(table, self.policy)}
        folded_names = set(map(fold_name, policy_columns if table.has_columns else source.names))
        positions = [i for i, column in enumerate(source.names) if fold_name(column) in folded_names]
        if not positions:
            return OpenedRelation("", ())
        path = f"tables.{table.name}.source"
        arrow_table = memory.to_arrow(source, positions, path)
        self._fingerprints[table.name] = (), memory.fingerprint(arrow_table)
        self._row_counts[table.name] = arrow_table.num_rows
        copy = quote_identifier(f"sf copy of {table.name}")  # no view has a space after sf
        create_copy = f"CREATE TABLE {copy} AS SELECT * FROM {quote_identifier(_ARROW_SOURCE)}"
        try:
            with self._cursor() as cursor:  # only the cursor that registered a table sees it
                self._log_and_run(create_copy, lambda: cursor.register(_ARROW_SOURCE, arrow_table).execute(create_copy))
        except EngineFailed:
            raise memory.unreadable_table_refusal(path) from None
        return owners.memory_relation(source, positions, self._execute(f"DESCRIBE {copy}"), copy)

    def _ensure_view(self, table: str) -> None:
        """Create the view of a public table without declared columns on its first use."""
        table_policy = self._declared_table(table)
        self._check_process()
        with self._view_lock:
            if table not in self._columns:
                self._define_view(table_policy, self._discover_columns(table_policy))

    def _discover_columns(self, table: Table) -> dict[str, Domain]:
        """Find the domains of a public table's columns in its data; a CSV file is read once, into a temporary copy."""
        from sfumato.engine.duckdb import discovery

        relation = self._relations[table.name]
        cells = dict(relation.usable_columns())
        if not cells:
            raise InvalidPolicy(
                "no column of this table has a name that SQL queries can use",
                place=f"tables.{table.name}.source",
                fix="rename the columns: a name has at most 63 printable characters and does not begin with sf_",
            )
        if table.name not in self._files or self._files[table.name].kind != "csv":
            kinds = {column: discovery.type_from_stored_type(cell) for column, cell in cells.items()}
            typed = {column: (cell, Domain(kinds[column]), None) for column, cell in cells.items()}
            return discovery.discovered_domains(kinds, f"({TableScan(relation.sql, typed, None).statement})", self.run)
        table_files = self._files[table.name]
        return discovery.cached_or_inferred_domains(
            table_files, lambda: self._infer_domains(table.name, cells, relation.sql)
        )

    def _infer_domains(self, table: str, cells: Mapping[str, Cell], source: str) -> dict[str, Domain]:
        from sfumato.engine.duckdb import discovery

        copy = quote_identifier(f"sf reading of {table}")  # no view has a space after sf
        self._execute(f"CREATE TABLE {copy} AS SELECT * FROM {source}")
        try:
            return discovery.inferred_domains(cells, copy, self.run)
        finally:
            self._execute(f"DROP TABLE {copy}")

    def _define_view(self, table: Table, columns: Mapping[str, Domain]) -> None:
        source, stored_cells = self._read_cells(table, columns)
        cells = {column: (stored_cells[column], *self._enforced_domain(table, columns[column])) for column in columns}
        owner = RowOwners(self.policy, self._relations).owner_of(table)
        lists = {column: self._list_column_with_choices(table, column) for column in table.lists}
        scan = self._scans[table.name] = TableScan(source, cells, owner, lists)
        self._execute(f"CREATE OR REPLACE VIEW {quote_identifier(f'sf_{table.name}')} AS {scan.statement}")
        self._columns[table.name] = dict(columns)

    def _read_cells(self, table: Table, columns: Mapping[str, Domain]) -> tuple[str, dict[str, Cell]]:
        """Return the source of a table with the cells of its columns, read by the rules of those that have any."""
        relation = self._relations[table.name]
        cells = {column: relation.find_column(column, f"tables.{table.name}.columns.{column}") for column in columns}
        rules = self.policy.cell_rules(table.name)
        if not rules:
            return relation.sql, cells
        from sfumato.engine.duckdb.ruled_scans import RuledCell, source_and_ruled_cells

        ruled = [RuledCell(cells[column], columns[column], rules[column]) for column in rules]
        source, read = source_and_ruled_cells(relation.sql, [name for name, _ in relation.columns], ruled)
        return source, cells | dict(zip(rules, read, strict=True))

    def _list_column_with_choices(self, table: Table, column: str) -> tuple[Cell, ListColumn, str | None]:
        """Return the cell of a declared list column; refuse a source that does not store a list there."""
        path, list_column = f"tables.{table.name}.columns.{column}", table.lists[column]
        cell = self._relations[table.name].find_column(column, path)
        if cell.item is None:
            raise InvalidPolicy(
                f"'{column}' is not a list in its source",
                place=f"{path}.most_items",
                fix="remove most_items; lists are read from Parquet, DuckDB and Arrow, not from CSV",
            )
        items, choices = self._enforced_domain(table, list_column.items, can_join=False)
        return cell, replace(list_column, items=items), choices

    def _enforced_domain(self, table: Table, domain: Domain, *, can_join: bool = True) -> tuple[Domain, str | None]:
        """Return the domain the scan must enforce, and what holds its values: an ENUM of texts or, where cells can be
        joined to it, a table of many others. Few are written into each statement.

        Values discovered in public data hold already and are not enforced again.
        """
        if domain.values is None or not table.has_columns:
            return replace(domain, values=None), None
        is_text = domain.type is Type.TEXT
        if not is_text and (len(domain.values) <= _FEW_VALUES or not can_join):
            return domain, None
        choices = quote_identifier(
            f"sf values {self._enum_count}"
        )  # numbered: table and column names joined by a space may collide
        self._enum_count += 1
        if is_text:
            self._execute(f"CREATE TYPE {choices} AS ENUM ({literal_list(domain.values)})")
        else:
            rows = ", ".join(f"({literal(value)})" for value in domain.values)
            self._execute(f"CREATE TABLE {choices} AS SELECT * FROM (VALUES {rows}) AS t(v)")
        return domain, choices

    def _declared_table(self, table: str) -> Table:
        if table not in self.policy.tables:
            raise InvalidParameter("table", table, "one of " + ", ".join(self.policy.tables))
        return self.policy.tables[table]

    def _execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a set-up statement, which may be DDL."""
        with self._cursor() as cursor:
            return self._log_and_run(
                statement, lambda: cursor.execute(self._parse_cached(cursor, statement, None)).fetchall()
            )

    def _check_process(self) -> None:
        """Refuse a forked process before any lock is taken: a lock held at the fork is never released in the child."""
        if os.getpid() != self._process:
            raise EngineClosed

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        self._check_process()
        with self._lock:
            if not self._process:
                raise EngineClosed
            cursor = _without_cause(self._connection.cursor)
            self._running_cursors[cursor] = get_ident()
        try:
            yield cursor
        finally:
            with self._lock:
                del self._running_cursors[cursor]
            cursor.close()

    def _log_and_run(self, statement: str, action: Callable[[], T]) -> T:
        """Log the statement and return the result of the action."""
        self.statements.append(statement)
        try:
            return _without_cause(action)
        except EngineFailed:
            self._has_failed = True
            raise

    def _parse_cached(
        self, cursor: duckdb.DuckDBPyConnection, statement: str, kind: str | None = "SELECT"
    ) -> duckdb.Statement:
        """Parse a text as one statement of a kind, or of any, and cache it: what is bound is run, and often again."""
        return _PARSED_STATEMENTS.parse(cursor, statement, kind)


class _ParsedStatements:
    """The statements that were parsed last, for all connections of the process: a syntax tree belongs to no database.

    DuckDB takes a millisecond to parse a kilobyte, and previews and audits run the same texts on many databases. There
    is no lock, which a fork could leave held: two threads at once may count a statement once too often or too little.
    """

    def __init__(self) -> None:
        self._statements: dict[tuple[str | None, str], duckdb.Statement] = {}
        self._length = 0

    def parse(self, cursor: duckdb.DuckDBPyConnection, statement: str, kind: str | None) -> duckdb.Statement:
        """Return the statement as parsed; refuse a text that is not one statement of this kind, or of any for None."""
        parsed = self._statements.get((kind, statement))
        if parsed is None:
            parsed = _parse_only_statement(cursor, statement, kind)
            if self._length + len(statement) > _MAX_PARSED:
                self._statements.clear()
                self._length = 0
            self._statements[kind, statement] = parsed
            self._length += len(statement)
        return parsed


_PARSED_STATEMENTS = _ParsedStatements()


def _id_columns(table: Table, policy: Policy) -> set[str]:
    """Return the columns that identify the owners of rows: the table's own id, and the keys that other tables reach it
    by.
    """
    columns = {
        child.id.key for child in policy.tables.values() if isinstance(child.id, Via) and child.id.via == table.name
    }
    columns |= {table.id.on} if isinstance(table.id, Via) else {table.id} if table.id else set()
    return columns


def _without_cause(action: Callable[[], T]) -> T:
    """Return the action's result; raise ``EngineFailed`` without the cause, which may quote a cell."""
    try:
        return action()
    except Exception:  # the same error whatever failed
        pass
    raise EngineFailed


def _parse_only_statement(cursor: duckdb.DuckDBPyConnection, statement: str, kind: str | None) -> duckdb.Statement:
    """Parse a text and refuse anything but one statement of a kind: a second line of defence behind generating nothing
    but one SELECT. The parsed statement is the one that runs.
    """
    (parsed,) = cursor.extract_statements(statement)
    if kind not in (None, parsed.type.name):
        raise ValueError(f"not one {kind}")
    return parsed


_EXTENSION_SETTINGS = (
    "TimeZone = 'UTC'",
    # To read the footer of a file of 300 columns takes as long as the rest of a small count. DuckDB sees a change by
    # whole seconds only: what guards is that a changed file is refused before and after every reading.
    "parquet_metadata_cache = true",
)
"""Settings of extensions: unknown while the database is opened."""
_LOCKDOWN = ("python_enable_replacements = false", "enable_external_access = false", "lock_configuration = true")


def _opening_settings(spill: str, memory_limit: str | None, threads: int | None) -> dict[str, str]:
    """Return the settings that the database is opened with, in a fifth of the time of one statement each: results
    depend on them, and what exceeds memory spills to a private folder.
    """
    settings = {
        "temp_directory": spill,
        "preserve_insertion_order": "false",
        # Casts pushed into the CSV reader would drop the rows they fail on, differently for each query.
        "disabled_optimizers": "type_pushdown,scalar_fn_pushdown",
        # Dense integer ids are aggregated in a perfect hash table: three times faster.
        "perfect_ht_threshold": "20",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    if memory_limit is not None:
        if not isinstance(memory_limit, str) or not _SIZE.fullmatch(memory_limit):
            raise InvalidParameter("memory_limit", memory_limit, "a size such as '4GiB'")
        settings["memory_limit"] = memory_limit
    if threads is not None:
        settings["threads"] = str(exact_integer(threads, "threads", at_least=1))
    return settings
