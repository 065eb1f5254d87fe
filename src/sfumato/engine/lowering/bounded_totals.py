"""Lower a bounded plan to the statement that reads private rows: exact whole totals per group, within limits.

Every row contributes a whole number of steps; sums of them are exact whatever the order of rows. Where a contribution
is scaled, it is a function of the unit's own rows alone and rounds toward zero. A sum whose steps are finer than the
units of its noise is rounded to those once, when everything is added up.

Most units are within their limits, and reading their rows once costs little. So the totals are those of all rows as
they are, plus a correction for which only the rows of units beyond a limit are read. Where a row counts a share of
itself that one number of its unit decides, rows are added up in one pass beside those numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfumato.engine.lowering.cell_lowering import (
    CountedRows,
    add_up_rows,
    counted_rows,
    decode_keys,
    encode_keys,
    materialise_rows,
    or_zero,
    round_totals,
    with_contributions,
    without_contributions,
)
from sfumato.engine.lowering.clip_scaling import (
    MAX_UNIT_TOTAL,
    ClipScaling,
    can_scale_rows_separately,
    max_squared_rows_of,
    max_unit_totals,
    may_exceed_norm,
    sum_of_group,
)
from sfumato.engine.lowering.relation_lowering import (
    Columns,
    RelationLowering,
    Stages,
    unrenamed_columns,
)
from sfumato.engine.lowering.relational_form import (
    AggregateFunction,
    AnyOf,
    Constant,
    Exists,
    GroupTotal,
    Rank,
    Reference,
    RelationalJoin,
    RelationalUnion,
    RowNumber,
    Scalar,
    ScalarFunction,
    Select,
    StagedSelect,
    StageReference,
    Wide,
    apply,
    integer_constant,
)
from sfumato.engine.lowering.sample_ranks import (
    SEED_COLUMNS,
    number_of_value,
    polynomial_hash,
    with_seeds,
)
from sfumato.engine.lowering.sampled_rows import (
    MAX_LEAST,
    SampleLimits,
    group_code,
    has_group_codes,
    has_group_sets,
    rank_columns,
    rank_rows,
    ranks,
    rows_ranked_in_groups,
    rows_settled,
    rows_to_rank,
    threshold_stages,
    units_with_group_sets,
    with_settled_rows,
)
from sfumato.engine.lowering.unit_lowering import clamped, convert_to_integer, to_wide_integer
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.cell_rows import CellRows
from sfumato.plan.readings.dense_readings import Marginals, MatchedValueReading, ValueCounts, with_value_as_key
from sfumato.plan.readings.total_readings import DiscoveredTotals
from sfumato.plan.values.expressions import Expression
from sfumato.policy import Type
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True)
class LoweringChoices:
    """Ways to the same totals that are cheap on some engines only."""

    by_pair: bool = False
    """Whether counts of units alone use pairs of unit and group, where materialising those is cheap."""
    by_threshold: bool = False
    """Whether samples use thresholds, where the least few numbers of a group are found without sorting it."""


NO_CHOICES = LoweringChoices()


def group_totals_statement(
    bounded_plan: BoundedPlan, sampling_key: int, choices: LoweringChoices | None = None
) -> StagedSelect:
    """Lower a plan to the statement with rows (key…, total…), one for each group that has a row, from the sample of
    this key.
    """
    relations = RelationLowering(sampling_key, bounded_plan.sample)
    rows = counted_rows(bounded_plan, relations)
    limited_totals = _lower_totals(
        bounded_plan, rows, relations, sampling_key, choices or LoweringChoices(by_pair=True)
    )
    return replace(limited_totals, stages=(*relations.stages, *limited_totals.stages))


def _lower_totals(
    bounded_plan: BoundedPlan,
    rows: CountedRows,
    relations: RelationLowering,
    sampling_key: int,
    choices: LoweringChoices = NO_CHOICES,
) -> StagedSelect:
    return round_totals(bounded_plan, rows, _add_within_limits(bounded_plan, rows, relations, sampling_key, choices))


def _add_within_limits(
    bounded_plan: BoundedPlan,
    rows: CountedRows,
    relations: RelationLowering,
    sampling_key: int,
    choices: LoweringChoices,
) -> StagedSelect:
    """Add up contributions within the limits, in steps."""
    if bounded_plan.strategy is Strategy.WHOLE:
        return _unbounded_totals(rows)
    if _is_within_limits(bounded_plan):
        return StagedSelect((), _totals_before_limits(bounded_plan, rows))
    coded = materialise_rows(bounded_plan, encode_keys(bounded_plan, rows), relations)
    if bounded_plan.strategy is Strategy.SAMPLE:
        return decode_keys(coded, _sampled_totals(bounded_plan, coded, sampling_key, by_threshold=choices.by_threshold))
    if bounded_plan.strategy is Strategy.REWEIGHT:
        return decode_keys(coded, _reweight_rows(bounded_plan, coded))
    assert bounded_plan.strategy in (Strategy.CLIP_L1, Strategy.CLIP_L2)
    by_pair = choices.by_pair and coded.keys and coded.maximal == {*coded.values}
    return decode_keys(coded, _clip_pairs(bounded_plan, coded) if by_pair else _clip_unit_totals(bounded_plan, coded))


def discovered_totals_statement(reading: DiscoveredTotals, sampling_key: int) -> StagedSelect:
    """Lower a reading whose keys are discovered: totals of 64 bits, of which the last counts the units that hold a key.

    Where a unit may hold one key together with several values of the others, it is counted once: such counts are rows
    of their own, in which the other keys are NULL and all other totals are zero.
    """
    bounded, relations = reading.bounded, RelationLowering(sampling_key, reading.bounded.sample)
    rows = counted_rows(bounded, relations)
    if reading.declared_keys and bounded.strategy is Strategy.SAMPLE:
        sampled_rows = materialise_rows(bounded, rows, relations)
        totals = round_totals(
            bounded,
            sampled_rows,
            _sample_discovered(bounded, sampled_rows, [f"k{index}" for index in reading.discovered_keys], sampling_key),
        )
    else:
        totals = _lower_totals(bounded, rows, relations, sampling_key)
    clamped_totals = tuple((name, clamp_to_64_bits(Reference(name))) for name in rows.values)
    result = Select((*unrenamed_columns(rows.keys), *clamped_totals), totals.result)
    return StagedSelect((*relations.stages, *totals.stages), result)


def cell_totals_statement(
    reading: Marginals | CellRows, sampling_key: int, *, counts_row_by_row: bool = True
) -> StagedSelect:
    """Add up the total of every combination of cells that some row is in, in 64 bits; or select the rows themselves,
    where that is allowed.
    """
    rows = counted_rows(reading.bounded, relations := RelationLowering(sampling_key, reading.bounded.sample))
    if counts_row_by_row and reading.counts_row_by_row and rows.ones == {*rows.values}:
        return StagedSelect(tuple(relations.stages), Select(unrenamed_columns((*rows.keys, *rows.values)), rows.select))
    totals = _lower_totals(reading.bounded, rows, relations, sampling_key)
    clamped_totals = tuple((name, clamp_to_64_bits(Reference(name))) for name in rows.values)
    result = Select((*unrenamed_columns(rows.keys), *clamped_totals), totals.result)
    return StagedSelect((*relations.stages, *totals.stages), result)


def one_row_per_value_statement(reading: ValueCounts, sampling_key: int) -> StagedSelect:
    """Select every row that counts and has a value, as (key…, value), to be sorted and counted by the reader.

    Of units beyond a limit only the sampled rows count; limits are those of the groups, whatever the values are.
    """
    bounded, relations = reading.bounded, RelationLowering(sampling_key, reading.bounded.sample)
    rows = encode_keys(bounded, counted_rows(bounded, relations))
    value_name, presence_name = rows.values
    is_present = (
        ()
        if presence_name in rows.ones
        else (apply(ScalarFunction.EQUAL, Reference(presence_name), integer_constant(1)),)
    )
    columns = unrenamed_columns((*rows.keys, value_name))
    if bounded.strategy is Strategy.WHOLE or _is_within_limits(bounded):
        return StagedSelect(tuple(relations.stages), Select(columns, rows.select, where=is_present))
    rows = materialise_rows(bounded, rows, relations)
    heavy, ranked, is_kept = _heavy_units_ranks_and_sample(bounded, rows, sampling_key)
    same_unit = apply(ScalarFunction.EQUAL, Reference("u", "r"), Reference("u", "h"))
    light_rows = Select(
        columns, rows.select, where=(*is_present, Exists(StageReference("h"), "h", same_unit, negated=True))
    )
    all_rows = RelationalUnion((light_rows, Select(columns, ranked, where=(*is_present, is_kept))))
    return StagedSelect((*relations.stages, heavy), Select(columns, all_rows))


def totals_by_value_statement(
    bounded_plan: BoundedPlan, value: Expression, sampling_key: int, *, once: bool = False
) -> StagedSelect:
    """Add up rows by a value of any type, as one more key; ``once`` if equal rows of a unit count once.

    Limits are those of the groups themselves, so rows are ranked before they are distinguished by their values.
    """
    relations = RelationLowering(sampling_key, bounded_plan.sample)
    rows = counted_rows(with_value_as_key(bounded_plan, value), relations)
    if bounded_plan.strategy is Strategy.WHOLE:
        totals = _unbounded_totals(rows)
    else:
        rows = _distinct_pairs(rows, relations) if once else materialise_rows(bounded_plan, rows, relations)
        (*key_names, value_name), (*kinds, kind) = rows.keys, rows.kinds
        grouped = replace(rows, keys=tuple(key_names), kinds=tuple(kinds), identifying_columns=((value_name, kind),))
        heavy, ranked, is_kept = _heavy_units_ranks_and_sample(bounded_plan, grouped, sampling_key)
        totals = _correct_totals(bounded_plan, rows, (heavy,), _sampling_change(rows, ranked, is_kept))
    return StagedSelect((*relations.stages, *totals.stages), totals.result)


def matched_pairs_statement(reading: MatchedValueReading, sampling_key: int) -> StagedSelect:
    """Select a unit's distinct pairs of group and value, as (key…, rank of the unit, rank of the pair among all)."""
    relations = RelationLowering(sampling_key, reading.bounded.sample)
    rows = _distinct_pairs(counted_rows(with_value_as_key(reading.bounded, reading.value), relations), relations)
    everything = (integer_constant(0),)
    ranks = (
        ("u", Rank(everything, (Reference("u"),), RowNumber.RANK)),
        ("v0", Rank(everything, tuple(map(Reference, rows.keys)), RowNumber.RANK)),
    )
    return StagedSelect(tuple(relations.stages), Select((*unrenamed_columns(rows.keys[:-1]), *ranks), rows.select))


def _distinct_pairs(rows: CountedRows, relations: RelationLowering) -> CountedRows:
    """Deduplicate a unit's counted rows that are equal in all keys."""
    names, is_counted = ("u", *rows.keys), apply(ScalarFunction.EQUAL, Reference("v0"), integer_constant(1))
    pairs = Select(
        (*unrenamed_columns(names), ("v0", integer_constant(1))), rows.select, where=(is_counted,), group_by=names
    )
    return replace(
        rows, select=Select(unrenamed_columns((*names, "v0")), relations.add_stage(pairs)), ones=frozenset({"v0"})
    )


def clamp_to_64_bits(total: Scalar) -> Scalar:
    """Clamp a total to 64 bits: clamping moves two totals no further apart."""
    low, high = (Constant(end, Wide.INTEGER) for end in (-LARGEST_INTEGER, LARGEST_INTEGER))
    return convert_to_integer(clamped(to_wide_integer(total), low, high))


def _coordinate_bits(bounded_plan: BoundedPlan) -> list[int]:
    """Return, for each coordinate, the power of two by which a step is divided when contributions are added up."""
    return [max(0, measure.bits) for measure in bounded_plan.measures for _ in range(measure.coordinates)]


# The five boundings


def _unbounded_totals(rows: CountedRows) -> StagedSelect:
    source, totals = add_up_rows(rows)
    return StagedSelect((), Select((*unrenamed_columns(rows.keys), *totals.items()), source, group_by=rows.keys))


def _reweight_rows(bounded_plan: BoundedPlan, rows: CountedRows) -> StagedSelect:
    """Weight the rows of units with n > m rows by m/n. Many counts are those of all rows, added up from cells, and
    corrected: weighted row by row, each would be evaluated on every row.
    """
    max_rows, bits = bounded_plan.limits.rows, _coordinate_bits(bounded_plan)
    heavy = _units_beyond_limit(rows, max_rows)
    weighted = [_weighted_value(Reference(name), max_rows, bits[index]) for index, name in enumerate(rows.values)]
    if not rows.cells:
        return _add_limited_rows(bounded_plan, rows, heavy, "n" * len(weighted), weighted)
    whole = _whole_values(bounded_plan, rows)
    excess = [sum_of_group(apply(ScalarFunction.SUBTRACT, *operands)) for operands in zip(weighted, whole, strict=True)]
    beyond = _rows_beyond_limit(rows, (*unrenamed_columns(rows.values, "r"), ("n", Reference("n", "h"))))
    return _correct_totals(bounded_plan, rows, (heavy,), Select(tuple(zip(rows.values, excess, strict=True)), beyond))


def _weighted_value(value: Scalar, max_rows: int, bits: int) -> Scalar:
    """Return the weighted contribution of a row, rounded toward zero."""
    product = apply(ScalarFunction.MULTIPLY, value, integer_constant(max_rows << bits))
    return apply(ScalarFunction.DIVIDE_WHOLE, product, Reference("n"))


def _whole_values(bounded_plan: BoundedPlan, rows: CountedRows) -> list[Scalar]:
    """Return what a row contributes to each coordinate as it is, in fractions of a step."""
    return [
        apply(ScalarFunction.MULTIPLY, Reference(name), integer_constant(1 << bits))
        for name, bits in zip(rows.values, _coordinate_bits(bounded_plan), strict=True)
    ]


def _add_limited_rows(
    bounded_plan: BoundedPlan,
    rows: CountedRows,
    heavy: tuple[str, Select],
    unit_columns: Sequence[str],
    limited: Sequence[Scalar],
) -> StagedSelect:
    """Add up in one pass what each row counts: less than as it is, where stage ``h`` has its unit, with a value in the
    column of the total.
    """
    unit_values = unrenamed_columns(dict.fromkeys(unit_columns), "h")
    same_unit = apply(ScalarFunction.EQUAL, Reference("u", "r"), Reference("u", "h"))
    joined = Select(
        (*unrenamed_columns((*rows.keys, *rows.values), "r"), *unit_values),
        rows.select,
        joins=(RelationalJoin(StageReference("h"), "h", same_unit, outer=True),),
    )
    is_whole = [apply(ScalarFunction.IS_NULL, Reference(column)) for column in unit_columns]
    counted = [
        apply(ScalarFunction.CASE, *operands)
        for operands in zip(is_whole, _whole_values(bounded_plan, rows), limited, strict=True)
    ]
    totals = ((name, or_zero(sum_of_group(value))) for name, value in zip(rows.values, counted, strict=True))
    return StagedSelect((heavy,), Select((*unrenamed_columns(rows.keys), *totals), joined, group_by=rows.keys))


def _units_beyond_limit(rows: CountedRows, max_rows: int) -> tuple[str, Select]:
    """Select the units with more than ``max_rows_per_unit`` rows, and their numbers of rows."""
    count = GroupTotal(AggregateFunction.COUNT)
    having = apply(ScalarFunction.GREATER, count, integer_constant(max_rows))
    return "h", Select((*unrenamed_columns("u"), ("n", count)), rows.select, group_by=("u",), having=having)


def _rows_beyond_limit(rows: CountedRows, columns: Columns) -> Select:
    """Select the rows of the units in stage ``h``."""
    same_unit = apply(ScalarFunction.EQUAL, Reference("u", "r"), Reference("u", "h"))
    return Select(columns, rows.select, joins=(RelationalJoin(StageReference("h"), "h", same_unit),))


def _is_within_limits(bounded_plan: BoundedPlan) -> bool:
    """Return whether the plan itself proves that no unit has more rows than count: no correction is needed then."""
    max_rows, limits = bounded_plan.bounding_node.input.max_rows_per_unit, bounded_plan.limits
    allowed_rows = limits.rows
    if bounded_plan.strategy is not Strategy.REWEIGHT:
        allowed_rows = min(limits.total, limits.rows_per_group)
    if bounded_plan.strategy is Strategy.SAMPLE or any(
        bounded_measure.measure.once_per_unit for bounded_measure in bounded_plan.measures
    ):
        allowed_rows = min(allowed_rows, limits.groups)
    return max_rows is not None and max_rows <= allowed_rows


def _totals_before_limits(bounded_plan: BoundedPlan, rows: CountedRows) -> Select:
    """Add up the totals of all rows as they are."""
    unit_totals = {name: _unlimited_total(rows, name) for name in rows.values}
    source, sums = (rows.select, unit_totals) if rows.maximal else add_up_rows(rows)
    bits = _coordinate_bits(bounded_plan)
    totals = tuple((name, _in_fractions_of_step(or_zero(sums[name]), bits[int(name[1:])])) for name in rows.values)
    return Select((*unrenamed_columns(rows.keys), *totals), source, group_by=rows.keys)


def _correct_totals(bounded_plan: BoundedPlan, rows: CountedRows, stages: Stages, correction: Select) -> StagedSelect:
    """Add a correction per group to the totals of all rows as they are."""
    totals = tuple((name, or_zero(sum_of_group(Reference(name)))) for name in rows.values)
    both = RelationalUnion((_totals_before_limits(bounded_plan, rows), correction))
    return StagedSelect(stages, Select((*unrenamed_columns(rows.keys), *totals), both, group_by=rows.keys))


def _in_fractions_of_step(total: Scalar, bits: int) -> Scalar:
    """Express a total in 2^-bits of a step."""
    return apply(ScalarFunction.MULTIPLY, to_wide_integer(total), Constant(1 << bits, Wide.INTEGER))


def _unlimited_total(rows: CountedRows, name: str) -> Scalar:
    """Count units rather than rows, where they count once."""
    if name not in rows.maximal:
        return GroupTotal(AggregateFunction.COUNT) if name in rows.ones else sum_of_group(Reference(name))
    is_counted = None if name in rows.ones else apply(ScalarFunction.EQUAL, Reference(name), integer_constant(1))
    return GroupTotal(AggregateFunction.UNITS, Reference("u"), is_counted)


def _clip_unit_totals(bounded_plan: BoundedPlan, rows: CountedRows) -> StagedSelect:
    """Clip each unit's totals, first per group to what c rows may count, then over all groups to the norm.

    A unit with few rows is within every norm, wherever they are: only the units with more are looked at group by group,
    or, where the cap of a group is the norm, row by row.
    """
    scaling = [ClipScaling.for_measure(bounded_plan, number) for number in range(len(bounded_plan.measures))]
    max_totals = max_unit_totals(bounded_plan)
    clipped = _clip_groups(rows, scaling, max_totals)
    if rows.cells and max(max_totals) <= MAX_UNIT_TOTAL:
        return _clip_cells(bounded_plan, rows, scaling, max_totals)
    if not rows.keys:  # one group: the cap is the norm
        totals = tuple((name, or_zero(sum_of_group(Reference(name)))) for name in rows.values)
        return StagedSelect((_unit_totals(rows, rows.select, max_totals, scaling),), Select(totals, clipped))
    if can_scale_rows_separately(bounded_plan, max_totals):
        return _scale_rows(bounded_plan, rows, scaling, max_totals)
    beyond = _rows_beyond_limit(rows, unrenamed_columns(("u", *rows.keys, *rows.values), "r"))
    heavy = _units_possibly_scaled(bounded_plan, rows, scaling)
    stages = (heavy, _unit_totals(rows, beyond, max_totals, scaling), _unit_norms(clipped, scaling))
    return _correct_totals(bounded_plan, rows, stages, _clipping_change(bounded_plan, rows, scaling, clipped))


def _clip_pairs(bounded_plan: BoundedPlan, rows: CountedRows) -> StagedSelect:
    """Clip counts of units alone over all groups: each unit has one row for each of its groups, materialised once, as
    counting the units of a group would compute it too.
    """
    scaling = [ClipScaling.for_measure(bounded_plan, number) for number in range(len(bounded_plan.measures))]
    names = ("u", *rows.keys)
    unit_flags = tuple(
        (name, integer_constant(1) if name in rows.ones else GroupTotal(AggregateFunction.MAX, Reference(name)))
        for name in rows.values
    )
    pairs = "p", Select((*unrenamed_columns(names), *unit_flags), rows.select, group_by=names)
    pair_rows = replace(
        rows,
        select=Select(unrenamed_columns((*names, *rows.values)), StageReference("p")),
        maximal=frozenset(),
        cells=(),
    )
    heavy_pairs = "g", _rows_beyond_limit(pair_rows, unrenamed_columns((*names, *rows.values), "r"))
    clipped = _clip_groups(pair_rows, scaling, [1] * len(rows.values))
    heavy = _units_beyond_limit(pair_rows, _max_unscaled_rows(bounded_plan, scaling))
    stages = (pairs, heavy, heavy_pairs, _unit_norms(clipped, scaling))
    return _correct_totals(bounded_plan, pair_rows, stages, _clipping_change(bounded_plan, pair_rows, scaling, clipped))


def _max_unscaled_rows(bounded_plan: BoundedPlan, scaling: Sequence[ClipScaling]) -> int:
    """Return how many rows a unit may have, in whatever groups, and be within every limit and norm.

    Rows that are added up may all be in one group. A unit that counts once in a group is in as many as it has rows.
    """
    max_rows = min(bounded_plan.limits.rows_per_group, bounded_plan.limits.total)
    pairs = zip(bounded_plan.measures, scaling, strict=True)
    return min(part.max_full_groups if scaled.measure.once_per_unit else max_rows for scaled, part in pairs)


def _units_possibly_scaled(
    bounded_plan: BoundedPlan, rows: CountedRows, scaling: Sequence[ClipScaling]
) -> tuple[str, Select]:
    """Select the units with more rows than are surely within every limit and norm, less those whose rows are spread
    over so many groups that they are within them too (``clip_scaling``).
    """
    max_rows = _max_unscaled_rows(bounded_plan, scaling)
    name, heavy = _units_beyond_limit(rows, max_rows)
    group_number, max_squared_rows = _group_number(rows), max_squared_rows_of(bounded_plan, scaling)
    if group_number is None or max_squared_rows is None or max_squared_rows <= max_rows:
        return name, heavy
    spread = GroupTotal(AggregateFunction.RESIDUES, group_number)
    counted = replace(heavy, columns=(*heavy.columns, ("d", spread)))
    return name, Select(unrenamed_columns("un"), counted, where=(may_exceed_norm(max_rows, max_squared_rows),))


_CHEAP_TYPES = Type.INTEGER, Type.BOOLEAN, Type.DATE


def _group_number(rows: CountedRows) -> Scalar | None:
    """Compute a number from 0 on that the group of a row determines, from the keys that are cheap to number."""
    numbers = [
        number_of_value(Reference(name), kind, rows.codes.get(name, ()))
        for name, kind in zip(rows.keys, rows.kinds, strict=True)
        if kind in _CHEAP_TYPES or name in rows.codes
    ]
    return polynomial_hash(numbers) if numbers else None


def _scale_rows(
    bounded_plan: BoundedPlan, rows: CountedRows, scaling: Sequence[ClipScaling], max_totals: Sequence[int]
) -> StagedSelect:
    """Count every row as it is, or scaled where its unit is beyond the norm of a measure."""
    unit_totals = tuple(
        (part.length, apply(ScalarFunction.ABS, _unit_total(rows, name, max_total)))
        for name, part, max_total in zip(rows.values, scaling, max_totals, strict=True)
    )
    units = Select((*unrenamed_columns("u"), *unit_totals), rows.select, group_by=("u",))
    norms = tuple((part.length, part.unit_norm_if_too_large()) for part in scaling)
    is_beyond = AnyOf(tuple(part.is_unit_norm_too_large() for part in scaling))
    heavy = "h", Select((*unrenamed_columns("u"), *norms), units, where=(is_beyond,))
    lengths = [part.length for part in scaling]
    return _add_limited_rows(bounded_plan, rows, heavy, lengths, [part.scaled_row() for part in scaling])


def _clip_cells(
    bounded_plan: BoundedPlan, rows: CountedRows, scaling: Sequence[ClipScaling], max_totals: Sequence[int]
) -> StagedSelect:
    """Add up many counts over all rows at once, and correct them for units with more rows than count."""
    capped = dict(column for part in scaling for column in part.clipped_columns())
    differences = [
        apply(ScalarFunction.SUBTRACT, capped[name], whole)
        for name, whole in zip(rows.values, _whole_values(bounded_plan, rows), strict=True)
    ]
    excess = tuple(zip(rows.values, map(sum_of_group, differences), strict=True))
    select, names = without_contributions(rows.select, rows.cells)
    narrow_rows = replace(rows, select=select)
    heavy = _units_beyond_limit(narrow_rows, min(bounded_plan.limits.rows_per_group, bounded_plan.limits.total))
    beyond = _rows_beyond_limit(narrow_rows, (*unrenamed_columns(names, "r"), ("n", Reference("n", "h"))))
    heavy_values = with_contributions(beyond, rows.select, rows.values, rows.cells)  # of those units alone
    totals = tuple(
        (name, _unit_total(rows, name, max_total)) for name, max_total in zip(rows.values, max_totals, strict=True)
    )
    # by the number of rows too, which changes nothing: a table of all ids would hold every count for each of them
    units = "g", Select((*unrenamed_columns("u"), *totals), heavy_values, group_by=("u", "n"))
    return _correct_totals(bounded_plan, rows, (heavy, units), Select(excess, StageReference("g")))


def _unit_totals(
    rows: CountedRows, source: Select, max_totals: Sequence[int], scaling: Sequence[ClipScaling]
) -> tuple[str, Select]:
    """Add up each unit's totals in each group, and beside those clamped to 64 bits the exact ones to correct by. Totals
    that are scaled together are not clamped: that would change their ratio.
    """
    names = ("u", *rows.keys)
    unclamped = {name for part in scaling if part.may_exceed_64_bits for name in part.coordinates}
    totals = [
        (name, sum_of_group(Reference(name)) if name in unclamped else _unit_total(rows, name, max_total))
        for name, max_total in zip(rows.values, max_totals, strict=True)
    ]
    totals += [
        (name, sum_of_group(Reference(value)))
        for name, value, max_total in zip(rows.unclipped_names, rows.values, max_totals, strict=False)
        if max_total > MAX_UNIT_TOTAL and value not in rows.maximal
    ]
    return "g", Select((*unrenamed_columns(names), *totals), source, group_by=names)


def _unit_total(rows: CountedRows, name: str, max_total: int) -> Scalar:
    """Add up a unit's total in one group, within what can be scaled; no table exceeds ``max_total``."""
    if name in rows.maximal:
        return GroupTotal(AggregateFunction.MAX, Reference(name))
    if name in rows.ones and max_total <= MAX_UNIT_TOTAL:
        return GroupTotal(AggregateFunction.COUNT)
    total = sum_of_group(Reference(name))
    ends = Constant(-MAX_UNIT_TOTAL, Wide.INTEGER), Constant(MAX_UNIT_TOTAL, Wide.INTEGER)
    return convert_to_integer(total if max_total <= MAX_UNIT_TOTAL else clamped(total, *ends))


def _clip_groups(rows: CountedRows, scaling: Sequence[ClipScaling], max_totals: Sequence[int]) -> Select:
    """Clip units' totals to what may count in a group, beside the exact ones: computed twice, not materialised."""
    capped = [column for part in scaling for column in part.clipped_columns()]
    exact = tuple(
        (name, Reference(name if max_total > MAX_UNIT_TOTAL and value not in rows.maximal else value))
        for name, value, max_total in zip(rows.unclipped_names, rows.values, max_totals, strict=False)
    )
    return Select((*unrenamed_columns(("u", *rows.keys)), *capped, *exact), StageReference("g"))


def _unit_norms(clipped: Select, scaling: Sequence[ClipScaling]) -> tuple[str, Select]:
    """Compute the norm that each unit is scaled by."""
    norms = Select((*unrenamed_columns("u"), *(part.norm_column() for part in scaling)), clipped, group_by=("u",))
    return "n", Select((*unrenamed_columns("u"), *((part.length, part.norm_if_too_large()) for part in scaling)), norms)


def _clipping_change(
    bounded_plan: BoundedPlan, rows: CountedRows, scaling: Sequence[ClipScaling], clipped: Select
) -> Select:
    """Add up in each group the clipped and scaled totals of units beyond a limit, less their exact totals."""
    scaled = [column for part in scaling for column in part.scaled_columns()]
    excess = tuple(
        (
            name,
            apply(
                ScalarFunction.SUBTRACT,
                sum_of_group(scalar),
                _in_fractions_of_step(sum_of_group(Reference(exact)), bits),
            ),
        )
        for (name, scalar), exact, bits in zip(
            scaled, rows.unclipped_names, _coordinate_bits(bounded_plan), strict=True
        )
    )
    return Select((*unrenamed_columns(rows.keys), *excess), _join_norms(rows, clipped, scaling), group_by=rows.keys)


def _join_norms(rows: CountedRows, clipped: Select, scaling: Sequence[ClipScaling]) -> Select:
    """Join clipped totals to the norm of their unit."""
    total_columns = unrenamed_columns((*rows.keys, *rows.values, *rows.unclipped_names), "r")
    lengths = unrenamed_columns((part.length for part in scaling), "n")
    same_unit = apply(ScalarFunction.EQUAL, Reference("u", "r"), Reference("u", "n"))
    return Select((*total_columns, *lengths), clipped, joins=(RelationalJoin(StageReference("n"), "n", same_unit),))


# Samples


def _sampled_totals(
    bounded_plan: BoundedPlan, rows: CountedRows, sampling_key: int, *, by_threshold: bool = False
) -> StagedSelect:
    """Count every row as it is, less the rows of units beyond a limit that are not sampled."""
    limits = SampleLimits.for_rows(bounded_plan, rows)
    if limits.groups is not None and has_group_sets(rows):
        units = units_with_group_sets(_units_beyond_limit(rows, limits.least), rows, limits, sampling_key)
        ranked = _totals_before_limits(bounded_plan, replace(rows, select=rows_ranked_in_groups(rows, limits)))
        return _correct_totals(bounded_plan, replace(rows, select=rows_settled(rows)), (units,), ranked)
    if by_threshold and has_group_codes(rows) and limits.max_spread_rows and (limits.groups or 0) < MAX_LEAST:
        return _sampled_by_threshold(bounded_plan, rows, limits, limits.max_spread_rows, sampling_key)
    heavy, ranked, is_kept = _heavy_units_ranks_and_sample(bounded_plan, rows, sampling_key)
    return _correct_totals(bounded_plan, rows, (heavy,), _sampling_change(rows, ranked, is_kept))


def _sampled_by_threshold(
    bounded_plan: BoundedPlan, rows: CountedRows, limits: SampleLimits, max_rows: int, sampling_key: int
) -> StagedSelect:
    """Rank only the rows of those heavy units that have no threshold (``sampled_rows``). Values that are 1 in every
    row are not stored with them.
    """
    names = tuple(dict.fromkeys(("u", *rows.keys, *rows.distinguishing_columns, *rows.values)))
    stored = unrenamed_columns((name for name in names if name not in rows.ones), "r")
    columns = (*stored, *((name, integer_constant(1)) for name in names if name in rows.ones))
    group_rank, _ = ranks(rows, "h")
    coded_rows = _rows_beyond_limit(
        rows, (*stored, *unrenamed_columns(SEED_COLUMNS, "h"), ("s", group_code(rows, group_rank)))
    )
    row_rank = ("t", ranks(rows, "r")[1])
    ranked = rows_to_rank((*columns, *unrenamed_columns((SEED_COLUMNS[0], "s"), "r"), row_rank))
    ranked, is_kept = with_settled_rows(*rank_rows(rows, limits, ranked), columns)
    stages = (
        _heavy_units(rows, limits, sampling_key),
        *threshold_stages(coded_rows, limits.groups or 0, max_rows),
    )
    return _correct_totals(bounded_plan, rows, stages, _sampling_change(rows, ranked, is_kept))


def _sample_discovered(
    bounded_plan: BoundedPlan, rows: CountedRows, discovered_keys: Sequence[str], sampling_key: int
) -> StagedSelect:
    """Group the same sample twice: by all keys, and by the discovered ones to count the units that hold them."""
    heavy, ranked, is_kept = _heavy_units_ranks_and_sample(bounded_plan, rows, sampling_key)
    *total_names, holder = rows.values
    by_all = replace(rows, values=tuple(total_names), maximal=rows.maximal - {holder})
    by_discovered = replace(rows, keys=tuple(discovered_keys), values=(holder,), maximal=frozenset({holder}))
    null_keys = dict(zip(rows.keys, (Constant(None, kind) for kind in rows.kinds), strict=True))
    members = []
    for part in (by_all, by_discovered) if total_names else (by_discovered,):
        available = {*part.keys, *part.values}
        columns = ((name, Reference(name) if name in available else null) for name, null in null_keys.items())
        totals = ((name, Reference(name) if name in available else Constant(0, Wide.INTEGER)) for name in rows.values)
        grouped = _correct_totals(bounded_plan, part, (), _sampling_change(part, StageReference("s"), is_kept)).result
        members.append(Select((*columns, *totals), grouped))
    union = Select(unrenamed_columns((*rows.keys, *rows.values)), RelationalUnion(tuple(members)))
    return StagedSelect((heavy, ("s", ranked)), union)


def _heavy_units_ranks_and_sample(
    bounded_plan: BoundedPlan, rows: CountedRows, sampling_key: int
) -> tuple[tuple[str, Select], Select, Scalar]:
    """Return the stage of units beyond a limit, their rows with their ranks, and the predicate of the sampled rows."""
    limits = SampleLimits.for_rows(bounded_plan, rows)
    columns_read = dict.fromkeys(("u", *rows.keys, *rows.distinguishing_columns, *rows.values))
    seed = unrenamed_columns(SEED_COLUMNS[:1], "h")
    row_ranks = rank_columns(rows, limits.groups is not None)
    ranked = _rows_beyond_limit(rows, (*unrenamed_columns(columns_read, "r"), *seed, *row_ranks))
    return _heavy_units(rows, limits, sampling_key), *rank_rows(rows, limits, ranked)


def _heavy_units(rows: CountedRows, limits: SampleLimits, sampling_key: int) -> tuple[str, Select]:
    """Select the units with more rows than are surely within every limit, with their seeds."""
    name, heavy_units = _units_beyond_limit(rows, limits.least)
    return name, with_seeds(heavy_units, sampling_key)


def _sampling_change(rows: CountedRows, ranked: Select | StageReference, is_kept: Scalar) -> Select:
    """Subtract rows that are not sampled; a unit with no sampled row in a group no longer counts there."""
    if not rows.maximal:
        losses = tuple((name, sum_of_group(apply(ScalarFunction.NEGATE, Reference(name)))) for name in rows.values)
        return Select(
            (*unrenamed_columns(rows.keys), *losses),
            ranked,
            where=(apply(ScalarFunction.NOT, is_kept),),
            group_by=rows.keys,
        )
    names = ("u", *rows.keys)
    losses = tuple((name, _unit_sampling_change(rows, name, is_kept)) for name in rows.values)
    unit_losses = Select((*unrenamed_columns(names), *losses), ranked, group_by=names)
    return Select(
        (*unrenamed_columns(rows.keys), *((name, sum_of_group(Reference(name))) for name in rows.values)),
        unit_losses,
        group_by=rows.keys,
    )


def _unit_sampling_change(rows: CountedRows, name: str, is_kept: Scalar) -> Scalar:
    value = Reference(name)
    if name not in rows.maximal:
        return sum_of_group(
            apply(ScalarFunction.CASE, is_kept, integer_constant(0), apply(ScalarFunction.NEGATE, value))
        )
    sampled = GroupTotal(AggregateFunction.MAX, apply(ScalarFunction.CASE, is_kept, value, integer_constant(0)))
    return apply(ScalarFunction.SUBTRACT, sampled, GroupTotal(AggregateFunction.MAX, value))
