"""Every kind of reading, asked of a table whose rows are nearly all different, with the most rows that may leave a
server for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf

ROWS = 3000
VALUES = [str(number) for number in range(8)]
COLUMNS = ("a", "b", "c", "d")
NOTES = 3
STEPS = 128
"""The steps of a value in these tests, few beside the rows."""
_ONE, _PAIR = len(VALUES) + 1, (len(VALUES) + 1) ** 2


@dataclass(frozen=True)
class Asked:
    """One question of a kind, and the number of its cells."""

    release: Callable[[sf.Curator], Any]
    cells: int


def _sql(text: str, *, delta: str = "0", **limits: Any) -> Callable[[sf.Curator], Any]:
    def release(curator: sf.Curator) -> Any:
        question = curator.sql(text)
        return (question.limit(**limits) if limits else question).release(epsilon=1, delta=delta)

    return release


_PAIRS = [["a", "b"], ["b", "c"], ["c", "d"]]
_SIX_PAIRS = 6
KINDS = {
    "totals": Asked(_sql("SELECT a, COUNT(*), SUM(cost) FROM people GROUP BY a", strategy="reweight"), _ONE),
    "people": Asked(_sql("SELECT a, COUNT(DISTINCT person) FROM people GROUP BY a"), _ONE),
    "sampled totals": Asked(_sql("SELECT a, b, COUNT(*) FROM people GROUP BY a, b", strategy="sample"), _PAIR),
    "quantiles of a real": Asked(_sql("SELECT MEDIAN(cost) FROM people"), STEPS),
    "quantiles of a time": Asked(_sql("SELECT MAX(visited) FROM people"), STEPS),
    "quantiles of groups": Asked(_sql("SELECT a, MEDIAN(cost) FROM people GROUP BY a"), _ONE * STEPS),
    "discovered keys": Asked(
        _sql("SELECT note, COUNT(*), MEDIAN(cost) FROM people GROUP BY note", delta="1e-7"),
        NOTES * (STEPS + 1) + ROWS // 30,
    ),
    "distinct values": Asked(_sql("SELECT a, COUNT(DISTINCT b) FROM people GROUP BY a"), _ONE),
    "frequent values": Asked(_sql("SELECT a, MODE(b) FROM people GROUP BY a"), _ONE * _ONE),
    "marginals": Asked(lambda curator: curator.marginals("people", _PAIRS).release(rho=1), len(_PAIRS) * _PAIR),
    "every column": Asked(lambda curator: curator.marginals("people", [["a"], ["b"]]).release(rho=1), 2 * _ONE),
    "synthesis by AIM": Asked(
        lambda curator: curator.synthesize("people", "aim", 2, columns=list(COLUMNS)).release(rho=1),
        1 + len(COLUMNS) * _ONE + _SIX_PAIRS * _PAIR,
    ),
    "synthesis of columns": Asked(
        lambda curator: curator.synthesize("people", "independent", 1, columns=list(COLUMNS)).release(rho=1),
        1 + len(COLUMNS) * _ONE,
    ),
    "scores": Asked(
        lambda curator: curator.score(_candidate(), "people", k=2, columns=list(COLUMNS)).release(rho=1),
        1 + _SIX_PAIRS * _PAIR,
    ),
}


def count_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server count as few steps of a value as there are cells of a small table."""
    for name in ("_MAX_STEPS", "_LEAST_STEPS", "_STEPS_OF_DISCOVERED"):
        monkeypatch.setattr(f"sfumato.plan.readings.dense_readings.{name}", STEPS)


def _candidate() -> pa.Table:
    return pa.table(dict.fromkeys(COLUMNS, VALUES))


def policy() -> sf.Policy:
    """One row a person for most, of four columns of few values, a number, a time and a free text."""
    random = Random(5)
    start = 1_700_000_000
    rows = [
        (
            person % (ROWS - 200),
            *(random.choice(VALUES) for _ in COLUMNS),
            random.uniform(0, 1e6),
            (start + random.randrange(30_000_000)) * 1_000_000,
            f"note {random.randrange(NOTES)}" if person % 30 else f"note of {person}",
        )
        for person in range(ROWS)
    ]
    names = ("person", *COLUMNS, "cost", "visited", "note")
    kinds = (pa.int64(), *(pa.string() for _ in COLUMNS), pa.float64(), pa.timestamp("us"), pa.string())
    columns = [pa.array(list(column), kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    domains = {name: sf.Domain("text", values=VALUES, nullable=True) for name in COLUMNS}
    domains |= {
        "cost": sf.Domain("real", bounds=(0, 10**6)),
        "visited": sf.Domain("timestamp", bounds=("2023-11-01T00:00:00", "2024-12-31T00:00:00")),
        "note": sf.Domain("text", max_length=20),
    }
    table = sf.Table("people", pa.table(columns, list(names)), domains, id="person", max_rows=2)
    return sf.Policy(sf.PrivacyUnit("person"), sf.Budget(1000, "1e-6"), {"people": table})
