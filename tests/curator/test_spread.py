"""Variances, correlations and lines are answered near what plain DuckDB finds; a price is split by weight."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf

POLICY = """
[unit]
name = "patient"
neighbours = "{neighbours}"
budget = {{ epsilon = 10000000, delta = 1e-6 }}
{size}

[tables.visits]
source = "visits.parquet"
id = "patient_id"
max_rows = 3

[tables.visits.columns]
region = {{ values = ["north", "south", "east", "nowhere"] }}
age = {{ type = "integer", bounds = [0, 110] }}
cost = {{ type = "real", bounds = [0, 5000], nullable = true }}
change = {{ type = "real", bounds = [-3.5, 1.25], nullable = true }}
one = {{ type = "integer", bounds = [7, 7] }}
wide = {{ type = "real", bounds = [-1e149, 1e149] }}
"""
EVERY = (
    "VARIANCE(cost)", "VAR_SAMP(age)", "VAR_POP(change)", "STDDEV(cost)", "STDDEV_SAMP(age)", "STDDEV_POP(cost - age)",
    "COVAR_POP(cost, age)", "COVAR_SAMP(change, cost)", "CORR(change, cost)", "CORR(cost, age)",
    "REGR_R2(change, cost)", "REGR_SLOPE(change, cost)", "REGR_INTERCEPT(change, cost)", "REGR_COUNT(change, cost)",
    "REGR_AVGX(change, cost)", "REGR_AVGY(change, cost)", "AVG(cost)", "SUM(cost)", "COUNT(cost)", "SUM(change)",
    "COUNT(change)", "COUNT(*)",
)  # fmt: skip


def rows() -> pa.Table:
    """Rows of 400 patients, three each; cells are missing in one column, in the other, and in both."""
    bits = np.random.default_rng(5)
    count = 1200
    cost = bits.gamma(2, 500, count).clip(0, 5000)
    change = (cost / 2000 - 2 + bits.normal(0, 0.4, count)).clip(-3.5, 1.25)
    missing = bits.random((2, count)) < 0.2
    return pa.table(
        {
            "patient_id": np.arange(count) // 3,
            "region": bits.choice(["north", "south", "east"], count, p=[0.5, 0.49, 0.01]),
            "age": bits.integers(0, 111, count),
            "cost": pa.array(cost, mask=missing[0]),
            "change": pa.array(change, mask=missing[1]),
            "one": np.full(count, 7),
            "wide": np.zeros(count),
        }
    )


def opened(folder: Path, neighbours: str = "add-remove") -> sf.Curator:
    pq.write_table(rows(), folder / "visits.parquet")
    size = "size = 400" if neighbours == "replace" else ""
    (folder / "clinic.toml").write_text(POLICY.format(neighbours=neighbours, size=size))
    return sf.open(folder / "clinic.toml")


@pytest.fixture(params=["add-remove", pytest.param("replace", marks=pytest.mark.long)])
def clinic(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[sf.Curator]:
    with opened(tmp_path, request.param) as curator:
        yield curator


def exact(text: str) -> list[tuple[Any, ...]]:
    visits = rows()  # noqa: F841 - named in the text
    return duckdb.sql(text).fetchall()


@pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")
@pytest.mark.parametrize("where", ["", " FILTER (WHERE age > 40)"])
def test_every_measure_is_near_the_exact_one(clinic: sf.Curator, where: str) -> None:
    asked = ", ".join(f"{each}{where} AS x{index}" for index, each in enumerate(EVERY))
    text = f"SELECT region, {asked} FROM visits GROUP BY region ORDER BY region"
    answer = clinic.sql(text).release(epsilon=2_000_000, confidence="0.999999999", joint=True)
    found = {row[0]: row[1:] for row in answer.rows}
    for region, *known in exact(text):
        for index, wanted in enumerate(known):
            low, high = answer.intervals[f"x{index}"][list(found).index(region)]
            assert low - 1e-6 <= wanted <= high + 1e-6, EVERY[index]
            if region != "east":
                assert found[region][index] == pytest.approx(wanted, rel=2e-2, abs=2e-2), EVERY[index]
    empty = dict(zip(EVERY, found["nowhere"], strict=True))
    assert empty["COUNT(*)"] == 0
    assert empty["CORR(cost, age)"] is None
    assert empty["VARIANCE(cost)"] is None


@pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")
def test_ranges_hold_as_often_as_they_say(tmp_path: Path) -> None:
    """At a price at which noise matters: of 6 answers of 11 ranges with 99.9 % confidence, more than three with a miss
    would be seen less than once in a million times: C(6, 4)·0.011⁴.
    """
    asked = [each for each in EVERY if "change" not in each]
    text = f"SELECT {', '.join(f'{each} AS x{index}' for index, each in enumerate(asked))} FROM visits"
    (known,) = exact(text)
    with opened(tmp_path) as curator:
        question = curator.sql(text)
        misses = 0
        for _ in range(6):
            answer = question.release(epsilon=20, confidence="0.999", fresh=True)
            ranges = [answer.intervals[f"x{index}"][0] for index in range(len(asked))]
            misses += any(not low <= wanted <= high for (low, high), wanted in zip(ranges, known, strict=True))
    assert misses <= 3


def test_one_value_has_no_spread_and_no_correlation(tmp_path: Path) -> None:
    with opened(tmp_path) as curator:
        answer = curator.sql("SELECT VAR_POP(one) AS v, CORR(one, age) AS r, COUNT(one) AS n FROM visits").release(
            epsilon=5, confidence="0.999999"
        )
    ((variance, correlation, count),) = answer.rows
    assert variance == pytest.approx(0, abs=0.3)
    assert correlation is None or -1 <= correlation <= 1
    assert count == pytest.approx(1200, abs=100)


@pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")
def test_units_with_more_rows_than_count_weigh_alike_in_all_moments(tmp_path: Path) -> None:
    """A patient with one row more than the limit is weighted down in sums and squares alike: clipping each by itself
    would keep all squares and a part of the rows, and the variance of what is left would be too large.
    """
    (tmp_path / "clinic.toml").write_text(POLICY.format(neighbours="add-remove", size=""))
    table = rows().append_column("n", pa.array(np.arange(1200)))
    heavy = table.set_column(0, "patient_id", pa.array(np.arange(1200) // 4)).drop(["n"])
    pq.write_table(heavy, tmp_path / "visits.parquet")
    (wanted,) = exact("SELECT STDDEV_POP(cost), AVG(cost) FROM visits")
    with sf.open(tmp_path / "clinic.toml") as curator:
        question = curator.sql("SELECT STDDEV_POP(cost) AS sd, AVG(cost) AS mean, COUNT(*) AS n FROM visits")
        assert {each.strategy.value for each in question.bounding_options} == {"reweight", "sample"}
        answer = question.release(epsilon=10_000)
        with pytest.raises(sf.InvalidParameter, match="one of those that this question allows"):
            question.limit(strategy="clip-l1").explain()
    ((sd, mean, count),) = answer.rows
    assert (sd, mean) == (pytest.approx(wanted[0], rel=0.03), pytest.approx(wanted[1], rel=0.03))
    assert count == pytest.approx(900, abs=2)


def test_a_price_is_split_by_weight(tmp_path: Path) -> None:
    with opened(tmp_path) as curator:
        ask = curator.sql("SELECT COUNT(*) AS n, AVG(age) AS age, STDDEV(cost) AS sd FROM visits")
        plain, heavy = ask.error(epsilon=1), ask.error(epsilon=1, weights={"n": 4})
        assert heavy["n"] < plain["n"]
        assert heavy["sd"][1000] > plain["sd"][1000]
        assert ask.error(epsilon=1, weights={"n": 2, "age": 2, "sd": 2}) == plain
        price = ask.price({"n": 20}, weights={"n": 4})
        assert price < ask.price({"n": 20})
        answer = ask.release(epsilon=1, weights={"n": 4})
        assert answer.intervals["n"][0][1] - answer.intervals["n"][0][0] < 2 * plain["n"]


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"n": 0}, "weights for .n. must be"),
        ({"n": -1}, "weights for .n. must be"),
        ({"n": "much"}, "weights for .n."),
        ({"visits": 2}, r"columns of noisy numbers \(n, age\)"),
        ({"region": 2}, r"columns of noisy numbers \(n, age\)"),
        (2, "a mapping from columns to numbers"),
    ],
)
def test_weights_are_positive_numbers_of_columns(tmp_path: Path, weights: Any, said: str) -> None:
    with opened(tmp_path) as curator:
        ask = curator.sql("SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region")
        lines = len(list(curator.ledger.lines()))
        for method in (ask.explain, ask.error, ask.release):
            with pytest.raises(sf.InvalidParameter, match=said):
                method(epsilon=1, weights=weights)
        assert len(list(curator.ledger.lines())) == lines


def test_an_explanation_shows_the_split_and_what_an_even_one_would_give(tmp_path: Path) -> None:
    with opened(tmp_path) as curator:
        told = str(curator.sql("SELECT AVG(cost) AS mean, STDDEV(cost) AS sd FROM visits").explain())
        even = str(curator.sql("SELECT SUM(cost) AS total, COUNT(*) AS n FROM visits").explain())
    assert "% of the price" in told
    assert "split" in told
    assert "sample standard deviation of cost" in told
    assert "times if split evenly" in told
    assert "1/2 of the price" in even
    assert "evenly" not in even


def test_an_explanation_writes_conditions_as_people_type_them(tmp_path: Path) -> None:
    with opened(tmp_path) as curator:
        assert "rows where cost IS NOT NULL" in str(curator.sql("SELECT COUNT(cost) AS n FROM visits").explain())


def test_shared_sums_and_counts_have_less_noise_than_apart(tmp_path: Path) -> None:
    """AVG, SUM and COUNT of one column at once: each is far better than a third of the price would make it."""
    with opened(tmp_path) as curator:
        together = curator.sql("SELECT SUM(cost) AS s, COUNT(cost) AS n, AVG(cost) AS m FROM visits").error(epsilon=1)
        alone = {
            name: curator.sql(f"SELECT {each} AS x FROM visits").error(epsilon="1/3")["x"]
            for name, each in {"s": "SUM(cost)", "n": "COUNT(cost)"}.items()
        }
    assert together["s"] < 0.4 * alone["s"]
    assert together["n"] < 0.6 * alone["n"]


def test_the_builder_asks_the_same(tmp_path: Path) -> None:
    pairs = {
        "sd": (sf.stddev("cost"), "STDDEV(cost)"),
        "sd_all": (sf.stddev("cost", sample=False), "STDDEV_POP(cost)"),
        "v": (sf.variance("cost", where="age > 5"), "VARIANCE(cost) FILTER (WHERE age > 5)"),
        "v_all": (sf.variance("cost", sample=False), "VAR_POP(cost)"),
        "c": (sf.covariance("cost", "age"), "COVAR_SAMP(cost, age)"),
        "c_all": (sf.covariance("cost", "age", sample=False), "COVAR_POP(cost, age)"),
        "r": (sf.correlation("cost", "age"), "CORR(cost, age)"),
        "b": (sf.slope("cost", "age"), "REGR_SLOPE(cost, age)"),
        "i": (sf.intercept("cost", "age"), "REGR_INTERCEPT(cost, age)"),
        "r2": (sf.r_squared("cost", "age"), "REGR_R2(cost, age)"),
    }
    with opened(tmp_path) as curator:
        built = curator.table("visits").agg(**{name: each for name, (each, _) in pairs.items()})
        text = ", ".join(f"{each} AS {name}" for name, (_, each) in pairs.items())
        assert built.identity == curator.sql(f"SELECT {text} FROM visits").identity
    with pytest.raises(sf.InvalidParameter, match="since this aggregate takes two"):
        sf.Aggregation("correlation", "cost")
    with pytest.raises(sf.InvalidParameter, match="takes one expression"):
        sf.Aggregation("mean", "cost", beside="age")


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ("VARIANCE(wide)", "unbounded"),
        ("CORR(wide, age)", "unbounded"),
        ("VARIANCE(region)", "type-mismatch"),
        ("CORR(age, region)", "type-mismatch"),
        ("REGR_SXX(age, cost)", "aggregate"),
        ("VARIANCE(DISTINCT age)", "distinct"),
    ],
)
def test_what_has_no_bounded_moments_is_refused(tmp_path: Path, asked: str, code: str) -> None:
    with opened(tmp_path) as curator, pytest.raises(sf.Unsupported) as refused:
        curator.sql(f"SELECT {asked} FROM visits")
    assert refused.value.code == code


def test_a_forecast_says_for_which_values_it_was_computed(tmp_path: Path) -> None:
    """Values closer together than their bounds are known less well than was forecast: whoever reads it must know."""
    pq.write_table(rows(), tmp_path / "visits.parquet")
    (tmp_path / "clinic.toml").write_text(POLICY.format(neighbours="add-remove", size=""))
    with sf.open(tmp_path / "clinic.toml") as clinic:
        for asked in ("STDDEV(cost)", "CORR(cost, age)", "REGR_SLOPE(cost, age)"):
            said = clinic.sql(f"SELECT {asked} AS x FROM visits").error(epsilon=1).warnings
            assert any("assume values spread evenly over their declared range" in each for each in said), asked
        assert not clinic.sql("SELECT AVG(cost) AS x, COUNT(*) AS n FROM visits").error(epsilon=1).warnings
