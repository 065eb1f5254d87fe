"""What is left of an account in each currency, and the ε that a release counts with, in whole units by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import sfumato as sf
from sfumato.ledger.accounts.reservations import release_epsilon
from sfumato.privacy import Cost
from sfumato.privacy.odometer import Odometer


def test_what_is_left_is_what_was_allowed_less_what_was_spent() -> None:
    fresh = sf.Budget(2, "1e-6")
    allowed = fresh.allowances
    assert allowed.renyi is not None
    assert fresh.order is not None
    spent = fresh.charge(sf.Curve.approximate("0.5", "1e-8"))
    assert spent.spent_renyi is not None
    assert 0 < spent.spent_renyi < allowed.renyi
    assert spent.remaining == {
        "pure": Fraction(allowed.pure, 10**30) - Fraction(1, 2),  # type: ignore[arg-type]
        "renyi": Fraction(allowed.renyi - spent.spent_renyi, 10**30),
        "failure": Fraction(9, 10**8),  # of a tenth of δ
    }
    closed = fresh.charge(sf.Curve.concentrated("0.001"))
    assert set(closed.remaining) == {"renyi", "failure"}
    assert set(sf.Budget(2).remaining) == {"pure"}


@pytest.mark.parametrize("renyi", [None, 3 * 10**29])
def test_the_epsilon_of_a_release(renyi: int | None) -> None:
    """Its pure ε; else that of its curve at the account's δ; else r + ln(1/δ)/(α − 1); else none is known."""
    budget = sf.Budget(2, "1e-6")
    assert budget.order is not None
    assert release_epsilon(Cost(5 * 10**29, renyi, 0), None, budget) == Fraction(1, 2)
    assert release_epsilon(Cost(5 * 10**29, renyi, 0), sf.Curve.pure(1), sf.Budget(2)) == Fraction(1, 2)
    unbounded = Cost(None, renyi, 0)
    curve = sf.Curve.concentrated("0.01")
    assert release_epsilon(unbounded, curve, sf.Budget(2)) is None
    found = release_epsilon(unbounded, curve, budget)
    assert found is not None
    assert curve.epsilon("1e-6") <= found <= Fraction(curve.epsilon("1e-6")) * (1 + Fraction(1, 10**8))
    stated = release_epsilon(unbounded, None, budget)
    if renyi is None:
        assert stated is None
        return
    truth = 0.3 + math.log(1e6) / (float(budget.order) - 1)
    assert stated is not None
    assert truth < stated < truth * (1 + 1e-8)
    assert release_epsilon(unbounded, None, sf.Budget(2)) is None


def test_an_odometer_holds_exact_numbers_and_tuples() -> None:
    lists = [[1, 2], [1, 2], [2, 3], ["0.5", 1]]
    found = Odometer("1e-6", "2.5", 1, *lists)  # type: ignore[arg-type]
    assert (found.delta, found.order, found.margin) == (Fraction(1, 10**6), Fraction(5, 2), 1)
    assert type(found.order) is type(found.margin) is Fraction
    assert (found.steps, found.tight, found.adaptive, found.exceptions) == ((1, 2), (1.0, 2.0), (2.0, 3.0), (0.5, 1.0))
    for wrong in (("0", 2, 1), ("1e-6", 1, 1), ("1e-6", 2, 0)):
        with pytest.raises(sf.InvalidParameter):
            Odometer(*wrong, *lists)  # type: ignore[arg-type]
