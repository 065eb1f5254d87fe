"""Proposals about limits per unit: count what they cut, or find them privately.

Propose to count what limits and bounds cut from an answer: a workload, bought as one batch (proofs: ``clipping``).

The counts are charged like any questions, are stored, and are free again. What a limit cuts is private: nothing about
it is shown before it is paid for.

A proposal to find limits per unit privately: how many rows and groups most units have.

The plan has one row per unit: its number of rows and, if requested, the number of groups they are in. The candidates
are a public ladder of integers. One unit is on one step of each ladder, so it changes the counts by 1 in total however
many rows it has: this allows a search before any limit is declared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from fractions import Fraction
from itertools import product
from typing import cast

from sfumato.array_types import Integers
from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import explain_period_charges, restrict_to_periods
from sfumato.curator.previews.advising import Tip
from sfumato.curator.previews.explaining import Explanation, PlanStep
from sfumato.curator.proposals.priced_by_epsilon import EpsilonPricedProposal
from sfumato.curator.proposals.private_bounds import require_private_table
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.stored_answers import Answers
from sfumato.curator.proposals.workloads import WorkloadProposal
from sfumato.curator.step_counts import Ladder, StepCounts, StepSearch, counting_ladder
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.html_fragments import paragraphs, preformatted
from sfumato.plan.aggregates.measures import Count, DistinctUnits
from sfumato.plan.aggregates.unit_measures import UnitRowCount, UnitSum
from sfumato.plan.bounding import BoundedPlan, candidate_bounded_plans, for_neighbours
from sfumato.plan.canonical import PlanKey, digest_beginning
from sfumato.plan.caveats import caveat_by_column
from sfumato.plan.clipping import (
    ClippingQuestion,
    CutCounts,
    WorstCase,
    clipping_questions,
    with_worst_cases,
    worst_cases,
)
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.nodes import Aggregate, GroupValues, PerUnit, Scan
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.values.expressions import Column, Field
from sfumato.policy import Table, Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, INSIDE_UNIT, POSITIVE, Number, exact, format_percent
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.answers.receipts import PREVIEW_MARK, Receipt
from sfumato.release.comparisons import GroupTotalsRelease
from sfumato.release.measurement import Batch
from sfumato.release.payers import NOT_BOUGHT, PurchaseTerms, purchase_terms
from sfumato.release.prices import Price, least_epsilon
from sfumato.release.proposal import make_receipt
from sfumato.release.releasing import ReleaseRequest, StoredResult, find_stored
from sfumato.release.requests import PriceRequest
from sfumato.untrusted import escape_unprintable

_ANY_ACCURACY = "0.000001"
"""A price so low that every stored count is more accurate."""
_LARGE_SHARE = 0.01
"""The share that is surely cut, from which other limits and bounds are advised."""


@dataclass(frozen=True)
class ClippedQuestion(Question):
    """A question about what a limit or bound cuts from another one."""

    about: Question | None = None
    """The question that is cut: the same conditions select its rows."""
    name: str = ""
    """The limit or bound in words."""
    column: Field | None = None
    """The column whose cells are counted; None where units are."""

    @property
    def warnings(self) -> tuple[str, ...]:
        return () if self.about is None else self.about.warnings

    def caveat_by_column(self, joined_strategies: str) -> dict[str, str]:
        """Name what moves these counts: what selects the rows, and for cells the limit on rows too."""
        if self.column is not None or self.about is None:
            return caveat_by_column(self.query, self.row_limits(joined_strategies))
        units = tuple(DistinctUnits() for _ in self.query.plan.measures)
        plan = replace(self.query.plan, source=self.about.query.plan.source, measures=units)
        return caveat_by_column(replace(self.query, plan=plan), self.row_limits(joined_strategies))

    def least_price(self, request: PriceRequest, priced: Callable[[Fraction], Price] | None = None) -> Fraction:
        """Find the least price; a single half-width is that of the number beyond the limit: a share has none."""
        if request.within is not None and not isinstance(request.within, Mapping):
            request = replace(request, within={self.query.outputs[1].name: request.within})
        return super().least_price(request, priced)

    def bought_tip(self) -> Tip | None:
        """Advise to find another limit or bound privately, where a count that was bought before says that this one cuts
        much; None where nothing was bought, or little is cut.
        """
        bought = self.bought_answer()
        return None if bought is None else self._tip_if_large_share(bought)

    def bought_answer(self) -> Answer | None:
        """Return the count that was bought before, of whatever accuracy; None where none was. Free."""
        context, prepared = self._context, self.price_release(PriceRequest(_ANY_ACCURACY))
        request = ReleaseRequest(self.text, self.identity, context.engine.identity(), context.analyst)
        stored, _ = find_stored(self.release_strategy(prepared), request, context.account)
        return None if stored is None else self.build_answer(stored, DEFAULT_CONFIDENCE, False)

    def _tip_if_large_share(self, answer: Answer) -> Tip | None:
        share, interval = answer.column("share")[0], answer.intervals["share"][0]
        if share is None or interval is None or interval[0] < _LARGE_SHARE:
            return None
        cut, table = format_percent(Fraction(round(1000 * share), 1000)), self.query.plan.table
        if self.column is None:
            cause, change = f"{cut} of units have {self.name}", f'curator.limits("{table}")'
            now, then = "the policy's", "limits that leave 95 % of the units whole"
        else:
            cause = f"{cut} of the values have {self.name}"
            change = f'curator.bounds("{self.column.table}", "{self.column.name}")'
            now, then = "the policy's", "bounds that cover 99 % of the values"
        return Tip(cause, Fraction(round(100 * share), 100), change, "share", now, then)


def propose_clipped(context: Context, question: Question) -> WorkloadProposal:
    """Propose to count the units beyond each limit of a question, and the cells beyond each bound. Free."""
    context.require_one_account("a count of the rows and values beyond limits and bounds")
    counts = clipping_questions(question.query, question.limits, question.max_groups_per_unit)
    if not counts:
        raise Unsupported(
            "nothing-clipped",
            "there is nothing to count: no limit or bound removes data from this answer, or what is removed cannot be "
            "counted",
            fix="release the answer itself",
        )
    return ClippedProposal(
        context, {count.name: _counting_question(context, count, question) for count in counts}, question
    )


@dataclass(frozen=True)
class ClippedProposal(WorkloadProposal):
    """A proposal to count what limits and bounds cut from one question."""

    about: Question | None = None
    """The question that is cut."""

    def combine_answers(self, answers: Mapping[str, Answer], receipt: Receipt | None) -> Answers:
        """Put the counts together, with the worst case that they prove below the last of them."""
        assert self.about is not None
        columns = {name: cast("ClippedQuestion", question).column for name, question in self.questions.items()}
        row_limits = self.about.row_limits("")
        cases = worst_cases(self.about.query, row_limits)
        lines = _worst_case_lines(cases, {columns[name]: answer for name, answer in answers.items()}, row_limits.unit)
        *_, last = answers
        advice = "; ".join(f"{escape_unprintable(name)}: {line}" for name, line in lines.items())
        advised_answers = {**answers, last: replace(answers[last], advice=advice)} if advice else answers
        return super().combine_answers(advised_answers, receipt)


def caveat_with_worst_case_by_column(question: Question, joined_strategies: str) -> dict[str, str]:
    """Name what can move each column, with its worst case if it has one: by counts if all were bought, else by limits
    alone. Free.
    """
    cache = question.cached_caveats
    if joined_strategies not in cache:
        limits = question.row_limits(joined_strategies)
        cache[joined_strategies] = (
            caveat_by_column(question.query, limits),
            worst_cases(question.query, limits),
            limits.unit,
        )
    lines, cases, unit = cache[joined_strategies]
    if not cases:
        return lines
    worst = {name: case.describe(unit) for name, case in cases.items()}
    with suppress(Unsupported):
        bought = {count.column: count.bought_answer() for count in question.clipped().questions.values()}
        counts = {column: answer for column, answer in bought.items() if answer is not None}
        worst |= _worst_case_lines(cases, counts, unit)
    return with_worst_cases(lines, worst)


def _worst_case_lines(
    cases: Mapping[str, WorstCase], answer_by_column: Mapping[Field | None, Answer], unit: str
) -> dict[str, str]:
    """Describe the worst case of each column all of whose counts are at hand."""
    lines = {}
    for name, case in cases.items():
        cut_counts = _cut_counts(
            case, {"" if column is None else str(column): answer_by_column[column] for column in answer_by_column}
        )
        if cut_counts is not None:
            confidence = format_percent(next(iter(answer_by_column.values())).receipt.confidence)
            lines[name] = case.describe_counted(cut_counts, unit, confidence)
    return lines


def _cut_counts(case: WorstCase, counts: Mapping[str, Answer]) -> CutCounts | None:
    """Return the ends of the ranges of a worst case's counts; None where one of them was not bought."""
    cells, units = counts.get(case.value) if case.value else None, counts.get("")
    if (case.value and cells is None) or (case.limits_rows and units is None):
        return None
    beyond = _nonnegative_interval(units, "units beyond")[1] if units is not None and case.limits_rows else Fraction(0)
    if cells is None:
        return CutCounts(beyond)
    clamped, share, present = (_nonnegative_interval(cells, column) for column in ("clamped cells", "share", "cells"))
    return CutCounts(beyond, clamped[1], min(share[1], Fraction(1)), present[0])


def _nonnegative_interval(answer: Answer, column: str) -> tuple[Fraction, Fraction]:
    """Return the range of an answer's only number, at least 0; where noise hides a share, that of any share."""
    interval = answer.intervals[column][0]
    low, high = (0.0, 1.0) if interval is None else interval
    return max(Fraction(0), Fraction(low)), max(Fraction(0), Fraction(high))


def _counting_question(context: Context, count: ClippingQuestion, question: Question) -> ClippedQuestion:
    text = f"{count.name}: {' '.join(question.text.split())}"
    return ClippedQuestion(context, text, count.query, count.limits, count.strategy, question, count.name, count.column)


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
