"""The command ``sfumato shell`` asks question after question: price and error are shown before anything is spent."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES, in_shell, refusal_words, say
from sfumato.cli.shell.completion import Completion, pieces
from sfumato.cli.shell.lines import EditedLines, Lines, PlainLines, TypedHistory, can_edit, usual_path
from sfumato.cli.shell.session import COMMANDS, Leave, ShellSession, ShellSettings
from sfumato.errors import SfumatoError, installing

if TYPE_CHECKING:
    from sfumato.curator import Curator

_WELCOME = "A question ends with ; and shows its price and its error before it spends. \\help lists the commands."


@click.command(short_help="Ask question after question, at a prompt.", epilog=EXIT_CODES)
@options.policy
@click.option("--epsilon", metavar="NUMBER", help="The price of each question, until \\epsilon sets another.")
@click.option("--delta", metavar="NUMBER", default="0", help="With --epsilon: (ε, δ)-private, Gaussian noise allowed.")
@click.option("--yes", is_flag=True, help="Ask without a yes to each price: what a script needs to spend at all.")
@options.analyst
@options.ledger
@click.option(
    "--history",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where typed lines are kept, for you alone.  [default: sfumato/shell-history in ~/.local/state]",
)
@click.option("--no-history", is_flag=True, help="Keep no typed lines.")
@click.option("--time-limit", metavar="SECONDS", default="600", show_default=True, help="What one question may take.")
def command(
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
    """Ask POLICY's tables questions in SQL, each ended by a semicolon, with the budget in the prompt.

    The price and the error of a question are shown first; it is charged after a yes. Lines that come from a pipe are
    asked only with --yes, and the first refusal ends them.

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
        asking = curator if analyst is None else curator.as_analyst(analyst)
        interactive = sys.stdin.isatty()
        typed = TypedHistory(history or usual_path()) if interactive and not no_history else None
        lines = _lines(asking, typed, lambda: f" {session.settings}   Tab completes, ; ends, \\help ")
        session = ShellSession(asking, lines, ledger, yes, interactive, settings)
        if interactive:
            click.echo(_WELCOME)
        _converse(session)


def _lines(curator: Curator, typed: TypedHistory | None, below: Callable[[], str]) -> Lines:
    """Read from the editor where that can be, and say how to get it where it is missing."""
    if not sys.stdin.isatty():
        return PlainLines(prompts=False)
    if not can_edit():
        click.echo(f"Completion and history need an editor: {installing('shell')}", err=True)
        return PlainLines(prompts=True)
    columns = {name: tuple(each.columns) for name, each in curator.tables.items()}
    return EditedLines(Completion(columns, tuple(COMMANDS)), typed, below)


def _converse(session: ShellSession) -> None:
    """Read and obey until there are no more lines; a Ctrl-C ends a line, or what is being done."""
    while True:
        try:
            text = session.lines.read(session.prompt)
        except KeyboardInterrupt:
            click.echo("The line is cancelled; Ctrl-D leaves.")
            continue
        except EOFError:
            return
        try:
            _obey(session, text)
        except Leave:
            return
        except KeyboardInterrupt:
            click.echo()


def _obey(session: ShellSession, text: str) -> None:
    found, rest = pieces(text)
    for piece in [*found, *([rest] if rest else [])]:
        try:
            session.obey(piece)
        except (SfumatoError, click.UsageError) as refused:
            if not session.interactive:
                raise
            say(_words(refused))
            return  # what follows on the line may have meant its answer


def _words(refused: SfumatoError | click.UsageError) -> str:
    if isinstance(refused, click.UsageError):
        return refused.message
    return in_shell(refusal_words(refused, COMMANDS, "\\"))
