"""The ledger keeps what was spent, by whom, on what: a budget that survives crashes, races, restarts and clever people.

sealed_rows, spending     a line as it is stored and sealed; the arithmetic of spent and held
spending                  what is run, with its sensitivity: from these a charge is computed, and computed again
sealed_rows               what identifies private rows, so that no guess of them can be tested
entries                   what is handed in and given back: entries, lines, stored answers
store, opening            the seam to what keeps the lines; from an address to a store
sqlite, sqlite_copies     lines in one file; lines written to a new one
server_addresses          the address of a database, without a password
postgres                  lines in a database that several machines share; postgres_sessions: one connection to it;
                          postgres_schema: its tables and rights; postgres_faults: its indexes checked;
                          postgres_listeners: whether anybody listens at its address
moving                    a ledger copied as it is to another place, and sealed where it was
local_files, bodies       where a file may live; large answers as files beside the ledger
transaction, anchors      what is read and appended at once; what must still be there
guarded                   both together: nothing is written to a ledger that lost lines
processes, asking         which process still runs; of equal questions at once, who pays
spending_limits           what is reserved elsewhere before an account is charged
amending                  a budget changed while it is in use
holds, accounts           amounts held for steps; the account of one population
period_accounts           an account for each period, where a policy keeps one
verifying, ledgers        every line checked; the ledger itself
"""

from sfumato.ledger.accounts.account import Account
from sfumato.ledger.accounts.holds import Tab
from sfumato.ledger.accounts.period_accounts import PeriodAccounts
from sfumato.ledger.accounts.spending_limits import SpendingLimit
from sfumato.ledger.entries import Entry, Line, Publication, StoredAnswer
from sfumato.ledger.ledgers import Ledger
from sfumato.ledger.proofs.anchors import Anchor
from sfumato.ledger.proofs.verifying import Verification
from sfumato.ledger.spending import Charged

__all__ = [
    "Account",
    "Anchor",
    "Charged",
    "Entry",
    "Ledger",
    "Line",
    "PeriodAccounts",
    "Publication",
    "SpendingLimit",
    "StoredAnswer",
    "Tab",
    "Verification",
]
