"""The independent method measures every column by itself: the model has no two columns depend on each other, but for
those of which the policy says that one decides the other.
"""

from __future__ import annotations

from sfumato.publish.synthesis.budget import rounded
from sfumato.publish.synthesis.course import Course, Steps


def independent(course: Course) -> Steps:
    """Measure all columns, each for the same amount; the last takes what is left."""
    yield from course.count_rows()
    sets = [*((place,) for place in range(len(course.setting.attributes))), *course.setting.pairs]
    course.planned = len(sets)
    for index, each in enumerate(sets):
        left = course.funds.left
        amount = rounded(left / (len(sets) - index)) if index < len(sets) - 1 else left
        yield from course.measure(each, amount, "first", fit=False)
