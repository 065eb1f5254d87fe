"""MWEM measures in each of as many rounds as there are columns what the model has most wrong of the workload.

Hardt, Ligett & McSherry (2012), with the graphical model in place of a weight for every cell (McKenna, Sheldon & Miklau
2019). No column is measured beforehand, every round costs the same, and the last takes what is left. Sets within one of
the workload are chosen from too, as its largest ones have more noise than rows where the price is small: without them
some columns were never measured at all.
"""

from __future__ import annotations

from sfumato.publish.synthesis.budget import Amounts, rounded
from sfumato.publish.synthesis.candidates import whole_weights, within
from sfumato.publish.synthesis.course import Course, Steps
from sfumato.publish.synthesis.rounds import penalty_of


def mwem(course: Course) -> Steps:
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
