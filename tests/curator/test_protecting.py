"""``sf.protect``: a table in memory behind an account on disk, in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf

ROWS = {"pid": [1, 1, 2, 3], "age": [30, 31, 40, 50], "sex": ["f", "f", "m", "f"], "cost": [1.5, 2.0, None, 4.0]}


def protected(table: Any, folder: Path, **more: Any) -> sf.Curator:
    asked = {"unit": "pid", "max_rows": 10, "bounds": {"age": (0, 110)}, "epsilon": 3, "account": "clinic"}
    return sf.protect(table, ledger=folder / "clinic.ledger", **{**asked, **more})


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_a_table_is_protected_in_one_line(tmp_path: Path, frame: Any) -> None:
    with protected(frame(ROWS), tmp_path, values={"sex": ["f", "m"]}) as clinic:
        answer = clinic.sql("SELECT sex, COUNT(*) AS n, AVG(age) AS age FROM data GROUP BY sex").release(epsilon=1)
        assert answer.column("sex") == ["f", "m"]
        assert clinic.name == "clinic"
        declared = clinic.policy.tables["data"].columns
        assert {name: each.type.value for name, each in declared.items()} == {
            "age": "integer",
            "sex": "text",
            "cost": "real",
        }


def test_a_copy_or_an_edited_table_meets_the_same_account(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS)
    with protected(frame, tmp_path) as clinic:
        clinic.sql("SELECT COUNT(*) AS n FROM data").release(epsilon=2)
    edited = frame.copy()
    edited.loc[0, "age"] = 99
    for each in (frame.copy(), edited, frame.iloc[1:]):
        with protected(each, tmp_path) as clinic:
            assert clinic.budget.remaining["pure"] == 1
            with pytest.raises(sf.Overspent):
                clinic.sql("SELECT COUNT(*) AS n FROM data").release(epsilon=2, fresh=True)


def test_the_same_table_is_of_no_second_account(tmp_path: Path) -> None:
    protected(pd.DataFrame(ROWS), tmp_path).close()
    with pytest.raises(sf.SourceTaken):
        protected(pd.DataFrame(ROWS), tmp_path, account="other")


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"unit": "pids"}, "did you mean pid"),
        ({"unit": "visitor"}, "the table has no column of this name"),
        ({"bounds": {"aged": (0, 1)}}, "did you mean age"),
        ({"values": {"gender": ["f"]}}, "name one of"),
        ({"columns": ["nothing"]}, "name one of"),
        ({"account": ""}, "account"),
        ({"max_rows": None}, "max_rows"),
        ({"bounds": {"sex": (0, 1)}}, "list its values"),
    ],
)
def test_mistakes_are_refused_before_anything_is_opened(tmp_path: Path, more: dict[str, Any], word: str) -> None:
    with pytest.raises(sf.SfumatoError, match=word):
        protected(pd.DataFrame(ROWS), tmp_path, **more)
    assert not (tmp_path / "clinic.ledger").exists()


def test_a_ledger_is_no_choice() -> None:
    with pytest.raises(TypeError, match="ledger"):
        sf.protect(pd.DataFrame(ROWS), unit="pid", max_rows=1, epsilon=1, account="clinic")  # type: ignore[call-arg]
    with pytest.raises(sf.InvalidParameter, match="ledger"):
        sf.protect(pd.DataFrame(ROWS), unit="pid", max_rows=1, epsilon=1, account="clinic", ledger="")


def test_categories_are_not_taken_from_the_table(tmp_path: Path) -> None:
    frame = pd.DataFrame({**ROWS, "sex": pd.Categorical(ROWS["sex"])})
    with protected(frame, tmp_path) as clinic:
        assert clinic.policy.tables["data"].columns["sex"].values is None


def test_rows_may_be_the_units(tmp_path: Path) -> None:
    with protected(pa.table(ROWS), tmp_path, unit="row", max_rows=None, called="visit", columns=["age"]) as clinic:
        assert clinic.policy.unit.every_row
        assert clinic.policy.unit.name == "visit"
        assert list(clinic.policy.tables["data"].columns) == ["age"]


def test_a_file_is_not_protected_in_one_line(tmp_path: Path) -> None:
    """It was told to give a path, which it had given."""
    with pytest.raises(sf.InvalidParameter, match="a pandas, polars or Arrow table") as refused:
        protected(tmp_path / "visits.csv", tmp_path)
    assert "sfumato init" in refused.value.fix


def test_a_unit_that_is_no_column_is_told_the_columns(tmp_path: Path) -> None:
    with pytest.raises(sf.InvalidPolicy) as refused:
        protected(pd.DataFrame(ROWS), tmp_path, unit="nobody")
    assert refused.value.fix.startswith("name row, or one of pid, ")
