"""Rank the rows of units beyond a limit: pseudorandom whole numbers that every engine computes alike.

A unit has a seed, 60 bits of the MD5 of the reading's key and of the unit's text; a row has a number, folded from its
values. The rank mixes both, so that units lose different rows and groups, and every reading loses others. All steps
are products, sums and remainders of whole numbers: with factors below 2^32 and 2^30, nothing leaves 63 bits and no
engine can overflow. Any function of a unit's own rows keeps the bound of its contribution, so a rank need not be hard
to guess, and equal ranks are ordered by the values themselves. A secret sample of units is another matter
(``plan.limits``).

Numbers instead of ids for the units beyond a limit, where a statement is computed in one place and once.

The rows of these units are joined, grouped and sorted by their unit, whose id may be a long text. In the statements of
``bounded_totals`` stage ``h`` lists each such unit once; here it gets a number there, which its rows get instead of the
id where they are joined to it. Theorem: every total is the same. *Proof.* Among these rows numbers are equal where ids
are; their units are compared with each other for equality alone, in groups, joins and partitions, and never with an id
or shown. ∎ So which number a unit gets may be the engine's choice, but it must be made once: the stage is materialised.
Spark computes a lost part of a stage again, where other numbers would tear a unit apart: never there.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace

from sfumato.engine.lowering.applications import real_constant
from sfumato.engine.lowering.relational_form import (
    AggregateFunction,
    Apply,
    Constant,
    GroupTotal,
    Rank,
    Reference,
    Relation,
    RelationalUnion,
    Scalar,
    ScalarFunction,
    Select,
    StagedSelect,
    StageReference,
    WindowFrame,
    WindowTotal,
    apply,
    integer_constant,
)
from sfumato.policy import Type

_PRIMES = 2**31 - 1, 2**31 - 19, 2**31 - 61
_MULTIPLIER = 1_640_531_527
"""Less than the primes: the point at which the numbers of a row's values, as coefficients, are evaluated."""
_HALF_SEED = 2**30
_HALF_REAL = 2**48
MAX_SPREAD_ROWS = 2**20
"""So many times the largest number of rows, 2^40, fits 64 bits."""
SEED_COLUMNS = "y", "z"
"""The halves of a unit's seed, each from 1 to 2^30."""


def with_seeds(units: Select, sampling_key: int, *others: str) -> Select:
    """Add the seed of each unit, in two columns, to a select of units ``u``, their numbers of rows ``n``, and others.

    Some engines write a whole double as 7.0 and some as 7: such letters are left out, and units may share a seed.
    """
    point_zero, nothing = Constant(".0", Type.TEXT), Constant("", Type.TEXT)
    unit_text = apply(ScalarFunction.REPLACE, apply(ScalarFunction.UNIT_TEXT, Reference("u")), point_zero, nothing)
    text = apply(ScalarFunction.JOIN, Constant(f"{sampling_key}|", Type.TEXT), unit_text)
    columns = tuple((name, Reference(name)) for name in ("u", "n", *others))
    seeded = Select((*columns, ("e", apply(ScalarFunction.FINGERPRINT, text))), units)
    high, low = (
        apply(ScalarFunction.ADD, apply(operation, Reference("e"), integer_constant(_HALF_SEED)), integer_constant(1))
        for operation in (ScalarFunction.DIVIDE_WHOLE, ScalarFunction.REMAINDER)
    )
    return Select((*columns, *zip(SEED_COLUMNS, (high, low), strict=True)), seeded)


def mixed_rank(numbers: Sequence[Scalar], seed: tuple[Scalar, Scalar]) -> Scalar:
    """Mix the numbers of a row, or of a group, with the halves of its unit's seed, to below 2^31.

    With x from 0 to 2^32, and both halves from 1 to 2^30: x·y + z ≤ 2^62 + 2^30, and later products are at most 2^61.
    Three primes, since a product modulo one of them is a linear map alone.
    """
    if not numbers:
        return integer_constant(0)
    (first, second), (one, two, three) = seed, _PRIMES
    mixed = _remainder(_multiply_add(polynomial_hash(numbers), first, second), one)
    mixed = _remainder(apply(ScalarFunction.MULTIPLY, mixed, second), two)
    return _remainder(apply(ScalarFunction.MULTIPLY, mixed, first), three)


def spread_rows(
    ranked: Select,
    is_chosen: Scalar | None,
    max_rows: int,
    unit: tuple[Scalar, ...],
    order: tuple[Scalar, ...],
) -> tuple[Select, Scalar]:
    """Keep ``max_rows`` of a unit's rows in the chosen groups, evenly spread over them, without sorting once more;
    None if all rows are in chosen groups.

    Of N such rows the p-th, where groups and rows are in the order of their ranks, is kept if ⌊p·m/N⌋ is more than
    ⌊(p − 1)·m/N⌋: m rows in all, and every row if N ≤ m. The chosen groups come first, so that p counts them alone.
    """
    position = Rank(unit, (Reference("s"), *order))
    ranked = replace(ranked, columns=(*ranked.columns, ("p", position)))
    one = None if is_chosen is None else integer_constant(1)
    chosen_rows = GroupTotal(AggregateFunction.COUNT, one, is_chosen)
    counted = Select((("c", WindowTotal(chosen_rows, unit, (), WindowFrame.WHOLE)),), ranked, all_columns=True)
    previous = apply(ScalarFunction.SUBTRACT, Reference("p"), integer_constant(1))
    shares = [
        apply(
            ScalarFunction.DIVIDE_WHOLE,
            apply(ScalarFunction.MULTIPLY, row_number, integer_constant(max_rows)),
            Reference("c"),
        )
        for row_number in (Reference("p"), previous)
    ]
    is_kept = apply(ScalarFunction.GREATER, *shares)
    return counted, is_kept if is_chosen is None else apply(ScalarFunction.AND, is_chosen, is_kept)


def polynomial_hash(numbers: Sequence[Scalar]) -> Scalar:
    """Evaluate the polynomial whose coefficients are the numbers, modulo a prime p, as a whole number from 0 to 2p: the
    number of a declared text, which is less than p, as it is.
    """
    prime = _PRIMES[0]
    if len(numbers) == 1 and _is_number_of_listed_text(numbers[0]):
        return numbers[0]
    folded, *rest = (_remainder(number, prime) for number in numbers)
    for remainder in rest:
        folded = _remainder(_multiply_add(folded, integer_constant(_MULTIPLIER), remainder), prime)
    return apply(ScalarFunction.ADD, folded, integer_constant(prime))  # a remainder has the sign of its dividend


def _is_number_of_listed_text(number: Scalar) -> bool:
    """Return whether a number is the place of a text in a list, from 1 on, or 0 for NULL."""
    if not isinstance(number, Apply) or number.operation is not ScalarFunction.COALESCE:
        return False
    ordinal = number.arguments[0]
    return isinstance(ordinal, Apply) and ordinal.operation is ScalarFunction.ORDINAL


def _multiply_add(x: Scalar, factor: Scalar, summand: Scalar) -> Scalar:
    return apply(ScalarFunction.ADD, apply(ScalarFunction.MULTIPLY, x, factor), summand)


def _remainder(x: Scalar, modulus: int) -> Scalar:
    return apply(ScalarFunction.REMAINDER, x, integer_constant(modulus))


def number_of_value(scalar: Scalar, sql_type: Type, texts: Sequence[str] = ()) -> Scalar:
    """Convert a value of any type to a whole number, 0 for NULL; ``texts`` are those that a code may stand for.

    Engines format reals differently, so a real becomes its nearest multiple of 2^-20, and a time its second: values
    with one number only affect how ties are broken.
    """
    if sql_type is Type.TEXT:
        operation = ScalarFunction.ORDINAL if texts else ScalarFunction.FINGERPRINT
        converted: Scalar = apply(operation, scalar, detail=tuple(texts))
    else:
        converted = _CONVERSIONS[sql_type](scalar)
    return apply(ScalarFunction.COALESCE, converted, integer_constant(0))


def _number_of_boolean(scalar: Scalar) -> Scalar:
    is_false = apply(ScalarFunction.NOT, scalar)
    return apply(ScalarFunction.CASE, scalar, integer_constant(2), is_false, integer_constant(1), integer_constant(0))


def _number_of_real(scalar: Scalar) -> Scalar:
    scaled = apply(ScalarFunction.MULTIPLY, scalar, real_constant(2**20))
    is_inside = apply(ScalarFunction.BETWEEN, scaled, real_constant(-_HALF_REAL), real_constant(_HALF_REAL))
    return apply(ScalarFunction.CASE, is_inside, apply(ScalarFunction.NEAREST, scaled), integer_constant(0))


def _number_of_date(scalar: Scalar) -> Scalar:
    return apply(ScalarFunction.DAYS, Constant(dt.date.min, Type.DATE), scalar)


def _number_of_time(scalar: Scalar) -> Scalar:
    return apply(ScalarFunction.SECONDS, scalar)


def _number_of_integer(scalar: Scalar) -> Scalar:
    return scalar


_CONVERSIONS = {
    Type.INTEGER: _number_of_integer,
    Type.BOOLEAN: _number_of_boolean,
    Type.REAL: _number_of_real,
    Type.DATE: _number_of_date,
    Type.TIMESTAMP: _number_of_time,
}


_HEAVY_UNITS, _ALIAS = StageReference("h"), "h"


def number_heavy_units(statement: StagedSelect) -> StagedSelect:
    """Number the units beyond a limit, and let the rows that are joined to them bear their numbers."""
    if all(name != _HEAVY_UNITS.name for name, _ in statement.stages):
        return statement
    stages = tuple((name, _bear_numbers(select)) for name, select in statement.stages)
    numbered = StagedSelect(stages, _bear_numbers(statement.result))
    if numbered == statement:
        return statement
    number = ("q", Rank((), ()))
    return replace(
        numbered,
        stages=tuple(
            (name, replace(select, columns=(*select.columns, number)) if name == _HEAVY_UNITS.name else select)
            for name, select in stages
        ),
    )


def _bear_numbers(select: Select) -> Select:
    columns = tuple((name, _by_number_alone(scalar)) for name, scalar in select.columns)
    select = replace(select, columns=columns, source=_within(select.source))
    if not any(join.relation == _HEAVY_UNITS and join.alias == _ALIAS and not join.outer for join in select.joins):
        return select
    columns = tuple(
        (name, Reference("q", _ALIAS) if scalar == Reference("u", select.alias) else scalar)
        for name, scalar in select.columns
    )
    return replace(select, columns=columns)


_SEED_AND_UNIT = Reference(SEED_COLUMNS[0]), Reference("u")


def _by_number_alone(scalar: Scalar) -> Scalar:
    """Partition by the unit without its seed, which an id needs to be compared quickly, and a number does not."""
    if isinstance(scalar, Rank | WindowTotal) and scalar.partition[:2] == _SEED_AND_UNIT:
        return replace(scalar, partition=scalar.partition[1:])
    return scalar


def _within(source: Relation | Select) -> Relation | Select:
    if isinstance(source, Select):
        return _bear_numbers(source)
    if isinstance(source, RelationalUnion):
        return RelationalUnion(tuple(map(_bear_numbers, source.members)))
    return source
