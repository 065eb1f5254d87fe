"""What a question may miss because nobody declared it, told from the policy and the plan alone.

A cell that is none of its column's declared values is missing (NULL) once it is scanned, unless the column names an
``other``. So a condition that such a cell would meet loses its row, a group that is not there for NULL loses it too,
and a literal that is no declared value is met by no row. None of it depends on data, and none of it costs anything.
"""

from __future__ import annotations

from collections.abc import Iterator

from sfumato.plan.costs import expressions
from sfumato.plan.expressions import Call, Column, Expression, Literal, walk
from sfumato.plan.functions import never_null
from sfumato.plan.nodes import Query
from sfumato.plan.words import words
from sfumato.policy import Type

_EQUAL = ("=", "IN")
_TESTS = ("=", "IN", "<>", "<", "<=", ">", ">=", "BETWEEN", "LIKE", "ILIKE", "STARTS_WITH", "IS NULL")
_MOST = 10
"""Sentences shown: a question with more of them says the same again and again."""


def undeclared(query: Query) -> tuple[str, ...]:
    """Sentences about literals that no row equals, and about rows that conditions and groups leave out."""
    found = [sentence for made in expressions(query.plan) for sentence in _literals(made)]
    found += [sentence for made in expressions(query.plan) for sentence in _conditions(made, positive=True)]
    found += [sentence for key in query.plan.keys for sentence in _group(key)]
    return tuple(dict.fromkeys(found))[:_MOST]


def _literals(made: Expression) -> Iterator[str]:
    for node in walk(made):
        if not isinstance(node, Call) or node.function not in ("=", "<>", "IN"):
            continue
        named = [each for each in node.arguments if isinstance(each, Column)]
        for column in named[:1]:
            yield from (_unmet(column, each) for each in node.arguments if _unknown(column, each))


def _unknown(column: Column, found: Expression) -> bool:
    """Whether this is a literal that the column never equals."""
    if not isinstance(found, Literal) or found.value is None:
        return False
    domain = column.domain
    if domain.values is not None:
        return found.value not in domain.values
    return domain.bounds is not None and not domain.bounds[0] <= found.value <= domain.bounds[1]  # type: ignore[operator]


def _unmet(column: Column, found: Expression) -> str:
    if column.domain.values is None:
        return f"{words(found)} lies outside the declared bounds of {column.name}: no row equals it."
    return f"{words(found)} is not among the declared values of {column.name}: no row equals it."


def _conditions(made: Expression, *, positive: bool) -> Iterator[str]:
    """What each condition leaves out; ``positive`` unless it stands under a NOT."""
    if not isinstance(made, Call):
        return
    if made.function in _TESTS:
        if not never_null(made) or made.function == "IS NULL":
            yield from _lost(made, positive)
        return
    turned = not positive if made.function in ("NOT", "IS FALSE") else positive
    for each in made.arguments:
        yield from _conditions(each, positive=turned)


def _lost(test: Call, positive: bool) -> Iterator[str]:
    """An undeclared value equals no declared one, so only a plain equality is right about it."""
    plain = all(isinstance(each, (Column, Literal)) for each in test.arguments)
    if test.function in _EQUAL and positive and plain:
        return
    for column in _listed(test):
        if test.function == "IS NULL":
            yield f"A value of {column} that is not declared counts as missing in {words(test)}."
        else:
            shown = words(test) if positive else f"NOT {words(test)}"
            yield f"Rows whose {column} is not among its declared values never meet {shown}, and are left out."


def _group(key: Expression) -> Iterator[str]:
    if not key.domain.nullable and not never_null(key):
        yield from (f"Rows whose {column} is not among its declared values are in no group." for column in _listed(key))


def _listed(made: Expression) -> dict[str, None]:
    """The private columns read that have declared values and no name for all others."""
    return {
        node.name: None
        for node in walk(made)
        if isinstance(node, Column)
        and "." not in node.name  # a public table's own columns are known in full
        and node.domain.values is not None
        and node.domain.other is None
        and node.domain.type is not Type.BOOLEAN
    }
