"""The answers of an interview are kept beside its output until it is done: one that was interrupted goes on there.

Only what the owner typed is kept, nothing that was read from the data; the file can be read by its owner alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sfumato.errors import InvalidPolicy

NAME = ".sfumato-init.json"
_MOST_BYTES = 8 << 20


class KeptAnswers:
    """These are answers as they were typed, by question, in a file that is gone when the interview is over."""

    def __init__(self, output: Path, data: Sequence[Path]) -> None:
        self.path = output.absolute().parent / NAME
        self._of = [str(output.absolute()), *(str(each.absolute()) for each in data)]
        self._answers = self._read()
        self.resumed = bool(self._answers)

    def _read(self) -> dict[str, str]:
        """Read what an interview about the same data left; what is damaged or of other data counts for nothing."""
        try:
            with open(self.path, "rb") as opened:
                kept = json.loads(opened.read(_MOST_BYTES))
            answers = kept["answers"] if kept["of"] == self._of and kept["version"] == 1 else {}
            return {str(key): str(each) for key, each in answers.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def get(self, question: str) -> str | None:
        """Give the answer that was typed before, if any."""
        return self._answers.get(question)

    def keep(self, question: str, answer: str) -> None:
        """Write an answer down before the next question is asked: the old file stands until the new one is whole."""
        if self._answers.get(question) == answer:
            return
        self._answers[question] = answer
        beside = self.path.with_name(f"{NAME}.new")
        written = json.dumps({"version": 1, "of": self._of, "answers": self._answers}, ensure_ascii=False)
        try:
            with suppress(FileNotFoundError):
                beside.unlink()
            with open(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as opened:
                opened.write(written)
            os.replace(beside, self.path)
        except OSError:
            raise InvalidPolicy(
                "the answers cannot be kept beside the policy",
                place=str(self.path.parent),
                fix="choose another with -o",
            ) from None

    def forget(self) -> None:
        """Remove the file: the interview is done."""
        with suppress(FileNotFoundError):
            self.path.unlink()
