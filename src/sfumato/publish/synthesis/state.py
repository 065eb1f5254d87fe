"""The state of a synthesis: a method chooses each next step from what was released alone.

A method is a generator. It yields a step, which its caller charges and releases, and is sent the outcome. In between,
the model is fitted to all noisy marginals so far: deterministic post-processing, which costs nothing.

Which candidates a round compares with the model, where a wide table has too many to compare all.

A table of 100 columns has 161,700 triples. Comparing one takes as long as counting 48,000 rows, and longer where paths
through the model are long; a set that was not compared before is counted first. So a round compares a limited number:
in the first rounds, one for each column, pairs; afterwards a third are sets that add a column to one chosen before, a
third are pairs, and the rest is any. What does not fit is taken at even distances, from a start that moves on, so that
in time others have their turn: every round for pairs, and every 16 rounds for larger sets, of which then few are
counted anew.

*Theorem.* The subset is a function of the policy, the noisy number of rows and the sets chosen before: public or
released. Given these it is a constant, and a choice from it is the exponential mechanism on fewer candidates. A unit
moves the score of a set by its weight times Δ₁, whatever else is compared (``ColumnSetDistances``): the bound is that
of the heaviest set of the subset, the loss spans the ε that is charged, and adaptive composition adds up as before. ∎
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.array_types import Floats, Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Laplace
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.readings.cell_rows import CellCounts, CellRows, ColumnSetDistances, MergedCells
from sfumato.publish.graph.fitting import Observation, fit_model
from sfumato.publish.graph.models import GraphicalModel
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.marginals.estimating import MeasuredMarginal
from sfumato.publish.synthesis.budget import FOR_ROWS, Currency, SynthesisBudget, round_amount_down, sigma_or_scale
from sfumato.publish.synthesis.candidates import (
    NoisyCells,
    Outcome,
    Pairs,
    Step,
    Zeros,
    candidates_within_cells,
    distinct_sets,
    weighted_subsets,
    zeros_from_model,
)
from sfumato.publish.synthesis.private_cells import CELLS_SHARE, CellPlan, Parts
from sfumato.publish.synthesis.released import BoughtCells, SynthesisRound
from sfumato.publish.tab_steps import ChooseStep, ChosenCandidate, MeasureStep
from sfumato.quick_dataclass import dataclass

ROUNDS_PER_PART = 16
"""The rounds after which other sets have their turn."""
_WORK_PER_ROUND = 3 << 25
"""The work of a round, in rows counted: below it are all 469 sets of ADULT, and all 1,350 of NIST's table."""
_WORK_PER_SET = 48_000
"""The work of comparing one set that is counted already, in a model of few columns: of more, it grows with them."""
FEW_COLUMNS = 20
_GOLDEN = (5**0.5 - 1) / 2
"""Multiples modulo 1 are evenly distributed: starts follow each other in such an order."""


def comparison_factor(columns: int) -> float:
    """Return how much longer a comparison takes than with a model of few columns."""
    return max(1.0, columns / FEW_COLUMNS)


def max_compared(rows: float, columns: int) -> int:
    """Return how many sets a round compares with the model, for so many rows: a released number, or a public one."""
    return int(_WORK_PER_ROUND / (_WORK_PER_SET * comparison_factor(columns) + rows / ROUNDS_PER_PART))


def compared_sets(candidates: Sequence[AttributeSet], chosen: Sequence[AttributeSet], limit: int) -> list[AttributeSet]:
    """Return the candidates to compare, at most so many beside single columns, which a model of any size can hold.

    Candidates are sorted by their number of columns; ``chosen`` are the sets that earlier rounds chose.
    """
    if len(candidates) <= limit:
        return list(candidates)
    singles_end, pairs_end = (bisect_right(candidates, count, key=len) for count in (1, 2))
    singles, pairs, larger = candidates[:singles_end], candidates[singles_end:pairs_end], candidates[pairs_end:]
    turn, part = len(chosen), len(chosen) // ROUNDS_PER_PART
    if pairs and (len(chosen) < len(singles) or not larger):
        return [*singles, *_evenly_spaced(pairs, limit, turn)]
    room, picked = limit, dict.fromkeys(singles)
    extended = _extended_sets(chosen, larger, singles)
    for groups_left, group, start in ((3, extended, part), (2, pairs, turn), (1, larger, part)):
        share = _evenly_spaced(group, room // groups_left, start)
        room -= len(share)
        picked |= dict.fromkeys(share)
    return list(picked)


def _evenly_spaced(sets: Sequence[AttributeSet], count: int, turn: int) -> list[AttributeSet]:
    """Return so many of these sets at even distances, from a start that the turn decides."""
    if len(sets) <= count:
        return list(sets)
    start = int(turn * _GOLDEN % 1 * len(sets))
    return [sets[(start + index * len(sets) // count) % len(sets)] for index in range(count)]


def _extended_sets(
    chosen: Iterable[AttributeSet], larger: Sequence[AttributeSet], singles: Sequence[AttributeSet]
) -> list[AttributeSet]:
    """Return the candidates that are a chosen set and one more column."""
    wanted = {tuple(sorted({*attribute_set, *single})) for attribute_set in dict.fromkeys(chosen) for single in singles}
    return [candidate for candidate in larger if candidate in wanted]


StepGenerator = Generator[Step, Outcome, None]
MeasurementGenerator = Generator[Step, Outcome, float]
ChoiceGenerator = Generator[Step, Outcome, AttributeSet]
ROUGH, CLOSE = 1e-3, 1e-4
"""The tolerance of the fit in each round, and at the end."""
STEPS_PER_ROUND = 16
"""The most steps of the fit in a round: the next round goes on from there, and the last fit is close."""
_MAX_STEPS = float(1 << 60)


@dataclass(frozen=True, eq=False)
class SynthesisSetting:
    """All that is public before the first step."""

    reading: CellRows
    attributes: Attributes
    workload: Mapping[AttributeSet, Fraction]
    """The marginals that the model should fit, and the weight of each."""
    currency: Currency
    max_cells: int
    zeros: Zeros = ()
    implies: Pairs = ()
    """Columns that decide others, with a mapping read from noisy counts: these pairs are measured first."""
    required: tuple[int, ...] = ()
    """Columns that are never NULL."""
    measured_columns: tuple[int, ...] = ()
    """Only sets with one of these columns are measured: an earlier release tells of the others. Empty for all."""
    cell_plan: CellPlan | None = None
    """The columns whose cells are bought; None if the policy declares all cells."""
    target: int | None = None
    """The column that will be learned from the rows: its pairs with all others are measured first."""

    @property
    def merged_cells(self) -> MergedCells | None:
        """The parts that are counted, where cells are bought."""
        return None if self.cell_plan is None else self.cell_plan.merged_cells

    def with_parts(self, parts: Mapping[int, Parts]) -> SynthesisSetting:
        """Return the setting with these parts as cells; sets that only name a clique have their new cells."""
        assert self.cell_plan is not None
        refined = self.cell_plan.replace_parts(parts)
        attributes = refined.attributes
        zeros = tuple(
            (
                attribute_set,
                mask
                if mask.any()
                else np.zeros([attributes[attribute_index].size for attribute_index in attribute_set], bool),
            )
            for attribute_set, mask in self.zeros
        )
        return replace(self, attributes=attributes, cell_plan=refined, zeros=zeros)

    @property
    def cell_amount(self) -> Fraction:
        """The amount that buys the cells of one column."""
        return round_amount_down(self.currency.total * CELLS_SHARE / len(self.attributes))

    @property
    def pairs(self) -> list[AttributeSet]:
        """The pairs that are measured first."""
        return distinct_sets(self.implies)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def unit_value(self) -> Fraction:
        """The rows that one step of the counts stands for."""
        return self.reading.bounded.measures[0].unit_value

    @property
    def max_rows(self) -> float:
        """The most rows of one unit that count."""
        return float(self.reading.bounded.measures[0].add_remove_sensitivity.total * self.unit_value)

    @cached_property
    def candidates(self) -> dict[AttributeSet, int]:
        """The subsets of the workload's sets with their weights."""
        candidates, measured = weighted_subsets(self.workload), set(self.first_columns)
        return {
            attribute_set: weight
            for attribute_set, weight in candidates.items()
            if measured.intersection(attribute_set)
        }

    @property
    def target_pairs(self) -> tuple[AttributeSet, ...]:
        """The pairs of the target with every other column; none without a target."""
        return () if self.target is None else pairs_with(self.target, len(self.attributes))

    @property
    def target_and_implied_pairs(self) -> tuple[AttributeSet, ...]:
        """The pairs of the target, and those of which one column decides the other, without repetition."""
        return tuple(dict.fromkeys((*self.target_pairs, *self.pairs)))

    @property
    def first_columns(self) -> tuple[int, ...]:
        """The columns that are measured one by one."""
        return self.measured_columns or tuple(range(len(self.attributes)))


class SynthesisState:
    """What was released so far, and the model fitted to it."""

    def __init__(self, setting: SynthesisSetting) -> None:
        self.setting = setting
        self.budget = SynthesisBudget(setting.currency)
        self.derived_observations: tuple[Observation, ...] = ()
        """Counts that earlier releases tell of these rows: the model is fitted to them too."""
        self.released: list[tuple[MeasuredMarginal, SynthesisRound]] = []
        """Each measurement with its round: appended together, so that an interrupt never separates them."""
        self.bought_cells: list[BoughtCells] = []
        self.planned = 0
        self._model: GraphicalModel | None = None
        self._predicted: dict[AttributeSet, Integers] = {}
        """The model's counts of candidates, in whole steps, since it was fitted last."""

    @property
    def marginals(self) -> list[MeasuredMarginal]:
        """The measurements, in order; the number of rows is the first."""
        return [measured for measured, _ in self.released]

    @property
    def rounds(self) -> list[SynthesisRound]:
        """The rounds of all measurements but the first."""
        return [synthesis_round for measured, synthesis_round in self.released if measured.attribute_set]

    @property
    def has_model(self) -> bool:
        """Whether anything was measured."""
        return bool(self.marginals)

    @property
    def model(self) -> GraphicalModel:
        """The model fitted to what was released; uniform at first."""
        if self._model is None:
            self.fit()
        assert self._model is not None
        return self._model

    @property
    def total(self) -> float:
        """The number of rows, estimated from all measurements weighted by precision."""
        step = float(self.setting.unit_value)
        estimates = [
            (float(marginal.values.sum()) * step, 1 / (marginal.variance * marginal.values.size))
            for marginal in self.marginals
        ]
        mean = sum(value * weight for value, weight in estimates) / sum(weight for _, weight in estimates)
        return min(max(1.0, mean), _MAX_STEPS * step)

    def fit(self, tolerance: float = ROUGH, more_zeros: Zeros = (), max_rounds: int = 1000) -> None:
        """Fit the model to all that was measured, starting from the current one."""
        observations, sizes = (
            [_observation(marginal) for marginal in self.marginals if marginal.attribute_set],
            self.setting.sizes,
        )
        observations += self.derived_observations
        total, zeros = self.total if self.marginals else 1.0, (*self.setting.zeros, *more_zeros)
        self._predicted = {}
        self._model = fit_model(
            observations, sizes, total, zeros=zeros, start=self._model, tolerance=tolerance, max_rounds=max_rounds
        )

    def finish(self) -> None:
        """Fit the model closely, and again without the cells that deciding columns rule out."""
        self.fit(CLOSE)
        setting = self.setting
        ruled_out = zeros_from_model(self.model, setting.attributes, setting.implies, setting.zeros, setting.required)
        if ruled_out:
            with suppress(InvalidParameter):  # the policy's impossible cells leave no row that satisfies it
                self.fit(CLOSE, ruled_out)

    # ── steps ──────────────────────────────────────────────────────────────────────────────────

    def count_rows(self) -> MeasurementGenerator:
        """Measure the number of rows, for its share of the price."""
        return self._measure_marginal((), round_amount_down(self.budget.currency.total * FOR_ROWS), "rows")

    def count_rows_and_buy_cells(self) -> StepGenerator:
        """Measure the number of rows, and buy the cells that the policy does not declare."""
        yield from self.count_rows()
        plan = self.setting.cell_plan
        for attribute_index, private in plan.bought.items() if plan is not None else ():
            setting = self.setting
            step, cost = private.step(setting.reading, attribute_index, setting.cell_amount, setting.currency)
            funds = self.budget.charge(cost)
            outcome = yield step
            self.budget = funds
            noise = sigma_or_scale(step.noise) if isinstance(step, MeasureStep) else None
            self.bought_cells.append(BoughtCells(private.fine.name, private.words, noise))
            self.setting = setting.with_parts({attribute_index: private.parts_from(step, outcome)})

    def measure_dependent_pairs(self, amount: Fraction) -> StepGenerator:
        """Measure the pairs of which one column decides the other, each for this amount."""
        for pair in self.setting.pairs:
            yield from self.measure(pair, amount, "first", fit=False)

    def measure(
        self, attribute_set: AttributeSet, amount: Fraction, what: str, *, fit: bool = True
    ) -> MeasurementGenerator:
        """Measure a marginal for this amount; return the mean size of the noise in a cell, in rows."""
        before = self.model.marginal(attribute_set) if fit else None
        noise = yield from self._measure_marginal(attribute_set, amount, what)
        if before is not None:
            self.fit(max_rounds=STEPS_PER_ROUND)
            measured, synthesis_round = self.released[-1]
            gain = l1_change(before, self.model.marginal(attribute_set)) / 2
            self.released[-1] = measured, replace(synthesis_round, gain=gain)
        return noise

    def record_gains(self, before: Sequence[Floats]) -> None:
        """Record how much the model changed on the last marginals, which were fitted together."""
        last = self.released[-len(before) :]
        after = self.model.marginals([measured.attribute_set for measured, _ in last])
        self.released[-len(before) :] = [
            (measured, replace(synthesis_round, gain=l1_change(*change) / 2))
            for (measured, synthesis_round), change in zip(last, zip(before, after, strict=True), strict=True)
        ]

    def _measure_marginal(self, attribute_set: AttributeSet, amount: Fraction, what: str) -> MeasurementGenerator:
        view, currency = (
            CellCounts(self.setting.reading, attribute_set, self.setting.merged_cells),
            self.budget.currency,
        )
        noise = currency.noise(amount, view.sensitivity)
        funds = self.budget.charge(currency.noise_cost(noise, view.sensitivity))
        outcome = yield MeasureStep(view, noise, NoisyCells.from_counts)
        assert isinstance(outcome, NoisyCells)
        self.budget = funds
        shape = tuple(self.setting.sizes[attribute_index] for attribute_index in attribute_set)
        laplace, step = isinstance(noise, Laplace), self.setting.unit_value
        measured = MeasuredMarginal(attribute_set, outcome.counts.reshape(shape), sigma_or_scale(noise), laplace, step)
        names = tuple(self.setting.attributes[attribute_index].name for attribute_index in attribute_set)
        self.released.append((measured, SynthesisRound(names, what, noise.words())))
        return mean_absolute_noise(noise, step)

    def choose(
        self, candidates: Mapping[AttributeSet, int], amount: Fraction, penalty: Callable[[int], float]
    ) -> ChoiceGenerator:
        """Choose a set that the model fits badly, by its weighted distance less a penalty in rows for so many cells."""
        sets = list(candidates)
        scores = self._candidate_scores(sets, [candidates[attribute_set] for attribute_set in sets], penalty)
        choice = self.budget.currency.choice(amount, scores)
        funds = self.budget.charge(self.budget.currency.choice_cost(choice))
        outcome = yield ChooseStep(scores, choice)
        assert isinstance(outcome, ChosenCandidate)
        self.budget = funds
        return sets[outcome.index]

    def _candidate_scores(
        self, sets: Sequence[AttributeSet], weights: Sequence[int], penalty: Callable[[int], float]
    ) -> ColumnSetDistances:
        step = float(self.setting.unit_value)
        views = tuple(
            CellCounts(self.setting.reading, attribute_set, self.setting.merged_cells) for attribute_set in sets
        )
        model = self.model
        missing = [attribute_set for attribute_set in sets if attribute_set not in self._predicted]
        for attribute_set, counts in zip(missing, model.marginals(missing), strict=True):
            self._predicted[attribute_set] = round_to_steps(counts, step)
        predicted = tuple(self._predicted[attribute_set] for attribute_set in sets)
        return ColumnSetDistances(
            views, predicted, tuple(weights), tuple(round(penalty(view.size) / step) for view in views)
        )

    def candidates_within_model_size(
        self, among: Mapping[AttributeSet, int], spent_share: float
    ) -> dict[AttributeSet, int]:
        """Return the candidates to compare that the model can hold when this share of the price is spent."""
        chosen = [
            measured.attribute_set for measured, synthesis_round in self.released if synthesis_round.what == "chosen"
        ]
        compared = compared_sets(list(among), chosen, max_compared(self.total, len(self.setting.sizes)))
        model_sets = [marginal.attribute_set for marginal in self.marginals] + [
            attribute_set for attribute_set, _ in self.setting.zeros
        ]
        fitting_sets = candidates_within_cells(compared, self.model, model_sets, self.setting.max_cells * spent_share)
        return {
            attribute_set: among[attribute_set]
            for attribute_set in fitting_sets
            if attribute_set in self.setting.reading.distinct_sets
        }


def _observation(measured: MeasuredMarginal) -> Observation:
    return Observation(
        measured.attribute_set,
        measured.values.astype(np.float64) * float(measured.unit_value),
        math.sqrt(measured.variance),
    )


def pairs_with(target: int, columns: int) -> tuple[AttributeSet, ...]:
    """Return the pairs of one column with every other."""
    return tuple(
        (min(target, attribute_index), max(target, attribute_index))
        for attribute_index in range(columns)
        if attribute_index != target
    )


def l1_change(before: Floats, after: Floats) -> float:
    """Return the sum of the changes of all cells, in rows."""
    return float(np.abs(after - before).sum())


def mean_absolute_noise(noise: Additive, unit_value: Fraction) -> float:
    """Return the mean of |noise| in one cell, in rows: √(2/π)·σ, or the scale of Laplace noise."""
    size = float(sigma_or_scale(noise) * unit_value)
    return size if isinstance(noise, Laplace) else math.sqrt(2 / math.pi) * size


def round_to_steps(counts: Floats, unit_value: float) -> Integers:
    """Round the model's counts to integer steps, with which the truth is compared."""
    steps: Integers = np.rint(np.clip(counts.reshape(-1) / unit_value, 0.0, _MAX_STEPS)).astype(np.int64)
    return steps
