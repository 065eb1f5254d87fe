"""The command ``sfumato read`` says what a promise means for one person, beside what real deployments promise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES

if TYPE_CHECKING:
    from sfumato.privacy.precedents import Precedents


@click.command(short_help="What an ε means for one person, in context.", epilog=EXIT_CODES)
@click.argument("policy", type=click.Path(path_type=Path), required=False)
@click.option("--epsilon", metavar="NUMBER", help="The ε to read; without it, that of POLICY.")
@click.option("--delta", metavar="NUMBER", help="The δ beside it. [default: 0]")
@click.option("--prior", metavar="SHARE", default="0.01", show_default=True, help="What was believed before.")
@click.option(
    "--neighbours",
    type=click.Choice(["add-remove", "replace"]),
    help="Which two tables must look alike. [default: add-remove, or as in POLICY]",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw where it stands among them: .svg, .html, or .png with the plot extra.",
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
    """Say what a promise means for one person, and what 41 real deployments promised. No data is read.

    With POLICY it is the promise of its account, and the picture shows what of it is spent.

    \b
    Examples:
      sfumato read --epsilon 1 --delta 1e-6
      sfumato read --epsilon 1 --prior 0.1 --plot context.svg
      sfumato read clinic.toml --plot context.html
    """
    if (policy is None) is (epsilon is None):
        raise click.UsageError("give an --epsilon, or a POLICY whose promise is to be read")
    if policy is not None and (delta is not None or neighbours is not None):
        raise click.UsageError("leave out --delta and --neighbours with a POLICY: it says both")
    from sfumato.privacy import Guarantee
    from sfumato.privacy.precedents import precedents

    if plot is not None:
        from sfumato.plots import check_picture

        check_picture(plot)
    if policy is not None:
        found = _of_policy(policy, ledger, prior)
    else:
        found = precedents(Guarantee(epsilon or 0, delta or 0), prior, neighbours=neighbours)
    if plot is not None:
        found.plot(plot)
    if as_json:
        click.echo(found.to_json())
        return
    _show(found)


def _of_policy(policy: Path, ledger: Path | str | None, prior: str) -> Precedents:
    """Read what the account of a policy promises, and mark what is spent of it."""
    from sfumato.curator import precedents_of

    return precedents_of(policy, ledger, prior)


def _show(found: Precedents) -> None:
    from sfumato.cli.common.output import show
    from sfumato.privacy.precedents import COLUMNS

    click.echo(f"{found}\n")
    show(COLUMNS, found.rows(), ("ε", "δ", "belief"))
    click.echo(f"\n{found.caption}\nSource: OpenDP deployments registry (MIT licence).")
