"""The account of a policy: the location of its ledger, its standing, its history and its amendments.

None of it needs the data, so none of it opens them. Where every period has an account of its own, a question is
restricted to the periods that it reads, and these pay.
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
from typing import TYPE_CHECKING, cast

from sfumato.curator.context import Context
from sfumato.curator.weak_policies import has_unpermitted_delta, require_permitted_delta, warn_if_weak_policy
from sfumato.errors import AccountDiffers, InvalidParameter, SourceTaken, WeakLedger
from sfumato.ledger import Ledger, PeriodAccounts
from sfumato.ledger.stores.server_addresses import is_same_ledger, is_server_address
from sfumato.policy import Policy
from sfumato.policy.toml_files import read
from sfumato.privacy import Budget, Guarantee
from sfumato.privacy.numbers import Number, format_number

if TYPE_CHECKING:
    from sfumato.curator.previews.explaining import PlanStep
    from sfumato.curator.standings import PeriodStandings, Standing
    from sfumato.ledger import Account, Line
    from sfumato.plan.nodes import Aggregate
    from sfumato.privacy.pictures import SpendingPoint
    from sfumato.privacy.precedents import Precedents


PathOrText = str | os.PathLike[str]
LEDGER_NAME = "sfumato.ledger"
"""One ledger for all policies of a folder, so that a renamed copy of a policy is charged for the same sources."""


def read_policy(policy: Policy | PathOrText) -> Policy:
    """Return the policy, or read it from a file; its impossible conditions are checked as SQL."""
    parsed = policy if isinstance(policy, Policy) else read(Path(policy))
    for table in parsed.tables.values():
        if table.impossible:
            from sfumato.plan.sql.fragments import (
                impossible_row_conditions,  # most policies need no parser to be opened
            )

            impossible_row_conditions(table)
    return parsed


def ledger_address(policy: Policy, ledger: PathOrText | None = None) -> Path | str:
    """Return the path or database address of the ledger: the given one, the policy's, or the one beside its file.

    Warns if the given one differs from the policy's: two ledgers are two budgets.
    """
    if policy.ledger is not None and ledger is not None and not is_same_ledger(policy.ledger, ledger):
        warnings.warn(
            "The ledger given is not the one that the policy names, and with two ledgers the budget could "
            "be spent twice. Use the policy's ledger, or name this one in the policy.",
            WeakLedger,
            stacklevel=2,
        )
    return _resolve_ledger_address(policy, ledger)


def _resolve_ledger_address(policy: Policy, ledger: PathOrText | None) -> Path | str:
    address = policy.ledger if ledger is None else ledger
    if address is not None:
        return address if isinstance(address, str) and is_server_address(address) else Path(address)
    if policy.path is None:
        raise InvalidParameter(
            "ledger",
            None,
            "a path, because this policy was not read from a file",
            fix="write Curator(policy, ledger='clinic.ledger')",
        )
    return policy.path.parent / LEDGER_NAME


def users_path(policy: Policy, ledger: PathOrText | None = None) -> Path:
    """Return the path beside which a server stores its user accounts, always on this machine."""
    address = _resolve_ledger_address(policy, ledger)
    if isinstance(address, Path):
        return address
    return Path(LEDGER_NAME) if policy.path is None else policy.path.parent / LEDGER_NAME


def ledger_may_exist(address: Path | str) -> bool:
    """Return whether a ledger may exist: a missing file does not; for a database only its server knows."""
    return isinstance(address, str) or address.exists()


def standing(
    policy: Policy | PathOrText, ledger: PathOrText | None = None, *, analyst: str | None = None
) -> Standing | PeriodStandings:
    """Return the standing of a policy's account, or of an analyst's share. No data are opened, nothing is written.

    Where every period has an account of its own, it holds one for each.
    """
    parsed = read_policy(policy)
    with _existing_account(parsed, ledger) as account:
        return compute_standings(parsed, account, analyst)


def precedents_of(policy: Policy | PathOrText, ledger: PathOrText | None = None, prior: Number = "0.01") -> Precedents:
    """Compare the account's guarantee for one unit with real deployments, with the spent part marked."""
    from sfumato.curator.standings import Standing
    from sfumato.privacy.precedents import precedents

    parsed = read_policy(policy)
    budget = parsed.budget
    current = standing(parsed, ledger)
    spent = current.spent["pure"] if isinstance(current, Standing) else None
    return precedents(
        Guarantee(budget.epsilon, budget.delta),
        prior,
        neighbours=parsed.neighbours,
        marks={f"spent so far: ε = {format_number(float(spent))}": float(spent)} if spent else {},
        protects=str(parsed.unit),
    )


def compute_standings(policy: Policy, account: Account | None, analyst: str | None) -> Standing | PeriodStandings:
    """Compute the standing of the account, or of the account of each period."""
    from sfumato.curator.standings import PeriodStandings
    from sfumato.release.answers.receipts import describe_period_guarantee

    if policy.per is None:
        return compute_standing(policy, account, analyst)
    period_accounts = account if isinstance(account, PeriodAccounts) else None
    periods = () if period_accounts is None else period_accounts.opened
    standings = tuple(
        compute_standing(policy, period_accounts and period_accounts.for_periods((period,)), analyst)
        for period in periods
    )
    return PeriodStandings(
        policy.per,
        describe_period_guarantee(policy),
        compute_standing(policy, period_accounts, analyst),
        periods,
        standings,
    )


def policy_budget(
    policy: Policy | PathOrText, ledger: PathOrText | None = None, *, analyst: str | None = None
) -> Budget:
    """Return the budget of a policy's account, or of an analyst's share, with its history. No data are opened.

    Where every period has an account of its own, it is the budget of a period that was not yet queried.
    """
    from sfumato.privacy.pictures import History

    parsed = read_policy(policy)
    with _existing_account(parsed, ledger) as account:
        budget = _account_and_share_budgets(parsed, account, analyst)[-1]
    return budget.with_history(History(lambda: cumulative_spending(history(parsed, ledger, analyst=analyst), analyst)))


def cumulative_spending(lines: Iterable[Line], analyst: str | None) -> list[SpendingPoint]:
    """List the charges to an account, or to an analyst's share, with their times and running totals."""
    from sfumato.privacy.pictures import SpendingPoint

    charged_lines = [line for line in lines if not line.cost.is_zero]
    if analyst is None:
        return [SpendingPoint(line.time, line.spent.amounts) for line in charged_lines]
    totals = accumulate((line.cost for line in charged_lines), add)
    return [SpendingPoint(line.time, total.amounts) for line, total in zip(charged_lines, totals, strict=True)]


def require_analyst(policy: Policy, name: str) -> None:
    """Refuse a name that is not one of the policy's analysts."""
    if name not in policy.analysts:
        suggestion = f"name one of {', '.join(policy.analysts)}, or " if policy.analysts else ""
        fix = f"{suggestion}add [analysts.<name>] to the policy"
        raise InvalidParameter("analyst", name, "one of the analysts in the policy", fix=fix)


def compute_standing(policy: Policy, account: Account | None, analyst: str | None) -> Standing:
    """Compute the standing of an account, which is None before the policy's first question."""
    from sfumato.curator.standings import Standing

    return Standing.of(*_account_and_share_budgets(policy, account, analyst))


def _account_and_share_budgets(policy: Policy, account: Account | None, analyst: str | None) -> list[Budget]:
    """List the account's budget, followed by that of an analyst's share."""
    account_budget = policy.account_budget if account is None else account.budget
    if analyst is None:
        return [account_budget]
    require_analyst(policy, analyst)
    analyst_account = None if account is None else account.analyst(analyst)
    declared_share = policy.account_budget.share(policy.analysts[analyst])
    return [
        account_budget,
        declared_share if analyst_account is None or analyst_account.share is None else analyst_account.budget,
    ]


def history(
    policy: Policy | PathOrText, ledger: PathOrText | None = None, *, analyst: str | None = None
) -> Iterator[Line]:
    """List the lines of a policy's account, oldest first. No data are opened."""
    parsed = read_policy(policy)
    address = ledger_address(parsed, ledger)
    if ledger_may_exist(address):
        with Ledger.open(address) as open_ledger:
            yield from account_lines(open_ledger, parsed, analyst)


def account_lines(ledger: Ledger, policy: Policy, analyst: str | None, after: int = 0) -> Iterator[Line]:
    """List the lines of a policy's account, and of its periods, after this number."""
    account_names = _names_if_period_accounts(ledger, policy)
    if account_names is None:
        return ledger.lines(account=policy.account_name, analyst=analyst, after=after)
    return (line for line in ledger.lines(analyst=analyst, after=after) if line.account in account_names)


def latest_account_lines(ledger: Ledger, policy: Policy, analyst: str | None, before: int = 0) -> Iterator[Line]:
    """List the same lines backwards, from the last one or from before this number if it is not 0."""
    account_names = _names_if_period_accounts(ledger, policy)
    if account_names is None:
        return ledger.latest(account=policy.account_name, analyst=analyst, before=before)
    return (line for line in ledger.latest(analyst=analyst, before=before) if line.account in account_names)


def _names_if_period_accounts(ledger: Ledger, policy: Policy) -> frozenset[str] | None:
    """Return the names of a policy's account and of its periods' accounts; None if there are no periods."""
    name = policy.account_name
    if policy.per is None or name not in ledger.accounts:
        return None
    account = ledger.account(name)
    periods = account.opened if isinstance(account, PeriodAccounts) else ()
    return frozenset({name, *(f"{name} {period}" for period in periods)})


def amend(policy: Policy | PathOrText, *, reason: str, ledger: PathOrText | None = None) -> Line:
    """Replace the account's budget by the policy's, with a reason that the ledger keeps. The unit cannot change."""
    parsed = read_policy(policy)
    with _existing_account(parsed, ledger) as account:
        if account is None:
            raise InvalidParameter(
                "policy",
                parsed.account_name,
                "a policy whose account is open already",
                fix="change the budget in the policy file: the first question then opens the account with that budget",
            )
        return amend_account(account, parsed, reason)


def amend_account(account: Account, policy: Policy, reason: str) -> Line:
    """Replace this account's budget by a policy's; another unit or other neighbours are refused."""
    if account.unit != policy.unit or account.budget.neighbours is not policy.neighbours:
        raise AccountDiffers(
            f"this account protects {account.unit} under {account.budget.neighbours.value} neighbours, and only its "
            "budget can be changed",
            place="unit",
            fix="declare the same unit and neighbours in the policy, or start a new policy with its own account",
        )
    if account.per != (policy.per or ""):
        raise AccountDiffers(
            "accounts that are open cannot be merged or split, and this ledger has "
            + (f"one for each {account.per}" if account.per else "one for all periods"),
            place="unit.budget.per",
            fix=f'write per = "{account.per}"' if account.per else "remove per",
        )
    require_permitted_delta(policy, account.budget)
    new_budget = policy.account_budget
    warn_if_weak_policy(policy)
    return account.amend(reason=reason, epsilon=new_budget.epsilon, delta=new_budget.delta, reserve=new_budget.reserve)


def open_account(ledger: Ledger, policy: Policy) -> Account:
    """Open a policy's account, on first use with its budget; a large δ that it does not allow is refused then."""
    name = policy.account_name
    if has_unpermitted_delta(policy):
        require_permitted_delta(policy, ledger.account(name).budget if name in ledger.accounts else None)
    return ledger.account(name, unit=policy.unit, budget=policy.account_budget, per=policy.per or "")


def require_permitted_delta_of_file(policy: Policy) -> None:
    """Refuse a large δ that neither the policy allows nor its account already has. No data are opened."""
    if has_unpermitted_delta(policy):
        with _existing_account(policy, None) as account:
            require_permitted_delta(policy, None if account is None else account.budget)


def refuse_data_with_account(data: PathOrText) -> None:
    """Refuse a data file that belongs to an account of the ledger beside it: only its policy may spend its budget."""
    path = Path(data)
    ledger_path = path.parent / LEDGER_NAME
    if not ledger_path.exists():
        return
    with Ledger.open(ledger_path) as open_ledger:
        for name in open_ledger.accounts:
            if any(source.path == str(path.resolve()) for source in open_ledger.account(name).sources):
                raise SourceTaken(
                    f"this file belongs to the account {name!r}, so it can only be read through the policy of "
                    "that account",
                    place=str(path),
                    fix=f"pass the policy instead of the file, such as {name}.toml, and name the table and the column",
                )


@contextmanager
def _existing_account(policy: Policy, ledger: PathOrText | None) -> Iterator[Account | None]:
    """Yield the account, or None before its first question."""
    address = ledger_address(policy, ledger)
    if not ledger_may_exist(address):
        yield None
        return
    with Ledger.open(address) as open_ledger:
        is_open = policy.account_name in open_ledger.accounts
        yield open_ledger.account(policy.account_name) if is_open else None


def restrict_to_periods(plan: Aggregate, context: Context) -> tuple[Aggregate, Context]:
    """Restrict a plan to the periods that it can read, and return the context whose accounts pay for them.

    Both depend on the question and the policy only. With one account for all periods, both are returned unchanged.
    """
    from sfumato.plan import account_periods

    policy = context.policy
    if policy.per is None:
        return plan, context
    periods = account_periods.charged_periods(plan, policy)
    account = cast("PeriodAccounts", context.account).for_periods(account_periods.period_names(periods, policy.per))
    return account_periods.restrict_to_periods(plan, policy, periods), replace(context, account=account)


def explain_period_charges(context: Context) -> tuple[PlanStep, ...]:
    """Explain which accounts a release charges, and their guarantee, if there are several."""
    from sfumato.curator.previews.explaining import PlanStep
    from sfumato.plan import account_periods
    from sfumato.plan.descriptions import count_with_noun
    from sfumato.release.answers.receipts import describe_period_guarantee

    policy, account = context.policy, context.account
    if policy.per is None or not account.periods:
        return ()
    accounts_text = f"the whole price in {count_with_noun(len(account.periods), 'account')}: "
    periods_text = account_periods.describe_periods(account.periods, policy.per)
    return (
        PlanStep(
            "charge",
            accounts_text + periods_text,
            f"one for each {policy.per}; guarantee: {describe_period_guarantee(policy)}",
        ),
    )


def price_and_accounts_phrase(price: object, context: Context) -> str:
    """Format a price, with the paying accounts if there are several; these may include future periods."""
    from sfumato.plan import account_periods
    from sfumato.plan.descriptions import count_with_noun

    per, periods = context.policy.per, context.account.periods
    if per is None or not periods:
        return str(price)
    periods_text = account_periods.describe_periods(periods, per)
    if len(periods) == 1:
        return f"{price} in the account of {periods_text}"
    return f"{price} in each of {count_with_noun(len(periods), 'account')}: {periods_text}"
