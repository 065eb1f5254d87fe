"""``sfumato describe``, ``check``, ``dummy`` and ``forget``: what a policy allows, and the files it makes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP, calls_to_flags
from sfumato.untrusted import escape_unprintable

if TYPE_CHECKING:
    from sfumato.curator.checking import CheckedTable, CheckReport
    from sfumato.policy import Policy
    from sfumato.policy.cell_rules import CellRules


@click.command(short_help="Describe what can be asked.", epilog=EXIT_CODES_HELP)
@options.policy
@click.argument("table", required=False)
def describe_command(policy: Path, table: str | None) -> None:
    """Describe whom POLICY protects and what its tables and columns, or those of one TABLE, may contain.

    Example questions follow, each with its expected error. Only the policy is read: no data, no ledger.

    \b
    Examples:
      sfumato describe clinic.toml
      sfumato describe clinic.toml visits
    """
    from sfumato.curator import describe_policy

    tables = describe_policy(policy)
    click.echo(str(tables if table is None else tables.find(table)))
    described = tables.values() if table is None else [tables.find(table)]
    examples = [question for description in described for question in description.questions]
    if examples:
        line = f"sfumato query {shlex.quote(str(policy))} {shlex.quote(examples[0].sql)} --epsilon 1 --dry-run"
        click.echo(f"\nTry one (without --dry-run it is charged):\n  {line}")


_PRIVATE = "PRIVATE: exact figures for the owner alone. Never log, share or publish them."
_SHARED = "SAFE TO SHARE: what causes the noise of typical questions, from the policy alone."
_MAX_LIMITS = 11
"""Limits in one table of losses."""


def print_check(path: Path, *, private: bool, lossy: Sequence[str] = ()) -> None:
    """Print the public facts of every table, then, if ``private``, the figures for the owner alone."""
    from sfumato.curator.checking import check

    checked = check(path, private=private)
    for name, line in checked.misquoted:
        click.secho(f"{_PRIVATE}\n{name}: line {line:,} does not hold exactly one record", fg="red", err=True)
    if checked.refusal is not None:
        raise checked.refusal
    click.secho(f"{path}: the policy is valid", fg="green")
    click.echo(f"  protects {checked.policy.unit}, {checked.policy.neighbours.value} neighbours")
    click.echo(f"  {checked.promise}")
    for warning in checked.warnings:
        click.secho(f"  {warning}", fg="yellow")
    for table in checked.tables:
        _print_table(table)
    _print_advice(checked)
    if private:
        _print_private_figures(checked)
        checked.require_values_kept(lossy)


def _print_table(checked: CheckedTable) -> None:
    click.secho(f"\n{checked.table.name}", bold=True, nl=False)
    # A hash of private rows would let a reader test guesses about them.
    click.echo(f" ({checked.unit_description})" + (f", content {checked.content}" if checked.table.public else ""))
    for column, description in checked.declared.items():
        click.echo(f"  {column:<20} {description}")
    for remark in checked.remarks:
        click.secho(f"  {remark}", fg="yellow")
    for condition in checked.table.impossible:
        click.echo(f"  no row has           {escape_unprintable(condition)}")
    for column, implied_column in checked.table.implies.items():
        click.echo(f"  {column:<20} determines {implied_column}")


def _print_advice(checked: CheckReport) -> None:
    """Print what causes the error of each typical question, grouped by price."""
    if not checked.advice:
        return
    click.secho(f"\n{_SHARED}", fg="green", bold=True)
    for price, group in groupby(checked.advice, key=lambda advice: advice.price):
        click.echo(f"At {price}:")
        advices = list(group)
        for advice in filter(lambda advice: advice.tips, advices):
            click.echo(f"  {advice.question}")
            for tip in advice.tips:
                line = calls_to_flags(str(tip))
                click.echo(click.wrap_text(line, 116, initial_indent="    ", subsequent_indent="      "))
        others = [advice.question for advice in advices if not advice.tips]
        if others:
            click.echo("  Limits and bounds are not the main cause of error in these questions:")
        for question in others:
            click.echo(f"    {question}")


def _print_private_figures(checked: CheckReport) -> None:
    click.secho(f"\n{_PRIVATE}", fg="red", bold=True)
    if checked.exposure is not None:
        click.secho(click.wrap_text(checked.exposure, 116, subsequent_indent="  "), fg="yellow")
    for table in checked.tables:
        _print_clamped_and_dropped(table, periods=checked.policy.per is not None)
    _print_answer_after(checked)
    click.secho(_PRIVATE, fg="red", bold=True)


def _print_clamped_and_dropped(checked: CheckedTable, *, periods: bool) -> None:
    costs, name = checked.costs, checked.table.name
    if costs is None:
        return
    dropped_reason = "have no id, or are in no period with an account" if periods else "have no id"
    click.echo(f"{name}: the fingerprint of its rows is {checked.content}")
    if checked.table.every_row and not costs.without_id:
        click.echo(f"{name}: {costs.rows:,} rows, each row is one unit")
    else:
        row_counts = f"{costs.rows:,} rows of {costs.units:,} units"
        click.echo(f"{name}: {row_counts}; {costs.without_id:.2%} of rows {dropped_reason} and are dropped")
    if not checked.table.every_row:
        exceeding_units = (
            "1 unit exceeds" if costs.units_over_limit == 1 else f"{costs.units_over_limit:,} units exceed"
        )
        loss = f"{exceeding_units} this limit, and {costs.rows_over_limit:.2%} of rows are over it"
        click.echo(f"  max_rows = {checked.table.max_rows}: {loss}")
        _print_losses_by_limit("max_rows", {"rows beyond it": costs.lost_by_row_limit})
        _print_losses_by_limit(
            "max_groups", {f"groups by {name}": shares for name, shares in costs.lost_by_group_limit.items()}
        )
    click.echo(f"  {'column':<20} {'below':>9} {'above':>9} {'clamped':>9} {'made NULL':>10} {'missing':>9}")
    for column, cost in costs.columns.items():
        clamped_shares = f"{cost.clamped_low:>9.2%} {cost.clamped_high:>9.2%} {cost.clamped:>9.2%}"
        remark = "  more than half is lost" if f"{name}.{column}" in checked.lost_shares else ""
        click.echo(f"  {column:<20} {clamped_shares} {cost.nulled:>10.2%} {cost.missing:>9.2%}{remark}")
    _print_rules(checked)


_LOSING_KEYS = ("nulls", "possible")
"""The rules that call cells missing; the others say how cells are written."""


def _print_rules(checked: CheckedTable) -> None:
    """Print how many cells the rules of each column leave missing, and the rules that would read lost cells."""
    assert checked.costs is not None
    rows = round(checked.costs.rows * (1 - checked.costs.without_id))
    for column, rules in checked.rules.items():
        cost = checked.costs.columns[column]
        missing, unread = (round(share * rows) for share in (cost.missing_by_rules, cost.nulled))
        losing = [key for key in _LOSING_KEYS if getattr(rules, key)]
        verb = "leave" if len(losing) > 1 else "leaves"
        counts = [f"{' and '.join(losing)} {verb} {missing:,} of {rows:,} cells missing"] if losing else []
        counts += [f"{unread:,} fit no {' or '.join(_cell_rule_keys(rules))}"] if _cell_rule_keys(rules) else []
        click.echo(f"  {column:<20} {'; '.join(counts)}")
    for column, to_add in checked.rules_to_add.items():
        phrases = (
            [f"cells look missing: to count them as missing, add {to_add.nulls_toml}"] if to_add.nulls_toml else []
        )
        phrases += (
            [f"to read the cells that are lost, add {' or '.join(to_add.readings_toml)}"]
            if to_add.readings_toml
            else []
        )
        click.secho(f"  {column:<20} {'; '.join(phrases)}", fg="yellow")


def _cell_rule_keys(rules: CellRules) -> list[str]:
    return [key for key in rules.keys if key not in _LOSING_KEYS]


def _print_answer_after(checked: CheckReport) -> None:
    """Print the recommended ``answer_after`` of a server, and the measurement behind it."""
    if checked.answer_after is None:
        return
    slowest = max(checked.times, key=lambda timing: timing.seconds)
    click.echo(f"The slowest of {len(checked.times)} typical questions took {slowest.seconds:.2g} s on this machine:")
    click.echo(f"  {slowest.question}")
    click.echo(
        "Before you serve this policy over a network, set at least this value in server.toml (sfumato serve "
        "--settings):"
    )
    click.echo(f"  answer_after = {checked.answer_after}")


def _print_losses_by_limit(limit: str, losses: Mapping[str, Mapping[int, float]]) -> None:
    """Print the share of data that each limit would discard, up to the first that discards nothing."""
    if not losses:
        return
    needed = max(sum(share > 0 for share in shares.values()) for shares in losses.values())
    limits = list(next(iter(losses.values())))[: needed + 1][-_MAX_LIMITS:]
    click.echo(f"  {limit:<20} " + " ".join(f"{limit_value:>7,}" for limit_value in limits))
    for name, shares in losses.items():
        click.echo(f"  {name:<20} " + " ".join(f"{shares[limit_value]:>7.1%}" for limit_value in limits))


_FILE_SUFFIXES = (".csv", ".tsv", ".gz", ".parquet", ".pq", ".duckdb", ".db")


@click.command(short_help="Write invented tables to test code on, for free.", epilog=EXIT_CODES_HELP)
@options.policy
@click.option(
    "--rows", metavar="N", default="1000", show_default=True, help="The number of rows of each private table."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("dummy"),
    show_default=True,
    help="A new folder for the invented tables and a copy of the policy.",
)
def dummy_command(policy: Path, rows: str, output: Path) -> None:
    """Invent rows for each table of POLICY, to develop code against. No data are read, nothing is charged.

    Types, values, bounds and limits are those of the policy. The rows are the same every time, and their statistics
    mean nothing. Query the policy in the new folder.

    \b
    Example:
      sfumato dummy clinic.toml --rows 1000 -o dummy
      sfumato query dummy/clinic.toml "SELECT COUNT(*) AS visits FROM visits" --epsilon 0.5
    """
    from sfumato.errors import InvalidPolicy
    from sfumato.policy import read

    if output.suffix.lower() in _FILE_SUFFIXES:
        raise click.UsageError(f"-o names a new folder for all tables, not a file: write -o {output.with_suffix('')}")
    parsed_policy = read(policy)
    tables = parsed_policy.dummy(options.parse_row_count(rows) or 1)
    try:
        output.mkdir(parents=True)
    except OSError:
        raise InvalidPolicy(
            "invented tables need a new folder, and this one already exists or cannot be created",
            place=str(output),
            fix="name another folder with -o",
        ) from None
    relative_paths = _relative_sources(parsed_policy, policy.parent)
    for name, table in tables.items():
        target = output / relative_paths[name] if relative_paths else output / f"{_file_stem(name)}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_table(table, target, parsed_policy.tables[name].relation if relative_paths else None)
        click.echo(f"Written: {target}, {table.num_rows:,} invented rows.")
    for name in parsed_policy.tables:
        if name not in tables:
            click.echo(f"Left out: {name}, a public table without declared columns; copy it from its source.")
    if relative_paths:
        (output / policy.name).write_bytes(policy.read_bytes())
        click.echo(f"Written: {output / policy.name}, the same policy for these tables, with its own account.")


def _relative_sources(policy: Policy, folder: Path) -> dict[str, Path]:
    """Return each source's path relative to the policy; empty unless all are plain files in its folder."""
    relative_paths = {}
    for name, table in policy.tables.items():
        path = Path(str(getattr(table.source, "path", "")))
        if any(letter in path.name for letter in "*?[") or ".." in path.parts:
            return {}
        try:
            relative_paths[name] = path.relative_to(folder)
        except ValueError:
            return {}
    return relative_paths


def _write_table(table: Any, target: Path, relation: str | None) -> None:
    from pyarrow import csv, parquet

    if relation is not None:
        from sfumato.engine.inspecting import write_table

        write_table(table, target, relation)
    elif target.suffix.lower() == ".csv":
        csv.write_csv(table, target)
    else:
        parquet.write_table(table, target)


def _file_stem(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in " _-" else "_" for letter in name)


_DRAFT_AGAIN = (
    "To query the data again, move the policy away and run sfumato init on the original files; the ledger stays."
)


@click.command(short_help="Remove the copies that init made of private tables.", epilog=EXIT_CODES_HELP)
@options.policy
@click.option("--yes", "confirmed", is_flag=True, help="Do not ask for confirmation.")
def forget_command(policy: Path, confirmed: bool) -> None:
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
