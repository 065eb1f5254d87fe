"""The flags of ``sfumato init`` are answers that were given before a question was asked, by the key of the question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.drafting.interview import SKIP
from sfumato.curator.policy_drafts import FoundTable
from sfumato.policy import Type
from sfumato.untrusted import printable

if TYPE_CHECKING:
    from sfumato.policy import Domain

Tables = Mapping[str, FoundTable]


def given_answers(flags: Mapping[str, Any], tables: Tables, known: Mapping[str, str]) -> dict[str, str]:
    """List the answers that flags give about these tables; what a flag says outweighs a SmartNoise file."""
    given = {**known, **_from_smartnoise(flags["smartnoise"], tables)}
    if flags["unit"]:
        given["unit"] = flags["unit"]
    if flags["epsilon"]:
        given["budget"] = f"{flags['epsilon']} {flags['delta'] or ''}".strip()
    elif flags["delta"]:
        raise click.UsageError("give --delta together with --epsilon")
    given |= {f"{_table(each, tables, '--public')}.role": "public" for each in flags["public"]}
    given |= dict(_of_tables(flags["names"], tables, "--name", "name"))
    given |= dict(_of_tables(flags["max_rows"], tables, "--max-rows", "max_rows"))
    given |= dict(_ids(flags["ids"], tables))
    for each in flags["columns"]:
        given |= _column(each, tables)
    return given


def _table(name: str, tables: Tables, flag: str) -> str:
    if name not in tables:
        raise click.UsageError(f"{flag} names one of {', '.join(tables)}")
    return name


def _of_tables(written: Iterable[str], tables: Tables, flag: str, key: str) -> Iterable[tuple[str, str]]:
    for each in written:
        name, equals, value = each.partition("=")
        if not equals:
            yield from ((f"{table}.{key}", each) for table in tables)
        else:
            yield f"{_table(name, tables, flag)}.{key}", value


def _ids(written: Iterable[str], tables: Tables) -> Iterable[tuple[str, str]]:
    """One column is that of every table that has it; a table may name its own."""
    for each in written:
        name, _, value = each.partition("=")
        if name in tables:
            yield f"{name}.id", value
            continue
        own = [table for table, found in tables.items() if each == "row" or each in found.columns]
        if not own:
            raise click.UsageError(f"no table has a column {each}: --id names one, or is TABLE=COLUMN")
        yield from ((f"{table}.id", each) for table in own)


def _column(written: str, tables: Tables) -> dict[str, str]:
    """Read TABLE.COLUMN=TYPE and what follows; without a table it is meant for every table that has the column."""
    place, equals, declared = written.partition("=")
    own = [(table, place) for table, found in tables.items() if place in found.columns]
    own += [
        (table, place.removeprefix(f"{table}."))
        for table, found in tables.items()
        if place.startswith(f"{table}.") and place.removeprefix(f"{table}.") in found.columns
    ]
    if equals and not own:
        names = list(dict.fromkeys(column for found in tables.values() for column in found.columns))
        near = get_close_matches(place, names, n=1)
        fix = f"did you mean {near[0]}?" if near else f"--column names one of {', '.join(names)}"
        raise click.UsageError(f"no table has a column {place}: {fix}")
    if not equals:
        raise click.UsageError(f"--column names a column and what it is, as in age='integer 0 110'; got {written}")
    kind, _, rest = declared.strip().partition(" ")
    found = {}
    for table, column in own:
        found[f"{table}.columns.{column}.type"] = kind
        if kind != SKIP:
            found[f"{table}.columns.{column}.{'values' if kind == Type.TEXT.value else 'bounds'}"] = rest
    return found


def _from_smartnoise(path: Any, tables: Tables) -> dict[str, str]:
    """Give the answers that a SmartNoise file has for these tables."""
    if path is None:
        return {}
    from sfumato.policy.smartnoise import read_smartnoise

    declared = read_smartnoise(path)
    given: dict[str, str] = {}
    for table in tables:
        only = next(iter(declared.values())) if len(declared) == len(tables) == 1 else None
        known = next((each for name, each in declared.items() if name.lower() == table.lower()), only)
        if known is None:
            continue
        given[f"{table}.id"] = known.id
        if known.max_rows is not None:
            given[f"{table}.max_rows"] = str(known.max_rows)
        for column, domain in known.columns.items():
            given |= _declared(f"{table}.columns.{column}", domain)
        unnamed = [each for each in tables[table].columns if each not in known.columns]
        given |= {f"{table}.columns.{each}.type": SKIP for each in unnamed}
        absent = [each for each in known.columns if each not in tables[table].columns]
        _say_differences(path, table, [each for each in unnamed if each != known.id], absent)
    return given


def _say_differences(path: Any, table: str, unnamed: list[str], absent: list[str]) -> None:
    """Tell the owner where a SmartNoise file and the table do not fit."""
    if unnamed:
        click.echo(f"Left out of {table}, since {path} does not name them: {', '.join(map(printable, unnamed))}.")
    if absent:
        click.echo(f"Named in {path}, and not in {table}: {', '.join(map(printable, absent))}.")


def _declared(key: str, domain: Domain) -> dict[str, str]:
    ends = "" if domain.bounds is None else " ".join(map(str, domain.bounds))
    if domain.type is Type.TEXT:
        return {f"{key}.type": domain.type.value, f"{key}.values": ""}
    return {f"{key}.type": domain.type.value} | ({} if domain.type is Type.BOOLEAN else {f"{key}.bounds": ends})
