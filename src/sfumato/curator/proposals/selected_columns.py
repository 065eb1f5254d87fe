"""Rows to publish may be those of a SELECT that treats every row by itself: derived columns, public tables beside them.

A column of it is coded as it is in its own table; one that is computed is coded when it is boolean, or its values are
known to be few: listed ones, or whole numbers of a short range. Whatever else comes out, and NULL, is in the last cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.catalog import Catalog
from sfumato.plan.sql.rows import Rows, derived
from sfumato.plan.sql.text import select as parse_text
from sfumato.plan.sql.text_positions import nearest
from sfumato.plan.values.coded_keys import coded_key, listed
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.policy import Domain, Policy, Type
from sfumato.policy.codings import Coding
from sfumato.publish.marginals.coded_columns import CodedColumn, attribute_of

_MOST_WHOLE = 1000
"""How many whole numbers a computed column may have to be coded by them."""


@dataclass(frozen=True)
class SelectedColumns:
    """These are the rows of a SELECT, and its coded columns with what is publicly known of each."""

    rows: Rows
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
    wanted = list(known) if names is None else [_known(each, known) for each in names]
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
    """Give the domain with its values listed; refuse one that has too many, or too few known."""
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
