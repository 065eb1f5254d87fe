"""Every way a choice by rank can go, with its exact probability: the release is run once for each."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from sfumato.mechanisms import rank_choices

Law = dict[tuple[int, ...], float]


def law(run: Callable[[], list[int]]) -> Law:
    """P of everything that a run may give: each choice takes each of its numbers in turn."""
    found: Law = {}
    path: list[int] = []
    while True:
        chance, many = [1.0], []

        def chosen(
            runs: rank_choices.ValueRuns, chance: list[float] = chance, many: list[int] = many
        ) -> tuple[object, ...]:
            taken = [_one(runs.of_group(index), path, chance, many) for index in range(runs.covered.size)]
            return tuple(np.array(each) for each in zip(*taken, strict=True))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rank_choices.ValueRuns, "choose_numbers", chosen)
            result = tuple(run())
        found[result] = found.get(result, 0.0) + chance[0]
        while path and path[-1] + 1 == many[len(path) - 1]:
            path.pop()
        if not path:
            return found
        path[-1] += 1


def _one(runs: rank_choices.ValueRuns, path: list[int], chance: list[float], many: list[int]) -> tuple[int, int, bool]:
    """Take the number that the path says, or the first one; note how likely it is and how many there are."""
    number = [start + k for start, count in zip(runs.starts, runs.multiplicities, strict=True) for k in range(count)]
    run = [index for index, count in enumerate(runs.multiplicities) for _ in range(count)]
    weights = [math.exp(-float(runs.distance[index] * runs.log_weight_per_distance)) for index in run]
    if len(many) == len(path):
        path.append(0)
    taken = path[len(many)]
    many.append(len(number))
    chance[0] *= weights[taken] / sum(weights)
    return int(number[taken]), int(runs.cut[run[taken]]), bool(runs.tied[run[taken]])
