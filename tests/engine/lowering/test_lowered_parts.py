"""Small steps of the lowering, each against what its docstring says, on trees built by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import duckdb
import pytest

from engine.lowered import selected
from plan.described import CATALOG
from plan.samples import read
from sfumato.engine.lowering import cell_lowering, reading_statements, relation_lowering
from sfumato.engine.lowering.applications import _is_zero_or_normal, _lower_bound_of_nonzero_size
from sfumato.engine.lowering.cell_lowering import CountedRows, columns_read_by_predicates, encode_keys
from sfumato.engine.lowering.relational_form import Apply, CleanTable, Constant, Reference, ScalarFunction, Select
from sfumato.plan.aggregates.measures import Count
from sfumato.plan.bounding import BoundedPlan, bound_by_whole_rows
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.nodes import GroupValues, Scan, SemiJoin, UnitJoin
from sfumato.plan.readings.dense_readings import DistinctValueReading, Marginals, ValueCounts, ValueTable
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.plan.values.expressions import Call, Column, Field, columns
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Type

LEAST, FAR = Fraction(1, 2**500), Fraction(1, 2**400)
LIMITS = ContributionLimits(3, 3, 3)


def real(low: Any = None, high: Any = None) -> Column:
    bounds = None if low is None else (Fraction(low), Fraction(high))
    return Column(Field(0, "t", f"{low} {high}"), Domain("real", bounds=bounds))


WIDE = real(-5, 5)


@pytest.mark.parametrize(
    ("function", "arguments", "result", "normal"),
    [
        ("SQRT", [WIDE], (LEAST, 1), True),
        ("SQRT", [WIDE], (-1, -LEAST), True),
        ("SQRT", [WIDE], (0, 1), False),
        ("SQRT", [WIDE], (-1, 0), False),
        ("SQRT", [WIDE], (-1, 1), False),
        ("SQRT", [WIDE], None, False),
        ("+", [WIDE, real(FAR, 1)], (-5, 6), True),
        ("-", [real(-1, -FAR), WIDE], (-6, 5), True),
        ("+", [WIDE, real(FAR / 2, 1)], (-5, 6), False),
        ("+", [WIDE, WIDE], None, False),
        ("*", [WIDE, real(1, 2)], (-10, 10), True),
        ("*", [real(-2, -1), WIDE], None, True),
        ("*", [WIDE, real("0.9", 2)], (-10, 10), False),
        ("/", [WIDE, real(-1, "0.5")], (-10, 10), True),
        ("/", [WIDE, real("0.5", 1)], (-10, 10), True),
        ("/", [WIDE, real("-1.5", "0.5")], (-10, 10), False),
        ("/", [WIDE, real("0.5", "1.5")], (-10, 10), False),
        ("/", [real("0.5", 1), WIDE], (-10, 10), False),
        ("/", [WIDE, real()], (-10, 10), False),
    ],
)
def test_what_is_surely_0_or_normal(function: str, arguments: list[Any], result: Any, normal: bool) -> None:
    domain = Domain("real", bounds=None if result is None else tuple(map(Fraction, result)))
    assert _is_zero_or_normal(Call(function, tuple(arguments), domain)) is normal


@pytest.mark.parametrize(
    ("low", "high", "least"),
    [
        (2, 3, 2),
        (-3, -2, 2),
        ("0.5", 3, Fraction(1, 2)),
        (0, 1, 0),
        (-1, 0, 0),
        (-1, 1, 0),
        (-1, 7, 0),
        (None, None, 0),
    ],
)
def test_the_least_size_of_a_value_that_is_not_0(low: Any, high: Any, least: Fraction) -> None:
    x = real(low, high)
    assert _lower_bound_of_nonzero_size(x) == least
    assert _lower_bound_of_nonzero_size(Call("SQRT", (read("weight"),), x.domain)) == least


def test_a_whole_number_that_is_not_0_is_at_least_1() -> None:
    for name, least in (("count", 1), ("member", 1), ("name", 0), ("weight", 0)):
        assert _lower_bound_of_nonzero_size(Call("CAST", (read(name),), Domain("real"))) == least


ROUNDED = ["-2.5", "-0.05", "0", "0.005", "0.25", "1.005", "2.5", "149.9", "150", "1250", "-1250", "49.99"]


@pytest.mark.parametrize("digits", [-2, -1, 0, 1, 2])
def test_rounding_to_digits_is_done_by_powers_of_ten(digits: int) -> None:
    """Python rounds the same scaled doubles, halves away from 0."""
    for column, limited in (("pay", False), ("weight", True)):
        sql = selected([read(f"ROUND({column}, {digits})")], f"(SELECT CAST(v AS DOUBLE) AS {column} FROM cells)")
        power = 10.0 ** abs(digits)
        connection = duckdb.connect()
        connection.execute("CREATE TABLE cells AS SELECT UNNEST([" + ", ".join(ROUNDED) + "]::DOUBLE[]) AS v")
        found = [row[0] for row in connection.execute(sql).fetchall()]
        for text, value in zip(ROUNDED, found, strict=True):
            number = float(text)
            scaled = number * power if digits > 0 else number / power
            whole = int(abs(scaled) + 0.5) * (1 if scaled >= 0 else -1)
            assert value == (whole / power if digits > 0 else whole * power)
        assert sql.upper().count("BETWEEN") == (0 if not limited else 2 if digits else 1)


def test_whole_numbers_are_rounded_to_tens() -> None:
    for digits, expected in ((-1, [0, 0, 10, 10, 20, 30, 110, -10, 0]), (-2, [0, 0, 0, 0, 0, 0, 100, 0, 0])):
        sql = selected([read(f"ROUND(age, {digits})")], "(SELECT UNNEST([0, 4, 5, 14, 15, 25, 110, -5, -4]) AS age)")
        found = [row[0] for row in duckdb.sql(sql).fetchall()]
        assert found == expected
        assert set(map(type, found)) == {int}


def key(name: str, domain: Domain) -> GroupValues:
    return Column(Field(0, "t", name), domain)


def test_keys_of_few_public_texts_are_coded_in_the_order_of_the_texts() -> None:
    many = tuple(f"v{number:03}" for number in range(257))
    domains = {
        "k0": Domain("text", values=("b", "a")),
        "k1": Domain("text", values=many),
        "k2": Domain("text", values=many[:256]),
        "k3": Domain("integer", values=(2, 1)),
        "k4": Domain("text"),
    }
    bounded: Any = type("Bounded", (), {})()
    bounded.plan = type("Plan", (), {"keys": tuple(key(name, domain) for name, domain in domains.items())})()
    plain = (*((name, Reference(f"c{index}")) for index, name in enumerate(domains)), ("v0", Reference("v0")))
    rows = CountedRows(
        Select(plain, CleanTable("t")), tuple(domains), (Type.TEXT,) * 5, ("v0",), frozenset(), frozenset()
    )
    coded = encode_keys(bounded, rows)
    assert coded.codes == {"k0": ("a", "b"), "k2": many[:256]}
    scalars = dict(coded.select.columns)
    for name, scalar in plain:
        if name in coded.codes:
            assert scalars[name] == Apply(ScalarFunction.GROUP_CODE, (scalar,), coded.codes[name])
        else:
            assert scalars[name] == scalar
    assert list(scalars) == [name for name, _ in plain]


def reading(kind: type, **fields: Any) -> Any:
    return object.__new__(type("Reading", (kind,), fields))


def test_a_server_sends_a_row_for_each_cell_or_pair_of_a_group_and_a_value() -> None:
    sent = reading_statements._max_sent_rows
    for kind in (Marginals, ValueCounts):
        assert sent(reading(kind, cell_count=35)) == 35
    for kind in (GroupTotals, DistinctValueReading):
        assert sent(reading(kind, groups=[()] * 7)) == 7
    assert sent(reading(ValueTable, groups=[()] * 7, values=range(5))) == 35
    assert sent(object()) == 0  # type: ignore[arg-type]


def test_renamed_columns_come_after_the_unit_and_one_stands_for_none() -> None:
    rows = Select((("c0", Constant(1, Type.INTEGER)),), CleanTable("t"))
    x, y = Field(0, "t", "x"), Field(0, "t", "y")
    renamed = relation_lowering._rename_columns
    two = (("a", Reference("c0")), ("b", Reference("c1")))
    assert renamed(rows, {x: "a", y: "b"}, False).columns == two
    assert renamed(rows, {x: "a", y: "b"}, True).columns == (("u", Reference("u")), *two)
    assert renamed(rows, {}, True).columns == (("u", Reference("u")),)
    assert renamed(rows, {}, False).columns == (("c", Constant(0, Type.INTEGER)),)
    assert renamed(rows, {}, False).source == rows


WHOLE = Domain("integer", bounds=(0, 9))


@pytest.mark.parametrize("kind", ["join", "semi-join"])
def test_a_match_compares_keys_of_both_sides(kind: str) -> None:
    """Columns of one table on the left, of another on the right; a side may have no more columns than are compared."""
    left_x, right_x = (Column(Field(source, "t", "x"), WHOLE) for source in (0, 1))
    left, right = (Scan("t", False, source, {Field(source, "t", "x"): WHOLE}, LIMITS) for source in (0, 1))
    two = literal(Type.INTEGER, 2)
    ones = [call(">", left_x, two), call("<", right_x, two)]
    condition = call("AND", call("<=", right_x, left_x), *ones)
    pairs = ((left_x, right_x), (call("+", left_x, two), right_x))
    match: Any = (
        UnitJoin(left, right, pairs, condition, False)
        if kind == "join"
        else SemiJoin(left, right, pairs, condition, False)
    )
    keys: Any = ([], [])
    scalar = relation_lowering._match_condition(left, match, keys)
    assert keys == ([left_x, pairs[1][0], left_x, ones[0]], [right_x, right_x, right_x, ones[1]])
    k, r = ([Reference(f"{side}{index}", alias) for index in range(4)] for side, alias in (("k", "r"), ("l", "j")))
    assert scalar == Apply(
        ScalarFunction.AND,
        (
            Apply(ScalarFunction.EQUAL, (Reference("u", "r"), Reference("u", "j"))),
            Apply(ScalarFunction.EQUAL, (k[0], r[0])),
            Apply(ScalarFunction.EQUAL, (k[1], r[1])),
            Apply(ScalarFunction.AT_MOST, (r[2], k[2])),
            k[3],
            r[3],
        ),
    )


def counts(number: int, predicate: str = "age = {n}", more: str = "", group: str = "") -> BoundedPlan:
    listed = ", ".join(f"COUNT(*) FILTER (WHERE {predicate.format(n=n)}) AS n{n}" for n in range(number))
    text = f"SELECT {listed}{more} FROM visits {group}"
    return bound_by_whole_rows(parse(text, CATALOG).plan, LIMITS, 1)


def cells_of(bounded: BoundedPlan, values: list[Any] | None = None, named: dict[str, Any] | None = None) -> Any:
    references = {
        reference: (named or {}).get(reference.name, Reference(f"c_{reference.name}"))
        for measure in bounded.plan.measures
        if measure.where is not None
        for reference in columns(measure.where)
    }
    return [(scalar.name, domain) for scalar, domain in columns_read_by_predicates(bounded, references, values or [])]


def test_many_counts_are_added_up_by_the_columns_that_they_test(monkeypatch: pytest.MonkeyPatch) -> None:
    age = CATALOG.tables["visits"].columns["age"]
    urgent = CATALOG.tables["visits"].columns["urgent"]
    assert cells_of(counts(12)) == [("c_age", age)]
    assert cells_of(counts(12, "age = {n} AND urgent")) == [("c_age", age), ("c_urgent", urgent)]
    assert cells_of(counts(12, more=", COUNT(*) AS rows")) == [("c_age", age)]
    assert cells_of(counts(11)) == []
    nothing_tested = replace(counts(1), measures=())
    unfiltered = bound_by_whole_rows(
        replace(nothing_tested.plan, source=parse("SELECT COUNT(*) FROM visits", CATALOG).plan.source), LIMITS, 1
    )
    (measure,) = unfiltered.measures
    rows = replace(measure, measure=Count())
    assert cells_of(replace(unfiltered, measures=(rows,) * 12)) == []
    assert cells_of(counts(12, group="GROUP BY region")) == []
    assert cells_of(counts(12, more=", SUM(cost) AS s")) == []
    assert cells_of(counts(12, more=", COUNT(DISTINCT patient_id) AS p")) == []
    assert cells_of(counts(12, "ward = 'w{n}'")) == []
    assert cells_of(counts(12, "age = {n} AND ward = 'w'")) == []
    assert cells_of(counts(12), named={"age": Constant(1, Type.INTEGER)}) == []
    assert cells_of(counts(12), [Reference("c_age")]) == [("c_age", age)]
    assert cells_of(counts(12), [Reference("other")]) == []
    for limit, found in ((112 * 3, 2), (112 * 3 - 1, 0)):  # with NULL, 112 ages and 3 answers
        monkeypatch.setattr(cell_lowering, "MAX_CELLS", limit)
        assert len(cells_of(counts(12, "age = {n} AND urgent"))) == found
