"""Tests of the answer to a question: what is attached to it, so that ``Answer.test`` knows the noise of its totals.

Also here: what an answer shows of its release beside the receipt. It follows from the drawn numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sfumato.curator.previews.explaining import discovery_notes
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.nodes import Query
from sfumato.policy import Table
from sfumato.privacy.numbers import Number
from sfumato.release.answers.receipts import Receipt
from sfumato.release.measured import (
    NoisyMeasurements,
    group_estimator,
    notes_by_column,
    rank_errors,
    selection_notes,
)
from sfumato.release.noisy_rows.finishing import FinishedRows, finish
from sfumato.release.noisy_rows.key_functions import answer_rows, with_key_functions

if TYPE_CHECKING:
    from sfumato.curator.context import Context
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
    question: TestedQuestion, noisy_measurements: NoisyMeasurements, receipt: Receipt
) -> Callable[..., HypothesisTest]:
    """Return what runs a test by name on the totals of an answer to this question."""

    def run(test: str, **options: Any) -> HypothesisTest:
        from sfumato.inference.hypothesis_tests import parse_options, run_test  # who only asks does not need them
        from sfumato.inference.released_numbers import ReleasedNumbers

        numbers = ReleasedNumbers.from_measurements(question.query, noisy_measurements, max_rows_of_one_unit(question))
        return run_test(test, numbers, parse_options(options), receipt)

    return run


_MAX_CACHED_ROWS = 1000


class AnsweredQuestion(Protocol):
    """What is read of a question that is answered."""

    @property
    def query(self) -> Query: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...
    def caveat_by_column(self, joined_strategies: str) -> dict[str, str]: ...


class FinishedParts(NamedTuple):
    """The finished rows of an answer with the notes on them."""

    finished: FinishedRows
    noise_words: tuple[str, ...]
    warnings: tuple[str, ...]
    annotations: tuple[dict[str, float], dict[str, str], dict[str, str]]
    """Rank errors, notes on selected values and caveats, by column."""

    @property
    def is_short(self) -> bool:
        """Whether it is small enough to be kept beside its question."""
        return len(self.finished.sure) <= _MAX_CACHED_ROWS


def finish_parts(
    question: AnsweredQuestion,
    context: Context,
    max_groups: Callable[[], int],
    noisy_measurements: NoisyMeasurements,
    confidence: Number,
    joint: bool,
) -> FinishedParts:
    """Finish the rows of a release; ``max_groups`` is asked only if groups were found in the data."""
    rows = answer_rows(question.query.finish.sets, noisy_measurements.keys.groups, len(question.query.plan.keys))
    estimates = group_estimator(noisy_measurements, confidence, rows)
    query, rows = with_key_functions(question.query, rows, context.engine.values)
    finished = finish(query, rows, estimates, joint=joint)
    ranks = notes_by_column(question.query, rank_errors(noisy_measurements, confidence))
    noise_words = tuple(dict.fromkeys(scale.words() for scale in noisy_measurements.scales))
    warnings = question.warnings
    if noisy_measurements.selection is not None:
        noise_words, group_count = (
            (noisy_measurements.selection.words(), *noise_words),
            len(noisy_measurements.keys.groups),
        )
        warnings += discovery_notes(noisy_measurements.selection, group_count, max_groups(), question.query)
    selected = notes_by_column(question.query, selection_notes(noisy_measurements, confidence))
    caveats = question.caveat_by_column(noisy_measurements.purchase.strategy)
    return FinishedParts(finished, noise_words, warnings, (ranks, selected, caveats))
