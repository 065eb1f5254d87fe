"""``sfumato verify``: check a signed bundle offline, and state what that proves and what it does not."""

from __future__ import annotations

import json
from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP


@click.command(short_help="Verify a signed bundle, offline.", epilog=EXIT_CODES_HELP)
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--key",
    metavar="FILE",
    help="The owner's public key, obtained from the owner and not from the bundle: a .pub file, or the line in it.",
)
@click.option(
    "--earlier",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="An earlier bundle of the same account: BUNDLE must contain all of its lines.",
)
@click.option(
    "--policy",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For an auditor: also compare the bundle with the ledger of this policy.",
)
@options.ledger
@options.as_json
def command(
    bundle: Path, key: str | None, earlier: Path | None, policy: Path | None, ledger: Path | str | None, as_json: bool
) -> None:
    """Check, without a network, that every byte of BUNDLE matches its signature and that its totals add up.

    The output says what is proved and what is not. A bundle that was changed or is inconsistent is refused.

    \b
    Examples:
      sfumato verify bundle.zip --key owner.key.pub
      sfumato verify bundle.zip --key owner.key.pub --earlier last-year.zip
      sfumato verify bundle.zip --policy clinic.toml
    """
    if ledger is not None and policy is None:
        raise click.UsageError("give --policy together with --ledger: the policy names the account")
    from sfumato.reports.bundles import verify_bundle

    verification = verify_bundle(bundle, key, policy=policy, ledger=ledger, earlier=earlier)
    if as_json:
        facts = {
            "key": verification.bundle.key.line,
            "proved": verification.proved,
            "not_proved": verification.unproved,
        }
        click.echo(json.dumps(facts, ensure_ascii=False))
    else:
        click.echo(str(verification))
