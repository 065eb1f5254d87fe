"""These statements are about values: how many rows have each, how many there are, and which public ones there are."""

from __future__ import annotations

from sfumato.engine.lowering import total_lowering
from sfumato.engine.lowering.relation_lowering import same, staged
from sfumato.engine.lowering.relational import (
    Aggregation,
    Constant,
    Join,
    Listed,
    Operation,
    Reference,
    Relation,
    Select,
    Span,
    Statement,
    Total,
    Wide,
    apply,
)
from sfumato.engine.lowering.row_lowering import RowLowering
from sfumato.engine.lowering.step_lowering import wide
from sfumato.plan import keys as group_keys
from sfumato.plan.keys import World
from sfumato.plan.readings.value_readings import DifferentValues, ValueTable


def value_table(reading: ValueTable, key: int) -> Statement:
    """Count for every group and value, of any type, how many of the rows that count have it."""
    return total_lowering.by_value(reading.bounded, reading.value, key)


def different(reading: DifferentValues, key: int) -> Statement:
    """Count the different values of every group that some unit has; a unit has each pair of them once."""
    totals = total_lowering.by_value(reading.bounded, reading.value, key, once=True)
    groups = tuple(f"k{index}" for index in range(len(reading.bounded.plan.keys)))
    held = apply(Operation.GREATER, Reference("v0"), Constant(0, Wide.INTEGER))
    count = ("v0", wide(Total(Aggregation.COUNT)))
    return Statement(totals.stages, Select((*same(groups), count), totals.result, where=(held,), grouped=groups))


def distinct(world: World) -> Statement:
    """List the different results of expressions on every combination of public values: no table is read.

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
