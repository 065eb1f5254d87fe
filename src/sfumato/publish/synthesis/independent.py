"""The independent method measures every column by itself: the model has no two columns depend on each other."""

from __future__ import annotations

from sfumato.publish.synthesis.budget import rounded
from sfumato.publish.synthesis.course import Course, Steps


def independent(course: Course) -> Steps:
    """Measure all columns, each for the same amount; the last takes what is left."""
    yield from course.count_rows()
    columns = len(course.setting.attributes)
    course.planned = columns
    for place in range(columns):
        left = course.funds.left
        amount = rounded(left / (columns - place)) if place < columns - 1 else left
        yield from course.measure((place,), amount, "first", fit=False)
