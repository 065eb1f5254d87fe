"""Draw rows of the first table from its model, and children of every row from another model, down the tree of links.

A parent's number of children is drawn uniformly within its band. The children of a unit beyond its limit are left out,
so the limits hold in the synthetic tables too. Keys are consecutive integers: every child refers to a parent that
exists, and no key was ever in the data. Everything is post-processing of fitted models.

With an order, children of one parent are drawn one after the other, each given the previous one.

Sample some columns of a graphical model given the others.

*Theorem.* Let the given columns lie in one clique. Rooted at that clique, the tree's conditionals draw the rest from
the model's distribution given these columns: each clique depends on what was drawn before only through what it shares
with its neighbour towards the root (running intersection; Koller & Friedman 2009, ch. 10.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfumato.array_types import Integers
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import bits
from sfumato.mechanisms.bits import ByteSource
from sfumato.publish.graph.models import ConditionalTable, GraphicalModel
from sfumato.publish.graph.trees import AttributeSet, JunctionTree, transpose_to
from sfumato.publish.linked.links import BETWEEN, FIRST, LAST, ONLY, TableLink, links_to_children
from sfumato.publish.marginals.attributes import Attribute, Attributes, ListedCell
from sfumato.publish.sampling import Codes, SampledRows, extend_codes
from sfumato.publish.synthetic import Synthetic
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow


def conditional_distributions(model: GraphicalModel, given: Sequence[int]) -> tuple[ConditionalTable, ...]:
    """Return the conditionals of all other columns, in the order in which they are drawn."""
    root = model.tree.clique_index_with(given)
    if root is None:
        raise InvalidParameter(
            "given",
            tuple(given),
            "columns that the model was fitted to together",
            fix="name fewer columns, or columns that were measured in one marginal",
        )
    conditionals = []
    for index, parent in _rooted_order(model.tree, root):
        shared = tuple(given) if parent is None else _shared_attributes(model.tree, index, parent)
        new = tuple(attribute_index for attribute_index in model.tree.cliques[index] if attribute_index not in shared)
        if new:
            table = transpose_to(model.beliefs[index], model.tree.cliques[index], (*shared, *new))
            conditionals.append(ConditionalTable(new, shared, table))
    return tuple(conditionals)


def _shared_attributes(tree: JunctionTree, index: int, neighbour: int) -> AttributeSet:
    """Return what a clique shares with a neighbour; with none in another component."""
    return tuple(
        attribute_index for attribute_index in tree.cliques[index] if attribute_index in tree.cliques[neighbour]
    )


def _rooted_order(tree: JunctionTree, root: int) -> list[tuple[int, int | None]]:
    """Return the cliques from the root outwards, each with its neighbour towards the root; cliques of other components
    follow, in their own order.
    """
    neighbours: list[list[int]] = [[] for _ in tree.cliques]
    for index, parent in enumerate(tree.parents):
        if parent >= 0:
            neighbours[index].append(parent)
            neighbours[parent].append(index)
    order: list[tuple[int, int | None]] = [(root, None)]
    seen, visited = {root}, 0
    while visited < len(tree.cliques):
        if visited == len(order):  # another component, which shares nothing with the root
            start = next(index for index in range(len(tree.cliques)) if index not in seen)
            seen.add(start)
            order.append((start, root))
        index = order[visited][0]
        following = [other for other in neighbours[index] if other not in seen]
        seen.update(following)
        order += [(other, index) for other in following]
        visited += 1
    return order


@dataclass(frozen=True, eq=False)
class DrawnTable:
    """Rows of one table, ordered by unit."""

    rows: SampledRows
    units: Integers
    """The unit of each row, which never decreases."""
    foreign_keys: dict[str, Integers]


@dataclass(frozen=True, eq=False)
class LinkedModels:
    """The models of all tables by name, and their links, every parent before its children."""

    links: tuple[TableLink, ...]
    models: Mapping[str, Synthetic]
    source: ByteSource | None = None
    """Where random bytes come from; None for the system's entropy."""

    def draw(self, parents: int) -> dict[str, pyarrow.Table]:
        """Draw so many rows of the first table, and their children, as Arrow tables by name."""
        first = self.links[0]
        model = self.models[first.parent]
        units, cells = self._units_and_ordered_cells(model.sample_cells(parents, self.source))
        drawn = {first.parent: DrawnTable(model.typed_rows(cells, source=self.source), units, {first.unit: units + 1})}
        for link in self.links:
            pair = ModelPair(link, self.models[link.parent], self.models[link.child], self.source)
            drawn[link.child] = pair.draw_children(drawn[link.parent])
        columns = {first.parent: first.parent_columns, **{link.child: link.child_columns for link in self.links}}
        return {name: self._with_keys(name, table, columns[name]) for name, table in drawn.items()}

    def _with_keys(self, name: str, table: DrawnTable, columns: tuple[str, ...]) -> pyarrow.Table:
        import pyarrow

        row_numbers = np.arange(1, len(table.units) + 1)
        primary_keys = {link.parent_key: row_numbers for link in links_to_children(self.links, name)}
        rows = table.rows.to_arrow().select(list(columns))
        for position, (key, values) in enumerate({**table.foreign_keys, **primary_keys}.items()):
            rows = rows.add_column(position, key, pyarrow.array(values, pyarrow.int64()))
        return rows

    def _units_and_ordered_cells(self, cells: Codes) -> tuple[Integers, Codes]:
        """Return the unit of each row of the first table, and the rows ordered by it; rows that are drawn with k
        siblings are grouped by k.
        """
        first = self.links[0]
        if first.max_parents == 1:
            return np.arange(len(cells)), cells
        model = self.models[first.parent]
        attribute_index = model.columns.index(first.parent_count_column)
        siblings = np.array(_cell_numbers(model.attributes, attribute_index))[cells[:, attribute_index]]
        order = np.argsort(siblings, kind="stable")
        siblings = siblings[order]
        _, first_rows, inverse = np.unique(siblings, return_index=True, return_inverse=True)
        starts = (np.arange(len(cells)) - first_rows[inverse]) % siblings == 0
        return np.cumsum(starts) - 1, np.asfortranarray(cells[order])


@dataclass(frozen=True, eq=False)
class ModelPair:
    """The models of a parent and a child table, and their link."""

    link: TableLink
    parent: Synthetic
    child: Synthetic
    source: ByteSource | None = None

    def draw_children(self, parents: DrawnTable) -> DrawnTable:
        """Draw the children of all parents, in their order."""
        link, cells = self.link, parents.rows.codes
        counts = limit_children_per_unit(self._draw_child_counts(cells), parents.units, link.max_children)
        owners = np.repeat(np.arange(len(cells)), counts)
        rows = self.child.typed_rows(self._draw_cells(cells, counts, owners), source=self.source)
        if link.order:
            face = self.child.released.face
            has_rules = bool(face.impossible or face.implies)
            sort_within_parents(rows, self.child.columns.index(link.order), owners, whole_rows=has_rules)
        return DrawnTable(rows, parents.units[owners], {link.child_key: owners + 1})

    def _draw_child_counts(self, cells: Codes) -> Integers:
        link = self.link
        bands = self._cell_bands(self.parent)[cells[:, self.parent.columns.index(link.child_count_column)]]
        widths = np.array(link.band_widths)[bands]
        return np.asarray(np.array(link.bands)[bands] + bits.random_below_limits(widths, self.source))

    def _cell_bands(self, model: Synthetic) -> Integers:
        """Return the band of each cell of the number of children; missing counts as none."""
        attribute = model.attributes[model.columns.index(self.link.child_count_column)]
        labels = self.link.band_labels
        return np.array([labels.index(cell.value) if isinstance(cell, ListedCell) else 0 for cell in attribute.cells])

    def _draw_cells(self, parent_cells: Codes, children: Integers, owners: Integers) -> Codes:
        link, child = self.link, self.child
        codes = np.zeros((len(owners), len(child.attributes)), np.int32, order="F")
        band_cells = np.argsort(self._cell_bands(child)[:-1])  # the cell of each band from 1 on
        bands = np.searchsorted(np.array(link.bands), children, side="right") - 1
        codes[:, child.columns.index(link.child_count_column)] = band_cells[np.maximum(bands - 1, 0)][owners]
        for column, given_name in link.parent_conditioning_columns.items():
            parent_index = self.parent.columns.index(column)
            codes[:, child.columns.index(given_name)] = parent_cells[owners, parent_index]
        if link.ends:
            attribute_index = child.columns.index(link.position_column)
            codes[:, attribute_index] = position_cells(child.attributes[attribute_index], children)
        self._draw_columns(codes, children)
        return codes

    def _draw_columns(self, codes: Codes, children: Integers) -> None:
        """Draw the columns of all children; with an order, all first ones, then all second ones, and so on."""
        given = [self.child.columns.index(name) for name in self.link.conditioning_columns]
        conditionals = conditional_distributions(self.child.sampling_model, given)
        if not self.link.previous_columns:
            extend_codes(conditionals, codes, self.source)
            return
        pairs = [
            (self.child.columns.index(self.link.previous_name(column)), self.child.columns.index(column))
            for column in self.link.previous_columns
        ]
        first = np.cumsum(children) - children
        for position in range(int(children.max(initial=0))):
            rows = first[children > position] + position
            drawn = np.asfortranarray(codes[rows])
            for previous_index, attribute_index in pairs:
                missing_value_cell = self.child.attributes[previous_index].size - 1
                drawn[:, previous_index] = codes[rows - 1, attribute_index] if position else missing_value_cell
            extend_codes(conditionals, drawn, self.source)
            codes[rows] = drawn


def limit_children_per_unit(children: Integers, units: Integers, limit: int) -> Integers:
    """Cut the numbers of children so that those of one unit add up to at most the limit; units never decrease."""
    before = np.cumsum(children) - children
    is_first = np.diff(units, prepend=-1) > 0
    before_unit = before[is_first][np.cumsum(is_first) - 1]
    return np.clip(limit - (before - before_unit), 0, children)


def position_cells(attribute: Attribute, children: Integers) -> Integers:
    """Return the cell of the position of each child, for the number of children of every parent."""
    values = [getattr(cell, "value", None) for cell in attribute.cells]
    owners = np.repeat(np.arange(len(children)), children)
    number = np.arange(len(owners)) - (np.cumsum(children) - children)[owners]
    is_first, is_last = number == 0, number == children[owners] - 1
    choices = [(is_first & is_last, ONLY), (is_first, FIRST), (is_last, LAST)]
    cells = [np.full(len(owners), values.index(position)) for _, position in choices]
    return np.asarray(np.select([mask for mask, _ in choices], cells, values.index(BETWEEN)))


def _cell_numbers(attributes: Attributes, index: int) -> list[int]:
    """Return the number that each cell lists; 1 for the last, which is missing."""
    cells = attributes[index].cells
    return [int(cell.value) if isinstance(cell, ListedCell) else 1 for cell in cells]  # type: ignore[arg-type]


def sort_within_parents(rows: SampledRows, order_column: int, owners: Integers, *, whole_rows: bool) -> None:
    """Sort the values of the order column within each parent, missing ones last; with ``whole_rows``, sort whole rows,
    so that a rule over several columns that a row kept before it still keeps.
    """
    values = rows.values.get(order_column, rows.codes[:, order_column])
    order = np.lexsort((values, rows.missing_mask(order_column), owners))
    attribute_set = range(rows.codes.shape[1]) if whole_rows else (order_column,)
    for column in attribute_set:
        rows.codes[:, column] = rows.codes[order, column]
        if column in rows.values:
            rows.values[column][:] = rows.values[column][order]
