"""COUNT(DISTINCT a, b): several values of a row as one text that tells them apart.

*Claim.* Rows have equal texts if and only if they have equal values, so the distinct texts are as many as the distinct
tuples, and whatever is proved of counting the distinct values of one expression holds of tuples: a unit with at most k
rows changes at most k of them. *Proof.* The types of the parts are fixed by the question. A text is written after its
length and a colon; a whole number, boolean, date or time is written with letters that no semicolon is among, and ends
with one; NULL is the letter n, with which nothing else begins. So the parts can be read back one after the other. ∎
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sfumato.plan.sql.text_positions import node_text, refusal_at
from sfumato.plan.values.expressions import Expression
from sfumato.plan.values.functions import call, literal
from sfumato.plan.values.functions.textual import LONGEST
from sfumato.policy import Type

MAX_PARTS = 20


def counted_nodes(argument: exp.Distinct) -> list[exp.Expr]:
    """Return the expressions whose tuples DISTINCT counts: DISTINCT a, b or DISTINCT (a, b)."""
    return (
        list(argument.expressions[0].expressions) if _is_parenthesised_tuple(argument) else list(argument.expressions)
    )


def lower_distinct_tuple(argument: exp.Distinct, read: Callable[[exp.Expr], Expression]) -> Expression:
    """Lower what DISTINCT counts to one expression.

    A row (a, b) is a value even where a part of it is NULL; of DISTINCT a, b only rows without a NULL count.
    """
    nodes = counted_nodes(argument)
    if len(nodes) == 1:
        return read(nodes[0])
    if not 2 <= len(nodes) <= MAX_PARTS:
        rule = f"COUNT(DISTINCT …) takes 1 to {MAX_PARTS} expressions"
        raise refusal_at(argument, "distinct", rule, "name the columns: COUNT(DISTINCT a, b)")
    parts = [_encode_as_text(read(node), node, null_counts=_is_parenthesised_tuple(argument)) for node in nodes]
    if sum(part.domain.max_letters for part in parts) > LONGEST:
        rule = f"the texts counted by COUNT(DISTINCT …) can have at most {LONGEST:,} characters together"
        raise refusal_at(argument, "distinct", rule, f"shorten them: LEFT({node_text(nodes[0])}, 100)")
    return call("||", *parts)


def _is_parenthesised_tuple(argument: exp.Distinct) -> bool:
    return len(argument.expressions) == 1 and isinstance(argument.expressions[0], exp.Tuple)


def _encode_as_text(value: Expression, node: exp.Expr, *, null_counts: bool) -> Expression:
    """Write a value as a text that no other value of its type has, and that shows where it ends."""
    if value.domain.type is Type.REAL:
        rule = f"{node_text(node)} is a real number, and the text of a real number differs between databases"
        raise refusal_at(node, "distinct", rule, f"count whole numbers: CAST({node_text(node)} AS BIGINT)")
    if value.domain.type is Type.TEXT:
        encoded = call("||", _as_text(call("LENGTH", value)), literal(Type.TEXT, ":"), value)
    else:
        encoded = call("||", _as_text(value), literal(Type.TEXT, ";"))
    return call("COALESCE", encoded, literal(Type.TEXT, "n")) if null_counts else encoded


def _as_text(value: Expression) -> Expression:
    return call("CAST", value, literal(Type.TEXT, Type.TEXT.value))
