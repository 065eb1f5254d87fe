"""Searches for garbage: those of what a short command imports take a third of its time, and those while the rows of a
large answer are built a third of that.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

_MANY_OBJECTS = 1_000_000
"""More objects than a short command makes."""


def collect_rarely() -> None:
    """Search for garbage after a million new objects instead of 700, from now on."""
    gc.set_threshold(_MANY_OBJECTS, 10, 10)


def exempt_imports(*modules: str) -> None:
    """Import what a command will need, and exempt it from every search for garbage, also from those at the end.

    DuckDB must come later: it warns of what it still finds at the end. In a process that collects as usual, such as
    that of a library's user, nothing is exempted.
    """
    for module in modules:
        import_module(module)
    if gc.get_threshold()[0] == _MANY_OBJECTS:
        gc.freeze()


@contextmanager
def collection_paused() -> Iterator[None]:
    """Search for no garbage meanwhile: only around moments in which many rows are built, which are none.

    Of threads that are here at once, at least the one that paused it lets it go on.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
