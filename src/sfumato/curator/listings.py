"""Listings answer SHOW TABLES and DESCRIBE: what the policy declares, which is public. They cost nothing.

No file, catalog or statistic of a private table is looked at: what stands here is what the owner wrote down.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.curator.previews.advising import Advice
from sfumato.curator.previews.explaining import Explanation, Operator
from sfumato.curator.previews.forecasts import Forecast
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.notebook_html import table as html_table
from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.limits import Limits
from sfumato.plan.words import limits
from sfumato.policy import Domain, Policy, Type
from sfumato.policy.codings import cell_words
from sfumato.privacy import codec
from sfumato.privacy.numbers import text as digits
from sfumato.untrusted import defused, printable

_SHOWN, _LINE = 20, 80
_FREE = "free: from the policy alone, no data are read"


@codec.value("listing")
@dataclass(frozen=True)
class Listing:
    """A listing is rows of public text: an answer that is there already. ``release`` gives it, and spends nothing."""

    question: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        codec.check_fields(self)
        if any(type(row) is not tuple or len(row) != len(self.columns) for row in self.rows):
            raise InvalidParameter("rows", self.rows, "lists with a cell for each column")

    @property
    def identity(self) -> str:
        """Nothing is measured, so nothing is stored under it."""
        return ""

    @property
    def warnings(self) -> tuple[str, ...]:
        return ()

    @property
    def free(self) -> bool:
        """It needs no price."""
        return True

    def explain(self, **_: Any) -> Explanation:
        return Explanation(self.question, "no price", (Operator("list", ", ".join(self.columns), _FREE),), _FREE, ())

    def error(self, **_: Any) -> Forecast:
        return Forecast({}, Fraction(19, 20), "nothing", True, ())

    def advise(self, **_: Any) -> Advice:
        return Advice(self.question, "no price", ())

    def price(self, *_: Any, **__: Any) -> float:
        return 0.0

    def release(self, **_: Any) -> Listing:
        """Return the listing itself, whatever price is named: nothing is charged."""
        return self

    def rehearse(self, **_: Any) -> Listing:
        """Return the listing itself: nothing in it has to be invented."""
        return self

    def column(self, name: str) -> list[str]:
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def cells(self) -> list[list[str]]:
        return [list(map(printable, row)) for row in self.rows]

    def to_json(self) -> str:
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Listing:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def to_csv(self) -> str:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([map(defused, row) for row in (self.columns, *self.rows)])
        return out.getvalue()

    def __str__(self) -> str:
        lines = [list(self.columns), *self.cells()]
        widths = [max(len(line[index]) for line in lines) for index in range(len(self.columns))]
        shown = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        return "\n".join([shown[0], "  ".join("─" * width for width in widths), *shown[1:]])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self.columns, self.cells())


def listed(question: str, table: str, policy: Policy, catalog: Catalog) -> Listing:
    """List the tables of a policy, or the columns of one of them."""
    from sfumato.plan.sql.text import TABLES  # who only reads a listing back needs no parser
    from sfumato.plan.sql.text_positions import nearest

    if table == TABLES:
        rows = tuple((each.name, *_about(policy, each)) for each in catalog.tables.values())
        return Listing(question, ("table", "kind", "about"), rows)
    for each in catalog.tables.values():
        if each.name.lower() == table.lower():
            return Listing(question, ("column", "type", "declared"), tuple(_columns(each)))
    rule = f"no declared table is called {table[:60]}"
    raise Unsupported("unknown-table", rule, fix=nearest(table, catalog.tables))


def _about(policy: Policy, table: Described) -> tuple[str, str]:
    if table.public:
        return "public", "protects nobody"
    return "private", f"protects {policy.unit}; {limits(Limits.of(policy.tables[table.name]))}"


def _columns(table: Described) -> list[tuple[str, str, str]]:
    declared = [
        (name, domain.type.value, ", ".join([_declared(domain), *cell_words(table.codings.get(name))]))
        for name, domain in table.columns.items()
    ]
    declared += [
        (
            name,
            f"{each.items.type.value} list",
            f"at most {each.most_items:,} items, for UNNEST: {_declared(each.items)}",
        )
        for name, each in table.lists.items()
    ]
    if table.id is None or table.id.lower() in {name.lower() for name in table.columns}:
        return declared
    return [(table.id, "id", "says whose row it is: COUNT(DISTINCT …) of it counts units"), *declared]


def _declared(domain: Domain) -> str:
    found = []
    if domain.values is not None:
        found.append(f"one of {_listed(domain.values)}")
    if domain.bounds is not None:
        found.append(f"from {_value(domain.bounds[0])} to {_value(domain.bounds[1])}")
    if domain.grid is not None:
        found.append(f"in steps of {_value(domain.grid)}")
    if domain.type is Type.TEXT and domain.values is None:
        found.append(f"at most {domain.letters:,} letters")
    if domain.nullable:
        found.append("missing is a group")
    return ", ".join(found) or "nothing"


def _listed(values: tuple[object, ...]) -> str:
    """Name at most twenty values, and no more than fit on a line."""
    named = [_value(each) for each in values[:_SHOWN]]
    while len(named) > 1 and len(", ".join(named)) > _LINE:
        named.pop()
    more = len(values) - len(named)
    return ", ".join(named) + (f", … {more:,} more" if more else "")


def _value(value: object) -> str:
    return digits(value) if isinstance(value, Fraction) else str(value)
