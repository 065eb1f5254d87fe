"""A policy file is read here: TOML becomes a ``Policy``, and every mistake is named by its path in the file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from sfumato.errors import InvalidPolicy
from sfumato.policy.domains import check_keys, check_name
from sfumato.policy.values import PERIODS, Policy, Table, placed
from sfumato.privacy import Budget, PrivacyUnit
from sfumato.untrusted import refusing

MOST_BYTES = 4 << 20
"""Longer texts are no declarations."""

_LIMITS = ("max_rows", "max_groups", "max_rows_per_group", "row_ceiling")
_TABLE = (
    "source",
    "relation",
    "path",
    "format",
    "version",
    "id",
    *_LIMITS,
    "public",
    "columns",
    "period",
    "impossible",
    "implies",
)
_PERIOD = 'write period = { column = "day", every = "day" } ("week" or "month")'


def read(path: str | Path) -> Policy:
    """Read the policy in a TOML file; sources are found relative to it."""
    file = Path(path)
    fix = "write it as the documentation of policies shows"
    with refusing(lambda: InvalidPolicy("what this file declares does not fit together", place=str(file), fix=fix)):
        return _policy(_parsed(_text(file), str(file)), file)


def _policy(written: dict[str, Any], file: Path) -> Policy:
    check_keys(written, ("ledger", "unit", "tables", "analysts"), "")
    unit = _section(written, "unit", "", 'add [unit] with name = "patient" and budget = { epsilon = 3.0 }')
    check_keys(unit, ("name", "neighbours", "budget", "size", "period", "id_type"), "unit")
    tables = _section(written, "tables", "", "add [tables.<name>] for each table")
    found = {name: _table(name, tables, file.parent) for name in tables}
    return Policy(
        unit=_unit(unit, found),
        budget=_budget(unit),
        per=unit["budget"].get("per"),
        tables=found,
        size=unit.get("size"),
        analysts={name: _share(name, _optional(written, "analysts")) for name in _optional(written, "analysts")},
        path=file,
        id_type=unit.get("id_type"),
        ledger=written.get("ledger"),
    )


def _text(file: Path) -> str:
    if not file.is_file():
        raise InvalidPolicy(
            "there is no such policy file", place=str(file), fix="name a TOML file, or draft one with sfumato init"
        )
    try:
        with file.open("rb") as opened:
            written = opened.read(MOST_BYTES + 1)
    except OSError:
        written = None
    if written is None:
        raise InvalidPolicy("the policy file cannot be read", place=str(file), fix="check its permissions")
    if len(written) > MOST_BYTES:
        raise InvalidPolicy(
            "a policy has at most 4 MiB", place=str(file), fix="declare fewer values: text without values is allowed"
        )
    if not written.strip():
        raise InvalidPolicy("the policy file is empty", place=str(file), fix="draft one with sfumato init")
    try:
        return written.decode("utf-8-sig")
    except UnicodeDecodeError as refused:
        line = written.count(b"\n", 0, refused.start) + 1
    fix = "save it as UTF-8" if str(file).endswith(".toml") else "name the policy itself, such as clinic.toml"
    raise InvalidPolicy("a policy is UTF-8 text", place=f"{file}, line {line}", fix=fix)


_DECIMAL_COMMA = re.compile(r"=\s*([0-9]{1,9}),([0-9]{1,9})\b")
"""Of a number that is the value of a key: in a list a comma parts two."""


def _parsed(text: str, place: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as refused:
        rule = f"this is not TOML: {refused}"
        fix = "correct the text at that line; names with spaces or accents stand within double quotes"
        comma = _DECIMAL_COMMA.search(text)
        if comma is not None and str(text.count("\n", 0, comma.start()) + 1) in re.findall(r"line (\d+)", str(refused)):
            fix = f"write the number with a decimal point: {comma[1]}.{comma[2]}"
    except (ValueError, ArithmeticError):
        rule, fix = "a number in this file is too long", "shorten it"
    except RecursionError:
        rule, fix = "this file nests too deep", "a policy needs four levels"
    raise InvalidPolicy(rule, place=place, fix=fix)


def _section(parent: Mapping[str, Any], name: str, place: str, fix: str) -> dict[str, Any]:
    """Read a table of the TOML that must be there and not be empty."""
    at = f"{place}.{name}" if place else name
    if name not in parent:
        raise InvalidPolicy(f"{name} is missing", place=at, fix=fix)
    if not isinstance(parent[name], dict) or not parent[name]:
        raise InvalidPolicy(f"{name} is a section with keys of its own", place=at, fix=fix)
    return parent[name]


def _optional(parent: Mapping[str, Any], name: str) -> dict[str, Any]:
    return _section(parent, name, "", "add [analysts.<name>] with share = 0.5, or remove it") if name in parent else {}


def _unit(written: Mapping[str, Any], tables: Mapping[str, Table]) -> PrivacyUnit:
    if "name" not in written:
        raise InvalidPolicy("the unit has a name", place="unit.name", fix='say whom you protect: name = "patient"')
    rows = next((table.every_row for table in tables.values() if not table.public), False)
    column, every = _period(written)
    return placed("unit", lambda: PrivacyUnit(written["name"], every_row=rows, period=every, period_column=column))


def _period(unit: Mapping[str, Any]) -> tuple[str, str] | tuple[None, None]:
    """Read the column and the length of the periods of a unit, if it has any."""
    if "period" not in unit:
        return None, None
    written = _section(unit, "period", "unit", _PERIOD)
    check_keys(written, ("column", "every"), "unit.period")
    for name in ("column", "every"):
        if name not in written:
            raise InvalidPolicy(
                "a period says by which column and how long it is", place=f"unit.period.{name}", fix=_PERIOD
            )
    check_name(written["column"], "a column", "unit.period.column")
    if written["every"] not in PERIODS:
        raise InvalidPolicy("a period is a day, a week or a month", place="unit.period.every", fix=_PERIOD)
    return written["column"], written["every"]


def _budget(unit: Mapping[str, Any]) -> Budget:
    written = _section(unit, "budget", "unit", "write budget = { epsilon = 3.0, delta = 1e-6 }")
    check_keys(written, ("epsilon", "delta", "reserve", "order", "per"), "unit.budget")
    if "epsilon" not in written:
        raise InvalidPolicy(
            "a budget names its epsilon",
            place="unit.budget.epsilon",
            fix="add epsilon = <the loss you accept for life>",
        )
    relation = unit.get("neighbours", "add-remove")
    if relation not in ("add-remove", "replace"):
        raise InvalidPolicy(
            "neighbours are add-remove or replace", place="unit.neighbours", fix='write neighbours = "add-remove"'
        )
    amounts = {name: each for name, each in written.items() if name != "per"}
    return placed("unit.budget", lambda: Budget(**amounts, neighbours=relation))


def _share(name: str, analysts: Mapping[str, Any]) -> Any:
    written = _section(analysts, name, "analysts", "write share = 0.5")
    check_keys(written, ("share",), f"analysts.{name}")
    return written["share"]


def _table(name: str, tables: Mapping[str, Any], folder: Path) -> Table:
    place = f"tables.{name}"
    written = dict(_section(tables, name, "tables", 'write source = "<file>" under it'))
    check_keys(written, _TABLE, place)
    source = written.pop("source", None)
    if not isinstance(source, str) or not source or "\0" in source:
        raise InvalidPolicy(
            "a table names its source",
            place=f"{place}.source",
            fix='write source = "visits.parquet", a CSV, Parquet or DuckDB file relative to this one',
        )
    return Table(name, source if "://" in source else folder / source, **written)
