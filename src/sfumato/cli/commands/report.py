"""The command ``sfumato report`` writes the page that an owner publishes of an account."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES


@click.command(short_help="A web page to publish: what was asked, and what it could reveal.", epilog=EXIT_CODES)
@options.policy
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("report.html"), show_default=True
)
@options.questions
@options.title
@options.ledger
def command(policy: Path, out: Path, questions: str | None, title: str | None, ledger: Path | str | None) -> None:
    """Write one page about POLICY's account that needs nothing else, for its owner to publish.

    It says who is protected, what was asked, the answers with pictures and ranges, what they cost, what an attacker
    could gain at most, and how to verify it. No row is read, and nothing is spent. Without --questions, which may name
    people, every question is a salted hash and its answer is left out. The names of analysts and files are never told.

    \b
    Examples:
      sfumato report clinic.toml -o report.html
      sfumato report clinic.toml -o report.html --questions 4,7
      sfumato report clinic.toml -o report.html --questions --title "Visits to our clinic"
    """
    from sfumato.cli.common.output import check_written
    from sfumato.curator.policy_account import read_policy
    from sfumato.reports.telling import chosen, page, told

    declared = read_policy(policy)
    check_written(declared, ledger, out)
    found = told(declared, ledger, questions=chosen(questions))
    page(found, title).save(out)
    click.echo(f"{out}: {options.shown(found)}")
