"""Expressions and measures in words people read: for explanations, receipts and column names."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from sfumato.plan.bounding import Bounded, Scaled
from sfumato.plan.expressions import Call, Column, Expression, Field, Key, Reference, Result
from sfumato.plan.limits import Limits, Strategy
from sfumato.plan.measures import Measure
from sfumato.plan.nodes import Aggregate
from sfumato.plan.text_positions import quoted
from sfumato.policy import Type
from sfumato.privacy.numbers import shown, text


def words(expression: Expression, names: Mapping[Reference, str] | None = None) -> str:
    """An expression as SQL, columns called by these names where they have one."""
    if isinstance(expression, Column):
        return (names or {}).get(expression.reference) or _named(expression.reference)
    if not isinstance(expression, Call):
        return _literal(expression.value, expression.domain.type)
    arguments = [words(each, names) for each in expression.arguments]
    name = expression.function
    if name == "CAST":
        return arguments[0]
    if name == "IN":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    if not name[0].isalpha() or name in ("AND", "OR", "LIKE", "ILIKE"):
        return f"({f' {name} '.join(arguments)})"
    return f"{name}({', '.join(arguments)})"


def _named(reference: Reference) -> str:
    """A column's name, after its table's where it is not of the first; quoted where SQL would need it."""
    if not isinstance(reference, Field):
        return str(reference)
    return quoted(reference.name) if reference.source == 0 else f"{quoted(reference.table)}.{quoted(reference.name)}"


def names(plan: Aggregate) -> dict[Reference, str]:
    """What the columns of a Finish stand for."""
    keys: dict[Reference, str] = {Key(index): words(key) for index, key in enumerate(plan.keys)}
    return keys | {Result(index): measured(each) for index, each in enumerate(plan.measures)}


def measured(measure: Measure) -> str:
    """What a measure counts or adds up."""
    of = "" if measure.value is None else f" of {words(measure.value)}"
    return measure.name + of + (f" where {words(measure.where)}" if measure.where is not None else "")


def _literal(value: object, kind: Type) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, Fraction):
        written = text(value)
        return repr(float(value)) if "/" in written else written  # more digits than are read
    return f"'{value}'" if kind.temporal else str(value)


def limits(allowed: Limits) -> str:
    rows, groups = many(allowed.rows, "row"), many(allowed.groups, "group")
    return f"≤ {rows}, ≤ {groups}, ≤ {many(allowed.rows_per_group, 'row')} in a group, of one unit"


def enforced(bounded: Bounded) -> str:
    """The limits of one unit that a bounding keeps: weighting a unit's rows down limits their number in all."""
    if bounded.strategy is Strategy.REWEIGHT:
        return f"≤ {many(bounded.limits.rows, 'row')} of one unit, in all groups together"
    return limits(bounded.limits)


def bounds(scaled: Scaled) -> str | None:
    """The range of what is added up, as it is enforced; None for a count."""
    value = scaled.measure.value
    if value is None:
        return None
    low, high = (text(end * scaled.step) for end in (scaled.low, scaled.high))
    return f"{words(value)} in [{low}, {high}] in steps of {shown(float(scaled.step))}"


def many(count: int, what: str) -> str:
    """A number of things: 1 row, 2 rows."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
