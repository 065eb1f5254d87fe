"""A synthetic table is a model and the rows that are drawn from it: free, any number of them, at any time.

What was paid for are noisy marginals; the model, its rows, its answers and its quality follow from them alone. Rows
look like rows and are none of anybody's. A question about the people is better asked of the model than counted over
invented rows: ``sql`` answers with a range for the truth, and says of every number whether it was measured or bounded.

A model says how good it is from noisy measurements alone, so its quality may be published with it.

Of every marginal that was measured, the distance between the truth and the model is ½‖m − M‖₁/n̂, the share of rows
that are in another cell. The measured counts y = m + Z say where it lies: within ½‖Z‖₁/n̂ of ½‖y − M‖₁/n̂, however
the model came about (``half_widths``). The number inside takes off the mean of ‖Z‖₁: a model that follows the truth
leaves the noise, and has a distance of nearly 0. Of marginals that were not measured nothing is known but their names.
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
from sfumato.notebook_html import folded, paragraph, preformatted, table
from sfumato.plan.sql.parameters import Parameters
from sfumato.plan.words import many
from sfumato.plan.written_names import quoted
from sfumato.plots.answers import draw_panels
from sfumato.plots.picture import Picture, saved
from sfumato.privacy import Curve, Neighbours, codec
from sfumato.privacy.numbers import CONFIDENCE, Number, exact, percent, text, whole
from sfumato.publish.cells import answering
from sfumato.publish.cells.answering import Condition
from sfumato.publish.drawn_rows import MOST_AT_ONCE, DrawnColumn, DrawnRows, drawn, mend
from sfumato.publish.files import model_files
from sfumato.publish.graph.models import GraphModel
from sfumato.publish.marginals.attributes import Attributes, ListedCell, summarize_columns
from sfumato.publish.marginals.blocks import Block, Set, maximal
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.marginals.estimating import Estimates, MeasuredMarginal, least_squares
from sfumato.publish.marginals.faces import BARE
from sfumato.publish.marginals.group_totals import SynopsisEstimates
from sfumato.publish.marginals.half_widths import noise_size
from sfumato.publish.marginals.verifying import Check, SynopsisVerification, line_checks, step_cost
from sfumato.publish.synthesis.implications import (
    deciding_cells,
    deciding_pairs,
    last_cell,
    required_places,
    zeros_of_model,
)
from sfumato.publish.synthesis.released import ImpliedColumn, SynthesisRound, Synthesized
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.answer_pictures import foot, notes
from sfumato.release.answers.receipts import Receipt
from sfumato.release.prices import Price
from sfumato.untrusted import refusing

if TYPE_CHECKING:
    import pandas
    import pyarrow


_SHOWN = 12


@dataclass(frozen=True)
class MarginalQuality:
    """This says how far the model is from the truth on one measured marginal."""

    columns: tuple[str, ...]
    cells: int
    noise: float
    """The deviation of the noise in each cell, in rows."""
    distance: float
    """The share of rows that are in another cell, less what noise alone would make of it,"""
    low: float
    """and between which ends it lies,"""
    high: float


@dataclass(frozen=True)
class Quality:
    """This says how good a model is, from what was released alone: it is as public as the model."""

    marginals: tuple[MarginalQuality, ...]
    unmeasured: tuple[tuple[str, str], ...]
    """Pairs of columns that were never measured together: how they depend on one another follows from others."""
    rows: int
    """How many rows a table has that is drawn without saying how many."""
    total: float
    """n̂, the noisy number of rows,"""
    total_range: tuple[float, float]
    """and between which ends the true one lies."""
    confidence: str

    @property
    def worst(self) -> MarginalQuality | None:
        """Give the marginal with the largest distance."""
        return max(self.marginals, key=lambda each: each.distance, default=None)

    def to_pandas(self) -> pandas.DataFrame:
        """Give a row for each measured marginal."""
        import pandas

        names = ("columns", "cells", "noise", "distance", "low", "high")
        rows = [[" × ".join(each.columns), *(getattr(each, name) for name in names[1:])] for each in self.marginals]
        return pandas.DataFrame(rows, columns=list(names))

    def __str__(self) -> str:
        low, high = self.total_range
        lines = [
            f"rows        {self.rows:,} drawn; n̂ = {self.total:,.0f}, the truth between {low:,.0f} and {high:,.0f}",
            f"measured    in {many(len(self.marginals), 'round')}; the share of rows in another cell, noise taken off:",
        ]
        shown = sorted(self.marginals, key=lambda each: -each.distance)[:_SHOWN]
        wide = max((len(" × ".join(each.columns)) for each in shown), default=0)
        for each in shown:
            named = f"{' × '.join(each.columns):<{wide}}"
            ends = f"{percent_of(each.low)} to {percent_of(each.high)}"
            lines.append(f"  {named}  {percent_of(each.distance):>6}  {ends:>16}  {each.cells:,} cells")
        if len(self.marginals) > len(shown):
            lines.append(f"  and {len(self.marginals) - len(shown):,} with smaller distances")
        lines.append(f"unmeasured  {many(len(self.unmeasured), 'pair')} of columns{self._unmeasured}")
        return "\n".join([*lines, f"Each range holds with {percent(self.confidence)} confidence, for the noise alone."])

    @property
    def _unmeasured(self) -> str:
        named = ", ".join(" × ".join(each) for each in self.unmeasured[:5])
        return f": {named}{', …' if len(self.unmeasured) > 5 else ''}" if named else ""

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def percent_of(share: float) -> str:
    """Write a share in per cent, with one decimal; all there is may be off."""
    return f"{100 * share:.1f} %" if share < 1 else "100 %"


def model_quality(
    model: GraphModel,
    names: Sequence[str],
    measured: Sequence[MeasuredMarginal],
    total_range: tuple[float, float],
    confidence: Fraction,
) -> Quality:
    """Compare a model with every marginal that was measured."""
    own = [each for each in measured if each.places]
    sets = list(dict.fromkeys(each.places for each in own))
    modelled = dict(zip(sets, model.marginals(sets), strict=True))
    found = tuple(_compared(each, modelled[each.places], names, model.total, 1 - float(confidence)) for each in own)
    rows = max(1, round(model.total))
    return Quality(found, _unmeasured(names, sets), rows, model.total, total_range, text(confidence))


def _compared(
    measured: MeasuredMarginal, modelled: Floats, names: Sequence[str], total: float, beta: float
) -> MarginalQuality:
    step = float(measured.unit_value)
    apart = float(np.abs(measured.values * step - modelled).sum())
    mean, most = noise_size(measured.values.size, float(measured.size), beta, laplace=measured.laplace)
    share = 1 / (2 * total)
    ends = max(0.0, (apart - most * step) * share), (apart + most * step) * share
    distance = min(max((apart - mean * step) * share, ends[0]), ends[1])
    columns = tuple(names[place] for place in measured.places)
    return MarginalQuality(columns, measured.values.size, math.sqrt(measured.variance), distance, *ends)


def _unmeasured(names: Sequence[str], sets: Sequence[Set]) -> tuple[tuple[str, str], ...]:
    known = {pair for each in sets for pair in combinations(sorted(each), 2)}
    return tuple((names[a], names[b]) for a, b in combinations(range(len(names)), 2) if (a, b) not in known)


MOST_HELD = 20_000_000
"""Rows that are held in memory; more are written to a file part by part."""
MOST_WRITTEN = 10**11
_PART = MOST_AT_ONCE
_FILES = (".parquet", ".csv")
_LONGEST = 1 << 31
"""Letters of its JSON text."""


@codec.value("synthetic")
@dataclass(frozen=True)
class _SyntheticFile:
    """A synthetic table is written as its file is, in letters."""

    file: str

    def __post_init__(self) -> None:
        codec.check_fields(self)


@codec.written_as("synthetic")
@dataclass(frozen=True, eq=False)
class Synthetic:
    """This holds what was measured of a table and the model that was fitted to it, from which rows are drawn."""

    released: Synthesized = field(repr=False)
    model: GraphModel = field(repr=False)
    receipt: Receipt = field(repr=False)
    steps: tuple[Charged, ...] = field(default=(), repr=False)
    """Every step that was paid for, in order."""

    @property
    def attributes(self) -> Attributes:
        """List the columns of the model with their cells."""
        return self.released.attributes

    @property
    def columns(self) -> tuple[str, ...]:
        """List the columns of the rows."""
        return (*self.released.columns, *(each.attribute.name for each in self.released.implied))

    @property
    def rehearsed(self) -> bool:
        """Tell whether it was invented from the policy alone: nothing was read, charged or written down."""
        return self.receipt.rehearsed

    @property
    def guarantee(self) -> Price | None:
        """Say what was promised for this release by itself: ε, (ε, δ) or ρ."""
        return self.released.price

    @property
    def rounds(self) -> tuple[SynthesisRound, ...]:
        """List the rounds: what was chosen, at what price, and what the model gained."""
        return self.released.rounds

    @property
    def total(self) -> float:
        """Give n̂, the noisy number of rows."""
        return self.released.total

    # ── rows ───────────────────────────────────────────────────────────────────────────────────

    def table(self, rows: int | None = None) -> pyarrow.Table:
        """Give rows as Arrow has them: always the same n̂ ones, or so many new ones where a number is named."""
        return self._table if rows is None else self.sample(rows)

    @cached_property
    def _table(self) -> pyarrow.Table:
        return self.sample(max(1, round(self.total)))

    def sample(self, rows: int) -> pyarrow.Table:
        """Draw so many new rows. This is free."""
        wanted = _row_count(rows)
        if wanted > MOST_HELD:
            fix = f'write them to a file: synthetic.write("rows.parquet", rows={wanted}), or sfumato sample'
            raise InvalidParameter("rows", wanted, f"at most {MOST_HELD:,} rows that are held in memory", fix=fix)
        import pyarrow

        return pyarrow.concat_tables(list(self._parts(wanted)))

    def to_pandas(self, rows: int | None = None) -> pandas.DataFrame:
        """Give the rows of ``table`` as a data frame: whole numbers and truths stay what they are where some are
        missing, and days are days.
        """
        import pandas
        import pyarrow

        types = {pyarrow.int64(): pandas.Int64Dtype(), pyarrow.bool_(): pandas.BooleanDtype()}
        kinds = {**types, pyarrow.date32(): pandas.ArrowDtype(pyarrow.date32())}
        return self.table(rows).to_pandas(types_mapper=kinds.get)

    def write(
        self, path: str | os.PathLike[str], rows: int | None = None, progress: Callable[[str], None] | None = None
    ) -> None:
        """Write rows to a Parquet or a CSV file, part by part: any number of them, in little memory."""
        target = check_rows_file(path)
        wanted = round(max(1.0, self.total)) if rows is None else _row_count(rows)
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        try:
            with _writer(partial, target.suffix.lower(), self._schema) as writer:
                done = 0
                for part in [self._table] if rows is None and wanted <= MOST_HELD else self._parts(wanted):
                    writer.write_table(part)
                    done += part.num_rows
                    if progress is not None:
                        progress(f"{done:,} of {wanted:,} rows")
            partial.replace(target)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            fix = "give the name of a file in a folder that is there, and can be written to"
            raise InvalidParameter("path", str(target), f"a file that can be written ({reason})", fix=fix) from error
        finally:
            partial.unlink(missing_ok=True)

    def _parts(self, rows: int) -> Iterator[pyarrow.Table]:
        for start in range(0, rows, _PART):
            yield self._drawn(min(_PART, rows - start))

    def _drawn(self, rows: int) -> pyarrow.Table:
        codes = np.zeros((rows, len(self._row_columns)), np.int32, order="F")
        own = len(self.attributes)
        codes[:, :own] = drawn(self._conditionals, rows, own)
        for place, each in enumerate(self.released.implied, own):
            codes[:, place] = np.array(each.cells, np.int32)[codes[:, each.by]]
        found = DrawnRows.of(self._row_columns, codes)
        for by, place in self._decided_bins:
            found.take_middles(place, deciding_cells(self.attributes, by)[codes[:, by]])
        mend(found, self._conditions, self._row_face, fixed={place for _, place in self._decided_bins})
        return found.to_arrow()

    @property
    def _decided_bins(self) -> list[tuple[int, int]]:
        """List the columns with bins that another decides: all rows in one of its cells have one value."""
        pairs = deciding_pairs(self.attributes, self.released.face)
        return [(by, place) for by, place in pairs if self._row_columns[place].binned]

    @cached_property
    def drawn_model(self) -> GraphModel:
        """Return the law of drawn rows: the model, conditioned on no value being missing in columns that the policy
        does not call nullable. Given the other columns, what was missing or not listed is spread over the declared
        cells as the rows are that are in them. A column that decides another decides it here, too, where the model was
        fitted by a version, or ended by an interrupt, that did not see to it.
        """
        required = required_places(self.released.face)
        pairs = deciding_pairs(self.attributes, self.released.face)
        together = tuple(pair for pair in pairs if self.model.tree.holding(pair) is not None)
        decided = zeros_of_model(self.model, self.attributes, together, required=required)
        missing = [last_cell(self.attributes, place) for place in required]
        found = self.model.without([*missing, *decided])
        try:
            found.conditionals()
        except InvalidParameter:  # all rows that there may be lack a value, by what the policy calls impossible
            return self.model
        return found

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """List the declared pairs of which the first column does not decide the second in every drawn row, and why."""
        places = {each.name: place for place, each in enumerate(self.attributes)}
        pairs = [pair for pair in self.released.face.implies if places.keys() >= {*pair}]
        why = [self._unkept(places[by], places[decided]) for by, decided in pairs]
        told = zip(pairs, why, strict=True)
        return tuple(f"{by} does not decide {decided} in every row: {each}" for (by, decided), each in told if each)

    def _unkept(self, by: int, decided: int) -> str:
        """Say why drawn rows may have several values of the second column with one of the first; else nothing."""
        if not deciding_cells(self.attributes, by)[:-1].all():  # the last one is of what is missing
            return f"bins of {self.attributes[by].name} have several values"
        if self.model.tree.holding((by, decided)) is None:
            return "the model does not hold both together"
        return "what the policy calls impossible leaves no such row" if self.drawn_model is self.model else ""

    @cached_property
    def _conditionals(self) -> Any:
        return self.drawn_model.conditionals()

    @cached_property
    def _row_face(self) -> answering.Face:
        """Give what conditions on whole rows see: implied columns too."""
        implied = tuple(each.attribute for each in self.released.implied)
        domains = (*self.released.face.known(self.attributes), *BARE.known(implied))
        nothing: Any = None
        return answering.Face(self.released.table or "rows", (*self.attributes, *implied), domains, nothing, nothing)

    @cached_property
    def _row_columns(self) -> tuple[DrawnColumn, ...]:
        return tuple(
            DrawnColumn.of(*each) for each in zip(self._row_face.attributes, self._row_face.domains, strict=True)
        )

    @property
    def _schema(self) -> pyarrow.Schema:
        return DrawnRows.of(self._row_columns, np.zeros((0, len(self._row_columns)), np.int32)).to_arrow().schema

    @cached_property
    def _conditions(self) -> tuple[Condition, ...]:
        """Read what the policy says no row meets; conditions on columns that are not here say nothing of rows."""
        found = []
        for each in self.released.face.impossible:
            try:
                found.append(answering.condition(self._row_face, each))
            except Unsupported:
                continue
        return tuple(found)

    # ── questions ──────────────────────────────────────────────────────────────────────────────

    @cached_property
    def estimates(self) -> Estimates:
        """Combine all that was measured."""
        return least_squares(self.attributes, (), self.released.measured)

    @cached_property
    def _known(self) -> SynopsisEstimates:
        sets = maximal([(), *self.released.sets])
        return SynopsisEstimates(self.estimates, tuple(sets), self._etas(), lambda places: self.model.marginal(places))

    def _etas(self) -> dict[Block, float] | None:
        """Give a precision for every block that was fixed before its noise was known: that of the first measurement
        after the number of rows, and for the total that of the number of rows. None where everything was planned.
        """
        measured = self.released.measured
        if self.released.method == "independent" and self.released.complete:
            return None
        first = 1 / measured[min(1, len(measured) - 1)].variance
        return {block: 1 / measured[0].variance if block == () else first for block in self.estimates.parts}

    @cached_property
    def face(self) -> answering.Face:
        """Give what questions in SQL see of it."""
        domains = self.released.face.known(self.attributes)
        own = self.released.table or "rows", self.attributes, domains, self._known, self.receipt
        decided = {each.attribute.name: (each.by, _texts(each)) for each in self.released.implied}
        return answering.Face(*own, self.released.where, decided)

    def sql(
        self,
        question: str,
        parameters: Parameters | None = None,
        *,
        confidence: Number = "0.95",
        together: bool = False,
    ) -> Answer:
        """Answer a question in SQL about the people, from what was measured: free, and as often as you like.

        Each number says its basis: measured, with a range that holds although earlier noise decided what was measured,
        or bounded, with the model's estimate inside. No row is drawn for it.
        """
        return answering.ask(self.face, question, parameters, confidence=confidence, together=together)

    def quality(self, *, confidence: Number = "0.95") -> Quality:
        """Say how far the law of drawn rows is from the truth, on every marginal that was measured. This is free and as
        public as the model: it is computed from noisy numbers alone.

        Rows have no missing values in columns that are not nullable; what is missing there in the table counts as a
        difference.
        """
        sure = exact(confidence, "confidence", CONFIDENCE)
        _, noise = self._known.totals(np.ones(()), (), (), ())
        middle, width = float(self._known.marginal(())), float(noise.width(1 - float(sure), 1))
        ends = max(0.0, middle - width), max(0.0, middle) + width
        return model_quality(self.drawn_model, self.released.columns, self.released.measured, ends, sure)

    def plot(self, path: str | None = None) -> Picture:
        """Draw the counts of each column with their ranges; with a path (.svg, .png, .html) the picture is saved,
        too.
        """
        named = [each.name for each in self.attributes if self._known.covers((self.attributes.index(each),))]
        table = quoted(self.face.table)
        answers = [
            self.sql(f"SELECT {quoted(name)}, COUNT(*) AS {_free(name)} FROM {table} GROUP BY 1") for name in named
        ]
        charts = [each.chart_data(each.columns[-1]) for each in answers]
        return saved(draw_panels(charts, "Counts of each column", foot(self.receipt), notes(charts)), path)

    # ── as other things ────────────────────────────────────────────────────────────────────────

    def to_json(self) -> str:
        """Write all of it as JSON text: its file, in base64."""
        content = model_files.written((self.released, self.model, self.steps, self.receipt))
        return codec.dumps(_SyntheticFile(base64.b64encode(content).decode()))

    @classmethod
    def from_json(cls, source: str) -> Synthetic:
        """Read back what ``to_json`` wrote, without what the buyer has left; any other text is refused."""
        found = codec.loads_as(_SyntheticFile, source, longest=_LONGEST)
        with refusing(lambda: InvalidParameter("file", found.file, "the bytes of a file in base64")):
            return cls.read(base64.b64decode(found.file, validate=True), "the JSON text")

    @classmethod
    def read(cls, content: bytes, place: str) -> Synthetic:
        """Read it from the bytes of its file; whatever was edited is refused."""
        released, model, steps, receipt = model_files.read(content, place)
        return cls(released, model, receipt, steps)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file, from which ``sf.synopsis(path)`` reads it without data, curator or ledger."""
        model_files.save((self.released, self.model, self.steps, self.receipt), path)

    def verify(self, ledger: Anchor | str | os.PathLike[str] | None = None) -> SynopsisVerification:
        """Check the charge, added up from the steps, against the promise; and the line in an export or an anchor of the
        ledger.
        """
        checks = _checks(self.released, self.steps, self.receipt)
        return SynopsisVerification((*checks, *(() if ledger is None else line_checks(self.receipt, ledger))))

    def __repr__(self) -> str:
        """Say in a few lines what was released, and what was promised."""
        own = self.released
        ended = "" if own.complete else ", ended early"
        cells = self.model.tree.cells(self.model.sizes)
        lines = [
            f"synthetic  {own.table}{f', where {own.where}' if own.where else ''}, by {own.method}",
            f"columns    {summarize_columns(self.attributes)}",
            *(
                f"           {each.attribute.name}, which {self.attributes[each.by].name} decides"
                for each in own.implied
            ),
            f"measured   {many(len(own.sets), 'marginal')} in {many(len(own.rounds), 'round')}{ended}; "
            f"n̂ = {self.total:,.0f} rows",
            f"model      {many(cells, 'cell')} in {many(len(self.model.tree.cliques), 'clique')}",
            f"promise    {self.guarantee if self.steps else 'none: this was a rehearsal on invented rows'}",
            *(f"warning    {each}" for each in self.warnings),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        shown = self._table.slice(0, 5)
        rows = [["" if cell is None else str(cell) for cell in row.values()] for row in shown.to_pylist()]
        drawn = paragraph("Drawn rows, nobody's:") + table(shown.column_names, rows)
        return preformatted(repr(self)) + drawn + folded("receipt", preformatted(str(self.receipt)))


def _texts(implied: ImpliedColumn) -> tuple[str | None, ...]:
    """Give the text of an implied column for each cell of the one that decides it."""
    named = [str(each.value) if isinstance(each, ListedCell) else None for each in implied.attribute.cells]
    return tuple(named[cell] for cell in implied.cells)


def _free(name: str) -> str:
    return "count_" if name.lower() == "count" else "count"


def _row_count(rows: int) -> int:
    found = whole(rows, "rows", at_least=1)
    if found > MOST_WRITTEN:
        raise InvalidParameter("rows", rows, f"at most {MOST_WRITTEN:,} rows")
    return found


def check_rows_file(path: str | os.PathLike[str]) -> Path:
    """Refuse a file that rows cannot be written to, by its name."""
    target = Path(path)
    if target.suffix.lower() not in _FILES:
        raise InvalidParameter("path", str(path), f"a file whose name ends in {' or '.join(_FILES)}")
    return target


def _writer(path: Path, kind: str, schema: pyarrow.Schema) -> Any:
    """Open a file for tables that are written one after the other."""
    if kind == ".parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(path, schema)
    from pyarrow import csv

    return csv.CSVWriter(path, schema)


# ── checking ───────────────────────────────────────────────────────────────────────────────────


def _checks(released: Synthesized, steps: tuple[Charged, ...], receipt: Receipt) -> list[Check]:
    """Compute the charge again: Σρ of the steps under a price with δ or ρ, Σε under a pure one."""
    price = released.price
    if price is None or not steps:
        return [Check("charge", None, "nothing was bought: it was a rehearsal on invented rows")]
    costs = [step_cost(each, pure=not price.allows_gaussian) for each in steps]
    if None in costs:
        return [Check("charge", None, "a step is of a kind that cannot be added up")]
    cost = sum((each for each in costs if each is not None), start=Fraction(0))
    curve = (Curve.concentrated if price.allows_gaussian else Curve.pure)(cost, Neighbours(receipt.neighbours))
    kept = price.kept_by(curve)
    unit = "ρ" if price.allows_gaussian else "ε"
    noises = [each.mechanism for each in steps if each.sensitivity is not None]
    sizes = [getattr(each, "scale" if released.laplace else "sigma", None) for each in noises]
    measured = sizes == [each.size for each in released.marginals]
    same = receipt.guarantee == str(price) and released.purchase.price in ("", str(price))
    return [
        Check("charge", measured, f"{unit} = {float(cost):.6g}, from {len(steps):,} steps"),
        Check("promise", kept, f"{price} is {'kept' if kept else 'NOT kept'} by that charge"),
        Check("receipt", same, f"it promises {receipt.guarantee}"),
    ]
