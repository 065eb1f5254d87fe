"""The one statement that reads private rows: exact whole totals per group, with the limits of a unit enforced in it.

Everything a row contributes is a whole number of steps; sums of them are exact whatever the order of rows. Where a
contribution is scaled, it is a function of the unit's own rows alone and rounds toward zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sfumato.engine.expressions import render
from sfumato.engine.literals import name
from sfumato.plan.bounding import Bounded, Scaled, longest
from sfumato.plan.expressions import Column, Expression, Field, Reference
from sfumato.plan.limits import Bounding, Limits
from sfumato.plan.measures import Contribution
from sfumato.plan.nodes import Filter, Join, Relation, Scan as Scanned, relations
from sfumato.policy import Type

Scan = Callable[[str], str]
"""From a table's name to the view that scans it."""

UNIT = "sf_unit"


@dataclass(frozen=True)
class _Parts:
    """A plan in pieces of SQL."""

    origin: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    """One whole number per row for each coordinate of each measure."""
    maximal: tuple[bool, ...]
    """Which of them a unit contributes once per group: units are counted, not rows."""

    @property
    def named_keys(self) -> list[str]:
        return [f"k{index}" for index in range(len(self.keys))]

    @property
    def named_values(self) -> list[str]:
        return [f"v{index}" for index in range(len(self.values))]

    def rows(self, unit: bool) -> str:
        """SELECT unit, keys, values of every row."""
        columns = [f"{made} AS k{index}" for index, made in enumerate(self.keys)]
        columns += [f"{made} AS v{index}" for index, made in enumerate(self.values)]
        return f"SELECT {', '.join([f't.{UNIT} AS u'] * unit + columns)} {self.origin}"


def statement(bounded: Bounded, scan: Scan, key: int) -> str:
    """SQL whose rows are (key…, total…): one for each group that has a row."""
    parts = _parts(bounded, scan)
    if bounded.bounding is Bounding.SAMPLE:
        return _sample(bounded, parts, key)
    return _WAYS[bounded.bounding](bounded, parts)


def _whole(_: Bounded, parts: _Parts) -> str:
    totals = [f"COALESCE(SUM({made}), 0)" if made != "1" else "COUNT(*)" for made in parts.values]
    grouping = f" GROUP BY {_listed(range(1, len(parts.keys) + 1))}" if parts.keys else ""
    return f"SELECT {', '.join([*parts.keys, *totals])} {parts.origin}{grouping}"


def _reweight(bounded: Bounded, parts: _Parts) -> str:
    """Every row as it is, less what the rows of units with more than m count too much."""
    most = bounded.limits.rows
    excess = [
        f"SUM(({name} * {most << bits}) // n - {name} * {1 << bits}) AS {name}"
        for name, bits in zip(parts.named_values, _bits(bounded), strict=True)
    ]
    correction = f"SELECT {', '.join([*parts.named_keys, *excess])} FROM ({parts.rows(unit=True)}) JOIN h USING (u)"
    return f"WITH h AS ({_heavy(parts, most)}) {_corrected(bounded, parts, correction + _grouped(parts))}"


def _heavy(parts: _Parts, most: int) -> str:
    """The units with more rows than this, and how many they have."""
    return f"SELECT t.{UNIT} AS u, COUNT(*) AS n {parts.origin} GROUP BY 1 HAVING COUNT(*) > {most}"


def _corrected(bounded: Bounded, parts: _Parts, correction: str) -> str:
    """Totals of all rows as they are, plus a correction per group: most units are within their limits, and reading
    their rows once costs little.
    """
    keys = [f"{made} AS k{index}" for index, made in enumerate(parts.keys)]
    plain = [
        f"{'COUNT(*)' if made == '1' else f'SUM({made})'}::HUGEINT * {1 << bits} AS v{index}"
        for index, (made, bits) in enumerate(zip(parts.values, _bits(bounded), strict=True))
    ]
    grouping = f" GROUP BY {_listed(range(1, len(parts.keys) + 1))}" if parts.keys else ""
    totals = [f"COALESCE(SUM({name}), 0)" for name in parts.named_values]
    return (
        f"SELECT {', '.join([*parts.named_keys, *totals])} FROM (SELECT {', '.join([*keys, *plain])} {parts.origin}"
        f"{grouping} UNION ALL {correction}){_grouped(parts)}"
    )


def _clip(bounded: Bounded, parts: _Parts) -> str:
    """First per group to c rows' worth, then over all groups to the norm.

    A unit with no more rows than may count in one group is within every norm: where rows are added up, only the units
    with more are looked at group by group.
    """
    names = ", ".join(["u", *parts.named_keys])
    sums = [
        f"{'MAX' if maximal else 'SUM'}({name}) AS {name}"
        for name, maximal in zip(parts.named_values, parts.maximal, strict=True)
    ]
    capped, norms, scaled = _scaling(bounded)
    rows = f"({parts.rows(unit=True)})"
    cut = f"c AS (SELECT {names}, {', '.join(capped)} FROM g)"
    if not parts.keys:  # one group: the cap is the norm
        totals = ", ".join(f"COALESCE(SUM({name}), 0)" for name in parts.named_values)
        return (
            f"WITH g AS (SELECT {names}, {', '.join(sums)} FROM {rows} GROUP BY {names}), {cut} SELECT {totals} FROM c"
        )
    lengths = f"n AS (SELECT u, {', '.join(norms)} FROM c GROUP BY u)"
    if any(parts.maximal):
        made = [f"COALESCE(SUM({each}), 0)" for each in scaled]
        grouped = f"g AS (SELECT {names}, {', '.join(sums)} FROM {rows} GROUP BY {names})"
        chosen = f"SELECT {', '.join([*parts.named_keys, *made])} FROM c JOIN n USING (u){_grouped(parts)}"
        return f"WITH {grouped}, {cut}, {lengths} {chosen}"
    light = min(bounded.limits.rows_per_group, bounded.limits.total)
    grouped = f"g AS (SELECT {names}, {', '.join(sums)} FROM {rows} JOIN h USING (u) GROUP BY {names})"
    excess = [f"SUM({each} - w{index}) AS v{index}" for index, each in enumerate(scaled)]
    correction = f"SELECT {', '.join([*parts.named_keys, *excess])} FROM c JOIN n USING (u){_grouped(parts)}"
    return f"WITH h AS ({_heavy(parts, light)}), {grouped}, {cut}, {lengths} {_corrected(bounded, parts, correction)}"


def _scaling(bounded: Bounded) -> tuple[list[str], list[str], list[str]]:
    """Columns that cut each group (v, and w as it was), that measure each unit (n), and that scale it to its norm."""
    capped, norms, scaled = [], [], []
    index = 0
    for number, measure in enumerate(bounded.measures):
        own = [f"v{index + offset}" for offset in range(measure.coordinates)]
        capped += [f"{_capped(name, own, measure, bounded.limits)} AS {name}" for name in own]
        capped += [f"{name}::HUGEINT * {1 << measure.bits} AS w{name[1:]}" for name in own]
        index += measure.coordinates
        norms.append(f"{_norm(own, bounded.bounding)} AS n{number}")
        bound = _norm_bound(measure, bounded)
        root = f"SQRT(n{number}::DOUBLE)" if bounded.bounding is Bounding.CLIP_L2 else f"n{number}::DOUBLE"
        test = math.floor(bound * bound) if bounded.bounding is Bounding.CLIP_L2 else math.floor(bound)
        scaled += [
            f"CASE WHEN n{number} <= {test} THEN {name} "
            f"ELSE TRUNC({name}::DOUBLE * {float(bound)!r}::DOUBLE / {root})::BIGINT END"
            for name in own
        ]
    return capped, norms, scaled


def _capped(name: str, own: list[str], measure: Scaled, limits: Limits) -> str:
    """A unit's total in one group, scaled to at most c rows' worth."""
    most = measure.size * limits.of_measure(measure.measure).rows_per_group
    size = " + ".join(f"ABS({each})" for each in own)
    return (
        f"CASE WHEN {size} <= {most} THEN ({name} * {1 << measure.bits})::BIGINT "
        f"ELSE TRUNC({name}::DOUBLE * {float(most << measure.bits)!r}::DOUBLE / ({size})::DOUBLE)::BIGINT END"
    )


def _norm(own: list[str], way: Bounding) -> str:
    """Exact, so that it does not depend on the order of groups."""
    if way is Bounding.CLIP_L1:
        return f"SUM({' + '.join(f'ABS({each})' for each in own)})"
    return f"SUM({' + '.join(f'{each}::HUGEINT * {each}::HUGEINT' for each in own)})"


def _norm_bound(measure: Scaled, bounded: Bounded) -> Fraction:
    limits, size = bounded.limits.of_measure(measure.measure), measure.size << measure.bits
    if bounded.bounding is Bounding.CLIP_L1:
        return Fraction(limits.total * size)
    return Fraction(math.isqrt(longest(limits.rows_per_group * size, limits.total * size)))


def _sample(bounded: Bounded, parts: _Parts, key: int) -> str:
    limits = bounded.limits
    keys, values = parts.named_keys, parts.named_values
    ranked = ", ".join([f"hash({', '.join([str(key), *keys, *values])})", *keys, *values])
    grouped = ", ".join([f"hash({', '.join([str(key), *keys])})", *keys])
    totals = [
        f"COUNT(DISTINCT CASE WHEN {name} = 1 THEN u END)" if maximal else f"COALESCE(SUM({name}), 0)"
        for name, maximal in zip(values, parts.maximal, strict=True)
    ]
    return (
        f"WITH r AS ({parts.rows(unit=True)}), "
        f"g AS (SELECT *, DENSE_RANK() OVER (PARTITION BY u ORDER BY {grouped}) AS a, "
        f"ROW_NUMBER() OVER (PARTITION BY {', '.join(['u', *keys])} ORDER BY {ranked}) AS b FROM r), "
        f"s AS (SELECT * FROM g WHERE a <= {limits.groups} AND b <= {limits.rows_per_group} "
        f"QUALIFY ROW_NUMBER() OVER (PARTITION BY u ORDER BY {ranked}) <= {limits.rows}) "
        f"SELECT {', '.join([*keys, *totals])} FROM s{_grouped(parts)}"
    )


_WAYS: dict[Bounding, Callable[[Bounded, _Parts], str]] = {
    Bounding.WHOLE: _whole,
    Bounding.REWEIGHT: _reweight,
    Bounding.CLIP_L1: _clip,
    Bounding.CLIP_L2: _clip,
}


def _grouped(parts: _Parts) -> str:
    return f" GROUP BY {', '.join(parts.named_keys)}" if parts.keys else ""


def _listed(numbers: range) -> str:
    return ", ".join(map(str, numbers))


def _bits(bounded: Bounded) -> list[int]:
    return [each.bits for each in bounded.measures for _ in range(each.coordinates)]


def _parts(bounded: Bounded, scan: Scan) -> _Parts:
    plan = bounded.plan
    column, tables = _names(plan.source, scan)

    def shown(expression: Expression) -> str:
        return render(expression, column)

    keys = tuple(shown(key) for key in plan.keys)
    tests = [shown(node.predicate) for node in relations(plan.source) if isinstance(node, Filter)]
    tests += [f"{made} IS NOT NULL" for made, key in zip(keys, plan.keys, strict=True) if not key.domain.nullable]
    where = f" WHERE {' AND '.join(f'({test})' for test in tests)}" if tests else ""
    values, maximal = [], []
    for measure in bounded.measures:
        found = _row_values(measure, shown)
        values += found
        maximal += [measure.measure.once_per_unit] * len(found)
    return _Parts(f"FROM {tables}{where}", keys, tuple(values), tuple(maximal))


def _names(source: Relation, scan: Scan) -> tuple[Callable[[Reference], str], str]:
    """How columns are written, and the FROM clause: the scan as t, public tables as j1, j2, …"""
    joins = [node for node in relations(source) if isinstance(node, Join)][::-1]

    def column(reference: Reference) -> str:
        assert isinstance(reference, Field)
        return f"{_alias(reference.source)}.{name(reference.name)}"

    scanned = next(node.table for node in relations(source) if isinstance(node, Scanned))
    text = f"{scan(scanned)} AS t"
    for join in joins:
        alias = _alias(join.source)
        on = " AND ".join(f"{render(made, column)} = {alias}.{name(theirs)}" for made, theirs in join.pairs)
        text += f" {'LEFT' if join.outer else 'INNER'} JOIN {scan(join.table)} AS {alias} ON {on}"
    return column, text


def _alias(source: int) -> str:
    return f"j{source}" if source else "t"


def _row_values(scaled: Scaled, shown: Callable[[Expression], str]) -> list[str]:
    """What one row contributes to each coordinate: a whole number, 0 where the predicate or the value is missing."""
    where = scaled.measure.where
    tests = [] if where is None else [shown(where)]
    return [_row_value(each, tests, shown) for each in scaled.contributions]


def _row_value(each: Contribution, tests: list[str], shown: Callable[[Expression], str]) -> str:
    if each.value is None:
        return f"CASE WHEN {tests[0]} THEN 1 ELSE 0 END" if tests else "1"
    value = shown(each.value)
    steps = _steps(each.value, value, each)
    added = f"{each.high} - {steps}" if each.mirrored else steps
    return f"CASE WHEN {' AND '.join([*tests, f'{value} IS NOT NULL'])} THEN {added} ELSE 0 END"


def _steps(expression: Expression, value: str, each: Contribution) -> str:
    """A value as a whole number of steps from an origin, within [low, high].

    A column is clamped at the scan; what is computed from columns is clamped here before it becomes a whole number, and
    after: a sum is bounded, and no cast fails, whatever a range or a rounding missed.
    """
    step, origin, low, high = each.step, each.origin, each.low, each.high
    whole = expression.domain.type is Type.INTEGER and step == 1
    least, most = (low + origin) * step, (high + origin) * step
    if not isinstance(expression, Column):
        ends = (str(int(least)), str(int(most))) if whole else (_real(least), _real(most))
        value = f"LEAST(GREATEST({value}, {ends[0]}), {ends[1]})"
    if whole:
        steps = f"{value} - {origin}" if origin else value
    else:
        moved = f"({value} - {_real(origin * step)})" if origin else value
        steps = f"CAST(ROUND({moved} / {_real(step)}) AS BIGINT)"
    if isinstance(expression, Column) and not origin:
        return steps  # clamped at the scan, and rounding a number of so few steps is exact
    return f"LEAST(GREATEST({steps}, {low}), {high})"


def _real(number: Fraction) -> str:
    return f"{float(number)!r}::DOUBLE"
