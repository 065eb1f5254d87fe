"""How long attacks take: reconstruction of 2,000 bits, the linear programme beside HiGHS, answers of a real curator.

Run with: .venv/bin/python bench/attacks.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from timing import cpu_seconds, installed, row

from sfumato import attacks
from sfumato.attacks.answerers import group_sums, invented_bits, random_groups
from sfumato.attacks.reconstruction import least_deviations


def wall_seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def bits() -> None:
    secret = invented_bits(2000)
    found: list[float] = []

    def attack() -> None:
        found.append(float((attacks.reconstruct(attacks.ExactAnswers(secret), 20_000) == secret).mean()))

    spent = wall_seconds(attack)
    row("2,000 bits from 20,000 questions, least squares", spent, note=f"target 10,000 ms; {found[0]:.1%} right")


def programme() -> None:
    secret = invented_bits(100)
    groups = random_groups(400, 100)
    told = group_sums(groups, secret) + np.random.default_rng(0).uniform(-4, 4, 400)
    matrix = groups.astype(np.float64)
    ours = cpu_seconds(lambda: least_deviations(matrix, told), 3)
    scipy = installed("scipy.optimize")
    theirs = None
    if scipy is not None:
        aim = np.r_[np.zeros(100), np.ones(800)]
        equal = np.hstack([matrix, np.eye(400), -np.eye(400)])
        bounds = [(0, 1)] * 100 + [(0, None)] * 800
        theirs = cpu_seconds(lambda: scipy.linprog(aim, A_eq=equal, b_eq=told, bounds=bounds), 3)
    row("100 bits from 400 questions, linear programme (HiGHS)", ours, theirs)


def curator() -> None:
    secret = invented_bits(50)
    groups = random_groups(100, 50)
    with attacks.private_answers(secret, 1, 101) as private:
        private.sums(random_groups(1, 50))
        spent = wall_seconds(lambda: private.sums(groups))
    row("one answer of a real curator, about 25 of 50 people", spent / 100)


def examples() -> None:
    for attack in (attacks.differencing, attacks.averaging, attacks.reconstruction, attacks.census, attacks.linkage):
        row(f"{attack.__name__} on every kind of answers", wall_seconds(attack))


if __name__ == "__main__":
    bits()
    programme()
    curator()
    examples()
