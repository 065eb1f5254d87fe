"""The command ``sfumato degrees`` asks how many nodes of a table of edges have how many edges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES
from sfumato.cli.common.progress import ProgressLines

if TYPE_CHECKING:
    from sfumato.curator import Degrees


@click.command(short_help="How many nodes have how many edges.", epilog=EXIT_CODES)
@options.policy
@click.argument("table")
@click.argument("ends", nargs=-1, required=True)
@click.option("--epsilon", metavar="NUMBER", required=True, help="The price: by itself the release is ε-private.")
@click.option("--most", type=int, help="Degrees of so many and above are counted together.  [default: all apart]")
@click.option("--confidence", metavar="NUMBER", default="0.95", show_default=True, help="Of the ± range.")
@options.analyst
@options.ledger
@options.request_id
@click.option("--explain", is_flag=True, help="Only say what would happen, operator by operator. Spends nothing.")
@options.as_json
def command(
    policy: Path,
    table: str,
    ends: tuple[str, ...],
    epsilon: str,
    most: int | None,
    confidence: str,
    analyst: str | None,
    ledger: Path | str | None,
    request_id: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Draw a histogram of degrees from a TABLE of POLICY whose rows are edges. ENDS are the columns of both ends, or of
    one to count edges that arrive or leave.

    \b
    Example:
      sfumato degrees club.toml ties source target --most 8 --epsilon 1
    """
    from sfumato.curator import Curator

    with ProgressLines() as progress, Curator(policy, ledger, progress=progress) as curator:
        asking = curator if analyst is None else curator.as_analyst(analyst)
        proposal = asking.degrees(table, ends, most)
        if explain:
            said = proposal.explain(epsilon, confidence)
            click.echo(said.to_json() if as_json else str(said))
            return
        with progress.until_shown():
            found = proposal.release(epsilon, confidence=confidence, request_id=request_id)
            progress("showing")
            if as_json:
                click.echo(found.to_json())
            else:
                _show(found, confidence)


def _show(found: Degrees, confidence: str) -> None:
    from sfumato.cli.common.text_tables import show

    last, error = len(found.counts) - 1, found.error(confidence)
    around = "" if error is None else f" ± {float(error):g}"
    names = [str(degree) for degree in range(last)] + [f"{last} or more"]
    rows = [(name, f"{count}{around}") for name, count in zip(names, found.counts, strict=True)]
    show(("edges", "nodes"), rows, ("nodes",))
    if found.receipt is not None:
        click.secho(f"\n{found.receipt.short()}", dim=True)
