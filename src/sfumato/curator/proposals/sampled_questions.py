"""Questions over a secret sample of the units: which ones can be asked so, decided without rows.

Why each of the others is refused: ``release.pricing``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sfumato.curator.previews.explaining import PlanStep
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.limits import parse_rate
from sfumato.policy import Policy
from sfumato.privacy.numbers import Number, format_percent
from sfumato.release.pricing import PricedRelease, price_before_sampling
from sfumato.release.requests import PriceRequest

_RULE = "sampled-question"
_ASK_ALL = "leave out sample (--sample): the answer then reads all units"


def validated_sampling_rate(question: Any, request: PriceRequest, policy: Policy) -> Fraction | None:
    """Parse the rate of a request, and refuse a question that cannot be asked of a sample; None without a sample."""
    if request.sample is None:
        return None
    rate = parse_rate(request.sample)
    for reason in (_policy_objection(policy, question.table.every_row), _question_objection(question)):
        if reason:
            raise Unsupported(_RULE, f"this question cannot be asked over a sample: {reason}", fix=_ASK_ALL)
    return rate


def _policy_objection(policy: Policy, every_row: bool) -> str:
    """Return what in the policy speaks against a sample; empty if nothing does."""
    if every_row:
        return "every row is a unit, and equal rows cannot be told apart, so a unit cannot be sampled"
    if policy.unit.period is not None or policy.per is not None:
        return f"a unit is one {policy.unit.name} in one {policy.unit.period}, and a sample is drawn by ids"
    return ""


def _question_objection(question: Any) -> str:
    """Return what in the question speaks against a sample; empty if nothing does."""
    if question.discovered_keys:
        return "its groups are found in the data, so the groups shown would depend on which units are in the sample"
    if question.other_parts:
        return "it asks for quantiles, distinct or frequent values, which a sample does not scale to all units"
    if question.query.finish.sets:
        return "it asks for subtotals, whose sampling errors are not known from those of the groups"
    if any(map(_has_signed_totals, question.bounding_options)):
        return "it sums values that may be negative, for which the sampling error cannot be estimated from the sum"
    return ""


def _has_signed_totals(bounded_plan: BoundedPlan) -> bool:
    return any(
        contribution.low < 0 for measure in bounded_plan.noisy_measures for contribution in measure.contributions
    )


def refuse_sample_of_combination(sample: Number | None) -> None:
    """Refuse a sample of a question that combines several SELECTs: each would be released by itself."""
    if sample is not None:
        rule = "left out, because the question combines several SELECTs"
        raise InvalidParameter("sample", sample, rule, fix="release each SELECT with sample by itself")


def refuse_sample_of_release(sample: Number | None, release_noun: str) -> None:
    """Refuse a sample of a release whose law is of all units: ``release_noun`` names it in the plural."""
    if sample is not None:
        rule = f"left out, because {release_noun} always cover all units"
        raise InvalidParameter(
            "sample",
            sample,
            rule,
            fix="leave it out; only counts and means can be sampled",
        )


def refuse_conflicting_sample(sample: object, sample_of: object, free: bool) -> None:
    """Refuse a secret sample of data that are a sample themselves, whose ranges would not add up; and of a synopsis."""
    if sample is not None and free:
        rule = "left out with free, because a synopsis answers without reading any unit"
        raise InvalidParameter("sample", sample, rule, fix="give a price, or leave out sample (--sample)")
    if sample is not None and sample_of is not None:
        rule = (
            "left out if sample is given, because the ranges of a sampled answer hold for the units of the data, not "
            "for a larger population"
        )
        raise InvalidParameter("sample_of", sample_of, rule, fix="give sample or sample_of, not both")


def text_with_sample(text: str, prepared: PricedRelease) -> str:
    """Return the question as a history lists it: one over a sample is another question."""
    rate = prepared.bounded.sample
    return text if rate is None else f"{text}\n-- of a secret sample: {format_percent(rate)} of the units"


def key_with_sample(key: PlanKey, prepared: PricedRelease) -> PlanKey:
    """Return the key of a release: one over a sample measures something else, at every rate."""
    rate = prepared.bounded.sample
    return key if rate is None else key.derive(lambda plan: digest(plan, "sample", str(rate)))


def steps_with_sample(operators: Sequence[PlanStep], prepared: PricedRelease, unit: str) -> tuple[PlanStep, ...]:
    """Explain, after the scan, the sample of a prepared release."""
    rate = prepared.bounded.sample
    if rate is None:
        return tuple(operators)
    noise_price = price_before_sampling(prepared.price, rate)
    unsampled_guarantee = (
        ""
        if noise_price.epsilon is None
        else f"; if the sample were known, the guarantee would be ε = {float(noise_price.epsilon):.3g}"
    )
    sample = PlanStep(
        "sample",
        f"each {unit} with probability {format_percent(rate)}, all its rows or none",
        "a fresh secret sample for every answer; what is released is scaled to all units, and its ± covers the "
        f"sampling{unsampled_guarantee}",
    )
    return operators[0], sample, *operators[1:]
