"""A policy is written as the text of its file, which reads back as the same policy."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.policy.codings import PERIODS, Coding, coding_of
from sfumato.policy.domains import Domain, Value
from sfumato.policy.table_sources import InMemory, OnServer, SparkFrame
from sfumato.policy.values import ROW_CEILING, Policy, Table, Via
from sfumato.privacy import Budget
from sfumato.privacy.numbers import text


def drafted(policy: Policy, folder: Path, notes: Mapping[tuple[str, str], str] = MappingProxyType({})) -> str:
    """Write the TOML that, read from a file in ``folder``, gives this policy back; ``notes`` are comments on columns,
    by table and column.
    """
    unit: dict[str, Any] = {
        "name": policy.unit.name,
        "neighbours": policy.neighbours.value,
        "budget": {**_budget(policy.budget), "per": policy.per},
        "size": policy.size,
        "period": policy.unit.period and {"column": policy.unit.period_column, "every": policy.unit.period},
        "id_type": policy.id_type and policy.id_type.value,
    }
    sections = [
        "# Everything in this file is public: none of it may be taken from the data.",
        _section("unit", unit, _UNIT),
    ]
    sections += [_table(table, folder, notes) for table in policy.tables.values()]
    sections += [_section(f"analysts.{_toml(name)}", {"share": share}) for name, share in policy.analysts.items()]
    return "\n".join(sections)


_UNIT = {
    "name": "Whom we protect, in a word that is printed with every answer.",
    "neighbours": 'add-remove: nobody can tell whether one of them is in the data; or "replace", with their size.',
    "budget": "What all answers together may reveal of one of them, for life: more epsilon, less noise.",
    "size": "How many of them there are, as is publicly known: used to forecast errors.",
}
_TABLE = {
    "source": "Where the rows are, relative to this file.",
    "id": 'Whose row it is: a column, "row" where every row is a unit, or { via = "<table>", on = "<column>" }.',
    "max_rows": "How many rows of one unit count in a question: fewer are less noise, but leave rows out.",
    "public": "About nobody: everything in it may be shown.",
}
_COLUMNS = (
    "What may be asked about: a type, and bounds = [low, high] of numbers and dates, or values = [...].\n"
    '# To publish a column of numbers or dates, cut it into bins = 11, or [0, 18, 65], or of dates "month".\n'
    "# Without bounds a number cannot be added up; without values a text is grouped by only with a delta."
)


def _budget(budget: Budget) -> dict[str, Any]:
    """Write what was chosen: a reserve and an order that follow from the rest are left out."""
    chosen = {"epsilon": budget.epsilon, "delta": budget.delta}
    if Budget(budget.epsilon, budget.delta, neighbours=budget.neighbours) == budget:
        return chosen if budget.delta else {"epsilon": budget.epsilon}
    return {**chosen, "reserve": budget.reserve, "order": budget.order}


def _table(table: Table, folder: Path, notes: Mapping[tuple[str, str], str]) -> str:
    if isinstance(table.source, InMemory | SparkFrame):
        raise InvalidPolicy(
            "a table in memory has no place in a file", place=f"tables.{table.name}.source", fix="save it, then name it"
        )
    limits = ("id", "max_rows", "max_groups", "max_rows_per_group")
    keys = {each: getattr(table, each) for each in limits if not table.every_row or each == "id"}
    keys |= {"id": _via(table.id)} if isinstance(table.id, Via) else {}
    on_server = isinstance(table.source, OnServer)
    source = table.source.address if on_server else os.path.relpath(table.source.path, folder)
    told = {each: getattr(table.source, each, None) for each in ("path", "format", "version")} if on_server else {}
    ceiling = None if table.row_ceiling == ROW_CEILING else table.row_ceiling
    head = {
        "source": source,
        "relation": table.relation,
        **told,
        **keys,
        "row_ceiling": ceiling,
        "public": table.public or None,
        "period": table.period and {"column": table.period},
        "impossible": table.impossible or None,
        "implies": table.implies or None,
    }
    written = _section(f"tables.{toml_key(table.name)}", head, _TABLE)
    if table.declares:
        cells = {name: _cells(table.columns[name], coding) for name, coding in table.codings.items()}
        columns = {name: {**_column(domain), **cells.get(name, {})} for name, domain in table.columns.items()}
        columns |= {name: {**_column(each.items), "most_items": each.most_items} for name, each in table.lists.items()}
        own = {column: note for (name, column), note in notes.items() if name == table.name}
        written += f"# {_COLUMNS}\n" + _section(f"tables.{toml_key(table.name)}.columns", columns, own)
    return written


def _via(path: Via) -> dict[str, Any]:
    return {"via": path.via, "on": path.on, "key": None if path.key == path.on else path.key}


def _column(domain: Domain) -> dict[str, Any]:
    return {
        "type": domain.type.value,
        "bounds": domain.bounds,
        "values": domain.values,
        "grid": domain.grid,
        "nullable": domain.nullable or None,
        "max_length": domain.max_length,
        "other": domain.other,
    }


def _cells(domain: Domain, coding: Coding) -> dict[str, Any]:
    """Write bins as shortly as they may have been written: their number, a part of the calendar, or their edges; of
    listed values, how they are joined.
    """
    if not coding.starts:
        return {"levels": _joined_values(domain, coding) if coding.levels else None}
    edges = tuple(each for each in (*coding.starts, coding.end) if each is not None)
    short = (len(coding.starts), *(PERIODS if domain.type.temporal else ()))
    written = next((each for each in short if _same_bins(domain, each, coding)), edges)
    levels = tuple(each.name or _level_edges(coding, each.parts[len(coding.spikes) :]) for each in coding.levels)
    return {"bins": written, "levels": levels or None, "spikes": coding.spikes or None}


def _joined_values(domain: Domain, coding: Coding) -> Any:
    """Write lists within lists of the values, or tables where parts have names: the outermost is the coarsest level.

    What stands for all other values is left out where it is the last part of every level by itself, as it is then when
    it is not written.
    """
    values = domain.values or ()
    others = [place for place, value in enumerate(values) if value == domain.other and _last_alone(coding, place)]

    def within(places: list[int], deep: int) -> Any:
        if deep < 0:
            return tuple(values[place] for place in places)
        level = coding.levels[deep]
        parts = sorted({level.parts[place] for place in places})
        inner = [within([place for place in places if level.parts[place] == part], deep - 1) for part in parts]
        return dict(zip((level.labels[part] for part in parts), inner, strict=True)) if level.labels else tuple(inner)

    return within([place for place in range(len(values)) if place not in others], len(coding.levels) - 1)


def _last_alone(coding: Coding, place: int) -> bool:
    """Tell whether a value is by itself the last part of every level."""
    return all(
        each.parts[place] == max(each.parts) and each.parts.count(each.parts[place]) == 1 for each in coding.levels
    )


def _level_edges(coding: Coding, parts: tuple[int, ...]) -> tuple[Value, ...]:
    """Find the edges of a level: where bins of another part begin."""
    before = (None, *parts)
    starts = (start for start, part, last in zip(coding.starts, parts, before, strict=False) if part != last)
    return (*starts, *([] if coding.end is None else [coding.end]))


def _same_bins(domain: Domain, written: Any, coding: Coding) -> bool:
    try:
        found = coding_of(domain, written, None)
    except InvalidParameter:
        return False
    return (found.starts, found.end) == (coding.starts, coding.end)


def _section(title: str, keys: Mapping[str, Any], notes: Mapping[str, str] = MappingProxyType({})) -> str:
    lines = [
        (f"# {notes[key]}\n" if key in notes else "") + f"{toml_key(key)} = {_toml(value)}"
        for key, value in keys.items()
        if value is not None
    ]
    return "\n".join([f"[{title}]", *lines, ""])


def toml_key(name: str) -> str:
    """Write a key in TOML: quoted unless it is of plain letters, digits, _ and -."""
    return name if _BARE.fullmatch(name) else _toml(name)


_BARE = re.compile(r"[A-Za-z0-9_-]+")


def _toml(value: Value | Mapping[str, Any] | tuple[Any, ...]) -> str:
    if isinstance(value, Mapping):
        return (
            "{ "
            + ", ".join(f"{toml_key(key)} = {_toml(each)}" for key, each in value.items() if each is not None)
            + " }"
        )
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Fraction):
        shown = text(value)
        return _toml(shown) if "/" in shown else shown
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat()
    return str(value)
