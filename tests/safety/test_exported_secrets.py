"""Nothing that is exported holds a secret: no key or salt of the ledger, no place of a file, whatever was released.

Who knew the salt of a line could test guesses of what else it says against its hash, which receipts print.
"""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sfumato as sf
from curator.test_requests import DELTA, ONE, PROPOSALS, SESSIONS, Propose, opened

_TEXTS = ("to_json", "_repr_html_", "to_csv", "__repr__", "__str__")
_MORE: dict[str, tuple[Propose, dict[str, Any]]] = {
    "histogram of ρ": (lambda own: own.histogram("visits", ["kind"]), {"rho": Fraction(1, 50)}),
    "limits": (lambda own: own.limits("visits"), ONE),
    "auction": (lambda own: own.auction("visits", "cost", prices=[3, 6]), ONE),
    "score": (lambda own: own.score(_candidate(), "visits", k=1, columns=["kind", "sex"]), ONE),
    "synthesis at a pure price": (lambda own: own.synthesize("visits", "independent", 1), ONE),
}
_RELEASED = {name: (each[0], each[-1]) for name, each in PROPOSALS.items()} | SESSIONS | _MORE


def _candidate() -> Any:
    return pd.DataFrame({"kind": ["a", "b"], "sex": ["f", "m"]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("secrets")
    rows = {"who": range(60), "kind": ["a", "b"] * 30, "sex": ["f", "f", "m"] * 20, "cost": [3, 7, 1, 9, 0] * 12}
    pd.DataFrame(rows).to_parquet(found / "visits.parquet")
    return found


@pytest.fixture(scope="module")
def clinic(folder: Path) -> Iterator[sf.Curator]:
    with opened(folder) as curator:
        yield curator


def _secrets(curator: sf.Curator, folder: Path, name: str) -> set[str]:
    """All keys and salts in a complete export of the ledger and in the answers it holds, and where its files are."""
    export = folder / f"{name}.json"
    curator.ledger.export("json", export, complete=True)
    found = {each for each in _values(json.loads(export.read_text())) if each}
    assert len(found) > 1, "a key and the salt of a line at least"
    return found | {str(folder), "l.ledger", "visits.parquet"}


def _values(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name in ("key", "salt", "seed", "token") and isinstance(value, str):
                yield value
            else:
                yield from _values(value)
    elif isinstance(node, list):
        for each in node:
            yield from _values(each)
    elif isinstance(node, str):
        yield from re.findall(r'"(?:salt|key|seed|token)":\s*"([^"]+)"', node)


def _exports(made: Any, folder: Path) -> Iterator[bytes]:
    """Everything that a released thing can be written as, with what is packed or coded in it laid open."""
    for name in _TEXTS:
        write = getattr(made, name, None)
        if write is not None:
            yield from _laid_open(str(write()).encode())
    if getattr(made, "receipt", None) is not None:
        yield from (made.receipt.to_json().encode(), str(made.receipt).encode())
    if hasattr(made, "save"):
        path = folder / f"{type(made).__name__}.{'json' if hasattr(made, 'rows') else 'sfu'}"
        made.save(path)
        yield from _laid_open(path.read_bytes())
    for inner in (*getattr(made, "answers", ()), *filter(None, [getattr(made, "synopsis", None)])):
        yield from _exports(inner, folder)


def _laid_open(content: bytes) -> Iterator[bytes]:
    coded = (text + b"=" * (-len(text) % 4) for text in re.findall(rb"[A-Za-z0-9+/]{200,}", content))
    for each in (content, *map(base64.b64decode, coded)):
        yield each
        if zipfile.is_zipfile(io.BytesIO(each)):
            with zipfile.ZipFile(io.BytesIO(each)) as file:
                yield from (file.read(name) for name in file.namelist())


def _told(made: Any, folder: Path, secrets: set[str]) -> set[str]:
    return {secret for content in _exports(made, folder) for secret in secrets if secret.encode() in content}


@pytest.mark.parametrize("kind", _RELEASED)
def test_what_is_exported_holds_no_secret(kind: str, clinic: sf.Curator, folder: Path, tmp_path: Path) -> None:
    propose, price = _RELEASED[kind]
    made = propose(clinic).release(**price)
    assert not _told(made, tmp_path, _secrets(clinic, folder, kind))
    if hasattr(made, "close"):
        made.close()


def test_a_sum_of_synopses_holds_no_secret(clinic: sf.Curator, folder: Path, tmp_path: Path) -> None:
    one = clinic.marginals("visits", [["kind"]]).release(**DELTA)
    other = clinic.marginals("visits", [["sex"]]).release(**DELTA)
    assert one.published.purchase.salt
    assert not _told((one + other).to_json(), tmp_path, _secrets(clinic, folder, "sum"))


def test_a_salt_that_is_exported_is_noticed(clinic: sf.Curator, folder: Path, tmp_path: Path) -> None:
    """The twin: what the ledger itself keeps of a synopsis, which has its salt."""
    made = clinic.marginals("visits", [["kind", "cost"]]).release(**DELTA)
    secrets = _secrets(clinic, folder, "twin")
    body = next(line.body for line in clinic.ledger.lines() if line.number == made.receipt.line)
    assert made.published.purchase.salt in secrets
    assert _told(body, tmp_path, secrets) == {made.published.purchase.salt}
