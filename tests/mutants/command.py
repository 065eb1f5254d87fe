"""The command line of ``scripts/mutants``: which anchors of seeded bugs moved and where they belong now, and which
bugs use names that are gone.
"""

from __future__ import annotations

import argparse
import ast
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from mutants.anchors import AnchorMoved, proposals
from mutants.names import missing_names
from mutants.running import Mutant

FOLDER = Path(__file__).parent
SHOWN = 3
"""Proposals printed for one mutant."""


def suites() -> tuple[ModuleType, ...]:
    """Import every module that lists mutants."""
    files = sorted(FOLDER.glob("test_*.py"))
    return tuple(import_module(f"mutants.{file.stem}") for file in files if file.stem != "test_running")


def suite_mutants(module: ModuleType) -> tuple[Mutant, ...]:
    """List the mutants that the tests of a module run: of every list, by whatever name."""
    marks = (mark for test in vars(module).values() for mark in getattr(test, "pytestmark", ()))
    return tuple(mutant for mark in marks if mark.args[:1] == ("mutant",) for mutant in mark.args[1])


def move_anchor(source: str, mutant: str, anchor: str) -> str:
    """Return the text of a list of mutants with another anchor for one of them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Mutant":
            name, place = node.args[0], node.args[2]
            if isinstance(name, ast.Constant) and name.value == mutant and isinstance(place, ast.Constant):
                lines = source.splitlines(keepends=True)
                line = lines[place.lineno - 1]
                lines[place.lineno - 1] = line.replace(f'"{place.value}"', f'"{anchor}"')
                return "".join(lines)
    raise ValueError(f"no mutant is called {mutant!r}")


def _applies(mutant: Mutant) -> bool:
    try:
        mutant.definition()
    except AnchorMoved:
        return False
    return True


def undefined_names(module: ModuleType, mutant: Mutant) -> list[str]:
    """Say in which file a mutant uses which names that are not defined at its anchor."""
    file = f"{module.__name__.replace('.', '/')}.py"
    return [f"{file}: {mutant.name}\n    {mutant.anchor} has no {name}" for name in missing_names(mutant)]


def main() -> int:
    """Print every mutant whose text is not at its anchor or whose names are gone; exit with 1 while there is one."""
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=__doc__)
    parser.add_argument("--write", action="store_true", help="move anchors whose text stands in one other definition")
    options = parser.parse_args()
    listed = [(module, mutant) for module in suites() for mutant in suite_mutants(module)]
    missing = [(module, mutant) for module, mutant in listed if not _applies(mutant)]
    undefined = [line for module, mutant in listed if _applies(mutant) for line in undefined_names(module, mutant)]
    print(*undefined, sep="\n", end="\n" * bool(undefined))
    for module, mutant in missing:
        places = proposals(mutant.anchor, mutant.old)
        unchanged = [place for place, text in places if text == mutant.old]
        print(f"{mutant.name}\n    not at {mutant.anchor}: {mutant.old!r}")
        if options.write and len(unchanged) == 1:
            path = Path(str(module.__file__))
            path.write_text(move_anchor(path.read_text(), mutant.name, unchanged[0]))
            print(f"    moved to {unchanged[0]}")
        else:
            for place, text in places[:SHOWN]:
                print(f"    perhaps {place}: {text!r}")
    return int(bool(missing or undefined))


if __name__ == "__main__":
    sys.exit(main())
