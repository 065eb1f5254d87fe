"""AIM measures every column first, and then, round by round, the set of columns that the model has most wrong.

McKenna, Mullins, Sheldon & Miklau (2022), "AIM: an adaptive and iterative mechanism for differentially private
synthetic data". Noise starts as for 4d rounds, and for 2d where counts are small beside it; it is halved when a round
taught nothing, that is when the model moved on the measured set by no more than noise would. The last round takes what
is left.
"""

from __future__ import annotations

from collections.abc import Generator

from sfumato.publish.synthesis.budget import Amounts, rounded
from sfumato.publish.synthesis.course import Course, Setting, Steps
from sfumato.publish.synthesis.rounds import penalty_of
from sfumato.publish.synthesis.steps import Outcome, Step

_FEW_ROWS = 19.0
"""Below so many rows per cell of a column, times √ρ, fewer rounds are better."""


def aim(course: Course) -> Steps:
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


def _round(course: Course, amounts: Amounts, last: bool) -> Generator[Step, Outcome, bool]:
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
