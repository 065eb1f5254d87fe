"""Exact laws of choices, streams, quantiles, keys and reports are those that are drawn, and they keep their curves.

What is drawn is compared with the law by Pearson's χ² at the point that it exceeds with probability 1e-8, on cells of
at least ten; the law and the draw are made by different code from one description.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import sfumato as sf
from sfumato.audit.exact_laws import frequent_values_law, kept_keys_law, quantiles_law, stream_law
from sfumato.audit.lower_bounds.falsifying import samplers_of_both_inputs

DRAWS, LONG_DRAWS = 700, 20_000
_MISS = 1e-8


def _flat(outcome: Any) -> tuple[int, ...]:
    """A row of whole numbers, whatever tuples it stands in."""
    if isinstance(outcome, (tuple, list, np.ndarray)):
        return tuple(number for each in outcome for number in _flat(each))
    return (int(outcome),)


def _score_law(mechanism: Any, scores: Any) -> Any:
    return mechanism.law(scores)


DRAWN: list[tuple[Any, Any, Any]] = [
    (_score_law, sf.Exponential(1), [0, 1, 3]),
    (_score_law, sf.PermuteAndFlip(2), [0, 1, 3, 3]),
    (_score_law, sf.NoisyMax(2), [0, 1, 2, 2]),
    (_score_law, sf.NoisyMax(2, noise="exponential"), [0.25, 1.5, 0]),
    (_score_law, sf.NoisyMax(2, noise="gumbel", monotone=True), [0, 1, 2]),
    (_score_law, sf.TopK(4, k=2), [0, 1, 2, 3]),
    (frequent_values_law, sf.FrequentValues(2, 2, k=2), ((3, 1, 0), (0, 0, 2))),
    (frequent_values_law, sf.FrequentValues(2, 1, neighbours="replace"), ((3, 1, 0),)),
    (kept_keys_law, sf.KeyThreshold(1, "0.05"), (0, 1, 2, 3)),
    (kept_keys_law, sf.KeyThreshold(1, "0.05", neighbours="replace"), (1, 4)),
    (kept_keys_law, sf.KeyThreshold(1, "0.05", 2), (0, 1, 5)),
    (kept_keys_law, sf.KeyThreshold(1, "0.05", 3, weighted=True), (1, 7)),
    (kept_keys_law, sf.KeyThreshold.gaussian(2, "0.1", 2), (1, 4)),
    (quantiles_law, sf.Quantiles(["0.5"], 2, (0, 6)), [1, 1, 4, 9]),
    (quantiles_law, sf.Quantiles(["0.2", "0.6"], 6, (0, 5)), [1, 1, 3, 3, 5]),
    (quantiles_law, sf.Quantiles(["0.25", "0.5", "0.75"], 9, (0, 3), neighbours="replace", grouped=True), [0, 1, 1, 2]),
    (quantiles_law, sf.Quantiles(["0.3"], 3, (0, 3), neighbours="replace"), [0, 1, 1, 2]),
    (quantiles_law, sf.Quantiles(["0.5"], 2, (0, 6), grouped=True, neighbours="replace"), [1, 1, 4]),
    (quantiles_law, sf.Quantiles(["0.3", "0.6"], 6, (0, 5), offset=1), [1, 2, 2, 4]),
    (quantiles_law, sf.Quantiles.minimum(40, (0, 5)), [2, 2, 3, 4]),
    (quantiles_law, sf.Quantiles.maximum(40, (0, 5)), [2, 2, 3, 4]),
    (stream_law, sf.AboveThreshold(2, 2), (1, 2, 5)),
    (stream_law, sf.AboveThreshold(4, 0, positives=2, monotone=True), (-3, 1, 0, 2)),
]


@pytest.mark.parametrize(
    ("law", "mechanism", "given"), DRAWN, ids=lambda each: getattr(each, "__name__", repr(each)[:40])
)
def test_the_law_is_the_one_that_is_drawn(law: Any, mechanism: Any, given: Any, long: bool) -> None:
    chances = {_stream(outcome, mechanism, given): float(p) for outcome, p in law(mechanism, given).items()}
    assert math.isclose(math.fsum(chances.values()), 1, rel_tol=1e-12)
    drawn = np.asarray(samplers_of_both_inputs(mechanism, (given, given))[0](LONG_DRAWS if long else DRAWS)).tolist()
    seen = Counter(_flat(each) for each in drawn)
    assert set(seen) <= set(chances)
    assert not _refuted(seen, chances)


def _stream(outcome: Any, mechanism: Any, given: Any) -> tuple[int, ...]:
    """What was not asked any more is drawn as −1."""
    flat = _flat(outcome)
    return flat + (-1,) * (len(given) - len(flat)) if isinstance(mechanism, sf.AboveThreshold) else flat


def _refuted(seen: Counter[tuple[int, ...]], chances: dict[tuple[int, ...], float]) -> bool:
    total = sum(seen.values())
    frequent = [key for key, chance in chances.items() if total * chance >= 10]
    cells = [(seen[key], total * chances[key]) for key in frequent]
    rare = (sum(seen.values()) - sum(own for own, _ in cells), total - sum(wanted for _, wanted in cells))
    cells += [rare] if rare[1] >= 10 else []
    found = sum((own - wanted) ** 2 / wanted for own, wanted in cells)
    return bool(found > chi2.isf(_MISS, max(1, len(cells) - 1)))


def test_another_law_is_refuted() -> None:
    """The comparison can fail: another price is another law."""
    chances = {_flat(outcome): float(p) for outcome, p in sf.Exponential(2).law([0, 1, 2]).items()}
    drawn = [sf.Exponential(4).choose([0, 1, 2]) for _ in range(DRAWS)]
    assert _refuted(Counter(map(_flat, drawn)), chances)


def test_two_candidates_have_closed_forms() -> None:
    """With a gap of g, the worse wins with probability 1/(1 + e^g), e^{−g}/2, or e^{−g}(2 + g)/4."""
    for gap in (0, 1, 3, 40):
        forms = {
            sf.Exponential(2): 1 / (1 + math.exp(gap)),
            sf.PermuteAndFlip(2): math.exp(-gap) / 2,
            sf.NoisyMax(2): math.exp(-gap) * (2 + gap) / 4,
        }
        for mechanism, chance in forms.items():
            assert math.isclose(float(mechanism.law([0, gap])[0]), chance, rel_tol=1e-12)


def test_a_stream_is_the_sum_over_all_thresholds() -> None:
    """The geometric series beyond the values are what adding up very many terms comes to."""
    mechanism = sf.AboveThreshold(1, 2, positives=2)
    values = (0, 3, 7)
    law = stream_law(mechanism, values)
    first, second, _ = (float(scale) for scale in mechanism.scales)
    x = np.arange(-400, 401)

    def noise(scale: float) -> Any:
        weights = np.exp(-np.abs(x) / scale)
        return weights / weights.sum()

    passes = {int(t): float(noise(second)[x >= t].sum()) for t in range(-300, 301)}
    for stream, chance in law.items():
        total = 0.0
        for t in range(-150, 151):
            said = [passes[t + 2 - v] if up else 1 - passes[t + 2 - v] for up, v in zip(stream, values, strict=False)]
            total += float(noise(first)[t + 400]) * math.prod(said)
        assert math.isclose(float(chance), total, rel_tol=1e-9)


def test_hash_functions_are_counted_as_they_are_drawn() -> None:
    """Over a small prime the share of functions that put two answers into one cell is what the formula says."""
    prime, cells, x, y = 31, 4, 3, 11
    pairs = [
        ((a * x + b) % prime % cells, (a * y + b) % prime % cells) for a, b in product(range(1, prime), range(prime))
    ]
    sizes = [len(range(cell, prime, cells)) for cell in range(cells)]
    wanted = Fraction(sum(size * (size - 1) for size in sizes), prime * (prime - 1))
    assert Fraction(sum(one == other for one, other in pairs), len(pairs)) == wanted


# ── beside the claim ───────────────────────────────────────────────────────────────────────────

SOUND: list[tuple[Any, Any, Any, float]] = [
    # mechanism, two neighbours, and the least loss that they must show
    (sf.Exponential(1), [0, 0], [-1, 1], 0.37),
    (sf.Exponential(1, sensitivity=3), [0, 0, 0], [-3, 3, -3], 0.5),
    (sf.PermuteAndFlip(1), [0, 0], [-1, 1], 1 - 1e-9),
    (sf.PermuteAndFlip(1, neighbours="replace"), [0, 0], [-1, 1], 1 - 1e-9),
    (sf.NoisyMax(1), [0] * 9, [-1] * 8 + [1], 0.7),
    (sf.TopK(1, k=2), [0, 0, 0, 0], [1, -1, 1, -1], 0.6),
    (sf.Exponential(1, monotone=True), [0] * 9, [0] * 8 + [1], 0.8),
    (sf.FrequentValues(1, 2), ((0, 0), (0, 0)), ((1, 0), (1, 0)), 0.5),
    (sf.FrequentValues(1, 1, neighbours="replace"), ((1, 0),), ((0, 1),), 0.4),
    (sf.KeyThreshold(1, "0.01"), (1, 3), (0, 3), 0.009),
    (sf.KeyThreshold(1, "0.01"), (2,), (1,), 1.0),
    (sf.KeyThreshold(1, "0.01", neighbours="replace"), (2, 1), (1, 2), 0.5),
    (sf.KeyThreshold(1, "0.01", 2), (3, 9), (2, 8), 0.5),
    (sf.KeyThreshold(1, "0.01", 2, neighbours="replace"), (3, 9, 0, 0), (2, 8, 1, 1), 0.5),
    (sf.KeyThreshold.gaussian(1, "0.01", 2), (3, 9), (2, 8), 0.2),
    (sf.Quantiles(["0.5"], 1, (0, 9)), [0] * 6, [0] * 7, 0.37),
    (sf.Quantiles(["0.5"], 1, (0, 9), neighbours="replace"), [0, 0, 9], [0, 9, 9], 0.24),
    (sf.Quantiles(["0.25", "0.75"], 1, (0, 9)), [0] * 6, [0] * 6 + [9], 0.26),
    (sf.Quantiles(["0.25", "0.75"], 1, (0, 9), neighbours="replace"), [0] * 6, [0] * 5 + [9], 0.3),
    (sf.Quantiles(["0.5"], 1, (0, 9), rows_per_unit=2), [0] * 6, [0] * 8, 0.3),
    (sf.AboveThreshold(1, 0), (0,) * 6 + (1,), (1,) * 6 + (0,), 0.7),
    (sf.AboveThreshold(1, 0, positives=2), (0, 0, 0, 1), (1, 1, 1, 0), 0.4),
    (sf.AboveThreshold(1, 0, monotone=True), (0,) * 6, (1,) * 6, 0.25),
    (sf.AboveThreshold(2, 0, values_epsilon=2), (0,), (1,), 2.0),
    (sf.OptimizedUnaryEncoding(1, 90), 3, 80, 1 - 1e-9),
    (sf.OptimalLocalHashing(1, 1000), 3, 80, 1 - 1e-9),
]


@pytest.mark.parametrize(("mechanism", "first", "second", "least"), SOUND, ids=lambda each: repr(each)[:40])
def test_every_mechanism_keeps_its_curve(mechanism: Any, first: Any, second: Any, least: float) -> None:
    found = sf.audit.enumerate(mechanism, (first, second))
    assert found.holds, str(found)
    assert float(found.largest[1]) >= least
    for side in zip(*found.outcomes, strict=True):
        assert abs(sum(side) - 1) < Fraction(1, 10**45)


RARE: list[tuple[Any, Any, Any, float]] = [
    # what tells the two worlds apart has a probability below 10⁻⁴⁵ in both: a pure claim is about it, too
    (sf.Exponential(1), [0, 500], [1, 499], 1.0),
    (sf.PermuteAndFlip(1), [0, 500], [1, 499], 1.0),
    (sf.NoisyMax(1), [0, 500], [1, 499], 0.99),
    (sf.FrequentValues(1, 1), ((0, 300),), ((1, 300),), 1.0),
    (sf.Quantiles(["0.5"], 20, (0, 3)), [0] * 20, [0] * 21, 9.9),
    (sf.AboveThreshold(1, 0), (-400,), (-399,), 0.3),
]


@pytest.mark.parametrize(("mechanism", "first", "second", "least"), RARE, ids=lambda each: repr(each)[:40])
def test_no_outcome_is_too_rare_to_be_compared(mechanism: Any, first: Any, second: Any, least: float) -> None:
    found = sf.audit.enumerate(mechanism, (first, second))
    low, high = found.largest
    assert least - 1e-9 <= float(high)
    assert float(low) <= float(mechanism.epsilon)
    assert found.holds


def test_a_claim_that_fails_in_a_rare_outcome_alone_does_not_hold() -> None:
    found = sf.audit.enumerate(sf.Exponential(1), ([0, 500], [2, 498]))  # twice as far apart as it was made for
    assert min(p for p, _ in found.outcomes) < Fraction(1, 10**100)
    assert not found.holds


WRONG: list[tuple[Any, Any, Any]] = [
    # neighbours that are one step further apart than the mechanism was made for
    (sf.Exponential(1), [0] * 9, [-2] * 8 + [2]),
    (sf.PermuteAndFlip(1), [0, 0], [-1, 2]),
    (sf.NoisyMax(1), [0] * 9, [-2] * 8 + [2]),
    (sf.TopK(1, k=2), [0] * 6, [2, 2, -2, -2, -2, -2]),
    (sf.Exponential(1, monotone=True), [0] * 9, [-1] * 8 + [1]),
    (sf.FrequentValues(1, 1), ((0, 0), (0, 0)), ((0, 3), (3, 0))),
    (sf.KeyThreshold(1, "0.01"), (2,), (0,)),
    (sf.KeyThreshold(1, "0.01", 2), (9, 9, 1, 1, 1), (8, 8, 0, 0, 0)),
    (sf.KeyThreshold.gaussian(1, "0.01", 2), (12, 12, 12, 12), (9, 9, 9, 9)),
    (sf.Quantiles(["0.5"], 1, (0, 20)), [0] * 6, [0] * 6 + [20] * 3),
    (sf.Quantiles(["0.25", "0.75"], 1, (0, 30)), [0] * 6, [0] * 6 + [30] * 5),
    (sf.AboveThreshold(1, 0), (0,) * 12, (2,) * 11 + (-2,)),
    (sf.AboveThreshold(1, 0, monotone=True), (0,) * 12, (1,) * 11 + (-1,)),
    (sf.AboveThreshold(2, 0, values_epsilon=2), (0,), (2,)),
]


@pytest.mark.parametrize(("mechanism", "first", "second"), WRONG, ids=lambda each: repr(each)[:40])
def test_inputs_further_apart_than_neighbours_are_seen(mechanism: Any, first: Any, second: Any) -> None:
    assert not sf.audit.enumerate(mechanism, (first, second)).holds


@pytest.mark.parametrize(
    ("mechanism", "inputs"),
    [
        (sf.Exponential(1), ([0] * 25, [0] * 25)),
        (sf.Exponential(1), ([0, 1], [0, 1, 2])),
        (sf.Exponential(1), ([0, 10**6], [0, 1])),
        (sf.Exponential(1), ("ab", "cd")),
        (sf.TopK(1, k=9), ([0] * 9, [0] * 9)),
        (sf.FrequentValues(1), (((0, 0),) * 20, ((0, 0),) * 20)),
        (sf.KeyThreshold(1, "0.01"), ((-1,), (0,))),
        (sf.KeyThreshold(1, "0.01"), ((1, 2), (1,))),
        (sf.KeyThreshold(1, "0.01"), ((1,) * 13, (1,) * 13)),
        (sf.Quantiles(["0.5"], 1, (0, 10**6)), ([1], [2])),
        (sf.Quantiles(["0.5"], 1, (0, 9)), (["a"], [2])),
        (sf.AboveThreshold(1, 0), ((0,) * 15, (0,) * 15)),
        (sf.AboveThreshold(1, 0), ((0,), (0, 0))),
        (sf.AboveThreshold(1, 0), ((), ())),
        (sf.AboveThreshold(1, 0), ((0.5,), (1,))),
        (sf.AboveThreshold(1, 0), ((10**9,), (1,))),
        (sf.AboveThreshold("0.001", 0, values_epsilon="0.001", positives=3), ((0,) * 3, (1,) * 3)),
        (sf.OptimalLocalHashing(1, 5), (0, 5)),
        (sf.OptimizedUnaryEncoding(1, 5), (0, "1")),
    ],
    ids=lambda each: repr(each)[:40],
)
def test_hostile_inputs(mechanism: Any, inputs: Any) -> None:
    with pytest.raises(sf.InvalidParameter):
        sf.audit.enumerate(mechanism, inputs)
