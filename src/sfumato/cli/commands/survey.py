"""The command ``sfumato survey`` makes forms that respondents randomise themselves, answers them and counts reports."""

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
from sfumato.cli.common.exit_codes import EXIT_CODES, warn

if TYPE_CHECKING:
    from sfumato.publish.marginals.attributes import Attribute

_form = click.argument("form", type=click.Path(path_type=Path))


@click.group(short_help="Ask people who trust nobody: forms, reports, counts.", epilog=EXIT_CODES)
def command() -> None:
    """Make a form, answer it where the person is, and count the reports. There is no curator, and no ledger.

    \b
    Examples:
      sfumato survey new smoking.sfu --answers smokes=yes,no --bins age=0,18,30,65 --epsilon 1
      sfumato survey answer smoking.sfu smokes=yes age=44 >> reports.jsonl
      sfumato survey estimate smoking.sfu reports.jsonl
    """


@command.command(epilog=EXIT_CODES)
@_form
@click.option("--answers", multiple=True, metavar="NAME=A,B", help="A question with these answers; may be given again.")
@click.option("--bins", multiple=True, metavar="NAME=0,18,65", help="A question for a number or a date, by its bins.")
@click.option("--epsilon", metavar="NUMBER", required=True, help="What one report may tell of its sender.")
@click.option("--split/--sampled", default=None, help="Everybody answers all, or each one.  [default: what errs less]")
@click.option("--respondents", type=int, default=1000, show_default=True, help="For the errors that are shown.")
def new(
    form: Path, answers: Sequence[str], bins: Sequence[str], epsilon: str, split: bool | None, respondents: int
) -> None:
    """Write a new FORM, and say how it is randomised and how wrong counts will be."""
    from sfumato.surveys import collect

    questions: dict[str, Any] = {}
    for given in answers:
        name, values = _named(given)
        questions[name] = values
    for given in bins:
        name, values = _named(given)
        questions[name] = {"bins": [_edge(each) for each in values]}
    if len(questions) != len(answers) + len(bins):
        raise click.UsageError("every question has a name of its own")
    made = collect(questions, epsilon, split=split)
    said = made.explain(respondents)
    made.save(form)
    click.echo(said)


@command.command(epilog=EXIT_CODES)
@_form
@click.argument("answers", nargs=-1, metavar="[NAME=ANSWER]…")
def answer(form: Path, answers: Sequence[str]) -> None:
    """Randomise one person's answers to FORM, and print the report that may be sent. Without ANSWERS, ask for them.

    Run this where the person is, and once: each further report of the same person costs as much again.
    """
    from sfumato.surveys import form as read

    found = read(form)
    given = dict(_pair(each) for each in answers)
    if not answers:
        given = {each.name: _asked(each) for each in found.questions}
    known = {each.name: each for each in found.questions}
    typed = {name: _typed(known[name], text) if name in known else text for name, text in given.items()}
    click.echo(found.answer(typed).to_json())


@command.command(epilog=EXIT_CODES)
@_form
@click.argument("reports", type=click.File(encoding="utf-8"))
@click.option("--pair", "pairs", multiple=True, metavar="A,B", help="Count two questions together; may be given again.")
@click.option("--confidence", metavar="NUMBER", default="0.95", show_default=True, help="Of every range.")
@click.option("--together", is_flag=True, help="Let all ranges hold at once.")
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
    """Count the answers to FORM from REPORTS, one in each line ("-" reads them from stdin)."""
    if plot is not None:
        from sfumato.plots import check_picture

        check_picture(plot)
    from sfumato.surveys import form as read

    lines = (line.strip() for line in reports)
    wanted: Any = [tuple(name.strip() for name in each.split(",")) for each in pairs]
    found = read(form).estimate(filter(None, lines), confidence=confidence, together=together, pairs=wanted)
    if found.refused:
        warn(f"{len(found.refused):,} lines were refused, the first: {found.refused[0].reason}")
    click.echo(found.to_json() if as_json else str(found))
    if plot is not None:
        found.plot(str(plot))


def _pair(given: str) -> tuple[str, str]:
    name, sign, text = given.partition("=")
    if not sign or not name.strip():
        raise click.UsageError(f"write NAME=…, not {given}")
    return name.strip(), text.strip()


def _named(given: str) -> tuple[str, list[str]]:
    name, text = _pair(given)
    return name, [each.strip() for each in text.split(",")]


def _edge(text: str) -> Any:
    """Read an edge of bins: a number, a date or a time."""
    for read in (int, Decimal, date.fromisoformat, datetime.fromisoformat):
        with suppress(ValueError, InvalidOperation):
            return read(text)
    return text


def _asked(question: Attribute) -> str:
    """Ask for one answer; nothing is an answer too."""
    from sfumato.surveys.forms import label

    listed = ", ".join(label(each) for each in question.cells[:-1][:20])
    return str(click.prompt(f"{question.name} ({listed})", default="", show_default=False, err=not sys.stdout.isatty()))


def _typed(question: Attribute, text: str) -> object:
    """Read an answer as its question has it; what is none of its answers counts as another."""
    from sfumato.policy import Type

    if question.type is Type.BOOLEAN:
        return {"true": True, "false": False}.get(text.lower())
    return text if question.type is Type.TEXT else _edge(text)
