"""Where noise decides which cells are NULL, ranges hold every number that values within the ranges could have made."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.plan.noisy_rows import Finish, NoisyWindow
from sfumato.plan.values.expressions import Column, Expression, walk
from sfumato.release.noisy_rows.noisy_columns import Evaluated, NumberColumn, are_nulls_certain, as_numbers, evaluate_on
from sfumato.release.noisy_rows.row_totals import Presence, aggregate_groups
from sfumato.release.noisy_rows.window_functions import evaluate_window

POLICY = """
[unit]
name = "patient"
neighbours = "add-remove"
budget = { epsilon = 900 }
[tables.visits]
source = "visits.csv"
id = "who"
max_rows = 1
[tables.visits.columns]
ward = { type = "integer", bounds = [1, 12] }
"""
INNER = "(SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)"
DECIDED = (
    "CASE WHEN n > 10 THEN 1 END",
    "CASE WHEN n > 10 THEN n END",
    "CASE WHEN n > 10 THEN n WHEN n > 5 THEN 2 * n END",
    "NULLIF(CASE WHEN n > 10 THEN 1 ELSE 2 END, 1)",
    "GREATEST(CASE WHEN n > 10 THEN 12 END, n - 3)",
    "LEAST(CASE WHEN n < 10 THEN 1 END, n)",
    "COALESCE(CASE WHEN n > 10 THEN n END, CASE WHEN n < 5 THEN 0 END)",
    "CASE WHEN n > 10 THEN n END + 1",
    "CASE WHEN (CASE WHEN n > 10 THEN 1 END) IS NULL THEN 5 END",
    "CASE WHEN (CASE WHEN n > 10 THEN 1 END) = 1 THEN 5 END",
    "1.0 / (n - 10)",
    "n % (n - 10)",
    "SQRT(n - 10)",
    "LEAST(SQRT(n - 10), 50)",
    "GREATEST(-SQRT(n - 10), -50)",
)
FUNCTIONS = ("COUNT", "SUM", "AVG", "MIN", "MAX")
_ROWS = (*[6] * 10, 300)
"""The rows of each world: where there are few, it may be sure of all of them which are NULL."""


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    folder = tmp_path_factory.mktemp("clinic")
    sizes = dict(enumerate((9, 10, 11, 10, 10, 30, 10, 11, 0, 9, 12, 10), 1))
    rows = (f"{ward * 1000 + who},{ward}" for ward, size in sizes.items() for who in range(size))
    (folder / "visits.csv").write_text("who,ward\n" + "\n".join(rows) + "\n")
    (folder / "policy.toml").write_text(POLICY)
    with sf.Curator(folder / "policy.toml") as opened:
        yield opened


def _worlds(text: str) -> Iterator[tuple[NumberColumn, NumberColumn]]:
    """Noisy numbers with their ranges, the same for six in a row, and exact numbers within these."""
    random = Random(text)
    for rows in _ROWS:
        value = np.array([float(random.randint(0, 20)) for _ in range(rows)])
        below, above = (np.repeat([random.randint(0, 6) for _ in range(rows // 6)], 6) for _ in "ab")
        low, high = value - below, value + above
        exact = np.array([float(random.randint(int(a), int(b))) for a, b in zip(low, high, strict=True)])
        yield NumberColumn(value, low, high), NumberColumn(exact, exact, exact)


def _outer(curator: sf.Curator, select: str) -> Finish | Any:
    asked: Any = curator.sql(f"SELECT {select} FROM {INNER} AS t")
    return asked.query.outer[-1]


def _assert_held(noisy: Evaluated, exact: Evaluated, text: str) -> None:
    ranged, truth = as_numbers(noisy), as_numbers(exact).value
    is_null = np.isnan(truth)
    with np.errstate(invalid="ignore"):
        held = (ranged.low - 1e-9 <= truth) & (truth <= ranged.high + 1e-9)
    assert (held | is_null).all(), (text, ranged, truth)
    surprising = are_nulls_certain(noisy) & (np.isnan(ranged.value) != is_null)
    assert not surprising.any(), (text, ranged, truth)


def _names(column: NumberColumn, expression: Expression) -> Any:
    return {node.reference: column for node in walk(expression) if isinstance(node, Column)}


@pytest.mark.parametrize("decided", DECIDED)
def test_totals_hold_whatever_is_null(clinic: sf.Curator, decided: str) -> None:
    for function in FUNCTIONS:
        argument = _outer(clinic, f"{function}({decided}) AS k").totals[0].argument
        for worlds in _worlds(function + decided):
            rows = len(worlds[0].value)
            codes, everywhere = np.arange(rows) // 3, Presence.everywhere(rows)
            results = [
                aggregate_groups(
                    function, evaluate_on(argument, _names(column, argument), rows), everywhere, codes, rows // 3
                )
                for column in worlds
            ]
            _assert_held(results[0], results[1], f"{function}({decided})")


@pytest.mark.parametrize("decided", DECIDED)
def test_windows_hold_whatever_is_null(clinic: sf.Curator, decided: str) -> None:
    frame = "ORDER BY ward ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"
    for function in FUNCTIONS:
        over: NoisyWindow = _outer(clinic, f"{function}({decided}) OVER ({frame}) AS k").finish.windows[0]
        order = [each.expression for each in over.order]
        for worlds in _worlds(function + decided):
            rows = len(worlds[0].value)
            public = np.arange(float(rows))
            wards = NumberColumn(public, public, public)
            results = []
            for column in worlds:
                names = _names(column, over.argument) | _names(wards, order[0])  # type: ignore[arg-type]
                results.append(
                    evaluate_window(
                        over,
                        lambda each, names=names, rows=rows: evaluate_on(each, names, rows),
                        Presence.everywhere(rows),
                    )
                )
            _assert_held(results[0], results[1], f"{function}({decided}) over a frame")


@pytest.mark.parametrize(
    ("asked", "exact"),
    [
        (f"SELECT COUNT(CASE WHEN n > 10 THEN 1 END) AS k FROM {INNER}", 4),
        (f"SELECT COUNT(CASE WHEN n > 10 THEN 'busy' END) AS k FROM {INNER}", 4),
        (f"SELECT AVG(CASE WHEN n > 10 THEN n END) AS k FROM {INNER}", 16),
        (f"SELECT MIN(CASE WHEN n > 10 THEN n END) AS k FROM {INNER}", 11),
        (f"SELECT COUNT(*) FILTER (WHERE n > 10) AS k FROM {INNER}", 4),
    ],
)
def test_ranges_of_answers_hold_the_exact_number(clinic: sf.Curator, asked: str, exact: int) -> None:
    """Twenty answers at 95 %: more than nine misses are rarer than 1e-6, and a range without width misses most."""
    question = clinic.sql(asked)
    misses = 0
    for _ in range(20):
        (interval,) = question.release(epsilon="0.4", fresh=True).intervals["k"]
        misses += not interval[0] <= exact <= interval[1]
    assert misses <= 9
