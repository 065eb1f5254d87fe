"""A bounded plan is lowered to the one statement that reads private rows: exact whole totals per group, within limits.

Everything a row contributes is a whole number of steps; sums of them are exact whatever the order of rows. Where a
contribution is scaled, it is a function of the unit's own rows alone and rounds toward zero.

Most units are within their limits, and reading their rows once costs little. So the totals are those of all rows as
they are, plus a correction that only the rows of units beyond a limit are looked at for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.engine.relational import (
    Aggregation,
    Apply,
    Constant,
    Join,
    Listed,
    Named,
    Operation,
    Rank,
    Reference,
    Relation,
    Scalar,
    Select,
    Span,
    Statement,
    Table,
    Total,
    Union,
    Wide,
    apply,
    whole,
)
from sfumato.engine.row_lowering import RowLowering, present, real
from sfumato.plan import keys as group_keys, nodes
from sfumato.plan.bounding import Bounded, Scaled, longest
from sfumato.plan.costs import expressions
from sfumato.plan.expressions import Column, Expression, Field, columns
from sfumato.plan.keys import MOST_GROUPS, World
from sfumato.plan.limits import Strategy
from sfumato.plan.measures import Contribution
from sfumato.plan.nodes import Filter, relations
from sfumato.policy import Type
from sfumato.policy.values import MOST_ROWS

UNIT = "sf_unit"
"""The column of a scan that says whose row it is."""

_LARGEST = 2**61
"""A unit's own total is cut here before it is scaled: two of them together fit 64 bits."""
_HALF = 2**48
_MOST_CODES = 256
"""A key of more texts than these is grouped by as it is: its list would be longer than what it saves."""

Columns = tuple[tuple[str, Scalar], ...]
Stages = tuple[tuple[str, Select], ...]


def statement(bounded: Bounded, key: int) -> Statement:
    """The statement whose rows are (key…, total…), one for each group that has a row; ``key`` decides the sample."""
    rows = _rows(bounded)
    if bounded.strategy is Strategy.WHOLE:
        return _whole(rows)
    rows = _coded(bounded, rows)
    sampled = bounded.strategy is Strategy.SAMPLE
    return _decoded(rows, _sample(bounded, rows, key) if sampled else _LOWERINGS[bounded.strategy](bounded, rows))


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
    evaluated = Select(made, _staged(source, lowering), where=tests)
    return Statement((), Select(_same(keys), evaluated, grouped=keys))


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
    coded: frozenset[str] = frozenset()
    """The keys that are codes of their texts."""

    @property
    def telling(self) -> list[str]:
        """The values that tell rows of a group apart."""
        return [name for name in self.values if name not in self.ones]

    @property
    def exact(self) -> tuple[str, ...]:
        """Columns for a unit's totals as they are, beside those that are clipped, where totals are corrected."""
        return () if self.maximal or not self.keys else tuple(f"w{name[1:]}" for name in self.values)

    @property
    def text_keys(self) -> Columns:
        """The keys, codes as the texts they stand for."""
        texts = {name: apply(Operation.CONVERT, Reference(name), detail=(Type.TEXT,)) for name in self.coded}
        return tuple((name, texts.get(name, Reference(name))) for name in self.keys)


def _same(names: Iterable[str], part: str | None = None) -> Columns:
    """Columns as they are."""
    return tuple((name, Reference(name, part)) for name in names)


def _sum(scalar: Scalar) -> Scalar:
    return Total(Aggregation.SUM, scalar)


def _or_zero(total: Scalar) -> Scalar:
    return apply(Operation.COALESCE, total, Constant(0, Wide.INTEGER))


def _wide(scalar: Scalar) -> Scalar:
    return apply(Operation.CONVERT, scalar, detail=(Wide.INTEGER,))


def _narrow(scalar: Scalar) -> Scalar:
    return apply(Operation.CONVERT, scalar, detail=(Type.INTEGER,))


def _as_real(scalar: Scalar) -> Scalar:
    return apply(Operation.CONVERT, scalar, detail=(Type.REAL,))


def _bits(bounded: Bounded) -> list[int]:
    return [each.bits for each in bounded.measures for _ in range(each.coordinates)]


# The five boundings


def _whole(rows: _Rows) -> Statement:
    source, totals = _added_up(rows)
    return Statement((), Select((*_same(rows.keys), *totals.items()), source, grouped=rows.keys))


def _added_up(rows: _Rows) -> tuple[Select, dict[str, Scalar]]:
    """The rows without whose they are, and the total of each value in a group of them.

    Values that are equal in every row are added up once. The total of high − x is high as often as x is there, less the
    total of x: the same whole number, for which nothing needs to be added up again.
    """
    made = dict(rows.select.columns)
    firsts = {made[name]: name for name in reversed(rows.values)}
    columns = {name: made[name] for name in rows.keys}
    totals: dict[str, Scalar] = {}
    for name in rows.values:
        mirrored = _mirrored(made[name])
        if name in rows.ones:
            totals[name] = _wide(Total(Aggregation.COUNT))
        elif mirrored is None or mirrored[0] not in firsts:
            columns[firsts[made[name]]] = made[name]
            totals[name] = _or_zero(_sum(Reference(firsts[made[name]])))
        else:
            value, counted, high = mirrored
            columns[f"d{name[1:]}"] = counted
            times = _wide(Total(Aggregation.COUNT, Reference(f"d{name[1:]}")))
            most = apply(Operation.MULTIPLY, times, Constant(high, Wide.INTEGER))
            totals[name] = apply(Operation.SUBTRACT, most, _or_zero(_sum(Reference(firsts[value]))))
    return replace(rows.select, columns=tuple(columns.items()) or (("c", whole(0)),)), totals


def _mirrored(scalar: Scalar) -> tuple[Scalar, Scalar, int] | None:
    """Of "high − x where a test holds, else 0": "x where it holds, else 0", what is there where it holds, and high."""
    match scalar:
        case Apply(Operation.CASE, (test, Apply(Operation.SUBTRACT, (Constant(int(high)), x)), Constant(0) as nothing)):
            value = apply(Operation.CASE, test, x, nothing)
            match test:
                case Apply(Operation.NOT, (Apply(Operation.IS_NULL, (tested,)),)):
                    return value, tested, high
            return value, apply(Operation.CASE, test, whole(1)), high
    return None


def _reweight(bounded: Bounded, rows: _Rows) -> Statement:
    """Every row as it is, less what the rows of units with more than m count too much."""
    most = bounded.limits.rows
    excess = [
        (name, _sum(_excess(Reference(name), most, bits)))
        for name, bits in zip(rows.values, _bits(bounded), strict=True)
    ]
    beyond = _beyond(rows, (*_same(("u", *rows.keys, *rows.values), "r"), ("n", Reference("n", "h"))))
    correction = Select((*_same(rows.keys), *excess), beyond, grouped=rows.keys)
    return _corrected(bounded, rows, (_heavy(rows, most),), correction)


def _excess(value: Scalar, most: int, bits: int) -> Scalar:
    """What a row counts, rounded toward zero, less what it counts as it is."""
    weighted = apply(Operation.DIVIDE_WHOLE, apply(Operation.MULTIPLY, value, whole(most << bits)), Reference("n"))
    return apply(Operation.SUBTRACT, weighted, apply(Operation.MULTIPLY, value, whole(1 << bits)))


def _heavy(rows: _Rows, most: int) -> tuple[str, Select]:
    """The units with more rows than this, and how many they have."""
    count = Total(Aggregation.COUNT)
    having = apply(Operation.GREATER, count, whole(most))
    return "h", Select((*_same("u"), ("n", count)), rows.select, grouped=("u",), having=having)


def _beyond(rows: _Rows, columns: Columns) -> Select:
    """The rows of those units."""
    same_unit = apply(Operation.EQUAL, Reference("u", "r"), Reference("u", "h"))
    return Select(columns, rows.select, joins=(Join(Named("h"), "h", same_unit),))


def _corrected(bounded: Bounded, rows: _Rows, stages: Stages, correction: Select) -> Statement:
    """Totals of all rows as they are, plus a correction per group."""
    source, sums = (rows.select, _unit_counts(rows)) if rows.maximal else _added_up(rows)
    plain = tuple((name, _finer(sums[name], bits)) for name, bits in zip(rows.values, _bits(bounded), strict=True))
    uncorrected = Select((*_same(rows.keys), *plain), source, grouped=rows.keys)
    totals = tuple((name, _or_zero(_sum(Reference(name)))) for name in rows.values)
    both = Union((uncorrected, correction))
    return Statement(stages, Select((*_same(rows.keys), *totals), both, grouped=rows.keys))


def _finer(total: Scalar, bits: int) -> Scalar:
    """A total in 2^-bits of a step."""
    return apply(Operation.MULTIPLY, _wide(total), Constant(1 << bits, Wide.INTEGER))


def _unit_counts(rows: _Rows) -> dict[str, Scalar]:
    """Totals where units are counted."""
    return {name: _plain_total(rows, name) for name in rows.values}


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
    most = _unit_mosts(bounded)
    cut = _cut(rows, scaling, most)
    if not rows.keys:  # one group: the cap is the norm
        totals = tuple((name, _or_zero(_sum(Reference(name)))) for name in rows.values)
        return Statement((_unit_totals(rows, rows.select, most),), Select(totals, cut))
    scaled = [each for part in scaling for each in part.scaled()]
    measured = _measured(rows, cut, scaling)
    if rows.maximal:
        totals = tuple((name, _or_zero(_sum(scalar))) for name, scalar in scaled)
        result = Select((*_same(rows.keys), *totals), measured, grouped=rows.keys)
        return Statement((_unit_totals(rows, rows.select, most), _norms(cut, scaling)), result)
    excess = tuple(
        (name, apply(Operation.SUBTRACT, _sum(each), _finer(_sum(Reference(exact)), bits)))
        for (name, each), exact, bits in zip(scaled, rows.exact, _bits(bounded), strict=True)
    )
    correction = Select((*_same(rows.keys), *excess), measured, grouped=rows.keys)
    beyond = _beyond(rows, _same(("u", *rows.keys, *rows.values), "r"))
    heavy = _heavy(rows, min(bounded.limits.rows_per_group, bounded.limits.total))
    stages = (heavy, _unit_totals(rows, beyond, most), _norms(cut, scaling))
    return _corrected(bounded, rows, stages, correction)


def _unit_mosts(bounded: Bounded) -> list[int]:
    """For each value, no table gives a unit a larger total."""
    most = MOST_ROWS * nodes.multiplicity(bounded.plan.source)
    return [most * each.size for each in bounded.measures for _ in range(each.coordinates)]


def _unit_totals(rows: _Rows, source: Select, most: Sequence[int]) -> tuple[str, Select]:
    """Each unit's totals in each group, and beside those that are cut to 64 bits the exact ones to correct by."""
    names = ("u", *rows.keys)
    totals = [(name, _unit_total(rows, name, each)) for name, each in zip(rows.values, most, strict=True)]
    totals += [
        (name, _sum(Reference(value)))
        for name, value, each in zip(rows.exact, rows.values, most, strict=False)
        if each > _LARGEST
    ]
    return "g", Select((*_same(names), *totals), source, grouped=names)


def _unit_total(rows: _Rows, name: str, most: int) -> Scalar:
    """A unit's total in one group, within what can be scaled; no table gives more than ``most``."""
    if name in rows.maximal:
        return Total(Aggregation.MAX, Reference(name))
    if name in rows.ones and most <= _LARGEST:
        return Total(Aggregation.COUNT)
    total = _sum(Reference(name))
    ends = Constant(-_LARGEST, Wide.INTEGER), Constant(_LARGEST, Wide.INTEGER)
    return _narrow(total if most <= _LARGEST else _clamped(total, *ends))


def _cut(rows: _Rows, scaling: Sequence[_Scaling], most: Sequence[int]) -> Select:
    """Units' totals cut to what may count in a group, and as they are: computed twice rather than kept."""
    capped = [each for part in scaling for each in part.capped()]
    exact = tuple(
        (name, Reference(name if each > _LARGEST else value))
        for name, value, each in zip(rows.exact, rows.values, most, strict=False)
    )
    return Select((*_same(("u", *rows.keys)), *capped, *exact), Named("g"))


def _norms(cut: Select, scaling: Sequence[_Scaling]) -> tuple[str, Select]:
    """What each unit is scaled by."""
    norms = Select((*_same("u"), *(part.norm() for part in scaling)), cut, grouped=("u",))
    return "n", Select((*_same("u"), *((part.length, part.beyond()) for part in scaling)), norms)


def _measured(rows: _Rows, cut: Select, scaling: Sequence[_Scaling]) -> Select:
    """What is cut, beside what its unit is scaled by."""
    own = _same((*rows.keys, *rows.values, *rows.exact), "r")
    lengths = _same((part.length for part in scaling), "n")
    same_unit = apply(Operation.EQUAL, Reference("u", "r"), Reference("u", "n"))
    return Select((*own, *lengths), cut, joins=(Join(Named("n"), "n", same_unit),))


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
            scaled = _times(Reference(name), self.most << self.bits, _as_real(size))
            cut.append((name, apply(Operation.CASE, fits, finer, scaled)))
        return tuple(cut)

    def norm(self) -> tuple[str, Scalar]:
        """Exact, so that it does not depend on the order of groups."""
        if self.squared:
            held = len(self.own) * (self.most << self.bits) ** 2 <= _LARGEST
            each = [Reference(name) if held else _wide(Reference(name)) for name in self.own]
            return self.length, _sum(_added([apply(Operation.MULTIPLY, value, value) for value in each]))
        return self.length, _narrow(_sum(self._size())) if self._short else _sum(self._size())

    def beyond(self) -> Scalar:
        """The norm as a real where it is too large, else NULL."""
        length = Reference(self.length)
        norm = _as_real(length) if self._short else _real_of_wide(length)
        bound = self.bound**2 if self.squared else self.bound
        large = apply(Operation.GREATER, length, whole(bound) if self._short else Constant(bound, Wide.INTEGER))
        return apply(Operation.CASE, large, apply(Operation.SQRT, norm) if self.squared else norm)

    def scaled(self) -> list[tuple[str, Scalar]]:
        """The cut totals, scaled to the norm."""
        norm = Reference(self.length)
        fits = apply(Operation.IS_NULL, norm)
        return [
            (name, apply(Operation.CASE, fits, Reference(name), _times(Reference(name), self.bound, norm)))
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
    product = apply(Operation.MULTIPLY, _as_real(value), real(bound))
    return apply(Operation.TOWARD_ZERO, apply(Operation.DIVIDE, product, size))


def _real_of_wide(scalar: Scalar) -> Scalar:
    """The double nearest to a whole number of at most 100 bits: by halves, whose conversion is exact everywhere."""
    half = Constant(_HALF, Wide.INTEGER)
    high, low = (_as_real(_narrow(apply(each, scalar, half))) for each in (Operation.DIVIDE_WHOLE, Operation.REMAINDER))
    return apply(Operation.ADD, apply(Operation.MULTIPLY, high, real(_HALF)), low)


# Codes


def _coded(bounded: Bounded, rows: _Rows) -> _Rows:
    """The same rows with codes for keys that are one of a few public texts: they are hashed and kept several times."""
    codes = {
        name: tuple(sorted(map(str, each.domain.values)))  # so that codes are ordered as their texts are
        for name, each in zip(rows.keys, bounded.plan.keys, strict=True)
        if each.domain.type is Type.TEXT and each.domain.values and len(each.domain.values) <= _MOST_CODES
    }
    columns = tuple(
        (name, apply(Operation.CODE, scalar, detail=codes[name]) if name in codes else scalar)
        for name, scalar in rows.select.columns
    )
    return replace(rows, select=replace(rows.select, columns=columns), coded=frozenset(codes))


def _decoded(rows: _Rows, statement: Statement) -> Statement:
    if not rows.coded:
        return statement
    return replace(statement, result=Select((*rows.text_keys, *_same(rows.values)), statement.result))


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
    ranked = _beyond(rows, (*_same(("u", *rows.keys, *rows.values), "r"), *_digests(rows, key, per_unit is not None)))
    kept: list[Scalar] = []
    keys, values = [Reference(each) for each in rows.keys], [Reference(each) for each in rows.telling]
    places = []
    if per_unit is not None:
        places.append(("a", Rank((Reference("u"),), (Reference("s"), *keys), dense=True)))
        kept.append(apply(Operation.AT_MOST, Reference("a"), whole(per_unit)))
    if per_group is not None:
        places.append(("b", Rank((Reference("u"), *keys), (Reference("t"), *values))))
        kept.append(apply(Operation.AT_MOST, Reference("b"), whole(per_group)))
    if places:
        ranked = Select(tuple(places), ranked, everything=True)
    if in_all is not None:
        first = [apply(Operation.CASE, _all(kept), whole(0), whole(1))] if kept else []
        place = Rank((Reference("u"),), (*first, Reference("t"), *keys, *values))
        ranked = Select((("d", place),), ranked, everything=True)
        kept.append(apply(Operation.AT_MOST, Reference("d"), whole(in_all)))
    return _corrected(bounded, rows, (_heavy(rows, light),), _dropped(rows, ranked, _all(kept)))


def _digests(rows: _Rows, key: int, grouped: bool) -> Columns:
    """s, the rank of a group, where groups are chosen; t, that of a row."""
    texts = [_of("r", scalar) for _, scalar in rows.text_keys]
    keys = [_token(text, kind) for text, kind in zip(texts, rows.kinds, strict=True)]
    values = [_token(Reference(name, "r"), Type.INTEGER) for name in rows.telling]
    secret = Constant(str(key), Type.TEXT)
    row = ("t", apply(Operation.DIGEST, secret, *keys, *values))
    return (("s", apply(Operation.DIGEST, secret, *keys)), row) if grouped else (row,)


def _token(scalar: Scalar, kind: Type) -> Scalar:
    """A value as text. A real has no text that engines share, so it is told by its 2^20ths: ties are broken anyway."""
    if kind is Type.TEXT:
        return scalar
    if kind is Type.BOOLEAN:
        scalar = apply(
            Operation.CASE, scalar, whole(1), apply(Operation.NOT, scalar), whole(0), Constant(None, Type.INTEGER)
        )
    if kind is Type.REAL:
        low, high = real(-_HALF), real(_HALF)
        fine = apply(Operation.MULTIPLY, scalar, real(2**20))
        inside = apply(Operation.BETWEEN, fine, low, high)
        scalar = apply(Operation.CASE, inside, apply(Operation.NEAREST, fine), whole(0))
    return apply(Operation.CONVERT, scalar, detail=(Type.TEXT,))


def _all(tests: Sequence[Scalar]) -> Scalar:
    return tests[0] if len(tests) == 1 else Apply(Operation.AND, tuple(tests))


def _dropped(rows: _Rows, ranked: Select, kept: Scalar) -> Select:
    """What is not kept, counted against the totals; a unit of whose rows in a group none is kept no longer counts."""
    if not rows.maximal:
        lost = tuple((name, _sum(apply(Operation.NEGATE, Reference(name)))) for name in rows.values)
        return Select((*_same(rows.keys), *lost), ranked, where=(apply(Operation.NOT, kept),), grouped=rows.keys)
    names = ("u", *rows.keys)
    lost = tuple((name, _lost(rows, name, kept)) for name in rows.values)
    of_units = Select((*_same(names), *lost), ranked, grouped=names)
    return Select(
        (*_same(rows.keys), *((name, _sum(Reference(name))) for name in rows.values)), of_units, grouped=rows.keys
    )


def _lost(rows: _Rows, name: str, kept: Scalar) -> Scalar:
    value = Reference(name)
    if name not in rows.maximal:
        return _sum(apply(Operation.CASE, kept, whole(0), apply(Operation.NEGATE, value)))
    left = Total(Aggregation.MAX, apply(Operation.CASE, kept, value, whole(0)))
    return apply(Operation.SUBTRACT, left, Total(Aggregation.MAX, value))


_LOWERINGS: dict[Strategy, Callable[[Bounded, _Rows], Statement]] = {
    Strategy.REWEIGHT: _reweight,
    Strategy.CLIP_L1: _clip,
    Strategy.CLIP_L2: _clip,
}


# Rows


def _rows(bounded: Bounded) -> _Rows:
    plan = bounded.plan
    source, lowering = _joined(bounded)
    tests = [lowering.lower(node.predicate) for node in relations(plan.source) if isinstance(node, Filter)]
    keys = [lowering.lower(key) for key in plan.keys]
    keys = [key if each.domain.nullable else lowering.shared(key) for key, each in zip(keys, plan.keys, strict=True)]
    tests += [present(key) for key, each in zip(keys, plan.keys, strict=True) if not each.domain.nullable]
    values = [_row_values(measure, lowering) for measure in bounded.measures]
    unit = _same("u") if bounded.strategy is not Strategy.WHOLE else ()
    flat = [(f"v{index}", value) for index, value in enumerate(value for found in values for value in found)]
    named = tuple((f"k{index}", key) for index, key in enumerate(keys))
    maximal = [each.measure.once_per_unit for each in bounded.measures for _ in range(each.coordinates)]
    return _Rows(
        Select((*unit, *named, *flat), _staged(source, lowering), where=tuple(tests)),
        tuple(name for name, _ in named),
        tuple(each.domain.type for each in plan.keys),
        tuple(name for name, _ in flat),
        frozenset(name for name, value in flat if value == whole(1)),
        frozenset(name for (name, _), once in zip(flat, maximal, strict=True) if once),
    )


def _joined(bounded: Bounded) -> tuple[Select, RowLowering]:
    """The columns that are read, of the private table and of public ones beside it."""
    plan = bounded.plan
    read = _read(plan)
    names = {field: f"c{index}" for index, field in enumerate(read)}
    unit = (("u", Reference(UNIT, "r")),) if bounded.strategy is not Strategy.WHOLE else ()
    own = tuple((names[field], Reference(field.name, "r")) for field in read if field.source == 0)
    source = Select((*unit, *own) or (("c", whole(0)),), Table(plan.table))
    lowering = RowLowering({field: Reference(short) for field, short in names.items()})
    for join in [node for node in relations(plan.source) if isinstance(node, nodes.Join)][::-1]:
        pairs = [(lowering.shared(lowering.lower(made)), name) for made, name in join.pairs]
        source = _staged(source, lowering)
        equal = [apply(Operation.EQUAL, _of("r", made), Reference(name, "j")) for made, name in pairs]
        beside = tuple(
            (short, Reference(field.name, "j")) for field, short in names.items() if field.source == join.source
        )
        public = Join(Table(join.table), "j", _all(equal), join.outer)
        source = Select(beside, source, joins=(public,), everything=True)
    return source, lowering


def _staged(source: Select, lowering: RowLowering) -> Select:
    """The source, with what is shared computed in a stage for each level."""
    for level in lowering.stages():
        source = Select(tuple(level), source, everything=True)
    return source


def _of(part: str, scalar: Scalar) -> Scalar:
    return Reference(scalar.name, part) if isinstance(scalar, Reference) else scalar


def _read(plan: nodes.Aggregate) -> list[Field]:
    """The columns that a plan reads, each once."""
    found = (reference for each in expressions(plan) for reference in columns(each))
    return list(dict.fromkeys(reference for reference in found if isinstance(reference, Field)))


def _row_values(scaled: Scaled, lowering: RowLowering) -> list[Scalar]:
    """What one row contributes to each coordinate: a whole number, 0 where the predicate or the value is missing."""
    where = scaled.measure.where
    tests = [] if where is None else [lowering.lower(where)]
    return [_row_value(each, tests, lowering) for each in scaled.contributions]


def _row_value(each: Contribution, tests: list[Scalar], lowering: RowLowering) -> Scalar:
    if each.value is None:
        return apply(Operation.CASE, tests[0], whole(1), whole(0)) if tests else whole(1)
    value = lowering.shared(lowering.lower(each.value))
    steps = lowering.shared(_steps(each.value, value, each))  # of a mean and a sum: the same ones
    added = apply(Operation.SUBTRACT, whole(each.high), steps) if each.mirrored else steps
    return apply(Operation.CASE, _all([*tests, present(value)]), added, whole(0))


def _steps(expression: Expression, value: Scalar, each: Contribution) -> Scalar:
    """A value as a whole number of steps from an origin, rounded to the nearest, ties to even, within [low, high].

    A column is clamped at the scan; what is computed from columns is clamped here before it becomes a whole number, and
    after: a sum is bounded, and no conversion fails, whatever a range or a rounding missed.
    """
    step, origin, low, high = each.step, each.origin, each.low, each.high
    exact = expression.domain.type is Type.INTEGER and step == 1
    if not isinstance(expression, Column):
        least, most = ((end + origin) * step for end in (low, high))
        value = _clamped(value, *((whole(int(end)) if exact else real(float(end))) for end in (least, most)))
    if exact:
        steps = apply(Operation.SUBTRACT, value, whole(origin)) if origin else value
    else:
        steps = apply(Operation.NEAREST, _in_steps(expression, value, step, origin))
    if isinstance(expression, Column) and not origin:
        return steps  # clamped at the scan, and rounding a number of so few steps is exact
    return _clamped(steps, whole(low), whole(high))


def _in_steps(expression: Expression, value: Scalar, step: Fraction, origin: int) -> Scalar:
    value = _as_real(value) if expression.domain.type is Type.INTEGER and isinstance(expression, Column) else value
    moved = apply(Operation.SUBTRACT, value, real(float(origin * step))) if origin else value
    return apply(Operation.DIVIDE, moved, real(float(step)))


def _clamped(scalar: Scalar, low: Scalar, high: Scalar) -> Scalar:
    return apply(Operation.LEAST, apply(Operation.GREATEST, scalar, low), high)
