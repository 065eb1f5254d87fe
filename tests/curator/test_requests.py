"""Every proposal under a request id: charged once, given again for nothing, and never bought twice after a death."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sfumato as sf
from sfumato.curator.proposals.sessions import propose_listed_session

FORK = multiprocessing.get_context("fork")
COLUMNS = {
    "kind": {"values": ["a", "b"]},
    "sex": {"values": ["f", "m"]},
    "cost": {"type": "integer", "bounds": [0, 9], "bins": 2},
}
COUNT = "SELECT COUNT(*) AS n FROM visits"
KINDS = "SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind"
DELTA: dict[str, Any] = {"epsilon": 1, "delta": "1e-9"}
ONE: dict[str, Any] = {"epsilon": 1}
Propose = Callable[[sf.Curator], Any]
PROPOSALS: dict[str, tuple[Propose, Propose, dict[str, Any]]] = {
    "question": (lambda own: own.sql(COUNT), lambda own: own.sql(KINDS), ONE),
    "workload": (lambda own: own.workload([COUNT, KINDS]), lambda own: own.workload([KINDS]), ONE),
    "marginals": (lambda own: own.marginals("visits", 1), lambda own: own.marginals("visits", 2), ONE),
    "mwem": (
        lambda own: own.mwem("visits", ["kind", "sex"], 2, rounds=2),
        lambda own: own.mwem("visits", ["kind", "sex"], 2, rounds=3),
        ONE,
    ),
    "synthesis": (
        lambda own: own.synthesize("visits", "mst", 2),
        lambda own: own.synthesize("visits", "independent", 2),
        DELTA,
    ),
    "session with questions": (
        lambda own: propose_listed_session(own.above(20, positives=2), [COUNT, f"{COUNT} WHERE kind = 'a'"]),
        lambda own: propose_listed_session(own.above(20, positives=2), [COUNT]),
        ONE,
    ),
    "bounds": (lambda own: own.bounds("visits", "cost"), lambda own: own.bounds("visits", "cost", cover="0.5"), ONE),
    "running": (
        lambda own: own.running("SELECT cost, COUNT(*) AS n FROM visits GROUP BY cost"),
        lambda own: own.running("SELECT cost, COUNT(*) AS m FROM visits WHERE kind = 'a' GROUP BY cost"),
        ONE,
    ),
}
SERIES = ("workload", "mwem", "synthesis", "session with questions")
SESSIONS: dict[str, tuple[Propose, dict[str, Any]]] = {
    "above": (lambda own: own.above(20, positives=2), ONE),
    "online": (lambda own: own.online("visits", ["kind", "sex"], 1, 2), DELTA),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = {"who": range(60), "kind": ["a", "b"] * 30, "sex": ["f", "f", "m"] * 20, "cost": [3, 7, 1, 9, 0] * 12}
    pd.DataFrame(rows).to_parquet(tmp_path / "visits.parquet")
    return tmp_path


def opened(folder: Path) -> sf.Curator:
    table = sf.Table("visits", folder / "visits.parquet", COLUMNS, id="who", max_rows=1)
    policy = sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(50, "1e-5"), {"visits": table}, size=60)
    return sf.Curator(policy, folder / "l.ledger")


@pytest.fixture
def clinic(folder: Path) -> Iterator[sf.Curator]:
    with opened(folder) as curator:
        yield curator


def charges(curator: sf.Curator) -> int:
    """Count the lines that spend or hold."""
    return sum(line.kind in ("charge", "tab-open") and bool(_amount(line)) for line in curator.history())


def _amount(line: sf.Line) -> Any:
    held = line.kind == "tab-open"
    return held or line.cost.pure is None or line.cost.pure


def content(made: Any) -> Any:
    """Give what was released, without the receipt."""
    if hasattr(made, "answers"):
        return [getattr(each, "rows", each) for each in made.answers]
    if hasattr(made, "released"):
        return str(made.released.marginals)
    return next(str(getattr(made, name)) for name in ("rows", "fit", "published", "low") if hasattr(made, name))


@pytest.mark.parametrize("kind", PROPOSALS)
def test_a_request_is_charged_once_and_given_again(kind: str, folder: Path) -> None:
    propose, other, price = PROPOSALS[kind]
    with opened(folder) as clinic:
        first = propose(clinic).release(**price, request_id="monday")
        left, lines = clinic.budget.remaining, charges(clinic)
        assert lines == 1
        again = propose(clinic).release(**price, request_id="monday")
        assert content(again) == content(first)
        assert again.receipt.free
        assert not first.receipt.free
        assert again.receipt.line == first.receipt.line
        with pytest.raises(sf.RequestDiffers):
            other(clinic).release(**price, request_id="monday")
        assert (clinic.budget.remaining, charges(clinic)) == (left, lines)
        assert clinic._context.account.open_tabs() == ()
    with opened(folder) as clinic:  # in another process, as it were
        assert content(propose(clinic).release(**price, request_id="monday")) == content(first)
        assert (clinic.budget.remaining, charges(clinic)) == (left, lines)
    with sf.Ledger.open(folder / "l.ledger") as ledger:
        assert ledger.verify().holds


RANGED: dict[str, Propose] = {
    "workload": lambda own: own.workload([COUNT, KINDS]),
    "combined": lambda own: own.sql(f"{KINDS} UNION ALL SELECT 'all', COUNT(*) FROM visits"),
    "clipped": lambda own: own.sql("SELECT AVG(cost) AS m FROM visits").limit(rows=1).clipped(),
}
"""Series whose ranges are stored as they were shown."""


@pytest.mark.parametrize("kind", RANGED)
def test_stored_ranges_are_not_given_for_another_confidence(kind: str, clinic: sf.Curator) -> None:
    propose, price = RANGED[kind], ONE
    first = propose(clinic).release(**price, request_id="r", confidence="0.9")
    others: list[dict[str, Any]] = [{"confidence": "0.99"}, {}, {"confidence": "0.9", "joint": True}]
    for other in others:
        with pytest.raises(sf.InvalidParameter, match="as in the answer that this request_id bought"):
            propose(clinic).release(**price, request_id="r", **other)
    again = propose(clinic).release(**price, request_id="r", confidence="9/10")
    assert content(again) == content(first)
    assert charges(clinic) == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda own, confidence: own.sql(KINDS).release(**ONE, request_id="r", confidence=confidence),
        lambda own, confidence: own.running(f"{KINDS.replace('kind', 'cost')}").release(
            **ONE, request_id="r", confidence=confidence
        ),
        lambda own, confidence: own.regress("cost ~ kind", "visits").release(
            **DELTA, request_id="r", confidence=confidence
        ),
    ],
    ids=["question", "running", "regress"],
)
def test_ranges_are_built_anew_where_measurements_are_stored(
    clinic: sf.Curator, ask: Callable[[sf.Curator, str], Any]
) -> None:
    narrow, wide = (ask(clinic, confidence) for confidence in ("0.5", "0.999"))
    assert (wide.receipt.confidence, wide.receipt.line) == ("0.999", narrow.receipt.line)
    (few,), (many,) = (list(each.intervals.values()) for each in (narrow, wide))
    assert all(low < small and large < high for (small, large), (low, high) in zip(few, many, strict=True))
    assert charges(clinic) == 1


@pytest.mark.parametrize("kind", SERIES)
def test_equal_requests_that_arrive_together_are_charged_once(kind: str, clinic: sf.Curator) -> None:
    propose, _, price = PROPOSALS[kind]
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(propose(clinic).release(**price, request_id="r")))
        for _ in range(3)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(each.receipt.free for each in found) == [False, True, True]
    assert len({str(content(each)) for each in found}) == 1
    assert charges(clinic) == 1


@pytest.mark.parametrize("kind", [*SERIES, "question", "marginals"])
def test_a_request_whose_process_died_is_told_so_and_not_charged_again(kind: str, folder: Path) -> None:
    propose, _, price = PROPOSALS[kind]

    def die() -> None:
        def told(phase: str) -> None:
            if phase == "adding noise" or phase.startswith("round"):
                os._exit(9)

        with opened(folder) as curator:
            propose(curator).release(**price, request_id="r", progress=told)

    opened(folder).close()
    child = FORK.Process(target=die)
    child.start()
    child.join()
    assert child.exitcode == 9
    with opened(folder) as clinic:
        for _ in range(2):
            with pytest.raises(sf.Unanswered) as stopped:
                propose(clinic).release(**price, request_id="r")
            assert stopped.value.charged
        assert charges(clinic) == 1
        assert clinic._context.account.open_tabs() == ()
        left = clinic.budget.remaining
        assert not propose(clinic).release(**price, request_id="s").receipt.free
        assert clinic.budget.remaining != left
    with sf.Ledger.open(folder / "l.ledger") as ledger:
        assert ledger.verify().holds


def test_a_series_that_died_has_spent_all_that_it_held(folder: Path) -> None:
    opened(folder).close()

    def die() -> None:
        def told(phase: str) -> None:
            if phase == "adding noise":
                os._exit(9)

        with opened(folder) as curator:
            PROPOSALS["mwem"][0](curator).release(epsilon=1, request_id="r", progress=told)

    child = FORK.Process(target=die)
    child.start()
    child.join()
    with opened(folder) as clinic:
        with pytest.raises(sf.Unanswered):
            PROPOSALS["mwem"][0](clinic).release(epsilon=1, request_id="r")
        assert clinic._context.account.spent["pure"] == 1


@pytest.mark.parametrize("kind", SERIES)
def test_a_request_that_failed_after_its_charge_is_not_charged_again(kind: str, clinic: sf.Curator) -> None:
    propose, _, price = PROPOSALS[kind]

    def told(phase: str) -> None:
        if phase == "adding noise" or phase.startswith("round"):
            raise MemoryError

    with pytest.raises((sf.Unanswered, sf.SessionInterrupted, MemoryError)):
        propose(clinic).release(**price, request_id="r", progress=told)
    left = clinic.budget.remaining
    with pytest.raises(sf.Unanswered):
        propose(clinic).release(**price, request_id="r")
    assert clinic.budget.remaining == left


@pytest.mark.parametrize("kind", SERIES)
def test_what_is_charged_within_a_limit_is_given_again_where_nothing_can_be_spent(
    kind: str, clinic: sf.Curator
) -> None:
    propose, _, price = PROPOSALS[kind]

    class Nothing:
        def reserve(self, epsilon: Fraction | None) -> Any:  # noqa: ARG002
            raise LookupError

    nothing = clinic.limited(Nothing())
    with pytest.raises(LookupError):
        propose(nothing).release(**price, request_id="r")
    assert charges(clinic) == 0
    first = propose(clinic).release(**price, request_id="r")
    assert content(propose(nothing).release(**price, request_id="r")) == content(first)


@pytest.mark.parametrize("kind", SESSIONS)
def test_a_request_opens_one_session(kind: str, clinic: sf.Curator) -> None:
    propose, price = SESSIONS[kind]
    with propose(clinic).release(**price, request_id="r"):
        left = clinic.budget.remaining
        with pytest.raises(sf.RequestDiffers, match="has already opened a session"):
            propose(clinic).release(**price, request_id="r")
    with pytest.raises((sf.RequestDiffers, sf.Unanswered)):
        propose(clinic).release(**price, request_id="r")
    assert clinic.budget.remaining == left


def test_a_fresh_request_that_is_repeated_is_not_bought_again(clinic: sf.Curator) -> None:
    for propose in (lambda: clinic.sql(COUNT), lambda: clinic.workload([COUNT, KINDS])):
        name = type(propose()).__name__
        first = propose().release(epsilon=1, fresh=True, request_id=name)
        left = clinic.budget.remaining
        assert content(propose().release(epsilon=1, fresh=True, request_id=name)) == content(first)
        assert clinic.budget.remaining == left
