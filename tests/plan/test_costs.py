"""What a question may cost is decided from its text and the policy: nothing dear is ever begun."""

from __future__ import annotations

from typing import Any

import pytest

import sfumato as sf
from plan.described import CATALOG, VISITS
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.errors import Unsupported
from sfumato.plan import costs
from sfumato.plan.aggregates.unit_measures import RankingFunction, RowNumbering, UnitRowCount
from sfumato.plan.canonical import digest
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.keys import possible_group_keys
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.nodes import AnySemiJoin, ExistsTest, PerUnit, Scan, SemiJoin, UnitJoin, Window, relations
from sfumato.plan.sql import sql_expressions
from sfumato.plan.sql.statements import parse
from sfumato.plan.values.expressions import Column, Field
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Type

LONG = "CASE WHEN age = 7 THEN REPLACE(REPLACE('aaaaaaaaaa', 'a', '{a}'), 'a', '{a}') ELSE 'a' END".format(a="a" * 32)
TIME_BOMB = " OR ".join([f"(s || 'i') LIKE '%{'_' * 1_500}b%'"] * 30)
NESTED = "ward"
for _ in range(6):
    NESTED = f"REPLACE({NESTED}, 'a', '{'a' * 32}')"


def code(text: str, catalog: Catalog = CATALOG) -> str | None:
    try:
        parse(text, catalog)
    except Unsupported as refused:
        return refused.code
    return None


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT COUNT(*) FROM (SELECT {LONG} AS s FROM visits) WHERE {TIME_BOMB}",
        f"SELECT COUNT(*) FROM (SELECT {LONG} AS s FROM visits) WHERE s LIKE '%{'_' * 3_000}b%'",
        f"SELECT COUNT(*) FROM visits WHERE {NESTED} = 'x'",
        f"SELECT COUNT(*) FROM visits WHERE LENGTH({NESTED}) > 3",
        f"SELECT SUM(LEAST(GREATEST(CAST({NESTED} AS DOUBLE), 0), 1)) FROM visits",
        f"SELECT CASE WHEN ward LIKE '%{'_' * 500}b%' THEN 1 ELSE 0 END AS k, COUNT(*) FROM visits GROUP BY k",
        f"SELECT COUNT(*) FILTER (WHERE ward ILIKE '%{'_' * 500}b%') FROM visits",
        "SELECT COUNT(*) FROM visits WHERE " + " OR ".join(f"UPPER(ward) = 'x{k}'" for k in range(50)),
        "SELECT COUNT(*) FROM visits WHERE " + " || ".join(["ward"] * 90) + " = 'x'",
        f"SELECT COUNT(*) FROM visits WHERE TRIM(ward, '{'x' * 200}') = ''",
    ],
)
def test_a_row_that_could_be_dear_is_refused_at_parse(text: str) -> None:
    assert code(text) == "too-costly"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM visits WHERE ward LIKE '%cardio%' OR LOWER(ward) ILIKE '%heart%' OR TRIM(ward) = 'x'",
        "SELECT COUNT(*) FROM visits WHERE region IN ('north', 'south') AND UPPER(region) || '!' LIKE '%TH!'",
        "SELECT COUNT(*) FROM visits WHERE ward IN (" + ", ".join(f"'w{k}'" for k in range(2_000)) + ")",
        "SELECT COUNT(*) FROM visits WHERE " + " OR ".join(f"age = {k}" for k in range(1_500)),
        "SELECT " + ", ".join(f"AVG(cost * {k} + age) AS c{k}" for k in range(1, 60)) + " FROM visits",
    ],
)
def test_ordinary_questions_are_far_below(text: str) -> None:
    assert code(text) is None


def test_a_declared_length_buys_patterns() -> None:
    text = f"SELECT COUNT(*) FROM visits WHERE ward LIKE '%{'_' * 500}b%'"
    short = CatalogTable("visits", {**VISITS, "ward": Domain("text", max_length=100)}, public=False, id="patient_id")
    assert code(text) == "too-costly"
    assert code(text, Catalog({"visits": short}, lambda *_: 1)) is None


def test_the_cap_is_where_it_is_said_to_be() -> None:
    """One letter of a pattern more, and the question is refused."""
    short = CatalogTable("visits", {"ward": Domain("text", max_length=100)}, public=False, id="patient_id")
    catalog = Catalog({"visits": short}, lambda *_: 1)

    def steps(letters: int) -> int:
        pattern = literal(Type.TEXT, "%" + "_" * letters + "b%")
        return costs.max_evaluation_steps(
            [call("LIKE", Column(Field(0, "t", "ward"), Domain("text", max_length=100)), pattern)]
        )

    most = next(letters for letters in range(900, 1_100) if steps(letters + 1) > costs.MAX_STEPS)
    assert code(f"SELECT COUNT(*) FROM visits WHERE ward LIKE '%{'_' * most}b%'", catalog) is None
    assert code(f"SELECT COUNT(*) FROM visits WHERE ward LIKE '%{'_' * (most + 1)}b%'", catalog) == "too-costly"


def test_steps_of_a_pattern_are_letters_times_letters() -> None:
    column = Column(Field(0, "t", "x"), Domain("text", max_length=300))
    assert costs.max_evaluation_steps([call("LIKE", column, literal(Type.TEXT, "%ab%"))]) >= 300 * 4
    assert costs.max_evaluation_steps([call("LIKE", column, literal(Type.TEXT, "ab%"))]) < 300


def test_bytes_are_those_before_anything_is_cut() -> None:
    column = Column(Field(0, "t", "x"), Domain("text", max_length=9_000))
    grown = call("REPLACE", column, literal(Type.TEXT, "a"), literal(Type.TEXT, "b" * 32))
    assert grown.domain.max_letters == 10_000
    assert costs.max_evaluation_bytes([grown]) == 4 * 32 * 9_000
    assert costs.max_evaluation_bytes([call("||", column, column)]) == 4 * 18_000


def test_joins_multiply_the_cost_of_a_row() -> None:
    joined = "SELECT COUNT(*) FROM visits {} WHERE " + " OR ".join(["ward LIKE '%abcd%'"] * 8)
    once = "JOIN hospitals a ON hospital = a.id"
    many = "JOIN hospitals a ON age = a.beds"
    assert code(joined.format(once)) is None
    assert code(joined.format(many)) == "too-costly"


def _long(rows: int) -> Catalog:
    """Visits of which one person may have so many."""
    visits = CatalogTable("visits", VISITS, public=False, id="patient_id", limits=ContributionLimits(rows, rows, rows))
    return Catalog({"visits": visits}, lambda *_: 1)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient_id = b.patient_id",
        "SELECT COUNT(*) FROM visits x JOIN (SELECT a.patient_id, COUNT(*) AS n FROM visits a JOIN visits b"
        " ON a.patient_id = b.patient_id GROUP BY a.patient_id) y ON x.patient_id = y.patient_id",
        "SELECT COUNT(*) FROM visits WHERE patient_id IN"
        " (SELECT a.patient_id FROM visits a JOIN visits b ON a.patient_id = b.patient_id AND a.age > b.age)",
        "SELECT COUNT(*) FROM visits a WHERE NOT EXISTS"
        " (SELECT 1 FROM visits b WHERE b.patient_id = a.patient_id AND b.age > a.age)",
        "SELECT COUNT(*) FROM visits WHERE patient_id IN (SELECT a.patient_id FROM visits a WHERE EXISTS"
        " (SELECT 1 FROM visits b WHERE b.patient_id = a.patient_id AND b.age > a.age))",
    ],
)
def test_rows_of_one_unit_meet_few_others_wherever_they_meet(text: str) -> None:
    """Else one person's rows would cost their square: in a side that is joined, in a test, below a group."""
    assert code(text, _long(costs.MAX_MATCHES // 4)) is None
    catalog = _long(costs.MAX_MATCHES + 1)
    if code(text, catalog) == "too-costly":  # two joins of a thousand rows each cost too much in bytes
        return
    assert max(map(costs._max_matches, relations(parse(text, catalog).plan.source))) == costs.MAX_MATCHES  # cut there


def test_a_test_by_equality_alone_meets_one_row() -> None:
    assert code("SELECT COUNT(*) FROM visits WHERE patient_id IN (SELECT patient_id FROM visits)", _long(10**6)) is None


@pytest.mark.parametrize(("count", "expected"), [(20, None), (21, "too-many-windows")])
def test_orders_of_one_units_rows_are_few(count: int, expected: str | None) -> None:
    firsts = ", ".join(f"FIRST(cost ORDER BY age % {k + 2}) AS f{k}" for k in range(count))
    read = " + ".join(f"f{k}" for k in range(count))
    assert code(f"SELECT SUM({read}) FROM (SELECT {firsts} FROM visits GROUP BY patient_id)") == expected


def test_rows_met_in_public_tables_are_capped() -> None:
    joins = " ".join(f"JOIN hospitals h{k} ON age = h{k}.beds" for k in range(3))
    assert code(f"SELECT COUNT(*) FROM visits {joins}") is None
    more = joins + " JOIN hospitals h ON age = h.beds"
    assert code(f"SELECT COUNT(*) FROM visits {more}") == "join-multiplicity"


@pytest.mark.parametrize(("count", "expected"), [(16, None), (17, "too-many-joins"), (60, "too-many-joins")])
def test_joins_are_few(count: int, expected: str | None) -> None:
    joins = " ".join(f"LEFT JOIN hospitals h{k} ON hospital = h{k}.id" for k in range(count))
    assert code(f"SELECT COUNT(*) FROM visits {joins}") == expected


@pytest.mark.parametrize("step", ["x + 1 AS x", pytest.param("-x AS x", marks=pytest.mark.long), "x"])
@pytest.mark.parametrize("where", ["", " WHERE x > 1"])
def test_chains_of_subqueries_are_read_or_refused_by_rule(step: str, where: str) -> None:
    """Five hundred of them were a RecursionError when the plan was hashed, after the price was named."""
    for levels in (30, 120, 500):
        chain = ", ".join(f"t{k} AS (SELECT {step} FROM t{k - 1}{where})" for k in range(1, levels))
        text = f"WITH t0 AS (SELECT age AS x FROM visits), {chain} SELECT COUNT(*) AS n, SUM(x) AS s FROM t{levels - 1}"
        refused = code(text)
        assert refused in (None, "too-deep")
        assert levels < 150 or refused == "too-deep" or (step == "x" and not where)
        if refused is None:
            digest(parse(text, CATALOG))


@pytest.mark.parametrize("levels", [2, 41, 42, 500])
def test_chains_upon_noisy_rows_are_read_or_refused_by_rule(levels: int) -> None:
    """Five hundred took half a minute to read."""
    chain = ", ".join(f"t{k} AS (SELECT n FROM t{k - 1} WHERE n > 1)" for k in range(1, levels))
    text = f"WITH t0 AS (SELECT COUNT(*) AS n FROM visits), {chain} SELECT n FROM t{levels - 1}"
    assert code(text) == (None if levels < 41 else "too-deep")


def test_thousands_of_joined_texts_are_refused() -> None:
    assert code("SELECT COUNT(*) FROM visits WHERE " + " || ".join(["region"] * 4_000) + " = 'x'") == "joined"
    assert code(f"SELECT COUNT(*) FROM visits WHERE CONCAT({', '.join(['region'] * 101)}) = 'x'") == "joined"


def test_a_question_has_a_size() -> None:
    """Each part is small enough; a hundred of them are not."""
    derived = "WITH t AS (SELECT " + " + ".join(["age"] * 90) + " AS x FROM visits) SELECT "
    few, many = (", ".join(f"SUM(x + x + x + {k}) AS c{k}" for k in range(count)) for count in (10, 90))
    assert code(f"{derived}{few} FROM t") is None
    assert code(f"{derived}{many} FROM t") == "too-large"


@pytest.mark.parametrize(
    "shape",
    [
        "SELECT region, CASE WHEN {and_} THEN 1 ELSE 0 END + COUNT(*) AS n FROM visits GROUP BY region",
        "SELECT region, COUNT(*) AS n FROM visits GROUP BY region HAVING {and_}",
        "SELECT region, COUNT(*) AS n FROM visits GROUP BY region HAVING {or_} OR n > 3",
        "SELECT region, CASE {when} ELSE 0 END + COUNT(*) AS n FROM visits GROUP BY region",
        "SELECT region AS r, COUNT(*) AS n FROM visits GROUP BY r HAVING {mixed}",
        "SELECT region, {columns} FROM visits GROUP BY region",
    ],
)
def test_reading_takes_steps_in_proportion_to_the_text(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """800 terms took from 4 to 19 seconds: every term was read again for each term before it."""
    made: list[str] = []

    def counted(name: str, *arguments: Any) -> Any:
        made.extend([name] * (1 + len(arguments)))
        return call(name, *arguments)

    monkeypatch.setattr(sql_expressions, "call", counted)
    counts = []
    for terms in (200, 400):
        one = "region = 'north'"
        text = shape.format(
            and_=" AND ".join([one] * terms),
            or_=" OR ".join([one] * terms),
            when=" ".join([f"WHEN {one} THEN 1"] * terms),
            mixed=" AND ".join(["r = 'north' AND n > 1"] * (terms // 2)),
            columns=", ".join(f"COUNT(*) FILTER (WHERE age > {k}) AS c{k}" for k in range(terms // 5)),
        )
        made.clear()
        parse(text, CATALOG)
        counts.append(len(made))
    assert counts[1] <= 2.1 * counts[0]
    assert counts[1] <= 400 * 12


# Keys: found for free, so at little cost


@pytest.fixture(scope="module")
def engine() -> DuckDB:
    import pyarrow

    table = sf.Table(
        "t", pyarrow.table({"a": pyarrow.array([], pyarrow.int64())}), {"a": {"type": "integer"}}, id="row"
    )
    return DuckDB(sf.Policy(sf.PrivacyUnit("row", every_row=True), sf.Budget(1), {"t": table}))


def test_keys_that_would_take_long_to_find_are_refused(engine: DuckDB) -> None:
    names = Column(Field(0, "t", "name"), Domain("text", values=tuple("x" * 100 + str(k) for k in range(20_000))))
    cheap = call("LEFT", names, literal(Type.INTEGER, 1))
    dear = call("CASE", call("LIKE", names, literal(Type.TEXT, "%" + "_" * 40 + "b%")), names, literal(Type.TEXT, "y"))
    assert possible_group_keys((cheap,), engine.values) == (("x",),)
    with pytest.raises(Unsupported) as refused:
        possible_group_keys((dear,), engine.values)
    assert refused.value.code == "keys-too-costly"


def test_keys_are_looked_for_within_a_time(engine: DuckDB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.engine.duckdb.driver.FREE_SECONDS", 0.001)
    monkeypatch.setattr("sfumato.plan.keys.MAX_STEPS", 10**12)
    names = Column(Field(0, "t", "name"), Domain("text", values=tuple("x" * 1000 + str(k) for k in range(20_000))))
    dear = call("LIKE", names, literal(Type.TEXT, "%" + "_" * 900 + "b%"))
    with pytest.raises(Unsupported) as refused:
        possible_group_keys((call("CASE", dear, names, names),), engine.values)
    assert refused.value.code == "keys-too-costly"
    assert engine.sources.run("SELECT 1") == [(1,)]


def test_bytes_are_capped_by_themselves() -> None:
    """Few steps, and a text 32 times as long as it was."""
    with pytest.raises(Unsupported, match="65,536 bytes") as refused:
        parse(f"SELECT COUNT(*) FROM visits WHERE REPLACE(ward, 'a', '{'b' * 32}') = 'x'", CATALOG)
    assert refused.value.code == "too-costly"
    assert code(f"SELECT COUNT(*) FROM visits WHERE REPLACE(ward, 'a', '{'b' * 16}') = 'x'") is None


def test_joins_multiply_the_bytes_of_a_row() -> None:
    """Few steps even beside every row that is met."""
    asked = f"SELECT COUNT(*) FROM visits {{}} WHERE REPLACE(ward, 'a', '{'b' * 4}') = 'x'"
    assert code(asked.format("JOIN hospitals a ON hospital = a.id")) is None
    with pytest.raises(Unsupported, match="65,536 bytes") as refused:
        parse(asked.format("JOIN hospitals a ON age = a.beds"), CATALOG)
    assert refused.value.code == "too-costly"


def test_lookups_and_sorts_are_counted_one_by_one() -> None:
    """Whatever a lookup costs, n of them cost n times as much, and a sort costs the same wherever it is."""
    scan = Scan("visits", False, 0, {}, ContributionLimits(3, 3, 3))
    test, unit_count = ExistsTest(scan, (), None, False), ("n", UnitRowCount(None, 3))
    number = ("n", RankingFunction((), (), RowNumbering.RANK, 9))
    join = costs._lookup_overhead(SemiJoin(scan, scan, (), None, False))
    sort = costs._lookup_overhead(Window(scan, 1, (number,)))
    assert 0 < join < sort
    for count in range(4):
        assert costs._lookup_overhead(AnySemiJoin(scan, None, (test,) * count)) == count * join
        assert costs._lookup_overhead(PerUnit(scan, 1, (), (unit_count,) * count)) == count * sort
        assert costs._lookup_overhead(Window(scan, 1, (number,) * count)) == count * sort
    assert costs._lookup_overhead(scan) == 0
    assert costs._lookup_overhead(UnitJoin(scan, scan, (), None, False)) == join
