"""Listings for SHOW TABLES, DESCRIBE and SUMMARIZE: the declarations of the policy, which are public and free.

No file, catalog or statistic of a private table is read.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.previews.advising import Advice
from sfumato.curator.previews.error_forecasts import Forecast
from sfumato.curator.previews.explaining import Explanation, PlanStep
from sfumato.errors import InvalidParameter, Unsupported, ValueWords
from sfumato.html_fragments import table as html_table
from sfumato.plan.canonical import PlanKey
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.descriptions import describe_limits
from sfumato.plan.limits import ContributionLimits
from sfumato.policy import Domain, Policy, Type
from sfumato.policy.codings import describe_cells
from sfumato.privacy import codec
from sfumato.privacy.numbers import format_exact as digits
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import escape_for_spreadsheet, escape_unprintable

if TYPE_CHECKING:  # reading a listing back needs no parser
    from sfumato.plan.sql.building import RowSelection
    from sfumato.plan.sql.text import ListingRequest

_MAX_VALUES, _MAX_LINE = 20, 80
_FREE = "free: from the policy alone, no data are read"


@codec.serialisable("listing")
@dataclass(frozen=True)
class Listing:
    """Rows of public text, which need no release: ``release`` returns them and spends nothing."""

    question: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        if any(type(row) is not tuple or len(row) != len(self.columns) for row in self.rows):
            rule = f"a list of tuples, each with {len(self.columns)} values, one for every column"
            raise InvalidParameter("rows", ValueWords("a row of another type or length"), rule)

    @property
    def plan_key(self) -> PlanKey:
        """Empty, since nothing is measured or stored."""
        return PlanKey("", "")

    @property
    def identity(self) -> str:
        """Empty, since nothing is measured or stored."""
        return self.plan_key.current

    @property
    def warnings(self) -> tuple[str, ...]:
        return ()

    @property
    def free(self) -> bool:
        """Always True: a listing needs no price."""
        return True

    def explain(self, *_: Any, **__: Any) -> Explanation:
        return Explanation(self.question, "no price", (PlanStep("list", ", ".join(self.columns), _FREE),), _FREE, ())

    def error(self, *_: Any, **__: Any) -> Forecast:
        return Forecast({}, Fraction(19, 20), "nothing", True, ())

    def advise(self, *_: Any, **__: Any) -> Advice:
        return Advice(self.question, "no price", ())

    def price(self, *_: Any, **__: Any) -> float:
        return 0.0

    def release(self, *_: Any, **__: Any) -> Listing:
        """Return the listing itself, whatever the price: nothing is charged."""
        return self

    def preview(self, *_: Any, **__: Any) -> Listing:
        """Return the listing itself: it contains nothing private."""
        return self

    def column(self, name: str) -> list[str]:
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def cells(self) -> list[list[str]]:
        return [list(map(escape_unprintable, row)) for row in self.rows]

    def to_json(self) -> str:
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Listing:
        """Parse what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def to_csv(self) -> str:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(
            [map(escape_for_spreadsheet, row) for row in (self.columns, *self.rows)]
        )
        return out.getvalue()

    def __str__(self) -> str:
        lines = [list(self.columns), *self.cells()]
        widths = [max(len(line[index]) for line in lines) for index in range(len(self.columns))]
        text_lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        return "\n".join([text_lines[0], "  ".join("─" * width for width in widths), *text_lines[1:]])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self.columns, self.cells())


def list_declarations(question: str, request: ListingRequest, policy: Policy, catalog: Catalog) -> Listing:
    """List the tables of a policy, or the columns of one of them."""
    if request.table is None:
        rows = tuple(
            (description.name, *_kind_and_protection(policy, description)) for description in catalog.tables.values()
        )
        return Listing(question, ("table", "kind", "about"), rows)
    table = _find_table(catalog, request.table)
    if not request.summarize or table.public:
        return Listing(question, _COLUMN_HEADINGS, tuple(_column_rows_of_table(policy, table)))
    from sfumato.plan.sql.building import start_selection

    return _listing_with_offers(
        question,
        _column_rows_of_table(policy, table),
        _offered_question_by_column(start_selection(catalog, table.name), policy),
    )


def list_columns_with_offers(question: str, rows: RowSelection, policy: Policy) -> Listing:
    """List the columns of a view of rows, each with a priced question about its values. No row is read."""
    return _listing_with_offers(question, _column_rows_of_view(rows, policy), _offered_question_by_column(rows, policy))


def _column_rows_of_view(rows: RowSelection, policy: Policy) -> list[tuple[str, str, str]]:
    """Describe the columns of a view: those of its table as SUMMARIZE does, with the id, and derived ones by domain."""
    from sqlglot import exp

    is_of_table = isinstance(rows.tree.args["from_"].this, exp.Table)
    declared = {row[0]: row for row in _column_rows_of_table(policy, rows.table)} if is_of_table else {}
    columns = {
        name: declared[name]
        if name in declared and rows.table.columns.get(name) == domain
        else (name, domain.type.value, _describe_domain(domain))
        for name, domain in rows.columns.items()
    }
    others = [row for name, row in declared.items() if name not in columns and name not in rows.table.columns]
    return sorted([*columns.values(), *others], key=lambda row: (row[1] != "id", row in others))


_COLUMN_HEADINGS = ("column", "type", "declared")
_QUARTILES = ("0.25", "0.5", "0.75")


def _listing_with_offers(question: str, columns: list[tuple[str, str, str]], offers: Mapping[str, str]) -> Listing:
    rows = tuple((*column, offers.get(column[0], "")) for column in columns)
    return Listing(question, (*_COLUMN_HEADINGS, "to ask, for a price"), rows)


def _offered_question_by_column(rows: RowSelection, policy: Policy) -> dict[str, str]:
    """Return, by column, the question that measures its values: quartiles of numbers, medians of dates, counts of
    listed values.

    They are texts and are not asked: a row is read only when one of them is released at a price.
    """
    from sfumato.plan.sql.aggregations import count, median, quantiles
    from sfumato.plan.sql.building import lower_keys, start_question
    from sfumato.plan.sql.fragments import identifier_sql

    offers = {}
    for name, domain in rows.columns.items():
        column = identifier_sql(name)
        if (
            domain.values is not None
            or domain.type is Type.BOOLEAN
            or (domain.type is Type.TEXT and policy.budget.delta)
        ):
            offers[name] = start_question(rows, lower_keys(rows, (column,), {}), {"count": count()}).text
        elif domain.type.numeric and domain.bounds is not None:
            offers[name] = start_question(rows, (), {name: quantiles(column, _QUARTILES)}).text
        elif domain.type.temporal and domain.bounds is not None:
            offers[name] = start_question(rows, (), {name: median(column)}).text
    return offers


def _find_table(catalog: Catalog, name: str) -> CatalogTable:
    from sfumato.plan.sql.text_positions import fix_for_unknown_name  # reading a listing back needs no parser

    for description in catalog.tables.values():
        if description.name.lower() == name.lower():
            return description
    rule = f"no declared table is called {name[:60]}"
    raise Unsupported("unknown-table", rule, fix=fix_for_unknown_name(name, catalog.tables))


def _kind_and_protection(policy: Policy, table: CatalogTable) -> tuple[str, str]:
    if table.public:
        return "public", "protects nobody"
    return (
        "private",
        f"protects {policy.unit}; {describe_limits(ContributionLimits.from_table(policy.tables[table.name]))}",
    )


def _column_rows_of_table(policy: Policy, table: CatalogTable) -> list[tuple[str, str, str]]:
    rules = policy.cell_rules(table.name)
    column_rows = []
    for name, domain in table.columns.items():
        read = rules[name].describe() if name in rules else []
        declared = [_describe_domain(domain), *describe_cells(table.codings.get(name)), *read]
        column_rows.append((name, domain.type.value, ", ".join(declared)))
    column_rows += [
        (
            name,
            f"{list_column.items.type.value} list",
            f"at most {list_column.max_items:,} items, for UNNEST: {_describe_domain(list_column.items)}",
        )
        for name, list_column in table.lists.items()
    ]
    if table.id is None or table.id.lower() in {name.lower() for name in table.columns}:
        return column_rows
    return [(table.id, "id", "identifies the unit of a row; COUNT(DISTINCT …) counts units"), *column_rows]


def _describe_domain(domain: Domain) -> str:
    parts = []
    if domain.values is not None:
        parts.append(f"one of {_format_values(domain.values)}")
    if domain.bounds is not None:
        parts.append(f"from {_format_value(domain.bounds[0])} to {_format_value(domain.bounds[1])}")
    if domain.grid is not None:
        parts.append(f"in steps of {_format_value(domain.grid)}")
    if domain.type is Type.TEXT and domain.values is None:
        parts.append(f"at most {domain.max_letters:,} letters")
    if domain.nullable:
        parts.append("NULL is a group")
    return ", ".join(parts) or "any value"


def _format_values(values: tuple[object, ...]) -> str:
    """Format at most twenty values, and no more than fit on a line."""
    texts = [_format_value(value) for value in values[:_MAX_VALUES]]
    while len(texts) > 1 and len(", ".join(texts)) > _MAX_LINE:
        texts.pop()
    more = len(values) - len(texts)
    return ", ".join(texts) + (f", … {more:,} more" if more else "")


def _format_value(value: object) -> str:
    return digits(value) if isinstance(value, Fraction) else str(value)
