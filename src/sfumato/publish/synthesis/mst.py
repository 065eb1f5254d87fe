"""MST measures every column, chooses the pairs of columns that depend most on each other, as a tree, and measures them.

McKenna, Miklau & Sheldon (2021), "Winning the NIST contest": a third of the price is for the columns. A tenth is for
the choices, where the paper takes a third, and what is left for the pairs: pairs depend on each other or do not, and
noise in what is measured of them costs more than a choice of the second best.
"""

from __future__ import annotations

import itertools

from sfumato.publish.marginals.blocks import Set
from sfumato.publish.synthesis.budget import FOR_CHOICES, rounded
from sfumato.publish.synthesis.course import Course, Steps
from sfumato.publish.synthesis.independent import independent


def mst(course: Course) -> Steps:
    """Measure columns, choose a tree of pairs one by one, and measure these."""
    columns = len(course.setting.attributes)
    if columns == 1:
        return (yield from independent(course))
    yield from course.count_rows()
    pairs = course.setting.pairs
    course.planned = columns + max(columns - 1, len(pairs))
    bought = course.funds.left
    for place in range(columns):
        yield from course.measure((place,), rounded(bought / 3 / columns), "first", fit=False)
    course.fit()
    edges = list(pairs)  # of which one column decides the other: no tree without them
    while joining := _joining(edges, columns):
        amount = rounded(bought * FOR_CHOICES / (columns - 1))
        edges.append((yield from course.choose(dict.fromkeys(joining, 1), amount, _no_penalty)))
    for index, each in enumerate(edges):
        amount = rounded(course.funds.left / (len(edges) - index)) if index < len(edges) - 1 else course.funds.left
        yield from course.measure(each, amount, "first" if each in pairs else "chosen")


def _no_penalty(cells: int) -> float:  # noqa: ARG001
    return 0.0


def _joining(edges: list[Set], columns: int) -> list[Set]:
    """List the pairs of columns that no path of edges connects."""
    part = list(range(columns))
    for one, other in edges:
        old, new = part[one], part[other]
        part = [new if each == old else each for each in part]
    return [pair for pair in itertools.combinations(range(columns), 2) if part[pair[0]] != part[pair[1]]]
