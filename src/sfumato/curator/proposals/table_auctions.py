"""A proposal of an auction among the bids in a curator's table, charged through its ledger.

Bids are counted by the number of prices they reach, with the limits per unit enforced in the query. The price is
selected by the revenue that those counts imply, a ``LinearScores`` reading whose columns form a chain: of two bids the
higher one reaches every price that the lower one does. So (``plan.readings``) a unit with at most m bids changes one
revenue more than another by at most m·top, whether it is added, removed or replaced, and this is what ε pays for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction

from sfumato.array_types import Integers
from sfumato.curator.context import Context
from sfumato.curator.policy_account import explain_period_charges
from sfumato.curator.previews.explaining import Explanation, PlanStep
from sfumato.curator.previews.previewing import preview_release
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.stored_answers import AuctionOutcome
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Exponential, Laplace
from sfumato.plan.aggregates.measures import Count
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.descriptions import count_with_noun
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import Aggregate, GroupValues, Query, Scan
from sfumato.plan.noisy_rows import Finish
from sfumato.plan.readings.total_readings import (
    GroupTotals,
    LinearScores,
    MeasureTotals,
    RowsReachingCandidates,
    ThresholdWeights,
)
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Policy, Table, Type
from sfumato.privacy.numbers import (
    BELOW_ONE,
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    POSITIVE,
    Number,
    exact,
    format_exact,
    format_percent,
)
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.comparisons import GroupTotalsRelease
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.payers import purchase_terms
from sfumato.release.prices import Price, least_epsilon, parse_prices_and_denominator
from sfumato.release.proposal import ReleaseCall, StoredProposal, make_receipt, release_or_find
from sfumato.release.releasing import StoredResult
from sfumato.release.running_work import Progress
from sfumato.renamed import RehearseAlias


@dataclass(frozen=True)
class AuctionRelease(GroupTotalsRelease[AuctionOutcome]):
    """The release of an auction: a price selected by revenue, and optionally a noisy count of the buyers."""

    batch: Batch
    groups: tuple[GroupValues, ...]
    prices: tuple[Fraction, ...]
    unit: int
    total: Price
    version: str

    @property
    def reading(self) -> GroupTotals:
        return GroupTotals(self.batch.bounded, self.groups)

    @property
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        """The shortfall, and the width of the count if requested, that a stored sale must reach."""
        required: dict[str, Number] = {"shortfall": f"{self.error(DEFAULT_CONFIDENCE):.12g}"}
        counter = self.counter
        return required if counter is None else {**required, "buyers": counter.mechanism.error(DEFAULT_CONFIDENCE)}

    @property
    def counter(self) -> Measurement | None:
        """The measurement of the count, if any."""
        return self.batch.measurements[1] if len(self.batch.measurements) > 1 else None

    def error(self, confidence: Number) -> float:
        """Return how far the revenue may be below that of the best listed price, with this confidence."""
        selection = self.batch.measurements[0].mechanism
        return float(selection.error(len(self.prices), confidence, on_grid=True) / self.unit)

    def draw_from(self, totals: Integers) -> AuctionOutcome:
        selection, counter = self.batch.measurements[0], self.counter
        price_index = selection.draw(selection.reading.extract(totals))
        sold = AuctionOutcome(
            self.prices[price_index],
            selection=selection.mechanism,
            purchase=purchase_terms([self.batch.bounded], self.total, self.version),
        )
        if counter is None:
            return sold
        (buyers,) = counter.draw(counter.reading.extract(totals)[[price_index]])
        return replace(sold, buyers=int(buyers), counter=counter.mechanism)


@dataclass(frozen=True)
class AuctionProposal(RehearseAlias, StoredProposal):
    """A proposal of an auction; only ``release`` spends. A share ``counting`` of ε pays for a count of the buyers."""

    _context: Context = field(repr=False)
    question: Question = field(repr=False)
    prices: tuple[Fraction, ...]
    unit: int = field(repr=False)

    def __repr__(self) -> str:
        return f"<Auction at one of {len(self.prices)} prices: .explain() .error() .price() are free, .release() sells>"

    @property
    def columns(self) -> Columns:
        """The released columns: the price, and the number of buyers if a share of ε pays for it."""
        return AnswerColumn("price", Type.REAL), AnswerColumn("buyers", Type.INTEGER)

    @property
    def bounded(self) -> BoundedPlan:
        return self.question.bounding_options[0]

    @property
    def price_thresholds(self) -> ThresholdWeights:
        """The prices in units in which all are integers, and how many of them each group of bids reaches."""
        reached = tuple(int(level) for (level,) in self.question.groups)  # type: ignore[arg-type]
        return ThresholdWeights(tuple(int(price * self.unit) for price in self.prices), reached)

    def explain(self, epsilon: Number, counting: Number = 0, confidence: Number = DEFAULT_CONFIDENCE) -> Explanation:
        """Explain the auction at this price, step by step. This is free."""
        policy, draw = self._context.policy, self._strategy_at(epsilon, counting)
        plan = self.bounded.plan
        confidence_text = f"with {format_percent(exact(confidence, 'confidence', CONFIDENCE))} confidence"
        selection, *counts = draw.batch.measurements
        operators = [
            PlanStep("scan", plan.table, f"protects {policy.unit}, {policy.neighbours.value}"),
            PlanStep("limit", f"at most {count_with_noun(self.bounded.limits.rows, 'bid')} per unit", "whole bids"),
            PlanStep(
                "choose",
                f"one of {len(self.prices)} prices up to {float(self.prices[-1]):g}, by {selection.mechanism.words()}",
                f"the revenue is {confidence_text} at most {draw.error(confidence):.6g} below the best of them",
            ),
        ]
        operators += [
            PlanStep(
                "count",
                f"bids at the price, {count.mechanism.words()}",
                f"±{count.mechanism.error(confidence)} {confidence_text}",
            )
            for count in counts
        ]
        reason = "a higher bid reaches every price that a lower one does, which halves the noise"
        operators += explain_period_charges(self._context)
        return Explanation(self.question.text, str(draw.total), tuple(operators), reason, self.question.warnings)

    def error(self, epsilon: Number, counting: Number = 0, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Return how far the revenue may be below that of the best listed price, with this confidence. Free."""
        return self._strategy_at(epsilon, counting).error(confidence)

    def price(self, within: Number, counting: Number = 0, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Find the least ε at which the revenue is within this of the best. This is free."""
        return least_epsilon(lambda epsilon: self.error(epsilon, counting, confidence), within)

    def batch(self, epsilon: Number, counting: Number = 0) -> Batch:
        """Return the measurements at this price: the selection, and the count if a share of ε pays for it."""
        total, share = exact(epsilon, "epsilon", POSITIVE), exact(counting, "counting", BELOW_ONE)
        totals, weights = MeasureTotals(self.bounded), self.price_thresholds
        scores = LinearScores(totals, weights)
        selection = Exponential(
            total * (1 - share), sensitivity=scores.score_difference_bound / 2, neighbours=scores.neighbours
        )
        price_choice = Measurement(scores, selection)
        if not share:
            return Batch((price_choice,))
        reading = RowsReachingCandidates(totals, weights)
        return Batch((price_choice, Measurement(reading, Laplace(reading.sensitivity.l1 / (total * share)))))

    def release(
        self,
        epsilon: Number,
        counting: Number = 0,
        *,
        confidence: Number = DEFAULT_CONFIDENCE,
        fresh: bool = False,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> AuctionOutcome:
        """Charge ε and draw the price.

        A stored outcome of the same auction on the same data, at least as accurate, is returned free. ``seconds`` and
        ``progress`` default to the curator's.
        """
        exact(confidence, "confidence", CONFIDENCE)
        draw = self._strategy_at(epsilon, counting)
        return release_or_find(
            draw,
            draw.total,
            lambda result: self._with_receipt(result, confidence),
            question=self.question.text,
            plan=self.plan_key,
            context=self._context,
            call=ReleaseCall(fresh, request_id, seconds, progress),
        )

    def preview(
        self, epsilon: Number, counting: Number = 0, *, confidence: Number = DEFAULT_CONFIDENCE
    ) -> AuctionOutcome:
        """Run the auction on invented bids, from the policy alone. This is free."""
        return preview_release(
            self, self._context, lambda proposal: proposal.release(epsilon, counting, confidence=confidence)
        )

    @property
    def plan_key(self) -> PlanKey:
        """The key of the auction, different from that of a count of the same bids."""
        return self.question.plan_key.derive(lambda key: digest("auction", key, self.prices))

    def _strategy_at(self, epsilon: Number, counting: Number) -> AuctionRelease:
        batch = self.batch(epsilon, counting)
        return AuctionRelease(
            batch, self.question.groups, self.prices, self.unit, Price(epsilon), self._context.version
        )

    def _with_receipt(self, result: StoredResult[AuctionOutcome], confidence: Number) -> AuctionOutcome:
        sold = result.value
        words = tuple(noise.words() for noise in (sold.selection, sold.counter) if noise is not None)
        context, question_text = self._context, self.question.text
        sale_receipt = make_receipt(
            result, sold.purchase, words, question=question_text, context=context, confidence=confidence
        )
        return replace(sold, purchase=sold.purchase.without_salt, receipt=sale_receipt)


def propose_auction(
    context: Context, table: str | None, column: str | None, prices: Sequence[Number]
) -> AuctionProposal:
    """Propose to sell a digital good at one of these public prices to the bidders in a table's column."""
    price_levels, unit = parse_prices_and_denominator(prices)
    bid_table, name = _bid_table_and_column(context.policy, table, column)
    domain, bid = bid_table.columns[name], Field(0, bid_table.name, name)
    reached = _count_of_reached_prices_expression(Column(bid, domain), price_levels, 0, len(price_levels))
    limits = ContributionLimits.from_table(bid_table)
    scan = Scan(bid_table.name, bid_table.every_row, 0, {bid: domain}, limits, bid_table.possible_rows)
    query = Query(Aggregate(scan, (reached,), (Count(),)), Finish(()))
    bounding = None if bid_table.every_row else Strategy.SAMPLE  # sample whole bids: a price is reached or not
    words = (
        f"an auction among {bid_table.name}.{name} at {len(price_levels)} prices up to {format_exact(price_levels[-1])}"
    )
    question = Question(context, words, query, limits, bounding)
    return AuctionProposal(question._context, question, price_levels, unit)  # noqa: SLF001


def _bid_table_and_column(policy: Policy, table: str | None, column: str | None) -> tuple[Table, str]:
    """Return the column of bids; table and column may be omitted if only one column fits."""
    numeric_columns = [
        (policy_table, name)
        for policy_table in policy.tables.values()
        for name, domain in policy_table.columns.items()
        if not policy_table.public and domain.type.numeric
    ]
    matches = [
        candidate
        for candidate in numeric_columns
        if table in (None, candidate[0].name) and column in (None, candidate[1])
    ]
    if len(matches) != 1:
        choices = (
            ", ".join(f"{policy_table.name}.{name}" for policy_table, name in numeric_columns) or "none is declared"
        )
        requested = ".".join("*" if part is None else part for part in (table, column))
        is_known = any(column in policy_table.columns for policy_table in policy.tables.values())
        rule = f"one of the numeric columns of private tables: {choices}"
        raise InvalidParameter("column", requested, rule, fix="name one of these columns" if is_known else "")
    return matches[0]


def _count_of_reached_prices_expression(bid: Column, prices: tuple[Fraction, ...], low: int, high: int) -> Expression:
    """Return the expression for the number of prices a bid reaches, a binary search from ``low`` to ``high``."""
    if low == high:
        return literal(Type.INTEGER, low)
    middle = (low + high + 1) // 2
    reaches = call(">=", bid, literal(Type.REAL, prices[middle - 1]))
    return call(
        "CASE",
        reaches,
        _count_of_reached_prices_expression(bid, prices, middle, high),
        _count_of_reached_prices_expression(bid, prices, low, middle - 1),
    )
