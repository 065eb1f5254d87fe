"""Draws the two laws of an audit, with the distinguishing event.

Run with: .venv/bin/python docs/pictures/audits.py
Noise is drawn anew each time, so no two runs draw quite the same.
"""

from __future__ import annotations

from pathlib import Path

import sfumato as sf

PICTURE = Path(__file__).parent / "verdict.svg"

if __name__ == "__main__":
    half_the_noise = sf.Laplace("0.5", grid="0.25")
    sf.audit.falsify(half_the_noise, sf.Guarantee(1), 1_000_000).plot(PICTURE)
