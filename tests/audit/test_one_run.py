"""One run with canaries: the theorem's number is right, sound releases pass, and releases that tell are caught."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from refusals import assert_refused
from sfumato.audit import canaries
from sfumato.audit.canaries import OneRun, epsilon_lower_bound, guessing_tail_bound

CLAIM = sf.Guarantee(1)
SURE = "0.999999"


@pytest.mark.parametrize(
    ("canaries", "guesses", "right", "delta", "miss", "published"),
    [(1000, 100, 75, 1e-4, 0.05, 0.673), (100_000, 1510, 1439, 1e-5, 0.05, 2.675)],
)
def test_the_numbers_that_the_authors_print(
    canaries: int, guesses: int, right: int, delta: float, miss: float, published: float
) -> None:
    """Steinke, Nasr & Jagielski 2023, appendix D and section 7, to the digits that are printed there."""
    assert abs(epsilon_lower_bound(canaries, guesses, right, delta, miss) - published) < 1e-3


def _tails(trials: int, chance: Fraction) -> list[Fraction]:
    """P(W ≥ v) for v = 0, 1, …, exactly."""
    terms = [math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(trials + 1)]
    return [sum(terms[v:], Fraction(0)) for v in range(trials + 2)]


@pytest.mark.parametrize("odds", [1, 2, 5])
@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 1000), Fraction(1, 50)])
def test_no_release_is_guessed_better_than_the_bound_says(odds: int, delta: Fraction) -> None:
    """Two releases that are (ε, δ)-DP and whose right guesses are counted exactly: one tells each canary with
    probability δ, one tells all at once, and both randomise it otherwise."""
    m = 20
    truth = Fraction(odds, odds + 1)
    each = _tails(m, delta + (1 - delta) * truth)
    whole = [delta + (1 - delta) * tail for tail in _tails(m, truth)]
    for v in range(m + 1):
        bound = guessing_tail_bound(m, m, v, math.log(odds), float(delta))
        assert float(max(each[v], whole[v])) <= bound * (1 + 1e-12)
    if not delta:  # then it is met with equality
        assert guessing_tail_bound(m, m, 15, math.log(odds), 0.0) == pytest.approx(float(each[15]), rel=2e-6)


def test_the_bound_without_the_share_of_delta_would_be_wrong() -> None:
    """Of one that tells all canaries with probability δ, the binomial tail alone says too little."""
    told = Fraction(1, 50) + Fraction(49, 50) * _tails(20, Fraction(2, 3))[20]
    assert guessing_tail_bound(20, 20, 20, math.log(2), 0.0) < float(told)


def test_the_bound_rises_with_epsilon_and_falls_with_right_guesses() -> None:
    for delta in (0.0, 1e-6, 1e-3, 0.2):
        bounds = [guessing_tail_bound(300, 100, 80, e / 10, delta) for e in range(60)]
        assert bounds == sorted(bounds)
        found = [epsilon_lower_bound(300, 100, right, delta, 0.01) for right in range(101)]
        assert found == sorted(found)
    assert epsilon_lower_bound(300, 100, 90, 1e-3, 0.01) < epsilon_lower_bound(300, 100, 90, 0.0, 0.01)
    assert epsilon_lower_bound(3000, 100, 90, 1e-5, 0.01) < epsilon_lower_bound(300, 100, 90, 1e-5, 0.01)


# ── whole audits ───────────────────────────────────────────────────────────────────────────────


def _noisy(scale: object) -> Any:
    """Every canary is counted for itself, with noise: a histogram in which each has a cell of its own."""
    return lambda present: sf.Laplace(scale).apply(present.astype(np.int64))  # type: ignore[arg-type]


def test_a_sound_release_is_seldom_refuted(long: bool) -> None:
    """Tight noise, at a confidence of 0.7: refuted in at most three runs of ten, but for a chance of 1e-6."""
    runs = 1000 if long else 150
    alarms = sum(not sf.audit.one_run(_noisy(1), CLAIM, 200, confidence="0.7").holds for _ in range(runs))
    assert alarms <= 0.3 * runs + 5 * math.sqrt(0.21 * runs)


def test_an_audit_that_forgets_how_many_numbers_of_guesses_it_tries_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All numbers of guesses together have the chance of a mistake that the confidence leaves."""
    spent: list[float] = []
    proven = canaries.epsilon_lower_bound
    monkeypatch.setattr(canaries, "epsilon_lower_bound", lambda *given: spent.append(given[-1]) or proven(*given))
    sf.audit.one_run(_noisy(1), CLAIM, 1000, confidence="0.9")
    assert len(spent) == 3
    assert math.isclose(sum(spent), 0.1)


def test_half_the_noise_and_none_are_caught_and_tight_noise_is_nearly_reached() -> None:
    """Of 4,000 canaries. A wrong verdict about tight noise has probability 1e-6."""
    assert not sf.audit.one_run(_noisy("0.5"), CLAIM, 4000).holds
    exact = sf.audit.one_run(lambda present: present.astype(float), CLAIM, 4000)
    assert exact.right == exact.guesses == 4000  # every one of them
    assert exact.lower_bound == pytest.approx(exact.detectable)
    assert exact.lower_bound > 6
    sound = sf.audit.one_run(_noisy(1), CLAIM, 4000, confidence=SURE)
    assert sound.holds
    assert sf.audit.one_run(_noisy(1), CLAIM, 20_000).lower_bound > 0.85


def test_delta_is_allowed_to_tell_as_much_as_it_may() -> None:
    """With probability δ = 1/2 all is told: refuted without the δ, and never with it."""
    claim = sf.Guarantee(1, "0.000001")
    told = sf.audit.one_run(lambda present: present.astype(float), claim, 1000)
    assert not told.holds
    assert told.lower_bound < sf.audit.one_run(lambda present: present.astype(float), CLAIM, 1000).lower_bound
    with pytest.raises(sf.InvalidParameter, match="could refute"):
        sf.audit.one_run(lambda present: present.astype(float), sf.Guarantee(1, "0.5"), 1000)


def test_the_release_is_made_once_and_cannot_change_the_coins() -> None:
    calls: list[Any] = []

    def hostile(present: Any) -> Any:
        calls.append(present.copy())
        present[:] = True
        return np.ones(len(present))

    found = sf.audit.one_run(hostile, CLAIM, 2000, guesses=2000, confidence=SURE)
    assert len(calls) == 1
    assert found.holds  # guesses that know nothing, whatever was done to the coins that were shown
    assert 800 < calls[0].sum() < 1200  # fair coins, but for a chance of 1e-18
    assert found.right == np.count_nonzero(~calls[0])  # all scores are one: nobody is guessed to be in


@pytest.mark.parametrize("claim", [sf.Guarantee(1), sf.Guarantee(3), sf.Guarantee("0.5", "1e-6"), sf.Guarantee(0)])
def test_too_few_canaries_are_refused_with_a_number_that_would_do(claim: sf.Guarantee) -> None:
    with pytest.raises(sf.InvalidParameter, match=r"to refute .*, for example [0-9,]+;") as refused:
        sf.audit.one_run(lambda present: present.astype(float), claim, 2, guesses=2)
    least = int(str(refused.value).split("for example ")[1].split(";")[0].replace(",", ""))
    assert not sf.audit.one_run(lambda present: present.astype(float), claim, least, guesses=least).holds


@pytest.mark.parametrize(
    "call",
    [
        lambda: sf.audit.one_run(_noisy(1), 1, 100),  # type: ignore[arg-type]
        lambda: sf.audit.one_run(_noisy(1), CLAIM, 0),
        lambda: sf.audit.one_run(_noisy(1), CLAIM, 10**7),
        lambda: sf.audit.one_run(_noisy(1), CLAIM, 100, guesses=101),
        lambda: sf.audit.one_run(_noisy(1), CLAIM, 100, guesses=[]),
        lambda: sf.audit.one_run(_noisy(1), CLAIM, 100, confidence=1),
        lambda: sf.audit.one_run(lambda _: pytest.fail("it was released"), CLAIM, 100, confidence="0.9999999999999999"),
        lambda: sf.audit.one_run(_noisy(1), sf.Guarantee(55), 100),
        lambda: sf.audit.one_run(lambda _: np.zeros(3), CLAIM, 100),
        lambda: sf.audit.one_run(lambda _: [math.nan] * 100, CLAIM, 100),
        lambda: sf.audit.one_run(lambda _: ["a"] * 100, CLAIM, 100),
        lambda: OneRun(1.0, CLAIM, 0.9, 10, 5, 6),
        lambda: OneRun(-1.0, CLAIM, 0.9, 10, 5, 5),
        lambda: OneRun.from_json('{"kind":"one-run/1"}'),
    ],
)
def test_hostile_parameters(call: object) -> None:
    assert_refused(call)


def test_an_audit_reads_back_and_is_shown() -> None:
    found = sf.audit.one_run(_noisy("0.3"), CLAIM, 500)
    assert OneRun.from_json(found.to_json()) == found
    assert "1-DP IS REFUTED by one run: ε ≥ " in str(found)
    assert "about 500 canaries" in str(found)
    assert "IS REFUTED" in found._repr_html_()
    assert "present" in found.plot().svg
    with pytest.raises(sf.InvalidParameter):
        sf.audit.one_run(lambda present: np.zeros(len(present)), CLAIM, 500).plot()


# ── canaries of a policy ───────────────────────────────────────────────────────────────────────

COLUMNS: dict[str, Any] = {
    "sex": {"values": ["f", "m", "x"]},
    "age": {"type": "integer", "bounds": [0, 39], "bins": [0, 10, 20, 30, 39]},
    "town": {"values": [f"town {i}" for i in range(40)]},
}


def _policy(relation: str, every_row: bool = False) -> sf.Policy:
    """Its file is not there: whatever is read of it would fail."""
    limits = {} if every_row else {"max_rows": 2}
    table = sf.Table("people", "no such file.csv", COLUMNS, id="row" if every_row else "who", **limits)  # type: ignore[arg-type]
    unit = sf.PrivacyUnit("person", every_row=every_row)
    size = 120 if relation == "replace" else None
    return sf.Policy(unit, sf.Budget(5000, "1e-6", neighbours=relation), {"people": table}, size=size)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("every_row", [False, True])
def test_lists_of_coins_that_differ_in_one_place_are_neighbours(relation: str, every_row: bool) -> None:
    """One unit comes or goes, or is exchanged for another, and all its rows are one row."""
    planted = sf.audit.plant(_policy(relation, every_row), "people", 60, rows=60)
    present = np.arange(60) % 2 == 0
    flipped = present.copy()
    flipped[7] = True
    one, other = (planted.policy_with(each).tables["people"].source.table.to_pylist() for each in (present, flipped))  # type: ignore[union-attr]
    gone = [row for row in one if row not in other or one.count(row) > other.count(row)]
    come = [row for row in other if row not in one or other.count(row) > one.count(row)]
    assert len(other) - len(one) == (1 if relation == "add-remove" else 0)
    assert come == planted.canaries.slice(7, 1).to_pylist() or every_row
    assert len(gone) <= (0 if relation == "add-remove" else 1) or every_row
    if not every_row:
        ids = [row["who"] for row in (*planted.canaries.to_pylist(), *planted.rows.to_pylist())]
        assert len(set(ids[:60])) == 60
        assert not set(ids[:60]) & set(ids[60:])


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_marginals_of_a_policy_pass_at_their_price_and_are_caught_at_another(relation: str, tmp_path: Path) -> None:
    """A sound release is refuted with probability at most 1e-6; one that spends a thousand times more is caught."""
    planted = sf.audit.plant(_policy(relation), "people", 120, rows=60)

    def ask(epsilon: int) -> Any:
        return planted.release(lambda curator: curator.marginals("people", 2).release(epsilon=epsilon))

    assert sf.audit.one_run(ask(1), CLAIM, planted.count, confidence=SURE, guesses=120).holds
    with pytest.warns(sf.WeakPrivacy):
        caught = sf.audit.one_run(ask(1000), CLAIM, planted.count)
    assert not caught.holds, str(caught)
    assert not list(tmp_path.iterdir())


@pytest.mark.long
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_a_synthesis_of_a_policy_passes_at_its_price_and_is_caught_at_another(relation: str) -> None:
    planted = sf.audit.plant(_policy(relation), "people", 120, rows=60)

    def ask(epsilon: int) -> Any:
        return planted.release(lambda curator: curator.synthesize("people", ways=2).release(epsilon=epsilon))

    assert sf.audit.one_run(ask(1), CLAIM, planted.count, confidence=SURE).holds
    with pytest.warns(sf.WeakPrivacy):
        assert not sf.audit.one_run(ask(2000), CLAIM, planted.count).holds


@pytest.mark.parametrize(
    "call",
    [
        lambda: sf.audit.plant(_policy("replace"), "nobody"),
        lambda: sf.audit.plant(_policy("replace"), "people", 0),
        lambda: sf.audit.plant(_policy("replace"), "people", 10**6),
        lambda: sf.audit.plant(_policy("replace"), "people", columns=["height"]),
        lambda: sf.audit.plant(_policy("replace"), "people", columns=[]),
    ],
)
def test_hostile_canaries(call: object) -> None:
    assert_refused(call)
