"""A registry notices a wrong number, a vector of another function, and a formula without vectors."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sfumato.publish.marginals.estimating import adaptive_half_width, gaussian_half_width
from vectors import registry
from vectors.registry import Registry, Scope, between, check, exact

_NAME = "publish.marginals.estimating.adaptive_half_width"


def test_a_formula_is_compared_to_the_last_digit() -> None:
    good = adaptive_half_width([(1, 10)], 0.05, 4)
    assert check(_NAME, [exact(good, adaptive_half_width, [(1, 10)], 0.05, 4)]) == 1
    with pytest.raises(AssertionError, match="not within"):
        check(_NAME, [exact(good * (1 + 1e-11), adaptive_half_width, [(1, 10)], 0.05, 4)])
    with pytest.raises(AssertionError, match="not within"):
        check(_NAME, [between(good * 1.1, good * 1.2, adaptive_half_width, [(1, 10)], 0.05, 4)])
    with pytest.raises(AssertionError, match="1 numbers, not 2"):
        check(_NAME, [exact((good, good), adaptive_half_width, [(1, 10)], 0.05, 4)])


def test_a_vector_of_another_function_does_not_count() -> None:
    with pytest.raises(AssertionError, match="does not run"):
        check(_NAME, [exact(gaussian_half_width(1, 0.05), gaussian_half_width, 1, 0.05)])


def test_numbers_are_listed_out_of_whatever_holds_them() -> None:
    held = {"b": (1, np.array([[2.0, 3.0]])), "a": [None, Fraction(1, 3)]}
    assert registry.flat(held) == (None, Fraction(1, 3), 1, 2.0, 3.0)


def test_a_formula_without_vectors_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "class Noise:\n  def width(self, beta):\n    def share(k):\n      return beta / k\n    return share(2)\n"
    (tmp_path / "noises.py").write_text(source + "def charge(rho):\n    return 2 * rho\n")
    monkeypatch.setattr(registry, "SOURCES", tmp_path)
    scope = Scope(("noises.py",), frozenset({"share", "charge"}), frozenset({"beta"}))
    assert set(scope.formulas()) == {"noises.Noise.width.share", "noises.charge"}
    _, complete = Registry((scope,), {"noises.charge": "it is money already"}).tests()
    with pytest.raises(AssertionError, match=r"without vectors: noises\.Noise\.width\.share"):
        complete()
    _, complete = Registry((scope,), {"noises.gone": "it is there no more"}).tests()
    with pytest.raises(AssertionError, match="without vectors"):
        complete()
    both = {"noises.Noise.width.share": "none of any interest", "noises.charge": "it is money already"}
    Registry((scope,), both).tests()[1]()
    with pytest.raises(AssertionError, match=r"exempt for nothing: noises\.gone"):
        Registry((scope,), both | {"noises.gone": "it is there no more"}).tests()[1]()


def test_a_formula_with_two_vectors_has_too_few() -> None:
    good = adaptive_half_width([(1, 10)], 0.05, 4)
    own = Registry((), {})
    own.formula(_NAME)(lambda: [exact(good, adaptive_half_width, [(1, 10)], 0.05, 4)] * 2)
    with pytest.raises(AssertionError, match="has 2 vectors, not 3"):
        own.tests()[0](_NAME)
