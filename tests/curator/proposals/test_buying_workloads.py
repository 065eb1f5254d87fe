"""How a workload is bought, restored and keyed: each step with a stand-in for what lies around it."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

import sfumato as sf
from release.answers.test_stacked_answers import RECEIPT
from sfumato.curator.proposals import workloads
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.stored_answers import Answers
from sfumato.curator.proposals.workloads import WorkloadProposal
from sfumato.errors import InvalidParameter
from sfumato.ledger.entries import StoredAnswer
from sfumato.policy import Type


def receipt(**changes: Any) -> Any:
    return RECEIPT.__class__(**{**vars(RECEIPT), **changes})


class Workload:
    """Three questions, of which some are stored."""

    def __init__(self, unstored: list[int], purchase: Any) -> None:
        self.unstored, self.purchase, self.log = unstored, purchase, []  # type: ignore[var-annotated]
        self.measured_questions = ["q0", "q1", "q2"]

    def _unstored_indices(self, *_: Any) -> list[int]:
        return self.unstored

    def _load_stored_results(self, _: Any, indices: list[int]) -> dict[str, str]:
        assert not {*indices} & {*self.unstored}, "what is not stored cannot be loaded"
        return {f"q{index}": "stored" for index in indices}

    def _buy_unstored(self, batch: Any, *given: Any) -> Any:
        self.log.append((batch, *given))
        return self.purchase

    def _receipt(self, _: Any, confidence: Any) -> Any:
        return "receipt", confidence

    def restore(self, *given: Any) -> Any:
        return "restored", *given


@contextmanager
def _tab(log: list[Any]) -> Any:
    log.append("open")
    yield "inside"
    log.append("closed")


def buy(unstored: list[int], purchase: Any) -> tuple[Any, Workload, list[Any]]:
    made, finished = Workload(unstored, purchase), []  # type: ignore[var-annotated]
    batch: Any = SimpleNamespace(priced_subset=lambda indices: ("batch", tuple(indices)))
    requested: Any = SimpleNamespace(
        call=SimpleNamespace(fresh=False), finish=lambda _, released: finished.append(released)
    )
    released = WorkloadProposal.buy_and_build(made, batch, requested, lambda *given: given, "0.9", True)  # type: ignore[arg-type,return-value]
    if made.log:
        assert made.log == [(("batch", tuple(unstored)), unstored, requested, "0.9", True)]
    return released, made, finished


def test_what_is_not_stored_is_bought_and_all_of_it_is_built_and_finished() -> None:
    log: list[Any] = []
    purchase = SimpleNamespace(tab=_tab(log), result_by_identity={"q1": "bought"})
    released, made, finished = buy([1], purchase)
    assert released == ({"q0": "stored", "q1": "bought", "q2": "stored"}, ("receipt", "0.9"))
    assert (log, finished, len(made.log)) == (["open", "closed"], [released], 1)


def test_what_is_stored_altogether_is_built_without_a_charge() -> None:
    released, made, finished = buy([], None)
    assert released[0] == dict.fromkeys(["q0", "q1", "q2"], "stored")
    assert (finished, made.log) == ([], [])


def test_an_equal_request_that_was_answered_meanwhile_is_restored() -> None:
    stored = object.__new__(StoredAnswer)
    released, _, finished = buy([0, 2], stored)
    assert released == ("restored", stored, "0.9", True)
    assert finished == []


def answers(batch: Any, *lines: int, **more: Any) -> Answers:
    bought = (receipt(line=line, confidence="0.9", **more) for line in lines)
    singles = tuple(sf.Answer(("n",), (Type.INTEGER,), ((1,),), {}, (), each, ()) for each in bought)
    return Answers(tuple(f"q{line}" for line in lines), singles, batch)


def test_a_request_is_restored_with_the_budget_that_remains_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "repeated_receipt", lambda old, context: receipt(line=old.line + context))
    proposal: Any = SimpleNamespace(_context=100)
    for batch in (None, receipt(line=7)):
        bought = answers(batch, 3, 4)
        stored: Any = SimpleNamespace(body=bought.to_json())
        restored = WorkloadProposal.restore(proposal, stored, "0.9", False)
        assert restored.names == ("q3", "q4")
        assert [answer.receipt.line for answer in restored.answers] == [103, 104]
        assert (None if restored.receipt is None else restored.receipt.line) == (None if batch is None else 107)
        for confidence, joint in (("0.8", False), ("0.9", True)):
            with pytest.raises(InvalidParameter, match="request_id"):
                WorkloadProposal.restore(proposal, stored, confidence, joint)


def test_questions_are_named_and_numbered_from_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(workloads, "WorkloadProposal", lambda _, parsed: parsed)
    monkeypatch.setattr(workloads, "_require_workload_question", lambda _, ask, question: ask(question))
    asked: list[str] = []
    context: Any = SimpleNamespace(require_one_account=asked.append)

    def ask(text: Any) -> Any:
        if "wrong" in str(text):
            raise InvalidParameter("sql", text, "right")
        return f"asked {text}"

    path = tmp_path / "questions.sql"
    path.write_text("SELECT 1;\nSELECT 2;\n")
    expected = {"q1": "asked SELECT 1", "q2": "asked SELECT 2"}
    for questions in (path, str(path), ["SELECT 1", "SELECT 2"], ("SELECT 1", "SELECT 2")):
        assert workloads.propose_workload(context, ask, questions) == expected
    named: Any = workloads.propose_workload(context, ask, {"first": "SELECT 1"})
    assert named == {"first": "asked SELECT 1"}
    assert asked == ["a workload"] * 5
    question: Any = object.__new__(Question)
    object.__setattr__(question, "text", "wrong text")
    monkeypatch.setattr(Question, "__str__", lambda _: "wrong by its form", raising=False)
    path.write_text("SELECT 1;\nwrong;\n")
    for wrong, places in (
        (["SELECT 1", "wrong"], ["question 2", "q2"]),
        ({"a": "wrong"}, ["question 1", "a"]),
        (path, ["question 2"]),
        ([question], ["question 1", "wrong text"]),
    ):
        with pytest.raises(InvalidParameter) as refusal:
            workloads.propose_workload(context, ask, wrong)
        for place in places:
            assert place in str(refusal.value)
    with pytest.raises(sf.SfumatoError, match="at least one question"):
        workloads.propose_workload(context, ask, [])


def test_keys_of_questions_differ_where_groups_were_found() -> None:
    keys: dict[Any, str] = {}
    for found in ((), ("ward",), ("day",)):
        for groups in ((("a",),), (("b",),)):
            context = SimpleNamespace(plan_key=lambda _, make_hash: make_hash("policy"))
            stand_in: Any = type("StandIn", (), {"plan_key": vars(Question)["plan_key"], "discovered_keys": found})()
            stand_in.groups, stand_in._context = groups, context
            stand_in.query, stand_in.limits, stand_in.strategy = SimpleNamespace(plan=None), None, None
            keys[found, groups] = stand_in.plan_key
    assert len(set(keys.values())) == len(keys)
