"""Games show what differential privacy does to incentives.

environment    types, outcomes, reactions, utilities
laws           the exact probabilities with which a mechanism chooses
rules          mechanisms over an environment
truth          how much a misreport gains, exactly, beside what privacy allows
facilities     where to build: environments on a line and on a graph
auctions       one price for everybody
bid_files      bids in a CSV file that no curator holds
commitment     exactly truthful without money
money          exactly truthful with money
play, crowds   games of actions, small and large; how far a profile is from equilibrium
mediation      an equilibrium, selected privately
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.games.auctions import Auction, Sale, digital_goods
from sfumato.games.commitment import Decision, Mixture, exactly_truthful
from sfumato.games.crowds import Crowd, market_entry, public_good, routes
from sfumato.games.environment import Environment, Gap
from sfumato.games.facilities import graph, line
from sfumato.games.laws import Law
from sfumato.games.mediation import Advice, Deviation, Mediation, equilibrium
from sfumato.games.money import Bill, Priced, truthful_with_money
from sfumato.games.play import MatrixGame, Nash, approximate_nash
from sfumato.games.rules import Stated, Welfare
from sfumato.games.truth import Misreport, Truthfulness, bounds, truthfulness
from sfumato.release.price_lists import evenly_spaced_prices

if TYPE_CHECKING:
    from sfumato.games.bid_files import read_bids as read_bids

__all__ = [
    "Advice",
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
        return import_module("sfumato.games.bid_files").read_bids
    raise AttributeError(f"module 'sfumato.games' has no attribute {name!r}")
