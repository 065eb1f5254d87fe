"""The noise of noisy numbers as linear forms over independent noises, and the half-widths of such forms.

Every number that is computed linearly from noisy results has the noise A·η: η holds the independent noises of the
release, and a row of the sparse matrix A the weights of one number. Numbers that share noises share columns of A. So
the half-width of ``n - LAG(n)`` or of a rolling sum follows from the law of its own sum of noises
(``mechanisms.noise_sums``), not from adding half-widths; a noise that cancels is not in it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats, Indices
from sfumato.caching import cached_property
from sfumato.mechanisms import noise_sums
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.aggregates.measures import GroupEstimate
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass

MAX_WEIGHTS = 8_000_000
"""The most weights of a form: a running total over n rows has n²/2 of them."""
_MAX_CELLS = 1_000_000
_MANY_LENGTHS = 64
"""Sums of more terms than this are rounded up to one of 32 lengths in each doubling."""


@dataclass(frozen=True, eq=False)
class NoiseForm:
    """A sparse matrix of weights, row by row: one row for each number, one column for each independent noise."""

    starts: Indices
    """The index of each row's first weight, and the number of all."""
    noises: Indices
    weights: Floats
    common_weight: float | None = None
    """The weight of every row's only noise, where all rows have one noise each and are known to share the weight."""

    @classmethod
    def zero(cls, count: int) -> NoiseForm:
        """Return the form of exact numbers."""
        return cls(np.zeros(count + 1, np.intp), np.zeros(0, np.intp), np.zeros(0))

    @classmethod
    def single_noise_form(cls, noises: Indices, weight: float = 1.0) -> NoiseForm:
        """Return the form of numbers with one noise each, all of one weight, which is not 0."""
        return cls(np.arange(len(noises) + 1), noises, np.full(len(noises), weight), weight)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def noise_counts(self) -> Indices:
        """The number of noises behind each number."""
        return np.diff(self.starts)

    @property
    def row_of_weight(self) -> Indices:
        """The row of each weight."""
        return np.repeat(np.arange(len(self)), self.noise_counts)

    def take(self, rows: Indices) -> NoiseForm:
        """Return these rows; −1 is a row without noise."""
        is_row = rows >= 0
        safe = np.where(is_row, rows, 0)
        ends = np.where(is_row, self.starts[1:][safe], 0) if len(self) else np.zeros(len(rows), np.intp)
        begins = np.where(is_row, self.starts[:-1][safe], 0) if len(self) else ends
        return self._take_entries(begins, ends)

    def sum_over_ranges(self, first: Indices, end: Indices) -> NoiseForm | None:
        """Return the sum of the rows from ``first`` up to ``end``, for each pair; None where that is too large."""
        begins, ends = self.starts[first], self.starts[np.maximum(first, end)]
        if int((ends - begins).sum()) > MAX_WEIGHTS:
            return None
        entries = self._take_entries(begins, ends)
        return _sum_duplicate_weights(entries.row_of_weight, entries.noises, entries.weights, len(first))

    def _take_entries(self, begins: Indices, ends: Indices) -> NoiseForm:
        lengths = ends - begins
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)
        index = np.arange(starts[-1]) + np.repeat(begins - starts[:-1], lengths)
        return NoiseForm(starts, self.noises[index], self.weights[index])

    def scaled(self, factors: Floats) -> NoiseForm:
        """Multiply each row by a number."""
        return NoiseForm(self.starts, self.noises, self.weights * np.repeat(factors, self.noise_counts))

    def plus(self, other: NoiseForm) -> NoiseForm:
        """Add another form, row by row: noises that both have are added up, or cancel."""
        return _sum_duplicate_weights(
            np.concatenate([self.row_of_weight, other.row_of_weight]),
            np.concatenate([self.noises, other.noises]),
            np.concatenate([self.weights, other.weights]),
            len(self),
        )

    def sum_by_group(self, codes: Indices, count: int) -> NoiseForm:
        """Add up the rows of each group; a row of group −1 is in none."""
        row_codes = codes[self.row_of_weight]
        in_group = row_codes >= 0
        return _sum_duplicate_weights(row_codes[in_group], self.noises[in_group], self.weights[in_group], count)


def _sum_duplicate_weights(rows: Indices, noises: Indices, weights: Floats, count: int) -> NoiseForm:
    """Build a form from weights in any order: those of one row and noise are added up."""
    order = np.lexsort((noises, rows))
    rows, noises, weights = rows[order], noises[order], weights[order]
    if len(rows):
        is_first = np.concatenate([[True], (rows[1:] != rows[:-1]) | (noises[1:] != noises[:-1])])
        if not is_first.all():
            first = np.flatnonzero(is_first)
            rows, noises, weights = rows[first], noises[first], np.add.reduceat(weights, first)
        nonzero = weights != 0
        rows, noises, weights = rows[nonzero], noises[nonzero], weights[nonzero]
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.intp)
    return NoiseForm(starts, noises, weights)


def stack_forms(forms: list[NoiseForm]) -> NoiseForm:
    """Return the rows of several forms, one form after the other."""
    offsets = np.cumsum([0, *(len(form.weights) for form in forms[:-1])])
    starts = [form.starts[:-1] + offset for form, offset in zip(forms, offsets, strict=True)]
    return NoiseForm(
        np.concatenate([*starts, [sum(len(form.weights) for form in forms)]]).astype(np.intp),
        np.concatenate([form.noises for form in forms]),
        np.concatenate([form.weights for form in forms]),
    )


class AdditiveNoise(Protocol):
    """The size of additive noise, and the half-widths of one noise and of a sum of several."""

    @property
    def unit_value(self) -> Fraction: ...

    @property
    def rounding(self) -> Fraction: ...

    @property
    def mechanism(self) -> Additive: ...

    def width(self, confidence: Number, parts: int) -> float: ...

    def sum_width(self, terms: int, confidence: Number, parts: int) -> float: ...


@dataclass(frozen=True)
class IndependentNoises:
    """The independent noises of a release: for each block, one noise of its scale for each of its groups."""

    blocks: tuple[tuple[AdditiveNoise | None, int], ...]
    """The noise of each block and the number of its noises, which are numbered block by block; None where values were
    selected, which no form reads.
    """
    confidence: Fraction

    def widths(self, form: NoiseForm, statements: int) -> Floats:
        """Return the half-width of every row, such that ``statements`` of them hold at once.

        Of n statements k are about single noises, which all hold but with probability 1 − (1 − β)^{k/n}, and the others
        about sums of noises, each of which fails with probability at most β(1 − β)/n (``measured``).
        """
        rows = len(form)
        if form.common_weight is not None and rows:
            block = self._block_of(int(form.noises[0] if rows == 1 else form.noises.min()))
            if rows == 1 or block == self._block_of(int(form.noises.max())):
                width_of = self._cached_width if len(self.blocks) > 1 else self._sum_width
                return np.full(rows, abs(form.common_weight) * width_of(block, 1, statements))
        return self._widths_of_rows(form, statements)

    def _widths_of_rows(self, form: NoiseForm, statements: int) -> Floats:
        """Return the half-width of every row, which may have any number of noises."""
        widths = np.zeros(len(form))
        noisy_rows = np.flatnonzero(form.noise_counts)
        if not len(noisy_rows):
            return widths
        first = form.starts[:-1][noisy_rows]
        blocks, weights = self._blocks_of(form.noises), np.abs(form.weights)
        is_equal = np.maximum.reduceat(weights, first) == np.minimum.reduceat(weights, first)
        laws = self._first_block_of_equal_noise[blocks]
        is_equal &= np.maximum.reduceat(laws, first) == np.minimum.reduceat(laws, first)
        lengths = form.noise_counts[noisy_rows]
        equal = noisy_rows[is_equal]
        widths[equal] = weights[first[is_equal]] * self._equal_noise_widths(
            blocks[first[is_equal]], lengths[is_equal], statements
        )
        for rows in _chunk_rows_by_length(form.noise_counts, noisy_rows[~is_equal]):
            mixed = form.take(rows)
            widths[rows] = self._mixed_widths(mixed, self._blocks_of(mixed.noises), statements)
        return widths

    @cached_property
    def _block_ends(self) -> list[int]:
        """The number of noises up to the end of each block."""
        return list(accumulate(count for _, count in self.blocks))

    def _block_of(self, noise: int) -> int:
        return bisect_right(self._block_ends, noise)  # one noise: faster than an array of one

    def _blocks_of(self, noises: Indices) -> Indices:
        return np.searchsorted(self._block_ends, noises, side="right")

    @cached_property
    def _first_block_of_equal_noise(self) -> Indices:
        """For each block, the index of the first one whose noise has the same law."""
        noises = {id(noise): noise for noise, _ in self.blocks}  # few objects, which take long to hash and compare
        first_index: dict[AdditiveNoise | None, int] = {}
        law_by_id = {object_id: first_index.setdefault(noise, len(first_index)) for object_id, noise in noises.items()}
        first_blocks: dict[int, int] = {}
        laws = [first_blocks.setdefault(law_by_id[id(noise)], index) for index, (noise, _) in enumerate(self.blocks)]
        return np.array(laws, np.intp)

    def _equal_noise_widths(self, blocks: Indices, lengths: Indices, statements: int) -> Floats:
        """Return the half-widths of sums of so many noises of one law each."""
        # a pair as one integer: columns of an array are compared much more slowly
        codes = _round_up_lengths(lengths) * len(self.blocks) + blocks
        if len(codes) and (codes == codes[0]).all():  # most columns: the groups of one measure
            length, block = divmod(int(codes[0]), len(self.blocks))
            return np.full(len(codes), self._cached_width(block, length, statements))
        pairs, pair_index = np.unique(codes, return_inverse=True)
        split_pairs = (divmod(int(pair), len(self.blocks)) for pair in pairs)
        half_widths = [self._cached_width(block, length, statements) for length, block in split_pairs]
        return np.array(half_widths, np.float64)[pair_index]

    def _cached_width(self, block: int, terms: int, statements: int) -> float:
        """Return the half-width of a sum of noises of one law, computed once for all blocks of that law."""
        law = int(self._first_block_of_equal_noise[block]), terms, statements
        width = self._cached_widths.get(law)
        return self._cached_widths.setdefault(law, self._sum_width(*law)) if width is None else width

    @cached_property
    def _cached_widths(self) -> dict[tuple[int, int, int], float]:
        """By the first block of a law, the number of noises in a sum, and the number of statements."""
        return {}

    def _sum_width(self, block: int, terms: int, statements: int) -> float:
        scale = self.blocks[block][0]
        assert scale is not None
        if terms == 1:
            return scale.width(self.confidence, statements)
        return scale.sum_width(terms, 1 - self._sum_miss_probability(statements), statements)

    def _sum_miss_probability(self, statements: int) -> Fraction:
        miss = 1 - self.confidence
        return miss if statements == 1 else miss * (1 - miss)

    def _mixed_widths(self, form: NoiseForm, blocks: Indices, statements: int) -> Floats:
        """Return the half-widths of rows with different weights or sizes of noise."""
        steps, sizes, orders, roundings = (
            np.array(column)
            for column in zip(*(_step_size_order_and_rounding(scale) for scale, _ in self.blocks), strict=True)
        )
        weights = np.abs(form.weights)
        padded = _PaddedForms.from_form(form, weights * steps[blocks], sizes[blocks], orders[blocks])
        miss = float(self._sum_miss_probability(statements)) / statements * (1 - 1e-12)
        rounding = np.bincount(form.row_of_weight, weights=weights * roundings[blocks], minlength=len(form))
        return padded.widths(miss) + rounding


def _step_size_order_and_rounding(scale: AdditiveNoise | None) -> tuple[float, float, int, float]:
    """Return the value of a step, the size of the noise in steps, its order, and the rounding before noise."""
    if scale is None:
        return 0.0, 1.0, 1, 0.0
    mechanism = scale.mechanism
    step = float(scale.unit_value * (mechanism.grid or Fraction(1)))
    return step, float(max(mechanism.sizes)), mechanism.order, float(scale.rounding)


def _round_up_lengths(lengths: Indices) -> Indices:
    """Round long sums up to few different lengths: a longer sum of noises is at least as wide."""
    if len(lengths) <= _MANY_LENGTHS or len(np.unique(lengths)) <= _MANY_LENGTHS:
        return lengths
    step = 2.0 ** np.maximum(np.floor(np.log2(np.maximum(lengths, 1))) - 5, 0)
    return np.asarray(np.ceil(lengths / step) * step, np.intp)


def _chunk_rows_by_length(lengths: Indices, rows: Indices) -> Iterator[Indices]:
    """Split rows, ordered by their lengths, into parts whose padded matrices are of moderate size."""
    rows = rows[np.argsort(lengths[rows], kind="stable")]
    while len(rows):
        padded_cells = np.arange(1, len(rows) + 1) * lengths[rows]
        end = max(1, int(np.searchsorted(padded_cells, _MAX_CELLS, side="right")))
        yield rows[:end]
        rows = rows[end:]


@dataclass(frozen=True, eq=False)
class _PaddedForms:
    """The weights and sizes of rows of equal width, filled up with zeros; each different row is computed once."""

    weights: Floats
    sizes: Floats
    is_laplace: NDArray[np.bool_]
    row_index: Indices
    """The row of the matrices for each row of the form."""

    @classmethod
    def from_form(cls, form: NoiseForm, weights: Floats, sizes: Floats, orders: Indices) -> _PaddedForms:
        order = np.lexsort((weights, sizes, orders, form.row_of_weight))
        width = int(form.noise_counts.max())
        column = np.arange(len(weights)) - np.repeat(form.starts[:-1], form.noise_counts)
        cells = np.zeros((3, len(form), width))
        cells[:, form.row_of_weight, column] = weights[order], sizes[order], orders[order]
        flat = np.concatenate(list(cells), axis=1)
        one_row = flat, np.zeros(len(flat), np.intp)
        distinct, row_index = one_row if len(flat) == 1 else np.unique(flat, axis=0, return_inverse=True)
        weight_rows, size_rows, order_rows = np.split(distinct, 3, axis=1)
        return cls(weight_rows, size_rows, order_rows == 1, row_index.reshape(-1))

    def widths(self, miss_probability: float) -> Floats:
        """Return the half-width of each row of the form: where noises of two kinds meet, each has half of the miss."""
        is_gaussian = ~self.is_laplace & (self.weights > 0)
        both = self.is_laplace.any(axis=1) & is_gaussian.any(axis=1)
        widths = np.zeros(len(self.weights))
        for share, rows in ((0.5, both), (1.0, ~both)):
            for laws, kind in (
                (noise_sums.mixed_laplace_widths, self.is_laplace),
                (noise_sums.mixed_gaussian_widths, is_gaussian),
            ):
                matching_rows = np.flatnonzero(rows & kind.any(axis=1))
                if len(matching_rows):
                    chosen = np.where(kind[matching_rows], self.weights[matching_rows], 0)
                    largest_size = float(self.sizes[matching_rows].max())
                    sizes = np.where(kind[matching_rows], self.sizes[matching_rows], max(largest_size, 1.0))
                    widths[matching_rows] += laws(chosen, sizes, miss_probability * share)
        return widths[self.row_index]


@dataclass(frozen=True, kw_only=True)
class LinearEstimate(GroupEstimate):
    """An estimate that is a linear combination of noisy totals."""

    centre: Floats
    """The numbers before they are rounded to integers."""
    widths: Floats
    """The half-widths around them."""
    form: NoiseForm
    noises: IndependentNoises
