"""A synthetic table beside the real one: every figure against other code, hostile tables, files that nobody else reads.

Vectors: SDNist 2.4's k-marginal score (``metrics/kmarg_old.py``) over all sets of columns, and sdmetrics 0.32.0
(TVComplement, ContingencySimilarity, CorrelationSimilarity), both computed apart on these very tables.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats.contingency import association
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import sfumato as sf
from sfumato.quality import Comparison, compare
from sfumato.quality.comparing import HEADING
from sfumato.quality.distances import MAX_SETS, correlations, cramers_v, marginal_sets, nearest_rows
from sfumato.quality.learning import MISSING, OTHERS, UNKNOWN, CommonColumn, logistic_probabilities, propensity, roc_auc

REAL = pd.DataFrame(
    {
        "sex": list("ffffmmmmmm"),
        "ward": list("AABBAABBBB"),
        "smokes": list("ynynynynnn"),
        "age": [20, 31, 42, 53, 64, 25, 36, 47, 58, 69],
        "score": [1.0, 2.5, 2.0, 4.5, 5.0, 1.5, 2.75, 3.0, 4.0, 6.5],
    }
)
SYNTHETIC = pd.DataFrame(
    {
        "sex": list("ffffffmm"),
        "ward": list("AAABBBAB"),
        "smokes": list("yynnyyyn"),
        "age": [22, 30, 41, 50, 61, 28, 33, 49],
        "score": [2.0, 2.0, 3.5, 4.0, 4.5, 1.0, 3.75, 2.0],
    }
)
TEXTS = ["sex", "ward", "smokes"]


def population(seed: int, count: int) -> pd.DataFrame:
    """Old people smoke, and live in the north."""
    draw = np.random.default_rng(seed)
    age = draw.integers(18, 90, count)
    old = age + draw.normal(0, 15, count) > 55
    return pd.DataFrame(
        {
            "age": age,
            "region": np.where(old, "north", draw.choice(["south", "west"], count)),
            "smokes": old & (draw.random(count) < 0.7),
            "pay": draw.gamma(2, 1000, count).round(2),
        }
    )


# ── figures against other code ─────────────────────────────────────────────────────────────────


def test_the_k_marginal_score_is_sdnists() -> None:
    found = compare(REAL, SYNTHETIC, columns=TEXTS)
    assert [each.score for each in found.ways] == pytest.approx([775, 2075 / 3, 625])
    assert found.score == found.ways[2].score
    assert found.ways[2].worst_columns == ("sex", "ward", "smokes")


def test_distances_and_correlations_are_those_of_sdmetrics() -> None:
    found = compare(REAL, SYNTHETIC)
    assert found.pairs[0][0] == pytest.approx(1 - 0.65)
    assert found.pairs[1][1] == pytest.approx(1 - 0.9)
    assert found.pairs[0][1] == found.pairs[1][0] == pytest.approx(1 - 0.65)
    assert found.numbers == ("age", "score")
    assert found.correlations[0][0][1] == pytest.approx(0.9416004268745352)
    assert found.correlations[1][0][1] == pytest.approx(0.6801663604647344)


def test_cramers_v_is_scipys() -> None:
    draw = np.random.default_rng(1)
    for shape in ((2, 2), (3, 5), (7, 2)):
        counts = draw.integers(1, 30, shape)
        assert cramers_v(counts.astype(float)) == pytest.approx(association(counts, method="cramer"))
    assert cramers_v(np.array([[5.0, 0.0], [7.0, 0.0]])) == 0
    assert cramers_v(np.zeros((2, 2))) == 0


def test_correlations_are_those_of_pandas_over_rows_that_have_both() -> None:
    draw = np.random.default_rng(2)
    frame = pd.DataFrame(draw.normal(1e6, 1, (200, 4)) @ draw.normal(0, 1, (4, 4)), columns=list("abcd"))
    frame["e"] = 7.0
    frame[draw.random(frame.shape) < 0.2] = np.nan
    columns = [
        CommonColumn(name, None, ("",), (np.zeros(200, int),) * 2, (frame[name].to_numpy(),) * 2)  # type: ignore[arg-type]
        for name in frame
    ]
    wanted = frame.corr().to_numpy(copy=True)
    wanted[np.isnan(wanted)] = 0
    np.fill_diagonal(wanted, 1)
    assert correlations(columns, 0) == pytest.approx(wanted, abs=1e-8)


def test_the_logistic_model_is_scikit_learns() -> None:
    draw = np.random.default_rng(3)
    design = draw.integers(0, 2, (500, 6)).astype(float)
    labels = (draw.random(500) < 1 / (1 + np.exp(design[:, 0] - design[:, 1]))).astype(float)
    own = logistic_probabilities(np.concatenate([np.ones((500, 1)), design], axis=1), labels)
    theirs = LogisticRegression(C=100.0, tol=1e-10, max_iter=10_000).fit(design, labels).predict_proba(design)[:, 1]
    assert own == pytest.approx(theirs, abs=1e-6)


def test_two_samples_of_one_population_can_hardly_be_told_apart() -> None:
    """The ratio has mean 1 and deviation √(2/(k − 1)) in theory, k = 24: the mean of 20 is within 0.2, three of its own
    deviations.
    """
    ratios = [_ratio(population(seed, 1500), population(100 + seed, 1000)) for seed in range(20)]
    assert np.mean(ratios) == pytest.approx(1, abs=0.2)
    other = population(1, 1000)
    other["smokes"] = ~other["smokes"]
    assert _ratio(population(2, 1500), other) > 10


def _ratio(real: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    from sfumato.engine.inspecting import paired_tables
    from sfumato.quality.learning import common_columns

    return propensity(common_columns(paired_tables(real, synthetic), 10)).ratio


def test_areas_are_scikit_learns() -> None:
    draw = np.random.default_rng(4)
    scores, positive = draw.integers(0, 9, 300).astype(float), draw.random(300) < 0.4
    assert roc_auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores))
    assert roc_auc(scores, np.zeros(300, bool)) is None


def test_what_is_learned_from_each_table_is_tried_on_real_rows() -> None:
    real = population(5, 3000)
    good = compare(real, population(6, 3000), target="smokes").learning
    assert good is not None
    assert good.real == pytest.approx(good.synthetic, abs=0.05)
    assert good.synthetic > 0.8
    mixed = population(6, 3000)
    mixed["smokes"] = mixed["smokes"].sample(frac=1, random_state=1).to_numpy()
    poor = compare(real, mixed, target="SMOKES").learning
    assert poor is not None
    assert poor.synthetic < 0.65
    assert compare(real, mixed, target="age").learning.classes == 2  # type: ignore[union-attr]


def test_the_nearest_row_is_found_as_by_hand() -> None:
    codes = (np.array([0, 0, 1]), np.array([0, 1]))
    numbers = (np.array([0.0, 10.0, np.nan]), np.array([1.0, np.nan]))
    columns = [
        CommonColumn("sex", None, ("f", "m"), codes),  # type: ignore[arg-type]
        CommonColumn("age", None, ("", ""), codes, numbers),  # type: ignore[arg-type]
    ]
    found = nearest_rows(columns)
    assert found is not None
    assert found.synthetic[0] == 0  # the second row is the third real one
    assert found.synthetic[-1] == pytest.approx(0.05)  # the same sex, and a tenth of the range away
    assert found.real == (0.5, 0.5, 0.5, 0.5, pytest.approx(0.75), pytest.approx(0.95), 1.0)
    assert (found.copies, found.real_copies) == (0.5, 0.0)


def test_equal_tables_are_equal_in_everything() -> None:
    real = population(7, 500)
    found = compare(real, real.sample(frac=1, random_state=2))
    assert [each.score for each in found.ways] == [1000, 1000, 1000]
    assert found.associations[0] == pytest.approx(np.array(found.associations[1]))
    assert found.propensity.pmse == pytest.approx(0, abs=1e-12)
    assert found.nearest is not None
    assert found.nearest.copies == 1


# ── hostile tables ─────────────────────────────────────────────────────────────────────────────


def test_columns_in_another_order_and_other_types_are_the_same(tmp_path: Path) -> None:
    """1, "1" and 1.0 are one number; a date is the text that writes it; a truth is 0 or 1, or its word."""
    real = pd.DataFrame(
        {"Number": [1, 2, 3], "Day of birth": pd.to_datetime(["2024-01-01"] * 3), "yes": [True, True, False]}
    )
    as_texts = pd.DataFrame(
        {"yes": ["true", "true", "false"], "day of birth": ["2024-01-01"] * 3, "number": list("123")}
    )
    as_reals = pd.DataFrame({"yes": [1, 1, 0], "number": [1.0, 2.0, 3.0], "Day of birth": [dt.date(2024, 1, 1)] * 3})
    real.to_csv(tmp_path / "real.csv", index=False)
    as_reals.to_csv(tmp_path / "other.csv", index=False)
    as_texts.to_parquet(tmp_path / "texts.parquet")
    sources: list[Any] = [
        as_texts,
        as_reals,
        pa.table(as_texts),
        tmp_path / "other.csv",
        str(tmp_path / "texts.parquet"),
    ]
    for own, source in [*((real, each) for each in sources), *((tmp_path / "real.csv", each) for each in sources[:2])]:
        found = compare(own, source)
        assert found.score == 1000, source
        assert found.names == ("Number", "Day of birth", "yes")


def test_texts_that_are_no_numbers_are_compared_as_texts() -> None:
    found = compare(pd.DataFrame({"x": ["a", "1", "2"]}), pd.DataFrame({"x": [1, 2, 2]}))
    assert found.columns[0].type == "text"
    assert found.columns[0].labels == ("1", "2", "a")


def test_columns_that_one_table_lacks_are_told() -> None:
    found = compare(REAL, SYNTHETIC.drop(columns=["ward"]).assign(more=1))
    assert found.left_out == (("ward",), ("more",))
    assert "only in synthetic      more" in str(found)


def test_what_is_missing_rare_or_new_has_a_cell() -> None:
    real = pd.DataFrame({"t": [f"v{each}" for each in range(150)] + ["v0", None], "n": [*range(151), np.nan]})
    new = pd.DataFrame({"t": ["v0", "nobody", None], "n": [3.0, 1e9, np.nan]})
    text, number = compare(real, new).columns
    assert len(text.labels) == 103
    assert text.labels[-3:] == (OTHERS, UNKNOWN, MISSING)
    assert text.synthetic[-2:] == (1 / 3, 1 / 3)
    assert number.labels[-1] == MISSING
    assert sum(number.real) == pytest.approx(1)


def test_all_missing_one_row_and_one_value() -> None:
    gone = pd.DataFrame({"x": [None, None], "y": [1.0, 1.0], "z": ["a", "a"]})
    found = compare(gone, pd.DataFrame({"x": ["b", None], "y": [2.0, 1.0], "z": ["a", "a"]}))
    assert [each.variation for each in found.columns] == [0.5, 0.5, 0]
    single = compare(gone.head(1), gone.head(1))
    assert single.score == 1000
    assert single.nearest is None
    json.loads(single.to_json())
    assert "k-marginal score" in repr(single)


def test_a_million_values_are_cut_at_quantiles_of_the_real_table(long: bool) -> None:
    """A tenth of them by default, more than are counted one by one."""
    rows = 10**6 if long else 10**5
    real = pa.table({"id": np.arange(rows, dtype=np.float64), "name": pa.array(np.arange(rows).astype(str))})
    found = compare(real, real.slice(0, rows // 2), bins=10)
    assert len(found.columns[0].labels) == 10
    assert found.columns[0].variation == pytest.approx(0.5, abs=1e-4)
    assert "10 quantiles for columns with more values" in found.cells


def test_infinite_and_huge_numbers_are_compared() -> None:
    real = pd.DataFrame({"x": [1e300, -1e300, 0.0, 5.0], "y": [2**62, 1, 2, 3]})
    found = compare(real, pd.DataFrame({"x": [np.inf, -np.inf, np.nan, 5.0], "y": [2**62, 1, 2, 3]}))
    assert found.columns[1].variation == 0
    json.loads(found.to_json())


@pytest.mark.parametrize(
    ("real", "synthetic", "words"),
    [
        (REAL, REAL.head(0), "the synthetic table must be non-empty"),
        (REAL.head(0), REAL, "the real table must be non-empty"),
        (REAL, pd.DataFrame({"other": [1]}), "have no column in common"),
        (REAL, "nowhere.csv", "there is no such file"),
        ("nowhere.parquet", REAL, "there is no such file"),
        (REAL, 17, "a source must be a file or a table in memory"),
        (__file__, REAL, "files with this extension cannot be read"),
    ],
)
def test_what_cannot_be_compared_is_refused(real: Any, synthetic: Any, words: str) -> None:
    with pytest.raises(sf.SfumatoError, match=words) as refused:
        compare(real, synthetic)
    assert "policy file" not in refused.value.fix


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"bins": 1}, "bins must be"),
        ({"bins": 10**6}, "from 2 to 1,000"),
        ({"columns": ["sex", "nobody"]}, "columns must be a list of names that both tables have"),
        ({"columns": []}, "columns must be"),
        ({"target": "nobody"}, "one of the columns that both tables have"),
        ({"table": "people"}, "left out unless a policy is given"),
        (
            {"columns": ["sex"], "target": "sex"},
            "a column that can be predicted from others, but the tables share only one column",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(sf.SfumatoError, match=words):
        compare(REAL, SYNTHETIC, **asked)


def test_without_scikit_learn_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(sf.SfumatoError, match="needs scikit-learn") as refused:
        compare(REAL, SYNTHETIC, target="sex")
    assert "sfumato[quality]" in refused.value.fix
    assert compare(REAL, SYNTHETIC).learning is None


def test_too_many_sets_are_spread_evenly() -> None:
    found = marginal_sets(40, 3)
    assert len(found) == len({*found}) == MAX_SETS
    assert {place for each in found for place in each} == {*range(40)}
    assert len(marginal_sets(20, 3)) == 1140


# ── by a policy ────────────────────────────────────────────────────────────────────────────────


def test_the_cells_of_a_policy_are_those_it_declares() -> None:
    columns = {
        "sex": {"values": ["f", "m"]},
        "age": {"type": "integer", "bounds": [0, 99], "bins": [0, 30, 60, 99]},
        "score": {"type": "real", "bounds": [0, 9]},
    }
    own = sf.Table("people", REAL, columns, id="row")
    policy = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(1), {"people": own})
    found = compare(REAL, SYNTHETIC, policy=policy)
    assert found.names == ("sex", "age")
    assert found.columns[1].labels[-1] == "missing or not listed"
    assert found.columns[1].real == (0.2, 0.6, 0.2, 0)
    assert found.cells == "those that the policy declares for people"
    with pytest.raises(sf.InvalidParameter, match="one of the private tables: people"):
        compare(REAL, SYNTHETIC, policy=policy, table="others")


# ── what is shown and written ──────────────────────────────────────────────────────────────────


def test_everything_shown_says_that_it_is_not_for_publication(tmp_path: Path) -> None:
    found = compare(REAL, SYNTHETIC)
    assert isinstance(found, Comparison)
    assert repr(found).startswith(HEADING)
    assert repr(found).endswith(HEADING)
    assert json.loads(found.to_json())["heading"] == HEADING
    assert found._repr_html_().count(HEADING) == 2
    assert "no evidence of privacy" in repr(found)
    page = tmp_path / "out.html"
    page.write_text("older")
    page.chmod(0o644)
    found.save(page)
    assert stat.S_IMODE(os.stat(page).st_mode) == 0o600
    assert page.read_text().count(HEADING) == 2
    assert [each.name for each in tmp_path.iterdir()] == ["out.html"]
    with pytest.raises(sf.SfumatoError, match="the page cannot be written"):
        found.save(tmp_path / "nowhere" / "out.html")


def test_names_and_texts_of_other_people_are_only_shown() -> None:
    hostile = pd.DataFrame({"<script>a</script>": ["<b>", "\x1b[31m"], "x": [1, 2]})
    found = compare(hostile, hostile)
    assert "<script>" not in found.html()
    assert "<b>&lt;" in found.html()
    assert "\x1b" not in found.html() + repr(found)
