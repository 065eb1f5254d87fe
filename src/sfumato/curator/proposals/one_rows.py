"""Of each unit one row may stand for all: the first in an order, so that one row of a unit is all that counts.

Rows that are equal in the order are told apart by every column that is read, in the order of the policy; what still
ties is equal in all of them, so no other unit's rows, and no engine, decide which row stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sfumato.errors import InvalidParameter
from sfumato.plan.sql.building import Selection, derive, where
from sfumato.plan.written_names import quoted
from sfumato.policy import Table

_ORDER = re.compile(r"\s*(.+?)(?:\s+(asc|desc))?\s*", re.IGNORECASE | re.DOTALL)


def one_row_of_each(source: Selection, table: Table, order: object, names: Sequence[str]) -> Selection:
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
