"""Attributes are public values: they read back, and refuse cells and levels that are none."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

import numpy as np
import pytest

from publish.worlds import attribute, leveled
from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell, RangeCell, with_branching_levels

DATES = (
    RangeCell(dt.date(2024, 1, 1), dt.date(2024, 2, 1)),
    RangeCell(dt.date(2024, 2, 1), dt.date(2024, 2, 29), True),
)
TIMES = RangeCell(dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 12))


@pytest.mark.parametrize(
    "own",
    [
        *leveled(),
        Attribute("on", "date", (*DATES, OtherCell()), ((0, 0, 1),)),
        Attribute("at", "timestamp", (TIMES, OtherCell())),
        Attribute(
            "code", "integer", (ListedCell(1), ListedCell(2), OtherCell()), ((0, 1, 2), (0, 0, 1)), ((), ("all",))
        ),
        Attribute("share", "real", (RangeCell(Fraction(1, 3), Fraction(1, 2)), ListedCell(2), OtherCell())),
        Attribute("yes", "boolean", (ListedCell(True), ListedCell(False), OtherCell())),
        Attribute("nothing", "text", (OtherCell(),)),
    ],
)
def test_attributes_read_back(own: Attribute) -> None:
    again = codec.loads_as(Attribute, codec.dumps(own))
    assert again == own
    assert hash(again) == hash(own)
    assert again.without_levels.levels == again.without_levels.labels == ()


@pytest.mark.parametrize(
    ("cells", "levels"),
    [
        ((), ()),
        ((ListedCell(1),), ()),
        ((OtherCell(), ListedCell(1)), ()),
        ((OtherCell(), OtherCell()), ()),
        ((ListedCell(1), ListedCell(1), OtherCell()), ()),
        ((ListedCell("x"), OtherCell()), ()),
        ((RangeCell(2, 1), OtherCell()), ()),
        ((RangeCell(2, 2), OtherCell()), ()),
        ((1, OtherCell()), ()),
        ((ListedCell(1), ListedCell(2), OtherCell()), ((0, 1),)),
        ((ListedCell(1), ListedCell(2), OtherCell()), ((0, 1, 1),)),
        ((ListedCell(1), ListedCell(2), OtherCell()), ((0, -1, 1),)),
        ((ListedCell(1), ListedCell(2), ListedCell(3), OtherCell()), ((0, 0, 1, 2), (0, 1, 1, 2))),
        ((ListedCell(1), ListedCell(2), OtherCell()), (5,)),
        (7, ()),
    ],
)
def test_wrong_cells_and_levels_are_refused(cells: object, levels: object) -> None:
    with pytest.raises(InvalidParameter):
        Attribute("a", "integer", cells, levels)  # type: ignore[arg-type]


@pytest.mark.parametrize("labels", [7, ("ab",), ((1, 2),), (("x", "x"),), (("x",),), (("x", ""),), (("x", "y"), ())])
def test_wrong_names_of_parts_are_refused(labels: object) -> None:
    with pytest.raises(InvalidParameter):
        Attribute("a", "integer", (ListedCell(1), ListedCell(2), OtherCell()), ((0, 1, 2),), labels)  # type: ignore[arg-type]


def test_texts_have_no_ranges() -> None:
    with pytest.raises(InvalidParameter):
        Attribute("a", "text", (RangeCell("a", "b"), OtherCell()))


def test_a_difference_gives_back_what_it_was_made_of() -> None:
    """Counts are the sum over levels of what is spread, whatever the parts."""
    rng = np.random.default_rng(2)
    for own in leveled():
        chain = own.hierarchy
        counts = rng.integers(0, 100, own.size)
        found = counts.sum() * chain.shares
        for each in chain.differences:
            measured = each.measured_values(each.sum_parts(counts, 0), 0) / each.difference_factors
            assert np.allclose(each.centre_among_siblings(measured, 0), measured)
            found = found + each.distribute_to_cells(measured, 0)
        assert np.allclose(found, counts)


def test_branching_joins_neighbours() -> None:
    own = with_branching_levels(attribute(8), 3)
    assert own.levels == ((0, 0, 0, 1, 1, 1, 2, 3),)
    assert with_branching_levels(attribute(3), 3).levels == ()
    with pytest.raises(InvalidParameter):
        with_branching_levels(own, 1)
