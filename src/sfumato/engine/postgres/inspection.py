"""An owner sees here, exactly, what a policy's bounds and limits cost tables on PostgreSQL; nobody else may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from sfumato.engine.postgres.driver import Postgres
from sfumato.engine.seam import Inspection
from sfumato.engine.sources import inspected_tables
from sfumato.policy import Domain, Policy


class PostgresInspector:
    """An inspector has a policy's sources, opened for their owner to look at."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._engine = policy, Postgres(policy)

    def columns(self, table: str) -> Mapping[str, Domain]:
        return self._engine.catalog().tables[table].columns

    def fingerprint(self, table: str) -> str:
        return self._engine.fingerprint(table)

    def remarks(self, table: str) -> tuple[str, ...]:
        return self._engine.remarks(table)

    def inspect(self, table: str) -> Inspection:
        """Compare one private table with what the scan makes of it: one statement."""
        text, keys = inspected_tables.statement(self._engine.scans, table)
        declared = self._policy.tables[table]
        found = self._engine.server.run(text)[0]
        return inspected_tables.inspection(found, list(declared.columns), keys, owned=not declared.every_row)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()
