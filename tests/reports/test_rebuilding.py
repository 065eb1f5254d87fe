"""Answers are made again from the ledger: the same numbers, for the same question under the same policy, or none."""

from __future__ import annotations

from pathlib import Path

import sfumato as sf
from sfumato.release.answers.answer import Answer
from sfumato.release.running_totals import RunningAnswer
from sfumato.reports import SigningKey, bundle, report, verify_bundle
from sfumato.reports.account_reports import collect_report


def _again(policy: Path) -> list[Answer | None]:
    return [each.answer for each in collect_report(policy, questions=True).questions if each.kind != "tab-open"]


def _same(one: Answer, other: Answer | None) -> bool:
    return other is not None and (one.columns, one.rows, one.intervals) == (other.columns, other.rows, other.intervals)


def test_answers_are_made_again_without_the_rows(tmp_path: Path) -> None:
    policy = sf.example(tmp_path / "flights")
    with sf.open(policy) as flights:
        questions = [
            flights.sql("SELECT origin, COUNT(*) AS n, AVG(delay) AS late FROM flights GROUP BY origin"),
            flights.sql("SELECT COUNT(*) AS n FROM flights WHERE delay > $1", [60]),
            flights.sql("SELECT COUNT(*) AS n FROM flights").limit(rows=5),
            flights.sql("SELECT origin, SUM(delay) AS s FROM flights GROUP BY origin ORDER BY s DESC LIMIT 2").limit(
                rows=20, groups=2, strategy="sample"
            ),
            flights.sql("SELECT MEDIAN(delay) AS m FROM flights"),
            flights.sql("SELECT name, COUNT(*) AS n FROM flights JOIN airlines USING (carrier) GROUP BY name"),
            flights.table("flights").where("distance > 500").group_by("origin").agg(n=sf.count()),
        ]
        bought = [each.release(epsilon=0.05) for each in questions]
        both = flights.workload(["SELECT COUNT(*) AS n FROM flights", "SELECT SUM(delay) AS s FROM flights"])
        bought += both.release(epsilon=0.1)
        spent = flights.budget.spent
    (policy.parent / "flights.parquet").unlink()  # no row is needed any more
    again = _again(policy)
    assert len(again) == len(bought)
    assert all(_same(one, other) for one, other in zip(bought, again, strict=True))
    with sf.Ledger.open(policy.parent / "sfumato.ledger") as ledger:
        assert ledger.account("flights").budget.spent == spent


def test_no_answer_is_shown_under_another_policy(tmp_path: Path) -> None:
    policy = sf.example(tmp_path / "flights")
    with sf.open(policy) as flights:
        flights.sql("SELECT SUM(delay) AS s FROM flights").release(epsilon=0.5)
    assert _again(policy) != [None]
    changed = policy.read_text().replace("bounds = [-30, 180]", "bounds = [-30, 360]")
    assert changed != policy.read_text()
    policy.write_text(changed)
    assert _again(policy) == [None]


def test_the_receipt_is_of_the_line(policy: Path) -> None:
    found = collect_report(policy, questions=True)
    for each in found.questions:
        assert each.answer is not None
        assert each.answer.receipt.line == each.answer_line
        assert each.answer.receipt.question == each.question
        assert each.answer.receipt.share == ""


def test_periods_with_accounts_of_their_own(tmp_path: Path, key: SigningKey) -> None:
    policy = sf.example(tmp_path / "flights")
    period = 'name = "plane"\nperiod = { column = "day", every = "month" }'
    text = (
        policy.read_text().replace('name = "plane"', period).replace("delta = 1e-6 }", 'delta = 1e-6, per = "month" }')
    )
    policy.write_text(text)
    with sf.open(policy) as flights:
        question = "SELECT COUNT(*) AS n FROM flights WHERE day BETWEEN DATE '2013-07-01' AND DATE '2013-07-31'"
        bought = flights.sql(question).release(epsilon=0.5)
    found = collect_report(policy, questions=True)
    assert _same(bought, found.questions[0].answer)
    assert "one plane-month" in found.period_guarantee
    page = report(policy).html
    assert "The guarantee: ε = 3" in page.replace("\u00a0", " ")
    assert "2013-07" not in page
    bundle(policy, key, tmp_path / "bundle.zip")
    assert b"2013-07" not in (tmp_path / "bundle.zip").read_bytes()
    assert "in each period" in " ".join(verify_bundle(tmp_path / "bundle.zip", policy=policy).proved)


def test_running_totals_and_synopses_are_shown_and_drawn_without_the_rows(tmp_path: Path, key: SigningKey) -> None:
    policy = sf.example(tmp_path / "flights")
    running, marginals = "SELECT day, COUNT(*) AS flights FROM flights GROUP BY day", ("origin", "carrier")
    with sf.open(policy) as flights:
        bought = flights.running(flights.sql(running)).release(epsilon=1)
        published = flights.marginals("flights", [marginals]).release(epsilon=1)
    (policy.parent / "flights.parquet").unlink()
    found = [each for each in collect_report(policy, questions=True).questions if each.answer_line]
    assert _same(bought, found[0].answer)
    assert isinstance(found[0].answer, RunningAnswer)
    assert found[1].answer is None
    assert found[1].synopsis is not None
    assert str(found[1].synopsis.marginal(marginals)) == str(published.marginal(marginals))
    page = report(policy, questions=True).html
    assert page.count("<svg") == 2 + 2  # budget and attacker, the line with a band, and the counts
    assert "Counts of each column" in page
    assert "Counts by origin × carrier" in page
    assert "Counts were published" not in report(policy).html
    bundle(policy, key, tmp_path / "bundle.zip", questions=True)
    assert verify_bundle(tmp_path / "bundle.zip", key.public, policy=policy).bundle.answers == (found[0].answer,)
