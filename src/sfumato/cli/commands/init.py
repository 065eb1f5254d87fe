"""The command ``sfumato init`` makes a policy file of the owner's answers, each checked as it is given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import click

from sfumato.cli.common.exit_codes import EXIT_CODES, end_unfinished
from sfumato.cli.common.output import ProgressLines
from sfumato.cli.drafting import columns as init_columns, interview
from sfumato.cli.drafting.columns import Declared, assumed_words, declare_words, unnamed_words, without_values_words
from sfumato.cli.drafting.flags import given_answers
from sfumato.cli.drafting.interview import ALL, SKIP, Interview, InterviewQuestion, KeptAnswers, yes
from sfumato.curator import Bounds, Curator
from sfumato.curator.policy_drafts import (
    FoundTable,
    HowWritten,
    columns_without_bounds,
    copied,
    data_files,
    found_tables,
    names_people,
    only_key,
    own_names,
    refuse_if_written,
    rows_to_read,
    suggested_bounds,
    suggested_id,
    suggested_path,
    suggested_unit,
    with_types,
    write_bounds,
    write_draft,
)
from sfumato.errors import InvalidPolicy
from sfumato.policy import ROW, Domain, Policy, Table, Type, Via
from sfumato.privacy import Budget, PrivacyUnit
from sfumato.privacy.numbers import text
from sfumato.release.prices import Price
from sfumato.untrusted import printable

T = TypeVar("T")
_SHOWN = 40
"""Columns that are listed of a table before it is asked about."""


@click.command(short_help="Draft a policy by answering questions.", epilog=EXIT_CODES)
@click.argument("data", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("policy.toml"), show_default=True)
@click.option("--unit", metavar="WORD", help="Whom you protect: patient, customer, household …")
@click.option(
    "--id",
    "ids",
    help="The column that says whose row it is, or row; or TABLE.COLUMN.",
    multiple=True,
    metavar="[TABLE=]…",
)
@click.option("--max-rows", "max_rows", help="Rows of one unit that may count.", multiple=True, metavar="[TABLE=]…")
@click.option("--name", "names", multiple=True, metavar="TABLE=NAME", help="A name for a table.")
@click.option("--public", multiple=True, metavar="TABLE", help="A table that is about nobody.")
@click.option("--skip", multiple=True, metavar="TABLE", help="A table that is left out.")
@click.option("--epsilon", metavar="NUMBER", help="The budget for life.")
@click.option("--delta", metavar="NUMBER", help="The δ of the budget, if any.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="[TABLE.]COLUMN=…",
    help="What a column is: 'integer 0 110', 'integer 0 110 bins 11', 'integer values 0,1', 'text north,south', date, "
    "or - to leave it out.",
)
@click.option("--relation", multiple=True, help="Only this table inside DATA, when it is a database.")
@click.option(
    "--read-rows/--no-read-rows", default=None, help="Whether rows may be read to find types: private reading."
)
@click.option("--copy/--no-copy", default=None, help="Whether files that the engine cannot read are copied as Parquet.")
@click.option("--delimiter", metavar="LETTER", help="What parts the cells of text files.  [default: found out]")
@click.option("--encoding", metavar="NAME", help="Of text files, such as latin-1.  [default: found out]")
@click.option("--quote", metavar="LETTER", help="What stands around the cells of text files.  [default: found out]")
@click.option("--decimal", type=click.Choice([".", ","]), default=".", help="The decimal point of text files.")
@click.option(
    "--from-smartnoise",
    "smartnoise",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take answers from this YAML.",
)
@click.option(
    "--bounds-epsilon",
    metavar="NUMBER",
    help="Once the account is open, find the bounds of each column that has none, privately, at this ε each.",
)
@click.option("--yes", "take_defaults", is_flag=True, help="Take every default, also that rows are read for types.")
def command(
    data: tuple[Path, ...],
    output: Path,
    relation: tuple[str, ...],
    delimiter: str | None,
    encoding: str | None,
    quote: str | None,
    decimal: str,
    bounds_epsilon: str | None,
    take_defaults: bool,
    **flags: Any,
) -> None:
    """Draft a policy for the tables in DATA, files or folders, by asking you about them.

    DATA are .csv, .tsv, .csv.gz, .parquet, .duckdb or .sqlite files, or folders of them. The names and stored types of
    columns are shown; no row is read unless you say that it may. Bounds and categories are yours to type: taken from
    the data they would tell of the people in it. At every question ? explains it. An interview that was interrupted
    goes on where it was. An existing file is never overwritten. Bounds that you do not know can be bought from the new
    account: they are then found with noise, and the policy says so.

    \b
    Examples:
      sfumato init visits.parquet -o clinic.toml
      sfumato init clinic/ -o clinic.toml --unit patient --id patient_id --epsilon 3 --yes
      sfumato init visits.csv --column age='integer 0 110' --column region='text north,south'
      sfumato init visits.csv --column age='integer 0 110 bins 0,18,65,110' --column smokes='integer values 0,1'
      sfumato init visits.parquet -o clinic.toml --bounds-epsilon 0.1
    """
    refuse_if_written(output)
    price = None if bounds_epsilon is None else Price(bounds_epsilon)
    how = HowWritten("\t" if delimiter in ("\\t", "tab") else delimiter, encoding, quote, decimal)
    kept = KeptAnswers(output, data)
    if kept.resumed and not take_defaults:
        click.echo(f"Going on where the last interview stopped. To begin anew, delete {kept.path.name}.\n")
    try:
        drafting = _Drafting(Interview(kept, {}, take_defaults), how)
        drafted = drafting.policy(data, relation, flags)
    except click.Abort as ending:  # a Ctrl-C, or answers that end before the questions do
        end_unfinished(interrupted=isinstance(ending.__context__, KeyboardInterrupt))
    write_draft(drafted, output)
    kept.forget()
    click.echo(f"\nWritten: {output}.")
    for each in drafting.assumed:
        click.echo(f"\n{each}")
    for table, columns in drafting.left_out.items():
        click.echo(f"\n{declare_words(table, columns, output)}")
    if told := without_values_words(drafted, output):
        click.echo(f"\n{told}")
    missing = columns_without_bounds(drafted)
    if missing:
        if price is None:
            click.echo(f"\n{_without_bounds(missing, output)}")
        price = price or (None if take_defaults else _offered(drafted.budget))
        if price is not None:
            _buy(drafted, output, missing, price)
    click.echo(f"Next: sfumato check {output}")


@dataclass
class _Drafting:
    """A draft is made of answers, table by table."""

    interview: Interview
    how: HowWritten
    unit: str = ""
    left_out: dict[str, dict[str, Type | None]] = field(default_factory=dict)
    """Columns, by the name of their table, that nobody chose to leave out: their names did."""
    assumed: list[str] = field(default_factory=list)
    """For each table whose rows a name alone gives to units, that it does."""

    def policy(self, data: Sequence[Path], relations: Sequence[str], flags: Mapping[str, Any]) -> Policy:
        """Ask everything, in order: which rows may be read, which tables, whom they are about, the budget, columns."""
        tables = self._tables(data, relations, flags)
        guess = suggested_unit([each.columns for each in tables.values()])
        self.unit = self.interview.ask(interview.unit(guess), PrivacyUnit).name
        roles = {label: self._role(label, alone=len(tables) == 1) for label in tables}
        tables = {label: each for label, each in tables.items() if roles[label] != SKIP}
        named = {label: self._name(label) for label in tables}
        private = {named[label]: each.columns for label, each in tables.items() if roles[label] == "private"}
        take_defaults = self.interview.take_defaults
        whose = {label: self._whose(label, named[label], private) for label in tables if roles[label] == "private"}
        life = interview.budget(take_defaults)
        self.interview.require([*whose.values(), life])
        owners = {
            label: self.interview.ask(asked, _owner_reader(named[label], private)) for label, asked in whose.items()
        }
        self.assumed = [
            assumed_words(named[label], owner, self.unit)
            for label, owner in owners.items()
            if take_defaults and self.interview.answered(whose[label]) is None
        ]
        limits = {label: self._limit(label) for label, owner in owners.items() if owner != ROW}
        budget = self.interview.ask(life, lambda answer: Budget(*answer.split()[:2]))
        made = {}
        for label, table in tables.items():
            if roles[label] == "public":
                made[named[label]] = Table(named[label], table.file.absolute(), relation=table.relation, public=True)
                continue
            columns = self._columns(label, table, owners[label])
            self._note_left_out(label, named[label], table, {*columns, *_keys(owners[label])})
            made[named[label]] = Table(
                named[label],
                table.file.absolute(),
                columns,
                id=owners[label],
                max_rows=limits.get(label),
                relation=table.relation,
            )
        return Policy(PrivacyUnit(self.unit, every_row=ROW in owners.values()), budget, made)

    def _tables(
        self, data: Sequence[Path], relations: Sequence[str], flags: Mapping[str, Any]
    ) -> dict[str, FoundTable]:
        """Find the tables by the names that are proposed for them, copied where they must be, with their types."""
        files = data_files(data)
        self.interview.given = (
            {} if flags["read_rows"] is None else {"read rows": "yes" if flags["read_rows"] else "no"}
        )
        texts = rows_to_read(files)
        listed = ", ".join(printable(each.name) for each in texts[:3]) + (" …" if len(texts) > 3 else "")
        rows = bool(texts) and self.interview.ask(interview.read_rows(listed), yes)
        found = [each for file in files for each in found_tables(file, self.how, rows=rows)]
        found = [each for each in found if not relations or each.relation in relations]
        if not found:
            raise InvalidPolicy("no table is called so", place=", ".join(relations), fix="leave --relation out")
        labels = own_names([each.plain_name for each in found])
        wanted = dict(zip(labels, found, strict=True))
        wanted = {label: each for label, each in wanted.items() if label not in flags["skip"]}
        ready = {label: self._ready(each, rows, flags["copy"]) for label, each in wanted.items()}
        known = {label: each for label, each in ready.items() if each is not None}
        if not known:
            raise InvalidPolicy(
                "no table is left to draft a policy for",
                place=", ".join(map(str, data)),
                fix="let the files be copied (--copy), or export them as Parquet",
            )
        self.interview.given = given_answers(flags, known, self.interview.given)
        for label, each in known.items():
            _show(label, each)
        return known

    def _ready(self, table: FoundTable, rows: bool, copy: bool | None) -> FoundTable | None:
        """Make a table one that the engine reads, if its owner lets it be copied. Rows are read for types only of the
        files that the owner was asked about.
        """
        looked_at = rows and bool(table.reasons or table.spelling)
        if table.reasons:
            target = f"{table.file.stem}.parquet" if table.spelling else f"{table.file.stem}.{table.relation}.parquet"
            asked = interview.copy(printable(table.label), printable(target), table.reasons)
            if not (self.interview.ask(asked, yes) if copy is None else copy):
                click.echo(f"{printable(table.label)} is left out: the engine cannot read it as it is.")
                return None
            table, lost = copied(table, self.how)
            if lost:
                click.echo(
                    f"PRIVATE, for you alone: {lost:,} records with too few or too many cells are not in the copy."
                )
        return with_types(table) if looked_at else table

    def _say(self, words: str) -> None:
        """Say what is of use to somebody who types."""
        if not self.interview.take_defaults:
            click.echo(words)

    def _role(self, label: str, *, alone: bool) -> str:
        if alone:
            return "private"
        return self.interview.ask(interview.role(label, "private"), _among({"private", "public", SKIP}))

    def _name(self, label: str) -> str:
        def read(answer: str) -> str:
            Table(answer, label, public=True)  # refuses what is no name
            return answer

        return self.interview.ask(interview.name(label), read)

    def _whose(self, label: str, name: str, private: Mapping[str, Mapping[str, Any]]) -> InterviewQuestion:
        """Make the question whose a table's rows are, with what names suggest."""
        guess: str | Via | None = suggested_id(private[name], self.unit) or suggested_path(name, self.unit, private)
        default = f"{guess.via}.{guess.on}" if isinstance(guess, Via) else guess
        if default is None and not self.interview.take_defaults:  # what is not sure is not taken unseen
            default = only_key(private[name]) or ROW
        return interview.owner(label, self.unit, default)

    def _limit(self, label: str) -> int:
        return self.interview.ask(interview.max_rows(label, self.unit), _limit)

    def _columns(self, label: str, table: FoundTable, owner: str | Via) -> dict[str, Any]:
        """Ask what the owner declares of each column of a table."""
        self._say(
            f"\nFor each column of {label}: its type, {SKIP} to leave it out, {ALL} to take what is proposed from here"
            " on. Bounds and values come from you, not from the data."
        )
        keys = _keys(owner)
        found = {each: self._column(label, each, kind, each in keys) for each, kind in table.columns.items()}
        columns = {each: domain for each, domain in found.items() if domain is not None}
        if not columns:
            raise InvalidPolicy(
                "a policy declares at least one column", place=f"columns of {label}", fix="give one of them a type"
            )
        return columns

    def _note_left_out(self, label: str, name: str, table: FoundTable, known: Collection[str]) -> None:
        """Keep in mind which columns a default left out: whoever typed that, or gave a flag, knows it."""
        kinds = {each: interview.kind(label, each, SKIP) for each in table.columns if each not in known}
        chosen = {each for each, asked in kinds.items() if self.interview.answered(asked) == SKIP}
        if left := {each: table.columns[each] for each in kinds if each not in chosen}:
            self.left_out[name] = left

    def _column(self, label: str, name: str, kind: Type | None, key: bool) -> Declared | None:
        """Ask what the owner declares of one column; None leaves it out, as is usual for an id."""
        part = f"{label}.columns"
        proposed = SKIP if key or names_people(name) else (kind or Type.TEXT).value
        choice = self._in_part(interview.kind(label, name, proposed), _kind, part)
        if choice is None or choice is Type.BOOLEAN:
            return None if choice is None else Domain(choice)
        if choice is Type.TEXT:
            return self._in_part(interview.values(label, name), init_columns.texts, part)
        ends = interview.bounds(label, name, suggested_bounds(name, choice))
        return self._in_part(ends, lambda answer: init_columns.numbers(choice, answer), part)

    def _in_part(self, asked: InterviewQuestion, read: Callable[[str], T], part: str) -> T:
        """Ask one of many questions of a kind: one answer takes the defaults of all that follow."""

        def accepting(answer: str) -> T:
            if answer == ALL:
                self.interview.accepted.add(part)
            return read(asked.default or "" if answer == ALL else answer)

        return self.interview.ask(asked, accepting, part)


def _show(label: str, table: FoundTable) -> None:
    """List the columns of a table, with types and no cell."""
    known = "types were read from rows" if table.rows_read else "no row was read"
    click.secho(f"The columns of {label} ({known}):", bold=True)
    for name, kind in list(table.columns.items())[:_SHOWN]:
        click.echo(f"  {name:<24} {kind.value if kind else 'written as text'}")
    if len(table.columns) > _SHOWN:
        click.echo(f"  … and {len(table.columns) - _SHOWN:,} more")
    if table.left_out:
        click.echo(f"  {unnamed_words(table.left_out)}")
    click.echo()


def _without_bounds(missing: list[tuple[str, str]], output: Path) -> str:
    named = ", ".join(column for _, column in missing[:_SHOWN]) + (" …" if len(missing) > _SHOWN else "")
    return (
        f"Without bounds: {named}. They can be counted, and not added up or averaged until they have some: "
        f"write bounds = [low, high] into {output.name}, or let sfumato bounds find them privately."
    )


def _offered(budget: Budget) -> Price | None:
    """Ask what the owner would pay for each column without bounds; no answer is no."""
    asked = f"Find bounds privately, at which ε each of {text(budget.epsilon)} for life (empty: not now)"
    while True:
        try:
            answer = str(click.prompt(asked, default="", value_proc=str, show_default=False)).strip()
        except click.Abort:  # the policy is written: whoever goes away now has answered everything
            click.echo()
            return None
        try:
            return Price(answer) if answer else None
        except ValueError as refused:
            click.echo(f"Error: {refused}")


def _buy(drafted: Policy, output: Path, missing: list[tuple[str, str]], price: Price) -> None:
    """Open the account, buy the bounds one by one, and write down what was found, whatever happens in between."""
    found: dict[tuple[str, str], Bounds] = {}
    whole = text(Fraction(price.epsilon or 0) * len(missing))
    listed = f"{len(missing)} searches at {price} each" if len(missing) > 1 else f"1 search at {price}"
    click.echo(f"\n{listed}, ε = {whole} in all of the {text(drafted.budget.epsilon)} for life of {output.name}:")
    try:
        with ProgressLines() as progress, Curator(output, progress=progress) as curator:
            for table, column in missing:
                found[table, column] = curator.bounds(table, column).release(price.epsilon or 0)
                progress("showing")
                click.echo(f"  {found[table, column].words()}")
    finally:
        write_bounds(drafted, output, found)


def _keys(owner: str | Via) -> set[str]:
    """Give the column of a table by which it is known whose a row is."""
    return {owner} if isinstance(owner, str) else {owner.on}


def _kind(answer: str) -> Type | None:
    return None if answer == SKIP else Type.of(answer)


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


def _owner_reader(table: str, private: Mapping[str, Mapping[str, Any]]) -> Callable[[str], str | Via]:
    """Read a column of the table, row, or OTHER.COLUMN (and =KEY where it is called otherwise there)."""

    def read(answer: str) -> str | Via:
        if answer == ROW or answer in private[table]:
            return answer
        for other, known in private.items():
            on, _, key = answer.removeprefix(f"{other}.").partition("=")
            if other != table and answer.startswith(f"{other}.") and on in private[table] and (key or on) in known:
                return Via(other, on, key)
        listed = ", ".join([ROW, *private[table]][:_SHOWN])
        raise click.UsageError(f"the answer is one of {listed}, or TABLE.COLUMN with a column that both tables have")

    return read
