"""Arguments and options stand here when several commands share them.

A passphrase is typed where nobody sees it, or read from a file: others can read a command line.

Some commands ask a server in place of files: POLICY is then the name of a policy there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sfumato.cli.common.output import ProgressLines

if TYPE_CHECKING:
    from sfumato.reports.signing_keys import SigningKey
    from sfumato.reports.telling import AccountReport


_Command = TypeVar("_Command", bound=Callable[..., Any])


def several(*each: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """Put options and arguments before a command, in this order, as one."""

    def added(command: _Command) -> _Command:
        for one in reversed(each):
            command = one(command)
        return command

    return added


class LedgerAddress(click.Path):
    """A ledger is named by the path of a file, or by the address of a database."""

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
    "--request-id", metavar="ID", help="Ask again with the same id after a crash: answered once, charged once."
)
session_id = click.option(
    "--request-id", metavar="ID", help="Opens one session: under the same id nobody is charged, or let in, again."
)
analyst = click.option(
    "--analyst", metavar="NAME", help="An analyst of the policy: their share, their name in the ledger."
)
synopsis = click.argument("file", type=click.Path(path_type=Path))
as_csv = click.option(
    "--csv", "as_csv", is_flag=True, help="Print CSV, with two columns more for the range of each number."
)
plot = click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw the answer with its ranges: .svg, .png or .html.",
)


def _keep_details(context: click.Context, _: click.Parameter, details: bool) -> bool:
    """Remember that details are wanted: a refusal, which ends the command, then has its own."""
    context.meta[DETAILS] = details
    return details


DETAILS = "sfumato.details"
details = click.option(
    "--details",
    is_flag=True,
    callback=_keep_details,
    help="Below the receipt, or a refusal of the price, show the currencies it is counted in: pure, renyi and failure.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

questions = click.option(
    "--questions",
    is_flag=False,
    flag_value="all",
    metavar="[LINES]",
    help="Show questions and answers: all, or those of these lines, such as 4,7.",
)
title = click.option("--title", metavar="TEXT", help="What the page is called.")
passphrase_file = click.option(
    "--passphrase-file", type=click.Path(path_type=Path), metavar="FILE", help="Its first line is the passphrase."
)


def shown(found: AccountReport) -> str:
    """Say how many questions are shown, and how others are."""
    every, visible = len(found.asked), sum(each.question is not None for each in found.asked)
    lost = sum(each.is_lost for each in found.asked)
    few = f"{lost:,} answer{'s' if lost > 1 else ''}"
    but = f", but for {few} that only the policy as it was then can show" if lost else ""
    if visible == every:
        return f"all {every:,} questions are shown, with their answers{but}"
    how = "sfumato history lists the lines, and --questions shows them" if not visible else "others are salted hashes"
    return f"{visible:,} of {every:,} questions are shown{but}; {how}"


def rows(written: str | None) -> int | None:
    """Read a number of rows, which may be written as 1e6."""
    if written is None:
        return None
    from sfumato.privacy.numbers import whole

    return whole(written, "rows", at_least=1)


def signing_key(path: Path, file: Path | None) -> SigningKey:
    """Read a signing key, and ask for its passphrase where it has one."""
    from sfumato.reports.signing_keys import SigningKey, is_locked

    if not is_locked(path):
        return SigningKey.read(path)
    secret = _first_line(file) if file is not None else click.prompt("passphrase", hide_input=True, err=True)
    return SigningKey.read(path, secret)


def chosen_passphrase(file: Path | None) -> str:
    """Take a new passphrase, typed twice."""
    if file is not None:
        return _first_line(file)
    found: str = click.prompt("passphrase", hide_input=True, confirmation_prompt=True, err=True)
    return found


def _first_line(file: Path) -> str:
    try:
        found = file.read_text(encoding="utf-8").split("\n", 1)[0].rstrip("\r")
    except (OSError, UnicodeDecodeError):
        raise click.UsageError(f"{file} cannot be read as text") from None
    if not found:
        raise click.UsageError(f"the first line of {file} is empty: write the passphrase there")
    return found


server = click.option(
    "--server",
    metavar="URL",
    help="Ask the server at this address (https://…, unix:/path), with the token that sfumato login keeps; POLICY is "
    "then the name of a policy there.",
)


@contextmanager
def connected(
    url: str, policy: Path, analyst: str | None, ledger: Path | str | None, progress: ProgressLines | None = None
) -> Iterator[Any]:
    """Open a policy at a server; what says something about files here is refused."""
    if analyst is not None or ledger is not None:
        raise click.UsageError("leave out --analyst and --ledger with --server: the token says who asks")
    from sfumato.client import connect

    with connect(url, str(policy), progress=progress) as curator:
        yield curator
