"""What an owner does to a budget is named wherever its promise is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf
from sfumato.curator.policy_account import amend
from sfumato.policy import read

POLICY = """
[unit]
name = "patient"
budget = {{ epsilon = {epsilon} }}
[tables.visits]
source = "visits.csv"
id = "patient"
max_rows = 2
[tables.visits.columns]
cost = {{ type = "integer", bounds = [0, 100] }}
"""


def write(folder: Path, epsilon: object) -> Path:
    (folder / "clinic.toml").write_text(POLICY.format(epsilon=epsilon))
    return folder / "clinic.toml"


def receipt(path: Path) -> sf.Receipt:
    with sf.open(path) as clinic:
        return clinic.sql("SELECT COUNT(*) AS n FROM visits").release(epsilon="0.5", fresh=True).receipt


def test_receipts_name_every_epsilon_an_account_has_had(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("patient,cost\n1,2\n")
    path = write(tmp_path, 1)
    assert receipt(path).epsilons == ("1",)
    assert "changed" not in str(receipt(path))
    for epsilon in (3, 3, "2.5"):
        amend(read(write(tmp_path, epsilon)), reason="agreed")
    last = receipt(path)
    assert last.epsilons == ("1", "3", "2.5")
    assert "ε = 2.5 for life" in last.short()
    assert "the owner changed ε: 1, then 3, then 2.5; the guarantee is the largest ε ever allowed" in last.short()


def test_no_budget_is_amended_below_what_it_spent(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("patient,cost\n1,2\n")
    path = write(tmp_path, 2)
    for _ in range(3):
        receipt(path)
    with pytest.raises(sf.InvalidParameter, match=r"already spent and held: ε = 1\.5"):
        amend(read(write(tmp_path, 1)), reason="less")
    amend(read(write(tmp_path, "1.5")), reason="no more")


PERIODS = """
[unit]
name = "patient"
budget = { epsilon = 3 }
period = { column = "day", every = "day" }
[tables.visits]
source = "visits.csv"
id = "patient"
max_rows = 2
[tables.visits.columns]
cost = { type = "integer", bounds = [0, 100] }
day = { type = "date" }
since = { type = "date" }
"""


def test_a_period_is_part_of_the_unit_for_life(tmp_path: Path) -> None:
    """A person-day in words wherever a release says whom it protects; another length or column is a different unit."""
    (tmp_path / "visits.csv").write_text("patient,cost,day,since\n1,2,2024-01-01,2024-01-01\n")
    path = tmp_path / "clinic.toml"
    path.write_text(PERIODS)
    words = "one patient-day (all rows of one patient within one day of column day)"
    assert words in str(receipt(path))
    with sf.open(path) as clinic:
        asked = clinic.sql("SELECT COUNT(DISTINCT (patient, day)) AS days FROM visits")
        assert words in str(asked.explain())
        with pytest.raises(sf.Unsupported, match=r"COUNT\(DISTINCT \(patient, day\)\)"):
            clinic.sql("SELECT COUNT(DISTINCT patient) FROM visits")
    period = 'period = { column = "day", every = "day" }\n'
    for other in ("", period.replace('every = "day"', 'every = "week"'), period.replace('"day",', '"since",')):
        path.write_text(PERIODS.replace(period, other))
        with pytest.raises(sf.AccountDiffers, match="a different unit"):
            receipt(path)
        with pytest.raises(sf.AccountDiffers, match="only its budget can be changed"):
            amend(read(path), reason="a different unit")


def test_lines_of_an_account_are_shown_as_a_table(tmp_path: Path) -> None:
    with sf.open(sf.example(), tmp_path / "x.ledger") as flights:
        assert "nothing has been asked yet" in repr(flights.history(after=10**6))
        flights.sql("SELECT COUNT(*) AS n FROM flights").release(epsilon="0.1")
        lines = flights.history()
        assert "SELECT COUNT(*) AS n FROM flights" in repr(lines)
        assert repr(lines).splitlines()[0].split()[:2] == ["number", "time"]
        assert "<td" in lines._repr_html_()
        assert [line.kind for line in lines][-2:] == ["charge", "answer"]  # showing them took none away
