"""A synthetic table: a model, and rows sampled from it, free and any number of them.

What was paid for are noisy marginals; the model, its rows, its answers and its quality are post-processing. Sampled
rows look like rows of the table but belong to nobody. A question about the people is better asked of the model than
counted over sampled rows: ``sql`` answers with a range for the truth, and states whether each number was measured or
bounded.

Quality is computed from noisy measurements alone, so it may be published with the model (``model_cards``).
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Sequence
from dataclasses import field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.html_fragments import collapsed, paragraph, preformatted, table
from sfumato.ledger import Anchor, Charged
from sfumato.mechanisms.bits import ByteSource
from sfumato.plan.descriptions import count_with_noun
from sfumato.plan.quoting import quoted
from sfumato.plan.sql.parameters import Parameters
from sfumato.plots.answers import draw_panels
from sfumato.plots.picture import Picture, save_if_path
from sfumato.privacy import Curve, Neighbours, codec
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, Number, exact, exact_integer
from sfumato.publish.cells import answering
from sfumato.publish.cells.answering import CellCondition
from sfumato.publish.files import model_files, sealed_files
from sfumato.publish.graph.models import GraphicalModel
from sfumato.publish.marginals.attributes import BARE, Attributes, ListedCell, summarize_columns
from sfumato.publish.marginals.blocks import Block, maximal_sets
from sfumato.publish.marginals.charge_verification import Check, SynopsisVerification, line_checks, step_cost
from sfumato.publish.marginals.estimating import BlockEstimates, least_squares
from sfumato.publish.marginals.group_totals import SynopsisEstimates
from sfumato.publish.model_cards import ModelCard, Quality, describe_model, model_quality
from sfumato.publish.row_rules import (
    NO_RULES,
    Conditions,
    Constraints,
    RowDrawer,
    RowRules,
    SampleReport,
    condition_model,
    parse_rules,
)
from sfumato.publish.row_writers import write_rows
from sfumato.publish.sampling import (
    Codes,
    ColumnSampler,
    SampledRows,
    remove_impossible_rows,
    sample_codes,
    seeded_bytes,
)
from sfumato.publish.scoring import CandidateScore
from sfumato.publish.synthesis.candidates import (
    deciding_cells,
    deciding_pairs,
    missing_value_cell,
    non_nullable_attributes,
    zeros_from_model,
)
from sfumato.publish.synthesis.released import ImpliedColumn, ReleasedSynthesis, SynthesisRound
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.answer_pictures import caption_lines, mark_notes
from sfumato.release.answers.receipts import Receipt
from sfumato.release.prices import Price
from sfumato.untrusted import refuse_malformed

if TYPE_CHECKING:
    import pandas
    import pyarrow


MAX_HELD = 20_000_000
"""The most rows held in memory; more are written to a file part by part."""
MAX_WRITTEN = 10**11
_MAX_JSON_CHARACTERS = 1 << 31
"""The most characters of a synthetic table's JSON text."""


@codec.serialisable("synthetic")
@dataclass(frozen=True)
class _SyntheticFile:
    """A synthetic table as it is written: its file, in base64."""

    file: str

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)


@codec.written_as("synthetic")
@dataclass(frozen=True, eq=False)
class Synthetic:
    """What was measured of a table, and the model fitted to it, from which rows are sampled."""

    released: ReleasedSynthesis = field(repr=False)
    model: GraphicalModel = field(repr=False)
    receipt: Receipt = field(repr=False)
    steps: tuple[Charged, ...] = field(default=(), repr=False)
    """Every charged step, in order."""

    @property
    def attributes(self) -> Attributes:
        """The columns of the model with their cells."""
        return self.released.attributes

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows."""
        return (*self.released.columns, *(implied.attribute.name for implied in self.released.implied))

    @property
    def is_preview(self) -> bool:
        """Whether the table was invented from the policy alone: nothing was read, charged or recorded."""
        return self.receipt.is_preview

    @property
    def guarantee(self) -> Price | None:
        """The guarantee of this release by itself: ε, (ε, δ) or ρ."""
        return self.released.price

    @property
    def rounds(self) -> tuple[SynthesisRound, ...]:
        """The rounds: what was chosen, at what price, and how much the model learned."""
        return self.released.rounds

    @property
    def total(self) -> float:
        """n̂, the noisy number of rows."""
        return self.released.total

    # ── rows ───────────────────────────────────────────────────────────────────────────────────

    def table(self, rows: int | None = None) -> pyarrow.Table:
        """Return rows as an Arrow table: without a number always the same n̂ rows, with one so many new rows."""
        return self._table if rows is None else self.sample(rows)

    @cached_property
    def _table(self) -> pyarrow.Table:
        return self.sample(self.default_rows)

    def sample(
        self,
        rows: int,
        *,
        conditions: Conditions | None = None,
        constraints: Constraints = (),
        seed: int | None = None,
    ) -> pyarrow.Table:
        """Sample so many new rows. This is free: post-processing of what was released (Dwork & Roth 2014, prop. 2.1).

        ``conditions={"ward": "ICU", "age": [70, 71]}`` fix columns, exactly by the model's law given them.
        ``constraints="discharge >= admission"``, or a list of such conditions in SQL, are broken by no row: rows that
        would are drawn again, within a bound. ``SampleReport.of(rows)`` tells how. The same ``seed`` draws the same
        rows from the same file and version; it never touches the noise, which was drawn before and cannot be seeded.
        """
        row_count = _row_count(rows)
        if row_count > MAX_HELD:
            fix = f'write them to a file with synthetic.write("rows.parquet", rows={row_count}) or sfumato sample'
            raise InvalidParameter(
                "rows", row_count, f"at most {MAX_HELD:,}, because the rows are kept in memory", fix=fix
            )
        import pyarrow

        drawer = self._row_drawer(conditions, constraints, seed)
        table = pyarrow.concat_tables(list(drawer.draw_parts(row_count)))
        return table if drawer.report is None else drawer.report.attach_to(table)

    def to_pandas(
        self,
        rows: int | None = None,
        *,
        conditions: Conditions | None = None,
        constraints: Constraints = (),
        seed: int | None = None,
    ) -> pandas.DataFrame:
        """Return the rows of ``table`` as a data frame, or rows of ``sample`` with its options; integers, booleans and
        dates keep their types beside missing values.
        """
        import pandas
        import pyarrow

        types = {pyarrow.int64(): pandas.Int64Dtype(), pyarrow.bool_(): pandas.BooleanDtype()}
        kinds = {**types, pyarrow.date32(): pandas.ArrowDtype(pyarrow.date32())}
        plain = rows is None and conditions is None and not constraints and seed is None
        row_count = self.default_rows if rows is None else rows
        drawn = (
            self._table if plain else self.sample(row_count, conditions=conditions, constraints=constraints, seed=seed)
        )
        return drawn.to_pandas(types_mapper=kinds.get)

    @property
    def default_rows(self) -> int:
        """n̂ as a whole number: the rows that are drawn if no number is given."""
        return max(1, round(self.total))

    def write(
        self,
        path: str | os.PathLike[str],
        rows: int | None = None,
        progress: Callable[[str], None] | None = None,
        *,
        conditions: Conditions | None = None,
        constraints: Constraints = (),
        seed: int | None = None,
    ) -> SampleReport | None:
        """Write rows to a Parquet, CSV, DuckDB or SQLite file part by part: any number of them, in little memory.

        Options are those of ``sample``; the report is returned if there are conditions or constraints. In a database
        the rows are a table of the private table's name.
        """
        row_count = self.default_rows if rows is None else _row_count(rows)
        drawer = self._row_drawer(conditions, constraints, seed)
        plain = rows is None and drawer.rules is None and seed is None and row_count <= MAX_HELD
        parts = [self._table] if plain else drawer.draw_parts(row_count)
        write_rows(path, parts, self._schema, self.released.table or "rows", row_count, progress)
        return drawer.report

    def _row_drawer(self, conditions: Conditions | None, constraints: Constraints, seed: int | None) -> RowDrawer:
        """Return what draws rows under these conditions and constraints; no row of the table is read for it."""
        source = None if seed is None else seeded_bytes(seed)
        if not conditions and not constraints and isinstance(constraints, (str, list, tuple)):
            return RowDrawer(self._part_drawer(self._conditionals, source, NO_RULES))
        rules = parse_rules(self._row_condition_table, self._row_columns, conditions, constraints)
        conditioned = condition_model(self.sampling_model, rules, self.released.implied, self.released.max_cells)
        draw = self._part_drawer(conditioned.model.conditionals(), source, rules)
        return RowDrawer(draw, rules, conditioned, self._row_condition_table, self._conditions)

    def _part_drawer(
        self, conditionals: Any, source: ByteSource | None, rules: RowRules
    ) -> Callable[[int], SampledRows]:
        """Return a function that draws so many rows: their cells, then values, which the policy may rule out."""
        columns = len(self.attributes)
        return lambda rows: self.typed_rows(sample_codes(conditionals, rows, columns, source), rules, source)

    def sample_cells(self, rows: int, source: ByteSource | None = None) -> Codes:
        """Sample the cells of so many rows, in the columns of the model."""
        return sample_codes(self._conditionals, rows, len(self.attributes), source)

    def typed_rows(self, cells: Codes, rules: RowRules = NO_RULES, source: ByteSource | None = None) -> SampledRows:
        """Return rows with these cells in the columns of the model: values of the policy's types, and derived columns
        too.
        """
        model_columns = len(self.attributes)
        codes = np.zeros((len(cells), len(self._row_columns)), np.int32, order="F")
        codes[:, :model_columns] = cells
        for attribute_index, implied in enumerate(self.released.implied, model_columns):
            codes[:, attribute_index] = np.array(implied.cells, np.int32)[codes[:, implied.by]]
        sampled = SampledRows.from_codes(self._row_columns, codes, source)
        for deciding, attribute_index in self._decided_binned_columns:
            sampled.set_to_cell_middles(attribute_index, deciding_cells(self.attributes, deciding)[codes[:, deciding]])
        rules.set_fixed_values(sampled, source)
        unchanged = rules.fixed_column_indices | {
            attribute_index for _, attribute_index in self._decided_binned_columns
        }
        remove_impossible_rows(sampled, self._conditions, self._row_condition_table, unchanged, source)
        rules.compute_values(sampled, self._row_condition_table)
        return sampled

    @property
    def _decided_binned_columns(self) -> list[tuple[int, int]]:
        """The binned columns that another column decides: all rows in one deciding cell have one value."""
        pairs = deciding_pairs(self.attributes, self.released.face)
        return [
            (deciding, attribute_index)
            for deciding, attribute_index in pairs
            if self._row_columns[attribute_index].has_bins
        ]

    @cached_property
    def sampling_model(self) -> GraphicalModel:
        """The distribution of sampled rows: the model, conditioned on no missing value in columns that the policy
        does not call nullable. Missing or unlisted values are redistributed over the declared cells, given the other
        columns. A column that decides another decides it here too, even if the model was fitted by an older version,
        or interrupted, before that was enforced.
        """
        required = non_nullable_attributes(self.released.face)
        pairs = deciding_pairs(self.attributes, self.released.face)
        held_pairs = tuple(pair for pair in pairs if self.model.tree.clique_index_with(pair) is not None)
        decided = zeros_from_model(self.model, self.attributes, held_pairs, required=required)
        missing = [missing_value_cell(self.attributes, attribute_index) for attribute_index in required]
        conditioned = self.model.conditioned_on_zeros([*missing, *decided])
        try:
            conditioned.conditionals()
        except InvalidParameter:  # the policy's impossible cells leave only rows with a missing value
            return self.model
        return conditioned

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for declared pairs of which the first column does not decide the second in every sampled row, and
        why.
        """
        index_by_name = {attribute.name: attribute_index for attribute_index, attribute in enumerate(self.attributes)}
        pairs = [pair for pair in self.released.face.implies if index_by_name.keys() >= {*pair}]
        reasons = [
            self._undetermined_reason(index_by_name[deciding], index_by_name[decided]) for deciding, decided in pairs
        ]
        pairs_and_reasons = zip(pairs, reasons, strict=True)
        return tuple(
            f"{deciding} does not determine {decided} in every row: {reason}"
            for (deciding, decided), reason in pairs_and_reasons
            if reason
        )

    def _undetermined_reason(self, deciding: int, decided: int) -> str:
        """Return why sampled rows may have several values of the second column for one of the first; empty if they
        do not.
        """
        if not deciding_cells(self.attributes, deciding)[:-1].all():  # the last cell holds missing values
            return f"bins of {self.attributes[deciding].name} hold several values"
        if self.model.tree.clique_index_with((deciding, decided)) is None:
            return "the model does not hold both together"
        return (
            "the conditions listed as impossible in the policy leave no such row"
            if self.sampling_model is self.model
            else ""
        )

    @cached_property
    def _conditionals(self) -> Any:
        return self.sampling_model.conditionals()

    @cached_property
    def _row_condition_table(self) -> answering.QueryableTable:
        """What conditions on whole rows see: implied columns too."""
        implied = tuple(column.attribute for column in self.released.implied)
        domains = (*self.released.face.domains_for(self.attributes), *BARE.domains_for(implied))
        not_needed: Any = None
        return answering.QueryableTable(
            self.released.table or "rows", (*self.attributes, *implied), domains, not_needed, not_needed
        )

    @cached_property
    def _row_columns(self) -> tuple[ColumnSampler, ...]:
        return tuple(
            ColumnSampler.for_attribute(*pair)
            for pair in zip(self._row_condition_table.attributes, self._row_condition_table.domains, strict=True)
        )

    @property
    def _schema(self) -> pyarrow.Schema:
        return (
            SampledRows.from_codes(self._row_columns, np.zeros((0, len(self._row_columns)), np.int32)).to_arrow().schema
        )

    @cached_property
    def _conditions(self) -> tuple[CellCondition, ...]:
        """The conditions that the policy says no row meets; those on columns that are not here are left out."""
        conditions = []
        for declared in self.released.face.impossible:
            try:
                conditions.append(answering.parse_condition(self._row_condition_table, declared))
            except Unsupported:
                continue
        return tuple(conditions)

    # ── questions ──────────────────────────────────────────────────────────────────────────────

    @cached_property
    def estimates(self) -> BlockEstimates:
        """The estimates from all that was measured."""
        return least_squares(self.attributes, (), self.released.measured)

    @cached_property
    def _synopsis_estimates(self) -> SynopsisEstimates:
        sets = maximal_sets([(), *self.released.sets])
        return SynopsisEstimates(
            self.estimates,
            tuple(sets),
            self._first_measurement_precisions(),
            lambda requested: self.model.marginal(requested),
        )

    def _first_measurement_precisions(self) -> dict[Block, float] | None:
        """Return a precision for every block that was fixed before its noise was drawn: that of the first
        measurement after the number of rows, and for the total that of the number of rows. None if everything was
        planned.
        """
        measured = self.released.measured
        if self.released.method == "independent" and self.released.complete:
            return None
        first_precision = 1 / measured[min(1, len(measured) - 1)].variance
        return {block: 1 / measured[0].variance if block == () else first_precision for block in self.estimates.parts}

    @cached_property
    def face(self) -> answering.QueryableTable:
        """What questions in SQL see of the model."""
        domains = self.released.face.domains_for(self.attributes)
        face_fields = self.released.table or "rows", self.attributes, domains, self._synopsis_estimates, self.receipt
        decided = {implied.attribute.name: (implied.by, _implied_texts(implied)) for implied in self.released.implied}
        return answering.QueryableTable(*face_fields, self.released.where, decided)

    def sql(
        self,
        question: str,
        parameters: Parameters | None = None,
        *,
        confidence: Number = DEFAULT_CONFIDENCE,
        together: bool = False,
    ) -> Answer:
        """Answer a question in SQL about the people, from what was measured: free, and any number of times.

        Each number states its basis: measured, with a range that holds although earlier noise decided what was
        measured, or bounded, with the model's estimate inside. No row is sampled for it.
        """
        return answering.answer_sql(self.face, question, parameters, confidence=confidence, together=together)

    def quality(self, *, confidence: Number = DEFAULT_CONFIDENCE) -> Quality:
        """Estimate the distance of sampled rows from the truth, on every marginal that was measured. This is free and
        as public as the model: it is computed from noisy numbers alone.

        Sampled rows have no missing values in columns that are not nullable; missing values of the table count as a
        difference there.
        """
        confidence_level = exact(confidence, "confidence", CONFIDENCE)
        _, noise = self._synopsis_estimates.totals_and_errors(np.ones(()), (), (), ())
        middle, width = float(self._synopsis_estimates.marginal(())), float(noise.width(1 - float(confidence_level), 1))
        ends = max(0.0, middle - width), max(0.0, middle) + width
        return model_quality(self.sampling_model, self.released.columns, self.released.measured, ends, confidence_level)

    def card(
        self,
        *,
        name: str = "",
        description: str = "",
        licence: str = "",
        contact: str = "",
        scores: Sequence[CandidateScore] = (),
    ) -> ModelCard:
        """Describe what was measured, its price, errors and limits, to publish with the rows. Free: it is computed from
        what was released. ``card.save("card.html")`` writes HTML, Markdown or JSON; ``scores`` were bought of rows of
        this model: ``curator.score(rows).release(epsilon=0.1)``.
        """
        measured = self.released, self.quality(), self.receipt
        facts = describe_model(*measured, charged=bool(self.steps), warnings=self.warnings, scores=scores)
        return facts.with_texts(name, description, licence, contact)

    def plot(self, path: str | None = None) -> Picture:
        """Plot the counts of each column with their ranges; with a path (.svg, .png, .html) the picture is saved
        too.
        """
        column_names = [
            attribute.name
            for attribute in self.attributes
            if self._synopsis_estimates.covers((self.attributes.index(attribute),))
        ]
        table = quoted(self.face.table)
        answers = [
            self.sql(f"SELECT {quoted(name)}, COUNT(*) AS {_count_column_name(name)} FROM {table} GROUP BY 1")
            for name in column_names
        ]
        charts = [answer.chart_data(answer.columns[-1]) for answer in answers]
        return save_if_path(
            draw_panels(charts, "Counts of each column", caption_lines(self.receipt), mark_notes(charts)), path
        )

    # ── as other things ────────────────────────────────────────────────────────────────────────

    def to_json(self) -> str:
        """Serialize the whole table as JSON text: its file, in base64."""
        return codec.dumps(_SyntheticFile(base64.b64encode(self.to_bytes()).decode()))

    def to_bytes(self) -> bytes:
        """Return the bytes of the table's file."""
        return model_files.to_bytes((self.released, self.model, self.steps, self.receipt))

    @classmethod
    def from_json(cls, source: str) -> Synthetic:
        """Parse the text that ``to_json`` wrote, without the buyer's remaining budget; any other text is refused."""
        written = codec.loads_as(_SyntheticFile, source, longest=_MAX_JSON_CHARACTERS)
        with refuse_malformed(lambda: InvalidParameter("file", written.file, "the bytes of a file in base64")):
            return cls.read(base64.b64decode(written.file, validate=True), "the JSON text")

    @classmethod
    def read(cls, content: bytes, place: str) -> Synthetic:
        """Read a synthetic table from the bytes of its file; an edited file is refused."""
        released, model, steps, receipt = model_files.read(content, place)
        return cls(released, model, receipt, steps)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file, which ``sf.synopsis(path)`` reads without data, curator or ledger."""
        sealed_files.write_atomically(self.to_bytes(), path)

    def verify(self, ledger: Anchor | str | os.PathLike[str] | None = None) -> SynopsisVerification:
        """Verify the guarantee against the sum of the steps' charges, and the ledger line in an export or an anchor
        of the ledger.
        """
        checks = _check_charge(self.released, self.steps, self.receipt)
        return SynopsisVerification((*checks, *(() if ledger is None else line_checks(self.receipt, ledger))))

    def __repr__(self) -> str:
        """Summarize what was released, and the guarantee."""
        released = self.released
        ended = "" if released.complete else ", ended early"
        cells = self.model.tree.cell_count(self.model.sizes)
        lines = [
            f"synthetic  {released.table}{f', where {released.where}' if released.where else ''}, by {released.method}",
            f"columns    {summarize_columns(self.attributes)}",
            *(
                f"           {implied.attribute.name}, which {self.attributes[implied.by].name} determines"
                for implied in released.implied
            ),
            *(f"cells      {cells.column}: {cells.words}" for cells in released.bought_cells),
            f"measured   {count_with_noun(len(released.sets), 'marginal')} in "
            f"{count_with_noun(len(released.rounds), 'round')}{ended}; "
            f"n̂ = {self.total:,.0f} rows",
            f"model      {count_with_noun(cells, 'cell')} in {count_with_noun(len(self.model.tree.cliques), 'clique')}",
            f"promise    {self.guarantee if self.steps else 'none: this was a preview on invented rows'}",
            *(f"warning    {warning}" for warning in self.warnings),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        first_rows = self._table.slice(0, 5)
        rows = [["" if cell is None else str(cell) for cell in row.values()] for row in first_rows.to_pylist()]
        sample_html = paragraph("Sampled rows, none of them a real person's:") + table(first_rows.column_names, rows)
        return preformatted(repr(self)) + sample_html + collapsed("receipt", preformatted(str(self.receipt)))


def _implied_texts(column: ImpliedColumn) -> tuple[str | None, ...]:
    """Return the text of an implied column for each cell of the deciding column."""
    texts = [
        str(implied_cell.value) if isinstance(implied_cell, ListedCell) else None
        for implied_cell in column.attribute.cells
    ]
    return tuple(texts[cell] for cell in column.cells)


def _count_column_name(name: str) -> str:
    return "count_" if name.lower() == "count" else "count"


def _row_count(rows: int) -> int:
    count = exact_integer(rows, "rows", at_least=1)
    if count > MAX_WRITTEN:
        raise InvalidParameter("rows", rows, f"a number up to {MAX_WRITTEN:,}")
    return count


# ── checking ───────────────────────────────────────────────────────────────────────────────────


def _check_charge(released: ReleasedSynthesis, steps: tuple[Charged, ...], receipt: Receipt) -> list[Check]:
    """Recompute the charge: Σρ of the steps under a price with δ or ρ, Σε under a pure one."""
    price = released.price
    if price is None or not steps:
        return [Check("charge", None, "nothing was bought: it was a preview on invented rows")]
    costs = [step_cost(step, pure=not price.allows_gaussian) for step in steps]
    if None in costs:
        return [Check("charge", None, "a step has a mechanism whose price cannot be added up")]
    cost = sum((step_charge for step_charge in costs if step_charge is not None), start=Fraction(0))
    curve = (Curve.concentrated if price.allows_gaussian else Curve.pure)(cost, Neighbours(receipt.neighbours))
    is_kept = price.is_satisfied_by(curve)
    unit = "ρ" if price.allows_gaussian else "ε"
    noises = [step.mechanism for step in steps if step.sensitivity is not None]
    sizes = [getattr(noise, "scale" if released.has_laplace_noise else "sigma", None) for noise in noises]
    same_noise = sizes == released.noise_sizes
    same_price = receipt.guarantee == str(price) and released.purchase.price in ("", str(price))
    return [
        Check("charge", same_noise, f"{unit} = {float(cost):.6g}, from {len(steps):,} steps"),
        Check("promise", is_kept, f"{price} is {'kept' if is_kept else 'NOT kept'} by that charge"),
        Check("receipt", same_price, f"it promises {receipt.guarantee}"),
    ]
