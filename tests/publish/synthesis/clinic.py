"""A small table of people, and a synthesis of it that is run on what was read, without a ledger."""

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
from sfumato.curator.proposals.synthesis import SynthesisProposal, propose_synthesis
from sfumato.curator.proposals.synthesis_series import SynthesisOptions
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.readings.cell_rows import CodedRows
from sfumato.release.prices import Price
from sfumato.release.running_work import ignore_progress

COLUMNS: dict[str, Any] = {
    "sex": {"values": ["f", "m"]},
    "age": {"type": "integer", "bounds": [0, 9], "bins": [0, 3, 5, 9]},
    "smokes": {"type": "boolean"},
}
NAMES = list(COLUMNS)
STORED = {"who": pa.int64(), "sex": pa.string(), "age": pa.int64(), "smokes": pa.bool_()}
PRICES: tuple[dict[str, Any], ...] = ({"epsilon": 2}, {"epsilon": 1, "delta": "1e-9"}, {"rho": "0.5"})
RELATIONS = ("add-remove", "replace")
METHODS = ("aim", "mst", "mwem", "independent")
Row = tuple[Any, ...]


def people(seed: int, count: int) -> list[Row]:
    """Women are young and men are not; only the old smoke."""
    draw = Random(seed)
    found = []
    for who in range(count):
        sex = draw.choice("fm")
        age = draw.randint(0, 2) if sex == "f" else draw.randint(3, 9)
        found.append((who, sex, age, age > 4))
    return found


def policy_of(
    rows: list[Row], *, units: bool = False, relation: str = "add-remove", impossible: tuple[str, ...] = ()
) -> sf.Policy:
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(STORED)
    table = pa.table({name: pa.array(each, STORED[name]) for name, each in zip(STORED, cells, strict=True)})
    limits = {"max_rows": 3} if units else {}
    own = sf.Table("people", table, COLUMNS, id="who" if units else "row", impossible=impossible, **limits)
    unit = sf.PrivacyUnit("person", every_row=not units)
    return sf.Policy(unit, sf.Budget(50, "1e-6", neighbours=relation), {"people": own}, size=100)


@contextmanager
def curator(tmp_path: Path, rows: list[Row], **more: Any) -> Iterator[sf.Curator]:
    with sf.Curator(policy_of(rows, **more), tmp_path / "people.ledger") as opened:
        yield opened


def exact(policy: sf.Policy, price: Price, source: str = "people", **more: Any) -> tuple[SynthesisProposal, CodedRows]:
    """The proposal, and what it reads before noise."""
    with closing(DuckDB(policy)) as engine:
        context = Context(policy, engine, None, ignore_progress, "version 1")  # type: ignore[arg-type]
        found = propose_synthesis(context, engine.catalog(), SynthesisOptions(source, ways=2, **more))
        return found, engine.read(found.setting(price).reading, 3)


def exact_worlds(policies: list[sf.Policy], price: Price, **more: Any) -> tuple[SynthesisProposal, list[CodedRows]]:
    """The proposal, which no row decides, and what it reads in each of the worlds."""
    with closing(DuckDB(policies[0])) as engine:
        context = Context(policies[0], engine, None, ignore_progress, "version 1")  # type: ignore[arg-type]
        proposal = propose_synthesis(context, engine.catalog(), SynthesisOptions("people", ways=2, **more))
        reading = proposal.setting(price).reading
        return proposal, [refill(engine, policy).read(reading, 3) for policy in policies]


def worlds(relation: str, units: bool) -> list[list[Row]]:
    """Tables that are pairwise neighbours under replace, and of the first under add-remove; a unit may have one row
    more than count, or all rows.
    """
    base = [(each % 4 if units else each, *row[1:]) for each, row in enumerate(people(1, 9))]
    one, other, gone = (99, "f", 1, False), (99, "m", 8, True), (99, None, None, None)
    if units:
        owned = [[one], [one] * 3, [other] * 3, [one] * 4, [other] * 50, [one, other, gone] * 3, [gone] * 5]
    else:
        owned = [[one], [other], [gone]]
    return [base + each for each in ([[]] if relation == "add-remove" else []) + owned]


def pairs(relation: str, found: list[Any]) -> list[tuple[Any, Any]]:
    if relation == "add-remove":
        return [(found[0], each) for each in found[1:]]
    return list(combinations(found, 2))
