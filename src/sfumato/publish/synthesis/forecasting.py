"""A forecast of a synthesis adds up what its steps cost, from public numbers and from how fast this machine is.

*What it supposes.* The rows are as many as the policy says or the caller names, and ordinary: columns depend on each
other somewhat. The sets that are chosen are as large as ``expecting`` says. A fit takes about 6.5·(rows / noise)^0.4
rounds, and four times as many at the end: laws like this one were found on public tables (ADULT, NIST's excerpts and
PUMS), not on the one that is asked about. Time is of the processor: waiting for a disk is not in it. Nothing is read,
and no number in it is private.

The course of a synthesis is expected from public numbers alone: how many rounds, of which sizes, and which model.

Which sets a run will choose depends on the data. What they are like does not, by much: a set is chosen when the model
has it wrong by more than noise would be, so that the noise of all its cells is a small part of all rows. So sets of
about that size are taken from the candidates, in an order that follows from their sizes alone.

The speed of this machine is measured once per process: how fast it fits and counts numbers that are made up here.

Two chains of columns are fitted for a few rounds: one of many small tables, which shows what a table costs however
small it is, and one of a few large ones, which shows what a cell costs. No policy and no row is part of it.

Invented rows follow from the policy alone: for rehearsals, and to see how long a synthesis takes on this machine.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import bits
from sfumato.plan.readings.cell_rows import KEPT_CELLS, CellCounts, CodedRows
from sfumato.privacy import codec
from sfumato.publish.graph.fitting import Observation, fitted
from sfumato.publish.graph.trees import predicted_bytes, predicted_cells
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.synthesis.budget import FOR_CHOICES, FOR_ROWS
from sfumato.publish.synthesis.candidates import Places, sets_within
from sfumato.publish.synthesis.course import Setting, mean_size
from sfumato.publish.synthesis.methods import expected_rounds

_NOISE = 0.1
"""Of the sets that are chosen the noise of all cells is about this part of all rows."""
_TAUGHT, _TAUGHT_MORE, _LEAST_TAUGHT, _MOST_TAUGHT = -0.1, 0.08, 0.15, 0.7
"""Of the rounds that AIM could pay for at first it runs a part, as those that teach nothing make later ones dearer: it
rises with the logarithm of rows / noise."""
_LATE = 1 / 3
"""In so many of AIM's rounds, the last ones, noise is half of what it was."""
_TRIED = 64
"""How many sets are tried for a round before a set is measured again."""
_GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it are spread evenly: sets of about equal size are taken from all columns alike."""


@dataclass(frozen=True)
class Expected:
    """This is what a run is expected to do."""

    firsts: int
    """How many single columns are measured first."""
    chosen: tuple[Set, ...]
    """Which sets are like those that are chosen, in order."""
    candidates: Floats
    """How many cells each of the sets has that are compared with the model in each round,"""
    choices: float
    """and how many times all of them."""
    noise: float
    """The mean size of the noise in a cell of what is chosen, or of a single column where nothing is, in rows."""
    pairs: tuple[Set, ...] = ()
    """Which pairs are measured before anything is chosen."""

    @property
    def before(self) -> int:
        """Count what is measured before anything is chosen."""
        return self.firsts + len(self.pairs)

    def sets(self, columns: int) -> list[Set]:
        """List all that is measured, in order."""
        return [*((place,) for place in range(columns if self.firsts else 0)), *self.pairs, *self.chosen]


def expected(setting: Setting, method: str, rows: int) -> Expected:
    """Say what a method is expected to do on so many rows."""
    return replace(_without_pairs(setting, method, rows), pairs=tuple(setting.pairs))


def _without_pairs(setting: Setting, method: str, rows: int) -> Expected:
    columns = len(setting.sizes)
    if method == "independent" or (method == "mst" and columns == 1):
        return Expected(columns, (), np.zeros(0), 0, _noise(setting, Fraction(1, columns)))
    if method == "mst":
        share = (1 - FOR_CHOICES - Fraction(1, 3)) / (columns - 1)
        pairs = _cells(np.array([*itertools.combinations(range(columns), 2)]), setting.sizes)
        chain = tuple(itertools.pairwise(range(columns)))  # as good a tree as any other, before anything is known
        return Expected(columns, chain, pairs, (columns - 1) / 2, _noise(setting, share))
    candidates = sets_within(setting.workload)
    cells = np.concatenate([_cells(each, setting.sizes) for each in candidates])
    if method == "mwem":
        noise = _noise(setting, (1 - FOR_CHOICES) / columns)
        return Expected(0, _typical(setting, candidates, columns, rows, noise), cells, columns, noise)
    planned = expected_rounds(setting, float(rows))
    noise = _noise(setting, (1 - FOR_CHOICES) / planned)
    taught = _TAUGHT + _TAUGHT_MORE * math.log(max(1.0, rows / noise))
    part = min(_MOST_TAUGHT, max(_LEAST_TAUGHT, taught))
    count = max(1, math.ceil(part * (planned - float(1 - FOR_CHOICES) * columns)))
    return Expected(columns, _typical(setting, candidates, count, rows, noise, _LATE), cells, count, noise)


def _cells(sets: Places, sizes: Sequence[int]) -> Floats:
    """Count the cells of each set: whole numbers, exact below 2^53, which no model comes near."""
    return np.asarray(np.prod(np.array(sizes, float)[sets], axis=1))


def _noise(setting: Setting, share: Fraction) -> float:
    """Give the mean size of the noise that this share of the price buys, in rows."""
    amount = setting.currency.total * (1 - FOR_ROWS) * share
    noise = setting.currency.noise(amount, CellCounts(setting.reading, (0,)).sensitivity)
    return mean_size(noise, setting.unit_value)


def _typical(
    setting: Setting, candidates: Sequence[Places], count: int, rows: int, noise: float, halved: float = 0.0
) -> tuple[Set, ...]:
    """Take so many sets of two columns or more, those first whose noise is most like that of sets that are chosen,
    while the model is not too large for the share of the price that is spent by then. In this part of the rounds,
    the last ones, noise is halved.
    """
    sizes = setting.sizes
    several = [each for each in candidates if each.shape[1] > 1] or [np.array([[0]])]
    most_tried = count + _TRIED  # so many are tried in all before one is measured again
    early = _by_size(several, sizes, _NOISE * rows / noise, most_tried)
    late = _by_size(several, sizes, 2 * _NOISE * rows / noise, most_tried)
    found: list[Set] = []
    for index in range(count):
        most = sum(sizes) + setting.most_cells * (index + 1) / count
        new = [each for each in (late if index >= (1 - halved) * count else early) if each not in found][:_TRIED]
        fitting = (each for each in new if predicted_cells((*found, each), sizes) <= most)
        found.append(next(fitting, found[0] if found else (0,)))
    return tuple(found)


def _by_size(sets: Sequence[Places], sizes: Sequence[int], wanted: float, count: int) -> list[Set]:
    """List the sets that are nearest to so many cells, in powers of two; equal ones are spread over all columns."""
    goal = math.log2(max(1.0, wanted))
    cells, which = np.unique(np.concatenate([_cells(each, sizes) for each in sets]), return_inverse=True)
    distances = np.array([round(abs(math.log2(each) - goal)) for each in cells.tolist()])[which]
    order = np.lexsort((np.arange(len(which)) * _GOLDEN % 1, distances))[:count]
    starts = np.cumsum([0, *map(len, sets)])
    groups = np.searchsorted(starts, order, side="right") - 1
    return [
        tuple(sets[group][index - starts[group]].tolist())
        for group, index in zip(groups.tolist(), order.tolist(), strict=True)
    ]


_ROUNDS, _TRIES = 12, 2
"""CPU time differs little from try to try, and a forecast is meant to be right within a factor of two."""
_SMALL, _LARGE = (3,) * 16, (100,) * 4
_COUNTED = 1 << 17


@dataclass(frozen=True)
class Speed:
    """These are CPU seconds, of what a forecast is made of."""

    per_table: float
    """To bring one small table of a model nearer to what was measured, once."""
    per_cell: float
    """For each cell of a large one beside that."""
    per_row: float
    """To count one row in one marginal."""


@lru_cache(maxsize=1)
def speed() -> Speed:
    """Measure this machine: the best of several tries each, because other programs run on it too."""
    table = _seconds(lambda: _fit(_SMALL)) / (_ROUNDS * (len(_SMALL) - 1))
    cells = sum(one * other for one, other in pairwise(_LARGE))
    whole = _seconds(lambda: _fit(_LARGE)) / _ROUNDS
    index = np.arange(_COUNTED, dtype=np.intp) * 7919 % 1000
    row = _seconds(lambda: np.bincount(index + 1, index, 1001)) / _COUNTED
    return Speed(table, max(whole - table * (len(_LARGE) - 1), 0.1 * whole) / cells, row)


def _fit(sizes: tuple[int, ...]) -> None:
    """Run a fit of pairs of neighbouring columns for so many rounds, whatever comes of it."""
    observed = [
        Observation((place, place + 1), 100 + np.arange(one * other, dtype=float).reshape(one, other) % 7, 1.0)
        for place, (one, other) in enumerate(pairwise(sizes))
    ]
    fitted(observed, sizes, 100.0 * sizes[0] * sizes[1], tolerance=0.0, most_rounds=_ROUNDS)


def _seconds(work: Callable[[], object]) -> float:
    return min(_once(work) for _ in range(_TRIES))


def _once(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return max(time.process_time() - start, 1e-6)


_FIT_ROUNDS, _FIT_POWER, _LAST_FIT, _MOST_FIT_ROUNDS = 6.5, 0.4, 4.0, 1000.0
_MEASURED, _CANDIDATE, _STEP, _START = 0.6, 4.0, 80.0, 3000.0
"""A measured set in a round of a fit, a candidate in a round of choices, a step with its lines in a ledger, and all
that is done once take as long as so many small tables of a chain."""
_READ = 2.0
"""A column of a row is read in as long as so many rows are counted."""
_ENGINE, _PER_VALUE = 5 << 20, 20
"""Bytes that an engine takes to read, whatever it reads, and for each value of each row."""
_SUMS = 10
"""For each cell of the model so many are kept of its sums, from which candidates are read."""


@codec.value("synthesis-forecast")
@dataclass(frozen=True)
class SynthesisForecast:
    """A forecast says what a synthesis is expected to take: time and memory are meant to be right within a factor of
    two, and nothing in it is of the table.
    """

    seconds: float
    """Of the processor."""
    memory: int
    """In bytes, beside what is in use before."""
    rounds: int
    """How many marginals are expected to be measured."""
    cells: int
    """How many cells the model is expected to have at the end."""
    rows: int
    """For how many rows."""
    price: str
    accepted: bool
    """Whether the account, and the analyst's share of it, would accept this release now."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        object.__setattr__(self, "seconds", codec.real(self.seconds, "seconds"))

    def __str__(self) -> str:
        size = f"{_times(self.memory / 2**20, 0.5)} to {_times(self.memory / 2**20, 2)} MiB"
        taken = f"{_times(self.seconds, 0.5)} to {_times(self.seconds, 2)} seconds of the processor and {size}"
        head = f"{taken} at {self.price}, for {self.rows:,} rows"
        return f"{head}: about {self.rounds} marginals measured, a model of about {self.cells:,} cells"

    __repr__ = __str__


def _times(value: float, factor: float) -> str:
    """Write an end of the range in two digits."""
    return f"{float(f'{value * factor:.2g}'):,g}"


def forecast(setting: Setting, method: str, rows: int, price: str, *, accepted: bool) -> SynthesisForecast:
    """Say what a synthesis of so many rows takes on this machine."""
    course = expected(setting, method, rows)
    sets = course.sets(len(setting.sizes))
    cells = predicted_cells(sets, setting.sizes)
    seconds = predicted_seconds(setting, course, rows, speed())
    return SynthesisForecast(seconds, predicted_memory(setting, course, rows), len(sets), cells, rows, price, accepted)


def predicted_seconds(setting: Setting, course: Expected, rows: int, own: Speed) -> float:
    """Add up the time of reading, of steps, of choices and of fits."""
    choices = len(course.chosen) if course.choices else 0
    steps = 1 + course.before + len(course.chosen) + choices
    scored = _scored(setting, course)
    counted = len(course.candidates) * rows * (1 if scored <= KEPT_CELLS else course.choices)
    return (
        own.per_row * (_READ * rows * len(setting.sizes) + counted)
        + own.per_table * (_START + _STEP * steps + _CANDIDATE * course.choices * len(course.candidates))
        + own.per_cell * course.choices * scored
        + _fitting_seconds(setting, course, rows, own)
    )


def _fitting_seconds(setting: Setting, course: Expected, rows: int, own: Speed) -> float:
    """Add up the fits: one after every set that is chosen, and the last one, which is closer."""
    rounds = min(_MOST_FIT_ROUNDS, _FIT_ROUNDS * max(1.0, rows / course.noise) ** _FIT_POWER)
    sizes, sets = setting.sizes, course.sets(len(setting.sizes))
    each = [
        _round_seconds(sets[: course.before + count], sizes, own)
        for count in range(0 if course.before else 1, len(course.chosen) + 1)
    ]
    early = sum(each) if course.chosen else 0.0
    return rounds * early + min(_MOST_FIT_ROUNDS, _LAST_FIT * rounds) * each[-1]


def _round_seconds(sets: list[tuple[int, ...]], sizes: tuple[int, ...], own: Speed) -> float:
    """Say how long one round of a fit takes: by its tables, and by the cells of the model and of what was measured."""
    cells = predicted_cells(sets, sizes) + sum(math.prod(sizes[place] for place in each) for each in sets)
    return own.per_table * _MEASURED * len(set(sets)) + own.per_cell / 2 * cells


def predicted_memory(setting: Setting, course: Expected, rows: int) -> int:
    """Add up what is held at once, in bytes: values, marginals that are kept, what the model says, and fitting."""
    scored = _scored(setting, course)
    kept = min(KEPT_CELLS, scored) + min(KEPT_CELLS // 2, scored)
    sets = course.sets(len(setting.sizes))
    cells, fitting = predicted_cells(sets, setting.sizes), predicted_bytes(sets, setting.sizes)
    return _ENGINE + _PER_VALUE * rows * len(setting.sizes) + 8 * (kept + scored + _SUMS * cells) + fitting


def _scored(setting: Setting, course: Expected) -> int:
    """Count the cells of all candidates that a model may have."""
    most = sum(setting.sizes) + setting.most_cells
    return int(course.candidates[course.candidates <= most].sum())


_FOLLOWING = 2
"""In how many of four rows a column follows the one before it, so that there is something to learn."""


def invented(setting: Setting, rows: int) -> CodedRows:
    """Draw rows from the declared cells: low places more often than high ones, and each column partly decided by the
    one before it.
    """
    codes: list[NDArray[np.int64]] = []
    for size in setting.sizes:
        declared = max(1, size - 1)  # without the cell of what is missing
        own = np.minimum(bits.all_below(declared, rows), bits.all_below(declared, rows))
        if codes:
            before = codes[-1] * declared // max(1, int(codes[-1].max(initial=0)) + 1)
            own = np.where(bits.all_below(4, rows) < _FOLLOWING, before, own)
        codes.append(own)
    small = tuple(each.astype(np.min_scalar_type(size - 1)) for each, size in zip(codes, setting.sizes, strict=True))
    return CodedRows(setting.sizes, small, np.full(rows, setting.unit_value.denominator, np.int64))
