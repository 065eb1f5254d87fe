"""``sfumato running``: what it prints, what it spends, how it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.running import run, spent
from sfumato.curator import RunningForecast
from sfumato.release.running_totals import RunningAnswer

CLINIC = """
[unit]
name = "person"
budget = { epsilon = 3.0, delta = 1e-6 }

[tables.visits]
source = "visits.csv"
id = "who"
max_rows = 2
columns = { day = { type = "date", bounds = ["2024-03-01", "2024-03-31"] }, region = { values = ["a", "b"] } }
"""
DAYS = "SELECT day, COUNT(*) AS visits FROM visits GROUP BY day"


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    rows = "\n".join(f"{number // 2},2024-03-{number % 31 + 1:02},{'ab'[number % 2]}" for number in range(200))
    (tmp_path / "visits.csv").write_text(f"who,day,region\n{rows}\n")
    policy = tmp_path / "clinic.toml"
    policy.write_text(CLINIC)
    return policy


def test_they_are_forecast_bought_once_and_shown_again(clinic: Path) -> None:
    said = run("running", clinic, DAYS, "--epsilon", "1", "--dry-run")
    assert said.exit_code == 0, said.stderr
    assert "in the worst of 31 periods" in said.stdout
    assert "would accept it now" in said.stdout
    assert "not rows beyond these limits" in said.stdout
    assert RunningForecast.from_json(run("running", clinic, DAYS, "--rho", "0.01", "--dry-run", "--json").stdout)
    assert "add up" in run("running", clinic, DAYS, "--explain").stdout
    assert json.loads(run("running", clinic, DAYS, "--explain", "--json").stdout)["price"] == "ε = 1"
    assert spent(clinic) == 0
    done = run("running", clinic, DAYS, "--epsilon", "1")
    assert done.exit_code == 0, done.stderr
    assert "2024-03-31" in done.stdout
    assert "±" in done.stdout
    assert "this answer  ε = 1" in done.stdout
    assert "they are free" in run("running", clinic, DAYS, "--epsilon", "0.5", "--dry-run").stdout
    again = run("running", clinic, DAYS, "--epsilon", "0.5", "--json", "--joint")
    assert RunningAnswer.from_json(again.stdout).receipt.free
    assert spent(clinic) == 1


def test_they_are_written_as_csv_and_drawn(clinic: Path, tmp_path: Path) -> None:
    text = "SELECT region, DATE_TRUNC('week', day) AS week, COUNT(*) AS n FROM visits GROUP BY region, week"
    done = run("running", clinic, text, "--epsilon", "1", "--csv", "--plot", tmp_path / "weeks.svg")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[0] == "region,week,n,n_low,n_high"
    assert (tmp_path / "weeks.svg").read_text().startswith("<svg")
    whole = run("running", clinic, text, "--epsilon", "1", "--receipt")
    assert "ledger" in whole.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((DAYS,), "name one price"),
        ((DAYS, "--epsilon", "1", "--rho", "1"), "name one price"),
        ((DAYS, "--epsilon", "1", "--json", "--csv"), "not both"),
        ((DAYS, "--epsilon", "1", "--plot", "days.gif"), ".svg"),
        (("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", "--epsilon", "1"), "no-period-key"),
        ((DAYS, "--epsilon", "5"), "cannot afford"),
    ],
)
def test_what_cannot_be_answered_is_refused_for_free(
    clinic: Path, arguments: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clinic.parent)
    done = run("running", clinic, *arguments)
    assert done.exit_code != 0
    assert words in done.stderr
    assert spent(clinic) == 0
