"""JSON texts that differ in one place from one that was written: every node replaced, deleted, repeated or nested.

Whoever can compute a checksum can write such texts into a file or a request, so they must be refused as any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]
_HOLE = "\N{BLACK SQUARE}"
"""Stands in the text for what is written there: it is in none of ours."""
REPLACEMENTS = {
    "7": "7",
    "null": "null",
    "an empty text": '""',
    "an empty list": "[]",
    "an empty object": "{}",
    "-1": "-1",
    "1e400": "1e400",
    "1.5": "1.5",
    "true": "true",
    "NaN": "NaN",
    "a list of 7": "[7]",
    "an object of 7": '{"a":7}',
    "a long text": json.dumps("x" * 20_000),
    "a whole number of 400 digits": "9" * 400,
    "deep nesting": "[" * 3_000 + "]" * 3_000,
}


@dataclass(frozen=True)
class Edit:
    """One edit of a JSON text."""

    path: Path
    what: str
    text: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.path)) or 'the whole'}: {self.what}"


def edits(text: str) -> Iterator[Edit]:
    """Edit every node of a text, and every node of the JSON texts inside it, in every way."""
    data = json.loads(text)
    for path, node in _nodes(data, ()):
        around = _written(_replaced(data, path, _HOLE))
        before, after = around.split(json.dumps(_HOLE), 1)
        for what, other in REPLACEMENTS.items():
            yield Edit(path, what, f"{before}{other}{after}")
        yield Edit(path, "one level deeper", f"{before}[{_written(node)}]{after}")
        if path:
            yield Edit(path, "deleted", _written(_replaced(data, path)))
            yield Edit(path, "twice", _written(_repeated(data, path)))


def _nodes(node: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    yield path, node
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, each in inner:
        yield from _nodes(each, (*path, name))


def _written(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))


def _replaced(data: Any, path: Path, *other: Any) -> Any:
    """Copy the data with something else at a path, or with nothing there."""
    if not path:
        return other[0]
    name, *rest = path
    copy = dict(data) if isinstance(data, dict) else list(data)
    if rest or other:
        copy[name] = _replaced(copy[name], tuple(rest), *other)
    else:
        del copy[name]
    return copy


def _repeated(data: Any, path: Path) -> Any:
    """Copy the data with the item of a list twice, or the member of an object under a second name."""
    *above, name = path
    parent = data
    for step in above:
        parent = parent[step]
    if isinstance(parent, list):
        copy: Any = [*parent[: name + 1], *parent[name:]]  # type: ignore[operator, misc]
    else:
        copy = {**parent, f"{name} again": parent[name]}
    return _replaced(data, tuple(above), copy)
