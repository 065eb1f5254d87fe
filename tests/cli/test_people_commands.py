"""Owners add users and make tokens from the command line, beside the ledger."""

from __future__ import annotations

import json
import re
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from cli.running import run
from sfumato.server.people.people_file import open_people_file
from sfumato.server.people.users import Credentials


@pytest.fixture
def here(policy: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a policy, in which commands run."""
    monkeypatch.chdir(policy.parent)
    return policy.parent


@pytest.mark.usefixtures("here")
def test_a_user_is_added_disabled_and_let_in_again() -> None:
    assert run("user", "list").stdout == "There are no users yet.\n"
    assert run("user", "add", "ana").stdout == "added: ana, analyst\n"
    assert run("user", "add", "otto", "--role", "auditor").exit_code == 0
    assert run("user", "add", "ana").exit_code == 2
    assert run("user", "disable", "ana").stdout == "disabled: ana\n"
    said = json.loads(run("user", "list", "--json").stdout)
    assert [(each["name"], each["role"], each["disabled"]) for each in said] == [
        ("ana", "analyst", True),
        ("otto", "auditor", False),
    ]
    assert "disabled" in run("user", "list").stdout
    assert run("user", "enable", "ana").stdout == "enabled: ana\n"
    assert run("user", "enable", "nobody").exit_code == 2
    assert run("user", "disable", "nobody").exit_code == 2
    with open_people_file() as people:
        assert [each.act for each in people.acts()] == ["user added", "user added", "user disabled", "user enabled"]
        assert all(each.by.endswith("(command line)") for each in people.acts())


@pytest.mark.usefixtures("here")
def test_a_login_link_is_printed_for_a_user_who_may_log_in() -> None:
    run("user", "add", "olga", "--role", "owner")
    printed = run("user", "link", "olga", "--url", "https://numbers.example.org/").stdout
    assert re.fullmatch(r"https://numbers\.example\.org/login/[\w-]{43}\n", printed)
    assert run("user", "link", "olga").stdout.startswith("http://127.0.0.1:8765/login/")
    with open_people_file() as people:
        secret = printed.strip().rpartition("/")[2]
        assert people.sign_in(secret, timedelta(hours=1)) is not None
        assert people.sign_in(secret, timedelta(hours=1)) is None
    run("user", "add", "ana")
    run("user", "disable", "ana")
    assert run("user", "link", "ana").exit_code == 2
    assert run("user", "link", "nobody").exit_code == 2


def test_an_expired_token_is_listed_as_expired(here: Path) -> None:  # noqa: ARG001
    run("user", "add", "ana")
    with open_people_file() as people:
        people.new_token("ana", expires=timedelta(microseconds=1), by="tests")
    assert "expired" in run("token", "list").stdout


def test_a_token_is_printed_once_and_listed_without_its_text(here: Path) -> None:
    run("user", "add", "ana")
    made = run("token", "new", "ana", "--expires", "90d", "--most", "0.5", "--label", "tableau")
    text = made.stdout.strip()
    assert re.fullmatch(r"sfu_[\w-]{43}", text)
    assert "not shown again" in made.stderr
    with open_people_file() as people:
        found = people.authenticate(Credentials(token=text))
        assert found is not None
        assert found.user == "ana"
    listed = run("token", "list")
    assert text not in listed.stdout
    assert "tableau" in listed.stdout
    said = json.loads(run("token", "list", "--user", "ana", "--json").stdout)
    assert [(each["number"], each["most"], each["spent"]) for each in said] == [(1, "0.5", "0")]
    assert run("token", "revoke", "1").stdout == "revoked: token 1 of ana\n"
    with open_people_file() as people:
        assert people.authenticate(Credentials(token=text)) is None
    assert "revoked" in run("token", "list").stdout
    file = here / "sfumato.ledger.people"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "arguments",
    [
        ("new", "nobody"),
        ("new", "ana", "--expires", "soon"),
        ("new", "ana", "--expires", "0d"),
        ("new", "ana", "--most", "0"),
        ("new", "ana", "--most", "much"),
        ("new", "ana", "--label", "a\nb"),
        ("revoke", "7"),
    ],
)
def test_what_makes_no_sense_is_refused_and_makes_no_token(arguments: tuple[str, ...]) -> None:
    run("user", "add", "ana")
    assert run("token", arguments[0], *arguments[1:]).exit_code == 2
    assert run("token", "list").stdout == "There are no tokens yet.\n"


def test_another_ledger_has_people_of_its_own(here: Path) -> None:
    run("user", "add", "ana", "--ledger", here / "other.ledger")
    assert (here / "other.ledger.people").exists()
    assert run("user", "list").stdout == "There are no users yet.\n"


def test_where_there_is_no_policy_nobody_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("user", "add", "ana").exit_code == 5
    assert list(tmp_path.iterdir()) == []
