"""What an owner publishes about an account: ``sfumato bundle``, ``verify``, ``key`` and ``report``."""

from __future__ import annotations

import json
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
def bundle_command(
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
def verify_command(
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


_file = click.argument("file", type=click.Path(path_type=Path))


@click.group(short_help="Make the key that signs bundles.", epilog=EXIT_CODES_HELP)
def key_command() -> None:
    """Make an Ed25519 key for sfumato bundle, or show the public key that others verify with.

    \b
    Examples:
      sfumato key new owner.key
      sfumato key new owner.key --passphrase
      sfumato key show owner.key
    """


@key_command.command(epilog=EXIT_CODES_HELP)
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


@key_command.command(epilog=EXIT_CODES_HELP)
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
def report_command(
    policy: Path, out: Path, questions: str | None, title: str | None, ledger: Path | str | None
) -> None:
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
