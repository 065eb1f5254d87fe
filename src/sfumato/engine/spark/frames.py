"""A statement of the relational form becomes a Spark frame: SQL is written for its values, frames are put together.

A frame that somebody hands over has no name that a statement could select from, and giving it one would make a
temporary view in its session. So selects, joins and groups are those of the DataFrame interface, which classic Spark and
Connect share, and everything inside them is an expression that the one generator writes. A frame is a plan: nothing is
computed before its rows are collected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from sfumato.engine.generator import Generator
from sfumato.engine.relational import (
    Apply,
    Exists,
    Join,
    Listed,
    Named,
    Relation,
    Scalar,
    Select,
    Span,
    Statement,
    Table,
    Total,
    Union,
)
from sfumato.engine.spellings.spark import SparkSpelling

Frame = Any
"""A DataFrame of either kind; pyspark is not imported to say so."""
Frames = Mapping[str, Frame]
_KEPT = "sf_kept"


@dataclass(frozen=True)
class FrameWriter:
    """A frame writer puts a statement together from the frames of clean scans."""

    scan: Callable[[str], Frame]
    """From a table's name to the frame of its clean rows."""
    expression: Callable[[str], Any]
    """From SQL to a column: ``expr`` of the kind of Spark that the frames are of."""

    def statement(self, statement: Statement) -> Frame:
        """Give the frame of a whole statement, after those of the stages it names."""
        stages: dict[str, Frame] = {}
        for name, select in statement.stages:
            stages[name] = self.select(select, stages)
        return self.select(statement.result, stages)

    def select(self, select: Select, stages: Frames) -> Frame:
        frame = self._source(select.source, stages).alias(select.part)
        for join in select.joins:
            frame = self._joined(frame, join, stages)
        for test in select.where:
            frame = self._tested(frame, test, stages)
        columns = [self._column(name, scalar) for name, scalar in select.columns]
        if select.grouped or any(_totals(scalar) for _, scalar in select.columns):
            return self._grouped(frame, select, columns)
        return frame.select(*([f"{select.part}.*"] if select.everything else []), *columns)

    def _source(self, source: Relation | Select, stages: Frames) -> Frame:
        match source:
            case Select():
                return self.select(source, stages)
            case Table(name):
                return self.scan(name)
            case Named(name):
                return stages[name]
            case Union(members):
                return reduce(lambda one, other: one.unionAll(other), (self.select(each, stages) for each in members))
            case Listed() | Span():
                raise AssertionError("declared values are listed without a server")

    def _joined(self, frame: Frame, join: Join, stages: Frames) -> Frame:
        other = self._source(join.relation, stages).alias(join.part)
        if join.on is None:
            return frame.crossJoin(other)
        return frame.join(other, self._expression(join.on), "left" if join.outer else "inner")

    def _tested(self, frame: Frame, test: Scalar | Exists, stages: Frames) -> Frame:
        if not isinstance(test, Exists):
            return frame.filter(self._expression(test))
        other = self._source(test.relation, stages).alias(test.part)
        return frame.join(other, self._expression(test.on), "left_anti" if test.negated else "left_semi")

    def _grouped(self, frame: Frame, select: Select, columns: list[Any]) -> Frame:
        """Group rows; the session is set to give no column that is not asked for."""
        keys = [self.expression(SparkSpelling().name(name)) for name in select.grouped]
        if select.having is None:
            return frame.groupBy(*keys).agg(*columns)
        kept = self._column(_KEPT, select.having)
        return frame.groupBy(*keys).agg(*columns, kept).filter(self.expression(_KEPT)).drop(_KEPT)

    def _expression(self, scalar: Scalar) -> Any:
        return self.expression(Generator(SparkSpelling(), str).scalar(scalar))

    def _column(self, name: str, scalar: Scalar) -> Any:
        return self._expression(scalar).alias(name)


def _totals(scalar: Scalar) -> bool:
    """Tell whether a value is made from totals of a group."""
    return isinstance(scalar, Total) or (isinstance(scalar, Apply) and any(map(_totals, scalar.arguments)))
