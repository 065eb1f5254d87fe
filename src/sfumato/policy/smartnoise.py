"""This reads metadata that were written for SmartNoise, so that their owner need not type them again.

The files are YAML of a simple form: names within names by indentation, each with one value. That form is read, and any
other part of YAML (anchors, tags, lists of lines) is refused by its line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import InvalidPolicy
from sfumato.policy.domains import Domain, Type
from sfumato.policy.values import ROW, placed

_MOST_BYTES = 4 << 20
_TYPES = {
    "int": Type.INTEGER,
    "float": Type.REAL,
    "string": Type.TEXT,
    "boolean": Type.BOOLEAN,
    "datetime": Type.TIMESTAMP,
}
_LINE = re.compile(
    r"""(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#:'"&*!|>%@`\[\]{},-][^:#]*?)\s*:(?:\s+(?P<value>.*))?"""
)
_FORM = "SmartNoise metadata are names and values by indentation, as in age: and below it type: int"


@dataclass(frozen=True)
class SmartNoiseTable:
    """A table of SmartNoise metadata says what a policy needs of it."""

    columns: Mapping[str, Domain]
    id: str
    max_rows: int | None


def read_smartnoise(path: str | Path) -> dict[str, SmartNoiseTable]:
    """Read the tables of a metadata file, by their names. The unit is the column with ``private_id``, or every row
    with ``row_privacy``; ``max_ids`` are the rows of one unit that count; columns keep their types and bounds.
    """
    file = Path(path)
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise InvalidPolicy("this file cannot be read as UTF-8 text", place=str(file), fix="check the path") from None
    tables: dict[str, SmartNoiseTable] = {}
    for schemas in _mappings(_parsed(text, file)).values():
        for named in _mappings(schemas).values():
            for name, written in _mappings(named).items():
                tables[name] = _table(name, written)
    if not tables:
        raise InvalidPolicy(
            "SmartNoise metadata name a table within a schema; this file names none",
            place=str(file),
            fix="name another file",
        )
    return tables


def _table(name: str, written: Mapping[str, Any]) -> SmartNoiseTable:
    columns = _mappings(written)
    ids = [each for each, column in columns.items() if _truth(column.get("private_id"))]
    if len(ids) > 1 or not (ids or _truth(written.get("row_privacy"))):
        raise InvalidPolicy(
            "a table names one column with private_id, or has row_privacy: True",
            place=name,
            fix="add one of them to the file",
        )
    most = written.get("max_ids", "1")
    if not str(most).isdecimal() or not int(most):
        raise InvalidPolicy("max_ids is a whole number from 1 on", place=f"{name}.max_ids", fix="write max_ids: 10")
    declared = {each: _domain(f"{name}.{each}", column) for each, column in columns.items() if each not in ids}
    return SmartNoiseTable(declared, ids[0] if ids else ROW, int(most) if ids else None)


def _domain(place: str, column: Mapping[str, Any]) -> Domain:
    kind = _TYPES.get(str(column.get("type")))
    if kind is None:
        listed = ", ".join(_TYPES)
        raise InvalidPolicy(f"a column has one of the types {listed}", place=place, fix="write type: int")
    ends = (column.get("lower"), column.get("upper"))
    bounded = kind.numeric and None not in ends
    return placed(place, lambda: Domain(kind, bounds=ends if bounded else None))  # type: ignore[arg-type]


def _truth(value: object) -> bool:
    return str(value).lower() in ("true", "yes", "on")


def _mappings(written: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: each for name, each in written.items() if isinstance(each, dict)}


def _parsed(text: str, file: Path) -> dict[str, Any]:
    """Read names within names by their indentation."""
    whole: dict[str, Any] = {}
    stack: list[tuple[int, dict[str, Any]]] = [(-1, whole)]
    fresh = True  # whether the innermost mapping may still be indented more
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith("#") or bare == "---":
            continue
        indent = len(line) - len(line.lstrip(" "))
        found = _LINE.fullmatch(bare)
        while len(stack) > 1 and indent <= stack[-1][0]:
            stack.pop()
            fresh = False
        parent, siblings = stack[-1][1], stack[-1][0]
        if found is None or "\t" in line[: indent + 1] or (indent > siblings + 1 and not fresh and not parent):
            raise InvalidPolicy(_FORM, place=f"{file}, line {number}", fix="write this line so, or leave it out")
        key, value = _scalar(found["key"]), _value(found["value"])
        if value is not None:
            parent[key] = value
            continue
        inner: dict[str, Any] = {}
        parent[key] = inner
        stack.append((indent, inner))
        fresh = True
    return whole


def _value(written: str | None) -> str | None:
    """Read a value without its quotes and the comment behind it; None where a mapping follows."""
    if written is None or written.startswith("#"):
        return None
    return _scalar(written if written[0] in "\"'" else written.partition(" #")[0].strip())


def _scalar(written: str) -> str:
    if len(written) > 1 and written[0] == written[-1] == "'":
        return written[1:-1].replace("''", "'")
    if len(written) > 1 and written[0] == written[-1] == '"':
        return re.sub(r"\\(.)", r"\1", written[1:-1])
    return written
