"""A catalog to ask about, and a query as lines of words: what fixtures compare."""

from __future__ import annotations

from fractions import Fraction

from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.descriptions import (
    column_names_by_level,
    describe_measure,
    expression_sql,
    noisy_aggregate_sql,
    unit_measure_sql,
    window_sql,
)
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.nodes import Filter, PerUnit, PublicJoin, Query, Scan, Unnest, Window, relations
from sfumato.plan.noisy_rows import Finish
from sfumato.plan.values.expressions import Reference
from sfumato.policy import Domain, ListColumn
from sfumato.privacy.numbers import format_exact

VISITS = {
    "region": Domain("text", values=("north", "south", "east", "west")),
    "age": Domain("integer", bounds=(0, 110)),
    "cost": Domain("real", bounds=(0, 5000), grid="0.01"),
    "ward": Domain("text"),
    "day": Domain("date", bounds=("2024-01-01", "2024-12-31")),
    "urgent": Domain("boolean"),
    "hospital": Domain("integer", bounds=(1, 20)),
    "score": Domain("real"),
    "at": Domain("timestamp", bounds=("2024-01-01 00:00:00", "2024-01-02 23:59:59")),
}
HOSPITALS = {
    "id": Domain("integer", values=tuple(range(1, 21))),
    "city": Domain("text", values=("Ulm", "Bonn")),
    "beds": Domain("integer", values=(10, 200)),
}
LISTS = {
    "tags": ListColumn(Domain("text", values=("new", "old")), 5),
    "doses": ListColumn(Domain("real", bounds=(0, 9)), 300),
}
CATALOG = Catalog(
    {
        "visits": CatalogTable(
            "visits",
            VISITS,
            public=False,
            id="patient_id",
            limits=ContributionLimits(10, 4, 3),
            lists=LISTS,
        ),
        "hospitals": CatalogTable("hospitals", HOSPITALS, public=True),
    },
    lambda _, columns: 1 if columns == ("id",) else 10,
    lambda *_: 3,
)


def described(query: Query) -> list[str]:
    """One line for each operator, from the rows up."""
    lines = []
    for node in reversed(list(relations(query.plan.source))):
        if isinstance(node, Scan):
            lines.append(f"scan {node.table}")
        elif isinstance(node, PublicJoin):
            compared = [
                *(("=", *pair) for pair in node.pairs),
                *sorted(node.bands, key=lambda band: band[2], reverse=True),
            ]
            on = ", ".join(f"{expression_sql(made)} {test} {column}" for test, made, column in compared)
            kind = "left join" if node.outer else "join"
            lines.append(f"{kind} {node.table} as number {node.source} on {on}, at most {node.multiplicity}")
        elif isinstance(node, Unnest):
            lines.append(f"unnest {node.items} as number {node.source}, at most {node.most}")
        elif isinstance(node, Filter):
            lines.append(f"filter {expression_sql(node.predicate)}")
        elif isinstance(node, PerUnit):
            by = "".join(f", {expression_sql(key)}" for _, key in node.keys)
            lines.append(f"per unit{by} as number {node.source}")
            lines += [f"  {unit_measure_sql(made)} in {_exactly(made.domain)}" for _, made in node.results]
        elif isinstance(node, Window):
            lines.append(f"window as number {node.source}")
            lines += [f"  {window_sql(made)} in {_exactly(made.domain)}" for _, made in node.functions]
    lines += [f"group {expression_sql(key)}" for key in query.plan.keys]
    lines += [f"measure {describe_measure(each)}" for each in query.plan.measures]
    lines += [
        f"set {', '.join(expression_sql(query.plan.keys[index]) for index in each)}".rstrip()
        for each in query.finish.sets
    ]
    meant, *others = column_names_by_level(query)
    lines += finished(query.finish, meant)
    for outer, known in zip(query.outer, others, strict=True):
        lines.append("outer" if outer.where is None else f"outer where {expression_sql(outer.where, known)}")
        lines += [f"outer group {expression_sql(key, known)}" for key in outer.keys]
        lines += [f"outer total {noisy_aggregate_sql(each, known)}" for each in outer.totals]
        lines += finished(outer.finish, known)
    return lines


def finished(finish: Finish, meant: dict[Reference, str]) -> list[str]:
    lines = [f"show {output.name}: {expression_sql(output.expression, meant)}" for output in finish.outputs]
    if finish.having is not None:
        lines.append(f"having {expression_sql(finish.having, meant)}")
    if finish.qualify is not None:
        lines.append(f"qualify {expression_sql(finish.qualify, meant)}")
    for order in finish.order:
        directions = " desc" * order.descending + " nulls first" * order.nulls_first
        lines.append(f"order {expression_sql(order.expression, meant)}{directions}")
    if finish.limit is not None or finish.offset:
        lines.append(f"limit {finish.limit} offset {finish.offset}")
    return lines


def _exactly(domain: Domain) -> str:
    """Write everything that a domain says: what people are shown leaves out listed values."""
    told = {name: getattr(domain, name) for name in ("bounds", "values", "grid", "max_length", "other")}
    parts = [f"{name}={_shown(value)}" for name, value in told.items() if value is not None]
    parts += ["nullable=True"] if domain.nullable else []
    return f"Domain({', '.join([f'type={domain.type.value!r}', *parts])})"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))}{',' if len(value) == 1 else ''})"
    return format_exact(value) if isinstance(value, Fraction) else repr(value)
