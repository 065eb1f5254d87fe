"""Import of SmartNoise metadata files, so that their owner need not declare the tables again.

The files are simple YAML: nested mappings by indentation, with scalar values. Any other part of YAML (anchors, tags,
sequences) is refused with its line number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.errors import InvalidPolicy
from sfumato.policy.declared_columns import with_policy_path
from sfumato.policy.domains import Domain, Type
from sfumato.policy.policies import ROW
from sfumato.quick_dataclass import dataclass

_MAX_BYTES = 4 << 20
_TYPES = {
    "int": Type.INTEGER,
    "float": Type.REAL,
    "string": Type.TEXT,
    "boolean": Type.BOOLEAN,
    "datetime": Type.TIMESTAMP,
}
_LINE_FORMAT = re.compile(
    r"""(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#:'"&*!|>%@`\[\]{},-][^:#]*?)\s*:(?:\s+(?P<value>.*))?"""
)
_FORMAT_RULE = "SmartNoise metadata nest names and values by indentation, such as age: with type: int on the next line"


@dataclass(frozen=True)
class SmartNoiseTable:
    """The declarations of a SmartNoise table that a policy needs."""

    columns: Mapping[str, Domain]
    id: str
    max_rows: int | None


def read_smartnoise(path: str | Path) -> dict[str, SmartNoiseTable]:
    """Parse the tables of a metadata file, by name.

    The id is the column with ``private_id``, or every row with ``row_privacy``; ``max_ids`` becomes ``max_rows``;
    columns keep their types and bounds.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            text = stream.read(_MAX_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise InvalidPolicy("this file cannot be read as UTF-8 text", place=str(file), fix="check the path") from None
    tables: dict[str, SmartNoiseTable] = {}
    for schemas in _submappings(_parse_yaml(text, file)).values():
        for schema_tables in _submappings(schemas).values():
            for name, declaration in _submappings(schema_tables).items():
                tables[name] = _parse_table(name, declaration)
    if not tables:
        raise InvalidPolicy(
            "SmartNoise metadata must declare a table within a schema, and this file declares none",
            place=str(file),
            fix="name another file",
        )
    return tables


def _parse_table(name: str, declaration: Mapping[str, Any]) -> SmartNoiseTable:
    columns = _submappings(declaration)
    id_columns = [key for key, column in columns.items() if _is_true(column.get("private_id"))]
    if len(id_columns) > 1 or not (id_columns or _is_true(declaration.get("row_privacy"))):
        raise InvalidPolicy(
            "a table must have one column with private_id: True, or row_privacy: True",
            place=name,
            fix="add one of them to the file",
        )
    max_ids = declaration.get("max_ids", "1")
    if not str(max_ids).isdecimal() or not int(max_ids):
        raise InvalidPolicy(
            "max_ids must be a whole number of at least 1", place=f"{name}.max_ids", fix="write max_ids: 10"
        )
    domains = {key: _parse_domain(f"{name}.{key}", column) for key, column in columns.items() if key not in id_columns}
    return SmartNoiseTable(domains, id_columns[0] if id_columns else ROW, int(max_ids) if id_columns else None)


def _parse_domain(place: str, column: Mapping[str, Any]) -> Domain:
    kind = _TYPES.get(str(column.get("type")))
    if kind is None:
        type_names = ", ".join(_TYPES)
        raise InvalidPolicy(f"a column must have one of the types {type_names}", place=place, fix="write type: int")
    bounds = (column.get("lower"), column.get("upper"))
    has_bounds = kind.numeric and None not in bounds
    return with_policy_path(place, lambda: Domain(kind, bounds=bounds if has_bounds else None))  # type: ignore[arg-type]


def _is_true(value: object) -> bool:
    return str(value).lower() in ("true", "yes", "on")


def _submappings(mapping: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: value for name, value in mapping.items() if isinstance(value, dict)}


def _parse_yaml(text: str, file: Path) -> dict[str, Any]:
    """Parse nested mappings by their indentation."""
    document: dict[str, Any] = {}
    stack: list[tuple[int, dict[str, Any]]] = [(-1, document)]
    may_indent = True  # whether the next line may be indented more than its parent
    for number, line in enumerate(text.splitlines(), 1):
        content = line.strip()
        if not content or content.startswith("#") or content == "---":
            continue
        indent = len(line) - len(line.lstrip(" "))
        match = _LINE_FORMAT.fullmatch(content)
        while len(stack) > 1 and indent <= stack[-1][0]:
            stack.pop()
            may_indent = False
        parent, parent_indent = stack[-1][1], stack[-1][0]
        if (
            match is None
            or "\t" in line[: indent + 1]
            or (indent > parent_indent + 1 and not may_indent and not parent)
        ):
            raise InvalidPolicy(_FORMAT_RULE, place=f"{file}, line {number}", fix="rewrite this line, or remove it")
        key, value = _unquote(match["key"]), _parse_value(match["value"])
        if value is not None:
            parent[key] = value
            continue
        inner: dict[str, Any] = {}
        parent[key] = inner
        stack.append((indent, inner))
        may_indent = True
    return document


def _parse_value(text: str | None) -> str | None:
    """Parse a scalar without quotes and trailing comment; None if a mapping follows."""
    if text is None or text.startswith("#"):
        return None
    return _unquote(text if text[0] in "\"'" else text.partition(" #")[0].strip())


def _unquote(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text
