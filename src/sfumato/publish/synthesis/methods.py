"""AIM measures every column first, and then, round by round, the set of columns that the model has most wrong.

McKenna, Mullins, Sheldon & Miklau (2022), "AIM: an adaptive and iterative mechanism for differentially private
synthetic data". Noise starts as for 4d rounds, and for 2d where counts are small beside it; it is halved when a round
taught nothing, that is when the model moved on the measured set by no more than noise would. The last round takes what
is left.

A round chooses what the model has wrong by more than noise would be, and measures it.

The independent method measures every column by itself: the model has no two columns depend on each other, but for
those of which the policy says that one decides the other.

MST measures every column, chooses the pairs of columns that depend most on each other, as a tree, and measures them.

McKenna, Miklau & Sheldon (2021), "Winning the NIST contest": a third of the price is for the columns. A tenth is for
the choices, where the paper takes a third, and what is left for the pairs: pairs depend on each other or do not, and
noise in what is measured of them costs more than a choice of the second best.

MWEM measures in each of as many rounds as there are columns what the model has most wrong of the workload.

Hardt, Ligett & McSherry (2012), with the graphical model in place of a weight for every cell (McKenna, Sheldon & Miklau
2019). No column is measured beforehand, every round costs the same, and the last takes what is left. Sets within one of
the workload are chosen from too, as its largest ones have more noise than rows where the price is small: without them
some columns were never measured at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from fractions import Fraction

from sfumato.plan.readings.cell_rows import CellCounts
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.synthesis.budget import FOR_CHOICES, Amounts, rounded
from sfumato.publish.synthesis.candidates import Outcome, Step, whole_weights, within
from sfumato.publish.synthesis.course import Setting, Steps, SynthesisState, mean_size


def penalty_of(course: SynthesisState, amount: Fraction) -> Callable[[int], float]:
    """Say how far noise for this amount moves a marginal of so many cells from the truth on average, in rows."""
    own = course.setting
    widest = CellCounts(own.reading, (0,))  # more than one cell: as every marginal that is chosen
    each = mean_size(course.funds.currency.noise(amount, widest.sensitivity), own.unit_value)
    return lambda cells: each * cells


_FEW_ROWS = 19.0
"""Below so many rows per cell of a column, times √ρ, fewer rounds are better."""


def aim(course: SynthesisState) -> Steps:
    """Measure columns, then choose and measure until nothing is left."""
    yield from course.count_rows()
    columns = len(course.setting.attributes)
    rounds = expected_rounds(course.setting, course.total)
    course.planned = columns + len(course.setting.pairs) + rounds
    amounts = Amounts.of_round(rounded(course.funds.left / rounds))
    for place in range(columns):
        yield from course.measure((place,), amounts.measured, "first", fit=False)
    yield from course.measure_pairs(amounts.measured)
    course.fit()
    last = False
    while not last:
        last = course.funds.left < 2 * amounts.whole
        if last:
            amounts = Amounts.of_round(course.funds.left)
        taught = yield from _round(course, amounts, last)
        if not taught:
            amounts = amounts.halved(course.funds.currency)


def _round(course: SynthesisState, amounts: Amounts, last: bool) -> Generator[Step, Outcome, bool]:
    """Choose and measure once; tell whether the model moved by more than noise would."""
    share = 1.0 if last else float((course.funds.spent + amounts.whole) / course.funds.currency.total)
    among = course.affordable(course.setting.candidates, share)
    chosen = yield from course.choose(among, amounts.chosen, penalty_of(course, amounts.measured))
    noise = yield from course.measure(chosen, course.funds.left if last else amounts.measured, "chosen")
    measured, told = course.released[-1]
    return 2 * told.gain > noise * measured.values.size


def expected_rounds(own: Setting, rows: float) -> int:
    """Say for how many rounds the noise is chosen at first: by the number of rows, a noisy one, and the price."""
    per_cell = rows / own.most_rows / (sum(own.sizes) / len(own.sizes))
    few = per_cell * own.currency.sharpness(len(own.sizes)) < _FEW_ROWS
    return (2 if few else 4) * len(own.sizes)


def independent(course: SynthesisState) -> Steps:
    """Measure all columns, each for the same amount; the last takes what is left."""
    yield from course.count_rows()
    sets = [*((place,) for place in range(len(course.setting.attributes))), *course.setting.pairs]
    course.planned = len(sets)
    for index, each in enumerate(sets):
        left = course.funds.left
        amount = rounded(left / (len(sets) - index)) if index < len(sets) - 1 else left
        yield from course.measure(each, amount, "first", fit=False)


def mst(course: SynthesisState) -> Steps:
    """Measure columns, choose a tree of pairs one by one, and measure these."""
    columns = len(course.setting.attributes)
    if columns == 1:
        return (yield from independent(course))
    yield from course.count_rows()
    pairs = course.setting.pairs
    course.planned = columns + max(columns - 1, len(pairs))
    bought = course.funds.left
    for place in range(columns):
        yield from course.measure((place,), rounded(bought / 3 / columns), "first", fit=False)
    course.fit()
    edges = list(pairs)  # of which one column decides the other: no tree without them
    while joining := _joining(edges, columns):
        amount = rounded(bought * FOR_CHOICES / (columns - 1))
        edges.append((yield from course.choose(dict.fromkeys(joining, 1), amount, _no_penalty)))
    for index, each in enumerate(edges):
        amount = rounded(course.funds.left / (len(edges) - index)) if index < len(edges) - 1 else course.funds.left
        yield from course.measure(each, amount, "first" if each in pairs else "chosen")


def _no_penalty(cells: int) -> float:  # noqa: ARG001
    return 0.0


def _joining(edges: list[Set], columns: int) -> list[Set]:
    """List the pairs of columns that no path of edges connects."""
    part = list(range(columns))
    for one, other in edges:
        old, new = part[one], part[other]
        part = [new if each == old else each for each in part]
    return [pair for pair in itertools.combinations(range(columns), 2) if part[pair[0]] != part[pair[1]]]


def mwem(course: SynthesisState) -> Steps:
    """Choose and measure, round by round."""
    yield from course.count_rows()
    wanted = whole_weights(within(course.setting.workload))
    pairs = course.setting.pairs
    course.planned = rounds = len(course.setting.attributes) + len(pairs)
    yield from course.measure_pairs(rounded(course.funds.left / rounds))
    for index in range(len(pairs), rounds):
        left = course.funds.left
        amounts = Amounts.of_round(rounded(left / (rounds - index)) if index < rounds - 1 else left)
        among = course.affordable(wanted, (index + 1) / rounds)
        chosen = yield from course.choose(among, amounts.chosen, penalty_of(course, amounts.measured))
        amount = amounts.measured if index < rounds - 1 else course.funds.left
        yield from course.measure(chosen, amount, "chosen")
