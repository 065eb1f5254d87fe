"""The state of a synthesis of linked tables: all steps of the first table's model, then those of each child's.

*Theorem.* A unit's rows in all k tables give one vector: its counts in table i have norms at most m_i, the limit of
rows of one unit that count there. Step t adds noise to the part of one table, of norm at most Δ_t = m_i, and costs
Δ_t²/2σ_t² in ρ, or Δ_t/b_t in ε; a choice costs what it did for one table. The parts are released one after the other,
each chosen by what was released before, so costs add up, and all steps together cost at most the price (adaptive
composition: Feldman & Zrnic 2021 for ρ, Rogers et al. 2016 for ε). A replaced unit takes one such vector away and adds
another: every step is charged for that (``plan.bounding``).

What a unit's part is does not depend on anybody else's rows: a child belongs to a parent of the same unit, or is
copied to each unit that owns one, down every chain of links; the numbers of children, the previous child, and columns
of tables above are read from rows of the same unit. So moving children between the parents of one unit is a change of
that one unit. ∎

Linked by the unit, children are counted before any is left out. Linked by a foreign key, the parents and the children
of a unit beyond its limits are left out independently: a parent that counts may have lost its children, and a child its
parent. That costs accuracy, not privacy.

*First, last and only children.* A unit with p parents has at most p first, p last and p only children: of each parent
one first and one last, or one only. With the rest, between, they are one vector of whole numbers ≥ 0 that adds up to
the rows that count, at most m: its norm is at most m in each marginal, and √(2 + (m − 2)²) at most among positions
alone where a unit has one parent. Positions are those among all children of a parent, found from rows of one unit
before any is left out; a child that moves to another parent of its unit changes positions of that unit alone, up to
all m. So the theorem holds with them. How many children have each position follows from the numbers of children, which
the parent's model knows: that is not bought again.

How much of the price each table gets is fixed before a row is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sfumato.array_types import Floats
from sfumato.publish.graph.fitting import Observation
from sfumato.publish.linked.links import POSITIONS, TableLink
from sfumato.publish.marginals.attributes import Attributes, ListedCell
from sfumato.publish.marginals.estimating import MeasuredMarginal
from sfumato.publish.synthesis.released import SynthesisRound
from sfumato.publish.synthesis.state import StepGenerator, SynthesisState

Method = Callable[[SynthesisState], StepGenerator]


class LinkedState:
    """What was released of all tables so far."""

    def __init__(self, links: Sequence[TableLink], states: Mapping[str, SynthesisState]) -> None:
        self.links, self.states = tuple(links), dict(states)
        self.step_counts = dict.fromkeys(states, 0)
        """The number of steps of each table's model that were released."""

    @property
    def marginals(self) -> list[MeasuredMarginal]:
        return [marginal for state in self.states.values() for marginal in state.marginals]

    @property
    def has_model(self) -> bool:
        """Whether rows of the last table were counted; otherwise there are no tables."""
        return self.states[self.links[-1].child].has_model

    @property
    def rounds(self) -> list[SynthesisRound]:
        return [synthesis_round for state in self.states.values() for synthesis_round in state.rounds]

    def finish(self) -> None:
        """Fit the last table's model closely."""
        self.states[self.links[-1].child].finish()

    def steps(self, method: Method) -> StepGenerator:
        """Request all steps of each table in turn; the model of a child starts from its parent's."""
        first = self.links[0].parent
        yield from self._count_steps(first, method(self.states[first]))
        previous = first
        for link in self.links:
            self.states[previous].finish()
            self._share_cells(link)
            self.states[link.child].derived_observations = (self._children_by_parent(link),)
            yield from self._count_steps(link.child, method(self.states[link.child]))
            previous = link.child

    def _count_steps(self, table: str, steps: StepGenerator) -> StepGenerator:
        step = next(steps, None)
        while step is not None:
            outcome = yield step
            self.step_counts[table] += 1
            try:
                step = steps.send(outcome)
            except StopIteration:
                return

    def _share_cells(self, link: TableLink) -> None:
        """Give columns of the parent the same cells in the child's model as in the parent's: they were bought there."""
        parent, state = self.states[link.parent].setting, self.states[link.child]
        if parent.cell_plan is None or state.setting.cell_plan is None:
            return
        columns = link.parent_conditioning_columns
        attribute_set = zip(
            _attribute_indices(parent.attributes, tuple(columns)),
            _attribute_indices(state.setting.attributes, tuple(columns.values())),
            strict=True,
        )
        parts = parent.cell_plan.parts
        state.setting = state.setting.with_parts(
            {attribute_index: parts[above] for above, attribute_index in attribute_set if above in parts}
        )

    def _children_by_parent(self, link: TableLink) -> Observation:
        """Return how many children the parent's model expects for each combination of given columns.

        This is post-processing: it tells the child's model how the given columns depend on each other.
        """
        parent_state = self.states[link.parent]
        parent, child = parent_state.setting.attributes, self.states[link.child].setting.attributes
        parent_indices = _attribute_indices(parent, (link.child_count_column, *link.parent_conditioning_columns))
        given = (*link.band_and_position_columns, *link.parent_conditioning_columns.values())
        child_indices = _attribute_indices(child, given)
        parents = parent_state.model.marginal(parent_indices)
        counts = np.zeros([child[attribute_index].size for attribute_index in child_indices])
        child_cell = {cell: index for index, cell in enumerate(child[child_indices[0]].cells)}
        for index, cell in enumerate(parent[parent_indices[0]].cells):
            if isinstance(cell, ListedCell) and cell in child_cell:
                children = _mean_children(link, str(cell.value))
                if link.ends:
                    shares = [children.get(getattr(cell, "value", ""), 0.0) for cell in child[child_indices[1]].cells]
                    counts[child_cell[cell]] = np.multiply.outer(shares, parents[index])
                else:
                    counts[child_cell[cell]] = sum(children.values()) * parents[index]
        deviation = min(math.sqrt(marginal.variance) for marginal in parent_state.marginals)
        return Observation(child_indices, counts, deviation * self._children_per_parent(counts, parents))

    @staticmethod
    def _children_per_parent(counts: Floats, parents: Floats) -> float:
        return max(1.0, float(counts.sum()) / max(1.0, float(parents.sum())))


def _mean_children(link: TableLink, label: str) -> dict[str, float]:
    """Return the mean number of children with each position of parents in a band."""
    band = link.band_labels.index(label)
    mean = dict.fromkeys(POSITIONS, 0.0)
    for children in range(link.bands[band], link.bands[band] + link.band_widths[band]):
        for position, count in link.position_counts(children).items():
            mean[position] += count / link.band_widths[band]
    return mean


def _attribute_indices(attributes: Attributes, names: tuple[str, ...]) -> tuple[int, ...]:
    columns = [attribute.name for attribute in attributes]
    return tuple(map(columns.index, names))
