"""A question as a proposal: what it costs and how wrong it will be is free; only ``release`` spends."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.explaining import Explanation, explain
from sfumato.curator.forecasts import Forecast, Width, half_widths
from sfumato.errors import EngineFailed, InvalidParameter, Unsupported, shorten
from sfumato.plan.bounding import Bounded, boundings, under
from sfumato.plan.canonical import digest
from sfumato.plan.keys import conditions, groups
from sfumato.plan.limits import Bounding, Limits
from sfumato.plan.nodes import GroupKey, Query
from sfumato.plan.warnings import undeclared
from sfumato.policy import Table
from sfumato.privacy.calibration import least
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact, text
from sfumato.release import door
from sfumato.release.answers import Answer, answer
from sfumato.release.finishing import finish
from sfumato.release.measured import estimating
from sfumato.release.preparing import Family, Prepared, prepare
from sfumato.release.prices import Price, warn_if_weak
from sfumato.release.receipts import Receipt
from sfumato.version import __version__

Within = Mapping[str, Number] | Number
"""Half-widths by column, or one for every column of numbers."""

MOST_NUMBERS = 1_000_000
"""So that every answer can be written down: refused before anything is charged."""


@dataclass(frozen=True)
class Question:
    """One question to a curator, understood but not yet asked."""

    _context: Context = field(repr=False)
    text: str
    query: Query
    limits: Limits
    bounding: Bounding | None = None

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
            with door.limited(engine, seconds):
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
        if len(self.groups) * len(self.query.plan.measures) > MOST_NUMBERS:
            raise Unsupported(
                "too-many-numbers",
                f"an answer is made of at most {MOST_NUMBERS:,} noisy numbers",
                fix="ask for fewer columns or coarser groups",
            )
        found = boundings(self.query.plan, self.limits, len(self.groups))
        if self.bounding is not None:
            found = tuple(each for each in found if each.bounding is self.bounding)
            if not found:
                raise InvalidParameter("bounding", self.bounding.value, "one that is sound for this question")
        return tuple(under(each, self._context.policy.neighbours) for each in found)

    def limit(
        self,
        *,
        rows: int | None = None,
        groups: int | None = None,
        rows_per_group: int | None = None,
        bounding: Bounding | str | None = None,
    ) -> Question:
        """The same question with tighter limits for one unit: less noise, more bias."""
        if self.table.every_row:
            raise InvalidParameter("limit", rows or groups, "left out: every row is a unit")
        way = self.bounding
        if bounding is not None:
            try:
                way = Bounding(bounding)
            except ValueError:
                names = ", ".join(each.value for each in Bounding if each is not Bounding.WHOLE)
                raise InvalidParameter("bounding", bounding, f"one of {names}") from None
        return replace(self, limits=self.limits.tighten(rows, groups, rows_per_group), bounding=way)

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
        named = epsilon is not None or rho is not None or within is not None
        price = self._priced(epsilon if named else 1, delta, rho, within, confidence, mechanism)
        prepared = self._prepared(price, mechanism)
        found = explain(self.text, self.query, self._context.policy, len(self.groups), prepared, confidence)
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
        price = self._priced(epsilon, delta, rho, within, confidence, mechanism)
        return self._forecast(self._prepared(price, mechanism), confidence)

    def price(self, within: Within, *, confidence: Number = "0.95") -> float:
        """The least ε at which these columns (one number: every column) are within these half-widths. Free."""
        exact(confidence, "confidence", CONFIDENCE)
        return float(self._least_price(within, confidence, 0, None))

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
    ) -> Answer:
        """Ask. The only thing that spends: charged on disk before the first row is read."""
        prepared = self._prepared(self._priced(epsilon, delta, rho, within, confidence, mechanism), mechanism)
        account, engine = self._context.account, self._context.engine
        asked = door.Asked(
            self.text, self.identity, engine.identity(), self._context.version, self._context.analyst, request_id
        )
        found = None if fresh else door.stored(prepared, asked, account)
        if found is None:
            self._rehearse(prepared, asked, confidence, joint)
            warn_if_weak(prepared.price)
            found = door.release(
                prepared,
                self.groups,
                asked,
                account=account,
                engine=engine,
                fresh=fresh,
                seconds=self._context.seconds,
                progress=self._context.progress,
            )
        return self._answer(found, self.groups, confidence, joint)

    @cached_property
    def identity(self) -> str:
        """The hash of what is measured: equal for questions that differ only in what is done with the numbers."""
        listed = hashlib.sha256(repr(self.groups).encode()).hexdigest()  # a text of their own: there may be many
        return digest(self.query.plan, self.limits, self.bounding, listed, self._context.declared)

    def __repr__(self) -> str:
        shown = " ".join(self.text.split())
        return f"<Question {shorten(shown, 100)}: .explain() .error() .price() .limit() are free, .release() asks>"

    def _rehearse(self, prepared: Prepared, asked: door.Asked, confidence: Number, joint: bool) -> None:
        """Go the whole way of an answer without data: what cannot be computed, written or shown is refused for free."""
        try:
            found = door.rehearse(prepared, asked)
            repr(self._answer(found, self.groups[:1] * len(found.measured.totals), confidence, joint))
        except (InvalidParameter, ArithmeticError):
            raise Unsupported(
                "extreme-numbers",
                "the numbers of an answer and their errors are 0 or between 1e-300 and 1e300 in size",
                fix="scale the values in the question, or declare bounds and a grid of moderate size",
            ) from None

    def _answer(self, found: door.Released, groups: tuple[GroupKey, ...], confidence: Number, joint: bool) -> Answer:
        finished = finish(self.query.finish, groups, estimating(found.measured, confidence), joint=joint)
        return answer(self.query, finished, self._receipt(found, confidence), self.warnings)

    def _priced(
        self,
        epsilon: Number | None,
        delta: Number,
        rho: Number | None,
        within: Within | None,
        confidence: Number,
        mechanism: Family | None,
    ) -> Price:
        """The price that is named, or the least that is accurate enough."""
        exact(confidence, "confidence", CONFIDENCE)
        if within is None:
            return Price(epsilon, delta, rho)
        if epsilon is not None or rho is not None:
            raise InvalidParameter("within", within, "given instead of epsilon or rho")
        return Price(self._least_price(within, confidence, delta, mechanism), delta)

    def _prepared(self, price: Price, mechanism: Family | None = None) -> Prepared:
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
        accepted = all(budget.affords(prepared.curve) for budget in self._context.budgets)
        widths = self._widths(prepared, confidence)
        return Forecast(widths, exact(confidence, "confidence"), str(prepared.price), accepted, self.warnings)

    def _widths(self, prepared: Prepared, confidence: Number) -> dict[str, Width]:
        # the declared size is of units: it is a number of rows only where each row is one
        known = self.table.every_row and not self.query.plan.keys
        size = self._context.policy.size if known else None
        return half_widths(self.query, prepared, len(self.groups), confidence, size)

    def _receipt(self, found: door.Released, confidence: Number) -> Receipt:
        policy, budget = self._context.policy, self._context.account.budget
        left = ", ".join(f"{name} {float(amount):.6g}" for name, amount in budget.remaining.items())
        return Receipt(
            question=self.text,
            unit=str(policy.unit),
            neighbours=policy.neighbours.value,
            guarantee=found.measured.price,
            account=f"ε = {text(budget.epsilon)}, δ = {text(budget.delta)}",
            mechanisms=tuple(scale.mechanism.words(scale.worth) for scale in found.measured.scales),
            bounding=found.measured.bounding,
            limits=found.measured.limits,
            bounds=found.measured.bounds,
            policy=self._context.declared,
            data=found.measured.data,
            software=f"sfumato {__version__}",
            line=found.number,
            hash=found.hash,
            time=found.time.isoformat(),
            free=found.free,
            confidence=text(exact(confidence, "confidence")),
            remaining=left or "nothing",
            epsilons=tuple(text(epsilon) for epsilon in self._context.account.epsilons),
        )

    def _least_price(self, within: Within, confidence: Number, delta: Number, mechanism: Family | None) -> Fraction:
        known = self._forecast(self._prepared(Price(1, delta), mechanism), confidence).columns
        wanted = within if isinstance(within, Mapping) else dict.fromkeys(known, within)
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
            found = self._widths(self._prepared(Price(epsilon, delta), mechanism), confidence)
            return all(isinstance(width := found[name], float) and width <= goal for name, goal in goals.items())

        return _rounded(least(enough, "within", Fraction(1, 2**20)))


def _rounded(epsilon: Fraction) -> Fraction:
    """Up, to four digits: a price that can be said aloud."""
    power = Fraction(10) ** (4 - math.ceil(math.log10(epsilon)))
    return Fraction(math.ceil(epsilon * power)) / power
