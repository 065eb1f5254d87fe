"""What one unit changes in a quantile's law, through the rate that the mechanism itself draws with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement

import numpy as np
import pytest

import sfumato as sf
from sfumato.mechanisms import rank_choices

BOUNDS = (0, 3)
EPSILON = 1


@pytest.fixture
def exponents(monkeypatch: pytest.MonkeyPatch) -> list[dict[int, float]]:
    """Of every choice that is drawn from here on, what the law is made of: P(y) ∝ e^{−exponent(y)}."""
    seen: list[dict[int, float]] = []
    winners = rank_choices.ValueRuns.draw_winners

    def spied(runs: rank_choices.ValueRuns) -> np.ndarray:
        falls = (float(runs.log_weight_per_distance) * runs.distance.astype(np.float64)).tolist()
        held = zip(runs.starts.tolist(), runs.multiplicities.tolist(), falls, strict=True)
        seen.append({start + place: fall for start, many, fall in held for place in range(many)})
        return winners(runs)

    monkeypatch.setattr(rank_choices.ValueRuns, "draw_winners", spied)
    return seen


def _tables(rows: int) -> list[tuple[int, ...]]:
    return list(combinations_with_replacement(range(BOUNDS[0], BOUNDS[1] + 1), rows))


def _neighbours(relation: str, rows: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Tables of which one has a unit of up to so many rows that the other lacks, or has another in its place."""
    for others in (other for size in (0, 1, 2, 3) for other in _tables(size)):
        units = _tables(rows)
        if relation == "add-remove":
            yield from ((others, tuple(sorted(others + unit))) for unit in units)
        else:
            yield from ((tuple(sorted(others + a)), tuple(sorted(others + b))) for a in units for b in units)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("q", ["0.5", "0.25", "0.9"])
def test_one_unit_moves_every_exponent_by_at_most_half_of_epsilon(
    exponents: list[dict[int, float]], relation: str, rows: int, q: str
) -> None:
    """Then the law moves by at most ε: half for the number itself, half for what all are divided by (McSherry & Talwar
    2007, Thm 6). Half of ε is reached, so no score is taken to move further than it does.
    """
    mechanism = sf.Quantiles([q], EPSILON, BOUNDS, rows, relation)
    known: dict[tuple[int, ...], dict[int, float]] = {}

    def drawn(table: tuple[int, ...]) -> dict[int, float]:
        if table not in known:
            mechanism.choose(list(table))
            known[table] = exponents[-1]
        return known[table]

    numbers = range(BOUNDS[0], BOUNDS[1] + 1)
    moved = [abs(drawn(a)[y] - drawn(b)[y]) for a, b in _neighbours(relation, rows) for y in numbers]
    assert max(moved) == pytest.approx(EPSILON / 2, rel=1e-9)
