"""Values as bytes: what psycopg writes is read as the same value, and what is written here psycopg reads."""

from __future__ import annotations

import datetime as dt
import struct
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from sfumato.errors import ApprovalNeeded, RequestDecided
from sfumato.policy import Type
from sfumato.server.postgres import types
from sfumato.server.postgres.lexing import split_statements, tokenize
from sfumato.server.postgres.protocol import ProtocolViolation, decode_message, decode_startup, row_body
from sfumato.server.postgres.results import ResultColumn, StatementResult, copy_messages, encode_cells
from sfumato.server.postgres.statement_texts import parameter_oids, sqlstate
from sfumato.server.postgres.statements import CopyFormat

psycopg = pytest.importorskip("psycopg", reason="psycopg is NOT tested: pip install psycopg")
_DAYS = st.dates(dt.date(1000, 1, 1), dt.date(9999, 12, 31))
_TIMES = st.datetimes(dt.datetime(1000, 1, 1), dt.datetime(9999, 12, 31))
_NUMBERS = st.decimals(-(10**25), 10**25, allow_nan=False, allow_infinity=False, places=9)
_CELLS = [
    (types.INT8, st.integers(-(2**63), 2**63 - 1)),
    (types.FLOAT8, st.floats(allow_nan=False)),
    (types.BOOL, st.booleans()),
    (types.DATE, _DAYS),
    (types.TIMESTAMP, _TIMES),
    (types.NUMERIC, _NUMBERS),
    (types.TEXT, st.text(st.characters(codec="utf-8", exclude_characters="\0"))),
]


def loaded(raw: bytes | None, oid: int, form: int) -> Any:
    transformer = psycopg.adapt.Transformer()
    return transformer.get_loader(oid, psycopg.pq.Format(form)).load(raw)


@pytest.mark.parametrize(("oid", "values"), _CELLS)
def test_psycopg_reads_what_is_written(oid: int, values: Any) -> None:
    @given(values)
    @settings(max_examples=25, deadline=None)
    def check(value: Any) -> None:
        assert loaded(types.encode_binary(value, oid), oid, 1) == value
        assert loaded(types.encode_text(value), oid, 0) == value

    check()


@pytest.mark.parametrize(
    ("text", "day", "time"),
    [
        ("2024-02-01", "2024-02-01", "2024-02-01T00:00:00"),
        ("2024-02-01 +00", "2024-02-01", "2024-02-01T00:00:00"),  # pgjdbc's setDate
        ("2024-02-01 13:14:15.5+02", "2024-02-01", "2024-02-01T13:14:15.500000"),  # pgjdbc's setTimestamp
        ("2024-02-01T13:14:15.250+05:30", "2024-02-01", "2024-02-01T13:14:15.250000"),  # node-postgres
        ("2024-02-01 13:14", "2024-02-01", "2024-02-01T13:14:00"),
        ("2024-02-30", None, None),
        ("2024-02-01 25:00", "2024-02-01", None),
        ("2024-02-01 soon", None, None),
        ("２０２４-02-01", None, None),
    ],
)
def test_days_and_times_are_read_as_postgresql_reads_them(text: str, day: str | None, time: str | None) -> None:
    """A zone does not count, nor does the time of a day."""
    for oid, expected in ((types.DATE, day), (types.TIMESTAMP, time)):
        if expected is None:
            with pytest.raises(types.InvalidParameterValue):
                types.decode_parameter(text.encode(), oid, 0)
        else:
            assert types.decode_parameter(text.encode(), oid, 0).isoformat() == expected


@pytest.mark.parametrize("kinds", [(types.INT8, types.FLOAT8, types.INT4), (types.INT8, types.TEXT, types.DATE)])
def test_a_binary_copy_has_the_cells_of_binary_rows(kinds: tuple[int, ...]) -> None:
    """However its rows are written: with NULL, whole, and refused where a number does not fit."""
    values = {
        types.INT8: 2**63 - 1,
        types.FLOAT8: -0.1,
        types.INT4: -7,
        types.TEXT: "é",
        types.DATE: dt.date(2024, 2, 29),
    }
    columns = tuple(ResultColumn(str(oid), oid) for oid in kinds)
    whole = tuple(values[oid] for oid in kinds)
    rows = [whole, (None, *whole[1:]), (None,) * len(kinds), whole]
    encoded = [row_body(encode_cells(row, columns, (1,) * len(kinds))) for row in rows]
    messages = [*copy_messages(StatementResult(columns, rows), CopyFormat("binary"))]
    assert [message[5:] for message in messages[2:-2]] == encoded[1:]
    assert messages[1].endswith(encoded[0])
    with pytest.raises(types.CellOutOfRange):
        list(copy_messages(StatementResult(columns, [(2**63, *whole[1:])]), CopyFormat("binary")))


def test_vectors_are_written_without_braces() -> None:
    assert types.encode_text([1, 2], 30) == b"1 2"
    assert types.encode_text([1, 2], 1028) == b"{1,2}"
    assert types.encode_text([], 22) == b""


@pytest.mark.parametrize(("oid", "values"), _CELLS)
def test_what_psycopg_writes_is_read(oid: int, values: Any) -> None:
    @given(values.filter(lambda value: not isinstance(value, float) or 1e-300 < abs(value) < 1e300))
    @settings(max_examples=25, deadline=None)
    def check(value: Any) -> None:
        for form in (psycopg.adapt.PyFormat.TEXT, psycopg.adapt.PyFormat.BINARY):
            transformer = psycopg.adapt.Transformer()
            (raw,) = transformer.dump_sequence([value], [form])
            decoded = types.decode_parameter(bytes(raw), transformer.types[0] or oid, int(transformer.formats[0]))
            assert decoded == (Decimal(repr(value)) if isinstance(value, float) else value)

    check()


@given(
    st.binary(max_size=40),
    st.sampled_from([0, 16, 20, 21, 23, 25, 700, 701, 1082, 1114, 1700, 1009, 1028, 99999]),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_a_value_or_refused(raw: bytes, oid: int, binary: bool) -> None:
    try:
        value = types.decode_parameter(raw, oid, int(binary))
    except types.InvalidParameterValue:
        return
    assert isinstance(value, (str, int, bool, Decimal, dt.date, list))


@given(
    st.sampled_from([b"Q", b"P", b"B", b"D", b"E", b"C", b"S", b"H", b"X", b"d", b"p", b"?"]), st.binary(max_size=60)
)
@settings(max_examples=150, deadline=None)
def test_any_body_is_a_message_or_refused(kind: bytes, body: bytes) -> None:
    for read in (lambda: decode_message(kind, body), lambda: decode_startup(body)):
        with suppress(ProtocolViolation):
            assert read() is not None


def test_numbers_beyond_their_binary_form_are_refused() -> None:
    for oid, value in ((types.INT8, 2**63), (types.INT4, 2**31), (types.FLOAT4, 1e300)):
        with pytest.raises(types.CellOutOfRange):
            types.encode_binary(value, oid)
    assert types.encode_text(2**63) == b"9223372036854775808"


def test_arrays_of_catalogs() -> None:
    assert loaded(types.encode_binary([1, 2], 1016), 1016, 1) == [1, 2]
    assert loaded(types.encode_binary(["a", None, 'b"'], 1009), 1009, 1) == ["a", None, 'b"']
    assert loaded(types.encode_binary([], 1009), 1009, 1) == []
    for values, oid in (([1, 2], 1016), (["a", None, "b"], 1009), ([], 1028)):
        encoded = types.encode_binary(values, oid)
        assert encoded is not None
        assert types.decode_parameter(encoded, oid, 1) == values
        for cut in range(len(encoded)):
            with pytest.raises(types.InvalidParameterValue):
                types.decode_parameter(encoded[:cut], oid, 1)
    assert loaded(types.encode_text(["a,b", None, 'c"\\', "NULL", ""]), 1009, 0) == ["a,b", None, 'c"\\', "NULL", ""]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT COUNT(*) FROM visits WHERE age > $1", (types.FLOAT8,)),
        ("SELECT COUNT(*) FROM visits WHERE $1 < cost AND region = $2", (types.FLOAT8, types.TEXT)),
        ("SELECT COUNT(*) FROM visits WHERE day BETWEEN $1 AND $2 LIMIT $3", (types.DATE, types.DATE, types.INT8)),
        ('SELECT COUNT(*) FROM visits WHERE "visits"."region" IN ($1, $2)', (types.TEXT, types.TEXT)),
        ("SELECT COUNT(*) FROM visits WHERE age > $1::int OR x = CAST($2 AS date)", (types.INT8, types.DATE)),
        ("SELECT UPPER($1), $3", (types.TEXT, types.TEXT, types.TEXT)),
    ],
)
def test_parameters_get_the_type_of_what_they_are_compared_with(sql: str, expected: tuple[int, ...]) -> None:
    columns = {"age": Type.INTEGER, "cost": Type.REAL, "region": Type.TEXT, "day": Type.DATE}
    assert parameter_oids(tokenize(sql), (), columns) == expected
    assert parameter_oids(tokenize(sql), (types.INT4,), columns) == (types.INT4, *expected[1:])


def test_statements_are_split_where_postgresql_splits_them() -> None:
    whole = "SELECT ';', \"a;b\", $$;$$, $x$;$x$, E'\\';' /* ; /* ; */ */ -- ;\n"
    sql = f"{whole}; ;COMMIT"
    first, second = split_statements(sql)
    assert (first.sql, second.sql) == (whole, "COMMIT")
    assert sql[second.offset :] == "COMMIT"
    assert second.tokens[0].start == 0


def test_copy_writes_what_postgresql_writes() -> None:
    columns = (ResultColumn("a", types.TEXT), ResultColumn("b", types.INT8))
    result = StatementResult(columns, [("x\ty\\z\n", 1), (None, None), ('say "a,b"', -2), ("", 3)])

    def written(form: CopyFormat) -> bytes:
        return b"".join(message[5:] for message in copy_messages(result, form) if message[:1] == b"d")

    assert written(CopyFormat()) == b'x\\ty\\\\z\\n\t1\n\\N\t\\N\nsay "a,b"\t-2\n\t3\n'
    assert written(CopyFormat("csv", ",", "", header=True)) == b'a,b\nx\ty\\z\n,1\n,\n"say ""a,b""",-2\n"",3\n'.replace(
        b"x\ty\\z\n,1", b'"x\ty\\z\n",1'
    )
    empty = StatementResult(columns, [])
    binary = list(copy_messages(empty, CopyFormat("binary")))[1]
    assert binary[5:] == b"PGCOPY\n\xff\r\n\0" + struct.pack("!iih", 0, 0, -1)


def test_what_was_not_charged_is_no_system_error() -> None:
    """58000 means charged and then stopped: a release that waits for approval is not allowed, and costs nothing."""
    needed = ApprovalNeeded("this release needs approval", place="the question", fix="file a request")
    decided = RequestDecided("the request was refused", place="request 7", fix="file another")
    assert [sqlstate(needed), sqlstate(decided)] == ["42501", "55000"]
