"""A proposal to find limits per unit privately: how many rows and groups most units have.

The plan has one row per unit: its number of rows and, if requested, the number of groups they are in. The candidates
are a public ladder of integers. One unit is on one step of each ladder, so it changes the counts by 1 in total however
many rows it has: this allows a search before any limit is declared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from itertools import product

from sfumato.array_types import Integers
from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import explain_period_charges, restrict_to_periods
from sfumato.curator.previews.explaining import Explanation, PlanStep
from sfumato.curator.proposals.priced_by_epsilon import EpsilonPricedProposal
from sfumato.curator.proposals.private_bounds import require_private_table
from sfumato.curator.step_counts import Ladder, StepCounts, StepSearch, counting_ladder
from sfumato.errors import InvalidParameter
from sfumato.html_fragments import paragraphs, preformatted
from sfumato.plan.aggregates.measures import Count
from sfumato.plan.aggregates.unit_measures import UnitRowCount, UnitSum
from sfumato.plan.bounding import BoundedPlan, candidate_bounded_plans, for_neighbours
from sfumato.plan.canonical import PlanKey, digest_beginning
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.nodes import Aggregate, GroupValues, PerUnit, Scan
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.values.expressions import Column, Field
from sfumato.policy import Table, Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, INSIDE_UNIT, POSITIVE, Number, exact, format_percent
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.answers.receipts import PREVIEW_MARK, Receipt
from sfumato.release.comparisons import GroupTotalsRelease
from sfumato.release.measurement import Batch
from sfumato.release.payers import NOT_BOUGHT, PurchaseTerms, purchase_terms
from sfumato.release.prices import Price, least_epsilon
from sfumato.release.proposal import make_receipt
from sfumato.release.releasing import StoredResult

MAX_LIMIT = 10**6
"""The largest limit that a policy may declare."""


@codec.serialisable("unit-limits")
@dataclass(frozen=True)
class UnitLimits:
    """The limits found; each is None if it was not requested or could not be found."""

    max_rows: int | None
    max_groups: int | None
    rows: StepCounts = field(repr=False)
    """The noisy numbers of units by rows, and the number of units above the limit."""
    groups: StepCounts | None = field(default=None, repr=False)
    purchase: PurchaseTerms = field(default=NOT_BOUGHT, repr=False)
    receipt: Receipt | None = field(default=None, repr=False, compare=False)
    """What it cost and whom it protects; not stored with the limits, since it quotes the current remaining budget."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)

    @property
    def is_preview(self) -> bool:
        """Whether it was invented from the policy alone: nothing was read, charged or stored."""
        return self.receipt is not None and self.receipt.is_preview

    @property
    def toml(self) -> str:
        """The lines to paste into the policy; empty if nothing was found."""
        limits = {"max_rows": self.max_rows, "max_groups": self.max_groups}
        return "\n".join(f"{name} = {limit}" for name, limit in limits.items() if limit is not None)

    def __repr__(self) -> str:
        mark = PREVIEW_MARK if self.is_preview else ""
        return f"UnitLimits(max_rows={self.max_rows}, max_groups={self.max_groups}){mark}"

    def __str__(self) -> str:
        summary = self.words(
            DEFAULT_CONFIDENCE if self.receipt is None else self.receipt.confidence or DEFAULT_CONFIDENCE
        )
        return f"{self.toml}\n{summary}" if self.toml else summary

    def _repr_html_(self) -> str:
        *toml, summary = str(self).rsplit("\n", 1)
        return "".join(map(preformatted, toml)) + paragraphs([summary])

    def words(self, confidence: Number = DEFAULT_CONFIDENCE) -> str:
        """Describe the limits, and how many units have more, with this confidence."""
        exact(confidence, "confidence", CONFIDENCE)
        sentences = [_limit_words("rows", self.max_rows, self.rows, confidence)]
        sentences += [] if self.groups is None else [_limit_words("groups", self.max_groups, self.groups, confidence)]
        return "; ".join(sentences) + (PREVIEW_MARK if self.is_preview else "")

    def to_json(self) -> str:
        """Write the limits as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> UnitLimits:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)


def _limit_words(counted_noun: str, limit: int | None, step_counts: StepCounts, confidence: Number) -> str:
    if limit is None:
        return f"no limit of {counted_noun} was found: there are too few units to be seen above the noise"
    units_above = max(0, step_counts.outside)
    units_within = max(0, step_counts.inside)
    half_width = step_counts.count_half_width(confidence)
    return (
        f"at most {limit:,} {counted_noun}: {units_above:,} units (± {half_width:,}) have more, {units_within:,} do not"
    )


@dataclass(frozen=True)
class _LimitsRelease(GroupTotalsRelease[UnitLimits]):
    """The release of limits: a search among the steps of each ladder."""

    searches: tuple[StepSearch, ...]
    keys: tuple[GroupValues, ...]
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
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        """The widths that stored limits must reach to be returned instead."""
        return {
            "steps": self.searches[0].error(DEFAULT_CONFIDENCE),
            "outside": self.searches[0].count_half_width(DEFAULT_CONFIDENCE),
        }

    def draw_from(self, totals: Integers) -> UnitLimits:
        step_counts = [search.draw(totals) for search in self.searches]
        rows, groups = step_counts[0], step_counts[1] if len(step_counts) > 1 else None
        terms = purchase_terms([self.batch.bounded], self.total, self.version)
        return UnitLimits(self._limit_from_counts(rows), self._limit_from_counts(groups), rows, groups, terms)

    def _limit_from_counts(self, step_counts: StepCounts | None) -> int | None:
        if step_counts is None or step_counts.span is None:
            return None
        return int(self.ladder.bounds_of(step_counts.span)[1])  # type: ignore[arg-type]


@dataclass(frozen=True)
class LimitsProposal(EpsilonPricedProposal[UnitLimits]):
    """A proposal to find limits; only ``release`` spends."""

    _context: Context = field(repr=False)
    table: str
    by: tuple[str, ...]
    """The columns that define groups; empty if only rows are limited."""
    share: Fraction
    """The share of units that should stay within each limit."""

    def __repr__(self) -> str:
        return f"<{self.text}: .explain() .error() .price() are free, .release() spends>"

    @property
    def text(self) -> str:
        groups = f" and groups by {', '.join(self.by)}" if self.by else ""
        return f"limits of rows{groups} in {self.table} that hold {format_percent(self.share)} of the units whole"

    @property
    def columns(self) -> Columns:
        """The released columns: a limit of rows, and one of groups if requested."""
        return tuple(AnswerColumn(f"max_{name}", Type.INTEGER) for name in self._limit_names)

    @cached_property
    def ladder(self) -> Ladder:
        """The candidate limits."""
        return counting_ladder(MAX_LIMIT)

    @cached_property
    def bounded(self) -> BoundedPlan:
        """The plan that counts units by their numbers of rows and groups."""
        (bounded,) = candidate_bounded_plans(
            self._plan_and_context_within_periods[0], self._unit_relation.limits, len(self._step_keys)
        )
        return for_neighbours(bounded, self._context.policy.neighbours)

    @cached_property
    def _plan_and_context_within_periods(self) -> tuple[Aggregate, Context]:
        """The plan restricted to the periods whose accounts pay, and their context."""
        counts = [Column(count_field, domain) for count_field, domain in self._unit_relation.columns.items()]
        plan = Aggregate(self._unit_relation, tuple(map(self.ladder.step_expression, counts)), (Count(),))
        return restrict_to_periods(plan, self._context)

    @property
    def plan_key(self) -> PlanKey:
        """The key of what is measured."""
        plan = self.bounded.plan
        return self._context.plan_key(plan, digest_beginning("limits", plan, self.share))

    def explain(self, epsilon: Number, confidence: Number = DEFAULT_CONFIDENCE) -> Explanation:
        """Explain the search at this price, step by step. This is free."""
        policy, draw = self._context.policy, self._strategy_at(epsilon)
        operators = [
            PlanStep("scan", self.table, f"protects {policy.unit}, {policy.neighbours.value}"),
            PlanStep("per unit", f"counts {' and '.join(self._limit_names)}", f"one row for each {policy.unit.name}"),
        ]
        for name, search in zip(self._limit_names, draw.searches, strict=True):
            selection = f"smallest limit of {name} that {format_percent(self.share)} of the units stay within"
            operators += search.explain_search("units", selection, confidence)
        operators += explain_period_charges(self._plan_and_context_within_periods[1])
        reason = "one unit has one number of rows, however large, so it changes the counts by one"
        return Explanation(self.text, str(draw.total), tuple(operators), reason, ())

    def error(self, epsilon: Number, confidence: Number = DEFAULT_CONFIDENCE) -> int:
        """Return the number of units from which a step is within the limit with this confidence, unless its share may
        be excluded. Free.
        """
        return self._strategy_at(epsilon).searches[0].error(confidence)

    def count_half_width(self, epsilon: Number, confidence: Number = DEFAULT_CONFIDENCE) -> int:
        """Return the half-width of the number of units above the limit. Free."""
        return self._strategy_at(epsilon).searches[0].count_half_width(confidence)

    def price(self, within: Number, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Find the least ε at which no step with this many units is missed. This is free."""
        return least_epsilon(lambda epsilon: self.error(epsilon, confidence), within)

    @property
    def _paying_context(self) -> Context:
        return self._plan_and_context_within_periods[1]

    @property
    def _policy_table(self) -> Table:
        return self._context.policy.tables[self.table]

    @property
    def _limit_names(self) -> tuple[str, ...]:
        return ("rows", "groups") if self.by else ("rows",)

    @cached_property
    def _unit_relation(self) -> PerUnit:
        """The relation with one row per unit; groups are counted as rows per unit and key."""
        table = self._policy_table
        columns = {Field(0, table.name, name): table.columns[name] for name in self.by}
        scan = Scan(table.name, table.every_row, 0, columns, ContributionLimits.from_table(table), table.possible_rows)
        rows = UnitRowCount(None, MAX_LIMIT)
        if not self.by:
            return PerUnit(scan, 1, (), (("rows", rows),))
        keys = tuple((key_field.name, Column(key_field, domain)) for key_field, domain in columns.items())
        per_group = PerUnit(scan, 1, keys, (("rows in a group", rows),))
        row_total = UnitSum(Column(Field(1, "", "rows in a group"), rows.domain), cap=MAX_LIMIT)
        return PerUnit(per_group, 2, (), (("groups", rows), ("rows", row_total)))

    @property
    def _step_keys(self) -> tuple[GroupValues, ...]:
        return tuple(product(range(len(self.ladder)), repeat=len(self._limit_names)))

    def _strategy_at(self, epsilon: Number) -> _LimitsRelease:
        exact_epsilon = exact(epsilon, "epsilon", POSITIVE)
        keys = self._step_keys
        names = [count_field.name for count_field in self._unit_relation.columns]
        epsilon_per_limit, uncovered = exact_epsilon / len(self._limit_names), (Fraction(0), 1 - self.share)
        steps_of_groups = [tuple(int(key[names.index(name)]) for key in keys) for name in self._limit_names]  # type: ignore[arg-type]
        searches = (
            StepSearch.calibrated(self.bounded, step_of_group, epsilon_per_limit, uncovered, from_first=True)
            for step_of_group in steps_of_groups
        )
        return _LimitsRelease(tuple(searches), keys, self.ladder, Price(epsilon), self._context.version)

    def _with_receipt(self, result: StoredResult[UnitLimits], confidence: Number) -> UnitLimits:
        limits, context = result.value, self._paying_context
        step_counts = [counts for counts in (limits.rows, limits.groups) if counts is not None]
        words = tuple(noise.words() for counts in step_counts for noise in (counts.noise, counts.counter))
        limits_receipt = make_receipt(
            result, limits.purchase, words, question=self.text, context=context, confidence=confidence
        )
        return replace(limits, purchase=limits.purchase.without_salt, receipt=limits_receipt)


def propose_limits(context: Context, table: str, by: str | Sequence[str], share: Number) -> LimitsProposal:
    """Propose to find limits per unit of a table; the names are checked against the policy."""
    policy_table, group_columns = (
        require_private_table(context.policy, table),
        (by,) if isinstance(by, str) else tuple(by),
    )
    if policy_table.every_row:
        rule = "a table in which a unit can have several rows"
        fix = f"leave {table} as it is: every row is a unit, so no limit is needed"
        raise InvalidParameter("table", table, rule, fix=fix)
    if len(set(group_columns)) < len(group_columns) or any(
        column not in policy_table.columns or column == policy_table.id for column in group_columns
    ):
        names = ", ".join(column for column in policy_table.columns if column != policy_table.id)
        raise InvalidParameter("by", by, f"a list of different columns of '{table}': {names}")
    return LimitsProposal(context, policy_table.name, group_columns, exact(share, "share", INSIDE_UNIT))
