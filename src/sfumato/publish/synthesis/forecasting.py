"""A forecast of a synthesis is made by running it on invented rows, on the machine that it will run on.

Time is measured, because it depends on the machine; memory is added up from sizes, because they are known: the rows,
the marginals that are kept once they were counted, what the model says of all candidates, and fitting.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from sfumato.plan.cell_rows import KEPT_CELLS
from sfumato.privacy import codec
from sfumato.publish.graph.trees import predicted_bytes
from sfumato.publish.synthesis.course import Course, Setting

_PER_STEP = 0.01
"""Seconds that a ledger takes to write a step and its answer down, on a disk of its own."""
_ENGINE = 1 << 24
"""Bytes that an engine takes to read, whatever it reads."""


@codec.value("synthesis-forecast")
@dataclass(frozen=True)
class SynthesisForecast:
    """A forecast says what a synthesis takes, from a run on invented rows: time and memory are right within a factor of
    about two, and nothing in it is of the table.
    """

    seconds: float
    memory: int
    """In bytes, beside what is in use before."""
    rounds: int
    """How many marginals the run on invented rows measured."""
    cells: int
    """How many cells its model had at the end."""
    rows: int
    """For how many rows."""
    price: str
    accepted: bool
    """Whether the account, and the analyst's share of it, would accept this release now."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        object.__setattr__(self, "seconds", codec.real(self.seconds, "seconds"))

    def __str__(self) -> str:
        size = f"{self.memory / 2**20:,.0f} MiB"
        head = f"about {self.seconds:.2g} seconds and {size} at {self.price}, for {self.rows:,} rows"
        return f"{head}: {self.rounds} marginals measured, a model of {self.cells:,} cells"

    __repr__ = __str__


def forecast(
    setting: Setting, rows: int, run: Callable[[], Course], price: str, *, accepted: bool
) -> SynthesisForecast:
    """Run a synthesis on invented rows, and say what the same takes on the table."""
    start = time.process_time()
    course = run()
    steps = 2 * len(course.released)
    seconds = time.process_time() - start + _PER_STEP * steps
    cells = course.model.tree.cells(setting.sizes)
    needed = predicted_memory(setting, course, rows)
    return SynthesisForecast(seconds, needed, len(course.rounds), cells, rows, price, accepted)


def predicted_memory(setting: Setting, course: Course, rows: int) -> int:
    """Add up what is held at once, in bytes."""
    sizes = setting.sizes
    most = sum(sizes) + setting.most_cells
    products = [math.prod(sizes[place] for place in each) for each in setting.candidates]
    scored = sum(each for each in products if each <= most)
    coded = rows * (8 + sum(1 if size <= 256 else 2 if size <= 65536 else 4 for size in sizes))
    arriving = rows * 16 * len(sizes)  # the engine's columns, and their places, until they are coded
    kept = 8 * min(KEPT_CELLS, scored)
    return (
        _ENGINE
        + coded
        + arriving
        + kept
        + 2 * 8 * scored
        + predicted_bytes([each.places for each in course.marginals], sizes)
    )
