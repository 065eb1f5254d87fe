"""Exact totals of neighbouring tables are read as a release would read them, and compared with what it claims.

This is the strongest test there is of a sensitivity, since no noise hides anything: for each measurement of a release
the change between two neighbours is computed exactly, and each norm of it is divided by the norm that the noise was
made for. A share above 1 refutes the claim, and a share of 1 shows that the claim is tight, so that a smaller one would
have been refuted. The rows are invented, so they may be read; the owner's are never opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.audit.invented_tables import InventedPopulation
from sfumato.curator import Question
from sfumato.engine.seam import Engine
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.total_readings import Found, FoundTotals
from sfumato.privacy import Sensitivity
from sfumato.release.measurement import Measurement
from sfumato.release.preparing import Prepared

_KEY = 7
"""Decides which rows samples keep: the same in all tables, since for every key the claim has to hold."""
_SUM = "the sum of changes"

Pair = tuple[InventedPopulation, InventedPopulation]


@dataclass(frozen=True)
class Replayed:
    """This is what one unit changed at most, as a share of what was claimed."""

    share: float
    """The largest share of a claim, over all norms, measurements and pairs; above 1 the claim is refuted."""
    norm: str
    where: Pair | None
    """The neighbours between which that share was reached."""
    telling: Pair | None
    """The neighbours whose totals are furthest apart, all changes added up as shares of their claims: those that an
    attacker would choose."""
    compared: int
    """How many pairs of totals were compared; none where a question only chooses."""

    @property
    def holds(self) -> bool:
        return self.share <= 1


@dataclass(frozen=True)
class Recorded:
    """This is what one measurement is made on, exactly, in every population."""

    measurement: Measurement
    exact: Mapping[str, Any]
    """By the name of the population, whole numbers."""
    claim: Sensitivity
    """What the noise is made for."""


def replayed(recorded: Sequence[Recorded], pairs: Sequence[Pair]) -> Replayed:
    """Compare what was recorded of all neighbours."""
    reached, furthest = Replayed(0.0, "", None, None, 0), 0.0
    for pair in pairs:
        first, second = (each.name for each in pair)
        found = [_shares(each.exact[first], each.exact[second], each.claim) for each in recorded]
        for shares in found:
            norm = max(shares, key=lambda each: shares[each])
            if shares[norm] > reached.share:
                reached = replace(reached, share=shares[norm], norm=norm, where=pair)
        if (apart := sum(each[_SUM] for each in found)) > furthest:
            reached, furthest = replace(reached, telling=pair), apart
    return replace(reached, compared=len(recorded) * len(pairs))


def record(question: Question, prepared: Prepared, engines: Mapping[str, Engine]) -> tuple[Recorded, ...]:
    """Read what every measurement with noise is made on; ``engines`` reads each population, by its name."""
    found: list[Recorded] = []
    for part, measured in zip(prepared.parts, prepared.measured, strict=True):
        noised = [each for each in measured if each.sensitivity is not None]
        if not noised:
            continue
        if question.found and part is prepared.totals:
            reading = FoundTotals(prepared.bounded, question.found, question.groups)
            exact = _side_by_side({name: engine.read(reading, _KEY) for name, engine in engines.items()}, reading)
        elif question.found:
            continue
        else:
            exact = {name: engine.read(part.reading(question.groups), _KEY) for name, engine in engines.items()}
        for each in noised:
            claim = each.sensitivity
            assert claim is not None
            found.append(Recorded(each, {name: each.reading.of(own) for name, own in exact.items()}, claim))
    return tuple(found)


def _side_by_side(found: Mapping[str, Found], reading: FoundTotals) -> dict[str, Any]:
    """Give the totals of every key that any population has, in one order; zeros where one has no such key."""
    declared = len(reading.declared)
    own = {name: dict(_rows(each, declared)) for name, each in found.items()}
    keys = sorted({key for each in own.values() for key in each}, key=repr)
    width = sum(each.coordinates for each in reading.bounded.noised)
    nothing = np.zeros((declared, width), np.int64)
    empty = np.zeros((0, width), np.int64)
    return {name: np.vstack([empty, *(each.get(key, nothing) for key in keys)]) for name, each in own.items()}


def _rows(found: Found, declared: int) -> Iterator[tuple[GroupKey, Any]]:
    places = np.arange(len(found.holders))
    totals = found.of(places, declared).reshape(len(places), declared, -1)
    yield from zip(found.named(places), totals, strict=True)


def _shares(first: Any, second: Any, claim: Sensitivity) -> dict[str, float]:
    """Give by the name of each norm what share of it a change reaches."""
    moved = [abs(x - y) for x, y in zip(first.ravel().tolist(), second.ravel().tolist(), strict=True)]
    return {
        _SUM: _ratio(sum(moved), claim.l1),
        "the squares of changes": _ratio(sum(each * each for each in moved), claim.squares),
        "the largest change": _ratio(max(moved, default=0), claim.linf),
        "the groups that change": _beyond(sum(each > 0 for each in moved), claim.l0),
    }


def _beyond(seen: int, claimed: int) -> float:
    """Give a share only where it is above 1: that all groups change which may is no news."""
    return seen / claimed if seen > claimed else 0.0


def _ratio(seen: int, claimed: Fraction) -> float:
    """Divide so that the result is above 1 exactly when the claim is exceeded, however little."""
    if seen <= claimed:
        return min(1.0, float(seen / claimed)) if claimed else 0.0
    return max(1.0 + 1e-9, float(seen / claimed)) if claimed else float("inf")
