"""``sfumato publish``: measure marginals of a table once and write them to a synopsis file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP, UNWRITTEN
from sfumato.cli.common.output import ProgressPrinter, check_output_files
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE

if TYPE_CHECKING:
    from sfumato.curator import Curator
    from sfumato.curator.proposals.marginals import MarginalsProposal
    from sfumato.publish.synopsis import Synopsis


_marginal_options = options.combine_decorators(
    options.policy,
    click.argument("table"),
    click.option("--ways", type=int, metavar="K", help="Measure the marginals of all sets of K columns.  [default: 2]"),
    click.option(
        "--of", "sets", multiple=True, metavar="A,B", help="Measure this set of columns, instead of --ways. Repeatable."
    ),
    click.option(
        "--columns",
        metavar="A,B",
        help="With --ways: use only these columns.  [default: all columns with values or bins]",
    ),
    click.option("--where", metavar="SQL", help="Count only rows that meet this SQL condition."),
    click.option("--rows", type=int, metavar="N", help="Count at most N rows per unit, fewer than the policy allows."),
    click.option(
        "--weights",
        metavar="4,1",
        help="The weight of each set's error, in the order of the sets.  [default: every cell equally]",
    ),
    click.option(
        "--objective",
        type=click.Choice(["total", "worst"]),
        default="total",
        show_default=True,
        help="Minimise the total variance of all cells, or the largest variance of any cell.",
    ),
)
_price_options = options.combine_decorators(
    click.option("--epsilon", metavar="NUMBER", help="The price of all marginals together: their privacy loss ε."),
    click.option(
        "--delta",
        metavar="NUMBER",
        default="0",
        help="With --epsilon or --within: the δ of the price; allows Gaussian noise.",
    ),
    click.option(
        "--rho",
        metavar="NUMBER",
        help="The price in ρ, the loss of zero-concentrated differential privacy (zCDP), instead of --epsilon.",
    ),
    click.option("--within", metavar="NUMBER", help="Pay the smallest ε that keeps every count within ± NUMBER."),
    click.option(
        "--for",
        "for_",
        metavar="A,B",
        help="With --within: keep only the counts of this marginal within ± NUMBER.  [default: all]",
    ),
    click.option(
        "--confidence",
        metavar="NUMBER",
        default=DEFAULT_CONFIDENCE,
        show_default=True,
        help="The confidence of --within and of the expected error.",
    ),
    click.option("--fresh", is_flag=True, help="Buy new marginals with new noise, even if stored ones are free."),
    options.request_id,
)


@click.command(short_help="Measure marginals once; ask them freely afterwards.", epilog=EXIT_CODES_HELP)
@_marginal_options
@_price_options
@options.analyst
@options.ledger
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The synopsis file to write, such as people.sfu.",
)
@options.explain
@options.dry_run
@options.as_json
@options.whole_receipt
def publish_command(
    policy: Path, analyst: str | None, ledger: Path | str | None, output: Path | None, **values: Any
) -> None:
    """Measure marginals of one TABLE of POLICY and write them to a file that anyone may query afterwards, for free.

    \b
    Examples:
      sfumato publish clinic.toml people --ways 2 --epsilon 1 --delta 1e-9 -o people.sfu
      sfumato publish clinic.toml people --of sex,age --of region --within 50 --delta 1e-9 --dry-run
    """
    _check_options(values)
    target = None if values["explain"] or values["dry_run"] else _check_output(output)
    from sfumato.curator import Curator

    with ProgressPrinter() as progress, Curator(policy, ledger, progress=progress) as curator:
        check_output_files(curator.policy, ledger, output)
        proposal = _propose_marginals(curator if analyst is None else curator.as_analyst(analyst), values)
        price, confidence_term = _find_price(proposal, values), {"confidence": values["confidence"]}
        if values["explain"]:
            explanation = proposal.explain(**price, **confidence_term)
            click.echo(explanation.to_json() if values["as_json"] else str(explanation))
        elif target is None:
            _print_forecast(proposal, {**price, **confidence_term, "fresh": values["fresh"]}, values["as_json"])
        else:
            with progress.exit_on_interrupt():
                synopsis = proposal.release(**price, fresh=values["fresh"], request_id=values["request_id"])
                progress("writing the file")
                _save_synopsis_or_exit(synopsis, target)
                _print_published(synopsis, target, values["as_json"], values["receipt"])


def _check_options(values: Mapping[str, Any]) -> None:
    """Refuse options that cannot be combined."""
    if values["ways"] is not None and values["sets"]:
        raise click.UsageError("give --ways or --of, not both")
    prices = [name for name in ("epsilon", "rho", "within") if values[name] is not None]
    if not values["explain"] and len(prices) != 1:
        raise click.UsageError("name one price: --epsilon 1, --rho 0.01 or --within 50; there is no default")
    if values["for_"] is not None and values["within"] is None:
        raise click.UsageError("--for selects the counts that --within applies to: give both, or leave out --for")


def _propose_marginals(curator: Curator, values: Mapping[str, Any]) -> MarginalsProposal:
    """Return the proposal for the marginals that the options name."""
    marginal_options = {name: values[name] for name in ("where", "rows", "objective")}
    marginal_options |= {
        name: _split_names(values[name]) for name in ("columns", "weights") if values[name] is not None
    }
    ways: Any = [_split_names(names) for names in values["sets"]] or (2 if values["ways"] is None else values["ways"])
    return curator.marginals(values["table"], ways, **marginal_options)


def _find_price(proposal: MarginalsProposal, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the price, computed from --within where that is given."""
    epsilon = values["epsilon"]
    if values["within"] is not None:
        counts = None if values["for_"] is None else _split_names(values["for_"])
        accuracy_options = {"delta": values["delta"], "confidence": values["confidence"]}
        epsilon = str(proposal.price(values["within"], counts, **accuracy_options))
    return {"epsilon": epsilon, "delta": values["delta"], "rho": values["rho"]}


def _print_published(synopsis: Synopsis, file: Path, as_json: bool, receipt: bool) -> None:
    click.echo(synopsis.receipt.to_json() if as_json else f"{file}: {synopsis!r}")
    if not as_json:
        click.secho(f"\n{synopsis.receipt if receipt else synopsis.receipt.short()}", dim=True)


def _save_synopsis_or_exit(synopsis: Synopsis, file: Path) -> None:
    """Write the file; on failure, say that the purchase is stored and free to repeat."""
    from sfumato.errors import SynopsisDamaged

    try:
        synopsis.save(file)
    except SynopsisDamaged as error:
        click.secho(
            f"{error}, and publish again, which is free: the marginals are stored",
            fg="red",
            err=True,
        )
        sys.exit(UNWRITTEN)


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _check_output(output: Path | None) -> Path:
    """Refuse, before anything is spent, a file that cannot be written."""
    if output is None:
        raise click.UsageError("name the file to write: -o people.sfu")
    if not output.parent.is_dir():
        raise click.UsageError(f"there is no folder {output.parent}: create it, or name another folder")
    from sfumato.publish.files.sealed_files import require_writable

    require_writable(output)
    return output


def _print_forecast(proposal: MarginalsProposal, terms: dict[str, Any], as_json: bool) -> None:
    forecast = proposal.error(**terms)
    if as_json:
        click.echo(forecast.to_json())
        return
    verdict = f"the account {'would accept it now' if forecast.accepted else 'would REFUSE it now'}"
    if forecast.stored:
        verdict = "marginals at least as accurate were bought before: they are free"
    counted = f"counted {forecast.counted}\n" if forecast.counted else ""
    click.echo(f"price   {forecast.price}; {verdict}\n{forecast}\n{counted}Nothing was spent, and no row was read.")
