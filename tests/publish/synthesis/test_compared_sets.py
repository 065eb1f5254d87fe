"""Which candidates of a wide table a round compares: from public and released facts alone, at an unchanged price."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from publish.synthesis.clinic import RELATIONS, curator, exact_worlds, pairs, people, policy_of, worlds
from sfumato.plan.readings.cell_rows import CodedRows
from sfumato.publish.synthesis import state
from sfumato.publish.synthesis.methods import aim
from sfumato.publish.synthesis.state import ROUNDS_PER_PART, SynthesisState, compared_sets, max_compared
from sfumato.publish.tab_steps import ChooseStep
from sfumato.release.prices import Price

COLUMNS = 12
CLOSURE = [places for count in (1, 2, 3) for places in itertools.combinations(range(COLUMNS), count)]
PAIRS = [places for places in CLOSURE if len(places) == 2]
SINGLES = CLOSURE[:COLUMNS]


def compared(chosen: list[tuple[int, ...]], limit: int) -> list[tuple[int, ...]]:
    found = compared_sets(CLOSURE, chosen, limit)
    assert len({*found}) == len(found) <= limit + COLUMNS
    assert {*found} <= {*CLOSURE}
    assert {*SINGLES} <= {*found}  # a model of any size holds them
    return found


def test_all_sets_are_compared_while_they_are_few() -> None:
    assert compared_sets(CLOSURE, [], len(CLOSURE)) == CLOSURE
    assert len(compared_sets(CLOSURE, [], len(CLOSURE) - 1)) < len(CLOSURE)


def test_first_all_pairs_and_then_what_extends_a_chosen_set() -> None:
    assert compared([], 80) == [*SINGLES, *PAIRS]
    assert compared([(0, 1)] * (COLUMNS - 1), 80) == [*SINGLES, *PAIRS]
    later = compared([(0, 1)] * COLUMNS, 90)
    assert len(later) > 90
    assert {(0, 1, third) for third in range(2, COLUMNS)} <= {*later}
    assert len({*later} & {*PAIRS}) == 40  # half of what the ten extensions leave
    assert (0, 1, 2) in compared([(0, 1, 2)] * COLUMNS, 20)  # it may be measured again


def is_larger(places: tuple[int, ...]) -> bool:
    return len(places) > 2


def test_every_set_has_its_turn() -> None:
    seen: set[tuple[int, ...]] = set()
    for part in range(40):
        chosen = [(0, 1)] * (COLUMNS + part * ROUNDS_PER_PART)
        once, next_round = ({*compared(sets, 60)} for sets in (chosen, [*chosen, (0, 1)]))
        assert {*filter(is_larger, once)} == {*filter(is_larger, next_round)} or len(chosen) % 16 == 15
        assert once != next_round  # other pairs
        seen |= once
    assert seen == {*CLOSURE}


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 66, 67, 200])
def test_no_more_are_compared_than_the_limit_allows(limit: int) -> None:
    for chosen in ([], [(0, 1)] * 13, [*PAIRS, (0, 1, 2)], [(3,)] * 20):
        compared(chosen, limit)


def spread(sets: Sequence[tuple[int, ...]], count: int, turn: int) -> list[tuple[int, ...]]:
    """So many sets at even distances, from the golden multiple of the turn on."""
    if len(sets) <= count:
        return [*sets]
    start = int(math.modf(turn * (math.sqrt(5) - 1) / 2)[0] * len(sets))
    return [sets[(start + math.floor(index * len(sets) / count)) % len(sets)] for index in range(count)]


@pytest.mark.parametrize("limit", [5, 31, 60, 100])
def test_a_third_extends_what_was_chosen_a_third_are_pairs_and_the_rest_is_any(limit: int) -> None:
    triples = [*filter(is_larger, CLOSURE)]
    for rounds in (0, 3, 11, 12, 15, 16, 17, 33, 48):
        chosen = [(0, 1), (2, 5), (0, 1, 2), (3,)] * 12
        found = compared_sets(CLOSURE, chosen[:rounds], limit)
        if rounds < COLUMNS:
            assert found == [*SINGLES, *spread(PAIRS, limit, rounds)]
            continue
        extended = [triple for triple in triples if {0, 1} < {*triple} or {2, 5} < {*triple}]
        one = spread(extended, limit // 3, rounds // 16)
        two = spread(PAIRS, (limit - len(one)) // 2, rounds)
        three = spread(triples, limit - len(one) - len(two), rounds // 16)
        assert found == [*dict.fromkeys([*SINGLES, *one, *two, *three])]
    without_triples = [places for places in CLOSURE if len(places) < 3]
    assert compared_sets(without_triples, [(0, 1)] * 20, 30) == [*SINGLES, *spread(PAIRS, 30, 20)]
    without_pairs = [*SINGLES, *triples]
    assert compared_sets(without_pairs, [], 30) == [*SINGLES, *spread(triples, 30, 0)]


def test_a_round_compares_as_many_sets_as_take_as_long_as_a_hundred_million_rows() -> None:
    """A set takes as long as 48,000 rows, or longer with more than 20 columns; one in 16 is counted first."""
    assert max_compared(0, 1) == max_compared(0, 20) == (3 << 25) // 48_000 == 2097
    assert max_compared(16_000, 20) == (3 << 25) // 49_000
    assert max_compared(16_000, 40) == (3 << 25) // 97_000


def test_wide_tables_are_limited_and_others_are_not() -> None:
    assert max_compared(48_842, 14) > 469  # ADULT's sets of up to three columns
    assert max_compared(27_253, 20) > 1350  # NIST's
    assert max_compared(100_000, 59) < 32_509 / 40
    assert max_compared(10**6, 59) < max_compared(10**5, 59) < max_compared(10**5, 14)
    assert max_compared(10**9, 10**3) >= 1


def test_the_subset_depends_on_nothing_that_was_not_released() -> None:
    """A function of candidates, of sets that were chosen and of a limit; the limit is of the noisy number of rows."""
    assert [*inspect.signature(compared_sets).parameters] == ["candidates", "chosen", "limit"]
    assert [*inspect.signature(max_compared).parameters] == ["rows", "columns"]


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_choice_among_a_subset_is_as_likely_on_neighbours_as_its_price_says(
    relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By exact laws on small worlds, where all were told the same: the subset and the bound are the same on neighbours,
    no score moves by more than the bound of the sets that are compared, and the loss spans at most ε.
    """
    monkeypatch.setattr(state, "max_compared", lambda *_: 1)
    price, outcomes = Price(rho=2), []
    proposal, read = exact_worlds([policy_of(rows, relation=relation) for rows in worlds(relation, units=False)], price)
    steps = [first_choice(SynthesisState(proposal.setting(price)), outcomes, rows) for rows in read]
    ((columns, epsilon, bound),) = {
        (tuple(view.columns for view in step.scores.views), step.mechanism.epsilon, step.scores.sensitivity)
        for step in steps
    }
    assert len(columns) == 4  # three columns, and one of three pairs
    largest = 0.0
    laws = [step.scores.extract(rows).astype(float) for step, rows in zip(steps, read, strict=True)]
    for one, other in pairs(relation, laws):
        largest = max(largest, float(np.abs(one - other).max()))
        losses = _logs(one, steps[0]) - _logs(other, steps[0])
        assert losses.max() - losses.min() <= float(epsilon) * (1 + 1e-9)
    assert bound / 2 <= largest <= bound


def first_choice(course: SynthesisState, outcomes: list[Any], rows: CodedRows) -> ChooseStep:
    """Run up to the first choice on these rows, after the same outcomes for all; the first run draws them."""
    steps = aim(course)
    step = next(steps)
    for index in itertools.count():
        if isinstance(step, ChooseStep):
            return step
        if index == len(outcomes):
            outcomes.append(step.draw(lambda _: rows))
        step = steps.send(outcomes[index])
    raise AssertionError


def _logs(scores: Any, step: ChooseStep) -> Any:
    logs = scores * float(step.mechanism.rate)
    return logs - np.logaddexp.reduce(logs)


@pytest.mark.parametrize("method", ["aim", "mwem"])
def test_a_run_that_compares_few_sets_spends_its_price(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "max_compared", lambda *_: 2)
    compared_counts: list[int] = []
    choose = SynthesisState._candidate_scores
    monkeypatch.setattr(
        SynthesisState,
        "_candidate_scores",
        lambda own, sets, *rest: (compared_counts.append(len(sets)), choose(own, sets, *rest))[1],
    )
    with curator(tmp_path, people(1, 40)) as clinic:
        found = clinic.synthesize("people", method, 2).release(epsilon=2).released
        assert found.complete
        assert clinic._context.account.spent["pure"] == 2
    assert 1 < max(compared_counts) <= 3 + 2
