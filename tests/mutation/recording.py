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
import time
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

import pytest

from mutation.sources import blocks, functions, module_path, target_modules

MARKER = "__ran_block__"
_HITS: set[str] = set()
_plain_get_code = SourceFileLoader.get_code
_targets = frozenset(target_modules())


def instrument(module: str, source: str) -> ast.Module:
    """Return a module's tree with a call of the marker at the head of every block of its functions."""
    tree = ast.parse(source)
    for qualname, function in functions(tree):
        for index, statements in enumerate(blocks(function)):
            key = f"{module}:{qualname}:{index}"
            marker = ast.Expr(ast.Call(ast.Name(MARKER, ast.Load()), [ast.Constant(key)], []))
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


class Recorder:
    """Writes a line of JSON for each test that passed: its id, its CPU seconds and the blocks it ran."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - open until the session ends
        self._failed = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        for cache in _CACHES:
            cache.cache_clear()
        _HITS.clear()
        self._failed, begin = False, time.process_time()
        outcome = yield
        if not self._failed:
            line = {"test": item.nodeid, "seconds": round(time.process_time() - begin, 4), "blocks": sorted(_HITS)}
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        return outcome

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.outcome != "passed"


def pytest_configure(config: Any) -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    if worker != "main" or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Recorder(f"{os.environ['MUTATION_RECORD']}.{worker}"))
