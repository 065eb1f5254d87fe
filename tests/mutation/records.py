"""What was recorded of the tests, and what became of each mutant."""

from __future__ import annotations

import ast
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from mutation.rules import Site
from mutation.sources import PACKAGE, ROOT, block_indexes, functions, module_path, module_tree

KILLED = frozenset({"killed", "hung"})


class Records:
    """A folder of files in which every line is a JSON value: which tests ran which blocks, and results of mutants."""

    def __init__(self, folder: Path, *, tests: bool = True) -> None:
        self.folder = folder
        self._seconds: dict[str, float] = {}
        self._breadth: dict[str, int] = {}
        self._tests: dict[str, set[str]] = defaultdict(set)
        for line in _lines(folder, "tests.*") if tests else ():
            self._seconds[line["test"]] = line["seconds"]
            self._breadth[line["test"]] = len(line["blocks"])
            for block in line["blocks"]:
                self._tests[block].add(line["test"])

    def seconds(self, test: str) -> float:
        return self._seconds.get(test, 1.0)

    def covering(self, site: Site, killers: Counter[str]) -> list[str]:
        """List the tests that ran a mutant's block, the likeliest to notice first.

        Tests that are short and run little else look closest at what this block does. The n-th test of one function
        waits n times as long, and functions that have killed before are preferred.
        """
        function = site.mutant.function
        node = site_node(site)
        block = block_indexes(function.module, function.qualname)[id(node)]
        tests = sorted(self._tests[f"{function.module}:{function.qualname}:{block}"], key=self._price)
        seen: Counter[str] = Counter()
        ranked = []
        for test in tests:
            name = test.partition("[")[0]
            ranked.append((self._price(test) * (1 + seen[name]) / (1 + killers[name]), test))
            seen[name] += 1
        return [test for _, test in sorted(ranked)]

    def _price(self, test: str) -> float:
        return (self.seconds(test) + 0.01) * self._breadth.get(test, 1)

    def finished(self, *, killed_only: bool = False) -> set[str]:
        return {line["mutant"] for line in self.results() if line["outcome"] in KILLED or not killed_only}

    def results(self) -> list[dict[str, Any]]:
        """List the results that still stand: a kill while its module is the same, anything else while all is."""
        lines = _lines(self.folder, "results.*")
        return [line for line in lines if line["sources"] == self.fingerprint(line["mutant"], line["outcome"])]

    def fingerprint(self, mutant: str, outcome: str) -> str:
        """Return a hash of what decides an outcome."""
        if outcome in KILLED:
            return _hash((module_path(f"sfumato.{mutant.partition(':')[0]}"),))
        return _hash((PACKAGE, ROOT / "tests"))


@cache
def _hash(paths: tuple[Path, ...]) -> str:
    files = [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _lines(folder: Path, pattern: str) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob(pattern)):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def site_node(site: Site) -> ast.AST:
    """Return the node of the module's tree that a mutant changes."""
    function = site.mutant.function
    node: Any = dict(functions(module_tree(function.module)))[function.qualname]
    for field, index in site.path:
        node = getattr(node, field) if index is None else getattr(node, field)[index]
    return node
