"""A question as a proposal: what it costs and how wrong it will be is free; only ``release`` spends."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.explaining import Explanation, explain
from sfumato.curator.forecasts import Forecast, Width, half_widths
from sfumato.errors import EngineFailed, InvalidParameter, Unsupported, shorten
from sfumato.plan.bounding import Bounded, boundings, for_neighbours
from sfumato.plan.canonical import digest
from sfumato.plan.keys import conditions, groups
from sfumato.plan.limits import Limits, Strategy
from sfumato.plan.nodes import GroupKey, Query
from sfumato.plan.warnings import undeclared
from sfumato.policy import Table
from sfumato.privacy.calibration import least
from sfumato.privacy.numbers import POSITIVE, Number, exact
from sfumato.release.answer_rows import answer_rows
from sfumato.release.answers import Answer, answer
from sfumato.release.finishing import finish
from sfumato.release.measured import GroupTotals, Measured, estimating
from sfumato.release.preparing import Family, Prepared, prepare
from sfumato.release.prices import Price, rounded_up
from sfumato.release.proposal import Call, receipt, released
from sfumato.release.releasing import Progress, Released, limited
from sfumato.release.requests import Request, Within

MOST_NUMBERS = 1_000_000
"""So that every answer can be written down: refused before anything is charged."""


@dataclass(frozen=True)
class Question:
    """One question to a curator, understood but not yet asked."""

    _context: Context = field(repr=False)
    text: str
    query: Query
    limits: Limits
    strategy: Strategy | None = None

    @property
    def table(self) -> Table:
        return self._context.policy.tables[self.query.plan.table]

    @cached_property
    def groups(self) -> tuple[GroupKey, ...]:
        """Every group of the answer: from the policy, whatever the data hold."""
        plan, engine, seconds = self.query.plan, self._context.engine, self._context.seconds
        if not plan.keys:
            return groups((), engine.values)
        try:
            with limited(engine, seconds):
                return groups(plan.keys, engine.values, conditions(plan.source))
        except (TimeoutError, EngineFailed):
            if seconds is None:
                raise
            raise Unsupported(
                "slow-groups",
                f"the groups of a question are found within {seconds:g} seconds and the memory allowed",
                fix="group by fewer columns or coarser values, or ask the owner for more time",
            ) from None

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What the answer may miss because nobody declared it: from the policy alone, free."""
        return undeclared(self.query)

    @cached_property
    def options(self) -> tuple[Bounded, ...]:
        """The sound ways to limit what one unit changes."""
        rows = len(self.groups) * max(1, len(self.query.finish.sets))
        if rows * len(self.query.plan.measures) > MOST_NUMBERS:
            raise Unsupported(
                "too-many-numbers",
                f"an answer is made of at most {MOST_NUMBERS:,} noisy numbers",
                fix="ask for fewer columns or coarser groups",
            )
        found = boundings(self.query.plan, self.limits, len(self.groups))
        if self.strategy is not None:
            found = tuple(each for each in found if each.strategy is self.strategy)
            if not found:
                raise InvalidParameter("strategy", self.strategy.value, "one that is sound for this question")
        return tuple(for_neighbours(each, self._context.policy.neighbours) for each in found)

    def limit(
        self,
        *,
        rows: int | None = None,
        groups: int | None = None,
        rows_per_group: int | None = None,
        strategy: Strategy | str | None = None,
    ) -> Question:
        """The same question with tighter limits for one unit: less noise, more bias."""
        if self.table.every_row:
            raise InvalidParameter("limit", rows or groups, "left out: every row is a unit")
        chosen = self.strategy
        if strategy is not None:
            try:
                chosen = Strategy(strategy)
            except ValueError:
                names = ", ".join(each.value for each in Strategy if each is not Strategy.WHOLE)
                raise InvalidParameter("strategy", strategy, f"one of {names}") from None
        return replace(self, limits=self.limits.tighten(rows, groups, rows_per_group), strategy=chosen)

    def explain(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        within: Within | None = None,
        confidence: Number = "0.95",
        mechanism: Family | None = None,
    ) -> Explanation:
        """Operator by operator, what happens and what it costs; at ε = 1 when no price is named. Free."""
        request = Request(epsilon, delta, rho, within, confidence, mechanism)
        prepared = self._prepared(request if request.named else replace(request, epsilon=1))
        found = explain(self.text, self.query, self._context.policy, self.groups, prepared, confidence)
        return replace(found, warnings=self.warnings)

    def error(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        within: Within | None = None,
        confidence: Number = "0.95",
        mechanism: Family | None = None,
    ) -> Forecast:
        """The half-width of every number at this price, and whether the account would accept it now. Free."""
        request = Request(epsilon, delta, rho, within, confidence, mechanism)
        return self._forecast(self._prepared(request), confidence)

    def price(self, within: Within, *, confidence: Number = "0.95") -> float:
        """The least ε at which these columns (one number: every column) are within these half-widths. Free."""
        return float(self._least_price(Request(within=within, confidence=confidence)))

    def release(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        within: Within | None = None,
        confidence: Number = "0.95",
        mechanism: Family | None = None,
        fresh: bool = False,
        request_id: str | None = None,
        joint: bool = False,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> Answer:
        """Ask. The only thing that spends: charged on disk before the first row is read.

        ``seconds`` and ``progress`` are the curator's unless they are given for this call.
        """
        call = Call(fresh, request_id, seconds, progress)
        prepared = self._prepared(Request(epsilon, delta, rho, within, confidence, mechanism))
        return released(
            GroupTotals(prepared, self.groups, self._context.version),
            prepared.price,
            lambda found: self._answer(found, confidence, joint),
            question=self.text,
            plan=self.identity,
            here=self._context,
            call=call,
        )

    @cached_property
    def identity(self) -> str:
        """The hash of what is measured: equal for questions that differ only in what is done with the numbers."""
        listed = hashlib.sha256(repr(self.groups).encode()).hexdigest()  # a text of their own: there may be many
        return digest(self.query.plan, self.limits, self.strategy, listed, self._context.declared)

    def __repr__(self) -> str:
        shown = " ".join(self.text.split())
        return f"<Question {shorten(shown, 100)}: .explain() .error() .price() .limit() are free, .release() asks>"

    def _answer(self, found: Released[Measured], confidence: Number, joint: bool) -> Answer:
        measured = found.value
        rows = answer_rows(self.query.finish.sets, measured.keys.groups)
        finished = finish(self.query, rows, estimating(measured, confidence, rows), joint=joint)
        words = tuple(scale.mechanism.words(scale.unit_value) for scale in measured.scales)
        paper = receipt(found, measured.purchase, words, question=self.text, here=self._context, confidence=confidence)
        return answer(self.query, finished, paper, self.warnings)

    def _prepared(self, request: Request) -> Prepared:
        """The release at the price that is named, or at the least that is accurate enough."""
        if request.within is not None:
            return self._at(Price(self._least_price(request), request.delta), request.mechanism)
        return self._at(request.price, request.mechanism)

    def _at(self, price: Price, mechanism: Family | None) -> Prepared:
        if price.allows_gaussian:  # what the account would rather keep open has a say
            return prepare(self.options, price, account=self._context.account.budget, family=mechanism)
        if (price, mechanism) not in self._pure:
            self._pure[price, mechanism] = prepare(self.options, price, family=mechanism)
        return self._pure[price, mechanism]

    @cached_property
    def _pure(self) -> dict[tuple[Price, Family | None], Prepared]:
        """Releases prepared for pure prices: the same each time they are asked for."""
        return {}

    def _forecast(self, prepared: Prepared, confidence: Number) -> Forecast:
        accepted = all(purse.affords(prepared.curve) for purse in self._context.budgets)
        widths = self._widths(prepared, confidence)
        return Forecast(widths, exact(confidence, "confidence"), str(prepared.price), accepted, self.warnings)

    def _widths(self, prepared: Prepared, confidence: Number) -> dict[str, Width]:
        # the declared size is of units: it is a number of rows only where each row is one
        known = self.table.every_row and not self.query.plan.keys
        size = self._context.policy.size if known else None
        return half_widths(self.query, prepared, self.groups, confidence, size)

    def _least_price(self, request: Request) -> Fraction:
        within, confidence = request.within, request.confidence
        known = self._widths(self._at(Price(1, request.delta), request.mechanism), confidence)
        wanted: Mapping[str, Any] = within if isinstance(within, Mapping) else dict.fromkeys(known, within)
        if not wanted:
            raise InvalidParameter("within", within, "half-widths by column, such as {'visits': 50}")
        goals = {name: exact(width, f"within {name}", POSITIVE) for name, width in wanted.items()}
        for name in goals:
            if name not in known:
                raise InvalidParameter("within", name, "a column of numbers: " + ", ".join(known))
            if known[name] == math.inf:
                raise InvalidParameter(
                    "within", name, "a column whose error is finite: a part of it may be divided by zero"
                )
            if isinstance(known[name], Mapping):
                raise InvalidParameter(
                    "within",
                    name,
                    "a column whose error does not depend on the group's size",
                    fix="name the counts and sums it is made of",
                )

        def enough(epsilon: Fraction) -> bool:
            found = self._widths(self._at(Price(epsilon, request.delta), request.mechanism), confidence)
            return all(isinstance(width := found[name], float) and width <= goal for name, goal in goals.items())

        return rounded_up(least(enough, "within", Fraction(1, 2**20)))
