"""Room 8: machine arithmetic that rounds, wraps around, overflows or yields NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sfumato.audit.museum.exhibits import DemonstrationNoise as Noise, Exhibit, Outputs, Room
from sfumato.privacy import Guarantee

_GRID = 1024
_LARGE = 2**14
_NINES = (9,) * 1000
_DEVIATION = 3.74
"""A deviation at which (1, 10⁻⁵)-DP holds: δ(1) = 9.6·10⁻⁶."""


def _value_off_grid(noise: Noise, value: float, runs: int) -> Outputs:
    return np.asarray(value + noise.laplace(_GRID, runs) / _GRID)


def _value_on_grid(noise: Noise, value: float, runs: int) -> Outputs:
    return np.asarray((math.floor(value * _GRID) + noise.laplace(_GRID, runs)) / _GRID)


def _sum_in_half_precision(values: Sequence[int]) -> int:
    total = np.float16(0)
    for value in values:
        total = np.float16(total + np.float16(value))
    return int(total)


def _sum_in_eight_bits(values: Sequence[int]) -> int:
    return int(np.array(values, np.int8).sum(dtype=np.int8))


def _sum_with_nan(noise: Noise, values: Sequence[float], runs: int) -> Outputs:
    """Return whether the answer is NaN, and the answer."""
    noisy = np.sum(np.array(values)) + noise.laplace(1, runs)
    return np.stack([np.isnan(noisy), np.rint(np.nan_to_num(noisy))], axis=1).astype(np.int64)


def _sum_without_nan(noise: Noise, values: Sequence[float], runs: int) -> Outputs:
    return _sum_with_nan(noise, np.nan_to_num(np.array(values)).tolist(), runs)


_FAILURE = -1


def _exponential_with_overflow(noise: Noise, scores: Sequence[int], runs: int) -> Outputs:
    """Select by weights e^(s/2) divided by their sum, without guarding against overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        weights = np.exp(np.array(scores) / 2)
        probabilities = weights / weights.sum()
    if np.isnan(probabilities).any():
        return np.full(runs, _FAILURE)
    return _exponential_without_overflow(noise, scores, runs)


def _exponential_without_overflow(noise: Noise, scores: Sequence[int], runs: int) -> Outputs:
    weights = np.exp((np.array(scores) - max(scores)) / 2)
    return np.asarray(np.searchsorted(np.cumsum(weights / weights.sum()), noise.generator.random(runs)))


def _round_by_exact_count(noise: Noise, count: int, runs: int) -> Outputs:
    """Round to the number of digits of the exact count, less one."""
    step = 10 ** max(0, len(str(count)) - 2)
    return np.asarray(np.rint((count + noise.laplace(1, runs)) / step).astype(np.int64) * step)


def _round_to_tens(noise: Noise, count: int, runs: int) -> Outputs:
    return np.asarray(np.rint((count + noise.laplace(1, runs)) / 10).astype(np.int64) * 10)


ROOM = Room(
    "Arithmetic",
    "A proof is about real numbers. A machine has 64 bits.",
    (
        Exhibit(
            "Laplace noise in floating point",
            wrong="The noise is computed in floating point as the textbook writes it. Which numbers can come out "
            "depends on the count: near 0 floats lie densely, near 1 they do not.",
            mended="Count and noise are whole numbers of a fixed grid.",
            seen="The last bit that the answer uses.",
            source="Mironov 2012, On significance of the least significant bits for differential privacy; diffprivlib "
            "issues 19 and 94",
            inputs=(0.0, 1.0),
            worlds="a count of 0, and of 1",
            broken=lambda noise, count, runs: count + noise.floating_laplace(1, runs),
            correct=_value_on_grid,
        ),
        Exhibit(
            "Gaussian noise in floating point",
            wrong="The same with Gaussian noise, which leaves the same holes.",
            mended="The noisy count is rounded to a fixed grid whose points do not depend on it.",
            seen="The last bit that the answer uses.",
            source="Jin, McMurtry, Rubinstein & Ohrimenko 2022, Are we there yet? Timing and floating-point attacks on "
            "differential privacy systems",
            inputs=(0.0, 1.0),
            worlds="a count of 0, and of 1",
            claim=Guarantee(1, "1e-5"),
            broken=lambda noise, count, runs: count + noise.floating_gaussian(_DEVIATION, runs),
            correct=lambda noise, count, runs: (count * _GRID + noise.gaussian(_DEVIATION * _GRID, runs)) / _GRID,
        ),
        Exhibit(
            "A value between the points of the grid",
            wrong="The noise is drawn on a grid, exactly, and added to a value that does not lie on it. The remainder "
            "between two grid points is the value's own.",
            mended="The value is rounded to the grid first, and the sensitivity counts the grid's steps.",
            seen="The last bit that the answer uses.",
            source="Haney, Desfontaines, Hartman, Shrestha & Hay 2022, Precision-based attacks and interval refining: "
            "how to break, then fix, differential privacy on finite computers",
            inputs=(0.0, 0.3),
            worlds="a sum of 0, and of 0.3",
            broken=_value_off_grid,
            correct=_value_on_grid,
        ),
        Exhibit(
            "A sum that rounds at every step",
            wrong="A thousand values of 9 are added in floating point. After one value of 16384 each step is rounded "
            "from 9 up to 16, so that one person moves the sum by far more than 16384. (Half precision shows it with "
            "a thousand rows; double precision needs more.)",
            mended="Values are whole numbers, and so is their sum.",
            seen="The sum moves further than the noise was made for.",
            source="Casacuberta, Shoemate, Vadhan & Wagaman 2022, Widespread underestimation of sensitivity in "
            "differentially private libraries and how to fix it; opendp issue 2923",
            inputs=(_NINES, (_LARGE, *_NINES)),
            worlds="a thousand values of 9, and one of 16384 before them",
            broken=lambda noise, values, runs: _sum_in_half_precision(values) + noise.laplace(_LARGE, runs),
            correct=lambda noise, values, runs: sum(values) + noise.laplace(_LARGE, runs),
        ),
        Exhibit(
            "A sum that wraps around",
            wrong="A column of small integers is added in eight bits. After 127 comes −128, so one person moves the "
            "sum by 255.",
            mended="Sums have 64 bits, and are proved to fit before they are computed.",
            seen="A sum on the other side of zero.",
            source="Casacuberta, Shoemate, Vadhan & Wagaman 2022 (integers that wrap around); seen with columns of "
            "type int8",
            inputs=((1,) * 127, (1,) * 128),
            worlds="a hundred and twenty-seven ones, and one more",
            broken=lambda noise, values, runs: _sum_in_eight_bits(values) + noise.laplace(1, runs),
            correct=lambda noise, values, runs: sum(values) + noise.laplace(1, runs),
        ),
        Exhibit(
            "A cell that is not a number",
            wrong="One cell holds NaN. Clamping leaves it as it is, adding spreads it, and noise does not hide it: "
            "the answer is NaN where this person is in the table.",
            mended="A cell that is not a number counts as missing.",
            seen="An answer that is not a number.",
            source="seen in several libraries: a row with NaN makes the answer NaN",
            inputs=((1.0, 1.0), (1.0, 1.0, math.nan)),
            worlds="two people, and a third whose cell is NaN",
            broken=_sum_with_nan,
            correct=_sum_without_nan,
        ),
        Exhibit(
            "Weights that overflow",
            wrong="The exponential mechanism computes e^(εs/2) and divides by the sum. At a score of 1420 the weight "
            "is infinite, and infinity divided by infinity is NaN: it fails, and the failure tells the score.",
            mended="The largest score is subtracted from all of them first, which changes no probability.",
            seen="Whether it fails.",
            source="diffprivlib issue 107 (a quantile whose weights underflowed to NaN)",
            inputs=((1419, 0), (1420, 0)),
            worlds="a largest score of 1419, and of 1420",
            broken=_exponential_with_overflow,
            correct=_exponential_without_overflow,
        ),
        Exhibit(
            "Rounded as the exact count suggests",
            wrong="The noisy count is rounded to as many digits as the exact count deserves: 99 to ones, 100 to tens. "
            "Whether the answer ends in 0 tells which.",
            mended="The step of rounding is fixed.",
            seen="Answers that do not end in 0.",
            source="Haney, Desfontaines, Hartman, Shrestha & Hay 2022, Precision-based attacks and interval refining "
            "(a grid that depends on the data)",
            inputs=(99, 100),
            worlds="a count of 99, and of 100",
            broken=_round_by_exact_count,
            correct=_round_to_tens,
        ),
    ),
)
