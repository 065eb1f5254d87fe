"""No letter is dearer than its function declares: measured, on letters of one to four bytes and those that change."""

from __future__ import annotations

import time

import duckdb
import pytest

from engine.lowered import selected
from sfumato.plan import costs
from sfumato.plan.values.expressions import Column, Field
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Type

ROWS, LETTERS = 4_000, 1_000
NANOSECONDS = 3
"""Of one step, as the threat model states."""
SLACK = 4
"""What a busy machine may add: the fault this guards against was a factor of 27."""

TEXT = Column(Field(0, "t", "s"), Domain(Type.TEXT, max_length=LETTERS))
WRITTEN = {
    "UPPER": call("UPPER", TEXT),
    "LOWER": call("LOWER", TEXT),
    "ILIKE": call("ILIKE", TEXT, literal(Type.TEXT, "%zz%")),
    "LIKE": call("LIKE", TEXT, literal(Type.TEXT, "%zz%")),
    "LENGTH": call("LENGTH", TEXT),
    "TRIM": call("TRIM", TEXT),
    "REPLACE": call("REPLACE", TEXT, literal(Type.TEXT, "a"), literal(Type.TEXT, "b")),
    "RIGHT": call("RIGHT", TEXT, literal(Type.INTEGER, 500)),
}


@pytest.mark.long
@pytest.mark.parametrize("letter", ["a", "é", "ß", "ẞ", "Σ", "İ", "😀", " "])
@pytest.mark.parametrize("name", WRITTEN)
def test_a_row_costs_no_more_than_is_declared(name: str, letter: str) -> None:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute(f"CREATE TABLE t AS SELECT repeat('{letter}', {LETTERS - 5}) || i AS s FROM range({ROWS}) r(i)")
    asked = f"SELECT count(k0) FROM ({selected([WRITTEN[name]], 't')})"
    taken = []
    for _ in range(3):
        start = time.process_time()
        connection.execute(asked).fetchall()
        taken.append(time.process_time() - start)
    assert min(taken) / ROWS * 1e9 <= SLACK * NANOSECONDS * costs.max_evaluation_steps([WRITTEN[name]])
