"""Drawn rows keep which columns decide others, and have values wherever the policy asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from publish.synthesis.clinic import METHODS
from sfumato.publish.graph.models import GraphicalModel, Potential
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell
from sfumato.publish.synthesis.candidates import zeros_from_model
from sfumato.publish.synthesis.state import CLOSE, SynthesisState
from sfumato.publish.synthetic import Synthetic

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")

TOWNS = [f"t{index}" for index in range(12)]
COLUMNS: dict[str, Any] = {
    "sex": {"values": ["f", "m"]},
    "region": {"values": ["r0", "r1", "r2", "r3"]},
    "town": {"values": TOWNS, "nullable": True},
    "area": {"values": ["a0", "a1"]},
    "height": {"type": "integer", "bounds": [0, 1200], "bins": 6},
    "age": {"type": "integer", "bounds": [0, 90], "bins": 9},
}
CHAIN = {"town": "region", "region": "area"}


def rows(count: int = 1500, seed: int = 3) -> pa.Table:
    """Towns decide regions, regions areas; a twentieth of the towns is missing, and as many sexes are not listed."""
    draw = Random(seed)
    found = []
    for _ in range(count):
        town = draw.randrange(12)
        region = town % 4
        name = TOWNS[town] if draw.random() > 0.05 else None
        sex = draw.choice(["f", "m"]) if draw.random() > 0.05 else "x"
        found.append((sex, f"r{region}", name, f"a{region // 2}", 100 * town + 1, draw.randint(0, 90)))
    return pa.table(dict(zip(COLUMNS, map(list, zip(*found, strict=True)), strict=True)))


def policy(implies: Mapping[str, str], names: list[str], **changed: Any) -> sf.Policy:
    columns = {name: {**COLUMNS[name], **changed.get(name, {})} for name in names}
    own = sf.Table("people", rows().select(names), columns, id="row", implies=implies)
    return sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(10**5, "1e-6"), {"people": own})


def made(
    folder: Path, implies: Mapping[str, str], names: list[str], method: str = "aim", ways: Any = 2, **price: Any
) -> Synthetic:
    with sf.Curator(policy(implies, names), folder / "people.ledger") as curator:
        return curator.synthesize("people", method, ways).release(**(price or {"epsilon": 2, "delta": "1e-9"}))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Synthetic:
    """Rows along a chain of two columns that decide."""
    return made(tmp_path_factory.mktemp("kept"), CHAIN, ["region", "town", "area"])


def decides(table: pa.Table, by: str, decided: str) -> bool:
    """Tell whether all rows with one value of a column have one value, or all none, of another."""
    pairs = {
        (one, other) for one, other in zip(*(table.column(name).to_pylist() for name in (by, decided)), strict=True)
    }
    known = [one for one, _ in pairs if one is not None]
    return len(known) == len(set(known)) > 1


@pytest.mark.parametrize("method", METHODS)
def test_every_row_keeps_what_columns_decide(method: str, tmp_path: Path) -> None:
    """In 20,000 rows, along a chain, for every method; and which region a town has is what the table says."""
    found = made(tmp_path, CHAIN, ["sex", "region", "town", "area"], method)
    drawn = found.sample(20_000)
    for by, decided in CHAIN.items():
        assert decides(drawn, by, decided), by
    regions = dict(zip(drawn.column("town").to_pylist(), drawn.column("region").to_pylist(), strict=True))
    assert all(region == f"r{int(town[1:]) % 4}" for town, region in regions.items() if town is not None)
    model = found.model.marginal((found.columns.index("town"), found.columns.index("region")))
    assert ((model[:-1] > 0).sum(axis=1) == 1).all()  # so its quality is that of rows
    assert [each.what for each in found.rounds if set(each.columns) == {"region", "town"}][:1] == ["first"]


def test_the_decided_cell_is_none_that_is_known_to_be_empty() -> None:
    """The largest counts are of what is missing, where nothing is, and then of a cell that is declared to be empty."""
    one = Attribute("one", "text", (ListedCell("x"), ListedCell("y"), OtherCell()))
    two = Attribute("two", "text", (ListedCell("a"), ListedCell("b"), ListedCell("c"), OtherCell()))
    counts = np.array([[1.0, 5.0, 3.0, 9.0], [2.0, 1.0, 1.0, 8.0], [4.0, 4.0, 4.0, 4.0]])
    empty = np.zeros((3, 4), bool)
    empty[0, 1] = True
    cells = {"nothing is known": (3, 3), "never missing": (1, 0), "and a cell is empty": (2, 0)}
    known: list[dict[str, Any]] = [{}, {"required": (1,)}, {"required": (1,), "zeros": (((0, 1), empty),)}]
    turned: list[dict[str, Any]] = [{}, {"required": (0,)}, {"required": (0,), "zeros": (((0, 1), empty.T),)}]
    for wanted, own, other in zip(cells.values(), known, turned, strict=True):
        kept = np.array([np.arange(4) == wanted[0], np.arange(4) == wanted[1], np.ones(4, bool)])
        model = GraphicalModel.from_potentials((3, 4), [Potential((0, 1), np.log(counts))], counts.sum())
        ((places, zeros),) = zeros_from_model(model, (one, two), ((0, 1),), **own)
        assert (places, zeros.tolist()) == ((0, 1), (~kept).tolist())
        model = GraphicalModel.from_potentials((4, 3), [Potential((0, 1), np.log(counts.T))], counts.sum())
        ((places, zeros),) = zeros_from_model(model, (two, one), ((1, 0),), **other)
        assert (places, zeros.tolist()) == ((0, 1), (~kept).T.tolist())


@pytest.mark.parametrize("price", [{"epsilon": "0.05"}, {"rho": "0.0001"}], ids=str)
def test_it_is_kept_where_noise_decides_which_goes_with_which(price: dict[str, Any], tmp_path: Path) -> None:
    drawn = made(tmp_path, CHAIN, ["region", "town", "area"], **price).sample(20_000)
    assert all(decides(drawn, by, decided) for by, decided in CHAIN.items())


OTHERS: dict[str, tuple[dict[str, str], list[str]]] = {
    "two decided columns": ({"town": "region", "sex": "area"}, ["sex", "area", "town", "region"]),
    "one column that two decide": ({"town": "area", "region": "area"}, ["area", "region", "town"]),
    "columns that decide each other": ({"region": "area", "area": "region"}, ["region", "area", "sex"]),
    "a decided column with bins": ({"town": "height"}, ["town", "height", "sex"]),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_shapes_of_what_decides_are_kept(case: str, tmp_path: Path) -> None:
    implies, names = OTHERS[case]
    drawn = made(tmp_path, implies, names).sample(20_000)
    for by, decided in implies.items():
        assert decides(drawn, by, decided), (by, decided)


def test_what_bins_do_not_decide_is_a_warning_of_the_answer_itself(tmp_path: Path, kept: Synthetic) -> None:
    """Rows break it, and the answer says so, after it was saved too; where rows keep it there is nothing to say."""
    binned = made(tmp_path, {"height": "area"}, ["height", "area", "sex"])
    wanted = "height does not determine area in every row: bins of height hold several values"
    assert not decides(binned.sample(20_000), "height", "area")
    assert binned.warnings == (wanted,)
    assert f"warning    {wanted}" in repr(binned)
    assert Synthetic.from_json(binned.to_json()).warnings == (wanted,)
    assert kept.warnings == ()
    assert "warning" not in repr(kept)


def test_a_model_that_cannot_keep_it_warns(kept: Synthetic) -> None:
    """Rows are drawn from the model as it is where conditioning on what decides leaves none."""
    broken = replace(kept)
    vars(broken)["sampling_model"] = broken.model
    assert len(broken.warnings) == len(CHAIN)
    assert all("leave no such row" in each for each in broken.warnings)


def test_files_and_written_rows_keep_it(tmp_path: Path, kept: Synthetic) -> None:
    kept.save(tmp_path / "people.sfu")
    again = sf.synopsis(tmp_path / "people.sfu")
    assert isinstance(again, Synthetic)
    again.write(tmp_path / "rows.parquet", rows=20_000)
    for drawn in (pq.read_table(tmp_path / "rows.parquet"), Synthetic.from_json(kept.to_json()).sample(20_000)):
        assert all(decides(drawn, by, decided) for by, decided in CHAIN.items())


def test_models_that_were_fitted_without_it_open_and_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an older version fitted them, and as an interrupt leaves them: the pair is in a clique."""
    monkeypatch.setattr(SynthesisState, "finish", lambda self: self.fit(CLOSE))
    found = made(tmp_path, {"town": "region"}, ["region", "town"])
    assert (found.model.marginal((1, 0)) > 0).sum(axis=1).max() > 1
    found.save(tmp_path / "people.sfu")
    monkeypatch.undo()
    assert decides(sf.synopsis(tmp_path / "people.sfu").sample(20_000), "town", "region")  # type: ignore[union-attr]


def test_rows_without_a_deciding_value_have_any_decided_one(tmp_path: Path) -> None:
    drawn = made(tmp_path, {"town": "region"}, ["region", "town"], rho=1).sample(20_000)
    pairs = zip(drawn.column("town").to_pylist(), drawn.column("region").to_pylist(), strict=True)
    assert {region for town, region in pairs if town is None} == {"r0", "r1", "r2", "r3"}


def test_levels_that_say_how_are_kept_where_the_decided_column_is_asked_for(tmp_path: Path) -> None:
    """The policy says which region a town has: no count is needed, and none can say otherwise."""
    levels = {f"r{each}": [town for town in TOWNS if int(town[1:]) % 4 == each] for each in range(4)}
    town = {"levels": levels, "values": None, "nullable": True}
    columns = {"town": {key: each for key, each in town.items() if each is not None}, "region": COLUMNS["region"]}
    columns["area"] = COLUMNS["area"]
    own = sf.Table("people", rows().select(list(columns)), columns, id="row", implies=CHAIN)
    unit = sf.PrivacyUnit("person", every_row=True)
    with sf.Curator(sf.Policy(unit, sf.Budget(10, "1e-6"), {"people": own}), tmp_path / "people.ledger") as curator:
        proposal = curator.synthesize("people", "aim", 2)
        assert [each.name for each in proposal.attributes] == ["town", "region", "area"]  # a region decides an area
        assert proposal.learned_implications == ((1, 2),)
        drawn = proposal.release(epsilon="0.05").sample(20_000)
    assert decides(drawn, "region", "area")
    for name, region in zip(drawn.column("town").to_pylist(), drawn.column("region").to_pylist(), strict=True):
        assert name is None or region == f"r{int(name[1:]) % 4}"


def test_explaining_says_what_is_kept_and_what_is_not(tmp_path: Path) -> None:
    names = ["town", "region", "age", "sex"]
    with sf.Curator(policy({"town": "region", "age": "sex"}, names), tmp_path / "people.ledger") as curator:
        told = str(curator.synthesize("people").explain(rho=1))
    assert "town → region" in told
    assert "not kept: bins of age have several values" in told


def test_a_pair_that_a_model_cannot_hold_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    with sf.Curator(policy({"town": "region"}, ["town", "region"]), tmp_path / "people.ledger") as curator:
        with pytest.raises(sf.Unsupported, match="too small to hold both town and region") as refused:
            curator.synthesize("people", ways=1, memory="4 KiB")
        assert "memory=" in str(refused.value)
        assert curator.synthesize("people", ways=1, memory="1 MiB").learned_implications == ((0, 1),)


# ── missing values ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "method", ["aim", "independent", *(pytest.param(each, marks=pytest.mark.long) for each in ("mst", "mwem"))]
)
def test_columns_that_are_not_nullable_are_drawn_without_nulls(method: str, tmp_path: Path) -> None:
    """A twentieth of the sexes is not listed and of the towns missing: these alone are NULL, as often as measured."""
    drawn = made(tmp_path, {}, ["sex", "town", "age"], method, rho=5).sample(20_000)
    assert [drawn.column(name).null_count for name in ("sex", "age")] == [0, 0]
    assert 600 < drawn.column("town").null_count < 1400


def test_the_mass_of_what_is_missing_goes_to_the_declared_cells_by_their_shares(tmp_path: Path) -> None:
    """Given the other columns: of the rows in each cell of ``sex`` × ``region`` as many as there were, scaled up."""
    data = pa.table(
        {
            "sex": ["f"] * 900 + ["m"] * 100 + ["x"] * 1000 + ["f"] * 300 + ["m"] * 700,
            "region": ["r0"] * 2000 + ["r1"] * 1000,
        }
    )
    columns = {"sex": COLUMNS["sex"], "region": {"values": ["r0", "r1"]}}
    own = sf.Table("people", data, columns, id="row")
    unit = sf.PrivacyUnit("person", every_row=True)
    with sf.Curator(sf.Policy(unit, sf.Budget(10**6, "1e-6"), {"people": own}), tmp_path / "p.ledger") as curator:
        found = curator.synthesize("people", "aim", 2).release(rho=1000)
    law = found.sampling_model.marginal((0, 1))
    assert law[-1].sum() == law[:, -1].sum() == 0
    assert law[0, 0] / law[1, 0] == pytest.approx(9, rel=0.02)
    assert law[0, 1] / law[1, 1] == pytest.approx(3 / 7, rel=0.02)
    assert law.sum() == pytest.approx(found.total)
    own_column = next(each for each in found.quality().marginals if each.columns == ("sex",))
    assert own_column.distance == pytest.approx(1 / 3, abs=0.01)  # a third of the rows has no sex that is listed
    counted = found.sql("SELECT COUNT(*) AS n FROM people WHERE sex IS NULL")
    assert counted.rows[0][0] == pytest.approx(1000, abs=5)  # questions are about the people, not about rows


def test_a_column_of_which_no_value_is_left_is_drawn_as_it_was_measured(tmp_path: Path) -> None:
    data = pa.table({"sex": ["x"] * 50, "region": ["r0"] * 50})
    columns = {name: COLUMNS[name] for name in ("sex", "region")}
    own = sf.Table("people", data, columns, id="row", impossible=["sex IS NOT NULL"])
    unit = sf.PrivacyUnit("person", every_row=True)
    with sf.Curator(sf.Policy(unit, sf.Budget(100, "1e-6"), {"people": own}), tmp_path / "p.ledger") as curator:
        found = curator.synthesize("people", "aim", 1).release(rho=5)
    assert found.sample(100).column("sex").null_count == 100
