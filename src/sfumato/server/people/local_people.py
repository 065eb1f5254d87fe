"""An owner changes people without a server: whoever can read a ledger is the owner of what it is about."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.curator.accounts.policy_account import LEDGER_NAME
from sfumato.errors import LedgerUnavailable
from sfumato.ledger.stores.server_addresses import is_server_address
from sfumato.server.people.database import beside
from sfumato.server.people.people_file import PeopleFile


@contextmanager
def people_of(ledger: str | os.PathLike[str] | None = None) -> Iterator[PeopleFile]:
    """Open the people file beside a ledger, or beside that of this folder, where there is one or a policy."""
    path = Path(LEDGER_NAME if ledger is None or is_server_address(ledger) else ledger)
    if not path.exists() and not any(path.parent.glob("*.toml")):
        raise LedgerUnavailable(
            "the users of a server are kept beside its ledger, and here is neither a ledger nor a policy",
            place=str(path),
            fix="run this in the folder of the policy, or name its ledger with --ledger",
        )
    people = PeopleFile(beside(path))
    try:
        yield people
    finally:
        people.close()


def who_runs_this() -> str:
    """Name who acts at the keyboard, as the acts are written down."""
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):
        return f"user {os.getuid()} (command line)"
