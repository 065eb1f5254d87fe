"""The links between parent and child tables: whose rows belong to whose, and within what limits.

Linked tables are a tree: every table but the first is the child of one that is named before it.

The state of a synthesis of linked tables: all steps of the first table's model, then those of each child's.

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
from dataclasses import field
from itertools import pairwise

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
from sfumato.publish.graph.fitting import Observation
from sfumato.publish.marginals.attributes import Attributes, ListedCell
from sfumato.publish.marginals.estimating import MeasuredMarginal
from sfumato.publish.synthesis.released import SynthesisRound
from sfumato.publish.synthesis.state import StepGenerator, SynthesisState
from sfumato.quick_dataclass import dataclass

_MAX_LIMIT_OF_EXACT_BANDS = 12
"""The largest limit of children for which every number is a band of its own."""
FIRST, BETWEEN, LAST, ONLY = POSITIONS = ("first", "between", "last", "only")
"""The positions of a row among the children of one parent, in their order."""
_EXACT_BANDS = 5
_BAND_GROWTH = 1.4


def child_count_bands(limit: int) -> tuple[int, ...]:
    """Return the least number of children of each band: every number up to a small limit, otherwise growing bands. The
    last band is the limit itself: so many, or more.

    >>> child_count_bands(3), child_count_bands(30)
    ((0, 1, 2, 3), (0, 1, 2, 3, 4, 5, 7, 9, 12, 16, 22, 30))
    """
    if limit <= _MAX_LIMIT_OF_EXACT_BANDS:
        return tuple(range(limit + 1))
    bands = list(range(_EXACT_BANDS + 1))
    while (following := int(bands[-1] * _BAND_GROWTH)) < limit:
        bands.append(following)
    return (*bands, limit)


@codec.serialisable("table-link")
@dataclass(frozen=True)
class TableLink:
    """How rows of a child table belong to rows of a parent table, and what their models call the columns.

    The parent's model has the parent's columns, the band of the number of children in each child table and, if the
    parent is nobody's child and a unit may have several, their number. The child's model has the child's columns, and
    given columns: the band, columns of the parent and of tables above it, and columns of the previous child in the
    order.
    """

    parent: str
    child: str
    parent_key: str
    """The column of the parent that identifies a row in the synthetic tables."""
    child_key: str
    """The column of the child that refers to it."""
    unit: str
    """The column of the parent with the unit's id; equal to the key if a unit has one parent."""
    max_parents: int
    """The most parents of one unit."""
    max_children: int
    """The most children of one unit."""
    parent_columns: tuple[str, ...]
    child_columns: tuple[str, ...]
    linked_columns: tuple[str, ...]
    """The columns of the parent that children are drawn given."""
    previous_columns: tuple[str, ...] = ()
    """The columns of the previous child that children are drawn given."""
    order: str = ""
    """The column of the child that orders the children of one parent; empty if they have no order."""
    inherited_columns: tuple[str, ...] = field(default=(), compare=False)
    """The given columns of the parent's model that children are drawn given too, by their names there. Not part of a
    plan's hash: the SELECT of the child's model names them.
    """
    ends: bool = field(default=False, compare=False)
    """Whether children are drawn given which of them are a parent's first, last or only one. The SELECT says it too."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        for name in ("max_parents", "max_children"):
            if getattr(self, name) < 1:
                raise InvalidParameter(name, getattr(self, name), "a whole number ≥ 1")
        if not {*self.linked_columns} <= {*self.parent_columns}:
            raise InvalidParameter("linked_columns", self.linked_columns, "columns of the parent")
        if not {*self.previous_columns} <= {*self.child_columns} or (self.order and not self.child_columns):
            raise InvalidParameter("previous_columns", self.previous_columns, "columns of the child")
        if self.ends and not self.order:
            raise InvalidParameter("ends", self.ends, "left out, because the child rows have no order")

    @property
    def bands(self) -> tuple[int, ...]:
        return child_count_bands(self.max_children)

    def band_label(self, band: int) -> str:
        """Return the text of a band: ``3``, ``5-6``, or ``10 or more``."""
        low = self.bands[band]
        if band == len(self.bands) - 1:
            return f"{low} or more"
        high = self.bands[band + 1] - 1
        return f"{low}" if low == high else f"{low}-{high}"

    @property
    def band_labels(self) -> tuple[str, ...]:
        return tuple(map(self.band_label, range(len(self.bands))))

    @property
    def band_widths(self) -> tuple[int, ...]:
        """The number of different numbers in each band."""
        return (*(high - low for low, high in pairwise(self.bands)), 1)

    @staticmethod
    def position_counts(children: int) -> dict[str, int]:
        """Return how many of so many children of one parent have each position."""
        is_several = int(children > 1)
        return {FIRST: is_several, BETWEEN: max(0, children - 2), LAST: is_several, ONLY: int(children == 1)}

    def is_possible_position(self, band: int, position: str) -> bool:
        """Return whether a row with so many siblings can have this position; beyond the limit are any number."""
        low = self.bands[band]
        high = low + self.band_widths[band] - 1 if band < len(self.bands) - 1 else low + 2
        return any(self.position_counts(children)[position] for children in (low, high))

    # ── names of columns in the models ───────────────────────────────────────────────────────────

    @property
    def child_count_column(self) -> str:
        return f"number of {self.child}"

    @property
    def parent_count_column(self) -> str:
        """The number of parents of the unit."""
        return f"number of {self.parent}"

    @property
    def position_column(self) -> str:
        """Which of a parent's children a row is, in their order."""
        return f"position among {self.child}"

    @property
    def band_and_position_columns(self) -> tuple[str, ...]:
        """What the number of children of a parent decides of each."""
        return (self.child_count_column, self.position_column) if self.ends else (self.child_count_column,)

    def linked_name(self, column: str) -> str:
        return f"{self.parent}.{column}"

    @staticmethod
    def previous_name(column: str) -> str:
        return f"previous {column}"

    @property
    def conditioning_columns(self) -> tuple[str, ...]:
        """The columns of the child's model that are set before a child is drawn."""
        return (
            *self.band_and_position_columns,
            *map(self.linked_name, self.linked_columns),
            *self.inherited_columns,
            *map(self.previous_name, self.previous_columns),
        )

    @property
    def parent_conditioning_columns(self) -> dict[str, str]:
        """The name in the child's model of each column of the parent's model that children are drawn given."""
        linked_columns = {column: self.linked_name(column) for column in self.linked_columns}
        return {**linked_columns, **{name: name for name in self.inherited_columns}}


def table_names(links: Sequence[TableLink]) -> tuple[str, ...]:
    """Return all linked tables, every parent before its children."""
    return links[0].parent, *(link.child for link in links)


def link_to_parent(links: Sequence[TableLink], table: str) -> TableLink | None:
    """Return the link by which a table is a child; None for the first table."""
    return next((link for link in links if link.child == table), None)


def links_to_children(links: Sequence[TableLink], table: str) -> tuple[TableLink, ...]:
    return tuple(link for link in links if link.parent == table)


def require_tree(links: Sequence[TableLink]) -> None:
    """Refuse links in which a table has two parents, or a parent is not named before its children."""
    if not links or not all(isinstance(link, TableLink) for link in links):
        raise InvalidParameter("links", tuple(links)[:1], "a list of at least one link between two tables")
    names = [links[0].parent]
    for link in links:
        if link.parent not in names or link.child in names:
            raise InvalidParameter(
                "links",
                (link.parent, link.child),
                "a list of links that form a tree, with each parent before its children",
                fix="list the link of each table after that of its parent, and each table once as a child",
            )
        names.append(link.child)


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
