"""Garbage collection in the process of one command: searching what it imports takes a third of a short one's time."""

from __future__ import annotations

import gc
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
