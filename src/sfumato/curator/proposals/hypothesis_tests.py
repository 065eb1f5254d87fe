"""A proposal to buy an answer and test it: the question's price, and the test of what is released.

The answer is stored as that of the question, so whoever bought it tests for free. What the test refuses is refused when
it is proposed, on an answer of zeros from the policy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np

from sfumato.array_types import Floats
from sfumato.curator.context import Context
from sfumato.curator.previews.error_forecasts import Forecast
from sfumato.curator.previews.explaining import Explanation
from sfumato.curator.proposals.question_tests import max_rows_of_one_unit
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.sampled_questions import refuse_sample_of_release
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.inference import score_tests
from sfumato.inference.hypothesis_tests import (
    HypothesisTest,
    TestOptions,
    fit_counts_and_shares,
    group_sums,
    independence_counts,
    parse_unit_count,
    run_test,
    trend_contrast,
)
from sfumato.inference.noise_laws import NoiseLaw
from sfumato.inference.power import (
    TABLES,
    AssumedCounts,
    AssumedGroups,
    AssumedPairs,
    AssumedShare,
    Power,
    count_rejections,
)
from sfumato.inference.released_numbers import ReleasedNumbers, discovered_groups_refusal, require_unselected_rows
from sfumato.inference.score_tests import ScoreTest
from sfumato.plan.canonical import PlanKey
from sfumato.privacy.numbers import POSITIVE, Number, exact
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_columns import Columns
from sfumato.release.measured import noisy_measurements, scales_of_all_parts
from sfumato.release.parts.shares import NamedNoise
from sfumato.release.proposal import StoredProposal
from sfumato.release.requests import PriceRequest, Within
from sfumato.release.running_work import Progress
from sfumato.renamed import RehearseAlias

_BY_GROUP = ("difference", "anova", "trend")


@dataclass(frozen=True)
class TestProposal(RehearseAlias, StoredProposal):
    """A proposal of a hypothesis test; only ``release`` spends."""

    __test__ = False  # a proposal, which pytest must not collect

    _context: Context = field(repr=False)
    question: Question = field(repr=False)
    test: str
    options: TestOptions

    def __repr__(self) -> str:
        return f"<{self.test}: {self.question.text}: .power() .error() .price() are free, .release() spends>"

    @property
    def plan_key(self) -> PlanKey:
        """The key of the question: its stored answers are tested for free."""
        return self.question.plan_key

    @property
    def columns(self) -> Columns:
        """The columns of the tested answer."""
        return self.question.columns

    def explain(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        mechanism: NamedNoise | None = None,
    ) -> Explanation:
        """Explain the release of the tested answer, step by step. This is free."""
        return self.question.explain(epsilon, delta=delta, rho=rho, mechanism=mechanism)

    def error(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        mechanism: NamedNoise | None = None,
        fresh: bool = False,
    ) -> Forecast:
        """Return the half-widths of the tested numbers at this price. This is free."""
        return self.question.error(epsilon, delta=delta, rho=rho, mechanism=mechanism, fresh=fresh)

    def price(self, within: Within, *, delta: Number = 0) -> float:
        """Find the least ε at which the tested numbers have at most this half-width. This is free."""
        return self.question.price(within, delta=delta)

    def release(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        mechanism: NamedNoise | None = None,
        sample: Number | None = None,
        fresh: bool = False,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> HypothesisTest:
        """Charge the price, draw the answer and test it; a stored answer that is as accurate is tested for free."""
        refuse_sample_of_release(sample, "tests")
        answer = self.question.release(
            epsilon,
            delta=delta,
            rho=rho,
            mechanism=mechanism,
            fresh=fresh,
            request_id=request_id,
            seconds=seconds,
            progress=progress,
        )
        return self._test_answer(answer)

    def preview(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        mechanism: NamedNoise | None = None,
    ) -> HypothesisTest:
        """Return a result of invented numbers, from the policy alone. This is free."""
        return self._test_answer(self.question.preview(epsilon, delta=delta, rho=rho, mechanism=mechanism))

    def _test_answer(self, answer: Any) -> HypothesisTest:
        options = {name: getattr(self.options, name) for name in TestOptions.__dataclass_fields__}
        result: HypothesisTest = answer.test(self.test, **options)
        return result

    def power(
        self,
        epsilon: Number | None = None,
        *,
        sizes: Sequence[Number] | Number | None = None,
        shares: Sequence[Number] | None = None,
        means: Sequence[Number] | None = None,
        deviation: Sequence[Number] | Number | None = None,
        counts: Sequence[Number] | None = None,
        correlation: Number | None = None,
        level: Number = "0.05",
        delta: Number = 0,
        rho: Number | None = None,
        mechanism: NamedNoise | None = None,
    ) -> Power:
        """Return how often the test would find what you assume: these ``shares``, or these ``means`` with this standard
        ``deviation`` of the values, in groups of these ``sizes``; for independence and fit, these ``counts`` in the
        groups of the answer; for a share, one of ``shares``; for a correlation, this ``correlation`` of normal values
        in ``sizes`` rows, with two ``means`` and deviations in the order of CORR(y, x). This is free: nothing of the
        data is used.
        """
        request = PriceRequest(epsilon, delta, rho, mechanism=mechanism)
        largest_p = float(exact(level, "level", POSITIVE))
        if self.test == "correlation":
            _require_left_out(shares=shares, counts=counts)
            assumed, powers = self._power_of_pairs(request, (sizes, correlation, means, deviation), largest_p)
        elif self.test in _BY_GROUP:
            _require_left_out(correlation=correlation)
            if sizes is None:
                raise InvalidParameter(
                    "sizes",
                    sizes,
                    "the number of rows in each group",
                    fix="write for example sizes=[200, 200], with one number for each group",
                )
            assumed, powers = self._power_of_groups(request, (sizes, shares, means, deviation), largest_p)
        else:
            _require_left_out(correlation=correlation)
            assumed, powers = self._power_of_counts(request, counts, shares, largest_p)
        price = str(self.question.price_release(request).price)
        return Power(price, powers, TABLES, largest_p, assumed)

    def _power_of_groups(
        self, request: PriceRequest, assumptions: tuple[Any, Any, Any, Any], level: float
    ) -> tuple[str, int]:
        """Return what is assumed of groups, in words, and the number of tables in which it is found."""
        sums, names, _, _ = group_sums(self.numbers_from_zero_totals(request), self.options, self.test)
        contrast = trend_contrast(self.options.scores, names) if self.test == "trend" else None
        assumed = AssumedGroups.parse(len(names), *assumptions)
        if (assumed.deviation is None) is not (sums.width == 1 and len(self.question.query.plan.keys) == 2):
            rule, fix = (
                "given instead of means and deviation, because this question counts an outcome",
                "write for example shares=[0.2, 0.3], and leave out means and deviation",
            )
            if assumed.deviation is None:
                rule = "left out for AVG, whose power needs means and deviation"
                fix = "leave out shares, and write for example means=[10, 12], deviation=5"
            raise InvalidParameter("shares", assumptions[1], rule, fix=fix)
        assumed.require_possible(sums)
        return str(assumed), count_rejections(assumed, sums, contrast, level)

    def _power_of_pairs(
        self, request: PriceRequest, assumptions: tuple[Any, Any, Any, Any], level: float
    ) -> tuple[str, int]:
        """Return what is assumed of two columns, in words, and the number of tables in which it is found."""
        pairs = self.numbers_from_zero_totals(request).pair_totals(self.options.column)
        assumed = AssumedPairs.parse(pairs, *assumptions)
        return str(assumed), assumed.count_rejections(pairs, level)

    def _power_of_counts(
        self, request: PriceRequest, counts: Sequence[Number] | None, shares: Sequence[Number] | None, level: float
    ) -> tuple[str, int]:
        """Return what is assumed of counts, in words, and the number of tables in which it is found."""
        numbers = self.numbers_from_zero_totals(request)
        if self.test == "share":
            _, law = numbers.counts_and_noise_law(self.options.column)
            assert self.options.of is not None  # a test without it is refused when it is proposed
            share = AssumedShare.parse(parse_unit_count(self.options.of), self.options.equals, shares)
            return str(share), share.count_rejections(law, level)
        if self.test == "independence":
            cells, law = independence_counts(numbers, self.options)
            assumed = AssumedCounts.parse(cells.shape, counts)
            return str(assumed), assumed.count_rejections(score_tests.independence, law, level)
        cells, law, null = fit_counts_and_shares(numbers, self.options)
        assumed = AssumedCounts.parse(cells.shape, counts)
        return str(assumed), assumed.count_rejections(partial(_test_of_fit, null), law, level)

    def numbers_from_zero_totals(self, request: PriceRequest) -> ReleasedNumbers:
        """Return an answer of zeros with the noise of this price, from the policy alone."""
        question = self.question
        prepared = question.price_release(request)
        columns = sum(scale.columns for scale in scales_of_all_parts(prepared))
        zeros = np.zeros((len(question.groups), columns), np.int64)
        measured = noisy_measurements(prepared, question.shared_parts.requests, zeros, question.groups, "")
        return ReleasedNumbers.from_measurements(question.query, measured, max_rows_of_one_unit(question))


def _require_left_out(**assumptions: object) -> None:
    for name, given in assumptions.items():
        if given is not None:
            raise InvalidParameter(name, given, f"left out, because this test does not use {name}")


def _test_of_fit(shares: Floats, cells: Floats, law: NoiseLaw, draws: int) -> ScoreTest:
    return score_tests.goodness_of_fit(cells, shares, law, draws)


def propose_test(context: Context, question: Question, test: str, options: TestOptions) -> TestProposal:
    """Propose a test of the answer to a question; what it cannot test is refused now."""
    if not isinstance(question, Question):
        raise Unsupported(
            "test-of-computed-answer",
            "a test needs a question with a single SELECT",
            fix="ask for counts or means by group",
        )
    require_unselected_rows(question.query)
    if question.discovered_keys:
        raise discovered_groups_refusal()
    proposal = TestProposal(context, question, test, options)
    run_test(test, proposal.numbers_from_zero_totals(PriceRequest(epsilon=1)), options)
    return proposal
