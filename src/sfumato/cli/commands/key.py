"""``sfumato key``: make the key with which an owner signs bundles."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP

_file = click.argument("file", type=click.Path(path_type=Path))


@click.group(short_help="Make the key that signs bundles.", epilog=EXIT_CODES_HELP)
def command() -> None:
    """Make an Ed25519 key for sfumato bundle, or show the public key that others verify with.

    \b
    Examples:
      sfumato key new owner.key
      sfumato key new owner.key --passphrase
      sfumato key show owner.key
    """


@command.command(epilog=EXIT_CODES_HELP)
@_file
@click.option("--passphrase", is_flag=True, help="Prompt for a passphrase that encrypts the key.")
@options.passphrase_file
def new(file: Path, passphrase: bool, passphrase_file: Path | None) -> None:
    """Write a new private key to FILE, readable by you alone, and its public key to FILE.pub.

    Publish FILE.pub where others can find it and only you can change it. Keep FILE secret.

    \b
    Example:
      sfumato key new owner.key --passphrase
    """
    from sfumato.cli.common.options import read_new_passphrase
    from sfumato.reports.signing_keys import SigningKey

    passphrase_text = read_new_passphrase(passphrase_file) if passphrase or passphrase_file else None
    key = SigningKey.new()
    public = key.save(file, passphrase_text)
    protection = "readable by you alone" + (" and encrypted with the passphrase" if passphrase_text else "")
    click.echo(f"{file}: the private key, {protection}")
    click.echo(f"{public}: the public key, to publish\nfingerprint: {key.public.fingerprint}")


@command.command(epilog=EXIT_CODES_HELP)
@_file
@options.passphrase_file
def show(file: Path, passphrase_file: Path | None) -> None:
    """Print the public key and the fingerprint of the key in FILE.

    \b
    Example:
      sfumato key show owner.key
    """
    from sfumato.cli.common.options import read_signing_key

    public = read_signing_key(file, passphrase_file).public
    click.echo(f"{public.line}\nfingerprint: {public.fingerprint}")
