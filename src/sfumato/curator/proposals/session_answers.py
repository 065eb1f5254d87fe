"""The answers of a session, readable without the engine that computed them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from sfumato.errors import InvalidParameter
from sfumato.plots.scales import Interval
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.receipts import Receipt
from sfumato.release.comparisons import ThresholdAnswer


@codec.serialisable("session-answers")
@dataclass(frozen=True)
class SessionAnswers:
    """The answers of a session, in the order of its questions; questions after the last "above" have none."""

    questions: tuple[str, ...]
    answers: tuple[ThresholdAnswer, ...]
    receipt: Receipt

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        if type(self.answers) is not tuple or not set(map(type, self.answers)) <= {ThresholdAnswer}:
            raise InvalidParameter("answers", self.answers, "a tuple of answers of the session")
        if len(self.answers) > len(self.questions):
            raise InvalidParameter("answers", len(self.answers), "a tuple with at most one answer for each question")
        if not isinstance(self.receipt, Receipt):
            raise InvalidParameter(
                "receipt", self.receipt, "a Receipt", fix="pass the receipt of an answer: answer.receipt"
            )

    def __iter__(self) -> Iterator[ThresholdAnswer]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def __repr__(self) -> str:
        return repr(self.as_answer())

    def _repr_html_(self) -> str:
        return self.as_answer()._repr_html_()

    def as_answer(self) -> Answer:
        """Return a table with a row per question, with noisy values and intervals where values were paid for.

        A question after the end of the session has no answer in its row.
        """
        confidence = self.receipt.confidence or DEFAULT_CONFIDENCE
        has_values = any(answer.value is not None for answer in self.answers)
        answered_questions = list(zip_longest(self.questions, self.answers))
        values = [
            None if answer is None or answer.value is None else float(answer.value) for _, answer in answered_questions
        ]
        rows = [(question, None if answer is None else answer.above) for question, answer in answered_questions]
        columns, types = ("question", "above"), (Type.TEXT, Type.BOOLEAN)
        if not has_values:
            return Answer(columns, types, tuple(rows), {}, ("question",), self.receipt, ())
        ranges = tuple(_value_interval(answer, confidence) for _, answer in answered_questions)
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


def _value_interval(answer: ThresholdAnswer | None, confidence: str) -> Interval:
    """Return the interval around a noisy value; None without one."""
    half_width = None if answer is None else answer.error(confidence)
    if answer is None or answer.value is None or half_width is None:
        return None
    return float(answer.value - half_width), float(answer.value + half_width)
