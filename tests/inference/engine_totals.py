"""What models read of tables, joins, one row per unit and unions: the whole numbers that every engine must read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import sfumato as sf
from inference.rows import people
from sfumato.inference.robust import residual_clamp
from sfumato.inference.row_expressions import rounded_coefficients
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.release.requests import PriceRequest

KEY = 7
VISITS: dict[str, dict[str, Any]] = {
    "age": {"type": "integer", "bounds": [18, 80]},
    "cost": {"type": "real", "bounds": [0, 5]},
    "sex": {"values": ["F", "M"]},
    "retired": {"type": "boolean"},
}
TOWNS: dict[str, dict[str, Any]] = {
    "town": {"values": ["A", "B", "C"]},
    "tenure": {"type": "integer", "bounds": [0, 30]},
}
SOURCES = {
    "a table": "visits",
    "a join": "SELECT age, cost, sex, retired FROM visits JOIN homes USING (who) WHERE town <> 'C' AND tenure < 25",
    "one row per unit": (
        "SELECT who, MAX(age) AS age, AVG(cost) AS cost, MAX(retired) AS retired, MIN(sex) AS sex "
        "FROM visits GROUP BY who"
    ),
    "a union": (
        "SELECT who, age, cost, sex, retired FROM visits UNION ALL "
        "SELECT who, age + 1, 5 - cost, sex, NOT retired FROM visits WHERE age > 30"
    ),
}


def visits_policy(rows: int = 400) -> sf.Policy:
    """Return visits of which a unit may have three, and some have four, and the home of each unit."""
    frame = people(rows).assign(who=np.arange(rows) * 10 // 36)[["who", *VISITS]].astype({"age": "Int64"})
    units = sorted(set(frame["who"]))
    homes = pd.DataFrame(
        {"who": units, "town": ["ABC"[unit % 3] for unit in units], "tenure": [unit % 33 for unit in units]}
    )
    tables = {
        name: sf.Table(name, pa.Table.from_pandas(cells, preserve_index=False), columns, id="who", max_rows=most)
        for name, cells, columns, most in (("visits", frame, VISITS, 3), ("homes", homes, TOWNS, 1))
    }
    return sf.Policy(sf.PrivacyUnit("person"), sf.Budget(100, "1e-5"), tables, size=len(units))


def readings(made: sf.Curator, sources: Sequence[str], seeds: Sequence[int]) -> Iterator[tuple[str, Any]]:
    """Yield what every model reads of every source, at coefficients of a size for each seed where it has some."""
    for words in sources:
        source = SOURCES[words]
        linear = made.regress("cost ~ age + sex", source)
        yield f"moments of {words}", GroupTotals(linear.moments.bounded, ((),))
        components = made.components(["age", "cost"], source)
        yield f"components of {words}", GroupTotals(components.moments.bounded, ((),))
        logistic: Any = made.logistic("retired ~ age + cost + sex", source)
        size = len(logistic.logistic.design.coordinates) - 1
        robust: Any = made.regress("cost ~ age + sex", source, robust=True)
        for seed in seeds:
            random = np.random.default_rng(seed)
            totals = logistic.totals_at(rounded_coefficients(random.normal(0, 10**seed, size)))
            yield f"a scan of {words}, {seed}", GroupTotals(totals.bounded, ((),))
            meat = robust.meat_totals_at(rounded_coefficients(random.normal(0, 0.3, 4)), residual_clamp(0.2))
            yield f"a meat of {words}, {seed}", GroupTotals(meat.bounded, ((),))
    survival = made.survival(SOURCES["one row per unit"], "age", "retired", "sex", every=7).question
    (reading,) = survival.release_strategy(survival.price_release(PriceRequest(1))).readings
    yield "survival", reading


def compare_with_duckdb(
    policy: sf.Policy, folder: Path, other: Any, sources: Sequence[str], seeds: Sequence[int]
) -> int:
    """Compare every reading with another engine's, and return how many there were."""
    with sf.Curator(policy, folder / "visits.ledger") as made:
        count = 0
        for words, reading in readings(made, sources, seeds):
            with made._context.engine.check(reading) as opened, other.check(reading) as stored:
                here, there = (np.asarray(each.read(reading, KEY)) for each in (opened, stored))
            assert here.any(), words
            assert there.tolist() == here.tolist(), words
            count += 1
    return count
