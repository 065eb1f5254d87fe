"""A bounded plan is lowered to the one statement that reads private rows: exact whole totals per group, within limits.

Everything a row contributes is a whole number of steps; sums of them are exact whatever the order of rows. Where a
contribution is scaled, it is a function of the unit's own rows alone and rounds toward zero. A sum whose steps are
finer than the units of its noise is rounded to those once, when everything is added up.

Most units are within their limits, and reading their rows once costs little. So the totals are those of all rows as
they are, plus a correction that only the rows of units beyond a limit are looked at for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sfumato.engine.lowering.cell_lowering import CountedRows, by_cells, computed_once, counted_rows, unvalued, valued
from sfumato.engine.lowering.relation_lowering import (
    Columns,
    RelationLowering,
    Stages,
    every,
    of_part,
    same,
    token,
)
from sfumato.engine.lowering.relational import (
    AggregateFunction,
    Apply,
    Constant,
    Exists,
    GroupTotal,
    Named,
    Rank,
    Reference,
    RelationalJoin,
    RelationalUnion,
    RowNumber,
    Scalar,
    ScalarFunction,
    Select,
    StagedSelect,
    Wide,
    apply,
    whole,
)
from sfumato.engine.lowering.row_lowering import real
from sfumato.engine.lowering.unit_lowering import as_real, clamped, narrow, real_of_wide, wide
from sfumato.plan import nodes
from sfumato.plan.bounding import BoundedPlan, longest
from sfumato.plan.keys import MOST_GROUPS
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.cell_rows import CellRows
from sfumato.plan.readings.dense_readings import Marginals, ValueCounts
from sfumato.plan.readings.total_readings import FoundTotals
from sfumato.plan.readings.value_readings import with_value
from sfumato.plan.values.expressions import Expression
from sfumato.policy import Type
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.policy.values import MOST_ROWS

_LARGEST = 2**61
"""A unit's own total is cut here before it is scaled: two of them together fit 64 bits."""
_BEYOND_TOTALS = 2**104
"""More than 2^62 of the largest units, where totals are cut anyway; Spark divides numbers up to 10^32 exactly."""
_MOST_CODES = 256
"""A key of more texts than these is grouped by as it is: its list would be longer than what it saves."""


def statement(bounded: BoundedPlan, key: int, *, by_pair: bool = True) -> StagedSelect:
    """Make the statement whose rows are (key…, total…), one for each group that has a row; ``key`` decides the
    sample. Units that are counted alone are counted by their pairs of unit and group, where keeping those is cheap.
    """
    relations = RelationLowering(key)
    rows = counted_rows(bounded, relations)
    limited = _limited(bounded, rows, relations, key, by_pair=by_pair and rows.maximal == {*rows.values})
    return replace(limited, stages=(*relations.stages, *limited.stages))


def _limited(
    bounded: BoundedPlan, rows: CountedRows, relations: RelationLowering, key: int, *, by_pair: bool = False
) -> StagedSelect:
    return _rounded(bounded, rows, _added_within(bounded, rows, relations, key, by_pair=by_pair))


def _rounded(bounded: BoundedPlan, rows: CountedRows, totals: StagedSelect) -> StagedSelect:
    """Round each total released in several steps to the nearest unit, halves up: one that moves by whole units moves by
    as many (``bounding``, rounded totals)."""
    units = [1 << max(0, -each.bits) for each in bounded.measures for _ in range(each.coordinates)]
    if max(units) == 1:
        return totals
    pairs = zip(rows.values, units, strict=True)
    rounded = tuple((name, Reference(name) if unit == 1 else _nearest(Reference(name), unit)) for name, unit in pairs)
    return replace(totals, result=Select((*same(rows.keys), *rounded), totals.result))


def _nearest(total: Scalar, unit: int) -> Scalar:
    """Compute ⌊total/unit + 1/2⌋: division rounds down where the dividend is not negative."""
    held = clamped(wide(total), Constant(-_BEYOND_TOTALS, Wide.INTEGER), Constant(_BEYOND_TOTALS, Wide.INTEGER))
    raised = apply(ScalarFunction.ADD, held, Constant(_BEYOND_TOTALS + unit // 2, Wide.INTEGER))
    quotient = apply(ScalarFunction.DIVIDE_WIDE, raised, Constant(unit, Wide.INTEGER))
    return apply(ScalarFunction.SUBTRACT, quotient, Constant(_BEYOND_TOTALS // unit, Wide.INTEGER))


def _added_within(
    bounded: BoundedPlan, rows: CountedRows, relations: RelationLowering, key: int, *, by_pair: bool = False
) -> StagedSelect:
    """Add up what counts within the limits, in steps."""
    if bounded.strategy is Strategy.WHOLE:
        return _whole(rows)
    if _never_beyond(bounded):
        return StagedSelect((), _uncorrected(bounded, rows))
    coded = computed_once(bounded, _coded(bounded, rows), relations)
    if bounded.strategy is Strategy.SAMPLE:
        return _decoded(coded, _sample(bounded, coded, key))
    if bounded.strategy is Strategy.REWEIGHT:
        return _decoded(coded, _reweight(bounded, coded))
    return _decoded(coded, _clip_people(bounded, coded) if by_pair and coded.keys else _clip(bounded, coded))


def found(reading: FoundTotals, key: int) -> StagedSelect:
    """Make the statement where keys are found: totals of 64 bits, and the last one counts who holds a key.

    Where a unit may hold one key together with several values of the others, it is counted once: such counts are rows
    of their own, in which the other keys are NULL and all other totals are zero.
    """
    bounded, relations = reading.bounded, RelationLowering(key)
    rows = counted_rows(bounded, relations)
    if reading.others and bounded.strategy is Strategy.SAMPLE:
        own = computed_once(bounded, rows, relations)
        totals = _rounded(bounded, own, _crossed(bounded, own, [f"k{index}" for index in reading.found], key))
    else:
        totals = _limited(bounded, rows, relations, key)
    return _held(rows, StagedSelect((*relations.stages, *totals.stages), totals.result))


def marginals(reading: Marginals | CellRows, key: int, *, by_row: bool = True) -> StagedSelect:
    """Add up the total of every combination of cells that some row is in, of 64 bits; or give the rows themselves,
    where that is allowed.
    """
    rows = counted_rows(reading.bounded, relations := RelationLowering(key))
    if by_row and reading.by_row and rows.ones == {*rows.values}:
        return StagedSelect(tuple(relations.stages), Select(same((*rows.keys, *rows.values)), rows.select))
    totals = _limited(reading.bounded, rows, relations, key)
    return _held(rows, StagedSelect((*relations.stages, *totals.stages), totals.result))


def values(reading: ValueCounts, key: int) -> StagedSelect:
    """Give every row that counts and has a value, as (key…, value): what arrives is put in order and counted there.

    Of units beyond a limit only the rows that are kept count; limits are those of the groups, whatever the values are.
    """
    bounded, relations = reading.bounded, RelationLowering(key)
    rows = _coded(bounded, counted_rows(bounded, relations))
    value, one = rows.values
    there = () if one in rows.ones else (apply(ScalarFunction.EQUAL, Reference(one), whole(1)),)
    wanted = same((*rows.keys, value))
    if bounded.strategy is Strategy.WHOLE or _never_beyond(bounded):
        return StagedSelect(tuple(relations.stages), Select(wanted, rows.select, where=there))
    rows = computed_once(bounded, rows, relations)
    heavy, ranked, kept = _ranking(bounded, rows, key)
    same_unit = apply(ScalarFunction.EQUAL, Reference("u", "r"), Reference("u", "h"))
    light = Select(wanted, rows.select, where=(*there, Exists(Named("h"), "h", same_unit, negated=True)))
    both = RelationalUnion((light, Select(wanted, ranked, where=(*there, kept))))
    return StagedSelect((*relations.stages, heavy), Select(wanted, both))


def by_value(bounded: BoundedPlan, value: Expression, key: int, *, once: bool = False) -> StagedSelect:
    """Add up rows by a value of any type, as one more key; ``once`` if equal rows of a unit count once.

    Limits are those of the groups themselves, so rows are ranked before they are told apart by their values.
    """
    relations = RelationLowering(key)
    rows = counted_rows(with_value(bounded, value), relations)
    if bounded.strategy is Strategy.WHOLE:
        totals = _whole(rows)
    else:
        rows = _pairs(rows, relations) if once else computed_once(bounded, rows, relations)
        (*names, last), (*kinds, kind) = rows.keys, rows.kinds
        grouped = replace(rows, keys=tuple(names), kinds=tuple(kinds), apart=((last, kind),))
        heavy, ranked, kept = _ranking(bounded, grouped, key)
        totals = _corrected(bounded, rows, (heavy,), _dropped(rows, ranked, kept))
    return StagedSelect((*relations.stages, *totals.stages), totals.result)


def _pairs(rows: CountedRows, relations: RelationLowering) -> CountedRows:
    """Keep one of a unit's rows that count and are equal in all keys."""
    names, counts = ("u", *rows.keys), apply(ScalarFunction.EQUAL, Reference("v0"), whole(1))
    pairs = Select((*same(names), ("v0", whole(1))), rows.select, where=(counts,), grouped=names)
    return replace(rows, select=Select(same((*names, "v0")), relations.stage(pairs)), ones=frozenset({"v0"}))


def _held(rows: CountedRows, totals: StagedSelect) -> StagedSelect:
    """Keep totals within what 64 bits hold: cutting moves two totals no further apart."""
    low, high = (Constant(end, Wide.INTEGER) for end in (-LARGEST_INTEGER, LARGEST_INTEGER))
    held = tuple((name, narrow(clamped(wide(Reference(name)), low, high))) for name in rows.values)
    return replace(totals, result=Select((*same(rows.keys), *held), totals.result))


def _sum(scalar: Scalar) -> Scalar:
    return GroupTotal(AggregateFunction.SUM, scalar)


def _sum_of_cells(name: str) -> Scalar:
    """Add up what single rows count, which 64 bits hold."""
    return GroupTotal(AggregateFunction.SUM_OF_NARROW, Reference(name))


def _or_zero(total: Scalar) -> Scalar:
    return apply(ScalarFunction.COALESCE, total, Constant(0, Wide.INTEGER))


def _bits(bounded: BoundedPlan) -> list[int]:
    """Give the parts of a step in which contributions are added up, as powers of two."""
    return [max(0, each.bits) for each in bounded.measures for _ in range(each.coordinates)]


# The five boundings


def _whole(rows: CountedRows) -> StagedSelect:
    source, totals = _added_up(rows)
    return StagedSelect((), Select((*same(rows.keys), *totals.items()), source, grouped=rows.keys))


def _added_up(rows: CountedRows) -> tuple[Select, dict[str, Scalar]]:
    """Add up each value in the groups of rows, without whose they are.

    Values that are equal in every row are added up once. The total of high − x is high as often as x is there, less the
    total of x: the same whole number, for which nothing needs to be added up again.
    """
    if rows.cells:
        return by_cells(rows.select, rows.values, rows.cells)
    made = dict(rows.select.columns)
    firsts = {made[name]: name for name in reversed(rows.values)}
    columns = {name: made[name] for name in rows.keys}
    totals: dict[str, Scalar] = {}
    for name in rows.values:
        mirrored = _mirrored(made[name])
        if name in rows.ones:
            totals[name] = wide(GroupTotal(AggregateFunction.COUNT))
        elif mirrored is None or mirrored[0] not in firsts:
            columns[firsts[made[name]]] = made[name]
            totals[name] = _or_zero(_sum_of_cells(firsts[made[name]]))
        else:
            value, counted, high = mirrored
            columns[f"d{name[1:]}"] = counted
            times = wide(GroupTotal(AggregateFunction.COUNT, Reference(f"d{name[1:]}")))
            most = apply(ScalarFunction.MULTIPLY, times, Constant(high, Wide.INTEGER))
            totals[name] = apply(ScalarFunction.SUBTRACT, most, _or_zero(_sum_of_cells(firsts[value])))
    return replace(rows.select, columns=tuple(columns.items()) or (("c", whole(0)),)), totals


def _mirrored(scalar: Scalar) -> tuple[Scalar, Scalar, int] | None:
    """Split "high − x where a test holds, else 0" into "x where it holds, else 0", what is there where it holds, and
    high.
    """
    match scalar:
        case Apply(
            ScalarFunction.CASE,
            (test, Apply(ScalarFunction.SUBTRACT, (Constant(int(high)), x)), Constant(0) as nothing),
        ):
            value = apply(ScalarFunction.CASE, test, x, nothing)
            match test:
                case Apply(ScalarFunction.NOT, (Apply(ScalarFunction.IS_NULL, (tested,)),)):
                    return value, tested, high
            return value, apply(ScalarFunction.CASE, test, whole(1)), high
    return None


def _reweight(bounded: BoundedPlan, rows: CountedRows) -> StagedSelect:
    """Count every row as it is, less what the rows of units with more than m count too much."""
    most = bounded.limits.rows
    excess = [
        (name, _sum(_excess(Reference(name), most, bits)))
        for name, bits in zip(rows.values, _bits(bounded), strict=True)
    ]
    beyond = _beyond(rows, (*same(("u", *rows.keys, *rows.values), "r"), ("n", Reference("n", "h"))))
    correction = Select((*same(rows.keys), *excess), beyond, grouped=rows.keys)
    return _corrected(bounded, rows, (_heavy(rows, most),), correction)


def _excess(value: Scalar, most: int, bits: int) -> Scalar:
    """Give what a row counts, rounded toward zero, less what it counts as it is."""
    weighted = apply(
        ScalarFunction.DIVIDE_WHOLE, apply(ScalarFunction.MULTIPLY, value, whole(most << bits)), Reference("n")
    )
    return apply(ScalarFunction.SUBTRACT, weighted, apply(ScalarFunction.MULTIPLY, value, whole(1 << bits)))


def _heavy(rows: CountedRows, most: int) -> tuple[str, Select]:
    """Find the units with more rows than this, and how many they have."""
    count = GroupTotal(AggregateFunction.COUNT)
    having = apply(ScalarFunction.GREATER, count, whole(most))
    return "h", Select((*same("u"), ("n", count)), rows.select, grouped=("u",), having=having)


def _beyond(rows: CountedRows, columns: Columns) -> Select:
    """Select the rows of those units."""
    same_unit = apply(ScalarFunction.EQUAL, Reference("u", "r"), Reference("u", "h"))
    return Select(columns, rows.select, joins=(RelationalJoin(Named("h"), "h", same_unit),))


def _never_beyond(bounded: BoundedPlan) -> bool:
    """Tell whether the tree itself proves that no unit has more rows than count: nothing is looked at then."""
    most, limits = bounded.bound.input.most_rows, bounded.limits
    allowed = limits.rows
    if bounded.strategy is not Strategy.REWEIGHT:
        allowed = min(limits.total, limits.rows_per_group)
    if bounded.strategy is Strategy.SAMPLE or any(each.measure.once_per_unit for each in bounded.measures):
        allowed = min(allowed, limits.groups)
    return most is not None and most <= allowed


def _uncorrected(bounded: BoundedPlan, rows: CountedRows) -> Select:
    """Add up the totals of all rows as they are."""
    source, sums = (rows.select, _unit_counts(rows)) if rows.maximal else _added_up(rows)
    bits = _bits(bounded)
    plain = tuple((name, _finer(_or_zero(sums[name]), bits[int(name[1:])])) for name in rows.values)
    return Select((*same(rows.keys), *plain), source, grouped=rows.keys)


def _corrected(bounded: BoundedPlan, rows: CountedRows, stages: Stages, correction: Select) -> StagedSelect:
    """Add a correction per group to the totals of all rows as they are."""
    totals = tuple((name, _or_zero(_sum(Reference(name)))) for name in rows.values)
    both = RelationalUnion((_uncorrected(bounded, rows), correction))
    return StagedSelect(stages, Select((*same(rows.keys), *totals), both, grouped=rows.keys))


def _finer(total: Scalar, bits: int) -> Scalar:
    """Express a total in 2^-bits of a step."""
    return apply(ScalarFunction.MULTIPLY, wide(total), Constant(1 << bits, Wide.INTEGER))


def _unit_counts(rows: CountedRows) -> dict[str, Scalar]:
    """Count units rather than rows."""
    return {name: _plain_total(rows, name) for name in rows.values}


def _plain_total(rows: CountedRows, name: str) -> Scalar:
    if name not in rows.maximal:
        return GroupTotal(AggregateFunction.COUNT) if name in rows.ones else _sum(Reference(name))
    counted = None if name in rows.ones else apply(ScalarFunction.EQUAL, Reference(name), whole(1))
    return GroupTotal(AggregateFunction.UNITS, Reference("u"), counted)


def _clip(bounded: BoundedPlan, rows: CountedRows) -> StagedSelect:
    """Cut each unit's totals, first per group to what c rows may count, then over all groups to the norm.

    A unit with few rows is within every norm, wherever they are: only the units with more are looked at group by group.
    """
    scaling = [_Scaling.of(bounded, number) for number in range(len(bounded.measures))]
    most = _unit_mosts(bounded)
    cut = _cut(rows, scaling, most)
    if rows.cells and max(most) <= _LARGEST:
        return _few_beyond(bounded, rows, scaling, most)
    if not rows.keys:  # one group: the cap is the norm
        totals = tuple((name, _or_zero(_sum(Reference(name)))) for name in rows.values)
        return StagedSelect((_unit_totals(rows, rows.select, most, scaling),), Select(totals, cut))
    beyond = _beyond(rows, same(("u", *rows.keys, *rows.values), "r"))
    heavy = _heavy(rows, _light(bounded, scaling))
    stages = (heavy, _unit_totals(rows, beyond, most, scaling), _norms(cut, scaling))
    return _corrected(bounded, rows, stages, _excess_of_units(bounded, rows, scaling, cut))


def _clip_people(bounded: BoundedPlan, rows: CountedRows) -> StagedSelect:
    """Cut counts of units alone over all groups: each unit has one row for each of its groups, which is made once, as
    counting the units of a group would make it too.
    """
    scaling = [_Scaling.of(bounded, number) for number in range(len(bounded.measures))]
    names = ("u", *rows.keys)
    most = tuple(
        (each, whole(1) if each in rows.ones else GroupTotal(AggregateFunction.MAX, Reference(each)))
        for each in rows.values
    )
    pairs = "p", Select((*same(names), *most), rows.select, grouped=names)
    once = replace(rows, select=Select(same((*names, *rows.values)), Named("p")), maximal=frozenset(), cells=())
    own = "g", _beyond(once, same((*names, *rows.values), "r"))
    cut = _cut(once, scaling, [1] * len(rows.values))
    stages = (pairs, _heavy(once, _light(bounded, scaling)), own, _norms(cut, scaling))
    return _corrected(bounded, once, stages, _excess_of_units(bounded, once, scaling, cut))


def _light(bounded: BoundedPlan, scaling: Sequence[_Scaling]) -> int:
    """Give how many rows a unit may have, in whatever groups, and be within every limit and norm.

    Rows that are added up may all be in one group. A unit that counts once in a group is in as many as it has rows.
    """
    of_rows = min(bounded.limits.rows_per_group, bounded.limits.total)
    pairs = zip(bounded.measures, scaling, strict=True)
    return min(part.groups_within if each.measure.once_per_unit else of_rows for each, part in pairs)


def _few_beyond(
    bounded: BoundedPlan, rows: CountedRows, scaling: Sequence[_Scaling], most: Sequence[int]
) -> StagedSelect:
    """Add up many counts of all rows at once; only units with more rows than count have too much, and lose it."""
    capped = dict(each for part in scaling for each in part.capped())
    as_is = [
        apply(ScalarFunction.MULTIPLY, Reference(f"v{at}"), whole(1 << bits)) for at, bits in enumerate(_bits(bounded))
    ]
    less = [apply(ScalarFunction.SUBTRACT, capped[name], each) for name, each in zip(rows.values, as_is, strict=True)]
    excess = tuple(zip(rows.values, map(_sum, less), strict=True))
    select, names = unvalued(rows.select, rows.cells)
    thin = replace(rows, select=select)
    heavy = _heavy(thin, min(bounded.limits.rows_per_group, bounded.limits.total))
    beyond = _beyond(thin, (*same(names, "r"), ("n", Reference("n", "h"))))
    counted = valued(beyond, rows.select, rows.values, rows.cells)  # of those units alone
    totals = tuple((name, _unit_total(rows, name, each)) for name, each in zip(rows.values, most, strict=True))
    # by the number of rows too, which changes nothing: a table of all ids would hold every count for each of them
    units = "g", Select((*same("u"), *totals), counted, grouped=("u", "n"))
    return _corrected(bounded, rows, (heavy, units), Select(excess, Named("g")))


def _unit_mosts(bounded: BoundedPlan) -> list[int]:
    """For each value, no table gives a unit a larger total."""
    most = MOST_ROWS * nodes.multiplicity(bounded.plan.source)
    return [most * each.size for each in bounded.measures for _ in range(each.coordinates)]


def _unit_totals(
    rows: CountedRows, source: Select, most: Sequence[int], scaling: Sequence[_Scaling]
) -> tuple[str, Select]:
    """Add up each unit's totals in each group, and beside those that are cut to 64 bits the exact ones to correct by.
    Totals that are scaled together are not cut: that would change their ratio.
    """
    names, uncut = ("u", *rows.keys), {name for part in scaling if part.wide for name in part.own}
    totals = [
        (name, _sum(Reference(name)) if name in uncut else _unit_total(rows, name, each))
        for name, each in zip(rows.values, most, strict=True)
    ]
    totals += [
        (name, _sum(Reference(value)))
        for name, value, each in zip(rows.exact, rows.values, most, strict=False)
        if each > _LARGEST and value not in rows.maximal
    ]
    return "g", Select((*same(names), *totals), source, grouped=names)


def _unit_total(rows: CountedRows, name: str, most: int) -> Scalar:
    """Add up a unit's total in one group, within what can be scaled; no table gives more than ``most``."""
    if name in rows.maximal:
        return GroupTotal(AggregateFunction.MAX, Reference(name))
    if name in rows.ones and most <= _LARGEST:
        return GroupTotal(AggregateFunction.COUNT)
    total = _sum(Reference(name))
    ends = Constant(-_LARGEST, Wide.INTEGER), Constant(_LARGEST, Wide.INTEGER)
    return narrow(total if most <= _LARGEST else clamped(total, *ends))


def _cut(rows: CountedRows, scaling: Sequence[_Scaling], most: Sequence[int]) -> Select:
    """Cut units' totals to what may count in a group, and as they are: computed twice rather than kept."""
    capped = [each for part in scaling for each in part.capped()]
    exact = tuple(
        (name, Reference(name if each > _LARGEST and value not in rows.maximal else value))
        for name, value, each in zip(rows.exact, rows.values, most, strict=False)
    )
    return Select((*same(("u", *rows.keys)), *capped, *exact), Named("g"))


def _norms(cut: Select, scaling: Sequence[_Scaling]) -> tuple[str, Select]:
    """Find what each unit is scaled by."""
    norms = Select((*same("u"), *(part.norm() for part in scaling)), cut, grouped=("u",))
    return "n", Select((*same("u"), *((part.length, part.beyond()) for part in scaling)), norms)


def _excess_of_units(bounded: BoundedPlan, rows: CountedRows, scaling: Sequence[_Scaling], cut: Select) -> Select:
    """Add up in each group what units beyond a limit count, cut and scaled, less what they have."""
    scaled = [each for part in scaling for each in part.scaled()]
    excess = tuple(
        (name, apply(ScalarFunction.SUBTRACT, _sum(each), _finer(_sum(Reference(exact)), bits)))
        for (name, each), exact, bits in zip(scaled, rows.exact, _bits(bounded), strict=True)
    )
    return Select((*same(rows.keys), *excess), _measured(rows, cut, scaling), grouped=rows.keys)


def _measured(rows: CountedRows, cut: Select, scaling: Sequence[_Scaling]) -> Select:
    """Give what is cut, beside what its unit is scaled by."""
    own = same((*rows.keys, *rows.values, *rows.exact), "r")
    lengths = same((part.length for part in scaling), "n")
    same_unit = apply(ScalarFunction.EQUAL, Reference("u", "r"), Reference("u", "n"))
    return Select((*own, *lengths), cut, joins=(RelationalJoin(Named("n"), "n", same_unit),))


@dataclass(frozen=True)
class _Scaling:
    """This says how one measure's coordinates are cut in each group and scaled over all of them."""

    own: tuple[str, ...]
    length: str
    """The column of the unit's norm."""
    most: int
    """The largest size in one group."""
    bits: int
    bound: int
    """The norm, rounded down."""
    squared: bool
    box: tuple[int, int] | None
    """The least and the most in one group, of a measure with one coordinate."""
    wide: bool
    """Several coordinates of a unit may together be more than 64 bits hold."""

    @classmethod
    def of(cls, bounded: BoundedPlan, number: int) -> _Scaling:
        measure = bounded.measures[number]
        index = sum(each.coordinates for each in bounded.measures[:number])
        own = tuple(f"v{index + offset}" for offset in range(measure.coordinates))
        limits = bounded.limits.of_measure(measure.measure)
        per_group, total = limits.rows_per_group, limits.total
        bits, squared = max(0, measure.bits), bounded.strategy is Strategy.CLIP_L2
        size = measure.size << bits
        bound = math.isqrt(longest(per_group * size, total * size)) if squared else total * size
        box = None if measure.box is None else (measure.box[0] * per_group, measure.box[1] * per_group)
        wide_totals = box is None and _unit_mosts(bounded)[index] > _LARGEST
        return cls(own, f"n{number}", measure.size * per_group, bits, bound, squared, box, wide_totals)

    def capped(self) -> Columns:
        """Cut a unit's total in one group to what c rows may count; several totals are scaled together."""
        if self.box is not None:
            held = clamped(Reference(self.own[0]), *(whole(end) for end in self.box))
            return ((self.own[0], apply(ScalarFunction.MULTIPLY, held, whole(1 << self.bits))),)
        size, convert = self._size(), real_of_wide if self.wide else as_real
        fits = apply(ScalarFunction.AT_MOST, size, Constant(self.most, Wide.INTEGER) if self.wide else whole(self.most))
        cut = []
        for name in self.own:
            finer = apply(ScalarFunction.MULTIPLY, Reference(name), whole(1 << self.bits))
            scaled = _times(convert(Reference(name)), self.most << self.bits, convert(size))
            held = apply(ScalarFunction.CASE, fits, finer, wide(scaled) if self.wide else scaled)
            cut.append((name, narrow(held) if self.wide else held))
        return tuple(cut)

    def norm(self) -> tuple[str, Scalar]:
        """Compute the norm exactly, so that it does not depend on the order of groups."""
        if self.squared:
            held = len(self.own) * (self.most << self.bits) ** 2 <= _LARGEST
            each = [Reference(name) if held else wide(Reference(name)) for name in self.own]
            return self.length, _sum(_added([apply(ScalarFunction.MULTIPLY, value, value) for value in each]))
        return self.length, narrow(_sum(self._size())) if self._short else _sum(self._size())

    def beyond(self) -> Scalar:
        """Give the norm as a real where it is too large, else NULL."""
        length = Reference(self.length)
        norm = as_real(length) if self._short else real_of_wide(length)
        bound = self.bound**2 if self.squared else self.bound
        large = apply(ScalarFunction.GREATER, length, whole(bound) if self._short else Constant(bound, Wide.INTEGER))
        return apply(ScalarFunction.CASE, large, apply(ScalarFunction.SQRT, norm) if self.squared else norm)

    def scaled(self) -> list[tuple[str, Scalar]]:
        """Scale the cut totals to the norm."""
        norm = Reference(self.length)
        fits = apply(ScalarFunction.IS_NULL, norm)
        return [
            (
                name,
                apply(ScalarFunction.CASE, fits, Reference(name), _times(as_real(Reference(name)), self.bound, norm)),
            )
            for name in self.own
        ]

    @property
    def groups_within(self) -> int:
        """Give in how many groups a unit may have as much as counts in each, and be within the norm."""
        most = self.most << self.bits
        return self.bound**2 // most**2 if self.squared else self.bound // most

    @property
    def _short(self) -> bool:
        """Tell whether 64 bits hold the norm, whatever groups there are."""
        return not self.squared and (self.most << self.bits) * MOST_GROUPS <= _LARGEST

    def _size(self) -> Scalar:
        return _added([apply(ScalarFunction.ABS, Reference(name)) for name in self.own])


def _added(scalars: Sequence[Scalar]) -> Scalar:
    return scalars[0] if len(scalars) == 1 else Apply(ScalarFunction.ADD, tuple(scalars))


def _times(value: Scalar, bound: int, size: Scalar) -> Scalar:
    """Compute value · bound / size, rounded toward zero.

    Parts of one size add up to at most the bound. Each is too large by at most 2^-48 of it, since doubles are: below
    2^40 that is less than one in all, and parts are whole; from there on the bound is lowered by more than that.
    """
    product = apply(ScalarFunction.MULTIPLY, value, real(bound - (bound >> 40)))
    return apply(ScalarFunction.TOWARD_ZERO, apply(ScalarFunction.DIVIDE, product, size))


# Codes


def _coded(bounded: BoundedPlan, rows: CountedRows) -> CountedRows:
    """Replace by codes the keys that are one of a few public texts: they are hashed and kept several times."""
    codes = {
        name: tuple(sorted(map(str, each.domain.values)))  # so that codes are ordered as their texts are
        for name, each in zip(rows.keys, bounded.plan.keys, strict=True)
        if each.domain.type is Type.TEXT and each.domain.values and len(each.domain.values) <= _MOST_CODES
    }
    columns = tuple(
        (name, apply(ScalarFunction.CODE, scalar, detail=codes[name]) if name in codes else scalar)
        for name, scalar in rows.select.columns
    )
    return replace(rows, select=replace(rows.select, columns=columns), coded=frozenset(codes))


def _decoded(rows: CountedRows, statement: StagedSelect) -> StagedSelect:
    if not rows.coded:
        return statement
    return replace(statement, result=Select((*rows.text_keys, *same(rows.values)), statement.result))


# Samples


def _sample(bounded: BoundedPlan, rows: CountedRows, key: int) -> StagedSelect:
    """Count every row as it is, less those of units beyond a limit that are not kept."""
    heavy, ranked, kept = _ranking(bounded, rows, key)
    return _corrected(bounded, rows, (heavy,), _dropped(rows, ranked, kept))


def _crossed(bounded: BoundedPlan, rows: CountedRows, found: Sequence[str], key: int) -> StagedSelect:
    """Group the same sample twice: by all keys, and by those that are found to count who holds them."""
    heavy, ranked, kept = _ranking(bounded, rows, key)
    *own, holder = rows.values
    by_all = replace(rows, values=tuple(own), maximal=rows.maximal - {holder})
    by_found = replace(rows, keys=tuple(found), values=(holder,), maximal=frozenset({holder}))
    nothing = dict(zip(rows.keys, (Constant(None, kind) for kind in rows.kinds), strict=True))
    members = []
    for part in (by_all, by_found) if own else (by_found,):
        known = {*part.keys, *part.values}
        columns = ((name, Reference(name) if name in known else other) for name, other in nothing.items())
        totals = ((name, Reference(name) if name in known else Constant(0, Wide.INTEGER)) for name in rows.values)
        grouped = _corrected(bounded, part, (), _dropped(part, Named("s"), kept)).result
        members.append(Select((*columns, *totals), grouped))
    both = Select(same((*rows.keys, *rows.values)), RelationalUnion(tuple(members)))
    return StagedSelect((heavy, ("s", ranked)), both)


def _ranking(bounded: BoundedPlan, rows: CountedRows, key: int) -> tuple[tuple[str, Select], Select, Scalar]:
    """Make the stage of units beyond a limit, their rows with their ranks, and which of them are kept.

    Rows are ranked by the digest of the key and of what they are. First the groups are chosen, then the rows in each,
    then the rows in all; a limit that the others imply is not looked at.
    """
    limits = bounded.limits
    per_unit = limits.groups if rows.keys and limits.groups < limits.rows else None
    per_group = limits.rows_per_group if limits.rows_per_group < limits.rows else None
    in_all = limits.rows if limits.total == limits.rows else None
    light = min(each for each in (limits.rows, per_unit, per_group) if each is not None)
    read = dict.fromkeys(("u", *rows.keys, *rows.telling, *rows.values))
    ranked = _beyond(rows, (*same(read, "r"), *_digests(rows, key, per_unit is not None)))
    kept: list[Scalar] = []
    keys, values = [Reference(each) for each in rows.keys], [Reference(each) for each in rows.telling]
    places = []
    if per_unit is not None:
        places.append(("a", Rank((Reference("u"),), (Reference("s"), *keys), place=RowNumber.DENSE_RANK)))
        kept.append(apply(ScalarFunction.AT_MOST, Reference("a"), whole(per_unit)))
    if per_group is not None:
        places.append(("b", Rank((Reference("u"), *keys), (Reference("t"), *values))))
        kept.append(apply(ScalarFunction.AT_MOST, Reference("b"), whole(per_group)))
    if places:
        ranked = Select(tuple(places), ranked, everything=True)
    if in_all is not None:
        first = [apply(ScalarFunction.CASE, every(kept), whole(0), whole(1))] if kept else []
        place = Rank((Reference("u"),), (*first, Reference("t"), *keys, *values))
        ranked = Select((("d", place),), ranked, everything=True)
        kept.append(apply(ScalarFunction.AT_MOST, Reference("d"), whole(in_all)))
    return _heavy(rows, light), ranked, every(kept)


def _digests(rows: CountedRows, key: int, grouped: bool) -> Columns:
    """Compute s, the rank of a group, where groups are chosen; and t, that of a row."""
    texts = [of_part("r", scalar) for _, scalar in rows.text_keys]
    keys = [token(text, kind) for text, kind in zip(texts, rows.kinds, strict=True)]
    kinds = dict(rows.apart)
    values = [token(Reference(name, "r"), kinds.get(name, Type.INTEGER)) for name in rows.telling]
    secret = Constant(str(key), Type.TEXT)
    row = ("t", apply(ScalarFunction.DIGEST, secret, *keys, *values))
    return (("s", apply(ScalarFunction.DIGEST, secret, *keys)), row) if grouped else (row,)


def _dropped(rows: CountedRows, ranked: Select | Named, kept: Scalar) -> Select:
    """Count what is not kept against the totals; a unit of whose rows in a group none is kept no longer counts."""
    if not rows.maximal:
        lost = tuple((name, _sum(apply(ScalarFunction.NEGATE, Reference(name)))) for name in rows.values)
        return Select((*same(rows.keys), *lost), ranked, where=(apply(ScalarFunction.NOT, kept),), grouped=rows.keys)
    names = ("u", *rows.keys)
    lost = tuple((name, _lost(rows, name, kept)) for name in rows.values)
    of_units = Select((*same(names), *lost), ranked, grouped=names)
    return Select(
        (*same(rows.keys), *((name, _sum(Reference(name))) for name in rows.values)), of_units, grouped=rows.keys
    )


def _lost(rows: CountedRows, name: str, kept: Scalar) -> Scalar:
    value = Reference(name)
    if name not in rows.maximal:
        return _sum(apply(ScalarFunction.CASE, kept, whole(0), apply(ScalarFunction.NEGATE, value)))
    left = GroupTotal(AggregateFunction.MAX, apply(ScalarFunction.CASE, kept, value, whole(0)))
    return apply(ScalarFunction.SUBTRACT, left, GroupTotal(AggregateFunction.MAX, value))
