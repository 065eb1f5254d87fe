"""Free work counts by what it takes to answer, known before it is done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato as sf
from server.running_server import write_club
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.server.releases.running_releases import GROUPS, proposal_cost_in_questions

PERIODS = 400
TICKS = f"""
[unit]
name = "person"
budget = {{ epsilon = 10 }}

[tables.ticks]
source = "ticks.csv"
id = "person"
max_rows = 2
columns = {{ tick = {{ type = "integer", bounds = [1, {PERIODS}] }} }}
"""


@pytest.fixture
def ticks(tmp_path: Path) -> Iterator[sf.Curator]:
    (tmp_path / "ticks.csv").write_text("person,tick\na,1\nb,2\n")
    (tmp_path / "ticks.toml").write_text(TICKS)
    with sf.Curator(tmp_path / "ticks.toml") as curator:
        yield curator


@pytest.mark.parametrize("act", ["explain", "error", "price", "preview"])
def test_running_totals_count_by_the_pairs_of_their_periods(ticks: sf.Curator, act: str) -> None:
    proposal = ticks.running("SELECT tick, COUNT(*) AS n FROM ticks GROUP BY tick")
    alone = ticks.sql("SELECT tick, COUNT(*) AS n FROM ticks GROUP BY tick")
    counted, plain = (
        proposal_cost_in_questions(each, act, {"epsilon": 1}, per_second=1000) for each in (proposal, alone)
    )
    assert counted - plain == int(3e-6 * PERIODS**2 * 1000) == 480
    assert proposal_cost_in_questions(proposal, "propose", {}, per_second=1000) == 0


def test_degrees_count_by_their_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert GROUPS > 35
    monkeypatch.setattr("sfumato.server.releases.running_releases.GROUPS", 5)
    with sf.Curator(write_club(tmp_path)) as curator:
        proposal = curator.degrees("ties", ["source", "target"])
        nodes = len(proposal.question.groups)
        assert proposal_cost_in_questions(proposal, "explain", {"epsilon": 1}, per_second=10) == nodes // 5 > 0


TRIAL = """
[unit]
name = "person"
budget = {{ epsilon = 10 }}

[tables.trial]
source = "trial.csv"
id = "person"
max_rows = 1
columns = {{ arm = {{ values = {arms} }}, cured = {{ values = ["no", "yes"] }} }}
"""


@pytest.mark.parametrize("arms", [2, 240])
def test_power_counts_by_the_groups_that_are_simulated(tmp_path: Path, arms: int) -> None:
    (tmp_path / "trial.csv").write_text("person,arm,cured\na,g1,no\n")
    (tmp_path / "trial.toml").write_text(TRIAL.format(arms=[f"g{each}" for each in range(arms)]))
    with sf.Curator(tmp_path / "trial.toml") as curator:
        question = "SELECT arm, cured, COUNT(*) AS n FROM trial GROUP BY arm, cured"
        proposal = curator.test("trend", question, outcome="yes")
        if arms == 2:
            assert proposal_cost_in_questions(proposal, "power", {}, per_second=1000) == 700
        else:
            with pytest.raises(Unsupported, match=r"forecasts of power for at most 10 s.* about 24.5 s"):
                proposal_cost_in_questions(proposal, "power", {}, per_second=1000)


@pytest.mark.parametrize(("units", "questions"), [(100, 551), (10**8, 1550)])
def test_power_of_a_share_counts_by_the_root_of_its_units(units: int, questions: int, tmp_path: Path) -> None:
    (tmp_path / "trial.csv").write_text("person,arm,cured\na,g1,no\n")
    (tmp_path / "trial.toml").write_text(TRIAL.format(arms=["g1", "g2"]))
    with sf.Curator(tmp_path / "trial.toml") as curator:
        proposal = curator.test("share", "SELECT COUNT(*) AS n FROM trial", of=units)
        assert proposal_cost_in_questions(proposal, "power", {}, per_second=1000) == questions
        with pytest.raises(InvalidParameter, match="at most 1,000,000,000"):
            curator.test("share", "SELECT COUNT(*) AS n FROM trial", of=10**10).power(1, shares=[0.6])
