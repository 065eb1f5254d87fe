"""A model is fitted to noisy marginals by mirror descent on its potentials.

Sought is the table of counts p ≥ 0 with a given total that minimises L(p) = Σ_t ‖M_t p − y_t‖² / 2σ_t² over all
combinations of cells; M_t adds up to the places that y_t was measured of. A step of mirror descent with the entropy as
its mirror adds −η·(M_t p − y_t)/σ_t² to the potential of each t, so that p stays a graphical model on the junction tree
of the measured sets, and no more than its cliques is ever computed (McKenna, Sheldon & Miklau 2019, "Graphical-model
based estimation and inference for differential privacy"). Of all best tables the one with the largest entropy is found.
Cells that are declared impossible are potentials of -∞: they stay 0 in every step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.publish.graph.calibrating import Propagation
from sfumato.publish.graph.models import GraphModel, Potential
from sfumato.publish.graph.tables import Floats, arranged, laid_out, shape_of, summed
from sfumato.publish.graph.trees import JunctionTree, Set, Sizes, checked_places

Zeros = tuple[Sequence[int], NDArray[np.bool_]]
"""Places, and for each combination of their cells whether it is impossible."""


@dataclass(frozen=True, eq=False)
class Observation:
    """This is a noisy marginal, in rows."""

    places: Set
    values: Floats
    """Its axes are in the order of the places."""
    deviation: float
    """The standard deviation of the noise of each number."""


def fitted(
    observations: Iterable[Observation],
    sizes: Sequence[int],
    total: float,
    *,
    zeros: Iterable[Zeros] = (),
    start: GraphModel | None = None,
    tolerance: float = 1e-3,
    most_rounds: int = 1000,
) -> GraphModel:
    """Find the model with this total that is nearest to what was observed; a total below one row counts as one.

    It starts from the potentials of another model where one is given, whatever tree that had. It ends where a round
    lowers the loss by less than this part of it.
    """
    own = tuple(sizes)
    targets = _targets(observations, own)
    logs = _starting_logs(targets, zeros, start, own)
    tree = JunctionTree.of(logs, own)
    descent = _Descent(tree, own, targets, tuple(logs), max(float(total), 1.0))
    best = descent.run(list(logs.values()), tolerance, most_rounds)
    rising = [tuple(sorted(each)) for each in logs]
    potentials = (Potential(to, arranged(each, of, to)) for of, to, each in zip(logs, rising, best, strict=True))
    return GraphModel(own, tree, tuple(potentials), descent.total)


@dataclass(frozen=True, eq=False)
class _Target:
    """This is what was observed of one set in all: the mean by precisions, and the sum of these."""

    mean: Floats
    precision: float


def _targets(observations: Iterable[Observation], sizes: Sizes) -> dict[Set, _Target]:
    found: dict[Set, _Target] = {}
    for each in observations:
        values = np.asarray(each.values, float)
        places = checked_places(each.places, len(sizes), "places")
        if values.shape != shape_of(places, sizes) or not np.isfinite(values).all():
            raise InvalidParameter("values", values.shape, f"numbers in a table of {shape_of(places, sizes)} cells")
        if not 0 < each.deviation < math.inf:
            raise InvalidParameter("deviation", each.deviation, "a number above 0")
        own = laid_out(places, sizes)
        new, precision = arranged(values, places, own), float(each.deviation) ** -2
        known = found.get(own, _Target(new, 0.0))
        weight = precision / (known.precision + precision)
        found[own] = _Target(known.mean + weight * (new - known.mean), known.precision + precision)
    return found


def _starting_logs(
    targets: dict[Set, _Target], zeros: Iterable[Zeros], start: GraphModel | None, sizes: Sizes
) -> dict[Set, Floats]:
    """Give each set a potential: the one it starts from, or an even one; and -∞ for what is impossible."""
    found = {places: np.zeros(shape_of(places, sizes)) for places in targets}
    for potential in start.potentials if start is not None else ():
        own = laid_out(potential.places, sizes)
        found[own] = found.get(own, 0.0) + arranged(potential.logs, potential.places, own)
    for places, impossible in zeros:
        named, cells = checked_places(tuple(places), len(sizes), "zeros"), np.asarray(impossible, bool)
        if cells.shape != shape_of(named, sizes):
            raise InvalidParameter("zeros", cells.shape, f"a table of {shape_of(named, sizes)} cells")
        own = laid_out(named, sizes)
        found[own] = found.get(own, 0.0) + arranged(np.where(cells, -np.inf, 0.0), named, own)
    return found


class _Descent:
    """This is mirror descent on one tree."""

    def __init__(
        self, tree: JunctionTree, sizes: Sizes, targets: dict[Set, _Target], sets: Sequence[Set], total: float
    ):
        self.total = total
        self._propagation = Propagation(tree, sizes, sets)
        self._targets = [targets.get(each) for each in sets]
        self._first_step = 1 / (total * (sum(each.precision for each in targets.values()) or 1.0))

    def run(self, logs: list[Floats], tolerance: float, most_rounds: int) -> list[Floats]:
        """Take steps until a round lowers the loss by less than this part of it."""
        counts = self._counts(logs)
        loss, step = self._loss(counts), self._first_step
        for _ in range(most_rounds):
            slopes = self._slopes(counts)
            found = self._stepped(logs, counts, slopes, loss, step)
            if found is None:
                return logs
            logs, counts, new_loss, step = found
            if loss - new_loss <= tolerance * new_loss:
                return logs
            loss = new_loss
        return logs

    def _stepped(
        self, logs: list[Floats], counts: list[Floats], slopes: list[Floats], loss: float, step: float
    ) -> tuple[list[Floats], list[Floats], float, float] | None:
        for _ in range(40):
            tried = [log - step * slope for log, slope in zip(logs, slopes, strict=True)]
            new = self._counts(tried)
            promised = sum(float(np.vdot(g, a - b)) for g, a, b in zip(slopes, counts, new, strict=True))
            new_loss = self._loss(new)
            if promised > 0 and loss - new_loss >= promised / 2:
                return tried, new, new_loss, 2 * step
            step /= 2
        return None

    def _counts(self, logs: list[Floats]) -> list[Floats]:
        own = self._propagation
        tables = own.run(logs, self.total)
        return [
            _copied_sum(tables[home], own.axes[home], places) if target is not None else np.zeros(())
            for places, home, target in zip(own.sets, own.homes, self._targets, strict=True)
        ]

    def _slopes(self, counts: list[Floats]) -> list[Floats]:
        pairs = zip(counts, self._targets, strict=True)
        return [(own - target.mean) * target.precision if target is not None else np.zeros(()) for own, target in pairs]

    def _loss(self, counts: list[Floats]) -> float:
        pairs = zip(counts, self._targets, strict=True)
        return sum(t.precision * float(np.square(own - t.mean).sum()) / 2 for own, t in pairs if t is not None)


def _copied_sum(table: Floats, places: Set, kept: Set) -> Floats:
    """Add a table up, into numbers of its own: the next round overwrites the table."""
    return table.copy() if places == kept else summed(table, places, kept)
