"""Vectors of sensitivities, readings of a guarantee, odometers and allowances."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import sfumato as sf
from sfumato.privacy import numbers
from sfumato.privacy.precedents import posterior_belief
from sfumato.privacy.reading import _log_odds_bound, posterior, reading
from sfumato.privacy.sensitivity import _square_root_above
from vectors.formula_words import LOSS_PARAMETERS, LOSS_WORDS
from vectors.laws import (
    MP,
    ROUNDED,
    Real,
    false_negative_rate,
    gaussian_delta,
    hockey_stick,
    least_value,
    real,
    renyi,
    response,
    root,
    upper,
)
from vectors.registry import Registry, Scope, Vector, between, exact

F = Fraction

REGISTRY = Registry(
    scopes=(
        Scope(
            (
                "privacy/sensitivity.py",
                "privacy/reading.py",
                "privacy/precedents.py",
                "privacy/odometer.py",
                "privacy/budget.py",
            ),
            words=LOSS_WORDS,
            parameters=LOSS_PARAMETERS,
        ),
    ),
    exempt={
        "privacy.budget.Budget.__init__": "its allowances are those of renyi_allowance and allowance_units",
        "privacy.budget.Budget.charge": "it adds a cost, which has vectors",
        "privacy.budget._remaining_pure_units": "it is the pure part of Budget.remaining, which has vectors",
        "privacy.budget._search_largest_pure": "it is Budget.largest_pure, which has vectors",
        "privacy.reading._log_odds_bound.bound": "the whole search over it has vectors",
    },
)


def _vectors(groups: int, per_group: int, total: int, *, signed: bool) -> list[tuple[int, ...]]:
    """List the contributions of one unit to two coordinates more than it may touch."""
    values = range(-per_group if signed else 0, per_group + 1)
    every = itertools.product(values, repeat=groups + 1)
    return [v for v in every if sum(map(abs, v)) <= total and sum(1 for x in v if x) <= groups]


def _norms(vectors: Any) -> tuple[int, int, int]:
    return (
        max(max(map(abs, v)) for v in vectors),
        max(sum(map(abs, v)) for v in vectors),
        max(sum(x * x for x in v) for v in vectors),
    )


@REGISTRY.formula("privacy.sensitivity._concentrated_squares")
def _squares() -> Iterator[Vector]:
    for groups, per_group, total in ((3, 2, 5), (2, 3, 4), (3, 1, 2), (2, 2, 4)):
        wanted = _norms(_vectors(groups, per_group, total, signed=True))
        yield exact(
            wanted, lambda g=groups, p=per_group, t=total: ((s := sf.Sensitivity(g, p, t)).linf, s.l1, s.squares)
        )


@REGISTRY.formula("privacy.sensitivity.Sensitivity.for_neighbours")
def _replaced() -> Iterator[Vector]:
    """Differences of all pairs of contributions; with one sign, and with both."""
    for groups, per_group, total, signed in (
        (2, 2, 3, True),
        (2, 2, 3, False),
        (1, 3, 3, True),
        (1, 3, 3, False),
        (2, 2, 4, False),
    ):
        every = _vectors(groups, per_group, total, signed=signed)
        wide = [v + (0,) * groups for v in every]
        turned = [(0,) * groups + v for v in every]
        differences = [tuple(a - b for a, b in zip(v, w, strict=True)) for v in wide for w in wide + turned]
        # a bound on the squares is twice, or four times, that of one contribution
        most = (4 if signed else 2) * _norms(every)[2]
        reached = _norms(differences)

        def call(g: int = groups, p: int = per_group, t: int = total, signed: bool = signed) -> tuple[Fraction, ...]:
            found = sf.Sensitivity(g, p, t).for_neighbours("replace", signed=signed)
            return found.linf, found.l1, found.squares

        yield between(reached, (reached[0], reached[1], max(reached[2], most)), call)


@REGISTRY.formula("privacy.sensitivity.Sensitivity.repeated")
def _times() -> Iterator[Vector]:
    every = _vectors(2, 2, 3, signed=True)
    for k in (1, 2, 3):
        norms = [0, 0, 0]
        for picked in itertools.product(every[:: 3 if k == 3 else 1], repeat=k):
            norms = [
                max(a, b) for a, b in zip(norms, _norms([tuple(map(sum, zip(*picked, strict=True)))]), strict=True)
            ]
        wanted = (2 * k, 3 * k, 5 * k * k)
        assert all(a <= b for a, b in zip(norms, wanted, strict=True))
        yield between(
            norms if k < 3 else wanted,
            wanted,
            lambda k=k: ((s := sf.Sensitivity(2, 2, 3).repeated(k)).linf, s.l1, s.squares),
        )


@REGISTRY.formula("privacy.sensitivity._square_root_above")
def _roots() -> Iterator[Vector]:
    for square in (F(2), F(10**310), F(1, 3), F(9)):
        truth = MP.sqrt(real(square))
        yield upper(truth, 3e-16, _square_root_above, square)


def _posterior(prior: Any, log_odds: Real) -> Real:
    """Bayes' rule: the guess is e^{log_odds} times as likely where it is true."""
    p = real(prior)
    return p * MP.exp(log_odds) / (p * MP.exp(log_odds) + 1 - p)


@REGISTRY.formula("privacy.reading.posterior")
def _posteriors() -> Iterator[Vector]:
    for prior, log_odds in (("0.01", 1.0), ("0.5", 0.1), ("0.999", 3.0), ("1e-9", 20.0)):
        yield upper(_posterior(prior, MP.mpf(log_odds)), 1e-13, posterior, float(prior), log_odds)


@REGISTRY.formula("privacy.precedents.posterior_belief")
def _believed() -> Iterator[Vector]:
    """A loss above ε + h has probability at most δ/(1 − e^{−h}), which is ten times δ where e^{−h} is nine tenths."""
    for epsilon, delta, prior in (("1", "1e-6", "0.01"), ("0.5", "1e-9", "0.5"), ("2", "0", "0.1")):
        slack = root(lambda h: MP.exp(-h) * -10 + 9, 0, 1) if delta != "0" else MP.mpf(0)
        yield upper(
            _posterior(prior, real(epsilon) + slack), 1e-13, posterior_belief, sf.Guarantee(epsilon, delta), prior
        )


@REGISTRY.formula("privacy.reading._log_odds_bound")
def _odds() -> Iterator[Vector]:
    """The least ε − ln(1 − δ(ε)/p) for a Gaussian, whose δ is integrated; and for a bare (ε, δ)."""
    for mu, share, low, high in (("0.25", "1e-6", "0.9", "1.4"), ("1", "0.01", "1.4", "3")):
        with MP.workdps(15):
            truth = least_value(lambda e, m=mu, p=share: _passed(e, gaussian_delta(m, e), p), low, high, 22)
        yield upper(truth * (1 - MP.mpf("1e-8")), 1e-4, _log_odds_bound, sf.Curve.gdp(mu), F(share))
    for epsilon, delta, share in (("1", "1e-6", "1e-5"), ("0.3", "1e-9", "2e-9")):
        truth = real(epsilon) - MP.log(1 - real(delta) / real(share))
        yield upper(truth, 1e-12, _log_odds_bound, sf.Curve.approximate(epsilon, delta), F(share))
    for epsilon, share in (("3", "0.5"), ("2", "0.9")):  # pure, and yet an exception lowers what is said
        truth = least_value(lambda e, x=epsilon, p=share: _passed(e, hockey_stick(response(x), e), p), 0, epsilon, 50)
        yield upper(truth * (1 - MP.mpf("1e-8")), 1e-3, _log_odds_bound, sf.Curve.pure(epsilon), F(share))
    yield exact(0.25, _log_odds_bound, sf.Curve.pure("0.25"), F(1, 10**9))


def _passed(epsilon: Real, delta: Real, share: str) -> Real:
    return real(epsilon) - MP.log(1 - delta / real(share)) if delta < real(share) else MP.mpf(1000) - real(epsilon)


@REGISTRY.formula("privacy.reading._default_delta")
def _usual() -> Iterator[Vector]:
    """Ten times the δ of an exchange, δ(1 + e^ε); of one unit where that is 1 or more; else half way to 1."""
    for epsilon, delta in (("1", "1e-6"), ("0.5", "1e-3")):
        truth = 10 * real(delta) * (1 + MP.exp(real(epsilon)))
        yield upper(truth, ROUNDED, lambda e=epsilon, d=delta: reading(sf.Guarantee(e, d)).delta)
    yield exact(0.5, lambda: reading(sf.Guarantee(4, "0.05")).delta)
    yield exact(0.6, lambda: reading(sf.Guarantee(1, "0.2")).delta)
    yield exact(1e-5, lambda: reading(sf.Guarantee(1, "1e-6"), neighbours="replace").delta)


@REGISTRY.formula("privacy.reading.reading")
def _readings() -> Iterator[Vector]:
    for epsilon, prior, rate in (("1", "0.01", "0.05"), ("0.2", "0.5", "0.3"), ("3", "0.1", "0.001")):
        e = real(epsilon)
        found = 1 - false_negative_rate(response(epsilon), real(rate))
        truths = (_posterior(prior, e), _posterior(prior, 2 * e), found)
        yield upper(
            truths,
            2e-6,
            lambda e=epsilon, p=prior, r=rate: (
                (told := reading(sf.Guarantee(e), p, false_positive_rate=r)).membership,
                told.attribute,
                told.true_positive_rate,
            ),
        )


@REGISTRY.formula("privacy.odometer._default_order")
def _default_order() -> Iterator[Vector]:
    """1 + 2 ln(1/δ), to four digits; at least 1.1."""
    for delta, order in (("1e-6", F("28.63")), ("0.01", F("10.21")), ("0.99", F("1.1"))):
        yield exact(order, lambda d=delta: sf.odometer([sf.Curve.pure(1)], d).order)


@REGISTRY.formula("privacy.odometer._adaptive_epsilons_and_exceptions")
@REGISTRY.formula("privacy.odometer._cumulative_sums_rounded_up")
def _adaptive_line() -> Iterator[Vector]:
    """Divergences of randomised response are added up; the smaller of both lines, and what failures add to it."""
    for epsilon, delta, order, count in (("0.1", "1e-6", "30", 40), ("0.5", "0.01", "4", 3), ("0.01", "1e-3", "12", 1)):
        line = [
            min(t * real(epsilon), t * renyi(response(epsilon), order) - MP.log(real(delta)) / (real(order) - 1))
            for t in range(1, count + 1)
        ]
        made = lambda e=epsilon, d=delta, o=order, n=count: sf.odometer([sf.Curve.pure(e)] * n, d, order=o).adaptive  # noqa: E731
        yield upper([each * (1 - MP.mpf(10) ** -14) for each in line], 1e-11, made)
    for failure, margin in (("1e-9", "1"), ("1e-8", "0.25"), ("3e-8", "0.7"), ("7e-10", "3"), ("1.1e-8", "0.3")):
        line = [t * real("0.5") + real(margin) - t * MP.log(1 - real(failure)) for t in (1, 2, 3)]
        missed = [real("1e-6") + t * real(failure) / (1 - MP.exp(-real(margin))) for t in (1, 2, 3)]
        again = lambda f=failure, m=margin: (  # noqa: E731
            (o := sf.odometer([sf.Curve.approximate("0.5", f)] * 3, "1e-6", order=20, margin=m)).adaptive,
            o.exceptions,
        )
        yield upper([*line, *missed], 1e-11, again)
    revealed = sf.Curve.pair([1, 0], [0, 1])
    yield exact((math.inf, 1.0), lambda: ((o := sf.odometer([revealed], "1e-6")).adaptive, o.exceptions))
    both = [(sf.Curve.approximate(1, "0.6"), 2)]
    yield exact((math.inf, 1.0), lambda: ((o := sf.odometer(both, "1e-6")).adaptive, o.exceptions))


@REGISTRY.formula("privacy.budget.Budget.share")
def _share() -> Iterator[Vector]:
    account = sf.Budget(1, "1e-6")
    allowed = account.allowances
    for part in (F(1, 2), F(1, 3), F(1)):
        wanted = (part * 10**30, math.floor(part * (allowed.renyi or 0)), part * F(10**30, 10**7))
        yield exact(wanted, lambda p=part: ((s := account.share(p).allowances).pure, s.renyi, s.failure))


@REGISTRY.formula("privacy.budget.Budget._largest_within_pure_currency")
def _largest_from_pure() -> Iterator[Vector]:
    """All that is left where that is charged as it is; whole units where its denominator is beyond 10⁹."""
    for spent, left in (("1/3", F(2, 3)), ("0.25", F(3, 4)), ("1", F(0)), ("7/1000000000", F(999999993, 10**9))):
        yield exact(left, sf.Budget(1).charge(sf.Curve.pure(spent))._largest_within_pure_currency)
    twice = sf.Budget(1).charge(sf.Curve.pure(F(1, 10**9 - 1))).charge(sf.Curve.pure(F(1, 10**9 - 2)))
    units = (10**30 * (1 - F(1, 10**9 - 1) - F(1, 10**9 - 2))).__floor__()
    yield exact(F(units, 10**30), twice._largest_within_pure_currency)


@REGISTRY.formula("privacy.budget.Budget.largest_pure")
def _largest_pure() -> Iterator[Vector]:
    """The largest ε whose response costs no more than the Rényi allowance, or what is left of ε."""
    yield exact(F(1), sf.Budget(1).largest_pure)
    for epsilon, delta in (("1", "1e-6"), ("0.1", "1e-3")):
        account = sf.Budget(epsilon, delta)
        order, allowed = account.order, real(F(account.allowances.renyi or 0, numbers.UNIT))
        affordable = root(lambda e, o=order, r=allowed: renyi(response(e), o) - r, 0, 10)
        best = max(affordable, real(epsilon))
        yield between(float(best) - 3e-9, float(best), account.largest_pure)
    spent = sf.Budget("0.1", "1e-3").charge(sf.Curve.pure("0.06"))
    left = real(F((spent.allowances.renyi or 0) - (spent.spent_renyi or 0), numbers.UNIT))
    afforded = root(lambda e: renyi(response(e), spent.order) - left, 0, 10)
    best = max(afforded, real("0.04"))
    yield between(float(best) - 3e-9, float(best), spent.largest_pure)


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
