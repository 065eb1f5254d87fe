"""A coding gives a column finitely many cells, so that its marginals can be published. Data never decide it.

A column of listed values, or of true and false, has a cell for each of them. A number, a date or a time has bins: from
one start to below the next, the last one up to an end that it includes. Single values that many rows have (``spikes``,
such as an income of 0) have cells of their own before the bins, and are in no bin. What is missing, or lies in no cell,
has a cell of its own, so every row is in exactly one. Levels join cells to coarser ones: days to months, codes to
chapters.

A real is compared with an edge as the double that is nearest to what is written, here as in SQL.
"""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.policy.domains import MOST_VALUES, Domain, Type, Value, as_value
from sfumato.privacy.numbers import exact, text

MOST_BINS = 1_000
"""Bins whose edges are written or cut by the calendar; equal ones of whole numbers or days may be as many as values."""
PERIODS = ("day", "week", "month", "quarter", "year")
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_BINS = 'edges such as [0, 18, 30, 65], a number of equal bins such as 20, or of dates "month"'
MOST_SPIKES = 100
"""Single values of one column that have cells of their own."""
_LEVELS = 'such as ["day", "month", "year"], [[0, 18, 65]], or lists within lists of the values'


@dataclass(frozen=True)
class Level:
    """A level joins the cells of a column to parts, each of which is whole in a part of the next level."""

    parts: tuple[int, ...]
    """For each cell, in order, the number of its part."""
    name: str = ""
    """Of the level, where it has one: month."""
    labels: tuple[str, ...] = ()
    """Of the parts, where they have names."""


@dataclass(frozen=True)
class Coding:
    """A coding says which bins a column has, and how cells are joined to levels, from fine to coarse."""

    starts: tuple[Value, ...] = ()
    """Where each bin begins, rising; none where listed values are the cells."""
    end: Value | None = None
    """The last value of the last bin."""
    levels: tuple[Level, ...] = ()
    spikes: tuple[Value, ...] = ()
    """Values that have cells of their own, before the bins, rising."""

    @property
    def width(self) -> int | None:
        """Say how wide all bins are, in whole numbers or days; None where they differ. The first and the last may be
        cut short.
        """
        return _width(self.starts, self.end) if self.starts else None

    def place(self, value: Any) -> int | None:
        """Find the cell that holds a value: of its own, or a bin; None where no cell does."""
        alone = [_compared(each) for each in self.spikes]
        if value is not None and _compared(value) in alone:
            return alone.index(_compared(value))
        if value is None or _compared(value) < _compared(self.starts[0]) or _compared(value) > _compared(self.end):
            return None
        return len(alone) + bisect_right(self.starts, _compared(value), key=_compared) - 1


def cell_words(coding: Coding | None) -> list[str]:
    """Say in words how a column is cut into cells; nothing of one that says nothing itself."""
    if coding is None:
        return []
    found = []
    if coding.starts:
        edges = [_shown(each) for each in (*coding.starts[:4], *coding.starts[4:][-1:], coding.end)]
        named = ", ".join([*edges[:4], "…", *edges[4:]] if len(coding.starts) > 5 else edges)
        count = len(coding.starts)
        found.append(f"{count:,} {'bin' if count == 1 else 'bins'} with the edges {named}")
    if coding.spikes:
        listed = ", ".join(map(_shown, coding.spikes[:5])) + (", …" if len(coding.spikes) > 5 else "")
        found.append(f"{len(coding.spikes):,} {'value' if len(coding.spikes) == 1 else 'values'} apart: {listed}")
    counts = [(max(level.parts) + 1, level.name or "part") for level in coding.levels]
    return [*found, *(f"joined to {count:,} {name}{'s' if count > 1 else ''}" for count, name in counts)]


def _shown(value: object) -> str:
    return text(value) if isinstance(value, Fraction) else str(value)


def is_coded(domain: Domain, coding: Coding | None) -> bool:
    """Tell whether a column is finite: its cells are listed, or true and false, or bins."""
    return domain.values is not None or domain.type is Type.BOOLEAN or (coding is not None and bool(coding.starts))


def coding_of(domain: Domain, bins: Any, levels: Any, spikes: Any = None) -> Coding:
    """Read what a policy says of a column's bins, levels and spikes; each is None where it says nothing."""
    if spikes is not None and (domain.type in (Type.TEXT, Type.BOOLEAN) or domain.values is not None):
        raise InvalidParameter("spikes", spikes, "left out where values are listed: each of them is a cell")
    if spikes is not None and bins is None and levels is None:
        rule = "beside bins: these hold all other values"
        raise InvalidParameter("spikes", spikes, rule, fix="add bins, such as bins = 20")
    if domain.type is Type.BOOLEAN or domain.values is not None:
        if bins is not None:
            raise InvalidParameter("bins", bins, "left out where values are listed: each of them is a cell")
        return Coding(levels=_joined(domain, levels))
    if domain.type is Type.TEXT:
        name, given = ("bins", bins) if bins is not None else ("levels", levels)
        raise InvalidParameter(name, given, "left out unless texts are listed", fix="list the texts as values")
    found = _binned(domain, bins, levels)
    return found if spikes is None else _with_spikes(domain, found, spikes)


def leaves(levels: object) -> list[object]:
    """List the values that stand in lists within lists, or in a mapping of them, in their order."""
    if isinstance(levels, Mapping):
        return [value for each in levels.values() for value in leaves(each)]
    if isinstance(levels, (list, tuple)):
        return [value for each in levels for value in leaves(each)]
    return [levels]


# Bins


def _binned(domain: Domain, bins: Any, levels: Any) -> Coding:
    if levels is not None and (not isinstance(levels, (list, tuple)) or not levels):
        raise InvalidParameter("levels", levels, _LEVELS)
    coarser = [] if levels is None else list(levels)
    if bins is None:
        bins, coarser = coarser[0], coarser[1:]
    elif coarser and coarser[0] == bins:
        coarser = coarser[1:]
    starts, end = _edges(domain, bins, "bins" if levels is None or bins is not levels[0] else "levels")
    regular = domain.bounds is not None and _width(starts, end) is not None
    most = MOST_VALUES if regular else MOST_BINS
    if len(starts) > most:
        raise InvalidParameter("bins", bins, f"at most {most:,} bins", fix="take wider ones")
    found, finer = [], starts
    for each in coarser:
        joined, last = _edges(domain, each, "levels")
        if not set(joined) <= set(finer) or joined[0] != starts[0] or last != end:
            rule = "from fine to coarse, each made of whole parts of the one before, from its first edge to its last"
            raise InvalidParameter("levels", each, rule, fix=_nested(each))
        parts = tuple(bisect_right(joined, start) - 1 for start in starts)
        found.append(Level(parts, each if isinstance(each, str) else ""))
        finer = joined
    return Coding(starts, end, tuple(found))


def _with_spikes(domain: Domain, coding: Coding, written: Any) -> Coding:
    """Give single values cells of their own. At a level, each is in the part of the bin that it lies in, or alone."""
    listed = written if isinstance(written, (list, tuple)) else ()
    if not 1 <= len(listed) <= MOST_SPIKES:
        raise InvalidParameter("spikes", written, f"a list of 1 to {MOST_SPIKES} values, such as [0]")
    values = sorted({as_value(domain.type, each, "spikes") for each in listed}, key=_compared)
    low, high = domain.bounds or (coding.starts[0], coding.end)
    if len({_compared(each) for each in values}) != len(listed):
        raise InvalidParameter("spikes", written, "a list in which no value stands twice")
    if _compared(values[0]) < _compared(low) or _compared(values[-1]) > _compared(high):
        raise InvalidParameter("spikes", written, "values within the bounds", fix="widen the bounds, or leave it out")
    _check_left(domain, coding, values)
    places = [coding.place(each) for each in values]
    levels = tuple(replace(each, parts=(*_own_parts(each.parts, places), *each.parts)) for each in coding.levels)
    return replace(coding, spikes=tuple(values), levels=levels)


def _own_parts(parts: Sequence[int], places: Sequence[int | None]) -> Iterator[int]:
    after = max(parts) + 1
    for place in places:
        yield after if place is None else parts[place]
        after += place is None


def _check_left(domain: Domain, coding: Coding, values: Sequence[Any]) -> None:
    """Refuse a bin of which spikes leave no value: a row could never be in it."""
    if domain.type not in (Type.INTEGER, Type.DATE):
        return
    one = dt.timedelta(days=1) if domain.type is Type.DATE else 1
    after: Any = coding.end + one if coding.end != dt.date.max else None  # type: ignore[operator]
    for start, stop in pairwise([*coding.starts, after]):
        inside = sum(start <= each and (stop is None or each < stop) for each in values)
        last: Any = coding.end if stop is None else stop - one
        if inside > (last - start) // one:
            rule = "values that leave another one in every bin"
            raise InvalidParameter("spikes", values, rule, fix=f"take wider bins than the one from {start}")


def _nested(level: object) -> str:
    if level == "week" or not isinstance(level, str):
        return "a week lies in two months: leave it out" if level == "week" else "take edges that the finer level has"
    return 'write them from fine to coarse, such as ["day", "month", "year"]; weeks are in no month'


def _edges(domain: Domain, bins: Any, name: str) -> tuple[tuple[Value, ...], Value]:
    """Find where bins start, and the end of the last, as they may be written."""
    if isinstance(bins, str):
        return _by_calendar(domain, bins, name)
    if type(bins) is int:
        return _equal(domain, bins, name)
    if not isinstance(bins, (list, tuple)) or len(bins) < 2:
        raise InvalidParameter(name, bins, _BINS)
    edges = [as_value(domain.type, each, name) for each in bins]
    low, high = domain.bounds or (edges[0], edges[-1])
    if not _rising(edges):
        raise InvalidParameter(name, bins, "edges that rise")
    if _compared(edges[0]) < _compared(low) or _compared(edges[-1]) > _compared(high):
        raise InvalidParameter(name, bins, "edges within the bounds", fix="widen the bounds, or leave the edge out")
    return tuple(edges[:-1]), edges[-1]


def _rising(edges: Sequence[Any]) -> bool:
    return all(_compared(low) < _compared(high) for low, high in pairwise(edges))


def _compared(value: Any) -> Any:
    """Give a value as rows are compared with it: a real is a double."""
    return float(value) if isinstance(value, Fraction) else value


def _bounds(domain: Domain, bins: object, name: str) -> tuple[Any, Any]:
    if domain.bounds is None or domain.bounds[0] == domain.bounds[1]:
        rule = "edges, unless bounds with two ends are declared: these bins are parts of them"
        raise InvalidParameter(name, bins, rule, fix="declare bounds = [low, high]")
    return domain.bounds


def _by_calendar(domain: Domain, unit: str, name: str) -> tuple[tuple[Value, ...], Value]:
    if not domain.type.temporal or unit not in PERIODS:
        raise InvalidParameter(name, unit, f"for a date or a time one of {', '.join(PERIODS)}; else {_BINS}")
    low, high = _bounds(domain, unit, name)
    clock = domain.type is Type.TIMESTAMP
    days = list(_period_starts(unit, low.date() if clock else low, high.date() if clock else high))
    starts = [dt.datetime(day.year, day.month, day.day) for day in days] if clock else days
    return (low, *(each for each in starts if low < each <= high)), high


def _period_starts(unit: str, low: dt.date, high: dt.date) -> Iterator[dt.date]:
    """List the first days of the periods from one day on to another, as the calendar has them: weeks from Mondays."""
    if unit not in _MONTHS:
        step = 7 if unit == "week" else 1
        first = low.toordinal() if step == 1 else low.toordinal() - low.weekday()
        yield from map(dt.date.fromordinal, range(first, high.toordinal() + 1, step))
        return
    step = _MONTHS[unit]
    first, last = (each.year * 12 + each.month - 1 for each in (low, high))
    for month in range(first // step * step, last + 1, step):
        yield dt.date(month // 12, month % 12 + 1, 1)


def _equal(domain: Domain, count: int, name: str) -> tuple[tuple[Value, ...], Value]:
    """Cut the bounds into equal bins: whole numbers and days so that as many of them as can be are in each."""
    low, high = _bounds(domain, count, name)
    if not 1 <= count <= MOST_VALUES:
        raise InvalidParameter(name, count, f"a number of bins from 1 to {MOST_VALUES:,}")
    if domain.type is Type.REAL:
        steps = (low + (high - low) * place / count for place in range(count))
        starts: list[Any] = [low, *(exact(float(each), name) for each in list(steps)[1:])]
    elif domain.type is Type.TIMESTAMP:
        starts = [low + (high - low) * place / count for place in range(count)]
    else:
        span = (high - low).days if domain.type is Type.DATE else high - low
        offsets = (math.ceil(Fraction((span + 1) * place, count)) for place in range(count))
        starts = [low + (dt.timedelta(days=each) if domain.type is Type.DATE else each) for each in offsets]
    if starts[-1] > high or not _rising(starts):
        raise InvalidParameter(name, count, "no more bins than there are values between the bounds")
    return tuple(starts), high


def _width(starts: Sequence[Any], end: Any) -> int | None:
    inner: list[Any] = [_day(each) for each in starts[1:]]
    first: Any = _day(starts[0], down=True)
    last: Any = _day(end, down=True)
    if not inner or None in (first, last, *inner):
        return None
    gaps = {high - low for low, high in pairwise(inner)} or {max(inner[0] - first, last - inner[0] + 1)}
    width = max(gaps)
    cut_short = inner[0] - first <= width and last - inner[-1] < width
    return int(width) if len(gaps) == 1 and cut_short else None


def _day(value: Any, *, down: bool = False) -> int | None:
    """Give a whole number or the number of a day; None for what is neither."""
    if isinstance(value, dt.datetime):
        return value.toordinal() if down or value.time() == dt.time() else None
    if isinstance(value, dt.date):
        return value.toordinal()
    return value if isinstance(value, int) else None


# Levels of listed values


def _joined(domain: Domain, levels: Any) -> tuple[Level, ...]:
    """Read lists within lists, or a mapping of them: the outermost is the coarsest level."""
    if levels is None:
        return ()
    if domain.values is None or not isinstance(levels, (Mapping, list, tuple)):
        raise InvalidParameter("levels", levels, "lists within lists of the values", fix="list the values, and then")
    depth = _depth(levels)
    if depth < 2:
        rule = "lists within lists: every value at the same depth, in a list of its own part"
        raise InvalidParameter("levels", levels, rule, fix='write [["A00", "A01"], ["B00"]]')
    found = [as_value(domain.type, each, "levels") for each in leaves(levels)]
    wanted = [each for each in domain.values if each != domain.other or each in found]
    if len(set(found)) != len(found) or set(found) != set(wanted):
        rule = "lists in which every listed value stands once, and nothing else"
        raise InvalidParameter("levels", levels, rule, fix="compare values and levels")
    rest = [each for each in domain.values if each not in set(wanted)]
    return tuple(_level(domain, levels, deep, rest) for deep in range(depth - 1, 0, -1))


def _depth(levels: Any) -> int:
    """Count the lists that every value stands within; 0 where values stand at different depths, or a list is empty."""
    if not isinstance(levels, (Mapping, list, tuple)):
        return 0
    inner = {_depth(each) for each in _within(levels)}
    plain = any(not isinstance(each, (Mapping, list, tuple)) for each in _within(levels))
    if len(inner) != 1 or (0 in inner and not plain):
        return 0
    return 1 + inner.pop()


def _within(levels: Any) -> list[Any]:
    return list(levels.values()) if isinstance(levels, Mapping) else list(levels)


def _level(domain: Domain, levels: Any, deep: int, rest: Sequence[Value]) -> Level:
    """Give every cell the number of its part, of those that stand so deep; what stands for all others is its own."""
    parts = list(_parts(levels, deep, ""))
    place = {as_value(domain.type, leaf, "levels"): index for index, (_, own) in enumerate(parts) for leaf in own}
    place |= {each: len(parts) + index for index, each in enumerate(rest)}
    labels = [label for label, _ in parts] + [str(each) for each in rest]
    assert domain.values is not None
    return Level(tuple(place[each] for each in domain.values), "", tuple(labels) if all(labels) else ())


def _parts(levels: Any, deep: int, label: str) -> Iterator[tuple[str, list[object]]]:
    if deep == 0:
        yield label, leaves(levels)
        return
    named = levels.items() if isinstance(levels, Mapping) else (("", each) for each in levels)
    for name, each in named:
        yield from _parts(each, deep - 1, str(name))
