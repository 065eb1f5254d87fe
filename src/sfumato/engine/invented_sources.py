"""A policy can be opened over invented rows: dummies in the place of its private tables, beside its public ones.

What is read there is read of no private source: none is opened. So whatever is made of it says nothing of anybody.
"""

from __future__ import annotations

from dataclasses import replace

from sfumato.policy import InMemory, Policy, Type
from sfumato.policy.dummies import dummies

_ROWS = 1_000


def with_invented_rows(policy: Policy) -> Policy:
    """Give the same policy over invented private tables in memory, the same ones every time."""
    private = {name: each for name, each in policy.tables.items() if not each.public}
    ids = policy.id_type or (None if policy.unit.every_row else Type.TEXT)
    rows = min([_ROWS, *(each.row_ceiling for each in private.values())])
    made = dummies(private, rows, ids)
    tables = {
        name: replace(each, source=InMemory(made[name]), relation=None) if name in private else each
        for name, each in policy.tables.items()
    }
    return replace(policy, tables=tables, id_type=ids, path=None, account=policy.account_name)
