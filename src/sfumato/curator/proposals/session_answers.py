"""Answers of a session are read without the engine that gave them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from sfumato.errors import InvalidParameter
from sfumato.plots.scales import Interval
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.receipts import Receipt
from sfumato.release.comparisons import ThresholdAnswer


@codec.value("session-answers")
@dataclass(frozen=True)
class SessionAnswers:
    """The answers of a session, in the order of its questions; those after the last "above" have none."""

    questions: tuple[str, ...]
    answers: tuple[ThresholdAnswer, ...]
    receipt: Receipt

    def __post_init__(self) -> None:
        codec.check_fields(self)
        if type(self.answers) is not tuple or not set(map(type, self.answers)) <= {ThresholdAnswer}:
            raise InvalidParameter("answers", self.answers, "a list of answers of a session")
        if len(self.answers) > len(self.questions):
            raise InvalidParameter("answers", len(self.answers), "at most one for each question")
        if not isinstance(self.receipt, Receipt):
            raise InvalidParameter("receipt", self.receipt, "a receipt")

    def __iter__(self) -> Iterator[ThresholdAnswer]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def __repr__(self) -> str:
        return repr(self.as_answer())

    def _repr_html_(self) -> str:
        return self.as_answer()._repr_html_()

    def as_answer(self) -> Answer:
        """Return a row for each question, with the noisy value and its interval where values were paid for.

        A question after the end of the session has no answer in its row.
        """
        sure, paid = self.receipt.confidence or "0.95", any(answer.value is not None for answer in self.answers)
        found = list(zip_longest(self.questions, self.answers))
        values = [None if each is None or each.value is None else float(each.value) for _, each in found]
        rows = [(question, None if each is None else each.above) for question, each in found]
        columns, types = ("question", "above"), (Type.TEXT, Type.BOOLEAN)
        if not paid:
            return Answer(columns, types, tuple(rows), {}, ("question",), self.receipt, ())
        ranges = tuple(_range(each, sure) for _, each in found)
        return Answer(
            (*columns, "value"),
            (*types, Type.REAL),
            tuple((*row, value) for row, value in zip(rows, values, strict=True)),
            {"value": ranges},
            ("question",),
            self.receipt,
            (),
        )

    def to_json(self) -> str:
        """Write the answers as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> SessionAnswers:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)


def _range(found: ThresholdAnswer | None, confidence: str) -> Interval:
    """Return where the exact value lies, where there is a noisy one."""
    reach = None if found is None else found.error(confidence)
    if found is None or found.value is None or reach is None:
        return None
    return float(found.value - reach), float(found.value + reach)
