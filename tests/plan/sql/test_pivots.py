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
    with pytest.raises(Unsupported, match="never come from rows"):
        parse("PIVOT (SELECT urgent, region FROM visits) ON region USING COUNT(*) GROUP BY urgent", CATALOG)


def test_a_second_statement_behind_a_pivot_is_refused() -> None:
    with pytest.raises(Unsupported, match="one SELECT statement"):
        parse(f"{PIVOT.format('visits')} ORDER BY urgent; SELECT 1", CATALOG)
