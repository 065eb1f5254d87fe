"""Put a mutant into a running process, and into the copy of the package that its subprocesses import."""

from __future__ import annotations

import ast
import builtins
import functools
import gc
import os
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from mutation.rules import Site, mutated_definition, mutated_module
from mutation.sources import PACKAGE, SOURCES, module_path, target_modules

MARKER = "__mutant_ran__"
_STARTS = frozenset({"subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"})
"""Events after which another program runs."""


class NotReplaceable(Exception):
    """The changed code does not fit the function that is there: it lost a variable of a closure."""


class LiveFunctions:
    """All function objects and caches of the target modules, found once before children are forked.

    A function's code is exchanged in place, so that every importer, decorator and registry that holds the function
    runs the change.
    """

    def __init__(self) -> None:
        for module in target_modules():
            import_module(module)
        gc.unfreeze()
        self._by_code: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        self._caches: list[Any] = []
        for value in gc.get_objects():
            if isinstance(value, FunctionType) and value.__code__.co_filename.startswith(str(PACKAGE)):
                self._by_code[_code_key(value.__code__)].append(value)
            elif isinstance(value, functools._lru_cache_wrapper):
                self._caches.append(value)
        gc.freeze()  # a child that looks for garbage would copy every page that it shares with its parent

    def forget_cached(self) -> None:
        for cache in self._caches:
            cache.cache_clear()

    def replace(self, site: Site) -> None:
        function = site.mutant.function
        changed = mutated_definition(site, MARKER)
        module = compile(changed, str(module_path(function.module)), "exec", dont_inherit=True)
        codes = list(_codes(module))
        (code,) = [code for code in codes if code.co_qualname == function.qualname and _outermost(code)]
        live = self._by_code[_code_key(code)]
        if not live:
            raise NotReplaceable(f"{function} is not found among the live functions")
        for target in live:
            try:
                target.__code__ = code
            except ValueError as error:
                raise NotReplaceable(str(error)) from error
        self._replace_nested([code for code in codes if code.co_qualname.startswith(f"{function.qualname}.<locals>.")])

    def _replace_nested(self, codes: list[CodeType]) -> None:
        """Exchange the code of functions that the changed one returned before, such as those of a table that was made
        when its module was imported; of two on one line it is not known which is which.
        """
        keys = Counter(map(_code_key, codes))
        for code in codes:
            for target in self._by_code[_code_key(code)] if keys[_code_key(code)] == 1 else ():
                with suppress(ValueError):  # it lost a variable of its closure
                    target.__code__ = code


def _code_key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _outermost(code: CodeType) -> bool:
    return "<locals>" not in code.co_qualname


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


class Overlay:
    """A copy of the package with one changed file, found first by every Python that a test starts."""

    def __init__(self, folder: Path) -> None:
        self._sources = folder / "src"
        shutil.copytree(SOURCES / "sfumato", self._sources / "sfumato", ignore=shutil.ignore_patterns("__pycache__"))

    def install(self, site: Site) -> None:
        """Let every Python that this process starts import the change; the file is written when the first one starts,
        which few tests do.
        """
        written: list[bool] = []

        def write_before_start(event: str, _: object) -> None:
            if event in _STARTS and not written:
                written.append(True)
                original = module_path(site.mutant.function.module)
                target = self._sources / original.relative_to(SOURCES)
                target.write_text(ast.unparse(mutated_module(site)), encoding="utf-8")

        sys.addaudithook(write_before_start)
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(self._sources), before)))
        # bytecode is kept by the second of a file's change: two mutants of one second would be taken for one
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

    def restore(self, site: Site) -> None:
        original = module_path(site.mutant.function.module)
        target = self._sources / original.relative_to(SOURCES)
        if target.stat().st_mtime_ns != original.stat().st_mtime_ns:
            shutil.copy2(original, target)


def install_builtins(ran: Callable[[], None]) -> None:
    """Give mutated code what it calls: the marker of its place, and draws that are made once."""
    noises: dict[str, Any] = {}

    def reused_draw(function: Any, *arguments: Any, **keywords: Any) -> Any:
        owner = getattr(function, "__self__", None)
        law = getattr(owner, "mechanism", owner)
        if owner is not None and len(arguments) == 1 and isinstance(arguments[0], int | np.ndarray):
            (value,) = arguments
            key = f"{law!r} {np.shape(value)}"
            if key not in noises:
                noises[key] = function(value, **keywords) - value
            return value + noises[key]
        key = f"{function.__qualname__} {law!r} {arguments!r} {keywords!r}"
        if key not in noises:
            noises[key] = function(*arguments, **keywords)
        return noises[key]

    setattr(builtins, MARKER, ran)
    builtins.__reused_draw__ = reused_draw  # type: ignore[attr-defined]
