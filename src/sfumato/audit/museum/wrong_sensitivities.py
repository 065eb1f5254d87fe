"""Room 2: sensitivities below what one person can change."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sfumato.audit.museum.exhibits import DemonstrationNoise as Noise, Exhibit, Mechanism, Outputs, Room, row_minimum
from sfumato.privacy import Guarantee, Neighbours

_ROW_LIMIT = 3
_JOIN_MATCHES = 3
_UPPER_BOUND = 10


def _clip_total(noise: Noise, values: Sequence[int], runs: int) -> Outputs:
    return np.asarray(min(sum(values), 20) + noise.laplace(1, runs))


def _clip_values(noise: Noise, values: Sequence[int], runs: int) -> Outputs:
    return np.asarray(sum(min(value, 1) for value in values) + noise.laplace(1, runs))


def _mean_by_exact_count(noise: Noise, values: Sequence[int], runs: int) -> Outputs:
    return np.asarray((sum(values) + noise.laplace(1, runs)) / len(values))


def _sum_and_count(scale: float) -> Mechanism:
    def run(noise: Noise, values: Sequence[int], runs: int) -> Outputs:
        return np.array([sum(values), len(values)]) + noise.laplace(scale, runs, 2)

    return run


def _smaller_noise_of_sum_and_count(scale: float) -> Mechanism:
    return lambda noise, values, runs: row_minimum(
        _sum_and_count(scale)(noise, values, runs) - [sum(_FOUR_PEOPLE), len(_FOUR_PEOPLE)]
    )


_FOUR_PEOPLE = (1, 1, 0, 0)


def _bound_from_data(noise: Noise, values: Sequence[int], runs: int) -> Outputs:
    return np.asarray(sum(values) + noise.laplace(max(values), runs))


def _declared_bound(noise: Noise, values: Sequence[int], runs: int) -> Outputs:
    return np.asarray(sum(min(value, _UPPER_BOUND) for value in values) + noise.laplace(_UPPER_BOUND, runs))


def _local_sensitivity_of_median(values: Sequence[int]) -> int:
    """Return the most that the median of an odd number of values changes if one is replaced."""
    ordered, median_index = sorted(values), len(values) // 2
    return max(ordered[median_index + 1] - ordered[median_index], ordered[median_index] - ordered[median_index - 1])


def _median(values: Sequence[int]) -> int:
    return sorted(values)[len(values) // 2]


def _median_local_noise(noise: Noise, values: Sequence[int], runs: int) -> Outputs:
    return np.asarray(_median(values) + noise.laplace(_local_sensitivity_of_median(values), runs))


def _median_global_noise(noise: Noise, values: Sequence[int], runs: int) -> Outputs:
    return np.asarray(_median(values) + noise.laplace(_UPPER_BOUND, runs))


def _distance_to_instability(values: Sequence[int]) -> int:
    """Return how many values must be replaced before the median changes."""
    below, above = (
        sum(test)
        for test in ([value < _median(values) for value in values], [value > _median(values) for value in values])
    )
    return len(values) // 2 + 1 - max(below, above)


_REFUSED = -1


def _exact_stability_test(_: Noise, values: Sequence[int], runs: int) -> Outputs:
    return np.full(runs, _median(values) if _distance_to_instability(values) > 2 else _REFUSED)


def _noisy_stability_test(noise: Noise, values: Sequence[int], runs: int) -> Outputs:
    """Return the median if the noisy distance exceeds 1 + ln(1/δ)/ε: (ε, δ)-DP."""
    passes = _distance_to_instability(values) + noise.laplace(1, runs) > 1 + math.log(1 / 0.01)
    return np.where(passes, _median(values), _REFUSED)


def _fill_forward(noise: Noise, cells: Sequence[int | None], runs: int) -> Outputs:
    """Fill each missing cell with the previous one, then sum."""
    total, last = 0, 0
    for cell in cells:
        last = last if cell is None else cell
        total += last
    return np.asarray(total + noise.laplace(1, runs))


def _noisy_sum_missing_as_zero(noise: Noise, cells: Sequence[int | None], runs: int) -> Outputs:
    return np.asarray(sum(cell or 0 for cell in cells) + noise.laplace(1, runs))


def _relative_noise(noise: Noise, count: int, runs: int) -> Outputs:
    return np.asarray(count + noise.laplace(count / 10, runs))


def _keep_two_groups(noise: Noise, person: Sequence[int], runs: int) -> Outputs:
    """Keep two random groups of a person, redrawn for each run."""
    order = np.argsort(noise.generator.random((runs, len(person))), axis=1)
    return np.asarray(row_minimum(np.where(order < 2, np.array(person), 0) + noise.laplace(2, runs, len(person))))


_ROWS_WITHOUT_ID = 20

ROOM = Room(
    "What one person can change",
    "Noise is scaled to the most that one person can change. These claim less than one person can change.",
    (
        Exhibit(
            "One row too many",
            wrong="Three rows of a person may count. The code stops after the limit is passed, not when it is "
            "reached, and keeps a fourth.",
            mended="A row is kept only if fewer than three are kept already.",
            seen="A person who has more rows than the limit moves the count by four.",
            source="Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo & Gipson 2020, Differentially private SQL with "
            "bounded user contribution (what a limit has to bound)",
            inputs=(0, 5),
            worlds="no row of a person, and five",
            broken=lambda noise, rows, runs: min(rows, _ROW_LIMIT + 1) + noise.laplace(_ROW_LIMIT, runs),
            correct=lambda noise, rows, runs: min(rows, _ROW_LIMIT) + noise.laplace(_ROW_LIMIT, runs),
        ),
        Exhibit(
            "Replaced, but priced as removed",
            wrong="Values lie between −1 and 1. Removing a person moves the sum by 1, replacing one by another moves "
            "it by 2. The claim is about replacing, and the noise is for removing.",
            mended="The noise is scaled to 2.",
            seen="A person of −1 is replaced by one of 1.",
            source="opendp issue 2945 (a group's size as the bound of its change, where twice the size is right)",
            inputs=(-1, 1),
            worlds="a sum with a person of −1, and with one of 1 in their place",
            neighbours=Neighbours.REPLACE,
            broken=lambda noise, value, runs: value + noise.laplace(1, runs),
            correct=lambda noise, value, runs: value + noise.laplace(2, runs),
        ),
        Exhibit(
            "A bound that outlived its column",
            wrong="A column is clamped to at most 1. A later step doubles it under the same name, and the bound of "
            "the old column is used for the new one.",
            mended="Whatever redefines a column drops its bound; the new range is derived.",
            seen="One person moves the sum by 2.",
            source="opendp issue 2949 (truncation that is remembered after a column is redefined)",
            inputs=(0, 1),
            worlds="a sum without and with a person of value 1",
            broken=lambda noise, value, runs: 2 * min(value, 1) + noise.laplace(1, runs),
            correct=lambda noise, value, runs: 2 * min(value, 1) + noise.laplace(2, runs),
        ),
        Exhibit(
            "A join that multiplies",
            wrong="Each person has one row. A join with another table matches three of its rows, and the count after "
            "the join is still said to change by 1.",
            mended="The bound is computed after the join: the most matches of one row times the rows of a person.",
            seen="One person moves the count by 3.",
            source="Johnson, Near & Song 2018, Towards practical differential privacy for SQL queries (joins)",
            inputs=(0, 1),
            worlds="a joined count without and with one person's row",
            broken=lambda noise, rows, runs: _JOIN_MATCHES * rows + noise.laplace(1, runs),
            correct=lambda noise, rows, runs: _JOIN_MATCHES * rows + noise.laplace(_JOIN_MATCHES, runs),
        ),
        Exhibit(
            "A limit for each group, none over all",
            wrong="A person counts once in each group, and in at most two groups, says the claim. Only the first "
            "limit was enforced: this person is in four.",
            mended="Two of the person's groups are kept, picked at random.",
            seen="The smallest of the four groups.",
            source="Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo & Gipson 2020, Differentially private SQL with "
            "bounded user contribution",
            inputs=((0, 0, 0, 0), (1, 1, 1, 1)),
            worlds="four groups without and with a person who is in all of them",
            samples=15_000,
            broken=lambda noise, person, runs: row_minimum(np.array(person) + noise.laplace(2, runs, 4)),
            correct=_keep_two_groups,
        ),
        Exhibit(
            "Clipped after the sum",
            wrong="Values should be at most 1. The total is clipped instead of the values, so one person of 10 moves "
            "it by 10. Learners make this mistake when they clip the gradient of a batch.",
            mended="Every value is clipped, then they are added.",
            seen="One person with a large value.",
            source="Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar & Zhang 2016, Deep learning with differential "
            "privacy (each gradient is clipped)",
            inputs=((1, 1, 1), (1, 1, 1, 10)),
            worlds="three people of value 1, and one of 10 more",
            broken=_clip_total,
            correct=_clip_values,
        ),
        Exhibit(
            "A mean over the exact number of people",
            wrong="The sum is noisy, the number of people it is divided by is not. Every answer is a multiple of 1/n, "
            "and n tells whether a person is there.",
            mended="Sum and count are both noisy, at half the price each; the mean is computed from what was released.",
            seen="Answers in thirds, or in quarters.",
            source="Kifer & Machanavajjhala 2011, No free lunch in data privacy (when the number of people is public)",
            inputs=((1, 1, 0), (1, 1, 0, 0)),
            worlds="three people, and a fourth",
            broken=_mean_by_exact_count,
            correct=_sum_and_count(2),
        ),
        Exhibit(
            "Two aggregates at the price of one",
            wrong="AVG releases a sum and a count, and each gets the noise of the whole ε. Together they cost 2ε.",
            mended="The two share ε.",
            seen="The smaller of the two, which is large only if both are.",
            source="smartnoise issue 202 (AVG is charged once)",
            inputs=(_FOUR_PEOPLE, (*_FOUR_PEOPLE, 1)),
            worlds="four people, and a fifth of value 1",
            broken=_smaller_noise_of_sum_and_count(1),
            correct=_smaller_noise_of_sum_and_count(2),
        ),
        Exhibit(
            "Different values counted as people",
            wrong="COUNT(DISTINCT value) is given sensitivity 1, which is right for counting people. One person may "
            "have five values that nobody else has.",
            mended="One value per person is kept, and the distinct ones are counted.",
            seen="One person moves the count by 5.",
            source="Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo & Gipson 2020, Differentially private SQL with "
            "bounded user contribution",
            inputs=(0, 5),
            worlds="no new value, and five of one person",
            broken=lambda noise, values, runs: values + noise.laplace(1, runs),
            correct=lambda noise, values, runs: min(values, 1) + noise.laplace(1, runs),
        ),
        Exhibit(
            "Bounds taken from the rows",
            wrong="No bounds were given, so the largest value in the table is taken. The width of the noise then "
            "tells whether an unusual person is in it. A warning was printed.",
            mended="Bounds are declared, or bought; larger values are clamped. Without bounds there is no answer.",
            seen="Noise a thousand times as wide.",
            source="diffprivlib (Holohan, Braghin, Mac Aonghusa & Levacher 2019): PrivacyLeakWarning, bounds from the "
            "data",
            inputs=((1, 2, 3), (1, 2, 3, 3000)),
            worlds="three people of small values, and one of 3000",
            broken=_bound_from_data,
            correct=_declared_bound,
        ),
        Exhibit(
            "No bounds, no noise",
            wrong="A column has no declared bounds, so its sensitivity is computed as zero, and noise of that scale is "
            "zero too. The exact sum comes out, without a warning.",
            mended="Missing bounds are refused; here they are declared.",
            seen="The same answer in every run.",
            source="smartnoise issue 317 (no bounds meant no noise)",
            inputs=((1, 2, 3), (1, 2, 3, 4)),
            worlds="three people, and a fourth",
            broken=lambda noise, values, runs: sum(values) + noise.laplace(0, runs),
            correct=_declared_bound,
        ),
        Exhibit(
            "A median with the noise of this table",
            wrong="The noise is scaled to how far the median of this very table can move: the local sensitivity. That "
            "is 0 in one table and 10 in its neighbour, and the width of the noise tells which.",
            mended="The noise is scaled to how far any table's median can move. (Smooth sensitivity, or the "
            "exponential mechanism over ranks, does better.)",
            seen="Exact answers in one world, noise in the other.",
            source="Nissim, Raskhodnikova & Smith 2007, Smooth sensitivity and sampling in private data analysis",
            inputs=((0, 0, 0, 0, 10), (0, 0, 0, 10, 10)),
            worlds="five values, and one of them replaced",
            neighbours=Neighbours.REPLACE,
            broken=_median_local_noise,
            correct=_median_global_noise,
        ),
        Exhibit(
            "A test without noise before the answer",
            wrong="The exact median is shown where the table is stable: where two replaced values would not change "
            "it. Whether the table is stable is decided exactly, and the refusal gives away who is in it.",
            mended="The distance to an unstable table gets noise before it is compared, and δ pays for the rest.",
            seen="Whether there is a refusal.",
            source="Dwork & Lei 2009, Differential privacy and robust statistics (propose, test, release)",
            inputs=((4, 4, 4, 4, 4), (4, 4, 4, 4, 9)),
            worlds="five equal values, and one of them replaced",
            claim=Guarantee(1, "0.01"),
            neighbours=Neighbours.REPLACE,
            broken=_exact_stability_test,
            correct=_noisy_stability_test,
        ),
        Exhibit(
            "A function of one row that was not",
            wrong="Missing cells are filled with the cell before. One person who comes first decides the rows of all "
            "who did not answer, and the sum is claimed to change by 1.",
            mended="What fills a missing cell is a constant, so that each row depends on its own person alone.",
            seen="One person moves the sum by six.",
            source="opendp issue 2944 (a function said to work row by row did not)",
            inputs=((0, None, None, None, None, None), (1, None, None, None, None, None)),
            worlds="six rows, of which the first is replaced and five are missing",
            neighbours=Neighbours.REPLACE,
            broken=_fill_forward,
            correct=_noisy_sum_missing_as_zero,
        ),
        Exhibit(
            "An error in per cent",
            wrong="The noise is a tenth of the answer, so that every answer is good to about 10 %. A count of 0 gets "
            "no noise.",
            mended="The noise does not depend on the answer.",
            seen="Exactly 0, or not.",
            source="Xiao, Bender, Hay & Gehrke 2011, iReduct: differential privacy with reduced relative errors",
            inputs=(0, 1),
            worlds="a count of 0, and of 1",
            broken=_relative_noise,
            correct=lambda noise, count, runs: count + noise.laplace(1, runs),
        ),
        Exhibit(
            "Rows without a name",
            wrong="The limit of one row for each id groups rows by id. Each row whose id is missing counts as a person "
            "of its own: twenty rows of one person without an id all count.",
            mended="Rows without an id belong to nobody, and are left out.",
            seen="One person moves the count by 20.",
            source="PipelineDP: missing ids were counted as a thousand units",
            inputs=(0, _ROWS_WITHOUT_ID),
            worlds="a count without and with a person's rows, whose ids are missing",
            broken=lambda noise, rows, runs: rows + noise.laplace(1, runs),
            correct=lambda noise, rows, runs: 0 * rows + noise.laplace(1, runs),
        ),
    ),
)
