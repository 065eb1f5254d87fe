"""Factorisations of the prefix-sum matrix L, through which running totals are released (the matrix mechanism).

Let t hold the totals of n days. Noise is added to B·t, where B is a matrix of whole numbers, and what is shown is
A·(B·t + noise) with A = L·B⁺, the unbiased estimate of least squares: A·B = L, so the noise of day i is a_i·noise, with
row i of A. Rows of a matrix that is sparse, or small, make little noise; columns of B say how far one row of the data
moves what is measured. This is the matrix mechanism (Li, Miklau, Hay, McGregor & Rastogi 2015).

- *optimised*: Gaussian noise of σ = max_j ‖B_j‖ has the variance ‖a_i‖²·max_j ‖B_j‖² on day i, which depends on
  X = BᵀB alone. The least worst day is a saddle point over X with ones on its diagonal and weights w of the days
  (Denisov, McMahan, Rush, Smith & Thakurta 2022, Thm 3.2, for the mean): for given w and multipliers v,
  X = V^{−½}(V^{½}·LᵀWL·V^{½})^{½}V^{−½}, V = diag(v); its diagonal is 1 where v is the diagonal of that root, and in
  the end the days with weight have equal errors. Both are iterated together.
- *square root*: the Toeplitz matrix of coefficients C(2k, k)/4^k, whose square is L (Fichtenberger, Henzinger &
  Upadhyay 2023), with columns scaled to one length, which costs nothing and makes the later days' noise smaller.
- *tree*: sums of blocks of 1, k, k², … days, each as often as the next (Dwork, Naor, Pitassi & Rothblum 2010; Chan, Shi
  & Song 2011). Least squares is Honaker's (2015) estimate from below and from above together, and by Gauss and Markov
  no other unbiased estimate from the same noisy blocks has less variance (so neither has that of Andersson, Pagh,
  Steiner & Torkamani 2024, which subtracts blocks).
- *each day*: B is the identity, and the noise of all days so far is added up.

Whatever B is meant to be, it is rounded to multiples of 2^{−bits} and held as whole numbers. What one unit changes is
derived from the rounded matrix in exact arithmetic, and A is that of the rounded matrix: rounding costs a little
accuracy, never privacy. A is computed in floating point from public numbers, and applied to what is noisy already.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from sfumato.array_types import Floats, Integers
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
from sfumato.privacy.numbers import exact_integer
from sfumato.quick_dataclass import dataclass

MAX_PERIODS = 2_000
"""Matrices of this size are factorised within a few seconds."""
MAX_OPTIMISED = 400
"""Longer series are within a twentieth of the optimum, and are not optimised: that would take minutes."""
_ITERATIONS = 30
"""Iterations of the optimisation, after which the worst day is within 0.5 % of the optimum."""
FORMS = ("optimised", "square root", "tree", "each day")


@codec.serialisable("factorisation")
@dataclass(frozen=True)
class Factorisation:
    """The integer matrix through which the totals of so many periods are measured."""

    form: str
    periods: int
    bits: int
    """The matrix is held in steps of 2^−bits."""
    branching: int = 0
    """For a tree: how many blocks make one of the next size."""

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise InvalidParameter("form", self.form, "one of " + ", ".join(map(repr, FORMS)))
        if exact_integer(self.periods, "periods", at_least=1) > MAX_PERIODS:
            raise InvalidParameter("periods", self.periods, f"at most {MAX_PERIODS:,}")
        if not 0 <= exact_integer(self.bits, "bits") <= 12:
            raise InvalidParameter("bits", self.bits, "between 0 and 12")
        if (self.form == "tree") is not (exact_integer(self.branching, "branching") > 1):
            rule = "a whole number ≥ 2 for the form 'tree'" if self.form == "tree" else f"0 for the form '{self.form}'"
            fix = f"set branching to {2 if self.form == 'tree' else 0}"
            raise InvalidParameter("branching", self.branching, rule, fix=fix)

    @cached_property
    def weights(self) -> Integers:
        """B in whole steps: one row per measured number, one column per period."""
        rounded_matrix = np.round(_unrounded_factor(self.form, self.periods, self.branching) * 2**self.bits).astype(
            np.int64
        )
        rounded_matrix.setflags(write=False)
        return rounded_matrix

    @property
    def decoder(self) -> Floats:
        """A = L·B⁺, which turns the measurements, in steps, into running totals."""
        return _cached_decoder(self)

    @cached_property
    def decoder_row_norms(self) -> Floats:
        """The L2 norm of each row of A: the noise of each running total, in units of one measurement's noise."""
        return np.sqrt((self.decoder**2).sum(axis=1))

    def words(self) -> str:
        """Describe the factorisation in words."""
        return {
            "optimised": f"the optimal factorisation for {self.periods:,} periods",
            "square root": "the square-root factorisation",
            "tree": f"a tree of blocks, each split into {self.branching}, decoded by least squares",
            "each day": "each period by itself",
        }[self.form]


@lru_cache(maxsize=16)
def _cached_decoder(factorisation: Factorisation) -> Floats:
    """Return A, computed once for all equal factorisations, also those that are read back."""
    if factorisation.form == "each day":
        return _prefix_sum_matrix(factorisation.periods) / 2**factorisation.bits
    weights = factorisation.weights.astype(np.float64)
    return np.linalg.solve(weights.T @ weights, _prefix_sum_matrix(factorisation.periods).T).T @ weights.T


@lru_cache(maxsize=16)
def candidate_factorisations(periods: int, order: int, bits: int) -> tuple[Factorisation, ...]:
    """List the factorisations worth comparing, for noise that grows with the L1 norm (order 1) or the L2 norm (2)."""
    identity = Factorisation("each day", periods, bits)
    if periods == 1:
        return (identity,)
    if order == 2:
        form = "optimised" if periods <= MAX_OPTIMISED else "square root"
        return Factorisation(form, periods, bits), identity
    return *(Factorisation("tree", periods, bits, branching) for branching in _branchings_to_compare(periods)), identity


def _branchings_to_compare(periods: int) -> list[int]:
    """Return the least branching for each number of levels (a larger one would only enlarge the blocks); for long
    series that of four levels alone, which is best or within 3 % of it.
    """
    levels = range(2, max(3, periods.bit_length() + 1)) if periods <= MAX_OPTIMISED else range(4, 5)
    branchings = {next(k for k in range(2, periods + 2) if k**level >= periods) for level in levels}
    return sorted(branching for branching in branchings if branching < periods)


@lru_cache(maxsize=32)
def _unrounded_factor(form: str, periods: int, branching: int) -> Floats:
    """Return B before it is rounded, with columns of length 1 (for a tree: with ones)."""
    if form == "each day":
        return np.eye(periods)
    if form == "tree":
        return _tree_matrix(periods, branching)
    square_root = _square_root_matrix(periods)
    return (
        square_root if form == "square root" else _reverse_cholesky_factor(_optimised_gram(square_root.T @ square_root))
    )


def _prefix_sum_matrix(periods: int) -> Floats:
    return np.tril(np.ones((periods, periods)))


def _tree_matrix(periods: int, branching: int) -> Floats:
    """Return a row for each block that holds more than one period and not all of them, and for each period."""
    sizes = [1]
    while sizes[-1] * branching < periods:
        sizes.append(sizes[-1] * branching)
    days = np.arange(periods)
    blocks = [(days // size)[None, :] == np.arange(-(-periods // size))[:, None] for size in sizes]
    return np.vstack(blocks).astype(np.float64)


def _square_root_matrix(periods: int) -> Floats:
    steps = np.arange(1, periods)
    coefficients = np.concatenate([[1.0], np.cumprod((2 * steps - 1) / (2 * steps))])
    lag = np.subtract.outer(np.arange(periods), np.arange(periods))
    toeplitz = np.where(lag >= 0, coefficients[np.maximum(lag, 0)], 0.0)
    return toeplitz / np.sqrt((toeplitz**2).sum(axis=0))


def _optimised_gram(gram: Floats) -> Floats:
    """Return the X with ones on its diagonal whose worst day errs least, starting from a good one."""
    sums = _prefix_sum_matrix(len(gram))
    day_weights = np.ones(len(gram))
    multipliers, best, best_error = np.diag(gram).copy() * len(gram), gram, math.inf
    for _ in range(_ITERATIONS):
        errors = np.einsum("ij,ji->i", sums, np.linalg.solve(gram, sums.T)) * np.diag(gram).max()
        if errors.max() < best_error:
            best, best_error = gram, float(errors.max())
        day_weights *= errors / errors.max()
        scale = np.sqrt(multipliers)
        values, vectors = np.linalg.eigh(scale[:, None] * (sums.T @ (day_weights[:, None] * sums)) * scale)
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        multipliers = np.diag(root).copy()
        gram = root / np.outer(scale, scale)
        gram /= np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
    return best


def _reverse_cholesky_factor(gram: Floats) -> Floats:
    """Return the lower triangular B with BᵀB = X."""
    factor: Floats = np.ascontiguousarray(np.linalg.cholesky(gram[::-1, ::-1]).T[::-1, ::-1], np.float64)
    return factor
