"""Scripts that no test runs to their end still read options that they declare, and import names that exist."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(
    [*(ROOT / "bench").glob("*.py"), ROOT / "tests/mutation/command.py", ROOT / "tests/mutants/command.py"]
)


def calls(tree: ast.AST, method: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
            yield node


def declared_options(tree: ast.AST) -> set[str]:
    """Return the attributes that argparse makes of declared options."""
    names = set()
    for call in calls(tree, "add_argument"):
        flags = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
        long_flags = [flag for flag in flags if flag.startswith("--")] or flags
        names |= {str(word.value.value) for word in call.keywords if word.arg == "dest"}  # type: ignore[attr-defined]
        names |= {flag.lstrip("-").replace("-", "_") for flag in long_flags[:1]}
    return names


def undeclared_options(source: str) -> set[str]:
    """Return what is read of parsed options and was never declared."""
    tree = ast.parse(source)
    parsed = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(calls(node.value, "parse_args"))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    read = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in parsed
    }
    return read - declared_options(tree)


def missing_imports(source: str) -> set[str]:
    """Return the names that are imported from this package and are not there."""
    return {
        f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "sfumato"
        for alias in node.names
        if not _exists(str(node.module), alias.name)
    }


def _exists(module: str, name: str) -> bool:
    if hasattr(importlib.import_module(module), name):
        return True
    return importlib.util.find_spec(f"{module}.{name}") is not None


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_options_that_are_read_are_declared_and_imports_exist(script: Path) -> None:
    source = script.read_text(encoding="utf-8")
    assert not undeclared_options(source)
    assert not missing_imports(source)


def test_a_renamed_option_and_a_renamed_function_are_noticed() -> None:
    declared = "options = parser.parse_args()\nparser.add_argument('-o', '--only')\nprint(options.{})"
    assert undeclared_options(declared.format("only")) == set()
    assert undeclared_options(declared.format("restricted_to")) == {"restricted_to"}
    assert missing_imports("from sfumato.privacy import budget, budgets") == {"sfumato.privacy.budgets"}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_peak_memory_of_a_run_leaves_out_that_of_the_process_that_started_it() -> None:
    held = b"x" * (200 << 20)
    program = "import own_run; print(own_run.peak_megabytes())"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT / "bench")
    assert len(held) == 200 << 20
    assert 1 < float(done.stdout) < 100
