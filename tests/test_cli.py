from __future__ import annotations

from click.testing import CliRunner

from sfumato.cli import main
from sfumato.cli.demo import bar


def test_the_demo_runs_and_tells_its_story() -> None:
    done = CliRunner().invoke(main, ["demo"])
    assert done.exit_code == 0, done.output
    for phrase in ("δ = 0.2212", "becomes at most", "certified: 0.9398", "parameters fixed in advance", "10 releases"):
        assert phrase in done.output
    assert max(len(line) for line in done.output.splitlines()) <= 120


def test_help_is_enough() -> None:
    done = CliRunner().invoke(main, ["--help"])
    assert done.exit_code == 0
    assert "demo" in done.output
    assert CliRunner().invoke(main, ["--version"]).output.startswith("sfumato, version ")


def test_bars_are_proportional() -> None:
    assert bar(1, 1, 8) == "█" * 8
    assert bar(0.5, 1, 8) == "█" * 4
    assert bar(1 / 16, 1, 2) == "▏"
    assert bar(0, 1) == ""
