"""Range rules as pairs, what introduces NULL, and the table of what can be asked."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from plan.samples import COLUMNS, read
from sfumato.engine.lowering.row_lowering import _LOWERINGS
from sfumato.errors import Unsupported
from sfumato.plan.values.expressions import Call, Column, Field
from sfumato.plan.values.functions import FUNCTIONS, call, is_never_null, literal, null_literal
from sfumato.policy import Domain, Type

DOMAINS = {
    # whole numbers stay whole while 64 bits surely hold them
    "age + 1": Domain("integer", bounds=(1, 111)),
    "age - age": Domain("integer", bounds=(-110, 110)),
    "age * -3": Domain("integer", bounds=(-330, 0)),
    "age * 40000000000000000": Domain("integer", bounds=(0, 110 * 4 * 10**16)),
    "age * 50000000000000000": Domain("real", bounds=(0, 110 * 5 * 10**16)),
    "count + 1": Domain("real", nullable=True),
    "-age": Domain("integer", bounds=(-110, 0)),
    "-count": Domain("real"),
    "ABS(age - 50)": Domain("integer", bounds=(0, 60)),
    "ABS(-age - 1)": Domain("integer", bounds=(1, 111)),
    "age % 7": Domain("integer", bounds=(0, 6)),
    "(age - 50) % 7": Domain("integer", bounds=(-6, 6)),
    "age % 1000": Domain("integer", bounds=(0, 110)),
    "1000 % age": Domain("integer", bounds=(0, 109), nullable=True),
    "age % count": Domain("real", nullable=True),
    "SIGN(weight)": Domain("integer", values=(-1, 0, 1)),
    "ROUND(age, -2)": Domain("integer", bounds=(0, 100)),
    "ROUND(age - 250, -2)": Domain("integer", bounds=(-300, -100)),
    # reals are doubles
    "age + 0.1": Domain("real", bounds=("0.1", "110.1")),
    "0.1 + 0.2": Domain("real", bounds=("0.30000000000000004", "0.30000000000000004")),
    "share * pay": Domain("real", bounds=(-50, 500)),
    "pay / 0": Domain("real", nullable=True),
    "pay / share": Domain("real", nullable=True),
    "age / pay": Domain("real", nullable=True),  # 0 lies inside, not at an end
    "pay / (share + 1)": Domain("real", bounds=(-100, 1000)),
    "age / 7": Domain("real", bounds=(0, "15.714285714285714")),
    "-pay": Domain("real", bounds=(-1000, 100), grid="0.01"),
    "ABS(pay)": Domain("real", bounds=(0, 1000), grid="0.01"),
    "pay + 1": Domain("real", bounds=(-99, 1001)),
    "ROUND(pay / 7)": Domain("real", bounds=(-14, 143)),
    "ROUND(pay / 7, 1)": Domain("real", bounds=("-14.3", "142.9")),
    "FLOOR(share)": Domain("real", bounds=(0, 0)),
    "CEIL(share)": Domain("real", bounds=(0, 1)),
    "SQRT(pay)": Domain("real", bounds=(0, "31.622776601683793"), nullable=True),
    "SQRT(age + 15)": Domain("real", bounds=("3.872983346207417", "11.180339887498949")),
    "SQRT(-1)": Domain("real", nullable=True),
    "EXP(pay)": Domain("real", nullable=True),
    "POW(age, 2)": Domain("real", bounds=(0, 12100)),
    "POW(pay, 2)": Domain("real", bounds=(0, 1000000)),
    "POW(pay, 3)": Domain("real", bounds=(-1000000, 1000000000)),
    "POW(pay, 0.5)": Domain("real", nullable=True),
    "POW(age, -1)": Domain("real", nullable=True),
    "weight * weight": Domain("real", nullable=True),
    "1e150 * 10": Domain("real", nullable=True),
    # extremes: only what is surely there bounds alone
    "LEAST(age, 10)": Domain("integer", bounds=(0, 10)),
    "GREATEST(age, 10)": Domain("integer", bounds=(10, 110)),
    "LEAST(age, age - 50)": Domain("integer", bounds=(-50, 110)),
    "LEAST(age, NULL)": Domain("integer"),
    "LEAST(count, 10)": Domain("integer"),
    "LEAST(GREATEST(weight, 0), 100)": Domain("real", bounds=(0, 100)),
    "GREATEST(LEAST(count, 100), 0)": Domain("integer", bounds=(0, 100)),
    "GREATEST(LEAST(count, 100), 0.5)": Domain("real", bounds=("0.5", 100)),
    "LEAST(COALESCE(age, 5), 3)": Domain("integer", bounds=(0, 3)),
    "GREATEST(seen, DATE '2020-01-01')": Domain("date"),
    "LEAST(GREATEST(seen, DATE '2020-01-01'), '2021-01-01')": Domain("date", bounds=("2020-01-01", "2021-01-01")),
    "LEAST(name, 'x')": Domain("text"),
    # choices
    "CASE WHEN member THEN 'a' ELSE 'b' END": Domain("text", values=("a", "b")),
    "CASE WHEN member THEN 'a' END": Domain("text", values=("a",), nullable=True),
    "CASE WHEN member THEN colour ELSE town END": Domain("text", values=("red", "blue", "Ulm", "Bonn"), nullable=True),
    "CASE WHEN member THEN name ELSE 'x' END": Domain("text"),
    "CASE WHEN member THEN age ELSE 200 END": Domain("integer", bounds=(0, 200)),
    "CASE WHEN member THEN pay ELSE 0 END": Domain("real", bounds=(-100, 1000), grid="0.01"),
    "CASE WHEN member THEN pay ELSE 0.001 END": Domain("real", bounds=(-100, 1000)),
    "COALESCE(age, -1)": Domain("integer", bounds=(-1, 110)),
    "COALESCE(town, 'none')": Domain("text", values=("Ulm", "Bonn", "none")),
    "COALESCE(town, NULL)": Domain("text", values=("Ulm", "Bonn"), nullable=True),
    "NULLIF(age, 0)": Domain("integer", bounds=(0, 110), nullable=True),
    "IF(member, 1, 0.5)": Domain("real", values=(1, "0.5")),
    # conditions
    "age > 5": Domain("boolean", values=(False, True)),
    "town = 'Ulm'": Domain("boolean", values=(False, True), nullable=True),
    "town IS NULL": Domain("boolean", values=(False, True)),
    "town = 'Ulm' AND member": Domain("boolean", values=(False, True), nullable=True),
    # text
    "LENGTH(colour)": Domain("integer", bounds=(3, 4)),
    "LENGTH(name)": Domain("integer", bounds=(0, 1000)),
    "UPPER(town)": Domain("text", nullable=True, max_length=4),
    "CONCAT(town, 'x')": Domain("text", max_length=5),
    "town || 'x'": Domain("text", nullable=True, max_length=5),
    "name || name": Domain("text", max_length=2000),
    "REPLACE(colour, 'r', 'xyz')": Domain("text", max_length=12),
    "REPLACE(colour, 're', 'x')": Domain("text", max_length=4),
    "REPLACE(REPLACE(name, 'a', 'bbbb'), 'b', 'cccc')": Domain("text", max_length=10_000),
    "CAST(count AS VARCHAR)": Domain("text", max_length=32),
    # dates
    "age // 10": Domain("integer", bounds=(0, 11)),
    "-age // 10": Domain("integer", bounds=(-11, 0)),
    "(age + 5) // (age + 1)": Domain("integer", bounds=(0, 115)),
    "(age + 10) // (age - 5)": Domain("integer", bounds=(-120, 120), nullable=True),
    "count // 10": Domain("integer"),
    "count // -1": Domain("integer", nullable=True),
    "age // count": Domain("integer", bounds=(-110, 110), nullable=True),
    "age // 0": Domain("integer", bounds=(0, 0), nullable=True),
    "TRUNC(pay / 7)": Domain("real", bounds=(-14, 142)),
    "STRFTIME(born, '%Y-%m')": Domain("text", max_length=7),
    "DAYNAME(seen)": Domain("text", max_length=9),
    "EXTRACT(isodow FROM seen)": Domain("integer", bounds=(1, 7)),
    "EXTRACT(second FROM moment)": Domain("integer", bounds=(0, 59)),
    "EXTRACT(year FROM born)": Domain("integer", bounds=(2020, 2020)),
    "EXTRACT(year FROM seen)": Domain("integer"),
    "EXTRACT(month FROM seen)": Domain("integer", bounds=(1, 12)),
    "DATE_TRUNC('quarter', born)": Domain("date", bounds=("2020-01-01", "2020-10-01")),
    "DATE_TRUNC('day', paid)": Domain("timestamp", bounds=("2020-01-01 00:00:00", "2020-01-02 00:00:00")),
    "DATE_TRUNC('second', paid)": Domain("timestamp", bounds=("2020-01-01 00:00:00", "2020-01-02 12:00:00")),
    "DATE_TRUNC('week', seen)": Domain("date"),
    "DATE_TRUNC('decade', born)": Domain("date", bounds=("2020-01-01", "2020-01-01")),
    "DATE_TRUNC('decade', seen)": Domain("date", nullable=True),
    "DATE_TRUNC('isoyear', born)": Domain("date", bounds=("2019-12-30", "2019-12-30")),
    "TIME_BUCKET(INTERVAL '2 weeks', born)": Domain("date", bounds=("2019-12-23", "2020-12-21")),
    "TIME_BUCKET(INTERVAL '5 months', born)": Domain("date", bounds=("2020-01-01", "2020-11-01")),
    "TIME_BUCKET(INTERVAL '1 hour', paid)": Domain("timestamp", bounds=("2020-01-01 00:00:00", "2020-01-02 12:00:00")),
    "STRPTIME(name, '%d.%m.%Y')": Domain("timestamp", nullable=True),
    "EXTRACT(century FROM seen)": Domain("integer", bounds=(1, 100)),
    "EXTRACT(yearweek FROM born)": Domain("integer", bounds=(202001, 202053)),
    "EXTRACT(epoch FROM born)": Domain("integer", bounds=(1577836800, 1609372800)),
    "EXTRACT(julian FROM born)": Domain("integer", bounds=(2458850, 2459215)),
    "EXTRACT(microsecond FROM moment)": Domain("integer", bounds=(0, 59_999_999)),
    "EXTRACT(millisecond FROM moment)": Domain("integer", bounds=(0, 59_999)),
    "EXTRACT(year FROM AGE(born, DATE '1990-03-01'))": Domain("integer", bounds=(29, 30)),
    "MAKE_DATE(2020, 2, 30)": Domain("date", bounds=("2020-02-29", "2020-02-29"), nullable=True),
    "MAKE_DATE(EXTRACT(year FROM born), EXTRACT(month FROM seen), EXTRACT(day FROM seen))": Domain(
        "date", bounds=("2020-01-01", "2020-12-31"), nullable=True
    ),
    "DATE_DIFF('month', born, DATE '2021-01-31')": Domain("integer", bounds=(1, 12)),
    "DATE_DIFF('week', DATE '2020-01-01', born)": Domain("integer", bounds=(0, 52)),
    "born - DATE '2020-01-01'": Domain("integer", bounds=(0, 365)),
    "born + INTERVAL 2 MONTH": Domain("date", bounds=("2020-03-01", "2021-02-28")),
    "born + INTERVAL 1 HOUR": Domain("timestamp", bounds=("2020-01-01 01:00:00", "2020-12-31 01:00:00")),
    "born - INTERVAL 3000 YEAR": Domain("date", nullable=True),
    # conversions
    "CAST(age AS DOUBLE)": Domain("real", bounds=(0, 110)),
    "CAST(share AS BIGINT)": Domain("integer", bounds=(0, 0)),
    "CAST(weight AS BIGINT)": Domain("integer", nullable=True),
    "CAST(name AS DOUBLE)": Domain("real", nullable=True),
    "CAST(member AS INT)": Domain("integer", values=(0, 1)),
    "CAST(paid AS DATE)": Domain("date", bounds=("2020-01-01", "2020-01-02")),
    "WIDTH_BUCKET(weight, 0, 10, 5)": Domain("integer", bounds=(0, 6)),
}


@pytest.mark.parametrize(("text", "domain"), DOMAINS.items())
def test_ranges(text: str, domain: Domain) -> None:
    assert read(text).domain == domain


TRANSCENDENTAL = {
    "LN(age + 2)": (Decimal(2).ln(), Decimal(112).ln()),
    "LN(share + 0.5)": (Decimal("0.5").ln(), Decimal(0)),
    "EXP(-age)": (Decimal(-110).exp(), Decimal(1)),
    "EXP(share)": (Decimal(1), Decimal("0.5").exp()),
    "POW(age + 1, share)": (Decimal(1), Decimal(111) ** Decimal("0.5")),
    "POW(age + 3, -2)": (1 / Decimal(113) ** 2, 1 / Decimal(9)),
}


@pytest.mark.parametrize(("text", "ends"), TRANSCENDENTAL.items())
def test_ranges_of_logarithms_and_powers_are_tight_and_hold(text: str, ends: tuple[Decimal, Decimal]) -> None:
    """Outside the true ends, computed to 28 digits, by less than four units in a double's last place."""
    bounds = read(text).domain.bounds
    assert bounds is not None
    for bound, end, sign in zip(bounds, map(Fraction, ends), (-1, 1), strict=True):
        beyond = sign * (bound - end)
        assert -Fraction(1, 10**26) * abs(end) <= beyond <= abs(end) * Fraction(4, 2**52)


def test_a_logarithm_may_reach_zero() -> None:
    domain = read("LN(age)").domain
    assert domain.nullable
    assert domain.bounds is not None
    assert domain.bounds[0] == -347


def test_a_redefined_column_loses_its_bound() -> None:
    """The domain is that of the new expression, whatever the old name was declared to be."""
    age = Column(Field(0, "visits", "age"), COLUMNS["age"])
    redefined = Column(Field(0, "visits", "age"), call("*", age, literal(Type.INTEGER, 1000)).domain)
    assert call("+", redefined, literal(Type.INTEGER, 1)).domain.bounds == (1, 110_001)


def test_what_is_surely_there() -> None:
    sure = ["1", "COALESCE(age, 0)", "age IS NULL", "CASE WHEN age > 1 THEN 1 ELSE 2 END", "CONCAT(name, 'x')"]
    unsure = [
        "age",
        "NULL",
        "COALESCE(age, count)",
        "NULLIF(1, 1)",
        "CASE WHEN age > 1 THEN 1 END",
        "1 / 0",
        "name || 'x'",
    ]
    assert all(is_never_null(read(text)) for text in sure)
    assert not any(is_never_null(read(text)) for text in unsure)


def test_null_fits_every_type() -> None:
    assert call("+", null_literal(), literal(Type.INTEGER, 1)).domain.type is Type.REAL
    assert call("LOWER", null_literal()).domain == Domain("text", nullable=True, max_length=1)
    assert call("AND", null_literal(), null_literal()).domain.nullable
    for kind in Type:
        assert call("CAST", null_literal(), literal(Type.TEXT, kind.value)) == null_literal(kind)


@pytest.mark.parametrize("name", ["SLEEP_MS", "abs", ""])
def test_only_what_is_listed_can_be_called(name: str) -> None:
    with pytest.raises(Unsupported) as caught:
        call(name, literal(Type.INTEGER, 1))
    assert caught.value.code == "function"


def test_the_number_of_arguments_is_checked() -> None:
    one = literal(Type.INTEGER, 1)
    for name, arguments in {"ABS": (one, one), "POW": (one,), "CASE": (one,), "IN": (one,), "COALESCE": ()}.items():
        with pytest.raises(Unsupported) as caught:
            call(name, *arguments)
        assert caught.value.code == "arguments"


def test_the_table_names_every_function_that_is_written() -> None:
    made_of_others = {"IF", "DAYNAME", "MONTHNAME", "AGE", "REGEXP_FULL_MATCH"}
    assert set(FUNCTIONS) - made_of_others == set(_LOWERINGS)
    for name, function in FUNCTIONS.items():
        assert function.name == name
        assert function.signature
        assert function.meaning
        assert "\n" not in function.signature + function.meaning


def test_nodes_are_values() -> None:
    assert read("age + 1") == read("age  +  1")
    assert hash(read("age + 1")) == hash(read("(age + 1)"))
    assert isinstance(read("age + 1"), Call)
