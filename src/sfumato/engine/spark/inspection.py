"""An owner sees here, exactly, what a policy's bounds and limits cost tables on Spark; nobody else may. PRIVATE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from sfumato.engine.seam import Inspection
from sfumato.engine.sources import inspected_tables
from sfumato.engine.spark.driver import Spark
from sfumato.engine.spark.frames import Frame
from sfumato.engine.spark.sources import content
from sfumato.engine.spellings.spark_literals import name
from sfumato.policy import Domain, Policy

_FATES = range(1, 6)


class SparkInspector:
    """An inspector has a policy's sources, opened for their owner to look at."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._engine = policy, Spark(policy)
        self._tables = self._engine.tables

    def columns(self, table: str) -> Mapping[str, Domain]:
        return self._engine.catalog().tables[table].columns

    def fingerprint(self, table: str) -> str:
        if self._policy.tables[table].public:
            return self._tables.here.fingerprint(table)
        return content(self._tables.source(table), self._tables.session)

    def remarks(self, table: str) -> tuple[str, ...]:
        return self._tables.remarks(table)

    def inspect(self, table: str) -> Inspection:
        """Compare one private table with what the scan makes of it, cell by cell, and count its units' rows."""
        declared = self._policy.tables[table]
        found = list(self._only(self._fates(table)))
        keys = [each for each, domain in declared.columns.items() if domain.values is not None]
        if not declared.every_row:
            found += self._only(self._losses(table, keys))
        return inspected_tables.inspection(found, list(declared.columns), keys, owned=not declared.every_row)

    def _fates(self, table: str) -> Frame:
        """Count rows, those that are somebody's, and for each column what became of the cells of these."""
        rows, cells = self._tables.scans.inspected(table)
        fates = [f"{inspected_tables.fate(cell)} AS f{place}" for place, cell in enumerate(cells)]
        counts = [
            f"COUNT(CASE WHEN k = 1 AND f{place} = {each} THEN 1 END)" for place in range(len(fates)) for each in _FATES
        ]
        seen = rows.selectExpr("k", *fates)
        return self._aggregated(seen, "COUNT(*)", "COUNT(CASE WHEN k = 1 THEN 1 END)", *counts)

    def _losses(self, table: str, keys: list[str]) -> Frame:
        """Count units, those beyond the limit, and what of their rows and groups is beyond each."""
        expression, limit = self._tables.session.expression, self._policy.tables[table].max_rows or 1
        distinct = [f"COUNT(DISTINCT {name(key)}) AS g{place}" for place, key in enumerate(keys)]
        made = [expression(each) for each in ("COUNT(*) AS n", *distinct)]
        units = self._tables.scan(table).groupBy(expression("sf_unit")).agg(*made)
        beyond = [f"COUNT(CASE WHEN n > {limit} THEN 1 END)", f"COALESCE(SUM(GREATEST(n - {limit}, 0)), 0)"]
        losses = [
            each for column in ("n", *(f"g{at}" for at in range(len(keys)))) for each in inspected_tables.lost(column)
        ]
        return self._aggregated(units, "COALESCE(SUM(n), 0)", "COUNT(*)", *beyond, *losses)

    def _aggregated(self, frame: Frame, *totals: str) -> Frame:
        return frame.groupBy().agg(*map(self._tables.session.expression, totals))

    def _only(self, frame: Frame) -> tuple[Any, ...]:
        (row,) = self._tables.run(lambda: frame)
        return row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()
