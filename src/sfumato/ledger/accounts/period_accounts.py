"""A policy may keep one account for each period: a release spends the account of every period that it reads.

*Claim, add-remove.* A unit lies in one period p. A release that does not read p is the same with and without the unit,
so it costs the unit nothing, whatever was answered before; one that reads p is charged whole to the account of p. The
account of p is therefore a filter for that unit (theory: an account is a filter; Rogers et al. 2016, Feldman & Zrnic
2021), though whether a release is admitted also depends on other accounts: their totals are part of the transcript. So
for each unit all answers together keep the budget of its period. ∎

*Claim, replace.* A unit that is exchanged for another may move from period p to q. Count the releases that read p to a
first mechanism and those that read q and not p to a second. Each is interactive and keeps the budget of its account as
before, and the two run concurrently; what both together promise is the sum of both budgets, as if one had run after the
other (Lyu 2022, Theorem 1.1; Vadhan & Zhang 2023). A policy under replace therefore opens each account with half of
what it promises (``policy.Policy.account_budget``). ∎

A person with rows in k units of this kind has k times the loss (group privacy): the promise is about a unit, and it is
printed so.
"""

from __future__ import annotations

from copy import copy
from fractions import Fraction

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.ledger import entries
from sfumato.ledger.accounts.account import Account, Analyst
from sfumato.ledger.accounts.reservations import BudgetChange, Tab, append_amendment
from sfumato.ledger.entries import Entry, Line
from sfumato.ledger.guarded import GuardedStore, Periods, period_account_name
from sfumato.ledger.spending import NO_COST, read_totals
from sfumato.ledger.transaction import Terms, Transaction
from sfumato.privacy import Budget, Cost, Curve
from sfumato.privacy.numbers import Number


class PeriodAccounts(Account):
    """The accounts of all periods of one population, each opened with the same budget when it is first needed.

    Queries, stored answers, joined data and shares are kept under the population's own name. What is spent and left is
    that of the ``periods`` that are read, as if all were as full as the fullest in each currency.
    """

    def __init__(self, guarded: GuardedStore, name: str, terms: Terms, periods: Periods = ()) -> None:
        super().__init__(guarded, name, terms)
        self.periods = tuple(dict.fromkeys(periods))

    def for_periods(self, periods: Periods) -> PeriodAccounts:
        """Return the same accounts, of which those of these periods pay."""
        if not periods:
            raise InvalidParameter("periods", periods, 'a non-empty list of periods, such as ["2024-01"]')
        for period in periods:
            period_account_name(self.name, period)
        selected = copy(self)
        selected.periods = tuple(dict.fromkeys(periods))
        return selected

    @property
    def opened(self) -> Periods:
        """The periods whose accounts were opened, in order."""
        with self._guarded.reading() as transaction:
            return self._opened_periods(transaction)

    @property
    def spent(self) -> dict[str, Fraction | None]:
        """The maximum that any of the periods has spent."""
        return self.budget.spent

    def budgets(self, analyst: str | None = None) -> tuple[Budget, ...]:
        with self._guarded.reading() as transaction:
            labelled_budgets = (
                self._guarded.budgets(transaction, self.name, analyst or "", self.periods) if self.periods else []
            )
            return tuple(budget for budget, _ in labelled_budgets) or (self._read_budget(transaction, analyst or ""),)

    def analyst(self, name: str, share: Number | None = None) -> Analyst:
        """Return an analyst's standing; with ``share``, limit them to this part of every allowance of every period from
        now on.
        """
        standing = super().analyst(name, share)
        with self._guarded.reading() as transaction:
            budget = self._read_budget(transaction, name)
        return Analyst(name, standing.share, budget, budget.spent if standing.share else standing.spent)

    def amend(
        self,
        *,
        reason: str,
        epsilon: Number | None = None,
        delta: Number | None = None,
        reserve: Number | None = None,
    ) -> Line:
        """Change what may be spent in every period, including future ones, all at once; the period stays for life."""
        change = BudgetChange(entries.checked_reason(reason), epsilon, delta, reserve)
        with self._guarded.writing() as transaction:
            accounts = [period_account_name(self.name, account) for account in self._opened_periods(transaction)]
            totals = {account: read_totals(transaction.last_account_line(account).totals).total for account in accounts}
            for account, spent in totals.items():
                append_amendment(self._guarded, transaction, account, change, spent)
            return Line.from_row(append_amendment(self._guarded, transaction, self.name, change, NO_COST))

    def correct(self, more: Curve | Cost, *, reason: str, analyst: str | None = None) -> Line:  # noqa: ARG002
        """Refuse: a correction belongs in the accounts of the periods that it is about."""
        place = f"account {self.name!r}"
        fix = f"correct each period in its own account: ledger.account({f'{self.name} <period>'!r}).correct(…)"
        raise Unsupported(
            "period-correction",
            "this policy has one account per period, so a correction needs the account of a single period",
            place=place,
            fix=fix,
        )

    def open_tab(
        self,
        hold: Entry | Cost,  # noqa: ARG002
        *,
        whole: bool = False,  # noqa: ARG002
        analyst: str | None = None,  # noqa: ARG002
        question: str = "",  # noqa: ARG002
    ) -> Tab:
        """Refuse: a tab holds an amount in one account."""
        raise Unsupported(
            "period-tab",
            f"a series of releases is charged to one account, but here every {self.per} has its own",
            place=f"account {self.name!r}",
            fix=f'run single queries, or write a new policy with one account: leave out per = "{self.per}"',
        )

    def _paying_periods(self) -> Periods:
        if not self.periods:
            raise Unsupported(
                "no-periods",
                f"every {self.per} has its own account, and this kind of release cannot be charged by {self.per}",
                place=f"account {self.name!r}",
                fix="use SQL or table(…), or write a policy with one account: leave out per",
            )
        return self.periods

    def _opened_periods(self, transaction: Transaction) -> Periods:
        prefix = f"{self.name} "
        candidates = [
            row.account for row in transaction.page({"kind": "account-open"}) if row.account.startswith(prefix)
        ]
        period_accounts = (
            account
            for account in candidates
            if self._guarded.terms_in_force(transaction, account).period_of == self.name
        )
        return tuple(sorted(account.removeprefix(prefix) for account in period_accounts))

    def _read_budget(self, transaction: Transaction, analyst: str = "") -> Budget:
        """Return the allowances of a period, or of the analyst's share of one, at the maximum that any of the periods
        has spent and holds; without periods, those of an untouched period.
        """
        budgets = self._guarded.budgets(transaction, self.name, analyst, self.periods) if self.periods else []
        per_period = len(budgets) // max(1, len(self.periods))
        period_budgets = [budget for budget, _ in budgets[per_period - 1 :: per_period]] if budgets else []
        if period_budgets:
            return period_budgets[0].with_spent(_max_totals([budget.totals for budget in period_budgets]))
        unspent, analyst_row = self._guarded.terms_in_force(transaction, self.name).budget, None
        if analyst:
            analyst_row = transaction.newest(account=self.name, analyst=analyst)
        return unspent.share(analyst_row.share) if analyst_row is not None and analyst_row.share else unspent


def _max_totals(totals: list[Cost]) -> Cost:
    """Return the largest amount in each currency; unbounded is larger than all else."""
    pure = [total.pure for total in totals]
    renyi = [total.renyi for total in totals if total.renyi is not None]
    bounded = [total for total in pure if total is not None]
    return Cost(
        max(bounded) if len(bounded) == len(pure) else None,
        max(renyi) if renyi else None,
        max(total.failure for total in totals),
    )
