"""Tables for tests of inference: small ones in memory, and their exact regressions by numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import sfumato as sf

Floats = NDArray[np.float64]

COLUMNS: dict[str, dict[str, Any]] = {
    "age": {"type": "integer", "bounds": [18, 80]},
    "hours": {"type": "integer", "bounds": [0, 60]},
    "cost": {"type": "real", "bounds": [0, 5]},
    "sex": {"values": ["F", "M"]},
    "arm": {"values": ["a", "b", "c"]},
    "retired": {"type": "boolean"},
    "note": {"type": "text"},
    "fixed": {"type": "integer", "bounds": [3, 3]},
    "free": {"type": "integer"},
}


def people(rows: int, seed: int = 0) -> pd.DataFrame:
    """Return a table of people with some missing values."""
    random = np.random.default_rng(seed)
    age, cost = random.integers(18, 81, rows), random.random(rows) * 5
    sex, arm = random.choice(["F", "M"], rows), random.choice(["a", "b", "c"], rows, p=[0.2, 0.5, 0.3])
    hours = 12 + 0.2 * age + 2 * cost + 3 * (sex == "M") - 4 * (arm == "c") + random.normal(0, 5, rows)
    frame = pd.DataFrame(
        {
            "who": np.arange(rows),
            "age": age.astype(float),
            "hours": np.clip(np.round(hours), 0, 60),
            "cost": cost,
            "sex": sex,
            "arm": arm,
            "retired": age > 65,
            "note": "x",
            "fixed": 3,
            "free": 1,
        }
    )
    frame.loc[frame.index % 17 == 3, "age"] = np.nan
    frame.loc[frame.index % 19 == 5, "sex"] = None
    return frame


def curator(
    frame: pd.DataFrame,
    folder: Path,
    *,
    neighbours: str = "add-remove",
    max_rows: int | None = None,
    columns: Mapping[str, Mapping[str, Any]] = COLUMNS,
) -> sf.Curator:
    """Return a curator over a table in which every row, or every ``who``, is a unit."""
    is_row = max_rows is None
    unit = sf.PrivacyUnit("person", every_row=is_row)
    table = sf.Table("people", frame, dict(columns), id="row" if is_row else "who", max_rows=max_rows)
    budget = sf.Budget(10_000, "1e-5", neighbours=neighbours)
    return sf.Curator(sf.Policy(unit, budget, {"people": table}, size=max(100, len(frame))), folder / "people.ledger")


def least_squares(columns: Sequence[Any], target: Any) -> Floats:
    """Return the coefficients of a plain regression."""
    matrix = np.array([np.asarray(column, float) for column in columns]).T
    solution: Floats = np.linalg.lstsq(matrix, np.asarray(target, float), rcond=None)[0]
    return solution
