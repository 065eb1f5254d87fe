"""Mechanism design with differential privacy: truthfulness, auctions and equilibrium selection.

environment    types, outcomes, reactions, utilities; the exact outcome distribution of a selection; mechanisms over
               an environment; facility location on a line and on a graph
auctions       digital-goods auctions at one posted price
exact_truthfulness
               the largest gain from misreporting, exactly, and the bound that privacy implies; exactly truthful
               without money; exactly truthful with money
play           small and large games of actions; how far a profile is from equilibrium
mediation      private equilibrium selection by a mediator; bids from a CSV file without a curator
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.games.auctions import Auction, Sale, digital_goods
from sfumato.games.environment import Environment, Gap, Law, StatedMechanism, WelfareSelection, graph, line
from sfumato.games.exact_truthfulness import (
    Bill,
    Decision,
    Misreport,
    Mixture,
    PaymentMechanism,
    Truthfulness,
    bounds,
    exactly_truthful,
    truthful_with_money,
    truthfulness,
)
from sfumato.games.mediation import Deviation, Mediation, MediatorAdvice, equilibrium
from sfumato.games.play import Crowd, MatrixGame, Nash, approximate_nash, market_entry, public_good, routes
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
    "PaymentMechanism",
    "Sale",
    "StatedMechanism",
    "Truthfulness",
    "WelfareSelection",
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
    """Import ``read_bids`` on first use: it needs the curator, which imports the SQL parser."""
    if name == "read_bids":
        return import_module("sfumato.games.mediation").read_bids
    raise AttributeError(f"module 'sfumato.games' has no attribute {name!r}")
