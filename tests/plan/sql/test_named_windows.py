"""A WINDOW clause means what is written out, and cannot make a short text long."""

from __future__ import annotations

import pytest

from plan.described import CATALOG
from sfumato.errors import Unsupported
from sfumato.plan.sql.statements import parse

COUNTS = "SELECT region, COUNT(*) AS n, {} AS place FROM visits GROUP BY region {}"
FIRST = "SELECT COUNT(*) AS n FROM (SELECT patient_id, ROW_NUMBER() {} AS r FROM visits {}) WHERE r = 1"


@pytest.mark.parametrize(
    ("question", "over", "clause", "written_out"),
    [
        (COUNTS, "RANK() OVER w", "WINDOW w AS (ORDER BY COUNT(*) DESC)", "RANK() OVER (ORDER BY COUNT(*) DESC)"),
        (COUNTS, "RANK() OVER (W)", "WINDOW w AS (ORDER BY COUNT(*))", "RANK() OVER (ORDER BY COUNT(*))"),
        (
            COUNTS,
            "SUM(COUNT(*)) OVER v",
            "WINDOW w AS (PARTITION BY region), v AS (w)",
            "SUM(COUNT(*)) OVER (PARTITION BY region)",
        ),
        (
            FIRST,
            "OVER (w ORDER BY age)",
            "WINDOW w AS (PARTITION BY patient_id)",
            "OVER (PARTITION BY patient_id ORDER BY age)",
        ),
    ],
)
def test_a_named_window_is_the_window_written_out(question: str, over: str, clause: str, written_out: str) -> None:
    assert parse(question.format(over, clause), CATALOG) == parse(question.format(written_out, ""), CATALOG)


def test_a_name_that_no_window_has_is_refused() -> None:
    with pytest.raises(Unsupported, match="no window is named q") as refused:
        parse(COUNTS.format("RANK() OVER q", "WINDOW w AS (ORDER BY COUNT(*))"), CATALOG)
    assert refused.value.fix == "use w"


def test_a_long_window_that_is_named_often_is_refused() -> None:
    ranks = ", ".join(f"RANK() OVER w AS r{index}" for index in range(60))
    order = " + ".join(["COUNT(*)"] * 300)
    with pytest.raises(Unsupported, match="10,000 SQL tokens"):
        parse(COUNTS.format(f"{ranks}, 1", f"WINDOW w AS (ORDER BY {order})"), CATALOG)
