"""Three real tables: planes, the routes that each flies, and the flights of each route, of one account."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import sfumato as sf

pytestmark = [pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy"), pytest.mark.long]
DATA = Path(__file__).parents[2] / "data" / "flights"
ROUTES, FLIGHTS = 8, 12
CARRIERS = ["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"]
ENGINES = ["Reciprocating", "Turbo-fan", "Turbo-jet", "Turbo-prop", "Turbo-shaft", "4 Cycle"]
COLUMNS: dict[str, dict[str, Any]] = {
    "planes": {"engine": {"values": ENGINES}, "seats": {"type": "integer", "bounds": [0, 450]}},
    "routes": {
        "route": {"type": "integer"},
        "carrier": {"values": CARRIERS},
        "origin": {"values": ["EWR", "JFK", "LGA"]},
        "distance": {"type": "integer", "bounds": [0, 5000], "bins": 10},
    },
    "flights": {
        "route": {"type": "integer"},
        "day": {"type": "integer", "bounds": [1, 14], "bins": 7},
        "minutes": {"type": "integer", "bounds": [0, 720]},
    },
}
TEXTS = {
    "planes": "SELECT tailnum, engine, seats FROM planes WHERE tailnum IN (SELECT tailnum FROM flown)",
    "routes": "SELECT tailnum, route, any_value(carrier) AS carrier, any_value(origin) AS origin, "
    "any_value(distance) AS distance FROM flown GROUP BY tailnum, route",
    "flights": "SELECT route, day, CAST(air_time AS INTEGER) AS minutes FROM flown",
}
LINKED = [("planes", "seats", "routes", "carrier"), ("routes", "distance", "flights", "minutes")]
WIDTHS = {"seats": 50, "distance": 500, "minutes": 60}
Frames = dict[str, pd.DataFrame]


def real_tables() -> Frames:
    with duckdb.connect() as connection:
        connection.sql(f"CREATE TABLE planes AS FROM '{DATA}/planes.parquet'")
        connection.sql(
            "CREATE TABLE flown AS SELECT *, dense_rank() OVER (ORDER BY tailnum, carrier, origin, dest) AS route "
            f"FROM '{DATA}/flights.parquet' WHERE tailnum IN (SELECT tailnum FROM planes)"
        )
        return {name: connection.sql(text).df() for name, text in TEXTS.items()}


def policy(tables: Frames) -> sf.Policy:
    via = {"via": "routes", "on": "route"}
    ids: dict[str, Any] = {"planes": "tailnum", "routes": "tailnum", "flights": via}
    limits = {"planes": 1, "routes": ROUTES, "flights": FLIGHTS}
    declared = {
        name: sf.Table(name, rows, COLUMNS[name], id=ids[name], max_rows=limits[name]) for name, rows in tables.items()
    }
    budget = sf.Budget(20, "1e-6")
    return sf.Policy(sf.PrivacyUnit("plane"), budget, declared, size=len(tables["planes"]))


def shares(tables: Frames, link: tuple[str, str, str, str], key: str) -> pd.Series:
    """Return the share of children with each pair of the parent's value and theirs, in parts of equal width."""
    parent, column, child, other = link
    joined = tables[child].merge(tables[parent][[key, column]], on=key)
    pairs = [(joined[name] // WIDTHS[name] if name in WIDTHS else joined[name]).astype(str) for name in (column, other)]
    return joined.groupby(pairs).size() / len(joined)


def distance(one: pd.Series, other: pd.Series) -> float:
    return float(one.rename_axis([0, 1]).sub(other.rename_axis([0, 1]), fill_value=0).abs().sum() / 2)


def test_three_real_tables_are_drawn_together(tmp_path: Path) -> None:
    """Keys fit and limits hold; pairs across both links are nearer to the real ones than if both columns were drawn
    without noise and apart from each other.
    """
    real = real_tables()
    with sf.Curator(policy(real), tmp_path / "planes.ledger") as curator:
        proposal = curator.synthesize([*real], ways=2, given=["planes.seats", "routes.distance"])
        assert "cells of seats bought too" in proposal.question
        assert "cells of minutes bought too" in proposal.question
        tables = proposal.release(epsilon=8, delta="1e-9")
        assert all(check.holds for check in tables.verify().checks)
    drawn = tables.to_pandas(seed=1)
    assert {*drawn["routes"].tailnum} <= {*drawn["planes"].tailnum}
    assert {*drawn["flights"].route} <= {*drawn["routes"].route}
    assert drawn["routes"].groupby("tailnum").size().max() <= ROUTES
    flown = drawn["flights"].merge(drawn["routes"], on="route")
    assert flown.groupby("tailnum").size().max() <= FLIGHTS
    for link, key in zip(LINKED, ("tailnum", "route"), strict=True):
        true, together = (shares(each, link, key) for each in (real, drawn))
        margins = [true.groupby(level=level).sum() for level in (0, 1)]
        apart = pd.Series(
            {
                pair: math.prod(margin[value] for margin, value in zip(margins, pair, strict=True))
                for pair in itertools.product(*(margin.index for margin in margins))
            }
        )
        print(link, f"together {distance(true, together):.3f}, apart {distance(true, apart):.3f}")
        assert distance(true, together) < 0.6 * distance(true, apart)
