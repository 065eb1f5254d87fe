"""An encoding randomises one answer. A report *supports* cells: the true one with probability p, each other with q.

Whatever the encoding, the supports of a cell among N reports are a sum of independent events, and the count of those
who hold the cell is estimated from it without bias. All encodings are ε-DP for replace neighbours (``mechanisms``).

A report is what a respondent sends: randomised answers, and the form they belong to. Nothing else is in it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.mechanisms.response import PRIME, OptimalLocalHashing, OptimizedUnaryEncoding, RandomizedResponse, Response
from sfumato.privacy import codec

Part = int | str | tuple[int, ...]
"""One randomised answer as it is written: a cell; bits as hexadecimal digits; or a, b and a hashed cell."""
_MOST_BITS = 256
"""Of a report of one bit for each cell: beyond them a hashed report is much smaller and errs as little."""
_MOST_HASHED = 10
"""Beyond this ε the cells to hash to would be tens of thousands, and plain response errs less."""


class Encoding(Enum):
    """An encoding is one of the ways in which an answer may be randomised."""

    RESPONSE = "response"
    UNARY = "unary"
    HASHING = "hashing"

    @classmethod
    def of(cls, value: Encoding | str) -> Encoding:
        try:
            return cls(value)
        except ValueError:
            raise InvalidParameter("encodings", value, "one of " + ", ".join(each.value for each in cls)) from None

    def suits(self, epsilon: Fraction, cells: int) -> bool:
        """Tell whether reports stay small, and the mechanism exists."""
        if self is Encoding.HASHING:
            return epsilon <= _MOST_HASHED
        return self is Encoding.RESPONSE or cells <= _MOST_BITS

    def mechanism(self, epsilon: Fraction, cells: int) -> Response:
        """Give the mechanism that randomises an answer among so many cells."""
        return _MECHANISMS[self](epsilon, cells)


_MECHANISMS: dict[Encoding, Any] = {
    Encoding.RESPONSE: RandomizedResponse,
    Encoding.UNARY: OptimizedUnaryEncoding,
    Encoding.HASHING: OptimalLocalHashing,
}


@dataclass(frozen=True)
class Chances:
    """These are the chances that a report supports a cell: p = q + gap for the true one, q for each other."""

    q: float
    gap: float

    @property
    def p(self) -> float:
        return self.q + self.gap

    @property
    def held(self) -> float:
        """Give the variance that one report adds to the estimate of the cell it holds."""
        return self.p * (1 - self.p) / self.gap**2

    @property
    def other(self) -> float:
        """Give the variance that one report adds to the estimate of a cell it does not hold."""
        return self.q * (1 - self.q) / self.gap**2

    def mean_variance(self, cells: int) -> float:
        """Give the mean over the cells of what one report adds to their variances: it holds exactly one of them."""
        return (self.held + (cells - 1) * self.other) / cells


def chances(mechanism: Response) -> Chances:
    """Compute p and q of a mechanism; the gap apart, so that a small one keeps its digits.

    A hash (a·x + b mod P) mod g, with a ≠ 0, maps two answers to distinct numbers below P, each pair equally often: the
    chance that their cells are equal is Σ n(n − 1)/(P(P − 1)) over the numbers n that fall into each cell.
    """
    growth, rise = math.exp(mechanism.epsilon), math.expm1(mechanism.epsilon)
    if isinstance(mechanism, OptimizedUnaryEncoding):
        return Chances(1 / (growth + 1), rise / (2 * (growth + 1)))
    if isinstance(mechanism, OptimalLocalHashing):
        meet = _meeting(mechanism.cells)
        cells = growth + mechanism.cells - 1
        return Chances((meet * growth + (1 - meet)) / cells, (1 - meet) * rise / cells)
    return Chances(1 / (growth + mechanism.choices - 1), rise / (growth + mechanism.choices - 1))


def _meeting(cells: int) -> float:
    few, more = divmod(PRIME, cells)
    pairs = more * (few + 1) * few + (cells - more) * few * (few - 1)
    return float(Fraction(pairs, PRIME * (PRIME - 1)))


def randomised(mechanism: Response, cell: int) -> Part:
    """Draw a report of one answer."""
    if isinstance(mechanism, OptimizedUnaryEncoding):
        return np.packbits(mechanism.choose([cell])[0]).tobytes().hex()
    if isinstance(mechanism, OptimalLocalHashing):
        return tuple(int(each) for each in mechanism.choose([cell])[0])
    return int(mechanism.choose(cell))


def fits(mechanism: Response, part: object) -> bool:
    """Tell whether this mechanism could have drawn this part of a report."""
    if isinstance(mechanism, OptimizedUnaryEncoding):
        size = -(-mechanism.choices // 8)
        if type(part) is not str or re.fullmatch(f"[0-9a-f]{{{2 * size}}}", part) is None:
            return False
        return int(part, 16) % (1 << (8 * size - mechanism.choices)) == 0
    if isinstance(mechanism, OptimalLocalHashing):
        limits = ((1, PRIME), (0, PRIME), (0, mechanism.cells))
        return (
            type(part) is tuple
            and len(part) == len(limits)
            and all(type(each) is int and low <= each < high for each, (low, high) in zip(part, limits, strict=True))
        )
    return type(part) is int and 0 <= part < mechanism.choices


def supports(mechanism: Response, parts: list[Any]) -> NDArray[np.float64]:
    """Tell for each part and each cell whether the one supports the other: a matrix of 0 and 1."""
    every = np.arange(mechanism.choices)
    if isinstance(mechanism, OptimizedUnaryEncoding):
        packed = np.frombuffer(bytes.fromhex("".join(parts)), np.uint8).reshape(len(parts), -1)
        return np.unpackbits(packed, axis=1, count=mechanism.choices).astype(np.float64)
    table = np.array(parts, np.int64)
    if isinstance(mechanism, OptimalLocalHashing):
        a, b, cell = table.reshape(-1, 3, 1).transpose(1, 0, 2)
        return (mechanism.hashed(a, b, every) == cell).astype(np.float64)
    return (table[:, None] == every).astype(np.float64)


_LONGEST = 1 << 16
_KIND = re.compile(r'"kind"\s*:\s*"survey-report/1"')


@codec.value("survey-report")
@dataclass(frozen=True)
class Report:
    """A report holds one randomised answer for each question that was asked."""

    form: str
    """The form's own number: sixteen hexadecimal digits of its SHA-256."""
    answers: tuple[Part, ...]
    question: int | None = None
    """The number of the only question that was asked; None where all were."""

    def __post_init__(self) -> None:
        if type(self.form) is not str or re.fullmatch("[0-9a-f]{16}", self.form) is None:
            raise InvalidParameter("form", self.form, "sixteen hexadecimal digits")
        if type(self.answers) is not tuple or not all(type(each) in (int, str, tuple) for each in self.answers):
            raise InvalidParameter("answers", self.answers, "a list of randomised answers")
        if self.question is not None and (type(self.question) is not int or self.question < 0):
            raise InvalidParameter("question", self.question, "the number of a question")

    def to_json(self) -> str:
        """Write the report as a short JSON text."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Read a report from anybody: what is no report is refused before a value of another kind is made of it."""
        plain = type(text) is str and len(text) <= _LONGEST and text.count("{") == 1
        if not plain or _KIND.search(text) is None:
            raise InvalidParameter("report", text, "the JSON text of a report")
        return codec.loads_as(cls, text, longest=_LONGEST)
