"""Proposals that measure the moments of columns once: their release, their explanation and their question.

A proposal of principal components: the moments of some columns, measured once as for a regression.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any, Generic, TypeVar

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import explain_period_charges
from sfumato.curator.previews.explaining import (
    Explanation,
    PlanStep,
    assumed_delta_note,
    explain_limit,
    explain_source,
)
from sfumato.curator.previews.previewing import preview_release
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.sampled_questions import refuse_sample_of_release
from sfumato.curator.proposals.selected_columns import is_select_text
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.inference.components import (
    ComponentsAnswer,
    ComponentsFit,
    components_answer,
    components_answer_columns,
    components_design,
)
from sfumato.inference.design import Design, assumed_moments, largest_scale
from sfumato.inference.moments import WEIGHT, MomentEstimates, MomentsRelease, NoisyMoments, moment_totals
from sfumato.inference.weighted_totals import WeightedTotals
from sfumato.plan.bounding import bound_by_whole_rows, for_neighbours
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.catalog import Catalog
from sfumato.plan.descriptions import count_with_noun
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.nodes import Aggregate, Query
from sfumato.plan.sql import building
from sfumato.plan.sql.building import RowSelection
from sfumato.privacy import codec
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, NONNEGATIVE, POSITIVE, Number, exact, format_number
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_columns import Columns
from sfumato.release.answers.receipts import Receipt
from sfumato.release.prices import Price, least_epsilon_where
from sfumato.release.proposal import ReleaseCall, StoredProposal, make_receipt, release_or_find
from sfumato.release.releasing import StoredResult
from sfumato.release.running_work import Progress
from sfumato.renamed import RehearseAlias

DEFAULT_DELTA = Fraction(1, 10**6)
ASSUMED_ROWS = 10_000
"""The number of rows that a forecast assumes where the policy declares no size."""
_MAX_ANSWER_COLUMNS = 100
"""The most columns of one statement's answer; sums of moments are not shown, so there may be more."""
T = TypeVar("T")


@dataclass(frozen=True)
class MomentsProposal(RehearseAlias, StoredProposal, Generic[T]):
    """A proposal whose answer is computed from released moments; subclasses compute it."""

    _context: Context = field(repr=False)
    question: Question = field(repr=False)
    design: Design = field(repr=False)

    def __repr__(self) -> str:
        return f"<{self.question.text}: .explain() .error() .price() are free, .release() spends>"

    @abstractmethod
    def build_answer(self, result: StoredResult[NoisyMoments], confidence: Number) -> T:
        """Build the answer from released moments."""

    @property
    def plan_key(self) -> PlanKey:
        """The key of the measured moments: what is only computed of them shares one answer."""
        return self.moments_key

    @property
    def moments_key(self) -> PlanKey:
        """The key under which the moments alone are stored."""
        return self.question.plan_key.derive(lambda key: digest("moments", key))

    def newest_moments(self) -> NoisyMoments | None:
        """Return the newest release of these moments, at any price; None without one. To use it is post-processing."""
        key, data = self.moments_key, self._context.engine.identity()
        stored = self._context.account.stored(plan=key.current, data=data, former_plan=key.former)
        return None if stored is None else codec.loads_as(NoisyMoments, stored.body)

    @cached_property
    def moments(self) -> WeightedTotals:
        """The moments, with the rows of a unit sampled."""
        bounded = bound_by_whole_rows(self.question.query.plan, self.question.limits, 1)
        return moment_totals(for_neighbours(bounded, self._context.policy.neighbours), self.design)

    @property
    def assumed_rows(self) -> int:
        """The number of rows that forecasts assume."""
        return self._context.policy.size or ASSUMED_ROWS

    def release(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
        sample: Number | None = None,
        fresh: bool = False,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> T:
        """Charge the price, draw the moments, and return the table. Stored moments of no more noise are free."""
        refuse_sample_of_release(sample, "regressions and components")
        exact(confidence, "confidence", CONFIDENCE)
        draw = self._strategy_at(Price(epsilon, delta, rho))
        return release_or_find(
            draw,
            draw.total,
            lambda result: self.build_answer(result, confidence),
            question=self.question.text,
            plan=self.plan_key,
            context=self._context,
            call=ReleaseCall(fresh, request_id, seconds, progress),
        )

    def preview(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> T:
        """Return a table of this shape with invented numbers, from the policy alone. This is free."""
        assumed = AssumedPrice.from_arguments(epsilon, delta, rho).price
        price: dict[str, Any] = {"epsilon": assumed.epsilon, "delta": assumed.delta, "rho": assumed.rho}
        return preview_release(self, self._context, lambda other: other.release(**price, confidence=confidence))

    def receipt(self, result: StoredResult[NoisyMoments], confidence: Number) -> Receipt:
        """Return the receipt of released moments."""
        noisy, unit_value = result.value, Fraction(1, WEIGHT * self.design.scale**2)
        words = f"{noisy.mechanism.words(unit_value)} on sums of squares of columns in [−1, 1]"
        return make_receipt(
            result,
            noisy.purchase,
            (words,),
            question=self.question.text,
            context=self._context,
            confidence=confidence,
        )

    def _least_epsilon(self, delta: Number, is_within: Callable[[MomentsRelease], bool]) -> float:
        """Return the least ε, at this δ, at which a release is accurate enough, and its noise can be drawn."""
        self._strategy_at(Price(1, delta))  # refuses a δ that no ε helps

        def is_enough(epsilon: Fraction) -> bool:
            try:
                return is_within(self._strategy_at(Price(epsilon, delta)))
            except InvalidParameter:
                return False

        return least_epsilon_where(is_enough)

    def _strategy_at(self, price: Price) -> MomentsRelease:
        return MomentsRelease.calibrated_to_price(self.moments, self.design, price, self._context.version)

    def _explain_moments(self, draw: MomentsRelease) -> tuple[PlanStep, ...]:
        """Explain where the rows come from, and how their moments are measured."""
        design, unit_value = self.design, Fraction(1, WEIGHT * self.design.scale**2)
        change = float(draw.mechanism.norm(self.moments.sensitivity) * unit_value)
        return (
            *explain_source(self.question.query, self._context.policy),
            explain_limit(draw.batch.bounded),
            PlanStep(
                "scale",
                ", ".join(design.names),
                "to [−1, 1] by declared bounds; a row with a missing value counts in no sum",
            ),
            PlanStep(
                "measure",
                f"{count_with_noun(len(design.gram_entry_count_by_moment), 'sum')} of products",
                f"one unit changes their matrix by at most {format_number(change, 4)} in Frobenius norm",
            ),
            PlanStep("noise", draw.mechanism.words(unit_value), "on a sum of squares; half its variance on a product"),
        )


@dataclass(frozen=True)
class AssumedPrice:
    """The price of a free call: where it names none, ε = 1; where it names no δ, one that a release must name."""

    price: Price
    notes: tuple[str, ...] = ()
    """What was assumed."""

    @classmethod
    def from_arguments(cls, epsilon: Number | None, delta: Number, rho: Number | None) -> AssumedPrice:
        """Complete the arguments of a free call."""
        if rho is not None or exact(delta, "delta", NONNEGATIVE):
            return cls(Price(1 if epsilon is None and rho is None else epsilon, delta, rho))
        price = Price(1 if epsilon is None else epsilon, DEFAULT_DELTA)
        return cls(price, (assumed_delta_note(DEFAULT_DELTA),))


def select_rows(catalog: Catalog, table: str | RowSelection, where: str | None) -> RowSelection:
    """Select the rows of a private table, of a SELECT, or of a selection, that meet a condition."""
    if isinstance(table, RowSelection):
        if table.catalog is not catalog:  # other declared bounds would scale the noise
            raise InvalidParameter(
                "table",
                ValueWords(f"rows of {table.table.name} from another curator"),
                "rows selected by this curator",
                fix="select the rows with this curator's table(…)",
            )
        rows = table
    else:
        is_select = isinstance(table, str) and is_select_text(table)
        rows = (building.select_from_query if is_select else building.start_selection)(catalog, table)
    return rows if where is None else building.where(rows, where)


def moment_question_and_design(
    context: Context, rows: RowSelection, design_with: Callable[[int], Design], label: str, row_limit: int | None
) -> tuple[Question, Design]:
    """Return the question that sums all moments of a design, scaled for as many rows as a unit may have."""
    text = f"{label} FROM {', '.join(rows.steps)}"

    def ask(selection: RowSelection, sums: Sequence[str]) -> Question:
        query = lower_sums(selection, sums)
        question = Question(context, text, query, query.plan.limits)
        return question if row_limit is None else question.limit(rows=row_limit)

    blocks = len(design_with(1 << 12).blocks)
    counted = ask(rows, ["COUNT(*)"])
    design = design_with(largest_scale(max_rows_per_unit(counted.query.plan, counted.limits), blocks))
    sums = [design.moment_sql(moment) for moment in design.gram_entry_count_by_moment]
    return ask(building.where(rows, design.row_condition), sums), design


def max_rows_per_unit(plan: Aggregate, limits: ContributionLimits) -> int:
    """Return the most rows of one unit that count in a plan whose first measure counts rows."""
    return int(bound_by_whole_rows(plan, limits, 1).measures[0].add_remove_sensitivity.total)


def lower_sums(rows: RowSelection, sums: Sequence[str]) -> Query:
    """Lower sums over the same rows, as many at a time as one statement may show, to one query that reads them all."""
    chunks = [sums[start : start + _MAX_ANSWER_COLUMNS] for start in range(0, len(sums), _MAX_ANSWER_COLUMNS)]
    queries = [
        building.start_question(rows, (), {f"m{index}": text for index, text in enumerate(chunk)}).query
        for chunk in chunks
    ]
    measures = tuple(measure for query in queries for measure in query.plan.measures)
    return replace(queries[0], plan=replace(queries[0].plan, measures=measures))


@dataclass(frozen=True, repr=False)
class ComponentsProposal(MomentsProposal[ComponentsAnswer]):
    """A proposal of principal components; only ``release`` spends."""

    @property
    def columns(self) -> Columns:
        """The columns of the answer with their types."""
        return components_answer_columns(self.design.names)

    def explain(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> Explanation:
        """Explain the release at this price, step by step; at ε = 1 and δ = 1e-6 if none is given. This is free."""
        assumed = AssumedPrice.from_arguments(epsilon, delta, rho)
        draw = self._strategy_at(assumed.price)
        error = format_number(self._variance_error(draw, confidence), 3)
        rows = self.assumed_rows
        operators = (
            *self._explain_moments(draw),
            PlanStep("rotate", f"{len(self.design.names)} components", f"variances ±{error} for {rows:,} rows; free"),
            *explain_period_charges(self._context),
        )
        reason = "one discrete Gaussian noise for each different sum"
        notes = (*assumed.notes, *self.question.warnings, *self._context.epsilon_total_warnings(draw.batch.curve))
        return Explanation(self.question.text, str(draw.total), operators, reason, notes)

    def error(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> float:
        """Return the ± of every variance at this price, of columns scaled to [−1, 1], for assumed rows. Free."""
        return self._variance_error(
            self._strategy_at(AssumedPrice.from_arguments(epsilon, delta, rho).price), confidence
        )

    def _variance_error(self, draw: MomentsRelease, confidence: Number) -> float:
        values = assumed_moments(self.design, self.assumed_rows)
        fit = ComponentsFit(self.design, MomentEstimates.assumed(values, draw.mechanism, self.design))
        return fit.covariance_error(float(exact(confidence, "confidence", CONFIDENCE)))

    def price(self, within: Number, *, delta: Number = DEFAULT_DELTA, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Find the least ε, at this δ, at which the forecast ± of every variance is at most this. This is free."""
        limit = float(exact(within, "within", POSITIVE))

        return self._least_epsilon(delta, lambda draw: self._variance_error(draw, confidence) <= limit)

    def build_answer(self, result: StoredResult[NoisyMoments], confidence: Number) -> ComponentsAnswer:
        """Build the table from released moments."""
        noisy = result.value
        fit = ComponentsFit(self.design, MomentEstimates.from_noisy_moments(noisy, self.design))
        return components_answer(
            fit, self.receipt(result, confidence), float(exact(confidence, "confidence")), self.question.warnings
        )


def propose_components(
    context: Context, rows: RowSelection, columns: Sequence[str], row_limit: int | None = None
) -> ComponentsProposal:
    """Propose the principal components of some columns of these rows, which need declared bounds."""
    is_list = isinstance(columns, Sequence) and not isinstance(columns, (str, bytes))
    if not is_list or len({str(column).lower() for column in columns}) != len(columns) or len(columns) < 2:
        raise InvalidParameter("columns", columns, 'two or more different columns, such as ["age", "hours"]')
    domains = rows.columns
    question, design = moment_question_and_design(
        context,
        rows,
        lambda scale: components_design(columns, domains, scale),
        f"COMPONENTS {', '.join(columns)}",
        row_limit,
    )
    return ComponentsProposal(context, question, design)
