"""The columns of a SELECT that maps single rows, possibly joined with public tables, coded for publishing.

A plain column is coded as in its own table; a computed one is coded if it is boolean or its values are known to be few:
listed ones, or integers of a short range. Any other value, and NULL, is in the last cell.

One row per unit may be used: the first in an order, so that one row of a unit is all that counts. Ties are broken by
every column that is read, in the order of the policy; rows that still tie are equal in all of them, so the choice
depends neither on other units' rows nor on the engine.

Impossible rows never count: those that the policy rules out, and those that a question's condition excludes. Both are
public before a row is read, so the model leaves such cells empty, and no such row is drawn.

A question without measures (SELECT DISTINCT, or GROUP BY without an aggregate) is answered from the policy.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.previews.advising import Advice
from sfumato.curator.previews.error_forecasts import Forecast
from sfumato.curator.previews.explaining import Explanation, PlanStep
from sfumato.curator.proposals.questions import Question
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.aggregates.unit_measures import LagLead
from sfumato.plan.catalog import Catalog
from sfumato.plan.descriptions import count_with_noun, expression_sql
from sfumato.plan.nodes import Relation, Window, relations
from sfumato.plan.quoting import quoted
from sfumato.plan.sql.building import RowSelection, derive, where
from sfumato.plan.sql.row_sources import RowSource
from sfumato.plan.sql.rows import lower_subquery
from sfumato.plan.sql.text import parse_select as parse_text
from sfumato.plan.sql.text_positions import fix_for_unknown_name
from sfumato.plan.values.countable import coded_key_and_cell_values, single_value_cells
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.policy import Domain, Policy, Table, Type
from sfumato.policy.codings import CELLS_RULE, Coding
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, Number, exact
from sfumato.publish.cells import answering
from sfumato.publish.marginals.attributes import (
    BARE,
    Attributes,
    CodedColumn,
    PublicTableFacts,
    coded_attribute,
    measurable_column_names,
)
from sfumato.publish.synthesis.candidates import Zeros, require_possible_rows, zeros_from_policy
from sfumato.publish.synthesis.released import ImpliedColumn
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer, build_answer
from sfumato.release.noisy_rows.finishing import finish
from sfumato.release.noisy_rows.key_functions import answer_rows, with_key_functions
from sfumato.release.payers import PurchaseTerms
from sfumato.release.proposal import make_receipt
from sfumato.release.releasing import StoredResult

_MAX_INTEGERS = 1000
"""The longest range of integers that a computed column is coded by."""


@dataclass(frozen=True)
class SelectedColumns:
    """The rows of a SELECT, and its coded columns with their public domains."""

    rows: RowSource
    columns: tuple[CodedColumn, ...]
    domains: tuple[Domain, ...]


def only_private_table(policy: Policy) -> str:
    """Return the name of the policy's only private table; refuse to choose among several."""
    names = [name for name, table in policy.tables.items() if not table.public]
    if len(names) != 1:
        rule = f"given, because there are several private tables: {', '.join(names)}"
        raise InvalidParameter("table", None, rule, fix=f"name a table, such as {names[0]}")
    return names[0]


def is_select_text(source: str) -> bool:
    """Return whether the text is a SELECT rather than the name of a table."""
    words = source.split(None, 1)
    return len(words) > 1 and words[0].upper() in ("SELECT", "WITH")


def code_selected_columns(
    catalog: Catalog, tables: Mapping[str, Table], text: str, names: Sequence[str] | None = None
) -> SelectedColumns:
    """Parse a SELECT and code its columns, or only the named ones, as these tables say."""
    rows = lower_subquery(parse_text(text, None, catalog.column_names()), catalog, {})
    columns_by_name = {name.lower(): (name, expression) for name, expression in rows.scope[""].items()}
    selected = (
        list(columns_by_name) if names is None else [_require_lowercase_name(name, columns_by_name) for name in names]
    )
    if names is None and not selected:
        rule = "the SELECT has only the person's id, which is never published"
        raise Unsupported("uncoded-column", rule, fix="select a column that has listed values or bins")
    if not selected or len(set(selected)) != len(selected):
        raise InvalidParameter("columns", names, "a list of different columns of the SELECT, at least one")
    coded = [_coded_column_and_domain(*columns_by_name[key], tables, rows.relation) for key in selected]
    return SelectedColumns(rows, tuple(column for column, _ in coded), tuple(domain for _, domain in coded))


def _require_lowercase_name(name: object, columns_by_name: dict[str, tuple[str, Expression]]) -> str:
    if not isinstance(name, str) or name.lower() not in columns_by_name:
        fix = fix_for_unknown_name(str(name), [column for column, _ in columns_by_name.values()])
        raise Unsupported("unknown-column", f"the SELECT has no column called {str(name)[:60]}", fix=fix)
    return name.lower()


def _coded_column_and_domain(
    name: str, selected: Expression, tables: Mapping[str, Table], relation: Relation
) -> tuple[CodedColumn, Domain]:
    coding = _column_coding(_lagged_column(selected, relation), tables)
    domain = selected.domain if coding is not None else _with_enumerated_values(name, selected.domain)
    expression = replace(selected, domain=replace(domain, nullable=True))
    if isinstance(expression, Column):
        key, codes = coded_key_and_cell_values(expression, coding)
    else:
        key, codes = expression, single_value_cells(domain)
    return CodedColumn(coded_attribute(name, domain, coding), key, codes), domain


def _lagged_column(expression: Expression, relation: Relation) -> Expression:
    """Return the column that LAG or LEAD takes from another row, which has the same cells; otherwise the expression."""
    if not isinstance(expression, Column):
        return expression
    windows = [node for node in relations(relation) if isinstance(node, Window)]
    for window in windows:
        for name, function in window.functions:
            is_this_column = Field(window.source, "", name) == expression.reference
            if is_this_column and isinstance(function, LagLead) and function.default is None:
                return function.value
    return expression


def _column_coding(expression: Expression, tables: Mapping[str, Table]) -> Coding | None:
    """Return the coding of a plain column; None for a computed one."""
    if not isinstance(expression, Column) or not isinstance(expression.reference, Field):
        return None
    table = tables.get(expression.reference.table)
    return None if table is None else table.codings.get(expression.reference.name)


def _with_enumerated_values(name: str, domain: Domain) -> Domain:
    """Return the domain with its values listed; refuse one with too many or unknown values."""
    if domain.values is not None or domain.type is Type.BOOLEAN:
        return domain
    if domain.type is Type.INTEGER and domain.bounds is not None:
        low, high = domain.bounds
        assert isinstance(low, int)
        assert isinstance(high, int)
        if high - low < _MAX_INTEGERS:
            return Domain(Type.INTEGER, values=tuple(range(low, high + 1)), nullable=domain.nullable)
    rule = (
        f'"{name}" cannot be counted by values or bins: a computed column needs listed values, a short range of whole '
        "numbers, or booleans"
    )
    fix = f"write CASE WHEN … THEN 'low' ELSE 'high' END AS {name}, or select a column that has bins"
    raise Unsupported("uncoded-column", rule, fix=fix)


_ORDER = re.compile(r"\s*(.+?)(?:\s+(asc|desc))?\s*", re.IGNORECASE | re.DOTALL)


def refuse_repeated_names(names: Sequence[str], parameter: str) -> None:
    """Refuse names of which two are the same column: SQL ignores their case."""
    earlier: dict[str, str] = {}
    for name in names:
        same = earlier.setdefault(name.lower(), name)
        if same != name:
            rule = "a list of different columns, and names that differ only in case are the same column"
            raise InvalidParameter(parameter, names, rule, fix=f"remove {same!r} or {name!r} from {parameter}")
    if len(earlier) != len(names):
        raise InvalidParameter(parameter, names, "a list of different columns")


def first_row_per_unit(source: RowSelection, table: Table, order: object, names: Sequence[str]) -> RowSelection:
    """Keep the first row of each unit; ``order`` is a column, or a column and DESC for the last row."""
    if table.every_row:
        raise InvalidParameter("one_row_per", "unit", "left out, because every row is a unit in this policy")
    match = _ORDER.fullmatch(order) if isinstance(order, str) else None
    columns_by_name = {name.lower(): name for name in table.columns}
    if match is None or match[1].lower() not in columns_by_name:
        rule = f"a column of '{table.name}', or a column and DESC for the last row"
        raise InvalidParameter("order", order, rule, fix=f"name one of {', '.join(table.columns)}")
    if not isinstance(table.id, str):
        raise InvalidParameter("one_row_per", "unit", "left out, because this table has no column with unit ids")
    number_column = next(
        name for name in map("number_{}".format, range(len(columns_by_name) + 1)) if name not in columns_by_name
    )
    first_key = f"{quoted(columns_by_name[match[1].lower()])} {(match[2] or 'ASC').upper()}"
    tie_breakers = [quoted(name) for name in names]
    window = f"PARTITION BY {quoted(table.id)} ORDER BY {', '.join([first_key, *tie_breakers])}"
    return where(derive(source, number_column, f"ROW_NUMBER() OVER ({window})"), f"{number_column} = 1")


_UNKNOWN_COLUMN = "unknown-column"


def refuse_unevaluable_conditions(
    table: str, attributes: Attributes, implied: Sequence[ImpliedColumn], public_facts: PublicTableFacts
) -> None:
    """Refuse an impossible-condition that cannot be evaluated on drawn rows, unless it uses columns they lack."""
    implied_attributes = tuple(column.attribute for column in implied)
    domains = (*public_facts.domains_for(attributes), *BARE.domains_for(implied_attributes))
    for condition in public_facts.impossible:
        try:
            _require_evaluable_condition(table, (*attributes, *implied_attributes), domains, condition)
        except Unsupported as refusal:
            if refusal.code != _UNKNOWN_COLUMN:
                cause = refusal.rule.removesuffix(f" [{refusal.code}]")
                if refusal.code == "too-many-cells":
                    cause = "its columns have too many combinations of values"
                rule = f"synthetic rows cannot be checked against the impossible condition {condition[:200]}: {cause}"
                fix = "write the condition with fewer columns or coarser bins, or remove it from the policy"
                place = f"impossible in the policy of table {table}"
                raise Unsupported(refusal.code, rule, place=place, fix=fix) from None


def face_with_condition(
    table: str, attributes: Attributes, public_facts: PublicTableFacts, where: str
) -> PublicTableFacts:
    """Add that no row fails the WHERE condition, if that can be evaluated on the columns."""
    negated = f"({where}\n) IS NOT TRUE"
    try:
        _require_evaluable_condition(table, attributes, public_facts.domains_for(attributes), negated)
    except Unsupported:
        return public_facts
    return replace(public_facts, impossible=(*public_facts.impossible, negated))


def zeros_with_condition(
    table: str, attributes: Attributes, public_facts: PublicTableFacts, zeros: Zeros, where: str, max_cells: int
) -> Zeros:
    """Return the empty cells, including those excluded by the condition if the model can hold them.

    Otherwise drawn rows are repaired afterwards.
    """
    all_zeros = zeros_from_policy(table, attributes, public_facts)
    try:
        require_possible_rows(all_zeros, [attribute.size for attribute in attributes], max_cells)
    except Unsupported as refusal:
        if refusal.code == "contradictory-zeros":
            fix = "correct the condition, which never holds for the values that the policy declares"
            raise InvalidParameter(
                "where", where, "a condition that at least one possible row meets", fix=fix
            ) from None
        return zeros
    return all_zeros


def _require_evaluable_condition(table: str, attributes: Attributes, domains: tuple[Domain, ...], text: str) -> None:
    answering.parse_condition(answering.QueryableTable(table, attributes, domains, None, None), text)  # type: ignore[arg-type]


_FREE_PRICE = "ε = 0: from the policy, no row was read"


@dataclass(frozen=True)
class FreeDeclaredValues(Question):
    """The values that columns may have, from the policy or a public table: free, never charged.

    It lists declared values, not those in rows, so it reveals nothing about anybody.
    """

    @property
    def free(self) -> bool:
        return True

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        return ("These are the declared values, whether or not any row has them.",)

    def explain(self, epsilon: Number | None = None, **price: Any) -> Explanation:  # noqa: ARG002
        """Explain that no row is read. Free."""
        keys = ", ".join(map(expression_sql, self.query.plan.keys))
        operator = PlanStep(
            "list", keys, f"{count_with_noun(len(self.groups), 'value')}, from the policy or public tables alone"
        )
        return Explanation(self.text, _FREE_PRICE, (operator,), "free: nothing is measured", self.warnings)

    def error(
        self,
        epsilon: Number | None = None,  # noqa: ARG002
        *,
        confidence: Number = DEFAULT_CONFIDENCE,
        **price: Any,  # noqa: ARG002
    ) -> Forecast:
        """Return a forecast without noise. Free."""
        return Forecast({}, exact(confidence, "confidence", CONFIDENCE), _FREE_PRICE, True, self.warnings)

    def advise(self, epsilon: Number | None = None, **price: Any) -> Advice:  # noqa: ARG002
        """Return empty advice, since there is no noise. Free."""
        return Advice(self.text, _FREE_PRICE, ())

    def price(self, within: Any = None, **terms: Any) -> float:  # noqa: ARG002
        """Return 0."""
        return 0.0

    def release(
        self,
        epsilon: Number | None = None,  # noqa: ARG002
        *,
        confidence: Number = DEFAULT_CONFIDENCE,
        **price: Any,  # noqa: ARG002
    ) -> Answer:
        """Return the values. Nothing is charged or stored, whatever price is given."""
        rows = answer_rows((), self.groups, len(self.query.plan.keys))
        query, rows = with_key_functions(self.query, rows, self._context.engine.values)
        finished = finish(query, rows, lambda _: [], joint=False)
        result = StoredResult(None, 0, datetime.now(UTC), "", free=False)
        terms = PurchaseTerms(_FREE_PRICE, "none", "none: no row is read", data=self._context.version)
        answer_receipt = make_receipt(
            result, terms, ("none",), question=self.text, context=self._context, confidence=confidence
        )
        return build_answer(self.query, finished, answer_receipt, self.warnings)


_MAX_NAMES = 20
"""The number of columns that a refusal lists."""


def require_all_coded(table: Table, exempt_columns: Collection[str] = ()) -> None:
    """Refuse a table with a column without cells: it would silently be missing from the synthetic one.
    ``exempt_columns`` are columns that need none.
    """
    coded_columns = {*measurable_column_names(table), *exempt_columns}
    missing = [name for name in table.columns if name not in coded_columns and not _is_unit_id(table, name)]
    if missing:
        more = f" and {len(missing) - _MAX_NAMES} more" if len(missing) > _MAX_NAMES else ""
        suggestions = "; ".join(_coding_suggestion(table, name) for name in missing[:_MAX_NAMES])
        raise Unsupported(
            "uncoded-column",
            f"{', '.join(map(repr, missing[:_MAX_NAMES]))}{more} of '{table.name}' cannot be counted by "
            f"values or bins: {CELLS_RULE}",
            fix=f"in the policy, add {suggestions}{more}; or leave {'them' if len(missing) > 1 else 'it'} out by "
            "naming the others in columns",
        )


def _coding_suggestion(table: Table, name: str) -> str:
    """Suggest a declaration that gives a column cells: values for a text, months for a date, ten bins for a number."""
    domain, target = table.columns[name], f" to {table.name}.{name}"
    if domain.type is Type.TEXT:
        return f'values = ["a", "b"]{target}'
    if domain.type.temporal:
        return f'{"" if domain.bounds else "bounds = [2024-01-01, 2024-12-31], "}bins = "month"{target}'
    if domain.bounds is None:
        return f"bounds = [0, 100], bins = 10{target}"
    low, high = (Fraction(bound) for bound in domain.bounds)  # type: ignore[arg-type]
    whole_numbers = int(high - low) + 1 if domain.type is Type.INTEGER else 10
    return f"bins = {min(10, whole_numbers)}{target}"


def _is_unit_id(table: Table, name: str) -> bool:
    return isinstance(table.id, str) and name.lower() == table.id.lower()
