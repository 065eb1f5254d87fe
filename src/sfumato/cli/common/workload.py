"""Questions of a file are asked together: this prints what ``sfumato query --file`` says of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common.exit_codes import warn
from sfumato.cli.common.progress import ProgressLines
from sfumato.cli.common.spoken import as_flags
from sfumato.cli.common.text_tables import show

if TYPE_CHECKING:
    from sfumato.curator import Answers, Curator, WorkloadForecast


def ask_all(
    curator: Curator,
    file: Path,
    asked: dict[str, Any],
    progress: ProgressLines,
    *,
    explain: bool,
    dry_run: bool,
    fresh: bool,
    request_id: str | None,
    as_json: bool,
    receipt: bool,
) -> None:
    """Explain, forecast or ask all questions of a file."""
    proposal = curator.workload(file)
    if explain:
        said = proposal.explain(**asked)
        click.echo(said.to_json() if as_json else as_flags(str(said)))
    elif dry_run:
        _forecast(proposal.error(**asked, fresh=fresh), as_json)
    else:
        with progress.until_shown():
            answers = proposal.release(**asked, fresh=fresh, request_id=request_id)
            for each in dict.fromkeys(said for answer in answers for said in answer.warnings):
                warn(each)
            progress("showing")
            _show(answers, as_json, receipt)


def by_question(given: Any) -> Any:
    """Read q1=50 as what is wanted of a question, and q1.visits=50 of one of its columns."""
    if not isinstance(given, dict):
        return given
    found: dict[str, Any] = {}
    for name, width in given.items():
        question, dot, column = name.partition(".")
        if dot and isinstance(found.get(question, {}), dict):
            found.setdefault(question, {})[column] = width
        elif dot or question in found:
            raise click.UsageError(f"give --within {question}=NUMBER, or one for each of its columns, not both")
        else:
            found[question] = width
    return found


def _forecast(found: WorkloadForecast, as_json: bool) -> None:
    if as_json:
        click.echo(found.to_json())
        return
    click.echo(as_flags(str(found)))
    for each in dict.fromkeys(one.counted for one in found.forecasts if one.counted):
        click.echo(f"counted: {each}")
    click.echo("Nothing was spent, and no row was read.")


def _show(answers: Answers, as_json: bool, receipt: bool) -> None:
    if as_json:
        click.echo(answers.to_json())
        return
    for name, answer in answers.items():
        click.secho(f"{name}  {' '.join(answer.receipt.question.split())}", bold=True)
        show(answer.columns, answer.cells(), answer.intervals)
        for each in answer.ranked():
            click.echo(each)
        click.echo("")
    if answers.receipt is None:
        click.secho("all of it was bought before: nothing was spent", dim=True)
    else:
        click.secho(str(answers.receipt if receipt else answers.receipt.short()), dim=True)
