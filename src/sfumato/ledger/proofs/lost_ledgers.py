"""An export is copied where its ledger is lost: whatever can be seen of that ledger from here is looked at first."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from sfumato.errors import InvalidParameter, LedgerUnavailable
from sfumato.ledger.stores.server_addresses import ServerAddress, is_server_address

_PATIENCE = 10.0
"""Seconds for a server to answer that may be destroyed."""


def require_lost(place: str, key: str) -> None:
    """Refuse an export, by the key of its ledger, while that ledger is still in its file here, or in its database,
    whether it was moved or not, and where that cannot be seen. A server may be destroyed if no connection to it can
    be made; one that listens is not, whatever it answers.
    """
    last = _at_a_server(place) if is_server_address(place) else _in_a_file(place)
    if last is None or last[0] != key:
        return
    if last[1]:
        raise LedgerUnavailable(
            f"an export is copied where its ledger is lost, and the ledger of this one was moved to {last[1]}",
            place=place,
            fix="name the ledger that it was moved to; if that is lost, copy the one that was moved to it again, "
            "with --accept-loss",
        )
    raise LedgerUnavailable(
        "an export is copied where its ledger is lost, and the ledger of this one is still here",
        place=place,
        fix="copy the ledger itself, which is sealed then; if it is destroyed, put it out of the way first",
    )


def _in_a_file(place: str) -> tuple[str, str] | None:
    """Read the key of the ledger in a file, and where it was moved to, if it was; None where there is none."""
    path = Path(place)
    if not path.is_absolute() or not _exists(path):
        return None
    try:
        # Whoever only reads would leave a log behind, which only a writer removes.
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True)) as file:
            ((key,),) = file.execute("SELECT key FROM header")
            last = file.execute("SELECT kind, detail FROM lines ORDER BY number DESC LIMIT 1").fetchall()
        return key, _moved(last)
    except (sqlite3.Error, ValueError, KeyError, TypeError):
        raise LedgerUnavailable(
            "an export is copied where its ledger is lost, and the file in which it was cannot be read",
            place=place,
            fix="let this user read it, when nobody has locked it; if the ledger in it is destroyed, put it out of "
            "the way first",
        ) from None


def _at_a_server(place: str) -> tuple[str, str] | None:
    """Read the same of the ledger in a database."""
    from sfumato.ledger.stores.postgres_sessions import last_line

    try:
        found = last_line(ServerAddress.of(place), _PATIENCE)
        return None if found is None else (found[0], _moved(found[1]))
    except (LedgerUnavailable, InvalidParameter, ValueError, KeyError, TypeError):
        raise LedgerUnavailable(
            "an export is copied where its ledger is lost, and the server on which it was does not let this user look",
            place=place,
            fix="let this user read it; if the ledger is destroyed, remove its schema from that server first",
        ) from None


def _moved(last: list[tuple[str, str]]) -> str:
    """Tell where the last line, if there is one, says that a ledger was moved to."""
    return next((str(json.loads(detail)["moved"]) for kind, detail in last if kind == "moved"), "")


def _exists(path: Path) -> bool:
    """Tell whether something is there; what may not be looked at may be."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True
