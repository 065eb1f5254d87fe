"""``sfumato auction``: one private price for a file of bids."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import click

from sfumato.cli.exits import EXIT_CODES
from sfumato.errors import InvalidParameter


@click.command(short_help="One private price for a file of bids.", epilog=EXIT_CODES)
@click.argument("bids", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--epsilon", required=True, help="The privacy of every bid: 0.1 is strong, 1 is moderate.")
@click.option("--column", help="The column with the bids.  [default: the only one]")
@click.option("--table", help="The table with the bids, when BIDS is a policy.")
@click.option("--top", default="1", show_default=True, help="The highest price, decided without looking at the bids.")
@click.option("--steps", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="How many prices.")
@click.option("--confidence", default="0.95", show_default=True, help="Of the guarantee and of the range.")
@click.option("--count-share", default="0.1", show_default=True, help="The share of ε for the range; 0: price only.")
def command(
    bids: Path,
    epsilon: str,
    column: str | None,
    table: str | None,
    top: str,
    steps: int,
    confidence: str,
    count_share: str,
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
    from sfumato.games import digital_goods
    from sfumato.privacy.numbers import POSITIVE, exact

    highest = exact(top, "top", POSITIVE)
    prices = [highest * i / steps for i in range(1, steps + 1)]
    if bids.suffix == ".toml":
        _sell(bids, table or "", column or "", prices, (epsilon, count_share, confidence))
        return
    _refuse_curated(bids)
    proposal = digital_goods(list(_column(bids, column)), epsilon, prices, counting=count_share)
    promised = proposal.explain(confidence)
    sale = proposal.release()
    _show(float(sale.price), sale.revenue_range(confidence), confidence, promised)


def _sell(policy: Path, table: str, column: str, prices: list[Fraction], price: tuple[str, str, str]) -> None:
    import sfumato as sf
    from sfumato.games import sell

    epsilon, share, confidence = price
    with sf.open(policy) as curator:
        proposal = sell(curator, table, column, prices)
        promised = str(proposal.explain(epsilon, share, confidence))
        sold = proposal.release(epsilon, share)
    _show(float(sold.price), sold.revenue_range(confidence), confidence, promised)


def _refuse_curated(bids: Path) -> None:
    """A file that a ledger beside it knows has a budget, and only its policy spends it."""
    from sfumato.curator.bookkeeping import BESIDE

    book = bids.parent / BESIDE
    if not book.exists():
        return
    import sfumato as sf

    with sf.Ledger.open(book) as ledger:
        for name in ledger.accounts:
            if any(source.path == str(bids.resolve()) for source in ledger.account(name).sources):
                raise sf.SourceTaken(
                    f"these bids belong to the account {name!r}",
                    place=str(bids),
                    fix=f"name its policy instead: sfumato auction {name}.toml --table … --column …",
                )


def _show(price: float, revenue: tuple[float, float] | None, confidence: str, promised: str) -> None:
    click.secho(f"price    {price:g}", bold=True)
    if revenue is not None:
        click.echo(f"revenue  between {revenue[0]:.6g} and {revenue[1]:.6g}, with confidence {float(confidence):g}")
    click.echo("\nWhat is promised:\n" + "\n".join(f"  {line}" for line in promised.splitlines()))


def _column(path: Path, name: str | None) -> Iterator[str]:
    """The cells of one column, as text: numbers mean their decimals."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            header = [cell.strip() for cell in next(rows, [])]
            wanted = header[0] if name is None and len(header) == 1 else name
            if wanted is None or header.count(wanted) != 1:
                rule = f"the name of one column: {', '.join(header) or 'the file has none'}"
                raise InvalidParameter("column", name, rule, fix="add --column NAME")
            place = header.index(wanted)
            for row in rows:
                if row:
                    yield row[place] if place < len(row) else ""
    except (OSError, UnicodeDecodeError, csv.Error):
        raise InvalidParameter("bids", str(path), "a CSV file in UTF-8 with a header") from None
