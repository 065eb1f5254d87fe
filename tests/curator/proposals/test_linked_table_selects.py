"""Keys, columns and room of tables that belong together: small trees worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from sfumato.curator.proposals import linked_table_selects
from sfumato.curator.proposals.linked_table_selects import LinkedPair, LinkedTables, LinkOptions
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.policy import Table
from sfumato.policy.policies import Via

VALUES = {"values": ["a", "b", "c"]}


def table(name: str, *, rows: int = 3, implies: dict[str, str] | None = None, **columns: Any) -> Table:
    source: Any = {"person": [1]} | {column: ["a"] for column in columns}
    import pyarrow as pa

    return Table(name, pa.table(source), columns, id="person", max_rows=rows, implies=implies or {})


KEY = {"type": "integer", "bounds": [1, 9]}


def tree(*, child_rows: int = 3, implies: dict[str, str] | None = None, via: bool = False) -> LinkedTables:
    """People, their visits, and the tests of each visit."""
    people = table("people", rows=1, town=VALUES)
    visits = table("visits", rows=child_rows, implies=implies, person=KEY, visit=KEY, town=VALUES, region=VALUES)
    tests = table("tests", person=KEY, visit=KEY, kind=VALUES)
    own = Via("visits", "visit", "visit") if via else None
    return LinkedTables(
        (
            LinkedPair(people, visits, "person", "person", None),
            LinkedPair(visits, tests, "person", "person", own),
        )
    )


def test_a_key_is_unique_where_rows_are_told_apart_by_it() -> None:
    linked = tree(via=True)
    people, visits, tests = linked.tables
    assert linked.is_unique_key(people, "person")  # one row of a unit
    assert linked.is_unique_key(people, "anything")
    assert linked.is_unique_key(visits, "visit")  # their own key, which tests refer to
    assert not linked.is_unique_key(visits, "person")  # a person has several
    assert not linked.is_unique_key(tests, "visit")  # a visit has several
    assert not linked.is_unique_key(tests, "kind")
    assert not tree().is_unique_key(visits, "person")  # what the children refer to is the parent's own key
    assert linked.is_unique_key(tree(child_rows=1).tables[1], "town")
    assert not linked.is_unique_key(tree(child_rows=2).tables[1], "town")
    several = LinkedTables((LinkedPair(table("people", rows=2, person=KEY), visits, "person", "person", None),))
    assert several.is_unique_key(several.tables[0], "person")  # drawn anew for each row


@pytest.mark.parametrize(
    ("implies", "names", "fix"),
    [
        ({"person": "town"}, ("town", "region"), r"leave the column out: columns=\['visits.region'\]"),
        ({"town": "person"}, ("region", "town"), r"leave the column out: columns=\['visits.region'\]"),
        ({"PERSON": "Town"}, ("town", "region"), r"leave the column out: columns=\['visits.region'\]"),
        ({"person": "town"}, ("town",), "remove person from implies of visits"),
        ({"person": "visit"}, ("town", "region"), "remove person from implies of visits"),
        ({"person": "town"}, ("region",), None),
        ({"town": "region"}, ("town", "region"), None),
        ({"visit": "town"}, ("town", "region"), None),
    ],
)
def test_an_implication_that_new_keys_would_break_is_refused(
    implies: dict[str, str], names: tuple[str, ...], fix: str | None
) -> None:
    class Visits:
        """A table whose implications may be spelled in any case."""

        name, max_rows = "visits", 3

        def __init__(self) -> None:
            self.implies = implies

    visits: Any = Visits()
    people, _, tests = tree(via=True).tables
    linked = LinkedTables(
        (
            LinkedPair(people, visits, "person", "person", None),
            LinkedPair(visits, tests, "person", "person", Via("visits", "visit", "visit")),
        )
    )
    chosen = {"people": ("town",), "visits": names, "tests": ("kind",)}
    people_rules: Any = people.implies
    assert not people_rules
    if fix is None:
        linked_table_selects._refuse_implied_keys(linked, chosen)
    else:
        with pytest.raises(Unsupported, match=fix):
            linked_table_selects._refuse_implied_keys(linked, chosen)


ONE, TWO = {"visits": ("town", "day")}, {"people": ("town",), "visits": ("day",)}


@pytest.mark.parametrize(
    ("option", "chosen", "columns", "rule"),
    [
        ("order", None, ONE, None),
        ("order", "Day", ONE, None),
        ("order", "visits.day", TWO, None),
        ("given", ["town", "VISITS.day"], TWO, None),
        ("given", ("town",), ONE, None),
        ("given", [], ONE, None),
        ("order", "people.day", TWO, "a column of people or visits: people.town, visits.day"),
        ("order", ["day"], ONE, None),
        ("order", 3, ONE, "a column of visits: town, day"),
        ("order", ["days"], ONE, "a list of columns of visits: town, day"),
        ("given", "town", ONE, "a list of columns of visits: town, day"),
        ("given", {"town"}, ONE, "a list of columns of visits: town, day"),
        ("given", ["town", 3], ONE, "a list of columns of visits: town, day"),
        ("given", ["town", "x"], TWO, "a list of columns of people or visits: people.town, visits.day"),
    ],
)
def test_named_columns_are_those_of_the_tables(option: str, chosen: Any, columns: Any, rule: str | None) -> None:
    if rule is None:
        linked_table_selects._require_existing_columns(option, chosen, columns)
    else:
        with pytest.raises(InvalidParameter) as refusal:
            linked_table_selects._require_existing_columns(option, chosen, columns)
        assert rule in str(refusal.value)


@pytest.mark.parametrize(
    ("values", "room", "columns", "left"),
    [
        # cells are values and what is missing: 4, 5, 2 and 2, and four times √100 = 40 combinations fit
        ((3, 4, 1, 1), 100, "oab", 2),
        ((40, 4, 1, 1), 100, "a" + "bc", 5),
        ((39, 4, 1, 1), 100, "o", 2),
        ((3, 1, 1, 1), 99, "oabc", 3),
        ((3, 9, 4, 1), 1, "o", 1),
        ((3, 9, 4, 1), 8, "oc", 1),
        ((9, 9, 9, 9), 1, "", 1),
    ],
)
def test_the_previous_row_is_seen_in_as_many_columns_as_fit(
    values: tuple[int, ...], room: int, columns: str, left: int
) -> None:
    cells = {name: count + 1 for name, count in zip("oabc", values, strict=True)}
    found, room_left = linked_table_selects._previous_columns_and_room(cells, ("a", "o", "b", "c"), "o", room)
    assert ("".join(found), room_left) == (columns, left)


def links(town: int, max_cells: int, order: str | None = None, given: list[str] | None = None) -> Any:
    """People with one town, their visits with two columns of 4 cells, and tests of one: at most 3 of each."""
    people = table("people", rows=2, town={"values": [f"v{index}" for index in range(town)]})
    visits = table("visits", person=KEY, visit=KEY, town=VALUES, region=VALUES)
    tests = table("tests", person=KEY, of=KEY, kind=VALUES)
    linked = LinkedTables(
        (
            LinkedPair(people, visits, "person", "person", None),
            LinkedPair(visits, tests, "person", "person", Via("visits", "of", "visit")),
        )
    )
    return linked_table_selects.build_links(linked, LinkOptions(None, given, order, max_cells=max_cells))


def test_a_link_says_how_rows_meet_and_what_children_are_drawn_given() -> None:
    upper, lower = links(3, 320, "kind")
    assert (upper.parent, upper.child, upper.parent_key, upper.child_key, upper.unit) == (
        *("people", "visits", "person", "person", "person"),
    )
    assert (upper.max_parents, upper.max_children) == (2, 3)
    assert (upper.parent_columns, upper.child_columns) == (("town",), ("town", "region"))
    assert (upper.linked_columns, upper.previous_columns, upper.order, upper.inherited_columns) == (
        ("town",),
        (),
        "",
        (),
    )
    assert (lower.parent, lower.child, lower.parent_key, lower.child_key, lower.unit) == (
        *("visits", "tests", "visit", "of", "person"),
    )
    assert (lower.max_parents, lower.max_children) == (3, 3)
    assert (lower.parent_columns, lower.child_columns) == (("town", "region"), ("kind",))
    # 0, 1, 2, 3 children and those of a first child: 64 cells, of which kind takes 4 and the columns of visits 16
    assert (lower.linked_columns, lower.previous_columns, lower.order) == (("town", "region"), ("kind",), "kind")


@pytest.mark.parametrize(
    ("town", "max_cells", "given", "linked", "inherits"),
    [
        # a fifth of the cells is room for the parent's columns, and what they leave for those of the table above
        (3, 320, None, ("town", "region"), True),
        (3, 319, None, ("town", "region"), False),
        (1, 160, None, ("town", "region"), True),
        (1, 159, None, ("town", "region"), False),
        (1, 100, None, ("town", "region"), False),
        (1, 79, None, ("town",), True),
        (3, 20, ["region", "people.town"], ("region",), False),
        (1, 4, None, (), False),
    ],
)
def test_children_are_drawn_given_what_fits(
    town: int, max_cells: int, given: list[str] | None, linked: tuple[str, ...], inherits: bool
) -> None:
    upper, lower = links(town, max_cells, given=given)
    assert lower.linked_columns == linked
    assert bool(lower.inherited_columns) == inherits
    assert bool(upper.linked_columns) == (max_cells >= 5 * (town + 1))


def test_the_smallest_room_is_one_cell() -> None:
    """Four times its root is room for the four cells of an order."""
    assert links(1, 4, "kind")[1].previous_columns == ("kind",)
    with pytest.raises(Unsupported, match="at most 3 combinations"):
        links(3, 19, given=["visits.town"])


def test_an_implication_among_all_drawn_columns_is_refused() -> None:
    people = table("people", rows=2, town=VALUES)
    visits = table("visits", implies={"person": "town"}, town=VALUES, person={"type": "integer", "values": [1, 2]})
    linked = LinkedTables((LinkedPair(people, visits, "person", "person", None),))
    assert linked.key_columns(visits) == ("person",)
    with pytest.raises(Unsupported, match="remove person from implies of visits"):
        linked_table_selects._refuse_implied_keys(linked, {"people": ("town",), "visits": ("town",)})
