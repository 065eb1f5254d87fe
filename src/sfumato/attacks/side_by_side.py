"""Many runs of an attack are asked side by side: one table holds the people of all of them, and one question groups by
run.

Nobody is in two runs, so what a unit can change lies within its own: each run is released at the whole price (parallel
composition, McSherry 2009), by the real path from SQL to noise, with a ledger that is thrown away. No data but invented
people are read.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import WeakPrivacy
from sfumato.policy import Domain, InMemory, Policy, Table
from sfumato.privacy import Budget, Neighbours, PrivacyUnit
from sfumato.privacy.numbers import Number

if TYPE_CHECKING:
    from sfumato.curator import Curator

TABLE = "people"
_MEMORY = "/dev/shm"
"""Where Linux keeps files in memory: what is thrown away need not reach a disk, which is waited for at each charge."""


@contextmanager
def thrown_away(policy: Policy) -> Iterator[Curator]:
    """Open a curator whose ledger is in a folder of its own, which is removed with everything that was spent.

    Attacks are made at whatever price an owner would promise, and a warning that it is high would be said to nobody.
    """
    from sfumato.curator import Curator

    with tempfile.TemporaryDirectory(prefix="sfumato-", dir=_in_memory()) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPrivacy)
        with Curator(policy, Path(folder) / "scratch", threads=1) as curator:
            yield curator


def _in_memory() -> str | None:
    return _MEMORY if os.path.isdir(_MEMORY) and os.access(_MEMORY, os.W_OK) else None


def invented(
    columns: Mapping[str, tuple[Any, Domain]],
    epsilon: Number,
    delta: Number = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> Policy:
    """Declare a table of invented people, a row each: values and domain of every column, and what may be spent."""
    import pyarrow

    rows = pyarrow.table({name: values for name, (values, _) in columns.items()})
    declared = {name: domain for name, (_, domain) in columns.items()}
    table = Table(TABLE, InMemory(rows), declared, id="row")
    budget = Budget(epsilon, delta, neighbours=neighbours)
    size = rows.num_rows if neighbours is Neighbours.REPLACE else None  # then everybody knows it
    unit = PrivacyUnit("person", every_row=True)
    return Policy(unit, budget, {TABLE: table}, account="invented people", size=size)
