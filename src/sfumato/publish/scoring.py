"""A candidate table is scored against private rows: how far apart all marginals of so many columns are, with noise.

The candidate is public: whoever made it, with whatever tool, its rows are known. Of the private rows two numbers are
released: how many there are (n̂), and the sum over all sets A of columns, or the largest, of ‖m_A − c·t_A‖₁, where m_A
are the private counts, t_A those of the candidate and c = n̂/rows scales it to n̂ rows.

*Theorem.* Let p_A be public numbers, and let the weights of one unit's rows add up to at most T. Then ‖m_A − p_A‖₁
moves by at most T when a unit is added or removed, and by at most 2T when one is replaced. So do the largest over A,
and half of the mean over A by T/2 and T. *Proof.* Every row is in one cell of A, so ‖m_A − m′_A‖₁ ≤ T, twice that where
one unit leaves and another comes; |‖m_A − p_A‖₁ − ‖m′_A − p_A‖₁| ≤ ‖m_A − m′_A‖₁; a mean and a maximum move by no more
than what they are made of. ∎

The theorem needs a public c. With the exact number of rows, c·t_A would move with the unit too: a row in cell j moves
m_A − n·t_A/rows by e_j − t_A/rows, whose norm 2(1 − t_j/rows) is nearly twice as large. So c comes from n̂, which is
drawn first and paid for in the same batch: whatever n̂ is, the second number has the same sensitivity, so what both leak
adds up. Or it comes from a number of rows that is public already, and then the whole price pays for the distance.

All is in whole steps: counts are multiplied by a power of two, to which public predictions are rounded.
"""

from __future__ import annotations

import glob
import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.caching import cached_property
from sfumato.engine.opening import open_engine
from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.aggregates.measures import Count
from sfumato.plan.bounding import BoundedPlan, weighted_bounding
from sfumato.plan.nodes import Aggregate
from sfumato.plan.readings.cell_rows import CellCounts, CellRows, CodedRows
from sfumato.plan.readings.total_readings import Integers
from sfumato.plan.sql.building import selection
from sfumato.policy import Policy, Table
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import Budget, PrivacyUnit, Sensitivity, codec
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact
from sfumato.publish.marginals.attributes import coded
from sfumato.publish.marginals.blocks import Set
from sfumato.release.answers.receipts import INVENTED, Receipt
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.payers import NOT_BOUGHT, Purchase, purchase
from sfumato.release.prices import Price
from sfumato.release.releasing import Read

BEST = 1000
"""The score of a candidate all of whose marginals are those of the private table: NIST's scale, whose worst is 0."""
_LOW_BITS = 31


# ── the candidate, which is public ─────────────────────────────────────────────────────────────


def coded_candidate(source: Any, table: Table, names: Sequence[str], called: str = "candidate") -> CodedRows:
    """Read a public table as the cells that its rows are in, by the coding of a policy's table: by the same statements
    that read private rows, so that a cell means the same in both. ``called`` is what a refusal calls it.
    """
    if isinstance(source, (str, os.PathLike)) and not glob.glob(os.fspath(source), recursive=True):
        raise InvalidParameter(called, os.fspath(source), "a table, or the path of a file that is there")
    columns = {name: table.columns[name] for name in names}
    codings = {name: coding for name, coding in table.codings.items() if name in columns}
    try:
        own = Table(table.name, source, columns, id="row", codings=codings)
        policy = Policy(PrivacyUnit("row", every_row=True), Budget(1), {own.name: own})
        engine = open_engine(policy)
    except InvalidPolicy as error:
        raise error.inside(f"the {called}") from None
    try:
        rows = selection(engine.catalog(), own.name)
        found = coded(own, names, rows.rows.resolve)
        plan = Aggregate(rows.rows.relation, tuple(each.key for each in found), (Count(),))
        bounded = weighted_bounding(plan, plan.limits, math.prod(each.attribute.size for each in found))
        return engine.read(CellRows(bounded, tuple(each.codes for each in found)), 0)
    finally:
        engine.close()


def candidate_digest(rows: CodedRows) -> str:
    """Hash which cells hold how many rows: equal for tables whose rows differ in their order alone."""
    order = np.lexsort((rows.totals, *rows.codes))
    found = hashlib.sha256(repr(rows.sizes).encode())
    for each in (*rows.codes, rows.totals):
        found.update(np.ascontiguousarray(each[order], "<i8").tobytes())
    return found.hexdigest()


# ── what is measured ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class SetDistance:
    """This is how far the private counts of all sets of columns are from a candidate's, as one whole number."""

    reading: CellRows
    sets: tuple[Set, ...]
    candidate: CodedRows
    grid: int
    """By which counts, in their own steps, are multiplied: a power of two."""
    worst: bool = False
    total: int = 1
    """The number of rows that the candidate is scaled to, in steps of the counts: public, or released before."""

    def __post_init__(self) -> None:
        if self.candidate.sizes != self.reading.sizes:
            raise InvalidParameter("candidate", self.candidate.sizes, "one coded as the private rows are")
        if not self.sets or not self.candidate_rows:
            raise InvalidParameter("candidate", "nothing", "a table with rows, and at least one set of columns")

    @property
    def bounded(self) -> BoundedPlan:
        return self.reading.bounded

    @property
    def candidate_rows(self) -> int:
        return int(self.candidate.totals.sum())

    @property
    def sensitivity(self) -> Sensitivity:
        """Bound what one unit changes, by the theorem above: of every set its Δ₁, added up or the largest."""
        moved = [CellCounts(self.reading, each).sensitivity for each in self.sets]
        most = max(each.total for each in moved) if self.worst else sum(each.total for each in moved)
        return Sensitivity(1, self.grid * most, neighbours=moved[0].neighbours)

    def of(self, exact: CodedRows) -> Integers:
        """Give the one number, from the rows as they were read; one beyond 2^62 is cut, which moves no two apart."""
        gaps = [self._gap(exact, each) for each in self.sets]
        found = max(gaps) if self.worst else sum(gaps)
        return np.array([min(found, LARGEST_INTEGER)], np.int64)

    def _gap(self, exact: CodedRows, places: Set) -> int:
        most = LARGEST_INTEGER // self.grid
        counts = np.minimum(CellCounts(self.reading, places).of(exact), most) * self.grid
        return _added(np.abs(counts - self.predicted(places)))

    def predicted(self, places: Set) -> Integers:
        """Scale the candidate's counts to ``total``, in whole steps: a function of public numbers alone."""
        scale = float(Fraction(self.total * self.grid, self.candidate_rows))
        scaled = np.rint(self.candidate.marginal(places) * scale)
        return np.minimum(scaled, float(LARGEST_INTEGER)).astype(np.int64)


def _added(gaps: Integers) -> int:
    """Add up numbers of up to 2^62 exactly, however many they are."""
    high, low = gaps >> _LOW_BITS, gaps & ((1 << _LOW_BITS) - 1)
    return (int(high.sum()) << _LOW_BITS) + int(low.sum())


# ── what is released ───────────────────────────────────────────────────────────────────────────


@codec.value("candidate-score")
@dataclass(frozen=True)
class CandidateScore:
    """A score says how close a candidate's marginals are to those of the private table, from 0 to 1000, with noise.

    It is NIST's k-marginal score, 1000·(1 − mean total variation), of the candidate scaled to ``rows`` rows; with
    ``worst`` it is that of the worst set of columns instead of the mean.
    """

    columns: tuple[str, ...]
    k: int
    sets: int
    worst: bool
    candidate_rows: int
    distance: int
    """‖m_A − c·t_A‖₁ in steps, with noise: the sum over all sets, or the largest."""
    noise: Any = field(repr=False)
    unit_value: Fraction = field(repr=False)
    """What a step of the counts stands for, in rows,"""
    grid: int = field(repr=False)
    """and how many steps of the distance are one of these."""
    total: int = field(repr=False)
    """n̂ in steps of the counts, as it was drawn or given."""
    rows_noise: Any = field(default=None, repr=False)
    """None where the number of rows was public."""
    assumed: bool = field(default=False, repr=False)
    """Whether the number of rows is the caller's: then nothing says that it is the exact one."""
    purchase: Purchase = field(default=NOT_BOUGHT, repr=False)
    receipt: Receipt | None = field(default=None, repr=False, compare=False)
    """What it cost and whom it protects; not stored with the score, since it says what is left now."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        codec.check_fields(self)
        object.__setattr__(self, "unit_value", exact(self.unit_value, "unit_value", POSITIVE))
        if min(self.k, self.sets, self.candidate_rows, self.grid) < 1:
            raise InvalidParameter("score", self.k, "one of at least one set of columns, and a candidate with rows")

    @property
    def rows(self) -> float:
        """Give the number of rows that the candidate was scaled to: noisy, unless it was public."""
        return float(used_total(self.total, self.unit_value) * self.unit_value)

    @property
    def total_variation(self) -> float:
        """Give the distance as a share of the rows, from 0 to 1; noise may put it a little outside, and it is cut."""
        return min(1.0, max(0.0, self._distance / self.rows))

    @property
    def score(self) -> float:
        """Give the score: 1000 for equal marginals, 0 for marginals that share no cell."""
        return _points(self._distance / self.rows)

    def interval(self, confidence: Number = "0.95") -> tuple[float, float]:
        """Give the range of the exact score of the candidate scaled to ``rows`` rows, with this confidence."""
        wide = self._width(exact(confidence, "confidence", CONFIDENCE))
        return _points((self._distance + wide) / self.rows), _points((self._distance - wide) / self.rows)

    def nist_interval(self, confidence: Number = "0.95") -> tuple[float, float]:
        """Give the range of NIST's own score, which divides by the exact number of rows n, with this confidence.

        *Theorem.* Distances to the candidate scaled to x and to n rows differ by at most |x − n|/2, since t_A/rows adds
        up to 1. So the total variation is within (D ± w ± |n̂ − n|/2)/n for an n within the range of n̂, and such a
        fraction is largest, and least, at an end of that range. ∎ Both ranges share the chance to miss evenly. Where x
        is the caller's, the distance itself is at least |x − n|/2, since counts add up to n: so |x − n| ≤ 2(D + w).
        """
        sure = exact(confidence, "confidence", CONFIDENCE)
        if self.rows_noise is None and not self.assumed:
            return self.interval(sure)
        wide, ends = self._assumed(sure) if self.rows_noise is None else self._drawn(1 - (1 - sure) / 2)
        low = min((self._distance - wide - abs(end - self.rows) / 2) / end for end in ends)
        high = max((self._distance + wide + abs(end - self.rows) / 2) / end for end in ends)
        return _points(high), _points(low)

    def _drawn(self, each: Fraction) -> tuple[float, list[float]]:
        """Give the half-width of the distance, and the ends of what n may be by its noise."""
        off = int(self.rows_noise.error(each))
        return self._width(each), [float(max(1, self.total + side) * self.unit_value) for side in (-off, off)]

    def _assumed(self, sure: Fraction) -> tuple[float, list[float]]:
        """Give the half-width of the distance, and the ends of what n may be by the distance."""
        wide = self._width(sure)
        off = 2 * max(0.0, self._distance + wide)
        return wide, [max(float(self.unit_value), self.rows + side) for side in (-off, off)]

    @property
    def _distance(self) -> float:
        return float(self.distance * self._step)

    @property
    def _step(self) -> Fraction:
        return distance_step(self.unit_value, self.grid, 1 if self.worst else self.sets)

    def _width(self, confidence: Fraction) -> float:
        """Give the half-width of the distance in rows, what predictions are rounded by included."""
        rounded = Fraction(self.candidate_rows) * self.unit_value / (4 * self.grid)
        return float(self.noise.error(confidence) * self._step + rounded)

    @property
    def rehearsed(self) -> bool:
        """Tell whether it was invented from the policy alone: nothing was read, charged or written down."""
        return self.receipt is not None and self.receipt.rehearsed

    def to_json(self) -> str:
        """Write the score as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> CandidateScore:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def __str__(self) -> str:
        low, high = self.interval()
        kind = "worst" if self.worst else "mean"
        over = f"{kind} of {self.sets:,} {self.k}-way marginals of {len(self.columns)} columns"
        scaled = f"the candidate's {self.candidate_rows:,} rows stand for {self.rows:,.0f}"
        mark = INVENTED if self.rehearsed else ""
        lines = [
            f"score {self.score:.0f} of {BEST}{mark}, {low:.0f} to {high:.0f} with 95 % confidence: {over}; {scaled}"
        ]
        if self.rows_noise is not None:
            ends = "{:.0f} to {:.0f}".format(*self.nist_interval())
            lines.append(f"with the exact number of rows, which is not told, it is within {ends}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self) if self.receipt is None else f"{self}\n\n{self.receipt}"


def _points(variation: float) -> float:
    return BEST * (1 - min(1.0, max(0.0, variation)))


def used_total(total: int, unit_value: Fraction) -> int:
    """Give the number of rows that a candidate is scaled to, in steps: one row at least, whatever noise has drawn."""
    return max(total, math.ceil(1 / unit_value))


def distance_step(unit_value: Fraction, grid: int, sets: int) -> Fraction:
    """Say how many rows of ½‖m_A − c·t_A‖₁, in the mean over so many sets, one step of the distance stands for."""
    return unit_value / (2 * grid * sets)


@dataclass(frozen=True)
class ScoreDraw:
    """A score is released as one batch: the number of rows where it is bought, then the distance at that number."""

    columns: tuple[str, ...]
    k: int
    view: SetDistance
    noise: Additive
    rows_noise: Additive | None
    total: Price
    version: str
    assumed: bool = False
    """Whether the number of rows is the caller's."""

    @cached_property
    def batch(self) -> Batch:
        distance = Measurement(self.view, self.noise)
        if self.rows_noise is None:
            return Batch((distance,))
        return Batch((Measurement(self._rows, self.rows_noise), distance))

    @property
    def _rows(self) -> CellCounts:
        return CellCounts(self.view.reading, ())

    @property
    def readings(self) -> tuple[CellRows]:
        return (self.view.reading,)

    @property
    def unit_value(self) -> Fraction:
        return self.view.bounded.measures[0].unit_value

    @property
    def good_enough(self) -> Mapping[str, Number]:
        """A stored score is as good if both its numbers are as close."""
        step = distance_step(self.unit_value, self.view.grid, 1 if self.view.worst else len(self.view.sets))
        widths = {"distance": self.noise.error("0.95") * step}
        if self.rows_noise is not None:
            widths["rows"] = self.rows_noise.error("0.95") * self.unit_value
        return {name: f"{float(wide):.12g}" for name, wide in widths.items()}

    def draw(self, read: Read) -> CandidateScore:
        """Draw the number of rows first: the distance is measured at what was drawn, never at what was read."""
        found = read(self.view.reading)
        total = self.view.total
        if self.rows_noise is not None:
            total = int(Measurement(self._rows, self.rows_noise).draw(self._rows.of(found))[0])
        view = replace(self.view, total=used_total(total, self.unit_value))
        return self._score(total, int(Measurement(view, self.noise).draw(view.of(found))[0]))

    def rehearsal(self) -> CandidateScore:
        return self._score(LARGEST_INTEGER, LARGEST_INTEGER)

    def _score(self, total: int, distance: int) -> CandidateScore:
        view, terms = self.view, purchase([self.view.bounded], self.total, self.version)
        own = self.columns, self.k, len(view.sets), view.worst, view.candidate_rows, distance
        return CandidateScore(*own, self.noise, self.unit_value, view.grid, total, self.rows_noise, self.assumed, terms)
