"""Limits of one unit are found privately: how many rows and groups most units have, a proposal like every other.

The plan has one row for each unit: how many rows it has and, if asked for, how many groups these lie in. The candidates
are a public ladder of whole numbers. One unit is on one step of each ladder, so it moves the counts by 1 in all, as
many rows as it may have: that is what makes a limit possible that is not declared yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import by_period, charged
from sfumato.curator.previews.explaining import Explanation, Operator
from sfumato.curator.proposals.priced_by_epsilon import PricedByEpsilon
from sfumato.curator.proposals.private_bounds import private_table
from sfumato.curator.step_counts import Ladder, StepCounts, StepSearch, counting_ladder, least_price
from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.measures import Count
from sfumato.plan.aggregates.unit_measures import UnitCount, UnitSum
from sfumato.plan.bounding import BoundedPlan, boundings, for_neighbours
from sfumato.plan.canonical import digest
from sfumato.plan.limits import Limits
from sfumato.plan.nodes import Aggregate, GroupKey, PerUnit, Scan
from sfumato.plan.readings.total_readings import GroupTotals, Integers
from sfumato.plan.values.expressions import Column, Field
from sfumato.policy import Table, Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import CONFIDENCE, INSIDE_UNIT, POSITIVE, Number, exact, percent
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.answers.receipts import INVENTED, Receipt
from sfumato.release.comparisons import OneReading
from sfumato.release.measurement import Batch
from sfumato.release.payers import NOT_BOUGHT, Purchase, purchase
from sfumato.release.prices import Price
from sfumato.release.proposal import receipt
from sfumato.release.releasing import StoredResult

MOST = 10**6
"""No limit of a policy is larger."""


@codec.value("unit-limits")
@dataclass(frozen=True)
class UnitLimits:
    """Limits that were found; each is None where it was not asked for, or could not be found."""

    max_rows: int | None
    max_groups: int | None
    rows: StepCounts = field(repr=False)
    """The noisy numbers of units by rows, and how many units have more rows than the limit."""
    groups: StepCounts | None = field(default=None, repr=False)
    purchase: Purchase = field(default=NOT_BOUGHT, repr=False)
    receipt: Receipt | None = field(default=None, repr=False, compare=False)
    """What it cost and whom it protects; not stored with the limits, since it says what is left now."""

    def __post_init__(self) -> None:
        codec.check_fields(self)

    @property
    def rehearsed(self) -> bool:
        """Return whether it was invented from the policy alone: nothing was read, charged or written down."""
        return self.receipt is not None and self.receipt.rehearsed

    @property
    def toml(self) -> str:
        """Return the lines to paste into the policy; empty where nothing was found."""
        limits = {"max_rows": self.max_rows, "max_groups": self.max_groups}
        return "\n".join(f"{name} = {limit}" for name, limit in limits.items() if limit is not None)

    def __repr__(self) -> str:
        mark = INVENTED if self.rehearsed else ""
        return f"UnitLimits(max_rows={self.max_rows}, max_groups={self.max_groups}){mark}"

    def __str__(self) -> str:
        said = self.words("0.95" if self.receipt is None else self.receipt.confidence or "0.95")
        return f"{self.toml}\n{said}" if self.toml else said

    def words(self, confidence: Number = "0.95") -> str:
        """Describe what was found, and how many units have more, with this confidence."""
        exact(confidence, "confidence", CONFIDENCE)
        said = [_told("rows", self.max_rows, self.rows, confidence)]
        said += [] if self.groups is None else [_told("groups", self.max_groups, self.groups, confidence)]
        return "; ".join(said) + (INVENTED if self.rehearsed else "")

    def to_json(self) -> str:
        """Write the limits as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> UnitLimits:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)


def _told(what: str, limit: int | None, found: StepCounts, confidence: Number) -> str:
    if limit is None:
        return f"no limit of {what} was found: there are too few units to be seen through the noise"
    beyond, within, reach = max(0, found.outside), max(0, found.inside), found.rank_error(confidence)
    return f"at most {limit:,} {what}: {beyond:,} units (± {reach:,}) have more, {within:,} do not"


@dataclass(frozen=True)
class _LimitsDraw(OneReading[UnitLimits]):
    """Limits are released as a search among the steps of each ladder."""

    searches: tuple[StepSearch, ...]
    keys: tuple[GroupKey, ...]
    ladder: Ladder
    total: Price
    version: str

    @property
    def batch(self) -> Batch:
        return Batch(tuple(measurement for search in self.searches for measurement in search.measurements))

    @property
    def reading(self) -> GroupTotals:
        return GroupTotals(self.batch.bounded, self.keys)

    @property
    def good_enough(self) -> Mapping[str, Number]:
        """Stored limits are as good if their counts are as close."""
        return {"steps": self.searches[0].error("0.95"), "outside": self.searches[0].rank_error("0.95")}

    def made(self, totals: Integers) -> UnitLimits:
        found = [search.draw(totals) for search in self.searches]
        rows, groups = found[0], found[1] if len(found) > 1 else None
        terms = purchase([self.batch.bounded], self.total, self.version)
        return UnitLimits(self._limit(rows), self._limit(groups), rows, groups, terms)

    def _limit(self, found: StepCounts | None) -> int | None:
        return None if found is None or found.span is None else int(self.ladder.ends(found.span)[1])  # type: ignore[arg-type]


@dataclass(frozen=True)
class LimitsSearch(PricedByEpsilon[UnitLimits]):
    """A proposal to find limits: only ``release`` spends."""

    _context: Context = field(repr=False)
    table: str
    by: tuple[str, ...]
    """The columns whose values are the groups; none where only rows are limited."""
    share: Fraction
    """The share of the units that should be wholly within each limit."""

    def __repr__(self) -> str:
        return f"<{self.text}: .explain() .error() .price() are free, .release() asks>"

    @property
    def text(self) -> str:
        groups = f" and groups by {', '.join(self.by)}" if self.by else ""
        return f"limits of rows{groups} in {self.table} that hold {percent(self.share)} of the units whole"

    @property
    def columns(self) -> Columns:
        """List what is released: a limit of rows, and one of groups where they are limited too."""
        return tuple(AnswerColumn(f"max_{each}", Type.INTEGER) for each in self._named)

    @cached_property
    def ladder(self) -> Ladder:
        """Return the limits to choose from."""
        return counting_ladder(MOST)

    @cached_property
    def bounded(self) -> BoundedPlan:
        """Return the plan: how many units have how many rows, and groups."""
        (whole,) = boundings(self._paid[0], self._units.limits, len(self._keys))
        return for_neighbours(whole, self._context.policy.neighbours)

    @cached_property
    def _paid(self) -> tuple[Aggregate, Context]:
        """Return the plan held to the periods whose accounts pay, and where it is released."""
        counts = [Column(own, domain) for own, domain in self._units.columns.items()]
        plan = Aggregate(self._units, tuple(map(self.ladder.place, counts)), (Count(),))
        return by_period(plan, self._context)

    @property
    def identity(self) -> str:
        """Return the hash of what is measured."""
        return digest("limits", self.bounded.plan, self.share, self._context.declared)

    def explain(self, epsilon: Number, confidence: Number = "0.95") -> Explanation:
        """Describe what is done at this price, step by step. This is free."""
        policy, draw = self._context.policy, self._draw(epsilon)
        operators = [
            Operator("scan", self.table, f"protects {policy.unit}, {policy.neighbours.value}"),
            Operator("per unit", f"counts {' and '.join(self._named)}", f"one row for each {policy.unit.name}"),
        ]
        for name, search in zip(self._named, draw.searches, strict=True):
            chosen = f"least limit of {name} that {percent(self.share)} of the units keep"
            operators += search.operators("units", chosen, confidence)
        operators += charged(self._paid[1])
        reason = "one unit has one number of rows, however large, so it moves the counts by one"
        return Explanation(self.text, str(draw.total), tuple(operators), reason, ())

    def error(self, epsilon: Number, confidence: Number = "0.95") -> int:
        """Return how many units a step holds that is within the limit, with this confidence, unless it is part of the
        share that may be left out. Free.
        """
        return self._draw(epsilon).searches[0].error(confidence)

    def rank_error(self, epsilon: Number, confidence: Number = "0.95") -> int:
        """Return how well the number of units beyond the limit will be known, with this confidence. Free."""
        return self._draw(epsilon).searches[0].rank_error(confidence)

    def price(self, within: Number, confidence: Number = "0.95") -> float:
        """Find the least ε at which no step with so many units is missed, with this confidence. This is free."""
        return least_price(lambda epsilon: self.error(epsilon, confidence), within)

    @property
    def _where(self) -> Context:
        return self._paid[1]

    @property
    def _declared(self) -> Table:
        return self._context.policy.tables[self.table]

    @property
    def _named(self) -> tuple[str, ...]:
        return ("rows", "groups") if self.by else ("rows",)

    @cached_property
    def _units(self) -> PerUnit:
        """Make one row for each unit; its groups are counted as rows of units and keys."""
        declared = self._declared
        columns = {Field(0, declared.name, name): declared.columns[name] for name in self.by}
        scan = Scan(declared.name, declared.every_row, 0, columns, Limits.of(declared))
        rows = UnitCount(None, MOST)
        if not self.by:
            return PerUnit(scan, 1, (), (("rows", rows),))
        keys = tuple((own.name, Column(own, domain)) for own, domain in columns.items())
        parts = PerUnit(scan, 1, keys, (("rows in a group", rows),))
        added = UnitSum(Column(Field(1, "", "rows in a group"), rows.domain), cap=MOST)
        return PerUnit(parts, 2, (), (("groups", rows), ("rows", added)))

    @property
    def _keys(self) -> tuple[GroupKey, ...]:
        return tuple(product(range(len(self.ladder)), repeat=len(self._named)))

    def _draw(self, epsilon: Number) -> _LimitsDraw:
        paid, keys, names = exact(epsilon, "epsilon", POSITIVE), self._keys, [own.name for own in self._units.columns]
        each, left_out = paid / len(self._named), (Fraction(0), 1 - self.share)
        places = [tuple(int(key[names.index(name)]) for key in keys) for name in self._named]  # type: ignore[arg-type]
        searches = (StepSearch.of(self.bounded, place, each, left_out, from_first=True) for place in places)
        return _LimitsDraw(tuple(searches), keys, self.ladder, Price(epsilon), self._context.version)

    def _shown(self, found: StoredResult[UnitLimits], confidence: Number) -> UnitLimits:
        known, here = found.value, self._where
        drawn = [each for each in (known.rows, known.groups) if each is not None]
        words = tuple(noise.words() for each in drawn for noise in (each.noise, each.counter))
        said = receipt(found, known.purchase, words, question=self.text, here=here, confidence=confidence)
        return replace(known, purchase=known.purchase.public, receipt=said)


def limits_search(context: Context, table: str, by: str | Sequence[str], share: Number) -> LimitsSearch:
    """Propose to find limits for the units of a table; the names are looked up in the policy."""
    declared, named = private_table(context.policy, table), (by,) if isinstance(by, str) else tuple(by)
    if declared.every_row:
        rule = "a table whose units have several rows: where every row is a unit there is nothing to limit"
        raise InvalidParameter("table", table, rule)
    if len(set(named)) < len(named) or any(each not in declared.columns or each == declared.id for each in named):
        raise InvalidParameter("by", by, f"different columns of {table}: " + ", ".join(declared.columns))
    return LimitsSearch(context, declared.name, named, exact(share, "share", INSIDE_UNIT))
