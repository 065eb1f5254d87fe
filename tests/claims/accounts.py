"""What an account and its ledger say, as claims: every line's costs, what is spent, held and left."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import sfumato as sf
from claims.flattening import figures
from sfumato.ledger import Line


def line_facts(line: Line) -> tuple[Any, ...]:
    """What a line says, but for its time, hashes and texts."""
    costs = tuple(str(each) for each in (line.cost, line.spent, line.held))
    return line.kind, line.account, line.analyst, line.tab, line.about, line.request_id, *costs, line.parts


def ledger_facts(ledger: sf.Ledger, after: int = 0) -> dict[str, Any]:
    return {f"{line.number:02}": line_facts(line) for line in ledger if line.number > after}


def account_facts(account: sf.Account, *analysts: str) -> dict[str, Any]:
    """What is spent and left now, for the account and for analysts."""
    found: dict[str, Any] = {
        "spent": account.spent,
        "left": _left(account.remaining),
        "totals": str(account.budget.totals),
    }
    for name in analysts:
        known = account.analyst(name)
        found[name] = {"share": known.share, "spent": known.spent, "left": _left(known.budget.remaining)}
        found[f"{name} said"] = figures(known)
        found[f"{name} asks"] = [_left(each.remaining) for each in account.budgets(name)]
    return found


def _left(amounts: Mapping[str, Any]) -> dict[str, Any]:
    """What is left, where it is almost nothing as a difference of large numbers: to so many places, not digits."""
    return {
        name: amount if amount is None or amount > 1e-6 else Fraction(round(amount * 10**13), 10**13)
        for name, amount in amounts.items()
    }
