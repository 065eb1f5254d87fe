"""Values are read from what a server tells, the same that a curator gives: each is known by its kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from sfumato.curator.release_kinds import all_kinds
from sfumato.errors import ServerUnavailable
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
    "fitted-model": ("publish.fitted_models", "FittedModel"),
    "forecast": ("curator.previews.forecasts", "Forecast"),
    "ledger-line": ("ledger", "Line"),
    "listing": ("curator.listings", "Listing"),
    "marginals-forecast": ("curator.previews.marginal_forecasts", "MarginalsForecast"),
    "period-standings": ("curator.accounts.period_standings", "PeriodStandings"),
    "picture": ("plots.picture", "Picture"),
    "public-face": ("policy.public_faces", "PublicFace"),
    "running-answer": ("release.running_totals", "RunningAnswer"),
    "running-forecast": ("curator.proposals.running_counts", "RunningForecast"),
    "session-answers": ("curator.proposals.session_answers", "SessionAnswers"),
    "sold": ("curator.proposals.sold_goods", "Sold"),
    "standing": ("curator.accounts.standings", "Standing"),
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
