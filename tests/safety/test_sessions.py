"""What a session says, as a law: every transcript of every small world is at most e^ε likelier next door.

The questions go the whole way to the exact numbers that the session compares (text, plan, bounding, statement, steps);
the law of "above" and "below" is then computed from the two scales that are drawn, without samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise, product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from safety.worlds import question, telling, text, world
from sfumato.curator.proposals.sessions import compared_total
from sfumato.mechanisms import AboveThreshold
from sfumato.plan.readings.dense_readings import SteppedTotal
from sfumato.plan.readings.total_readings import GroupTotals

LIMIT = 2
QUESTIONS = (
    "SELECT COUNT(*) FROM visits",
    "SELECT COUNT(*) FROM visits WHERE kind = 'a'",
    "SELECT COUNT(DISTINCT who) FROM visits WHERE kind = 'b'",
    "SELECT COUNT(*) FILTER (WHERE cost > 0) FROM visits WHERE kind = 'b'",
)
UNITS = {
    "": [],
    "one": [("a", 1)],
    "limit": [("b", 1), ("b", 0)],
    "more": [("a", 1), ("a", 0), ("b", 1)],  # a row above the limit
    "many": [("b", 1)] * 5,
    "missing": [(None, None), ("a", None)],
}
BASE = [(1, "a", 1), (2, "b", 0), (2, "b", 1)]


def frame(unit: str) -> pd.DataFrame:
    rows = [*BASE, *((9, kind, cost) for kind, cost in UNITS[unit])]
    return pd.DataFrame(rows, columns=["who", "kind", "cost"]).astype({"who": "int64", "cost": "Int64"})


def curator(unit: str, folder: Path, neighbours: str) -> sf.Curator:
    columns = {"kind": {"values": ["a", "b"]}, "cost": {"type": "integer", "bounds": [-1, 2]}}
    table = sf.Table("visits", frame(unit), columns, id="who", max_rows=LIMIT)
    policy = sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(100, neighbours=neighbours), {"visits": table}, size=3)
    return sf.Curator(policy, folder / f"{unit or 'base'}.ledger")


def steps(made: sf.Curator, asked: str, grid: Fraction) -> tuple[SteppedTotal, int]:
    """What the session compares, and its exact number of steps."""
    found = made.sql(asked)
    total = compared_total(found, grid)  # type: ignore[arg-type]
    exact = made._context.engine.read(GroupTotals(total.bounded, found.groups), 7)  # type: ignore[union-attr]
    return total, int(total.extract(exact)[0, 0])


@cache
def exact_steps(relation: str) -> dict[str, tuple[int, ...]]:
    """What a session compares in every world."""
    found = {}
    with TemporaryDirectory() as folder:
        for unit in UNITS:
            with curator(unit, Path(folder), relation) as made:
                found[unit] = tuple(steps(made, each, Fraction(1))[1] for each in QUESTIONS)
    return found


# ── the law ──


def log_tail(least: Any, scale: float) -> Any:
    """ln P(Y ≥ k) of discrete Laplace noise."""
    q = math.exp(-1 / scale)
    below = 1 - q ** (1 - np.minimum(least, 0)) / (1 + q)
    return np.where(least > 0, np.log(1 / (1 + q)) - np.maximum(least, 0) / scale, np.log(below))


def transcripts(positives: int, length: int) -> Iterator[tuple[bool, ...]]:
    """Every series of answers of at most this length: it ends with the last positive."""
    for said in product((False, True), repeat=length):
        count, end = 0, length
        for index, above in enumerate(said):
            count += above
            if count == positives:
                end = index + 1
                break
        if not any(said[end:]):
            yield said[:end]


def next_question(said: tuple[bool, ...]) -> int:
    """An analyst who asks what answers suggest: the next question depends on all of them."""
    return (1 + sum(3 * above + 1 for above in said) + len(said)) % len(QUESTIONS)


def law(numbers: tuple[int, ...], mechanism: AboveThreshold, length: int = 6) -> dict[tuple[bool, ...], float]:
    """The logarithm of each transcript's probability, by summing over the noise of the threshold."""
    first, second, _ = (float(scale) for scale in mechanism.scales)
    q, reach = math.exp(-1 / first), math.ceil(first * 60)
    noise = np.arange(-reach, reach + 1)
    prior = np.log((1 - q) / (1 + q)) - np.abs(noise) / first
    found = {}
    for said in transcripts(mechanism.positives, length):
        total = prior.copy()
        for index, above in enumerate(said):
            least = mechanism.threshold + noise - numbers[next_question(said[:index])]
            total = total + (log_tail(least, second) if above else log_tail(1 - least, second))
        found[said] = float(np.logaddexp.reduce(total))
    return found


def worst(relation: str, exact: dict[str, tuple[int, ...]], mechanism: AboveThreshold) -> float:
    """The largest logarithm of a ratio, over all neighbours in both orders and all transcripts."""
    others = [unit for unit in exact if unit]
    pairs = [("", unit) for unit in others] if relation == "add-remove" else list(combinations(exact, 2))
    laws = {unit: law(numbers, mechanism) for unit, numbers in exact.items()}
    return max(abs(laws[a][said] - laws[b][said]) for a, b in pairs for said in laws[a])


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("positives", [1, 2])
@pytest.mark.parametrize("threshold", [1, pytest.param(3, marks=pytest.mark.long), 6])
def test_no_transcript_is_more_than_the_promise_likelier_next_door(
    relation: str, positives: int, threshold: int, tmp_path: Path
) -> None:
    exact = exact_steps(relation)
    with curator("more", tmp_path, relation) as made:
        proposal = made.above(threshold, positives)
        assert proposal.sensitivity == LIMIT
        assert proposal.monotone is (relation == "add-remove")
        mechanism = proposal.mechanism("1.5")
    assert sum(math.exp(each) for each in law(exact["more"], mechanism).values()) == pytest.approx(1)
    found = worst(relation, exact, mechanism)
    assert 0.3 < found <= 1.5 + 1e-9
    # the same noise for a fifth of what one unit changes: some transcript tells too much
    assert worst(relation, exact, underpaid(mechanism)) > 1.5


def underpaid(mechanism: AboveThreshold, times: int = 5) -> AboveThreshold:
    """A session that believes one unit to change a fifth of what it does: its noise is worth five times the price."""
    return AboveThreshold(
        times * mechanism.epsilon,
        mechanism.threshold,
        mechanism.positives,
        mechanism.sensitivity,
        mechanism.monotone,
        None,
        mechanism.neighbours,
    )


def test_the_promise_holds_with_values(tmp_path: Path) -> None:
    """A value is Laplace noise beside: its largest ratio over all values is e^{|x − x′|/scale}, at each positive."""
    exact = exact_steps("add-remove")
    with curator("more", tmp_path, "add-remove") as made:
        mechanism = made.above(3, 2).mechanism("1.5", "0.5")
    assert mechanism.curve() == sf.Curve.pure("1.5")
    laws = {unit: law(numbers, mechanism) for unit, numbers in exact.items()}
    scale = float(mechanism.scales[2])
    for unit in UNITS:
        for said, chance in laws[""].items():
            asked = [next_question(said[:index]) for index, above in enumerate(said) if above]
            more = sum(abs(exact[""][each] - exact[unit][each]) for each in asked) / scale
            assert abs(chance - laws[unit][said]) + more <= 1.5 + 1e-9


# ── what is compared ──


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(each, marks=pytest.mark.long) for each in (2, 3))])
def test_no_unit_moves_a_question_further_than_its_session_allows(seed: int, long: bool) -> None:
    """Random populations with hostile cells, random questions: whatever a session accepts, on grids of its own."""
    random = Random(f"sessions {seed}")
    made = world(random)
    drawn = made.tables(random, 60)
    tables = {name: made.engine(rows) for name, rows in (drawn if long else telling(drawn)).items()}
    compared = 0
    while compared < 10:
        asked = text(random, made)
        if "GROUP BY" in asked or " AS x1" in asked:
            continue
        grid = Fraction(1, random.choice([1, 1, 3, 8]))
        for relation in ("add-remove", "replace"):
            try:
                found = question(tables[""], made.policy((), relation), asked)
                total = compared_total(found, grid)
            except sf.Unsupported:
                continue
            key = random.getrandbits(62)
            numbers = {
                name: int(total.extract(each.read(GroupTotals(total.bounded, found.groups), key))[0, 0])
                for name, each in tables.items()
            }
            grown = [numbers[name] - numbers[""] for name in numbers if name]
            if relation == "add-remove":
                assert max(map(abs, grown)) <= total.max_change_in_steps, asked
                assert not total.is_monotone or min(grown) >= 0, asked
            else:
                assert all(abs(a - b) <= total.max_change_in_steps for a, b in combinations(grown, 2)), asked
            compared += 1
    for engine in tables.values():
        engine.close()


def test_steps_round_down_and_move_no_further_than_the_theorem(tmp_path: Path) -> None:
    with curator("more", tmp_path, "add-remove") as made:
        bounded = compared_total(made.sql("SELECT SUM(cost) FROM visits WHERE cost >= 0"), Fraction(1)).bounded  # type: ignore[arg-type]
        unit = bounded.measures[0].unit_value
        for grid in (Fraction(1), Fraction(1, 3), Fraction(7, 5), unit, 3 * unit):
            total = SteppedTotal(bounded, grid)
            reach = range(-5, 6)
            shown = [int(total.extract(np.full((1, 1), each, np.int64))[0, 0]) for each in reach]
            assert shown == [math.floor(each * unit / grid) for each in reach]
            assert all(b >= a for a, b in pairwise(shown))
            assert total.max_change_in_steps == math.ceil(bounded.measures[0].sensitivity.linf * unit / grid)
        huge = SteppedTotal(bounded, Fraction(1, 10**9)).extract(np.full((1, 1), 2**62 - 1, np.int64))
        assert 0 < huge[0, 0] <= 2**62


@pytest.mark.long
def test_samples_of_sessions_do_not_refute_the_promise_and_do_refute_a_twin(tmp_path: Path, long: bool) -> None:
    """Real sessions over the exact numbers of two neighbours, each transcript as one number."""
    exact = exact_steps("replace")
    with curator("more", tmp_path, "replace") as made:
        mechanism = made.above(2, 2).mechanism(1)

    def refuted(run: AboveThreshold) -> bool:
        """Whether an attacker who knows both tables, and looks at the likelihood of each transcript, refutes it."""
        first, second = (law(exact[unit], run) for unit in ("more", "many"))

        def one(numbers: tuple[int, ...]) -> float:
            said: tuple[bool, ...] = ()
            with run.start() as session:
                while session.remaining and len(said) < 6:
                    said = (*said, session.ask(numbers[next_question(said)]))
            return round(first[said] - second[said], 9)

        def sampler(unit: str) -> Any:
            return lambda count: np.array([one(exact[unit]) for _ in range(count)])

        samples = 100_000 if long else 2_000
        pair = [sampler("more"), sampler("many")]
        return not sf.audit.falsify(pair, sf.Guarantee(1), samples, "0.999999").holds

    assert not refuted(mechanism)
    assert refuted(underpaid(mechanism, 30))


def test_the_mechanism_of_a_replaced_policy_is_never_monotone(tmp_path: Path) -> None:
    with curator("more", tmp_path, "replace") as made, pytest.raises(sf.InvalidParameter, match="monotone"):
        made.above(3, monotone=True)


def test_a_monotone_session_is_half_the_noise(tmp_path: Path) -> None:
    with curator("more", tmp_path, "add-remove") as made:
        rising, any_way = made.above(3).mechanism(1), made.above(3, monotone=False).mechanism(1)
    assert rising.scales[1] < any_way.scales[1]
    assert replace(made.above(3), monotone=False).mechanism(1) == any_way
