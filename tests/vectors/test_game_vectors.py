"""Vectors of auctions, truthfulness and equilibria: small games played out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

import sfumato as sf
from sfumato.games import digital_goods, exact_truthfulness, mediation, truthful_with_money
from sfumato.games.auctions import Sale
from sfumato.games.environment import (
    Environment,
    StatedMechanism,
    WelfareSelection,
    law_of_selection,
    line,
    total_variation,
)
from sfumato.games.exact_truthfulness import Mixture
from sfumato.games.mediation import Mediation, MediatorAdvice, equilibrium, expected_payoffs
from sfumato.games.play import Crowd, market_entry
from vectors.laws import (
    MP,
    Real,
    as_fraction,
    half_width,
    hockey_stick,
    laplace_law,
    least_value,
    lost_within,
    most_value,
    ranged,
    real,
    response,
    root,
    upper,
)
from vectors.registry import Registry, Scope, Vector, between, exact

F = Fraction

REGISTRY = Registry(
    scopes=(
        Scope(
            ("games",),
            words=frozenset(
                {
                    "bound",
                    "bounds",
                    "certified",
                    "epsilon",
                    "error",
                    "estimate",
                    "explain",
                    "gap",
                    "least",
                    "loss",
                    "own",
                    "payments",
                    "price",
                    "promised",
                    "q",
                    "regret",
                    "revenue",
                    "sensitivity",
                    "spacing",
                    "spread",
                    "threshold",
                    "variation",
                    "welfare",
                }
            ),
            parameters=frozenset({"confidence"}),
        ),
    ),
    exempt={
        "games.auctions.Auction.explain": "it prints numbers that have vectors",
    },
)


_BIDS = ["0.2", "0.7", "0.7", "0.9"]


@REGISTRY.formula("games.auctions.Auction.error")
@REGISTRY.formula("games.auctions.Auction.price")
def _auction_error() -> Iterator[Vector]:
    """A bid moves every revenue by at most the top price, all one way; ε is shared with the count of buyers."""
    for epsilon, prices, held, counting, confidence in (
        ("1", ("0.1", "0.5", "0.9"), 1, "0", "0.95"),
        ("2", ("0.3", "0.7"), 3, "0.25", "0.999"),
        ("0.5", ("1",), 2, "0", "0.5"),
    ):
        rate = F(epsilon) * (1 - F(counting)) / (held * F(prices[-1]))
        truth_ = lost_within(len(prices), rate, 1 - real(confidence))
        auction = digital_goods(_BIDS, epsilon, prices, per_bidder=held, count_share=counting)
        error, price = truth_, truth_ * real(epsilon) / 2
        low, high = (
            (error * (1 - MP.mpf("1e-14")), price),
            (error * (1 + MP.mpf("1e-14")), price * (1 + MP.mpf("2e-12"))),
        )
        yield between(low, high, lambda a=auction, c=confidence: (a.error(c), a.price(2, c)))


@REGISTRY.formula("games.auctions.Auction.widest_gap")
def _spacing() -> Iterator[Vector]:
    for prices, widest in ((("0.1", "0.5", "0.9"), F(2, 5)), (("0.6", "0.7"), F(3, 5)), (("1",), F(1))):
        yield exact(widest, lambda p=prices: digital_goods(_BIDS, 1, p).widest_gap)


@REGISTRY.formula("games.auctions.Sale.revenue_bound")
@REGISTRY.formula("games.auctions.Sale.revenue_range")
def _sales() -> Iterator[Vector]:
    """OPT less the error; the price times the buyers that the noise leaves possible, within 0 and all bids."""
    auction = digital_goods(_BIDS * 5, 1, ("0.2", "0.7"), count_share="0.5")
    reach = half_width(laplace_law(F(2)), 1 - real("0.95"))
    short = lost_within(2, F(1, 2) / F("0.7"), 1 - real("0.95"))
    for buyers in (15, 3, 19, -1000, 1000):
        held = sorted((0, buyers, 20))[1]  # no range is cut to a point
        low, high = max(0, min(held, buyers) - reach), min(20, max(held, buyers) + reach)
        sale = Sale(F(7, 10), buyers, F(21, 2), F(21, 2), auction)
        yield exact(
            (real("10.5") - short, real("0.7") * low, real("0.7") * high),
            lambda s=sale: (s.revenue_bound(), s.revenue_range()),
        )


@REGISTRY.formula("games.auctions.Auction.curve")
def _auction_curve() -> Iterator[Vector]:
    for counting, held in (("0", 1), ("0.25", 1), ("0.5", 3)):
        auction = digital_goods(_BIDS, 2, ("0.3", "0.7"), per_bidder=held, count_share=counting)
        yield exact(
            (F(2), F(2) * (1 - F(counting))), lambda a=auction: (a.curve.max_divergence, a.price_curve.max_divergence)
        )


def _ranged_variation(eta: Any) -> Real:
    return most_value(lambda t: hockey_stick(ranged(eta, t), 0), real(eta) / 10**6, real(eta) * (1 - MP.mpf(10) ** -6))


@REGISTRY.formula("games.exact_truthfulness.bounds")
@REGISTRY.formula("games.environment.total_variation")
def _bounds() -> Iterator[Vector]:
    """Total variation of k replaced reports, outcome by outcome; add-remove curves count twice."""
    for epsilon, neighbours, k in (("1", "replace", 1), ("0.1", "replace", 3), ("0.5", "add-remove", 2)):
        whole = F(epsilon) * k * (2 if neighbours == "add-remove" else 1)
        varied = hockey_stick(response(whole), 0)
        growth = MP.quad(MP.exp, [0, real(whole)])
        wanted = (2 * real(whole), growth, varied, varied)  # in the order of their names
        yield upper(
            [each * (1 - MP.mpf(10) ** -15) for each in wanted],
            1e-12,
            lambda e=epsilon, n=neighbours, k=k: exact_truthfulness.bounds(sf.Curve.pure(e, n), k),
        )
    ranged = _ranged_variation(2)
    yield upper(
        ranged * (1 - MP.mpf(10) ** -15),
        1e-12,
        lambda: exact_truthfulness.bounds(sf.Curve.bounded_range(1, "replace"), 2)["total variation"],
    )
    yield exact(
        (1.0,), lambda: exact_truthfulness.bounds(sf.Curve.approximate(40, "0.5", "replace"), 1)["total variation"]
    )
    assert total_variation(sf.Curve.pure(1, "replace"), 1) < 1


@REGISTRY.formula("games.environment.WelfareSelection.proven_bounds")
@REGISTRY.formula("games.environment.StatedMechanism.proven_bounds")
def _certified_rules() -> Iterator[Vector]:
    game = Environment([[1, 0], [0, 1]], players=3)
    for epsilon, neighbours, k in (("1", "replace", 1), ("1", "add-remove", 1), ("0.5", "replace", 2)):
        whole = F(epsilon) * k * (2 if neighbours == "add-remove" else 1)
        varied = as_fraction(_ranged_variation(whole))

        def call(e: str = epsilon, n: str = neighbours, k: int = k) -> tuple[Any, ...]:
            stated = StatedMechanism(game, lambda _: (1, 0), sf.Curve.bounded_range(e, n))
            rule = WelfareSelection(game, sf.Exponential(e, neighbours=n))
            return (
                rule.proven_bounds(k),
                stated.proven_bounds(k),
                StatedMechanism(game, lambda _: (1, 0)).proven_bounds(k),
            )

        low, high = varied * (1 - F(1, 10**15)), varied * (1 + F(1, 10**12))
        yield between((low,) * 4 + (F(1), F(1)), (high,) * 4 + (F(1), F(1)), call)


_STREET = 3
"""Houses in a row; two facilities, and everybody uses the nearer one."""


def _utility(home: int, where: tuple[int, int], used: int) -> Fraction:
    return 1 - F(abs(home - where[used]), _STREET - 1)


_PLACES = list(itertools.combinations(range(_STREET), 2))


def _best_reaction(home: int, where: tuple[int, int]) -> int:
    """The first of the best."""
    return max(range(2), key=lambda used: (_utility(home, where, used), -used))


def _penalties() -> list[list[Fraction]]:
    """For each lie, what being held to it costs at each outcome."""
    return [
        [
            _utility(t, where, _best_reaction(t, where)) - _utility(t, where, _best_reaction(lie, where))
            for where in _PLACES
        ]
        for t in range(_STREET)
        for lie in range(_STREET)
        if lie != t
    ]


@REGISTRY.formula("games.environment.Environment.gap")
@REGISTRY.formula("games.exact_truthfulness.Mixture.threshold")
def _gap() -> Iterator[Vector]:
    largest = min(max(row) for row in _penalties())
    penalty = min(sum(row) / len(row) for row in _penalties())
    for q in ("0.5", "0.1", "0.9"):

        def call(q: str = q) -> tuple[Any, ...]:
            game = line(_STREET, players=5)
            mixture = Mixture(game, "0.01", q)
            return mixture.gap.gamma, mixture.gap.penalty, mixture.threshold

        yield exact((largest, penalty, F(q) * largest / len(_PLACES)), call)


@REGISTRY.formula("games.environment.Environment.welfare_in_units")
def _welfare_in_units() -> Iterator[Vector]:
    """Sums of the utilities that the reported types give an outcome, over a common denominator."""
    plain = Environment([[1, 0], [0, 1]], players=3)
    yield exact((2, 1), plain.welfare_in_units, (0, 0, 1))
    yield exact((0, 3), plain.welfare_in_units, (1, 1, 1))
    quarters = Environment([["0.5", "0.25"], ["0.75", 1]], players=2)
    yield exact((5, 5), quarters.welfare_in_units, (0, 1))


@REGISTRY.formula("games.environment.Environment.welfare_sensitivity")
def _spread() -> Iterator[Vector]:
    yield exact(F(1, 2), lambda: line(3, players=2).welfare_sensitivity)
    yield exact(F(3, 4), lambda: Environment([["0.5", "0.25"], ["0.75", 1]], players=2).welfare_sensitivity)
    yield exact(F(0), lambda: Environment([["0.5", "0.25"], ["0.5", "0.25"]], players=2).welfare_sensitivity)


_PENALTY = min(sum(row) / len(row) for row in _penalties())


_UNIFORM = max(
    max(_utility(t, w, _best_reaction(t, w)) for w in _PLACES)
    - sum(_utility(t, w, _best_reaction(t, w)) for w in _PLACES) / len(_PLACES)
    for t in range(_STREET)
)


@REGISTRY.formula("games.exact_truthfulness.Mixture.proven_bounds")
def _certified() -> Iterator[Vector]:
    """(1 − q)·τ less q times the average penalty; in a coalition a member may tell the truth."""
    game = line(_STREET, players=5)
    for epsilon, q, k in (("0.05", "0.5", 1), ("0.2", "0.3", 2), ("1", "0.9", 1)):
        varied = (1 - real(q)) * _ranged_variation(F(epsilon) * k)
        gain = varied - (real(q) * real(_PENALTY) if k == 1 else 0)
        low, high = as_fraction(gain - varied * MP.mpf(10) ** -15), as_fraction(gain + varied * MP.mpf("1e-12"))
        yield between((low, F(1)), (high, F(1)), Mixture(game, epsilon, q).proven_bounds, k)


@REGISTRY.formula("games.exact_truthfulness._least_q")
def _least_q() -> Iterator[Vector]:
    """The least q with (1 − q)·τ < q·p, at most a step of its sixth digit above."""
    for epsilon in ("0.05", "1", "0.001"):
        tau = _ranged_variation(epsilon)
        least = root(lambda q, t=tau: q * real(_PENALTY) - (1 - q) * t, 0, 1)
        yield upper(least, 2e-6, exact_truthfulness._least_q, F(epsilon), _PENALTY)


@REGISTRY.formula("games.exact_truthfulness._largest_epsilon")
def _largest_epsilon() -> Iterator[Vector]:
    for q in ("0.1", "0.01", "0.5"):
        largest = root(
            lambda e, q=q: _ranged_variation(F(MP.nstr(e, 25))) - real(q) * real(_PENALTY) / (1 - real(q)),
            "0.0001",
            20,
            60,
        )
        step = F(10) ** (math.floor(math.log10(float(largest))) - 6)  # six digits after the first
        yield exact(step * int(MP.floor(largest / real(step))), exact_truthfulness._largest_epsilon, F(q), _PENALTY)


@REGISTRY.formula("games.exact_truthfulness._uniform_loss")
@REGISTRY.formula("games.exact_truthfulness._loss_bound")
def _losses() -> Iterator[Vector]:
    for epsilon, q, players in (("0.5", "0.25", 40), ("0.01", "0.5", 5), ("4", "0.01", 1000)):
        game = line(_STREET, players=players)
        free = min(MP.mpf(1), 2 * MP.log(3) / (real(epsilon) * players))
        yield exact(
            (1 - real(q)) * free + real(q) * real(_UNIFORM), lambda g=game, e=epsilon, q=q: Mixture(g, e, q).loss
        )


@REGISTRY.formula("games.exact_truthfulness._best_epsilon")
@REGISTRY.formula("games.exact_truthfulness._best_epsilon.bound")
def _best_epsilon() -> Iterator[Vector]:
    """The bound at the chosen ε is that of a finer search, to a part in ten thousand."""
    for players in (50, 1000, 20000):
        game = line(_STREET, players=players)

        def bound(epsilon: Real, n: int = players) -> Real:
            tau = (
                _ranged_variation(F(MP.nstr(epsilon, 20)))
                if n == 50
                else (MP.exp(epsilon / 2) - 1) / (MP.exp(epsilon / 2) + 1)
            )
            q = tau / (tau + real(_PENALTY))
            return (1 - q) * min(MP.mpf(1), 2 * MP.log(3) / (epsilon * n)) + q * real(_UNIFORM)

        with MP.workdps(20):
            least = least_value(lambda log, b=bound: b(MP.exp(log)), -6, 3, 30)
        yield upper(
            least * (1 - MP.mpf(10) ** -12),
            1e-4,
            lambda g=game, b=bound: float(b(real(exact_truthfulness._best_epsilon(g)))),
        )


@REGISTRY.formula("games.exact_truthfulness.Mixture.welfare")
def _welfare() -> Iterator[Vector]:
    for types, epsilon, q in (((0, 0, 2), "1", "0.5"), ((1, 1, 1), "0.2", "0.1"), ((0, 1, 2), "3", "0.9")):
        scores = [sum(_utility(t, w, _best_reaction(t, w)) for t in types) for w in _PLACES]
        weights = [MP.exp(real(epsilon) / 2 * real(s)) for s in scores]
        free = MP.fsum(w * real(s) for w, s in zip(weights, scores, strict=True)) / MP.fsum(weights)
        mixed = (1 - real(q)) * free + real(q) * real(sum(scores)) / 3
        mixture = Mixture(line(_STREET, players=3), epsilon, q)
        yield exact((mixed / 3, real(max(scores)) / 3), mixture.welfare, types)


@REGISTRY.formula("games.exact_truthfulness.PaymentMechanism.payments")
def _payments() -> Iterator[Vector]:
    """What is got less what would be got on average with one's report scaled by x, integrated over x."""
    table = [["1", "0.25", "0"], ["0", "0.5", "1"]]
    for epsilon, reports in (("1", (0, 0, 1)), ("0.1", (1, 0, 1)), ("5", (0, 1, 1))):
        values = [[real(v) for v in table[t]] for t in reports]
        rate = real(epsilon) / 2

        def expected(i: int, x: Real, values: Any = values, rate: Real = rate) -> Real:
            totals = [MP.fsum((x if j == i else 1) * row[s] for j, row in enumerate(values)) for s in range(3)]
            weights = [MP.exp(rate * total) for total in totals]
            return MP.fsum(w * values[i][s] for s, w in enumerate(weights)) / MP.fsum(weights)

        with MP.workdps(25):
            paid = [expected(i, MP.mpf(1)) - MP.quad(lambda x, i=i, f=expected: f(i, x), [0, 1]) for i in range(3)]
        yield exact(paid, truthful_with_money(Environment(table, players=3), epsilon).payments, reports)


@REGISTRY.formula("games.exact_truthfulness.PaymentMechanism.proven_bounds")
def _certified_with_money() -> Iterator[Vector]:
    """Alone nobody gains; what is got and what is paid lie in [0, 1] each, so neither changes by more than both."""
    priced = truthful_with_money(Environment([[1, 0], [0, 1]], players=3), 1)
    for coalition, gain in ((1, F(0)), (2, F(2)), (3, F(2))):
        yield exact((gain, F(2)), priced.proven_bounds, coalition)


@REGISTRY.formula("games.mediation._load_sensitivity")
def _mediated_sensitivity() -> Iterator[Vector]:
    """Strategies in whole units with sum at most B: all differences of two, for a small B."""
    for actions in (2, 3, 4):
        unit = 2
        every = [v for v in itertools.product(range(unit + 1), repeat=actions) if sum(v) <= unit]
        moves = [tuple(a - b for a, b in zip(v, w, strict=True)) for v in every for w in every]
        largest = (
            max(max(map(abs, m)) for m in moves),
            max(sum(map(abs, m)) for m in moves),
            max(sum(x * x for x in m) for m in moves),
        )
        wanted = (largest[0] * 2**16 // unit, largest[1] * 2**16 // unit, largest[2] * 2**32 // unit**2)
        yield exact(
            tuple(map(F, wanted)), lambda a=actions: ((s := mediation._load_sensitivity(a)).linf, s.l1, s.squares)
        )


def _small_crowd() -> Crowd:
    payoffs = [[[0.9, 0.5, 0.2, 0.1], [0.6, 0.6, 0.3, 0.0]], [[0.2, 0.2, 0.1, 0.1], [1.0, 0.7, 0.5, 0.4]]]
    return Crowd(payoffs, [0, 0, 1, 1])


_STRATEGIES = np.array([[0.75, 0.25], [0.125, 0.875]])


def _expected(own: int, action: int) -> Fraction:
    """Everybody else draws an action: all of them, one by one."""
    crowd, others = _small_crowd(), [0, 0, 1, 1]
    others.remove(own)
    total = F(0)
    for drawn in itertools.product(range(2), repeat=3):
        chance = F(1)
        for kind, chosen in zip(others, drawn, strict=True):
            chance *= F(float(_STRATEGIES[kind, chosen]))
        total += chance * F(str(crowd.payoffs[own, action, sum(each == action for each in drawn)]))
    return total


@REGISTRY.formula("games.mediation.expected_payoffs")
def _expectations() -> Iterator[Vector]:
    wanted = [[float(_expected(own, action)) for action in range(2)] for own in range(2)]
    for _ in range(2):
        yield exact(wanted, expected_payoffs, _small_crowd(), np.array([2, 2]), _STRATEGIES)
    alone = [[0.9, 0.6], [0.0, 0.0]]
    crowd = Crowd([[[0.9], [0.6]], [[0.2], [1.0]]], [0])
    yield exact(alone, expected_payoffs, crowd, np.array([1, 0]), _STRATEGIES)


@REGISTRY.formula("games.mediation.MediatorAdvice.regret")
@REGISTRY.formula("games.mediation.MediatorAdvice.bound")
@REGISTRY.formula("games.mediation.MediatorAdvice.estimate")
def _regret() -> Iterator[Vector]:
    """The best action's expectation less that of the advice; with 2ε + δ, and with τ."""
    rows = [[_expected(own, action) for action in range(2)] for own in range(2)]
    regret = max(
        max(row) - sum(F(float(p)) * u for p, u in zip(mixed, row, strict=True))
        for row, mixed in zip(rows, _STRATEGIES, strict=True)
    )
    for epsilon, delta in (("0.5", "0"), ("1", "0.01"), ("0.1", "1e-3")):
        proposal = equilibrium(_small_crowd(), epsilon, delta, rounds=2)
        advice = MediatorAdvice(proposal, _STRATEGIES, np.zeros((2, 2)), np.array([0, 0, 1, 1]))
        tau = min(1.0, proposal.curve.delta(0))
        wanted = (float(regret), float(regret + 2 * F(epsilon) + F(delta)), float(regret) + tau)
        yield exact(wanted, lambda a=advice: (a.regret, a.bound, a.estimate))
    alone = Crowd(
        [[[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]], [[0.0] * 3, [1.0] * 3]], [0, 1, 1]
    )
    proposal, followed = equilibrium(alone, 1, rounds=2), np.array([[0.75, 0.25], [0.5, 0.5], [1.0, 0.0]])
    told = MediatorAdvice(
        proposal, followed, np.zeros((2, 2)), np.array([0, 0, 1])
    )  # one player of type 0, none of type 2
    wanted = (0.75, 2.75, 0.75 + min(1.0, proposal.curve.delta(0)))
    yield exact(wanted, lambda: (told.regret, told.bound, told.estimate))


@REGISTRY.formula("games.mediation.Mediation.error")
def _mediation_error() -> Iterator[Vector]:
    """All actions' loads at once: the noise in units of 1/B, and what rounding down takes from every player."""
    crowd = _small_crowd()
    for scale, confidence in (("2", "0.95"), ("5", "0.999"), ("10", "0.5")):
        law = laplace_law(F(scale))
        width = next(
            w for w in range(2000) if (1 - MP.fsum(m for x, m in law.items() if abs(x) > w)) ** 2 >= real(confidence)
        )
        made = Mediation(crowd, sf.Guarantee(1), 2, sf.Laplace(scale))
        yield upper(MP.mpf(width + 4) / 2**16, 1e-6, made.error, confidence)


@REGISTRY.formula("games.play.Crowd.welfare")
def _crowd_welfare() -> Iterator[Vector]:
    for profile, wanted in (
        ((0, 0, 1, 1), (0.5 + 0.5 + 0.7 + 0.7) / 4),
        ((1, 1, 1, 1), (0.0 + 0.0 + 0.4 + 0.4) / 4),
        ((0, 1, 0, 1), (0.5 + 0.6 + 0.2 + 0.7) / 4),
    ):
        yield exact(wanted, _small_crowd().welfare, np.array(profile))
    yield exact(0.5 * 0.5 + 0.5 * 0.5, market_entry([0, 0], [0.5]).welfare, np.array([0, 1]))


@REGISTRY.formula("games.environment.law_of_selection")
def _laws() -> Iterator[Vector]:
    """Exponential weights; permute-and-flip by all orders in which candidates can come."""
    scores = [3, 2, 0]
    for epsilon in (1, 2, 3):
        weights = [MP.exp(real(epsilon) / 2 * s) for s in scores]
        wanted = [w / MP.fsum(weights) for w in weights]
        yield exact(
            wanted, lambda e=epsilon: [float(p) for p in law_of_selection(sf.Exponential(e), scores).probabilities]
        )
        kept = [MP.exp(real(epsilon) / 2 * (s - 3)) for s in scores]
        flipped = [MP.mpf(0)] * 3
        for order in itertools.permutations(range(3)):
            left = MP.mpf(1) / 6
            for each in order:
                flipped[each] += left * kept[each]
                left *= 1 - kept[each]
        yield exact(
            flipped, lambda e=epsilon: [float(p) for p in law_of_selection(sf.PermuteAndFlip(e), scores).probabilities]
        )


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
