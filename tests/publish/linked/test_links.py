"""Links and the steps of drawing along them, each beside plain Python; models are stand-ins with public fields."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import InvalidParameter
from sfumato.policy import Type
from sfumato.publish import links as state, synthetic_tables
from sfumato.publish.graph.trees import JunctionTree
from sfumato.publish.links import LinkedState, TableLink, require_tree
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell
from sfumato.publish.sampling import SampledRows
from sfumato.publish.synthesis.budget import Concentrated, price_in_currency
from sfumato.publish.synthetic_tables import LinkedModels, SyntheticTables, limit_children_per_unit, sort_within_parents
from sfumato.release.prices import Price


def link(parent: str, child: str, **changes: Any) -> TableLink:
    fields = {
        "parent_key": "id",
        "child_key": parent,
        "unit": "who",
        "max_parents": 1,
        "max_children": 3,
        "parent_columns": ("a", "b"),
        "child_columns": ("c", "d"),
        "linked_columns": ("a",),
    }
    return TableLink(parent, child, **(fields | changes))  # type: ignore[arg-type]


def test_links_are_a_tree_with_parents_before_their_children() -> None:
    require_tree([link("a", "b")])
    require_tree([link("a", "b"), link("b", "c"), link("a", "d"), link("c", "e")])
    for pairs in ("", "ab cd", "ab ab", "ab ba", "ab bc ac", "aa", "bc ab"):
        with pytest.raises(InvalidParameter):
            require_tree([link(*pair) for pair in pairs.split()])
    with pytest.raises(InvalidParameter):
        require_tree(["ab"])  # type: ignore[list-item]


def test_columns_of_a_link_are_those_of_its_tables() -> None:
    for changes, field in (
        ({"max_parents": 0}, "max_parents"),
        ({"max_children": 0}, "max_children"),
        ({"linked_columns": ("a", "c")}, "linked_columns"),
        ({"previous_columns": ("c", "a")}, "previous_columns"),
        ({"order": "c", "child_columns": ()}, "previous_columns"),
        ({"ends": True}, "ends"),
        ({"parent_key": 7}, "parent_key"),
        ({"max_children": 3.0}, "max_children"),
    ):
        with pytest.raises(InvalidParameter) as refusal:
            link("p", "q", **changes)
        assert refusal.value.parameter == field
    assert link("p", "q", child_columns=()).child_columns == ()
    assert link("p", "q", linked_columns=("b", "a"), previous_columns=("d", "c")).linked_columns == ("b", "a")
    linked = link("p", "q", order="d", ends=True, linked_columns=("b",), previous_columns=("d", "c"))
    assert linked.conditioning_columns == ("number of q", "position among q", "p.b", "previous d", "previous c")


def test_as_many_parents_are_drawn_as_leave_room_in_every_table() -> None:
    for totals, rows in (((100, 250, 80), 400), ((100, 10, 20), 1000), ((100, 100), 1000), ((3, 1), 1000)):
        models = {str(index): SimpleNamespace(total=float(total)) for index, total in enumerate(totals)}
        tables: Any = SimpleNamespace(parent=models["0"], models=models)
        assert SyntheticTables.parents_within(tables, 1000) == rows


def test_rows_of_a_unit_are_as_many_as_their_column_says() -> None:
    """But for the last unit of each number, for which there may be too few; a missing number is one row."""
    attribute = Attribute("number of p", Type.INTEGER, (*map(ListedCell, (3, 1, 2)), OtherCell()))
    other = Attribute("a", Type.INTEGER, (ListedCell(0), OtherCell()))
    model = SimpleNamespace(columns=["a", "number of p"], attributes=(other, attribute))
    numbers = np.random.default_rng(3).integers(0, 4, 41)
    cells = np.column_stack([np.arange(41), numbers])
    models: Any = {"p": model}
    units, ordered = LinkedModels((link("p", "q", max_parents=3),), models)._units_and_ordered_cells(cells)
    siblings = [{0: 3, 1: 1, 2: 2, 3: 1}[cell] for cell in ordered[:, 1].tolist()]
    assert siblings == sorted(siblings)
    assert sorted(ordered.tolist()) == sorted(cells.tolist())
    expected: list[int] = []
    for number, rows in groupby(siblings):
        first = expected[-1] + 1 if expected else 0
        expected += [first + index // number for index in range(len([*rows]))]
    assert units.tolist() == expected
    alone, same = LinkedModels((link("p", "q"),), {})._units_and_ordered_cells(cells)
    assert alone.tolist() == [*range(41)]
    assert same is cells


def test_the_first_children_of_a_unit_are_kept() -> None:
    generator = np.random.default_rng(5)
    assert limit_children_per_unit(np.array([2, 2]), np.array([0, 0]), 3).tolist() == [2, 1]
    assert limit_children_per_unit(np.array([2, 2, 2]), np.array([0, 1, 1]), 3).tolist() == [2, 2, 1]
    for limit in (1, 2, 5):
        children = generator.integers(0, 4, 60)
        units = np.cumsum(generator.integers(0, 2, 60) * generator.integers(1, 3, 60))
        kept = limit_children_per_unit(children, units, limit)
        left: Counter[int] = Counter(dict.fromkeys(units.tolist(), limit))
        for unit, count, row in zip(units.tolist(), children.tolist(), kept.tolist(), strict=True):
            assert row == min(count, left[unit])
            left[unit] -= row


@pytest.mark.parametrize("whole_rows", [False, True])
def test_children_are_sorted_within_their_parent_with_missing_values_last(whole_rows: bool) -> None:
    owners = np.array([0, 0, 0, 0, 1, 2, 2])
    codes = np.array([[0, 5], [2, 6], [1, 7], [0, 8], [1, 9], [1, 10], [0, 11]], np.int32)
    values = np.array([4.0, 0.0, 9.0, 3.0, 8.0, 7.0, 1.0])  # of the first column; its cell 2 is missing
    sampler: Any = SimpleNamespace(attribute=SimpleNamespace(size=3))
    rows = SampledRows((sampler, sampler), codes.copy(), {0: values.copy()})
    sort_within_parents(rows, 0, owners, whole_rows=whole_rows)
    order = [3, 0, 2, 1, 4, 6, 5]
    assert rows.codes[:, 0].tolist() == codes[order, 0].tolist()
    assert rows.values[0].tolist() == values[order].tolist()
    assert rows.codes[:, 1].tolist() == codes[order if whole_rows else slice(None), 1].tolist()


@pytest.mark.parametrize("given", [(0, 1), (1,), (2, 3), (4, 5), (5,), (6,)])
def test_other_columns_are_drawn_from_the_distribution_given_some(given: tuple[int, ...]) -> None:
    """A chain, a pair and a column alone: what is given times all conditionals is the whole distribution."""
    generator, sizes, letters = np.random.default_rng(2), (2, 3, 2, 3, 2, 2, 3), "abcdefg"
    tree = JunctionTree.for_sets([(0, 1), (1, 2), (2, 3), (4, 5)], sizes)
    names = ["".join(letters[index] for index in clique) for clique in tree.cliques]
    factors = [generator.random([sizes[index] for index in clique]) for clique in tree.cliques]
    whole = np.einsum(f"{','.join(names)}->{letters}", *factors)
    whole /= whole.sum()
    model: Any = SimpleNamespace(tree=tree, beliefs=[np.einsum(f"{letters}->{name}", whole) for name in names])
    drawn = {*given}
    product = np.einsum(f"{letters}->{''.join(letters[index] for index in given)}", whole)
    subscripts, tables = ["".join(letters[index] for index in given)], [product]
    for conditional in synthetic_tables.conditional_distributions(model, given):
        assert {*conditional.given} <= drawn
        assert not {*conditional.new} & drawn
        drawn |= {*conditional.new}
        new_axes = tuple(range(len(conditional.given), conditional.table.ndim))
        tables.append(conditional.table / conditional.table.sum(new_axes, keepdims=True))
        subscripts.append("".join(letters[index] for index in (*conditional.given, *conditional.new)))
    assert np.einsum(f"{','.join(subscripts)}->{letters}", *tables) == pytest.approx(whole)


def test_columns_that_were_not_modelled_together_cannot_be_given() -> None:
    tree = JunctionTree.for_sets([(0, 1), (1, 2)], (2, 2, 2))
    model: Any = SimpleNamespace(tree=tree, beliefs=[np.ones((2, 2))] * 2)
    with pytest.raises(InvalidParameter) as refusal:
        synthetic_tables.conditional_distributions(model, (0, 2))
    assert refusal.value.parameter == "given"


def test_models_of_linked_tables_are_those_of_their_links() -> None:
    models: Any = {name: SimpleNamespace(total=1.0) for name in "pq"}
    assert SyntheticTables((link("p", "q"),), models, None, None).names == ("p", "q")  # type: ignore[arg-type]
    for links, names in (([link("p", "q")], "qp"), ([link("p", "q")], "p"), ([link("p", "q"), link("r", "s")], "pqs")):
        with pytest.raises(InvalidParameter):
            SyntheticTables(tuple(links), dict.fromkeys(names), None, None)  # type: ignore[arg-type]
    assert LinkedState((link("p", "q"),), models).step_counts == {"p": 0, "q": 0}
    for last in (True, False):
        states: Any = {name: SimpleNamespace(has_model=(name == "r") is last) for name in "pqr"}
        assert LinkedState((link("p", "q"), link("q", "r")), states).has_model is last


def test_noise_per_child_is_that_of_parents_times_their_mean_number_of_children() -> None:
    """But never less than of one parent, and a total below one row counts as one."""
    per_parent = LinkedState._children_per_parent
    assert per_parent(np.array([[6.0, 9.0], [0.0, 3.0]]), np.array([4.0, 2.0])) == 3
    assert per_parent(np.array([1.0, 2.0]), np.array([4.0, 2.0])) == 1
    assert per_parent(np.array([1.0, 2.0]), np.array([0.25, 0.25])) == 3


# ── small steps, worked out by hand ──────────────────────────────────────────────────────────────


def test_positions_among_so_many_children() -> None:
    """One alone is only; of several one is first and one last, and the rest is between."""
    found = [tuple(TableLink.position_counts(children).values()) for children in range(5)]
    assert found == [(0, 0, 0, 0), (0, 0, 0, 1), (1, 0, 1, 0), (1, 1, 1, 0), (1, 2, 1, 0)]
    assert [*TableLink.position_counts(3)] == ["first", "between", "last", "only"]


def test_bands_have_as_many_numbers_as_lie_before_the_next() -> None:
    """A limit of 20 children has the bands 0 to 5, then 7, 9, 12, 16 and 20; beyond the limit are any number."""
    linked = link("p", "q", max_children=20, order="d", ends=True)
    assert linked.bands == (0, 1, 2, 3, 4, 5, 7, 9, 12, 16, 20)
    assert linked.band_widths == (1, 1, 1, 1, 1, 2, 2, 3, 4, 4, 1)
    assert linked.band_labels == ("0", "1", "2", "3", "4", "5-6", "7-8", "9-11", "12-15", "16-19", "20 or more")
    for positions, max_children, possible in (
        (("only",), 20, [1]),
        (("first", "last"), 20, range(2, 11)),
        (("between",), 20, range(3, 11)),
        (("only",), 1, [1]),
        (("first", "last", "between"), 1, [1]),  # one or more
        (("between",), 2, [2]),
    ):
        few = link("p", "q", max_children=max_children, order="d", ends=True)
        for position in positions:
            found = [band for band in range(len(few.bands)) if few.is_possible_position(band, position)]
            assert found == [*possible]


def test_children_of_a_band_are_evenly_many() -> None:
    """Of 5 or 6 children one is first, one last, and 3 or 4 are between."""
    linked = link("p", "q", max_children=20, order="d", ends=True)
    assert state._mean_children(linked, "5-6") == {"first": 1, "between": 3.5, "last": 1, "only": 0}
    assert state._mean_children(linked, "0") == {"first": 0, "between": 0, "last": 0, "only": 0}
    assert state._mean_children(linked, "1") == {"first": 0, "between": 0, "last": 0, "only": 1}
    assert state._mean_children(linked, "20 or more") == {"first": 1, "between": 18, "last": 1, "only": 0}


@pytest.mark.parametrize("ends", [False, True])
def test_children_are_expected_for_each_parent_that_the_model_expects(ends: bool) -> None:
    linked = link("p", "q", max_children=20, order="d", ends=ends)
    bands = (*map(ListedCell, ("1", "5-6", "2")), OtherCell())
    others = tuple(Attribute(name, Type.INTEGER, (ListedCell(1), OtherCell())) for name in "ab")
    parents = np.array([[6.0, 2.0], [4.0, 1.0], [10.0, 0.0], [50.0, 50.0]])  # missing numbers of children have none
    count = Attribute("number of q", Type.TEXT, bands)
    positions = (*map(ListedCell, ("last", "only", "first", "between")), OtherCell())
    position = Attribute("position among q", Type.TEXT, positions)
    given = Attribute("p.a", Type.INTEGER, others[0].cells)
    child = (given, Attribute("number of q", Type.TEXT, (*map(ListedCell, ("5-6", "2", "1")), OtherCell())), position)
    asked: list[Any] = []
    model = SimpleNamespace(marginal=lambda indices: asked.append(indices) or parents)
    noisy = [SimpleNamespace(variance=9.0), SimpleNamespace(variance=4.0)]
    settings = [SimpleNamespace(setting=SimpleNamespace(attributes=each)) for each in ((*others, count), child)]
    vars(settings[0]).update(model=model, marginals=noisy)
    linked_state = LinkedState((linked,), {"p": settings[0], "q": settings[1]})  # type: ignore[dict-item]
    found = linked_state._children_by_parent(linked)
    assert asked == [(2, 0)]
    assert found.attribute_set == ((1, 2, 0) if ends else (1, 0))
    children = {"5-6": (1, 0, 1, 3.5), "2": (1, 0, 1, 0), "1": (0, 1, 0, 0)}  # last, only, first, between
    rows = {"5-6": parents[1], "2": parents[2], "1": parents[0]}
    for index, label in enumerate(children):
        by_position = np.array(children[label])
        if ends:
            assert found.values[index, :4].tolist() == np.multiply.outer(by_position, rows[label]).tolist()
            assert not found.values[index, 4].any()
        else:
            assert found.values[index].tolist() == (by_position.sum() * rows[label]).tolist()
    assert not found.values[3].any()
    # 55.5 children of 123 parents are fewer than one each
    assert found.deviation == 2.0
    parents[3] = 0
    assert linked_state._children_by_parent(linked).deviation == pytest.approx(2 * (5.5 * 5 + 2 * 10 + 8) / 23)


def test_cells_of_positions_follow_from_the_number_of_children() -> None:
    cells = (*map(ListedCell, ("last", "only", "first", "between")), OtherCell())
    attribute = Attribute("position among q", Type.TEXT, cells)
    assert synthetic_tables.position_cells(attribute, np.array([2, 0, 1, 4, 3])).tolist() == [
        2,
        0,
        1,
        2,
        3,
        3,
        0,
        2,
        3,
        0,
    ]
    assert synthetic_tables.position_cells(attribute, np.array([0, 0])).tolist() == []


def test_no_more_parents_are_drawn_than_leave_room_for_their_children(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    class Models:
        def __init__(self, *_: object) -> None: ...

        def draw(self, parents: int) -> dict[str, str]:
            counts.append(parents)
            return {"p": "parents", "q": "children"}

    monkeypatch.setattr(synthetic_tables, "LinkedModels", Models)
    models = {name: SimpleNamespace(total=total) for name, total in (("p", 100.0), ("q", 250.0))}
    tables = SyntheticTables((link("p", "q"),), models, None, None)  # type: ignore[arg-type]
    most = synthetic_tables.MAX_HELD * 2 // 5
    assert tables.draw(1) == tables.draw(most) == {"p": "parents", "q": "children"}
    for refused in (0, most + 1):
        with pytest.raises(InvalidParameter) as refusal:
            tables.draw(refused)
        assert refusal.value.parameter == "parents"
    assert counts == [1, most]
    monkeypatch.setattr(synthetic_tables, "_with_table_name", lambda model, name: (model, name))
    other = tables.renamed("a", "b")
    assert (other.names, [*other.models.values()]) == (("a", "b"), [(models["p"], "a"), (models["q"], "b")])
    assert replace(other, models=models).draw(7) == {"a": "parents", "b": "children"}
    for names in (("a",), ("a", "a"), ("a", "b", "c")):
        with pytest.raises(InvalidParameter) as refusal:
            tables.renamed(*names)
        assert refusal.value.parameter == "names"
    assert (tables.default_parents, counts[-1]) == (100, 7)


class Rows:
    """Drawn rows as typed columns: their cells, by name."""

    def __init__(self, names: list[str], codes: np.ndarray) -> None:
        self.names, self.codes = names, codes
        self.sorted: list[Any] = []

    def to_arrow(self) -> pa.Table:
        return pa.table(dict(zip(self.names, self.codes.T, strict=True)))


class Model:
    """A model with given columns, whose rows come in the order of their numbers."""

    def __init__(self, columns: list[str], counts: list[str] | None = None, **face: Any) -> None:
        self.columns = columns
        cells = (*map(ListedCell, counts or ()), OtherCell())
        self.attributes = [Attribute(name, Type.TEXT, cells) for name in columns]
        self.released = SimpleNamespace(face=SimpleNamespace(**({"impossible": (), "implies": ()} | face)))

    def sample_cells(self, rows: int, _: object) -> np.ndarray:
        return np.column_stack([np.arange(rows) % 3, 10 + np.arange(rows)]).astype(np.int32)

    def typed_rows(self, cells: np.ndarray, *, source: object) -> Rows:
        assert source is None
        return Rows(self.columns, cells)


def test_children_refer_to_their_parents_and_units_keep_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the most children of each band: none, 1, and 2 of a limit of 2; keys count from 1."""
    monkeypatch.setattr(synthetic_tables.bits, "random_below_limits", lambda limits, _: limits - 1)
    drawn_cells: list[Any] = [lambda counts, owners: np.column_stack([owners, counts[owners]])]
    monkeypatch.setattr(synthetic_tables.ModelPair, "_draw_cells", lambda *arguments: drawn_cells[0](*arguments[2:]))
    models: Any = {"p": Model(["number of q", "a"], ["1", "2 or more"]), "q": Model(["c", "d"])}
    plain = link("p", "q", max_children=2, parent_columns=("a",), linked_columns=())
    tables = LinkedModels((plain,), models).draw(5)
    # cells 0, 1, 2, 0, 1 are one child, two, none, one, two
    assert tables["p"].to_pydict() == {"who": [1, 2, 3, 4, 5], "id": [1, 2, 3, 4, 5], "a": [10, 11, 12, 13, 14]}
    assert tables["q"].to_pydict() == {"p": [1, 2, 2, 4, 5, 5], "c": [0, 1, 1, 3, 4, 4], "d": [1, 2, 2, 1, 2, 2]}
    columns = {"parent_columns": ("c",), "child_columns": ("e",), "linked_columns": ()}
    below = link("q", "r", max_children=2, parent_key="key", **columns)
    three: Any = {**models, "q": Model(["number of r", "c"], ["1", "2 or more"]), "r": Model(["e", "f"])}
    deep = LinkedModels((plain, below), three)
    object.__setattr__(plain, "child_columns", ("c",))
    drawn_cells[0] = lambda _, owners: np.column_stack([owners % 2, owners])
    drawn = deep.draw(5)
    assert drawn["q"].column_names == ["p", "key", "c"]
    assert drawn["q"]["key"].to_pylist() == [1, 2, 3, 4, 5, 6]
    # of the units 1, 2, 2, 4, 5, 5 the children by cells 0, 1, 1, 1, 0, 0: no unit has more than two
    assert drawn["r"]["q"].to_pylist() == [1, 2, 2, 4, 4, 5, 6]


@pytest.mark.parametrize(("face", "whole_rows"), [({}, False), ({"impossible": "x"}, True), ({"implies": "x"}, True)])
def test_children_with_an_order_are_sorted_by_it(face: Any, whole_rows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_tables.bits, "random_below_limits", lambda limits, _: limits - 1)
    monkeypatch.setattr(synthetic_tables.ModelPair, "_draw_cells", lambda *_: np.zeros((2, 2)))
    calls: list[Any] = []
    monkeypatch.setattr(
        synthetic_tables, "sort_within_parents", lambda *arguments, **named: calls.append((*arguments, named))
    )
    parent: Any = Model(["number of q", "a"], ["1", "2 or more"])
    child: Any = Model(["c", "d"], **face)
    parents = synthetic_tables.DrawnTable(Rows([], np.array([[2, 0], [1, 0]])), np.array([0, 1]), {})  # type: ignore[arg-type]
    linked = link("p", "q", max_children=2, order="d")
    found = synthetic_tables.ModelPair(linked, parent, child).draw_children(parents)
    ((rows, index, owners, named),) = calls
    assert (rows, index, owners.tolist(), named) == (found.rows, 1, [1, 1], {"whole_rows": whole_rows})
    assert (found.units.tolist(), found.foreign_keys["p"].tolist()) == ([1, 1], [2, 2])
    calls.clear()
    synthetic_tables.ModelPair(link("p", "q", max_children=2), parent, child).draw_children(parents)
    assert not calls


def test_columns_of_tables_above_are_found_in_a_models_nearest_first() -> None:
    links = (link("p", "q"), link("q", "r", order="d", ends=True))
    columns = {"p": ["a", "b", "number of q"], "q": ["c"], "r": ["q.b", "p.a", "c", "number of r"]}
    models: Any = {name: SimpleNamespace(columns=own) for name, own in columns.items()}
    tables = SyntheticTables(links, models, None, None)  # type: ignore[arg-type]
    near, far = tables._ancestors("r", {"p": "people", "q": "stays", "r": "tests"})
    assert (near.table, near.columns) == ("stays", {"b": "q.b", "number of r": "number of r"})
    assert (far.table, far.columns) == ("people", {"a": "p.a"})
    assert tables._ancestors("p", {"p": "people"}) == ()
    owned = {name: tables._columns_of_table(name) for name in "pqr"}
    assert owned == {
        "p": ("a", "b", "number of q"),
        "q": ("c", "d", "number of r"),
        "r": ("c", "d", "position among r"),
    }


def test_amounts_are_within_a_price_exactly_or_by_the_curve_of_their_rho() -> None:
    def is_within(amount: Fraction, price: Price) -> bool:
        tables: Any = SimpleNamespace(price=price, receipt=SimpleNamespace(neighbours="add-remove"))
        return SyntheticTables._is_within_price(tables, amount)

    tiny = Fraction(1, 10**30)
    for price in (Price(2), Price(rho=2)):
        assert is_within(Fraction(2), price)
        assert not is_within(2 + tiny, price)
    both = Price(2, "1e-6")
    currency = price_in_currency(both)
    assert isinstance(currency, Concentrated)
    assert is_within(currency.rho, both)
    assert not is_within(currency.rho * Fraction(101, 100), both)
