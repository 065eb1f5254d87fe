"""Clicks become a question in SQL that can be seen, changed and learned from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sfumato.errors import InvalidParameter
from sfumato.plan.written_names import quoted
from sfumato.policy import Type
from sfumato.policy.public_faces import PublicColumn, PublicFace, PublicTable
from sfumato.server.pages.browser_sessions import Form
from sfumato.server.pages.page_contexts import Clicks, Option

ROWS, UNITS = "rows", "units"
_FUNCTIONS = {"average": "AVG", "sum": "SUM", "median": "MEDIAN"}
_COMPARED = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_TEMPORAL = {Type.DATE: "DATE ", Type.TIMESTAMP: "TIMESTAMP "}


@dataclass(frozen=True)
class Clicked:
    """This is what was clicked: the names of fields and of what was chosen in them, by their places in the policy."""

    table: str = "0"
    measure: str = ROWS
    measured: str = ""
    keys: tuple[str, ...] = ()
    filtered: str = ""
    comparison: str = "eq"
    value: str = ""

    @classmethod
    def of(cls, form: Form) -> Clicked:
        """Read the clicks that a form holds."""
        return cls(
            form.one("table") or "0",
            form.one("measure") or ROWS,
            form.one("measured"),
            form.every("key"),
            form.one("filtered"),
            form.one("comparison") or "eq",
            form.one("value"),
        )


def clicks(face: PublicFace, clicked: Clicked, *, opened: bool) -> Clicks:
    """List what can be clicked of a policy, with what was."""
    tables = _private(face)
    numeric = {place: _options(place, table, _adds_up, (clicked.measured,)) for place, table in tables.items()}
    names = {place: table.name for place, table in tables.items()}
    unit = face.unit.name
    offered = {ROWS: "number of rows", UNITS: f"number of each {unit} once", **{each: each for each in _FUNCTIONS}}
    if not any(table.id for table in tables.values()):
        del offered[UNITS]
    return Clicks(
        tuple(Option(place, name, place == clicked.table) for place, name in names.items()),
        tuple(Option(value, title, value == clicked.measure) for value, title in offered.items()),
        {names[place]: each for place, each in numeric.items()},
        {names[place]: _options(place, each, _tells_apart, clicked.keys) for place, each in tables.items()},
        {names[place]: _options(place, each, _any, (clicked.filtered,)) for place, each in tables.items()},
        tuple(Option(value, sign, value == clicked.comparison) for value, sign in _COMPARED.items()),
        clicked.value,
        opened,
    )


def written_sql(face: PublicFace, clicked: Clicked) -> str:
    """Write the question that was clicked together."""
    tables = _private(face)
    if clicked.table not in tables:
        raise InvalidParameter("table", clicked.table, "one of the tables of this policy")
    table = tables[clicked.table]
    keys = [quoted(_column(clicked.table, table, each, "for each").name) for each in clicked.keys]
    selected = [*keys, _measure(clicked, table)]
    lines = [f"SELECT {', '.join(selected)}", f"FROM {quoted(table.name)}"]
    if clicked.filtered:
        lines.append(f"WHERE {_condition(clicked, _column(clicked.table, table, clicked.filtered, 'only where'))}")
    if keys:
        lines.append(f"GROUP BY {', '.join(keys)}")
    return "\n".join(lines)


def _private(face: PublicFace) -> Mapping[str, PublicTable]:
    return {str(place): table for place, table in enumerate(face.tables) if not table.public}


def _options(place: str, table: PublicTable, fits: object, chosen: Iterable[str]) -> tuple[Option, ...]:
    known = set(chosen)
    return tuple(
        Option(value, column.name, value in known)
        for index, column in enumerate(table.columns)
        if fits(column)  # type: ignore[operator]
        for value in [f"{place}.{index}"]
    )


def _any(column: PublicColumn) -> bool:
    return column.most_items is None


def _adds_up(column: PublicColumn) -> bool:
    return _any(column) and column.domain.type.numeric


def _tells_apart(column: PublicColumn) -> bool:
    return _any(column) and (column.domain.values is not None or column.domain.type in (Type.BOOLEAN, Type.INTEGER))


def _column(place: str, table: PublicTable, chosen: str, field: str) -> PublicColumn:
    for index, column in enumerate(table.columns):
        if chosen == f"{place}.{index}":
            return column
    raise InvalidParameter(field, chosen, f"a column of the table that is asked, {table.name}")


def _measure(clicked: Clicked, table: PublicTable) -> str:
    if clicked.measure == ROWS:
        return "COUNT(*) AS n"
    if clicked.measure == UNITS:
        if not table.id:
            raise InvalidParameter("show", UNITS, f"rows: {table.name} has no column that says whose a row is")
        return f"COUNT(DISTINCT {quoted(table.id)}) AS n"
    if clicked.measure not in _FUNCTIONS:
        raise InvalidParameter("show", clicked.measure, f"one of {', '.join([ROWS, UNITS, *_FUNCTIONS])}")
    column = quoted(_column(clicked.table, table, clicked.measured, "of which column").name)
    return f"{_FUNCTIONS[clicked.measure]}({column}) AS {clicked.measure}"


def _condition(clicked: Clicked, column: PublicColumn) -> str:
    if clicked.comparison not in _COMPARED:
        raise InvalidParameter("comparison", clicked.comparison, f"one of {', '.join(_COMPARED.values())}")
    return f"{quoted(column.name)} {_COMPARED[clicked.comparison]} {_literal(clicked.value, column.domain.type)}"


def _literal(value: str, kind: Type) -> str:
    """Write a value as SQL has it; what is no number is written as a text, which the question then refuses."""
    if kind is Type.BOOLEAN and value.lower() in ("true", "false"):
        return value.upper()
    if kind.numeric and value.removeprefix("-").replace(".", "", 1).isdecimal() and value.isascii():
        return value
    text = "'" + value.replace("'", "''") + "'"
    return _TEMPORAL.get(kind, "") + text
