"""Private equilibrium selection by a mediator: learning dynamics on a noisy billboard, then advice to every player.

In every round each type's strategy is a function of that type and of the board so far (multiplicative weights); the
mediator adds up the strategies of all players and writes the noisy totals on the board. In the end each player is
advised an action drawn from the average strategy of the player's type over the second half of the rounds.

Privacy. A player's strategy is a vector of integers ≥ 0 with sum at most B (rounded down in units of 1/B). Given the
board so far, the other players' vectors do not depend on it, so replacing one player's type changes a round's totals by
at most B in each coordinate, 2B in L1 norm and √2·B in L2 norm: each round is a noisy sum of that sensitivity, and the
board is their composition. The advice to player j is a function of the board, j's own report and j's own coins. So the
advice is jointly differentially private with the board's curve: all other players together learn no more about a player
than from the board (billboard lemma: Hsu, Huang, Roth, Roughgarden & Wu 2014).

Theorem (after Kearns, Pai, Roth & Ullman 2014). Let η be the largest over players of E[max_a u(a) − u(advice)], the
maximum taken *given the board*, and τ = δ(0) of the board's curve, at most tanh(ε/2) + δ ≤ 2ε + δ. Then reporting the
truth and following the advice is an (η + τ)-equilibrium against every deviation: any misreport, and any action as a
function of the board and of the advice that the misreport obtains. Proof: given the board, the others' advice is
independent of the deviator, whose best is max_a u(a), a function of the board in [0, 1]; under the misreport's board
its expectation is at most τ more than under the truth's, and there it is at most η above following. ∎ With regret
against fixed actions only, not given the board, the statement is false: a misreport may obtain better advice at ε = 0.

``read_bids`` reads bids from a CSV file, for an auction without a curator.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats, Integers
from sfumato.caching import cached_property
from sfumato.curator.policy_account import refuse_data_with_account
from sfumato.errors import InvalidParameter
from sfumato.games.play import Crowd
from sfumato.mechanisms import Gaussian, Laplace, bits
from sfumato.privacy import Curve, Guarantee, Neighbours, Sensitivity, calibrate, compose
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, POSITIVE, Number, exact, exact_integer
from sfumato.quick_dataclass import dataclass

_UNITS = 1 << 16
"""B: a strategy is a vector of multiples of 1/B."""
_MAX_ROUNDS = 100_000
_DEFAULT_ROUNDS = (800, 400, 200, 100, 50, 25)


@dataclass(frozen=True)
class _ComposedRounds:
    """A composition of equal noisy rounds, in the form that ``calibrate`` takes."""

    noise: Laplace | Gaussian
    rounds: int

    def curve(self, sensitivity: Sensitivity | Number = 1) -> Curve:
        return compose([(self.noise.curve(sensitivity), self.rounds)])


@dataclass(frozen=True, eq=False)
class Mediation:
    """A mediation proposal: nothing is drawn before ``release``."""

    game: Crowd
    guarantee: Guarantee
    rounds: int
    noise: Laplace | Gaussian
    """Added to totals in units of 1/B."""

    @property
    def sensitivity(self) -> Sensitivity:
        """The sensitivity of a round's totals to replacing one player's type."""
        return _load_sensitivity(self.game.actions)

    @cached_property
    def curve(self) -> Curve:
        """The privacy curve of the board for one player's type, under replace neighbours."""
        return _ComposedRounds(self.noise, self.rounds).curve(self.sensitivity)

    @cached_property
    def misreport_gain(self) -> float:
        """τ, the most that a misreport can gain by changing the board."""
        return min(1.0, self.curve.delta(0))

    def error(self, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Return the error bound, in players, that all loads of one round meet with this confidence."""
        rounding = self.game.players * (1 + 2.0**-20)  # each player's share is less than one unit too small
        return (float(self.noise.error(confidence, self.game.actions)) + rounding) / _UNITS

    def explain(self) -> str:
        """Describe rounds, noise and guarantees. This is free: no type is read."""
        return "\n".join(
            [
                f"{self.rounds} rounds; in each, the load of every action is known to ±{self.error():.4g} players",
                f"privacy: {self.guarantee} for each player's type, against all other players together",
                f"truthfulness: a player who misreports gains at most {self.misreport_gain:.4g} by changing the loads",
            ]
        )

    def release(self) -> MediatorAdvice:
        """Run the rounds and draw every player's advice."""
        strategies, board = _strategies_and_board(self, self.game.population)
        actions = _draw_advice(strategies, self.game.types)
        for array in (strategies, board, actions):
            array.flags.writeable = False
        return MediatorAdvice(self, strategies, board, actions)


@dataclass(frozen=True, eq=False)
class MediatorAdvice:
    """The mediator's advice. ``actions[i]`` is for player i alone; the board, and the strategies computed from it, are
    public. Everything else is computed from the true types: for the mediator and for study, not for publication.
    """

    mediation: Mediation
    strategies: Floats = field(repr=False)
    board: Floats = field(repr=False)
    actions: Integers = field(repr=False)

    @cached_property
    def regret(self) -> float:
        """η on this board: the largest expected gain of a player who does not follow the advice."""
        game = self.mediation.game
        expected = expected_payoffs(game, game.population, self.strategies)
        present = game.population > 0
        return float((expected.max(axis=1) - (self.strategies * expected).sum(axis=1))[present].max())

    @property
    def bound(self) -> float:
        """η + 2ε + δ, the textbook's bound, with the η of this board."""
        promise = self.mediation.guarantee
        return self.regret + float(2 * promise.epsilon + promise.delta)

    @property
    def estimate(self) -> float:
        """η + τ with the η of this board. The theorem's η is the mean over boards, which ``deviation`` measures: no
        deviation gains more than that plus τ on average.
        """
        return self.regret + self.mediation.misreport_gain

    @property
    def welfare(self) -> float:
        """The mean payoff when all players follow the advice."""
        return self.mediation.game.welfare(self.actions)

    @property
    def shortfall(self) -> float:
        """The welfare of an exact equilibrium minus this welfare."""
        game = self.mediation.game
        return game.welfare(game.settle()) - self.welfare

    def deviation(self, runs: int = 10) -> Deviation:
        """Measure the best deviation by simulation: for every true type and every report (the truth included) ``runs``
        fresh boards, and the best action given the board.
        """
        return _measure_deviations(self.mediation, exact_integer(runs, "runs", at_least=2))


@dataclass(frozen=True)
class Deviation:
    """The best deviation, with its gain measured over fresh boards."""

    gain: float
    """Mean gain of the best pair of type and report over reporting truthfully and following the advice."""
    error: float
    """One standard error of it."""
    truth: int
    report: int
    regret: float
    """η: the mean over boards, for the type with the largest one."""


def equilibrium(game: Crowd, epsilon: Number, delta: Number = 0, *, rounds: int | None = None) -> Mediation:
    """Propose advice to every player of a large game, with (ε, δ) joint differential privacy for the types.

    With δ > 0 the noise is Gaussian, otherwise Laplace. More rounds learn longer with more noise each: the default is
    the most, up to 800, that keep a round's error below the number of players.

    >>> import numpy as np
    >>> from sfumato.games import routes
    >>> crowd = routes(np.arange(5000) % 2, lengths=[[0.1, 0.2, 0.4], [0.3, 0.2, 0.1]], slopes=[0.5, 0.5, 0.5])
    >>> mediation = equilibrium(crowd, epsilon=1, delta="1e-6")
    >>> advice = mediation.release()
    >>> advice.regret < 0.05, abs(advice.welfare - crowd.welfare(crowd.settle())) < 0.02
    (True, True)
    """
    if not isinstance(game, Crowd):
        raise InvalidParameter(
            "game",
            game,
            "made with Crowd(…), routes(…), market_entry(…) or public_good(…)",
            fix="for example, pass market_entry([0] * 100, outside=[0.5]); for a MatrixGame, call approximate_nash",
        )
    exact(epsilon, "epsilon", POSITIVE)
    guarantee = Guarantee(epsilon, delta)
    if rounds is not None:
        count = exact_integer(rounds, "rounds", at_least=2)
        if count > _MAX_ROUNDS:
            raise InvalidParameter("rounds", rounds, f"at most {_MAX_ROUNDS}")
        return _calibrated_mediation(game, guarantee, count)
    candidates = (_calibrated_mediation(game, guarantee, count) for count in _DEFAULT_ROUNDS)
    return next(
        (mediation for mediation in candidates if mediation.error() <= game.players),
        _calibrated_mediation(game, guarantee, _DEFAULT_ROUNDS[-1]),
    )


def _calibrated_mediation(game: Crowd, guarantee: Guarantee, rounds: int) -> Mediation:
    sensitivity = _load_sensitivity(game.actions)
    try:
        if not guarantee.delta:
            return Mediation(game, guarantee, rounds, Laplace(sensitivity.l1 * rounds / guarantee.epsilon))
        calibrated = calibrate(lambda scale: _ComposedRounds(Gaussian(scale), rounds), guarantee, sensitivity)
        return Mediation(game, guarantee, rounds, calibrated.noise)
    except InvalidParameter:  # the sampler has a least and a largest scale
        rule = f"a moderate number: at this ε the noise of {rounds} rounds is too small or too large to be drawn"
        fix = "use a moderate ε, such as 1, or fewer rounds"
        raise InvalidParameter("epsilon", float(guarantee.epsilon), rule, fix=fix) from None


def _load_sensitivity(actions: int) -> Sensitivity:
    return Sensitivity(actions, _UNITS, 2 * _UNITS, 2 * _UNITS**2, Neighbours.REPLACE)


def _strategies_and_board(mediation: Mediation, population: Integers) -> tuple[Floats, Floats]:
    """Run the rounds; return strategies [type, action] and the board [round, action]. Only ``population`` is private,
    and it enters only through the noisy totals.
    """
    game, rounds = mediation.game, mediation.rounds
    shape = game.payoffs.shape[:2]
    learning_rate = math.sqrt(8 * math.log(max(2, game.actions)) / rounds)
    total_payoffs, average, board = np.zeros(shape), np.zeros(shape), np.empty((rounds, game.actions))
    for t in range(rounds):
        strategy = np.exp(learning_rate * (total_payoffs - total_payoffs.max(axis=1, keepdims=True)))
        strategy /= strategy.sum(axis=1, keepdims=True)
        board[t] = mediation.noise.apply(population @ to_strategy_units(strategy)) / _UNITS
        total_payoffs += _payoffs_at(game.payoffs, np.clip(board[t], 1, game.players))
        if 2 * t >= rounds - 1:
            average += strategy
    return average / average.sum(axis=1, keepdims=True), board


def to_strategy_units(strategy: Floats) -> Integers:
    """Convert rows of probabilities to integers in units of 1/B, rounded down so that no row sums to more than B."""
    return np.floor(strategy * (_UNITS * (1 - 2.0**-40))).astype(np.int64)


def _payoffs_at(payoffs: Floats, loads: Floats) -> Floats:
    """Return the payoffs [type, action] at real loads in [1, n], interpolated linearly between integer loads."""
    low = np.floor(loads).astype(np.int64)
    high = np.minimum(low + 1, payoffs.shape[2])
    actions, fraction = np.arange(loads.size), loads - low
    return (1 - fraction) * payoffs[:, actions, low - 1] + fraction * payoffs[:, actions, high - 1]


def _draw_advice(strategies: Floats, types: Integers) -> Integers:
    """Draw every player's advice: 53 random bits each against the cumulative strategy. No privacy rests on them."""
    uniform = (bits.random_uint64(types.size) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    actions = np.empty(types.size, np.int64)
    for type_index, row in enumerate(strategies):
        has_type = types == type_index
        cumulative = np.cumsum(row)
        actions[has_type] = np.minimum(
            np.searchsorted(cumulative, uniform[has_type] * cumulative[-1], side="right"), row.size - 1
        )
    return actions


def expected_payoffs(game: Crowd, population: Integers, strategies: Floats) -> Floats:
    """Return the expected payoff [type, action] when all other players follow the strategies; 0 for absent types.

    The others' load is a sum of independent Bernoulli variables. Its law is computed from its characteristic function,
    on enough points to cover sixteen standard deviations and sixteen players on either side of the mean: the mass
    beyond is below 10⁻²⁰ (Bernstein), less than floating-point rounding.
    """
    types, actions = strategies.shape
    means = population @ strategies
    deviation = math.sqrt(float((population @ (strategies * (1 - strategies))).max()))
    points = min(1 << math.ceil(math.log2(32 * deviation + 64)), game.players + 1)
    first_load = np.clip(np.floor(means).astype(np.int64) - points // 2, 0, game.players + 1 - points)
    loads = first_load[:, None] + np.arange(points)  # one period of the law, around its mean
    expected = np.zeros((types, actions))
    for player_type, laws in _other_loads(population, strategies, points):
        weights = np.take_along_axis(laws, loads % points, axis=1) * (loads < game.players)
        values = game.payoffs[player_type][np.arange(actions)[:, None], np.minimum(loads, game.players - 1)]
        expected[player_type] = (weights * values).sum(axis=1)
    return expected


def _other_loads(population: Integers, strategies: Floats, points: int) -> Iterator[tuple[int, Floats]]:
    """Yield, for every present type, the law modulo ``points`` of how many other players choose each action."""
    unit_roots = np.exp(2j * np.pi * np.arange(points) / points)
    characteristic = [1 - row[:, None] + row[:, None] * unit_roots for row in strategies]
    powers = [_power(factor, int(count)) for factor, count in zip(characteristic, population, strict=True)]
    for player_type in np.flatnonzero(population):
        product = _power(characteristic[player_type], int(population[player_type]) - 1)
        for other_type, power in enumerate(powers):
            if other_type != player_type:
                product = product * power
        yield int(player_type), np.clip(np.fft.fft(product, axis=1).real / points, 0.0, 1.0)


def _power(values: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Raise complex numbers in the unit disc to an integer power; 0⁰ = 1."""
    if not exponent:
        return np.ones_like(values)
    with np.errstate(divide="ignore"):
        modulus = np.exp(exponent * np.log(np.abs(values)))
    return modulus * np.exp(1j * exponent * np.angle(values))


def _measure_deviations(mediation: Mediation, runs: int) -> Deviation:
    game = mediation.game
    present = np.flatnonzero(game.population)
    truthful = _simulate_boards(mediation, game.population, runs)
    following = np.array([(strategies * expected).sum(axis=1) for strategies, expected in truthful])
    best = np.array([expected.max(axis=1) for _, expected in truthful])
    deviations = []
    for truth in (int(t) for t in present):
        for report in range(game.payoffs.shape[0]):
            deviating = best[:, truth]
            if report != truth:
                misreported = game.population.copy()
                misreported[truth] -= 1
                misreported[report] += 1
                deviating = np.array(
                    [expected[truth].max() for _, expected in _simulate_boards(mediation, misreported, runs)]
                )
            error = math.sqrt((deviating.var(ddof=1) + following[:, truth].var(ddof=1)) / runs)
            deviations.append((float(deviating.mean() - following[:, truth].mean()), error, truth, report))
    return Deviation(*max(deviations), float((best - following).mean(axis=0)[present].max()))


def _simulate_boards(mediation: Mediation, reported_population: Integers, runs: int) -> list[tuple[Floats, Floats]]:
    """Simulate fresh boards for a reported population; return strategies and the expected payoffs in the true one."""
    game = mediation.game
    strategies_per_board = [_strategies_and_board(mediation, reported_population)[0] for _ in range(runs)]
    return [(strategies, expected_payoffs(game, game.population, strategies)) for strategies in strategies_per_board]


def read_bids(path: Path, column: str | None = None) -> list[str]:
    """Read the bids of one CSV column as text, so that numbers keep their decimals. A single column needs no name.

    A file that is the source of a policy with a ledger beside it is refused: only that policy may spend its budget.
    """
    refuse_data_with_account(path)
    return list(_read_column(path, column))


def _read_column(path: Path, name: str | None) -> Iterator[str]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            header = [cell.strip() for cell in next(rows, [])]
            column = header[0] if name is None and len(header) == 1 else name
            if column is None or header.count(column) != 1:
                rule = f"the name of exactly one of the columns in the file: {', '.join(header) or 'none'}"
                raise InvalidParameter("column", name, rule, fix="name the column of the bids, such as --column bid")
            column_index = header.index(column)
            for row in rows:
                if row:
                    yield row[column_index] if column_index < len(row) else ""
    except (OSError, UnicodeDecodeError, csv.Error):
        raise InvalidParameter(
            "bids",
            str(path),
            "a CSV file in UTF-8 with a header",
            fix="check the path, and save the bids as CSV with the name of the column in the first line",
        ) from None
