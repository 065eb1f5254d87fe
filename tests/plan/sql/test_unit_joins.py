"""How conditions between private tables are taken apart: conjuncts, clauses, pairs, and what belongs to one side."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from plan.test_joins import catalog, wide_catalog
from sfumato.errors import Unsupported
from sfumato.plan.descriptions import expression_sql
from sfumato.plan.nodes import AnySemiJoin, Filter, LimitRowsPerUnit, Relation, SemiJoin, Union, UnitJoin, relations
from sfumato.plan.sql import unit_joins
from sfumato.plan.sql.statements import parse
from sfumato.plan.sql.unit_joins import (
    MAX_CLAUSES,
    SubqueryTest,
    check_id_positions,
    conjunctive_clauses,
    conjuncts,
    is_subquery_test,
    union_selects,
    with_column_names,
)

EXISTS = "EXISTS(SELECT 1 FROM s)"


def condition(text: str) -> exp.Expr:
    return sqlglot.parse_one(f"SELECT 1 FROM t WHERE {text}", read="duckdb").args["where"].this  # type: ignore[no-any-return]


def select(text: str) -> exp.Expr:
    return sqlglot.parse_one(text, read="duckdb")


def test_conjuncts() -> None:
    assert conjuncts(None) == []
    assert [node.sql() for node in conjuncts(condition("a AND (b AND (c OR d))"))] == ["a", "b", "c OR d"]
    assert [node.sql() for node in conjuncts(condition("(a)"))] == ["a"]


CLAUSES = {
    f"a OR {EXISTS}": [["a", EXISTS]],
    f"NOT (a AND {EXISTS})": [["NOT a", f"NOT {EXISTS}"]],
    f"NOT (a OR {EXISTS})": [["NOT a"], [f"NOT {EXISTS}"]],
    f"(a AND b) OR {EXISTS}": [["a AND b", EXISTS]],
    f"a AND (b OR {EXISTS})": [["a"], ["b", EXISTS]],
    f"(a AND {EXISTS}) OR b": [["a", "b"], [EXISTS, "b"]],
    f"NOT NOT {EXISTS}": [[EXISTS]],
    f"NOT (a AND NOT {EXISTS})": [["NOT a", EXISTS]],
    "a OR b": [["a OR b"]],
    "NOT (a OR b)": [["NOT (a OR b)"]],
    "x IN (SELECT y FROM s) OR a": [["x IN (SELECT y FROM s)", "a"]],
    "x IN (1, 2) OR a": [["x IN (1, 2) OR a"]],
}


@pytest.mark.parametrize("text", CLAUSES)
def test_clauses_under_or(text: str) -> None:
    found = [[node.sql() for node in clause] for clause in conjunctive_clauses(condition(text))]
    assert found == [[condition(part).sql() for part in clause] for clause in CLAUSES[text]]


def test_clauses_hold_where_the_condition_does() -> None:
    """Every condition of two tests, two columns and three connectives, for all truths of its parts."""
    parts = ("a", "b", "x IN (SELECT y FROM s)", "z IN (SELECT y FROM s)")
    for first, second, third in itertools.product(("AND", "OR"), repeat=3):
        for turned in ("", "NOT "):
            text = f"{turned}(({parts[0]} {first} {turned}{parts[2]}) {second} ({parts[1]} {third} {parts[3]}))"
            found = [[node.sql() for node in clause] for clause in conjunctive_clauses(condition(text))]
            for truths in itertools.product((False, True), repeat=4):
                meanings = dict(zip(parts, truths, strict=True))

                def meaning(written: str, meanings: dict[str, bool] = meanings) -> Any:
                    for part, truth in meanings.items():
                        written = written.replace(part, str(truth))
                    return eval(written.replace("AND", "and").replace("OR", "or").replace("NOT", "not"))

                assert meaning(text) == all(any(map(meaning, clause)) for clause in found)


def test_no_more_clauses_than_are_allowed() -> None:
    pairs = [f"(a{index} AND x IN (SELECT y FROM s))" for index in range(7)]
    assert MAX_CLAUSES == 2**6
    assert len(conjunctive_clauses(condition(" OR ".join(pairs[:6])))) == 2**6
    with pytest.raises(Unsupported, match="at most 64"):
        conjunctive_clauses(condition(" OR ".join(pairs)))


@pytest.mark.parametrize(
    ("text", "anti"),
    [
        (EXISTS, False),
        (f"NOT {EXISTS}", True),
        (f"NOT (NOT {EXISTS})", False),
        ("x IN (SELECT y FROM s)", False),
        ("x NOT IN (SELECT y FROM s)", True),
        ("x IN (1, 2)", None),
        ("a", None),
    ],
)
def test_what_tests_a_subquery(text: str, anti: bool | None) -> None:
    node = condition(text)
    assert is_subquery_test(node) == (anti is not None)
    if anti is not None:
        test = SubqueryTest.parse(node)
        assert test.anti is anti
        assert [operand.sql() for operand in test.operands] == (["x"] if "IN" in text else [])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("EXISTS (SELECT 1 FROM s UNION ALL SELECT 1 FROM s)", "not-select"),
        ("EXISTS (SELECT COUNT(*) FROM s)", "exists-aggregate"),
        ("(a, b) IN (SELECT y FROM s)", "in-columns"),
        ("x IN (SELECT y, z FROM s)", "in-columns"),
    ],
)
def test_subqueries_that_are_refused(text: str, code: str) -> None:
    with pytest.raises(Unsupported) as refused:
        SubqueryTest.parse(condition(text))
    assert refused.value.code == code


def test_subqueries_that_are_taken() -> None:
    assert SubqueryTest.parse(condition("EXISTS (SELECT COUNT(*) FROM s GROUP BY who)")).operands == ()
    assert len(SubqueryTest.parse(condition("(a, b) IN (SELECT y, z FROM s)")).operands) == 2


def test_members_of_a_union() -> None:
    nested = select("SELECT a FROM t UNION ALL (SELECT b FROM t UNION ALL SELECT c FROM t)")
    assert [member.sql() for member in union_selects(nested)] == [f"SELECT {name} FROM t" for name in "abc"]
    distinct = select("SELECT a FROM t UNION SELECT b FROM t")
    assert union_selects(distinct) == [distinct]
    named = with_column_names(select("SELECT a, b + 1, c AS d, COUNT(*), t.* FROM t"))
    assert named.sql() == 'SELECT a, b + 1 AS "column 1", c AS d, COUNT(*), t.* FROM t'
    assert with_column_names(distinct) == distinct


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        ("SELECT who, a FROM t", "SELECT who, b FROM s", False),
        ("SELECT who, a FROM t", "SELECT b, who FROM s", True),
        ("SELECT WHO, a FROM t", "SELECT Who, b FROM s", False),
        ("SELECT a FROM t", "SELECT b FROM s", False),
        ("SELECT who, a FROM t", "SELECT b, c FROM s", True),
        ("SELECT * FROM t", "SELECT b, who FROM s", False),
        ("SELECT who, a FROM t", "SELECT * FROM s", False),
        ("SELECT who, a FROM t", "SELECT who, b, c FROM s", False),
        ("SELECT who, a FROM t", "SELECT a FROM t UNION SELECT who FROM s", False),
    ],
)
def test_an_id_stands_at_one_position(first: str, second: str, is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(Unsupported, match="same position"):
            check_id_positions(select(first), ["who"], select(second), ["who"])
    else:
        check_id_positions(select(first), ["who"], select(second), ["who"])


def source(text: str) -> Relation:
    return parse(f"SELECT COUNT(*) FROM {text}", catalog()).plan.source


def words(expression: Any) -> str:
    return expression_sql(expression).replace("claims.", "").strip("()")


def the(kind: type[Any], relation: Relation) -> Any:
    (node,) = (node for node in relations(relation) if isinstance(node, kind))
    return node


@pytest.mark.parametrize(
    ("on", "pairs", "condition", "left", "right"),
    [
        ("v.region = c.region", ["region = region"], None, None, None),
        ("c.region = v.region", ["region = region"], None, None, None),
        ("v.cost = c.euros AND c.region = v.region", ["cost = euros", "region = region"], None, None, None),
        ("v.cost < c.euros", [], "cost < euros", None, None),
        ("v.cost > 3", [], None, "cost > 3", None),
        ("c.euros > 3", [], None, None, "euros > 3"),
        ("c.euros > 3 AND v.cost > 4", [], None, "cost > 4", "euros > 3"),
    ],
)
def test_where_a_condition_of_a_join_belongs(
    on: str, pairs: list[str], condition: str | None, left: str | None, right: str | None
) -> None:
    join = the(UnitJoin, source(f"visits v JOIN claims c ON v.who = c.who AND {on}"))
    assert sorted(f"{words(a)} = {words(b)}" for a, b in join.pairs) == pairs
    assert (None if join.condition is None else words(join.condition)) == condition
    for side, rows, expected in ((join.left, 3, left), (join.right, 2, right)):
        assert isinstance(side, LimitRowsPerUnit)
        assert side.rows == rows
        filtered = side.input
        assert (words(filtered.predicate) if isinstance(filtered, Filter) else None) == expected
    outer = the(UnitJoin, source(f"visits v LEFT JOIN claims c ON v.who = c.who AND {on}"))
    assert outer.outer
    assert not join.outer
    kept = [part for part in (condition, left) if part is not None]
    assert (None if outer.condition is None else words(outer.condition)) == (kept[0] if kept else None)
    assert not isinstance(outer.left.input, Filter)


def test_conditions_of_where_are_pushed_below_the_limits_of_their_side() -> None:
    joined = "visits v JOIN claims c ON v.who = c.who WHERE v.cost > 4 AND c.euros > 3 AND v.cost < c.euros"
    relation = source(joined)
    assert isinstance(relation, Filter)
    assert words(relation.predicate) == "cost < euros"
    join = the(UnitJoin, relation)
    assert [words(side.input.predicate) for side in (join.left, join.right)] == ["cost > 4", "euros > 3"]
    outer = source("visits v LEFT JOIN claims c ON v.who = c.who WHERE v.cost > 4 AND c.euros > 3")
    assert isinstance(outer, Filter)
    assert words(outer.predicate) == "euros > 3"
    assert words(the(UnitJoin, outer).left.input.predicate) == "cost > 4"


def test_conditions_inside_a_test() -> None:
    text = "visits v WHERE {}EXISTS (SELECT 1 FROM claims c WHERE c.who = v.who AND c.euros > 3 AND v.cost > 4)"
    inner, anti = source(text.format("")), source(text.format("NOT "))
    test, untest = the(SemiJoin, inner), the(SemiJoin, anti)
    assert (test.anti, untest.anti) == (False, True)
    assert test.condition is None
    assert words(test.input.predicate) == "cost > 4"
    assert words(untest.condition) == "cost > 4"
    assert isinstance(untest.other, LimitRowsPerUnit)
    assert not isinstance(test.other, LimitRowsPerUnit)
    under_or = the(AnySemiJoin, source(text.format("v.cost = 1 OR ")))
    (alternative,) = under_or.tests
    assert words(alternative.condition) == "cost > 4"
    assert (alternative.other.max_rows_per_unit, alternative.anti) == (2, False)


@pytest.mark.parametrize(
    ("limit", "proven", "first", "second"),
    [(5, 1_000, None, None), (5, 1_001, 5, 5), (2_000, 1_001, None, 1_000), (2_000, 2_000, None, 1_000)],
)
def test_a_side_that_was_cut_before(limit: int, proven: int, first: int | None, second: int | None) -> None:
    """Up to a thousand rows of a unit stay; more stay on the first side alone, up to the policy's limit."""
    scan = parse("SELECT COUNT(*) FROM visits", wide_catalog(limit)).plan.source
    rows = UnitJoin(LimitRowsPerUnit(scan, proven), LimitRowsPerUnit(scan, 1), (), None, False)
    assert rows.max_rows_per_unit == proven
    for cut, expected in (
        (unit_joins._limit_rows_unless_proven(rows), first),
        (unit_joins._limit_joined_rows(rows), second),
    ):
        assert (cut.rows if isinstance(cut, LimitRowsPerUnit) else None) == expected


def test_the_columns_of_a_union() -> None:
    union = the(Union, source("(SELECT cost AS x, region FROM visits UNION ALL SELECT euros, region FROM claims)"))
    (name, domain), (region, regions) = union.named
    assert (name, region) == ("x", "region")
    assert domain.range == (0, 99)
    assert set(regions.values) == {"n", "s", "w"}
    assert not domain.nullable
    nulled = the(Union, source("(SELECT cost AS x FROM visits UNION ALL SELECT NULLIF(euros, 3) FROM claims)"))
    assert nulled.named[0][1].nullable
