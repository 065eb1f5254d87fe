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
    from sfumato.curator.previews.error_forecasts import Forecast as Forecast
    from sfumato.curator.previews.explaining import Explanation as Explanation
    from sfumato.curator.proposals.degrees import Degrees as Degrees, DegreesProposal as DegreesProposal
    from sfumato.curator.proposals.limit_proposals import LimitsProposal as LimitsProposal, UnitLimits as UnitLimits
    from sfumato.curator.proposals.online import OnlineProposal as OnlineProposal, OnlineSession as OnlineSession
    from sfumato.curator.proposals.private_bounds import BoundsProposal as BoundsProposal
    from sfumato.curator.proposals.questions import Question as Question
    from sfumato.curator.proposals.running_counts import (
        RunningForecast as RunningForecast,
        RunningTotalsProposal as RunningTotalsProposal,
    )
    from sfumato.curator.proposals.sessions import (
        SessionProposal as SessionProposal,
        ThresholdSession as ThresholdSession,
    )
    from sfumato.curator.proposals.stored_answers import (
        Answers as Answers,
        AuctionOutcome as AuctionOutcome,
        Bounds as Bounds,
        WorkloadForecast as WorkloadForecast,
    )
    from sfumato.curator.proposals.table_auctions import AuctionProposal as AuctionProposal
    from sfumato.curator.proposals.workloads import WorkloadProposal as WorkloadProposal
    from sfumato.curator.standings import PeriodStandings as PeriodStandings, Standing as Standing
    from sfumato.curator.tables import TableView as TableView

__all__ = [
    "Advice",
    "Answers",
    "AuctionOutcome",
    "AuctionProposal",
    "Bounds",
    "BoundsProposal",
    "CheckReport",
    "Curator",
    "Degrees",
    "DegreesProposal",
    "Explanation",
    "Forecast",
    "LimitsProposal",
    "Listing",
    "OnlineProposal",
    "OnlineSession",
    "PeriodStandings",
    "Question",
    "RunningForecast",
    "RunningTotalsProposal",
    "SessionProposal",
    "Standing",
    "TableDescription",
    "TableView",
    "Tables",
    "ThresholdSession",
    "UnitLimits",
    "WorkloadForecast",
    "WorkloadProposal",
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
    "proposals.degrees": ("DegreesProposal", "Degrees",),
    "described_tables": ("TableDescription", "Tables",),
    "describing": ("describe_policy",),
    "previews.explaining": ("Explanation",),
    "previews.error_forecasts": ("Forecast",),
    "listings": ("Listing",),
    "proposals.online": ("OnlineSession", "OnlineProposal",),
    "standings": ("PeriodStandings", "Standing",),
    "policy_account": ("amend", "history", "precedents_of", "standing",),
    "proposals.private_bounds": ("BoundsProposal",),
    "proposals.limit_proposals": ("LimitsProposal", "UnitLimits",),
    "proposals.questions": ("Question",),
    "proposals.running_counts": ("RunningForecast", "RunningTotalsProposal",),
    "proposals.sessions": ("SessionProposal", "ThresholdSession",),
    "proposals.table_auctions": ("AuctionProposal",),
    "tables": ("TableView",),
    "proposals.stored_answers": ("Answers", "AuctionOutcome", "Bounds", "WorkloadForecast",),
    "proposals.workloads": ("WorkloadProposal",),
}
# fmt: on
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f"sfumato.curator.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'sfumato.curator' has no attribute {name!r}")
