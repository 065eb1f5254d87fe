"""What is refused before anything is charged: answers that cannot be stored, and statements that cannot be planned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from sfumato.errors import EngineFailed, InvalidParameter, Unsupported
from sfumato.ledger import entries
from sfumato.privacy import Curve, codec
from sfumato.release import releasing


class Engine:
    """Binds at once, or fails as told; remembers what it opened."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure, self.closed = failure, 0
        self.readings: tuple[Any, ...] = ()

    def check(self, *readings: Any) -> Engine:
        self.readings = readings
        if self.failure is not None:
            raise self.failure
        return self

    def close(self) -> None:
        self.closed += 1


def bind(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, count: int, seconds: float | None, took: float, late: bool = False
) -> tuple[Any, float | None]:
    """Bind readings within ``took`` seconds of a clock that begins at 100; return what was opened and the limit."""
    limits: list[float | None] = []
    clock = iter([100.0, 100.0 + took])

    @contextmanager
    def interrupt_after(_: Any, limit: float | None) -> Iterator[None]:
        limits.append(limit)
        yield
        if late:
            raise TimeoutError

    monkeypatch.setattr(releasing, "interrupt_after", interrupt_after)
    monkeypatch.setattr(releasing, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    readings: Any = [object()] * count
    try:
        return releasing._bind_within_time_limit(engine, readings, seconds), limits[0]  # type: ignore[arg-type]
    finally:
        assert len(engine.readings) == count


@pytest.mark.parametrize(
    ("count", "seconds", "limit"), [(0, 5.0, 2.5), (1, 5.0, 2.5), (2, 5.0, 5.0), (5, 4.0, 10.0), (3, None, None)]
)
def test_each_statement_may_take_half_of_the_time_to_be_bound(
    monkeypatch: pytest.MonkeyPatch, count: int, seconds: float | None, limit: float | None
) -> None:
    engine = Engine()
    assert bind(monkeypatch, engine, count, seconds, 0) == (engine, limit)
    assert engine.closed == 0


@pytest.mark.parametrize("failure", [TimeoutError("no"), EngineFailed()])
def test_what_failed_early_is_told_as_it_is_and_what_ran_out_of_time_as_slow(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    for seconds, took in ((None, 99.0), (4.0, 1.75)):
        with pytest.raises(type(failure), match=str(failure)):
            bind(monkeypatch, Engine(failure), 1, seconds, took)
    for took in (2.0, 2.25):
        with pytest.raises(Unsupported, match="limit of 4 s") as refusal:
            bind(monkeypatch, Engine(failure), 1, 4.0, took)
        assert refusal.value.code == "slow-check"


def test_what_was_bound_too_late_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    with pytest.raises(Unsupported, match="too long"):
        bind(monkeypatch, engine, 2, 4.0, 9.0, late=True)
    assert engine.closed == 1


def strategy(result: Any, accuracy: dict[str, Any]) -> Any:
    return SimpleNamespace(accuracy_for_reuse=accuracy, result_at_extreme_totals=lambda: result)


def test_a_result_that_just_fits_is_read_back_and_is_not_called_free(monkeypatch: pytest.MonkeyPatch) -> None:
    result = Curve.pure("0.1")
    monkeypatch.setattr(entries, "MAX_BODY_LENGTH", len(codec.dumps(result)))
    read_back = releasing.dry_run(strategy(result, {"n": 3}))
    assert (read_back.value, read_back.number, read_back.free) == (result, 0, False)
    monkeypatch.setattr(entries, "MAX_BODY_LENGTH", len(codec.dumps(result)) - 1)
    with pytest.raises(Unsupported, match="too large"):
        releasing.dry_run(strategy(result, {"n": 3}))


def test_an_accuracy_that_the_ledger_would_refuse_is_refused_before() -> None:
    for accuracy in ({"n": -1}, {"n\ud800": 1}):
        with pytest.raises(InvalidParameter):
            releasing.dry_run(strategy(Curve.pure(1), accuracy))
