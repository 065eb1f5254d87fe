"""Equal bins over a declared range are keys like any other, with labels that can be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from curator.test_spread import POLICY

CELLS = [0.0, 1249.99, 1250.0, 2500.0, 4999.0, 5000.0, 6000.0, -3.0, float("nan"), None]
"""Both ends, an inner edge, beyond either end, and what is missing."""


@pytest.fixture
def clinic(tmp_path: Path) -> Any:
    many = np.repeat(np.arange(len(CELLS)), 100)
    table = {
        "patient_id": np.arange(len(many)),
        "region": ["north"] * len(many),
        "age": many * 11,
        "cost": pa.array([CELLS[each] for each in many], pa.float64()),
        "change": np.zeros(len(many)),
        "one": np.full(len(many), 7),
        "wide": np.zeros(len(many)),
    }
    pq.write_table(pa.table(table), tmp_path / "visits.parquet")
    policy = POLICY.format(neighbours="add-remove", size="")
    (tmp_path / "clinic.toml").write_text(policy.replace("max_rows = 3", "max_rows = 1"))
    with sf.open(tmp_path / "clinic.toml") as curator:
        yield curator


@pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")
def test_bins_hold_both_ends_and_say_what_is_missing(clinic: sf.Curator) -> None:
    answer = clinic.table("visits").group_by(sf.histogram("cost", bins=4)).agg(n=sf.count()).release(epsilon=1000)
    assert dict(answer.rows) == {
        "[0, 1250)": 300,
        "[1250, 2500)": 100,
        "[2500, 3750)": 100,
        "[3750, 5000]": 300,
        None: 200,
    }
    assert [label for label, _ in answer.rows][:4] == ["[0, 1250)", "[1250, 2500)", "[2500, 3750)", "[3750, 5000]"]
    assert "[1250, 2500)" in answer.bars("n")


@pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")
def test_bins_are_in_their_own_order_not_that_of_their_labels(clinic: sf.Curator) -> None:
    question = clinic.table("visits").group_by(sf.histogram("age", bins=11)).agg(n=sf.count())
    labels = [row[0] for row in question.release(epsilon=1000).rows]
    assert labels[:3] == ["[0, 10)", "[10, 20)", "[20, 30)"]
    assert labels[-1] == "[100, 110]"
    turned = [row[0] for row in question.order_by("age DESC").release(epsilon=1000).rows]
    assert turned == labels[::-1]


def test_a_histogram_is_a_key_beside_others_and_under_a_name(clinic: sf.Curator) -> None:
    table = clinic.table("visits")
    named = table.group_by("region", band=sf.histogram("age / 2 - 5", bins=3)).agg(n=sf.count(), m=sf.mean("cost"))
    assert [each.name for each in named.query.outputs] == ["region", "band", "n", "m"]
    assert len(named.groups) == 4 * 3
    assert "[-5, 13.3333)" in named.text


def test_it_is_the_question_that_width_bucket_asks(clinic: sf.Curator) -> None:
    built = clinic.table("visits").group_by(sf.histogram("cost", bins=4)).agg(n=sf.count())
    bucket = "WIDTH_BUCKET(cost, 0, 5000, 4)"
    key = f"CASE WHEN {bucket} > 4 THEN 4 ELSE {bucket} END"
    assert built.identity == clinic.sql(f"SELECT {key} AS cost, COUNT(*) FROM visits GROUP BY {key}").identity


@pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")
def test_width_bucket_in_sql_has_groups_below_above_and_missing(clinic: sf.Curator) -> None:
    text = "SELECT WIDTH_BUCKET(cost, 1000, 4000, 3) AS b, COUNT(*) AS n FROM visits GROUP BY b"
    assert dict(clinic.sql(text).release(epsilon=1000).rows) == {0: 200, 1: 200, 2: 100, 4: 300, 3: 0, None: 200}


@pytest.mark.parametrize("bins", [0, -1, 2.5, 501, "many"])
def test_bins_are_a_moderate_whole_number(bins: Any) -> None:
    with pytest.raises(sf.InvalidParameter, match="bins"):
        sf.histogram("cost", bins)


@pytest.mark.parametrize(
    ("of", "code"),
    [("region", "histogram"), ("one", "histogram"), ("nope", "unknown-column"), ("cost + 1", "unnamed-column")],
)
def test_what_has_no_bins_is_refused_at_its_step(clinic: sf.Curator, of: str, code: str) -> None:
    with pytest.raises(sf.Unsupported) as refused:
        clinic.table("visits").group_by(sf.histogram(of))
    assert refused.value.code == code
    assert "group by" in str(refused.value)
    with pytest.raises(sf.InvalidParameter, match="column of numbers"):
        sf.histogram(7)  # type: ignore[arg-type]
