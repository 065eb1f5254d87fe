"""A policy has an account: this says where its ledger is, what is left, what was asked, how its budget is changed.

None of it needs the data, so none of it opens them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.curator.period_standings import PeriodStandings
from sfumato.curator.standings import Standing
from sfumato.errors import AccountDiffers, InvalidParameter, SourceTaken
from sfumato.ledger import Account, Ledger, Line, PeriodAccounts
from sfumato.plan.declared_cells import impossible
from sfumato.policy import Policy
from sfumato.policy.toml_files import read
from sfumato.release.promises import promise

PathOrText = str | os.PathLike[str]

LEDGER_NAME = "sfumato.ledger"
"""The ledger of every policy in one folder: a copy of a policy under another name meets the same sources there."""


def read_policy(policy: Policy | PathOrText) -> Policy:
    """Take the policy itself, or read the one in a file; what it declares impossible is understood as SQL."""
    found = policy if isinstance(policy, Policy) else read(Path(policy))
    for table in found.tables.values():
        impossible(table)
    return found


def account_name(policy: Policy) -> str:
    """Give the name of a policy's account: its own, or that of its file, or of its unit when it has none."""
    if policy.account is not None:
        return policy.account
    return policy.path.stem if policy.path is not None else policy.unit.name


def ledger_path(policy: Policy, ledger: PathOrText | None = None) -> Path:
    """Find the ledger that is named, or the one beside the policy's file."""
    if ledger is not None:
        return Path(ledger)
    if policy.path is None:
        raise InvalidParameter(
            "ledger",
            None,
            "a path: this policy was not read from a file",
            fix="Curator(policy, ledger='clinic.ledger')",
        )
    return policy.path.parent / LEDGER_NAME


def standing(
    policy: Policy | PathOrText, ledger: PathOrText | None = None, *, analyst: str | None = None
) -> Standing | PeriodStandings:
    """Tell where a policy's account stands, or an analyst's share of it; no data are opened, and nothing is written.

    Where every period has an account of its own, it tells so of each.
    """
    declared = read_policy(policy)
    with _account(declared, ledger) as account:
        return standings_of(declared, account, analyst)


def standings_of(policy: Policy, account: Account | None, analyst: str | None) -> Standing | PeriodStandings:
    """Compute the standing of the account, or of each period's."""
    if policy.per is None:
        return standing_of(policy, account, analyst)
    known = account if isinstance(account, PeriodAccounts) else None
    opened = () if known is None else known.opened
    each = tuple(standing_of(policy, known and known.over((period,)), analyst) for period in opened)
    return PeriodStandings(policy.per, promise(policy), standing_of(policy, known, analyst), opened, each)


def standing_of(policy: Policy, account: Account | None, analyst: str | None) -> Standing:
    """Compute the standing of an account, which is None before the policy's first question."""
    whole = policy.account_budget if account is None else account.budget
    if analyst is None:
        return Standing.of(whole)
    if analyst not in policy.analysts:
        raise InvalidParameter("analyst", analyst, "an analyst of the policy", fix="add [analysts.<name>] to it")
    known = None if account is None else account.analyst(analyst)
    shared = policy.account_budget.share(policy.analysts[analyst])
    return Standing.of(whole, shared if known is None or known.share is None else known.budget)


def history(
    policy: Policy | PathOrText, ledger: PathOrText | None = None, *, analyst: str | None = None
) -> Iterator[Line]:
    """List every line of a policy's account, oldest first; no data are opened."""
    declared = read_policy(policy)
    path = ledger_path(declared, ledger)
    if path.exists():
        with Ledger.open(path) as opened:
            yield from lines_of(opened, declared, analyst)


def lines_of(ledger: Ledger, policy: Policy, analyst: str | None) -> Iterator[Line]:
    """List the lines of a policy's account, those of its periods among them."""
    name = account_name(policy)
    if policy.per is None or name not in ledger.accounts:
        return ledger.lines(account=name, analyst=analyst)
    account = ledger.account(name)
    opened = account.opened if isinstance(account, PeriodAccounts) else ()
    known = {name, *(f"{name} {period}" for period in opened)}
    return (line for line in ledger.lines(analyst=analyst) if line.account in known)


def amend(policy: Policy | PathOrText, *, reason: str, ledger: PathOrText | None = None) -> Line:
    """Make a policy's budget the account's, for a reason that is kept for ever. The unit stays as it is."""
    declared = read_policy(policy)
    with _account(declared, ledger) as account:
        if account is None:
            raise InvalidParameter(
                "policy",
                account_name(declared),
                "one with an account",
                fix="nothing to amend: the first question opens it",
            )
        return amend_account(account, declared, reason)


def amend_account(account: Account, policy: Policy, reason: str) -> Line:
    """Make a policy's budget that of this account; another unit or other neighbours are refused."""
    if account.unit != policy.unit or account.budget.neighbours is not policy.neighbours:
        raise AccountDiffers(
            f"an account protects {account.unit}, {account.budget.neighbours.value}, for life",
            place="unit",
            fix="give the policy that unit and those neighbours: only the budget can be amended",
        )
    if account.per != (policy.per or ""):
        raise AccountDiffers(
            "the accounts of a population are kept as they were opened: "
            + (f"one for each {account.per}" if account.per else "one for all"),
            place="unit.budget.per",
            fix=f'write per = "{account.per}"' if account.per else "remove per",
        )
    new = policy.account_budget
    return account.amend(reason=reason, epsilon=new.epsilon, delta=new.delta, reserve=new.reserve)


def refuse_if_curated(data: PathOrText) -> None:
    """Refuse a data file that belongs to an account of the ledger beside it: only its policy spends that budget."""
    path = Path(data)
    beside = path.parent / LEDGER_NAME
    if not beside.exists():
        return
    with Ledger.open(beside) as opened:
        for name in opened.accounts:
            if any(source.path == str(path.resolve()) for source in opened.account(name).sources):
                raise SourceTaken(
                    f"an account's file is read through its policy alone; this one is {name!r}'s",
                    place=str(path),
                    fix=f"name its policy instead, such as {name}.toml, with the table and the column",
                )


@contextmanager
def _account(policy: Policy, ledger: PathOrText | None) -> Iterator[Account | None]:
    """Find the account as it is, or None before its first question."""
    path = ledger_path(policy, ledger)
    if not path.exists():
        yield None
        return
    with Ledger.open(path) as opened:
        known = account_name(policy) in opened.accounts
        yield opened.account(account_name(policy)) if known else None
