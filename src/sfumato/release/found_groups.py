"""Here a question is released whose groups are found in the data: which of them may be shown is drawn first.

Theorem (what is read later). What is measured beside totals is read of the groups K that the threshold has shown. Each
of these readings limits a unit by its own rows, with a fresh key, before it looks at K. So for every fixed K a unit
changes what is read of K by no more than the bounding of all groups proves, whether the data hold the keys of K or not;
and K is known from what was released before. The release is an adaptive composition (Dwork & Roth 2014, Thm 3.16): its
curve is that of the threshold, the noise and the choices together, under either relation of neighbours. ∎
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.mechanisms import KeyThreshold
from sfumato.plan.keys import MOST_GROUPS, sorting
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.total_readings import FoundTotals, GroupTotals, Integers, Places, PlanReading
from sfumato.plan.sharing import Made
from sfumato.policy import Value
from sfumato.privacy.numbers import Number
from sfumato.release.measured import MOST_NUMBERS, Measured, drawn, good_enough, rehearsed, with_noise
from sfumato.release.measurement import Batch
from sfumato.release.parts.question_parts import OtherPart
from sfumato.release.preparing import Prepared
from sfumato.release.releasing import Read

_MOST_LETTERS = 10**8
"""Of all keys that an answer shows."""


@dataclass(frozen=True)
class FoundGroups:
    """Keys are selected by how many units hold them, then there is noise on the totals of these. Each draws randomness
    of its own: a count of units that is shown tells nothing of the count by which its key was selected.

    As many keys are shown as an answer can have, the first by value. That is decided from what was selected alone, so
    it costs nothing, and no number of keys in the data makes a release fail. Up to the selection there are at most as
    many keys as rows that count.
    """

    prepared: Prepared
    made: tuple[Made, ...]
    reading: FoundTotals
    version: str
    """The version of the data, as readers are told."""

    @property
    def batch(self) -> Batch:
        return self.prepared.batch

    @property
    def readings(self) -> tuple[PlanReading[Any], ...]:
        """Other parts are read of the groups that are shown; how many they are changes no statement."""
        return (self.reading, *(each.reading(()) for each in self.prepared.others))

    @property
    def good_enough(self) -> dict[str, Number]:
        """A stored answer is as good as this one if it shows groups that are as small too."""
        return {"keys": int(self._threshold.error()), **good_enough(self.prepared)}

    def draw(self, read: Read) -> Measured:
        found, (choice,) = read(self.reading), self.prepared.chosen
        kept = np.flatnonzero(choice.draw(choice.reading.of(found.holders)))
        names = found.named(kept)
        order = sorted(range(len(names)), key=lambda place: sorting(names[place]))[: self._most]
        totals = found.of(kept[order], len(self.reading.declared))
        groups, places = crossed([names[place] for place in order], self.reading)

        def known(reading: PlanReading[Any]) -> Any:
            return totals[places] if isinstance(reading, GroupTotals) else read(reading)

        return self._shown(drawn(self.prepared, tuple(groups), known), groups)

    def rehearsal(self) -> Measured:
        """Try what becomes of totals at the ends of what they can be, in a group whose keys are missing."""
        numbers = rehearsed(self.prepared)
        return self._shown(numbers, [(None,) * len(self.batch.bounded.plan.keys)] * len(numbers))

    def _shown(self, numbers: Integers, groups: Sequence[GroupKey]) -> Measured:
        found = with_noise(self.prepared, self.made, numbers, groups, self.version)
        return replace(found, selection=self._threshold)

    @property
    def _most(self) -> int:
        return most_keys(self.reading, self.prepared.others)

    @property
    def _threshold(self) -> KeyThreshold:
        assert self.prepared.selection is not None
        return self.prepared.selection


def most_keys(reading: FoundTotals, beside: Sequence[OtherPart] = ()) -> int:
    """Count the most keys that an answer shows, from the policy alone: so that it can be written down, and what is
    measured ``beside`` totals can be held.
    """
    plan, others = reading.bounded.plan, len(reading.declared)
    numbers = max(1, len(reading.bounded.noised) + sum(each.cells for each in beside))
    letters = max(1, sum(plan.keys[index].domain.letters for index in reading.found))
    return max(1, min(MOST_GROUPS // others, MOST_NUMBERS // (numbers * others), _MOST_LETTERS // letters))


def crossed(keys: Sequence[GroupKey], reading: FoundTotals) -> tuple[list[GroupKey], Places]:
    """Cross every key with all declared values of the others, ordered by the columns as they are grouped by (by value,
    or as they are declared), and give the place that each has when they are taken key by key.
    """
    columns: dict[int, tuple[Sequence[Value | None], Places]] = {}
    for number, index in enumerate(reading.found):
        values = [key[number] for key in keys]
        ordered = [value for (value,) in sorted(((value,) for value in set(values)), key=sorting)]
        columns[index] = ordered, np.repeat(_codes(values, ordered), len(reading.declared))
    for number, index in enumerate(reading.others):
        values = [key[number] for key in reading.declared]
        ordered = list(dict.fromkeys(values))
        columns[index] = ordered, np.tile(_codes(values, ordered), len(keys))
    in_order = [columns[index] for index in sorted(columns)]
    places = np.lexsort([codes for _, codes in reversed(in_order)])
    listed = [map(ordered.__getitem__, codes[places].tolist()) for ordered, codes in in_order]
    return list(zip(*listed, strict=True)), places


def _codes(values: Iterable[Value | None], ordered: Sequence[Value | None]) -> Places:
    place = {value: code for code, value in enumerate(ordered)}
    return np.array([place[value] for value in values], np.intp)
