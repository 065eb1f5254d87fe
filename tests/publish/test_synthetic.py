"""Synthetic tables: rows of any number and type, answers with a basis, quality from noise alone."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from scipy.stats import binom

import sfumato as sf
from covering_cases import covering
from publish.models import COLUMNS, RECEIPT, synthetic, table
from publish.synthesis.clinic import RELATIONS, exact, people, policy_of
from sfumato.curator.proposals.synthesis import _METHOD_STEPS
from sfumato.curator.proposals.synthesis_series import run_steps
from sfumato.errors import InvalidParameter
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell, coded_attribute
from sfumato.publish.synthesis.released import ImpliedColumn
from sfumato.publish.synthesis.state import CLOSE, SynthesisState
from sfumato.publish.synthetic import Synthetic
from sfumato.release.answers.answer import BOUNDED, MEASURED
from sfumato.release.prices import Price

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")

SCHEMA = pa.schema(
    [
        ("sex", pa.string()),
        ("age", pa.int64()),
        ("smokes", pa.bool_()),
        ("weight", pa.float64()),
        ("born", pa.date32()),
        ("seen", pa.timestamp("us")),
        ("town", pa.string()),
    ]
)


@pytest.fixture(scope="module")
def made() -> Synthetic:
    return synthetic()


def test_rows_have_the_schema_of_the_policy_and_keep_to_it(made: Synthetic) -> None:
    rows = made.table()
    assert rows.schema == SCHEMA
    assert rows.num_rows == round(made.total)
    assert rows is made.table()  # the same rows, until others are asked for
    found = rows.to_pandas()
    assert found["sex"].dropna().isin(["f", "m"]).all()
    assert found["age"].dropna().between(0, 99).all()
    assert (found["age"] == 0).sum() > 100  # a cell of its own
    assert np.allclose(found["weight"].dropna() * 10, (found["weight"].dropna() * 10).round())
    assert set(found["town"].dropna()) == {"Aa", "Bé", 'C,"c', "elsewhere"}
    assert not any(rows.column(name).null_count for name in rows.column_names)  # no column is nullable


def test_types_survive_files_and_pandas(made: Synthetic, tmp_path: Path) -> None:
    made.write(tmp_path / "rows.parquet")
    assert parquet.read_table(tmp_path / "rows.parquet").equals(made.table())
    made.write(tmp_path / "rows.csv")
    strings = csv.ConvertOptions(column_types=SCHEMA, strings_can_be_null=True, quoted_strings_can_be_null=False)
    assert csv.read_csv(tmp_path / "rows.csv", convert_options=strings).equals(made.table())
    frame = made.to_pandas()
    assert [str(kind) for kind in frame.dtypes] == [
        *(["str"] if pd.__version__ >= "3" else ["object"]), "Int64", "boolean", "float64", "date32[day][pyarrow]",
        "datetime64[us]", *(["str"] if pd.__version__ >= "3" else ["object"]),
    ]  # fmt: skip
    assert pa.Table.from_pandas(frame, schema=SCHEMA, preserve_index=False).equals(made.table())


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_any_number_of_rows_is_free(made: Synthetic, rows: int, tmp_path: Path) -> None:
    assert made.sample(rows).num_rows == made.table(rows).num_rows == len(made.to_pandas(rows)) == rows
    made.write(tmp_path / "r.csv", rows)
    assert len((tmp_path / "r.csv").read_text().splitlines()) == rows + 1


@pytest.mark.parametrize("rows", [0, -1, 1.5, "x", None, 10**12])
def test_no_number_of_rows_is_refused(made: Synthetic, rows: Any) -> None:
    with pytest.raises(InvalidParameter):
        made.sample(rows)


def test_too_many_rows_for_memory_are_refused_with_what_would_do(made: Synthetic) -> None:
    with pytest.raises(InvalidParameter) as refused:
        made.sample(10**9)
    assert "write" in refused.value.fix


@pytest.mark.parametrize("path", ["rows.txt", "rows", "nowhere/rows.csv"])
def test_files_that_cannot_be_written_are_refused(made: Synthetic, path: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter):
        made.write(tmp_path / path, 3)
    assert not list(tmp_path.iterdir())


def test_conditions_and_implied_columns_hold_in_every_row() -> None:
    sex = coded_attribute("sex", table().columns["sex"], None)
    title = Attribute("title", "text", (ListedCell("Ms"), ListedCell("Mr"), OtherCell()))
    decided = ImpliedColumn(title, 0, (0, 1, 2))
    made = synthetic(impossible=["age < 20 AND smokes", "sex = 'm' AND town = 'Aa'"], implied=(decided,))
    assert sex == made.attributes[0]
    assert made.columns == (*COLUMNS, "title")
    for each in made.sample(4000).to_pylist():
        assert each["title"] == {"f": "Ms", "m": "Mr", None: None}[each["sex"]]
        assert not (each["age"] is not None and each["age"] < 20 and each["smokes"])
        assert not (each["sex"] == "m" and each["town"] == "Aa")


@pytest.mark.parametrize("total", [-500, 0])
def test_noise_may_leave_no_rows_and_one_is_drawn(total: int) -> None:
    made = synthetic(rows=total, deviation=1)
    assert made.table().num_rows == 1
    assert made.quality().rows == 1


def test_columns_of_missing_values_alone_can_be_drawn() -> None:
    truth = np.zeros((3, 5, 3))
    truth[2, 4, 2] = 900.0
    names = {name: {**each, "nullable": True} for name, each in list(COLUMNS.items())[:3]}
    made = synthetic(columns=names, sets=[(), (0,), (1,), (2,)], truth=truth, deviation=0.01)
    assert all(made.table().column(name).null_count > 890 for name in names)


def test_numbers_say_what_they_rest_on(made: Synthetic) -> None:
    measured = made.sql("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex")
    assert set(measured.basis["n"]) == {MEASURED}
    apart = made.sql("SELECT COUNT(*) AS n FROM people WHERE age = 0")
    assert apart.basis["n"] == (MEASURED,)  # a value with a cell of its own is measured
    bounded = made.sql("SELECT COUNT(*) AS n FROM people WHERE smokes AND sex = 'f'")
    assert bounded.basis["n"] == (BOUNDED,)
    ((low, high),) = bounded.intervals["n"]
    wanted = made.model.marginal((0, 2))[0, 1]
    assert bounded.rows[0][0] == round(min(max(wanted, low), high))  # the model's own
    assert bounded.receipt.free


@pytest.mark.parametrize("laplace", [False, True])
def test_ranges_are_wider_where_noise_decided_what_was_measured(laplace: bool) -> None:
    made = synthetic(laplace=laplace)
    one = made.sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'f'").intervals["n"][0]
    planned = made._synopsis_estimates.estimates.half_width(np.array([1.0, 0, 0]), (0,), 0.05)
    assert (one[1] - one[0]) / 2 > 1.1 * planned


@covering({"method": ["aim", "mst", "mwem"], "relation": RELATIONS, "price": [{"rho": 2}, {"epsilon": 4}]})
def test_ranges_hold_on_real_runs(method: str, relation: str, price: dict[str, Any], long: bool) -> None:
    """On a few runs ranges of 95 % miss no more often than chance allows once in 10⁶ tests; on 1,000 those of 80 %."""
    rows, terms = people(3, 400), Price(**price)
    proposal, read = exact(policy_of(rows, relation=relation), terms, method=method)
    truth = read.totals.sum(), read.marginal((0, 1)).reshape(3, 4)[1, 2], read.marginal((1,))[0]
    asked = ["SELECT COUNT(*) AS n FROM people", "SELECT COUNT(*) AS n FROM people WHERE sex = 'm' AND age >= 5",
             "SELECT COUNT(*) AS n FROM people WHERE age < 3"]  # fmt: skip
    runs, level = (1000, "0.8") if long else (5, "0.95")
    missing = 1 - float(level)
    misses, outside, marginals = np.zeros(3), 0, 0
    for _ in range(runs):
        course = SynthesisState(proposal.setting(terms))
        run_steps(_METHOD_STEPS[method](course), lambda step: step.draw(lambda _: read))
        course.fit(CLOSE)
        found = proposal.build_released(course, terms, complete=True, is_purchase=False)
        made = Synthetic(found, course.model, RECEIPT)
        for place, (each, wanted) in enumerate(zip(asked, truth, strict=True)):
            ((low, high),) = made.sql(each, confidence=level).intervals["n"]
            misses[place] += not low <= wanted <= high
        for each in made.quality(confidence=level).marginals:
            places = tuple(made.released.columns.index(name) for name in each.columns)
            apart = np.abs(
                read.marginal(places).reshape(made.model.marginal(places).shape) - made.model.marginal(places)
            )
            outside += not each.low <= apart.sum() / 2 / made.model.total <= each.high
            marginals += 1
    assert misses.max() <= binom.isf(1e-6 / 3, runs, missing)
    assert outside <= 0.2 * marginals


def test_quality_is_told_from_noise_alone(made: Synthetic) -> None:
    found = made.quality()
    assert len(found.marginals) == len(made.rounds)
    assert found.total_range[0] <= 3000 <= found.total_range[1]
    assert ("sex", "smokes") in found.unmeasured
    assert ("sex", "age") not in found.unmeasured
    assert all(each.low <= each.distance <= each.high for each in found.marginals)
    assert "unmeasured" in str(found)
    assert list(found.to_pandas().columns) == ["columns", "cells", "noise", "distance", "low", "high"]


def test_a_model_that_is_wrong_is_told_to_be() -> None:
    """The model of single columns does not know that sex decides smoking; once that was measured, quality says so."""
    names = dict(list(COLUMNS.items())[:3])
    truth = np.zeros((3, 5, 3))
    truth[0, 1, 0] = truth[1, 1, 1] = 1500.0
    right = synthetic(columns=names, truth=truth, sets=[(), (0,), (1,), (2,), (0, 2)])
    wrong = synthetic(columns=names, truth=truth, sets=[(), (0,), (1,), (2,)])
    told = Synthetic(right.released, wrong.model, right.receipt).quality()
    assert right.quality().marginals[-1].distance < 0.05
    assert told.marginals[-1].low > 0.4


def test_it_shows_itself(made: Synthetic, tmp_path: Path) -> None:
    assert "12 marginals" in repr(made)
    assert "<table>" in made._repr_html_()
    made.plot(str(tmp_path / "columns.svg"))
    assert (tmp_path / "columns.svg").stat().st_size > 1000


def test_rows_of_times_are_whole_seconds_within_their_bounds(made: Synthetic) -> None:
    seen = [each for each in made.sample(500).column("seen").to_pylist() if each is not None]
    assert all(each.microsecond == 0 and each.year == 2024 for each in seen)
    assert min(seen) >= dt.datetime(2024, 1, 1)


def test_a_column_that_another_decides_leaves_the_model_and_comes_back(tmp_path: Path) -> None:
    rows = {"city": ["Oslo", "Bergen", "Rome", None] * 50, "region": ["north", "north", "south", None] * 50}
    cities = {"levels": {"north": ["Oslo", "Bergen"], "south": ["Rome"]}}
    columns = {"city": cities, "region": {"values": ["south", "north"]}}
    own = sf.Table("t", pa.table(rows), columns, id="row", implies={"city": "region"})
    policy = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(50, "1e-6"), {"t": own})
    with sf.Curator(policy, tmp_path / "t.ledger") as curator:
        made = curator.synthesize("t", ways=1).release(rho=5)
        named = curator.synthesize("t", ways=[["region"]])
        assert "city 4; region by city" in str(curator.synthesize("t", ways=1).explain(rho=1))
    assert [each.name for each in made.attributes] == ["city"]
    assert made.columns == ("city", "region")
    assert "region, which city determines" in repr(made)
    assert [each.name for each in named.attributes] == ["city", "region"]  # it is asked for
    wanted = {"Oslo": "north", "Bergen": "north", "Rome": "south", None: None}
    assert all(wanted[each["city"]] == each["region"] for each in made.sample(500).to_pylist())
    asked = "SELECT region, COUNT(*) AS n FROM t WHERE region <> 'x' GROUP BY region"
    answer = made.sql(asked, confidence="0.9999999")
    assert answer.basis == {"n": ("bounded", "bounded")}  # 50 rows without a city may be anywhere
    ranges = {row[0]: ends for row, ends in zip(answer.rows, answer.intervals["n"], strict=True)}
    assert any("region: rows without a listed city may have any region" in each for each in answer.warnings)
    assert 80 < ranges["north"][0] < 100 < 150 < ranges["north"][1] < 170
    assert 30 < ranges["south"][0] < 50 < 100 < ranges["south"][1] < 120
    made.save(tmp_path / "t.sfu")
    assert sf.synopsis(tmp_path / "t.sfu").sample(3).schema == made.table().schema  # type: ignore[union-attr]


def test_a_row_whose_deciding_value_is_missing_or_not_listed_may_have_any_decided_value(tmp_path: Path) -> None:
    """Every row with a listed city has its region: others decide nothing, and most of them are in the north here."""
    cities = ["Oslo", "Bergen", "Rome", None, "Paris"] * 60
    regions = ["north", "north", "south", "north", "north"] * 60
    columns = {
        "city": {"levels": {"north": ["Oslo", "Bergen"], "south": ["Rome"]}},
        "region": {"values": ["south", "north"]},
        "smokes": {"type": "boolean"},
    }
    rows = pa.table({"city": cities, "region": regions, "smokes": [True, False] * 150})
    own = sf.Table("t", rows, columns, id="row", implies={"city": "region"})
    policy = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(5000, "1e-6"), {"t": own})
    with sf.Curator(policy, tmp_path / "t.ledger") as curator:
        made = curator.synthesize("t", ways=2).release(rho=50)
    counted = "SELECT COUNT(*) AS n FROM t WHERE "
    truths = {"region = 'north'": 240, "region = 'south'": 60, "region IS NULL": 0, "region <> 'north'": 60}
    for condition, truth in {**truths, "region = 'north' AND NOT smokes": 120}.items():
        found = made.sql(counted + condition, confidence="0.999999")
        ((low, high),) = found.intervals["n"]
        assert low <= truth <= high
        assert found.basis["n"] == ("bounded",)
    for keys in ("region", "region, smokes"):
        found = made.sql(f"SELECT {keys}, COUNT(*) AS n FROM t GROUP BY {keys}", confidence="0.999999")
        parts = 1 if keys == "region" else 2
        wanted = {"north": 240 / parts, "south": 60 / parts}
        known = [(row[0], ends) for row, ends in zip(found.rows, found.intervals["n"], strict=True) if None not in row]
        assert len(known) == 2 * parts
        assert all(low <= wanted[region] <= high for region, (low, high) in known)
    for keys in ("region, city", "region, city_level_1", "region || 'x'"):
        with pytest.raises(sf.Unsupported, match=r"cut-key|unknown-column"):
            made.sql(f"SELECT {keys}, COUNT(*) AS n FROM t GROUP BY {keys}")


@pytest.mark.parametrize("total", [0.0, -3.0])
def test_a_total_that_is_no_number_of_rows_is_refused_by_its_name(total: float) -> None:
    with pytest.raises(InvalidParameter) as refused:
        replace(synthetic().released, total=total)
    assert refused.value.parameter == "total"
