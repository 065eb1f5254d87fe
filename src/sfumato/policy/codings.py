"""Codings: the division of a column into finitely many cells, so that its marginals can be published.

A coding is declared and never taken from the data. A column of listed values or booleans has one cell per value. A
number, a date or a time has half-open bins, of which the last includes its end. Single frequent values (``spikes``,
such as an income of 0) have their own cells before the bins and lie in no bin. NULL and values outside all cells share
one further cell, so every row is in exactly one cell. Levels merge cells into coarser parts: days into months, codes
into chapters.

A real is compared with an edge as the nearest double, here as in SQL.

Parse the declarations of a table's columns: domains, lists, codings and cell rules.
"""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeVar

from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.policy.cell_rules import RULE_KEYS, CellRules, parse_rules
from sfumato.policy.domains import (
    MAX_VALUES,
    Domain,
    ListColumn,
    Type,
    Value,
    check_distinct_names,
    check_keys,
    check_name,
    common_type,
    equal_reals_note,
    parse_entries,
    parse_value,
)
from sfumato.privacy.numbers import exact, format_exact
from sfumato.quick_dataclass import dataclass

MAX_BINS = 1_000
"""The most bins with explicit edges or calendar periods; equal bins of integers or days may number ``MAX_VALUES``."""
CALENDAR_PERIODS = ("day", "week", "month", "quarter", "year")
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_BINS_RULE = 'edges such as [0, 18, 30, 65], a number of equal bins such as 20, or for dates "month"'
CELLS_RULE = "a column needs listed values or bins, or must be boolean"
"""The end of every refusal of a column without cells."""
_SPIKES_FIX = "remove spikes: text, booleans and listed values have no bins"
MAX_SPIKES = 100
"""The most spikes of one column."""
MAX_IMPOSSIBLE = 1_000
"""The most conditions of one table that no row satisfies."""
_LEVELS_RULE = 'a list such as ["day", "month", "year"] or [[0, 18, 65]], or a hierarchy of the values as nested lists'


@dataclass(frozen=True)
class Level:
    """A partition of a column's cells, each part of which lies within one part of the next, coarser level."""

    parts: tuple[int, ...]
    """The index of the part of each cell, in order."""
    name: str = ""
    """The name of the level, if it has one, such as month."""
    labels: tuple[str, ...] = ()
    """The names of the parts, if they have names."""


@dataclass(frozen=True)
class Coding:
    """The bins and spikes of a column, and its levels from fine to coarse."""

    starts: tuple[Value, ...] = ()
    """The first value of each bin, in rising order; empty if the cells are listed values."""
    end: Value | None = None
    """The last value of the last bin, inclusive."""
    levels: tuple[Level, ...] = ()
    spikes: tuple[Value, ...] = ()
    """Values with their own cells, which come before the bins, in rising order."""

    @property
    def width(self) -> int | None:
        """The common width of the bins in integers or days, None if they differ; the first and last may be shorter."""
        return _regular_width(self.starts, self.end) if self.starts else None

    def cell_index(self, value: Any) -> int | None:
        """Return the index of the cell that contains a value, or None if no cell does."""
        spike_keys = [_comparison_value(spike) for spike in self.spikes]
        if value is not None and _comparison_value(value) in spike_keys:
            return spike_keys.index(_comparison_value(value))
        if (
            value is None
            or _comparison_value(value) < _comparison_value(self.starts[0])
            or _comparison_value(value) > _comparison_value(self.end)
        ):
            return None
        return len(spike_keys) + bisect_right(self.starts, _comparison_value(value), key=_comparison_value) - 1


def describe_cells(coding: Coding | None) -> list[str]:
    """Describe the cells of a column in words, one phrase each; empty without a coding."""
    if coding is None:
        return []
    phrases = []
    if coding.starts:
        edges = [_format_value(edge) for edge in (*coding.starts[:4], *coding.starts[4:][-1:], coding.end)]
        edge_list = ", ".join([*edges[:4], "…", *edges[4:]] if len(coding.starts) > 5 else edges)
        count = len(coding.starts)
        phrases.append(f"{count:,} {'bin' if count == 1 else 'bins'} with the edges {edge_list}")
    if coding.spikes:
        spike_list = ", ".join(map(_format_value, coding.spikes[:5])) + (", …" if len(coding.spikes) > 5 else "")
        phrases.append(
            f"{len(coding.spikes):,} {'value' if len(coding.spikes) == 1 else 'values'} counted separately: "
            f"{spike_list}"
        )
    counts = [(max(level.parts) + 1, level.name or "part") for level in coding.levels]
    return [*phrases, *(f"grouped into {count:,} {name}{'s' if count > 1 else ''}" for count, name in counts)]


def _format_value(value: object) -> str:
    return format_exact(value) if isinstance(value, Fraction) else str(value)


def is_coded(domain: Domain, coding: Coding | None) -> bool:
    """Return whether a column has finitely many cells: listed values, booleans or bins."""
    return domain.values is not None or domain.type is Type.BOOLEAN or (coding is not None and bool(coding.starts))


def parse_coding(domain: Domain, bins: Any, levels: Any, spikes: Any = None) -> Coding:
    """Parse the bins, levels and spikes of a column as a policy declares them; None for those left out."""
    if spikes is not None and (domain.type in (Type.TEXT, Type.BOOLEAN) or domain.values is not None):
        raise InvalidParameter("spikes", spikes, "left out, because this column cannot have bins", fix=_SPIKES_FIX)
    if spikes is not None and bins is None and levels is None:
        rule = "declared together with bins: each spike is counted separately, and the bins count all other values"
        raise InvalidParameter("spikes", spikes, rule, fix="add bins, such as bins = 20")
    if domain.type is Type.BOOLEAN or domain.values is not None:
        if bins is not None:
            rule = "left out for booleans and for listed values, each of which is counted by itself"
            raise InvalidParameter("bins", bins, rule, fix="remove bins")
        return Coding(levels=_parse_levels(domain, levels))
    if domain.type is Type.TEXT:
        name, declared = ("bins", bins) if bins is not None else ("levels", levels)
        rule = "left out for text without listed values"
        fix = f'remove {name}; to count by this column, list its values, such as values = ["north", "south"]'
        raise InvalidParameter(name, declared, rule, fix=fix)
    coding = _parse_bins(domain, bins, levels)
    return coding if spikes is None else _with_spikes(domain, coding, spikes)


def leaves(levels: object) -> list[object]:
    """Return the leaf values of nested lists or mappings, in order."""
    if isinstance(levels, Mapping):
        return [value for level in levels.values() for value in leaves(level)]
    if isinstance(levels, (list, tuple)):
        return [value for level in levels for value in leaves(level)]
    return [levels]


# Bins


def _parse_bins(domain: Domain, bins: Any, levels: Any) -> Coding:
    if levels is not None and (not isinstance(levels, (list, tuple)) or not levels):
        raise InvalidParameter("levels", levels, _LEVELS_RULE)
    coarser = [] if levels is None else list(levels)
    if bins is None:
        bins, coarser = coarser[0], coarser[1:]
    elif coarser and coarser[0] == bins:
        coarser = coarser[1:]
    starts, end = _bin_starts_and_end(domain, bins, "bins" if levels is None or bins is not levels[0] else "levels")
    regular = domain.bounds is not None and _regular_width(starts, end) is not None
    max_bins = MAX_VALUES if regular else MAX_BINS
    if len(starts) > max_bins:
        raise InvalidParameter("bins", bins, f"at most {max_bins:,} bins", fix="use wider bins")
    parsed_levels, finer_starts = [], starts
    for declared_level in coarser:
        level_starts, level_end = _bin_starts_and_end(domain, declared_level, "levels")
        if not set(level_starts) <= set(finer_starts) or level_starts[0] != starts[0] or level_end != end:
            rule = "listed from fine to coarse, each with some edges of the one before, including its first and last"
            raise InvalidParameter("levels", declared_level, rule, fix=_nested_levels_fix(declared_level))
        parts = tuple(bisect_right(level_starts, start) - 1 for start in starts)
        parsed_levels.append(Level(parts, declared_level if isinstance(declared_level, str) else ""))
        finer_starts = level_starts
    return Coding(starts, end, tuple(parsed_levels))


def _with_spikes(domain: Domain, coding: Coding, declared: Any) -> Coding:
    """Add spikes to a coding. At a level, a spike joins the part of its bin, or is a part by itself."""
    declared_values = declared if isinstance(declared, (list, tuple)) else ()
    if not 1 <= len(declared_values) <= MAX_SPIKES:
        raise InvalidParameter("spikes", declared, f"a list of 1 to {MAX_SPIKES} values, such as [0]")
    values = sorted(set(parse_entries(domain.type, declared_values, "spikes")), key=_comparison_value)
    low, high = domain.bounds or (coding.starts[0], coding.end)
    if len({_comparison_value(value) for value in values}) != len(declared_values):
        raise InvalidParameter("spikes", declared, f"a list without repeated values{equal_reals_note(domain.type)}")
    if _comparison_value(values[0]) < _comparison_value(low) or _comparison_value(values[-1]) > _comparison_value(high):
        raise InvalidParameter(
            "spikes", declared, "values within the bounds", fix="widen the bounds, or remove the value outside them"
        )
    _check_no_empty_bin(domain, coding, values)
    bin_indices = [coding.cell_index(value) for value in values]
    levels = tuple(
        replace(level, parts=(*_spike_parts(level.parts, bin_indices), *level.parts)) for level in coding.levels
    )
    return replace(coding, spikes=tuple(values), levels=levels)


def _spike_parts(parts: Sequence[int], bin_indices: Sequence[int | None]) -> Iterator[int]:
    next_part = max(parts) + 1
    for bin_index in bin_indices:
        yield next_part if bin_index is None else parts[bin_index]
        next_part += bin_index is None


def _check_no_empty_bin(domain: Domain, coding: Coding, values: Sequence[Any]) -> None:
    """Refuse spikes that use up every value of a bin."""
    if domain.type not in (Type.INTEGER, Type.DATE):
        return
    step = dt.timedelta(days=1) if domain.type is Type.DATE else 1
    past_end: Any = coding.end + step if coding.end != dt.date.max else None  # type: ignore[operator]
    for start, stop in pairwise([*coding.starts, past_end]):
        spikes_in_bin = sum(start <= value and (stop is None or value < stop) for value in values)
        last_value: Any = coding.end if stop is None else stop - step
        if spikes_in_bin > (last_value - start) // step:
            rule = (
                "values that leave another value in each bin, but these are all values of the bin that starts at "
                f"{start}"
            )
            raise InvalidParameter("spikes", values, rule, fix="remove a spike from this bin, or make the bin wider")


def _nested_levels_fix(level: object) -> str:
    if level == "week" or not isinstance(level, str):
        is_week = level == "week"
        return 'leave out "week": a week can span two months' if is_week else "use only edges of the finer level"
    return 'write them from fine to coarse, such as ["day", "month", "year"]; weeks do not nest in months'


def _bin_starts_and_end(domain: Domain, bins: Any, name: str) -> tuple[tuple[Value, ...], Value]:
    """Parse bins in any notation; return their starts and the inclusive end of the last."""
    if isinstance(bins, str):
        return _calendar_bins(domain, bins, name)
    if type(bins) is int:
        return _equal_bins(domain, bins, name)
    if not isinstance(bins, (list, tuple)) or len(bins) < 2:
        raise InvalidParameter(name, bins, _BINS_RULE)
    edges = parse_entries(domain.type, bins, name)
    low, high = domain.bounds or (edges[0], edges[-1])
    if not _is_rising(edges):
        raise InvalidParameter(name, bins, "a list of edges in rising order", fix="sort the edges, and write each once")
    if _comparison_value(edges[0]) < _comparison_value(low) or _comparison_value(edges[-1]) > _comparison_value(high):
        raise InvalidParameter(
            name, bins, "a list of edges within the bounds", fix="widen the bounds, or remove the edges outside them"
        )
    return tuple(edges[:-1]), edges[-1]


def _is_rising(edges: Sequence[Any]) -> bool:
    return all(_comparison_value(low) < _comparison_value(high) for low, high in pairwise(edges))


def _comparison_value(value: Any) -> Any:
    """Return the value that rows are compared with: a real as a double."""
    return float(value) if isinstance(value, Fraction) else value


def _require_bounds(domain: Domain, declared_bins: object, name: str) -> tuple[Any, Any]:
    if domain.bounds is None or domain.bounds[0] == domain.bounds[1]:
        rule = "a list of edges, unless the column has bounds with low < high"
        raise InvalidParameter(name, declared_bins, rule, fix="write the edges, or add bounds = [low, high]")
    return domain.bounds


def _calendar_bins(domain: Domain, period: str, name: str) -> tuple[tuple[Value, ...], Value]:
    if not domain.type.temporal or period not in CALENDAR_PERIODS:
        periods = f"one of {', '.join(CALENDAR_PERIODS)}"
        raise InvalidParameter(name, period, periods if domain.type.temporal else _BINS_RULE)
    low, high = _require_bounds(domain, period, name)
    is_timestamp = domain.type is Type.TIMESTAMP
    days = list(_period_starts(period, low.date() if is_timestamp else low, high.date() if is_timestamp else high))
    starts = [dt.datetime(day.year, day.month, day.day) for day in days] if is_timestamp else days
    return (low, *(start for start in starts if low < start <= high)), high


def _period_starts(period: str, low: dt.date, high: dt.date) -> Iterator[dt.date]:
    """Yield the first days of the calendar periods between two days; weeks start on Mondays."""
    if period not in _MONTHS:
        step = 7 if period == "week" else 1
        first = low.toordinal() if step == 1 else low.toordinal() - low.weekday()
        yield from map(dt.date.fromordinal, range(first, high.toordinal() + 1, step))
        return
    step = _MONTHS[period]
    first_month, last_month = (day.year * 12 + day.month - 1 for day in (low, high))
    for month in range(first_month // step * step, last_month + 1, step):
        yield dt.date(month // 12, month % 12 + 1, 1)


def _equal_bins(domain: Domain, count: int, name: str) -> tuple[tuple[Value, ...], Value]:
    """Divide the bounds into equal bins; bins of integers or days differ by at most one value."""
    low, high = _require_bounds(domain, count, name)
    if not 1 <= count <= MAX_VALUES:
        raise InvalidParameter(name, count, f"a number of bins from 1 to {MAX_VALUES:,}")
    if domain.type is Type.REAL:
        edges = (low + (high - low) * index / count for index in range(count))
        starts: list[Any] = [low, *(exact(float(edge), name) for edge in list(edges)[1:])]
    elif domain.type is Type.TIMESTAMP:
        starts = [low + (high - low) * index / count for index in range(count)]
    else:
        span = (high - low).days if domain.type is Type.DATE else high - low
        offsets = (math.ceil(Fraction((span + 1) * index, count)) for index in range(count))
        starts = [low + (dt.timedelta(days=offset) if domain.type is Type.DATE else offset) for offset in offsets]
    if starts[-1] > high or not _is_rising(starts):
        raise InvalidParameter(
            name, count, "at most the number of values within the bounds", fix="use fewer bins, or list edges"
        )
    return tuple(starts), high


def _regular_width(starts: Sequence[Any], end: Any) -> int | None:
    inner: list[Any] = [_day_or_integer(start) for start in starts[1:]]
    first: Any = _day_or_integer(starts[0], down=True)
    last: Any = _day_or_integer(end, down=True)
    if not inner or None in (first, last, *inner):
        return None
    gaps = {high - low for low, high in pairwise(inner)} or {max(inner[0] - first, last - inner[0] + 1)}
    width = max(gaps)
    ends_fit = inner[0] - first <= width and last - inner[-1] < width
    return int(width) if len(gaps) == 1 and ends_fit else None


def _day_or_integer(value: Any, *, down: bool = False) -> int | None:
    """Return an integer, or the ordinal of a day; None for other values and, unless ``down``, for a time of day."""
    if isinstance(value, dt.datetime):
        return value.toordinal() if down or value.time() == dt.time() else None
    if isinstance(value, dt.date):
        return value.toordinal()
    return value if isinstance(value, int) else None


# Levels of listed values


def _parse_levels(domain: Domain, levels: Any) -> tuple[Level, ...]:
    """Parse nested lists or mappings of the values; the outermost is the coarsest level."""
    if levels is None:
        return ()
    if domain.values is None or not isinstance(levels, (Mapping, list, tuple)):
        raise InvalidParameter(
            "levels",
            levels,
            "groups of the listed values, in nested lists or mappings",
            fix='for example, values = ["Oslo", "Rome"] and levels = { north = ["Oslo"], south = ["Rome"] }',
        )
    depth = _nesting_depth(levels)
    if depth < 2:
        rule = "nested lists with every value at the same depth"
        raise InvalidParameter("levels", levels, rule, fix='write [["A00", "A01"], ["B00"]]')
    leaf_values = parse_entries(domain.type, leaves(levels), "levels")
    expected_values = [value for value in domain.values if value != domain.other or value in leaf_values]
    if len(set(leaf_values)) != len(leaf_values) or set(leaf_values) != set(expected_values):
        rule = "nested lists that contain every listed value exactly once, and nothing else"
        raise InvalidParameter("levels", levels, rule, fix=_level_values_fix(leaf_values, expected_values))
    other_values = [value for value in domain.values if value not in set(expected_values)]
    return tuple(_build_level(domain, levels, level_depth, other_values) for level_depth in range(depth - 1, 0, -1))


def _level_values_fix(leaf_values: Sequence[Value], expected_values: Sequence[Value]) -> str:
    """Name a value that the levels lack, or that they have in excess."""
    in_levels, expected = set(leaf_values), set(expected_values)
    missing = next((value for value in expected_values if value not in in_levels), None)
    if missing is not None:
        return f"add {_format_value(missing)} to levels"
    unknown = next((value for value in leaf_values if value not in expected), None)
    if unknown is not None:
        return f"remove {_format_value(unknown)} from levels"
    repeated = next(value for value, count in Counter(leaf_values).items() if count > 1)
    return f"remove the second {_format_value(repeated)} from levels"


def _nesting_depth(levels: Any) -> int:
    """Return the nesting depth of the values; 0 if it is uneven or a list is empty."""
    if not isinstance(levels, (Mapping, list, tuple)):
        return 0
    child_depths = {_nesting_depth(child) for child in _children(levels)}
    has_leaf = any(not isinstance(child, (Mapping, list, tuple)) for child in _children(levels))
    if len(child_depths) != 1 or (0 in child_depths and not has_leaf):
        return 0
    return 1 + child_depths.pop()


def _children(levels: Any) -> list[Any]:
    return list(levels.values()) if isinstance(levels, Mapping) else list(levels)


def _build_level(domain: Domain, levels: Any, level_depth: int, other_values: Sequence[Value]) -> Level:
    """Return the level at one depth; each of ``other_values`` is a part by itself, after the others."""
    parts = list(_parts_at_depth(levels, level_depth, ""))
    part_of = {
        parse_value(domain.type, leaf, "levels"): index for index, (_, members) in enumerate(parts) for leaf in members
    }
    part_of |= {value: len(parts) + index for index, value in enumerate(other_values)}
    labels = [label for label, _ in parts] + [str(value) for value in other_values]
    assert domain.values is not None
    return Level(tuple(part_of[value] for value in domain.values), "", tuple(labels) if all(labels) else ())


def _parts_at_depth(levels: Any, level_depth: int, label: str) -> Iterator[tuple[str, list[object]]]:
    if level_depth == 0:
        yield label, leaves(levels)
        return
    children = levels.items() if isinstance(levels, Mapping) else (("", child) for child in levels)
    for name, child in children:
        yield from _parts_at_depth(child, level_depth - 1, str(name))


def parse_conditions(declared: object, place: str) -> tuple[str, ...]:
    """Parse the conditions that no row satisfies."""
    if not isinstance(declared, (list, tuple)) or len(declared) > MAX_IMPOSSIBLE:
        raise InvalidPolicy(
            f"impossible must be a list of at most {MAX_IMPOSSIBLE:,} conditions",
            place=place,
            fix='for example, write impossible = ["age < 15 AND married"]',
        )
    for index, condition in enumerate(declared):
        if not isinstance(condition, str) or not condition.strip():
            raise InvalidPolicy(
                "a condition must be SQL in quotes", place=f"{place}[{index}]", fix='write "age < 15 AND married"'
            )
    return tuple(declared)


T = TypeVar("T")
_CODING_KEYS = ("bins", "levels", "spikes")
_DOMAIN_KEYS = ("type", "bounds", "values", "grid", "nullable", "max_length", "other", "most_items")
_COLUMN_KEYS = (*_DOMAIN_KEYS, *_CODING_KEYS, *RULE_KEYS)


def with_policy_path(place: str, make: Callable[[], T]) -> T:
    """Return ``make()``; turn an InvalidParameter into an InvalidPolicy with the path in the policy."""
    try:
        return make()
    except InvalidParameter as refusal:
        rule, path, fix = refusal.rule, f"{place}.{refusal.parameter}", refusal.fix
    raise InvalidPolicy(rule, place=path, fix=fix)


def parse_columns(columns: object, place: str) -> dict[str, Domain | ListColumn]:
    if not isinstance(columns, Mapping):
        raise InvalidPolicy(
            "columns must be a section with one key per column",
            place=place,
            fix='for example, write age = { type = "integer", bounds = [0, 110] }',
        )
    for column in columns:
        check_name(column, "a column", f"{place}.{column}")
    check_distinct_names(columns, place)
    return {name: _parse_domain(value, f"{place}.{name}") for name, value in columns.items()}


def _parse_domain(value: object, place: str) -> Domain | ListColumn:
    if isinstance(value, (Domain, ListColumn)):
        return value
    if not isinstance(value, Mapping):
        raise InvalidPolicy("a column needs a type", place=place, fix='write { type = "text" }')
    check_keys(value, _COLUMN_KEYS, place)
    domain_keys = _domain_keys(value)
    most_items = domain_keys.pop("most_items", None)
    if most_items is not None and any(name in value for name in _CODING_KEYS):
        raise InvalidPolicy(
            "a column with most_items holds lists, and cannot have bins, levels or spikes",
            place=f"{place}.most_items",
            fix="remove bins, levels and spikes",
        )
    kind = domain_keys.pop("type", None) or common_type(domain_keys.get("values"))
    if kind is None:
        raise InvalidPolicy(
            "a column needs a type, or listed values of one type",
            place=f"{place}.type",
            fix='add type = "integer", or "real", "text", "boolean", "date", "timestamp"',
        )
    domain = with_policy_path(place, lambda: Domain(kind, **domain_keys))
    return domain if most_items is None else with_policy_path(place, lambda: ListColumn(domain, most_items))


def _domain_keys(declaration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declaration of a column without its coding keys; nested levels also list its values."""
    domain_keys = {name: value for name, value in declaration.items() if name in _DOMAIN_KEYS}
    levels = declaration.get("levels")
    if (
        "values" not in domain_keys
        and "bounds" not in domain_keys
        and "bins" not in declaration
        and _is_nested_values(levels)
    ):
        domain_keys["values"] = leaves(levels)
    return domain_keys


def _is_nested_values(levels: object) -> bool:
    """Return whether levels are nested values, not edges or periods."""
    return isinstance(levels, Mapping) or (
        isinstance(levels, (list, tuple)) and bool(levels) and all(isinstance(item, (list, tuple)) for item in levels)
    )


def parse_codings(columns: object, declared: object, place: str) -> dict[str, Coding]:
    """Parse the codings of columns declared with bins, levels or spikes, and add those given as ``Coding``."""
    codings = dict(declared) if isinstance(declared, Mapping) else {}
    for name, declaration in columns.items() if isinstance(columns, Mapping) else ():
        if isinstance(declaration, Mapping) and any(key in declaration for key in _CODING_KEYS):
            domain = _parse_domain(declaration, f"{place}.{name}")
            assert isinstance(domain, Domain)
            cells = [declaration.get(key) for key in _CODING_KEYS]
            codings[name] = with_policy_path(f"{place}.{name}", lambda d=domain, c=cells: parse_coding(d, *c))  # type: ignore[misc]
    return codings


def declared_rules(columns: object, given: object) -> dict[str, Any]:
    """Return the cell rules of columns as they are declared: among the keys of a column, or by themselves."""
    rules = dict(given) if isinstance(given, Mapping) else {}
    for name, declaration in columns.items() if isinstance(columns, Mapping) else ():
        if isinstance(declaration, Mapping) and any(key in declaration for key in RULE_KEYS):
            rules[name] = {key: declaration[key] for key in RULE_KEYS if key in declaration}
    return rules


def parse_column_rules(
    declared: Mapping[str, Any], columns: Mapping[str, Domain], lists: Mapping[str, ListColumn], place: str
) -> dict[str, CellRules]:
    """Parse the cell rules of a table's columns; refuse those of a list or of a column that is not declared."""
    parsed: dict[str, CellRules] = {}
    for name, rules in declared.items():
        path = f"{place}.{name}"
        if not isinstance(rules, (CellRules, Mapping)):
            raise InvalidPolicy(
                "cell rules must be a mapping of keys to values",
                place=path,
                fix='write {"format": "%d.%m.%Y"}, or remove the rules of this column',
            )
        if name in lists:
            keys = _rule_keys(rules)
            names = ", ".join(keys)
            raise InvalidPolicy(f"{names} cannot be set for a list column", place=path, fix=f"remove {names}")
        if name not in columns:
            raise InvalidPolicy(
                "cell rules can only be set for a declared column", place=path, fix=f"declare {name} in columns"
            )
        column_rules = with_policy_path(path, lambda d=columns[name], r=rules: parse_rules(_rule_keys(r), d))  # type: ignore[misc]
        parsed |= {name: column_rules} if column_rules != CellRules() else {}
    return parsed


def _rule_keys(rules: CellRules | Mapping[str, Any]) -> Mapping[str, Any]:
    return rules.keys if isinstance(rules, CellRules) else rules
