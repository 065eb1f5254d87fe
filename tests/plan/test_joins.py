"""Private tables in one question: which texts mean the same, what is refused, and that every fix works."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sfumato.errors import Unsupported
from sfumato.plan.canonical import digest
from sfumato.plan.catalog import Catalog, CatalogTable, Period
from sfumato.plan.costs import check_cost
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.nodes import AnySemiJoin, LimitRowsPerUnit, PublicJoin, SemiJoin, UnitJoin, relations
from sfumato.plan.sql.statements import parse
from sfumato.plan.sql.unit_joins import period_expressions_of
from sfumato.plan.warnings import undeclared_value_warnings
from sfumato.policy import Domain

DAY = Domain("date", bounds=("2024-01-01", "2024-12-31"))
VISITS = {"visit": Domain("integer"), "region": Domain("text", values=("n", "s")), "day": DAY,
          "cost": Domain("integer", bounds=(0, 9))}  # fmt: skip
CLAIMS = {"region": Domain("text", values=("n", "s", "w")), "euros": Domain("integer", bounds=(0, 99)), "day": DAY}
PLACES = {"region": Domain("text", values=("n", "s")), "kind": Domain("text", values=("a", "b")),
          "low": Domain("integer", values=(0, 5))}  # fmt: skip


def catalog(every: str | None = None, rows: bool = False) -> Catalog:
    period = None if every is None else Period("day", every)
    who = None if rows else "who"
    tables = (
        CatalogTable("visits", VISITS, False, who, ContributionLimits(3, 3, 3), period=period),
        CatalogTable("claims", CLAIMS, False, who, ContributionLimits(2, 2, 2), period=period),
        CatalogTable(
            "drugs",
            {"dose": VISITS["cost"], "day": DAY},
            False,
            who,
            ContributionLimits(4, 4, 4),
            "visit = visits.visit",
            period,
        ),
        CatalogTable("places", PLACES, public=True),
    )
    return Catalog({each.name: each for each in tables}, lambda *_: 2, lambda *_: 1)


def plan(text: str, every: str | None = None) -> str:
    return digest(parse(text, catalog(every)).plan)


@pytest.mark.parametrize(
    "texts",
    [
        (
            "SELECT COUNT(*) FROM visits v JOIN claims c USING (who, region)",
            "SELECT COUNT(*) FROM visits v JOIN claims c ON v.who = c.who AND v.region = c.region",
            "SELECT COUNT(*) FROM visits AS a INNER JOIN claims AS b ON (b.region = a.region AND (b.who = a.who))",
            "SELECT COUNT(*) FROM (SELECT who p, region r FROM visits) a JOIN claims b ON a.p = b.who AND r = region",
        ),
        (
            "SELECT COUNT(*) FROM visits v JOIN claims c ON v.who = c.who AND c.euros > 5 AND v.cost < 3",
            "SELECT COUNT(*) FROM visits v JOIN claims c ON v.who = c.who WHERE c.euros > 5 AND v.cost < 3",
            "SELECT COUNT(*) FROM visits v JOIN (SELECT * FROM claims WHERE euros > 5) c USING (who) WHERE v.cost < 3",
        ),
        (
            "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM claims c WHERE c.who = v.who AND c.euros > 5)",
            "SELECT COUNT(*) FROM visits WHERE who IN (SELECT who FROM claims WHERE euros > 5)",
            "SELECT COUNT(*) FROM visits WHERE visits.who IN (SELECT claims.who FROM claims WHERE claims.euros > 5)",
            "SELECT COUNT(*) FROM visits v WHERE NOT NOT EXISTS"
            " (SELECT * FROM claims WHERE euros > 5 AND v.who = who)",
        ),
        (
            "SELECT COUNT(*) FROM visits v WHERE NOT EXISTS"
            " (SELECT 1 FROM claims c WHERE c.who = v.who AND c.region = v.region)",
            "SELECT COUNT(*) FROM visits WHERE (who, region) NOT IN (SELECT who, region FROM claims)",
            "SELECT COUNT(*) FROM visits v WHERE region NOT IN (SELECT c.region FROM claims c WHERE c.who = v.who)",
        ),
        (
            "SELECT COUNT(*) FROM visits WHERE who IN (SELECT who FROM visits WHERE cost > 5)",
            "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.who = v.who AND w.cost > 5)",
        ),
        (
            "SELECT COUNT(*) FROM places JOIN visits USING (region)",
            "SELECT COUNT(*) FROM visits JOIN places USING (region)",
            "SELECT COUNT(*) FROM visits JOIN places ON places.region = visits.region",
        ),
        (
            "SELECT COUNT(*) FROM visits",
            "SELECT COUNT(*) FROM visits WHERE who IS NOT NULL",
            "SELECT COUNT(*) FROM visits v WHERE NOT v.who IS NULL",
            "SELECT COUNT(*) FROM (SELECT who p FROM visits) WHERE p IS NOT NULL",
        ),
        (
            "SELECT COUNT(*) FROM visits WHERE cost > 5 AND region = 'n'",
            "SELECT COUNT(*) FROM visits WHERE cost > 5 AND who IS NOT NULL AND region = 'n'",
        ),
        (
            "SELECT COUNT(*) FROM places RIGHT JOIN visits USING (region)",
            "SELECT COUNT(*) FROM visits LEFT JOIN places USING (region)",
        ),
    ],
)  # fmt: skip
def test_texts_that_mean_the_same_have_the_same_plan(texts: tuple[str, ...]) -> None:
    assert len({plan(text) for text in texts}) == 1


def test_each_side_is_cut_to_its_limit_and_nothing_is_cut_twice() -> None:
    found = parse("SELECT COUNT(*) FROM visits JOIN claims USING (who) JOIN drugs USING (who)", catalog()).plan.source
    assert [each.rows for each in relations(found) if isinstance(each, LimitRowsPerUnit)] == [3, 2, 4]
    assert (found.max_rows_per_unit, found.limits) == (24, ContributionLimits(4, 4, 4))
    kept = parse(
        "SELECT COUNT(*) FROM visits v LEFT JOIN claims c ON v.who = c.who AND v.cost > 1", catalog()
    ).plan.source
    assert isinstance(kept, UnitJoin)
    assert kept.condition is not None
    test = parse("SELECT COUNT(*) FROM visits WHERE who IN (SELECT who FROM claims)", catalog()).plan.source
    assert isinstance(test, SemiJoin)
    assert not [each for each in relations(test) if isinstance(each, LimitRowsPerUnit)]


def test_only_an_outer_join_makes_an_id_null() -> None:
    inner = "SELECT COUNT(*) FROM visits v JOIN claims c USING (who)"
    assert plan(f"{inner} WHERE c.who IS NOT NULL") == plan(inner)
    assert plan("SELECT COUNT(*) FROM visits WHERE who IS NULL") == plan("SELECT COUNT(*) FROM visits WHERE FALSE")
    outer = "SELECT COUNT(*) FROM visits v LEFT JOIN claims c ON v.who = c.who"
    assert plan(f"{outer} WHERE v.who IS NOT NULL") == plan(outer)
    with pytest.raises(Unsupported, match="no column named 'who'"):
        plan(f"{outer} WHERE c.who IS NOT NULL")


def test_a_public_table_is_joined_on_an_id_that_the_policy_declares() -> None:
    for join in ("JOIN places p ON v.who = p.kind", "JOIN places ON kind = who"):
        with pytest.raises(Unsupported, match="declares it as a column") as refused:
            plan(f"SELECT COUNT(*) FROM visits v {join}")
        assert refused.value.code == "public-id"
    declared = replace(catalog().tables["visits"], columns={**VISITS, "who": Domain("text")})
    tables = catalog().tables | {"visits": declared}  # type: ignore[operator]
    found = parse("SELECT COUNT(*) FROM visits v JOIN places p ON v.who = p.kind", replace(catalog(), tables=tables))
    assert any(isinstance(each, PublicJoin) for each in relations(found.plan.source))


REFUSED = [
    # what is asked, the code, and what the fix says: tried below
    ("SELECT COUNT(*) FROM visits v JOIN claims c ON v.region = c.region", "join-without-unit",
     "add AND v.who = c.who to ON",
     "SELECT COUNT(*) FROM visits v JOIN claims c ON v.region = c.region AND v.who = c.who"),
    ("SELECT COUNT(*) FROM visits v JOIN claims c USING (region)", "join-without-unit", "add who to USING",
     "SELECT COUNT(*) FROM visits v JOIN claims c USING (region, who)"),
    ("SELECT COUNT(*) FROM visits v, claims c WHERE v.who = c.who", "join-without-unit",
     "write JOIN … ON v.who = c.who",
     "SELECT COUNT(*) FROM visits v JOIN claims c ON v.who = c.who"),
    ("SELECT COUNT(*) FROM visits v JOIN drugs d ON v.cost = d.dose", "join-without-unit", "v.who = d.who",
     "SELECT COUNT(*) FROM visits v JOIN drugs d ON v.cost = d.dose AND v.who = d.who"),
    ("SELECT COUNT(*) FROM visits WHERE region IN (SELECT region FROM claims)", "join-without-unit",
     "add visits.who = claims.who to the WHERE of the subquery",
     "SELECT COUNT(*) FROM visits WHERE region IN (SELECT region FROM claims WHERE visits.who = claims.who)"),
    ("SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM claims c)", "join-without-unit", "v.who = c.who",
     "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM claims c WHERE v.who = c.who)"),
    ("SELECT COUNT(*) FROM visits a JOIN claims b ON who = who", "join-without-unit", "a.who = b.who",
     "SELECT COUNT(*) FROM visits a JOIN claims b ON a.who = b.who"),
    ("SELECT COUNT(*) FROM visits a JOIN visits a ON a.who = a.who", "duplicate-alias", "alias",
     "SELECT COUNT(*) FROM visits a JOIN visits b ON a.who = b.who"),
    ("SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM visits WHERE visits.who = visits.who)",
     "join-without-unit", "other is an alias",
     "SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM visits w WHERE w.who = visits.who)"),
    ("SELECT COUNT(*) FROM visits v RIGHT JOIN claims c USING (who)", "join-kind", "keeps all its rows on the left",
     "SELECT COUNT(*) FROM claims c LEFT JOIN visits v USING (who)"),
    ("SELECT COUNT(*) FROM visits v FULL JOIN claims c USING (who)", "join-kind", "LEFT JOIN",
     "SELECT COUNT(*) FROM visits v LEFT JOIN claims c USING (who)"),
    ("SELECT COUNT(*) FROM visits v JOIN claims c ON v.who = c.who AND (v.cost = c.euros OR v.region = c.region)",
     "join-condition", "WHERE", "SELECT COUNT(*) FROM visits v JOIN claims c ON v.who = c.who"
     " WHERE v.cost = c.euros OR v.region = c.region"),
    ("SELECT COUNT(*) FROM places LEFT JOIN visits USING (region)", "public-preserved", "FROM visits JOIN places",
     "SELECT kind, COUNT(*) FROM visits JOIN places USING (region) GROUP BY kind"),
    ("SELECT COUNT(*) FROM visits FULL JOIN places USING (region)", "public-preserved", "FROM visits JOIN places",
     "SELECT COUNT(*) FROM visits JOIN places USING (region)"),
    ("SELECT COUNT(*) FROM (SELECT who FROM visits UNION SELECT who FROM claims)", "set-operation", "UNION ALL",
     "SELECT COUNT(*) FROM (SELECT who FROM visits UNION ALL SELECT who FROM claims)"),
    ("SELECT COUNT(*) FROM (SELECT who, day FROM visits UNION ALL SELECT day, who FROM claims)", "union-columns",
     "same order", "SELECT COUNT(*) FROM (SELECT who, day FROM visits UNION ALL SELECT who, day FROM claims)"),
    ("SELECT COUNT(*) FROM (SELECT day FROM visits UNION ALL SELECT day, euros FROM claims)", "union-columns",
     "same columns", "SELECT COUNT(*) FROM (SELECT day FROM visits UNION ALL SELECT day FROM claims)"),
    ("SELECT COUNT(*) FROM (SELECT day FROM visits UNION ALL SELECT region FROM claims)", "type-mismatch", "CAST",
     "SELECT COUNT(*) FROM (SELECT CAST(day AS VARCHAR) AS d FROM visits UNION ALL SELECT region FROM claims)"),
    ("SELECT COUNT(*) FROM visits v WHERE IF(cost > 2, TRUE, EXISTS (SELECT 1 FROM claims c WHERE c.who = v.who))",
     "subquery-place", "WHERE EXISTS (…) OR x > 5",
     "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM claims c WHERE c.who = v.who) OR cost > 2"),
    ("SELECT COUNT(*) FROM visits WHERE cost > (SELECT AVG(euros) FROM claims c WHERE c.day = visits.day)",
     "subquery-value", "SELECT day, AVG(euros) FROM claims AS c GROUP BY day",
     "SELECT COUNT(*) FROM visits WHERE cost > (SELECT AVG(euros) FROM claims)"),
    ("SELECT COUNT(*) FROM visits v WHERE (SELECT COUNT(*) FROM claims c WHERE c.who = v.who) > 1", "subquery-value",
     "JOIN (SELECT who, COUNT(*) AS x FROM claims AS c GROUP BY who) AS of_unit USING (who) WHERE x > 1",
     "SELECT COUNT(*) FROM visits JOIN (SELECT who, COUNT(*) AS n FROM claims GROUP BY who) USING (who) WHERE n > 1"),
    ("SELECT COUNT(*) FROM clinic.visits", "table-clause", "its name", "SELECT COUNT(*) FROM visits"),
    ("SELECT COUNT(*) FROM visits WHERE region IN (SELECT region FROM places)", "public-subquery", "join",
     "SELECT COUNT(*) FROM visits JOIN places USING (region)"),
    ("SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT COUNT(*) FROM claims c WHERE c.who = v.who)",
     "exists-aggregate", "SELECT 1",
     "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM claims c WHERE c.who = v.who)"),
    ("SELECT COUNT(*) FROM visits WHERE who IN (SELECT who, region FROM claims)", "in-columns", "in the same order",
     "SELECT COUNT(*) FROM visits WHERE (who, region) IN (SELECT who, region FROM claims)"),
    ("SELECT COUNT(*) FROM visits JOIN nurses USING (who)", "unknown-table", "visits",
     "SELECT COUNT(*) FROM visits JOIN claims USING (who)"),
    ("SELECT COUNT(DISTINCT c.who) FROM visits v LEFT JOIN claims c USING (who)", "distinct", "COUNT(DISTINCT who)",
     "SELECT COUNT(DISTINCT v.who) FROM visits v LEFT JOIN claims c USING (who)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "fix", "works"), REFUSED, ids=[each[0] for each in REFUSED])
def test_what_is_refused_says_what_works(text: str, code: str, fix: str, works: str) -> None:
    with pytest.raises(Unsupported) as refusal:
        parse(text, catalog())
    assert refusal.value.code == code
    assert fix in str(refusal.value.fix)
    assert parse(works, catalog())


def test_two_populations_are_never_joined() -> None:
    with pytest.raises(Unsupported, match="tables of another policy describe another population and cannot be joined"):
        parse("SELECT COUNT(*) FROM visits JOIN nurses USING (who)", catalog())


def test_rows_that_are_units_have_nobody_in_common() -> None:
    for text in (
        "SELECT COUNT(*) FROM visits v JOIN claims c ON v.region = c.region",
        "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM claims c WHERE c.region = v.region)",
    ):
        with pytest.raises(Unsupported, match="every row is its own unit"):
            parse(text, catalog(rows=True))


PERIODS = [
    ("SELECT COUNT(*) FROM visits v JOIN claims c USING (who)", "join-without-period",
     "SELECT COUNT(*) FROM visits v JOIN claims c USING (who, day)",
     "SELECT COUNT(*) FROM visits v JOIN claims c ON v.who = c.who"
     " AND DATE_TRUNC('week', v.day) = DATE_TRUNC('week', c.day)"),
    ("SELECT COUNT(*) FROM visits WHERE who IN (SELECT who FROM claims)", "join-without-period",
     "SELECT COUNT(*) FROM visits WHERE (who, day) IN (SELECT who, day FROM claims)",
     "SELECT COUNT(*) FROM visits WHERE (who, DATE_TRUNC('week', day)) IN (SELECT who, DATE_TRUNC('week', day)"
     " FROM claims)"),
    ("SELECT COUNT(DISTINCT who) FROM visits", "distinct", "SELECT COUNT(DISTINCT (who, day)) FROM visits",
     "SELECT COUNT(DISTINCT (who, DATE_TRUNC('week', day))) FROM visits"),
    ("SELECT AVG(n) FROM (SELECT who, COUNT(*) AS n FROM visits GROUP BY who)", "not-by-period",
     "SELECT AVG(n) FROM (SELECT who, day, COUNT(*) AS n FROM visits GROUP BY who, day)",
     "SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY who, DATE_TRUNC('week', day))"),
    ("SELECT AVG(n) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY who ORDER BY cost) AS n FROM visits)", "not-by-period",
     "SELECT AVG(n) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY who, day ORDER BY cost) AS n FROM visits)",
     "SELECT AVG(n) FROM"
     " (SELECT ROW_NUMBER() OVER (PARTITION BY who, DATE_TRUNC('week', day) ORDER BY cost) AS n FROM visits)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "daily", "weekly"), PERIODS, ids=[each[0] for each in PERIODS])
def test_with_a_period_the_id_alone_is_not_enough(text: str, code: str, daily: str, weekly: str) -> None:
    for every, works, not_enough in (("day", daily, weekly), ("week", weekly, daily)):
        for refused in (text, not_enough):
            with pytest.raises(Unsupported) as refusal:
                parse(refused, catalog(every))
            assert refusal.value.code == code
            assert "day" in str(refusal.value.fix)
        assert parse(works, catalog(every))


def test_one_row_for_each_person_and_day() -> None:
    text = "SELECT AVG(n) FROM (SELECT who, day, COUNT(*) AS n FROM visits GROUP BY who, day)"
    assert parse(text, catalog("day")).plan.source.max_rows_per_unit == 1
    finer = "SELECT AVG(n) FROM (SELECT who, day, region, COUNT(*) AS n FROM visits GROUP BY who, day, region)"
    assert parse(finer, catalog("day")).plan.source.max_rows_per_unit is None


ROW_PERIODS = {
    # a relation, the columns that hold a row's period, and those of them that have one value within a unit
    "SELECT COUNT(*) FROM visits WHERE cost > 1": ("visits.day", "visits.day"),
    "SELECT COUNT(*) FROM listed": ("listed.day", ""),
    "SELECT COUNT(*) FROM visits v JOIN claims c USING (who, day)": ("claims.day visits.day",) * 2,
    "SELECT COUNT(*) FROM visits v JOIN listed c USING (who, day)": ("listed.day visits.day", "visits.day"),
    "SELECT COUNT(*) FROM visits v LEFT JOIN claims c USING (who, day)": ("visits.day",) * 2,
    "SELECT COUNT(*) FROM visits v WHERE (who, day) IN (SELECT who, day FROM claims)": ("visits.day",) * 2,
    "SELECT COUNT(*) FROM visits v WHERE cost > 3 OR (who, day) IN (SELECT who, day FROM claims)": ("visits.day",) * 2,
    "SELECT COUNT(*) FROM visits JOIN places USING (region)": ("visits.day",) * 2,
    "SELECT COUNT(*) FROM (SELECT who, day, region, COUNT(*) AS n FROM visits GROUP BY who, day, region)":
        (".day",) * 2,
    "SELECT COUNT(*) FROM (SELECT who, day FROM listed GROUP BY who, day)": (".day", ""),
    "SELECT COUNT(*) FROM (SELECT who, day, cost FROM visits UNION ALL SELECT who, day, euros FROM claims)":
        (".day",) * 2,
    "SELECT COUNT(*) FROM (SELECT who, day FROM visits UNION ALL SELECT who, day FROM short)": (".day", ""),
    "SELECT COUNT(*) FROM (SELECT who, day FROM listed UNION ALL SELECT who, day FROM visits)": (".day", ""),
    "SELECT COUNT(*) FROM (SELECT who, day d FROM visits UNION ALL SELECT who, day + INTERVAL 1 DAY FROM claims)":
        ("", ""),
}  # fmt: skip


@pytest.mark.parametrize("text", ROW_PERIODS)
def test_which_columns_hold_the_period_of_a_row(text: str) -> None:
    """One value within a unit: not of listed values, where a day may be missing, nor of ranges that clamp unlike."""
    described = catalog("day")
    listed = Domain("date", values=("2024-01-01", "2024-02-01"))
    short = Domain("date", bounds=("2024-01-01", "2024-06-30"))
    tables = {
        name: CatalogTable(
            name, {"day": domain}, False, "who", ContributionLimits(3, 3, 3), period=Period("day", "day")
        )
        for name, domain in (("listed", listed), ("short", short))
    }
    described = replace(described, tables={**described.tables, **tables})
    relation = parse(text, described).plan.source
    for single, expected in zip((False, True), ROW_PERIODS[text], strict=True):
        found = period_expressions_of(relation, described, single=single)
        references = sorted(f"{each.reference.table}.{each.reference.name}" for each in found)  # type: ignore[attr-defined]
        assert references == expected.split()


def wide_catalog(rows: int) -> Catalog:
    """Tables of which one unit may have many rows."""
    limits = ContributionLimits(rows, rows, rows)
    tables = (
        CatalogTable("visits", VISITS, False, "who", limits),
        CatalogTable("claims", CLAIMS, False, "who", limits),
    )
    return Catalog({each.name: each for each in tables}, lambda *_: 2, lambda *_: 1)


UNDER_OR = (
    "SELECT COUNT(*) FROM visits v WHERE cost > 3 OR EXISTS"
    " (SELECT 1 FROM claims c WHERE c.who = v.who AND c.euros > v.cost)"
)


def test_rows_compared_under_or_are_cut() -> None:
    """As those of a test by itself are: one row is compared with no more than the limit of the other table."""
    (test,) = (each for each in relations(parse(UNDER_OR, catalog()).plan.source) if isinstance(each, AnySemiJoin))
    assert [each.other.max_rows_per_unit for each in test.tests] == [2]
    twice = UNDER_OR.replace(" OR ", " OR EXISTS (SELECT 1 FROM claims d WHERE d.who = v.who AND d.day > v.day) OR ")
    check_cost(parse(twice, wide_catalog(400)).plan)
    with pytest.raises(Unsupported, match="1,000 rows; here one row could become 1,200"):
        parse(twice, wide_catalog(600))


@pytest.mark.parametrize("text", ["SELECT COUNT(*) FROM visits v JOIN claims c ON v.who = c.who", UNDER_OR])
@pytest.mark.parametrize("rows", [999, 1_000, 1_001, 20_000])
def test_a_joined_table_of_many_rows_is_cut_to_a_thousand(text: str, rows: int) -> None:
    """The other side keeps its own limit, and a row beyond the thousandth of the joined side is cut."""
    source = parse(text, wide_catalog(rows)).plan.source
    cuts = [each.rows for each in relations(source) if isinstance(each, LimitRowsPerUnit)]
    assert cuts[-1] == min(rows, 1_000)
    assert cuts[:-1] == ([rows] if isinstance(source, UnitJoin) else [])
    check_cost(parse(text, wide_catalog(rows)).plan)
    said = [each for each in undeclared_value_warnings(parse(text, wide_catalog(rows))) if "joined table" in each]
    assert len(said) == (rows > 1_000)


def test_what_stands_under_or_is_written_as_clauses() -> None:
    same = (
        "SELECT COUNT(*) FROM visits v WHERE NOT (cost <= 3 AND NOT EXISTS"
        " (SELECT 1 FROM claims c WHERE c.who = v.who AND c.euros > v.cost))"
    )
    negated = digest(parse(same, catalog()).plan)
    direct = digest(parse(UNDER_OR.replace("cost > 3", "NOT cost <= 3"), catalog()).plan)
    assert negated == direct
    both = (
        "SELECT COUNT(*) FROM visits v WHERE (cost > 3 AND who IN (SELECT who FROM claims)) OR (cost < 1 AND who NOT IN"
        " (SELECT who FROM drugs))"
    )
    kinds = [type(each) for each in relations(parse(both, catalog()).plan.source)]
    assert kinds.count(AnySemiJoin) == 3  # and one clause reads no other table


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM visits v WHERE CASE WHEN who IN (SELECT who FROM claims) THEN TRUE ELSE cost > 3 END",
        "SELECT COUNT(*) FROM visits v WHERE (who IN (SELECT who FROM claims)) = TRUE OR cost > 3",
        "SELECT COUNT(*) FROM visits v WHERE " + " OR ".join(["(who IN (SELECT who FROM claims) AND cost > 1)"] * 8),
    ],
)
def test_tests_elsewhere_are_refused(text: str) -> None:
    with pytest.raises(Unsupported) as refused:
        parse(text, catalog())
    assert refused.value.code in ("subquery-place", "subquery", "too-deep")
