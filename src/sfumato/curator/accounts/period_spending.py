"""A question is held to the periods that it reads, and these pay, where every period has an account of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Operator
from sfumato.ledger import PeriodAccounts
from sfumato.plan import account_periods
from sfumato.plan.nodes import Aggregate
from sfumato.plan.words import many
from sfumato.release.answers.promises import promise


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
