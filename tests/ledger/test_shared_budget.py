"""Two curators, and a server, on one ledger in a database: named in the policy or on the command line."""

from __future__ import annotations

import json
import os
import warnings
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

import sfumato as sf
from ledger.in_databases import SPENDER, Place
from ledger.small_accounts import NEVER_AGAIN, account, pure
from postgres_server import PostgresServer
from sfumato.cli import main
from sfumato.curator.policy_account import ledger_address, read_policy, users_path
from sfumato.errors import WeakLedger
from sfumato.server.activity_log import ActivityLog
from sfumato.server.served_policies import ServedPolicies
from sfumato.server.serving import route_ledger_warnings

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
    told = done("ledger", "copy", str(tmp_path / "backup"), target.owner, "--accept-loss")
    assert NEVER_AGAIN in told.replace("\n", " ")  # its ledger lives, and nothing has sealed it
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
    assert users_path(declared) == tmp_path / "one" / "sfumato.ledger"
    with ServedPolicies([file]) as served:
        assert served.ledger_path == (tmp_path / "one" / "sfumato.ledger").resolve()
        served.curator("clinic").sql(QUESTION).release(epsilon="0.5")
        assert [line.kind for line in served.ledger][-1] == "answer"


def test_what_is_weak_about_the_ledger_is_in_the_log_of_the_server(place: Place, tmp_path: Path) -> None:
    """A server that is connected as the owner of the ledger's schema is told so, in its log as well."""
    with warnings.catch_warnings(), closing(ActivityLog(str(tmp_path / "log"))) as log:
        route_ledger_warnings(log)
        ServedPolicies([policy(tmp_path / "one", place.owner)]).close()
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert "connect as a role made with `sfumato ledger init --spender`" in json.loads(line)["warning"]


def test_another_ledger_than_the_policy_names_is_warned_of(place: Place, tmp_path: Path) -> None:
    declared = read_policy(policy(tmp_path / "one", place.address))
    assert ledger_address(declared, place.owner) == place.owner  # the same one, as its owner
    for other in (tmp_path / "file", Place(place.server, "other").address):
        with pytest.warns(WeakLedger, match="not the one that the policy names"):
            assert ledger_address(declared, other) == other


@pytest.mark.parametrize("ledger", ["here.db", "mysql://host/db", 7])
def test_a_policy_names_a_database_or_nothing(tmp_path: Path, ledger: object) -> None:
    file = policy(tmp_path / "one", "x")
    written = f'"{ledger}"' if isinstance(ledger, str) else str(ledger)
    file.write_text(file.read_text().replace('"x"', written, 1))
    with pytest.raises(sf.InvalidPolicy, match="must be a PostgreSQL database"):
        sf.open(file)


# ── a ledger that was rolled back ──────────────────────────────────────────────────────────────


@pytest.fixture(params=["a file", "a database"])
def rolled_back(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A policy, and its ledger, which has lost the last of two charges; an anchor knows it."""
    if request.param == "a file":
        file, ledger = policy(tmp_path / "one", ""), str(tmp_path / "one" / "sfumato.ledger")
    else:
        place = Place.make(request.getfixturevalue("postgres"))
        file, ledger = policy(tmp_path / "one", place.address), place.address
    with sf.open(file) as curator:
        curator.sql(QUESTION).release(epsilon="0.1")
        curator.ledger.backup(tmp_path / "backup")
        last = curator.ledger.head[0]
        curator.sql(QUESTION).release(epsilon="0.4", fresh=True)
    if request.param == "a file":
        os.replace(tmp_path / "backup", ledger)
    else:
        place.edit(f"DELETE FROM lines WHERE number > {last}")
    return str(file), ledger


def test_who_reads_a_ledger_that_was_rolled_back_is_told_and_acknowledges_by_a_command(
    rolled_back: tuple[str, str], tmp_path: Path
) -> None:
    file, ledger = rolled_back
    run = CliRunner()
    for command in (["budget", file], ["history", file], ["ledger", "export", ledger, str(tmp_path / "lines")]):
        told = run.invoke(main, command)
        assert told.exit_code == 0
        assert "of this ledger is missing or was changed" in told.stderr
        assert "sfumato ledger acknowledge" in told.stderr
    assert "ε = 0.9 of 1" in run.invoke(main, ["budget", file]).stdout
    refused = run.invoke(main, ["query", file, QUESTION, "--epsilon", "0.2"])
    assert refused.exit_code == 5
    assert "sfumato ledger acknowledge FILE --reason" in refused.stderr.replace("\n", " ")

    acknowledge = ["ledger", "acknowledge", ledger, "--reason", "failover"]
    for answer in ("n\n", ""):
        declined = run.invoke(main, acknowledge, input=answer)
        assert declined.exit_code == 1
        assert "is lost" in declined.stdout
    assert run.invoke(main, [*acknowledge[:3], "--yes"]).exit_code == 2  # without a reason
    assert run.invoke(main, [*acknowledge[:3], "--reason", "", "--yes"], input="").exit_code == 2
    assert "ε = 0.9 of 1" in run.invoke(main, ["budget", file]).stdout
    done = run.invoke(main, acknowledge, input="y\n")
    assert done.exit_code == 0, done.output
    assert "acknowledged: line" in done.stdout
    found = run.invoke(main, ["budget", file])
    assert not found.stderr
    with sf.Ledger.open(ledger) as opened:
        spent = opened.account(opened.accounts[0]).spent["pure"]
        assert spent is not None
        assert spent >= Fraction(1, 2)
        assert [line.question for line in opened if line.kind == "acknowledge"][-1] == "failover"
        assert opened.verify().holds
    again = run.invoke(main, [*acknowledge, "--yes"])
    assert again.exit_code == 0
    assert "nothing to acknowledge" in again.stdout


def test_an_anchor_that_was_kept_elsewhere_is_acknowledged_by_a_command(tmp_path: Path) -> None:
    with sf.Ledger.open(tmp_path / "a") as ledger:
        account(ledger).charge(pure("0.4"))
        ledger.anchor().save(tmp_path / "anchor")
    for path in tmp_path.glob("a*"):
        if path.name != "anchor":
            path.unlink()
    with sf.Ledger.open(tmp_path / "a") as ledger:
        account(ledger).charge(pure("0.1"))
    run, words = CliRunner(), ["ledger", "acknowledge", str(tmp_path / "a"), "--reason", "lost", "--yes"]
    assert "nothing to acknowledge" in run.invoke(main, words).stdout
    done = run.invoke(main, [*words, "--anchor", str(tmp_path / "anchor")])
    assert done.exit_code == 0, done.output
    with sf.Ledger.open(tmp_path / "a") as ledger:
        assert account(ledger).spent["pure"] == Fraction(1, 2)
    missing = run.invoke(main, [*words, "--anchor", str(tmp_path / "none")])
    assert missing.exit_code == 5
