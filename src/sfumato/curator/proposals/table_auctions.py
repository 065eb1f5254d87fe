"""An auction among the bids of a curator's table is a proposal like every other, charged through its ledger.

Bids are counted by how many of the prices they reach, with the limits of a unit enforced in the query; the price is
selected by the revenue those counts imply, which is a ``LinearScores`` reading whose columns are a chain: of two bids
the higher one reaches every price that the lower one does. So (``plan.readings``) a unit with at most m bids moves one
revenue further than another by at most m·top, whether it is added, removed or replaced, and that is what ε pays for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sfumato.curator.context import Context
from sfumato.curator.policy_account import charged
from sfumato.curator.previews.explaining import Explanation, Operator
from sfumato.curator.previews.rehearsing import rehearsed
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.sold_goods import Sold
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Exponential, Laplace
from sfumato.plan.aggregates.measures import Count
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.canonical import digest
from sfumato.plan.limits import Limits, Strategy
from sfumato.plan.nodes import Aggregate, GroupKey, Query, Scan
from sfumato.plan.noisy_rows import Finish
from sfumato.plan.readings.total_readings import GroupTotals, Integers, LinearScores, Supports, Thresholds, Totals
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.plan.values.functions import call, literal
from sfumato.plan.words import many
from sfumato.policy import Policy, Table, Type
from sfumato.privacy.calibration import least
from sfumato.privacy.numbers import BELOW_ONE, CONFIDENCE, POSITIVE, Number, exact, percent, text
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.comparisons import OneReading
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.payers import purchase
from sfumato.release.prices import Price, price_list, rounded_up
from sfumato.release.proposal import ReleaseCall, receipt, released
from sfumato.release.releasing import Progress, StoredResult


@dataclass(frozen=True)
class PriceDraw(OneReading[Sold]):
    """An auction is released as a price selected by revenue, and perhaps a noisy count of the bids that reach it."""

    batch: Batch
    groups: tuple[GroupKey, ...]
    prices: tuple[Fraction, ...]
    unit: int
    total: Price
    version: str

    @property
    def reading(self) -> GroupTotals:
        return GroupTotals(self.batch.bounded, self.groups)

    @property
    def good_enough(self) -> Mapping[str, Number]:
        """A stored sale is as good if its revenue falls short by no more, and its count is as close where one is
        asked for.
        """
        wanted: dict[str, Number] = {"shortfall": f"{self.error('0.95'):.12g}"}
        counter = self.counter
        return wanted if counter is None else {**wanted, "buyers": counter.mechanism.error("0.95")}

    @property
    def counter(self) -> Measurement | None:
        """Return the measurement of the count, if there is one."""
        return self.batch.measurements[1] if len(self.batch.measurements) > 1 else None

    def error(self, confidence: Number) -> float:
        """With this confidence the revenue is no further than this below that of the best price on the list."""
        selection = self.batch.measurements[0].mechanism
        return float(selection.error(len(self.prices), confidence, on_grid=True) / self.unit)

    def made(self, totals: Integers) -> Sold:
        choice, counter = self.batch.measurements[0], self.counter
        chosen = choice.draw(choice.reading.of(totals))
        sold = Sold(
            self.prices[chosen],
            selection=choice.mechanism,
            purchase=purchase([self.batch.bounded], self.total, self.version),
        )
        if counter is None:
            return sold
        (buyers,) = counter.draw(counter.reading.of(totals)[[chosen]])
        return replace(sold, buyers=int(buyers), counter=counter.mechanism)


@dataclass(frozen=True)
class TableAuction:
    """A proposal to sell: only ``release`` spends. A share ``counting`` of ε pays for a count of the buyers."""

    _context: Context = field(repr=False)
    question: Question = field(repr=False)
    prices: tuple[Fraction, ...]
    unit: int = field(repr=False)

    def __repr__(self) -> str:
        return f"<Auction at one of {len(self.prices)} prices: .explain() .error() .price() are free, .release() sells>"

    @property
    def columns(self) -> Columns:
        """List what is released: the price, and the number of buyers where some of ε pays for it."""
        return AnswerColumn("price", Type.REAL), AnswerColumn("buyers", Type.INTEGER)

    @property
    def bounded(self) -> BoundedPlan:
        return self.question.options[0]

    @property
    def weights(self) -> Thresholds:
        """Express the prices in units in which all are whole, and how many of them the bids of each group reach."""
        reached = tuple(int(level) for (level,) in self.question.groups)  # type: ignore[arg-type]
        return Thresholds(tuple(int(price * self.unit) for price in self.prices), reached)

    def explain(self, epsilon: Number, counting: Number = 0, confidence: Number = "0.95") -> Explanation:
        """Explain what the auction does at this price, step by step. This is free."""
        policy, draw = self._context.policy, self._draw(epsilon, counting)
        plan, sure = self.bounded.plan, f"with {percent(exact(confidence, 'confidence', CONFIDENCE))} confidence"
        choice, *counted = draw.batch.measurements
        operators = [
            Operator("scan", plan.table, f"protects {policy.unit}, {policy.neighbours.value}"),
            Operator("limit", f"at most {many(self.bounded.limits.rows, 'bid')} of one unit count", "whole bids"),
            Operator(
                "choose",
                f"one of {len(self.prices)} prices up to {float(self.prices[-1]):g}, by {choice.mechanism.words()}",
                f"the revenue is {sure} at most {draw.error(confidence):.6g} below the best of them",
            ),
        ]
        operators += [
            Operator(
                "count", f"bids at the price, {each.mechanism.words()}", f"±{each.mechanism.error(confidence)} {sure}"
            )
            for each in counted
        ]
        reason = "a higher bid reaches every price that a lower one does: half the noise of other scores is enough"
        operators += charged(self._context)
        return Explanation(self.question.text, str(draw.total), tuple(operators), reason, self.question.warnings)

    def error(self, epsilon: Number, counting: Number = 0, confidence: Number = "0.95") -> float:
        """With this confidence the revenue is no further than this below that of the best price on the list. Free."""
        return self._draw(epsilon, counting).error(confidence)

    def price(self, within: Number, counting: Number = 0, confidence: Number = "0.95") -> float:
        """Find the least ε at which the revenue is within this of the best, with this confidence. This is free."""
        wanted = exact(within, "within", POSITIVE)
        return float(rounded_up(least(lambda epsilon: self.error(epsilon, counting, confidence) <= wanted, "within")))

    def batch(self, epsilon: Number, counting: Number = 0) -> Batch:
        """Return what is measured at this price: the choice, and the count if some of ε pays for one."""
        total, share = exact(epsilon, "epsilon", POSITIVE), exact(counting, "counting", BELOW_ONE)
        totals, weights = Totals(self.bounded), self.weights
        scores = LinearScores(totals, weights)
        selection = Exponential(total * (1 - share), sensitivity=scores.spread / 2, neighbours=scores.neighbours)
        choice = Measurement(scores, selection)
        if not share:
            return Batch((choice,))
        reading = Supports(totals, weights)
        return Batch((choice, Measurement(reading, Laplace(reading.sensitivity.l1 / (total * share)))))

    def release(
        self,
        epsilon: Number,
        counting: Number = 0,
        *,
        confidence: Number = "0.95",
        fresh: bool = False,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> Sold:
        """Charge ε and draw the price.

        The same auction on the same data, at least as accurate, was paid for once: it is found again, free.
        ``seconds`` and ``progress`` are the curator's unless they are given for this call.
        """
        exact(confidence, "confidence", CONFIDENCE)
        draw = self._draw(epsilon, counting)
        return released(
            draw,
            draw.total,
            lambda found: self._shown(found, confidence),
            question=self.question.text,
            plan=self.identity,
            here=self._context,
            call=ReleaseCall(fresh, request_id, seconds, progress),
        )

    def rehearse(self, epsilon: Number, counting: Number = 0, *, confidence: Number = "0.95") -> Sold:
        """Sell to invented bids, from the policy alone. This is free."""
        return rehearsed(self, self._context, lambda there: there.release(epsilon, counting, confidence=confidence))

    @property
    def identity(self) -> str:
        """Return the hash of the auction: no count of the same bids is mistaken for it."""
        return digest("auction", self.question.identity, self.prices)

    def _draw(self, epsilon: Number, counting: Number) -> PriceDraw:
        batch = self.batch(epsilon, counting)
        return PriceDraw(batch, self.question.groups, self.prices, self.unit, Price(epsilon), self._context.version)

    def _shown(self, found: StoredResult[Sold], confidence: Number) -> Sold:
        sold = found.value
        words = tuple(each.words() for each in (sold.selection, sold.counter) if each is not None)
        here, said = self._context, self.question.text
        told = receipt(found, sold.purchase, words, question=said, here=here, confidence=confidence)
        return replace(sold, purchase=sold.purchase.public, receipt=told)


def auction(context: Context, table: str | None, column: str | None, prices: Sequence[Number]) -> TableAuction:
    """Propose to sell a digital good at one of these public prices to whoever bid in a table's column."""
    listed, unit = price_list(prices)
    declared, name = _bids(context.policy, table, column)
    domain, bid = declared.columns[name], Field(0, declared.name, name)
    reached = _reaching(Column(bid, domain), listed, 0, len(listed))
    limits = Limits.of(declared)
    scan = Scan(declared.name, declared.every_row, 0, {bid: domain}, limits)
    query = Query(Aggregate(scan, (reached,), (Count(),)), Finish(()))
    bounding = None if declared.every_row else Strategy.SAMPLE  # whole bids: a price is reached or it is not
    words = f"an auction among {declared.name}.{name} at {len(listed)} prices up to {text(listed[-1])}"
    asked = Question(context, words, query, limits, bounding)
    return TableAuction(asked._context, asked, listed, unit)  # noqa: SLF001


def _bids(policy: Policy, table: str | None, column: str | None) -> tuple[Table, str]:
    """Find the column of bids that is meant: what is left out may be left out where there is one alone."""
    every = [
        (declared, name)
        for declared in policy.tables.values()
        for name, domain in declared.columns.items()
        if not declared.public and domain.type.numeric
    ]
    meant = [each for each in every if table in (None, each[0].name) and column in (None, each[1])]
    if len(meant) != 1:
        known = ", ".join(f"{declared.name}.{name}" for declared, name in every) or "the policy declares none"
        given = ".".join("*" if each is None else each for each in (table, column))
        raise InvalidParameter("column", given, f"one column of numbers in a private table: {known}")
    return meant[0]


def _reaching(bid: Column, prices: tuple[Fraction, ...], low: int, high: int) -> Expression:
    """Count the prices that a bid reaches, by halving: between ``low`` and ``high`` of them."""
    if low == high:
        return literal(Type.INTEGER, low)
    middle = (low + high + 1) // 2
    reaches = call(">=", bid, literal(Type.REAL, prices[middle - 1]))
    return call("CASE", reaches, _reaching(bid, prices, middle, high), _reaching(bid, prices, low, middle - 1))
