"""What ``sfumato check`` prints."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from sfumato.engine.files import Files, find, misquoted
from sfumato.engine.inspection import Inspection, inspect
from sfumato.engine.sources import Sources
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


def _opened(policy: Policy, *, private: bool) -> Sources:
    """The sources; a refusal does not say where in a file it met a wrong quote, so the owner is told here."""
    try:
        return Sources(policy)
    except InvalidPolicy:
        for table in policy.tables.values() if private else ():
            with suppress(InvalidPolicy):
                _name_misquoted(find(table.source, f"tables.{table.name}.source"))
        raise


def _name_misquoted(found: Files) -> None:
    for path in found.paths if found.kind == "csv" else ():
        if (line := misquoted(path)) is not None:
            click.secho(f"{_PRIVATE}\n{path}: line {line:,} is not one record", fg="red", err=True)


def _describe(name: str, table: Table, sources: Sources) -> None:
    kind = "public" if table.public else "every row a unit" if table.every_row else f"id {table.id}"
    click.secho(f"\n{name}", bold=True, nl=False)
    # A hash of private rows would let whoever reads it test a guess of them.
    click.echo(f" ({kind}), content {sources.fingerprint(name)[:16]}" if table.public else f" ({kind})")
    for column, domain in sources.columns(name).items():
        click.echo(f"  {column:<20} {shorten(domain, 90)}")


def _costs(policy: Policy, sources: Sources) -> None:
    click.secho(f"\n{_PRIVATE}", fg="red", bold=True)
    for name, table in policy.tables.items():
        if not table.public:
            click.echo(f"{name}: content {sources.fingerprint(name)[:16]}")
            _cost(name, table, inspect(sources, name))
    click.secho(_PRIVATE, fg="red", bold=True)


def _cost(name: str, table: Table, found: Inspection) -> None:
    click.echo(f"{name}: {found.rows:,} rows of {found.units:,} units; {found.dropped:.2%} of rows have no id: dropped")
    if not table.every_row:
        exceeding = f"{found.exceeding:,} units exceed it, {found.lost:.2%} of rows are beyond it"
        click.echo(f"  max_rows = {table.max_rows}: {exceeding}")
    click.echo(f"  {'column':<20} {'clamped':>9} {'made NULL':>10} {'missing':>9}")
    for column, cost in found.columns.items():
        click.echo(f"  {column:<20} {cost.clamped:>9.2%} {cost.nulled:>10.2%} {cost.missing:>9.2%}")
