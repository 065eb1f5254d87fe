"""``sfumato bounds``, ``sfumato limits`` and ``sfumato init --bounds-epsilon``: what they print, spend and write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.running import run, spent
from sfumato.cli import main
from sfumato.curator import Bounds, UnitLimits
from sfumato.policy import read

CLINIC = """
[unit]
name = "patient"
budget = { epsilon = 3.0 }

[tables.visits]
source = "visits.csv"
id = "who"
max_rows = 3
columns = { cost = { type = "real" }, ward = { type = "text" }, day = { type = "date" } }
"""


@pytest.fixture(autouse=True)
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what is printed is known."""
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Six hundred patients with two visits each, that cost 30 to 79."""
    rows = [f"{n // 2},{30 + n % 50},{'ab'[n % 2]},2024-0{1 + n % 9}-01" for n in range(1200)]
    file = tmp_path / "visits.csv"
    file.write_text("who,cost,ward,day\n" + "\n".join(rows) + "\n")
    return file


@pytest.fixture
def clinic(data: Path) -> Path:
    policy = data.with_name("clinic.toml")
    policy.write_text(CLINIC)
    return policy


def test_bounds_are_bought_once_and_shown_with_a_line_to_paste(clinic: Path) -> None:
    asked = ("bounds", clinic, "visits", "cost", "--epsilon", "1")
    dry = run(*asked, "--dry-run")
    assert "every step with" in dry.stdout
    assert json.loads(run(*asked, "--dry-run", "--json").stdout)["price"] == "ε = 1"
    assert spent(clinic) == 0
    done = run(*asked)
    assert done.exit_code == 0, done.stderr
    first, second, *rest = done.stdout.splitlines()
    assert first == "bounds = [20, 100]"
    assert second.startswith("cost in [20, 100]: ")
    assert "ε = 1" in "".join(rest)
    assert Bounds.from_json(run(*asked, "--json").stdout).toml == first
    assert spent(clinic) == 1


def test_limits_are_bought_once_and_shown_with_lines_to_paste(clinic: Path) -> None:
    asked = ("limits", clinic, "visits", "--by", "ward", "--epsilon", "1")
    assert "one row for each patient" in run(*asked, "--dry-run").stdout
    done = run(*asked)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["max_rows = 2", "max_groups = 2"]
    assert UnitLimits.from_json(run(*asked, "--json").stdout).max_rows == 2
    assert spent(clinic) == 1


def test_what_has_no_bounds_is_refused_and_nothing_spent(clinic: Path) -> None:
    refused = run("bounds", clinic, "visits", "ward", "--epsilon", "1")
    assert refused.exit_code == 2
    assert "a text has no bounds" in refused.stderr
    assert run("bounds", clinic, "visits", "cost", "--cover", "1", "--epsilon", "1").exit_code == 2
    assert run("limits", clinic, "nowhere", "--epsilon", "1").exit_code == 2
    assert spent(clinic) == 0


def draft(data: Path, *more: str, after: str = "") -> Result:
    told = ["yes", "patient", "visits", "who", "3", "", "3", "-", "real", "-", "text", "", "date", "-"]
    asked = ["init", str(data), "-o", str(data.with_name("policy.toml")), *more]
    return CliRunner().invoke(main, asked, input="\n".join(told) + "\n" + after)


@pytest.mark.parametrize("by_flag", [True, pytest.param(False, marks=pytest.mark.long)])
def test_init_buys_the_bounds_that_were_not_typed(data: Path, by_flag: bool) -> None:
    done = draft(data, "--bounds-epsilon", "1") if by_flag else draft(data, after="-1\n1\n")
    assert done.exit_code == 0, done.output
    assert "2 searches at ε = 1 each, ε = 2 in total, of the lifetime budget of 3 in " in done.output
    assert ("Without bounds: cost, day" in done.output) is not by_flag
    text = data.with_name("policy.toml").read_text()
    assert "# These bounds were found privately for ε = 1, line 4 of the ledger." in text
    columns = read(data.with_name("policy.toml")).tables["visits"].columns
    assert columns["cost"].bounds == (20, 100)
    assert [str(end) for end in columns["day"].bounds or ()] == ["2024-01-01", "2024-12-31"]
    assert columns["ward"].bounds is None
    assert spent(data.with_name("policy.toml")) == 2
    assert not data.with_name("policy.toml.new").exists()


def test_exact_bounds_are_not_shown_to_who_buys_them(data: Path) -> None:
    assert "of the cells of cost, none beyond 0 100" in draft(data).output
    data.with_name("policy.toml").unlink()
    assert "of the cells of" not in draft(data, "--bounds-epsilon", "1").output


@pytest.mark.parametrize("answer", ["\n", ""])
def test_no_answer_buys_nothing_and_the_policy_stands(data: Path, answer: str) -> None:
    done = draft(data, after=answer)
    assert done.exit_code == 0, done.output
    assert read(data.with_name("policy.toml")).tables["visits"].columns["cost"].bounds is None
    assert not data.with_name("sfumato.ledger").exists()


def test_what_was_bought_before_the_budget_ended_is_written(data: Path) -> None:
    done = draft(data, "--bounds-epsilon", "2")
    assert done.exit_code == 3, done.output
    columns = read(data.with_name("policy.toml")).tables["visits"].columns
    assert columns["cost"].bounds == (20, 100)
    assert columns["day"].bounds is None


def test_a_price_that_is_none_is_refused_before_the_first_question(data: Path) -> None:
    assert draft(data, "--bounds-epsilon", "0").exit_code == 2
    assert not data.with_name("policy.toml").exists()
