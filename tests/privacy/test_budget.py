from __future__ import annotations

import math
from fractions import Fraction

import pytest

import sfumato as sf
from privacy.families import DiscreteLaplace, Gaussian
from sfumato.privacy import Cost


def test_ten_tenths_fill_a_pure_account() -> None:
    account = sf.Budget(1)
    for _ in range(10):
        account = account.charge(sf.Curve.laplace(10))
    assert account.remaining == {"pure": 0}
    with pytest.raises(sf.Overspent) as refusal:
        account.charge(sf.Curve.pure("1e-30"))
    assert refusal.value.requested["pure"] == Fraction(1, 10**30)
    assert refusal.value.remaining == {"pure": 0}
    assert refusal.value.difference == {"pure": Fraction(1, 10**30)}
    assert refusal.value.largest == 0
    assert "it needs ε = 1e-30, and ε = 0 of 1 is left for ordinary answers" in str(refusal.value)


@pytest.mark.parametrize("many", [20_000, pytest.param(10**6, marks=pytest.mark.long)])
def test_a_million_millionths_fill_a_pure_account(many: int) -> None:
    account, curve = sf.Budget(1), sf.Curve.pure(1 / many)
    for _ in range(many):
        account = account.charge(curve)
    assert account.remaining == {"pure": 0}
    assert not account.affords(curve)


def test_an_approximate_account_has_three_currencies() -> None:
    account = sf.Budget(1, 1e-6)
    assert account.reserve == Fraction(1, 10**7)
    backed = sf.theorems.renyi_allowance(sf.Guarantee(1, "9e-7"))
    assert account.order == backed.order
    assert account.remaining["renyi"] <= backed.divergence
    assert float(account.remaining["renyi"]) == pytest.approx(float(backed.divergence), rel=1e-15)
    assert set(account.remaining) == {"pure", "renyi", "failure"}


def test_gaussian_noise_closes_the_pure_currency() -> None:
    account = sf.Budget(1, 1e-6).charge(sf.Curve.gaussian(100))
    assert set(account.remaining) == {"renyi", "failure"}
    later = sf.Budget(1, 1e-6).charge(sf.Curve.pure("0.1")).charge(sf.Curve.gaussian(100))
    assert set(later.remaining) == set(later.charge(sf.Curve.pure("0.1")).remaining) == {"renyi", "failure"}
    assert not sf.Budget(1).affords(sf.Curve.gaussian(10**6))
    with pytest.raises(sf.Overspent) as refusal:
        sf.Budget(1).charge(sf.Curve.gaussian(10**6))
    assert refusal.value.requested["pure"] is None
    assert refusal.value.largest == 1


def test_a_release_may_be_charged_as_approximate_instead() -> None:
    """(e, d) with d from the reserve keeps the pure currency open."""
    gaussian = sf.Curve.gaussian(100)
    cut = sf.Curve.approximate(gaussian.epsilon("1e-8"), "1e-8")
    account = sf.Budget(1, 1e-6).charge(cut)
    assert account.remaining["failure"] == Fraction(9, 10**8)
    assert "pure" in account.remaining


def test_either_currency_is_enough() -> None:
    account = sf.Budget(1, 1e-6)
    pure_only = account
    for _ in range(10):
        pure_only = pure_only.charge(sf.Curve.pure("0.1"))  # the Rényi currency overflows on the way
    assert "renyi" not in pure_only.remaining
    assert pure_only.remaining["pure"] == 0
    many = account
    for _ in range(500):
        many = many.charge(sf.Curve.laplace(180))  # Σε = 2.8: only the Rényi currency can hold it
    assert "pure" not in many.remaining
    assert many.remaining["renyi"] > 0


def test_failures_come_from_the_reserve_alone() -> None:
    account = sf.Budget(1, 1e-6, reserve="3e-7")
    leaky = sf.Curve.approximate("0.001", "1e-7")
    for _ in range(3):
        account = account.charge(leaky)
    assert account.remaining["failure"] == 0
    assert not account.affords(leaky)
    assert account.affords(sf.Curve.pure("0.001"))


def test_one_analytic_gaussian_does_not_fit_the_renyi_currency_but_a_reserve_may_hold_it() -> None:
    one = sf.Curve.gaussian("4.22467888932685")
    assert one.rho() == pytest.approx(0.028014, abs=1e-6)
    assert not sf.Budget(1, 1e-6).affords(one)
    whole = sf.Budget(1, 1e-6, reserve=1e-6)
    assert whole.order is None
    assert set(whole.remaining) == {"pure", "failure"}
    assert whole.affords(sf.Curve.approximate(1, 1e-6))


def test_largest_is_accepted_and_a_little_more_is_not() -> None:
    account = sf.Budget(1).charge(sf.Curve.pure("0.7"))
    assert account.largest(DiscreteLaplace) == 0.3
    assert account.largest(Gaussian, delta="1e-6") == 0
    wide = sf.Budget(1, 1e-6)
    epsilon = wide.largest(Gaussian, delta="1e-6")
    assert 0.9 < epsilon < 1
    found = sf.calibrate(Gaussian, sf.Guarantee(epsilon, "1e-6"))
    assert wide.affords(Gaussian(found.sigma * Fraction("1.000001")).curve())
    assert not wide.affords(Gaussian(found.sigma * Fraction("0.9999")).curve())


def test_overspent_names_the_largest_pure_release() -> None:
    account = sf.Budget(1, 1e-6).charge(sf.Curve.pure("0.75"))
    with pytest.raises(sf.Overspent) as refusal:
        account.charge(sf.Curve.pure("0.5"))
    largest = refusal.value.largest
    assert account.affords(sf.Curve.pure(largest))
    assert not account.affords(sf.Curve.pure(largest + Fraction(1, 10**8)))
    assert largest == Fraction(1, 4)


@pytest.mark.parametrize(
    "account",
    [
        sf.Budget("0.1", "1e-3"),
        sf.Budget(30, "1e-6", spent_pure=None),
        # what is left and 1 is 2³⁰ billionths: the last step is a billionth exactly
        sf.Budget(30, "1e-6", spent_pure=30 * 10**30 - 73_741_824 * 10**21),
    ],
    ids=["open", "closed", "exact"],
)
def test_the_largest_pure_release_is_searched_to_a_billionth(account: sf.Budget) -> None:
    """Halvings of 1, or of the last power of two that is accepted, until they are below 1e-9; one more is refused."""
    start, largest = account._largest_within_pure_currency(), account.largest_pure()
    power = 0 if largest < start + 1 else math.floor(math.log2(largest / (start + 1)))
    step = Fraction(2**power) * (1 if largest < start + 1 else start + 1)
    while step > Fraction(1, 10**9):
        step /= 2
    assert account.affords(sf.Curve.pure(largest))
    assert not account.affords(sf.Curve.pure(largest + step))
    assert ((largest - start) / step).denominator == 1


def test_what_is_left_is_named_as_it_would_be_charged() -> None:
    """A long fraction of a unit would be rounded up: whole units are named, although the other currency affords it."""
    spent = 9 * 10**29 + Fraction(10**28, 10**10 + 19)
    account = sf.Budget(1, "1e-6", spent_pure=spent)
    left = (10**30 - spent) / 10**30
    assert account.affords(sf.Curve.pure(left))
    assert account._largest_within_pure_currency() == Fraction(math.floor(left * 10**30), 10**30) < left


def test_totals_without_renyi_divergence_close_that_currency_alone() -> None:
    """Nothing spent is nothing in every currency; a pure account has no such currency to close."""
    approximate, pure = sf.Budget(1, "1e-6"), sf.Budget(1)
    assert approximate.with_spent(Cost(0, None, 0)) == approximate
    assert approximate.with_spent(Cost(5, None, 0)) == sf.Budget(1, "1e-6", spent_pure=5, spent_renyi=None)
    assert approximate.with_spent(Cost(None, 7, 3)) == sf.Budget(
        1, "1e-6", spent_pure=None, spent_renyi=7, spent_failure=3
    )
    assert pure.with_spent(Cost(5, None, 0)) == sf.Budget(1, spent_pure=5)
    assert pure.charge(sf.Curve.pure("1/4")) == sf.Budget(1, spent_pure=25 * 10**28)


def test_the_largest_pure_release_of_a_share_is_its_own() -> None:
    """A share has the terms of its account and smaller allowances."""
    account = sf.Budget(1, 1e-6).charge(Gaussian(20).curve())
    half, whole = account.share("1/2").largest_pure(), account.largest_pure()
    assert 0 < half < whole
    assert account.share("1/2").affords(sf.Curve.pure(half))
    assert not account.share("1/2").affords(sf.Curve.pure(half + Fraction(1, 10**8)))


def test_replace_is_not_charged_as_add_remove() -> None:
    account = sf.Budget(1)
    with pytest.raises(sf.NeighboursDiffer):
        account.charge(sf.Curve.randomized_response("0.1"))
    replaced = sf.Budget(1, neighbours="replace")
    with pytest.raises(sf.NeighboursDiffer, match=r"for_neighbours\('replace'\)"):
        replaced.charge(sf.Curve.pure("0.1"))
    assert replaced.charge(sf.Curve.pure("0.1").for_neighbours("replace")).remaining == {"pure": Fraction(8, 10)}


def test_charging_leaves_the_old_account_as_it_was() -> None:
    account = sf.Budget(1, 1e-6)
    after = account.charge(sf.Curve.laplace(10))
    assert account.remaining["pure"] == 1
    assert after.remaining["pure"] == Fraction(9, 10)
    assert "ε = 0.9 of 1" in repr(after)


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((-1,), {}),
        ((math.nan,), {}),
        ((math.inf,), {}),
        ((1, 1), {}),
        ((1, -1e-9), {}),
        ((1, 1e-6), {"reserve": 1e-5}),
        ((1, 1e-6), {"reserve": -1}),
        ((1, 1e-6), {"order": 1}),
        ((1, 1e-6), {"order": "1.5"}),
        ((1, 0), {"order": 10}),
        ((1, 1e-6), {"reserve": 1e-6, "order": 10}),
        ((1,), {"neighbours": "any"}),
        ((1,), {"spent_pure": -1}),
        (("one",), {}),
        ((None,), {}),
    ],
    ids=str,
)
def test_hostile_parameters(args: tuple[object, ...], options: dict[str, object]) -> None:
    with pytest.raises(sf.InvalidParameter):
        sf.Budget(*args, **options)  # type: ignore[arg-type]


def test_the_largest_release_of_a_huge_budget_is_the_least_noise_there_is() -> None:
    account = sf.Budget(10**6, "1e-6").charge(sf.Curve.pure(1))
    assert 900 < account.largest(sf.Laplace) <= 1000  # a scale of 0.001
    assert sf.Budget(3).charge(sf.Curve.pure(1)).largest(sf.Laplace) == 2


E30 = 10**30


def test_a_missing_component_never_fits() -> None:
    """Nothing bounds what a cost does not state: it is never read as zero."""
    account = sf.Budget(1, "1e-6")
    assert not account.admits(sf.Cost(50 * E30, None, 0))
    assert not account.admits(sf.Cost(None, None, 0))
    closed = account.charge(sf.Curve.gaussian(100))
    assert not closed.admits(sf.Cost(1, None, 0))
    assert closed.admits(sf.Cost(1, 1, 0))
    with pytest.raises(sf.Overspent):
        raise closed.refusal(sf.Cost(1, None, 0))


def test_the_sum_of_costs_misses_what_any_of_them_misses() -> None:
    stated, missing = sf.Cost(1, 2, 3), sf.Cost(4, None, 5)
    assert stated + missing == missing + stated == sf.Cost(5, None, 8)
    assert sf.Cost(None, 2, 0) + stated == sf.Cost(None, 4, 3)
    for nothing in (sf.Cost(0, None, 0), sf.Cost(0, 0, 0)):
        assert stated + nothing == nothing + stated == stated


def test_a_currency_that_was_once_missing_stays_closed() -> None:
    account = sf.Budget(1, "1e-6")
    after = account.with_spent(account.totals + sf.Cost(E30 // 10, None, 0))
    assert after.totals.renyi is None
    assert "renyi" not in after.remaining
    assert after.admits(sf.Cost(9 * E30 // 10, 1, 0))
    assert not after.admits(sf.Cost(None, 1, 0))
    assert sf.loads(sf.dumps(after)) == after


def test_a_hold_covers_only_what_is_stated_in_its_currencies() -> None:
    hold = sf.Cost(10, 10, 10)
    assert hold.covers(sf.Cost(10, 10, 10))
    assert not hold.covers(sf.Cost(1, None, 0))
    assert not sf.Cost(10, None, 10).covers(sf.Cost(1, 1, 0))
    assert not hold.covers(sf.Cost(None, 1, 0))
    assert sf.Cost(10, None, 10).covers(sf.Cost(10, None, 10))
    for cost in (hold, sf.Cost(10, None, 10), sf.Cost(None, 0, 0)):
        assert cost.covers(sf.Cost(0, None, 0))
        assert cost.minus(sf.Cost(0, None, 0)) == cost
    assert hold.minus(sf.Cost(4, 3, 2)) == sf.Cost(6, 7, 8)


def test_nothing_more_is_admitted_exactly_where_the_totals_fit() -> None:
    """What an amendment is decided by: whether the account, as it stands, admits a cost of nothing."""
    nothing, spent = sf.Cost(0, None, 0), sf.Cost(4 * E30, 2 * E30, 0)
    assert not sf.Budget(1, "1e-6").with_spent(spent).admits(nothing)
    assert sf.Budget(4, "1e-6").with_spent(spent).admits(nothing)
    assert sf.Budget(1).admits(nothing)
    assert not sf.Budget(1, "1e-6", reserve="1e-7").with_spent(sf.Cost(0, 0, E30)).admits(nothing)


def test_what_is_shown_as_left_is_accepted() -> None:
    """Six digits rounded to the nearest proposed ε = 0.449368 where 0.4493675 was left, and refused it."""
    account = sf.Budget(1).charge(sf.Curve.pure("0.5506325"))
    with pytest.raises(sf.Overspent) as refused:
        account.charge(sf.Curve.pure("0.45"))
    proposed = str(refused.value).rpartition("ε = ")[2]
    assert proposed == "0.449367"
    account.charge(sf.Curve.pure(proposed))
