"""The facade has everything that a command line, a server or a notebook needs of a policy, its data and its account.

A ``Curator`` opens the data. What needs no data is also a function of a policy: ``standing``, ``history``, ``amend``,
``describe_policy``.

What others only read back, such as a forecast or a standing, is imported without the engine that computes it: each name
here is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.curator.advising import Advice as Advice
    from sfumato.curator.checking import CheckReport as CheckReport, check as check
    from sfumato.curator.curators import Curator as Curator, open as open
    from sfumato.curator.degrees import DegreeHistogram as DegreeHistogram, Degrees as Degrees
    from sfumato.curator.described_tables import TableDescription as TableDescription, Tables as Tables
    from sfumato.curator.describing import describe_policy as describe_policy
    from sfumato.curator.explaining import Explanation as Explanation
    from sfumato.curator.forecasts import Forecast as Forecast
    from sfumato.curator.found_bounds import Bounds as Bounds
    from sfumato.curator.listings import Listing as Listing
    from sfumato.curator.online import OnlineSession as OnlineSession, ProposedOnline as ProposedOnline
    from sfumato.curator.period_standings import PeriodStandings as PeriodStandings
    from sfumato.curator.policy_account import (
        amend as amend,
        history as history,
        precedents_of as precedents_of,
        standing as standing,
    )
    from sfumato.curator.private_bounds import BoundsSearch as BoundsSearch
    from sfumato.curator.private_limits import LimitsSearch as LimitsSearch, UnitLimits as UnitLimits
    from sfumato.curator.questions import Question as Question
    from sfumato.curator.running_counts import RunningForecast as RunningForecast, RunningTotals as RunningTotals
    from sfumato.curator.sessions import ProposedSession as ProposedSession, ThresholdSession as ThresholdSession
    from sfumato.curator.sold_goods import Sold as Sold
    from sfumato.curator.standings import Standing as Standing
    from sfumato.curator.table_auctions import TableAuction as TableAuction
    from sfumato.curator.tables import TableView as TableView
    from sfumato.curator.workload_answers import Answers as Answers, WorkloadForecast as WorkloadForecast
    from sfumato.curator.workloads import Workload as Workload

__all__ = [
    "Advice",
    "Answers",
    "Bounds",
    "BoundsSearch",
    "CheckReport",
    "Curator",
    "DegreeHistogram",
    "Degrees",
    "Explanation",
    "Forecast",
    "LimitsSearch",
    "Listing",
    "OnlineSession",
    "PeriodStandings",
    "ProposedOnline",
    "ProposedSession",
    "Question",
    "RunningForecast",
    "RunningTotals",
    "Sold",
    "Standing",
    "TableAuction",
    "TableDescription",
    "TableView",
    "Tables",
    "ThresholdSession",
    "UnitLimits",
    "Workload",
    "WorkloadForecast",
    "amend",
    "check",
    "describe_policy",
    "history",
    "open",
    "precedents_of",
    "standing",
]

# fmt: off
_LATER = {
    "advising": ("Advice",),
    "checking": ("CheckReport", "check",),
    "curators": ("Curator", "open",),
    "degrees": ("DegreeHistogram", "Degrees",),
    "described_tables": ("TableDescription", "Tables",),
    "describing": ("describe_policy",),
    "explaining": ("Explanation",),
    "forecasts": ("Forecast",),
    "found_bounds": ("Bounds",),
    "listings": ("Listing",),
    "online": ("OnlineSession", "ProposedOnline",),
    "period_standings": ("PeriodStandings",),
    "policy_account": ("amend", "history", "precedents_of", "standing",),
    "private_bounds": ("BoundsSearch",),
    "private_limits": ("LimitsSearch", "UnitLimits",),
    "questions": ("Question",),
    "running_counts": ("RunningForecast", "RunningTotals",),
    "sessions": ("ProposedSession", "ThresholdSession",),
    "sold_goods": ("Sold",),
    "standings": ("Standing",),
    "table_auctions": ("TableAuction",),
    "tables": ("TableView",),
    "workload_answers": ("Answers", "WorkloadForecast",),
    "workloads": ("Workload",),
}
# fmt: on
_HOMES = {name: module for module, names in _LATER.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sfumato.curator.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sfumato.curator' has no attribute {name!r}")
