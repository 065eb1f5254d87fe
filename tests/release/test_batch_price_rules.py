"""How a price is split over questions, and when Gaussian noise is chosen for them: each rule by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

import sfumato as sf
from sfumato.ledger import Charged
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.release import batch_prices
from sfumato.release.prices import Price

F = Fraction


class Offer:
    """A question that notes the prices that it is asked for."""

    def __init__(self, share: F, discovers_groups: bool = False) -> None:
        self.share, self.discovers_groups, self.asked = share, discovers_groups, list[Any]()

    def price_at(self, price: Price, family: Any) -> Any:
        self.asked.append((price, family))
        return SimpleNamespace(price=price)


def offers(*discovering: bool) -> Any:
    return [Offer(share, finds) for share, finds in zip((F(1, 2), F(1, 3), F(1, 6)), discovering, strict=True)]


@pytest.mark.parametrize(
    ("price", "discovering", "expected", "charged"),
    [
        (Price(3), (False,) * 3, [Price(F(3, 2)), Price(1), Price(F(1, 2))], Price(3)),
        (Price(3, "1e-6"), (False,) * 3, [Price(F(3, 2)), Price(1), Price(F(1, 2))], Price(3)),
        (
            Price(3, "6e-6"),
            (True, False, True),
            [Price(F(3, 2), "4.5e-6"), Price(1), Price(F(1, 2), "1.5e-6")],
            Price(3, "6e-6"),
        ),
        (Price(3, "6e-6"), (False, True, False), [Price(F(3, 2)), Price(1, "6e-6"), Price(F(1, 2))], Price(3, "6e-6")),
        (Price(rho=6), (False,) * 3, [Price(rho=3), Price(rho=2), Price(rho=1)], Price(rho=6)),
    ],
)
def test_epsilon_is_split_by_shares_and_delta_over_questions_that_find_groups(
    price: Price, discovering: tuple[bool, ...], expected: list[Price], charged: Price
) -> None:
    questions = offers(*discovering)
    batch = batch_prices._split_epsilon(questions, price)
    assert [question.asked for question in questions] == [[(each, Laplace)] for each in expected]
    assert [question.price for question in batch.prepared] == expected
    assert batch.price == charged


def test_a_share_of_rho() -> None:
    """A question that finds groups gets the ε of 2√(2ρ), and its share of half of the δ."""
    price = Price(1, "8e-6")
    assert batch_prices._gaussian_price(Offer(F(1, 4)), F(2), price) == Price(rho=F(1, 2))  # type: ignore[arg-type]
    found = batch_prices._gaussian_price(Offer(F(1, 4), True), F(2), price)  # type: ignore[arg-type]
    assert found == Price(2, "1e-6")
    third = batch_prices._gaussian_price(Offer(F(1, 3)), F(1), price)  # type: ignore[arg-type]
    assert third == Price(rho="0.3333333333333")
    root = batch_prices._gaussian_price(Offer(F(1, 3), True), F(1), price)  # type: ignore[arg-type]
    assert root == Price("1.632993161855", F(8, 6 * 10**6))


def test_a_price_in_rho_is_split_as_it_is() -> None:
    questions = offers(False, False, False)
    batch = batch_prices._split_rho(questions, Price(rho=6))
    assert [question.asked for question in questions] == [[(Price(rho=rho), Gaussian)] for rho in (3, 2, 1)]
    assert batch.price == Price(rho=6)


class GaussianBatch:
    """Stands for a priced batch: one Gaussian mechanism for each question, at its share of ρ."""

    additive = True

    def __init__(self, prepared: tuple[Any, ...], price: Price, reason: str) -> None:  # noqa: ARG002
        self.prepared, self.price = prepared, price
        self.rho = sum((each.price.rho for each in prepared), F(0))
        mechanisms = [
            sf.Gaussian(F(math.ceil(math.sqrt(1 / (2 * each.price.rho)) * 10**9), 10**9)) for each in prepared
        ]
        charges = [Charged(mechanism, sf.Sensitivity(1)) for mechanism in mechanisms]
        shown = mechanisms if self.additive else ["a selection"]
        self.batch = SimpleNamespace(mechanisms=shown, mechanism_charges=charges)
        self.curve = sf.compose(charge.curve for charge in charges)


@pytest.mark.parametrize("additive", [False, True])
@pytest.mark.parametrize("price", [Price(1, "1e-6"), Price("0.05", "1e-9")])
def test_rho_is_the_largest_whose_composition_satisfies_the_price(
    monkeypatch: pytest.MonkeyPatch, additive: bool, price: Price
) -> None:
    monkeypatch.setattr(batch_prices, "PricedBatch", GaussianBatch)
    monkeypatch.setattr(GaussianBatch, "additive", additive)
    questions = offers(False, False, False)
    batch: Any = batch_prices._split_rho(questions, price)
    assert price.is_satisfied_by(batch.curve)
    more = GaussianBatch(
        tuple(SimpleNamespace(price=Price(rho=each.price.rho * F("1.01"))) for each in batch.prepared), price, ""
    )
    assert not price.is_satisfied_by(more.curve)
    shares = [each.price.rho / batch.rho for each in batch.prepared]
    assert [float(share) for share in shares] == pytest.approx([1 / 2, 1 / 3, 1 / 6])


@pytest.mark.parametrize("stays_open", [False, True])
@pytest.mark.parametrize("in_pure", [False, True])
@pytest.mark.parametrize("has_account", [False, True])
def test_gaussian_noise_that_closes_an_account_must_halve_the_error(
    stays_open: bool, in_pure: bool, has_account: bool
) -> None:
    curve = object()
    remaining = {"pure": 1} if in_pure else {"renyi": 1}
    account = SimpleNamespace(remaining=remaining, affords=lambda asked: asked is curve and stays_open)
    ratio = batch_prices._required_error_ratio(
        SimpleNamespace(curve=curve),  # type: ignore[arg-type]
        account if has_account else None,  # type: ignore[arg-type]
    )
    assert ratio == (2.0 if stays_open and in_pure and has_account else 1.0)


def with_rules(monkeypatch: pytest.MonkeyPatch, **rules: Callable[..., Any]) -> None:
    for name, rule in rules.items():
        monkeypatch.setattr(batch_prices, name, rule)


def test_noise_is_chosen_by_family_then_by_error(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = {"laplace": math.log(6), "gaussian": math.log(3)}
    ratios = [2.0]
    with_rules(
        monkeypatch,
        _split_epsilon=lambda *_: "laplace",
        _split_rho=lambda *_: "gaussian",
        _mean_log_half_width=lambda batch: logs[batch],
        _required_error_ratio=lambda batch, account: ratios[0] if (batch, account) == ("laplace", "account") else 99,
    )

    def chosen(price: Price, family: Any = None) -> Any:
        return batch_prices.price_batch([], price, family, "account")  # type: ignore[arg-type]

    pure, both, rho = Price(1), Price(1, "1e-6"), Price(rho=1)
    assert [chosen(price, Laplace) for price in (pure, both, rho)] == ["laplace"] * 3
    assert chosen(pure) == chosen(pure, Gaussian) == "laplace"
    assert [chosen(rho), chosen(rho, Gaussian), chosen(both, Gaussian)] == ["gaussian"] * 3
    logs["laplace"] = logs["gaussian"] + math.log(2) + 1e-12
    assert chosen(both) == "gaussian"
    logs["laplace"] -= 1e-9
    assert chosen(both) == "laplace"
    ratios[0], logs["laplace"] = 1.0, logs["gaussian"]
    assert chosen(both) == "gaussian"  # equally wide


def test_the_mean_of_all_half_widths_is_that_of_their_logarithms() -> None:
    batch: Any = SimpleNamespace(
        prepared=[
            SimpleNamespace(half_widths=lambda: [F(1), F(100)]),
            SimpleNamespace(half_widths=lambda: [F(10), F(0)]),
        ]
    )
    assert batch_prices._mean_log_half_width(batch) == pytest.approx((2 + 1 - 9) * math.log(10) / 4)
    assert batch_prices._mean_log_half_width(SimpleNamespace(prepared=[])) == 0  # type: ignore[arg-type]


def test_the_price_of_a_composition() -> None:
    """ε and δ are added up where that is a promise; else the least ε of four digits at the δ, or all ρ."""

    def composed(curve: Any, delta: F, *prices: Price) -> Price:
        batch: Any = SimpleNamespace(prepared=[SimpleNamespace(price=price) for price in prices], curve=curve)
        return batch_prices.composed_price(batch, delta)

    pure = sf.Curve.pure(3)
    assert composed(pure, F(0), Price(1), Price(2)) == Price(3)
    with_delta = sf.Curve.approximate(3, F(3, 10**6))
    assert composed(with_delta, F(1, 10**5), Price(1, "1e-6"), Price(2, "2e-6")) == Price(3, "3e-6")
    rho = sf.Curve.concentrated(F(3, 2))
    assert composed(rho, F(0), Price(rho=1), Price(rho=F(1, 2))) == Price(rho=F(3, 2))
    assert composed(rho, F(0), Price(rho=1), Price(1)) == Price(rho=1)
    found = composed(rho, F(1, 10**6), Price(rho=1), Price(rho=F(1, 2)))
    least = F(rho.epsilon(1e-6))
    assert found.delta == F(1, 10**6)
    assert found.epsilon is not None
    assert least <= found.epsilon <= least * (1 + F(1, 1000))
    assert (found.epsilon * 10**3).denominator == 1  # four digits
    more = composed(sf.Curve.pure(9), F(1, 10**6), Price(1), Price(2))  # the sum is not what the curve promises
    assert more == Price(9, "1e-6")
