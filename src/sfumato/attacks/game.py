"""This is a game for one player: guess one person's secret from counts that you choose, and learn what that proves.

Every round has new secrets, decided by coins. A player asks how many of some people have the secret, as often as the
curator answers, and guesses it of one of them. Under answers that are ε-DP for a value replaced, a guess of a coin is
right with probability at most e^ε/(1 + e^ε), whatever was asked and whatever happened in other rounds: so many right
guesses of all rounds prove a least ε, except with a stated probability (``attacks.ceilings.least_proven``).

How many rounds a match has is fixed before it begins, and a round that is not played counts as wrong. Whoever could
stop at a lucky moment would prove too much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.answerers import (
    Answerer,
    ExactAnswers,
    RoundedAnswers,
    SuppressedAnswers,
    Values,
    invented_bits,
    private_answers,
)
from sfumato.attacks.ceilings import guess_ceiling, least_proven, percent_up
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import bits
from sfumato.privacy import Guarantee
from sfumato.privacy.numbers import Number, text, whole

NAMES = ("Ann", "Bob", "Cem", "Dee", "Eve", "Fay", "Gus", "Hal", "Ida", "Jon", "Kim", "Lea", "Max", "Nia", "Oli", "Pia")
WARDS = ("north", "south")
EVERYBODY, BUT = "all", "but"
QUESTIONS = 4
"""Questions that the budget of a private curator pays for in one round."""
EPSILON = 1
MOST_ROUNDS = 1000
_ALARM = "0.05"
"""A score is wrong with at most this probability."""


@contextmanager
def _told(answerer: Answerer) -> Iterator[Answerer]:
    yield answerer


CURATORS: Mapping[str, Callable[[Values], AbstractContextManager[Answerer]]] = {
    "exact": lambda secret: _told(ExactAnswers(secret)),
    "rounded": lambda secret: _told(RoundedAnswers(secret)),
    "suppressed": lambda secret: _told(SuppressedAnswers(secret)),
    "private": lambda secret: private_answers(secret, EPSILON, QUESTIONS, fresh=True),
}
"""Who can be played against, and who answers about the secrets of one round."""
WORDS: Mapping[str, str] = {
    "exact": "exact",
    "rounded": "rounded to multiples of 5",
    "suppressed": "exact, and withheld below 5",
    "private": f"private: ε = {EPSILON} for each round, which pays for {QUESTIONS} questions",
}
"""What the answers of each are like."""


def ward(place: int) -> str:
    """Say in which ward somebody is: they take turns."""
    return WARDS[place % len(WARDS)]


def group(words: Sequence[str]) -> NDArray[np.bool_]:
    """Read who is asked about: names, wards or all, and after "but" those who are left out.

    >>> group(["north", "but", "Ann"]).sum()
    np.int64(7)
    """
    said = [each.strip(",") for each in words if each.strip(",")]
    split = next((place for place, each in enumerate(said) if each.lower() == BUT), len(said))
    inside = _members(said[:split] or ([EVERYBODY] if split < len(said) else []))
    return inside & ~_members(said[split + 1 :], empty=True)


def _members(said: Sequence[str], *, empty: bool = False) -> NDArray[np.bool_]:
    if not said and not empty:
        raise InvalidParameter("who", "nobody", f"names, a ward ({' or '.join(WARDS)}) or {EVERYBODY}")
    found = np.zeros(len(NAMES), bool)
    for each in said:
        own = [each.lower() in (EVERYBODY, name.lower(), ward(place)) for place, name in enumerate(NAMES)]
        if not any(own):
            raise InvalidParameter("who", each, f"names, a ward ({' or '.join(WARDS)}) or {EVERYBODY}")
        found |= np.array(own)
    return found


@dataclass(frozen=True)
class GameRound:
    """A round has secrets that coins decided, a person who is guessed at, and somebody who answers."""

    secret: Values
    target: int
    answerer: Answerer

    def ask(self, words: Sequence[str]) -> float | None:
        """Answer how many of these people have the secret; None where that is withheld."""
        told = float(self.answerer.sums(group(words)[None, :])[0])
        return None if np.isnan(told) else told

    def right(self, guess: bool) -> bool:
        """Tell whether a guess is right."""
        return bool(self.secret[self.target]) == guess


@contextmanager
def begun(against: str) -> Iterator[GameRound]:
    """Begin a round against one of the curators."""
    if against not in CURATORS:
        raise InvalidParameter("against", against, "one of " + ", ".join(CURATORS))
    secret = invented_bits(len(NAMES))
    with CURATORS[against](secret) as answerer:
        yield GameRound(secret, bits.below(len(NAMES)), answerer)


@dataclass(frozen=True)
class GuessingMatch:
    """A match is so many rounds against one curator, of which some were played."""

    against: str
    rounds: int
    played: int = 0
    right: int = 0

    def __post_init__(self) -> None:
        if self.against not in CURATORS:
            raise InvalidParameter("against", self.against, "one of " + ", ".join(CURATORS))
        if whole(self.rounds, "rounds", at_least=1) > MOST_ROUNDS:
            raise InvalidParameter("rounds", self.rounds, f"at most {MOST_ROUNDS}")

    def after(self, right: bool) -> GuessingMatch:
        """Give the match after one more round."""
        return replace(self, played=self.played + 1, right=self.right + right)

    @property
    def epsilon(self) -> float:
        """Bound from below the ε of the curator's answers, from the guesses of all rounds, with 95 % confidence."""
        return least_proven(self.right, self.rounds, _ALARM)

    def score(self, epsilon: Number = EPSILON) -> str:
        """Say what the match has proved."""
        unplayed = self.rounds - self.played
        counted = f" ({unplayed} not played, which counts as wrong)" if unplayed else ""
        head = f"You were right in {self.right} of {self.rounds} rounds{counted}."
        proved = f"That proves, with 95 % confidence, that these answers leak ε ≥ {_down(self.epsilon)}."
        if not self.epsilon:
            proved = "Blind guesses would often do as well: that proves nothing about these answers."
        return f"{head} {proved} {self._beside(epsilon)}"

    def _beside(self, epsilon: Number) -> str:
        """Say what could have been reached."""
        if self.against == "private":
            most = guess_ceiling(Guarantee(epsilon))
            bound = f"at most {percent_up(most)} of guesses are right in the long run"
            return f"The curator promised ε ≤ {text(Guarantee(epsilon).epsilon)}: {bound}, whoever plays."
        whole_match = least_proven(self.rounds, self.rounds, _ALARM)
        if not whole_match:
            return "So few rounds prove nothing, even if all are right: play more."
        return f"{self.rounds} right of {self.rounds} would prove ε ≥ {_down(whole_match)}; there is no limit to it."


def _down(epsilon: float) -> str:
    """Write an ε that is proved, rounded down: no more is said than is proved."""
    return f"{math.floor(100 * epsilon) / 100:.2f}"
