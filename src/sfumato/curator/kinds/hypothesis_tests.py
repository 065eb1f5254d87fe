"""A hypothesis test of noisy counts, means or a correlation, with a p-value that is valid under the noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sfumato.curator.release_kinds import QUESTIONS, Count, Name, ReleaseKind, Spec, Text, Workspace, option_field
from sfumato.inference.names_of_tests import TestName
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.proposals.hypothesis_tests import TestProposal


@dataclass(frozen=True)
class TestSpec(Spec["TestProposal"]):
    """Ask a question and test its answer: independence, fit, a difference, means, a trend, a correlation or a share."""

    __test__ = False  # a spec, which pytest must not collect

    test: TestName = option_field("The test.")
    question: Text | Any = option_field("A question in SQL: counts or means by declared groups, with one row per unit.")
    column: Name | None = option_field("The column to test, if the question has several.", None)
    outcome: Text | None = option_field("For shares by group: which value of the second key is counted.", None)
    shares: Sequence[Number] | None = option_field("For a fit: the shares of the groups, which add up to 1.", None)
    scores: Sequence[Number] | None = option_field("For a trend: a number for each group; 0, 1, 2 … by default.", None)
    of: Count | None = option_field("For a share: the public number of all units.", None)
    equals: Number = option_field("For a share: its value under the null hypothesis.", "0.5")


def propose(workspace: Workspace, spec: TestSpec) -> TestProposal:
    from sfumato.curator.proposals.hypothesis_tests import propose_test
    from sfumato.inference.hypothesis_tests import TestOptions

    question: Any = spec.question
    options = TestOptions(spec.column, spec.outcome, spec.shares or None, spec.scores or None, spec.of, spec.equals)
    tested_question = workspace.question(question) if isinstance(question, str) else question
    return propose_test(workspace.context, tested_question, spec.test, options)


KIND = ReleaseKind(
    "test",
    TestSpec,
    propose,
    "curator.proposals.hypothesis_tests:TestProposal",
    "inference.hypothesis_tests:HypothesisTest",
    ("epsilon", "delta", "rho", "column widths", "mechanism", "fresh"),
    TestSpec("independence", "SELECT arm, died, COUNT(*) AS n FROM patients GROUP BY arm, died"),
    contains=(QUESTIONS,),
    assumed_terms=("sizes", "shares", "means", "deviation", "counts", "correlation", "level"),
)
