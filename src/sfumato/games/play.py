"""Finite games, in normal form or anonymous with many players, and how far a profile is from equilibrium.

A profile is an ε-equilibrium when no player gains more than ε by changing its action alone (Nash 1950; with slack:
Radner 1980).

Large anonymous games: a player's payoff depends on the type, the action, and how many players chose that action.

Routing with congestion, market entry, public goods. Payoffs are public; the players' types are private.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats, Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms.grids import describe_array
from sfumato.privacy.codec import constructor_repr
from sfumato.privacy.numbers import PROBABILITY, exact, exact_integer
from sfumato.quick_dataclass import dataclass

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
        fix = "for example, pass MatrixGame([[[1, 0], [0, 1]], [[0, 1], [1, 0]]])"
        raise InvalidParameter("game", game, "a MatrixGame or a Crowd", fix=fix)
    utilities, deviations = game.deviation_payoffs(profile)
    best = [max(range(len(row)), key=row.__getitem__) for row in deviations]
    gains = tuple(row[i] - utility for row, i, utility in zip(deviations, best, utilities, strict=True))
    return Nash(max(gains), tuple(utilities), gains, tuple(best))


@dataclass(frozen=True, eq=False)
class MatrixGame:
    """A small game with exact payoffs ``payoffs[player][action of player 0][action of player 1]…`` in [0, 1]."""

    payoffs: NDArray[Any] = field(repr=False)

    def __init__(self, payoffs: Any) -> None:
        rule = "an array indexed by [player][action of player 0][action of player 1]…"
        try:
            array = np.array(payoffs, dtype=object)
        except ValueError:
            array = np.array(None)
        if array.ndim < 2 or array.shape[0] != array.ndim - 1 or not 0 < array.size <= _MAX_ENTRIES:
            fix = "for two players with two actions each, write [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]"
            raise InvalidParameter("payoffs", ValueWords(f"an array of shape {array.shape}"), rule, fix=fix)
        flat = np.empty(array.size, dtype=object)
        allowed = PROBABILITY.for_list
        flat[:] = [exact(payoff, "payoffs", allowed) for payoff in array.ravel()]
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
                fix='for two players, write [0, 1] or [["1/2", "1/2"], 0]',
            )
        return [_mixed_strategy(strategy, count) for strategy, count in zip(strategies, self.actions, strict=True)]


def _mixed_strategy(strategy: Any, actions: int) -> list[Fraction]:
    if isinstance(strategy, (int, np.integer)) and not isinstance(strategy, bool):
        if not 0 <= strategy < actions:
            rule = f"a list in which the action of this player is from 0 to {actions - 1}"
            fix = f"write 0 for the first action of this player, and {actions - 1} for the last"
            if actions == 1:
                rule, fix = "a list in which the action of this player is 0, the only one", "write 0"
            raise InvalidParameter("profile", strategy, rule, fix=fix)
        return [Fraction(int(a == strategy)) for a in range(actions)]
    probabilities = (
        [exact(p, "profile", PROBABILITY) for p in strategy] if isinstance(strategy, (Sequence, np.ndarray)) else []
    )
    if len(probabilities) != actions or sum(probabilities) != 1:
        raise InvalidParameter(
            "profile",
            strategy,
            f"a list with one entry for each player: an action, or {actions} probabilities that sum to exactly 1",
            fix='for two players with two actions each, write for example [0, ["1/3", "2/3"]]',
        )
    return probabilities


_MAX_ANONYMOUS_ENTRIES = 50_000_000
_ROUNDING = 1e-12  # gains below this are rounding


@dataclass(frozen=True, eq=False)
class Crowd:
    """A large game with payoffs in [0, 1]: ``payoffs[type, action, load − 1]`` is what a player of that type gets when
    ``load`` players, including this one, chose that action. ``types`` holds each player's type.
    """

    payoffs: Floats = field(repr=False)
    types: Integers = field(repr=False)

    def __init__(self, payoffs: Any, types: Any) -> None:
        type_indices = np.asarray(types)
        if type_indices.ndim != 1 or type_indices.dtype.kind not in "iu" or not type_indices.size:
            rule = "a list of whole numbers, one for each player"
            fix = "for three players of two types, write types=[0, 0, 1]"
            got = describe_array(type_indices) if type_indices.size else ValueWords("an empty list")
            raise InvalidParameter("types", got, rule, fix=fix)
        table = _as_floats(payoffs)
        if (
            table.ndim != 3
            or table.shape[2] != type_indices.size
            or 0 in table.shape
            or table.size > _MAX_ANONYMOUS_ENTRIES
        ):
            rule = "an array indexed by [type][action][load − 1], with loads from 1 to the number of players"
            fix = "check the number of players, or make the game with routes(…), market_entry(…) or public_good(…)"
            raise InvalidParameter("payoffs", ValueWords(f"an array of shape {table.shape}"), rule, fix=fix)
        if not ((table >= 0) & (table <= 1)).all():
            raise InvalidParameter(
                "payoffs",
                ValueWords("NaN or a number outside that range"),
                "numbers from 0 to 1",
                fix="rescale the payoffs to [0, 1]",
            )
        if type_indices.min() < 0 or type_indices.max() >= table.shape[0]:
            one_type = "a list of zeros, because payoffs has one type"
            rule = one_type if len(table) == 1 else f"a list of type numbers from 0 to {len(table) - 1}"
            fix = "write 0 for the players of the first type in payoffs"
            raise InvalidParameter("types", ValueWords("a list with another number"), rule, fix=fix)
        type_indices = type_indices.astype(np.int64)
        for array in (table, type_indices):
            array.flags.writeable = False
        object.__setattr__(self, "payoffs", table)
        object.__setattr__(self, "types", type_indices)

    @property
    def players(self) -> int:
        return int(self.types.size)

    @property
    def actions(self) -> int:
        return int(self.payoffs.shape[1])

    @cached_property
    def population(self) -> Integers:
        """The number of players of each type. Private."""
        return np.bincount(self.types, minlength=self.payoffs.shape[0]).astype(np.int64)

    @cached_property
    def influence(self) -> float:
        """The most that one player's choice changes another player's payoff."""
        return float(np.abs(np.diff(self.payoffs, axis=2)).max()) if self.players > 1 else 0.0

    def loads(self, profile: Any) -> Integers:
        """Count the players who chose each action."""
        return np.bincount(self._checked_profile(profile), minlength=self.actions).astype(np.int64)

    def deviation_payoffs(self, profile: Any) -> tuple[list[float], list[list[float]]]:
        """Return every player's payoff under ``profile``, and the payoff of each unilateral deviation."""
        actions = self._checked_profile(profile)
        loads = self.loads(actions)
        payoff_on_joining = self.payoffs[:, np.arange(self.actions), np.minimum(loads, self.players - 1)]
        current = self.payoffs[self.types, actions, loads[actions] - 1]
        deviations = payoff_on_joining[self.types]
        deviations[np.arange(self.players), actions] = current
        return current.tolist(), deviations.tolist()

    def welfare(self, profile: Any) -> float:
        """Return the mean payoff of a profile."""
        actions = self._checked_profile(profile)
        return float(self.payoffs[self.types, actions, self.loads(actions)[actions] - 1].mean())

    def settle(self, max_moves: int | None = None) -> Integers:
        """Find an exact equilibrium by best-response dynamics: players arrive one by one, then the player who gains
        most moves, until nobody gains. Refused if it has not converged after ``max_moves`` (100 per player).
        """
        limit = 100 * self.players if max_moves is None else exact_integer(max_moves, "max_moves", at_least=1)
        counts = self._sequential_best_responses()
        for _ in range(limit):
            type_index, source, target = self._best_move(counts)
            if source == target:
                return self._assign_actions(counts)
            counts[type_index, source] -= 1
            counts[type_index, target] += 1
        raise InvalidParameter(
            "game",
            ValueWords(f"no equilibrium after {limit:,} moves"),
            "one in which players reach an equilibrium by moving to their best responses",
            fix="raise max_moves, or change the payoffs",
        )

    def _sequential_best_responses(self) -> Integers:
        counts = np.zeros(self.payoffs.shape[:2], np.int64)
        loads, actions = np.zeros(self.actions, np.int64), np.arange(self.actions)
        for type_index in self.types:
            action = int(self.payoffs[type_index, actions, loads].argmax())
            counts[type_index, action] += 1
            loads[action] += 1
        return counts

    def _best_move(self, counts: Integers) -> tuple[int, int, int]:
        """Return the type, the source and the target of the move that gains most; target = source if nobody gains."""
        loads, actions = counts.sum(axis=0), np.arange(self.actions)
        payoff_on_joining = self.payoffs[:, actions, np.minimum(loads, self.players - 1)]
        current = self.payoffs[:, actions, np.maximum(loads - 1, 0)]
        order = np.argsort(payoff_on_joining, axis=1)
        target = np.where(order[:, -1:] != actions, order[:, -1:], order[:, -2:-1] if self.actions > 1 else 0)
        gains = np.take_along_axis(payoff_on_joining, target, axis=1) - current
        gains[(counts == 0) | (target == actions)] = -1.0
        type_index, source = (int(i) for i in np.unravel_index(int(gains.argmax()), gains.shape))
        return type_index, source, int(target[type_index, source]) if gains[type_index, source] > _ROUNDING else source

    def _assign_actions(self, counts: Integers) -> Integers:
        profile = np.empty(self.players, np.int64)
        for type_index, row in enumerate(counts):
            profile[self.types == type_index] = np.repeat(np.arange(self.actions), row)
        return profile

    def _checked_profile(self, profile: Any) -> Integers:
        actions = np.asarray(profile)
        fits = actions.shape == (self.players,) and actions.dtype.kind in "iu"
        if not fits or actions.min() < 0 or actions.max() >= self.actions:
            raise InvalidParameter(
                "profile",
                ValueWords("a list of another length, or with other values"),
                f"a list of {self.players} actions from 0 to {self.actions - 1}, one for each player",
                fix=f"for example, write [0] * {self.players}, in which every player takes the first action",
            )
        return actions.astype(np.int64)

    def __repr__(self) -> str:
        return f"<Crowd: {self.players} players, {self.payoffs.shape[0]} types, {self.actions} actions>"


def _as_floats(values: Any) -> Floats:
    """Convert to an array of floats; return a single NaN if that is not possible."""
    try:
        return np.array(np.nan) if np.iscomplexobj(values) else np.array(values, np.float64)
    except (TypeError, ValueError):
        return np.array(np.nan)


def _finite_array(rows: Any, name: str) -> Floats:
    table = _as_floats(rows)
    if not np.isfinite(table).all() or not table.size:
        raise InvalidParameter(name, rows, "finite numbers", fix="leave out missing and infinite values")
    return table


def _possible_load_shares(types: Any) -> Floats:
    """Return every possible load as a share of the players."""
    count = np.asarray(types).size
    return np.arange(1, count + 1) / max(1, count)


def routes(types: Any, lengths: Sequence[Sequence[float]], slopes: Sequence[float]) -> Crowd:
    """Build a routing game: type t on route r gets 1 − lengths[t][r] − slopes[r]·(share of the players on r).

    >>> crowd = routes([0, 0, 1, 1], lengths=[[0.1, 0.3], [0.3, 0.1]], slopes=[0.5, 0.5])
    >>> crowd.settle().tolist()
    [0, 0, 1, 1]
    """
    base_lengths, slope_per_route = _finite_array(lengths, "lengths"), _finite_array(slopes, "slopes")
    if base_lengths.ndim != 2 or slope_per_route.shape != base_lengths.shape[1:]:
        fix = "for two types and two routes, write lengths=[[0.1, 0.3], [0.3, 0.1]] and slopes=[0.5, 0.5]"
        raise InvalidParameter("lengths", lengths, "a table [type][route] with one column for each slope", fix=fix)
    return Crowd(1 - base_lengths[:, :, None] - slope_per_route[None, :, None] * _possible_load_shares(types), types)


def market_entry(types: Any, outside: Sequence[float], prize: float = 1.0) -> Crowd:
    """Build a market-entry game: action 1 enters and gets prize·(1 − share of entrants); action 0 stays out and gets
    outside[t].
    """
    outside_payoffs = _finite_array(outside, "outside")
    share = _possible_load_shares(types)
    entry_payoffs = np.broadcast_to(_finite_array(prize, "prize") * (1 - share), (outside_payoffs.size, share.size))
    outside_by_load = np.broadcast_to(outside_payoffs.reshape(-1, 1), entry_payoffs.shape)
    return Crowd(np.stack([outside_by_load, entry_payoffs], axis=1), types)


def public_good(types: Any, costs: Sequence[float]) -> Crowd:
    """Build a public-good game: everybody gets the square root of the contributing share; action 1 contributes at a
    cost of costs[t] (negative for those who like giving), action 0 does not. Scaled from [−1, 2] to [0, 1].
    """
    cost_per_type = _finite_array(costs, "costs").reshape(-1, 1)
    if (np.abs(cost_per_type) > 1).any():
        fix = "scale the costs to this range, for example [0.2, -0.1]"
        raise InvalidParameter("costs", costs, "a list of numbers from −1 to 1", fix=fix)
    share = _possible_load_shares(types)
    free_riding = np.broadcast_to((1 + np.sqrt(1 - share)) / 3, (cost_per_type.size, share.size))
    contributing = (1 + np.sqrt(share) - cost_per_type) / 3
    return Crowd(np.stack([free_riding, contributing], axis=1), types)
