"""A synthesis takes its course step by step: a method says which step is next, from what was released alone.

A method is a generator. It yields a step, which whoever runs it charges and releases, and is sent what came out. In
between the model is fitted to all noisy marginals so far, always in the same way: post-processing, which costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Laplace
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.readings.cell_rows import CellCounts, CellRows, SetMisfits
from sfumato.plan.readings.total_readings import Integers
from sfumato.publish.graph.fitting import Observation, fitted
from sfumato.publish.graph.models import GraphModel
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.marginals.estimating import MeasuredMarginal
from sfumato.publish.synthesis.budget import FOR_ROWS, Currency, Funds, rounded, size_of
from sfumato.publish.synthesis.candidates import NoisyCells, Outcome, Step, affordable, closure
from sfumato.publish.synthesis.implications import Pairs, Zeros, sets_of, zeros_of_model
from sfumato.publish.synthesis.released import SynthesisRound
from sfumato.publish.tab_steps import Choice, ChooseStep, MeasureStep

Steps = Generator[Step, Outcome, None]
Measuring = Generator[Step, Outcome, float]
Choosing = Generator[Step, Outcome, Set]

ROUGH, CLOSE = 1e-3, 1e-4
"""How closely a model is fitted in each round, and at the end."""
_MOST_STEPS = float(1 << 60)


@dataclass(frozen=True, eq=False)
class Setting:
    """This is all that is public before the first step."""

    reading: CellRows
    attributes: Attributes
    workload: Mapping[Set, Fraction]
    """Which marginals the model is to have right, and how much each of them counts."""
    currency: Currency
    most_cells: int
    zeros: Zeros = ()
    implies: Pairs = ()
    """Columns that decide others, as the noisy counts say: these pairs are measured first."""
    required: tuple[int, ...] = ()
    """Columns that are never NULL."""

    @property
    def pairs(self) -> list[Set]:
        """List the pairs that are measured first."""
        return sets_of(self.implies)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(each.size for each in self.attributes)

    @property
    def unit_value(self) -> Fraction:
        """Say what one step of the counts is worth, in rows."""
        return self.reading.bounded.measures[0].unit_value

    @property
    def most_rows(self) -> float:
        """Say how many rows of one unit count at most."""
        return float(self.reading.bounded.measures[0].added.total * self.unit_value)

    @cached_property
    def candidates(self) -> dict[Set, int]:
        """List the sets within the workload with their weights."""
        return closure(self.workload)


class SynthesisState:
    """This is what was released so far, and the model of it."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.funds = Funds(setting.currency)
        self.released: list[tuple[MeasuredMarginal, SynthesisRound]] = []
        """What was measured, with what is told of it: at once, so that whatever is interrupted leaves both."""
        self.planned = 0
        self._model: GraphModel | None = None

    @property
    def marginals(self) -> list[MeasuredMarginal]:
        """List what was measured, in order; the number of rows is the first."""
        return [each for each, _ in self.released]

    @property
    def rounds(self) -> list[SynthesisRound]:
        """List what is told of each measurement but the first."""
        return [told for measured, told in self.released if measured.places]

    @property
    def model(self) -> GraphModel:
        """Give the model of what was released; at first an even one."""
        if self._model is None:
            self.fit()
        assert self._model is not None
        return self._model

    @property
    def total(self) -> float:
        """Estimate the number of rows from everything that was measured: each sum by its precision."""
        step = float(self.setting.unit_value)
        known = [(float(each.values.sum()) * step, 1 / (each.variance * each.values.size)) for each in self.marginals]
        mean = sum(value * weight for value, weight in known) / sum(weight for _, weight in known)
        return min(max(1.0, mean), _MOST_STEPS * step)

    def fit(self, tolerance: float = ROUGH, more_zeros: Zeros = ()) -> None:
        """Bring the model near all that was measured, from where it was."""
        own, sizes = [_observed(each) for each in self.marginals if each.places], self.setting.sizes
        total, zeros = self.total if self.marginals else 1.0, (*self.setting.zeros, *more_zeros)
        self._model = fitted(own, sizes, total, zeros=zeros, start=self._model, tolerance=tolerance)

    def finish(self) -> None:
        """Fit the model closely, and again without the cells that a column which decides another rules out."""
        self.fit(CLOSE)
        own = self.setting
        ruled_out = zeros_of_model(self.model, own.attributes, own.implies, own.zeros, own.required)
        if ruled_out:
            with suppress(InvalidParameter):  # what the policy calls impossible leaves no row that keeps it
                self.fit(CLOSE, ruled_out)

    # ── steps ──────────────────────────────────────────────────────────────────────────────────

    def count_rows(self) -> Measuring:
        """Measure the number of rows, for its share of the price."""
        return self._measured((), rounded(self.funds.currency.total * FOR_ROWS), "rows")

    def measure_pairs(self, amount: Fraction) -> Steps:
        """Measure the pairs of which one column decides the other, each for this amount."""
        for pair in self.setting.pairs:
            yield from self.measure(pair, amount, "first", fit=False)

    def measure(self, places: Set, amount: Fraction, what: str, *, fit: bool = True) -> Measuring:
        """Measure a marginal for this amount; give the mean size of the noise in a cell, in rows."""
        before = self.model.marginal(places) if fit else None
        noise = yield from self._measured(places, amount, what)
        if before is not None:
            self.fit()
            measured, told = self.released[-1]
            gain = moved(before, self.model.marginal(places)) / 2
            self.released[-1] = measured, replace(told, gain=gain)
        return noise

    def _measured(self, places: Set, amount: Fraction, what: str) -> Measuring:
        view, currency = CellCounts(self.setting.reading, places), self.funds.currency
        noise = currency.noise(amount, view.sensitivity)
        funds = self.funds.after(currency.noise_cost(noise, view.sensitivity))
        outcome = yield MeasureStep(view, noise, NoisyCells.of)
        assert isinstance(outcome, NoisyCells)
        self.funds = funds
        shape = tuple(self.setting.sizes[place] for place in places)
        laplace, step = isinstance(noise, Laplace), self.setting.unit_value
        measured = MeasuredMarginal(places, outcome.counts.reshape(shape), size_of(noise), laplace, step)
        names = tuple(self.setting.attributes[place].name for place in places)
        self.released.append((measured, SynthesisRound(names, what, noise.words())))
        return mean_size(noise, step)

    def choose(self, among: Mapping[Set, int], amount: Fraction, penalty: Callable[[int], float]) -> Choosing:
        """Choose a set that the model has wrong, by its weighted distance less a penalty in rows for so many cells."""
        sets = list(among)
        scores = self._scores(sets, [among[each] for each in sets], penalty)
        choice = self.funds.currency.choice(amount, scores)
        funds = self.funds.after(self.funds.currency.choice_cost(choice))
        outcome = yield ChooseStep(scores, choice)
        assert isinstance(outcome, Choice)
        self.funds = funds
        return sets[outcome.place]

    def _scores(self, sets: Sequence[Set], weights: Sequence[int], penalty: Callable[[int], float]) -> SetMisfits:
        step = float(self.setting.unit_value)
        views = tuple(CellCounts(self.setting.reading, each) for each in sets)
        predicted = tuple(in_steps(each, step) for each in self.model.marginals(sets))
        return SetMisfits(views, predicted, tuple(weights), tuple(round(penalty(view.size) / step) for view in views))

    def affordable(self, among: Mapping[Set, int], share: float) -> dict[Set, int]:
        """Keep the candidates that the model can hold when this share of the price is spent."""
        own = [each.places for each in self.marginals] + [places for places, _ in self.setting.zeros]
        kept = affordable(among, self.model, own, self.setting.most_cells * share)
        return {each: among[each] for each in kept}


def _observed(each: MeasuredMarginal) -> Observation:
    return Observation(each.places, each.values.astype(np.float64) * float(each.unit_value), math.sqrt(each.variance))


def moved(before: Floats, after: Floats) -> float:
    """Add up how far all cells moved, in rows."""
    return float(np.abs(after - before).sum())


def mean_size(noise: Additive, unit_value: Fraction) -> float:
    """Give the mean of |noise| in one cell, in rows: √(2/π)·σ, or the scale of Laplace noise."""
    size = float(size_of(noise) * unit_value)
    return size if isinstance(noise, Laplace) else math.sqrt(2 / math.pi) * size


def in_steps(counts: Floats, unit_value: float) -> Integers:
    """Write the model's counts as whole steps, to which the truth is compared."""
    found: Integers = np.rint(np.clip(counts.reshape(-1) / unit_value, 0.0, _MOST_STEPS)).astype(np.int64)
    return found
