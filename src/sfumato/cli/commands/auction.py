"""``sfumato auction``: draw one private price for a file or a table of bids."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import click

from sfumato.cli.common.exit_codes import EXIT_CODES_HELP
from sfumato.cli.common.output import ProgressPrinter
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE


@click.command(short_help="Draw one private price for a file of bids.", epilog=EXIT_CODES_HELP)
@click.argument("bids", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--epsilon",
    metavar="NUMBER",
    required=True,
    help="The privacy loss ε of each bid: 0.1 is strong privacy, 1 moderate.",
)
@click.option("--column", metavar="COLUMN", help="The column with the bids.  [default: the only one]")
@click.option("--table", metavar="NAME", help="With a policy: the table with the bids.  [default: the only one]")
@click.option(
    "--top",
    metavar="NUMBER",
    default="1",
    show_default=True,
    help="The highest possible price, chosen without looking at the bids.",
)
@click.option(
    "--steps", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="The number of possible prices."
)
@click.option(
    "--confidence",
    metavar="NUMBER",
    default=DEFAULT_CONFIDENCE,
    show_default=True,
    help="The confidence level of the guaranteed revenue and of the revenue range, such as 0.95.",
)
@click.option(
    "--count-share",
    metavar="SHARE",
    default="0.1",
    show_default=True,
    help="The share of ε that pays for the range of the revenue; with 0 only the price is drawn.",
)
@click.option(
    "--request-id",
    metavar="ID",
    help="With a policy: an id for this sale; a sale repeated with the same id is charged only once.",
)
def auction_command(
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
    """Sell a digital good at one price to everybody who bid in BIDS: a CSV file, or a policy (.toml) with such a table.

    The price is drawn with privacy ε per bid from evenly spaced prices up to --top; a share of ε pays for the range of
    the revenue. Both may be published. The number of bids is treated as public. With a policy, ε is charged to its
    account.

    \b
    Example:
      sfumato auction bids.csv --epsilon 0.5 --top 20
      sfumato auction market.toml --table bids --column bid --epsilon 0.5
    """
    from sfumato.games import digital_goods, evenly_spaced_prices, read_bids

    prices = evenly_spaced_prices(top, steps)
    if bids.suffix == ".toml":
        _sell_from_policy(bids, (table, column), prices, (epsilon, count_share, confidence), request_id)
        return
    if request_id is not None:
        raise click.UsageError("leave out --request-id: a file of bids has no account, so every sale is a new one")
    proposal = digital_goods(read_bids(bids, column), epsilon, prices, count_share=count_share)
    promise = proposal.explain(confidence)
    sale = proposal.release()
    _print_price_and_revenue(float(sale.price), sale.revenue_range(confidence), confidence, promise)


def _sell_from_policy(
    policy: Path,
    bids: tuple[str | None, str | None],
    prices: list[Fraction],
    price: tuple[str, str, str],
    request_id: str | None,
) -> None:
    from sfumato.curator import Curator

    epsilon, share, confidence = price
    with ProgressPrinter() as progress, Curator(policy, progress=progress) as curator:
        proposal = curator.auction(*bids, prices=prices)
        promise = str(proposal.explain(epsilon, share, confidence))
        with progress.exit_on_interrupt():
            sale = proposal.release(epsilon, share, request_id=request_id)
            progress("showing")
            _print_price_and_revenue(float(sale.price), sale.revenue_range(confidence), confidence, promise)


def _print_price_and_revenue(
    price: float, revenue: tuple[float, float] | None, confidence: str, guarantee_text: str
) -> None:
    click.secho(f"price    {price:g}", bold=True)
    if revenue is not None:
        click.echo(f"revenue  between {revenue[0]:.6g} and {revenue[1]:.6g}, with confidence {float(confidence):g}")
    click.echo("\nGuarantee:\n" + "\n".join(f"  {line}" for line in guarantee_text.splitlines()))
