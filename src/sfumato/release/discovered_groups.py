"""Release a question whose groups are discovered in the data: the groups to release are selected first.

Theorem (later readings). The parts beside totals are read for the groups K that passed the threshold. Each of these
readings limits a unit by its own rows, with a fresh sampling key, before it looks at K. So for every fixed K a unit
changes the reading of K by no more than the bounding of all groups proves, whether the data hold the keys of K or not;
and K is known from what was released before. The release is an adaptive composition (Dwork & Roth 2014, Thm B.1; as
curves: Zhu, Dong & Wang 2022, Thm 10): its curve is that of the threshold, the noise and the choices together, under
either relation of neighbours. ∎
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.array_types import Indices, Integers
from sfumato.mechanisms import KeyThreshold
from sfumato.plan.keys import MAX_GROUPS, group_sort_key
from sfumato.plan.nodes import GroupValues
from sfumato.plan.readings.total_readings import DiscoveredTotals, GroupTotals, PlanReading
from sfumato.plan.sharing import MeasuredRequest
from sfumato.policy import Value
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass
from sfumato.release.measured import (
    MAX_NUMBERS,
    NoisyMeasurements,
    accuracy_for_reuse,
    draw_noisy_numbers,
    noisy_measurements,
    numbers_at_extreme_totals,
)
from sfumato.release.measurement import Batch
from sfumato.release.parts.shares import OtherPart
from sfumato.release.pricing import PricedRelease
from sfumato.release.releasing import Read

_MAX_KEY_LETTERS = 10**8
"""The most letters of all keys of an answer together."""


@dataclass(frozen=True)
class DiscoveredGroupsRelease:
    """A release that selects keys by how many units hold them, then adds noise to the totals of the selected keys.

    The two steps draw independent randomness: a released count of units tells nothing about the noisy count by which
    its key was selected. An answer holds the first selected keys by value, as many as fit. That truncation is
    post-processing of the selection, so it is free, and no number of keys in the data makes a release fail. Before the
    selection there are at most as many keys as counted rows.
    """

    prepared: PricedRelease
    requests: tuple[MeasuredRequest, ...]
    reading: DiscoveredTotals
    version: str
    """The version of the data as it is shown to readers."""

    @property
    def batch(self) -> Batch:
        return self.prepared.batch

    @property
    def readings(self) -> tuple[PlanReading[Any], ...]:
        """The totals, and the other parts for no groups: the number of selected groups changes no statement."""
        return (self.reading, *(part.reading(()) for part in self.prepared.others))

    @property
    def accuracy_for_reuse(self) -> dict[str, Number]:
        """The accuracy of every number, and the error of the key threshold: a stored answer must release groups as
        small.
        """
        return {"keys": int(self._threshold.error()), **accuracy_for_reuse(self.prepared)}

    def draw(self, read: Read) -> NoisyMeasurements:
        discovered, (selection,) = read(self.reading), self.prepared.group_selection
        selected = np.flatnonzero(selection.draw(selection.reading.extract(discovered.holders)))
        keys = discovered.key_values(selected)
        order = sorted(range(len(keys)), key=lambda index: group_sort_key(keys[index]))[: self._max_keys]
        totals = discovered.totals_for(selected[order], len(self.reading.declared_groups))
        groups, group_order = cross_with_declared_values([keys[index] for index in order], self.reading)

        def read_selected(reading: PlanReading[Any]) -> Any:
            return totals[group_order] if isinstance(reading, GroupTotals) else read(reading)

        return self._noisy_measurements(draw_noisy_numbers(self.prepared, tuple(groups), read_selected), groups)

    def result_at_extreme_totals(self) -> NoisyMeasurements:
        """Return the result for totals at the ends of their ranges, in a group whose keys are NULL."""
        numbers = numbers_at_extreme_totals(self.prepared)
        return self._noisy_measurements(numbers, [(None,) * len(self.batch.bounded.plan.keys)] * len(numbers))

    def _noisy_measurements(self, numbers: Integers, groups: Sequence[GroupValues]) -> NoisyMeasurements:
        measured = noisy_measurements(self.prepared, self.requests, numbers, groups, self.version)
        return replace(measured, selection=self._threshold)

    @property
    def _max_keys(self) -> int:
        return max_keys_in_answer(self.reading, self.prepared.others)

    @property
    def _threshold(self) -> KeyThreshold:
        assert self.prepared.selection is not None
        return self.prepared.selection


def max_keys_in_answer(reading: DiscoveredTotals, other_parts: Sequence[OtherPart] = ()) -> int:
    """Return the most keys that an answer may have, from the policy alone: it must fit its ledger line, and the cells
    of the parts ``other_parts`` totals must fit in memory.
    """
    plan, others = reading.bounded.plan, len(reading.declared_groups)
    numbers = max(1, len(reading.bounded.noisy_measures) + sum(part.numbers_per_group for part in other_parts))
    letters = max(1, sum(plan.keys[index].domain.max_letters for index in reading.discovered_keys))
    return max(1, min(MAX_GROUPS // others, MAX_NUMBERS // (numbers * others), _MAX_KEY_LETTERS // letters))


def cross_with_declared_values(
    keys: Sequence[GroupValues], reading: DiscoveredTotals
) -> tuple[list[GroupValues], Indices]:
    """Cross every key with all declared values of the other columns, sorted by the columns in GROUP BY order (by value,
    or as declared); return the groups, and for each its position in key-by-key order.
    """
    columns: dict[int, tuple[Sequence[Value | None], Indices]] = {}
    for number, index in enumerate(reading.discovered_keys):
        values = [key[number] for key in keys]
        ordered = [value for (value,) in sorted(((value,) for value in set(values)), key=group_sort_key)]
        columns[index] = ordered, np.repeat(_positions_in_order(values, ordered), len(reading.declared_groups))
    for number, index in enumerate(reading.declared_keys):
        values = [key[number] for key in reading.declared_groups]
        ordered = list(dict.fromkeys(values))
        columns[index] = ordered, np.tile(_positions_in_order(values, ordered), len(keys))
    sorted_columns = [columns[index] for index in sorted(columns)]
    group_order = np.lexsort([codes for _, codes in reversed(sorted_columns)])
    column_values = [map(ordered.__getitem__, codes[group_order].tolist()) for ordered, codes in sorted_columns]
    return list(zip(*column_values, strict=True)), group_order


def _positions_in_order(values: Iterable[Value | None], ordered: Sequence[Value | None]) -> Indices:
    code_by_value = {value: code for code, value in enumerate(ordered)}
    return np.array([code_by_value[value] for value in values], np.intp)
