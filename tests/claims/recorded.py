"""Claims on record: sensitivities, noise scales, costs, thresholds and ranges as they were when last read by a person.

A vector says what a formula must give, by another route; a record says that nothing moved. It notices any change in
what a released number claims, also where nobody thought of a vector. Whoever changes a claim on purpose records it
again with ``RECORD_CLAIMS=1 ./test tests/claims``, reads the difference, and says in the commit why it is right: what
fell is a promise that became weaker until proved otherwise.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
TOLERANCE = 1e-12
"""Relative: machines differ in the last bits of exp and log."""

ROUNDED_DIGITS = 10
_DECIMAL = re.compile(r"\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+")
"""Floats in texts, written with nine digits or more."""

Claim = bool | int | float | Fraction | str | None | tuple["Claim", ...]


def check_claims(record: str, claims: Mapping[str, Claim]) -> None:
    """Compare claims with those in ``tests/claims/<record>.json``, and name each that rose, fell or changed."""
    path = FOLDER / f"{record}.json"
    current = {name: _written(claim) for name, claim in claims.items()}
    if os.environ.get("RECORD_CLAIMS"):
        path.write_text(json.dumps(current, indent=0, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
        return
    recorded = json.loads(path.read_text(encoding="utf-8"))
    changes = [
        f"{name}: {recorded.get(name, 'absent')} → {current.get(name, 'absent')}{_direction(recorded, current, name)}"
        for name in sorted(recorded.keys() | current.keys())
        if name not in recorded or name not in current or not is_same(recorded[name], current[name])
    ]
    assert not changes, f"{len(changes)} of {len(recorded)} claims changed:\n" + "\n".join(changes[:40])


def is_same(recorded: object, current: object) -> bool:
    """Whether two written claims are equal; floats may differ in their last bits, also where they stand in texts."""
    if isinstance(recorded, list) and isinstance(current, list):
        return len(recorded) == len(current) and all(map(is_same, recorded, current))
    if isinstance(recorded, float) and isinstance(current, float):
        both_nan = math.isnan(recorded) and math.isnan(current)
        return both_nan or math.isclose(recorded, current, rel_tol=max(map(_tolerance, (recorded, current))))
    if isinstance(recorded, str) and isinstance(current, str) and recorded != current:
        return _is_same_text(recorded, current)
    return type(recorded) is type(current) and recorded == current


def _tolerance(number: float) -> float:
    """A number that was cut to ten digits may be rounded the other way on another machine."""
    digits = repr(number).partition("e")[0].replace("-", "").replace(".", "").strip("0")
    return 2e-9 if len(digits) <= ROUNDED_DIGITS else TOLERANCE


def _is_same_text(recorded: str, current: str) -> bool:
    if _DECIMAL.split(recorded) != _DECIMAL.split(current):
        return False
    pairs = zip(_DECIMAL.findall(recorded), _DECIMAL.findall(current), strict=True)
    return all(math.isclose(float(one), float(other), rel_tol=2e-8) for one, other in pairs)


def _written(claim: object) -> object:
    if isinstance(claim, np.generic):
        claim = claim.item()
    if isinstance(claim, Fraction):
        return str(claim)
    if isinstance(claim, (tuple, list, np.ndarray)):
        return [_written(part) for part in claim]
    if claim is None or isinstance(claim, (bool, int, float, str)):
        return claim
    raise TypeError(f"a {type(claim).__name__} is no claim: name its numbers")


def _direction(recorded: Mapping[str, object], current: Mapping[str, object], name: str) -> str:
    try:
        before, after = (float(Fraction(str(side[name]))) for side in (recorded, current))
    except (KeyError, ValueError, ZeroDivisionError):
        return ""
    return " (FELL)" if after < before else " (rose)"
