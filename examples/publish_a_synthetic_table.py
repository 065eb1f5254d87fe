"""An owner publishes counts and an invented table once, and says in three ways how good the invented one is.

The people are 2,494 of the American Community Survey. Both files can be given to anybody: they answer and draw rows
without the data, and without anything more being spent.

Run it: python examples/publish_a_synthetic_table.py [folder]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import sfumato as sf

DATA = Path(__file__).parents[1] / "tests" / "data" / "nist_ace" / "ma2019.csv"
POLICY = """
[unit]
name = "person"
budget = { epsilon = 3.0, delta = 1e-6 }

[tables.people]
source = "ma2019.csv"
id = "row"
impossible = ["AGEP < 15 AND MSP <> 'N'"]   # nobody under 15 has a marital status

[tables.people.columns]
AGEP     = { type = "integer", bounds = [0, 99], bins = [0, 15, 25, 45, 65, 99] }
SEX      = { values = [1, 2] }
MSP      = { values = ["N", "1", "2", "3", "4", "5", "6"] }
OWN_RENT = { values = [0, 1, 2] }
"""


def main(folder: Path) -> None:
    """Publish the pairs of columns, then rows; then measure the rows for free, for a small ε, and exactly."""
    shutil.copy(DATA, folder)
    (folder / "people.toml").write_text(POLICY, encoding="utf-8")
    with sf.open(folder / "people.toml") as owner:
        counts = owner.marginals("people", ways=2).release(epsilon=1, delta="1e-9")
        invented = owner.synthesize("people", "mst").release(epsilon=1, delta="1e-9")
        counts.save(folder / "counts.sfu")
        invented.save(folder / "invented.sfu")
        invented.write(folder / "invented.csv")
        print(f"free, from what was measured anyway:\n{invented.quality()}\n")
        score = owner.score(invented.table(), k=2).release(epsilon="0.1")
        print(f"bought for ε = 0.1, and public:\n{score}\n")
        print(owner.standing().ordinary)

    published = sf.synopsis(folder / "counts.sfu")  # whoever has the file needs neither the data nor the owner
    print(published.sql("SELECT SEX, COUNT(*) AS n FROM people WHERE AGEP >= 65 GROUP BY SEX"))
    print(published.verify())
    exact = sf.quality.compare(folder / "ma2019.csv", folder / "invented.csv", policy=folder / "people.toml")
    print(f"\nexactly, for the owner's eyes alone: a score of {1000 * (1 - exact.ways[1].mean):.0f} of 1000")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="sfumato-")))
