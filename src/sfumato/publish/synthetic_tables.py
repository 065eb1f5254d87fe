"""Draw rows of the first table from its model, and children of every row from another model, down the tree of links.

A parent's number of children is drawn uniformly within its band. The children of a unit beyond its limit are left out,
so the limits hold in the synthetic tables too. Keys are consecutive integers: every child refers to a parent that
exists, and no key was ever in the data. Everything is post-processing of fitted models.

With an order, children of one parent are drawn one after the other, each given the previous one.

Sample some columns of a graphical model given the others.

*Theorem.* Let the given columns lie in one clique. Rooted at that clique, the tree's conditionals draw the rest from
the model's distribution given these columns: each clique depends on what was drawn before only through what it shares
with its neighbour towards the root (running intersection; Koller & Friedman 2009, ch. 10.3).

Synthetic tables that belong together: their models, and rows drawn from them, free and any number of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sfumato.array_types import Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.html_fragments import collapsed, preformatted
from sfumato.ledger import Anchor
from sfumato.mechanisms import bits
from sfumato.mechanisms.bits import ByteSource
from sfumato.plan.sql.linked_views import Ancestor, LinkedView, replace_joins_by_view
from sfumato.plan.sql.parameters import Parameters
from sfumato.plan.sql.statements import lower_query
from sfumato.plan.sql.text import parse_select
from sfumato.privacy import Curve, Neighbours, codec
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, Number, exact_integer
from sfumato.publish.cells import answering
from sfumato.publish.files import sealed_files
from sfumato.publish.files.sealed_files import MANIFEST, FileKind
from sfumato.publish.files.synopsis_files import public_receipt
from sfumato.publish.graph.models import ConditionalTable, GraphicalModel
from sfumato.publish.graph.trees import AttributeSet, JunctionTree, transpose_to
from sfumato.publish.links import (
    BETWEEN,
    FIRST,
    LAST,
    ONLY,
    TableLink,
    link_to_parent,
    links_to_children,
    require_tree,
    table_names,
)
from sfumato.publish.marginals.attributes import Attribute, Attributes, ListedCell, summarize_columns
from sfumato.publish.marginals.charge_verification import Check, SynopsisVerification, line_checks
from sfumato.publish.model_cards import ModelCard, Quality
from sfumato.publish.row_writers import is_database_path, write_database
from sfumato.publish.sampling import Codes, SampledRows, extend_codes, seeded_bytes
from sfumato.publish.synthetic import MAX_HELD, Synthetic
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.receipts import Receipt
from sfumato.release.prices import Price
from sfumato.untrusted import refuse_malformed

if TYPE_CHECKING:
    import pandas
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


_MAX_JSON_CHARACTERS = 1 << 31
_FILE_FORMATS = ("parquet", "csv")


def _with_table_name(model: Synthetic, name: str) -> Synthetic:
    return replace(model, released=replace(model.released, table=name))


@codec.serialisable("synthetic-tables")
@dataclass(frozen=True)
class _SyntheticTablesFile:
    """Synthetic tables as they are written: the models as their own JSON texts."""

    link: TableLink
    parent: str
    child: str
    price: Price
    receipt: Receipt
    further_links: tuple[TableLink, ...] = ()
    further_children: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)


_FORMAT = 1
_MODELS = "models.zip"
_FILE_KIND = FileKind("file of linked tables", _FORMAT, 1 << 30, _MODELS)


@codec.serialisable("tables-file")
@dataclass(frozen=True, eq=False)
class TablesManifest:
    """The manifest of a file of linked tables; ``models.zip`` holds the file of each model, in the order of tables."""

    format: int
    members: Mapping[str, str] = field(metadata=codec.MAPPING)
    """SHA-256 of each member; that of the manifest itself is computed with an empty text in its own entry."""
    links: tuple[TableLink, ...]
    price: Price
    receipt: Receipt

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        if self.format != _FORMAT:
            raise InvalidParameter("format", self.format, f"{_FORMAT}")
        if {*self.members} != {MANIFEST, _MODELS} or not all(isinstance(text, str) for text in self.members.values()):
            raise sealed_files.unfit_members_error(self.members, [MANIFEST, _MODELS])
        object.__setattr__(self, "members", dict(self.members))
        for name, kind in {"price": Price, "receipt": Receipt}.items():
            if not isinstance(getattr(self, name), kind):
                raise InvalidParameter(name, getattr(self, name), f"a {kind.__name__}")
        object.__setattr__(self, "links", tuple(self.links))
        require_tree(self.links)


TABLES_KIND = codec.kind_of_class(TablesManifest)


@codec.written_as("synthetic-tables")
@dataclass(frozen=True, eq=False)
class SyntheticTables:
    """Models of a parent table and of tables below it, from which linked rows are drawn."""

    links: tuple[TableLink, ...]
    """How each table but the first belongs to one before it."""
    models: Mapping[str, Synthetic] = field(repr=False)
    """By the name of each private table, parents before children, the model of its columns, of the number of children
    of each row, and of columns of its parents.
    """
    price: Price
    """The guarantee of all models together."""
    receipt: Receipt = field(repr=False)
    other_names: tuple[str, ...] = ()
    """What rows and questions call the tables instead (``renamed``)."""

    def __post_init__(self) -> None:
        require_tree(self.links)
        if tuple(self.models) != table_names(self.links):
            raise InvalidParameter(
                "models", tuple(self.models), "a list with one model for each table, in the order of the tables"
            )

    @property
    def link(self) -> TableLink:
        """The link of the first two tables."""
        return self.links[0]

    @property
    def parent(self) -> Synthetic:
        """The model of the first table."""
        return self.models[self.link.parent]

    @property
    def child(self) -> Synthetic:
        """The model of the second table."""
        return self.models[self.link.child]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tables, parents before children."""
        return self.other_names or table_names(self.links)

    def renamed(self, *names: str) -> SyntheticTables:
        """Return the same tables under other names, for rows and questions."""
        if len(names) != len(self.models) or len({*names}) != len(names):
            raise InvalidParameter(
                "names", names, f"{len(self.models)} different names", fix="give a different name for each table"
            )
        models = {
            table: _with_table_name(model, name)
            for (table, model), name in zip(self.models.items(), names, strict=True)
        }
        return replace(self, models=models, other_names=names)

    @property
    def is_preview(self) -> bool:
        """Whether the tables were invented from the policy alone: nothing was read, charged or recorded."""
        return self.receipt.is_preview

    # ── rows ───────────────────────────────────────────────────────────────────────────────────

    def tables(self, parents: int | None = None, *, seed: int | None = None) -> dict[str, pyarrow.Table]:
        """Return all tables as Arrow tables by name: without a number always the same n̂ rows of the first with their
        children, with a number or a seed new ones with theirs.
        """
        if parents is None and seed is None:
            return self._tables
        return self.draw(self.default_parents if parents is None else parents, seed=seed)

    @property
    def default_parents(self) -> int:
        """n̂ of the first table as a whole number: its rows that are drawn if no number is given."""
        return max(1, round(self.parent.total))

    @cached_property
    def _tables(self) -> dict[str, pyarrow.Table]:
        return self.draw(self.default_parents)

    def draw(self, parents: int, *, seed: int | None = None) -> dict[str, pyarrow.Table]:
        """Draw so many new rows of the first table, and their children. This is free. The same ``seed`` draws the same
        rows from the same file and version; it never touches the noise.
        """
        count = exact_integer(parents, "parents", at_least=1)
        if count > (max_parents := self.parents_within(MAX_HELD)):
            raise InvalidParameter("parents", count, f"at most {max_parents:,}, so that all children fit in memory")
        source = None if seed is None else seeded_bytes(seed)
        drawn = LinkedModels(self.links, self.models, source).draw(count)
        return dict(zip(self.names, drawn.values(), strict=True))

    def parents_within(self, max_rows: int) -> int:
        """Return how many rows of the first table can be drawn with at most so many rows in each table."""
        largest = max(model.total / self.parent.total for model in self.models.values())
        return int(max_rows / largest)

    def __getitem__(self, name: str) -> pyarrow.Table:
        """Return one of the tables."""
        if name not in self.names:
            raise InvalidParameter("name", name, " or ".join(self.names))
        return self._tables[name]

    def to_pandas(self, parents: int | None = None, *, seed: int | None = None) -> dict[str, pandas.DataFrame]:
        """Return all tables as data frames by name; integers and booleans keep their types beside missing values."""
        import pandas
        import pyarrow

        types = {pyarrow.int64(): pandas.Int64Dtype(), pyarrow.bool_(): pandas.BooleanDtype()}
        kinds = {**types, pyarrow.date32(): pandas.ArrowDtype(pyarrow.date32())}
        return {name: rows.to_pandas(types_mapper=kinds.get) for name, rows in self.tables(parents, seed=seed).items()}

    def write(
        self,
        folder: str | os.PathLike[str],
        format: str = "parquet",  # noqa: A002
        *,
        parents: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Write each table to a file of its name in a folder, which is created: Parquet or CSV. A name that ends in
        .duckdb or .sqlite is one database with all tables.
        """
        if is_database_path(folder):
            write_database(folder, self.tables(parents, seed=seed))
            return
        if format not in _FILE_FORMATS:
            raise InvalidParameter("format", format, f"one of {', '.join(_FILE_FORMATS)}")
        from pyarrow import csv, parquet

        writer = parquet.write_table if format == "parquet" else csv.write_csv
        target = Path(folder)
        try:
            target.mkdir(parents=True, exist_ok=True)
            for name, rows in self.tables(parents, seed=seed).items():
                writer(rows, target / f"{name}.{format}")
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            fix = "name a folder that you can write to"
            raise InvalidParameter("folder", str(folder), f"writable ({reason})", fix=fix) from error

    # ── questions ──────────────────────────────────────────────────────────────────────────────

    def sql(
        self,
        question: str,
        parameters: Parameters | None = None,
        *,
        confidence: Number = DEFAULT_CONFIDENCE,
        together: bool = False,
    ) -> Answer:
        """Answer a question in SQL about one table, or about children joined to their parents and to tables above,
        from what was measured: free, and any number of times. Each number states its basis, as for one table.

        The number of children is a column of the parents, such as ``"number of visits"``.
        """
        models = dict(zip(map(str.lower, self.names), self.models.values(), strict=True))
        column_names = [name for model in models.values() for name in model.columns]
        statement = parse_select(question, parameters, column_names)
        table, folded = replace_joins_by_view(statement, self._linked_views)
        face = models[table].face
        query = lower_query(folded, face.catalog)
        return answering.answer_query(face, query, question, confidence=confidence, together=together)

    @cached_property
    def _linked_views(self) -> tuple[LinkedView, ...]:
        """What each model knows of its table and of those above it."""
        names = dict(zip(self.models, self.names, strict=True))
        return tuple(
            LinkedView(
                name,
                frozenset(column.lower() for column in self._columns_of_table(table)),
                self._ancestors(table, names),
            )
            for table, name in names.items()
        )

    def _columns_of_table(self, table: str) -> tuple[str, ...]:
        link = link_to_parent(self.links, table)
        positions = () if link is None or not link.ends else (link.position_column,)
        columns = self.link.parent_columns if link is None else (*link.child_columns, *positions)
        return *columns, *(below.child_count_column for below in links_to_children(self.links, table))

    def _ancestors(self, table: str, names: Mapping[str, str]) -> tuple[Ancestor, ...]:
        """Return the tables above one, nearest first, with their columns in its model."""
        ancestors: list[Ancestor] = []
        columns, link = self.models[table].columns, link_to_parent(self.links, table)
        while link is not None:
            modelled = {
                name.lower(): link.linked_name(name)
                for name in link.parent_columns
                if link.linked_name(name) in columns
            }
            if not ancestors:
                modelled[link.child_count_column.lower()] = link.child_count_column
            ancestors.append(Ancestor(names[link.parent], link.parent_key, link.child_key, modelled))
            link = link_to_parent(self.links, link.parent)
        return tuple(ancestors)

    def quality(self, *, confidence: Number = DEFAULT_CONFIDENCE) -> dict[str, Quality]:
        """Estimate the distance of each model from the truth, by table: free, and as public as the models."""
        return {table: model.quality(confidence=confidence) for table, model in self.models.items()}

    def cards(
        self, *, name: str = "", description: str = "", licence: str = "", contact: str = ""
    ) -> dict[str, ModelCard]:
        """Describe each table, by its name, as ``Synthetic.card`` does; the guarantee is that of all together."""
        guarantee = (
            "none: this is a preview on invented rows" if self.is_preview else f"{self.price}, for all tables together"
        )
        models = zip(self.names, self.models.values(), strict=True)
        cards = {
            table: model.card(
                name=name and f"{name}: {table}", description=description, licence=licence, contact=contact
            )
            for table, model in models
        }
        return {table: replace(card, guarantee=guarantee) for table, card in cards.items()}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for declared implications that some drawn row may break, and why."""
        return tuple(f"{table}: {text}" for table, model in self.models.items() for text in model.warnings)

    # ── as other things ────────────────────────────────────────────────────────────────────────

    def to_json(self) -> str:
        """Serialize all models, their links and the receipt as JSON text."""
        parent, child, *further = (model.to_json() for model in self.models.values())
        receipt = public_receipt(self.receipt)
        return codec.dumps(
            _SyntheticTablesFile(self.link, parent, child, self.price, receipt, self.links[1:], tuple(further))
        )

    @classmethod
    def from_json(cls, source: str) -> SyntheticTables:
        """Parse the text that ``to_json`` wrote; any other text is refused."""
        written = codec.loads_as(_SyntheticTablesFile, source, longest=_MAX_JSON_CHARACTERS)
        fix = "pass the text that SyntheticTables.to_json() returned"
        with refuse_malformed(lambda: InvalidParameter("source", source, "the JSON text of synthetic tables", fix=fix)):
            links = (written.link, *written.further_links)
            models = map(Synthetic.from_json, (written.parent, written.child, *written.further_children))
            by_name = dict(zip(table_names(links), models, strict=True))
            return cls(links, by_name, written.price, written.receipt)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file, which ``sf.synopsis(path)`` reads without data, curator or ledger."""
        models = {f"{number}.sfu": model.to_bytes() for number, model in enumerate(self.models.values())}
        members = {_MODELS: sealed_files.build_zip(models)}
        receipt = public_receipt(self.receipt)
        manifest = TablesManifest(_FORMAT, sealed_files.member_hashes(members), self.links, self.price, receipt)
        sealed_files.write_atomically(sealed_files.to_bytes(manifest, members), path)

    @classmethod
    def read(cls, content: bytes, place: str) -> SyntheticTables:
        """Read synthetic tables from the bytes of their file; an edited file is refused."""
        manifest, archive = _FILE_KIND.read(TablesManifest, content, place)
        files = [file for _, file in sealed_files.iterate_members(archive, place)]
        if len(files) != len(manifest.links) + 1:
            raise sealed_files.damaged_file_error(place, f"{_MODELS} does not have a model of each table")
        models = dict(zip(table_names(manifest.links), (Synthetic.read(file, place) for file in files), strict=True))
        return cls(manifest.links, models, manifest.price, manifest.receipt)

    def verify(self, ledger: Anchor | str | os.PathLike[str] | None = None) -> SynopsisVerification:
        """Verify each model against the charges of its steps, and that all together keep the price."""
        parts = [
            Check(f"{name}: {check.name}", check.holds, check.finding)
            for name, model in zip(self.names, self.models.values(), strict=True)
            for check in model.verify().checks
        ]
        lines = () if ledger is None else line_checks(self.receipt, ledger)
        return SynopsisVerification((*parts, self._check_price(), *lines))

    def _check_price(self) -> Check:
        prices = [model.released.price for model in self.models.values()]
        if self.is_preview or None in prices:
            return Check("promise", None, "nothing was bought: it was a preview on invented rows")
        gaussian = self.price.allows_gaussian
        amounts = [(price.rho if gaussian else price.epsilon) or Fraction(0) for price in prices if price is not None]
        is_kept = self._is_within_price(sum(amounts, Fraction(0))) and self.receipt.guarantee == str(self.price)
        return Check("promise", is_kept, f"{self.price} is {'kept' if is_kept else 'NOT kept'} by all together")

    def _is_within_price(self, amount: Fraction) -> bool:
        """Return whether so much ρ, or ε without a δ, is within the price: exactly, unless the price has a δ."""
        if self.price.rho is not None:
            return amount <= self.price.rho
        if not self.price.delta:
            return amount <= (self.price.epsilon or 0)
        return self.price.is_satisfied_by(Curve.concentrated(amount, Neighbours(self.receipt.neighbours)))

    def __repr__(self) -> str:
        """Summarize all tables, and the guarantee."""
        tables = table_names(self.links)
        totals = ", ".join(f"{model.total:,.0f} {table}" for table, model in self.models.items())
        lines = [
            f"synthetic  {', '.join(tables[:-1])} and {tables[-1]}",
            *(f"{table}  {summarize_columns(model.attributes)}" for table, model in self.models.items()),
            *map(_link_text, self.links),
            f"limits     {_limits_text(self.links)}, at most, of one unit",
            f"n̂          {totals}",
            f"promise    {'none: this was a preview on invented rows' if self.is_preview else self.price}",
            *(f"warning    {warning}" for warning in self.warnings),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return preformatted(repr(self)) + collapsed("receipt", preformatted(str(self.receipt)))


def _link_text(link: TableLink) -> str:
    keys = f"{link.parent}.{link.parent_key} = {link.child}.{link.child_key}"
    return f"link       {keys}; {link.child} are drawn given {', '.join(link.conditioning_columns)}"


def _limits_text(links: Sequence[TableLink]) -> str:
    limits = {links[0].parent: links[0].max_parents, **{link.child: link.max_children for link in links}}
    return ", ".join(f"{limit:,} of {table}" for table, limit in limits.items())
