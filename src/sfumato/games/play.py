"""Games of actions tell how far a profile is from equilibrium.

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

from sfumato.errors import InvalidParameter
from sfumato.privacy.codec import spelled
from sfumato.privacy.numbers import PROBABILITY, exact

_MOST_ENTRIES = 1_000_000


class Game(Protocol):
    """A game can say what each player gets now and would get by every other action."""

    def alternatives(self, profile: Any) -> tuple[Sequence[Any], Sequence[Sequence[Any]]]:
        """Give what every player gets now, and what it would get by each of its actions, the others staying."""


@dataclass(frozen=True)
class Nash:
    """This says how far a profile is from equilibrium."""

    epsilon: Any
    """The most that any player gains by deviating alone: exact for a MatrixGame."""
    utilities: tuple[Any, ...] = field(repr=False)
    gains: tuple[Any, ...] = field(repr=False)
    best_responses: tuple[int, ...] = field(repr=False)
    """Each player's best action against the others; the first of equals."""

    __repr__ = spelled

    @property
    def player(self) -> int:
        """Name the player who gains most."""
        return self.gains.index(self.epsilon)


def approximate_nash(game: Game, profile: Any) -> Nash:
    """Find the ε for which a profile is an ε-equilibrium, and everybody's best response.

    ``profile`` gives each player an action, or a list of probabilities for its actions.

    >>> pennies = MatrixGame([[[1, 0], [0, 1]], [[0, 1], [1, 0]]])
    >>> approximate_nash(pennies, [0, 0]).epsilon, approximate_nash(pennies, [["1/2", "1/2"], ["1/2", "1/2"]]).epsilon
    (Fraction(1, 1), Fraction(0, 1))
    """
    if not hasattr(game, "alternatives"):
        raise InvalidParameter("game", game, "a MatrixGame or a Crowd")
    now, others = game.alternatives(profile)
    best = [max(range(len(row)), key=row.__getitem__) for row in others]
    gains = tuple(row[i] - mine for row, i, mine in zip(others, best, now, strict=True))
    return Nash(max(gains), tuple(now), gains, tuple(best))


@dataclass(frozen=True, eq=False)
class MatrixGame:
    """A matrix game is small and exact: ``payoffs[player][action of 0][action of 1]…`` in [0, 1]."""

    payoffs: NDArray[Any] = field(repr=False)

    def __init__(self, payoffs: Any) -> None:
        rule = "payoffs[player][action of player 0][action of player 1]…"
        try:
            array = np.array(payoffs, dtype=object)
        except ValueError:
            array = np.array(None)
        if array.ndim < 2 or array.shape[0] != array.ndim - 1 or not 0 < array.size <= _MOST_ENTRIES:
            raise InvalidParameter("payoffs", f"{array.ndim} axes", rule)
        flat = np.empty(array.size, dtype=object)
        flat[:] = [exact(each, "payoffs", PROBABILITY) for each in array.ravel()]
        numbers = flat.reshape(array.shape)
        numbers.flags.writeable = False
        object.__setattr__(self, "payoffs", numbers)

    @property
    def players(self) -> int:
        return int(self.payoffs.shape[0])

    @property
    def actions(self) -> tuple[int, ...]:
        return tuple(int(size) for size in self.payoffs.shape[1:])

    def alternatives(self, profile: Any) -> tuple[list[Fraction], list[list[Fraction]]]:
        mixed = self._mixed(profile)
        rows = []
        for i, table in enumerate(self.payoffs):
            value = table
            for other in range(self.players - 1, -1, -1):
                if other != i:  # one axis after the other, the last first, so that the axes before keep their places
                    value = np.tensordot(value, np.array(mixed[other], dtype=object), axes=([other], [0]))
            rows.append(list(value))
        now = [
            sum((p * u for p, u in zip(own, row, strict=True)), Fraction(0))
            for own, row in zip(mixed, rows, strict=True)
        ]
        return now, rows

    def equilibria(self) -> list[tuple[int, ...]]:
        """List every profile of actions from which nobody gains by deviating alone."""
        stays = [table == table.max(axis=i, keepdims=True) for i, table in enumerate(self.payoffs)]
        return [tuple(int(a) for a in profile) for profile in np.argwhere(np.logical_and.reduce(stays))]

    def __repr__(self) -> str:
        return f"<MatrixGame: {self.players} players, {' × '.join(map(str, self.actions))} actions>"

    def _mixed(self, profile: Any) -> list[list[Fraction]]:
        given = list(profile) if isinstance(profile, (Sequence, np.ndarray)) else []
        if len(given) != self.players:
            raise InvalidParameter("profile", profile, f"an action or probabilities for each of {self.players} players")
        return [_strategy(each, count) for each, count in zip(given, self.actions, strict=True)]


def _strategy(given: Any, actions: int) -> list[Fraction]:
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        if not 0 <= given < actions:
            raise InvalidParameter("profile", given, f"an action from 0 to {actions - 1}")
        return [Fraction(int(a == given)) for a in range(actions)]
    chances = [exact(p, "profile", PROBABILITY) for p in given] if isinstance(given, (Sequence, np.ndarray)) else []
    if len(chances) != actions or sum(chances) != 1:
        raise InvalidParameter("profile", given, f"an action, or {actions} probabilities with sum exactly 1")
    return chances
