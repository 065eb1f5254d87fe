"""An online session answers many questions from a public hypothesis, and pays only where that is wrong.

Theorem. Let a unit's rows have weights ≥ 0 that add up to at most m. A question counts disjoint groups of cells, each
row whole or not at all. Then max_g |q_g − q̂_g|, for any public q̂, moves by at most m when a unit is added, removed or
replaced; and the vector of all q_g is a marginal of coarser cells, so it moves no further than one (``Marginal``).
Proof. A unit adds between 0 and m to each q_g, so replacing it moves q_g by at most m too; a maximum of absolute values
moves no further than the furthest of them. ∎
A session is C times: one gate (sparse vector up to its first "above": Lyu, Su & Li 2017, Thm 4), then one noisy vector.
All of it is charged when the session opens. The hypothesis is computed from what was released, so whatever becomes of
it costs nothing: where it starts, how it is updated (Hardt & Rothblum 2010), which questions are asked of it.

Interval. "Close" means score + ν < T + ξ. With C·P(ξ > a) + P(ν < −b) ≤ β the score is below T + a + b, whoever asks
and however adaptively: ξ is one of at most C draws, and ν is drawn afresh after the question is known.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.ledger import Charged
from sfumato.mechanisms import AboveThreshold, Gaussian, Session, laplace
from sfumato.plan.dense_readings import Marginal, Marginals
from sfumato.plan.readings import Integers
from sfumato.privacy import Neighbours
from sfumato.privacy.numbers import Number
from sfumato.publish.answering import Quantity
from sfumato.publish.blocks import Set, summed
from sfumato.publish.bounds import model
from sfumato.publish.chains import Floats
from sfumato.publish.group_totals import Known
from sfumato.publish.measuring import PublishDraw, Published
from sfumato.release.measurement import Batch
from sfumato.release.releasing import Read

FALSE_ALARM = 0.005
"""The chance, at most, that a gate says "above" where the hypothesis is exactly right."""
_UNIFORM = 1e-3
"""The part of the first hypothesis that is spread over all cells, so that an update can reach each."""
_MOST_WORK = 3 * 10**8
_FARTHEST = float(1 << 60)


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


class Gates:
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

    def ask(self, asked: Quantity, guess: Integers) -> Integers | None:
        """Give None where the guess is close, and else the noisy counts of all groups, in steps.

        What is stopped on its way may have used up an answer or not: nothing more is said.
        """
        if self._exact is None or not self.left or not asked.disjoint:
            raise InvalidParameter("question", "gated", "one of disjoint groups, while answers are left")
        try:
            own = asked.of(summed(self._exact, tuple(range(self._exact.ndim)), asked.axes))
            if not self._gate.ask(score(own, guess)):
                return None
            return self._bought(own)
        except BaseException:
            self.close()
            raise

    def _bought(self, own: Integers) -> Integers:
        self._left -= 1
        found = np.asarray(self._batch.noise.apply(own), np.int64)
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

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a session holds a secret and cannot be copied or stored")


def score(exact: Integers, guess: Integers) -> int:
    """Say how wrong a guess is of the worst group."""
    return int(np.abs(exact - guess).max())


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """This is a public guess of the whole table: counts ≥ 0 of every cell, from what was released alone."""

    counts: Floats
    total: float
    textbook: bool = False
    """Whether updates are those of Hardt & Rothblum: by exp(±η), with η half of the threshold as a share of rows."""

    def of(self, asked: Quantity) -> Floats:
        """Guess the totals of all groups."""
        return asked.of(self._over(asked.axes))

    def _over(self, axes: Set) -> Floats:
        gone = tuple(axis for axis in range(self.counts.ndim) if axis not in axes)
        return np.asarray(self.counts.sum(gone))

    def updated(self, asked: Quantity, bought: Floats, near: float, far: float) -> Hypothesis:
        """Move groups toward what was bought of them, where that is further off than its noise (``near``), and scale
        all to the total; ``far`` is the threshold of the gates.
        """
        now = self.of(asked)
        wrong = np.abs(bought - now) > near
        if self.textbook:
            rate = min(1.0, far / self.total / 2)
            factors = np.where(wrong, np.exp(rate * np.sign(bought - now)), 1.0)
        else:
            least = self.total * 1e-12
            factors = np.where(wrong, np.maximum(bought, least) / np.maximum(now, least), 1.0)
        table = asked.factors(factors)
        shape = [1] * self.counts.ndim
        for axis, place in enumerate(asked.axes):
            shape[place] = table.shape[axis]
        moved = self.counts * table.reshape(shape)
        return replace(self, counts=moved * (self.total / max(float(moved.sum()), 1e-300)))


def first_hypothesis(known: Known, *, textbook: bool = False) -> Hypothesis:
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
    """Round a guess in rows to whole steps of the counts that are read."""
    return np.rint(np.clip(guess / float(unit_value), -_FARTHEST, _FARTHEST)).astype(np.int64)
