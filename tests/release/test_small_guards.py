"""Values that are checked, kept or passed on unchanged: in requests, entries, lines, answers and estimators."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from ledger.small_accounts import account, pure
from sfumato.errors import InvalidParameter
from sfumato.ledger.accounts import joined_sources, pending_queries
from sfumato.mechanisms import noise_sums, protocols, response
from sfumato.plan.aggregates.measures import MAX_VALUE_STEPS, Mean, Sum, _summed_value_step
from sfumato.plan.aggregates.moments import CorrelationEstimate
from sfumato.plan.aggregates.value_measures import Quantile
from sfumato.plan.values.expressions import Column, Field
from sfumato.policy import Domain, Type
from sfumato.privacy import numbers, shape
from sfumato.privacy.losses import BoundedRangeLoss
from sfumato.publish.marginals.planning import MarginalWorkload
from sfumato.release import releasing
from sfumato.release.comparisons import ThresholdAnswer
from sfumato.release.measured import ResultEstimator, _in_measure_units
from sfumato.release.requests import PriceRequest
from vectors.test_release_vectors import X, Y

F = Fraction
AGE = Column(Field(0, "visits", "age"), Domain(Type.INTEGER, bounds=(0, 9)))


def test_an_entry_names_its_plan_and_its_data() -> None:
    request: Any = SimpleNamespace(question="q", plan="p", data="d", analyst="ana", request_id="r")
    batch: Any = SimpleNamespace(charged=(sf.Curve.pure(1),))
    entry = releasing.ReleaseRequest.entry(request, batch)
    assert (entry.question, entry.plan, entry.data, entry.analyst, entry.request_id) == ("q", "p", "d", "ana", "r")


def test_a_line_without_parts_has_an_empty_list_of_them(tmp_path: Path) -> None:
    """And one whose pure ε is unbounded has none in its summary."""
    with sf.Ledger.open(tmp_path / "ledger.db") as ledger:
        clinic = account(ledger, sf.Budget(1, "1e-6"))
        clinic.charge(sf.Entry(sf.Curve.concentrated("0.001"), "q"))
        opening, charge = ledger.lines()
    assert (opening.parts, opening.kind) == ("[]", "account-open")
    amounts = charge.summary()["cost"]
    assert amounts["pure"] is None
    assert Fraction(amounts["renyi"]) > 0
    assert charge.parts != "[]"


def test_the_newest_line_of_an_account_is_its_last_also_before_those_of_others(tmp_path: Path) -> None:
    with sf.Ledger.open(tmp_path / "ledger.db") as ledger:
        clinic, other = account(ledger), account(ledger, name="other")
        lines = [clinic.charge(pure("0.1")), clinic.charge(pure("0.2")), other.charge(pure("0.3"))]
        with ledger._guarded.reading() as transaction:
            for name, last in (("clinic", lines[1]), ("other", lines[2])):
                for _ in range(2):
                    row = transaction.newest(account=name)
                    assert row is not None
                    assert row.number == last.number
            assert transaction.newest(account="nobody") is None
            assert transaction.last_account_line("clinic").number == lines[1].number


def test_a_mechanism_is_additive_when_it_is_first_seen_and_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols, "_ADDITIVE_CLASSES", set())
    for mechanism, expected in ((sf.Laplace(3), True), (sf.Gaussian(3), True), (sf.Exponential(1), False)):
        assert [protocols.is_additive(mechanism) for _ in range(3)] == [expected] * 3


@pytest.mark.parametrize("name", [None, "value"])
def test_intervals_around_quantiles_are_asked_for_by_name(name: Any) -> None:
    assert PriceRequest(epsilon=1, range=name).range == name
    for wrong in ("values", "", 1, False):
        with pytest.raises(InvalidParameter) as refused:
            PriceRequest(epsilon=1, range=wrong)
        assert refused.value.parameter == "range"


def test_an_answer_of_a_session_has_exact_numbers() -> None:
    answer = ThresholdAnswer(True, "2.5", sf.Laplace(3), "0.5", "0.25")  # type: ignore[arg-type]
    assert (answer.value, answer.step, answer.rounding) == (F(5, 2), F(1, 2), F(1, 4))
    assert ThresholdAnswer(False).value is None
    for name in ("step", "rounding"):
        with pytest.raises(InvalidParameter) as refused:
            ThresholdAnswer(True, F(1), sf.Laplace(3), **{name: None})  # type: ignore[arg-type]
        assert refused.value.parameter == name


def test_an_estimator_keeps_its_scales_as_a_tuple() -> None:
    estimator: Any = object()
    assert ResultEstimator(estimator, [2, 0]).scales == (2, 0)  # type: ignore[arg-type]


def test_a_loss_keeps_an_exact_number() -> None:
    eta = BoundedRangeLoss("0.3").eta  # type: ignore[arg-type]
    assert (type(eta), eta) == (F, F(3, 10))
    for wrong in (-1, "x", None):
        with pytest.raises(InvalidParameter):
            BoundedRangeLoss(wrong)  # type: ignore[arg-type]


def test_the_type_of_a_quantile_is_that_of_its_values_only_where_it_is_one_of_them() -> None:
    for value, kind in ((AGE, Type.INTEGER), (Column(AGE.reference, Domain(Type.REAL, bounds=(0, 9))), Type.REAL)):
        assert Quantile(value, F(1, 2), listed=True).result == Domain(kind, nullable=True)
        assert Quantile(value, F(1, 2)).result == Domain(Type.REAL, nullable=True)


@pytest.mark.parametrize("squared", [False, True])
def test_a_correlation_is_never_beyond_one(squared: bool) -> None:
    """Whatever the noise: ranges of totals that allow more are cut."""
    estimator = CorrelationEstimate(X, Y, (F(0),) * 3, squared)
    totals = [np.array([100.0, 90.0]) for _ in range(7)]
    for width in (0.5, 20.0, 1e6):
        found = estimator.estimate(totals, [np.full(2, width)] * 7)
        assert (found.low >= (0 if squared else -1)).all()
        assert (found.high <= 1).all()
        shown = found.value[~np.isnan(found.value)]
        assert (np.abs(shown) <= 1).all()


def test_the_step_of_a_sum_of_cents_is_a_cent_while_all_rows_fit() -> None:
    cents = Sum(Column(Field(0, "visits", "pay"), Domain(Type.REAL, bounds=(0, 9), grid="0.01")))
    most = F(MAX_VALUE_STEPS, 100)
    assert _summed_value_step(cents, most / 64, 64) == F(1, 100)
    assert _summed_value_step(cents, (most + F(1, 100)) / 64, 64) == F(1, 64)


@pytest.mark.parametrize("measure", [Sum(AGE), Mean(AGE)])
def test_the_step_of_a_sum_is_natural_while_all_rows_fit(measure: Any) -> None:
    most = MAX_VALUE_STEPS // 9
    assert _summed_value_step(measure, F(MAX_VALUE_STEPS, most), most) == 1
    assert _summed_value_step(measure, F(MAX_VALUE_STEPS + 1, most), most) == 2


def test_totals_in_units_of_a_measure_whatever_their_size() -> None:
    totals = np.array([0.0, 3.0, -7.0])
    for unit in (F(1), F(1, 100), F(3, 2**1080), F(2**950 + 1, 2**940)):
        assert _in_measure_units(totals, unit).tolist() == pytest.approx([float(3 * unit) * x / 3 for x in totals])
    assert _in_measure_units(np.array([5.0]), F(1, 100)).tolist() == [0.05]


def test_beyond_all_floats_is_infinity_of_that_sign() -> None:
    for value, expected in ((F(10**309), math.inf), (F(-(10**309)), -math.inf), (F(1, 2), 0.5), (F(0), 0.0)):
        assert numbers._float_or_infinity(value) == expected
    assert numbers._float_or_infinity(F(2**1024, 1)) == math.inf


def test_sums_of_noises_of_several_scales_are_as_wide_as_those_of_the_largest() -> None:
    for several, one in ((sf.Laplace([2, 5, 3]), sf.Laplace(5)), (sf.Gaussian([2, 5, 3]), sf.Gaussian(5))):
        for terms in (1, 4, 50):
            assert several.sum_error(terms, "0.9", 3) == one.sum_error(terms, "0.9", 3)
    smaller = noise_sums.laplace_sum_width(2.0, 4, 0.05)
    assert sf.Laplace([2, 5]).sum_error(4) > smaller


def test_answers_are_a_list_or_one_number() -> None:
    assert response._parse_answers(3, 4).tolist() == [3]
    assert response._parse_answers([0, 3, 1], 4).tolist() == [0, 3, 1]
    assert response._parse_answers([], 4).tolist() == []
    for wrong, got in (
        ([4], "a number outside"),
        (4, "a number outside"),
        ([[1, 2]], "2-dimensional"),
        ([[0], [1]], "2-dimensional"),
    ):
        with pytest.raises(InvalidParameter, match=got):
            response._parse_answers(wrong, 4)


def test_the_quick_bound_of_a_product_is_that_below_its_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product is left out only if its bound is not above what another surely has."""
    asked = []

    class Bound:
        def __init__(self, delta: float | None) -> None:
            self.delta = delta

        def delta_and_error(self, epsilon: float) -> tuple[float, float] | None:
            asked.append(epsilon)
            return None if self.delta is None else (self.delta, 0.0)

    monkeypatch.setattr(shape, "delta_range", lambda parts, _: parts)
    wide, narrow, less = (0.2, 0.3), (0.25, 0.26), (0.5, 0.6)
    products: Any = [(Bound(None), wide), (Bound(0.2001), narrow), (Bound(0.25), less)]
    assert shape._worst_delta(products, F(3, 10)) == (0.25, 0.3)
    assert {F(epsilon) <= F(3, 10) < F(math.nextafter(epsilon, 1)) for epsilon in asked} == {True}


# ── what is found inside a charge ─────────────────────────────────────────────────────────────────


def test_an_answer_to_a_request_is_taken_whatever_else_is_there() -> None:
    """Inside the charge: it is neither searched again nor made worse by another answer."""
    own, later = object(), object()
    query: Any = object.__new__(pending_queries.PendingQuery)
    query._find_requested = lambda _: own
    query._pending_same_request = lambda _: None
    query._fresh = False
    query._entry = SimpleNamespace(plan="p", data="d")
    query._columns = {"plan": "p", "data": "d"}
    query._account, query._until, query._accuracy = "clinic", None, {}
    query._pending_equal_charges = lambda _: [later]
    transaction: Any = SimpleNamespace(page=lambda *_, **__: [])
    assert query._find_answered_or_pending(transaction, 0) is own
    query._find_requested = lambda _: None
    assert query._find_answered_or_pending(transaction, 0) is later
    query._fresh = True
    assert query._find_answered_or_pending(transaction, 0) is None
    query._pending_same_request = lambda _: later
    assert query._find_answered_or_pending(transaction, 0) is later


def test_a_file_that_looks_the_same_keeps_the_table_that_is_read_now() -> None:
    class Described:
        address, file_size, file_identity, change_token, table = "/data/a.db", "9", "f", "now", "visits"

        @staticmethod
        def fingerprint() -> str:
            return "new"

    def keyed(what: str, text: str) -> str:
        return f"{what}:{text}" if text else ""

    last = joined_sources.JoinedSource("/data/a.db", "content:old", "size:9", "file:f", "look:now", "part:days")
    found = joined_sources.describe_source(Described(), None, [last], keyed)
    assert (found.fingerprint, found.look, found.part) == ("content:old", "look:now", "part:visits")
    Described.change_token = "later"
    found = joined_sources.describe_source(Described(), None, [last], keyed)
    assert (found.fingerprint, found.look, found.part) == ("content:new", "look:later", "part:visits")


@pytest.mark.parametrize(
    ("columns", "ways", "rule"),
    [(1, 2, "1, because there is only one column"), (2, 3, "between 1 and 2"), (3, 0, "between 1 and 3")],
)
def test_marginals_of_more_columns_than_there_are_do_not_exist(columns: int, ways: int, rule: str) -> None:
    with pytest.raises(InvalidParameter, match=rule):
        MarginalWorkload.ways(columns, ways)
    assert len(MarginalWorkload.ways(columns, columns).sets) == 1
