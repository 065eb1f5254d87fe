"""Policy files: TOML is parsed to a ``Policy``, every error with its path, and written so that it parses back.

SmartNoise metadata files are imported, so that their owner need not declare the tables again. They are simple YAML:
nested mappings by indentation, with scalar values. Any other part of YAML (anchors, tags, sequences) is refused with
its line number.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.policy.approval_rules import ApprovalRules
from sfumato.policy.codings import CALENDAR_PERIODS, Coding, parse_coding, with_policy_path
from sfumato.policy.domains import Domain, Type, Value, check_keys, check_name
from sfumato.policy.policies import PERIODS, ROW, ROW_CEILING, Policy, Table, Via
from sfumato.policy.table_sources import InMemory, OnServer, SparkFrame
from sfumato.privacy import Budget, PrivacyUnit
from sfumato.privacy.numbers import format_exact
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import refuse_malformed

MAX_BYTES = 4 << 20
"""The most bytes of a policy file."""

_LIMIT_KEYS = ("max_rows", "max_groups", "max_rows_per_group", "row_ceiling", "possible_rows")
_TABLE_KEYS = (
    "source",
    "relation",
    "path",
    "format",
    "version",
    "id",
    *_LIMIT_KEYS,
    "public",
    "columns",
    "period",
    "impossible",
    "implies",
    "nulls",
)
_POLICY_KEYS = ("per", "allow_large_delta")
"""Keys of the budget that say how an account is opened: they are the policy's, not the account's."""
_UNREADABLE_FIX = "check that this is the right file, and that you have permission to read it"
_PERIOD_FIX = 'write period = { column = "day", every = "day" }, or every = "week" or "month"'


def read(path: str | Path) -> Policy:
    """Parse the policy in a TOML file; relative sources are resolved against its folder.

    Raises:
        InvalidPolicy: with the path of the wrong key and what to write instead.
    """
    file = Path(path)
    with refuse_malformed(
        lambda: InvalidPolicy(
            "this file is not a valid policy",
            place=str(file),
            fix="compare it with the examples in `sfumato docs write-a-policy`",
        )
    ):
        return _parse_policy(_parse_toml(_read_text(file), str(file)), file)


def _parse_policy(document: dict[str, Any], file: Path) -> Policy:
    check_keys(document, ("ledger", "unit", "tables", "analysts", "approval"), "")
    unit = _require_section(document, "unit", "", 'add [unit] with name = "patient" and budget = { epsilon = 3.0 }')
    check_keys(unit, ("name", "neighbours", "budget", "size", "period", "id_type"), "unit")
    tables = _require_section(document, "tables", "", "add [tables.<name>] for each table")
    parsed_tables = {name: _parse_table(name, tables, file.parent) for name in tables}
    return Policy(
        unit=_parse_unit(unit, parsed_tables),
        budget=_parse_budget(unit),
        per=unit["budget"].get("per"),
        allow_large_delta=unit["budget"].get("allow_large_delta", False),
        tables=parsed_tables,
        size=unit.get("size"),
        analysts={name: _parse_share(name, _optional_analysts(document)) for name in _optional_analysts(document)},
        path=file,
        id_type=unit.get("id_type"),
        ledger=document.get("ledger"),
        approval=_optional_approval(document),
    )


def _read_text(file: Path) -> str:
    if not file.is_file():
        raise InvalidPolicy(
            "there is no such policy file", place=str(file), fix="name a TOML file, or draft one with `sfumato init`"
        )
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError:
        content = None
    if content is None:
        raise InvalidPolicy("the policy file cannot be read", place=str(file), fix=_UNREADABLE_FIX)
    if len(content) > MAX_BYTES:
        raise InvalidPolicy(
            "this file has more than 4 MiB, too much for a policy",
            place=str(file),
            fix="check the path; if it is the policy, list fewer values: a text column needs none",
        )
    if not content.strip():
        raise InvalidPolicy("the policy file is empty", place=str(file), fix="draft one with `sfumato init`")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
    fix = "save it as UTF-8" if str(file).endswith(".toml") else "name the policy itself, such as clinic.toml"
    raise InvalidPolicy("a policy file must be UTF-8 text", place=f"{file}, line {line}", fix=fix)


_DECIMAL_COMMA = re.compile(r"=\s*([0-9]{1,9}),([0-9]{1,9})\b")
"""A number with a decimal comma as the value of a key; in a list a comma separates two numbers."""

_LONG_NUMBER = re.compile(r"[0-9_]{1000,}|[0-9][eE][+-]?[0-9_]{9,}")
"""A number that Python refuses to read: by its digits, or by those of its exponent."""


def _parse_toml(text: str, place: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        rule = f"this is not valid TOML: {error}"
        fix = "correct that line" if " (at line " in str(error) else "correct the file"
        if re.search(r"key|statement|declaration", str(error)):
            fix += "; write names with spaces or accents in double quotes"
        if str(error).startswith("Cannot "):
            fix = "declare each key and each section only once"
        comma = _DECIMAL_COMMA.search(text)
        if comma is not None and str(text.count("\n", 0, comma.start()) + 1) in re.findall(r"line (\d+)", str(error)):
            fix = f"write the number with a decimal point: {comma[1]}.{comma[2]}"
    except (ValueError, ArithmeticError):
        number = _LONG_NUMBER.search(text)
        place = place if number is None else f"{place}, line {text.count(chr(10), 0, number.start()) + 1}"
        rule, fix = "a number has too many digits", "write it with fewer digits"
    except RecursionError:
        rule, fix = "this file is nested too deeply", "use at most four levels"
    raise InvalidPolicy(rule, place=place, fix=fix)


def _require_section(parent: Mapping[str, Any], name: str, place: str, fix: str) -> dict[str, Any]:
    """Return a TOML table that must exist and not be empty."""
    path = f"{place}.{name}" if place else name
    if name not in parent:
        raise InvalidPolicy(f"{name} is missing", place=path, fix=fix)
    if not isinstance(parent[name], dict) or not parent[name]:
        raise InvalidPolicy(f"{name} must be a section with at least one key", place=path, fix=fix)
    return parent[name]


def _optional_analysts(document: Mapping[str, Any]) -> dict[str, Any]:
    fix = "write [analysts.<name>] with share = 0.5 below it, or remove analysts"
    return _require_section(document, "analysts", "", fix) if "analysts" in document else {}


def _optional_approval(document: Mapping[str, Any]) -> ApprovalRules | None:
    fix = "write [approval] with approvals = 1 below it, or remove approval"
    section = _require_section(document, "approval", "", fix) if "approval" in document else None
    return None if section is None else ApprovalRules.parse(section)


def _parse_unit(section: Mapping[str, Any], tables: Mapping[str, Table]) -> PrivacyUnit:
    if "name" not in section:
        raise InvalidPolicy("the unit needs a name", place="unit.name", fix='name whom you protect: name = "patient"')
    rows = next((table.every_row for table in tables.values() if not table.public), False)
    column, every = _parse_period(section)
    return with_policy_path(
        "unit", lambda: PrivacyUnit(section["name"], every_row=rows, period=every, period_column=column)
    )


def _parse_period(unit: Mapping[str, Any]) -> tuple[str, str] | tuple[None, None]:
    """Return the column and the length of the unit's periods, or two Nones."""
    if "period" not in unit:
        return None, None
    section = _require_section(unit, "period", "unit", _PERIOD_FIX)
    check_keys(section, ("column", "every"), "unit.period")
    for name in ("column", "every"):
        if name not in section:
            raise InvalidPolicy(
                "a period needs its column and its length", place=f"unit.period.{name}", fix=_PERIOD_FIX
            )
    check_name(section["column"], "a column", "unit.period.column")
    if section["every"] not in PERIODS:
        raise InvalidPolicy("a period must be a day, a week or a month", place="unit.period.every", fix=_PERIOD_FIX)
    return section["column"], section["every"]


def _parse_budget(unit: Mapping[str, Any]) -> Budget:
    section = _require_section(unit, "budget", "unit", "write budget = { epsilon = 3.0, delta = 1e-6 }")
    check_keys(section, ("epsilon", "delta", "reserve", "order", *_POLICY_KEYS), "unit.budget")
    if "epsilon" not in section:
        raise InvalidPolicy(
            "a budget needs an epsilon",
            place="unit.budget.epsilon",
            fix="add epsilon = 3.0, for example: the privacy loss that you accept for all answers together",
        )
    relation = unit.get("neighbours", "add-remove")
    if relation not in ("add-remove", "replace"):
        raise InvalidPolicy(
            'neighbours must be "add-remove" or "replace"',
            place="unit.neighbours",
            fix='write neighbours = "add-remove"',
        )
    amounts = {name: amount for name, amount in section.items() if name not in _POLICY_KEYS}
    return with_policy_path("unit.budget", lambda: Budget(**amounts, neighbours=relation))


def _parse_share(name: str, analysts: Mapping[str, Any]) -> Any:
    section = _require_section(
        analysts, name, "analysts", f"write [analysts.{toml_key(name)}] with share = 0.5 below it"
    )
    check_keys(section, ("share",), f"analysts.{name}")
    return section["share"]


def _parse_table(name: str, tables: Mapping[str, Any], folder: Path) -> Table:
    place = f"tables.{name}"
    section = dict(_require_section(tables, name, "tables", 'write source = "<file>" under it'))
    check_keys(section, _TABLE_KEYS, place)
    source = section.pop("source", None)
    if not isinstance(source, str) or not source or "\0" in source:
        raise InvalidPolicy(
            "a table needs a source",
            place=f"{place}.source",
            fix=f'write for example source = "{name[:60]}.parquet": a CSV, Parquet or DuckDB file, relative to the '
            "policy file's folder",
        )
    return Table(name, source if "://" in source else folder / source, **section)


def to_toml(policy: Policy, folder: Path, notes: Mapping[tuple[str, str], str] = MappingProxyType({})) -> str:
    """Return the TOML of a policy.

    Args:
        folder: the folder of the file; sources are written relative to it.
        notes: comments on columns, by table and column.
    """
    unit_keys: dict[str, Any] = {
        "name": policy.unit.name,
        "neighbours": policy.neighbours.value,
        "budget": {
            **_budget_keys(policy.budget),
            "per": policy.per,
            "allow_large_delta": policy.allow_large_delta or None,
        },
        "size": policy.size,
        "period": policy.unit.period and {"column": policy.unit.period_column, "every": policy.unit.period},
        "id_type": policy.id_type and policy.id_type.value,
    }
    sections = [
        "# Everything in this file is public: none of it may be taken from the data.",
        _write_section("unit", unit_keys, _UNIT_NOTES),
    ]
    sections += [_table_sections(table, folder, notes) for table in policy.tables.values()]
    sections += [
        _write_section(f"analysts.{toml_value(name)}", {"share": share}) for name, share in policy.analysts.items()
    ]
    sections += [] if policy.approval is None else [_write_section("approval", policy.approval.declared)]
    return "\n".join(sections)


_UNIT_NOTES = {
    "name": "The unit to protect, as a word that is printed with every answer.",
    "neighbours": '"add-remove" hides whether a unit is in the data; "replace" is for a public number of units (size).',
    "budget": "What all answers together may reveal about one unit, for life. More epsilon means less noise.",
    "size": "The publicly known number of units, used to forecast errors.",
}
_TABLE_NOTES = {
    "source": "Where the rows are, relative to this file.",
    "id": 'The unit of a row: a column, "row" if every row is a unit, or { via = "<table>", on = "<column>" }.',
    "max_rows": "The most rows of one unit that count in a query. A lower limit means less noise, but omits more rows.",
    "public": "This table is not about the protected units: everything in it may be shown.",
}
_COLUMN_NOTE = (
    "The columns that queries may use: a type, and bounds = [low, high] for numbers and dates, or values = [...].\n"
    '# To publish a column of numbers or dates, add bins = 11, or bins = [0, 18, 65], or for dates bins = "month".\n'
    "# A number without bounds cannot be summed. GROUP BY a text column without values needs a delta."
)


def _budget_keys(budget: Budget) -> dict[str, Any]:
    """Return the declared keys of a budget; a default reserve and order are left out."""
    amounts = {"epsilon": budget.epsilon, "delta": budget.delta}
    if Budget(budget.epsilon, budget.delta, neighbours=budget.neighbours) == budget:
        return amounts if budget.delta else {"epsilon": budget.epsilon}
    return {**amounts, "reserve": budget.reserve, "order": budget.order}


def _table_sections(table: Table, folder: Path, notes: Mapping[tuple[str, str], str]) -> str:
    if isinstance(table.source, InMemory | SparkFrame):
        raise InvalidPolicy(
            "a table in memory cannot be written to a policy file",
            place=f"tables.{table.name}.source",
            fix="save the table to a file, and name that file as source",
        )
    limits = ("id", "max_rows", "max_groups", "max_rows_per_group", "possible_rows")
    keys = {name: getattr(table, name) for name in limits if not table.every_row or name == "id"}
    keys |= {"id": _via_keys(table.id)} if isinstance(table.id, Via) else {}
    on_server = isinstance(table.source, OnServer)
    source = table.source.address if on_server else os.path.relpath(table.source.path, folder)
    server_keys = (
        {name: getattr(table.source, name, None) for name in ("path", "format", "version")} if on_server else {}
    )
    ceiling = None if table.row_ceiling == ROW_CEILING else table.row_ceiling
    table_keys = {
        "source": source,
        "relation": table.relation,
        **server_keys,
        **keys,
        "row_ceiling": ceiling,
        "public": table.public or None,
        "period": table.period and {"column": table.period},
        "impossible": table.impossible or None,
        "implies": table.implies or None,
        "nulls": table.nulls or None,
    }
    section = _write_section(f"tables.{toml_key(table.name)}", table_keys, _TABLE_NOTES)
    if table.has_columns:
        coding_keys = {name: _coding_keys(table.columns[name], coding) for name, coding in table.codings.items()}
        rule_keys = {name: rules.keys for name, rules in table.rules.items()}
        columns = {
            name: {**_column_keys(domain), **coding_keys.get(name, {}), **rule_keys.get(name, {})}
            for name, domain in table.columns.items()
        }
        columns |= {
            name: {**_column_keys(list_column.items), "most_items": list_column.max_items}
            for name, list_column in table.lists.items()
        }
        column_notes = {column: note for (name, column), note in notes.items() if name == table.name}
        section += f"# {_COLUMN_NOTE}\n" + _write_section(
            f"tables.{toml_key(table.name)}.columns", columns, column_notes
        )
    return section


def _via_keys(path: Via) -> dict[str, Any]:
    return {"via": path.via, "on": path.on, "key": None if path.key == path.on else path.key}


def _column_keys(domain: Domain) -> dict[str, Any]:
    return {
        "type": domain.type.value,
        "bounds": domain.bounds,
        "values": domain.values,
        "grid": domain.grid,
        "nullable": domain.nullable or None,
        "max_length": domain.max_length,
        "other": domain.other,
    }


def _coding_keys(domain: Domain, coding: Coding) -> dict[str, Any]:
    """Return the keys of a coding in their shortest notation: a number of bins, a period or edges; nested values."""
    if not coding.starts:
        return {"levels": _nested_values(domain, coding) if coding.levels else None}
    edges = tuple(edge for edge in (*coding.starts, coding.end) if edge is not None)
    short_notations = (len(coding.starts), *(CALENDAR_PERIODS if domain.type.temporal else ()))
    notation = next((short for short in short_notations if _parses_to_same_bins(domain, short, coding)), edges)
    levels = tuple(level.name or _level_edges(coding, level.parts[len(coding.spikes) :]) for level in coding.levels)
    return {"bins": notation, "levels": levels or None, "spikes": coding.spikes or None}


def _nested_values(domain: Domain, coding: Coding) -> Any:
    """Return the values nested by level, in mappings where parts have names; the outermost is the coarsest level.

    The value ``other`` is left out if it is by itself the last part of every level, which is its default.
    """
    values = domain.values or ()
    omitted = [
        index for index, value in enumerate(values) if value == domain.other and _is_last_part_alone(coding, index)
    ]

    def nest(indices: list[int], depth: int) -> Any:
        if depth < 0:
            return tuple(values[index] for index in indices)
        level = coding.levels[depth]
        parts = sorted({level.parts[index] for index in indices})
        nested_parts = [nest([index for index in indices if level.parts[index] == part], depth - 1) for part in parts]
        return (
            dict(zip((level.labels[part] for part in parts), nested_parts, strict=True))
            if level.labels
            else tuple(nested_parts)
        )

    return nest([index for index in range(len(values)) if index not in omitted], len(coding.levels) - 1)


def _is_last_part_alone(coding: Coding, index: int) -> bool:
    """Return whether a value is by itself the last part of every level."""
    return all(
        level.parts[index] == max(level.parts) and level.parts.count(level.parts[index]) == 1 for level in coding.levels
    )


def _level_edges(coding: Coding, parts: tuple[int, ...]) -> tuple[Value, ...]:
    """Return the edges of a level: the starts of bins that begin a new part, and the end."""
    previous_parts = (None, *parts)
    starts = (
        start for start, part, previous in zip(coding.starts, parts, previous_parts, strict=False) if part != previous
    )
    return (*starts, *([] if coding.end is None else [coding.end]))


def _parses_to_same_bins(domain: Domain, notation: Any, coding: Coding) -> bool:
    try:
        parsed = parse_coding(domain, notation, None)
    except InvalidParameter:
        return False
    return (parsed.starts, parsed.end) == (coding.starts, coding.end)


def _write_section(title: str, keys: Mapping[str, Any], notes: Mapping[str, str] = MappingProxyType({})) -> str:
    lines = [
        (f"# {notes[key]}\n" if key in notes else "") + f"{toml_key(key)} = {toml_value(value)}"
        for key, value in keys.items()
        if value is not None
    ]
    return "\n".join([f"[{title}]", *lines, ""])


def toml_key(name: str) -> str:
    """Return a TOML key, quoted unless it has only ASCII letters, digits, _ and -."""
    return name if _BARE_KEY.fullmatch(name) else toml_value(name)


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_value(value: Value | Mapping[str, Any] | tuple[Any, ...]) -> str:
    """Write a value as TOML does; a tuple is an array."""
    if isinstance(value, Mapping):
        return (
            "{ "
            + ", ".join(f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items() if item is not None)
            + " }"
        )
    if isinstance(value, tuple):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Fraction):
        number_text = format_exact(value)
        return toml_value(number_text) if "/" in number_text else number_text
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat()
    return str(value)


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
_FORMAT_RULE = (
    'this line is not SmartNoise metadata: it must be an indented key, such as "age:" with "  type: int" on the next '
    "line"
)


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
    except OSError:
        text = None
    except UnicodeDecodeError:
        raise InvalidPolicy("this file must be UTF-8 text", place=str(file), fix="save it as UTF-8") from None
    if text is None:
        raise InvalidPolicy("this file cannot be read", place=str(file), fix=_UNREADABLE_FIX)
    tables: dict[str, SmartNoiseTable] = {}
    for schemas in _submappings(_parse_yaml(text, file)).values():
        for schema_tables in _submappings(schemas).values():
            for name, declaration in _submappings(schema_tables).items():
                tables[name] = _parse_smartnoise_table(name, declaration)
    if not tables:
        raise InvalidPolicy(
            "SmartNoise metadata must declare a table within a schema, and this file declares none",
            place=str(file),
            fix="check that the file nests tables under a schema, or name another file",
        )
    return tables


def _parse_smartnoise_table(name: str, declaration: Mapping[str, Any]) -> SmartNoiseTable:
    columns = _submappings(declaration)
    id_columns = [key for key, column in columns.items() if _is_true(column.get("private_id"))]
    if len(id_columns) > 1 or not (id_columns or _is_true(declaration.get("row_privacy"))):
        raise InvalidPolicy(
            "a table must have one column with private_id: true, or set row_privacy: true itself",
            place=name,
            fix="add private_id: true to the column that identifies people, or row_privacy: true to the table",
        )
    max_ids = declaration.get("max_ids", "1")
    if not str(max_ids).isdecimal() or not int(max_ids):
        raise InvalidPolicy(
            "max_ids must be a whole number of at least 1", place=f"{name}.max_ids", fix="write max_ids: 10"
        )
    domains = {
        key: _parse_smartnoise_domain(f"{name}.{key}", column)
        for key, column in columns.items()
        if key not in id_columns
    }
    return SmartNoiseTable(domains, id_columns[0] if id_columns else ROW, int(max_ids) if id_columns else None)


def _parse_smartnoise_domain(place: str, column: Mapping[str, Any]) -> Domain:
    kind = _TYPES.get(str(column.get("type")))
    if kind is None:
        type_names = ", ".join(_TYPES)
        raise InvalidPolicy(
            f"a column must have one of the types {type_names}", place=place, fix="for example, write type: int"
        )
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
        key, value = _unquote(match["key"]), _parse_yaml_scalar(match["value"])
        if value is not None:
            parent[key] = value
            continue
        inner: dict[str, Any] = {}
        parent[key] = inner
        stack.append((indent, inner))
        may_indent = True
    return document


def _parse_yaml_scalar(text: str | None) -> str | None:
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
