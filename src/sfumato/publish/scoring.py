"""Score a candidate table against private rows: the noisy distance between all of their k-way marginals.

The candidate is public, whatever tool made it. Two numbers about the private rows are released: how many there are
(n̂), and the sum over all sets A of columns, or the maximum, of ‖m_A − c·t_A‖₁, where m_A are the private counts, t_A
those of the candidate, and c = n̂/rows scales the candidate to n̂ rows.

*Theorem.* Let p_A be public numbers, and let the weights of one unit's rows add up to at most T. Then ‖m_A − p_A‖₁
moves by at most T when a unit is added or removed, and by at most 2T when one is replaced. So do the largest over A,
and half of the mean over A by T/2 and T. *Proof.* Every row is in one cell of A, so ‖m_A − m′_A‖₁ ≤ T, twice that where
one unit leaves and another comes; |‖m_A − p_A‖₁ − ‖m′_A − p_A‖₁| ≤ ‖m_A − m′_A‖₁; a mean and a maximum move by no more
than what they are made of. ∎

The theorem needs a public c. With the exact number of rows, c·t_A would move with the unit too: a row in cell j moves
m_A − n·t_A/rows by e_j − t_A/rows, whose norm 2(1 − t_j/rows) is nearly twice as large. So c comes from n̂, which is
drawn first and paid for in the same batch: whatever n̂ is, the second number has the same sensitivity, so what both leak
adds up. Or it comes from a number of rows that is public already, and then the whole price pays for the distance.

All arithmetic is in integer steps: counts are multiplied by a power of two, and public predictions are rounded to it.
"""

from __future__ import annotations

import glob
import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.array_types import Integers
from sfumato.caching import cached_property
from sfumato.engine.opening import open_engine
from sfumato.errors import InvalidParameter, InvalidPolicy, ValueWords
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.aggregates.measures import Count
from sfumato.plan.bounding import BoundedPlan, bound_by_unit_weights
from sfumato.plan.nodes import Aggregate
from sfumato.plan.readings.cell_rows import CellCounts, CellRows, CodedRows, CountedCells
from sfumato.plan.sql.building import start_selection
from sfumato.policy import Policy, Table
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import Budget, PrivacyUnit, Sensitivity, codec
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, POSITIVE, Number, exact
from sfumato.publish.marginals.attributes import code_columns
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.receipts import PREVIEW_MARK, Receipt
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.payers import NOT_BOUGHT, PurchaseTerms, purchase_terms
from sfumato.release.prices import Price
from sfumato.release.releasing import Read

BEST = 1000
"""The score of a candidate whose marginals all equal the private table's, on NIST's scale from 0 to 1000."""
_LOW_BITS = 31


# ── the public candidate ───────────────────────────────────────────────────────────────────────


def code_candidate(source: Any, table: Table, names: Sequence[str], parameter_name: str = "candidate") -> CodedRows:
    """Code the rows of a public table as cells, by the coding of a policy's table: the same statements that read
    private rows are used, so that a cell means the same in both. ``parameter_name`` names the table in refusals.
    """
    if isinstance(source, (str, os.PathLike)) and not glob.glob(os.fspath(source), recursive=True):
        raise InvalidParameter(
            parameter_name,
            os.fspath(source),
            "a table, or the path of an existing file",
            fix="check the path, or pass a pandas, polars or Arrow table",
        )
    columns = {name: table.columns[name] for name in names}
    codings = {name: coding for name, coding in table.codings.items() if name in columns}
    try:
        public_table = Table(table.name, source, columns, id="row", codings=codings)
        policy = Policy(PrivacyUnit("row", every_row=True), Budget(1), {public_table.name: public_table})
        engine = open_engine(policy)
    except InvalidPolicy as error:
        raise error.within(f"the {parameter_name}") from None
    try:
        candidate_rows = start_selection(engine.catalog(), public_table.name)
        coded_columns = code_columns(public_table, names, candidate_rows.rows.resolve)
        plan = Aggregate(candidate_rows.rows.relation, tuple(column.key for column in coded_columns), (Count(),))
        bounded = bound_by_unit_weights(plan, plan.limits, math.prod(column.attribute.size for column in coded_columns))
        coded_rows = engine.read(CellRows(bounded, tuple(column.codes for column in coded_columns), ((),)), 0)
        assert isinstance(coded_rows, CodedRows)  # of this process
        return coded_rows
    finally:
        engine.close()


def candidate_digest(rows: CodedRows) -> str:
    """Hash the number of rows in each cell: equal for tables that differ only in the order of their rows."""
    order = np.lexsort((rows.totals, *rows.codes))
    digest = hashlib.sha256(repr(rows.sizes).encode())
    for array in (*rows.codes, rows.totals):
        digest.update(np.ascontiguousarray(array[order], "<i8").tobytes())
    return digest.hexdigest()


# ── what is measured ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class SetDistance:
    """The distance between the private counts and a candidate's over all sets of columns, as one integer."""

    reading: CellRows
    sets: tuple[AttributeSet, ...]
    candidate: CodedRows
    grid: int
    """The factor by which counts, in their own steps, are multiplied: a power of two."""
    takes_worst_set: bool = False
    total: int = 1
    """The number of rows to which the candidate is scaled, in steps of the counts: public, or released before."""

    def __post_init__(self) -> None:
        if self.candidate.sizes != self.reading.sizes:
            got = ValueWords(f"columns with {self.candidate.sizes} cells")
            rule = f"a table coded like the private rows, in columns with {self.reading.sizes} cells"
            raise InvalidParameter("candidate", got, rule)
        if not self.sets or not self.candidate_rows:
            raise InvalidParameter(
                "candidate", ValueWords("no rows or no columns"), "a table with rows, and at least one set of columns"
            )

    @property
    def bounded(self) -> BoundedPlan:
        return self.reading.bounded

    @property
    def candidate_rows(self) -> int:
        return int(self.candidate.totals.sum())

    @property
    def sensitivity(self) -> Sensitivity:
        """The change that one unit can cause, by the theorem above: the sum, or the maximum, of every set's Δ₁."""
        sensitivities = [CellCounts(self.reading, attribute_set).sensitivity for attribute_set in self.sets]
        change = (
            max(set_sensitivity.total for set_sensitivity in sensitivities)
            if self.takes_worst_set
            else sum(set_sensitivity.total for set_sensitivity in sensitivities)
        )
        return Sensitivity(1, self.grid * change, neighbours=sensitivities[0].neighbours)

    def extract(self, exact: CountedCells) -> Integers:
        """Compute the distance from the rows as they were read, clipped at 2^62; clipping does not increase
        sensitivity.
        """
        distances = [self._set_distance(exact, attribute_set) for attribute_set in self.sets]
        distance = max(distances) if self.takes_worst_set else sum(distances)
        return np.array([min(distance, LARGEST_INTEGER)], np.int64)

    def _set_distance(self, exact: CountedCells, attribute_set: AttributeSet) -> int:
        largest_count = LARGEST_INTEGER // self.grid
        counts = np.minimum(CellCounts(self.reading, attribute_set).extract(exact), largest_count) * self.grid
        return _exact_sum(np.abs(counts - self.scaled_candidate_counts(attribute_set)))

    def scaled_candidate_counts(self, attribute_set: AttributeSet) -> Integers:
        """Scale the candidate's counts to ``total`` rows, in integer steps: a function of public numbers alone."""
        scale = float(Fraction(self.total * self.grid, self.candidate_rows))
        scaled = np.rint(self.candidate.marginal(attribute_set) * scale)
        return np.minimum(scaled, float(LARGEST_INTEGER)).astype(np.int64)


def _exact_sum(gaps: Integers) -> int:
    """Sum integers of up to 2^62 exactly, however many there are."""
    high, low = gaps >> _LOW_BITS, gaps & ((1 << _LOW_BITS) - 1)
    return (int(high.sum()) << _LOW_BITS) + int(low.sum())


# ── what is released ───────────────────────────────────────────────────────────────────────────


@codec.serialisable("candidate-score")
@dataclass(frozen=True)
class CandidateScore:
    """A noisy score of how close a candidate's marginals are to those of the private table, from 0 to 1000.

    It is NIST's k-marginal score, 1000·(1 − mean total variation), of the candidate scaled to ``rows`` rows; with
    ``takes_worst_set`` it is that of the worst set of columns instead of the mean.
    """

    columns: tuple[str, ...]
    k: int
    sets: int
    worst: bool
    candidate_rows: int
    distance: int
    """‖m_A − c·t_A‖₁ in steps, with noise: the sum over all sets, or the maximum."""
    noise: Any = field(repr=False)
    unit_value: Fraction = field(repr=False)
    """The rows that one step of the counts stands for."""
    grid: int = field(repr=False)
    """The number of steps of the distance per step of the counts."""
    total: int = field(repr=False)
    """n̂ in steps of the counts, as drawn or given."""
    rows_noise: Any = field(default=None, repr=False)
    """None if the number of rows was public."""
    assumed: bool = field(default=False, repr=False)
    """Whether the caller gave the number of rows: it need not be the exact one."""
    purchase: PurchaseTerms = field(default=NOT_BOUGHT, repr=False)
    receipt: Receipt | None = field(default=None, repr=False, compare=False)
    """The cost and the protected unit; not stored with the score, since it states the remaining budget."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        codec.check_simple_fields(self)
        object.__setattr__(self, "unit_value", exact(self.unit_value, "unit_value", POSITIVE))
        if min(self.k, self.sets, self.candidate_rows, self.grid) < 1:
            raise InvalidParameter(
                "score", self.k, "computed over at least one set of columns, for a candidate table with rows"
            )

    @property
    def rows(self) -> float:
        """The number of rows to which the candidate was scaled: noisy, unless it was public."""
        return float(scaled_row_count(self.total, self.unit_value) * self.unit_value)

    @property
    def total_variation(self) -> float:
        """The distance as a share of the rows, clipped to [0, 1] as noise may put it outside."""
        return min(1.0, max(0.0, self._distance / self.rows))

    @property
    def score(self) -> float:
        """The score: 1000 for equal marginals, 0 for marginals that share no cell."""
        return _nist_score(self._distance / self.rows)

    def interval(self, confidence: Number = DEFAULT_CONFIDENCE) -> tuple[float, float]:
        """Return the range of the exact score of the candidate scaled to ``rows`` rows, at this confidence."""
        half_width = self._distance_half_width(exact(confidence, "confidence", CONFIDENCE))
        farthest, nearest = self._distance + half_width, self._distance - half_width
        return _nist_score(farthest / self.rows), _nist_score(nearest / self.rows)

    def nist_interval(self, confidence: Number = DEFAULT_CONFIDENCE) -> tuple[float, float]:
        """Return the range of NIST's own score, which divides by the exact number of rows n, at this confidence.

        *Theorem.* Distances to the candidate scaled to x and to n rows differ by at most |x − n|/2, since t_A/rows adds
        up to 1. So the total variation is within (D ± w ± |n̂ − n|/2)/n for an n within the range of n̂, and such a
        fraction is largest, and least, at an end of that range. ∎ Both ranges share the miss probability evenly. If x
        is the caller's, the distance itself is at least |x − n|/2, since counts add up to n: so |x − n| ≤ 2(D + w).
        """
        confidence_level = exact(confidence, "confidence", CONFIDENCE)
        if self.rows_noise is None and not self.assumed:
            return self.interval(confidence_level)
        half_width, row_counts = (
            self._width_with_assumed_rows(confidence_level)
            if self.rows_noise is None
            else self._width_with_noisy_rows(1 - (1 - confidence_level) / 2)
        )
        low = min(
            (self._distance - half_width - abs(row_count - self.rows) / 2) / row_count for row_count in row_counts
        )
        high = max(
            (self._distance + half_width + abs(row_count - self.rows) / 2) / row_count for row_count in row_counts
        )
        return _nist_score(high), _nist_score(low)

    def _width_with_noisy_rows(self, confidence: Fraction) -> tuple[float, list[float]]:
        """Return the half-width of the distance, and the ends of n by its noise."""
        rows_error = int(self.rows_noise.error(confidence))
        return self._distance_half_width(confidence), [
            float(max(1, self.total + shift) * self.unit_value) for shift in (-rows_error, rows_error)
        ]

    def _width_with_assumed_rows(self, confidence: Fraction) -> tuple[float, list[float]]:
        """Return the half-width of the distance, and the ends of n by the distance."""
        half_width = self._distance_half_width(confidence)
        rows_error = 2 * max(0.0, self._distance + half_width)
        return half_width, [max(float(self.unit_value), self.rows + shift) for shift in (-rows_error, rows_error)]

    @property
    def _distance(self) -> float:
        return float(self.distance * self._step)

    @property
    def _step(self) -> Fraction:
        return distance_step(self.unit_value, self.grid, 1 if self.worst else self.sets)

    def _distance_half_width(self, confidence: Fraction) -> float:
        """Return the half-width of the distance in rows, including the rounding of predictions."""
        rounding_error = Fraction(self.candidate_rows) * self.unit_value / (4 * self.grid)
        return float(self.noise.error(confidence) * self._step + rounding_error)

    @property
    def is_preview(self) -> bool:
        """Whether the score was invented from the policy alone: nothing was read, charged or recorded."""
        return self.receipt is not None and self.receipt.is_preview

    def to_json(self) -> str:
        """Serialize the score as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> CandidateScore:
        """Parse the text that ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def __str__(self) -> str:
        low, high = self.interval()
        kind = "worst" if self.worst else "mean"
        over = f"{kind} of {self.sets:,} {self.k}-way marginals of {len(self.columns)} columns"
        scaled = f"the candidate's {self.candidate_rows:,} rows stand for {self.rows:,.0f}"
        mark = PREVIEW_MARK if self.is_preview else ""
        lines = [
            f"score {self.score:.0f} of {BEST}{mark}, {low:.0f} to {high:.0f} with 95 % confidence: {over}; {scaled}"
        ]
        if self.rows_noise is not None:
            ends = "{:.0f} to {:.0f}".format(*self.nist_interval())
            lines.append(f"with the exact number of rows, which stays private, the score is within {ends}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self) if self.receipt is None else f"{self}\n\n{self.receipt}"


def _nist_score(variation: float) -> float:
    return BEST * (1 - min(1.0, max(0.0, variation)))


def scaled_row_count(total: int, unit_value: Fraction) -> int:
    """Return the number of rows to which a candidate is scaled, in steps: at least one row, whatever the noise."""
    return max(total, math.ceil(1 / unit_value))


def distance_step(unit_value: Fraction, grid: int, sets: int) -> Fraction:
    """Return the rows of ½‖m_A − c·t_A‖₁, averaged over so many sets, that one step of the distance stands for."""
    return unit_value / (2 * grid * sets)


@dataclass(frozen=True)
class ScoreRelease:
    """The release of a score as one batch: the number of rows if it is bought, then the distance at that number."""

    columns: tuple[str, ...]
    k: int
    view: SetDistance
    noise: Additive
    rows_noise: Additive | None
    price: Price
    version: str
    assumed: bool = False
    """Whether the caller gave the number of rows."""

    @cached_property
    def batch(self) -> Batch:
        distance = Measurement(self.view, self.noise)
        if self.rows_noise is None:
            return Batch((distance,))
        return Batch((Measurement(self._row_count_view, self.rows_noise), distance))

    @property
    def _row_count_view(self) -> CellCounts:
        return CellCounts(self.view.reading, ())

    @property
    def readings(self) -> tuple[CellRows]:
        return (self.view.reading,)

    @property
    def unit_value(self) -> Fraction:
        return self.view.bounded.measures[0].unit_value

    @property
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        """The half-widths that a stored score must match to be reused."""
        step = distance_step(self.unit_value, self.view.grid, 1 if self.view.takes_worst_set else len(self.view.sets))
        widths = {"distance": self.noise.error(DEFAULT_CONFIDENCE) * step}
        if self.rows_noise is not None:
            widths["rows"] = self.rows_noise.error(DEFAULT_CONFIDENCE) * self.unit_value
        return {name: f"{float(half_width):.12g}" for name, half_width in widths.items()}

    def draw(self, read: Read) -> CandidateScore:
        """Draw the number of rows first: the distance is measured at the drawn number, never at the exact one."""
        coded_rows = read(self.view.reading)
        total = self.view.total
        if self.rows_noise is not None:
            total = int(
                Measurement(self._row_count_view, self.rows_noise).draw(self._row_count_view.extract(coded_rows))[0]
            )
        view = replace(self.view, total=scaled_row_count(total, self.unit_value))
        return self._build_score(total, int(Measurement(view, self.noise).draw(view.extract(coded_rows))[0]))

    def result_at_extreme_totals(self) -> CandidateScore:
        return self._build_score(LARGEST_INTEGER, LARGEST_INTEGER)

    def _build_score(self, total: int, distance: int) -> CandidateScore:
        view, terms = self.view, purchase_terms([self.view.bounded], self.price, self.version)
        score_fields = self.columns, self.k, len(view.sets), view.takes_worst_set, view.candidate_rows, distance
        return CandidateScore(
            *score_fields, self.noise, self.unit_value, view.grid, total, self.rows_noise, self.assumed, terms
        )
