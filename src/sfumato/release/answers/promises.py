"""A promise is about one unit in one period where every period has an account of its own: it is said in words."""

from __future__ import annotations

from sfumato.plan import account_periods
from sfumato.policy import Policy
from sfumato.privacy import Neighbours
from sfumato.privacy.budget_words import promised


def for_life(policy: Policy) -> str:
    """Say what the policy promises: for life, or of each unit in its period."""
    return promise(policy) or f"{promised(policy.budget.epsilon, policy.budget.delta)} for life"


def promise(policy: Policy) -> str:
    """Say what the accounts of periods promise, and what they do not; nothing where there is one account for life."""
    if policy.per is None:
        return ""
    unit, budget = policy.unit, policy.budget
    amount = promised(budget.epsilon, budget.delta)
    kept = f"{amount} for one {unit.name}-{unit.period}, whatever is ever asked: not for the life of one {unit.name}"
    worse = ", and more than k times that δ" if budget.delta else ""
    more = f"whose rows in k {unit.period}s may lose k times that ε{worse}"
    if policy.neighbours is not Neighbours.REPLACE:
        return f"{kept}, {more}"
    half = f"each {policy.per}'s account holds half, since a unit that is exchanged may move to another {policy.per}"
    return f"{kept}, {more}; {half}"


def paying(policy: Policy, periods: tuple[str, ...]) -> str:
    """Say whose budget is meant: that of each period's account, and of which ones."""
    if policy.per is None:
        return ""
    about = account_periods.words(periods, policy.per) if periods else "none of them"
    return f"for each {policy.per}, here of {about}"
