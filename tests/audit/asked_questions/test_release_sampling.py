"""Questions are falsified over the whole path of their policy, on invented tables, and twins are caught.

Each verdict on a sound release is wrong with probability at most 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from audit.test_neighbouring_tables import NOWHERE, policy
from sfumato.audit.asked_questions.neighbouring_outcomes import (
    ReleaseFeatures,
    compare_recorded_totals,
    flatten_release,
)
from sfumato.audit.asked_questions.release_sampling import (
    SamplingJob,
    SamplingWorkers,
    SqlQuestion,
    arguments_at_claim,
    most_distinguishable_pair,
    pair_with_most_rows,
    replay_question,
    sample_proposal,
)
from sfumato.audit.generated_tables import neighbours_of
from sfumato.audit.whole_policies.audit_testbeds import AuditTestbed, open_testbed, refute_by_draws
from sfumato.curator import Curator
from sfumato.policy import InMemory, Policy, Table
from sfumato.privacy import Budget, Guarantee, PrivacyUnit, Sensitivity

CONFIDENCE = "0.999999"
COUNT = "SELECT COUNT(*) AS n FROM visits"


def _owned(declared: Policy) -> Policy:
    """The same policy with a table of the owner's: empty, so that whoever reads it learns nothing to try."""
    made = neighbours_of(declared)
    empty = made.ordinary_population.tables["visits"].slice(0, 0)
    tables = {"visits": replace(declared.tables["visits"], source=InMemory(empty))}
    return replace(declared, tables=tables, id_type="text" if not declared.unit.every_row else None)


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curator]:
    with Curator(_owned(policy()), tmp_path_factory.mktemp("owner") / "owner.ledger") as opened:
        yield opened


@pytest.fixture(scope="module", params=["add-remove", pytest.param("replace", marks=pytest.mark.long)])
def testbed(request: pytest.FixtureRequest) -> Iterator[AuditTestbed]:
    with open_testbed(policy(request.param)) as opened:
        yield opened


@pytest.mark.long
def test_a_question_is_not_refuted(curator: Curator) -> None:
    """Its price is its claim, which two hundred answers could refute if they had none in common."""
    assert sf.audit.falsify(curator.sql(COUNT), Guarantee(2), 2_000, CONFIDENCE).holds


@pytest.mark.long
def test_a_claim_below_what_was_paid_is_refuted_and_the_owner_pays_nothing(curator: Curator) -> None:
    """The twin that claims a two hundredth of its price: every answer tells, but for e^−40. The owner's table is empty,
    so what is told comes from invented rows; the account is untouched.
    """
    claim, before, lines = Guarantee("0.2"), curator.budget.remaining, curator.ledger.head
    worlds = sample_proposal(curator.sql(COUNT), claim, 100, price={"epsilon": 40, "fresh": True})
    verdict = sf.audit.falsify(worlds, claim, 100, CONFIDENCE)
    assert not verdict.holds, str(verdict)
    assert curator.budget.remaining == before
    assert curator.ledger.head == lines


@pytest.mark.parametrize("relation", ["add-remove", pytest.param("replace", marks=pytest.mark.long)])
def test_the_groups_of_one_release_are_looked_at_together(relation: str, tmp_path: Path) -> None:
    """A count for each of five wards is sound: it is refuted with probability at most 1e-6.

    With one noise for all wards this must fail, though each count alone is as private as before. The count that the
    unit moved less one that it did not is then another number in each world, always, and any event that says so proves
    ε ≥ 2.5 from 210 samples. Eight events are measured, those that told most of 15 other samples, and this one tells
    all. It is left out only if at least four that keep the claim do so too (another four, of whole rows, may). Each
    has a chance of at most (e^0.1/(1 + e^0.1))^30 < 10⁻⁸, of the 48 of columns and their last bits: together 2·10⁻⁷.
    """
    columns = {"ward": {"values": ["A", "B", "C", "D", "E"]}}
    table = Table("visits", NOWHERE, columns, id="row")
    declared = Policy(PrivacyUnit("visit", every_row=True), Budget(3, neighbours=relation), {"visits": table}, size=20)
    with Curator(_owned(declared), tmp_path / "owner.ledger") as curator:
        question, before = curator.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"), curator.ledger.head
        verdict = sf.audit.falsify(question, Guarantee("0.2"), 300, CONFIDENCE)
        assert curator.ledger.head == before  # the owner pays nothing
    assert verdict.holds, str(verdict)


def test_the_price_is_the_claim(curator: Curator) -> None:
    """A question that is bought for less than its claim would be found sound whatever it does."""
    assert arguments_at_claim(curator.sql(COUNT), Guarantee(2)) == {"epsilon": 2, "fresh": True}
    wide = arguments_at_claim(curator.sql(COUNT), Guarantee(2, "1e-9"))
    assert wide == {"epsilon": 2, "delta": Fraction(1, 10**9), "fresh": True}
    assert arguments_at_claim(curator.above(3, questions=[COUNT]), Guarantee(2, "1e-9")) == {"epsilon": 2}


def test_what_is_no_proposal_is_refused(curator: Curator) -> None:
    with pytest.raises(sf.InvalidParameter, match="the result of a curator's method"):
        sample_proposal("SELECT 1", Guarantee(1), 100)
    with pytest.raises(sf.InvalidParameter, match="samples"):
        sf.audit.falsify(curator.sql("SELECT COUNT(*) FROM visits"), Guarantee(1), 99)


QUESTIONS = (
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT ward, COUNT(*) AS n, SUM(age) AS total FROM visits GROUP BY ward",
    "SELECT AVG(cost) AS average FROM visits",
    "SELECT COUNT(DISTINCT who) AS people FROM visits",
    "SELECT STDDEV(cost) AS spread FROM visits",
)


@pytest.mark.parametrize(
    "text", [*QUESTIONS[:3], *(pytest.param(each, marks=pytest.mark.long) for each in QUESTIONS[3:])]
)
def test_exact_changes_keep_the_claim_and_half_of_it_is_exceeded(testbed: AuditTestbed, text: str) -> None:
    question = testbed.question(text)
    recorded = testbed.record_totals(question, testbed.price_for(question))
    reached = compare_recorded_totals(recorded, testbed.tables.pairs)
    assert reached.holds, reached
    assert reached.comparisons == len(recorded) * len(testbed.tables.pairs)
    assert reached.share > 0.5
    halved = [replace(each, claim=_half(each.claim)) for each in recorded]
    assert not compare_recorded_totals(halved, testbed.tables.pairs).holds


def test_noise_that_is_drawn_again_tells_what_is_claimed_too_low(testbed: AuditTestbed) -> None:
    question = testbed.question(QUESTIONS[1])
    recorded = testbed.record_totals(question, testbed.price_for(question))
    pair = compare_recorded_totals(recorded, testbed.tables.pairs).most_distinguishable_pair
    assert pair is not None
    verdicts = [refute_by_draws(recorded, pair, Guarantee(claim), 8_000, Fraction(CONFIDENCE)) for claim in (1, "0.1")]
    (sound, many), (broken, _) = [each for each in verdicts if each is not None]
    assert sound.holds, str(sound)
    assert many == 8_000
    assert not broken.holds, str(broken)


def _half(claim: Sensitivity) -> Sensitivity:
    return Sensitivity(claim.groups, claim.per_group / 2, claim.total / 2, claim.squares / 4, claim.neighbours)


def test_the_telling_pair_is_the_one_that_is_furthest_apart(curator: Curator) -> None:
    made = neighbours_of(curator.policy)
    first, second = most_distinguishable_pair(curator.sql(QUESTIONS[0]), Guarantee(1), made)
    assert (first, second) in made.pairs
    assert first is made.ordinary_population or first == made.ordinary_population
    assert second.tables["visits"].num_rows > made.ordinary_population.tables["visits"].num_rows + 1
    assert pair_with_most_rows(made)[1].name == "rows far beyond the limit, each of its own"


def test_found_keys_are_put_side_by_side(testbed: AuditTestbed) -> None:
    """A key that only one of the tables has counts as zeros in the other."""
    question = testbed.question("SELECT note, COUNT(*) AS n FROM visits GROUP BY note")
    recorded = testbed.record_totals(question, testbed.price_for(question))
    reached = compare_recorded_totals(recorded, testbed.tables.pairs)
    assert 0.3 < reached.share <= 1


@pytest.mark.long
def test_a_question_alone_is_compared_too(curator: Curator) -> None:
    found = replay_question(curator.sql(COUNT), Guarantee(1), neighbours_of(curator.policy))
    assert found.holds
    assert found.share > 0.999


@pytest.mark.long
def test_processes_buy_what_this_one_would() -> None:
    made = neighbours_of(policy())
    text = SqlQuestion("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward")
    jobs = [
        SamplingJob(made.policy_over(each), text, {"epsilon": 10**6, "fresh": True}, 3, math.inf)
        for each in made.populations[:2]
    ]
    with SamplingWorkers() as processes:
        first, second = (processes.sample([each])[0] for each in jobs)  # one process; falsify begins two
        with pytest.raises(sf.SfumatoError, match="never shown"):
            processes.sample([replace(jobs[0], ask=SqlQuestion("SELECT * FROM visits"))])
    assert len(first) == len(second) == 3
    assert first[0]["('ward 0',) n"] == 1
    assert second[0]["('ward 0',) n"] == 2


def _small(folder: Path) -> Curator:
    """A curator whose columns all have cells, so that they can be published."""
    columns: dict[str, Any] = {"ward": {"values": ["A", "B"]}, "urgent": {"type": "boolean"}}
    table = Table("visits", NOWHERE, columns, id="who", max_rows=2)
    declared = Policy(PrivacyUnit("person"), Budget(3, "1e-6"), {"visits": table}, size=20)
    return Curator(_owned(declared), folder / "owner.ledger")


PROPOSALS: dict[str, Callable[[Curator], Any]] = {
    "a session": lambda curator: curator.above(4, questions=[COUNT]),
    "a histogram": lambda curator: curator.histogram("visits", ["ward"]),
    "marginals": lambda curator: curator.marginals("visits", 2),
    "a workload": lambda curator: curator.workload({"all": COUNT, "some": f"{COUNT} WHERE urgent"}),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", PROPOSALS)
def test_every_proposal_keeps_its_price_and_a_smaller_claim_is_refuted(kind: str, tmp_path: Path) -> None:
    """What each tells is put down as numbers. The twin pays two hundred times what it claims."""
    claim = Guarantee("0.2")
    with _small(tmp_path) as curator:
        proposal, before = PROPOSALS[kind](curator), curator.budget.remaining
        assert sf.audit.falsify(proposal, claim, 100, CONFIDENCE).holds
        dear = {**arguments_at_claim(proposal, claim), "epsilon": 40}
        verdict = sf.audit.falsify(sample_proposal(proposal, claim, 100, price=dear), claim, 100, CONFIDENCE)
        assert not verdict.holds, str(verdict)
        assert curator.budget.remaining == before


def test_coordinates_are_fixed_by_the_pilot() -> None:
    first = [{"a": float(n % 3), "b": "x"} for n in range(30)]
    second = [{"a": 50.0 + n % 3, "b": "y", "new": 1} for n in range(30)]
    looked = ReleaseFeatures.from_pilot(first, second)
    numbers = looked.feature_matrix(
        [{"a": 0.0, "b": "x"}, {"a": 50.0, "b": "y", "new": 1}, {"a": 7.0, "b": "never seen"}, {}]
    )
    assert numbers[0, 0] < 0 < numbers[1, 0]
    assert np.isfinite(numbers).all()
    assert numbers.shape == (4, 4)


def test_an_answer_is_told_by_its_keys(curator: Curator) -> None:
    seen = flatten_release(curator.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward").preview(epsilon=1))
    assert seen["rows"] == 8
    assert {"('ward 0',) n", "('ward 7',) shown"} <= set(seen)


def test_the_counts_of_a_published_table_are_told_as_numbers(tmp_path: Path) -> None:
    """They are stored as packed texts, by which no two releases could be compared."""
    with _small(tmp_path) as curator:
        seen = flatten_release(curator.histogram("visits", ["ward"]).preview(epsilon=1))
    assert [type(seen[f"/published/values/0/{place}"]) for place in range(3)] == [float] * 3


def test_a_table_in_memory_reaches_another_process() -> None:
    assert isinstance(neighbours_of(policy()).ordinary_population.tables["visits"], pa.Table)


def test_a_synthetic_table_is_left_to_canaries(curator: Curator) -> None:
    """Its rows are no numbers that could be compared, so nothing would ever be refuted."""
    with pytest.raises(sf.InvalidParameter, match="one_run"):
        sf.audit.falsify(curator.synthesize("visits", columns=["ward"]), sf.Guarantee(1), 200)


def test_a_text_is_sent_to_a_curator() -> None:
    with pytest.raises(sf.InvalidParameter, match=r"falsify\(curator.sql"):
        sf.audit.falsify(COUNT, sf.Guarantee(1))


def test_a_proposal_is_made_again_only_where_the_same_is_declared(curator: Curator, tmp_path: Path) -> None:
    """Its noise was made for the limits of its own policy: under wider ones it would be too little."""
    question = curator.sql(COUNT)
    wider = {name: replace(each, max_rows=30) for name, each in curator.policy.tables.items()}
    with Curator(curator.policy, tmp_path / "same.ledger") as same:
        head = curator.ledger.head
        same.rebind(question).release(epsilon=1)
        assert COUNT in [each.question for each in same.history()]
        assert curator.ledger.head == head
    with Curator(replace(curator.policy, tables=wider), tmp_path / "wider.ledger") as other:
        with pytest.raises(sf.InvalidParameter, match="declares the same unit, tables and columns"):
            other.rebind(question)
        with pytest.raises(sf.InvalidParameter, match="the result of a curator's method"):
            other.rebind(COUNT)
