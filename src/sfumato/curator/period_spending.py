"""A question is held to the periods that it reads, and these pay, where every period has an account of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from sfumato.curator.context import Context
from sfumato.curator.explaining import Operator
from sfumato.ledger import PeriodAccounts
from sfumato.plan import account_periods
from sfumato.plan.nodes import Query
from sfumato.plan.words import many
from sfumato.release.promises import promise


def by_period(query: Query, context: Context) -> tuple[Query, Context]:
    """Give the question that reads no other periods than those that its text can mean, and the context in which their
    accounts pay for it. Both follow from the question and the policy alone.
    """
    policy = context.policy
    periods = account_periods.spent(query.plan, policy)
    plan = account_periods.restricted(query.plan, policy, periods)
    account = cast("PeriodAccounts", context.account).over(account_periods.names(periods, policy.per))
    return replace(query, plan=plan), replace(context, account=account)


def charged(context: Context) -> tuple[Operator, ...]:
    """Explain which accounts a release spends and what they promise, where there are several."""
    policy, account = context.policy, context.account
    if policy.per is None or not account.periods:
        return ()
    what = f"the whole price in {many(len(account.periods), 'account')}: "
    named = account_periods.words(account.periods, policy.per)
    return (Operator("charge", what + named, f"one for each {policy.per}; promised is {promise(policy)}"),)
