"""``sfumato budget``, ``history`` and ``ledger``: what is left, what was asked, the file itself."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path

import pyarrow.ipc
import pytest

import sfumato as sf
from cli.running import COUNTS, run, spent


@pytest.fixture
def asked(policy: Path) -> Path:
    """With one question asked."""
    assert run("query", policy, COUNTS, "--epsilon", "0.5", "--analyst", "ana").exit_code == 0
    return policy


def test_a_budget_before_anything_is_asked_opens_nothing(policy: Path) -> None:
    done = run("budget", policy)
    assert done.exit_code == 0
    assert "budget left for ordinary answers: ε = 3 of 3" in done.stdout
    assert not (policy.parent / "sfumato.ledger").exists()


def test_a_budget_falls_and_says_what_would_be_accepted(asked: Path) -> None:
    found = json.loads(run("budget", asked, "--json").stdout)
    assert (found["allowed"]["pure"], found["spent"]["pure"], found["left"]["pure"]) == ("3", "0.5", "2.5")
    assert found["largest"]["Laplace"] == 2.5
    assert 0 < found["largest"]["Gaussian"] < 3
    rows = [line.split() for line in run("budget", asked, "--details").stdout.splitlines()]
    assert ["pure", "3", "0.5", "2.5"] in rows


@pytest.mark.parametrize("whose", [(), ("--analyst", "ana")])
def test_a_budget_over_time_is_drawn_without_data(asked: Path, whose: tuple[str, ...]) -> None:
    asked.with_name("flights.csv").unlink(missing_ok=True)
    picture = asked.with_name("budget.svg")
    done = run("budget", asked, *whose, "--plot", picture)
    assert done.exit_code == 0, done.stderr
    drawn = picture.read_text()
    assert "Budget over time" in drawn
    assert "1 charge" in drawn
    assert f"ordinary answers {'33' if whose else '17'} %" in drawn
    assert run("budget", asked, "--plot", asked.with_name("budget.pdf")).exit_code == 2


def test_the_largest_release_is_accepted_and_nothing_larger(asked: Path) -> None:
    most = json.loads(run("budget", asked, "--json").stdout)["largest"]["Laplace"]
    assert run("query", asked, COUNTS, "--fresh", "--epsilon", str(most + 0.01)).exit_code == 3
    assert run("query", asked, COUNTS, "--fresh", "--epsilon", str(most)).exit_code == 0


def test_a_share_is_a_part_of_every_allowance_and_never_more_than_is_left(asked: Path) -> None:
    mine = json.loads(run("budget", asked, "--analyst", "ana", "--json").stdout)
    assert (mine["allowed"]["pure"], mine["left"]["pure"]) == ("1.5", "1")
    assert mine["largest"]["Laplace"] == 1
    assert run("query", asked, COUNTS, "--fresh", "--epsilon", "2.25").exit_code == 0
    assert json.loads(run("budget", asked, "--analyst", "ana", "--json").stdout)["largest"]["Laplace"] == 0.25
    assert run("budget", asked, "--analyst", "nobody").exit_code == 2


def test_a_closed_currency_is_said_to_be_closed(policy: Path) -> None:
    assert run("query", policy, COUNTS, "--rho", "0.05", "--mechanism", "gaussian").exit_code == 0
    rows = {
        line.split()[0]: line.split() for line in run("budget", policy, "--details").stdout.splitlines() if line.strip()
    }
    assert rows["pure"] == ["pure", "3", "unbounded", "closed"]


def test_a_budget_is_amended_for_a_reason_and_goes_on(asked: Path) -> None:
    asked.write_text(asked.read_text().replace("epsilon = 3.0", "epsilon = 4.0"))
    refused = run("query", asked, COUNTS, "--fresh", "--epsilon", "0.1")
    assert refused.exit_code == 1
    assert "sfumato budget amend" in refused.stderr
    assert run("budget", "amend", asked).exit_code == 2
    assert run("budget", "amend", asked, "--reason", " ").exit_code == 2
    done = run("budget", "amend", asked, "--reason", "a second year")
    assert done.exit_code == 0, done.stderr
    assert run("query", asked, COUNTS, "--fresh", "--epsilon", "3.5").exit_code == 0
    assert spent(asked) == 4
    assert "a second year" in run("history", asked).stdout


def test_a_unit_is_never_amended(asked: Path) -> None:
    asked.write_text(asked.read_text().replace('name = "plane"', 'name = "flight"'))
    done = run("budget", "amend", asked, "--reason", "weaker")
    assert done.exit_code == 1
    assert "only its budget can be changed" in done.stderr


def test_nothing_to_amend(policy: Path) -> None:
    assert run("budget", "amend", policy, "--reason", "why not").exit_code == 2
    assert not (policy.parent / "sfumato.ledger").exists()


def test_history_tells_who_asked_what_at_what_cost(asked: Path) -> None:
    lines = json.loads(run("history", asked, "--json").stdout)
    assert [line["kind"] for line in lines] == ["account-open", "source", "share", "charge", "answer"]
    charge = lines[3]
    assert (charge["analyst"], charge["question"], charge["cost"]["pure"]) == ("ana", COUNTS, "0.5")
    shown = run("history", asked).stdout
    assert COUNTS in shown
    assert "answer to 4" in shown
    assert [line["kind"] for line in json.loads(run("history", asked, "--analyst", "bob", "--json").stdout)] == []


def test_history_shows_no_answers_and_folds_lines(policy: Path) -> None:
    run("query", policy, COUNTS.replace(" ", "\n"), "--epsilon", "0.5")
    assert COUNTS in run("history", policy).stdout


def test_history_before_anything_is_asked(policy: Path) -> None:
    assert run("history", policy).stdout == "Nothing has been asked yet.\n"
    assert run("history", policy, "--json").stdout == "[]\n"
    assert not (policy.parent / "sfumato.ledger").exists()


def test_budget_and_history_need_no_data(asked: Path) -> None:
    asked.with_name("flights.parquet").unlink()
    assert run("budget", asked).exit_code == 0
    assert run("history", asked).exit_code == 0


def test_a_whole_ledger_verifies_and_a_damaged_one_is_named(asked: Path) -> None:
    ledger = asked.parent / "sfumato.ledger"
    good = run("ledger", "verify", ledger)
    assert good.exit_code == 0
    assert good.stdout == "5 lines, all as they were written\n"
    assert run("ledger", "verify", ledger, "--resume").stdout == good.stdout  # nothing was interrupted
    with sqlite3.connect(ledger) as connection:
        for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        (table,) = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%question%'")
        connection.execute(f"UPDATE {table[0]} SET question = 'SELECT 1' WHERE number = 4")
    connection.close()
    bad = run("ledger", "verify", ledger)
    assert bad.exit_code == 5
    assert "line 4" in bad.stderr
    assert run("query", asked, COUNTS, "--fresh", "--epsilon", "0.1").exit_code == 5


def test_a_ledger_is_exported_in_every_form(asked: Path, tmp_path: Path) -> None:
    ledger = asked.parent / "sfumato.ledger"
    for form in ("json", "csv", "arrow"):
        out = tmp_path / f"lines.{form}"
        assert run("ledger", "export", ledger, out, "--format", form).exit_code == 0
        assert run("ledger", "export", ledger, out, "--format", form).exit_code == 5, "never overwritten"
    assert len(json.loads((tmp_path / "lines.json").read_text())) == 5
    with (tmp_path / "lines.csv").open() as file:
        assert [row["kind"] for row in csv.DictReader(file)][3] == "charge"
    with pyarrow.ipc.open_file(tmp_path / "lines.arrow") as reader:
        assert reader.read_all()["question"][3].as_py() == COUNTS


def test_a_backup_is_a_ledger(asked: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.ledger"
    assert run("ledger", "backup", (asked.parent / "sfumato.ledger"), copy).exit_code == 0
    assert run("ledger", "verify", copy).exit_code == 0
    with sf.Ledger.open(copy) as ledger:
        assert float(ledger.account("flights").spent["pure"] or 0) == 0.5
    assert run("ledger", "backup", (asked.parent / "sfumato.ledger"), copy).exit_code == 5, "never overwritten"


def test_a_ledger_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    for verb in (["verify"], ["export", tmp_path / "o"], ["backup", tmp_path / "o"]):
        assert run("ledger", verb[0], tmp_path / "none.ledger", *verb[1:]).exit_code == 2
        assert run("ledger", verb[0], tmp_path, *verb[1:]).exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_the_budget_of_a_ledger_that_lost_lines_says_that_more_was_spent(asked: Path) -> None:
    """A restored copy has less spent than its anchor knows: what a charge is refused for is told beside the figures."""
    ledger = asked.parent / "sfumato.ledger"
    copy = ledger.read_bytes()
    assert run("query", asked, COUNTS, "--epsilon", "0.25", "--analyst", "ana", "--fresh").exit_code == 0
    ledger.write_bytes(copy)
    done = run("budget", asked)
    assert "kept outside the ledger. More was spent than this ledger shows" in done.stderr
    assert "ledger acknowledge" in done.stderr
    assert run("query", asked, COUNTS, "--epsilon", "0.25", "--analyst", "ana", "--fresh").exit_code != 0
