"""The command ``sfumato auction`` draws one private price for a file or a table of bids."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import click

from sfumato.cli.common.exit_codes import EXIT_CODES
from sfumato.cli.common.output import ProgressLines


@click.command(short_help="One private price for a file of bids.", epilog=EXIT_CODES)
@click.argument("bids", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--epsilon", required=True, help="The privacy of every bid: 0.1 is strong, 1 is moderate.")
@click.option("--column", help="The column with the bids.  [default: the only one]")
@click.option("--table", help="The table with the bids, when BIDS is a policy.  [default: the only one]")
@click.option("--top", default="1", show_default=True, help="The highest price, decided without looking at the bids.")
@click.option("--steps", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="How many prices.")
@click.option("--confidence", default="0.95", show_default=True, help="Of the guarantee and of the range.")
@click.option("--count-share", default="0.1", show_default=True, help="The share of ε for the range; 0: price only.")
@click.option("--request-id", metavar="ID", help="When BIDS is a policy: sold once under the same id, charged once.")
def command(
    bids: Path,
    epsilon: str,
    column: str | None,
    table: str | None,
    top: str,
    steps: int,
    confidence: str,
    count_share: str,
    request_id: str | None,
) -> None:
    """Sell a digital good at one price for everybody who bid in BIDS, a CSV file; or, when BIDS is a policy (.toml), in
    one of its tables: then ε is charged to its account.

    The price is drawn from evenly spaced ones up to --top, with ε for every bid; a share of ε pays for the range of the
    revenue. Both may be published; how many bids there are is taken to be public.

    \b
    Example:
      sfumato auction bids.csv --epsilon 0.5 --top 20
      sfumato auction market.toml --table bids --column bid --epsilon 0.5
    """
    from sfumato.games import digital_goods, evenly_spaced_prices, read_bids

    prices = evenly_spaced_prices(top, steps)
    if bids.suffix == ".toml":
        _sell(bids, (table, column), prices, (epsilon, count_share, confidence), request_id)
        return
    if request_id is not None:
        raise click.UsageError("--request-id is of an account; a file of bids has none, and each sale is a new one")
    proposal = digital_goods(read_bids(bids, column), epsilon, prices, counting=count_share)
    promised = proposal.explain(confidence)
    sale = proposal.release()
    _show(float(sale.price), sale.revenue_range(confidence), confidence, promised)


def _sell(
    policy: Path,
    bids: tuple[str | None, str | None],
    prices: list[Fraction],
    price: tuple[str, str, str],
    request_id: str | None,
) -> None:
    from sfumato.curator import Curator

    epsilon, share, confidence = price
    with ProgressLines() as progress, Curator(policy, progress=progress) as curator:
        proposal = curator.auction(*bids, prices=prices)
        promised = str(proposal.explain(epsilon, share, confidence))
        with progress.until_shown():
            sold = proposal.release(epsilon, share, request_id=request_id)
            progress("showing")
            _show(float(sold.price), sold.revenue_range(confidence), confidence, promised)


def _show(price: float, revenue: tuple[float, float] | None, confidence: str, promised: str) -> None:
    click.secho(f"price    {price:g}", bold=True)
    if revenue is not None:
        click.echo(f"revenue  between {revenue[0]:.6g} and {revenue[1]:.6g}, with confidence {float(confidence):g}")
    click.echo("\nWhat is promised:\n" + "\n".join(f"  {line}" for line in promised.splitlines()))
