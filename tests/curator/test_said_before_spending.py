"""What is told before anything is spent: what nobody declared, how long it may take, and one story in every place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest

import sfumato as sf
from sfumato.engine.duckdb.driver import DuckDB

STATES = sf.Domain("text", values=("CA", "NY", "TX"))
AGES = sf.Domain("integer", bounds=(0, 100))


@pytest.fixture
def people(tmp_path: Path) -> Iterator[sf.Curator]:
    rows = pyarrow.table({"state": ["CA", "WA", "NY"] * 5, "age": [30] * 15, "who": list(range(15))})
    table = sf.Table(
        "people", rows, {"state": STATES, "age": AGES}, id="who", max_rows=20, max_groups=20, max_rows_per_group=1
    )
    policy = sf.Policy(sf.PrivacyUnit("person"), sf.Budget(100, "1e-6"), {"people": table})
    with sf.Curator(policy, tmp_path / "a.ledger") as made:
        yield made


LOST = "SELECT COUNT(*) AS n FROM people WHERE state NOT IN ('CA', 'NY')"
NEVER = "SELECT COUNT(*) AS n FROM people WHERE state = 'Italy'"


@pytest.mark.parametrize(("question", "word"), [(LOST, "left out"), (NEVER, "'Italy' is not a declared value")])
def test_what_nobody_declared_is_said_in_error_explain_and_the_answer(
    people: sf.Curator, question: str, word: str
) -> None:
    ask = people.sql(question)
    forecast, explained = ask.error(epsilon=1), ask.explain(epsilon=1)
    assert any(word in each for each in ask.warnings)
    answer = ask.release(epsilon=1)
    for shown in (forecast, explained):
        assert shown.warnings == ask.warnings
        assert word in repr(shown)
        assert any(word in each for each in json.loads(shown.to_json())["warnings"])
    assert "declared" in repr(answer)
    written = json.loads(answer.to_json())
    assert any("declared" in each for each in (*written["warnings"], *(written.get("caveats") or {}).values()))
    for page in (explained._repr_html_(), answer._repr_html_()):
        assert "declared" in page


def test_nothing_is_said_where_nothing_is_lost(people: sf.Curator) -> None:
    ask = people.sql("SELECT COUNT(*) AS n FROM people WHERE state = 'CA'")
    assert ask.warnings == ()
    assert "warning" not in repr(ask.error(epsilon=1)) + repr(ask.explain()) + repr(ask.release(epsilon=1))


def test_an_explanation_names_only_the_limits_that_are_kept(people: sf.Curator) -> None:
    """It said at most one row in a group, then that a unit moves a group by twenty."""
    ask = people.sql("SELECT state, COUNT(*) AS n FROM people GROUP BY state")
    weighted = str(ask.limit(strategy="reweight").explain())
    assert "≤ 20 rows of one unit, in all groups together" in weighted
    assert "in a group, of one unit" not in weighted
    assert "≤ 1 row in a group, of one unit" in str(ask.limit(strategy="sample").explain())
    assert "in all groups together" in ask.limit(strategy="reweight").release(epsilon=1).receipt.limits


@pytest.mark.parametrize("clause", ["", " ORDER BY n DESC LIMIT 2", " HAVING COUNT(*) > 3"])
def test_an_explanation_and_the_answer_tell_the_same_error(people: sf.Curator, clause: str) -> None:
    """It said ±2.996 where the answer, of rows that were picked, had ±6.4."""
    ask = people.sql(f"SELECT state, COUNT(*) AS n FROM people GROUP BY state{clause}")
    answer = ask.release(epsilon=1)
    (low, high), *_ = answer.intervals["n"] or [(0.0, 0.0)]  # type: ignore[misc]
    said = f"±{sf.privacy.numbers.format_number((high - low) / 2)} with 95 % confidence"
    if answer.rows:
        assert said in str(ask.explain(epsilon=1))


def test_a_group_too_small_to_tell_says_so(people: sf.Curator) -> None:
    ask = people.sql("SELECT state, AVG(age) AS age, AVG(age) * 2 AS twice FROM people GROUP BY state")
    answer = ask.release(epsilon="0.01")
    for index, row in enumerate(answer.cells()):
        interval = answer.intervals["age"][index]
        assert (row[1] == "too small to tell") == (interval is None or interval == (0.0, 100.0))
    assert any(row[1] == "too small to tell" for row in answer.cells())
    assert not any("± 0.0" in cell for row in answer.cells() for cell in row)


def test_every_question_has_a_time_limit_unless_its_owner_says_otherwise(
    people: sf.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert people._context.seconds == 600
    values = DuckDB.values

    def slow(engine: DuckDB, world: object) -> object:
        engine.sources.run("SELECT SUM(a.range * b.range) FROM range(1000000) a, range(1000000) b")
        return values(engine, world)  # type: ignore[arg-type]

    monkeypatch.setattr(DuckDB, "values", slow)
    before = list(people.ledger.lines())
    with sf.Curator(people.policy, people.ledger, seconds="0.2") as hurried:
        with pytest.raises(sf.Unsupported) as refusal:
            hurried.sql("SELECT age - age % 10 AS decade, COUNT(*) AS n FROM people GROUP BY 1").error(epsilon=1)
        assert refusal.value.code == "slow-groups"
    assert list(people.ledger.lines()) == before


def test_a_weak_auction_is_said_to_be_one(tmp_path: Path) -> None:
    table = sf.Table("bids", pyarrow.table({"bid": [1, 2, 3]}), {"bid": sf.Domain("integer", bounds=(0, 9))}, id="row")
    policy = sf.Policy(sf.PrivacyUnit("bidder", every_row=True), sf.Budget(100), {"bids": table})
    with sf.Curator(policy, tmp_path / "a.ledger") as market:
        proposal = market.auction("bids", "bid", prices=[1, 2, 3])
        with pytest.warns(sf.WeakPrivacy, match="weak privacy"):
            proposal.release(8)
        proposal.release(1, fresh=True)
    with pytest.warns(sf.WeakPrivacy, match="weak privacy"):
        sf.games.digital_goods([1, 2, 3], epsilon=8, prices=[1, 2])


@pytest.mark.parametrize(
    ("question", "how", "why"),
    [
        ("SELECT COUNT(*) AS n FROM people", {}, "which needs no δ; the error of Gaussian noise would be"),
        (
            "SELECT COUNT(*) AS n FROM people",
            {"mechanism": "laplace"},
            "you asked for Laplace noise, which is paid for with ε alone",
        ),
        ("SELECT MEDIAN(age) AS n FROM people", {}, "a selection is paid for with ε alone"),
        (
            "SELECT age, COUNT(*) AS n FROM people GROUP BY age",
            {"strategy": "sample"},
            "times the error, but later answers of this account could no longer be charged in ε alone, so it is the "
            "default only if it halves the error",
        ),
    ],
)
def test_a_delta_that_changes_nothing_says_why(
    people: sf.Curator, question: str, how: dict[str, str], why: str
) -> None:
    ask = people.sql(question)
    if "strategy" in how:
        ask = ask.limit(strategy=how["strategy"])  # type: ignore[union-attr]
    price = {"epsilon": 1, "delta": "1e-7", **{name: each for name, each in how.items() if name == "mechanism"}}
    for shown in (ask.error(**price), ask.explain(**price), ask.release(**price)):
        assert [each for each in shown.warnings if each.startswith("δ = 1e-07 has no effect here: ") and why in each]
    assert ask.error(**price).price == "ε = 1"
    assert not any("has no effect" in each for each in ask.error(epsilon=1).warnings)


def test_a_delta_that_buys_something_is_not_spoken_of(people: sf.Curator) -> None:
    ask = people.sql("SELECT COUNT(*) AS n FROM people")
    assert not any(
        "has no effect" in each for each in ask.error(epsilon=1, delta="1e-7", mechanism="gaussian").warnings
    )


@pytest.mark.parametrize("named", ["gaussian", "Gaussian", sf.Gaussian])
def test_noise_is_named_in_words_or_by_its_class(people: sf.Curator, named: str) -> None:
    question = "SELECT state, COUNT(*) AS n FROM people GROUP BY state"
    for proposal in (people.sql(question), people.workload([question]), people.histogram("people", ["state"])):
        said = proposal.explain(epsilon=1, delta="1e-7", mechanism=named)  # type: ignore[arg-type, union-attr]
        assert "Gaussian" in str(said)
    with pytest.raises(sf.InvalidParameter, match='mechanism must be "laplace", "gaussian"'):
        people.sql(question).error(epsilon=1, delta="1e-7", mechanism="gauss")


def test_what_would_be_left_is_what_is_left_after(people: sf.Curator) -> None:
    ask = people.sql("SELECT COUNT(*) AS n FROM people")
    for price in ({"epsilon": 1}, {"epsilon": "0.5", "delta": "1e-7", "mechanism": "gaussian"}, {"epsilon": 2}):
        said = ask.error(**price, fresh=True).left
        ask.release(**price, fresh=True)
        assert said == people.budget.remaining_words
    assert ask.error(epsilon=1000).left == ""


GAUSSIAN = {"epsilon": 1, "delta": "1e-7", "mechanism": "gaussian"}


def test_every_forecast_says_what_gaussian_noise_would_end(people: sf.Curator) -> None:
    """A question's forecast did; those of workloads, marginals and running totals left it to explain."""
    count = "SELECT COUNT(*) AS n FROM people"
    proposals = (
        people.sql(count),
        people.workload([count]),
        people.marginals("people", 1, columns=["state"]),
        people.running("SELECT age, COUNT(*) AS n FROM people GROUP BY age"),
    )
    for ask in proposals:
        (said,) = (each for each in ask.error(**GAUSSIAN).warnings if each.startswith("After a Gaussian answer"))
        assert f"warning: {said}" in str(ask.error(**GAUSSIAN))
        assert "After a Gaussian answer" not in str(ask.error(epsilon=1))
        assert said in type(ask.error(**GAUSSIAN)).from_json(ask.error(**GAUSSIAN).to_json()).warnings
    for ask in proposals[1:]:
        ask.release(**GAUSSIAN)
        assert "After a Gaussian answer" not in str(ask.error(**GAUSSIAN))


def test_a_notebook_shows_a_curator_and_a_question_that_were_closed(people: sf.Curator) -> None:
    ask = people.sql("SELECT COUNT(*) AS n FROM people")
    assert "The remaining budget is not available" not in people._repr_html_()
    people.close()
    assert "people: private" in people._repr_html_()
    assert "The remaining budget is not available: this ledger is closed." in people._repr_html_()
    assert "this ledger is closed" in ask._repr_html_()


def test_an_explanation_has_no_more_digits_than_its_errors(people: sf.Curator) -> None:
    ask = people.sql("SELECT AVG(age) AS age FROM people")
    told = str(ask.explain(epsilon="0.7", delta="1e-7", mechanism="gaussian"))
    sizes = [each.what for each in ask.explain(epsilon="0.7", delta="1e-7", mechanism="gaussian").operators]
    assert any(each.startswith("Gaussian, σ ") for each in sizes)
    for number in re.findall(r"(?:σ|scale|at most|±)\s?([\d,.]*\d)", told):
        assert len(number.replace(",", "").replace(".", "").strip("0")) <= 4, told
