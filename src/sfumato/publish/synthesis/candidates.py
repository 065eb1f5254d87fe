"""Candidates are all sets of columns within the workload, weighed by how much of it they share; what would make the
model too large is left out.

Which are left out follows from the policy, from which sets were measured and from the share of the price that is spent:
all of it is public or released (McKenna, Mullins, Sheldon & Miklau 2022, "AIM", section 4.2).

Every step of a synthesis measures one marginal, or chooses one set of columns among the candidates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.plan.readings.cell_rows import MOST_WEIGHT
from sfumato.plan.readings.total_readings import Integers
from sfumato.privacy import codec
from sfumato.publish.graph.models import GraphModel
from sfumato.publish.graph.trees import predicted_cells
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.marginals.measuring import packed, unpacked
from sfumato.publish.tab_steps import Choice, ChooseStep, MeasureStep

Places = NDArray[np.intp]

BYTES_PER_CELL = 1 << 12
"""A model has at most one cell for so many bytes that are allowed: it is fitted, and asked for hundreds of marginals,
in every round."""


def closure(workload: Mapping[Set, Fraction]) -> dict[Set, int]:
    """List every set within one of the workload with its weight, Σ of the weights times the columns that are shared, as
    whole numbers; small sets come first.
    """
    per_column: dict[int, Fraction] = {}
    for each, weight in workload.items():
        for place in each:
            per_column[place] = per_column.get(place, Fraction(0)) + weight
    return whole_weights(
        {each: sum((per_column[place] for place in each), start=Fraction(0)) for each in within(workload)}
    )


def sets_within(workload: Iterable[Set]) -> list[Places]:
    """List every set within one of these as rows of places, one array for each number of columns; the sets and their
    order are those of ``closure``, without weights.
    """
    by_size: dict[int, list[Set]] = {}
    for each in workload:
        by_size.setdefault(len(each), []).append(each)
    flat = {size: itertools.chain.from_iterable(sets) for size, sets in by_size.items()}
    largest = [np.fromiter(places, np.intp).reshape(-1, size) for size, places in flat.items() if size]
    most = max(by_size, default=0)
    return [_subsets(largest, count) for count in range(1, most + 1)]


def _subsets(largest: Sequence[Places], count: int) -> Places:
    """List the different subsets of so many columns, in order."""
    picked = [
        sets[:, picks]
        for sets in largest
        if sets.shape[1] >= count
        for picks in map(list, itertools.combinations(range(sets.shape[1]), count))
    ]
    rows = np.concatenate(picked)
    columns = int(rows.max()) + 1
    if columns**count >= 1 << 62:
        return np.unique(rows, axis=0)
    radix = columns ** np.arange(count)[::-1]
    return np.asarray(np.unique(rows @ radix)[:, None] // radix % columns)


def within(workload: Mapping[Set, Fraction]) -> dict[Set, Fraction]:
    """List every set within one of the workload with the weight of the heaviest it is in; small sets come first."""
    found: dict[Set, Fraction] = {}
    for each, weight in workload.items():
        for count in range(1, len(each) + 1):
            for part in itertools.combinations(each, count):
                found[part] = max(weight, found.get(part, weight))
    return {each: found[each] for each in sorted(found, key=lambda each: (len(each), each))}


def whole_weights(exact: Mapping[Set, Fraction]) -> dict[Set, int]:
    """Write weights as whole numbers: exactly where these are small, else as near as a millionth of the largest."""
    common = math.lcm(*(each.denominator for each in exact.values()))
    scaled = {each: int(weight * common) for each, weight in exact.items()}
    shared = math.gcd(*scaled.values())
    if max(scaled.values()) <= MOST_WEIGHT * shared:
        return {each: weight // shared for each, weight in scaled.items()}
    most = max(scaled.values())
    return {each: max(1, weight * MOST_WEIGHT // most) for each, weight in scaled.items()}


def affordable(candidates: Iterable[Set], model: GraphModel, measured: Sequence[Set], most_cells: float) -> list[Set]:
    """Keep the candidates with which the model has at most so many cells, beside those of its columns; what is within
    a clique already makes it no larger.
    """
    sizes, cliques = model.sizes, [set(each) for each in model.tree.cliques]
    most = sum(sizes) + most_cells
    return [
        each
        for each in candidates
        if any(clique.issuperset(each) for clique in cliques)
        or (math.prod(sizes[place] for place in each) <= most and predicted_cells((*measured, each), sizes) <= most)
    ]


@codec.value("noisy-cells")
@dataclass(frozen=True)
class NoisyCells:
    """These are the noisy counts of one marginal, in whole steps, as one step released them."""

    values: str
    """64-bit whole numbers, the lowest byte first, in base64."""

    def __post_init__(self) -> None:
        codec.check_fields(self)

    @classmethod
    def of(cls, counts: Integers) -> NoisyCells:
        return cls(packed(counts))

    @property
    def counts(self) -> Integers:
        return unpacked(self.values)


Step = MeasureStep[NoisyCells] | ChooseStep
Outcome = NoisyCells | Choice
