"""Numbers instead of ids for the units beyond a limit, where a statement is computed in one place and once.

The rows of these units are joined, grouped and sorted by their unit, whose id may be a long text. In the statements of
``bounded_totals`` stage ``h`` lists each such unit once; here it gets a number there, which its rows get instead of the
id where they are joined to it. Theorem: every total is the same. *Proof.* Among these rows numbers are equal where ids
are; their units are compared with each other for equality alone, in groups, joins and partitions, and never with an id
or shown. ∎ So which number a unit gets may be the engine's choice, but it must be made once: the stage is materialised.
Spark computes a lost part of a stage again, where other numbers would tear a unit apart: never there.
"""

from __future__ import annotations

from dataclasses import replace

from sfumato.engine.lowering.relational import (
    Rank,
    Reference,
    Relation,
    RelationalUnion,
    Select,
    StagedSelect,
    StageReference,
)

_HEAVY_UNITS, _ALIAS = StageReference("h"), "h"


def number_heavy_units(statement: StagedSelect) -> StagedSelect:
    """Number the units beyond a limit, and let the rows that are joined to them bear their numbers."""
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
    select = replace(select, source=_within(select.source))
    if not any(join.relation == _HEAVY_UNITS and join.alias == _ALIAS for join in select.joins):
        return select
    columns = (
        (name, Reference("q", _ALIAS) if scalar == Reference("u", select.alias) else scalar)
        for name, scalar in select.columns
    )
    return replace(select, columns=tuple(columns))


def _within(source: Relation | Select) -> Relation | Select:
    if isinstance(source, Select):
        return _bear_numbers(source)
    if isinstance(source, RelationalUnion):
        return RelationalUnion(tuple(map(_bear_numbers, source.members)))
    return source
