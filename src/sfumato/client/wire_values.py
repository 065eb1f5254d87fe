"""Decoding of a server's values by their ``kind`` tag, and encoding of arguments as JSON with exact numbers and typed
dates.
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
from sfumato.untrusted import refuse_malformed

_CLASSES: Mapping[str, tuple[str, str]] = {
    "advice": ("curator.previews.advising", "Advice"),
    "answer": ("release.answers.answer", "Answer"),
    "answer-column": ("release.answers.answer_columns", "AnswerColumn"),
    "answers": ("curator.proposals.workload_answers", "Answers"),
    "bounds": ("curator.proposals.released_bounds", "Bounds"),
    "degrees": ("curator.proposals.degrees", "Degrees"),
    "explanation": ("curator.previews.explaining", "Explanation"),
    "fitted-model": ("publish.published_files", "FittedModel"),
    "forecast": ("curator.previews.forecasts", "Forecast"),
    "ledger-line": ("ledger", "Line"),
    "listing": ("curator.listings", "Listing"),
    "power": ("inference.power", "Power"),
    "marginals-forecast": ("curator.previews.forecasts", "MarginalsForecast"),
    "period-standings": ("curator.standings", "PeriodStandings"),
    "picture": ("plots.picture", "Picture"),
    "request-view": ("curator.request_views", "RequestView"),
    "public-face": ("policy.public_faces", "PublicFace"),
    "regression-forecast": ("curator.proposals.regressions", "RegressionForecast"),
    "running-answer": ("release.running_totals", "RunningAnswer"),
    "running-forecast": ("curator.proposals.running_counts", "RunningForecast"),
    "session-answers": ("curator.proposals.session_answers", "SessionAnswers"),
    "sold": ("curator.proposals.auction_outcomes", "AuctionOutcome"),
    "standing": ("curator.standings", "Standing"),
    "synopsis": ("publish.synopsis", "Synopsis"),
    "synthetic": ("publish.synthetic", "Synthetic"),
    "synthetic-tables": ("publish.linked.synthetic_tables", "SyntheticTables"),
    "tables": ("curator.described_tables", "Tables"),
    "workload-forecast": ("curator.proposals.workload_answers", "WorkloadForecast"),
}
"""The module and class of every kind of value that a server sends."""


def decode(reply: Any) -> Any:
    """Decode a server's reply: a codec value, a collection of them, or a plain value."""
    with refuse_malformed(lambda: ServerUnavailable("the server's reply cannot be decoded", place="the server")):
        return _decode(reply)


def _decode(reply: Any) -> Any:
    if isinstance(reply, Mapping) and isinstance(reply.get("kind"), str):
        return _decode_value(reply)
    if isinstance(reply, Mapping):
        return {name: _decode(each) for name, each in reply.items()}
    if isinstance(reply, list):
        return tuple(_decode(each) for each in reply)
    return float(reply) if reply in ("Infinity", "-Infinity") else reply


def _decode_value(reply: Mapping[str, Any]) -> Any:
    tag = reply["kind"].partition("/")[0]
    location = _CLASSES.get(tag)
    if location is not None:
        module, name = location
        return getattr(import_module(f"sfumato.{module}"), name).from_json(json.dumps(reply))
    for kind in all_kinds().values():
        answer = kind.answer_class()
        if tag == codec.kind_by_registered_class().get(answer, "").partition("/")[0]:
            return answer.from_json(json.dumps(reply))
    raise ServerUnavailable("the reply has a kind that this version does not know", place=reply["kind"][:100])


_MAX_JSON_INTEGER = 1 << 53
"""Integers below this are exact in every JSON parser."""


def encode(value: Any, name: str) -> Any:
    """Encode a number, a string, or a list or mapping of these; exact numbers become strings."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item() if getattr(value, "ndim", 1) == 0 else value.tolist()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < _MAX_JSON_INTEGER else str(int(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, (Fraction, Decimal)):
        return f"{value.numerator}/{value.denominator}" if isinstance(value, Fraction) else str(value)
    if isinstance(value, Mapping):
        return {str(key): encode(item, f"{name} {key}") for key, item in value.items()}
    if isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (bytes, bytearray)):
        return [encode(item, name) for item in value]
    raise InvalidParameter(name, value, "a number, a string, or a list or mapping of these")


def encode_named(**values: Any) -> dict[str, Any]:
    """Encode keyword arguments, without those that are None."""
    return {name: encode(each, name) for name, each in values.items() if each is not None}


def encode_parameters(parameters: Any) -> Any:
    """Encode the parameters of a question; values without a JSON type carry theirs along."""
    if parameters is None:
        return None
    if isinstance(parameters, Mapping):
        return {str(name): _encode_cell(each, str(name)) for name, each in parameters.items()}
    if isinstance(parameters, (str, bytes)) or not isinstance(parameters, Sequence):
        raise InvalidParameter("parameters", parameters, "a list of values, or a mapping from names to values")
    return [_encode_cell(each, str(position)) for position, each in enumerate(parameters, 1)]


def _encode_cell(value: Any, name: str) -> Any:
    for kind, cls in (("timestamp", dt.datetime), ("date", dt.date)):
        if isinstance(value, cls):
            return {"type": kind, "value": value.isoformat()}
    if isinstance(value, Decimal):
        return {"type": "decimal", "value": str(value)}
    return encode(value, f"parameters {name}")
