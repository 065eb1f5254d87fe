"""The auditor: it has power, it raises no false alarms, and it catches every exhibit of the museum."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from refusals import assert_refused
from sfumato.audit.lower_bounds import falsifying

Sampler = Callable[[int], Any]


@pytest.mark.parametrize(
    ("mechanism", "epsilon"),
    [
        (sf.Laplace(1), 1),
        (sf.Laplace(10), "0.1"),
        (sf.Laplace("0.4"), "2.5"),
        (sf.RandomizedResponse(1, 4), 1),
        (sf.RandomizedResponse("0.2"), "0.2"),
    ],
    ids=repr,
)
def test_power_on_tight_mechanisms(mechanism: object, epsilon: object) -> None:
    """At a million samples a side the bound reaches nine tenths of ε, and never passes it (false alarm 1e-6). At
    ε = 0.1 it reaches 0.94 of it on average, so two and a half million keep a test from failing by chance."""
    verdict = sf.audit.falsify(mechanism, sf.Guarantee(epsilon), confidence="0.999999")  # type: ignore[arg-type]
    assert verdict.holds
    many = 2_500_000 if epsilon == "0.1" else 1_000_000
    wide = sf.audit.falsify(mechanism, sf.Guarantee(epsilon), many)  # type: ignore[arg-type]
    assert wide.lower_bound >= 0.9 * float(epsilon)  # type: ignore[arg-type]


def test_a_mechanism_that_leaks_nothing(long: bool) -> None:
    """1000 runs at confidence 0.99: at most one in a hundred says anything. (Smaller by default.)"""
    runs, samples = (1000, 20_000) if long else (30, 5_000)
    alarms = sum(
        sf.audit.falsify(sf.Laplace(3), sf.Guarantee(1), samples, inputs=(5, 5)).lower_bound > 0 for _ in range(runs)
    )
    # Binomial(runs, 0.01) exceeds this with probability below 1e-6.
    assert alarms <= 0.01 * runs + 5 * math.sqrt(0.01 * runs) + 3


def test_confidence_is_kept_on_a_tight_mechanism(long: bool) -> None:
    runs = 600 if long else 30
    alarms = sum(not sf.audit.falsify(sf.Laplace(1), sf.Guarantee(1), 5_000, "0.95").holds for _ in range(runs))
    assert alarms <= 0.05 * runs + 5 * math.sqrt(0.05 * runs) + 3


@pytest.mark.parametrize("columns", [1, 3])
def test_the_chances_of_all_limits_to_miss_add_up_to_what_confidence_leaves(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim is wrongly refuted only if one of the limits misses, so all of them share 1 − confidence: two for every
    event, over all events and both directions."""
    spent: list[float] = []

    def counted(limit: Callable[[int, int, float], float]) -> Callable[[int, int, float], float]:
        return lambda successes, trials, miss: spent.append(miss) or limit(successes, trials, miss)  # type: ignore[func-returns-value]

    for name in ("lower_confidence_limit", "upper_confidence_limit"):
        monkeypatch.setattr(falsifying, name, counted(getattr(falsifying, name)))
    row = (0,) * columns if columns > 1 else 0
    moved = (1, *row[1:]) if isinstance(row, tuple) else 1
    sf.audit.falsify(sf.Laplace(1), sf.Guarantee(1), 2000, "0.95", inputs=(row, moved))
    assert len(spent) >= 8
    assert 0.04 < math.fsum(spent) <= 0.05 * (1 + 1e-12)


def _one_of_many_columns(x: int, columns: int, epsilon: float) -> Sampler:
    """A column picked in public holds a bit that is told with odds e^ε: ε-DP, and tight in every column."""
    odds = 1 / (1 + math.exp(-epsilon))

    def run(n: int) -> Any:
        told = _rng.random(n) < (odds if x else 1 - odds)
        rows = np.zeros((n, columns), np.int64)
        rows[np.arange(n), _rng.integers(0, columns, n)] = np.where(told, 1, -1)
        return rows

    return run


@pytest.mark.long
def test_many_tight_events_do_not_add_up_to_a_false_alarm() -> None:
    """Sixteen columns, each with its own chance to look worse than it is: refuted in at most a tenth of the runs.

    Binomial(100, 0.1) exceeds 27 with probability below 1e-6. With one event's confidence for each of them, 45 in a
    hundred runs refute.
    """
    worlds = _one_of_many_columns(0, 16, 2), _one_of_many_columns(1, 16, 2)
    alarms = sum(not sf.audit.falsify(worlds, sf.Guarantee(2), 20_000, "0.9").holds for _ in range(100))
    assert alarms <= 27


def test_the_verdict_reads_well() -> None:
    verdict = sf.audit.falsify(sf.Laplace("0.5"), sf.Guarantee(1), 50_000)
    assert not verdict.holds
    assert "1-DP IS REFUTED: ε ≥ 1.9" in str(verdict) or "1-DP IS REFUTED: ε ≥ 1.8" in str(verdict)
    assert verdict.claim == sf.Guarantee(1)
    assert "is not refuted" in str(sf.audit.falsify(sf.Laplace(1), sf.Guarantee(1), 50_000, "0.999999"))


def test_delta_is_taken_off() -> None:
    """A mechanism that leaks with probability δ is (0, δ)-DP: refuted without the δ, not with it."""

    def world(secret: int) -> Sampler:
        def run(count: int) -> Any:
            leaked = np.random.default_rng().random(count) < 0.01
            return np.where(leaked, secret, 0)

        return run

    assert not sf.audit.falsify((world(1), world(2)), sf.Guarantee(1), 50_000).holds
    assert sf.audit.falsify((world(1), world(2)), sf.Guarantee(1, "0.011"), 50_000, "0.999999").holds


def test_delta_is_taken_off_where_much_is_left() -> None:
    """An event of 0.46 beside 0.1 keeps (1, 0.2): 0.46 ≤ e·0.1 + 0.2, though it is more than e·0.1."""

    def world(chance: float) -> Sampler:
        return lambda n: (np.random.default_rng(n).random(n) < chance).astype(int)

    assert not sf.audit.falsify((world(0.46), world(0.1)), sf.Guarantee(1), 20_000).holds
    kept = sf.audit.falsify((world(0.46), world(0.1)), sf.Guarantee(1, "0.2"), 20_000, "0.999999")
    assert kept.holds
    assert kept.lower_bound > 0.6


# ── the museum of broken twins ─────────────────────────────────────────────────────────────────

_rng = np.random.default_rng(20)


def _half_noise(x: int) -> Sampler:
    return lambda n: sf.Laplace("0.5").apply(np.full(n, x))


def _float_laplace(x: int) -> Sampler:
    return lambda n: float(x) + _rng.laplace(scale=1.0, size=n)


def _reused_noise(x: int) -> Sampler:
    """Two counts with one noise: their difference is exact."""

    def run(n: int) -> Any:
        noise = sf.Laplace(2).apply(np.zeros(n, np.int64))
        return np.stack([x + noise, 7 + noise], axis=1)

    return run


def _off_by_one(x: int) -> Sampler:
    """A unit may have two rows, the noise was made for one."""
    return lambda n: sf.Laplace(1).apply(np.full(n, 2 * x))


def _seeded(x: int) -> Sampler:
    noise = int(np.random.default_rng(42).laplace(scale=1.0))
    return lambda n: np.full(n, x + noise)


def _right(x: int) -> Sampler:
    return lambda n: sf.Laplace(1).apply(np.full(n, x))


def _right_on_a_grid(x: int) -> Sampler:
    return lambda n: sf.Laplace(1, grid=2**-10).apply(np.full(n, float(x)))


def _right_twice(x: int) -> Sampler:
    """Two counts, two noises of scale 2; only one count moves."""
    return lambda n: np.stack([sf.Laplace(2).apply(np.full(n, x)), sf.Laplace(2).apply(np.full(n, 7))], axis=1)


def _right_for_two(x: int) -> Sampler:
    return lambda n: sf.Laplace(2).apply(np.full(n, 2 * x))


MUSEUM = {
    "half the noise": (_half_noise, _right),
    "float Laplace, read through its last bits": (_float_laplace, _right_on_a_grid),
    "noise used twice": (_reused_noise, _right_twice),
    "sensitivity off by one": (_off_by_one, _right_for_two),
    "seeded noise": (_seeded, _right),
}


@pytest.mark.long
@pytest.mark.parametrize("exhibit", MUSEUM)
def test_every_broken_twin_is_caught_and_its_correct_twin_passes(exhibit: str) -> None:
    """With the noise that is released; by default the museum has the same twins, with noise that has a seed."""
    broken, right = MUSEUM[exhibit]
    caught = sf.audit.falsify((broken(0), broken(1)), sf.Guarantee(1), 200_000)
    assert not caught.holds, str(caught)
    passed = sf.audit.falsify((right(0), right(1)), sf.Guarantee(1), 200_000, "0.999999")
    assert passed.holds, str(passed)


def test_leaks_in_any_column_and_of_unequal_scales_are_found() -> None:
    def late(x: int) -> Sampler:
        return lambda n: np.stack([np.zeros(n, np.int64)] * 7 + [np.full(n, x)], axis=1)

    assert not sf.audit.falsify((late(0), late(1)), sf.Guarantee(1), 10_000).holds
    rows = sf.audit.falsify(sf.Laplace([1, 2]), sf.Guarantee("0.5"), 100_000, inputs=((0, 0), (1, 0)))
    assert not rows.holds
    flags = sf.audit.falsify((lambda n: np.zeros((n, 2), bool), lambda n: np.ones((n, 2), bool)), sf.Guarantee(1), 1000)
    assert not flags.holds


def test_the_float_exhibit_is_caught_by_its_bits_alone() -> None:
    verdict = sf.audit.falsify((_float_laplace(0), _float_laplace(1)), sf.Guarantee(1), 200_000)
    assert "last bit" in verdict.event
    assert verdict.lower_bound > 5


@pytest.mark.parametrize("claim", [sf.Guarantee(1), sf.Guarantee(5), sf.Guarantee("0.1", "0.5"), sf.Guarantee(0)])
def test_too_few_samples_to_refute_anything_are_refused(claim: sf.Guarantee) -> None:
    """The number that is asked for is enough to refute the claim, and one fewer is refused."""
    worlds = (lambda n: np.zeros(n), lambda n: np.ones(n))
    with pytest.raises(sf.InvalidParameter, match=r"at least [0-9,]+, because fewer could not refute") as refused:
        sf.audit.falsify(worlds, claim, 1)
    least = int(str(refused.value).split("at least ")[1].split(", because")[0].replace(",", ""))
    assert not sf.audit.falsify(worlds, claim, least).holds
    with pytest.raises(sf.InvalidParameter, match="samples"):
        sf.audit.falsify(worlds, claim, least - 1)
    columns = [lambda n, world=world: np.stack([world(n)] * 3, axis=1) for world in worlds]
    assert not sf.audit.falsify(columns, claim, least).holds


def test_claims_that_nothing_can_refute_are_refused() -> None:
    with pytest.raises(sf.InvalidParameter, match="could refute"):
        sf.audit.falsify(sf.Laplace(1), sf.Guarantee(40))
    with pytest.raises(sf.InvalidParameter, match="delta"):
        sf.Guarantee(1, 1)


def test_a_claim_of_no_loss_is_a_claim_like_any_other() -> None:
    """With δ = 0 it says that both worlds have one law; with δ, that they differ by no more than δ in any event."""
    coin = lambda x: lambda n: (np.random.default_rng(n + x).random(n) < 0.5 + 0.1 * x).astype(int)  # noqa: E731
    assert not sf.audit.falsify((coin(0), coin(1)), sf.Guarantee(0), 20_000).holds
    assert sf.audit.falsify((coin(0), coin(1)), sf.Guarantee(0, "0.11"), 20_000, "0.999999").holds
    assert sf.audit.falsify((coin(0), coin(0)), sf.Guarantee(0), 20_000, "0.999999").holds


def test_what_would_have_been_seen_is_seen() -> None:
    """A randomised response of the detectable ε is refuted in nine runs of ten: at least 9 of 20, but for 1e-7."""
    claim = sf.Guarantee(1)
    detectable = sf.audit.falsify(sf.RandomizedResponse(1), claim, 20_000).detectable
    assert 1.02 < detectable < 1.2
    odd = sf.RandomizedResponse(round(detectable, 6))
    caught = sum(not sf.audit.falsify(odd, claim, 20_000).holds for _ in range(20))
    assert caught >= 9


def test_more_samples_see_more() -> None:
    found = [sf.audit.falsify(sf.Laplace(1), sf.Guarantee(1), many).detectable for many in (500, 5_000, 50_000)]
    assert found[0] > found[1] > found[2] > 1
    small = sf.audit.falsify(sf.Laplace(1), sf.Guarantee(1, "0.1"), 5_000)
    assert small.detectable > found[1]  # a δ hides more


@pytest.mark.parametrize(
    "call",
    [
        lambda: sf.audit.falsify(None, sf.Guarantee(1)),
        lambda: sf.audit.falsify(sf.Laplace(1), 1),
        lambda: sf.audit.falsify(sf.Laplace(1), sf.Guarantee(1), 10),
        lambda: sf.audit.falsify(sf.Laplace(1), sf.Guarantee(1), 10**13),
        lambda: sf.audit.falsify(sf.Laplace(1), sf.Guarantee(1), inputs=3),  # type: ignore[arg-type]
        lambda: sf.audit.falsify((lambda n: np.zeros((n, 0)),) * 2, sf.Guarantee(1), 1000),
        lambda: sf.audit.falsify((lambda n: np.zeros((n, 2)), lambda n: np.zeros((n, 3))), sf.Guarantee(1), 1000),
        lambda: sf.audit.falsify(sf.Laplace(1), sf.Guarantee(1), confidence=1),
        lambda: sf.audit.falsify(sf.Laplace(1), sf.Guarantee(1), confidence="0.9999999999999999"),
        lambda: sf.audit.falsify(sf.Laplace(1), sf.Guarantee(1, "0.99999999999999999999")),
        lambda: sf.audit.falsify(sf.Laplace(1), sf.Guarantee(1, 1 - Fraction(1, 10**400))),
        lambda: sf.audit.falsify(sf.Laplace(1), sf.Guarantee(1), True),
        lambda: sf.audit.falsify((lambda _: 1, lambda _: 2), sf.Guarantee(1), 1000),
        lambda: sf.audit.falsify((lambda n: ["a"] * n, lambda n: ["b"] * n), sf.Guarantee(1), 1000),
    ],
)
def test_hostile_parameters(call: object) -> None:
    assert_refused(call)


def test_the_largest_confidence_still_refutes() -> None:
    """What it leaves is a chance of 10⁻¹⁵: one more nine is refused, since a double could not tell it from 1."""
    apart = (np.zeros, np.ones)
    verdict = sf.audit.falsify(apart, sf.Guarantee(1), 1000, 1 - Fraction(1, 10**15))
    assert verdict.confidence < 1
    assert 1 < verdict.lower_bound < math.log(1000 / math.log(1e15))
    assert "0.999999999999999" in str(verdict)


def test_numbers_at_the_end_of_floating_point_are_told_apart() -> None:
    """Sums of them are no numbers any more, which is no reason for a warning, which tests make an error."""
    largest = np.finfo(float).max
    ends = [lambda n, s=side: s * np.where(np.arange(2 * n).reshape(n, 2) % 3, largest, 1.0) for side in (1, -1)]
    assert not sf.audit.falsify(ends, sf.Guarantee(1), 1000).holds
