"""The facade for a command line, a server or a notebook: a policy, its data and its account.

A ``Curator`` opens the data. What needs no data is also a function of a policy: ``standing``, ``history``, ``amend``,
``describe_policy``.

Names are imported lazily, on first use: reading back a stored forecast or standing does not import the engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.curator.checking import CheckReport as CheckReport, check as check
    from sfumato.curator.curators import Curator as Curator, open as open
    from sfumato.curator.described_tables import TableDescription as TableDescription, Tables as Tables
    from sfumato.curator.describing import describe_policy as describe_policy
    from sfumato.curator.listings import Listing as Listing
    from sfumato.curator.policy_account import (
        amend as amend,
        history as history,
        precedents_of as precedents_of,
        standing as standing,
    )
    from sfumato.curator.previews.advising import Advice as Advice
    from sfumato.curator.previews.explaining import Explanation as Explanation
    from sfumato.curator.previews.forecasts import Forecast as Forecast
    from sfumato.curator.proposals.degrees import DegreeHistogram as DegreeHistogram, Degrees as Degrees
    from sfumato.curator.proposals.found_bounds import Bounds as Bounds
    from sfumato.curator.proposals.online import OnlineSession as OnlineSession, ProposedOnline as ProposedOnline
    from sfumato.curator.proposals.private_bounds import BoundsSearch as BoundsSearch
    from sfumato.curator.proposals.private_limits import LimitsSearch as LimitsSearch, UnitLimits as UnitLimits
    from sfumato.curator.proposals.questions import Question as Question
    from sfumato.curator.proposals.running_counts import (
        RunningForecast as RunningForecast,
        RunningTotals as RunningTotals,
    )
    from sfumato.curator.proposals.sessions import (
        ProposedSession as ProposedSession,
        ThresholdSession as ThresholdSession,
    )
    from sfumato.curator.proposals.sold_goods import Sold as Sold
    from sfumato.curator.proposals.table_auctions import TableAuction as TableAuction
    from sfumato.curator.proposals.workload_answers import Answers as Answers, WorkloadForecast as WorkloadForecast
    from sfumato.curator.proposals.workloads import Workload as Workload
    from sfumato.curator.standings import PeriodStandings as PeriodStandings, Standing as Standing
    from sfumato.curator.tables import TableView as TableView

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
_EXPORTS = {
    "previews.advising": ("Advice",),
    "checking": ("CheckReport", "check",),
    "curators": ("Curator", "open",),
    "proposals.degrees": ("DegreeHistogram", "Degrees",),
    "described_tables": ("TableDescription", "Tables",),
    "describing": ("describe_policy",),
    "previews.explaining": ("Explanation",),
    "previews.forecasts": ("Forecast",),
    "proposals.found_bounds": ("Bounds",),
    "listings": ("Listing",),
    "proposals.online": ("OnlineSession", "ProposedOnline",),
    "standings": ("PeriodStandings", "Standing",),
    "policy_account": ("amend", "history", "precedents_of", "standing",),
    "proposals.private_bounds": ("BoundsSearch",),
    "proposals.private_limits": ("LimitsSearch", "UnitLimits",),
    "proposals.questions": ("Question",),
    "proposals.running_counts": ("RunningForecast", "RunningTotals",),
    "proposals.sessions": ("ProposedSession", "ThresholdSession",),
    "proposals.sold_goods": ("Sold",),
    "proposals.table_auctions": ("TableAuction",),
    "tables": ("TableView",),
    "proposals.workload_answers": ("Answers", "WorkloadForecast",),
    "proposals.workloads": ("Workload",),
}
# fmt: on
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f"sfumato.curator.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'sfumato.curator' has no attribute {name!r}")
