"""Public rows become frames: values of a plan, which are sent with each question that joins them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sfumato.engine import proving
from sfumato.engine.carried_tables import Carried
from sfumato.engine.lowering.relational import Statement
from sfumato.engine.spark.frames import FrameWriter
from sfumato.engine.spark.sessions import Session, quietly
from sfumato.engine.spark.sources import Frame
from sfumato.engine.spellings.spark import TYPES, SparkSpelling
from sfumato.engine.spellings.spark_literals import name
from sfumato.errors import InvalidPolicy

_PROVED: set[tuple[str, str]] = set()
"""The Sparks whose new sessions were found to compute what spellings mean, each by its own id and its version."""


def carried(table: Carried, session: Session) -> Frame:
    """Make a frame of the clean rows of a public table."""
    columns = zip(table.names, table.kinds, strict=True)
    schema = ", ".join(f"{name(each)} {TYPES[kind]}" for each, kind in columns)
    rows = list(zip(*table.columns, strict=True))
    return quietly(lambda: session.spark.createDataFrame(rows, schema))


def prove(session: Session, place: str) -> None:
    """Refuse a Spark that computes something else than our spellings mean.

    A Spark that runs stays as it is, and so do all new sessions of it; a clone of a user's session is proved by itself.
    """
    known = str(quietly(lambda: session.spark.conf.get("spark.app.id"))), str(session.spark.version)
    if known in _PROVED and not session.cloned:
        return
    spelling = SparkSpelling()

    dialect = _dialect(session, spelling)
    proving.prove(dialect, place)
    for function in proving.wrong_letters(spelling, _scan, dialect.run):
        raise InvalidPolicy(
            f"this server computes {function} in another way than questions mean it",
            place=place,
            fix="read the tables with a Spark whose version and settings are known to work",
        )
    if not session.cloned:
        _PROVED.add(known)


def _dialect(session: Session, spelling: SparkSpelling) -> proving.Dialect:
    """Say how this Spark computes: rows from SQL, and whole statements from frames, as those of questions are."""

    def run(statement: str, _: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in quietly(lambda: session.spark.sql(statement).collect())]

    def compute(statement: Statement, source: Callable[[str], str]) -> list[tuple[Any, ...]]:
        frames = FrameWriter(lambda table: session.spark.sql(f"SELECT * FROM {source(table)}"), session.expression)
        return [tuple(row) for row in quietly(lambda: frames.statement(statement).collect())]

    return proving.Dialect(spelling, _scan, run, "array({})", compute)


def _scan(table: Carried, _: list[object]) -> str:
    """Write rows as values, beside those of a range: Spark itself computes what depends on written values alone."""
    spelling = SparkSpelling()
    rows = (
        ", ".join(spelling.constant(value, kind) for value, kind in zip(row, table.kinds, strict=True))
        for row in zip(*table.columns, strict=True)
    )
    values = ", ".join(f"({row})" for row in rows)
    return f"(SELECT v.* FROM VALUES {values} AS v({', '.join(map(name, table.names))}) CROSS JOIN range(0, 1))"
