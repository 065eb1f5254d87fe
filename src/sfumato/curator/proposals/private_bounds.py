"""A range for a column is found privately where nobody can declare one: a proposal like every other.

The candidates are the ends of the steps of a ladder that follows from the column's type alone (``ladders``). One value
of each unit is looked at (all rows where each is a unit), drawn among its different values by a keyed digest before it
is known on which step they are: so one unit is on one step, and as many units as possible are seen for the price. NULL,
NaN, and what is no number are looked at nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import by_period, charged
from sfumato.curator.previews.explaining import Explanation, Operator
from sfumato.curator.proposals.found_bounds import Bounds, toml_value
from sfumato.curator.proposals.priced_by_epsilon import PricedByEpsilon
from sfumato.curator.step_counts import Ladder, StepSearch, ladder, least_price
from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.measures import Count
from sfumato.plan.bounding import BoundedPlan, boundings, for_neighbours
from sfumato.plan.canonical import digest
from sfumato.plan.limits import ONE_ROW
from sfumato.plan.nodes import Aggregate, Filter, GroupKey, Scan, cut
from sfumato.plan.readings.total_readings import GroupTotals, Integers
from sfumato.plan.values.expressions import Column, Field
from sfumato.plan.values.functions import call
from sfumato.policy import Domain, Policy, Table, Type
from sfumato.privacy.numbers import INSIDE_UNIT, POSITIVE, Number, exact, percent
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.comparisons import OneReading
from sfumato.release.measurement import Batch
from sfumato.release.payers import purchase
from sfumato.release.prices import Price
from sfumato.release.proposal import receipt
from sfumato.release.releasing import StoredResult


@dataclass(frozen=True)
class _BoundsDraw(OneReading[Bounds]):
    """A range is released as a search among the steps of a ladder."""

    search: StepSearch
    groups: tuple[GroupKey, ...]
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
    def good_enough(self) -> Mapping[str, Number]:
        """A stored range is as good if its counts are as close."""
        return {"steps": self.search.error("0.95"), "outside": self.search.rank_error("0.95")}

    def made(self, totals: Integers) -> Bounds:
        found = self.search.draw(totals)
        low, high = (None, None) if found.span is None else self.ladder.ends(found.span)
        terms = purchase([self.batch.bounded], self.total, self.version)
        return Bounds(self.column, self.ladder.type, low, high, found, terms)


@dataclass(frozen=True)
class BoundsSearch(PricedByEpsilon[Bounds]):
    """A proposal to find bounds: only ``release`` spends."""

    _context: Context = field(repr=False)
    table: str
    column: str
    cover: Fraction
    """The share of the values that the bounds should cover."""

    def __repr__(self) -> str:
        return f"<{self.text}: .explain() .error() .price() are free, .release() asks>"

    @property
    def text(self) -> str:
        return f"bounds of {self.table}.{self.column} that cover {percent(self.cover)} of its values"

    @property
    def columns(self) -> Columns:
        """List what is released: the two bounds, of the column's type."""
        return AnswerColumn("low", self.ladder.type), AnswerColumn("high", self.ladder.type)

    @cached_property
    def ladder(self) -> Ladder:
        """Return the public steps between which the bounds are chosen."""
        return ladder(self._declared.columns[self.column])

    @cached_property
    def bounded(self) -> BoundedPlan:
        """Return the plan, held to the periods whose accounts pay."""
        (whole,) = boundings(self._paid[0], ONE_ROW, len(self.ladder))
        return for_neighbours(whole, self._context.policy.neighbours)

    @cached_property
    def _paid(self) -> tuple[Aggregate, Context]:
        return by_period(self._plan, self._context)

    @property
    def _plan(self) -> Aggregate:
        """Count how many units have a value on each step, one value of each."""
        declared = self._declared
        domain, own = declared.columns[self.column], Field(0, declared.name, self.column)
        value = Column(own, domain)
        scan = Scan(declared.name, declared.every_row, 0, {own: domain}, ONE_ROW)
        there = Filter(scan, call("NOT", call("IS NULL", value)))
        return Aggregate(cut(there), (self.ladder.place(value),), (Count(),))

    @property
    def identity(self) -> str:
        """Return the hash of what is measured: no count is mistaken for it."""
        return digest("bounds", self.bounded.plan, self.cover, len(self.ladder), self._context.declared)

    def explain(self, epsilon: Number, confidence: Number = "0.95") -> Explanation:
        """Describe what is done at this price, step by step. This is free."""
        policy, search = self._context.policy, self._draw(epsilon).search
        low, high = (toml_value(end) for end in self.ladder.ends((0, len(self.ladder) - 1)))
        one = "every row counts" if policy.unit.every_row else f"one value of each {policy.unit.name} counts"
        operators = (
            Operator("scan", self.table, f"protects {policy.unit}, {policy.neighbours.value}"),
            Operator("limit", one, "what is missing or no number is passed over"),
            Operator("steps", f"{len(self.ladder)} public ones, from {low} to {high}", "the same for every table"),
            *search.operators("values", f"steps that cover {percent(self.cover)}", confidence),
            *charged(self._paid[1]),
        )
        reason = "each unit is on one step, so one price pays for both ends, and empty steps look empty"
        return Explanation(self.text, str(Price(epsilon)), operators, reason, ())

    def error(self, epsilon: Number, confidence: Number = "0.95") -> int:
        """Return how many values a step holds that is inside the range, with this confidence, unless it is part of the
        share that may be left out. Free.
        """
        return self._draw(epsilon).search.error(confidence)

    def rank_error(self, epsilon: Number, confidence: Number = "0.95") -> int:
        """Return how well the number of values outside will be known, with this confidence. Free."""
        return self._draw(epsilon).search.rank_error(confidence)

    def price(self, within: Number, confidence: Number = "0.95") -> float:
        """Find the least ε at which no step with so many values is missed, with this confidence. This is free."""
        return least_price(lambda epsilon: self.error(epsilon, confidence), within)

    @property
    def _where(self) -> Context:
        return self._paid[1]

    @property
    def _declared(self) -> Table:
        return self._context.policy.tables[self.table]

    def _draw(self, epsilon: Number) -> _BoundsDraw:
        paid, steps, rest = exact(epsilon, "epsilon", POSITIVE), range(len(self.ladder)), (1 - self.cover) / 2
        search = StepSearch.of(self.bounded, tuple(steps), paid, (rest, rest))
        groups = tuple((step,) for step in steps)
        return _BoundsDraw(search, groups, self.ladder, self.column, Price(epsilon), self._context.version)

    def _shown(self, found: StoredResult[Bounds], confidence: Number) -> Bounds:
        known, here = found.value, self._where
        words = (known.steps.noise.words(), known.steps.counter.words())
        said = receipt(found, known.purchase, words, question=self.text, here=here, confidence=confidence)
        return replace(known, purchase=known.purchase.public, receipt=said)


def bounds_search(context: Context, table: str, column: str, cover: Number) -> BoundsSearch:
    """Propose to find bounds for a column; the names are looked up in the policy."""
    declared = private_table(context.policy, table)
    domain = _searched(declared, column)
    share = exact(cover, "cover", INSIDE_UNIT)
    if len(ladder(domain)) < 2:
        raise InvalidParameter("column", column, "one whose declared bounds hold several steps of the ladder")
    return BoundsSearch(context, declared.name, column, share)


def private_table(policy: Policy, table: str) -> Table:
    """Find a private table of the policy."""
    declared = policy.tables.get(table)
    if declared is None or declared.public:
        known = ", ".join(name for name, each in policy.tables.items() if not each.public)
        raise InvalidParameter("table", table, f"a private table of the policy: {known}")
    return declared


def _searched(declared: Table, column: Any) -> Domain:
    """Find the column, which has a type with an order and is not the unit's id."""
    name = f"{declared.name}.{column}"
    if column == declared.id:
        raise InvalidParameter("column", name, "not the id of the units: that names people, and has no bounds")
    domain = declared.columns.get(column)
    if domain is None:
        known = ", ".join(declared.columns) or "it declares none"
        raise InvalidParameter("column", name, f"a column that the policy declares in {declared.name}: {known}")
    if domain.type in (Type.TEXT, Type.BOOLEAN):
        rule = f"a column of numbers or dates: a {domain.type.value} has no bounds"
        raise InvalidParameter("column", name, rule, fix="list its values in the policy, or leave them to be found")
    if domain.values is not None:
        raise InvalidParameter("column", name, "a column whose values are not listed: those say its bounds already")
    return domain
