"""The scripts of ``sfumato completion`` are sourced by the shells they are for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import run

SECONDS = 120
PROGRAM = f"""#!{sys.executable}
import sys
from sfumato.cli import main
sys.argv[0] = "sfumato"
main()
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A path on which ``sfumato`` is a program, as after an installation."""
    program = tmp_path / "sfumato"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    sources = str(Path(__file__).parents[3] / "src")
    return {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": sources}


def completed(environment: dict[str, str], *lines: str) -> list[set[str]]:
    """What bash offers at the end of each line, after it sourced the script."""
    script = ['eval "$(sfumato completion bash)"']
    for line in lines:
        words = [*line.split(" ")]
        script.append(f"COMPREPLY=(); COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}")
        script.append('_sfumato_completion sfumato; echo "${COMPREPLY[*]} "')
    done = subprocess.run(
        ["bash", "--norc", "-c", "\n".join(script)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return [set(offered.split()) for offered in done.stdout.splitlines()]


def test_bash_completes_commands_options_and_choices(environment: dict[str, str]) -> None:
    commands, options, choices = completed(
        environment, "sfumato sh", "sfumato query x.toml --eps", "sfumato completion z"
    )
    assert commands == {"shell"}
    assert options == {"--epsilon"}
    assert choices == {"zsh"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    done = run("completion", shell)
    assert done.exit_code == 0
    assert "_SFUMATO_COMPLETE" in done.stdout
    if shutil.which(shell) is not None:
        checked = subprocess.run([shell, "-n"], input=done.stdout, text=True, timeout=SECONDS, check=False)
        assert checked.returncode == 0


def test_another_shell_is_told_which_there_are() -> None:
    done = run("completion", "tcsh")
    assert done.exit_code == 2
    assert all(shell in done.stderr for shell in ("bash", "zsh", "fish"))
