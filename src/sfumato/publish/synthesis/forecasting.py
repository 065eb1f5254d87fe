"""A forecast of a synthesis adds up what its steps cost, from public numbers and from how fast this machine is.

*What it supposes.* The rows are as many as the policy says or the caller names, and ordinary: columns depend on each
other somewhat. The sets that are chosen are as large as ``expecting`` says. A fit takes about 6.5·(rows / noise)^0.4
rounds, and four times as many at the end: laws like this one were found on public tables (ADULT, NIST's excerpts and
PUMS), not on the one that is asked about. Time is of the processor: waiting for a disk is not in it. Nothing is read,
and no number in it is private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.plan.readings.cell_rows import KEPT_CELLS
from sfumato.privacy import codec
from sfumato.publish.graph.trees import predicted_bytes, predicted_cells
from sfumato.publish.synthesis.course import Setting
from sfumato.publish.synthesis.expecting import Expected, expected
from sfumato.publish.synthesis.machine import Speed, speed

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
