"""Selection beside diffprivlib and opendp, where installed, in one run.

Run with: .venv/bin/python bench/selection.py
"""

from __future__ import annotations

import numpy as np
from timing import cpu_seconds, installed

import sfumato as sf


def line(name: str, seconds: float, target: float, peers: dict[str, float] | None = None) -> None:
    beside = "  ".join(
        f"{peer} {value * 1e3:,.1f} ms ({value / seconds:.1f}×)" for peer, value in (peers or {}).items()
    )
    print(f"{name:<52}{seconds * 1e3:>10.2f} ms (target {target * 1e3:g})  {beside}")


def candidates() -> None:
    scores = np.random.default_rng(0).integers(0, 1000, 1_000_000)
    for mechanism in (sf.Exponential(1), sf.PermuteAndFlip(1), sf.NoisyMax(1), sf.TopK(1, k=100)):
        spent = cpu_seconds(lambda m=mechanism: m.choose(scores), 3)
        line(f"a million candidates, {type(mechanism).__name__}", spent, 0.1, _peers(scores, type(mechanism).__name__))


def _peers(scores: np.ndarray, name: str) -> dict[str, float]:
    found = {}
    if name in {"Exponential", "PermuteAndFlip"} and (peer := installed("diffprivlib.mechanisms")):
        utility = scores.astype(float).tolist()
        make = getattr(peer, name)
        found["diffprivlib"] = cpu_seconds(lambda: make(epsilon=1, sensitivity=1, utility=utility).randomise(), 1)
    if name == "NoisyMax" and (dp := installed("opendp.prelude")):
        dp.enable_features("contrib")
        domain = dp.vector_domain(dp.atom_domain(T=int))
        many = dp.m.make_noisy_max(domain, dp.linf_distance(T=int), dp.max_divergence(), scale=2.0)
        values = scores.tolist()
        found["opendp"] = cpu_seconds(lambda: many(values), 1)
    return found


def questions() -> None:
    def ask() -> None:
        session = sf.AboveThreshold(1, 10**9).start()
        for _ in range(100_000):
            session.ask(5)

    line("100,000 questions below a threshold", cpu_seconds(ask, 2), 0.5)


def quartiles() -> None:
    data = np.sort(np.random.default_rng(0).integers(0, 10**9, 10_000_000))
    mechanism = sf.Quantiles(["0.25", "0.5", "0.75"], 1, (0, 10**9))
    exact = cpu_seconds(lambda: np.quantile(data, [0.25, 0.5, 0.75]), 2)
    line(
        "quartiles of ten million sorted values", cpu_seconds(lambda: mechanism.choose(data), 3), 0.2, {"numpy": exact}
    )


def keys() -> None:
    counts = np.random.default_rng(0).geometric(0.05, 1_000_000)
    for mechanism in (sf.KeyThreshold(1, 1e-6), sf.KeyThreshold(1, 1e-6, 4), sf.KeyThreshold.gaussian(1, 1e-6, 50)):
        line(
            f"a million keys, {mechanism.max_groups} per unit",
            cpu_seconds(lambda m=mechanism: m.choose(counts), 3),
            0.3,
        )


if __name__ == "__main__":
    candidates()
    questions()
    quartiles()
    keys()
