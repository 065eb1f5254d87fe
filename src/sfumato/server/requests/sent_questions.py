"""The steps and typed values of a question are read here: what stands in it beside SQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from sfumato.curator import Curator
from sfumato.errors import InvalidParameter, InvalidRequest
from sfumato.plan.sql.aggregations import Aggregation
from sfumato.plan.sql.histograms import Histogram
from sfumato.server.requests.specs import AggregateSpec, HistogramSpec, StepSpec, TypedCell, ViewSpec

_DEEPEST = 8
"""How many views may stand one inside another."""
_READERS: Mapping[str, Callable[[str], Any]] = {
    "date": dt.date.fromisoformat,
    "timestamp": dt.datetime.fromisoformat,
    "decimal": Decimal,
}


def parameters_of(given: list[Any] | dict[str, Any] | None) -> list[Any] | dict[str, Any] | None:
    """Give the values of a question's parameters, each of its own type."""
    if isinstance(given, list):
        return [_value(each, str(place)) for place, each in enumerate(given, 1)]
    return None if given is None else {name: _value(each, name) for name, each in given.items()}


def _value(given: Any, name: str) -> Any:
    if not isinstance(given, TypedCell):
        return given
    try:
        return _READERS[given.type](given.value)
    except (ValueError, InvalidOperation):
        raise InvalidParameter(f"parameters {name}", given.value, f"the text of a {given.type}") from None


def viewed(curator: Curator, spec: ViewSpec, depth: int = 1) -> Any:
    """Take the steps of a view, one after the other, as Python would: a step that cannot be taken is refused there."""
    if depth > _DEEPEST:
        rule = f"at most {_DEEPEST} views stand one inside another"
        raise InvalidRequest(rule, place="the body, spec.view", fix="join fewer views, or write the question in SQL")
    found: Any = curator.table(spec.table, spec.alias)
    for step in spec.steps:
        found = _taken(curator, found, step, depth)
    return found


def _taken(curator: Curator, view: Any, step: StepSpec, depth: int) -> Any:
    given: list[Any] = [_part(each) for each in step.given]
    named: dict[str, Any] = {name: _part(each) for name, each in step.named.items()}
    if step.other is not None:
        given.append(viewed(curator, step.other, depth + 1) if isinstance(step.other, ViewSpec) else step.other)
    if step.on is not None:
        named["on"] = step.on
    try:
        return getattr(view, step.step)(*given, **named)
    except (AttributeError, TypeError):  # a step that is not there, or is given what it does not take
        rule = f"the step {step.step} is not taken here, or not with what it is given"
        raise InvalidRequest(rule, place="the body, spec.view.steps", fix="see what the builder takes") from None


def _part(given: Any) -> Any:
    """Give a part of a question as Python says it."""
    if isinstance(given, AggregateSpec):
        return Aggregation(given.name, given.of, given.where, given.beside, given.at, given.k)
    return Histogram(given.of, given.bins) if isinstance(given, HistogramSpec) else given
