"""Audit a whole curator on tables generated from its policy.

The queries are the owner's own, templates of every kind, and random queries from the supported grammar. Each is tested
in four ways. *Outcomes*: everything visible except the noise is compared between neighbouring tables. *Replay*: the
exact change between neighbours is divided by the claimed sensitivity, which needs no samples. *Shared noise*: a
release is drawn until no two of its noise values would agree by chance. *Samples*: the noise is drawn ten thousand
times over the same totals, and releases of each kind of query are made one by one over the whole path, each with its
charge.

False alarms: outcomes and replays are exact. All sampling verdicts of one audit share the error probability, so a
sound curator is doubted with probability at most 1 − confidence (Bonferroni; ``falsifying``). Power: each audit also
tests twins with an injected fault, and reports for each sampling test the true ε it would have refuted.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from typing import Any

from sfumato.audit.asked_questions.generated_questions import (
    RandomQuestion,
    query_templates,
    random_questions,
    read_questions,
)
from sfumato.audit.asked_questions.neighbouring_outcomes import (
    ReleaseFeatures,
    compare_outcomes,
    compare_recorded_totals,
    record_forecast,
    release_and_record,
)
from sfumato.audit.asked_questions.release_sampling import (
    MIN_PILOT,
    PILOT_SHARE,
    SamplingJob,
    SamplingWorkers,
    SqlQuestion,
    pair_with_most_rows,
)
from sfumato.audit.lower_bounds.falsifying import falsify, required_samples
from sfumato.audit.lower_bounds.verdicts import Verdict
from sfumato.audit.whole_policies.audit_testbeds import (
    AuditPrice,
    AuditTestbed,
    compare_noise,
    open_testbed,
    price_release,
    refute_by_draws,
)
from sfumato.audit.whole_policies.curator_findings import (
    OWNER,
    RANDOM,
    TEMPLATE,
    CuratorAudit,
    QuestionResult,
    SamplingResult,
)
from sfumato.audit.whole_policies.planted_faults import FaultInjection, FaultResult, planted_faults
from sfumato.curator import Question
from sfumato.curator.policy_account import read_policy
from sfumato.errors import InvalidParameter, InvalidPolicy, SfumatoError
from sfumato.mechanisms import bits
from sfumato.policy import Policy
from sfumato.privacy.numbers import POSITIVE, Number, Range, exact, exact_integer
from sfumato.quick_dataclass import dataclass
from sfumato.release.running_work import Progress, ignore_progress

_DRAWS = 10_000
_RELEASES_PER_MINUTE = 60
"""Releases in each world, per kind of query and per allowed minute."""
_MAX_RELEASED_KINDS = 6
"""The most kinds of queries that are sampled by full releases."""
_MIN_RELEASES = 300
_GAUSSIAN_QUERIES = 5
"""How many of the first queries are also tested with Gaussian noise."""
_TIMED_QUERIES = 3
"""How many of the first queries are timed for the forecast of what there is time for."""
_RANDOM_QUERIES_PER_MINUTE = 3
"""Random queries, beside all templates, per allowed minute."""
_MIN_RANDOM_QUERIES = 2
_SEEDS = 1 << 32
_CONFIDENCES = Range("a number above 0 and at most 1 - 1e-9", Fraction(0), 1 - Fraction(1, 10**9), low_open=True)
"""Hundreds of verdicts share the error probability, and each still needs a confidence below 1."""


def curator(
    policy: Policy | str | os.PathLike[str],
    minutes: Number = 5,
    questions: Sequence[str] | str | os.PathLike[str] | None = None,
    *,
    confidence: Number = "0.9999",
    seed: int | None = None,
    progress: Progress = ignore_progress,
    announce: Progress = ignore_progress,
) -> CuratorAudit:
    """Audit a policy: compare outcomes, exact changes, noise and releases on neighbouring generated tables, and check
    that injected faults are detected.

    None of the owner's private rows are read and no budget is spent; public tables are read as they are. The audit
    takes about ``minutes`` at most; more minutes allow more releases. ``questions`` are the owner's own, as texts or a
    .sql file; they are tested beside templates and random queries. ``seed`` determines the random queries, so that a
    doubt can be reproduced; the seed used is reported. ``announce`` is called once, after the first few questions, with
    about what the time is enough for.
    """
    declared, allowed_minutes = read_policy(policy), float(exact(minutes, "minutes", POSITIVE))
    if allowed_minutes > 24 * 60:
        raise InvalidParameter("minutes", minutes, "at most 1,440, which is one day")
    _require_positive_epsilon(declared)
    owner_questions = read_questions(questions)
    level, started = exact(confidence, "confidence", _CONFIDENCES), time.time()
    used_seed = bits.random_below(_SEEDS) if seed is None else exact_integer(seed, "seed")
    progress("generating tables")
    with open_testbed(declared) as testbed:
        random_count = max(_MIN_RANDOM_QUERIES, round(_RANDOM_QUERIES_PER_MINUTE * allowed_minutes))
        queries = tuple(_audit_queries(testbed, owner_questions, used_seed, random_count))
        run = _AuditRun(testbed, started + 60 * allowed_minutes, _verdict_confidence(level, len(queries)), progress)
        fixed_texts = tuple(query.text for query in queries if query.origin != RANDOM)
        planned_faults = planted_faults(testbed, fixed_texts, run.level)
        first_results, first_untested, slowest = run.test_and_time_questions(queries[:_TIMED_QUERIES])
        announce(_describe_coverage(len(queries), len(planned_faults), slowest, run.deadline - time.time()))
        faults, unplanted = run.inject_faults(planned_faults, (time.time() + run.deadline) / 2)
        results, untested = run.test_questions(queries[_TIMED_QUERIES:], _TIMED_QUERIES + 1, len(queries))
        results, untested = (*first_results, *results), (*first_untested, *untested)
        faults, unplanted = run.inject_faults(unplanted, run.deadline, faults)
        release_count = max(_MIN_RELEASES, round(_RELEASES_PER_MINUTE * allowed_minutes))
        results, unsampled = run.with_sampled_releases(
            (*results, *run.test_with_gaussian_noise(queries)), release_count
        )
        notes = (*_time_notes(untested, unsampled, tuple(unplanted)), *_unreached_limit_notes(testbed))
    return CuratorAudit(
        declared.account_name,
        str(declared.unit),
        declared.neighbours.value,
        float(level),
        tuple(population.name for population in testbed.tables.populations_with_extra_unit),
        results,
        faults,
        notes,
        time.time() - started,
        used_seed,
        tuple(unplanted),
    )


def _describe_coverage(questions: int, faults: int, question_seconds: float, remaining: float) -> str:
    """Forecast roughly what there is time for, if every question and planted fault takes as long as the slowest of the
    first questions took; faults come next, and get at most half of the time.
    """
    if remaining <= 0:
        return f"the time is too short to test any of the {questions} questions; allow more minutes"
    seconds = max(question_seconds, 0.001)
    planted = min(faults, max(1, int(remaining / 2 / seconds)))
    tested = min(questions, _TIMED_QUERIES + int(max(0.0, remaining - planted * seconds) / seconds))
    if (tested, planted) == (questions, faults):
        return f"there is probably time for all {questions} questions and {faults} planted faults"
    needed = math.ceil(seconds * (questions + 2 * faults) / 60) + 1
    covered = f"about {tested} of {questions} questions and {planted} of {faults} planted faults"
    return (
        f"there is time for {covered}; all of them take about {needed} minutes, judging by the slowest of the first "
        "questions"
    )


def _require_positive_epsilon(policy: Policy) -> None:
    """Refuse a budget of ε = 0: every query would be refused and nothing could be tested."""
    if not policy.budget.epsilon:
        raise InvalidPolicy(
            "an audit needs answers, and with ε = 0 the policy answers nothing",
            place="budget.epsilon",
            fix="give the budget an ε above 0",
        )


@dataclass(frozen=True)
class _AuditQuery:
    """A query to be tested."""

    ask: str | RandomQuestion
    origin: str
    gaussian: bool
    """Whether it is also tested with Gaussian noise."""

    @property
    def text(self) -> str:
        return str(self.ask)


def _audit_queries(
    testbed: AuditTestbed, owner_questions: Sequence[str], seed: int, random_count: int
) -> Iterator[_AuditQuery]:
    """Yield the queries to test: the owner's own, then templates, then random ones."""
    origins = {**dict.fromkeys(owner_questions, OWNER)}
    origins = {**origins, **{text: TEMPLATE for text in query_templates(testbed.catalog) if text not in origins}}
    delta = bool(testbed.policy.budget.delta)
    for index, (text, origin) in enumerate(origins.items()):
        yield _AuditQuery(text, origin, delta and index < _GAUSSIAN_QUERIES)
    for random_question in islice(random_questions(testbed.catalog, seed), random_count):
        yield _AuditQuery(random_question, RANDOM, delta and random_question.gaussian)


def _verdict_confidence(level: Fraction, questions: int) -> Fraction:
    """Return the confidence of one verdict, by Bonferroni.

    Each query has at most five verdicts (noise compared and noise drawn, each with Laplace and with Gaussian noise, and
    full releases), and the injected faults have some of their own.
    """
    return 1 - (1 - level) / (5 * questions + 10)


def _time_notes(
    untested: tuple[str, ...], unsampled: tuple[str, ...], unplanted: tuple[str, ...] = ()
) -> Iterator[str]:
    """Yield notes on what there was no time for."""
    if unplanted:
        yield f"time ran out before these faults were planted ({', '.join(unplanted)}); allow more minutes"
    if untested:
        yield f"time ran out before all questions were tested: {len(untested)} left; allow more minutes"
    if unsampled:
        yield (
            f"too few releases were made to test {len(unsampled)} of the questions, "
            f"such as {unsampled[0]}; allow more minutes"
        )


def _unreached_limit_notes(testbed: AuditTestbed) -> Iterator[str]:
    for name in testbed.tables.tables_with_unreached_limit:
        yield f"the limit of rows of {name} is too large for a generated unit to reach, so it was not tested"


@dataclass(frozen=True)
class _AuditRun:
    testbed: AuditTestbed
    deadline: float
    level: Fraction
    progress: Progress

    @property
    def _is_late(self) -> bool:
        return time.time() >= self.deadline

    def inject_faults(
        self, planned: Mapping[str, FaultInjection], until: float, results: tuple[FaultResult, ...] = ()
    ) -> tuple[tuple[FaultResult, ...], Mapping[str, FaultInjection]]:
        """Inject faults until ``until``, at least one in all; return all results and the faults not yet injected.

        An audit starts with them, since without power its other results mean nothing, and spends at most half of its
        time on them, so that queries are tested too.
        """
        for index, (name, plant) in enumerate(planned.items()):
            if results and time.time() >= until:
                return results, dict(islice(planned.items(), index, None))
            self.progress(f"planted fault: {name}")
            results += tuple(plant())
        return results, {}

    def test_and_time_questions(
        self, queries: Sequence[_AuditQuery]
    ) -> tuple[tuple[QuestionResult, ...], tuple[str, ...], float]:
        """Test queries without numbering them; return the results, the other texts, and the longest time of one."""
        self.progress(f"timing the first {len(queries)} questions")
        silent = replace(self, progress=ignore_progress)
        results: tuple[QuestionResult, ...] = ()
        slowest = 0.0
        for number, query in enumerate(queries):
            begun = time.time()
            tested, untested = silent.test_questions((query,))
            if untested:
                return results, tuple(skipped.text for skipped in queries[number:]), slowest
            results, slowest = (*results, *tested), max(slowest, time.time() - begun)
        return results, (), slowest

    def test_questions(
        self, queries: Sequence[_AuditQuery], first_number: int = 1, question_count: int | None = None
    ) -> tuple[tuple[QuestionResult, ...], tuple[str, ...]]:
        """Test every query there is time for, numbered from ``first_number``; return results and other texts."""
        results: list[QuestionResult] = []
        for number, query in enumerate(queries):
            if self._is_late:
                return tuple(results), tuple(skipped.text for skipped in queries[number:])
            self.progress(f"question {first_number + number} of {question_count or len(queries)}")
            question = self._parse_query(query)
            results.append(self._test_query(query, question, self.testbed.price_for(question)))
        return tuple(results), ()

    def test_with_gaussian_noise(self, queries: Sequence[_AuditQuery]) -> Iterator[QuestionResult]:
        """Test some queries with Gaussian noise, on a few tables only.

        This comes last because it changes how an account is charged.
        """
        for query in queries:
            question = self._parse_query(query) if query.gaussian else None
            if question is not None and _has_only_fixed_totals(question) and not self._is_late:
                self.progress(f"Gaussian noise: {query.text}")
                yield self._test_query(query, question, self.testbed.price_for(question, gaussian=True))

    def _parse_query(self, query: _AuditQuery) -> Any:
        try:
            return self.testbed.question(query.ask)
        except SfumatoError:
            return None

    def _test_query(self, query: _AuditQuery, question: Any, paid: AuditPrice) -> QuestionResult:
        populations = self.testbed.tables.populations
        few_populations = (populations[0], *populations[-2:])  # a few tables suffice for what reads no row
        released_populations = few_populations if paid.gaussian else populations
        outcomes = [
            (side, release_and_record(self.testbed.curators[side.name], query.ask, paid.release_arguments))
            for side in released_populations
        ]
        answered = all("refusal" not in visible for _, visible in outcomes)
        forecasts = [
            (side, record_forecast(self.testbed.curators[side.name], query.ask, paid.release_arguments))
            for side in few_populations
        ]
        result = QuestionResult(
            query.text, query.origin, str(paid), answered, (*compare_outcomes(outcomes), *compare_outcomes(forecasts))
        )
        if not answered or not isinstance(question, Question) or question.query.value_queries:
            return result  # the totals of a later step are of a plan that an earlier one has decided
        recorded = self.testbed.record_totals(question, paid)
        replay = compare_recorded_totals(recorded, self.testbed.tables.pairs)
        compared = compare_noise(question, price_release(question, paid), self.testbed.engines[""], 1 - self.level)
        result = replace(result, replay=replay if recorded else None, noise=compared)
        if question.discovered_keys or replay.most_distinguishable_pair is None:
            return result
        noise_verdict = refute_by_draws(recorded, replay.most_distinguishable_pair, paid.claim, _DRAWS, self.level)
        return replace(result, noise_draws=None if noise_verdict is None else _sampling_result(*noise_verdict, paid))

    def with_sampled_releases(
        self, tried: tuple[QuestionResult, ...], count: int
    ) -> tuple[tuple[QuestionResult, ...], tuple[str, ...]]:
        """Sample full releases of one query per kind while there is time; also return the queries with too few.

        Queries without drawn noise come first, since selections have no other test.
        """
        kinds: dict[tuple[Any, ...], int] = {}
        for index, result in enumerate(tried):
            is_fixed = result.answered and result.origin != RANDOM and "Gaussian" not in result.price
            kind = self._query_kind(result.question) if is_fixed else None
            if kind is not None:
                kinds.setdefault(kind, index)
        results = list(tried)
        chosen = sorted(kinds.values(), key=lambda position: results[position].noise_draws is not None)[
            :_MAX_RELEASED_KINDS
        ]
        with SamplingWorkers() as processes:
            for index in chosen:
                if self._is_late:
                    break
                self.progress(f"sampling releases: {results[index].question}")
                results[index] = replace(
                    results[index], releases=self._sample_releases(processes, results[index], count)
                )
        return tuple(results), tuple(results[index].question for index in chosen if results[index].releases is None)

    def _query_kind(self, text: str) -> tuple[Any, ...] | None:
        """Return the kinds of measures and keys of a query; None if it measures nothing."""
        question = self.testbed.question(text)
        if not isinstance(question, Question) or question.free:
            return None
        measures = tuple(type(measure).__name__ for measure in question.query.plan.measures)
        return measures, bool(question.discovered_keys), bool(question.query.plan.keys) and not question.discovered_keys

    def _sample_releases(self, processes: SamplingWorkers, result: QuestionResult, count: int) -> SamplingResult | None:
        """Sample releases in two neighbouring worlds and try to refute the claim with them."""
        paid = self.testbed.price_for(self.testbed.question(result.question))
        distinguishing = None if result.replay is None else result.replay.most_distinguishable_pair
        pair, pilot = (
            distinguishing or pair_with_most_rows(self.testbed.tables),
            max(MIN_PILOT, math.ceil(count * PILOT_SHARE)),
        )
        policies = [self.testbed.tables.policy_over(population) for population in pair]
        ask, until = SqlQuestion(result.question), self.deadline
        jobs = [SamplingJob(policy, ask, paid.release_arguments, count + pilot, until) for policy in policies]
        first, second = processes.sample(jobs)
        sample_count = min(len(first), len(second)) - pilot
        if sample_count < max(_MIN_RELEASES, required_samples(paid.claim, self.level)):
            return None
        coordinates = ReleaseFeatures.from_pilot(first[:pilot], second[:pilot])
        numbers = coordinates.feature_matrix(first[pilot:]), coordinates.feature_matrix(second[pilot:])
        worlds: tuple[Callable[[int], Any], ...] = (lambda n: numbers[0][:n], lambda n: numbers[1][:n])
        return _sampling_result(falsify(worlds, paid.claim, sample_count, self.level), sample_count, paid)


def _has_only_fixed_totals(question: Any) -> bool:
    """Return whether a query measures only totals of declared groups.

    A query that parses and is then refused, since no row can meet its conditions, has none.
    """
    try:
        return isinstance(question, Question) and not question.discovered_keys and not question.other_parts
    except SfumatoError:
        return False


def _sampling_result(verdict: Verdict, samples: int, paid: AuditPrice) -> SamplingResult:
    return SamplingResult(verdict, samples, None if paid.gaussian else verdict.detectable)
