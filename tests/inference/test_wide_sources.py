"""What one unit moves where the rows of a model are a join, one row per unit or a UNION ALL, by enumeration; and that
these rows are those that SQL selects.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from covering_cases import covering
from inference.test_logistic import moved_by_worlds, plan_by_world
from inference.test_moments import read_worlds
from sfumato.curator.kinds.regressions import RegressionSpec
from sfumato.curator.proposals.moment_proposals import select_rows
from sfumato.curator.tables import selected_rows
from sfumato.errors import InvalidParameter, SfumatoError, Unsupported
from sfumato.inference.row_expressions import rounded_coefficients
from sfumato.plan.readings.total_readings import GroupTotals

WORLD = {"type": "integer", "bounds": [0, 10_000]}
NUMBERS: dict[str, dict[str, Any]] = {
    "world": WORLD,
    "x": {"type": "integer", "bounds": [-1, 3]},
    "y": {"type": "integer", "bounds": [0, 10]},
    "ward": {"values": ["a", "b"]},
}
PEOPLE: dict[str, dict[str, Any]] = {"cohort": WORLD, "sex": {"values": ["F", "M"]}}
WARDS: dict[str, dict[str, Any]] = {"ward": {"values": ["a", "b"]}, "beds": {"type": "integer", "bounds": [0, 40]}}
BEDS = [("a", 0), ("b", 40), ("b", 10)]
"""A ward is matched by two public rows, so that a join repeats a unit's rows."""
CORNERS = [*product([-1, 3], [0, 10], ["a", "b"]), (9, 12, "b"), (None, 10, "a"), (3, 5, "else")]

SOURCES = {
    "a join of two private tables": (
        "SELECT world, x, y, sex FROM visits JOIN people USING (who)",
        "y ~ x + sex",
        "sex ~ x + y",
    ),
    "a join that repeats rows": (
        "SELECT world, x, beds, y, v.ward FROM visits v JOIN wards ON v.ward = wards.ward",
        "y ~ x + beds",
        "ward ~ x + beds",
    ),
    "one row per unit": (
        "SELECT who, MAX(world) AS world, LEAST(SUM(y), 20) AS y, COUNT(*) AS n, MAX(x) > 0 AS far "
        "FROM visits GROUP BY who",
        "y ~ n + far",
        "far ~ n + y",
    ),
    "one row per unit, joined": (
        "SELECT world, n, y, sex FROM people JOIN (SELECT who, MAX(world) AS world, COUNT(*) AS n, MIN(y) AS y "
        "FROM visits GROUP BY who) v USING (who)",
        "y ~ n + sex",
        "sex ~ n + y",
    ),
    "a union": (
        "SELECT who, world, x, y, ward FROM visits UNION ALL SELECT who, world, y - 1, x + 1, ward FROM visits",
        "y ~ x + ward",
        "ward ~ x + y",
    ),
}


def worlds() -> list[tuple[tuple[Any, ...], ...]]:
    """Return what one unit may hold: nothing, every single row, and pairs and triples of telling ones; two count."""
    telling = [CORNERS[0], CORNERS[3], CORNERS[5], CORNERS[6], CORNERS[7], CORNERS[9]]
    many = [held for size in (2, 3) for held in combinations_with_replacement(telling, size)]
    return [(), *((row,) for row in CORNERS), *many]


def visits_curator(folder: Path, neighbours: str = "add-remove", most: int = 2) -> tuple[sf.Curator, int]:
    """Return a curator of people with visits, a world for each, and the number of worlds."""
    held = worlds()
    rows = [(number, number, *row) for number, world in enumerate(held) for row in world]
    visits = pd.DataFrame(rows, columns=["who", "world", "x", "y", "ward"])
    people = [(number, number, "FM"[number % 2]) for number in range(len(held))]
    tables = {
        "visits": sf.Table("visits", visits, NUMBERS, id="who", max_rows=most),
        "people": sf.Table(
            "people", pd.DataFrame(people, columns=["who", "cohort", "sex"]), PEOPLE, id="who", max_rows=1
        ),
        "wards": sf.Table("wards", pd.DataFrame(BEDS, columns=["ward", "beds"]), WARDS, public=True),
    }
    budget = sf.Budget(10_000, "1e-5", neighbours=neighbours)
    return sf.Curator(
        sf.Policy(sf.PrivacyUnit("person"), budget, tables, size=len(held)), folder / "visits.ledger"
    ), len(held)


def read_totals(proposal: Any) -> np.ndarray:
    """Return the measured vector of a proposal of moments without its noise."""
    reading = GroupTotals(proposal.moments.bounded, ((),))
    with proposal._context.engine.check(reading) as opened:
        return np.array(proposal.moments.extract(opened.read(reading, 7)))


def moved_squares(measured: np.ndarray, neighbours: str) -> float:
    """Return the largest squared distance that adding or replacing one unit of these moves."""
    gram = measured.astype(float) @ measured.astype(float).T
    squares = np.diag(gram)
    moved = squares if neighbours == "add-remove" else squares[:, None] + squares[None, :] - 2 * gram
    return float(moved.max())


@covering({"source": [*SOURCES], "neighbours": ("add-remove", "replace")})
def test_no_unit_moves_a_model_of_wide_rows_further_than_is_charged(
    source: str, neighbours: str, tmp_path: Path, long: bool
) -> None:
    """More coefficients are tried in the long run: they concern a row, whatever the rows are made of."""
    select, linear, logistic = SOURCES[source]
    made, count = visits_curator(tmp_path, neighbours)
    with made:
        rows = select_rows(made._context.engine.catalog(), select, None)
        proposal = made.regress(linear, select)
        moments, measured = read_worlds(proposal, rows, count)
        assert moments.sensitivity.neighbours.value == neighbours
        assert len(np.unique(measured, axis=0)) >= 10
        assert moved_squares(measured, neighbours) <= float(moments.sensitivity.squares)
        # a world whose unit holds as many rows as count reaches most of it, though no row of it is at every corner
        reach = moved_squares(measured, neighbours) / float(moments.sensitivity.squares)
        assert reach > 0.25, reach
        odds = made.logistic(logistic, select)
        size = len(odds.logistic.design.coordinates) - 1
        far, split = np.zeros(size), np.zeros(size)
        far[0], split[1] = -50, 50
        plan = plan_by_world(odds, rows)
        for values in (far, split, np.zeros(size)) if long else (split, np.zeros(size)):
            totals, measured = moved_by_worlds(odds, plan, count, rounded_coefficients(values))
            assert moved_squares(measured, neighbours) <= float(totals.sensitivity.squares)
        assert len(np.unique(measured, axis=0)) >= 10


def test_limits_follow_the_rows_that_are_modelled(tmp_path: Path) -> None:
    made, _ = visits_curator(tmp_path)
    with made:
        most = {
            name: made.regress(linear, select).moments.rows_per_unit for name, (select, linear, _) in SOURCES.items()
        }
        assert list(most.values()) == [2, 2, 1, 1, 4]
        assert made.regress(SOURCES["a union"][1], SOURCES["a union"][0], rows=1).moments.rows_per_unit == 1


def test_a_select_and_a_view_are_the_same_rows(tmp_path: Path) -> None:
    made, _ = visits_curator(tmp_path)
    with made:
        joined = made.table("visits").where("x > 0").join("people", on=["who"])
        join = "SELECT x, y, sex FROM visits JOIN people USING (who) WHERE x > 0"
        assert (read_totals(joined.regress("y ~ x + sex")) == read_totals(made.regress("y ~ x + sex", join))).all()
        counted = made.table("visits").per_unit(n=sf.count(), y="LEAST(SUM(y), 20)").where("n > 1")
        count = "SELECT who, COUNT(*) AS n, LEAST(SUM(y), 20) AS y FROM visits GROUP BY who"
        of_view, of_select = counted.components(["n", "y"]), made.components(["n", "y"], count, where="n > 1")
        assert (read_totals(of_view) == read_totals(of_select)).all()
        assert of_view.moments.sensitivity == of_select.moments.sensitivity
        with_clause = f"WITH counted AS ({count}) SELECT n, y FROM counted"
        assert (read_totals(made.components(["n", "y"], with_clause, where="n > 1")) == read_totals(of_view)).all()
        answer = made.components(["n", "y"], count).release(epsilon=2, delta="1e-6")
        assert "GROUP BY who" in answer.receipt.question


def test_rows_that_another_curator_selected_are_refused(tmp_path: Path) -> None:
    """Their declared bounds and limits are another policy's: noise would be scaled for other rows than are read."""
    (tmp_path / "other").mkdir()
    with visits_curator(tmp_path)[0] as made, visits_curator(tmp_path / "other", most=1)[0] as other:
        own = RegressionSpec(selected_rows(made.table("visits").where("y > 0")), "y ~ x")
        assert made.propose(own).moments.rows_per_unit == 2
        with pytest.raises(InvalidParameter, match="rows selected by this curator"):
            made.propose(RegressionSpec(selected_rows(other.table("visits")), "y ~ x"))


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
def test_survival_of_units_with_several_rows_is_one_row_of_each(tmp_path: Path) -> None:
    made, count = visits_curator(tmp_path)
    last = "SELECT who, MAX(y) AS y, MAX(x) > 0 AS far FROM visits GROUP BY who"
    with made:
        with pytest.raises(Unsupported, match="allows 2 rows per unit"):
            made.survival("visits", "y", "ward", event_is="a")
        with pytest.raises(Unsupported, match="allows 4 rows per unit"):
            made.survival(SOURCES["a union"][0], "y", "ward", event_is="a")
        curves = made.survival(last, "y", "far").release(epsilon=50)
        held = [world for world in worlds() if any(row[1] is not None and row[0] is not None for row in world)]
        assert sum(curves.events[0]) + sum(curves.censored[0]) == pytest.approx(len(held), abs=0.6)
        assert count > len(held)
        view = made.table("visits").per_unit(y="MAX(y)", far="MAX(x) > 0").survival("y", "far")
        assert view.periods == made.survival(last, "y", "far").periods


@pytest.mark.parametrize(
    "source",
    [
        "SELECT x FROM nowhere",
        "SELECT x, y FROM visits LIMIT 3",
        "SELECT beds FROM wards",
        "SELECT DISTINCT x, y FROM visits",
        "SELECT x, y FROM visits ORDER BY x",
        "SELECT AVG(x) AS x, AVG(y) AS y FROM visits",
        "SELECT ward, AVG(x) AS x, AVG(y) AS y FROM visits GROUP BY ward",
        "SELECT x, y FROM visits UNION SELECT y, x FROM visits",
        "SELECT x, y FROM visits; DROP TABLE visits",
        "SELECT x, y FROM visits)",
        "SELECT",
        "",
        " ",
    ],
)
def test_rows_that_mix_units_are_refused(source: str, tmp_path: Path) -> None:
    made, _ = visits_curator(tmp_path)
    with made:
        for propose in (
            lambda: made.regress("y ~ x", source),
            lambda: made.components(["x", "y"], source),
            lambda: made.survival(source, "y", "x"),
        ):
            with pytest.raises((SfumatoError, InvalidParameter)):
                propose()
