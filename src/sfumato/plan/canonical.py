"""One text stands for all plans that mean the same, and has a hash."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import itertools
import json
from enum import Enum
from fractions import Fraction
from typing import Any

from sfumato.policy import Domain
from sfumato.privacy import codec
from sfumato.privacy.numbers import text

_PLAIN = frozenset((str, int, bool, type(None)))
VERSION = 4
"""Raised whenever a node's meaning changes: an old answer then no longer answers a new question."""


def digest(*parts: object) -> str:
    """Hash frozen nodes and plain values."""
    known: dict[int, str] = {}
    return _hashed([VERSION, [_written(part, known) for part in parts]])


def _hashed(written: Any) -> str:
    return hashlib.sha256(json.dumps(written, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()


def _written(node: Any, known: dict[int, str]) -> Any:
    """``known`` are the hashes of domains met before: thousands of parts may share a long list of values."""
    if type(node) in _PLAIN:
        return node
    if isinstance(node, Enum):
        return node.value
    if isinstance(node, Domain):
        if id(node) not in known:
            known[id(node)] = _hashed(_fields(node, known))
        return known[id(node)]
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        return _fields(node, known)
    if isinstance(node, (tuple, list)):
        if _PLAIN.issuperset(map(type, node)):
            return node
        return list(map(_written, node, itertools.repeat(known)))  # map needs no frame of its own: trees are deep
    if isinstance(node, Fraction):
        return ["number", text(node)]
    if isinstance(node, dt.date):
        return ["time", node.isoformat()]
    return node


def _fields(node: Any, known: dict[int, str]) -> list[Any]:
    told = [getattr(node, each.name) for each in dataclasses.fields(node) if each.compare]
    return [codec.kind(type(node)), *map(_written, told, itertools.repeat(known))]
