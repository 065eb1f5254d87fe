"""One locked-down DuckDB in memory holds the tables of a policy: it can read the named files and nothing else.

Only generated statements may run here. The connection has no file access beyond the sources, no settings, no
extensions, no other databases; each call has a cursor of its own, so threads need no care.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock, RLock, get_ident
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sfumato.engine.duckdb import discovery, files, memory, owners
from sfumato.engine.duckdb.memory import Spill
from sfumato.engine.duckdb.owners import Owners, Relation
from sfumato.engine.duckdb.scan import Cell, TableScan, copies
from sfumato.engine.seam import DataIdentity, Fetched
from sfumato.engine.sources.clean_cells import folded
from sfumato.engine.sources.inspected_tables import identified
from sfumato.engine.spellings.duckdb import listed, literal, name
from sfumato.errors import EngineClosed, EngineFailed, InvalidParameter, InvalidPolicy, SourceChanged, Unsupported
from sfumato.plan.values.coded_keys import MOST_ROWS, most_met
from sfumato.policy import Domain, InMemory, ListColumn, Policy, Table, Type, Via
from sfumato.privacy.numbers import whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import pyarrow

T = TypeVar("T")
_ARRIVING = "sf arriving"  # no view can be called so
_REMEMBERED = 10_000
"""Statements kept for the log."""
_MOST_PARSED = 32
_SIZE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})? ?[KMGT]i?B")


class Sources:
    """A policy's tables behind one connection, to be asked generated statements only."""

    def __init__(self, policy: Policy, *, memory_limit: str | None = None, threads: int | None = None) -> None:
        import duckdb

        self.policy = policy
        self.statements: deque[str] = deque(maxlen=_REMEMBERED)
        self._lock, self._defining = Lock(), RLock()
        self._process = os.getpid()
        self._spill = Spill()
        self._connection = duckdb.connect(":memory:")
        self._active: dict[duckdb.DuckDBPyConnection, int] = {}
        self._parsed: dict[str, duckdb.Statement] = {}
        self._files: dict[str, files.Files] = {}
        self._contents: dict[str, tuple[tuple[files.Stamp, ...], str]] = {}
        self._lines: dict[str, int] = {}
        self._databases: dict[str, str] = {}
        self._scans: dict[str, TableScan] = {}
        self._columns: dict[str, dict[str, Domain]] = {}
        self._copies = count()
        self._enumerations = 0
        self._multiplicities: dict[tuple[str, tuple[str, ...]], int] = {}
        self._overlaps: dict[tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]], int] = {}
        try:
            self._set_up(memory_limit, threads)
        except BaseException:
            self.close()
            raise

    def columns(self, table: str) -> Mapping[str, Domain]:
        """Give the columns that may be asked about: those declared, or for a public table those its data have."""
        self._view(table)
        return self._columns[table]

    def scan(self, table: str) -> str:
        """Give the name of the view whose columns are the declared ones, clean, with ``sf_unit`` where rows have
        ids.
        """
        self._view(table)
        return name(f"sf_{table}")

    def definition(self, table: str) -> TableScan:
        """Show how that view is made from its source, for those who compare the two."""
        self._view(table)
        return self._scans[table]

    def multiplicity(self, table: str, columns: Sequence[str]) -> int:
        """Give the most rows of a public table that share one value of these columns (all rows for none); at least
        1.
        """
        declared = self._declared(table)
        if not declared.public:
            raise InvalidParameter("table", table, "a public table: nothing is counted in a private one for free")
        key = (table, tuple(columns))
        if key not in self._multiplicities:
            names = [name(column) for column in columns]
            present = " AND ".join(f"{each} IS NOT NULL" for each in names) or "TRUE"
            grouped = f" GROUP BY {', '.join(names)}" if names else ""
            counted = f"SELECT count(*) AS n FROM {self.scan(table)} WHERE {present}{grouped}"
            self._multiplicities[key] = max(1, self.run(f"SELECT coalesce(max(n), 1) FROM ({counted})")[0][0])
        return self._multiplicities[key]

    def overlap(self, table: str, columns: Sequence[str], comparisons: Sequence[tuple[str, str]]) -> int:
        """Give the most rows of a public table that share one value of these columns and that one value meets, when it
        is compared with others of its columns (operator, column); at least 1.
        """
        key = (table, tuple(columns), tuple(comparisons))
        if key not in self._overlaps:
            if self.multiplicity(table, ()) > MOST_ROWS:
                rule = f"a public table that is joined by comparisons has at most {MOST_ROWS:,} rows; {table} has more"
                raise Unsupported("bands-too-large", rule, fix="join by equality, or by a table with fewer rows")
            ends = [column for _, column in comparisons]
            names = [name(column) for column in (*columns, *ends)]
            present = " AND ".join(f"{each} IS NOT NULL" for each in names)
            rows = self.run(f"SELECT {', '.join(names)} FROM {self.scan(table)} WHERE {present}")
            parted = ((row[: len(columns)], row[len(columns) :]) for row in rows)
            self._overlaps[key] = max(1, most_met(parted, [operator for operator, _ in comparisons]))
        return self._overlaps[key]

    def run(self, statement: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Give the rows of one generated SELECT, whole numbers exact. Any failure is the one ``EngineFailed``."""
        with self._cursor() as cursor:
            return self._guarded(
                statement, lambda: cursor.execute(self._known(cursor, statement), parameters).fetchall()
            )

    def arrow(self, statement: str) -> pyarrow.Table:
        """Give the rows as an Arrow table, for large results; HUGEINT is not exact there: cast it to BIGINT first."""
        with self._cursor() as cursor:
            return self._guarded(statement, lambda: cursor.sql(_one(cursor, statement)).to_arrow_table())

    def stream(self, statement: str, rows: int, taken: Callable[[Iterator[pyarrow.RecordBatch]], T]) -> T:
        """Give what is made of the rows while they arrive, about so many at a time: never all of them are held."""
        with self._cursor() as cursor:
            return self._guarded(
                statement, lambda: taken(iter(cursor.sql(_one(cursor, statement)).to_arrow_reader(rows)))
            )

    def bind(self, statement: str) -> None:
        """Check that the engine accepts the statement, without reading a row."""
        with self._cursor() as cursor:
            prepared = f"PREPARE sf_bound AS {statement}"
            self._guarded(prepared, lambda: (self._known(cursor, statement), cursor.execute(prepared)))

    def copy(self, table: str) -> str:
        """Copy a table's clean rows now, and give the copy's name; it stays as it is until it is dropped."""
        made = name(f"sf copy {next(self._copies)} of {table}")  # no view can be called so
        self._execute(f"CREATE TABLE {made} AS SELECT * FROM {self.scan(table)}")
        return made

    def drop(self, copy: str) -> None:
        """Forget a copy; one of an engine that is closed is gone already."""
        with suppress(EngineClosed):
            self._execute(f"DROP TABLE {copy}")

    def identity(self) -> str:
        """Give the version of the data: a digest over every source's identity, as opened."""
        return files.digest(
            {table: found.stamps for table, found in self._files.items()},
            {table: found for table, (stamps, found) in self._contents.items() if not stamps},
        )

    def check_unchanged(self) -> None:
        """Raise ``SourceChanged`` unless every file is still the one that was opened, and can be read."""
        self._check_process()
        for table, found in self._files.items():
            if not found.unchanged():
                raise SourceChanged(table)

    def fingerprint(self, table: str) -> str:
        """Hash the table's content, for its owner; this reads the whole source once per version of it."""
        self._declared(table)
        found = self._files.get(table)
        if found is None:
            return self._contents[table][1]
        if not found.unchanged():
            raise SourceChanged(table)
        if self._contents.get(table, ((), ""))[0] != found.stamps:
            self._contents[table] = found.stamps, files.content(found)
        return self._contents[table][1]

    def data(self, table: str) -> tuple[DataIdentity, ...]:
        """The files a table is read from, or the server it was fetched from; for one in memory, an address made from
        its content.
        """
        if isinstance(source := self.policy.tables[table].source, Fetched):
            return source.data
        found = self._files.get(table)
        if found is not None:
            part = owners.stored_table(self.policy.tables[table], self._databases, self.run)
            return tuple(replace(identified(path), part=part) for path in found.paths)
        known = self.fingerprint(table)
        return (DataIdentity(f"memory://{known}", lambda: known, part=table),)

    def interrupt(self, thread: int | None = None) -> None:
        """End every statement that is running, or those of one thread: they fail as ``EngineFailed``."""
        if os.getpid() == self._process:
            with self._lock:
                for cursor, owner in self._active.items():
                    if thread in (None, owner):
                        cursor.interrupt()

    def close(self) -> None:
        """End what is running and forget the data. A forked process leaves its parent's connection alone."""
        if os.getpid() == self._process:
            self.interrupt()
            with self._lock:
                self._process = 0
                self._parsed.clear()
                self._connection.close()
            self._spill.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _set_up(self, memory_limit: str | None, threads: int | None) -> None:
        for setting, value in _settings(self._spill.path, memory_limit, threads).items():
            self._execute(f"SET GLOBAL {setting} = {value}")
        self._relations = {each: self._open(table) for each, table in self.policy.tables.items()}
        paths = [path for found in self._files.values() for path in found.paths]
        for setting in (f"allowed_paths = [{listed(paths)}]", *_LOCK):
            self._execute(f"SET GLOBAL {setting}")
        for table in self.policy.tables.values():
            if table.declares:
                self._define(table, table.columns)
            self._check_ceiling(table)

    def _check_ceiling(self, table: Table) -> None:
        """Refuse a source with more rows than declared: now, when its owner opens it, and never in a question.

        Rows are not cut to the ceiling: which ones are left would depend on other units' rows.
        """
        if self._rows(table) > table.row_ceiling:
            raise InvalidPolicy(
                f"the source of {table.name} has more rows than its row_ceiling",
                place=f"tables.{table.name}.row_ceiling",
                fix="raise it if a question may take longer, or give a source with fewer rows",
            )

    def _rows(self, table: Table) -> int:
        """Count the rows of a source: of CSV files their lines, which were read already; of most others the engine
        knows.

        Where rows are found through another table, their copies for all owners are counted, and no copy is made.
        """
        relation, scan = self._relations[table.name], self._scans.get(table.name)
        if scan is not None and scan.owner is not None and scan.owner.links is not None:
            return int(self.run(copies(relation.sql, scan.owner))[0][0])
        if table.name in self._lines or not relation.columns:
            return self._lines.get(table.name, 0)
        return int(self.run(f"SELECT count(*) FROM {relation.sql}")[0][0])

    def _open(self, table: Table) -> Relation:
        if isinstance(table.source, InMemory):
            return self._copied(table, memory.frame(table.source.table, f"tables.{table.name}.source"))
        found, relation = owners.opened(table, self._databases, self._execute)
        if found.kind == "csv":
            self._lines[table.name] = files.checked_lines(found, f"tables.{table.name}.source")
        self._files[table.name] = found
        return relation

    def _copied(self, table: Table, source: memory.MemoryTable) -> Relation:
        """Copy the columns in use into a table of the engine's own: what becomes of the original changes nothing."""
        used = {*table.columns, *table.lists, *_naming(table, self.policy)}
        wanted = set(map(folded, used if table.declares else source.names))
        positions = [i for i, each in enumerate(source.names) if folded(each) in wanted]
        if not positions:
            return Relation("", ())
        place = f"tables.{table.name}.source"
        arrived = memory.arrow(source, positions, place)
        self._contents[table.name] = (), memory.fingerprint(arrived)
        copy = name(f"sf copy of {table.name}")  # no view can be called so
        making = f"CREATE TABLE {copy} AS SELECT * FROM {name(_ARRIVING)}"
        try:
            with self._cursor() as cursor:  # a registered table is known to its own cursor alone
                self._guarded(making, lambda: cursor.register(_ARRIVING, arrived).execute(making))
        except EngineFailed:
            raise memory.unreadable(place) from None
        return owners.of_memory(source, positions, self._execute(f"DESCRIBE {copy}"), copy)

    def _view(self, table: str) -> None:
        """Make the view of a public table whose columns are not declared, on its first use."""
        declared = self._declared(table)
        self._check_process()
        with self._defining:
            if table not in self._columns:
                self._define(declared, self._discovered(declared))

    def _discovered(self, table: Table) -> dict[str, Domain]:
        """Find what the data of a public table say of its columns; a CSV file is read once, into a copy for the
        while.
        """
        relation = self._relations[table.name]
        cells = dict(relation.plain_columns())
        if not cells:
            raise InvalidPolicy(
                "no column of this table can be named in a question",
                place=f"tables.{table.name}.source",
                fix="rename them to printable names of at most 63 letters that do not begin with sf_",
            )
        if table.name not in self._files or self._files[table.name].kind != "csv":
            kinds = {each: discovery.stored_kind(cell) for each, cell in cells.items()}
            typed = {each: (cell, Domain(kinds[each]), None) for each, cell in cells.items()}
            return discovery.domains(kinds, f"({TableScan(relation.sql, typed, None).statement})", self.run)
        copy = name(f"sf reading of {table.name}")  # no view can be called so
        self._execute(f"CREATE TABLE {copy} AS SELECT * FROM {relation.sql}")
        try:
            return discovery.written_domains(cells, copy, self.run)
        finally:
            self._execute(f"DROP TABLE {copy}")

    def _define(self, table: Table, columns: Mapping[str, Domain]) -> None:
        place, relation = f"tables.{table.name}", self._relations[table.name]
        cells = {
            each: (relation.cell(each, f"{place}.columns.{each}"), *self._enforced(table, domain))
            for each, domain in columns.items()
        }
        owner = Owners(self.policy, self._relations).of(table)
        lists = {each: self._list(table, each) for each in table.lists}
        scan = self._scans[table.name] = TableScan(relation.sql, cells, owner, lists)
        self._execute(f"CREATE OR REPLACE VIEW {name(f'sf_{table.name}')} AS {scan.statement}")
        self._columns[table.name] = dict(columns)

    def _list(self, table: Table, column: str) -> tuple[Cell, ListColumn, str | None]:
        """Find a column that is declared a list, which its source must store as one."""
        place, declared = f"tables.{table.name}.columns.{column}", table.lists[column]
        cell = self._relations[table.name].cell(column, place)
        if cell.item is None:
            raise InvalidPolicy(
                f"{column} is no list in its source",
                place=f"{place}.most_items",
                fix="leave most_items out; a CSV file has no lists, but Parquet, DuckDB and Arrow have them",
            )
        items, choices = self._enforced(table, declared.items)
        return cell, replace(declared, items=items), choices

    def _enforced(self, table: Table, domain: Domain) -> tuple[Domain, str | None]:
        """Say what the scan must see to: values found in public data hold already; many texts are an enumeration."""
        if domain.values is None or not table.declares:
            return replace(domain, values=None), None
        if domain.type is not Type.TEXT:
            return domain, None
        choices = name(f"sf values {self._enumerations}")  # two names may be joined by a space to the same text
        self._enumerations += 1
        self._execute(f"CREATE TYPE {choices} AS ENUM ({listed(domain.values)})")
        return domain, choices

    def _declared(self, table: str) -> Table:
        if table not in self.policy.tables:
            raise InvalidParameter("table", table, "one of " + ", ".join(self.policy.tables))
        return self.policy.tables[table]

    def _execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement of the set-up: it may define things."""
        with self._cursor() as cursor:
            return self._guarded(statement, lambda: cursor.execute(statement).fetchall())

    def _check_process(self) -> None:
        """Refuse a forked process before any lock is taken: one held at the moment of a fork is never released in the
        child.
        """
        if os.getpid() != self._process:
            raise EngineClosed

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        self._check_process()
        with self._lock:
            if not self._process:
                raise EngineClosed
            cursor = _finished(self._connection.cursor)
            self._active[cursor] = get_ident()
        try:
            yield cursor
        finally:
            with self._lock:
                del self._active[cursor]
            cursor.close()

    def _guarded(self, statement: str, action: Callable[[], T]) -> T:
        """Give what the action on a statement gives, and remember the statement for the log."""
        self.statements.append(statement)
        return _finished(action)

    def _known(self, cursor: duckdb.DuckDBPyConnection, statement: str) -> duckdb.Statement:
        """Read a text as the one SELECT that it is. A few are remembered: what is bound is run, and often again."""
        known = self._parsed.get(statement)
        if known is None:
            known = _one(cursor, statement)
            if len(self._parsed) >= _MOST_PARSED:
                self._parsed.clear()
            self._parsed[statement] = known
        return known


def _naming(table: Table, policy: Policy) -> set[str]:
    """List the columns that say whose rows a table has, its own and those of tables that are found through it."""
    found = {each.id.key for each in policy.tables.values() if isinstance(each.id, Via) and each.id.via == table.name}
    found |= {table.id.on} if isinstance(table.id, Via) else {table.id} if table.id else set()
    return found


def _finished(action: Callable[[], T]) -> T:
    """Give what the action gives, or ``EngineFailed`` without its cause: a cause may quote a cell."""
    try:
        return action()
    except Exception:  # whatever it was, what is said of it is the same
        pass
    raise EngineFailed


def _one(cursor: duckdb.DuckDBPyConnection, statement: str) -> duckdb.Statement:
    """Read a text as the one SELECT that it is, and refuse others: a second line of defence behind generating nothing
    else. What runs is what was read here.
    """
    found = cursor.extract_statements(statement)
    if [each.type.name for each in found] != ["SELECT"]:
        raise ValueError("not one SELECT")
    return found[0]


_LOCK = ("python_enable_replacements = false", "enable_external_access = false", "lock_configuration = true")


def _settings(spill: str, memory_limit: str | None, threads: int | None) -> dict[str, str]:
    """Answers depend on no setting but these: the zone is UTC, and what does not fit in memory spills in private."""
    settings = {
        "TimeZone": "'UTC'",
        "temp_directory": literal(spill),
        "preserve_insertion_order": "false",
        # Casts moved into the reader of a CSV file would drop the rows they fail on, question by question.
        "disabled_optimizers": "'type_pushdown,scalar_fn_pushdown'",
        # Ids that are whole numbers close together are counted in a table of their own: three times faster.
        "perfect_ht_threshold": "20",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    if memory_limit is not None:
        if not isinstance(memory_limit, str) or not _SIZE.fullmatch(memory_limit):
            raise InvalidParameter("memory_limit", memory_limit, "a size such as '4GiB'")
        settings["memory_limit"] = literal(memory_limit)
    if threads is not None:
        settings["threads"] = str(whole(threads, "threads", at_least=1))
    return settings


def schema(source: Path, relation: str | None = None) -> dict[str, Type | None]:
    """The column names of a file and their types (None in a CSV file, where all is text). No row is read."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        execute = partial(_described, connection)
        found, opened = owners.opened(Table("data", source, relation=relation, public=True), {}, execute)
        return {
            true: None if found.kind == "csv" else discovery.stored_kind(cell) for true, cell in opened.plain_columns()
        }


def unnamed_columns(source: Path, relation: str | None = None) -> list[str]:
    """List the columns of a file that no question can name, as the file calls them. No row is read."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        execute = partial(_described, connection)
        _, opened = owners.opened(Table("data", source, relation=relation, public=True), {}, execute)
        named = {id(cell) for _, cell in opened.plain_columns()}
        return [true for true, cell in opened.columns if id(cell) not in named]


_SNIFFED_ROWS, _SNIFFED_COLUMNS = 20_000, 100
"""How many rows the types of texts are told from, and of how many columns: the others stay texts."""


def written_types(source: Path, relation: str | None = None) -> dict[str, Type]:
    """Find the types of a table's columns: the stored ones, and of texts the first that every cell of many rows can be
    read as. A number that begins with a 0 is a code, and so a text. PRIVATE: it reads rows.
    """
    import duckdb

    with duckdb.connect(":memory:") as connection:
        execute = partial(_described, connection)
        _, opened = owners.opened(Table("data", source, relation=relation, public=True), {}, execute)
        cells = dict(opened.plain_columns())
        kinds = {each: discovery.stored_kind(cell) for each, cell in cells.items()}
        texts = {each: cell for each, cell in cells.items() if cell.family == "VARCHAR"}
        some = dict(list(texts.items())[:_SNIFFED_COLUMNS])
        if not some:
            return kinds
        read = ", ".join(cell.sql for cell in some.values())
        execute(f"CREATE TABLE sniffed AS SELECT {read} FROM {opened.sql} LIMIT {_SNIFFED_ROWS}")
        kinds |= discovery.written_kinds(some, "sniffed", execute)
        coded = ", ".join(f"bool_or(regexp_matches({cell.sql}, '^0[0-9]'))" for cell in some.values())
        codes = execute(f"SELECT {coded} FROM sniffed")[0]
        return kinds | {each: Type.TEXT for each, code in zip(some, codes, strict=True) if code and kinds[each].numeric}


def types_in_memory(table: Any) -> dict[str, Type]:
    """Find the types of the columns of a table in memory that can be named in a question."""
    import duckdb

    source = memory.frame(table, "df")
    positions = list(range(len(source.names)))
    arrived = memory.arrow(source, positions, "df")
    with duckdb.connect(":memory:") as connection:
        connection.register("arriving", arrived.slice(0, 0))
        described = _described(connection, "DESCRIBE SELECT * FROM arriving")
    found = owners.of_memory(source, positions, described, "arriving")
    return {each: discovery.stored_kind(cell) for each, cell in found.plain_columns()}


def tables(source: Path) -> list[str]:
    """List the tables and views of a DuckDB database; none for a file of another kind. No row is read."""
    import duckdb

    found = files.find(source, str(source))
    if found.kind != "duckdb":
        return []
    with duckdb.connect(":memory:") as connection:
        execute = partial(_described, connection)
        owners.attach(found, "sf database", str(source), execute)
        return owners.tables_in("sf database", execute)


def whole_table(source: Path, relation: str) -> Any:
    """Read all rows of a table or view in a DuckDB database into memory, as Arrow. PRIVATE."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        execute = partial(_described, connection)
        owners.attach(files.find(source, str(source)), "sf database", str(source), execute)
        named = ".".join(name(part) for part in ("sf database", *relation.split(".")))
        return connection.sql(f"SELECT * FROM {named}").to_arrow_table()


def write_table(rows: Any, place: Path, relation: str) -> None:
    """Write an Arrow table as a new one of a DuckDB database, which is made where it is not there."""
    import duckdb

    with duckdb.connect(place) as connection:
        connection.register("arriving", rows)
        *schemas, _ = parts = [name(part) for part in relation.split(".")]
        if schemas:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(schemas)}")
        connection.execute(f"CREATE TABLE {'.'.join(parts)} AS SELECT * FROM arriving")


def _described(connection: duckdb.DuckDBPyConnection, statement: str) -> list[tuple[Any, ...]]:
    try:
        return connection.execute(statement).fetchall()
    except Exception:  # as for every statement: the cause is not told
        raise EngineFailed from None
