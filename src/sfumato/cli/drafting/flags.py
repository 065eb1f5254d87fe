"""Answers that the flags of ``sfumato init`` give, by the key of their question."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.drafting.column_interview import VALUES, parse_cell_list, split_bounds_and_rules
from sfumato.cli.drafting.interview import SKIP
from sfumato.curator.policy_drafts import DetectedTable
from sfumato.policy import Type
from sfumato.untrusted import escape_unprintable

if TYPE_CHECKING:
    from sfumato.policy import Domain

Tables = Mapping[str, DetectedTable]


def answers_from_flags(flags: Mapping[str, Any], tables: Tables, earlier_answers: Mapping[str, str]) -> dict[str, str]:
    """Return the answers of the flags about these tables; a flag overrides a SmartNoise file."""
    answers = {**earlier_answers, **_smartnoise_answers(flags["smartnoise"], tables)}
    if flags["unit"]:
        answers["unit"] = flags["unit"]
    if flags["epsilon"]:
        answers["budget"] = f"{flags['epsilon']} {flags['delta'] or ''}".strip()
    elif flags["delta"]:
        raise click.UsageError("give --delta together with --epsilon")
    if flags["people"]:
        answers["people"] = flags["people"]
    answers |= {f"{_check_table(text, tables, '--public')}.role": "public" for text in flags["public"]}
    answers |= dict(_parse_table_flags(flags["names"], tables, "--name", "name"))
    answers |= dict(_parse_table_flags(flags["max_rows"], tables, "--max-rows", "max_rows"))
    answers |= dict(_parse_table_flags(flags["nulls"], tables, "--nulls", "nulls"))
    answers |= dict(_parse_ids(flags["ids"], tables))
    for text in flags["columns"]:
        answers |= _parse_column(text, tables)
    return answers


def _check_table(name: str, tables: Tables, flag: str) -> str:
    if name not in tables:
        raise click.UsageError(f"{flag} needs the name of a table: one of {', '.join(tables)}")
    return name


def _parse_table_flags(texts: Iterable[str], tables: Tables, flag: str, key: str) -> Iterable[tuple[str, str]]:
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            yield from ((f"{table}.{key}", text) for table in tables)
        else:
            yield f"{_check_table(name, tables, flag)}.{key}", value


def nulls_from_flags(texts: Iterable[str], table: str) -> list[str]:
    """Return the missing cells that --nulls names for a table, the last of its flags alone."""
    cell_lists = [text.removeprefix(f"{table}=") for text in texts if "=" not in text or text.startswith(f"{table}=")]
    return parse_cell_list(cell_lists[-1]) if cell_lists else []


def _parse_ids(texts: Iterable[str], tables: Tables) -> Iterable[tuple[str, str]]:
    """Yield the id of each table: COLUMN is for every table that has it, TABLE=COLUMN for one."""
    for text in texts:
        name, _, value = text.partition("=")
        if name in tables:
            yield f"{name}.id", value
            continue
        tables_with_column = [
            table for table, candidate in tables.items() if text == "row" or text in candidate.columns
        ]
        if not tables_with_column:
            raise click.UsageError(f"no table has a column {text}: write --id COLUMN or --id TABLE=COLUMN")
        yield from ((f"{table}.id", text) for table in tables_with_column)


def _parse_column(text: str, tables: Tables) -> dict[str, str]:
    """Parse TABLE.COLUMN=TYPE and its bounds or values; without a table it applies to every table with the column."""
    path, equals, declaration = text.partition("=")
    targets = [(table, path) for table, candidate in tables.items() if path in candidate.columns]
    targets += [
        (table, path.removeprefix(f"{table}."))
        for table, candidate in tables.items()
        if path.startswith(f"{table}.") and path.removeprefix(f"{table}.") in candidate.columns
    ]
    if equals and not targets:
        names = list(dict.fromkeys(column for candidate in tables.values() for column in candidate.columns))
        close_matches = get_close_matches(path, names, n=1)
        fix = f"did you mean {close_matches[0]}?" if close_matches else f"the columns are {', '.join(names)}"
        raise click.UsageError(f"no table has a column {path}: {fix}")
    if not equals:
        raise click.UsageError(f"write --column NAME=DECLARATION, such as --column age='integer 0 110'; got {text}")
    kind, _, rest = declaration.strip().partition(" ")
    if kind == VALUES:
        typed = f"integer {VALUES} {rest}" if re.fullmatch(r"[-0-9,. ]+", rest) else f"text {rest}"
        raise click.UsageError(f"write the type first: --column {quote(path)}={quote(typed)}")
    domain_text, rules_text = (
        split_bounds_and_rules(Type(kind), rest) if kind in {sql_type.value for sql_type in Type} else (rest, "")
    )
    if kind == Type.BOOLEAN.value and domain_text:
        raise click.UsageError(f"a boolean has no bounds and no values: write --column {quote(path)}=boolean")
    answers = {}
    for table, column in targets:
        answers[f"{table}.columns.{column}.type"] = kind
        if kind != SKIP:
            answers[f"{table}.columns.{column}.{'values' if kind == Type.TEXT.value else 'bounds'}"] = domain_text
        if rules_text:
            answers[f"{table}.columns.{column}.rules"] = rules_text
    return answers


def _smartnoise_answers(path: Any, tables: Tables) -> dict[str, str]:
    """Return the answers of a SmartNoise metadata file for these tables."""
    if path is None:
        return {}
    from sfumato.policy.toml_files import read_smartnoise

    metadata_tables = read_smartnoise(path)
    answers: dict[str, str] = {}
    for table in tables:
        single_table = next(iter(metadata_tables.values())) if len(metadata_tables) == len(tables) == 1 else None
        metadata = next(
            (table_metadata for name, table_metadata in metadata_tables.items() if name.lower() == table.lower()),
            single_table,
        )
        if metadata is None:
            continue
        answers[f"{table}.id"] = metadata.id
        if metadata.max_rows is not None:
            answers[f"{table}.max_rows"] = str(metadata.max_rows)
        for column, domain in metadata.columns.items():
            answers |= _column_answers(f"{table}.columns.{column}", domain)
        unnamed = [column for column in tables[table].columns if column not in metadata.columns]
        answers |= {f"{table}.columns.{column}.type": SKIP for column in unnamed}
        absent = [column for column in metadata.columns if column not in tables[table].columns]
        _print_differences_from_smartnoise(path, table, [column for column in unnamed if column != metadata.id], absent)
    return answers


def _print_differences_from_smartnoise(path: Any, table: str, unnamed: list[str], absent: list[str]) -> None:
    """Print the columns that only the table or only the SmartNoise file has."""
    if unnamed:
        click.echo(
            f"{path} does not name these columns of {table}, which are left out: "
            f"{', '.join(map(escape_unprintable, unnamed))}."
        )
    if absent:
        click.echo(f"{path} names columns that {table} does not have: {', '.join(map(escape_unprintable, absent))}.")


def _column_answers(key: str, domain: Domain) -> dict[str, str]:
    bounds = "" if domain.bounds is None else " ".join(map(str, domain.bounds))
    if domain.type is Type.TEXT:
        return {f"{key}.type": domain.type.value, f"{key}.values": ""}
    return {f"{key}.type": domain.type.value} | ({} if domain.type is Type.BOOLEAN else {f"{key}.bounds": bounds})
