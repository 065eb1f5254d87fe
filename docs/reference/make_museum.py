"""Writes explanation/museum.md from a tour of the museum. Run with: .venv/bin/python docs/reference/make_museum.py"""

from __future__ import annotations

import math
import re
from pathlib import Path

from sfumato.audit.museum import EXHIBITS, ROOMS, Catch, Exhibit, Room, Tour, tour

PAGE = Path(__file__).parent.parent / "explanation/museum.md"
RUNS = 200_000
MOST = math.log(0.9 * RUNS / math.log(8e6))
"""What these runs prove of an event that one world never shows: it is counted on nine tenths of them, and each of the
eight limits of one number misses with probability 10⁻⁶/8."""

INTRODUCTION = f"""\
# The museum of broken mechanisms

A mechanism that adds noise is not yet private, and one that looks private may have been proved so by mistake. This
museum has {len(EXHIBITS)} exhibits: mechanisms that were published with a wrong proof, bugs that libraries shipped, and
mistakes that papers warn of. Each is built here as it was described, and claims a privacy that it does not keep. Beside
each stands its correct twin, which makes the same claim and keeps it.

**How a mistake is caught.** Two neighbouring tables differ in one person. Differential privacy with ε says: no set of
answers is more than e^ε times likelier with one table than with the other (and δ more). An
[audit](../reference/python-evidence.md) runs the mechanism many times on both, looks for a set of answers on a first
part of the runs, and counts on the rest how often it comes up. That proves a lower bound of the true ε. Where the
bound is above the claim, the claim is refuted.

```python
>>> import sfumato as sf
>>> found = sf.audit.catch("Two sums share one noise")
>>> found.caught, found.passes      # its twin is not refuted
(True, True)
>>> found.broken.lower_bound > 5 > found.exhibit.claim.epsilon
True
>>> sf.audit.museum.EXHIBITS[:3]
(Exhibit('Half the noise'), Exhibit('ε where 1/ε belongs'), Exhibit('Success with probability ε'))

```

`sf.audit.museum.tour()` runs them all and prints a table.

The picture shows [one of them](#drawn-again-until-it-looks-right). A count is 0 or 1, and a negative answer looks
silly. Drawing the noise again until it does not makes an answer of 0 come up 3.35 times as often when nobody is there:
more than ε = 1 allows. Showing a negative answer as 0 costs nothing.

![The chances of each answer, for the broken mechanism and its twin](../pictures/museum.svg)

**How sure it is.** Each bound is true except with probability 10⁻⁶. So often, and no oftener, is a correct twin
called broken: for all {len(EXHIBITS)} twins together that is less than one in ten thousand. An audit that calls
everything broken would catch every exhibit as well, which is why the twins are there (a peer's audit once proved ε ≥
3.5 of a mechanism that says nothing: jax_privacy issue 270).

**What the figures mean.** "Proven" is the lower bound from {RUNS:,} runs of each world. The truth may be larger, and
where somebody is given away entirely it is infinite: so many runs cannot prove more than about {MOST:.1f}. "Its twin"
is the same for the correct twin, and stays below the claim. A twin near its claim uses all of it; one far below wastes
some, or loses less on these two tables than on others. The noise is numpy's, with a seed, so that everybody sees the
same figures. That is for demonstrations alone: [noise that protects people](noise.md) is drawn otherwise.
"""


def section(room: Room, catches: dict[str, Catch]) -> str:
    """Write one room: its table, then what is wrong with each exhibit."""
    head = "| exhibit | claimed | proven ε | its twin |\n|---|---|---:|---:|"
    rows = "\n".join(row(catches[exhibit.name]) for exhibit in room.exhibits)
    texts = "\n\n".join(map(about, room.exhibits))
    return f"## {room.title}\n\n{room.about}\n\n{head}\n{rows}\n\n{texts}\n"


def row(caught: Catch) -> str:
    """Write one line of the catch table."""
    name, _, proven, of_twin, _ = caught.row
    return f"| [{name}](#{anchor(name)}) | {caught.exhibit.claim} | {proven} | {of_twin} |"


def anchor(name: str) -> str:
    """Give the place of a heading, as the site names it: letters and digits, with hyphens between words."""
    plain = re.sub(r"[^a-z0-9\s-]", "", name.lower()).strip()
    return re.sub(r"[\s-]+", "-", plain)


def about(exhibit: Exhibit) -> str:
    """Tell what went wrong, what is right, what gives it away and where to read of it."""
    return (
        f"### {exhibit.name}\n\n{exhibit.wrong}\n\n"
        f"- **right:** {exhibit.mended}\n"
        f"- **two worlds:** {exhibit.worlds} ({exhibit.neighbours.value})\n"
        f"- **given away by:** {exhibit.seen[0].lower()}{exhibit.seen[1:]}\n"
        f"- **where:** {exhibit.source}"
    )


def page(seen: Tour) -> str:
    """Write the whole page from a tour."""
    catches = {each.exhibit.name: each for each in seen.catches}
    return "\n".join([INTRODUCTION, *(section(room, catches) for room in ROOMS)])


if __name__ == "__main__":
    seen = tour(RUNS)
    assert seen.holds, str(seen)
    PAGE.write_text(page(seen))
