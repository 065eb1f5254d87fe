"""Which noise a price buys, and what becomes of a δ that nothing uses: case by case."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from plan.described import CATALOG
from plan.test_bounding import ROWS, USERS, bounded_plans
from sfumato.plan.bounding import bound_for_discovery
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.sql.statements import parse
from sfumato.release.prices import Price
from sfumato.release.pricing import PricedRelease, price_release

COUNT = "SELECT COUNT(*) FROM visits"
BOTH, PURE = Price(1, "1e-7"), Price(1)
NAMED, CHOSEN = "you asked for Laplace", "every column is a selected value"


def options(text: str = COUNT, groups: int = 1, table: sf.Table = ROWS) -> list[Any]:
    return list(bounded_plans(text, table, groups).values())


def wide(groups: int = 400) -> list[Any]:
    """Δ₁ = 400 and Δ₂ = 20: Gaussian noise is far narrower; for 25 groups it is narrower, but not by half."""
    table = sf.Table("visits", USERS.source, USERS.columns, id="patient_id", max_rows=groups)
    return options("SELECT region, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY region", groups, table)


def is_gaussian(prepared: PricedRelease) -> bool:
    (mechanism,) = prepared.totals_mechanisms
    return isinstance(mechanism, sf.Gaussian)


@pytest.mark.parametrize(
    ("plans", "price", "family", "gaussian", "reason"),
    [
        (options, PURE, None, False, ""),
        (options, PURE, sf.Laplace, False, ""),
        (options, BOTH, None, False, "needs no δ"),
        (options, BOTH, sf.Laplace, False, NAMED),
        (options, BOTH, sf.Gaussian, True, ""),
        (options, Price(rho="0.01"), None, True, ""),
        (wide, PURE, None, False, ""),
        (wide, BOTH, None, True, ""),
        (wide, BOTH, sf.Laplace, False, NAMED),
        (wide, Price(rho="0.01"), sf.Laplace, False, ""),
    ],
)
def test_the_narrowest_noise_is_chosen_and_an_unused_delta_is_not_charged(
    plans: Any, price: Price, family: Any, gaussian: bool, reason: str
) -> None:
    prepared = price_release(plans(), price, family=family)
    assert is_gaussian(prepared) == gaussian
    assert bool(prepared.unused_delta_reason) == bool(reason)
    assert reason in prepared.unused_delta_reason
    assert prepared.price == (PURE if reason else price)
    if price.epsilon is not None and not gaussian:
        assert prepared.curve.max_divergence == 1


def test_what_is_not_chosen_would_have_been_wider() -> None:
    for plans in (options(), wide()):
        chosen, *named = (price_release(plans, BOTH, family=family) for family in (None, sf.Laplace, sf.Gaussian))
        assert chosen.half_widths() == min(prepared.half_widths() for prepared in named)


def test_a_strategy_decides_the_noise_that_it_allows() -> None:
    by_strategy = bounded_plans("SELECT region, COUNT(*) AS n FROM visits GROUP BY region")
    clipped, other = by_strategy[Strategy.CLIP_L2], by_strategy[Strategy.CLIP_L1]
    assert is_gaussian(price_release([clipped], BOTH))
    assert not is_gaussian(price_release([other], BOTH))
    for plan, price, family in ((clipped, PURE, None), (clipped, BOTH, sf.Laplace), (other, BOTH, sf.Gaussian)):
        with pytest.raises(sf.InvalidParameter, match="strategy"):
            price_release([plan], price, family=family)


def test_gaussian_noise_needs_a_delta_or_a_rho() -> None:
    for plan in options(), [bounded_plans("SELECT region, COUNT(*) FROM visits GROUP BY region")[Strategy.CLIP_L2]]:
        with pytest.raises(sf.InvalidParameter) as refusal:
            price_release(plan, PURE, family=sf.Gaussian)
        assert refusal.value.parameter == "mechanism"


def test_gaussian_noise_that_gains_little_does_not_end_a_pure_account() -> None:
    plans = wide(25)
    account = sf.Budget(3, "1e-6")
    assert is_gaussian(price_release(plans, BOTH))
    assert not is_gaussian(price_release(plans, BOTH, account=account))
    assert is_gaussian(price_release(plans, BOTH, account=account, family=sf.Gaussian))
    assert is_gaussian(price_release(wide(), BOTH, account=account))
    narrower = price_release(options(), BOTH, account=account)
    assert not is_gaussian(narrower)
    assert narrower.reason == price_release(options(), BOTH).reason


def test_noise_on_a_sample_costs_the_price_after_amplification() -> None:
    rate, (plan,) = Fraction(1, 4), options()[:1]
    prepared = price_release([plan], PURE, sample=rate)
    whole = price_release([plan], PURE)
    assert prepared.price == whole.price == PURE
    assert prepared.bounded.sample == rate
    assert whole.bounded.sample is None
    charged = prepared.curve.max_divergence
    assert charged is not None
    assert Fraction(999, 1000) < charged <= 1
    scales = [release.totals_mechanisms[0].sizes[0] for release in (prepared, whole)]  # type: ignore[attr-defined]
    assert scales[0] < scales[1] / 2  # ln(1 + 4(e − 1)) = 2.06 instead of 1


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Any:
    import pyarrow as pa

    data = pa.table({"age": [1, 2], "town": ["Ulm", "Bonn"]})
    columns = {"age": sf.Domain("integer", bounds=(0, 110)), "town": sf.Domain("text", values=("Ulm", "Bonn"))}
    folder: Path = tmp_path_factory.mktemp("rows")
    table = sf.Table("visits", data, columns, id="row")
    policy = sf.Policy(sf.PrivacyUnit("visit", every_row=True), sf.Budget(9, "1e-6"), {"visits": table})
    with sf.Curator(policy, folder / "rows.ledger") as curator:
        yield curator


@pytest.mark.parametrize("family", [None, sf.Laplace, sf.Gaussian])
def test_selections_alone_are_paid_for_in_epsilon(rows: sf.Curator, family: Any) -> None:
    question = rows.sql("SELECT MEDIAN(age) AS m FROM visits")
    for price, reason in ((BOTH, CHOSEN), (PURE, "")):
        if family is sf.Gaussian and price is PURE:
            continue
        prepared = price_release(question.bounding_options, price, others=question.other_parts, family=family)
        assert prepared.curve.max_divergence == 1
        assert prepared.price == PURE
        assert (reason in prepared.unused_delta_reason) == bool(reason) or not prepared.unused_delta_reason


@pytest.mark.parametrize("text", ["MEDIAN(age) AS m, COUNT(*) AS n", "COUNT(DISTINCT age) AS d", "COUNT(*) AS n"])
def test_what_gets_noise_beside_a_selection_is_no_selection(rows: sf.Curator, text: str) -> None:
    question = rows.sql(f"SELECT {text} FROM visits")
    prepared = price_release(question.bounding_options, BOTH, others=question.other_parts)
    assert CHOSEN not in prepared.unused_delta_reason
    named = price_release(question.bounding_options, BOTH, others=question.other_parts, family=sf.Gaussian)
    assert named.curve.max_divergence is None
    assert (named.price, named.unused_delta_reason) == (BOTH, "")


def test_found_groups_use_the_delta_whatever_the_noise() -> None:
    plan = parse("SELECT ward, COUNT(*) FROM visits GROUP BY ward", CATALOG).plan
    bounded = bound_for_discovery(replace(plan, measures=plan.measures), ContributionLimits(5, 3, 2))
    for family in (None, sf.Laplace, sf.Gaussian):
        prepared = price_release([bounded], Price(2, "1e-7"), family=family)
        assert prepared.selection is not None
        assert (prepared.price, prepared.unused_delta_reason) == (Price(2, "1e-7"), "")
