"""The choice of bounding and noise keeps its promise, errs least, and is made without data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from plan.described import CATALOG
from plan.test_bounding import ROWS, USERS, bounded_plans
from sfumato.mechanisms.key_thresholds import is_gaussian_surely_no_better
from sfumato.plan.bounding import bound_for_discovery, for_neighbours
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.readings.total_readings import KeyHolders
from sfumato.plan.sql.statements import parse
from sfumato.privacy import Neighbours, Sensitivity
from sfumato.release.measurement import Measurement
from sfumato.release.parts.shares import NoiseStrength, calibrated_noise
from sfumato.release.prices import Price, least_four_digit_price, rounded_up_to_4_digits
from sfumato.release.pricing import key_threshold, price_release

TEXTS = (
    "SELECT COUNT(*) FROM visits",
    "SELECT region, COUNT(*) AS n, AVG(age) AS a FROM visits GROUP BY region",
    "SELECT region, SUM(cost) AS s, SUM(age - 50) AS t, COUNT(*) AS n FROM visits GROUP BY region",
)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(TEXTS),
    st.sampled_from((ROWS, USERS)),
    st.sampled_from((1, 4, 50)),
    st.sampled_from(list(Neighbours)),
    st.sampled_from((Price(1), Price("0.01"), Price(2, "1e-7"), Price("0.3", "1e-9"), Price(rho="0.02"), Price(rho=2))),
)
def test_what_is_prepared_keeps_its_promise(
    text: str, table: sf.Table, groups: int, neighbours: Neighbours, price: Price
) -> None:
    options = [for_neighbours(each, neighbours) for each in bounded_plans(text, table, groups).values()]
    prepared = price_release(options, price)
    assert prepared.curve.neighbours is neighbours
    if price.rho is not None:
        assert prepared.curve.rho() <= price.rho
    elif price.delta:
        assert prepared.curve.delta(price.epsilon or 0) <= price.delta
    else:
        assert prepared.curve.max_divergence is not None
        assert prepared.curve.max_divergence <= (price.epsilon or 0)
        assert prepared.curve.max_divergence >= (price.epsilon or 0) * Fraction(999, 1000)  # and wastes nothing


def test_one_count_gets_the_textbook_noise() -> None:
    prepared = price_release(list(bounded_plans(TEXTS[0], ROWS, 1).values()), Price("0.5"))
    assert prepared.totals_mechanisms == (sf.Laplace(2),)
    (width,) = prepared.half_widths("0.95")
    assert width == sf.Laplace(2).error("0.95")


def test_equal_shares_of_a_price() -> None:
    prepared = price_release(list(bounded_plans(TEXTS[2], ROWS, 4).values()), Price(1))
    shares = [
        mechanism.curve(measure.sensitivity).max_divergence
        for mechanism, measure in zip(prepared.totals_mechanisms, prepared.bounded.measures, strict=True)
    ]
    assert shares == [Fraction(1, 3)] * 3


def test_gaussian_noise_clips_the_length_when_groups_are_limited() -> None:
    """c = 3 of m = 10 rows in a group: Δ₂ = √28 beats the 10 of reweighting."""
    prepared = price_release(
        list(bounded_plans("SELECT region, COUNT(*) AS n FROM visits GROUP BY region").values()), Price(rho=1)
    )
    assert prepared.bounded.strategy is Strategy.CLIP_L2
    assert "reweight" in prepared.reason


def test_gaussian_noise_must_halve_the_error_to_close_the_pure_currency() -> None:
    account = sf.Budget(3, "1e-6")
    options = list(bounded_plans("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", USERS, 4).values())
    kept = price_release(options, Price(1, "1e-7"), account=account)
    assert isinstance(kept.totals_mechanisms[0], sf.Laplace)
    assert "the sum of ε" in kept.reason or "least" in kept.reason
    named = price_release(options, Price(1, "1e-7"), account=account, family=sf.Gaussian)
    assert isinstance(named.totals_mechanisms[0], sf.Gaussian)
    many = list(
        bounded_plans(
            "SELECT region, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY region", _wide(), 400
        ).values()
    )
    free = price_release(many, Price(1, "1e-7"), account=account)
    assert isinstance(free.totals_mechanisms[0], sf.Gaussian)  # Δ₁ = 400 against Δ₂ = 20


def _wide() -> sf.Table:
    return sf.Table("visits", USERS.source, USERS.columns, id="patient_id", max_rows=400)


def test_a_pure_price_refuses_gaussian_noise() -> None:
    with pytest.raises(sf.InvalidParameter, match="Laplace"):
        price_release(list(bounded_plans(TEXTS[0], ROWS, 1).values()), Price(1), family=sf.Gaussian)


@pytest.mark.parametrize(
    "wrong",
    [
        *({}, {"epsilon": 1, "rho": 1}, {"epsilon": 0}, {"epsilon": -1}, {"epsilon": math.nan}, {"epsilon": math.inf}),
        *({"epsilon": 1, "delta": 2}, {"epsilon": 1, "delta": -1}, {"rho": 0}, {"epsilon": "x"}),
        {"rho": 1, "delta": "1e-9"},
    ],
)
def test_a_price_is_said_in_one_way(wrong: dict[str, float]) -> None:
    with pytest.raises(sf.InvalidParameter):
        Price(**wrong)


@pytest.mark.parametrize("neighbours", Neighbours)
def test_the_threshold_that_shows_the_smallest_groups_is_chosen(neighbours: Neighbours) -> None:
    """Also where Gaussian noise is ruled out without being calibrated."""
    kinds = set()
    prices = [("0.5", "1e-6", 2), (3, "1e-9", 4), (5, "1e-20", 2), (1, "1e-4", 9)]
    near_the_change = [(1, "1e-6", groups) for groups in (3, 4, 5)] + [(5, "1e-6", groups) for groups in (5, 6)]
    for epsilon, delta, groups in prices + near_the_change:
        price = Fraction(epsilon), Fraction(delta), groups
        laplace, gaussian = (
            sf.KeyThreshold(*price, neighbours=neighbours),
            sf.KeyThreshold.gaussian(*price, neighbours),
        )
        chosen = key_threshold(*price, False, neighbours)
        assert chosen == (gaussian if gaussian.error() < laplace.error() else laplace)
        kinds.add((chosen.sigma is None, is_gaussian_surely_no_better(laplace)))
    assert kinds >= {(True, True), (False, False)}


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("table", [ROWS, USERS], ids=["rows", "users"])
@pytest.mark.parametrize("family", [None, sf.Laplace, sf.Gaussian])
def test_found_groups_share_the_price_and_keep_its_promise(
    table: sf.Table, neighbours: Neighbours, family: Any
) -> None:
    price = Price(2, "1e-7")
    for text in ("SELECT ward, COUNT(*), AVG(age) FROM visits GROUP BY ward", "SELECT DISTINCT ward FROM visits"):
        plan = parse(text, CATALOG).plan
        source = replace(plan.source, every_row=table is ROWS)  # type: ignore[type-var]
        bounded = bound_for_discovery(replace(plan, source=source), ContributionLimits.from_table(table))
        prepared = price_release([for_neighbours(bounded, neighbours)], price, family=family)
        assert prepared.curve.neighbours is neighbours
        assert prepared.curve.delta(2) <= price.delta
        assert prepared.selection is not None
        assert prepared.selection.neighbours is neighbours
        assert prepared.selection.epsilon == Fraction(2, len(bounded.measures))
        assert len(prepared.totals_mechanisms) == len(prepared.half_widths()) == len(bounded.measures) - 1
        if all(each.pure for each in prepared.totals_mechanisms):
            assert prepared.curve.max_divergence == 2
            assert prepared.curve.failure == price.delta


def test_a_threshold_pays_for_every_key_of_a_unit() -> None:
    bounded = bound_for_discovery(
        parse("SELECT ward, COUNT(*) FROM visits GROUP BY ward", CATALOG).plan, ContributionLimits(5, 3, 2)
    )
    reading = KeyHolders(bounded)
    assert (reading.max_keys_per_unit, reading.is_weighted) == (3, False)
    Measurement(reading, sf.KeyThreshold(1, "1e-6", 3))
    replaced = KeyHolders(for_neighbours(bounded, Neighbours.REPLACE))
    Measurement(replaced, sf.KeyThreshold(1, "1e-6", 3, neighbours="replace"))
    for held, wrong in (
        (reading, sf.KeyThreshold(1, "1e-6", 2)),
        (replaced, sf.KeyThreshold(1, "1e-6", 3)),
        (reading, sf.KeyThreshold(1, "1e-6", 3, neighbours="replace")),
    ):
        with pytest.raises(sf.InvalidParameter, match="keys per unit"):
            Measurement(held, wrong)


def test_a_unit_in_too_many_groups_is_refused() -> None:
    plan = parse("SELECT ward, COUNT(*) FROM visits GROUP BY ward", CATALOG).plan
    with pytest.raises(sf.Unsupported) as refusal:
        price_release([bound_for_discovery(plan, ContributionLimits(20_000, 20_000, 1))], Price(2, "1e-7"))
    assert refusal.value.code == "too-many-keys"
    assert price_release(
        [bound_for_discovery(plan, ContributionLimits(20_000, 10, 1))], Price(2, "1e-7"), family=sf.Laplace
    ).selection


@pytest.mark.parametrize(
    "change", [Sensitivity(1, 1), Sensitivity(3, 2, 5), Sensitivity(7, 9, 11, neighbours="replace")]
)
def test_noise_is_never_below_what_its_share_of_the_price_pays_for(change: Sensitivity) -> None:
    """As fractions, without room for rounding: ε = Δ₁/b and ρ = Δ₂²/2σ², at prices of many digits."""
    for number in range(1, 200):
        paid, share = Fraction(number, 7 * number + 300), Fraction(number + 1, 3 * number + 50)
        laplace = calibrated_noise(NoiseStrength(sf.Laplace, Price(paid)), change, share)
        assert change.l1 / laplace.sizes[0] <= paid * share
        gaussian = calibrated_noise(NoiseStrength(sf.Gaussian, Price(rho=paid)), change, share)
        assert change.squares / (2 * gaussian.sizes[0] ** 2) <= paid * share


def test_gaussian_noise_is_rounded_up_where_rounding_down_would_be_seen() -> None:
    """13 digits are coarser than what the closed form adds for its square root, where the first of them is 1."""
    least = 1 + Fraction(5, 10**14)
    found = calibrated_noise(NoiseStrength(sf.Gaussian, Price(rho=1 / (2 * least**2))), Sensitivity(1, 1), Fraction(1))
    assert least <= found.sizes[0] <= least * (1 + Fraction(1, 10**11))


SHORTFALLS: dict[str, Callable[[float, float], float]] = {
    "inverse": lambda price, root: math.log(root / price),
    "steps": lambda price, root: math.log(20 if price >= root else math.ceil(21 * root / price)) - math.log(20),
    "squares": lambda price, root: 2 * math.log(root / price),
    "unknown": lambda price, root: -math.inf if price >= root else math.inf,
}


@given(st.integers(10**4, 10**6), st.integers(-12, 12), st.sampled_from(sorted(SHORTFALLS)))
def test_the_least_price_of_four_digits_is_found_in_few_tries(digits: int, power: int, name: str) -> None:
    """The price is the least of its digits that suffices, and one that was tried."""
    root = digits * Fraction(10) ** power
    tried = []

    def short(price: Fraction) -> float:
        tried.append(price)
        return 0.0 if price == root else SHORTFALLS[name](float(price), float(root))

    price = least_four_digit_price(short)
    assert price in tried
    assert price == rounded_up_to_4_digits(root)
    assert len(tried) <= (60 if name == "unknown" else 34)


@pytest.mark.parametrize("shortfall", [-math.inf, math.inf])
def test_a_goal_without_a_least_price_is_refused(shortfall: float) -> None:
    with pytest.raises(sf.InvalidParameter) as refusal:
        least_four_digit_price(lambda _: shortfall)
    assert refusal.value.place == "price"
