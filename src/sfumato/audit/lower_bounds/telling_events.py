"""Two worlds are told apart by events: sets of outputs that one of them gives more often than the other.

A *view* gives every output a label, and an event is a set of labels. Views look at each column, at differences and sums
of two columns, at the whole row and at the last bit that a float uses; which labels tell most is found on samples that
are never used again. No choice made here can make an audit wrong: an event is fixed before it is measured, and a poor
one only proves less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Outputs = NDArray[Any]
Labels = NDArray[np.int64]
Column = Callable[[Outputs], NDArray[Any]]

BINS = 512
_MOST_PAIRS = 240
"""All pairs of 16 columns; of more columns, those that differ most between the worlds."""
_LOWEST_BIT, _BITS = 1100, 2200
_LARGEST_DRAWN = 1e300
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class View:
    """A view gives every output one of ``size`` labels."""

    name: str
    label: Callable[[Outputs], Labels]
    size: int
    edges: tuple[float, ...] = ()
    """Where labels are cut along a line of numbers, for a picture of them; empty where labels have no order."""

    def counts(self, outputs: Outputs) -> NDArray[np.int64]:
        """Count the outputs that have each label."""
        return np.bincount(self.label(outputs), minlength=self.size)


@dataclass(frozen=True)
class Event:
    """An event is a set of labels of one view that the first world has more often, or the second where ``swapped``."""

    name: str
    view: View
    chosen: NDArray[np.bool_]
    swapped: bool

    def count(self, counts: NDArray[np.int64]) -> int:
        """Count the outputs inside, of those counted by label."""
        return int(counts[self.chosen].sum())


def candidates(views: Iterable[View], first: Outputs, second: Outputs, delta: float) -> Iterator[Event]:
    """Find, for each view and each direction, the most telling ray and the most telling set of labels."""
    for view in views:
        p, q = view.counts(first), view.counts(second)
        rising = np.arange(view.size)
        for swapped, (a, b) in ((False, (p, q)), (True, (q, p))):
            rays = [_best_start(a, b, order, delta) for order in (rising, rising[::-1])]
            yield Event(f"a ray of {view.name}", view, max(rays, key=lambda ray: ray[0])[1], swapped)
            by_ratio = np.argsort(-(a + 0.5) / (b + 0.5), kind="stable")
            yield Event(f"a set of {view.name}", view, _best_start(a, b, by_ratio, delta)[1], swapped)


def best(events: Sequence[Event], first: Outputs, second: Outputs, delta: float, most: int) -> list[Event]:
    """Keep those events that tell most, on samples that they were not found on: fewer share the chance of a mistake."""
    if len(events) <= most:
        return list(events)
    found: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
    scores = []
    for event in events:
        p, q = found.setdefault(id(event.view), (np.empty(0, np.int64),) * 2)
        if not p.size:
            p, q = found[id(event.view)] = event.view.counts(first), event.view.counts(second)
        a, b = (event.count(q), event.count(p)) if event.swapped else (event.count(p), event.count(q))
        scores.append(float(_rough(np.array([a]), np.array([b]), len(first), delta)[0]))
    order = sorted(range(len(events)), key=lambda place: -scores[place])
    return [events[place] for place in order[:most]]


def _best_start(
    p: NDArray[np.int64], q: NDArray[np.int64], order: NDArray[np.intp], delta: float
) -> tuple[float, NDArray[np.bool_]]:
    """Take the first labels in this order, as many as make a rough lower bound of ε largest, and give that bound."""
    score = _rough(np.cumsum(p[order]), np.cumsum(q[order]), int(p.sum()), delta)
    most = int(np.argmax(score))
    chosen = np.zeros(len(p), bool)
    chosen[order[: most + 1]] = True
    return float(score[most]), chosen


def _rough(a: NDArray[np.int64], b: NDArray[np.int64], total: int, delta: float) -> NDArray[np.float64]:
    """Estimate the ε that so many of the samples of each world prove, three deviations off."""
    sure_p = (a - 3.0 * np.sqrt(a * (1 - a / total) + 1)) / total - delta
    sure_q = (b + 3.0 * np.sqrt(b * (1 - b / total) + 1) + 5) / total
    return np.where(sure_p > 0, np.log(np.maximum(sure_p, 1e-300) / sure_q), -np.inf)


# ── views ──────────────────────────────────────────────────────────────────────────────────────


def plain_views(first: Outputs, second: Outputs) -> Iterator[View]:
    """List ways to see an output without training: columns, pairs of columns, the whole row, and last bits."""
    columns = first.shape[1]
    for i in range(columns):
        name = f"column {i}" if columns > 1 else "the value"
        yield by_value(name, partial(one_column, i), first, second)
        if first.dtype.kind == "f":
            ending = f" in column {i}" if columns > 1 else ""
            yield View(f"the last bit a float uses{ending}", partial(_last_bit, i), _BITS)
    if columns > 1:
        yield whole_row(first, second)
        for name, column in telling_pairs(first, second, _MOST_PAIRS):
            yield by_value(name, column, first, second)


def one_column(i: int, outputs: Outputs) -> NDArray[Any]:
    """Give one column of all outputs."""
    return outputs[:, i]


def _combined(i: int, j: int, sign: int, outputs: Outputs) -> NDArray[Any]:
    """Add two columns, or subtract; what no number can hold is a label like any other."""
    with np.errstate(all="ignore"):
        return outputs[:, j] + outputs[:, i] if sign > 0 else outputs[:, j] - outputs[:, i]


def telling_pairs(first: Outputs, second: Outputs, most: int) -> list[tuple[str, Column]]:
    """Name the differences and sums of two columns, those first that look most different in a few thousand samples."""
    few = [side[:2000] for side in (first, second)]
    found: list[tuple[float, str, Column]] = []
    for i, j in combinations(range(first.shape[1]), 2):
        for sign, word in ((-1, "minus"), (1, "plus")):
            column = partial(_combined, i, j, sign)
            found.append((_apart(*map(column, few)), f"column {j} {word} column {i}", column))
    found.sort(key=lambda each: -each[0])
    return [(name, column) for _, name, column in found[:most]]


def _apart(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Estimate by how much the shares of eight bins of a number, and of its most frequent value, differ."""
    seen = np.sort(np.concatenate([first, second]))
    edges = np.unique(seen[np.linspace(0, seen.size - 1, 9).astype(int)[1:-1]])
    labels = [
        np.searchsorted(edges, side, "right") + (edges.size + 1) * np.isin(side, edges) for side in (first, second)
    ]
    p, q = (np.bincount(label, minlength=2 * edges.size + 2) / label.size for label in labels)
    return float(np.abs(p - q).sum())


def by_value(name: str, column: Column, first: Outputs, second: Outputs) -> View:
    """Give each distinct value its own label when there are few; else quantile bins, and frequent values their own."""
    edges = _edges(np.concatenate([column(first), column(second)]))
    shown = tuple(edges.astype(np.float64).tolist()) if edges.dtype.kind != "O" else ()
    return View(name, partial(_binned, edges, column), len(edges) + 1, shown)


def _binned(edges: NDArray[Any], column: Column, outputs: Outputs) -> Labels:
    return np.searchsorted(edges, column(outputs), side="right").astype(np.int64)


def _edges(seen: NDArray[Any]) -> NDArray[Any]:
    distinct, times = np.unique(seen, return_counts=True)
    if len(distinct) <= BINS:
        return distinct
    frequent = distinct[times >= max(2.0, seen.size / BINS)]
    after = np.nextafter(frequent, np.inf) if seen.dtype.kind == "f" else frequent + 1
    finite = seen[np.isfinite(seen)] if seen.dtype.kind == "f" else seen
    places = np.linspace(0, finite.size - 1, BINS + 1).astype(np.int64)[1:-1]
    cuts = np.partition(finite, places)[places] if finite.size else finite
    odd = distinct[~np.isfinite(distinct)] if seen.dtype.kind == "f" else distinct[:0]
    return np.unique(np.concatenate([cuts, frequent, after.astype(seen.dtype), odd]))


def whole_row(first: Outputs, second: Outputs) -> View:
    """Give each of the most frequent rows its own label, and all others one: rows are compared by a hash."""
    seen = np.concatenate([_hashed(first), _hashed(second)])
    distinct, times = np.unique(seen, return_counts=True)
    known = np.sort(distinct[np.argsort(-times, kind="stable")[:BINS]])
    return View("the whole row", partial(_known_row, known), len(known) + 1)


def _known_row(known: NDArray[np.uint64], outputs: Outputs) -> Labels:
    own = _hashed(outputs)
    place = np.minimum(np.searchsorted(known, own), len(known) - 1)
    return np.where(known[place] == own, place, len(known)).astype(np.int64)


def _hashed(outputs: Outputs) -> NDArray[np.uint64]:
    """Combine the columns of a row into one number; rows that meet in it have one label, which only proves less."""
    wide = outputs.astype(np.float64) if outputs.dtype.kind == "f" else outputs.astype(np.int64)
    mixed = np.zeros(len(outputs), np.uint64)
    for column in range(outputs.shape[1]):
        part = np.ascontiguousarray(wide[:, column]).view(np.uint64)
        mixed = (mixed ^ part) * _ODD
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _last_bit(column: int, outputs: Outputs) -> Labels:
    """Find the exponent of the lowest bit set in each float: coarse sums leave no fine bits."""
    values = outputs[:, column].astype(np.float64)
    finite = np.isfinite(values)
    mantissa, exponent = np.frexp(np.where(finite, values, 0.0))
    whole_mantissa = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = np.where(whole_mantissa == 0, 0, np.log2(np.maximum(1, whole_mantissa & -whole_mantissa))).astype(np.int64)
    return np.where(finite, np.clip(lowest + exponent + _LOWEST_BIT, 0, _BITS - 2), _BITS - 1)


def lies_on_a_line(view: View) -> bool:
    """Tell whether labels stand in the order of numbers, so that two worlds can be drawn above one axis."""
    return len(view.edges) > 0 and all(abs(edge) < _LARGEST_DRAWN for edge in view.edges)
