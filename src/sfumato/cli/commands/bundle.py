"""``sfumato bundle``: write the answers of an account with the ledger's proof, signed by the owner."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP


@click.command(short_help="Write a signed file with answers and their ledger lines.", epilog=EXIT_CODES_HELP)
@options.policy
@click.option(
    "--key",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The owner's signing key, made with sfumato key new.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("bundle.zip"),
    show_default=True,
    help="The file to write.",
)
@options.questions
@click.option(
    "--reviewed",
    is_flag=True,
    help="Show the answers that analysts marked for publication (sfumato requests publish) and an owner approved.",
)
@options.title
@options.passphrase_file
@options.ledger
def command(
    policy: Path,
    key: Path,
    out: Path,
    questions: str | None,
    reviewed: bool,
    title: str | None,
    passphrase_file: Path | None,
    ledger: Path | str | None,
) -> None:
    """Write a zip file about POLICY's account, signed with the owner's key, that anybody can verify offline.

    It contains the account's lines with their costs and hashes and the page of sfumato report; with --questions also
    the questions and answers with their receipts, of all lines or of the lines named. Other questions appear as salted
    hashes. No data are read, nothing is spent.

    \b
    Examples:
      sfumato bundle clinic.toml --key owner.key
      sfumato bundle clinic.toml --key owner.key -o bundle.zip --questions 4,7
    """
    from sfumato.cli.common.options import read_signing_key
    from sfumato.cli.common.output import check_output_files
    from sfumato.curator.policy_account import read_policy
    from sfumato.reports.account_reports import parse_questions_option, reviewed_lines
    from sfumato.reports.bundles import bundle
    from sfumato.server.people.people_file import open_owner_check

    if reviewed and questions is not None:
        raise click.UsageError("give --questions or --reviewed, not both")
    parsed_policy = read_policy(policy)
    if reviewed:
        with open_owner_check(parsed_policy, ledger) as (is_owner, people):
            selected_lines = reviewed_lines(parsed_policy, ledger, is_owner, people)
    else:
        selected_lines = parse_questions_option(questions)
    check_output_files(parsed_policy, ledger, out, key)
    signer = read_signing_key(key, passphrase_file)
    report = bundle(parsed_policy, signer, out, ledger, questions=selected_lines, title=title)
    click.echo(f"{out}: {options.visible_questions_message(report)}")
    click.echo(f"signed by {signer.public.fingerprint}")
