"""A policy has an account: this says where its ledger is, what is left, what was asked, how its budget is changed.

None of it needs the data, so none of it opens them.

A question is held to the periods that it reads, and these pay, where every period has an account of its own.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from operator import add
from pathlib import Path
from typing import cast

from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Operator
from sfumato.curator.standings import PeriodStandings, Standing
from sfumato.errors import AccountDiffers, InvalidParameter, SourceTaken, WeakLedger
from sfumato.ledger import Account, Ledger, Line, PeriodAccounts
from sfumato.ledger.stores.server_addresses import is_same_ledger, is_server_address
from sfumato.plan import account_periods
from sfumato.plan.nodes import Aggregate
from sfumato.plan.sql.declared_cells import impossible
from sfumato.plan.words import many
from sfumato.policy import Policy
from sfumato.policy.toml_files import read
from sfumato.privacy import Budget, Guarantee
from sfumato.privacy.numbers import Number, shown
from sfumato.privacy.pictures import History, Moment
from sfumato.privacy.precedents import Precedents, precedents
from sfumato.release.answers.receipts import promise

PathOrText = str | os.PathLike[str]

LEDGER_NAME = "sfumato.ledger"
"""The ledger of every policy in one folder: a copy of a policy under another name meets the same sources there."""


def read_policy(policy: Policy | PathOrText) -> Policy:
    """Take the policy itself, or read the one in a file; what it declares impossible is understood as SQL."""
    found = policy if isinstance(policy, Policy) else read(Path(policy))
    for table in found.tables.values():
        impossible(table)
    return found


def ledger_address(policy: Policy, ledger: PathOrText | None = None) -> Path | str:
    """Find the ledger that is named, here or in the policy, or the one beside the policy's file: a path, or the address
    of a database. Whoever names another than the policy does is warned: two ledgers are two budgets.
    """
    if policy.ledger is not None and ledger is not None and not is_same_ledger(policy.ledger, ledger):
        warnings.warn(
            "the policy names another ledger than the one that is used: what is charged to both is a larger budget",
            WeakLedger,
            stacklevel=2,
        )
    return _address(policy, ledger)


def _address(policy: Policy, ledger: PathOrText | None) -> Path | str:
    named = policy.ledger if ledger is None else ledger
    if named is not None:
        return named if isinstance(named, str) and is_server_address(named) else Path(named)
    if policy.path is None:
        raise InvalidParameter(
            "ledger",
            None,
            "a path: this policy was not read from a file",
            fix="Curator(policy, ledger='clinic.ledger')",
        )
    return policy.path.parent / LEDGER_NAME


def people_place(policy: Policy, ledger: PathOrText | None = None) -> Path:
    """Find the path beside which a server keeps what it knows of people: it stays on this machine."""
    found = _address(policy, ledger)
    if isinstance(found, Path):
        return found
    return Path(LEDGER_NAME) if policy.path is None else policy.path.parent / LEDGER_NAME


def is_there(address: Path | str) -> bool:
    """Tell whether there may be a ledger: a file that is missing is none, and of a database its server tells."""
    return isinstance(address, str) or address.exists()


def standing(
    policy: Policy | PathOrText, ledger: PathOrText | None = None, *, analyst: str | None = None
) -> Standing | PeriodStandings:
    """Tell where a policy's account stands, or an analyst's share of it; no data are opened, and nothing is written.

    Where every period has an account of its own, it tells so of each.
    """
    declared = read_policy(policy)
    with _account(declared, ledger) as account:
        return standings_of(declared, account, analyst)


def precedents_of(policy: Policy | PathOrText, ledger: PathOrText | None = None, prior: Number = "0.01") -> Precedents:
    """Read what a policy's account promises to one unit, beside real deployments; what is spent of it is marked."""
    declared = read_policy(policy)
    budget = declared.budget
    found = standing(declared, ledger)
    spent = found.spent["pure"] if isinstance(found, Standing) else None
    return precedents(
        Guarantee(budget.epsilon, budget.delta),
        prior,
        neighbours=declared.neighbours,
        marks={f"spent so far: ε = {shown(float(spent))}": float(spent)} if spent else {},
        protects=str(declared.unit),
    )


def standings_of(policy: Policy, account: Account | None, analyst: str | None) -> Standing | PeriodStandings:
    """Compute the standing of the account, or of each period's."""
    if policy.per is None:
        return standing_of(policy, account, analyst)
    known = account if isinstance(account, PeriodAccounts) else None
    opened = () if known is None else known.opened
    each = tuple(standing_of(policy, known and known.over((period,)), analyst) for period in opened)
    return PeriodStandings(policy.per, promise(policy), standing_of(policy, known, analyst), opened, each)


def budget_of(policy: Policy | PathOrText, ledger: PathOrText | None = None, *, analyst: str | None = None) -> Budget:
    """Give the budget of a policy's account, or of an analyst's share, which draws what was spent over time; no data
    are opened. Where every period has an account of its own, it is that of a period of which nothing was asked yet.
    """
    declared = read_policy(policy)
    with _account(declared, ledger) as account:
        budget = _budgets(declared, account, analyst)[-1]
    return budget.told_by(History(lambda: charges(history(declared, ledger, analyst=analyst), analyst)))


def charges(lines: Iterable[Line], analyst: str | None) -> list[Moment]:
    """List when something was charged to an account, or to an analyst's share of it, and what was spent then."""
    charged = [line for line in lines if not line.cost.nothing]
    if analyst is None:
        return [Moment(each.time, each.spent.amounts) for each in charged]
    totals = accumulate((each.cost for each in charged), add)
    return [Moment(each.time, total.amounts) for each, total in zip(charged, totals, strict=True)]


def require_analyst(policy: Policy, name: str) -> None:
    """Refuse whoever is no analyst of a policy, and say who is."""
    if name not in policy.analysts:
        known = f"name one of {', '.join(policy.analysts)}, or " if policy.analysts else ""
        fix = f"{known}add [analysts.<name>] to the policy"
        raise InvalidParameter("analyst", name, "an analyst of the policy", fix=fix)


def standing_of(policy: Policy, account: Account | None, analyst: str | None) -> Standing:
    """Compute the standing of an account, which is None before the policy's first question."""
    return Standing.of(*_budgets(policy, account, analyst))


def _budgets(policy: Policy, account: Account | None, analyst: str | None) -> list[Budget]:
    """List the budget of an account, and after it that of an analyst's share."""
    whole = policy.account_budget if account is None else account.budget
    if analyst is None:
        return [whole]
    require_analyst(policy, analyst)
    known = None if account is None else account.analyst(analyst)
    shared = policy.account_budget.share(policy.analysts[analyst])
    return [whole, shared if known is None or known.share is None else known.budget]


def history(
    policy: Policy | PathOrText, ledger: PathOrText | None = None, *, analyst: str | None = None
) -> Iterator[Line]:
    """List every line of a policy's account, oldest first; no data are opened."""
    declared = read_policy(policy)
    address = ledger_address(declared, ledger)
    if is_there(address):
        with Ledger.open(address) as opened:
            yield from lines_of(opened, declared, analyst)


def lines_of(ledger: Ledger, policy: Policy, analyst: str | None, after: int = 0) -> Iterator[Line]:
    """List the lines of a policy's account after this number, those of its periods among them."""
    known = _accounts(ledger, policy)
    if known is None:
        return ledger.lines(account=policy.account_name, analyst=analyst, after=after)
    return (line for line in ledger.lines(analyst=analyst, after=after) if line.account in known)


def latest_lines_of(ledger: Ledger, policy: Policy, analyst: str | None, before: int = 0) -> Iterator[Line]:
    """List the same lines from the last one back, or from before this number, where it is not 0."""
    known = _accounts(ledger, policy)
    if known is None:
        return ledger.latest(account=policy.account_name, analyst=analyst, before=before)
    return (line for line in ledger.latest(analyst=analyst, before=before) if line.account in known)


def _accounts(ledger: Ledger, policy: Policy) -> frozenset[str] | None:
    """Name a policy's account and those of its periods; None where there is the one alone."""
    name = policy.account_name
    if policy.per is None or name not in ledger.accounts:
        return None
    account = ledger.account(name)
    opened = account.opened if isinstance(account, PeriodAccounts) else ()
    return frozenset({name, *(f"{name} {period}" for period in opened)})


def amend(policy: Policy | PathOrText, *, reason: str, ledger: PathOrText | None = None) -> Line:
    """Make a policy's budget the account's, for a reason that is kept for ever. The unit stays as it is."""
    declared = read_policy(policy)
    with _account(declared, ledger) as account:
        if account is None:
            raise InvalidParameter(
                "policy",
                declared.account_name,
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
    address = ledger_address(policy, ledger)
    if not is_there(address):
        yield None
        return
    with Ledger.open(address) as opened:
        known = policy.account_name in opened.accounts
        yield opened.account(policy.account_name) if known else None


def by_period(plan: Aggregate, context: Context) -> tuple[Aggregate, Context]:
    """Give the plan that reads no other periods than those that it can mean, and the context in which their accounts
    pay for it. Both follow from the question and the policy alone; one account for all pays for every plan as it is.
    """
    policy = context.policy
    if policy.per is None:
        return plan, context
    periods = account_periods.spent(plan, policy)
    account = cast("PeriodAccounts", context.account).over(account_periods.names(periods, policy.per))
    return account_periods.restricted(plan, policy, periods), replace(context, account=account)


def charged(context: Context) -> tuple[Operator, ...]:
    """Explain which accounts a release spends and what they promise, where there are several."""
    policy, account = context.policy, context.account
    if policy.per is None or not account.periods:
        return ()
    what = f"the whole price in {many(len(account.periods), 'account')}: "
    named = account_periods.words(account.periods, policy.per)
    return (Operator("charge", what + named, f"one for each {policy.per}; promised is {promise(policy)}"),)


def priced(price: object, context: Context) -> str:
    """Write a price, with the accounts that pay it where there are several: those of months to come may be among them,
    so a forecast says it too.
    """
    per, periods = context.policy.per, context.account.periods
    if per is None or not periods:
        return str(price)
    named = account_periods.words(periods, per)
    if len(periods) == 1:
        return f"{price} in the account of {named}"
    return f"{price} in each of {many(len(periods), 'account')}: {named}"
