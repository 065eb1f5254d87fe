"""Questions are falsified over the whole path of their policy, on invented tables, and twins are caught.

Each verdict on a sound release is wrong with probability at most 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from audit.test_neighbouring_tables import policy
from sfumato.audit.asked_worlds import asked_worlds, is_asked, replayed_question, telling_pair
from sfumato.audit.audit_stages import Paid, prepared
from sfumato.audit.drawn_again import detectable, drawn_again
from sfumato.audit.neighbouring_tables import neighbours_of
from sfumato.audit.replayed_totals import record, replayed
from sfumato.audit.sampling_processes import AskedText, Job, Processes, throw_away
from sfumato.audit.told_answers import Coordinates, told
from sfumato.curator import Curator
from sfumato.engine.opening import open_engine
from sfumato.policy import InMemory, Policy
from sfumato.privacy import Guarantee, Sensitivity

CONFIDENCE = "0.999999"


def _owned(declared: Policy) -> Policy:
    """The same policy with a table of the owner's: empty, so that whoever reads it learns nothing to try."""
    made = neighbours_of(declared)
    empty = made.others.tables["visits"].slice(0, 0)
    tables = {"visits": replace(declared.tables["visits"], source=InMemory(empty))}
    return replace(declared, tables=tables, id_type="text" if not declared.unit.every_row else None)


@pytest.fixture(scope="module", params=["add-remove", "replace"])
def curator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curator]:
    with Curator(_owned(policy(request.param)), tmp_path_factory.mktemp("owner") / "owner.ledger") as opened:
        yield opened


def test_a_question_is_not_refuted_and_the_owner_pays_nothing(curator: Curator) -> None:
    """The owner's table is empty, so a verdict above 0 comes from invented rows; the account is untouched."""
    before, lines = curator.budget.remaining, curator.ledger.head
    verdict = sf.audit.falsify(curator.sql("SELECT COUNT(*) AS n FROM visits"), Guarantee(2), 150, "0.9")
    assert verdict.holds
    assert curator.budget.remaining == before
    assert curator.ledger.head == lines


def test_a_claim_below_what_was_paid_is_refuted(curator: Curator) -> None:
    """The twin that claims a tenth of its price: few answers tell."""
    question = curator.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward")
    claim = Guarantee("0.5")
    worlds = asked_worlds(question, claim, 150, price={"epsilon": 5, "fresh": True})
    verdict = sf.audit.falsify(worlds, claim, 150, CONFIDENCE)
    assert not verdict.holds, str(verdict)
    sound = sf.audit.falsify(asked_worlds(question, claim, 150), claim, 150, CONFIDENCE)
    assert sound.holds, str(sound)


def test_what_is_no_proposal_is_refused(curator: Curator) -> None:
    assert is_asked(curator.sql("SELECT COUNT(*) FROM visits"))
    assert not is_asked("SELECT 1")
    with pytest.raises(sf.InvalidParameter, match="proposal of a curator"):
        asked_worlds("SELECT 1", Guarantee(1), 100)
    with pytest.raises(sf.InvalidParameter, match="samples"):
        sf.audit.falsify(curator.sql("SELECT COUNT(*) FROM visits"), Guarantee(1), 99)


QUESTIONS = (
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT ward, COUNT(*) AS n, SUM(age) AS total FROM visits GROUP BY ward",
    "SELECT AVG(cost) AS average FROM visits",
    "SELECT COUNT(DISTINCT who) AS people FROM visits",
    "SELECT ward, COUNT(DISTINCT age) AS ages FROM visits GROUP BY ward",
)


@pytest.mark.parametrize("text", QUESTIONS)
def test_exact_changes_keep_the_claim_and_reach_it(curator: Curator, text: str) -> None:
    """A claim that is reached is caught when it is halved: the sum of changes, or another norm, is above half."""
    found = replayed_question(curator.sql(text), Guarantee(1), neighbours_of(curator.policy))
    assert found.holds, found
    assert found.share > 0.999
    assert found.compared > 10


def test_half_a_claim_is_exceeded(curator: Curator) -> None:
    made = neighbours_of(curator.policy)
    engines = {each.name: open_engine(made.opened(each), None, 1) for each in made.populations}
    with throw_away(made.opened(made.others)) as twin:
        question: Any = twin.sql(QUESTIONS[1])
        recorded = record(question, prepared(question, Paid(Guarantee(1))), engines)
    assert replayed(recorded, made.pairs).holds
    halved = [replace(each, claim=_half(each.claim)) for each in recorded]
    assert not replayed(halved, made.pairs).holds
    pair = replayed(recorded, made.pairs).telling
    assert pair is not None
    sound = drawn_again(recorded, pair, Guarantee(1), 4_000, Fraction(CONFIDENCE))
    assert sound is not None
    assert sound[0].holds
    broken = drawn_again(recorded, pair, Guarantee("0.3"), 4_000, Fraction(CONFIDENCE))
    assert broken is not None
    assert not broken[0].holds
    for each in engines.values():
        each.close()


def _half(claim: Sensitivity) -> Sensitivity:
    return Sensitivity(claim.groups, claim.per_group / 2, claim.total / 2, claim.squares / 4, claim.neighbours)


def test_the_telling_pair_is_the_one_that_is_furthest_apart(curator: Curator) -> None:
    made = neighbours_of(curator.policy)
    first, second = telling_pair(curator.sql(QUESTIONS[0]), Guarantee(1), made)
    assert (first, second) in made.pairs
    rows = {each.tables["visits"].num_rows for each in (first, second)}
    assert max(rows) >= made.others.tables["visits"].num_rows + 5
    assert telling_pair(curator.sql("SELECT MEDIAN(age) FROM visits"), Guarantee(1), made) in made.pairs


def test_found_keys_are_put_side_by_side(curator: Curator) -> None:
    """A key that only one of the tables has counts as zeros in the other."""
    found = replayed_question(
        curator.sql("SELECT note, COUNT(*) AS n FROM visits GROUP BY note"),
        Guarantee(1, "1e-9"),
        neighbours_of(curator.policy),
    )
    assert found.holds
    assert found.share > 0.3


def test_processes_buy_what_this_one_would() -> None:
    made = neighbours_of(policy())
    text = AskedText("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward")
    jobs = [
        Job(made.opened(each), text, {"epsilon": 10**6, "fresh": True}, 3, math.inf) for each in made.populations[:2]
    ]
    with Processes() as processes:
        first, second = processes.buy(jobs)
        with pytest.raises(sf.SfumatoError, match="never shown"):
            processes.buy([replace(jobs[0], ask=AskedText("SELECT * FROM visits"))])
    assert len(first) == len(second) == 3
    assert first[0]["('ward 0',) n"] == 1
    assert second[0]["('ward 0',) n"] == 2


def test_other_proposals_are_asked_too(curator: Curator) -> None:
    """Sessions, workloads and running totals: what they tell is put down as numbers."""
    count = "SELECT COUNT(*) AS n FROM visits"
    for proposal in (
        curator.above(3, questions=[count]),
        curator.workload({"all": count, "old": "SELECT COUNT(*) AS n FROM visits WHERE age > 50"}),
        curator.histogram("visits", ["ward"]),
    ):
        assert is_asked(proposal)
        numbers = asked_worlds(proposal, Guarantee(1), 30)[1](30)
        assert numbers.shape[0] == 30
        assert len(np.unique(numbers[:, 0])) > 1 or numbers.shape[1] > 1


def test_coordinates_are_fixed_by_the_pilot() -> None:
    first = [{"a": float(n % 3), "b": "x"} for n in range(30)]
    second = [{"a": 50.0 + n % 3, "b": "y", "new": 1} for n in range(30)]
    looked = Coordinates.of(first, second)
    numbers = looked.numbers([{"a": 0.0, "b": "x"}, {"a": 50.0, "b": "y", "new": 1}, {"a": 7.0, "b": "never seen"}, {}])
    assert numbers[0, 0] < 0 < numbers[1, 0]
    assert np.isfinite(numbers).all()
    assert numbers.shape == (4, 4)


def test_an_answer_is_told_by_its_keys(curator: Curator) -> None:
    seen = told(curator.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward").rehearse(epsilon=1))
    assert seen["rows"] == 8
    assert {"('ward 0',) n", "('ward 7',) shown"} <= set(seen)


def test_power_grows_with_samples() -> None:
    """Ten thousand see 1.2 where 1 is claimed; a hundred see nothing at this confidence."""
    powers = [detectable(Guarantee(1), many, Fraction(CONFIDENCE)) for many in (100, 1_000, 10_000, 100_000)]
    assert powers[0] == math.inf
    assert powers == sorted(powers, reverse=True)
    assert 1 < powers[-1] < powers[-2] < 1.25


def test_a_table_in_memory_reaches_another_process() -> None:
    assert isinstance(neighbours_of(policy()).others.tables["visits"], pa.Table)
