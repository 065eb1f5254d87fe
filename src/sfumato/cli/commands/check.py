"""``sfumato check``: print the findings of a check of a policy and its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import click

from sfumato.cli.common.exit_codes import calls_to_flags
from sfumato.curator.checking import CheckedTable, CheckReport, check
from sfumato.policy.cell_rules import CellRules
from sfumato.untrusted import escape_unprintable

_PRIVATE = "PRIVATE: exact figures for the owner alone. Never log, share or publish them."
_SHARED = "SAFE TO SHARE: what causes the noise of typical questions, from the policy alone."
_MAX_LIMITS = 11
"""Limits in one table of losses."""


def print_check(path: Path, *, private: bool, lossy: Sequence[str] = ()) -> None:
    """Print the public facts of every table, then, if ``private``, the figures for the owner alone."""
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
