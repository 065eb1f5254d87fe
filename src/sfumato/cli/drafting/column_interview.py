"""Ask for the declaration of each column, beside exact figures about its rows for the owner alone. PRIVATE.

Column declarations as an owner types them (bounds, values, bins, cell rules), and notes on what a draft decided.

The notes tell the owner which id column was assumed and which columns were left out, and how to correct that.

Cell rules as an owner types them after a column's type: ``format %d.%m.%Y``, ``decimal , thousands .``.

Each rule is its policy key followed by its value: formats are separated by ``or``, words by commas (a word with a comma
stands between double quotes), ends of ``possible`` by a space, and ``map`` is ``F:female,M:male``; ``trim`` has no
value, and ``space`` stands for a space.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import click

from sfumato.cli.drafting import interview
from sfumato.cli.drafting.interview import ACCEPT_ALL, DEFAULT_MAX_ROWS, SKIP, Interview, InterviewQuestion
from sfumato.curator.cell_proposals import (
    BoundsFigures,
    CellFormat,
    CellProposal,
    MissingMarkers,
    RowSharesWithinLimits,
    UnreadCells,
    count_missing_markers,
    count_unread_cells,
    propose_bounds,
    propose_trim_and_case,
)
from sfumato.curator.policy_drafts import DetectedTable, is_identifying_name, suggested_bounds
from sfumato.errors import InvalidPolicy
from sfumato.policy import ROW, Domain, Policy, Table, Type, Via
from sfumato.policy.cell_rules import RULE_KEYS, CellRules, parse_rules, parse_words
from sfumato.policy.codings import parse_coding
from sfumato.policy.domains import MAX_NAME_LENGTH, parse_range
from sfumato.policy.toml_files import toml_key
from sfumato.privacy.numbers import format_exact
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import escape_unprintable

_TEXT_KEYS = ("nulls", "case", "trim", "map")
"""The rules of a text: other words after its type are values."""
_LISTS = ("nulls", "true", "false")
AS_STORED = "-"
"""The answer for no rule, and for an empty list of missing cells."""
_ALTERNATIVES = " or "
_QUOTED = r'"(?:[^"]|"")*"'
_QUOTED_WORD = re.compile(_QUOTED)
_WORD = re.compile(rf"(?:(?<=,)|^)(?:\s*{_QUOTED}\s*(?=,|$)|[^,]*)")


def split_bounds_and_rules(sql_type: Type, declaration: str) -> tuple[str, str]:
    """Split the declaration of a column of this type into its bounds or values, and its rules.

    >>> split_bounds_and_rules(Type.REAL, "0 5000 decimal , currency €")
    ('0 5000', 'decimal , currency €')
    """
    keys = _TEXT_KEYS if sql_type is Type.TEXT else RULE_KEYS
    unquoted = _QUOTED_WORD.sub(lambda quoted: "x" * len(quoted[0]), declaration)  # a quoted word is no key
    first = re.search(rf"(?:^|\s)({'|'.join(keys)})(?=\s|$)", unquoted)
    if first is None:
        return declaration.strip(), ""
    return declaration[: first.start(1)].strip(), declaration[first.start(1) :].strip()


def parse_rules_text(text: str) -> dict[str, Any]:
    """Parse typed rules into the keys of a policy."""
    if text.strip() in ("", AS_STORED):
        return {}
    pieces = re.split(rf"(?:^|(?<=\s))({'|'.join(RULE_KEYS)})(?=\s|$)", text.strip())
    if pieces[0].strip():
        raise click.UsageError(f"a rule on how cells are written must begin with one of {', '.join(RULE_KEYS)}")
    names, values = pieces[1::2], [piece.strip() for piece in pieces[2::2]]
    repeated = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if repeated is not None:
        raise click.UsageError(f"the rule '{repeated}' appears twice: write it once")
    return {rule: _parse_rule_setting(rule, value) for rule, value in zip(names, values, strict=True)}


def _parse_rule_setting(rule: str, text: str) -> Any:
    if rule == "trim":
        if text:
            raise click.UsageError("the rule 'trim' takes no value: write 'trim' alone")
        return True
    if rule == "format":
        return [part.strip() for part in text.split(_ALTERNATIVES)]
    if rule in _LISTS:
        return parse_cell_list(text)
    if rule == "map":
        pairs = [part.partition(":") for part in text.split(",")]
        if not all(colon for _, colon, _ in pairs):
            raise click.UsageError(
                "an entry of this map has no colon: write pairs of a cell and a value, such as 'map F:female,M:male'"
            )
        return {source.strip(): target.strip() for source, _, target in pairs}
    if rule == "possible":
        return text.replace(",", " ").split()
    return " " if text == "space" else text


def parse_cell_list(value: str) -> list[str]:
    """Parse cells separated by commas; ``""`` is the empty cell, and ``-`` alone is no cell, unlike ``"-"``."""
    if value.strip() in ("", AS_STORED):
        return []
    return split_comma_list(value)


def split_comma_list(text: str) -> list[str]:
    """Split a list at its commas; a word between double quotes keeps its commas, and has "" for a quote.

    >>> split_comma_list('north, "south, old town", "5"" pipe"')
    ['north', 'south, old town', '5" pipe']
    """
    words = [match[0].strip() for match in _WORD.finditer(text)]
    return [word[1:-1].replace('""', '"') if _QUOTED_WORD.fullmatch(word) else word for word in words]


def format_cell_list(words: tuple[str, ...] | list[str]) -> str:
    """Write cells as an owner types them."""
    return ",".join(_quote_word(word) if word in ("", AS_STORED) or set(word) & set(',"') else word for word in words)


def _quote_word(word: str) -> str:
    doubled = word.replace('"', '""')
    return f'"{doubled}"'


def format_rules(rules: CellRules) -> str:
    """Write rules as an owner types them.

    >>> format_rules(CellRules(decimal=",", thousands=" "))
    'decimal , thousands space'
    """
    return " ".join(f"{name} {_format_value(name, value)}".strip() for name, value in rules.keys.items())


def _format_value(name: str, value: Any) -> str:
    if name == "trim":
        return ""
    if name == "format":
        return value if isinstance(value, str) else _ALTERNATIVES.join(value)
    if name in _LISTS:
        return format_cell_list(value) or AS_STORED
    if name == "map":
        return ",".join(f"{source}:{target}" for source, target in value.items())
    if name == "possible":
        return " ".join(str(end) if isinstance(end, dt.date) else format_exact(Fraction(end)) for end in value)
    return "space" if value == " " else str(value)


VALUES, BINS = "values", "bins"
_RUN_FORMAT = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})")
_MAX_RUN = 10_000
"""The most values of a run such as 1..16."""

ColumnDeclaration = Domain | Mapping[str, Any]
"""A column declaration as ``Table`` takes it; one with bins is a mapping, as in a policy file."""


def parse_text_column(answer: str) -> Domain:
    """Parse the values of a text column, separated by commas; one with a comma stands between double quotes."""
    return Domain(Type.TEXT, values=_split_values(answer))


def parse_numeric_column(sql_type: Type, answer: str) -> ColumnDeclaration:
    """Parse ``0 110``, ``0 110 bins 11``, ``bins 0,18,65``, ``values 0,1``, ``values 1..16``, or an empty answer."""
    first, _, rest = answer.strip().partition(" ")
    if first == VALUES:
        return Domain(sql_type, values=_parse_values(rest))
    bounds_text, separator, bins_text = f" {answer.strip()} ".partition(f" {BINS} ")
    domain = Domain(sql_type, bounds=_parse_bounds(sql_type, bounds_text.strip()))
    if not separator:
        return domain
    cells = _parse_bins(bins_text.strip())
    parse_coding(domain, cells, None)  # refuses invalid bins now, while the owner can answer again
    declaration = {"type": sql_type.value, "bounds": domain.bounds, "bins": cells}
    return {name: value for name, value in declaration.items() if value is not None}


def _split_values(answer: str) -> tuple[str, ...] | None:
    return None if answer.strip() in ("", SKIP) else tuple(split_comma_list(answer))


def _parse_values(answer: str) -> tuple[str, ...] | None:
    """Parse a list of numbers, in which 1..16 stands for all whole numbers from 1 to 16."""
    parts = _split_values(answer)
    return None if parts is None else tuple(value for part in parts for value in _expand_integer_range(part))


def _expand_integer_range(part: str) -> tuple[str, ...]:
    run = _RUN_FORMAT.fullmatch(part)
    if run is None:
        return (part,)
    low, high = int(run[1]), int(run[2])
    if not low <= high < low + _MAX_RUN:
        raise click.UsageError(
            f"the range {part} must go from its lowest to its highest value, and have at most {_MAX_RUN:,} values, as "
            f"in '{VALUES} 1..16'"
        )
    return tuple(map(str, range(low, high + 1)))


def _parse_bins(text: str) -> int | str | tuple[str, ...]:
    """Parse a number of equal bins, bin edges separated by commas, or a calendar period such as month."""
    if "," in text:
        return tuple(part.strip() for part in text.split(","))
    return int(text) if text.isdecimal() else text


def _parse_bounds(sql_type: Type, answer: str) -> Any:
    """Parse two bounds; refuse a comma between numbers, which could also mean a list of values."""
    if answer in ("", SKIP):
        return None
    if "," in answer and sql_type.numeric:
        parts = answer.replace(",", " ").split()
        as_values = f"write '{VALUES} {','.join(parts)}' for a list of values"
        as_bounds = f"write '{' '.join(parts)}' for bounds, or " if len(parts) == 2 else ""
        raise click.UsageError(f"bounds have no comma: {as_bounds}{as_values}")
    bounds = tuple(part.strip() for part in answer.split("," if "," in answer else None))
    if len(bounds) != 2:
        raise click.UsageError("write two bounds, low and high, such as '0 110'")
    return bounds


_MAX_NAMES = 40
"""The most columns that a note names."""


def assumed_id_note(table: str, owner: str | Via, unit: str) -> str:
    """Return a note on the id column of a table that was chosen by its name alone."""
    key = f"the same {owner}" if isinstance(owner, str) else f"the same {owner.on}, through the table {owner.via},"
    fix = f"If that is wrong, draft again with --id {quote(table)}=COLUMN"
    return f"Assumed from the column's name: rows of {table} with {key} belong to one {unit}. {fix}."


def assumed_limit_note(tables: Collection[str], unit: str) -> str:
    """Return a note on the tables whose limit of rows per unit is the default, whatever their rows."""
    return (
        f"Assumed without reading: at most {DEFAULT_MAX_ROWS} rows of one {unit} count in {_name_list(tables)}. "
        "sfumato check shows you what other limits keep; draft again with --max-rows NUMBER."
    )


def omitted_columns_note(table: str, columns: Mapping[str, Type | None], output: Path) -> str:
    """Return a note on columns that were left out because of their names, and how to declare one of them."""
    name, kind = next((name, (kind or Type.TEXT).value) for name, kind in columns.items())
    line = f'{toml_key(name)} = {{ type = "{kind}" }}'
    flag = f"--column {quote(name)}={kind}"
    names, them, one = ("Their names suggest", "them", "one") if len(columns) > 1 else ("Its name suggests", "it", "it")
    return (
        f"Left out of {table}: {_name_list(columns)}. {names} a person's name or a key, so nobody can ask about "
        f"{them}. To declare {one}, write a line such as {line} below [tables.{toml_key(table)}.columns] in "
        f"{output.name}, or draft again with {flag}."
    )


def missing_values_note(policy: Policy, output: Path) -> str:
    """Return a note on text columns without values, and what grouping by them needs; empty if there are none."""
    columns = (column for table in policy.tables.values() if not table.public for column in table.columns.items())
    without_values = [name for name, domain in columns if domain.type is Type.TEXT and domain.values is None]
    if not without_values:
        return ""
    need = "which needs a δ and shows only large groups" if policy.budget.delta else "and this budget has no δ for that"
    return (
        f"Without values: {_name_list(without_values)}. GROUP BY on one of these must find its groups in the "
        f"data, {need}. Write values = [...] into {output.name}, from what you know about the subject."
    )


def unusable_names_note(columns: Collection[str]) -> str:
    """Return a note on columns whose names cannot be used in questions, and what a name must be like."""
    return (
        f"left out, because SQL cannot name them: {_name_list(columns)}. Rename them first: a name has at most "
        f"{MAX_NAME_LENGTH} visible characters, does not begin with sf_, and differs from other names in more than "
        "upper and lower case"
    )


def _name_list(names: Iterable[str]) -> str:
    """Join names with control characters escaped, at most ``_MAX_NAMES`` of them."""
    printable_names = [escape_unprintable(name) or '""' for name in islice(names, _MAX_NAMES + 1)]
    return ", ".join(printable_names[:_MAX_NAMES]) + (" …" if len(printable_names) > _MAX_NAMES else "")


_PRIVATE = "PRIVATE, for you alone:"
_CONFIRM = "What you confirm becomes public; these figures do not."
_MAX_LETTERS = 40
"""The most letters of a cell that are shown."""
_LIMITS_BEFORE, _LIMITS_AFTER = 2, 2
"""How many limits below and above the proposed one are shown."""


def limits_note(table: str, unit: str, row_shares: RowSharesWithinLimits) -> str:
    """Say what limits around the proposed one keep of a table's rows."""
    limits = list(row_shares.share_by_row_limit)
    center = len(limits) - 1 if row_shares.proposed_limit is None else limits.index(row_shares.proposed_limit)
    first_complete = next(
        (index for index, limit in enumerate(limits) if row_shares.share_by_row_limit[limit] == 1), len(limits) - 1
    )
    nearby_limits = limits[max(0, center - _LIMITS_BEFORE) : min(center + _LIMITS_AFTER, first_complete) + 1]
    phrases = ", ".join(
        f"{limit:,} keeps {format_share(row_shares.share_by_row_limit[limit])}" for limit in nearby_limits
    )
    return f"{_PRIVATE} of the rows of {table}, a limit per {unit} of {phrases}. {_CONFIRM}"


def bounds_note(column: str, figures: BoundsFigures) -> str:
    """Say how many cells of a column are beyond round bounds."""
    phrases = ", ".join(f"{format_share(choice.share_beyond)} beyond {choice.text}" for choice in figures.choices)
    return f"{_PRIVATE} of the cells of {column}, {phrases}. {_CONFIRM}"


def markers_note(table: str, markers: MissingMarkers) -> str:
    """Say which cells of a table look missing, and how many of the sampled ones they are."""
    marked = sum(markers.count_by_marker.values())
    count = f"{marked:,} of the {markers.sampled_cells:,} cells that were sampled would be missing"
    words = format_cell_list(list(markers.count_by_marker))
    return f"{_PRIVATE} cells of {table} that look missing are {words}; {count}. {_CONFIRM}"


def rules_note(column: str, proposal: CellProposal, unread: UnreadCells | None) -> str:
    """Show a few cells of a column with what they are read as, and say how many cannot be read so."""
    examples = ", ".join(f"{_display_cell(text)} → {value}" for text, value in proposal.examples)
    lost = "" if unread is None else f" {unread.unread:,} of {unread.cells:,} cells fit no rule and would be missing."
    rivals = " or ".join(dict.fromkeys(format_rules(rival.rules) for rival in proposal.rivals))
    other = f" Only a few cells rule out {rivals}: if that is how cells are written, type it." if rivals else ""
    return f"{_PRIVATE} cells of {column} would be read as {examples}.{lost}{other}"


def _display_cell(text: str) -> str:
    escaped_text = escape_unprintable(text[:_MAX_LETTERS]) + ("…" if len(text) > _MAX_LETTERS else "")
    return f'"{escaped_text}"' if escaped_text != escaped_text.strip() else escaped_text


def format_share(share: float) -> str:
    """Write a share in percent, rounded so that neither none nor all is said of a part.

    >>> [format_share(share) for share in (0, 1e-9, 0.0123, 0.99999, 1)]
    ['none', '0.1 %', '1.2 %', '99.9 %', 'all']
    """
    if share in (0, 1):
        return "all" if share else "none"
    return f"{min(max(100 * share, 0.1), 99.9):.1f} %"


T = TypeVar("T")


@dataclass
class ColumnInterview:
    """The questions about the columns of one table."""

    interview: Interview
    label: str
    table: DetectedTable
    may_read: bool
    """Whether the owner let the rows be read."""
    unit_columns: Collection[str]
    """Columns that decide the unit of a row, whose cells are read as they are."""
    buys_bounds: bool
    """Whether missing bounds are bought with noise, so that no exact ones are proposed."""
    nulls: tuple[str, ...] = ()
    """The missing cells of every column, once they are known."""

    def ask_nulls(self) -> None:
        """Ask which cells are missing in every column; proposed are the usual markers among the sampled cells."""
        question = interview.nulls_question(self.label, None)
        if self.may_read and self.interview.will_ask(question):
            columns = [name for name in self.table.columns if name not in self.unit_columns]
            markers = count_missing_markers(self.table.file, self.table.relation, columns)
            if markers.count_by_marker:
                click.echo(markers_note(self.label, markers))
                question = interview.nulls_question(self.label, format_cell_list(list(markers.count_by_marker)))
        if question.proposal is not None or self.interview.answer_from_flag_or_saved(question) is not None:
            self.nulls = self.interview.ask(question, lambda answer: parse_words(parse_cell_list(answer), "nulls"))

    def ask_columns(self, unit_keys: Collection[str]) -> dict[str, Any]:
        """Ask for the declaration of each column; those of the unit's ids are left out by default."""
        if not self.interview.take_defaults:
            click.echo(
                f"\nFor each column of {self.label}: its type, {SKIP} to leave it out, or {ACCEPT_ALL} to accept all "
                "defaults from here on. Take bounds and values from what you know, not from the data."
            )
        answers = {name: self._ask_column(name, name in unit_keys) for name in self.table.columns}
        columns = {name: declaration for name, declaration in answers.items() if declaration is not None}
        if not columns:
            raise InvalidPolicy(
                "a policy must declare at least one column",
                place=f"columns of {self.label}",
                fix="give one column a type",
            )
        return columns

    def _ask_column(self, name: str, is_key: bool) -> ColumnDeclaration | None:
        """Ask for the declaration of one column; None leaves it out, the default for ids."""
        is_left_out = is_key or is_identifying_name(name)
        default = SKIP if is_left_out else (self.table.columns[name] or Type.TEXT).value
        proposal = self.table.proposals.get(name)
        proposed = None if is_left_out or proposal is None or proposal.is_certain else proposal.format.type.value
        kind = self._ask(interview.type_question(self.label, name, default, proposed), _parse_type)
        if kind is None:
            return None
        if kind is Type.TEXT:
            question = interview.values_question(self.label, name)
            domain = self._ask(question, lambda answer: self._parse_values(name, answer))
            return _with_rules(domain, self._ask_rules(domain, self._folding_question(name, domain)))
        rules = self._ask_rules(Domain(kind), self._rules_question(name, kind))
        if kind is Type.BOOLEAN:
            return _with_rules(Domain(kind), rules)
        question = self._prepare_bounds_question(name, kind, rules)
        return _with_rules(self._ask(question, lambda answer: parse_numeric_column(kind, answer)), rules)

    def _parse_values(self, name: str, answer: str) -> Domain:
        """Parse listed values; refuse one that is a missing cell of this table, unless the column has its own nulls."""
        domain = parse_text_column(answer)
        column_rules = (
            self.interview.answer_from_flag_or_saved(interview.rules_question(self.label, name, "", None)) or ""
        )
        clash = next((value for value in domain.values or () if value in self.nulls), None)
        if clash is not None and "nulls" not in parse_rules_text(column_rules):
            raise click.UsageError(
                f'"{clash}" means a missing value in {self.label}: leave it out of the values, or give the column '
                f"its own list of missing values with --column {name}='text {answer} nulls {SKIP}'"
            )
        return domain

    def _ask_rules(self, domain: ColumnDeclaration, question: InterviewQuestion) -> CellRules:
        """Ask how the cells of a column are written, unless nothing is known or proposed."""
        if (
            question.proposal is None
            and not question.default
            and self.interview.answer_from_flag_or_saved(question) is None
        ):
            return CellRules()
        declared = domain if isinstance(domain, Domain) else Domain(domain["type"])
        return self._ask(question, lambda answer: _parse_column_rules(answer, declared))

    def _rules_question(self, name: str, sql_type: Type) -> InterviewQuestion:
        """Return the question for the rules of a column that is no text, with what is proposed for this type."""
        proposal = self.table.proposals.get(name)
        if name in self.unit_columns or proposal is None or proposal.format.type is not sql_type:
            needs_decimal = self._needs_decimal(sql_type) and name not in self.unit_columns
            default = format_rules(CellRules(decimal=self.table.decimal)) if needs_decimal else ""
            return interview.rules_question(self.label, name, default, None)
        text = format_rules(proposal.format.rules)
        question = interview.rules_question(
            self.label, name, text if proposal.is_certain else "", None if proposal.is_certain else text
        )
        if text and self.interview.will_ask(question, self._part):
            unread = count_unread_cells(self._single_column_table(name, proposal.format.declaration), name)
            click.echo(rules_note(name, proposal, unread))
        return question

    def _needs_decimal(self, sql_type: Type) -> bool:
        """Return whether the owner's decimal separator is all that is known of this table's numbers."""
        return sql_type.numeric and self.table.decimal != "." and not self.table.types_inferred

    def _folding_question(self, name: str, domain: ColumnDeclaration) -> InterviewQuestion:
        """Return the question for the rules of a text; spaces and letter cases are proposed where more cells fit."""
        question = interview.rules_question(self.label, name, "", None)
        is_asked = self.may_read and self.interview.will_ask(question, self._part)
        if not is_asked or not isinstance(domain, Domain) or domain.values is None or name in self.unit_columns:
            return question
        values = [str(value) for value in domain.values]
        proposal = propose_trim_and_case(self.table.file, self.table.relation, name, values)
        if proposal is None:
            return question
        unread = count_unread_cells(
            self._single_column_table(name, {"values": values, **proposal.format.declaration}), name
        )
        click.echo(rules_note(name, proposal, unread))
        return interview.rules_question(self.label, name, "", format_rules(proposal.format.rules))

    def _prepare_bounds_question(self, name: str, sql_type: Type, rules: CellRules) -> InterviewQuestion:
        """Return the question for the bounds of a column; where its owner is asked and let the rows be read, with
        figures.
        """
        question = interview.bounds_question(self.label, name, suggested_bounds(name, sql_type), None)
        is_asked = self.may_read and self.interview.will_ask(question, self._part)
        if question.default or self.buys_bounds or not is_asked:
            return question
        figures = propose_bounds(self._single_column_table(name, CellFormat(sql_type, rules).declaration), name)
        if figures is None:
            return question
        click.echo(bounds_note(name, figures))
        return interview.bounds_question(self.label, name, "", figures.proposed.text)

    def _single_column_table(self, name: str, declaration: Mapping[str, Any]) -> Table:
        """Return a table of this column alone, to be read for the owner."""
        columns: dict[str, Any] = {name: declaration}
        file, relation = self.table.file.absolute(), self.table.relation
        return Table("data", file, columns, id=ROW, relation=relation, nulls=self.nulls)

    @property
    def _part(self) -> str:
        return f"{self.label}.columns"

    def _ask(self, question: InterviewQuestion, read: Callable[[str], T]) -> T:
        """Ask a question about a column; the answer * accepts the defaults of all further questions of the table."""

        def read_or_accept(answer: str) -> T:
            if answer == ACCEPT_ALL:
                self.interview.accepted_parts.add(self._part)
            return read(question.default or "" if answer == ACCEPT_ALL else answer)

        return self.interview.ask(question, read_or_accept, self._part)


def _parse_column_rules(answer: str, domain: Domain) -> CellRules:
    """Parse typed rules; the outer range is compared with the bounds once these are known."""
    keys = parse_rules_text(answer)
    possible = keys.pop("possible", None)
    rules = parse_rules(keys, domain)
    return rules if possible is None else replace(rules, possible=parse_range(domain.type, possible, "possible"))


def _with_rules(declaration: ColumnDeclaration, rules: CellRules) -> ColumnDeclaration:
    """Add the keys of cell rules to a declaration."""
    if rules == CellRules():
        return declaration
    if isinstance(declaration, Domain):
        keys = {"type": declaration.type.value, "bounds": declaration.bounds, "values": declaration.values}
        declaration = {name: value for name, value in keys.items() if value is not None}
    return {**declaration, **rules.keys}


def _parse_type(answer: str) -> Type | None:
    return None if answer == SKIP else Type.of(answer)
