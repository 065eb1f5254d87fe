"""The links between parent and child tables: whose rows belong to whose, and within what limits.

Linked tables are a tree: every table but the first is the child of one that is named before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise

from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
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
            )
        names.append(link.child)
