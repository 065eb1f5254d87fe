"""Rows drawn under conditions and constraints: their law, their bounds, and that no row of the table is read."""

from __future__ import annotations

import ast
import datetime as dt
import math
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy.stats import chi2

import sfumato
import sfumato as sf
from publish.models import synthetic
from publish.synthesis import clinic
from sfumato.errors import InvalidParameter, SfumatoError, Unsupported
from sfumato.mechanisms import bits
from sfumato.publish.row_rules import SampleReport
from sfumato.publish.synthesis.released import ImpliedColumn
from sfumato.publish.synthetic import Synthetic

_CHANCE = 1e-7
_STAY: dict[str, Any] = {
    "ward": {"values": ["ICU", "eye"]},
    "admission": {"type": "date", "bounds": ["2024-01-01", "2024-01-30"], "bins": 3},
    "discharge": {"type": "date", "bounds": ["2024-01-01", "2024-01-30"], "bins": 3},
    "bed": {"type": "integer", "bounds": [0, 59], "bins": 3},
    "food": {"type": "integer", "bounds": [0, 59], "bins": 3, "spikes": [0]},
    "total": {"type": "integer", "bounds": [0, 118], "bins": 4},
}
_SETS = [(), *((place,) for place in range(6)), (0, 1), (1, 2), (0, 3), (3, 5)]


@pytest.fixture(scope="module")
def stays() -> Synthetic:
    truth = np.random.default_rng(3).gamma(0.7, 1, (3, 4, 4, 4, 5, 5))
    truth[:, :, :, :, :, -1] = truth[..., -1, :] = truth[..., -1, :, :] = 0
    return synthetic(columns=_STAY, sets=_SETS, truth=3000 * truth / truth.sum(), deviation=1)


def joint(made: Synthetic) -> Any:
    return made.sampling_model.marginal(tuple(range(len(made.attributes)))) / made.total


def excess(counts: Any, shares: Any) -> float:
    """χ² of counts against shares, over its quantile at the chance of a false alarm; rare cells are joined."""
    expected = shares.ravel() * counts.sum()
    order = np.argsort(expected)
    starts = np.flatnonzero(np.diff(np.cumsum(expected[order]) // 8, prepend=-1))
    observed, wanted = (np.add.reduceat(each.ravel()[order], starts) for each in (counts, expected))
    keep = wanted > 0
    assert not observed[~keep].any()
    score = ((observed[keep] - wanted[keep]) ** 2 / wanted[keep]).sum()
    return float(score / chi2.isf(_CHANCE, max(1, keep.sum() - 1)))


def codes_of(made: Synthetic, rows: pa.Table) -> Any:
    """Code rows again, by comparisons of values with the edges of bins."""
    frame, found = rows.to_pandas(), []
    for attribute in made.attributes:
        values, codes = frame[attribute.name], np.full(len(frame), attribute.size - 1)
        for index, cell in reversed(list(enumerate(attribute.cells[:-1]))):
            if hasattr(cell, "value"):
                codes[(values == cell.value).to_numpy()] = index
                continue
            inside = (values >= cell.low) & (values <= cell.high if cell.closed else values < cell.high)
            spikes = [other.value for other in attribute.cells[:-1] if hasattr(other, "value")]
            codes[(inside & ~values.isin(spikes)).to_numpy()] = index
        found.append(codes)
    return np.stack(found)


def counted(made: Synthetic, rows: pa.Table) -> Any:
    table = np.zeros(made.model.sizes)
    np.add.at(table, tuple(codes_of(made, rows)), 1)
    return table


def test_rows_given_conditions_have_the_law_of_the_joint_table_given_them(stays: Synthetic) -> None:
    rows = stays.sample(30_000, conditions={"ward": "ICU", "Bed": [3, 4, 25], "admission": "2024-01-12"}, seed=1)
    assert rows.num_rows == 30_000
    frame = rows.to_pandas()
    assert set(frame.ward) == {"ICU"}
    assert set(frame.bed) == {3, 4, 25}
    assert set(frame.admission) == {dt.date(2024, 1, 12)}
    given = np.zeros(stays.model.sizes)
    bins = [int((frame.bed == value).sum()) for value in (3, 4)]
    assert abs(bins[0] - bins[1]) < 6 * np.sqrt(sum(bins))  # values of one bin are equally likely
    given[0, 1, :, 0], given[0, 1, :, 1] = 2 / 20, 1 / 20
    wanted = joint(stays) * given
    assert excess(counted(stays, rows), wanted / wanted.sum()) < 1
    assert excess(counted(stays, rows), joint(stays) * (given > 0) / (joint(stays) * (given > 0)).sum()) > 1
    report = SampleReport.of(rows)
    assert report.drawn < 1.2 * report.rows
    assert not report.rejected
    other_axes = (2, 4, 5)
    per_day = (wanted * stays.total).sum(other_axes).sum() / 10  # a bin of admission has ten days
    assert report.expected_rows == pytest.approx(per_day)
    assert "ward = ICU" in str(report)
    assert "expected" in str(report)


def test_a_condition_of_a_rare_value_rejects_nothing(stays: Synthetic) -> None:
    report = SampleReport.of(stays.sample(500, conditions={"bed": 7, "food": 0, "total": 1, "ward": "eye"}))
    assert report.expected_rows is not None
    assert report.expected_rows < 20
    assert report.drawn <= 600


@pytest.mark.parametrize("bed", [0, 19, 20, 39, 40, 59])
def test_every_end_of_a_bin_can_be_asked_for(stays: Synthetic, bed: int) -> None:
    assert stays.sample(20, conditions={"bed": bed}).column("bed").to_pylist() == [bed] * 20


def test_rows_within_a_constraint_have_the_law_of_rows_given_it(stays: Synthetic) -> None:
    """Days within bins are uniform: the law given discharge ≥ admission is computed day by day."""
    rows = stays.sample(30_000, constraints="discharge >= admission", seed=2)
    frame = rows.to_pandas()
    assert (frame.discharge >= frame.admission).all()
    days = np.arange(30)
    bins = days // 10
    within = np.array(
        [[np.mean(days[bins == b][None, :] >= days[bins == a][:, None]) for b in range(3)] for a in range(3)]
    )
    allowed = np.ones((4, 4))
    allowed[:3, :3] = within
    wanted = joint(stays) * allowed[None, :, :, None, None, None]
    assert excess(counted(stays, rows), wanted / wanted.sum()) < 1
    whole = joint(stays) * (allowed > 0)[None, :, :, None, None, None]  # as if values were redrawn within their cells
    assert excess(counted(stays, rows), whole / whole.sum()) > 1
    assert SampleReport.of(rows).rejected == ("discharge >= admission",)


def test_whole_cells_that_break_a_constraint_are_never_drawn_although_no_clique_held_them(stays: Synthetic) -> None:
    rule = "ward <> 'ICU' OR food = 0"
    assert stays.model.tree.clique_index_with((0, 4)) is None
    rows = stays.sample(20_000, constraints=[rule], seed=3)
    wanted = joint(stays)
    wanted[0, :, :, :, 1:-1] = 0
    assert excess(counted(stays, rows), wanted / wanted.sum()) < 1
    report = SampleReport.of(rows)
    assert report.conditioned == (rule,)
    assert report.drawn <= 1.2 * report.rows


def test_a_sum_is_kept_by_computing_it(stays: Synthetic) -> None:
    rows = stays.sample(5_000, constraints=["total = bed + food", "discharge > admission"])
    frame = rows.to_pandas()
    assert (frame.total == frame.bed + frame.food).all()
    assert (frame.discharge > frame.admission).all()
    report = SampleReport.of(rows)
    assert report.computed == ("total = bed + food",)


def test_a_computed_sum_may_be_the_least_and_the_greatest_value_of_its_bin(stays: Synthetic) -> None:
    """Each of these is one of 30 values of a bin that holds hundreds of 6,000 rows: none is left out by chance."""
    totals = set(stays.sample(6_000, constraints="total = bed + food", seed=5).column("total").to_pylist())
    starts = [cell.low for cell in stays.attributes[5].cells[1:4]]  # type: ignore[union-attr]
    assert totals >= {math.ceil(start) + offset for start in starts for offset in (-1, 0)}


def test_a_computed_sum_has_the_law_of_rows_whose_sum_lies_in_the_drawn_cell(stays: Synthetic) -> None:
    rows = stays.sample(20_000, constraints="total = bed + food", seed=4)
    beds = [np.arange(low, low + 20) for low in (0, 20, 40)]
    food_cells = {cell: index for index, cell in enumerate(stays.attributes[4].cells[:-1])}
    foods = [np.array([0])] * len(food_cells)
    for cell, index in food_cells.items():
        if not hasattr(cell, "value"):
            foods[index] = np.arange(max(1, cell.low), cell.high + cell.closed)
    edges = [float(cell.low) for cell in stays.attributes[5].cells[:-1]]  # type: ignore[union-attr,arg-type]
    share = np.zeros((4, 5, 5))
    for bed, bed_values in enumerate(beds):
        for food, food_values in enumerate(foods):
            sums = np.add.outer(bed_values, food_values).ravel()
            share[bed, food, :4] = np.bincount(np.digitize(sums, edges) - 1, minlength=4) / sums.size
    wanted = joint(stays) * share[None, None, None]
    assert excess(counted(stays, rows), wanted / wanted.sum()) < 1
    unchecked = joint(stays) * (share > 0)[None, None, None]
    assert excess(counted(stays, rows), unchecked / unchecked.sum()) > 1


def test_null_passes_a_constraint_and_meets_no_condition() -> None:
    columns = {"a": {"type": "integer", "bounds": [0, 9], "bins": 2, "nullable": True}, "b": {"values": ["x", "y"]}}
    made = synthetic(columns=columns, sets=[(), (0,), (1,), (0, 1)], deviation=1)
    rows = made.sample(3_000, constraints="a >= 8").to_pandas()
    assert rows.a.isna().sum() > 100
    assert rows.a.dropna().isin([8, 9]).all()
    assert made.sample(200, conditions={"a": 8}).column("a").null_count == 0
    assert made.sample(200, conditions={"a": None}).column("a").null_count == 200
    mixed = made.sample(4_000, conditions={"a": [None, 8]}).to_pandas().a
    assert 0 < mixed.isna().sum() < 4_000
    assert set(mixed.dropna()) == {8}


def test_an_implied_column_is_conditioned_by_the_column_that_decides_it() -> None:
    region = synthetic(columns={"region": {"values": ["n", "s"]}}, sets=[(), (0,)]).attributes[0]
    columns = {"city": {"values": ["A", "B", "C"]}, "sex": {"values": ["f", "m"]}}
    implied = (ImpliedColumn(region, 0, (0, 1, 1, 2)),)
    made = synthetic(columns=columns, sets=[(), (0,), (1,), (0, 1)], implied=implied)
    rows = made.sample(2_000, conditions={"region": "s"}).to_pandas()
    assert set(rows.city) == {"B", "C"}
    assert set(rows.region) == {"s"}
    assert SampleReport.of(made.sample(50, conditions={"region": "s"})).drawn <= 80
    both = made.sample(500, constraints="region = 'n' OR city = 'C'").to_pandas()
    assert set(both.city) == {"A", "C"}


def test_the_policy_still_rules_out_rows() -> None:
    made = synthetic(impossible=["age < 18 AND smokes"])
    rows = made.sample(1_000, conditions={"age": [10, 40]}, constraints="weight > 30", seed=5).to_pandas()
    assert set(rows.age) == {10, 40}
    assert not (rows.smokes & (rows.age < 18)).any()
    assert (rows.weight > 30).all()
    with pytest.raises(Unsupported) as refused:
        made.sample(100, conditions={"age": 10, "smokes": True})
    assert refused.value.code == "no-such-rows"


def test_conditions_that_the_policy_cuts_within_cells_are_refused() -> None:
    made = synthetic(impossible=["age = 10 AND smokes"])  # no whole cell is impossible
    assert set(made.sample(100, conditions={"age": 10}).to_pandas().smokes) == {False}
    with pytest.raises(Unsupported) as refused:
        made.sample(100, conditions={"age": 10, "smokes": True})
    assert refused.value.code == "rare-rows"


def test_rows_that_are_too_rare_are_refused_with_their_count(stays: Synthetic) -> None:
    with pytest.raises(Unsupported, match="of 20,000 drawn rows meet") as refused:
        stays.sample(50, constraints="bed + food + total = 77 AND bed * food = 391")
    assert refused.value.code == "rare-rows"
    with pytest.raises(Unsupported) as refused:
        stays.sample(50, constraints=["bed < 20", "bed > 25"])
    assert refused.value.code == "no-such-rows"


_BAD: list[tuple[dict[str, Any], str]] = [
    ({"conditions": "ward = 'ICU'"}, "conditions"),
    ({"conditions": {"wrad": "ICU"}}, "ward"),
    ({"conditions": {7: "ICU"}}, "conditions"),
    ({"conditions": {"ward": "icu"}}, "ward"),
    ({"conditions": {"ward": []}}, "ward"),
    ({"conditions": {"bed": 60}}, "bed"),
    ({"conditions": {"bed": 1.5}}, "bed"),
    ({"conditions": {"bed": "many"}}, "bed"),
    ({"conditions": {"admission": "2024-13-01"}}, "admission"),
    ({"conditions": {"bed": 3, "BED": 4}}, "once"),
    ({"constraints": "bed >"}, ""),
    ({"constraints": "bed > 3), COUNT(*"}, ""),
    ({"constraints": "bed > 3 -- ) FROM"}, None),
    ({"constraints": "beds > 3"}, "bed"),
    ({"constraints": "COUNT(*) > 3"}, ""),
    ({"constraints": "bed IN (SELECT bed FROM people)"}, ""),
    ({"constraints": "bed + 1"}, ""),
    ({"constraints": 7}, "constraints"),
    ({"constraints": [None]}, ""),
    ({"seed": -1}, "seed"),
    ({"seed": "7"}, "seed"),
    ({"seed": True}, "seed"),
    ({"seed": 2**64}, "seed"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "named"), _BAD, ids=lambda each: str(each)[:60])
def test_bad_requests_name_the_rule_the_place_and_a_fix(stays: Synthetic, options: Any, named: str | None) -> None:
    if named is None:  # a comment ends with its line
        assert stays.sample(20, **options).num_rows == 20
        return
    with pytest.raises(SfumatoError) as refused:
        stays.sample(20, **options)
    assert named in str(refused.value)
    assert getattr(refused.value, "fix", None) or getattr(refused.value, "rule", None)


# ── seeds ──────────────────────────────────────────────────────────────────────────────────────


def test_a_seed_repeats_rows_and_needs_no_entropy(stays: Synthetic, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"conditions": {"ward": "eye"}, "constraints": "discharge >= admission"}
    first = stays.sample(300, seed=7, **options)
    assert not stays.sample(300, seed=8, **options).equals(first)
    assert not stays.sample(300, **options).equals(first)

    def refuse(count: int) -> bytes:
        raise AssertionError(count)

    monkeypatch.setattr(bits, "_next_private_bytes", refuse)
    assert stays.sample(300, seed=7, **options).equals(first)
    assert synthetic(impossible=["age < 18 AND weight > 90"]).sample(300, seed=7).num_rows == 300
    with pytest.raises(AssertionError):
        stays.sample(300, **options)


def test_only_the_drawing_of_rows_can_be_given_bytes() -> None:
    """A mechanism that could be given a source of bytes could be seeded, and its noise subtracted."""
    single = {"publish/sampling.py", "publish/row_rules.py", "publish/synthetic.py"}
    allowed = single | {"publish/synthetic_tables.py"}
    folder = Path(sfumato.__file__).parent
    seen = set()
    for file in folder.rglob("*.py"):
        text = file.read_text()
        name = file.relative_to(folder).as_posix()
        if name == "mechanisms/bits.py" or not any(word in text for word in ("ByteSource", "seeded_bytes", "bits.")):
            continue
        for node in ast.walk(ast.parse(text)):
            is_given = isinstance(node, ast.Call) and getattr(node.func, "attr", "").startswith("random_")
            if is_given and getattr(node.func.value, "id", "") == "bits":  # type: ignore[attr-defined]
                needed = 2 if node.func.attr == "random_array_below" else 1  # type: ignore[attr-defined]
                if len(node.args) > needed or node.keywords:  # type: ignore[attr-defined]
                    seen.add(name)
            if isinstance(node, ast.Name) and node.id in ("ByteSource", "seeded_bytes"):
                seen.add(name)
    assert seen == allowed


# ── privacy ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
def test_no_row_is_read_and_nothing_is_charged_after_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sfumato.engine.duckdb.driver import DuckDB

    with clinic.curator(tmp_path, clinic.people(1, 200)) as curator:
        made = curator.synthesize("people", "mst").release(epsilon=2)

        def refuse(*_: object, **__: object) -> Any:
            raise AssertionError("rows were read after the release")

        for name in ("read", "check"):
            monkeypatch.setattr(DuckDB, name, refuse)
        with pytest.raises(AssertionError):
            curator.synthesize("people", "mst").release(epsilon=2)
        spent = str(curator.history())
        made.sample(50, conditions={"sex": "f"}, constraints="age > 0 OR smokes", seed=1)
        made.to_pandas(20, conditions={"sex": "m"})
        for ending in ("parquet", "csv", "duckdb", "sqlite"):
            made.write(tmp_path / f"rows.{ending}", 20, seed=3)
        assert str(curator.history()) == spent


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
def test_the_noise_of_two_releases_differs_whatever_seed_rows_are_drawn_with(tmp_path: Path) -> None:
    with clinic.curator(tmp_path, clinic.people(1, 200)) as curator:
        made = []
        for _ in range(2):
            made.append(curator.synthesize("people", "independent").release(epsilon=2))
            made[-1].sample(10, seed=7)
        values = [[marginal.values for marginal in each.released.marginals] for each in made]
        assert values[0] != values[1]
        with pytest.raises(TypeError):
            curator.synthesize("people", "independent").release(epsilon=2, seed=7)  # type: ignore[call-arg]


# ── files ──────────────────────────────────────────────────────────────────────────────────────


def test_databases_hold_the_rows_with_their_types(tmp_path: Path) -> None:
    made = synthetic()
    wanted = made.sample(500, seed=4)
    for ending in ("duckdb", "sqlite", "parquet", "csv"):
        made.write(tmp_path / f"rows.{ending}", 500, seed=4)
    with duckdb.connect(str(tmp_path / "rows.duckdb"), read_only=True) as connection:
        stored = connection.sql("SELECT * FROM people").to_arrow_table()
    assert stored.cast(wanted.schema).equals(wanted)
    assert [str(kind) for kind in stored.schema.types] == [str(kind) for kind in wanted.schema.types]
    with sqlite3.connect(tmp_path / "rows.sqlite") as database:
        rows = database.execute("SELECT sex, age, smokes, weight, born, seen, town FROM people").fetchall()
        kinds = [row[2] for row in database.execute("PRAGMA table_info(people)")]
    assert kinds == ["TEXT", "INTEGER", "BOOLEAN", "REAL", "DATE", "TEXT", "TEXT"]
    assert len(rows) == 500
    frame = wanted.to_pandas()
    assert [row[1] for row in rows] == frame.age.tolist()
    assert [row[3] for row in rows] == frame.weight.tolist()
    assert [row[4] for row in rows] == [day.isoformat() for day in frame.born]
    assert pd.to_datetime(pd.Series([row[5] for row in rows])).tolist() == frame.seen.tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "rows.csv",
        "rows.duckdb",
        "rows.parquet",
        "rows.sqlite",
    ]


def test_a_report_is_written_with_parquet(tmp_path: Path, stays: Synthetic) -> None:
    report = stays.write(tmp_path / "rows.parquet", 40, conditions={"ward": "ICU"})
    assert report is not None
    assert report.rows == 40
    assert stays.write(tmp_path / "plain.parquet", 40) is None
    assert SampleReport.of(stays.sample(40, conditions={"ward": "ICU"})).rows == 40
    with pytest.raises(InvalidParameter, match="a table that was drawn without them"):
        SampleReport.of(parquet.read_table(tmp_path / "plain.parquet"))


@pytest.mark.parametrize("ending", ["duckdb", "sqlite"])
def test_a_database_in_a_missing_folder_is_refused(tmp_path: Path, stays: Synthetic, ending: str) -> None:
    with pytest.raises(InvalidParameter, match="a file that can be written"):
        stays.write(tmp_path / "none" / f"rows.{ending}", 10)
    assert sf.InvalidParameter is InvalidParameter
