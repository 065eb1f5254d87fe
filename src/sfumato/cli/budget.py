"""The command ``sfumato budget`` shows what is left, and lets an owner change it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from sfumato.cli import options
from sfumato.cli.exit_codes import EXIT_CODES


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
    """Show what remains of POLICY's budget, per currency, and the largest release it would accept now.

    \b
    Examples:
      sfumato budget clinic.toml
      sfumato budget clinic.toml --analyst ana --json
      sfumato budget amend clinic.toml --reason "second year of the study"
    """


@command.command(hidden=True, epilog=EXIT_CODES)
@options.policy
@options.analyst
@options.ledger
@options.as_json
def show(policy: Path, analyst: str | None, ledger: Path | None, as_json: bool) -> None:
    """Show what remains of POLICY's budget, per currency, and the largest release it would accept now."""
    from sfumato.cli.text_tables import show as show_table
    from sfumato.curator import PeriodStandings, standing

    found = standing(policy, ledger, analyst=analyst)
    if as_json:
        click.echo(found.to_json())
        return
    period = ("period",) if isinstance(found, PeriodStandings) else ()
    show_table((*period, "currency", "allowed", "spent", "left"), found.rows(), ("allowed", "spent", "left"))
    click.echo(f"\n{found}")


@command.command(epilog=EXIT_CODES)
@options.policy
@click.option("--reason", required=True, metavar="TEXT", help="Why: kept in the ledger for ever.")
@options.ledger
@options.as_json
def amend(policy: Path, reason: str, ledger: Path | None, as_json: bool) -> None:
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
