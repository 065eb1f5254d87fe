"""A policy's own account: where its ledger is, what is left, what was asked, how its budget is changed.

None of it needs the data, so none of it opens them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.curator.standing import Standing
from sfumato.errors import AccountDiffers, InvalidParameter
from sfumato.ledger import Account, Ledger, Line
from sfumato.policy import Policy

Where = str | os.PathLike[str] | None

BESIDE = "sfumato.ledger"
"""The ledger of every policy in one folder: a copy of a policy under another name meets the same sources there."""


def account_name(policy: Policy) -> str:
    return policy.path.stem if policy.path is not None else policy.unit.name


def ledger_path(policy: Policy, ledger: Where = None) -> Path:
    """The ledger that is named, or the one beside the policy's file."""
    if ledger is not None:
        return Path(ledger)
    if policy.path is None:
        raise InvalidParameter(
            "ledger",
            None,
            "a path: this policy was not read from a file",
            fix="Curator(policy, ledger='clinic.ledger')",
        )
    return policy.path.parent / BESIDE


def standing(policy: Policy, ledger: Where = None, analyst: str | None = None) -> Standing:
    """Where the account stands, or an analyst's share of it; nothing is opened or written."""
    if analyst is not None and analyst not in policy.analysts:
        raise InvalidParameter("analyst", analyst, "an analyst of the policy", fix="add [analysts.<name>] to it")
    with _account(policy, ledger) as account:
        whole = policy.budget if account is None else account.budget
        if analyst is None:
            return Standing.of(whole)
        part = policy.analysts[analyst]
        known = None if account is None else account.analyst(analyst)
        return Standing.of(whole, policy.budget.share(part) if known is None or known.share is None else known.budget)


def history(policy: Policy, ledger: Where = None, analyst: str | None = None) -> Iterator[Line]:
    """Every line of the policy's account, oldest first."""
    path = ledger_path(policy, ledger)
    if path.exists():
        with Ledger.open(path) as book:
            yield from book.lines(account=account_name(policy), analyst=analyst)


def amend(policy: Policy, *, reason: str, ledger: Where = None) -> Line:
    """Make the policy's budget the account's, for a reason that is kept for ever. The unit stays as it is."""
    with _account(policy, ledger) as account:
        if account is None:
            raise InvalidParameter(
                "policy",
                account_name(policy),
                "one with an account",
                fix="nothing to amend: the first question opens it",
            )
        if account.unit != policy.unit or account.budget.neighbours is not policy.neighbours:
            raise AccountDiffers(
                f"an account protects {account.unit}, {account.budget.neighbours.value}, for life",
                place="unit",
                fix="give the policy that unit and those neighbours: only the budget can be amended",
            )
        new = policy.budget
        return account.amend(reason=reason, epsilon=new.epsilon, delta=new.delta, reserve=new.reserve)


@contextmanager
def _account(policy: Policy, ledger: Where) -> Iterator[Account | None]:
    """The account as it is, or None before its first question."""
    path = ledger_path(policy, ledger)
    if not path.exists():
        yield None
        return
    with Ledger.open(path) as book:
        known = account_name(policy) in book.accounts
        yield book.account(account_name(policy)) if known else None
