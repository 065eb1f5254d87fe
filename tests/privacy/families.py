"""Shared by the tests: noise families over curves, and strategies that draw curves."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hypothesis import strategies as st

import sfumato as sf


@dataclass(frozen=True)
class Laplace:
    scale: Fraction

    def curve(self, sensitivity: sf.Sensitivity | int = 1) -> sf.Curve:
        return sf.Curve.laplace(self.scale, sensitivity)


@dataclass(frozen=True)
class DiscreteLaplace:
    scale: Fraction

    def curve(self, sensitivity: sf.Sensitivity | int = 1) -> sf.Curve:
        return sf.Curve.discrete_laplace(self.scale, sensitivity)


@dataclass(frozen=True)
class Gaussian:
    sigma: Fraction

    def curve(self, sensitivity: sf.Sensitivity | int = 1) -> sf.Curve:
        return sf.Curve.gaussian(self.sigma, sensitivity)


@dataclass(frozen=True)
class DiscreteGaussian:
    sigma: Fraction

    def curve(self, sensitivity: sf.Sensitivity | int = 1) -> sf.Curve:
        return sf.Curve.discrete_gaussian(self.sigma, sensitivity)


def _decimals(low: float, high: float) -> st.SearchStrategy[str]:
    return st.floats(low, high).map(lambda x: f"{x:.4g}")


def distributions(size: int, *, zeros: bool = False) -> st.SearchStrategy[list[Fraction]]:
    weights = st.lists(st.integers(0 if zeros else 1, 20), min_size=size, max_size=size).filter(any)
    return weights.map(lambda w: [Fraction(x, sum(w)) for x in w])


add_remove = st.one_of(
    _decimals(0.5, 50).map(sf.Curve.laplace),
    st.builds(sf.Curve.discrete_laplace, _decimals(0.5, 50), st.integers(1, 5)),
    _decimals(0.5, 50).map(sf.Curve.gaussian),
    st.builds(sf.Curve.discrete_gaussian, _decimals(0.5, 50), st.integers(1, 3)),
    st.builds(lambda s: sf.Curve.discrete_gaussian(s, sf.Sensitivity(3, 2, 3)), _decimals(1, 50)),
    st.builds(lambda s: sf.Curve.discrete_gaussian(s, sf.Sensitivity(30, 90, 2000)), _decimals(400, 5000)),
    st.builds(lambda s: sf.Curve.laplace_threshold(s, 200, "1e-4", weight=3), _decimals(3, 20)),
    st.builds(lambda e: sf.KeyThreshold.gaussian(e, "1e-6", 3).curve(), st.sampled_from(["0.3", "1", "2"])),
    _decimals(0.01, 3).map(sf.Curve.bounded_range),
    _decimals(0.01, 3).map(sf.Curve.pure),
    _decimals(0.001, 0.5).map(sf.Curve.concentrated),
    _decimals(0.01, 2).map(sf.Curve.gdp),
    st.builds(sf.Curve.approximate, _decimals(0.01, 2), _decimals(1e-9, 1e-3)),
    st.builds(sf.Curve.pair, distributions(3), distributions(3)),
)
"""One curve of any kind, under add-remove neighbours."""

lists_of_curves = st.lists(st.tuples(add_remove, st.integers(1, 30)), min_size=1, max_size=4)
deltas = st.floats(2e-2, 0.5) | st.floats(-9, -2).map(lambda x: 10.0**x)
