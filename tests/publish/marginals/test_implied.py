"""What one column decides of another is read from noisy counts, and is certain only where noise cannot explain them."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from publish.tables import DOMAINS, asked_of_rows, counts, holds, people, planned, published
from publish.worlds import attributes
from sfumato.errors import InvalidParameter
from sfumato.policy import Type
from sfumato.publish.marginals.attributes import (
    Attribute,
    ListedCell,
    OtherCell,
    PublicTableFacts,
    RangeCell,
    holds_one_value,
    infer_dependency,
)

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")

CITY = attributes((7,))[0]
REGION = {"Lyon": "south", "Nice": "south", "Lille": "north", "Metz": "east"}


def test_what_is_certain_is_true_whatever_the_noise_within_its_widths() -> None:
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(300):
        decided = rng.integers(0, 4, CITY.size)
        truth = np.zeros((CITY.size, 4))
        truth[np.arange(CITY.size), decided] = rng.integers(0, 30, CITY.size)
        truth[-1] = rng.integers(0, 30, 4)
        widths = rng.uniform(0, 15, truth.shape)
        read = infer_dependency(truth + rng.uniform(-1, 1, truth.shape) * widths, CITY, widths=widths)
        assert (read.cells == decided)[read.certain].all()
        assert not truth[read.impossible].any()
        assert not read.certain[-1]
        assert not read.impossible[-1].any()
        found += read.certain.sum()
    assert found > 500


def test_the_last_cell_and_wide_bins_decide_nothing() -> None:
    day = dt.date(2024, 1, 1)
    one = [RangeCell(day, day + dt.timedelta(days=1)), RangeCell(day, day, True)]
    assert all(holds_one_value(each, Type.DATE) for each in one)
    assert holds_one_value(RangeCell(3, 4), Type.INTEGER)
    assert holds_one_value(RangeCell(3, 3, True), Type.INTEGER)
    assert holds_one_value(ListedCell("x"), Type.TEXT)
    for cell, kind in (
        (OtherCell(), Type.TEXT),
        (RangeCell(3, 5), Type.INTEGER),
        (RangeCell(3, 4, True), Type.INTEGER),
        (RangeCell("0", "1"), Type.REAL),
        (RangeCell(day, day + dt.timedelta(days=31)), Type.DATE),
    ):
        assert not holds_one_value(cell, kind)
    age = Attribute("age", "integer", (RangeCell(0, 1), RangeCell(1, 9, True), OtherCell()))
    read = infer_dependency(np.full((3, 2), 90.0) * [1, 0], age, widths=1.0)
    assert read.certain.tolist() == [True, False, False]


def test_counts_that_contradict_the_declaration_are_not_certain() -> None:
    read = infer_dependency(np.array([[50.0, 40.0]] * 7), CITY, widths=1.0)
    assert not read.certain.any()
    assert not read.impossible.any()
    assert read.cells.tolist() == [0] * 7


def test_declared_zeros_that_leave_one_cell_need_no_counts() -> None:
    zeros = np.zeros((7, 3), bool)
    zeros[0] = [True, True, False]
    zeros[1] = [True, False, False]
    zeros[2] = True  # nobody can be there at all: nothing follows
    read = infer_dependency(np.array([[9.0, 8.0, -7.0]] * 7), CITY, impossible=zeros)
    assert read.certain.tolist() == [True] + [False] * 6
    assert read.cells[:3].tolist() == [2, 1, 0]
    assert read.impossible[0].tolist() == [True, True, False]


def test_shares_spread_the_rows_of_cells_that_decide_nothing() -> None:
    counts = np.array([[3.0, -1.0, 1.0]] * 6 + [[3.0, -1.0, 1.0]])
    shares = infer_dependency(counts, CITY).shares
    assert shares[:6].tolist() == [[1.0, 0.0, 0.0]] * 6
    assert shares[6].tolist() == [0.75, 0.0, 0.25]
    assert infer_dependency(-counts, CITY).shares[6].tolist() == [0.0, 1.0, 0.0]
    assert infer_dependency(np.full((7, 4), -2.0), CITY).shares[6].tolist() == [0.25] * 4


def test_counts_of_another_shape_are_refused() -> None:
    for shape in ((6, 3), (7,), (7, 0)):
        with pytest.raises(InvalidParameter, match="shape"):
            infer_dependency(np.zeros(shape), CITY)
    for pairs in (("city", "region"), (("city",),), ((1, 2),), ["city"]):
        with pytest.raises(InvalidParameter, match="implies"):
            PublicTableFacts(implies=pairs)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", [("city", "region"), ("region", "city")])
def test_consistent_counts_keep_what_a_policy_implies(order: tuple[str, str], tmp_path: Path) -> None:
    towns = ["Lyon"] * 900 + ["Nice"] * 500 + ["Lille"] * 800 + ["Metz"]
    frame = pd.DataFrame({"city": towns, "region": [REGION[each] for each in towns]})
    values = {"city": list(REGION), "region": ["south", "north", "east"]}
    columns = {name: {"values": values[name]} for name in order}
    table = sf.Table("people", frame, columns, id="row", implies={"city": "region"})
    policy = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(9, "9e-4"), {"people": table})
    with sf.open(policy, ledger=tmp_path / "l") as curator:
        made = curator.marginals("people", 2).release(epsilon=1, delta="1e-9")
    made.save(tmp_path / "people.sfu")
    for each in (made, sf.synopsis(tmp_path / "people.sfu")):
        rows = each.marginal(["city", "region"])
        found = {(city, region): near for city, region, _, near in rows.rows}
        for city in ("Lyon", "Nice", "Lille"):
            others = [region for region in (*values["region"], None) if region != REGION[city]]
            assert [found[city, region] for region in others] == [0.0, 0.0, 0.0]
            assert found[city, REGION[city]] > 100


def test_a_pair_that_was_not_measured_together_changes_nothing(tmp_path: Path) -> None:
    frame = pd.DataFrame({"city": ["Lyon"] * 90, "region": ["south"] * 90})
    columns = {"city": {"values": list(REGION)}, "region": {"values": ["south", "north", "east"]}}
    table = sf.Table("people", frame, columns, id="row", implies={"city": "region"})
    policy = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(9, "9e-4"), {"people": table})
    with sf.open(policy, ledger=tmp_path / "l") as curator:
        made = curator.marginals("people", [["city"], ["region"]]).release(epsilon=1, delta="1e-9")
        alone = curator.marginals("people", [["city"]]).release(epsilon=1, delta="1e-9")
    assert made.published.face.implies == (("city", "region"),)
    assert alone.published.face.implies == ()
    assert min(made.marginal(["city"]).column("consistent")) >= 0


# Bounds

DECIDED = {"A1": "f", "A2": "f", "B1": "m", "B2": "m"}
PAIRS = [("code", "age"), ("code", "sex"), ("smokes", "sex")]


def _people() -> list[tuple[Any, ...]]:
    """People whose code decides their sex, and of whom nobody under 18 smokes; rare codes among them."""
    found = []
    for sex, age, smokes, *rest, code in people(4, 3000):
        child = age is not None and age < 18
        found.append((DECIDED.get(code, sex), age, False if child else smokes, *rest, code))
    return found


@pytest.mark.parametrize("noisy", [False, True])
def test_bounds_use_what_is_declared_and_hold_the_truth(noisy: bool, long: bool) -> None:
    rows = _people()
    plan = planned([*PAIRS, ("age", "smokes")], rho=4)
    declared = PublicTableFacts(DOMAINS, ("age < 18 AND smokes",), "people", (("code", "sex"),))
    bare, told = (
        published(plan, counts(rows), noisy=noisy, face=face)
        for face in (PublicTableFacts(DOMAINS, (), "people"), declared)
    )
    narrower = 0
    codes = (*DECIDED, None) if long else ("A1", "B2", None)
    for code, sex, smokes in itertools.product(codes, ("f", "m"), ("smokes", "NOT smokes")):
        named = f"code = '{code}'" if code else "code IS NULL"
        for rest in ("age < 18", f"age >= 65 AND {smokes}", f"age < 18 AND {smokes}"):
            question = f"SELECT COUNT(*) AS n FROM people WHERE {named} AND sex = '{sex}' AND {rest}"
            ((truth,),) = asked_of_rows(rows, question)
            (wide,), (found,) = (each.sql(question).intervals["n"] for each in (bare, told))
            assert holds(found, truth)
            narrower += found[1] - found[0] < wide[1] - wide[0] - 1
    assert narrower >= (16 if long else 8)


def test_nobody_is_in_a_cell_that_is_declared_impossible() -> None:
    face = PublicTableFacts(DOMAINS, ("age < 18 AND smokes",), "people")
    made = published(planned(PAIRS), counts(_people()), noisy=True, face=face)
    (found,) = made.sql("SELECT COUNT(*) AS n FROM people WHERE age < 18 AND smokes AND sex = 'f'").intervals["n"]
    assert found == (0.0, 0.0)


def test_what_decides_is_certain_beyond_noise_alone() -> None:
    """Among codes with few rows the bounds stay as wide as they are without the declaration."""
    rows = [row for row in _people() if row[-1] != "A2"] + [("f", 70, True, None, None, "A2")] * 2
    plan = planned(PAIRS, rho="0.01")
    made = published(plan, counts(rows), noisy=True, face=PublicTableFacts(DOMAINS, (), "people", (("code", "sex"),)))
    places = made.attribute_indices(["code", "sex"])
    zeros = made._zeros[places]  # sex × code
    assert zeros[:, 0].tolist() == [False, True, True]
    assert not zeros[:, 1].any()
    assert not zeros[:, -1].any()
