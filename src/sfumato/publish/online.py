"""An online session answers many questions from a public hypothesis, and pays only where that is wrong.

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
All of it is charged when the session opens. The hypothesis is computed from what was released, so whatever becomes of
it costs nothing: where it starts, how it is updated (Hardt & Rothblum 2010), which questions are asked of it.

Interval. "Close" means score + ν < T + ξ. With C·P(ξ > a) + P(ν < −b) ≤ β the score is below T + a + b, whoever asks
and however adaptively: ξ is one of at most C draws, and ν is drawn afresh after the question is known.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.ledger import Charged
from sfumato.mechanisms import AboveThreshold, Gaussian, Session, laplace
from sfumato.mechanisms.additive import MOST_STEPS
from sfumato.mechanisms.sparse import SecretSession
from sfumato.plan.readings.dense_readings import Marginal, Marginals
from sfumato.plan.readings.total_readings import Integers
from sfumato.privacy import Neighbours
from sfumato.privacy.numbers import Number
from sfumato.publish.cells.answering import Quantity
from sfumato.publish.marginals.blocks import Set, summed
from sfumato.publish.marginals.bounds import CellWeights, model
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.marginals.group_totals import SynopsisEstimates
from sfumato.publish.marginals.measuring import PublishDraw, Published
from sfumato.release.measurement import Batch
from sfumato.release.releasing import Read

FALSE_ALARM = 0.005
"""The chance, at most, that a gate says "above" where the hypothesis is exactly right."""
_SCALINGS = 10
"""How often a hypothesis is scaled to sums that were bought."""
_UNIFORM = 1e-3
"""The part of the first hypothesis that is spread over all cells, so that an update can reach each."""
_MOST_WORK = 3 * 10**8
_FARTHEST = 1 << 60
_LIMB = 18
_MOST_WEIGHT = 1 << 20
"""With limbs of so many bits, sums over 10,000,000 cells stay within 64."""
_MOST_DIGITS = 6
_ROUNDING = 1e-7
"""More than products of doubles below 2^20 are rounded by."""
_LEAST_DEVIATION = 8
"""In steps: discrete Gaussian noise of any finer grid is then the same to e^(−1000)."""


def gate_for(epsilon: Fraction, most: int, neighbours: Neighbours) -> AboveThreshold:
    """Make the gate for scores that one unit moves by at most so many steps; its threshold follows from its noise."""
    plain = AboveThreshold(epsilon, 0, 1, most, False, None, neighbours)
    first, second, _ = plain.scales
    far = laplace.half_width(first, FALSE_ALARM) + laplace.half_width(second, FALSE_ALARM)
    return AboveThreshold(epsilon, far, 1, most, False, None, neighbours)


def close_width(gate: AboveThreshold, rounds: int, beta: float) -> int:
    """Bound the score of a question that was said to be close, in steps: T + a + b."""
    first, second, _ = gate.scales
    # each noise is as often too high as too low, so a half-width for twice the chance is one for one side
    return gate.threshold + laplace.half_width(first, beta / rounds) + laplace.half_width(second, beta)


@dataclass(frozen=True)
class SessionBatch(Batch):
    """This is all that a session runs: the blocks of its synopsis, and so many gates and noisy vectors."""

    reading: Marginals
    gate: AboveThreshold
    noise: Gaussian
    rounds: int

    def __post_init__(self) -> None:
        super().__post_init__()
        (scaled,) = self.bounded.measures
        enough = self.gate.sensitivity >= scaled.added.total and self.gate.positives == 1 and not self.gate.monotone
        if not enough or self.gate.neighbours is not scaled.sensitivity.neighbours:
            rule = f"a gate for one answer about scores that a unit moves by {scaled.added.total}, either way"
            raise InvalidParameter("gate", repr(self.gate), rule)

    def noise_for(self, reach: int) -> Gaussian:
        """Give the noise of totals of which a row adds up to so much: the same loss on a finer grid."""
        return self.noise if reach == 1 else Gaussian(reach * max(self.noise.sizes))

    def can_weigh(self, asked: WeighedMeasure) -> bool:
        """Tell whether such totals can be bought; this is decided by what is public."""
        most = max(self.noise.sizes)
        return asked.reach == 1 or (most >= _LEAST_DEVIATION and asked.reach * most <= MOST_STEPS)

    @cached_property
    def charged(self) -> tuple[Charged, ...]:
        """Say what is run, as the ledger keeps it."""
        moved = Marginal(self.reading, 0).sensitivity
        gates, answers = Charged(self.gate, None, self.rounds), Charged(self.noise, moved, self.rounds)
        return (*Batch(self.measurements).charged, gates, answers)


@dataclass(frozen=True)
class OnlineDraw:
    """A session is opened as the release of its synopsis; the exact counts stay in memory, and are not written down."""

    publish: PublishDraw
    secret: list[Integers] = field(default_factory=list, repr=False, compare=False)

    @property
    def batch(self) -> SessionBatch:
        assert isinstance(self.publish.batch, SessionBatch)
        return self.publish.batch

    @property
    def step(self) -> float:
        """Say what one step of gates and answers stands for, in rows."""
        return float(self.publish.plan.unit_value)

    @property
    def readings(self) -> tuple[Marginals]:
        return self.publish.readings

    @property
    def good_enough(self) -> dict[str, Number]:
        return {}

    def draw(self, read: Read) -> Published:
        exact = read(self.publish.reading)
        found = self.publish.noisy(exact)
        self.secret.append(exact[0])
        return found

    def rehearsal(self) -> Published:
        return self.publish.rehearsal()


class Gates(SecretSession):
    """These are the exact counts behind gates. There is one of it: it can be neither copied nor stored."""

    def __init__(self, batch: SessionBatch, exact: Integers) -> None:
        self._batch = batch
        self._exact: Integers | None = exact
        self._process = os.getpid()
        self._left = batch.rounds
        self._gate: Session = batch.gate.start()

    @property
    def left(self) -> int:
        """Say how many answers may still be bought; 0 where it was closed, and in another process."""
        return 0 if self._exact is None or self._process != os.getpid() else self._left

    def ask(self, asked: WeighedMeasure, guess: Integers) -> Integers | None:
        """Give None where the guess is close, and else noisy totals, in steps.

        What is stopped on its way may have used up an answer or not: nothing more is said.
        """
        if self._exact is None or not self.left:
            raise InvalidParameter("question", "gated", "one that is asked while answers are left")
        try:
            own = asked.of(summed(self._exact, tuple(range(self._exact.ndim)), asked.axes))
            if not self._gate.ask(score(own, guess, asked.reach)):
                return None
            return self._bought(own, asked.reach)
        except BaseException:
            self.close()
            raise

    def _bought(self, own: Integers, reach: int) -> Integers:
        self._left -= 1
        found = np.asarray(self._batch.noise_for(reach).apply(own), np.int64)
        if self._left:
            self._gate = self._batch.gate.start()
        else:
            self.close()
        return found

    def close(self) -> None:
        """Forget all secrets."""
        self._left = 0
        self._exact = None
        self._gate.close()


def score(exact: Integers, guess: Integers, reach: int) -> int:
    """Say how wrong a guess is of the worst total, in what one row can add."""
    return int(np.abs(exact - guess).max()) // reach


@dataclass(frozen=True, eq=False)
class WeighedMeasure:
    """This is a measure as gates compare it: its totals, with whole numbers as weights."""

    parts: tuple[Quantity, ...]
    scale: int
    """What the weights were multiplied by, to be whole."""

    @property
    def axes(self) -> Set:
        return self.parts[0].axes

    @cached_property
    def reach(self) -> int:
        """Compute V of the theorem."""
        each = [weights.low for part in self.parts for weights in part.weights]
        above, below = (sum(np.maximum(sign * one, 0) for one in each) for sign in (1, -1))
        return max(1, int(np.max(above)) + int(np.max(below)))

    def of(self, table: Integers) -> Integers:
        """Add up exact counts over the axes, without overflow: the totals of all parts, one after the other, held to
        what 64 bits have room for.
        """
        if self.reach == 1:
            return np.concatenate([each.of(table) for each in self.parts])
        found: Any = 0
        for shift in range(0, 63, _LIMB):
            limb = (table >> shift) & ((1 << _LIMB) - 1)
            found = found + (np.concatenate([each.of(limb) for each in self.parts]).astype(object) << shift)
        return np.clip(found, -_FARTHEST, _FARTHEST).astype(np.int64)


def weighed(asked: Sequence[Quantity]) -> WeighedMeasure | None:
    """Make weights whole, as decimals of few digits are; None where they are not, or are too large."""
    for digits in range(_MOST_DIGITS + 1):
        scale = 10**digits
        parts = tuple(_scaled(each, scale) for each in asked)
        pairs = [(old.low, new.low) for own, part in zip(asked, parts, strict=True) for old, new in _pairs(own, part)]
        if any(float(np.abs(new).max()) >= _MOST_WEIGHT for _, new in pairs):
            return None
        if all(bool((np.abs(old * scale - new) <= _ROUNDING).all()) for old, new in pairs):
            return WeighedMeasure(parts, scale)
    return None


def _pairs(one: Quantity, other: Quantity) -> Iterable[tuple[CellWeights, CellWeights]]:
    return zip(one.weights, other.weights, strict=True)


def _scaled(asked: Quantity, scale: int) -> Quantity:
    whole = [np.rint(each.low * scale) for each in asked.weights]
    return replace(asked, weights=tuple(CellWeights(each, each) for each in whole))


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """This is a public guess of the whole table: counts ≥ 0 of every cell, from what was released alone."""

    counts: Floats
    total: float
    textbook: bool = False
    """Whether updates are those of Hardt & Rothblum: by exp(±η), with η half of the threshold as a share of rows."""

    def of(self, asked: Quantity) -> Floats:
        """Guess the totals of all groups."""
        return asked.of(self.over(asked.axes))

    def over(self, axes: Set) -> Floats:
        """Guess the counts over some attributes."""
        gone = tuple(axis for axis in range(self.counts.ndim) if axis not in axes)
        return np.asarray(self.counts.sum(gone))

    def updated(self, asked: WeighedMeasure, bought: Floats, near: float, far: float) -> Hypothesis:
        """Move totals toward what was bought of them, where that is further off than its noise (``near``), and scale
        all to the total; ``far`` is the threshold of the gates, in rows.

        Every cell is multiplied by Π_j (bought_j/now_j)^(w_j/V): generalised iterative scaling (Darroch & Ratcliff
        1972), which for counts of groups is right at once.
        """
        moved = self
        for _ in range(1 if asked.reach == 1 or self.textbook else _SCALINGS):
            now = np.concatenate([moved.of(each) for each in asked.parts])
            steps = np.where(np.abs(bought - now) > near, moved._steps(asked, bought, now, far), 0.0)
            moved = moved._tilted(asked, steps)
        return moved

    def _steps(self, asked: WeighedMeasure, bought: Floats, now: Floats, far: float) -> Floats:
        if self.textbook:
            return np.sign(bought - now) * min(1.0, far / self.total / 2)
        if any(bool((each.low < 0).any()) for part in asked.parts for each in part.weights):
            return (bought - now) / (asked.reach * self.total)
        least = self.total * asked.reach * 1e-12
        return np.log(np.maximum(bought, least) / np.maximum(now, least))

    def _tilted(self, asked: WeighedMeasure, steps: Floats) -> Hypothesis:
        each = np.split(steps, np.cumsum([len(part.groups.places) for part in asked.parts])[:-1])
        table = sum(part.spread(own) for part, own in zip(asked.parts, each, strict=True)) / asked.reach
        shape = [1] * self.counts.ndim
        for axis, place in enumerate(asked.axes):
            shape[place] = np.shape(table)[axis]
        moved = self.counts * np.exp(np.reshape(table, shape))
        return replace(self, counts=moved * (self.total / max(float(moved.sum()), 1e-300)))


def first_hypothesis(known: SynopsisEstimates, *, textbook: bool = False) -> Hypothesis:
    """Start from the table of the largest entropy that has the measured marginals, and a little of an even one."""
    sizes = tuple(each.size for each in known.attributes)
    cells = int(np.prod(sizes))
    total = max(float(known.marginal(())), 1.0)
    even = np.full(sizes, total / cells)
    if textbook:
        return Hypothesis(even, total, True)
    sets: Sequence[Set] = known.sets
    rounds = max(2, min(30, _MOST_WORK // (cells * max(1, len(sets)))))
    found = model(known, tuple(range(len(sizes))), sets, rounds)
    mixed = (1 - _UNIFORM) * found + _UNIFORM * even
    return Hypothesis(mixed * (total / float(mixed.sum())), total)


def in_steps(guess: Floats, unit_value: Fraction) -> Integers:
    """Round a guess to whole steps of the totals that are compared."""
    return np.rint(np.clip(guess / float(unit_value), -float(_FARTHEST), float(_FARTHEST))).astype(np.int64)
