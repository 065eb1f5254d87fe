"""Vectors of auctions, truthfulness, equilibria and surveys: small games played out, reports enumerated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

import sfumato as sf
from sfumato.games import commitment, digital_goods, mediation, truth, truthful_with_money
from sfumato.games.auctions import Sale
from sfumato.games.commitment import Mixture
from sfumato.games.crowds import Crowd, market_entry
from sfumato.games.environment import Environment
from sfumato.games.facilities import line
from sfumato.games.laws import law_of
from sfumato.games.mediation import Advice, Mediation, equilibrium, expected_payoffs
from sfumato.games.rules import Stated, Welfare, variation
from sfumato.mechanisms.response import PRIME, OptimalLocalHashing, OptimizedUnaryEncoding, RandomizedResponse
from sfumato.surveys import choosing, collect, counts
from sfumato.surveys.counts import PairCounts
from sfumato.surveys.encodings import Chances, Encoding, _meeting, chances
from sfumato.surveys.forms import _above
from vectors.laws import (
    MP,
    Real,
    as_fraction,
    binomial,
    down,
    half_width,
    hockey_stick,
    laplace_law,
    least_value,
    lower,
    most_value,
    real,
    response,
    root,
    up,
    upper,
    upper_fraction,
)
from vectors.registry import Registry, Scope, Vector, between, exact

F = Fraction

REGISTRY = Registry(
    scopes=(
        Scope(
            ("games",),
            words=frozenset(
                "bound bounds certified epsilon error estimate explain gap least loss own payments price promised q regret"
                " revenue sensitivity spacing spread threshold variation welfare".split()
            ),
            parameters=frozenset({"confidence"}),
        ),
        Scope(
            ("surveys",),
            words=frozenset(
                "above chances error estimated estimates half held interval largest limits meeting miss most other share"
                " variance variances widths".split()
            ),
            parameters=frozenset({"miss"}),
        ),
    ),
    exempt={
        "games.auctions.Auction.explain": "it prints numbers that have vectors",
        "games.money.Priced._in_own_terms": "payments have vectors, and are made of it",
        "surveys.forms.Form._pair_counts": "it joins estimates to half-widths that have vectors",
    },
)


def _lost(candidates: int, rate: Any, miss: Real) -> Real:
    """Where as many as all candidates weigh no more than the miss."""
    return root(lambda gap: miss - candidates * MP.exp(-real(rate) * gap), 0, 10**6)


# ── auctions ───────────────────────────────────────────────────────────────────────────────────

_BIDS = ["0.2", "0.7", "0.7", "0.9"]


@REGISTRY.formula("games.auctions.Auction.error")
@REGISTRY.formula("games.auctions.Auction.price")
def _auction_error() -> Iterator[Vector]:
    """A bid moves every revenue by at most the top price, all one way; ε is shared with the count of buyers."""
    for epsilon, prices, held, counting, confidence in (("1", ("0.1", "0.5", "0.9"), 1, "0", "0.95"), ("2", ("0.3", "0.7"), 3, "0.25", "0.999"), ("0.5", ("1",), 2, "0", "0.5")):
        rate = F(epsilon) * (1 - F(counting)) / (held * F(prices[-1]))
        truth_ = _lost(len(prices), rate, 1 - real(confidence))
        auction = digital_goods(_BIDS, epsilon, prices, per_bidder=held, counting=counting)
        error, price = truth_, truth_ * real(epsilon) / 2
        low, high = (error * (1 - MP.mpf("1e-14")), price), (error * (1 + MP.mpf("1e-14")), price * (1 + MP.mpf("2e-12")))
        yield between(low, high, lambda a=auction, c=confidence: (a.error(c), a.price(2, c)))


@REGISTRY.formula("games.auctions.Auction.spacing")
def _spacing() -> Iterator[Vector]:
    for prices, widest in ((("0.1", "0.5", "0.9"), F(2, 5)), (("0.6", "0.7"), F(3, 5)), (("1",), F(1))):
        yield exact(widest, lambda p=prices: digital_goods(_BIDS, 1, p).spacing)


@REGISTRY.formula("games.auctions.Sale.promised")
@REGISTRY.formula("games.auctions.Sale.revenue_range")
def _sales() -> Iterator[Vector]:
    """OPT less the error; the price times the buyers that the noise leaves possible, within 0 and all bids."""
    auction = digital_goods(_BIDS * 5, 1, ("0.2", "0.7"), counting="0.5")
    reach = half_width(laplace_law(F(2)), 1 - real("0.95"))
    short = _lost(2, F(1, 2) / F("0.7"), 1 - real("0.95"))
    for buyers in (15, 3, 19, -1000, 1000):
        low, high = max(0, min(20, buyers - reach)), min(20, max(0, buyers + reach))
        sale = Sale(F(7, 10), buyers, F(21, 2), F(21, 2), auction)
        yield exact((real("10.5") - short, real("0.7") * low, real("0.7") * high), lambda s=sale: (s.promised(), s.revenue_range()))


@REGISTRY.formula("games.auctions.Auction.curve")
def _auction_curve() -> Iterator[Vector]:
    for counting, held in (("0", 1), ("0.25", 1), ("0.5", 3)):
        auction = digital_goods(_BIDS, 2, ("0.3", "0.7"), per_bidder=held, counting=counting)
        yield exact((F(2), F(2) * (1 - F(counting))), lambda a=auction: (a.curve.max_divergence, a.price_curve.max_divergence))


# ── truthfulness ───────────────────────────────────────────────────────────────────────────────


def _ranged(eta: Any, t: Real) -> list[tuple[Real, Real]]:
    """Two outcomes of loss t and t − η."""
    high, low = MP.exp(t), MP.exp(t - real(eta))
    q = (1 - low) / (high - low)
    return [(q * high, q), ((1 - q) * low, 1 - q)]


def _ranged_variation(eta: Any) -> Real:
    return most_value(lambda t: hockey_stick(_ranged(eta, t), 0), real(eta) / 10**6, real(eta) * (1 - MP.mpf(10) ** -6))


@REGISTRY.formula("games.truth.bounds")
@REGISTRY.formula("games.rules.variation")
def _bounds() -> Iterator[Vector]:
    """Total variation of k replaced reports, outcome by outcome; add-remove curves count twice."""
    for epsilon, neighbours, k in (("1", "replace", 1), ("0.1", "replace", 3), ("0.5", "add-remove", 2)):
        whole = F(epsilon) * k * (2 if neighbours == "add-remove" else 1)
        varied = hockey_stick(response(whole), 0)
        growth = MP.quad(MP.exp, [0, real(whole)])
        wanted = (2 * real(whole), growth, varied, varied)  # in the order of their names
        yield upper([each * (1 - MP.mpf(10) ** -15) for each in wanted], 1e-12, lambda e=epsilon, n=neighbours, k=k: truth.bounds(sf.Curve.pure(e, n), k))
    ranged = _ranged_variation(2)
    yield upper(ranged * (1 - MP.mpf(10) ** -15), 1e-12, lambda: truth.bounds(sf.Curve.bounded_range(1, "replace"), 2)["total variation"])
    yield exact((1.0,), lambda: truth.bounds(sf.Curve.approximate(40, "0.5", "replace"), 1)["total variation"])
    assert variation(sf.Curve.pure(1, "replace"), 1) < 1


@REGISTRY.formula("games.rules.Welfare.certified")
@REGISTRY.formula("games.rules.Stated.certified")
def _certified_rules() -> Iterator[Vector]:
    game = Environment([[1, 0], [0, 1]], players=3)
    for epsilon, neighbours, k in (("1", "replace", 1), ("1", "add-remove", 1), ("0.5", "replace", 2)):
        whole = F(epsilon) * k * (2 if neighbours == "add-remove" else 1)
        varied = as_fraction(_ranged_variation(whole))

        def call(e: str = epsilon, n: str = neighbours, k: int = k) -> tuple[Any, ...]:
            stated = Stated(game, lambda _: (1, 0), sf.Curve.bounded_range(e, n))
            rule = Welfare(game, sf.Exponential(e, neighbours=n))
            return rule.certified(k), stated.certified(k), Stated(game, lambda _: (1, 0)).certified(k)

        low, high = varied * (1 - F(1, 10**15)), varied * (1 + F(1, 10**12))
        yield between((low,) * 4 + (F(1), F(1)), (high,) * 4 + (F(1), F(1)), call)


# ── commitment ─────────────────────────────────────────────────────────────────────────────────

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
        [_utility(t, where, _best_reaction(t, where)) - _utility(t, where, _best_reaction(lie, where)) for where in _PLACES]
        for t in range(_STREET)
        for lie in range(_STREET)
        if lie != t
    ]


@REGISTRY.formula("games.environment.Environment.gap")
@REGISTRY.formula("games.commitment.Mixture.threshold")
def _gap() -> Iterator[Vector]:
    largest = min(max(row) for row in _penalties())
    penalty = min(sum(row) / len(row) for row in _penalties())
    for q in ("0.5", "0.1", "0.9"):

        def call(q: str = q) -> tuple[Any, ...]:
            game = line(_STREET, players=5)
            mixture = Mixture(game, "0.01", q)
            return mixture.gap.largest, mixture.gap.penalty, mixture.threshold

        yield exact((largest, penalty, F(q) * largest / len(_PLACES)), call)


@REGISTRY.formula("games.environment.Environment.spread")
def _spread() -> Iterator[Vector]:
    yield exact(F(1, 2), lambda: line(3, players=2).spread)
    yield exact(F(3, 4), lambda: Environment([["0.5", "0.25"], ["0.75", 1]], players=2).spread)
    yield exact(F(0), lambda: Environment([["0.5", "0.25"], ["0.5", "0.25"]], players=2).spread)


_PENALTY = min(sum(row) / len(row) for row in _penalties())
_UNIFORM = max(
    max(_utility(t, w, _best_reaction(t, w)) for w in _PLACES) - sum(_utility(t, w, _best_reaction(t, w)) for w in _PLACES) / len(_PLACES)
    for t in range(_STREET)
)


@REGISTRY.formula("games.commitment.Mixture.certified")
def _certified() -> Iterator[Vector]:
    """(1 − q)·τ less q times the average penalty; in a coalition a member may tell the truth."""
    game = line(_STREET, players=5)
    for epsilon, q, k in (("0.05", "0.5", 1), ("0.2", "0.3", 2), ("1", "0.9", 1)):
        varied = (1 - real(q)) * _ranged_variation(F(epsilon) * k)
        gain = varied - (real(q) * real(_PENALTY) if k == 1 else 0)
        low, high = as_fraction(gain - varied * MP.mpf(10) ** -15), as_fraction(gain + varied * MP.mpf("1e-12"))
        yield between((low, F(1)), (high, F(1)), Mixture(game, epsilon, q).certified, k)


@REGISTRY.formula("games.commitment._least_q")
def _least_q() -> Iterator[Vector]:
    """The least q with (1 − q)·τ < q·p, at most a step of its sixth digit above."""
    for epsilon in ("0.05", "1", "0.001"):
        tau = _ranged_variation(epsilon)
        least = root(lambda q, t=tau: q * real(_PENALTY) - (1 - q) * t, 0, 1)
        yield upper(least, 2e-6, commitment._least_q, F(epsilon), _PENALTY)


@REGISTRY.formula("games.commitment._largest_epsilon")
def _largest_epsilon() -> Iterator[Vector]:
    for q in ("0.1", "0.01", "0.5"):
        largest = root(lambda e, q=q: _ranged_variation(F(MP.nstr(e, 25))) - real(q) * real(_PENALTY) / (1 - real(q)), "0.0001", 20, 60)
        yield lower(largest, 2e-6, commitment._largest_epsilon, F(q), _PENALTY)


@REGISTRY.formula("games.commitment._uniform_loss")
@REGISTRY.formula("games.commitment._loss")
def _losses() -> Iterator[Vector]:
    for epsilon, q, players in (("0.5", "0.25", 40), ("0.01", "0.5", 5), ("4", "0.01", 1000)):
        game = line(_STREET, players=players)
        free = min(MP.mpf(1), 2 * MP.log(3) / (real(epsilon) * players))
        yield exact((1 - real(q)) * free + real(q) * real(_UNIFORM), lambda g=game, e=epsilon, q=q: Mixture(g, e, q).loss)


@REGISTRY.formula("games.commitment._best_epsilon")
@REGISTRY.formula("games.commitment._best_epsilon.bound")
def _best_epsilon() -> Iterator[Vector]:
    """The bound at the chosen ε is that of a finer search, to a part in ten thousand."""
    for players in (50, 1000, 20000):
        game = line(_STREET, players=players)

        def bound(epsilon: Real, n: int = players) -> Real:
            tau = _ranged_variation(F(MP.nstr(epsilon, 20))) if n == 50 else (MP.exp(epsilon / 2) - 1) / (MP.exp(epsilon / 2) + 1)
            q = tau / (tau + real(_PENALTY))
            return (1 - q) * min(MP.mpf(1), 2 * MP.log(3) / (epsilon * n)) + q * real(_UNIFORM)

        with MP.workdps(20):
            least = least_value(lambda log, b=bound: b(MP.exp(log)), -6, 3, 30)
        yield upper(least * (1 - MP.mpf(10) ** -12), 1e-4, lambda g=game, b=bound: float(b(real(commitment._best_epsilon(g)))))


@REGISTRY.formula("games.commitment.Mixture.welfare")
def _welfare() -> Iterator[Vector]:
    for types, epsilon, q in (((0, 0, 2), "1", "0.5"), ((1, 1, 1), "0.2", "0.1"), ((0, 1, 2), "3", "0.9")):
        scores = [sum(_utility(t, w, _best_reaction(t, w)) for t in types) for w in _PLACES]
        weights = [MP.exp(real(epsilon) / 2 * real(s)) for s in scores]
        free = MP.fsum(w * real(s) for w, s in zip(weights, scores, strict=True)) / MP.fsum(weights)
        mixed = (1 - real(q)) * free + real(q) * real(sum(scores)) / 3
        mixture = Mixture(line(_STREET, players=3), epsilon, q)
        yield exact((mixed / 3, real(max(scores)) / 3), mixture.welfare, types)


# ── money ──────────────────────────────────────────────────────────────────────────────────────


@REGISTRY.formula("games.money.Priced.payments")
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


# ── equilibria ─────────────────────────────────────────────────────────────────────────────────


@REGISTRY.formula("games.mediation._sensitivity")
def _mediated_sensitivity() -> Iterator[Vector]:
    """Strategies in whole units with sum at most B: all differences of two, for a small B."""
    for actions in (2, 3, 4):
        unit = 2
        every = [v for v in itertools.product(range(unit + 1), repeat=actions) if sum(v) <= unit]
        moves = [tuple(a - b for a, b in zip(v, w, strict=True)) for v in every for w in every]
        largest = max(max(map(abs, m)) for m in moves), max(sum(map(abs, m)) for m in moves), max(sum(x * x for x in m) for m in moves)
        wanted = (largest[0] * 2**16 // unit, largest[1] * 2**16 // unit, largest[2] * 2**32 // unit**2)
        yield exact(tuple(map(F, wanted)), lambda a=actions: ((s := mediation._sensitivity(a)).linf, s.l1, s.squares))


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


@REGISTRY.formula("games.mediation.Advice.regret")
@REGISTRY.formula("games.mediation.Advice.bound")
@REGISTRY.formula("games.mediation.Advice.estimate")
def _regret() -> Iterator[Vector]:
    """The best action's expectation less that of the advice; with 2ε + δ, and with τ."""
    rows = [[_expected(own, action) for action in range(2)] for own in range(2)]
    regret = max(max(row) - sum(F(float(p)) * u for p, u in zip(mixed, row, strict=True)) for row, mixed in zip(rows, _STRATEGIES, strict=True))
    for epsilon, delta in (("0.5", "0"), ("1", "0.01"), ("0.1", "1e-3")):
        proposal = equilibrium(_small_crowd(), epsilon, delta, rounds=2)
        advice = Advice(proposal, _STRATEGIES, np.zeros((2, 2)), np.array([0, 0, 1, 1]))
        tau = min(1.0, proposal.curve.delta(0))
        wanted = (float(regret), float(regret + 2 * F(epsilon) + F(delta)), float(regret) + tau)
        yield exact(wanted, lambda a=advice: (a.regret, a.bound, a.estimate))


@REGISTRY.formula("games.mediation.Mediation.error")
def _mediation_error() -> Iterator[Vector]:
    """All actions' loads at once: the noise in units of 1/B, and what rounding down takes from every player."""
    crowd = _small_crowd()
    for scale, confidence in (("2", "0.95"), ("5", "0.999"), ("10", "0.5")):
        law = laplace_law(F(scale))
        width = next(w for w in range(2000) if (1 - MP.fsum(m for x, m in law.items() if abs(x) > w)) ** 2 >= real(confidence))
        made = Mediation(crowd, sf.Guarantee(1), 2, sf.Laplace(scale))
        yield upper(MP.mpf(width + 4) / 2**16, 1e-6, made.error, confidence)


@REGISTRY.formula("games.crowds.Crowd.welfare")
def _crowd_welfare() -> Iterator[Vector]:
    for profile, wanted in (((0, 0, 1, 1), (0.5 + 0.5 + 0.7 + 0.7) / 4), ((1, 1, 1, 1), (0.0 + 0.0 + 0.4 + 0.4) / 4), ((0, 1, 0, 1), (0.5 + 0.6 + 0.2 + 0.7) / 4)):
        yield exact(wanted, _small_crowd().welfare, np.array(profile))
    yield exact(0.5 * 0.5 + 0.5 * 0.5, market_entry([0, 0], [0.5]).welfare, np.array([0, 1]))


@REGISTRY.formula("games.laws.law_of")
def _laws() -> Iterator[Vector]:
    """Exponential weights; permute-and-flip by all orders in which candidates can come."""
    scores = [3, 2, 0]
    for epsilon in (1, 2, 3):
        weights = [MP.exp(real(epsilon) / 2 * s) for s in scores]
        wanted = [w / MP.fsum(weights) for w in weights]
        yield exact(wanted, lambda e=epsilon: [float(p) for p in law_of(sf.Exponential(e), scores).probabilities])
        kept = [MP.exp(real(epsilon) / 2 * (s - 3)) for s in scores]
        flipped = [MP.mpf(0)] * 3
        for order in itertools.permutations(range(3)):
            left = MP.mpf(1) / 6
            for each in order:
                flipped[each] += left * kept[each]
                left *= 1 - kept[each]
        yield exact(flipped, lambda e=epsilon: [float(p) for p in law_of(sf.PermuteAndFlip(e), scores).probabilities])


# ── surveys ────────────────────────────────────────────────────────────────────────────────────


@REGISTRY.formula("surveys.encodings.chances")
def _chances() -> Iterator[Vector]:
    for epsilon, cells in (("1", 2), ("0.001", 5), ("4", 30)):
        both = response(epsilon, cells)
        yield exact((both[1][0], both[0][0] - both[1][0]), lambda e=epsilon, k=cells: ((c := chances(RandomizedResponse(e, k))).q, c.gap))
        q = response(epsilon)[1][0]
        yield exact((q, MP.mpf("0.5") - q), lambda e=epsilon, k=cells: ((c := chances(OptimizedUnaryEncoding(e, k))).q, c.gap))
        hashed = max(2, round(math.exp(float(epsilon))) + 1)
        told, meet = response(epsilon, hashed), _meets(hashed)
        other = meet * told[0][0] + (1 - meet) * told[1][0]
        yield exact((other, told[0][0] - other), lambda e=epsilon, k=cells: ((c := chances(OptimalLocalHashing(e, k))).q, c.gap))


def _meets(cells: int) -> Real:
    """Two different numbers below the prime fall into one cell: counted cell by cell."""
    sizes = [len(range(cell, PRIME, cells)) for cell in range(cells)]
    return MP.fsum(MP.mpf(n) * (n - 1) for n in sizes) / (MP.mpf(PRIME) * (PRIME - 1))


@REGISTRY.formula("surveys.encodings._meeting")
def _meeting_vectors() -> Iterator[Vector]:
    for cells in (2, 4, 1000):
        yield exact(_meets(cells), _meeting, cells)


_CHANCE = Chances(0.25, 0.5)


@REGISTRY.formula("surveys.encodings.Chances.held")
@REGISTRY.formula("surveys.encodings.Chances.other")
@REGISTRY.formula("surveys.encodings.Chances.mean_variance")
def _report_variances() -> Iterator[Vector]:
    """E[X²] − E[X]² of X = (S − q)/(p − q) for one report, S a coin."""
    for q, gap, cells in ((F(1, 4), F(1, 2), 3), (F(1, 8), F(3, 4), 2), (F(1, 2), F(1, 4), 10)):

        def variance(chance: F, q: F = q, gap: F = gap) -> F:
            one, none = (1 - q) / gap, -q / gap
            mean = chance * one + (1 - chance) * none
            return chance * one**2 + (1 - chance) * none**2 - mean**2

        held, other = variance(q + gap), variance(q)
        mean = sum([held, *[other] * (cells - 1)]) / cells
        made = Chances(float(q), float(gap))
        yield exact(tuple(map(float, (held, other, mean))), lambda c=made, k=cells: (c.held, c.other, c.mean_variance(k)))


@REGISTRY.formula("surveys.choosing.share")
@REGISTRY.formula("surveys.choosing.variance")
def _ways() -> Iterator[Vector]:
    """One of m questions: the variance of m times a count among those asked, and of who is asked."""
    for epsilon, cells, questions, sampled in (("1", 3, 2, True), ("2", 4, 1, True), ("1", 2, 3, False)):
        each = F(epsilon) if sampled else F(epsilon) / questions
        both = response(each, cells)
        p, q = both[0][0], both[1][0]
        alone = (p * (1 - p) + (cells - 1) * q * (1 - q)) / (cells * (p - q) ** 2)
        m = questions if sampled else 1
        drawn = m * (MP.mpf(1) / cells) * (1 - MP.mpf(1) / cells) * (1 - MP.mpf(1) / m)  # m²·f(1−f)/m, less f(1−f)
        yield exact((each, m * alone + drawn), lambda e=epsilon, k=cells, n=questions, s=sampled, m=m: ((share := choosing.share(F(e), n, sampled=s)), choosing.variance(Encoding.RESPONSE, k, share, m)))


def _limits(found: int, asked: int, miss: Real) -> tuple[Real, Real]:
    low = root(lambda p: MP.fsum(binomial(asked, p)[found:]) - miss, 0, 1, 45) if found else MP.mpf(0)
    high = root(lambda p: miss - MP.fsum(binomial(asked, p)[: found + 1]), 0, 1, 45) if found < asked else MP.mpf(1)
    return min(low, max(MP.mpf(0), MP.mpf(found - 1) / asked)), max(high, min(MP.mpf(1), MP.mpf(found + 1) / asked))


@REGISTRY.formula("surveys.counts.frequency_limits")
def _frequency_limits() -> Iterator[Vector]:
    """Clopper and Pearson's, and one event further at least."""
    for found, asked, miss in ((3, 20, "0.025"), (0, 12, "0.01"), (12, 12, "0.1"), (8, 16, "0.45")):
        low, high = _limits(found, asked, real(miss))
        yield between((down(low * (1 - MP.mpf("1e-6"))), up(high)), (down(low) if low else 0.0, up(min(1, high + MP.mpf("1e-6")))), counts.frequency_limits, found, asked, float(miss))
    yield exact((0.0, 1.0), counts.frequency_limits, 0, 0, 0.1)


@REGISTRY.formula("surveys.counts.interval")
def _interval() -> Iterator[Vector]:
    for found, asked, respondents in ((9, 20, 20), (9, 20, 60), (1, 15, 15)):
        low, high = ((each - MP.mpf("0.25")) / MP.mpf("0.5") * respondents for each in _limits(found, asked, MP.mpf("0.025")))
        low, high = max(MP.mpf(0), low), min(MP.mpf(respondents), high)
        slack = 1e-4
        yield between((down(low) - slack if low else 0.0, up(high)), (down(low), min(float(respondents), up(high) + slack)), counts.interval, found, asked, respondents, _CHANCE, 0.05)


@REGISTRY.formula("surveys.counts.estimated")
def _estimated() -> Iterator[Vector]:
    """The expected supports of known holders give their number back."""
    for holders, asked, respondents in (((10, 30), 40, 40), ((0, 12), 12, 48), ((5, 15, 20), 40, 40)):
        supports = np.array([0.75 * x + 0.25 * (asked - x) for x in holders])
        wanted = [x * respondents / asked for x in holders]
        yield between([w - 1e-9 for w in wanted], [w + 1e-9 for w in wanted], counts.estimated, supports, asked, respondents, _CHANCE)
    yield exact([3.0, 3.0, 3.0], counts.estimated, np.zeros(3), 0, 9, _CHANCE)


_TWO = Chances(0.125, 0.75)


@REGISTRY.formula("surveys.counts.PairCounts.estimates")
def _pair_estimates() -> Iterator[Vector]:
    """Expected supports, alone and together, of people who hold both, one or none."""
    for both, first, second, none in ((5, 10, 20, 15), (0, 8, 8, 0), (30, 0, 0, 2)):
        people = both + first + second + none
        p1, q1, p2, q2 = 0.75, 0.25, 0.875, 0.125
        one = np.array([p1 * (both + first) + q1 * (second + none)])
        two = np.array([p2 * (both + second) + q2 * (first + none)])
        joint = np.array([[both * p1 * p2 + first * p1 * q2 + second * q1 * p2 + none * q1 * q2]])
        yield between(both - 1e-9, both + 1e-9, PairCounts(one, two, joint, people, (_CHANCE, _TWO)).estimates)


@REGISTRY.formula("surveys.counts.PairCounts.variances")
def _pair_variances() -> Iterator[Vector]:
    """Everybody's variance is enumerated; the bound takes as many as can hold both, and is reached by them."""

    def variance(chance_one: F, chance_two: F) -> F:
        total = square = F(0)
        for s, t in itertools.product((0, 1), repeat=2):
            chance = (chance_one if s else 1 - chance_one) * (chance_two if t else 1 - chance_two)
            value = (s - F(1, 4)) / F(1, 2) * ((t - F(1, 8)) / F(3, 4))
            total, square = total + chance * value, square + chance * value**2
        return square - total**2

    kinds = {(a, b): variance(F(3, 4) if a else F(1, 4), F(7, 8) if b else F(1, 8)) for a in (0, 1) for b in (0, 1)}
    for first, second, people in ((10, 20, 50), (7, 7, 7), (0, 5, 9)):
        every = [
            both * kinds[1, 1] + (first - both) * kinds[1, 0] + (second - both) * kinds[0, 1] + (people - first - second + both) * kinds[0, 0]
            for both in range(min(first, second) + 1)
            if people - first - second + both >= 0
        ]
        found = PairCounts(np.zeros(1), np.zeros(1), np.zeros((1, 1)), people, (_CHANCE, _TWO))
        yield between(float(max(every)) * (1 - 1e-12), float(max(every)) * (1 + 1e-12), found.variances, np.array([float(first)]), np.array([float(second)]))


@REGISTRY.formula("surveys.counts.PairCounts.half_widths")
@REGISTRY.formula("surveys.counts.PairCounts._most")
@REGISTRY.formula("surveys.counts._largest")
def _pair_widths() -> Iterator[Vector]:
    """Bernstein's bound is half of the miss: a root; the variance where as many hold each cell as limits leave possible."""
    for first, second, people, miss in ((9, 8, 20, "0.05"), (5, 12, 16, "0.01"), (10, 3, 12, "0.2")):
        most = [
            min(MP.mpf(people), (_limits(found, people, real(miss) / 4)[1] - MP.mpf(q)) / MP.mpf(gap) * people)
            for found, q, gap in ((first, "0.25", "0.5"), (second, "0.125", "0.75"))
        ]
        held = [max(MP.mpf(0), each) for each in most]
        rises = [1 + MP.mpf(c.p) * (1 - MP.mpf(c.p)) / MP.mpf(c.gap) ** 2 - MP.mpf(c.q) * (1 - MP.mpf(c.q)) / MP.mpf(c.gap) ** 2 for c in (_CHANCE, _TWO)]
        others = [MP.mpf(c.q) * (1 - MP.mpf(c.q)) / MP.mpf(c.gap) ** 2 for c in (_CHANCE, _TWO)]
        spread = people * others[0] * others[1] + held[0] * rises[0] * others[1] + held[1] * others[0] * rises[1]
        spread += max(MP.mpf(0), rises[0] * rises[1] - 1) * min(held)
        largest = MP.mpf("0.75") / MP.mpf("0.5") * (MP.mpf("0.875") / MP.mpf("0.75")) + 1  # S·S' less its mean, which is 0 or 1
        width = root(lambda t, v=spread, m=largest, p=miss: real(p) / 2 - 2 * MP.exp(-t * t / (2 * v + 2 * m * t / 3)), 0, 10**4)
        found = PairCounts(np.array([float(first)]), np.array([float(second)]), np.zeros((1, 1)), people, (_CHANCE, _TWO))
        yield upper(width * (1 - MP.mpf("1e-12")), 1e-5, lambda f=found, m=miss: float(f.half_widths(float(m))[0, 0]))


@REGISTRY.formula("surveys.forms.Form.error")
@REGISTRY.formula("surveys.forms.Form._miss")
def _form_error() -> Iterator[Vector]:
    """Half of what limits leave possible at the expected number of supports, of one question of all or of those asked."""
    for epsilon, split, together, respondents in (("2", True, False, 24), ("2", True, True, 30), ("3", False, False, 40)):
        form = collect({"a": ["x", "y"], "b": ["u", "v", "w"]}, epsilon, split=split)
        asked = respondents if split else respondents // 2
        miss = real("0.05") / (7 if together else 1)  # 3 + 4 cells: one more each for no answer
        wanted = []
        for cells, encoding in zip((3, 4), form.encodings, strict=True):
            chance = chances(encoding.mechanism(F(epsilon) / (2 if split else 1), cells))
            expected = round(asked * (chance.q + chance.gap / cells))
            low, high = _limits(expected, asked, miss / 2)
            wanted.append(min(MP.mpf(respondents), respondents * (high - low) / (2 * MP.mpf(chance.gap))))
        yield upper([w * (1 - MP.mpf("1e-9")) for w in wanted], 1e-5, lambda f=form, n=respondents, t=together: f.error(n, together=t))


@REGISTRY.formula("surveys.forms.Form._pair_error")
def _form_pairs() -> Iterator[Vector]:
    """A pair's own half-width at expected supports, of cells and pairs together where all shall hold at once."""
    for respondents, together in ((20, False), (30, True), (25, False)):
        form = collect({"a": ["x"], "b": ["u", "v"]}, 6, split=True)
        miss = 0.05 / (2 + 3 + 6 if together else 1)
        ways = [chances(encoding.mechanism(F(3), cells)) for cells, encoding in zip((2, 3), form.encodings, strict=True)]
        expected = [np.array([float(round(respondents * (c.q + c.gap / k)))]) for c, k in zip(ways, (2, 3), strict=True)]
        alone = PairCounts(*expected, np.zeros((1, 1)), respondents, (ways[0], ways[1])).half_widths(miss)[0, 0]
        wanted = min(float(respondents), float(alone))
        yield exact(wanted, lambda f=form, n=respondents, t=together: f.error(n, pairs=[("a", "b")], together=t)["a", "b"])


@REGISTRY.formula("surveys.forms._above")
def _rounded_up() -> Iterator[Vector]:
    for number, words in ((math.e, "2.719"), (20.0855369, "20.09"), (1.0005, "1.001"), (12345.6, "12,350")):
        yield exact(words, _above, number)


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
