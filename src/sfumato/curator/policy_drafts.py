"""A policy is drafted from what its owner answers: defaults come from names and types alone, never from rows.

The files of a data owner are looked at here, to draft a policy for them: which tables they hold, and how.

Names, stored types and headers are read freely: they become public. Whatever reads a row is marked PRIVATE and done
when the owner said so; of what it finds only types are given back, which the owner confirms before they are written.

A policy is written again with the bounds that were bought for it, and a comment that says so.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sfumato.curator.proposals.found_bounds import Bounds
from sfumato.engine import file_copies
from sfumato.engine.file_copies import TextFormat
from sfumato.engine.opening import schema, tables, unnamed_columns, written_types
from sfumato.errors import InvalidPolicy
from sfumato.policy import Policy, Table, Type, Via
from sfumato.policy.drafting import drafted

Columns = Mapping[str, Type | None]

_PEOPLE = (
    *("person", "patient", "user", "customer", "client", "member", "player", "student", "subject", "participant"),
    *("household", "visitor", "respondent", "employee", "citizen", "p", "u"),
)
_ID_ENDINGS = ("id", "uuid", "key", "number", "num", "nr", "no")
"""What follows the word for a unit, or its first letter, in the name of its key: the surest first."""
_LONG_ENDINGS = ("identifier", "numero", "nummer", "", "code")
"""What may follow the word alone. A code may as well be a kind of unit, so it is the last to be taken for a key."""
_ID_BEGINNINGS = ("id", "identifier", "numero")
"""What comes before that word. A number does not: num_patients counts them."""
_NUMERO = ("n°", "nº", "№")
"""How numero is written short; without accents and signs a lone n would be left."""
_NAMING = {
    *("name", "fullname", "firstname", "lastname", "surname", "givenname", "familyname", "maidenname", "username"),
    *("email", "emailaddress", "mail", "phone", "phonenumber", "telephone", "mobile", "address", "street", "ssn"),
    *("iban", "passport", "passportnumber", "ip", "ipaddress", "licenseplate"),
    *("nom", "prenom", "nomcomplet", "nomdefamille", "courriel", "adresse", "rue", "vorname", "nachname", "anschrift"),
    *("strasse", "telefon", "handy", "apellido", "apellidos", "correo", "direccion", "telefono", "nome", "cognome"),
    *("indirizzo", "sobrenome", "endereco", "naam", "achternaam", "adres"),
}
"""What columns are called that name one person, in English, French, German, Spanish, Italian, Portuguese or Dutch."""
_RANGES = {
    "age": "0 120",
    "year": "1900 2100",
    "month": "1 12",
    "weekday": "1 7",
    "hour": "0 23",
    "minute": "0 59",
    "percent": "0 100",
    "latitude": "-90 90",
    "longitude": "-180 180",
    **dict.fromkeys(("alter", "edad", "eta", "idade", "leeftijd"), "0 120"),
    **dict.fromkeys(("jahr", "annee", "ano", "anno", "jaar"), "1900 2100"),
    **dict.fromkeys(("monat", "mois", "mes", "mese", "maand"), "1 12"),
}
"""Bounds that a name says by itself. Accents are left out of names before they are looked up here."""


def suggested_unit(tables: Sequence[Columns]) -> str:
    """Find the one word that the keys of people in all tables are called by, such as patient of patient_id; or else
    person.
    """
    found = {word for columns in tables for word in _PEOPLE[1:] if suggested_id(columns, word)} - {"p", "u"}
    return found.pop() if len(found) == 1 else _PEOPLE[0]


def suggested_id(columns: Columns, unit: str) -> str | None:
    """Find the column that is called like the unit, or like people where that is the unit: from names and types alone,
    such as player_id, PlayerNr or N° player where a player is protected. A key of another thing is no such column: with
    it as the unit, a person with several of them would not be protected as a whole.
    """
    owners = (_letters(unit), *(_PEOPLE if unit == "person" else ()))
    called: dict[str, str] = {}
    for name in _possible_keys(columns):
        called.setdefault(_letters(name), name)
    return next((called[key] for owner in owners for key in _keys_of(owner) if key in called), None)


def _keys_of(owner: str) -> list[str]:
    """List what the key of a unit may be called, in plain letters, the surest first."""
    short = [owner + ending for ending in _ID_ENDINGS]
    if len(owner) == 1:
        return short
    return [
        *short,
        *(owner + ending for ending in _LONG_ENDINGS),
        *(beginning + owner for beginning in _ID_BEGINNINGS),
    ]


def only_key(columns: Columns) -> str | None:
    """Find the one column that is called as keys are; it may be a key of something that is not the unit."""
    keys = [name for name in _possible_keys(columns) if is_key(name)]
    return keys[0] if len(keys) == 1 else None


def _possible_keys(columns: Columns) -> list[str]:
    return [name for name, kind in columns.items() if kind in (None, Type.INTEGER, Type.TEXT)]


def is_key(name: str) -> bool:
    """Return whether a column is called as ids and foreign keys are."""
    letters = _letters(name)
    return letters == "id" or (
        letters.endswith(("id", "uuid", "key"))
        and (name.lower().endswith(("_id", " id", "-id", "key", "uuid")) or name.endswith(("ID", "Id")))
    )


def names_people(column: str) -> bool:
    """Return whether a column is called as what names one person, or as a key: nobody needs to ask about it."""
    return is_key(column) or _letters(column) in _NAMING | _KEYS_OF_PEOPLE


def suggested_path(name: str, unit: str, tables: Mapping[str, Columns]) -> Via | None:
    """Find the table through which a table without ids probably finds whose its rows are: one that shares a key with
    it and knows its units.
    """
    for column in tables[name]:
        for other, known in tables.items():
            if other != name and is_key(column) and column in known and suggested_id(known, unit):
                return Via(other, column)
    return None


def suggested_bounds(name: str, kind: Type) -> str:
    """Return bounds that the name of a column of whole numbers or reals says by itself; nothing where it does not."""
    words = {*_words(name), _letters(name)}
    return next((ends for word, ends in _RANGES.items() if word in words), "") if kind.numeric else ""


def _letters(name: str) -> str:
    return "".join(letter for letter in _plain(name) if letter.isalnum())


def _words(name: str) -> list[str]:
    return "".join(letter if letter.isalpha() else " " for letter in _plain(name)).split()


def _plain(name: str) -> str:
    """Leave out case and accents, and write numero in full."""
    whole = name.casefold()
    for short in _NUMERO:
        whole = whole.replace(short, _ID_BEGINNINGS[-1])
    apart = unicodedata.normalize("NFKD", whole)
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


_KEYS_OF_PEOPLE = {key for word in _PEOPLE for key in _keys_of(word)} - {*_PEOPLE}


def own_names(proposed: Sequence[str]) -> list[str]:
    """Assign every table a name of its own: the second of two that are called alike has a number."""
    found: list[str] = []
    for name in proposed:
        called, number = name, 1
        while called.lower() in {each.lower() for each in found}:
            number += 1
            called = f"{name}_{number}"
        found.append(called)
    return found


def refuse_if_written(output: Path) -> None:
    """Refuse to draft into a file that exists: it is never overwritten."""
    if output.exists():
        raise InvalidPolicy(
            "an existing file is never overwritten",
            place=str(output),
            fix="choose another with -o, or move it away first",
        )


def write_draft(policy: Policy, output: Path) -> None:
    """Write a policy to a new file, with its sources relative to it."""
    text = drafted(policy, output.parent)
    try:
        with output.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except OSError:
        raise InvalidPolicy(
            "the policy cannot be written", place=str(output), fix="choose another place with -o"
        ) from None


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
    spelling: TextFormat | None = None
    rows_read: bool = False
    """Whether types were told from cells."""

    @property
    def label(self) -> str:
        """Describe which table it is, as people would."""
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
    return [file for file in files if file_copies.kind(file) in ("text", "sqlite")]


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
    return [
        FoundTable(path, relation, _columns(path, relation), tuple(unnamed_columns(path, relation)))
        for relation in relations
    ]


def _text_table(path: Path, how: HowWritten, rows: bool) -> FoundTable:
    found = file_copies.spelling(path, rows=rows, separator=how.separator, encoding=how.encoding, quote=how.quote)
    if how.decimal != ".":
        found = replace(found, reasons=(*found.reasons, "its numbers have decimal commas"))
    names = file_copies.renamed(found.names) if found.reasons else found.names
    return FoundTable(path, None, *_named(dict.fromkeys(names)), reasons=found.reasons, spelling=found)


def _named(columns: dict[str, Type | None]) -> tuple[dict[str, Type | None], tuple[str, ...]]:
    """Return the columns that a question can name, and then the names of the others."""
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


def columns_without_bounds(policy: Policy) -> list[tuple[str, str]]:
    """List the columns that bounds can be found for, by table and name: numbers and dates that declare nothing."""
    return [
        (table.name, name)
        for table in policy.tables.values()
        if not table.public
        for name, domain in table.columns.items()
        if (domain.type.numeric or domain.type.temporal) and domain.range is None and name != table.id
    ]


def write_bounds(policy: Policy, output: Path, found: Mapping[tuple[str, str], Bounds]) -> None:
    """Write a drafted policy again with the bounds that were found; the old file stands until the new one is whole."""
    known = {place: each for place, each in found.items() if each.ends is not None}
    if not known:
        return
    tables = {name: _with_bounds(table, known) for name, table in policy.tables.items()}
    notes = {place: _note(each) for place, each in known.items()}
    text = drafted(replace(policy, tables=tables), output.parent, notes)
    beside = output.with_name(f"{output.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, output)
    except OSError:
        fix = "paste what was printed: " + "; ".join(f"{place[1]}: {each.toml}" for place, each in known.items())
        raise InvalidPolicy("the policy cannot be written again", place=str(output), fix=fix) from None


def _with_bounds(table: Table, known: Mapping[tuple[str, str], Bounds]) -> Table:
    columns: dict[str, Any] = {**table.columns, **table.lists}
    for (name, column), each in known.items():
        if name == table.name:
            columns[column] = replace(table.columns[column], bounds=each.ends)
    return replace(table, columns=columns)


def _note(found: Bounds) -> str:
    bought = "" if found.receipt is None else f", line {found.receipt.line} of the ledger"
    return f"These bounds were not typed: they were found privately for {found.purchase.price}{bought}."
