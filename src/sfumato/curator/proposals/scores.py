"""A proposal to score a candidate table: how close its marginals are to those of private rows, at a small price.

The candidate may come from any tool. Its rows are public, so reading and coding them is free; the private rows are read
once, and one number about them is released, together with the noisy number of rows (``publish.scoring``).
"""

from __future__ import annotations

import glob
import itertools
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.policy_account import explain_period_charges, restrict_to_periods
from sfumato.curator.previews.explaining import Explanation, PlanStep, explain_limit, explain_source
from sfumato.curator.previews.previewing import preview_release
from sfumato.curator.proposals.marginals import MarginalsProposal, price_in_rho, propose_marginals
from sfumato.curator.proposals.selected_columns import only_private_table
from sfumato.errors import InvalidParameter, Unsupported, ValueWords
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.mechanisms.additive import MAX_STEPS
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.bounding import BoundedPlan, bound_by_unit_weights, for_neighbours
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.catalog import Catalog
from sfumato.plan.descriptions import count_with_noun
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.cell_rows import CellCounts, CellRows, CodedRows
from sfumato.plan.readings.dense_readings import MAX_CELLS
from sfumato.policy import Type
from sfumato.privacy import Sensitivity
from sfumato.privacy.numbers import (
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    POSITIVE,
    Number,
    exact,
    exact_integer,
    format_number,
)
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.marginals.measuring import has_fixed_total
from sfumato.publish.scoring import (
    BEST,
    CandidateScore,
    ScoreRelease,
    SetDistance,
    candidate_digest,
    code_candidate,
    distance_step,
)
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.prices import Price, least_epsilon
from sfumato.release.proposal import ReleaseCall, StoredProposal, make_receipt, release_or_find
from sfumato.release.releasing import StoredResult
from sfumato.release.running_work import Progress
from sfumato.renamed import RehearseAlias

MAX_SETS = 20_000
"""The largest number of marginals in one score."""
_ROW_COUNT_SHARE = Fraction(1, 3)
"""The share of the price for the number of rows; about optimal for the combined error of both numbers."""
_HELD_BACK = tuple(map(Fraction, ("1e-9", "1e-6", "1e-4", "0.01", "0.05")))
"""The fractions of a price with δ or ρ held back, tried in turn: room for rounding of the noise and of its loss."""
_MAX_GRID, _WEIGHT_BITS = 1 << 20, 10
_ROOT_PRECISION = 10**12


@dataclass(frozen=True)
class ScoreProposal(RehearseAlias, StoredProposal):
    """A proposal of a score; only ``release`` spends."""

    _context: Context = field(repr=False)
    _coded: MarginalsProposal = field(repr=False)
    _candidate: CodedRows = field(repr=False)
    k: int
    worst: bool = False
    total: Fraction | None = None
    """The number of rows if it is public; None if it is bought."""

    @property
    def columns(self) -> Columns:
        """The released column: the score, from 0 to 1000."""
        return (AnswerColumn("score", Type.REAL),)

    @property
    def compared_columns(self) -> tuple[str, ...]:
        """The names of the compared columns."""
        return tuple(attribute.name for attribute in self._coded.attributes)

    @cached_property
    def sets(self) -> tuple[AttributeSet, ...]:
        """The column indices of every marginal."""
        return tuple(itertools.combinations(range(len(self.compared_columns)), self.k))

    @property
    def candidate_rows(self) -> int:
        """The candidate's number of rows."""
        return int(self._candidate.totals.sum())

    @property
    def question(self) -> str:
        """The proposal in words, as stored in the ledger."""
        kind = "worst" if self.worst else "mean"
        condition = f" where {self._coded.condition[:1000]}" if self._coded.condition else ""
        workload = (
            f"{kind} of {count_with_noun(len(self.sets), 'marginal')} of {', '.join(self.compared_columns)[:4000]}"
        )
        candidate = f"the candidate {self._candidate_hash[:12]} of {count_with_noun(self.candidate_rows, 'row')}"
        return f"score of {candidate} against {self._coded.query.plan.table}{condition}: {workload}"

    @cached_property
    def _candidate_hash(self) -> str:
        return candidate_digest(self._candidate)

    @property
    def plan_key(self) -> PlanKey:
        """The key of what is measured, including the candidate's content."""
        parts = (self._candidate_hash, self.k, self.worst, str(self.total))
        return self._coded.plan_key.derive(lambda key: digest("score", key, *parts))

    def __repr__(self) -> str:
        workload = f"{count_with_noun(len(self.sets), 'marginal')} of {self._coded.query.plan.table}"
        return f"<score over {workload}: .explain() .error() .price() are free, .release() spends>"

    def explain(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> Explanation:
        """Explain the release at this price, step by step. This is free."""
        price, confidence_level = Price(epsilon, delta, rho), exact(confidence, "confidence", CONFIDENCE)
        draw = self._strategy_at(price)
        bounded, unit = draw.view.bounded, draw.unit_value
        unit_change = draw.view.sensitivity.total * self._distance_step(draw)
        width = self._distance_half_width(draw, confidence_level)
        if draw.rows_noise is None:
            rows = PlanStep("rows", f"{format_number(float(draw.view.total * unit))}, which is public", "free")
        else:
            rows = PlanStep(
                "rows",
                draw.rows_noise.words(),
                f"±{format_number(float(draw.rows_noise.error(confidence_level) * unit))}",
            )
        operators = (
            *explain_source(self._coded.query, self._context.policy),
            explain_limit(bounded),
            PlanStep(
                "candidate",
                f"{count_with_noun(self.candidate_rows, 'row')}, coded by the policy",
                "public, so reading is free",
            ),
            rows,
            PlanStep(
                "distance",
                f"{'worst' if self.worst else 'mean'} of {count_with_noun(len(self.sets), 'marginal')}, "
                f"{draw.noise.words()}",
                f"one unit changes it by at most {format_number(float(unit_change))} rows; "
                f"±{format_number(width)} rows",
            ),
            PlanStep(
                "score",
                f"0 to {BEST}, computed from both numbers",
                f"±{format_number(self._score_width(draw, confidence_level, None))}",
            ),
            *explain_period_charges(self._context),
        )
        reason = "one number is measured for all marginals together, so more marginals do not raise the price"
        return Explanation(self.question, str(price), operators, reason, ())

    def error(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        rows: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> float:
        """Return the half-width of the score at this price, for this number of private rows. This is free.

        By default ``rows`` is the public number of rows, or that of the candidate.
        """
        draw = self._strategy_at(Price(epsilon, delta, rho))
        return self._score_width(draw, exact(confidence, "confidence", CONFIDENCE), rows)

    def price(
        self, within: Number, *, delta: Number = 0, rows: Number | None = None, confidence: Number = DEFAULT_CONFIDENCE
    ) -> float:
        """Find the least ε, at this δ, at which the score is within this many points. This is free."""

        def error(epsilon: Fraction) -> float:
            return self.error(epsilon=epsilon, delta=delta, rows=rows, confidence=confidence)

        return least_epsilon(error, within)

    def release(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        fresh: bool = False,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> CandidateScore:
        """Charge the price and score the candidate; a stored score at least as accurate is returned free."""
        draw = self._strategy_at(Price(epsilon, delta, rho))
        return release_or_find(
            draw,
            draw.price,
            self._score_with_receipt,
            question=self.question,
            plan=self.plan_key,
            context=self._context,
            call=ReleaseCall(fresh, request_id, seconds, progress),
        )

    def preview(self, epsilon: Number | None = None, *, delta: Number = 0, rho: Number | None = None) -> CandidateScore:
        """Return a score against invented rows. Free; it says nothing about the private ones."""
        return preview_release(
            self, self._context, lambda proposal: proposal.release(epsilon=epsilon, delta=delta, rho=rho)
        )

    def _score_with_receipt(self, result: StoredResult[CandidateScore]) -> CandidateScore:
        candidate_score, context = result.value, self._context
        noises = (candidate_score.rows_noise, candidate_score.noise)
        words = tuple(noise.words() for noise in noises if noise is not None)
        score_receipt = make_receipt(
            result,
            candidate_score.purchase,
            words,
            question=self.question,
            context=context,
            confidence=DEFAULT_CONFIDENCE,
        )
        return replace(candidate_score, purchase=candidate_score.purchase.without_salt, receipt=score_receipt)

    # ── measurements at a price ────────────────────────────────────────────────────────────

    def _distance_step(self, draw: ScoreRelease) -> Fraction:
        return distance_step(draw.unit_value, draw.view.grid, 1 if self.worst else len(self.sets))

    def _distance_half_width(self, draw: ScoreRelease, confidence: Fraction) -> float:
        return float(draw.noise.error(confidence) * self._distance_step(draw))

    def _score_width(self, draw: ScoreRelease, confidence: Fraction, rows: Number | None) -> float:
        row_count = self._public_row_count or self.candidate_rows if rows is None else exact(rows, "rows", POSITIVE)
        return min(float(BEST), BEST * self._distance_half_width(draw, confidence) / float(row_count))

    @property
    def _public_row_count(self) -> Fraction | None:
        """The number of rows if it is public: given by the caller, or fixed by replace neighbours.

        The latter requires that each row is a unit and all rows count.
        """
        if self.total is not None:
            return self.total
        size = self._context.policy.size
        is_fixed = size is not None and self._bounded_plan(0).measures[0].sensitivity.neighbours.value == "replace"
        return Fraction(size or 0) if is_fixed and has_fixed_total(self._bounded_plan(0)) else None

    def _bounded_plan(self, bits: int) -> BoundedPlan:
        cells = max(math.prod(self._candidate.sizes[index] for index in indices) for indices in self.sets)
        bounded = bound_by_unit_weights(self._coded.query.plan, self._coded.limits, cells, bits)
        return for_neighbours(bounded, self._context.policy.neighbours)

    def _strategy_at(self, price: Price) -> ScoreRelease:
        if not price.allows_gaussian:
            assert price.epsilon is not None
            return self._prepare_strategy(price, price.epsilon)
        rho = price_in_rho(price)
        for held_back in _HELD_BACK:
            draw = self._prepare_strategy(price, rho * (1 - held_back))
            if price.is_satisfied_by(draw.batch.curve):
                return draw
        raise InvalidParameter(
            "price",
            str(price),
            "higher, because it is too low for the two numbers of a score",
            fix="give a larger epsilon or rho",
        )

    def _prepare_strategy(self, price: Price, amount: Fraction) -> ScoreRelease:
        """Prepare the release that spends this ε, or ρ; all on the distance if the number of rows is public.

        The first part is rounded to fifteen decimals and the other is the rest, so that both add up: the ledger rounds
        each charge up.
        """
        public_rows, gaussian = self._public_row_count, price.allows_gaussian
        row_count_amount = (
            Fraction(0) if public_rows is not None else Fraction(math.floor(amount * _ROW_COUNT_SHARE * 10**15), 10**15)
        )
        view = self._distance_on_finest_grid(amount - row_count_amount, gaussian)
        row_sensitivity = CellCounts(view.reading, ()).sensitivity
        rows_noise = None if public_rows is not None else _calibrated_noise(row_sensitivity, row_count_amount, gaussian)
        noise = _calibrated_noise(view.sensitivity, amount - row_count_amount, gaussian)
        if public_rows is not None:
            (measure,) = view.bounded.measures
            view = replace(view, total=round(public_rows / measure.unit_value))
        terms = self.compared_columns, self.k, view, noise, rows_noise, price, self._context.version
        return ScoreRelease(*terms, assumed=self.total is not None)

    def _distance_on_finest_grid(self, amount: Fraction, gaussian: bool) -> SetDistance:
        """Choose the finest grid at which the noise can be drawn exactly, independent of the data."""
        is_weighted = self._bounded_plan(0).strategy is not Strategy.WHOLE
        bits = min(_WEIGHT_BITS, self._bounded_plan(_WEIGHT_BITS).measures[0].bits) if is_weighted else 0
        codes = tuple(column.codes for column in self._coded.coded_columns)
        reading = CellRows(self._bounded_plan(bits), codes, ((), *self.sets))
        view = SetDistance(reading, self.sets, self._candidate, 1, self.worst)
        size = _calibrated_noise_size(view.sensitivity, amount, gaussian)
        grid = min(_MAX_GRID >> bits, 1 << max(0, math.floor(MAX_STEPS / (4 * size)).bit_length() - 1))
        if size > MAX_STEPS / 4:
            raise Unsupported(
                "too-much-noise",
                "at this price, scoring this many marginals needs more noise than can be drawn exactly",
                fix="give a higher price, name fewer columns, or count fewer rows per unit with rows=1",
            )
        return replace(view, grid=grid)


def _calibrated_noise_size(sensitivity: Sensitivity, amount: Fraction, gaussian: bool) -> Fraction:
    """Return the scale of Laplace noise for an ε, Δ₁/ε, or the deviation of Gaussian noise for a ρ, Δ₂/√2ρ."""
    if not gaussian:
        return sensitivity.total / amount
    return Fraction(math.isqrt(math.ceil(sensitivity.squares / (2 * amount) * _ROOT_PRECISION**2)) + 1, _ROOT_PRECISION)


def _calibrated_noise(sensitivity: Sensitivity, amount: Fraction, gaussian: bool) -> Additive:
    size = _calibrated_noise_size(sensitivity, amount, gaussian)
    return Gaussian(size) if gaussian else Laplace(size)


# ── parsing the request ──────────────────────────────────────────────────────────────────────────


def propose_score(
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
    """Propose to score a candidate; refuse here, before any charge, what cannot be scored."""
    if type(worst) is not bool:
        raise InvalidParameter("worst", worst, "True or False")
    name = only_private_table(context.policy) if table is None else table
    coded_table = propose_marginals(context, catalog, name, 1, columns=columns, where=where, rows=rows)
    names = [attribute.name for attribute in coded_table.attributes]
    sizes = [attribute.size for attribute in coded_table.attributes]
    _refuse_too_many_sets(k, sizes)
    public_total = None if total is None else exact(total, "total", POSITIVE)
    _refuse_private_file(candidate, context)
    coded = code_candidate(candidate, context.policy.tables[coded_table.query.plan.table], names)
    if not coded.totals.sum():
        raise InvalidParameter(
            "candidate",
            ValueWords("a table without rows"),
            "a table with at least one row",
            fix="check that the file is complete",
        )
    _, paying_context = restrict_to_periods(coded_table.query.plan, context)
    return ScoreProposal(paying_context, coded_table, coded, k, worst, public_total)


def _refuse_private_file(candidate: Any, context: Context) -> None:
    """Refuse a private source as a candidate: a candidate's number of rows and hash are shown for free."""
    if not isinstance(candidate, (str, os.PathLike)):
        return
    private_paths = {source.address for source in context.engine.data(public=False)}
    if _device_and_inode_of_existing(glob.glob(os.fspath(candidate), recursive=True)) & _device_and_inode_of_existing(
        private_paths
    ):
        rule = "a public table, not the private one that it is compared with"
        raise InvalidParameter(
            "candidate", os.fspath(candidate), rule, fix="pass the synthetic rows, or the path of their file"
        )


def _device_and_inode_of_existing(paths: Iterable[str]) -> set[tuple[int, int]]:
    """Return device and inode of the existing files, so that links are recognised."""
    stats = (os.stat(path) for path in paths if os.path.exists(path))
    return {(stat.st_dev, stat.st_ino) for stat in stats}


def _refuse_too_many_sets(k: int, sizes: Sequence[int]) -> None:
    """Refuse too many marginals, or one with too many cells, before any array is allocated."""
    if not 1 <= exact_integer(k, "k") <= len(sizes):
        range_rule = f"a whole number from 1 to {len(sizes)}, because {len(sizes)} columns are compared"
        rule = range_rule if len(sizes) != 1 else "1, because only one column is compared"
        raise InvalidParameter("k", k, rule)
    sets, largest = math.comb(len(sizes), k), math.prod(sorted(sizes)[-k:])
    if sets > MAX_SETS or largest > MAX_CELLS:
        raise Unsupported(
            "too-many-cells",
            f"a score covers at most {MAX_SETS:,} marginals, each of at most {MAX_CELLS:,} cells; here there "
            f"are {sets:,}, and the largest has {largest:,} cells",
            fix="name fewer columns, or use a smaller k or coarser bins",
        )
