"""``sfumato check`` prints what the curator found in a policy and its sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import click

from sfumato.cli.common.exit_codes import as_flags
from sfumato.curator.checking import CheckedTable, CheckReport, check
from sfumato.untrusted import printable

_PRIVATE = "PRIVATE: exact figures for the owner alone. Never log, share or publish them."
_SHARED = "SAFE TO SHARE: what makes the noise of typical questions, from the policy alone."
_MOST_LIMITS = 11
"""Limits of which one table of losses tells."""


def report(path: Path, *, private: bool, lossy: Sequence[str] = ()) -> None:
    """Print every table in turn: what is public first, then what only its owner may see."""
    found = check(path, private=private)
    for name, line in found.misquoted:
        click.secho(f"{_PRIVATE}\n{name}: line {line:,} is not one record", fg="red", err=True)
    if found.refusal is not None:
        raise found.refusal
    click.secho(f"{path}: the policy is valid", fg="green")
    click.echo(f"  protects {found.policy.unit}, {found.policy.neighbours.value} neighbours")
    click.echo(f"  {found.promise}")
    for warning in found.warnings:
        click.secho(f"  {warning}", fg="yellow")
    for table in found.tables:
        _describe(table)
    _advise(found)
    if private:
        _show_costs(found)
        found.require_kept(lossy)


def _describe(found: CheckedTable) -> None:
    click.secho(f"\n{found.table.name}", bold=True, nl=False)
    # A hash of private rows would let whoever reads it test a guess of them.
    click.echo(f" ({found.whose_rows})" + (f", content {found.content}" if found.table.public else ""))
    for column, words in found.declared.items():
        click.echo(f"  {column:<20} {words}")
    for remark in found.remarks:
        click.secho(f"  {remark}", fg="yellow")
    for condition in found.table.impossible:
        click.echo(f"  no row has           {printable(condition)}")
    for column, decided in found.table.implies.items():
        click.echo(f"  {column:<20} decides {decided}")


def _advise(found: CheckReport) -> None:
    """Print each question with what makes its error; questions that are told the same stand together."""
    if not found.advice:
        return
    click.secho(f"\n{_SHARED}", fg="green", bold=True)
    for price, group in groupby(found.advice, key=lambda each: each.price):
        click.echo(f"At {price}:")
        told = list(group)
        for each in filter(lambda asked: asked.tips, told):
            click.echo(f"  {each.question}")
            for tip in each.tips:
                line = as_flags(str(tip))
                click.echo(click.wrap_text(line, 116, initial_indent="    ", subsequent_indent="      "))
        others = [each.question for each in told if not each.tips]
        if others:
            click.echo("  No limit or bound of one unit makes most of the error of:")
        for question in others:
            click.echo(f"    {question}")


def _show_costs(found: CheckReport) -> None:
    click.secho(f"\n{_PRIVATE}", fg="red", bold=True)
    for table in found.tables:
        _show_cost(table, periods=found.policy.per is not None)
    _show_times(found)
    click.secho(_PRIVATE, fg="red", bold=True)


def _show_cost(found: CheckedTable, *, periods: bool) -> None:
    costs, name = found.costs, found.table.name
    if costs is None:
        return
    lacking = "have no id, or no period that has an account" if periods else "have no id"
    click.echo(f"{name}: fingerprint of its rows {found.content}")
    if found.table.every_row and not costs.dropped:
        click.echo(f"{name}: {costs.rows:,} rows, each of them a unit")
    else:
        whose = f"{costs.rows:,} rows of {costs.units:,} units"
        click.echo(f"{name}: {whose}; {costs.dropped:.2%} of rows {lacking}: dropped")
    if not found.table.every_row:
        units = "1 unit exceeds" if costs.exceeding == 1 else f"{costs.exceeding:,} units exceed"
        exceeding = f"{units} it, {costs.lost:.2%} of rows are beyond it"
        click.echo(f"  max_rows = {found.table.max_rows}: {exceeding}")
        _show_losses("max_rows", {"rows beyond it": costs.by_rows})
        _show_losses("max_groups", {f"groups by {name}": each for name, each in costs.by_groups.items()})
    click.echo(f"  {'column':<20} {'below':>9} {'above':>9} {'clamped':>9} {'made NULL':>10} {'missing':>9}")
    for column, cost in costs.columns.items():
        ends = f"{cost.low:>9.2%} {cost.high:>9.2%} {cost.clamped:>9.2%}"
        mark = "  more than half is lost" if f"{name}.{column}" in found.emptied else ""
        click.echo(f"  {column:<20} {ends} {cost.nulled:>10.2%} {cost.missing:>9.2%}{mark}")


def _show_times(found: CheckReport) -> None:
    """Print when a server should answer, and what that rests on."""
    if found.answer_after is None:
        return
    longest = max(found.times, key=lambda each: each.seconds)
    click.echo(f"Of {len(found.times)} typical questions, this one took longest here, {longest.seconds:.2g} s:")
    click.echo(f"  {longest.question}")
    click.echo("Before others ask over a network, write at least this into server.toml, for serve --settings:")
    click.echo(f"  answer_after = {found.answer_after}")


def _show_losses(limit: str, lost: Mapping[str, Mapping[int, float]]) -> None:
    """Print a small table: what each limit would leave out, up to the first that leaves out nothing."""
    if not lost:
        return
    needed = max(sum(share > 0 for share in each.values()) for each in lost.values())
    limits = list(next(iter(lost.values())))[: needed + 1][-_MOST_LIMITS:]
    click.echo(f"  {limit:<20} " + " ".join(f"{each:>7,}" for each in limits))
    for name, shares in lost.items():
        click.echo(f"  {name:<20} " + " ".join(f"{shares[each]:>7.1%}" for each in limits))
