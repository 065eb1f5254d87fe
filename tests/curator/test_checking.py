"""A check: exact figures for the owner, and advice that no row has a part in."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf
from sfumato.curator.checking import advise_on_example_questions, check

POLICY = """[unit]
name = "person"
budget = { epsilon = 1 }
[tables.t]
source = "t.csv"
id = "who"
max_rows = 4
[tables.t.columns]
x = { type = "integer", bounds = [0, 100] }
ward = { values = ["A", "B"] }
"""
HALF = "who,x,ward\n1,1,A\n1,999,?\n2,-7,?\n2,2,B\n"
MORE = HALF + "3,3,?\n"
MISSING = HALF + "3,3,\n" * 20


def policy(folder: Path, rows: str = HALF) -> Path:
    (folder / "t.csv").write_text(rows)
    (folder / "policy.toml").write_text(POLICY)
    return folder / "policy.toml"


@pytest.fixture(autouse=True)
def _times_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long reading takes is measured in ``test_reading_times``: it is most of a check's own time."""
    monkeypatch.setattr("sfumato.curator.checking.time_typical_questions", lambda _: ())


def test_bounds_that_are_hit_are_told_apart(tmp_path: Path) -> None:
    (table,) = check(policy(tmp_path)).tables
    assert table.costs is not None
    cost = table.costs.columns["x"]
    assert (cost.clamped_low, cost.clamped_high, cost.clamped) == (0.25, 0.25, 0.5)


def test_losses_by_limit(tmp_path: Path) -> None:
    (table,) = check(policy(tmp_path, "who,x,ward\n" + "1,1,A\n1,1,B\n" * 3 + "2,1,A\n,1,A\n")).tables
    assert table.costs is not None
    assert {limit: table.costs.lost_by_row_limit[limit] for limit in (1, 2, 5, 10)} == {
        1: 5 / 7,
        2: 4 / 7,
        5: 1 / 7,
        10: 0,
    }
    assert {limit: table.costs.lost_by_group_limit["ward"][limit] for limit in (1, 2)} == {1: 1 / 3, 2: 0}


@pytest.mark.parametrize(("rows", "lost"), [(HALF, False), (MORE, True), (MISSING, False), ("who,x,ward\n", False)])
def test_a_column_that_loses_more_than_half_is_an_error(tmp_path: Path, rows: str, lost: bool) -> None:
    """Of the values that are there: what is missing in the source is not lost."""
    report = check(policy(tmp_path, rows))
    assert bool(report.tables[0].lost_shares) is lost
    if lost:
        with pytest.raises(sf.InvalidPolicy, match=r"60.0% of the values of t.ward become NULL"):
            report.require_values_kept()
    report.require_values_kept(["t.ward"])
    with pytest.raises(sf.InvalidPolicy, match=r"this policy has no column t.wart"):
        report.require_values_kept(["t.wart"])


def test_opening_and_asking_do_not_depend_on_it(tmp_path: Path) -> None:
    with sf.open(policy(tmp_path, MORE)) as made:
        assert made.sql("SELECT COUNT(*) AS n FROM t WHERE ward = 'A'").release(epsilon=1).rows
    check(policy(tmp_path, MORE), private=False).require_values_kept()  # what is public knows nothing of it


def test_advice_is_the_same_whatever_the_rows_hold(tmp_path: Path) -> None:
    told = [
        check(policy(tmp_path, rows), private=private).advice for rows in (HALF, MISSING) for private in (True, False)
    ]
    assert told == [told[0]] * 4
    (tmp_path / "t.csv").unlink()
    assert advise_on_example_questions(sf.policy.read(tmp_path / "policy.toml")) == told[0]
    assert any("max_rows 4 causes 75 % of this error" in str(each) for each in told[0])
    assert any("SUM(LEAST(x, 50)) gives" in str(each) for each in told[0])
