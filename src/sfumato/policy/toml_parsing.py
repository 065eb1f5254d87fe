"""Parse policy files: TOML becomes a ``Policy``, and every error names its path in the file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from sfumato.errors import InvalidPolicy
from sfumato.policy.approval_rules import ApprovalRules
from sfumato.policy.declared_columns import with_policy_path
from sfumato.policy.domains import check_keys, check_name
from sfumato.policy.policies import PERIODS, Policy, Table
from sfumato.privacy import Budget, PrivacyUnit
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
_PERIOD_FIX = 'write period = { column = "day", every = "day" } ("week" or "month")'


def read(path: str | Path) -> Policy:
    """Parse the policy in a TOML file; relative sources are resolved against its folder.

    Raises:
        InvalidPolicy: with the path of the wrong key and what to write instead.
    """
    file = Path(path)
    fix = "compare it with docs/how-to/write-a-policy.md"
    with refuse_malformed(
        lambda: InvalidPolicy("the declarations of this file are inconsistent", place=str(file), fix=fix)
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
            "there is no such policy file", place=str(file), fix="name a TOML file, or draft one with sfumato init"
        )
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError:
        content = None
    if content is None:
        raise InvalidPolicy("the policy file cannot be read", place=str(file), fix="check its permissions")
    if len(content) > MAX_BYTES:
        raise InvalidPolicy(
            "a policy file has at most 4 MiB", place=str(file), fix="list fewer values: a text column needs none"
        )
    if not content.strip():
        raise InvalidPolicy("the policy file is empty", place=str(file), fix="draft one with sfumato init")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
    fix = "save it as UTF-8" if str(file).endswith(".toml") else "name the policy itself, such as clinic.toml"
    raise InvalidPolicy("a policy file is UTF-8 text", place=f"{file}, line {line}", fix=fix)


_DECIMAL_COMMA = re.compile(r"=\s*([0-9]{1,9}),([0-9]{1,9})\b")
"""A number with a decimal comma as the value of a key; in a list a comma separates two numbers."""


def _parse_toml(text: str, place: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        rule = f"this is not valid TOML: {error}"
        fix = "correct that line; write names with spaces or accents in double quotes"
        comma = _DECIMAL_COMMA.search(text)
        if comma is not None and str(text.count("\n", 0, comma.start()) + 1) in re.findall(r"line (\d+)", str(error)):
            fix = f"write the number with a decimal point: {comma[1]}.{comma[2]}"
    except (ValueError, ArithmeticError):
        rule, fix = "a number in this file is too long", "shorten it"
    except RecursionError:
        rule, fix = "this file is nested too deeply", "use at most four levels"
    raise InvalidPolicy(rule, place=place, fix=fix)


def _require_section(parent: Mapping[str, Any], name: str, place: str, fix: str) -> dict[str, Any]:
    """Return a TOML table that must exist and not be empty."""
    path = f"{place}.{name}" if place else name
    if name not in parent:
        raise InvalidPolicy(f"{name} is missing", place=path, fix=fix)
    if not isinstance(parent[name], dict) or not parent[name]:
        raise InvalidPolicy(f"{name} must be a section with keys", place=path, fix=fix)
    return parent[name]


def _optional_analysts(document: Mapping[str, Any]) -> dict[str, Any]:
    fix = "add [analysts.<name>] with share = 0.5, or remove it"
    return _require_section(document, "analysts", "", fix) if "analysts" in document else {}


def _optional_approval(document: Mapping[str, Any]) -> ApprovalRules | None:
    fix = "add [approval] with approvals = 1, or remove it"
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
        raise InvalidPolicy("a period is a day, a week or a month", place="unit.period.every", fix=_PERIOD_FIX)
    return section["column"], section["every"]


def _parse_budget(unit: Mapping[str, Any]) -> Budget:
    section = _require_section(unit, "budget", "unit", "write budget = { epsilon = 3.0, delta = 1e-6 }")
    check_keys(section, ("epsilon", "delta", "reserve", "order", *_POLICY_KEYS), "unit.budget")
    if "epsilon" not in section:
        raise InvalidPolicy(
            "a budget needs an epsilon",
            place="unit.budget.epsilon",
            fix="add epsilon = <the privacy loss you accept for life>",
        )
    relation = unit.get("neighbours", "add-remove")
    if relation not in ("add-remove", "replace"):
        raise InvalidPolicy(
            "neighbours are add-remove or replace", place="unit.neighbours", fix='write neighbours = "add-remove"'
        )
    amounts = {name: amount for name, amount in section.items() if name not in _POLICY_KEYS}
    return with_policy_path("unit.budget", lambda: Budget(**amounts, neighbours=relation))


def _parse_share(name: str, analysts: Mapping[str, Any]) -> Any:
    section = _require_section(analysts, name, "analysts", "write share = 0.5")
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
            fix='write source = "visits.parquet", a CSV, Parquet or DuckDB file relative to this one',
        )
    return Table(name, source if "://" in source else folder / source, **section)
