"""One text for every plan that means the same, and its hash."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
from enum import Enum
from fractions import Fraction
from typing import Any

from sfumato.privacy.numbers import text

VERSION = 2
"""Raised whenever a node's meaning changes: an old answer then no longer answers a new question."""


def digest(*parts: object) -> str:
    """The hash of frozen nodes and plain values."""
    written = json.dumps([VERSION, [_written(part) for part in parts]], separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(written.encode()).hexdigest()


def _written(node: Any) -> Any:
    if isinstance(node, Enum):
        return node.value
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        return [type(node).__name__, *(_written(getattr(node, each.name)) for each in dataclasses.fields(node))]
    if isinstance(node, (tuple, list)):
        return [_written(each) for each in node]
    if isinstance(node, Fraction):
        return ["number", text(node)]
    if isinstance(node, dt.date):
        return ["time", node.isoformat()]
    return node
