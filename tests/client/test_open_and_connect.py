"""One suite for a curator in this process and for one at a server: whoever holds either writes the same lines."""

from __future__ import annotations

import datetime as dt
import inspect
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from client.curators import Curators
from sfumato import errors
from sfumato.curator import Advice, AuctionOutcome, Bounds, Explanation, Forecast, Listing, Standing, Tables
from sfumato.curator.proposals.stored_answers import Answers, SessionAnswers, WorkloadForecast
from sfumato.ledger import Line
from sfumato.ledger.entries import AccountLines
from sfumato.plots.picture import Picture
from sfumato.policy import Type

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")  # the server is in this process
COUNT = "SELECT COUNT(*) AS n FROM visits"
BY_REGION = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refusals are compared between both; what else a curator in this process does is tested in ``tests/curator``, and
    here in the long run.
    """
    if "curators" in metafunc.fixturenames:
        compared = metafunc.function is test_refusals_say_the_same
        here = pytest.param("open", marks=() if compared else pytest.mark.long)
        metafunc.parametrize("curators", [here, "connect"], indirect=True, scope="module")


def left(curator: Any) -> Fraction:
    found: Fraction = curator.standing().left["pure"]
    return found


REFUSED: dict[str, tuple[Any, type[sf.SfumatoError], str]] = {
    "no SQL": (lambda it: it.sql("SELEC COUNT(*) FROM visits"), sf.Unsupported, ""),
    "unknown column": (
        lambda it: it.sql("SELECT COUNT(*) FROM visits WHERE aeg > 3"),
        sf.Unsupported,
        "unknown-column",
    ),
    "rows": (lambda it: it.sql("SELECT * FROM visits"), sf.Unsupported, ""),
    "no price": (lambda it: it.sql(COUNT).release(), sf.InvalidParameter, "invalid-parameter"),
    "bad price": (lambda it: it.sql(COUNT).release(epsilon=-1), sf.InvalidParameter, "invalid-parameter"),
    "words": (lambda it: it.sql(COUNT).error(epsilon="half"), sf.InvalidParameter, "invalid-parameter"),
    "overspent": (lambda it: it.sql(COUNT).release(epsilon=200), sf.Overspent, "overspent"),
    "no parameter": (lambda it: it.sql("SELECT COUNT(*) FROM visits WHERE age > $1"), sf.Unsupported, "parameter"),
    "limit": (lambda it: it.sql(COUNT).limit(rows=5), sf.InvalidParameter, "invalid-parameter"),
    "wider": (lambda it: it.sql(COUNT).limit(rows=1).limit(rows=2), sf.InvalidParameter, "invalid-parameter"),
    "step": (lambda it: it.table("visits").where("aeg > 3").agg(n=sf.count()), sf.Unsupported, "unknown-column"),
    "table": (lambda it: it.table("vists").agg(n=sf.count()), sf.Unsupported, "unknown-table"),
    "workload": (lambda it: it.workload({"a": COUNT, "b": "SELECT * FROM visits"}), sf.Unsupported, ""),
    "column": (lambda it: it.bounds("visits", "aeg"), sf.SfumatoError, ""),
    "ways": (lambda it: it.marginals("visits", 9), sf.SfumatoError, ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_the_same(curators: Curators, name: str) -> None:
    """The first of all, as what is left is told, too."""
    asked, kind, code = REFUSED[name]
    before = left(curators.curator)
    with pytest.raises(kind) as refused:
        asked(curators.curator)
    assert not code or refused.value.code == code
    said = errors.to_json(refused.value)
    known = _SAID.setdefault(name, said)
    assert said == known, "the same class, code, rule, place, fix and facts, here and at a server"
    assert left(curators.curator) == before


_SAID: dict[str, str] = {}


def test_a_question_is_explained_priced_and_released(curators: Curators) -> None:
    question = curators.curator.sql(BY_REGION)
    assert question.text == BY_REGION
    assert [(each.name, each.type) for each in question.columns] == [("region", Type.TEXT), ("n", Type.INTEGER)]
    assert isinstance(question.explain(epsilon=1), Explanation)
    forecast = question.error(epsilon="0.5")
    assert isinstance(forecast, Forecast)
    assert (forecast.accepted, forecast.stored) == (True, False)
    assert question.price(within=20) == question.price(20)
    assert isinstance(question.advise(epsilon=1), Advice)
    before = left(curators.curator)
    answer = question.release(epsilon="0.5")
    assert isinstance(answer, sf.Answer)
    assert answer.column("region") == ["north", "south"]
    assert all(isinstance(each, int) for each in answer.column("n"))
    assert (answer.receipt.free, answer.receipt.share, answer.receipt.guarantee) == (False, "ana", "ε = 0.5")
    assert left(curators.curator) == before - Fraction(1, 2)
    low, high = answer.intervals["n"][0]
    assert (high - low) / 2 <= forecast.columns["n"]


def test_a_stored_answer_is_free_and_the_same(curators: Curators) -> None:
    first = curators.curator.sql(COUNT).release(epsilon="0.25")
    spent = left(curators.curator)
    again = curators.curator.sql("SELECT COUNT(*) AS n FROM visits").release(epsilon="0.2")
    assert (again.rows, again.receipt.line) == (first.rows, first.receipt.line)
    assert (first.receipt.free, again.receipt.free) == (False, True)
    assert curators.curator.sql(COUNT).error(epsilon="0.25").stored
    assert left(curators.curator) == spent
    fresh = curators.curator.sql(COUNT).release(epsilon="0.25", fresh=True)
    assert fresh.receipt.line != first.receipt.line


def test_a_sample_of_the_units_travels(curators: Curators) -> None:
    question = curators.curator.sql(COUNT)
    answer = question.release(epsilon="0.25", sample="25 %")
    assert (answer.receipt.sample, answer.receipt.free) == ("25 %", False)
    assert question.release(epsilon="0.25", sample=0.25).rows == answer.rows
    assert isinstance(question.error(epsilon="0.25", sample="25 %").columns["n"], dict)
    assert "sample" in [operator.name for operator in question.explain(epsilon=1, sample="25 %").operators]
    with pytest.raises(sf.InvalidParameter, match="sample"):
        question.release(epsilon="0.25", sample=25)


def test_what_limits_cut_is_bought_for_one_price_and_free_again(curators: Curators) -> None:
    question, before = (
        curators.curator.sql("SELECT AVG(cost) AS mean FROM visits").limit(rows=1),
        left(curators.curator),
    )
    counts = question.clipped().release(epsilon="0.125")
    assert counts.names[0] == "more than 1 row"
    assert all(answer.columns[0] == "share" for answer in counts)
    assert left(curators.curator) == before - Fraction(1, 8)
    assert question.clipped().error(epsilon="0.125").stored == counts.names
    assert [answer.rows for answer in question.clipped().release(epsilon="0.1")] == [answer.rows for answer in counts]
    assert left(curators.curator) == before - Fraction(1, 8)


def test_a_request_id_is_charged_once_and_names_one_question(curators: Curators) -> None:
    curator = curators.curator
    before = left(curator)
    asked = f"{COUNT} WHERE age < 50"
    first = curator.sql(asked).release(epsilon="0.1", request_id="study-1")
    again = curator.sql(asked).release(epsilon="0.1", request_id="study-1")
    assert (first.rows, first.receipt.hash) == (again.rows, again.receipt.hash)
    assert left(curator) == before - Fraction(1, 10)
    with pytest.raises(sf.RequestDiffers) as refused:
        curator.sql(BY_REGION).release(epsilon="0.1", request_id="study-1")
    assert refused.value.place == "request_id"
    assert [each.request_id for each in curator.history() if not each.cost.is_zero].count("study-1") == 1


def test_overspending_carries_its_numbers(curators: Curators) -> None:
    with pytest.raises(sf.Overspent) as refused:
        curators.curator.sql(COUNT).release(epsilon=200)
    assert refused.value.remaining["pure"] == left(curators.curator)
    assert curators.curator.sql(COUNT).error(epsilon=200).accepted is False


def test_parameters_keep_their_types(curators: Curators) -> None:
    curator = curators.curator
    for text, given in (
        (f"{COUNT} WHERE day = $1", [dt.date(2024, 1, 2)]),
        (f"{COUNT} WHERE cost < $limit", {"limit": Decimal("10.5")}),
        (f"{COUNT} WHERE age > ?", [np.int64(40)]),
        (f"{COUNT} WHERE region = :region", {"region": "north"}),
    ):
        assert curator.sql(text, given).error(epsilon=1).columns["n"] > 0
    written = curator.sql(f"{COUNT} WHERE day = DATE '2024-01-02'").release(epsilon="0.125")
    again = curator.sql(f"{COUNT} WHERE day = $1", [dt.date(2024, 1, 2)]).release(epsilon="0.125")
    assert again.receipt.line == written.receipt.line


def test_a_date_is_a_date(curators: Curators) -> None:
    asked = curators.curator.sql("SELECT day, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY day")
    answer = asked.release(epsilon=1)
    assert answer.column("day") == [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
    # A mean is NULL where the noisy count is not above 0: a server in another process draws noise of its own.
    assert all(each is None or isinstance(each, float) for each in answer.column("c"))
    assert [each.type for each in asked.columns] == [Type.DATE, Type.INTEGER, Type.REAL]
    assert answer.to_arrow().schema.field("day").type == "date32[day]"


@pytest.mark.parametrize("epsilon", [Fraction(1, 8), Decimal("0.125"), "1/8", "0.125", 0.125, np.float64(0.125)])
def test_prices_are_exact_however_they_are_written(curators: Curators, epsilon: Any) -> None:
    before = left(curators.curator)
    curators.curator.sql(COUNT).release(epsilon=epsilon, fresh=True)
    assert left(curators.curator) == before - Fraction(1, 8)


def test_budget_standing_and_history(curators: Curators) -> None:
    curator = curators.curator
    spent = curator.budget.spent["pure"]
    known = list(curator.history())
    curator.sql(COUNT).release(epsilon="0.5", fresh=True)
    curator.sql(BY_REGION).release(epsilon="0.25", fresh=True)
    budget, standing = curator.budget, curator.standing()
    assert isinstance(budget, sf.Budget)
    assert budget.spent["pure"] == spent + Fraction(3, 4)
    assert isinstance(standing, Standing)
    assert standing.left["pure"] == 150 - budget.spent["pure"] == budget.remaining["pure"]
    lines = list(curator.history())
    assert lines[: len(known)] == known
    assert all(isinstance(each, Line) for each in lines)
    charged = [each for each in lines if not each.cost.is_zero]
    assert [each.question for each in charged[-2:]] == [COUNT, BY_REGION]
    assert {each.analyst for each in charged} == {"ana"}
    assert isinstance(budget.plot(), Picture)
    assert f"{len(charged):,} charges" in budget.plot().svg
    assert list(curator.history(after=lines[0].number, limit=1)) == lines[1:2]
    assert type(curator.history()) is AccountLines
    assert "SELECT" in repr(curator.history())
    with pytest.raises(sf.InvalidParameter):
        curator.history(limit=0)


def test_tables_and_listings(curators: Curators) -> None:
    curator = curators.curator
    tables = curator.tables
    assert isinstance(tables, Tables)
    assert list(tables) == ["visits"]
    assert "at most 2 rows of one patient count" in str(tables)
    assert all(each.error for each in tables["visits"].questions)
    assert repr(curator).startswith("clinic protects all rows of one patient")
    listing = curator.sql("DESCRIBE visits")
    assert isinstance(listing, Listing)
    assert "region" in listing.column("column")
    assert curator.sql("SHOW TABLES").release() == curator.sql("SHOW TABLES")


def test_a_question_is_put_together_step_by_step(curators: Curators) -> None:
    visits = curators.curator.table("visits")
    asked = (
        visits.where("age >= 18")
        .derive(band="age // 50")
        .group_by("region", band="band")
        .agg(n=sf.count(), cost=sf.mean("cost"), young=sf.count(where="age < 40"), share="100.0 * COUNT(*) / 3")
        .having("n > -10000")
        .order_by("n DESC")
        .head(3, skip=0)
        .select("region", "band", "n", double="2 * n")
    )
    assert [each.name for each in asked.columns] == ["region", "band", "n", "double"]
    answer = asked.limit(rows=1).release(epsilon=1)
    assert len(answer.rows) == 3
    assert [2 * each for each in answer.column("n")] == answer.column("double")
    assert "1 row of one unit" in answer.receipt.limits


def test_histograms_unions_and_joins_travel(curators: Curators) -> None:
    visits = curators.curator.table("visits")
    binned = visits.group_by(sf.histogram("cost", bins=4)).agg(n=sf.count())
    assert len(binned.preview(epsilon=1).rows) >= 4
    twice = visits.union_all(curators.curator.table("visits", "again")).agg(n=sf.count())
    assert twice.error(epsilon=1).columns["n"] > visits.agg(n=sf.count()).error(epsilon=1).columns["n"]
    joined = visits.per_unit(k=sf.count()).agg(most=sf.sum("k"))
    assert joined.error(epsilon=1).columns["most"] > 0


def test_a_builder_question_and_sql_are_the_same_purchase(curators: Curators) -> None:
    curator = curators.curator
    first = curator.table("visits").group_by("region").agg(n=sf.count()).release(epsilon="0.25")
    assert curator.sql(BY_REGION).release(epsilon="0.25").receipt.line == first.receipt.line


def test_a_workload_is_one_purchase(curators: Curators) -> None:
    curator = curators.curator
    proposal = curator.workload({"all": COUNT, "regions": curator.sql(BY_REGION)})
    assert set(proposal.columns) == {"all", "regions"}
    assert isinstance(proposal.error(epsilon="0.5"), WorkloadForecast)
    before = left(curator)
    answers = proposal.release(epsilon="0.5", fresh=True)
    assert isinstance(answers, Answers)
    assert answers["regions"].column("region") == ["north", "south"]
    assert left(curator) == before - Fraction(1, 2)


def test_marginals_models_and_synthetic_rows(curators: Curators) -> None:
    curator = curators.curator
    before = left(curator)
    proposal = curator.marginals("visits", [["region"], ["region", "day"]])
    assert proposal.error(epsilon=1).worst > 0
    synopsis = proposal.release(epsilon="0.25")
    assert isinstance(synopsis, sf.Synopsis)
    assert synopsis.sql("SELECT region, COUNT(*) AS n FROM visits GROUP BY region").column("region")
    assert curator.histogram("visits", ["region"]).price(10) > 0
    synthetic = curator.synthesize("visits", "independent", 1, columns=["region", "day"]).release(epsilon="0.25")
    assert isinstance(synthetic, sf.Synthetic)
    assert len(synthetic.sample(5).to_pandas()) == 5
    assert curator.mwem("visits", ["region"], 1, rounds=1).preview(epsilon=1).receipt.is_preview
    assert before - Fraction(1, 2) <= left(curator) < before - Fraction(2, 5)


def test_bounds_auctions_and_sessions(curators: Curators) -> None:
    curator = curators.curator
    before = left(curator)
    bounds = curator.bounds("visits", "cost")
    assert bounds.error(1) == bounds.error(epsilon=1)
    assert isinstance(bounds.explain(1), Explanation)
    assert isinstance(bounds.release("0.25"), Bounds)
    auction = curator.auction("visits", "cost", prices=[10, "20.5"])
    assert auction.error(1, 0, "0.9") == auction.error(epsilon=1, confidence="0.9")
    assert isinstance(auction.release("0.25", "0.5"), AuctionOutcome)
    session = curator.above(5, questions=[COUNT, f"{COUNT} WHERE age > 1000"])
    assert session.error(1) > 0
    answers = session.release("0.25")
    assert isinstance(answers, SessionAnswers)
    assert 1 <= len(answers) <= 2
    assert left(curator) == before - Fraction(3, 4)


def test_a_rehearsal_spends_nothing_and_is_marked(curators: Curators) -> None:
    before = list(curators.curator.history())
    rehearsed = curators.curator.sql(BY_REGION).preview(epsilon=1)
    assert rehearsed.is_preview
    assert "preview" in repr(rehearsed)
    assert list(curators.curator.history()) == before


def test_plots_are_drawn(curators: Curators, tmp_path: Any) -> None:
    question = curators.curator.sql(BY_REGION)
    curve = question.plot(least="0.1", most=1)
    assert isinstance(curve, Picture)
    assert curve.svg.startswith("<svg")
    answer = question.release(epsilon=1)
    answer.plot(str(tmp_path / "answer.svg"))
    assert "north" in (tmp_path / "answer.svg").read_text()


def test_a_weak_promise_is_said_aloud(curators: Curators) -> None:
    asked = curators.curator.sql(COUNT)
    with pytest.warns(sf.WeakPrivacy, match="weak privacy") as said:
        answer = asked.release(epsilon=12, fresh=True)
    assert [each.filename for each in said].count(__file__) == 1
    assert any("weak privacy" in each for each in answer.warnings)


def test_phases_are_told(curators: Curators) -> None:
    told: list[str] = []
    curators.curator.sql(COUNT).release(epsilon="0.1", fresh=True, progress=told.append)
    assert told
    assert told[0] == ("queued" if curators.remote else told[0])


def test_every_method_takes_what_the_curator_in_this_process_takes(curators: Curators) -> None:
    """Names and defaults are compared, so that one that is added here is missed there."""
    ours = type(curators.curator)
    for name in ("sql", "table", "workload", "marginals", "histogram", "mwem", "above", "bounds", "auction"):
        here = inspect.signature(getattr(sf.Curator, name)).parameters
        there = inspect.signature(getattr(ours, name)).parameters
        assert list(here) == list(there), name
        assert [each.default for each in here.values()] == [each.default for each in there.values()], name
        assert [each.kind for each in here.values()] == [each.kind for each in there.values()], name


def test_habits_of_data_frames_are_the_same_here_and_there(curators: Curators) -> None:
    visits = curators.curator.table("visits")
    built = visits.filter("age > 10").groupby("region").mean("cost")
    assert built.text == "SELECT region, AVG(cost) AS cost FROM visits WHERE age > 10 GROUP BY region"
    assert visits.groupby("region")["cost"].mean().text == visits.group_by("region").agg(cost=sf.avg("cost")).text
    assert visits.value_counts("region").head().text == (
        "SELECT region, COUNT(*) AS count FROM visits GROUP BY region ORDER BY COUNT(*) DESC LIMIT 5"
    )
    assert visits.describe().columns[:3] == ("column", "type", "declared")
    assert "QUANTILE_CONT(age" in str(visits.describe())
    before = left(curators.curator)
    assert visits.filter("age > 77").size().release(0.25).receipt.guarantee == "ε = 0.25"
    assert left(curators.curator) == before - Fraction(1, 4)
    for act in (built.explain, built.error, built.advise, built.preview):
        assert act(0.5) is not None
    with pytest.raises(errors.Unsupported, match="never shown"):
        visits.head()
    with pytest.raises(AttributeError, match=r"did you mean order_by\("):
        built.sort_values("cost")


def test_a_delta_that_is_offered_can_be_passed_on(curators: Curators) -> None:
    """Of both curators, a forecast states the δ it assumed, as a number that a release takes."""
    question = curators.curator.sql("SELECT note, COUNT(*) AS n FROM visits GROUP BY note")
    forecast = question.error(epsilon=1)
    assert forecast.assumed_delta == question.default_delta == Fraction(1, 10**9)
    with pytest.raises(errors.Unsupported, match='accept δ = 1e-9 with delta="default"'):
        question.release(epsilon=1)
    assert question.release(epsilon=1, delta=forecast.assumed_delta).receipt.guarantee == "ε = 1, δ = 1e-09"
    assert question.release(epsilon="0.5", delta="default", fresh=True).receipt.guarantee == "ε = 0.5, δ = 1e-09"
