"""Told laws say how often each of two worlds gave which outputs, in few enough cells to be drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.lower_bounds.telling_events import Event, lies_on_a_line
from sfumato.errors import InvalidParameter
from sfumato.privacy import codec

_MOST_CELLS, _MOST_BARS = 48, 12


@codec.value("told-laws")
@dataclass(frozen=True)
class ToldLaws:
    """These are the shares of two worlds in some cells, and which cells belong to the event."""

    seen: str
    """What outputs were looked at by, such as "the value"."""
    first: tuple[float, ...]
    second: tuple[float, ...]
    inside: tuple[bool, ...]
    edges: tuple[float, ...] = ()
    """Where the cells lie along a line of numbers, one edge more than cells; empty where they have no order."""

    def __post_init__(self) -> None:
        for name in ("first", "second", "edges"):
            object.__setattr__(self, name, tuple(codec.real(each, name) for each in getattr(self, name)))
        cells = len(self.first)
        fits = len(self.second) == len(self.inside) == cells and len(self.edges) in (0, cells + 1)
        if not (fits and cells and type(self.seen) is str and all(type(each) is bool for each in self.inside)):
            raise InvalidParameter("laws", self.seen, "as many shares of both worlds as there are cells")


def told_laws(event: Event, counts: tuple[NDArray[np.int64], NDArray[np.int64]]) -> ToldLaws:
    """Sum up what was counted by label into few cells, each wholly inside the event or wholly outside."""
    shares = [each / max(1, int(each.sum())) for each in counts]
    name = event.view.name
    if lies_on_a_line(event.view):
        edges = np.array(event.view.edges)
        ends = np.concatenate([[edges[0] - _gap(edges)], edges, [edges[-1] + _gap(edges)]])
        cells = _runs(event.chosen, max(1, len(event.chosen) // _MOST_CELLS))
        merged = [np.add.reduceat(each, cells) for each in shares]
        single = len(cells) == len(event.chosen)  # then a cell is one value, and stands around it
        inside, marks = event.chosen[cells], ends[[*cells, len(ends) - 1]] - single * _gap(edges) / 2
        kept = slice(1, None) if merged[0][0] == merged[1][0] == 0 and len(cells) > 1 else slice(None)
        first, second = (_floats(each[kept]) for each in merged)
        return ToldLaws(name, first, second, _truths(inside[kept]), _floats(marks[kept]))
    order = np.argsort(-np.abs(shares[0] - shares[1]), kind="stable")[:_MOST_BARS]
    return ToldLaws(name, _floats(shares[0][order]), _floats(shares[1][order]), _truths(event.chosen[order]))


def _gap(edges: NDArray[Any]) -> float:
    """Give the usual distance of two edges, as the width of cells that have no end."""
    return float(np.median(np.diff(edges))) if len(edges) > 1 else 1.0


def _runs(chosen: NDArray[np.bool_], longest: int) -> list[int]:
    """Cut labels into runs of at most so many that lie on one side of the event."""
    starts = [0]
    for place in range(1, len(chosen)):
        if chosen[place] != chosen[starts[-1]] or place - starts[-1] >= longest:
            starts.append(place)
    return starts


def _floats(numbers: NDArray[Any]) -> tuple[float, ...]:
    return tuple(map(float, numbers))


def _truths(truths: NDArray[np.bool_]) -> tuple[bool, ...]:
    return tuple(map(bool, truths))
