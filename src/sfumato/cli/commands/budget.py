"""``sfumato budget``: show what is left of a budget, or change it as the owner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP

if TYPE_CHECKING:
    from sfumato.curator import PeriodStandings, Standing


class _Budget(click.Group):
    """A group whose default subcommand is ``show``: ``budget POLICY`` and ``budget amend POLICY``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["show", *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options of ``show``, the default subcommand."""
        records = [
            record for param in self.commands["show"].params if (record := param.get_help_record(ctx)) is not None
        ]
        with formatter.section("Options"):
            formatter.write_dl([*records, ("-h, --help", "Show this message and exit.")])
        self.format_commands(ctx, formatter)


@click.group(
    cls=_Budget,
    short_help="Show what is left to spend.",
    epilog=EXIT_CODES_HELP,
    subcommand_metavar="POLICY | amend POLICY --reason TEXT",
)
def command() -> None:
    """Show what is left of POLICY's budget: for ordinary answers, and for answers with Gaussian noise.

    \b
    Examples:
      sfumato budget clinic.toml
      sfumato budget clinic.toml --details
      sfumato budget clinic.toml --plot budget.svg
      sfumato budget clinic.toml --analyst ana --json
      sfumato budget amend clinic.toml --reason "second year of the study"
    """


@command.command(hidden=True, epilog=EXIT_CODES_HELP)
@options.policy
@options.analyst
@options.ledger
@options.server
@click.option(
    "--details",
    is_flag=True,
    help="Also print each amount as the ledger counts it: pure (ε), renyi (Rényi divergence) and failure (δ).",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Plot the spending over time to a .svg, .png or .html file.",
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
    """Show what is left of POLICY's budget: for ordinary answers, and for answers with Gaussian noise."""
    from sfumato.plots import check_picture_path

    if plot is not None:
        check_picture_path(plot)
    standing = _read_standing(policy, analyst, ledger, server)
    if plot is not None:
        _draw_spending(policy, analyst, ledger, server, plot)
    if as_json:
        click.echo(standing.to_json())
        return
    click.echo(str(standing))
    if details:
        print_currencies(standing)


def print_currencies(standing: Standing | PeriodStandings) -> None:
    """Print the allowed, spent and remaining amounts in every currency, and what is accepted now."""
    from sfumato.cli.common.output import print_table as show_table
    from sfumato.curator import PeriodStandings
    from sfumato.curator.standings import CURRENCIES

    click.echo()
    period_column = ("period",) if isinstance(standing, PeriodStandings) else ()
    show_table((*period_column, *CURRENCIES), standing.rows(), CURRENCIES[1:])
    click.echo("\n" + "\n".join(standing.details()))


def _draw_spending(
    policy: Path, analyst: str | None, ledger: Path | str | None, server: str | None, path: Path
) -> None:
    if server is None:
        from sfumato.curator.policy_account import policy_budget

        policy_budget(policy, ledger, analyst=analyst).plot(path)
        return
    with options.connect_to_server(server, policy, analyst, ledger) as curator:
        curator.budget.plot(path)


def _read_standing(
    policy: Path, analyst: str | None, ledger: Path | str | None, server: str | None
) -> Standing | PeriodStandings:
    if server is None:
        from sfumato.curator import standing

        return standing(policy, ledger, analyst=analyst)
    with options.connect_to_server(server, policy, analyst, ledger) as curator:
        remote_standing: Standing | PeriodStandings = curator.standing()
        return remote_standing


@command.command(epilog=EXIT_CODES_HELP)
@options.policy
@click.option("--reason", required=True, metavar="TEXT", help="The reason, recorded permanently in the ledger.")
@options.ledger
@options.as_json
def amend(policy: Path, reason: str, ledger: Path | str | None, as_json: bool) -> None:
    """Apply the budget written in POLICY to its account. Unit and neighbours can never change.

    Edit the budget in the file first, then run this once. A budget below what is already spent is refused. If you raise
    ε after seeing answers, the guarantee is only as good as the largest ε that you would ever have allowed.

    \b
    Example:
      sfumato budget amend clinic.toml --reason "second year of the study"
    """
    from sfumato.curator import amend as amend_account

    line = amend_account(policy, reason=reason, ledger=ledger)
    click.echo(json.dumps({"line": line.number, "hash": line.hash}) if as_json else f"amended: line {line.number}")
