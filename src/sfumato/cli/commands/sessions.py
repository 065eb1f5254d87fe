"""``sfumato online`` and ``above``: many questions for one price."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP, INTERRUPTED, print_warning
from sfumato.cli.common.output import ProgressPrinter, print_table as show_table
from sfumato.errors import SfumatoError
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE

if TYPE_CHECKING:
    from sfumato.curator import OnlineSession, ThresholdSession

_PROMPT, _CONTINUATION = "sfumato> ", "     ... "
_MAX_LETTERS = 1 << 20
_HELP = r"""Write a question in SQL, on one or several lines, and end it with ";". It costs nothing more.

  measured     computed from a marginal that was measured when the session opened
  hypothesis   estimated by the model, and found close to the data by a private test
  bought now   the private test found the model too far off, so this number was measured: one round less
  unverified   all rounds are spent: the model's estimate, within bounds from the measured marginals
  bounded      within bounds from the measured marginals

  \left        show the remaining rounds and the guarantee
  \?           show this help
  \q           quit (or Ctrl-D); the charge stands"""


@click.command(short_help="Ask many SQL questions for one price.", epilog=EXIT_CODES_HELP)
@options.policy
@click.argument("table")
@click.option("--columns", metavar="A,B", required=True, help="The columns that questions may use.")
@click.option(
    "--ways",
    type=int,
    default=3,
    show_default=True,
    metavar="K",
    help="Measure the marginals of all sets of K columns.",
)
@click.option(
    "--rounds",
    type=int,
    default=20,
    show_default=True,
    help="The maximum number of answers that may be measured later, where the marginals are not accurate enough.",
)
@click.option("--where", metavar="SQL", help="Count only rows that meet this SQL condition.")
@click.option("--rows", type=int, metavar="N", help="Count at most N rows per unit, fewer than the policy allows.")
@click.option(
    "--epsilon", metavar="NUMBER", help="The price of the whole session: its privacy loss ε, charged when it opens."
)
@click.option(
    "--delta", metavar="NUMBER", default="0", help="With --epsilon or --within: the δ of the price, such as 1e-9."
)
@click.option(
    "--rho",
    metavar="NUMBER",
    help="The price in ρ, the loss of zero-concentrated differential privacy (zCDP), instead of --epsilon.",
)
@click.option(
    "--within",
    metavar="NUMBER",
    help="Instead of a price: pay the smallest ε at which every estimate that is accepted as close to the data is "
    "within ± NUMBER of the exact answer.",
)
@click.option(
    "--confidence",
    metavar="NUMBER",
    default=DEFAULT_CONFIDENCE,
    show_default=True,
    help="The confidence level of the range given for each number, such as 0.95.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Once all rounds are spent, refuse questions whose answer would be an unverified estimate of the model.",
)
@options.analyst
@options.ledger
@options.session_id
@options.explain
@click.option(
    "--textbook",
    is_flag=True,
    help="For teaching: measure only the number of rows, and start from a uniform model.",
)
@options.as_json
def online_command(
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
    **session_options: Any,
) -> None:
    """Open a session that answers any number of questions about the --columns of one TABLE of POLICY, for one price.

    Questions end with ";" and are read from the terminal or from standard input. Every number shows what it is based
    on; type \\? for the meaning.

    \b
    Examples:
      sfumato online clinic.toml people --columns sex,age,ward --epsilon 1 --delta 1e-9
      sfumato online clinic.toml people --columns sex,age,ward --epsilon 1 --delta 1e-9 --json < questions.sql
    """
    if sum(price is not None for price in (epsilon, rho, within)) != 1:
        raise click.UsageError("name one price: --epsilon 1, --rho 0.01 or --within 50; there is no default")
    from sfumato.curator import Curator

    with ExitStack() as opened:
        with ProgressPrinter() as progress:
            curator = opened.enter_context(Curator(policy, ledger, progress=progress))
            asker = curator if analyst is None else curator.as_analyst(analyst)
            proposal = asker.online(table, [name.strip() for name in columns.split(",")], **session_options)
            if within is not None:
                epsilon = str(proposal.price(within, delta=delta, confidence=confidence))
            price: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho}
            if explain:
                explanation = proposal.explain(**price, confidence=confidence)
                click.echo(explanation.to_json() if as_json else str(explanation))
                return
            session = opened.enter_context(proposal.release(**price, request_id=request_id))
        _OnlineShell(session, as_json=as_json, confidence=confidence, strict=strict).run()


class _OnlineShell:
    """The prompt of a session: reads questions until the input ends and answers each."""

    def __init__(self, session: OnlineSession, *, as_json: bool, confidence: str, strict: bool) -> None:
        self.session, self.as_json = session, as_json
        self.answer_options: dict[str, Any] = {"confidence": confidence, "strict": strict}
        self.is_terminal = sys.stdin.isatty()
        self.unfinished = ""
        """The lines of a question that has no semicolon yet."""

    def run(self) -> None:
        """Answer until the input ends. A Ctrl-C closes the session too."""
        if self.is_terminal and not self.as_json:
            click.echo(f'{self.session!r}. Questions end with ";"; \\? for help, \\q to end.')
        try:
            for question in self._questions():
                self._run_command_or_answer(question)
        except KeyboardInterrupt:
            _print_error("\nthe session was interrupted and is closed; its charge stands")
            sys.exit(INTERRUPTED)
        finally:
            self.session.close()
            if not self.as_json:
                click.secho(f"\n{self.session.receipt.short()}", dim=True)

    def _run_command_or_answer(self, question: str) -> None:
        if question == r"\?":
            click.echo(_HELP)
        elif question == r"\left":
            click.echo(f"{self.session!r}\n{self.session.receipt.short()}")
        elif question.startswith("\\"):
            _print_error(f"there is no command {question[:40]}; \\? lists them")
        else:
            self._answer(question)

    def _answer(self, question: str) -> None:
        """Answer a question; if it is refused, print why, and the session continues."""
        from sfumato.plan.descriptions import count_with_noun

        try:
            answer = self.session.sql(question, **self.answer_options)
        except SfumatoError as refusal:
            _print_error(str(refusal))
            return
        for warning in answer.warnings:
            print_warning(warning)
        if self.as_json:
            click.echo(answer.to_json())
            return
        show_table(answer.columns, answer.cells(), answer.intervals)
        bases = (f"{name}: {' and '.join(dict.fromkeys(basis))}" for name, basis in (answer.basis or {}).items())
        click.secho(f"{'; '.join(bases)} ({count_with_noun(self.session.remaining, 'round')} left)\n", dim=True)

    def _questions(self) -> Iterator[str]:
        """Yield commands of one line, and questions up to their semicolon; the last question may lack it."""
        for line in self._lines():
            word = line.strip()
            if not self.unfinished and word.startswith("\\"):
                if word == r"\q":
                    return
                yield word
                continue
            self.unfinished = f"{self.unfinished}{line}\n" if word or self.unfinished else ""
            if word.endswith(";") or len(self.unfinished) > _MAX_LETTERS:
                yield from self._take_unfinished()
        yield from self._take_unfinished()

    def _take_unfinished(self) -> tuple[str, ...]:
        text, self.unfinished = self.unfinished, ""
        return _split_questions(text)

    def _lines(self) -> Iterator[str]:
        if not self.is_terminal:
            yield from sys.stdin
            return
        with suppress(ImportError):
            import readline  # noqa: F401 - gives input() line editing and history
        with suppress(EOFError):
            while True:
                yield input("" if self.as_json else _CONTINUATION if self.unfinished else _PROMPT)


def _split_questions(text: str) -> tuple[str, ...]:
    """Split the text into questions; print an error and return none if it is not SQL."""
    from sfumato.plan.sql.text import split_questions

    if not text.strip().strip(";").strip():
        return ()
    try:
        return tuple(question.text for question in split_questions(text))
    except SfumatoError as refusal:
        _print_error(str(refusal))
        return ()


def _print_error(message: str) -> None:
    click.secho(message, fg="red", err=True)


@click.command(short_help="Find which of many counts exceed a threshold.", epilog=EXIT_CODES_HELP)
@options.policy
@click.option("--threshold", metavar="NUMBER", required=True, help="The threshold that every count is compared with.")
@click.option(
    "--positives", type=int, default=1, show_default=True, help="Stop after this many counts above the threshold."
)
@click.option(
    "--epsilon",
    metavar="NUMBER",
    required=True,
    help="The price of the whole session: its privacy loss ε, charged at once.",
)
@click.option(
    "--values-epsilon",
    metavar="NUMBER",
    help="The part of --epsilon that pays for noisy values of the counts above the threshold.",
)
@click.option(
    "--sensitivity",
    metavar="NUMBER",
    help="The largest change that one unit can cause in a count.  [default: from the policy]",
)
@click.option(
    "--table", "tables", multiple=True, metavar="NAME", help="Let the questions count rows of this table. Repeatable."
)
@click.option(
    "--file",
    "source",
    type=click.File(encoding="utf-8"),
    help="Read the questions from this file, separated by semicolons.",
)
@options.analyst
@options.ledger
@options.session_id
@options.explain
@options.as_json
def above_command(
    policy: Path,
    threshold: str,
    positives: int,
    epsilon: str,
    values_epsilon: str | None,
    sensitivity: str | None,
    tables: tuple[str, ...],
    source: TextIO | None,
    analyst: str | None,
    ledger: Path | str | None,
    request_id: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Open a session on POLICY that answers "above" or "below" for each question, until --positives of them were above.

    The questions come from --file, or one per line from standard input.

    \b
    Example:
      sfumato above clinic.toml --threshold 100 --positives 3 --epsilon 1 --file questions.sql
    """
    from sfumato.curator import Curator

    with ProgressPrinter() as progress, Curator(policy, ledger, progress=progress) as curator:
        asker = curator if analyst is None else curator.as_analyst(analyst)
        proposal = asker.above(threshold, positives, sensitivity=sensitivity, tables=tables or None)
        if explain:
            explanation = proposal.explain(epsilon, values_epsilon=values_epsilon)
            click.echo(explanation.to_json() if as_json else str(explanation))
            return
        questions = _read_questions() if source is None else iter(proposal.parse_file(source.read()))
        release_options: dict[str, Any] = {"values_epsilon": values_epsilon, "request_id": request_id}
        with progress.exit_on_interrupt(), proposal.release(epsilon, **release_options) as session:
            progress("showing")
            _answer_questions(session, questions, strict=source is not None, as_json=as_json)


def _read_questions() -> Iterator[str]:
    """Yield one question per non-empty line of stdin."""
    for line in sys.stdin:
        question = line.strip().rstrip(";")
        if question:
            yield question


def _answer_questions(session: ThresholdSession, questions: Iterator[str], *, strict: bool, as_json: bool) -> None:
    """Answer until the session ends. A question that is refused costs nothing; it ends a ``strict`` session."""
    for question in questions:
        try:
            answer = session.ask(question)
        except SfumatoError as refusal:
            if strict or not session.remaining:
                raise
            click.echo(str(refusal), err=True)
            continue
        click.echo(answer.to_json() if as_json else f"{answer}  {' '.join(question.split())}")
        if not session.remaining:
            break
    if not as_json:
        click.secho(f"\n{session.receipt.short()}", dim=True)
