"""Mutants that still apply, and a runner that tells a kill from a survivor and both from a copy that is broken."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from mutants import test_audit, test_engine, test_ledger, test_mechanisms, test_plan, test_privacy, test_release
from mutants.running import ROOT, SOURCES, Kind, Mutant, Outcome, run

MODULES = (test_privacy, test_mechanisms, test_plan, test_engine, test_ledger, test_release, test_audit)
MUTANTS: tuple[Mutant, ...] = tuple(mutant for module in MODULES for mutant in module.MUTANTS)
LEAST_KILLED = 58
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
    ast.parse(changed)
    assert changed != (SOURCES / mutant.file).read_text()
    assert mutant.tests
    for each in mutant.tests:
        file, _, test = each.partition("::")
        assert f"def {test.partition('[')[0]}" in (ROOT / "tests" / file).read_text()


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
    tests = tuple(dict.fromkeys(each for mutant in module.MUTANTS for each in mutant.tests))
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
