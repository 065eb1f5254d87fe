"""The files of a data owner are looked at here, to draft a policy for them: which tables they hold, and how.

Names, stored types and headers are read freely: they become public. Whatever reads a row is marked PRIVATE and done
when the owner said so; of what it finds only types are given back, which the owner confirms before they are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sfumato.engine import file_copies
from sfumato.engine.file_copies import Spelling
from sfumato.engine.opening import schema, tables, unnamed_columns, written_types
from sfumato.errors import InvalidPolicy
from sfumato.policy import Type

_KINDS = "a CSV, TSV, .csv.gz, Parquet, DuckDB or SQLite file"


@dataclass(frozen=True)
class HowWritten:
    """An owner may say how text files are written; what is None is found out."""

    separator: str | None = None
    encoding: str | None = None
    quote: str | None = None
    decimal: str = "."


@dataclass(frozen=True)
class FoundTable:
    """A table was found in a file, with the names of its columns and the types that the file says."""

    file: Path
    relation: str | None
    columns: dict[str, Type | None]
    left_out: tuple[str, ...] = ()
    """Columns that no question can name."""
    reasons: tuple[str, ...] = ()
    """Why the engine cannot read it before it is copied, in words."""
    spelling: Spelling | None = None
    rows_read: bool = False
    """Whether types were told from cells."""

    @property
    def label(self) -> str:
        """Say which table it is, as people would."""
        return self.file.name if self.relation is None else f"{self.relation} in {self.file.name}"

    @property
    def plain_name(self) -> str:
        """Propose a name for the table: that of its file, of letters, digits and _."""
        stem = self.file.name.partition(".")[0] if self.relation is None else self.relation
        return "".join(letter if letter.isalnum() else "_" for letter in stem)[:60] or "data"


def data_files(given: Sequence[Path]) -> list[Path]:
    """List the files that hold tables: those given, and of a folder all of a kind that can be read. A copy that was
    made of a file in the same folder is not listed beside it.
    """
    found: list[Path] = []
    for path in given:
        if not path.is_dir():
            if file_copies.kind(path) is None:
                raise InvalidPolicy("the kind of a file is told by its ending", place=str(path), fix=f"name {_KINDS}")
            found.append(path)
            continue
        inside = sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith("."))
        listed = [each for each in inside if _is_data(each)]
        if not listed:
            raise InvalidPolicy("no file in this folder holds a table", place=str(path), fix=f"put {_KINDS} into it")
        found += listed
    return found


def _is_data(path: Path) -> bool:
    if path.suffix == ".txt" or (path.suffix in (".parquet", ".pq") and file_copies.copy_of(path) is not None):
        return False
    return file_copies.kind(path) is not None


def rows_to_read(files: Sequence[Path]) -> list[Path]:
    """List the files whose rows must be read to know the types of their columns, or how they are written."""
    return [each for each in files if file_copies.kind(each) in ("text", "sqlite")]


def found_tables(path: Path, how: HowWritten, *, rows: bool) -> list[FoundTable]:
    """List the tables of a file. With ``rows`` every byte of a text file is looked at, to know how it is written.
    PRIVATE then.
    """
    kind = file_copies.kind(path)
    if kind == "text":
        return [_text_table(path, how, rows)]
    if kind == "sqlite":
        why = ("the engine does not open SQLite databases",)
        return [
            FoundTable(path, name, *_named(columns), reasons=why)
            for name, columns in file_copies.sqlite_tables(path).items()
        ]
    relations: list[str | None] = [*tables(path)] if kind == "duckdb" else [None]
    if not relations:
        raise InvalidPolicy("this database holds no table", place=str(path), fix="create one in it first")
    return [FoundTable(path, each, _columns(path, each), tuple(unnamed_columns(path, each))) for each in relations]


def _text_table(path: Path, how: HowWritten, rows: bool) -> FoundTable:
    found = file_copies.spelling(path, rows=rows, separator=how.separator, encoding=how.encoding, quote=how.quote)
    if how.decimal != ".":
        found = replace(found, reasons=(*found.reasons, "its numbers have decimal commas"))
    names = file_copies.renamed(found.names) if found.reasons else found.names
    return FoundTable(path, None, *_named(dict.fromkeys(names)), reasons=found.reasons, spelling=found)


def _named(columns: dict[str, Type | None]) -> tuple[dict[str, Type | None], tuple[str, ...]]:
    """Give the columns that a question can name, and then the names of the others."""
    usable = set(file_copies.usable(list(columns)))
    kept = {name: kind for name, kind in columns.items() if name in usable}
    return kept, tuple(name for name in columns if name not in usable)


def _columns(path: Path, relation: str | None) -> dict[str, Type | None]:
    found = schema(path, relation)
    if not found:
        raise InvalidPolicy(
            "a policy names columns by visible letters, at most 63; no column here is called so",
            place=str(path),
            fix="rename them",
        )
    return found


def copied(table: FoundTable, how: HowWritten) -> tuple[FoundTable, int]:
    """Copy a table that the engine cannot read as it is, and tell how many records are not in the copy. PRIVATE."""
    if table.spelling is not None:
        made = file_copies.copy_text(table.file, table.spelling, decimal=how.decimal)
    else:
        made = file_copies.copy_sqlite(table.file, table.relation or "")
    declared = table.columns
    columns = {name: declared.get(name) for name in schema(made.path)}
    return replace(table, file=made.path, relation=None, columns=columns, reasons=(), spelling=None), made.lost


def with_types(table: FoundTable) -> FoundTable:
    """Find the types of columns whose file stores texts, from their cells. PRIVATE.

    SQLite has no type for dates, so that a column that it calls a text is one of dates where every cell is.
    """
    if all(kind not in (None, Type.TEXT) for kind in table.columns.values()):
        return table
    found = written_types(table.file, table.relation)
    columns = {name: _type(kind, found.get(name)) for name, kind in table.columns.items()}
    return replace(table, columns=columns, rows_read=True)


def _type(declared: Type | None, written: Type | None) -> Type | None:
    """Choose between what a file calls a column and what its cells can be read as: a text may be a date."""
    if declared is Type.TEXT and written in (Type.DATE, Type.TIMESTAMP):
        return written
    return declared or written
