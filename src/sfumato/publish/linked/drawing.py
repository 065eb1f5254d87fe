"""Draw parents from one model, and children of every parent from another.

A parent's number of children is drawn uniformly within its band. The children of a unit beyond its limit are left out,
so the limits hold in the synthetic tables too. Keys are consecutive integers: every child refers to a parent that
exists, and no key was ever in the data. Everything is post-processing of two fitted models.

With an order, children of one parent are drawn one after the other, each given the previous one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.mechanisms import bits
from sfumato.publish.linked.conditioning import conditionals_given
from sfumato.publish.linked.links import TableLink
from sfumato.publish.marginals.attributes import Attributes, ListedCell
from sfumato.publish.marginals.chains import Integers
from sfumato.publish.sampling import Codes, SampledRows, extend_codes
from sfumato.publish.synthetic import Synthetic
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, eq=False)
class LinkedModels:
    """The models of both tables, and their link."""

    link: TableLink
    parent: Synthetic
    child: Synthetic

    def draw(self, parents: int) -> dict[str, pyarrow.Table]:
        """Draw so many parents and their children, as Arrow tables by name."""
        link = self.link
        parent_cells = self.parent.sample_cells(parents)
        units, parent_cells = self._group_by_unit(parent_cells)
        children = limit_children_per_unit(self._draw_child_counts(parent_cells), units, link.max_children)
        owners = np.repeat(np.arange(parents), children)
        keys = {link.unit: units + 1, link.parent_key: np.arange(1, parents + 1)}
        parent_rows = self.parent.typed_rows(parent_cells).to_arrow().select(list(link.parent_columns))
        child_rows = self._draw_children(parent_cells, children, owners)
        return {
            link.parent: _with_keys(keys, parent_rows),
            link.child: _with_keys({link.child_key: owners + 1}, child_rows),
        }

    def _group_by_unit(self, cells: Codes) -> tuple[Integers, Codes]:
        """Return the unit of each parent, and the parents ordered by it; parents that are drawn with k siblings are
        grouped by k.
        """
        if self.link.max_parents == 1:
            return np.arange(len(cells)), cells
        place = self.parent.columns.index(self.link.siblings_column)
        siblings = np.array(_listed_numbers(self.parent.attributes, place))[cells[:, place]]
        order = np.argsort(siblings, kind="stable")
        siblings = siblings[order]
        _, first, inverse = np.unique(siblings, return_index=True, return_inverse=True)
        starts = (np.arange(len(cells)) - first[inverse]) % siblings == 0
        return np.cumsum(starts) - 1, np.asfortranarray(cells[order])

    def _draw_child_counts(self, cells: Codes) -> Integers:
        link = self.link
        bands = self._cell_bands(self.parent)[cells[:, self.parent.columns.index(link.count_column)]]
        widths = np.array(link.band_widths)[bands]
        return np.asarray(np.array(link.bands)[bands] + bits.random_each_below(widths))

    def _cell_bands(self, model: Synthetic) -> Integers:
        """Return the band of each cell of the number of children; missing counts as none."""
        attribute = model.attributes[model.columns.index(self.link.count_column)]
        labels = self.link.band_labels
        return np.array([labels.index(cell.value) if isinstance(cell, ListedCell) else 0 for cell in attribute.cells])

    # ── children ─────────────────────────────────────────────────────────────────────────────────

    def _draw_children(self, parent_cells: Codes, children: Integers, owners: Integers) -> pyarrow.Table:
        link, child = self.link, self.child
        codes = np.zeros((len(owners), len(child.attributes)), np.int32, order="F")
        band_cells = np.argsort(self._cell_bands(child)[:-1])  # the cell of each band from 1 on
        bands = np.searchsorted(np.array(link.bands), children, side="right") - 1
        codes[:, child.columns.index(link.count_column)] = band_cells[np.maximum(bands - 1, 0)][owners]
        for column in link.linked_columns:
            parent_place = self.parent.columns.index(column)
            codes[:, child.columns.index(link.linked_name(column))] = parent_cells[owners, parent_place]
        self._draw_columns(codes, children)
        rows = child.typed_rows(codes)
        if link.order:
            sort_within_parents(
                rows, child.columns.index(link.order), owners, whole=bool(child.released.face.impossible)
            )
        return rows.to_arrow().select(list(link.child_columns))

    def _draw_columns(self, codes: Codes, children: Integers) -> None:
        """Draw the columns of all children; with an order, all first ones, then all second ones, and so on."""
        given = [self.child.columns.index(name) for name in self.link.given_names]
        conditionals = conditionals_given(self.child.sampling_model, given)
        if not self.link.previous_columns:
            extend_codes(conditionals, codes)
            return
        pairs = [
            (self.child.columns.index(self.link.previous_name(column)), self.child.columns.index(column))
            for column in self.link.previous_columns
        ]
        first = np.cumsum(children) - children
        for position in range(int(children.max(initial=0))):
            rows = first[children > position] + position
            drawn = np.asfortranarray(codes[rows])
            for previous_place, place in pairs:
                last_cell = self.child.attributes[previous_place].size - 1
                drawn[:, previous_place] = codes[rows - 1, place] if position else last_cell
            extend_codes(conditionals, drawn)
            codes[rows] = drawn


def limit_children_per_unit(children: Integers, units: Integers, limit: int) -> Integers:
    """Cut the numbers of children so that those of one unit add up to at most the limit; units are consecutive."""
    before = np.cumsum(children) - children
    is_first = np.diff(units, prepend=-1) > 0
    before_unit = before[is_first][units]
    return np.clip(limit - (before - before_unit), 0, children)


def _listed_numbers(attributes: Attributes, place: int) -> list[int]:
    """Return the number that each cell lists; 1 for the last, which is missing."""
    cells = attributes[place].cells
    return [int(cell.value) if isinstance(cell, ListedCell) else 1 for cell in cells]  # type: ignore[arg-type]


def sort_within_parents(rows: SampledRows, place: int, owners: Integers, *, whole: bool) -> None:
    """Sort the values of the order column within each parent, missing ones last; with ``whole``, sort whole rows, so
    that a condition on several columns that a row met before it is still met.
    """
    values = rows.values.get(place, rows.codes[:, place])
    order = np.lexsort((values, rows.missing(place), owners))
    places = range(rows.codes.shape[1]) if whole else (place,)
    for column in places:
        rows.codes[:, column] = rows.codes[order, column]
        if column in rows.values:
            rows.values[column][:] = rows.values[column][order]


def _with_keys(keys: dict[str, Integers], rows: pyarrow.Table) -> pyarrow.Table:
    import pyarrow

    for position, (name, values) in enumerate(keys.items()):
        rows = rows.add_column(position, name, pyarrow.array(values, pyarrow.int64()))
    return rows
