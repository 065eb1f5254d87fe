"""What the ledger's tests share: small accounts, entries, and other processes that do one thing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import sfumato as sf

PATIENT = sf.PrivacyUnit("patient")
BEHIND = "ignore:line [0-9]+ of this ledger is missing or was changed:sfumato.errors.WeakLedger"
"""What whoever opens a ledger that was rolled back is warned of, where a test does that on purpose."""

NEVER_AGAIN = "never charge it again"
"""What whoever copies a backup or an export is warned of: its ledger may still be there, and nobody seals it."""


def account(ledger: sf.Ledger, budget: sf.Budget | None = None, name: str = "clinic") -> sf.Account:
    return ledger.account(name, unit=PATIENT, budget=budget or sf.Budget(1))


def pure(epsilon: object = "0.1", **rest: object) -> sf.Entry:
    return sf.Entry(sf.Curve.pure(epsilon), **rest)  # type: ignore[arg-type]


def script(
    code: str, *arguments: object, wrap: tuple[str, ...] = (), check: bool = True, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter; it finds its arguments in sys.argv[1:], and what is ``given`` as its input."""
    command = [*wrap, sys.executable, "-c", code, *map(str, arguments)]
    found = [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, found))}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=120, check=False, input=given
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done
