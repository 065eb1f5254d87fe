"""``sfumato forget``: remove the copies that ``sfumato init`` made of private tables."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP
from sfumato.untrusted import escape_unprintable

_DRAFT_AGAIN = (
    "To query the data again, move the policy away and run sfumato init on the original files; the ledger stays."
)


@click.command(short_help="Remove the copies that init made of private tables.", epilog=EXIT_CODES_HELP)
@options.policy
@click.option("--yes", "confirmed", is_flag=True, help="Do not ask for confirmation.")
def command(policy: Path, confirmed: bool) -> None:
    """List the copies of POLICY's tables that sfumato init made, and remove them after you confirm.

    The policy, its ledger and the original files stay. POLICY need not exist: then the copies of an init that was not
    finished are removed. Traces of a removed file can remain on the disk, in backups and in snapshots.

    \b
    Examples:
      sfumato forget clinic.toml
      sfumato forget clinic.toml --yes
    """
    from sfumato.curator.policy_drafts import find_copies

    copies = find_copies(policy)
    if not copies.originals_by_copy and copies.missing:
        click.echo(
            f"The copies of {_printable(policy)} were removed earlier; there is nothing to remove. {_DRAFT_AGAIN}"
        )
        return
    if not copies.originals_by_copy:
        click.echo(f"{_printable(policy)} has no copies: init reads its tables in place. Nothing was removed.")
        return
    for copy, original in copies.originals_by_copy.items():
        of_what = "unfinished" if original is None else f"a copy of {_printable(original)}"
        click.echo(
            f"{_printable(copy)}: {of_what}{'; the original is gone' if copy in copies.without_original else ''}"
        )
    if not confirmed and not click.confirm("Remove these files"):
        click.echo("Nothing was removed.")
        return
    copies.remove()
    click.echo(
        f"\nRemoved: {len(copies.originals_by_copy)} {'copy' if len(copies.originals_by_copy) == 1 else 'copies'}."
    )
    click.echo(f"Left in place: {', '.join(map(_printable, copies.remaining_files)) or 'nothing'}.")
    if policy.exists():
        click.echo(f"{_printable(policy)} can no longer be queried. {_DRAFT_AGAIN}")


def _printable(path: Path) -> str:
    return escape_unprintable(str(path))
