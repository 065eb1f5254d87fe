"""The commands ``bounds`` and ``limits`` run a search alike: dry, or released and shown with what to paste."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.common.progress import ProgressLines

if TYPE_CHECKING:
    from sfumato.curator import Bounds, BoundsSearch, Curator, LimitsSearch, UnitLimits

    Propose = Callable[[Curator], BoundsSearch | LimitsSearch]

epsilon = click.option("--epsilon", metavar="NUMBER", required=True, help="The price: the release is ε-private.")
confidence = click.option(
    "--confidence", metavar="NUMBER", default="0.95", show_default=True, help="Of what is said about the error."
)
dry_run = click.option(
    "--dry-run", is_flag=True, help="Only say what would happen, what it costs and how wrong it may be. Spends nothing."
)


def search(
    policy: Path,
    ledger: Path | str | None,
    analyst: str | None,
    propose: Propose,
    price: tuple[str, str],
    request_id: str | None,
    *,
    dry: bool,
    as_json: bool,
) -> None:
    """Explain a search or release it, at a price of (ε, confidence)."""
    from sfumato.curator import Curator

    paid, sure = price
    with ProgressLines() as progress, Curator(policy, ledger, progress=progress) as curator:
        proposal = propose(curator if analyst is None else curator.as_analyst(analyst))
        if dry:
            said = proposal.explain(paid, sure)
            click.echo(said.to_json() if as_json else str(said))
            return
        with progress.until_shown():
            found = proposal.release(paid, confidence=sure, request_id=request_id)
            progress("showing")
            if as_json:
                click.echo(found.to_json())
            else:
                _show(found, sure)


def _show(found: Bounds | UnitLimits, sure: str) -> None:
    if found.toml:
        click.echo(found.toml)
    click.echo(found.words(sure))
    if found.receipt is not None:
        click.secho(f"\n{found.receipt.short()}", dim=True)
