"""What was spent, by whom, on what: a budget that survives crashes, races, restarts and clever people.

rows, purse           a line as it is stored and sealed; the arithmetic of spent and held
charged               what is run, with its sensitivity: from these a charge is computed, and computed again
entries               what is handed in and given back: entries, lines, stored answers
store, places, sqlite the seam to what keeps the lines; where a file may live; SQLite
desk, anchors, book   one transaction; what must still be there; both together, guarded
tabs, accounts        holds and their steps; the account of one population
verifying, ledgers    every line checked; the ledger itself
"""

from sfumato.ledger.accounts import Account
from sfumato.ledger.anchors import Anchor
from sfumato.ledger.charged import Charged
from sfumato.ledger.entries import Entry, Line, StoredAnswer
from sfumato.ledger.ledgers import Ledger
from sfumato.ledger.tabs import Tab
from sfumato.ledger.verifying import Verification

__all__ = ["Account", "Anchor", "Charged", "Entry", "Ledger", "Line", "StoredAnswer", "Tab", "Verification"]
