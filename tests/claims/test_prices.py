"""What workloads, wanted half-widths, weights and limits claim about the clinic's questions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from claims.claimed_questions import Claims, noise_claims, with_prefix
from claims.clinic import clinic
from claims.recorded import check_claims
from mechanisms.recorded import keyed
from sfumato.audit.asked_questions.neighbouring_outcomes import flatten_release
from sfumato.audit.asked_questions.release_sampling import temporary_curator
from sfumato.curator import Curator
from sfumato.release.batch_prices import PricedBatch
from sfumato.release.parts.shares import rounded_down_to_13_digits, rounded_up_to_13_digits as size_rounded_up
from sfumato.release.prices import Price, rounded_up_to_4_digits
from sfumato.release.requests import PriceRequest

COUNTS = {
    "all": "SELECT COUNT(*) AS n FROM visits",
    "adults": "SELECT COUNT(*) AS n FROM visits WHERE age >= 18",
    "regions": "SELECT region, COUNT(*) AS n FROM visits GROUP BY region",
    "people": "SELECT COUNT(DISTINCT who) AS n FROM visits WHERE urgent",
}
FOUND = {
    "notes": "SELECT note, COUNT(*) AS n FROM visits GROUP BY note",
    "codes": "SELECT note, code, COUNT(*) AS n FROM visits GROUP BY note, code",
    "all": COUNTS["all"],
}
FEW = {"people": "SELECT note, COUNT(DISTINCT who) AS n FROM visits GROUP BY note", "all": COUNTS["all"]}
MIXED = {**COUNTS, "means": "SELECT AVG(age) AS a FROM visits", "middle": "SELECT MEDIAN(age) AS m FROM visits"}
WORKLOADS: dict[str, tuple[dict[str, str], PriceRequest, Any, Any]] = {
    "ε": (COUNTS, PriceRequest(1), None, None),
    "weights": (COUNTS, PriceRequest(1), None, {"all": 3, "people": "0.5"}),
    "ε and δ": (COUNTS, PriceRequest(1, "1e-6"), None, None),
    "gaussian": (COUNTS, PriceRequest(1, "1e-6", mechanism="gaussian"), None, None),
    "laplace": (COUNTS, PriceRequest(1, "1e-6", mechanism="laplace"), None, None),
    "ρ": (COUNTS, PriceRequest(rho="0.5"), None, None),
    "found": (FOUND, PriceRequest(4, "1e-6", mechanism="laplace"), None, None),
    "found gaussian": (FEW, PriceRequest(4, "1e-6", mechanism="gaussian"), None, None),
    "mixed": (MIXED, PriceRequest(2), None, None),
    "within": (COUNTS, PriceRequest(), 40, None),
    "within each": (COUNTS, PriceRequest(), {"all": 30, "adults": 50, "regions": {"n": 60}, "people": 5}, None),
    "within δ": (COUNTS, PriceRequest(delta="1e-6"), 40, None),
    "within gaussian": (COUNTS, PriceRequest(delta="1e-6", mechanism="gaussian"), 40, None),
}


@pytest.fixture(scope="module")
def patients() -> Iterator[Curator]:
    with temporary_curator(clinic()) as opened:
        yield opened


def _priced(priced: PricedBatch) -> Claims:
    claims: Claims = {
        "price": str(priced.price),
        "apart": priced.separate_laplace_epsilon,
        "reason": priced.reason,
        "pure": priced.pure,
    }
    for place, each in enumerate(priced.prepared):
        claims |= with_prefix(str(place), noise_claims(each))
    every = range(len(priced.prepared))
    claims["prices of parts"] = (str(priced.priced_subset([0]).price), str(priced.priced_subset(every).price))
    return claims


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.long] if each == "found gaussian" else []) for each in WORKLOADS]
)
def test_workloads(name: str, patients: Curator) -> None:
    questions, request, within, weights = WORKLOADS[name]
    workload = patients.workload(questions)
    check_claims(f"prices/workload {name}", _priced(workload._price_batch(request, within, weights)))


@pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")
def test_released_workload(patients: Curator) -> None:
    claims: Claims = {}
    found: dict[str, Any] = {"epsilon": 90, "delta": "1e-6", "mechanism": "laplace"}
    for name, questions, price in (("counts", COUNTS, {"epsilon": 50}), ("found", FOUND, found)):
        with keyed(name):
            answers = patients.workload(questions).release(**price, fresh=True)
        for asked in questions:
            shown = flatten_release(answers[asked])
            claims[f"{name} {asked}"] = tuple(f"{cell} {value}" for cell, value in shown.items())
    check_claims("prices/released workloads", claims)


ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "count": (COUNTS["all"], {"within": 20}),
    "count at 99 %": (COUNTS["all"], {"within": 20, "confidence": "0.99"}),
    "regions": (COUNTS["regions"], {"within": {"n": 30}}),
    "regions with a δ": (COUNTS["regions"], {"within": {"n": 30}, "delta": "1e-6"}),
    "mean": ("SELECT AVG(age) AS a, COUNT(*) AS n FROM visits", {"within": {"n": 30}}),
}


@pytest.mark.parametrize("name", ASKED)
def test_least_prices(name: str, patients: Curator) -> None:
    text, asked = ASKED[name]
    check_claims(f"prices/least {name}", {"price": patients.sql(text).price(**asked)})


FORECASTS = {
    "counts": "SELECT region, COUNT(*) AS n, COUNT(DISTINCT who) AS people FROM visits GROUP BY region",
    "rollup": "SELECT region, urgent, COUNT(*) AS n FROM visits GROUP BY ROLLUP (region, urgent)",
    "means": "SELECT code, AVG(age) AS a, STDDEV(age) AS d FROM visits GROUP BY code",
    "quantiles": "SELECT MEDIAN(age) AS m, QUANTILE_CONT(cost, 0.9) AS q, COUNT(*) AS n FROM visits",
    "ratios": "SELECT 100.0 * COUNT(*) FILTER (WHERE urgent) / COUNT(*) AS pct, COUNT(*) * 2 AS twice FROM visits",
    "mode": "SELECT MODE(region) AS usual, COUNT(DISTINCT code) AS codes FROM visits",
}


@pytest.mark.parametrize("name", FORECASTS)
def test_forecasts(name: str, patients: Curator) -> None:
    found = patients.sql(FORECASTS[name]).error(epsilon=1)
    ranges = (
        patients.sql(FORECASTS[name]).price_release(PriceRequest(1, range="value")) if name == "quantiles" else None
    )
    claims: Claims = {"parts": tuple(found.parts()), "ranks": tuple(map(str, found.ranks))}
    claims |= {f"width {column}": json.dumps(width, default=str) for column, width in found.columns.items()}
    check_claims(f"prices/forecast {name}", claims | ({} if ranges is None else noise_claims(ranges)))


LIMITED: tuple[dict[str, Any], ...] = (
    {"rows": 1},
    {"rows": 3},
    {"groups": 1},
    {"groups": 2, "rows_per_group": 1},
    {"rows": 5, "rows_per_group": 2},
    {"strategy": "sample"},
    {"strategy": "reweight"},
    {"strategy": "clip-l1", "rows": 4},
    {"strategy": "clip-l2"},
)


@pytest.mark.parametrize("limits", LIMITED, ids=str)
def test_tightened_limits(limits: dict[str, Any], patients: Curator) -> None:
    question = patients.sql(COUNTS["regions"]).limit(**limits)
    gaussian = limits.get("strategy") == "clip-l2"
    request = PriceRequest(rho="0.1", mechanism="gaussian") if gaussian else PriceRequest(1, weights={"n": 2})
    name = " ".join(f"{key} {value}" for key, value in limits.items())
    check_claims(f"prices/limited {name}", noise_claims(question.price_release(request)))


_SIZES = ("1", "10", "123456789012345678", "0.000123456789012345678", "99999999999999.9", "1/3")


@pytest.mark.parametrize("size", _SIZES)
def test_sizes_are_rounded_to_what_prints(size: str) -> None:
    """Up for noise, down for an ε, up for a price; by no more than the digits that are kept allow."""
    exactly = Fraction(size)
    for rounded, digits in ((size_rounded_up, 12), (rounded_up_to_4_digits, 2)):
        assert exactly <= rounded(exactly) <= exactly * (1 + Fraction(1, 10**digits))
    assert exactly * (1 - Fraction(1, 10**12)) <= rounded_down_to_13_digits(exactly) <= exactly
    check_claims(
        f"prices/rounded {size.replace('/', ' over ')}",
        {
            "size": size_rounded_up(exactly),
            "ε": rounded_down_to_13_digits(exactly),
            "price": rounded_up_to_4_digits(exactly),
        },
    )


def test_shortfalls(patients: Curator) -> None:
    curve = patients.sql(COUNTS["all"]).price_release(PriceRequest(1)).curve
    pure, both = (Price(1), Price("0.5"), Price(2)), (Price(1, "1e-6"), Price("0.5", "1e-3"))
    prices = (*pure, *both, Price(rho="0.5"), Price(rho="0.1"))
    claims: Claims = {str(price): (price.log_excess_of(curve), price.is_satisfied_by(curve)) for price in prices}
    check_claims("prices/shortfalls", claims)
