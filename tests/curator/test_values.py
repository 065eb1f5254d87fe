"""Questions about values, as people ask them: texts, days, numbers and truths that were chosen, and counts of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.engine.duckdb.driver import DuckDB

POLICY = """
[unit]
name = "patient"
budget = {{ epsilon = 1000, delta = 1e-3, allow_large_delta = true }}
neighbours = "{relation}"
{size}

[tables.visits]
source = "visits.csv"
id = "patient"
max_rows = 6
max_groups = 3

[tables.visits.columns]
town = {{ type = "text", values = ["Bath", "York"] }}
drug = {{ type = "text", values = ["aspirin", "codeine", "ibuprofen"] }}
day = {{ type = "date", bounds = [2024-01-01, 2024-01-03] }}
late = {{ type = "boolean" }}
dose = {{ type = "real", values = [0.5, 1.0] }}
cost = {{ type = "integer", bounds = [0, 20] }}
ward = {{ type = "text" }}
"""
TOWNS = ("Bath", "York")
DRUGS = ("aspirin", "aspirin", "aspirin", "codeine", "codeine", "ibuprofen")


@pytest.fixture(params=["add-remove", pytest.param("replace", marks=pytest.mark.long)])
def clinic(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sf.Curator]:
    rows = [
        f"{patient},{TOWNS[patient % 2]},{DRUGS[k]},2024-01-0{1 + (k > 4)},{k < 2},{0.5 if k else 1.0},7,w{k % 2}"
        for patient in range(300)
        for k in range(6)
    ]
    (tmp_path / "visits.csv").write_text("\n".join(["patient,town,drug,day,late,dose,cost,ward", *rows]) + "\n")
    size = "size = 300" if request.param == "replace" else ""
    (tmp_path / "clinic.toml").write_text(POLICY.format(relation=request.param, size=size))
    with sf.open(tmp_path / "clinic.toml") as curator:
        yield curator


PRICE = {"epsilon": 100, "delta": "1e-6"}
pytestmark = pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")


def test_the_most_frequent_values_of_every_group(clinic: sf.Curator) -> None:
    ask = clinic.sql("SELECT town, APPROX_TOP_K(drug, 2) AS top FROM visits GROUP BY town ORDER BY top_1, town DESC")
    answer = ask.release(**PRICE)
    assert answer.columns == ("town", "top_1", "top_2")
    assert answer.rows == (("York", "aspirin", "codeine"), ("Bath", "aspirin", "codeine"))
    assert answer.keys == ("town",)
    assert answer.intervals == {}


def test_values_of_every_type_are_chosen_and_kept(clinic: sf.Curator) -> None:
    answer = clinic.sql(
        "SELECT MODE(day) AS day, MODE(late) AS late, MODE() WITHIN GROUP (ORDER BY dose) AS dose, MODE(cost) AS cost, "
        "MODE(drug) FILTER (WHERE drug <> 'aspirin') AS other FROM visits"
    ).release(**PRICE)
    assert answer.rows == ((dt.date(2024, 1, 1), False, 0.5, 7, "codeine"),)
    assert sf.Answer.from_json(answer.to_json()) == answer
    assert answer.to_csv() == "day,late,dose,cost,other\n2024-01-01,False,0.5,7,codeine\n"
    assert answer.to_pandas()["day"].tolist() == [dt.date(2024, 1, 1)]
    assert answer.to_arrow().to_pylist()[0]["other"] == "codeine"
    assert "codeine" in answer._repr_html_()
    assert "codeine" in repr(answer)
    with pytest.raises(sf.InvalidParameter, match="at least one column of numbers"):
        answer.plot()


def test_different_values_are_counted(clinic: sf.Curator) -> None:
    text = (
        "SELECT COUNT(DISTINCT drug) AS d, APPROX_COUNT_DISTINCT(ward) AS w, COUNT(DISTINCT patient) AS p FROM visits"
    )
    answer = clinic.sql(text).release(**PRICE, confidence="0.9999999")
    for name, exact in {"d": 3, "w": 2, "p": 300}.items():
        ((low, high),) = answer.intervals[name]
        assert low <= exact <= high


def test_a_unit_has_no_more_pairs_in_a_group_than_there_are_values(clinic: sf.Curator) -> None:
    listed = clinic.sql("SELECT COUNT(DISTINCT dose) AS n FROM visits").error(epsilon=1)["n"]
    unlisted = clinic.sql("SELECT COUNT(DISTINCT ward) AS n FROM visits").error(epsilon=1)["n"]
    assert isinstance(listed, float)
    assert isinstance(unlisted, float)
    assert listed < unlisted / 2


DRUGS_BY_TOWN = "SELECT town, COUNT(DISTINCT (drug, day)) AS d FROM visits GROUP BY town"


@pytest.fixture
def ample(clinic: sf.Curator, tmp_path: Path) -> Iterator[sf.Curator]:
    """The same rows under a policy that allows ten times as many of them."""
    clinic.close()
    policy = (tmp_path / "clinic.toml").read_text()
    (tmp_path / "clinic.toml").write_text(policy.replace("rows = 6", "rows = 60").replace("groups = 3", "groups = 30"))
    with sf.open(tmp_path / "clinic.toml", tmp_path / "ample.ledger") as curator:
        yield curator


def test_declared_values_are_matched_to_units(ample: sf.Curator) -> None:
    """One value per patient, said before the charge and with the answer; all of 300 patients' drugs are found."""
    ask = ample.sql(DRUGS_BY_TOWN)
    assert ask.error(epsilon=1)["d"] == sf.Laplace(1 if "add-remove" in str(ask.explain()) else 2).error()
    explanation = str(ask.explain(epsilon=1))
    assert "≤ 1 value of one unit, in all groups together" in explanation
    assert "match, the only strategy that applies" in explanation
    assert "counts for a limited number of values" in str(ask.error(epsilon=1).caveats["d"])
    answer = ask.release(epsilon=10, confidence="0.9999999")
    assert all(low <= 3 <= high for low, high in answer.intervals["d"])
    assert "(match)" in str(answer.receipt)
    assert "values that few units have may be missed" in answer.caveats["d"]


@pytest.mark.parametrize("text", [DRUGS_BY_TOWN.replace("drug", "ward"), DRUGS_BY_TOWN.replace("town", "ward")])
def test_undeclared_values_and_those_of_found_groups_are_sampled(ample: sf.Curator, text: str) -> None:
    explanation = str(ample.sql(text).explain(epsilon=1, delta="1e-6"))
    assert "a secret hash selects the rows that count" in explanation
    assert "match" not in explanation


def test_a_higher_price_counts_more_values_of_a_unit(ample: sf.Curator) -> None:
    """Where matching would have more than an eighth of the noise, nothing is matched."""
    ask = ample.sql("SELECT COUNT(DISTINCT (cost, day)) AS n FROM visits")  # 63 values, so ℓ = √(63ε/256)
    words = [str(ask.explain(epsilon=price)) for price in (1, 40, 900)]
    assert [text.partition("≤ ")[2].partition(",")[0] for text in words] == [
        "1 value of one unit",
        "3 values of one unit",
        "60 rows",
    ]


def test_values_are_sampled_if_the_question_says_so(ample: sf.Curator) -> None:
    ask = ample.sql(DRUGS_BY_TOWN)
    sampled = ask.limit(strategy="sample")
    assert sampled.plan_key != ask.plan_key
    assert sampled.error(epsilon=1)["d"] > 5 * ask.error(epsilon=1)["d"]
    assert "(sample)" in str(sampled.release(epsilon=5).receipt)


def test_an_engine_that_sends_totals_alone_samples_values(ample: sf.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DuckDB, "matches_values", False)
    assert "a secret hash selects the rows that count" in str(ample.sql(DRUGS_BY_TOWN).explain(epsilon=1))


@pytest.mark.parametrize("price", [{"epsilon": 5}, {"rho": "0.5"}], ids=str)
def test_an_answer_that_was_bought_when_values_were_sampled_stays_free(
    ample: sf.Curator, monkeypatch: pytest.MonkeyPatch, price: dict[str, Any]
) -> None:
    """It is as good as its price: neither its identity nor what stored answers are compared by has changed."""
    with monkeypatch.context() as earlier:
        earlier.setattr(DuckDB, "matches_values", False)
        before = ample.sql(f"{DRUGS_BY_TOWN} LIMIT 9").release(**price)
    ask = ample.sql(DRUGS_BY_TOWN)  # the same plan
    assert "match" in str(ask.explain(**price))
    assert ask.error(**price).stored
    again = ask.release(**price)
    assert again.receipt.free
    assert again.rows == before.rows
    assert again.intervals == before.intervals
    assert "(sample)" in str(again.receipt)
    fresh = ask.release(**price, fresh=True)
    assert "(match)" in str(fresh.receipt)
    assert ask.release(**price).receipt.free


def test_values_are_sampled_where_matching_would_gain_little(clinic: sf.Curator) -> None:
    """Six values of each patient count, with six times the noise of one."""
    assert "a secret hash selects the rows that count" in str(clinic.sql(DRUGS_BY_TOWN).explain(epsilon=1))


def test_what_is_done_with_chosen_values_is_not_sure(clinic: sf.Curator) -> None:
    """The exact most frequent value may be another: arithmetic and tests with it have ranges that say so."""
    answer = clinic.sql(
        "SELECT MODE(cost) + 1 AS x, CASE WHEN MODE(drug) = 'aspirin' THEN 1 ELSE 0 END AS y FROM visits"
    )
    ((x, y),) = (released := answer.release(**PRICE)).rows
    assert (x, y) == (8, 1)
    assert released.intervals["x"] == ((float("-inf"), float("inf")),)
    assert released.intervals["y"] == ((0.0, 1.0),)
    picked = clinic.sql("SELECT town, COUNT(*) AS n FROM visits GROUP BY town HAVING MODE(cost) > 3").release(**PRICE)
    assert len(picked.rows) == 2


def test_outer_questions_read_chosen_values(clinic: sf.Curator) -> None:
    inner = "SELECT town, MODE(drug) AS m, COUNT(*) AS n FROM visits GROUP BY town"
    answer = clinic.sql(f"SELECT m, n FROM ({inner}) WHERE m <> 'ibuprofen' ORDER BY m, n LIMIT 1").release(**PRICE)
    assert answer.column("m") == ["aspirin"]
    with pytest.raises(sf.Unsupported, match="computed from noisy numbers"):
        clinic.sql(f"SELECT m, SUM(n) FROM ({inner}) GROUP BY m")


def test_an_answer_says_in_words_how_good_a_choice_was(clinic: sf.Curator) -> None:
    """What was promised before is said after, of stored answers too, where it is printed and where programs read it."""
    ask = clinic.sql("SELECT APPROX_TOP_K(drug, 2) AS top, COUNT(*) AS n FROM visits")
    forecast, answer = ask.error(epsilon=1), ask.release(epsilon=1)
    assert answer.chosen == forecast.chosen
    assert set(answer.chosen) == {"top_1", "top_2"}
    assert f"top_2: {answer.chosen['top_2']}" in answer.ranked()
    again = ask.release(epsilon=1)
    assert again.receipt.free
    assert sf.Answer.from_json(again.to_json()).chosen == forecast.chosen


def test_a_forecast_says_in_words_how_good_a_choice_is(clinic: sf.Curator) -> None:
    ask = clinic.sql("SELECT MODE(drug) AS m, COUNT(*) AS n FROM visits")
    forecast = ask.error(epsilon=1)
    assert set(forecast.columns) == {"n"}
    assert "fewer rows than the most frequent value" in forecast.chosen["m"]
    assert forecast.chosen["m"] in str(forecast)
    assert sf.Forecast.from_json(forecast.to_json()) == forecast
    top = clinic.sql("SELECT APPROX_TOP_K(drug, 2) AS top FROM visits").error(epsilon=1)
    assert "the best remaining value" in top.chosen["top_2"]
    assert "choice" in str(ask.explain())
    assert "most frequent value number 2 of drug" in str(
        clinic.sql("SELECT APPROX_TOP_K(drug, 2) FROM visits").explain()
    )


def test_what_has_no_half_width_cannot_be_asked_within_one(clinic: sf.Curator) -> None:
    ask = clinic.sql("SELECT MODE(drug) AS m, COUNT(*) AS n FROM visits")
    assert ask.price({"n": 50}) > 0
    assert ask.price(50) > 0
    for within in ({"m": 5}, {"m": 5, "n": 5}):
        with pytest.raises(sf.InvalidParameter, match="keys and selected values have no half-width"):
            ask.price(within)
    with pytest.raises(sf.InvalidParameter, match="keys and selected values have no half-width"):
        clinic.sql("SELECT MODE(drug) AS m FROM visits").release(within=5)


REFUSED = {
    "SELECT APPROX_TOP_K(drug, 4) FROM visits": "3 values",
    "SELECT APPROX_TOP_K(drug, 0) FROM visits": "1 to 100",
    "SELECT APPROX_TOP_K(drug, 101) FROM visits": "1 to 100",
    "SELECT APPROX_TOP_K(drug, cost) FROM visits": "1 to 100",
    "SELECT APPROX_TOP_K(drug) FROM visits": "1 to 100",
    "SELECT APPROX_TOP_K(drug, 2) = 'x' FROM visits": "cannot be part of an expression",
    "SELECT COUNT(*) FROM visits HAVING APPROX_TOP_K(drug, 2) = 'x'": "cannot be part of an expression",
    "SELECT MODE(ward) FROM visits": "among declared values, and ward has none",
    "SELECT MODE() FROM visits": "write MODE(<column>",
    "SELECT MODE() WITHIN GROUP (ORDER BY drug, town) FROM visits": "WITHIN GROUP",
    "SELECT MODE(DISTINCT drug) FROM visits": "DISTINCT can only be used in COUNT",
    "SELECT town, MODE(drug) FROM visits GROUP BY ROLLUP (town)": "subtotal",
    "SELECT town, COUNT(DISTINCT drug) FROM visits GROUP BY ROLLUP (town)": "subtotal",
    "SELECT MODE(drug) || 'x' FROM visits": "cannot be applied to noisy numbers",
    "SELECT APPROX_TOP_K(drug, 2) AS a, COUNT(*) AS a_2 FROM visits": "two columns are named a_2",
}


def test_refusals_say_why_and_cost_nothing(clinic: sf.Curator) -> None:
    before = len(list(clinic.ledger.lines()))
    for text, said in REFUSED.items():
        with pytest.raises((sf.Unsupported, sf.InvalidParameter), match=r"(?s)" + said.replace("(", r"\(")) as refusal:
            clinic.sql(text).release(**PRICE)
        assert "fix:" in str(refusal.value)
        assert len(list(clinic.ledger.lines())) == before


def test_large_tables_of_groups_and_values_are_refused_before_the_charge(clinic: sf.Curator) -> None:
    before = len(list(clinic.ledger.lines()))
    keys = "cost, day, drug, late, dose, town"
    drug = "CASE drug WHEN 'aspirin' THEN 1 WHEN 'codeine' THEN 2 ELSE 0 END"
    flags = "CASE WHEN late THEN 100 ELSE 200 END + CASE WHEN town = 'Bath' THEN 300 ELSE 600 END"
    value = f"cost * 1000 + EXTRACT(day FROM day) * 10 + {drug} + {flags}"
    with pytest.raises(sf.Unsupported, match="pairs of a group and a value"):
        clinic.sql(f"SELECT {keys}, MODE({value}) FROM visits GROUP BY {keys}").release(**PRICE)
    assert len(list(clinic.ledger.lines())) == before


def test_in_groups_that_are_found(clinic: sf.Curator) -> None:
    """Which groups are shown is drawn first; then values are counted and chosen in those."""
    text = "SELECT ward, MODE(drug) AS m, COUNT(DISTINCT drug) AS d, COUNT(*) AS n FROM visits GROUP BY ward"
    answer = clinic.sql(text).release(**PRICE, confidence="0.9999999")
    assert answer.column("ward") == ["w0", "w1"]
    assert answer.column("m")[0] == "aspirin"
    for (low, high), exact in zip(answer.intervals["d"], (2, 3), strict=True):
        assert low <= exact <= high
    crossed = clinic.sql(text.replace("ward,", "ward, town,").replace("BY ward", "BY ward, town")).release(**PRICE)
    assert [row[:2] for row in crossed.rows] == [("w0", "Bath"), ("w0", "York"), ("w1", "Bath"), ("w1", "York")]
    assert crossed.column("m")[0] == "aspirin"
    only = clinic.sql("SELECT ward, MODE(drug) AS m FROM visits GROUP BY ward").release(**PRICE)
    assert only.column("ward") == ["w0", "w1"]


def test_gaussian_noise_on_different_values_is_charged_with_its_delta(clinic: sf.Curator) -> None:
    ask = clinic.sql("SELECT COUNT(DISTINCT ward) AS w FROM visits")
    answer = ask.release(epsilon=1, delta="1e-6", mechanism=sf.Gaussian)
    assert "Gaussian" in str(answer.receipt)
    assert "δ = 1e-06" in str(answer.receipt)
    assert "Laplace" in str(ask.release(epsilon=1).receipt)


def test_questions_in_python(clinic: sf.Curator) -> None:
    visits = clinic.table("visits")
    ask = visits.group_by("town").agg(top=sf.top_k("drug", k=2), m=sf.mode("drug"), d=sf.count_distinct("drug"))
    answer = ask.release(**PRICE)
    assert answer.columns == ("town", "top_1", "top_2", "m", "d")
    assert answer.column("top_2") == ["codeine", "codeine"]
    late = visits.agg(m=sf.mode("drug", where="drug <> 'aspirin'")).release(**PRICE)
    assert late.column("m") == ["codeine"]
    for k in (0, 101, None):
        with pytest.raises(sf.InvalidParameter, match='"k" must be'):
            sf.top_k("drug", k)  # type: ignore[arg-type]
