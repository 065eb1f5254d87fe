"""A whole policy is audited: nothing sound is doubted, what is planted is caught, and what is missed is said aloud.

Outcomes and exact changes have no chance of a mistake; all verdicts by samples of one audit together are wrong with
probability at most 1e-6 where that confidence is asked for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from audit.test_neighbouring_tables import NOWHERE
from sfumato.audit.asked_questions.generated_questions import RandomQuestion, query_templates, read_questions
from sfumato.audit.asked_questions.neighbouring_outcomes import compare_outcomes, record_forecast, release_and_record
from sfumato.audit.whole_policies import curator_audits
from sfumato.audit.whole_policies.audit_testbeds import AuditTestbed, compare_noise, open_testbed, price_release
from sfumato.audit.whole_policies.curator_audits import _audit_queries, _AuditQuery, _AuditRun, _time_notes
from sfumato.audit.whole_policies.curator_findings import (
    OWNER,
    RANDOM,
    TEMPLATE,
    CuratorAudit,
    QuestionResult,
    SamplingResult,
    result_row,
    sampling_phrase,
)
from sfumato.audit.whole_policies.planted_faults import FaultResult, planted_faults
from sfumato.curator import Question
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, Guarantee, PrivacyUnit
from sfumato.release.answers.web_pages import is_self_contained
from sfumato.release.measurement import Measurement
from sfumato.release.parts.shares import NoisyTotals
from sfumato.release.running_work import ignore_progress

CONFIDENCE = "0.999999"
COLUMNS = {
    "ward": {"values": ["A", "B", "C"]},
    "age": {"type": "integer", "bounds": [0, 20]},
    "note": {"type": "text"},
}


def policy(relation: str = "add-remove", *, every_row: bool = False) -> Policy:
    limits = {} if every_row else {"max_rows": 3, "max_groups": 2}
    table = Table("visits", NOWHERE, COLUMNS, id="row" if every_row else "who", **limits)  # type: ignore[arg-type]
    budget = Budget(3, "1e-6", neighbours=relation)
    return Policy(PrivacyUnit("person", every_row=every_row), budget, {"visits": table}, size=100)


@pytest.fixture(scope="module", params=["units", pytest.param("rows", marks=pytest.mark.long)])
def testbed(request: pytest.FixtureRequest) -> Iterator[AuditTestbed]:
    declared = policy() if request.param == "units" else policy("replace", every_row=True)
    with open_testbed(declared) as opened:
        yield opened


def test_every_planted_fault_is_caught(testbed: AuditTestbed, long: bool) -> None:
    """Those that are told by what is drawn, by default."""
    planted = planted_faults(testbed, query_templates(testbed.catalog), Fraction(CONFIDENCE))
    plants = list(planted.values())
    found = [each for plant in (plants if long else plants[:4]) for each in plant()]
    assert [each.name for each in found] == [name for name in planted if name in {each.name for each in found}]
    assert [each.name for each in found if not each.caught] == []
    sampled = {"half the noise", "the same noise for several numbers", "the same noise for all groups"}
    if not testbed.policy.unit.every_row:  # else COUNT(*) is public, and no template has two measures of one scale
        sampled |= {"the same noise for equal measures"}
    if not long:
        assert {each.name for each in found} == sampled
        return
    wanted = sampled | {
        "groups shown because they have rows",
        "keys shown without a threshold",
        "bounds that are twice as wide",
        "a refusal that depends on rows",
        "a message that counts rows",
        "a charge that depends on rows",
    }
    limits = set() if testbed.policy.unit.every_row else {"limits that are one too high"}
    assert {each.name for each in found} == wanted | limits


_SHARED = {
    "groups": "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward",
    "measures": "SELECT COUNT(*) FILTER (WHERE ward = 'A') AS some, COUNT(*) FILTER (WHERE age > 3) AS n FROM visits",
    "both": "SELECT ward, SUM(age) AS a, SUM(age) FILTER (WHERE age > 3) AS b FROM visits GROUP BY ward",
}


def _compared(testbed: AuditTestbed, text: str) -> QuestionResult:
    few = replace(
        testbed,
        tables=replace(testbed.tables, populations_with_extra_unit=testbed.tables.populations_with_extra_unit[:1]),
    )
    (tried,), _ = _AuditRun(few, math.inf, Fraction(CONFIDENCE), ignore_progress).test_questions(
        [_AuditQuery(text, TEMPLATE, gaussian=False)]
    )
    return tried


@pytest.mark.parametrize(("text", "numbers"), [*zip(_SHARED.values(), (3, 2, 6), strict=True)], ids=_SHARED)
def test_a_sound_release_has_noises_of_its_own(testbed: AuditTestbed, text: str, numbers: int) -> None:
    """How often it is drawn follows from the law: of all pairs, one agrees every time with probability ≤ 1e-6."""
    question = testbed.question(text)
    made = price_release(question, testbed.price_for(question))
    compared = compare_noise(question, made, testbed.engines[""], 1 - Fraction(CONFIDENCE))
    assert compared is not None
    assert compared.holds
    assert compared.numbers == numbers
    assert 1 <= compared.draws <= 200


@pytest.mark.parametrize(
    "text",
    [
        *(pytest.param(_SHARED[each], id=each, marks=pytest.mark.long) for each in ("groups", "measures")),
        pytest.param(_SHARED["both"], id="both"),
    ],
)
def test_a_curator_that_uses_a_noise_twice_is_doubted(
    testbed: AuditTestbed, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One noise for all groups, or for measures of one mechanism: each number by itself keeps its law."""
    draw = NoisyTotals.draw

    def shared(part: NoisyTotals, measurements: Sequence[Measurement], exact: Any) -> Any:
        noise = draw(part, measurements, 0 * exact)
        kinds = [each.mechanism for each in measurements]
        return exact + noise[:1, [kinds.index(each) for each in kinds]]

    monkeypatch.setattr(NoisyTotals, "draw", shared)
    (doubt, *_) = _compared(testbed, text).doubts
    assert "share their noise in all" in doubt


def test_opposite_noises_are_found_and_too_narrow_ones_are_not_judged(testbed: AuditTestbed) -> None:
    question = testbed.question(_SHARED["groups"])
    made = price_release(question, testbed.price_for(question))
    signs = np.array([[1], [-1], [1]])
    twin = compare_noise(question, made, testbed.engines[""], Fraction(1, 10**6), lambda noise, _: noise[:1] * signs)
    assert twin is not None
    assert twin.shared == ((0, 1), (0, 2))
    assert "numbers 1 and 2 of 3 share their noise in all" in str(twin)
    assert compare_noise(question, made, testbed.engines[""], Fraction(1, 10**100_000)) is None
    alone = testbed.question("SELECT COUNT(*) FILTER (WHERE ward = 'A') AS n FROM visits")
    assert (
        compare_noise(alone, price_release(alone, testbed.price_for(alone)), testbed.engines[""], Fraction(1, 10**6))
        is None
    )


def test_outcomes_are_alike_whoever_is_in_the_table(testbed: AuditTestbed, long: bool) -> None:
    for text in query_templates(testbed.catalog)[:: 1 if long else 6]:
        try:
            paid = testbed.price_for(testbed.question(text))
        except sf.SfumatoError:
            paid = testbed.price_for(None)
        populations = testbed.tables.populations[:: 1 if long else 5]
        seen = [
            (each, release_and_record(testbed.curators[each.name], text, paid.release_arguments))
            for each in populations
        ]
        assert compare_outcomes(seen) == (), text
        before = [
            (each, record_forecast(testbed.curators[each.name], text, paid.release_arguments))
            for each in populations[:2]
        ]
        assert compare_outcomes(before) == (), text


def test_what_is_seen_holds_the_charge_and_the_groups(testbed: AuditTestbed) -> None:
    """The comparison looks at something: each part is there, and changes when it should."""
    text = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
    others = testbed.tables.ordinary_population
    curator = testbed.curators[others.name]
    once, dearer = (release_and_record(curator, text, {"epsilon": price, "fresh": True}) for price in (1, 2))
    assert "'A'" in once["groups"]
    assert once["charge"] != dearer["charge"]
    assert once["receipt"] != dearer["receipt"]
    assert "charge" in once["ledger"]
    found = compare_outcomes([(others, once), (others, dearer)])
    assert {each.aspect for each in found} >= {"charge", "receipt"}
    refused = release_and_record(curator, "SELECT * FROM visits", {"epsilon": 1, "fresh": True})
    assert "never shown" in refused["refusal"]
    assert "refusal" in {each.aspect for each in compare_outcomes([(others, once), (others, refused)])}


def test_templates_cover_what_can_be_asked(testbed: AuditTestbed) -> None:
    asked = query_templates(testbed.catalog)
    measured, found, refused = set(), 0, 0
    for text in asked:
        try:
            question = testbed.question(text)
        except sf.SfumatoError:
            refused += 1
            continue
        assert isinstance(question, Question)
        measured |= {type(each).__name__ for each in question.query.plan.measures}
        found += bool(question.discovered_keys)
    assert len(measured) >= 6
    assert found
    assert 2 <= refused < len(asked) / 3


def test_the_owners_questions_are_read(tmp_path: Path) -> None:
    path = tmp_path / "ours.sql"
    path.write_text("SELECT COUNT(*) FROM visits; -- all\nSELECT AVG(age) FROM visits")
    assert read_questions(path) == ("SELECT COUNT(*) FROM visits", "SELECT AVG(age) FROM visits")
    assert read_questions(["a", "b"]) == ("a", "b")
    assert read_questions(None) == ()
    with pytest.raises(sf.SfumatoError, match="the file of questions cannot be read"):
        read_questions(tmp_path / "nothing.sql")


@pytest.fixture(scope="module")
def audited(long: bool) -> CuratorAudit:
    """A short audit: the time is up before all is tried, and it says so."""
    return sf.audit.curator(
        policy(), "0.5" if long else "0.005", ["SELECT COUNT(*) AS n FROM visits"], confidence=CONFIDENCE
    )


def test_a_sound_policy_is_not_doubted(audited: CuratorAudit) -> None:
    assert audited.doubts == () or all("no power" in each or "nothing was tested" in each for each in audited.doubts)
    assert not any(each.doubts for each in audited.tried)
    assert audited.faults
    assert not audited.missed_faults


def test_the_page_needs_nothing_else(audited: CuratorAudit) -> None:
    text = sf.audit.page(audited).html
    assert is_self_contained(text)
    assert "Planted faults" in text
    assert "generated from the policy" in text
    assert "<table>" in audited._repr_html_()


def test_an_audit_that_misses_a_fault_says_that_it_has_no_power(audited: CuratorAudit) -> None:
    blind = replace(audited, faults=(FaultResult("half the noise", "SELECT 1", False, "nothing"),))
    assert not blind.holds
    assert not blind.has_power
    assert any("no power" in each for each in blind.doubts)
    assert not replace(audited, faults=()).holds


def test_a_difference_a_change_and_a_verdict_are_doubts(testbed: AuditTestbed) -> None:
    others = testbed.tables.ordinary_population
    other = testbed.tables.populations_with_extra_unit[0]
    sound = QuestionResult("SELECT 1", "template", "ε = 1", True, ())
    assert sound.doubts == ()
    (found,) = compare_outcomes([(others, {"charge": "1"}), (other, {"charge": "2"})])
    assert "charge differs" in replace(sound, differences=(found,)).doubts[0]
    assert "DIFFERS" in result_row(replace(sound, differences=(found,)))
    verdict = sf.audit.Verdict(2.0, Guarantee(1), 0.99, "a ray", 300, 1)
    assert replace(sound, releases=SamplingResult(verdict, 300, 1.5)).doubts == (str(verdict),)
    assert sampling_phrase(SamplingResult(verdict, 300, 1.5)).startswith("REFUTED")
    assert sampling_phrase(SamplingResult(replace(verdict, lower_bound=0.1), 100, math.inf)) == "100 are too few"


def test_an_audit_is_written_for_programs(audited: CuratorAudit) -> None:
    """An ε that no samples would have refuted is null, since JSON has no infinity."""
    verdict = sf.audit.Verdict(2.0, Guarantee(1), 0.99, "a ray", 300, 1)
    tried = QuestionResult("SELECT 1", TEMPLATE, "ε = 1", True, (), noise_draws=SamplingResult(verdict, 300, math.inf))
    found = replace(audited, tried=(replace(tried, releases=SamplingResult(verdict, 400, 1.5)),))
    told = json.loads(found.to_json())
    assert (told["kind"], told["holds"], told["doubts"]) == ("curator-audit/1", False, list(found.doubts))
    assert [each["name"] for each in told["faults"]] == [each.name for each in found.faults]
    (question,) = told["tried"]
    assert question["drawn"] == {
        "lower_bound": 2.0,
        "holds": False,
        "event": "a ray",
        "samples": 300,
        "would_refute": None,
    }
    assert question["bought"]["would_refute"] == 1.5
    assert question["exact_change"] is None
    assert question["doubts"] == [str(verdict)] * 2


@pytest.mark.parametrize("minutes", [0, -1, 1441, "many"])
def test_minutes_are_a_time_that_can_be_waited_for(minutes: object) -> None:
    with pytest.raises(sf.InvalidParameter, match="minutes"):
        sf.audit.curator(policy(), minutes)  # type: ignore[arg-type]


def test_a_confidence_is_one_that_all_verdicts_can_share() -> None:
    with pytest.raises(sf.InvalidParameter, match="at most 1 - 1e-9"):
        sf.audit.curator(policy(), confidence="0.9999999999")


def test_without_a_policy_there_is_no_audit(tmp_path: Path) -> None:
    with pytest.raises(sf.SfumatoError):
        sf.audit.curator(tmp_path / "none.toml")


def test_an_audit_says_of_what_too_few_releases_were_bought(testbed: AuditTestbed) -> None:
    """Where the time is up, nothing is bought, and nothing is said to have been."""
    tried = tuple(QuestionResult(text, TEMPLATE, "ε = 1", True, ()) for text in query_templates(testbed.catalog)[:1])
    kept, unbought = _AuditRun(testbed, 0.0, Fraction(CONFIDENCE), ignore_progress).with_sampled_releases(tried, 300)
    assert kept == tried
    assert unbought == ("SELECT COUNT(*) AS n FROM visits",)
    (note,) = _time_notes((), unbought)
    assert "too few releases were made to test 1 of the questions, such as SELECT COUNT(*)" in note


def test_faults_take_until_then_and_those_that_are_left_are_named(testbed: AuditTestbed, audited: CuratorAudit) -> None:
    """One fault is planted however late it is; what is left is planted later, if there is time."""
    caught = [FaultResult(name, "SELECT 1", True, "it was seen") for name in ("first", "second", "third")]
    planned = {each.name: partial(iter, [each]) for each in caught}
    run = _AuditRun(testbed, 0.0, Fraction(CONFIDENCE), ignore_progress)
    found, left = run.inject_faults({"no place": partial(iter, []), **planned}, 0.0)
    assert (found, list(left)) == ((caught[0],), ["second", "third"])
    assert run.inject_faults(left, 0.0, found) == (found, left)
    assert run.inject_faults(left, math.inf, found) == (tuple(caught), {})
    late = replace(audited, faults=found, untested_faults=tuple(left))
    assert "1 of 3 planted faults were caught, and there was no time for second, third" in str(late)
    assert json.loads(late.to_json())["unplanted"] == ["second", "third"]
    assert "1 of 3" in sf.audit.page(late).html
    (note,) = _time_notes((), (), ("second", "third"))
    assert note == "time ran out before these faults were planted (second, third); allow more minutes"


def test_half_of_the_time_is_left_for_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock is a second later here, so an audit of 15 seconds is late before all is tried. The first
    questions are asked before any fault is planted, to forecast how much there is time for.
    """
    table = Table("visits", NOWHERE, {"ward": COLUMNS["ward"]}, id="who", max_rows=1)
    declared = replace(policy(), tables={"visits": table})
    clock, announced = SimpleNamespace(time=partial(next, count())), []
    monkeypatch.setattr(curator_audits, "time", clock)
    questions = ["SELECT COUNT(*) AS n FROM visits"]
    found = sf.audit.curator(
        declared, "0.25", questions, confidence=CONFIDENCE, progress=announced.append, announce=announced.append
    )
    assert announced[:2] == ["generating tables", "timing the first 3 questions"]
    assert announced[2].startswith("there is time for about ")
    assert sum("there is time" in words for words in announced) == 1
    assert len(found.tried) > curator_audits._TIMED_QUERIES
    assert found.faults
    assert found.untested_faults
    assert not found.missed_faults


def test_one_doubt_is_one_doubt(audited: CuratorAudit) -> None:
    missed = FaultResult("half the noise", "SELECT 1", False, "nothing")
    tried = (QuestionResult("SELECT 1", TEMPLATE, "ε = 1", True, ()),)
    for many, words in ((0, "no doubt"), (1, "1 doubt"), (2, "2 doubts")):
        own = replace(audited, tried=tried, faults=(replace(missed, caught=True), *[missed] * many))
        assert own.doubt_summary == words
        assert f">{words}<" in sf.audit.page(own).html


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("relation", "every_row"), [("add-remove", True), ("replace", False)])
def test_whole_audits_of_sound_policies(relation: str, every_row: bool) -> None:
    """Every question, every kind bought; and with cells that are stored as texts. Either relation is tried once, and so
    is either kind of unit: a busy machine takes all of ten minutes for each.
    """
    declared = policy(relation, every_row=every_row)
    found = sf.audit.curator(declared, 10, confidence=CONFIDENCE)
    assert found.holds, found.doubts
    assert any(each.releases for each in found.tried)


def test_a_drawn_question_is_asked_with_its_limits_and_compared(testbed: AuditTestbed) -> None:
    """One that is answered and one that is refused: of the second, the refusal is compared."""
    few = replace(
        testbed,
        tables=replace(testbed.tables, populations_with_extra_unit=testbed.tables.populations_with_extra_unit[::6]),
    )
    limits = {} if testbed.policy.unit.every_row else {"rows": 1}
    texts = ["SELECT SUM(age + 1) AS a0 FROM visits WHERE age > 3", "SELECT SUM(note) AS a0 FROM visits"]
    run = _AuditRun(few, math.inf, Fraction(CONFIDENCE), ignore_progress)
    tried, _ = run.test_questions([_AuditQuery(RandomQuestion(each, limits), RANDOM, gaussian=False) for each in texts])
    assert [each.doubts for each in tried] == [(), ()]
    assert [each.answered for each in tried] == [True, False]
    assert tried[0].replay is not None
    assert 0 < tried[0].replay.share <= 1
    assert ("limit(rows=1)" in tried[0].question) is bool(limits)


def test_a_question_whose_conditions_leave_no_group_is_tried_and_not_with_gaussian_noise(testbed: AuditTestbed) -> None:
    """It is understood, and refused when its groups are looked for: an audit that drew it goes on."""
    text = "SELECT ward AS k0, COUNT(*) AS a0 FROM visits WHERE ward = 'A' AND ward = 'B' GROUP BY k0"
    few = replace(
        testbed,
        tables=replace(testbed.tables, populations_with_extra_unit=testbed.tables.populations_with_extra_unit[:1]),
    )
    run = _AuditRun(few, math.inf, Fraction(CONFIDENCE), ignore_progress)
    asked = [_AuditQuery(RandomQuestion(text, {}), RANDOM, gaussian=True)]
    (tried,), _ = run.test_questions(asked)
    assert (tried.answered, tried.doubts) == (False, ())
    assert list(run.test_with_gaussian_noise(asked)) == []


def test_gaussian_noise_on_some_tables_changes_no_outcome_of_others(testbed: AuditTestbed, long: bool) -> None:
    """It ends what an account pays by ε alone, so it comes after everything else. How many rows there are is public
    under replace neighbours, and would not be drawn; how many of each ward is not.
    """
    texts = ["SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", "SELECT SUM(age) AS total FROM visits"]
    asked = [_AuditQuery(each, TEMPLATE, gaussian=True) for each in (texts if long else texts[:1])]
    few = replace(
        testbed,
        tables=replace(testbed.tables, populations_with_extra_unit=testbed.tables.populations_with_extra_unit[::6]),
    )
    run = _AuditRun(few, math.inf, Fraction(CONFIDENCE), ignore_progress)
    tried, untried = run.test_questions(asked)
    assert untried == ()
    tried = (*tried, *run.test_with_gaussian_noise(asked))
    assert [each.doubts for each in tried] == [()] * 2 * len(asked)
    assert ["Gaussian" in each.price for each in tried] == [False] * len(asked) + [True] * len(asked)
    assert all(each.answered and each.replay is not None and each.noise_draws is not None for each in tried)


def test_the_owners_questions_come_first_and_drawn_ones_last(testbed: AuditTestbed) -> None:
    own = "SELECT AVG(age) AS ours FROM visits"
    asked = list(_audit_queries(testbed, [own], 7, 5))
    assert (asked[0].text, asked[0].origin) == (own, OWNER)
    assert [each.origin for each in asked].count(RANDOM) == 5
    assert [each.origin for each in asked[-5:]] == [RANDOM] * 5
    assert list(_audit_queries(testbed, [own], 7, 9))[-9:][:5] == asked[-5:]
    assert list(_audit_queries(testbed, [own], 8, 5))[-5:] != asked[-5:]


def test_a_budget_of_nothing_is_refused_at_once() -> None:
    with pytest.raises(sf.InvalidPolicy, match="with ε = 0 the policy answers nothing"):
        sf.audit.curator(replace(policy(), budget=Budget(0)))


def test_an_audit_tells_the_seed_of_what_it_drew() -> None:
    tried = (QuestionResult("SELECT 1", RANDOM, "ε = 1", True, ()),)
    audit = CuratorAudit("p", "person", "add-remove", 0.99, (), tried, (), (), 1.0, 42)
    assert audit.seed_summary == "1 random question from seed 42; the same seed draws the same again"
    assert json.loads(audit.to_json())["seed"] == 42
    assert replace(audit, seed=None).seed_summary == ""


@pytest.mark.parametrize(
    ("remaining", "words"),
    [
        (0.0, "the time is too short to test any of the 69 questions; allow more minutes"),
        (
            20.0,
            "there is time for about 8 of 69 questions and 5 of 9 planted faults; all of them take about 4 minutes, "
            "judging by the slowest of the first questions",
        ),
        (155.0, "there is probably time for all 69 questions and 9 planted faults"),
    ],
)
def test_what_there_is_time_for_is_said_before(remaining: float, words: str) -> None:
    assert curator_audits._describe_coverage(69, 9, 2.0, remaining) == words
