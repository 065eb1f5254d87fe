"""Lower the relations of a plan to selects: a column ``u`` for the unit, and one for each column read.

A chain of public joins, unnested lists and filters over a base is one flat select, with common subexpressions
computed in stages. A base is a scan, or a node that looks at several rows of a unit at once; these are lowered from
their own inputs, recursively. Only columns that an expression above reads are read.

Rows of a unit are chosen and ordered by their values alone, never by the order in which an engine meets them: by the
sort keys of the query first, then by every column that is read. Rows that still tie are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sfumato.engine.lowering.proven_values import ProvenValues
from sfumato.engine.lowering.relational_form import (
    AggregateFunction,
    AnyOf,
    Apply,
    CleanTable,
    Constant,
    Exists,
    GroupTotal,
    Items,
    Rank,
    Reference,
    RelationalJoin,
    RelationalUnion,
    Scalar,
    ScalarFunction,
    SecretConstant,
    Select,
    StageReference,
    apply,
    integer_constant,
)
from sfumato.engine.lowering.row_lowering import RowLowering
from sfumato.engine.lowering.sample_ranks import SEED_COLUMNS, mixed_rank, number_of_value, with_seeds
from sfumato.engine.lowering.unit_lowering import UnitLowering, WindowLowering
from sfumato.plan import nodes
from sfumato.plan.join_conditions import reads_one_side
from sfumato.plan.limits import hash_prefix, hash_threshold
from sfumato.plan.values.expressions import Call, Column, Expression, Field, columns, conjuncts
from sfumato.policy import Type
from sfumato.quick_dataclass import dataclass

UNIT = "sf_unit"
"""The column of a scan that says whose row it is."""

_COMPARISONS = {
    "=": ScalarFunction.EQUAL,
    "<>": ScalarFunction.UNEQUAL,
    "<": ScalarFunction.LESS,
    "<=": ScalarFunction.AT_MOST,
    ">": ScalarFunction.GREATER,
    ">=": ScalarFunction.AT_LEAST,
    "BETWEEN": ScalarFunction.BETWEEN,
}

Columns = tuple[tuple[str, Scalar], ...]
Stages = tuple[tuple[str, Select], ...]
Names = Mapping[Field, str]
"""What the columns that are read are called."""


@dataclass(frozen=True)
class FlatRows:
    """Rows that one select returns: the select, the lowering of expressions over its columns, and the filters."""

    select: Select
    lowering: RowLowering
    tests: tuple[Scalar, ...]
    proven: ProvenValues
    """What the filters prove of expressions."""

    def select_columns(self, columns: Columns, tests: Iterable[Scalar] = ()) -> Select:
        """Select these columns of the rows that pass the filters, after the stages of common subexpressions."""
        return Select(columns, with_shared_columns(self.select, self.lowering), where=(*self.tests, *tests))


class RelationLowering:
    """The lowering of the relations of one statement; collects the stages that precede it."""

    def __init__(self, key: int, sample: Fraction | None = None) -> None:
        self._key = key
        self._sample = sample
        self.stages: list[tuple[str, Select]] = []

    def add_stage(self, select: Select) -> StageReference:
        """Add a named stage that computes these rows once."""
        name = f"p{len(self.stages)}"
        self.stages.append((name, select))
        return StageReference(name)

    def lower_flat(self, relation: nodes.Relation, above: Iterable[Expression], *, unit: bool) -> FlatRows:
        """Lower a relation to rows with the columns that the expressions ``above`` read, and the unit if ``unit``."""
        chain, base = _split_chain(relation)
        fields_read = _referenced_fields((*(expression for node in chain for expression in node.expressions), *above))
        lists = [node.items for node in chain if isinstance(node, nodes.Unnest)]
        names = {field: f"c{index}" for index, field in enumerate(dict.fromkeys((*fields_read, *lists)))}
        base_fields = {*base.columns, *lists}
        source = self._lower_base(
            base, {field: short_name for field, short_name in names.items() if field in base_fields}, unit
        )
        lowering = RowLowering({field: Reference(short_name) for field, short_name in names.items()})
        for node in reversed(chain):
            if isinstance(node, nodes.PublicJoin):
                source = _join_public_table(source, lowering, node, names)
            elif isinstance(node, nodes.Unnest):
                item_column = (names.get(node.item_column, f"i{node.source}"), Items(Reference(names[node.items])))
                source = Select((item_column,), with_shared_columns(source, lowering), all_columns=True)
        predicates = [node.predicate for node in chain if isinstance(node, nodes.Filter)]
        return FlatRows(source, lowering, tuple(map(lowering.lower, predicates)), ProvenValues(predicates))

    def _lower_base(self, base: nodes.Relation, names: Names, unit: bool) -> Select:
        return _BASES[type(base)](self, base, names, unit)

    def _lower_rows_with_unit(self, relation: nodes.Relation, fields: Iterable[Field]) -> Select:
        """Lower a relation's rows to (u, c0, c1, …), in the order of the fields."""
        columns_read = [Column(field, relation.columns[field]) for field in fields]
        flat = self.lower_flat(relation, columns_read, unit=True)
        lowered_columns = tuple((f"c{index}", flat.lowering.lower(column)) for index, column in enumerate(columns_read))
        return flat.select_columns((*unrenamed_columns("u"), *lowered_columns))

    def lower_scan(self, base: nodes.Scan, names: Names, unit: bool) -> Select:
        if base.possible_rows is not None:
            possible = nodes.LimitRowsPerUnit(replace(base, possible_rows=None), base.possible_rows)
            return self.lower_row_limit(possible, names, unit)
        unit_column = (("u", Reference(UNIT, "r")),) if unit else ()
        table_columns = tuple((short_name, Reference(field.name, "r")) for field, short_name in names.items())
        table = CleanTable(base.table, _distinct_names(names))
        sampled = () if self._sample is None else (_is_sampled(Reference(UNIT, "r"), self._sample, self._key),)
        return Select((*unit_column, *table_columns) or (("c", integer_constant(0)),), table, where=sampled)

    def lower_row_limit(self, base: nodes.LimitRowsPerUnit, names: Names, unit: bool) -> Select:
        """Keep all rows of units within the limit, and of the other units the rows with the smallest ranks."""
        input_rows = self._lower_rows_with_unit(base.input, names)
        rows = input_rows if is_cheap_chain(base.input) else self.add_stage(input_rows)
        count = GroupTotal(AggregateFunction.COUNT)
        exceeds_limit = apply(ScalarFunction.GREATER, count, integer_constant(base.rows))
        heavy_units = Select((*unrenamed_columns("u"), ("n", count)), rows, group_by=("u",), having=exceeds_limit)
        heavy = self.add_stage(with_seeds(heavy_units, self._key))
        short_names = tuple(f"c{index}" for index in range(len(names)))
        columns, kinds = unrenamed_columns(("u", *short_names), "r"), [base.columns[field].type for field in names]
        same_unit = apply(ScalarFunction.EQUAL, Reference("u", "r"), Reference("u", "h"))
        within = Select(columns, rows, where=(Exists(heavy, "h", same_unit, negated=True),))
        numbers = [number_of_value(Reference(name, "r"), kind) for name, kind in zip(short_names, kinds, strict=True)]
        seed = Reference(SEED_COLUMNS[0], "h"), Reference(SEED_COLUMNS[1], "h")
        ranks = (SEED_COLUMNS[0], seed[0]), ("t", mixed_rank(numbers, seed))
        beyond = Select((*columns, *ranks), rows, joins=(RelationalJoin(heavy, "h", same_unit),))
        partition = Reference(SEED_COLUMNS[0]), Reference("u")
        row_rank = Rank(partition, (Reference("t"), *map(Reference, short_names)))
        ranked = Select((*unrenamed_columns(("u", *short_names)), ("a", row_rank)), beyond)
        sampled = Select(
            unrenamed_columns(("u", *short_names)),
            ranked,
            where=(apply(ScalarFunction.AT_MOST, Reference("a"), integer_constant(base.rows)),),
        )
        return _rename_columns(
            Select(unrenamed_columns(("u", *short_names)), RelationalUnion((within, sampled))), names, unit
        )

    def lower_per_unit(self, base: nodes.PerUnit, names: Names, unit: bool) -> Select:
        """Aggregate to one row for each unit and key: totals of the unit's rows, and results computed from them."""
        results = [(Field(base.source, "", name), measure) for name, measure in base.results]
        measures_read = [(field, measure) for field, measure in results if field in names]
        keys = [key for _, key in base.keys]
        flat = self.lower_flat(
            base.input,
            (*keys, *(expression for _, measure in measures_read for expression in measure.expressions)),
            unit=True,
        )
        grouped = ("u", *(f"k{index}" for index in range(len(keys))))
        unit_lowering = UnitLowering(flat.lowering, tuple(map(Reference, grouped)))
        totals: dict[GroupTotal, str] = {}
        results_by_field = {
            field: unit_lowering.result(measure, lambda total: Reference(totals.setdefault(total, f"t{len(totals)}")))
            for field, measure in measures_read
        }
        results_by_field |= {
            Field(base.source, "", name): Reference(f"k{index}") for index, (name, _) in enumerate(base.keys)
        }
        key_columns = tuple((f"k{index}", flat.lowering.lower(key)) for index, key in enumerate(keys))
        rows = flat.select_columns((*unrenamed_columns("u"), *key_columns, *unit_lowering.row_columns))
        ranked = Select(unit_lowering.rank_columns, rows, all_columns=True) if unit_lowering.rank_columns else rows
        total_columns = tuple((name, total) for total, name in totals.items())
        unit_rows = Select((*unrenamed_columns(grouped), *total_columns), ranked, group_by=grouped)
        result_columns = tuple((short_name, results_by_field[field]) for field, short_name in names.items())
        return Select(
            (*(unrenamed_columns("u") if unit else ()), *result_columns) or (("c", integer_constant(0)),), unit_rows
        )

    def lower_window(self, base: nodes.Window, names: Names, unit: bool) -> Select:
        """Add the results of window functions to every row; ties are broken by all columns that are read."""
        all_functions = [(Field(base.source, "", name), function) for name, function in base.functions]
        functions = {field: function for field, function in all_functions if field in names}
        pass_through = {field: short_name for field, short_name in names.items() if field not in functions}
        pass_through_columns = [Column(field, base.columns[field]) for field in pass_through]
        expressions_read = (
            *pass_through_columns,
            *(expression for function in functions.values() for expression in function.expressions),
        )
        flat = self.lower_flat(base.input, expressions_read, unit=True)
        columns = tuple(
            (pass_through[field], flat.lowering.lower(column))
            for field, column in zip(pass_through, pass_through_columns, strict=True)
        )
        windows = WindowLowering(flat.lowering, tuple(Reference(short_name) for short_name, _ in columns))
        results_by_field = windows.results(functions)
        rows = flat.select_columns((*unrenamed_columns("u"), *columns, *windows.unit.row_columns))
        for stage in windows.stages:
            rows = Select(stage, rows, all_columns=True)
        result_columns = tuple(
            (short_name, results_by_field.get(field, Reference(short_name))) for field, short_name in names.items()
        )
        return Select(
            (*(unrenamed_columns("u") if unit else ()), *result_columns) or (("c", integer_constant(0)),), rows
        )

    def lower_unit_join(self, base: nodes.UnitJoin, names: Names, unit: bool) -> Select:
        """Join the rows of the two sides that belong to the same unit and match."""
        left, right, on = self._lower_match(base, names)
        left_columns = base.left.columns
        lowered_columns = tuple(
            (short_name, Reference(short_name, "r" if field in left_columns else "j"))
            for field, short_name in names.items()
        )
        unit_column = (("u", Reference("u", "r")),) if unit else ()
        return Select(
            (*unit_column, *lowered_columns) or (("c", integer_constant(0)),),
            left,
            joins=(RelationalJoin(right, "j", on, base.outer),),
        )

    def lower_semi_join(self, base: nodes.SemiJoin, names: Names, unit: bool) -> Select:
        """Keep the rows of the input for which the other side has a match, or has none."""
        left, right, on = self._lower_match(base, names)
        unit_column = (("u", Reference("u", "r")),) if unit else ()
        columns = (*unit_column, *unrenamed_columns(names.values(), "r")) or (("c", integer_constant(0)),)
        return Select(columns, left, where=(Exists(right, "j", on, base.anti),))

    def lower_any_semi_join(self, base: nodes.AnySemiJoin, names: Names, unit: bool) -> Select:
        """Keep the rows of the input for which the predicate holds, or one of the tests."""
        left_keys = [] if base.predicate is None else [base.predicate]
        predicates: list[Scalar | Exists] = [apply(ScalarFunction.IS_TRUE, Reference("k0", "r"))] if left_keys else []
        for test in base.tests:
            match_keys: MatchKeys = (left_keys, [])
            on = _match_condition(base.input, test, match_keys)
            predicates.append(Exists(self._lower_side(test.other, {}, match_keys[1], "l"), "j", on, test.anti))
        unit_column = (("u", Reference("u", "r")),) if unit else ()
        columns = (*unit_column, *unrenamed_columns(names.values(), "r")) or (("c", integer_constant(0)),)
        left = self._lower_side(base.input, names, left_keys, "k")
        return Select(columns, left, where=(AnyOf(tuple(predicates)),))

    def _lower_match(self, base: nodes.UnitJoin | nodes.SemiJoin, names: Names) -> tuple[Select, Select, Scalar]:
        """Lower both sides, each with its wanted columns and its match keys, and the join condition."""
        match_keys: MatchKeys = ([], [])
        on = _match_condition(base.inputs[0], base, match_keys)
        sides = [
            self._lower_side(
                relation,
                {field: short_name for field, short_name in names.items() if field in relation.columns},
                *keys_and_letter,
            )
            for relation, keys_and_letter in zip(base.inputs, zip(match_keys, "kl", strict=True), strict=True)
        ]
        return sides[0], sides[1], on

    def _lower_side(
        self, relation: nodes.Relation, names: Names, match_keys: Sequence[Expression], letter: str
    ) -> Select:
        columns_read = [Column(field, relation.columns[field]) for field in names]
        flat = self.lower_flat(relation, (*match_keys, *columns_read), unit=True)
        lowered_columns = tuple(zip(names.values(), map(flat.lowering.lower, columns_read), strict=True))
        key_columns = tuple((f"{letter}{index}", flat.lowering.lower(key)) for index, key in enumerate(match_keys))
        return flat.select_columns((*unrenamed_columns("u"), *lowered_columns, *key_columns))

    def lower_union(self, base: nodes.Union, names: Names, unit: bool) -> Select:
        field_index = {field: index for index, field in enumerate(base.columns)}
        unit_column = unrenamed_columns("u") if unit else ()
        members = []
        for relation, member_expressions in base.members:
            expressions_read = [member_expressions[field_index[field]] for field in names]
            flat = self.lower_flat(relation, expressions_read, unit=unit)
            lowered = tuple(
                (f"c{index}", flat.lowering.lower(expression)) for index, expression in enumerate(expressions_read)
            )
            members.append(flat.select_columns((*unit_column, *lowered) or (("c", integer_constant(0)),)))
        short_names = tuple(f"c{index}" for index in range(len(names)))
        rows = Select(
            (*unit_column, *unrenamed_columns(short_names)) or (("c", integer_constant(0)),),
            RelationalUnion(tuple(members)),
        )
        return _rename_columns(rows, names, unit)


MatchKeys = tuple[list[Expression], list[Expression]]
"""The expressions of either side that a join condition compares."""


def _match_condition(
    left: nodes.Relation, match: nodes.UnitJoin | nodes.SemiJoin | nodes.ExistsTest, match_keys: MatchKeys
) -> Scalar:
    """Lower a join condition over both sides, and add what it compares to their match keys."""

    def match_key(expression: Expression) -> Scalar:
        side = 0 if left.columns.keys() >= columns(expression).keys() else 1
        match_keys[side].append(expression)
        return Reference(f"{'kl'[side]}{len(match_keys[side]) - 1}", "rj"[side])

    right = match.right if isinstance(match, nodes.UnitJoin) else match.other
    conditions: list[Scalar] = [apply(ScalarFunction.EQUAL, Reference("u", "r"), Reference("u", "j"))]
    conditions += [apply(ScalarFunction.EQUAL, match_key(first), match_key(second)) for first, second in match.pairs]
    for conjunct in conjuncts(match.condition):
        if reads_one_side(conjunct, left, right):
            conditions.append(match_key(conjunct))
        else:
            assert isinstance(conjunct, Call)
            conditions.append(Apply(_COMPARISONS[conjunct.function], tuple(map(match_key, conjunct.arguments))))
    return all_of(conditions)


Base = Callable[[RelationLowering, Any, Names, bool], Select]
_BASES: dict[type, Base] = {
    nodes.Scan: RelationLowering.lower_scan,
    nodes.LimitRowsPerUnit: RelationLowering.lower_row_limit,
    nodes.PerUnit: RelationLowering.lower_per_unit,
    nodes.Window: RelationLowering.lower_window,
    nodes.UnitJoin: RelationLowering.lower_unit_join,
    nodes.SemiJoin: RelationLowering.lower_semi_join,
    nodes.AnySemiJoin: RelationLowering.lower_any_semi_join,
    nodes.Union: RelationLowering.lower_union,
}


def _is_sampled(unit: Scalar, rate: Fraction, sampling_key: int) -> Scalar:
    """Return the predicate that a unit is in the sample of the release that has this key."""
    text = apply(ScalarFunction.CONVERT, unit, detail=(Type.TEXT,))
    prefix = SecretConstant(hash_prefix(sampling_key), Type.TEXT)
    hashed = apply(ScalarFunction.HASH, apply(ScalarFunction.JOIN, prefix, text))
    return apply(ScalarFunction.LESS, hashed, Constant(hash_threshold(rate), Type.TEXT))


def is_cheap_chain(relation: nodes.Relation) -> bool:
    """Return whether a relation is a chain over a scan, which is cheap to read repeatedly."""
    base = _split_chain(relation)[1]
    return isinstance(base, nodes.Scan) and base.possible_rows is None


Link = nodes.PublicJoin | nodes.Unnest | nodes.Filter | nodes.BoundContributions


def _split_chain(relation: nodes.Relation) -> tuple[list[Link], nodes.Relation]:
    """Split a relation into its public joins, unnested lists and filters, outermost first, and the base below them."""
    chain = []
    while isinstance(relation, Link):
        chain.append(relation)
        relation = relation.input
    return chain, relation


def _join_public_table(source: Select, lowering: RowLowering, join: nodes.PublicJoin, names: Names) -> Select:
    """Join every row to its matches in a public table."""
    comparisons = [("=", expression, name) for expression, name in join.pairs] + list(join.bands)
    lowered = [
        (_COMPARISONS[test], lowering.compute_once(lowering.lower(expression)), name)
        for test, expression, name in comparisons
    ]
    source = with_shared_columns(source, lowering)
    conditions = [apply(test, qualify_reference("r", scalar), Reference(name, "j")) for test, scalar, name in lowered]
    public_columns = tuple(
        (short_name, Reference(field.name, "j")) for field, short_name in names.items() if field.source == join.source
    )
    compared = (name for _, _, name in lowered)
    columns_read = _distinct_names((field for field in names if field.source == join.source), compared)
    public_join = RelationalJoin(CleanTable(join.table, columns_read), "j", all_of(conditions), join.outer)
    return Select(public_columns, source, joins=(public_join,), all_columns=True)


def _distinct_names(fields: Iterable[Field], more: Iterable[str] = ()) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*(field.name for field in fields), *more)))


def _rename_columns(rows: Select, names: Names, unit: bool) -> Select:
    """Rename columns c0, c1, … to the requested names."""
    short_columns = tuple((short_name, Reference(f"c{index}")) for index, short_name in enumerate(names.values()))
    return Select((*(unrenamed_columns("u") if unit else ()), *short_columns) or (("c", integer_constant(0)),), rows)


def with_shared_columns(source: Select, lowering: RowLowering) -> Select:
    """Compute common subexpressions over a source, one stage for each level of nesting."""
    for level in lowering.take_new_stages():
        source = Select(tuple(level), source, all_columns=True)
    return source


def qualify_reference(part: str, scalar: Scalar) -> Scalar:
    return Reference(scalar.name, part) if isinstance(scalar, Reference) else scalar


def _referenced_fields(expressions: Iterable[Expression]) -> list[Field]:
    """List the columns of tables that expressions read, without duplicates."""
    all_references: Iterator[Any] = (reference for expression in expressions for reference in columns(expression))
    return list(dict.fromkeys(reference for reference in all_references if isinstance(reference, Field)))


def unrenamed_columns(names: Iterable[str], part: str | None = None) -> Columns:
    """Select columns under their own names."""
    return tuple((name, Reference(name, part)) for name in names)


def all_of(tests: Sequence[Scalar]) -> Scalar:
    """Return the conjunction of the tests."""
    return tests[0] if len(tests) == 1 else Apply(ScalarFunction.AND, tuple(tests))
