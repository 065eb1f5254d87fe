"""Small rules of pricing, sessions and running totals, each by hand."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Gaussian, KeyThreshold, Laplace
from sfumato.plan.aggregates.measures import GroupEstimate
from sfumato.privacy import Neighbours
from sfumato.release import measured, pricing, running_totals
from sfumato.release.measurement import _require_session_sensitivity
from sfumato.release.prices import Price

F = Fraction
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE


def test_families_that_are_worth_comparing() -> None:
    """At a ρ of at most 2 Laplace noise is never narrower, but it leaves an account open to charges in pure ε."""
    open_account: Any = SimpleNamespace(remaining={"pure": 1, "renyi": 1})
    closed: Any = SimpleNamespace(remaining={"renyi": 1})
    for rho in (F(1, 100), F(2)):
        assert pricing._candidate_families(Price(rho=rho), None) == [Gaussian]
        assert pricing._candidate_families(Price(rho=rho), closed) == [Gaussian]
        assert set(pricing._candidate_families(Price(rho=rho), open_account)) == {Laplace, Gaussian}
    for account in (None, closed, open_account):
        assert set(pricing._candidate_families(Price(rho="2.0001"), account)) == {Laplace, Gaussian}
        assert set(pricing._candidate_families(Price(1, "1e-6"), account)) == {Laplace, Gaussian}
        assert pricing._candidate_families(Price(1), account) == [Laplace]


@pytest.mark.parametrize("surely", [False, True])
@pytest.mark.parametrize(("keys", "weighted"), [(1, False), (3, True), (40, False)])
def test_a_threshold_is_gaussian_only_where_its_error_is_less(
    monkeypatch: pytest.MonkeyPatch, surely: bool, keys: int, weighted: bool
) -> None:
    monkeypatch.setattr(pricing, "is_gaussian_surely_no_better", lambda _: surely)
    found = pricing.key_threshold.__wrapped__(F(1), F(1, 10**6), keys, weighted, ADD)
    plain = KeyThreshold(1, F(1, 10**6), keys, weighted, neighbours=ADD)
    if keys == 1 or weighted or surely:
        assert found == plain
        return
    gaussian = KeyThreshold.gaussian(F(1), F(1, 10**6), keys, ADD)
    assert gaussian.error() < plain.error()
    assert found == gaussian


def session_reading(change: int = 3, neighbours: Neighbours = ADD, monotone: bool = True) -> Any:
    return SimpleNamespace(max_change_in_steps=F(change), grid=F(1, 2), neighbours=neighbours, is_monotone=monotone)


def session(sensitivity: int = 3, neighbours: Neighbours = ADD, monotone: bool = False) -> Any:
    return SimpleNamespace(sensitivity=F(sensitivity), neighbours=neighbours, monotone=monotone)


@pytest.mark.parametrize(
    ("reading", "mechanism", "refused"),
    [
        (session_reading(), session(), ""),
        (session_reading(), session(monotone=True), ""),
        (session_reading(monotone=False), session(), ""),
        (session_reading(2), session(3), ""),
        (session_reading(neighbours=REPLACE), session(neighbours=REPLACE), ""),
        (session_reading(4), session(3), "at most 1.5, the sensitivity"),
        (session_reading(neighbours=REPLACE), session(), 'neighbours="replace"'),
        (session_reading(), session(neighbours=REPLACE), 'neighbours="add-remove"'),
        (session_reading(monotone=False), session(monotone=True), "cannot be negative"),
    ],
)
def test_a_question_of_a_session_is_within_what_was_charged(reading: Any, mechanism: Any, refused: str) -> None:
    if not refused:
        _require_session_sensitivity(reading, mechanism)
        return
    with pytest.raises(InvalidParameter, match=refused):
        _require_session_sensitivity(reading, mechanism)


@pytest.mark.parametrize("adds_up", [False, True])
def test_rows_that_are_sums_of_a_result_hold_the_sum_of_its_values(adds_up: bool) -> None:
    """Where results add up, the value is the sum of the groups' own, and the range is widened to hold it."""

    class Estimator:
        def estimate(self, totals: Any, widths: Any) -> GroupEstimate:
            value = np.abs(totals[0])
            if isinstance(widths[0], float):
                return GroupEstimate(value, value, value)
            width = np.asarray(widths[0])
            return GroupEstimate(value, value - width, value + width)

    estimator: Any = Estimator()
    estimator.adds_up = adds_up
    scale: Any = SimpleNamespace(sum_width=lambda terms, *_: float(terms) / 2)
    columns: Any = SimpleNamespace(scale=scale, columns=[np.array([5.0, -4.0, 3.0, 2.0])])
    rows: Any = SimpleNamespace(
        groups_per_row=np.array([2, 1, 1]),
        sum_groups=lambda column: np.array([column[0] + column[1], column[2], column[3]]),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured, "_count_statements", lambda *_: 7)
        found = measured._estimate_summed_rows(estimator, [columns], rows, F(19, 20), 1)
    first = (9.0, 0.0, 9.0) if adds_up else (1.0, 0.0, 2.0)  # |5| + |−4| beside |5 − 4| ± 1
    assert [tuple(map(float, ends)) for ends in zip(found.value, found.low, found.high, strict=True)] == [
        first,
        (3.0, 2.5, 3.5),
        (2.0, 1.5, 2.5),
    ]


def test_widths_of_running_totals_share_the_chance_that_they_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(running_totals, "gaussian_widths", lambda *given: asked.append(given) or np.array([4.0, 6.0]))
    monkeypatch.setattr(running_totals, "laplace_widths", lambda *given: asked.append(given) or np.array([1.0, 2.0]))
    monkeypatch.setattr(running_totals, "_unit_scale_widths", lambda _, miss: ("unit", miss))
    factorisation = SimpleNamespace(decoder="decoder", weights=[1, 2, 3])
    widths = running_totals.RunningNoise.widths
    for mechanism, expected in (
        (sf.Gaussian(3), [4 / 8 + 0.25, 6 / 8 + 0.5]),
        (sf.Laplace(3), [1 / 8 + 0.25, 2 / 8 + 0.5]),
    ):
        noise: Any = SimpleNamespace(
            mechanism=mechanism, factorisation=factorisation, lengths=(2.0, 5.0), unit_value=F(1, 8), rounding=F(1, 4)
        )
        assert widths(noise, "0.9", 5).tolist() == expected
        assert widths(noise).tolist() == expected
    up, down = 3 * (1 + 1e-12), 1 - 1e-12
    misses = [0.1 / 5 * down, 0.05 * down]
    gaussians = [(given[0].tolist(), *given[1:]) for given in asked[:2]]
    assert gaussians == [([2.0, 5.0], 3, up, miss) for miss in misses]
    assert asked[2:] == [("decoder", ("unit", miss), up, miss) for miss in misses]


def test_a_stored_running_total_is_as_wide_as_its_widest_and_its_mean_square() -> None:
    release: Any = SimpleNamespace(noise=SimpleNamespace(widths=lambda: np.array([1.0, 2.0, 4.0])))
    own = running_totals.RunningTotalsRelease.accuracy_for_reuse.fget(release)  # type: ignore[attr-defined]
    assert own == {"worst": "4", "typical": "2.64575131106"}
