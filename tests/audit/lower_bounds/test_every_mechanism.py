"""Every mechanism of ours is falsified directly: it passes at its own price, and is caught at a smaller one."""

from __future__ import annotations

from typing import Any

import pytest

import sfumato as sf

CASES: list[tuple[Any, sf.Guarantee, sf.Guarantee, tuple[Any, Any]]] = [
    # mechanism, what it keeps, what it does not, and two neighbours
    (sf.Exponential(6), sf.Guarantee(6), sf.Guarantee(1), ([0, 0], [-1, 1])),
    (sf.PermuteAndFlip(4), sf.Guarantee(4), sf.Guarantee(1), ([0, 0], [-1, 1])),
    (sf.NoisyMax(8), sf.Guarantee(8), sf.Guarantee(1), ([0, 0], [-1, 1])),
    (sf.TopK(8, k=2), sf.Guarantee(8), sf.Guarantee(1), ([0, 0, 0], [1, -1, 1])),
    (sf.FrequentValues(4, 2), sf.Guarantee(4), sf.Guarantee(1), (((0, 0), (0, 0)), ((1, 0), (1, 0)))),
    (sf.KeyThreshold(1, "0.2"), sf.Guarantee(1, "0.2"), sf.Guarantee(1, "0.05"), ((0, 1), (1, 1))),
    (sf.KeyThreshold(1, "0.2", 2), sf.Guarantee(1, "0.2"), sf.Guarantee("0.1", "0.01"), ((0, 0, 3), (1, 1, 3))),
    (sf.Quantiles(["0.5"], 5, (0, 9)), sf.Guarantee(5), sf.Guarantee("0.5"), ([0, 0], [0, 0, 9])),
    (sf.Quantiles(["0.3", "0.7"], 5, (0, 9)), sf.Guarantee(5), sf.Guarantee("0.2"), ([0, 0], [0, 0, 9])),
    (sf.AboveThreshold(8, 0), sf.Guarantee(8), sf.Guarantee("0.2"), ((0, 0), (-1, 1))),
    (sf.AboveThreshold(4, 0, values_epsilon=4), sf.Guarantee(8), sf.Guarantee(1), ((3,), (4,))),
    (sf.RandomizedResponse(4, 3), sf.Guarantee(4), sf.Guarantee(1), (0, 2)),
    (sf.OptimizedUnaryEncoding(4, 5), sf.Guarantee(4), sf.Guarantee(1), (0, 2)),
    (sf.OptimizedUnaryEncoding(4, 200), sf.Guarantee(4), sf.Guarantee(1), (0, 150)),
    (sf.OptimalLocalHashing(3, 500), sf.Guarantee(3), sf.Guarantee(1), (0, 499)),
    (sf.Gaussian(1), sf.Guarantee(5, "0.001"), sf.Guarantee("0.5", "0.001"), (0, 1)),
]
ONE_AT_A_TIME = (sf.Exponential, sf.PermuteAndFlip, sf.NoisyMax, sf.TopK, sf.AboveThreshold)


@pytest.mark.parametrize(("mechanism", "kept", "broken", "inputs"), CASES, ids=lambda each: repr(each)[:40])
def test_its_own_price_holds_and_a_smaller_one_does_not(
    mechanism: Any, kept: sf.Guarantee, broken: sf.Guarantee, inputs: tuple[Any, Any]
) -> None:
    """The first is refuted with probability at most 1e-6."""
    few = isinstance(mechanism, ONE_AT_A_TIME)
    assert not sf.audit.falsify(mechanism, broken, 700 if few else 8_000, inputs=inputs).holds
    if not few:
        assert sf.audit.falsify(mechanism, kept, 4_000, "0.999999", inputs=inputs).holds


@pytest.mark.long
@pytest.mark.parametrize("case", [each for each in CASES if isinstance(each[0], ONE_AT_A_TIME)], ids=repr)
def test_what_is_chosen_one_at_a_time_holds_at_its_own_price(case: Any) -> None:
    mechanism, kept, _, inputs = case
    assert sf.audit.falsify(mechanism, kept, 80_000, "0.999999", inputs=inputs).holds


def test_a_local_hash_is_seen_as_tight_as_it_is() -> None:
    """Neither the hash nor the cell tells anything alone; the two together tell ε."""
    verdict = sf.audit.falsify(sf.OptimalLocalHashing(2, 100), sf.Guarantee(2), 60_000, inputs=(3, 77))
    assert verdict.lower_bound > 1.7


@pytest.mark.parametrize(
    ("mechanism", "inputs"),
    [
        (sf.Exponential(1), (0, 1)),
        (sf.Quantiles(["0.5"], 1, (0, 9)), ([3, 1], [1, 2])),
        (sf.AboveThreshold(1, 0), (("a",), ("b",))),
        (sf.KeyThreshold(1, "0.1"), ((-1,), (1,))),
        (sf.OptimizedUnaryEncoding(1, 3), (0, 3)),
        (sf.Laplace(1), (0, 1, 2)),
        (object(), (0, 1)),
    ],
    ids=lambda each: repr(each)[:18],
)
def test_hostile_inputs(mechanism: Any, inputs: Any) -> None:
    with pytest.raises(sf.InvalidParameter):
        sf.audit.falsify(mechanism, sf.Guarantee(1), 200, inputs=inputs)
