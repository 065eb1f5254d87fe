"""Aggregates and windows of one unit's rows: what each text is lowered to, at the edges of what is taken."""

from __future__ import annotations

import pytest

from plan.described import CATALOG
from sfumato.errors import Unsupported
from sfumato.plan.aggregates.unit_measures import (
    MAX_ROWS,
    FrameBounds,
    LagLead,
    RankingFunction,
    RunningAggregate,
    UnitDistinct,
    UnitFirst,
    UnitMeasure,
    UnitRowCount,
    WindowEndValue,
    WindowFunction,
)
from sfumato.plan.nodes import PerUnit, Window, relations
from sfumato.plan.sql.statements import parse
from sfumato.plan.values.expressions import Column


def measure(text: str) -> UnitMeasure:
    plan = parse(f"SELECT COUNT(x) FROM (SELECT {text} AS x FROM visits GROUP BY patient_id)", CATALOG).plan
    (node,) = (node for node in relations(plan.source) if isinstance(node, PerUnit))
    ((_, lowered),) = node.results
    return lowered


def window(text: str) -> WindowFunction:
    plan = parse(f"SELECT COUNT(x) FROM (SELECT {text} AS x FROM visits)", CATALOG).plan
    (node,) = (node for node in relations(plan.source) if isinstance(node, Window))
    ((_, lowered),) = node.functions
    return lowered


@pytest.mark.parametrize(
    ("text", "cap"),
    [
        ("COUNT(*)", 10),  # the policy's limit of rows
        ("LEAST(COUNT(*), 1)", 1),
        ("LEAST(3, COUNT(*))", 3),
        (f"LEAST(COUNT(*), {MAX_ROWS})", MAX_ROWS),
        ("LEAST(COUNT(*) FILTER (WHERE urgent), 4)", 4),
        ("LEAST(COUNT_IF(urgent), 5)", 5),
        ("COUNT(1)", 10),
        ("COUNT()", 10),
        ("LEAST(COUNT(*))", 10),
    ],
)
def test_a_count_holds_no_more_than_its_cap(text: str, cap: int) -> None:
    lowered = measure(text)
    assert isinstance(lowered, UnitRowCount)
    assert lowered.cap == cap
    assert (lowered.where is not None) == ("urgent" in text)
    assert lowered.domain.range == ("urgent" not in text, cap)  # a unit without rows has no result at all


def test_what_is_counted() -> None:
    assert measure("COUNT(NULL)") != measure("COUNT(*)")
    assert measure("COUNT(1)") == measure("COUNT(*)")
    assert measure("COUNT(age)") == measure("COUNT(*) FILTER (WHERE age IS NOT NULL)")
    assert measure("COUNT(age) FILTER (WHERE urgent)") == measure("COUNT(*) FILTER (WHERE age IS NOT NULL AND urgent)")
    distinct = measure("LEAST(COUNT(DISTINCT region), 2)")
    assert isinstance(distinct, UnitDistinct)
    assert distinct.domain.range == (0, 2)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("LEAST(COUNT(*), 0)", "cap"),
        (f"LEAST(COUNT(*), {MAX_ROWS + 1})", "cap"),
        ("SUM(ward)", "type-mismatch"),
        ("SUM(score)", "unbounded"),
        ("AVG(DISTINCT age)", "aggregate"),
        ("MEDIAN(age)", "aggregate"),
        ("SUM(age ORDER BY day)", "aggregate"),
        ("MAX(*)", "aggregate"),
        ("MIN(age, 3)", "aggregate"),
        ("COUNT(*) FILTER (WHERE age)", "type-mismatch"),
        ("FIRST(age)", "no-order"),
        ("FIRST(age ORDER BY 1)", "order"),
    ],
)
def test_aggregates_that_are_refused(text: str, code: str) -> None:
    with pytest.raises(Unsupported) as refused:
        measure(text)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "text",
    [
        *("LEAST(COUNT(*), 3, 4)", "LEAST(COUNT(*), '3')", "LEAST(COUNT(*), COUNT(age))", "LEAST(COUNT(*), 2.5)"),
        *("LEAST(COUNT(*), COUNT(age), 3)", "LEAST(COUNT(*), 3, MAX(age))"),
    ],
)
def test_only_a_count_beside_one_whole_number_is_capped(text: str) -> None:
    """Whatever is made of anything else is a function of counts that keep the limit of rows of the policy."""
    try:
        plan = parse(f"SELECT COUNT(x) FROM (SELECT {text} AS x FROM visits GROUP BY patient_id)", CATALOG).plan
    except Unsupported:
        return
    (node,) = (node for node in relations(plan.source) if isinstance(node, PerUnit))
    assert {lowered.cap for _, lowered in node.results if isinstance(lowered, UnitRowCount)} == {10}


def test_the_order_of_firsts_and_lasts() -> None:
    first, last = measure("FIRST(age ORDER BY day)"), measure("LAST(age ORDER BY day)")
    assert isinstance(first, UnitFirst)
    assert isinstance(last, UnitFirst)
    directions = [(str(term.expression.reference.name), term.descending, term.nulls_first) for term in first.order]  # type: ignore[attr-defined]
    assert directions == [("day", False, False), ("age", False, False)]
    assert [(term.descending, term.nulls_first) for term in last.order] == [(True, True), (True, True)]
    own = measure("FIRST(age ORDER BY age DESC NULLS FIRST)")
    assert isinstance(own, UnitFirst)
    assert [(term.descending, term.nulls_first) for term in own.order] == [(True, True)]
    for name, descending in (("ARG_MIN", False), ("ARG_MAX", True)):
        extreme = measure(f"{name}(age, day)")
        assert isinstance(extreme, UnitFirst)
        assert [(term.descending, term.nulls_first) for term in extreme.order] == [(descending, False), (False, False)]
        assert extreme == measure(
            f"FIRST(age ORDER BY day {'DESC' if descending else 'ASC'} NULLS LAST)"
            " FILTER (WHERE age IS NOT NULL AND day IS NOT NULL)"
        )


OVER = "OVER (PARTITION BY patient_id ORDER BY day)"


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        (f"LAG(age) {OVER}", -1),
        (f"LEAD(age) {OVER}", 1),
        (f"LAG(age, 0) {OVER}", 0),
        (f"LAG(age, 3) {OVER}", -3),
        (f"LEAD(age, 1000) {OVER}", 1000),
    ],
)
def test_how_far_a_value_is_shifted(text: str, offset: int) -> None:
    shifted = window(text)
    assert isinstance(shifted, LagLead)
    assert (shifted.offset, shifted.default) == (offset, None)
    assert shifted.domain.nullable
    assert shifted.domain.range == (0, 110)


def test_a_default_widens_the_range_of_a_shifted_value() -> None:
    shifted = window(f"LAG(age, 2, 200) {OVER}")
    assert isinstance(shifted, LagLead)
    assert shifted.default is not None
    assert shifted.domain.range == (0, 200)


def test_positions_count_one_row_more_than_the_limit() -> None:
    """The last position stands for all later ones."""
    for name in ("ROW_NUMBER()", "RANK()", "DENSE_RANK()"):
        position = window(f"{name} {OVER}")
        assert isinstance(position, RankingFunction)
        assert position.cap == 11
        assert position.domain.range == (1, 11)


FRAMES = {
    "PARTITION BY patient_id": FrameBounds.WHOLE,
    "PARTITION BY patient_id ORDER BY day": FrameBounds.PEERS,
    "PARTITION BY patient_id ORDER BY day ROWS UNBOUNDED PRECEDING": FrameBounds.ROWS,
    "PARTITION BY patient_id ORDER BY day RANGE UNBOUNDED PRECEDING": FrameBounds.PEERS,
    "PARTITION BY patient_id ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW": FrameBounds.ROWS,
    "PARTITION BY patient_id ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING": FrameBounds.WHOLE,
    "PARTITION BY patient_id ROWS UNBOUNDED PRECEDING": FrameBounds.WHOLE,
}


@pytest.mark.parametrize("over", FRAMES)
def test_the_frame_of_a_running_aggregate(over: str) -> None:
    running = window(f"SUM(age) OVER ({over})")
    assert isinstance(running, RunningAggregate)
    assert running.frame is FRAMES[over]
    assert len(running.order) == (running.frame is not FrameBounds.WHOLE)
    assert running.domain.range == (0, 1100)


@pytest.mark.parametrize(
    ("text", "last", "peers"),
    [
        (f"FIRST_VALUE(age) {OVER}", False, False),
        (f"FIRST_VALUE(age) {OVER[:-1]} ROWS UNBOUNDED PRECEDING)", False, False),
        (f"LAST_VALUE(age) {OVER}", True, True),
        ("LAST_VALUE(age) OVER (PARTITION BY patient_id ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING"
         " AND UNBOUNDED FOLLOWING)", True, False),
    ],
)  # fmt: skip
def test_the_value_at_an_end(text: str, last: bool, peers: bool) -> None:
    value = window(text)
    assert isinstance(value, WindowEndValue)
    assert (value.last, value.peers) == (last, peers)


def test_the_keys_of_a_partition_beside_the_unit() -> None:
    keyed = window("SUM(age) OVER (PARTITION BY ward, region, patient_id, ward)")
    assert isinstance(keyed, RunningAggregate)
    assert [key.reference.name for key in keyed.keys if isinstance(key, Column)] == ["region", "ward"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"LAG(age, -1) {OVER}", "window"),
        (f"LAG(age, 1001) {OVER}", "window"),
        (f"LAG(age, hospital) {OVER}", "window"),
        (f"LAG(age, 'x') {OVER}", "window"),
        (f"LAG(age, 1.5) {OVER}", "window"),
        (f"LAG(age, TRUE) {OVER}", "window"),
        (f"LAG(age, CAST(NULL AS INTEGER)) {OVER}", "window"),
        (f"ROW_NUMBER(age) {OVER}", "window"),
        ("NTILE(4) OVER (PARTITION BY patient_id ORDER BY day)", "aggregate"),
        ("SUM(age) OVER (PARTITION BY patient_id ORDER BY day GROUPS UNBOUNDED PRECEDING)", "frame"),
        ("LAG(age) OVER (PARTITION BY patient_id)", "no-order"),
        ("ROW_NUMBER() OVER (PARTITION BY patient_id)", "no-order"),
        ("FIRST_VALUE(age) OVER (PARTITION BY patient_id)", "no-order"),
        ("ROW_NUMBER() OVER (ORDER BY day)", "not-by-unit"),
        ("SUM(age) OVER (PARTITION BY region)", "not-by-unit"),
        ("NTILE(4) OVER (ORDER BY day)", "window"),
        (f"COUNT(DISTINCT age) {OVER}", "window"),
        (f"ROUND(age) {OVER}", "window"),
        ("LAST_VALUE(age) OVER (PARTITION BY patient_id ORDER BY day ROWS UNBOUNDED PRECEDING)", "frame"),
        ("SUM(age) OVER (PARTITION BY patient_id ORDER BY day ROWS 1 PRECEDING)", "frame"),
        ("SUM(age) OVER (PARTITION BY patient_id ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING)",
         "frame"),
        ("SUM(age) OVER (PARTITION BY patient_id ORDER BY day ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
         "frame"),
        ("SUM(age) OVER (PARTITION BY patient_id ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
         " EXCLUDE TIES)", "frame"),
    ],
)  # fmt: skip
def test_windows_that_are_refused(text: str, code: str) -> None:
    with pytest.raises(Unsupported) as refused:
        window(text)
    assert refused.value.code == code


@pytest.mark.parametrize("function", ["SUM(age)", "ROW_NUMBER()"])
def test_a_named_window_without_a_partition_is_refused_as_a_written_one(function: str) -> None:
    for windows in ("(ORDER BY day)", "()"):
        text = f"SELECT COUNT(x) FROM (SELECT {function} OVER w AS x FROM visits WINDOW w AS {windows})"
        with pytest.raises(Unsupported) as refused:
            parse(text, CATALOG)
        assert refused.value.code == "not-by-unit"
