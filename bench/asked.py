"""Releases that an audit buys over the whole path of a policy: text, plan, charge, rows, noise, answer.

Two processes buy at once, one for each of two neighbouring tables, each with a ledger that is thrown away.
Run with: .venv/bin/python bench/asked.py
"""

from __future__ import annotations

import math
import time
from pathlib import Path

import sfumato as sf
from sfumato import data
from sfumato.audit.asked_questions.release_sampling import (
    SamplingJob,
    SamplingWorkers,
    SqlQuestion,
    pair_with_most_rows,
    sample_releases,
    temporary_curator,
)
from sfumato.audit.generated_tables import neighbours_of
from sfumato.curator.policy_account import read_policy

POLICY = Path(data.__file__).with_name("flights.toml")
TARGET = 10_000
COUNT = 1_000
QUESTIONS = (
    "SELECT COUNT(*) AS n FROM flights",
    "SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin",
    "SELECT AVG(delay) AS average FROM flights",
)


def main() -> None:
    tables = neighbours_of(read_policy(POLICY))
    policies = [tables.policy_over(each) for each in pair_with_most_rows(tables)]
    with SamplingWorkers() as processes:
        for text in QUESTIONS:
            jobs = [
                SamplingJob(each, SqlQuestion(text), {"epsilon": 1, "fresh": True}, COUNT, math.inf)
                for each in policies
            ]
            processes.sample(
                [SamplingJob(each.policy, each.ask, each.price, 2, math.inf) for each in jobs]
            )  # opened and bound
            begun = time.perf_counter()
            processes.sample(jobs)
            minute = 60 * len(jobs) * COUNT / (time.perf_counter() - begun)
            with temporary_curator(policies[0]) as curator:
                spent = time.process_time()
                sample_releases(
                    curator, SamplingJob(policies[0], SqlQuestion(text), jobs[0].price, COUNT // 5, math.inf)
                )
                alone = 60 * (COUNT // 5) / (time.process_time() - spent)
            print(f"{text:<64}{minute:>9,.0f} a minute (target {TARGET:,}); {2 * alone:,.0f} by processor time")
    begun = time.perf_counter()
    found = sf.audit.curator(POLICY)
    print(f"sfumato audit of the demo's policy {time.perf_counter() - begun:>8.0f} s (target 120)  {found}")


if __name__ == "__main__":
    main()
