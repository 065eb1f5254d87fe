"""``sfumato audit``: search for evidence that a policy's curator violates its privacy guarantee."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP, REFUSED

if TYPE_CHECKING:
    from sfumato.audit.whole_policies.curator_findings import CuratorAudit


_PIPE_SECONDS = 10.0
"""Seconds between two phases that are printed to a file or a pipe, such as the log of a nightly audit."""
_PIPE_WIDTH = 100
"""The width of the table in a pipe or a file, in characters: the remarks on a question are long."""


@click.command(short_help="Test a policy's privacy guarantee on invented tables.", epilog=EXIT_CODES_HELP)
@options.policy
@click.option("--minutes", metavar="N", default="5", show_default=True, help="Stop after about N minutes.")
@click.option(
    "--questions", type=click.Path(path_type=Path), metavar="FILE", help="Audit the questions of this .sql file first."
)
@click.option(
    "--seed", metavar="N", type=int, help="The seed that an earlier audit printed, to ask its random questions again."
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the result as a web page.",
)
@options.as_json
def audit_command(
    policy: Path, minutes: str, questions: Path | None, seed: int | None, html: Path | None, as_json: bool
) -> None:
    """Search for evidence that POLICY's answers reveal more about a person than its guarantee allows.

    The audit invents neighbouring tables from the policy, with a unit at, below and beyond every limit. It asks them
    questions of every kind, and random ones from the grammar of supported SQL, and compares exact changes, noise and
    whole releases. It also plants faults, and reports a lack of power if it misses one. After the first
    questions it estimates how many there is time for. Your data are not read and your budget is not spent. The exit
    code is 1 if there is any doubt.

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
    from sfumato.cli.common.output import ProgressPrinter, check_output_files
    from sfumato.curator.policy_account import read_policy

    parsed_policy = read_policy(policy)
    if html is not None:
        check_output_files(parsed_policy, None, html)
    announce = partial(click.echo, err=True)
    with ProgressPrinter(pipe_seconds=_PIPE_SECONDS) as progress:
        result = curator(parsed_policy, minutes, questions, seed=seed, progress=progress, announce=announce)
    if html is not None:
        page(result).save(html)
    if as_json:
        click.echo(result.to_json())
    else:
        _print_audit(result)
        if html is not None:
            click.echo(f"Written: {html}, a self-contained page.")
    if not result.holds:
        sys.exit(REFUSED)


def _print_audit(result: CuratorAudit) -> None:
    """Print the tests, the planted faults and every doubt."""
    from sfumato.audit.whole_policies.curator_findings import COLUMNS, result_row
    from sfumato.cli.common.output import print_table

    print_table(COLUMNS, [result_row(test) for test in result.tried], pipe_width=_PIPE_WIDTH)
    click.echo()
    print_table(
        ("planted fault", "result"), [(fault.name, "caught" if fault.caught else "MISSED") for fault in result.faults]
    )
    click.echo()
    for note in (*result.notes, *filter(None, [result.seed_summary])):
        click.echo(note)
    for doubt in result.doubts:
        click.secho(doubt, fg="red")
    click.echo(str(result))
