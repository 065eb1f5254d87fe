"""The digest of a plan tells apart plans that differ in any compared field: equal digests share a stored answer."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sfumato as sf
from sfumato.plan.bounding import bound_by_whole_rows
from sfumato.plan.canonical import digest

TEXTS = (
    "SELECT origin, COUNT(*) AS n, AVG(distance) AS mean FROM flights"
    " WHERE distance > 500 AND carrier IN ('AA', 'UA') GROUP BY origin",
    "SELECT MEDIAN(distance) AS middle FROM flights",
    "SELECT COUNT(*) AS busy FROM (SELECT tailnum, COUNT(*) AS n FROM flights GROUP BY tailnum) WHERE n > 3",
)


def _nodes(value: Any) -> Iterator[Any]:
    """Yield every dataclass within a plan, itself first."""
    if isinstance(value, tuple | list | frozenset):
        for part in value:
            yield from _nodes(part)
    elif dataclasses.is_dataclass(value):
        yield value
        for field in dataclasses.fields(value):
            if field.compare:
                yield from _nodes(getattr(value, field.name))


def test_every_compared_field_of_a_plan_is_in_its_digest(tmp_path: Path) -> None:
    with sf.open(sf.example(tmp_path / "flights")) as curator:
        plans = [curator.sql(text).query.plan for text in TEXTS]
    bounded = bound_by_whole_rows(plans[0], plans[0].limits, 3).plan
    nodes = [node for plan in (*plans, bounded) for node in _nodes(plan)]
    tried = set()
    for node in nodes:
        before = digest(node)
        for field in dataclasses.fields(node):
            changed = copy.copy(node)
            object.__setattr__(changed, field.name, "another value")
            assert (digest(changed) != before) is field.compare, f"{type(node).__name__}.{field.name}"
            tried.add((type(node).__name__, field.name))
    assert {("Scan", "table"), ("Aggregate", "measures"), ("BoundContributions", "limits")} <= tried
    assert len(tried) > 20
