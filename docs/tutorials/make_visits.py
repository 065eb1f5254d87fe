"""Invents the clinic of the tutorials: a year of visits, more of them in autumn, a few patients with many. Run with:
.venv/bin/python docs/tutorials/make_visits.py
"""

from __future__ import annotations

import csv
import datetime as dt
import random
from pathlib import Path

PATIENTS = 4000
MONTHS = (69, 74, 72, 80, 101, 97, 97, 88, 90, 101, 107, 107)
WARDS = {"cardiology": 27, "surgery": 21, "maternity": 20, "emergency": 32}
HERE = Path(__file__).parent


def visits(draw: random.Random) -> list[tuple[int, dt.date, str, int, str]]:
    """Draw all visits, ordered by day."""
    days = [dt.date(2025, 1, 1) + dt.timedelta(number) for number in range(365)]
    weights = [MONTHS[day.month - 1] for day in days]
    drawn = []
    for patient in range(1, PATIENTS + 1):
        age = min(100, int(draw.triangular(0, 95, 45)))
        count = min(20, 1 + int(draw.expovariate(0.48)))
        for day in draw.choices(days, weights, k=count):
            (ward,) = draw.choices(list(WARDS), list(WARDS.values()))
            drawn.append((patient, day, ward, age, f"{draw.lognormvariate(5.6, 0.8):.2f}"))
    return sorted(drawn, key=lambda visit: visit[1])


if __name__ == "__main__":
    with (HERE / "visits.csv").open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(("patient_id", "day", "ward", "age", "cost"))
        writer.writerows(visits(random.Random(2025)))
