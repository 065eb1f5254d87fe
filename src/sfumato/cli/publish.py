"""The command ``sfumato publish`` measures marginals of a table once and writes them to a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli import options
from sfumato.cli.exit_codes import EXIT_CODES, UNWRITTEN
from sfumato.cli.progress import ProgressLines
from sfumato.cli.written_files import check_written

if TYPE_CHECKING:
    from sfumato.curator.marginals import MarginalsProposal
    from sfumato.publish.synopsis import Synopsis


@click.command(short_help="Measure marginals once, to be asked for ever.", epilog=EXIT_CODES)
@options.policy
@click.argument("table")
@click.option("--ways", type=int, metavar="K", help="All sets of K columns.  [default: 2]")
@click.option("--of", "sets", multiple=True, metavar="A,B", help="This set of columns instead; may be given again.")
@click.option("--columns", metavar="A,B", help="With --ways: these columns alone.  [default: all that have cells]")
@click.option("--where", metavar="SQL", help="Only rows that meet this condition.")
@click.option(
    "--rows", type=int, metavar="N", help="At most so many rows of one unit count: fewer than the policy says."
)
@click.option("--weights", metavar="4,1", help="How much each set counts, in their order.  [default: every cell alike]")
@click.option(
    "--objective",
    type=click.Choice(["total", "worst"]),
    default="total",
    show_default=True,
    help="Make the sum of the variances of all cells least, or the largest one.",
)
@click.option("--epsilon", metavar="NUMBER", help="The price of all marginals together.")
@click.option(
    "--delta", metavar="NUMBER", default="0", help="With --epsilon or --within: (ε, δ)-private, Gaussian noise."
)
@click.option("--rho", metavar="NUMBER", help="The price in zero-concentrated terms, instead of --epsilon.")
@click.option("--within", metavar="NUMBER", help="Find the least ε at which every count is within this, and pay it.")
@click.option("--for", "for_", metavar="A,B", help="With --within: the counts of this marginal.  [default: of all]")
@click.option(
    "--confidence", metavar="NUMBER", default="0.95", show_default=True, help="Of --within and of what is forecast."
)
@click.option("--fresh", is_flag=True, help="Buy a new draw even if the same marginals are stored, which are free.")
@options.analyst
@options.ledger
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Such as people.sfu."
)
@click.option("--explain", is_flag=True, help="Only show the plan: blocks, shares, errors. Spends nothing.")
@click.option("--dry-run", is_flag=True, help="Only say what it costs and how wrong it will be. Spends nothing.")
@options.as_json
@click.option("--receipt", is_flag=True, help="Print the whole receipt.")
def command(
    policy: Path,
    table: str,
    ways: int | None,
    sets: tuple[str, ...],
    columns: str | None,
    weights: str | None,
    within: str | None,
    for_: str | None,
    analyst: str | None,
    ledger: Path | None,
    output: Path | None,
    explain: bool,
    dry_run: bool,
    as_json: bool,
    receipt: bool,
    fresh: bool,
    epsilon: str | None,
    delta: str,
    rho: str | None,
    confidence: str,
    **asked: Any,
) -> None:
    """Measure marginals of one TABLE of POLICY, and write them to a file that anyone may ask afterwards, for nothing.

    \b
    Examples:
      sfumato publish clinic.toml people --ways 2 --epsilon 1 --delta 1e-9 -o people.sfu
      sfumato publish clinic.toml people --of sex,age --of region --within 50 --delta 1e-9 --dry-run
    """
    if ways is not None and sets:
        raise click.UsageError("give --ways or --of, not both")
    if not explain and sum(each is not None for each in (epsilon, rho, within)) != 1:
        raise click.UsageError("name one price: --epsilon 1, --rho 0.01 or --within 50; there is no default")
    if for_ is not None and within is None:
        raise click.UsageError("--for says which counts --within is about: give both, or leave it out")
    target = None if explain or dry_run else _checked(output)
    from sfumato.curator import Curator

    with ProgressLines() as progress, Curator(policy, ledger, progress=progress) as curator:
        check_written(curator.policy, ledger, output)
        asking = curator if analyst is None else curator.as_analyst(analyst)
        wanted: Any = [_names(each) for each in sets] or (2 if ways is None else ways)
        asked |= {name: _names(each) for name, each in (("columns", columns), ("weights", weights)) if each is not None}
        proposal = asking.marginals(table, wanted, **asked)
        if within is not None:
            counts = None if for_ is None else _names(for_)
            epsilon = str(proposal.price(within, counts, delta=delta, confidence=confidence))
        price: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho}
        if explain:
            said = proposal.explain(**price, confidence=confidence)
            click.echo(said.to_json() if as_json else str(said))
        elif target is None:
            _forecast(proposal, {**price, "fresh": fresh, "confidence": confidence}, as_json)
        else:
            with progress.until_shown():
                made = proposal.release(**price, fresh=fresh)
                progress("writing the file")
                _save(made, target)
                click.echo(made.receipt.to_json() if as_json else f"{target}: {made!r}")
                if not as_json:
                    click.secho(f"\n{made.receipt if receipt else made.receipt.short()}", dim=True)


def _save(made: Synopsis, target: Path) -> None:
    """Write the file; where that fails, say that what was paid for is not lost."""
    from sfumato.errors import SynopsisDamaged

    try:
        made.save(target)
    except SynopsisDamaged as error:
        click.secho(f"{error}, and publish again: what was charged is stored, and free", fg="red", err=True)
        sys.exit(UNWRITTEN)


def _names(written: str) -> list[str]:
    return [each.strip() for each in written.split(",")]


def _checked(output: Path | None) -> Path:
    """Refuse a file that cannot be written before anything is spent."""
    if output is None:
        raise click.UsageError("name the file to write: -o people.sfu")
    if not output.parent.is_dir():
        raise click.UsageError(f"there is no folder {output.parent}: make it, or name another")
    from sfumato.publish.zip_files import check_place

    check_place(output)
    return output


def _forecast(proposal: MarginalsProposal, asked: dict[str, Any], as_json: bool) -> None:
    found = proposal.error(**asked)
    if as_json:
        click.echo(found.to_json())
        return
    verdict = f"the account {'would accept it now' if found.accepted else 'would REFUSE it now'}"
    if found.stored:
        verdict = "marginals as good were bought before: they are free"
    click.echo(f"price   {found.price}; {verdict}\n{found}\nNothing was spent, and no row was read.")
