"""Relations of a plan become selects of the relational form: a column u for the unit, and one for each column read.

A chain of public joins, lists and conditions over a base is one flat select, with what is shared between expressions
computed in stages. A base is a scan, or a node that looks at several rows of a unit at once; these are lowered from
their own inputs, one upon the other. Only the columns that somebody above reads are read.

Rows of a unit that are chosen or ordered are so by their values alone, never by the order in which an engine meets
them: what is written first, then every column that is read. Rows that still tie are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.engine.lowering.relational import (
    AggregateFunction,
    Apply,
    CleanTable,
    Constant,
    Exists,
    GroupTotal,
    Items,
    Named,
    Rank,
    Reference,
    RelationalJoin,
    RelationalUnion,
    Scalar,
    ScalarFunction,
    Select,
    apply,
    whole,
)
from sfumato.engine.lowering.row_lowering import RowLowering, real
from sfumato.engine.lowering.unit_lowering import UnitLowering, WindowLowering
from sfumato.plan import nodes
from sfumato.plan.values.expressions import Call, Column, Expression, Field, columns
from sfumato.policy import Type

UNIT = "sf_unit"
"""The column of a scan that says whose row it is."""
_HALF = 2**48

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
class Flat:
    """Rows are flat when one select gives them: what is read of them, how expressions over them are lowered, and which
    of them count.
    """

    select: Select
    lowering: RowLowering
    tests: tuple[Scalar, ...]

    def selected(self, made: Columns, tests: Iterable[Scalar] = ()) -> Select:
        """Select these columns of the rows that count, after what they share is computed."""
        return Select(made, staged(self.select, self.lowering), where=(*self.tests, *tests))


class RelationLowering:
    """This lowers the relations of one statement, and collects the stages that come before it."""

    def __init__(self, key: int) -> None:
        self._key = key
        self.stages: list[tuple[str, Select]] = []

    def stage(self, select: Select) -> Named:
        """Compute these rows once under a name."""
        name = f"p{len(self.stages)}"
        self.stages.append((name, select))
        return Named(name)

    def flat(self, relation: nodes.Relation, above: Iterable[Expression], *, unit: bool) -> Flat:
        """Lower the rows of a relation with the columns that these expressions read, and the unit where it is
        wanted.
        """
        chain, base = _chain(relation)
        read = _fields((*(each for node in chain for each in node.expressions), *above))
        lists = [node.items for node in chain if isinstance(node, nodes.Unnest)]
        names = {field: f"c{index}" for index, field in enumerate(dict.fromkeys((*read, *lists)))}
        own = {*base.columns, *lists}
        source = self._base(base, {field: short for field, short in names.items() if field in own}, unit)
        lowering = RowLowering({field: Reference(short) for field, short in names.items()})
        for node in reversed(chain):
            if isinstance(node, nodes.Join):
                source = _beside(source, lowering, node, names)
            elif isinstance(node, nodes.Unnest):
                made = (names.get(node.item, f"i{node.source}"), Items(Reference(names[node.items])))
                source = Select((made,), staged(source, lowering), everything=True)
        tests = tuple(lowering.lower(node.predicate) for node in chain if isinstance(node, nodes.Filter))
        return Flat(source, lowering, tests)

    def _base(self, base: nodes.Relation, names: Names, unit: bool) -> Select:
        return _BASES[type(base)](self, base, names, unit)

    def _rows(self, relation: nodes.Relation, read: Iterable[Field]) -> Select:
        """Lower a relation's rows as (u, c…), the columns called by their places."""
        wanted = [Column(field, relation.columns[field]) for field in read]
        flat = self.flat(relation, wanted, unit=True)
        made = tuple((f"c{index}", flat.lowering.lower(each)) for index, each in enumerate(wanted))
        return flat.selected((*same("u"), *made))

    def scan(self, base: nodes.Scan, names: Names, unit: bool) -> Select:
        found = (("u", Reference(UNIT, "r")),) if unit else ()
        own = tuple((short, Reference(field.name, "r")) for field, short in names.items())
        return Select((*found, *own) or (("c", whole(0)),), CleanTable(base.table))

    def cut(self, base: nodes.Cut, names: Names, unit: bool) -> Select:
        """Keep the rows of units within the limit as they are, and of the others the rows of the smallest ranks."""
        made = self._rows(base.input, names)
        rows = made if plain(base.input) else self.stage(made)
        count = GroupTotal(AggregateFunction.COUNT)
        over = apply(ScalarFunction.GREATER, count, whole(base.rows))
        heavy = self.stage(Select(same("u"), rows, grouped=("u",), having=over))
        short = tuple(f"c{index}" for index in range(len(names)))
        columns, kinds = same(("u", *short), "r"), [base.columns[field].type for field in names]
        same_unit = apply(ScalarFunction.EQUAL, Reference("u", "r"), Reference("u", "h"))
        within = Select(columns, rows, where=(Exists(heavy, "h", same_unit, negated=True),))
        texts = [token(Reference(name, "r"), kind) for name, kind in zip(short, kinds, strict=True)]
        rank = apply(ScalarFunction.DIGEST, Constant(str(self._key), Type.TEXT), *texts)
        beyond = Select((*columns, ("t", rank)), rows, joins=(RelationalJoin(heavy, "h", same_unit),))
        place = Rank((Reference("u"),), (Reference("t"), *map(Reference, short)))
        ranked = Select((*same(("u", *short)), ("a", place)), beyond)
        kept = Select(
            same(("u", *short)), ranked, where=(apply(ScalarFunction.AT_MOST, Reference("a"), whole(base.rows)),)
        )
        return _renamed(Select(same(("u", *short)), RelationalUnion((within, kept))), names, unit)

    def per_unit(self, base: nodes.PerUnit, names: Names, unit: bool) -> Select:
        """Make one row for each unit and key: totals of the unit's rows, and what is made of them."""
        results = [(Field(base.source, "", name), measure) for name, measure in base.results]
        wanted = [(field, measure) for field, measure in results if field in names]
        keys = [key for _, key in base.keys]
        flat = self.flat(base.input, (*keys, *(each for _, made in wanted for each in made.expressions)), unit=True)
        grouped = ("u", *(f"k{index}" for index in range(len(keys))))
        own = UnitLowering(flat.lowering, tuple(map(Reference, grouped)))
        totals: dict[GroupTotal, str] = {}
        found = {
            field: own.result(measure, lambda total: Reference(totals.setdefault(total, f"t{len(totals)}")))
            for field, measure in wanted
        }
        found |= {Field(base.source, "", name): Reference(f"k{place}") for place, (name, _) in enumerate(base.keys)}
        by = tuple((f"k{index}", flat.lowering.lower(key)) for index, key in enumerate(keys))
        rows = flat.selected((*same("u"), *by, *own.rows))
        ranked = Select(own.ranks, rows, everything=True) if own.ranks else rows
        taken = tuple((name, total) for total, name in totals.items())
        units = Select((*same(grouped), *taken), ranked, grouped=grouped)
        made = tuple((short, found[field]) for field, short in names.items())
        return Select((*(same("u") if unit else ()), *made) or (("c", whole(0)),), units)

    def window(self, base: nodes.Window, names: Names, unit: bool) -> Select:
        """Give every row with what windows find for it; rows that tie are ordered by all that is read of them."""
        wanted = [(Field(base.source, "", name), made) for name, made in base.functions]
        functions = {field: made for field, made in wanted if field in names}
        through = {field: short for field, short in names.items() if field not in functions}
        own = [Column(field, base.columns[field]) for field in through]
        read = (*own, *(each for made in functions.values() for each in made.expressions))
        flat = self.flat(base.input, read, unit=True)
        columns = tuple((through[field], flat.lowering.lower(each)) for field, each in zip(through, own, strict=True))
        windows = WindowLowering(flat.lowering, tuple(Reference(short) for short, _ in columns))
        found = windows.results(functions)
        rows = flat.selected((*same("u"), *columns, *windows.unit.rows))
        for stage in windows.stages:
            rows = Select(stage, rows, everything=True)
        made = tuple((short, found.get(field, Reference(short))) for field, short in names.items())
        return Select((*(same("u") if unit else ()), *made) or (("c", whole(0)),), rows)

    def unit_join(self, base: nodes.UnitJoin, names: Names, unit: bool) -> Select:
        """Put both sides side by side, under equality of the unit."""
        left, right, on = self._matched(base, names)
        mine = base.left.columns
        made = tuple((short, Reference(short, "r" if field in mine else "j")) for field, short in names.items())
        found = (("u", Reference("u", "r")),) if unit else ()
        return Select((*found, *made) or (("c", whole(0)),), left, joins=(RelationalJoin(right, "j", on, base.outer),))

    def semi_join(self, base: nodes.SemiJoin, names: Names, unit: bool) -> Select:
        """Keep the rows of the input for which the other side has a match, or has none."""
        left, right, on = self._matched(base, names)
        found = (("u", Reference("u", "r")),) if unit else ()
        made = (*found, *same(names.values(), "r")) or (("c", whole(0)),)
        return Select(made, left, where=(Exists(right, "j", on, base.anti),))

    def _matched(self, base: nodes.UnitJoin | nodes.SemiJoin, names: Names) -> tuple[Select, Select, Scalar]:
        """Prepare two sides, each with its own of the columns wanted and what it is matched by, and when they match."""
        mine = base.inputs[0].columns
        matching: tuple[list[Expression], list[Expression]] = ([], [])

        def placed(made: Expression) -> Scalar:
            side = 0 if mine.keys() >= columns(made).keys() else 1
            matching[side].append(made)
            return Reference(f"{'kl'[side]}{len(matching[side]) - 1}", "rj"[side])

        on: list[Scalar] = [apply(ScalarFunction.EQUAL, Reference("u", "r"), Reference("u", "j"))]
        on += [apply(ScalarFunction.EQUAL, placed(first), placed(second)) for first, second in base.pairs]
        for part in nodes.conjuncts(base.condition):
            if nodes.one_sided(part, *base.inputs):
                on.append(placed(part))
            else:
                assert isinstance(part, Call)
                on.append(Apply(_COMPARISONS[part.function], tuple(map(placed, part.arguments))))
        sides = [
            self._side(relation, {field: short for field, short in names.items() if field in relation.columns}, *each)
            for relation, each in zip(base.inputs, zip(matching, "kl", strict=True), strict=True)
        ]
        return sides[0], sides[1], every(on)

    def _side(self, relation: nodes.Relation, names: Names, matching: Sequence[Expression], letter: str) -> Select:
        wanted = [Column(field, relation.columns[field]) for field in names]
        flat = self.flat(relation, (*matching, *wanted), unit=True)
        own = tuple(zip(names.values(), map(flat.lowering.lower, wanted), strict=True))
        made = tuple((f"{letter}{index}", flat.lowering.lower(each)) for index, each in enumerate(matching))
        return flat.selected((*same("u"), *own, *made))

    def union(self, base: nodes.Union, names: Names, unit: bool) -> Select:
        places = {field: index for index, field in enumerate(base.columns)}
        own = same("u") if unit else ()
        members = []
        for relation, made in base.members:
            wanted = [made[places[field]] for field in names]
            flat = self.flat(relation, wanted, unit=unit)
            lowered = tuple((f"c{index}", flat.lowering.lower(each)) for index, each in enumerate(wanted))
            members.append(flat.selected((*own, *lowered) or (("c", whole(0)),)))
        short = tuple(f"c{index}" for index in range(len(names)))
        rows = Select((*own, *same(short)) or (("c", whole(0)),), RelationalUnion(tuple(members)))
        return _renamed(rows, names, unit)


Base = Callable[[RelationLowering, Any, Names, bool], Select]
_BASES: dict[type, Base] = {
    nodes.Scan: RelationLowering.scan,
    nodes.Cut: RelationLowering.cut,
    nodes.PerUnit: RelationLowering.per_unit,
    nodes.Window: RelationLowering.window,
    nodes.UnitJoin: RelationLowering.unit_join,
    nodes.SemiJoin: RelationLowering.semi_join,
    nodes.Union: RelationLowering.union,
}


def plain(relation: nodes.Relation) -> bool:
    """Tell whether a relation is a chain over a scan, which is read at little cost again and again."""
    return isinstance(_chain(relation)[1], nodes.Scan)


Link = nodes.Join | nodes.Unnest | nodes.Filter | nodes.Bound


def _chain(relation: nodes.Relation) -> tuple[list[Link], nodes.Relation]:
    """List the public joins, lists and conditions on top, each before its input, and what they stand on."""
    chain = []
    while isinstance(relation, Link):
        chain.append(relation)
        relation = relation.input
    return chain, relation


def _beside(source: Select, lowering: RowLowering, join: nodes.Join, names: Names) -> Select:
    """Put every row beside its matches in a public table."""
    compared = [("=", made, name) for made, name in join.pairs] + list(join.bands)
    ends = [(_COMPARISONS[test], lowering.shared(lowering.lower(made)), name) for test, made, name in compared]
    source = staged(source, lowering)
    equal = [apply(test, of_part("r", made), Reference(name, "j")) for test, made, name in ends]
    beside = tuple((short, Reference(field.name, "j")) for field, short in names.items() if field.source == join.source)
    public = RelationalJoin(CleanTable(join.table), "j", every(equal), join.outer)
    return Select(beside, source, joins=(public,), everything=True)


def _renamed(rows: Select, names: Names, unit: bool) -> Select:
    """Select columns that are called by their places under the names that are wanted."""
    own = tuple((short, Reference(f"c{index}")) for index, short in enumerate(names.values()))
    return Select((*(same("u") if unit else ()), *own) or (("c", whole(0)),), rows)


def staged(source: Select, lowering: RowLowering) -> Select:
    """Compute what is shared by expressions over a source in a stage for each level."""
    for level in lowering.stages():
        source = Select(tuple(level), source, everything=True)
    return source


def of_part(part: str, scalar: Scalar) -> Scalar:
    return Reference(scalar.name, part) if isinstance(scalar, Reference) else scalar


def _fields(expressions: Iterable[Expression]) -> list[Field]:
    """List the columns of tables that expressions read, each once."""
    found: Iterator[Any] = (reference for each in expressions for reference in columns(each))
    return list(dict.fromkeys(reference for reference in found if isinstance(reference, Field)))


def same(names: Iterable[str], part: str | None = None) -> Columns:
    """Select columns as they are."""
    return tuple((name, Reference(name, part)) for name in names)


def every(tests: Sequence[Scalar]) -> Scalar:
    """Say that all of the tests hold."""
    return tests[0] if len(tests) == 1 else Apply(ScalarFunction.AND, tuple(tests))


def token(scalar: Scalar, kind: Type) -> Scalar:
    """Write a value as text. A real has no text that engines share, so it is told by its 2^20ths: ties are broken
    anyway.
    """
    if kind is Type.TEXT:
        return scalar
    if kind is Type.BOOLEAN:
        scalar = apply(
            ScalarFunction.CASE,
            scalar,
            whole(1),
            apply(ScalarFunction.NOT, scalar),
            whole(0),
            Constant(None, Type.INTEGER),
        )
    if kind is Type.REAL:
        low, high = real(-_HALF), real(_HALF)
        fine = apply(ScalarFunction.MULTIPLY, scalar, real(2**20))
        inside = apply(ScalarFunction.BETWEEN, fine, low, high)
        scalar = apply(ScalarFunction.CASE, inside, apply(ScalarFunction.NEAREST, fine), whole(0))
    return apply(ScalarFunction.CONVERT, scalar, detail=(Type.TEXT,))
