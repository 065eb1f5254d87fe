"""``sfumato report``: write the page that an owner publishes about an account."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP


@click.command(short_help="Write a web page about an account, for publication.", epilog=EXIT_CODES_HELP)
@options.policy
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The page to write.",
)
@options.questions
@options.title
@options.ledger
def command(policy: Path, out: Path, questions: str | None, title: str | None, ledger: Path | str | None) -> None:
    """Write a self-contained web page about POLICY's account, for its owner to publish.

    It shows who is protected, what was asked, the answers with plots and ranges, their cost, the most an attacker could
    learn, and how to verify it. No data are read, nothing is spent. Without --questions, every question appears as a
    salted hash without its answer, since a question may name people. Names of analysts and files never appear.

    \b
    Examples:
      sfumato report clinic.toml -o report.html
      sfumato report clinic.toml -o report.html --questions 4,7
      sfumato report clinic.toml -o report.html --questions --title "Visits to our clinic"
    """
    from sfumato.cli.common.output import check_output_files
    from sfumato.curator.policy_account import read_policy
    from sfumato.reports.account_reports import collect_report, parse_questions_option, report_page

    parsed_policy = read_policy(policy)
    check_output_files(parsed_policy, ledger, out)
    account_report = collect_report(parsed_policy, ledger, questions=parse_questions_option(questions))
    report_page(account_report, title).save(out)
    click.echo(f"{out}: {options.visible_questions_message(account_report)}")
