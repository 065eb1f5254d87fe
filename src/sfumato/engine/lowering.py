"""A bounded plan is lowered to the one statement that reads private rows: exact whole totals per group, within limits.

Everything a row contributes is a whole number of steps; sums of them are exact whatever the order of rows. Where a
contribution is scaled, it is a function of the unit's own rows alone and rounds toward zero.

Most units are within their limits, and reading their rows once costs little. So the totals are those of all rows as
they are, plus a correction that only the rows of units beyond a limit are looked at for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sfumato.engine.relation_lowering import Columns, RelationLowering, Stages, every, plain, same, staged, token
from sfumato.engine.relational import (
    Aggregation,
    Apply,
    Constant,
    Join,
    Listed,
    Named,
    Operation,
    Place,
    Rank,
    Reference,
    Relation,
    Scalar,
    Select,
    Span,
    Statement,
    Total,
    Union,
    Wide,
    apply,
    whole,
)
from sfumato.engine.row_lowering import RowLowering, present, real
from sfumato.engine.step_lowering import as_real, clamped, narrow, real_of_wide, steps, wide
from sfumato.plan import keys as group_keys, nodes
from sfumato.plan.bounding import Bounded, Scaled, longest
from sfumato.plan.keys import MOST_GROUPS, World
from sfumato.plan.limits import Strategy
from sfumato.plan.measures import Contribution
from sfumato.policy import Type
from sfumato.policy.values import MOST_ROWS

_LARGEST = 2**61
"""A unit's own total is cut here before it is scaled: two of them together fit 64 bits."""


def statement(bounded: Bounded, key: int) -> Statement:
    """The statement whose rows are (key…, total…), one for each group that has a row; ``key`` decides the sample."""
    relations = RelationLowering(key)
    rows = _rows(bounded, relations)
    sampled = bounded.strategy is Strategy.SAMPLE
    limited = _sample(bounded, rows, key) if sampled else _LOWERINGS[bounded.strategy](bounded, rows)
    return replace(limited, stages=(*relations.stages, *limited.stages))


def distinct(world: World) -> Statement:
    """The different results of expressions on every combination of public values: no table is read.

    The values of each list of choices are a parameter of the statement, in their order.
    """
    parts = _choices(world)
    source = Select(
        tuple((f"c{index}", Reference("x", f"d{index}")) for index in range(len(parts))),
        parts[0],
        part="d0",
        joins=tuple(Join(each, f"d{index}") for index, each in enumerate(parts[1:], 1)),
    )
    lowering = RowLowering({field: Reference(f"c{index}") for index, (field, _, _) in enumerate(world.choices)})
    made = tuple((f"k{index}", lowering.lower(each)) for index, each in enumerate(world.expressions))
    tests = tuple(lowering.lower(each) for each in world.conditions)
    keys = tuple(name for name, _ in made)
    evaluated = Select(made, staged(source, lowering), where=tests)
    return Statement((), Select(same(keys), evaluated, grouped=keys))


def _choices(world: World) -> list[Relation]:
    found: list[Relation] = []
    lists = 0
    for _, domain, choices in world.choices:
        if isinstance(choices, group_keys.Span):
            found.append(Span(Constant(choices.first, domain.type), choices.count))
        else:
            lists += 1
            found.append(Listed(lists, domain.type))
    return found


@dataclass(frozen=True)
class _Rows:
    """Every row that counts, as (unit, key…, value…); without the unit where every row is one."""

    select: Select
    keys: tuple[str, ...]
    kinds: tuple[Type, ...]
    """Of the keys."""
    values: tuple[str, ...]
    """One whole number per row for each coordinate of each measure."""
    ones: frozenset[str]
    """The values that are 1 in every row."""
    maximal: frozenset[str]
    """The values that a unit contributes once per group: units are counted, not rows."""

    @property
    def telling(self) -> list[str]:
        """The values that tell rows of a group apart."""
        return [name for name in self.values if name not in self.ones]

    @property
    def exact(self) -> tuple[str, ...]:
        """Columns for a unit's totals as they are, beside those that are clipped, where totals are corrected."""
        return () if self.maximal or not self.keys else tuple(f"w{name[1:]}" for name in self.values)

    def without_unit(self) -> Select:
        return replace(self.select, columns=self.select.columns[1:])


def _sum(scalar: Scalar) -> Scalar:
    return Total(Aggregation.SUM, scalar)


def _or_zero(total: Scalar) -> Scalar:
    return apply(Operation.COALESCE, total, Constant(0, Wide.INTEGER))


def _bits(bounded: Bounded) -> list[int]:
    return [each.bits for each in bounded.measures for _ in range(each.coordinates)]


# The five boundings


def _whole(_: Bounded, rows: _Rows) -> Statement:
    totals = tuple((name, _total(rows, name)) for name in rows.values)
    return Statement((), Select((*same(rows.keys), *totals), rows.select, grouped=rows.keys))


def _total(rows: _Rows, name: str) -> Scalar:
    return Total(Aggregation.COUNT) if name in rows.ones else _or_zero(_sum(Reference(name)))


def _reweight(bounded: Bounded, rows: _Rows) -> Statement:
    """Every row as it is, less what the rows of units with more than m count too much."""
    most = bounded.limits.rows
    excess = [
        (name, _sum(_excess(Reference(name), most, bits)))
        for name, bits in zip(rows.values, _bits(bounded), strict=True)
    ]
    beyond = _beyond(rows, (*same(("u", *rows.keys, *rows.values), "r"), ("n", Reference("n", "h"))))
    correction = Select((*same(rows.keys), *excess), beyond, grouped=rows.keys)
    return _corrected(bounded, rows, (_heavy(rows, most),), correction)


def _excess(value: Scalar, most: int, bits: int) -> Scalar:
    """What a row counts, rounded toward zero, less what it counts as it is."""
    weighted = apply(Operation.DIVIDE_WHOLE, apply(Operation.MULTIPLY, value, whole(most << bits)), Reference("n"))
    return apply(Operation.SUBTRACT, weighted, apply(Operation.MULTIPLY, value, whole(1 << bits)))


def _heavy(rows: _Rows, most: int) -> tuple[str, Select]:
    """The units with more rows than this, and how many they have."""
    count = Total(Aggregation.COUNT)
    having = apply(Operation.GREATER, count, whole(most))
    return "h", Select((*same("u"), ("n", count)), rows.select, grouped=("u",), having=having)


def _beyond(rows: _Rows, columns: Columns) -> Select:
    """The rows of those units."""
    same_unit = apply(Operation.EQUAL, Reference("u", "r"), Reference("u", "h"))
    return Select(columns, rows.select, joins=(Join(Named("h"), "h", same_unit),))


def _corrected(bounded: Bounded, rows: _Rows, stages: Stages, correction: Select) -> Statement:
    """Totals of all rows as they are, plus a correction per group."""
    plain = tuple(
        (name, apply(Operation.MULTIPLY, wide(_plain_total(rows, name)), Constant(1 << bits, Wide.INTEGER)))
        for name, bits in zip(rows.values, _bits(bounded), strict=True)
    )
    source = rows.select if rows.maximal else rows.without_unit()
    uncorrected = Select((*same(rows.keys), *plain), source, grouped=rows.keys)
    totals = tuple((name, _or_zero(_sum(Reference(name)))) for name in rows.values)
    both = Union((uncorrected, correction))
    return Statement(stages, Select((*same(rows.keys), *totals), both, grouped=rows.keys))


def _plain_total(rows: _Rows, name: str) -> Scalar:
    if name not in rows.maximal:
        return Total(Aggregation.COUNT) if name in rows.ones else _sum(Reference(name))
    counted = None if name in rows.ones else apply(Operation.EQUAL, Reference(name), whole(1))
    return Total(Aggregation.UNITS, Reference("u"), counted)


def _clip(bounded: Bounded, rows: _Rows) -> Statement:
    """First per group to c rows' worth, then over all groups to the norm.

    A unit with no more rows than may count in one group is within every norm: where rows are added up, only the units
    with more are looked at group by group.
    """
    scaling = [_Scaling.of(bounded, number) for number in range(len(bounded.measures))]
    if not rows.keys:  # one group: the cap is the norm
        totals = tuple((name, _or_zero(_sum(Reference(name)))) for name in rows.values)
        return Statement(_cut_stages(bounded, rows, rows.select, scaling), Select(totals, Named("c")))
    scaled = [each for part in scaling for each in part.scaled()]
    if rows.maximal:
        totals = tuple((name, _or_zero(_sum(scalar))) for name, scalar in scaled)
        stages = (*_cut_stages(bounded, rows, rows.select, scaling), _norms(scaling))
        return Statement(stages, Select((*same(rows.keys), *totals), _measured(rows, scaling), grouped=rows.keys))
    excess = tuple(
        (name, _sum(apply(Operation.SUBTRACT, wide(each), Reference(exact))))
        for (name, each), exact in zip(scaled, rows.exact, strict=True)
    )
    correction = Select((*same(rows.keys), *excess), _measured(rows, scaling), grouped=rows.keys)
    beyond = _beyond(rows, same(("u", *rows.keys, *rows.values), "r"))
    heavy = _heavy(rows, min(bounded.limits.rows_per_group, bounded.limits.total))
    stages = (heavy, *_cut_stages(bounded, rows, beyond, scaling), _norms(scaling))
    return _corrected(bounded, rows, stages, correction)


def _cut_stages(bounded: Bounded, rows: _Rows, source: Select, scaling: Sequence[_Scaling]) -> Stages:
    """Each unit's totals in each group, and these cut to what may count there."""
    names = ("u", *rows.keys)
    sizes = [each.size for each in bounded.measures for _ in range(each.coordinates)]
    most = MOST_ROWS * nodes.multiplicity(bounded.plan.source)
    totals = [(name, _unit_total(rows, name, most * size)) for name, size in zip(rows.values, sizes, strict=True)]
    totals += [
        (name, apply(Operation.MULTIPLY, _sum(Reference(value)), Constant(1 << bits, Wide.INTEGER)))
        for name, value, bits in zip(rows.exact, rows.values, _bits(bounded), strict=False)
    ]
    grouped = Select((*same(names), *totals), source, grouped=names)
    capped = [each for part in scaling for each in part.capped()]
    return ("g", grouped), ("c", Select((*same(names), *capped, *same(rows.exact)), Named("g")))


def _unit_total(rows: _Rows, name: str, most: int) -> Scalar:
    """A unit's total in one group, within what can be scaled; no table gives more than ``most``."""
    if name in rows.maximal:
        return Total(Aggregation.MAX, Reference(name))
    total = _sum(Reference(name))
    ends = Constant(-_LARGEST, Wide.INTEGER), Constant(_LARGEST, Wide.INTEGER)
    return narrow(total if most <= _LARGEST else clamped(total, *ends))


def _norms(scaling: Sequence[_Scaling]) -> tuple[str, Select]:
    return "n", Select((*same("u"), *(part.norm() for part in scaling)), Named("c"), grouped=("u",))


def _measured(rows: _Rows, scaling: Sequence[_Scaling]) -> Select:
    """What is cut, beside the norms of its unit."""
    own = same((*rows.keys, *rows.values, *rows.exact), "r")
    lengths = same((part.length for part in scaling), "n")
    same_unit = apply(Operation.EQUAL, Reference("u", "r"), Reference("u", "n"))
    return Select((*own, *lengths), Named("c"), joins=(Join(Named("n"), "n", same_unit),))


@dataclass(frozen=True)
class _Scaling:
    """How one measure's coordinates are cut in each group and scaled over all of them."""

    own: tuple[str, ...]
    length: str
    """The column of the unit's norm."""
    most: int
    """The largest size in one group."""
    bits: int
    bound: int
    """The norm, rounded down."""
    squared: bool

    @classmethod
    def of(cls, bounded: Bounded, number: int) -> _Scaling:
        measure = bounded.measures[number]
        index = sum(each.coordinates for each in bounded.measures[:number])
        own = tuple(f"v{index + offset}" for offset in range(measure.coordinates))
        limits = bounded.limits.of_measure(measure.measure)
        per_group, total = limits.rows_per_group, limits.total
        size, squared = measure.size << measure.bits, bounded.strategy is Strategy.CLIP_L2
        bound = math.isqrt(longest(per_group * size, total * size)) if squared else total * size
        return cls(own, f"n{number}", measure.size * per_group, measure.bits, bound, squared)

    def capped(self) -> Columns:
        """A unit's totals in one group, scaled to at most c rows' worth."""
        size = self._size()
        fits = apply(Operation.AT_MOST, size, whole(self.most))
        cut = []
        for name in self.own:
            finer = apply(Operation.MULTIPLY, Reference(name), whole(1 << self.bits))
            scaled = _times(Reference(name), self.most << self.bits, as_real(size))
            cut.append((name, apply(Operation.CASE, fits, finer, scaled)))
        return tuple(cut)

    def norm(self) -> tuple[str, Scalar]:
        """Exact, so that it does not depend on the order of groups."""
        if self.squared:
            squares = [apply(Operation.MULTIPLY, wide(Reference(name)), wide(Reference(name))) for name in self.own]
            return self.length, _sum(_added(squares))
        return self.length, narrow(_sum(self._size())) if self._short else _sum(self._size())

    def scaled(self) -> list[tuple[str, Scalar]]:
        """The cut totals, scaled to the norm."""
        length = Reference(self.length)
        norm = as_real(length) if self._short else real_of_wide(length)
        bound = self.bound**2 if self.squared else self.bound
        fits = apply(Operation.AT_MOST, length, whole(bound) if self._short else Constant(bound, Wide.INTEGER))
        root = apply(Operation.SQRT, norm) if self.squared else norm
        return [
            (name, apply(Operation.CASE, fits, Reference(name), _times(Reference(name), self.bound, root)))
            for name in self.own
        ]

    @property
    def _short(self) -> bool:
        """Whether 64 bits hold the norm, whatever groups there are."""
        return not self.squared and (self.most << self.bits) * MOST_GROUPS <= _LARGEST

    def _size(self) -> Scalar:
        return _added([apply(Operation.ABS, Reference(name)) for name in self.own])


def _added(scalars: Sequence[Scalar]) -> Scalar:
    return scalars[0] if len(scalars) == 1 else Apply(Operation.ADD, tuple(scalars))


def _times(value: Scalar, bound: int, size: Scalar) -> Scalar:
    """value · bound / size, rounded toward zero."""
    product = apply(Operation.MULTIPLY, as_real(value), real(bound))
    return apply(Operation.TOWARD_ZERO, apply(Operation.DIVIDE, product, size))


# Samples


def _sample(bounded: Bounded, rows: _Rows, key: int) -> Statement:
    """Every row as it is, less those of units beyond a limit that are not kept.

    Rows are ranked by the digest of the key and of what they are. First the groups are chosen, then the rows in each,
    then the rows in all; a limit that the others imply is not looked at.
    """
    limits = bounded.limits
    per_unit = limits.groups if limits.groups < limits.rows else None
    per_group = limits.rows_per_group if limits.rows_per_group < limits.rows else None
    in_all = limits.rows if limits.total == limits.rows else None
    light = min(each for each in (limits.rows, per_unit, per_group) if each is not None)
    ranked = _beyond(rows, (*same(("u", *rows.keys, *rows.values), "r"), *_digests(rows, key, per_unit is not None)))
    kept: list[Scalar] = []
    keys, values = [Reference(each) for each in rows.keys], [Reference(each) for each in rows.telling]
    places = []
    if per_unit is not None:
        places.append(("a", Rank((Reference("u"),), (Reference("s"), *keys), place=Place.DENSE_RANK)))
        kept.append(apply(Operation.AT_MOST, Reference("a"), whole(per_unit)))
    if per_group is not None:
        places.append(("b", Rank((Reference("u"), *keys), (Reference("t"), *values))))
        kept.append(apply(Operation.AT_MOST, Reference("b"), whole(per_group)))
    if places:
        ranked = Select(tuple(places), ranked, everything=True)
    if in_all is not None:
        first = [apply(Operation.CASE, every(kept), whole(0), whole(1))] if kept else []
        place = Rank((Reference("u"),), (*first, Reference("t"), *keys, *values))
        ranked = Select((("d", place),), ranked, everything=True)
        kept.append(apply(Operation.AT_MOST, Reference("d"), whole(in_all)))
    return _corrected(bounded, rows, (_heavy(rows, light),), _dropped(rows, ranked, every(kept)))


def _digests(rows: _Rows, key: int, grouped: bool) -> Columns:
    """s, the rank of a group, where groups are chosen; t, that of a row."""
    keys = [token(Reference(name, "r"), kind) for name, kind in zip(rows.keys, rows.kinds, strict=True)]
    values = [token(Reference(name, "r"), Type.INTEGER) for name in rows.telling]
    secret = Constant(str(key), Type.TEXT)
    row = ("t", apply(Operation.DIGEST, secret, *keys, *values))
    return (("s", apply(Operation.DIGEST, secret, *keys)), row) if grouped else (row,)


def _dropped(rows: _Rows, ranked: Select, kept: Scalar) -> Select:
    """What is not kept, counted against the totals; a unit of whose rows in a group none is kept no longer counts."""
    if not rows.maximal:
        lost = tuple((name, _sum(apply(Operation.NEGATE, Reference(name)))) for name in rows.values)
        return Select((*same(rows.keys), *lost), ranked, where=(apply(Operation.NOT, kept),), grouped=rows.keys)
    names = ("u", *rows.keys)
    lost = tuple((name, _lost(rows, name, kept)) for name in rows.values)
    of_units = Select((*same(names), *lost), ranked, grouped=names)
    return Select(
        (*same(rows.keys), *((name, _sum(Reference(name))) for name in rows.values)), of_units, grouped=rows.keys
    )


def _lost(rows: _Rows, name: str, kept: Scalar) -> Scalar:
    value = Reference(name)
    if name not in rows.maximal:
        return _sum(apply(Operation.CASE, kept, whole(0), apply(Operation.NEGATE, value)))
    left = Total(Aggregation.MAX, apply(Operation.CASE, kept, value, whole(0)))
    return apply(Operation.SUBTRACT, left, Total(Aggregation.MAX, value))


_LOWERINGS: dict[Strategy, Callable[[Bounded, _Rows], Statement]] = {
    Strategy.WHOLE: _whole,
    Strategy.REWEIGHT: _reweight,
    Strategy.CLIP_L1: _clip,
    Strategy.CLIP_L2: _clip,
}


# Rows


def _rows(bounded: Bounded, relations: RelationLowering) -> _Rows:
    plan, unit = bounded.plan, bounded.strategy is not Strategy.WHOLE
    source = relations.flat(plan.source, plan.expressions, unit=unit)
    lowering = source.lowering
    keys = [lowering.lower(key) for key in plan.keys]
    keys = [key if each.domain.nullable else lowering.shared(key) for key, each in zip(keys, plan.keys, strict=True)]
    tests = [present(key) for key, each in zip(keys, plan.keys, strict=True) if not each.domain.nullable]
    values = [_row_values(measure, lowering) for measure in bounded.measures]
    flat = [(f"v{index}", value) for index, value in enumerate(value for found in values for value in found)]
    named = tuple((f"k{index}", key) for index, key in enumerate(keys))
    maximal = [each.measure.once_per_unit for each in bounded.measures for _ in range(each.coordinates)]
    select = source.selected((*(same("u") if unit else ()), *named, *flat), tests)
    if unit and not plain(plan.source):  # limiting reads the rows several times
        select = Select(same(name for name, _ in select.columns), relations.stage(select))
    return _Rows(
        select,
        tuple(name for name, _ in named),
        tuple(each.domain.type for each in plan.keys),
        tuple(name for name, _ in flat),
        frozenset(name for name, value in flat if value == whole(1)),
        frozenset(name for (name, _), once in zip(flat, maximal, strict=True) if once),
    )


def _row_values(scaled: Scaled, lowering: RowLowering) -> list[Scalar]:
    """What one row contributes to each coordinate: a whole number, 0 where the predicate or the value is missing."""
    where = scaled.measure.where
    tests = [] if where is None else [lowering.lower(where)]
    again = scaled.coordinates > 1  # the same steps are added to one total and taken from another
    return [_row_value(each, tests, lowering, again) for each in scaled.contributions]


def _row_value(each: Contribution, tests: list[Scalar], lowering: RowLowering, again: bool) -> Scalar:
    if each.value is None:
        return apply(Operation.CASE, tests[0], whole(1), whole(0)) if tests else whole(1)
    value = lowering.shared(lowering.lower(each.value))
    counted = steps(each.value, value, each)
    counted = lowering.shared(counted) if again else counted
    added = apply(Operation.SUBTRACT, whole(each.high), counted) if each.mirrored else counted
    return apply(Operation.CASE, every([*tests, present(value)]), added, whole(0))
