"""Small worlds of linked tables: patients and visits by the unit's id, visits and drugs by a foreign key, and a
hospital of patients, their visits and drugs, and tests at visits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import sfumato as sf
from engine.refilling import refill
from sfumato.curator.context import Context
from sfumato.curator.proposals.linked_tables import (
    LinkedTablesOptions,
    LinkedTablesProposal,
    propose_linked_tables,
    split_price_evenly,
)
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.readings.cell_rows import CodedRows
from sfumato.release.prices import Price
from sfumato.release.running_work import ignore_progress

_SAMPLING_KEY = 1
"""By which rows beyond a limit are sampled: so that some neighbours keep none alike, and attain the bound."""
RELATIONS = ("add-remove", "replace")
LIMIT = 3
"""The most visits, or drugs, of one patient that count."""
PARENTS = 2
"""The most visits of one patient that count if they are parents."""
Row = tuple[Any, ...]
World = tuple[list[Row], list[Row]]
"""Rows of the parent and of the child table."""
Hospital = tuple[list[Row], list[Row], list[Row], list[Row]]
"""Rows of patients, visits, drugs and tests."""

PATIENT_COLUMNS: dict[str, Any] = {
    "sex": {"values": ["f", "m"]},
    "age": {"type": "integer", "bounds": [0, 99], "bins": [0, 40, 60, 99]},
}
VISIT_COLUMNS: dict[str, Any] = {
    "ward": {"values": ["A", "B"]},
    "day": {"type": "integer", "bounds": [0, 29], "bins": 3},
}
KEY = {"type": "integer"}


def _table(names: dict[str, pa.DataType], rows: list[Row]) -> pa.Table:
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return pa.table({name: pa.array(column, names[name]) for name, column in zip(names, cells, strict=True)})


UNCODED_PATIENTS: dict[str, Any] = {"sex": {"values": ["f", "m"]}, "age": {"type": "integer", "bounds": [0, 99]}}
UNCODED_VISITS: dict[str, Any] = {
    "ward": {"values": ["A", "B", *(f"W{number:04d}" for number in range(1000))]},
    "day": {"type": "integer", "bounds": [0, 29]},
}
"""Columns of the clinic whose cells are bought, but for the sex."""


def clinic_policy(
    world: World,
    relation: str = "add-remove",
    epsilon: int = 50,
    columns: tuple[dict[str, Any], dict[str, Any]] = (PATIENT_COLUMNS, VISIT_COLUMNS),
) -> sf.Policy:
    """Patients with one row each, and visits by the patient's id."""
    patients, visits = world
    parent = _table({"who": pa.int64(), "sex": pa.string(), "age": pa.int64()}, patients)
    child = _table({"who": pa.int64(), "ward": pa.string(), "day": pa.int64()}, visits)
    tables = {
        "patients": sf.Table("patients", parent, columns[0], id="who", max_rows=1),
        "visits": sf.Table("visits", child, columns[1], id="who", max_rows=LIMIT),
    }
    return sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(epsilon, "1e-6", neighbours=relation), tables, size=100)


def pharmacy_policy(world: World, relation: str = "add-remove") -> sf.Policy:
    """Visits, several of one patient, and drugs by the visit's key."""
    visits, drugs = world
    parent = _table({"who": pa.int64(), "visit": pa.int64(), "ward": pa.string(), "day": pa.int64()}, visits)
    child = _table({"visit": pa.int64(), "drug": pa.string()}, drugs)
    via = {"via": "visits", "on": "visit"}
    drug_columns: dict[str, Any] = {"visit": KEY, "drug": {"values": ["x", "y"]}}
    tables = {
        "visits": sf.Table("visits", parent, {"visit": KEY, **VISIT_COLUMNS}, id="who", max_rows=PARENTS),
        "drugs": sf.Table("drugs", child, drug_columns, id=via, max_rows=LIMIT),
    }
    return sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(50, "1e-6", neighbours=relation), tables, size=100)


def hospital_policy(world: Hospital, relation: str = "add-remove") -> sf.Policy:
    """Patients, their visits and drugs by the patient's id, and tests by the visit's key."""
    patients, visits, drugs, tests = world
    sources = {
        "patients": _table({"who": pa.int64(), "sex": pa.string(), "age": pa.int64()}, patients),
        "visits": _table({"who": pa.int64(), "visit": pa.int64(), "ward": pa.string(), "day": pa.int64()}, visits),
        "drugs": _table({"who": pa.int64(), "drug": pa.string()}, drugs),
        "tests": _table({"visit": pa.int64(), "result": pa.string()}, tests),
    }
    columns: dict[str, Any] = {
        "patients": PATIENT_COLUMNS,
        "visits": {"visit": KEY, **VISIT_COLUMNS},
        "drugs": {"drug": {"values": ["x", "y"]}},
        "tests": {"visit": KEY, "result": {"values": ["p", "q"]}},
    }
    limits = {"patients": 1, "visits": PARENTS, "drugs": LIMIT, "tests": LIMIT}
    tables = {
        name: sf.Table(
            name,
            source,
            columns[name],
            id={"via": "visits", "on": "visit"} if name == "tests" else "who",
            max_rows=limits[name],
        )
        for name, source in sources.items()
    }
    return sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(50, "1e-6", neighbours=relation), tables, size=100)


def hospital_people(seed: int, count: int) -> Hospital:
    """Women come often, to ward A, take x and are tested p; men seldom, to ward B, take y and are tested q."""
    draw = Random(seed)
    patients, visits, drugs, tests = [], [], [], []
    for who in range(count):
        sex = draw.choice("fm")
        patients.append((who, sex, draw.randint(0, 99)))
        for number in range(draw.randint(1, 2) if sex == "f" else draw.randint(0, 1)):
            ward = ("A" if sex == "f" else "B") if draw.random() < 0.9 else draw.choice("AB")
            visits.append((who, 10 * who + number, ward, draw.randint(0, 29)))
            tests += [(10 * who + number, "p" if sex == "f" else "q")] * draw.randint(0, 1)
        drugs += [(who, "x" if sex == "f" else "y")] * draw.randint(0, 3)
    return patients, visits, drugs, tests


def hospital_worlds(relation: str) -> list[Hospital]:
    """Worlds in which one patient, 99, is anything: with limit + 1 rows in every table, with tests that move between
    visits, a visit that patient 0 owns too, rows without a patient, and none.
    """
    patients, visits, drugs, tests = hospital_people(1, 4)
    tests = [*tests, (visits[0][1], "p"), (777, "q")]
    row, other = (99, "f", 20), (99, "m", 70)
    own = [(99, 990, "A", 1), (99, 991, "B", 2), (99, 992, "A", 3)]
    shared = (99, visits[0][1], "B", 9)
    owned: list[Hospital] = [
        ([row], own[:1], [(99, "x")] * LIMIT, [(990, "p")] * LIMIT),
        ([row], own[:2], [(99, "y")] * (LIMIT + 1), [(990, "p"), *[(991, "q")] * LIMIT]),
        ([other], own[:2], [(99, "y")], [(990, "q")] * (LIMIT + 1)),
        ([other], own, [(99, None)], [(991, "q")] * (LIMIT + 1)),
        ([row], [shared, own[0]], [(99, "x")], []),
        ([], own[:2], [(99, "x")] * 2, [(990, "p")] * 2),  # an orphan's rows
    ]
    absent: list[Hospital] = [([], [], [], [])] if relation == "add-remove" else []
    everybody = (patients, visits, drugs, tests)
    return [
        tuple(rows + mine for rows, mine in zip(everybody, world, strict=True))  # type: ignore[misc]
        for world in absent + owned
    ]


def people(seed: int, count: int) -> World:
    """Women come often and to ward A, men seldom and to ward B; a visit is followed by one in the same ward."""
    draw = Random(seed)
    patients, visits = [], []
    for who in range(count):
        sex = draw.choice("fm")
        patients.append((who, sex, draw.randint(0, 99)))
        ward = ("A" if sex == "f" else "B") if draw.random() < 0.9 else draw.choice("AB")
        days = sorted(draw.randint(0, 29) for _ in range(draw.randint(1, 4) if sex == "f" else draw.randint(0, 2)))
        visits += [(who, ward, day) for day in days]
    return patients, visits


def clinic_worlds(relation: str) -> list[World]:
    """Worlds in which one patient, 99, is anything: without visits, with limit + 1 and far more of them, an orphan's
    visits without a patient, two rows among the patients, missing cells.
    """
    patients, visits = people(1, 6)
    one, other, gone = (99, "f", 20), (99, "m", 70), (99, None, None)
    owned: list[World] = [
        ([one], []),
        ([one], [(99, "A", 5)]),
        ([one], [(99, "A", 5)] * LIMIT),
        ([other], [(99, "B", 25)] * (LIMIT + 1)),
        ([other], [(99, "A", day) for day in range(20)]),
        ([], [(99, "A", 5)] * 2),  # an orphan's rows
        ([one, other], [(99, "B", 1), (99, "A", 2), (99, None, None)]),
        ([gone], [(99, "B", 29), (99, "B", 0)]),
    ]
    absent: list[World] = [([], [])] if relation == "add-remove" else []
    return [(patients + mine, visits + theirs) for mine, theirs in absent + owned]


def pharmacy_worlds(relation: str) -> list[World]:
    """Worlds in which one patient, 99, owns visits 50 to 53: with drugs that move between them, a visit that patient 0
    owns too, more visits and drugs than count, and none.
    """
    visits = [(who, 10 * who + number, "A", who) for who in range(4) for number in range(who % 3)]
    drugs = [(visit, "x") for _, visit, _, _ in visits] + [(50, "x")] * LIMIT + [(51, "y")] * (LIMIT + 1)
    drugs += [(52, "y"), (777, "x")]
    own = [(99, 50, "A", 1), (99, 51, "B", 2), (99, 52, "A", 3), (99, 53, "B", 4)]
    shared = (99, visits[0][1], "B", 9)
    owned: list[list[Row]] = [[own[0]], [own[1]], own[:2], own, [shared], [own[0], shared], [own[0]] * 3]
    absent: list[list[Row]] = [[]] if relation == "add-remove" else []
    return [(visits + mine, drugs) for mine in absent + owned]


def pairs(relation: str, found: list[Any]) -> list[tuple[Any, Any]]:
    """Return the neighbours among these worlds."""
    if relation == "add-remove":
        return [(found[0], other) for other in found[1:]]
    return list(combinations(found, 2))


def exact_counts(
    policy: sf.Policy, price: Price, tables: list[str], **more: Any
) -> tuple[LinkedTablesProposal, tuple[CodedRows, ...]]:
    """Return the proposal, and what it reads of each table before noise."""
    proposal, (exact,) = exact_worlds([policy], price, tables, **more)
    return proposal, exact


def exact_worlds(
    policies: list[sf.Policy], price: Price, tables: list[str], **more: Any
) -> tuple[LinkedTablesProposal, list[tuple[CodedRows, ...]]]:
    """Return the proposal, which no row decides, and what it reads of each table in each of the worlds."""
    with closing(DuckDB(policies[0])) as engine:
        context = Context(policies[0], engine, None, ignore_progress, "version 1")  # type: ignore[arg-type]
        proposal = propose_linked_tables(context, engine.catalog(), LinkedTablesOptions(tuple(tables), **more))
        prices = split_price_evenly(price, len(proposal.parts))
        parts = zip(proposal.parts.values(), prices, strict=True)
        readings = [part.setting(part_price).reading for part, part_price in parts]
        filled = (refill(engine, policy) for policy in policies)
        return proposal, [tuple(world.read(reading, _SAMPLING_KEY) for reading in readings) for world in filled]


@contextmanager
def curator(tmp_path: Path, policy: sf.Policy) -> Iterator[sf.Curator]:
    with sf.Curator(policy, tmp_path / "clinic.ledger") as opened:
        yield opened
