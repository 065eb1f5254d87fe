"""Small fixed clinics whose every proposal is priced, released under keyed noise, and recorded."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import sfumato as sf
from claims.accounts import ledger_facts
from claims.flattening import figures
from mechanisms.recorded import keyed
from sfumato.release.answers.answer import Answer

FIRST = dt.date(2024, 1, 1)
COLUMNS: dict[str, Any] = {
    "sex": {"values": ["f", "m"]},
    "age": {"type": "integer", "bounds": [0, 9], "bins": [0, 3, 5, 9]},
    "smokes": {"type": "boolean"},
    "cost": {"type": "real", "bounds": [-5, 20], "grid": "0.5"},
    "day": {"type": "date", "bounds": ["2024-01-01", "2024-01-10"]},
    "note": {"type": "text"},
    "town": {"values": ["a", "b", "c", "d"]},
    "other": {"values": ["a", "b", "c", "d"]},
    "city": {"levels": {"north": ["p", "q", "r"], "south": ["s", "t"]}},
}
WORLDS: dict[str, dict[str, Any]] = {
    "people": {"neighbours": "add-remove", "id": "who", "max_rows": 3},
    "rows": {"neighbours": "replace", "id": "row"},
}


def table(count: int = 90) -> pa.Table:
    """Of three people each the first has one row, the second two and the third three."""
    rows = [
        (
            index // 6 * 3 + (0, 1, 1, 2, 2, 2)[index % 6],
            "fm"[index * 7 % 3 % 2] if index % 11 else None,
            index * 5 % 10,
            index % 4 == 0 if index % 13 else None,
            (index * 3 % 50) / 2 - 5,
            FIRST + dt.timedelta(days=index * 3 % 10),
            ("x", "y", "y", "z")[index % 4] if index < 80 else f"n{index}",
            "abcd"[index % 4],
            "abcd"[index * 3 % 4],
            "pqrst"[index * 2 % 5],
        )
        for index in range(count)
    ]
    kinds = (pa.int64(), pa.string(), pa.int64(), pa.bool_(), pa.float64(), pa.date32(), *[pa.string()] * 4)
    columns = zip(("who", *COLUMNS), zip(*rows, strict=True), kinds, strict=True)
    return pa.table({name: pa.array(each, kind) for name, each, kind in columns})


@contextmanager
def clinic(folder: Path, world: str, name: str = "visits") -> Iterator[sf.Curator]:
    """Open a clinic of its own ledger; all noise in it is keyed by its world and name."""
    terms = dict(WORLDS[world])
    relation = terms.pop("neighbours")
    own = sf.Table("visits", table(), COLUMNS, impossible=("sex = 'f' AND age > 8",), **terms)
    unit = sf.PrivacyUnit("person", every_row=terms["id"] == "row")
    budget = sf.Budget(60, "1e-5", neighbours=relation)
    policy = sf.Policy(unit, budget, {"visits": own}, size=50, analysts={"ana": "0.5"})
    with keyed(f"{world} {name}"), sf.Curator(policy, folder / "visits.ledger") as opened:
        yield opened


def answer_facts(found: Answer) -> dict[str, Any]:
    """What an answer claims: rows, ranges, ranks, choices, the figures of its warnings and of its receipt."""
    said: dict[str, Any] = {"rows": found.rows, "ranges": found.intervals, "warnings": figures(found.warnings)}
    said |= {"ranks": figures(found.ranks), "chosen": figures(found.chosen), "basis": found.basis}
    return said | receipt_facts(found.receipt)


def receipt_facts(receipt: Any) -> dict[str, Any]:
    named = ("guarantee", "account", "mechanisms", "limits", "bounds", "remaining", "confidence", "free", "joint")
    return {f"receipt {name}": figures(getattr(receipt, name)) for name in named} | {"strategy": receipt.strategy}


def spent_facts(curator: sf.Curator, after: int = 0) -> dict[str, Any]:
    """What was charged: every line of the ledger, and what is spent and left."""
    account = curator._context.account
    lines = {name: tuple(each) for name, each in ledger_facts(curator.ledger, after).items()}
    return {"lines": lines, "spent": account.spent, "left": account.remaining}
