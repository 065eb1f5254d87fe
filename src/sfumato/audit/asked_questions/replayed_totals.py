"""Compare the exact totals of neighbouring tables, read as a release reads them, with the claimed sensitivity.

No noise hides a difference, so this is the strongest test of a sensitivity: for each measurement of a release the
change between two neighbours is computed exactly, and each norm of it is divided by the norm that the noise is
calibrated to. A ratio above 1 refutes the claim; a ratio of 1 shows that the claim is tight. The rows are generated,
so they may be read; the owner's sources are never read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.audit.generated_tables import GeneratedPopulation
from sfumato.curator import Question
from sfumato.engine.protocols import Engine
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.total_readings import DiscoveredGroups, DiscoveredTotals
from sfumato.privacy import Sensitivity
from sfumato.release.measurement import Measurement
from sfumato.release.pricing import PricedRelease

_SAMPLING_KEY = 7
"""The sampling key: the same for all tables, since the claim must hold for every key."""
_L1_NORM = "the sum of changes"

Pair = tuple[GeneratedPopulation, GeneratedPopulation]


@dataclass(frozen=True)
class ReplayResult:
    """The largest change by one unit, as a share of the claimed sensitivity."""

    share: float
    """The largest ratio of change to claim over all norms, measurements and pairs; above 1 the claim is refuted."""
    norm: str
    worst_pair: Pair | None
    """The neighbours that reach that share."""
    most_distinguishable_pair: Pair | None
    """The neighbours with the largest sum of changes relative to their claims: those that an attacker would choose."""
    comparisons: int
    """The number of compared pairs of totals; 0 if the query has only selections."""

    @property
    def holds(self) -> bool:
        return self.share <= 1


@dataclass(frozen=True)
class RecordedTotals:
    """The exact input of one measurement in every population."""

    measurement: Measurement
    exact: Mapping[str, Any]
    """Integers, by the name of the population."""
    claim: Sensitivity
    """The sensitivity that the noise is calibrated to."""


def compare_replays(recorded: Sequence[RecordedTotals], pairs: Sequence[Pair]) -> ReplayResult:
    """Compare the recorded totals of all pairs of neighbours."""
    worst, largest_distance = ReplayResult(0.0, "", None, None, 0), 0.0
    for pair in pairs:
        first, second = (population.name for population in pair)
        ratios_by_measurement = [
            _claim_ratios(entry.exact[first], entry.exact[second], entry.claim) for entry in recorded
        ]
        for ratios in ratios_by_measurement:
            norm = max(ratios, key=lambda name: ratios[name])
            if ratios[norm] > worst.share:
                worst = replace(worst, share=ratios[norm], norm=norm, worst_pair=pair)
        if (distance := sum(ratios[_L1_NORM] for ratios in ratios_by_measurement)) > largest_distance:
            worst, largest_distance = replace(worst, most_distinguishable_pair=pair), distance
    return replace(worst, comparisons=len(recorded) * len(pairs))


def record_totals(
    question: Question, prepared: PricedRelease, engines: Mapping[str, Engine]
) -> tuple[RecordedTotals, ...]:
    """Read the exact input of every noisy measurement; ``engines`` maps the name of a population to its engine."""
    records: list[RecordedTotals] = []
    for part, measurements in zip(prepared.parts, prepared.measurements, strict=True):
        noisy = [measurement for measurement in measurements if measurement.sensitivity is not None]
        if not noisy:
            continue
        if question.discovered_keys and part is prepared.totals:
            reading = DiscoveredTotals(prepared.bounded, question.discovered_keys, question.groups)
            exact = _align_keys(
                {name: engine.read(reading, _SAMPLING_KEY) for name, engine in engines.items()}, reading
            )
        elif question.discovered_keys:
            continue
        else:
            exact = {
                name: engine.read(part.reading(question.groups), _SAMPLING_KEY) for name, engine in engines.items()
            }
        for measurement in noisy:
            claim = measurement.sensitivity
            assert claim is not None
            records.append(
                RecordedTotals(
                    measurement, {name: measurement.reading.extract(totals) for name, totals in exact.items()}, claim
                )
            )
    return tuple(records)


def _align_keys(discovered: Mapping[str, DiscoveredGroups], reading: DiscoveredTotals) -> dict[str, Any]:
    """Return the totals of every key of any population in one order; zeros where a population lacks the key."""
    declared = len(reading.declared_groups)
    totals_by_population = {name: dict(_totals_by_key(groups, declared)) for name, groups in discovered.items()}
    keys = sorted({key for totals in totals_by_population.values() for key in totals}, key=repr)
    width = sum(measure.coordinates for measure in reading.bounded.noisy_measures)
    zeros = np.zeros((declared, width), np.int64)
    empty = np.zeros((0, width), np.int64)
    return {
        name: np.vstack([empty, *(totals.get(key, zeros) for key in keys)])
        for name, totals in totals_by_population.items()
    }


def _totals_by_key(discovered: DiscoveredGroups, declared: int) -> Iterator[tuple[GroupKey, Any]]:
    group_index = np.arange(len(discovered.holders))
    totals = discovered.totals_for(group_index, declared).reshape(len(group_index), declared, -1)
    yield from zip(discovered.key_values(group_index), totals, strict=True)


def _claim_ratios(first: Any, second: Any, claim: Sensitivity) -> dict[str, float]:
    """Return the ratio of the change to the claim, by the name of each norm."""
    changes = [abs(x - y) for x, y in zip(first.ravel().tolist(), second.ravel().tolist(), strict=True)]
    return {
        _L1_NORM: _ratio(sum(changes), claim.l1),
        "the squares of changes": _ratio(sum(change * change for change in changes), claim.squares),
        "the largest change": _ratio(max(changes, default=0), claim.linf),
        "the groups that change": _excess_ratio(sum(change > 0 for change in changes), claim.l0),
    }


def _excess_ratio(observed: int, claimed: int) -> float:
    """Return the ratio only if above 1: changing every allowed group is expected."""
    return observed / claimed if observed > claimed else 0.0


def _ratio(observed: int, claimed: Fraction) -> float:
    """Return the ratio, above 1 exactly when the claim is exceeded, however little."""
    if observed <= claimed:
        return min(1.0, float(observed / claimed)) if claimed else 0.0
    return max(1.0 + 1e-9, float(observed / claimed)) if claimed else float("inf")
