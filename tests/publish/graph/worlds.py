"""Small models with their whole joint tables, which the tests of graphs compare with."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from sfumato.array_types import Floats
from sfumato.publish.graph.models import GraphicalModel, Potential


def joint(model: GraphicalModel) -> Floats:
    """The counts of all combinations, computed as they are defined."""
    logs = np.zeros(model.sizes)
    for each in model.potentials:
        order = np.argsort(each.attribute_set)
        shape = [size if place in each.attribute_set else 1 for place, size in enumerate(model.sizes)]
        logs = logs + each.logs.transpose(order).reshape(shape)
    counts = np.exp(logs - logs.max())
    return counts * (model.total / counts.sum())


def added_up(counts: Floats, places: Sequence[int]) -> Floats:
    """A marginal of a whole table, with axes in the order of the places."""
    left = tuple(place for place in range(counts.ndim) if place not in places)
    rising = sorted(places)
    return counts.sum(axis=left).transpose([rising.index(place) for place in places])


def subsets(count: int, most: int) -> list[tuple[int, ...]]:
    return [each for size in range(most + 1) for each in itertools.combinations(range(count), size)]


def random_model(
    sizes: Sequence[int], sets: Sequence[Sequence[int]], seed: int, scale: float = 1.0, total: float = 100.0
) -> GraphicalModel:
    draw = np.random.default_rng(seed)
    potentials = [Potential(tuple(each), scale * draw.normal(size=[sizes[place] for place in each])) for each in sets]
    return GraphicalModel.from_potentials(tuple(sizes), potentials, total)


@st.composite
def sizes_and_sets(draw: st.DrawFn, most: int = 6, largest: int = 4) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    sizes = draw(st.lists(st.integers(1, largest), min_size=1, max_size=most))
    one_set = st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=3, unique=True).map(tuple)
    return tuple(sizes), draw(st.lists(one_set, max_size=7))
