"""Noise beside numpy (unsafe: inexact, predictable) and, where installed, opendp and diffprivlib, in one run.

Run with: .venv/bin/python bench/noise.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from timing import cpu_seconds, installed

import sfumato as sf
from sfumato.mechanisms import gaussian

COUNT = 1_000_000


def line(name: str, ours: float, beside: dict[str, float], target: float | None = None) -> None:
    peers = "  ".join(f"{peer} {value:,.1f} ({value / ours:.1f}×)" for peer, value in beside.items())
    goal = "" if target is None else f"(target {target:g})"
    print(f"{name:<48}{ours:>11.1f} ns {goal:<16} {peers}")


def per_draw(call: Callable[[], Any], count: int = COUNT, repeats: int = 3) -> float:
    return cpu_seconds(call, repeats) / count * 1e9


def vectors() -> None:
    zeros = np.zeros(COUNT, np.int64)
    rng = np.random.default_rng()
    for name, make, unsafe, fast, slow in (
        ("Laplace", sf.Laplace, lambda s: rng.laplace(scale=s, size=COUNT), 15, 60),
        ("Gaussian", sf.Gaussian, lambda s: rng.normal(scale=s, size=COUNT), 15, 40),
    ):
        for scale in ("0.001", "1", "10", "64", "65", "1000", "1e6", "1e9", "1e12"):
            noise = make(scale)
            noise.apply(zeros)
            beside = {"numpy": per_draw(lambda u=unsafe, s=scale: zeros + u(float(s)))}
            beside |= _peers(name, float(scale)) if scale == "10" else {}
            line(f"{name}({scale})", per_draw(lambda n=noise: n.apply(zeros)), beside, fast if scale == "10" else slow)
        each = make([1 + i % 1000 for i in range(COUNT)])
        each.apply(zeros)
        line(f"{name}, 1000 scales over the elements", per_draw(lambda n=each: n.apply(zeros)), {}, 200)


def _peers(name: str, scale: float) -> dict[str, float]:
    found = {}
    if peer := installed("diffprivlib.mechanisms"):
        one = peer.Geometric(epsilon=1 / scale) if name == "Laplace" else peer.GaussianDiscrete(epsilon=0.5, delta=1e-6)
        found["diffprivlib"] = per_draw(lambda: [one.randomise(0) for _ in range(1000)], 1000)
    if dp := installed("opendp.prelude"):
        dp.enable_features("contrib")
        metric = dp.l1_distance(T=int) if name == "Laplace" else dp.l2_distance(T=float)
        make = dp.m.make_laplace if name == "Laplace" else dp.m.make_gaussian
        many = make(dp.vector_domain(dp.atom_domain(T=int)), metric, scale)
        found["opendp"] = per_draw(lambda: many([0] * 10_000), 10_000)
    return found


def scalars() -> None:
    for make in (sf.Laplace, sf.Gaussian):
        for scale in ("0.5", "10", "1e6", "1e12"):
            noise = make(scale)
            line(f"one {noise!r}", per_draw(lambda n=noise: [n.apply(0) for _ in range(2000)], 2000), {}, 15_000)


def time_and_size() -> None:
    """The rank correlation of a single draw's time with the size of its noise (0.01 is chance)."""
    for noise in (sf.Laplace(1000), sf.Laplace(10**9), sf.Laplace(10**12), sf.Gaussian(10**9)):
        spent, sizes = np.empty(50_000), np.empty(50_000)
        for i in range(spent.size):
            start = time.perf_counter_ns()
            value = noise.apply(0)
            spent[i], sizes[i] = time.perf_counter_ns() - start, abs(value)
        ranks = [np.argsort(np.argsort(each)) for each in (spent, sizes)]
        print(f"one {noise!r}: rank correlation of time and size {np.corrcoef(*ranks)[0, 1]:+.3f}")


def new_scales() -> None:
    for kind in ("laplace", "gaussian"):
        for size in ("10", "64"):
            spent = min(_build(kind, Fraction(size)) for _ in range(3))
            print(f"{f'a new table, {kind} {size}':<48}{spent * 1e3:>11.1f} ms (target 30)")


def _build(kind: str, size: Fraction) -> float:
    gaussian.build_guide_table.cache_clear()
    return cpu_seconds(lambda: gaussian.build_guide_table(kind, size), 1)


def auditing() -> None:
    for noise, claim in ((sf.Laplace(1), sf.Guarantee(1)), (sf.Gaussian(5), sf.Guarantee(1, "1e-6"))):
        spent = cpu_seconds(lambda n=noise, c=claim: sf.audit.falsify(n, c), 1)
        print(f"{f'audit.falsify({noise!r}), a million a side':<48}{spent:>11.2f} s  (target 3)")


if __name__ == "__main__":
    print(f"CPU per draw, vectors of {COUNT:,} and warm; numpy's noise is inexact and predictable")
    vectors()
    scalars()
    time_and_size()
    new_scales()
    auditing()
