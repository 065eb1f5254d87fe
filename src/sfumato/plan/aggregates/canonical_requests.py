"""The canonical form of a requested aggregate: what a question asks in two ways is measured once.

*Claim.* In rows that meet ``conditions``, a request and its ``canonical_request`` add the same to every total.
SUM(CASE WHEN p THEN x ELSE 0 END) adds x where p is true and nothing elsewhere, as SUM(x) FILTER (WHERE p) does, and
with x = 1 it counts the rows where p is true. AVG(CASE WHEN p THEN x END) leaves out the rows where p is not true, for
NULL is not averaged. A test that x is not NULL is true in every row where the other conditions are, if one of them
limits x, which no NULL meets (``narrowing``), or is that test; then it is left out. ∎

Only the numbers depend on the claim: the sensitivity follows from what engines add up, whichever form they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfumato.plan.aggregates.disjoint import move_case_to_predicate
from sfumato.plan.aggregates.measures import AggregateRequest, not_null_predicate
from sfumato.plan.values.expressions import Call, Expression
from sfumato.plan.values.functions.declaring import call, is_never_null
from sfumato.plan.values.narrowing import limits_by_expression


def canonical_request(request: AggregateRequest, conditions: Sequence[Expression]) -> AggregateRequest:
    """Return one form for all requests that are equal in rows that meet these conditions."""
    canonical = move_case_to_predicate(request)
    if canonical is None:
        return request
    where = _without_implied_null_tests(canonical.where, conditions)
    return canonical if where == canonical.where else replace(canonical, where=where)


def _without_implied_null_tests(where: Expression | None, conditions: Sequence[Expression]) -> Expression | None:
    """Return a predicate without the tests for NULL that are certain to hold where the rest of it does."""
    if where is None:
        return None
    tests = where.arguments if isinstance(where, Call) and where.function == "AND" else (where,)
    kept = list(tests)
    for test in tests:
        others = [other for other in kept if other is not test]
        operand = _operand_of_not_null_test(test)
        if operand is not None and _is_never_null(operand, (*conditions, *others)):
            kept = others
    if len(kept) == len(tests):
        return where
    return call("AND", *kept) if len(kept) > 1 else kept[0] if kept else None


def _operand_of_not_null_test(test: Expression) -> Expression | None:
    """Return x of the test that x is not NULL; None for any other condition."""
    if not isinstance(test, Call) or test.function != "NOT":
        return None
    (negated,) = test.arguments
    return negated.arguments[0] if isinstance(negated, Call) and negated.function == "IS NULL" else None


def _is_never_null(value: Expression, conditions: Sequence[Expression]) -> bool:
    """Return whether a value is certain not to be NULL where the conditions hold."""
    if is_never_null(value) or not_null_predicate(value) in conditions or value in limits_by_expression(conditions):
        return True
    if not isinstance(value, Call) or value.function not in ("+", "-", "*") or value.domain.range is None:
        return False
    # one of these functions with a finite range is NULL only if an argument is
    return all(_is_never_null(argument, conditions) for argument in value.arguments)
