"""Methods of synthesis: AIM, MST, MWEM and independent columns.

*AIM* measures every column first, and then, round by round, the set of columns that the model fits worst (McKenna,
Mullins, Sheldon & Miklau 2022, "AIM: an adaptive and iterative mechanism for differentially private synthetic data").
A round chooses what the model has wrong by more than the expected noise, and measures it. Noise starts as for 4d
rounds, or for 2d if counts are small relative to it; it is halved when a round taught nothing, that is when the model
moved on the measured set by no more than noise would move it. The last round takes the rest of the price. With a
target, the pairs of that column with every other are measured instead of single columns, for four fifths of the price:
such a star is what a learner of that column needs most, and no choice is paid for it. Pairs of which one column decides
the other share these four fifths evenly with the star, and a pair that is in both is measured once. Which pairs follows
from the policy and the request alone; each is a marginal like any other, and costs what its noise does.

*No step costs more than is left*, whatever was drawn before. With d columns and n̂ rows, R is left after n̂ and bought
cells, and a round of AIM costs a = R/2d or R/4d. A column decides at most one other, so at most d pairs are implied:
columns and pairs cost at most 2d · 0.9a ≤ 0.9R, and a star with implied pairs at most 0.8R. A later round costs at most
half of what is left, or is the last and takes all of it. The other methods divide R by their number of steps. Nor is
any noise larger, or any choice cheaper, than those for R/4d, which are tried before the first charge. ∎

*Independent* measures every column by itself: no two columns of the model depend on each other, except where the policy
declares that one decides the other.

*MST* measures every column, chooses the tree of pairs of columns that depend most on each other, and measures these
pairs (McKenna, Miklau & Sheldon 2021, "Winning the NIST contest"). A third of the price is for the columns, a tenth for
the choices, where the paper takes a third, and the rest for the pairs: noise in a measured pair costs more than
choosing the second-best pair. Pairs that the model has no memory for are left out: the tree then lacks some edges.

*MWEM* measures, in as many rounds as there are columns, what the model fits worst of the workload (Hardt, Ligett &
McSherry 2012), with the graphical model in place of a weight for every cell (McKenna, Sheldon & Miklau 2019). No column
is measured beforehand, every round costs the same, and the last takes the rest. Subsets of the workload's sets are
candidates too, as its largest sets have more noise than rows at a small price: without them some columns were never
measured at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from fractions import Fraction

from sfumato.plan.readings.cell_rows import CellCounts
from sfumato.publish.graph.trees import predicted_cells
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.synthesis.budget import FOR_CHOICES, RoundAmounts, round_amount_down
from sfumato.publish.synthesis.candidates import (
    Outcome,
    Step,
    candidates_within_cells,
    integer_weights,
    subsets_with_largest_weight,
)
from sfumato.publish.synthesis.state import StepGenerator, SynthesisSetting, SynthesisState, mean_absolute_noise


def noise_penalty(course: SynthesisState, amount: Fraction) -> Callable[[int], float]:
    """Return the mean L1 error, in rows, of noise for this amount, as a function of the number of cells of a
    marginal.
    """
    setting = course.setting
    one_column = CellCounts(setting.reading, (0,))  # more than one cell, like every candidate
    mean_noise = mean_absolute_noise(course.budget.currency.noise(amount, one_column.sensitivity), setting.unit_value)
    return lambda cells: mean_noise * cells


FOR_TARGET = Fraction(4, 5)
"""The share of the price for the pairs of a target with all other columns."""
_MIN_ROWS_PER_CELL = 19.0
"""Fewer rounds are better below so many rows per cell of a column, times √ρ."""


def aim(course: SynthesisState) -> StepGenerator:
    """Measure columns, then choose and measure until the price is spent."""
    yield from course.count_rows_and_buy_cells()
    rounds = expected_rounds(course.setting, course.total)
    amounts = RoundAmounts.of_round(round_amount_down(course.budget.remaining / rounds))
    first_sets, first_amount = first_sets_and_amount(course.setting, course.budget.remaining, amounts)
    course.planned = len(first_sets) + rounds
    for attribute_set in first_sets:
        yield from course.measure(attribute_set, first_amount, "first", fit=False)
    course.fit()
    is_last = False
    while not is_last:
        is_last = course.budget.remaining < 2 * amounts.total
        if is_last:
            amounts = RoundAmounts.of_round(course.budget.remaining)
        learned = yield from _choose_and_measure(course, amounts, is_last)
        if not learned:
            amounts = amounts.with_halved_noise(course.budget.currency)


def first_sets_and_amount(
    setting: SynthesisSetting, remaining: Fraction, amounts: RoundAmounts
) -> tuple[Sequence[AttributeSet], Fraction]:
    """Return what AIM measures before it chooses, and the amount for each: every column, or the target's pairs; and
    the pairs of which one column decides the other.
    """
    if setting.target is None:
        return [*((attribute_index,) for attribute_index in setting.first_columns), *setting.pairs], amounts.measurement
    pairs = setting.target_and_implied_pairs
    return pairs, round_amount_down(remaining * FOR_TARGET / len(pairs))


def _choose_and_measure(course: SynthesisState, amounts: RoundAmounts, is_last: bool) -> Generator[Step, Outcome, bool]:
    """Choose and measure once; return whether the model moved by more than noise would move it."""
    share = float((course.budget.spent + amounts.total) / course.budget.currency.total)
    candidates = course.candidates_within_model_size(course.setting.candidates, share)
    chosen = yield from course.choose(candidates, amounts.choice, noise_penalty(course, amounts.measurement))
    noise = yield from course.measure(chosen, course.budget.remaining if is_last else amounts.measurement, "chosen")
    measured, synthesis_round = course.released[-1]
    return 2 * synthesis_round.gain > noise * measured.values.size


def expected_rounds(setting: SynthesisSetting, rows: float) -> int:
    """Return the number of rounds that the first noise is chosen for, by the noisy number of rows and the price."""
    per_cell = rows / setting.max_rows / (sum(setting.sizes) / len(setting.sizes))
    is_sparse = per_cell * setting.currency.first_round_sharpness(len(setting.sizes)) < _MIN_ROWS_PER_CELL
    return (2 if is_sparse else 4) * len(setting.sizes)


def independent(course: SynthesisState) -> StepGenerator:
    """Measure all columns, each for the same amount; the last takes the rest."""
    yield from course.count_rows_and_buy_cells()
    sets = [*((attribute_index,) for attribute_index in range(len(course.setting.attributes))), *course.setting.pairs]
    course.planned = len(sets)
    for index, attribute_set in enumerate(sets):
        remaining = course.budget.remaining
        amount = round_amount_down(remaining / (len(sets) - index)) if index < len(sets) - 1 else remaining
        yield from course.measure(attribute_set, amount, "first", fit=False)


def mst(course: SynthesisState) -> StepGenerator:
    """Measure columns, choose a tree of pairs one by one, and measure these."""
    columns = len(course.setting.attributes)
    if columns == 1:
        return (yield from independent(course))
    yield from course.count_rows_and_buy_cells()
    pairs = course.setting.pairs
    course.planned = columns + max(columns - 1, len(pairs))
    after_rows = course.budget.remaining
    for attribute_index in range(columns):
        yield from course.measure((attribute_index,), round_amount_down(after_rows / 3 / columns), "first", fit=False)
    course.fit()
    edges = list(pairs)  # a declared dependency is in every tree
    # no choice depends on a measured pair, so the model is fitted once before the choices and once after all pairs
    while candidates := _fitting_pairs(course, _unconnected_pairs(edges, columns), edges):
        amount = round_amount_down(after_rows * FOR_CHOICES / (columns - 1))
        edges.append((yield from course.choose(dict.fromkeys(candidates, 1), amount, _no_penalty)))
    if not edges:  # no pair fits: columns stay independent
        return
    before = course.model.marginals(edges)
    for index, attribute_set in enumerate(edges):
        amount = (
            round_amount_down(course.budget.remaining / (len(edges) - index))
            if index < len(edges) - 1
            else course.budget.remaining
        )
        yield from course.measure(attribute_set, amount, "first" if attribute_set in pairs else "chosen", fit=False)
    course.fit()
    course.record_gains(before)


def _fitting_pairs(
    course: SynthesisState, candidates: Sequence[AttributeSet], edges: Sequence[AttributeSet]
) -> list[AttributeSet]:
    """Return the pairs with which the model has at most as many cells as memory allows, beside those of its columns.

    A pair that closes no cycle adds its own cells. Which pairs fit follows from public sizes and released choices.
    Bought cells may be fewer than planned, but the reading was planned before: it counts no pair that fits them alone.
    """
    setting, sizes = course.setting, course.setting.sizes
    candidates = [attribute_set for attribute_set in candidates if attribute_set in setting.reading.distinct_sets]
    fixed_sets = [attribute_set for attribute_set, _ in setting.zeros]
    if fixed_sets:
        return candidates_within_cells(candidates, course.model, [*fixed_sets, *edges], setting.max_cells)
    singles = ((attribute_index,) for attribute_index in range(len(sizes)))
    room = sum(sizes) + setting.max_cells - predicted_cells([*singles, *edges], sizes)
    return [(first, second) for first, second in candidates if sizes[first] * sizes[second] <= room]


def _no_penalty(cells: int) -> float:  # noqa: ARG001
    return 0.0


def _unconnected_pairs(edges: list[AttributeSet], columns: int) -> list[AttributeSet]:
    """Return the pairs of columns that no path of edges connects."""
    component = list(range(columns))
    for first, second in edges:
        old, new = component[first], component[second]
        component = [new if label == old else label for label in component]
    return [pair for pair in itertools.combinations(range(columns), 2) if component[pair[0]] != component[pair[1]]]


def mwem(course: SynthesisState) -> StepGenerator:
    """Choose and measure, round by round."""
    yield from course.count_rows_and_buy_cells()
    weights = integer_weights(subsets_with_largest_weight(course.setting.workload))
    pairs = course.setting.pairs
    course.planned = rounds = len(course.setting.attributes) + len(pairs)
    yield from course.measure_dependent_pairs(round_amount_down(course.budget.remaining / rounds))
    for index in range(len(pairs), rounds):
        remaining = course.budget.remaining
        amounts = RoundAmounts.of_round(
            round_amount_down(remaining / (rounds - index)) if index < rounds - 1 else remaining
        )
        candidates = course.candidates_within_model_size(weights, (index + 1) / rounds)
        chosen = yield from course.choose(candidates, amounts.choice, noise_penalty(course, amounts.measurement))
        amount = amounts.measurement if index < rounds - 1 else course.budget.remaining
        yield from course.measure(chosen, amount, "chosen")
