"""Synthetic tables that belong together: their models, and rows drawn from them, free and any number of them."""

from __future__ import annotations

import os
from dataclasses import field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.ledger import Anchor
from sfumato.notebook_html import collapsed, preformatted
from sfumato.plan.descriptions import count_with_noun
from sfumato.plan.sql.linked_views import LinkedView, asked_table, fold_join
from sfumato.plan.sql.parameters import Parameters
from sfumato.plan.sql.statements import lower_query
from sfumato.plan.sql.text import parse_select
from sfumato.privacy import Curve, Neighbours, codec
from sfumato.privacy.numbers import Number, exact_integer
from sfumato.publish.cells import answering
from sfumato.publish.files.synopsis_files import public_receipt
from sfumato.publish.linked.drawing import LinkedModels
from sfumato.publish.linked.links import TableLink
from sfumato.publish.marginals.attributes import summarize_columns
from sfumato.publish.marginals.verifying import Check, SynopsisVerification, line_checks
from sfumato.publish.model_quality import Quality
from sfumato.publish.synthetic import MAX_HELD, Synthetic
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.receipts import Receipt
from sfumato.release.prices import Price
from sfumato.untrusted import refuse_malformed

if TYPE_CHECKING:
    import pandas
    import pyarrow

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

    def __post_init__(self) -> None:
        codec.check_fields(self)


@codec.written_as("synthetic-tables")
@dataclass(frozen=True, eq=False)
class SyntheticTables:
    """Models of a parent and a child table, from which linked rows are drawn."""

    link: TableLink
    parent: Synthetic = field(repr=False)
    """The parent's columns and the number of children of each parent."""
    child: Synthetic = field(repr=False)
    """The child's columns, given columns of its parent."""
    price: Price
    """The guarantee of both models together."""
    receipt: Receipt = field(repr=False)
    other_names: tuple[str, str] | None = None
    """What rows and questions call the tables instead (``renamed``)."""

    @property
    def names(self) -> tuple[str, str]:
        """The names of the tables, parent first."""
        return self.other_names or (self.link.parent, self.link.child)

    def renamed(self, parent: str, child: str) -> SyntheticTables:
        """Return the same tables under other names, for rows and questions."""
        names = parent, child
        return replace(
            self,
            parent=_with_table_name(self.parent, parent),
            child=_with_table_name(self.child, child),
            other_names=names,
        )

    @property
    def is_preview(self) -> bool:
        """Whether the tables were invented from the policy alone: nothing was read, charged or recorded."""
        return self.receipt.is_preview

    # ── rows ───────────────────────────────────────────────────────────────────────────────────

    def tables(self, parents: int | None = None) -> dict[str, pyarrow.Table]:
        """Return both tables as Arrow tables by name: without a number always the same n̂ parents with their children,
        with one so many new parents with theirs.
        """
        return self._tables if parents is None else self.draw(parents)

    @cached_property
    def _tables(self) -> dict[str, pyarrow.Table]:
        return self.draw(max(1, round(self.parent.total)))

    def draw(self, parents: int) -> dict[str, pyarrow.Table]:
        """Draw so many new parents and their children. This is free."""
        count = exact_integer(parents, "parents", at_least=1)
        children_per_parent = max(1.0, self.child.total / self.parent.total)
        if count > (max_parents := int(MAX_HELD / children_per_parent)):
            raise InvalidParameter(
                "parents", count, f"a number up to {max_parents:,}, so that all children fit in memory"
            )
        drawn = LinkedModels(self.link, self.parent, self.child).draw(count)
        return {name: drawn[table] for name, table in zip(self.names, (self.link.parent, self.link.child), strict=True)}

    def __getitem__(self, name: str) -> pyarrow.Table:
        """Return one of the tables."""
        if name not in self.names:
            raise InvalidParameter("name", name, " or ".join(self.names))
        return self._tables[name]

    def to_pandas(self, parents: int | None = None) -> dict[str, pandas.DataFrame]:
        """Return both tables as data frames by name; integers and booleans keep their types beside missing values."""
        import pandas
        import pyarrow

        types = {pyarrow.int64(): pandas.Int64Dtype(), pyarrow.bool_(): pandas.BooleanDtype()}
        kinds = {**types, pyarrow.date32(): pandas.ArrowDtype(pyarrow.date32())}
        return {name: rows.to_pandas(types_mapper=kinds.get) for name, rows in self.tables(parents).items()}

    def write(self, folder: str | os.PathLike[str], format: str = "parquet", *, parents: int | None = None) -> None:  # noqa: A002
        """Write each table to a file of its name in a folder, which is created: Parquet or CSV."""
        if format not in _FILE_FORMATS:
            raise InvalidParameter("format", format, f"one of {', '.join(_FILE_FORMATS)}")
        from pyarrow import csv, parquet

        writer = parquet.write_table if format == "parquet" else csv.write_csv
        target = Path(folder)
        try:
            target.mkdir(parents=True, exist_ok=True)
            for name, rows in self.tables(parents).items():
                writer(rows, target / f"{name}.{format}")
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            fix = "name a folder that you can write to"
            raise InvalidParameter(
                "folder", str(folder), f"a folder that can be written ({reason})", fix=fix
            ) from error

    # ── questions ──────────────────────────────────────────────────────────────────────────────

    def sql(
        self,
        question: str,
        parameters: Parameters | None = None,
        *,
        confidence: Number = "0.95",
        together: bool = False,
    ) -> Answer:
        """Answer a question in SQL about either table, or about children joined to their parents, from what was
        measured: free, and any number of times. Each number states its basis, as for one table.

        The number of children is a column of the parents, such as ``"number of visits"``.
        """
        models = dict(zip(self.names, (self.parent, self.child), strict=True))
        column_names = [name for model in models.values() for name in model.columns]
        statement = parse_select(question, parameters, column_names)
        face = models[asked_table(statement, self._view)].face
        query = lower_query(fold_join(statement, self._view), face.catalog)
        return answering.answer_query(face, query, question, confidence=confidence, together=together)

    @property
    def _view(self) -> LinkedView:
        link = self.link
        names = {column.lower(): link.linked_name(column) for column in link.linked_columns}
        names[link.count_column.lower()] = link.count_column
        keys = link.parent_key, link.child_key
        return LinkedView(*self.names, *keys, frozenset(map(str.lower, link.child_columns)), names)

    def quality(self, *, confidence: Number = "0.95") -> dict[str, Quality]:
        """Estimate the distance of each model from the truth, by table: free, and as public as the models."""
        return {
            self.link.parent: self.parent.quality(confidence=confidence),
            self.link.child: self.child.quality(confidence=confidence),
        }

    # ── as other things ────────────────────────────────────────────────────────────────────────

    def to_json(self) -> str:
        """Serialize both models, their link and the receipt as JSON text."""
        return codec.dumps(
            _SyntheticTablesFile(
                self.link, self.parent.to_json(), self.child.to_json(), self.price, public_receipt(self.receipt)
            )
        )

    @classmethod
    def from_json(cls, source: str) -> SyntheticTables:
        """Parse the text that ``to_json`` wrote; any other text is refused."""
        written = codec.loads_as(_SyntheticTablesFile, source, longest=_MAX_JSON_CHARACTERS)
        fix = "pass the text that SyntheticTables.to_json() returned"
        with refuse_malformed(lambda: InvalidParameter("source", source, "synthetic tables as JSON", fix=fix)):
            parent, child = Synthetic.from_json(written.parent), Synthetic.from_json(written.child)
            return cls(written.link, parent, child, written.price, written.receipt)

    def verify(self, ledger: Anchor | str | os.PathLike[str] | None = None) -> SynopsisVerification:
        """Verify each model against the charges of its steps, and that both together keep the price."""
        parts = [
            Check(f"{name}: {check.name}", check.holds, check.found)
            for name, model in zip(self.names, (self.parent, self.child), strict=True)
            for check in model.verify().checks
        ]
        lines = () if ledger is None else line_checks(self.receipt, ledger)
        return SynopsisVerification((*parts, self._check_price(), *lines))

    def _check_price(self) -> Check:
        prices = [model.released.price for model in (self.parent, self.child)]
        if self.is_preview or None in prices:
            return Check("promise", None, "nothing was bought: it was a preview on invented rows")
        gaussian = self.price.allows_gaussian
        amounts = [(price.rho if gaussian else price.epsilon) or Fraction(0) for price in prices if price is not None]
        is_kept = self._keeps_price(sum(amounts, Fraction(0))) and self.receipt.guarantee == str(self.price)
        return Check("promise", is_kept, f"{self.price} is {'kept' if is_kept else 'NOT kept'} by both together")

    def _keeps_price(self, amount: Fraction) -> bool:
        """Return whether so much ρ, or ε without a δ, is within the price: exactly, unless the price has a δ."""
        if self.price.rho is not None:
            return amount <= self.price.rho
        if not self.price.delta:
            return amount <= (self.price.epsilon or 0)
        return self.price.kept_by(Curve.concentrated(amount, Neighbours(self.receipt.neighbours)))

    def __repr__(self) -> str:
        """Summarize both tables, and the guarantee."""
        link = self.link
        given = ", ".join(self.link.given_names)
        lines = [
            f"synthetic  {link.parent} and {link.child}, by {link.parent}.{link.parent_key} = "
            f"{link.child}.{link.child_key}",
            f"{link.parent}  {summarize_columns(self.parent.attributes)}",
            f"{link.child}  {summarize_columns(self.child.attributes)}; drawn given {given}",
            f"limits     {count_with_noun(link.max_parents, 'parent')} and "
            f"{link.max_children:,} of their children, at most, of one unit",
            f"n̂          {self.parent.total:,.0f} parents, {self.child.total:,.0f} children",
            f"promise    {'none: this was a preview on invented rows' if self.is_preview else self.price}",
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return preformatted(repr(self)) + collapsed("receipt", preformatted(str(self.receipt)))
