"""MWEM measures in each of as many rounds as there are columns the marginal of the workload that the model has most
wrong.

Hardt, Ligett & McSherry (2012), with the graphical model in place of a weight for every cell (McKenna, Sheldon & Miklau
2019). No column is measured beforehand, every round costs the same, and the last takes what is left.
"""

from __future__ import annotations

from sfumato.publish.synthesis.budget import Amounts, rounded
from sfumato.publish.synthesis.candidates import whole_weights
from sfumato.publish.synthesis.course import Course, Steps
from sfumato.publish.synthesis.rounds import penalty_of


def mwem(course: Course) -> Steps:
    """Choose and measure, round by round."""
    yield from course.count_rows()
    wanted = whole_weights(course.setting.workload)
    course.planned = rounds = len(course.setting.attributes)
    for index in range(rounds):
        left = course.funds.left
        amounts = Amounts.of_round(rounded(left / (rounds - index)) if index < rounds - 1 else left)
        among = course.affordable(wanted, (index + 1) / rounds)
        if not among:  # nothing of the workload fits yet: single columns always do
            among = {(place,): 1 for place in range(rounds)}
        chosen = yield from course.choose(among, amounts.chosen, penalty_of(course, amounts.measured))
        amount = amounts.measured if index < rounds - 1 else course.funds.left
        yield from course.measure(chosen, amount, "chosen")
