"""Expressions and measures in words people read: for explanations, receipts and column names."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.plan.bounding import Limits, Scaled
from sfumato.plan.expressions import Call, Column, Expression
from sfumato.plan.nodes import Aggregate, Count, Distinct, Mean, Measure, Sum
from sfumato.policy import Type
from sfumato.privacy.numbers import shown, text


def words(expression: Expression, names: Mapping[str, str] | None = None) -> str:
    """An expression as SQL, columns called by these names where they have one."""
    if isinstance(expression, Column):
        return (names or {}).get(expression.name, expression.name)
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


def names(plan: Aggregate) -> dict[str, str]:
    """What the columns of a Finish stand for."""
    keys = {f"k{index}": words(key) for index, key in enumerate(plan.keys)}
    return keys | {f"m{index}": measured(each) for index, each in enumerate(plan.measures)}


def measured(measure: Measure) -> str:
    """What a measure counts or adds up."""
    where = f" where {words(measure.where)}" if measure.where is not None else ""
    if isinstance(measure, Count):
        return f"rows{where}"
    if isinstance(measure, Distinct):
        return f"units{where}"
    kind = "sum" if isinstance(measure, Sum) else "mean"
    return f"{kind} of {words(measure.value)}{where}"


def _literal(value: object, kind: Type) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if kind is Type.TEXT or kind.temporal else str(value)


def limits(allowed: Limits) -> str:
    rows, groups = many(allowed.rows, "row"), many(allowed.groups, "group")
    return f"≤ {rows}, ≤ {groups}, ≤ {many(allowed.rows_per_group, 'row')} in a group, of one unit"


def bounds(scaled: Scaled) -> str | None:
    """The range of what is added up, as it is enforced; None for a count."""
    measure = scaled.measure
    if not isinstance(measure, (Sum, Mean)):
        return None
    low, high = (text(end * scaled.step) for end in (scaled.low, scaled.high))
    return f"{words(measure.value)} in [{low}, {high}] in steps of {shown(float(scaled.step))}"


def many(count: int, what: str) -> str:
    """A number of things: 1 row, 2 rows."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
