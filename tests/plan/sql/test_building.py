"""Statements put together in Python and texts that mean the same have the same plan, and the same refusals."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from plan.described import CATALOG, VISITS
from sfumato.errors import Unsupported
from sfumato.plan.canonical import digest
from sfumato.plan.catalog import CatalogTable, Period
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.sql import building
from sfumato.plan.sql.aggregations import AggregateText
from sfumato.plan.sql.building import QuestionBuilder, RowSelection
from sfumato.plan.sql.statements import parse

Step = Callable[[RowSelection], RowSelection]
Finishing = Callable[[QuestionBuilder], QuestionBuilder]


def built(*steps: Step, keys: dict[str, str] | None = None, **asked: AggregateText) -> QuestionBuilder:
    rows = building.start_selection(CATALOG, "visits")
    for step in steps:
        rows = step(rows)
    plain = [name for name, text in (keys or {}).items() if name == text]
    made = {name: text for name, text in (keys or {}).items() if name != text}
    return building.start_question(rows, building.lower_keys(rows, plain, made), asked)


def where(text: str) -> Step:
    return lambda rows: building.where(rows, text)


def derive(name: str, text: str) -> Step:
    return lambda rows: building.derive(rows, name, text)


def join(other: RowSelection | str, on: building.On = None, *, left: bool = False) -> Step:
    return lambda rows: building.join(rows, other, on, left=left)


def per_unit(*keys: str, **asked: AggregateText) -> Step:
    return lambda rows: building.per_unit(rows, keys, asked)


N = sf.count()
REGION = {"region": "region"}
PAIRS: list[tuple[Callable[[], QuestionBuilder], str]] = [
    (lambda: built(n=N), "SELECT COUNT(*) AS n FROM visits"),
    (
        lambda: built(keys=REGION, m=sf.median("cost", where="urgent"), p=sf.quantile("age + 1", 0.9)),
        "SELECT region, MEDIAN(cost) FILTER (WHERE urgent) AS m, QUANTILE_CONT(age + 1, 0.9) AS p FROM visits "
        "GROUP BY 1",
    ),
    (
        lambda: built(q=sf.quantiles("cost", [0.25, "1/3"]), low=sf.minimum("age"), high=sf.maximum("age")),
        "SELECT QUANTILE_CONT(cost, [0.25, 0.333333]) AS q, MIN(age) AS low, MAX(age) AS high FROM visits",
    ),
    (
        lambda: built(where("age > 5"), keys=REGION, n=N),
        "SELECT region, COUNT(*) AS n FROM visits WHERE age > 5 GROUP BY region",
    ),
    (
        lambda: built(where("age > 5 OR urgent"), where("cost < 10 AND hospital = 3"), n=N),
        "SELECT COUNT(*) AS n FROM visits WHERE (age > 5 OR urgent) AND cost < 10 AND hospital = 3",
    ),
    (
        lambda: built(n=sf.count("ward"), s=sf.sum("cost * 2"), m=sf.mean("age", where="urgent")),
        "SELECT COUNT(ward) AS n, SUM(cost * 2) AS s, AVG(age) FILTER (WHERE urgent) AS m FROM visits",
    ),
    (
        lambda: built(people=sf.count_distinct("patient_id"), pct="100.0 * COUNT_IF(urgent) / COUNT(*)"),
        "SELECT COUNT(DISTINCT patient_id) AS people, 100.0 * COUNT_IF(urgent) / COUNT(*) AS pct FROM visits",
    ),
    (
        lambda: built(
            derive("old", "age >= 65"), where("NOT old"), derive("young", "NOT old"), n=sf.count(where="young")
        ),
        "SELECT COUNT(*) FILTER (WHERE NOT (age >= 65)) AS n FROM visits WHERE NOT (age >= 65)",
    ),
    (
        lambda: built(derive("age", "age - 10"), derive("twice", "age * 2"), s=sf.sum("twice")),
        "SELECT SUM((age - 10) * 2) AS s FROM visits",
    ),
    (
        lambda: built(keys={"month": "DATE_TRUNC('month', day)"}, n=N),
        "SELECT DATE_TRUNC('month', day) AS month, COUNT(*) AS n FROM visits GROUP BY month",
    ),
    (
        lambda: built(derive("month", "DATE_TRUNC('month', day)"), keys={"month": "month"}, n=N),
        "SELECT DATE_TRUNC('month', day) AS month, COUNT(*) AS n FROM visits GROUP BY 1",
    ),
    (
        lambda: built(where("age > 5"), join("hospitals", "hospital = hospitals.id"), keys={"city": "city"}, n=N),
        "SELECT city, COUNT(*) AS n FROM visits JOIN hospitals ON hospital = id WHERE age > 5 GROUP BY city",
    ),
    (
        lambda: built(derive("id", "hospital"), join("hospitals", "id", left=True), where("beds > 20"), n=N),
        "SELECT COUNT(*) AS n FROM visits LEFT JOIN hospitals ON hospital = hospitals.id WHERE beds > 20",
    ),
    (
        lambda: built(derive("id", "hospital + 1"), join("hospitals", ["id"]), keys={"id": "id"}, n=N),
        "SELECT hospital + 1 AS id, COUNT(*) AS n FROM visits JOIN hospitals ON hospital + 1 = hospitals.id "
        "GROUP BY hospital + 1",
    ),
    (
        lambda: building.having(built(keys=REGION, n=N, cost=sf.mean("cost")), "n > 5 AND cost < 10"),
        "SELECT region, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY region HAVING n > 5 AND AVG(cost) < 10",
    ),
    (
        lambda: building.having(building.having(built(keys=REGION, n=N), "AVG(cost) > 3"), "SUM(age) > 1 OR n > 5"),
        "SELECT region, COUNT(*) AS n FROM visits GROUP BY region "
        "HAVING AVG(cost) > 3 AND (SUM(age) > 1 OR COUNT(*) > 5)",
    ),
    (
        lambda: building.head(building.order_by(built(keys=REGION, n=N), ["n DESC NULLS FIRST", "region"]), 3, 1),
        "SELECT region, COUNT(*) AS n FROM visits GROUP BY region ORDER BY n DESC NULLS FIRST, region LIMIT 3 OFFSET 1",
    ),
    (
        lambda: building.order_by(built(derive("age", "age % 4"), keys={"age": "age"}, n=N), ["age DESC"]),
        "SELECT age % 4 AS age, COUNT(*) AS n FROM visits GROUP BY age % 4 ORDER BY 1 DESC",
    ),
    (
        lambda: building.having(
            building.select(
                built(derive("late", "age > 40"), keys=REGION, n=N, old=sf.count(where="late")),
                ["region"],
                {"pct": "100.0 * old / n"},
            ),
            "n > 5 AND COUNT_IF(late) > 1",
        ),
        "SELECT region, 100.0 * COUNT(*) FILTER (WHERE age > 40) / COUNT(*) AS pct FROM visits GROUP BY region "
        "HAVING COUNT(*) > 5 AND COUNT_IF(age > 40) > 1",
    ),
    (
        lambda: built(per_unit(n=N), visits=sf.mean("n")),
        "SELECT AVG(n) AS visits FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) AS t",
    ),
    (
        lambda: built(
            where("age > 3"), per_unit(n=N, cost=sf.sum("cost")), where("n >= 3"), c=sf.mean("cost"), people=N
        ),
        "SELECT AVG(cost) AS c, COUNT(*) AS people FROM (SELECT patient_id, COUNT(*) AS n, SUM(cost) AS cost "
        "FROM visits WHERE age > 3 GROUP BY patient_id) AS t WHERE n >= 3",
    ),
    (
        lambda: built(
            derive("old", "age > 60"),
            per_unit("region", "old", n=N),
            derive("fifths", "n / 5"),
            keys=REGION,
            fifths=sf.mean("fifths"),
            old=sf.count(where="old"),
            people=sf.count_distinct("patient_id"),
        ),
        "SELECT region, AVG(n / 5) AS fifths, COUNT(*) FILTER (WHERE old) AS old, COUNT(DISTINCT patient_id) AS people "
        "FROM (SELECT patient_id, region, age > 60 AS old, COUNT(*) AS n FROM visits GROUP BY 1, 2, 3) AS t "
        "GROUP BY region",
    ),
    (
        lambda: built(
            join("hospitals", "hospital = hospitals.id"),
            per_unit("city", first="MIN(day)", urgent="BOOL_OR(urgent)"),
            keys={"city": "city", "month": "DATE_TRUNC('month', first)"},
            n=sf.count(where="urgent"),
        ),
        "SELECT city, DATE_TRUNC('month', first) AS month, COUNT(*) FILTER (WHERE urgent) AS n FROM "
        "(SELECT v.patient_id, city, MIN(day) AS first, BOOL_OR(urgent) AS urgent FROM visits v "
        "JOIN hospitals h ON v.hospital = h.id GROUP BY v.patient_id, city) AS t GROUP BY city, month",
    ),
]


@pytest.mark.parametrize(("build", "text"), PAIRS, ids=lambda each: each[:60] if isinstance(each, str) else "")
def test_a_statement_and_its_text_have_the_same_plan(build: Callable[[], QuestionBuilder], text: str) -> None:
    made, wanted = build().query, parse(text, CATALOG)
    assert made == wanted
    assert digest(made) == digest(wanted)


@pytest.mark.parametrize(("build", "text"), PAIRS, ids=lambda each: each[:60] if isinstance(each, str) else "")
def test_what_a_receipt_shows_is_what_was_asked(build: Callable[[], QuestionBuilder], text: str) -> None:
    assert digest(parse(build().text, CATALOG)) == digest(parse(text, CATALOG))


REFUSED: list[tuple[Callable[[], object], str, str]] = [
    (lambda: built(where("aeg > 5")), "SELECT COUNT(*) FROM visits WHERE aeg > 5", "where aeg > 5"),
    (lambda: built(where("age + 1")), "SELECT COUNT(*) FROM visits WHERE age + 1", "where age + 1"),
    (
        lambda: built(where("patient_id = 3")),
        "SELECT COUNT(*) FROM visits WHERE patient_id = 3",
        "where patient_id = 3",
    ),
    (lambda: built(where("age >")), "SELECT COUNT(*) FROM visits WHERE age >", "where age >"),
    (
        lambda: built(where("RANDOM() < 0.5")),
        "SELECT COUNT(*) FROM visits WHERE RANDOM() < 0.5",
        "where RANDOM() < 0.5",
    ),
    (lambda: built(derive("x", "COUNT(*)")), "SELECT COUNT(*) FROM visits WHERE COUNT(*) > 1", "derive x = COUNT(*)"),
    (lambda: built(s=sf.sum("ward")).query, "SELECT SUM(ward) AS s FROM visits", "measure s = sum(ward)"),
    (lambda: built(s=sf.sum("score")).query, "SELECT SUM(score) AS s FROM visits", "measure s = sum(score)"),
    (lambda: built(m=sf.median("ward")).query, "SELECT MEDIAN(ward) AS m FROM visits", "measure m = median(ward)"),
    (lambda: built(a="age").query, "SELECT age AS a FROM visits", "measure a = age"),
    (
        lambda: building.having(built(n=N), "n + 1").query,
        "SELECT COUNT(*) AS n FROM visits HAVING COUNT(*) + 1",
        "having n + 1",
    ),
    (lambda: building.head(built(n=N), -1, 0).query, "SELECT COUNT(*) AS n FROM visits LIMIT -1", "at most -1 rows"),
    (
        lambda: built(per_unit(n=N), keys=REGION, n=N),
        "SELECT region, COUNT(*) AS n FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) AS t "
        "GROUP BY region",
        "group by region",
    ),
    (
        lambda: built(per_unit(s=sf.sum("score"))),
        "SELECT COUNT(*) FROM (SELECT patient_id, SUM(score) AS s FROM visits GROUP BY patient_id) AS t",
        "per patient_id: s = sum(score)",
    ),
    (lambda: built(join("hospitals")), "SELECT COUNT(*) FROM visits JOIN hospitals", "join hospitals"),
    (lambda: building.start_selection(CATALOG, "visit"), "SELECT COUNT(*) FROM visit", "table visit"),
    (lambda: building.start_selection(CATALOG, "hospitals"), "SELECT COUNT(*) FROM hospitals", "table hospitals"),
]


@pytest.mark.parametrize(
    ("build", "text", "place"), REFUSED, ids=lambda each: each[:60] if isinstance(each, str) else ""
)
def test_what_sql_refuses_is_refused_at_its_step(build: Callable[[], object], text: str, place: str) -> None:
    with pytest.raises(Unsupported) as wanted:
        parse(text, CATALOG)
    with pytest.raises(Unsupported) as refusal:
        build()
    assert (refusal.value.code, refusal.value.rule, refusal.value.place) == (
        wanted.value.code,
        wanted.value.rule,
        f'the step "{place}"',
    )


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: built(where("TRUE) OR (TRUE")), "not-sql"),
        (lambda: built(where("age > 1 GROUP BY region")), "not-sql"),
        (lambda: built(where("age > 1; DROP TABLE visits")), "not-sql"),
        (lambda: built(where("age > 1; age > 2")), "one-expression"),
        (lambda: built(where("")), "one-expression"),
        (lambda: built(where("-- all")), "one-expression"),
        (
            lambda: built(
                n=sf.count(where="TRUE), COUNT(*"),
            ),
            "not-sql",
        ),
        (lambda: built(n=sf.mean("age), SUM(cost")), "not-sql"),
        (lambda: built(where(5)), "not-text"),  # type: ignore[arg-type]
        (lambda: built(where("age > '\ud800'")), "not-text"),
        (lambda: built(where("(" * 4000 + "age > 1" + ")" * 4000)), "too-deep"),
        (lambda: built(where("NOT " * 4000 + "urgent")), "too-deep"),
        (lambda: built(where("age > 1" + " AND age > 1" * 20_000)), "too-long"),
        (lambda: built(derive("", "age")), "not-text"),
        (lambda: built(derive("a\0b", "age")), "not-text"),
        (lambda: built(keys={"age + 1": "age + 1"}, n=N), "unnamed-column"),
        (lambda: built(keys=REGION, region=N), "duplicate-column"),
        (lambda: built(derive("city", "ward"), join("hospitals", "hospital = hospitals.id")), "duplicate-column"),
        (lambda: building.select(built(n=N), ["m"], {}), "unknown-column"),
        (
            lambda: building.join(building.start_selection(CATALOG, "visits"), "wards", None, left=False),
            "unknown-table",
        ),
    ],
)
def test_parts_are_parts_and_nothing_else(build: Callable[[], object], code: str) -> None:
    """A string is one expression: nothing in it ends the part it stands in."""
    with pytest.raises(Unsupported) as refusal:
        build()
    assert refusal.value.code == code


def test_columns_derived_from_each_other_cannot_grow_without_end() -> None:
    rows = building.derive(building.start_selection(CATALOG, "visits"), "x0", "age + age")
    steps = [derive(f"x{index + 1}", "+".join([f"x{index}"] * 8)) for index in range(100)]
    with pytest.raises(Unsupported, match=r"SQL tokens|nested too deeply|levels deep") as refusal:
        functools.reduce(lambda made, step: step(made), steps, rows)
    assert refusal.value.code in ("too-long", "too-deep")


def test_names_that_are_words_of_sql_or_no_words_are_quoted() -> None:
    made = built(
        derive("order", "age"), derive("a b", "cost"), select=sf.mean('"a b"'), **{"größe, 'x'": sf.mean('"order"')}
    )
    again = parse(made.text, CATALOG)
    assert digest(again) == digest(made.query)
    assert [each.name for each in again.finish.outputs] == ["select", "größe, 'x'"]


def test_a_query_within_a_condition_has_names_of_its_own() -> None:
    inner = "patient_id IN (SELECT patient_id FROM visits WHERE region = 'north')"
    made = built(derive("region", "ward"), where(f"{inner} AND region = 'A'"), n=N)
    assert digest(made.query) == digest(
        parse(f"SELECT COUNT(*) AS n FROM visits WHERE {inner} AND ward = 'A'", CATALOG)
    )


def test_steps_leave_what_they_begin_with_as_it_was() -> None:
    rows = building.where(building.start_selection(CATALOG, "visits"), "age > 5")
    before = rows.tree.sql()
    building.where(rows, "cost > 3")
    building.join(rows, "hospitals", "hospital = hospitals.id", left=True)
    made = building.start_question(rows, building.lower_keys(rows, ["region"], {}), {"n": N})
    text = made.text
    building.having(made, "n > 3")
    building.select(made, ["n"], {"m": "n + 1"})
    assert (rows.tree.sql(), made.text) == (before, text)
    assert list(rows.columns) == list(VISITS)


_TEXTS = st.text(st.sampled_from("ag e+-*/()'\"<>=,;1 ANDORCOUNT[]{}$?:.\n%"), max_size=30)


@settings(max_examples=120)
@given(_TEXTS, _TEXTS)
def test_any_text_is_a_part_or_is_refused(condition: str, measure: str) -> None:
    """And what is shown of it is always one statement that means the same."""
    try:
        made = built(where(condition), keys=REGION, n=N, m=measure)
        query = made.query
    except Unsupported:
        return
    assert digest(parse(made.text, CATALOG)) == digest(query)


def test_long_conditions_that_differ_at_their_end_are_not_equal() -> None:
    long = " AND ".join(["age > 5"] * 50)
    rows = building.start_selection(CATALOG, "visits")
    assert building.where(rows, long) == building.where(rows, long)
    assert building.where(rows, long) != building.where(rows, f"{long} AND cost > 1")
    assert building.derive(rows, "x", long) != building.derive(rows, "x", f"{long} AND cost > 1")
    assert hash(building.where(rows, long)) == hash(building.where(rows, long))


def test_aggregations_are_checked() -> None:
    with pytest.raises(sf.InvalidParameter, match="one of count"):
        sf.Aggregation("range", "age")
    with pytest.raises(sf.InvalidParameter, match="a column or an expression"):
        sf.Aggregation("mean")
    with pytest.raises(sf.InvalidParameter, match=r"such as sf\.count"):
        built(n=sf.count)  # type: ignore[arg-type]


@st.composite
def _derivations(draw: st.DrawFn) -> list[str]:
    """Expressions over numbers, each of which may name the columns made by those before it: x0, x1, …"""
    found: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        names = st.sampled_from(["age", "hospital", "2", "7", *(f"x{index}" for index in range(len(found)))])
        operation = st.sampled_from(["{} + {}", "{} - {}", "{} * {}", "- {} - {}", "LEAST({}, {})", "({} + {}) * 2"])
        condition = st.sampled_from(["{} > {}", "{} = {} OR urgent", "NOT {} < {}"])
        made = draw(operation).format(draw(names), draw(names))
        if draw(st.booleans()):
            made = f"CASE WHEN {draw(condition).format(draw(names), draw(names))} THEN {made} ELSE {draw(names)} END"
        found.append(made)
    return found


@settings(max_examples=25)
@given(_derivations(), st.sampled_from([">", "<=", "="]))
def test_derived_columns_mean_what_subqueries_do(made: list[str], sign: str) -> None:
    """One within another, as SQL has it: no operator of a derived column binds with what stands beside its name."""
    source, last = "visits", f"x{len(made) - 1}"
    for index, each in enumerate(made):
        source = f"(SELECT *, {each} AS x{index} FROM {source}) AS t{index}"
    text = f"SELECT COUNT(*) AS n, SUM(-{last} * 3) AS s FROM {source} WHERE {last} {sign} 3 - {last}"
    steps = [derive(f"x{index}", each) for index, each in enumerate(made)]
    try:
        wanted = parse(text, CATALOG)
    except Unsupported as refusal:
        code = refusal.code
        with pytest.raises(Unsupported) as found:
            _ = built(*steps, where(f"{last} {sign} 3 - {last}"), n=N, s=sf.sum(f"-{last} * 3")).query
        assert found.value.code == code
        return
    statement = built(*steps, where(f"{last} {sign} 3 - {last}"), n=N, s=sf.sum(f"-{last} * 3"))
    assert digest(statement.query) == digest(wanted) == digest(parse(statement.text, CATALOG))


def test_windows_over_groups_are_over_columns_of_the_answer() -> None:
    made = building.select(built(keys=REGION, n=N), ["region"], {"pct": "100.0 * n / SUM(n) OVER ()"})
    assert made.text == "SELECT region, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS pct FROM visits GROUP BY region"


@pytest.mark.parametrize(
    ("every", "period"),
    [("day", "{}day"), ("week", "DATE_TRUNC('week', {}day)"), ("month", "DATE_TRUNC('month', {}day)")],
)
def test_where_a_unit_is_an_id_within_a_period_it_is_named_by_both(every: str, period: str) -> None:
    tables = {
        name: CatalogTable(
            name, VISITS, public=False, id=unit, period=Period("day", every), limits=ContributionLimits(10, 4, 3)
        )
        for name, unit in (("visits", "patient_id"), ("bills", "payer"))
    }
    catalog = replace(CATALOG, tables=tables)
    rows = building.start_selection(catalog, "visits")
    mean = building.start_question(building.per_unit(rows, (), {"n": N}), (), {"n": sf.mean("n")})
    by = period.format("")
    inner = f"SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id, {by}"
    assert mean.query == parse(f"SELECT AVG(n) AS n FROM ({inner}) AS t", catalog)
    joined = building.start_question(building.join(rows, "bills", None, left=False), (), {"n": N})
    on = f"v.patient_id = b.payer AND {period.format('v.')} = {period.format('b.')}"
    assert joined.query == parse(f"SELECT COUNT(*) AS n FROM visits v JOIN bills b ON {on}", catalog)


@pytest.mark.parametrize(("via", "code"), [(None, "rows-are-units"), ("stays by stay_id", "no-unit-name")])
def test_one_row_per_unit_needs_a_name_for_the_unit(via: str | None, code: str) -> None:
    catalog = replace(CATALOG, tables={"visits": CatalogTable("visits", VISITS, public=False, via=via)})
    with pytest.raises(Unsupported) as refusal:
        building.per_unit(building.start_selection(catalog, "visits"), (), {"n": N})
    assert refusal.value.code == code
