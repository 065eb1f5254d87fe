"""Functions of group keys in an answer are evaluated by the engine on the keys, which are public: UPPER(region), for
instance.

Noisy numbers are finished here in Python, with a few functions; keys may be given to any function of one row. Each
such part of an answer is evaluated on the values of the keys it reads, by the engine that would evaluate it on rows,
and becomes a key of its own. No table is read.

The rows of an answer are its groups, or sums of them where it has subtotals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import Unsupported
from sfumato.plan.aggregates.measures import Floats
from sfumato.plan.keys import Evaluate, World, affordable, told
from sfumato.plan.nodes import GroupKey, Query
from sfumato.plan.noisy_rows import FINISHING
from sfumato.plan.values.expressions import Call, Column, Expression, Key, Order, columns, of_keys, walk
from sfumato.policy import Type, Value

Places = NDArray[np.intp]


@dataclass(frozen=True)
class AnswerRows:
    """The keys of an answer's rows, and they say which groups each row is the sum of."""

    keys: Sequence[GroupKey]
    """None is NULL, and stands for a key that is summed over."""
    over: NDArray[np.bool_]
    """For each row and key, whether it is summed over."""
    rows: Places
    groups: Places
    """Pairs: this row has this group in it."""
    sums: bool
    """Whether a row may be a sum: else rows are the groups as they are."""
    width: int
    """How many values a key has: there may be no row."""

    @property
    def terms(self) -> Places:
        """Count the groups that each row is the sum of."""
        return np.bincount(self.rows, minlength=len(self.keys))

    def summed(self, groups: Floats) -> Floats:
        """Add up a column of groups into a column of rows."""
        return np.bincount(self.rows, weights=groups[self.groups], minlength=len(self.keys)).astype(np.float64)


def answer_rows(sets: Sequence[Sequence[int]], groups: Sequence[GroupKey], width: int | None = None) -> AnswerRows:
    """List the rows of every grouping set in turn, each set's in the order of its first groups; the groups where there
    are no sets. A key has ``width`` values, which must be said where there may be no group.
    """
    width = len(groups[0]) if width is None else width
    every = np.arange(len(groups))
    if not sets:
        return AnswerRows(groups, np.zeros((len(groups), width), bool), every, every, sums=False, width=width)
    keys: list[GroupKey] = []
    rows, over = [], []
    for members in sets:
        kept = [index in set(members) for index in range(width)]
        places: dict[GroupKey, int] = {}
        projected = (tuple(value if keep else None for value, keep in zip(key, kept, strict=True)) for key in groups)
        rows.append(np.array([places.setdefault(key, len(places)) for key in projected], np.intp) + len(keys))
        keys += places
        over += [np.repeat([[not keep for keep in kept]], len(places), axis=0)]
    return AnswerRows(keys, np.vstack(over), np.concatenate(rows), np.tile(every, len(sets)), sums=True, width=width)


def one_row_per_set(sets: Sequence[Sequence[int]], groups: Sequence[GroupKey], width: int | None = None) -> AnswerRows:
    """Make a stand-in for forecasts: for every grouping set its longest sum, of one group taken so many times."""
    width = len(groups[0]) if width is None else width
    whole = answer_rows(sets, groups, width)
    key = (None,) * width
    if not sets:
        return answer_rows((), [key], width)
    longest = whole.terms[whole.rows].reshape(len(sets), len(groups)).max(axis=1)
    over = np.array([[index not in members for index in range(width)] for members in sets], bool)
    rows, places = np.repeat(np.arange(len(sets)), longest), np.zeros(longest.sum(), np.intp)
    return AnswerRows([key] * len(sets), over.reshape(len(sets), width), rows, places, sums=True, width=width)


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
    """Return whether every function in it is one that numbers are finished with, and is applied to numbers."""
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
