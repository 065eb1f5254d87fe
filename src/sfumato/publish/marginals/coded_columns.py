"""A coded column is an attribute of a table together with the key of the plan that says in which cell a row is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sfumato.errors import Unsupported
from sfumato.plan.sql.text_positions import nearest
from sfumato.plan.values.coded_keys import coded_key, listed
from sfumato.plan.values.expressions import Column, Expression
from sfumato.policy import Domain, Table, Value
from sfumato.policy.codings import Coding
from sfumato.publish.marginals.attributes import Attribute, Listed, Other, Range


@dataclass(frozen=True)
class CodedColumn:
    """This is a column of a table whose marginals can be measured."""

    attribute: Attribute
    key: Expression
    """What rows are grouped by: NULL for a row in the last cell."""
    codes: tuple[Value, ...]
    """What the key is in each cell but the last, in order."""


def attribute_of(name: str, domain: Domain, coding: Coding | None) -> Attribute:
    """Give the cells of a coded column, and the levels that join them; the last cell is a part of its own."""
    if coding is None or not coding.starts:
        cells: list[Listed | Range | Other] = [Listed(each) for each in listed(domain)]
    else:
        assert coding.end is not None
        cells = [*map(Listed, coding.spikes), *(Range(low, high) for low, high in pairwise(coding.starts))]
        cells.append(Range(coding.starts[-1], coding.end, closed=True))
    own = coding.levels if coding else ()
    levels = tuple((*each.parts, max(each.parts) + 1) for each in own)
    labels = tuple(each.labels if len(set(each.labels)) == len(each.labels) else () for each in own)
    return Attribute(name, domain.type, (*cells, Other()), levels, labels if any(labels) else ())


def coded(table: Table, names: Sequence[str], resolve: Callable[[str | None, str], Expression]) -> list[CodedColumn]:
    """Find coded columns by their names; ``resolve`` says which column of the rows a name means, as in SQL."""
    known = {name.lower(): name for name in table.columns}
    return [_coded(table, name, known, resolve) for name in names]


def coded_names(table: Table) -> list[str]:
    """List the columns of a table that can be measured."""
    return [name for name in table.columns if table.coded(name) and not _is_unit(table, name)]


def _coded(
    table: Table, name: str, known: Mapping[str, str], resolve: Callable[[str | None, str], Expression]
) -> CodedColumn:
    if not isinstance(name, str):
        raise Unsupported("not-text", "a column is named by its name", fix='write ["sex", "age"]')
    if _is_unit(table, name):
        rule = f"{name[:60]} says whose row it is and never leaves"
        raise Unsupported("unit-column", rule, fix="leave it out: marginals are of other columns")
    if name.lower() not in known:
        fix = nearest(name, coded_names(table))
        raise Unsupported("unknown-column", f"no declared column of {table.name} is called {name[:60]}", fix=fix)
    own = known[name.lower()]
    if not table.coded(own):
        rule = f"{own} has no cells: a column is coded when its values are listed, or it is boolean, or it has bins"
        raise Unsupported("uncoded-column", rule, fix=f"add values or bins to {table.name}.{own} in the policy")
    column, coding = resolve(None, own), table.codings.get(own)
    assert isinstance(column, Column)
    key, codes = coded_key(column, coding)
    return CodedColumn(attribute_of(own, table.columns[own], coding), key, codes)


def _is_unit(table: Table, name: str) -> bool:
    return isinstance(table.id, str) and name.lower() == table.id.lower() and not table.every_row
