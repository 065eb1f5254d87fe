"""Functions of group keys in an answer are evaluated by the engine on the keys, which are public: UPPER(region), for
instance.

Noisy numbers are finished here in Python, with a few functions; keys may be given to any function of one row. Each
such part of an answer is evaluated on the values of the keys it reads, by the engine that would evaluate it on rows,
and becomes a key of its own. No table is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfumato.errors import Unsupported
from sfumato.plan.keys import Evaluate, World, affordable, told
from sfumato.plan.nodes import GroupKey, Query
from sfumato.plan.noisy_rows import FINISHING
from sfumato.plan.values.expressions import Call, Column, Expression, Key, Order, columns, of_keys, walk
from sfumato.policy import Type, Value
from sfumato.release.noisy_rows.answer_rows import AnswerRows

Parts = dict[Expression, Column]


def with_key_functions(query: Query, rows: AnswerRows, evaluate: Evaluate) -> tuple[Query, AnswerRows]:
    """Rewrite a question with further keys in the place of functions of keys, and rows that have these."""
    made, parts = parted(query)
    keys = _extended(rows.keys, parts, evaluate)
    return made, replace(rows, keys=keys, width=rows.width + len(parts))


def parted(query: Query) -> tuple[Query, Parts]:
    """Rewrite what is done with noisy numbers, with further keys in the place of functions of keys; and these
    functions.
    """
    found: Parts = {}
    finish, keys = query.finish, len(query.plan.keys)

    def made(expression: Expression) -> Expression:
        if not isinstance(expression, Call):
            return expression
        if of_keys(expression) and not _finishes(expression):
            return found.setdefault(expression, Column(Key(keys + len(found)), expression.domain))
        return replace(expression, arguments=tuple(map(made, expression.arguments)))

    def ordered(order: tuple[Order, ...]) -> tuple[Order, ...]:
        return tuple(replace(each, expression=made(each.expression)) for each in order)

    windows = tuple(
        replace(
            each,
            argument=None if each.argument is None else made(each.argument),
            partition=tuple(map(made, each.partition)),
            order=ordered(each.order),
        )
        for each in finish.windows
    )
    outputs = tuple(replace(each, expression=made(each.expression)) for each in finish.outputs)
    having = None if finish.having is None else made(finish.having)
    done = replace(finish, outputs=outputs, order=ordered(finish.order), having=having, windows=windows)
    return replace(query, finish=done), found


def _finishes(expression: Expression) -> bool:
    """Tell whether every function in it is one that numbers are finished with, and is applied to numbers."""
    calls = [node for node in walk(expression) if isinstance(node, Call)]
    return all(each.function in FINISHING and (each.function not in _OF_NUMBERS or _numbers(each)) for each in calls)


_OF_NUMBERS = ("CAST", "LEAST", "GREATEST")


def _numbers(call: Call) -> bool:
    return call.domain.type.numeric and call.arguments[0].domain.type in (Type.INTEGER, Type.REAL, Type.BOOLEAN)


def _extended(groups: Sequence[GroupKey], parts: Parts, evaluate: Evaluate) -> Sequence[GroupKey]:
    """Extend every key by the values that these functions have of it."""
    if not parts:
        return groups
    found = [_values(part, groups, evaluate) for part in parts]
    return [(*key, *more) for key, more in zip(groups, zip(*found, strict=True), strict=True)]


def _values(part: Expression, groups: Sequence[GroupKey], evaluate: Evaluate) -> list[Value | None]:
    read = [Column(reference, domain) for reference, domain in columns(part).items()]
    places = [each.reference.index for each in read if isinstance(each.reference, Key)]
    choices = tuple(
        (column.reference, column.domain, tuple(dict.fromkeys(key[place] for key in groups if key[place] is not None)))
        for column, place in zip(read, places, strict=True)
    )
    world = World(choices, (*read, part))  # type: ignore[arg-type]
    if not affordable(world):
        raise Unsupported(
            "keys-too-costly",
            "functions of keys are evaluated on at most 200,000 combinations of their values",
            fix="apply them to one key at a time, or group by what they make",
        )
    made = {tuple(map(told, row[:-1])): row[-1] for row in evaluate(world)}
    return [made[tuple(told(key[place]) for place in places)] for key in groups]
