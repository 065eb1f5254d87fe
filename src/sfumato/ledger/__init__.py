"""The ledger records what was spent, by whom and on what, so that a budget survives crashes, races and restarts.

sealed_rows                  a line as it is stored and sealed; keyed hashes of what identifies private rows
spending                     the arithmetic of spent and held; the mechanisms a charge is computed from
entries                      what is passed in and returned: entries, lines, stored answers; the lines of an account
                             as a table, with its columns
stores.store, .opening       the protocol of a store; from an address to a store
stores.sqlite                lines in one file, and copies to a new one
stores.server_addresses      the address of a database, without a password
stores.postgres              lines in a database that several machines share; postgres_connections: one connection
                             to it; postgres_schema: its tables and rights
moving                       a ledger copied unchanged to another place, and sealed where it was
local_files                  where a ledger file may live; locks; whether a process still runs; space held back for
                             answers on a disk that has filled up
transaction                  lines read and appended in one store transaction
guarded                      a store with its anchors: nothing is written to a ledger that lost lines
accounts.account             the account of one population
accounts.pending_queries     who pays when equal queries run at once
accounts.reservations        amounts held for a series of releases, or reserved elsewhere before an account is
                             charged; amended budgets
accounts.period_accounts     an account for each period
accounts.joined_sources      the data an account protects
proofs.anchors, .verifying   lines that must still exist; the rules that every line obeys
proofs.verification_runs     all lines verified in parts, by several processes, and resumed
proofs.exporting             exports of all lines
ledgers                      the ledger itself
"""

from sfumato.ledger.accounts.account import Account
from sfumato.ledger.accounts.period_accounts import PeriodAccounts
from sfumato.ledger.accounts.reservations import SpendingLimit, Tab
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
