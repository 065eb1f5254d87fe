"""An interview asks one question after another: each has a default and says, after a ?, what it means and costs.

An answer comes from a flag, from an earlier interview that was interrupted, from the default where every default is
taken (``--yes``), or from whoever types it. Wherever it comes from it is read and refused in the same way.

The answers of an interview are kept beside its output until it is done: one that was interrupted goes on there.

Only what the owner typed is kept, nothing that was read from the data; the file can be read by its owner alone.

The questions of ``sfumato init`` stand here: their words, their defaults, and what a ? explains.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TypeVar

import click

from sfumato.errors import InvalidParameter, InvalidPolicy, SfumatoError
from sfumato.policy import ROW
from sfumato.untrusted import printable

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


T = TypeVar("T")
HELP = "?"


@dataclass(frozen=True)
class InterviewQuestion:
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

    def ask(self, asked: InterviewQuestion, read: Callable[[str], T], part: str = "") -> T:
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

    def answered(self, asked: InterviewQuestion) -> str | None:
        """Give what a flag or an earlier interview answered, or what was typed in this one; None where nobody did."""
        given = self.given.get(asked.key)
        return self.kept.get(asked.key) if given is None else given

    def require(self, several: Sequence[InterviewQuestion]) -> None:
        """Refuse all questions at once that --yes leaves open: those without a default, a flag or an earlier answer."""
        answered = (self.answered(each) or each.default for each in several)
        left = [each for each, answer in zip(several, answered, strict=True) if answer is None]
        if left and self.take_defaults:
            raise _left_open(left)

    def _read(self, asked: InterviewQuestion, answer: str, read: Callable[[str], T]) -> T:
        try:
            return read(answer)
        except (SfumatoError, click.UsageError) as refused:
            raise InvalidPolicy(_rule(refused), place=asked.words, fix=f"answer it with {asked.flag}") from None

    def _typed(self, asked: InterviewQuestion, read: Callable[[str], T]) -> T:
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


def _left_open(several: Sequence[InterviewQuestion]) -> InvalidPolicy:
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


SKIP = "-"
ALL = "*"


def read_rows(files: str) -> InterviewQuestion:
    return InterviewQuestion(
        "read rows",
        f"May rows of {files} be read, to find types and how they are written (yes/no)",
        "yes",
        "Texts in a CSV or SQLite file do not say what they mean. With yes the rows are read on this machine, and what "
        "is found is shown to you alone: this is private reading, protected by no noise. Only the types that you "
        "confirm are written. It costs no budget. With no, every column is proposed as text and you type the types.",
        "--read-rows or --no-read-rows",
    )


def copy(label: str, target: str, reasons: Sequence[str]) -> InterviewQuestion:
    return InterviewQuestion(
        f"copy {label}",
        f"Copy {label} as {target} beside it, because {'; '.join(reasons)} (yes/no)",
        "yes",
        "The engine reads CSV with commas in UTF-8, Parquet and DuckDB. The copy holds the same cells, with the same "
        "permissions as the original, so it is as private: it takes disk space, and you delete both when you delete "
        "one. Questions are then asked of the copy: a change of the original needs a new copy. With no, the table is "
        "left out.",
        "--copy or --no-copy",
    )


def unit(default: str) -> InterviewQuestion:
    return InterviewQuestion(
        "unit",
        "The unit you protect, in one word (patient, customer, household …)",
        default,
        "Nobody who sees the answers can tell whether any one of these units, with all its rows, is in the data. It is "
        "a word, printed with every answer; the default is guessed from the names of columns. A larger unit (a "
        "household) protects more and makes answers less exact.",
        "--unit WORD",
    )


def role(table: str, default: str) -> InterviewQuestion:
    return InterviewQuestion(
        f"{table}.role",
        f"{table}: private, public, or {SKIP} to leave it out",
        default,
        "A private table is about the people you protect. A public one is about nobody (a list of airports): it is "
        "read freely, everything in it may be shown, and it costs nothing. When in doubt, it is private.",
        f"--public {quote(table)}, or --skip {quote(table)}",
    )


def name(table: str) -> InterviewQuestion:
    return InterviewQuestion(
        f"{table}.name",
        f"A name for the table {table}",
        table,
        "Questions name the table by it: SELECT COUNT(*) FROM this_name. It costs nothing.",
        f"--name {quote(table)}=NAME",
    )


def owner(table: str, unit: str, default: str | None) -> InterviewQuestion:
    return InterviewQuestion(
        f"{table}.id",
        f"{table}: the column that says whose row it is, or {ROW} when every row is one {unit}",
        default,
        f"All rows with the same value there are one {unit}. Where another table knows whose row it is, write "
        f"TABLE.COLUMN, the table and the column that both have. With {ROW} every row is protected by itself: if a "
        f"{unit} has several rows, then it is not protected as a whole. The default is guessed from the names.",
        f"--id {quote(table)}=COLUMN, --id {quote(table)}={ROW} or --id {quote(table)}=OTHER.COLUMN",
    )


def max_rows(table: str, unit: str) -> InterviewQuestion:
    return InterviewQuestion(
        f"{table}.max_rows",
        f"{table}: rows of one {unit} that may count",
        "10",
        f"Of a {unit} with more rows, this many count in a question and the others do not. Noise grows with "
        "the number, "
        "so 10 makes a count ten times as noisy as 1; too small a number leaves rows out. Choose it from what you know "
        "of the field. Choosing it from exact figures of these data tells of the people in them. sfumato check shows "
        "what a limit costs, and sfumato limits finds one privately.",
        f"--max-rows {quote(table)}=NUMBER, or --max-rows NUMBER for all tables",
    )


def budget(unsafe: bool) -> InterviewQuestion:
    return InterviewQuestion(
        "budget",
        "The budget for life: an epsilon, and a delta if any (such as 3 1e-6)",
        None if unsafe else "1",
        "All answers together, for ever, change what anybody can learn about one unit by at most a factor e^ε, where "
        "the budget is epsilon (ε). ε = 1 is cautious: a suspicion of 50 % can rise to 73 %. ε = 3: to 95 %. More ε "
        "buys more or better answers. Delta (δ), such as 1e-6, is the chance that the promise fails: far less than one "
        "in the number of people. It allows groups that nobody listed, and Gaussian noise. sfumato read --epsilon 3 "
        "says what an ε means for one person.",
        "--epsilon NUMBER and --delta NUMBER",
    )


def kind(table: str, column: str, default: str) -> InterviewQuestion:
    return InterviewQuestion(
        f"{table}.columns.{column}.type",
        f"{column}: type",
        default,
        "One of integer, real, text, boolean, date, timestamp. A cell that is not of the type is read as missing. "
        f"{SKIP} leaves the column out: nobody can ask about it. {ALL} takes what is proposed for this column and all "
        "that follow in this table. Leave out what nobody needs, such as names and ids. It costs nothing.",
        f"--column {_flag(column, 'integer 0 110')}, or --column {_flag(column, SKIP)}",
    )


def values(table: str, column: str) -> InterviewQuestion:
    return InterviewQuestion(
        f"{table}.columns.{column}.values",
        f"{column}: its values, separated by commas (empty: not known)",
        "",
        "List what people could have answered, from the form or the code book. Listed values can be grouped by; any "
        "other cell is read as missing. A list that is copied from the data tells who is in them: a rare diagnosis is "
        "one person. Without a list, grouping needs a δ, and shows only what enough people share.",
        f"--column {_flag(column, 'text north,south')}",
    )


def bounds(table: str, column: str, default: str) -> InterviewQuestion:
    return InterviewQuestion(
        f"{table}.columns.{column}.bounds",
        f"{column}: bounds, low and high; or values 0,1 (empty: none)"
        if not default
        else f"{column}: bounds ({SKIP}: none)",
        default,
        "A value outside is moved to the nearer bound. Sums and means are as noisy as the bounds are wide: twice as "
        "wide is twice the noise. Take them from what you know: nobody is older than 120. The least and the greatest "
        "value in the data are two people's values: to choose bounds from exact figures is itself a disclosure. "
        "Without bounds the column can be counted, not added up; sfumato bounds buys some, privately. Codes, such as 0 "
        "and 1, are listed: values 0,1, or values 1..16 for all from 1 to 16. What is to be published is cut into bins "
        "behind the bounds: 0 110 bins 11 for equal ones, 0 110 bins 0,18,65,110 for edges, and of dates bins month.",
        f"--column {_flag(column, 'integer 0 110')}, or {_flag(column, 'integer values 0,1')}, or "
        f"{_flag(column, 'integer 0 110 bins 11')}",
    )


def _flag(column: str, declared: str) -> str:
    """Write a column and what it is as a shell reads them, whatever letters the name has."""
    return f"{quote(column)}={declared if declared == SKIP else quote(declared)}"
