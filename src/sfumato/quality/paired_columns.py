"""Columns of two tables become numbers and cells, by values and quantiles of the real table. PRIVATE.

A column of few values has a cell for each; a number or a time of many is cut at quantiles of the real table; of many
texts the most frequent have cells, and the others share one. What only the synthetic table has, and what is missing,
have cells of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engine.opening import PairedTables
from sfumato.policy import Type
from sfumato.privacy.numbers import shown
from sfumato.untrusted import printable

if TYPE_CHECKING:
    import pyarrow

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_TEXTS = 100
"""So many texts of a column have cells of their own."""
MISSING, UNKNOWN, OTHERS = "missing", "not in the real table", "other values"


@dataclass(frozen=True, eq=False)
class PairedColumn:
    """This is a column of both tables: the cell of each row, and for numbers and times the number itself."""

    name: str
    kind: Type
    labels: tuple[str, ...]
    """Of the cells, in order."""
    codes: tuple[Codes, Codes]
    """Of the rows of the real table, and of the synthetic one."""
    numbers: tuple[Floats, Floats] | None = None
    """NaN where it is missing; None for texts and truths."""

    @property
    def size(self) -> int:
        return len(self.labels)

    def counts(self, table: int) -> Codes:
        """Count the rows of each cell, of the real table (0) or the synthetic one (1)."""
        return np.bincount(self.codes[table], minlength=self.size)


def paired_columns(tables: PairedTables, bins: int) -> tuple[PairedColumn, ...]:
    """Give the numbers and cells of every column that both tables have."""
    made = []
    for place, (name, kind) in enumerate(tables.kinds.items()):
        real, synthetic = (each.column(place) for each in tables.tables)
        if kind in (Type.TEXT, Type.BOOLEAN):
            made.append(_of_texts(name, kind, real, synthetic))
        else:
            made.append(_of_numbers(name, kind, (_numbers(real, kind), _numbers(synthetic, kind)), bins))
    return tuple(made)


def _numbers(column: pyarrow.ChunkedArray, kind: Type) -> Floats:
    """Give numbers as doubles, dates as days and times as microseconds from 1970 on; NaN for what is missing."""
    import pyarrow as pa

    stored = {Type.DATE: pa.int32(), Type.TIMESTAMP: pa.int64()}.get(kind)
    if kind is Type.TIMESTAMP:
        column = column.cast(pa.timestamp("us"))
    plain = column if stored is None else column.cast(stored)
    found: Floats = plain.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64)
    return found


def _of_numbers(name: str, kind: Type, numbers: tuple[Floats, Floats], bins: int) -> PairedColumn:
    present = numbers[0][~np.isnan(numbers[0])]
    distinct = np.unique(present)
    if len(distinct) <= bins:
        labels = [_written(each, kind) for each in distinct]
        parts = [_among(each, distinct) for each in numbers]
    else:
        edges, alone = cut(present, bins)
        labels = [_between(low, high, alone, kind) for low, high in pairwise([-np.inf, *edges.tolist(), np.inf])]
        parts = [np.searchsorted(edges, each, side="right") for each in numbers]
    missing = [np.isnan(each) for each in numbers]
    return _finished(name, kind, labels, parts, missing, numbers)


def cut(numbers: Floats, bins: int) -> tuple[Floats, Floats]:
    """Give the edges of about so many cells, and the values that are cells by themselves: those which alone have as
    many rows as a cell would have. The others are cut at their quantiles.

    >>> edges, alone = cut(np.array([0.0] * 80 + list(range(1, 21))), 3)
    >>> edges.round(9).tolist(), alone.tolist()
    ([0.0, 0.0, 10.0], [0.0])
    """
    values, counts = np.unique(numbers, return_counts=True)
    alone = values[counts * bins >= len(numbers)]
    rest = numbers[~np.isin(numbers, alone)]
    shares = np.linspace(0, 1, max(2, bins - len(alone)) + 1)[1:-1]
    inner = np.quantile(rest, shares, method="inverted_cdf") if len(rest) else np.zeros(0)
    return np.unique(np.concatenate([alone, np.nextafter(alone, np.inf), inner])), alone


def _between(low: float, high: float, alone: Floats, kind: Type) -> str:
    """Say in words which values lie from one edge to below the next."""
    if low in alone:
        return _written(low, kind)
    before = float(np.nextafter(low, -np.inf))
    start = f"above {_written(before, kind)}" if before in alone else f"from {_written(low, kind)}"
    parts = [start] * bool(np.isfinite(low)) + [f"below {_written(high, kind)}"] * bool(np.isfinite(high))
    return " to ".join(parts)


def _among(numbers: Floats, distinct: Floats) -> Codes:
    """Find the place of each number among some; one past the last for those that are not there."""
    if not len(distinct):
        return np.zeros(len(numbers), np.int64)
    place = np.minimum(np.searchsorted(distinct, numbers), len(distinct) - 1)
    return np.where(distinct[place] == numbers, place, len(distinct))


def _of_texts(name: str, kind: Type, real: pyarrow.ChunkedArray, synthetic: pyarrow.ChunkedArray) -> PairedColumn:
    import pyarrow as pa

    both = pa.chunked_array([*real.chunks, *synthetic.chunks], real.type).combine_chunks().dictionary_encode()
    texts = np.array([str(each) for each in both.dictionary.to_pylist()], object)
    places = both.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.int64)
    own, theirs = places[: len(real)], places[len(real) :]
    counts = np.bincount(own, minlength=len(texts) + 1)[: len(texts)]
    seen = np.flatnonzero(counts)
    kept = seen[np.argsort(-counts[seen], kind="stable")[:MOST_TEXTS]] if len(seen) > MOST_TEXTS else seen
    kept = kept[np.argsort(texts[kept].astype(str))]
    code = np.full(len(texts) + 1, len(kept) + (len(seen) > len(kept)), np.int64)  # what only the synthetic one has
    code[seen] = len(kept)
    code[kept] = np.arange(len(kept))
    labels = [printable(each) for each in texts[kept]] + [OTHERS] * (len(seen) > len(kept))
    missing = [each == len(texts) for each in (own, theirs)]
    return _finished(name, kind, labels, [code[own], code[theirs]], missing, None)


def _finished(
    name: str, kind: Type, labels: list[str], parts: list[Any], missing: list[Any], numbers: Any
) -> PairedColumn:
    """Add the cells of what the real table has not, and of what is missing, where there are such rows."""
    known = len(labels)
    if any(((part == known) & ~gone).any() for part, gone in zip(parts, missing, strict=True)):
        labels = [*labels, UNKNOWN]
    if any(gone.any() for gone in missing):
        parts = [np.where(gone, len(labels), part) for part, gone in zip(parts, missing, strict=True)]
        labels = [*labels, MISSING]
    codes = tuple(np.asarray(part, np.int64) for part in parts)
    return PairedColumn(printable(name), kind, tuple(labels), (codes[0], codes[1]), numbers)


def _written(number: float, kind: Type) -> str:
    if not np.isfinite(number):
        return ""
    if kind is Type.DATE:
        return str(np.datetime64(int(number), "D"))
    if kind is Type.TIMESTAMP:
        return str(np.datetime64(int(number), "us").astype("datetime64[s]")).replace("T", " ").removesuffix(" 00:00:00")
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else shown(number)
