"""Streams that are closed or full, colours that nobody wants, faults of our own: no traceback, an exit code, a fix."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import COUNTS, run, spent
from forked_commands import run_forked
from sfumato.cli import main
from sfumato.cli.common.exit_codes import INTERNAL, UNWRITTEN

QUERY = ("--epsilon", "0.5", "--csv")


_LOST = "could not be written"


def _shell(redirected: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A real process whose streams the shell redirects."""
    words = [sys.executable, "-m", "sfumato", *map(str, arguments)]
    return subprocess.run(["sh", "-c", f'"$@" {redirected}', "sh", *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("redirected", ["> /dev/full", pytest.param(">&-", marks=pytest.mark.long)])
def test_a_lost_answer_is_said_to_be_stored(policy: Path, redirected: str) -> None:
    done = _shell(redirected, "query", policy, COUNTS, *QUERY)
    assert done.returncode == UNWRITTEN
    assert "stored, and free" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "Exception ignored" not in done.stdout + done.stderr
    assert spent(policy) == 0.5
    again = run("query", policy, COUNTS, *QUERY)
    assert again.exit_code == 0
    assert spent(policy) == 0.5


def _nobody_reads(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A real process that writes into a pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        words = [sys.executable, "-m", "sfumato", *map(str, arguments)]
        return subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)


def test_an_answer_that_nobody_reads_is_stored(policy: Path) -> None:
    done = _nobody_reads("query", policy, COUNTS, *QUERY)
    assert done.returncode == UNWRITTEN
    assert _LOST not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert spent(policy) == 0.5
    assert run("query", policy, COUNTS, *QUERY).exit_code == 0
    assert spent(policy) == 0.5


LONG_WORDS = [pytest.param(each, marks=pytest.mark.long) for each in (("--version",), ("query", "--help"))]


@pytest.mark.parametrize("words", [("--help",), ("history", "{policy}"), *LONG_WORDS])
def test_every_command_that_nobody_reads_ends_alike(policy: Path, words: tuple[str, ...]) -> None:
    done = _nobody_reads(*(word.format(policy=policy) for word in words))
    assert (done.returncode, done.stderr) == (UNWRITTEN, "")


def test_a_refusal_keeps_its_exit_code_where_nobody_reads(policy: Path) -> None:
    assert _nobody_reads("query", policy, COUNTS, "--epsilon", "9").returncode == 3


@pytest.mark.parametrize(
    "redirected",
    [
        *(">&- 2>&-", "> /dev/full 2> /dev/full"),
        *(pytest.param(each, marks=pytest.mark.long) for each in ("2>&-", "2> /dev/full")),
    ],
)
def test_closed_and_full_streams_are_no_traceback(policy: Path, redirected: str, long: bool) -> None:
    """Of an answer and of a refusal, each in one way; in the long run of a help too, and of each in all."""
    answer, refusal = ("query", policy, COUNTS, *QUERY), ("query", policy, COUNTS, "--epsilon", "9")
    few = [answer] if redirected == ">&- 2>&-" else [refusal]
    for arguments in [answer, refusal, ("--help",)] if long else few:
        done = _shell(redirected, *arguments)
        assert "Traceback" not in done.stdout + done.stderr
        assert "Exception ignored" not in done.stdout + done.stderr
        assert done.returncode in (0, 3, UNWRITTEN)


def test_a_reader_that_has_seen_enough_is_no_fault(policy: Path, long: bool) -> None:
    """An answer's reader is gone before it begins in the test above."""
    for words in (*([("query", policy, COUNTS, *QUERY)] if long else []), ("docs", "policy")):
        done = _shell("| head -c 1", *words)
        assert _LOST not in done.stderr
        assert "Traceback" not in done.stderr


def test_what_the_parser_does_not_know_is_not_logged(policy: Path) -> None:
    done = run_forked("query", policy, "VACUUM patient_number_17", *QUERY)
    assert done.returncode == 1
    assert "patient_number_17" not in done.stderr
    assert "Falling back" not in done.stderr


def test_faults_of_our_own_have_an_exit_code_and_no_text_of_theirs(
    policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a private value")

    monkeypatch.setattr("sfumato.curator.Curator.sql", broken)
    done = run("query", policy, COUNTS, *QUERY)
    assert done.exit_code == INTERNAL
    assert "ZeroDivisionError" in done.stderr
    assert "private value" not in done.stderr
    assert "fix:" in done.stderr


def test_no_color_is_obeyed(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    for wanted, coloured in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", wanted)
        done = CliRunner().invoke(main, ["query", str(policy), COUNTS, "--epsilon", "9"], color=True)
        assert ("\x1b[" in done.stderr) is coloured


def test_the_help_of_budget_shows_every_option_that_works() -> None:
    found = run("budget", "--help").output
    for option in ("--analyst", "--ledger", "--json", "amend"):
        assert option in found, option


def test_the_tour_ends_with_the_line_that_makes_the_command_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from sfumato.cli.commands.demo import _print_next_steps

    (tmp_path / "bin").mkdir()
    activate = tmp_path / "bin" / "activate"
    activate.touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    _print_next_steps(None)
    assert f". {activate}" in capsys.readouterr().out
    command = tmp_path / "bin" / "sfumato"
    command.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    _print_next_steps(None)
    assert "activate" not in capsys.readouterr().out


def test_the_command_beside_the_demo_runs_where_it_is_called(tmp_path: Path) -> None:
    """Relative paths are the caller's, and what setting up says stays out of the answer."""
    checkout = tmp_path / "checkout"
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / "scripts").mkdir()
    script = Path(__file__).parent.parent.parent / "sfumato"
    (checkout / "sfumato").write_text(script.read_text())
    (checkout / "scripts" / "setup.sh").write_text("set_up() { echo setting up $1; }\n")
    (checkout / ".venv" / "bin" / "sfumato").write_text('#!/bin/sh\necho "$PWD" "$@"\n')
    for name in ("sfumato", ".venv/bin/sfumato"):
        (checkout / name).chmod(0o755)
    done = subprocess.run(
        ["checkout/sfumato", "query", "a b"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{tmp_path} query a b\n"
    assert done.stderr == "setting up demo\n"
