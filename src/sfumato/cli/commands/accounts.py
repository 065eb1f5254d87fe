"""``sfumato budget``, ``history`` and ``read``: what is left, what was spent, and what an ε means for one person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP

if TYPE_CHECKING:
    from sfumato.curator import PeriodStandings, Standing
    from sfumato.ledger import Line
    from sfumato.privacy.precedents import Precedents


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
def budget_command() -> None:
    """Show what is left of POLICY's budget: for ordinary answers, and for answers with Gaussian noise.

    \b
    Examples:
      sfumato budget clinic.toml
      sfumato budget clinic.toml --details
      sfumato budget clinic.toml --plot budget.svg
      sfumato budget clinic.toml --analyst ana --json
      sfumato budget amend clinic.toml --reason "second year of the study"
    """


@budget_command.command(hidden=True, epilog=EXIT_CODES_HELP)
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


@budget_command.command(epilog=EXIT_CODES_HELP)
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


@click.command(short_help="List what was asked, by whom, at what cost.", epilog=EXIT_CODES_HELP)
@options.policy
@options.analyst
@options.ledger
@options.server
@click.option(
    "--details",
    is_flag=True,
    help="Print the cost as the ledger counts it: pure (ε), renyi (Rényi divergence) and failure (δ).",
)
@options.as_json
def history_command(
    policy: Path, analyst: str | None, ledger: Path | str | None, server: str | None, details: bool, as_json: bool
) -> None:
    """List every line of POLICY's account: number, time, analyst, kind, question, cost.

    \b
    Example:
      sfumato history clinic.toml --analyst ana
    """
    import json

    from sfumato.cli.common.output import print_table
    from sfumato.ledger.entries import LINE_COLUMNS

    lines = _read_lines(policy, analyst, ledger, server)
    if as_json:
        click.echo(json.dumps([line.summary() for line in lines], ensure_ascii=False))
        return
    rows = [line.words(details=details) for line in lines]
    if rows:
        print_table(LINE_COLUMNS, rows, LINE_COLUMNS[:1])
    else:
        click.echo("Nothing has been asked yet.")


def _read_lines(policy: Path, analyst: str | None, ledger: Path | str | None, server: str | None) -> list[Line]:
    if server is None:
        from sfumato.curator import history

        return list(history(policy, ledger, analyst=analyst))
    with options.connect_to_server(server, policy, analyst, ledger) as curator:
        return list(curator.history())


@click.command(short_help="Explain what an ε means for one person.", epilog=EXIT_CODES_HELP)
@click.argument("policy", type=click.Path(path_type=Path), required=False)
@click.option("--epsilon", metavar="NUMBER", help="The ε to explain, instead of the one in POLICY.")
@click.option("--delta", metavar="NUMBER", help="With --epsilon: the δ to explain with it.  [default: 0]")
@click.option(
    "--prior",
    metavar="SHARE",
    default="0.01",
    show_default=True,
    help="How probable the attacker considers a fact about a person before any answer.",
)
@click.option(
    "--neighbours",
    type=click.Choice(["add-remove", "replace"]),
    help="The neighbouring relation of the guarantee.  [default: add-remove, or that of POLICY]",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Plot this ε among real deployments to a .svg, .png or .html file.",
)
@options.ledger
@options.as_json
def read_command(
    policy: Path | None,
    epsilon: str | None,
    delta: str | None,
    prior: str,
    neighbours: str | None,
    plot: Path | None,
    ledger: Path | str | None,
    as_json: bool,
) -> None:
    """Explain what a guarantee means for one person, next to the guarantees of 41 real deployments. No data are read.

    With POLICY this is the guarantee of its account, and the plot also shows how much of it is spent.

    \b
    Examples:
      sfumato read --epsilon 1 --delta 1e-6
      sfumato read --epsilon 1 --prior 0.1 --plot context.svg
      sfumato read clinic.toml --plot context.html
    """
    if (policy is None) is (epsilon is None):
        raise click.UsageError("give --epsilon, or a POLICY whose guarantee should be explained")
    if policy is not None and (delta is not None or neighbours is not None):
        raise click.UsageError("leave out --delta and --neighbours with a POLICY: it declares both")
    from sfumato.privacy import Guarantee
    from sfumato.privacy.precedents import precedents

    if plot is not None:
        from sfumato.plots import check_picture_path

        check_picture_path(plot)
    if policy is not None:
        reading = _read_policy_guarantee(policy, ledger, prior)
    else:
        reading = precedents(Guarantee(epsilon or 0, delta or 0), prior, neighbours=neighbours)
    if plot is not None:
        reading.plot(plot)
    if as_json:
        click.echo(reading.to_json())
        return
    _print_precedents(reading)


def _read_policy_guarantee(policy: Path, ledger: Path | str | None, prior: str) -> Precedents:
    """Return the guarantee of a policy's account, with what is spent of it."""
    from sfumato.curator import precedents_of

    return precedents_of(policy, ledger, prior)


def _print_precedents(reading: Precedents) -> None:
    from sfumato.cli.common.output import print_table
    from sfumato.privacy.precedents import COLUMNS

    click.echo(f"{reading}\n")
    print_table(COLUMNS, reading.rows(), ("ε", "δ", "belief"))
    click.echo(f"\n{reading.caption}\nSource: OpenDP deployments registry (MIT licence).")
