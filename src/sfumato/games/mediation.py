"""An equilibrium is selected privately: a mediator hears every type, plays the game on a noisy board, and advises.

In every round each type's strategy is a function of that type and of the board so far (multiplicative weights); the
mediator adds up the strategies of all players and writes the totals on the board with noise. In the end each player
is advised an action drawn from its type's average strategy over the second half of the rounds.

Privacy. A player's strategy is a vector of whole numbers ≥ 0 with sum at most B (rounded down in units of 1/B). Given
the board so far the others' vectors do not depend on it, so replacing its type moves a round's totals by at most B in
each coordinate, 2B in all and √2·B in Euclidean length: each round is a noisy sum of that sensitivity, and the board
is their composition. What player j is told is a function of the board, j's own report and j's own coins. So the advice
is jointly differentially private at the board's price: all the others together learn no more about a player than from
the board (billboard lemma: Hsu, Huang, Roth, Roughgarden & Wu 2014).

Theorem (after Kearns, Pai, Roth & Ullman 2014). Let η be the largest over players of E[max_a u(a) − u(advice)], the
maximum taken *given the board*, and τ = δ(0) of the board's curve, at most tanh(ε/2) + δ ≤ 2ε + δ. Then to report the
truth and follow the advice is an (η + τ)-equilibrium against every deviation: any misreport, and any action as a
function of the board and of whatever advice the misreport fetches. Proof: given the board, the others' advice is
independent of the deviator, so its best is max_a u(a), a function of the board in [0, 1]; under the misreport's board
its expectation is at most τ more than under the truth's, and there it is at most η above following. ∎ With regret
against fixed actions only, not given the board, the statement is false: a misreport may fetch better advice at ε = 0.

Bids are read from a CSV file here, for an auction that no curator holds.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.caching import cached_property
from sfumato.curator.policy_account import refuse_if_curated
from sfumato.errors import InvalidParameter
from sfumato.games.crowds import Crowd, Floats, Integers
from sfumato.mechanisms import Gaussian, Laplace, bits
from sfumato.privacy import Curve, Guarantee, Neighbours, Sensitivity, calibrate, compose
from sfumato.privacy.numbers import POSITIVE, Number, exact, whole

_UNITS = 1 << 16
"""B: a strategy is a vector of whole multiples of 1/B."""
_MOST_ROUNDS = 100_000
_USUAL_ROUNDS = (800, 400, 200, 100, 50, 25)


@dataclass(frozen=True)
class _Rounds:
    """Rounds are many runs of one noise, as something to calibrate."""

    noise: Laplace | Gaussian
    rounds: int

    def curve(self, sensitivity: Sensitivity | Number = 1) -> Curve:
        return compose([(self.noise.curve(sensitivity), self.rounds)])


@dataclass(frozen=True, eq=False)
class Mediation:
    """A mediation is a proposal: nothing is drawn before ``release``."""

    game: Crowd
    guarantee: Guarantee
    rounds: int
    noise: Laplace | Gaussian
    """On totals in units of 1/B."""

    @property
    def sensitivity(self) -> Sensitivity:
        """Bound by how much replacing one player's type moves a round's totals."""
        return _sensitivity(self.game.actions)

    @cached_property
    def curve(self) -> Curve:
        """Give the curve of what the board leaks about one player's type, under replace neighbours."""
        return _Rounds(self.noise, self.rounds).curve(self.sensitivity)

    @cached_property
    def temptation(self) -> float:
        """Compute τ, the most that a misreport can gain by moving the board."""
        return min(1.0, self.curve.delta(0))

    def error(self, confidence: Number = "0.95") -> float:
        """With this confidence every load of one round is written within this many players of the truth."""
        rounding = self.game.players * (1 + 2.0**-20)  # each player's part is less than a unit too small
        return (float(self.noise.error(confidence, self.game.actions)) + rounding) / _UNITS

    def explain(self) -> str:
        """Free: no type is read."""
        return "\n".join(
            [
                f"{self.rounds} rounds; in each the load of every action is written to ±{self.error():.4g} players",
                f"privacy: {self.guarantee} for each player's type, against all the others together",
                f"truth: what a misreport does to the board gains its author at most {self.temptation:.4g}",
            ]
        )

    def release(self) -> MediatorAdvice:
        """Play the rounds and draw everybody's advice."""
        strategies, board = _played(self, self.game.population)
        actions = _draw(strategies, self.game.types)
        for array in (strategies, board, actions):
            array.flags.writeable = False
        return MediatorAdvice(self, strategies, board, actions)


@dataclass(frozen=True, eq=False)
class MediatorAdvice:
    """Advice is what the mediator says. ``actions[i]`` is for player i alone; the board, and the strategies computed
    from it, are public. Everything else is computed from the true types: for the mediator's and the student's eyes.
    """

    mediation: Mediation
    strategies: Floats = field(repr=False)
    board: Floats = field(repr=False)
    actions: Integers = field(repr=False)

    @cached_property
    def regret(self) -> float:
        """Compute η on this board: the most that any player expects to gain by doing anything but follow."""
        game = self.mediation.game
        expected = expected_payoffs(game, game.population, self.strategies)
        present = game.population > 0
        return float((expected.max(axis=1) - (self.strategies * expected).sum(axis=1))[present].max())

    @property
    def bound(self) -> float:
        """Give η + 2ε + δ, the textbook's bound, with the η of this board."""
        promise = self.mediation.guarantee
        return self.regret + float(2 * promise.epsilon + promise.delta)

    @property
    def estimate(self) -> float:
        """Give η + τ with the η of this board. The theorem's η is the mean over boards, which ``deviation`` measures:
        no deviation gains more than that plus τ on average.
        """
        return self.regret + self.mediation.temptation

    @property
    def welfare(self) -> float:
        """Give what players get on average when all follow."""
        return self.mediation.game.welfare(self.actions)

    @property
    def shortfall(self) -> float:
        """Give how far that welfare is below an exact equilibrium's; below 0 when it is above."""
        game = self.mediation.game
        return game.welfare(game.settle()) - self.welfare

    def deviation(self, runs: int = 10) -> Deviation:
        """Find the best deviation by trying: every true type, every report (the truth too), ``runs`` fresh boards each,
        and then the best action given the board.
        """
        return _tried(self.mediation, whole(runs, "runs", at_least=2))


@dataclass(frozen=True)
class Deviation:
    """A deviation's gain is measured over fresh boards."""

    gain: float
    """Mean gain of the best pair of type and report over following the truth's advice."""
    error: float
    """One standard error of it."""
    truth: int
    report: int
    regret: float
    """η: the mean over boards, of the type for which it is largest."""


def equilibrium(game: Crowd, epsilon: Number, delta: Number = 0, *, rounds: int | None = None) -> Mediation:
    """Propose to advise every player of a large game, at (ε, δ) joint differential privacy for the types.

    With δ > 0 the noise is Gaussian, else Laplace. More rounds learn longer under more noise: by default as many, up to
    800, as keep a round's error below the number of players.

    >>> import numpy as np
    >>> from sfumato.games import routes
    >>> crowd = routes(np.arange(5000) % 2, lengths=[[0.1, 0.2, 0.4], [0.3, 0.2, 0.1]], slopes=[0.5, 0.5, 0.5])
    >>> mediation = equilibrium(crowd, epsilon=1, delta="1e-6")
    >>> advice = mediation.release()
    >>> advice.regret < 0.05, abs(advice.welfare - crowd.welfare(crowd.settle())) < 0.02
    (True, True)
    """
    if not isinstance(game, Crowd):
        raise InvalidParameter("game", game, "a Crowd", fix="small games: enumerate them with approximate_nash")
    exact(epsilon, "epsilon", POSITIVE)
    promise = Guarantee(epsilon, delta)
    if rounds is not None:
        count = whole(rounds, "rounds", at_least=2)
        if count > _MOST_ROUNDS:
            raise InvalidParameter("rounds", rounds, f"at most {_MOST_ROUNDS}")
        return _mediation(game, promise, count)
    every = (_mediation(game, promise, count) for count in _USUAL_ROUNDS)
    return next(
        (found for found in every if found.error() <= game.players), _mediation(game, promise, _USUAL_ROUNDS[-1])
    )


def _mediation(game: Crowd, promise: Guarantee, rounds: int) -> Mediation:
    change = _sensitivity(game.actions)
    try:
        if not promise.delta:
            return Mediation(game, promise, rounds, Laplace(change.l1 * rounds / promise.epsilon))
        fitting = calibrate(lambda size: _Rounds(Gaussian(size), rounds), promise, change)
        return Mediation(game, promise, rounds, fitting.noise)
    except InvalidParameter:  # there is a least and a most noise that can be drawn
        rule = f"neither so small nor so large that {rounds} rounds cannot be drawn"
        raise InvalidParameter("epsilon", float(promise.epsilon), rule) from None


def _sensitivity(actions: int) -> Sensitivity:
    return Sensitivity(actions, _UNITS, 2 * _UNITS, 2 * _UNITS**2, Neighbours.REPLACE)


def _played(mediation: Mediation, population: Integers) -> tuple[Floats, Floats]:
    """Play the rounds: give strategies [type, action] and the board [round, action]; only ``population`` is private,
    and it enters only through the noisy totals.
    """
    game, rounds = mediation.game, mediation.rounds
    shape = game.payoffs.shape[:2]
    speed = math.sqrt(8 * math.log(max(2, game.actions)) / rounds)
    sums, average, board = np.zeros(shape), np.zeros(shape), np.empty((rounds, game.actions))
    for t in range(rounds):
        strategy = np.exp(speed * (sums - sums.max(axis=1, keepdims=True)))
        strategy /= strategy.sum(axis=1, keepdims=True)
        board[t] = mediation.noise.apply(population @ in_units(strategy)) / _UNITS
        sums += _payoffs_at(game.payoffs, np.clip(board[t], 1, game.players))
        if 2 * t >= rounds - 1:
            average += strategy
    return average / average.sum(axis=1, keepdims=True), board


def in_units(strategy: Floats) -> Integers:
    """Write rows of probabilities as whole numbers of 1/B, rounded down so that none sums to more than B."""
    return np.floor(strategy * (_UNITS * (1 - 2.0**-40))).astype(np.int64)


def _payoffs_at(payoffs: Floats, loads: Floats) -> Floats:
    """Give the payoffs [type, action] at real loads in [1, n], between whole ones in proportion."""
    low = np.floor(loads).astype(np.int64)
    high = np.minimum(low + 1, payoffs.shape[2])
    every, part = np.arange(loads.size), loads - low
    return (1 - part) * payoffs[:, every, low - 1] + part * payoffs[:, every, high - 1]


def _draw(strategies: Floats, types: Integers) -> Integers:
    """Draw everybody's advice: 53 random bits each against the cumulative strategy. These coins carry no privacy."""
    uniform = (bits.words(types.size) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    chosen = np.empty(types.size, np.int64)
    for kind, row in enumerate(strategies):
        mine = types == kind
        steps = np.cumsum(row)
        chosen[mine] = np.minimum(np.searchsorted(steps, uniform[mine] * steps[-1], side="right"), row.size - 1)
    return chosen


def expected_payoffs(game: Crowd, population: Integers, strategies: Floats) -> Floats:
    """Compute what a player of each type expects from each action when everybody else in the population follows; 0 for
    a type that nobody has.

    The others' load is a sum of independent coins. Its law comes from its characteristic function, on as many points as
    cover sixteen standard deviations and sixteen players on either side of the mean: what lies beyond is below 10⁻²⁰
    (Bernstein), less than the rounding of floating point.
    """
    types, actions = strategies.shape
    means = population @ strategies
    deviation = math.sqrt(float((population @ (strategies * (1 - strategies))).max()))
    points = min(1 << math.ceil(math.log2(32 * deviation + 64)), game.players + 1)
    start = np.clip(np.floor(means).astype(np.int64) - points // 2, 0, game.players + 1 - points)
    loads = start[:, None] + np.arange(points)  # one period of the law, around its mean
    found = np.zeros((types, actions))
    for own, laws in _others(population, strategies, points):
        weights = np.take_along_axis(laws, loads % points, axis=1) * (loads < game.players)
        values = game.payoffs[own][np.arange(actions)[:, None], np.minimum(loads, game.players - 1)]
        found[own] = (weights * values).sum(axis=1)
    return found


def _others(population: Integers, strategies: Floats, points: int) -> Iterator[tuple[int, Floats]]:
    """Compute, for every type that somebody has, the law, modulo ``points``, of how many of the others choose each
    action.
    """
    turns = np.exp(2j * np.pi * np.arange(points) / points)
    coins = [1 - row[:, None] + row[:, None] * turns for row in strategies]
    powers = [_power(coin, int(count)) for coin, count in zip(coins, population, strict=True)]
    for own in np.flatnonzero(population):
        product = _power(coins[own], int(population[own]) - 1)
        for other, power in enumerate(powers):
            if other != own:
                product = product * power
        yield int(own), np.clip(np.fft.fft(product, axis=1).real / points, 0.0, 1.0)


def _power(values: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """Raise complex numbers within the unit circle to a whole power; 0⁰ = 1."""
    if not count:
        return np.ones_like(values)
    with np.errstate(divide="ignore"):
        size = np.exp(count * np.log(np.abs(values)))
    return size * np.exp(1j * count * np.angle(values))


def _tried(mediation: Mediation, runs: int) -> Deviation:
    game = mediation.game
    present = np.flatnonzero(game.population)
    truthful = _replayed(mediation, game.population, runs)
    follow = np.array([(strategies * expected).sum(axis=1) for strategies, expected in truthful])
    best = np.array([expected.max(axis=1) for _, expected in truthful])
    found = []
    for truth in (int(t) for t in present):
        for report in range(game.payoffs.shape[0]):
            tried = best[:, truth]
            if report != truth:
                moved = game.population.copy()
                moved[truth] -= 1
                moved[report] += 1
                tried = np.array([expected[truth].max() for _, expected in _replayed(mediation, moved, runs)])
            error = math.sqrt((tried.var(ddof=1) + follow[:, truth].var(ddof=1)) / runs)
            found.append((float(tried.mean() - follow[:, truth].mean()), error, truth, report))
    return Deviation(*max(found), float((best - follow).mean(axis=0)[present].max()))


def _replayed(mediation: Mediation, reported: Integers, runs: int) -> list[tuple[Floats, Floats]]:
    """Play strategies on fresh boards of a reported population, and compute what a player among the true ones then
    expects.
    """
    game = mediation.game
    played = [_played(mediation, reported)[0] for _ in range(runs)]
    return [(strategies, expected_payoffs(game, game.population, strategies)) for strategies in played]


def read_bids(path: Path, column: str | None = None) -> list[str]:
    """Read the bids of one column as text, since numbers mean their decimals; the only column need not be named.

    A file that a ledger beside it knows has a budget, which only its policy spends: it is refused.
    """
    refuse_if_curated(path)
    return list(_cells(path, column))


def _cells(path: Path, name: str | None) -> Iterator[str]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            header = [cell.strip() for cell in next(rows, [])]
            wanted = header[0] if name is None and len(header) == 1 else name
            if wanted is None or header.count(wanted) != 1:
                rule = f"the name of one column: {', '.join(header) or 'the file has none'}"
                raise InvalidParameter("column", name, rule, fix="add --column NAME")
            place = header.index(wanted)
            for row in rows:
                if row:
                    yield row[place] if place < len(row) else ""
    except (OSError, UnicodeDecodeError, csv.Error):
        raise InvalidParameter("bids", str(path), "a CSV file in UTF-8 with a header") from None
