"""Draws the pictures of attacks, or those named. Run with: .venv/bin/python docs/pictures/attacks.py

Noise and invented people are drawn anew each time, so no two runs draw quite the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from sfumato import attacks
from sfumato.plots import Picture

HERE = Path(__file__).parent


def differencing() -> Picture:
    """Bob's answer by two totals, on every kind of answers."""
    return attacks.differencing().plot()


def spread() -> Picture:
    """Bob's answer from ever more questions, no two of which are nearly alike."""
    return attacks.differencing_by_questions().plot()


def suppression() -> Picture:
    """Bob's answer from tables with small and second cells withheld, alone and put together."""
    return attacks.suppression().plot()


def averaging() -> Picture:
    """The same question again and again, counted and uncounted."""
    return attacks.averaging_by_times().plot()


def reconstruction() -> Picture:
    """The share of bits that are recovered at each scale of noise, with √n and the ceiling."""
    return attacks.reconstruction_by_noise().plot()


def recovery() -> Picture:
    """The law of information recovery: success and error along the number of questions."""
    return attacks.information_recovery().plot()


def refusals() -> Picture:
    """A bit from whether a sum is withheld."""
    return attacks.refusals().plot()


def census() -> Picture:
    """Ancestries found from three small tables of each block, with the numbers that the page quotes."""
    found = attacks.census()
    sys.stdout.write(f"{found}\n")
    return found.plot()


def linkage() -> Picture:
    """Diagnoses found by gender, age and postcode."""
    return attacks.linkage().plot()


DRAWINGS: dict[str, Callable[[], Picture]] = {
    each.__name__: each
    for each in (differencing, spread, suppression, refusals, averaging, reconstruction, recovery, census, linkage)
}

if __name__ == "__main__":
    for name in sys.argv[1:] or DRAWINGS:
        DRAWINGS[name]().save(HERE / f"attack-{name}.svg")
