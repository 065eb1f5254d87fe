"""What was drawn, put together by hand: one asked number for each scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.plan.aggregates.measures import Estimator
from sfumato.release.measured import NoisyMeasurements, ResultEstimator
from sfumato.release.parts.scales import ONE_GROUP, GroupKeys, NoisyScale


def stored(
    parts: Sequence[tuple[Any, Any, Estimator]], columns: Sequence[Sequence[int]], keys: GroupKeys = ONE_GROUP
) -> NoisyMeasurements:
    """Numbers of measures, each given as what a step is worth, its noise, and how it is read."""
    coordinates = len(columns) - len(parts) + 1  # all but the last have one
    counts = [1] * (len(parts) - 1) + [coordinates]
    scales = tuple(NoisyScale(step, noise, count) for (step, noise, _), count in zip(parts, counts, strict=True))
    results = tuple(ResultEstimator(estimator, (index,)) for index, (_, _, estimator) in enumerate(parts))
    return NoisyMeasurements(scales, results, tuple(map(tuple, columns)), keys)
