"""What is reserved before it is spent: a tab's hold of its budget, and spending limits beside an account.

A hold is a vector (ε, r, δ); a step must fit what is left in every component, so that spent and held together never
grow. What is unspent is released after an explicit ``stop``: every step was a complete release charged with its own
curve, and where to stop was decided from what had been released. Whatever does not meet that (a mechanism with hidden
state, a time limit, a block left by an error that may depend on data, a process that died) releases nothing.

*Spending limits.* They are stored outside the ledger, for example for all that one token of a server may ever spend.
The order makes it sound: the amount is reserved, durably; then the account is charged; then the reservation is settled
as spent or released. A process that ends in between leaves an unsettled reservation, which counts as spent.

*Amendments.* A budget may change while it is in use: what was spent stays spent, in the currencies it was counted in.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Protocol, Self

from sfumato.errors import InvalidParameter, Overspent, TabClosed
from sfumato.ledger.entries import MAX_BODY_LENGTH, Entry, Line, checked_text, checked_widths, write_widths
from sfumato.ledger.guarded import GuardedStore
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.spending import NO_COST, read_cost
from sfumato.ledger.transaction import Transaction
from sfumato.privacy import Budget, Cost, Curve, Guarantee, codec
from sfumato.privacy.amounts import exact_amount, format_guarantee
from sfumato.privacy.numbers import BELOW_ONE, Number, amount_from_units, exact, format_exact, next_float_up
from sfumato.privacy.theorems import renyi_allowance
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True)
class SettledAnswer:
    """One answer of a tab that was charged in full: its entry, body and accuracy."""

    entry: Entry
    """It leaks nothing beyond what was charged when the tab was opened."""
    body: str
    accuracy: Mapping[str, Number]

    def __post_init__(self) -> None:
        if self.entry.curve.parts:
            fix = "leave out the parts of the entry"
            raise InvalidParameter(
                "entry",
                self.entry.parts,
                "an entry without parts, because the tab already pays for its privacy loss",
                fix=fix,
            )
        checked_text(self.body, "body", MAX_BODY_LENGTH)


class Tab:
    """An open hold. It belongs to the process that opened it, and ends with it."""

    def __init__(self, guarded: GuardedStore, opening: Line, price: Callable[[Curve], Cost]) -> None:
        self.opening = opening
        """The line that opened it; its number is the tab's."""
        self._guarded = guarded
        self._price = price
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"<Tab opened by line {self.number}: .left shows what it still holds>"

    @property
    def number(self) -> int:
        return self.opening.number

    @property
    def left(self) -> dict[str, Fraction | None]:
        """What it still holds, per currency."""
        with self._guarded.reading() as transaction:
            row = transaction.newest(tab=self.number)
        return {} if row is None else read_cost(row.left).amounts

    def step(self, entry: Entry) -> Line:
        """Charge one complete release to the hold, before it runs; durable on return."""
        entry = Entry.of(entry)
        if entry.interactive:
            raise InvalidParameter(
                "entry",
                [type(mechanism).__name__ for mechanism in entry.mechanisms],
                "a release that is complete when it is charged, not one that goes on answering, such as AboveThreshold",
                fix="open a tab of its own for this mechanism: it is charged in full when that tab opens",
            )
        owner = self.opening.analyst
        if entry.analyst not in (None, owner):
            raise InvalidParameter("analyst", entry.analyst, "left out, or be the analyst who opened the tab")
        cost, columns = self._price(entry.curve), {**self._guarded.columns_to_write(entry), "analyst": owner or ""}

        def write(transaction: Transaction) -> Row:
            left = read_cost(self._last_open_row(transaction).left)
            if not left.covers(cost):
                raise _overspent_error(left, cost)
            return transaction.append(
                "step", self.opening.account, columns, cost=cost, left=left.minus(cost), tab=self.number
            )

        # A step only moves amounts from held to spent; a correction may have raised the totals since.
        # What the hold has paid for continues when a store comes back that was away.
        admit = partial(self._guarded.admit, self.opening.account, columns["analyst"], NO_COST, write, Line.from_row)
        return self._guarded.store.retry(admit)

    def settle(self, answers: Sequence[SettledAnswer], *, more: bool = False) -> tuple[Line, ...]:
        """Record every answer to what was charged when the tab was opened, each as a step that costs nothing more, and
        close the tab unless there is ``more``: all in one transaction. They may be shown once this has returned.
        """
        return self._guarded.write_answer(lambda: self._append_answers(answers, more=more))

    def _append_answers(self, answers: Sequence[SettledAnswer], *, more: bool) -> tuple[Line, ...]:
        prepared = [
            (self._guarded.columns_to_write(answer.entry), self._guarded.store_body(answer.body), answer)
            for answer in answers
        ]
        with self._guarded.writing() as transaction:
            answer_rows = []
            for columns, body, answer in prepared:
                left = read_cost(self._last_open_row(transaction).left)
                step_columns = {**columns, "analyst": self.opening.analyst or ""}
                account, tab = self.opening.account, self.number
                step = transaction.append(
                    "step", account, step_columns, cost=self._price(answer.entry.curve), left=left, tab=tab
                )
                shared_columns = {name: step_columns[name] for name in ("analyst", "plan", "data")}
                detail = write_widths(checked_widths(answer.accuracy))
                answer_columns: dict[str, str | int] = {
                    **shared_columns,
                    **body,
                    "about": step.number,
                    "detail": detail,
                }
                answer_rows.append(transaction.append("answer", account, answer_columns))
            if not more:
                transaction.close_tab(self._last_open_row(transaction).tab, spend_rest=False)
        return tuple(map(Line.from_row, answer_rows))

    def stop(self) -> None:
        """End it between two steps and release what is unspent. A tab that has ended stays ended.

        Call it only if that was decided from what was released: the end then reveals no more than the releases did.
        """
        self._close_tab(spend_rest=False)

    def forfeit(self) -> None:
        """End it and release nothing: a time limit was reached or a step failed, and when may depend on private
        data.
        """
        self._close_tab(spend_rest=True)

    def _close_tab(self, *, spend_rest: bool) -> None:
        with self._guarded.writing() as transaction:
            last = transaction.newest(tab=self.number)
            if last is not None and last.kind == "tab-close":
                return
            transaction.close_tab(self._last_open_row(transaction).tab, spend_rest=spend_rest)

    def _last_open_row(self, transaction: Transaction) -> Row:
        if self._process != os.getpid():
            raise TabClosed("a tab can only be used in the process that opened it")
        row = transaction.newest(tab=self.number)
        if row is None or row.kind == "tab-close":
            raise TabClosed("this tab is closed")
        return row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """An error may depend on private data, and so may where it occurs: a time limit is one of them."""
        self._close_tab(spend_rest=kind is not None)


def _overspent_error(left: Cost, cost: Cost) -> Overspent:
    bounded = {name: amount for name, amount in left.amounts.items() if amount is not None}
    return Overspent(cost.amounts, bounded, bounded.get("pure", Fraction(0)), place="this tab")


_ROUNDING = Fraction(1, 10**12)
"""More than the relative error of computing in floats."""


class Reservation(Protocol):
    """An amount that is set aside until it is known whether the account was charged."""

    def settle(self, *, charged: bool) -> None:
        """Count the amount as spent, or release it. Never fails: what cannot be written stays reserved."""
        ...


class SpendingLimit(Protocol):
    """A limit that is asked before every charge of the account it stands beside."""

    def reserve(self, epsilon: Fraction | None) -> Reservation:
        """Set this ε aside, durably, or refuse; None is an amount that no ε bounds."""
        ...


@contextmanager
def reserve_while_charging(
    limit: SpendingLimit | None, epsilon: Callable[[], Fraction | None], charged: Callable[[], bool]
) -> Iterator[None]:
    """Reserve an amount while the account is charged; ``charged`` returns at the end whether it was."""
    if limit is None:
        yield
        return
    reservation = limit.reserve(epsilon())
    try:
        yield
    finally:
        reservation.settle(charged=charged())


def release_epsilon(cost: Cost, curve: Curve | None, budget: Budget) -> Fraction | None:
    """Return the ε that a release counts with: its pure ε outside a failure that δ pays for, or else ε at the account's
    δ.

    Releases of (ε₁, δ₁), (ε₂, δ₂), … are together (Σεᵢ, Σδᵢ)-DP, also where each is chosen after the answers before
    (Dwork & Roth 2014, Theorem B.1), so a bound on the sum bounds the ε of all. Where only a Rényi
    divergence r of order α is stated, ε = r + log(1/δ)/(α − 1) (Mironov 2017, Proposition 3).
    """
    if cost.pure is not None:
        return amount_from_units(cost.pure)
    if not budget.delta:
        return None
    epsilon = math.inf
    if curve is not None:
        epsilon = curve.epsilon(budget.delta)
    elif cost.renyi is not None and budget.order is not None:
        epsilon = float(amount_from_units(cost.renyi)) + math.log(1 / float(budget.delta)) / (float(budget.order) - 1)
    return None if math.isinf(epsilon) else Fraction(next_float_up(epsilon)) * (1 + _ROUNDING)


_LARGE_EPSILON = Fraction(10**6)


@dataclass(frozen=True)
class BudgetChange:
    """What a budget changes to, and why; None leaves a field as it is."""

    reason: str
    epsilon: Number | None = None
    delta: Number | None = None
    reserve: Number | None = None


def append_amendment(
    guarded: GuardedStore, transaction: Transaction, account: str, change: BudgetChange, spent: Cost
) -> Row:
    """Append the line that changes an account's budget, of which ``spent`` is spent and held."""
    terms = guarded.terms_in_force(transaction, account)
    old = terms.budget
    delta = old.delta if change.delta is None else exact(change.delta, "delta", BELOW_ONE)
    same_reserve = old.reserve * delta / old.delta if old.delta else delta
    reserve = same_reserve if change.reserve is None else exact(change.reserve, "reserve")
    if reserve != same_reserve and (spent.pure is None or spent.pure or spent.renyi or spent.failure):
        rule = "the same share of δ as before, because the guarantee of earlier answers depends on it"
        raise InvalidParameter("reserve", reserve, rule, fix="leave out reserve")
    budget = amended_budget(old, old.epsilon if change.epsilon is None else change.epsilon, delta, reserve, spent)
    if (budget.order is None) is not (old.order is None):
        rule = "equal to δ, because this account was opened without a Rényi order"
        raise InvalidParameter("reserve", reserve, rule, fix=f"set reserve to {format_exact(delta)}, the new δ")
    columns = {"question": change.reason, "detail": codec.dumps(replace(terms, budget=budget))}
    return transaction.append("amend", account, columns)


def amended_budget(old: Budget, epsilon: Number, delta: Fraction, reserve: Fraction, spent: Cost) -> Budget:
    """Return the new budget, in the old one's order and for its neighbours. It must admit what is already spent and
    held: an account with a lifetime ε of 1 cannot have spent 4.
    """
    promise = Guarantee(epsilon, delta)
    min_epsilon = _min_epsilon(old.order, delta - reserve)
    if promise.epsilon > min_epsilon:
        budget = Budget(promise.epsilon, delta, reserve=reserve, order=old.order, neighbours=old.neighbours)
        if budget.with_spent(spent).admits(NO_COST):
            return budget
    elif spent.pure is not None and spent.pure <= exact_amount(promise.epsilon):
        raise InvalidParameter(
            "epsilon",
            format_exact(promise.epsilon),
            f"a number above {float(min_epsilon):.6g} at this δ: the account's Rényi order of "
            f"{float(old.order or 0):.6g} is fixed, and at that order a smaller ε leaves no Rényi budget",
            fix="choose a larger ε or δ",
        )
    raise InvalidParameter(
        "budget",
        format_guarantee(promise.epsilon, promise.delta),
        "at least what is already spent and held: " + spent.words,
        fix="choose a larger ε or δ: what was spent cannot be returned",
    )


def _min_epsilon(order: Fraction | None, backed_delta: Fraction) -> Fraction:
    """Return the ε up to which δ backs no allowance of this order; 0 where there is no such currency."""
    if order is None or not backed_delta:
        return Fraction(0)
    return _LARGE_EPSILON - renyi_allowance(Guarantee(_LARGE_EPSILON, backed_delta), order).divergence
