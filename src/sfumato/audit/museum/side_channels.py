"""Room 9: side channels beside the noisy number: errors, their messages, running time, prices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.audit.museum.exhibits import DemonstrationNoise as Noise, Exhibit, Outputs, Room
from sfumato.privacy import Neighbours

_NO_ERROR, _ERROR = 0, 1


def _with_message_code(code: int, noisy: Outputs) -> Outputs:
    """Put a code of the visible message beside each noisy answer."""
    return np.stack([np.full(len(noisy), code), noisy], axis=1)


def _sum_and_error_code(cells: Sequence[str]) -> tuple[int, int]:
    """Sum the numeric cells, each at most 1, and return a hash of the first cell that is not numeric."""
    invalid = [cell for cell in cells if not cell.isdigit()]
    return sum(min(1, int(cell)) for cell in cells if cell.isdigit()), sum(
        map(ord, invalid[0])
    ) if invalid else _NO_ERROR


def _cell_in_message(noise: Noise, cells: Sequence[str], runs: int) -> Outputs:
    total, printed = _sum_and_error_code(cells)
    return _with_message_code(printed, total + noise.laplace(1, runs))


def _cell_as_missing(noise: Noise, cells: Sequence[str], runs: int) -> Outputs:
    return _with_message_code(_NO_ERROR, _sum_and_error_code(cells)[0] + noise.laplace(1, runs))


def _sum_reciprocals(noise: Noise, values: Sequence[int], runs: int) -> Outputs:
    """Sum 1/x; a zero stops the query with an error."""
    if 0 in values:
        return _with_message_code(_ERROR, np.zeros(runs, np.int64))
    return _with_message_code(_NO_ERROR, sum(1 // value for value in values) + noise.laplace(1, runs))


def _sum_reciprocals_without_zeros(noise: Noise, values: Sequence[int], runs: int) -> Outputs:
    return _sum_reciprocals(noise, [value for value in values if value], runs)


def _timed_by_noise(noise: Noise, count: int, runs: int) -> Outputs:
    """Draw the noise by a loop whose steps an observer counts."""
    noise_values = noise.laplace(1, runs)
    return np.stack([np.abs(noise_values), count + noise_values], axis=1)


def _constant_time(noise: Noise, count: int, runs: int) -> Outputs:
    noise_values = noise.laplace(1, runs)
    return np.stack([np.full(runs, 64), count + noise_values], axis=1)


def _price_by_rows(noise: Noise, count: int, runs: int) -> Outputs:
    """Charge by the exact count, and show the price in thousandths."""
    return _with_message_code(1000 // max(1, count), count + noise.laplace(1, runs))


def _price_from_question(noise: Noise, count: int, runs: int) -> Outputs:
    return _with_message_code(1000, count + noise.laplace(1, runs))


ROOM = Room(
    "What leaks beside the number",
    "The answer is noisy. Its error message, price or running time was not.",
    (
        Exhibit(
            "An error that prints a cell",
            wrong="CAST(diagnosis AS INTEGER) fails on a cell that is not a number, and the message quotes it: 'cannot "
            "convert flu'.",
            mended="A cell that cannot be converted counts as missing. No error depends on a row.",
            seen="The message.",
            source="seen in several systems: an error that prints a cell (CAST(diagnosis AS INTEGER))",
            inputs=(("1", "1"), ("1", "1", "flu")),
            worlds="two people, and a third whose cell is a word",
            broken=_cell_in_message,
            correct=_cell_as_missing,
        ),
        Exhibit(
            "Division by zero when somebody is there",
            wrong="SUM(1/x) stops with an error where any x is 0. Whether it stops is an exact answer to 'is anybody "
            "at 0?'.",
            mended="A quotient by zero counts as missing.",
            seen="Whether there is an error.",
            source="Haeberlen, Pierce & Narayan 2011, Differential privacy under fire (state and errors as channels)",
            inputs=((1, 2), (1, 0)),
            worlds="two people, of whom one is replaced by somebody with x = 0",
            neighbours=Neighbours.REPLACE,
            broken=_sum_reciprocals,
            correct=_sum_reciprocals_without_zeros,
        ),
        Exhibit(
            "The time that noise takes",
            wrong="The noise is drawn by a loop whose length is the noise. Whoever measures the time knows the size of "
            "the noise, and subtracts it from the answer.",
            mended="The time does not depend on what is drawn.",
            seen="The answer minus the steps.",
            source="Jin, McMurtry, Rubinstein & Ohrimenko 2022, Are we there yet? Timing and floating-point attacks on "
            "differential privacy systems",
            inputs=(0, 1),
            worlds="a count of 0, and of 1",
            broken=_timed_by_noise,
            correct=_constant_time,
        ),
        Exhibit(
            "A price that depends on the rows",
            wrong="An answer about many people is cheaper, and the analyst sees what was charged. The exact count is "
            "in the price.",
            mended="The price follows from the question and the policy.",
            seen="The price.",
            source="Ligett, Neel, Roth, Waggoner & Wu 2017, Accuracy first (when a price that depends on the data may "
            "be told)",
            inputs=(1, 2),
            worlds="a count of 1, and of 2",
            broken=_price_by_rows,
            correct=_price_from_question,
        ),
    ),
)
