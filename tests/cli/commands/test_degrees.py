"""``sfumato degrees``: what it prints, what it spends, how it refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli.running import run, spent
from sfumato.curator import Degrees

GRAPHS = Path(__file__).parent.parent.parent / "data" / "graphs"
CLUB = """
[unit]
name = "tie"
budget = { epsilon = 3.0 }

[tables.ties]
source = "karate.csv"
id = "row"
columns = { source = { type = "integer", bounds = [0, 33] }, target = { type = "integer", bounds = [0, 33] } }
"""


@pytest.fixture
def club(tmp_path: Path) -> Path:
    shutil.copy(GRAPHS / "karate.edges.csv", tmp_path / "karate.csv")
    policy = tmp_path / "club.toml"
    policy.write_text(CLUB)
    return policy


def test_a_histogram_is_bought_once_and_shown_again(club: Path) -> None:
    explained = run("degrees", club, "ties", "source", "target", "--epsilon", "1", "--explain")
    assert "at most 4 in total" in explained.stdout
    assert spent(club) == 0
    asked = ("degrees", club, "ties", "source", "target", "--most", "3", "--epsilon", "1")
    done = run(*asked)
    assert done.exit_code == 0, done.stderr
    header, _, *rows = done.stdout.splitlines()
    assert header.split() == ["edges", "nodes"]
    assert [row.split()[0] for row in rows[:4]] == ["0", "1", "2", "3"]
    assert "3 or more" in rows[3]
    assert all("± 12" in row for row in rows[:4])
    again = Degrees.from_json(run(*asked, "--json").stdout)
    assert [str(count) in row for count, row in zip(again.counts, rows, strict=False)] == [True] * 4
    assert spent(club) == 1


def test_what_is_no_end_of_an_edge_is_refused(club: Path) -> None:
    refused = run("degrees", club, "ties", "origin", "--epsilon", "1")
    assert refused.exit_code == 2
    assert "one or two columns of ties" in refused.stderr
    assert spent(club) == 0
