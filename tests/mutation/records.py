"""What was recorded of the tests, and what became of each mutant."""

from __future__ import annotations

import ast
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mutation.rules import Site
from mutation.sources import ROOT, block_indexes, functions, module_path, module_tree

_MOST_NEARBY = 60
"""Tests that are run in the hope that they enter a function: of test functions that enter another one of its module."""
KILLED = frozenset({"killed", "hung"})
"""Outcomes that the suite notices: a test fails, or it runs into a limit of time that it is far from otherwise."""


@dataclass(frozen=True)
class RecordedTest:
    seconds: float
    ran: int
    """A bit for each block that it ran."""
    numbers: dict[str, int]
    """Which bit is which block's."""

    def is_through(self, block: str) -> bool:
        number = self.numbers.get(block)
        return number is not None and bool(self.ran >> number & 1)

    @property
    def price(self) -> float:
        """Tests that are short and run little else look closest at what a block does."""
        return (self.seconds + 0.01) * self.ran.bit_count()


class Killers:
    """How often each test function killed a mutant of a function, and of a module."""

    def __init__(self, results: Iterable[dict[str, Any]] = ()) -> None:
        self._kills: Counter[tuple[str, str]] = Counter()
        for line in results:
            if line["outcome"] in KILLED:
                self.add(line["mutant"], line["test"])

    def add(self, mutant: str, test: str) -> None:
        for scope in _scopes(mutant):
            self._kills[scope, function_name(test)] += 1

    def weight(self, mutant: str, test: str) -> int:
        function, module = (self._kills[scope, function_name(test)] for scope in _scopes(mutant))
        return 1 + 9 * function + module


def _scopes(mutant: str) -> tuple[str, str]:
    return mutant.partition(" | ")[0], mutant.partition(":")[0]


def function_name(test: str) -> str:
    """Return a test's id without its parameters."""
    return test.partition("[")[0]


class Records:
    """A folder of files in which every line is a JSON value: which tests ran which blocks, and results of mutants."""

    def __init__(self, folder: Path, *, tests: bool = True) -> None:
        self.folder = folder
        self.imported: set[str] = set()
        """Modules that tests imported late."""
        self._tests: dict[str, RecordedTest] = {}
        self._first: dict[str, RecordedTest] = {}
        for path in sorted(folder.glob("tests.*")) if tests else ():
            self._read(path)

    def _read(self, path: Path) -> None:
        numbers: dict[str, int] = {}
        for line in _lines(path):
            for block in line["blocks"]:
                numbers[block] = len(numbers)
            self.imported.update(line["imported"])
            test = RecordedTest(line["seconds"], int(line["ran"], 16), numbers)
            self._tests[line["test"]] = test
            self._first.setdefault(function_name(line["test"]), test)

    def seconds(self, test: str) -> float:
        recorded = self._tests.get(test) or self._first.get(function_name(test))
        return recorded.seconds if recorded is not None else 1.0

    def covering(self, site: Site, examples: Mapping[str, Sequence[str]], killers: Killers) -> list[str]:
        """List the tests that ran a mutant's block, the likeliest to notice first.

        ``examples`` lists all tests of a test function: those that were not recorded may run every block of a function
        that another one entered, and functions of a module that another one entered, which are tried last. The n-th
        test of one function waits n times as long, and functions that have killed before are preferred.
        """
        function, name = site.mutant.function, str(site.mutant)
        index = block_indexes(function.module, function.qualname)[id(site_node(site))]
        block = f"{function.module}:{function.qualname}:{index}"
        prices = {test: recorded.price for test, recorded in self._tests.items() if recorded.is_through(block)}
        entry = f"{function.module}:{function.qualname}:0"
        for test, recorded in self._tests.items():
            if recorded.is_through(entry):
                others = (other for other in examples.get(function_name(test), ()) if other not in self._tests)
                prices |= dict.fromkeys(others, recorded.price)
        seen: Counter[str] = Counter()
        ranked = []
        for test, price in sorted(prices.items(), key=lambda item: (item[1], item[0])):
            tested = function_name(test)
            ranked.append((price * (1 + seen[tested]) / killers.weight(name, test), test))
            seen[tested] += 1
        return [test for _, test in sorted(ranked)] + self._nearby(function.module, examples, prices)

    def _nearby(self, module: str, examples: Mapping[str, Sequence[str]], near: Iterable[str]) -> list[str]:
        """List unrecorded tests of which another example ran anything of a module, the cheapest first."""
        known, masks, prices = {*near}, dict[int, int](), dict[str, float]()
        for name, recorded in self._first.items():
            numbers = recorded.numbers
            if id(numbers) not in masks:
                bits = (1 << number for block, number in numbers.items() if block.startswith(f"{module}:"))
                masks[id(numbers)] = sum(bits)
            if recorded.ran & masks[id(numbers)]:
                others = (test for test in examples.get(name, ()) if test not in self._tests and test not in known)
                prices |= dict.fromkeys(others, recorded.price)
        return sorted(prices, key=lambda test: (prices[test], test))[:_MOST_NEARBY]

    def finished(self, *, killed_only: bool = False) -> set[str]:
        return {line["mutant"] for line in self.results() if line["outcome"] in KILLED or not killed_only}

    def results(self) -> list[dict[str, Any]]:
        """List the results that still stand: a kill while its module is the same, a survivor while the files of the
        tests that ran it are the same, too.
        """
        lines = (line for path in sorted(self.folder.glob("results.*")) for line in _lines(path))
        return [line for line in lines if line["sources"] == fingerprint(line["mutant"], line.get("files", ()))]


def fingerprint(mutant: str, files: Sequence[str]) -> str:
    """Return a hash of what decides an outcome: the mutated module, and these files."""
    return _hash((module_path(f"sfumato.{mutant.partition(':')[0]}"), *(ROOT / file for file in files)))


@cache
def _hash(paths: tuple[Path, ...]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes() if path.exists() else b"gone")
    return digest.hexdigest()[:16]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):  # a last one may be half written
                yield json.loads(line)


def site_node(site: Site) -> ast.AST:
    """Return the node of the module's tree that a mutant changes."""
    function = site.mutant.function
    node: Any = dict(functions(module_tree(function.module)))[function.qualname]
    for field, index in site.path:
        node = getattr(node, field) if index is None else getattr(node, field)[index]
    return node
