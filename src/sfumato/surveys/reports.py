"""A report is what a respondent sends: randomised answers, and the form they belong to. Nothing else is in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
from sfumato.surveys.encodings import Part

_LONGEST = 1 << 16
_KIND = re.compile(r'"kind"\s*:\s*"survey-report/1"')


@codec.value("survey-report")
@dataclass(frozen=True)
class Report:
    """A report holds one randomised answer for each question that was asked."""

    form: str
    """The form's own number: sixteen hexadecimal digits of its SHA-256."""
    answers: tuple[Part, ...]
    question: int | None = None
    """The number of the only question that was asked; None where all were."""

    def __post_init__(self) -> None:
        if type(self.form) is not str or re.fullmatch("[0-9a-f]{16}", self.form) is None:
            raise InvalidParameter("form", self.form, "sixteen hexadecimal digits")
        if type(self.answers) is not tuple or not all(type(each) in (int, str, tuple) for each in self.answers):
            raise InvalidParameter("answers", self.answers, "a list of randomised answers")
        if self.question is not None and (type(self.question) is not int or self.question < 0):
            raise InvalidParameter("question", self.question, "the number of a question")

    def to_json(self) -> str:
        """Write the report as a short JSON text."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Read a report from anybody: what is no report is refused before a value of another kind is made of it."""
        plain = type(text) is str and len(text) <= _LONGEST and text.count("{") == 1
        if not plain or _KIND.search(text) is None:
            raise InvalidParameter("report", text, "the JSON text of a report")
        return codec.loads_as(cls, text, longest=_LONGEST)
