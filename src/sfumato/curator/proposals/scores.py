"""The score of a candidate table is a proposal: how close its marginals are to those of private rows, at a small price.

The candidate may come from any tool. Its rows are public, so reading and coding them is free; the private rows are read
once, and one number about them is released, with the noisy number of rows before it (``publish.scoring``).
"""

from __future__ import annotations

import glob
import itertools
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import by_period, charged
from sfumato.curator.previews.explaining import Explanation, Operator, limited, sources
from sfumato.curator.previews.rehearsing import rehearsed
from sfumato.curator.proposals.marginals import MarginalsProposal, marginals, rho_of
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.mechanisms.additive import MOST_STEPS
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.bounding import BoundedPlan, for_neighbours, weighted_bounding
from sfumato.plan.canonical import digest
from sfumato.plan.catalog import Catalog
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.cell_rows import CellCounts, CellRows, CodedRows
from sfumato.plan.readings.dense_readings import MOST_CELLS
from sfumato.plan.words import many
from sfumato.policy import Policy, Type
from sfumato.privacy import Sensitivity
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact, shown, whole
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.marginals.measuring import has_fixed_total
from sfumato.publish.scoring import (
    BEST,
    CandidateScore,
    ScoreDraw,
    SetDistance,
    candidate_digest,
    coded_candidate,
    distance_step,
)
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.prices import Price, least_epsilon
from sfumato.release.proposal import ReleaseCall, receipt, released
from sfumato.release.releasing import Progress, StoredResult

MOST_SETS = 20_000
"""How many marginals one score is over, at most."""
_FOR_ROWS = Fraction(1, 3)
"""The share of the price that pays for the number of rows: the error that is left, of both numbers, is about least."""
_TRIMS = tuple(map(Fraction, ("1e-9", "1e-6", "1e-4", "0.01", "0.05")))
"""How much less than a price with δ or ρ is spent, at first: rounding of the noise, and of its loss, has room in it."""
_MOST_GRID, _WEIGHT_BITS = 1 << 20, 10
_DIGITS = 10**12


@dataclass(frozen=True)
class ScoreProposal:
    """A proposal: only ``release`` spends."""

    _context: Context = field(repr=False)
    _coded: MarginalsProposal = field(repr=False)
    _candidate: CodedRows = field(repr=False)
    k: int
    worst: bool = False
    total: Fraction | None = None
    """The number of rows where it is public; None where it is bought."""

    @property
    def columns(self) -> Columns:
        """Return what is released: the score, from 0 to 1000."""
        return (AnswerColumn("score", Type.REAL),)

    @property
    def compared(self) -> tuple[str, ...]:
        """List the columns that are compared."""
        return tuple(attribute.name for attribute in self._coded.attributes)

    @cached_property
    def sets(self) -> tuple[Set, ...]:
        """List the places of the columns of every marginal."""
        return tuple(itertools.combinations(range(len(self.compared)), self.k))

    @property
    def candidate_rows(self) -> int:
        """Count the rows of the candidate."""
        return int(self._candidate.totals.sum())

    @property
    def question(self) -> str:
        """Describe what is asked, as the ledger keeps it."""
        kind = "worst" if self.worst else "mean"
        held = f" where {self._coded.condition[:1000]}" if self._coded.condition else ""
        over = f"{kind} of {many(len(self.sets), 'marginal')} of {', '.join(self.compared)[:4000]}"
        candidate = f"the candidate {self._content[:12]} of {many(self.candidate_rows, 'row')}"
        return f"score of {candidate} against {self._coded.query.plan.table}{held}: {over}"

    @cached_property
    def _content(self) -> str:
        return candidate_digest(self._candidate)

    @property
    def identity(self) -> str:
        """Return the hash of what is measured: the candidate's content is part of it."""
        return digest("score", self._coded.identity, self._content, self.k, self.worst, str(self.total))

    def __repr__(self) -> str:
        over = f"{many(len(self.sets), 'marginal')} of {self._coded.query.plan.table}"
        return f"<score over {over}: .explain() .error() .price() are free, .release() spends>"

    def explain(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = "0.95",
    ) -> Explanation:
        """Describe what is done at this price, step by step. This is free."""
        price, sure = Price(epsilon, delta, rho), exact(confidence, "confidence", CONFIDENCE)
        draw = self._draw(price)
        bounded, unit = draw.view.bounded, draw.unit_value
        moved = draw.view.sensitivity.total * self._step(draw)
        if draw.rows_noise is None:
            rows = Operator("rows", f"{shown(float(draw.view.total * unit))}, which is public", "costs nothing")
        else:
            rows = Operator("rows", draw.rows_noise.words(), f"±{shown(float(draw.rows_noise.error(sure) * unit))}")
        operators = (
            *sources(self._coded.query, self._context.policy),
            limited(bounded),
            Operator("candidate", f"{many(self.candidate_rows, 'row')}, coded by the policy", "public: read for free"),
            rows,
            Operator(
                "distance",
                f"{'worst' if self.worst else 'mean'} of {many(len(self.sets), 'marginal')}, {draw.noise.words()}",
                f"one unit moves it by at most {shown(float(moved))} rows; ±{shown(self._width(draw, sure))} rows",
            ),
            Operator("score", f"0 to {BEST}, computed from the two", f"±{shown(self._points(draw, sure, None))}"),
            *charged(self._context),
        )
        reason = "one number is read of all marginals together, so their number does not raise the price"
        return Explanation(self.question, str(price), operators, reason, ())

    def error(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        rows: Number | None = None,
        confidence: Number = "0.95",
    ) -> float:
        """Return the half-width of the score at this price, for so many private rows: without ``rows`` as many as are
        public, or as the candidate has. This is free.
        """
        draw = self._draw(Price(epsilon, delta, rho))
        return self._points(draw, exact(confidence, "confidence", CONFIDENCE), rows)

    def price(
        self, within: Number, *, delta: Number = 0, rows: Number | None = None, confidence: Number = "0.95"
    ) -> float:
        """Find the least ε, beside this δ, at which the score is within so many points. This is free."""

        def error(epsilon: Fraction) -> float:
            return self.error(epsilon=epsilon, delta=delta, rows=rows, confidence=confidence)

        return least_epsilon(error, within)

    def release(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        fresh: bool = False,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> CandidateScore:
        """Charge the price and score the candidate; a score that was bought before and is at least as accurate is found
        again and free.
        """
        draw = self._draw(Price(epsilon, delta, rho))
        return released(
            draw,
            draw.total,
            self._shown,
            question=self.question,
            plan=self.identity,
            here=self._context,
            call=ReleaseCall(fresh, request_id, seconds, progress),
        )

    def rehearse(
        self, *, epsilon: Number | None = None, delta: Number = 0, rho: Number | None = None
    ) -> CandidateScore:
        """Return the score of the candidate against invented rows: free, and it says nothing of the private ones."""
        return rehearsed(self, self._context, lambda there: there.release(epsilon=epsilon, delta=delta, rho=rho))

    def _shown(self, found: StoredResult[CandidateScore]) -> CandidateScore:
        known, here = found.value, self._context
        noises = (known.rows_noise, known.noise)
        words = tuple(noise.words() for noise in noises if noise is not None)
        told = receipt(found, known.purchase, words, question=self.question, here=here, confidence="0.95")
        return replace(known, purchase=known.purchase.public, receipt=told)

    # ── what is measured at a price ────────────────────────────────────────────────────────────

    def _step(self, draw: ScoreDraw) -> Fraction:
        return distance_step(draw.unit_value, draw.view.grid, 1 if self.worst else len(self.sets))

    def _width(self, draw: ScoreDraw, confidence: Fraction) -> float:
        return float(draw.noise.error(confidence) * self._step(draw))

    def _points(self, draw: ScoreDraw, confidence: Fraction, rows: Number | None) -> float:
        assumed = self._public or self.candidate_rows if rows is None else exact(rows, "rows", POSITIVE)
        return min(float(BEST), BEST * self._width(draw, confidence) / float(assumed))

    @property
    def _public(self) -> Fraction | None:
        """Return the number of rows where it is public: given by the caller, or fixed by replace neighbours.

        The latter needs that each row is a unit and all rows count.
        """
        if self.total is not None:
            return self.total
        size = self._context.policy.size
        exactly = size is not None and self._bounded(0).measures[0].sensitivity.neighbours.value == "replace"
        return Fraction(size or 0) if exactly and has_fixed_total(self._bounded(0)) else None

    def _bounded(self, bits: int) -> BoundedPlan:
        cells = max(math.prod(self._candidate.sizes[place] for place in each) for each in self.sets)
        found = weighted_bounding(self._coded.query.plan, self._coded.limits, cells, bits)
        return for_neighbours(found, self._context.policy.neighbours)

    def _draw(self, price: Price) -> ScoreDraw:
        if not price.allows_gaussian:
            assert price.epsilon is not None
            return self._prepared(price, price.epsilon)
        most = rho_of(price)
        for trim in _TRIMS:
            found = self._prepared(price, most * (1 - trim))
            if price.kept_by(found.batch.curve):
                return found
        raise InvalidParameter("price", str(price), "one that noise on two numbers can keep", fix="give more")

    def _prepared(self, price: Price, amount: Fraction) -> ScoreDraw:
        """Prepare the release that spends an ε, or a ρ: all on the distance where the number of rows is public. A part
        has fifteen decimals and the other what is left, so that both add up: the ledger rounds each charge up.
        """
        public, gaussian = self._public, price.allows_gaussian
        for_rows = Fraction(0) if public is not None else Fraction(math.floor(amount * _FOR_ROWS * 10**15), 10**15)
        view = self._view(amount - for_rows, gaussian)
        rows = CellCounts(view.reading, ()).sensitivity
        rows_noise = None if public is not None else _noise(rows, for_rows, gaussian)
        noise = _noise(view.sensitivity, amount - for_rows, gaussian)
        if public is not None:
            (measure,) = view.bounded.measures
            view = replace(view, total=round(public / measure.unit_value))
        own = self.compared, self.k, view, noise, rows_noise, price, self._context.version
        return ScoreDraw(*own, assumed=self.total is not None)

    def _view(self, amount: Fraction, gaussian: bool) -> SetDistance:
        """Take the finest steps at which the noise can be drawn exactly: data have no part in it."""
        weighted = self._bounded(0).strategy is not Strategy.WHOLE
        bits = min(_WEIGHT_BITS, self._bounded(_WEIGHT_BITS).measures[0].bits) if weighted else 0
        reading = CellRows(self._bounded(bits), tuple(each.codes for each in self._coded.coded))
        view = SetDistance(reading, self.sets, self._candidate, 1, self.worst)
        size = _size(view.sensitivity, amount, gaussian)
        grid = min(_MOST_GRID >> bits, 1 << max(0, math.floor(MOST_STEPS / (4 * size)).bit_length() - 1))
        if size > MOST_STEPS / 4:
            raise Unsupported(
                "too-much-noise",
                "noise is drawn exactly up to 1e12 steps, and a score over so many marginals needs more at this price",
                fix="give more, name fewer columns, or let fewer rows of a unit count with rows=",
            )
        return replace(view, grid=grid)


def _size(moved: Sensitivity, amount: Fraction, gaussian: bool) -> Fraction:
    """Return the scale of Laplace noise for an ε, Δ₁/ε, or the deviation of Gaussian noise for a ρ, Δ₂/√2ρ."""
    if not gaussian:
        return moved.total / amount
    return Fraction(math.isqrt(math.ceil(moved.squares / (2 * amount) * _DIGITS**2)) + 1, _DIGITS)


def _noise(moved: Sensitivity, amount: Fraction, gaussian: bool) -> Additive:
    size = _size(moved, amount, gaussian)
    return Gaussian(size) if gaussian else Laplace(size)


# ── what is asked for ──────────────────────────────────────────────────────────────────────────


def score(
    context: Context,
    catalog: Catalog,
    candidate: Any,
    table: str | None,
    k: int,
    *,
    worst: bool = False,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    rows: int | None = None,
    total: Number | None = None,
) -> ScoreProposal:
    """Propose to score a candidate; what cannot be scored is refused here, before anything is spent."""
    if type(worst) is not bool:
        raise InvalidParameter("worst", worst, "True or False")
    name = _only_private(context.policy) if table is None else table
    own = marginals(context, catalog, name, 1, columns=columns, where=where, rows=rows)
    names = [attribute.name for attribute in own.attributes]
    sizes = [attribute.size for attribute in own.attributes]
    _check_sets(k, sizes)
    known = None if total is None else exact(total, "total", POSITIVE)
    _require_public(candidate, context)
    coded = coded_candidate(candidate, context.policy.tables[own.query.plan.table], names)
    if not coded.totals.sum():
        raise InvalidParameter("candidate", "a table without rows", "a table with rows", fix="give one that has rows")
    _, here = by_period(own.query.plan, context)
    return ScoreProposal(here, own, coded, k, worst, known)


def _require_public(candidate: Any, context: Context) -> None:
    """Refuse a private source as a candidate: how many rows a candidate has, and a hash of them, is told for free."""
    if not isinstance(candidate, (str, os.PathLike)):
        return
    private = {each.address for each in context.engine.data(public=False)}
    if _files(glob.glob(os.fspath(candidate), recursive=True)) & _files(private):
        rule = "a public table, and not the private one that it is scored against"
        raise InvalidParameter("candidate", os.fspath(candidate), rule, fix="give the synthetic table")


def _files(paths: Iterable[str]) -> set[tuple[int, int]]:
    """Return the files that are there, whatever they are called: a link to a file is that file."""
    found = (os.stat(path) for path in paths if os.path.exists(path))
    return {(each.st_dev, each.st_ino) for each in found}


def _only_private(policy: Policy) -> str:
    names = [name for name, table in policy.tables.items() if not table.public]
    if len(names) != 1:
        raise InvalidParameter("table", None, f"the private table that it is scored against: {', '.join(names)}")
    return names[0]


def _check_sets(k: int, sizes: Sequence[int]) -> None:
    """Refuse more marginals than are counted in one release, or one with too many cells, before any array is made."""
    if not 1 <= whole(k, "k", at_least=1) <= len(sizes):
        rule = f"a whole number between 1 and {len(sizes)}, the number of columns that are compared"
        raise InvalidParameter("k", k, rule)
    sets, largest = math.comb(len(sizes), k), math.prod(sorted(sizes)[-k:])
    if sets > MOST_SETS or largest > MOST_CELLS:
        raise Unsupported(
            "too-many-cells",
            f"a score is over at most {MOST_SETS:,} marginals, each of at most {MOST_CELLS:,} cells; these are "
            f"{sets:,}, and the largest has {largest:,}",
            fix="name fewer columns, take a smaller k, or coarser bins",
        )
