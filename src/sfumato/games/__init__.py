"""Games show what differential privacy does to incentives.

environment    types, outcomes, reactions, utilities; the exact probabilities with which a mechanism chooses
rules          mechanisms over an environment; where to build: environments on a line and on a graph
truth          how much a misreport gains, exactly, beside what privacy allows
auctions       one price for everybody
commitment     exactly truthful without money
money          exactly truthful with money
play, crowds   games of actions, small and large; how far a profile is from equilibrium
mediation      an equilibrium, selected privately; bids in a CSV file that no curator holds
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.games.auctions import Auction, Sale, digital_goods
from sfumato.games.commitment import Decision, Mixture, exactly_truthful
from sfumato.games.crowds import Crowd, market_entry, public_good, routes
from sfumato.games.environment import Environment, Gap, Law
from sfumato.games.mediation import Deviation, Mediation, MediatorAdvice, equilibrium
from sfumato.games.money import Bill, Priced, truthful_with_money
from sfumato.games.play import MatrixGame, Nash, approximate_nash
from sfumato.games.rules import Stated, Welfare, graph, line
from sfumato.games.truth import Misreport, Truthfulness, bounds, truthfulness
from sfumato.release.prices import evenly_spaced_prices

if TYPE_CHECKING:
    from sfumato.games.mediation import read_bids as read_bids

__all__ = [
    "Auction",
    "Bill",
    "Crowd",
    "Decision",
    "Deviation",
    "Environment",
    "Gap",
    "Law",
    "MatrixGame",
    "Mediation",
    "MediatorAdvice",
    "Misreport",
    "Mixture",
    "Nash",
    "Priced",
    "Sale",
    "Stated",
    "Truthfulness",
    "Welfare",
    "approximate_nash",
    "bounds",
    "digital_goods",
    "equilibrium",
    "evenly_spaced_prices",
    "exactly_truthful",
    "graph",
    "line",
    "market_entry",
    "public_good",
    "read_bids",
    "routes",
    "truthful_with_money",
    "truthfulness",
]


def __getattr__(name: str) -> Any:
    """Import what needs a curator when it is first named: a curator brings a parser with it."""
    if name == "read_bids":
        return import_module("sfumato.games.mediation").read_bids
    raise AttributeError(f"module 'sfumato.games' has no attribute {name!r}")
