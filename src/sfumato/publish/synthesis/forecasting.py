"""Forecast the time and memory of a synthesis, from public numbers and the speed of this machine.

*Assumptions.* The number of rows is the policy's or the caller's, and columns depend on each other moderately. Chosen
sets are as large as ``expected`` predicts. A fit takes about 6.5·(rows / noise)^0.4 rounds, at most 16 after a chosen
set, and four times as many at the end: such constants were calibrated on public tables (ADULT, NIST's excerpts and
PUMS), not on the private one. Time is CPU time, without waiting for a disk. Nothing is read, and no number in a
forecast is private.

*Expected rounds.* Which sets a run will choose depends on the data; their sizes hardly do: a set is chosen if the model
has it wrong by more than the noise, so the noise of all its cells is a small share of all rows. So sets of about that
size are taken from the candidates, in an order that follows from their sizes alone.

*Speed* is measured once per process, by fitting and counting made-up numbers. Two chains of columns are fitted for a
few rounds: one of many small tables, which shows the fixed cost of a table, and one of a few large ones, which shows
the cost of a cell. No policy and no row is involved.

*Invented rows* follow from the policy alone: for previews, and to see how long a synthesis takes on this machine.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats, Indices
from sfumato.mechanisms import bits
from sfumato.plan.readings.cell_rows import MAX_CACHED_CELLS, CellCounts, CodedRows
from sfumato.privacy import codec
from sfumato.publish.graph.fitting import Observation, fit_model
from sfumato.publish.graph.trees import GrowingModelSize, predicted_bytes, predicted_cells
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.synthesis.budget import FOR_CHOICES, FOR_ROWS
from sfumato.publish.synthesis.candidates import cell_counts, subset_index_arrays
from sfumato.publish.synthesis.methods import FOR_TARGET, expected_rounds
from sfumato.publish.synthesis.state import (
    ROUNDS_PER_PART,
    STEPS_PER_ROUND,
    SynthesisSetting,
    comparison_factor,
    max_compared,
    mean_absolute_noise,
)
from sfumato.quick_dataclass import dataclass

_NOISE_SHARE = 0.1
"""The noise of all cells of a chosen set, as a share of all rows."""
_LEARNING_INTERCEPT, _LEARNING_SLOPE, _MIN_ROUND_SHARE, _MAX_ROUND_SHARE = -0.1, 0.08, 0.15, 0.7
"""AIM runs a share of the rounds it plans at first, as rounds that teach nothing make later ones dearer: the share is
linear in ln(rows / noise), and clipped."""
_LATE_SHARE = 1 / 3
"""The share of AIM's rounds, at the end, in which noise is halved."""
_MAX_TRIED = 8
"""The most sets that are tried for a round before a set is measured again."""
_GOLDEN = (5**0.5 - 1) / 2
"""Multiples modulo 1 are evenly distributed: sets of about equal size are taken from all columns alike."""


@dataclass(frozen=True)
class ExpectedRun:
    """What a run is expected to do."""

    single_columns: int
    """The number of single columns that are measured first."""
    chosen: tuple[AttributeSet, ...]
    """Sets like those that will be chosen, in order."""
    candidates: Floats
    """The number of cells of each set that is compared with the model in each round."""
    choices: float
    """The number of times that all of them are compared."""
    noise: float
    """The mean size of the noise in a cell of a chosen set, or of a single column if none is chosen, in rows."""
    pairs: tuple[AttributeSet, ...] = ()
    """The pairs that are measured before anything is chosen."""
    fits_after_each_set: bool = True
    """Whether the model is fitted after every chosen set, and not only before the choices and after all sets."""

    @property
    def count_before_choices(self) -> int:
        """The number of marginals measured before anything is chosen."""
        return self.single_columns + len(self.pairs)

    def sets(self, columns: int) -> list[AttributeSet]:
        """Return all sets that are measured, in order."""
        return [
            *((attribute_index,) for attribute_index in range(columns if self.single_columns else 0)),
            *self.pairs,
            *self.chosen,
        ]


def expected_run(setting: SynthesisSetting, method: str, rows: int) -> ExpectedRun:
    """Return what a method is expected to do on so many rows."""
    return replace(_expected_run_without_pairs(setting, method, rows), pairs=setting.target_and_implied_pairs)


def _expected_run_without_pairs(setting: SynthesisSetting, method: str, rows: int) -> ExpectedRun:
    columns = len(setting.sizes)
    if method == "independent" or (method == "mst" and columns == 1):
        return ExpectedRun(columns, (), np.zeros(0), 0, _mean_noise(setting, Fraction(1, columns)))
    if method == "mst":
        share = (1 - FOR_CHOICES - Fraction(1, 3)) / (columns - 1)
        max_cells = sum(setting.sizes) + setting.max_cells
        pairs = cell_counts(np.array([*itertools.combinations(range(columns), 2)]), setting.sizes)
        pairs = pairs[pairs <= max_cells]
        chain = _chain_within_cells(setting.sizes, max_cells)  # before any data, one tree is as good as another
        noise = _mean_noise(setting, share)
        return ExpectedRun(columns, chain, pairs, (columns - 1) / 2, noise, fits_after_each_set=False)
    candidates = subset_index_arrays(setting.workload)
    all_cells = np.concatenate([cell_counts(sets, setting.sizes) for sets in candidates])
    cells = _compared_cells(all_cells, max_compared(rows, columns))
    if method == "mwem":
        noise = _mean_noise(setting, (1 - FOR_CHOICES) / columns)
        return ExpectedRun(0, _typical_sets(setting, candidates, columns, rows, noise), cells, columns, noise)
    planned = expected_rounds(setting, float(rows))
    noise = _mean_noise(setting, (1 - FOR_CHOICES) / planned)
    learning = _LEARNING_INTERCEPT + _LEARNING_SLOPE * math.log(max(1.0, rows / noise))
    round_share = min(_MAX_ROUND_SHARE, max(_MIN_ROUND_SHARE, learning))
    before_choices = planned * float(FOR_TARGET) if setting.target_pairs else float(1 - FOR_CHOICES) * columns
    count = max(1, math.ceil(round_share * (planned - before_choices)))
    return ExpectedRun(
        0 if setting.target_pairs else columns,
        _typical_sets(setting, candidates, count, rows, noise, _LATE_SHARE),
        cells,
        count,
        noise,
    )


def _chain_within_cells(sizes: Sequence[int], max_cells: int) -> tuple[AttributeSet, ...]:
    """Return the pairs of neighbouring columns that a model of so many cells holds, those first that come first."""
    chain: list[AttributeSet] = []
    cells = sum(sizes)
    for pair in itertools.pairwise(range(len(sizes))):
        if cells + math.prod(sizes[attribute_index] for attribute_index in pair) <= max_cells:
            chain.append(pair)
            cells += math.prod(sizes[attribute_index] for attribute_index in pair)
    return tuple(chain)


def _compared_cells(cells: Floats, limit: int) -> Floats:
    """Return the numbers of cells of the sets that a round compares: all, or as many at even distances."""
    return cells if len(cells) <= limit else cells[np.arange(limit) * len(cells) // limit]


def _mean_noise(setting: SynthesisSetting, share: Fraction) -> float:
    """Return the mean size of the noise that this share of the price buys, in rows."""
    amount = setting.currency.total * (1 - FOR_ROWS) * share
    noise = setting.currency.noise(amount, CellCounts(setting.reading, (0,)).sensitivity)
    return mean_absolute_noise(noise, setting.unit_value)


def _typical_sets(
    setting: SynthesisSetting, candidates: Sequence[Indices], count: int, rows: int, noise: float, halved: float = 0.0
) -> tuple[AttributeSet, ...]:
    """Return so many sets of two columns or more, those first whose noise is most like that of chosen sets, while
    the model fits the share of the price that is spent by then. In the ``halved`` share of the rounds, the last
    ones, noise is halved.
    """
    sizes = setting.sizes
    larger_sets = [sets for sets in candidates if sets.shape[1] > 1] or [np.array([[0]])]
    most_tried = count + _MAX_TRIED  # tried in all before one is measured again
    early = _nearest_in_size(larger_sets, sizes, _NOISE_SHARE * rows / noise, most_tried)
    late = _nearest_in_size(larger_sets, sizes, 2 * _NOISE_SHARE * rows / noise, most_tried)
    typical_sets: list[AttributeSet] = []
    growing_sets = GrowingModelSize(sizes)
    for index in range(count):
        max_cells = sum(sizes) + setting.max_cells * (index + 1) / count
        untried = (
            candidate
            for candidate in (late if index >= (1 - halved) * count else early)
            if candidate not in typical_sets
        )
        fitting = (
            candidate
            for candidate in itertools.islice(untried, _MAX_TRIED)
            if growing_sets.predicted_with(candidate) <= max_cells
        )
        typical_set = next(fitting, typical_sets[0] if typical_sets else (0,))
        growing_sets.add(typical_set)
        typical_sets.append(typical_set)
    return tuple(typical_sets)


def _nearest_in_size(
    sets: Sequence[Indices], sizes: Sequence[int], target_cells: float, count: int
) -> list[AttributeSet]:
    """Return the sets nearest to so many cells, on a scale of powers of two; ties are spread over all columns."""
    goal = math.log2(max(1.0, target_cells))
    cells = np.concatenate([cell_counts(index_sets, sizes) for index_sets in sets])
    distances = np.rint(np.abs(np.log2(cells) - goal)).astype(np.int64)
    farthest = int(np.searchsorted(np.cumsum(np.bincount(distances)), min(count, len(cells))))
    near = np.flatnonzero(distances <= farthest)  # all others would come later
    order = near[np.lexsort((near * _GOLDEN % 1, distances[near]))][:count]
    starts = np.cumsum([0, *map(len, sets)])
    groups = np.searchsorted(starts, order, side="right") - 1
    return [
        tuple(sets[group][index - starts[group]].tolist())
        for group, index in zip(groups.tolist(), order.tolist(), strict=True)
    ]


_TIMED_ROUNDS, _TIMED_TRIES = 12, 2
"""CPU time varies little from try to try, and a forecast need only be right within a factor of two."""
_SMALL_CHAIN, _LARGE_CHAIN = (3,) * 16, (100,) * 4
_TIMED_ROWS = 1 << 17


@dataclass(frozen=True)
class MachineSpeed:
    """CPU seconds of the operations that a forecast adds up."""

    seconds_per_table: float
    """For one update of one small table of a model."""
    seconds_per_cell: float
    """For each cell of a large table, in addition."""
    seconds_per_row: float
    """For counting one row in one marginal."""


@lru_cache(maxsize=1)
def measure_speed() -> MachineSpeed:
    """Measure this machine: the best of several tries each, because other programs run on it too."""
    table = _best_seconds(lambda: _fit_chain(_SMALL_CHAIN)) / (_TIMED_ROUNDS * (len(_SMALL_CHAIN) - 1))
    cells = sum(first * second for first, second in pairwise(_LARGE_CHAIN))
    round_seconds = _best_seconds(lambda: _fit_chain(_LARGE_CHAIN)) / _TIMED_ROUNDS
    index = (np.arange(_TIMED_ROWS) * 7919 % 1000).astype(np.uint16)
    row = _best_seconds(lambda: np.bincount(index * np.uint16(1) + np.uint16(1), minlength=1001)) / _TIMED_ROWS
    return MachineSpeed(table, max(round_seconds - table * (len(_LARGE_CHAIN) - 1), 0.1 * round_seconds) / cells, row)


def _fit_chain(sizes: tuple[int, ...]) -> None:
    """Run a fit of pairs of neighbouring columns for so many rounds, whatever its result."""
    observed = [
        Observation(
            (attribute_index, attribute_index + 1),
            100 + np.arange(rows * columns, dtype=float).reshape(rows, columns) % 7,
            1.0,
        )
        for attribute_index, (rows, columns) in enumerate(pairwise(sizes))
    ]
    fit_model(observed, sizes, 100.0 * sizes[0] * sizes[1], tolerance=0.0, max_rounds=_TIMED_ROUNDS)


def _best_seconds(work: Callable[[], object]) -> float:
    return min(_cpu_seconds(work) for _ in range(_TIMED_TRIES))


def _cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return max(time.process_time() - start, 1e-6)


_FIT_ROUNDS, _FIT_POWER, _LAST_FIT_FACTOR, _MAX_FIT_ROUNDS = 6.5, 0.4, 4.0, 1000.0
_MEASURED_COST, _CANDIDATE_COST, _STEP_COST, _START_COST = 0.6, 4.0, 80.0, 3000.0
"""The time of a measured set in a round of a fit, of a candidate in a round of choices, of a step with its ledger
lines, and of the setup, in updates of a small table."""
_PREDICTED_COST = 0.5
"""The time of a candidate whose prediction is known from the round before, as the model was not fitted again."""
_READ_COST = 5.0
"""The time to read one column of a row, in rows counted."""
_ENGINE_BYTES, _BYTES_PER_VALUE, _BYTES_PER_CODE = 5 << 20, 20, 2
"""The bytes that an engine needs to read at all, for each value that arrives at a time, and for each that is kept."""
_ARRIVING_VALUES = 1 << 23
"""The most values that are in memory before they are coded: those of some batches, and of what is read ahead."""
_SUMS_PER_CELL = 10
"""The cached sums per cell of the model, from which the marginals of candidates are computed."""


@codec.serialisable("synthesis-forecast")
@dataclass(frozen=True)
class SynthesisForecast:
    """The expected cost of a synthesis: time and memory within a factor of two, from public numbers alone."""

    seconds: float
    """CPU seconds."""
    memory: int
    """In bytes, beyond what is in use before."""
    rounds: int
    """The expected number of measured marginals."""
    cells: int
    """The expected number of cells of the model at the end."""
    rows: int
    """The number of rows that the forecast is for."""
    price: str
    accepted: bool
    """Whether the account, and the analyst's share of it, would accept this release now."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "seconds", codec.parse_float(self.seconds, "seconds"))

    def __str__(self) -> str:
        memory_range = f"{_scaled_text(self.memory / 2**20, 0.5)} to {_scaled_text(self.memory / 2**20, 2)} MiB"
        cost = f"{_scaled_text(self.seconds, 0.5)} to {_scaled_text(self.seconds, 2)} CPU seconds and {memory_range}"
        head = f"{cost} at {self.price}, for {self.rows:,} rows"
        return f"{head}: about {self.rounds} marginals measured, a model of about {self.cells:,} cells"

    __repr__ = __str__


def _scaled_text(value: float, factor: float) -> str:
    """Format an end of the range with two digits."""
    return f"{float(f'{value * factor:.2g}'):,g}"


def forecast(setting: SynthesisSetting, method: str, rows: int, price: str, *, accepted: bool) -> SynthesisForecast:
    """Forecast a synthesis of so many rows on this machine."""
    course = expected_run(setting, method, rows)
    sets = course.sets(len(setting.sizes))
    cells = predicted_cells(sets, setting.sizes)
    seconds = predicted_seconds(setting, course, rows, measure_speed())
    return SynthesisForecast(seconds, predicted_memory(setting, course, rows), len(sets), cells, rows, price, accepted)


def predicted_seconds(setting: SynthesisSetting, course: ExpectedRun, rows: int, machine: MachineSpeed) -> float:
    """Sum the time of reading, steps, choices and fits."""
    choices = len(course.chosen) if course.choices else 0
    steps = 1 + course.count_before_choices + len(course.chosen) + choices
    scored = _scored_cells(setting, course)
    candidate_cost = (
        _CANDIDATE_COST * comparison_factor(len(setting.sizes)) if course.fits_after_each_set else _PREDICTED_COST
    )
    counted = len(course.candidates) * rows * _counts_per_set(course, max_compared(rows, len(setting.sizes)), scored)
    return (
        machine.seconds_per_row * (_READ_COST * rows * len(setting.sizes) + counted)
        + machine.seconds_per_table
        * (_START_COST + _STEP_COST * steps + candidate_cost * course.choices * len(course.candidates))
        + machine.seconds_per_cell * course.choices * scored
        + _fitting_seconds(setting, course, rows, machine)
    )


def _counts_per_set(course: ExpectedRun, limit: int, scored_cells: int) -> float:
    """Return how often as many sets are counted as a round compares: once, for every part of them that has its turn, or
    in every round if their counts are not kept.
    """
    parts = max(1.0, course.choices / ROUNDS_PER_PART) if len(course.candidates) == limit else 1.0
    return parts if parts * scored_cells <= MAX_CACHED_CELLS else course.choices


def _fitting_seconds(setting: SynthesisSetting, course: ExpectedRun, rows: int, machine: MachineSpeed) -> float:
    """Sum the time of the fits: one after every chosen set, and a closer last one."""
    rounds = min(_MAX_FIT_ROUNDS, _FIT_ROUNDS * max(1.0, rows / course.noise) ** _FIT_POWER)
    sizes, sets = setting.sizes, course.sets(len(setting.sizes))
    first, last = (0 if course.count_before_choices else 1), len(course.chosen)
    fitted = range(first, last + 1) if course.fits_after_each_set else (first, last)
    seconds_per_fit = [_round_seconds(sets[: course.count_before_choices + count], sizes, machine) for count in fitted]
    early_seconds = sum(seconds_per_fit) if course.chosen else 0.0
    early_rounds = min(STEPS_PER_ROUND, rounds) if course.fits_after_each_set else rounds
    return early_rounds * early_seconds + min(_MAX_FIT_ROUNDS, _LAST_FIT_FACTOR * rounds) * seconds_per_fit[-1]


def _round_seconds(sets: list[tuple[int, ...]], sizes: tuple[int, ...], machine: MachineSpeed) -> float:
    """Return the time of one round of a fit: by its tables, and by the cells of the model and of what was measured."""
    cells = predicted_cells(sets, sizes) + sum(
        math.prod(sizes[attribute_index] for attribute_index in attribute_set) for attribute_set in sets
    )
    return machine.seconds_per_table * _MEASURED_COST * len(set(sets)) + machine.seconds_per_cell / 2 * cells


def predicted_memory(setting: SynthesisSetting, course: ExpectedRun, rows: int) -> int:
    """Sum what is held at once, in bytes: values, cached marginals, the model's marginals, and fitting."""
    scored, values = _scored_cells(setting, course), rows * len(setting.sizes)
    cached_cells = min(MAX_CACHED_CELLS, scored) + min(MAX_CACHED_CELLS // 2, scored)
    sets = course.sets(len(setting.sizes))
    cells, fitting = predicted_cells(sets, setting.sizes), predicted_bytes(sets, setting.sizes)
    return (
        _ENGINE_BYTES
        + _BYTES_PER_VALUE * min(values, _ARRIVING_VALUES)
        + _BYTES_PER_CODE * max(0, values - _ARRIVING_VALUES)
        + 8 * (cached_cells + scored + _SUMS_PER_CELL * cells)
        + fitting
    )


def _scored_cells(setting: SynthesisSetting, course: ExpectedRun) -> int:
    """Return the number of cells of all candidates that a model may have."""
    max_cells = sum(setting.sizes) + setting.max_cells
    return int(course.candidates[course.candidates <= max_cells].sum())


_FOLLOWING_QUARTERS = 2
"""In so many of four rows a column follows the one before it, so that there is something to learn."""


def draw_invented_rows(setting: SynthesisSetting, rows: int) -> CodedRows:
    """Draw rows from the declared cells: low codes more often than high ones, and each column partly decided by the
    one before it.
    """
    codes: list[NDArray[np.int64]] = []
    for size in setting.reading.sizes:
        declared_cells = max(1, size - 1)  # without the cell for missing values
        column_codes = np.minimum(
            bits.random_array_below(declared_cells, rows), bits.random_array_below(declared_cells, rows)
        )
        if codes:
            previous = codes[-1] * declared_cells // max(1, int(codes[-1].max(initial=0)) + 1)
            column_codes = np.where(bits.random_array_below(4, rows) < _FOLLOWING_QUARTERS, previous, column_codes)
        codes.append(column_codes)
    small = tuple(
        codes_of_column.astype(np.min_scalar_type(size - 1))
        for codes_of_column, size in zip(codes, setting.reading.sizes, strict=True)
    )
    return CodedRows(setting.reading.sizes, small, np.full(rows, setting.unit_value.denominator, np.int64))
