"""Questions over the noisy rows of several SELECTs: one batch, values as DuckDB computes them, shared noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf

BEFORE = "SELECT MONTH(day) AS month, COUNT(*) AS n FROM loans WHERE day < DATE '2025-01-01' GROUP BY MONTH(day)"
AFTER = "SELECT MONTH(day) AS month, COUNT(*) AS n FROM loans WHERE day >= DATE '2025-03-01' GROUP BY MONTH(day)"
BY_MONTH = (
    "SELECT YEAR(day) AS year, MONTH(day) AS month, COUNT(*) AS n, SUM(size) AS s FROM loans"
    " GROUP BY YEAR(day), MONTH(day)"
)
TOTAL = "SELECT COUNT(*) AS n FROM loans"
CTES = f"WITH a AS ({BEFORE}), b AS ({AFTER})"
M = f"WITH m AS ({BY_MONTH})"
YEAR_AGO = "m a JOIN m b ON b.month = a.month AND a.year = b.year + 1"
QUESTIONS = {
    f"{CTES} SELECT month, a.n AS x, b.n - a.n AS y FROM a JOIN b USING (month) ORDER BY 1": (BEFORE, AFTER),
    f"{CTES} SELECT a.month, b.n - a.n AS y FROM a LEFT JOIN b ON a.month = b.month ORDER BY 1": (BEFORE, AFTER),
    f"{CTES} SELECT month, a.n AS x, COALESCE(b.n, 0) AS y FROM b RIGHT JOIN a USING (month) ORDER BY 1": (
        BEFORE,
        AFTER,
    ),
    f"{CTES} SELECT month, a.n + b.n AS y FROM a FULL JOIN b USING (month) ORDER BY 1": (BEFORE, AFTER),
    f"{M} SELECT a.year, a.month, a.n - b.n AS y FROM {YEAR_AGO} ORDER BY 1, 2": (BY_MONTH,),
    f"{M} SELECT year, month, n * 100.0 / (SELECT SUM(n) FROM m) AS y FROM m ORDER BY 1, 2": (BY_MONTH,),
    f"{M} SELECT year, month, n - (SELECT AVG(n) FROM m WHERE year = 2024) AS y FROM m ORDER BY 1, 2": (BY_MONTH,),
    f"SELECT month, n FROM ({BEFORE}) UNION ALL SELECT 0, n FROM ({TOTAL}) ORDER BY 1": (BEFORE, TOTAL),
    f"SELECT SUM(n) AS y FROM ({BEFORE} UNION ALL {AFTER})": (BEFORE, AFTER),
    f"SELECT month, n FROM ({BEFORE}) UNION SELECT 0, n FROM ({TOTAL}) UNION SELECT * FROM ({BEFORE}) ORDER BY 1": (
        BEFORE,
        TOTAL,
    ),
    f"{M} SELECT year FROM m UNION SELECT year + 1 FROM m ORDER BY 1": (BY_MONTH,),
    f"{M} SELECT COUNT(*) AS y FROM (SELECT year, n FROM m UNION SELECT year, n FROM m WHERE month < 6)": (BY_MONTH,),
    f"{M} SELECT * FROM (SELECT year, month, n FROM m) PIVOT (SUM(n) FOR year IN (2024, 2025)) ORDER BY 1": (BY_MONTH,),
    f"{M} SELECT * FROM m UNPIVOT (v FOR kind IN (n, s)) ORDER BY year, month, kind": (BY_MONTH,),
    f"{M} SELECT a.year, SUM(a.n - b.n) AS y FROM m a JOIN m b USING (year, month) GROUP BY a.year": (BY_MONTH,),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    rows = pd.DataFrame(
        {
            "member": np.arange(400) % 100,
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta((np.arange(400) * 73) % 731, unit="D"),
            "size": np.arange(400) % 7,
        }
    )
    folder: Path = tmp_path_factory.mktemp("loans")
    bounds = {"day": ("2024-01-01", "2025-12-31"), "size": (0, 6)}
    with pytest.warns(sf.WeakPrivacy):
        curator = sf.protect(
            rows, name="loans", unit="member", max_rows=4, bounds=bounds, epsilon=1000, delta="1e-6",
            account="loans", ledger=str(folder / "ledger"),
        )  # fmt: skip
    yield curator
    curator.close()


def plain(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [
        tuple(round(float(value), 6) if isinstance(value, (int, float)) else value for value in row) for row in rows
    ]


@pytest.mark.parametrize("text", QUESTIONS)
def test_values_are_those_of_duckdb_over_the_released_rows(library: sf.Curator, text: str) -> None:
    """Each SELECT is stored as a question of its own: asked again at its share it is free, and DuckDB does the rest."""
    answer = library.sql(text).release(epsilon=2)
    parts = QUESTIONS[text]
    told = text
    for index, part in enumerate(parts):
        stored = library.sql(part).release(epsilon=f"{2 / len(parts):g}")
        assert stored.receipt.free
        duckdb.register(f"part_{index}", stored.to_pandas(ranges=False))
        told = told.replace(f"({part})", f"(FROM part_{index})").replace(part, f"FROM part_{index}")
    assert plain(list(answer.rows)) == plain(duckdb.sql(told).fetchall())


def test_all_selects_are_one_charge_at_one_price(library: sf.Curator) -> None:
    text = f"WITH a AS ({BEFORE}), b AS ({AFTER}) SELECT month, b.n - a.n AS y FROM a JOIN b USING (month)"
    question = library.sql(text)
    left = library.budget.largest(sf.Laplace)
    answer = question.release(epsilon="0.75", fresh=True)
    assert answer.receipt.guarantee == "ε = 0.75"
    assert left - library.budget.largest(sf.Laplace) == pytest.approx(0.75)
    assert question.release(epsilon="0.75").receipt.free
    again = question.release(epsilon="0.75", fresh=True, request_id="one")
    assert question.release(epsilon="0.75", fresh=True, request_id="one").rows == again.rows


def test_keys_of_one_side_are_kept_as_the_join_says(library: sf.Curator) -> None:
    """January and February are not among the later months: an inner join has no such row, a left join has NULL."""
    ctes = f"WITH a AS ({BEFORE}), b AS ({AFTER})"
    inner = library.sql(f"{ctes} SELECT month, b.n AS y FROM a JOIN b USING (month)").release(epsilon=2)
    left = library.sql(f"{ctes} SELECT a.month, b.n AS y FROM a LEFT JOIN b USING (month)").release(epsilon=2)
    assert sorted(inner.column("month")) == list(range(3, 13))
    assert sorted(left.column("month")) == list(range(1, 13))
    assert [row[1] is None for row in sorted(left.rows)] == [True, True] + [False] * 10
    assert [interval is None for interval in left.intervals["y"]].count(True) == 2


def test_ranges_are_those_of_the_noise_that_both_sides_have(library: sf.Curator) -> None:
    """Two Gaussian noises of one σ: √2 of one half-width. A row minus itself has no noise."""
    text = f"WITH m AS ({BY_MONTH}) SELECT b.n - a.n AS y, a.n + b.n - 2 * a.n AS z, a.n - a.n AS zero, a.n AS x"
    text += " FROM m a JOIN m b ON a.month = b.month AND a.year = b.year - 1"
    answer = library.sql(text).release(rho="0.001", mechanism=sf.Gaussian)
    y, z, zero, x = ([(high - low) / 2 for low, high in answer.intervals[name]] for name in ("y", "z", "zero", "x"))  # type: ignore[misc]
    assert y == pytest.approx([math.sqrt(2) * width for width in x], abs=0.8)  # widths of integers are rounded up
    assert z == pytest.approx(y, rel=0.02)
    assert zero == [0.0] * len(zero)


def test_rows_of_a_union_that_noise_has_compared_have_simultaneous_ranges(library: sf.Curator) -> None:
    """Noise decides whether two rows of one month are equal; a union of keys alone compares no noise."""
    one, all_rows = (library.sql(f"{BEFORE} {union} {AFTER}").release(epsilon=1) for union in ("UNION", "UNION ALL"))
    assert len(one.rows) <= len(all_rows.rows) == 22
    widths = [{high - low for low, high in answer.intervals["n"]} for answer in (one, all_rows)]  # type: ignore[misc]
    assert min(widths[0]) > max(widths[1])


@pytest.mark.parametrize("text", list(QUESTIONS)[:5])
def test_forecasts_are_the_half_widths_of_the_answer(library: sf.Curator, text: str) -> None:
    question = library.sql(text)
    answer, forecast = question.release(epsilon=1, fresh=True), question.error(epsilon=1)
    assert set(forecast.columns) == set(answer.intervals)
    for name, width in forecast.columns.items():
        if isinstance(width, float):  # one that depends on the group's size is another number for each
            widest = max((high - low) / 2 for low, high in filter(None, answer.intervals[name]))
            assert widest - 0.6 <= width <= widest + 1.6
    assert [column.name for column in question.columns] == list(answer.columns)
    assert "combine" in str(question.explain(epsilon=1))
    assert question.preview().is_preview


REFUSED = {
    f"WITH m AS ({BY_MONTH}) SELECT a.n FROM m a JOIN m b ON a.month = b.month": "join",
    f"WITH m AS ({BY_MONTH}) SELECT a.n FROM m a JOIN m b ON a.n = b.n": "noisy-key",
    f"WITH m AS ({BY_MONTH}) SELECT a.n FROM m a JOIN m b ON a.month < b.month": "join",
    f"WITH m AS ({BY_MONTH}) SELECT n FROM m a JOIN m b USING (year, month)": "ambiguous",
    f"WITH m AS ({BY_MONTH}) SELECT c.n FROM m a JOIN m b USING (year, month)": "unknown-alias",
    f"WITH m AS ({BY_MONTH} HAVING COUNT(*) > 3) SELECT a.n FROM m a JOIN m b USING (year, month)": "selected-rows",
    f"WITH m AS ({BY_MONTH}) SELECT n / (SELECT n FROM m) AS y FROM m": "scalar-subquery",
    f"SELECT n FROM ({TOTAL} EXCEPT {TOTAL})": "set-operation",
    f"{BEFORE} UNION ALL BY NAME {AFTER}": "set-operation",
    "SELECT size FROM loans GROUP BY size UNION SELECT size + 1 FROM loans GROUP BY size": "no-aggregate",
    f"{TOTAL} UNION ALL {BEFORE}": "union",
    f"SELECT month, n FROM ({BEFORE}) UNION ALL SELECT 'all', n FROM ({TOTAL})": "type-mismatch",
    f"{M} PIVOT m ON year USING SUM(n) GROUP BY month": "pivot-values",
    f"{M} PIVOT m ON year IN (month) USING SUM(n) GROUP BY month": "pivot-values",
    f"{M} PIVOT m ON year IN (SELECT year FROM m) USING SUM(n) GROUP BY month": "pivot-values",
    f"{M} PIVOT m ON year IN (2024), month IN (1) USING SUM(n)": "pivot",
    "PIVOT loans ON size IN (1, 2) USING COUNT(*)": "pivot",
    "UNPIVOT loans ON size INTO NAME kind VALUE v": "unpivot",
    f"{M} UNPIVOT m ON n, x INTO NAME kind VALUE v": "unpivot",
    f"WITH m AS ({BY_MONTH}) SELECT DISTINCT a.n FROM m a JOIN m b USING (year, month)": "clause",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_supported_says_what_to_type(library: sf.Curator, text: str) -> None:
    with pytest.raises(sf.Unsupported) as refused:
        library.sql(text)
    assert refused.value.code == REFUSED[text]
    assert refused.value.fix


def test_limits_and_weights_are_of_one_select(library: sf.Curator) -> None:
    question = library.sql(f"WITH m AS ({BY_MONTH}) SELECT a.n - b.n AS y FROM m a JOIN m b USING (year, month)")
    for ask in (
        lambda: question.limit(rows=1),
        lambda: question.error(epsilon=1, weights={"y": 2}),
        lambda: question.release(free=True),
    ):
        with pytest.raises(sf.InvalidParameter, match="several SELECTs"):
            ask()
    with pytest.raises(sf.Unsupported, match="already a batch"):
        library.workload([question])


MEDIAN = "SELECT MEDIAN(size) AS m FROM loans"
LARGE = "SELECT SUM(size) AS m FROM loans WHERE MONTH(day) = 12"
ROWS_LINE = "rows beyond the limit of 4 per member count less or not at all"
ID_LINE = "rows without member are left out"
SIZE_LINE = "size outside 0…6 counts as 0 or 6"
DAY_LINE = "day outside 2024-01-01 00:00:00…2025-12-31 00:00:00 counts as 2024-01-01 00:00:00 or 2025-12-31 00:00:00"


def test_a_column_has_the_lines_of_every_select_that_it_reads(library: sf.Curator) -> None:
    """The median's bounds, the sum's, and the bound of the day that selects the sum's rows."""
    answer = library.sql(f"SELECT * FROM ({MEDIAN} UNION ALL {LARGE})").release(epsilon=2)
    assert answer.caveats is not None
    assert answer.caveats["m"].split("; ") == [
        ROWS_LINE,
        SIZE_LINE,
        ID_LINE,
        DAY_LINE,
        "± does not cover these effects",
    ]
    one = "SELECT size, COUNT(*) AS n FROM loans GROUP BY size"
    joined = f"WITH a AS ({one}), b AS ({LARGE}) SELECT size, n, n - (SELECT m FROM b) AS y FROM a"
    apart = library.sql(joined).release(epsilon=2).caveats
    assert apart is not None
    assert "day" not in apart["n"]
    assert DAY_LINE in apart["y"]
    assert answer.to_pandas().attrs["sfumato"]["caveats"] == answer.caveat_lines() != []


def test_quantiles_in_a_union_keep_the_larger_of_their_rank_errors(library: sf.Curator) -> None:
    few = "SELECT MEDIAN(LEAST(size, 1)) AS m FROM loans"
    parts = f"{MEDIAN} UNION ALL {few}"
    answer = library.sql(parts).release(epsilon=2)
    alone = [library.sql(part).release(epsilon=1) for part in (MEDIAN, few)]
    assert all(each.receipt.free for each in alone)
    assert answer.ranks == {"m": max(each.ranks["m"] for each in alone)}
    assert len({each.ranks["m"] for each in alone}) == 2
    assert "rows of its rank" in repr(answer)
    computed = library.sql(f"SELECT m + 1 AS m FROM ({MEDIAN} UNION ALL {few})").release(epsilon=2)
    assert computed.ranks == {}


def test_a_column_without_a_range_has_its_line_and_nothing_of_a_range(library: sf.Curator) -> None:
    caveats = library.sql("SELECT MEDIAN(day) AS d FROM loans").release(epsilon=1).caveats
    assert caveats == {"d": f"{ROWS_LINE}; {DAY_LINE}; {ID_LINE}"}


def test_what_was_cut_is_asked_of_each_select_alone(library: sf.Curator) -> None:
    question = library.sql(f"{MEDIAN} UNION ALL {LARGE}")
    for ask in (question.clipped, question.release(epsilon=2).clipped):
        with pytest.raises(sf.InvalidParameter, match="with one SELECT") as refused:
            ask()
        assert "each SELECT alone" in refused.value.fix


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> sf.Curator:
    """Two groups of nearly equal size, whose keys no float tells apart."""
    group = [2**53] * 100 + [2**53 + 1] * 101
    rows = pa.table({"who": range(201), "k": group, "x": [key % 2 * 100 for key in group]})
    columns = {"k": sf.Domain("integer", bounds=(2**53, 2**53 + 1)), "x": sf.Domain("integer", bounds=(0, 100))}
    policy = sf.Policy(
        sf.PrivacyUnit("person"), sf.Budget(5000), {"t": sf.Table("t", rows, columns, id="who", max_rows=1)}
    )
    return sf.Curator(policy, ledger=tmp_path_factory.mktemp("halves") / "ledger")


GROUPS = "WITH a AS (SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k)"


def test_no_scalar_is_of_a_row_that_noise_selected(halves: sf.Curator) -> None:
    for scalar in ("SELECT k FROM a ORDER BY n DESC LIMIT 1", "SELECT s FROM a ORDER BY n LIMIT 1"):
        with pytest.raises(sf.Unsupported) as refused:
            halves.sql(f"{GROUPS} SELECT SUM(s) AS y FROM a WHERE k = ({scalar})")
        assert refused.value.code == "selected-rows"
    halves.sql(f"{GROUPS} SELECT k, n - (SELECT MAX(n) FROM a) AS y FROM a")


def test_whole_keys_that_no_float_tells_apart_are_joined_apart(halves: sf.Curator) -> None:
    question = halves.sql(f"{GROUPS} SELECT p.k AS pk, q.k AS qk, p.n + q.n AS y FROM a p JOIN a q ON p.k = q.k")
    assert sorted(row[:2] for row in question.release(1).rows) == [(2**53, 2**53), (2**53 + 1, 2**53 + 1)]


def test_a_column_without_numbers_at_some_sizes_is_forecast_and_answered(halves: sf.Curator) -> None:
    question = halves.sql(f"{GROUPS} SELECT MAX(CASE WHEN n <= 100 THEN s END) AS y FROM a")
    assert "y" in question.error(1).columns
    for _ in range(5):  # what is missing is decided by noise
        assert question.release(1, fresh=True).columns == ("y",)


def test_a_replayed_answer_names_the_price_of_every_select(halves: sf.Curator) -> None:
    others = "b AS (SELECT k, COUNT(*) AS m FROM t WHERE x > 50 GROUP BY k)"
    text = f"{GROUPS}, {others} SELECT k, n - m AS y FROM a JOIN b USING (k)"
    assert halves.sql(text).release(2).receipt.guarantee == "ε = 2"
    again = halves.sql(text).release(2).receipt
    assert (again.free, again.guarantee) == (True, "ε = 4/3 and ε = 2/3")


RANKED = {
    f"SELECT month, n, RANK() OVER (ORDER BY n) AS r FROM ({BY_MONTH}) WHERE year = 2024": {"r"},
    "SELECT MONTH(day) AS month, RANK() OVER (ORDER BY MONTH(day)) AS r, COUNT(*) AS n FROM loans GROUP BY MONTH(day)"
    " HAVING COUNT(*) > 20": {"r"},
    "SELECT MONTH(day) AS month, RANK() OVER (ORDER BY MONTH(day)) AS r, COUNT(*) AS n FROM loans GROUP BY"
    " MONTH(day)": set(),
    f"{M} SELECT a.month, RANK() OVER (ORDER BY a.n - b.n) AS r, a.n AS y FROM {YEAR_AGO}": {"r"},
    f"{M} SELECT a.month, RANK() OVER (ORDER BY a.month) AS r, a.n AS y FROM {YEAR_AGO}": set(),
    f"{M} SELECT month, RANK() OVER (ORDER BY month) AS r, n FROM m WHERE n > (SELECT AVG(n) FROM m)": {"r"},
}


@pytest.mark.parametrize("text", RANKED)
def test_a_forecast_notes_the_ranks_that_the_answer_notes(library: sf.Curator, text: str) -> None:
    question = library.sql(text)
    forecast, answer = question.error(epsilon=1), question.release(epsilon=1)
    assert set(answer.chosen) == RANKED[text]
    assert forecast.chosen == answer.chosen
    assert not forecast.columns.keys() & RANKED[text]
