"""Accounting beside dp-accounting's privacy-loss distributions, in one run: CPU time, bounds and ratios.

Run with: .venv/bin/python bench/accounting.py
"""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings
from collections.abc import Callable

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld
from timing import cpu_seconds, row

import sfumato as sf

DELTA = "1e-6"


def heterogeneous() -> None:
    """500 Laplace and 500 Gaussian, all scales different: continuous, and the discrete noise that is drawn."""
    scales = [100 + i / 5 for i in range(500)]
    kinds = {
        "500 Laplace + 500 Gaussian, all different": (
            (sf.Curve.laplace, sf.Curve.gaussian),
            (pld.from_laplace_mechanism, pld.from_gaussian_mechanism),
        ),
        "500 + 500 discrete, all different": (
            (lambda s: sf.Laplace(s).curve(1), lambda s: sf.Gaussian(s).curve(1)),
            (lambda s, **how: pld.from_discrete_laplace_mechanism(1 / s, **how), pld.from_discrete_gaussian_mechanism),
        ),
    }
    for name, (ours, peers) in kinds.items():
        curves = [make(scale) for make in ours for scale in scales]
        low, high = sf.compose(curves).epsilon_range(DELTA)
        row(
            name,
            cpu_seconds(lambda c=curves: sf.compose(c).epsilon_range(DELTA)),
            cpu_seconds(lambda p=peers: theirs(p, scales), 1),
            f"[{low:.10f}, {high:.10f}] width {high - low:.1e}; theirs ≤ {theirs(peers, scales):.7f}",
        )


def theirs(makers: tuple[Callable[..., pld.PrivacyLossDistribution], ...], scales: list[float]) -> float:
    total = None
    for scale in scales:
        for make in makers:
            one = make(scale, value_discretization_interval=1e-4)
            total = one if total is None else total.compose(one)
    assert total is not None
    return float(total.get_epsilon_for_delta(float(DELTA)))


def equal() -> None:
    kinds = {
        "Laplace": (lambda s: sf.Curve.laplace(s), lambda s: pld.from_laplace_mechanism(s)),
        "Gaussian": (lambda s: sf.Curve.gaussian(s), lambda s: pld.from_gaussian_mechanism(s)),
        "discrete Laplace": (
            lambda s: sf.Curve.discrete_laplace(s),
            lambda s: pld.from_discrete_laplace_mechanism(1 / s),
        ),
        "discrete Gaussian": (lambda s: sf.Curve.discrete_gaussian(s), pld.from_discrete_gaussian_mechanism),
        "randomised response": (
            lambda s: sf.Curve.pure(1 / s),
            lambda s: pld.from_randomized_response(2 / (1 + np.exp(1 / s)), 2),
        ),
        "bounded range": (lambda s: sf.Curve.bounded_range(1 / s), None),
    }
    for name, (ours, theirs) in kinds.items():
        for k in (10, 1000, 10**6):
            scale = float(round(4 * k**0.5))
            curve = sf.compose([(ours(scale), k)])
            low, high = curve.epsilon_range(DELTA)
            peer = None
            if theirs is not None and k <= 1000:
                distribution = theirs(scale)
                peer = cpu_seconds(lambda d=distribution, k=k: d.self_compose(k).get_epsilon_for_delta(float(DELTA)), 1)
            spent = cpu_seconds(lambda c=curve: sf.compose([(c, 1)]).epsilon_range(DELTA))
            row(f"{k:>9,} × {name}", spent, peer, f"[{low:.9f}, {high:.9f}]")


def charges() -> None:
    account, curve = sf.Budget(1000, DELTA), sf.Curve.laplace(100)
    row("one charge, (ε, δ) account", cpu_seconds(lambda: [account.charge(curve) for _ in range(1000)]) / 1000)
    gaussian = sf.Curve.gaussian(100)
    row("one charge, Gaussian", cpu_seconds(lambda: [account.charge(gaussian) for _ in range(1000)]) / 1000)


def importing() -> None:
    code = "import time; t = time.process_time(); import {}; print(time.process_time() - t)"

    def spent(module: str) -> float:
        runs = [
            float(subprocess.run([sys.executable, "-c", code.format(module)], capture_output=True, check=True).stdout)
            for _ in range(3)
        ]
        return min(runs)

    row("import sfumato (theirs: numpy alone)", spent("sfumato"), spent("numpy"))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print(f"{'':<58}{'sfumato':>15}  {'dp-accounting':>15}  {'ratio':>9}")
    heterogeneous()
    equal()
    charges()
    importing()
