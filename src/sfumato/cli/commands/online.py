"""The command ``sfumato online`` opens a session, and then answers questions from a prompt or from the input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES, INTERRUPTED, warn
from sfumato.cli.common.output import ProgressLines, show as show_table
from sfumato.errors import SfumatoError
from sfumato.plan.sql.question_files import questions
from sfumato.plan.words import many

if TYPE_CHECKING:
    from sfumato.curator import OnlineSession

_PROMPT, _MORE = "sfumato> ", "     ... "
_LONGEST = 1 << 20
_HELP = r"""Write a question in SQL, over several lines if you like, and end it with ";". It costs nothing more.

  measured     all its columns are together in what was measured when the session opened
  hypothesis   a guess of the whole table, which a gate compared with the rows and found close
  bought now   the gate found the guess far off, and this number was bought: one round less
  unverified   all rounds are spent: a guess, between bounds from what was measured
  bounded      between bounds from what was measured

  \left        rounds that are left, and what was promised
  \?           this help
  \q           the end (or Ctrl-D); what was charged stays charged"""


@click.command(short_help="Ask many questions in SQL, for one price.", epilog=EXIT_CODES)
@options.policy
@click.argument("table")
@click.option("--columns", metavar="A,B", required=True, help="The columns that questions may name.")
@click.option("--ways", type=int, default=3, show_default=True, metavar="K", help="Measure all sets of K columns.")
@click.option("--rounds", type=int, default=20, show_default=True, help="Buy at most so many answers later.")
@click.option("--where", metavar="SQL", help="Only rows that meet this condition.")
@click.option(
    "--rows", type=int, metavar="N", help="At most so many rows of one unit count: fewer than the policy says."
)
@click.option("--epsilon", metavar="NUMBER", help="The price of the whole session, charged when it opens.")
@click.option("--delta", metavar="NUMBER", default="0", help="With --epsilon or --within: such as 1e-9.")
@click.option("--rho", metavar="NUMBER", help="The price in zero-concentrated terms, instead of --epsilon.")
@click.option("--within", metavar="NUMBER", help="Find the least ε at which a guess found close is within this.")
@click.option("--confidence", metavar="NUMBER", default="0.95", show_default=True, help="Of every range.")
@click.option("--strict", is_flag=True, help="Refuse what would be unverified.")
@options.analyst
@options.ledger
@options.session_id
@click.option("--explain", is_flag=True, help="Only say what would happen, step by step. Spends nothing.")
@click.option(
    "--textbook", is_flag=True, help="For study: measure the number of rows alone, and start from a flat guess."
)
@options.as_json
def command(
    policy: Path,
    table: str,
    columns: str,
    analyst: str | None,
    ledger: Path | str | None,
    request_id: str | None,
    explain: bool,
    as_json: bool,
    epsilon: str | None,
    delta: str,
    rho: str | None,
    within: str | None,
    confidence: str,
    strict: bool,
    **asked: Any,
) -> None:
    """Open a session on one TABLE of POLICY and answer questions about its COLUMNS, as many as you like, for one price.

    Questions end with ";" and are read from the terminal, or from the standard input. Every number says what it rests
    on; type \\? for what that means.

    \b
    Examples:
      sfumato online clinic.toml people --columns sex,age,ward --epsilon 1 --delta 1e-9
      sfumato online clinic.toml people --columns sex,age,ward --epsilon 1 --delta 1e-9 --json < questions.sql
    """
    if sum(each is not None for each in (epsilon, rho, within)) != 1:
        raise click.UsageError("name one price: --epsilon 1, --rho 0.01 or --within 50; there is no default")
    from sfumato.curator import Curator

    with ExitStack() as opened:
        with ProgressLines() as progress:
            curator = opened.enter_context(Curator(policy, ledger, progress=progress))
            asking = curator if analyst is None else curator.as_analyst(analyst)
            proposal = asking.online(table, [each.strip() for each in columns.split(",")], **asked)
            if within is not None:
                epsilon = str(proposal.price(within, delta=delta, confidence=confidence))
            price: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho}
            if explain:
                said = proposal.explain(**price, confidence=confidence)
                click.echo(said.to_json() if as_json else str(said))
                return
            session = opened.enter_context(proposal.release(**price, request_id=request_id))
        _Shell(session, as_json=as_json, confidence=confidence, strict=strict).run()


class _Shell:
    """This reads questions until the input ends, and answers each."""

    def __init__(self, session: OnlineSession, *, as_json: bool, confidence: str, strict: bool) -> None:
        self.session, self.as_json = session, as_json
        self.asked: dict[str, Any] = {"confidence": confidence, "strict": strict}
        self.typed = sys.stdin.isatty()
        self.begun = ""
        """The lines of a question that has not ended."""

    def run(self) -> None:
        """Answer until the end. Ctrl-C ends it too: the session is closed, and what was answered stands above."""
        if self.typed and not self.as_json:
            click.echo(f'{self.session!r}. Questions end with ";"; \\? for help, \\q to end.')
        try:
            for question in self._questions():
                self._do(question)
        except KeyboardInterrupt:
            _say("\nthe session was interrupted and is closed; what was charged stays charged")
            sys.exit(INTERRUPTED)
        finally:
            self.session.close()
            if not self.as_json:
                click.secho(f"\n{self.session.receipt.short()}", dim=True)

    def _do(self, question: str) -> None:
        if question == r"\?":
            click.echo(_HELP)
        elif question == r"\left":
            click.echo(f"{self.session!r}\n{self.session.receipt.short()}")
        elif question.startswith("\\"):
            _say(f"there is no command {question[:40]}; \\? lists them")
        else:
            self._answer(question)

    def _answer(self, question: str) -> None:
        """Answer a question; one that cannot be asked is refused by itself, and the session goes on."""
        try:
            found = self.session.sql(question, **self.asked)
        except SfumatoError as refused:
            _say(str(refused))
            return
        for each in found.warnings:
            warn(each)
        if self.as_json:
            click.echo(found.to_json())
            return
        show_table(found.columns, found.cells(), found.intervals)
        rests = (f"{name}: {' and '.join(dict.fromkeys(words))}" for name, words in (found.basis or {}).items())
        click.secho(f"{'; '.join(rests)} ({many(self.session.left, 'round')} left)\n", dim=True)

    def _questions(self) -> Iterator[str]:
        """Read commands, each a line, and questions up to their semicolons; the last may have none."""
        for line in self._lines():
            word = line.strip()
            if not self.begun and word.startswith("\\"):
                if word == r"\q":
                    return
                yield word
                continue
            self.begun = f"{self.begun}{line}\n" if word or self.begun else ""
            if word.endswith(";") or len(self.begun) > _LONGEST:
                yield from self._ended()
        yield from self._ended()

    def _ended(self) -> tuple[str, ...]:
        text, self.begun = self.begun, ""
        return _split(text)

    def _lines(self) -> Iterator[str]:
        if not self.typed:
            yield from sys.stdin
            return
        with suppress(ImportError):
            import readline  # noqa: F401 - lines can then be edited and found again
        with suppress(EOFError):
            while True:
                yield input("" if self.as_json else _MORE if self.begun else _PROMPT)


def _split(text: str) -> tuple[str, ...]:
    """Split what was typed into its questions; what is no SQL at all is refused."""
    if not text.strip().strip(";").strip():
        return ()
    try:
        return tuple(each.text for each in questions(text))
    except SfumatoError as refused:
        _say(str(refused))
        return ()


def _say(words: str) -> None:
    click.secho(words, fg="red", err=True)
