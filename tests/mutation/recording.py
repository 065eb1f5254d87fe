"""A pytest plugin that records which tests run which blocks of the target functions, and how long each test takes.

Target modules are compiled with a marker at the head of every block, so that a marker costs one call of a builtin; a
line tracer would double the time of the whole suite.
"""

from __future__ import annotations

import ast
import builtins
import functools
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

import pytest

from mutation.sources import blocks, functions, module_path, target_modules

MARKER = "__ran_block__"
_HITS: set[int] = set()
_BLOCKS: dict[str, int] = {}
"""The number of each block of a module that was imported, in the order in which they were."""
_plain_get_code = SourceFileLoader.get_code
_targets = frozenset(target_modules())


def instrument(module: str, source: str) -> ast.Module:
    """Return a module's tree with a call of the marker at the head of every block of its functions."""
    tree = ast.parse(source)
    for qualname, function in functions(tree):
        for index, statements in enumerate(blocks(function)):
            key = f"{module}:{qualname}:{index}"
            number = _BLOCKS.setdefault(key, len(_BLOCKS))
            marker = ast.Expr(ast.Call(ast.Name(MARKER, ast.Load()), [ast.Constant(number)], []))
            statements.insert(1 if index == 0 and ast.get_docstring(function) is not None else 0, marker)
    return ast.fix_missing_locations(tree)


def _get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
    if name not in _targets:
        return _plain_get_code(loader, name)
    path = module_path(name)
    return compile(instrument(name, path.read_text(encoding="utf-8")), str(path), "exec", dont_inherit=True)


_CACHES: list[Any] = []
_plain_wrapper = functools._lru_cache_wrapper


def _register_cache(function: Any, *rest: Any) -> Any:
    """Wrap a function as ``functools.cache`` does; each test forgets what target functions returned to earlier ones."""
    wrapper = _plain_wrapper(function, *rest)
    if function.__module__ in _targets:
        _CACHES.append(wrapper)
    return wrapper


functools._lru_cache_wrapper = _register_cache  # type: ignore[assignment, misc]
setattr(builtins, MARKER, _HITS.add)
SourceFileLoader.get_code = _get_code  # type: ignore[method-assign]


def hits_mask(numbers: Iterable[int]) -> int:
    """Return the number whose bits are set at ``numbers``."""
    flags = bytearray(len(_BLOCKS) // 8 + 1)
    for number in numbers:
        flags[number // 8] |= 1 << number % 8
    return int.from_bytes(flags, "little")


class Recorder:
    """Writes a line of JSON for each test that passed: its id, its CPU seconds and the blocks it ran.

    Blocks are bits of one number, hundreds of times shorter than their names, which stand in the first line after their
    module was imported; so do the modules that were imported late.
    """

    def __init__(self, path: str) -> None:
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - open until the session ends
        self._failed = False
        self._named = 0
        self._modules = set(sys.modules)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        for cache in _CACHES:
            cache.cache_clear()
        _HITS.clear()
        self._failed, begin = False, time.process_time()
        outcome = yield
        if not self._failed:
            self._write(item.nodeid, round(time.process_time() - begin, 4))
        return outcome

    def _write(self, test: str, seconds: float) -> None:
        blocks, self._named = list(_BLOCKS)[self._named :], len(_BLOCKS)
        imported, self._modules = sorted(sys.modules.keys() - self._modules), set(sys.modules)
        ran = f"{hits_mask(_HITS):x}"
        line = {"test": test, "seconds": seconds, "blocks": blocks, "imported": imported, "ran": ran}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.outcome != "passed"


def pytest_configure(config: Any) -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    if worker != "main" or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Recorder(f"{os.environ['MUTATION_RECORD']}.{worker}"))
