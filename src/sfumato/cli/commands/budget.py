"""The command ``sfumato budget`` shows what is left, and lets an owner change it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES

if TYPE_CHECKING:
    from sfumato.curator import PeriodStandings, Standing


class _Budget(click.Group):
    """``budget POLICY`` shows; ``budget amend POLICY`` changes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["show", *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options of ``show``, which is what a policy alone means."""
        shown = [record for each in self.commands["show"].params if (record := each.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl([*shown, ("-h, --help", "Show this message and exit.")])
        self.format_commands(ctx, formatter)


@click.group(
    cls=_Budget,
    short_help="What is left to spend.",
    epilog=EXIT_CODES,
    subcommand_metavar="POLICY | amend POLICY --reason TEXT",
)
def command() -> None:
    """Show what is left of POLICY's budget for ordinary answers, and for answers with Gaussian noise.

    \b
    Examples:
      sfumato budget clinic.toml
      sfumato budget clinic.toml --details
      sfumato budget clinic.toml --plot budget.svg
      sfumato budget clinic.toml --analyst ana --json
      sfumato budget amend clinic.toml --reason "second year of the study"
    """


@command.command(hidden=True, epilog=EXIT_CODES)
@options.policy
@options.analyst
@options.ledger
@options.server
@click.option("--details", is_flag=True, help="Show the currencies it is counted in: pure, renyi and failure.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw which part of it was spent over time: .svg, .png or .html.",
)
@options.as_json
def show(
    policy: Path,
    analyst: str | None,
    ledger: Path | str | None,
    server: str | None,
    details: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Show what is left of POLICY's budget for ordinary answers, and for answers with Gaussian noise."""
    from sfumato.plots import check_picture

    if plot is not None:
        check_picture(plot)
    found = _standing(policy, analyst, ledger, server)
    if plot is not None:
        _draw(policy, analyst, ledger, server, plot)
    if as_json:
        click.echo(found.to_json())
        return
    click.echo(str(found))
    if details:
        show_currencies(found)


def show_currencies(found: Standing | PeriodStandings) -> None:
    """Print what is allowed, spent and left in every currency, and what is accepted now."""
    from sfumato.cli.common.output import show as show_table
    from sfumato.curator import PeriodStandings
    from sfumato.curator.standings import CURRENCIES

    click.echo()
    period = ("period",) if isinstance(found, PeriodStandings) else ()
    show_table((*period, *CURRENCIES), found.rows(), CURRENCIES[1:])
    click.echo("\n" + "\n".join(found.details()))


def _draw(policy: Path, analyst: str | None, ledger: Path | str | None, server: str | None, path: Path) -> None:
    if server is None:
        from sfumato.curator.policy_account import budget_of

        budget_of(policy, ledger, analyst=analyst).plot(path)
        return
    with options.connected(server, policy, analyst, ledger) as curator:
        curator.budget.plot(path)


def _standing(
    policy: Path, analyst: str | None, ledger: Path | str | None, server: str | None
) -> Standing | PeriodStandings:
    if server is None:
        from sfumato.curator import standing

        return standing(policy, ledger, analyst=analyst)
    with options.connected(server, policy, analyst, ledger) as curator:
        found: Standing | PeriodStandings = curator.standing()
        return found


@command.command(epilog=EXIT_CODES)
@options.policy
@click.option("--reason", required=True, metavar="TEXT", help="Why: kept in the ledger for ever.")
@options.ledger
@options.as_json
def amend(policy: Path, reason: str, ledger: Path | str | None, as_json: bool) -> None:
    """Make the budget written in POLICY the account's own. Unit and neighbours stay for life.

    Edit the budget in the file first, then run this once. A budget below what is spent is refused. If you raise ε after
    answers were seen, only the largest ε that you would ever have allowed is a guarantee.

    \b
    Example:
      sfumato budget amend clinic.toml --reason "second year of the study"
    """
    from sfumato.curator import amend as amend_account

    line = amend_account(policy, reason=reason, ledger=ledger)
    click.echo(json.dumps({"line": line.number, "hash": line.hash}) if as_json else f"amended: line {line.number}")
