"""A function is a name, words for people, and a rule that types its arguments and finds its range."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.errors import Unsupported
from sfumato.plan.values.expressions import Call, Expression, Literal
from sfumato.policy.domains import Domain, Type

Rule = Callable[..., "Expression | tuple[Sequence[Expression], Domain]"]
"""Given the arguments: the arguments as they are computed with and the domain, or an equal expression."""


Most = Callable[[Call], int]
"""The most of something that one row can cost, from what is known of the arguments."""


def steps(node: Call) -> int:
    """Count a few steps for every argument; texts are compared letter by letter, ten at a time."""
    return 5 + sum(2 + each.domain.letters // 10 for each in node.arguments)


def held(node: Call) -> int:
    """Bound the bytes that a number takes, or the place of a text."""
    return 16 if node.domain.type is Type.TEXT else 8


FOLDING = 15
"""Steps to find one letter's capital or small letter, where it is beyond ASCII and is replaced afterwards."""


@dataclass(frozen=True)
class Function:
    """A function is a line of the table of what can be asked."""

    name: str
    signature: str
    meaning: str
    rule: Rule
    steps: Most
    """Steps of about 3 ns."""
    held: Most
    """Bytes that are made."""


LARGEST = 10_000
"""Nodes of one expression."""
DEEPEST = 150
"""Levels of one expression."""

FUNCTIONS: dict[str, Function] = {}
"""The allow-list, by name, in the order of the table."""


def function(
    name: str, signature: str, meaning: str, *, steps: Most = steps, held: Most = held
) -> Callable[[Rule], Rule]:
    """Declare a function: its rule takes expressions by position."""

    def declare(rule: Rule) -> Rule:
        FUNCTIONS[name] = Function(name, signature, meaning, rule, steps, held)
        return rule

    return declare


def call(name: str, *arguments: Expression) -> Expression:
    """Apply the function to the arguments, with its domain; or raise ``Unsupported``."""
    declared = FUNCTIONS.get(name)
    if declared is None:
        raise Unsupported("function", f"{name} is not among the functions", fix="see the list of what can be asked")
    try:
        _signature(declared.rule).bind(*arguments)
    except TypeError:
        raise Unsupported(
            "arguments", f"{name} does not take {len(arguments)} arguments", fix=f"write {declared.signature}"
        ) from None
    made: Any = declared.rule(*arguments)
    if not isinstance(made, tuple):
        return made
    return _checked(Call(name, tuple(made[0]), made[1]))


def _checked(made: Call) -> Call:
    """Refuse what is too large: put together from subqueries it could double at every level, and is walked by
    recursion.
    """
    if made.size > LARGEST:
        rule = f"an expression has at most {LARGEST:,} parts after its subqueries are put in place"
        raise Unsupported("too-large", rule, fix="derive less")
    if made.depth > DEEPEST:
        rule = f"an expression is at most {DEEPEST} levels deep after its subqueries are put in place"
        raise Unsupported("too-deep", rule, fix="use IN, or fewer steps")
    return made


_signature = functools.cache(inspect.signature)


def never_null(expression: Expression) -> bool:
    """Tell whether the value is there in every row: a column's never surely is."""
    if isinstance(expression, Literal):
        return expression.value is not None
    if not isinstance(expression, Call):
        return False
    surely = [never_null(each) for each in expression.arguments]
    match expression.function:
        case "COALESCE" | "LEAST" | "GREATEST" | "CONCAT":
            return any(surely)
        case "CASE":
            return len(surely) % 2 == 1 and all(surely[1::2]) and surely[-1]
        case "IS NULL" | "IS TRUE" | "IS FALSE":
            return True
        case "AND" | "OR" | "NOT" | "=" | "<>" | "<" | "<=" | ">" | ">=":
            return all(surely)
    return False
