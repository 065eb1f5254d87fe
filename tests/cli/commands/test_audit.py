"""The command tries a policy, prints what it tried, and ends with 1 on any doubt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sfumato.cli import main

POLICY = """
[unit]
name = "person"
budget = { epsilon = 3.0 }

[tables.visits]
source = "nowhere.csv"
id = "who"
max_rows = 1

[tables.visits.columns]
ward = { values = ["A", "B"] }
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy whose file is not there: nobody opens it."""
    path = tmp_path / "clinic.toml"
    path.write_text(POLICY)
    return path


def test_an_audit_without_time_has_no_power_and_says_so(policy: Path, tmp_path: Path) -> None:
    """A thousandth of a minute is over before a question is tried: that is a doubt, and the page is written."""
    page = tmp_path / "audit.html"
    ran = CliRunner().invoke(main, ["audit", str(policy), "--minutes", "0.001", "--html", str(page)])
    assert ran.exit_code == 1, ran.output
    assert "nothing was tested" in ran.output
    assert "time ran out before" in ran.output
    assert "half the noise" in ran.output
    assert "An audit of clinic" in page.read_text()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["audit.html", "clinic.toml"]


def test_programs_read_json(policy: Path) -> None:
    ran = CliRunner().invoke(main, ["audit", str(policy), "--minutes", "0.001", "--json"])
    assert ran.exit_code == 1, ran.output
    told = json.loads(ran.stdout)
    assert (told["policy"], told["holds"]) == ("clinic", False)
    assert told["faults"][0] == {**told["faults"][0], "name": "half the noise", "caught": True}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--minutes", "0"], 2, "minutes"),
        (["--minutes", "soon"], 2, "minutes"),
        (["--questions", "none.sql"], 1, "the file of questions cannot be read"),
        (["--html", "clinic.toml"], 2, "clinic.toml"),
        (["--nothing"], 2, "No such option"),
    ],
)
def test_what_makes_no_sense_is_refused(policy: Path, arguments: list[str], code: int, words: str) -> None:
    given = [str(policy.parent / each) if "." in each and each.endswith("l") else each for each in arguments]
    ran = CliRunner().invoke(main, ["audit", str(policy), *given])
    assert ran.exit_code == code, ran.output
    assert words in ran.output
    assert policy.read_text() == POLICY


def test_no_policy_is_refused(tmp_path: Path) -> None:
    assert CliRunner().invoke(main, ["audit", str(tmp_path / "none.toml")]).exit_code == 1


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_policy_of_the_demo_is_audited_without_a_doubt() -> None:
    """Two minutes on two processors that do nothing else."""
    from sfumato import data

    path = Path(data.__file__).with_name("flights.toml")
    ran = CliRunner().invoke(main, ["audit", str(path)])
    assert ran.exit_code == 0, ran.output
    assert "No violation was found" in ran.output
