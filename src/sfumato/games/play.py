"""Finite games in normal form, and how far a strategy profile is from equilibrium.

A profile is an ε-equilibrium when no player gains more than ε by changing its action alone (Nash 1950; with slack:
Radner 1980).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.privacy.codec import constructor_repr
from sfumato.privacy.numbers import PROBABILITY, exact

_MAX_ENTRIES = 1_000_000


class Game(Protocol):
    """A game that can evaluate every player's unilateral deviations."""

    def deviation_payoffs(self, profile: Any) -> tuple[Sequence[Any], Sequence[Sequence[Any]]]:
        """Return every player's utility under ``profile``, and the utility of each of their actions against it."""


@dataclass(frozen=True)
class Nash:
    """The distance of a strategy profile from equilibrium."""

    epsilon: Any
    """The largest gain from a unilateral deviation: exact for a MatrixGame."""
    utilities: tuple[Any, ...] = field(repr=False)
    gains: tuple[Any, ...] = field(repr=False)
    best_responses: tuple[int, ...] = field(repr=False)
    """Each player's best action against the others; the first one in a tie."""

    __repr__ = constructor_repr

    @property
    def player(self) -> int:
        """The index of the player who gains most."""
        return self.gains.index(self.epsilon)


def approximate_nash(game: Game, profile: Any) -> Nash:
    """Compute the least ε for which a profile is an ε-equilibrium, and the best responses.

    ``profile`` holds for each player an action, or a list of probabilities of the actions.

    >>> pennies = MatrixGame([[[1, 0], [0, 1]], [[0, 1], [1, 0]]])
    >>> approximate_nash(pennies, [0, 0]).epsilon, approximate_nash(pennies, [["1/2", "1/2"], ["1/2", "1/2"]]).epsilon
    (Fraction(1, 1), Fraction(0, 1))
    """
    if not hasattr(game, "deviation_payoffs"):
        raise InvalidParameter("game", game, "a MatrixGame or a Crowd")
    utilities, deviations = game.deviation_payoffs(profile)
    best = [max(range(len(row)), key=row.__getitem__) for row in deviations]
    gains = tuple(row[i] - utility for row, i, utility in zip(deviations, best, utilities, strict=True))
    return Nash(max(gains), tuple(utilities), gains, tuple(best))


@dataclass(frozen=True, eq=False)
class MatrixGame:
    """A small game with exact payoffs ``payoffs[player][action of player 0][action of player 1]…`` in [0, 1]."""

    payoffs: NDArray[Any] = field(repr=False)

    def __init__(self, payoffs: Any) -> None:
        rule = "a table [player][action of player 0][action of player 1]…"
        try:
            array = np.array(payoffs, dtype=object)
        except ValueError:
            array = np.array(None)
        if array.ndim < 2 or array.shape[0] != array.ndim - 1 or not 0 < array.size <= _MAX_ENTRIES:
            raise InvalidParameter("payoffs", ValueWords(f"an array with {array.ndim} axes"), rule)
        flat = np.empty(array.size, dtype=object)
        allowed = PROBABILITY.each
        flat[:] = [exact(each, "payoffs", allowed) for each in array.ravel()]
        numbers = flat.reshape(array.shape)
        numbers.flags.writeable = False
        object.__setattr__(self, "payoffs", numbers)

    @property
    def players(self) -> int:
        return int(self.payoffs.shape[0])

    @property
    def actions(self) -> tuple[int, ...]:
        return tuple(int(size) for size in self.payoffs.shape[1:])

    def deviation_payoffs(self, profile: Any) -> tuple[list[Fraction], list[list[Fraction]]]:
        mixed = self._mixed_strategies(profile)
        rows = []
        for i, table in enumerate(self.payoffs):
            value = table
            for other in range(self.players - 1, -1, -1):
                if other != i:  # contract the last axis first, so that the indices of earlier axes stay valid
                    value = np.tensordot(value, np.array(mixed[other], dtype=object), axes=([other], [0]))
            rows.append(list(value))
        utilities = [
            sum((p * u for p, u in zip(strategy, row, strict=True)), Fraction(0))
            for strategy, row in zip(mixed, rows, strict=True)
        ]
        return utilities, rows

    def equilibria(self) -> list[tuple[int, ...]]:
        """List the pure-strategy equilibria: the action profiles from which no unilateral deviation gains."""
        is_best_response = [table == table.max(axis=i, keepdims=True) for i, table in enumerate(self.payoffs)]
        return [tuple(int(a) for a in profile) for profile in np.argwhere(np.logical_and.reduce(is_best_response))]

    def __repr__(self) -> str:
        return f"<MatrixGame: {self.players} players, {' × '.join(map(str, self.actions))} actions>"

    def _mixed_strategies(self, profile: Any) -> list[list[Fraction]]:
        strategies = list(profile) if isinstance(profile, (Sequence, np.ndarray)) else []
        if len(strategies) != self.players:
            raise InvalidParameter(
                "profile",
                profile,
                f"a list with an action, or a list of probabilities, for each of the {self.players} players",
            )
        return [_mixed_strategy(strategy, count) for strategy, count in zip(strategies, self.actions, strict=True)]


def _mixed_strategy(strategy: Any, actions: int) -> list[Fraction]:
    if isinstance(strategy, (int, np.integer)) and not isinstance(strategy, bool):
        if not 0 <= strategy < actions:
            raise InvalidParameter("profile", strategy, f"a list of actions from 0 to {actions - 1}")
        return [Fraction(int(a == strategy)) for a in range(actions)]
    probabilities = (
        [exact(p, "profile", PROBABILITY) for p in strategy] if isinstance(strategy, (Sequence, np.ndarray)) else []
    )
    if len(probabilities) != actions or sum(probabilities) != 1:
        raise InvalidParameter(
            "profile", strategy, f"a list of actions, or of {actions} probabilities each that sum to exactly 1"
        )
    return probabilities
