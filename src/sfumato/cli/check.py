"""What ``sfumato check`` prints."""

from __future__ import annotations

from pathlib import Path

import click

from sfumato.engine.opening import misquoted_lines, open_inspector
from sfumato.engine.seam import Inspection, Inspector
from sfumato.errors import InvalidPolicy, shorten
from sfumato.policy import Policy, Table, read
from sfumato.privacy import Guarantee

_PRIVATE = "PRIVATE: exact figures for the owner alone. Never log, share or publish them."


def report(path: Path, *, private: bool) -> None:
    """Every table in turn: what is public first, then what only its owner may see."""
    policy = read(path)
    with _opened(policy, private=private) as sources:
        click.secho(f"{path}: the policy is valid", fg="green")
        click.echo(f"  protects {policy.unit}, {policy.neighbours.value} neighbours")
        click.echo(f"  {Guarantee(policy.budget.epsilon, policy.budget.delta)} for life")
        for name, table in policy.tables.items():
            _describe(name, table, sources)
        if private:
            _costs(policy, sources)


def _opened(policy: Policy, *, private: bool) -> Inspector:
    """The sources; a refusal does not say where in a file it met a wrong quote, so the owner is told here."""
    try:
        return open_inspector(policy)
    except InvalidPolicy:
        for path, line in misquoted_lines(policy) if private else ():
            click.secho(f"{_PRIVATE}\n{path}: line {line:,} is not one record", fg="red", err=True)
        raise


def _describe(name: str, table: Table, sources: Inspector) -> None:
    kind = "public" if table.public else "every row a unit" if table.every_row else f"id {table.id}"
    click.secho(f"\n{name}", bold=True, nl=False)
    # A hash of private rows would let whoever reads it test a guess of them.
    click.echo(f" ({kind}), content {sources.fingerprint(name)[:16]}" if table.public else f" ({kind})")
    for column, domain in sources.columns(name).items():
        click.echo(f"  {column:<20} {shorten(domain, 90)}")


def _costs(policy: Policy, sources: Inspector) -> None:
    click.secho(f"\n{_PRIVATE}", fg="red", bold=True)
    for name, table in policy.tables.items():
        if not table.public:
            click.echo(f"{name}: content {sources.fingerprint(name)[:16]}")
            _cost(name, table, sources.inspect(name))
    click.secho(_PRIVATE, fg="red", bold=True)


def _cost(name: str, table: Table, found: Inspection) -> None:
    click.echo(f"{name}: {found.rows:,} rows of {found.units:,} units; {found.dropped:.2%} of rows have no id: dropped")
    if not table.every_row:
        exceeding = f"{found.exceeding:,} units exceed it, {found.lost:.2%} of rows are beyond it"
        click.echo(f"  max_rows = {table.max_rows}: {exceeding}")
    click.echo(f"  {'column':<20} {'clamped':>9} {'made NULL':>10} {'missing':>9}")
    for column, cost in found.columns.items():
        click.echo(f"  {column:<20} {cost.clamped:>9.2%} {cost.nulled:>10.2%} {cost.missing:>9.2%}")
