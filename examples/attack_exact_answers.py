"""An attacker subtracts two harmless totals, then solves many at once: exact answers leak, private ones do not.

First one person's income from two sums over the people of a census sample. Then whether each of 24 people is married,
from how many of random groups of them are. The same is asked of a curator whose whole budget is ε = 1.

Run it: python examples/attack_exact_answers.py [folder]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato import attacks

DATA = Path(__file__).parents[1] / "tests" / "data" / "pums" / "people.csv"
ALL = "SELECT SUM(income) AS total FROM people"
BUT_ONE = f"{ALL} WHERE NOT (age = 37 AND sex = 0 AND educ = 15)"  # what neighbours know: only one person is so
BOUNDS = {"age": (0, 110), "sex": (0, 1), "educ": (1, 16), "income": (0, 200_000)}


def subtract(people: pa.Table, folder: Path) -> None:
    """Attack one person: everybody's total, less the total of all the others."""
    exact = duckdb.query(f"SELECT ({ALL}) - ({BUT_ONE})").fetchall()[0][0]  # it finds the table by its name here
    print(f"exact totals differ by {exact:,}: the income of one person")
    kept = {"account": "attacked", "ledger": folder / "attacked.ledger"}
    with sf.protect(people, name="people", unit="pid", max_rows=1, bounds=BOUNDS, epsilon=1, **kept) as curator:
        first, second = (curator.sql(each).release(epsilon="0.5") for each in (ALL, BUT_ONE))
        (low, high), *_ = first.intervals["total"]
        told = first.column("total")[0] - second.column("total")[0]
        print(f"private totals differ by {told:,}, which tells nothing: each is known to ±{(high - low) / 2:,.0f}")


def solve(secret: np.ndarray) -> None:
    """Attack everybody: 72 totals are 72 equations for 24 secrets."""
    exact = attacks.reconstruct(attacks.ExactAnswers(secret), questions=72)
    with attacks.private_answers(secret, epsilon=1, questions=72) as answers:
        private = attacks.reconstruct(answers, questions=72)
    ceiling = 24 * attacks.guess_ceiling(sf.Guarantee(1))
    print(f"\nexact totals tell the secrets of {(exact == secret).sum()} of 24 people")
    print(
        f"private totals of {(private == secret).sum()}; a coin tells 12, and no attack over {ceiling:.0f} on average"
    )


def main(folder: Path) -> None:
    """Run both attacks on people of a census sample."""
    people = duckdb.read_csv(str(DATA)).filter("COLUMNS(*) IS NOT NULL").to_arrow_table()
    subtract(people, folder)
    solve(people["married"].to_numpy()[:24])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="sfumato-")))
