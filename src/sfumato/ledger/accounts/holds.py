"""A tab holds an amount for a series of releases, each of which is charged before it runs.

A hold is a vector (ε, r, δ); a step must fit what is left in every component, so that spent and held together never
grow. What is unspent is released after an explicit ``stop``: every step was a complete release charged with its own
curve, and where to stop was decided from what had been released. Whatever does not meet that (a mechanism with hidden
state, a time limit, a block left by an error that may depend on data, a process that died) releases nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Self

from sfumato.errors import InvalidParameter, Overspent, TabClosed
from sfumato.ledger.entries import MAX_BODY_LENGTH, Entry, Line, checked_text, checked_widths, write_widths
from sfumato.ledger.guarded import GuardedStore
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.spending import NO_COST, read_cost
from sfumato.ledger.transaction import Transaction
from sfumato.privacy import Cost, Curve
from sfumato.privacy.numbers import Number
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
                "entry", self.entry.parts, "without parts, because the tab already pays for its privacy loss", fix=fix
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
                "a release that is complete when it is charged, unlike AboveThreshold, which goes on answering",
                fix="open a tab of its own for this mechanism: it is charged in full when that tab opens",
            )
        owner = self.opening.analyst
        if entry.analyst not in (None, owner):
            raise InvalidParameter("analyst", entry.analyst, "left out, or the analyst who opened the tab")
        cost, columns = self._price(entry.curve), {**self._guarded.entry_columns(entry), "analyst": owner or ""}

        def write(transaction: Transaction) -> Row:
            left = read_cost(self._last_open_row(transaction).left)
            if not left.covers(cost):
                raise _overspent_error(left, cost)
            return transaction.append(
                "step", self.opening.account, columns, cost=cost, left=left.minus(cost), tab=self.number
            )

        # A step only moves amounts from held to spent; a correction may have raised the totals since.
        # What the hold has paid for continues when a store comes back that was away.
        admit = partial(self._guarded.admit, self.opening.account, columns["analyst"], NO_COST, write, Line.of)
        return self._guarded.store.retry(admit)

    def settle(self, answers: Sequence[SettledAnswer], *, more: bool = False) -> tuple[Line, ...]:
        """Record every answer to what was charged when the tab was opened, each as a step that costs nothing more, and
        close the tab unless there is ``more``: all in one transaction. They may be shown once this has returned.
        """
        return self._guarded.write_answer(lambda: self._append_answers(answers, more=more))

    def _append_answers(self, answers: Sequence[SettledAnswer], *, more: bool) -> tuple[Line, ...]:
        prepared = [
            (self._guarded.entry_columns(answer.entry), self._guarded.store_body(answer.body), answer)
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
        return tuple(map(Line.of, answer_rows))

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
            raise TabClosed("this tab belongs to the process that opened it")
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
    return Overspent(cost.amounts, bounded, bounded.get("pure", Fraction(0)), place="the tab's hold")
