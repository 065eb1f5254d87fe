"""Results as rows of typed columns: from answers and listings, and encoded for the wire as data rows or as a COPY."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.answer_columns import interval_end_columns
from sfumato.server.postgres import protocol, types
from sfumato.server.postgres.statements import CopyFormat
from sfumato.server.releases.running_releases import DescribedQuestion

TEXT_OID = types.TEXT


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result: its name and the oid of its type."""

    name: str
    oid: int


ResultColumns = tuple[ResultColumn, ...]


@dataclass(frozen=True)
class StatementResult:
    """The rows of a statement, and what is told beside them."""

    columns: ResultColumns
    rows: Sequence[Sequence[Any]]
    notices: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    charged: bool = False
    """Whether this very statement spent budget."""


def text_result(columns: Iterable[str], rows: Sequence[Sequence[Any]]) -> StatementResult:
    return StatementResult(tuple(ResultColumn(name, TEXT_OID) for name in columns), rows)


def described_columns(described: DescribedQuestion, *, ranges: bool) -> ResultColumns:
    """Return the columns of a question before it is asked."""
    columns = tuple(ResultColumn(column.name, types.OID_BY_TYPE[column.type]) for column in described.columns)
    if not ranges:
        return columns
    names = tuple(column.name for column in columns)
    ends = interval_end_columns(names, dict.fromkeys(described.noisy_columns, ()))
    return (*columns, *(ResultColumn(name, types.FLOAT8) for name in ends))


def answer_result(answer: Any, columns: ResultColumns | None, *, ranges: bool, charged: bool) -> StatementResult:
    """Return an answer's rows in the described columns; a column that it does not have is NULL."""
    if not isinstance(answer, Answer):  # a listing of public text
        return text_result(answer.columns, answer.rows)
    oids = (types.OID_BY_TYPE[sql_type] for sql_type in answer.types)
    cells_by_column: dict[ResultColumn, Sequence[Any]] = {
        ResultColumn(name, oid): answer.column(name) for name, oid in zip(answer.columns, oids, strict=True)
    }
    if ranges:
        ends = interval_end_columns(answer.columns, answer.intervals)
        cells_by_column |= {ResultColumn(name, types.FLOAT8): cells for name, cells in ends.items()}
    result_columns = tuple(cells_by_column) if columns is None else columns
    missing = [None] * len(answer.rows)
    rows = list(zip(*(cells_by_column.get(column, missing) for column in result_columns), strict=True))
    warnings = tuple(warning for warning in answer.warnings if warning not in answer.receipt.weak)
    return StatementResult(result_columns, rows, (answer.short_receipt(), *answer.caveat_lines()), warnings, charged)


# ── data rows ──────────────────────────────────────────────────────────────────────────────────


def formats_by_column(formats: Sequence[int], count: int) -> tuple[int, ...]:
    """Return the format of each column: none given means text, one means all.

    Raises: ProtocolViolation: There are several, but not one per column.
    """
    if len(formats) <= 1:
        return (formats[0] if formats else 0,) * count
    if len(formats) != count:
        raise protocol.ProtocolViolation(
            f"Bind gives {len(formats)} result formats for {count} columns: it may give none, one, or one for each"
        )
    return tuple(formats)


def row_description_message(columns: ResultColumns, formats: Sequence[int] = ()) -> bytes:
    fields = [
        protocol.FieldDescription(column.name, column.oid, types.SIZES.get(column.oid, -1), form)
        for column, form in zip(columns, formats_by_column(formats, len(columns)), strict=True)
    ]
    return protocol.row_description(fields)


def encode_cells(row: Sequence[Any], columns: ResultColumns, formats: Sequence[int]) -> list[bytes | None]:
    return [
        types.encode_binary(value, column.oid) if form else types.encode_text(value, column.oid)
        for value, column, form in zip(row, columns, formats, strict=True)
    ]


# ── COPY ───────────────────────────────────────────────────────────────────────────────────────

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
_TRAILER = struct.pack("!h", -1)
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f", "\v": "\\v"})


def copy_messages(result: StatementResult, form: CopyFormat) -> Iterator[bytes]:
    """Encode a result as the messages of a COPY TO STDOUT."""
    yield protocol.copy_out_response(len(result.columns), binary=form.format == "binary")
    if form.format == "binary":
        prefix, write_row = _SIGNATURE, _binary_row_writer(result.columns)
        for row in result.rows:  # as PostgreSQL does, the signature is sent with the first row
            yield protocol.copy_data(prefix + write_row(row))
            prefix = b""
        yield protocol.copy_data(prefix + _TRAILER)
    else:
        lines = ([column.name for column in result.columns], *result.rows) if form.header else result.rows
        write = _csv_line if form.format == "csv" else _text_line
        for row in lines:
            yield protocol.copy_data(write(row, form).encode(errors="replace"))
    yield protocol.COPY_DONE


_NULL = struct.pack("!i", -1)
_FIXED_CELLS = {
    types.INT8: (8, "iq", struct.Struct("!iq").pack),
    types.INT4: (4, "ii", struct.Struct("!ii").pack),
    types.FLOAT8: (8, "id", struct.Struct("!id").pack),
}
"""By type, the bytes of a value, and the form of their number and the value, with what packs it."""


def _binary_row_writer(columns: ResultColumns) -> Callable[[Sequence[Any]], bytes]:
    """Return what encodes a row as ``row_body`` does: how each column is written is decided once."""
    writers = [_cell_writer(column.oid) for column in columns]
    header = struct.pack("!h", len(columns))

    def write(row: Sequence[Any]) -> bytes:
        try:
            return header + b"".join([write_cell(value) for write_cell, value in zip(writers, row, strict=True)])
        except struct.error:
            raise types.CellOutOfRange from None

    if not all(column.oid in _FIXED_CELLS for column in columns):
        return write
    fixed = [_FIXED_CELLS[column.oid] for column in columns]
    pack = struct.Struct("!h" + "".join(form for _, form, _ in fixed)).pack
    fields: list[Any] = [len(columns), *(field for size, _, _ in fixed for field in (size, None))]

    def write_fixed(row: Sequence[Any]) -> bytes:
        fields[2::2] = row
        try:
            return pack(*fields)
        except struct.error:  # a NULL, or a number that is too large
            return write(row)

    return write_fixed


def _cell_writer(oid: int) -> Callable[[Any], bytes]:
    if oid in _FIXED_CELLS:
        size, _, pack = _FIXED_CELLS[oid]
        return lambda value: _NULL if value is None else pack(size, value)

    def write(value: Any) -> bytes:
        cell = types.encode_binary(value, oid)
        return _NULL if cell is None else struct.pack("!i", len(cell)) + cell

    return write


def _text_line(row: Sequence[Any], form: CopyFormat) -> str:
    cells = (form.null if value is None else _escape(types.cell_text(value), form.delimiter) for value in row)
    return form.delimiter.join(cells) + "\n"


def _escape(cell: str, delimiter: str) -> str:
    escaped = cell.translate(_ESCAPES)
    return escaped if delimiter == "\t" else escaped.replace(delimiter, "\\" + delimiter)


def _csv_line(row: Sequence[Any], form: CopyFormat) -> str:
    return form.delimiter.join(_csv_cell(value, form) for value in row) + "\n"


def _csv_cell(value: Any, form: CopyFormat) -> str:
    if value is None:
        return form.null
    cell = types.cell_text(value)
    if cell == form.null or any(letter in cell for letter in (form.delimiter, form.quote, "\r", "\n")):
        return form.quote + cell.replace(form.quote, form.quote * 2) + form.quote
    return cell
