"""Tests of the answer to a question: what is attached to it, so that ``Answer.test`` knows the noise of its totals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.plan.limits import ContributionLimits
from sfumato.plan.nodes import Query
from sfumato.policy import Table
from sfumato.release.answers.receipts import Receipt
from sfumato.release.measured import NoisyMeasurements

if TYPE_CHECKING:
    from sfumato.inference.hypothesis_tests import HypothesisTest


class TestedQuestion(Protocol):
    """The parts of a question that decide how its answer can be tested."""

    @property
    def query(self) -> Query: ...

    @property
    def table(self) -> Table: ...

    @property
    def limits(self) -> ContributionLimits: ...


def max_rows_of_one_unit(question: TestedQuestion) -> int:
    """Return the most rows of one unit that count."""
    return 1 if question.table.every_row else question.limits.rows


def answer_tester(
    question: TestedQuestion, measured: NoisyMeasurements, receipt: Receipt
) -> Callable[..., HypothesisTest]:
    """Return what runs a test by name on the totals of an answer to this question."""

    def run(test: str, **options: Any) -> HypothesisTest:
        from sfumato.inference.hypothesis_tests import parse_options, run_test  # who only asks does not need them
        from sfumato.inference.released_numbers import ReleasedNumbers

        numbers = ReleasedNumbers.from_measurements(question.query, measured, max_rows_of_one_unit(question))
        return run_test(test, numbers, parse_options(options), receipt)

    return run
