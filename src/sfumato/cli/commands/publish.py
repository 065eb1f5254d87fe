"""The command ``sfumato publish`` measures marginals of a table once and writes them to a file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES, UNWRITTEN
from sfumato.cli.common.output import ProgressLines, check_written

if TYPE_CHECKING:
    from sfumato.curator import Curator
    from sfumato.curator.proposals.marginals import MarginalsProposal
    from sfumato.publish.synopsis import Synopsis


_asked = options.several(
    options.policy,
    click.argument("table"),
    click.option("--ways", type=int, metavar="K", help="All sets of K columns.  [default: 2]"),
    click.option("--of", "sets", multiple=True, metavar="A,B", help="This set of columns instead; may be given again."),
    click.option("--columns", metavar="A,B", help="With --ways: these columns alone.  [default: all that have cells]"),
    click.option("--where", metavar="SQL", help="Only rows that meet this condition."),
    click.option(
        "--rows", type=int, metavar="N", help="At most so many rows of one unit count: fewer than the policy says."
    ),
    click.option(
        "--weights", metavar="4,1", help="How much each set counts, in their order.  [default: every cell alike]"
    ),
    click.option(
        "--objective",
        type=click.Choice(["total", "worst"]),
        default="total",
        show_default=True,
        help="Make the sum of the variances of all cells least, or the largest one.",
    ),
)
_priced = options.several(
    click.option("--epsilon", metavar="NUMBER", help="The price of all marginals together."),
    click.option(
        "--delta", metavar="NUMBER", default="0", help="With --epsilon or --within: (ε, δ)-private, Gaussian noise."
    ),
    click.option("--rho", metavar="NUMBER", help="The price in zero-concentrated terms, instead of --epsilon."),
    click.option(
        "--within", metavar="NUMBER", help="Find the least ε at which every count is within this, and pay it."
    ),
    click.option("--for", "for_", metavar="A,B", help="With --within: the counts of this marginal.  [default: of all]"),
    click.option(
        "--confidence", metavar="NUMBER", default="0.95", show_default=True, help="Of --within and of what is forecast."
    ),
    click.option("--fresh", is_flag=True, help="Buy a new draw even if the same marginals are stored, which are free."),
    options.request_id,
)


@click.command(short_help="Measure marginals once, to be asked for ever.", epilog=EXIT_CODES)
@_asked
@_priced
@options.analyst
@options.ledger
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Such as people.sfu."
)
@click.option("--explain", is_flag=True, help="Only show the plan: blocks, shares, errors. Spends nothing.")
@click.option("--dry-run", is_flag=True, help="Only say what it costs and how wrong it will be. Spends nothing.")
@options.as_json
@click.option("--receipt", is_flag=True, help="Print the whole receipt.")
def command(policy: Path, analyst: str | None, ledger: Path | str | None, output: Path | None, **given: Any) -> None:
    """Measure marginals of one TABLE of POLICY, and write them to a file that anyone may ask afterwards, for nothing.

    \b
    Examples:
      sfumato publish clinic.toml people --ways 2 --epsilon 1 --delta 1e-9 -o people.sfu
      sfumato publish clinic.toml people --of sex,age --of region --within 50 --delta 1e-9 --dry-run
    """
    _check_together(given)
    target = None if given["explain"] or given["dry_run"] else _checked(output)
    from sfumato.curator import Curator

    with ProgressLines() as progress, Curator(policy, ledger, progress=progress) as curator:
        check_written(curator.policy, ledger, output)
        proposal = _proposed(curator if analyst is None else curator.as_analyst(analyst), given)
        price, sure = _price(proposal, given), {"confidence": given["confidence"]}
        if given["explain"]:
            said = proposal.explain(**price, **sure)
            click.echo(said.to_json() if given["as_json"] else str(said))
        elif target is None:
            _forecast(proposal, {**price, **sure, "fresh": given["fresh"]}, given["as_json"])
        else:
            with progress.until_shown():
                made = proposal.release(**price, fresh=given["fresh"], request_id=given["request_id"])
                progress("writing the file")
                _save(made, target)
                _say(made, target, given["as_json"], given["receipt"])


def _check_together(given: Mapping[str, Any]) -> None:
    """Refuse what does not go together."""
    if given["ways"] is not None and given["sets"]:
        raise click.UsageError("give --ways or --of, not both")
    prices = [name for name in ("epsilon", "rho", "within") if given[name] is not None]
    if not given["explain"] and len(prices) != 1:
        raise click.UsageError("name one price: --epsilon 1, --rho 0.01 or --within 50; there is no default")
    if given["for_"] is not None and given["within"] is None:
        raise click.UsageError("--for says which counts --within is about: give both, or leave it out")


def _proposed(curator: Curator, given: Mapping[str, Any]) -> MarginalsProposal:
    """Propose the marginals that are named."""
    asked = {name: given[name] for name in ("where", "rows", "objective")}
    asked |= {name: _names(given[name]) for name in ("columns", "weights") if given[name] is not None}
    ways: Any = [_names(each) for each in given["sets"]] or (2 if given["ways"] is None else given["ways"])
    return curator.marginals(given["table"], ways, **asked)


def _price(proposal: MarginalsProposal, given: Mapping[str, Any]) -> dict[str, Any]:
    """Read the price, or find the one at which counts are as close as is wanted."""
    epsilon = given["epsilon"]
    if given["within"] is not None:
        counts = None if given["for_"] is None else _names(given["for_"])
        how = {"delta": given["delta"], "confidence": given["confidence"]}
        epsilon = str(proposal.price(given["within"], counts, **how))
    return {"epsilon": epsilon, "delta": given["delta"], "rho": given["rho"]}


def _say(made: Synopsis, target: Path, as_json: bool, receipt: bool) -> None:
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
    from sfumato.publish.files.sealed_files import check_place

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
    counted = f"counted {found.counted}\n" if found.counted else ""
    click.echo(f"price   {found.price}; {verdict}\n{found}\n{counted}Nothing was spent, and no row was read.")
