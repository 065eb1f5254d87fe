"""The state of a synthesis of two linked tables: all steps of the parent's model, then those of the child's.

*Theorem.* A unit's rows in both tables give one vector: its parents' counts, of norms at most m, and its children's
counts, of norms at most L, where m and L are the limits of rows of one unit that count. Step t adds noise to a part of
the vector of norm at most Δ_t, and costs Δ_t²/2σ_t² in ρ, or Δ_t/b_t in ε; a choice costs what it did for one table.
The parts are released one after the other, each chosen by what was released before, so costs add up, and all steps
together cost at most the price (adaptive composition: Feldman & Zrnic 2021 for ρ, Rogers et al. 2016 for ε). A replaced
unit takes one such vector away and adds another: every step is charged for that (``plan.bounding``).

What a unit's part is does not depend on anybody else's rows: a child belongs to a parent of the same unit, or is
copied to each unit that owns one; the number of children, and the previous child, are computed from rows of the same
unit. So moving children between the parents of one unit is a change of that one unit. ∎

Linked by the unit, children are counted before any is left out. Linked by a foreign key, the parents and the children
of a unit beyond its limits are left out independently: a parent that counts may have lost its children, and a child its
parent. That costs accuracy, not privacy.

How much of the price each table gets is fixed before a row is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sfumato.publish.graph.fitting import Observation
from sfumato.publish.linked.links import TableLink
from sfumato.publish.marginals.attributes import Attributes, ListedCell
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.marginals.estimating import MeasuredMarginal
from sfumato.publish.synthesis.released import SynthesisRound
from sfumato.publish.synthesis.state import Steps, SynthesisState

Method = Callable[[SynthesisState], Steps]


class LinkedState:
    """What was released of both tables so far."""

    def __init__(self, link: TableLink, parent: SynthesisState, child: SynthesisState) -> None:
        self.link, self.parent, self.child = link, parent, child
        self.parent_steps = 0
        """The number of steps of the parent's model that were released."""

    @property
    def marginals(self) -> list[MeasuredMarginal]:
        return [*self.parent.marginals, *self.child.marginals]

    @property
    def has_model(self) -> bool:
        """Whether children were counted; otherwise there are no tables."""
        return self.child.has_model

    @property
    def rounds(self) -> list[SynthesisRound]:
        return [*self.parent.rounds, *self.child.rounds]

    def finish(self) -> None:
        """Fit the child's model closely."""
        self.child.finish()

    def steps(self, method: Method) -> Steps:
        """Request all steps of the parent, and then those of the child, whose model starts from the parent's."""
        yield from self._count_parent_steps(method(self.parent))
        self.parent.finish()
        self.child.derived_observations = (self._children_by_parent(),)
        yield from method(self.child)

    def _count_parent_steps(self, steps: Steps) -> Steps:
        step = next(steps, None)
        while step is not None:
            outcome = yield step
            self.parent_steps += 1
            try:
                step = steps.send(outcome)
            except StopIteration:
                return

    def _children_by_parent(self) -> Observation:
        """Return how many children the parent's model expects for each combination of given columns.

        This is post-processing: it tells the child's model how the given columns depend on each other.
        """
        link, parent, child = self.link, self.parent.setting.attributes, self.child.setting.attributes
        parent_places = _places(parent, (link.count_column, *link.linked_columns))
        child_places = _places(child, (link.count_column, *map(link.linked_name, link.linked_columns)))
        parents = self.parent.model.marginal(parent_places)
        counts = np.zeros([child[place].size for place in child_places])
        child_cell = {cell: index for index, cell in enumerate(child[child_places[0]].cells)}
        for index, cell in enumerate(parent[parent_places[0]].cells):
            if isinstance(cell, ListedCell) and cell in child_cell:
                counts[child_cell[cell]] = parents[index] * self._mean_children(str(cell.value))
        deviation = min(math.sqrt(marginal.variance) for marginal in self.parent.marginals)
        return Observation(child_places, counts, deviation * self._children_per_parent(counts, parents))

    def _mean_children(self, label: str) -> float:
        band = self.link.band_labels.index(label)
        return self.link.bands[band] + (self.link.band_widths[band] - 1) / 2

    @staticmethod
    def _children_per_parent(counts: Floats, parents: Floats) -> float:
        return max(1.0, float(counts.sum()) / max(1.0, float(parents.sum())))


def _places(attributes: Attributes, names: tuple[str, ...]) -> tuple[int, ...]:
    columns = [attribute.name for attribute in attributes]
    return tuple(map(columns.index, names))
