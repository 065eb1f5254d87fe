"""Sessions over questions in SQL: what they cost, what they say, when they end, and what an interruption leaves."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.curator.proposals.sessions import ThresholdSession
from sfumato.errors import EngineClosed
from sfumato.release.comparisons import ThresholdAnswer

COLUMNS = {
    "kind": {"values": ["a", "b", "c"]},
    "cost": {"type": "real", "bounds": [0, 50], "grid": "0.5"},
    "change": {"type": "integer", "bounds": [-5, 5]},
}
HIGH, LOW = "SELECT COUNT(*) FROM visits WHERE kind = 'a'", "SELECT COUNT(*) FROM visits WHERE kind = 'c'"


def visits(people: int = 4000) -> pd.DataFrame:
    """Everybody has two rows of a and one of b; nobody one of c."""
    who = np.repeat(np.arange(people), 3)
    return pd.DataFrame({"who": who, "kind": ["a", "a", "b"] * people, "cost": 10.0, "change": 1})


def opened(folder: Path, neighbours: str = "add-remove", analysts: dict[str, Any] | None = None) -> sf.Curator:
    source = folder / "visits.parquet"
    visits().to_parquet(source)
    table = sf.Table("visits", source, COLUMNS, id="who", max_rows=2)
    other = sf.Table(
        "calls", pd.DataFrame({"who": [1], "flag": [True]}), {"flag": {"type": "boolean"}}, id="who", max_rows=7
    )
    hotels = sf.Table("hotels", pd.DataFrame({"name": ["x"]}), public=True)
    tables = {"visits": table, "calls": other, "hotels": hotels}
    unit, budget = sf.PrivacyUnit("patient"), sf.Budget(20, "1e-6", neighbours=neighbours)
    return sf.Curator(sf.Policy(unit, budget, tables, size=4000, analysts=analysts or {}), folder / "l.ledger")


@pytest.fixture
def clinic(tmp_path: Path) -> Iterator[sf.Curator]:
    with opened(tmp_path) as curator:
        yield curator


def spent(curator: sf.Curator) -> Fraction | None:
    return curator._context.account.spent["pure"]


def kinds(curator: sf.Curator) -> list[str]:
    return [line.kind for line in curator.history() if line.kind not in ("account-open", "source", "share")]


def test_all_is_charged_at_the_opening_and_nothing_by_a_question(clinic: sf.Curator) -> None:
    proposal = clinic.above(4000, positives=2, tables="visits")
    assert "free" in repr(proposal)
    assert "at most 2, all in the same direction" in str(proposal.explain(2))
    assert spent(clinic) == 0
    with proposal.release(2) as session:
        assert spent(clinic) == 2
        assert [bool(session.ask(each)) for each in (LOW, LOW, HIGH, LOW, HIGH)] == [False, False, True, False, True]
        assert session.remaining == 0
        assert "ended" in repr(session)
    assert spent(clinic) == 2
    assert kinds(clinic) == ["tab-open", *["step", "answer"] * 5, "tab-close"]
    written = [ThresholdAnswer.from_json(line.body) for line in clinic.history() if line.kind == "answer"]
    assert [(text, said.above) for text, said in session.answers] == list(
        zip((LOW, LOW, HIGH, LOW, HIGH), [each.above for each in written], strict=True)
    )
    assert clinic.ledger.verify().holds
    assert session.receipt.guarantee == "ε = 2"
    assert session.receipt.line == next(line.number for line in clinic.history() if line.kind == "tab-open")
    assert "above a noisy threshold of 4000, at most 2 times" in session.receipt.mechanisms


def test_answers_of_a_session_are_shown_as_a_table_and_a_rehearsal_says_what_it_is(clinic: sf.Curator) -> None:
    asked = clinic.above(4000, tables="visits", questions=[LOW, HIGH, LOW])
    shown = repr(asked.release(2))
    assert [line.split()[-1] for line in shown.splitlines() if "SELECT" in line] == ["false", "true", "NULL"]
    assert "ε = 2" in shown
    assert "PREVIEW" in repr(asked.preview(2)).upper()
    assert "<table>" in asked.preview(2)._repr_html_()


def test_a_session_that_has_ended_is_not_asked(clinic: sf.Curator) -> None:
    session = clinic.above(4000, tables="visits").release(2)
    assert session.ask(HIGH)
    before = kinds(clinic)
    for asked in (HIGH, LOW, "not SQL at all"):
        with pytest.raises(sf.SessionClosed, match="after 1 answer above the threshold"):
            session.ask(asked)
    assert kinds(clinic) == before
    closed = clinic.above(4000).release(1)
    closed.close()
    closed.close()
    with pytest.raises(sf.SessionClosed, match="after 0 answers above the threshold"):
        closed.ask(LOW)


REFUSED = {
    "SELECT kind, COUNT(*) FROM visits GROUP BY kind": "one count or one sum",
    "SELECT COUNT(*) * 2 FROM visits": "one count or one sum",
    "SELECT COUNT(*), COUNT(*) FILTER (WHERE cost > 1) FROM visits": "one count or one sum",
    "SELECT AVG(cost) FROM visits": "one count or one sum",
    "SELECT COUNT(*) FROM visits HAVING COUNT(*) > 5": "one count or one sum",
    "SELECT COUNT(*) FROM visits LIMIT 1": "one count or one sum",
    "SELECT n + 1 FROM (SELECT COUNT(*) AS n FROM visits)": "one count or one sum",
    "SELECT SUM(cost) FROM visits": "at most 2, the sensitivity that the session was opened with; got 100",
    "SELECT COUNT(*) FROM calls": "at most 2, the sensitivity that the session was opened with; got 7",
    "SELECT COUNT(* FROM visits": "not valid SQL",
    "SELECT COUNT(*) FROM nowhere": "nowhere",
    "SHOW TABLES": "only SELECT",
    "": "empty",
}


def test_what_cannot_be_asked_is_refused_for_free_and_the_session_goes_on(clinic: sf.Curator) -> None:
    with clinic.above(4000, tables=["visits"]).release(2) as session:
        before = kinds(clinic)
        for asked, said in REFUSED.items():
            with pytest.raises(sf.SfumatoError, match=said):
                session.ask(asked)
            assert kinds(clinic) == before
            assert session.remaining == 1
        assert session.ask(HIGH)


def test_a_strategy_that_suits_no_session_is_refused_and_the_session_goes_on(clinic: sf.Curator) -> None:
    with clinic.above(4000, tables=["visits"]).release(2) as session:
        with pytest.raises(sf.InvalidParameter, match="a strategy for Laplace noise"):
            session.ask(clinic.sql(HIGH).limit(strategy="clip-l2"))  # type: ignore[union-attr]
        assert session.ask(clinic.sql(HIGH).limit(strategy="clip-l1"))  # type: ignore[union-attr]


def test_questions_are_made_in_python_too_and_tightened_to_fit(clinic: sf.Curator, tmp_path: Path) -> None:
    with clinic.above(1000, positives=3, sensitivity=1).release(5) as session:
        with pytest.raises(sf.InvalidParameter, match=r"limit\(rows=1\)"):
            session.ask(HIGH)
        assert session.ask(clinic.sql(HIGH).limit(rows=1))  # type: ignore[union-attr]
        assert session.ask(clinic.table("visits").where("kind = 'b'").agg(n=sf.count_distinct("who")))
        assert session.ask("SELECT COUNT(DISTINCT who) FROM visits WHERE kind = ?", ["b"])
    (tmp_path / "other").mkdir()
    with opened(tmp_path / "other") as other, clinic.above(1000).release(1) as session:
        for foreign in (other.sql(LOW), clinic.sql("SHOW TABLES"), 5):
            with pytest.raises(sf.InvalidParameter, match="a question made by this curator"):
                session.ask(foreign)  # type: ignore[arg-type]


def test_sums_that_fall_need_a_session_that_does_not_count_on_growth(clinic: sf.Curator) -> None:
    falling = "SELECT SUM(change) FROM visits"
    with (
        clinic.above(100, sensitivity=10).release(1) as session,
        pytest.raises(sf.InvalidParameter, match="may only grow when a unit is added"),
    ):
        session.ask(falling)
    with clinic.above(100, sensitivity=10, monotone=False).release(2) as session:
        assert session.ask(falling)
    with clinic.above("1000.25", sensitivity=100).release(2) as session:
        assert session.ask("SELECT SUM(cost) FROM visits")


def test_values_come_with_what_is_above(clinic: sf.Curator) -> None:
    proposal = clinic.above("1000.5", positives=2, tables="visits")
    assert proposal.grid == Fraction(1, 2)
    with proposal.release(5, values_epsilon=2) as session:
        assert spent(clinic) == 5
        low, high = session.ask(LOW), session.ask(HIGH)
    assert (low.value, low.error(), str(low)) == (None, None, "below")
    assert high.value is not None
    assert abs(high.value - 8000) <= (high.error("0.999999999") or 0)
    assert high.error() == high.noise.error() * Fraction(1, 2)  # type: ignore[union-attr]
    assert "±" in str(high)
    assert "values" in str(proposal.explain(5, values_epsilon=2))
    for wrong in (5, 9, 0, -1, "x"):
        with pytest.raises(sf.InvalidParameter, match="values_epsilon"):
            proposal.release(5, values_epsilon=wrong)
    fine = clinic.above(1000, sensitivity=50, monotone=False)
    with fine.release(5, values_epsilon=2) as session:  # values on a grid of 0.5, compared in whole numbers
        said = session.ask(clinic.sql("SELECT SUM(cost) FROM visits").limit(rows=1))  # type: ignore[union-attr]
    assert said.rounding == 1


def test_an_answer_reads_back_what_it_writes() -> None:
    for said in (
        ThresholdAnswer(True),
        ThresholdAnswer(False),
        ThresholdAnswer(True, Fraction(7, 2), sf.Laplace(3), Fraction(1, 2), Fraction(1, 2)),
    ):
        assert ThresholdAnswer.from_json(said.to_json()) == said
    for broken in ('{"kind": "compared"}', "null", "[]", ThresholdAnswer(True).to_json().replace("true", '"yes"')):
        with pytest.raises(sf.SfumatoError):
            ThresholdAnswer.from_json(broken)
    with pytest.raises(sf.InvalidParameter, match='None, because "above" is False'):
        ThresholdAnswer(False, Fraction(1), sf.Laplace(1))
    with pytest.raises(sf.InvalidParameter, match="None, because no noise is given"):
        ThresholdAnswer(True, Fraction(1))


def test_the_sensitivity_is_that_of_the_tables_unless_it_is_given(clinic: sf.Curator) -> None:
    assert clinic.above(10).sensitivity == 7
    assert clinic.above(10, tables=["visits"]).sensitivity == 2
    assert clinic.above(10, sensitivity="0.5").sensitivity == Fraction(1, 2)
    wrong: list[dict[str, Any]] = [
        {"tables": "nowhere"},
        {"tables": ["hotels"]},
        {"tables": []},
        {"tables": "visits", "sensitivity": 1},
        {"sensitivity": 0},
        {"positives": 0},
        {"monotone": "yes"},
        {"threshold": "many"},
        {"threshold": 10**30},
    ]
    for each in wrong:
        with pytest.raises(sf.InvalidParameter):
            clinic.above(**{"threshold": 10, **each})
    assert not kinds(clinic)


def test_errors_and_prices_are_free(clinic: sf.Curator) -> None:
    proposal = clinic.above(4000, positives=3, tables="visits")
    width = proposal.error(1, questions=50)
    assert proposal.error(1, questions=500) > width > proposal.error(2, questions=50)
    found = proposal.price(100, questions=50)
    assert proposal.error(found, questions=50) <= 100 < proposal.error(found * 0.99, questions=50)
    assert proposal.identity != clinic.above(4001, positives=3, tables="visits").identity
    for wrong in (lambda: proposal.error(0), lambda: proposal.error(1, questions=0), lambda: proposal.price(0)):
        with pytest.raises(sf.InvalidParameter):
            wrong()
    assert not kinds(clinic)


def test_an_account_that_cannot_pay_opens_nothing(clinic: sf.Curator) -> None:
    with pytest.warns(sf.WeakPrivacy), pytest.raises(sf.Overspent):
        clinic.above(4000).release(21)
    assert not kinds(clinic)


def test_a_session_is_charged_to_the_share_of_who_opened_it(tmp_path: Path) -> None:
    with opened(tmp_path, analysts={"ana": "0.1"}) as clinic:
        ana = clinic.as_analyst("ana")
        with pytest.raises(sf.Overspent, match="share"):
            ana.above(4000).release(3)
        with ana.above(4000).release(2) as session:
            session.ask(LOW)
            assert session.ask(ana.sql(HIGH)).above in (True, False)
        assert {line.analyst for line in clinic.history() if line.kind in ("tab-open", "step", "answer")} == {"ana"}
        assert ana.standing().left["pure"] == 0


def test_every_question_sees_the_rows_of_the_first(clinic: sf.Curator, tmp_path: Path) -> None:
    with clinic.above(1000, positives=2, tables="visits").release(4) as session:
        assert not session.ask(LOW)
        changed = visits()
        changed["kind"] = "c"
        changed.to_parquet(tmp_path / "visits.parquet")
        assert not session.ask(LOW)
        assert session.ask(HIGH)


def test_what_a_session_said_answers_no_other_question(clinic: sf.Curator) -> None:
    with clinic.above(4000, tables="visits").release(1) as session:
        session.ask(LOW)
    answer = clinic.sql(LOW).release(epsilon="0.1")  # type: ignore[union-attr]
    assert not answer.receipt.free
    assert spent(clinic) == Fraction(11, 10)


# ── interruptions ──


class Stopped(BaseException):
    """As a Ctrl-C is no Exception either."""


def stopping(*_: object, **__: object) -> Any:
    raise Stopped


def test_a_question_stopped_before_the_mechanism_was_asked_uses_up_nothing(
    clinic: sf.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with clinic.above(4000, tables="visits").release(2) as session:
        with monkeypatch.context() as broken:
            broken.setattr(session._snapshot, "read", stopping)
            with pytest.raises(sf.SessionInterrupted, match="stopped before its answer") as refused:
                session.ask(HIGH)
        assert refused.value.__cause__ is None
        assert session.remaining == 1
        assert session._session.receipt.asked == 0
        assert session.ask(HIGH)
    assert kinds(clinic) == ["tab-open", "step", "step", "answer", "tab-close"]


def test_a_question_stopped_before_it_was_written_down_has_used_up_what_it_said(
    clinic: sf.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with clinic.above(4000, positives=2, tables="visits").release(2) as session:
        with monkeypatch.context() as broken:
            broken.setattr(type(clinic._context.account), "answer", stopping)
            with pytest.raises(sf.SessionInterrupted):
                session.ask(HIGH)
        assert session.remaining == 1
        assert session.answers == ()
        assert session.ask(HIGH)
        with pytest.raises(sf.SessionClosed, match="after 2 answers above the threshold"):
            session.ask(HIGH)


def test_a_question_stopped_while_the_mechanism_answers_ends_the_session(
    clinic: sf.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with clinic.above(4000, positives=2, tables="visits").release(2, values_epsilon=1) as session:
        with monkeypatch.context() as broken:
            broken.setattr("sfumato.mechanisms.laplace.draw_one", stopping)  # the noise of the value
            with pytest.raises(sf.SessionInterrupted):
                session.ask(HIGH)
        assert session.remaining == 0
        with pytest.raises(sf.SessionClosed):
            session.ask(LOW)


def test_a_mechanism_stopped_between_counting_and_forgetting_says_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    session = sf.AboveThreshold(20, 0, positives=1).start()
    monkeypatch.setattr(session, "_forget_noise", stopping)
    with pytest.raises(Stopped):
        session.ask(10**6)
    with pytest.raises(sf.SessionClosed):
        session.ask(10**6)


def test_a_time_limit_stops_a_question_and_not_the_session(clinic: sf.Curator) -> None:
    session = clinic.above(4000, tables="visits").release(2, seconds="1e-9")
    with pytest.raises(sf.Unsupported, match="time limit"):
        session.ask(HIGH)
    assert session.remaining == 1
    session.close()


def test_a_closed_curator_answers_nothing(tmp_path: Path) -> None:
    clinic = opened(tmp_path)
    session = clinic.above(4000).release(1)
    clinic._context.engine.close()
    with pytest.raises(EngineClosed):
        session.ask(HIGH)
    clinic.close()


def test_a_process_that_dies_leaves_a_tab_that_is_spent(tmp_path: Path) -> None:
    with opened(tmp_path) as clinic:
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
        session = clinic.above(4000).release(2)
        (tab,) = clinic._context.account.open_tabs()
        assert tab.number == session.receipt.line
        clinic._context.account.abandon(tab.number, reason="switched off")
        assert spent(clinic) == 2
        with pytest.raises(sf.TabClosed):
            session.ask(HIGH)


def test_a_session_is_not_carried_into_another_process(clinic: sf.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    session = clinic.above(4000).release(1)
    with pytest.raises(TypeError, match="holds a secret"):
        pickle.dumps(session)
    own = os.getpid()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(os, "getpid", lambda: own + 1)
        with pytest.raises(sf.SessionClosed):
            session.ask(HIGH)
        session.close()  # of the copy alone
    assert session.remaining == 1
    session.close()


def test_threads_are_answered_one_after_the_other(clinic: sf.Curator) -> None:
    session = clinic.above(4000, positives=3, tables="visits").release(4)
    said: list[bool] = []
    refused: list[sf.SessionClosed] = []

    def ask() -> None:
        for _ in range(3):
            try:
                said.append(bool(session.ask(HIGH)))
            except sf.SessionClosed as closed:
                refused.append(closed)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(said) == 3
    assert len(said) + len(refused) == 12
    assert clinic.ledger.verify().holds


def test_a_tab_pays_for_the_mechanism_it_was_opened_for_and_no_other(clinic: sf.Curator) -> None:
    small, large = clinic.above(4000).release("0.5"), clinic.above(4000).mechanism(4)
    small._mechanism = large
    small._session = large.start()
    with pytest.raises(sf.InvalidParameter, match="equal to those that the series was opened with"):
        small.ask(HIGH)
    assert isinstance(small, ThresholdSession)
    small.close()


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_both_relations(neighbours: str, tmp_path: Path) -> None:
    with opened(tmp_path, neighbours) as clinic, clinic.above(4000, tables="visits").release(4) as session:
        assert session._mechanism.neighbours.value == neighbours
        assert session.proposal.monotone is (neighbours == "add-remove")
        assert not session.ask(LOW)
        assert session.ask(HIGH)


def test_rows_are_forgotten_once_and_between_two_phases(clinic: sf.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long that takes depends on the rows: whoever holds answers back is told before and after."""
    said: list[str] = []
    session = clinic.above(10**6).release(1, progress=said.append)
    forget = session._snapshot.close
    monkeypatch.setattr(session._snapshot, "close", lambda: (said.append("rows are forgotten"), forget()))
    session.ask("SELECT COUNT(*) FROM visits")
    said.clear()
    session.close()
    session.close()
    assert said == ["closing", "rows are forgotten", "closed"]
