"""A session of the shell asks questions, each after its price and its error were shown, and obeys commands.

The settings of the shell say what a question may cost and what of one unit counts, until they are set again.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common.exit_codes import in_shell, interrupted_words, say, warn
from sfumato.cli.common.output import ProgressLines, check_written, show
from sfumato.cli.shell.completion import COMMAND
from sfumato.cli.shell.lines import Lines
from sfumato.errors import InvalidParameter, SfumatoError, at_most
from sfumato.privacy.numbers import NONNEGATIVE, POSITIVE, exact

if TYPE_CHECKING:
    from sfumato.curator import Curator, Listing, Question
    from sfumato.curator.previews.forecasts import Forecast
    from sfumato.curator.standings import Standing
    from sfumato.release.answers.answer import Answer


OFF = "off"
_LIMITS = ("rows", "groups", "rows_per_group")


@dataclass(frozen=True)
class ShellSettings:
    """These are a price or an accuracy, and limits; at first none is set, since no price is safe to assume."""

    epsilon: str | None = None
    delta: str = "0"
    within: str | dict[str, str] | None = None
    limits: dict[str, int] = field(default_factory=dict)

    @property
    def price(self) -> dict[str, Any]:
        """Give the price as a question takes it."""
        return {"epsilon": self.epsilon, "delta": self.delta, "within": self.within}

    @property
    def priced(self) -> bool:
        """Tell whether there is a price."""
        return self.epsilon is not None or self.within is not None

    def __str__(self) -> str:
        return "; ".join([self._price(), *([f"limit {_pairs(self.limits)}"] if self.limits else [])])

    def _price(self) -> str:
        if not self.priced:
            return "no price yet"
        if self.within is None:
            price = f"ε = {self.epsilon}"
        else:
            price = f"within ±{self.within}" if isinstance(self.within, str) else f"within {_pairs(self.within)}"
        return price + (f", δ = {self.delta}" if exact(self.delta, "delta") else "")

    def with_epsilon(self, given: str) -> ShellSettings:
        """Set the price of each question, and a δ with it if there is one: ``0.5`` or ``0.5 1e-6``."""
        epsilon, *rest = given.split() or [""]
        exact(epsilon, "epsilon", POSITIVE)
        if len(rest) > 1:
            raise InvalidParameter("epsilon", given, "a price, or a price and a δ", fix="write \\epsilon 0.5 1e-6")
        return replace(self.with_delta(rest[0]) if rest else self, epsilon=epsilon, within=None)

    def with_delta(self, given: str) -> ShellSettings:
        """Set the δ of each question: 0 is none."""
        return replace(self, delta=_checked(given, "delta", NONNEGATIVE))

    def with_within(self, given: str) -> ShellSettings:
        """Set how wrong an answer may be: one number for every column, or ``COLUMN=NUMBER`` for each."""
        words = given.split()
        if len(words) == 1 and "=" not in words[0]:
            return replace(self, within=_checked(words[0], "within", POSITIVE), epsilon=None)
        pairs = [each.rpartition("=") for each in words]
        if not pairs or not all(name for name, _, _ in pairs):
            fix = "write \\within 50, or \\within visits=50 cost=1000"
            raise InvalidParameter("within", given, "one number for all columns, or COLUMN=NUMBER for each", fix=fix)
        found = {name: _checked(width, f"within {name}", POSITIVE) for name, _, width in pairs}
        return replace(self, within=found, epsilon=None)

    def with_limit(self, given: str) -> ShellSettings:
        """Set what of one unit counts: ``rows=5 groups=2``, or ``off`` for what the policy says."""
        if given.strip() == OFF:
            return replace(self, limits={})
        pairs = [each.partition("=") for each in given.split()]
        if not pairs or not all(name in _LIMITS and number.isdecimal() for name, _, number in pairs):
            fix = "write \\limit rows=5, or \\limit off"
            raise InvalidParameter("limit", given, "rows=NUMBER, groups=NUMBER, rows_per_group=NUMBER or off", fix=fix)
        return replace(self, limits=self.limits | {name: int(number) for name, _, number in pairs})

    def require_price(self) -> None:
        """Refuse to ask without a price."""
        if not self.priced:
            raise SfumatoError(
                "every question has a price, and none is set: there is no default",
                place="the shell",
                fix="set one with \\epsilon 0.5, or an accuracy with \\within 50, then \\ask",
            )


def _checked(given: str, name: str, rule: Any) -> str:
    exact(given, name, rule)
    return given


def _pairs(given: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in given.items())


_RECENT = 20
"""Lines of the account that are shown unless more are asked for."""


class Leave(Exception):
    """The session is over."""


@dataclass
class ShellSession:
    """A session knows its settings, the last question and the last answer."""

    curator: Curator
    lines: Lines
    ledger: Path | str | None
    spends: bool
    """Whether questions are asked without a yes to each: what ``--yes`` says."""
    interactive: bool
    settings: ShellSettings = field(default_factory=ShellSettings)
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

    def set(self, settings: ShellSettings) -> None:
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
        from sfumato.ledger.entries import LINE_COLUMNS

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
    act: Callable[[ShellSession, str], None]


def _help(_: ShellSession, __: str) -> None:
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
