"""Private selection: one candidate of many is released, never the scores.

Scores are numbers of any kind, rounded to a public ``grid``. A unit changes every score by at most ``sensitivity``;
where scores are computed in floating point, that includes the rounding error. ``monotone`` says that all scores move
the same way when a unit is added (counts do): then half the noise is enough, under add-remove neighbours only.

*The grid.* A choice depends only on how many whole steps each score lies below the best. A score s becomes ⌊s/γ + ½⌋
steps of a grid γ, a power of two that belongs to the mechanism: named by the caller, or derived from Δ and ε alone.
Scores that one unit moves by at most Δ then move by at most ⌈Δ/γ⌉ steps, and never the other way. A step taken from the
scores themselves, such as the common denominator of fractions, would let one unit's row decide how all of them are
compared, and that is no privacy at all.

Two cuts keep the steps within 64 bits, both at fixed places: a score beyond ±2⁶² counts as that, NaN as the lowest,
and a candidate further than 2⁶² steps below the best counts as so far below. Neither moves two scores further apart.
What a number becomes depends on its value and never on its type or on the others' types, so that no list of whole
numbers, floats, decimals and fractions is refused or read differently because of what is in it.

*Frequent values.* In every group the most frequent of some public values are chosen, in all groups for one charge.

*Theorem.* A unit has at most T rows in all groups together. Choosing in every group by weights e^{r·count} leaks like
one choice of bounded range r·T when a unit is added or removed, and 2r·T when it is replaced. *Proof.* A unit with d_j
rows in group j raises each count there by between 0 and d_j, so the logarithm of every weight by between 0 and r·d_j,
and that of their sum too: the log-ratio of the probabilities of any two outcomes of the group's choice differs by at
most r·d_j. Groups choose independently, so these ranges add up to r·Σd_j ≤ r·T. A unit that is replaced is one that
leaves and one that comes. ∎ (Dong, Durfee & Rogers 2020 on bounded range; sums over parts as for quantiles.)

The k best are k such choices in a row, each among what is left: one shot of Gumbel noise has the same law (Durfee &
Rogers 2019, Lemma 4.2).
"""

from __future__ import annotations

import math
from copy import copy
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import grids, outcome_laws, races
from sfumato.mechanisms.outcome_laws import Law, OutcomeDistribution
from sfumato.privacy import Curve, Neighbours, codec, compose
from sfumato.privacy.numbers import (
    ABOVE_ONE,
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    POSITIVE,
    Number,
    exact,
    exact_integer,
    format_exact,
    format_number,
    format_percent,
)
from sfumato.quick_dataclass import dataclass

Gaps = NDArray[np.uint64]

LARGEST = 1 << 62
FURTHEST = 1 << 62
"""The most steps below the best that are distinguished."""
_FINE = 1 << 20
_NEGLIGIBLE = -30  # a decimal below 10^-29 is far less than half of any grid's step
_NUMBERS = (int, float, Fraction, Decimal, np.integer, np.float16, np.float32)


def derived_grid(sensitivity: Fraction, epsilon: Fraction) -> Fraction:
    """Return the largest power of two that is at most 1, so that integers stay exact, and at most 2⁻²⁰ of the
    sensitivity and of Δ/ε, so that rounding is negligible beside the noise.
    """
    upper_limit = min(Fraction(1), sensitivity / max(Fraction(1), epsilon) / _FINE)
    return Fraction(1, 1 << (math.ceil(1 / upper_limit) - 1).bit_length())


def score_gaps(scores: Any, grid: Fraction) -> Gaps:
    """Return how many steps each score lies below the best, at most ``FURTHEST``; a refusal names the kind of scores,
    never their values.
    """
    array = _as_number_or_object_array(scores)
    if array.ndim != 1 or not array.size:
        dimensions = "one number" if array.ndim == 0 else f"an array with {array.ndim} dimensions"
        got = ValueWords("an empty list" if array.ndim == 1 else dimensions)
        raise InvalidParameter("scores", got, "a list of one or more scores")
    if array.dtype.kind == "O":
        return _gaps_from_mixed_numbers(array.tolist(), grid)
    if array.dtype.kind == "f":
        return _gaps_from_floats(array.astype(np.float64), grid)
    return _gaps_from_integers(
        np.clip(array, -LARGEST if array.dtype.kind == "i" else 0, LARGEST).astype(np.int64), grid
    )


def _as_number_or_object_array(scores: Any) -> NDArray[Any]:
    """Return an array of integers or floats, or of objects where numbers of several kinds are mixed."""
    try:
        array = np.asarray(scores)
        may_be_mixed = isinstance(scores, (list, tuple)) and array.dtype.kind == "f"
        if may_be_mixed and not all(isinstance(score, (float, np.float16, np.float32)) for score in scores):
            array = np.array(scores, object)  # a large whole number beside a float would be rounded to one
    except ValueError:
        array = np.array(None)
    is_numeric = array.dtype.kind in "iuf" and array.dtype.itemsize <= 8
    if not is_numeric and not (array.dtype.kind == "O" and all(_is_number_not_bool(score) for score in array.flat)):
        allowed = "a list of numbers (int, float, Decimal or Fraction)"
        raise InvalidParameter("scores", grids.describe_array(array), allowed, fix="write scores such as [3, 5.5, 4]")
    return array


def _is_number_not_bool(score: object) -> bool:
    return isinstance(score, _NUMBERS) and not isinstance(score, bool)


def _gaps_from_integers(values: NDArray[np.int64], grid: Fraction) -> Gaps:
    """Convert integers: exact on a fine grid, rounded on a coarse one."""
    if grid > 1:
        k = grid.numerator.bit_length() - 1
        values = (values >> k) + ((values >> (k - 1)) & 1)
    k = grid.denominator.bit_length() - 1
    steps_below = values.max().astype(np.uint64) - values.astype(np.uint64)  # what wraps around wraps back
    return np.minimum(steps_below, np.uint64(FURTHEST >> k)) << np.uint64(k)


def _gaps_from_floats(values: NDArray[np.float64], grid: Fraction) -> Gaps:
    """Convert floats: scaling by a power of two is exact, and every resulting whole number of steps is a float.

    Differences of such floats are not: each is split at 2⁶¹, both parts are subtracted as whole numbers, and where the
    upper parts differ by four the difference is beyond 2⁶² whatever the lower ones are.
    """
    steps = np.clip(np.where(np.isnan(values), -np.inf, values), -float(LARGEST), float(LARGEST)) / float(grid)
    floors = np.floor(steps)
    steps = floors + (steps - floors >= 0.5)
    high = np.trunc(steps * 2.0**-61)
    low = (steps - high * 2.0**61).astype(np.int64)
    best = int(np.argmax(steps))
    high_difference = np.minimum(high[best] - high, 4.0).astype(np.uint64) << np.uint64(61)
    steps_below = high_difference + (low[best] - low).astype(np.uint64)
    return np.minimum(steps_below, np.uint64(FURTHEST))


def _gaps_from_mixed_numbers(values: list[Any], grid: Fraction) -> Gaps:
    steps = [_number_to_steps(value, grid) for value in values]
    best = max(steps)
    return np.array([min(best - score_steps, FURTHEST) for score_steps in steps], np.uint64)


def _number_to_steps(value: Any, grid: Fraction) -> int:
    """Convert one number, of any kind, into steps."""
    return math.floor(_clamped_fraction(value) / grid + Fraction(1, 2))


def _clamped_fraction(value: Any) -> Fraction:
    """Return the number exactly, clamped to ±2⁶²; NaN is the lowest."""
    number = value.item() if isinstance(value, np.generic) else value
    if number.is_nan() if isinstance(number, Decimal) else number != number:
        return Fraction(-LARGEST)
    if isinstance(number, Decimal) and number.adjusted() < _NEGLIGIBLE:
        return Fraction(0)  # its denominator, written out, might fill the memory
    return Fraction(number) if -LARGEST < number < LARGEST else Fraction(LARGEST if number > 0 else -LARGEST)


_EPSILON = (Fraction(1, 10**9), Fraction(1000))
_SENSITIVITY = (Fraction(1, 10**9), Fraction(10**15))


def _require_number_within(value: Number, name: str, limits: tuple[Fraction, Fraction]) -> Fraction:
    number = exact(value, name, POSITIVE)
    if not limits[0] <= number <= limits[1]:
        raise InvalidParameter(name, value, f"a number from {float(limits[0]):g} to {float(limits[1]):g}")
    return number


@dataclass(frozen=True)
class ScoreSelection:
    """A selection by scores: its price, how far a unit moves scores, whether all the same way, and the grid on which
    scores are compared, a power of two that is derived from price and sensitivity unless it is given.
    """

    interactive: ClassVar[bool] = False
    mechanism_name: ClassVar[str]
    """What it is called in words."""

    epsilon: Fraction
    sensitivity: Fraction
    monotone: bool
    neighbours: Neighbours
    grid: Fraction

    def __init__(
        self,
        epsilon: Number,
        sensitivity: Number = 1,
        monotone: bool = False,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        grid: Number | None = None,
    ) -> None:
        relation = Neighbours.of(neighbours)
        if not isinstance(monotone, bool):
            raise InvalidParameter("monotone", monotone, "True or False")
        if monotone and relation is Neighbours.REPLACE:
            raise InvalidParameter(
                "monotone",
                monotone,
                "False under replace neighbours",
                fix="leave out monotone: a replaced unit can move scores up and down",
            )
        object.__setattr__(self, "epsilon", _require_number_within(epsilon, "epsilon", _EPSILON))
        object.__setattr__(self, "sensitivity", _require_number_within(sensitivity, "sensitivity", _SENSITIVITY))
        object.__setattr__(self, "monotone", monotone)
        object.__setattr__(self, "neighbours", relation)
        object.__setattr__(self, "grid", grids.parse_grid(grid) or self.derived_grid)

    @property
    def derived_grid(self) -> Fraction:
        """The grid of a selection that is given none."""
        return derived_grid(self.sensitivity, self.epsilon)

    @property
    def rate(self) -> Fraction:
        """The rate at which the log-weight of a candidate falls per point of its score: ε/2Δ, or ε/Δ when monotone.

        Δ is rounded up to whole grid steps.
        """
        return self.epsilon / ((1 if self.monotone else 2) * -(-self.sensitivity // self.grid) * self.grid)

    def in_parts(self, parts: int, grid: Number | None = None) -> Self:
        """Return the same selection for scores given in units of 1/``parts``, in which they are integers."""
        rescaled = copy(self)
        object.__setattr__(
            rescaled, "sensitivity", _require_number_within(self.sensitivity * parts, "sensitivity", _SENSITIVITY)
        )
        object.__setattr__(rescaled, "grid", grids.parse_grid(grid) or rescaled.derived_grid)
        return rescaled

    def error(self, candidates: int, confidence: Number = DEFAULT_CONFIDENCE, *, on_grid: bool = False) -> float:
        """Bound how far the chosen score lies below the best, with this confidence.

        Rounding two scores to the grid may hide a step more, unless they are whole numbers of steps (``on_grid``), as
        whole numbers are where no grid is named. Beyond the furthest distance that is told apart nothing is known.
        """
        shortfall = self._shortfall_of_choice(candidates, confidence)
        if shortfall > float(FURTHEST * self.grid):
            return math.inf
        return shortfall if on_grid else shortfall + float(self.grid)

    def _shortfall_of_choice(self, candidates: int, confidence: Number) -> float:
        """Bound the loss by the exponential mechanism's (ln n + ln 1/β)/rate (Dwork & Roth 2014, Thm 3.11), which holds
        a fortiori for permute-and-flip (McKenna & Sheldon 2020, Prop. 2 and Cor. 1).
        """
        return _log_candidates_over_miss(candidates, confidence) / float(self.rate)

    def law(self, scores: Any) -> Law:
        """Return the probability of every outcome for these scores, to a hundred digits (``outcome_laws``)."""
        steps_below, rate = gaps_and_log_weight_per_step(scores, self)
        steps = outcome_laws.require_computable_steps([int(gap) for gap in steps_below], rate)
        return dict(enumerate(self._probability_by_candidate(steps, rate)))

    def _probability_by_candidate(self, steps: list[int], rate: Fraction) -> list[Decimal]:  # noqa: ARG002
        raise InvalidParameter("mechanism", self, "a built-in selection by scores")

    def distribution(self, scores: Any) -> OutcomeDistribution:
        """Return the exact law of the choice for a short list of scores; equal scores have equal probabilities 1/n."""
        return outcome_laws.distribution_from_law(self.law(scores), is_uniform=_have_equal_scores(scores, self))

    def loss(self, outcome: Any, x: Any, y: Any) -> float:
        """Return ln P[M(x) = outcome]/P[M(y) = outcome], the privacy loss of one outcome for two lists of scores."""
        return outcome_laws.log_probability_ratio(outcome, self.law(x), self.law(y))

    def words(self) -> str:
        return f"{self.mechanism_name}, ε {format_number(float(self.epsilon), 6)}"

    def __repr__(self) -> str:
        arguments = [f"epsilon={format_exact(self.epsilon)}"]
        if self.sensitivity != 1:
            arguments.append(f"sensitivity={format_exact(self.sensitivity)}")
        arguments += ["monotone=True"] if self.monotone else []
        arguments += [] if self.neighbours is Neighbours.ADD_REMOVE else [f"neighbours={self.neighbours.value!r}"]
        arguments += [] if self.grid == self.derived_grid else [f"grid={format_exact(self.grid)}"]
        return f"{type(self).__name__}({', '.join(arguments + self._extra_arguments_text())})"

    def _extra_arguments_text(self) -> list[str]:
        return []


def _have_equal_scores(scores: Any, mechanism: ScoreSelection) -> bool:
    return not gaps_and_log_weight_per_step(scores, mechanism)[0].any()


def gaps_and_log_weight_per_step(scores: Any, mechanism: ScoreSelection) -> tuple[NDArray[np.uint64], Fraction]:
    """Return how many steps each score lies below the best, and the rate per step."""
    return score_gaps(scores, mechanism.grid), mechanism.rate * mechanism.grid


def _ln_of_fraction(value: Fraction) -> float:
    """Return ln of a positive fraction of any size."""
    return math.log(value.numerator) - math.log(value.denominator)


@codec.serialisable("exponential")
@dataclass(frozen=True, repr=False, init=False)
class Exponential(ScoreSelection):
    """The exponential mechanism: P(h) ∝ e^{ε·s(h)/2Δ} (McSherry & Talwar 2007). Its privacy loss spans at most ε:
    bounded range.

    >>> Exponential(1).choose([0, 100, 0])
    1
    """

    mechanism_name: ClassVar[str] = "exponential mechanism"

    def choose(self, scores: Any) -> int:
        """Return the index of one candidate; ties are broken uniformly."""
        return int(races.draw_winners(races.GUMBEL, *gaps_and_log_weight_per_step(scores, self))[0])

    def _probability_by_candidate(self, steps: list[int], rate: Fraction) -> list[Decimal]:
        return outcome_laws.exponential_mechanism_law(steps, rate)

    def curve(self) -> Curve:
        return Curve.bounded_range(self.epsilon, self.neighbours)


@codec.serialisable("permute-and-flip")
@dataclass(frozen=True, repr=False, init=False)
class PermuteAndFlip(ScoreSelection):
    """Permute-and-flip (McKenna & Sheldon 2020): its expected error is never larger than the exponential mechanism's at
    equal ε.

    Drawn as the largest score under exponential noise, which is the same law (Ding et al. 2021). Its range is not
    bounded, so it is charged as any ε-DP release.
    """

    mechanism_name: ClassVar[str] = "permute-and-flip"

    def choose(self, scores: Any) -> int:
        """Return the index of one candidate; ties are broken uniformly."""
        return int(races.draw_winners(races.EXPONENTIAL, *gaps_and_log_weight_per_step(scores, self))[0])

    def _probability_by_candidate(self, steps: list[int], rate: Fraction) -> list[Decimal]:
        return outcome_laws.permute_and_flip_law(steps, rate)

    def curve(self) -> Curve:
        return Curve.pure(self.epsilon, self.neighbours)


class MaxNoise(Enum):
    """The noise of report noisy max."""

    LAPLACE = "laplace"
    EXPONENTIAL = "exponential"
    GUMBEL = "gumbel"


@codec.serialisable("noisy-max")
@dataclass(frozen=True, repr=False, init=False)
class NoisyMax(ScoreSelection):
    """Report noisy max: noise of scale 2Δ/ε (Δ/ε when monotone) on every score; only the index of the largest is
    released.

    Laplace noise: Dwork & Roth 2014, Claim 3.9, for counts, which are monotone; scores that move both ways take twice
    the noise, because one score may rise by Δ while another falls by Δ. Exponential noise is permute-and-flip, Gumbel
    noise the exponential mechanism.
    """

    mechanism_name: ClassVar[str] = "the largest noisy score"

    noise: MaxNoise

    def __init__(
        self,
        epsilon: Number,
        sensitivity: Number = 1,
        monotone: bool = False,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        grid: Number | None = None,
        noise: MaxNoise | str = MaxNoise.LAPLACE,
    ) -> None:
        super().__init__(epsilon, sensitivity, monotone, neighbours, grid)
        try:
            object.__setattr__(self, "noise", MaxNoise(noise))
        except ValueError:
            raise InvalidParameter("noise", noise, "'laplace', 'exponential' or 'gumbel'") from None

    def choose(self, scores: Any) -> int:
        """Return the index of the largest noisy score."""
        kind = {MaxNoise.LAPLACE: races.LAPLACE, MaxNoise.EXPONENTIAL: races.EXPONENTIAL, MaxNoise.GUMBEL: races.GUMBEL}
        return int(races.draw_winners(kind[self.noise], *gaps_and_log_weight_per_step(scores, self))[0])

    def _probability_by_candidate(self, steps: list[int], rate: Fraction) -> list[Decimal]:
        laws = {
            MaxNoise.LAPLACE: outcome_laws.laplace_max_law,
            MaxNoise.EXPONENTIAL: outcome_laws.permute_and_flip_law,
            MaxNoise.GUMBEL: outcome_laws.exponential_mechanism_law,
        }
        return laws[self.noise](steps, rate)

    def curve(self) -> Curve:
        if self.noise is MaxNoise.GUMBEL:
            return Curve.bounded_range(self.epsilon, self.neighbours)
        return Curve.pure(self.epsilon, self.neighbours)

    def _shortfall_of_choice(self, candidates: int, confidence: Number) -> float:
        """Bound the loss under Laplace noise: all noises lie within (ln n/β)/rate, so the choice is at most twice that
        below the best.
        """
        factor = 2 if self.noise is MaxNoise.LAPLACE else 1
        return factor * _log_candidates_over_miss(candidates, confidence) / float(self.rate)

    def words(self) -> str:
        return f"{super().words()}, {self.noise.value} noise"

    def _extra_arguments_text(self) -> list[str]:
        return [f"noise={self.noise.value!r}"]


@codec.serialisable("top-k")
@dataclass(frozen=True, repr=False, init=False)
class TopK(ScoreSelection):
    """The k best, in order, by one shot of Gumbel noise: the law of k exponential mechanisms of ε/k each, peeled one
    after the other (Durfee & Rogers 2019, Lemma 4.2).
    """

    mechanism_name: ClassVar[str] = "the largest scores under Gumbel noise"

    k: int

    def __init__(
        self,
        epsilon: Number,
        sensitivity: Number = 1,
        monotone: bool = False,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        grid: Number | None = None,
        k: int = 1,
    ) -> None:
        super().__init__(epsilon, sensitivity, monotone, neighbours, grid)
        object.__setattr__(self, "k", exact_integer(k, "k", at_least=1))

    def choose(self, scores: Any) -> list[int]:
        """Return the indices of k candidates, best first."""
        gaps, rate = gaps_and_log_weight_per_step(scores, self)
        if gaps.size < self.k:
            fix = f"give at least {self.k} scores, or a smaller k"
            raise InvalidParameter(
                "scores", ValueWords("a shorter list"), f"a list of at least k = {self.k} scores", fix=fix
            )
        return [int(index) for index in races.draw_winners(races.GUMBEL, gaps, rate / self.k, self.k)]

    def law(self, scores: Any) -> Law:
        """Return the probability of every list of k candidates."""
        steps_below, rate = gaps_and_log_weight_per_step(scores, self)
        return outcome_laws.top_k_law([int(gap) for gap in steps_below], rate / self.k, self.k)

    def curve(self) -> Curve:
        return compose([(Curve.bounded_range(self.epsilon / self.k, self.neighbours), self.k)])

    def _shortfall_of_choice(self, candidates: int, confidence: Number) -> float:
        """Bound by a union over the k rounds: each choice is this close to the best of what was left."""
        miss = 1 - exact(confidence, "confidence", CONFIDENCE)
        return _log_candidates_over_miss(candidates, 1 - miss / self.k) / float(self.rate / self.k)

    def words(self) -> str:
        return f"{super().words()}, the best {self.k}"

    def _extra_arguments_text(self) -> list[str]:
        return [f"k={self.k}"]


def _log_candidates_over_miss(candidates: int, confidence: Number) -> float:
    """Return ln n + ln(1/β)."""
    miss = 1 - exact(confidence, "confidence", CONFIDENCE)
    return math.log(exact_integer(candidates, "candidates", at_least=1)) - _ln_of_fraction(miss)


def best_selection(
    order: Number,
    divergence: Number,
    candidates: int,
    sensitivity: Number = 1,
    monotone: bool = False,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Exponential | PermuteAndFlip:
    """Return the mechanism that errs less for a charge of this Rényi divergence of this order.

    At equal ε permute-and-flip never errs more, but the exponential mechanism's bounded range costs less: it
    affords a larger ε. Their largest expected shortfalls are compared on the hardest scores, one best candidate and
    n − 1 equal others: the others win with probability 1 − 1/(1 + (n−1)e^{−x}) and 1 − (1 −
    (1−e^{−x})ⁿ)/(n·e^{−x}), x the gap times the rate.
    """
    alpha, budget = exact(order, "order", ABOVE_ONE), exact(divergence, "divergence", POSITIVE)
    n = exact_integer(candidates, "candidates", at_least=2)
    if alpha > 10**6:
        raise InvalidParameter("order", order, "at most 1e6")
    if n > 10**12:
        raise InvalidParameter("candidates", candidates, "at most 1e12")
    settings = (sensitivity, monotone, neighbours)
    exponential = Exponential(_largest_affordable_epsilon(lambda e: Curve.bounded_range(e), alpha, budget), *settings)
    permute_and_flip = PermuteAndFlip(_largest_affordable_epsilon(lambda e: Curve.pure(e), alpha, budget), *settings)
    return exponential if _exponential_errs_less(n, exponential.rate, permute_and_flip.rate) else permute_and_flip


def _exponential_errs_less(candidates: int, exponential_rate: Fraction, flip_rate: Fraction) -> bool:
    """Return whether the exponential mechanism of this rate falls short by at most as much as permute-and-flip."""
    x = np.linspace(0, 60 + math.log(candidates), 20_000)
    p = np.exp(-x)
    exponential_shortfall = (x * (1 - 1 / (1 + (candidates - 1) * p))).max() / float(exponential_rate)
    others_win = 1 + np.expm1(candidates * np.log1p(-np.minimum(p, 1 - 1e-16))) / (candidates * p)
    return bool(exponential_shortfall <= (x * others_win).max() / float(flip_rate))


def _largest_affordable_epsilon(curve: Any, order: Fraction, price: Fraction) -> Fraction:
    """Return the largest ε, to nine digits, whose divergence fits the price."""
    low, high = _EPSILON
    if curve(low).renyi_above(order) > price:
        raise InvalidParameter(
            "divergence",
            price,
            "large enough to pay for a selection with ε = 1e-9, the smallest possible",
            fix="give a larger divergence",
        )
    while high / low > 1 + Fraction(1, 10**9):
        middle = Fraction(math.sqrt(low * high)).limit_denominator(10**20)
        if not low < middle < high:
            break
        low, high = (middle, high) if curve(middle).renyi_above(order) <= price else (low, middle)
    return low


@codec.serialisable("frequent-values")
@dataclass(frozen=True)
class FrequentValues:
    """The k most frequent values of every group; one unit has at most ``rows_per_unit`` rows in all groups together."""

    interactive: ClassVar[bool] = False

    epsilon: Fraction
    rows_per_unit: int
    k: int
    neighbours: Neighbours

    def __init__(
        self,
        epsilon: Number,
        rows_per_unit: int = 1,
        k: int = 1,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    ) -> None:
        object.__setattr__(self, "epsilon", exact(epsilon, "epsilon", POSITIVE))
        object.__setattr__(self, "rows_per_unit", exact_integer(rows_per_unit, "rows_per_unit", at_least=1))
        object.__setattr__(self, "k", exact_integer(k, "k", at_least=1))
        object.__setattr__(self, "neighbours", Neighbours.of(neighbours))
        grids.require_rate(self.epsilon, self.rate, f"rows_per_unit = {self.rows_per_unit:,} and k = {self.k:,}")

    @property
    def rate(self) -> Fraction:
        """How much the log-weight of a value rises with each row that has it."""
        units_moved = 2 if self.neighbours is Neighbours.REPLACE else 1
        return self.epsilon / (self.k * self.rows_per_unit * units_moved)

    def choose(self, counts: Any) -> NDArray[np.int64]:
        """Return, for each row of counts, the indices of the k largest, best first."""
        table = np.asarray(counts)
        if table.ndim != 2 or table.dtype.kind not in "iu" or table.shape[1] < self.k:
            rule = f"a table of whole numbers with a row for each group and at least k = {self.k} columns"
            is_table = table.ndim == 2 and table.dtype.kind in "iu"
            got = ValueWords(f"a table with {table.shape[1]:,}") if is_table else grids.describe_array(table)
            raise InvalidParameter("counts", got, rule)
        best = table.max(axis=1, keepdims=True).astype(np.int64)
        gaps = (best.astype(np.uint64) - table.astype(np.int64).astype(np.uint64)).astype(np.uint64)
        return (
            races.draw_winners_of_rows(races.GUMBEL, gaps, self.rate, self.k)
            if gaps.size
            else np.empty((0, self.k), int)
        )

    def curve(self) -> Curve:
        return compose([(Curve.bounded_range(self.epsilon / self.k, self.neighbours), self.k)])

    def error(self, candidates: int, confidence: Number = DEFAULT_CONFIDENCE, groups: int = 1) -> float:
        """Bound, with this confidence, how many rows fewer any chosen value has than the best of the remaining ones."""
        miss = (1 - exact(confidence, "confidence", CONFIDENCE)) / (
            self.k * exact_integer(groups, "groups", at_least=1)
        )
        log_miss = math.log(miss.numerator) - math.log(miss.denominator)
        return (math.log(exact_integer(candidates, "candidates", at_least=1)) - log_miss) / float(self.rate)

    def promise(self, candidates: int, confidence: Number) -> str:
        """Describe in words how good a choice is."""
        best = "the most frequent value" if self.k == 1 else "the best remaining value"
        fewer = format_number(self.error(candidates, confidence))
        return f"at most {fewer} fewer rows than {best}, with {format_percent(confidence)} confidence"

    def words(self) -> str:
        best = "the most frequent value" if self.k == 1 else f"the {self.k} most frequent values"
        return f"{best} by Gumbel noise, ε {format_number(float(self.epsilon), 6)}"

    def __repr__(self) -> str:
        more = f"rows_per_unit={self.rows_per_unit}, k={self.k}, neighbours={self.neighbours.value!r}"
        return f"FrequentValues({format_exact(self.epsilon)}, {more})"
