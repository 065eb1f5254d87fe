"""Encodings (frequency oracles) that randomise one answer, and the report that a respondent sends.

A report *supports* cells: the true one with probability p, each other with probability q. For every encoding, the
support count of a cell among N reports is a sum of independent Bernoulli variables, from which the number of holders is
estimated without bias. All encodings are ε-DP for replace neighbours (``mechanisms``).

A report holds the randomised answers and the id of the form they belong to, nothing else.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.mechanisms.response import PRIME, OptimalLocalHashing, OptimizedUnaryEncoding, RandomizedResponse, Response
from sfumato.privacy import codec
from sfumato.quick_dataclass import dataclass

RandomisedAnswer = int | str | tuple[int, ...]
"""One randomised answer as it is written: a cell; bits as hexadecimal digits; or a, b and a hashed cell."""
_MAX_UNARY_CELLS = 256
"""Cells of a unary report: beyond this a hashed report is much smaller and as accurate."""
_MAX_HASHING_EPSILON = 10
"""Beyond this ε the hash range would be tens of thousands of cells, and randomised response is more accurate."""


class Encoding(Enum):
    """The frequency oracle that randomises an answer."""

    RESPONSE = "response"
    UNARY = "unary"
    HASHING = "hashing"

    @classmethod
    def parse(cls, value: Encoding | str) -> Encoding:
        try:
            return cls(value)
        except ValueError:
            rule = "a list of names among " + ", ".join(encoding.value for encoding in cls)
            fix = "make the form with collect(…), which chooses the encodings"
            raise InvalidParameter("encodings", value, rule, fix=fix) from None

    def is_suitable(self, epsilon: Fraction, cells: int) -> bool:
        """Return whether the mechanism exists for these parameters and its reports stay small."""
        if self is Encoding.HASHING:
            return epsilon <= _MAX_HASHING_EPSILON
        return self is Encoding.RESPONSE or cells <= _MAX_UNARY_CELLS

    def mechanism(self, epsilon: Fraction, cells: int) -> Response:
        """Return the mechanism that randomises an answer among ``cells`` cells."""
        return _MECHANISMS[self](epsilon, cells)


_MECHANISMS: dict[Encoding, Any] = {
    Encoding.RESPONSE: RandomizedResponse,
    Encoding.UNARY: OptimizedUnaryEncoding,
    Encoding.HASHING: OptimalLocalHashing,
}


@dataclass(frozen=True)
class SupportProbabilities:
    """Support probabilities of a report: p = q + gap for the true cell, q for each other."""

    q: float
    gap: float

    @property
    def p(self) -> float:
        return self.q + self.gap

    @property
    def true_cell_variance(self) -> float:
        """The variance that one report adds to the estimate of its true cell."""
        return self.p * (1 - self.p) / self.gap**2

    @property
    def other_cell_variance(self) -> float:
        """The variance that one report adds to the estimate of any other cell."""
        return self.q * (1 - self.q) / self.gap**2

    def mean_variance(self, cells: int) -> float:
        """Return the variance that one report adds, averaged over the cells: exactly one of them is the true cell."""
        return (self.true_cell_variance + (cells - 1) * self.other_cell_variance) / cells


def support_probabilities(mechanism: Response) -> SupportProbabilities:
    """Compute p and q of a mechanism; the gap is computed separately, so that a small one keeps its precision.

    A hash (a·x + b mod P) mod g, with a ≠ 0, maps two answers to distinct numbers below P, each pair equally often: the
    collision probability is Σ n(n − 1)/(P(P − 1)), n being how many numbers fall into each cell.
    """
    exp_epsilon, exp_epsilon_minus_one = math.exp(mechanism.epsilon), math.expm1(mechanism.epsilon)
    if isinstance(mechanism, OptimizedUnaryEncoding):
        return SupportProbabilities(1 / (exp_epsilon + 1), exp_epsilon_minus_one / (2 * (exp_epsilon + 1)))
    if isinstance(mechanism, OptimalLocalHashing):
        collision = _collision_probability(mechanism.cells)
        total_weight = exp_epsilon + mechanism.cells - 1
        return SupportProbabilities(
            (collision * exp_epsilon + (1 - collision)) / total_weight,
            (1 - collision) * exp_epsilon_minus_one / total_weight,
        )
    return SupportProbabilities(
        1 / (exp_epsilon + mechanism.choices - 1), exp_epsilon_minus_one / (exp_epsilon + mechanism.choices - 1)
    )


def _collision_probability(cells: int) -> float:
    quotient, remainder = divmod(PRIME, cells)
    pairs = remainder * (quotient + 1) * quotient + (cells - remainder) * quotient * (quotient - 1)
    return float(Fraction(pairs, PRIME * (PRIME - 1)))


def randomise(mechanism: Response, cell: int) -> RandomisedAnswer:
    """Draw the randomised answer for a true cell."""
    if isinstance(mechanism, OptimizedUnaryEncoding):
        return np.packbits(mechanism.choose([cell])[0]).tobytes().hex()
    if isinstance(mechanism, OptimalLocalHashing):
        return tuple(int(number) for number in mechanism.choose([cell])[0])
    return int(mechanism.choose(cell))


def is_possible_answer(mechanism: Response, answer: object) -> bool:
    """Return whether this mechanism could have drawn this randomised answer."""
    if isinstance(mechanism, OptimizedUnaryEncoding):
        byte_count = -(-mechanism.choices // 8)
        if type(answer) is not str or re.fullmatch(f"[0-9a-f]{{{2 * byte_count}}}", answer) is None:
            return False
        return int(answer, 16) % (1 << (8 * byte_count - mechanism.choices)) == 0
    if isinstance(mechanism, OptimalLocalHashing):
        limits = ((1, PRIME), (0, PRIME), (0, mechanism.cells))
        return (
            type(answer) is tuple
            and len(answer) == len(limits)
            and all(
                type(number) is int and low <= number < high for number, (low, high) in zip(answer, limits, strict=True)
            )
        )
    return type(answer) is int and 0 <= answer < mechanism.choices


def support_matrix(mechanism: Response, answers: list[Any]) -> NDArray[np.float64]:
    """Return a 0/1 matrix: whether each randomised answer supports each cell."""
    cells = np.arange(mechanism.choices)
    if isinstance(mechanism, OptimizedUnaryEncoding):
        packed = np.frombuffer(bytes.fromhex("".join(answers)), np.uint8).reshape(len(answers), -1)
        return np.unpackbits(packed, axis=1, count=mechanism.choices).astype(np.float64)
    table = np.array(answers, np.int64)
    if isinstance(mechanism, OptimalLocalHashing):
        a, b, cell = table.reshape(-1, 3, 1).transpose(1, 0, 2)
        return (mechanism.hashed(a, b, cells) == cell).astype(np.float64)
    return (table[:, None] == cells).astype(np.float64)


_MAX_LENGTH = 1 << 16
_REPORT_FIX = "make the report with form.answer(…), or with sfumato survey answer"
_KIND = re.compile(r'"kind"\s*:\s*"survey-report/1"')


@codec.serialisable("survey-report")
@dataclass(frozen=True)
class Report:
    """A respondent's report: one randomised answer for each question that was asked."""

    form: str
    """The form's id: the first sixteen hexadecimal digits of its SHA-256."""
    answers: tuple[RandomisedAnswer, ...]
    question: int | None = None
    """The index of the one question that was sampled; None where all were asked."""

    def __post_init__(self) -> None:
        if type(self.form) is not str or re.fullmatch("[0-9a-f]{16}", self.form) is None:
            raise InvalidParameter("form", self.form, "an id of sixteen hexadecimal digits", fix=_REPORT_FIX)
        if type(self.answers) is not tuple or not all(type(answer) in (int, str, tuple) for answer in self.answers):
            raise InvalidParameter("answers", self.answers, "a tuple of numbers, strings and tuples", fix=_REPORT_FIX)
        if self.question is not None and (type(self.question) is not int or self.question < 0):
            rule = "the number of a question, counted from 0"
            raise InvalidParameter("question", self.question, rule, fix=_REPORT_FIX)

    def to_json(self) -> str:
        """Serialise the report as a short JSON text."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Parse an untrusted report; anything else is refused before a value of another kind is built from it."""
        has_report_shape = type(text) is str and len(text) <= _MAX_LENGTH and text.count("{") == 1
        if not has_report_shape or _KIND.search(text) is None:
            raise InvalidParameter("report", text, "the JSON text of an answered survey form", fix=_REPORT_FIX)
        return codec.loads_as(cls, text, longest=_MAX_LENGTH)
