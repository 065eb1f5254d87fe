"""The interview of ``sfumato init``: questions with defaults, explanations after a ?, and resumable answers.

An answer comes from a flag, from an earlier interview that was interrupted, from the default (``--yes``), or from the
keyboard. Every answer is parsed and validated in the same way, wherever it comes from.

A question can also have a proposal that was read from private rows: Enter confirms it, ``--yes`` and ``*`` never do.

Answers are saved beside the output until the interview is complete, so an interrupted one can continue. Only what the
owner typed or confirmed is saved, in a file that only its owner can read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from fractions import Fraction
from pathlib import Path
from shlex import quote
from typing import TypeVar

import click

from sfumato.error_facts import quote_parameter
from sfumato.errors import InvalidParameter, InvalidPolicy, SfumatoError
from sfumato.policy import ROW
from sfumato.privacy.numbers import format_probability
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import escape_unprintable

SAVED_ANSWERS_NAME = ".sfumato-init.json"
_MAX_BYTES = 8 << 20


class SavedAnswers:
    """The typed answers by question key, saved in a file until the interview is complete."""

    def __init__(self, output: Path, data: Sequence[Path]) -> None:
        self.path = output.absolute().parent / SAVED_ANSWERS_NAME
        self._inputs = [str(output.absolute()), *(str(path.absolute()) for path in data)]
        self._answers = self._read()
        self.is_resumed = bool(self._answers)

    def _read(self) -> dict[str, str]:
        """Return the answers of an interrupted interview about the same data; none if the file is damaged."""
        try:
            with open(self.path, "rb") as file:
                saved = json.loads(file.read(_MAX_BYTES))
            answers = saved["answers"] if saved["of"] == self._inputs and saved["version"] == 1 else {}
            return {str(key): str(answer) for key, answer in answers.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def get(self, question: str) -> str | None:
        """Return the answer typed earlier, or None."""
        return self._answers.get(question)

    def save(self, question: str, answer: str) -> None:
        """Save an answer before the next question; the file is replaced atomically."""
        if self._answers.get(question) == answer:
            return
        self._answers[question] = answer
        new_file = self.path.with_name(f"{SAVED_ANSWERS_NAME}.new")
        content = json.dumps({"version": 1, "of": self._inputs, "answers": self._answers}, ensure_ascii=False)
        try:
            with suppress(FileNotFoundError):
                new_file.unlink()
            with open(os.open(new_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
                file.write(content)
            os.replace(new_file, self.path)
        except OSError:
            raise InvalidPolicy(
                "what you answered so far cannot be saved: the folder of the policy cannot be written to",
                place=str(self.path.parent),
                fix="choose another folder with -o",
            ) from None

    def delete(self) -> None:
        """Delete the saved answers: the interview is complete."""
        with suppress(FileNotFoundError):
            self.path.unlink()


T = TypeVar("T")
HELP = "?"


@dataclass(frozen=True)
class InterviewQuestion:
    """A question of the interview; flags and saved answers refer to it by its key."""

    key: str
    prompt: str
    default: str | None
    help: str
    """The explanation shown after a ?."""
    flag: str
    """The flag with which a script answers it."""
    proposal: str | None = None
    """A default from private rows: it is taken only by the owner who sees it, so it is never the default."""


@dataclass
class Interview:
    """An interview: takes known answers from flags and saved files, and asks for the others."""

    saved_answers: SavedAnswers
    flag_answers: Mapping[str, str]
    """Answers from flags, by question key."""
    take_defaults: bool
    accepted_parts: set[str] = field(default_factory=set)
    """Parts whose remaining questions take their defaults."""

    def ask(self, question: InterviewQuestion, parse: Callable[[str], T], part: str = "") -> T:
        """Return the parsed answer; a typed answer that is refused is asked for again."""
        if question.key in self.flag_answers:
            return self._parse(question, self.flag_answers[question.key], parse)
        saved_answer = self.saved_answers.get(question.key)
        if saved_answer is not None:
            try:
                answer = parse(saved_answer)
            except (SfumatoError, click.UsageError):
                pass  # the saved answer no longer fits, so ask again
            else:
                click.echo(f"{question.prompt}: {escape_unprintable(saved_answer)} (your earlier answer)")
                return answer
        if part in self.accepted_parts and question.default is not None:
            return self._parse(question, question.default, parse)
        if self.take_defaults:
            if question.default is None:
                raise _unanswered_error([question])
            return self._parse(question, question.default, parse)
        return self._prompt(question, parse)

    def will_ask(self, question: InterviewQuestion, part: str = "") -> bool:
        """Return whether the owner will be asked: no flag, earlier answer or accepted default answers it."""
        return not (
            self.take_defaults or part in self.accepted_parts or self.answer_from_flag_or_saved(question) is not None
        )

    def answer_from_flag_or_saved(self, question: InterviewQuestion) -> str | None:
        """Return the answer from a flag, an earlier interview or the keyboard; None if there is none."""
        flag_answer = self.flag_answers.get(question.key)
        return self.saved_answers.get(question.key) if flag_answer is None else flag_answer

    def require_answers(self, questions: Sequence[InterviewQuestion]) -> None:
        """With --yes, refuse together all questions that have no answer and no default."""
        answers = (self.answer_from_flag_or_saved(question) or question.default for question in questions)
        unanswered = [question for question, answer in zip(questions, answers, strict=True) if answer is None]
        if unanswered and self.take_defaults:
            raise _unanswered_error(unanswered)

    def _parse(self, question: InterviewQuestion, answer: str, read: Callable[[str], T]) -> T:
        try:
            return read(answer)
        except (SfumatoError, click.UsageError) as refusal:
            raise InvalidPolicy(
                _rule_text(refusal), place=question.prompt, fix=f"give another answer with {question.flag}"
            ) from None

    def _prompt(self, question: InterviewQuestion, read: Callable[[str], T]) -> T:
        while True:
            default = question.default if question.proposal is None else question.proposal
            default_options = {"default": default, "show_default": bool(default)}
            typed = str(click.prompt(question.prompt, value_proc=str, **default_options)).strip()  # type: ignore[arg-type]
            if typed == HELP:
                click.echo(f"\n{click.wrap_text(question.help, 100)}\nIn a script: {question.flag}.\n")
                continue
            try:
                parsed = read(typed)
            except (SfumatoError, click.UsageError) as refusal:
                click.echo(f"Error: {_rule_text(refusal)}")
                continue
            self.saved_answers.save(question.key, typed)
            return parsed


def _unanswered_error(questions: Sequence[InterviewQuestion]) -> InvalidPolicy:
    these, them = ("this question has", "it") if len(questions) == 1 else ("these questions have", "them")
    return InvalidPolicy(
        f"--yes accepts every default, but {these} no safe default",
        place="; ".join(question.prompt for question in questions),
        fix=f"answer {them} with {'; and '.join(question.flag for question in questions)}",
    )


def _rule_text(refusal: SfumatoError | click.UsageError) -> str:
    """Return the rule without the refused value, which is visible in the line above."""
    if isinstance(refusal, InvalidParameter):
        return f"{quote_parameter(refusal.parameter)} must be {refusal.allowed}"
    return refusal.rule if isinstance(refusal, SfumatoError) else refusal.message


def parse_yes_no(answer: str) -> bool:
    """Parse yes or no."""
    if answer.lower() not in ("y", "yes", "n", "no"):
        raise click.UsageError("answer yes or no")
    return answer.lower() in ("y", "yes")


SKIP = "-"
ACCEPT_ALL = "*"
DEFAULT_MAX_ROWS = "10"


def read_rows_question(files: str) -> InterviewQuestion:
    return InterviewQuestion(
        "read rows",
        f"May rows of {files} be read, to detect types and to show you what limits keep (yes/no)",
        "yes",
        "The cells of a CSV or SQLite file have no declared types. With yes, rows are read on this machine, and you "
        "alone are shown the detected types, how cells are written, and what limits and bounds keep; this reading is "
        "exact, without noise. Only what you confirm is written. It costs no budget. With no, a column without a "
        "stored type is proposed as text, and you enter types, limits and bounds yourself.",
        "--read-rows or --no-read-rows",
    )


def copy_question(label: str, target: str, reasons: Sequence[str], reads_original: bool) -> InterviewQuestion:
    without = (
        "the original is read, without the columns that SQL cannot name" if reads_original else "the table is left out"
    )
    return InterviewQuestion(
        f"copy {label}",
        f"Copy {label} to {target}, because {'; '.join(reasons)} (yes/no)",
        "yes",
        "The engine reads CSV with commas in UTF-8, Parquet and DuckDB. The copy contains the same private cells; only "
        "you can read it and its folder. It takes disk space. Questions are answered from the copy: after a change of "
        f"the original, make a new one. sfumato forget removes it. With no, {without}.",
        "--copy or --no-copy",
    )


def unit_question(default: str) -> InterviewQuestion:
    return InterviewQuestion(
        "unit",
        "The unit you protect, in one word (patient, customer, household …)",
        default,
        "Nobody who sees the answers can tell whether any one of these units, with all its rows, is in the data. The "
        "word is printed with every answer; the default is guessed from the column names. A larger unit (a household) "
        "protects more and makes answers less accurate.",
        "--unit WORD",
    )


def role_question(table: str, default: str) -> InterviewQuestion:
    return InterviewQuestion(
        f"{table}.role",
        f"{table}: private, public, or {SKIP} to leave it out",
        default,
        "A private table is about the people you protect. A public one is about nobody (a list of airports): "
        "everything in it may be shown, and reading it costs nothing. When in doubt, choose private.",
        f"--public {quote(table)}, or --skip {quote(table)}",
    )


def name_question(table: str) -> InterviewQuestion:
    return InterviewQuestion(
        f"{table}.name",
        f"A name for the table {table}",
        table,
        "The name of the table in questions: SELECT COUNT(*) FROM this_name. It costs nothing.",
        f"--name {quote(table)}=NAME",
    )


def id_question(table: str, unit: str, default: str | None) -> InterviewQuestion:
    return InterviewQuestion(
        f"{table}.id",
        f"{table}: the column with the id of the {unit}, or {ROW} if every row is one {unit}",
        default,
        f"All rows with the same id belong to one {unit}. If the id is in another table, write TABLE.COLUMN: that "
        f"table, and the column that both share. With {ROW}, every row is protected by itself: a {unit} with several "
        "rows is then not protected as a whole. The default is guessed from the column names.",
        f"--id {quote(table)}=COLUMN, --id {quote(table)}={ROW} or --id {quote(table)}=OTHER.COLUMN",
    )


def max_rows_question(table: str, unit: str, proposal: str | None) -> InterviewQuestion:
    return InterviewQuestion(
        f"{table}.max_rows",
        f"{table}: the maximum number of rows that count per {unit}",
        DEFAULT_MAX_ROWS,
        f"If a {unit} has more rows, only this many count in a question. Noise grows with the limit: with 10, a "
        "count is ten times as noisy as with 1; too small a limit leaves rows out. Choose it from what you know of "
        "the field: choosing it from exact figures of these data reveals something about the people in them. sfumato "
        "check shows what a limit costs, and sfumato limits finds one privately.",
        f"--max-rows {quote(table)}=NUMBER, or --max-rows NUMBER for all tables",
        proposal,
    )


def people_question(unit: str) -> InterviewQuestion:
    return InterviewQuestion(
        "people",
        f"The number of units ({unit}) in the data, roughly (empty: unknown)",
        "",
        "A delta has to be far below 1 / this number: a mechanism that publishes everybody's rows with probability 1 / "
        "number of people would expose one of them. Type a figure that you would say in public, not one counted in the "
        "data: it is not written to the policy, but the proposed delta shows its magnitude.",
        "--people NUMBER",
    )


def delta_comparison(delta: Fraction, proposed: Fraction, people: int | None) -> str:
    """Describe how a δ compares with the proposed one."""
    reason = "the number of units is unknown" if people is None else f"1/(100 · {people:,} units)"
    return f"a delta of {format_probability(delta)} is above {format_probability(proposed)} ({reason})"


def confirm_delta_question(delta: Fraction, proposed: Fraction, people: int | None) -> InterviewQuestion:
    """Return the question that is asked when a typed δ is above the proposed one."""
    return InterviewQuestion(
        "delta",
        f"{delta_comparison(delta, proposed, people).capitalize()}: type {format_probability(delta)} again to keep it, "
        "or a smaller one",
        format_probability(proposed),
        "A mechanism that publishes each unit's rows with probability delta keeps the promise, so a delta near 1 / "
        "number of people permits it to expose a few of them. "
        "A delta of 1/1000 or more is written with allow_large_delta = true.",
        "--delta NUMBER, with --allow-large-delta from 0.001 on",
    )


def budget_question(without_default: bool, proposed_delta: Fraction) -> InterviewQuestion:
    return InterviewQuestion(
        "budget",
        f"The lifetime budget: an epsilon, and a delta if any (such as '3 {format_probability(proposed_delta)}')",
        None if without_default else "1",
        "All answers together, for ever, change what anybody can learn about one unit by at most a factor e^ε, where "
        "epsilon (ε) is the budget. ε = 1 is cautious: a suspicion of 50 % can rise to 73 %. ε = 3: to 95 %. More ε "
        "buys more or better answers. Delta (δ), such as 1e-6, is a small probability by which an answer may be "
        "likelier than this factor allows; keep it far below 1 / number of people. It allows GROUP BY without listed "
        "values, and Gaussian noise. sfumato read --epsilon 3 explains what an ε means for one person.",
        "--epsilon NUMBER and --delta NUMBER",
    )


def nulls_question(table: str, proposal: str | None) -> InterviewQuestion:
    return InterviewQuestion(
        f"{table}.nulls",
        f"{table}: cells that are missing, separated by commas ({SKIP} for none)",
        "",
        'Programs write missing cells as NA, NULL, \\N or ?, and a quoted empty cell is written "". Cells that you '
        "list are missing in every column. A text that is not listed is a value like any other; in a column of numbers "
        "or dates, whatever cannot be read is missing in any case.",
        f"--nulls {quote(table)}=NA,? or --nulls NA,? for all tables",
        proposal,
    )


def rules_question(table: str, column: str, default: str, proposal: str | None) -> InterviewQuestion:
    return InterviewQuestion(
        f"{table}.columns.{column}.rules",
        f"{column}: how its cells are written ({SKIP} for no special rule)",
        default,
        "Dates: format %d.%m.%Y, with %d %m %Y for day, month and year, %y for two digits of a year, %b %B for month "
        "names, %H %M %S %p for times. Numbers: decimal , thousands . currency €. Booleans: true Y false N. Texts with "
        "listed values: trim, case lower, map F:female,M:male. Every column: nulls NA,?. A cell that fits no rule is "
        "missing. It costs nothing; the rules are public.",
        f"--column {_column_flag(column, 'date format %d.%m.%Y')}, or "
        f"{_column_flag(column, 'real 0 5000 decimal , thousands .')}, or "
        f"{_column_flag(column, 'text trim map F:female,M:male')}",
        proposal,
    )


def type_question(table: str, column: str, default: str, proposal: str | None = None) -> InterviewQuestion:
    return InterviewQuestion(
        f"{table}.columns.{column}.type",
        f"{column}: type",
        default,
        "One of integer, real, text, boolean, date, timestamp. A cell of another type is read as missing. "
        f"{SKIP} leaves the column out: nobody can ask about it. {ACCEPT_ALL} accepts the default for "
        "this column and all "
        "that follow in this table. Leave out what nobody needs, such as names and ids. It costs nothing.",
        f"--column {_column_flag(column, 'integer 0 110')}, or --column {_column_flag(column, SKIP)}",
        proposal,
    )


def values_question(table: str, column: str) -> InterviewQuestion:
    return InterviewQuestion(
        f"{table}.columns.{column}.values",
        f"{column}: its values, separated by commas (empty: unknown)",
        "",
        "List the possible values, from the form or the code book. Questions can group by listed values; any other "
        "cell is read as missing. A list copied from the data reveals who is in them: a rare diagnosis may be one "
        "person. Without a list, grouping needs a δ and shows only values that enough people share.",
        f"--column {_column_flag(column, 'text north,south')}",
    )


def bounds_question(table: str, column: str, default: str, proposal: str | None) -> InterviewQuestion:
    return InterviewQuestion(
        f"{table}.columns.{column}.bounds",
        f"{column}: bounds ({SKIP} for none)"
        if default or proposal
        else f"{column}: bounds, low and high; or 'values 0,1' (empty for none)",
        default,
        "A value outside the bounds is moved to the nearer one. The noise of sums and means is proportional to the "
        "width of the bounds. Take them from what you know: nobody is older than 120. The minimum and maximum of the "
        "data are two people's values: choosing bounds from exact figures is itself a disclosure. Without bounds the "
        "column can be counted, but not summed; sfumato bounds buys bounds privately. For codes such as 0 and 1, "
        "list the values: values 0,1, or values 1..16 for all from 1 to 16. To publish the column, add bins after "
        "the bounds: 0 110 bins 11 for equal bins, 0 110 bins 0,18,65,110 for edges, or for dates bins month.",
        f"--column {_column_flag(column, 'integer 0 110')}, or {_column_flag(column, 'integer values 1..16')}, or "
        f"{_column_flag(column, 'integer 0 110 bins 11')}",
        proposal,
    )


def _column_flag(column: str, declaration: str) -> str:
    """Return NAME=DECLARATION quoted for a shell."""
    return f"{quote(column)}={declaration if declaration == SKIP else quote(declaration)}"
