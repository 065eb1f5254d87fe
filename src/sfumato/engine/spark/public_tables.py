"""Public tables are fetched here from a Spark, each in a session of its own at the one that it names."""

from __future__ import annotations

from functools import partial

from sfumato.engine.carried_tables import MOST_ROWS, too_large, unread
from sfumato.engine.seam import Data, Fetched
from sfumato.engine.spark.sessions import Session, at_address, beside, quietly
from sfumato.engine.spark.sources import content, opened
from sfumato.errors import EngineFailed
from sfumato.policy import Table
from sfumato.policy.table_sources import SparkFrame


def session_of(table: Table) -> Session:
    """Open a session of our own where the rows of a table are."""
    place = f"tables.{table.name}.source"
    if isinstance(table.source, SparkFrame):
        return beside(table.source.frame, place)
    return at_address(table.source.address, place)


def fetch(table: Table) -> Fetched:
    """Read the rows of a public table at the Spark that it names, or that its frame is of."""
    session = session_of(table)
    try:
        source = opened(table.source, session, f"tables.{table.name}.source")
        rows = quietly(source.frame.limit(MOST_ROWS + 1).toArrow)
        if rows.num_rows > MOST_ROWS:
            raise too_large(table.name)
        hashed = content(source, session)
    except EngineFailed:
        raise unread(table.name) from None
    finally:
        session.close()
    if not source.addresses:
        return Fetched(rows, (Data(f"memory://{hashed}", partial(str, hashed), part=table.name),))
    return Fetched(rows, tuple(Data(each, partial(str, hashed)) for each in source.addresses))
