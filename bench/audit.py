"""What audits take, and what they see: the bound that each tight mechanism reaches, as a share of its ε.

Run with: .venv/bin/python bench/audit.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from timing import cpu_seconds

import sfumato as sf

MILLION = 1_000_000
_rng = np.random.default_rng(20)


def speed() -> None:
    wide = ((0,) * 8, (1,) + (0,) * 7)
    for name, mechanism, claim, more, target in (
        ("Laplace, a million a side", sf.Laplace(1), sf.Guarantee(1), {}, 1.0),
        ("Gaussian, a million a side", sf.Gaussian(5), sf.Guarantee(1, "1e-6"), {}, 1.0),
        (
            "eight columns of Laplace, 100,000 a side",
            sf.Laplace(1),
            sf.Guarantee(1),
            {"samples": 100_000, "inputs": wide},
            None,
        ),
        (
            "quantiles, 20,000 a side",
            sf.Quantiles(["0.5"], 1, (0, 99)),
            sf.Guarantee(1),
            {"inputs": ([9], [9, 9])},
            None,
        ),
        (
            "exponential mechanism, 20,000 a side",
            sf.Exponential(1),
            sf.Guarantee(1),
            {"inputs": ([0, 0], [1, -1])},
            None,
        ),
    ):
        spent = cpu_seconds(
            lambda m=mechanism, c=claim, k=more: sf.audit.falsify(m, c, **k), 1 if "samples" in more else 2
        )
        print(f"{f'falsify: {name}':<58}{spent:>9.2f} s {'' if target is None else f'(target {target:g})'}")


def power() -> None:
    """The bound over ε at a million samples a side, confidence 0.99.

    Unary encoding tells apart by the event that the bit of one answer is set and that of the other is not. At ε = 0.1
    its probabilities are 0.262 and 0.238, where those of randomised response are 0.525 and 0.475: what is unknown of
    their ratio is √(1/p − 1) + √(1/q − 1) for so many samples, 1.8 times as much, and takes 3.3 times the samples.
    """
    kinds: tuple[tuple[str, Callable[[str], Any], tuple[Any, Any]], ...] = (
        ("Laplace", lambda e: sf.Laplace(1 / sf.Guarantee(e).epsilon), (0, 1)),
        ("randomised response", lambda e: sf.RandomizedResponse(e), (0, 1)),
        ("unary encoding, 5 answers", lambda e: sf.OptimizedUnaryEncoding(e, 5), (0, 1)),
        (
            "Laplace on three columns that move together",
            lambda e: sf.Laplace(3 / sf.Guarantee(e).epsilon),
            ((0,) * 3, (1,) * 3),
        ),
    )
    for name, make, inputs in kinds:
        for epsilon in ("0.1", "0.5", "1", "3"):
            samples = 4 * MILLION if "unary" in name and epsilon == "0.1" else MILLION
            verdict = sf.audit.falsify(make(epsilon), sf.Guarantee(epsilon), samples, inputs=inputs)
            share = verdict.lower_bound / float(epsilon)
            goal = "(target 0.9)" if inputs == (0, 1) else ""
            seen = f"would refute ε = {verdict.detectable:.4f}; {samples:,} a side"
            print(f"{f'power: {name}, ε = {epsilon}':<58}{share:>9.3f} {goal:<14} {seen}")


def classifiers() -> None:
    """What is seen of leaks that no column shows alone, at 100,000 samples a side."""

    def one_noise(x: int) -> Callable[[int], Any]:
        def run(n: int) -> Any:
            z = np.rint(_rng.laplace(scale=40, size=n))
            return np.stack([50 + 7 * z, 20 + x + z, np.rint(_rng.laplace(scale=4, size=n))], axis=1)

        return run

    def corner(x: int) -> Callable[[int], Any]:
        def run(n: int) -> Any:
            z = _rng.normal(size=(n, 3))
            z[(z > 0.7).all(axis=1)] *= -1 if x else 1
            return z

        return run

    for name, world in (("two sums with one noise", one_noise), ("a corner one world never reaches", corner)):
        verdict = sf.audit.falsify((world(0), world(1)), sf.Guarantee(1), 100_000)
        print(f"{f'joint law: {name}':<58}ε ≥ {verdict.lower_bound:.2f}  from {verdict.event}")


def exact_laws() -> None:
    for name, mechanism, inputs in (
        ("noisy max, 24 scores", sf.NoisyMax(1), ([0] * 24, [1] * 12 + [-1] * 12)),
        ("sparse vector, 12 questions, 2 positives", sf.AboveThreshold(1, 0, positives=2), ((0,) * 12, (1,) * 12)),
        ("three quantiles of 20 numbers", sf.Quantiles(["0.25", "0.5", "0.75"], 1, (0, 19)), ([3, 9], [3, 9, 9])),
    ):
        spent = cpu_seconds(lambda m=mechanism, i=inputs: sf.audit.enumerate(m, i), 1)
        print(f"{f'enumerate: {name}':<58}{spent:>9.2f} s")


def canaries() -> None:
    """One run of tight noise on canaries that have a cell each."""
    for count in (1_000, 10_000, 100_000):
        found = sf.audit.one_run(lambda present: sf.Laplace(1).apply(present.astype(np.int64)), sf.Guarantee(1), count)
        most = f"could have proven {found.detectable:.2f}"
        print(f"{f'one run: {count:,} canaries, ε = 1':<58}{found.lower_bound:>9.3f}   {most}")


if __name__ == "__main__":
    speed()
    power()
    classifiers()
    exact_laws()
    canaries()
