"""An analyst asks a table of flights in SQL and gets numbers with error bars, a picture and a file.

The table comes with Sfumato. Whom it protects is a plane with all its flights: read "plane" as "patient".

Run it: python examples/ask_with_error_bars.py [folder]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import sfumato as sf

QUESTION = """
    SELECT name AS airline, COUNT(*) AS flights, AVG(delay) AS delay
    FROM flights JOIN airlines USING (carrier)
    GROUP BY name
    ORDER BY flights DESC
"""


def main(folder: Path) -> None:
    """Look at the error first, which is free; then buy the answer once, draw it and save it."""
    with sf.open(sf.example(folder / "flights")) as flights:
        question = flights.sql(QUESTION).limit(rows=20)  # at most 20 flights of one plane count: less noise
        print(f"At ε = 0.5 the numbers would be off by at most\n{question.error(epsilon='0.5')}\n")
        print(f"An error of 100 flights costs ε = {question.price({'flights': 100})}.\n")

        answer = question.release(epsilon="0.5")  # the one line that spends
        print(answer)

        busiest = answer.column("airline")[0]
        low, high = answer.intervals["flights"][0]
        print(f"\n{busiest} has between {low:,.0f} and {high:,.0f} flights, 95 times in 100.")

        answer.plot(folder / "airlines.svg")
        answer.save(folder / "airlines.csv")

        again = flights.sql(QUESTION).limit(rows=20).release(epsilon="0.5")
        print(f"Asked again, it costs nothing: {again.receipt.free}.")
        print(f"Spent so far: ε = {float(flights.budget.spent['pure'])}.")
    print(f"Written to {folder}: airlines.svg and airlines.csv.")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="sfumato-")))
