"""``sfumato shell``: an interactive prompt that shows price and expected error before it spends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP, calls_to_shell_commands, format_refusal, print_error
from sfumato.cli.shell.completion import Completion, is_complete, split_input
from sfumato.cli.shell.line_input import (
    EditorInput,
    InputHistory,
    LineInput,
    PlainLineInput,
    default_history_path,
    has_editor,
)
from sfumato.cli.shell.session import COMMANDS, QuitSession, ShellSession, ShellSettings, StatementAbandoned
from sfumato.errors import SfumatoError
from sfumato.extras import install_command

if TYPE_CHECKING:
    from sfumato.curator import Curator

_WELCOME = "End a question with ; to see its price and expected error before it spends. \\help lists the commands."


@click.command(short_help="Ask questions at a prompt.", epilog=EXIT_CODES_HELP)
@options.policy
@click.option("--epsilon", metavar="NUMBER", help="The price of each question, until \\epsilon sets another.")
@click.option(
    "--delta",
    metavar="NUMBER|default",
    default="0",
    help="With --epsilon: the δ of the price, which allows Gaussian noise; write 'default' for the δ "
    "that is proposed where groups are found in the data.",
)
@click.option(
    "--yes", is_flag=True, help="Spend without asking for confirmation; a script can spend only with this flag."
)
@options.analyst
@options.ledger
@click.option(
    "--history",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file that keeps the history of your input; only you can read it.  [default: "
    "sfumato/shell-history in ~/.local/state]",
)
@click.option("--no-history", is_flag=True, help="Do not save the history of your input.")
@click.option(
    "--time-limit",
    metavar="SECONDS",
    default="600",
    show_default=True,
    help="Stop a question after this many seconds; a charge that was already made is not refunded.",
)
def shell_command(
    policy: Path,
    epsilon: str | None,
    delta: str,
    yes: bool,
    analyst: str | None,
    ledger: Path | str | None,
    history: Path | None,
    no_history: bool,
    time_limit: str,
) -> None:
    """Ask POLICY's tables questions in SQL, each ended by a semicolon, at a prompt that shows the remaining budget.

    The price and the expected error of a question are shown first; it is charged after you confirm. Questions from a
    pipe are charged only with --yes, and the first refusal ends the session.

    \b
    Examples:
      sfumato shell clinic.toml
      sfumato shell clinic.toml --epsilon 0.5 --analyst ana
      echo "SELECT COUNT(*) FROM visits;" | sfumato shell clinic.toml --epsilon 0.5 --yes
    """
    if history is not None and no_history:
        raise click.UsageError("give --history or --no-history, not both")
    settings = ShellSettings().with_delta(delta)
    settings = settings if epsilon is None else settings.with_epsilon(epsilon)
    from sfumato.curator import Curator

    with Curator(policy, ledger, seconds=time_limit) as curator:
        asker = curator if analyst is None else curator.as_analyst(analyst)
        interactive = sys.stdin.isatty()
        typed_history = InputHistory(history or default_history_path()) if interactive and not no_history else None
        lines = _open_lines(
            asker, typed_history, lambda: f" {session.settings}   Tab completes, ; ends, \\help, \\q quits "
        )
        session = ShellSession(asker, lines, ledger, yes, interactive, settings)
        if interactive:
            click.echo(_WELCOME)
        _run_session(session)


def _open_lines(curator: Curator, typed_history: InputHistory | None, toolbar: Callable[[], str]) -> LineInput:
    """Return the editor on a terminal, or plain lines; say how to install the editor if it is missing."""
    if not sys.stdin.isatty():
        return PlainLineInput(prompts=False)
    if not has_editor():
        click.echo(f"Completion and history need a line editor: {install_command('shell')}", err=True)
        return PlainLineInput(prompts=True)
    columns = {name: tuple(table.columns) for name, table in curator.tables.items()}
    return EditorInput(Completion(columns, tuple(COMMANDS)), typed_history, toolbar)


def _run_session(session: ShellSession) -> None:
    """Read and run lines until the input ends; a Ctrl-C cancels the line or the running question."""
    unfinished = ""
    while True:
        try:
            text = session.lines.read(session.prompt, unfinished)
        except KeyboardInterrupt:
            unfinished = ""
            click.echo("Line cancelled; Ctrl-D quits.")
            continue
        except EOFError:
            return
        pieces, unfinished = split_input(text)
        if unfinished and not is_complete(text):  # the input ended without a semicolon
            pieces, unfinished = [*pieces, unfinished], ""
        try:
            _run_pieces(session, pieces)
        except QuitSession:
            return
        except StatementAbandoned:
            unfinished = ""
        except KeyboardInterrupt:
            click.echo()


def _run_pieces(session: ShellSession, pieces: Sequence[str]) -> None:
    for piece in pieces:
        try:
            session.run(piece)
        except (SfumatoError, click.UsageError) as refusal:
            if not session.interactive:
                raise
            print_error(_refusal_text(refusal))
            return  # the rest of the line may depend on the refused question


def _refusal_text(refusal: SfumatoError | click.UsageError) -> str:
    if isinstance(refusal, click.UsageError):
        return refusal.message
    return calls_to_shell_commands(format_refusal(refusal, COMMANDS, "\\"))
