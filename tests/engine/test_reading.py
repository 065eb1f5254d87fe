"""Texts mean what the grammars of ``plan.grammars`` say, to the scan and to CAST alike."""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings, strategies as st

from engine.lowered import selected
from engine.tables import private
from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.duckdb.scan import Cell, clean_cell
from sfumato.engine.spellings.duckdb import literal
from sfumato.plan.values.expressions import Column, Literal
from sfumato.plan.values.functions import call
from sfumato.plan.values.grammars import LONGEST
from sfumato.policy import Domain, Type

INF = math.inf
UNBOUNDED = {kind: Domain(kind) for kind in Type if kind is not Type.TEXT}
BOUNDED = {
    Type.INTEGER: Domain("integer", bounds=(-5, 110)),
    Type.REAL: Domain("real", bounds=("-0.5", "5000")),
    Type.DATE: Domain("date", bounds=("2024-01-02", "2024-12-31")),
    Type.TIMESTAMP: Domain("timestamp", bounds=("2024-01-02", "2024-12-31 12:00")),
}


# An independent reading: no pattern, no engine.


def _digits(text: str, least: int, most: int) -> bool:
    return least <= len(text) <= most and set(text) <= set("0123456789")


def _signed(text: str) -> tuple[int, str]:
    return (-1 if text[:1] == "-" else 1), (text[1:] if text[:1] in ("+", "-") else text)


def _infinite(text: str) -> float | None:
    sign, body = _signed(text)
    return sign * INF if body.lower() in ("inf", "infinity") and body.isascii() else None


def _real(text: str) -> float | None:
    """The nearest double of our range, or infinite."""
    sign, body = _signed(text)
    if _infinite(text) is not None:
        return _infinite(text)
    mantissa, e, exponent = body.replace("E", "e").partition("e")
    whole, _, rest = mantissa.partition(".")
    down, power = _signed(exponent)
    if not (_digits(whole, 0, 40) and _digits(rest, 0, 40) and whole + rest) or (e and not _digits(power, 1, 3)):
        return None
    exact = Fraction(int(whole + rest), 10 ** len(rest)) * Fraction(10) ** (down * int(power or 0))
    if exact < Fraction(2) ** -500:
        return 0.0
    return sign * (float(exact) if exact <= 2**500 else INF)


def _integer(text: str) -> float | int | None:
    sign, body = _signed(text)
    if _digits(body, 1, 18) or (_digits(body, 19, 19) and body[0] in "12345678"):
        return sign * int(body)
    number = _real(text)
    if number is None or abs(number) == INF:
        return number
    if number != math.floor(number):
        return None
    return int(number) if -(2**63) <= number < 2**63 else math.copysign(INF, number)


def _boolean(text: str) -> bool | None:
    return {"true": True, "1": True, "false": False, "0": False}.get(text.lower() if text.isascii() else "")


def _ahead(zone: str) -> dt.timedelta | None:
    """How far ahead of UTC."""
    if zone in ("", "Z"):
        return dt.timedelta(0)
    sign, hours, minutes = zone[0], zone[1:3], zone[3:].removeprefix(":")
    right = _digits(hours, 2, 2) and int(hours) < 15 and (zone[3:] == "" or _digits(minutes, 2, 2))
    if sign not in "+-" or not right or int(minutes or 0) > 59:
        return None
    return (-1 if sign == "-" else 1) * dt.timedelta(hours=int(hours), minutes=int(minutes or 0))


def _clock(text: str) -> tuple[dt.timedelta, str] | None:
    """The time since midnight, and what follows it."""
    parts, rest = [], text
    for most in (23, 59, 59):
        if not _digits(rest[:2], 2, 2) or int(rest[:2]) > most:
            return None
        parts.append(int(rest[:2]))
        rest = rest[2:]
        if rest[:1] != ":" or len(parts) == 3:
            break
        rest = rest[1:]
    if len(parts) < 2:
        return None
    fraction = ""
    if len(parts) == 3 and rest[:1] == ".":
        fraction = rest[1 : 1 + next((i for i, each in enumerate(rest[1:]) if each not in "0123456789"), len(rest))]
        rest = rest[1 + len(fraction) :]
        if not 1 <= len(fraction) <= 6:
            return None
    hours, minutes, seconds = (*parts, 0)[:3]
    micros = int(fraction.ljust(6, "0") or 0)
    return dt.timedelta(hours=hours, minutes=minutes, seconds=seconds, microseconds=micros), rest


def _timestamp(text: str) -> Any:
    if _infinite(text) is not None:
        return _infinite(text)
    year, month, day = text[:4], text[5:7], text[8:10]
    if not all(_digits(each, len(each), 4) for each in (year, month, day)) or text[4:5] + text[7:8] != "--":
        return None
    try:
        midnight = dt.datetime(int(year), int(month), int(day))
    except ValueError:
        return None
    if len(year + month + day) != 8 or len(text) == 10:
        return midnight if len(text) == 10 else None
    found = _clock(text[11:]) if text[10] in " T" else None
    ahead = None if found is None else _ahead(found[1])
    if found is None or ahead is None:
        return None
    try:
        return midnight + found[0] - ahead
    except OverflowError:
        return (-INF if midnight.year == 1 else INF, "outside")  # a moment, which bounds clamp


def _date(text: str) -> Any:
    found = _timestamp(text)
    return found.date() if isinstance(found, dt.datetime) else found


READERS = {
    Type.INTEGER: _integer,
    Type.REAL: _real,
    Type.BOOLEAN: _boolean,
    Type.DATE: _date,
    Type.TIMESTAMP: _timestamp,
}


def meaning(text: str, domain: Domain) -> Any:
    """What a text means in a column so declared."""
    value = READERS[domain.type](text.strip(" "))
    value = value[0] if isinstance(value, tuple) else value
    if value is None or domain.bounds is None:
        return None if value in (INF, -INF) else value
    low, high = domain.bounds
    clamped: Any = {INF: high, -INF: low}.get(value) or min(max(value, low), high)
    return float(clamped) if domain.type is Type.REAL else clamped


TEXTS = [
    # numbers
    "0", "7", "-7", "+7", "007", " 7 ", "   7", "7   ", "-0", "-0.0", "5.0", "5.7", "5.", ".5", "+.5", "-.0", "1e3",
    "1E+05", "12.5e-1", "25e-1", "1e-1",
    "9" * 18, "1" + "0" * 18, "8999999999999999999", "9223372036854775807", "-9223372036854775808",
    "-9223372036854775809",
    "99999999999999999999", "0" * 30 + "42", "9" * 40, "9" * 41, "0." + "0" * 39 + "1", "0." + "0" * 40 + "1",
    "9007199254740993", "9007199254740993.0",
    "0.1", "0.30000000000000004", "2.2250738585072011e-308", "179769313486231580793728971405301e276", "1e150",
    "1e151", "-1e151", "1e160", "1e-150",
    "1e-151", "1e-160", "1e199", "1e200", "-1e200", "1e-199", "1e-200", "1e308", "1e309", "1e400", "-1e999",
    "1e-999", "0e999", "0.00e+300", "-0e200",
    "1e1000", "1e0001", "inf", "-inf", "+inf", "INF", "Infinity", "-INFINITY", "+infinity", " inf ", "infinit",
    "nan", "NaN", "-nan",
    # what is not read
    "", " ", "+", "-", ".", "e5", "1e", "1e+", "--1", "+-1", "- 1", "1 2", "1_000", "1,000", "1'000", "1,5", "0x1A",
    "0b1", "0o7", "1f", "1d", "1L", "$5", "5%",
    "٣", "１", "½", "7\n", "\t7", "7\t", "\u00a07", "7\r", "\u20037", "\ufeff7", "7\0", "NULL", "None", "(5)", "5-",
    "1e3.5", "0x1p3", "1e 3", "1 e3",
    # truths
    "true", "TRUE", "True", "false", "False", " true ", "1", " 0", "t", "f", "T", "yes", "no", "y", "n", "on", "off",
    "1.0", "0.0", "2", "-1", "ſalse", "true\n", "01",
    # dates and times
    "2024-02-29", " 2024-02-29 ", "2023-02-29", "1900-02-29", "2000-02-29", "2024-02-30", "2024-1-5", "24-01-05",
    "2024/01/05", "05.01.2024", "01/05/2024", "20240105",
    "2024-01-05T", "2024-01-05 ", "2024-13-01", "2024-00-10", "0000-01-01", "0001-01-01", "9999-12-31",
    "10000-01-01", "99999-01-01", "-2024-01-05", "+2024-01-05",
    "2024-01-05 (BC)", "0044-03-15 (BC)", "epoch", "today", "now", "2024-01-05 10:00", "2024-01-05T10:00",
    "2024-01-05t10:00", "2024-01-05  10:00", "2024-01-05 10",
    "2024-01-05 1:00", "2024-01-05 10:00:00", "2024-01-05 10:00:59.5", "2024-01-05 10:00:59.999999",
    "2024-01-05 10:00:59.9999999", "2024-01-05 10:00:59.",
    "2024-01-05 10:00:60", "2024-01-05 24:00", "2024-01-05 24:00:00", "2024-01-05 10:60", "2024-01-05 10:00 PM",
    "2024-01-05 10:00Z", "2024-01-05 10:00z",
    "2024-01-05T10:00:00Z", "2024-01-05T10:00:00.25Z ", "2024-01-05T10:00:00+02:00", "2024-01-05T10:00:00+0530",
    "2024-01-05T10:00:00-05", "2024-01-05T10:00:00-05:30",
    "2024-01-05T23:30:00-14:59", "2024-01-05T00:30:00+14:59", "2024-01-05T10:00:00+15", "2024-01-05T10:00:00+24:00",
    "2024-01-05T10:00:00+02:60", "2024-01-05T10:00:00 +02:00",
    "2024-01-05T10:00:00+2", "2024-01-05T10:00:00+020", "2024-01-05T10:00:00 UTC",
    "2024-01-05 10:00:00 Europe/Berlin", "2024-01-05Z", "2024-01-05+02", "0001-01-01 00:00+14",
    "0001-01-01 14:00+14", "9999-12-31 23:59-12", "9999-12-31 11:59-12", "2024-01-05T10:00:00+00",
    "2024-01-05T10:00:00-00:30", "2024-01-01T01:00:00+02:00",
]  # fmt: skip


def scanned(texts: list[str], domain: Domain) -> list[Any]:
    return _answers(
        f"SELECT {clean_cell(Cell('x', 'VARCHAR'), domain)} FROM (VALUES {_listed(texts)}) AS t(i, x) ORDER BY i"
    )


def cast(texts: list[str], kind: Type) -> list[Any]:
    expression = call("CAST", Column("x", Domain("text")), Literal(kind.value, Domain("text")))
    statement = selected([expression], f"(SELECT x FROM (VALUES {_listed(texts)}) AS t(i, x) ORDER BY i)")
    return _answers(statement)


def _listed(texts: list[str]) -> str:
    return ", ".join(f"({i}, {_literal(each)})" for i, each in enumerate(texts))


def _literal(text: str) -> str:
    return "concat(" + ", chr(0), ".join(literal(each) for each in text.split("\0")) + ")"


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def _answers(statement: str) -> list[Any]:
    return [each for (each,) in _connection().execute(statement).fetchall()]


def _told(values: list[Any]) -> list[Any]:
    """Apart by type and by the sign of 0, too."""
    return [(type(each), repr(each)) for each in values]


def _differing(texts: list[str], found: list[Any], wanted: list[Any]) -> list[Any]:
    pairs = zip(texts, found, wanted, strict=True)
    return [(text, seen, meant) for text, seen, meant in pairs if _told([seen]) != _told([meant])]


def _positive(value: Any) -> Any:
    return 0.0 if type(value) is float and value == 0 else value


@pytest.mark.parametrize("domain", [*UNBOUNDED.values(), *BOUNDED.values()], ids=repr)
def test_the_scan_reads_texts_as_an_independent_reading_does(domain: Domain) -> None:
    wanted = [_positive(meaning(each, domain)) for each in TEXTS]
    assert not _differing(TEXTS, scanned(TEXTS, domain), wanted)


@pytest.mark.parametrize("domain", UNBOUNDED.values(), ids=repr)
def test_a_cast_reads_texts_as_an_independent_reading_does(domain: Domain) -> None:
    found = [_positive(each) for each in cast(TEXTS, domain.type)]
    assert not _differing(TEXTS, found, [_positive(meaning(each, domain)) for each in TEXTS])


WRITTEN = {
    Type.INTEGER: "7",
    Type.REAL: "7.5",
    Type.BOOLEAN: "true",
    Type.DATE: "2024-05-05",
    Type.TIMESTAMP: "2024-05-05 10:00",
}


@pytest.mark.parametrize("domain", [*UNBOUNDED.values(), *BOUNDED.values()], ids=repr)
def test_a_cell_is_read_up_to_its_longest(domain: Domain) -> None:
    """Bytes are counted, and spaces too."""
    texts = [WRITTEN[domain.type].rjust(LONGEST + more) for more in (0, 1)]
    first, second = scanned(texts, domain)
    assert first == meaning(texts[0], domain)
    assert first is not None
    assert second is None


letters = st.sampled_from(
    [*"0123456789" * 2, *"+-.eE :TZ_xinfaltrusy\n\t,", "00", "2024-0", "-29", "999999999", "e-", "e2", "inf"]
)
made = st.lists(letters, max_size=14).map("".join)
near = st.builds(
    lambda text, place, letter: text[:place] + letter + text[place + 1 :],
    st.sampled_from(TEXTS),
    st.integers(0, 20),
    st.sampled_from([*"0123456789+-.eE :TZ_", ""]),
)


@settings(max_examples=4, deadline=None)
@given(st.lists(st.one_of(made, near), min_size=100, max_size=200))
def test_scan_and_cast_and_the_independent_reading_agree_on_any_text(texts: list[str]) -> None:
    for kind, domain in UNBOUNDED.items():
        wanted = [_positive(meaning(each, domain)) for each in texts]
        assert not _differing(texts, scanned(texts, domain), wanted)
        assert not _differing(texts, [_positive(each) for each in cast(texts, kind)], wanted)
    for domain in BOUNDED.values():
        assert not _differing(texts, scanned(texts, domain), [_positive(meaning(each, domain)) for each in texts])


def test_cells_of_a_csv_file_are_read_by_the_grammars_private_and_public(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "n,x,day,at,ok,hex\n"
        " 12,1e+05, 2024-01-05,2024-01-05T10:00:00+02:00,1,0x1A\n"
        "7.0, .5,2024-02-29,2024-02-29,FALSE,1_000\n"
    )
    columns = {"n": "integer", "x": "real", "day": "date", "at": "timestamp", "ok": "boolean", "hex": "integer"}
    with Sources(private(path, {each: {"type": kind} for each, kind in columns.items()})) as sources:
        assert sources.run("SELECT * FROM sf_t ORDER BY n") == [
            (7, 0.5, dt.date(2024, 2, 29), dt.datetime(2024, 2, 29), False, None),
            (12, 1e5, dt.date(2024, 1, 5), dt.datetime(2024, 1, 5, 8), True, None),
        ]
