"""A long history costs nothing: the same work per charge after ten lines and after a million."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import sfumato as sf
from ledger.small_accounts import account, pure
from sfumato.ledger.transaction import Transaction


def lengthened(ledger: sf.Ledger, lines: int) -> None:
    """Many charges of several analysts in one transaction: the lines are the ledger's own, only the syncs are saved."""
    cost = ledger.account("clinic").cost(sf.Curve.pure("1e-9"))
    with ledger._guarded.store.writing() as rows:
        transaction = Transaction(rows, ledger._guarded.keyed_hash.origin)
        for turn in range(lines):
            columns = {
                "analyst": f"analyst {turn % 7}",
                "question": f"question {turn}",
                "plan": f"{turn:x}",
                "data": "v",
            }
            transaction.append("charge", "clinic", columns, cost=cost)


def instructions(ledger: sf.Ledger, work: Callable[[], object]) -> int:
    """How many instructions SQLite's machine runs for this: what its plans touch, free of the machine's speed."""
    counted = [0]
    connection = ledger._guarded.store._connection

    def tick() -> int:
        counted[0] += 1
        return 0

    connection.set_progress_handler(tick, 1)
    work()
    connection.set_progress_handler(None, 0)
    return counted[0]


def test_a_charge_touches_as_many_rows_in_a_million_lines_as_in_ten(tmp_path: Path, long: bool) -> None:
    with sf.Ledger.open(tmp_path / "ledger.db") as ledger:
        clinic, other = account(ledger, sf.Budget(100, "1e-6")), account(ledger, name="other")
        clinic.analyst("ana", share="0.5")
        old = clinic.charge(pure("0.001", plan="old", data="v", request_id="old"))
        clinic.answer(old, "1", {})
        tab = clinic.open_tab(pure("0.5", analyst="bob"))
        turns = iter(range(1000))

        def work() -> None:
            turn = next(turns)
            line = clinic.charge(pure("0.001", analyst="ana", plan=f"plan {turn}", data="v", request_id=f"r{turn}"))
            clinic.answer(line, "1", {"n": 1})
            clinic.stored(plan="old", data="v")
            clinic.requested("old")
            question = clinic.ask(pure("0.001", analyst="ana", plan=f"q{turn}", data="v", request_id=f"q{turn}"), {})
            assert question.begin() is None
            clinic.answer(question.line, "1", {})
            tab.step(pure("0.0001"))
            other.charge(pure("0.001"))
            assert clinic.budget.affords(sf.Curve.pure("0.1"))

        work()
        short = instructions(ledger, work)
        lengthened(ledger, 1_000_000 if long else 2_000)
        assert instructions(ledger, work) <= short * 1.02
    with sf.Ledger.open(tmp_path / "ledger.db") as ledger:
        assert ledger.verify().holds


def test_no_query_scans(tmp_path: Path) -> None:
    """Every way of finding a line is a search in an index or by number, and sorts nothing but the numbers of what was
    published of one table.
    """
    with sf.Ledger.open(tmp_path / "ledger.db") as ledger:
        clinic = account(ledger)
        seen: set[str] = set()
        connection = ledger._guarded.store._connection
        connection.set_trace_callback(lambda text: seen.add(text) if text.startswith("SELECT") else None)
        line = clinic.charge(pure(analyst="ana", plan="p", data="v", request_id="r"))
        clinic.answer(line, "1", {})
        clinic.stored(plan="p", data="v")
        clinic.published("p", data="v")
        clinic.requested("r", analyst="ana")
        for _ in range(2):
            question = clinic.ask(pure(analyst="ana", plan="q", data="v", request_id="q"), {})
            if question.begin() is None:
                clinic.answer(question.line, "1", {})
        assert clinic.epsilons == (1,)
        with clinic.open_tab(pure("0.1")) as tab:
            account(ledger, name="other").charge(pure())
            tab.step(pure("0.1"))
        clinic.open_tabs()
        ledger.anchor()
        connection.set_trace_callback(None)
        assert len(seen) > 8
        for text in seen:
            for _, _, _, plan in connection.execute(f"EXPLAIN QUERY PLAN {text}"):
                whole = plan == "SCAN lines" and "WHERE" not in text and "LIMIT 1" in text  # the last line by number
                few = "INDEXED BY by_plan" in text and ("SUBQUERY" in plan or plan == "USE TEMP B-TREE FOR ORDER BY")
                assert plan.startswith("SEARCH") or "USING INDEX every_" in plan or whole or few, (plan, text)
