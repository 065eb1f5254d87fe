"""Walks of syntax trees: the nodes and the order of the parser's own walk."""

from __future__ import annotations

import sqlglot
from hypothesis import given, strategies as st
from sqlglot import exp

from sfumato.plan.sql.dialect import find_nodes, has_node, list_nodes

TEXTS = (
    "SELECT COUNT(*) AS n FROM visits WHERE age > 40 AND city IN ('Rome', 'Oslo')",
    "WITH a AS (SELECT x FROM t) SELECT CASE WHEN x THEN 1 END, SUM(y) OVER (PARTITION BY z ORDER BY w) FROM a JOIN b "
    "USING (k) WHERE EXISTS (SELECT 1 FROM c) GROUP BY ROLLUP (x, z) LIMIT 3",
    "SELECT TO_DATE('2024', 'YYYY'), x::DECIMAL(5, 2), [1, 2], {'a': 1} FROM s.t PIVOT (SUM(v) FOR m IN (1, 2))",
)
KINDS = (exp.Column, exp.Subquery, exp.Select, exp.Identifier, exp.Window, exp.Literal)


@given(st.sampled_from(TEXTS), st.sets(st.sampled_from(KINDS), min_size=1))
def test_nodes_are_those_of_the_parsers_walk_in_its_order(text: str, kinds: set[type[exp.Expr]]) -> None:
    tree = sqlglot.parse_one(text, read="duckdb")
    assert [id(node) for node in list_nodes(tree)] == [id(node) for node in tree.walk()]
    found = [id(node) for node in find_nodes(tree, *kinds)]
    assert found == [id(node) for node in tree.find_all(*kinds)]
    assert has_node(tree, *kinds) is bool(found)
