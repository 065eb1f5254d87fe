"""``sfumato survey``: make forms under local differential privacy, answer them, and estimate counts from reports."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP, print_warning
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE

if TYPE_CHECKING:
    from sfumato.publish.marginals.attributes import Attribute

_form_argument = click.argument("form", type=click.Path(path_type=Path))


@click.group(short_help="Run a survey in which respondents randomise their answers.", epilog=EXIT_CODES_HELP)
def survey_command() -> None:
    """Make a form, answer it on the respondent's device, and count the reports. There is no curator and no ledger.

    \b
    Examples:
      sfumato survey new smoking.sfu --answers smokes=yes,no --bins age=0,18,30,65 --epsilon 1
      sfumato survey answer smoking.sfu smokes=yes age=44 >> reports.jsonl
      sfumato survey estimate smoking.sfu reports.jsonl
    """


@survey_command.command(epilog=EXIT_CODES_HELP)
@_form_argument
@click.option(
    "--answers",
    multiple=True,
    metavar="NAME=A,B",
    help="A question and its possible answers: NAME=ANSWER,ANSWER,…, such as smokes=yes,no. Repeatable.",
)
@click.option(
    "--bins",
    multiple=True,
    metavar="NAME=0,18,65",
    help="A question whose answer is a number or a date, counted in bins with these edges. Repeatable.",
)
@click.option("--epsilon", metavar="NUMBER", required=True, help="The privacy loss ε of one report.")
@click.option(
    "--split/--sampled",
    default=None,
    help="Each respondent answers all questions, with ε split over them, or one question at random.  "
    "[default: the more accurate]",
)
@click.option(
    "--respondents",
    type=int,
    default=1000,
    show_default=True,
    help="The number of respondents that you expect, from which the expected errors are computed.",
)
def new(
    form: Path, answers: Sequence[str], bins: Sequence[str], epsilon: str, split: bool | None, respondents: int
) -> None:
    """Write a new FORM, and print how it is randomised and the expected error of its counts."""
    from sfumato.surveys import collect

    questions: dict[str, Any] = {}
    for question_text in answers:
        name, values = _parse_question(question_text)
        questions[name] = values
    for question_text in bins:
        name, values = _parse_question(question_text)
        questions[name] = {"bins": [_parse_edge(edge) for edge in values]}
    if len(questions) != len(answers) + len(bins):
        raise click.UsageError("two questions have the same name: give each question its own name")
    survey_form = collect(questions, epsilon, split=split)
    explanation = survey_form.explain(respondents)
    survey_form.save(form)
    click.echo(explanation)


@survey_command.command(epilog=EXIT_CODES_HELP)
@_form_argument
@click.argument("answers", nargs=-1, metavar="[NAME=ANSWER]…")
def answer(form: Path, answers: Sequence[str]) -> None:
    """Randomise one person's answers to FORM and print the report to send. Without ANSWERS, prompt for them.

    Run this once, on the respondent's device: each further report of the same person costs the same ε again.
    """
    from sfumato.surveys import form as read

    survey_form = read(form)
    answer_texts = dict(_parse_pair(text) for text in answers)
    if not answers:
        answer_texts = {question.name: _prompt_answer(question) for question in survey_form.questions}
    questions = {question.name: question for question in survey_form.questions}
    parsed_answers = {
        name: _parse_answer(questions[name], text) if name in questions else text for name, text in answer_texts.items()
    }
    click.echo(survey_form.answer(parsed_answers).to_json())


@survey_command.command(epilog=EXIT_CODES_HELP)
@_form_argument
@click.argument("reports", type=click.File(encoding="utf-8"))
@click.option("--pair", "pairs", multiple=True, metavar="A,B", help="Cross-tabulate two questions. Repeatable.")
@click.option(
    "--confidence",
    metavar="NUMBER",
    default=DEFAULT_CONFIDENCE,
    show_default=True,
    help="The confidence level of the range given for each number, such as 0.95.",
)
@click.option(
    "--joint",
    "--together",
    "together",
    is_flag=True,
    help="Make all ranges hold together with this confidence, not each by itself.",
)
@options.as_json
@options.plot
def estimate(
    form: Path,
    reports: TextIO,
    pairs: Sequence[str],
    confidence: str,
    together: bool,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Estimate the counts of answers to FORM from REPORTS, one per line ("-" reads them from stdin)."""
    if plot is not None:
        from sfumato.plots import check_picture_path

        check_picture_path(plot)
    from sfumato.surveys import form as read

    lines = (line.strip() for line in reports)
    question_pairs: Any = [tuple(name.strip() for name in pair.split(",")) for pair in pairs]
    estimates = read(form).estimate(filter(None, lines), confidence=confidence, together=together, pairs=question_pairs)
    if estimates.refused:
        print_warning(
            f"refused {len(estimates.refused):,} of the lines, the first because {estimates.refused[0].reason}"
        )
    click.echo(estimates.to_json() if as_json else str(estimates))
    if plot is not None:
        estimates.plot(str(plot))


def _parse_pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"write NAME=VALUE, such as smokes=yes, not {text}")
    return name.strip(), value.strip()


def _parse_question(text: str) -> tuple[str, list[str]]:
    name, values = _parse_pair(text)
    return name, [value.strip() for value in values.split(",")]


def _parse_edge(text: str) -> Any:
    """Parse a bin edge: a number, a date or a time."""
    for read in (int, Decimal, date.fromisoformat, datetime.fromisoformat):
        with suppress(ValueError, InvalidOperation):
            return read(text)
    return text


def _prompt_answer(question: Attribute) -> str:
    """Prompt for one answer, which may be empty."""
    from sfumato.surveys.forms import cell_label

    choices = ", ".join(cell_label(cell) for cell in question.cells[:-1][:20])
    return str(
        click.prompt(f"{question.name} ({choices})", default="", show_default=False, err=not sys.stdout.isatty())
    )


def _parse_answer(question: Attribute, text: str) -> object:
    """Parse an answer by the type of its question; an answer that is not listed counts as other."""
    from sfumato.policy import Type

    if question.type is Type.BOOLEAN:
        return {"true": True, "false": False}.get(text.lower())
    return text if question.type is Type.TEXT else _parse_edge(text)
