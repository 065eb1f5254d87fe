"""Exact vectors for every formula whose result is printed or charged: half-widths, bounds, intervals, shares, charges.

Such formulas are conservative, so a test of coverage hardly sees a wrong one. Each is compared here with numbers that
came about another way: by enumeration, in mpmath, by another derivation. A ``Registry`` holds the vectors of some
packages. It scans their sources for functions that look like such formulas, and fails for one without
``LEAST_VECTORS`` vectors or a written reason. A vector counts only if the formula itself ran: calls are traced.
"""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

SOURCES = Path(__file__).parents[2] / "src" / "sfumato"
LEAST_VECTORS = 3
RELATIVE = 1e-12
"""How far a float may be from its vector: sixteen digits are computed, and the last few are rounding."""
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Pow)


@dataclass(frozen=True)
class Vector:
    """A call of a formula, and what it must return."""

    call: Callable[[], Any]
    low: tuple[Any, ...]
    high: tuple[Any, ...]
    """Every number that is returned lies between these; where they are equal, it is that number."""

    def check(self, result: Any) -> None:
        numbers = flat(result)
        assert len(numbers) == len(self.low), f"{len(numbers)} numbers, not {len(self.low)}: {numbers}"
        for number, low, high in zip(numbers, self.low, self.high, strict=True):
            assert _lies(number, low, high), f"{number!r} is not within [{low!r}, {high!r}]: {numbers}"


def exact(expected: Any, formula: Callable[..., Any], *arguments: Any, **named: Any) -> Vector:
    """State what a formula returns, to the last digit: ``==`` for whole numbers and fractions."""
    found = flat(expected)
    return Vector(lambda: formula(*arguments, **named), found, found)


def between(low: Any, high: Any, formula: Callable[..., Any], *arguments: Any, **named: Any) -> Vector:
    """State two certified ends of what a formula returns, where it has no closed form."""
    return Vector(lambda: formula(*arguments, **named), flat(low), flat(high))


def flat(numbers: Any) -> tuple[Any, ...]:
    """List the numbers in nested tuples, arrays and mappings, in order; None is a number that there is not."""
    if isinstance(numbers, Mapping):
        return tuple(each for key in sorted(numbers, key=repr) for each in flat(numbers[key]))
    if isinstance(numbers, np.ndarray):
        return tuple(numbers.ravel().tolist())
    if isinstance(numbers, (list, tuple)):
        return tuple(each for part in numbers for each in flat(part))
    return (numbers,)


def _lies(number: Any, low: Any, high: Any) -> bool:
    if number is None or low is None or isinstance(number, (bool, str)):
        return number is low or (number == low and type(number) is type(low))
    if isinstance(number, (int, Fraction)) and isinstance(low, (int, Fraction)):
        return low <= number <= high
    low, high, found = float(low), float(high), float(number)
    if low == high:
        return found == low or math.isclose(found, low, rel_tol=RELATIVE, abs_tol=0.0)
    return low <= found <= high


@dataclass(frozen=True)
class Scope:
    """Which functions look like formulas: in these files, named with one of the words or given one of the parameters,
    and with arithmetic of their own. One that only passes on what others compute needs no vectors.
    """

    paths: tuple[str, ...]
    """Files and folders under ``src/sfumato``."""
    words: frozenset[str] = frozenset()
    """Parts of a function's name, between its underscores;"""
    parameters: frozenset[str] = frozenset()

    def formulas(self) -> Iterator[str]:
        """Name them as ``publish.marginals.group_totals.BoundedTotals.range``; a function inside another after it."""
        for file in (each for path in self.paths for each in _files(SOURCES / path)):
            module = ".".join(file.relative_to(SOURCES).with_suffix("").parts)
            for name, node in _functions(ast.parse(file.read_text()), module):
                if self._looks_like_one(node):
                    yield name

    def _looks_like_one(self, node: ast.FunctionDef) -> bool:
        given = {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}
        named = bool(self.words & set(node.name.split("_"))) or bool(self.parameters & given)
        return named and any(isinstance(each, ast.BinOp) and isinstance(each.op, _ARITHMETIC) for each in _own(node))


def _files(path: Path) -> Iterable[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def _functions(tree: ast.Module, module: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    waiting: list[tuple[ast.AST, str]] = [(tree, module)]
    while waiting:
        node, prefix = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                name = f"{prefix}.{child.name}"
                waiting.append((child, name))
                if isinstance(child, ast.FunctionDef):
                    yield name, child
            elif isinstance(child, ast.stmt):
                waiting.append((child, prefix))


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a function without the functions inside it: those are formulas of their own."""
    waiting = [node]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if not isinstance(child, ast.FunctionDef):
                yield child
                waiting.append(child)


Vectors = Callable[[], Iterable[Vector]]


@dataclass(frozen=True)
class Registry:
    """The vectors of all formulas of some packages."""

    scopes: tuple[Scope, ...]
    exempt: Mapping[str, str]
    """Functions that look like formulas and are none, or are long sequences of others that have vectors: why."""
    formulas: dict[str, Vectors] = field(default_factory=dict)

    def formula(self, name: str) -> Callable[[Vectors], Vectors]:
        """Register the vectors of a formula, which may lie outside the scopes; once each."""

        def register(vectors: Vectors) -> Vectors:
            assert name not in self.formulas, f"{name} has vectors already"
            self.formulas[name] = vectors
            return vectors

        return register

    def tests(self) -> tuple[Callable[..., None], Callable[[], None]]:
        """Give the test of every formula, and the test that all of them are registered."""

        @pytest.mark.parametrize("name", sorted(self.formulas))
        def test_vectors(name: str) -> None:
            count = check(name, self.formulas[name]())
            assert count >= LEAST_VECTORS, f"{name} has {count} vectors, not {LEAST_VECTORS}"

        def test_every_formula_has_vectors() -> None:
            looked_like = {name for scope in self.scopes for name in scope.formulas()}
            missing = looked_like - self.formulas.keys() - self.exempt.keys()
            assert not missing, f"without vectors: {', '.join(sorted(missing))}"
            stale = self.exempt.keys() - looked_like | self.exempt.keys() & self.formulas.keys()
            assert not stale, f"exempt for nothing: {', '.join(sorted(stale))}"
            assert all(len(reason.split()) > 2 for reason in self.exempt.values())

        return test_vectors, test_every_formula_has_vectors


def check(name: str, vectors: Iterable[Vector]) -> int:
    """Compare a formula with its vectors, and count these."""
    count = 0
    for vector in vectors:
        result, ran = _traced(vector.call, name)
        assert ran, f"this vector does not run {name}"
        vector.check(result)
        count += 1
    return count


def _traced(call: Callable[[], Any], name: str) -> tuple[Any, bool]:
    """Return what a call gives, and whether a function of this name ran in it; from there on nothing is looked at."""
    ran, last = False, name.rpartition(".")[2]

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal ran
        if event == "call" and frame.f_code.co_name == last and _name(frame.f_code) == name:
            ran = True
            sys.setprofile(before)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        return call(), ran
    finally:
        sys.setprofile(before)


def _name(code: CodeType) -> str:
    file = Path(code.co_filename)
    if "sfumato" not in file.parts:
        return ""
    start = len(file.parts) - 1 - file.parts[::-1].index("sfumato")
    module = ".".join(Path(*file.parts[start + 1 :]).with_suffix("").parts) if start + 1 < len(file.parts) else ""
    return f"{module}.{code.co_qualname.replace('.<locals>', '')}"
