"""The facade has everything that a command line, a server or a notebook needs of a policy, its data and its account.

A ``Curator`` opens the data. What needs no data is also a function of a policy: ``standing``, ``history``, ``amend``,
``describe_policy``.
"""

from sfumato.curator.advising import Advice
from sfumato.curator.checking import CheckReport, check
from sfumato.curator.curators import Curator, open
from sfumato.curator.degrees import DegreeHistogram, Degrees
from sfumato.curator.describing import TableDescription, Tables, describe_policy
from sfumato.curator.explaining import Explanation
from sfumato.curator.forecasts import Forecast
from sfumato.curator.listings import Listing
from sfumato.curator.online import OnlineSession, ProposedOnline
from sfumato.curator.period_standings import PeriodStandings
from sfumato.curator.policy_account import amend, history, standing
from sfumato.curator.private_bounds import Bounds, BoundsSearch
from sfumato.curator.private_limits import LimitsSearch, UnitLimits
from sfumato.curator.questions import Question
from sfumato.curator.running_counts import RunningForecast, RunningTotals
from sfumato.curator.sessions import ProposedSession, ThresholdSession
from sfumato.curator.standings import Standing
from sfumato.curator.table_auctions import Sold, TableAuction
from sfumato.curator.tables import TableView
from sfumato.curator.workload_answers import Answers, WorkloadForecast
from sfumato.curator.workloads import Workload

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
    "standing",
]
