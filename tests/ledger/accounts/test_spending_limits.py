"""A limit beside an account reserves before every charge, and is told whether there was one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.errors import Overspent
from sfumato.ledger import Account, Charged, Entry, Ledger
from sfumato.ledger.accounts.reservations import release_epsilon
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.privacy import Budget, Cost, PrivacyUnit


class Full(Exception):
    """Nothing more fits."""


@dataclass
class Limit:
    """A limit that notes what happens, in order."""

    account: Account
    most: Fraction = Fraction(1)
    said: list[str] = field(default_factory=list)

    def reserve(self, epsilon: Fraction | None) -> Limit:
        if epsilon is None or epsilon > self.most:
            raise Full
        self.said.append(f"reserve {epsilon} at {self.account.spent['pure']}")
        return self

    def settle(self, *, charged: bool) -> None:
        self.said.append("spent" if charged else "back")


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    with Ledger.open(tmp_path / "ledger") as ledger:
        yield ledger.account("clinic", unit=PrivacyUnit("patient"), budget=Budget(1))


def entry(epsilon: str, plan: str = "p", request: str | None = None) -> Entry:
    return Entry(Charged(Laplace(1 / Fraction(epsilon)), 1), "how many", plan, "data", request_id=request)


def test_every_way_to_spend_is_reserved_first(account: Account) -> None:
    limit = Limit(account)
    limited = account.limited(limit)
    limited.charge(entry("0.1"))
    assert limited.ask(entry("0.2", "q"), {"n": 1}).begin() is None
    limited.open_tab(entry("0.3"), whole=True)
    limited.open_tab(Cost(10**29, None, 0)).stop()
    assert limit.said == [
        *("reserve 1/10 at 0", "spent"),
        *("reserve 1/5 at 1/10", "spent"),
        *("reserve 3/10 at 3/10", "spent"),
        *("reserve 1/10 at 3/5", "spent"),
    ]


def test_what_does_not_fit_the_limit_is_not_charged(account: Account) -> None:
    limited = account.limited(Limit(account, Fraction("0.05")))
    for spend in (
        lambda: limited.charge(entry("0.1")),
        lambda: limited.ask(entry("0.1"), {"n": 1}).begin(),
        lambda: limited.open_tab(entry("0.1")),
    ):
        with pytest.raises(Full):
            spend()
    assert account.spent["pure"] == 0
    account.charge(entry("0.1"))  # the account itself has no limit


def test_what_the_account_refuses_or_knows_is_given_back(account: Account) -> None:
    limit = Limit(account, Fraction(100))
    limited = account.limited(limit)
    with pytest.raises(Overspent):
        limited.charge(entry("2"))
    with pytest.raises(Overspent):
        limited.ask(entry("2"), {"n": 1}).begin()
    assert [each for each in limit.said if "reserve" not in each] == ["back", "back"]
    asking = account.ask(entry("0.1", "known"), {"n": 1})
    asking.begin()
    account.answer(asking.line, "7", {"n": 1})
    limit.said.clear()
    assert limited.ask(entry("0.1", "known"), {"n": 1}).begin() is not None
    assert limit.said == []  # it was found before anything had to be reserved


def test_who_joins_an_equal_question_gives_back(account: Account) -> None:
    limit = Limit(account)
    paying = account.ask(entry("0.1", "same"), {"n": 1})
    assert paying.begin() is None
    joined = account.limited(limit).ask(entry("0.1", "same"), {"n": 1})
    found = joined.begin(waiting=lambda: account.answer(paying.line, "7", {"n": 1}) and None)
    assert found is not None
    assert limit.said == ["reserve 1/10 at 1/10", "back"]


def test_the_epsilon_of_a_release_is_its_pure_one_or_that_at_the_accounts_delta() -> None:
    budget = Budget(3, Fraction(1, 10**6))
    pure, gaussian = Charged(Laplace(2), 1).curve, Charged(Gaussian(5), 1).curve
    assert release_epsilon(budget.cost(pure), pure, budget) == Fraction(1, 2)
    found = release_epsilon(budget.cost(gaussian), gaussian, budget)
    assert found is not None
    assert gaussian.epsilon(budget.delta) <= found <= Fraction(gaussian.epsilon(budget.delta)) * Fraction("1.000001")
    loose = release_epsilon(budget.cost(gaussian), None, budget)  # a hold says its Rényi divergence alone
    assert loose is not None
    assert loose >= found
    assert release_epsilon(Cost(None, None, 0), gaussian, Budget(3)) is None


def test_a_hold_for_steps_is_reserved_by_what_its_steps_may_be(tmp_path: Path) -> None:
    """A step has to fit the held amounts alone: its own curve may have a larger ε at δ than the curve that was held."""
    with Ledger.open(tmp_path / "ledger") as ledger:
        budget = Budget(3, Fraction(1, 10**6))
        account, held = ledger.account("clinic", unit=PrivacyUnit("patient"), budget=budget), Charged(Gaussian(20), 1)
        limit = Limit(account, Fraction(100))
        account.limited(limit).open_tab(Entry(held, "steps"))
        account.limited(limit).open_tab(Entry(held, "at once"), whole=True)
        account.limited(limit).open_tab(account.cost(held.curve), whole=True)  # of what, is not said
        reserved = [Fraction(each.split()[1]) for each in limit.said if each.startswith("reserve")]
        loose = release_epsilon(account.cost(held.curve), None, budget)
        assert reserved == [loose, release_epsilon(account.cost(held.curve), held.curve, budget), loose]
        assert reserved[0] > reserved[1]


def test_a_view_of_periods_keeps_the_limit(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger") as ledger:
        account = ledger.account("clinic", unit=PrivacyUnit("patient"), budget=Budget(1), per="month")
        limited = account.limited(Limit(account, Fraction("0.05"))).for_periods(("2024-01",))  # type: ignore[attr-defined]
        with pytest.raises(Full):
            limited.charge(entry("0.1"))
