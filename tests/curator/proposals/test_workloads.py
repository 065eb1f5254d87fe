"""Workloads: one price for several questions, what each gets of it, what was bought before, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from covering_cases import covering
from sfumato.curator import Answers, WorkloadForecast, WorkloadProposal

COLUMNS = {
    "kind": {"values": ["a", "b", "c"]},
    "cost": {"type": "real", "bounds": [0, 50], "grid": "0.5"},
    "note": {"type": "text"},
}
ALL = "SELECT COUNT(*) AS n FROM visits"
A, B = (f"{ALL} WHERE kind = '{kind}'" for kind in "ab")
KINDS = "SELECT kind, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY kind"
MIXED = {
    "all": ALL,
    "a": A,
    "kinds": KINDS,
    "people": "SELECT COUNT(DISTINCT who) AS n FROM visits",
    "twice": "SELECT COUNT(*) * 2 AS m FROM visits",
}
NOTES = "SELECT note, COUNT(*) AS n FROM visits GROUP BY note"


def visits(people: int = 2000) -> pd.DataFrame:
    """Everybody has two rows of a and one of b: one more than counts."""
    who = np.repeat(np.arange(people), 3)
    notes = np.where(who % 2 == 0, "even", "odd")
    return pd.DataFrame({"who": who, "kind": ["a", "a", "b"] * people, "cost": 10.0, "note": notes})


def opened(folder: Path, neighbours: str = "add-remove", analysts: dict[str, Any] | None = None) -> sf.Curator:
    source = folder / "visits.parquet"
    visits().to_parquet(source)
    table = sf.Table("visits", source, COLUMNS, id="who", max_rows=2)
    unit, budget = sf.PrivacyUnit("patient"), sf.Budget(20, "1e-5", neighbours=neighbours)
    policy = sf.Policy(unit, budget, {"visits": table}, size=2000, analysts=analysts or {})
    return sf.Curator(policy, folder / "l.ledger")


@pytest.fixture
def clinic(tmp_path: Path) -> Iterator[sf.Curator]:
    with opened(tmp_path) as curator:
        yield curator


def spent(curator: sf.Curator) -> Fraction | None:
    return curator._context.account.spent["pure"]


def kinds(curator: sf.Curator) -> list[str]:
    return [line.kind for line in curator.history() if line.kind not in ("account-open", "source", "share")]


def test_several_questions_are_one_charge_with_one_receipt(clinic: sf.Curator) -> None:
    asked = clinic.workload(MIXED)
    assert len(asked) == 5
    assert "workload of 5 questions" in repr(asked)
    said = str(asked.explain(epsilon=1))
    assert "4 questions measured by 3 statements" in said
    assert isinstance(asked.error(epsilon=1), WorkloadForecast)
    assert not kinds(clinic)
    found = asked.release(epsilon=1)
    assert spent(clinic) == 1
    assert kinds(clinic) == ["tab-open", *["step", "answer"] * 4, "tab-close"]
    assert found.names == tuple(MIXED)
    assert found["a"] is found[1]
    assert [each.columns for each in found] == [("n",), ("n",), ("kind", "n", "cost"), ("n",), ("m",)]
    assert found["twice"].rows[0][0] == 2 * found["all"].rows[0][0]
    assert found.receipt is not None
    assert found.receipt.guarantee == "ε = 1"
    assert "5 questions" in found.receipt.question
    assert len(found[1:3]) == 2
    assert clinic.ledger.verify().holds


def test_the_answers_are_right_and_their_ranges_hold(clinic: sf.Curator) -> None:
    found = clinic.workload([ALL, A, B, KINDS]).release(epsilon=4)
    exact = {"q1": 4000, "q2": 4000, "q3": 2000}
    for name, number in exact.items():
        ((low, high),) = found[name].intervals["n"]
        assert low - 40 <= number <= high + 40
    assert found["q4"].column("kind") == ["a", "b", "c"]


@covering(
    {
        "price": [{"epsilon": 1}, {"epsilon": 1, "delta": "1e-6"}, {"rho": "0.05"}],
        "neighbours": ["add-remove", "replace"],
    }
)
def test_what_is_drawn_keeps_the_price(neighbours: str, price: dict[str, Any], tmp_path: Path) -> None:
    """The curve of everything that is drawn, composed anew from the line in the ledger."""
    with opened(tmp_path, neighbours) as clinic:
        asked = [ALL, A, B, KINDS, *(f"{ALL} WHERE cost > {number}" for number in range(20))]
        clinic.workload(asked).release(**price)
        line = next(each for each in clinic.history() if each.kind == "tab-open")
        assert line.curve is not None
        if "rho" in price:
            assert line.curve.rho() <= Fraction(price["rho"])
        else:
            assert line.curve.delta(1.0) <= float(price.get("delta", 0)) or line.curve.epsilon(0) <= 1
        assert line.cost == clinic._context.account.recomputed(line)


def test_together_costs_far_less_than_one_by_one(clinic: sf.Curator) -> None:
    """A hundred counts, each as accurate as at ε = 0.02: at δ = 1e-6 less than a third of the sum."""
    asked = clinic.workload([f"{ALL} WHERE cost < {number / 2}" for number in range(1, 101)])
    width = clinic.sql(ALL).error(epsilon="0.02")["n"]  # type: ignore[union-attr]
    assert asked.price(width) == pytest.approx(2, rel=0.02)
    assert asked.price(width, delta="1e-6") < 0.3 * 2
    forecast = asked.error(within=width, delta="1e-6")
    assert all(forecast[name]["n"] <= width for name in forecast.names)


def test_wanted_accuracies_decide_the_split(clinic: sf.Curator) -> None:
    asked = clinic.workload({"rough": ALL, "fine": A, "kinds": KINDS})
    wanted = {"rough": 400, "fine": 40, "kinds": {"n": 200}}
    price = asked.price(wanted)
    found = asked.error(within=wanted)
    assert found["rough"]["n"] <= 400
    assert found["fine"]["n"] <= 40
    assert found["kinds"]["n"] <= 200
    alone = [clinic.sql(ALL).price(400), clinic.sql(A).price(40), clinic.sql(KINDS).price({"n": 200})]  # type: ignore[union-attr]
    assert price == pytest.approx(sum(alone), rel=1e-3)
    asked.release(within=wanted)
    assert float(spent(clinic) or 0) == pytest.approx(price)
    wrong: list[Any] = [{"rough": 1}, {"nobody": 1, **wanted}, {**wanted, "fine": 0}, {**wanted, "kinds": {"cost": 1}}]
    for each in wrong:
        with pytest.raises(sf.InvalidParameter, match=r"within|fine|kinds"):
            asked.price(each)
    with pytest.raises(sf.InvalidParameter, match="'fine', 'kinds' have none") as refused:
        asked.price({"rough": 400})
    assert "add half-widths such as 'fine': 50" in refused.value.fix
    with pytest.raises(sf.InvalidParameter, match="left out if epsilon or rho is given"):
        asked.error(within=10, epsilon=1)


def test_of_those_that_ask_the_same_the_finest_wish_counts(clinic: sf.Curator) -> None:
    asked = clinic.workload({"one": ALL, "two": ALL})
    assert len(asked.measured_questions) == 1
    assert asked.price({"one": 400, "two": 40}) == asked.price({"one": 40}) == clinic.sql(ALL).price(40)  # type: ignore[union-attr]


def test_weights_share_the_price(clinic: sf.Curator) -> None:
    asked = clinic.workload({"one": A, "two": B})
    even, uneven = asked.error(epsilon=1), asked.error(epsilon=1, weights={"two": 3})
    assert even["one"]["n"] == even["two"]["n"]
    assert uneven["two"]["n"] < even["two"]["n"] < uneven["one"]["n"]
    assert "ε = 0.75" in str(asked.explain(epsilon=1, weights={"two": 3}))
    repeated = clinic.workload({"one": A, "two": B, "again": B})  # one purchase, with the largest of its weights
    for weights in ({"two": 3}, {"again": 3}, {"two": 3, "again": 2}, {"two": 2, "again": 3}):
        assert repeated.error(epsilon=1, weights=weights)["two"]["n"] == uneven["two"]["n"]
    for wrong in ({"two": 0}, {"two": -1}, {"two": "x"}, {"three": 1}):
        with pytest.raises(sf.InvalidParameter, match="weight"):
            asked.release(epsilon=1, weights=wrong)  # type: ignore[arg-type]
    assert not kinds(clinic)


def test_what_was_bought_is_not_bought_again(clinic: sf.Curator) -> None:
    before = clinic.sql(A).release(epsilon=1)  # type: ignore[union-attr]
    asked = clinic.workload({"all": ALL, "a": A, "b": B})
    forecast = asked.error(epsilon="1.5")
    assert forecast.stored == ("a",)
    assert forecast.price == "ε = 1"
    found = asked.release(epsilon="1.5")
    assert spent(clinic) == 2
    assert found["a"].rows == before.rows
    assert found["a"].receipt.free
    assert not found["b"].receipt.free
    # each is found again, by the workload and alone
    again = asked.release(epsilon="1.5")
    assert again.receipt is None
    assert [each.rows for each in again] == [each.rows for each in found]
    assert clinic.sql(B).release(epsilon="0.4").rows == found["b"].rows  # type: ignore[union-attr]
    assert spent(clinic) == 2
    assert "all answers are stored" in asked.error(epsilon="1.5").price
    # a better one is bought, and only that
    better = asked.release(epsilon="1.8")
    assert better["a"].receipt.free
    assert not better["b"].receipt.free
    fresh = asked.release(epsilon="0.3", fresh=True)
    assert not any(each.receipt.free for each in fresh)


def test_gaussian_answers_are_found_again_too(clinic: sf.Curator) -> None:
    asked = clinic.workload([f"{ALL} WHERE cost < {number / 2}" for number in range(1, 41)])
    found = asked.release(epsilon=1, delta="1e-6")
    assert found.receipt is not None
    assert "Gaussian" in found.receipt.mechanisms[0]
    before = len(kinds(clinic))
    assert [each.rows for each in asked.release(epsilon=1, delta="1e-6")] == [each.rows for each in found]
    half = clinic.workload([f"{ALL} WHERE cost < {number / 2}" for number in range(31, 51)])
    rest = half.error(rho="0.001")
    assert set(rest.stored) == {f"q{number}" for number in range(1, 11)}
    assert rest.price == "ρ = 0.0005"
    assert len(kinds(clinic)) == before


def test_groups_that_are_found_need_a_delta(clinic: sf.Curator) -> None:
    asked = clinic.workload({"all": ALL, "notes": NOTES})
    with pytest.raises(sf.SfumatoError, match="question notes"):
        asked.release(epsilon=1)
    assert not kinds(clinic)
    for mechanism in (None, sf.Laplace, sf.Gaussian):
        found = asked.release(epsilon=2, delta="2e-7", mechanism=mechanism, fresh=True)
        assert set(found["notes"].column("note")) <= {"even", "odd"}
    for line in clinic.history():
        if line.kind == "tab-open":
            assert line.curve is not None
            assert line.curve.delta(2.0) <= 2e-7


def test_what_is_declared_is_free_beside_what_is_measured(clinic: sf.Curator) -> None:
    found = clinic.workload({"kinds": "SELECT DISTINCT kind FROM visits", "all": ALL}).release(epsilon=1)
    assert found["kinds"].column("kind") == ["a", "b", "c"]
    assert spent(clinic) == 1
    with pytest.raises(sf.Unsupported, match="a workload needs at least one question that has a price"):
        clinic.workload(["SELECT DISTINCT kind FROM visits"]).release(epsilon=1)


BAD: dict[str, tuple[Any, str]] = {
    "none": ([], "at least one question and at most 5,000"),
    "no names": ({}, "at least one question and at most 5,000"),
    "empty name": ({" ": ALL}, "keys are non-blank strings"),
    "too many": ([ALL] * 5001, "5,000"),
    "listing": ([ALL, "SHOW TABLES"], r"question 2 \(q2\)"),
    "describe": ({"one": ALL, "what": "DESCRIBE visits"}, r"question 2 \(what\)"),
    "no sql": ([ALL, "SELECT COUNT(* FROM visits"], r"question 2 \(q2\)"),
    "refused": ([ALL, A, "SELECT cost FROM visits"], r"question 3 \(q3\)"),
    "no text": ([ALL, 5], r"question 2 \(q2\)"),
    "no file": ("SELECT COUNT(*) FROM visits", "a list, a mapping from names to SQL, or the path"),
}


def test_a_bad_question_is_named_and_nothing_is_spent(clinic: sf.Curator) -> None:
    for questions, said in BAD.values():
        with pytest.raises(sf.SfumatoError, match=said):
            clinic.workload(questions)
        assert not kinds(clinic)


def test_questions_come_from_a_file(clinic: sf.Curator, tmp_path: Path) -> None:
    file = tmp_path / "questions.sql"
    file.write_text(f"-- all of them\n{ALL};\n{A}\n  AND cost > 1;\n\n")
    for given in (file, str(file)):
        assert tuple(clinic.workload(given).questions) == ("q1", "q2")  # type: ignore[arg-type]
    file.write_text(f"{ALL};\n\nSELECT nothing FROM visits;")
    with pytest.raises(sf.Unsupported, match="question 2, line 3 of the file, 'SELECT nothing FROM visits'"):
        clinic.workload(file)
    file.write_text("-- nothing\n;")
    with pytest.raises(sf.Unsupported, match="at least one"):
        clinic.workload(file)
    file.write_bytes(b"\xff\xfe SELECT")
    with pytest.raises(sf.InvalidParameter, match="UTF-8"):
        clinic.workload(file)


def test_questions_made_in_python_are_asked_too(clinic: sf.Curator, tmp_path: Path) -> None:
    built = clinic.table("visits").where("kind = 'b'").agg(n=sf.count())
    found = clinic.workload([built, clinic.sql(A).limit(rows=1)]).release(epsilon=1)  # type: ignore[union-attr]
    assert len(found) == 2
    (tmp_path / "other").mkdir()
    with (
        opened(tmp_path / "other") as other,
        pytest.raises(sf.InvalidParameter, match="made by the curator that runs the workload"),
    ):
        clinic.workload([ALL, other.sql(A)])  # type: ignore[list-item]


def test_an_account_or_a_share_that_cannot_pay_is_told_before(tmp_path: Path) -> None:
    with opened(tmp_path, analysts={"ana": "0.1"}) as clinic:
        asked = clinic.as_analyst("ana").workload([ALL, A])
        assert asked.error(epsilon=2).accepted
        assert not asked.error(epsilon=3).accepted
        with pytest.raises(sf.Overspent, match="share"):
            asked.release(epsilon=3)
        assert not kinds(clinic)
        asked.release(epsilon=2)
        assert {line.analyst for line in clinic.history() if line.kind in ("tab-open", "step", "answer")} == {"ana"}
        assert clinic.as_analyst("ana").standing().left["pure"] == 0
        assert clinic.sql(A).release(epsilon=1).receipt.free  # type: ignore[union-attr]


class Stopped(BaseException):
    """As a Ctrl-C is no Exception either."""


@pytest.mark.parametrize("where", ["read", "draw", "write"])
def test_what_is_stopped_after_the_charge_is_spent_and_not_answered(
    where: str, clinic: sf.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopping(*_: object, **__: object) -> Any:
        raise Stopped

    target = {
        "read": "sfumato.engine.duckdb.driver.DuckDB.read",
        "draw": "sfumato.release.batch_prices.BatchMeasurements",
        "write": "sfumato.ledger.transaction.Transaction.close_tab",
    }[where]
    asked = clinic.workload([ALL, A])
    with monkeypatch.context() as broken:
        broken.setattr(target, stopping)
        with pytest.raises(sf.Unanswered if where != "write" else BaseException):
            asked.release(epsilon=1)
    assert spent(clinic) == 1
    assert "answer" not in kinds(clinic)
    assert asked.error(epsilon=1).stored == ()
    assert not asked.release(epsilon=1)["q1"].receipt.free
    assert spent(clinic) == 2
    assert clinic.ledger.verify().holds


def test_answers_and_forecasts_read_back_what_they_write(clinic: sf.Curator) -> None:
    asked = clinic.workload({"all": ALL, "kinds": KINDS})
    forecast, found = asked.error(epsilon=1), asked.release(epsilon=1)
    assert Answers.from_json(found.to_json()) == found
    assert WorkloadForecast.from_json(forecast.to_json()) == forecast
    assert "all: n ±" in str(forecast)
    assert "kinds" in repr(found)
    assert "protects" in repr(found)
    for broken in ("null", "{}", found.to_json().replace('"all"', '"kinds"')):
        with pytest.raises(sf.SfumatoError):
            Answers.from_json(broken)


def test_explanations_are_read_back_too(clinic: sf.Curator) -> None:
    said = clinic.workload([ALL, A]).explain(rho="0.01")
    assert type(said).from_json(said.to_json()) == said
    assert "ρ = 0.01" in str(said)


def test_a_weak_price_is_said_aloud(clinic: sf.Curator) -> None:
    with pytest.warns(sf.WeakPrivacy):
        clinic.workload([ALL, A]).release(epsilon=6)


def test_the_same_workload_is_the_same(clinic: sf.Curator) -> None:
    one, two = clinic.workload([ALL, A]), clinic.workload({"x": ALL, "y": A})
    assert isinstance(one, WorkloadProposal)
    assert one.identity == two.identity != clinic.workload([ALL]).identity


def test_accounts_of_periods_are_refused_for_free(tmp_path: Path) -> None:
    """A workload and a session are charged to one account: where every month has its own, none is spent."""
    rows = pd.DataFrame({"who": [1, 2], "day": pd.to_datetime(["2024-01-05", "2024-02-06"]).date})
    columns = {"day": {"type": "date", "bounds": ["2024-01-01", "2024-02-29"]}}
    table = sf.Table("visits", rows, columns, id="who", max_rows=2, period="day")
    unit = sf.PrivacyUnit("patient", period="month")
    policy = sf.Policy(unit, sf.Budget(3), {"visits": table}, per="month")
    with sf.Curator(policy, tmp_path / "months.ledger") as made:
        with pytest.raises(sf.Unsupported, match="one account"):  # before a forecast says that it is accepted
            made.workload([ALL, f"{ALL} WHERE day > DATE '2024-01-31'"])
        with pytest.raises(sf.Unsupported, match="one account"):
            made.above(5)
        assert not {"charge", "tab-open", "step"} & set(kinds(made))


def test_medians_spread_and_modes_are_asked_together(clinic: sf.Curator) -> None:
    found = clinic.workload(
        {
            "all": ALL,
            "median": "SELECT MEDIAN(cost) AS m FROM visits",
            "spread": "SELECT kind, VARIANCE(cost) AS v, COUNT(*) AS n FROM visits GROUP BY kind",
            "mode": "SELECT MODE(kind) AS k FROM visits",
        }
    )
    for price in ({"epsilon": 2}, {"epsilon": 1, "delta": "1e-6", "mechanism": sf.Gaussian}):
        answers = found.release(**price, fresh=True)  # type: ignore[arg-type]
        assert [len(each.rows) for each in answers] == [1, 1, 3, 1]
    for line in clinic.history():
        if line.kind == "tab-open":
            assert line.cost == clinic._context.account.recomputed(line)
