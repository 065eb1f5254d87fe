"""Commands run in this process, and what they leave behind."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli import main

COUNTS = "SELECT origin, COUNT(*) AS flights FROM flights GROUP BY origin"


def run(*arguments: str | Path, given: str | bytes | None = None) -> Result:
    """One command; whatever it raises beside its exit is a failure of the test."""
    done = CliRunner().invoke(main, [str(each) for each in arguments], input=given)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def spent(policy: Path) -> float:
    """What the account of a policy has spent."""
    path = policy.parent / "sfumato.ledger"
    if not path.exists():
        return 0.0
    with sf.Ledger.open(path) as ledger:
        names = ledger.accounts
        return float(ledger.account(names[0]).spent["pure"] or 0) if names else 0.0
