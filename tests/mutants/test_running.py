"""Mutants that still apply, and a runner that tells a kill from a survivor and both from a copy that is broken."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from mutants import anchors
from mutants.anchors import AnchorMoved, changed_definition, proposals
from mutants.command import move_anchor, suite_mutants, suites, undefined_names
from mutants.names import missing_names
from mutants.running import ROOT, Kind, Mutant, Outcome, run

MODULES = suites()
MUTANTS: tuple[Mutant, ...] = tuple(mutant for module in MODULES for mutant in suite_mutants(module))
LEAST_KILLED = 600
_LONGEST = 1800
"""Seconds for all tests of one list."""

OBVIOUS = Mutant(
    "a count is never changed",
    Kind.SENSITIVITY,
    "privacy.sensitivity:Sensitivity.l1",
    "return self.total",
    "return self.total * 0",
    ("privacy/test_sensitivity.py::test_norms_of_a_count_with_limits",),
)
HARMLESS = replace(OBVIOUS, name="nothing is changed", new="return self.total * 1")
BROKEN = replace(OBVIOUS, name="nothing can be imported", new="return self.total\nraise ImportError")


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_mutant_applies_and_can_be_read(module: ModuleType) -> None:
    """A mutant whose text is gone, or stands twice, would seed nothing: ``scripts/mutants`` says where it is now."""
    for mutant in suite_mutants(module):
        changed = compile(mutant.definition(), mutant.anchor, "exec")
        unchanged = changed_definition(mutant.anchor, mutant.old, mutant.old)
        is_new = _instructions(changed) != _unchanged_instructions(unchanged)  # what is only annotated has none
        assert is_new or _syntax(mutant.definition()) != _syntax(unchanged), mutant.name
        assert mutant.tests, mutant.name
        for test in mutant.tests:
            file, _, name = test.partition("::")
            assert not name or name.partition("[")[0] in _tests(file), f"{mutant.name}: {test} is no test"
            assert mutant.long or name not in _long_tests(file), f"{mutant.name}: {test} runs in the long run alone"


@cache
def _long_tests(file: str) -> frozenset[str]:
    """Return the tests of a file that are marked as a whole."""
    marked = re.findall(
        r"^@pytest\.mark\.long\n(?:[@ )\]].*\n)*def (test_\w+)", (ROOT / "tests" / file).read_text(), re.M
    )
    return frozenset(marked)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_name_of_a_mutant_is_defined(module: ModuleType) -> None:
    """A replacement that names what was renamed dies of a NameError, and proves nothing about the tests."""
    assert not [line for mutant in suite_mutants(module) for line in undefined_names(module, mutant)]


@pytest.mark.parametrize(
    ("anchor", "old", "new", "missing"),
    [
        ("privacy.sensitivity:Sensitivity.l1", "self.total", "self.totals", ["self.totals"]),
        ("privacy.sensitivity:Sensitivity.l1", "self.total", "whole(self.total)", ["whole"]),
        ("privacy.sensitivity:Sensitivity.l1", "self.total", "sum(total for total in [self.total])", []),
        ("privacy.sensitivity:Sensitivity.l1", "self.total", "math.least(self.total)", ["math.least"]),
        ("privacy.sensitivity:Sensitivity", "return self.total\n", "return self.totals\n", ["self.totals"]),
        ("release.releasing:_charge_read_and_store", "drawn = kind.draw(", "kind.draw(", ["drawn"]),
        (
            "release.releasing:_charge_read_and_store",
            "body = codec.dumps(drawn)",
            "body = codec.dump_all(drawn)",
            ["codec.dump_all"],
        ),
        (
            "release.releasing:_charge_read_and_store",
            "body = codec.dumps(drawn)",
            "from sfumato.privacy.budget import Budgets as budgets\n        body = budgets",
            ["sfumato.privacy.budget.Budgets"],
        ),
        ("privacy.sensitivity:Sensitivity.l1", "return self.total", "return (lambda total: totals)(1)", ["totals"]),
    ],
)
def test_names_that_nothing_defines_are_found(anchor: str, old: str, new: str, missing: list[str]) -> None:
    assert missing_names(replace(OBVIOUS, anchor=anchor, old=old, new=new)) == missing


@cache
def _unchanged_instructions(text: str) -> tuple[object, ...]:
    return _instructions(compile(text, "a definition", "exec"))


def _instructions(code: CodeType) -> tuple[object, ...]:
    """What a text compiles to, wherever it stands: to compare syntax trees takes ten times as long."""
    constants = (_instructions(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return (code.co_code, code.co_names, code.co_varnames, *constants)


@cache
def _syntax(text: str) -> str:
    return ast.dump(ast.parse(text))


@cache
def _tests(file: str) -> frozenset[str]:
    """The tests that a file defines or assigns; one that a loop makes must be named by its file alone."""
    defined = re.findall(r"^(?:def (\w+)|([\w, ]+) = )", (ROOT / "tests" / file).read_text(), re.MULTILINE)
    return frozenset(name for function, assigned in defined for name in (function, *re.split(", *", assigned)))


@pytest.mark.timeout(120)
def test_every_example_that_is_named_is_collected(request: pytest.FixtureRequest) -> None:
    """A single example of a parametrised test is named by its id, which only the test itself knows: it is among the
    tests of this run, or of a run of its file.
    """
    named = {each for mutant in MUTANTS for each in mutant.tests if "[" in each}
    missing = named - {item.nodeid.removeprefix("tests/") for item in request.session.items}
    if missing:
        files = sorted({each.partition("::")[0] for each in missing})
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        done = subprocess.run([*command, *files], cwd=ROOT / "tests", capture_output=True, text=True, check=False)
        missing -= {line.removeprefix("tests/") for line in done.stdout.splitlines()}
    assert not missing


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_list_of_mutants_is_run(module: ModuleType) -> None:
    """A list that no test is made of seeds nothing."""
    lists = [value for value in vars(module).values() if isinstance(value, tuple) and value]
    listed = {each for value in lists for each in value if isinstance(each, Mutant)}
    single = {value for value in vars(module).values() if isinstance(value, Mutant)}
    assert listed, f"{module.__name__} lists no mutants"
    assert listed | single == set(suite_mutants(module))


def test_there_are_enough_mutants_of_every_kind() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.kind for mutant in MUTANTS} == set(Kind)
    assert sum(not mutant.accepted for mutant in MUTANTS) >= LEAST_KILLED


@pytest.mark.long
@pytest.mark.timeout(2 * _LONGEST)
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_without_a_bug_the_same_tests_pass(module: ModuleType, tmp_path: Path) -> None:
    """A test that fails anyway would kill every mutant, and prove nothing."""
    tests = tuple(dict.fromkeys(each for mutant in suite_mutants(module) for each in mutant.tests))
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
    for old in ("this text is nowhere", "self"):
        with pytest.raises(AnchorMoved, match="exactly once"):
            replace(OBVIOUS, old=old).definition()


@pytest.fixture
def _few_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search where the definitions are: all modules take seconds."""
    monkeypatch.setattr(anchors, "modules", lambda: ["privacy.curve", "privacy.sensitivity", "ledger.spending"])


@pytest.mark.usefixtures("_few_modules")
def test_a_definition_that_moved_is_proposed_and_written() -> None:
    place, text = proposals("privacy.elsewhere:Sensitivity.l1", "return self.total")[0]
    assert (place, text) == (OBVIOUS.anchor, OBVIOUS.old)
    listed = f'Mutant(\n    "{OBVIOUS.name}",\n    Kind.KEYS,\n    "privacy.elsewhere:Sensitivity.l1",\n)\n'
    assert move_anchor(listed, OBVIOUS.name, place) == listed.replace("elsewhere", "sensitivity")


@pytest.mark.usefixtures("_few_modules")
def test_a_text_that_changed_is_proposed_by_what_is_nearest() -> None:
    place, text = proposals(OBVIOUS.anchor, "return self.totalled")[0]
    assert (place, text) == (OBVIOUS.anchor, OBVIOUS.old)
