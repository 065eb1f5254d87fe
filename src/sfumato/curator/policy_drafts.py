"""Draft a policy from the owner's files and answers; defaults come from names and types, never from a few rows.

Names, stored types and headers are read freely: they become public. Functions that read rows are marked PRIVATE and run
only with the owner's consent; they return types and cell rules, which are written if nearly all cells show them
(``cell_proposals``) or if the owner confirms them.

A drafted policy can be written again with bounds that were bought for it, with a comment.

List and remove the Parquet copies that were made of private tables for a policy.

A copy is recognised by what it records of its original, never by its name alone: a file of the owner's is not removed.
Copies are listed in the policy's folder of copies, with those that a crash left unfinished there, and among the
policy's sources, where an earlier version or a moved policy has them.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from sfumato.curator.cell_proposals import (
    CellFormat,
    CellProposal,
    frequent_texts_among_numbers,
    propose_formats,
    refuse_second_header,
)
from sfumato.curator.policy_account import LEDGER_NAME, read_policy
from sfumato.curator.proposals.stored_answers import Bounds
from sfumato.engine import file_copies
from sfumato.engine.file_copies import (
    UNFINISHED_ENDING,
    TextFormat,
    copies_folder,
    detect_text_format,
    recorded_origin,
    usable_names,
)
from sfumato.engine.inspecting import inferred_types, sample_texts, schema, tables, unusable_columns
from sfumato.errors import InvalidPolicy
from sfumato.policy import File, Policy, Table, Type, Via
from sfumato.policy.cell_rules import CellRules
from sfumato.policy.toml_files import to_toml
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True)
class TableCopies:
    """The copies of a policy's tables, and what a removal leaves in place."""

    policy: Path
    originals_by_copy: dict[Path, Path | None]
    """Each copy with its original; None for one that was never finished."""
    other_files: tuple[Path, ...]
    """Files in the folder of copies that are no copies."""
    missing: tuple[Path, ...] = ()
    """Copies that the policy names and that are not there any more."""

    @property
    def remaining_files(self) -> tuple[Path, ...]:
        """The files that stay: the policy, its ledger, the originals, and what else is in the folder."""
        originals = dict.fromkeys(original for original in self.originals_by_copy.values() if original is not None)
        candidates = (self.policy, self.policy.absolute().with_name(LEDGER_NAME), *originals, *self.other_files)
        return tuple(path for path in candidates if path.exists())

    @property
    def without_original(self) -> tuple[Path, ...]:
        """Copies whose original is gone: they may be the only place of these rows."""
        return tuple(
            copy for copy, original in self.originals_by_copy.items() if original is not None and not original.exists()
        )

    def remove(self) -> None:
        """Delete the copies, and their folder if nothing else is in it."""
        for copy in self.originals_by_copy:
            try:
                copy.unlink(missing_ok=True)
            except OSError:
                raise InvalidPolicy(
                    "a copy of a private table could not be removed",
                    place=str(copy),
                    fix="check the permissions of its folder",
                ) from None
        folder = copies_folder(self.policy)
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            folder.rmdir()


def find_copies(policy: Path) -> TableCopies:
    """List the copies of a policy; of one that was never written, those in its folder of copies. No row is read."""
    folder = copies_folder(policy)
    folder_files = sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []
    if not policy.exists() and not folder_files:
        raise InvalidPolicy(
            "there is no policy file here, and no folder with copies of its tables",
            place=str(policy),
            fix="check the path of the policy",
        )
    copies: dict[Path, Path | None] = {}
    for path in dict.fromkeys((*folder_files, *_declared_source_files(policy))):
        origin = None if path.is_symlink() else recorded_origin(path)
        if origin is not None:
            copies[path] = origin.original_path(path)
        elif path.parent == folder and path.name.endswith(f".parquet{UNFINISHED_ENDING}"):
            copies[path] = None
    missing = tuple(path for path in _declared_source_files(policy) if path.parent == folder and not path.exists())
    return TableCopies(policy, copies, tuple(path for path in folder_files if path not in copies), missing)


def _declared_source_files(policy: Path) -> list[Path]:
    tables = read_policy(policy).tables.values() if policy.exists() else ()
    return [table.source.path.absolute() for table in tables if isinstance(table.source, File)]


Columns = Mapping[str, Type | None]
_PERSON_WORDS = (
    *("person", "patient", "user", "customer", "client", "member", "player", "student", "subject", "participant"),
    *("household", "visitor", "respondent", "employee", "citizen", "p", "u"),
)
_ID_ENDINGS = ("id", "uuid", "key", "number", "num", "nr", "no")
"""Suffixes after the word for a unit, or its first letter, in a key's name; the surest first."""
_WORD_ENDINGS = ("identifier", "numero", "nummer", "", "code")
"""Suffixes after the whole word only. A code may also be a category, so it comes last."""
_ID_BEGINNINGS = ("id", "identifier", "numero")
"""Prefixes before the word. A number is not one: num_patients is a count."""
_NUMERO_SIGNS = ("n°", "nº", "№")
"""Signs for numero, of which normalisation would leave a lone n."""
_IDENTIFYING_NAMES = {
    *("name", "fullname", "firstname", "lastname", "surname", "givenname", "familyname", "maidenname", "username"),
    *("email", "emailaddress", "mail", "phone", "phonenumber", "telephone", "mobile", "address", "street", "ssn"),
    *("iban", "passport", "passportnumber", "ip", "ipaddress", "licenseplate"),
    *("nom", "prenom", "nomcomplet", "nomdefamille", "courriel", "adresse", "rue", "vorname", "nachname", "anschrift"),
    *("strasse", "telefon", "handy", "apellido", "apellidos", "correo", "direccion", "telefono", "nome", "cognome"),
    *("indirizzo", "sobrenome", "endereco", "naam", "achternaam", "adres"),
}
"""Names of identifying columns in English, French, German, Spanish, Italian, Portuguese and Dutch."""
_BOUNDS_BY_WORD = {
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
"""Bounds implied by a column's name, looked up without accents."""


def suggested_unit(tables: Sequence[Columns]) -> str:
    """Return the word in the person keys of all tables, such as patient of patient_id, if unique; else person."""
    unit_words = {word for columns in tables for word in _PERSON_WORDS[1:] if suggested_id(columns, word)} - {"p", "u"}
    return unit_words.pop() if len(unit_words) == 1 else _PERSON_WORDS[0]


def suggested_id(columns: Columns, unit: str) -> str | None:
    """Return the column that identifies the unit, from names and types alone; None if there is none.

    For a player: player_id, PlayerNr or N° player; for a person, the keys of all words for people. A key of something
    else is never suggested: with it as the unit, a person with several of them would not be protected as a whole.
    """
    unit_words = (_normalized_alphanumeric(unit), *(_PERSON_WORDS if unit == "person" else ()))
    columns_by_name: dict[str, str] = {}
    for name in _columns_of_key_type(columns):
        columns_by_name.setdefault(_normalized_alphanumeric(name), name)
    return next(
        (columns_by_name[key] for word in unit_words for key in _id_column_spellings(word) if key in columns_by_name),
        None,
    )


def _id_column_spellings(word: str) -> list[str]:
    """List the possible names of a unit's key, normalised, the surest first."""
    short_keys = [word + ending for ending in _ID_ENDINGS]
    if len(word) == 1:
        return short_keys
    return [
        *short_keys,
        *(word + ending for ending in _WORD_ENDINGS),
        *(beginning + word for beginning in _ID_BEGINNINGS),
    ]


def only_key_like_column(columns: Columns) -> str | None:
    """Return the only column named like a key, which may be the key of something other than the unit."""
    keys = [name for name in _columns_of_key_type(columns) if is_key_name(name)]
    return keys[0] if len(keys) == 1 else None


def _columns_of_key_type(columns: Columns) -> list[str]:
    return [name for name, column_type in columns.items() if column_type in (None, Type.INTEGER, Type.TEXT)]


def is_key_name(name: str) -> bool:
    """Return whether a column is named like an id or a foreign key."""
    letters = _normalized_alphanumeric(name)
    return letters == "id" or (
        letters.endswith(("id", "uuid", "key"))
        and (name.lower().endswith(("_id", " id", "-id", "key", "uuid")) or name.endswith(("ID", "Id")))
    )


def is_identifying_name(column: str) -> bool:
    """Return whether a column is named like an identifying one, or like a key: no question needs it."""
    return is_key_name(column) or _normalized_alphanumeric(column) in _IDENTIFYING_NAMES | _PERSON_KEYS


def suggested_via(name: str, unit: str, tables: Mapping[str, Columns]) -> Via | None:
    """Return the table through which rows without ids probably belong to units: one that shares a key and has their
    ids.
    """
    for column in tables[name]:
        for other, other_columns in tables.items():
            if other != name and is_key_name(column) and column in other_columns and suggested_id(other_columns, unit):
                return Via(other, column)
    return None


def suggested_bounds(name: str, column_type: Type) -> str:
    """Return the bounds implied by the name of a numeric column; empty if there are none."""
    words = {*_normalized_words(name), _normalized_alphanumeric(name)}
    return (
        next((bounds for word, bounds in _BOUNDS_BY_WORD.items() if word in words), "") if column_type.numeric else ""
    )


def _normalized_alphanumeric(name: str) -> str:
    return "".join(letter for letter in _casefold_without_accents(name) if letter.isalnum())


def _normalized_words(name: str) -> list[str]:
    return "".join(letter if letter.isalpha() else " " for letter in _casefold_without_accents(name)).split()


def _casefold_without_accents(name: str) -> str:
    """Remove case and accents, and expand the signs for numero."""
    normalized = name.casefold()
    for sign in _NUMERO_SIGNS:
        normalized = normalized.replace(sign, _ID_BEGINNINGS[-1])
    decomposed = unicodedata.normalize("NFKD", normalized)
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


_PERSON_KEYS = {key for word in _PERSON_WORDS for key in _id_column_spellings(word)} - {*_PERSON_WORDS}


def unique_table_names(proposed: Sequence[str]) -> list[str]:
    """Assign unique table names by appending numbers to repeated ones."""
    unique_table_names: list[str] = []
    for name in proposed:
        candidate, number = name, 1
        while candidate.lower() in {taken.lower() for taken in unique_table_names}:
            number += 1
            candidate = f"{name}_{number}"
        unique_table_names.append(candidate)
    return unique_table_names


def refuse_existing_output(output: Path) -> None:
    """Refuse to draft into an existing file."""
    if output.exists():
        raise InvalidPolicy(
            "an existing file is never overwritten",
            place=str(output),
            fix="choose another name with -o, or move the file away first",
        )


def write_draft(policy: Policy, output: Path) -> None:
    """Write a policy to a new file, with its sources relative to it."""
    text = to_toml(policy, output.parent)
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        raise InvalidPolicy(
            "the policy cannot be written", place=str(output), fix="choose another path with -o"
        ) from None


_FILE_TYPES = "a CSV, TSV, .csv.gz, Parquet, DuckDB or SQLite file"


@dataclass(frozen=True)
class TextOptions:
    """The owner's description of text files; None is detected."""

    separator: str | None = None
    encoding: str | None = None
    quote: str | None = None
    decimal: str = "."


@dataclass(frozen=True)
class DetectedTable:
    """A table in a file, with its column names and the types that the file stores."""

    file: Path
    relation: str | None
    columns: dict[str, Type | None]
    unusable_columns: tuple[str, ...] = ()
    """Columns whose names cannot be used in questions."""
    copy_reasons: tuple[str, ...] = ()
    """Why to copy it, in words; empty if a copy has no advantage."""
    readable_in_place: bool = True
    """Whether the engine can also read the original, with fewer columns than a copy has."""
    original: Path | None = None
    """The file that was copied, if this is a copy."""
    text_format: TextFormat | None = None
    types_inferred: bool = False
    """Whether types were inferred from cells."""
    proposals: Mapping[str, CellProposal] = field(default_factory=dict)
    """How texts of columns are proposed to be read. PRIVATE unless they are certain."""
    nonnumeric_texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The frequent texts that keep a column of numbers from being one. PRIVATE."""
    is_text: bool = False
    """Whether the owner named a text file."""
    decimal: str = "."
    """The decimal separator that the owner gave for a text file."""

    @property
    def original_or_file(self) -> Path:
        """The file that the owner named."""
        return self.original or self.file

    @property
    def label(self) -> str:
        """The table in words."""
        return self.file.name if self.relation is None else f"{self.relation} in {self.file.name}"

    @property
    def suggested_name(self) -> str:
        """A table name derived from the file's name, of letters, digits and _."""
        stem = self.file.name.partition(".")[0] if self.relation is None else self.relation
        return "".join(letter if letter.isalnum() else "_" for letter in stem)[:60] or "data"


def expand_data_files(paths: Sequence[Path]) -> list[Path]:
    """List the files that hold tables: those given, and all readable ones of a given folder.

    A copy that was made of another file in the folder is not listed.
    """
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            if file_copies.detect_file_kind(path) is None:
                raise InvalidPolicy(
                    "the type of this file cannot be recognised from its extension",
                    place=str(path),
                    fix=f"name {_FILE_TYPES}",
                )
            files.append(path)
            continue
        folder_files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
        table_files = [file for file in folder_files if _is_original_data_file(file)]
        if not table_files:
            raise InvalidPolicy(
                "this folder contains no file with a table", place=str(path), fix=f"put {_FILE_TYPES} into the folder"
            )
        files += table_files
    return files


def _is_original_data_file(path: Path) -> bool:
    if path.suffix == ".txt" or (path.suffix in (".parquet", ".pq") and file_copies.recorded_origin(path) is not None):
        return False
    return file_copies.detect_file_kind(path) is not None


def text_and_sqlite_files(files: Sequence[Path]) -> list[Path]:
    """List the files whose rows must be read to infer column types, or their format."""
    return [file for file in files if file_copies.detect_file_kind(file) in ("text", "sqlite")]


def detect_tables(path: Path, options: TextOptions, *, read_rows: bool) -> list[DetectedTable]:
    """List the tables of a file. With ``read_rows`` all of a text file is read to detect its format; then PRIVATE."""
    file_type = file_copies.detect_file_kind(path)
    if file_type == "text":
        return [_detect_text_table(path, options, read_rows)]
    if file_type == "sqlite":
        copy_reasons = ("the engine does not open SQLite databases",)
        return [
            DetectedTable(
                path,
                name,
                *_usable_columns_and_other_names(columns),
                copy_reasons=copy_reasons,
                readable_in_place=False,
            )
            for name, columns in file_copies.sqlite_tables(path).items()
        ]
    relations: list[str | None] = [*tables(path)] if file_type == "duckdb" else [None]
    if not relations:
        raise InvalidPolicy(
            "this database has no tables", place=str(path), fix="check the path, or create a table in the database"
        )
    return [
        DetectedTable(path, relation, _require_stored_columns(path, relation), tuple(unusable_columns(path, relation)))
        for relation in relations
    ]


def _detect_text_table(path: Path, options: TextOptions, read_rows: bool) -> DetectedTable:
    text_format = detect_text_format(
        path, read_rows=read_rows, separator=options.separator, encoding=options.encoding, quote=options.quote
    )
    return DetectedTable(
        path,
        None,
        *_usable_columns_and_other_names(dict.fromkeys(text_format.names)),
        copy_reasons=(*text_format.reasons, *text_format.naming_reasons),
        readable_in_place=not text_format.reasons,
        text_format=text_format,
        is_text=True,
        decimal=options.decimal,
    )


def _usable_columns_and_other_names(columns: dict[str, Type | None]) -> tuple[dict[str, Type | None], tuple[str, ...]]:
    """Return the columns that a question can name, and the names of the others."""
    usable = set(usable_names(list(columns)))
    usable_columns = {name: column_type for name, column_type in columns.items() if name in usable}
    return usable_columns, tuple(name for name in columns if name not in usable)


def _require_stored_columns(path: Path, relation: str | None) -> dict[str, Type | None]:
    columns = schema(path, relation)
    if not columns:
        raise InvalidPolicy(
            "a policy can use only columns with names of 1 to 63 visible characters, and here no column has one",
            place=str(path),
            fix="rename the columns in the file",
        )
    return columns


def copy_table_and_count_skipped(table: DetectedTable, target: Path) -> tuple[DetectedTable, int]:
    """Copy a table as Parquet to ``target``; return it with the number of records lost. PRIVATE."""
    if table.text_format is not None:
        copy = file_copies.copy_text(table.file, table.text_format, target)
    else:
        copy = file_copies.copy_sqlite(table.file, table.relation or "", target)
    stored_types = table.columns
    columns = {name: stored_types.get(name) for name in schema(copy.path)}
    return replace(
        table,
        file=copy.path,
        original=table.file,
        relation=None,
        columns=columns,
        unusable_columns=(),
        copy_reasons=(),
        readable_in_place=True,
        text_format=None,
    ), copy.skipped_records


def infer_types(table: DetectedTable, nulls: Collection[str] = ()) -> DetectedTable:
    """Infer the types of text columns from their cells, without those that the owner calls missing, and propose how the
    others are read. PRIVATE.

    SQLite has no date type, so a column that it stores as text is one of dates if nearly every cell is.
    """
    if table.original is None and all(kind not in (None, Type.TEXT) for kind in table.columns.values()):
        return table  # the file stores all types itself; a copy has texts, whatever the original declares
    sampled = sample_texts(table.file, table.relation, list(table.columns))
    if table.is_text:
        refuse_second_header(sampled, table.original_or_file)
    inferred = inferred_types(table.file, table.relation, nulls)
    columns = {name: _merge_type(column_type, inferred.get(name)) for name, column_type in table.columns.items()}
    unread = [name for name in columns if columns[name] in (None, Type.TEXT) or inferred.get(name) is Type.TEXT]
    unread_texts = {name: texts for name, texts in sampled.items() if name in unread}
    proposals = {
        name: proposal
        for name, proposal in propose_formats(unread_texts, decimal=table.decimal, nulls=nulls).items()
        if _fits_stored_type(proposal.format, table.columns[name])
    }
    columns |= {name: proposal.format.type for name, proposal in proposals.items() if proposal.is_certain}
    texts = {name: cells for name, cells in unread_texts.items() if columns[name] in (None, Type.TEXT)}
    nonnumeric_texts = frequent_texts_among_numbers(texts, nulls)
    return replace(table, columns=columns, proposals=proposals, nonnumeric_texts=nonnumeric_texts, types_inferred=True)


def _merge_type(stored: Type | None, inferred: Type | None) -> Type | None:
    """Combine the stored type of a column with that inferred from its cells: a text may be a date."""
    if stored is Type.TEXT and inferred in (Type.DATE, Type.TIMESTAMP):
        return inferred
    return stored or inferred


def _fits_stored_type(cell_format: CellFormat, stored: Type | None) -> bool:
    """Return whether a format may replace a stored type: a text that is a number without any rule may be a code."""
    if stored is None:
        return True
    has_rules = cell_format.rules != CellRules()
    return stored in (Type.TEXT, cell_format.type) and (has_rules or cell_format.type.temporal)


def ordered_columns_without_bounds(policy: Policy) -> list[tuple[str, str]]:
    """List the columns, by table and name, for which bounds can be found: numbers and dates without declared ones."""
    return [
        (table.name, name)
        for table in policy.tables.values()
        if not table.public
        for name, domain in table.columns.items()
        if (domain.type.numeric or domain.type.temporal) and domain.range is None and name != table.id
    ]


def write_bounds(policy: Policy, output: Path, bounds_by_column: Mapping[tuple[str, str], Bounds]) -> None:
    """Rewrite a drafted policy atomically with the bounds that were found."""
    usable_bounds = {column: bounds for column, bounds in bounds_by_column.items() if bounds.bounds is not None}
    if not usable_bounds:
        return
    tables = {name: _with_bounds(table, usable_bounds) for name, table in policy.tables.items()}
    notes = {column: _bounds_comment(bounds) for column, bounds in usable_bounds.items()}
    text = to_toml(replace(policy, tables=tables), output.parent, notes)
    temporary = output.with_name(f"{output.name}.new")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, output)
    except OSError:
        fix = "paste these lines into it: " + "; ".join(
            f"{column[1]}: {bounds.toml}" for column, bounds in usable_bounds.items()
        )
        raise InvalidPolicy(
            "the bounds were bought, but the policy file cannot be changed", place=str(output), fix=fix
        ) from None


def _with_bounds(table: Table, usable_bounds: Mapping[tuple[str, str], Bounds]) -> Table:
    columns: dict[str, Any] = {**table.columns, **table.lists}
    for (name, column), bounds in usable_bounds.items():
        if name == table.name:
            columns[column] = replace(table.columns[column], bounds=bounds.bounds)
    return replace(table, columns=columns)


def _bounds_comment(bounds: Bounds) -> str:
    ledger_line = "" if bounds.receipt is None else f", line {bounds.receipt.line} of the ledger"
    return f"These bounds were found privately for {bounds.purchase.price}{ledger_line}."
