"""A verdict reads back from its JSON text, and is drawn and shown with what it proves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.audit import Verdict


def _floats() -> Verdict:
    worlds = [lambda n, x=x: x + np.random.default_rng(n + x).laplace(size=n) for x in (0, 1)]
    return sf.audit.falsify(worlds, sf.Guarantee(1), 5_000)


def _rows() -> Verdict:
    worlds = [lambda n, x=x: np.random.default_rng(n + x).integers(0, 2 + x, (n, 3)) for x in (0, 1)]
    return sf.audit.falsify(worlds, sf.Guarantee(1), 5_000)


VERDICTS: dict[str, Callable[[], Verdict]] = {
    "few values": lambda: sf.audit.falsify(sf.Laplace("0.5"), sf.Guarantee(1), 5_000),
    "many values": lambda: sf.audit.falsify(sf.Gaussian(2000), sf.Guarantee("0.001", "1e-6"), 5_000, inputs=(0, 5000)),
    "last bits": _floats,
    "whole rows": _rows,
    "two values": lambda: sf.audit.falsify(sf.RandomizedResponse(2), sf.Guarantee(3), 5_000),
}


@pytest.mark.parametrize("kind", VERDICTS)
def test_it_reads_back_and_is_drawn(kind: str, tmp_path: Path) -> None:
    verdict = VERDICTS[kind]()
    assert Verdict.from_json(verdict.to_json()) == verdict
    picture = verdict.plot(tmp_path / "laws.svg")
    assert (tmp_path / "laws.svg").read_text() == picture.svg
    assert "event" in picture.svg
    shown = verdict._repr_html_()
    assert str(verdict.claim) in shown
    assert f"{verdict.detectable:.4g}" in shown
    assert "<svg" in shown
    laws = verdict.laws
    assert laws is not None
    if laws.edges:
        assert sum(laws.first) == pytest.approx(1)
        assert sum(laws.second) == pytest.approx(1)
        assert list(laws.edges) == sorted(laws.edges)
    inside = [sum(p for p, own in zip(side, laws.inside, strict=True) if own) for side in (laws.first, laws.second)]
    assert inside[0] != inside[1]


def test_nothing_told_apart_is_not_drawn() -> None:
    verdict = sf.audit.falsify(sf.Laplace(1), sf.Guarantee(1), 2_000, "0.999999", inputs=(3, 3))
    assert verdict.event == "no event"
    assert str(verdict).endswith(
        "the samples do not distinguish the two worlds, with confidence 0.999999"
    )  # and not with confidence 1
    assert verdict.laws is None
    assert "<svg" not in verdict._repr_html_()
    assert Verdict.from_json(verdict.to_json()) == verdict
    with pytest.raises(sf.InvalidParameter):
        verdict.plot()


@pytest.mark.parametrize(
    "change",
    [
        {"lower_bound": -1},
        {"lower_bound": "much"},
        {"confidence": 1},
        {"confidence": 0},
        {"measured": 0},
        {"measured": "many"},
        {"claim": 1},
        {"event": 3},
        {"kind": "audit-verdict/2"},
        {"more": 1},
        {"laws": 7},
        {"laws": {"kind": "told-laws/1", "seen": "x", "first": [1], "second": [], "inside": [True]}},
        {"laws": {"kind": "told-laws/1", "seen": "x", "first": [1], "second": [1], "inside": [1]}},
        {"laws": {"kind": "told-laws/1", "seen": "x", "first": [1], "second": [1], "inside": [True], "edges": [1]}},
        {"laws": {"kind": "told-laws/1", "seen": "x", "first": [], "second": [], "inside": []}},
    ],
    ids=str,
)
def test_hostile_texts(change: dict[str, Any]) -> None:
    text = json.loads(Verdict(1.5, sf.Guarantee(1), 0.99, "a ray of the value", 900, 4).to_json())
    with pytest.raises(sf.InvalidParameter):
        Verdict.from_json(json.dumps(text | change))
