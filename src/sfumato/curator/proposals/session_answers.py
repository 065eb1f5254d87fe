"""Answers of a session are read without the engine that gave them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
from sfumato.release.answers.receipts import Receipt
from sfumato.release.comparisons import Compared


@codec.value("session-answers")
@dataclass(frozen=True)
class SessionAnswers:
    """These are the answers of a session, in the order of its questions; those after the last "above" have none."""

    questions: tuple[str, ...]
    answers: tuple[Compared, ...]
    receipt: Receipt

    def __post_init__(self) -> None:
        codec.check_fields(self)
        if type(self.answers) is not tuple or not set(map(type, self.answers)) <= {Compared}:
            raise InvalidParameter("answers", self.answers, "a list of answers of a session")
        if len(self.answers) > len(self.questions):
            raise InvalidParameter("answers", len(self.answers), "at most one for each question")
        if not isinstance(self.receipt, Receipt):
            raise InvalidParameter("receipt", self.receipt, "a receipt")

    def __iter__(self) -> Iterator[Compared]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def to_json(self) -> str:
        """Write the answers as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> SessionAnswers:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)
