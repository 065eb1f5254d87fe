"""Mutants are what the rules say and reach whoever holds a function; equivalent ones exist and have a proof."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mutation.command import drawn, equivalent_mutants, report
from mutation.records import Killers, Records, _hash, fingerprint, site_node
from mutation.replacing import LiveFunctions, Overlay, install_builtins
from mutation.rules import Site, function_sites, mutated_module, sites
from mutation.sources import NO_CLAIM, Function, block_indexes, blocks, functions, module_tree, noted_names


def offered(body: str, rule: str) -> set[str]:
    """Return what one rule makes of a function with this body, in a module that has ``ceil`` and ``floor``."""
    (function,) = ast.parse(f"def f(a, b, c):\n    {body}").body
    assert isinstance(function, ast.FunctionDef)
    return {site.mutant.after for site in function_sites(Function("math", "f"), function) if site.mutant.rule == rule}


@pytest.mark.parametrize(
    ("rule", "body", "expected"),
    [
        ("constant", "return 3", {"4", "2", "6"}),
        ("constant", "return a[0]", {"1"}),
        ("constant", "return 0.5", {"1.0"}),
        ("constant", "return True", {"False"}),
        ("constant", "raise ValueError(3)", set()),
        ("constant", "return zip(a, b, strict=True)", set()),
        ("comparison", "return a < b", {"a <= b"}),
        ("comparison", "return a <= b < c", {"a < b < c", "a <= b <= c"}),
        ("comparison", "return a == b", {"a != b"}),
        ("extreme", "return max(a, b)", {"min"}),
        ("extreme", "return a.minimum(b)", {"a.maximum"}),
        ("rounding", "return ceil(a)", {"floor"}),
        ("rounding", "return a // b", {"-(-a // b)"}),
        ("condition", "return a and b and c", {"b and c", "a and c", "a and b"}),
        ("condition", "return a if b else c", {"a", "c"}),
        ("condition", "return [x for x in a if b if c]", {"for x in a if c", "for x in a if b"}),
        ("condition", "if a: return b", {"if False", "if True"}),
        ("negation", "return not a", {"a"}),
        ("negation", "return -a", {"a"}),
        ("term", "return a + b", {"a", "b"}),
        ("term", "return a - b", {"a"}),
        ("term", "return a * b", {"a", "b"}),
        ("term", "return a / b", {"a"}),
        ("term", "return a ** b", {"a"}),
        ("term", "a += b", {"pass"}),
        ("term", "return sum(a)", {"sum(list(a)[1:])"}),
        ("term", "return 'text' + a", set()),
        ("left out", "a.check(b)", {"pass"}),
        ("left out", "del a[b]", {"pass"}),
        ("left out", "return replace(a, salt=b, key=c)", {"replace(a, key=c)", "replace(a, salt=b)"}),
    ],
)
def test_a_rule_offers_its_changes_and_no_others(rule: str, body: str, expected: set[str]) -> None:
    assert offered(body, rule) == expected


def site_of(name: str) -> Site:
    module = f"sfumato.{name.partition(':')[0]}"
    return next(site for site in sites(module) if str(site.mutant) == name)


def in_child(work: Callable[[], str]) -> str:
    """Return what a forked child says, which may change its functions as it likes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, work().encode())
        except BaseException as error:  # shown by the parent's assertion
            os.write(writer, repr(error).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with open(reader, encoding="utf-8") as said:
        return said.read()


TURNED = "release.parts.shares:rounded_up_to_13_digits | rounding | math.ceil → math.floor | 1"
SCRIPT = """
from fractions import Fraction
from sfumato.release.parts.shares import rounded_up_to_13_digits
print(rounded_up_to_13_digits(Fraction(1, 3)) > Fraction(1, 3))
"""


def test_a_change_reaches_importers_and_subprocesses_and_tells_that_it_ran(tmp_path: Path) -> None:
    def work() -> str:
        ran: list[bool] = []
        install_builtins(lambda: ran.append(True))
        LiveFunctions().replace(site_of(TURNED))
        Overlay(tmp_path).install(site_of(TURNED))
        scope: dict[str, object] = {"print": str}
        exec(SCRIPT, scope)  # an importer in this process
        from sfumato.release.parts import shares

        same = scope["rounded_up_to_13_digits"] is shares.rounded_up_to_13_digits
        started = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
        return f"{same} {len(ran)} {started.strip()}"

    assert in_child(work) == "True 1 False"
    said: list[object] = []
    exec(SCRIPT, {"print": said.append})  # the parent is as it was
    assert said == [True]


def test_a_change_reaches_functions_that_were_made_when_a_module_was_imported() -> None:
    name = "release.noisy_rows.noisy_columns:_lift_corner_operation | extreme | np.maximum → np.minimum | 0"

    def work() -> str:
        import numpy as np

        from sfumato.release.noisy_rows.noisy_columns import _FUNCTIONS, NumberColumn

        ran: list[bool] = []
        install_builtins(lambda: ran.append(True))
        LiveFunctions().replace(site_of(name))
        columns = [NumberColumn(*(np.array([end]) for end in (2.0, 1.0, 3.0))) for _ in range(2)]
        total = _FUNCTIONS["+"](None, columns)  # type: ignore[arg-type]
        return f"{len(ran)} {total.high}"  # type: ignore[union-attr]

    assert in_child(work) == "1 [2.]"


def test_draws_are_reused_where_they_are_equal() -> None:
    def work() -> str:
        import numpy as np

        from sfumato import Laplace

        install_builtins(lambda: None)
        reused = __reused_draw__  # type: ignore[name-defined] # noqa: F821
        first, second = (reused(Laplace(2**20).apply, np.arange(8) + start) - start for start in (0, 100))
        other = reused(Laplace(2**21).apply, np.arange(8))
        return f"{(first == second).all()} {(first == other).all()}"

    assert in_child(work) == "True False"


def test_every_equivalent_mutant_exists_and_has_a_proof() -> None:
    proofs = equivalent_mutants()
    existing = {str(site.mutant) for module in {_module(name) for name in proofs} for site in sites(module)}
    assert not proofs.keys() - existing, "these were changed: look again whether what they became is equivalent"
    assert all(len(proof) > 20 for proof in proofs.values())


def test_functions_without_a_claim_exist() -> None:
    names = noted_names(NO_CLAIM)
    modules = {name.partition(":")[0] for name in names}
    existing = {f"{module}:{name}" for module in modules for name, _ in functions(module_tree(f"sfumato.{module}"))}
    assert not names.keys() - existing, "these were renamed or moved: their mutants are drawn again"


def _module(mutant: str) -> str:
    return f"sfumato.{mutant.partition(':')[0]}"


def test_a_beginning_of_names_draws_from_its_modules_alone() -> None:
    function = "plan.bounding:_add_remove_sensitivity"
    (drawn_names,) = {tuple(sorted(drawn(None, seed, f"{function},plan.limits:"))) for seed in ("one", "two")}
    assert {name.partition(" ")[0].partition(":")[0] for name in drawn_names} == {"plan.bounding", "plan.limits"}
    assert drawn(5, "one", "plan.limits") == drawn(None, "one", "plan.limits")[:5]


def test_blocks_are_innermost() -> None:
    module = "sfumato.privacy.sensitivity"
    for qualname, function in functions(module_tree(module)):
        indexes = block_indexes(module, qualname)
        for index, statements in enumerate(blocks(function)):
            assert indexes[id(statements[0])] == index


def test_a_changed_tree_differs_only_there() -> None:
    site = site_of(TURNED)
    changed = mutated_module(site)
    before, after = (ast.unparse(tree).splitlines() for tree in (module_tree(site.mutant.function.module), changed))
    assert [line for line, plain in zip(after, before, strict=True) if line != plain] == [
        "    return Fraction(math.floor(size * power)) / power"
    ]


def test_the_tests_of_a_block_are_its_recorded_ones_and_their_other_examples(tmp_path: Path) -> None:
    """Short tests that run little come first, and those that killed a mutant of the same function before them; last
    those of which another example ran another function of the module.
    """
    site = site_of(TURNED)
    function = site.mutant.function
    index = block_indexes(function.module, function.qualname)[id(site_node(site))]
    block = f"{function.module}:{function.qualname}:{index}"
    assert index == 0
    lines = [
        {"test": "broad", "seconds": 1, "blocks": ["another", block], "imported": ["zlib"], "ran": "3"},
        {"test": "other", "seconds": 1, "blocks": [], "imported": [], "ran": "1"},
        {"test": "close[1]", "seconds": 0.1, "blocks": ["a third"], "imported": [], "ran": "2"},
        {"test": "close[2]", "seconds": 0.1, "blocks": [], "imported": [], "ran": "4"},
        {"test": "near[1]", "seconds": 0.1, "blocks": [f"{function.module}:elsewhere:0"], "imported": [], "ran": "8"},
    ]
    (tmp_path / "tests.main").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"half')
    records = Records(tmp_path)
    examples = {"close": ["close[1]", "close[2]", "close[3]"], "other": ["other"]}
    examples |= {"near": ["near[1]", "near[2]"]}
    assert records.covering(site, examples, Killers()) == ["close[1]", "close[3]", "broad", "near[2]"]
    killed = {"mutant": TURNED, "outcome": "killed", "test": "broad"}
    assert records.covering(site, examples, Killers([killed] * 9))[0] == "broad"
    assert records.imported == {"zlib"}


def test_what_was_not_decided_is_not_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"{TURNED}{index}" for index in range(4)]
    outcomes = ("killed", "undecided", "hung", "unreached")
    lines = [
        {"mutant": name, "outcome": outcome, "seconds": 2, "sources": fingerprint(name, ())}
        for name, outcome in zip(names, outcomes, strict=True)
    ]
    (tmp_path / "results.0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert report(names, folder=tmp_path) == 2 / 3
    printed = capsys.readouterr().out
    assert "4 of 4 mutants run, 2.00 CPU seconds each" in printed
    assert "66.7% of the reached killed, 33.3% by a test that fails" in printed


def test_a_survivor_stands_while_its_module_and_its_tests_are_the_same(tmp_path: Path) -> None:
    ran, other = (tmp_path / name for name in ("test_ran.py", "test_other.py"))
    for path in (ran, other):
        path.write_text("")
    results = tmp_path / "results"
    results.mkdir()

    def survivor(*files: Path) -> dict[str, object]:
        names = [str(file) for file in files]
        return {"mutant": TURNED, "outcome": "survived", "files": names, "sources": fingerprint(TURNED, names)}

    lines = [survivor(ran), survivor(ran, other), {**survivor(), "sources": "of another module"}]
    (results / "results.0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert Records(results).results() == lines[:2]
    other.write_text("assert True")
    _hash.cache_clear()
    assert Records(results).results() == lines[:1]
    ran.unlink()
    _hash.cache_clear()
    assert not Records(results).results()
