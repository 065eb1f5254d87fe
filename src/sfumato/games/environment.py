"""An environment says who plays and what they want: types, outcomes, reactions, and utilities in [0, 1].

A player of type t gets u(t, s, r) when the outcome is s and it reacts by r. Left free it reacts best; what it
reported matters to it only through the outcome, unless a mechanism imposes the reaction that its report calls for.

Laws give the exact probability of every outcome of a choice, from the mechanism that draws it.

Probabilities are whole weights over their sum. They are exact where they are rational, and otherwise every one is
within ``error`` of the truth, far below 10⁻⁵⁰: e^ε is irrational for every rational ε ≠ 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Exponential, MaxNoise, NoisyMax, PermuteAndFlip, bits
from sfumato.mechanisms.selection import Scored, field_of
from sfumato.privacy.codec import spelled
from sfumato.privacy.numbers import PROBABILITY, Number, exact, whole

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


_DIGITS = 80
_UNIT = 10**70
MOST_CANDIDATES = 400


@dataclass(frozen=True)
class Law:
    """Outcome s has probability weights[s]/Σ weights, within ``error``."""

    weights: tuple[int, ...]
    error: Fraction = Fraction(0)
    payments: tuple[Fraction, ...] = ()
    """What each player (or each type, where players are alike) pays in expectation, where money is taken."""

    __repr__ = spelled

    @property
    def probabilities(self) -> tuple[Fraction, ...]:
        total = sum(self.weights)
        return tuple(Fraction(weight, total) for weight in self.weights)

    def mean(self, values: Sequence[int]) -> Fraction:
        """Give the expectation of a number for each outcome."""
        return Fraction(sum(w * v for w, v in zip(self.weights, values, strict=True)), sum(self.weights))


def stated(probabilities: Iterable[Number], outcomes: int) -> Law:
    """Read a law that somebody states: numbers in [0, 1] with sum 1, one for each outcome."""
    if not isinstance(probabilities, Iterable):
        raise InvalidParameter("probabilities", probabilities, f"{outcomes} numbers with sum exactly 1")
    given = [exact(each, "probability", PROBABILITY) for each in probabilities]
    if len(given) != outcomes or sum(given) != 1:
        rule = f"{outcomes} numbers with sum exactly 1"
        raise InvalidParameter("probabilities", f"{len(given)} numbers with sum {float(sum(given)):.6g}", rule)
    unit = math.lcm(*(each.denominator for each in given))
    return Law(tuple(int(each * unit) for each in given))


def law_of(selection: Scored, scores: Sequence[Fraction | int]) -> Law:
    """Compute the law by which a selection chooses among these scores: of the gaps and the rate its draw is made from.

    Exponential (and noisy max under Gumbel noise): P(h) ∝ e^{−c·gap}. Permute-and-flip (and exponential noise):
    candidate h comes at a uniform time t and is kept with k_h = e^{−c·gap}; the others that came before were not,
    so P(h) = k_h·∫₀¹ Π_{j≠h}(1 − t·k_j) dt.
    """
    gaps, rate = field_of(list(scores), selection)
    if gaps.size > MOST_CANDIDATES:
        raise InvalidParameter("outcomes", int(gaps.size), f"at most {MOST_CANDIDATES} for an exact law")
    context = bits.digits(_DIGITS)
    powers = [context.exp(bits.decimal(-rate * int(gap), context)) for gap in gaps]
    keep = [int(context.scaleb(power, 70)) for power in powers]  # whole units of 10⁻⁷⁰, at most one too few
    known = all(gap == 0 for gap in gaps)
    kind: Any = selection.noise if isinstance(selection, NoisyMax) else type(selection)
    if kind in (Exponential, MaxNoise.GUMBEL):
        return Law(tuple(keep), Fraction(0) if known else Fraction(2 * len(keep) + 2, _UNIT))
    if kind in (PermuteAndFlip, MaxNoise.EXPONENTIAL):
        if known:
            return Law((1,) * len(keep))
        return _flipped(keep)
    raise InvalidParameter(
        "mechanism", selection, "Exponential or PermuteAndFlip", fix="Laplace noise has no finite exact law"
    )


def _flipped(keep: list[int]) -> Law:
    """Compute the law of permute-and-flip by its polynomial: the coefficients of Π(1 − t·k_j) once, each factor divided
    out in turn.

    Coefficients are below 2ⁿ and rounded n² times: 4n + 64 bits beyond the units of 10⁻⁷⁰ drown all of that, so what
    is left is that each k_h may be a unit too small.
    """
    n = len(keep)
    lift = 4 * n + 64
    unit = _UNIT << lift
    factors = [k << lift for k in keep]
    product = [unit]
    for k in factors:
        product = [a - b * k // unit for a, b in zip([*product, 0], [0, *product], strict=True)]
    weights = []
    for k in factors:
        rest, integral = 0, 0
        for i, c in enumerate(product[:-1]):
            rest = c + rest * k // unit
            integral += rest // (i + 1)
        weights.append(max(0, k * integral // unit >> lift))
    return Law(tuple(weights), Fraction(8 * (n + 1) ** 2, _UNIT))
