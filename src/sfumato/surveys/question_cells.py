"""A question of a survey has finitely many cells, as a coded column has: its answers, and one for no answer or another.

Which cell an answer is in never fails: a refusal that depended on the answer would tell of it. Whoever does not answer,
or answers what is not listed, is in the last cell, and is randomised like everybody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.policy.domains import Type, as_value, implied
from sfumato.publish.marginals.attributes import Attribute, Cell, Listed, Other, Range
from sfumato.safe_text import printable

MOST_QUESTIONS = 100
MOST_CELLS = 4096
"""Of one question: estimating takes time for each report and each cell."""


def questions_of(given: object) -> tuple[Attribute, ...]:
    """Read the questions of a form: for each name a list of answers, ``{"bins": edges}``, or an Attribute."""
    if not isinstance(given, Mapping) or not 1 <= len(given) <= MOST_QUESTIONS:
        raise InvalidParameter("questions", given, f"a mapping from 1 to {MOST_QUESTIONS} names to lists of answers")
    return tuple(_question(name, answers) for name, answers in given.items())


def check_questions(questions: object) -> tuple[Attribute, ...]:
    """Refuse attributes that are no questions of one form."""
    if not isinstance(questions, (tuple, list)) or not 1 <= len(questions) <= MOST_QUESTIONS:
        raise InvalidParameter("questions", questions, f"1 to {MOST_QUESTIONS} attributes")
    for each in questions:
        if type(each) is not Attribute or not 2 <= each.size <= MOST_CELLS:
            raise InvalidParameter("questions", each, f"attributes of 2 to {MOST_CELLS:,} cells")
    if len({each.name for each in questions}) != len(questions):
        raise InvalidParameter("questions", [each.name for each in questions], "a list in which no name stands twice")
    return tuple(questions)


def _question(name: object, answers: Any) -> Attribute:
    if type(name) is not str or not name:
        raise InvalidParameter("questions", name, "a mapping from names, which are texts")
    if type(answers) is Attribute:
        if answers.name != name:
            raise InvalidParameter(name, answers.name, "an Attribute of the same name")
        return answers.flat
    if isinstance(answers, Mapping) and set(answers) == {"bins"}:
        return _binned(name, answers["bins"])
    kind = implied(answers)
    if kind is None:
        allowed = 'a list of answers of one type, {"bins": [0, 18, 65]}, or an Attribute'
        raise InvalidParameter(name, answers, allowed)
    if len(set(answers)) != len(answers):
        raise InvalidParameter(name, answers, "a list of answers in which none stands twice")
    return Attribute(name, kind, (*map(Listed, answers), Other()))


def _binned(name: str, edges: Any) -> Attribute:
    """Make ranges between edges: each holds its lower edge, and the last both."""
    kind = implied(edges)
    rule = "at least two edges that rise: numbers, dates or times"
    if kind is None or kind in (Type.TEXT, Type.BOOLEAN) or len(edges) < 2:
        raise InvalidParameter(name, edges, rule)
    pairs: list[Any] = list(pairwise(as_value(kind, each, name) for each in edges))
    if not all(low < high for low, high in pairs):
        raise InvalidParameter(name, edges, rule)
    ranges = [Range(low, high, closed=place == len(pairs) - 1) for place, (low, high) in enumerate(pairs)]
    return Attribute(name, kind, (*ranges, Other()))


def cell_of(question: Attribute, answer: object) -> int:
    """Find the number of the cell that an answer is in, the last one for all that is in no other."""
    last = question.size - 1
    try:
        value = as_value(question.type, answer, question.name)
    except InvalidParameter:
        return last
    found = (place for place, cell in enumerate(question.cells[:-1]) if _holds(cell, value))
    return next(found, last)


def _holds(cell: Cell, value: Any) -> bool:
    if isinstance(cell, Listed):
        return bool(cell.value == value)
    if isinstance(cell, Range):
        return bool(cell.low <= value and (value < cell.high or (cell.closed and value == cell.high)))
    return False


def label(cell: Cell) -> str:
    """Write a cell for people."""
    if isinstance(cell, Listed):
        return printable(str(cell.value))
    if isinstance(cell, Range):
        return f"{cell.low} to {'' if cell.closed else 'below '}{cell.high}"
    return "no answer or another"
