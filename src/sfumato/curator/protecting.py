"""A table in memory is protected in one line: a policy is made of what the caller declares, with an account on disk."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.curator.curators import Curator
from sfumato.engine.opening import types_in_memory
from sfumato.errors import InvalidParameter
from sfumato.policy import ROW, Domain, Policy, Table, Type, Value
from sfumato.policy.names import check_keys
from sfumato.privacy import Budget, PrivacyUnit
from sfumato.privacy.numbers import Number

_NO_COLUMN = "the table has no column that is called so"


def protect(
    table: Any,
    *,
    unit: str,
    epsilon: Number,
    account: str,
    ledger: str | os.PathLike[str],
    max_rows: int | None = None,
    bounds: Mapping[str, Sequence[Any]] | None = None,
    values: Mapping[str, Sequence[Value]] | None = None,
    delta: Number = 0,
    columns: Sequence[str] | None = None,
    name: str = "data",
    called: str | None = None,
) -> Curator:
    """Open a curator of a pandas, polars or Arrow table: nobody can tell from the answers whether one unit is in it.

    ``unit`` is the column that says whose row it is, or "row"; ``called`` is what a unit is called in words, and
    ``name`` what questions call the table. Types are those of the columns; ``bounds`` and ``values`` are what you know
    of them, never what you read off these rows. The account is kept in the ``ledger``, a file: a budget that ended with
    the process would be none. Whoever protects a copy or an edited table under the same account spends the same budget.
    """
    if isinstance(table, (str, os.PathLike)):
        fix = "run sfumato init on a file to draft its policy, and open that: sf.open('policy.toml')"
        raise InvalidParameter("table", os.fspath(table), "a pandas, polars or Arrow table", fix=fix)
    kinds = types_in_memory(table)
    limits, listed = dict(bounds or {}), dict(values or {})
    if unit != ROW:
        check_keys({unit: None}, kinds, "unit", _NO_COLUMN, f"name {ROW}, or one of")
    for given, place in ((limits, "bounds"), (listed, "values"), (dict.fromkeys(columns or ()), "columns")):
        check_keys(given, kinds, place, _NO_COLUMN, "remove it, or name one of")
    for key, named in (("account", account), ("ledger", ledger)):
        if not isinstance(named, (str, os.PathLike)) or not str(named).strip():
            raise InvalidParameter(key, named, "given, so that what is spent is known when this process has ended")
    asked = [each for each in (kinds if columns is None else columns) if each != unit or each in (columns or ())]
    declared = {each: _domain(kinds[each], limits.get(each), listed.get(each)) for each in asked}
    made = Table(name, table, declared, id=unit, max_rows=max_rows)
    whom = PrivacyUnit(called or ("row" if unit == ROW else unit), every_row=unit == ROW)
    return Curator(Policy(whom, Budget(epsilon, delta), {name: made}, account=account), ledger)


def _domain(kind: Type, bounds: Any, values: Any) -> Domain:
    """Declare a column as it is stored, with what is known of it."""
    ends, listed = (each if each is None else tuple(each) for each in (bounds, values))
    return Domain(kind, bounds=ends, values=listed)
