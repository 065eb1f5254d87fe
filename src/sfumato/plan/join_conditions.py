"""Which side of a join a condition reads."""

from __future__ import annotations

from sfumato.plan.nodes import Relation
from sfumato.plan.values.expressions import Call, Expression, ReleasedValue, columns, conjuncts


def reads_one_side(expression: Expression, *sides: Relation) -> bool:
    """Return whether an expression reads columns of a single one of the relations."""
    read = {reference for reference in columns(expression) if not isinstance(reference, ReleasedValue)}
    return any(side.columns.keys() >= read for side in sides)


def is_separable(condition: Expression, left: Relation, right: Relation) -> bool:
    """Return whether a join condition can be evaluated from columns computed on each side alone: each conjunct reads
    one side, or compares an expression over one side with an expression over the other.
    """
    return all(
        reads_one_side(conjunct, left, right)
        or (
            isinstance(conjunct, Call)
            and conjunct.function in COMPARISONS
            and all(reads_one_side(operand, left, right) for operand in conjunct.arguments)
        )
        for conjunct in conjuncts(condition)
    )


COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "BETWEEN")
