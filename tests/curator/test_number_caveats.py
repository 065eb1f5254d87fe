"""What stands beside a number: rows without an id, in forecasts too, in answers of published objects, and said once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from curator.test_growing import write

COLUMNS: dict[str, Any] = {
    "cost": {"type": "integer", "bounds": (0, 9), "bins": 3},
    "town": {"values": ["a", "b"]},
}
ROWS = pa.table({"who": [1, 2, None], "visit": [1, 2, 3], "cost": [3, 5, 99], "town": ["a", "b", "c"]})


def policy(**more: Any) -> sf.Policy:
    """Visits of patients, and bills of visits; ``more`` are further columns of the visits."""
    visits = sf.Table("visits", ROWS, COLUMNS | more, id="who", max_rows=2)
    path = {"via": "visits", "on": "visit"}
    bills = sf.Table("bills", ROWS, {"cost": COLUMNS["cost"]}, id=path, max_rows=2)
    return sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(3, "1e-6"), {"visits": visits, "bills": bills})


@pytest.fixture
def curator(tmp_path: Path) -> Any:
    with sf.Curator(policy(), tmp_path / "ledger") as curator:
        yield curator


UNITS = "SELECT COUNT(DISTINCT who) AS n FROM visits"


@pytest.mark.parametrize(
    ("who", "line"),
    [
        (None, "rows without who are left out; ± does not cover these effects"),
        ({"type": "integer", "nullable": True}, "rows without who are left out; ± does not cover these effects"),
        ({"type": "integer"}, None),
    ],
)
def test_rows_without_an_id_are_named_unless_the_policy_declares_that_all_have_one(
    who: Any, line: str | None, tmp_path: Path
) -> None:
    with sf.Curator(policy(**({} if who is None else {"who": who})), tmp_path / "ledger") as curator:
        question: Any = curator.sql(UNITS)
        assert question.caveat_by_column("").get("n") == line
        bills: Any = curator.sql("SELECT COUNT(*) AS n FROM bills")
        assert "rows without an owner are left out" in bills.caveat_by_column("")["n"]


def test_a_forecast_says_what_the_answer_will_say(curator: Any) -> None:
    question = curator.sql("SELECT AVG(cost) AS c, MODE(town) AS m FROM visits")
    forecast = question.error(epsilon=1)
    answer = question.release(epsilon=1)
    assert forecast.caveat_lines() == answer.caveat_lines()
    assert forecast.caveats is not None
    assert forecast.caveats["c"].endswith("± does not cover these effects")
    assert "± does not cover these effects" not in forecast.caveats["m"]
    assert sf.loads(forecast.to_json()) == forecast
    assert "rows without who are left out" in forecast._repr_html_()


def test_a_mode_says_once_what_it_leaves_out(curator: Any) -> None:
    answer = curator.sql("SELECT MODE(town) AS m FROM visits").release(epsilon=1)
    assert "rows with an undeclared value of town do not count for any of its values" in answer.caveats["m"]
    assert answer.warnings == ()


def test_a_published_object_says_what_moves_its_numbers(curator: Any) -> None:
    synopsis = curator.marginals("visits", [["town", "cost"]]).release(epsilon=1)
    answer = sf.loads(synopsis.to_json()).sql("SELECT town, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY town")
    rows = "rows beyond the limits (≤ 2 rows of one unit, in all groups together) count less or not at all"
    assert answer.caveats == {
        "n": f"{rows}; ± does not cover these effects",
        "c": f"cost outside 0…9 counts as 0 or 9; {rows}; ± does not cover these effects",
    }


def test_rows_beyond_all_accounts_are_not_said_to_count_as_a_bound(tmp_path: Path) -> None:
    with sf.open(write(tmp_path)) as curator:
        question: Any = curator.sql("SELECT COUNT(*) AS n FROM visits WHERE day <= DATE '2031-01-01'")
        (warning,) = question.warnings
    assert "are left out, except in the month of a bound, where they count as the bound" in warning
