"""``sfumato describe``: what there is to ask, from the policy alone."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from click.testing import CliRunner

import sfumato as sf
from sfumato.cli import main


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, list(arguments))
    return done.exit_code, done.output


def test_the_whole_policy_and_one_table(tmp_path: Path) -> None:
    path = sf.example(tmp_path / "flights")
    code, whole = run("describe", str(path))
    assert code == 0, whole
    assert "airlines: public" in whole
    assert "origin    text: EWR, JFK, LGA" in whole
    code, one = run("describe", str(path), "FLIGHTS")
    assert code == 0
    assert "airlines" not in one
    assert "SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin" in one


def test_it_needs_neither_the_data_nor_a_ledger(tmp_path: Path) -> None:
    path = sf.example(tmp_path / "flights")
    for name in os.listdir(path.parent):
        if name != path.name:
            (path.parent / name).unlink()
    code, said = run("describe", str(path))
    assert code == 0, said
    assert os.listdir(path.parent) == [path.name]


def test_the_line_to_copy_runs(tmp_path: Path) -> None:
    path = sf.example(tmp_path / "my flights")
    _, said = run("describe", str(path))
    line = said.strip().splitlines()[-1]
    command, *arguments = shlex.split(line)
    assert command == "sfumato"
    code, told = run(*arguments)
    assert code == 0, told
    assert "Nothing was spent" in told


def test_mistakes(tmp_path: Path) -> None:
    path = sf.example(tmp_path / "flights")
    code, said = run("describe", str(path), "flight")
    assert code == 1
    assert "did you mean flights?" in said
    assert run("describe")[0] == 2
    assert run("describe", str(tmp_path / "none.toml"))[0] == 1
    assert "no data, no ledger" in run("describe", "--help")[1]
