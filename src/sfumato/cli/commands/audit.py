"""The command ``sfumato audit`` tries to prove that a policy's curator breaks its promise."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES, REFUSED

if TYPE_CHECKING:
    from sfumato.audit.whole_policies.curator_findings import CuratorAudit


_FOLDED = 100
"""Columns of the table in a pipe or a file: what is told of a question is long."""


@click.command(short_help="Try to break a policy's promise, on invented tables.", epilog=EXIT_CODES)
@options.policy
@click.option("--minutes", metavar="N", default="5", show_default=True, help="The most it may take, about.")
@click.option(
    "--questions", type=click.Path(path_type=Path), metavar="FILE", help="Your own questions, in a .sql file, first."
)
@click.option("--seed", metavar="N", type=int, help="Draw the questions of an earlier audit, which told its seed.")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write a page to keep, too."
)
@options.as_json
def command(
    policy: Path, minutes: str, questions: Path | None, seed: int | None, html: Path | None, as_json: bool
) -> None:
    """Try to prove that POLICY's answers tell more about a person than they promise.

    Tables are invented from the policy, with a unit at every limit, one row below it and one beyond. Questions of every
    kind, and others that are drawn from the grammar of what can be asked, are put to neighbouring tables: what is seen
    of them, exact changes, noise and whole releases are compared. Faults are planted too, and must be caught, or the
    audit says that it has no power. No row of yours is read, and nothing of your budget is spent. The exit code is 1 on
    any doubt.

    \b
    Examples:
      sfumato audit clinic.toml
      sfumato audit clinic.toml --minutes 30 --html audit.html
      sfumato audit clinic.toml --questions ours.sql
      sfumato audit clinic.toml --seed 3141592653
      sfumato audit clinic.toml --json
    """
    from sfumato.audit.whole_policies.curator_audits import curator
    from sfumato.audit.whole_policies.curator_findings import page
    from sfumato.cli.common.output import ProgressLines, check_written
    from sfumato.curator.policy_account import read_policy

    declared = read_policy(policy)
    if html is not None:
        check_written(declared, None, html)
    with ProgressLines() as progress:
        found = curator(declared, minutes, questions, seed=seed, progress=progress)
    if html is not None:
        page(found).save(html)
    if as_json:
        click.echo(found.to_json())
    else:
        _show(found)
        if html is not None:
            click.echo(f"Written: {html}, a page that needs nothing else.")
    if not found.holds:
        sys.exit(REFUSED)


def _show(found: CuratorAudit) -> None:
    """Print what was tried, the faults that were planted, and every doubt."""
    from sfumato.audit.whole_policies.curator_findings import COLUMNS, row
    from sfumato.cli.common.output import show

    show(COLUMNS, [row(each) for each in found.tried], piped=_FOLDED)
    click.echo()
    show(("planted fault", "result"), [(each.name, "caught" if each.caught else "MISSED") for each in found.faults])
    click.echo()
    for note in (*found.notes, *filter(None, [found.drawn_words])):
        click.echo(note)
    for doubt in found.doubts:
        click.secho(doubt, fg="red")
    click.echo(str(found))
