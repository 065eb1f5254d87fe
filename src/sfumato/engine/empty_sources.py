"""A policy can be opened without its data: with an empty table in the place of each of its own.

What a question costs, and how wrong it will be, follows from the policy alone, so over empty tables it is told the same
price and the same error. That nothing private has a part in it needs no proof there: there is nothing.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow

from sfumato.policy import InMemory, Policy, Table, Type, Via

_STORED = {
    Type.INTEGER: pyarrow.int64(),
    Type.REAL: pyarrow.float64(),
    Type.TEXT: pyarrow.string(),
    Type.BOOLEAN: pyarrow.bool_(),
    Type.DATE: pyarrow.date32(),
    Type.TIMESTAMP: pyarrow.timestamp("us"),
}


def without_data(policy: Policy) -> Policy:
    """Give the same policy over empty tables in memory. A public table that declares no columns is left out: its
    columns are known from its rows alone.
    """
    tables = {name: each for name, each in policy.tables.items() if each.declares}
    empty = {name: replace(each, source=_empty(each, policy), relation=None) for name, each in tables.items()}
    ids = policy.id_type or (None if policy.unit.every_row else Type.TEXT)
    return replace(policy, tables=empty, id_type=ids, path=None)


def without_private_data(policy: Policy) -> Policy:
    """Give the same policy with empty private tables."""
    tables = {
        name: each if each.public else replace(each, source=_empty(each, policy), relation=None)
        for name, each in policy.tables.items()
    }
    ids = policy.id_type or (None if policy.unit.every_row else Type.TEXT)
    return replace(policy, tables=tables, id_type=ids, path=None, account=policy.account_name)


def _empty(table: Table, policy: Policy) -> InMemory:
    """Make a table without rows, with every column that the policy names."""
    named = dict.fromkeys(_naming(table, policy), pyarrow.string())
    named |= {name: _STORED[each.type] for name, each in table.columns.items()}
    named |= {name: pyarrow.list_(_STORED[each.items.type]) for name, each in table.lists.items()}
    return InMemory(pyarrow.schema(list(named.items())).empty_table())


def _naming(table: Table, policy: Policy) -> list[str]:
    """List the columns that say whose a row is, in this table or for the tables whose paths lead through it."""
    paths = [each.id for each in policy.tables.values() if isinstance(each.id, Via)]
    keys = [each.key for each in paths if each.via == table.name]
    if table.public or table.every_row:
        return keys
    return [*keys, table.id.on if isinstance(table.id, Via) else str(table.id)]
