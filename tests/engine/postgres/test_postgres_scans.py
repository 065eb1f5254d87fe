"""A scan of a logistic regression, and a meat clustered by unit, on PostgreSQL: the whole numbers that DuckDB reads."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from inference.rows import curator, people
from postgres_server import PostgresServer
from sfumato.inference.robust_meat import residual_clamp
from sfumato.inference.row_expressions import rounded_coefficients
from sfumato.plan.readings.total_readings import GroupTotals


def test_a_scan_reads_the_same_totals(tmp_path: Path, postgres: PostgresServer) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is NOT tested")
    from engine.on_postgres import Sessions

    columns: dict[str, dict[str, Any]] = {
        "age": {"type": "integer", "bounds": [18, 80]},
        "cost": {"type": "real", "bounds": [0, 5]},
        "sex": {"values": ["F", "M"]},
        "retired": {"type": "boolean"},
    }
    rows: Any = pa.Table.from_pandas(people(500)[["who", *columns]].astype({"age": "Int64"}), preserve_index=False)
    with curator(rows, tmp_path, max_rows=1, columns=columns) as made, closing(Sessions(postgres)) as sessions:
        proposal = made.logistic("retired ~ age + cost + sex", "people")
        size = len(proposal.logistic.design.coordinates) - 1
        with closing(sessions.engine(made._context.policy)) as engine:
            for seed in range(3):
                values = np.random.default_rng(seed).normal(0, 10**seed, size)
                totals = proposal.totals_at(rounded_coefficients(values))
                reading = GroupTotals(totals.bounded, ((),))
                with made._context.engine.check(reading) as opened, engine.check(reading) as stored:
                    assert stored.read(reading, 7).tolist() == opened.read(reading, 7).tolist()


def test_a_clustered_meat_reads_the_same_totals(tmp_path: Path, postgres: PostgresServer) -> None:
    """Some units have one row more than count: engines choose the same by its digest."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is NOT tested")
    from engine.on_postgres import Sessions

    columns: dict[str, dict[str, Any]] = {
        "age": {"type": "integer", "bounds": [18, 80]},
        "cost": {"type": "real", "bounds": [0, 5]},
        "sex": {"values": ["F", "M"]},
    }
    frame = people(400).assign(who=np.arange(400) // 4)[["who", *columns]].astype({"age": "Int64"})
    rows: Any = pa.Table.from_pandas(frame, preserve_index=False)
    with curator(rows, tmp_path, max_rows=3, columns=columns) as made, closing(Sessions(postgres)) as sessions:
        proposal: Any = made.regress("cost ~ age + sex", "people", robust=True)
        with closing(sessions.engine(made._context.policy)) as engine:
            for seed in range(2):
                coefficients = rounded_coefficients(np.random.default_rng(seed).normal(0, 0.3, 4))
                reading = GroupTotals(proposal.meat_totals_at(coefficients, residual_clamp(0.2)).bounded, ((),))
                with made._context.engine.check(reading) as opened, engine.check(reading) as stored:
                    assert stored.read(reading, 7).tolist() == opened.read(reading, 7).tolist()
