"""Rows to publish may be those of a SELECT that treats every row by itself: derived columns, public tables beside them.

A column of it is coded as it is in its own table; one that is computed is coded when it is boolean, or its values are
known to be few: listed ones, or whole numbers of a short range. Whatever else comes out, and NULL, is in the last cell.

Of each unit one row may stand for all: the first in an order, so that one row of a unit is all that counts.

Rows that are equal in the order are told apart by every column that is read, in the order of the policy; what still
ties is equal in all of them, so no other unit's rows, and no engine, decide which row stands.

Some rows never count: those that the policy calls impossible, and those that the condition of a question leaves out.

Both are public before a row is read. So the model leaves such cells empty, and no such row is drawn.

A question is answered from the policy where it measures nothing: SELECT DISTINCT, or GROUP BY without an
aggregate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.previews.advising import Advice
from sfumato.curator.previews.explaining import Explanation, Operator
from sfumato.curator.previews.forecasts import Forecast
from sfumato.curator.proposals.questions import Question
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.catalog import Catalog
from sfumato.plan.sql.building import RowSelection, derive, where
from sfumato.plan.sql.rows import RowSource, derived
from sfumato.plan.sql.text import select as parse_text
from sfumato.plan.sql.text_positions import nearest
from sfumato.plan.values.coded_keys import coded_key, listed
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.plan.words import many, words
from sfumato.plan.written_names import quoted
from sfumato.policy import Domain, Policy, Table, Type
from sfumato.policy.codings import Coding
from sfumato.privacy.numbers import CONFIDENCE, Number, exact
from sfumato.publish.cells import answering
from sfumato.publish.marginals.attributes import Attributes, CodedColumn, attribute_of
from sfumato.publish.marginals.faces import BARE, TableFace
from sfumato.publish.synthesis.implications import Zeros, check_zeros, zeros_of
from sfumato.publish.synthesis.released import ImpliedColumn
from sfumato.release.answers.answer import Answer, answer
from sfumato.release.noisy_rows.finishing import finish
from sfumato.release.noisy_rows.key_functions import answer_rows, with_key_functions
from sfumato.release.payers import Purchase
from sfumato.release.proposal import receipt
from sfumato.release.releasing import StoredResult

_MOST_WHOLE = 1000
"""How many whole numbers a computed column may have to be coded by them."""


@dataclass(frozen=True)
class SelectedColumns:
    """The rows of a SELECT, and its coded columns with what is publicly known of each."""

    rows: RowSource
    columns: tuple[CodedColumn, ...]
    domains: tuple[Domain, ...]


def is_select(source: str) -> bool:
    """Tell a SELECT from the name of a table."""
    return source.split(None, 1)[:1] != [source.strip()] and source.split()[0].upper() in ("SELECT", "WITH")


def selected_columns(
    catalog: Catalog, policy: Policy, text: str, names: Sequence[str] | None = None
) -> SelectedColumns:
    """Read a SELECT and code its columns, or these of them."""
    rows = derived(parse_text(text, None), catalog, {})
    known = {name.lower(): (name, made) for name, made in rows.scope[""].items()}
    wanted = list(known) if names is None else [_known(name, known) for name in names]
    if not wanted or len(set(wanted)) != len(wanted):
        raise InvalidParameter("columns", names, "different columns of the SELECT, one at least")
    found = [_coded(*known[each], policy) for each in wanted]
    return SelectedColumns(rows, tuple(each for each, _ in found), tuple(domain for _, domain in found))


def _known(name: object, known: dict[str, tuple[str, Expression]]) -> str:
    if not isinstance(name, str) or name.lower() not in known:
        fix = nearest(str(name), [each for each, _ in known.values()])
        raise Unsupported("unknown-column", f"the SELECT has no column called {str(name)[:60]}", fix=fix)
    return name.lower()


def _coded(name: str, made: Expression, policy: Policy) -> tuple[CodedColumn, Domain]:
    coding = _coding(made, policy)
    domain = made.domain if coding is not None else _few(name, made.domain)
    expression = replace(made, domain=replace(domain, nullable=True))
    if isinstance(expression, Column):
        key, codes = coded_key(expression, coding)
    else:
        key, codes = expression, listed(domain)
    return CodedColumn(attribute_of(name, domain, coding), key, codes), domain


def _coding(made: Expression, policy: Policy) -> Coding | None:
    """Find the bins of a column that is taken as it is."""
    if not isinstance(made, Column) or not isinstance(made.reference, Field):
        return None
    table = policy.tables.get(made.reference.table)
    return None if table is None else table.codings.get(made.reference.name)


def _few(name: str, domain: Domain) -> Domain:
    """Return the domain with its values listed; refuse one that has too many, or too few known."""
    if domain.values is not None or domain.type is Type.BOOLEAN:
        return domain
    if domain.type is Type.INTEGER and domain.bounds is not None:
        low, high = domain.bounds
        assert isinstance(low, int)
        assert isinstance(high, int)
        if high - low < _MOST_WHOLE:
            return Domain(Type.INTEGER, values=tuple(range(low, high + 1)), nullable=domain.nullable)
    rule = f"{name} has no cells: a computed column is coded when its values are listed, few whole numbers, or truths"
    fix = f"write CASE WHEN … THEN 'low' ELSE 'high' END AS {name}, or select a column that has bins"
    raise Unsupported("uncoded-column", rule, fix=fix)


_ORDER = re.compile(r"\s*(.+?)(?:\s+(asc|desc))?\s*", re.IGNORECASE | re.DOTALL)


def one_row_of_each(source: RowSelection, table: Table, order: object, names: Sequence[str]) -> RowSelection:
    """Keep the first row of each unit: ``order`` is a column, or a column and DESC for the last."""
    if table.every_row:
        raise InvalidParameter("one_row_per", "unit", "left out: every row is a unit")
    found = _ORDER.fullmatch(order) if isinstance(order, str) else None
    known = {name.lower(): name for name in table.columns}
    if found is None or found[1].lower() not in known:
        rule = f"a column of {table.name} such as visited, or visited DESC for the last row"
        raise InvalidParameter("order", order, rule, fix=f"name one of {', '.join(table.columns)}")
    if not isinstance(table.id, str):
        raise InvalidParameter("one_row_per", "unit", "left out: this table has no column with the ids of units")
    number = next(name for name in map("number_{}".format, range(len(known) + 1)) if name not in known)
    first = f"{quoted(known[found[1].lower()])} {(found[2] or 'ASC').upper()}"
    others = [quoted(name) for name in names]
    by = f"PARTITION BY {quoted(table.id)} ORDER BY {', '.join([first, *others])}"
    return where(derive(source, number, f"ROW_NUMBER() OVER ({by})"), f"{number} = 1")


_OF_OTHER_COLUMNS = "unknown-column"


def check_conditions(table: str, attributes: Attributes, implied: Sequence[ImpliedColumn], face: TableFace) -> None:
    """Refuse a condition that cannot be told of drawn rows, but for one on columns that they do not have."""
    added = tuple(each.attribute for each in implied)
    domains = (*face.known(attributes), *BARE.known(added))
    for each in face.impossible:
        try:
            _evaluate(table, (*attributes, *added), domains, each)
        except Unsupported as refusal:
            if refusal.code != _OF_OTHER_COLUMNS:
                rule = (
                    f"drawn rows never meet what the policy calls impossible, and {each[:200]} cannot be told of them"
                )
                fix = "write it with fewer columns or coarser bins, or remove it from the policy"
                why = refusal.rule.removesuffix(f" [{refusal.code}]")
                raise Unsupported(refusal.code, f"{rule}: {why}", fix=fix) from None


def kept_face(table: str, attributes: Attributes, face: TableFace, where: str) -> TableFace:
    """Add that no row fails the condition by which rows are kept, where that can be told of the columns."""
    failing = f"({where}\n) IS NOT TRUE"
    try:
        _evaluate(table, attributes, face.known(attributes), failing)
    except Unsupported:
        return face
    return replace(face, impossible=(*face.impossible, failing))


def kept_zeros(table: str, attributes: Attributes, face: TableFace, zeros: Zeros, where: str, most_cells: int) -> Zeros:
    """Find the cells that are empty, those that the condition leaves out too where the model can hold them; where it
    cannot, rows are mended after they are drawn.
    """
    found = zeros_of(table, attributes, face)
    try:
        check_zeros(found, [attribute.size for attribute in attributes], most_cells)
    except Unsupported as refusal:
        if refusal.code == "contradictory-zeros":
            raise InvalidParameter("where", where, "a condition that some row can meet") from None
        return zeros
    return found


def _evaluate(table: str, attributes: Attributes, domains: tuple[Domain, ...], text: str) -> None:
    answering.condition(answering.Face(table, attributes, domains, None, None), text)  # type: ignore[arg-type]


_FREE = "ε = 0: from the policy, no row was read"


@dataclass(frozen=True)
class DeclaredValues(Question):
    """The values that columns may hold, as the policy or a public table says: free, and never charged.

    It lists what is declared, not what rows hold, so it tells nothing about anybody.
    """

    @property
    def free(self) -> bool:
        """It needs no price."""
        return True

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        return ("These are the values that are declared, whether any row has them or not.",)

    def explain(self, **price: Any) -> Explanation:  # noqa: ARG002
        """State that no row is read. Free."""
        keys = ", ".join(map(words, self.query.plan.keys))
        what = Operator("list", keys, f"{many(len(self.groups), 'value')}, from the policy or public tables alone")
        return Explanation(self.text, _FREE, (what,), "free: nothing is measured", self.warnings)

    def error(self, *, confidence: Number = "0.95", **price: Any) -> Forecast:  # noqa: ARG002
        """There is no noise. Free."""
        return Forecast({}, exact(confidence, "confidence", CONFIDENCE), _FREE, True, self.warnings)

    def advise(self, **price: Any) -> Advice:  # noqa: ARG002
        """There is no noise, and nothing to advise. Free."""
        return Advice(self.text, _FREE, ())

    def price(self, within: Any = None, **terms: Any) -> float:  # noqa: ARG002
        """State that it costs nothing."""
        return 0.0

    def release(self, *, confidence: Number = "0.95", **price: Any) -> Answer:  # noqa: ARG002
        """Return the values. Nothing is charged or written down, whatever price is named."""
        rows = answer_rows((), self.groups, len(self.query.plan.keys))
        made, rows = with_key_functions(self.query, rows, self._context.engine.values)
        shown = finish(made, rows, lambda _: [], joint=False)
        found = StoredResult(None, 0, datetime.now(UTC), "", free=False)
        terms = Purchase(_FREE, "none", "none: no row counts", data=self._context.version)
        paper = receipt(found, terms, ("none",), question=self.text, here=self._context, confidence=confidence)
        return answer(self.query, shown, paper, self.warnings)
