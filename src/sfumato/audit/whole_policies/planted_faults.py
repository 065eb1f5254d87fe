"""Inject faults into twins of the audited path; each must be detected, or the audit has no power.

The curator itself is not changed. Each twin breaks one thing above the release: a price paid twice and claimed once, a
limit or range that the engine does not enforce, one noise draw for several numbers, groups shown because rows have
them, messages and charges that depend on rows. Each goes through the same tests as a sound query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from sfumato.audit.asked_questions.neighbouring_outcomes import (
    Outcome,
    RecordedTotals,
    ReleaseFeatures,
    compare_outcomes,
    compare_recorded_totals,
    record_totals,
    release_and_record,
)
from sfumato.audit.generated_tables import GeneratedPopulation
from sfumato.audit.lower_bounds.falsifying import falsify
from sfumato.audit.whole_policies.audit_testbeds import (
    AuditPrice,
    AuditTestbed,
    Noise,
    NoiseFault,
    column_mechanisms,
    compare_noise,
    price_release,
    refute_by_draws,
    reopen_under,
)
from sfumato.curator import Question
from sfumato.errors import SfumatoError
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.quoting import quoted
from sfumato.plan.readings.total_readings import MeasureTotals
from sfumato.policy import Domain, Policy, Table, Type
from sfumato.privacy import Guarantee, Sensitivity
from sfumato.quick_dataclass import dataclass
from sfumato.release.measurement import Measurement

_NOISE_DRAWS = 10_000
_KEY_SAMPLES = 200
_HALF_NOISE, _ONE_NOISE = "half the noise", "the same noise for several numbers"
_ALL_GROUPS, _EQUAL_MEASURES = "the same noise for all groups", "the same noise for equal measures"
_BARE_GROUPS, _BARE_KEYS = "groups shown because they have rows", "keys shown without a threshold"


@dataclass(frozen=True)
class FaultResult:
    """Whether the audit detected one injected fault."""

    name: str
    question: str
    caught: bool
    evidence: str


FaultInjection = Callable[[], "Iterator[FaultResult]"]
"""Injects a fault and yields the result; nothing if no query of the policy allows it."""


def planted_faults(testbed: AuditTestbed, texts: tuple[str, ...], confidence: Fraction) -> dict[str, FaultInjection]:
    """Return, by name, a function that injects each fault into the first query that allows it."""
    faults: dict[str, FaultInjection] = {}
    for name, plant in _RELEASE_FAULTS.items():
        faults[name] = partial(_inject_into_first_suitable, plant, testbed, texts, confidence)
    for name, misread in _MISREAD_FAULTS.items():
        faults[name] = partial(_inject_misreading_into_first_suitable, testbed, texts, name, misread)
    for name, change in _OUTCOME_FAULTS.items():
        faults[name] = partial(_inject_outcome_fault, testbed, texts[0], name, change)
    return faults


Plant = Callable[[AuditTestbed, str, Question, Fraction], "FaultResult | None"]


def _inject_into_first_suitable(
    plant: Plant, testbed: AuditTestbed, texts: tuple[str, ...], confidence: Fraction
) -> Iterator[FaultResult]:
    for text in texts:
        try:
            question = testbed.question(text)
            fault = plant(testbed, text, question, confidence) if isinstance(question, Question) else None
        except SfumatoError:
            continue  # the policy refuses this query; another one may allow the fault
        if fault is not None:
            yield fault
            return


def _recorded_totals_if_groups_declared(
    testbed: AuditTestbed, question: Question, paid: AuditPrice
) -> tuple[RecordedTotals, ...]:
    return () if question.discovered_keys else testbed.record_totals(question, paid)


def _inject_half_noise(
    testbed: AuditTestbed, text: str, question: Question, confidence: Fraction
) -> FaultResult | None:
    """Halve the noise that the claim needs: pay twice what is claimed."""
    claim = testbed.price_for(question).claim
    recorded = _recorded_totals_if_groups_declared(testbed, question, AuditPrice(Guarantee(2 * claim.epsilon)))
    pair = compare_recorded_totals(recorded, testbed.tables.pairs).most_distinguishable_pair
    outcome_and_draws = None if pair is None else refute_by_draws(recorded, pair, claim, _NOISE_DRAWS, confidence)
    return (
        None
        if outcome_and_draws is None
        else FaultResult(_HALF_NOISE, text, not outcome_and_draws[0].holds, str(outcome_and_draws[0]))
    )


def _inject_one_noise(testbed: AuditTestbed, text: str, question: Question, confidence: Fraction) -> FaultResult | None:
    """Add the first number's noise to all numbers of a measurement, so that differences are exact."""
    paid = testbed.price_for(question)
    recorded = [
        entry for entry in _recorded_totals_if_groups_declared(testbed, question, paid) if entry.exact[""].size > 1
    ]
    pair = compare_recorded_totals(recorded, testbed.tables.pairs).most_distinguishable_pair
    if pair is None or all(np.ptp(entry.exact[pair[0].name] - entry.exact[pair[1].name]) == 0 for entry in recorded):
        return None
    size = recorded[0].exact[""].size

    def draw_shared(measurement: Any, exact: Any) -> Any:
        rows = exact.reshape(-1, size)
        return rows + (measurement.draw(rows[:, :1].copy()) - rows[:, :1])

    outcome_and_draws = refute_by_draws(recorded[:1], pair, paid.claim, _NOISE_DRAWS, confidence, draw_shared)
    return (
        None
        if outcome_and_draws is None
        else FaultResult(_ONE_NOISE, text, not outcome_and_draws[0].holds, str(outcome_and_draws[0]))
    )


def _share_across_groups(noise: Noise, mechanisms: Sequence[Additive]) -> Noise:
    """Use the noise of the first group for all groups."""
    del mechanisms
    return np.repeat(noise[:1], len(noise), axis=0)


def _share_across_measures(noise: Noise, mechanisms: Sequence[Additive]) -> Noise:
    """Use one noise draw for all measures with equal mechanisms."""
    return noise[:, [mechanisms.index(mechanism) for mechanism in mechanisms]]


def _inject_shared_noise(
    name: str, spoil: NoiseFault, testbed: AuditTestbed, text: str, question: Question, confidence: Fraction
) -> FaultResult | None:
    """Share noise within a release that has several groups or equal measures; None if it has not."""
    priced = price_release(question, testbed.price_for(question))
    comparison = compare_noise(question, priced, testbed.engines[""], 1 - confidence, spoil)
    mechanisms = [mechanism for mechanism in column_mechanisms(priced) if mechanism is not None]
    applies = len(question.groups) > 1 if spoil is _share_across_groups else len({*mechanisms}) < len(mechanisms)
    return (
        FaultResult(name, text, not comparison.holds, str(comparison)) if comparison is not None and applies else None
    )


def _loosen_limits(policy: Policy) -> Policy:
    """Allow one row and one group more per unit than is claimed."""
    return _change_private_tables(policy, _loosen_table_limits)


def _widen_ranges(policy: Policy) -> Policy:
    """Allow numbers twice as far out as is claimed."""
    return _change_private_tables(policy, _widen_table_ranges)


def _change_private_tables(policy: Policy, change: Callable[[Table], Table]) -> Policy:
    tables = {name: table if table.public else change(table) for name, table in policy.tables.items()}
    return replace(policy, tables=tables)


def _loosen_table_limits(table: Table) -> Table:
    if table.every_row:
        return table
    limits = {name: getattr(table, name) for name in ("max_rows", "max_groups", "max_rows_per_group")}
    return replace(table, **{name: limit + 1 for name, limit in limits.items() if limit is not None})


def _widen_table_ranges(table: Table) -> Table:
    columns = {name: _widen_domain(domain) for name, domain in table.columns.items()}
    return replace(table, columns=columns, codings={}, impossible=(), implies={})


def _widen_domain(domain: Domain) -> Domain:
    if not domain.type.numeric or domain.bounds is None:
        return domain
    low, high = (2 * bound for bound in domain.bounds)  # type: ignore[operator]
    return replace(domain, bounds=(min(low, domain.bounds[0]), max(high, domain.bounds[1])))


_MISREAD_FAULTS: Mapping[str, Callable[[Policy], Policy]] = {
    "limits that are one too high": _loosen_limits,
    "bounds that are twice as wide": _widen_ranges,
}


def _inject_misreading_into_first_suitable(
    testbed: AuditTestbed, texts: tuple[str, ...], name: str, change: Callable[[Policy], Policy]
) -> Iterator[FaultResult]:
    """Read under a changed policy the totals that the testbed's policy calibrates noise for."""
    policy = change(testbed.policy)
    if policy == testbed.policy:
        return
    with reopen_under(testbed, policy) as other:
        for text in texts:
            try:
                share = _misread_ratio(testbed, other, text)
            except SfumatoError:
                continue
            if share is not None:
                yield FaultResult(name, text, share > 1, f"a unit changes {share:.4g} times what is claimed")
                return


def _misread_ratio(testbed: AuditTestbed, other: AuditTestbed, text: str) -> float | None:
    """Return the share of the claim that totals read by another policy reach; None if both claim the same."""
    question, twin = testbed.question(text), other.question(text)
    if (
        not isinstance(question, Question)
        or question.discovered_keys
        or question.table.name in testbed.tables.tables_with_unreached_limit
    ):
        return None
    if question.groups != twin.groups:  # different groups make it a different query
        return None
    paid = testbed.price_for(question)
    claims = [_in_measure_units(measurement) for measurement in price_release(question, paid).measurements[0]]
    twin_claims = [_in_measure_units(measurement) for measurement in price_release(twin, paid).measurements[0]]
    if len(claims) != len(twin_claims) or all(
        claim == changed for (_, claim), (_, changed) in zip(claims, twin_claims, strict=True)
    ):
        return None
    recorded = record_totals(twin, price_release(twin, paid), other.engines)[: len(claims)]
    converted = [
        (entry, claim, unit) for entry, (_, claim), (unit, _) in zip(recorded, claims, twin_claims, strict=True)
    ]
    rescaled = [replace(entry, claim=_scale_sensitivity(claim, 1 / unit)) for entry, claim, unit in converted]
    return compare_recorded_totals(rescaled, testbed.tables.pairs).share


def _in_measure_units(measurement: Measurement) -> tuple[Fraction, Sensitivity]:
    """Return the value of one integer step of a total, and the sensitivity in the measure's units."""
    reading = measurement.reading
    assert isinstance(reading, MeasureTotals)
    step_value = reading.scaled.unit_value
    return step_value, _scale_sensitivity(reading.sensitivity, step_value)


def _scale_sensitivity(claim: Sensitivity, factor: Fraction) -> Sensitivity:
    return Sensitivity(
        claim.groups, claim.per_group * factor, claim.total * factor, claim.squares * factor**2, claim.neighbours
    )


def _inject_bare_groups(
    testbed: AuditTestbed, text: str, question: Question, confidence: Fraction
) -> FaultResult | None:
    """Show only the groups of one column that have rows."""
    del confidence
    keys = [column for column in question.table.columns if text.startswith(f"SELECT {quoted(column)},")]
    if question.discovered_keys or not keys or "WHERE" in text:
        return None
    paid = testbed.price_for(question).release_arguments
    outcomes = []
    for population in testbed.tables.populations:
        visible = release_and_record(testbed.curators[population.name], text, paid)
        outcomes.append((population, {**visible, "groups": repr(_column_values(population, question, keys[0]))}))
    group_differences = [difference for difference in compare_outcomes(outcomes) if difference.aspect == "groups"]
    return FaultResult(
        _BARE_GROUPS, text, bool(group_differences), str(group_differences[0]) if group_differences else "nothing"
    )


def _column_values(population: GeneratedPopulation, question: Question, key: str) -> list[Any]:
    return sorted(set(population.tables[question.table.name][key].to_pylist()), key=repr)


def _inject_bare_keys(testbed: AuditTestbed, text: str, question: Question, confidence: Fraction) -> FaultResult | None:
    """Show every key in the data, without a threshold."""
    keys = [column for column in question.table.columns if text.startswith(f"SELECT {quoted(column)},")]
    if not question.discovered_keys or not keys or question.table.columns[keys[0]].type is not Type.TEXT:
        return None
    pair = _pair_with_fewest_shared_keys(testbed, question, keys[0])
    worlds = [
        [{f"{key!r} shown": 1 for key in _column_values(side, question, keys[0])}] * _KEY_SAMPLES for side in pair
    ]
    pilot = ReleaseFeatures.from_pilot(worlds[0][:20], worlds[1][:20])
    claim = testbed.price_for(question).claim
    numbers = [pilot.feature_matrix(releases) for releases in worlds]
    verdict = falsify((lambda n: numbers[0][:n], lambda n: numbers[1][:n]), claim, _KEY_SAMPLES, confidence)
    return FaultResult(_BARE_KEYS, text, not verdict.holds, str(verdict))


def _pair_with_fewest_shared_keys(
    testbed: AuditTestbed, question: Question, key: str
) -> tuple[GeneratedPopulation, GeneratedPopulation]:
    def key_distance(pair: tuple[GeneratedPopulation, GeneratedPopulation]) -> int:
        first, second = (set(_column_values(population, question, key)) for population in pair)
        return len(first ^ second)

    return max(testbed.tables.pairs, key=key_distance)


_RELEASE_FAULTS: Mapping[str, Plant] = {
    _HALF_NOISE: _inject_half_noise,
    _ONE_NOISE: _inject_one_noise,
    _ALL_GROUPS: partial(_inject_shared_noise, _ALL_GROUPS, _share_across_groups),
    _EQUAL_MEASURES: partial(_inject_shared_noise, _EQUAL_MEASURES, _share_across_measures),
    _BARE_GROUPS: _inject_bare_groups,
    _BARE_KEYS: _inject_bare_keys,
}


def _row_count(population: GeneratedPopulation) -> int:
    return sum(table.num_rows for table in population.tables.values())


_OUTCOME_FAULTS: Mapping[str, Callable[[Outcome, int], Outcome]] = {
    "a refusal that depends on rows": lambda visible, rows: (
        {**visible, "refusal": "too many rows"} if rows else visible
    ),
    "a message that counts rows": lambda visible, rows: {**visible, "warnings": f"{rows} rows were read"},
    "a charge that depends on rows": lambda visible, rows: {**visible, "charge": f"{visible['charge']} times {rows}"},
}


def _inject_outcome_fault(
    testbed: AuditTestbed, text: str, name: str, change: Callable[[Outcome, int], Outcome]
) -> Iterator[FaultResult]:
    """Make the visible outcome depend on the number of rows of the extra unit."""
    paid = testbed.price_for(testbed.question(text)).release_arguments
    outcomes = [
        (side, release_and_record(testbed.curators[side.name], text, paid)) for side in testbed.tables.populations
    ]
    fewest = _row_count(testbed.tables.ordinary_population)
    changed = [(side, change(visible, _row_count(side) - fewest)) for side, visible in outcomes]
    sound, faulty = compare_outcomes(outcomes), compare_outcomes(changed)
    caught = len(faulty) > len(sound)
    yield FaultResult(name, text, caught, str(faulty[-1]) if caught else "nothing")
