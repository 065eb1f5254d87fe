"""``sfumato read``: explain what a guarantee means for one person, next to real deployments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP

if TYPE_CHECKING:
    from sfumato.privacy.precedents import Precedents


@click.command(short_help="Explain what an ε means for one person.", epilog=EXIT_CODES_HELP)
@click.argument("policy", type=click.Path(path_type=Path), required=False)
@click.option("--epsilon", metavar="NUMBER", help="The ε to explain, instead of the one in POLICY.")
@click.option("--delta", metavar="NUMBER", help="With --epsilon: the δ to explain with it.  [default: 0]")
@click.option(
    "--prior",
    metavar="SHARE",
    default="0.01",
    show_default=True,
    help="How probable the attacker considers a fact about a person before any answer.",
)
@click.option(
    "--neighbours",
    type=click.Choice(["add-remove", "replace"]),
    help="The neighbouring relation of the guarantee.  [default: add-remove, or that of POLICY]",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Plot this ε among real deployments to a .svg, .png or .html file.",
)
@options.ledger
@options.as_json
def command(
    policy: Path | None,
    epsilon: str | None,
    delta: str | None,
    prior: str,
    neighbours: str | None,
    plot: Path | None,
    ledger: Path | str | None,
    as_json: bool,
) -> None:
    """Explain what a guarantee means for one person, next to the guarantees of 41 real deployments. No data are read.

    With POLICY this is the guarantee of its account, and the plot also shows how much of it is spent.

    \b
    Examples:
      sfumato read --epsilon 1 --delta 1e-6
      sfumato read --epsilon 1 --prior 0.1 --plot context.svg
      sfumato read clinic.toml --plot context.html
    """
    if (policy is None) is (epsilon is None):
        raise click.UsageError("give --epsilon, or a POLICY whose guarantee should be explained")
    if policy is not None and (delta is not None or neighbours is not None):
        raise click.UsageError("leave out --delta and --neighbours with a POLICY: it declares both")
    from sfumato.privacy import Guarantee
    from sfumato.privacy.precedents import precedents

    if plot is not None:
        from sfumato.plots import check_picture_path

        check_picture_path(plot)
    if policy is not None:
        reading = _read_policy_guarantee(policy, ledger, prior)
    else:
        reading = precedents(Guarantee(epsilon or 0, delta or 0), prior, neighbours=neighbours)
    if plot is not None:
        reading.plot(plot)
    if as_json:
        click.echo(reading.to_json())
        return
    _print_precedents(reading)


def _read_policy_guarantee(policy: Path, ledger: Path | str | None, prior: str) -> Precedents:
    """Return the guarantee of a policy's account, with what is spent of it."""
    from sfumato.curator import precedents_of

    return precedents_of(policy, ledger, prior)


def _print_precedents(reading: Precedents) -> None:
    from sfumato.cli.common.output import print_table
    from sfumato.privacy.precedents import COLUMNS

    click.echo(f"{reading}\n")
    print_table(COLUMNS, reading.rows(), ("ε", "δ", "belief"))
    click.echo(f"\n{reading.caption}\nSource: OpenDP deployments registry (MIT licence).")
