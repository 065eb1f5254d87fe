"""Privacy bugs seeded one by one: a small change of the sources that the tests of its package must notice.

A mutant is a value: an anchor (a definition of a module), a piece of its normalised text that occurs exactly once
there, and its replacement. Running it copies the package to a folder of its own, makes the one change and runs the
named tests against the copy. Only a test that fails kills a mutant: a copy that cannot be imported proves nothing about
the tests. ``scripts/mutants`` names the anchors that moved.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from mutants.anchors import SOURCES, changed_definition, changed_module, module_file

ROOT = Path(__file__).parents[2]
_SECONDS = 300


class Kind(Enum):
    """What is broken."""

    SENSITIVITY = "how far one unit moves a number"
    ROUNDING = "which way a number is rounded"
    FACTOR_TWO = "a factor of two"
    DELTA = "δ and failures"
    CHARGE_ORDER = "what is charged, and when"
    REUSE = "noise used twice, or answers not paid for"
    WRAP = "whole numbers beyond 64 bits"
    NAN = "cells that are no numbers, or missing"
    NEIGHBOURS = "which tables are neighbours"
    LIMITS = "how much of a unit counts"
    KEYS = "which groups are shown"
    SAMPLING = "the law that is drawn"
    AUDIT = "evidence that proves too much"
    CONSENT = "what an owner did not allow, or others can read"
    RANGES = "a range that misses more often than it says"
    HOSTILE = "what others wrote, and how it is refused"


class Outcome(Enum):
    KILLED = "a test failed"
    SURVIVED = "every test passed"
    BROKEN = "no test could be run, or the time was up"


@dataclass(frozen=True)
class Mutant:
    """One seeded bug."""

    name: str
    """What is wrong, in words."""
    kind: Kind
    anchor: str
    """A module under ``sfumato`` and a definition in it: ``ledger.spending:Tab.settle``."""
    old: str
    """A piece of the definition's text as ``ast.unparse`` writes it."""
    new: str
    tests: tuple[str, ...]
    """Under ``tests``: the files, or single tests of them, that must notice it."""
    accepted: str = ""
    """Why it may survive; most may not."""
    long: bool = False
    """Whether the tests that must notice it run in the long run alone."""

    def __str__(self) -> str:
        return self.name

    @property
    def file(self) -> Path:
        return SOURCES / module_file(self.anchor.partition(":")[0])

    def definition(self) -> str:
        """The text of the definition with the bug in it."""
        return changed_definition(self.anchor, self.old, self.new)


@dataclass(frozen=True)
class Report:
    outcome: Outcome
    log: str


def run(mutant: Mutant, folder: Path, seconds: float = _SECONDS) -> Report:
    """The named tests against a copy of the package with this one change."""
    changed = changed_module(mutant.anchor, mutant.old, mutant.new)
    copy = folder / "src" / "sfumato"
    shutil.copytree(SOURCES, copy)
    target = copy / mutant.file.relative_to(SOURCES)
    target.write_text(changed)
    for stale in (target.parent / "__pycache__").glob(f"{target.stem}.*"):
        stale.unlink()
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=short"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    command += ["--long"] if mutant.long else []
    # nothing of a pytest around this one: its workers, its options
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    try:
        done = subprocess.run(
            [*command, *(str(ROOT / "tests" / each) for each in mutant.tests)],
            cwd=folder,
            env=environment | {"PYTHONPATH": str(folder / "src"), "PWD": str(folder)},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Report(Outcome.BROKEN, f"not done after {seconds} seconds")
    log = done.stdout + done.stderr
    failed = re.search(r"^\d+ failed", log, re.MULTILINE) is not None
    outcome = {0: Outcome.SURVIVED, 1: Outcome.KILLED if failed else Outcome.BROKEN}.get(
        done.returncode, Outcome.BROKEN
    )
    return Report(outcome, log)


def suite(mutants: Sequence[Mutant]) -> Callable[..., None]:
    """The test of a list of mutants: one of each, in the long run."""

    @pytest.mark.long
    @pytest.mark.timeout(2 * _SECONDS)
    @pytest.mark.parametrize("mutant", mutants, ids=str)
    def test(mutant: Mutant, tmp_path: Path) -> None:
        found = run(mutant, tmp_path)
        wanted = Outcome.SURVIVED if mutant.accepted else Outcome.KILLED
        assert found.outcome is wanted, f"{mutant.name}: {found.outcome.value}\n{found.log[-4000:]}"

    return test
