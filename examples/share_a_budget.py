"""An owner turns a CSV of people into a policy, and two analysts ask within shares of one budget.

The table is a sample of a census: 1,000 rows, some people several times. Nothing in the policy is read off the rows.

Run it: python examples/share_a_budget.py [folder]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import sfumato as sf

DATA = Path(__file__).parents[1] / "tests" / "data" / "pums" / "people.csv"
POLICY = """
[unit]
name = "person"
budget = { epsilon = 2.0 }

[tables.people]
source = "people.csv"
id = "pid"
max_rows = 1

[tables.people.columns]
age     = { type = "integer", bounds = [0, 110] }
educ    = { type = "integer", bounds = [1, 16] }
income  = { type = "integer", bounds = [0, 200000] }
married = { values = [0, 1] }

[analysts]
ana = { share = 0.5 }
ben = { share = 0.75 }
"""


def main(folder: Path) -> None:
    """Let each analyst ask under their own name: a charge must fit their share and what is left of the whole."""
    shutil.copy(DATA, folder)
    (folder / "people.toml").write_text(POLICY, encoding="utf-8")
    with sf.open(folder / "people.toml") as owner:
        ana, ben = owner.as_analyst("ana"), owner.as_analyst("ben")
        print(ana.sql("SELECT married, AVG(income) AS income FROM people GROUP BY married").release(epsilon="0.8"))
        try:
            ana.sql("SELECT COUNT(*) AS old FROM people WHERE age >= 65").release(epsilon="0.5")
        except sf.Overspent as refusal:
            print(f"\nana is refused, and nothing is spent: {refusal}\n")
        print(ben.sql("SELECT COUNT(*) AS old FROM people WHERE age >= 65").release(epsilon="0.5"))
        for name, who in (("ana", ana), ("ben", ben), ("the owner", owner)):
            print(f"left for {name}: {who.standing().ordinary}")
        for line in owner.history():
            number, _, analyst, kind, question, price = line.words()
            print(f"line {number}: {kind:<12} {analyst:<4} {price:<8} {question}".rstrip())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="sfumato-")))
