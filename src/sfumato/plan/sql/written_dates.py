"""Dates as PostgreSQL's clients write them: TO_DATE and TO_TIMESTAMP of a literal with PostgreSQL's own format.

Superset writes the ends of every time range so. Only a literal is read: a column's texts are parsed by STRPTIME.
"""

from __future__ import annotations

import datetime as dt
import re

from sqlglot import exp

from sfumato.plan.sql.text_positions import refusal_at

_DIRECTIVES = {
    "YYYY": "%Y",
    "MM": "%m",
    "DD": "%d",
    "HH24": "%H",
    "MI": "%M",
    "SS": "%S",
    "US": "%f",
    "MS": "%f",
}
"""The strptime directive of each pattern of PostgreSQL that is known here."""
_PATTERN = re.compile("|".join(_DIRECTIVES) + r'|"[^"]*"|.', re.DOTALL)
_SEPARATORS = frozenset(" -/.:,")


def fold_written_dates(statement: exp.Expr) -> None:
    """Replace each TO_DATE and TO_TIMESTAMP of two literals by the date or timestamp that it means."""
    for node in [*statement.find_all(exp.Anonymous, exp.UnixToTime)]:
        is_date = isinstance(node, exp.Anonymous) and node.name.lower() == "to_date"
        arguments = node.expressions if isinstance(node, exp.Anonymous) else [node.this, node.args.get("scale")]
        if (
            (is_date or isinstance(node, exp.UnixToTime))
            and len(arguments) == 2
            and all(map(_is_text_literal, arguments))
        ):
            moment = _parse_written(node, arguments[0].name, arguments[1].name)
            value = moment.date().isoformat() if is_date else moment.isoformat(sep=" ")
            node.replace(exp.cast(exp.Literal.string(value), "DATE" if is_date else "TIMESTAMP"))


def _is_text_literal(node: object) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _parse_written(node: exp.Expr, text: str, pattern: str) -> dt.datetime:
    directives = _strptime_format(pattern)
    try:
        return dt.datetime.strptime(text, directives) if directives else _raise_unreadable_date(node)
    except ValueError:
        return _raise_unreadable_date(node)


def _strptime_format(pattern: str) -> str:
    """Return the format in strptime's letters; empty if a part of it is not known."""
    parts = _PATTERN.findall(pattern)
    known = [_DIRECTIVES.get(part) or _plain_format_part(part) for part in parts]
    return "" if None in known else "".join(map(str, known))


def _plain_format_part(part: str) -> str | None:
    if part in _SEPARATORS:
        return part
    return part[1:-1].replace("%", "%%") if part.startswith('"') and len(part) > 1 else None


def _raise_unreadable_date(node: exp.Expr) -> dt.datetime:
    raise refusal_at(
        node,
        "date-literal",
        "this text is not a date in this format; the supported parts of a format are YYYY, MM, DD, HH24, MI, SS, "
        "MS and US",
        "write the date as DATE '2024-01-31' or TIMESTAMP '2024-01-31 12:00:00'",
    )
