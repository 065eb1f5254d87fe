"""The clean scan of a table is a frame: the declared columns as the policy says, and ``sf_unit``, whose row it is.

What is selected is what ``engine.clean_scans`` says for every server; here it becomes a frame over the
frames of the sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sfumato.caching import cached_property
from sfumato.engine.sources.clean_scans import CleanScans, InspectedCell, Scan, StoredTable
from sfumato.engine.spark.cells import SparkCells
from sfumato.engine.spark.frames import Frame, FrameWriter
from sfumato.engine.spark.sources import Source
from sfumato.engine.spellings.spark import SparkSpelling
from sfumato.policy import Policy


@dataclass(frozen=True)
class Scans:
    """This makes the clean scans of a policy's private tables."""

    policy: Policy
    sources: Mapping[str, Source]
    expression: Callable[[str], Any]

    @cached_property
    def _clean(self) -> CleanScans:
        tables = {each: StoredTable(each, source.columns) for each, source in self.sources.items()}
        return CleanScans(self.policy, tables, SparkCells(), SparkSpelling())

    def scan(self, table: str) -> Frame:
        """Give the frame of a table's clean rows, each as often as it has owners."""
        return self._frame(self._clean.scan(table))

    def inspected(self, table: str) -> tuple[Frame, list[InspectedCell]]:
        """Give every row of a source once, beside ``k``: whether it is somebody's. For those who compare."""
        scan, cells = self._clean.inspected(table)
        return self._frame(scan), cells

    def _frame(self, scan: Scan) -> Frame:
        return FrameWriter(partial(self._cells, scan), self.expression).select(scan.select, {})

    def _cells(self, scan: Scan, table: str) -> Frame:
        cells = scan.cells.get(table) or {"1": "r0"}
        return self.sources[table].frame.select(*(self.expression(sql).alias(each) for sql, each in cells.items()))
