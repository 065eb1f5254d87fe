"""Lowered expressions on the real engine: never an error, the declared type, inside the domain, and right."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings, strategies as st

from engine.lowered import TYPES, constant, selected
from engine.ordinary import ORDINARY, ROWS
from plan.samples import COLUMNS, NESTED, nested, read
from sfumato.errors import Unsupported
from sfumato.plan.values import calendar
from sfumato.plan.values.expressions import Call, Column, Expression, Field, columns
from sfumato.plan.values.functions import FUNCTIONS, call, literal, null_literal
from sfumato.plan.values.functions.temporal import COMPOSED_PARTS, PARTS, TRUNCATED_UNITS
from sfumato.plan.values.intervals import nearest_double
from sfumato.policy import Domain, Type
from sfumato.policy.domains import SMALLEST_REAL

HOSTILE: dict[Type, list[Any]] = {
    Type.INTEGER: [
        None,
        0,
        1,
        -1,
        2,
        10,
        2**53 + 1,
        -(2**53) - 1,
        2**62,
        -(2**62),
        2**62 + 1,
        2**63 - 1,
        1 - 2**63,
        -(2**63),
    ],
    Type.REAL: [
        None,
        math.nan,
        math.inf,
        -math.inf,
        0.0,
        -0.0,
        0.5,
        -2.5,
        2.0**53 + 2,
        9.3e18,
        1e308,
        -1.7976931348623157e308,
        5e-324,
        -5e-324,
        2.0**500,
        -(2.0**-500),
        3e-151,
        3.3e150,
    ],
    Type.TEXT: [
        None,
        "",
        " ",
        "x" * 1_000,
        "\U0001f600" * 1_000,
        "Ünï©ödé ß İ",
        "e\u0301\u0327",
        "'\"; DROP TABLE people; --",
        "%_\\",
        "👩‍👩‍👧‍👦",
        "nan",
        "1e400",
        "9999999999999999999",
        "infinity",
        "294247-01-10",
    ],
    Type.BOOLEAN: [None, True, False],
    Type.DATE: [
        None,
        "0001-01-01",
        "9999-12-31",
        "infinity",
        "-infinity",
        "2020-02-29",
        "1900-03-01",
        "1969-12-31",
        "1970-01-01",
        "0044-03-15 (BC)",
        "5881580-07-10",
        "2024-12-30",
        "2000-01-31",
        "10000-01-01",
    ],
    Type.TIMESTAMP: [
        None,
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59.999999",
        "infinity",
        "-infinity",
        "2020-02-29 23:59:59.999999",
        "1969-12-31 23:59:59.5",
        "1970-01-01 00:00:00",
        "0044-03-15 (BC) 12:00:00",
        "294247-01-10 04:00:54.775806",
        "290308-12-22 (BC) 00:00:00",
        "2024-12-30 00:00:00",
        "10000-01-01 00:00:00",
        "1582-10-04 12:34:56",
    ],
}

DOMAINS = {
    "i": Domain("integer"),
    "i_small": Domain("integer", bounds=(0, 110)),
    "i_wide": Domain("integer", bounds=(-(2**62), 2**62)),
    "r": Domain("real"),
    "r_small": Domain("real", bounds=(-1, "0.1")),
    "r_wide": Domain("real", bounds=("-1e150", "1e150")),
    "s": Domain("text"),
    "s_listed": Domain("text", values=("", " ", "%_\\", "nan", "x")),
    "b": Domain("boolean"),
    "d": Domain("date"),
    "d_small": Domain("date", bounds=("1969-12-31", "2024-12-30")),
    "d_wide": Domain("date", bounds=("0001-01-01", "9999-12-31")),
    "t": Domain("timestamp"),
    "t_small": Domain("timestamp", bounds=("1969-12-31 23:59:59.5", "2020-02-29 23:59:59.999999")),
    "t_wide": Domain("timestamp", bounds=("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")),
}
SLOTS = 3


def scanned(domain: Domain) -> str:
    """What a scan makes of a raw value x: clamped to the bounds, one of the values, or NULL."""
    if domain.values is not None:
        return f"CASE WHEN x IN ({', '.join(constant(each, domain.type) for each in domain.values)}) THEN x END"
    if domain.bounds is None:
        return "x"
    low, high = (constant(each, domain.type) for each in domain.bounds)
    known = "x IS NULL OR isnan(x)" if domain.type is Type.REAL else "x IS NULL"
    if domain.type is Type.REAL and domain.bounds[0] <= 0 <= domain.bounds[1]:  # type: ignore[operator]
        known += f" THEN NULL WHEN abs(x) < {2.0**-500!r}::DOUBLE THEN 0 WHEN FALSE"
    return f"CASE WHEN {known} THEN NULL WHEN x < {low} THEN {low} WHEN x > {high} THEN {high} ELSE x END"


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    """A table of hostile values for every column, in as many slots as a function has arguments."""
    with duckdb.connect() as connection:
        for name, domain in DOMAINS.items():
            kind = TYPES[domain.type]
            raw = [None if each is None else str(each) for each in HOSTILE[domain.type]]
            texts = "(SELECT unnest(?::VARCHAR[]) AS t)"
            connection.execute(f"CREATE OR REPLACE TABLE raw AS SELECT CAST(t AS {kind}) AS x FROM {texts}", [raw])
            for slot in range(SLOTS):
                connection.execute(
                    f'CREATE TABLE "{name}{slot}" AS SELECT {scanned(domain)} AS "{name}{slot}" FROM raw'
                )
        yield connection


def inside(value: Any, domain: Domain) -> bool:
    """Whether a value from the engine lies in a domain whose reals are rounded to doubles."""
    if value is None:
        return True
    if domain.type is Type.REAL:
        if value != 0 and not 2.0**-500 <= abs(value) <= 2.0**500:
            return False
        if domain.values is not None:
            return value in {nearest_double(each) for each in domain.values}
        return domain.bounds is None or nearest_double(domain.bounds[0]) <= value <= nearest_double(domain.bounds[1])
    if domain.type.temporal and isinstance(value, str):  # the driver has no value before year 1 or after 9999
        return False
    if domain.values is not None:
        return value in domain.values
    if domain.type is Type.TEXT:
        return len(value) <= domain.max_letters
    return domain.bounds is None or domain.bounds[0] <= value <= domain.bounds[1]


def check(engine: duckdb.DuckDBPyConnection, nodes: Sequence[Expression], tables: Sequence[str]) -> None:
    """On all rows: no error, the type, the domain, and NULL from what is there only where the domain says so; of
    several expressions that read the same columns.
    """
    read = [Column(name, domain) for name, domain in columns(nodes[0]).items()]
    sql = selected([*nodes, *read], f"(SELECT * FROM {', '.join(tables)})" if tables else "(SELECT 1)")
    own = range(len(nodes))
    present = " AND ".join(f"k{len(nodes) + index} IS NOT NULL" for index in range(len(read))) or "TRUE"
    result = engine.execute(f"SELECT {', '.join(f'k{index}' for index in own)}, {present} FROM ({sql})")
    kinds, rows = [str(kind) for _, kind, *_ in result.description], result.fetchall()
    for index, node in enumerate(nodes):
        assert kinds[index] == TYPES[node.domain.type], sql
        for value, whole in {(row[index], row[len(nodes)]) for row in rows}:
            assert inside(value, node.domain), (sql, value, node.domain)
            assert value is not None or not whole or node.domain.nullable, (sql, node.domain)


NUMBERS = ["i", "i_small", "i_wide", "r", "r_small", "r_wide"]
WHOLE = ["i", "i_small", "i_wide"]
TEXTS = ["s", "s_listed"]
MOMENTS = ["d", "d_small", "d_wide", "t", "t_small", "t_wide"]
ANY = [*NUMBERS, *TEXTS, "b", *MOMENTS]


def text(value: str) -> Expression:
    return literal(Type.TEXT, value)


def whole(value: int) -> Expression:
    return literal(Type.INTEGER, value)


def exact(value: str) -> Expression:
    return literal(Type.REAL, Fraction(value))


FAR = [whole(each) for each in (-(2**31), -1, 0, 2, 2**31)]
NUMERALS = [whole(0), whole(3), exact("-0.1"), exact("1e150"), exact("1e-150"), null_literal()]
GROUPS = (NUMBERS, TEXTS, ["b"], MOMENTS)
WORDS = [text(each) for each in ("", "x", "%_\\", "'\"", "é")]
PAIRS = [NUMBERS, NUMBERS]
ARGUMENTS: dict[str, list[list[Any]]] = {
    **{name: [[group, group] for group in GROUPS] for name in ("=", "<>", "<", "<=", ">", ">=")},
    **{name: [[["b"], ["b"]]] for name in ("AND", "OR")},
    **{name: [[["b"]]] for name in ("NOT", "IS TRUE", "IS FALSE")},
    "BETWEEN": [[group, group, group[:1]] for group in (NUMBERS, TEXTS, MOMENTS)],
    "IN": [
        [NUMBERS, [whole(1), exact("0.5")], [null_literal()]],
        [TEXTS, WORDS, [text("x")]],
        [MOMENTS, [text("2020-02-29")]],
    ],
    **{name: [[TEXTS, WORDS]] for name in ("LIKE", "ILIKE")},
    "IS NULL": [[ANY]],
    "CASE": [[["b"], group, [*group[:2], null_literal()]] for group in GROUPS],
    "IF": [[["b"], NUMBERS, [whole(2), exact("0.1")]]],
    "COALESCE": [[group, group, [null_literal()]] for group in GROUPS],
    "NULLIF": [[group, group] for group in GROUPS],
    "//": [[WHOLE, WHOLE], [WHOLE, [whole(0), whole(3), whole(-1), null_literal()]], [[whole(7), whole(-7)], WHOLE]],
    **{name: [PAIRS, [NUMBERS, NUMERALS]] for name in ("+", "-", "*", "/", "%", "POW")},
    **{
        name: [[NUMBERS], [[null_literal(), exact("0.1")]]]
        for name in ("NEGATE", "ABS", "SIGN", "FLOOR", "CEIL", "TRUNC", "SQRT", "LN", "EXP")
    },
    "ROUND": [[NUMBERS], [NUMBERS, [whole(each) for each in (-15, -3, -1, 0, 1, 2, 15)]]],
    **{
        name: [[NUMBERS, NUMBERS, [whole(0), exact("0.1")]], [MOMENTS, MOMENTS], [TEXTS, TEXTS]]
        for name in ("LEAST", "GREATEST")
    },
    "WIDTH_BUCKET": [
        [NUMBERS, [exact("-0.5")], [exact("0.1")], [whole(7)]],
        [NUMBERS, [exact("-1e150")], [exact("1e150")], [whole(10_000)]],
    ],
    **{name: [[TEXTS]] for name in ("LOWER", "UPPER", "LENGTH")},
    **{name: [[TEXTS], [TEXTS, WORDS]] for name in ("TRIM", "LTRIM", "RTRIM")},
    "SUBSTR": [[TEXTS, FAR], [TEXTS, ["i_small"], FAR]],
    **{name: [[TEXTS, ["i_small", *FAR]]] for name in ("LEFT", "RIGHT")},
    **{name: [[TEXTS, TEXTS, [text("'"), null_literal()]]] for name in ("CONCAT", "||")},
    "REPLACE": [[TEXTS, WORDS, [text(""), text("x" * 32)]]],
    "STARTS_WITH": [[TEXTS, TEXTS]],
    **{
        name: [[TEXTS, [text(each) for each in (r"^[\w.%]+$", "x", "", r"[^x']$|^\s", "(x|Ü)n{1,3}")]]]
        for name in ("REGEXP_MATCHES", "REGEXP_FULL_MATCH")
    },
    "EXTRACT": [[[text(each) for each in (*PARTS, *COMPOSED_PARTS)], MOMENTS]],
    "STRFTIME": [[MOMENTS, [text(f"%{each}|%%") for each in calendar.LETTERS]]],
    **{name: [[MOMENTS]] for name in ("DAYNAME", "MONTHNAME")},
    "DATE_TRUNC": [[[text(each) for each in TRUNCATED_UNITS], MOMENTS]],
    "TIME_BUCKET": [
        [[whole(each) for each in (1, 7, 5_000)], [text(each) for each in calendar.UNITS], MOMENTS],
        [[whole(5)], [text("month"), text("day"), text("hour")], MOMENTS, [literal(Type.DATE, dt.date(2024, 3, 1))]],
    ],
    "STRPTIME": [
        [TEXTS, [text(each) for each in ("%d.%m.%Y", "%Y-%m-%d %H:%M:%S", "%I:%M %p %A %d %B %y")]],
        [TEXTS, [text("%d.%m.%Y")], [text("%y%m%d"), text("%Y-%m-%d")]],
    ],
    "AGE": [[[text(each) for each in ("year", "month", "day")], MOMENTS, MOMENTS]],
    "MAKE_DATE": [[WHOLE, WHOLE, WHOLE], [[whole(2024)], WHOLE, [whole(29), whole(31)]], [WHOLE, [whole(2)], WHOLE]],
    "DATE_DIFF": [[[text(each) for each in calendar.UNITS], MOMENTS, MOMENTS]],
    "DATE_ADD": [[MOMENTS, [whole(each) for each in (0, 1, -1, 13, 9000)], [text(each) for each in calendar.UNITS]]],
    "CAST": [[ANY, [text(each.value) for each in Type]]],
}


def made(name: str, chosen: tuple[Any, ...]) -> tuple[Expression, list[str]] | None:
    """The function on columns of these names and on these literals; None where types do not fit."""
    arguments: list[Expression] = []
    for slot, each in enumerate(chosen):
        arguments.append(Column(Field(0, "t", f"{each}{slot}"), DOMAINS[each]) if isinstance(each, str) else each)
    try:
        return call(name, *arguments), [f'"{each.reference}"' for each in arguments if isinstance(each, Column)]
    except Unsupported as error:
        if error.code not in ("type-mismatch", "interval"):
            raise
        return None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hostile_values_in_every_place(engine: duckdb.DuckDBPyConnection, name: str) -> None:
    reading: defaultdict[tuple[tuple[str, ...], frozenset[Field]], list[Expression]] = defaultdict(list)
    for choices in ARGUMENTS[name]:
        missing = [[*each, null_literal()] if isinstance(each[0], str) else each for each in choices]
        for chosen in product(*missing):
            found = made(name, chosen)
            if found is not None:
                reading[tuple(found[1]), frozenset(columns(found[0]))].append(found[0])
    assert reading
    for (tables, _), nodes in reading.items():
        for start in range(0, len(nodes), 20):
            check(engine, nodes[start : start + 20], tables)


def test_the_check_sees_what_it_is_for(engine: duckdb.DuckDBPyConnection) -> None:
    """Its twins with a broken rule are caught: too narrow a range, a missing guard, NULL unannounced."""
    column = Column(Field(0, "t", "r_small0"), DOMAINS["r_small"])
    unguarded = Column(Field(0, "t", "r0"), Domain("real", bounds=("-1e150", "1e150")))
    broken = [
        Call("NEGATE", (column,), Domain("real", bounds=("-0.1", "0.9"))),
        Call("NEGATE", (unguarded,), Domain("real")),
        Call("SQRT", (column,), Domain("real", bounds=(0, 1))),
        Call("NEGATE", (column,), Domain("integer", bounds=(-1, 1))),
    ]
    for node in broken:
        with pytest.raises(AssertionError):
            check(engine, [node], [f'"{name}"' for name in columns(node)])


@pytest.mark.parametrize("form", NESTED)
def test_deep_nesting_stays_short_and_runs(form: str) -> None:
    node = nested(form, 40)
    names = ", ".join(f'NULL::{TYPES[domain.type]} AS "{name}"' for name, domain in COLUMNS.items())
    sql = selected([node], f"(SELECT {names})")
    assert len(sql) < 30_000
    assert duckdb.sql(sql).fetchall()


# Ordinary values: what the engine itself says of the text


@pytest.fixture(scope="module")
def ordinary() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        shape = ", ".join(f'"{name}" {TYPES[domain.type]}' for name, domain in COLUMNS.items())
        connection.execute(f"CREATE TABLE t ({shape})")
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(COLUMNS))})", ROWS)
        yield connection


def plain(value: Any) -> Any:
    """DuckDB's date arithmetic gives the midnight where ours gives the day; a NaN or infinity is our NULL."""
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date()
    return None if isinstance(value, float) and not math.isfinite(value) else value


@pytest.mark.parametrize("question", ORDINARY)
def test_ordinary_values_as_the_engine_computes_them(ordinary: duckdb.DuckDBPyConnection, question: str) -> None:
    node = read(question)
    ours = ordinary.execute(selected([node], "t")).fetchall()
    theirs = ordinary.execute(f"SELECT {question} FROM t").fetchall()
    assert [plain(each) for (each,) in ours] == [plain(each) for (each,) in theirs]
    assert any(each is not None for (each,) in ours)
    assert all(inside(each, node.domain) for (each,) in ours)


@pytest.mark.parametrize("unit", calendar.UNITS)
@pytest.mark.parametrize("kind", [Type.DATE, Type.TIMESTAMP])
def test_the_calendar_is_the_engines(unit: str, kind: Type) -> None:
    """Ranges of dates are computed by our calendar, values by the engine's: on random days, half of them near 1970."""
    source = random.Random(f"{unit} {kind}")
    pairs = [(_a_moment(source, kind), _a_moment(source, kind)) for _ in range(300)]
    listed = ", ".join(f"({constant(a, kind)}, {constant(b, kind)})" for a, b in pairs)
    steps = source.randint(-50, 50)
    asked = f"a, b, date_diff('{unit}', a, b), date_trunc('{unit}', a), a + to_{unit}s({steps})"
    found = duckdb.sql(f"SELECT {asked} FROM (VALUES {listed}) AS t(a, b)").fetchall()
    for a, b, crossed, start, moved in found:
        assert crossed == calendar.periods_between(unit, a, b)
        if unit in calendar.DAYS or kind is Type.TIMESTAMP:
            assert plain(start) == plain(calendar.truncate(unit, a))
            ours = calendar.shift(a, steps, unit)
            assert isinstance(moved, str) if ours is None else plain(moved) == plain(ours)


def _a_moment(source: random.Random, kind: Type) -> dt.date:
    anywhere = dt.datetime.min + dt.timedelta(seconds=source.uniform(0, 3_652_058 * 86_400))
    near = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=source.uniform(-3e6, 3e6))
    found = source.choice([anywhere, near])
    return found.date() if kind is Type.DATE else found


def test_whole_quotients_are_exact_or_missing() -> None:
    """The least number of 64 bits has no opposite: engines fail there, or give it back. Here it is missing."""
    x, y = (Column(Field(0, "t", name), DOMAINS["i"]) for name in ("x", "y"))
    pairs = list(product(HOSTILE[Type.INTEGER], repeat=2))
    listed = ", ".join(f"({constant(a, Type.INTEGER)}, {constant(b, Type.INTEGER)})" for a, b in pairs)
    rows = f"(SELECT * FROM (VALUES {listed}) AS t(x, y))"
    for a, b, found in duckdb.sql(selected([x, y, call("//", x, y)], rows)).fetchall():
        known = a is not None and b not in (None, 0) and a != -(2**63)
        sign = 1 if known and (a < 0) == (b < 0) else -1
        assert found == (sign * (abs(a) // abs(b)) if known else None)


def test_buckets_are_those_of_the_standard() -> None:
    low, high, n = Fraction("-1.5"), Fraction(10), 4
    for value in ("-2", "-1.5", "-1.25", "0", "1.375", "4.25", "7.124", "7.125", "9.999", "10", "1e150"):
        exactly = Fraction(value)
        wanted = (
            0 if exactly < low else n + 1 if exactly >= high else math.floor((exactly - low) * n / (high - low)) + 1
        )
        node = read(f"WIDTH_BUCKET({value}, -1.5, 10, 4)")
        assert duckdb.sql(selected([node])).fetchall() == [(wanted,)]


def test_joined_texts_are_cut() -> None:
    essay = Column(Field(0, "t", "essay"), Domain("text", max_length=9_000))
    node = call("||", essay, essay, literal(Type.TEXT, "end"))
    sql = selected([node], "(SELECT repeat('x', 9000) AS essay)")
    assert duckdb.sql(f"SELECT length(k0) FROM ({sql})").fetchall() == [(10_000,)]
    assert "SUBSTR(" not in selected([read("name || name || 'end'")])  # surely short


def test_values_are_written_exactly() -> None:
    values: list[tuple[Any, Type, Any]] = [
        (2**62, Type.INTEGER, 2**62),
        (-(2**62), Type.INTEGER, -(2**62)),
        (Fraction("0.1"), Type.REAL, 0.1),
        (Fraction("-1e-150"), Type.REAL, -1e-150),
        (Fraction(2) ** 53 + 1, Type.REAL, 2.0**53),
        (Fraction(10) ** 400, Type.REAL, 1.7976931348623157e308),
        ("it's \\ \" -- \n", Type.TEXT, "it's \\ \" -- \n"),
        (True, Type.BOOLEAN, True),
        (dt.date(1, 1, 1), Type.DATE, dt.date(1, 1, 1)),
        (dt.datetime(9999, 12, 31, 23, 59, 59, 999999), Type.TIMESTAMP, dt.datetime.max),
        *((None, kind, None) for kind in Type),
    ]
    for value, kind, wanted in values:
        sql = constant(value, kind)
        assert duckdb.sql(f"SELECT {sql}, typeof({sql})").fetchall() == [(wanted, TYPES[kind])]


def test_every_triple_is_its_date_or_none() -> None:
    triples = list(product((-1, 0, 1, 1900, 2000, 2023, 2024, 9999, 10_000), range(-1, 15), range(-1, 34)))
    rows = duckdb.connect()
    values = ", ".join(f"({year}, {month}, {day})" for year, month, day in triples)
    rows.execute(f"CREATE TABLE t AS SELECT * FROM (VALUES {values}) AS v (y, m, d)")
    parts = [Column(Field(0, "t", name), Domain("integer")) for name in "ymd"]
    found = rows.execute(selected([call("MAKE_DATE", *parts), *parts], "t")).fetchall()
    assert len(found) == len(triples)
    for date, *parts_found in found:
        try:
            assert date == dt.date(*parts_found)
        except ValueError:
            assert date is None


# Random expressions over random ranges


GIVES: dict[Type, list[tuple[str, list[Any]]]] = {
    Type.INTEGER: [
        *(
            (name, [Type.INTEGER, Type.INTEGER])
            for name in ("+", "-", "*", "%", "NULLIF", "LEAST", "GREATEST", "COALESCE")
        ),
        *((name, [Type.INTEGER]) for name in ("NEGATE", "ABS", "SIGN")),
        ("ROUND", [Type.INTEGER, whole(-1)]),
        ("SIGN", [Type.REAL]),
        ("CASE", [Type.BOOLEAN, Type.INTEGER, Type.INTEGER]),
        ("CAST", [Type.REAL, text("integer")]),
        ("CAST", [Type.BOOLEAN, text("integer")]),
        *(("EXTRACT", [text(part), Type.DATE]) for part in ("year", "month", "week", "doy")),
        *(("DATE_DIFF", [text(unit), Type.DATE, Type.DATE]) for unit in ("year", "month", "week", "day", "hour")),
        ("WIDTH_BUCKET", [Type.REAL, exact("-3.5"), exact("12"), whole(5)]),
    ],
    Type.REAL: [
        *(
            (name, [kind, Type.REAL])
            for kind in (Type.INTEGER, Type.REAL)
            for name in ("+", "-", "*", "/", "%", "POW", "LEAST", "GREATEST", "COALESCE")
        ),
        *((name, [Type.REAL]) for name in ("NEGATE", "ABS", "FLOOR", "CEIL", "SQRT", "LN", "EXP")),
        *((name, [Type.INTEGER]) for name in ("SQRT", "LN", "EXP")),
        *(("ROUND", [Type.REAL, whole(digits)]) for digits in (-2, 0, 1, 3)),
        *(("POW", [Type.REAL, whole(power)]) for power in (-2, -1, 0, 2, 3)),
        ("CASE", [Type.BOOLEAN, Type.REAL, Type.INTEGER]),
        ("CAST", [Type.INTEGER, text("real")]),
    ],
    Type.BOOLEAN: [
        *((name, [kind, kind]) for kind in (Type.INTEGER, Type.REAL, Type.DATE) for name in ("=", "<", "<=")),
        *((name, [Type.BOOLEAN, Type.BOOLEAN]) for name in ("AND", "OR")),
        ("IS NULL", [Type.REAL]),
        ("NOT", [Type.BOOLEAN]),
        ("BETWEEN", [Type.REAL, Type.INTEGER, Type.REAL]),
    ],
    Type.DATE: [
        ("MAKE_DATE", [Type.INTEGER, Type.INTEGER, Type.INTEGER]),
        *(("DATE_TRUNC", [text(unit), Type.DATE]) for unit in ("year", "quarter", "month", "week")),
        *(
            ("DATE_ADD", [Type.DATE, whole(steps), text(unit)])
            for steps in (-40, 1, 500)
            for unit in ("month", "week", "day")
        ),
        ("CASE", [Type.BOOLEAN, Type.DATE, Type.DATE]),
        *((name, [Type.DATE, Type.DATE]) for name in ("LEAST", "GREATEST", "COALESCE")),
    ],
}


def a_domain(source: random.Random, kind: Type) -> Domain:
    if source.random() < 0.15:
        return Domain(kind)
    if kind is Type.INTEGER:
        size = 10 ** source.choice([0, 1, 2, 5, 10, 18])
        return Domain(kind, bounds=tuple(sorted(source.randint(-size, size) for _ in "lh")))
    if kind is Type.REAL:
        size = 10.0 ** source.choice([-140, -3, 0, 1, 2, 10, 150])
        return Domain(kind, bounds=_reals(source, size))
    days = sorted(dt.date.fromordinal(source.randint(1, 3_652_059)) for _ in "lh")
    return Domain(kind, bounds=tuple(days)) if kind is Type.DATE else Domain(kind)


def _reals(source: random.Random, size: float) -> tuple[Fraction, Fraction]:
    low, high = sorted(Fraction(repr(source.choice([0.0, 1.0, source.uniform(-1, 1)]) * size)) for _ in "lh")
    return low, high


def a_value(source: random.Random, domain: Domain) -> str:
    """Its SQL: anything hostile where no range is declared, else a value of the range, often an end."""
    if domain.range is None:
        found = source.choice(HOSTILE[domain.type])
        return "NULL" if found is None else f"CAST('{found}' AS {TYPES[domain.type]})"
    found = None if source.random() < 0.1 else _within(source, domain)
    small = domain.type is Type.REAL and found is not None and abs(found) < SMALLEST_REAL
    return constant(Fraction(0) if small else found, domain.type)  # as a scan does


def _within(source: random.Random, domain: Domain) -> Any:
    low: Any
    high: Any
    low, high = domain.range  # type: ignore[misc]
    if source.random() < 0.4:
        return source.choice([low, high])
    if domain.type is Type.REAL:
        return min(max(Fraction(source.uniform(nearest_double(low), nearest_double(high))), low), high)
    if domain.type is Type.DATE:
        return dt.date.fromordinal(source.randint(low.toordinal(), high.toordinal()))
    return source.randint(low, high)


def an_expression(source: random.Random, kind: Type, known: dict[str, Domain], depth: int) -> Expression:
    leaves = [Column(Field(0, "t", name), domain) for name, domain in known.items() if domain.type is kind]
    if depth == 0 or source.random() < 0.15:
        return source.choice(leaves)
    name, wanted = source.choice(GIVES[kind])
    arguments = [an_expression(source, each, known, depth - 1) if isinstance(each, Type) else each for each in wanted]
    try:
        found = call(name, *arguments)
    except Unsupported:  # a number that outgrew 64 bits is a real
        return source.choice(leaves)
    return found if found.domain.type is kind else source.choice(leaves)


def sound(engine: duckdb.DuckDBPyConnection, seed: int, rows: int = 60) -> bool:
    """Checks one random expression on random rows; whether it was told a range."""
    source = random.Random(seed)
    known = {f"{kind.value}{i}": a_domain(source, kind) for kind in GIVES for i in (0, 1)}
    node = an_expression(source, source.choice(list(GIVES)), known, source.choice([1, 2, 3, 4]))
    used = columns(node)
    listed = [[a_value(source, each) for each in used.values()] for _ in range(rows)]
    names = ", ".join(f'"{name}"' for name in used)
    written = ", ".join(f"({', '.join(row)})" for row in listed)
    check(engine, [node], [f"(VALUES {written}) AS t({names})"])
    return node.domain.range is not None


@settings(max_examples=40)
@given(seed=st.integers(0, 2**64))
def test_results_lie_in_their_ranges(engine: duckdb.DuckDBPyConnection, seed: int) -> None:
    sound(engine, seed)


@pytest.mark.long
def test_results_lie_in_their_ranges_at_length(engine: duckdb.DuckDBPyConnection) -> None:
    assert sum(sound(engine, seed) for seed in range(30_000)) > 10_000


def test_a_column_may_be_called_like_anything_that_is_generated() -> None:
    """A column called v met the variable of a lambda."""
    for called in ("v", "x", "u", "k0", "v0", "t", "n", "d0", "c0", "x0", "x1", "r"):
        column = Column(Field(0, "t", called), Domain("real"))
        node = column
        for _ in range(4):
            node = call("NULLIF", call("/", node, column), column)  # type: ignore[assignment]
        sql = selected([node], f"(SELECT 2.0::DOUBLE AS {called})")
        assert duckdb.sql(sql).fetchall() == [(2.0 / 2 / 2 / 2 / 2,)]
