"""Findings and sweeps: what they say, how they are drawn, written down and refused."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.attacks import Finding, Findings, Sweep, max_correct
from sfumato.attacks.findings import SuccessCurve

EXACT = Finding("differencing", "exact", 400, 400, 0.5, None, 2)
PRIVATE = Finding("differencing", "private, ε = 1", 231, 400, 0.5, 0.7310585786300049, 2)
BOTH = Findings("differencing", (EXACT, PRIVATE), ("Two totals are subtracted.",))
SWEEP = Sweep(
    "reconstruction", "scale", (1.0, 10.0), (SuccessCurve("least squares", (1.0, 0.5)),), 5.0, "√n", ("Words.",)
)


def test_a_ceiling_holds_up_to_the_last_guess_that_chance_allows() -> None:
    most = max_correct(400, 0.7310585786300049)
    assert Finding("a", "b", most, 400, 0.5, 0.7310585786300049).holds
    assert not Finding("a", "b", most + 1, 400, 0.5, 0.7310585786300049).holds
    assert EXACT.holds  # nothing was promised
    assert "DID NOT HOLD" in str(Finding("a", "b", 400, 400, 0.5, 0.6))
    assert not Findings("a", (EXACT, Finding("a", "b", 400, 400, 0.5, 0.6))).holds


def test_findings_are_told_as_a_table() -> None:
    assert str(BOTH) == (
        "differencing\n"
        "  answers         questions  right   of    share   blind  ceiling\n"
        "  exact                   2    400  400  100.0 %  50.0 %     none\n"
        "  private, ε = 1          2    231  400   57.8 %  50.0 %   73.2 %\n"
        "Two totals are subtracted."
    )
    assert BOTH["private"] is PRIVATE
    assert len(BOTH) == 2
    with pytest.raises(sf.InvalidParameter, match="'exact', 'private"):
        BOTH["rounded"]


def test_a_ceiling_is_shown_rounded_up_and_a_share_to_the_nearest() -> None:
    """A ceiling that is shown lower than it is would be a promise that nobody gave."""
    assert "at most 73.2 % by theory" in str(PRIVATE)
    assert "73.2 %" in BOTH._repr_html_()
    close = Findings("a", (Finding("a", "b", 5001, 10_000, 0.5001, 0.5001),))
    assert str(close).splitlines()[-1].split()[-6:] == ["50.0", "%", "50.0", "%", "50.1", "%"]
    course = Sweep("a", "b", (1.0,), (SuccessCurve("ceiling", (0.5001,)), SuccessCurve("tried", (0.5001,))))
    assert course._table_rows() == [["1", "50.1 %", "50.0 %"]]
    assert "ceiling at 1: 50.1 %" in course.plot().svg


def test_what_guesses_prove_is_a_lower_bound() -> None:
    assert EXACT.epsilon_lower_bound > 3
    assert PRIVATE.epsilon_lower_bound == 0
    assert Finding("a", "b", 400, 400, 0.25).epsilon_lower_bound == 0  # no uniform bits


@pytest.mark.parametrize("value", [EXACT, PRIVATE, BOTH, SWEEP])
def test_values_read_back_what_they_write(value: Finding | Findings | Sweep) -> None:
    assert type(value).from_json(value.to_json()) == value
    assert sf.loads(value.to_json()) == value


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"right":231', '"right":401'),
        ('"right":231', '"right":-1'),
        ('"right":231', '"right":"many"'),
        ('"chance":0.5', '"chance":1.5'),
        ('"chance":0.5', '"chance":"NaN"'),
        ('"trials":400', '"trials":0'),
        ('"ceiling":0.73', '"ceiling":10.73'),
        ('"answers":"private', '"answer":"private'),
        ("attack-finding/1", "guarantee/1"),
    ],
)
def test_hostile_texts_are_refused(old: str, new: str) -> None:
    written = PRIVATE.to_json()
    assert old in written
    with pytest.raises(sf.InvalidParameter):
        Finding.from_json(written.replace(old, new))


def test_findings_hold_findings_alone() -> None:
    for listed in ((), (1,), [EXACT]):
        with pytest.raises(sf.InvalidParameter, match="listed"):
            Findings("a", listed)  # type: ignore[arg-type]


def test_sweeps_refuse_sizes_that_do_not_grow_and_shares_of_another_number() -> None:
    line = SuccessCurve("a", (0.5, 0.5))
    for at in ((), (0.0, 1.0), (2.0, 1.0), (1.0, 1.0), (1.0,)):
        with pytest.raises(sf.InvalidParameter):
            Sweep("a", "b", at, (line,))
    with pytest.raises(sf.InvalidParameter, match="numbers from 0 to 1"):
        SuccessCurve("a", (1.5,))
    with pytest.raises(sf.InvalidParameter, match="name must be one of 'least squares'"):
        SWEEP["other"]
    assert SWEEP["least squares"] == (1.0, 0.5)
    assert "marked: 5, √n" in str(SWEEP)


def test_pictures_draw_the_ceiling_and_escape_every_text() -> None:
    hostile = Findings("<b>", (Finding("<b>", "<script>", 1, 2, 0.5, 0.75),), ("<i>words</i>",))
    for text in (hostile.plot().svg, hostile._repr_html_(), hostile.listed[0]._repr_html_()):
        assert "<script>" not in text
        assert "<i>" not in text
    red = "#c2410c"
    assert BOTH.plot().svg.count(red) == 1  # one kind of answers has a ceiling
    drawn = SWEEP.plot().svg
    assert "√n" in drawn
    assert "least squares at 10: 50.0 %" in drawn
    assert "<td" in SWEEP._repr_html_()
