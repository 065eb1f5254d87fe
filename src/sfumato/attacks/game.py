"""A one-player game: guess one person's secret from counts that you choose, and see what that proves about ε.

Every round has new secrets, decided by fair coins. A player asks how many of some people have the secret, as often as
the curator answers, and then guesses one person's. If the answers are ε-DP under replacement of a value, a guess is
correct with probability at most e^ε/(1 + e^ε), whatever was asked and whatever happened in other rounds. So the number
of correct guesses proves a lower bound on ε, except with a stated probability
(``attacks.ceilings.epsilon_lower_bound``).

The number of rounds is fixed before a match starts, and unplayed rounds count as wrong: stopping at a lucky moment
would prove too much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

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
from sfumato.attacks.ceilings import epsilon_lower_bound, format_percent_up, guess_ceiling
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import bits
from sfumato.privacy import Guarantee
from sfumato.privacy.numbers import Number, exact_integer, format_exact
from sfumato.quick_dataclass import dataclass

NAMES = ("Ann", "Bob", "Cem", "Dee", "Eve", "Fay", "Gus", "Hal", "Ida", "Jon", "Kim", "Lea", "Max", "Nia", "Oli", "Pia")
WARDS = ("north", "south")
EVERYBODY, BUT = "all", "but"
_NAME_SOMEBODY = f"for example, write 'count {NAMES[0]} {NAMES[1]}' or 'count {WARDS[0]}'"
QUESTIONS = 4
"""The questions per round that a private curator's budget pays for."""
EPSILON = 1
MAX_ROUNDS = 1000
_ERROR_PROBABILITY = "0.05"
"""The error probability of a score."""


@contextmanager
def _as_context(answerer: Answerer) -> Iterator[Answerer]:
    yield answerer


CURATORS: Mapping[str, Callable[[Values], AbstractContextManager[Answerer]]] = {
    "exact": lambda secret: _as_context(ExactAnswers(secret)),
    "rounded": lambda secret: _as_context(RoundedAnswers(secret)),
    "suppressed": lambda secret: _as_context(SuppressedAnswers(secret)),
    "private": lambda secret: private_answers(secret, EPSILON, QUESTIONS, fresh=True),
}
"""Opens the answerer of one round, by the name of the opponent."""
WORDS: Mapping[str, str] = {
    "exact": "exact",
    "rounded": "rounded to multiples of 5",
    "suppressed": "exact, and withheld below 5",
    "private": f"private: ε = {EPSILON} for each round, which pays for {QUESTIONS} questions",
}
"""A description of each opponent's answers."""


def ward_of(person_index: int) -> str:
    """Return the ward of a person; people alternate between wards."""
    return WARDS[person_index % len(WARDS)]


def parse_group(words: Sequence[str]) -> NDArray[np.bool_]:
    """Parse who is asked about: names, wards or "all", and after "but" those who are left out.

    >>> parse_group(["north", "but", "Ann"]).sum()
    np.int64(7)
    """
    tokens = [word.strip(",") for word in words if word.strip(",")]
    but_index = next((index for index, word in enumerate(tokens) if word.lower() == BUT), len(tokens))
    included = _members(tokens[:but_index] or ([EVERYBODY] if but_index < len(tokens) else []))
    return included & ~_members(tokens[but_index + 1 :], may_be_empty=True)


def _members(tokens: Sequence[str], *, may_be_empty: bool = False) -> NDArray[np.bool_]:
    if not tokens and not may_be_empty:
        raise InvalidParameter(
            "who",
            ValueWords("no name"),
            f"one or more names, a ward ({' or '.join(WARDS)}) or {EVERYBODY}",
            fix=_NAME_SOMEBODY,
        )
    members = np.zeros(len(NAMES), bool)
    for token in tokens:
        matches = [token.lower() in (EVERYBODY, name.lower(), ward_of(index)) for index, name in enumerate(NAMES)]
        if not any(matches):
            rule = f"one or more names, a ward ({' or '.join(WARDS)}) or {EVERYBODY}"
            raise InvalidParameter("who", token, rule, fix=_NAME_SOMEBODY)
        members |= np.array(matches)
    return members


@dataclass(frozen=True)
class GameRound:
    """One round: secrets decided by coins, a target person, and an answerer."""

    secret: Values
    target: int
    answerer: Answerer

    def ask(self, words: Sequence[str]) -> float | None:
        """Return how many of these people have the secret; None if the answer is withheld."""
        answer = float(self.answerer.sums(parse_group(words)[None, :])[0])
        return None if np.isnan(answer) else answer

    def is_correct(self, guess: bool) -> bool:
        """Return whether a guess is correct."""
        return bool(self.secret[self.target]) == guess


@contextmanager
def start_round(opponent: str) -> Iterator[GameRound]:
    """Start a round against one of the curators."""
    if opponent not in CURATORS:
        raise InvalidParameter("against", opponent, "one of " + ", ".join(CURATORS))
    secret = invented_bits(len(NAMES))
    with CURATORS[opponent](secret) as answerer:
        yield GameRound(secret, bits.random_below(len(NAMES)), answerer)


@dataclass(frozen=True)
class GuessingMatch:
    """A match of a fixed number of rounds against one curator, of which some were played."""

    opponent: str
    rounds: int
    played: int = 0
    right: int = 0

    def __post_init__(self) -> None:
        if self.opponent not in CURATORS:
            raise InvalidParameter("opponent", self.opponent, "one of " + ", ".join(CURATORS))
        if exact_integer(self.rounds, "rounds", at_least=1) > MAX_ROUNDS:
            raise InvalidParameter("rounds", self.rounds, f"at most {MAX_ROUNDS:,}")

    def after_round(self, right: bool) -> GuessingMatch:
        """Return the match after one more round."""
        return replace(self, played=self.played + 1, right=self.right + right)

    @property
    def epsilon(self) -> float:
        """Return the lower bound on the curator's ε from the guesses of all rounds, at 95 % confidence."""
        return epsilon_lower_bound(self.right, self.rounds, _ERROR_PROBABILITY)

    def score(self, epsilon: Number = EPSILON) -> str:
        """Return the outcome of the match in words."""
        unplayed = self.rounds - self.played
        unplayed_note = f" ({unplayed} not played, which counts as wrong)" if unplayed else ""
        head = f"You were right in {self.right} of {self.rounds} rounds{unplayed_note}."
        proved = f"That proves, with 95 % confidence, that these answers leak ε ≥ {_format_epsilon_down(self.epsilon)}."
        if not self.epsilon:
            proved = "Blind guessing would often do as well, so this proves nothing about these answers."
        return f"{head} {proved} {self._limit_words(epsilon)}"

    def _limit_words(self, epsilon: Number) -> str:
        """Return what could have been reached at most."""
        if self.opponent == "private":
            ceiling = guess_ceiling(Guarantee(epsilon))
            bound = f"at most {format_percent_up(ceiling)} of guesses are right in the long run"
            return f"The curator promised ε ≤ {format_exact(Guarantee(epsilon).epsilon)}: {bound}, whoever plays."
        perfect_epsilon = epsilon_lower_bound(self.rounds, self.rounds, _ERROR_PROBABILITY)
        if not perfect_epsilon:
            return "So few rounds prove nothing, even if all guesses are right: play more rounds."
        proof = f"{self.rounds} right of {self.rounds} would prove ε ≥ {_format_epsilon_down(perfect_epsilon)}"
        return f"{proof}; these answers guarantee no limit."


def _format_epsilon_down(epsilon: float) -> str:
    """Format a proven ε rounded down, so that no more is claimed than is proved."""
    return f"{math.floor(100 * epsilon) / 100:.2f}"
