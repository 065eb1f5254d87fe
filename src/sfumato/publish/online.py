"""Online sessions: answer many questions from a public hypothesis, and buy answers only where it is wrong.

Theorem. Let a unit's rows have weights ≥ 0 that add up to at most m. A measure is made of totals q_j = Σ_x w_j(x)·N(x)
over the cells x; let V = max_x Σ_j max(w_j(x), 0) + max_x Σ_j max(−w_j(x), 0). When a unit is added, removed or
replaced, every q_j moves by at most m·V, so max_j ⌊|q_j − q̂_j|/V⌋, for any public whole q̂, moves by at most m where
that is whole; and q/V moves no further than a marginal (``Marginal``) in every norm.
Proof. A unit adds a mean of the w(x), times at most m, so a replaced one moves q by at most m·(A − B) with
A = w⁺(x) + w⁻(y) and B = w⁺(y) + w⁻(x) for some x, y (a convex function is largest at its corners). No number of A or B
is negative, and each adds up to at most V: |A − B| ≤ V in every place, ‖A − B‖₁ ≤ 2V, ‖A − B‖₂² ≤ ‖A‖₂² + ‖B‖₂² ≤ 2V².
An added one moves m·w(x), with ‖w(x)‖₁ ≤ V. ⌊·⌋ moves by no more than m when what is inside does. ∎
Counts of groups have V = 1, a sum of values from 0 to v has V = v, and a mean is two totals (how far values are above
the least and below the greatest) that have the width of the range together. Noise of deviation σ·V on q costs what
noise of deviation σ on a marginal does.

A session is C times: one gate (sparse vector up to its first "above": Lyu, Su & Li 2017, Thm 4), then one noisy vector.
All of it is charged when the session opens. The hypothesis is post-processing of what was released: its start, its
updates (Hardt & Rothblum 2010) and its answers cost nothing.

Interval. "Close" means score + ν < T + ξ. With C·P(ξ > a) + P(ν < −b) ≤ β the score is below T + a + b, whoever asks
and however adaptively: ξ is one of at most C draws, and ν is drawn afresh after the question is known.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.array_types import Floats, Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.ledger import Charged
from sfumato.mechanisms import AboveThreshold, Gaussian, Session, laplace
from sfumato.mechanisms.additive import MAX_STEPS
from sfumato.mechanisms.sparse import SecretSession
from sfumato.plan.readings.dense_readings import Marginal, Marginals
from sfumato.privacy import Neighbours
from sfumato.privacy.numbers import Number
from sfumato.publish.cells.answering import GroupedTotals
from sfumato.publish.marginals.blocks import AttributeSet, sum_marginal_to
from sfumato.publish.marginals.group_totals import AmountBounds, SynopsisEstimates, fit_max_entropy
from sfumato.publish.marginals.measuring import MarginalsRelease, PublishedMarginals
from sfumato.quick_dataclass import dataclass
from sfumato.release.measurement import Batch
from sfumato.release.releasing import Read

FALSE_ALARM = 0.005
"""The largest probability that a gate reports "above" although the hypothesis is exactly right."""
_SCALING_ROUNDS = 10
"""The number of iterative scaling rounds per bought answer."""
_UNIFORM_SHARE = 1e-3
"""The share of the first hypothesis that is uniform over all cells, so that an update can reach each."""
_MAX_CELL_UPDATES = 3 * 10**8
_MAX_TOTAL = 1 << 60
_LIMB_BITS = 18
_MAX_WEIGHT = 1 << 20
"""With limbs of so many bits, sums over 10,000,000 cells fit 64 bits."""
_MAX_DIGITS = 6
_ROUNDING_TOLERANCE = 1e-7
"""Above the rounding error of products of doubles below 2^20."""
_MIN_DEVIATION = 8
"""In steps: discrete Gaussian noise on any finer grid then agrees up to e^(−1000)."""


def build_gate(epsilon: Fraction, sensitivity: int, neighbours: Neighbours) -> AboveThreshold:
    """Return the gate for scores that one unit moves by at most so many steps; its threshold follows from its noise."""
    zero_threshold = AboveThreshold(epsilon, 0, 1, sensitivity, False, None, neighbours)
    first, second, _ = zero_threshold.scales
    threshold = laplace.half_width(first, FALSE_ALARM) + laplace.half_width(second, FALSE_ALARM)
    return AboveThreshold(epsilon, threshold, 1, sensitivity, False, None, neighbours)


def close_score_bound(gate: AboveThreshold, rounds: int, beta: float) -> int:
    """Bound the score of a question that the gate called close, in steps: T + a + b."""
    first, second, _ = gate.scales
    # the noises are symmetric, so a half-width for twice the probability is one for one side
    return gate.threshold + laplace.half_width(first, beta / rounds) + laplace.half_width(second, beta)


@dataclass(frozen=True)
class SessionBatch(Batch):
    """All that a session runs: the blocks of its synopsis, and so many gates and noisy vectors."""

    reading: Marginals
    gate: AboveThreshold
    noise: Gaussian
    rounds: int

    def __post_init__(self) -> None:
        super().__post_init__()
        (measure,) = self.bounded.measures
        is_suited = (
            self.gate.sensitivity >= measure.add_remove_sensitivity.total
            and self.gate.positives == 1
            and not self.gate.monotone
        )
        if not is_suited or self.gate.neighbours is not measure.sensitivity.neighbours:
            rule = (
                "an AboveThreshold with positives=1, and with a sensitivity of at least "
                f"{measure.add_remove_sensitivity.total}"
            )
            raise InvalidParameter("gate", repr(self.gate), rule)

    def noise_for(self, max_row_effect: int) -> Gaussian:
        """Return the noise for totals to which a row adds up to ``max_row_effect``: the same loss on a finer grid."""
        return self.noise if max_row_effect == 1 else Gaussian(max_row_effect * max(self.noise.sizes))

    def can_buy(self, measure: IntegerWeightedMeasure) -> bool:
        """Return whether such totals can be bought; decided by public numbers alone."""
        deviation = max(self.noise.sizes)
        return measure.max_row_effect == 1 or (
            deviation >= _MIN_DEVIATION and measure.max_row_effect * deviation <= MAX_STEPS
        )

    @cached_property
    def charged(self) -> tuple[Charged, ...]:
        """All that is run, as the ledger records it."""
        sensitivity = Marginal(self.reading, 0).sensitivity
        gates, answers = Charged(self.gate, None, self.rounds), Charged(self.noise, sensitivity, self.rounds)
        return (*Batch(self.measurements).mechanism_charges, gates, answers)


@dataclass(frozen=True)
class SynopsisReleaseKeepingCounts:
    """The opening of a session, as the release of its synopsis; the exact counts stay in memory and are not
    recorded.
    """

    synopsis_release: MarginalsRelease
    secret_exact_counts: list[Integers] = field(default_factory=list, repr=False, compare=False)

    @property
    def batch(self) -> SessionBatch:
        assert isinstance(self.synopsis_release.batch, SessionBatch)
        return self.synopsis_release.batch

    @property
    def rows_per_noise_step(self) -> float:
        """The rows that one step of gates and answers stands for."""
        return float(self.synopsis_release.plan.unit_value)

    @property
    def readings(self) -> tuple[Marginals]:
        return self.synopsis_release.readings

    @property
    def accuracy_for_reuse(self) -> dict[str, Number]:
        return {}

    def draw(self, read: Read) -> PublishedMarginals:
        exact = read(self.synopsis_release.reading)
        published = self.synopsis_release.add_noise(exact)
        self.secret_exact_counts.append(exact[0])
        return published

    def result_at_extreme_totals(self) -> PublishedMarginals:
        return self.synopsis_release.result_at_extreme_totals()


class GatedCounts(SecretSession):
    """The exact counts behind gates: a single secret session that can be neither copied nor stored."""

    def __init__(self, batch: SessionBatch, exact: Integers) -> None:
        self._batch = batch
        self._exact: Integers | None = exact
        self._process = os.getpid()
        self._left = batch.rounds
        self._gate: Session = batch.gate.start()

    @property
    def remaining_answers(self) -> int:
        """The number of answers that may still be bought; 0 once closed, and in another process."""
        return 0 if self._exact is None or self._process != os.getpid() else self._left

    def ask(self, measure: IntegerWeightedMeasure, guess: Integers) -> Integers | None:
        """Return None if the guess is close, and otherwise noisy totals, in steps.

        A call that is interrupted may have used up an answer or not; the session is closed.
        """
        if self._exact is None or not self.remaining_answers:
            raise InvalidParameter(
                "question",
                "gated",
                "asked before the rounds of the session are used up",
                fix="open a new session, which is charged as a new release",
            )
        try:
            totals = measure.extract(sum_marginal_to(self._exact, tuple(range(self._exact.ndim)), measure.axes))
            if not self._gate.ask(worst_error_in_row_effects(totals, guess, measure.max_row_effect)):
                return None
            return self._buy_answer(totals, measure.max_row_effect)
        except BaseException:
            self.close()
            raise

    def _buy_answer(self, totals: Integers, max_row_effect: int) -> Integers:
        self._left -= 1
        noisy_totals = np.asarray(self._batch.noise_for(max_row_effect).apply(totals), np.int64)
        if self._left:
            self._gate = self._batch.gate.start()
        else:
            self.close()
        return noisy_totals

    def close(self) -> None:
        """Forget all secrets."""
        self._left = 0
        self._exact = None
        self._gate.close()


def worst_error_in_row_effects(exact: Integers, guess: Integers, max_row_effect: int) -> int:
    """Return the error of a guess on its worst total, in units of what one row can add."""
    return int(np.abs(exact - guess).max()) // max_row_effect


@dataclass(frozen=True, eq=False)
class IntegerWeightedMeasure:
    """A measure as gates compare it: its totals, with integer weights."""

    parts: tuple[GroupedTotals, ...]
    scale: int
    """The factor that made the weights integers."""

    @property
    def axes(self) -> AttributeSet:
        return self.parts[0].axes

    @cached_property
    def max_row_effect(self) -> int:
        """V of the theorem."""
        weight_tables = [weights.low for part in self.parts for weights in part.weights]
        above, below = (sum(np.maximum(sign * weights, 0) for weights in weight_tables) for sign in (1, -1))
        return max(1, int(np.max(above)) + int(np.max(below)))

    def extract(self, table: Integers) -> Integers:
        """Sum exact counts over the axes without overflow: the totals of all parts, concatenated and clipped to 64
        bits.
        """
        if self.max_row_effect == 1:
            return np.concatenate([part.sum_by_group(table) for part in self.parts])
        totals: Any = 0
        for shift in range(0, 63, _LIMB_BITS):
            limb = (table >> shift) & ((1 << _LIMB_BITS) - 1)
            totals = totals + (np.concatenate([part.sum_by_group(limb) for part in self.parts]).astype(object) << shift)
        return np.clip(totals, -_MAX_TOTAL, _MAX_TOTAL).astype(np.int64)


def with_integer_weights(totals: Sequence[GroupedTotals]) -> IntegerWeightedMeasure | None:
    """Scale weights to integers, as decimals of few digits allow; None if they are not such, or are too large."""
    for digits in range(_MAX_DIGITS + 1):
        scale = 10**digits
        parts = tuple(_scale_weights(quantity, scale) for quantity in totals)
        pairs = [
            (weights.low, scaled.low)
            for quantity, part in zip(totals, parts, strict=True)
            for weights, scaled in _paired_weights(quantity, part)
        ]
        if any(float(np.abs(scaled).max()) >= _MAX_WEIGHT for _, scaled in pairs):
            return None
        if all(bool((np.abs(weights * scale - scaled) <= _ROUNDING_TOLERANCE).all()) for weights, scaled in pairs):
            return IntegerWeightedMeasure(parts, scale)
    return None


def _paired_weights(one: GroupedTotals, other: GroupedTotals) -> Iterable[tuple[AmountBounds, AmountBounds]]:
    return zip(one.weights, other.weights, strict=True)


def _scale_weights(quantity: GroupedTotals, scale: int) -> GroupedTotals:
    integer_weights = [np.rint(weights.low * scale) for weights in quantity.weights]
    return replace(quantity, weights=tuple(AmountBounds(weights, weights) for weights in integer_weights))


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A public guess of the whole table: counts ≥ 0 of every cell, from what was released alone."""

    counts: Floats
    total: float
    textbook: bool = False
    """Whether updates are Hardt & Rothblum's: by exp(±η), with η half of the threshold as a share of rows."""

    def guess_totals(self, grouped_totals: GroupedTotals) -> Floats:
        """Guess the totals of all groups."""
        return grouped_totals.sum_by_group(self.marginal(grouped_totals.axes))

    def marginal(self, axes: AttributeSet) -> Floats:
        """Guess the counts over some attributes."""
        summed_axes = tuple(axis for axis in range(self.counts.ndim) if axis not in axes)
        return np.asarray(self.counts.sum(summed_axes))

    def updated(
        self, measure: IntegerWeightedMeasure, bought: Floats, noise_width: float, threshold: float
    ) -> Hypothesis:
        """Move totals toward what was bought of them, if that is further off than its ``noise_width``, and rescale to
        the total; ``threshold`` is that of the gates, in rows.

        Every cell is multiplied by Π_j (bought_j/now_j)^(w_j/V): generalised iterative scaling (Darroch & Ratcliff
        1972), which converges in one round for counts of groups.
        """
        hypothesis = self
        for _ in range(1 if measure.max_row_effect == 1 or self.textbook else _SCALING_ROUNDS):
            current = np.concatenate([hypothesis.guess_totals(part) for part in measure.parts])
            steps = np.where(
                np.abs(bought - current) > noise_width,
                hypothesis._log_weight_steps(measure, bought, current, threshold),
                0.0,
            )
            hypothesis = hypothesis._with_multiplied_weights(measure, steps)
        return hypothesis

    def _log_weight_steps(self, measure: IntegerWeightedMeasure, bought: Floats, current: Floats, far: float) -> Floats:
        if self.textbook:
            return np.sign(bought - current) * min(1.0, far / self.total / 2)
        if any(bool((weights.low < 0).any()) for part in measure.parts for weights in part.weights):
            return (bought - current) / (measure.max_row_effect * self.total)
        least = self.total * measure.max_row_effect * 1e-12
        return np.log(np.maximum(bought, least) / np.maximum(current, least))

    def _with_multiplied_weights(self, measure: IntegerWeightedMeasure, steps: Floats) -> Hypothesis:
        steps_by_part = np.split(steps, np.cumsum([len(part.groups.answer_grid_index) for part in measure.parts])[:-1])
        table = (
            sum(part.apply_transpose(part_steps) for part, part_steps in zip(measure.parts, steps_by_part, strict=True))
            / measure.max_row_effect
        )
        shape = [1] * self.counts.ndim
        for axis, attribute_index in enumerate(measure.axes):
            shape[attribute_index] = np.shape(table)[axis]
        reweighted_counts = self.counts * np.exp(np.reshape(table, shape))
        return replace(self, counts=reweighted_counts * (self.total / max(float(reweighted_counts.sum()), 1e-300)))


def first_hypothesis(estimates: SynopsisEstimates, *, textbook: bool = False) -> Hypothesis:
    """Return the maximum-entropy table with the measured marginals, mixed with a small uniform share."""
    sizes = tuple(attribute.size for attribute in estimates.attributes)
    cells = int(np.prod(sizes))
    total = max(float(estimates.marginal(())), 1.0)
    uniform = np.full(sizes, total / cells)
    if textbook:
        return Hypothesis(uniform, total, True)
    sets: Sequence[AttributeSet] = estimates.sets
    rounds = max(2, min(30, _MAX_CELL_UPDATES // (cells * max(1, len(sets)))))
    fitted = fit_max_entropy(estimates, tuple(range(len(sizes))), sets, rounds)
    mixed = (1 - _UNIFORM_SHARE) * fitted + _UNIFORM_SHARE * uniform
    return Hypothesis(mixed * (total / float(mixed.sum())), total)


def round_to_steps(guess: Floats, unit_value: Fraction) -> Integers:
    """Round a guess to integer steps of the compared totals."""
    return np.rint(np.clip(guess / float(unit_value), -float(_MAX_TOTAL), float(_MAX_TOTAL))).astype(np.int64)
