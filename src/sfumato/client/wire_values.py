"""Values are read from what a server tells, the same that a curator gives: each is known by its kind.

Values are written as JSON holds them: numbers stay exact, dates keep their type.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from typing import Any

from sfumato.curator.release_kinds import all_kinds
from sfumato.errors import InvalidParameter, ServerUnavailable
from sfumato.privacy import codec
from sfumato.untrusted import refusing

_HOMES: Mapping[str, tuple[str, str]] = {
    "advice": ("curator.previews.advising", "Advice"),
    "answer": ("release.answers.answer", "Answer"),
    "answer-column": ("release.answers.answer_columns", "AnswerColumn"),
    "answers": ("curator.proposals.workload_answers", "Answers"),
    "bounds": ("curator.proposals.found_bounds", "Bounds"),
    "degrees": ("curator.proposals.degrees", "Degrees"),
    "explanation": ("curator.previews.explaining", "Explanation"),
    "fitted-model": ("publish.published_files", "FittedModel"),
    "forecast": ("curator.previews.forecasts", "Forecast"),
    "ledger-line": ("ledger", "Line"),
    "listing": ("curator.listings", "Listing"),
    "marginals-forecast": ("curator.previews.forecasts", "MarginalsForecast"),
    "period-standings": ("curator.standings", "PeriodStandings"),
    "picture": ("plots.picture", "Picture"),
    "public-face": ("policy.public_faces", "PublicFace"),
    "running-answer": ("release.running_totals", "RunningAnswer"),
    "running-forecast": ("curator.proposals.running_counts", "RunningForecast"),
    "session-answers": ("curator.proposals.session_answers", "SessionAnswers"),
    "sold": ("curator.proposals.sold_goods", "Sold"),
    "standing": ("curator.standings", "Standing"),
    "synopsis": ("publish.synopsis", "Synopsis"),
    "synthetic": ("publish.synthetic", "Synthetic"),
    "tables": ("curator.described_tables", "Tables"),
    "workload-forecast": ("curator.proposals.workload_answers", "WorkloadForecast"),
}
"""By the name of its kind, the module and the class of everything that is told."""


def read(told: Any) -> Any:
    """Read whatever is told: one of our values, several of them, or a number."""
    with refusing(lambda: ServerUnavailable("the server tells something that cannot be read", place="the server")):
        return _read(told)


def _read(told: Any) -> Any:
    if isinstance(told, Mapping) and isinstance(told.get("kind"), str):
        return _value(told)
    if isinstance(told, Mapping):
        return {name: _read(each) for name, each in told.items()}
    if isinstance(told, list):
        return tuple(_read(each) for each in told)
    return float(told) if told in ("Infinity", "-Infinity") else told


def _value(told: Mapping[str, Any]) -> Any:
    tag = told["kind"].partition("/")[0]
    home = _HOMES.get(tag)
    if home is not None:
        module, name = home
        return getattr(import_module(f"sfumato.{module}"), name).from_json(json.dumps(told))
    for kind in all_kinds().values():
        answer = kind.answer_class()
        if tag == codec.values().get(answer, "").partition("/")[0]:
            return answer.from_json(json.dumps(told))
    raise ServerUnavailable("the server tells something that this version does not know", place=told["kind"][:100])


_WHOLE = 1 << 53
"""Whole numbers below this are the same to every reader of JSON."""


def sent(value: Any, name: str) -> Any:
    """Write a number, a text, or a list or mapping of such; exact numbers are texts."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item() if getattr(value, "ndim", 1) == 0 else value.tolist()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < _WHOLE else str(int(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, (Fraction, Decimal)):
        return f"{value.numerator}/{value.denominator}" if isinstance(value, Fraction) else str(value)
    if isinstance(value, Mapping):
        return {str(each): sent(one, f"{name} {each}") for each, one in value.items()}
    if isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (bytes, bytearray)):
        return [sent(one, name) for one in value]
    raise InvalidParameter(name, value, "numbers, texts, or a list or mapping of them: nothing else is sent")


def named(**given: Any) -> dict[str, Any]:
    """Write what was given by name, without what was left out."""
    return {name: sent(each, name) for name, each in given.items() if each is not None}


def parameters_sent(given: Any) -> Any:
    """Write the values of a question's parameters: those that JSON has no form for keep their type beside them."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {str(name): _cell(each, str(name)) for name, each in given.items()}
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise InvalidParameter("parameters", given, "values in a list, or by name in a dict")
    return [_cell(each, str(place)) for place, each in enumerate(given, 1)]


def _cell(value: Any, name: str) -> Any:
    for kind, cls in (("timestamp", dt.datetime), ("date", dt.date)):
        if isinstance(value, cls):
            return {"type": kind, "value": value.isoformat()}
    if isinstance(value, Decimal):
        return {"type": "decimal", "value": str(value)}
    return sent(value, f"parameters {name}")
