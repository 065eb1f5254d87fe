"""The command ``sfumato bundle`` writes what was answered, with its proof, signed by the owner."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES


@click.command(short_help="Answers, receipts and the ledger's proof, signed.", epilog=EXIT_CODES)
@options.policy
@click.option(
    "--key",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The owner's signing key, which sfumato key new makes.",
)
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("bundle.zip"), show_default=True
)
@options.questions
@options.title
@options.passphrase_file
@options.ledger
def command(
    policy: Path,
    key: Path,
    out: Path,
    questions: str | None,
    title: str | None,
    passphrase_file: Path | None,
    ledger: Path | str | None,
) -> None:
    """Write one zip file about POLICY's account, signed with the owner's key, for anybody to verify offline.

    In it are the account's lines with their costs and hashes, the page of sfumato report, and with --questions the
    questions and their answers with receipts: of all lines, or of those that are named. Other questions are salted
    hashes. No row is read, and nothing is spent.

    \b
    Examples:
      sfumato bundle clinic.toml --key owner.key
      sfumato bundle clinic.toml --key owner.key -o bundle.zip --questions 4,7
    """
    from sfumato.cli.common.options import signing_key
    from sfumato.cli.common.output import check_written
    from sfumato.curator.policy_account import read_policy
    from sfumato.reports.bundles import bundle
    from sfumato.reports.telling import chosen

    declared, shown = read_policy(policy), chosen(questions)
    check_written(declared, ledger, out, key)
    signer = signing_key(key, passphrase_file)
    found = bundle(declared, signer, out, ledger, questions=shown, title=title)
    click.echo(f"{out}: {options.shown(found)}")
    click.echo(f"signed by {signer.public.fingerprint}")
