"""An interview asks one question after another: each has a default and says, after a ?, what it means and costs.

An answer comes from a flag, from an earlier interview that was interrupted, from the default where every default is
taken (``--yes``), or from whoever types it. Wherever it comes from it is read and refused in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import click

from sfumato.cli.drafting.given_answers import KeptAnswers
from sfumato.errors import InvalidParameter, InvalidPolicy, SfumatoError
from sfumato.safe_text import printable

T = TypeVar("T")
HELP = "?"


@dataclass(frozen=True)
class Asked:
    """A question has a key that flags and kept answers name it by, words, a default and an explanation."""

    key: str
    words: str
    default: str | None
    help: str
    """What the question means, and what the choice costs."""
    flag: str
    """How a script answers it."""


@dataclass
class Interview:
    """An interview knows what was answered before it began, and asks for the rest."""

    kept: KeptAnswers
    given: Mapping[str, str]
    """Answers that flags gave."""
    take_defaults: bool
    accepted: set[str] = field(default_factory=set)
    """Parts of the interview whose remaining questions are answered by their defaults."""

    def ask(self, asked: Asked, read: Callable[[str], T], part: str = "") -> T:
        """Give the answer as it is read; one that was typed is asked for again until it can be."""
        if asked.key in self.given:
            return self._read(asked, self.given[asked.key], read)
        known = self.kept.get(asked.key)
        if known is not None:
            try:
                answer = read(known)
            except (SfumatoError, click.UsageError):
                pass  # what was kept no longer fits, so it is asked again
            else:
                click.echo(f"{asked.words}: {printable(known)} (as you answered before)")
                return answer
        if part in self.accepted and asked.default is not None:
            return self._read(asked, asked.default, read)
        if self.take_defaults:
            if asked.default is None:
                raise _left_open([asked])
            return self._read(asked, asked.default, read)
        return self._typed(asked, read)

    def answered(self, asked: Asked) -> str | None:
        """Give what a flag or an earlier interview answered, or what was typed in this one; None where nobody did."""
        given = self.given.get(asked.key)
        return self.kept.get(asked.key) if given is None else given

    def require(self, several: Sequence[Asked]) -> None:
        """Refuse all questions at once that --yes leaves open: those without a default, a flag or an earlier answer."""
        answered = (self.answered(each) or each.default for each in several)
        left = [each for each, answer in zip(several, answered, strict=True) if answer is None]
        if left and self.take_defaults:
            raise _left_open(left)

    def _read(self, asked: Asked, answer: str, read: Callable[[str], T]) -> T:
        try:
            return read(answer)
        except (SfumatoError, click.UsageError) as refused:
            raise InvalidPolicy(_rule(refused), place=asked.words, fix=f"answer it with {asked.flag}") from None

    def _typed(self, asked: Asked, read: Callable[[str], T]) -> T:
        while True:
            shown = {"default": asked.default, "show_default": bool(asked.default)}
            typed = str(click.prompt(asked.words, value_proc=str, **shown)).strip()  # type: ignore[arg-type]
            if typed == HELP:
                click.echo(f"\n{click.wrap_text(asked.help, 100)}\nIn a script: {asked.flag}.\n")
                continue
            try:
                found = read(typed)
            except (SfumatoError, click.UsageError) as refused:
                click.echo(f"Error: {_rule(refused)}")
                continue
            self.kept.keep(asked.key, typed)
            return found


def _left_open(several: Sequence[Asked]) -> InvalidPolicy:
    these, them = ("this question has", "it") if len(several) == 1 else ("these questions have", "them")
    return InvalidPolicy(
        f"--yes takes every default, and {these} none that is safe to take unseen",
        place="; ".join(each.words for each in several),
        fix=f"answer {them} with {'; and '.join(each.flag for each in several)}",
    )


def _rule(refused: SfumatoError | click.UsageError) -> str:
    """Say the rule; what was typed stands above it, so it is not said again."""
    if isinstance(refused, InvalidParameter):
        return f"{refused.parameter} must be {refused.allowed}"
    return refused.rule if isinstance(refused, SfumatoError) else refused.message


def yes(answer: str) -> bool:
    """Read yes or no."""
    if answer.lower() not in ("y", "yes", "n", "no"):
        raise click.UsageError("the answer is yes or no")
    return answer.lower() in ("y", "yes")
