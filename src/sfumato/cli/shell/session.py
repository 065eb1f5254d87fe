"""The session of the shell: its settings, its commands, and questions that show price and error before they spend."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common.exit_codes import calls_to_shell_commands, interrupted_message, print_error, print_warning
from sfumato.cli.common.output import ProgressPrinter, check_output_files, print_table
from sfumato.cli.shell.completion import COMMAND_PREFIX
from sfumato.cli.shell.line_input import LineInput
from sfumato.errors import InvalidParameter, SfumatoError
from sfumato.number_formats import format_rounded_down
from sfumato.privacy.numbers import ACCEPT_DEFAULT, NONNEGATIVE, POSITIVE, exact
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator import Curator, Listing, Question
    from sfumato.curator.previews.error_forecasts import Forecast
    from sfumato.curator.standings import Standing
    from sfumato.release.answers.answer import Answer


LIMITS_OFF = "off"
_LIMIT_NAMES = ("rows", "groups", "rows_per_group")


@dataclass(frozen=True)
class ShellSettings:
    """The price or accuracy and the limits of the next questions. There is no default price."""

    epsilon: str | None = None
    delta: str = "0"
    within: str | dict[str, str] | None = None
    limits: dict[str, int] = field(default_factory=dict)

    @property
    def price(self) -> dict[str, Any]:
        """The price as keyword arguments of a question."""
        return {"epsilon": self.epsilon, "delta": self.delta, "within": self.within}

    @property
    def has_price(self) -> bool:
        return self.epsilon is not None or self.within is not None

    def __str__(self) -> str:
        return "; ".join([self._price_text(), *([f"limit {_format_pairs(self.limits)}"] if self.limits else [])])

    def _price_text(self) -> str:
        if not self.has_price:
            return "no price yet"
        if self.within is None:
            price = f"ε = {self.epsilon}"
        else:
            price = f"within ±{self.within}" if isinstance(self.within, str) else f"within {_format_pairs(self.within)}"
        return price + (f", δ = {self.delta}" if self.delta == ACCEPT_DEFAULT or exact(self.delta, "delta") else "")

    def with_epsilon(self, text: str) -> ShellSettings:
        """Set the price of each question, with an optional δ: ``0.5`` or ``0.5 1e-6``."""
        epsilon, *rest = text.split() or [""]
        exact(epsilon, "epsilon", POSITIVE)
        if len(rest) > 1:
            raise InvalidParameter("epsilon", text, "a price, or a price and a δ", fix="write \\epsilon 0.5 1e-6")
        return replace(self.with_delta(rest[0]) if rest else self, epsilon=epsilon, within=None)

    def with_delta(self, text: str) -> ShellSettings:
        """Set the δ of each question; 0 for none, ``default`` for the one that it offers to find groups."""
        if text.strip() == ACCEPT_DEFAULT:
            return replace(self, delta=ACCEPT_DEFAULT)
        return replace(self, delta=_check_number(text, "delta", NONNEGATIVE))

    def with_within(self, text: str) -> ShellSettings:
        """Set the accuracy of answers: one number for every column, or ``COLUMN=NUMBER`` for each."""
        words = text.split()
        if len(words) == 1 and "=" not in words[0]:
            return replace(self, within=_check_number(words[0], "within", POSITIVE), epsilon=None)
        pairs = [word.rpartition("=") for word in words]
        if not pairs or not all(name for name, _, _ in pairs):
            fix = "write \\within 50, or \\within visits=50 cost=1000"
            raise InvalidParameter("within", text, "one number for all columns, or COLUMN=NUMBER for each", fix=fix)
        widths = {name: _check_number(width, f"within {name}", POSITIVE) for name, _, width in pairs}
        return replace(self, within=widths, epsilon=None)

    def with_limit(self, text: str) -> ShellSettings:
        """Set limits per unit: ``rows=5 groups=2``, or ``off`` for those of the policy."""
        if text.strip() == LIMITS_OFF:
            return replace(self, limits={})
        pairs = [word.partition("=") for word in text.split()]
        if not pairs or not all(name in _LIMIT_NAMES and number.isdecimal() for name, _, number in pairs):
            fix = "write \\limit rows=5, or \\limit off"
            raise InvalidParameter("limit", text, "rows=NUMBER, groups=NUMBER, rows_per_group=NUMBER or off", fix=fix)
        return replace(self, limits=self.limits | {name: int(number) for name, _, number in pairs})

    def require_price(self) -> None:
        """Refuse to ask without a price."""
        if not self.has_price:
            raise SfumatoError(
                "every question needs a price, and none is set: there is no default",
                place="the shell",
                fix="set one with \\epsilon 0.5, or an accuracy with \\within 50, then \\ask",
            )


def _check_number(text: str, name: str, rule: Any) -> str:
    exact(text, name, rule)
    return text


def _format_pairs(values: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


_DEFAULT_HISTORY = 20
"""Lines of the account that \\history prints by default."""


class QuitSession(Exception):
    """Raised to end the session."""


class StatementAbandoned(Exception):
    """Raised to drop an unfinished statement."""


@dataclass
class ShellSession:
    """A session with its settings, the last question and the last answer."""

    curator: Curator
    lines: LineInput
    ledger: Path | str | None
    spends_unconfirmed: bool
    """Whether questions are charged without confirmation (``--yes``)."""
    interactive: bool
    settings: ShellSettings = field(default_factory=ShellSettings)
    question: Question | Listing | None = None
    answer: Answer | None = None

    @property
    def prompt(self) -> str:
        """The prompt: the account's name and its remaining ε for ordinary answers."""
        standing: Any = self.curator.standing()
        current: Standing = getattr(standing, "fresh", standing)
        period = f" each {standing.per}" if standing is not current else ""
        allowed = current.allowed.get("pure") or current.epsilon  # for an analyst, their share
        return f"{self.curator.name} ε {_remaining_epsilon_text(current)} of {format_rounded_down(allowed)}{period}> "

    def run(self, piece: str) -> None:
        """Run a command, or ask a question in SQL."""
        if not piece.startswith(COMMAND_PREFIX):
            self._parse_question(piece)
            self.ask()
            return
        name, _, argument = piece[len(COMMAND_PREFIX) :].partition(" ")
        command = COMMANDS.get(COMMAND_ALIASES.get(name.lower(), name.lower()))
        if command is None:
            close_matches = difflib.get_close_matches(name.lower(), [*COMMANDS, *COMMAND_ALIASES], n=1)
            fix = f"did you mean \\{close_matches[0]}?" if close_matches else "\\help lists them"
            rule = "the shell has no such command"
            raise SfumatoError(rule, place=f"\\{name[:40]}", fix=fix)
        command.run(self, argument.strip())

    def ask(self) -> None:
        """Print the price and expected error of the last question, and release it after confirmation."""
        question = self._last_question()
        if question.free:
            self._print_answer(question.release())
            return
        if not self.settings.has_price:
            sample = question.error(epsilon=1, delta=self.settings.delta)
            click.echo(f"at {sample.price} the error would be {'; '.join(sample.parts())}")
        self.settings.require_price()
        forecast = question.error(**self.settings.price)
        self._print_forecast(forecast)
        if self._confirm(forecast):
            self._release(question, self._confirmed_price(forecast))

    def _confirmed_price(self, forecast: Forecast) -> dict[str, Any]:
        """Return the price that was confirmed. Only a person accepts a δ that nobody typed, --yes does not."""
        accepts_delta = forecast.assumed_delta and self.interactive and not self.spends_unconfirmed
        return {**self.settings.price, "delta": forecast.assumed_delta} if accepts_delta else self.settings.price

    def _parse_question(self, sql: str) -> None:
        question: Any = self.curator.sql(sql)
        if self.settings.limits and not question.free:
            question = question.limit(**self.settings.limits)
        self.question = question

    def _last_question(self) -> Question | Listing:
        if self.question is None:
            raise SfumatoError(
                "there is no question yet", place="the shell", fix="write one, such as SELECT COUNT(*) FROM …;"
            )
        return self.question

    def _print_forecast(self, forecast: Forecast) -> None:
        stored_verdict = "an answer at least as accurate was bought before: it is free"
        account_verdict = "the account would accept it now" if forecast.accepted else "the account would REFUSE it now"
        click.echo(f"price   {forecast.price}; {stored_verdict if forecast.stored else account_verdict}")
        for index, part in enumerate(forecast.parts()):
            click.echo(f"{'' if index else 'error':<6}  {part}")
        if forecast.free:
            click.echo(f"free    {calls_to_shell_commands(forecast.free)}")
        for warning in forecast.warnings:
            print_warning(calls_to_shell_commands(warning))

    def _confirm(self, forecast: Forecast) -> bool:
        """Ask for confirmation to spend. Without a terminal, --yes decides, even if the account would refuse."""
        if self.spends_unconfirmed or forecast.stored:
            return True
        if not self.interactive:
            click.echo("Nothing was spent: add --yes to buy the answer.")
            return False
        if not forecast.accepted:
            click.echo("Nothing was spent: set a lower price with \\epsilon, then type \\ask.")
            return False
        try:
            confirmed = self.lines.confirm(f"Spend {forecast.price}? [y/N] ")
        except (EOFError, KeyboardInterrupt):
            confirmed = False
        if not confirmed:
            click.echo("Nothing was spent.")
        return confirmed

    def _release(self, question: Question | Listing, price: Mapping[str, Any]) -> None:
        with ProgressPrinter() as progress:
            try:
                answer = question.release(**price, progress=progress)
                progress("showing")
                self._print_answer(answer)
            except KeyboardInterrupt:
                print_error(interrupted_message(stored=progress.is_answer_stored))

    def _print_answer(self, answer: Any) -> None:
        from sfumato.curator import Listing

        if isinstance(answer, Listing):
            print_table(answer.columns, answer.cells())
            return
        self.answer = answer
        print_table(answer.columns, answer.cells(), answer.intervals)
        for ranking in answer.ranked():
            click.echo(ranking)
        click.secho(f"\n{answer.short_receipt()}", dim=True)

    def explain(self, sql: str) -> None:
        """Print the plan of the last question, or of this one."""
        if sql:
            self._parse_question(sql)
        click.echo(calls_to_shell_commands(str(self._last_question().explain(**self.settings.price))))

    def apply_settings(self, settings: ShellSettings) -> None:
        """Apply new settings; parse the last question again if the limits changed."""
        limits_changed, self.settings = settings.limits != self.settings.limits, settings
        if limits_changed and self.question is not None and not self.question.free:
            self._parse_question(self.question.text)  # type: ignore[union-attr]
        click.echo(str(settings))

    def plot(self, file: str) -> None:
        """Draw the last answer as text bars, or into a file."""
        if self.answer is None:
            raise SfumatoError("there is no answer to plot yet", place="\\plot", fix="ask a question first")
        if not file:
            for name in self.answer.intervals:
                click.echo(f"{name}\n{self.answer.bars(name)}")
            return
        from sfumato.plots import check_picture_path

        check_output_files(self.curator.policy, self.ledger, Path(file))
        check_picture_path(file)
        self.answer.plot(file)
        click.echo(f"written: {file}")

    def describe(self, table: str) -> None:
        """Print what can be asked, from the policy alone."""
        tables = self.curator.tables
        click.echo(str(tables.find(table.strip('"')) if table else tables))

    def history(self, count: str) -> None:
        """Print the last lines of the account, 20 or as many as asked for."""
        if count and not count.isdecimal():
            raise InvalidParameter("lines", count, "a whole number, or left out", fix="write \\history or \\history 50")
        rows = [line.words() for line in self.curator.history()][-int(count or _DEFAULT_HISTORY) :]
        if not rows:
            click.echo("Nothing has been asked yet.")
            return
        from sfumato.ledger.entries import LINE_COLUMNS

        print_table(LINE_COLUMNS, rows, LINE_COLUMNS[:1])

    def budget(self) -> None:
        """Print what is left of the budget."""
        click.echo(str(self.curator.standing()))

    def tables(self) -> None:
        """Print the names of the tables, and whom each protects."""
        self._print_answer(self.curator.sql("SHOW TABLES"))

    def reset(self) -> None:
        raise StatementAbandoned

    def quit(self) -> None:
        raise QuitSession


def _remaining_epsilon_text(standing: Standing) -> str:
    return format_rounded_down(exact(standing.largest.get("Laplace", 0), "largest"))


@dataclass(frozen=True)
class ShellCommand:
    """A command of the shell: its argument, its description and its action."""

    argument: str
    description: str
    run: Callable[[ShellSession, str], None]


def _print_help(_: ShellSession, __: str) -> None:
    width = max(len(f"{name} {command.argument}") for name, command in COMMANDS.items())
    click.echo("End a question in SQL with ; to see its price and expected error before it spends.")
    for name, command in COMMANDS.items():
        click.echo(f"  \\{f'{name} {command.argument}':<{width}}  {command.description}")
    click.echo(
        "These commands also work while you type a question. .tables, .schema, .help and .quit do the same as \\dt, "
        "\\d, \\? and \\q."
    )
    click.echo("Tab completes, the up arrow recalls a line, Ctrl-C cancels the line, Ctrl-D quits.")


COMMANDS = {
    "epsilon": ShellCommand(
        "NUMBER [DELTA]",
        "set the price of the next questions",
        lambda session, given: session.apply_settings(session.settings.with_epsilon(given)),
    ),
    "delta": ShellCommand(
        "NUMBER|default",
        "set the δ of the next questions, for Gaussian noise and GROUP BY without declared values",
        lambda session, given: session.apply_settings(session.settings.with_delta(given)),
    ),
    "within": ShellCommand(
        "[COLUMN=]NUMBER",
        "set an accuracy: pay the smallest ε that keeps every number, or this column, within ± NUMBER",
        lambda session, given: session.apply_settings(session.settings.with_within(given)),
    ),
    "limit": ShellCommand(
        "rows=NUMBER | off",
        "set a tighter limit per unit, for less noise; also groups= and rows_per_group=",
        lambda session, given: session.apply_settings(session.settings.with_limit(given)),
    ),
    "explain": ShellCommand(
        "[SQL]", "print the plan of the last question, or of this one; free", lambda s, sql: s.explain(sql)
    ),
    "ask": ShellCommand("", "ask the last question again, at the current price", lambda s, _: s.ask()),
    "plot": ShellCommand(
        "[FILE]", "plot the last answer, here or to a .svg, .png or .html file", lambda s, f: s.plot(f)
    ),
    "tables": ShellCommand("", "list the tables", lambda session, _: session.tables()),
    "describe": ShellCommand(
        "[TABLE]", "print what can be asked, with example questions; free", lambda s, t: s.describe(t)
    ),
    "history": ShellCommand(
        "[NUMBER]", "print what was asked of the account, and at what cost", lambda s, n: s.history(n)
    ),
    "budget": ShellCommand("", "print what is left of the budget", lambda session, _: session.budget()),
    "help": ShellCommand("", "print this list", _print_help),
    "reset": ShellCommand("", "discard the unfinished question", lambda session, _: session.reset()),
    "quit": ShellCommand("", "quit", lambda session, _: session.quit()),
}
COMMAND_ALIASES = {
    "?": "help",
    "h": "help",
    "q": "quit",
    "exit": "quit",
    "r": "reset",
    "d": "describe",
    "schema": "describe",
    "dt": "tables",
}
"""Names in the shells of other databases."""
