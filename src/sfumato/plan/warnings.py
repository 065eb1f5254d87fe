"""A question may miss something because nobody declared it: that is told from the policy and the plan alone.

A cell that is none of its column's declared values is missing (NULL) once it is scanned, unless the column names an
``other``. So a condition that such a cell would meet loses its row, a group that is not there for NULL loses it too,
and a literal that is no declared value is met by no row. A number or a date beyond its column's bounds counts as the
bound, so a condition that reaches beyond them says nothing about the row. None of it depends on data, and none of it
costs anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfumato.plan.aggregates.measures import AggregateRequest, Reads
from sfumato.plan.aggregates.ranked import Quantile
from sfumato.plan.costs import MOST_PARTS, expressions
from sfumato.plan.nodes import Join, Query, relations
from sfumato.plan.values.expressions import Call, Column, Expression, Field, Key, Literal, columns, size, walk
from sfumato.plan.values.functions import never_null
from sfumato.plan.values.narrowing import as_comparison
from sfumato.plan.words import words
from sfumato.policy import Domain, Type

_EQUAL = ("=", "IN")
_TESTS = ("=", "IN", "<>", "<", "<=", ">", ">=", "BETWEEN", "LIKE", "ILIKE", "STARTS_WITH", "IS NULL")
_OF_VALUES = (Reads.DIFFERENT, Reads.FREQUENT)
_MOST = 10
"""Sentences shown: a question with more of them says the same again and again."""


def undeclared(query: Query) -> tuple[str, ...]:
    """Write sentences about literals that no row equals, and about rows that conditions and groups leave out or take
    for others.
    """
    plan, finish = query.plan, query.finish
    told = _Sentences(frozenset(node.source for node in relations(plan.source) if isinstance(node, Join)))
    shown = [*(each.expression for each in finish.outputs), *(each.expression for each in finish.order)]
    having = _of_rows([] if finish.having is None else [finish.having], plan.keys)
    after = _of_rows(shown, plan.keys)
    asked = [*expressions(plan), *having]
    found = [sentence for made in (*asked, *after) for sentence in told.literals(made)]
    found += [sentence for made in asked for sentence in told.conditions(made, positive=True)]
    found += [sentence for made in (*asked, *after) for sentence in told.taken(made)]
    found += told.uncounted([each.value for each in plan.measures if each.reads in _OF_VALUES])
    found += _beside_ties(plan.measures)
    found += [*told.in_no_group(plan.keys), *(sentence for key in plan.keys for sentence in told.group(key))]
    return tuple(dict.fromkeys(found))[:_MOST]


def _beside_ties(measures: Sequence[AggregateRequest]) -> list[str]:
    """Say which errors in ranks suppose that few rows are equal: rows tied with a quantile lie on both sides of it by a
    fixed share, and what is found on either side of it is found among those.
    """
    inner = [each for each in measures if isinstance(each, Quantile) and 0 < each.probability < 1]
    several = [each for each in inner if len({one.probability for one in inner if one.together == each.together}) > 1]
    named = dict.fromkeys(words(each.value) for each in several)
    rule = "the others may lie as many rows further from their ranks"
    return [f"Where many rows have the value of one of several quantiles of {each}, {rule}." for each in named]


@dataclass(frozen=True)
class _Sentences:
    """This collects what is said about the expressions of one question."""

    public: frozenset[int]
    """The numbers of public tables, whose own columns are known in full."""

    def literals(self, made: Expression) -> Iterator[str]:
        for node in walk(made):
            comparison = as_comparison(node) if isinstance(node, Call) else None
            if comparison is None or not isinstance(node, Call) or not _of_fields(comparison.operand):
                continue
            name, operand, values = comparison
            if name in ("=", "<>", "IN"):
                written = [each for each in node.arguments if isinstance(each, Literal) and each.value is not None]
                yield from (_unmet(operand, each) for each in written if _unknown(operand.domain, each.value))
            elif operand.domain.bounds is not None:
                yield from self._beyond(node, name, operand, values)

    def _beyond(self, test: Call, name: str, operand: Expression, values: Sequence[Any]) -> Iterator[str]:
        """Find a comparison that reaches beyond the range of what is compared."""
        low, high = operand.domain.bounds or (None, None)
        first, last = values[0], values[-1]
        never = {"<": first <= low, "<=": first < low, ">": first >= high, ">=": first > high}.get(
            name, last < low or first > high or first > last
        )
        outside = any(not low <= each <= high for each in values)
        column = _column(operand)
        if column is None:
            if never:
                yield f"By what is declared of {', '.join(map(str, columns(operand)))}, no row meets {words(test)}."
        elif (never or outside) and isinstance(column.reference, Field) and column.reference.source not in self.public:
            met = "no row meets" if never else "they meet" if name != "BETWEEN" else "they may meet"
            held = f"Rows whose {column.reference} lies beyond its declared bounds count as at the bound"
            if not column.reference.table:
                held = f"Units whose {column.reference} lies beyond its range count as at the end of it"
            yield f"{held}: {met} {words(test)}."

    def conditions(self, made: Expression, *, positive: bool) -> Iterator[str]:
        """Say what each condition leaves out; ``positive`` unless it stands under a NOT."""
        if not isinstance(made, Call):
            return
        if made.function in _TESTS:
            if not never_null(made) or made.function == "IS NULL":
                yield from self._lost(made, positive)
            return
        turned = not positive if made.function in ("NOT", "IS FALSE") else positive
        for each in made.arguments:
            yield from self.conditions(each, positive=turned)

    def _lost(self, test: Call, positive: bool) -> Iterator[str]:
        """Say what is lost: an undeclared value equals no declared one, so only a plain equality is right about it."""
        plain = all(isinstance(each, (Column, Literal)) for each in test.arguments)
        if test.function in _EQUAL and positive and plain:
            return
        for column in self._missed(test):
            if test.function == "IS NULL":
                yield f"A value of {column} that is not declared counts as missing in {words(test)}."
            else:
                shown = words(test) if positive else f"NOT {words(test)}"
                yield f"Rows whose {column} is not among its declared values never meet {shown}, and are left out."

    def taken(self, made: Expression) -> Iterator[str]:
        """Say what conditions take undeclared values for; equality with other values is right about them all the
        same.
        """
        waiting: list[tuple[Expression, Call | None]] = [(made, None)]
        while waiting:
            node, test = waiting.pop()
            if not isinstance(node, Call):
                continue
            if test is not None:
                yield from (self._counted(node, each) for each in self._defaults(node) if not _apart(test, node, each))
            inner = node if node.function in _TESTS else test
            waiting.extend((each, inner) for each in reversed(node.arguments))

    def _defaults(self, made: Expression) -> list[Literal]:
        """Find what is written for a missing value of a column with declared values."""
        if not isinstance(made, Call) or made.function != "COALESCE" or not self._listed(made):
            return []
        return [each for each in made.arguments[1:] if isinstance(each, Literal) and each.value is not None][:1]

    def _counted(self, made: Expression, default: Literal) -> str:
        read = ", ".join(self._listed(made))
        return f"A value of {read} that is not declared counts as {words(default)} in {words(made)}."

    def in_no_group(self, keys: Sequence[Expression]) -> Iterator[str]:
        """Say it once for all keys: which rows no group counts."""
        missing = [key for key in keys if not key.domain.nullable and not never_null(key)]
        lost = list(dict.fromkeys(column for key in missing for column in self._missed(key)))
        if lost:
            named = " or ".join([", ".join(lost[:-1]), lost[-1]] if len(lost) > 1 else lost)
            yield f"Rows whose {named} is not among its declared values are in no group."

    def uncounted(self, values: Sequence[Expression | None]) -> list[str]:
        """Say which rows have none of the values that are counted or chosen."""
        lost = dict.fromkeys(column for each in values if each is not None for column in self._missed(each))
        return [f"Rows whose {each} is not among its declared values count for none of them." for each in lost]

    def group(self, key: Expression) -> Iterator[str]:
        """Say what is taken for another value in a key."""
        yield from (self._counted(node, default) for node in walk(key) for default in self._defaults(node))

    def _listed(self, made: Expression) -> dict[str, None]:
        """List the private columns read that have declared values and no name for all others."""
        return {
            str(node.reference): None
            for node in walk(made)
            if isinstance(node, Column)
            and isinstance(node.reference, Field)
            and node.reference.source not in self.public
            and node.domain.values is not None
            and node.domain.other is None
            and node.domain.type is not Type.BOOLEAN
        }

    def _missed(self, made: Expression) -> dict[str, None]:
        """Keep those of them that are not replaced by another value where they are missing."""
        if never_null(made) and not (isinstance(made, Call) and made.function == "IS NULL"):
            return {}
        if not isinstance(made, Call):
            return self._listed(made)
        return {name: None for each in made.arguments for name in self._missed(each)}


def _of_rows(made: Sequence[Expression], keys: Sequence[Expression]) -> list[Expression]:
    """Rewrite what stands above the aggregate, with what each key is of a row in its place; not where that would be
    long.
    """
    found = [_placed(each, keys) for each in made]
    return found if sum(map(size, found)) <= MOST_PARTS else []


def _placed(made: Expression, keys: Sequence[Expression]) -> Expression:
    if isinstance(made, Column) and isinstance(made.reference, Key):
        return keys[made.reference.index]
    if not isinstance(made, Call):
        return made
    return replace(made, arguments=tuple(_placed(each, keys) for each in made.arguments))


def _of_fields(operand: Expression) -> bool:
    """Tell whether it is made from columns of tables alone: results have no declared range."""
    read = columns(operand)
    return bool(read) and all(isinstance(each, Field) for each in read)


def _column(operand: Expression) -> Column | None:
    """Find the column that is compared, as it is or as a wider type."""
    inner = operand.arguments[0] if isinstance(operand, Call) and operand.function == "CAST" else operand
    wider = inner.domain.type in (Type.INTEGER, Type.DATE) and operand.domain.type in (Type.REAL, Type.TIMESTAMP)
    return inner if isinstance(inner, Column) and (inner is operand or wider) else None


def _unknown(domain: Domain, value: Any) -> bool:
    """Tell whether what has this domain never equals the value."""
    if domain.values is not None:
        return value not in domain.values
    return domain.bounds is not None and not domain.bounds[0] <= value <= domain.bounds[1]


def _unmet(operand: Expression, found: Literal) -> str:
    column = _column(operand)
    if column is None:
        return f"{words(found)} is nothing that {words(operand)} can be: no row equals it."
    if column.domain.values is None:
        return f"{words(found)} lies outside the declared bounds of {column.reference}: no row equals it."
    return f"{words(found)} is not among the declared values of {column.reference}: no row equals it."


def _apart(test: Call, made: Call, default: Literal) -> bool:
    comparison = as_comparison(test)
    if comparison is None or comparison.operator not in ("=", "<>", "IN"):
        return False
    return comparison.operand is made and default.value not in comparison.values
