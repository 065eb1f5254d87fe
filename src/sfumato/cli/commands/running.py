"""``sfumato running``: ask for running totals over days, weeks, months or whole numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP, print_warning
from sfumato.cli.common.output import ProgressPrinter
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE

if TYPE_CHECKING:
    from sfumato.curator import RunningTotalsProposal
    from sfumato.release.running_totals import RunningAnswer


@click.command(short_help="Ask for running totals over days, at one price.", epilog=EXIT_CODES_HELP)
@options.policy
@click.argument("sql")
@click.option("--epsilon", metavar="NUMBER", help="The price of all totals together: their privacy loss ε.")
@click.option(
    "--delta", metavar="NUMBER", default="0", help="With --epsilon: the δ of the price; allows Gaussian noise."
)
@click.option(
    "--rho",
    metavar="NUMBER",
    help="The price in ρ, the loss of zero-concentrated differential privacy (zCDP), instead of --epsilon.",
)
@click.option(
    "--confidence",
    metavar="NUMBER",
    default=DEFAULT_CONFIDENCE,
    show_default=True,
    help="The confidence level of the range given for each number, such as 0.95.",
)
@click.option("--joint", is_flag=True, help="Make all ranges hold together with this confidence, not each by itself.")
@click.option("--fresh", is_flag=True, help="Buy new totals with new noise, even if stored ones are free.")
@options.request_id
@options.analyst
@options.ledger
@options.explain
@options.dry_run
@options.as_json
@options.as_csv
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Plot the totals as a line, and their ranges as a band, to a .svg, .png or .html file.",
)
@options.whole_receipt
def running_command(
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
    """Release running totals of a count or sum over POLICY's tables, up to each day.

    The question groups by a declared date, week, month or whole number; one price pays for all totals.

    \b
    Example:
      sfumato running clinic.toml "SELECT day, COUNT(*) AS visits FROM visits GROUP BY day" --epsilon 1 --plot days.svg
    """
    if as_json and as_csv:
        raise click.UsageError("give --json or --csv, not both")
    if not explain and (price["epsilon"] is None) == (price["rho"] is None):
        raise click.UsageError("name one price: --epsilon 0.5 or --rho 0.01; there is no default")
    if plot is not None:
        from sfumato.plots import check_picture_path

        check_picture_path(plot)
    from sfumato.curator import Curator

    with ProgressPrinter() as progress, Curator(policy, ledger, progress=progress) as curator:
        asker = curator if analyst is None else curator.as_analyst(analyst)
        proposal = asker.running(sql)
        if explain:
            explanation = proposal.explain(**price)
            click.echo(explanation.to_json() if as_json else str(explanation))
        elif dry_run:
            _print_forecast(proposal, {**price, "fresh": fresh}, as_json)
        else:
            for warning in proposal.question.warnings:
                print_warning(warning)
            with progress.exit_on_interrupt():
                answer = proposal.release(**price, fresh=fresh, request_id=request_id)
                progress("showing")
                _print_answer(answer, as_json, as_csv, receipt)
                if plot is not None:
                    answer.plot(str(plot))


def _print_forecast(proposal: RunningTotalsProposal, terms: dict[str, Any], as_json: bool) -> None:
    forecast = proposal.error(**terms)
    if as_json:
        click.echo(forecast.to_json())
        return
    verdict = f"the account {'would accept it now' if forecast.accepted else 'would REFUSE it now'}"
    if forecast.stored:
        verdict = "totals at least as accurate were bought before: they are free"
    counted = f"counted {forecast.counted}\n" if forecast.counted else ""
    click.echo(
        f"price   {forecast.price}; {verdict}\nerror   {forecast}\n{counted}Nothing was spent, and no row was read."
    )


def _print_answer(answer: RunningAnswer, as_json: bool, as_csv: bool, receipt: bool) -> None:
    if as_json:
        click.echo(answer.to_json())
    elif as_csv:
        click.echo(answer.to_csv(), nl=False)
    else:
        from sfumato.cli.common.output import print_table

        print_table(answer.columns, answer.cells(), answer.intervals)
        for line in answer.caveat_lines():
            click.echo(line)
        click.secho(f"\n{answer.receipt if receipt else answer.short_receipt()}", dim=True)
