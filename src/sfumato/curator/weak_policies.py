"""Warnings about a policy's lifetime ε and δ, and the rule for a large δ.

A mechanism that publishes each unit's rows with probability δ is (0, δ)-DP under both neighbouring relations:
neighbours differ in one unit, whose coin alone decides. Over n units it publishes somebody's rows with probability
1 − (1 − δ)ⁿ, so a δ near 1/n permits it to expose a few people (Dwork & Roth 2014, section 2.3).

The number of units is exact and PRIVATE: what depends on it is for the owner alone. Everything else here depends on the
policy alone.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.errors import InvalidPolicy
from sfumato.privacy import Budget, Guarantee
from sfumato.privacy.numbers import format_exact, format_probability

if TYPE_CHECKING:
    from sfumato.policy import Policy

MAX_LIFETIME_EPSILON = 10
"""The largest ε for life that is not warned about."""
LARGE_DELTA = Fraction(1, 1000)
"""The smallest δ for life that a new account has only if its policy allows it."""
MIN_WARNED_EXPOSURE = Fraction(1, 10)
"""The smallest δ · n that the owner is warned about: the expected number of units whose rows δ permits to publish."""
_DELTA_UNKNOWN_SIZE = Fraction(1, 10**9)
_MAX_PROPOSED_DELTA = Fraction(1, 10**4)


def proposed_delta(people: int | None) -> Fraction:
    """Return 1/(100 · people) rounded down to one digit; 1e-9 if their number is unknown, and never a large δ.

    >>> [float(proposed_delta(people)) for people in (500, 10_000, 30_001, 3, None)]
    [2e-05, 1e-06, 3e-07, 0.0001, 1e-09]
    """
    if people is None:
        return _DELTA_UNKNOWN_SIZE
    power = 10 ** (len(str(100 * people - 1)))  # the least power of ten that is at least 100 · people
    return min(Fraction(power // (100 * people), power), _MAX_PROPOSED_DELTA)


def exposure_warning(policy: Policy, units: int) -> str | None:
    """Describe what the policy's δ permits over this many units; None if fewer than 1 in 10 is expected. PRIVATE."""
    delta = policy.budget.delta
    if delta * units < MIN_WARNED_EXPOSURE:
        return None
    unit = policy.unit
    name = unit.name if unit.period is None else f"{unit.name}-{unit.period}"
    rows = "row" if unit.every_row else f"{name}'s rows"
    delta_text = format_probability(delta)
    exposed = -math.expm1(units * math.log1p(-float(delta))) if delta < 1 else 1.0
    percent = f"= {100 * exposed:.1f} %" if exposed < 0.999 else "> 99.9 %"
    return (
        f"δ = {delta_text} is dangerous for {units:,} units: a mechanism that publishes each {rows} with probability δ "
        f"keeps this promise, and publishes some {rows} with probability 1 − (1 − {delta_text})^{units} {percent}. "
        f"Choose a δ of at most 1/(100 · n), such as {format_probability(proposed_delta(units))}."
    )


def weak_policy_warnings(policy: Policy) -> tuple[str, ...]:
    """Describe why a policy's guarantee for life is weak; empty for a strong one. It depends on the policy alone."""
    warnings = []
    if policy.budget.epsilon > MAX_LIFETIME_EPSILON:
        warnings.append(_weak_epsilon_warning(policy))
    if has_unpermitted_delta(policy):
        warnings.append(
            f"δ = {format_probability(policy.budget.delta)} for life is large: a mechanism that publishes each "
            "unit's rows with that probability would satisfy this guarantee; a new account would need "
            "allow_large_delta = true in the policy's budget"
        )
    return tuple(warnings)


def _weak_epsilon_warning(policy: Policy) -> str:
    from sfumato.privacy.precedents import belief_sentence, deployment_comparison_sentence
    from sfumato.release.prices import ODDS_WORDS

    unit, promise = policy.unit, Guarantee(policy.budget.epsilon, policy.budget.delta)
    scope = "for life" if policy.per is None else f"for one {unit.name}-{unit.period}"
    belief = belief_sentence(promise, policy.neighbours)
    return (
        f"ε = {format_exact(promise.epsilon)} {scope} is weak privacy: it {ODDS_WORDS}, and {belief}. "
        f"{deployment_comparison_sentence(promise)}"
    )


def warn_if_weak_policy(policy: Policy) -> None:
    """Warn that a policy's guarantee for life is weak: when it is opened or amended, not with every answer."""
    from sfumato.release.prices import warn_caller

    for reason in weak_policy_warnings(policy):
        warn_caller(reason)


def has_unpermitted_delta(policy: Policy) -> bool:
    """Return whether the policy's δ is large and it does not allow that."""
    return policy.budget.delta >= LARGE_DELTA and not policy.allow_large_delta


def require_permitted_delta(policy: Policy, account_budget: Budget | None) -> None:
    """Refuse a large δ that the policy does not allow, unless its account already has it.

    Args:
        account_budget: the budget of the account in the ledger; None for a new account.
    """
    if not has_unpermitted_delta(policy):
        return
    if account_budget is not None and account_budget.delta >= policy.account_budget.delta:
        return
    raise InvalidPolicy(
        f"a δ of {format_probability(policy.budget.delta)} is too large (1/1000 or more): a mechanism that publishes "
        "each unit's rows with that probability would satisfy this guarantee",
        place="unit.budget.delta",
        fix="write a δ far below 1 / number of units, such as 1e-9; or, if you accept this δ, add allow_large_delta "
        "= true to the budget",
    )
