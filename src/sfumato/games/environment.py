"""An environment says who plays and what they want: types, outcomes, reactions, and utilities in [0, 1].

A player of type t gets u(t, s, r) when the outcome is s and it reacts by r. Left free it reacts best; what it
reported matters to it only through the outcome, unless a mechanism imposes the reaction that its report calls for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.privacy.numbers import PROBABILITY, Number, exact, whole
from sfumato.privacy.spelled_values import spelled

Table = tuple[tuple[tuple[int, ...], ...], ...]
"""Utilities of one player by type, outcome and reaction, in whole units of 1/scale."""
Matrix = tuple[tuple[int, ...], ...]

_MOST_ENTRIES = 2_000_000
_FINEST_SCALE = 1 << 40
_FINEST = 1 << 60  # differences of welfare, in whole units, stay within what a selection compares exactly


@dataclass(frozen=True)
class Gap:
    """A gap is the least that a misreport can be made to cost at the outcome where it costs most (γ), and on average
    over all outcomes (the penalty), each with the player and the two types it is least for.
    """

    largest: Fraction
    penalty: Fraction
    player: int
    types: tuple[int, int]

    __repr__ = spelled


@dataclass(frozen=True)
class Environment:
    """An environment holds utilities as an array: [type, outcome], [type, outcome, reaction], or with a first axis for
    the players when they differ.

    >>> Environment([[1, 0], ["0.2", 1]], players=3)
    <Environment: 3 players, 2 types, 2 outcomes, 1 reaction>
    """

    players: int
    types: tuple[Hashable, ...]
    outcomes: tuple[Hashable, ...]
    reactions: tuple[Hashable, ...]
    tables: tuple[Table, ...] = field(repr=False)
    """One for all, or one for each player."""
    scale: int = field(repr=False)

    def __init__(
        self,
        utilities: Any,
        players: int,
        types: Sequence[Hashable] | None = None,
        outcomes: Sequence[Hashable] | None = None,
        reactions: Sequence[Hashable] | None = None,
    ) -> None:
        count = whole(players, "players", at_least=1)
        array = _as_array(utilities, count)
        shape = array.shape
        labels = [
            _labels(given, size, name)
            for given, size, name in zip(
                (types, outcomes, reactions), shape[1:], ("types", "outcomes", "reactions"), strict=True
            )
        ]
        numbers = [exact(each, "utilities", PROBABILITY) for each in array.ravel()]
        scale = math.lcm(*{each.denominator for each in numbers})
        if scale > _FINEST_SCALE or scale * count > _FINEST:
            rule = "numbers with a small common denominator"
            raise InvalidParameter("utilities", "numbers with too many digits", rule, fix="round them to 9 decimals")
        units = iter([int(each * scale) for each in numbers])
        tables: tuple[Table, ...] = tuple(
            tuple(tuple(tuple(next(units) for _ in range(shape[3])) for _ in range(shape[2])) for _ in range(shape[1]))
            for _ in range(shape[0])
        )
        if len(tables) > 1 and len(set(tables)) == 1:
            tables = tables[:1]
        for name, value in (("players", count), ("tables", tables), ("scale", scale)):
            object.__setattr__(self, name, value)
        for name, names in zip(("types", "outcomes", "reactions"), labels, strict=True):
            object.__setattr__(self, name, names)

    @classmethod
    def of(
        cls,
        utility: Callable[..., Number],
        players: int,
        types: Sequence[Hashable],
        outcomes: Sequence[Hashable],
        reactions: Sequence[Hashable] | None = None,
    ) -> Environment:
        """Make an environment from a function: ``utility(type, outcome)``, or ``utility(type, outcome, reaction)``
        where there are reactions; the same for every player.
        """
        if not callable(utility):
            raise InvalidParameter("utility", utility, "a function of a type and an outcome")
        kinds, ends = _labels(types, None, "types"), _labels(outcomes, None, "outcomes")
        if reactions is None:
            return cls([[utility(t, s) for s in ends] for t in kinds], players, kinds, ends)
        moves = _labels(reactions, None, "reactions")
        table = [[[utility(t, s, r) for r in moves] for s in ends] for t in kinds]
        return cls(table, players, kinds, ends, moves)

    @property
    def symmetric(self) -> bool:
        """Tell whether players of one type are alike."""
        return len(self.tables) == 1

    def table(self, player: int) -> Table:
        return self.tables[0 if self.symmetric else player]

    @cached_property
    def _best(self) -> tuple[Matrix, ...]:
        return tuple(tuple(tuple(max(row) for row in rows) for rows in table) for table in self.tables)

    def best(self, player: int) -> Matrix:
        """Give the utilities [type, outcome] of a player that reacts best, in units of 1/scale."""
        return self._best[0 if self.symmetric else player]

    @cached_property
    def _imposed(self) -> tuple[NDArray[np.int64], ...]:
        """Give the utilities [true type, report, outcome] when the reaction that the report calls for is imposed: the
        first of the best, a rule fixed in advance.
        """
        found = []
        for table in self.tables:
            array = np.array(table, np.int64)
            called = array.argmax(axis=2)
            found.append(np.stack([np.take_along_axis(rows, called.T, axis=1).T for rows in array]))
        return tuple(found)

    @cached_property
    def _committed(self) -> tuple[Matrix, ...]:
        return tuple(tuple(tuple(row) for row in array.sum(axis=2).tolist()) for array in self._imposed)

    def committed(self, player: int) -> Matrix:
        """Sum over outcomes the utility of [true type, report] when the report's reaction is imposed."""
        return self._committed[0 if self.symmetric else player]

    @cached_property
    def gap(self) -> Gap | None:
        """Compute γ = min over players and t ≠ t′ of max over s of u(t, s, r(t, s)) − u(t, s, r(t′, s)), and the least
        average over s; None when there is one type only.
        """
        if len(self.types) < 2:
            return None
        lies = ~np.eye(len(self.types), dtype=bool)
        losses = [np.array(best)[:, None, :] - imposed for best, imposed in zip(self._best, self._imposed, strict=True)]
        worst = [np.where(lies, each.max(axis=2), np.iinfo(np.int64).max) for each in losses]
        player = min(range(len(worst)), key=lambda i: int(worst[i].min()))
        truth, report = (int(t) for t in np.unravel_index(int(worst[player].argmin()), lies.shape))
        penalty = Fraction(min(int(each.sum(axis=2)[lies].min()) for each in losses), self.scale * len(self.outcomes))
        return Gap(Fraction(int(worst[player].min()), self.scale), penalty, player, (truth, report))

    @cached_property
    def spread(self) -> Fraction:
        """Bound by how much one player's misreport can change the welfare of an outcome."""
        columns = (column for best in self._best for column in zip(*best, strict=True))
        return Fraction(max(max(column) - min(column) for column in columns), self.scale)

    def welfare(self, reports: Sequence[int]) -> tuple[Fraction, ...]:
        """Σ of the players' utilities at every outcome, were the reports true."""
        return tuple(Fraction(total, self.scale) for total in self.totals(reports))

    def totals(self, reports: Sequence[int]) -> tuple[int, ...]:
        """Give the same in whole units of 1/scale, which is public: what a selection compares exactly."""
        profile = self.profile(reports)
        if self.symmetric:
            many = [(self.best(0)[t], count) for t, count in Counter(profile).items()]
        else:
            many = [(self.best(i)[t], 1) for i, t in enumerate(profile)]
        return tuple(sum(row[s] * count for row, count in many) for s in range(len(self.outcomes)))

    def profile(self, reports: Any) -> tuple[int, ...]:
        """Read reports as numbers of types; anything else is refused without showing it."""
        try:
            found = tuple(int(each) if isinstance(each, (int, np.integer)) else -1 for each in reports)
        except TypeError:
            found = ()
        if len(found) != self.players or not all(0 <= t < len(self.types) for t in found):
            rule = "one number of a type, from 0, for each player"
            raise InvalidParameter("reports", "something else", rule, fix="number the types in the environment's order")
        return found

    def __repr__(self) -> str:
        sizes = (
            (self.players, "player"),
            *((len(getattr(self, n)), n[:-1]) for n in ("types", "outcomes", "reactions")),
        )
        return f"<Environment: {', '.join(f'{count} {name}' + 's' * (count != 1) for count, name in sizes)}>"


def _as_array(utilities: Any, players: int) -> Any:
    """Give the array four axes (player, type, outcome, reaction), whatever its entries are."""
    rule = "an array [type, outcome], [type, outcome, reaction] or [player, type, outcome, reaction]"
    try:
        array = np.array(utilities, dtype=object)
    except ValueError:
        raise InvalidParameter("utilities", "rows of different lengths", rule) from None
    if array.ndim not in (2, 3, 4) or not array.size:
        raise InvalidParameter("utilities", f"{array.ndim} axes", rule)
    if array.size > _MOST_ENTRIES:
        raise InvalidParameter("utilities", f"{array.size} entries", f"at most {_MOST_ENTRIES}")
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim == 3:
        array = array[None]
    if array.shape[0] not in (1, players):
        raise InvalidParameter(
            "utilities", f"{array.shape[0]} players", f"one table, or {players}: one for each player"
        )
    return array


def _labels(given: Sequence[Hashable] | None, size: int | None, name: str) -> tuple[Hashable, ...]:
    if given is None:
        return tuple(range(size or 0))
    names = tuple(given) if isinstance(given, (Sequence, np.ndarray)) and not isinstance(given, str) else ()
    hashable = all(isinstance(name, Hashable) for name in names)
    if not names or not hashable or len(set(names)) != len(names) or (size is not None and len(names) != size):
        wanted = "different names" if size is None else f"{size} different names"
        raise InvalidParameter(name, given, f"a sequence of {wanted}")
    return names
