"""Vectors of curves, their compositions, trade-offs, tails and ρ, and of key thresholds."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import sfumato as sf
from privacy.test_vectors import shifts, truth as worst_shift
from sfumato.privacy.threshold_losses import (
    GaussianKeyThresholdLoss,
    LaplaceKeyThresholdLoss,
    laplace_tail,
    max_passing_probability,
)
from vectors.formula_words import LOSS_PARAMETERS, LOSS_WORDS
from vectors.laws import (
    INVERTED,
    KNOWN,
    KNOWN_P,
    KNOWN_Q,
    MP,
    ROUNDED,
    Pairs,
    Real,
    as_fraction,
    at_least,
    down,
    enclosing,
    epsilon_of,
    false_negative_rate,
    gaussian_delta,
    gaussian_law,
    hockey_stick,
    laplace_law,
    least_value,
    most_value,
    moved,
    partitions,
    power,
    product,
    real,
    renyi,
    response,
    upper,
    upper_fraction,
)
from vectors.registry import Registry, Scope, Vector, between, exact

F = Fraction

REGISTRY = Registry(
    scopes=(
        Scope(
            (
                "privacy/curve.py",
                "privacy/shape.py",
                "privacy/threshold_losses.py",
            ),
            words=LOSS_WORDS,
            parameters=LOSS_PARAMETERS,
        ),
    ),
    exempt={"privacy.curve.Curve.group": "it counts units; the losses' own groups have vectors"},
)


@REGISTRY.formula("privacy.curve.Curve.gdp")
def _curve_of_gdp() -> Iterator[Vector]:
    for mu, k, epsilon in (("0.5", 1, "1"), ("0.25", 2, "0.5"), ("2", 1, "3")):
        truth = gaussian_delta(k * F(mu), epsilon)
        yield enclosing(truth, 1e-12, lambda m=mu, k=k, e=epsilon: sf.Curve.gdp(m).group(k).delta_range(e))


@REGISTRY.formula("privacy.curve.Curve.gaussian")
def _curve_of_gaussian() -> Iterator[Vector]:
    """Several coordinates count by their Euclidean length."""
    for sigma, change, length in (
        ("3", sf.Sensitivity(4, 2), "4"),
        ("5", sf.Sensitivity(3, 1, 2), MP.sqrt(2)),
        ("2", sf.Sensitivity(2, 3, neighbours="replace"), MP.sqrt(18)),
    ):
        mu = (real(length) if isinstance(length, str) else length) / real(sigma)
        yield enclosing(gaussian_delta(mu, 1), 1e-12, lambda s=sigma, c=change: sf.Curve.gaussian(s, c).delta_range(1))


@REGISTRY.formula("privacy.curve.Curve.discrete_gaussian")
def _curve_of_discrete_gaussian() -> Iterator[Vector]:
    """Every coordinate may move fully: the product of their laws, one by one; else the worst shift of all."""
    for sigma, change, shift in (
        ("1.5", sf.Sensitivity(2, 1), (1, 1)),
        ("2", sf.Sensitivity(1, "1.5"), (2,)),  # a real change is rounded up
        ("4.224678889326844", sf.Sensitivity(1, 1), (1,)),
    ):
        law = moved(gaussian_law(F(sigma)), shift[0])
        truth = hockey_stick(product(law, law) if len(shift) == 2 else law, 1)
        yield enclosing(truth, INVERTED, lambda s=sigma, c=change: sf.Curve.discrete_gaussian(s, c).delta_range(1))
    change = sf.Sensitivity(3, 2, 3)
    truth = max(worst_shift("2", shift, "1") for shift in shifts(change))
    yield enclosing(MP.mpf(truth), 1e-7, lambda: sf.Curve.discrete_gaussian(2, change).delta_range(1))


@REGISTRY.formula("privacy.curve.Curve.laplace")
@REGISTRY.formula("privacy.curve.Curve.discrete_laplace")
def _curve_of_laplace() -> Iterator[Vector]:
    """Of all whole changes within a sensitivity the worst is found by trying each of them."""
    law = laplace_law(F(3))
    few = {size: _merged(moved(law, size)) for size in (1, 2, 3)}
    for change, epsilon in (
        (sf.Sensitivity(2, 3, 4), "0.4"),
        (sf.Sensitivity(3, 2, 3), "0.2"),
        (sf.Sensitivity(2, 2), "0"),
    ):
        tried = [
            hockey_stick(product(*(few[size] for size in split)), epsilon)
            for split in partitions(int(change.total), int(change.per_group))
            if len(split) <= change.groups
        ]
        yield enclosing(max(tried), INVERTED, _both_laplace, change, epsilon)


def _both_laplace(change: sf.Sensitivity, epsilon: str) -> tuple[float, float]:
    """The continuous noise leaks no more, and takes the same way."""
    assert sf.Curve.laplace(3, change).delta(epsilon) <= sf.Curve.discrete_laplace(3, change).delta(epsilon)
    return sf.Curve.discrete_laplace(3, change).delta_range(epsilon)


def _merged(pairs: Pairs) -> Pairs:
    """Add up outcomes of one loss."""
    found: dict[str, list[Real]] = {}
    for p, q in pairs:
        cell = found.setdefault(MP.nstr(p / q, 25), [MP.mpf(0), MP.mpf(0)])
        cell[0], cell[1] = cell[0] + p, cell[1] + q
    return [(p, q) for p, q in found.values()]


def _composed(*parts: tuple[Pairs, int]) -> Pairs:
    found: Pairs = [(MP.mpf(1), MP.mpf(1))]
    for pairs, count in parts:
        for _ in range(count):
            found = _merged(product(found, pairs)) if len(pairs) < 400 else product(found, pairs)
    return found


def _curves() -> Iterator[tuple[sf.Curve, Pairs]]:
    law = laplace_law(F(2))
    yield sf.compose([(sf.Curve.pure("0.5"), 5)]), _composed((response("0.5"), 5))
    yield (
        sf.compose([sf.Curve.discrete_laplace(2, 2), sf.Curve.pure("0.3")]),
        _composed((_merged(moved(law, 2)), 1), (response("0.3"), 1)),
    )
    yield (
        sf.compose([(sf.Curve.randomized_response("0.4", 3), 3), sf.Curve.randomized_response("0.7")]),
        _composed((response("0.4", 3), 3), (response("0.7"), 1)),
    )
    yield sf.compose([(sf.Curve.pair(KNOWN_P, KNOWN_Q), 2)]), _composed((KNOWN, 2))


@REGISTRY.formula("privacy.shape.delta_range")
def _delta_range() -> Iterator[Vector]:
    for curve, pairs in _curves():
        back = [(q, p) for p, q in pairs]
        for epsilon in ("0", "0.2", "0.9"):
            truth = max(hockey_stick(pairs, epsilon), hockey_stick(back, epsilon))
            if truth:
                yield enclosing(
                    truth, 2e-4 if curve.parts[0][0].spacing_and_offset is None else 1e-8, curve.delta_range, epsilon
                )
    many = sf.compose([(sf.Curve.approximate("0.1", "1e-6"), 3)])
    failed = 1 - power(1 - real("1e-6"), 3)
    yield upper(failed * (1 - MP.mpf(10) ** -15), 3e-15, lambda: many.delta_range("0.3")[1])  # as the decimal it means


@REGISTRY.formula("privacy.shape.epsilon_range")
def _epsilon_range() -> Iterator[Vector]:
    for curve, pairs in _curves():
        back = [(q, p) for p, q in pairs]
        for delta in ("0.2", "0.01"):
            truth = max(epsilon_of(pairs, delta), epsilon_of(back, delta))
            if truth:
                yield enclosing(
                    truth, 2e-4 if curve.parts[0][0].spacing_and_offset is None else 1e-7, curve.epsilon_range, delta
                )
        truth = max(epsilon_of(pairs, "1e-6"), epsilon_of(back, "1e-6"))
        yield upper(truth, 2e-4, lambda c=curve: c.epsilon_range("1e-6")[1])
    for scale, shift, delta in (("2", 3, "0.1"), ("5", 2, "1e-12"), ("1", 1, "0.3")):
        truth = epsilon_of(moved(laplace_law(F(scale)), shift), delta)
        yield enclosing(truth, 1e-12, sf.Curve.discrete_laplace(scale, shift).epsilon_range, delta)
    yield exact((0.5, 0.5), sf.Curve.laplace(2).epsilon_range, 0)


@REGISTRY.formula("privacy.shape._invert_profile")
def _invert() -> Iterator[Vector]:
    """At an ε whose δ is integrated, the least ε for that δ is the same, to the digits that δ is rounded to."""
    for mu, epsilon in (("1", "4.75"), ("0.25", "1.375"), ("3", "0.5")):
        delta = F(MP.nstr(gaussian_delta(mu, epsilon), 25))
        yield enclosing(real(epsilon), 1e-12, sf.Curve.gdp(mu).epsilon_range, delta)


@REGISTRY.formula("privacy.shape.renyi")
def _renyi_adds() -> Iterator[Vector]:
    for curve, pairs in _curves():
        for order in ("2", "9"):
            worst = max(renyi(pairs, order), renyi([(q, p) for p, q in pairs], order))
            yield exact(worst, curve.renyi, order)


@REGISTRY.formula("privacy.curve.Curve._compute_renyi_above")
def _renyi_above() -> Iterator[Vector]:
    """What an account charges is never below the divergence."""
    for curve, pairs in _curves():
        for order in ("2", "21.9845", "1.01"):
            worst = max(renyi(pairs, order), renyi([(q, p) for p, q in pairs], order))
            high = worst * (1 + MP.mpf("1e-12")) + MP.mpf("3e-14") / (real(order) - 1)
            yield between(as_fraction(worst), as_fraction(high), curve.renyi_above, F(order))
    for share in ("0.1", "0.23", "0.37", "0.41"):  # near order 1, where a logarithm is divided by α − 1
        pairs = [(real(share), real("0.3")), (1 - real(share), real("0.7"))]
        curve, order = sf.Curve.pair((share, 1 - F(share)), ("0.3", "0.7")), "1.000001"
        worst = max(renyi(pairs, order), renyi([(q, p) for p, q in pairs], order))
        high = worst * (1 + MP.mpf("1e-12")) + MP.mpf("4e-14") / (real(order) - 1)
        yield between(as_fraction(worst), as_fraction(high), curve.renyi_above, F(order))


@REGISTRY.formula("privacy.shape.failure_range")
def _failure_range() -> Iterator[Vector]:
    for shares in ((("0.01", 3),), (("0.5", 1), ("0.1", 2)), (("1e-6", 64),)):
        kept = F(1)
        for share, count in shares:
            for _ in range(count):
                kept *= 1 - F(share)
        yield exact(1 - kept, lambda s=shares: sf.compose([(sf.Curve.approximate("0.1", d), n) for d, n in s]).failure)
    for share, count in (("1e-6", 65), ("1e-9", 10**6)):
        truth = 1 - (1 - real(share)) ** count
        yield upper_fraction(
            truth, ROUNDED, lambda s=share, n=count: sf.compose([(sf.Curve.approximate("0.1", s), n)]).failure
        )


@REGISTRY.formula("privacy.curve.Curve.tradeoff")
@REGISTRY.formula("privacy.shape.best_false_negative_bound")
def _tradeoff() -> Iterator[Vector]:
    """The best test, outcome by outcome (Neyman & Pearson): a lower bound of what it misses."""
    for curve, pairs, rate in (
        (sf.Curve.pure(1), response(1), "0.05"),
        (sf.Curve.randomized_response("0.5", 4), response("0.5", 4), "0.3"),
        (sf.Curve.approximate(1, "0.01"), response(1, 2, "0.01"), "0.2"),
        (sf.Curve.pure(2), response(2), "0.6"),
    ):
        truth = false_negative_rate(pairs, real(rate))
        yield between(down(truth) - 1e-6, down(truth), curve.tradeoff, rate)


@REGISTRY.formula("privacy.shape.least_rho")
def _least_rho() -> Iterator[Vector]:
    """sup D_α/α over all orders, searched for."""
    for curve, pairs in (
        (sf.Curve.pure(1), response(1)),
        (sf.Curve.randomized_response(3, 4), response(3, 4)),
        (sf.Curve.discrete_laplace(2, 3), _merged(moved(laplace_law(F(2)), 3))),
    ):
        best = max(renyi(pairs, 1), most_value(lambda log, p=pairs: _per_order(p, 1 + MP.exp(log)), -12, 6))
        yield upper(best, 2e-7, curve.rho)
    rare = ("0.001", "0.999"), ("0.0000001", "0.9999999")  # a large loss that is rare: best at a large order
    pairs = [(real(p), real(q)) for p, q in zip(*rare, strict=True)]
    best = most_value(lambda log: _per_order(pairs, 1 + MP.exp(log)), -3, 4)
    yield upper(best, 2e-7, sf.Curve.pair(*rare, neighbours="add-remove").rho)
    yield exact(0.02, sf.Curve.discrete_gaussian(5, 1).rho)


def _per_order(pairs: Pairs, order: Real) -> Real:
    return renyi(pairs, order) / real(order)


@REGISTRY.formula("privacy.shape.PrivacyLoss.quantile")
@REGISTRY.formula("privacy.shape.PrivacyLoss._tail")
def _loss_of_pairs() -> Iterator[Vector]:
    """P(L > ε), outcome by outcome, away from the losses themselves; quantiles are such a loss."""
    for curve, pairs in (
        (sf.Curve.randomized_response(1, 4), response(1, 4)),
        (sf.compose([(sf.Curve.pure("0.5"), 3)]), _composed((response("0.5"), 3))),
    ):
        for at in ("0.25", "-0.75", "0.9"):
            truth = MP.fsum(p for p, q in pairs if MP.log(p / q) > real(at))
            beyond = 1 - truth + (1 if truth == 1 else 0)

            def call(curve: sf.Curve = curve, at: str = at, share: Real = beyond) -> float:
                loss = curve.loss()
                assert loss.quantile(F(float(share / 2))) <= float(at) + 1e-6 or share == 1
                return loss.tail(at)

            yield upper(truth, 2e-4, call)


@REGISTRY.formula("privacy.shape.PrivacyLoss._delta_range")
def _delta_below_zero() -> Iterator[Vector]:
    for at in (-0.5, -1.5, 0.5):
        pairs = response("0.7", 3)
        truth = MP.fsum(max(MP.mpf(0), p - MP.exp(MP.mpf(at)) * q) for p, q in pairs)
        loss = sf.Curve.randomized_response("0.7", 3).loss()
        yield between(float(truth) * (1 - 1e-13), float(truth) * (1 + 1e-13), lambda x=at, s=loss: s._delta_range(x)[0])
        yield between(float(truth) * (1 - 1e-13), float(truth) * (1 + 1e-13), lambda x=at, s=loss: s._delta_range(x)[1])


@REGISTRY.formula("privacy.threshold_losses.laplace_tail")
def _laplace_tail() -> Iterator[Vector]:
    for scale, t in (("2", 5), ("2", 0), ("3", -4), ("0.5", 1), ("10", 200)):
        truth = at_least(laplace_law(F(scale)), t)
        yield between(float(truth) * (1 - 1e-15), float(truth) * (1 + 1e-15), laplace_tail, F(scale), t)


@REGISTRY.formula("privacy.threshold_losses.max_passing_probability")
def _most_passing() -> Iterator[Vector]:
    """All ways to spread the weight are tried; the bound is theirs where equal keys are worst."""
    for scale, threshold, weight, most, gap in (
        ("2", 20, 4, 1, 1e-30),
        ("2", 12, 4, 4, 1e-30),
        ("5", 30, 6, 2, 1e-30),
        ("1", 9, 5, 3, 3.0),
    ):
        law = laplace_law(F(scale))
        tried = []
        for split in partitions(weight, most):
            hidden = MP.mpf(1)
            for size in split:
                hidden *= 1 - at_least(law, threshold - size)
            tried.append(1 - hidden)
        yield upper_fraction(max(tried), gap, max_passing_probability, F(scale), threshold, weight, most)


@REGISTRY.formula("privacy.threshold_losses.LaplaceKeyThresholdLoss.pure_epsilon")
@REGISTRY.formula("privacy.threshold_losses.LaplaceKeyThresholdLoss.renyi")
def _laplace_threshold() -> Iterator[Vector]:
    """Counts of 1 on every key, or all weight on one, and twice that under replace."""
    for scale, weight, most, neighbours in (
        ("3", 3, 1, "add-remove"),
        ("3", 3, 3, "add-remove"),
        ("4", 2, 1, "replace"),
        ("4", 2, 2, "replace"),
    ):
        curve = sf.Curve.laplace_threshold(scale, 40, "1e-4", weight=weight, most=most, neighbours=neighbours)
        copies = (2 if neighbours == "replace" else 1) * weight // most
        one = moved(laplace_law(F(scale)), most)
        largest = MP.log(max(p / q for p, q in one)) * copies
        yield exact((largest, copies * renyi(one, 7)), lambda c=curve: (c.max_divergence, c.renyi(7)))


@REGISTRY.formula("privacy.threshold_losses.LaplaceKeyThresholdLoss.group")
def _group_of_thresholds() -> Iterator[Vector]:
    for scale, threshold, weight, k in (("3", 30, 2, 2), ("2", 25, 1, 3), ("4", 40, 3, 2)):
        law = laplace_law(F(scale))
        worst = max(_passes(law, threshold, split) for split in partitions(k * weight, k))
        curve = sf.Curve.laplace_threshold(scale, threshold, "0.001", weight=weight)
        yield upper_fraction(worst, 1e-15, lambda c=curve, k=k: c.group(k).failure)
        loss = LaplaceKeyThresholdLoss(F(scale), threshold, F("0.001"), weight).group(k)
        yield exact(k * weight / real(scale), lambda c=curve, k=k, same=loss: c.group(k).max_divergence if same else 0)
    many = sf.Curve.laplace_threshold(10**6, 10**8, "1e-9", weight=1)  # weights beyond 4,096 by the rule for (ε, δ)
    chain = real("1e-9") * MP.fsum(MP.exp(j * MP.mpf(10) ** -6) for j in range(5000))
    yield upper_fraction(chain, ROUNDED, lambda: many.group(5000).failure)
    yield exact(F(5000, 10**6), lambda: many.group(5000).max_divergence)


def _passes(law: Any, threshold: int, split: tuple[int, ...]) -> Real:
    hidden = MP.mpf(1)
    for size in split:
        hidden *= 1 - at_least(law, threshold - size)
    return 1 - hidden


@REGISTRY.formula("privacy.threshold_losses.GaussianKeyThresholdLoss.renyi")
def _gaussian_threshold() -> Iterator[Vector]:
    """Cut both laws where their ratio passes e^ε, as the proof does: that divergence is bounded from above."""
    for sigma, epsilon, delta, order, gap in (
        ("4", "1", "0.02", "3", 0.06),
        ("6", "0.7", "1e-3", "22", 0.05),
        ("3", "2", "0.01", "2", 0.06),
    ):
        pairs, growth = moved(gaussian_law(F(sigma)), 1), MP.exp(real(epsilon))
        assert hockey_stick(pairs, epsilon) <= real(delta) / 2
        cut = [(min(p, growth * q), min(q, growth * p)) for p, q in pairs]
        kept = MP.fsum(p for p, _ in cut)
        truth = renyi([(p / kept, q / kept) for p, q in cut], order)
        loss = GaussianKeyThresholdLoss(F(sigma) ** 2, 1, F(epsilon), F(delta))
        yield upper(truth, gap, loss.renyi, float(order))
        alpha, rho = real(order), 1 / (2 * real(sigma) ** 2)
        rare = least_value(
            lambda t, r=rho, e=epsilon: t * (t + 1) * r - t * real(e), 0, 200
        )  # Chernoff's, at the best t
        whole = MP.exp((alpha - 1) * renyi(pairs, order)) + MP.exp(rare - alpha * real(epsilon))
        proven = MP.log(whole / (1 - real(delta) / 2)) / (alpha - 1)
        assert proven >= truth
        yield exact(proven, loss.renyi, float(order))
    tight = GaussianKeyThresholdLoss(F(4), 9, F(1, 10), F("0.5"))  # so little ε that randomised response proves more
    yield exact(renyi(response("0.1"), 5), tight.renyi, 5.0)


@REGISTRY.formula("privacy.curve.Curve.gaussian_threshold")
def _curve_of_gaussian_threshold() -> Iterator[Vector]:
    """ε and all of δ; the composed curve is the noise of each key beside a failure of δ/2."""
    for sigma, keys, epsilon, delta, neighbours in (
        ("3", 1, "2", "0.02", "add-remove"),
        ("4", 1, "1", "0.1", "replace"),
        ("3", 2, "2", "0.1", "add-remove"),
    ):
        count = keys * (2 if neighbours == "replace" else 1)
        one = moved(gaussian_law(F(sigma)), 1)
        noise = hockey_stick(product(*[one] * count), "0.5")
        half = real(delta) / 2
        curve = lambda s=sigma, k=keys, e=epsilon, d=delta, n=neighbours: sf.Curve.gaussian_threshold(s, k, e, d, n)  # noqa: E731
        yield exact((F(epsilon), F(delta)), lambda c=curve: (c().max_divergence, c().failure))
        yield enclosing(half + (1 - half) * noise, 1e-9, lambda c=curve: c().delta_range("0.5"))


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
