"""``sfumato init``: draft a policy file by interviewing the owner; each answer is validated as it is given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import click

from sfumato.cli.common.exit_codes import EXIT_CODES_HELP, exit_unfinished, print_warning
from sfumato.cli.common.output import ProgressPrinter
from sfumato.cli.drafting import interview
from sfumato.cli.drafting.column_interview import (
    ColumnInterview,
    assumed_id_note,
    assumed_limit_note,
    limits_note,
    missing_values_note,
    omitted_columns_note,
    unusable_names_note,
)
from sfumato.cli.drafting.flags import answers_from_flags, nulls_from_flags
from sfumato.cli.drafting.interview import SKIP, Interview, InterviewQuestion, SavedAnswers, parse_yes_no
from sfumato.curator import Bounds, Curator
from sfumato.curator.cell_proposals import RowSharesWithinLimits, row_shares_within_limits
from sfumato.curator.policy_drafts import (
    DetectedTable,
    TextOptions,
    copy_table_and_count_skipped,
    detect_tables,
    expand_data_files,
    infer_types,
    only_key_like_column,
    ordered_columns_without_bounds,
    refuse_existing_output,
    suggested_id,
    suggested_unit,
    suggested_via,
    text_and_sqlite_files,
    unique_table_names,
    write_bounds,
    write_draft,
)
from sfumato.curator.weak_policies import LARGE_DELTA, proposed_delta, weak_policy_warnings
from sfumato.engine.file_copies import copies_folder
from sfumato.engine.inspecting import shared_inspection
from sfumato.errors import InvalidPolicy
from sfumato.plan.descriptions import count_with_noun
from sfumato.policy import ROW, Domain, Policy, Table, Type, Via
from sfumato.privacy import Budget, Guarantee, PrivacyUnit
from sfumato.privacy.numbers import format_exact, format_probability
from sfumato.quick_dataclass import dataclass
from sfumato.release.prices import Price
from sfumato.untrusted import escape_unprintable

T = TypeVar("T")
_MAX_COLUMNS_IN_MESSAGE = 40
"""Columns of a table that are listed in a message."""
_COPIES_NOTE = "Copies hold the same private rows as their originals; only you can read them. To remove them:"


@click.command(short_help="Draft a policy by answering questions.", epilog=EXIT_CODES_HELP)
@click.argument("data", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("policy.toml"),
    show_default=True,
    help="The policy file to write.",
)
@click.option("--unit", metavar="WORD", help="The unit you protect: patient, customer, household …")
@click.option(
    "--id",
    "ids",
    help="The column with the unit's id; 'row' if every row is a unit; or TABLE.COLUMN if the id is in TABLE, joined "
    "by COLUMN.",
    multiple=True,
    metavar="[TABLE=]…",
)
@click.option(
    "--max-rows", "max_rows", help="The maximum number of rows that count per unit.", multiple=True, metavar="[TABLE=]…"
)
@click.option("--name", "names", multiple=True, metavar="TABLE=NAME", help="Rename a table.")
@click.option(
    "--public",
    multiple=True,
    metavar="TABLE",
    help="Declare a table public: it contains nothing about the units. Repeatable.",
)
@click.option("--skip", multiple=True, metavar="TABLE", help="Leave a table out. Repeatable.")
@click.option("--epsilon", metavar="NUMBER", help="The ε of the lifetime budget.")
@click.option("--delta", metavar="NUMBER", help="The δ of the lifetime budget, if any.")
@click.option(
    "--people",
    metavar="NUMBER",
    help="Roughly how many units there are, to judge whether δ is small enough; do not count them in the data.",
)
@click.option("--allow-large-delta", is_flag=True, help="Accept a --delta of 1/1000 or more.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="[TABLE.]COLUMN=…",
    help="Declare a column: 'integer 0 110', 'integer 0 110 bins 11', 'integer values 0,1', 'text north,south', date, "
    "or - to leave it out. How cells are written comes last: 'date format %d.%m.%Y', 'real 0 900 decimal ,'. "
    "Repeatable.",
)
@click.option(
    "--nulls",
    multiple=True,
    metavar="[TABLE=]…",
    help="Texts that mean a missing value in every column, separated by commas, such as 'NA,?'.",
)
@click.option("--relation", metavar="NAME", multiple=True, help="Use only this table of a database file. Repeatable.")
@click.option(
    "--read-rows/--no-read-rows",
    default=None,
    help="Read rows to detect column types, or leave them unread. What is detected is exact, and shown only to you.",
)
@click.option(
    "--copy/--no-copy",
    default=None,
    help="Copy files that the engine cannot read directly to Parquet, in a private folder beside the policy; "
    "with --no-copy, leave out what cannot be read.",
)
@click.option("--delimiter", metavar="LETTER", help="The delimiter of text files.  [default: detected]")
@click.option("--encoding", metavar="NAME", help="The encoding of text files, such as latin-1.  [default: detected]")
@click.option("--quote", metavar="LETTER", help="The quote character of text files.  [default: detected]")
@click.option("--decimal", type=click.Choice([".", ","]), default=".", help="The decimal separator of text files.")
@click.option(
    "--from-smartnoise",
    "smartnoise",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read columns, bounds and other answers from this SmartNoise metadata file (YAML).",
)
@click.option(
    "--bounds-epsilon",
    metavar="NUMBER",
    help="Buy private bounds for every column without bounds, at this ε per column, charged to the new account.",
)
@click.option(
    "--yes", "take_defaults", is_flag=True, help="Accept every default, including that rows are read to detect types."
)
def init_command(
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
    """Draft a policy for the tables in DATA (files or folders) by asking you about them.

    DATA are .csv, .tsv, .csv.gz, .parquet, .duckdb or .sqlite files, or folders of them. Column names and stored types
    are shown; no row is read or copied unless you allow it. You type bounds and categories from what you know: taken
    from the data they would reveal the people in them. Type ? at any question for an explanation. An interrupted
    interview continues where it stopped. An existing file is never overwritten. Bounds that you do not know can be
    bought with noise from the new account; the policy then says so.

    \b
    Examples:
      sfumato init visits.parquet -o clinic.toml
      sfumato init clinic/ -o clinic.toml --unit patient --id patient_id --epsilon 3 --yes
      sfumato init visits.csv --column age='integer 0 110' --column region='text north,south'
      sfumato init visits.csv --column age='integer 0 110 bins 0,18,65,110' --column smokes='integer values 0,1'
      sfumato init visits.csv --nulls NA --column day='date format %d.%m.%Y' --column cost='real 0 900 decimal ,'
      sfumato init visits.parquet -o clinic.toml --bounds-epsilon 0.1
    """
    refuse_existing_output(output)
    price = None if bounds_epsilon is None else Price(bounds_epsilon)
    text_format = TextOptions("\t" if delimiter in ("\\t", "tab") else delimiter, encoding, quote, decimal)
    saved_answers = SavedAnswers(output, data)
    if saved_answers.is_resumed and not take_defaults:
        click.echo(f"Continuing where the last interview stopped. To start over, delete {saved_answers.path.name}.\n")
    try:
        drafting = _Drafting(Interview(saved_answers, {}, take_defaults), text_format, output, price is not None)
        policy = drafting.policy(data, relation, flags)
    except click.Abort as ending:  # a Ctrl-C, or an input that ends before the last question
        exit_unfinished(interrupted=isinstance(ending.__context__, KeyboardInterrupt))
    write_draft(policy, output)
    saved_answers.delete()
    click.echo(f"\nWritten: {output}.")
    for weakness in weak_policy_warnings(policy):
        print_warning(weakness)
    for assumption in drafting.assumed:
        click.echo(f"\n{assumption}")
    for table, columns in drafting.left_out.items():
        click.echo(f"\n{omitted_columns_note(table, columns, output)}")
    if text_note := missing_values_note(policy, output):
        click.echo(f"\n{text_note}")
    missing = ordered_columns_without_bounds(policy)
    if missing:
        if price is None:
            click.echo(f"\n{_describe_missing_bounds(missing, output)}")
        price = price or (None if take_defaults else _ask_bounds_price(policy.budget))
        if price is not None:
            _buy_bounds(policy, output, missing, price)
    click.echo(f"Next: sfumato check {output}")


@dataclass
class _Drafting:
    """The interview of one draft, with what it assumed without asking."""

    interview: Interview
    how: TextOptions
    output: Path
    buys_bounds: bool = False
    """Whether missing bounds are bought with noise, so that no exact ones are proposed."""
    unit: str = ""
    may_read: set[str] = field(default_factory=set)
    """Tables whose rows their owner let be read."""
    left_out: dict[str, dict[str, Type | None]] = field(default_factory=dict)
    """Columns by table that were left out by default, because of their names."""
    assumed: list[str] = field(default_factory=list)
    """Sentences on ids that were chosen by their names alone, and on limits that nobody gave."""

    @shared_inspection()
    def policy(self, data: Sequence[Path], relations: Sequence[str], flags: Mapping[str, Any]) -> Policy:
        """Ask in order for reading consent, tables, unit, ids, limits, number of units, budget and columns."""
        tables = self._read_tables(data, relations, flags)
        guess = suggested_unit([table.columns for table in tables.values()])
        self.unit = self.interview.ask(interview.unit_question(guess), PrivacyUnit).name
        roles = {label: self._ask_role(label, alone=len(tables) == 1) for label in tables}
        tables = {label: table for label, table in tables.items() if roles[label] != SKIP}
        names = {label: self._ask_name(label) for label in tables}
        private = {names[label]: table.columns for label, table in tables.items() if roles[label] == "private"}
        owners = self._ask_id_columns({label: names[label] for label in tables if roles[label] == "private"}, private)
        limits = self._ask_limits({label: tables[label] for label in owners}, names, owners)
        budget = self._ask_budget(large_allowed=flags["allow_large_delta"])
        drafted_tables = {
            names[label]: self._draft_table(label, table, names, owners, limits.get(label))
            if label in owners
            else Table(names[label], table.file.absolute(), relation=table.relation, public=True)
            for label, table in tables.items()
        }
        unit = PrivacyUnit(self.unit, every_row=ROW in owners.values())
        return Policy(unit, budget, drafted_tables, allow_large_delta=budget.delta >= LARGE_DELTA)

    def _ask_id_columns(
        self, names: Mapping[str, str], private: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, str | Via]:
        """Ask for the id of each private table; note those that --yes took from a column's name."""
        questions = {label: self._id_question(label, name, private) for label, name in names.items()}
        budget_question = interview.budget_question(self.interview.take_defaults, proposed_delta(None))
        self.interview.require_answers([*questions.values(), budget_question])
        owners = {
            label: self.interview.ask(question, _id_parser(names[label], private))
            for label, question in questions.items()
        }
        self.assumed += [
            assumed_id_note(names[label], owner, self.unit)
            for label, owner in owners.items()
            if self._took_default(questions[label])
        ]
        return owners

    def _ask_limits(
        self, tables: Mapping[str, DetectedTable], names: Mapping[str, str], owners: Mapping[str, str | Via]
    ) -> dict[str, int]:
        """Ask for the most rows of a unit in each table with ids; note the defaults that --yes took."""
        questions = {
            label: interview.max_rows_question(label, self.unit, None)
            for label, owner in owners.items()
            if owner != ROW
        }
        assumed = [names[label] for label, question in questions.items() if self._took_default(question)]
        self.assumed += [assumed_limit_note(assumed, self.unit)] if assumed else []
        is_asked = any(map(self.interview.will_ask, questions.values()))
        row_shares = self._count_rows_within_limits(tables, names, owners) if is_asked else {}
        return {label: self._ask_limit(label, row_shares.get(names[label])) for label in questions}

    def _draft_table(
        self,
        label: str,
        table: DetectedTable,
        names: Mapping[str, str],
        owners: Mapping[str, str | Via],
        max_rows: int | None,
    ) -> Table:
        """Ask about the columns of a private table."""
        id_columns = _id_columns(owners[label])
        foreign_keys = {owner.key for owner in owners.values() if isinstance(owner, Via) and owner.via == names[label]}
        questions = ColumnInterview(
            self.interview, label, table, label in self.may_read, id_columns | foreign_keys, self.buys_bounds
        )
        questions.ask_nulls()
        columns = questions.ask_columns(id_columns)
        self._record_columns_left_out(label, names[label], table, {*columns, *id_columns})
        return Table(
            names[label],
            table.file.absolute(),
            columns,
            id=owners[label],
            max_rows=max_rows,
            relation=table.relation,
            nulls=questions.nulls,
        )

    def _read_tables(
        self, data: Sequence[Path], relations: Sequence[str], flags: Mapping[str, Any]
    ) -> dict[str, DetectedTable]:
        """Return the readable tables by their proposed names, copied where needed, with column types."""
        files = expand_data_files(data)
        self.interview.flag_answers = (
            {} if flags["read_rows"] is None else {"read rows": "yes" if flags["read_rows"] else "no"}
        )
        files_to_read = text_and_sqlite_files(files) if self.interview.take_defaults else files
        file_names = ", ".join(escape_unprintable(file.name) for file in files_to_read[:3]) + (
            " …" if len(files_to_read) > 3 else ""
        )
        rows = bool(files_to_read) and self.interview.ask(interview.read_rows_question(file_names), parse_yes_no)
        candidates = [table for file in files for table in detect_tables(file, self.how, read_rows=rows)]
        candidates = [table for table in candidates if not relations or table.relation in relations]
        if not candidates:
            raise InvalidPolicy(
                "DATA has no table of this name",
                place=", ".join(relations),
                fix="check the name, or leave out --relation to use all tables",
            )
        labels = unique_table_names([table.suggested_name for table in candidates])
        selected = dict(zip(labels, candidates, strict=True))
        selected = {label: table for label, table in selected.items() if label not in flags["skip"]}
        tables = self._copy_tables(selected, flags["copy"])
        if not tables:
            raise InvalidPolicy(
                "no table is left: each one was skipped, or can only be read from a copy, and copies were declined",
                place=", ".join(map(str, data)),
                fix="allow copies (--copy), export the tables to Parquet, or skip fewer tables",
            )
        self.may_read = {label for label, table in selected.items() if rows and table.original_or_file in files_to_read}
        tables = {
            label: infer_types(table, nulls_from_flags(flags["nulls"], label)) if label in self.may_read else table
            for label, table in tables.items()
        }
        self.interview.flag_answers = answers_from_flags(flags, tables, self.interview.flag_answers)
        for label, table in tables.items():
            _print_columns(label, table)
        return tables

    def _copy_tables(self, tables: Mapping[str, DetectedTable], copy: bool | None) -> dict[str, DetectedTable]:
        """Return the tables that the engine can read: as they are, or copied to Parquet with their owner's consent."""
        readable_tables = {}
        for label, table in tables.items():
            target = copies_folder(self.output) / f"{label}.parquet"
            if table.copy_reasons and self._can_copy(table, target, copy):
                readable_tables[label] = self._copy_table(table, target)
            elif table.readable_in_place:
                readable_tables[label] = table
            else:
                click.echo(
                    f"{escape_unprintable(table.label)} is left out: the engine cannot read it without a copy, because "
                    f"{'; '.join(table.copy_reasons)}."
                )
        if any(table.file.parent == copies_folder(self.output) for table in readable_tables.values()):
            click.echo(f"{_COPIES_NOTE} sfumato forget {quote(str(self.output))}\n")
        return readable_tables

    def _can_copy(self, table: DetectedTable, target: Path, copy: bool | None) -> bool:
        question = interview.copy_question(
            escape_unprintable(table.label), _short_path(target), table.copy_reasons, table.readable_in_place
        )
        return self.interview.ask(question, parse_yes_no) if copy is None else copy

    def _copy_table(self, table: DetectedTable, target: Path) -> DetectedTable:
        """Copy a table, and print from where, to where and why."""
        click.echo(
            f"Copying {escape_unprintable(table.label)} to {_short_path(target)}, because "
            f"{'; '.join(table.copy_reasons)}."
        )
        copied_table, skipped_records = copy_table_and_count_skipped(table, target)
        if skipped_records:
            click.echo(
                f"PRIVATE, for you alone: {count_with_noun(skipped_records, 'record')} with too few or too many cells "
                "left out."
            )
        return copied_table

    def _ask_role(self, label: str, *, alone: bool) -> str:
        if alone:
            return "private"
        return self.interview.ask(
            interview.role_question(label, "private"), _choice_parser({"private", "public", SKIP})
        )

    def _ask_name(self, label: str) -> str:
        def read(answer: str) -> str:
            Table(answer, label, public=True)  # refuses an invalid name
            return answer

        return self.interview.ask(interview.name_question(label), read)

    def _id_question(self, label: str, name: str, private: Mapping[str, Mapping[str, Any]]) -> InterviewQuestion:
        """Return the question for the id of a table, with a default guessed from column names."""
        guess: str | Via | None = suggested_id(private[name], self.unit) or suggested_via(name, self.unit, private)
        default = f"{guess.via}.{guess.on}" if isinstance(guess, Via) else guess
        if default is None and not self.interview.take_defaults:  # --yes takes no uncertain default
            default = only_key_like_column(private[name]) or ROW
        return interview.id_question(label, self.unit, default)

    def _took_default(self, question: InterviewQuestion) -> bool:
        """Return whether --yes took the default of a question."""
        return self.interview.take_defaults and self.interview.answer_from_flag_or_saved(question) is None

    def _count_rows_within_limits(
        self, tables: Mapping[str, DetectedTable], names: Mapping[str, str], owners: Mapping[str, str | Via]
    ) -> dict[str, RowSharesWithinLimits]:
        """Count what limits keep, by table name, if the owner let the rows be read."""
        if not self.may_read.issuperset(tables):
            return {}
        drafts = {
            names[label]: Table(
                names[label],
                table.file.absolute(),
                {next(iter(table.columns)): Domain(Type.TEXT)},
                id=owners[label],
                max_rows=None if owners[label] == ROW else 1,
                relation=table.relation,
            )
            for label, table in tables.items()
        }
        return row_shares_within_limits(drafts, PrivacyUnit(self.unit, every_row=ROW in owners.values()))

    def _ask_limit(self, label: str, row_shares: RowSharesWithinLimits | None) -> int:
        proposal = None if row_shares is None else row_shares.proposed_limit
        question = interview.max_rows_question(label, self.unit, None if proposal is None else str(proposal))
        if row_shares is not None and self.interview.will_ask(question):
            click.echo(limits_note(label, self.unit, row_shares))
        return self.interview.ask(question, _parse_limit)

    def _ask_budget(self, *, large_allowed: bool) -> Budget:
        """Ask for the number of units and the budget; a typed δ above the proposed one is asked for again."""
        people = self.interview.ask(interview.people_question(self.unit), _parse_people)
        proposed = proposed_delta(people)
        question = interview.budget_question(self.interview.take_defaults, proposed)
        budget = self.interview.ask(question, lambda answer: Budget(*answer.split()[:2]))
        if budget.delta <= proposed:
            return budget
        if question.key in self.interview.flag_answers:  # a flag cannot be asked for again
            _refuse_large_delta(budget.delta, proposed, large_allowed)
            print_warning(interview.delta_comparison(budget.delta, proposed, people))
            return budget
        confirmation = interview.confirm_delta_question(budget.delta, proposed, people)
        delta = self.interview.ask(confirmation, _delta_parser(budget.delta, proposed))
        return Budget(budget.epsilon, delta)

    def _record_columns_left_out(self, label: str, name: str, table: DetectedTable, declared: Collection[str]) -> None:
        """Record the columns that a default left out, not those the owner left out by an answer or a flag."""
        questions = {
            column: interview.type_question(label, column, SKIP) for column in table.columns if column not in declared
        }
        chosen = {
            column
            for column, question in questions.items()
            if self.interview.answer_from_flag_or_saved(question) == SKIP
        }
        if omitted := {column: table.columns[column] for column in questions if column not in chosen}:
            self.left_out[name] = omitted


def _print_columns(label: str, table: DetectedTable) -> None:
    """Print the names and types of a table's columns; of cells, those alone that many rows share and that keep a
    column of numbers from being one.
    """
    reading_note = "types detected from rows" if table.types_inferred else "no row was read"
    click.secho(f"The columns of {label} ({reading_note}):", bold=True)
    for name, kind in list(table.columns.items())[:_MAX_COLUMNS_IN_MESSAGE]:
        words = _rules_words(table, name) + _describe_nonnumeric_texts(table, name)
        click.echo(f"  {name:<24} {kind.value if kind else 'written as text'}{words}")
    if len(table.columns) > _MAX_COLUMNS_IN_MESSAGE:
        click.echo(f"  … and {len(table.columns) - _MAX_COLUMNS_IN_MESSAGE:,} more")
    if table.unusable_columns:
        click.echo(f"  {unusable_names_note(table.unusable_columns)}")
    click.echo()


def _rules_words(table: DetectedTable, column: str) -> str:
    """Describe the cell rules of a column that nearly all cells show; others are shown when they are asked about."""
    proposal = table.proposals.get(column)
    phrases = proposal.format.rules.describe() if proposal is not None and proposal.is_certain else []
    return "".join(f", {phrase}" for phrase in phrases)


def _describe_nonnumeric_texts(table: DetectedTable, column: str) -> str:
    """Say which texts keep a column from being one of numbers, and what to type if they mean that a cell is missing."""
    texts = table.nonnumeric_texts.get(column)
    if not texts:
        return ""
    escaped_texts = escape_unprintable(", ".join(map(repr, texts)))
    return (
        f"; numbers except {escaped_texts}. If these mean missing values, add --nulls "
        f"{escape_unprintable(quote(','.join(texts)))}"
    )


def _short_path(path: Path) -> str:
    """Return a path as the owner would type it: relative to the working folder if it is below it."""
    return escape_unprintable(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


def _describe_missing_bounds(missing: list[tuple[str, str]], output: Path) -> str:
    names = ", ".join(column for _, column in missing[:_MAX_COLUMNS_IN_MESSAGE]) + (
        " …" if len(missing) > _MAX_COLUMNS_IN_MESSAGE else ""
    )
    return (
        f"Without bounds: {names}. These columns can be counted, but not summed or averaged. "
        f"Write bounds = [low, high] into {output.name}, or let sfumato bounds find them privately."
    )


def _ask_bounds_price(budget: Budget) -> Price | None:
    """Ask for the price of private bounds per column; None if the owner gives none."""
    prompt = (
        f"The ε per column to find bounds privately, out of {format_exact(budget.epsilon)} for life (empty: not now)"
    )
    while True:
        try:
            answer = str(click.prompt(prompt, default="", value_proc=str, show_default=False)).strip()
        except click.Abort:  # the policy is already written, so nothing is lost
            click.echo()
            return None
        try:
            return Price(answer) if answer else None
        except ValueError as refusal:
            click.echo(f"Error: {refusal}")


def _buy_bounds(policy: Policy, output: Path, missing: list[tuple[str, str]], price: Price) -> None:
    """Open the account, buy bounds column by column, and save those found even if the purchase stops early."""
    bounds: dict[tuple[str, str], Bounds] = {}
    total = format_exact(Fraction(price.epsilon or 0) * len(missing))
    searches = f"{len(missing)} searches at {price} each" if len(missing) > 1 else f"1 search at {price}"
    click.echo(
        f"\n{searches}, ε = {total} in total, of the lifetime budget of {format_exact(policy.budget.epsilon)} in "
        f"{output.name}:"
    )
    try:
        with ProgressPrinter() as progress, Curator(output, progress=progress) as curator:
            for table, column in missing:
                bounds[table, column] = curator.bounds(table, column).release(price.epsilon or 0)
                progress("showing")
                click.echo(f"  {bounds[table, column].words()}")
    finally:
        write_bounds(policy, output, bounds)


def _id_columns(owner: str | Via) -> set[str]:
    """Return the column that identifies the owner of a row."""
    return {owner} if isinstance(owner, str) else {owner.on}


def _refuse_large_delta(delta: Fraction, proposed: Fraction, large_allowed: bool) -> None:
    """Refuse a large δ from a flag without the flag that allows it."""
    if delta >= LARGE_DELTA and not large_allowed:
        raise InvalidPolicy(
            "a δ of 1/1000 or more is refused by default: a mechanism that publishes each unit's rows with that "
            "probability would satisfy this guarantee",
            place=f"--delta {format_probability(delta)}",
            fix=f"give a smaller --delta, such as {format_probability(proposed)}; or add --allow-large-delta",
        )


def _delta_parser(typed: Fraction, proposed: Fraction) -> Callable[[str], Fraction]:
    """Return a parser of a δ that is asked for again: the typed one, or at most the proposed one."""

    def read(answer: str) -> Fraction:
        delta = Guarantee(0, answer).delta
        if delta > proposed and delta != typed:
            raise click.UsageError(
                f"type {format_probability(typed)} again to confirm it, or a value of at most "
                f"{format_probability(proposed)}"
            )
        return delta

    return read


def _parse_people(answer: str) -> int | None:
    digits = answer.replace(",", "").replace("_", "")
    if digits in ("", SKIP):
        return None
    if not digits.isdecimal() or not 1 <= int(digits[:20]) <= 10**12:
        raise click.UsageError("the number of units must be a whole number between 1 and 10^12, or empty")
    return int(digits)


def _parse_limit(answer: str) -> int:
    if not answer.isdecimal() or not 1 <= int(answer) <= 10**6:
        raise click.UsageError("a limit must be a whole number between 1 and 1,000,000")
    return int(answer)


def _choice_parser(names: set[str]) -> Callable[[str], str]:
    def check(answer: str) -> str:
        if answer not in names:
            raise click.UsageError(f"type one of {', '.join(sorted(names))}")
        return answer

    return check


def _id_parser(table: str, private: Mapping[str, Mapping[str, Any]]) -> Callable[[str], str | Via]:
    """Return a parser of ids: a column of the table, row, or OTHER.COLUMN (with =KEY if its name differs there)."""

    def read(answer: str) -> str | Via:
        if answer == ROW or answer in private[table]:
            return answer
        for other, other_columns in private.items():
            on, _, key = answer.removeprefix(f"{other}.").partition("=")
            if (
                other != table
                and answer.startswith(f"{other}.")
                and on in private[table]
                and (key or on) in other_columns
            ):
                return Via(other, on, key)
        choices = ", ".join([ROW, *private[table]][:_MAX_COLUMNS_IN_MESSAGE])
        raise click.UsageError(f"type one of {choices}, or TABLE.COLUMN, where COLUMN is in both tables")

    return read
