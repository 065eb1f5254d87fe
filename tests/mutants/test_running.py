"""Mutants that still apply, and a runner that tells a kill from a survivor and both from a copy that is broken."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from mutants.running import ROOT, SOURCES, Kind, Mutant, Outcome, run

MODULES = tuple(
    import_module(f"mutants.{file.stem}")
    for file in sorted(Path(__file__).parent.glob("test_*.py"))
    if file.stem != Path(__file__).stem
)


def _run(module: ModuleType) -> tuple[Mutant, ...]:
    """The mutants that the tests of a module run: of every list, by whatever name."""
    marks = (mark for test in vars(module).values() for mark in getattr(test, "pytestmark", ()))
    return tuple(each for mark in marks if mark.args[:1] == ("mutant",) for each in mark.args[1])


MUTANTS: tuple[Mutant, ...] = tuple(mutant for module in MODULES for mutant in _run(module))
LEAST_KILLED = 600
_LONGEST = 1800
"""Seconds for all tests of one list."""

OBVIOUS = Mutant(
    "a count is never changed",
    Kind.SENSITIVITY,
    "privacy/sensitivity.py",
    "        return self.total\n",
    "        return self.total * 0\n",
    ("privacy/test_sensitivity.py",),
)
HARMLESS = replace(OBVIOUS, name="nothing is changed", new="        return self.total * 1\n")
BROKEN = replace(OBVIOUS, name="nothing can be imported", new="        return self.total\n\n    raise ImportError\n")


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_every_mutant_applies_and_can_be_read(mutant: Mutant) -> None:
    """A mutant whose text is gone, or stands twice, would seed nothing: change it with the sources."""
    changed = mutant.changed()
    compile(changed, mutant.file, "exec")
    assert changed != (SOURCES / mutant.file).read_text()
    assert mutant.tests
    for each in mutant.tests:
        file, _, test = each.partition("::")
        assert not test or test.partition("[")[0] in _tests(file), f"{each} is no test"


@cache
def _tests(file: str) -> frozenset[str]:
    """The tests that a file defines or assigns; one that a loop makes must be named by its file alone."""
    body = ast.parse((ROOT / "tests" / file).read_text()).body
    assigned = (
        name for each in body if isinstance(each, ast.Assign) for target in each.targets for name in ast.walk(target)
    )
    named = {each.id for each in assigned if isinstance(each, ast.Name)}
    return frozenset(named | {each.name for each in body if isinstance(each, ast.FunctionDef)})


@pytest.mark.timeout(120)
def test_every_example_that_is_named_is_collected() -> None:
    """A single example of a parametrised test is named by its id, which only the test itself knows."""
    named = sorted({each for mutant in MUTANTS for each in mutant.tests if "[" in each})
    files = sorted({each.partition("::")[0] for each in named})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run([*command, *files], cwd=ROOT / "tests", capture_output=True, text=True, check=False)
    there = {line.removeprefix("tests/") for line in done.stdout.splitlines()}
    assert not set(named) - there, done.stdout[-4000:]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_list_of_mutants_is_run(module: ModuleType) -> None:
    """A list that no test is made of seeds nothing."""
    lists = [value for value in vars(module).values() if isinstance(value, tuple) and value]
    listed = {each for value in lists for each in value if isinstance(each, Mutant)}
    single = {value for value in vars(module).values() if isinstance(value, Mutant)}
    assert listed, f"{module.__name__} lists no mutants"
    assert listed | single == set(_run(module))


def test_there_are_enough_mutants_of_every_kind() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.kind for mutant in MUTANTS} == set(Kind)
    assert sum(_applies(mutant) and not mutant.accepted for mutant in MUTANTS) >= LEAST_KILLED


def _applies(mutant: Mutant) -> bool:
    """Whether its text is still there: only a bug that is seeded can be noticed."""
    file = SOURCES / mutant.file
    return file.is_file() and file.read_text().count(mutant.old) == 1


@pytest.mark.long
@pytest.mark.timeout(2 * _LONGEST)
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_without_a_bug_the_same_tests_pass(module: ModuleType, tmp_path: Path) -> None:
    """A test that fails anyway would kill every mutant, and prove nothing."""
    tests = tuple(dict.fromkeys(each for mutant in _run(module) for each in mutant.tests))
    found = run(replace(HARMLESS, tests=tests), tmp_path, _LONGEST)
    assert found.outcome is Outcome.SURVIVED, found.log[-4000:]


@pytest.mark.parametrize(
    ("mutant", "outcome"),
    [(OBVIOUS, Outcome.KILLED), (HARMLESS, Outcome.SURVIVED), (BROKEN, Outcome.BROKEN)],
    ids=str,
)
def test_the_runner_tells_outcomes_apart(mutant: Mutant, outcome: Outcome, tmp_path: Path) -> None:
    assert run(mutant, tmp_path).outcome is outcome


def test_a_mutant_without_an_end_is_no_kill(tmp_path: Path) -> None:
    assert run(OBVIOUS, tmp_path, seconds=0.01).outcome is Outcome.BROKEN


def test_a_text_that_is_not_there_once_is_an_error() -> None:
    for old in ("this text is nowhere", "return"):
        with pytest.raises(ValueError, match="not once"):
            replace(OBVIOUS, old=old).changed()
