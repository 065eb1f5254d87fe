"""Arguments and options stand here when several commands share them."""

from __future__ import annotations

from pathlib import Path

import click

policy = click.argument("policy", type=click.Path(path_type=Path))
ledger = click.option(
    "--ledger",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The ledger file.  [default: sfumato.ledger beside POLICY]",
)
analyst = click.option(
    "--analyst", metavar="NAME", help="An analyst of the policy: their share, their name in the ledger."
)
synopsis = click.argument("file", type=click.Path(path_type=Path))
as_csv = click.option(
    "--csv", "as_csv", is_flag=True, help="Print CSV, with two columns more for the range of each number."
)
plot = click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw the answer with its ranges: .svg, .png or .html.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def rows(written: str | None) -> int | None:
    """Read a number of rows, which may be written as 1e6."""
    if written is None:
        return None
    from sfumato.privacy.numbers import whole

    return whole(written, "rows", at_least=1)
