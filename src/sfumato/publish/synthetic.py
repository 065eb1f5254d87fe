"""A synthetic table: a model, and rows sampled from it, free and any number of them.

What was paid for are noisy marginals; the model, its rows, its answers and its quality are post-processing. Sampled
rows look like rows of the table but belong to nobody. A question about the people is better asked of the model than
counted over sampled rows: ``sql`` answers with a range for the truth, and states whether each number was measured or
bounded.

Quality is computed from noisy measurements alone, so it may be published with the model.

For every measured marginal, the distance between the truth and the model is ½‖m − M‖₁/n̂, the share of rows that are
in another cell (total variation). The measured counts y = m + Z bound it: it is within ½‖Z‖₁/n̂ of ½‖y − M‖₁/n̂,
however the model was fitted (``half_widths``). The estimate subtracts the mean of ‖Z‖₁: a model that fits the truth
leaves only the noise, and has a distance near 0. Nothing is known of marginals that were not measured.
"""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.ledger import Anchor, Charged
from sfumato.notebook_html import collapsed, paragraph, preformatted, table
from sfumato.plan.descriptions import count_with_noun
from sfumato.plan.quoting import quoted
from sfumato.plan.sql.parameters import Parameters
from sfumato.plots.answers import draw_panels
from sfumato.plots.picture import Picture, save_if_path
from sfumato.privacy import Curve, Neighbours, codec
from sfumato.privacy.numbers import CONFIDENCE, Number, exact, exact_integer, format_exact, format_percent
from sfumato.publish.cells import answering
from sfumato.publish.cells.answering import CellCondition
from sfumato.publish.files import model_files
from sfumato.publish.graph.models import GraphicalModel
from sfumato.publish.marginals.attributes import Attributes, ListedCell, summarize_columns
from sfumato.publish.marginals.blocks import AttributeSet, Block, maximal
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.marginals.estimating import Estimates, MeasuredMarginal, least_squares
from sfumato.publish.marginals.faces import BARE
from sfumato.publish.marginals.group_totals import SynopsisEstimates
from sfumato.publish.marginals.half_widths import noise_l1_bounds
from sfumato.publish.marginals.verifying import Check, SynopsisVerification, line_checks, step_cost
from sfumato.publish.sampling import MAX_AT_ONCE, ColumnSampler, SampledRows, remove_impossible_rows, sample_codes
from sfumato.publish.synthesis.implications import (
    deciding_cells,
    deciding_pairs,
    last_cell,
    required_places,
    zeros_from_model,
)
from sfumato.publish.synthesis.released import ImpliedColumn, ReleasedSynthesis, SynthesisRound
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.answer_pictures import caption_lines, notes
from sfumato.release.answers.receipts import Receipt
from sfumato.release.prices import Price
from sfumato.untrusted import refuse_malformed

if TYPE_CHECKING:
    import pandas
    import pyarrow


_MAX_LISTED_MARGINALS = 12


@dataclass(frozen=True)
class MarginalQuality:
    """The distance between the model and the truth on one measured marginal."""

    columns: tuple[str, ...]
    cells: int
    noise: float
    """The standard deviation of the noise in each cell, in rows."""
    distance: float
    """The estimated share of rows that are in another cell, with the mean effect of noise subtracted."""
    low: float
    """The lower end of the distance."""
    high: float
    """The upper end of the distance."""


@dataclass(frozen=True)
class Quality:
    """The quality of a model, computed from what was released alone: as public as the model."""

    marginals: tuple[MarginalQuality, ...]
    unmeasured: tuple[tuple[str, str], ...]
    """Pairs of columns that were never measured together: the model infers their dependence from others."""
    rows: int
    """The default number of sampled rows."""
    total: float
    """n̂, the noisy number of rows."""
    total_range: tuple[float, float]
    """The ends between which the true number of rows lies."""
    confidence: str

    @property
    def worst(self) -> MarginalQuality | None:
        """The marginal with the largest distance."""
        return max(self.marginals, key=lambda marginal: marginal.distance, default=None)

    def to_pandas(self) -> pandas.DataFrame:
        """Return one row for each measured marginal."""
        import pandas

        names = ("columns", "cells", "noise", "distance", "low", "high")
        rows = [
            [" × ".join(marginal.columns), *(getattr(marginal, name) for name in names[1:])]
            for marginal in self.marginals
        ]
        return pandas.DataFrame(rows, columns=list(names))

    def __str__(self) -> str:
        low, high = self.total_range
        lines = [
            f"rows        {self.rows:,} drawn; n̂ = {self.total:,.0f}, the truth between {low:,.0f} and {high:,.0f}",
            f"measured    in {count_with_noun(len(self.marginals), 'round')}; share of rows in another "
            "cell than in the data, corrected for noise:",
        ]
        worst_first = sorted(self.marginals, key=lambda marginal: -marginal.distance)[:_MAX_LISTED_MARGINALS]
        name_width = max((len(" × ".join(marginal.columns)) for marginal in worst_first), default=0)
        for marginal in worst_first:
            padded_name = f"{' × '.join(marginal.columns):<{name_width}}"
            ends = f"{percent_of(marginal.low)} to {percent_of(marginal.high)}"
            lines.append(f"  {padded_name}  {percent_of(marginal.distance):>6}  {ends:>16}  {marginal.cells:,} cells")
        if len(self.marginals) > len(worst_first):
            lines.append(f"  and {len(self.marginals) - len(worst_first):,} with smaller distances")
        lines.append(f"unmeasured  {count_with_noun(len(self.unmeasured), 'pair')} of columns{self._unmeasured}")
        return "\n".join([*lines, f"Each range covers the noise with {format_percent(self.confidence)} confidence."])

    @property
    def _unmeasured(self) -> str:
        pairs = ", ".join(" × ".join(pair) for pair in self.unmeasured[:5])
        return f": {pairs}{', …' if len(self.unmeasured) > 5 else ''}" if pairs else ""

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def percent_of(share: float) -> str:
    """Format a share as a percentage with one decimal, capped at 100 %."""
    return f"{100 * share:.1f} %" if share < 1 else "100 %"


def model_quality(
    model: GraphicalModel,
    names: Sequence[str],
    measured: Sequence[MeasuredMarginal],
    total_range: tuple[float, float],
    confidence: Fraction,
) -> Quality:
    """Compare a model with every marginal that was measured."""
    marginals = [marginal for marginal in measured if marginal.places]
    sets = list(dict.fromkeys(marginal.places for marginal in marginals))
    modelled = dict(zip(sets, model.marginals(sets), strict=True))
    qualities = tuple(
        _compare_marginal(marginal, modelled[marginal.places], names, model.total, 1 - float(confidence))
        for marginal in marginals
    )
    rows = max(1, round(model.total))
    return Quality(qualities, _unmeasured(names, sets), rows, model.total, total_range, format_exact(confidence))


def _compare_marginal(
    measured: MeasuredMarginal, modelled: Floats, names: Sequence[str], total: float, beta: float
) -> MarginalQuality:
    step = float(measured.unit_value)
    observed_distance = float(np.abs(measured.values * step - modelled).sum())
    mean, largest_noise = noise_l1_bounds(measured.values.size, float(measured.size), beta, laplace=measured.laplace)
    share = 1 / (2 * total)
    ends = (
        max(0.0, (observed_distance - largest_noise * step) * share),
        (observed_distance + largest_noise * step) * share,
    )
    distance = min(max((observed_distance - mean * step) * share, ends[0]), ends[1])
    columns = tuple(names[place] for place in measured.places)
    return MarginalQuality(columns, measured.values.size, math.sqrt(measured.variance), distance, *ends)


def _unmeasured(names: Sequence[str], sets: Sequence[AttributeSet]) -> tuple[tuple[str, str], ...]:
    measured_pairs = {pair for measured_set in sets for pair in combinations(sorted(measured_set), 2)}
    return tuple((names[a], names[b]) for a, b in combinations(range(len(names)), 2) if (a, b) not in measured_pairs)


MAX_HELD = 20_000_000
"""The most rows held in memory; more are written to a file part by part."""
MAX_WRITTEN = 10**11
_ROWS_PER_PART = MAX_AT_ONCE
_ROW_FILE_SUFFIXES = (".parquet", ".csv")
_MAX_JSON_CHARACTERS = 1 << 31
"""The most characters of a synthetic table's JSON text."""


@codec.serialisable("synthetic")
@dataclass(frozen=True)
class _SyntheticFile:
    """A synthetic table as it is written: its file, in base64."""

    file: str

    def __post_init__(self) -> None:
        codec.check_fields(self)


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
        return self.sample(max(1, round(self.total)))

    def sample(self, rows: int) -> pyarrow.Table:
        """Sample so many new rows. This is free."""
        row_count = _row_count(rows)
        if row_count > MAX_HELD:
            fix = f'write them to a file: synthetic.write("rows.parquet", rows={row_count}), or sfumato sample'
            raise InvalidParameter("rows", row_count, f"a number up to {MAX_HELD:,}, the most rows in memory", fix=fix)
        import pyarrow

        return pyarrow.concat_tables(list(self._parts(row_count)))

    def to_pandas(self, rows: int | None = None) -> pandas.DataFrame:
        """Return the rows of ``table`` as a data frame; integers, booleans and dates keep their types beside missing
        values.
        """
        import pandas
        import pyarrow

        types = {pyarrow.int64(): pandas.Int64Dtype(), pyarrow.bool_(): pandas.BooleanDtype()}
        kinds = {**types, pyarrow.date32(): pandas.ArrowDtype(pyarrow.date32())}
        return self.table(rows).to_pandas(types_mapper=kinds.get)

    def write(
        self, path: str | os.PathLike[str], rows: int | None = None, progress: Callable[[str], None] | None = None
    ) -> None:
        """Write rows to a Parquet or a CSV file part by part: any number of them, in little memory."""
        target = rows_file_path(path)
        row_count = round(max(1.0, self.total)) if rows is None else _row_count(rows)
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        try:
            with _writer(partial, target.suffix.lower(), self._schema) as writer:
                rows_written = 0
                for part in [self._table] if rows is None and row_count <= MAX_HELD else self._parts(row_count):
                    writer.write_table(part)
                    rows_written += part.num_rows
                    if progress is not None:
                        progress(f"{rows_written:,} of {row_count:,} rows")
            partial.replace(target)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            fix = "name a file in an existing folder that you can write to"
            raise InvalidParameter("path", str(target), f"a file that can be written ({reason})", fix=fix) from error
        finally:
            partial.unlink(missing_ok=True)

    def _parts(self, rows: int) -> Iterator[pyarrow.Table]:
        for start in range(0, rows, _ROWS_PER_PART):
            yield self._draw_part(min(_ROWS_PER_PART, rows - start))

    def _draw_part(self, rows: int) -> pyarrow.Table:
        codes = np.zeros((rows, len(self._row_columns)), np.int32, order="F")
        model_columns = len(self.attributes)
        codes[:, :model_columns] = sample_codes(self._conditionals, rows, model_columns)
        for place, implied in enumerate(self.released.implied, model_columns):
            codes[:, place] = np.array(implied.cells, np.int32)[codes[:, implied.by]]
        sampled = SampledRows.of(self._row_columns, codes)
        for deciding, place in self._decided_bins:
            sampled.set_to_middles(place, deciding_cells(self.attributes, deciding)[codes[:, deciding]])
        remove_impossible_rows(
            sampled, self._conditions, self._row_face, fixed={place for _, place in self._decided_bins}
        )
        return sampled.to_arrow()

    @property
    def _decided_bins(self) -> list[tuple[int, int]]:
        """The binned columns that another column decides: all rows in one deciding cell have one value."""
        pairs = deciding_pairs(self.attributes, self.released.face)
        return [(deciding, place) for deciding, place in pairs if self._row_columns[place].binned]

    @cached_property
    def sampling_model(self) -> GraphicalModel:
        """The distribution of sampled rows: the model, conditioned on no missing value in columns that the policy
        does not call nullable. Missing or unlisted values are redistributed over the declared cells, given the other
        columns. A column that decides another decides it here too, even if the model was fitted by an older version,
        or interrupted, before that was enforced.
        """
        required = required_places(self.released.face)
        pairs = deciding_pairs(self.attributes, self.released.face)
        held_pairs = tuple(pair for pair in pairs if self.model.tree.holding(pair) is not None)
        decided = zeros_from_model(self.model, self.attributes, held_pairs, required=required)
        missing = [last_cell(self.attributes, place) for place in required]
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
        places = {attribute.name: place for place, attribute in enumerate(self.attributes)}
        pairs = [pair for pair in self.released.face.implies if places.keys() >= {*pair}]
        reasons = [self._why_undecided(places[deciding], places[decided]) for deciding, decided in pairs]
        pairs_and_reasons = zip(pairs, reasons, strict=True)
        return tuple(
            f"{deciding} does not determine {decided} in every row: {reason}"
            for (deciding, decided), reason in pairs_and_reasons
            if reason
        )

    def _why_undecided(self, deciding: int, decided: int) -> str:
        """Return why sampled rows may have several values of the second column for one of the first; empty if they
        do not.
        """
        if not deciding_cells(self.attributes, deciding)[:-1].all():  # the last cell holds missing values
            return f"bins of {self.attributes[deciding].name} hold several values"
        if self.model.tree.holding((deciding, decided)) is None:
            return "the model does not hold both together"
        return "the policy's impossible conditions leave no such row" if self.sampling_model is self.model else ""

    @cached_property
    def _conditionals(self) -> Any:
        return self.sampling_model.conditionals()

    @cached_property
    def _row_face(self) -> answering.QueryableTable:
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
            ColumnSampler.of(*pair) for pair in zip(self._row_face.attributes, self._row_face.domains, strict=True)
        )

    @property
    def _schema(self) -> pyarrow.Schema:
        return SampledRows.of(self._row_columns, np.zeros((0, len(self._row_columns)), np.int32)).to_arrow().schema

    @cached_property
    def _conditions(self) -> tuple[CellCondition, ...]:
        """The conditions that the policy says no row meets; those on columns that are not here are left out."""
        conditions = []
        for declared in self.released.face.impossible:
            try:
                conditions.append(answering.parse_condition(self._row_face, declared))
            except Unsupported:
                continue
        return tuple(conditions)

    # ── questions ──────────────────────────────────────────────────────────────────────────────

    @cached_property
    def estimates(self) -> Estimates:
        """The estimates from all that was measured."""
        return least_squares(self.attributes, (), self.released.measured)

    @cached_property
    def _known(self) -> SynopsisEstimates:
        sets = maximal([(), *self.released.sets])
        return SynopsisEstimates(self.estimates, tuple(sets), self._etas(), lambda places: self.model.marginal(places))

    def _etas(self) -> dict[Block, float] | None:
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
        face_fields = self.released.table or "rows", self.attributes, domains, self._known, self.receipt
        decided = {implied.attribute.name: (implied.by, _implied_texts(implied)) for implied in self.released.implied}
        return answering.QueryableTable(*face_fields, self.released.where, decided)

    def sql(
        self,
        question: str,
        parameters: Parameters | None = None,
        *,
        confidence: Number = "0.95",
        together: bool = False,
    ) -> Answer:
        """Answer a question in SQL about the people, from what was measured: free, and any number of times.

        Each number states its basis: measured, with a range that holds although earlier noise decided what was
        measured, or bounded, with the model's estimate inside. No row is sampled for it.
        """
        return answering.answer_sql(self.face, question, parameters, confidence=confidence, together=together)

    def quality(self, *, confidence: Number = "0.95") -> Quality:
        """Estimate the distance of sampled rows from the truth, on every marginal that was measured. This is free and
        as public as the model: it is computed from noisy numbers alone.

        Sampled rows have no missing values in columns that are not nullable; missing values of the table count as a
        difference there.
        """
        confidence_level = exact(confidence, "confidence", CONFIDENCE)
        _, noise = self._known.totals(np.ones(()), (), (), ())
        middle, width = float(self._known.marginal(())), float(noise.width(1 - float(confidence_level), 1))
        ends = max(0.0, middle - width), max(0.0, middle) + width
        return model_quality(self.sampling_model, self.released.columns, self.released.measured, ends, confidence_level)

    def plot(self, path: str | None = None) -> Picture:
        """Plot the counts of each column with their ranges; with a path (.svg, .png, .html) the picture is saved
        too.
        """
        column_names = [
            attribute.name for attribute in self.attributes if self._known.covers((self.attributes.index(attribute),))
        ]
        table = quoted(self.face.table)
        answers = [
            self.sql(f"SELECT {quoted(name)}, COUNT(*) AS {_count_name(name)} FROM {table} GROUP BY 1")
            for name in column_names
        ]
        charts = [answer.chart_data(answer.columns[-1]) for answer in answers]
        return save_if_path(
            draw_panels(charts, "Counts of each column", caption_lines(self.receipt), notes(charts)), path
        )

    # ── as other things ────────────────────────────────────────────────────────────────────────

    def to_json(self) -> str:
        """Serialize the whole table as JSON text: its file, in base64."""
        content = model_files.to_bytes((self.released, self.model, self.steps, self.receipt))
        return codec.dumps(_SyntheticFile(base64.b64encode(content).decode()))

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
        model_files.save((self.released, self.model, self.steps, self.receipt), path)

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
        cells = self.model.tree.cells(self.model.sizes)
        lines = [
            f"synthetic  {released.table}{f', where {released.where}' if released.where else ''}, by {released.method}",
            f"columns    {summarize_columns(self.attributes)}",
            *(
                f"           {implied.attribute.name}, which {self.attributes[implied.by].name} determines"
                for implied in released.implied
            ),
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
        sample_html = paragraph("Sampled rows, which belong to nobody:") + table(first_rows.column_names, rows)
        return preformatted(repr(self)) + sample_html + collapsed("receipt", preformatted(str(self.receipt)))


def _implied_texts(column: ImpliedColumn) -> tuple[str | None, ...]:
    """Return the text of an implied column for each cell of the deciding column."""
    texts = [
        str(listed_cell.value) if isinstance(listed_cell, ListedCell) else None
        for listed_cell in column.attribute.cells
    ]
    return tuple(texts[cell] for cell in column.cells)


def _count_name(name: str) -> str:
    return "count_" if name.lower() == "count" else "count"


def _row_count(rows: int) -> int:
    count = exact_integer(rows, "rows", at_least=1)
    if count > MAX_WRITTEN:
        raise InvalidParameter("rows", rows, f"a number up to {MAX_WRITTEN:,}")
    return count


def rows_file_path(path: str | os.PathLike[str]) -> Path:
    """Refuse a file name that rows cannot be written to; return its path."""
    target = Path(path)
    if target.suffix.lower() not in _ROW_FILE_SUFFIXES:
        raise InvalidParameter("path", str(path), f"a file whose name ends in {' or '.join(_ROW_FILE_SUFFIXES)}")
    return target


def _writer(path: Path, kind: str, schema: pyarrow.Schema) -> Any:
    """Open a writer for tables that are appended one after the other."""
    if kind == ".parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(path, schema)
    from pyarrow import csv

    return csv.CSVWriter(path, schema)


# ── checking ───────────────────────────────────────────────────────────────────────────────────


def _check_charge(released: ReleasedSynthesis, steps: tuple[Charged, ...], receipt: Receipt) -> list[Check]:
    """Recompute the charge: Σρ of the steps under a price with δ or ρ, Σε under a pure one."""
    price = released.price
    if price is None or not steps:
        return [Check("charge", None, "nothing was bought: it was a preview on invented rows")]
    costs = [step_cost(step, pure=not price.allows_gaussian) for step in steps]
    if None in costs:
        return [Check("charge", None, "a step has a mechanism whose cost cannot be summed")]
    cost = sum((step_charge for step_charge in costs if step_charge is not None), start=Fraction(0))
    curve = (Curve.concentrated if price.allows_gaussian else Curve.pure)(cost, Neighbours(receipt.neighbours))
    is_kept = price.kept_by(curve)
    unit = "ρ" if price.allows_gaussian else "ε"
    noises = [step.mechanism for step in steps if step.sensitivity is not None]
    sizes = [getattr(noise, "scale" if released.laplace else "sigma", None) for noise in noises]
    same_noise = sizes == [marginal.size for marginal in released.marginals]
    same_price = receipt.guarantee == str(price) and released.purchase.price in ("", str(price))
    return [
        Check("charge", same_noise, f"{unit} = {float(cost):.6g}, from {len(steps):,} steps"),
        Check("promise", is_kept, f"{price} is {'kept' if is_kept else 'NOT kept'} by that charge"),
        Check("receipt", same_price, f"it promises {receipt.guarantee}"),
    ]
