"""The command ``sfumato running`` asks for running totals over days, weeks, months or whole numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES, warn
from sfumato.cli.common.output import ProgressLines

if TYPE_CHECKING:
    from sfumato.curator import RunningTotals
    from sfumato.release.running_totals import RunningAnswer


@click.command(short_help="Running totals over days, at one price.", epilog=EXIT_CODES)
@options.policy
@click.argument("sql")
@click.option("--epsilon", metavar="NUMBER", help="The price of all days together: the release is ε-private.")
@click.option("--delta", metavar="NUMBER", default="0", help="With --epsilon: (ε, δ)-private, Gaussian noise allowed.")
@click.option("--rho", metavar="NUMBER", help="The price in zero-concentrated terms, instead of --epsilon.")
@click.option("--confidence", metavar="NUMBER", default="0.95", show_default=True, help="Of every ± range.")
@click.option("--joint", is_flag=True, help="All ranges hold together with this confidence, not each by itself.")
@click.option("--fresh", is_flag=True, help="Buy a new draw even if the same totals are stored, which are free.")
@options.request_id
@options.analyst
@options.ledger
@click.option("--explain", is_flag=True, help="Only say what would happen, operator by operator. Spends nothing.")
@click.option("--dry-run", is_flag=True, help="Only say what it costs and how wrong it will be. Spends nothing.")
@options.as_json
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with two columns more for the range of each number.")
@click.option(
    "--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw a line with a band: .svg, .png or .html."
)
@click.option("--receipt", is_flag=True, help="Print the whole receipt below the table.")
def command(
    policy: Path,
    sql: str,
    analyst: str | None,
    ledger: Path | str | None,
    explain: bool,
    dry_run: bool,
    as_json: bool,
    as_csv: bool,
    plot: Path | None,
    receipt: bool,
    fresh: bool,
    request_id: str | None,
    **price: Any,
) -> None:
    """Count, or add up, what POLICY's tables have up to each day. The question groups by a declared date, week, month
    or whole number; one price pays for all of them.

    \b
    Example:
      sfumato running clinic.toml "SELECT day, COUNT(*) AS visits FROM visits GROUP BY day" --epsilon 1 --plot days.svg
    """
    if as_json and as_csv:
        raise click.UsageError("give --json or --csv, not both")
    if not explain and (price["epsilon"] is None) == (price["rho"] is None):
        raise click.UsageError("name one price: --epsilon 0.5 or --rho 0.01; there is no default")
    if plot is not None:
        from sfumato.plots import check_picture

        check_picture(plot)
    from sfumato.curator import Curator

    with ProgressLines() as progress, Curator(policy, ledger, progress=progress) as curator:
        asking = curator if analyst is None else curator.as_analyst(analyst)
        proposal = asking.running(sql)
        if explain:
            said = proposal.explain(**price)
            click.echo(said.to_json() if as_json else str(said))
        elif dry_run:
            _forecast(proposal, {**price, "fresh": fresh}, as_json)
        else:
            for each in proposal.question.warnings:
                warn(each)
            with progress.until_shown():
                answer = proposal.release(**price, fresh=fresh, request_id=request_id)
                progress("showing")
                _show(answer, as_json, as_csv, receipt)
                if plot is not None:
                    answer.plot(str(plot))


def _forecast(proposal: RunningTotals, asked: dict[str, Any], as_json: bool) -> None:
    found = proposal.error(**asked)
    if as_json:
        click.echo(found.to_json())
        return
    verdict = f"the account {'would accept it now' if found.accepted else 'would REFUSE it now'}"
    if found.stored:
        verdict = "totals as good were bought before: they are free"
    counted = f"counted {found.counted}\n" if found.counted else ""
    click.echo(f"price   {found.price}; {verdict}\nerror   {found}\n{counted}Nothing was spent, and no row was read.")


def _show(answer: RunningAnswer, as_json: bool, as_csv: bool, receipt: bool) -> None:
    if as_json:
        click.echo(answer.to_json())
    elif as_csv:
        click.echo(answer.to_csv(), nl=False)
    else:
        from sfumato.cli.common.output import show

        show(answer.columns, answer.cells(), answer.intervals)
        click.secho(f"\n{answer.receipt if receipt else answer.receipt.short()}", dim=True)
