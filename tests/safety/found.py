"""Groups that are found in the data, side by side for several tables, so that they can be compared like known ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sfumato.curator.proposals.questions import Question
from sfumato.engine.protocols import Engine
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.nodes import GroupValues
from sfumato.plan.readings.total_readings import DiscoveredGroups, DiscoveredTotals

Rows = dict[GroupValues, list[tuple[int, ...]]]
"""For each key, its totals for each of the declared values of the others; who holds it comes last, once."""


def reading(asked: Question, bounded: BoundedPlan) -> DiscoveredTotals:
    return DiscoveredTotals(bounded, asked.discovered_keys, asked.groups)


def rows(found: DiscoveredGroups, declared: int) -> Rows:
    places = np.arange(len(found.holders))
    totals = found.totals_for(places, declared).reshape(len(places), declared, found.totals.shape[1]).tolist()
    return {
        key: [(*each, int(holders) if index == 0 else 0) for index, each in enumerate(own)]
        for key, own, holders in zip(found.key_values(places), totals, found.holders, strict=True)
    }


def side_by_side(tables: Mapping[str, Engine], asked: DiscoveredTotals, key: int) -> dict[str, list[tuple[int, ...]]]:
    """The totals of every key that any of the tables has, in one order; zeros where a table has no such key."""
    found = {name: rows(engine.read(asked, key), len(asked.declared_groups)) for name, engine in tables.items()}
    keys = sorted({each for own in found.values() for each in own}, key=repr)
    width = sum(each.coordinates for each in asked.bounded.measures)
    nothing = [(0,) * width] * len(asked.declared_groups)
    return {name: [row for each in keys for row in own.get(each, nothing)] for name, own in found.items()}
