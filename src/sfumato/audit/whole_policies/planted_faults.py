"""Faults are planted in a twin of the path that is audited, and must be caught: an auditor without power is a claim.

Nothing of the curator is changed. Each twin breaks one thing above the release: a price that is paid twice and claimed
once, a limit or a range that the engine does not keep, one noise for several numbers, groups that are shown because
rows have them, words and charges that depend on rows. Each goes through the same tries as a sound question does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from sfumato.audit.asked_questions.compared_outcomes import Coordinates, Outcome, differences, outcome
from sfumato.audit.asked_questions.replayed_totals import Recorded, record, replayed
from sfumato.audit.invented_tables import InventedPopulation
from sfumato.audit.lower_bounds.falsifying import falsify
from sfumato.audit.whole_policies.audit_stages import AuditStage, Paid, drawn_again, prepared, read_by
from sfumato.audit.whole_policies.shared_noise import Noise, Spoil, compare_noise
from sfumato.curator import Question
from sfumato.errors import SfumatoError
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.readings.total_readings import Totals
from sfumato.plan.written_names import quoted
from sfumato.policy import Domain, Policy, Table, Type
from sfumato.privacy import Guarantee, Sensitivity
from sfumato.release.measurement import Measurement

_MANY = 10_000
_FEW = 200
_HALF, _ONE = "half the noise", "one noise for several numbers"
_ALL_GROUPS, _EQUAL_MEASURES = "one noise for all groups", "one noise for equal measures"
_GROUPS, _KEYS = "groups shown because rows have them", "keys shown without a threshold"


@dataclass(frozen=True)
class CaughtFault:
    """This says of one planted fault whether the audit caught it."""

    name: str
    question: str
    caught: bool
    evidence: str


Planted = Callable[[], "Iterator[CaughtFault]"]
"""A fault that is planted when this is called; there is nothing where a policy has no place for it."""


def planted_faults(stage: AuditStage, texts: tuple[str, ...], confidence: Fraction) -> dict[str, Planted]:
    """Name every fault, each with what plants it in the first question that it fits."""
    found: dict[str, Planted] = {}
    for name, plant in _PLANTS.items():
        found[name] = partial(_first, plant, stage, texts, confidence)
    for name, misread in _MISREAD.items():
        found[name] = partial(_misread, stage, texts, name, misread)
    for name, change in _TELLING.items():
        found[name] = partial(_telling, stage, texts[0], name, change)
    return found


Plant = Callable[[AuditStage, str, Question, Fraction], "CaughtFault | None"]


def _first(plant: Plant, stage: AuditStage, texts: tuple[str, ...], confidence: Fraction) -> Iterator[CaughtFault]:
    for text in texts:
        try:
            question = stage.question(text)
            found = plant(stage, text, question, confidence) if isinstance(question, Question) else None
        except SfumatoError:
            continue  # this policy does not answer it: another question may have room for the fault
        if found is not None:
            yield found
            return


def _recorded(stage: AuditStage, question: Question, paid: Paid) -> tuple[Recorded, ...]:
    return () if question.found else stage.recorded(question, paid)


def _half_the_noise(stage: AuditStage, text: str, question: Question, confidence: Fraction) -> CaughtFault | None:
    """Let the noise be half of what the claim needs: twice as much is paid as is claimed."""
    claim = stage.paid(question).claim
    recorded = _recorded(stage, question, Paid(Guarantee(2 * claim.epsilon)))
    pair = replayed(recorded, stage.tables.pairs).telling
    tried = None if pair is None else drawn_again(recorded, pair, claim, _MANY, confidence)
    return None if tried is None else CaughtFault(_HALF, text, not tried[0].holds, str(tried[0]))


def _one_noise(stage: AuditStage, text: str, question: Question, confidence: Fraction) -> CaughtFault | None:
    """Give all numbers of a measurement the noise of the first: their differences are exact."""
    paid = stage.paid(question)
    recorded = [each for each in _recorded(stage, question, paid) if each.exact[""].size > 1]
    pair = replayed(recorded, stage.tables.pairs).telling
    if pair is None or all(np.ptp(each.exact[pair[0].name] - each.exact[pair[1].name]) == 0 for each in recorded):
        return None
    size = recorded[0].exact[""].size

    def shared(measurement: Any, exact: Any) -> Any:
        rows = exact.reshape(-1, size)
        return rows + (measurement.draw(rows[:, :1].copy()) - rows[:, :1])

    tried = drawn_again(recorded[:1], pair, paid.claim, _MANY, confidence, shared)
    return None if tried is None else CaughtFault(_ONE, text, not tried[0].holds, str(tried[0]))


def _for_all_groups(noise: Noise, mechanisms: Sequence[Additive]) -> Noise:
    """Give every group the noise of the first."""
    del mechanisms
    return np.repeat(noise[:1], len(noise), axis=0)


def _for_equal_measures(noise: Noise, mechanisms: Sequence[Additive]) -> Noise:
    """Give measures that are drawn alike the noise of the first of them."""
    return noise[:, [mechanisms.index(each) for each in mechanisms]]


def _shared_noise(
    name: str, spoil: Spoil, stage: AuditStage, text: str, question: Question, confidence: Fraction
) -> CaughtFault | None:
    """Spoil the noise of a release that has several numbers of the kind; there is no fault where it stays as it is."""
    made = prepared(question, stage.paid(question))
    found = compare_noise(question, made, stage.engines[""], 1 - confidence, spoil)
    mechanisms = [each.mechanism for each in made.measured[0]]
    groups, measures = len(question.groups), len(mechanisms)
    several = groups > 1 if spoil is _for_all_groups else len(set(mechanisms)) < measures
    return CaughtFault(name, text, not found.holds, str(found)) if found is not None and several else None


def _generous_limits(policy: Policy) -> Policy:
    """Let one row, and one group, of a unit more pass than is claimed."""
    return _with_private(policy, _generous)


def _wide_range(policy: Policy) -> Policy:
    """Let numbers pass that are twice as far out as is claimed."""
    return _with_private(policy, _wide)


def _with_private(policy: Policy, change: Callable[[Table], Table]) -> Policy:
    return replace(policy, tables={name: each if each.public else change(each) for name, each in policy.tables.items()})


def _generous(table: Table) -> Table:
    if table.every_row:
        return table
    more = {name: getattr(table, name) for name in ("max_rows", "max_groups", "max_rows_per_group")}
    return replace(table, **{name: each + 1 for name, each in more.items() if each is not None})


def _wide(table: Table) -> Table:
    columns = {name: _widened(each) for name, each in table.columns.items()}
    return replace(table, columns=columns, codings={}, impossible=(), implies={})


def _widened(domain: Domain) -> Domain:
    if not domain.type.numeric or domain.bounds is None:
        return domain
    low, high = (2 * each for each in domain.bounds)  # type: ignore[operator]
    return replace(domain, bounds=(min(low, domain.bounds[0]), max(high, domain.bounds[1])))


_MISREAD: Mapping[str, Callable[[Policy], Policy]] = {
    "limits that let one more pass": _generous_limits,
    "ranges that are twice as wide": _wide_range,
}


def _misread(
    stage: AuditStage, texts: tuple[str, ...], name: str, change: Callable[[Policy], Policy]
) -> Iterator[CaughtFault]:
    """Read with another policy what the stage's policy makes the noise for, in the first question that looks at it."""
    policy = change(stage.policy)
    if policy == stage.policy:
        return
    with read_by(stage, policy) as other:
        for text in texts:
            try:
                found = _exceeded(stage, other, text)
            except SfumatoError:
                continue
            if found is not None:
                yield CaughtFault(name, text, found > 1, f"a unit changes {found:.4g} times what is claimed")
                return


def _exceeded(stage: AuditStage, other: AuditStage, text: str) -> float | None:
    """Say what share of a claim is reached by totals that another policy reads; None where it claims the same."""
    question, twin = stage.question(text), other.question(text)
    if not isinstance(question, Question) or question.found or question.table.name in stage.tables.capped:
        return None
    if question.groups != twin.groups:  # other groups are another question
        return None
    paid = stage.paid(question)
    claims = [_in_own_terms(each) for each in prepared(question, paid).measured[0]]
    theirs = [_in_own_terms(each) for each in prepared(twin, paid).measured[0]]
    if len(claims) != len(theirs) or all(mine == other for (_, mine), (_, other) in zip(claims, theirs, strict=True)):
        return None
    read = record(twin, prepared(twin, paid), other.engines)[: len(claims)]
    steps = [(each, claim, unit) for each, (_, claim), (unit, _) in zip(read, claims, theirs, strict=True)]
    misread = [replace(each, claim=_scaled(claim, 1 / unit)) for each, claim, unit in steps]
    return replayed(misread, stage.tables.pairs).share


def _in_own_terms(measurement: Measurement) -> tuple[Fraction, Sensitivity]:
    """Give what one whole number of a total is worth, and what one unit changes, in the measure's own terms."""
    reading = measurement.reading
    assert isinstance(reading, Totals)
    unit = reading.scaled.unit_value
    return unit, _scaled(reading.sensitivity, unit)


def _scaled(claim: Sensitivity, by: Fraction) -> Sensitivity:
    return Sensitivity(claim.groups, claim.per_group * by, claim.total * by, claim.squares * by**2, claim.neighbours)


def _bare_groups(stage: AuditStage, text: str, question: Question, confidence: Fraction) -> CaughtFault | None:
    """Show only the groups of one column that have rows."""
    del confidence
    keys = [each for each in question.table.columns if text.startswith(f"SELECT {quoted(each)},")]
    if question.found or not keys or "WHERE" in text:
        return None
    paid = stage.paid(question).keywords
    seen = []
    for each in stage.tables.populations:
        own = outcome(stage.curators[each.name], text, paid)
        seen.append((each, {**own, "groups": repr(_values(each, question, keys[0]))}))
    found = [each for each in differences(seen) if each.what == "groups"]
    return CaughtFault(_GROUPS, text, bool(found), str(found[0]) if found else "nothing")


def _values(population: InventedPopulation, question: Question, key: str) -> list[Any]:
    return sorted(set(population.tables[question.table.name][key].to_pylist()), key=repr)


def _bare_keys(stage: AuditStage, text: str, question: Question, confidence: Fraction) -> CaughtFault | None:
    """Show every key that is found in the data, without a threshold."""
    keys = [each for each in question.table.columns if text.startswith(f"SELECT {quoted(each)},")]
    if not question.found or not keys or question.table.columns[keys[0]].type is not Type.TEXT:
        return None
    pair = _apart(stage, question, keys[0])
    worlds = [[{f"{each!r} shown": 1 for each in _values(one, question, keys[0])}] * _FEW for one in pair]
    pilot = Coordinates.of(worlds[0][:20], worlds[1][:20])
    claim = stage.paid(question).claim
    numbers = [pilot.numbers(each) for each in worlds]
    tried = falsify((lambda n: numbers[0][:n], lambda n: numbers[1][:n]), claim, _FEW, confidence)
    return CaughtFault(_KEYS, text, not tried.holds, str(tried))


def _apart(stage: AuditStage, question: Question, key: str) -> tuple[InventedPopulation, InventedPopulation]:
    """Choose the neighbours that share fewest keys."""

    def apart(pair: tuple[InventedPopulation, InventedPopulation]) -> int:
        first, second = (set(_values(each, question, key)) for each in pair)
        return len(first ^ second)

    return max(stage.tables.pairs, key=apart)


_PLANTS: Mapping[str, Plant] = {
    _HALF: _half_the_noise,
    _ONE: _one_noise,
    _ALL_GROUPS: partial(_shared_noise, _ALL_GROUPS, _for_all_groups),
    _EQUAL_MEASURES: partial(_shared_noise, _EQUAL_MEASURES, _for_equal_measures),
    _GROUPS: _bare_groups,
    _KEYS: _bare_keys,
}


def _rows(population: InventedPopulation) -> int:
    return sum(each.num_rows for each in population.tables.values())


_TELLING: Mapping[str, Callable[[Outcome, int], Outcome]] = {
    "a refusal that depends on rows": lambda seen, rows: {**seen, "refusal": "too many rows"} if rows else seen,
    "a message that counts rows": lambda seen, rows: {**seen, "warnings": f"{rows} rows were read"},
    "a charge that depends on rows": lambda seen, rows: {**seen, "charge": f"{seen['charge']} times {rows}"},
}


def _telling(
    stage: AuditStage, text: str, name: str, change: Callable[[Outcome, int], Outcome]
) -> Iterator[CaughtFault]:
    """Let what is seen of a question depend on how many rows there are beside those of the others."""
    paid = stage.paid(stage.question(text)).keywords
    seen = [(each, outcome(stage.curators[each.name], text, paid)) for each in stage.tables.populations]
    fewest = _rows(stage.tables.others)
    sound, faulty = differences(seen), differences([(each, change(own, _rows(each) - fewest)) for each, own in seen])
    caught = len(faulty) > len(sound)
    yield CaughtFault(name, text, caught, str(faulty[-1]) if caught else "nothing")
