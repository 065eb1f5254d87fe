"""The power of a test of a correlation is the share of real releases of drawn tables that reject."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import sfumato as sf
from sfumato.errors import InvalidParameter
from sfumato.inference.power import Power

ROWS, CORRELATION, PRICE = 300, "0.4", 1
ASSUMED: dict[str, Any] = {"sizes": ROWS, "means": [70, 1], "deviation": [20, 2]}  # some values are out of bounds
ALARM = 1e-6
FEW_TABLES, MOST_TABLES = 20, 400


def drawn_tables(correlation: float, tables: int) -> pd.DataFrame:
    """Return tables of normal values, one below the other."""
    first, second = np.random.default_rng(17).standard_normal((2, ROWS * tables))
    return pd.DataFrame(
        {
            "who": np.arange(ROWS * tables),
            "batch": np.repeat(np.arange(tables), ROWS),
            "height": 70 + 20 * first,
            "depth": 1 + 2 * (correlation * first + np.sqrt(1 - correlation**2) * second),
        }
    )


def opened(ledger: Path, correlation: str, tables: int) -> sf.Curator:
    columns: dict[str, Any] = {
        "batch": {"type": "integer", "bounds": [0, MOST_TABLES]},
        "height": {"type": "real", "bounds": [0, 100]},
        "depth": {"type": "real", "bounds": [-2, 8]},
    }
    rows = drawn_tables(float(correlation), tables)
    table = sf.Table("trees", rows, columns, id="who", max_rows=1)
    return sf.Curator(sf.Policy(sf.PrivacyUnit("tree"), sf.Budget(10**4), {"trees": table}), ledger)


@pytest.fixture(scope="module")
def forest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    with opened(tmp_path_factory.mktemp("forest") / "ledger", CORRELATION, FEW_TABLES) as curator:
        yield curator


def correlation_test(curator: sf.Curator, batch: int = 0) -> Any:
    return curator.test("correlation", f"SELECT CORR(height, depth) AS r FROM trees WHERE batch = {batch}")


def assert_same_shares(curator: sf.Curator, tables: int, correlation: str) -> Power:
    """Release and test the tables, compare the share that rejects with the forecast (Fisher's exact test), and return
    the forecast.
    """
    power = correlation_test(curator).power(PRICE, correlation=correlation, **ASSUMED)
    found = sum(correlation_test(curator, batch).release(PRICE).p_value <= 0.05 for batch in range(tables))
    print(f"{found} of {tables}; {power}")
    assert stats.fisher_exact([[found, tables - found], [power.found, power.tables - power.found]]).pvalue > ALARM
    return power


def test_power_is_the_share_of_real_releases_that_reject(forest: sf.Curator) -> None:
    """At this price the noise hides about half of what a test without it always finds."""
    assert 0.4 < float(assert_same_shares(forest, FEW_TABLES, CORRELATION)) < 0.7


@pytest.mark.long
@pytest.mark.parametrize("correlation", [CORRELATION, "-0.3", "0"])
def test_power_is_the_share_of_many_real_releases_that_reject(tmp_path: Path, correlation: str) -> None:
    with opened(tmp_path / "ledger", correlation, MOST_TABLES) as curator:
        assert_same_shares(curator, MOST_TABLES, correlation)


@pytest.mark.parametrize("rows", [ROWS, pytest.param(4000, marks=pytest.mark.long)])
def test_no_correlation_is_found_as_often_as_the_level_says(forest: sf.Curator, rows: int) -> None:
    power = correlation_test(forest).power(PRICE, correlation=0, **(ASSUMED | {"sizes": rows}))
    assert stats.binomtest(power.found, power.tables, power.level).pvalue > ALARM
    assert Power.from_json(power.to_json()) == power


def test_power_without_noise_is_that_of_the_correlation_of_many_rows(forest: sf.Curator) -> None:
    """√n·r is 3.16 standard errors of a sum of products; 0.09 are five of 400 tables, and 199 draws of the null."""
    power = correlation_test(forest).power(1000, sizes=4000, correlation="0.05", means=[50, 3], deviation=[10, 1])
    assert abs(float(power) - stats.norm.sf(1.96 - 3.16)) < 0.09
    assert str(power).startswith(
        "at ε = 1000, a test of correlations of 0.05 in 4,000 rows with means of 50 and 3 and deviations of 10 and 1 "
        "rejects"
    )


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"sizes": None}, "sizes"),
        ({"sizes": [300, 300]}, "sizes"),
        ({"sizes": 1}, "whole number ≥ 2"),
        ({"sizes": "10.5"}, "whole number ≥ 2"),
        ({"sizes": 10**13}, "at most 1,000,000,000,000"),
        ({"correlation": None}, "from −1 to 1"),
        ({"correlation": "1.01"}, "from −1 to 1"),
        ({"means": None}, "each of the two columns"),
        ({"means": [70]}, "each of the two columns"),
        ({"means": [1, 70]}, r"within the bounds of the columns, in the order of CORR\(y, x\)"),
        ({"deviation": None}, "each of the two columns"),
        ({"deviation": [20, 0]}, "positive"),
        ({"shares": ["0.5"]}, "left out"),
        ({"counts": [300]}, "left out"),
        ({"level": "0.004"}, "at least 0.005"),
    ],
)
def test_bad_assumptions_of_a_correlation_are_refused(forest: sf.Curator, changed: dict[str, Any], rule: str) -> None:
    with pytest.raises(InvalidParameter, match=rule):
        correlation_test(forest).power(1, **({"correlation": CORRELATION} | ASSUMED | changed))


def test_a_correlation_is_assumed_for_its_test_alone(forest: sf.Curator) -> None:
    share = forest.test("share", "SELECT COUNT(*) AS n FROM trees WHERE depth > 1", of=3000)
    means = forest.test("anova", "SELECT batch, AVG(depth) AS m FROM trees GROUP BY batch")
    for test in (share, means):
        with pytest.raises(InvalidParameter, match="left out"):
            test.power(1, correlation=CORRELATION)
