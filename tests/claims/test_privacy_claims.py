"""The privacy package on record: numbers and amounts, sensitivities, budgets, calibrated noise, theorems, readings."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from claims.outcomes import numbers, outcome, outcomes, to_digits
from claims.recorded import Claim, check_claims
from privacy.families import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from sfumato.privacy import (
    Budget,
    Cost,
    Curve,
    Guarantee,
    Sensitivity,
    amounts,
    calibration,
    divergences,
    numbers as public_numbers,
    pairs,
    shape,
    theorems,
)
from sfumato.privacy.guarantee import PrivacyUnit
from sfumato.privacy.losses import BoundedRangeLoss, PairLoss, ResponseLoss, sum_with_counts_rounded_up
from sfumato.privacy.noise_losses import LaplaceLoss
from sfumato.privacy.odometer import odometer
from sfumato.privacy.reading import posterior, reading
from sfumato.privacy.theorems import renyi_allowance

F = Fraction
TINY, HUGE = F(1, 10**300), F(10**300)
BOTH = ("add-remove", "replace")


def test_numbers() -> None:
    values = [F(1, 3), F(1, 10), F(3, 10), F(-1, 3), F(0), F(2**70 + 1), F(1, 10**320), 10**309 * F(1), F(-(10**309))]
    texts: list[Any] = [
        "1",
        "0.1",
        "1/3",
        " 2 ",
        "1/0",
        "1,5",
        "1e400",
        "1e-301",
        "1e-300",
        "1e300",
        "1.1e300",
        "x",
        "",
    ]
    texts += [True, 0.1, np.float32(0.1), np.int64(7), Decimal("0.25"), Decimal("NaN"), math.nan, math.inf, None, -0.0]
    texts += ["9" * 300, "9" * 301, "0." + "1" * 1999, "0." + "1" * 2001, F(1, 2**4095), F(1, 2**4096), f"{10**290}/3"]
    texts += [f"0.1{'0' * 1999}", f"0.1{'0' * 2000}", "9" * 4999 + ".", " " * 4999 + "11"]
    texts += [
        f"1/{'3' * 3990}",
        f"1/{'3' * 4000}",
        "1e-1000",
        "1e1001",
        F(2**4095, 2**4095 - 1),
        F(2**4096, 2**4096 - 1),
    ]
    texts += [IntEnum("Chosen", {"SEVEN": 7}).SEVEN]  # type: ignore[attr-defined]
    ranges = ["ANY", "POSITIVE", "NONNEGATIVE", "PROBABILITY", "BELOW_ONE", "INSIDE_UNIT", "CONFIDENCE", "ABOVE_ONE"]
    edges = [F(-1), F(0), F(1, 10**31), F(1, 100), F(1, 2), 1 - F(1, 10**30), 1 - F(1, 10**31), F(1), F(2)]
    wholes: list[Any] = [-1, 0, 1, 2, 3, "3", 3.0, 2.5, (1 << 64) - 1, 1 << 64, 10**300, 10**301, True, None, F(4, 2)]
    claims: dict[str, Claim] = {
        "exact": outcomes(lambda value: str(public_numbers.exact(value, "value"))[:80], texts),
        "whole": outcomes(lambda value: public_numbers.exact_integer(value, "value"), wholes),
        "whole from 2": outcomes(lambda value: public_numbers.exact_integer(value, "value", at_least=2), wholes),
        "infinite": outcomes(
            public_numbers.means_plus_infinity, ["inf", "Infinity ", "-inf", math.inf, -math.inf, 1, "1", None]
        ),
        "infinite decimals": outcomes(
            public_numbers.means_plus_infinity, [Decimal("inf"), Decimal("-inf"), Decimal(1), F(1)]
        ),
        "charge_units": outcomes(public_numbers.units_rounded_up, values[:6]),
        "allowance_units": outcomes(public_numbers.units_rounded_down, values[:6]),
        "from_units": outcomes(public_numbers.amount_from_units, [0, 1, 10**29, F(1, 3)]),
        "raised": tuple(each.hex() for each in map(public_numbers.next_float_up, (0.0, 1.0, -1.0, 0.3))),
        "lowered": tuple(each.hex() for each in map(public_numbers.next_float_down, (0.0, 1.0, -1.0, 0.3))),
    }
    roundings = {
        "above": public_numbers.decimal_float_above,
        "below": public_numbers.decimal_float_below,
        "float_above": public_numbers.float_above,
        "float_below": public_numbers.float_below,
    }
    for name, rounding in roundings.items():
        claims[name] = tuple(rounding(value).hex() for value in values)
    for name in ranges:
        claims[f"in {name}"] = tuple(value in getattr(public_numbers, name) for value in edges)
    check_claims("privacy/numbers", claims)


def test_amounts() -> None:
    values = [F(0), F(1, 10), F(1, 3), F(1, 10**9), F(1, 10**9 + 7), F(7, 10**31), F(1, 3 * 10**30), F(1, 999999937)]
    held: list[Any] = [0, 5, F(1, 2), F(10**30, 3), F(10**30, 3**125), F(10**30, 3**126), F(7, 7), F(10**30, 7**71)]
    written = ["0", "12", "1/3", "2/6", "1/1", "3/1", "-1/3", "1/0", "0/3", f"1/{10**60 - 1}", f"1/{10**60 + 1}", "x/3"]
    claims: dict[str, Claim] = {
        "exact_amount": outcomes(amounts.exact_amount, values),
        "charge_amount": outcomes(amounts.charge_amount, values),
        "add": tuple(outcomes(lambda b, a=a: amounts.add_rounded_up(a, b), held) for a in held),
        "subtract": tuple(outcomes(lambda b, a=a: amounts.subtract_rounded_down(a, b), held) for a in held),
        "round_up": outcomes(amounts.round_up_if_long, held),
        "round_down": outcomes(amounts.round_down_if_long, held),
        "write": outcomes(amounts.format_amount, held),
        "read": outcomes(amounts.parse_amount, written),
        "checked": outcomes(
            lambda value: amounts.checked_amount(value, "spent"), [*held, -1, F(-1, 2), "1/3", "3", 1.0, True]
        ),
    }
    check_claims("privacy/amounts", claims)


def test_sensitivities() -> None:
    given: list[tuple[Any, ...]] = [
        (1, 1),
        (4, 2, 5),
        (3, "1.5"),
        (2, 3, None, 10),
        (2, 3, 5, 12),
        (5, 2, 1),
        (3, 0, 2),
    ]
    given += [(4, 2, 5, 4), (4, 2, 5, "0.5"), (2, "1e200"), (2, "1e150", None, "1e299"), (0, 1), (1, -1), (3, 2, 0)]
    given += [(7, "0.1", "0.35"), (9, 3, "7.5", "18"), (2, 2, 4, 8), (2, 2, 4, 9), (3, "1e160", None, "1e300")]
    claims: dict[str, Claim] = {}
    for arguments in given:
        change = outcome(lambda arguments=arguments: Sensitivity(*arguments))
        claims[f"{arguments}"] = change
        if not isinstance(change, str):
            made = Sensitivity(*arguments)
            claims[f"{arguments} norms"] = (made.l0, made.l1, made.l2, made.linf, numbers(made.coordinates))
            claims[f"{arguments} times 3"] = outcome(lambda made=made: made.repeated(3))
            for signed in (True, False):
                name = f"{arguments} replaced, {'signed' if signed else 'of one sign'}"
                claims[name] = outcome(lambda made=made, signed=signed: made.for_neighbours("replace", signed=signed))
    there = Sensitivity(2, neighbours="replace")
    claims["back"] = outcome(lambda: there.for_neighbours("add-remove"))
    claims["same"] = outcome(lambda: there.for_neighbours("replace"))
    claims["sign in words"] = outcome(lambda: Sensitivity().for_neighbours("replace", signed="no"))  # type: ignore[arg-type]
    claims["of"] = outcomes(Sensitivity.of, [3, "0.5", -1, there])
    check_claims("privacy/sensitivities", claims)


def test_guarantees() -> None:
    units: dict[str, dict[str, Any]] = {
        "plain": {},
        "blank": {"name": " "},
        "no text": {"name": 3},
        "unprintable": {"name": "a\n"},
        "longest": {"name": "n" * 100},
        "longer": {"name": "n" * 101},
        "day": {"period": "day"},
        "fortnight": {"period": "fortnight"},
        "period of no text": {"period": 3},
        "column": {"period": "day", "period_column": "at"},
        "column without period": {"period_column": "at"},
        "column of no text": {"period": "day", "period_column": 3},
        "row": {"every_row": True},
        "row in words": {"every_row": "yes"},
        "row in a period": {"every_row": True, "period": "day"},
        "row by a path": {"every_row": True, "path": ("a",)},
        "path": {"path": ["a", "b"]},
        "empty step": {"path": ("a", "")},
        "step of no text": {"path": (3,)},
        "path of no list": {"path": "ab"},
    }
    claims = {
        name: outcome(lambda given=given: PrivacyUnit(**{"name": "patient", **given})) for name, given in units.items()
    }
    strong = [Guarantee(1), Guarantee(1, "0.1"), Guarantee(2), Guarantee(2, "0.1"), Guarantee(0, "0.2")]
    claims["implies"] = tuple(outcomes(a.implies, strong) for a in strong)
    claims["limits"] = outcomes(lambda given: Guarantee(*given), [(-1,), (1, -1), (1, 1), (1, "0.999"), (0, 0)])
    claims["of"] = outcomes(Guarantee.of, [Guarantee(1), 1, None])
    claims["neighbours"] = outcomes(
        lambda relation: Sensitivity(neighbours=relation), ["replace", "add-remove", "both"]
    )
    check_claims("privacy/guarantees", claims)


ACCOUNTS: dict[str, Callable[[], Budget]] = {
    "pure": lambda: Budget(1),
    "approximate": lambda: Budget(2, "1e-6"),
    "replaced": lambda: Budget("1/3", "1e-5", neighbours="replace"),
    "all reserved": lambda: Budget(1, "1e-4", reserve="1e-4"),
    "nothing reserved": lambda: Budget("0.5", "1e-3", reserve=0, order=20),
    "failures alone": lambda: Budget(0, "0.01"),
    "spent": lambda: Budget(1, "1e-6", spent_pure=F(10**30, 3), spent_renyi=10**29, spent_failure=10**22),
    "closed": lambda: Budget(1, "1e-6", spent_pure=None, spent_renyi=10**28),
    "closed and large": lambda: Budget(30, "1e-6", spent_pure=None, spent_renyi=10**28),
    "full": lambda: Budget(1, "1e-6", spent_pure=10**30, spent_failure=10**23),
    "over": lambda: Budget(1, spent_pure=10**30 + 1),
}
RELEASES = {
    "laplace": Curve.laplace(4),
    "gaussian": Curve.gaussian(30),
    "failing": Curve.approximate("0.1", "1e-8"),
    "failing alone": Curve.approximate(0, "1e-7"),
    "third": Curve.pure("1/3"),
    "large": Curve.pure(3),
    "nothing": Curve([]),
    "replaced": Curve.pure("0.05", "replace"),
}


def _priced(cost: Cost) -> Claim:
    """Return a cost with its Rényi divergence as the float that it was rounded up from."""
    return numbers((cost.pure, None if cost.renyi is None else float(cost.renyi), cost.failure))


@pytest.mark.parametrize("name", ACCOUNTS)
def test_accounts(name: str) -> None:
    account = ACCOUNTS[name]()
    claims: dict[str, Claim] = {
        "terms": numbers((account.epsilon, account.delta, account.reserve, account.order, account.neighbours)),
        "allowances": numbers(account.allowances),
        "totals": numbers(account.totals),
        "spent": numbers(account.spent),
        "remaining": numbers(account.remaining),
        "largest_pure": numbers(account.largest_pure()),
        "largest_from_pure": numbers(account._largest_within_pure_currency()),
        "share": numbers(account.share("1/3").allowances),
        "share of what is spent": numbers(account.share("1/3").totals),
    }
    for release, curve in RELEASES.items():
        claims[f"cost of {release}"] = outcome(lambda curve=curve: _priced(account.cost(curve)))
        claims[f"affords {release}"] = outcome(lambda curve=curve: account.affords(curve))
        claims[f"after {release}"] = outcome(lambda curve=curve: _priced(account.charge(curve).charge(curve).totals))
    check_claims(f"privacy/account_{name.replace(' ', '_')}", claims)


def test_largest_releases() -> None:
    claims: dict[str, Claim] = {}
    for name in ("pure", "approximate", "closed", "full"):
        account = ACCOUNTS[name]()
        for family in (Laplace, Gaussian):
            claims[f"{name}: {family.__name__}"] = outcome(
                lambda account=account, family=family: account.largest(family)
            )
        claims[f"{name}: at a delta"] = outcome(
            lambda account=account: account.largest(Laplace, sensitivity=3, delta="1e-9")
        )
    claims["no family"] = outcome(lambda: Budget(1).largest(lambda size: size))  # type: ignore[arg-type, return-value]
    check_claims("privacy/largest_releases", claims)


def test_costs() -> None:
    costs = [
        Cost(0, 0, 0),
        Cost(0, None, 0),
        Cost(5, 3, 1),
        Cost(F(1, 3), None, F(1, 2)),
        Cost(None, 4, 0),
        Cost(7, 9, 0),
    ]
    claims: dict[str, Claim] = {}
    for index, cost in enumerate(costs):
        claims[f"{index} nothing"] = cost.is_zero
        claims[f"{index} amounts"] = numbers(cost.amounts)
        claims[f"{index} plus"] = outcomes(cost.__add__, costs)
        claims[f"{index} covers"] = outcomes(cost.covers, costs)
        claims[f"{index} less"] = outcomes(cost.minus, costs)
        claims[f"{index} rounds"] = tuple(
            outcomes(lambda b, a=a, cost=cost: cost.is_rounded_sum(a, b), costs) for a in costs
        )
        claims[f"{index} without"] = outcomes(cost.minus_roundings, (0, 1, 9))
        claims[f"{index} short"] = numbers(cost.with_short_fractions())
        claims[f"{index} whole"] = numbers(cost.in_whole_units())
    long = Cost(F(10**30, 3**126), 1, F(10**30, 3**126))
    claims["long short"] = numbers(long.with_short_fractions())
    refused: list[Any] = [(-1, 0, 0), (1, -1, 0), (1, 1.5, 0), (1, True, 0), (1, 0, -1), (1.5, 0, 0), ("1/3", 0, "1/7")]
    claims["refused"] = outcomes(lambda given: Cost(*given), refused)
    terms: list[dict[str, Any]] = [
        {"reserve": "1e-6"},
        {"reserve": "1.1e-6"},
        {"reserve": -1},
        {"order": 1},
        {"order": "1.01"},
    ]
    terms += [{"spent_renyi": -1}, {"spent_renyi": 1.0}, {"spent_failure": -1}, {"spent_pure": "1/3"}, {"reserve": 0}]
    claims["terms"] = outcomes(lambda given: Budget(1, "1e-6", **given).allowances, terms)
    claims["order without delta"] = outcome(lambda: Budget(1, order=2))
    check_claims("privacy/costs", claims)


def test_calibrated_noise() -> None:
    claims: dict[str, Claim] = {}
    promises = [Guarantee(1), Guarantee("0.1", "1e-6"), Guarantee(3, "1e-9"), Guarantee("1/3")]
    for family in (Laplace, DiscreteLaplace, Gaussian, DiscreteGaussian):
        for promise in promises:
            changes = [Sensitivity(1, 2)] if promise.delta else [Sensitivity(2), Sensitivity(3, 2, 3)]
            made = [lambda p=promise, c=change, f=family: sf.calibrate(f, p, c) for change in changes]
            if promise.delta or family in (Laplace, DiscreteLaplace):
                claims[f"{family.__name__} for {promise}"] = tuple(outcome(each) for each in made)
    claims["impossible"] = outcome(lambda: sf.calibrate(Gaussian, Guarantee(1)))
    claims["needless"] = outcome(lambda: sf.calibrate(Laplace, Guarantee(1), 0))
    claims["no family"] = outcome(lambda: sf.calibrate(lambda size: size, Guarantee(1)))  # type: ignore[type-var]
    check_claims("privacy/calibrated_noise", claims)


def test_searches() -> None:
    seen: list[Fraction] = []

    def short(size: Fraction) -> float:
        seen.append(size)
        return float(F(17, 10) - size)

    conditions = [F(1), F(1, 3), F(17, 10), F(10**59), F(10**61), F(1, 10**59), F(1, 10**61), F(4), F(1234567, 1000)]
    claims: dict[str, Claim] = {
        "least": outcomes(lambda limit: calibration.least_parameter(lambda size: size >= limit, "it"), conditions),
        "least roughly": outcomes(
            lambda limit: calibration.least_parameter(lambda size: size >= limit, "it", F(1, 64)), conditions
        ),
        "least_parameter_by": numbers(calibration.least_parameter_by_shortfall(short, "it")),
        "looked at": tuple(map(numbers, seen)),
        "round_numbers": outcomes(
            lambda ends: calibration._rounder_numbers_near(*ends),
            [
                *((F(1, 3) - F(1, 10**15), F(1, 3) + F(1, 10**17)), (F(1), F(1)), (F(2, 3), F(3, 4))),
                *((F(1, 7), F(1, 7) * (1 + F(1, 2**46))), (F(10000, 10001), F(10001, 10002))),
                (F(1, 10**9), F(1, 10**9) + F(1, 10**30)),
            ],
        ),
        "above": tuple(
            calibration.log_excess(v, m) for v in (0.0, 0.5, 1.0, math.inf, -1.0) for m in (F(1, 2), F(0), F(1))
        ),
        "above of long ones": tuple(
            calibration.log_excess(F(1, 10**400) + d, F(1, 10**400)) > 0 for d in (0, F(1, 10**450), -F(1, 10**450))
        ),
        "shortfall": tuple(
            calibration.log_delta_excess(curve, promise)
            for curve in (Curve.pure(1), Curve.gaussian(3), Curve.approximate("0.5", "1e-6"))
            for promise in (Guarantee(1), Guarantee("0.5", "1e-6"), Guarantee("0.5"), Guarantee(1, "1e-3"))
        ),
        "meets": tuple(
            calibration.meets(curve, Guarantee(1, delta))
            for curve in (Curve.pure(1), Curve.pure("1.001"), Curve.gaussian(5), Curve.gaussian(4))
            for delta in (0, "1e-5")
        ),
    }
    check_claims("privacy/searches", claims)


def test_compositions_in_parts() -> None:
    failing = [
        [(ResponseLoss(F(1), 2, F(1, d)), n)] for d, n in ((10, 1), (10, 64), (10, 65), (1000, 300), (10, 10**6))
    ]
    failing += [[(PairLoss((F(1), F(0)), (F(0), F(1))), 70)], [], [(ResponseLoss(F(1)), 5)]]
    many = [[(F(1, k), k) for k in range(3, 3 + n)] for n in (1, 16, 17)] + [[(F(1), 2), (None, 1)], []]

    def failing_pair(count: int) -> shape.Parts:
        return ((ResponseLoss(F(1, 9), 2, F(1, 100)), count),)

    profile = shape._closed_form_profile(((LaplaceLoss(F(1)), 1),))
    assert profile is not None
    claims: dict[str, Claim] = {
        "failure_range": tuple(numbers(shape.failure_range(tuple(each))) for each in failing),
        "sum_rounded_up": tuple(numbers(sum_with_counts_rounded_up(each)) for each in many),
        "max_divergence": tuple(numbers(shape.max_divergence(tuple(each))) for each in failing),
        "last": tuple(shape._bisect_floats(lambda x, k=k: x < k) for k in (0.0, 0.3, 1.0, 77.7, math.inf)),
        "invert": tuple(shape._invert_profile(profile, d) for d in (F(1, 10**9), F(1, 10), F(9, 10))),
        "closed forms": tuple(
            shape._closed_form_profile(parts) is not None
            for parts in (((LaplaceLoss(F(1)), 1),), ((LaplaceLoss(F(1)), 2),), ((LaplaceLoss(F(1)), 1),) * 2)
        ),
        "no parts": (shape.epsilon_range((), F(0)), shape.delta_range((), F(0))),
        "failure alone": tuple(
            shape.epsilon_range(((ResponseLoss(F(0), 2, F(1, 10)), n),), d)
            + shape.delta_range(((ResponseLoss(F(0), 2, F(1, 10)), n),), F(1))
            for n in (1, 70)
            for d in (F(0), F(1, 10), F(1, 5))
        ),
        "around the failure": tuple(
            to_digits(shape.epsilon_range(failing_pair(n), shape.failure_range(failing_pair(n))[side] + d))
            for n in (1, 2)
            for side in (0, 1)
            for d in (-F(1, 10**20), F(0), F(1, 10**20), F(1, 10**3))
        ),
    }
    check_claims("privacy/compositions_in_parts", claims)


def test_finite_pairs() -> None:
    given: list[tuple[Any, Any]] = [
        (["1/2", "1/2"], ["1/3", "2/3"]),
        (["1/2", "1/4", "1/4"], ["1/4", "1/4", "1/2"]),
        (["1/2", "1/2", 0], [0, "1/2", "1/2"]),
        ([1, 0], [0, 1]),
        ({"a": "0.2", "b": "0.8"}, {"b": "0.5", "c": "0.5"}),
        (["0.1"] * 10, ["0.05"] * 5 + ["0.15"] * 5),
        ([0.3333333333, 0.6666666667], ["0.5", "0.4999999999"]),
        (["0.5", "0.499999999"], ["0.5", "0.5"]),
        (["0.5", "0.4999999989"], ["0.5", "0.5"]),
        (["0.5", "0.5000000001"], ["0.5", "0.5"]),
        (["0.5", "0.5"], ["0.5", "0.5000000012"]),
        (["0.5", "0.5"], ["1"]),
        ({"a": 1}, [1]),
        ("ab", [1]),
        (["1.5", "-0.5"], ["1", "0"]),
        ([0.999, 0.001], [0.001, 0.999]),
        (["0.5000001", "0.4999999"], ["0.5", "0.5"]),
        (["0.5", "0.3", "0.2", 0], ["0.5", "0.3", 0, "0.2"]),
        (["1e-200", 1], [1, "1e-200"]),
    ]
    claims: dict[str, Claim] = {}
    for index, (p, q) in enumerate(given):
        claims[f"{index} aligned"] = outcome(lambda p=p, q=q: pairs.aligned_masses(p, q))
        claims[f"{index} normalised"] = outcome(lambda p=p, q=q: pairs.normalised_masses(p, q))
        claims[f"{index} kl"] = outcome(lambda p=p, q=q: divergences.kl(p, q))
        claims[f"{index} max"] = outcome(lambda p=p, q=q: divergences.max_divergence(p, q))
        claims[f"{index} renyi"] = outcomes(
            lambda order, p=p, q=q: divergences.renyi(p, q, order), ("0.01", "0.5", "0.9", 1, 2, 50, "inf")
        )
        claims[f"{index} sticks"] = outcomes(lambda e, p=p, q=q: divergences.hockey_stick(p, q, e), (0, "0.3", 2, 900))
    for index in (0, 1, 2, 3, 4, 5):
        exact = pairs.aligned_masses(*given[index])
        claims[f"{index} corners"] = numbers(pairs.roc_corners(*exact))
        claims[f"{index} symmetrised"] = numbers(pairs.symmetrised_masses(*exact))
        claims[f"{index} chained"] = tuple(numbers(pairs.group_pair(*exact, k)) for k in (1, 2, 4))
    corners = [
        (F(0), F(0)),
        (F(0), F(1, 4)),
        (F(0), F(1, 8)),
        (F(1, 4), F(1, 2)),
        (F(1, 2), F(1, 2)),
        (F(1, 2), F(3, 4)),
        (F(1), F(1)),
    ]
    claims["hull"] = numbers(pairs.concave_hull(corners))
    claims["hull of two steps"] = numbers(
        pairs.concave_hull([(F(0), F(1, 2)), (F(0), F(0)), (F(1), F(1)), (F(1), F(1, 2))])
    )
    claims["hull of a line"] = numbers(pairs.concave_hull([(F(k, 4), F(k, 4)) for k in range(5)]))
    claims["value"] = tuple(pairs._evaluate_curve(pairs.concave_hull(corners), F(k, 8)) for k in range(10))
    claims["after"] = numbers(pairs._compose_curves(pairs.concave_hull(corners), pairs.concave_hull(corners)))
    claims["steps"] = numbers(pairs._pair_from_power_curve(pairs.concave_hull(corners)))
    check_claims("privacy/finite_pairs", claims)


def test_odometers() -> None:
    plans: dict[str, list[Any]] = {
        "none": [],
        "one": [Curve.laplace(4)],
        "three": [Curve.laplace(4), (Curve.gaussian(9), 5), Curve.pure("0.2"), (Curve.pure(1), 0)],
        "failing": [Curve.approximate("0.1", "1e-8"), Curve.laplace(9), (Curve.approximate("0.1", "1e-7"), 4)],
        "failing too often": [
            Curve.approximate("0.1", "4e-7"),
            Curve.approximate("0.1", "6e-7"),
            Curve.approximate("0.1", "1e-20"),
        ],
        "many": [Curve.gaussian(100 + k) for k in range(103)],
    }
    claims: dict[str, Claim] = {}
    for name, plan in plans.items():
        for label, more in (("", {}), (" of order 3", {"order": 3}), (" of margin 0.1", {"margin": "0.1"})):
            if name != "many" or not label:
                made = odometer(plan, "1e-6", **more)  # type: ignore[arg-type]
                tight = () if name == "many" else made.tight
                claims[name + label] = numbers(
                    (made.order, made.margin, made.steps, tight, made.adaptive, made.exceptions)
                )
    claims["default orders"] = outcomes(lambda delta: odometer([], delta).order, ("1e-9", "0.5", "0.97"))
    claims["refused"] = outcomes(lambda given: odometer([], *given), [(0,), (1,)])
    check_claims("privacy/odometers", claims)


def test_readings() -> None:
    promises: dict[str, Any] = {
        "pure": Guarantee(1),
        "approximate": Guarantee("0.5", "1e-6"),
        "weak": Guarantee(1, "0.05"),
        "weaker": Guarantee(1, "0.2"),
        "weakest": Guarantee(3, "0.2"),
        "hardly anything": Guarantee(1, "0.95"),
        "nothing": Guarantee(0),
        "gaussian": Curve.gaussian(3),
        "laplace": Curve.laplace(2),
        "replaced": Curve.pure(1, "replace"),
        "failing": Curve.approximate("0.3", "1e-6"),
    }
    claims: dict[str, Claim] = {}
    for name, promise in promises.items():
        for given in ({}, {"delta": "1e-3"}, {"prior": "0.5", "delta": "0.01", "false_positive_rate": "0.2"}):
            if name != "gaussian" or given != {"delta": "1e-3"}:
                claims[f"{name} {given}"] = outcome(lambda p=promise, g=given: reading(p, **g))
    claims["replaced guarantee"] = outcome(lambda: reading(Guarantee(1), neighbours="replace"))
    claims["curve of its own"] = outcome(lambda: reading(Curve.pure(1), neighbours="replace"))
    claims["no promise"] = outcome(lambda: reading(1))  # type: ignore[arg-type]
    claims["posterior"] = tuple(posterior(p, x) for p in (1e-6, 0.3, 0.99) for x in (0.0, 1.0, 30.0, 800.0))
    check_claims("privacy/readings", claims)


def test_theorems() -> None:
    promises = [Guarantee(1), Guarantee("0.5", "1e-6"), Guarantee("0.2", "1e-3"), Guarantee(2)]
    claims: dict[str, Claim] = {
        "basic": numbers(theorems.basic(promises)),
        "basic of none": numbers(theorems.basic([])),
        "basic beyond": outcome(lambda: theorems.basic([Guarantee(1, "0.5"), Guarantee(1, "0.5")])),
        "basic of words": outcomes(theorems.basic, ["ab", 3, [1]]),
        "parallel": tuple(numbers(theorems.parallel(promises, relation)) for relation in BOTH),
        "advanced": tuple(outcome(lambda p=p, k=k: theorems.advanced(p, k, "1e-7")) for p in promises for k in (1, 50)),
        "advanced limits": tuple(
            outcome(lambda p=p: float(theorems.advanced(p, 1, "1e-7").epsilon))
            for p in (Guarantee(300), Guarantee(301))
        ),
        "advanced beyond": outcome(lambda: theorems.advanced(Guarantee(1, "0.1"), 10, "0.1")),
        "optimal": tuple(
            numbers(theorems.optimal(e, k)) for e, k in ((0, 3), ("0.1", 1), ("0.5", 6), (2, 7), ("30", 4))
        ),
        "optimal limits": outcomes(lambda k: len(theorems.optimal("0.001", k)), (0, 4001)),
        "group": tuple(outcome(lambda p=p, k=k: theorems.group(p, k)) for p in promises for k in (1, 3)),
        "pure_to_rho": outcomes(theorems.pure_to_rho, (0, 1, "1/3")),
        "renyi_to_delta": tuple(
            outcome(lambda a=a, r=r, e=e: theorems.renyi_to_delta(a, r, e))
            for a in ("1.0001", 2, 30, "1e6")
            for r, e in (("0.5", 1), (1, "0.5"), (0, 0), (0, 900), (900, 0), (0, "1e7"))
        ),
        "renyi_to_epsilon": tuple(
            outcome(lambda a=a, r=r, d=d: theorems.renyi_to_epsilon(a, r, d))
            for a in ("1.0001", 2, 30)
            for r, d in (("0.5", "1e-6"), (0, "0.9"), (3, "1e-300"))
        ),
        "rho_to_epsilon": outcome(lambda: theorems.rho_to_epsilon("0.1", "1e-6")),
        "rho_to_delta": outcome(lambda: theorems.rho_to_delta("0.1", 1)),
        "mu_to_delta": outcome(lambda: theorems.mu_to_delta("0.7", 1)),
        "mu_to_epsilon": outcome(lambda: theorems.mu_to_epsilon("0.7", "1e-6")),
        "conversion_cost": tuple(
            numbers(theorems._conversion_cost(a, d, rounding))
            for a in (F(11, 10), F(7), F(10**6))
            for d in (F(1, 10**6), F(1, 2), F(1, 10**100))
            for rounding in ("ROUND_CEILING", "ROUND_FLOOR")
        ),
        "chernoff_additive": tuple(theorems.chernoff_additive(m, t) for m in (1, 400) for t in (0, "0.1", 3, 30)),
        "chernoff_multiplicative": tuple(
            theorems.chernoff_multiplicative(90, "0.3", r) for r in (-1, "-0.5", 0, "0.5", 1)
        ),
        "azuma": tuple(theorems.azuma(c, t) for c in ([1, 2, 3], ["1e-3"], [0], []) for t in (0, 1, 20)),
        "azuma of words": outcome(lambda: theorems.azuma("12", 1)),
        "stirling": tuple(theorems.stirling(n) for n in (1, 2, 10, 1000)),
    }
    check_claims("privacy/theorems", claims)


def test_allowances() -> None:
    claims: dict[str, Claim] = {}
    for epsilon in ("0.01", "0.5", 1, 8, 100):
        for delta in ("1e-12", "1e-6", "0.1"):
            made = renyi_allowance(Guarantee(epsilon, delta))
            claims[f"({epsilon}, {delta})"] = numbers((made.order, made.divergence, made.rho))
            fixed = [
                outcome(lambda e=epsilon, d=delta, a=a: renyi_allowance(Guarantee(e, d), a)) for a in (2, 64, 10**5)
            ]
            claims[f"({epsilon}, {delta}) of an order"] = tuple(fixed)
    claims["limits"] = outcomes(lambda given: renyi_allowance(Guarantee(*given)), [(1, 0), (0, "0.1"), (0, 0)])
    check_claims("privacy/allowances", claims)


def test_lines_and_least_rho() -> None:
    losses = [
        ResponseLoss(F(1, 5)),
        ResponseLoss(F(3), 5),
        LaplaceLoss(F(1)),
        LaplaceLoss(F(20)),
        LaplaceLoss(F(2), F(1, 2)),
    ]
    losses += [BoundedRangeLoss(F(1, 2)), BoundedRangeLoss(F(9)), ResponseLoss(F(0)), ResponseLoss(F(1, 1000))]
    ends = (
        (0.5, 1.0, 0.2, 0.5),
        (0.5, 8.0, 0.01, 5.0),
        (1.0, 2.0, 1.0, 2.0),
        (0.001, 60.0, 1e-6, 30.0),
        (2.0, 3.0, 0.9, 0.8),
    )
    claims: dict[str, Claim] = {
        "least_rho": tuple(to_digits(float(shape.least_rho(loss)), 6) for loss in losses),
        "chord": tuple(shape._chord_maximum(*each) for each in ends),
        "below the line": shape.best_false_negative_bound(lambda _: 0.0, 1.0, 0.0) < 1,
        "peak": tuple(shape._golden_maximum(lambda x, k=k: -((x - k) ** 2), 5.0) for k in (0.0, 1.2345, 4.9, 7.0)),
        "best_false_negative_bound": tuple(
            shape.best_false_negative_bound(lambda x: math.exp(-3 * x) / 2, most, alpha)
            for most in (0.5, 9.0, 700.0)
            for alpha in (0.0, 0.1, 0.6)
        ),
    }
    check_claims("privacy/lines_and_least_rho", claims)
