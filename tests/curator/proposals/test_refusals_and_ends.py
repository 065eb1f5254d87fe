"""What proposals refuse before anything is released, how a series ends, and ranges of what was cut."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from sfumato.curator.proposals import limit_proposals
from sfumato.curator.proposals.combined_questions import CombinedQuestion
from sfumato.curator.proposals.moment_proposals import MomentsProposal
from sfumato.curator.proposals.mwem import _MwemSeries
from sfumato.curator.proposals.questions import Question
from sfumato.errors import InvalidParameter
from sfumato.inference.logistic import mean_steps
from sfumato.release.prices import Price


class Refused(Exception):
    """Raised where a check is reached."""


def refuse(*_: Any) -> Any:
    raise Refused


def test_weights_and_ranges_are_of_single_questions() -> None:
    proposal: Any = SimpleNamespace(workload=SimpleNamespace(price_at=lambda *given: given))
    free: Any = SimpleNamespace(weights=None, range=None)
    assert CombinedQuestion.price_release_at(proposal, Price(1), free) == (Price(1), free)
    for weights, chosen, name in (
        ({"n": 2}, None, "weights"),
        (None, "value", "range"),
        ({"n": 2}, "value", "weights"),
    ):
        request: Any = SimpleNamespace(weights=weights, range=chosen)
        with pytest.raises(InvalidParameter, match=f"{name}=") as refusal:
            CombinedQuestion.price_release_at(proposal, Price(1), request)
        assert refusal.value.parameter == name


def test_a_price_for_found_groups_is_refused_without_a_delta() -> None:
    question: Any = SimpleNamespace(assumed_delta=Fraction(0), require_delta=refuse, least_price=lambda _: Fraction(1))
    with pytest.raises(Refused):
        Question.price(question, 5)
    question.require_delta = lambda _: None
    assert Question.price(question, 5) == 1.0


def test_moments_are_refused_a_sample_and_a_confidence_that_is_none() -> None:
    proposal: Any = SimpleNamespace(_strategy_at=refuse)
    with pytest.raises(Refused):
        MomentsProposal.release(proposal, 1, delta="1e-6")
    for wrong in ({"sample": "10 %"}, {"confidence": 2}, {"confidence": 0}):
        with pytest.raises(InvalidParameter):
            MomentsProposal.release(proposal, 1, delta="1e-6", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("root", [Fraction(37, 10), Fraction(12345, 10**6), Fraction(98765, 10**2)])
def test_the_least_price_of_moments_is_near_the_least_that_is_enough(root: Fraction) -> None:
    """Prices below a quarter of it cannot draw their noise; below it, they are not accurate enough."""
    asked: list[Price] = []

    def strategy_at(price: Price) -> Any:
        asked.append(price)
        assert price.epsilon is not None
        if len(asked) > 1 and price.epsilon < root / 4:
            raise InvalidParameter("price", str(price), "higher")
        return price.epsilon

    proposal: Any = SimpleNamespace(_strategy_at=strategy_at)
    least = MomentsProposal._least_epsilon(proposal, "1e-6", lambda epsilon: epsilon >= root)  # type: ignore[arg-type,return-value]
    assert root <= least <= root * Fraction(1001, 1000)
    assert asked[0] == Price(1, "1e-6")

    def refuse_delta(price: Price) -> Any:
        raise InvalidParameter("delta", price.delta, "above 0")

    proposal._strategy_at = refuse_delta
    with pytest.raises(InvalidParameter) as refusal:
        MomentsProposal._least_epsilon(proposal, 0, lambda _: True)
    assert refusal.value.parameter == "delta"  # and not that no price is enough


class Model:
    def __init__(self, rounds: int = 0) -> None:
        self.rounds = rounds

    def updated(self, _: Any) -> Model:
        return Model(self.rounds + 1)


@pytest.mark.parametrize("interrupted_at", [None, 0, 1, 3])
def test_a_series_that_is_interrupted_stops_and_gives_what_it_has(interrupted_at: int | None) -> None:
    stopped: list[bool] = []
    tab: Any = SimpleNamespace(tab=SimpleNamespace(stop=lambda: stopped.append(True)))
    steps: Any = SimpleNamespace(row_count_step="rows", rounds=3)
    begun: list[int] = []
    series: Any = _MwemSeries(tab, "q", steps, None, lambda rows: begun.append(rows) or Model())  # type: ignore[arg-type,func-returns-value,return-value]

    def release(*_: Any) -> Any:
        if interrupted_at == 0:
            raise KeyboardInterrupt
        return SimpleNamespace(values=(7,))

    def run_round(model: Any) -> Any:
        if interrupted_at == model.rounds + 1:
            raise KeyboardInterrupt

    series._release_step, series._run_round = release, run_round
    if interrupted_at == 0:
        with pytest.raises(KeyboardInterrupt):
            series.charge_and_run()
    else:
        assert series.charge_and_run().rounds == (3 if interrupted_at is None else interrupted_at - 1)
        assert begun == [7]
    assert stopped == ([] if interrupted_at is None else [True])


def test_each_step_of_a_series_has_the_time_limit_of_the_call() -> None:
    log: list[Any] = []
    tab_series: Any = SimpleNamespace(
        raise_if_pending=lambda: log.append("pending?"),
        call=SimpleNamespace(time_limit=lambda seconds: seconds / 2),
        context=SimpleNamespace(seconds=9),
        release_step=lambda *given: given,
    )
    series: Any = _MwemSeries(tab_series, "q", None, None, None)  # type: ignore[arg-type]
    assert series._release_step("step", "a choice") == ("step", "a choice for the q", 4.5)
    assert log == ["pending?"]


def answer(**ends: tuple[float, float] | None) -> Any:
    return SimpleNamespace(intervals={name.replace("_", " "): [interval] for name, interval in ends.items()})


UNITS = answer(units_beyond=(-3.0, 4.0))
CELLS = answer(clamped_cells=(2.0, 6.0), share=(0.25, 1.5), cells=(30.0, 50.0))


@pytest.mark.parametrize(
    ("value", "limits_rows", "counts", "expected"),
    [
        ("x", True, {"x": CELLS, "": UNITS}, (4, 6, 1, 30)),
        ("x", False, {"x": CELLS, "": UNITS}, (0, 6, 1, 30)),
        ("x", False, {"x": CELLS}, (0, 6, 1, 30)),
        ("x", True, {"x": CELLS}, None),
        ("x", True, {"": UNITS}, None),
        ("x", False, {"y": CELLS}, None),
        ("", True, {"": UNITS, "x": CELLS}, (4, 0, 1, 0)),
        ("", True, {"x": CELLS}, None),
        ("", False, {"": UNITS}, (0, 0, 1, 0)),
        ("", False, {}, (0, 0, 1, 0)),
        ("x", False, {"x": answer(clamped_cells=(-9.0, -2.0), share=None, cells=(-5.0, 2.0))}, (0, 0, 1, 0)),
        ("x", False, {"x": answer(clamped_cells=(0.0, 1.0), share=(0.0, 0.5), cells=(4.0, 5.0))}, (0, 1, "0.5", 4)),
    ],
)
def test_what_was_cut_is_bounded_by_the_ends_of_its_counts(
    value: str, limits_rows: bool, counts: Any, expected: Any
) -> None:
    case: Any = SimpleNamespace(value=value, limits_rows=limits_rows)
    found = limit_proposals._cut_counts(case, counts)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert (found.units, found.clamped, found.share, found.cells) == tuple(map(Fraction, expected))


def test_only_the_product_of_rows_and_scale_decides_the_steps_of_a_mean() -> None:
    for rows, scale in ((1, 1), (3, 1000), (10_000, 7), (50_000, 50_000)):
        assert mean_steps(rows, scale) == mean_steps(scale, rows)
