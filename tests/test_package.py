"""The package as a whole: what importing costs, what is exported, what its scripts do."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import sfumato as sf

ROOT = Path(__file__).parent.parent


def test_importing_brings_numpy_at_most() -> None:
    code = "import sys, sfumato; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    foreign = {
        name
        for name in found.stdout.split()
        if name not in sys.stdlib_module_names and not name.startswith(("_", "sitecustomize"))
    }
    assert foreign <= {"sfumato", "numpy"}


_OPENING = """
import sys, json, warnings
import sfumato
def mine():
    return sorted(name for name in sys.modules if name.partition(".")[0] in ("sfumato", "sqlglot", "pyarrow", "rich"))
with sfumato.open(sys.argv[1]) as curator:
    opened = mine()
    answer = curator.sql("SELECT COUNT(*) AS n FROM visits WHERE age > 40").release(epsilon=1)
    counted = mine()
print(json.dumps([opened, counted]))
"""
_UNUSED_BY_A_COUNT = (
    "sfumato.attacks", "sfumato.audit", "sfumato.cli", "sfumato.client", "sfumato.games", "sfumato.inference",
    "sfumato.publish", "sfumato.quality", "sfumato.reports", "sfumato.server", "sfumato.surveys", "sfumato.manual",
    "sfumato.curator.kinds", "sfumato.curator.checking", "sfumato.curator.listings", "sfumato.engine.inspecting",
    "sfumato.engine.postgres", "sfumato.engine.mariadb", "sfumato.engine.spark", "sfumato.ledger.moving",
    "pyarrow", "rich",
)  # fmt: skip
_UNUSED_BY_OPENING = (
    *_UNUSED_BY_A_COUNT, "sqlglot", "sfumato.plan.sql", "sfumato.plots", "sfumato.curator.proposals",
    "sfumato.curator.previews", "sfumato.curator.standings", "sfumato.release.releasing", "sfumato.release.answers",
    "sfumato.release.noisy_rows", "sfumato.mechanisms.additive", "sfumato.mechanisms.selection", "sfumato.plan.nodes",
    "sfumato.plan.readings", "sfumato.engine.arrays", "sfumato.engine.lowering.reading_statements",
)  # fmt: skip


def test_opening_and_counting_import_what_they_need(tmp_path: Path) -> None:
    """What else they import is a second of CPU for each command, and for each process of a server."""
    (tmp_path / "visits.csv").write_text("who,age\n1,50\n2,30\n")
    policy = tmp_path / "clinic.toml"
    policy.write_text(
        "[unit]\nname = 'patient'\nbudget = { epsilon = 3 }\n[tables.visits]\nsource = 'visits.csv'\nid = 'who'\n"
        "max_rows = 1\n[tables.visits.columns]\nage = { type = 'integer', bounds = [0, 110] }\n"
    )
    ran = subprocess.run([sys.executable, "-c", _OPENING, str(policy)], capture_output=True, text=True, check=True)
    for modules, unused, most in zip(
        json.loads(ran.stdout), (_UNUSED_BY_OPENING, _UNUSED_BY_A_COUNT), (132, 275), strict=True
    ):
        unneeded = [name for name in modules if any(f"{name}.".startswith(f"{package}.") for package in unused)]
        assert unneeded == []
        assert sum(name.startswith("sfumato") for name in modules) <= most


def test_stored_values_are_read_back_by_whoever_imports_the_package_alone() -> None:
    kinds = ["laplace", "key-threshold", "top-k", "randomized-response", "quantiles", "above-threshold", "answer"]
    kinds += ["answer-column", "advice", "tip", "explanation", "operator", "forecast", "marginals-forecast", "listing"]
    kinds += ["standing", "period-standings", "suggestion", "table-description", "tables"]
    program = (
        "import sys, sfumato\nfrom sfumato.privacy import codec\n"
        "print(*[kind for kind in sys.argv[1:] if codec._class_of_kind_or_none(f'{kind}/1') is None])"
    )
    ran = subprocess.run([sys.executable, "-c", program, *kinds], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_everything_exported_exists_and_is_documented() -> None:
    for name in sf.__all__:
        item = getattr(sf, name)
        assert name == "__version__" or (item.__doc__ and item.__doc__.strip()), name


def test_no_module_is_too_long_to_read() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 700, path


def test_randomness_is_banned_from_the_sources(tmp_path: Path) -> None:
    """The linter's rule bites: the same check that runs in ./test refuses these lines."""
    for line in ("import random", "from numpy import random", "import numpy.random", "import secrets"):
        source = tmp_path / "sample.py"
        source.write_text(f'"""Sample."""\n\n{line}\n')
        done = subprocess.run(
            [sys.executable, "-m", "ruff", "check", "--select", "TID251", "--config", ROOT / "pyproject.toml", source],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "TID251" in done.stdout, line


def test_errors_say_rule_place_and_fix() -> None:
    with pytest.raises(sf.InvalidParameter) as refusal:
        sf.Guarantee("half")
    assert str(refusal.value) == (
        "epsilon must be a finite number ≥ 0; got 'half'\n  place: epsilon\n  fix:   for example, set epsilon to 0.5"
    )
    assert isinstance(refusal.value, sf.SfumatoError)
    assert isinstance(refusal.value, ValueError)


SCRIPTS = ("every-python", "mutation", "site")


def test_the_scripts_are_executable_and_plain_sh() -> None:
    for name in ("demo", "sfumato", "test", *(f"scripts/{name}" for name in SCRIPTS), ".ci/run"):
        assert os.stat(ROOT / name).st_mode & stat.S_IXUSR
    for name in (
        "demo",
        "sfumato",
        "test",
        "scripts/setup.sh",
        "scripts/every-python",
        "scripts/mutants",
        "scripts/mutation",
        "scripts/site",
    ):
        assert subprocess.run(["sh", "-n", str(ROOT / name)], check=False).returncode == 0


def _clone_with_python(tmp_path: Path, python: str) -> dict[str, str]:
    """A checkout without .venv, and a PATH on which python3 is the given script."""
    for name in ("demo", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "dirname", "cksum", "cat", "id", "rm"):
        (tools / tool).symlink_to(shutil.which(tool) or tool)
    (tools / "python3").write_text(f"#!/bin/sh\n{python}\n")
    (tools / "python3").chmod(0o755)
    return {"PATH": str(tools)}


def test_a_missing_venv_module_gets_the_line_that_installs_it(tmp_path: Path) -> None:
    real = sys.executable
    broken = f'case "$2" in *ensurepip*) exit 1;; *) exec {real} "$@";; esac'
    environment = _clone_with_python(tmp_path, broken)
    done = subprocess.run(
        [str(tmp_path / "demo")], env=environment, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 1
    version = "python{}.{}".format(*sys.version_info[:2])
    assert f"apt-get install -y {version}-venv" in done.stderr


def test_an_old_python_is_named(tmp_path: Path) -> None:
    environment = _clone_with_python(tmp_path, "exit 1")
    done = subprocess.run(
        [str(tmp_path / "demo")], env=environment, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr


def test_shell_examples_name_commands_that_exist() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.S):
            for line in block.strip().replace("\\\n", " ").splitlines():
                command = line.split("#")[0].split()[0]
                assert command in {
                    "./demo",
                    "./test",
                    "./sfumato",
                    "scripts/site",
                    "sfumato",
                    ".",
                    "git",
                    "cd",
                    "cp",
                    ".venv/bin/python",
                    "scripts/every-python",
                    "scripts/mutants",
                    "scripts/mutation",
                }, (
                    page,
                    line,
                )
                if command in {
                    "./demo",
                    "./test",
                    "./sfumato",
                    "scripts/every-python",
                    "scripts/mutants",
                    "scripts/mutation",
                    "scripts/site",
                }:
                    assert (ROOT / command).exists()
                for word in line.split("#")[0].split()[1:]:
                    if "/" in word and word.endswith(".py"):
                        assert (ROOT / word).exists(), (page, word)


def test_every_slow_test_that_is_named_exists() -> None:
    """A test under another name would be slow in the quick run again."""
    named = [line for line in (ROOT / "tests" / "slow.txt").read_text().splitlines() if not line.startswith("#")]
    assert named == sorted(set(named))
    for line in named:
        path, _, name = line.partition("::")
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text()), line
