"""Arguments and options that several commands share.

A passphrase is prompted for without echo, or read from a file: other users can read a command line.

With --server a command asks a server instead of opening files, and POLICY is the name of a policy there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sfumato.cli.common.output import ProgressPrinter

if TYPE_CHECKING:
    from sfumato.reports.account_reports import AccountReport
    from sfumato.reports.signing_keys import SigningKey


_Command = TypeVar("_Command", bound=Callable[..., Any])


def combine_decorators(*decorators: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """Combine option and argument decorators into one that keeps their order."""

    def decorate(command: _Command) -> _Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


class LedgerAddress(click.Path):
    """A parameter type for ledgers: the path of a file or the address of a database."""

    name = "ledger"

    def __init__(self, *, exists: bool = False) -> None:
        super().__init__(exists=exists, dir_okay=not exists, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from sfumato.ledger.stores.server_addresses import is_server_address

        return value if is_server_address(value) else super().convert(value, param, ctx)


policy = click.argument("policy", type=click.Path(path_type=Path))
ledger = click.option(
    "--ledger",
    type=LedgerAddress(),
    metavar="PATH",
    help="The ledger: a file, or postgresql://host/db.  [default: sfumato.ledger beside POLICY]",
)
ledger_here = click.option(
    "--ledger",
    type=LedgerAddress(),
    metavar="PATH",
    help="The ledger file.  [default: sfumato.ledger in this folder]",
)
request_id = click.option(
    "--request-id",
    metavar="ID",
    help="An id for this request: a request repeated with the same id is charged only once.",
)
session_id = click.option(
    "--request-id",
    metavar="ID",
    help="An id for this session: repeating the command with the same id neither opens nor charges a second session.",
)
analyst = click.option(
    "--analyst",
    metavar="NAME",
    help="Ask as this analyst, named in the policy: the price comes out of their share and is recorded under their "
    "name.",
)
synopsis_file = click.argument("file", type=click.Path(path_type=Path))
as_csv = click.option(
    "--csv", "as_csv", is_flag=True, help="Print CSV, with two extra columns for the range of each number."
)
plot = click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Plot the answer with its ranges to a .svg, .png or .html file.",
)


def _keep_details(context: click.Context, _: click.Parameter, details: bool) -> bool:
    """Store the flag in the context, so that a refusal that ends the command can read it."""
    context.meta[DETAILS_KEY] = details
    return details


DETAILS_KEY = "sfumato.details"
details = click.option(
    "--details",
    is_flag=True,
    callback=_keep_details,
    help="Also print the cost as the ledger counts it: pure (ε), renyi (Rényi divergence) and failure (δ).",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
explain = click.option("--explain", is_flag=True, help="Only print the plan, step by step. Spends nothing.")
dry_run = click.option("--dry-run", is_flag=True, help="Only print the price and the expected error. Spends nothing.")
whole_receipt = click.option("--receipt", is_flag=True, help="Print the whole receipt below the answer.")

questions = click.option(
    "--questions",
    is_flag=False,
    flag_value="all",
    metavar="[LINES]",
    help="Show the questions and answers of these ledger lines, such as 4,7; without LINES, of all.",
)
title = click.option("--title", metavar="TEXT", help="The title of the page.")
passphrase_file = click.option(
    "--passphrase-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read the passphrase from the first line of this file.",
)


def visible_questions_message(report: AccountReport) -> str:
    """Return a sentence on how many questions of a report are shown, and how the others appear."""
    total, visible = len(report.questions), sum(entry.question is not None for entry in report.questions)
    lost = sum(entry.cannot_be_rebuilt for entry in report.questions)
    lost_answers = f"{lost:,} answer{'s' if lost > 1 else ''}"
    exception = f", except {lost_answers} that only the earlier policy can show" if lost else ""
    if visible == total:
        return f"all {total:,} questions are shown, with their answers{exception}"
    hint = "sfumato history lists the lines, and --questions shows them" if not visible else "others are salted hashes"
    return f"{visible:,} of {total:,} questions are shown{exception}; {hint}"


def parse_row_count(text: str | None) -> int | None:
    """Parse a number of rows, which may be written as 1e6."""
    if text is None:
        return None
    from sfumato.privacy.numbers import exact_integer

    return exact_integer(text, "rows", at_least=1)


def read_signing_key(path: Path, passphrase_file: Path | None) -> SigningKey:
    """Read a signing key; prompt for its passphrase if it has one and no file holds it."""
    from sfumato.reports.signing_keys import SigningKey, is_encrypted

    if not is_encrypted(path):
        return SigningKey.read(path)
    passphrase = (
        _first_line(passphrase_file)
        if passphrase_file is not None
        else click.prompt("passphrase", hide_input=True, err=True)
    )
    return SigningKey.read(path, passphrase)


def read_new_passphrase(passphrase_file: Path | None) -> str:
    """Read a new passphrase from a file, or prompt for it twice."""
    if passphrase_file is not None:
        return _first_line(passphrase_file)
    passphrase: str = click.prompt("passphrase", hide_input=True, confirmation_prompt=True, err=True)
    return passphrase


def _first_line(file: Path) -> str:
    try:
        first_line = file.read_text(encoding="utf-8").split("\n", 1)[0].rstrip("\r")
    except (OSError, UnicodeDecodeError):
        raise click.UsageError(f"{file} cannot be read as UTF-8 text") from None
    if not first_line:
        raise click.UsageError(f"the first line of {file} is empty: write the passphrase there")
    return first_line


server = click.option(
    "--server",
    metavar="URL",
    help="Ask the server at this address (https://… or unix:/path) with the token saved by sfumato login; POLICY is "
    "then the name of a policy there.",
)


@contextmanager
def connect_to_server(
    url: str, policy: Path, analyst: str | None, ledger: Path | str | None, progress: ProgressPrinter | None = None
) -> Iterator[Any]:
    """Connect to a policy on a server; refuse options that only make sense with local files."""
    if analyst is not None or ledger is not None:
        raise click.UsageError("leave out --analyst and --ledger with --server: the token identifies the analyst")
    from sfumato.client import connect

    with connect(url, str(policy), progress=progress) as curator:
        yield curator
