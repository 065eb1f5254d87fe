"""A process is known to have ended for ever, although its number is given to others.

A process is named by the boot of its machine, its namespace, its number and its start. Where the system does not say
these, or another namespace hides the process, nobody knows.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

PROCESSES = Path("/proc")
_UNKNOWN = "?"


def this_process() -> str:
    return _named(os.getpid())


def alive(name: str, *, elsewhere: bool = False) -> bool | None:
    """Tell whether the process of this name still runs; None where that cannot be known. With ``elsewhere`` it may be
    one of another machine: another boot is then no sign of an end.
    """
    boot, space, number, start = name.split(" ")
    here = _named(os.getpid()).split(" ")
    if _UNKNOWN in (boot, here[0]):
        return None
    if boot != here[0]:
        return None if elsewhere else False
    return _start(int(number)) == start if space == here[1] else None


@lru_cache(maxsize=1)
def _named(number: int) -> str:
    try:
        boot = (PROCESSES / "sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink(PROCESSES / "self/ns/pid")
    except OSError:
        boot = space = _UNKNOWN
    return f"{boot} {space} {number} {_start(number)}"


def _start(number: int) -> str:
    """Read when it started, in the system's ticks; empty for one that has ended, buried or not."""
    try:
        fields = (PROCESSES / str(number) / "stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
