"""A workspace with one bought release of every kind, kept as an earlier version wrote it.

``python tests/compatibility/workspace.py`` made ``tests/data/compatibility`` once. It is read ever after: a later
version that finds other plan hashes, other written fields or other answers there would make people pay again for what
they own. Add another folder beside it rather than making it anew.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import MISSING, fields, replace
from enum import Enum
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

from pyarrow.csv import read_csv

import sfumato as sf
from plan.described import CATALOG
from plan.test_sql import pairs
from sfumato.plan.canonical import digest
from sfumato.plan.sql.statements import parse
from sfumato.policy.toml_files import read
from sfumato.privacy import codec
from sfumato.reports import SigningKey, bundle
from sfumato.server.requests import proposals as requests

KEPT = Path(__file__).parent.parent / "data" / "compatibility"
GRAPHS = Path(__file__).parent.parent / "data" / "graphs"

CLINIC = """
[unit]
name = "patient"
budget = { epsilon = 100, delta = 0.000001 }

[tables.visits]
source = "visits.csv"
id = "patient"
max_rows = 2
[tables.visits.columns]
region = { values = ["north", "south"] }
town = { type = "text" }
age = { type = "integer", bounds = [0, 110] }
day = { type = "date", values = [2024-01-01, 2024-01-02] }
cost = { type = "real", bounds = [0, 100] }
urgent = { type = "boolean" }

[tables.patients]
source = "patients.csv"
id = "patient"
max_rows = 1
[tables.patients.columns]
born = { type = "integer", bounds = [1900, 2024] }

[tables.regions]
source = "regions.csv"
public = true

[analysts.ana]
share = 0.5
"""
CLUB = """
[unit]
name = "tie"
budget = { epsilon = 30.0 }

[tables.ties]
source = "ties.csv"
id = "row"
columns = { source = { type = "integer", bounds = [0, 33] }, target = { type = "integer", bounds = [0, 33] } }
"""

POLICIES = ("clinic.toml", "club.toml")

QUESTIONS = (
    "SELECT COUNT(*) AS visits FROM visits",
    "SELECT region, COUNT(*) AS visits, COUNT(DISTINCT patient) AS patients FROM visits GROUP BY region",
    "SELECT region, day, SUM(cost) AS cost FROM visits WHERE age >= 18 GROUP BY region, day",
    "SELECT AVG(cost) AS mean, STDDEV(cost) AS spread, VARIANCE(age) AS ages FROM visits",
    "SELECT MEDIAN(cost) AS median, QUANTILE_CONT(age, [0.25, 0.75]) AS quartiles FROM visits",
    "SELECT MIN(age) AS youngest, MAX(age) AS oldest FROM visits",
    "SELECT day, COUNT(*) AS visits FROM visits WHERE urgent AND region = 'north' GROUP BY ROLLUP (day)",
    "SELECT WIDTH_BUCKET(age, 0, 110, 11) AS decade, COUNT(*) AS visits FROM visits GROUP BY decade",
    "SELECT town, COUNT(*) AS visits FROM visits GROUP BY town",
    "SELECT r.country, COUNT(*) AS visits FROM visits v JOIN regions r ON v.region = r.region GROUP BY r.country",
    "SELECT COUNT(*) AS visits FROM visits v JOIN patients p ON v.patient = p.patient WHERE p.born < 1980",
    "SELECT AVG(n) AS mean FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient)",
    "SELECT COUNT(*) AS first FROM"
    " (SELECT age, ROW_NUMBER() OVER (PARTITION BY patient ORDER BY day) AS r FROM visits) WHERE r = 1",
    "SELECT CORR(age, cost) AS r FROM visits",
    "SELECT region, SUM(cost) / COUNT(*) AS mean FROM visits GROUP BY region HAVING COUNT(*) > 5 ORDER BY mean",
)


def copied_workspace(folder: Path) -> Path:
    """Copy the kept workspace, because opening a ledger writes a log beside it."""
    return Path(shutil.copytree(KEPT, folder / "workspace"))


def written_fields() -> dict[str, list[str]]:
    """Return, for every kind the codec writes, its fields in order, with defaults and whether hashes see them."""
    for module in walk_packages(sf.__path__, "sfumato."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    described = {
        kind: [_describe(field) for field in fields(cls) if field.init]
        for cls, kind in codec.kind_by_registered_class().items()
    }
    return {kind: described[kind] for kind in sorted(described) if not kind.startswith("test-")}


def _describe(field: Any) -> str:
    default = field.default.value if isinstance(field.default, Enum) else field.default
    remarks = "" if field.compare else ", not compared"
    return codec.written_field_name(field) + ("" if default is MISSING else f" = {default!r}") + remarks


def proposals(clinic: sf.Curator, club: sf.Curator) -> Mapping[str, Callable[[], Any]]:
    """Return every release of the workspace by name, each with what buys it, or brings it back where it was bought."""
    questions = {f"question {number}": _buy_question(clinic, text) for number, text in enumerate(QUESTIONS)}
    running = "SELECT day, COUNT(*) AS n FROM visits GROUP BY day"
    return {
        **questions,
        "gaussian": lambda: clinic.sql(QUESTIONS[1]).release(rho="0.01"),
        "workload": lambda: clinic.workload(list(QUESTIONS[:3])).release(epsilon="0.5"),
        "marginals": lambda: clinic.marginals("visits", [["region", "day"], ["urgent"]]).release(epsilon="0.5"),
        "histogram": lambda: clinic.histogram("visits", ["region", "urgent"]).release(epsilon="0.5"),
        "mwem": lambda: clinic.mwem("visits", ["region", "day"], 1, rounds=2).release(epsilon="0.5"),
        "synthesis": lambda: clinic.synthesize("visits", columns=["region", "day", "urgent"]).release(rho="0.1"),
        "running": lambda: clinic.running(running).release(epsilon="0.5"),
        "bounds": lambda: clinic.bounds("visits", "cost").release(epsilon="0.5"),
        "limits": lambda: clinic.limits("visits", by=["region"]).release(epsilon="0.5"),
        "auction": lambda: clinic.auction("visits", "cost", prices=[1, 2, 5, 10]).release(epsilon="0.5"),
        "score": lambda: clinic.score(KEPT / "candidate.csv", "visits", columns=["region", "urgent"], k=2).release(
            epsilon="0.5"
        ),
        "session": lambda: clinic.above(100, questions=QUESTIONS[:1]).release(epsilon="0.5"),
        "degrees": lambda: club.degrees("ties", ["source", "target"], 8).release(epsilon="0.5"),
    }


def _buy_question(clinic: sf.Curator, text: str) -> Callable[[], Any]:
    price = {"epsilon": "0.5", "delta": "1e-8"} if "town" in text else {"epsilon": "0.5"}
    return lambda: clinic.sql(text).release(**price)


def written_form(answer: Any) -> str:
    """Return an answer as its owner would write it to a file."""
    return answer.to_json() if hasattr(answer, "to_json") else codec.dumps(answer)


def substance(text: str) -> Any:
    """Return what an answer says: its words, and what is left of the budget by now, may change."""
    return json.loads(text, object_hook=lambda fields: {name: fields[name] for name in fields.keys() - _WORDS})


_WORDS = {"receipt", "warnings", "purchase", "caveats", "advice", "buckets"}
"""The fields that may change; what the buckets of a question are was not written at first."""


def plan_hashes() -> dict[str, str]:
    """Return the hash of every question of ``tests/plan/fixtures`` that can be answered."""
    hashes = {}
    for text, expected in pairs():
        if not expected[0].startswith("refused"):
            hashes[text] = digest(parse(text, CATALOG).plan)
    return hashes


BODIES = {
    "questions": {"sql": QUESTIONS[0]},
    "workloads": {"questions": {"all": QUESTIONS[0], "regions": QUESTIONS[1]}},
    "marginals": {"table": "visits", "ways": [["region"]]},
    "synopses": {"table": "visits", "columns": ["region"], "ways": 1, "rounds": 1},
    "synthesis": {"table": "visits", "method": "independent", "columns": ["region", "urgent"], "ways": 1},
    "sessions": {"threshold": 100, "questions": [QUESTIONS[0]]},
    "bounds": {"table": "visits", "column": "age"},
    "auctions": {"table": "visits", "column": "age", "prices": [10, "50.5"]},
    "running": {"question": "SELECT day, COUNT(*) AS visits FROM visits GROUP BY day"},
    "clipped": {"question": "SELECT AVG(cost) AS mean FROM visits", "rows": 1},
    "regress": {"table": "visits", "formula": "cost ~ age + region + age:region"},
    "components": {"table": "visits", "columns": ["age", "cost"]},
    "logistic": {"table": "visits", "formula": "urgent ~ age + region"},
}
"""A body of every kind that a server releases, as clients send it."""


def spec_identities(clinic: sf.Curator) -> dict[str, str]:
    """Return, for every body, the key that the version which wrote the workspace gave what a server would release."""
    identities = {}
    for kind, spec in BODIES.items():
        body = json.dumps({"kind": kind, "spec": spec, "price": {"epsilon": "0.2"}}).encode()
        named, read_spec, _ = requests.decode_kind_spec_and_price(body)
        identities[named] = requests.propose(clinic, named, read_spec).plan_key.former
    return identities


@contextmanager
def curators(folder: Path) -> Iterator[tuple[sf.Curator, sf.Curator]]:
    """Open both policies over tables in memory, which are known by their content wherever the folder is."""
    with sf.Ledger.open(folder / "sfumato.ledger") as ledger, ExitStack() as opened:
        clinic, club = (opened.enter_context(sf.Curator(_in_memory(folder / name), ledger)) for name in POLICIES)
        yield clinic, club


def _in_memory(path: Path) -> sf.Policy:
    policy = read(path)
    tables = {name: replace(table, source=read_csv(table.source.path)) for name, table in policy.tables.items()}
    return replace(policy, tables=tables)


def write_tables(folder: Path) -> None:
    """Write the policies and their rows."""
    regions, towns = ("north", "south"), ("Aa", "Bo", "Cy")
    rows = [
        f"p{n // 2},{regions[n % 2]},{towns[n % 3]},{n % 90},2024-01-0{1 + n % 2},{n / 4},{n % 5 == 0}"
        for n in range(200)
    ]
    (folder / "visits.csv").write_text("\n".join(["patient,region,town,age,day,cost,urgent", *rows]) + "\n")
    born = [f"p{n},{1930 + n % 80}" for n in range(100)]
    (folder / "patients.csv").write_text("\n".join(["patient,born", *born]) + "\n")
    (folder / "regions.csv").write_text("region,country\nnorth,Norway\nsouth,Spain\n")
    (folder / "candidate.csv").write_text("region,urgent\n" + "north,true\nsouth,false\n" * 10)
    shutil.copy(GRAPHS / "karate.edges.csv", folder / "ties.csv")
    (folder / "clinic.toml").write_text(CLINIC)
    (folder / "club.toml").write_text(CLUB)


def make(folder: Path) -> None:
    """Buy every release, and write down what was bought and how it was written."""
    folder.mkdir()
    write_tables(folder)
    with curators(folder) as (clinic, club):
        identities = spec_identities(clinic)
        answers = {name: buy() for name, buy in proposals(clinic, club).items()}
        for name in ("marginals", "histogram", "mwem", "synthesis"):
            answers[name].save(folder / f"{name}.sfu")
    key = SigningKey.new()
    bundle(folder / "clinic.toml", key, folder / "bundle.zip", questions=True)
    for file, content in (
        ("hashes", plan_hashes()),
        ("bodies", identities),
        ("answers", {name: written_form(answer) for name, answer in answers.items()}),
        ("fields", written_fields()),
    ):
        (folder / f"{file}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    if KEPT.exists():
        sys.exit(f"{KEPT} is kept as it is")
    make(KEPT)
