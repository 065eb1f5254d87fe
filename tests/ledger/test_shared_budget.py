"""Two curators, and a server, on one ledger in a database: named in the policy or on the command line."""

from __future__ import annotations

import json
import warnings
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import sfumato as sf
from ledger.in_databases import SPENDER, Place
from postgres_server import PostgresServer
from sfumato.cli import main
from sfumato.curator.accounts.policy_account import ledger_address, people_place, read_policy
from sfumato.errors import WeakLedger
from sfumato.server.activity_log import ActivityLog
from sfumato.server.served import Served
from sfumato.server.serving import show_warnings

QUESTION = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture
def place(postgres: PostgresServer) -> Place:
    return Place.make(postgres)


def policy(folder: Path, ledger: str) -> Path:
    """A policy with a table of its own in a folder of its own."""
    folder.mkdir()
    (folder / "visits.csv").write_text("patient,cost\n1,2\n3,4\n")
    named = f'ledger = "{ledger}"\n' if ledger else ""
    (folder / "clinic.toml").write_text(
        f'{named}[unit]\nname = "patient"\nbudget = {{ epsilon = 1 }}\n'
        '[tables.visits]\nsource = "visits.csv"\nid = "patient"\nmax_rows = 2\n'
        '[tables.visits.columns]\ncost = { type = "integer", bounds = [0, 9] }\n'
    )
    return folder / "clinic.toml"


def test_two_curators_spend_one_budget(place: Place, tmp_path: Path) -> None:
    """Each in its own folder, as on two machines: what one has bought is free for the other, and spent for both."""
    one, two = (policy(tmp_path / name, place.address) for name in ("one", "two"))
    with sf.open(one) as here, sf.open(two) as there:
        here.sql(QUESTION).release(epsilon="0.6", fresh=True)
        with pytest.raises(sf.Overspent):
            there.sql(QUESTION).release(epsilon="0.6", fresh=True)
        there.sql(QUESTION).release(epsilon="0.4", fresh=True)
        assert here.budget.remaining == {"pure": 0}
        assert here.ledger.verify().holds
    assert not (tmp_path / "one" / "sfumato.ledger").exists()


def test_commands_take_the_address(place: Place, tmp_path: Path) -> None:
    file = policy(tmp_path / "one", "")
    run = CliRunner()

    def done(*arguments: str) -> str:
        found = run.invoke(main, list(arguments))
        assert found.exit_code == 0, found.output
        return found.output

    done("query", str(file), QUESTION, "--epsilon", "0.25", "--ledger", place.address)
    assert "ε = 0.75 of 1" in done("budget", str(file), "--ledger", place.address)
    assert "account-open" in done("history", str(file), "--ledger", place.address)
    assert "as they were written" in done("ledger", "verify", place.address)
    done("ledger", "backup", place.address, str(tmp_path / "backup"))
    done("ledger", "export", place.address, str(tmp_path / "lines.json"))
    target = Place(place.server, "from_commands")
    done("ledger", "init", target.owner, "--spender", SPENDER)
    assert run.invoke(main, ["ledger", "copy", str(tmp_path / "backup"), target.owner]).exit_code == 5
    done("ledger", "copy", str(tmp_path / "backup"), target.owner, "--accept-loss")
    assert "as they were written" in done("ledger", "verify", target.address)
    refused = run.invoke(main, ["ledger", "verify", "postgresql://ana:hunter2@host/db"])
    assert refused.exit_code == 2
    assert "hunter2" not in refused.output
    refused = run.invoke(main, ["query", str(file), QUESTION, "--epsilon", "0.1", "--ledger", str(tmp_path / "backup")])
    assert "was moved to" in refused.output
    assert refused.exit_code == 5


def test_a_server_keeps_its_people_on_its_own_machine(place: Place, tmp_path: Path) -> None:
    file = policy(tmp_path / "one", place.address)
    declared = read_policy(file)
    assert ledger_address(declared) == place.address
    assert people_place(declared) == tmp_path / "one" / "sfumato.ledger"
    with Served([file]) as served:
        assert served.ledger_path == (tmp_path / "one" / "sfumato.ledger").resolve()
        served.curator("clinic").sql(QUESTION).release(epsilon="0.5")
        assert [line.kind for line in served.ledger][-1] == "answer"


def test_what_is_weak_about_the_ledger_is_in_the_log_of_the_server(place: Place, tmp_path: Path) -> None:
    """A server that is connected as the owner of the ledger's schema is told so, in its log as well."""
    with warnings.catch_warnings(), closing(ActivityLog(str(tmp_path / "log"))) as log:
        show_warnings(log)
        Served([policy(tmp_path / "one", place.owner)]).close()
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert "connect as a spender" in json.loads(line)["warning"]


def test_another_ledger_than_the_policy_names_is_warned_of(place: Place, tmp_path: Path) -> None:
    declared = read_policy(policy(tmp_path / "one", place.address))
    assert ledger_address(declared, place.owner) == place.owner  # the same one, as its owner
    for other in (tmp_path / "file", Place(place.server, "other").address):
        with pytest.warns(WeakLedger, match="names another ledger"):
            assert ledger_address(declared, other) == other


@pytest.mark.parametrize("ledger", ["here.db", "mysql://host/db", 7])
def test_a_policy_names_a_database_or_nothing(tmp_path: Path, ledger: object) -> None:
    file = policy(tmp_path / "one", "x")
    written = f'"{ledger}"' if isinstance(ledger, str) else str(ledger)
    file.write_text(file.read_text().replace('"x"', written, 1))
    with pytest.raises(sf.InvalidPolicy, match="kept in a database"):
        sf.open(file)
