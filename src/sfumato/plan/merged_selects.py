"""SELECTs that differ in which rows they read, measured as one SELECT with a FILTER for each.

``SELECT k, AVG(x) … WHERE year = 2023 GROUP BY k`` joined with the same of 2024 is two measurements, each for half of
the price. Their rows are disjoint, so ``SELECT k, AVG(x) FILTER (WHERE year = 2023), AVG(x) FILTER (WHERE year = 2024)
… WHERE year = 2023 OR year = 2024 GROUP BY k`` is one, for the whole price (``aggregates.disjoint``).

*Claim.* A merged plan is a plan like any other: its sensitivity is what ``bounding`` proves for it. Its results are, in
order, those of the SELECTs it stands for: a row meets p OR q and the FILTER of p iff it meets p. A unit's limits hold
for the rows of all these SELECTs together; what a unit has within the policy's limits counts as before. ∎
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from sfumato.plan.aggregates.measures import AggregateRequest, Count, Mean, Sum, conjunction
from sfumato.plan.nodes import Aggregate, Filter
from sfumato.plan.sharing import share_measures
from sfumato.plan.values.expressions import Expression
from sfumato.plan.values.functions import call
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True)
class MergedPlan:
    """A plan, and where the results of each merged plan begin among its own, by the index of that plan."""

    plan: Aggregate
    first_results: dict[int, int]


def merge_disjoint_plans(plans: Sequence[Aggregate]) -> list[MergedPlan]:
    """Merge plans over disjoint rows of one relation, with the same keys, where that takes fewer measurements."""
    merged: list[MergedPlan] = []
    for index, plan in enumerate(plans):
        for position, earlier in enumerate(merged):
            if (both := _merge(earlier.plan, plan, is_first=len(earlier.first_results) == 1)) is not None:
                first_results = {**earlier.first_results, index: len(earlier.plan.measures)}
                merged[position] = MergedPlan(both, first_results)
                break
        else:
            merged.append(MergedPlan(plan, {index: 0}))
    return merged


def _merge(first: Aggregate, second: Aggregate, *, is_first: bool) -> Aggregate | None:
    """Return both plans as one; None where that is not possible, or gains nothing. The measures of ``first`` have
    their filters already, unless it is the first of its kind.
    """
    if not (isinstance(first.source, Filter) and isinstance(second.source, Filter)):
        return None
    same_rows = first.source.input == second.source.input and first.keys == second.keys
    if not same_rows or not all(type(measure) in (Count, Sum, Mean) for measure in (*first.measures, *second.measures)):
        return None
    predicates = first.source.predicate, second.source.predicate
    measures = (
        *(_filtered(measure, predicates[0]) if is_first else measure for measure in first.measures),
        *(_filtered(measure, predicates[1]) for measure in second.measures),
    )
    both = replace(first, source=Filter(first.source.input, call("OR", *predicates)), measures=measures)
    takes_fewer = _measurements(both) < _measurements(first) + _measurements(second)
    return both if takes_fewer and _value_ranges(both) == _value_ranges(first) | _value_ranges(second) else None


def _filtered(measure: AggregateRequest, predicate: Expression) -> AggregateRequest:
    assert isinstance(measure, (Count, Sum, Mean))
    return replace(measure, where=conjunction(measure.where, predicate))


def _measurements(plan: Aggregate) -> int:
    return sum(len(part.measures) for part in share_measures(plan).parts)


def _value_ranges(plan: Aggregate) -> set[tuple[Expression, tuple[Fraction, Fraction]]]:
    """Return the summed values with their ranges: SELECTs whose conditions leave each another range would have the
    noise of both ranges together.
    """
    members = (member for part in share_measures(plan).parts for member in part.members)
    return {(member.value, member.clamp_range) for member in members if isinstance(member, (Sum, Mean))}
