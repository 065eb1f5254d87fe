"""Somebody's own mechanism claims ε = 1, and the auditor proves the claim false from what the mechanism gives out.

Both mechanisms below release the sum of some ages with noise. The broken one adds as much as hides the oldest person
who is there; its sound twin, as much as hides whoever could be there. The auditor looks at what comes out and no more.

Run it: python examples/catch_a_broken_mechanism.py [folder]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import sfumato as sf

AGES = np.array([31, 35, 38, 40, 44])
OLDEST = 110
CLAIM = sf.Guarantee(1)


def broken(ages: np.ndarray, count: int) -> np.ndarray:
    """Add noise that hides the oldest person who is there: how much noise it is gives them away."""
    noise = sf.Laplace(scale=int(ages.max()))
    return int(ages.sum()) + np.asarray(noise.apply(np.zeros(count, np.int64)))


def sound(ages: np.ndarray, count: int) -> np.ndarray:
    """Add noise that hides the oldest person who could be there."""
    noise = sf.Laplace(scale=OLDEST)
    return int(ages.sum()) + np.asarray(noise.apply(np.zeros(count, np.int64)))


def main(folder: Path) -> None:
    """Run each mechanism in two worlds, without somebody of 105 and with them, and compare what comes out."""
    without, having = AGES, np.append(AGES, 105)
    for name, mechanism in (("broken", broken), ("sound", sound)):
        worlds = [lambda count, ages=ages, run=mechanism: run(ages, count) for ages in (without, having)]
        verdict = sf.audit.falsify(worlds, claim=CLAIM, samples=50_000, confidence="0.999999")
        print(f"{name}: {verdict}\n")
        verdict.plot(folder / f"{name}.svg")
    print(f"What tells the two worlds apart is drawn in {folder}: broken.svg and sound.svg.")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="sfumato-")))
