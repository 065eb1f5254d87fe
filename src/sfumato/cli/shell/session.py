"""A session of the shell asks questions, each after its price and its error were shown, and obeys commands."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common.exit_codes import interrupted_words, say, warn
from sfumato.cli.common.progress import ProgressLines
from sfumato.cli.common.spoken import in_shell
from sfumato.cli.common.text_tables import show
from sfumato.cli.common.written_files import check_written
from sfumato.cli.shell.lines import Lines
from sfumato.cli.shell.settings import Settings
from sfumato.cli.shell.statements import COMMAND
from sfumato.errors import InvalidParameter, SfumatoError, at_most
from sfumato.privacy.numbers import exact

if TYPE_CHECKING:
    from sfumato.curator import Curator, Listing, Question
    from sfumato.curator.accounts.standings import Standing
    from sfumato.curator.previews.forecasts import Forecast
    from sfumato.release.answers.answer import Answer

_RECENT = 20
"""Lines of the account that are shown unless more are asked for."""


class Leave(Exception):
    """The session is over."""


@dataclass
class Session:
    """A session knows its settings, the last question and the last answer."""

    curator: Curator
    lines: Lines
    ledger: Path | str | None
    spends: bool
    """Whether questions are asked without a yes to each: what ``--yes`` says."""
    interactive: bool
    settings: Settings = field(default_factory=Settings)
    question: Question | Listing | None = None
    answer: Answer | None = None

    @property
    def prompt(self) -> str:
        """Write the account's name and what is left of its budget for ordinary answers."""
        standing: Any = self.curator.standing()
        of: Standing = getattr(standing, "fresh", standing)
        each = f" each {standing.per}" if standing is not of else ""
        whole = of.allowed.get("pure") or of.epsilon  # an analyst has a share of it
        return f"{self.curator.name} ε {_left(of)} of {at_most(whole)}{each}> "

    def obey(self, piece: str) -> None:
        """Run a command, or ask a question in SQL."""
        if not piece.startswith(COMMAND):
            self._understand(piece)
            self.ask()
            return
        name, _, given = piece[len(COMMAND) :].partition(" ")
        command = COMMANDS.get(SHORT.get(name.lower(), name.lower()))
        if command is None:
            close = difflib.get_close_matches(name.lower(), COMMANDS, n=1)
            fix = f"did you mean \\{close[0]}?" if close else "\\help lists them"
            rule = "this is not among the commands of the shell"
            raise SfumatoError(rule, place=f"\\{name[:40]}", fix=fix)
        command.act(self, given.strip())

    def ask(self) -> None:
        """Show the price and the error of the last question, and ask it when that is agreed to."""
        question = self._last()
        if question.free:
            self._show(question.release())
            return
        if not self.settings.priced:
            compared = question.error(epsilon=1, delta=self.settings.delta)
            click.echo(f"at {compared.price} the error would be {'; '.join(compared.parts())}")
        self.settings.require_price()
        forecast = question.error(**self.settings.price)
        self._tell(forecast)
        if forecast.stored or self._agreed(forecast):
            self._release(question)

    def _understand(self, sql: str) -> None:
        question: Any = self.curator.sql(sql)
        if self.settings.limits and not question.free:
            question = question.limit(**self.settings.limits)
        self.question = question

    def _last(self) -> Question | Listing:
        if self.question is None:
            raise SfumatoError(
                "there is no question yet", place="the shell", fix="write one, such as SELECT COUNT(*) FROM …;"
            )
        return self.question

    def _tell(self, forecast: Forecast) -> None:
        stored = "an answer as good was bought before: it is free"
        accepted = "the account would accept it now" if forecast.accepted else "the account would REFUSE it now"
        click.echo(f"price   {forecast.price}; {stored if forecast.stored else accepted}")
        for index, part in enumerate(forecast.parts()):
            click.echo(f"{'' if index else 'error':<6}  {part}")
        if forecast.free:
            click.echo(f"free    {in_shell(forecast.free)}")
        for each in forecast.warnings:
            warn(in_shell(each))

    def _agreed(self, forecast: Forecast) -> bool:
        """Ask whether to spend. What the account refuses is asked for only where nobody is there to see that."""
        if self.spends:
            return True
        if not self.interactive:
            click.echo("Nothing was spent: --yes asks for the answer.")
            return False
        if not forecast.accepted:
            click.echo("Nothing was spent: set a lower price with \\epsilon, then \\ask.")
            return False
        try:
            agreed = self.lines.confirm(f"Spend {forecast.price}? [y/N] ")
        except (EOFError, KeyboardInterrupt):
            agreed = False
        if not agreed:
            click.echo("Nothing was spent.")
        return agreed

    def _release(self, question: Question | Listing) -> None:
        with ProgressLines() as progress:
            try:
                answer = question.release(**self.settings.price, progress=progress)
                progress("showing")
                self._show(answer)
            except KeyboardInterrupt:
                say(interrupted_words(stored=progress.stored))

    def _show(self, answer: Any) -> None:
        from sfumato.curator import Listing

        if isinstance(answer, Listing):
            show(answer.columns, answer.cells())
            return
        self.answer = answer
        show(answer.columns, answer.cells(), answer.intervals)
        for each in answer.ranked():
            click.echo(each)
        click.secho(f"\n{answer.receipt.short()}", dim=True)

    def explain(self, sql: str) -> None:
        """Say operator by operator what the last question, or this one, would do."""
        if sql:
            self._understand(sql)
        click.echo(in_shell(str(self._last().explain(**self.settings.price))))

    def set(self, settings: Settings) -> None:
        """Take new settings, and put the last question anew where its limits changed."""
        changed, self.settings = settings.limits != self.settings.limits, settings
        if changed and self.question is not None and not self.question.free:
            self._understand(self.question.text)  # type: ignore[union-attr]
        click.echo(str(settings))

    def plot(self, file: str) -> None:
        """Draw the last answer: as bars of text, or into a file."""
        if self.answer is None:
            raise SfumatoError("there is no answer to draw yet", place="\\plot", fix="ask a question first")
        if not file:
            for name in self.answer.intervals:
                click.echo(f"{name}\n{self.answer.bars(name)}")
            return
        from sfumato.plots import check_picture

        check_written(self.curator.policy, self.ledger, Path(file))
        check_picture(file)
        self.answer.plot(file)
        click.echo(f"written: {file}")

    def describe(self, table: str) -> None:
        """Say what there is to ask, in words, from the policy alone."""
        tables = self.curator.tables
        click.echo(str(tables.named(table.strip('"')) if table else tables))

    def history(self, most: str) -> None:
        """List what was asked of the account and at what cost, the last lines or so many."""
        if most and not most.isdecimal():
            raise InvalidParameter("history", most, "left out, or how many lines", fix="write \\history 50")
        rows = [line.words() for line in self.curator.history()][-int(most or _RECENT) :]
        if not rows:
            click.echo("Nothing has been asked yet.")
            return
        from sfumato.ledger.account_lines import LINE_COLUMNS

        show(LINE_COLUMNS, rows, LINE_COLUMNS[:1])

    def budget(self) -> None:
        """Say in words what is left of the budget."""
        click.echo(str(self.curator.standing()))

    def leave(self) -> None:
        """End the session."""
        raise Leave


def _left(standing: Standing) -> str:
    return at_most(exact(standing.largest.get("Laplace", 0), "largest"))


@dataclass(frozen=True)
class Command:
    """A command of the shell has words for what follows it, and says what it does."""

    given: str
    does: str
    act: Callable[[Session, str], None]


def _help(_: Session, __: str) -> None:
    width = max(len(f"{name} {each.given}") for name, each in COMMANDS.items())
    click.echo("A question in SQL ends with ; and shows its price and its error before it spends.")
    for name, each in COMMANDS.items():
        click.echo(f"  \\{f'{name} {each.given}':<{width}}  {each.does}")
    click.echo("Tab completes, the arrow up brings back, Ctrl-C cancels the line, Ctrl-D leaves.")


COMMANDS = {
    "epsilon": Command(
        "NUMBER [DELTA]",
        "the price of each question from here on",
        lambda session, given: session.set(session.settings.with_epsilon(given)),
    ),
    "delta": Command(
        "NUMBER",
        "the δ of each question, for Gaussian noise and groups that nobody declared",
        lambda session, given: session.set(session.settings.with_delta(given)),
    ),
    "within": Command(
        "[COLUMN=]NUMBER",
        "accuracy first: the least ε that keeps every number, or this column, within ± NUMBER",
        lambda session, given: session.set(session.settings.with_within(given)),
    ),
    "limit": Command(
        "rows=NUMBER | off",
        "count less of one unit, for less noise; also groups= and rows_per_group=",
        lambda session, given: session.set(session.settings.with_limit(given)),
    ),
    "explain": Command(
        "[SQL]", "what the last question, or this one, would do, step by step; free", lambda s, sql: s.explain(sql)
    ),
    "ask": Command("", "ask the last question again, at the price that is set now", lambda s, _: s.ask()),
    "plot": Command("[FILE]", "draw the last answer, here or into a .svg, .png or .html file", lambda s, f: s.plot(f)),
    "describe": Command("[TABLE]", "what there is to ask, with questions to copy; free", lambda s, t: s.describe(t)),
    "history": Command("[NUMBER]", "what was asked of the account, and at what cost", lambda s, n: s.history(n)),
    "budget": Command("", "what is left of the budget, in words", lambda session, _: session.budget()),
    "help": Command("", "this list", _help),
    "quit": Command("", "leave", lambda session, _: session.leave()),
}
SHORT = {"?": "help", "h": "help", "q": "quit", "exit": "quit", "d": "describe"}
"""What whoever knows the shells of other databases types."""
