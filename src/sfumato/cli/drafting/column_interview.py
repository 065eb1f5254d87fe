"""Ask for the declaration of each column, beside exact figures about its rows for the owner alone. PRIVATE."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import click

from sfumato.cli.drafting import columns as typed_columns, interview
from sfumato.cli.drafting.columns import (
    ColumnDeclaration,
    format_cell_list,
    format_rules,
    parse_cell_list,
    parse_rules_text,
)
from sfumato.cli.drafting.interview import ACCEPT_ALL, SKIP, Interview, InterviewQuestion
from sfumato.curator.cell_proposals import (
    CellProposal,
    CellReading,
    MissingMarkers,
    count_missing_markers,
    propose_trim_and_case,
)
from sfumato.curator.draft_figures import BoundsFigures, KeptRowShares, UnreadCells, count_unread_cells, propose_bounds
from sfumato.curator.policy_drafts import DetectedTable, is_identifying_name, suggested_bounds
from sfumato.errors import InvalidPolicy
from sfumato.policy import ROW, Domain, Table, Type
from sfumato.policy.cell_rules import CellRules, parse_rules, parse_words
from sfumato.policy.domains import parse_range
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import escape_unprintable

_PRIVATE = "PRIVATE, for you alone:"
_CONFIRM = "What you confirm becomes public; these figures do not."
_MAX_SHOWN = 40
"""The most letters of a cell that are shown."""
_LIMITS_BEFORE, _LIMITS_AFTER = 2, 2
"""How many limits below and above the proposed one are shown."""


def limits_note(table: str, unit: str, kept: KeptRowShares) -> str:
    """Say what limits around the proposed one keep of a table's rows."""
    limits = list(kept.share_by_row_limit)
    center = len(limits) - 1 if kept.proposed_limit is None else limits.index(kept.proposed_limit)
    first_complete = next(
        (index for index, limit in enumerate(limits) if kept.share_by_row_limit[limit] == 1), len(limits) - 1
    )
    shown = limits[max(0, center - _LIMITS_BEFORE) : min(center + _LIMITS_AFTER, first_complete) + 1]
    phrases = ", ".join(f"{limit:,} keeps {format_share(kept.share_by_row_limit[limit])}" for limit in shown)
    return f"{_PRIVATE} of the rows of {table}, a limit per {unit} of {phrases}. {_CONFIRM}"


def bounds_note(column: str, figures: BoundsFigures) -> str:
    """Say how many cells of a column are beyond round bounds."""
    phrases = ", ".join(f"{format_share(each.share_beyond)} beyond {each.text}" for each in figures.choices)
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
    other = f" Only a few cells rule out {rivals}: type that if it is right." if rivals else ""
    return f"{_PRIVATE} cells of {column} would be read as {examples}.{lost}{other}"


def _display_cell(text: str) -> str:
    shown = escape_unprintable(text[:_MAX_SHOWN]) + ("…" if len(text) > _MAX_SHOWN else "")
    return f'"{shown}"' if shown != shown.strip() else shown


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
        if question.proposal is not None or self.interview.existing_answer(question) is not None:
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
        proposed = None if is_left_out or proposal is None or proposal.is_certain else proposal.reading.type.value
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
        question = self._bounds_question(name, kind, rules)
        return _with_rules(self._ask(question, lambda answer: typed_columns.parse_numeric_column(kind, answer)), rules)

    def _parse_values(self, name: str, answer: str) -> Domain:
        """Parse listed values; refuse one that is a missing cell of this table, unless the column has its own nulls."""
        domain = typed_columns.parse_text_column(answer)
        own_rules = self.interview.existing_answer(interview.rules_question(self.label, name, "", None)) or ""
        clash = next((value for value in domain.values or () if value in self.nulls), None)
        if clash is not None and "nulls" not in parse_rules_text(own_rules):
            raise click.UsageError(
                f'"{clash}" means a missing value in {self.label}: leave it out of the values, or give the column '
                f"its own list of missing values with --column {name}='text {answer} nulls {SKIP}'"
            )
        return domain

    def _ask_rules(self, domain: ColumnDeclaration, question: InterviewQuestion) -> CellRules:
        """Ask how the cells of a column are written, unless nothing is known or proposed."""
        if question.proposal is None and not question.default and self.interview.existing_answer(question) is None:
            return CellRules()
        declared = domain if isinstance(domain, Domain) else Domain(domain["type"])
        return self._ask(question, lambda answer: _parse_column_rules(answer, declared))

    def _rules_question(self, name: str, kind: Type) -> InterviewQuestion:
        """Return the question for the rules of a column that is no text, with what is proposed for this type."""
        proposal = self.table.proposals.get(name)
        if name in self.unit_columns or proposal is None or proposal.reading.type is not kind:
            known_decimal = self._needs_decimal(kind) and name not in self.unit_columns
            default = format_rules(CellRules(decimal=self.table.decimal)) if known_decimal else ""
            return interview.rules_question(self.label, name, default, None)
        text = format_rules(proposal.reading.rules)
        question = interview.rules_question(
            self.label, name, text if proposal.is_certain else "", None if proposal.is_certain else text
        )
        if text and self.interview.will_ask(question, self._part):
            unread = count_unread_cells(self._single_column_table(name, proposal.reading.declaration), name)
            click.echo(rules_note(name, proposal, unread))
        return question

    def _needs_decimal(self, kind: Type) -> bool:
        """Return whether the owner's decimal separator is all that is known of this table's numbers."""
        return kind.numeric and self.table.decimal != "." and not self.table.types_inferred

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
            self._single_column_table(name, {"values": values, **proposal.reading.declaration}), name
        )
        click.echo(rules_note(name, proposal, unread))
        return interview.rules_question(self.label, name, "", format_rules(proposal.reading.rules))

    def _bounds_question(self, name: str, kind: Type, rules: CellRules) -> InterviewQuestion:
        """Return the question for the bounds of a column; where its owner is asked and let the rows be read, with
        figures.
        """
        question = interview.bounds_question(self.label, name, suggested_bounds(name, kind), None)
        is_asked = self.may_read and self.interview.will_ask(question, self._part)
        if question.default or self.buys_bounds or not is_asked:
            return question
        figures = propose_bounds(self._single_column_table(name, CellReading(kind, rules).declaration), name)
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
