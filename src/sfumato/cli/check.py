"""``sfumato check`` prints what the curator found in a policy and its sources."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.curator.checking import CheckedTable, CheckReport, check
from sfumato.safe_text import printable

_PRIVATE = "PRIVATE: exact figures for the owner alone. Never log, share or publish them."


def report(path: Path, *, private: bool) -> None:
    """Print every table in turn: what is public first, then what only its owner may see."""
    found = check(path, private=private)
    for name, line in found.misquoted:
        click.secho(f"{_PRIVATE}\n{name}: line {line:,} is not one record", fg="red", err=True)
    if found.refusal is not None:
        raise found.refusal
    click.secho(f"{path}: the policy is valid", fg="green")
    click.echo(f"  protects {found.policy.unit}, {found.policy.neighbours.value} neighbours")
    click.echo(f"  {found.promise}")
    for table in found.tables:
        _describe(table)
    if private:
        _show_costs(found)


def _describe(found: CheckedTable) -> None:
    click.secho(f"\n{found.table.name}", bold=True, nl=False)
    # A hash of private rows would let whoever reads it test a guess of them.
    click.echo(f" ({found.whose_rows})" + (f", content {found.content}" if found.table.public else ""))
    for column, words in found.declared.items():
        click.echo(f"  {column:<20} {words}")
    for condition in found.table.impossible:
        click.echo(f"  no row has           {printable(condition)}")
    for column, decided in found.table.implies.items():
        click.echo(f"  {column:<20} decides {decided}")


def _show_costs(found: CheckReport) -> None:
    click.secho(f"\n{_PRIVATE}", fg="red", bold=True)
    for table in found.tables:
        _show_cost(table, periods=found.policy.per is not None)
    click.secho(_PRIVATE, fg="red", bold=True)


def _show_cost(found: CheckedTable, *, periods: bool) -> None:
    costs, name = found.costs, found.table.name
    if costs is None:
        return
    lacking = "have no id, or no period that has an account" if periods else "have no id"
    click.echo(f"{name}: content {found.content}")
    click.echo(f"{name}: {costs.rows:,} rows of {costs.units:,} units; {costs.dropped:.2%} of rows {lacking}: dropped")
    if not found.table.every_row:
        units = "1 unit exceeds" if costs.exceeding == 1 else f"{costs.exceeding:,} units exceed"
        exceeding = f"{units} it, {costs.lost:.2%} of rows are beyond it"
        click.echo(f"  max_rows = {found.table.max_rows}: {exceeding}")
    click.echo(f"  {'column':<20} {'clamped':>9} {'made NULL':>10} {'missing':>9}")
    for column, cost in costs.columns.items():
        click.echo(f"  {column:<20} {cost.clamped:>9.2%} {cost.nulled:>10.2%} {cost.missing:>9.2%}")
