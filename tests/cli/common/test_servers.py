"""Commands that ask a server in place of files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.running import run
from client.curators import served_policy, serving

COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with serving(served_policy(tmp_path_factory.mktemp("policy"))) as found:
        yield found


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("SFUMATO_TOKEN", raising=False)
    return tmp_path / "sfumato" / "tokens.json"


def test_login_keeps_a_token_that_works_and_no_other(at: tuple[str, str], kept: Path) -> None:
    where, token = at
    done = run("login", where, given=f"{token}\n")
    assert (done.exit_code, done.stdout.splitlines()[1]) == (0, "policies on this server: clinic")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert token not in done.output
    assert run("login", where, given="wrong\n").exit_code == 1
    assert json.loads(kept.read_text()) == {where: token}
    assert run("login", where, "--forget").exit_code == 0
    assert json.loads(kept.read_text()) == {}
    assert run("query", "clinic", COUNT, "--epsilon", "1", "--server", where).exit_code == 1


def test_query_budget_and_history_ask_the_server(at: tuple[str, str], tmp_path: Path) -> None:
    where, token = at
    run("login", where, given=f"{token}\n")
    there = "--server", where
    forecast = run("query", "clinic", COUNT, "--epsilon", "0.5", "--dry-run", *there)
    assert "Nothing was spent" in forecast.stdout
    answer = run("query", "clinic", COUNT, "--epsilon", "0.5", "--json", *there)
    assert json.loads(answer.stdout)["receipt"]["share"] == "ana"
    limited = run("query", "clinic", COUNT, "--limit", "rows=1", "--within", "50", "--explain", *there)
    assert (limited.exit_code, "≤ 1 row," in limited.stdout) == (0, True), limited.stdout
    picture = tmp_path / "answer.svg"
    drawn = run(
        "query",
        "clinic",
        "SELECT region, COUNT(*) AS n FROM visits GROUP BY region",
        "--epsilon",
        "0.5",
        "--plot",
        picture,
        *there,
    )
    assert drawn.exit_code == 0
    assert "north" in picture.read_text()
    assert "region" in run("query", "clinic", "DESCRIBE visits", *there).stdout
    questions = tmp_path / "questions.sql"
    questions.write_text(f"{COUNT} WHERE age > 1; {COUNT} WHERE age > 2")
    assert "q2" in run("query", "clinic", "--file", questions, "--epsilon", "0.1", *there).stdout
    assert "budget left for ordinary answers" in run("budget", "clinic", *there).stdout
    assert json.loads(run("budget", "clinic", "--json", *there).stdout)["kind"].startswith("standing/")
    asked = [each["question"] for each in json.loads(run("history", "clinic", "--json", *there).stdout)]
    assert COUNT in asked
    assert "charge" in run("history", "clinic", *there).stdout


def test_what_is_about_files_is_refused(at: tuple[str, str]) -> None:
    for more in (("--analyst", "ana"), ("--ledger", "x")):
        done = run("budget", "clinic", "--server", at[0], *more)
        assert (done.exit_code, "the token identifies the analyst" in done.output) == (2, True)
    assert run("budget", "clinic", "--server", "http://example.org").exit_code == 2
    assert run("login", "http://example.org", given="x\n").exit_code == 2


def test_refusals_end_a_command_as_they_do_without_a_server(
    at: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFUMATO_TOKEN", at[1])
    there = "--server", at[0]
    assert run("query", "clinic", "SELECT * FROM visits", "--epsilon", "1", *there).exit_code == 1
    assert run("query", "clinic", COUNT, "--epsilon", "-1", *there).exit_code == 2
    assert run("query", "school", COUNT, "--epsilon", "1", *there).exit_code == 2
    assert run("budget", "clinic", "--server", "http://127.0.0.1:9").exit_code == 75
