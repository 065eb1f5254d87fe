"""A proposal to find bounds for a column privately, where nobody can declare them.

The candidates are the steps of a ladder that depends on the column's type only (``step_counts``). One value per unit is
used (all rows where each is a unit), sampled among its distinct values by a keyed digest before their steps are
computed: so one unit is on one step, and as many units as possible are seen for the price. NULL, NaN and non-numbers
are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

from sfumato.array_types import Integers
from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import explain_period_charges, restrict_to_periods
from sfumato.curator.previews.explaining import Explanation, PlanStep
from sfumato.curator.proposals.priced_by_epsilon import EpsilonPricedProposal
from sfumato.curator.proposals.stored_answers import Bounds, toml_value
from sfumato.curator.step_counts import Ladder, StepSearch, ladder_for_domain
from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.measures import Count
from sfumato.plan.bounding import BoundedPlan, candidate_bounded_plans, for_neighbours
from sfumato.plan.canonical import PlanKey, digest_beginning
from sfumato.plan.limits import ONE_ROW
from sfumato.plan.nodes import Aggregate, Filter, GroupValues, Scan, limit_rows_per_unit
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.values.expressions import Column, Field
from sfumato.plan.values.functions import call
from sfumato.policy import Domain, Policy, Table, Type
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, INSIDE_UNIT, POSITIVE, Number, exact, format_percent
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.comparisons import GroupTotalsRelease
from sfumato.release.measurement import Batch
from sfumato.release.payers import purchase_terms
from sfumato.release.prices import Price, least_epsilon
from sfumato.release.proposal import make_receipt
from sfumato.release.releasing import StoredResult


@dataclass(frozen=True)
class _BoundsRelease(GroupTotalsRelease[Bounds]):
    """The release of bounds: a search among the steps of a ladder."""

    search: StepSearch
    groups: tuple[GroupValues, ...]
    ladder: Ladder
    column: str
    total: Price
    version: str

    @property
    def batch(self) -> Batch:
        return Batch(self.search.measurements)

    @property
    def reading(self) -> GroupTotals:
        return GroupTotals(self.batch.bounded, self.groups)

    @property
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        """The widths that stored bounds must reach to be returned instead."""
        return {
            "steps": self.search.error(DEFAULT_CONFIDENCE),
            "outside": self.search.count_half_width(DEFAULT_CONFIDENCE),
        }

    def draw_from(self, totals: Integers) -> Bounds:
        step_counts = self.search.draw(totals)
        low, high = (None, None) if step_counts.span is None else self.ladder.bounds_of(step_counts.span)
        terms = purchase_terms([self.batch.bounded], self.total, self.version)
        return Bounds(self.column, self.ladder.type, low, high, step_counts, terms)


@dataclass(frozen=True)
class BoundsProposal(EpsilonPricedProposal[Bounds]):
    """A proposal to find bounds; only ``release`` spends."""

    _context: Context = field(repr=False)
    table: str
    column: str
    cover: Fraction
    """The share of values to cover."""

    def __repr__(self) -> str:
        return f"<{self.text}: .explain() .error() .price() are free, .release() spends>"

    @property
    def text(self) -> str:
        return f"bounds of {self.table}.{self.column} that cover {format_percent(self.cover)} of its values"

    @property
    def columns(self) -> Columns:
        """The released columns: the two bounds, of the column's type."""
        return AnswerColumn("low", self.ladder.type), AnswerColumn("high", self.ladder.type)

    @cached_property
    def ladder(self) -> Ladder:
        """The public steps among which the bounds are chosen."""
        return ladder_for_domain(self._policy_table.columns[self.column])

    @cached_property
    def bounded(self) -> BoundedPlan:
        """The plan, restricted to the periods whose accounts pay."""
        (bounded,) = candidate_bounded_plans(self._plan_and_context_within_periods[0], ONE_ROW, len(self.ladder))
        return for_neighbours(bounded, self._context.policy.neighbours)

    @cached_property
    def _plan_and_context_within_periods(self) -> tuple[Aggregate, Context]:
        return restrict_to_periods(self._plan, self._context)

    @property
    def _plan(self) -> Aggregate:
        """The plan that counts the units with a value on each step, one value per unit."""
        table = self._policy_table
        domain, column_field = table.columns[self.column], Field(0, table.name, self.column)
        value = Column(column_field, domain)
        scan = Scan(table.name, table.every_row, 0, {column_field: domain}, ONE_ROW, table.possible_rows)
        present_rows = Filter(scan, call("NOT", call("IS NULL", value)))
        return Aggregate(limit_rows_per_unit(present_rows), (self.ladder.step_expression(value),), (Count(),))

    @property
    def plan_key(self) -> PlanKey:
        """The key of what is measured."""
        make_hash = digest_beginning("bounds", self.bounded.plan, self.cover, len(self.ladder))
        return self._context.plan_key(self.bounded.plan, make_hash)

    def explain(self, epsilon: Number, confidence: Number = DEFAULT_CONFIDENCE) -> Explanation:
        """Explain the search at this price, step by step. This is free."""
        policy, search = self._context.policy, self._strategy_at(epsilon).search
        low, high = (toml_value(end) for end in self.ladder.bounds_of((0, len(self.ladder) - 1)))
        row_limit = "every row counts" if policy.unit.every_row else f"one value of each {policy.unit.name} counts"
        operators = (
            PlanStep("scan", self.table, f"protects {policy.unit}, {policy.neighbours.value}"),
            PlanStep("limit", row_limit, "missing values and non-numbers are skipped"),
            PlanStep("steps", f"{len(self.ladder)} public steps from {low} to {high}", "the same for every table"),
            *search.explain_search("values", f"steps that cover {format_percent(self.cover)}", confidence),
            *explain_period_charges(self._plan_and_context_within_periods[1]),
        )
        reason = "each unit is on one step, so one price pays for both bounds and for finding the steps without values"
        return Explanation(self.text, str(Price(epsilon)), operators, reason, ())

    def error(self, epsilon: Number, confidence: Number = DEFAULT_CONFIDENCE) -> int:
        """Return the count from which a step is inside the range with this confidence, unless its share may be
        excluded. Free.
        """
        return self._strategy_at(epsilon).search.error(confidence)

    def count_half_width(self, epsilon: Number, confidence: Number = DEFAULT_CONFIDENCE) -> int:
        """Return the half-width of the number of values outside. Free."""
        return self._strategy_at(epsilon).search.count_half_width(confidence)

    def price(self, within: Number, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Find the least ε at which no step with this many values is missed. This is free."""
        return least_epsilon(lambda epsilon: self.error(epsilon, confidence), within)

    @property
    def _paying_context(self) -> Context:
        return self._plan_and_context_within_periods[1]

    @property
    def _policy_table(self) -> Table:
        return self._context.policy.tables[self.table]

    def _strategy_at(self, epsilon: Number) -> _BoundsRelease:
        exact_epsilon = exact(epsilon, "epsilon", POSITIVE)
        steps = range(len(self.ladder))
        uncovered = (1 - self.cover) / 2
        search = StepSearch.calibrated(self.bounded, tuple(steps), exact_epsilon, (uncovered, uncovered))
        groups = tuple((step,) for step in steps)
        return _BoundsRelease(search, groups, self.ladder, self.column, Price(epsilon), self._context.version)

    def _with_receipt(self, result: StoredResult[Bounds], confidence: Number) -> Bounds:
        bounds, context = result.value, self._paying_context
        words = (bounds.steps.noise.words(), bounds.steps.counter.words())
        bounds_receipt = make_receipt(
            result, bounds.purchase, words, question=self.text, context=context, confidence=confidence
        )
        return replace(bounds, purchase=bounds.purchase.without_salt, receipt=bounds_receipt)


def propose_bounds(context: Context, table: str, column: str, cover: Number) -> BoundsProposal:
    """Propose to find bounds for a column; the names are checked against the policy."""
    policy_table = require_private_table(context.policy, table)
    domain = _require_searchable_domain(policy_table, column)
    share = exact(cover, "cover", INSIDE_UNIT)
    if len(ladder_for_domain(domain)) < 2:
        rule = "a column whose declared bounds are wide enough for a search"
        raise InvalidParameter("column", column, rule, fix="use its declared bounds as they are, or declare wider ones")
    return BoundsProposal(context, policy_table.name, column, share)


def require_private_table(policy: Policy, table: str) -> Table:
    """Return a private table of the policy; refuse any other name."""
    policy_table = policy.tables.get(table)
    if policy_table is None or policy_table.public:
        private_names = ", ".join(name for name, candidate in policy.tables.items() if not candidate.public)
        raise InvalidParameter("table", table, f"one of the private tables: {private_names}")
    return policy_table


def _require_searchable_domain(table: Table, column: Any) -> Domain:
    """Return the domain of a column with an ordered type that is not the unit's id."""
    name = f"{table.name}.{column}"
    if column == table.id:
        fix = f"choose one of {', '.join(other for other in table.columns if other != table.id)}"
        raise InvalidParameter("column", name, "a column other than the unit's id, which has no bounds", fix=fix)
    domain = table.columns.get(column)
    if domain is None:
        column_names = ", ".join(table.columns) or "none"
        raise InvalidParameter("column", name, f"one of the columns declared in {table.name}: {column_names}")
    if domain.type in (Type.TEXT, Type.BOOLEAN):
        rule = f"a column of numbers or dates, because a {domain.type.value} has no bounds"
        raise InvalidParameter("column", name, rule, fix="list its values in the policy, or let GROUP BY discover them")
    if domain.values is not None:
        rule = "a column without listed values, because the list already gives the bounds"
        raise InvalidParameter("column", name, rule, fix="use the smallest and the largest listed value as bounds")
    return domain
