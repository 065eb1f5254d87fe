"""Fit a graphical model to noisy marginals by mirror descent on its potentials.

Sought is the table of counts p ≥ 0 with a given total that minimises L(p) = Σ_t ‖M_t p − y_t‖² / 2σ_t² over all
combinations of cells; M_t adds up to the attributes that y_t was measured of. A step of mirror descent with the entropy
as its mirror adds −η·(M_t p − y_t)/σ_t² to the potential of each t, so that p stays a graphical model on the junction
tree of the measured sets, and no more than its cliques is ever computed (McKenna, Sheldon & Miklau 2019,
"Graphical-model based estimation and inference for differential privacy"). Among all minimisers the one of largest
entropy is found.
Cells that are declared impossible are potentials of -∞: they stay 0 in every step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.publish.graph.models import GraphicalModel, Potential, PropagationSchedule
from sfumato.publish.graph.trees import (
    AttributeSet,
    JunctionTree,
    Sizes,
    canonical_order,
    parse_attribute_indices,
    table_shape,
    transpose_to,
)
from sfumato.quick_dataclass import dataclass

_FIRST_STEP = 30.0
"""The first step length, in multiples of one that is certainly short enough."""
_FIRST_GROWTH, _LATER_GROWTH = 1.5, 1.05
"""The growth of the step length after a step that lowered the loss: before the first failed step, and after it."""
_IN_A_ROW = 5
"""The number of steps over which the decrease of the loss is judged."""
Zeros = tuple[Sequence[int], NDArray[np.bool_]]
"""Places, and for each combination of their cells whether it is impossible."""


@dataclass(frozen=True, eq=False)
class Observation:
    """A noisy marginal, in rows."""

    attribute_set: AttributeSet
    values: Floats
    """Axes are in the order of the attributes."""
    deviation: float
    """The standard deviation of the noise of each number."""


def fit_model(
    observations: Iterable[Observation],
    sizes: Sequence[int],
    total: float,
    *,
    zeros: Iterable[Zeros] = (),
    start: GraphicalModel | None = None,
    tolerance: float = 1e-3,
    max_rounds: int = 1000,
) -> GraphicalModel:
    """Fit the model with this total to the observations; a total below one row counts as one.

    It starts from the potentials of ``start`` if given, whatever its tree. It ends when a round lowers the loss by less
    than this share of it.
    """
    if not math.isfinite(total):
        raise InvalidParameter("total", total, "a finite number")
    attribute_sizes, rows = tuple(sizes), max(float(total), 1.0)
    targets = _combined_observations(observations, attribute_sizes, rows)
    logs = _starting_logs(targets, zeros, start, attribute_sizes)
    tree = JunctionTree.for_sets(logs, attribute_sizes)
    descent = _Descent(PropagationSchedule(tree, attribute_sizes, tuple(logs)), targets, tuple(logs.values()), rows)
    fitted_logs = descent.descend(tolerance, max_rounds)
    sorted_sets = [tuple(sorted(attribute_set)) for attribute_set in logs]
    potentials = (
        Potential(attribute_set, transpose_to(potential_logs, ordered_indices, attribute_set))
        for ordered_indices, attribute_set, potential_logs in zip(logs, sorted_sets, fitted_logs, strict=True)
    )
    return GraphicalModel(attribute_sizes, tree, tuple(potentials), descent.total)


def require_some_possible_cell(zeros: Iterable[Zeros], sizes: Sequence[int]) -> None:
    """Raise for impossible cells that leave no combination possible. It needs no measurement."""
    fit_model((), sizes, 1.0, zeros=zeros)


@dataclass(frozen=True, eq=False)
class _CombinedObservation:
    """The combined observation of one set: the mean weighted by precision, and the summed precision."""

    mean: Floats
    precision: float


def _combined_observations(
    observations: Iterable[Observation], sizes: Sizes, total: float
) -> dict[AttributeSet, _CombinedObservation]:
    """Combine observations of equal sets, and shift each evenly to the total: that moves no minimum."""
    targets: dict[AttributeSet, _CombinedObservation] = {}
    for observation in observations:
        values = np.asarray(observation.values, float)
        attribute_set = parse_attribute_indices(tuple(observation.attribute_set), len(sizes), "attribute_set")
        if values.shape != table_shape(attribute_set, sizes) or not np.isfinite(values).all():
            raise InvalidParameter(
                "values",
                ValueWords(f"an array of shape {values.shape}, or one with other numbers"),
                f"finite numbers in an array of shape {table_shape(attribute_set, sizes)}",
            )
        if not 0 < observation.deviation < math.inf:
            raise InvalidParameter("deviation", observation.deviation, "a number above 0")
        ordered_indices = canonical_order(attribute_set, sizes)
        observed = transpose_to(values + (total - values.sum()) / values.size, attribute_set, ordered_indices)
        precision = observation.deviation**-2
        target = targets.get(ordered_indices, _CombinedObservation(observed, 0.0))
        weight = precision / (target.precision + precision)
        targets[ordered_indices] = _CombinedObservation(
            target.mean + weight * (observed - target.mean), target.precision + precision
        )
    return targets


def _starting_logs(
    targets: dict[AttributeSet, _CombinedObservation],
    zeros: Iterable[Zeros],
    start: GraphicalModel | None,
    sizes: Sizes,
) -> dict[AttributeSet, Floats]:
    """Return the initial potential of each set: that of the starting model, corrected where a set is new to it, or an
    even one; and -∞ for what is impossible.

    Without a model to start from, attributes are independent, each with the counts that were observed of it.
    """
    logs = {attribute_set: np.zeros(table_shape(attribute_set, sizes)) for attribute_set in targets}
    for attribute_set, target in targets.items() if start is None else ():
        if len(attribute_set) == 1:
            logs[attribute_set] = np.log(np.maximum(target.mean, target.precision**-0.5 / 2))
    if start is not None:
        logs |= _corrections_of_start(targets, start, sizes)
    for potential in start.potentials if start is not None else ():
        ordered_indices = canonical_order(potential.attribute_set, sizes)
        logs[ordered_indices] = logs.get(ordered_indices, 0.0) + transpose_to(
            potential.logs, potential.attribute_set, ordered_indices
        )
    for zero_indices, impossible in zeros:
        checked_zero_indices = parse_attribute_indices(tuple(zero_indices), len(sizes), "zeros")
        cells = np.asarray(impossible, bool)
        if cells.shape != table_shape(checked_zero_indices, sizes):
            raise InvalidParameter(
                "zeros",
                ValueWords(f"an array of shape {cells.shape}"),
                f"an array of shape {table_shape(checked_zero_indices, sizes)}",
            )
        ordered_indices = canonical_order(checked_zero_indices, sizes)
        logs[ordered_indices] = logs.get(ordered_indices, 0.0) + transpose_to(
            np.where(cells, -np.inf, 0.0), checked_zero_indices, ordered_indices
        )
    return logs


def _corrections_of_start(
    targets: dict[AttributeSet, _CombinedObservation], start: GraphicalModel, sizes: Sizes
) -> dict[AttributeSet, Floats]:
    """Scale the starting model on every set that it has no potential of: a step of iterative proportional fitting, by
    (observed + σ) / (expected + σ), so that cells within the noise hardly move. It saves most of the descent.
    """
    start_sets = {canonical_order(potential.attribute_set, sizes) for potential in start.potentials}
    corrections = {}
    for attribute_set, target in targets.items():
        if attribute_set not in start_sets:
            deviation, sorted_indices = target.precision**-0.5, tuple(sorted(attribute_set))
            expected = transpose_to(start.marginal(sorted_indices), sorted_indices, attribute_set)
            corrections[attribute_set] = np.log(np.maximum(target.mean, 0.0) + deviation) - np.log(expected + deviation)
    return corrections


class _Descent:
    """Accelerated mirror descent on one tree.

    Momentum is added to the potentials (Nesterov 1983) and dropped where the loss would rise (O'Donoghue & Candès
    2015); where it rises without momentum too, the step is halved. A step of 1/(total · Σ 1/σ²) is always short enough,
    as the entropy is 1/total-convex in the sum of absolute values, and that moves the slope of L in a cell by at most
    Σ 1/σ² times as much. Most are far longer.
    """

    def __init__(
        self,
        propagation: PropagationSchedule,
        targets: Mapping[AttributeSet, _CombinedObservation],
        base: tuple[Floats, ...],
        total: float,
    ) -> None:
        self.total, self._base, self._propagation = total, base, propagation
        self._moved = [index for index, attribute_set in enumerate(propagation.sets) if attribute_set in targets]
        set_targets = [targets[propagation.sets[index]] for index in self._moved]
        self._ends = np.cumsum([target.mean.size for target in set_targets], dtype=int)
        self._goal = _concatenate_flat([target.mean for target in set_targets])
        self._precision = np.repeat(
            [target.precision for target in set_targets], [target.mean.size for target in set_targets]
        )
        self._shortest = 1 / (total * (sum(target.precision for target in set_targets) or 1.0))

    def descend(self, tolerance: float, max_rounds: int) -> list[Floats]:
        """Take steps until several in a row have lowered the loss by less than this share of it each."""
        previous = current = np.zeros(len(self._goal))
        counts = self._counts(current)
        losses, step, momentum, growth = [self._loss(counts)], self._shortest * _FIRST_STEP, 1.0, _FIRST_GROWTH
        for _ in range(max_rounds):
            descended = current - step * (counts - self._goal) * self._precision
            next_momentum = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            extrapolated = descended + (momentum - 1) / next_momentum * (descended - previous)
            next_counts = self._counts(extrapolated)
            loss = self._loss(next_counts)
            if loss <= losses[-1]:
                previous, current, counts = descended, extrapolated, next_counts
                momentum, step = next_momentum, step * growth
                losses.append(loss)
                if _has_settled(losses, tolerance):
                    break
            elif momentum > 1:
                previous, momentum, growth = current, 1.0, _LATER_GROWTH
            elif step <= self._shortest:
                break
            else:
                step, growth = step / 2, _LATER_GROWTH
        return self._potential_logs(current)

    def _potential_logs(self, change: Floats) -> list[Floats]:
        logs = list(self._base)
        for index, end in zip(self._moved, self._ends, strict=True):
            base_logs = self._base[index]
            logs[index] = base_logs + change[end - base_logs.size : end].reshape(base_logs.shape)
        return logs

    def _counts(self, change: Floats) -> Floats:
        counts = self._propagation.potential_counts(self._potential_logs(change), self.total)
        return _concatenate_flat([counts[index] for index in self._moved])

    def _loss(self, counts: Floats) -> float:
        # summed in this thread: a BLAS product wakes others above 10,000 numbers, which takes ten times as long
        return float((np.square(counts - self._goal) * self._precision).sum()) / 2


def _has_settled(losses: list[float], tolerance: float) -> bool:
    return len(losses) > _IN_A_ROW and losses[-1 - _IN_A_ROW] - losses[-1] <= _IN_A_ROW * tolerance * losses[-1]


def _concatenate_flat(tables: Sequence[Floats]) -> Floats:
    return np.concatenate([np.empty(0), *(table.reshape(-1) for table in tables)])
