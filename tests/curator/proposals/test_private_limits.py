"""Limits found privately: what one unit moves, whatever it holds; what a release finds, costs and refuses."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from covering_cases import covering
from engine.refilling import refill
from mechanisms.recorded import seeded
from sfumato.curator import UnitLimits
from sfumato.curator.proposals.private_bounds import require_private_table
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.errors import InvalidParameter

UNITS = ("", "a", "ab", "aaab", "abcaaaaaaaab")
"""The wards of one unit's rows: the policy's limit of 3, one row more, and far beyond it."""
RELATIONS = ("add-remove", "replace")


def policy_of(rows: pd.DataFrame, neighbours: str = "add-remove", unit: str = "who") -> sf.Policy:
    limit = {} if unit == "row" else {"max_rows": 3}
    columns = {"ward": {"values": ["a", "b", "c"]}, "day": {"type": "integer"}}
    table = sf.Table("visits", rows, columns, id=unit, **limit)
    people = sf.PrivacyUnit("patient", every_row=unit == "row")
    return sf.Policy(people, sf.Budget(10, neighbours=neighbours), {"visits": table}, size=1000)


def curator(rows: pd.DataFrame, folder: Path, *declared: str, **more: str) -> sf.Curator:
    return sf.Curator(policy_of(rows, *declared, **more), folder / f"{len(list(folder.iterdir()))}.ledger")


def frame(*units: str) -> pd.DataFrame:
    cells = [(who, ward, place) for who, own in enumerate(units) for place, ward in enumerate(own)]
    return pd.DataFrame(cells, columns=["who", "ward", "day"]).astype({"who": "int64", "day": "int64", "ward": "str"})


def totals(made: sf.Curator, *by: str) -> np.ndarray:
    return made._context.engine.read(made.limits("visits", by=by)._strategy_at(1).reading, 7)


def table(made: sf.Curator, exact: np.ndarray, *by: str) -> dict[tuple[Any, ...], int]:
    keys = made.limits("visits", by=by)._step_keys
    return {keys[place]: int(exact[place, 0]) for place in np.flatnonzero(exact[:, 0])}


@covering({"relation": RELATIONS, "by": [(), ("ward",)]})
def test_one_unit_moves_no_more_than_is_claimed_in_any_small_world(
    relation: str, by: tuple[str, ...], tmp_path: Path
) -> None:
    with curator(frame("a"), tmp_path, relation) as made:
        draw = made.limits("visits", by=by)._strategy_at(1)
    read, searches = {}, draw.searches
    with closing(DuckDB(policy_of(frame("a"), relation))) as engine:
        for units in combinations_with_replacement(UNITS, 2):
            refill(engine, policy_of(frame(*units), relation))
            read[units] = read[units[::-1]] = engine.read(draw.reading, 7)
    assert len(searches) == 1 + len(by)
    most = [0] * len(searches)
    for first, second, third in product(UNITS, repeat=3):
        if relation == "replace" or not second or not third:
            a, b = read[first, second], read[first, third]
            moved = [each.step_counts.reading.extract(a) - each.step_counts.reading.extract(b) for each in searches]
            most = [max(known, int(np.abs(each).sum())) for known, each in zip(most, moved, strict=True)]
    claimed = [each.step_counts.sensitivity.l1 for each in searches]
    assert most == claimed == [1 if relation == "add-remove" else 2] * len(searches)
    assert [each.inside_outside.sensitivity.l1 for each in searches] == claimed


def test_rows_and_groups_are_counted_beyond_every_limit_of_the_policy(tmp_path: Path) -> None:
    units = ["a", "ab", "abca", "a" * 12, "abc" * 40]
    with curator(frame(*units), tmp_path) as made:
        ladder = made.limits("visits").ladder
        limit = [ladder.bounds_of((place, place))[1] for place in range(len(ladder))]
        rows = {limit[key[0]]: count for key, count in table(made, totals(made)).items()}
        assert rows == {1: 1, 2: 1, 4: 1, 15: 1, 150: 1}
        both = table(made, totals(made, "ward"), "ward")
        assert {(limit[key[1]], limit[key[0]]): n for key, n in both.items()} == {
            (1, 1): 1,
            (2, 2): 1,
            (4, 3): 1,
            (15, 1): 1,
            (150, 3): 1,
        }
        pairs = table(made, totals(made, "ward", "day"), "ward", "day")  # every row is a group of its own
        assert all(key[0] == key[1] for key in pairs)


def test_the_limits_are_those_that_most_units_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)
    units = ["a"] * 600 + ["ab"] * 300 + ["abc"] * 60 + ["abca"] * 40
    with curator(frame(*units), tmp_path) as made:
        found = made.limits("visits", by="ward").release(epsilon=2)
        assert (found.max_rows, found.max_groups) == (3, 3)
        assert (found.rows.inside, found.rows.outside) == (960, 40)
        assert found.toml == "max_rows = 3\nmax_groups = 3"
        assert made.limits("visits", share="0.9").release(epsilon=2).max_rows == 2
        assert made.limits("visits", share="0.99").release(epsilon=2).max_rows == 4


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_release_is_charged_and_found_again(relation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)
    units = ["ab"] * 700 + ["abcabc"] * 300
    with curator(frame(*units), tmp_path, relation) as made:
        proposal = made.limits("visits", by=["ward"])
        said = str(proposal.explain(1))
        assert f"every step with {proposal.error(1):,} or more units" in said
        assert "one row for each patient" in said
        assert proposal.error(proposal.price(60)) <= 60
        assert proposal.count_half_width(1) > made.limits("visits").count_half_width(1)  # two ladders share the price
        found = proposal.release(epsilon=1)
        assert made.budget.remaining["pure"] == 9
        assert (found.max_rows, found.max_groups) == (6, 3)
        assert proposal.release(epsilon="0.5") == found
        assert made.budget.remaining["pure"] == 9
        assert UnitLimits.from_json(found.to_json()) == found
        assert found.receipt is not None
        assert len(found.receipt.mechanisms) == 4
        assert "at most 6 rows" in found.words()
        assert "at most 3 groups" in found.words()


@seeded(8)
def test_an_empty_table_has_no_limits(tmp_path: Path) -> None:
    with curator(frame(), tmp_path) as made:
        found = made.limits("visits").release(epsilon="0.1")
        assert (found.max_rows, found.max_groups, found.toml) == (None, None, "")
        assert "no limit of rows was found" in found.words()
        assert made.budget.remaining["pure"] == Fraction("9.9")


def test_what_cannot_be_limited_is_refused(tmp_path: Path) -> None:
    with curator(frame("a"), tmp_path) as made:
        for by in ("nothing", ["ward", "ward"], "who"):
            with pytest.raises(sf.InvalidParameter, match="different columns of 'visits'"):
                made.limits("visits", by=by)
        for share in (0, 1, 2):
            with pytest.raises(sf.InvalidParameter, match="share"):
                made.limits("visits", share=share)
        with pytest.raises(sf.InvalidParameter, match="one of the private tables: visits"):
            made.limits("nowhere")
        with pytest.raises(sf.InvalidParameter, match="confidence"):
            made.limits("visits").release(epsilon=1, confidence=0)
        assert made.budget.remaining["pure"] == 10
    rows = frame("a")[["ward", "day"]]
    with curator(rows, tmp_path, unit="row") as made, pytest.raises(sf.InvalidParameter, match="no limit is needed"):
        made.limits("visits")


def test_a_period_is_part_of_the_unit(tmp_path: Path) -> None:
    """Two days of one person are two units, each with rows of its own."""
    rows = pd.DataFrame({"who": [1] * 5, "when": pd.to_datetime(["2024-01-01"] * 2 + ["2024-01-02"] * 3)})
    held = sf.Table("visits", rows, {"when": {"type": "date"}}, id="who", max_rows=3, period="when")
    unit = sf.PrivacyUnit("patient", period="day", period_column="when")
    with sf.Curator(sf.Policy(unit, sf.Budget(10), {"visits": held}), tmp_path / "a.ledger") as made:
        assert table(made, totals(made)) == {(1,): 1, (2,): 1}
        draw = made.bounds("visits", "when")._strategy_at(1)
        assert made._context.engine.read(draw.reading, 7).sum() == 2


def test_a_unit_is_no_group_of_itself(tmp_path: Path) -> None:
    columns = {"who": {"type": "integer"}, "ward": {"values": ["a", "b", "c"]}}
    table = sf.Table("visits", frame("aab", "c"), columns, id="who", max_rows=3)
    declared = sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(10), {"visits": table}, size=1000)
    with sf.Curator(declared, tmp_path / "l.ledger") as made:
        for wrong in ("who", ["ward", "who"], ["ward", "ward"], "age"):
            with pytest.raises(InvalidParameter, match="different columns of 'visits'"):
                made.limits("visits", by=wrong)
        assert made.limits("visits", by="ward").by == ("ward",)


def test_private_tables_alone_are_named() -> None:
    wards = sf.Table("wards", pd.DataFrame({"ward": ["a"]}), {"ward": {"values": ["a"]}}, public=True)
    declared = policy_of(frame("a"))
    declared = replace(declared, tables={**declared.tables, "wards": wards})
    assert require_private_table(declared, "visits") is declared.tables["visits"]
    for wrong in ("wards", "beds"):
        with pytest.raises(InvalidParameter) as told:
            require_private_table(declared, wrong)
        assert "one of the private tables: visits;" in f"{told.value};".replace("\n", ";")
