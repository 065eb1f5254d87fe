"""PIVOT statements over private rows are GROUP BY with FILTER, and ORDER BY and LIMIT may follow them."""

from __future__ import annotations

import pytest

from plan.described import CATALOG
from sfumato.errors import Unsupported
from sfumato.plan.sql.statements import parse

PIVOT = "PIVOT {} ON region IN ('north', 'south') USING COUNT(*) GROUP BY urgent"
SELECT = (
    "SELECT urgent, COUNT(*) FILTER (WHERE region = 'north') AS north, "
    "COUNT(*) FILTER (WHERE region = 'south') AS south FROM visits GROUP BY urgent"
)


@pytest.mark.parametrize("source", ["visits", "(SELECT urgent, region FROM visits)"])
@pytest.mark.parametrize("tail", ["", " ORDER BY urgent", " ORDER BY north DESC LIMIT 2"])
def test_a_pivot_of_rows_measures_what_is_written_out(source: str, tail: str) -> None:
    pivoted = parse(PIVOT.format(source) + tail, CATALOG)
    assert pivoted.plan == parse(SELECT, CATALOG).plan
    assert [output.name for output in pivoted.outputs] == ["urgent", "north", "south"]


def test_the_values_of_rows_are_no_columns() -> None:
    with pytest.raises(Unsupported, match="column names must not be read from the data"):
        parse("PIVOT (SELECT urgent, region FROM visits) ON region USING COUNT(*) GROUP BY urgent", CATALOG)


def test_a_second_statement_behind_a_pivot_is_refused() -> None:
    with pytest.raises(Unsupported, match="one SELECT statement"):
        parse(f"{PIVOT.format('visits')} ORDER BY urgent; SELECT 1", CATALOG)


def test_a_pivot_of_its_own_columns_alone_is_one_row() -> None:
    """No other column is left to group by, as in DuckDB."""
    pivoted = parse("PIVOT (SELECT region FROM visits) ON region IN ('north', 'south') USING COUNT(*)", CATALOG)
    counts = SELECT.replace("urgent, ", "").replace(" GROUP BY urgent", "")
    assert pivoted.plan == parse(counts, CATALOG).plan
    assert [output.name for output in pivoted.outputs] == ["north", "south"]


def test_a_pivot_groups_by_the_other_columns_and_never_drops_them() -> None:
    with pytest.raises(Unsupported, match="group by all its other columns") as refused:
        parse("PIVOT (SELECT region, age FROM visits) ON region IN ('north') USING COUNT(*)", CATALOG)
    assert refused.value.code == "pivot"


def test_unpivot_without_into_names_its_columns_as_duckdb_does() -> None:
    averages = "(SELECT urgent, AVG(age) AS a, AVG(cost) AS c FROM visits GROUP BY urgent)"
    bare = parse(f"UNPIVOT {averages} ON a, c", CATALOG)
    assert [output.name for output in bare.outputs] == ["urgent", "name", "value"]
    assert bare == parse(f"UNPIVOT {averages} ON a, c INTO NAME name VALUE value", CATALOG)


def test_a_fix_names_what_the_question_names() -> None:
    with pytest.raises(Unsupported) as refused:
        parse("PIVOT visits ON region IN ('west') USING AVG(cost)", CATALOG)
    assert refused.value.fix == "write PIVOT visits ON region IN ('west') USING AVG(cost) GROUP BY urgent"
