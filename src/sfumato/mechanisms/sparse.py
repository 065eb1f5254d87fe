"""The sparse vector technique: only "above" or "below" is released, and only "above" costs.

A session keeps a secret between its answers: it cannot be copied, and forgets the secret when it ends.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from fractions import Fraction
from typing import ClassVar, Self

from sfumato.errors import InvalidParameter, SessionClosed, ValueWords
from sfumato.mechanisms import laplace
from sfumato.privacy import Curve, Neighbours, codec
from sfumato.privacy.numbers import (
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    POSITIVE,
    Number,
    exact,
    exact_integer,
    format_exact,
    format_number,
)
from sfumato.quick_dataclass import dataclass


class SecretSession(ABC):
    """A session that can be neither copied nor stored; a ``with`` statement closes it."""

    @abstractmethod
    def close(self) -> None:
        """Forget the secret."""

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a session holds a secret and cannot be copied or stored")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_BATCH = 512  # noises drawn at once: the session is secret state anyway, and a vector is cheap


@codec.serialisable("above-threshold")
@dataclass(frozen=True)
class AboveThreshold:
    """The sparse vector technique, up to ``positives`` times (Lyu, Su & Li 2017, Alg. 7 and Thm 4).

    The threshold gets Laplace noise of scale Δ/ε₁, drawn once; each question 2cΔ/ε₂ (cΔ/ε₂ when monotone), drawn
    afresh; "above" means question + noise ≥ threshold + noise; after the c-th "above" the session ends. ε₁ : ε₂ = 1
    : (2c)^{2/3} (1 : c^{2/3} when monotone), the split with the least error. With ``values_epsilon`` each "above"
    also releases the value with Laplace noise cΔ/ε₃. Whole numbers throughout, so that the tie rule is exact.
    Charged whole, as ε (+ ε₃), when the session starts.
    """

    interactive: ClassVar[bool] = True

    epsilon: Fraction
    threshold: int
    positives: int
    sensitivity: int
    monotone: bool
    values_epsilon: Fraction | None
    neighbours: Neighbours

    def __init__(
        self,
        epsilon: Number,
        threshold: int,
        positives: int = 1,
        sensitivity: int = 1,
        monotone: bool = False,
        values_epsilon: Number | None = None,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    ) -> None:
        relation = Neighbours.of(neighbours)
        if not isinstance(monotone, bool) or (monotone and relation is Neighbours.REPLACE):
            allowed = "False under replace neighbours" if monotone is True else "True or False"
            raise InvalidParameter("monotone", monotone, allowed, fix="leave out monotone" if monotone is True else "")
        if type(threshold) is not int or abs(threshold) > 1 << 62:
            raise InvalidParameter("threshold", threshold, "a whole number of at most 2^62 in absolute value")
        exact_values_epsilon = None if values_epsilon is None else exact(values_epsilon, "values_epsilon", POSITIVE)
        for name, value in (
            ("epsilon", exact(epsilon, "epsilon", POSITIVE)),
            ("threshold", threshold),
            ("positives", exact_integer(positives, "positives", at_least=1)),
            ("sensitivity", exact_integer(sensitivity, "sensitivity", at_least=1)),
            ("monotone", monotone),
            ("values_epsilon", exact_values_epsilon),
            ("neighbours", relation),
        ):
            object.__setattr__(self, name, value)
        for scale in self.scales:
            if not Fraction(1, 1000) <= scale <= 10**12:
                raise InvalidParameter(
                    "epsilon",
                    epsilon,
                    "an ε that gives noise of a scale between 0.001 and 1e12",
                    fix="for example, set epsilon to 0.5",
                )

    @property
    def scales(self) -> tuple[Fraction, Fraction, Fraction]:
        """The noise scales of the threshold, of each question, and of the value of an "above"."""
        ratio = (self.positives if self.monotone else 2 * self.positives) ** (2 / 3)
        threshold_epsilon = (self.epsilon / Fraction(1 + ratio)).limit_denominator(10**25) or self.epsilon / 2
        factor = 1 if self.monotone else 2
        value_epsilon = self.values_epsilon or self.epsilon
        return (
            self.sensitivity / threshold_epsilon,
            factor * self.positives * self.sensitivity / (self.epsilon - threshold_epsilon),
            self.positives * self.sensitivity / value_epsilon,
        )

    def curve(self) -> Curve:
        """Charge the whole series as an (ε + ε₃)-DP release: the secret stays open between answers."""
        return Curve.pure(self.epsilon + (self.values_epsilon or 0), self.neighbours)

    def start(self) -> Session:
        """Open a session. The noise on the threshold is drawn now and lives in memory only."""
        return Session(self)

    def error(self, questions: int, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Bound, with this confidence, the error of every answer among so many questions (Dwork & Roth 2014, Thm 3.24's
        argument).

        But with probability β/2 each, the threshold's noise lies within w₁ and all k noises of questions within w₂, by
        the tails of the whole numbers that are drawn: what is at least w₁ + w₂ above the threshold is said to be above,
        and what is further below it than that to be below.
        """
        miss = max(1e-300, float(1 - exact(confidence, "confidence", CONFIDENCE))) / 2
        threshold_scale, question_scale, _ = self.scales
        question_miss = miss / exact_integer(questions, "questions", at_least=1)
        return float(laplace.half_width(threshold_scale, miss) + laplace.half_width(question_scale, question_miss))

    def value_error(self, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Bound, with this confidence, the error of the value of one "above", where values are paid for."""
        miss = max(1e-300, float(1 - exact(confidence, "confidence", CONFIDENCE)))
        return float(laplace.half_width(self.scales[2], miss))

    def words(self) -> str:
        total = format_number(float(self.epsilon + (self.values_epsilon or 0)), 6)
        return f"above a noisy threshold of {self.threshold}, at most {self.positives} times, ε {total} in total"

    def __repr__(self) -> str:
        return (
            f"AboveThreshold(epsilon={format_exact(self.epsilon)}, threshold={self.threshold}, "
            f"positives={self.positives}, "
            f"sensitivity={self.sensitivity}, monotone={self.monotone}, "
            f"values_epsilon={None if self.values_epsilon is None else format_exact(self.values_epsilon)}, "
            f"neighbours={self.neighbours.value!r})"
        )


@dataclass(frozen=True)
class SessionReceipt:
    """The mechanism of a session and how far it went: all of it is known to whoever asked."""

    mechanism: AboveThreshold
    asked: int
    positives: int
    open: bool


class Session(SecretSession):
    """An open series of questions against one secret threshold.

    It cannot be copied, stored or carried into another process: a second copy with the same secret would answer more
    than was paid for.
    """

    def __repr__(self) -> str:
        return f"<Session, {self.remaining} positive answers left>"

    def __init__(self, mechanism: AboveThreshold) -> None:
        threshold_scale, question_scale, value_scale = mechanism.scales
        self._mechanism = mechanism
        self._threshold: int | None = mechanism.threshold + laplace.draw_one(threshold_scale)
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._question_scale, self._value_scale = question_scale, value_scale
        self._noise: deque[int] = deque()
        self._asked = 0
        self._positives = 0
        self.value: int | None = None
        """The noisy value of the last "above", when the mechanism pays for values."""

    def ask(self, value: int) -> bool:
        """Return whether the question's exact value plus noise is at or above the noisy threshold."""
        exact_value = value if type(value) is int else _require_whole_value(value)
        if self._process != os.getpid():
            raise SessionClosed(self._positives)
        with self._lock:
            return self._answer_while_locked(exact_value)

    def _answer_while_locked(self, value: int) -> bool:
        if self._threshold is None or self._positives >= self._mechanism.positives:
            raise SessionClosed(self._positives)  # the second where an interruption came before it could forget
        if not self._noise:
            self._noise.extend(laplace.draw(self._question_scale, _BATCH).tolist())
        self._asked += 1
        if value + self._noise.popleft() < self._threshold:
            return False
        self._positives += 1
        if self._positives >= self._mechanism.positives:
            self._forget_noise()  # before anything else can fail: the last "above" ends the session whatever follows
        if self._mechanism.values_epsilon is not None:
            self.value = value + laplace.draw_one(self._value_scale)
        return True

    @property
    def remaining(self) -> int:
        """How many more times the session may say "above"."""
        return 0 if self._threshold is None else self._mechanism.positives - self._positives

    def close(self) -> None:
        """End the session; the noise is forgotten, the charge remains."""
        with self._lock:
            self._forget_noise()

    def _forget_noise(self) -> None:
        self._threshold = None
        self._noise.clear()

    @property
    def receipt(self) -> SessionReceipt:
        return SessionReceipt(self._mechanism, self._asked, self._positives, self._threshold is not None)


def _require_whole_value(value: object) -> int:
    from operator import index

    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidParameter("value", ValueWords(f"a {type(value).__name__}"), "a whole number") from None
