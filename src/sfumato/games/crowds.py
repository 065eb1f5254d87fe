"""Large games are those in which nobody matters much: what a player gets depends on its type, its action, and how many
chose it.

Routes that get slower, markets that fill up, goods that everybody pays for or hopes others do. Payoffs are public; the
players' types are private.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.privacy.numbers import whole

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MOST_ENTRIES = 50_000_000
_NOTHING = 1e-12  # gains below this are rounding


@dataclass(frozen=True, eq=False)
class Crowd:
    """A crowd plays for ``payoffs[type, action, load − 1]`` in [0, 1]: a player of that type gets it when ``load``
    players, itself among them, chose that action; ``types`` gives each player's type.
    """

    payoffs: Floats = field(repr=False)
    types: Integers = field(repr=False)

    def __init__(self, payoffs: Any, types: Any) -> None:
        kinds = np.asarray(types)
        if kinds.ndim != 1 or kinds.dtype.kind not in "iu" or not kinds.size:
            raise InvalidParameter("types", "something else", "a whole number for each player, at least one")
        table = _floats(payoffs)
        if table.ndim != 3 or table.shape[2] != kinds.size or 0 in table.shape or table.size > _MOST_ENTRIES:
            rule = "an array [type, action, load − 1], with a load for each number of players"
            raise InvalidParameter("payoffs", f"{table.ndim} axes", rule)
        if not ((table >= 0) & (table <= 1)).all():
            raise InvalidParameter(
                "payoffs", "a number outside, or none", "numbers in [0, 1]", fix="rescale the payoffs"
            )
        if kinds.min() < 0 or kinds.max() >= table.shape[0]:
            raise InvalidParameter("types", "something else", f"numbers of types, from 0 to {table.shape[0] - 1}")
        kinds = kinds.astype(np.int64)
        for array in (table, kinds):
            array.flags.writeable = False
        object.__setattr__(self, "payoffs", table)
        object.__setattr__(self, "types", kinds)

    @property
    def players(self) -> int:
        return int(self.types.size)

    @property
    def actions(self) -> int:
        return int(self.payoffs.shape[1])

    @cached_property
    def population(self) -> Integers:
        """Count the players of each type: this is private."""
        return np.bincount(self.types, minlength=self.payoffs.shape[0]).astype(np.int64)

    @cached_property
    def influence(self) -> float:
        """Give the most that one player's choice changes what another one gets."""
        return float(np.abs(np.diff(self.payoffs, axis=2)).max()) if self.players > 1 else 0.0

    def loads(self, profile: Any) -> Integers:
        """Count how many chose each action."""
        return np.bincount(self._chosen(profile), minlength=self.actions).astype(np.int64)

    def alternatives(self, profile: Any) -> tuple[list[float], list[list[float]]]:
        """Compute what everybody gets, and would get by every action."""
        chosen = self._chosen(profile)
        loads = self.loads(chosen)
        arriving = self.payoffs[:, np.arange(self.actions), np.minimum(loads, self.players - 1)]
        now = self.payoffs[self.types, chosen, loads[chosen] - 1]
        others = arriving[self.types]
        others[np.arange(self.players), chosen] = now
        return now.tolist(), others.tolist()

    def welfare(self, profile: Any) -> float:
        """Give what players get on average."""
        chosen = self._chosen(profile)
        return float(self.payoffs[self.types, chosen, self.loads(chosen)[chosen] - 1].mean())

    def settle(self, most_moves: int | None = None) -> Integers:
        """Find an exact equilibrium by best responses: players arrive one by one, then whoever gains most moves, until
        nobody gains. Where that goes in circles it is refused after ``most_moves`` (100 for each player).
        """
        limit = 100 * self.players if most_moves is None else whole(most_moves, "most_moves", at_least=1)
        counts = self._arrivals()
        for _ in range(limit):
            kind, source, target = self._best_move(counts)
            if source == target:
                return self._spread(counts)
            counts[kind, source] -= 1
            counts[kind, target] += 1
        raise InvalidParameter("game", "best responses that go in circles", "one in which best responses come to rest")

    def _arrivals(self) -> Integers:
        counts = np.zeros(self.payoffs.shape[:2], np.int64)
        loads, every = np.zeros(self.actions, np.int64), np.arange(self.actions)
        for kind in self.types:
            action = int(self.payoffs[kind, every, loads].argmax())
            counts[kind, action] += 1
            loads[action] += 1
        return counts

    def _best_move(self, counts: Integers) -> tuple[int, int, int]:
        """Find the type, where from and where to of the move that gains most; from where it is when nobody gains."""
        loads, every = counts.sum(axis=0), np.arange(self.actions)
        arriving = self.payoffs[:, every, np.minimum(loads, self.players - 1)]
        now = self.payoffs[:, every, np.maximum(loads - 1, 0)]
        order = np.argsort(arriving, axis=1)
        target = np.where(order[:, -1:] != every, order[:, -1:], order[:, -2:-1] if self.actions > 1 else 0)
        gains = np.take_along_axis(arriving, target, axis=1) - now
        gains[(counts == 0) | (target == every)] = -1.0
        kind, source = (int(i) for i in np.unravel_index(int(gains.argmax()), gains.shape))
        return kind, source, int(target[kind, source]) if gains[kind, source] > _NOTHING else source

    def _spread(self, counts: Integers) -> Integers:
        chosen = np.empty(self.players, np.int64)
        for kind, row in enumerate(counts):
            chosen[self.types == kind] = np.repeat(np.arange(self.actions), row)
        return chosen

    def _chosen(self, profile: Any) -> Integers:
        chosen = np.asarray(profile)
        fits = chosen.shape == (self.players,) and chosen.dtype.kind in "iu"
        if not fits or chosen.min() < 0 or chosen.max() >= self.actions:
            raise InvalidParameter(
                "profile", "something else", f"an action from 0 to {self.actions - 1} for each player"
            )
        return chosen.astype(np.int64)

    def __repr__(self) -> str:
        return f"<Crowd: {self.players} players, {self.payoffs.shape[0]} types, {self.actions} actions>"


def _floats(values: Any) -> Floats:
    """Read an array of floats; a single NaN stands for what cannot be one."""
    try:
        return np.array(np.nan) if np.iscomplexobj(values) else np.array(values, np.float64)
    except (TypeError, ValueError):
        return np.array(np.nan)


def _table(rows: Any, name: str) -> Floats:
    table = _floats(rows)
    if not np.isfinite(table).all() or not table.size:
        raise InvalidParameter(name, rows, "finite numbers")
    return table


def _shares(types: Any) -> Floats:
    """Give every possible load as a share of the players."""
    count = np.asarray(types).size
    return np.arange(1, count + 1) / max(1, count)


def routes(types: Any, lengths: Sequence[Sequence[float]], slopes: Sequence[float]) -> Crowd:
    """Make a game of routing: a player of type t on route r gets 1 − lengths[t][r] − slopes[r]·(share of the players on
    it).

    >>> crowd = routes([0, 0, 1, 1], lengths=[[0.1, 0.3], [0.3, 0.1]], slopes=[0.5, 0.5])
    >>> crowd.settle().tolist()
    [0, 0, 1, 1]
    """
    base, steep = _table(lengths, "lengths"), _table(slopes, "slopes")
    if base.ndim != 2 or steep.shape != base.shape[1:]:
        raise InvalidParameter("lengths", lengths, "lengths[type][route], with a slope for each route")
    return Crowd(1 - base[:, :, None] - steep[None, :, None] * _shares(types), types)


def market_entry(types: Any, outside: Sequence[float], prize: float = 1.0) -> Crowd:
    """Make a game of entry: action 1 enters and gets prize·(1 − share of entrants); action 0 stays out and gets
    outside[t].
    """
    kept = _table(outside, "outside")
    share = _shares(types)
    entering = np.broadcast_to(_table(prize, "prize") * (1 - share), (kept.size, share.size))
    staying = np.broadcast_to(kept.reshape(-1, 1), entering.shape)
    return Crowd(np.stack([staying, entering], axis=1), types)


def public_good(types: Any, costs: Sequence[float]) -> Crowd:
    """Make a game of a public good: everybody gets the square root of the share that contributes; action 1 contributes
    at a cost of costs[t] (below 0 for those who like giving), action 0 does not. Scaled from [−1, 2] to [0, 1].
    """
    burden = _table(costs, "costs").reshape(-1, 1)
    if (np.abs(burden) > 1).any():
        raise InvalidParameter("costs", costs, "numbers in [−1, 1]")
    share = _shares(types)
    riding = np.broadcast_to((1 + np.sqrt(1 - share)) / 3, (burden.size, share.size))
    giving = (1 + np.sqrt(share) - burden) / 3
    return Crowd(np.stack([riding, giving], axis=1), types)
