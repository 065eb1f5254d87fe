"""Cell rules as analysts meet them: part of what a question means, and the same in every measure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sfumato as sf
from sfumato.errors import InvalidPolicy

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
COLUMNS: dict[str, dict[str, Any]] = {
    "cost": {"type": "real", "bounds": [0, 5000]},
    "day": {"type": "date"},
    "smoker": {"type": "boolean"},
    "sex": {"values": ["female", "male"]},
    "age": {"type": "integer", "bounds": [0, 110]},
}
RULES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nulls": ({"cost": {"nulls": ["NA"]}}, {"cost": {"nulls": ["NA", "-1"]}}),
    "decimal": ({"cost": {"decimal": ","}}, {"cost": {"decimal": "."}}),
    "thousands": ({"cost": {"thousands": ","}}, {"cost": {"thousands": "'"}}),
    "currency": ({"cost": {"currency": "€"}}, {"cost": {"currency": "$"}}),
    "format": ({"day": {"format": "%d.%m.%Y"}}, {"day": {"format": ["%d.%m.%Y", "%m.%d.%Y"]}}),
    "true": ({"smoker": {"true": ["Y"]}}, {"smoker": {"true": ["J"]}}),
    "false": ({"smoker": {"false": ["N"]}}, {"smoker": {"false": ["Y"]}}),
    "trim": ({"sex": {"trim": True}}, {}),
    "case": ({"sex": {"case": "lower"}}, {}),
    "map": ({"sex": {"map": {"f": "female"}}}, {"sex": {"map": {"f": "male"}}}),
}
"""For each key two declarations of it."""
QUESTIONS = {
    "cost": "SELECT SUM(cost) FROM visits",
    "day": "SELECT COUNT(day) FROM visits",
    "smoker": "SELECT smoker, COUNT(*) FROM visits GROUP BY smoker",
    "sex": "SELECT COUNT(*) FROM visits WHERE sex = 'female'",
}


@contextmanager
def opened(folder: Path, frame: pd.DataFrame, columns: dict[str, Any], **more: Any) -> Iterator[sf.Curator]:
    table = sf.Table("visits", frame, columns, id="row", **more)
    policy = sf.Policy(sf.PrivacyUnit("visit", every_row=True), sf.Budget(10**9), {"visits": table}, account="clinic")
    with sf.Curator(policy, folder / "clinic.ledger") as curator:
        yield curator


def identity(folder: Path, rules: dict[str, Any], question: str, **more: Any) -> str:
    columns = {name: {**declared, **rules.get(name, {})} for name, declared in COLUMNS.items()}
    frame = pd.DataFrame({name: ["NA"] for name in COLUMNS})
    with opened(folder, frame, columns, **more) as curator:
        return str(curator.sql(question).identity)


@pytest.mark.parametrize("key", list(RULES))
def test_a_rule_is_part_of_what_a_question_means(tmp_path: Path, key: str) -> None:
    first, second = RULES[key]
    (column,) = first
    declared = [identity(tmp_path, rules, QUESTIONS[column]) for rules in ({}, first, second)]
    assert len(set(declared)) == (3 if second else 2)


def test_the_nulls_of_a_table_are_part_of_what_its_questions_mean(tmp_path: Path) -> None:
    plain, again, table_wide, own = (
        identity(tmp_path, {}, QUESTIONS["cost"]),
        identity(tmp_path, {}, QUESTIONS["cost"]),
        identity(tmp_path, {}, QUESTIONS["cost"], nulls=("NA",)),
        identity(tmp_path, {"cost": {"nulls": ["?"]}}, QUESTIONS["cost"], nulls=("NA",)),
    )
    assert plain == again
    assert len({plain, table_wide, own}) == 3


def test_a_missing_cell_is_missing_in_every_measure(tmp_path: Path) -> None:
    """Sums, counts, means, medians, filters and groups agree on which cells there are."""
    cells = ["100,5 €"] * 400 + ["NA", "-999", "-999,00 €", "1.000", "?"] * 80 + [None] * 100
    euros = {"decimal": ",", "thousands": ".", "currency": "€"}
    columns = {
        "cost": {"type": "real", "bounds": [0, 5000], "nulls": ["NA", "-999"], **euros},
        "kind": {"values": ["100,5 €", "1.000", "other"], "other": "other", "nullable": True, "nulls": ["NA", "-999"]},
    }
    frame = pd.DataFrame({"cost": cells, "kind": cells})
    present, total = 400 + 80, 400 * 100.5 + 80 * 1000
    with opened(tmp_path, frame, columns) as curator:

        def asked(text: str) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in curator.sql(text).release(epsilon=10**4).to_pandas().iloc[:, :2].values]

        def number(text: str) -> float:
            return float(asked(text)[0][0])

        assert number("SELECT COUNT(*) FROM visits") == pytest.approx(900, abs=0.5)
        assert number("SELECT COUNT(cost) FROM visits") == pytest.approx(present, abs=0.5)
        assert number("SELECT COUNT(*) FROM visits WHERE cost IS NULL") == pytest.approx(900 - present, abs=0.5)
        assert number("SELECT COUNT(*) FROM visits WHERE cost < 1") == pytest.approx(0, abs=0.5)
        assert number("SELECT SUM(cost) FROM visits") == pytest.approx(total, abs=20)
        assert number("SELECT AVG(cost) FROM visits") == pytest.approx(total / present, abs=0.5)
        kinds = {
            str(kind): round(float(count)) for kind, count in asked("SELECT kind, COUNT(*) FROM visits GROUP BY 1")
        }
    assert kinds.pop("100,5 €") == 400
    assert kinds.pop("1.000") == 80
    assert kinds.pop("other") == 80 + 80  # "?" and "-999,00 €", which are texts here
    assert list(kinds.values()) == [80 + 80 + 100]


def test_a_frame_is_protected_with_rules(tmp_path: Path) -> None:
    frame = pd.DataFrame({"day": ["5.3.2024"] * 30 + ["NA"] * 10, "cost": ["1,5"] * 40})
    rules = {"day": {"type": "date", "format": "%d.%m.%Y"}, "cost": {"type": "real", "decimal": ","}}
    where = {"unit": "row", "epsilon": 10**6, "account": "clinic", "ledger": tmp_path / "clinic.ledger"}
    with sf.protect(frame, rules=rules, bounds={"cost": (0, 10)}, **where) as curator:
        answer = curator.sql("SELECT COUNT(day) AS days, SUM(cost) AS costs FROM data").release(epsilon=10**4)
        (row,) = answer.to_pandas().to_dict("records")
        assert (round(row["days"]), round(row["costs"])) == (30, 60)
        assert "written as %d.%m.%Y" in str(curator.tables)
    with pytest.raises(sf.InvalidParameter, match="must be a mapping"):
        sf.protect(frame, rules={"day": "%d.%m.%Y"}, **where)
    with pytest.raises(InvalidPolicy, match="no column of this name"):
        sf.protect(frame, rules={"date": {"format": "%d.%m.%Y"}}, **where)


def test_previews_and_dry_runs_read_invented_rows_under_rules(tmp_path: Path) -> None:
    """Invented rows are clean already: rules leave a listed value as it is."""
    columns = {"sex": {"values": ["Female", "Male"], "case": "lower", "map": {"f": "Female", "m": "Male"}}}
    with opened(tmp_path, pd.DataFrame({"sex": ["F"] * 50}), columns) as curator:
        question = curator.sql("SELECT sex, COUNT(*) FROM visits GROUP BY sex")
        assert sum(question.preview(epsilon=100).to_pandas().iloc[:, 1]) > 900
