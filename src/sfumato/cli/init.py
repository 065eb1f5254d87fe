"""The interview of ``sfumato init`` makes a policy file of the owner's answers, each checked as it is given."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from sfumato.cli.exit_codes import end_unfinished
from sfumato.cli.progress import ProgressLines
from sfumato.curator import Bounds, Curator
from sfumato.curator.bought_bounds import columns_without_bounds, write_bounds
from sfumato.curator.policy_drafts import columns_to_declare, refuse_if_written, tables_to_declare, write_draft
from sfumato.errors import InvalidPolicy, SfumatoError
from sfumato.policy import ROW, Domain, Policy, Table, Type
from sfumato.privacy import Budget, PrivacyUnit
from sfumato.privacy.numbers import text
from sfumato.release.prices import Price

T = TypeVar("T")
_SKIP = "-"


def interview(data: Path, output: Path, relation: str | None, bounds_epsilon: str | None) -> None:
    """Ask, check and write; nothing is written unless every answer was given. Then bounds may be bought."""
    refuse_if_written(output)
    price = None if bounds_epsilon is None else Price(bounds_epsilon)
    relation = relation or _chosen(data)
    found = columns_to_declare(data, relation)
    _show(data, found)
    try:
        drafted = _policy(data, relation, found)
    except click.Abort as ending:  # a Ctrl-C, or answers that end before the questions do
        end_unfinished(interrupted=isinstance(ending.__context__, KeyboardInterrupt))
    write_draft(drafted, output)
    click.echo(f"\nWritten: {output}.")
    missing = columns_without_bounds(drafted)
    if missing:
        price = price or _offered(missing, drafted.budget)
        if price is not None:
            _buy(drafted, output, missing, price)
    click.echo(f"Next: sfumato check {output}")


def _offered(missing: list[tuple[str, str]], budget: Budget) -> Price | None:
    """Ask what the owner would pay for each column without bounds; no answer is no."""
    named = ", ".join(column for _, column in missing)
    click.echo(f"\nWithout bounds: {named}. They cannot be added up or averaged until they have some.")
    asked = f"Find bounds privately, at which ε each of {text(budget.epsilon)} for life (empty: not now)"
    try:
        return _ask(asked, lambda answer: Price(answer) if answer.strip() else None, default="")
    except click.Abort:  # the policy is written: whoever goes away now has answered everything
        click.echo()
        return None


def _buy(drafted: Policy, output: Path, missing: list[tuple[str, str]], price: Price) -> None:
    """Open the account, buy the bounds one by one, and write down what was found, whatever happens in between."""
    found: dict[tuple[str, str], Bounds] = {}
    click.echo(f"\n{len(missing)} searches at {price} each, from the account of {output.name}:")
    try:
        with ProgressLines() as progress, Curator(output, progress=progress) as curator:
            for table, column in missing:
                found[table, column] = curator.bounds(table, column).release(price.epsilon or 0)
                progress("showing")
                click.echo(f"  {found[table, column].words()}")
    finally:
        write_bounds(drafted, output, found)


def _chosen(data: Path) -> str | None:
    """Choose the one table of a database, or ask the owner which of several; other files have None."""
    names = tables_to_declare(data)
    if len(names) <= 1:
        return names[0] if names else None
    click.secho(f"The tables of {data.name}:", bold=True)
    for name in names:
        click.echo(f"  {name}")
    return _ask("The table to draft a policy for", _among(set(names)))


def _show(data: Path, found: dict[str, Type | None]) -> None:
    click.secho(f"The columns of {data.name} (no row was read):", bold=True)
    for name, kind in found.items():
        click.echo(f"  {name:<24} {kind.value if kind else 'written as text'}")
    click.echo()


def _policy(data: Path, relation: str | None, found: dict[str, Type | None]) -> Policy:
    name = _ask("The unit you protect, in one word (patient, customer, household …)", PrivacyUnit).name
    column = _ask(f"The column that says whose row it is, or {ROW} when every row is one {name}", _among({*found, ROW}))
    limit = None if column == ROW else _ask(f"Rows of one {name} that may count", _limit)
    budget = _ask("Epsilon for life, and delta if any (such as 3 1e-6)", lambda answer: Budget(*answer.split()[:2]))
    click.echo(
        f"\nFor each column: its type, or {_SKIP} to leave it out. Bounds and values come from you, not from the data."
    )
    columns = {each: domain for each, kind in found.items() if (domain := _column(each, kind, each == column))}
    if not columns:
        raise InvalidPolicy("a policy declares at least one column", place="columns", fix="give one of them a type")
    name_table = partial(_table, data, relation, columns, column, limit)
    table = _ask("A name for this table", name_table, default=_plain(data.stem))
    return Policy(PrivacyUnit(name, every_row=column == ROW), budget, {table.name: table})


def _column(name: str, kind: Type | None, unit: bool) -> Domain | None:
    """Ask what the owner declares of one column; None leaves it out, as is usual for an id."""
    choice = _ask(f"{name}: type", _kind, default=_SKIP if unit else (kind or Type.TEXT).value)
    if choice is None:
        return None
    if choice is Type.BOOLEAN:
        return Domain(choice)
    if choice is Type.TEXT:
        listed = f"{name}: its values, parted by commas (empty: not known)"
        return _ask(listed, lambda answer: Domain(choice, values=_parts(answer, ",")), default="")
    return _ask(
        f"{name}: bounds, low and high (empty: none)", lambda answer: Domain(choice, bounds=_parts(answer)), default=""
    )


def _parts(answer: str, separator: str | None = None) -> Any:
    return tuple(part.strip() for part in answer.split(separator)) if answer.strip() else None


def _kind(answer: str) -> Type | None:
    return None if answer.strip() == _SKIP else Type.of(answer.strip())


def _limit(answer: str) -> int:
    if not answer.isdecimal() or not 1 <= int(answer) <= 10**6:
        raise click.UsageError("a limit is a whole number between 1 and 1,000,000")
    return int(answer)


def _among(names: set[str]) -> Callable[[str], str]:
    def check(answer: str) -> str:
        if answer not in names:
            raise click.UsageError(f"the answer is one of {', '.join(sorted(names))}")
        return answer

    return check


def _table(
    data: Path, relation: str | None, columns: dict[str, Domain], unit: str, limit: int | None, name: str
) -> Table:
    return Table(name, data.absolute(), columns, id=unit, max_rows=limit, relation=relation)


def _plain(stem: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in stem)


def _ask(question: str, read: Callable[[str], T], default: str | None = None) -> T:
    """Ask until the answer can be read: a refusal is shown as its rule."""

    def checked(answer: Any) -> T:
        try:
            return read(str(answer))
        except SfumatoError as refusal:
            raise click.UsageError(refusal.rule) from None

    return click.prompt(question, default=default, value_proc=checked, show_default=bool(default))
